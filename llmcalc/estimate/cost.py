"""What a million tokens cost, which part of it batching can share, and what energy they take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Never

from llmcalc.answers import ABSENT, Absent, Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Answered, layout, step, terms, verdict
from llmcalc.figures import Figure
from llmcalc.formulas import money, time
from llmcalc.plan import Deployment, Workload
from llmcalc.units import usd

MONTH_HOURS = 730


@dataclass(frozen=True, slots=True)
class Ownership:
    """A bought device: price, years of straight-line amortisation, USD per kWh, and the facility's overhead factor (PUE)."""

    purchase_usd: float
    years: float = 4
    usd_per_kwh: float = 0.10
    pue: float = 1.3


def paid(plan: Deployment, replicas: int = 1) -> Figure:
    """Devices that a bill counts for so many replicas: their ranks, or all of the nodes that these take."""
    if plan.device.rented == 1:
        return Figure("devices", plan.ranks * replicas, "", layout.LAYOUT)
    each = Figure("devices_per_node", plan.device.rented, "", f"{plan.device.id}, rented in whole nodes")
    ranks, number = Figure("ranks", plan.ranks, "", layout.LAYOUT), Figure("replicas", replicas, "", layout.LAYOUT)
    nodes = money.nodes_taken.of(replicas=number, ranks=ranks, devices_per_node=each)
    return Figure("devices", nodes.value * each.value, "", f"whole nodes of {each.value}", None, (nodes, each))


def hourly(plan: Deployment, owned: Ownership | None, replicas: int = 1) -> tuple[Figure, str]:
    """USD per hour of all devices, and where the price comes from. Errors: no-price, no-power."""
    device = plan.device
    if owned is not None:
        if device.power_most_w is None:
            raise UsageError("no-power", f"{device.id} has no known power, so owning it cannot be priced", "give `price` instead")
        each = money.owned_usd_per_hour.of(
            purchase_usd=Figure("purchase_usd", owned.purchase_usd, "usd", "`purchase`"),
            years=Figure("years", owned.years, "", "`years`"),
            power_w=Figure("power_w", device.power_most_w, "W", f"{device.id}, rated"),
            usd_per_kwh=Figure("usd_per_kwh", owned.usd_per_kwh, "usd", "`kwh`"),
            pue=Figure("pue", owned.pue, "", "`pue`"),
        )
        power = f"{device.power_most_w:g} W at {usd(owned.usd_per_kwh)}/kWh, PUE {owned.pue:g}"
        text = f"owned: {usd(owned.purchase_usd)} over {owned.years:g} years, {power}"
    elif plan.usd_per_device_hour is not None:
        each, text = (
            Figure("usd_per_device_hour", plan.usd_per_device_hour, "usd/h", "`price`"),
            f"price {usd(plan.usd_per_device_hour)} per device-hour, as given",
        )
    else:
        price, text = device.price()
        if price is None:
            raise UsageError("no-price", text, "give one with `price`, in USD per device-hour")
        each = Figure("usd_per_device_hour", price, "usd/h", text)
    bill = paid(plan, replicas)
    if plan.device.rented > 1:
        text += f"; whole nodes of {plan.device.rented}: {bill.value} devices paid, {plan.ranks * replicas} in use"
    return money.deployment_usd_per_hour.of(as_name="usd_per_hour", usd_per_device_hour=each, devices=bill), text


def price_warning(plan: Deployment) -> tuple[str, ...]:
    """That prices of the profile are old, where one of them is used."""
    old = plan.device.old_prices() if plan.usd_per_device_hour is None else ""
    return (f"{old}; `price` sets one",) if old else ()


