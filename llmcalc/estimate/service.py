"""A service: what is asked of a deployment, one layout under that traffic, and a simulation held against the limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from llmcalc.answers import Aside
from llmcalc.architecture import Model
from llmcalc.estimate import capacity, layout, serving, simulate, step, vision
from llmcalc.estimate.quantiles import Quantiles
from llmcalc.estimate.vision import Looked
from llmcalc.figures import Figure
from llmcalc.plan import Deployment
from llmcalc.traffic import Request, Traffic

Limit = Literal["ttft", "tpot"]
Binding = Literal["memory", "tpot", "ttft", "saturation"]
HOURS_PER_MONTH = 730
MOST_NODES = 16
"""Of a replica, where one is too small."""
MOST_BATCH = 1024  # max_num_seqs of vLLM on large devices


@dataclass(frozen=True, slots=True)
class Service:
    """What is asked: traffic, limits at a percentile (None: no limit), and how far a replica may be loaded.

    `method`: expected, or napkin, of which an engine reaches the shares `mfu` of the compute rate and `mbu` of the bandwidth.
    `chunk`: prompt tokens per step, `max_batch`: sequences at once; None: the engine's own.
    """

    traffic: Traffic
    max_ttft_s: float | None = None
    max_tpot_s: float | None = None
    percentile: float = 0.95
    max_utilization: float = 0.8
    mfu: float = 0.5
    mbu: float = 0.8
    chunk: int | None = None
    max_batch: int | None = None
    simulated: int = 3000
    seed: int = 0
    method: Literal["expected", "napkin"] = "expected"
    images: Looked | None = None
    """Those of each request."""

    @property
    def limited(self) -> bool:
        """Whether anything is promised."""
        return self.max_ttft_s is not None or self.max_tpot_s is not None

    def policy(self, plan: Deployment) -> simulate.Policy:
        """Sequences at once and tokens of a step: what was asked, else the engine's own."""
        engine = plan.engine
        most = self.max_batch
        if most is None:
            most = MOST_BATCH if engine.nominal and plan.max_sequences is None else plan.slots * plan.dp
        chunk = self.chunk
        if chunk is None:
            chunk = step.step_room(plan)
        return simulate.Policy(most, chunk, shared=engine.kind == "server", first=engine.prompts_first)

    def words(self, plan: Deployment) -> tuple[str, ...]:
        """How a replica steps, as assumptions."""
        reached = f", expected at {vision.REACHED:.0%} of the 16-bit rate (an assumption)" if self.method == "expected" else ""
        eyes = () if self.images is None else (f"the image encoder: one pass for each request, before its first token{reached}",)
        chunk = self.policy(plan).chunk
        among = ", before anybody decodes on" if plan.engine.prompts_first else ", those that decode among them"
        shared = among if plan.engine.kind == "server" and chunk else ""
        return (
            Aside("steps take what an engine is expected to take")
            if self.method == "expected"
            else f"an engine reaches {self.mfu:.0%} of the compute rate and {self.mbu:.0%} of the bandwidth (`mfu`, `mbu`)",
            f"chunked prefill of {chunk:,} tokens per step{shared}" if chunk else "whole prompts in one step",
            *eyes,
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One layout under this traffic: its rates, and what limits its batch."""

    plan: Deployment
    rates: serving.Rates
    profile: serving.Profile
    policy: simulate.Policy
    batch_limit: int
    memory_batch: int
    tpot_batch: int
    max_rate: float
    unlimited_rate: float

    @property
    def bound(self) -> Binding:
        """What keeps the rate down: the batch limit where it costs over a tenth of it, else the device itself."""
        if self.max_rate > 0.9 * self.unlimited_rate:
            return "saturation"
        return "memory" if self.batch_limit == self.memory_batch else "tpot" if self.batch_limit == self.tpot_batch else "saturation"


def keeping(model: Model, plan: Deployment, service: Service) -> Service:
    """The same service on replicas that keep what a trace's prompts have in common, in all that is left for caches."""
    traffic = service.traffic
    if not traffic.block_tokens or traffic.kept_blocks:
        return service
    if not (plan.engine.nominal or plan.engine.kind == "server"):
        words = f"{plan.engine.name} keeps a prompt in its slot, not blocks that all share: the reuse that the trace holds is not counted"
        return replace(service, traffic=replace(traffic, block_tokens=0, notes=(*traffic.notes, words)))
    each = layout.sequence_bytes(model, plan, Figure("ctx_tokens", traffic.block_tokens, "tokens")).value
    left = capacity.ledger(model, plan, 1)["kv_budget_bytes"].value
    blocks = max(0, math.floor(left / each)) if each else 0
    words = (
        f"a prefix that the trace repeats is read once while a replica's {blocks:,} blocks of {traffic.block_tokens} tokens hold it (LRU)"
    )
    return replace(service, traffic=replace(traffic, kept_blocks=blocks, notes=(*traffic.notes, words)))


def candidate(model: Model, plan: Deployment, service: Service, sample: list[Request]) -> Candidate:
    """Sample the estimator and find the batch limit. A batch limit of 0: not one sequence works."""
    timed = serving.derated(plan, service.mfu, service.mbu) if service.method == "napkin" else plan
    rates = serving.rates(model, plan, timed=timed, method=service.method)
    if service.images is not None:
        one_pass = vision.encoder_time(model, timed, service.images).value or 0.0
        rates = replace(rates, encoder_s=one_pass / (vision.REACHED if service.method == "expected" else 1.0))
    profile, policy = serving.Profile.of(sample), service.policy(plan)
    # An engine holds what there is of each sequence: half of its answer on average.
    held = (
        0
        if rates.capacity(profile.longest) == 0
        else rates.capacity(math.ceil(profile.prompt + profile.output * (0.5 if service.method == "expected" else 1)))
    )
    quick = policy.max_batch
    if service.max_tpot_s is not None:
        quick = serving.batch_within(rates, profile, service.max_tpot_s, policy.max_batch)
    limit = min(held, quick, policy.max_batch)

    def highest(batch: int) -> float:
        return float(serving.highest(rates, profile, batch, policy.chunk)[0].value)

    reached, unlimited = highest(limit) if limit else 0.0, highest(policy.max_batch) if held else 0.0
    return Candidate(plan, rates, profile, policy, limit, held, quick, reached, unlimited)


def layouts(model: Model, plan: Deployment) -> Iterator[Deployment]:
    """Layouts inside a node as the engine makes them by itself, each valid for the model; over the fewest nodes where one is too small."""
    devices, widest = 1, None
    while devices <= max(1, plan.device.devices_per_node):
        tp, pp = plan.engine.layout(devices)
        option = replace(plan, tp=tp, pp=pp, cp=1, dcp=1)
        if layout.obstacle(model, option) is None and (tp == 1 or plan.device.link is not None):
            widest = option
            yield option
        devices *= 2
    if widest is None or plan.device.link is None or _holds(model, widest):
        return
    for number in range(2, MOST_NODES + 1):
        found = [option for option in _over_nodes(widest, number) if layout.obstacle(model, option) is None and _holds(model, option)]
        yield from found
        if found:
            return


def _over_nodes(inside: Deployment, number: int) -> Iterator[Deployment]:
    """A layout of a node on several: a stage on each, or a group of attention on each and the experts dealt over all of them."""
    yield replace(inside, pp=inside.pp * number)
    if inside.engine.tensor:
        yield replace(inside, ep=inside.tp * number)


def _holds(model: Model, plan: Deployment) -> bool:
    """Whether the weights leave room for a token."""
    return bool(capacity.ledger(model, plan, 1)["max_batch_exact"].value >= 1)


def run(
    found: Candidate, service: Service, replicas: int, seed: int = 0, count: int | None = None, batch: int | None = None
) -> simulate.Outcome:
    """Simulate one of `replicas` replicas, among which requests are dealt at random."""
    number = count or service.simulated
    traced, users = service.traffic.trace is not None, service.traffic.users
    most = batch or found.batch_limit
    return simulate.simulate(
        found.rates,
        service.traffic.requests(service.seed + seed, replicas, in_step=found.policy.first),
        max_batch=most,
        chunk=found.policy.chunk,
        shared=found.policy.shared,
        first=found.policy.first,
        users=users,
        count=None if traced else number,
        warmup=0 if traced else max(number // 10, min(number, 3 * found.batch_limit), 3 * (users or 0)),
    )


def violated(outcome: simulate.Outcome, service: Service) -> Limit | None:
    """The limit that a simulation breaks, or None."""
    limits: tuple[tuple[Limit, float | None, Quantiles], ...] = (
        ("ttft", service.max_ttft_s, outcome.ttft),
        ("tpot", service.max_tpot_s, outcome.tpot),
    )
    for name, limit, measured in limits:
        value = measured.at(service.percentile)
        if limit is not None and value is not None and value > limit:
            return name
    return None


def excess(outcome: simulate.Outcome, service: Service, name: Limit) -> tuple[float, float]:
    """The time that a limit is on [s], and how many times the limit it is."""
    measured, limit = (outcome.ttft, service.max_ttft_s) if name == "ttft" else (outcome.tpot, service.max_tpot_s)
    value = measured.at(service.percentile) or 0.0
    return value, value / limit if limit else 1.0
