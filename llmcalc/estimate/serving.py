"""A replica under a stream of requests: what each step costs, and the highest rate."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import capacity, charged, layout, memory, step, terms
from llmcalc.figures import Figure
from llmcalc.formulas import queueing, time
from llmcalc.plan import Deployment, Workload
from llmcalc.traffic import Request

TABLE = 4096  # tokens per step that are tabulated; beyond, every expert is touched and time grows in a straight line
FAR = 2**20
PAGES = tuple(4**k for k in range(5, 10))  # 1k to 256k tokens


def derated(plan: Deployment, mfu: float, mbu: float) -> Deployment:
    """The same layout on devices that reach a share of their compute rate and of their bandwidth."""
    if mfu == mbu == 1:
        return plan
    device = replace(
        plan.device,
        name=f"{plan.device.name} at {mfu:.0%} of its compute and {mbu:.0%} of its bandwidth",
        bandwidth_bytes_per_s=plan.device.bandwidth_bytes_per_s * mbu,
        compute={key: value * mfu for key, value in plan.device.compute.items()},
    )
    return replace(plan, device=device)


class Piecewise:
    """A function of a sequence's length that is straight (or quadratic) between edges, sampled from the estimator."""

    __slots__ = ("edges", "parts")

    def __init__(self, function: Any, edges: Sequence[int], quadratic: bool = False) -> None:
        self.edges = list(edges)
        self.parts: list[tuple[float, float, float]] = []
        for start, end in zip(edges, [*edges[1:], edges[-1] + FAR], strict=True):
            half = (end - start) / 2
            a, b, c = function(start), function(start + half) if quadratic else 0.0, function(end)
            if quadratic:
                self.parts.append((a, (4 * b - 3 * a - c) / (end - start), (a - 2 * b + c) / (2 * half * half)))
            else:
                self.parts.append((a, (c - a) / (end - start), 0.0))

    def __call__(self, at: float) -> float:
        """The value at a length."""
        place = bisect_right(self.edges, at) - 1
        constant, slope, curve = self.parts[place]
        x = at - self.edges[place]
        return constant + x * (slope + x * curve)

    def slope(self, at: float) -> float:
        """The slope of a straight part, to the right of a length."""
        return self.parts[bisect_right(self.edges, at) - 1][1]


@dataclass(frozen=True)
class Rates:
    """What the steps of one replica cost: the one step function's own figures, sampled once.

    `kv_s`: reading one sequence's cache, by its length. `held_bytes`: its memory. `attention_s`: attending to a prompt up to a length.
    `groups`: data-parallel groups of ranks, each with sequences of its own. `arrival_s`: what a request takes on its way to the
    engine, by new tokens of its prompt.
    """

    kv_s: Piecewise
    held_bytes: Piecewise
    attention_s: Piecewise
    budget_bytes: float
    block_tokens: int
    groups: int = field(default=1, kw_only=True)
    arrival_s: Piecewise | None = field(default=None, kw_only=True)
    encoder_s: float = field(default=0.0, kw_only=True)
    """The pass over a request's images, in the step that ends its prompt. [s]"""

    def fixed_s(self, n: int) -> float:
        """A decode step of n sequences without their caches. [s]"""
        raise NotImplementedError

    def chunk_s(self, batch: int, tokens: int, ends: int, attention: float) -> float:
        """A step that decodes `batch` sequences and reads `tokens` prompt tokens, `ends` of them the last of a prompt; caches apart. [s]"""
        raise NotImplementedError

    @cached_property
    def fixed_table(self) -> list[float]:
        """`fixed_s` for every tabulated n. [s]"""
        return [self.fixed_s(n) for n in range(TABLE + 1)]

    def attended_s(self, start: int, end: int) -> float:
        """Attention of the prompt tokens from `start` to `end`. [s]"""
        return self.attention_s(end) - self.attention_s(start)

    def attended_chunks_s(self, start: int, chunk: int, count: int) -> float:
        """Attention of `count` whole chunks from `start`, between two edges. [s]"""
        return self.attended_s(start, start + count * chunk)

    def prompt_s(self, prompt: int, cached: int, chunk: int, batch: int = 0) -> float:
        """What a prompt adds to everybody's time while `batch` sequences decode; alone, its prefill. [s]"""
        alone = self.fixed_s(batch) if batch else 0.0
        spent, start = 0.0, cached
        while start < prompt:
            end = min(prompt, start + chunk) if chunk else prompt
            whole = 1 if end == prompt or not chunk else max(1, self.chunks(start, prompt, chunk))
            end = start + whole * chunk if chunk and end < prompt else end
            attention = self.attended_chunks_s(start, chunk, whole) if whole > 1 else self.attended_s(start, end)
            tokens = (end - start) // whole
            spent += self.alike_s(batch, tokens, int(end == prompt), attention, whole) - whole * alone
            start = end
        return spent

    def chunks(self, start: int, end: int, chunk: int) -> int:
        """Whole chunks from `start` before the next edge of the prompt's costs, and before the last token."""
        edges = self.attention_s.edges
        place = bisect_right(edges, start)
        limit = min(end - 1, edges[place]) if place < len(edges) else end - 1
        return (limit - start) // chunk

    def alike_s(self, batch: int, tokens: int, ends: int, attention: float, count: int) -> float:
        """`count` steps that read `tokens` each, with the attention of all of them; the last one ends `ends` prompts. [s]"""
        return (count - 1) * self.chunk_s(batch, tokens, 0, 0.0) + self.chunk_s(batch, tokens, ends, attention)

    def capacity(self, tokens: int) -> int:
        """Sequences of that length that fit at once, blocks rounded up."""
        return max(0, math.floor(self.budget_bytes / self.held_bytes(tokens + self.block_tokens - 1)))


