"""`llmcalc spec`: what speculative decoding gains, where the gain ends, and why the output stays the target's."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from llmcalc.commands import common as c
from llmcalc.errors import UsageError
from llmcalc.estimate import speculation as estimator
from llmcalc.plan import Workload
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc spec -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 64 --acceptance 0.8 --draft-cost 0.05

  llmcalc spec -m meta-llama/Llama-3.1-70B-Instruct -d '4x h100-sxm' --acceptance 0.7 --draft meta-llama/Llama-3.2-1B-Instruct

  llmcalc spec -m Qwen/Qwen3-8B -d rtx-4090 --preset eagle

  llmcalc spec --p 0.6,0.4 --q 0.9,0.1
"""


def spec(
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help="The target: org/name, folder, config.json.")] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware", "-d", "--gpu", "--device", metavar="DEVICE", autocompletion=c.completion.devices, help="Id or alias of a device."
        ),
    ] = None,
    acceptance: Annotated[
        str | None, typer.Option("--acceptance", "-a", metavar="SHARE", help="Chance that a draft token is accepted.")
    ] = None,
    draft_tokens: Annotated[
        str | None, typer.Option("--draft-tokens", "-g", metavar="N", help="Drafts per step. [default: the best]")
    ] = None,
    draft: Annotated[
        str | None,
        typer.Option("--draft", "--draft-model", metavar="MODEL", autocompletion=c.completion.models, help="A draft model by name."),
    ] = None,
    draft_cost: Annotated[
        str | None, typer.Option("--draft-cost", metavar="SHARE", help="Cost of one draft as a share of a pass over the target's weights.")
    ] = None,
    preset: Annotated[str | None, typer.Option("--preset", metavar="NAME", help="eagle, eagle3, medusa, mtp or ngram.")] = None,
    p: Annotated[
        str | None, typer.Option("--p", metavar="P,P,…", help="The target's probabilities, with --q: proves the output exact.")
    ] = None,
    q: Annotated[str | None, typer.Option("--q", metavar="Q,Q,…", help="The draft's probabilities.")] = None,
    ctx: c.CtxOption = None,
    batch: c.BatchOption = "1",
    weights: c.WeightsOption = "auto",
    kv_dtype: c.KvOption = "auto",
    tp: c.TpOption = None,
    pp: c.PpOption = "1",
    ep: c.EpOption = "1",
    reserve: c.ReserveOption = "0",
    engine: c.EngineOption = "napkin",
    memory_utilization: c.UtilizationOption = None,
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    explain: c.ExplainOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
    check: c.CheckOption = False,
) -> None:
    """Speculative decoding: tokens per step, speed-up at this batch and context, the best draft length."""
    proof = None
    if (p is None) != (q is None):
        raise UsageError("bad-value", "--p and --q come together", "write them like --p 0.6,0.4 --q 0.9,0.1")
    if p is not None and q is not None:
        proof = estimator.exactness(estimator.distribution(p.split(","), "p"), estimator.distribution(q.split(","), "q"))
    if model is None or hardware is None:
        if proof is None or model is not None or hardware is not None:
            raise UsageError(
                "bad-value", "a model and a device are needed, or --p and --q", "llmcalc spec -m Qwen/Qwen3-8B -d h100-sxm --preset eagle"
            )
        c.emit(_proof_report(proof), format=format, json=json, output=output, explain=explain, check=check)
        return
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    tokens, assumed = c.context(found, ctx, at_most=c.DEFAULT_CTX)
    layout: dict[str, Any] = {"tp": tp, "pp": pp, "ep": ep}
    plan = c.deployment(
        found, hardware, weights=weights, kv_dtype=kv_dtype, reserve=reserve, engine=engine, memory_utilization=memory_utilization, **layout
    )
    if sum(option is not None for option in (draft, draft_cost, preset)) > 1:
        raise UsageError("bad-value", "--draft, --draft-cost and --preset are three ways to say the same", "give one of them")
    chosen = None if preset is None else estimator.preset(preset)
    if chosen is not None:
        drafter = estimator.preset_draft(found, chosen)
    elif draft is not None:
        small = c.load(draft, offline=offline, refresh=refresh)
        drafter = estimator.Draft(
            model=small, plan=c.deployment(small, hardware, **layout), words=f"drafts by {small.id} on the same devices, one after another"
        )
    elif draft_cost is not None:
        drafter = estimator.Draft(0.0 if draft_cost.strip() in ("0", "0.0") else c.fraction(draft_cost, "draft-cost"))
    else:
        raise UsageError(
            "no-draft", "nothing says what drafts, or what a draft costs", "give --draft MODEL, --preset eagle or --draft-cost 0.05"
        )
    said: tuple[str, ...]
    if acceptance is not None:
        rate, said = c.fraction(acceptance, "acceptance"), ()
    elif proof is not None:
        rate, said = float(proof.acceptance), ("acceptance from --p and --q",)
    elif chosen is not None and chosen.acceptance is not None:
        rate, said = chosen.acceptance, (f"acceptance {chosen.acceptance:g} of {chosen.name}: not given, and it depends on the text",)
    else:
        raise UsageError("no-acceptance", "the acceptance is not known", "measure it on your own traffic and give --acceptance 0.7")
    sequences = c.whole_number(batch, "batch")
    longest = chosen.longest if chosen else estimator.LONGEST
    number = None if draft_tokens is None else c.whole_number(draft_tokens, "draft-tokens", most=1000)
    estimate = estimator.speculation(found, plan, Workload(tokens, sequences), rate, drafter, number, longest)
    r = estimate.results
    report = Report(
        command="spec",
        title=f"Speculative decoding of {found.id} on {plan.ranks} × {plan.device.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            "batch": sequences,
            "preset": preset,
            "draft_model": draft,
            "draft_cost": drafter.cost,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan), f"ctx {tokens:,} tokens · batch {sequences:,}"),
        facts=facts(
            r,
            speedup=f"at batch {sequences:,} and {tokens:,} tokens of context",
            draft_tokens="" if draft_tokens else "the best of this point",
            slower_from_batch=r.slower_from_batch is not None,
            tokens_per_s=sequences > 1,
            draft_memory_bytes=r.draft_memory_bytes is not None,
        )
        + (facts(proof.proof) if proof else ()),
        columns=columns(estimator.AtBatch),
        rows=estimate.rows,
        assumptions=(*assumed, *said, *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=r.speedup > 1 and r.fits is not False,
        absent=(
            ("slower_from_batch", f"faster at every batch up to {estimate.rows[-1].batch:,}"),
            ("draft_memory_bytes", "not counted: only --draft MODEL says what drafts"),
        ),
    )
    c.emit(report, format=format, json=json, output=output, explain=explain, check=check)


def _proof_report(proof: estimator.Exactness) -> Report:
    return Report(
        command="spec",
        title="Rejection sampling with a draft: the output is the target's",
        facts=facts(estimator.Alone(acceptance=float(proof.acceptance))) + facts(proof.proof),
        assumptions=("exact fractions, no rounding",),
        warnings=() if proof.residual is not None else ("residual, residual_text: p and q are equal, so nothing is ever rejected",),
        verdict=proof.exact,
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("spec", epilog=EXAMPLES)(c.estimating(spec))
