"""From a rate of requests and limits to deployments: how many replicas of which layout, checked by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llmcalc import formats, hardware, links, units
from llmcalc.answers import Aside
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError, UsageError
from llmcalc.estimate import Answered, capacity, collectives, cost, layout, serving, simulate, step
from llmcalc.estimate.planned import Alternative, PerRequest, Plan
from llmcalc.estimate.quantiles import Quantiles
from llmcalc.estimate.service import HOURS_PER_MONTH, Binding, Candidate, Limit, Service, candidate, excess, keeping, layouts, run, violated
from llmcalc.figures import Figure
from llmcalc.formulas import money
from llmcalc.plan import Deployment, Workload
from llmcalc.traffic import Kind, Request
from llmcalc.units import seconds

MOST_REPLICAS = 100_000
SCREENED = 800
"""Requests of the simulations that compare layouts; the one that is chosen is simulated at length."""
QUANTILES = ((50, 0.5), (95, 0.95), (99, 0.99))


@dataclass(frozen=True, slots=True)
class Sized:
    """A layout that was tried: with the replicas that it needs and their simulation, or with what forbids it.

    `over`: by how much it misses: bytes that are short, or a time as a multiple of its limit.
    """

    plan: Deployment
    why: str
    binding: Binding | None
    found: Candidate | None = None
    over: float | None = None
    replicas: int | None = None
    outcome: simulate.Outcome | None = None
    usd_per_hour: float | None = None
    holds_at_high: bool | None = None
    """Whether the limits hold at the slow end of the range, too; None without a limit or a range."""

    @property
    def met(self) -> bool:
        """Whether it meets the limits."""
        return self.outcome is not None

    @property
    def devices(self) -> int:
        """Of all replicas."""
        return (self.replicas or 0) * self.plan.ranks

    @property
    def nodes(self) -> int:
        """That hold them."""
        return int(money.nodes_taken(self.replicas or 0, self.plan.ranks, max(1, self.plan.device.devices_per_node)))

    @property
    def usd_per_month(self) -> float | None:
        """Of all devices."""
        return None if self.usd_per_hour is None else self.usd_per_hour * HOURS_PER_MONTH

    def figures(self, rate: float) -> dict[str, Any]:
        """What rows and the plan say of a layout that meets the limits, by their keys."""
        if self.found is None or self.outcome is None or not self.replicas:
            return {}
        hour, found = self.usd_per_hour, self.found
        times = {"ttft": self.outcome.ttft, "tpot": self.outcome.tpot, "e2e": self.outcome.e2e}
        return {
            "replicas": self.replicas,
            "devices": self.devices,
            "nodes": self.nodes,
            **({"paid_devices": cost.paid(self.plan, self.replicas).value} if self.plan.device.rented > 1 else {}),
            "usd_per_month": self.usd_per_month,
            "usd_per_million_output_tokens": None if hour is None else money.usd_per_million_tokens(hour, rate * found.profile.output, 1),
            "utilization": rate / self.replicas / found.max_rate,
            "max_rate_per_replica": found.max_rate,
            **{f"{name}_p{p}_s": times[name].at(share) for name in ("ttft", "tpot") for p, share in QUANTILES},
            "e2e_p95_s": times["e2e"].at(0.95),
            "holds_at_high": self.holds_at_high,
        }

    def row(self, rate: float, chosen: bool = False) -> Alternative:
        """It among the alternatives."""
        return Alternative(
            chosen=chosen,
            weights=self.plan.weights.name,
            hardware=self.plan.device.id,
            tp=self.plan.tp,
            pp=self.plan.pp,
            dp=self.plan.dp,
            devices_per_replica=self.plan.ranks,
            batch_limit=None if self.found is None else self.found.batch_limit,
            binding=self.binding,
            why=self.why,
            **self.figures(rate),
        )


# ---- one layout ---------------------------------------------------------------------------------------------------


def smallest(least: int, check: Callable[[int], Limit | None]) -> tuple[int | None, Limit | None]:
    """The smallest number from `least` that passes, and the last reason against a smaller one. None: nothing passes."""
    fails, number = least - 1, least
    reason: Limit | None = None
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


def _kept(model: Model, plan: Deployment, service: Service, sample: list[Request]) -> tuple[Service, list[Request]]:
    """Service and sample with the reuse that this layout's memory leaves of a trace."""
    kept = keeping(model, plan, service)
    return kept, kept.traffic.sample() if kept.traffic.kept_blocks else sample


