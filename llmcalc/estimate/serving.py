"""A replica under a stream of requests: what each step costs, and the steady state of continuous batching."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import capacity, decode, layout, memory, policy, prefill
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
    terms = decode.step(model, at, Workload(1, n))
    if terms["compute_s"].value is None:
        raise UsageError(
            "no-compute-rate", f"{plan.device.id} has no known compute rate, so prefill cannot be timed", "use a device with one"
        )

    def table(name: str) -> list[float]:
        values = [float(value) for value in numpy.broadcast_to(terms[name].value, n.shape)]
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
        return float(policy.sequence_bytes(model, plan, Figure("ctx_tokens", ctx)).value)

    p16 = decode.compute_rate(at.device, memory.compute_format(model)[0]).value or math.nan
    p = decode.compute_rate(at.device, at.weights).value
    ranks = at.tp * at.pp

    def attention_s(prompt: float) -> float:
        found = prefill.attention_flops(model, Figure("tokens", prompt), Figure("cached_tokens", 0))
        return float(time.work_s(found.value, p16, ranks))

    head = prefill.head_params(model)
    found = capacity.ledger(model, plan, 1)
    return Rates(
        weights_s=table("weight_read_s"),
        compute_s=table("compute_s"),
        talk_s=table("communication_s"),
        prompt_token_s=time.compute_s(memory.active_params(model) - head, 1, p, ranks),
        head_s=time.compute_s(head, 1, p, ranks),
        kv_s=Piecewise(kv_s, edges),
        # An engine's pages: straight between lengths that are whole blocks of every size in use.
        held_bytes=Piecewise(held, edges if plan.engine.nominal else sorted({*edges, *PAGES})),
        attention_s=Piecewise(attention_s, edges, quadratic=True),
        budget_bytes=found["kv_budget_bytes"].value,
        block_tokens=plan.engine.block_tokens,
    )


# ---- the steady state ---------------------------------------------------------------------------------------------


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

    def prompt_s(self, rates: Rates, chunk: int, batch: int) -> tuple[float, float]:
        """What a prompt adds to everybody's time: mean [s] and mean square [s²]."""
        some = self.sample[:: max(1, len(self.sample) // 200)]
        times = [rates.prompt_s(request.prompt, request.cached, chunk, batch) for request in some]
        return sum(times) / len(times), sum(t * t for t in times) / len(times)

    def pieces(self, chunk: int) -> float:
        """Steps that a prompt takes, on average."""
        return sum(max(1, math.ceil((request.prompt - request.cached) / chunk)) if chunk else 1 for request in self.sample) / len(
            self.sample
        )

    def shared_s(self, rates: Rates, chunk: int, batch: int, per_step: float, lone: tuple[float, float]) -> tuple[float, float]:
        """`prompt_s` where `per_step` prompts arrive during a step: short ones share it, until arithmetic binds."""
        mean, square = lone
        new = self.prompt - self.cached
        if not chunk or not new or not per_step or mean <= 0:
            return lone
        attention = rates.attended_s(round(self.cached), round(self.prompt))
        alone = rates.fixed_s(batch)

        def together(k: float) -> float:
            steps = max(1.0, k * new / chunk)
            return steps * (rates.chunk_s(batch, round(k * new / steps), round(k / steps), k * attention / steps) - alone)

        if per_step > 50:
            shared = together(per_step)
        else:  # the number that arrives is Poisson's
            shared, weight, k = 0.0, math.exp(-per_step), 0
            while k < per_step + 10 * math.sqrt(per_step) + 10:
                k += 1
                weight *= per_step / k
                shared += weight * together(k)
        ratio = shared / per_step / mean
        return mean * ratio, square * ratio * ratio

    @property
    def overlap(self) -> float:
        """Share of a sequence's decoding during which one that started with it is there too: E[shorter of two] / E[output]."""
        some = [request.output for request in self.sample]
        mean = sum(some) / len(some)
        return (2 * mean - queueing.expected_longest(some, 2)) / mean

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


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady state of one replica. None where the rate is not sustainable."""

    batch: float | None
    tpot_s: float | None
    load: float
    max_rate: float
    prefill_load: float
    full_probability: float


def token_share_s(rates: Rates, kv_s: float, batch: int) -> float:
    """A token's share of a decode step of `batch` sequences. [s]"""
    return rates.fixed_s(batch) / batch + kv_s


def highest(rates: Rates, profile: Profile, max_batch: int, chunk: int) -> tuple[Figure, int]:
    """The rate at which a replica is busy all the time [requests/s], and the batch that it then has.

    Steps bring in `chunk` prompt tokens each and an answer stays for as many steps as it has tokens, so the batch cannot grow
    beyond tokens / (prompt / chunk), however much memory there is.
    """
    tokens = max(profile.output - 1, 0)
    pieces = (profile.prompt - profile.cached) / chunk if chunk else 1.0
    batch = max(1, min(max_batch, math.floor(tokens / pieces) if pieces else max_batch))
    added = profile.prompt_s(rates, chunk, batch if tokens else 0)[0]
    found = queueing.max_rate.of(
        as_name="max_rate_per_replica",
        prefill_s=Figure("prefill_s", added, "s", f"what a prompt adds to {batch} decoding sequences, on average"),
        output_tokens=Figure(
            "output_tokens", max(tokens, pieces if tokens else 0), "tokens", "tokens after the first, or steps of the prompt"
        ),
        token_s=Figure("token_s", token_share_s(rates, profile.kv_s(rates), batch), "s", f"a step of {batch} sequences, per token"),
    )
    return found, batch


def steady(rates: Rates, profile: Profile, rate: float, max_batch: int, chunk: int) -> Steady:
    """Continuous batching as a queue whose speed depends on how many are in it.

    n sequences get n tokens per step of length t(n), the prompts that arrive meanwhile included; the distribution of n does not
    depend on that of the lengths (processor sharing), so p(n) = p(n-1) · rate · tokens · t(n) / n, with waiting beyond max_batch.
    For t(n) = (a + b·n) / (1 - prefill) that is `queueing.steady_batch` with each sequence's own reads added to a. Prompts that
    queue behind each other start to decode together, so each sequence sees `queueing.companions` more beside it than the mean, as
    far as they start within its own time; and it starts behind a prompt more often than it ends behind one, because tokens come
    fast where no prompt is read.
    """
    kv_s, tokens = profile.kv_s(rates), max(profile.output - 1, 1e-9)  # a prompt's last token yields the first of the answer
    most = highest(rates, profile, max_batch, chunk)[0].value
    busy = rate / most
    if busy >= 1:
        return Steady(None, None, busy, most, queueing.load(rate, profile.prompt_s(rates, chunk, 1)[0]), 1)
    # t(n) at some n, straight between them.
    nodes = sorted({1, max_batch, *(round(max_batch ** (k / 20)) for k in range(1, 20))})
    steps = [_loaded_step(rates, profile, rate, n, kv_s, chunk) for n in nodes]
    length = Lines(nodes, [step_s for step_s, _, _ in steps])
    load = Lines(nodes, [rate * added for _, added, _ in steps])
    spread = Lines(nodes, [rate * rate * max(0.0, square) for _, _, square in steps])
    pieces = profile.pieces(chunk)
    apart = max(1.0, chunk / max(1.0, profile.prompt - profile.cached)) if chunk else 1.0  # prompts that share a step
    found, mean, waiting, mass = 1.0, 1.0, 0.0, 1.0
    for _ in range(40):
        prefill, step_s = min(load(found), 0.98), length(found)
        together = queueing.companions(rate, prefill, spread(found) / rate**2) * profile.overlap
        lag = pieces * (1 + together / 2) / tokens
        together *= max(0.0, 1 - lag * -math.expm1(-1 / lag))
        reading = min(0.95, (prefill + rate * pieces * step_s * (1 - prefill)) / apart)
        behind = queueing.left_behind(reading, spread(found) / apart**2)
        ends = min(1.0, rate * pieces * step_s / apart) * ((pieces - 1) / (2 * pieces) + (behind - reading) / max(reading, 1e-12))
        # An answer that is written before the queue of prompts has changed ends as it starts.
        forgotten = rate * tokens * step_s / max(prefill + rate * pieces * step_s, 1e-12) * (1 - reading) ** 2
        edge_s = max(0.0, behind - ends) * prefill / rate / tokens * -math.expm1(-forgotten) / (1 - prefill)
        weight, mass, mean, n = 1.0, 1.0, 0.0, 0
        while n < max_batch:
            n += 1
            weight *= rate * tokens * (length(min(n + together, max_batch)) + edge_s) / n
            mass, mean = mass + weight, mean + weight * n
            if mass > 1e200:
                weight, mass, mean = weight / mass, 1.0, mean / mass
            if weight < 1e-13 * mass and n > 8:
                break
        waiting = 0.0
        if n >= max_batch:
            ratio = rate * tokens * length(max_batch) / max_batch
            if ratio >= 1:
                return Steady(None, None, busy, most, prefill, 1)
            waiting = weight * ratio / (1 - ratio)
            mass, mean = mass + waiting, mean + waiting * max_batch
        before, found = found, (found + mean / mass) / 2
        if abs(found - before) < 1e-6 * found:
            break
    return Steady(found, found / (rate * tokens), busy, most, load(found), waiting / mass)


class Lines:
    """A function given at some places, straight between them."""

    __slots__ = ("at", "values")

    def __init__(self, at: Sequence[float], values: Sequence[float]) -> None:
        self.at, self.values = at, values

    def __call__(self, x: float) -> float:
        """The value at x, constant beyond the ends."""
        place = bisect_right(self.at, x)
        if place == 0 or place == len(self.at):
            return self.values[min(place, len(self.at) - 1)]
        low, high = self.at[place - 1], self.at[place]
        return self.values[place - 1] + (self.values[place] - self.values[place - 1]) * (x - low) / (high - low)


def _loaded_step(rates: Rates, profile: Profile, rate: float, n: int, kv_s: float, chunk: int) -> tuple[float, float, float]:
    """A step of n sequences with the prompts that arrive during it [s], and what one of them adds: mean [s], variance [s²]."""
    plain = rates.fixed_s(n) + n * kv_s
    lone = profile.prompt_s(rates, chunk, n)
    step_s, added, square = plain, *lone
    for _ in range(30):
        added, square = profile.shared_s(rates, chunk, n, rate * step_s, lone)
        before, step_s = step_s, plain / max(0.02, 1 - rate * added)
        step_s = (step_s + before) / 2
        if abs(step_s - before) < 1e-5 * step_s:
            break
    return step_s, added, square - added * added


def batch_within(rates: Rates, profile: Profile, tpot_s: float, most: int) -> int:
    """The largest batch whose plain decode step is within a TPOT; 0 where not even one sequence is."""
    kv_s = profile.kv_s(rates)
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if rates.fixed_s(middle) + middle * kv_s <= tpot_s else (low, middle - 1)
    return low
