"""A discrete-event simulation of one replica: continuous batching, chunked prefill, a KV limit, preemption.

Between two events (an arrival, an end, a sequence that outgrows a window, a full memory) the batch does not change, so all steps
up to the next one are taken at once. What is kept grows with the requests in flight alone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from llmcalc.errors import LlmcalcError
from llmcalc.estimate.serving import Rates
from llmcalc.traffic import Request
from llmcalc.units import size

RESOLUTION = 400  # buckets per factor e of a quantile: 0.25% wide


class Quantiles:
    """Quantiles of a stream in constant memory, 0.13% exact; the mean is exact."""

    __slots__ = ("buckets", "count", "highest", "lowest", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0.0
        self.lowest, self.highest = math.inf, 0.0

    def add(self, value: float) -> None:
        """One more value [s]."""
        place = int(math.log(value) * RESOLUTION + 1e6) if value > 1e-12 else 0
        self.buckets[place] = self.buckets.get(place, 0) + 1
        self.count += 1
        self.total += value
        if value > self.highest:
            self.highest = value
        if value < self.lowest:
            self.lowest = value

    @property
    def mean(self) -> float | None:
        """The mean, or None of nothing."""
        return self.total / self.count if self.count else None

    def at(self, share: float) -> float | None:
        """The value that this share of all does not exceed, or None of nothing."""
        left = math.ceil(share * self.count)
        if not self.count:
            return None
        for place in sorted(self.buckets):
            left -= self.buckets[place]
            if left <= 0:
                return min(self.highest, max(self.lowest, math.exp((place - 1e6 + 0.5) / RESOLUTION))) if place else 0.0
        return self.highest


@dataclass(slots=True)
class Outcome:
    """What a simulation measured, after its warm-up."""

    ttft: Quantiles = field(default_factory=Quantiles)
    tpot: Quantiles = field(default_factory=Quantiles)
    e2e: Quantiles = field(default_factory=Quantiles)
    requests: int = 0
    output_tokens: int = 0
    decode_s: float = 0
    decode_tokens: int = 0
    seconds: float = 0
    busy_s: float = 0
    batch_s: float = 0
    steps: int = 0
    events: int = 0
    preemptions: int = 0
    peak_in_flight: int = 0

    @property
    def mean_batch(self) -> float:
        """Decoding sequences, averaged over time."""
        return self.batch_s / self.seconds if self.seconds else 0

    @property
    def token_tpot_s(self) -> float | None:
        """Time per token, each token counting alike (the mean of `tpot` counts each request alike)."""
        return self.decode_s / self.decode_tokens if self.decode_tokens else None

    @property
    def utilization(self) -> float:
        """Share of the time in which a step runs."""
        return self.busy_s / self.seconds if self.seconds else 0

    @property
    def tokens_per_s(self) -> float:
        """Output tokens per second of the whole simulated time."""
        return self.output_tokens / self.seconds if self.seconds else 0


MOST_WAITING = 2**18
"""Requests that queue at once. Behind them nobody's turn comes sooner or later for being counted."""


class _Sequence:
    __slots__ = ("arrival", "cached", "ends", "first", "index", "left", "output", "place", "prompt", "target", "version")

    def __init__(self, index: int, request: Request) -> None:
        self.index = index
        self.arrival, self.prompt, self.output, self.cached = request
        self.target = self.prompt  # tokens whose cache must be there before it decodes
        self.place = self.cached  # tokens of them that are
        self.left = self.output
        self.first = -1.0
        self.ends = 0
        self.version = 0


