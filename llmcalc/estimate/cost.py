"""What a million tokens cost, which part of it batching can share, and what energy they take."""

from __future__ import annotations

from dataclasses import dataclass

from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Estimate, decode, layout, prefill
from llmcalc.figures import Figure
from llmcalc.formulas import money, time
from llmcalc.plan import Deployment, Workload
from llmcalc.units import usd


@dataclass(frozen=True, slots=True)
class Ownership:
    """A bought device: price, years of straight-line amortisation, USD per kWh, and the facility's overhead factor (PUE)."""

    purchase_usd: float
    years: float = 4
    usd_per_kwh: float = 0.10
    pue: float = 1.3


def hourly(plan: Deployment, owned: Ownership | None) -> tuple[Figure, str]:
    """USD per hour of all devices, and where the price comes from. Errors: no-price, no-power."""
    device = plan.device
    if owned is not None:
        if device.power_w is None:
            raise UsageError("no-power", f"{device.id} has no known power, so owning it cannot be priced", "give --price instead")
        each = money.owned_usd_per_hour.of(
            purchase_usd=Figure("purchase_usd", owned.purchase_usd, "usd", "--purchase"),
            years=Figure("years", owned.years, "", "--years"),
            power_w=Figure("power_w", device.power_w, "W", f"{device.id}, rated"),
            usd_per_kwh=Figure("usd_per_kwh", owned.usd_per_kwh, "usd", "--kwh"),
            pue=Figure("pue", owned.pue, "", "--pue"),
        )
        text = f"owned: {usd(owned.purchase_usd)} over {owned.years:g} years, {device.power_w:g} W at {usd(owned.usd_per_kwh)}/kWh, PUE {owned.pue:g}"
    elif plan.usd_per_device_hour is not None:
        each, text = Figure("usd_per_device_hour", plan.usd_per_device_hour, "usd/h", "--price"), f"price {usd(plan.usd_per_device_hour)} per device-hour, as given"
    else:
        price, text = device.price()
        if price is None:
            raise UsageError("no-price", text, "give one with --price, in USD per device-hour")
        each = Figure("usd_per_device_hour", price, "usd/h", text)
    ranks = Figure("devices", plan.ranks, "", layout.LAYOUT)
    return money.deployment_usd_per_hour.of(as_name="usd_per_hour", usd_per_device_hour=each, devices=ranks), text


def cost(
    model: Model, plan: Deployment, work: Workload, *, method: str = "napkin", utilization: float = 1.0, owned: Ownership | None = None
) -> Estimate:
    """USD per million output, input and blended tokens at `work.batch` sequences of `work.ctx` tokens."""
    hour, price_text = hourly(plan, owned)
    terms = decode.step(model, plan, work, method)
    length = decode.step_time(terms, method)
    busy = Figure("utilization", utilization, "", "--utilization")
    batch = Figure("batch", work.batch, "", "--batch")
    rate = time.tokens_per_s.of(batch=batch, step_time_s=length)
    output = money.usd_per_million_tokens.of(as_name="usd_per_million_output_tokens", usd_per_hour=hour, tokens_per_s=rate, utilization=busy)

    def priced(name: str, seconds: float, origin: str) -> Figure:
        per_token = Figure("seconds_per_token", seconds, "s", origin)
        return money.usd_per_million_from_time.of(as_name=name, usd_per_hour=hour, seconds_per_token=per_token, utilization=busy)

    # Only the reading of the caches grows with the batch; dividing it by the batch leaves it as it is.
    marginal_s = terms["kv_read_s"].value / work.batch
    marginal = priced("marginal_usd_per_million", marginal_s, "reading one sequence's cache")
    fixed = priced("fixed_usd_per_million", length.value / work.batch - marginal_s, "the rest of the step, shared by the batch")
    prompt = prefill.workload_prompt(work)
    found = prefill.terms(model, plan, prompt, work.cached)
    reading = prefill.length(found)
    read_cost = None if reading.value is None else priced("usd_per_million_input_tokens", reading.value / prompt, f"prefill of {prompt:,} tokens, per token")
    answer = work.output if work.output is not None else prompt
    blended = (
        None
        if read_cost is None
        else money.blended_usd_per_million.of(
            as_name="usd_per_million_blended",
            input_usd=read_cost,
            output_usd=output,
            prompt_tokens=Figure("prompt_tokens", prompt, "tokens", "--prompt"),
            output_tokens=Figure("output_tokens", answer, "tokens", "--output-tokens"),
        )
    )
    power = plan.device.power_w
    energy = (
        None
        if power is None
        else money.joules_per_token.of(
            as_name="energy_joules_per_token",
            power_w=Figure("power_w", power, "W", f"{plan.device.id}, rated"),
            devices=Figure("devices", plan.ranks, "", layout.LAYOUT),
            tokens_per_s=rate,
        )
    )
    fitted = decode.fits(model, plan, work)
    warnings = [*fitted.warnings]
    if read_cost is None:
        warnings.append(f"usd_per_million_input_tokens and usd_per_million_blended: {reading.origin}")
    if energy is None:
        warnings.append(f"energy_joules_per_token: no power is recorded for {plan.device.id}")
    results = {
        "usd_per_million_output_tokens": output.value,
        "usd_per_million_input_tokens": read_cost.value if read_cost else None,
        "usd_per_million_blended": blended.value if blended else None,
        "usd_per_million_output_floor": marginal.value,
        "fixed_usd_per_million": fixed.value,
        "marginal_usd_per_million": marginal.value,
        "usd_per_hour": hour.value,
        "energy_joules_per_token": energy.value if energy else None,
        "tokens_per_s": rate.value,
        "tpot_s": length.value,
        "fits": fitted.results["fits"],
    }
    figures = {"usd_per_million_output_tokens": output, "fixed_usd_per_million": fixed, "marginal_usd_per_million": marginal}
    if blended:
        figures["usd_per_million_blended"] = blended
    if energy:
        figures["energy_joules_per_token"] = energy
    return Estimate(
        results=results,
        figures=figures,
        assumptions=(
            *decode.assumptions(model, plan),
            price_text,
            f"the devices are busy {utilization:.0%} of the time" if utilization < 1 else "the devices are always busy (--utilization 1)",
            f"blended over {prompt:,} prompt and {answer:,} output tokens",
            f"method {method}: ideal rates, so an engine costs more",
        ),
        warnings=tuple(warnings),
    )