def size(model: Model, plan: Deployment, service: Service, sample: list[Request]) -> Sized:
    """The fewest replicas of one layout that meet the limits, or what forbids it."""
    if strange := capacity.stranger(plan):
        return Sized(plan, strange, None)
    refused = layout.obstacle(model, plan)
    if refused is not None:
        valid = ", ".join(dict.fromkeys(str(option.tp) for option in layouts(model, plan))) or "none"
        return Sized(plan, f"engines refuse it: {refused}; valid tp: {valid}", None)
    service, sample = _kept(model, plan, service, sample)
    found = candidate(model, plan, service, sample)
    hopeless = _hopeless(found, service)
    if hopeless is not None:
        return hopeless
    least = max(1, math.ceil(service.traffic.rate / (found.max_rate * service.max_utilization)))
    if least > MOST_REPLICAS:
        return Sized(plan, f"over {MOST_REPLICAS:,} replicas", "saturation", found)
    outcomes: dict[int, simulate.Outcome] = {}

    def check(replicas: int) -> Limit | None:
        outcome = run(found, service, replicas)
        why = violated(outcome, service)
        if why is None and service.limited and service.traffic.trace is None and service.simulated > SCREENED:
            why = violated(run(found, service, replicas, seed=1), service)  # luck does not count
        outcomes[replicas] = outcome
        return why

    replicas, reason = smallest(least, check)
    if replicas is None:
        broken = reason or "ttft"
        value, over = min((excess(outcome, service, broken) for outcome in outcomes.values()), key=lambda found: found[1])
        words = f"{broken.upper()} is {seconds(value)} at best, with any number of replicas"
        return Sized(plan, words, broken, found, over)
    try:
        hour = cost.hourly(plan, None, replicas)[0].value
    except UsageError:
        hour = None
    binding: Binding = reason or found.bound
    why = {
        "memory": f"memory holds {found.memory_batch:,} sequences",
        "tpot": f"TPOT holds the batch at {found.tpot_batch:,}" if reason is None else "TPOT under load",
        "ttft": "TTFT under load",
        "saturation": f"kept below {service.max_utilization:.0%} of saturation",
    }[binding]
    outcome = outcomes[replicas]
    return Sized(plan, why, binding, found, None, replicas, outcome, hour, _holds_at_high(model, found, service, outcome))


def _holds_at_high(model: Model, found: Candidate, service: Service, outcome: simulate.Outcome) -> bool | None:
    """Whether a layout keeps its limits where everything takes as long as the slow end of the range says."""
    if service.method == "napkin" or not service.limited:
        return None
    prompt, output = max(1, round(found.profile.prompt)), max(1, round(found.profile.output))
    work = Workload(found.profile.context, max(1.0, outcome.mean_batch), prompt, output)
    busy, first = step.step(model, found.plan, work, "expected"), step.ttft(model, found.plan, prompt)
    slower: tuple[tuple[float | None, Quantiles, step.Timed | None], ...] = (
        (service.max_tpot_s, outcome.tpot, busy),
        (service.max_ttft_s, outcome.ttft, first),
    )
    return all(
        (times.at(service.percentile) or 0.0) * timed.high_s / timed.mid_s <= limit
        for limit, times, timed in slower
        if limit is not None and timed is not None
    )


def _hopeless(found: Candidate, service: Service) -> Sized | None:
    """Why no number of replicas helps: one sequence does not fit or is too slow, even where nobody else asks."""
    plan = found.plan
    if found.memory_batch == 0:
        short = found.rates.held_bytes(found.profile.longest + found.rates.block_tokens - 1) - found.rates.budget_bytes
        return Sized(plan, f"does not fit: {units.size(short)} short", "memory", found, short)
    if found.batch_limit == 0:
        one = found.rates.fixed_s(1) + found.profile.kv_s(found.rates)
        return Sized(plan, f"TPOT of one sequence is {seconds(one)}", "tpot", found, one / (service.max_tpot_s or one))
    if service.traffic.trace is not None or not service.limited:
        return None
    # A replica that nobody else uses is the best that any number of replicas can be.
    alone = run(found, replace(service, traffic=replace(service.traffic, rate=found.max_rate * 0.01)), 1, count=300)
    broken = violated(alone, service)
    if broken is None:
        return None
    value, over = excess(alone, service, broken)
    return Sized(plan, f"{broken.upper()} is {seconds(value)} even without load", broken, found, over)