@dataclass(frozen=True)
class Ideal(Rates):
    """The textbook's costs.

    `weights_s`, `compute_s`, `talk_s`: reading weights, multiplying and talking in a step of n tokens (index n, straight beyond).
    """

    weights_s: list[float]
    compute_s: list[float]
    talk_s: list[float]
    prompt_token_s: float
    head_s: float

    @staticmethod
    def beyond(table: list[float], n: int) -> float:
        """A table's value at n, continued in a straight line."""
        last = len(table) - 1
        return table[n] if n <= last else table[last] + (table[last] - table[last - 1]) * (n - last)

    def fixed_s(self, n: int) -> float:
        """A decode step of n sequences without their caches. [s]"""
        return max(self.beyond(self.weights_s, n), self.beyond(self.compute_s, n)) + self.beyond(self.talk_s, n)

    def chunk_s(self, batch: int, tokens: int, ends: int, attention: float) -> float:
        """Every token of the step is one of its batch; a prompt's last one alone goes through the head. [s]"""
        n = batch + tokens
        math_s = self.beyond(self.compute_s, batch) + tokens * self.prompt_token_s + ends * self.head_s
        return max(self.beyond(self.weights_s, n), math_s) + self.beyond(self.talk_s, n) + attention + ends * self.encoder_s

    def attended_s(self, start: int, end: int) -> float:
        """Attention of the prompt tokens from `start` to `end`, or reading what is before them, whichever is longer. [s]"""
        return max(self.attention_s(end) - self.attention_s(start), self.kv_s(start) if start else 0.0)

    def attended_chunks_s(self, start: int, chunk: int, count: int) -> float:
        """The sum over chunks; both terms are straight in the chunk's number, so they change places once at most. [s]"""

        def ahead(number: int) -> float:
            at = start + number * chunk
            return self.attention_s(at + chunk) - self.attention_s(at) - (self.kv_s(at) if at else 0.0)

        def read(first: int, last: int) -> float:
            ends = [self.kv_s(at) if (at := start + number * chunk) else 0.0 for number in (first, last - 1)]
            return (last - first) * sum(ends) / 2

        def attended(first: int, last: int) -> float:
            return self.attention_s(start + last * chunk) - self.attention_s(start + first * chunk)

        begins, ends = ahead(0) >= 0, ahead(count - 1) >= 0
        if begins == ends:
            return attended(0, count) if begins else read(0, count)
        low, high = 0, count - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if (ahead(middle) >= 0) == begins else (low, middle)
        return attended(0, high) + read(high, count) if begins else read(0, high) + attended(high, count)


