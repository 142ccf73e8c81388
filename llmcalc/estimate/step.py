"""How long a step takes: the textbook's time, the roofline's, or what an engine is expected to take, with its range."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from llmcalc.architecture import Model
from llmcalc.errors import UsageError, printable
from llmcalc.estimate import charged, counts, hosting, layout, memory, rates, terms
from llmcalc.estimate.counts import Counts
from llmcalc.figures import Figure, Formula, larger, smaller, total
from llmcalc.formulas import expected as f
from llmcalc.formulas import serving, time
from llmcalc.plan import Deployment, Workload

BISECTIONS = 12
TYPICAL_OUTPUT = 512
"""Tokens of others' answers where nobody says: the median of the closed loops in measurements/."""
NOMINAL_STEP = 2048
"""Tokens of a step where no engine is named: vLLM's max_num_batched_tokens on small devices."""
MOST = 100_000
RUNNING = 2048
"""Sequences that a serving engine runs at most, on each rank group."""


ENDS = ("", "_low", "_high")
"""How the keys of an estimate and of its range's ends differ."""
METHODS = {
    "expected": "measured rates and fixed costs of such devices and engines",
    "napkin": "the textbook's time at nominal rates, whole-model; engines usually take longer",
    "roofline": "operator by operator at nominal rates, a bound that no engine beats",
}
"""The readings of a time, and what each is."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A time in one reading, its range (of a textbook's reading the time itself), what is behind the range in words, and its terms."""

    mid: Figure
    low: Any
    high: Any
    words: str = ""
    terms: dict[str, Figure] = field(default_factory=dict)
    unmeasured: str = ""
    """Why the range is a wider class's, where the own class has too few measured rows."""

    @property
    def mid_s(self) -> Any:
        """The estimate. [s]"""
        return self.mid.value

    @property
    def low_s(self) -> Any:
        """The range's lower end. [s]"""
        return self.low

    @property
    def high_s(self) -> Any:
        """The range's upper end. [s]"""
        return self.high


def ends(timed: Timed | None) -> tuple[Any, Any, Any]:
    """(estimate, low end, high end), each None where it cannot be timed."""
    return (None, None, None) if timed is None else (timed.mid.value, timed.low, timed.high)


# ---- a decode step ------------------------------------------------------------------------------------------------


def step(model: Model, plan: Deployment, work: Workload, method: str, parts: dict[str, Figure] | None = None, burst: bool = False) -> Timed:
    """One decode step of `work.batch` sequences of `work.ctx` tokens, either of which may be an array.

    `method`: napkin, roofline, or expected, which with `work.prompt` and `work.output` is the mean step while others' prompts are read.
    `parts`: the step's terms, where they are known already; an expected time has none of its own. `burst`: all requests came at once,
    so that later ones' prompts interrupt half as often. Errors: unknown-method.
    """
    check(method)
    if method == "expected":
        return _expected(model, plan, work, parts or {}, burst)
    parts = parts or terms.step_terms(model, plan, work, method)
    length = napkin_time(parts) if method == "napkin" else roofline_time(parts)
    return Timed(length, length.value, length.value, terms=parts)


def floor(model: Model, plan: Deployment, work: Workload) -> Timed | None:
    """The roofline's step, or None where the device has no known compute rate."""
    return step(model, plan, work, "roofline") if timeable(model, plan) else None


def timeable(model: Model, plan: Deployment) -> bool:
    """Whether the device has a compute rate for the weights' format and for 16 bits."""
    return all(terms.compute_rate(plan.device, fmt).value is not None for fmt in (plan.weights, memory.compute_format(model)[0]))


def check(method: str) -> None:
    """Errors: unknown-method."""
    if method not in METHODS:
        raise UsageError("unknown-method", f"{printable(method, 40)!r} is not a method", f"use one of {', '.join(METHODS)}")


class Readings(NamedTuple):
    """One step by the method in force, by the textbook, and as an engine is expected to take; the first with the terms it is told by."""

    force: Timed
    napkin: Timed
    expected: Timed

    @property
    def beside(self) -> dict[str, Any]:
        """What stands in a row beside the method in force."""
        likely = {f"expected_tpot{end}_s": value for end, value in zip(ENDS, ends(self.expected), strict=True)}
        return {"napkin_tpot_s": self.napkin.mid_s, **likely}


