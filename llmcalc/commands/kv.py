"""`llmcalc kv`: what the cache of a model holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from llmcalc.answers import ABSENT, Words
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.estimate import memory
from llmcalc.present import Report, columns, facts

if TYPE_CHECKING:
    from llmcalc.architecture import Model
    from llmcalc.plan import Deployment

EXAMPLES = """
Examples:

  llmcalc kv --model Qwen/Qwen3-8B --ctx 32768

  llmcalc kv -m deepseek-ai/DeepSeek-V3 -c 128k -b 16 --kv-dtype fp8

  llmcalc kv -m google/gemma-3-27b-it -c 32k --engine vllm

  llmcalc kv -m ./config.json --explain --json
"""


class Beside(o.Layout):
    """A device, where its share is asked."""

    needs = "hardware"
    hardware = o.Placement.hardware.but(default=None, help="A device, to see which share of it the cache takes.")


def kv(which: o.ModelChoice, work: o.Work, place: Beside, run: o.Running, out: o.Output) -> None:
    """KV cache and recurrent state, by kind of layer."""
    found = c.chosen(which)
    tokens, assumed = c.held(found, work)
    sequences, hardware, engine = work.batch, place.hardware, run.engine
    estimate = memory.kv(found, tokens, sequences, place.kv_dtype)
    plan = _placed(found, place, run)
    held, said = beside(found, plan, tokens, sequences, on_device=hardware is not None) if plan else ({}, ())
    r = replace(estimate.results, **held)
    fits = r.max_batch is ABSENT or r.max_batch >= sequences
    short = () if fits else (f"does not fit: {hardware} holds {r.max_batch:,} of {sequences:,} sequences",)
    report = Report(
        command="kv",
        title=f"KV cache of {found.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan) if plan and hardware else None,
        inputs=estimate.inputs
        | c.image_inputs(found, work.image)
        | (c.plan_inputs(plan) if plan and hardware else {"engine": plan.engine.name} if plan else {}),
        remarks=said,
        header=(
            c.model_line(found),
            f"ctx {tokens:,} tokens · batch {sequences:,} · KV {estimate.inputs['kv_dtype']}",
        ),
        facts=facts(
            r,
            kv_bytes_per_token_beyond_window=r.kv_bytes_per_token != r.kv_bytes_per_token_beyond_window,
            state_bytes_per_sequence=r.state_bytes_per_sequence > 0,
            kv_bytes_total=Words(f"  of {c.counted(sequences, 'sequence')}", shown=sequences > 1),
            kv_bytes_per_sequence_full_attention=Words(
                "one without windows" if held or sequences > 1 else "  if no layer had a window",
                shown=r.kv_bytes_per_sequence != r.kv_bytes_per_sequence_full_attention,
            ),
            native_context_tokens=r.native_context_tokens not in (None, r.max_context_tokens),
            **{key: Words(note=engine, shown=key != "engine_kv_bytes_total" or sequences > 1) for key in held},
        ),
        columns=columns(memory.KvLayers),
        rows=estimate.rows,
        assumptions=(
            *assumed,
            *(c.variant(plan) if plan and hardware else ()),
            *(c.release(engine, plan) if plan else ()),
            *estimate.assumptions,
        ),
        warnings=(*short, *estimate.warnings),
        figures=estimate.figures,
        verdict=fits if hardware else None,
        absent=(
            ("window_tokens", "null for layers without a window"),
            ("max_context_tokens native_context_tokens", "the config does not say"),
        ),
    )
    c.say(report, out)


def _placed(found: Model, place: Beside, run: o.Running) -> Deployment | None:
    """The deployment that the options describe; None where they say neither a device nor an engine nor a layout."""
    if place.hardware is not None:
        return c.laid_out(found, place.hardware, place, run)
    degrees = ("tp", "pp", "ep", "dp")
    if run.engine == "napkin" and not place.gave(*degrees):
        return None
    ranks = {name: place.words[name] for name in degrees if getattr(place, name) is not None}
    layout = o.Layout(weights="bf16", kv_dtype=place.kv_dtype, **ranks)
    return c.laid_out(found, LARGE, layout, o.Running(engine=run.engine, max_num_batched_tokens=run.max_num_batched_tokens))


LARGE = "h100-sxm"
"""Stands for a device of 70 GiB or more where an engine's defaults need one and none is named."""


def beside(found: Model, plan: Deployment, tokens: int, batch: int, *, on_device: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What an engine and a device add to the ideal figures, and in words how the engine counts."""
    from llmcalc.estimate import verdict, words
    from llmcalc.plan import Workload

    held = verdict.kv_held(found, plan, Workload(tokens, batch))
    if not on_device:
        held = {key: value for key, value in held.items() if key.startswith(("engine", "kv_"))}
    if plan.engine.nominal:
        del held["engine_kv_bytes_per_sequence"], held["engine_kv_bytes_total"]
        return held, ()
    said = words.words(found, plan, tokens)
    if on_device or plan.engine.large is None:
        return held, said
    return held, (*said, f"{plan.engine.name}'s defaults are those on a device of 70 GiB or more")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("kv", epilog=EXAMPLES)(o.command(kv))
