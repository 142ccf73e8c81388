"""`llmcalc spec`: what speculative decoding gains, where the gain ends, and why the output stays the target's."""

from __future__ import annotations

import typer

from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
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


class Target(o.Whence):
    """The model whose tokens are drafted; none where distributions alone are compared."""

    model = o.ModelChoice.model.but(default=None, help="The target: org/name, folder, config.json.")


class On(o.Layout, o.Wires):
    """The device, where there is a model."""

    hardware = o.Placement.hardware.but(default=None, help="Id or alias of a device.")


def _share(text: str, name: str) -> float:
    return 0.0 if text.strip() in ("0", "0.0") else parse.fraction(text, name)


class Drafting(o.Group):
    """What drafts, how many tokens, and how many of them are accepted."""

    section = "Deployment"
    acceptance = o.option(None, "--acceptance", "-a", metavar="SHARE", read=parse.fraction, help="Chance that a draft token is accepted.")
    accepted_ratio = o.option(
        None,
        "--accepted-ratio",
        metavar="SHARE",
        read=parse.fraction,
        help="Accepted of drafted tokens, as logs count, with --draft-tokens.",
    )
    draft_tokens = o.Drafts.draft_tokens.but(default=None, read=parse.counting(most=1000), help="Drafts per step. [default: the best]")
    draft = o.Drafts.draft.but(default=None, help="A draft model by name.")
    draft_cost = o.option(
        None, "--draft-cost", metavar="SHARE", read=_share, help="Cost of one draft as a share of a pass over the target's weights."
    )
    preset = o.option(
        None, "--preset", autocompletion=completion.presets, metavar="NAME", help="eagle, eagle3, medusa, mtp, dflash or ngram."
    )
    p = o.option(None, "--p", metavar="P,P,…", help="The target's probabilities, with --q: proves the output exact.")
    q = o.option(None, "--q", metavar="Q,Q,…", help="The draft's probabilities.")


def spec(which: Target, place: On, work: o.Work, drafting: Drafting, by: o.Deciding, run: o.Running, out: o.Output) -> None:
    """Speculative decoding: tokens per step, speed-up at this batch and context, the best draft length."""
    model, hardware, proof = which.model, place.hardware, _proof(drafting.p, drafting.q)
    if model is None or hardware is None:
        if proof is None or model is not None or hardware is not None:
            raise UsageError(
                "bad-value", "a model and a device are needed, or --p and --q", "llmcalc spec -m Qwen/Qwen3-8B -d h100-sxm --preset eagle"
            )
        c.say(_proof_report(proof), out)
        return
    found = c.load(model, revision=which.revision, offline=which.offline, refresh=which.refresh)
    tokens, assumed = c.held(found, work, at_most=c.DEFAULT_CTX)
    plan = c.laid_out(found, hardware, place, run)
    chosen, drafter = _drafter(found, which, place, drafting)
    rate, said = _acceptance(drafting, proof, chosen)
    sequences, number = work.batch, drafting.draft_tokens
    longest = chosen.longest if chosen else estimator.LONGEST
    estimate = estimator.speculation(found, plan, Workload(tokens, sequences), rate, drafter, number, longest, by.method)
    r = estimate.results
    report = Report(
        command="spec",
        scan=True,
        title=f"Speculative decoding of {found.id} on {plan.ranks} × {plan.device.id}",
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            **c.image_inputs(found, work.image),
            "batch": sequences,
            "method": by.method,
            "preset": drafting.preset,
            "draft_model": drafting.draft,
            "draft_cost": drafter.cost,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan), f"ctx {tokens:,} tokens · batch {sequences:,} · {by.method}"),
        facts=facts(
            r,
            speedup=f"at batch {sequences:,} and {tokens:,} tokens of context",
            draft_tokens="" if number else "the best of this point",
            slower_from_batch=r.slower_from_batch is not None,
            tokens_per_s=sequences > 1,
            tpot_s=c.between(r, "expected_tpot", "s") if by.method == "expected" else "",
            napkin_tpot_s=by.method != "napkin",
            expected_tpot_s=c.between(r, "expected_tpot", "s") if by.method != "expected" else False,
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
    c.say(report, out)


def _proof(p: str | None, q: str | None) -> estimator.Exactness | None:
    """That of two distributions, where they are given. Errors: bad-value, bad-distribution."""
    if p is not None and q is not None:
        return estimator.exactness(estimator.distribution(p.split(","), "p"), estimator.distribution(q.split(","), "q"))
    if p is not None or q is not None:
        raise UsageError("bad-value", "--p and --q come together", "write them like --p 0.6,0.4 --q 0.9,0.1")
    return None


def _drafter(found: Model, which: Target, place: On, drafting: Drafting) -> tuple[estimator.Preset | None, estimator.Draft]:
    """(Preset, draft) that the options describe. Errors: bad-value, no-draft."""
    if sum(option is not None for option in (drafting.draft, drafting.draft_cost, drafting.preset)) > 1:
        raise UsageError("bad-value", "--draft, --draft-cost and --preset are three ways to say the same", "give one of them")
    chosen = None if drafting.preset is None else estimator.preset(drafting.preset)
    if chosen is not None:
        return chosen, estimator.preset_draft(found, chosen)
    if drafting.draft is not None:
        small = c.beside(which, drafting.draft)
        plan = c.laid_out(
            small,
            str(place.hardware),
            On(tp=place.tp, pp=place.pp, ep=place.ep, link=place.link, network=place.network, power_cap=place.power_cap),
        )
        return None, estimator.Draft(model=small, plan=plan, words=f"drafts by {small.id} on the same devices, one after another")
    if drafting.draft_cost is not None:
        return None, estimator.Draft(drafting.draft_cost)
    raise UsageError(
        "no-draft", "nothing says what drafts, or what a draft costs", "give --draft MODEL, --preset eagle or --draft-cost 0.05"
    )


def _acceptance(drafting: Drafting, proof: estimator.Exactness | None, chosen: estimator.Preset | None) -> tuple[float, tuple[str, ...]]:
    """(Share of drafts that are accepted, what was assumed). Errors: no-acceptance."""
    if drafting.accepted_ratio is not None:
        if drafting.acceptance is not None or drafting.draft_tokens is None:
            raise UsageError(
                "bad-value",
                "--accepted-ratio is of --draft-tokens, and stands for --acceptance",
                "write --draft-tokens 3 --accepted-ratio 0.8",
            )
        rate = estimator.chance(drafting.accepted_ratio, drafting.draft_tokens)
        return rate, (f"acceptance {rate:.3f} at each position makes {drafting.accepted_ratio:g} of all drafts accepted",)
    if drafting.acceptance is not None:
        return drafting.acceptance, ()
    if proof is not None:
        return float(proof.acceptance), ("acceptance from --p and --q",)
    if chosen is not None and chosen.acceptance is not None:
        return chosen.acceptance, (f"acceptance {chosen.acceptance:g} of {chosen.name}: not given, and it depends on the text",)
    raise UsageError("no-acceptance", "the acceptance is not known", "measure it on your own traffic and give --acceptance 0.7")


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
    app.command("spec", epilog=EXAMPLES)(o.command(spec))
