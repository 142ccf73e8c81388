"""`llmcalc weights`: parameters and bytes by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from llmcalc.commands import common as c
from llmcalc.estimate import memory, weight_files
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc weights --model Qwen/Qwen3-30B-A3B

  llmcalc weights -m openai/gpt-oss-120b --weights mxfp4 --explain

  llmcalc weights -m ./Qwen3-8B-Q4_K_M.gguf --from-files
"""
COLUMNS = (
    Column("part", "part"),
    Column("params", "parameters", "params"),
    Column("active_params", "active per token", "params", rank=1),
    Column("bytes", "bytes", "B"),
)
FILE_COLUMNS = (
    Column("part", "part"),
    Column("params", "computed", "params"),
    Column("active_params", "active per token", "params", shown=False),
    Column("bytes", "bytes", "B"),
    Column("file_params", "in the files", "params", rank=2),
    Column("file_bytes", "bytes there", "B"),
    Column("file_dtypes", "stored as", rank=3),
)
FromFilesOption = Annotated[
    bool, typer.Option("--from-files", help="Read the weight files' headers too (safetensors, GGUF; no weights), and compare.")
]


def weights(
    model: c.ModelOption,
    weights: c.WeightsOption = "auto",
    from_files: FromFilesOption = False,
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    explain: c.ExplainOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
) -> None:
    """Parameters, active parameters and weight bytes, by part."""
    from llmcalc import sources

    source = sources.find(model, revision=revision, offline=offline, refresh=refresh)
    found = c.of_source(source)
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
    if from_files:
        files = weight_files.compare(sources.weight_files(source, offline=offline), found, estimate)
        unlike = any(row["params"] != row["file_params"] for row in files.rows)  # else one column of bytes says it all
        report = replace(
            report,
            facts=(*facts, *file_facts(files.results)),
            columns=tuple(replace(column, shown=column.shown and (unlike or column.unit != "params")) for column in FILE_COLUMNS),
            rows=files.rows,
            warnings=(*report.warnings, *(text for text in files.warnings if text not in report.warnings)),
        )
    c.emit(report, format=format, json=json, output=output, explain=explain)


def file_facts(r: dict[str, Any]) -> tuple[Fact, ...]:
    """What the files hold, and what makes the difference to the computed bytes."""
    difference = r["file_difference_bytes"]
    lines = [Fact("", f"  {one['reason']}", one["bytes"], "B") for one in r["file_differences"]]
    extras = [Fact("", f"  {one['name']}", one["bytes"], "B", note=one["why"]) for one in r["extra_files"]]
    return (
        Fact("file_bytes", f"{r['file_count']:,} weight file{'s' if r['file_count'] > 1 else ''}", r["file_bytes"], "B"),
        Fact("file_tensor_bytes", "  tensors in them", r["file_tensor_bytes"], "B"),
        Fact("file_params", "  parameters in them", r["file_params"], "params"),
        Fact("file_bits_per_weight", "  bits per weight", r["file_bits_per_weight"]),
        Fact("file_count", "files", r["file_count"], shown=False),
        Fact("file_bytes_by_dtype", "bytes by dtype", r["file_bytes_by_dtype"], shown=False),
        *(Fact("", f"    in {name}", size, "B") for name, size in r["file_bytes_by_dtype"].items()),
        Fact("file_difference_bytes", "tensors less computed", difference, "B"),
        Fact("file_differences", "differences", r["file_differences"], shown=False),
        *lines,
        Fact("extra_files", "other files", r["extra_files"], shown=False),
        *((Fact("", "beside them, not counted", sum(one["bytes"] for one in r["extra_files"]), "B"), *extras) if extras else ()),
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("weights", epilog=EXAMPLES)(c.estimating(weights))
