"""`llmcalc kv`: what the cache of a model holds."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.estimate import memory
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc kv --model Qwen/Qwen3-8B --ctx 32768

  llmcalc kv -m deepseek-ai/DeepSeek-V3 -c 128k -b 16 --kv-dtype fp8

  llmcalc kv -m ./config.json --explain --json
"""
COLUMNS = (
    Column("layers", "layers"),
    Column("kind", "kind"),
    Column("bytes_per_token", "per token", "B/token"),
    Column("bytes_per_token_beyond_window", "beyond window", "B/token", shown=False),
    Column("window_tokens", "window", "tokens"),
    Column("state_bytes", "state", "B"),
    Column("bytes_per_sequence", "per sequence", "B"),
)


def kv(
    model: c.ModelOption,
    ctx: c.CtxOption = None,
    batch: c.BatchOption = "1",
    kv_dtype: c.KvOption = "auto",
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    explain: c.ExplainOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
) -> None:
    """KV cache and recurrent state, by kind of layer."""
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    tokens, assumed = c.context(found, ctx)
    sequences = c.whole_number(batch, "batch")
    estimate = memory.kv(found, tokens, sequences, kv_dtype)
    r = estimate.results
    windowed = r["kv_bytes_per_token"] != r["kv_bytes_per_token_beyond_window"]
    saved = r["kv_bytes_per_sequence"] != r["kv_bytes_per_sequence_full_attention"]
    facts = (
        Fact("kv_bytes_per_token", "KV per token", r["kv_bytes_per_token"], "B/token"),
        Fact("kv_bytes_per_token_beyond_window", "  once windows are full", r["kv_bytes_per_token_beyond_window"], "B/token", windowed),
        Fact("state_bytes_per_sequence", "state per sequence", r["state_bytes_per_sequence"], "B", r["state_bytes_per_sequence"] > 0),
        Fact("kv_bytes_per_sequence", "KV per sequence", r["kv_bytes_per_sequence"], "B"),
        Fact("kv_bytes_total", f"KV of {sequences:,} sequences", r["kv_bytes_total"], "B", sequences > 1),
        Fact("kv_bytes_per_sequence_full_attention", "  if no layer had a window", r["kv_bytes_per_sequence_full_attention"], "B", saved),
        Fact("query_heads_per_kv_head", "query heads per KV head", r["query_heads_per_kv_head"]),
        Fact("max_context_tokens", "longest context", r["max_context_tokens"], "tokens"),
        Fact(
            "native_context_tokens",
            "  before it was stretched",
            r["native_context_tokens"],
            "tokens",
            r["native_context_tokens"] not in (None, r["max_context_tokens"]),
        ),
    )
    report = Report(
        command="kv",
        title=f"KV cache of {found.id}",
        model=c.model_header(found),
        inputs=estimate.inputs,
        header=(
            c.model_line(found),
            f"ctx {tokens:,} tokens · batch {sequences:,} · KV {estimate.inputs['kv_dtype']}",
        ),
        facts=facts,
        columns=COLUMNS,
        rows=estimate.rows,
        assumptions=(*assumed, *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
    )
    c.emit(report, format=format, json=json, output=output, explain=explain)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("kv", epilog=EXAMPLES)(kv)
