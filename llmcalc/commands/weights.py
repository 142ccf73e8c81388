"""`llmcalc weights`: parameters and bytes by part."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.estimate import memory
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc weights --model Qwen/Qwen3-30B-A3B

  llmcalc weights -m openai/gpt-oss-120b --weights mxfp4 --explain
"""
COLUMNS = (
    Column("part", "part"),
    Column("params", "parameters", "params"),
    Column("active_params", "active per token", "params"),
    Column("bytes", "bytes", "B"),
)


def weights(
    model: c.ModelOption,
    weights: c.WeightsOption = "auto",
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    explain: c.ExplainOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
) -> None:
    """Parameters, active parameters and weight bytes, by part."""
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    estimate = memory.weights(found, weights)
    r = estimate.results
    moe = r["active_params_with_embedding"] != r["language_params"]
    facts = (
        Fact("language_params", "language model", r["language_params"], "params"),
        Fact("tower_params", "vision and audio towers", r["tower_params"], "params", r["tower_params"] != 0),
        Fact("total_params", "all parameters", r["total_params"], "params", r["tower_params"] not in (0, None)),
        Fact("active_params", "active per token", r["active_params"], "params", note="without the embedding table, with the head"),
        Fact("active_params_with_embedding", "  with the embedding", r["active_params_with_embedding"], "params", moe),
        Fact("embedding_params", "embedding table", r["embedding_params"], "params", shown=False),
        Fact("weight_bytes", "weights", r["weight_bytes"], "B"),
        Fact("bits_per_weight", "bits per weight", r["bits_per_weight"]),
        Fact("mtp_params", "multi-token prediction", r["mtp_params"], "params", r["mtp_params"] > 0, note="apart, not in the total"),
        Fact("mtp_bytes", "  in bytes", r["mtp_bytes"], "B", r["mtp_params"] > 0),
    )
    report = Report(
        command="weights",
        title=f"Weights of {found.id}",
        model=c.model_header(found),
        inputs=estimate.inputs,
        header=(c.model_line(found), f"weights {estimate.inputs['weights']}"),
        facts=facts,
        columns=COLUMNS,
        rows=estimate.rows,
        assumptions=estimate.assumptions,
        warnings=estimate.warnings,
        figures=estimate.figures,
    )
    c.emit(report, format=format, json=json, output=output, explain=explain)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("weights", epilog=EXAMPLES)(weights)
