"""`llmcalc cost`: USD per million tokens, what batching shares of it, and energy per token."""

from __future__ import annotations

import typer

from llmcalc.answers import Words
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.errors import UsageError
from llmcalc.estimate import cost as estimator
from llmcalc.plan import Deployment, Workload
from llmcalc.present import Report, facts

EXAMPLES = """
Examples:

  llmcalc cost -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32 --price 3

  llmcalc cost -m Qwen/Qwen3-32B -d h200-sxm -b 64 --prompt 3000 --output-tokens 400 --utilization 0.6

  llmcalc cost -m Qwen/Qwen3-8B -d rtx-4090 -b 8 --owned --purchase 1599 --kwh 0.30
"""


class Owned(o.Money):
    """Rent, or what owning the devices costs."""

    utilization = o.option("1", "--utilization", metavar="SHARE", read=parse.fraction, help="Share of the time the devices are busy.")
    owned = o.switch("--owned", help="Amortised purchase and power instead of rent.")
    purchase = o.option(
        None, "--purchase", metavar="USD", read=parse.quantity("usd"), help="Purchase price per device. [default: the profile's MSRP]"
    )
    years = o.option("4", "--years", metavar="N", read=parse.positive, help="Years of amortisation.")
    kwh = o.option("0.10", "--kwh", metavar="USD", read=parse.quantity("usd"), help="USD per kWh.")
    pue = o.option("1.3", "--pue", metavar="FACTOR", read=parse.positive, help="Overhead of the facility on the devices' power.")

    def ownership(self, plan: Deployment) -> estimator.Ownership | None:
        """What owning costs, where it is asked for. Errors: bad-value, no-price."""
        if not self.owned and self.purchase is None:
            return None
        if self.price is not None:
            raise UsageError("bad-value", "--price is rent and --owned is not", "give one of them")
        bought = plan.device.msrp_usd if self.purchase is None else self.purchase
        if bought is None:
            raise UsageError("no-price", f"no purchase price is recorded for {plan.device.id}", "give one with --purchase, in USD")
        return estimator.Ownership(bought, self.years, self.kwh, self.pue)


def cost(
    which: o.ModelChoice, place: o.Placement, work: o.Work, request: o.Request, money: Owned, by: o.Deciding, run: o.Running, out: o.Output
) -> None:
    """What a million tokens cost, and how much of that a bigger batch would share."""
    found = c.chosen(which)
    tokens, assumed = c.held(found, work, at_most=c.DEFAULT_CTX)
    sequences, method = work.batch, by.method
    plan = c.placed(found, place, run, money)
    ownership = money.ownership(plan)
    read, answer = request.prompt, request.output_tokens
    known = parse.within(request.cached, read or tokens)
    held = Workload(tokens, sequences, read, answer, known)
    estimate = estimator.cost(found, plan, held, method=method, utilization=money.utilization, owned=ownership)
    r = estimate.results
    verdict = r.fits is not False
    cost_range, time_range = c.between(r, "expected_usd_per_million_output_tokens", "usd"), c.between(r, "expected_step_time", "s")
    report = Report(
        command="cost",
        title=f"Cost of {found.id} on {plan.ranks} × {plan.device.id}" + ("" if verdict else ": does not fit"),
        model=c.model_header(found),
        hardware=c.hardware_header(plan),
        inputs={
            "ctx_tokens": tokens,
            **c.image_inputs(found, work.image),
            "batch": sequences,
            "method": method,
            "utilization": money.utilization,
            "prompt_tokens": estimate.inputs["prompt_tokens"],
            "cached_tokens": known,
            "output_tokens": estimate.inputs["output_tokens"],
            "usd_per_device_hour": plan.usd_per_device_hour,
            "owned": ownership is not None,
            **c.plan_inputs(plan),
        },
        header=(c.model_line(found), c.hardware_line(plan), f"ctx {tokens:,} tokens · batch {sequences:,} · {method}"),
        facts=facts(
            r,
            usd_per_million_output_tokens=cost_range if method == "expected" else "",
            expected_usd_per_million_output_tokens=cost_range if method != "expected" else False,
            napkin_usd_per_million_output_tokens=method != "napkin" and r.napkin_usd_per_million_output_tokens is not None,
            usd_per_million_output_floor=Words(
                "  floor of any batch",
                note="if only caches were read" if method == "napkin" else "in an endless batch",
                shown=r.usd_per_million_output_floor != r.marginal_usd_per_million,
            ),
            usd_per_hour=Words(f"{plan.ranks} × {plan.device.id} per hour"),
            tpot_s=time_range if method == "expected" else "",
            expected_step_time_s=time_range if method != "expected" else False,
            napkin_tpot_s=method != "napkin",
        ),
        assumptions=(*assumed, *c.variant(plan), *estimate.assumptions),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=verdict,
    )
    c.say(report, out)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("cost", epilog=EXAMPLES)(o.command(cost))