def readings(model: Model, plan: Deployment, work: Workload, method: str) -> Readings:
    """A step in all the readings that are told; arrays as in `step`. Errors: unknown-method."""
    check(method)
    napkin = step(model, plan, work, "napkin")
    likely = step(model, plan, work, "expected", napkin.terms)
    force = {"napkin": napkin, "expected": likely}.get(method) or step(model, plan, work, method)
    return Readings(force if force.terms else replace(force, terms=napkin.terms), napkin, likely)


def napkin_time(parts: dict[str, Figure], name: str = "step_time_s") -> Figure:
    """The textbook's step from its terms; an unknown compute rate leaves its arithmetic out."""
    math = parts["compute_s"]
    return time.napkin_step_s.of(
        as_name=name,
        kv_read_s=parts["kv_read_s"],
        weight_read_s=parts["weight_read_s"],
        compute_s=math if math.value is not None else Figure("compute_s", 0, "s", math.origin),
        communication_s=parts["communication_s"],
    )


def roofline_time(parts: dict[str, Figure], name: str = "step_time_s") -> Figure:
    """The sum of the operators of a step or a prompt: no engine beats it."""
    return total(name, "s", (parts["gemms_s"], parts["attention_s"], parts["communication_s"]))


def _figures(numbers: dict[str, Any], origin: str) -> dict[str, Figure]:
    """Terms as figures: seconds by their names, the rest without a unit."""
    return {name: Figure(name, value, "s" if name.endswith("_s") else "", origin) for name, value in numbers.items()}


def _traced(formula: Formula, name: str, inputs: dict[str, Any]) -> Any:
    return formula.of(inputs, as_name=name)


def _plain(formula: Formula, name: str, inputs: dict[str, Any]) -> Any:
    return formula(**inputs)


Use = Callable[[Formula, str, dict[str, Any]], Any]
"""How a formula is used: on figures, with a derivation, or on plain numbers and arrays."""


def _product(name: str, read: Any, arithmetic: Any, given: dict[str, Any], read_share: str, compute_share: str, use: Use = _traced) -> Any:
    apart = given[rates.APART.get(read_share, "apart_share")]
    shares = {"read_share": given[read_share], "compute_share": given[compute_share], "apart_share": apart}
    return use(f.product_s, name, {"read_s": read, "compute_s": arithmetic, **shares})


def _made(formula: Formula, known: dict[str, Any], use: Use = _traced) -> Any:
    """A formula's figure from whatever of these it takes."""
    return use(formula, formula.name, {name: known[name] for name in formula.parameters})


def _engine_step(model: Model, plan: Deployment, work: Workload, found: Counts, given: dict[str, Any], use: Use = _traced) -> Any:
    """One decode step in an engine, undisturbed."""
    n: dict[str, Any] = counts.step_numbers(model, plan, work, found)
    one: Any = 1.0
    if use is _traced:
        n, one = _figures(n, "counted on one rank, at nominal rates"), Figure("imbalance_factor", 1.0, "", "one group")
    experts = {"all_read_s": n["all_experts_read_s"], "experts": n["experts"], "top_k": n["top_k"], "tokens": n["together"]}
    uneven = given["imbalance_factor"] if plan.dp > 1 else one
    if plan.imbalance is not None:
        uneven = plan.imbalance if use is _plain else Figure("imbalance_factor", plan.imbalance, "", "`expert_imbalance`")
    shares = {"routing_share": given["routing_share"], "imbalance_factor": uneven}
    routed = use(f.experts_read_s, "expert_read_s", experts | shares)
    parts = {
        "dense_s": _product("dense_s", n["dense_read_s"], n["dense_compute_s"], given, "dense_share", "compute_share", use),
        "plain_s": _product("plain_s", n["plain_read_s"], n["plain_compute_s"], given, "plain_share", "compute_share", use),
        "head_s": _product("head_s", n["head_read_s"], n["head_compute_s"], given, "plain_share", "compute_share", use),
        "experts_s": _product("experts_s", routed, n["expert_compute_s"], given, "expert_share", "expert_compute_share", use),
        "attention_s": _product("attention_s", n["cache_read_s"], n["score_s"], given, "cache_share", "score_share", use),
        "states_s": n["states_s"],
        "cache_share": given["cache_share"],
        "talk_s": n["talk_s"],
        "talk_factor": given["talk_factor"],
        "layers_s": _made(f.layers_s, n | given, use),
        "host_s": _made(f.host_s, n | given, use),
    }
    return use(f.expected_step_s, "expected_step_time_s", parts)