# ---- levers of a plan ---------------------------------------------------------------------------------------------


def next_lever(model: Model, plan: Deployment, service: Service, sample: list[Request]) -> tuple[str, float] | None:
    """The change that lets a device serve most more requests within the same limits, and how many times as many."""
    base = candidate(model, plan, service, sample)
    if not base.max_rate:
        return None
    half = [request._replace(cached=max(request.cached, request.prompt // 2)) for request in sample]
    options: list[tuple[str, Callable[[], Candidate]]] = [
        ("prefix cache for half of the prompt", partial(candidate, model, plan, service, half))
    ]
    if plan.kv.bits > 8:
        options.append(("fp8 KV cache", partial(candidate, model, replace(plan, kv=formats.find("fp8", kv=True)), service, sample)))
    if plan.weights.bits > 8:
        options.append(("fp8 weights", partial(candidate, model, replace(plan, weights=formats.find("fp8")), service, sample)))
    if plan.device.link is not None and plan.tp < plan.device.devices_per_node and layout.tp_obstacle(model, plan.tp * 2) is None:
        options.append((f"tp {plan.tp * 2}", partial(candidate, model, replace(plan, tp=plan.tp * 2), service, sample)))
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


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer, and the deployment that it is about: the chosen one, or the first that was asked for."""

    answer: Answered[Plan, Alternative]
    deployment: Deployment


def plan(model: Model, deployments: list[Deployment], service: Service, *, fixed: bool = False) -> Planned:
    """The cheapest deployment (or the smallest, where a price is missing) that meets the limits; rows: all that were tried, the
    cheapest first.

    `fixed`: only the layouts given, else tensor parallelism of every size that a node has.
    """
    sample = service.traffic.sample()
    profile, rate = serving.Profile.of(sample), service.traffic.rate
    tried, warnings = _try(model, deployments, service, sample, fixed=fixed)
    tried, priced = _ranked(model, tried, service, sample)
    chosen = next((one for one in tried if one.met), None)
    figures: dict[str, Figure] = {}
    said: tuple[str, ...] = ()
    if chosen is not None and chosen.found is not None and chosen.outcome is not None:
        found, outcome = chosen.found, chosen.outcome
        service, sample = _kept(model, chosen.plan, service, sample)
        lever = next_lever(model, chosen.plan, service, sample)
        if lever is None:
            warnings.append("next_lever: none of those tried lets a device serve more requests within the limits")
        if not priced:
            warnings.append("usd_per_month: not every device has a price, so the fewest devices were chosen")
        warnings += dict.fromkeys(old for base in deployments for old in cost.price_warning(base))
        if outcome.tpot.at(0.5) is None:
            warnings.append("tpot: every answer is a single token, which comes with the prompt")
        likely, said, more = _expected(model, chosen, service, outcome.mean_batch)
        warnings += more
        results = Plan(
            hardware=chosen.plan.device.id,
            tp=chosen.plan.tp,
            pp=chosen.plan.pp,
            dp=chosen.plan.dp,
            weights=chosen.plan.weights.name,
            batch_limit=found.batch_limit,
            mean_batch=outcome.mean_batch,
            preemptions=outcome.preemptions,
            usd_per_hour=chosen.usd_per_hour,
            binding=chosen.binding,
            next_lever=lever and lever[0],
            next_lever_gain=lever and lever[1],
            **chosen.figures(rate),
            **likely,
        )
        figures["max_rate_per_replica"] = serving.highest(found.rates, found.profile, found.batch_limit, found.policy.chunk)[0]
    else:
        results = Plan(binding=_common(tried))
        warnings.insert(0, f"no layout that was tried meets the limits, and all figures are null{_closest(tried)}")
    answer = Answered(
        results,
        figures,
        rows=tuple(one.row(rate, one is chosen) for one in tried),
        inputs={
            "rate": rate,
            "mean_prompt_tokens": profile.prompt,
            "mean_output_tokens": profile.output,
            "mean_context_tokens": profile.context,
        },
        assumptions=(*_assumptions(service, deployments[0]), *said),
        warnings=tuple(warnings),
    )
    return Planned(answer, deployments[0] if chosen is None else chosen.plan)


def _common(tried: list[Sized]) -> Binding | None:
    """What binds all that were tried; None: not one thing. What is too small has a larger sibling that is too slow."""
    bindings = {one.binding for one in tried}
    bindings = bindings - {"memory", None} or bindings
    return bindings.pop() if len(bindings) == 1 else None


def _try(
    model: Model, deployments: Iterable[Deployment], service: Service, sample: list[Request], *, fixed: bool
) -> tuple[list[Sized], list[str]]:
    """Every layout sized, and what cannot be."""
    tried: list[Sized] = []
    warnings: list[str] = []
    screened = replace(service, simulated=min(SCREENED, service.simulated))
    for base in deployments:
        for option in [base] if fixed else layouts(model, base):
            try:
                tried.append(size(model, option, screened, sample))
            except UsageError as problem:
                warnings.append(f"{option.device.id}: {problem.message}")
    return tried, warnings


def _ranked(model: Model, tried: list[Sized], service: Service, sample: list[Request]) -> tuple[list[Sized], bool]:
    """The layouts, the cheapest that meets the limits first, and whether all of those have a price. The first one's simulation is of
    full length; where it then needs more, the next one's turn comes."""
    at_length: set[int] = set()
    while True:
        priced = all(one.usd_per_month is not None for one in tried if one.met)
        tried = sorted(tried, key=lambda one: (not one.met, one.usd_per_month or 0 if priced else 0, one.devices))
        if not tried or not tried[0].met or id(tried[0]) in at_length:
            return tried, priced
        tried[0] = size(model, tried[0].plan, service, sample)
        at_length.add(id(tried[0]))


def _expected(model: Model, chosen: Sized, service: Service, mean_batch: float) -> tuple[dict[str, Any], tuple[str, ...], list[str]]:
    """Expected times at the mean batch and the highest rate with its range, by key; their words; warnings."""
    plan, found = chosen.plan, chosen.found
    assert found is not None
    profile = found.profile
    batch, prompt, output = max(1.0, mean_batch), max(1, round(profile.prompt)), max(1, round(profile.output))
    busy = step.step(model, plan, Workload(profile.context, batch, prompt, output), "expected")
    first = step.ttft(model, plan, prompt, 0, round(batch) - 1)
    values: dict[str, Any] = _network(model, plan, Workload(profile.context, batch, prompt, output), busy, first) | {
        "expected_tpot_s": busy.mid_s,
        "expected_tpot_low_s": busy.low_s,
        "expected_tpot_high_s": busy.high_s,
    }
    said: list[str] = [Aside(f"expected TPOT at the mean batch: {busy.words}")]
    if first is not None:
        values |= {"expected_ttft_s": first.mid_s, "expected_ttft_low_s": first.low_s, "expected_ttft_high_s": first.high_s}
        said.append(Aside(f"expected TTFT: {first.words}"))
    key = "max_rate_per_replica"
    full = step.load(model, plan, prompt, output)
    if service.method == "expected":
        # The range of measured full loads; where none was measured, that of the step.
        shape = full or step.Timed(busy.mid, 1 / busy.high_s, 1 / busy.low_s)
        middle = full.mid_s if full else 1 / busy.mid_s
        ends = {f"{key}_{end}": found.max_rate * getattr(shape, end) / middle for end in ("low", "high")}
        values |= ends | {f"expected_{key}": found.max_rate} | {f"expected_{name}": value for name, value in ends.items()}
        said.append(Aside(f"requests/s of a replica: {full.words if full else busy.words}"))
        return values, tuple(said), []
    if full is None:
        why = "no full load of a desktop engine was measured; name a server's, as `engine=vllm`"
        return values, tuple(said), [f"expected_{key}, its _low and _high: {why}"]
    values |= {f"expected_{key}": full.mid_s / output, f"expected_{key}_low": full.low_s / output}
    values[f"expected_{key}_high"] = full.high_s / output
    said.append(Aside(f"expected requests/s: as many sequences at once as the memory holds; {full.words}"))
    return values, tuple(said), []


def _network(model: Model, plan: Deployment, work: Workload, busy: step.Timed, first: step.Timed | None) -> dict[str, float]:
    """What of a step and of a first token is the network between a replica's nodes; nothing where one holds it. [s]"""
    if collectives.nodes(plan).count == 1:
        return {}
    free = replace(plan, device=replace(plan.device, network=hardware.Network(links.FREE.name, links.FREE.rate)))
    found = {"network_tpot_s": busy.mid_s - step.step(model, free, work, "expected").mid_s}
    near = step.ttft(model, free, work.prompt_tokens, 0, round(work.batch) - 1)
    return found if first is None or near is None else found | {"network_ttft_s": first.mid_s - near.mid_s}


def _assumptions(service: Service, plan: Deployment) -> tuple[str, ...]:
    limits = [
        f"{name} at p{service.percentile * 100:g} at most {seconds(limit)}"
        for name, limit in (("TTFT", service.max_ttft_s), ("TPOT", service.max_tpot_s))
        if limit is not None
    ]
    return (
        *service.traffic.notes,
        "; ".join(limits) or "no limit on TTFT or TPOT: give `max_ttft` and `max_tpot`",
        *service.words(plan),
        f"each replica is simulated with its share of the requests, "
        f"dealt {'in turn' if service.traffic.trace else 'at random'}; seed {service.seed}",
        f"kept below {service.max_utilization:.0%} of saturation; {HOURS_PER_MONTH} hours a month",
    )


def _closest(tried: Iterable[Sized]) -> str:
    """Which layout comes closest to the limits, and by how much it misses them: too slow before too small."""
    missed = [(one.binding == "memory", one.over, one) for one in tried if one.over is not None]
    if not missed:
        return ""
    small, over, one = min(missed, key=lambda each: each[:2])
    return f"; closest comes {one.plan.device.id} with tp {one.plan.tp}: {one.why}" + ("" if small else f", {over:.3g} times the limit")


def kinds(prompt: int, output: int, cached: int = 0, reasoning: int = 0, prompt_cv: float = 0, output_cv: float = 0) -> tuple[Kind, ...]:
    """Requests of one kind; reasoning tokens are written before the answer and paid like it."""
    return (Kind(prompt, output + reasoning, cached, prompt_cv=prompt_cv, output_cv=output_cv),)


def per_request(
    found: Answered[Plan, Alternative], service: Service, success_rate: float | None, api: tuple[float, float] | None, reasoning: int
) -> PerRequest:
    """What a request costs here, a task that succeeds, and from how many requests on an API at (input, output) USD per 1M is dearer."""
    month = found.results.usd_per_month
    per_month = service.traffic.rate * HOURS_PER_MONTH * 3600
    each = None if month is None else month / per_month
    more: dict[str, Any] = {}
    if success_rate is not None:
        more["usd_per_successful_task"] = None if each is None else money.usd_per_successful_task(each, success_rate)
    if reasoning:
        output = found.inputs["mean_output_tokens"]
        more["answer_starts_p50_s"] = (found.results.ttft_p50_s or 0) + reasoning * (found.results.tpot_p50_s or 0)
        more["reasoning_usd_per_request"] = None if each is None else each * reasoning / output
    if api is not None:
        asked = money.api_usd_per_request(api[0], api[1], found.inputs["mean_prompt_tokens"], found.inputs["mean_output_tokens"])
        more |= {"api_usd_per_request": asked, "api_usd_per_month": asked * per_month}
        if month is not None and asked:
            even = math.ceil(money.break_even_requests(month, asked))
            more |= {
                "break_even_requests_per_month": even,
                "break_even_rate": even / (HOURS_PER_MONTH * 3600),
                "cheaper": "own devices" if month < asked * per_month else "the API",
            }
    return PerRequest(usd_per_request=each, **more)
