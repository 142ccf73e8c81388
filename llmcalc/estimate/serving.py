"""A replica under a stream of requests: what each step costs, and the highest rate."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import capacity, charged, layout, memory, terms
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
    """What the steps of one replica cost: the estimator's own figures, sampled once.

    `weights_s`, `compute_s`, `talk_s`: reading weights, multiplying and talking in a step of n tokens (index n, straight beyond).
    `kv_s`: reading one sequence's cache, by its length. `held_bytes`: its memory. `attention_s`: attending to a prompt up to a length.
    """

    weights_s: list[float]
    compute_s: list[float]
    talk_s: list[float]
    prompt_token_s: float
    head_s: float
    kv_s: Piecewise
    held_bytes: Piecewise
    attention_s: Piecewise
    budget_bytes: float
    block_tokens: int

    @staticmethod
    def beyond(table: list[float], n: int) -> float:
        """A table's value at n, continued in a straight line."""
        last = len(table) - 1
        return table[n] if n <= last else table[last] + (table[last] - table[last - 1]) * (n - last)

    def fixed_s(self, n: int) -> float:
        """A decode step of n sequences without their caches. [s]"""
        return max(self.beyond(self.weights_s, n), self.beyond(self.compute_s, n)) + self.beyond(self.talk_s, n)

    @cached_property
    def fixed_table(self) -> list[float]:
        """`fixed_s` for every tabulated n. [s]"""
        return [self.fixed_s(n) for n in range(len(self.weights_s))]

    def chunk_s(self, batch: int, tokens: int, ends: int, attention: float) -> float:
        """A step that decodes `batch` sequences and reads `tokens` prompt tokens, `ends` of them the last of a prompt; caches apart. [s]"""
        n = batch + tokens
        math_s = self.beyond(self.compute_s, batch) + tokens * self.prompt_token_s + ends * self.head_s
        return max(self.beyond(self.weights_s, n), math_s) + self.beyond(self.talk_s, n) + attention

    def attended_s(self, start: int, end: int) -> float:
        """Attention of the prompt tokens from `start` to `end`, or reading what is before them, whichever is longer. [s]"""
        return max(self.attention_s(end) - self.attention_s(start), self.kv_s(start) if start else 0.0)

    def prompt_s(self, prompt: int, cached: int, chunk: int, batch: int = 0) -> float:
        """What a prompt adds to everybody's time while `batch` sequences decode; alone, its prefill. [s]"""
        alone = self.fixed_s(batch) if batch else 0.0
        spent, start = 0.0, cached
        while start < prompt:
            end = min(prompt, start + chunk) if chunk else prompt
            spent += self.chunk_s(batch, end - start, end == prompt, self.attended_s(start, end)) - alone
            start = end
        return spent

    def capacity(self, tokens: int) -> int:
        """Sequences of that length that fit at once, blocks rounded up."""
        return max(0, math.floor(self.budget_bytes / self.held_bytes(tokens + self.block_tokens - 1)))


def rates(model: Model, plan: Deployment, *, timed: Deployment | None = None) -> Rates:
    """Sample the estimator. `timed`: the same layout with derated devices, for the times. Errors: no-compute-rate, no-memory-size."""
    import numpy

    at = timed or plan
    n = numpy.arange(1, TABLE + 1)
    parts = terms.step_terms(model, at, Workload(1, n))
    if parts["compute_s"].value is None:
        raise UsageError(
            "no-compute-rate", f"{plan.device.id} has no known compute rate, so prefill cannot be timed", "use a device with one"
        )

    def table(name: str) -> list[float]:
        values = [float(value) for value in numpy.broadcast_to(parts[name].value, n.shape)]
        return [values[0], *values]

    ends = {0}
    for mixer, _ in memory.mixers(model):
        for entry in mixer.entries:
            ends |= {limit for limit in (entry.window, entry.reads and entry.reads * entry.ratio) if limit and entry.tokens is None}
    edges = sorted(ends)
    spread = at.dp * at.pp
    bandwidth = at.device.bandwidth_bytes_per_s * at.tp * spread

    def kv_s(ctx: float) -> float:
        return float(layout.sequence_bytes(model, at, Figure("ctx_tokens", ctx), reads=True).value / bandwidth)

    def held(ctx: float) -> float:
        return float(charged.sequence_bytes(model, plan, Figure("ctx_tokens", ctx)).value)

    p16 = terms.compute_rate(at.device, memory.compute_format(model)[0]).value or math.nan
    p = terms.compute_rate(at.device, at.weights).value
    ranks = at.tp * at.pp

    def attention_s(prompt: float) -> float:
        found = terms.attention_flops(model, Figure("tokens", prompt), Figure("cached_tokens", 0))
        return float(time.work_s(found.value, p16, ranks))

    head = memory.head_params(model)
    found = capacity.ledger(model, plan, 1)
    return Rates(
        weights_s=table("weight_read_s"),
        compute_s=table("compute_s"),
        talk_s=table("communication_s"),
        prompt_token_s=time.compute_s(memory.multiplied_params(model) - head, 1, p, ranks),
        head_s=time.compute_s(head, 1, p, ranks),
        kv_s=Piecewise(kv_s, edges),
        # An engine's pages: straight between lengths that are whole blocks of every size in use.
        held_bytes=Piecewise(held, edges if plan.engine.nominal else sorted({*edges, *PAGES})),
        attention_s=Piecewise(attention_s, edges, quadratic=True),
        budget_bytes=found["kv_budget_bytes"].value,
        block_tokens=plan.engine.block_tokens,
    )


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