@answer("cost")
class Cost(Answer):
    """What a million tokens cost, and what that is made of."""

    usd_per_million_output_tokens: float | None = field("1M output tokens", "usd")
    expected_usd_per_million_output_tokens: float | None = field("  expected in an engine", "usd")
    fixed_usd_per_million: float | None = field("  shared by the batch", "usd", "halves when the batch doubles")
    marginal_usd_per_million: float | None = field("  each sequence's own", "usd", "no batch shares it", detail=True)
    usd_per_million_output_floor: float | None = field("  floor of any batch", "usd", "if only caches were read")
    napkin_usd_per_million_output_tokens: float | None = field("  textbook", "usd", shown=False, detail=True)
    usd_per_million_input_tokens: float | None = field("1M input tokens", "usd")
    usd_per_million_blended: float | None = field("1M tokens, blended", "usd")
    usd_per_hour: float | None = field("per hour", "usd/h", meaning="all devices")
    paid_devices: int | Absent = field("  devices paid for", note="whole nodes", default=ABSENT)
    tokens_per_s: float = field("tokens/s of the batch", "tokens/s")
    tpot_s: float = field("TPOT", "s")
    napkin_tpot_s: float = field("  textbook", "s", shown=False, detail=True)
    expected_tpot_s: float = field(unit="s", shown=False)
    expected_tpot_low_s: float = field(shown=False, meaning="low end", unit="s")
    expected_tpot_high_s: float = field(shown=False, meaning="high end", unit="s")
    expected_step_time_s: float = field("  expected in an engine", "s")
    expected_usd_per_million_output_tokens_low: float | None = field(shown=False, meaning="low end", unit="usd")
    expected_usd_per_million_output_tokens_high: float | None = field(shown=False, meaning="high end", unit="usd")
    expected_step_time_low_s: float = field(shown=False, meaning="low end", unit="s")
    expected_step_time_high_s: float = field(shown=False, meaning="high end", unit="s")
    energy_joules_per_token: float | None = field("joules per token", note="at rated power")
    expected_joules_per_token: float | None = field("  expected in an engine", "J", detail=True)
    expected_joules_per_token_low: float | None = field(shown=False, meaning="low end", unit="J")
    expected_joules_per_token_high: float | None = field(shown=False, meaning="high end", unit="J")
    expected_power_w: float | None = field("power drawn", "W", "all devices, as measured shares of rated power have it", detail=True)
    power_usd_per_month: float | Absent | None = field(
        "power per month", "usd", meaning="of an owned server: watts drawn, 730 h, PUE, kWh price", default=ABSENT
    )
    fits: bool | None = field("fits", detail=True)


def _power(
    model: Model, plan: Deployment, work: Workload, step_time_s: float, owned: Ownership | None, utilization: float
) -> dict[str, float | Absent | None]:
    """Joules of a token with their range, watts of all devices, and what an owned server's power costs in a month of 730 hours."""
    found = step.energy(model, plan, work)
    joules = None if found is None else found.mid_s
    watts = None if joules is None else joules * work.batch / step_time_s
    month: float | Absent | None = ABSENT if owned is None else None
    if owned is not None and watts is not None:
        month = MONTH_HOURS * money.power_usd_per_hour(watts * utilization, owned.pue, owned.usd_per_kwh)
    return {
        "expected_joules_per_token": joules,
        "expected_joules_per_token_low": None if found is None else found.low_s,
        "expected_joules_per_token_high": None if found is None else found.high_s,
        "expected_power_w": watts,
        "power_usd_per_month": month,
    }


def cost(
    model: Model, plan: Deployment, work: Workload, *, method: str = "napkin", utilization: float = 1.0, owned: Ownership | None = None
) -> Answered[Cost, Never]:
    """USD per million output, input and blended tokens at `work.batch` sequences of `work.ctx` tokens; None without a price."""
    try:
        hour, price_text = hourly(plan, owned)
    except UsageError as problem:
        if problem.code != "no-price":
            raise
        hour, price_text = None, problem.message
    told = step.readings(model, plan, work, method)
    likely, prompt = told.expected, work.prompt_tokens
    answer = work.output if work.output is not None else prompt
    rate = time.tokens_per_s.of(batch=Figure("batch", work.batch, "", "`batch`"), step_time_s=told.force.mid)
    reading = step.prompt_busy(model, plan, prompt, work.cached, method)
    found: dict[str, Figure | None] = dict.fromkeys(PRICES)
    if hour is not None:
        busy = Figure("utilization", utilization, "", "`utilization`")
        seconds = None if reading.value is None else reading.value / prompt / plan.dp
        found |= _prices(hour, busy, rate, told, work, _shares(model, plan, work, method, told.force.terms), seconds)
    power = plan.device.power_most_w
    found["energy_joules_per_token"] = None
    if power is not None:
        rated = Figure("power_w", power, "W", f"{plan.device.id}, rated")
        devices = Figure("devices", plan.ranks, "", layout.LAYOUT)
        found["energy_joules_per_token"] = money.joules_per_token.of(
            as_name="energy_joules_per_token", power_w=rated, devices=devices, tokens_per_s=rate
        )
    fitted = verdict.holds(model, plan, work)
    warnings = [*fitted.warnings]
    if hour is None:
        warnings.append(f"every usd_…: {price_text}; give one with `price`, in USD per device-hour")
    elif owned is None:
        warnings += price_warning(plan)
    if hour is not None and reading.value is None:
        warnings.append(f"usd_per_million_input_tokens and usd_per_million_blended: {reading.origin}")
    if power is None:
        warnings.append(f"energy_joules_per_token, expected_joules_per_token, expected_power_w: no power is recorded for {plan.device.id}")
    values: dict[str, Any] = {key: None if figure is None else figure.value for key, figure in found.items()} | told.beside
    values |= _power(model, plan, work, likely.mid_s, owned, utilization)
    return Answered(
        Cost(
            **values,
            usd_per_hour=None if hour is None else hour.value,
            paid_devices=paid(plan).value if plan.device.rented > 1 else ABSENT,
            tokens_per_s=rate.value,
            tpot_s=told.force.mid.value,
            expected_step_time_s=likely.mid_s,
            expected_step_time_low_s=likely.low_s,
            expected_step_time_high_s=likely.high_s,
            fits=fitted.fits,
        ),
        inputs={"prompt_tokens": prompt, "output_tokens": answer},
        figures={key: figure for key in SHOWN if (figure := found[key]) is not None},
        assumptions=(
            *terms.assumptions(model, plan),
            *(() if hour is None else (price_text,)),
            f"the devices are busy {utilization:.0%} of the time" if utilization < 1 else "the devices are always busy (`utilization=1`)",
            Aside(f"blended over {prompt:,} prompt and {answer:,} output tokens"),
            Aside(f"method {method}: {step.METHODS[method]}"),
            Aside(f"expected: {likely.words}"),
        ),
        warnings=tuple(warnings),
    )


