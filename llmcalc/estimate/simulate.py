"""A discrete-event simulation of one replica: continuous batching, chunked prefill, a KV limit, preemption.

Between two events (an arrival, an end, a sequence that outgrows a window, a full memory) the batch does not change, so all steps
up to the next one are taken at once. What is kept grows with the requests in flight alone.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush

from llmcalc.errors import LlmcalcError
from llmcalc.estimate.quantiles import HELD, Quantiles
from llmcalc.estimate.serving import Rates
from llmcalc.traffic import Request
from llmcalc.units import size

KNOWN = 4096
"""Lengths of caches whose costs are kept."""
MOST_WAITING = 2**18
"""Requests that queue at once. Behind them nobody's turn comes sooner or later for being counted."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Sequences at once, prompt tokens of a step (0: whole prompts), whether those that decode take theirs from them, and whether
    nobody decodes while prompts are read."""

    max_batch: int
    chunk: int
    shared: bool = False
    first: bool = False


@dataclass(slots=True)
class Outcome:
    """What a simulation measured, after its warm-up."""

    ttft: Quantiles = field(default_factory=Quantiles)
    tpot: Quantiles = field(default_factory=Quantiles)
    e2e: Quantiles = field(default_factory=Quantiles)
    itl: Quantiles = field(default_factory=Quantiles)
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


class _Sequence:
    __slots__ = ("arrival", "cached", "ends", "first", "group", "index", "left", "mark", "output", "place", "prompt", "target", "version")

    def __init__(self, index: int, request: Request) -> None:
        self.index = index
        self.arrival, self.prompt, self.output, self.cached = request
        self.target = self.prompt  # tokens whose cache must be there before it decodes
        self.place = self.cached  # tokens of them that are
        self.left = self.output
        self.first = -1.0
        self.ends = self.group = 0
        self.mark = -1.0  # bytes that others had taken when it gave way
        self.version = 0

    def length(self, step: int) -> int:
        """Tokens in its cache after a decode step, while it decodes."""
        return self.target + self.left - (self.ends - step)


class Replica:
    """A replica between two events: who waits, who is read, who decodes, and what their caches hold and cost.

    As vLLM's V1 scheduler does it: running sequences come first, each step has room for so many prompt tokens, a request starts
    when all of its present tokens fit and there is room for some of them, and where growing caches fill the memory the one that
    started last gives way and is computed again. [vllm v1/core/sched/scheduler.py, scheduler_reserve_full_isl]

    `read_s` and `held` are sums over the caches of all that decode (and of reserved prompts); `slope_s` and `growth` are what one
    step adds to them.
    """

    def __init__(self, rates: Rates, policy: Policy, count: int | None, warmup: int, users: int | None) -> None:
        self.rates, self.warmup, self.users = rates, warmup, users
        self.max_batch, self.chunk, self.shared, self.first = policy.max_batch, policy.chunk, policy.shared, policy.first
        self.narrows = bool(self.shared and self.chunk and not self.first)  # whether those that decode take their tokens from the chunk
        self.paused_s = 0.0  # how long those that decode have waited for prompts
        self.last = None if count is None else warmup + count
        self.slack = rates.block_tokens - 1
        # Lengths at which a sequence's reads or its memory (which is `slack` tokens ahead) change their slope.
        ahead = (edge - self.slack for edge in rates.held_bytes.edges if edge > self.slack)
        self.edges = sorted({*filter(None, rates.kv_s.edges), *ahead})
        self.events: list[tuple[int, int, int, _Sequence, bool]] = []
        self.coming: list[tuple[float, int, Request]] = []  # a heap: when it reaches the engine, and the request
        self.source: Iterator[tuple[float, int, Request]] = iter(())
        self.waiting: deque[_Sequence] = deque()
        self.reading: deque[_Sequence] = deque()
        self.running: dict[int, _Sequence] = {}
        self.now = 0.0  # time [s]
        self.step = 0  # decode steps so far: a sequence ends at a step, not at a time
        self.read_s = self.slope_s = 0.0
        self.held = self.growth = 0.0
        self.taken = 0.0  # bytes of memory that were handed out so far
        # What is asked again and again: most requests are as long as others.
        self.costs: Callable[[int], tuple[float, float, float, float]] = lru_cache(KNOWN)(self.costs_of)
        self.alone_s: Callable[[int, int, int], float] = lru_cache(KNOWN)(self.alone)
        self.way_s = rates.arrival_s and lru_cache(KNOWN)(rates.arrival_s)
        self.came = self.serial = 0
        # Users whose answers end together do not come back together: ways differ.
        self.chance = random.Random(0)  # noqa: S311 - a simulation
        self.outcome = Outcome()
        # Of `outcome`, not counted yet: times between tokens and how often; of requests that ended: until the first token, to the
        # end, and how long the tokens after the first took.
        self.gaps: list[float] = []
        self.times: list[int] = []
        self.firsts: list[float] = []
        self.wholes: list[float] = []
        self.answers: list[float] = []
        self.tokens: list[int] = []

    def run(self, requests: Iterable[Request]) -> Outcome:
        """Serve a stream to its end, or until `count` requests behind the warm-up have ended. Errors: request-too-long."""
        result, coming, waiting, reading, running = self.outcome, self.coming, self.waiting, self.reading, self.running
        budget = self.rates.budget_bytes
        self.source = self.due(requests)
        for _ in range(self.users or 1):
            self.pull()
        start = busy_s = batch_s = 0.0
        all_steps = events = 0
        started, narrows, full = self.warmup == 0, self.narrows, self.chunk or 1
        enough = math.inf if self.last is None else self.last - self.warmup
        while True:
            if coming and coming[0][0] <= self.now:
                self.arrive()
                if not started and self.came > self.warmup:
                    started, start, busy_s, batch_s = True, self.now, 0.0, 0.0
                    result.output_tokens = 0
            batch, room = len(running), full
            if narrows and (waiting or reading):
                room = self.room()
            if waiting:
                self.admit(room)
            if self.held + self.growth > budget:
                self.preempt()
                continue
            before = self.now
            done: list[_Sequence] = []
            if reading and (room or not batch):
                steps = self.read(done, room)
                if self.first:
                    self.paused_s, batch = self.paused_s + self.now - before if batch else 0.0, 0
            elif batch:
                steps = self.decode()
            elif coming:
                self.now = max(self.now, coming[0][0])
                continue
            else:
                break
            spent = self.now - before
            events += 1
            all_steps += steps
            busy_s += spent
            if batch and steps:
                batch_s += spent * batch
                if started:
                    self.note(spent / steps, steps, batch)
                self.paused_s = 0.0
                self.grow(batch, steps, done)
            for sequence in done:
                self.join(sequence)
            if result.requests >= enough:
                break
        self.tally()
        result.seconds, result.busy_s, result.batch_s = self.now - start, busy_s, batch_s
        result.steps, result.events = all_steps, events
        return result

    def note(self, gap: float, steps: int, batch: int) -> None:
        """So many steps of a batch, each of that length [s]; the first of its tokens may have waited longer."""
        self.gaps.append(gap)
        self.times.append(batch * steps)
        if self.paused_s:
            self.times[-1] -= batch
            self.gaps.append(gap + self.paused_s)
            self.times.append(batch)
        if len(self.gaps) >= HELD:
            self.tally()

    def tally(self) -> None:
        """Count what has been noted since the last time."""
        result = self.outcome
        result.itl.extend(self.gaps, self.times)
        result.ttft.extend(self.firsts)
        result.e2e.extend(self.wholes)
        result.tpot.extend([seconds / tokens for seconds, tokens in zip(self.answers, self.tokens, strict=True)])
        result.decode_s += sum(self.answers)
        result.decode_tokens += sum(self.tokens)
        for noted in (self.gaps, self.times, self.firsts, self.wholes, self.answers, self.tokens):
            noted.clear()

    def due(self, requests: Iterable[Request]) -> Iterator[tuple[float, int, Request]]:
        """When each request reaches the engine; one of a user's comes when the user's last answer is there."""
        way, users, draw = self.way_s, self.users, self.chance.random
        for serial, request in enumerate(requests):
            if users:
                request = request._replace(arrival_s=self.now)
            at = request[0]
            if way is not None:
                at += way(request[1] - request[3]) * (2 * draw() if users else 1)
            yield at, serial, request

    def pull(self) -> None:
        """Take the next request from the stream."""
        coming = next(self.source, None)
        if coming is not None:
            heappush(self.coming, coming)

    def arrive(self) -> None:
        """Queue those that have come by now."""
        coming, waiting, now = self.coming, self.waiting, self.now
        while coming and coming[0][0] <= now and len(waiting) < MOST_WAITING:
            waiting.append(_Sequence(self.came, heappop(coming)[2]))
            self.came += 1
            if not self.users:
                self.pull()
        flight = len(self.running) + len(self.reading) + len(waiting)
        if flight > self.outcome.peak_in_flight:
            self.outcome.peak_in_flight = flight

    def room(self) -> int:
        """Prompt tokens of a step, for each group of ranks; 0 with chunks: everything is taken by those that decode."""
        if not self.narrows:
            return self.chunk or 1
        return max(0, self.chunk - -(-len(self.running) // self.rates.groups))

    def admit(self, room: int) -> None:
        """Start what fits and is read in this step, first come first served."""
        room *= self.rates.groups
        for each in self.reading:
            room -= each.target - each.place
        while self.waiting and room > 0 and len(self.running) + len(self.reading) < self.max_batch:
            sequence = self.waiting[0]
            need = self.costs(sequence.target)[2]
            if self.held + need + self.growth > self.rates.budget_bytes:
                if not self.running and not self.reading:
                    raise self.too_long(sequence)
                break
            self.waiting.popleft()
            self.recall(sequence, need)
            self.held += need
            self.taken += need
            sequence.group = sequence.index % self.rates.groups  # in turn, as a router deals them
            self.reading.append(sequence)
            room -= sequence.target - sequence.place

    def recall(self, sequence: _Sequence, need: float) -> None:
        """What an engine's prefix cache still has of a sequence that gave way: the memory was full, so since then others have taken
        its blocks alone, the last first."""
        if sequence.mark >= 0 and self.shared and need:
            kept = int(sequence.target * (1 - (self.taken - sequence.mark) / need))
            block = self.slack + 1
            sequence.place = min(max(sequence.place, kept // block * block), sequence.target - 1)

    def preempt(self) -> None:
        """The one that started last gives way; its tokens are computed again later."""
        if self.reading:
            sequence = self.reading.pop()
            self.held -= self.rates.held_bytes(sequence.target + self.slack)
        elif len(self.running) > 1:
            _, sequence = self.running.popitem()
            length = sequence.length(self.step)
            self.leave(length)
            sequence.version += 1
            sequence.left, sequence.target = sequence.ends - self.step, length + 1  # its newest token has no cache yet
        else:
            raise self.too_long(next(iter(self.running.values())))
        sequence.place, sequence.mark = min(sequence.cached, sequence.target - 1), self.taken
        self.waiting.appendleft(sequence)
        self.outcome.preemptions += 1

    def read(self, done: list[_Sequence], room: int) -> int:
        """A step with a chunk of the prompts that are read, or several alike; those that are through are added to `done`. Their number."""
        rates = self.rates
        batch, read_s, slope_s = (0, 0.0, 0.0) if self.first else (len(self.running), self.read_s, self.slope_s)
        first = self.reading[0]
        if self.chunk and rates.groups == 1 and first.target - first.place > 2 * room:
            count = self.alike(first, room)
            if count > 1:
                attention = rates.attended_chunks_s(first.place, room, count)
                first.place += count * room
                self.now += rates.alike_s(batch, room, 0, attention, count)
                self.now += count * read_s + slope_s * count * (count - 1) / 2
                return count
        if rates.groups == 1 and len(self.reading) == 1 and (first.target - first.place <= room or not self.chunk):
            taken = first.target - first.place
            done.append(self.reading.popleft())
            if not taken:
                return 0
            self.now += self.alone_s(batch, first.place, first.target) + read_s
            first.place = first.target
            return 1
        budgets = [room] * rates.groups
        tokens, ends, attention_s = [0] * rates.groups, [0] * rates.groups, [0.0] * rates.groups
        behind: list[_Sequence] = []
        while self.reading and max(budgets) > 0:
            sequence = self.reading.popleft()
            group = sequence.group
            wanted = sequence.target - sequence.place
            taken = wanted if not self.chunk or wanted <= budgets[group] else budgets[group]
            if taken:
                attention_s[group] += rates.attended_s(sequence.place, sequence.place + taken)
                tokens[group] += taken
                budgets[group] -= taken
                sequence.place += taken
            if sequence.place < sequence.target:
                behind.append(sequence)
            else:
                ends[group] += wanted > 0
                done.append(sequence)
        self.reading.extendleft(reversed(behind))
        if not any(tokens):  # without tokens to compute, they join before the next step
            return 0
        self.now += max(map(rates.chunk_s, [batch] * rates.groups, tokens, ends, attention_s)) + read_s
        return 1

    def alone(self, batch: int, start: int, end: int) -> float:
        """A step beside `batch` sequences that reads what is left of one prompt, without the caches of the others. [s]"""
        return self.rates.chunk_s(batch, end - start, 1, self.rates.attended_s(start, end))

    def alike(self, sequence: _Sequence, room: int) -> int:
        """Steps in which the first prompt takes the whole room, while nobody ends and there is memory."""
        count = self.rates.chunks(sequence.place, sequence.target, room)
        if self.running and not self.first:
            count = min(count, self.upcoming() - self.step)
            if self.growth > 0:
                count = min(count, int((self.rates.budget_bytes - self.held) / self.growth))
        return count

    def upcoming(self) -> int:
        """The step after which somebody ends or outgrows a window."""
        while self.events[0][2] != self.events[0][3].version:
            heappop(self.events)
        return self.events[0][0]

    def decode(self) -> int:
        """All steps to the next end or edge, to an arrival that finds a place, or until the memory is full. Their number."""
        steps = self.upcoming() - self.step
        batch, fixed, slope_s = len(self.running), self.rates.fixed_table, self.slope_s
        each = (fixed[batch] if batch < len(fixed) else self.rates.fixed_s(batch)) + self.read_s
        if self.coming and not self.waiting and batch < self.max_batch:
            gap = self.coming[0][0] - self.now
            if gap < steps * each + slope_s * steps * (steps - 1) / 2:
                # The smallest k with k·each + slope·k(k-1)/2 >= gap.
                if slope_s > 0:
                    linear = each - slope_s / 2
                    steps = min(steps, math.ceil((math.sqrt(linear * linear + 2 * slope_s * max(0.0, gap)) - linear) / slope_s))
                else:
                    steps = min(steps, math.ceil(gap / each))
                steps = max(1, steps)
        if self.growth > 0 and self.held + self.growth * steps > self.rates.budget_bytes:
            steps = int((self.rates.budget_bytes - self.held) / self.growth)  # at least 1: there was room for one
        self.now += steps * each + slope_s * steps * (steps - 1) / 2
        return steps

    def grow(self, batch: int, steps: int, done: list[_Sequence]) -> None:
        """Every decoding sequence is `steps` tokens longer: some end, some outgrow a window. `done` have not joined yet."""
        self.step += steps
        self.read_s += self.slope_s * steps
        self.held += self.growth * steps
        self.taken += self.growth * steps
        self.outcome.output_tokens += batch * steps
        while self.events and self.events[0][0] <= self.step:
            at, _, version, sequence, final = heappop(self.events)
            if version != sequence.version:
                continue
            if final:
                del self.running[sequence.index]
                self.leave(sequence.target + sequence.left)
                self.finish(sequence)
            else:  # from here on its cache grows more slowly
                length = sequence.length(at)
                kv_slope, held_slope = self.rates.kv_s.slope, self.rates.held_bytes.slope
                self.slope_s += kv_slope(length) - kv_slope(length - 1)
                self.growth += held_slope(length + self.slack) - held_slope(length + self.slack - 1)
        if not self.running:
            self.read_s = self.slope_s = self.growth = 0.0
            self.held = sum(self.rates.held_bytes(sequence.target + self.slack) for sequence in (*self.reading, *done))

    def join(self, sequence: _Sequence) -> None:
        """A prompt is read, and its last token yields the first of the answer (or another pool has done so): it decodes."""
        if sequence.first < 0:
            sequence.first = self.now
        sequence.left -= 1
        self.outcome.output_tokens += 1
        length = sequence.target
        if sequence.left <= 0:
            self.held -= self.rates.held_bytes(length + self.slack)
            self.finish(sequence)
            return
        self.running[sequence.index] = sequence
        sequence.ends = self.step + sequence.left
        read_s, slope_s, _, growth = self.costs(length)
        self.read_s += read_s
        self.slope_s += slope_s
        self.growth += growth
        for at in self.edges:
            if length < at <= length + sequence.left:
                self.serial += 1
                heappush(self.events, (self.step + at - length, self.serial, sequence.version, sequence, False))
        self.serial += 1
        heappush(self.events, (sequence.ends, self.serial, sequence.version, sequence, True))

    def leave(self, length: int) -> None:
        """A cache of that length is neither read nor held any more."""
        read_s, slope_s, held, growth = self.costs(length)
        self.read_s -= read_s
        self.slope_s -= slope_s
        self.held -= held
        self.growth -= growth

    def costs_of(self, length: int) -> tuple[float, float, float, float]:
        """What a cache of that length adds to a step, by how much more with each token [s], its memory, and how that grows [bytes]."""
        kv, held, ahead = self.rates.kv_s, self.rates.held_bytes, length + self.slack
        return kv(length), kv.slope(length), held(ahead), held.slope(ahead)

    def finish(self, sequence: _Sequence) -> None:
        """Record a finished request, if it is one of those that count; its user asks again."""
        if self.users:
            self.pull()
        if sequence.index < self.warmup or (self.last is not None and sequence.index >= self.last):
            return
        self.outcome.requests += 1
        self.firsts.append(sequence.first - sequence.arrival)
        self.wholes.append(self.now - sequence.arrival)
        if sequence.output > 1:
            self.answers.append(self.now - sequence.first)
            self.tokens.append(sequence.output - 1)
        if len(self.firsts) >= HELD:
            self.tally()

    def too_long(self, sequence: _Sequence) -> LlmcalcError:
        """The error of a request that no empty replica could hold."""
        need = self.rates.held_bytes(sequence.prompt + sequence.output + self.slack)
        return LlmcalcError(
            "request-too-long",
            f"a request of {sequence.prompt:,} + {sequence.output:,} tokens needs {size(need)} of cache; "
            f"there are {size(max(0.0, self.rates.budget_bytes))}",
            "use more or larger devices, or shorter requests",
        )


def simulate(
    rates: Rates,
    requests: Iterable[Request],
    *,
    max_batch: int,
    chunk: int,
    count: int | None = None,
    warmup: int = 0,
    shared: bool = False,
    first: bool = False,
    users: int | None = None,
) -> Outcome:
    """Serve a stream, first come first served; or `users` that each ask again when their answer is there.

    Each step decodes every running sequence and reads up to `chunk` prompt tokens of those that wait (0: one whole prompt); where
    the room is `shared`, the decoded tokens are among them; `first`: nobody decodes while prompts are read. Requests from `warmup` on
    are measured, `count` of them (None: to the end of the stream, which then drains). Errors: request-too-long.
    """
    return Replica(rates, Policy(max_batch, chunk, shared, first), count, warmup, users).run(requests)