@dataclass(frozen=True)
class Likely(Rates):
    """What an engine is expected to take.

    `steps_s`: a decode step of n sequences (index n, straight beyond). `reading_s`: reading so many prompt tokens in a step of their
    own, attention apart. `prefix_s`: reading the cache of what comes before them. `beside`: the share of it all that they add to a
    step which decodes.
    """

    steps_s: list[float]
    reading_s: Piecewise
    prefix_s: Piecewise
    beside: float

    def attended_s(self, start: int, end: int) -> float:
        """Attention of the prompt tokens from `start` to `end`, and reading what is before them. [s]"""
        return self.attention_s(end) - self.attention_s(start) + (self.prefix_s(start) if start else 0.0)

    def attended_chunks_s(self, start: int, chunk: int, count: int) -> float:
        """The sum over chunks; what comes before them grows in a straight line. [s]"""
        before = [self.prefix_s(at) if (at := start + number * chunk) else 0.0 for number in (0, count - 1)]
        return self.attention_s(start + count * chunk) - self.attention_s(start) + count * sum(before) / 2

    def fixed_s(self, n: int) -> float:
        """A decode step of n sequences without their caches. [s]"""
        return Ideal.beyond(self.steps_s, n)

    def chunk_s(self, batch: int, tokens: int, ends: int, attention: float) -> float:
        """Prompt tokens come on top of the step of those that decode. [s]"""
        reading = self.reading_s(tokens) + attention + ends * self.encoder_s
        return self.fixed_s(batch) + self.beside * reading if batch else reading


def rates(model: Model, plan: Deployment, *, timed: Deployment | None = None, method: str = "napkin") -> Rates:
    """Sample the estimator by a method: napkin or expected.

    `timed`: the same layout with derated devices, for the napkin's times. Errors: no-compute-rate, no-memory-size.
    """
    edges = edges_of(model)

    def held(ctx: float) -> float:
        return float(charged.sequence_bytes(model, plan, Figure("ctx_tokens", ctx)).value)

    # An engine's pages: straight between lengths that are whole blocks of every size in use.
    held_bytes = Piecewise(held, edges if plan.engine.nominal else sorted({*edges, *PAGES}))
    budget = capacity.ledger(model, plan, 1)["kv_budget_bytes"].value
    if terms.compute_rate(plan.device, plan.weights).value is None:
        raise UsageError(
            "no-compute-rate", f"{plan.device.id} has no known compute rate, so prefill cannot be timed", "use a device with one"
        )
    sample = _likely if method == "expected" else _ideal
    return sample(model, timed or plan, edges, held_bytes, budget, plan.engine.block_tokens)


def edges_of(model: Model) -> list[int]:
    """Lengths at which some layer's cache stops growing, or what it reads."""
    ends = {0}
    for mixer, _ in memory.mixers(model):
        for entry in mixer.entries:
            ends |= {limit for limit in (entry.window, entry.reads and entry.reads * entry.ratio) if limit and entry.tokens is None}
    return sorted(ends)


def _ideal(model: Model, at: Deployment, edges: list[int], held_bytes: Piecewise, budget: float, block: int) -> Ideal:
    import numpy

    n = numpy.arange(1, TABLE + 1)
    parts = terms.step_terms(model, at, Workload(1, n))

    def table(name: str) -> list[float]:
        values = [float(value) for value in numpy.broadcast_to(parts[name].value, n.shape)]
        return [values[0], *values]

    spread = at.dp * at.pp
    bandwidth = at.device.bandwidth_bytes_per_s * at.holders * spread

    def kv_s(ctx: float) -> float:
        return float(layout.sequence_bytes(model, at, Figure("ctx_tokens", ctx), reads=True).value / bandwidth)

    p16 = terms.compute_rate(at.device, memory.compute_format(model)[0]).value or math.nan
    p = terms.compute_rate(at.device, at.weights).value
    ranks = at.holders * at.pp

    def attention_s(prompt: float) -> float:
        found = terms.attention_flops(model, Figure("tokens", prompt), Figure("cached_tokens", 0))
        return float(time.work_s(found.value, p16, ranks))

    head = memory.head_params(model)
    return Ideal(
        weights_s=table("weight_read_s"),
        compute_s=table("compute_s"),
        talk_s=table("communication_s"),
        prompt_token_s=time.compute_s(memory.multiplied_params(model) - head, 1, p, ranks),
        head_s=time.compute_s(head, 1, p, ranks),
        kv_s=Piecewise(kv_s, edges),
        held_bytes=held_bytes,
        attention_s=Piecewise(attention_s, edges, quadratic=True),
        budget_bytes=budget,
        block_tokens=block,
    )


