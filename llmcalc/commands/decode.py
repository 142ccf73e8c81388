"""`llmcalc decode`: the time of one decode step, what binds it, and the critical batch."""

from __future__ import annotations

import typer

from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import UsageError
from llmcalc.estimate import decode as estimator
from llmcalc.estimate.step import shaped
from llmcalc.plan import Deployment, Workload
from llmcalc.present import Report, facts

EXAMPLES = """
Examples:

  llmcalc decode -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32 --explain

  llmcalc decode -m Qwen/Qwen3-8B -d dgx-spark

  llmcalc decode -m Qwen/Qwen3-30B-A3B -d h100-sxm -b 8 --method roofline
"""


class Others(o.Group):
    """The requests that are served beside the step."""

    section = "Workload"
    prompt = o.Request.prompt.but(help="Prompt of the others' requests, which interrupt the expected step.")
    output_tokens = o.Request.output_tokens


def decode(which: o.ModelChoice, place: o.Placement, work: o.Work, others: Others, by: o.Reading, run: o.Hosting, out: o.Output) -> None:
    """One decode step: its time, tokens per second, what binds it, and from which batch arithmetic does."""
    found = c.chosen(which)
    method, read, answer = by.method, others.prompt, others.output_tokens
    if (read is None) != (answer is None):
        raise UsageError("bad-value", "--prompt and --output-tokens describe a request together", "give both, or neither")
    tokens, assumed = c.held(found, work, at_most=c.DEFAULT_CTX)
    if work.ctx is None and read is not None and answer is not None:
        looked = c.seen(found, work.image)
        tokens = read + answer // 2 + (looked.tokens if looked else 0)
        assumed = (f"ctx {tokens:,} tokens: the prompt{', its images' if looked else ''} and half of the answer",)
    sequences = work.batch
    plan = c.placed(found, place, run)
    held = Workload(tokens, sequences, read, answer)
    estimate = estimator.decode(found, plan, held, method)
    r = estimate.results
    verdict = r.fits is not False
    usual = {
        "napkin": "the textbook's; engines usually take longer",
        "roofline": "no engine beats it",
        "expected": _expected(r, plan, held),
    }
    said = facts(
        r,
        step_time_s=usual[method] if verdict else "if there were memory for it",
        expected_step_time_s=_expected(r, plan, held) if method != "expected" else False,
        floor_step_time_s=method != "roofline",
        napkin_step_time_s=method != "napkin",
        tokens_per_s=sequences > 1,
        communication_s=plan.ranks > 1,
        overhead_s=method == "expected",
        bound=estimator.WORDS[r.bound],
    )
    report = Report(
        command="decode",
        title=f"Decode step of {found.id} on {plan.ranks} × {plan.device.id}" + ("" if verdict else ": does not fit"),
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            **c.image_inputs(found, work.image),
            "batch": sequences,
            **({} if read is None else {"prompt_tokens": read, "output_tokens": answer}),
            "method": method,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan), f"ctx {tokens:,} tokens · batch {sequences:,} · {method}"),
        facts=said,
        assumptions=(*assumed, *c.variant(plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=verdict,
    )
    c.say(report, out)


def _expected(r: estimator.Decode, plan: Deployment, work: Workload) -> str:
    more = "" if shaped(plan, work) else "; --prompt and --output-tokens narrow it"
    return c.between(r, "expected_step_time", "s") + more


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decode", epilog=EXAMPLES)(o.command(decode))