def undisturbed_s(model: Model, plan: Deployment, work: Workload, of: Known) -> Any:
    """An expected step between others' prompts as plain seconds, without a derivation: what a sweep asks a table of. [s]

    `of` may hold columns: the constants of several devices whose numbers are columns of `plan.device`.
    """
    return _engine_step(model, plan, work, of.counts, {name: figure.value for name, figure in of.given.items()}, _plain)


def _expected(model: Model, plan: Deployment, work: Workload, parts: dict[str, Figure], burst: bool) -> Timed:
    """The step in an engine; with others' prompts, where their shape is given."""
    found, given = known(model, plan)
    mid = _with_host(_engine_step(model, plan, work, found, given), hosting.step_time(model, plan, work.batch, work.ctx))
    if work.output and work.prompt and rates.kind(plan) == "serving":
        mid = _interrupted(model, plan, work, mid, burst)
    one, many = (rates.band(name, model, plan) for name in step_classes(plan, work))
    single = work.batch == 1  # of an array, each
    low, high = many.low + (one.low - many.low) * single, many.high + (one.high - many.high) * single
    words, unmeasured = one.words, one.unmeasured
    if hasattr(single, "__array__") or not single:
        unmeasured = many.unmeasured
        words = many.words + ("" if shaped(plan, work) else ", others' prompts between the steps included: their shape is not given")
    return Timed(mid, mid.value * low, mid.value * high, words + rates.nearby(model, plan), parts, unmeasured)


def _with_host(on_card: Figure, on_host: Figure | None) -> Figure:
    """A step or a reading, and what the host does of it meanwhile waiting."""
    return on_card if on_host is None or on_card.value is None else total(on_card.name, "s", (on_card, on_host))


class Loop(NamedTuple):
    """A closed loop in its steady state; each may be an array."""

    decoding: Any
    """Sequences that decode in a step."""
    together: Any
    """Prompts that are read in one step, where any are."""
    others: Any
    """Sequences beside one's own whose prompts interrupt an answer."""
    group: Any = 1.0
    """Requests that wait for each other's prompts."""


def loop(model: Model, plan: Deployment, work: Workload, alone_s: Any, single_s: float, burst: bool = False) -> Loop:
    """What a step of `work.batch` requests at a time holds; `alone_s`, `single_s`: a step and a prompt without others. Of equal
    requests an engine that reads prompts first keeps all in step: they are read one group after the other, then all decode."""
    given = known(model, plan).given
    output, new = float(work.output or 1), max(1, (work.prompt or 1) - work.cached)
    batch = smaller(work.batch, held(model, plan, work.prompt or 1, output))
    sequences = batch / plan.dp if plan.dp > 1 else batch
    way = new * given["token_s"].value + given["request_s"].value
    if plan.engine.prompts_first:
        # Their ways differ, up to twice the mean: so many come while a prompt is read.
        group = larger(1, smaller(sequences, step_room(plan) / new))
        together = larger(1, smaller(group, sequences * single_s / (2 * way)))
        # Who comes first finds nobody and is read alone; the others of its group interrupt it.
        return Loop(batch, together, larger(0, sequences - together) / 2 + 1 - 1 / together, group)
    added_s = given["interruption_share"].value * single_s
    others = larger(0, sequences - 1)
    if not burst:
        others = others - f.read_alongside(step_room(plan) / new, others, 2 * way / alone_s, output, added_s, alone_s)
    others = others / (2 if burst else 1)
    # Between two answers a request is on its way and read: so many steps in which it does not decode.
    length = alone_s + added_s * others / output
    cycle = output + (0.5 + (way + added_s) / length) * (others > 0)
    per_step = smaller(others / cycle, step_room(plan) / new)
    decoding = work.batch if burst else larger(1, smaller(batch * output / cycle, (1 + per_step * output) * plan.dp))
    return Loop(decoding, f.prompts_together(larger(1e-9, per_step)), per_step * output)


def held(model: Model, plan: Deployment, prompt: int, output: float) -> float:
    """Sequences of a closed loop that memory and engine run at once, at their mean length and in the engine's pages."""
    mean = Figure("ctx_tokens", prompt + output / 2, "tokens")
    extra = charged.sequence_bytes(model, plan, mean).value / (layout.sequence_bytes(model, plan, mean).value or 1)
    at_once = running(model, replace(plan, max_sequences=plan.max_sequences or MOST), prompt, round(output))
    return max(1.0, at_once / (extra or 1))


