"""The steady state of continuous batching: a Markov chain from step to step, solved and not simulated.

A state is the number of sequences that decode, the part of a prompt that is still to be read, and the prompts behind it. A step
decodes every sequence once and reads up to a chunk of prompts; requests arrive at random as long as it takes; each answer ends
after it with the same probability. What other lengths of answers change is added at the end, from the chain's own correlations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from llmcalc.estimate import serving
from llmcalc.estimate.serving import Profile, Rates
from llmcalc.formulas import queueing

FINEST, MOST_UNITS = 4, 20  # parts of a chunk; where prompts are alike and longer than one, units of a prompt
MOST_WAITING = 64  # prompts; more of them only where a replica is about to saturate
MOST_STATES = 50_000  # beyond, no more waiting prompts are told apart
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
        if waiting < MOST_WAITING and chain.x.size < MOST_STATES and chain.crowded > RARE:
            waiting, grow = min(MOST_WAITING, 2 * waiting), True
        if not grow:
            break
    beside, later = chain.bunching([request.output - 1 for request in profile.sample])
    if beside > 0.01:
        again = Chain(rates, profile, prompts, rate, max_batch, (low, high), waiting, beside)
        again.solve(chain.x)
        chain = again
    tpot = chain.tpot_s + later
    return Steady(queueing.in_flight(rate, tokens * tpot), tpot, load, most)


def _window(rates: Rates, profile: Profile, rate: float, max_batch: int, chunk: int) -> tuple[int, int]:
    """Numbers of sequences that matter: those of a queue whose speed depends on how many are in it, with some room.

    Prompts that take a share of every step away stretch it; p(n) = p(n-1) · rate · tokens · step / n.
    """
    kv_s, tokens = profile.kv_s(rates), profile.output - 1
    logs, taken = [0.0], 0.0
    for n in range(1, max_batch + 1):
        if n < 4 or n & (n - 1) == 0:  # it changes slowly with n
            taken = queueing.load(rate, profile.prompt_s(rates, chunk, n))
        step_s = queueing.steady_tpot_s(rates.fixed_s(n), kv_s, n, min(0.95, taken))
        logs.append(logs[-1] + math.log(queueing.in_flight(rate, tokens * step_s) / n))
    floor = max(logs) - 14
    likely = [n for n, log in enumerate(logs) if log > floor]
    low = likely[0] * 9 // 10
    return low if low >= 12 else 0, min(max_batch, likely[-1] * 23 // 20 + 5)


class Outcome(NamedTuple):
    """A step's work on prompts: units left of the one being read, prompts behind it; ended, units and attention in the step [s]."""

    left: int
    behind: int
    ended: int
    units: int
    attention_s: float


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts cut into units: `sizes` (their shares by units), `most` units a step, tokens of a unit.

    `attention_s[left]`: attention of a unit that is read when so many are left; it grows towards the end of a prompt.
    """

    sizes: dict[int, float]
    most: int
    tokens: float
    attention_s: tuple[float, ...]

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
                off = abs(units / parts / ratio - 1)
                if off < best and best > 0.03:
                    best, per_prompt, most = off, units, parts
        tokens = new / per_prompt
        sizes: dict[int, float] = {}
        ordered = sorted((request.prompt - request.cached) / tokens for request in profile.sample) if per_prompt > 1 else [1.0]
        thirds = [ordered[len(ordered) * k // 3 : len(ordered) * (k + 1) // 3] or ordered for k in range(3)]
        for third in thirds:  # of short, middling and long prompts the means
            size = max(1.0, sum(third) / len(third))
            for units, part in ((math.floor(size), 1 - size % 1), (math.floor(size) + 1, size % 1)):
                if part > 1e-6:
                    sizes[units] = sizes.get(units, 0) + part / 3
        starts = [round(profile.cached + max(0, per_prompt - left) * tokens) for left in range(max(sizes) + 1)]
        shape = [0.0, *(rates.attended_s(start, round(start + tokens)) for start in starts[1:])]
        scale = profile.attention_s(rates, chunk) / (sum(share * sum(shape[: size + 1]) for size, share in sizes.items()) or 1)
        return Prompts(sizes, most, tokens, tuple(scale * part for part in shape))

    def read(self, left: int, behind: int, room: int, places: int) -> dict[Outcome, float]:
        """Probabilities of what a step does to a prompt with `left` units and those behind."""
        if not left or not places:
            return {Outcome(left, behind, 0, 0, 0.0): 1.0}
        units = min(left, room)
        now = Outcome(left - units, behind, int(units == left), units, sum(self.attention_s[left - units + 1 : left + 1]))
        if units < left or not behind:
            return {now: 1.0}
        found: dict[Outcome, float] = {}
        for size, share in self.sizes.items():
            for then, chance in self.read(size, behind - 1, room - left, places - 1).items():
                both = Outcome(then.left, then.behind, then.ended + 1, then.units + units, then.attention_s + now.attention_s)
                found[both] = found.get(both, 0) + share * chance
        return found


class Branch(NamedTuple):
    """One thing that a step may do, `chance` of it, in a state where so many places are free."""

    places: int
    state: int
    chance: float
    work: Outcome


class Chain:
    """The chain of one replica; `x[n - low, state]`: the probabilities at the start of a step."""

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
        """`window`: first and last n. `beside`: sequences more than n that a step of n holds on average."""
        import numpy

        self.np, self.low, self.waiting = numpy, window[0], waiting
        self.n = numpy.arange(window[0], window[1] + 1)
        self.tokens = profile.output - 1
        self.goes_on = max(0.0, 1 - 1 / self.tokens)  # the chance that a sequence decodes once more
        self.stay = _survivors(self.n, self.goes_on)
        longest = max(prompts.sizes)
        self.states = 1 + longest * (waiting + 1)
        self.together = min(32, max(4, math.ceil(longest / prompts.most)))  # steps taken between two looks
        places = min(prompts.most, -(-prompts.most // min(prompts.sizes)) + 1)
        free = numpy.minimum(max_batch - self.n, places)
        # Near a full batch; a few sets of branches stand for all.
        free = numpy.where(free < places, 2 ** numpy.log2(numpy.maximum(free, 1)).astype(int) * (free > 0), free)
        branches = [
            Branch(number, self.state(left, behind), chance, work)
            for number in sorted(set(free.tolist()))
            for left, behind in [(0, 0), *((left, behind) for left in range(1, longest + 1) for behind in range(waiting + 1))]
            for work, chance in prompts.read(left, behind, prompts.most, number).items()
        ]
        self.source = numpy.array([branch.state for branch in branches])
        self.ended = numpy.array([branch.work.ended for branch in branches])
        self.chance = (free[:, None] == [branch.places for branch in branches]) * numpy.array([branch.chance for branch in branches])
        self.time_s = self._times(rates, profile, prompts, branches, beside)
        self._link(self._arrivals(rate), branches, prompts.sizes)

    def state(self, left: int, behind: int) -> int:
        """The number of a state; as many as `waiting` prompts are told apart."""
        return 1 + (left - 1) * (self.waiting + 1) + min(behind, self.waiting) if left else 0

    def _times(self, rates: Rates, profile: Profile, prompts: Prompts, branches: list[Branch], beside: float) -> Any:
        """Length of a step by n and branch. [s]"""
        np, kv_s = self.np, profile.kv_s(rates)
        there = np.arange(self.low, self.n[-1] + 2 + math.ceil(beside))
        times = {}
        for ended, units in {(branch.work.ended, branch.work.units) for branch in branches}:
            tokens = round(units * prompts.tokens)
            step_s = [(rates.chunk_s(n, tokens, ended, 0.0) if units else rates.fixed_s(n)) + n * kv_s for n in there.tolist()]
            times[ended, units] = np.interp(self.n + beside * (self.n > 0), there, step_s)
        attention = np.array([branch.work.attention_s for branch in branches])
        return np.array([times[branch.work.ended, branch.work.units] for branch in branches]).T + attention

    def _arrivals(self, rate: float) -> Any:
        """Probabilities of 0, 1, … requests during each step: Poisson's. A replica without work waits for the one that ends it."""
        np = self.np
        mean = rate * self.time_s
        number = np.arange(int(mean.max() + 5 * math.sqrt(mean.max()) + 4))
        logs = np.cumsum(np.log(np.maximum(number, 1)))
        found = np.exp(number * np.log(mean)[:, :, None] - mean[:, :, None] - logs)
        if not self.low:
            idle = (self.source == 0).nonzero()[0]
            found[0, idle] = number == 1
            self.time_s[0, idle] = 1 / rate
        return found / found.sum(2, keepdims=True)

    def _link(self, arrivals: Any, branches: list[Branch], sizes: dict[int, float]) -> None:
        """From every branch to the states that arrivals make of it, with the probabilities."""
        np = self.np
        edges = [
            (index, came, self.state(size, came - 1) if size else self.state(branch.work.left, branch.work.behind + came), share)
            for index, branch in enumerate(branches)
            for came in range(arrivals.shape[2])
            for size, share in (sizes.items() if came and not branch.work.left else ((0, 1.0),))
        ]
        index, came, target, share = (np.array(column) for column in zip(*edges, strict=True))
        weight = arrivals[:, index, came] * self.chance[:, index] * share
        kept = weight.max(0) > 1e-7
        self.edge, self.target, self.weight = index[kept], target[kept], weight[:, kept]
        self.ends, kind = np.unique(self.ended[self.edge], return_inverse=True)
        rows = np.arange(len(self.n))[:, None]
        self.flat = ((rows * len(self.ends) + kind) * self.states + self.target).ravel()

    def step(self, x: Any) -> Any:
        """The probabilities one step later."""
        np, width, kinds = self.np, len(self.n), len(self.ends)
        moved = np.bincount(self.flat, (x[:, self.source[self.edge]] * self.weight).ravel(), x.size * kinds)
        return self.joined((self.stay.T @ moved.reshape(width, -1)).reshape(width, kinds, -1))

    def joined(self, left: Any) -> Any:
        """Those left, `left[n, kind]`, and the sequences that join them: `ends[kind]`, as far as there are places."""
        x = left[:, 0] * 0
        for kind, more in enumerate(self.ends.tolist()):
            inside = len(x) - min(more, len(x) - 1)
            x[len(x) - inside :] += left[:inside, kind]
            x[-1] += left[inside:, kind].sum(0)
        return x

    def steps(self, x: Any) -> Any:
        """Some steps later: as many as a prompt takes."""
        for _ in range(self.together):
            x = self.step(x)
        return x

    def balanced(self, x: Any, fallback: Any) -> Any:
        """The same mixtures of prompts for every n, with the probabilities of n that they keep."""
        np, width = self.np, len(self.n)
        mass = x.sum(1, keepdims=True)
        mixture = np.where(mass > 1e-9, x / np.maximum(mass, 1e-300), fallback)
        joins = mixture[:, self.source] * self.chance @ (self.ended[:, None] == self.ends)
        system = self.joined(self.stay.T[:, None, :] * joins.T) - np.eye(width)
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
        return float(self.x[:, self.waiting + 1 :: self.waiting + 1].sum())

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
        np, tokens, goes_on = self.np, self.tokens, self.goes_on
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
        beside = ((flow(x) * ended * (ended - 1)).sum() / usual - usual) * (both[0] - 1 / (1 + goes_on))
        later = 0.0
        x = np.bincount(self.target, flow(x) * ended, self.states) / usual
        for after in range(1, 2 * last + 1):
            moved = flow(x)
            more, more_s = (moved * ended).sum() - usual, (moved * time_s).sum() - usual_s
            beside += 2 * more * (np.interp(after, grid, both, right=0) - goes_on**after / (1 + goes_on))
            later += more_s * (np.interp(after - 1, grid, alive, right=0) - goes_on ** (after - 1)) / tokens
            if abs(more) < 1e-4 * usual and abs(more_s) < 1e-4 * usual_s and after > self.together * 3:
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
        gone >= 0, numpy.exp(logs[n][:, None] - logs[left] - logs[some] + left * math.log(max(stay, 1e-300)) + some * math.log1p(-stay)), 0
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