def simulate(
    rates: Rates, requests: Iterable[Request], *, max_batch: int, chunk: int, count: int | None = None, warmup: int = 0
) -> Outcome:
    """Serve a stream, first come first served.

    Each step decodes every running sequence and reads up to `chunk` prompt tokens of those that wait (0: one whole prompt). A
    request starts when its prompt's cache fits; when growing caches fill the memory, the one that started last is preempted and
    computed again. Requests from `warmup` on are measured, `count` of them (None: to the end of the stream, which then drains).
    Errors: request-too-long.
    """
    result = Outcome()
    fixed, kv_at, kv_slope = rates.fixed_table, rates.kv_s, rates.kv_s.slope
    held_at, held_slope = rates.held_bytes, rates.held_bytes.slope
    slack, memory = rates.block_tokens - 1, rates.budget_bytes
    # Lengths at which a sequence's reads or its memory (which is `slack` tokens ahead) change their slope.
    edges = sorted({*filter(None, rates.kv_s.edges), *(edge - slack for edge in rates.held_bytes.edges if edge > slack)})
    heap: list[tuple[int, int, int, _Sequence, bool]] = []
    waiting: deque[_Sequence] = deque()
    reading: deque[_Sequence] = deque()
    running: dict[int, _Sequence] = {}
    source = iter(requests)
    coming = next(source, None)
    now = 0.0  # time [s]
    step = 0  # decode steps so far: a sequence ends at a step, not at a time
    read_s = slope_s = 0.0  # what one step reads of all caches, and what that grows by per step
    held = growth = 0.0  # memory of all caches, and what it grows by per step
    index = serial = 0
    last = None if count is None else warmup + count
    measured = 0
    start = busy_before = batch_before = 0.0
    started = warmup == 0

    while True:
        while coming is not None and coming[0] <= now and len(waiting) < MOST_WAITING:
            waiting.append(_Sequence(index, coming))
            index += 1
            coming = next(source, None)
        if not started and index > warmup:
            started, start, busy_before, batch_before = True, now, result.busy_s, result.batch_s
            result.output_tokens = 0
        # Start what fits.
        while waiting and len(running) + len(reading) < max_batch:
            sequence = waiting[0]
            need = held_at(sequence.target + slack)
            if held + need + growth > memory:
                if not running and not reading:
                    raise _too_long(sequence, rates)
                break
            waiting.popleft()
            held += need
            reading.append(sequence)
        if len(running) + len(reading) + len(waiting) > result.peak_in_flight:
            result.peak_in_flight = len(running) + len(reading) + len(waiting)
        if held + growth > memory:
            # The one that started last gives way; its tokens are computed again later.
            if reading:
                sequence = reading.pop()
                held -= held_at(sequence.target + slack)
            elif len(running) > 1:
                _, sequence = running.popitem()
                left = sequence.ends - step
                length = sequence.target + sequence.left - left
                read_s -= kv_at(length)
                slope_s -= kv_slope(length)
                held -= held_at(length + slack)
                growth -= held_slope(length + slack)
                sequence.version += 1
                sequence.left, sequence.target = left, length + 1  # its newest token has no cache yet
            else:
                raise _too_long(next(iter(running.values())), rates)
            sequence.place = min(sequence.cached, sequence.target - 1)
            waiting.appendleft(sequence)
            result.preemptions += 1
            continue
        batch = len(running)
        before = now
        done: list[_Sequence] = []
        if reading:
            budget = chunk
            tokens = ends = 0
            attention = 0.0
            while reading:
                sequence = reading[0]
                wanted = sequence.target - sequence.place
                taken = wanted if not chunk or wanted <= budget else budget
                if taken:
                    attention += rates.attended_s(sequence.place, sequence.place + taken)
                tokens += taken
                budget -= taken
                sequence.place += taken
                if sequence.place < sequence.target:
                    break
                ends += wanted > 0
                done.append(reading.popleft())
                if budget <= 0:
                    break
            steps = 1 if tokens else 0  # without tokens to compute, they join before the next step
            if tokens:
                now += rates.chunk_s(batch, tokens, ends, attention) + read_s
        elif batch:
            while heap[0][2] != heap[0][3].version:
                heappop(heap)
            steps = heap[0][0] - step
            each = (fixed[batch] if batch < len(fixed) else rates.fixed_s(batch)) + read_s
            if coming is not None and not waiting and batch < max_batch:
                gap = coming[0] - now
                if gap < steps * each + slope_s * steps * (steps - 1) / 2:
                    # The smallest k with k·each + slope·k(k-1)/2 >= gap.
                    if slope_s > 0:
                        linear = each - slope_s / 2
                        steps = min(steps, math.ceil((math.sqrt(linear * linear + 2 * slope_s * gap) - linear) / slope_s))
                    else:
                        steps = min(steps, math.ceil(gap / each))
                    steps = max(1, steps)
            if growth > 0 and held + growth * steps > memory:
                steps = int((memory - held) / growth)  # at least 1: see above
            now += steps * each + slope_s * steps * (steps - 1) / 2
        elif coming is not None:
            now = coming[0]
            continue
        else:
            break
        result.events += 1
        result.steps += steps
        spent = now - before
        result.busy_s += spent
        result.batch_s += spent * batch
        if batch and steps:
            step += steps
            read_s += slope_s * steps
            held += growth * steps
            result.output_tokens += batch * steps
            while heap and heap[0][0] <= step:
                at, _, version, sequence, final = heappop(heap)
                if version != sequence.version:
                    continue
                if not final:  # it outgrew a window: from here on its cache grows more slowly
                    length = sequence.target + sequence.left - (sequence.ends - at)
                    slope_s += kv_slope(length) - kv_slope(length - 1)
                    growth += held_slope(length + slack) - held_slope(length + slack - 1)
                    continue
                del running[sequence.index]
                length = sequence.target + sequence.left
                read_s -= kv_at(length)
                slope_s -= kv_slope(length)
                held -= held_at(length + slack)
                growth -= held_slope(length + slack)
                measured += _measure(result, sequence, now, warmup, last)
            if not running:
                read_s = slope_s = growth = 0.0
                held = sum(held_at(sequence.target + slack) for sequence in (*reading, *done))
        for sequence in done:
            if sequence.first < 0:
                sequence.first = now
            sequence.left -= 1  # the last token of the prompt yields the first of the answer (or another pool has done so)
            result.output_tokens += 1
            length = sequence.target
            if sequence.left <= 0:
                held -= held_at(length + slack)
                measured += _measure(result, sequence, now, warmup, last)
                continue
            running[sequence.index] = sequence
            sequence.ends = step + sequence.left
            read_s += kv_at(length)
            slope_s += kv_slope(length)
            growth += held_slope(length + slack)
            for at in edges:
                if length < at <= length + sequence.left:
                    serial += 1
                    heappush(heap, (step + at - length, serial, sequence.version, sequence, False))
            serial += 1
            heappush(heap, (sequence.ends, serial, sequence.version, sequence, True))
        if last is not None and measured >= last - warmup:
            break
    result.requests = measured
    result.seconds = now - start
    result.busy_s -= busy_before
    result.batch_s -= batch_before
    return result


def _too_long(sequence: _Sequence, rates: Rates) -> LlmcalcError:
    need = rates.held_bytes(sequence.prompt + sequence.output + rates.block_tokens - 1)
    return LlmcalcError(
        "request-too-long",
        f"a request of {sequence.prompt:,} + {sequence.output:,} tokens needs {size(need)} of cache; "
        f"there are {size(max(0.0, rates.budget_bytes))}",
        "use more or larger devices, or shorter requests",
    )


def _measure(result: Outcome, sequence: _Sequence, now: float, warmup: int, last: int | None) -> int:
    """Record one finished request; 1 if it counts."""
    if sequence.index < warmup or (last is not None and sequence.index >= last):
        return 0
    result.ttft.add(sequence.first - sequence.arrival)
    if sequence.output > 1:
        result.tpot.add((now - sequence.first) / (sequence.output - 1))
        result.decode_s += now - sequence.first
        result.decode_tokens += sequence.output - 1
    result.e2e.add(now - sequence.arrival)
    return 1