def _interrupted(model: Model, plan: Deployment, work: Workload, alone: Figure, burst: bool) -> Figure:
    """The mean step while others' prompts are read, in a closed loop of `work.batch` requests at a time."""
    found, given = known(model, plan)
    prompt = work.prompt or 1
    single = reading(model, plan, prompt, work.cached)
    if single.value is None:
        return alone
    state = loop(model, plan, work, alone.value, single.value, burst)
    if not burst:
        step_s = _engine_step(model, plan, replace(work, batch=state.decoding), found, given)
        alone = _with_host(step_s, hosting.step_time(model, plan, state.decoding, work.ctx))
    share = given["interruption_share"]
    if plan.engine.prompts_first:
        share = Figure("interruption_share", 1.0, "", "nobody decodes while prompts are read")
    return f.interrupted_step_s.of(
        as_name="expected_step_time_s",
        step_time_s=alone,
        reading_s=reading(model, plan, prompt, work.cached, together=state.together),
        others=Figure("others", state.others, "", "sequences beside one's own whose prompts a step has room for"),
        output_tokens=Figure("output_tokens", work.output, "tokens", "`output_tokens`"),
        interruption_share=share,
    )


def step_room(plan: Deployment) -> int:
    """Prompt tokens that a step has room for: the engine's, or those of vLLM's smaller devices where no engine is named."""
    return NOMINAL_STEP if plan.engine.nominal and plan.batched_tokens is None else int(plan.step_tokens(NOMINAL_STEP))


class Known(NamedTuple):
    """What is measured of a deployment, which no workload changes: its counts and its constants."""

    counts: Counts
    given: dict[str, Figure]


def known(model: Model, plan: Deployment) -> Known:
    """A deployment's counts and constants; of the same objects they are found once."""
    return _known(_Same(model, plan))