KNOTS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768)
"""Prompt tokens of a step at which reading them is sampled; straight between, and beyond."""
SAMPLED = 64
"""Sequences in the steps whose difference is what a cache adds."""


def _likely(model: Model, at: Deployment, edges: list[int], held_bytes: Piecewise, budget: float, block: int) -> Likely:
    """Samples of `step.step`, `step.reading`, `step.added` and `step.ttft`."""
    import numpy

    n = numpy.arange(1, TABLE + 1)
    steps = numpy.broadcast_to(step.step(model, at, Workload(0, n), "expected").mid_s, n.shape).tolist()
    many = SAMPLED * at.dp
    bare = step.step(model, at, Workload(0, many), "expected").mid_s

    def kv_s(ctx: float) -> float:
        return float(step.step(model, at, Workload(ctx, many), "expected").mid_s - bare) / many

    @cache
    def reading(tokens: int, start: int) -> float:
        return float(step.reading(model, at, start + tokens, start).value)

    # Behind `start` others a token attends to them, and the step reads their cache once: both straight between edges.
    def behind(tokens: int, start: float) -> float:
        return reading(tokens, int(start)) - reading(tokens, 0) if start else 0.0

    density = Piecewise(lambda start: (behind(SAMPLED + 1, start) - behind(1, start)) / SAMPLED, edges)
    prefix = Piecewise(lambda start: behind(1, start) - density(start), edges)
    whole = [0.0]
    for begin, end in pairwise(edges):
        whole.append(whole[-1] + (density(begin) + density(end - 1e-6)) / 2 * (end - begin))
    sums = dict(zip(edges, whole, strict=True))

    def attention_s(ctx: float) -> float:
        place = edges[bisect_right(edges, ctx) - 1]
        return sums[place] + (density(place) + density(ctx)) / 2 * (ctx - place)

    alone = {tokens: reading(tokens, 0) - attention_s(tokens) for tokens in KNOTS}
    first, share = {}, step.added(model, at, 2048).value / reading(2048, 0)
    for tokens in (1, 512, 8192):
        found = step.ttft(model, at, tokens)
        first[tokens] = max(0.0, found.mid_s - reading(tokens, 0)) if found is not None else 0.0
    return Likely(
        steps_s=[steps[0], *steps],
        reading_s=through({0: alone[1], **alone}),
        prefix_s=prefix,
        beside=share or 1.0,
        kv_s=Piecewise(kv_s, edges),
        held_bytes=held_bytes,
        attention_s=Piecewise(attention_s, edges, quadratic=True),
        budget_bytes=budget,
        block_tokens=block,
        groups=at.dp,
        arrival_s=through({0: first[1], **first}),
    )


def through(points: dict[int, float]) -> Piecewise:
    """Straight lines through points, the last one continued."""
    places = sorted(points)
    slope = (points[places[-1]] - points[places[-2]]) / (places[-1] - places[-2])
    return Piecewise(lambda at: points[at] if at in points else points[places[-1]] + slope * (at - places[-1]), places)