SHOWN = (
    "usd_per_million_output_tokens",
    "expected_usd_per_million_output_tokens",
    "usd_per_million_output_floor",
    "fixed_usd_per_million",
    "usd_per_million_blended",
    "energy_joules_per_token",
)
"""What is explained."""
PRICES = (
    *SHOWN[:-1],
    "marginal_usd_per_million",
    "usd_per_million_input_tokens",
    "napkin_usd_per_million_output_tokens",
    "expected_usd_per_million_output_tokens_low",
    "expected_usd_per_million_output_tokens_high",
)
ENDLESS = 10**7
"""Sequences of a batch that is as good as endless."""


def _prices(
    hour: Figure,
    busy: Figure,
    rate: Figure,
    told: step.Readings,
    work: Workload,
    shares: tuple[float, float, str, str],
    seconds_per_prompt_token: float | None,
) -> dict[str, Figure | None]:
    """USD per million tokens of every kind; None of those that need a prompt's time where that is not known."""

    def priced(name: str, seconds: float | None, origin: str) -> Figure | None:
        if seconds is None:
            return None
        per_token = Figure("seconds_per_token", seconds, "s", origin)
        return money.usd_per_million_from_time.of(as_name=name, usd_per_hour=hour, seconds_per_token=per_token, utilization=busy)

    own_s, endless_s, whose, endless_whose = shares
    prompt, likely = work.prompt_tokens, told.expected
    read = priced("usd_per_million_input_tokens", seconds_per_prompt_token, f"prefill of {prompt:,} tokens, per token")
    output = money.usd_per_million_tokens.of(
        as_name="usd_per_million_output_tokens", usd_per_hour=hour, tokens_per_s=rate, utilization=busy
    )
    blended = None
    if read is not None:
        blended = money.blended_usd_per_million.of(
            as_name="usd_per_million_blended",
            input_usd=read,
            output_usd=output,
            prompt_tokens=Figure("prompt_tokens", prompt, "tokens", "`prompt`"),
            output_tokens=Figure("output_tokens", work.output if work.output is not None else prompt, "tokens", "`output_tokens`"),
        )
    rest = told.force.mid.value / work.batch - own_s
    found = [
        priced("fixed_usd_per_million", rest, "the rest of the step, shared by the batch"),
        priced("marginal_usd_per_million", own_s, whose),
        priced("usd_per_million_output_floor", endless_s, endless_whose),
        priced("napkin_usd_per_million_output_tokens", told.napkin.mid_s / work.batch, ""),
    ]
    for end, seconds in (("", likely.mid_s), ("_low", likely.low_s), ("_high", likely.high_s)):
        name = f"expected_usd_per_million_output_tokens{end}"
        found.append(priced(name, seconds / work.batch, "the expected step, shared by the batch"))
    return {one.name: one for one in (output, read, blended, *found) if one is not None}


def _shares(model: Model, plan: Deployment, work: Workload, method: str, parts: dict[str, Figure]) -> tuple[float, float, str, str]:
    """(What one more sequence adds to a step, its share of an endless batch's step, what either is). [s]

    By the textbook its own cache, and past the critical batch its arithmetic; by the others the difference of two steps.
    """
    if method == "napkin":
        cache_s = parts["kv_read_s"].value / work.batch
        arithmetic = parts["compute_s"].value or 0
        binds = arithmetic > parts["weight_read_s"].value
        own_s = cache_s + (arithmetic / work.batch if binds else 0)
        return own_s, cache_s, "one sequence's cache" + (" and arithmetic" if binds else ""), "reading one sequence's cache"
    one, more, endless = (
        step.step(model, plan, replace(work, batch=batch), method).mid_s for batch in (work.batch, work.batch + 1, ENDLESS)
    )
    return more - one, endless / ENDLESS, "what one more sequence adds to the step", "a share of an endless batch"