class _Same:
    """A model and a deployment, the same as another pair if they are the same objects: neither can be hashed by its values."""

    __slots__ = ("model", "plan")

    def __init__(self, model: Model, plan: Deployment) -> None:
        self.model, self.plan = model, plan

    def __hash__(self) -> int:
        return hash((id(self.model), id(self.plan)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.model is other.model and self.plan is other.plan


@lru_cache(maxsize=16)
def _known(of: _Same) -> Known:
    found = counts.count(of.model, of.plan, rates.kind(of.plan) == "desktop")
    return Known(found, rates.constants(of.plan, found))


def shaped(plan: Deployment, work: Workload) -> bool:
    """Whether all is known that a step's estimate may hold: of a busy server that is what others ask for, too."""
    single = not hasattr(work.batch, "__array__") and work.batch == 1
    return single or rates.kind(plan) == "desktop" or bool(work.output and work.prompt)


def _ranged(of_what: str, mid: Figure, model: Model, plan: Deployment) -> Timed:
    """A time with its band."""
    found = rates.band(of_what, model, plan)
    return Timed(mid, mid.value * found.low, mid.value * found.high, found.words + rates.nearby(model, plan), unmeasured=found.unmeasured)


def step_classes(plan: Deployment, work: Workload) -> tuple[str, str]:
    """Which rows the band of one sequence is of, and that of several: a desktop engine's batches are further off than its single
    sequences, and between the steps of a busy server others' prompts are read, which not every workload tells."""
    if rates.kind(plan) == "desktop":
        return "stream", "batch"
    return "step", "step" if work.output and work.prompt else "alone"


def reading(
    model: Model, plan: Deployment, prompt: int, cached: int = 0, parts: dict[str, Figure] | None = None, together: Any = 1.0
) -> Figure:
    """How long reading a prompt keeps the devices busy. [s] value None without a compute rate.

    `parts`: its terms. `together`: prompts that are read in the same step, which read the weights once (may be an array).
    """
    if terms.compute_rate(plan.device, plan.weights).value is None:
        return Figure("reading_s", None, "s", terms.compute_rate(plan.device, plan.weights).origin)
    found, given = known(model, plan)
    desktop = rates.kind(plan) == "desktop"
    n = _figures(counts.prompt_numbers(model, plan, prompt, cached, found, desktop, together), "counted on one rank, at nominal rates")
    costs = {name: given[f"prompt_{name}"] for name in ("layer_s", "mixture_s", "recurrent_s")}
    busy = f.expected_reading_s.of(
        as_name="reading_s",
        dense_s=_product("dense_s", n["dense_read_s"], n["dense_compute_s"], given, "dense_share", "prompt_share"),
        plain_s=_product("plain_s", n["plain_read_s"], n["plain_compute_s"], given, "plain_share", "prompt_share"),
        experts_s=_product("experts_s", n["expert_read_s"], n["expert_compute_s"], given, "expert_share", "prompt_expert_share"),
        talk_s=n["talk_s"],
        talk_factor=given["talk_factor"],
        layers_s=_made(f.layers_s, n | costs),
        activation_s=n["activation_s"],
        activation_factor=given["activation_factor"],
        chunks=n["chunks"],
        scores_s=n["scores_s"],
        score_share=given["prompt_score_share"],
        prefix_s=n["prefix_s"],
        cache_share=given["cache_share"],
        head_read_s=n["head_read_s"],
        plain_share=given["plain_share"],
    )
    busy = _with_host(busy, hosting.prompt_time(model, plan, prompt - cached))
    if plan.pp == 1:
        return busy
    # One stage after another as if they were one device: with several chunks the stages work at once.
    share = replace(busy, name="busy_s", value=busy.value / plan.pp)
    return serving.pipelined_s.of(
        as_name="reading_s",
        busy_s=share,
        stages=Figure("stages", plan.pp, "", layout.LAYOUT),
        microbatches=Figure("microbatches", max(1.0, n["chunks"].value), "", "chunks of the prompt"),
    )


def added(model: Model, plan: Deployment, tokens: int, start: int = 0) -> Figure:
    """What reading `tokens` of a prompt behind its first `start` adds to a step of decoding sequences, as an engine is expected to. [s]

    The term that the mean step of a busy server sums. value None without a compute rate.
    """
    busy = reading(model, plan, start + tokens, start)
    if busy.value is None:
        return busy
    share = known(model, plan)[1]["interruption_share"]
    return Figure("added_s", busy.value * share.value, "s", f"{share.origin}: a share of reading alone", None, (busy, share))


def ttft(
    model: Model,
    plan: Deployment,
    prompt: int,
    cached: int = 0,
    others: float = 0,
    parts: dict[str, Figure] | None = None,
    method: str = "expected",
    *,
    output: float = 0,
    burst: bool = False,
    serve: bool = True,
) -> Timed | None:
    """Time to the first token of a prompt; None without a compute rate. `parts`: its terms.

    napkin, roofline: on an idle replica. expected: beside `others` sequences that write `output` tokens each, whose prompts are read,
    too; `burst`: all come at once; `serve`: with what a server adds to a request.
    """
    check(method)
    if method == "roofline":
        if not timeable(model, plan):
            return None
        parts = terms.prompt_operators(model, plan, prompt, cached)
        mid = roofline_time(parts, "ttft_s")
        return Timed(mid, mid.value, mid.value, terms=parts)
    if method == "expected":
        likely = first_token_s(model, plan, prompt, cached, others, output, burst) if serve else reading(model, plan, prompt, cached)
        band = "ttft" if serve and rates.kind(plan) == "serving" else "prompt"
        return None if likely is None or likely.value is None else _ranged(band, likely, model, plan)
    parts = parts or terms.prompt_terms(model, plan, prompt, cached)
    mid = first_token(prompt_time(parts), plan, 1)
    return None if mid.value is None else Timed(mid, mid.value, mid.value, terms=parts)


def first_token_s(
    model: Model, plan: Deployment, prompt: int, cached: int = 0, others: float = 0, output: float = 0, burst: bool = False
) -> Figure | None:
    """The estimate of `ttft` without its range. [s]"""
    busy = reading(model, plan, prompt, cached)
    if busy.value is None:
        return None
    found, given = known(model, plan)
    length = output or TYPICAL_OUTPUT
    places = held(model, plan, prompt, length) if others > 0 else 1.0
    at_once = min(1 + others, places)
    beside = max(0.0, at_once / plan.dp - 1) if plan.dp > 1 else at_once - 1
    running = _engine_step(model, plan, Workload(prompt + length / 2, at_once), found, given)
    answers = Figure("output_tokens", length, "tokens", "`output_tokens`" if output else "a typical answer")
    who = Figure("others", beside, "", "sequences beside one's own")
    waiting = f.prompts_in_reading.of(others=who, reading_s=busy, output_tokens=answers, step_time_s=running)
    turn = Figure("turn_s", 0.0, "s", "the memory holds all that are sent at once")
    if 1 + others > at_once:
        each = Figure("request_s", busy.value + length * running.value, "s", "reading and its steps", None, (busy, running))
        sent, kept = Figure("requests", 1 + others, "", "sent at once"), Figure("held", at_once, "", "that the memory holds")
        turn = f.turn_wait_s.of(as_name="turn_s", requests=sent, held=kept, request_s=each)
    shares = {name: given[name] for name in ("queue_share", "burst_share", "steps_waited", "token_s", "request_s")}
    if burst or (plan.engine.prompts_first and others > 0):
        shares |= {"queue_share": Figure("queue_share", 0.0, "", "all come at once"), "burst_share": Figure("burst_share", 0.5, "", "half")}
    if plan.engine.prompts_first and others > 0:
        # Equal requests are in step: a group of prompts has its tokens when the whole of it is read.
        state = loop(model, plan, Workload(prompt + length / 2, at_once, prompt, int(length), cached), running.value, busy.value)
        busy = reading(model, plan, prompt, cached, together=state.group)
        who = Figure("others", beside + state.group - 1, "", "sequences beside one's own, and those read in the same step")
    return f.expected_ttft_s.of(
        shares,
        as_name="expected_ttft_s",
        reading_s=busy,
        prompts_in_reading=waiting,
        others=who,
        busy=Figure("busy", 1 if others > 0 else 0, "", "whether others decode"),
        step_time_s=running,
        tokens=Figure("tokens", prompt - cached, "tokens", "`prompt`"),
        turn_s=turn,
    )


def batch_request(model: Model, plan: Deployment, batch: float, prompt: int, output: int) -> Timed | None:
    """A whole static batch of alike requests; None without a compute rate. [s]"""
    busy = reading(model, plan, prompt)
    if busy.value is None:
        return None
    found, given = known(model, plan)
    at_once = min(batch, running(model, replace(plan, max_sequences=None), prompt, output))
    mid = f.batch_request_s.of(
        as_name="request_s",
        turns=Figure("turns", batch / at_once, "", "times the batch that the memory holds"),
        sequences=Figure("sequences", at_once / plan.dp, "", "at a time on each group"),
        reading_s=busy,
        interruption_share=given["interruption_share"],
        output_tokens=Figure("output_tokens", output, "tokens", "`output_tokens`"),
        step_time_s=_engine_step(model, plan, Workload(prompt + output / 2, at_once), found, given),
        request_s=given["request_s"],
    )
    return _ranged("request", mid, model, plan)


KERNELS = ("dense_s", "plain_s", "head_s", "experts_s", "attention_s")
"""The parts of a step in which a device works at full power."""


def energy(model: Model, plan: Deployment, work: Workload) -> Timed | None:
    """Joules of one output token, all devices together, with their range; None without a rated power. `work` may hold arrays."""
    if plan.device.power_w is None:
        return None
    found, given = known(model, plan)
    length = _engine_step(model, plan, work, found, given)
    kernels = total("kernels_s", "s", tuple(part for part in length.inputs if part.name in KERNELS))
    share = f.power_share.of(idle_share=given["idle_share"], busy_share=given["busy_share"], kernels_s=kernels, step_time_s=length)
    if plan.device.power_cap_w is not None:
        limit = Figure("power_cap_w", plan.device.power_cap_w, "W", "`power_cap`")
        share = f.limited_share.of(as_name="power_share", power_share=share, power_cap_w=limit, power_w=plan.device.power_w)
    mid = f.expected_joules_per_token.of(
        power_w=Figure("power_w", plan.device.power_w, "W", f"{plan.device.id}, rated"),
        devices=Figure("devices", plan.ranks, "", layout.LAYOUT),
        power_share=share,
        step_time_s=length,
        batch=Figure("batch", work.batch, "", "`batch`"),
    )
    return _ranged("energy", mid, model, plan)


def running(model: Model, plan: Deployment, prompt: int, output: int) -> float:
    """Sequences that run at once under full load: what 90% of the memory hold at their mean length, up to what an engine runs."""
    each = plan.device.memory_usable_bytes or math.inf
    free = (plan.utilization or 0.9) * each * plan.ranks - layout.held_weight_bytes(model, plan).value
    sequence = layout.sequence_bytes(model, plan, Figure("ctx_tokens", prompt + output / 2, "tokens")).value
    return float(max(1.0, min(free / sequence if sequence else math.inf, plan.max_sequences or RUNNING * plan.dp)))


def loaded(model: Model, plan: Deployment, prompt: int, output: int) -> float:
    """Sequences that run at once under full load, in the engine's pages."""
    return min(running(model, plan, prompt, output), held(model, plan, prompt, output))


def in_flight(model: Model, plan: Deployment, rate: float, prompt: int, output: int) -> float:
    """Sequences of a replica at so many requests a second: arrivals times the time of a request, which the others make longer."""
    low, high = 1.0, running(model, plan, prompt, output)
    for _ in range(BISECTIONS):
        batch = (low + high) / 2
        each = output * step(model, plan, Workload(prompt + output / 2, batch, prompt, output), "expected").mid_s
        low, high = (batch, high) if rate * each > batch else (low, batch)
    return (low + high) / 2


def load(model: Model, plan: Deployment, prompt: int, output: int) -> Timed | None:
    """Output tokens per second of one replica under full load, with its range; the step's `mid_s` is a rate here. [tokens/s]

    None for a desktop engine, of which no such load was measured.
    """
    if rates.kind(plan) == "desktop":
        return None
    batch = loaded(model, plan, prompt, output)
    found = step(model, plan, Workload(prompt + output / 2, batch, prompt, output), "expected")
    factor = known(model, plan).given["load_factor"]
    length = Figure("step_time_s", found.mid_s * factor.value, "s", "filling, draining and scheduling included", None, (found.mid, factor))
    mid = time.tokens_per_s.of(
        as_name="expected_tokens_per_s", batch=Figure("batch", batch, "", "what the memory holds"), step_time_s=length
    )
    of_time = rates.band("load", model, plan)
    return Timed(mid, mid.value / of_time.high, mid.value / of_time.low, of_time.words + rates.nearby(model, plan))


def prompt_time(found: dict[str, Figure]) -> Figure:
    """The time of a prefill that keeps all ranks busy. None without a compute rate."""
    if found["gemm_s"].value is None:
        return Figure("prefill_time_s", None, "s", found["gemm_s"].origin)
    parts = ("gemm_s", "weight_read_s", "attention_s", "kv_read_s", "communication_s")
    return serving.prefill_s.of({key: found[key] for key in parts}, as_name="prefill_time_s")


def prompt_busy(model: Model, plan: Deployment, prompt: int, cached: int, method: str) -> Figure:
    """How long reading a prompt keeps the ranks busy, by the method; value None without a compute rate. [s]"""
    if method == "expected":
        return reading(model, plan, prompt, cached)
    if method == "roofline" and (found := ttft(model, plan, prompt, cached, method=method)):
        return found.mid
    return prompt_time(terms.prompt_terms(model, plan, prompt, cached))


def first_token(busy: Figure, plan: Deployment, microbatches: int) -> Figure:
    """TTFT of one prompt on an idle replica: a pipeline works on it chunk by chunk, and fills and drains."""
    if plan.pp == 1 or busy.value is None:
        return Figure("ttft_s", busy.value, busy.unit, busy.origin, busy.formula, busy.inputs)
    return serving.pipelined_s.of(
        as_name="ttft_s",
        busy_s=busy,
        stages=Figure("stages", plan.pp, "", layout.LAYOUT),
        microbatches=Figure("microbatches", microbatches, "", "chunks of the prompt"),
    )


def mixed_step(model: Model, plan: Deployment, work: Workload, chunk: int, prompt: int, cached: int = 0) -> Figure:
    """A step that decodes `work.batch` sequences of `work.ctx` tokens and reads `chunk` tokens of a prompt.

    Every token of the step counts as one of its batch, the head included; attention is the mean over the prompt's chunks.
    """
    decoding = terms.step_terms(model, plan, work)
    carrying = terms.step_terms(model, plan, Workload(work.ctx, work.batch + chunk))
    new = prompt - cached
    scores = terms.prompt_terms(model, plan, prompt, cached)["attention_s"]
    share = Figure(
        "attention_s", (scores.value or 0) * min(chunk, new) / new, "s", "the chunk's share of the prompt's attention", None, (scores,)
    )
    return serving.mixed_step_s.of(
        kv_read_s=decoding["kv_read_s"],
        weight_read_s=carrying["weight_read_s"],
        compute_s=carrying["compute_s"],
        communication_s=carrying["communication_s"],
        attention_s=share,
    )