# ---- the requests --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """Means over the requests of a traffic: tokens in and out, and the context of the average decode step."""

    prompt: float
    output: float
    cached: float
    context: float
    longest: int
    sample: tuple[Request, ...]

    @staticmethod
    def of(sample: Sequence[Request]) -> Profile:
        """From requests that stand for all."""
        n = len(sample)
        output = sum(request.output for request in sample) / n
        context = queueing.mean_context(
            sum(request.prompt * request.output for request in sample) / n, sum(request.output**2 for request in sample) / n, output
        )
        longest = max(request.prompt + request.output for request in sample)
        return Profile(
            sum(request.prompt for request in sample) / n,
            output,
            sum(request.cached for request in sample) / n,
            context,
            longest,
            tuple(sample),
        )

    def prompt_s(self, rates: Rates, chunk: int, batch: int) -> float:
        """What a prompt adds to everybody's time, on average. [s]"""
        some = self.sample[:: max(1, len(self.sample) // 200)]
        return sum(rates.prompt_s(request.prompt, request.cached, chunk, batch) for request in some) / len(some)

    def attention_s(self, rates: Rates, chunk: int) -> float:
        """Attention of a prompt read chunk by chunk, on average. [s]"""
        some = self.sample[:: max(1, len(self.sample) // 200)]
        return sum(
            rates.attended_s(start, min(start + chunk, request.prompt) if chunk else request.prompt)
            for request in some
            for start in range(request.cached, request.prompt, chunk or request.prompt)
        ) / len(some)

    def shared_s(self, rates: Rates, chunk: int, batch: int, per_step: float) -> float:
        """`prompt_s` where `per_step` prompts come with every step: short ones share it, until arithmetic binds. [s]"""
        new = self.prompt - self.cached
        if not chunk or not new or new > chunk:
            return self.prompt_s(rates, chunk, batch)
        attention, alone = self.attention_s(rates, chunk), rates.fixed_s(batch) if batch else 0.0

        def together(k: float) -> float:
            steps = max(1.0, k * new / chunk)
            return steps * (rates.chunk_s(batch, round(k * new / steps), round(k / steps), k * attention / steps) - alone)

        if per_step > 50 or not batch:
            return together(per_step) / per_step
        # The number that comes is Poisson's.
        shared, weight, k = 0.0, math.exp(-per_step), 0
        while k < per_step + 10 * math.sqrt(per_step) + 10:
            k += 1
            weight *= per_step / k
            shared += weight * together(k)
        return shared / per_step

    def kv_s(self, rates: Rates) -> float:
        """Mean time to read a sequence's cache, over the decode steps. [s]"""
        some = self.sample
        steps = sum(request.output for request in some)
        return (
            sum(
                request.output * (rates.kv_s(request.prompt + request.output / 4) + rates.kv_s(request.prompt + 3 * request.output / 4)) / 2
                for request in some
            )
            / steps
        )


def token_share_s(rates: Rates, kv_s: float, batch: int) -> float:
    """A token's share of a decode step of `batch` sequences. [s]"""
    return rates.fixed_s(batch) / batch + kv_s


def highest(rates: Rates, profile: Profile, max_batch: int, chunk: int) -> tuple[Figure, int]:
    """The rate at which a replica is busy all the time [requests/s], and the sequences that then decode.

    A request holds its place for the steps of its prompt and of its answer, and steps bring in `chunk` prompt tokens each: so many
    prompts come with every step, and so many sequences decode, however much memory there is.
    """
    tokens = max(profile.output - 1, 0)
    pieces = (profile.prompt - profile.cached) / chunk if chunk else 1.0
    per_step = min(max_batch / (tokens + max(1.0, pieces)), 1 / pieces if pieces else math.inf)
    batch = max(1, round(per_step * tokens))
    found = queueing.max_rate.of(
        as_name="max_rate_per_replica",
        prefill_s=Figure(
            "prefill_s",
            profile.shared_s(rates, chunk, batch if tokens else 0, per_step),
            "s",
            f"what a prompt adds to {batch} decoding sequences, on average",
        ),
        output_tokens=Figure("output_tokens", tokens, "tokens", "tokens after the first, which comes with the prompt"),
        token_s=Figure("token_s", token_share_s(rates, profile.kv_s(rates), batch), "s", f"a step of {batch} sequences, per token"),
    )
    return found, batch


def batch_within(rates: Rates, profile: Profile, tpot_s: float, most: int) -> int:
    """The largest batch whose plain decode step is within a TPOT; 0 where not even one sequence is."""
    kv_s = profile.kv_s(rates)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if rates.fixed_s(middle) + middle * kv_s <= tpot_s else (low, middle - 1)
    return low
