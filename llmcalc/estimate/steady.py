"""The steady state of continuous batching: a Markov chain from step to step, solved and not simulated.

A state is the number of sequences that decode, the part of a prompt that is still to be read, and the prompts behind it. A step
decodes every sequence once and reads up to a chunk of prompts; requests arrive at random as long as it takes; each answer ends
after it with the same probability. What other lengths of answers change is added at the end, from the chain's own correlations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llmcalc.estimate import serving
from llmcalc.estimate.serving import Profile, Rates

FINEST, MOST_UNITS = 4, 20  # parts of a chunk; where prompts are alike and longer than one, units of a prompt
MOST_WAITING = 64  # prompts; more of them only where a replica is about to saturate
RARE = 3e-4  # probability that may be lost at an edge of the chain


@dataclass(frozen=True, slots=True)
class Steady:
    """The steady state of one replica: decoding sequences, time per token, share of the highest rate. None where saturated."""

    batch: float | None
    tpot_s: float | None
    load: float
    max_rate: float


def steady(rates: Rates, profile: Profile, rate: float, max_batch: int, chunk: int) -> Steady:
    """Mean number of decoding sequences and the time between two of their tokens. Needs random arrivals.

    TPOT is that of the average token; by Little's law, batch = rate · tokens after the first · TPOT.
    """
    most = serving.highest(rates, profile, max_batch, chunk)[0].value
    load, tokens = rate / most, profile.output - 1
    if load >= 1:
        return Steady(None, None, load, most)
    if tokens <= 0:  # whole answers come with their prompts
        return Steady(0.0, None, load, most)
    prompts = Prompts.of(rates, profile, chunk)
    low, high = _window(rates, profile, rate, max_batch, chunk)
    waiting = max(8, min(2 * prompts.most, 16))
    while True:
        chain = Chain(rates, profile, prompts, rate, max_batch, (low, high), waiting)
        chain.solve()
        grow = False
        if high < max_batch and chain.share(high - max(1, (high - low) // 12), high) > RARE:
            high, grow = min(max_batch, high * 7 // 5 + 4), True
        if low and chain.share(low, low + 1) > RARE:
            low, grow = max(0, low * 7 // 10 - 5), True
        if waiting < MOST_WAITING and chain.crowded > RARE:
            waiting, grow = min(MOST_WAITING, 2 * waiting), True
        if not grow:
            break
    beside, later = chain.bunching([request.output - 1 for request in profile.sample])
    if beside > 0.01:
        again = Chain(rates, profile, prompts, rate, max_batch, (low, high), waiting, beside)
        again.solve(chain.x)
        chain = again
    tpot = chain.tpot_s + later
    return Steady(rate * tokens * tpot, tpot, load, most)


def _window(rates: Rates, profile: Profile, rate: float, max_batch: int, chunk: int) -> tuple[int, int]:
    """Numbers of sequences that matter: those of a queue whose speed depends on how many are in it, with some room.

    Prompts that take a share of every step away stretch it; p(n) = p(n-1) · rate · tokens · step / n.
    """
    kv_s, tokens = profile.kv_s(rates), profile.output - 1
    logs, taken = [0.0], 0.0
    for n in range(1, max_batch + 1):
        if n < 4 or n & (n - 1) == 0:  # it changes slowly with n
            taken = rate * profile.prompt_s(rates, chunk, n)
        step_s = (rates.fixed_s(n) + n * kv_s) / max(0.05, 1 - taken)
        logs.append(logs[-1] + math.log(rate * tokens * step_s / n))
    floor = max(logs) - 14
    likely = [n for n, log in enumerate(logs) if log > floor]
    low = likely[0] * 9 // 10
    return low if low >= 12 else 0, min(max_batch, likely[-1] * 23 // 20 + 5)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts cut into units: `sizes` (their shares by units), `most` units a step, tokens and attention of a unit [s]."""

    sizes: dict[int, float]
    most: int
    tokens: float
    attention_s: float

    @staticmethod
    def of(rates: Rates, profile: Profile, chunk: int) -> Prompts:
        """Units such that a chunk and the mean prompt are few of them, and a prompt alone takes as many steps as it does."""
        new = max(1.0, profile.prompt - profile.cached)
        per_prompt, most = 1, 1
        if chunk and new < chunk / 4:
            most = round(chunk / new)
        elif chunk:
            ratio, best = new / chunk, math.inf
            alike = ratio > 1 and len({request.prompt - request.cached for request in profile.sample}) == 1
            for parts in range(1, (max(1, math.floor(MOST_UNITS / ratio)) if alike else FINEST) + 1):
                units = max(1, round(ratio * parts))
                if ratio > 1 and math.ceil(units / parts) < math.ceil(ratio):
                    units += 1
                if abs(units / parts / ratio - 1) < best - 0.02:
                    best, per_prompt, most = abs(units / parts / ratio - 1), units, parts
        tokens = new / per_prompt
        sizes: dict[int, float] = {}
        ordered = sorted((request.prompt - request.cached) / tokens for request in profile.sample) if per_prompt > 1 else [1.0]
        thirds = [ordered[len(ordered) * k // 3 : len(ordered) * (k + 1) // 3] or ordered for k in range(3)]
        for third in thirds:  # of short, middling and long prompts the means
            size = max(1.0, sum(third) / len(third))
            for units, part in ((math.floor(size), 1 - size % 1), (math.floor(size) + 1, size % 1)):
                if part > 1e-6:
                    sizes[units] = sizes.get(units, 0) + part / 3
        return Prompts(sizes, most, tokens, profile.attention_s(rates, chunk) / per_prompt)

    def read(self, left: int, behind: int, room: int, places: int) -> dict[tuple[int, int, int, int], float]:
        """Probabilities of what a step leaves of a prompt with `left` units and those behind: (left, behind, ended, units read)."""
        if not left or not places or room < left:
            units = room if left and places else 0
            return {(left - units, behind, 0, units): 1.0}
        if not behind:
            return {(0, 0, 1, left): 1.0}
        found: dict[tuple[int, int, int, int], float] = {}
        for size, share in self.sizes.items():
            for (rest, others, ended, units), chance in self.read(size, behind - 1, room - left, places - 1).items():
                outcome = (rest, others, ended + 1, units + left)
                found[outcome] = found.get(outcome, 0) + share * chance
        return found


class Chain:
    """The chain of one replica, its `x[n - low, state]` the probabilities at the start of a step."""

    def __init__(
        self,
        rates: Rates,
        profile: Profile,
        prompts: Prompts,
        rate: float,
        max_batch: int,
        window: tuple[int, int],
        waiting: int,
        beside: float = 0.0,
    ) -> None:
        """`beside`: sequences more than n that a step of n holds on average."""
        import numpy

        self.np, self.low = numpy, window[0]
        self.tokens = profile.output - 1
        self.n = numpy.arange(window[0], window[1] + 1)
        self.steps_kept = min(32, max(4, math.ceil(sum(size * share for size, share in prompts.sizes.items()) / prompts.most)))
        longest, width = max(prompts.sizes), len(self.n)
        self.states = 1 + longest * (waiting + 1)

        def state(left: int, behind: int) -> int:
            return 1 + (left - 1) * (waiting + 1) + min(behind, waiting) if left else 0

        # Branches: (state, ended, units read, probability, left, behind), one set for each number of free places.
        places = min(prompts.most, -(-prompts.most // min(prompts.sizes)) + 1)
        free = numpy.minimum(max_batch - self.n, places)
        free = numpy.where(free < places, 2 ** numpy.log2(numpy.maximum(free, 1)).astype(int) * (free > 0), free)
        branches = [
            (number, state(left, behind), chance, *outcome)
            for number in sorted(set(free.tolist()))
            for left, behind in [(0, 0), *((left, behind) for left in range(1, longest + 1) for behind in range(waiting + 1))]
            for outcome, chance in prompts.read(left, behind, prompts.most, number).items()
        ]
        self.crowd = numpy.array([state(left, waiting) for left in range(1, longest + 1)])
        at, source = (numpy.array([branch[k] for branch in branches]) for k in (0, 1))
        self.chance = (free[:, None] == at) * numpy.array([branch[2] for branch in branches])
        self.source, self.ended = source, numpy.array([branch[5] for branch in branches])
        kv_s = profile.kv_s(rates)
        there = numpy.arange(window[0], window[1] + 2 + math.ceil(beside))
        times = {}
        for ended, units in {(branch[5], branch[6]) for branch in branches}:
            tokens, attention = round(units * prompts.tokens), units * prompts.attention_s
            step_s = [(rates.chunk_s(n, tokens, ended, attention) if units else rates.fixed_s(n)) + n * kv_s for n in there.tolist()]
            times[ended, units] = numpy.interp(self.n + beside * (self.n > 0), there, step_s)
        self.time_s = numpy.array([times[branch[5], branch[6]] for branch in branches]).T
        # Arrivals during a step are Poisson's; a replica without work waits for one.
        mean = rate * self.time_s
        number = numpy.arange(int(mean.max() + 5 * math.sqrt(mean.max()) + 4))
        logs = numpy.cumsum(numpy.log(numpy.maximum(number, 1)))
        arrivals = numpy.exp(number * numpy.log(mean)[:, :, None] - mean[:, :, None] - logs)
        if not self.low:
            idle = (source == 0).nonzero()[0]
            arrivals[0, idle] = number == 1
            self.time_s[0, idle] = 1 / rate
        arrivals *= self.chance[:, :, None] / arrivals.sum(2, keepdims=True)
        edges = [
            (index, came, state(size, came - 1) if size else state(branch[3], branch[4] + came), share)
            for index, branch in enumerate(branches)
            for came in number.tolist()
            for size, share in (prompts.sizes.items() if came and not branch[3] else ((0, 1.0),))
        ]
        index, came, target, share = (numpy.array(column) for column in zip(*edges, strict=True))
        weight = arrivals[:, index, came] * share
        kept = weight.max(0) > 1e-7
        self.edge, self.target, self.weight = index[kept], target[kept], weight[:, kept]
        place = numpy.minimum(numpy.arange(width)[:, None] + self.ended, width - 1)
        self.flat = (place[:, self.edge] * self.states + self.target).ravel()
        self.up = (numpy.arange(width)[:, None] * width + place).ravel()
        self.stay = _survivors(self.n, self.tokens / (1 + self.tokens))

    def step(self, x: Any) -> Any:
        """The probabilities one step later."""
        moved = self.np.bincount(self.flat, (x[:, self.source[self.edge]] * self.weight).ravel(), x.size)
        return self.stay.T @ moved.reshape(x.shape)

    def steps(self, x: Any) -> Any:
        """Some steps later: as many as a prompt takes."""
        for _ in range(self.steps_kept):
            x = self.step(x)
        return x

    def balanced(self, x: Any, fallback: Any) -> Any:
        """The same mixtures of prompts for every n, with the probabilities of n that they keep."""
        np, width = self.np, len(self.n)
        mass = x.sum(1, keepdims=True)
        mixture = np.where(mass > 1e-9, x / np.maximum(mass, 1e-300), fallback)
        up = np.bincount(self.up, (mixture[:, self.source] * self.chance).ravel(), width * width).reshape(width, width)
        system = (up @ self.stay).T - np.eye(width)
        system[-1] = 1
        found = np.maximum(np.linalg.solve(system, np.eye(width)[-1]), 0)
        return mixture * (found / found.sum())[:, None]

    def solve(self, x: Any = None) -> None:
        """The probabilities that steps keep: first those of n given the prompts, then all of them (Anderson's acceleration)."""
        np = self.np
        if x is None:
            x = np.zeros((len(self.n), self.states))
            x[:, 0] = 1 / len(self.n)
            empty = x / x.sum(1, keepdims=True)
            for _ in range(3):
                x = self.balanced(self.steps(x), empty)
        self.x = _fixed_point(self.steps, x)

    def share(self, first: int, last: int) -> float:
        """Probability of first <= n <= last."""
        return float(self.x[max(0, first - self.low) : last - self.low + 1].sum())

    @property
    def crowded(self) -> float:
        """Probability of more waiting prompts than the chain counts."""
        return float(self.x[:, self.crowd].sum())

    @property
    def tpot_s(self) -> float:
        """Length of a step, each of its tokens counting. [s]"""
        branches = self.x[:, self.source] * self.chance * self.n[:, None]
        return float((branches * self.time_s).sum() / branches.sum())

    def bunching(self, outputs: list[int]) -> tuple[float, float]:
        """What the lengths of answers change: sequences more beside each, and time per token [s] from the prompts around it.

        Prompts that queue behind each other start to decode together, and behind a queue. Answers of like lengths stay beside each
        other for longer than those that may end at any step, and see less of the time after.
        """
        np, tokens = self.np, self.tokens
        mass = self.x.sum(1) * self.n
        row = min(max(round(float((mass * self.n).sum() / mass.sum())), self.low, 1), int(self.n[-1])) - self.low
        source, weight, ended = self.source[self.edge], self.weight[row], self.ended[self.edge]
        lengths = np.sort(np.array(outputs))
        last = int(lengths[-1])
        grid = np.arange(0, last + 2, max(1, last // 400))
        alive = 1 - np.searchsorted(lengths, grid, side="right") / len(lengths)
        both = np.correlate(alive, alive, "full")[len(alive) - 1 :] / alive.sum()

        def flow(x: Any) -> Any:
            return x[source] * weight

        x = self.x[row] / self.x[row].sum()
        for _ in range(300):
            x = np.bincount(self.target, flow(x), self.states)
        time_s = self.time_s[row][self.edge]
        usual = (flow(x) * ended).sum()
        if not usual:  # a full batch: nobody joins
            return 0.0, 0.0
        usual_s = (flow(x) * time_s).sum()
        beside = ((flow(x) * ended * (ended - 1)).sum() / usual - usual) * (both[0] - 0.5)
        later = 0.0
        x = np.bincount(self.target, flow(x) * ended, self.states) / usual
        ends = tokens / (1 + tokens)
        for after in range(1, 2 * last + 1):
            moved = flow(x)
            more, more_s = (moved * ended).sum() - usual, (moved * time_s).sum() - usual_s
            beside += 2 * more * (np.interp(after, grid, both, right=0) - 0.5 * ends**after)
            later += more_s * (np.interp(after, grid, alive, right=0) - ends**after) / tokens
            if abs(more) < 1e-4 * usual and abs(more_s) < 1e-4 * usual_s and after > self.steps_kept * 3:
                break
            x = np.bincount(self.target, moved, self.states)
        return float(beside), float(later)


def _survivors(n: Any, stay: float) -> Any:
    """Row n: probabilities of how many of n are left, each with probability `stay`; fewer than n[0] count as n[0]."""
    import numpy

    logs = numpy.concatenate(([0.0], numpy.cumsum(numpy.log(numpy.arange(1, n[-1] + 1)))))
    left, gone = n[None, :], n[:, None] - n[None, :]
    some = numpy.maximum(gone, 0)
    found = numpy.where(
        gone >= 0, numpy.exp(logs[n][:, None] - logs[left] - logs[some] + left * math.log(stay) + some * math.log1p(-stay)), 0
    )
    found[:, 0] += 1 - found.sum(1)
    return found


def _fixed_point(steps: Callable[[Any], Any], x: Any, close: float = 3e-5, kept: int = 10) -> Any:
    """The probabilities that `steps` keeps. Ref: Anderson, Iterative procedures for nonlinear integral equations, 1965."""
    import numpy

    tried: list[tuple[Any, Any]] = []
    for _ in range(200):
        later = steps(x)
        off = (later - x).ravel()
        if numpy.abs(off).sum() < close:
            return later
        x = later
        if tried:
            apart = numpy.array([off - old for _, old in tried])
            gram = apart @ apart.T
            part = numpy.linalg.solve(gram + 1e-12 * gram.trace() * numpy.eye(len(gram)), apart @ off)
            x = later - sum(share * (later - old) for share, (old, _) in zip(part, tried, strict=True))
        tried = [*tried, (later, off)][-kept:]
        x = x / x.sum()
    return x
