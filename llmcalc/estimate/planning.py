"""From a rate of requests and limits to deployments: how many replicas of which layout, checked by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llmcalc import formats, units
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError, UsageError
from llmcalc.estimate import Estimate, cost, layout, serving, simulate, step
from llmcalc.figures import Figure
from llmcalc.formulas import money
from llmcalc.formulas import serving as f
from llmcalc.plan import Deployment, Workload
from llmcalc.traffic import Kind, Request, Traffic
from llmcalc.units import seconds

HOURS_PER_MONTH = 730
MOST_BATCH = 1024  # max_num_seqs of vLLM on large devices
MOST_REPLICAS = 100_000
PREFILL_DERATE, DECODE_DERATE = 0.9, 0.92  # aiconfigurator picking.py


@dataclass(frozen=True, slots=True)
class Service:
    """What is asked: traffic, limits at a percentile (None: no limit), and how far a replica may be loaded.

    `mfu` and `mbu`: the shares of compute rate and bandwidth that an engine reaches. `chunk`: prompt tokens per step.
    """

    traffic: Traffic
    max_ttft_s: float | None = None
    max_tpot_s: float | None = None
    percentile: float = 0.95
    max_utilization: float = 0.8
    mfu: float = 0.5
    mbu: float = 0.8
    chunk: int = 2048
    max_batch: int = MOST_BATCH
    simulated: int = 3000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Replica:
    """One layout under this traffic: its rates, and what limits its batch."""

    plan: Deployment
    rates: serving.Rates
    profile: serving.Profile
    batch_limit: int
    memory_batch: int
    tpot_batch: int
    max_rate: float
    unlimited_rate: float

    @property
    def bound(self) -> str:
        """What keeps the rate down: the batch limit where it costs over a tenth of it, else the device itself."""
        if self.max_rate > 0.9 * self.unlimited_rate:
            return "saturation"
        return "memory" if self.batch_limit == self.memory_batch else "tpot" if self.batch_limit == self.tpot_batch else "saturation"


def replica(model: Model, plan: Deployment, service: Service, sample: list[Request]) -> Replica:
    """Sample the estimator and find the batch limit. A batch limit of 0: not one sequence works."""
    rates = serving.rates(model, plan, timed=serving.derated(plan, service.mfu, service.mbu))
    profile = serving.Profile.of(sample)
    held = 0 if rates.capacity(profile.longest) == 0 else rates.capacity(math.ceil(profile.prompt + profile.output))
    quick = service.max_batch if service.max_tpot_s is None else serving.batch_within(rates, profile, service.max_tpot_s, service.max_batch)
    limit = min(held, quick, service.max_batch)

    def highest(batch: int) -> float:
        return float(serving.highest(rates, profile, batch, service.chunk)[0].value)

    return Replica(plan, rates, profile, limit, held, quick, highest(limit) if limit else 0.0, highest(service.max_batch) if held else 0.0)


def candidates(model: Model, plan: Deployment) -> Iterator[Deployment]:
    """Layouts inside a node as the engine makes them by itself, each valid for the model."""
    devices = 1
    while devices <= max(1, plan.device.devices_per_node):
        tp, pp = plan.engine.layout(devices)
        option = replace(plan, tp=tp, pp=pp)
        if layout.obstacle(model, option) is None and (tp == 1 or plan.device.link is not None):
            yield option
        devices *= 2


def run(
    found: Replica, service: Service, replicas: int, seed: int = 0, count: int | None = None, batch: int | None = None
) -> simulate.Outcome:
    """Simulate one of `replicas` replicas, among which requests are dealt at random."""
    number = count or service.simulated
    traced = service.traffic.trace is not None
    return simulate.simulate(
        found.rates,
        service.traffic.requests(service.seed + seed, replicas),
        max_batch=batch or found.batch_limit,
        chunk=service.chunk,
        count=None if traced else number,
        warmup=0 if traced else max(number // 10, min(number, 3 * found.batch_limit)),
    )


def violated(outcome: simulate.Outcome, service: Service) -> str | None:
    """The limit that a simulation breaks, or None."""
    for name, limit, measured in (("ttft", service.max_ttft_s, outcome.ttft), ("tpot", service.max_tpot_s, outcome.tpot)):
        value = measured.at(service.percentile)
        if limit is not None and value is not None and value > limit:
            return name
    return None


def excess(outcome: simulate.Outcome, service: Service, name: str) -> tuple[float, float]:
    """The time that a limit is on [s], and how many times the limit it is."""
    measured, limit = (outcome.ttft, service.max_ttft_s) if name == "ttft" else (outcome.tpot, service.max_tpot_s)
    value = measured.at(service.percentile) or 0.0
    return value, value / limit if limit else 1.0


def smallest(least: int, check: Callable[[int], str | None]) -> tuple[int | None, str | None]:
    """The smallest number from `least` that passes, and the last reason against a smaller one. None: nothing passes."""
    fails, reason, number = least - 1, None, least
    while (why := check(number)) is not None:
        fails, reason = number, why
        number = max(number + 1, math.ceil(number * 1.3))
        if number > max(64, 40 * least):  # a load of 2% and still too slow: more replicas do not help
            return None, reason
    while number - fails > 1:
        middle = (number + fails) // 2
        why = check(middle)
        if why is None:
            number = middle
        else:
            fails, reason = middle, why
    return number, reason


def size(model: Model, plan: Deployment, service: Service, sample: list[Request]) -> dict[str, Any]:
    """The fewest replicas of one layout that meet the limits, as a row.

    Where none do, `why` says what forbids it and `over` by how much: bytes that are missing, or a time as a multiple of its limit.
    """
    row: dict[str, Any] = {"hardware": plan.device.id, "tp": plan.tp, "devices_per_replica": plan.ranks}
    refused = layout.obstacle(model, plan)
    if refused is not None:
        valid = ", ".join(str(option.tp) for option in candidates(model, plan))
        return row | {"why": f"engines refuse it: {refused}; valid tp: {valid}", "binding": None}
    found = replica(model, plan, service, sample)
    row["batch_limit"] = found.batch_limit
    if found.batch_limit == 0:
        if found.memory_batch == 0:
            needed = found.rates.held_bytes(found.profile.longest + found.rates.block_tokens - 1)
            short = needed - found.rates.budget_bytes
            return row | {"why": f"does not fit: {units.size(short)} short", "binding": "memory", "over": short}
        one = found.rates.fixed_s(1) + found.profile.kv_s(found.rates)
        return row | {"why": f"TPOT of one sequence is {seconds(one)}", "binding": "tpot", "over": one / (service.max_tpot_s or one)}
    least = max(1, math.ceil(service.traffic.rate / (found.max_rate * service.max_utilization)))
    if least > MOST_REPLICAS:
        return row | {"why": f"over {MOST_REPLICAS:,} replicas", "binding": "saturation"}
    outcomes: dict[int, simulate.Outcome] = {}

    def check(replicas: int) -> str | None:
        outcome = run(found, service, replicas)
        why = violated(outcome, service)
        if why is None and service.traffic.trace is None:
            why = violated(run(found, service, replicas, seed=1), service)  # luck does not count
        outcomes[replicas] = outcome
        return why

    # A replica that nobody else uses is the best that any number of replicas can be.
    alone = (
        run(found, replace(service, traffic=replace(service.traffic, rate=found.max_rate * 0.01)), 1, count=300)
        if service.traffic.trace is None
        else None
    )
    if alone is not None and (broken := violated(alone, service)) is not None:
        value, over = excess(alone, service, broken)
        return row | {"why": f"{broken.upper()} is {seconds(value)} even without load", "binding": broken, "over": over}
    replicas, reason = smallest(least, check)
    if replicas is None:
        broken = reason or "ttft"
        value, over = min((excess(outcome, service, broken) for outcome in outcomes.values()), key=lambda found: found[1])
        words = f"{broken.upper()} is {seconds(value)} at best, with any number of replicas"
        return row | {"why": words, "binding": reason, "over": over}
    outcome = outcomes[replicas]
    rate = service.traffic.rate
    try:
        hour = cost.hourly(plan, None)[0].value * replicas
    except UsageError:
        hour = None
    binding = reason or found.bound
    return row | {
        "replicas": replicas,
        "devices": replicas * plan.ranks,
        "utilization": rate / replicas / found.max_rate,
        "max_rate_per_replica": found.max_rate,
        "memory_batch": found.memory_batch,
        "tpot_batch": found.tpot_batch if service.max_tpot_s is not None else None,
        "mean_batch": outcome.mean_batch,
        "ttft_p50_s": outcome.ttft.at(0.5),
        "ttft_p95_s": outcome.ttft.at(0.95),
        "ttft_p99_s": outcome.ttft.at(0.99),
        "tpot_p50_s": outcome.tpot.at(0.5),
        "tpot_p95_s": outcome.tpot.at(0.95),
        "tpot_p99_s": outcome.tpot.at(0.99),
        "e2e_p95_s": outcome.e2e.at(0.95),
        "preemptions": outcome.preemptions,
        "usd_per_hour": hour,
        "usd_per_month": None if hour is None else hour * HOURS_PER_MONTH,
        "usd_per_million_output_tokens": None if hour is None else money.usd_per_million_tokens(hour, rate * found.profile.output, 1),
        "binding": binding,
        "why": {
            "memory": f"memory holds {found.memory_batch:,} sequences",
            "tpot": f"TPOT holds the batch at {found.tpot_batch:,}" if reason is None else "TPOT under load",
            "ttft": "TTFT under load",
            "saturation": f"kept below {service.max_utilization:.0%} of saturation",
        }[binding],
    }


# ---- separate pools -----------------------------------------------------------------------------------------------


def pools(model: Model, plan: Deployment, service: Service, sample: list[Request], link_bytes_per_s: float) -> dict[str, Any]:
    """Prefill and decode on replicas of their own: how many of each, their ratio, and what they send each other.

    TTFT is bounded from above by the sum of the pools' percentiles and the transfer.
    """
    found = replica(model, plan, service, sample)
    if found.batch_limit == 0:
        return {"why": "does not fit" if found.memory_batch == 0 else "TPOT of one sequence is over the limit"}
    profile, rates, rate = found.profile, found.rates, service.traffic.rate
    reading = profile.prompt_s(rates, 0, 0)
    writing = max(profile.output - 1, 0) * serving.token_share_s(rates, profile.kv_s(rates), found.batch_limit)
    prefills = max(1, math.ceil(f.pool_replicas(rate, reading, PREFILL_DERATE)))
    decodes = max(1, math.ceil(f.pool_replicas(rate, writing, DECODE_DERATE)))
    moved = layout.sequence_bytes(model, plan, Figure("ctx_tokens", round(profile.prompt))).value
    transfer = f.transfer_s(moved, link_bytes_per_s)
    number = service.simulated

    def part(replicas: int, convert: Callable[[Request], Request], batch: int) -> simulate.Outcome:
        stream = map(convert, service.traffic.requests(service.seed, replicas))
        traced = service.traffic.trace is not None
        return simulate.simulate(
            rates, stream, max_batch=batch, chunk=0, count=None if traced else number, warmup=0 if traced else number // 10
        )

    while True:
        first = part(prefills, lambda request: request._replace(output=1), MOST_BATCH)
        rest = part(decodes, lambda request: request._replace(cached=request.prompt), found.batch_limit)
        ttft = (first.ttft.at(service.percentile) or 0) + transfer + (rest.ttft.at(service.percentile) or 0)
        tpot = rest.tpot.at(service.percentile) or 0
        if service.max_tpot_s is not None and tpot > service.max_tpot_s and decodes < 1000:
            decodes += 1
        elif service.max_ttft_s is not None and ttft > service.max_ttft_s and prefills < 1000 and decodes < 1000:
            waits = (rest.ttft.at(service.percentile) or 0) > (first.ttft.at(service.percentile) or 0) - reading
            prefills, decodes = prefills + (not waits), decodes + waits
        else:
            break
    return {
        "prefill_replicas": prefills,
        "decode_replicas": decodes,
        "prefill_devices": prefills * plan.ranks,
        "decode_devices": decodes * plan.ranks,
        "prefill_per_decode": f.pool_replicas(rate, reading, PREFILL_DERATE) / f.pool_replicas(rate, writing, DECODE_DERATE)
        if writing
        else None,
        "transfer_bytes_per_request": moved,
        "transfer_s": transfer,
        "transfer_bytes_per_s": f.transfer_rate(rate, moved),
        "ttft_s": ttft,
        "tpot_s": tpot,
        "met": (service.max_ttft_s is None or ttft <= service.max_ttft_s) and (service.max_tpot_s is None or tpot <= service.max_tpot_s),
    }


# ---- levers of a plan ---------------------------------------------------------------------------------------------


def next_lever(model: Model, plan: Deployment, service: Service, sample: list[Request]) -> tuple[str, float] | None:
    """The change that lets a device serve most more requests within the same limits, and how many times as many."""
    base = replica(model, plan, service, sample)
    if not base.max_rate:
        return None
    half = [request._replace(cached=max(request.cached, request.prompt // 2)) for request in sample]
    options: list[tuple[str, Callable[[], Replica]]] = [
        ("prefix cache for half of the prompt", partial(replica, model, plan, service, half))
    ]
    if plan.kv.bits > 8:
        options.append(("fp8 KV cache", partial(replica, model, replace(plan, kv=formats.find("fp8", kv=True)), service, sample)))
    if plan.weights.bits > 8:
        options.append(("fp8 weights", partial(replica, model, replace(plan, weights=formats.find("fp8")), service, sample)))
    if plan.device.link is not None and plan.tp < plan.device.devices_per_node and layout.tp_obstacle(model, plan.tp * 2) is None:
        options.append((f"tp {plan.tp * 2}", partial(replica, model, replace(plan, tp=plan.tp * 2), service, sample)))
    gains = {}
    for name, build in options:
        try:
            other = build()
        except LlmcalcError:
            continue
        gains[name] = other.max_rate / other.plan.ranks / (base.max_rate / base.plan.ranks)
    best = max(gains, key=lambda name: gains[name], default=None)
    return None if best is None or gains[best] <= 1.005 else (best, gains[best])


# ---- the plan -----------------------------------------------------------------------------------------------------


EXPECTED = tuple(f"expected_{what}{end}_s" for what in ("tpot", "ttft") for end in ("", "_low", "_high"))
EXPECTED_RATE = tuple(f"expected_max_rate_per_replica{end}" for end in ("", "_low", "_high"))


def plan(model: Model, layouts: list[Deployment], service: Service, *, fixed: bool = False) -> Estimate:
    """The cheapest deployment (or the smallest, where a price is missing) that meets the limits; rows: all that were tried.

    `fixed`: only the layouts given, else tensor parallelism of every size that a node has.
    """
    sample = service.traffic.sample()
    rows: list[dict[str, Any]] = []
    tried: list[Deployment] = []
    warnings: list[str] = []
    for base in layouts:
        for option in [base] if fixed else candidates(model, base):
            try:
                row = size(model, option, service, sample)
            except UsageError as problem:
                warnings.append(f"{option.device.id}: {problem.message}")
                continue
            rows.append(row)
            tried.append(option)
    met = [index for index, row in enumerate(rows) if row.get("replicas")]
    priced = bool(met) and all(rows[index]["usd_per_month"] is not None for index in met)
    keys = (
        "devices",
        "replicas",
        "tp",
        "batch_limit",
        "utilization",
        "max_rate_per_replica",
        "mean_batch",
        "ttft_p50_s",
        "ttft_p95_s",
        "ttft_p99_s",
        "tpot_p50_s",
        "tpot_p95_s",
        "tpot_p99_s",
        "e2e_p95_s",
        "preemptions",
        "usd_per_hour",
        "usd_per_month",
        "usd_per_million_output_tokens",
        "binding",
    )
    results: dict[str, Any] = {
        "hardware": None,
        **dict.fromkeys(keys),
        "next_lever": None,
        "next_lever_gain": None,
        "hours_per_month": HOURS_PER_MONTH,
    }
    if met:
        chosen = min(met, key=lambda index: (rows[index]["usd_per_month"] if priced else 0, rows[index]["devices"]))
        results |= {"hardware": rows[chosen]["hardware"]} | {key: rows[chosen][key] for key in keys}
        lever = next_lever(model, tried[chosen], service, sample)
        if lever is not None:
            results["next_lever"], results["next_lever_gain"] = lever
        else:
            warnings.append("next_lever: none of those tried lets a device serve more requests within the limits")
        if not priced:
            warnings.append("usd_per_month: not every device has a price, so the fewest devices were chosen")
        warnings += dict.fromkeys(old for base in layouts for old in cost.price_warning(base))
    else:
        bindings = [row.get("binding") for row in rows]
        results["binding"] = bindings[0] if len(set(bindings)) == 1 else None
        warnings.insert(0, f"no layout that was tried meets the limits, and all figures are null{_closest(rows)}")
    for row in rows:
        row.pop("over", None)
    profile = serving.Profile.of(sample)
    likely: list[str] = []
    results |= dict.fromkeys((*EXPECTED, *EXPECTED_RATE))
    if met and results["tpot_p50_s"] is None:
        warnings.append("tpot: every answer is a single token, which comes with the prompt")
    if met:
        batch, prompt, output = max(1.0, results["mean_batch"]), max(1, round(profile.prompt)), max(1, round(profile.output))
        busy = step.step(model, tried[chosen], Workload(profile.context, batch, prompt, output), "expected")
        first = step.ttft(model, tried[chosen], prompt, 0, round(batch) - 1)
        ends = (busy.mid_s, busy.low_s, busy.high_s, *((first.mid_s, first.low_s, first.high_s) if first else ()))
        results |= dict(zip(EXPECTED, ends, strict=False))
        full = step.load(model, tried[chosen], prompt, output)
        if full is None:
            why = "no full load of a desktop engine was measured; name a server's, as `engine=vllm`"
            warnings.append(f"{EXPECTED_RATE[0]}, its _low and _high: {why}")
        else:
            results |= dict(zip(EXPECTED_RATE, (end / output for end in (full.mid_s, full.low_s, full.high_s)), strict=True))
            likely = [f"expected requests/s: as many sequences at once as the memory holds; {full.words}"]
        likely = [f"expected TPOT at the mean batch: {busy.words}", *([f"expected TTFT: {first.words}"] if first else []), *likely]
    limits = [
        f"{name} at p{service.percentile * 100:g} at most {seconds(limit)}"
        for name, limit in (("TTFT", service.max_ttft_s), ("TPOT", service.max_tpot_s))
        if limit is not None
    ]
    return Estimate(
        results,
        _figures(model, tried[chosen], service, sample) if met else {},
        rows=tuple(rows),
        inputs={
            "rate": service.traffic.rate,
            "mean_prompt_tokens": profile.prompt,
            "mean_output_tokens": profile.output,
            "mean_context_tokens": profile.context,
        },
        assumptions=(
            *service.traffic.notes,
            "; ".join(limits) or "no limit on TTFT or TPOT: give `max_ttft` and `max_tpot`",
            f"an engine reaches {service.mfu:.0%} of the compute rate and {service.mbu:.0%} of the bandwidth (`mfu`, `mbu`)",
            f"chunked prefill of {service.chunk:,} tokens per step" if service.chunk else "whole prompts in one step",
            f"each replica is simulated with its share of the requests, "
            f"dealt {'in turn' if service.traffic.trace else 'at random'}; seed {service.seed}",
            f"kept below {service.max_utilization:.0%} of saturation; {HOURS_PER_MONTH} hours a month",
            *likely,
        ),
        warnings=tuple(warnings),
    )


def _closest(rows: list[dict[str, Any]]) -> str:
    """Which layout comes closest to the limits, and by how much it misses them: too slow before too small."""
    missed = [row for row in rows if row.get("over") is not None]
    if not missed:
        return ""
    row = min(missed, key=lambda row: (row["binding"] == "memory", row["over"]))
    by = "" if row["binding"] == "memory" else f", {row['over']:.3g} times the limit"
    return f"; closest comes {row['hardware']} with tp {row['tp']}: {row['why']}{by}"


def _figures(model: Model, layout_: Deployment, service: Service, sample: list[Request]) -> dict[str, Figure]:
    """The closed form behind the highest rate, as a derivation."""
    found = replica(model, layout_, service, sample)
    return {"max_rate_per_replica": serving.highest(found.rates, found.profile, found.batch_limit, service.chunk)[0]}


def kinds(prompt: int, output: int, cached: int = 0, reasoning: int = 0, prompt_cv: float = 0, output_cv: float = 0) -> tuple[Kind, ...]:
    """Requests of one kind; reasoning tokens are written before the answer and paid like it."""
    return (Kind(prompt, output + reasoning, cached, prompt_cv=prompt_cv, output_cv=output_cv),)


def load_test(found: Replica, service: Service, replicas: int, rates: list[float]) -> list[dict[str, Any]]:
    """What to expect at each rate of the whole deployment."""
    rows = []
    for rate in rates:
        outcome = run(found, replace(service, traffic=replace(service.traffic, rate=rate)), replicas)
        rows.append(
            {
                "rate": rate,
                "utilization": rate / replicas / found.max_rate,
                "concurrency": outcome.mean_batch * replicas,
                **{
                    f"{name}_p{int(share * 100)}_s": getattr(outcome, name).at(share)
                    for name in ("ttft", "tpot", "e2e")
                    for share in (0.5, 0.95, 0.99)
                },
                "output_tokens_per_s": rate * found.profile.output,
            }
        )
    return rows


def compared(predicted: list[dict[str, Any]], measured: list[dict[str, float]]) -> list[dict[str, Any]]:
    """The measured figures beside the predicted ones, and by what share the prediction is off."""
    rows = []
    for index, row in enumerate(predicted):
        merged = dict(row)
        for key, value in (measured[index] if measured else {}).items():
            if key == "rate":
                continue
            merged[f"measured_{key}"] = value
            if row.get(key) is not None and value:
                merged[f"{key.removesuffix('_s')}_error"] = row[key] / value - 1
        rows.append(merged)
    return rows


def per_request(
    estimate: Estimate, service: Service, success_rate: float | None, api: tuple[float, float] | None, reasoning: int
) -> dict[str, Any]:
    """What a request costs here, a task that succeeds, and from how many requests on an API at (input, output) USD per 1M is dearer."""
    month = estimate.results["usd_per_month"]
    per_month = service.traffic.rate * HOURS_PER_MONTH * 3600
    each = None if month is None else month / per_month
    found: dict[str, Any] = {"usd_per_request": each}
    if success_rate is not None:
        found["usd_per_successful_task"] = None if each is None else money.usd_per_successful_task(each, success_rate)
    if reasoning:
        output = estimate.inputs["mean_output_tokens"]
        found["answer_starts_p50_s"] = estimate.results["ttft_p50_s"] + reasoning * estimate.results["tpot_p50_s"]
        found["reasoning_usd_per_request"] = None if each is None else each * reasoning / output
    if api is not None:
        asked = money.api_usd_per_request(api[0], api[1], estimate.inputs["mean_prompt_tokens"], estimate.inputs["mean_output_tokens"])
        found["api_usd_per_request"] = asked
        found["api_usd_per_month"] = asked * per_month
        if month is not None and asked:
            even = math.ceil(money.break_even_requests(month, asked))
            found |= {
                "break_even_requests_per_month": even,
                "break_even_rate": even / (HOURS_PER_MONTH * 3600),
                "cheaper": "own devices" if month < asked * per_month else "the API",
            }
    return found
