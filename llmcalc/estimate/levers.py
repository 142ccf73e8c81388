"""A service answers slowly: what each remedy would change, best first, and what to check for quality after it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from llmcalc import formats, hardware
from llmcalc.answers import Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError, UsageError
from llmcalc.estimate import Answered, capacity, layout, memory, serving, speculation, step, terms
from llmcalc.estimate.service import MOST_BATCH
from llmcalc.estimate.steady import steady
from llmcalc.figures import Figure
from llmcalc.formulas import queueing
from llmcalc.plan import Deployment, Workload
from llmcalc.traffic import Request

# One step up in the same maker's line: more bandwidth or memory, same software.
FASTER = {
    "t4": "l4", "l4": "l40s", "a10": "l40s", "a10g": "l40s", "l40s": "h100-sxm", "rtx-3090": "rtx-4090", "rtx-4090": "rtx-5090",
    "a100-40-sxm": "a100-80-sxm", "a100-80-pcie": "h100-sxm", "a100-80-sxm": "h100-sxm", "h100-pcie": "h100-sxm", "h100-nvl": "h200-sxm",
    "h100-sxm": "h200-sxm", "h200-sxm": "b200",
    "mi300x": "mi325x", "mi325x": "mi355x", "apple-m4-pro": "apple-m4-max-40c",
}  # fmt: skip
NOTHING = "nothing: the output is the same"


@dataclass(frozen=True, slots=True)
class State:
    """A service at one operating point: `batch` sequences at once, or `rate` requests/s that set the batch."""

    model: Model
    plan: Deployment
    prompt: int
    output: int
    cached: int = 0
    batch: int = 1
    rate: float | None = None
    acceptance: float | None = None
    """Of speculative drafts; None: no speculation."""
    method: str = "napkin"

    @property
    def ctx(self) -> int:
        """Context of the average step."""
        return self.prompt + self.output // 2


@dataclass(frozen=True, slots=True)
class Served:
    """How a service does. Saturated: times are None."""

    max_batch: int
    prefill_s: float
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    tokens_per_s: float | None = None
    batch: int | None = None
    queue_s: float | None = None
    readings: dict[str, float] = dataclasses.field(default_factory=dict)
    """The TPOT of the same point by the textbook, and as an engine is expected to take."""

    @property
    def fits(self) -> bool:
        """Whether memory holds the batch."""
        return self.max_batch >= (self.batch or 1)


def evaluate(state: State) -> Served:
    """TTFT (queue and prefill), TPOT, the whole answer, and throughput. Saturated: times are None."""
    model, plan, method = state.model, state.plan, state.method
    read = step.prompt_busy(model, plan, state.prompt, state.cached, method).value or 0.0
    if state.rate is not None and method == "roofline":
        raise UsageError("unknown-method", "a queue of arrivals has no roofline", "use `method=expected` or `method=napkin`")
    rates = serving.rates(model, plan, method="expected" if method == "expected" else "napkin")
    most = rates.capacity(state.prompt + state.output)
    wait: float | None = 0.0
    batch: float = state.batch
    stretched: float | None = None
    if state.rate is not None:
        # Prompts wait for each other as in an M/D/1 queue; the answers share the steps.
        profile = serving.Profile.of([Request(0, state.prompt, state.output, state.cached)])
        served = steady(rates, profile, state.rate, max(1, min(most, MOST_BATCH)), 2048)
        if served.batch is None or queueing.load(state.rate, read) >= 1:
            return Served(most, read)
        batch, stretched = max(1.0, served.batch), served.tpot_s
        wait = queueing.mean_wait_s(state.rate, read * read, queueing.load(state.rate, read))
    work = Workload(state.ctx, max(1, round(batch)))
    if state.acceptance is not None:
        draft = speculation.preset_draft(model, speculation.PRESETS["eagle"])
        rate = Figure("acceptance", state.acceptance)
        drafts = speculation.best_length(model, plan, work, rate, draft, range(1, 9), method)
        tpot = speculation.at(model, plan, work, rate, drafts, draft, method)["tpot_s"].value if drafts else None
    else:
        tpot = None
    told = step.readings(model, plan, work, method)
    plain = told.force.mid_s
    tpot = plain if tpot is None else tpot
    if stretched is not None:  # by the prompts that arrive, as in the steady state
        tpot *= stretched / plain
    # What a request costs beside its reading: its way to the engine and the first step's fixed costs.
    first = step.ends(step.ttft(model, plan, state.prompt, state.cached, method=method))[0] if method == "expected" else None
    ttft = (wait or 0.0) + (read if first is None else first)
    return Served(
        most,
        read,
        ttft_s=ttft,
        tpot_s=tpot,
        e2e_s=ttft + (state.output - 1) * tpot,
        tokens_per_s=work.batch / tpot,
        batch=work.batch,
        queue_s=wait,
        readings={key: value * tpot / plain for key, value in told.beside.items()},
    )


@dataclass(frozen=True, slots=True)
class Lever:
    """One remedy: what it changes and what to check for quality after it."""

    name: str
    change: Callable[[State], State]
    check: str


def levers(state: State) -> list[Lever]:
    """The remedies that this service has not used yet."""
    plan, found = state.plan, []

    def add(name: str, check: str, change: Callable[[State], State]) -> None:
        found.append(Lever(name, change, check))

    if state.cached < state.prompt // 2:
        add("prefix cache, half of the prompt", NOTHING, lambda s: replace(s, cached=s.prompt // 2))
    if state.prompt >= 64:
        add(
            "prompt half as long",
            "answers on your own tasks: what was cut may have been needed",
            lambda s: replace(s, prompt=s.prompt // 2, cached=min(s.cached, s.prompt // 2 - 1)),
        )
    for name in ("fp8", "awq"):
        fmt = formats.find(name)
        if fmt.bits < plan.weights.bits * 0.75:
            words = (
                "little is lost as a rule; run your own tasks"
                if name == "fp8"
                else "reasoning, code and rare languages suffer first: run your own tasks"
            )
            add(f"{name} weights", words, lambda s, fmt=fmt: replace(s, plan=replace(s.plan, weights=fmt)))  # type: ignore[misc]
    if plan.kv.bits > 8:
        add(
            "fp8 KV cache",
            "long contexts: retrieval from the middle",
            lambda s: replace(s, plan=replace(s.plan, kv=formats.find("fp8", kv=True))),
        )
    ratio = max(
        (mixer.query_heads / mixer.kv_heads for mixer, _ in memory.mixers(state.model) if mixer.kv_heads and mixer.query_heads), default=1
    )
    if ratio == 1:
        add("a model with GQA", "it is another model: everything", _grouped)
    if state.rate is None:
        if state.batch > 1:
            add("half the batch", NOTHING, lambda s: replace(s, batch=max(1, s.batch // 2)))
        add("twice the batch", NOTHING, lambda s: replace(s, batch=s.batch * 2))
    else:
        add("twice the replicas", NOTHING, lambda s: replace(s, rate=(s.rate or 0) / 2))
    if state.acceptance is None:
        add(
            "speculation (EAGLE, 0.8 accepted)",
            "nothing: the output keeps the target's distribution; measure the acceptance",
            lambda s: replace(s, acceptance=0.8),
        )
    linked = plan.device.link is not None and plan.tp * 2 <= plan.device.devices_per_node
    if linked and layout.tp_obstacle(state.model, plan.tp * 2) is None:
        add(f"tp {plan.tp * 2}", NOTHING, lambda s: replace(s, plan=replace(s.plan, tp=s.plan.tp * 2)))
    if state.output >= 64:
        add(
            "answers half as long",
            "that the answers are still complete; for reasoning, the tasks it solves",
            lambda s: replace(s, output=s.output // 2),
        )
    faster = FASTER.get(plan.device.id)
    if faster is not None and faster in hardware.ids():
        add(f"device {faster}", NOTHING, lambda s: replace(s, plan=replace(s.plan, device=hardware.load(faster), usd_per_device_hour=None)))
    return found


def _grouped(state: State) -> State:
    """The same model with a quarter of its KV heads' cache: a format of a quarter of the bits stands for it."""
    smaller = replace(state.plan.kv, name=f"{state.plan.kv.name}/4", bits=state.plan.kv.bits / 4)
    return replace(state, plan=replace(state.plan, kv=smaller))


@answer("levers", rows=True)
class Effect(Answer):
    """What one lever would change."""

    lever: str = field("lever")
    gain: float | None = field("× the goal")
    ttft_s: float | None = field("TTFT", "s", rank=1)
    tpot_s: float | None = field("TPOT", "s", rank=1)
    e2e_s: float | None = field("answer", "s", rank=3)
    tokens_per_s: float | None = field("tokens/s", "tokens/s", rank=6)
    max_batch: int = field("fit", rank=5)
    devices: int = field("devices", rank=4)
    check: str = field("check afterwards", rank=2)
    fits: bool = field("fits", shown=False)
    napkin_tpot_s: float | None = field("textbook", "s", shown=False)
    expected_tpot_s: float | None = field("expected", "s", shown=False)
    expected_tpot_low_s: float | None = field("expected, low", "s", shown=False)
    expected_tpot_high_s: float | None = field("expected, high", "s", shown=False)


UNREAD: dict[str, float | None] = dict.fromkeys(("napkin_tpot_s", *(f"expected_tpot{end}_s" for end in step.ENDS)))
"""The readings of a point that has no time."""


@answer("levers")
class Diagnosis(Answer):
    """The service as it is."""

    e2e_s: float | None = field("whole answer", "s")
    ttft_s: float | None = field("  TTFT", "s")
    queue_s: float | None = field("    queue", "s", "mean, for random arrivals")
    prefill_s: float = field("    prompt", "s", detail=True)
    decode_s: float | None = field("  writing", "s")
    tpot_s: float | None = field("    TPOT", "s")
    phase: Literal["ttft", "tpot"] | None = field("look first at")
    tokens_per_s: float | None = field("tokens/s of the replica", "tokens/s")
    batch: int | None = field("sequences at once", detail=True)
    max_batch: int = field("  that fit", detail=True)
    best_lever: str | None = field("best lever", shown=False)
    napkin_tpot_s: float | None = field("textbook TPOT", "s", shown=False, detail=True)
    expected_tpot_s: float | None = field("expected TPOT", "s", shown=False)
    expected_tpot_low_s: float | None = field("expected, low", "s", shown=False)
    expected_tpot_high_s: float | None = field("expected, high", "s", shown=False)


GOALS = {"e2e": "e2e_s", "ttft": "ttft_s", "tpot": "tpot_s", "throughput": "tokens_per_s"}


def diagnose(state: State, goal: str = "e2e") -> Answered[Diagnosis, Effect]:
    """The service as it is, split into TTFT and TPOT, and every lever by its effect on the goal."""
    base = evaluate(state)
    warnings = [*state.model.notes, *capacity.cautions(state.model, state.plan, state.prompt + state.output)]
    rows = []
    for lever in levers(state):
        try:
            rows.append(_effect(lever, state, base, goal))
        except LlmcalcError as problem:
            warnings.append(f"{lever.name}: {problem.message}")
    rows.sort(key=lambda row: _order(row, goal))
    writing = None if base.tpot_s is None else (state.output - 1) * base.tpot_s
    phase: Literal["ttft", "tpot"] | None = None
    if writing is not None and base.ttft_s is not None:
        phase = "tpot" if writing > base.ttft_s else "ttft"
    first = next((row for row in rows if row.fits and (row.gain is None or row.gain > 1)), None)
    if base.tpot_s is None:
        warnings.insert(
            0,
            "ttft_s, tpot_s, e2e_s, tokens_per_s, phase: more arrives than is served, so the queue grows without end; "
            "levers without figures do not change that (speculation is not counted there)",
        )
    if not base.fits:
        warnings.insert(
            0, f"does not fit: memory holds {base.max_batch:,} of {state.batch:,} sequences of {state.prompt + state.output:,} tokens"
        )
    return Answered(
        Diagnosis(
            e2e_s=base.e2e_s,
            ttft_s=base.ttft_s,
            queue_s=base.queue_s,
            prefill_s=base.prefill_s,
            decode_s=writing,
            tpot_s=base.tpot_s,
            phase=phase,
            tokens_per_s=base.tokens_per_s,
            batch=base.batch,
            max_batch=base.max_batch,
            best_lever=first.lever if first else None,
            **(base.readings or UNREAD),
        ),
        {},
        rows=tuple(rows),
        assumptions=(
            *terms.assumptions(state.model, state.plan),
            Aside(f"method {state.method}: {step.METHODS[state.method]}"),
            "an average sequence holds its prompt and half of its answer",
        ),
        warnings=tuple(warnings),
    )


def _effect(lever: Lever, state: State, base: Served, goal: str) -> Effect:
    """The service with one lever used. Errors: those of the changed layout."""
    changed = lever.change(state)
    after = evaluate(changed)
    was, now = getattr(base, GOALS[goal]), getattr(after, GOALS[goal])
    return Effect(
        lever=lever.name,
        gain=(now / was if goal == "throughput" else was / now) if was and now else None,
        ttft_s=after.ttft_s,
        tpot_s=after.tpot_s,
        e2e_s=after.e2e_s,
        tokens_per_s=after.tokens_per_s,
        max_batch=after.max_batch,
        **(after.readings or UNREAD),
        devices=changed.plan.ranks,
        check=lever.check,
        fits=after.fits,
    )


def _order(row: Effect, goal: str) -> tuple[bool, float, float]:
    """What fits first, then by gain; a service that did not keep up and now does has gained more than any factor."""
    rescued = math.inf if row.ttft_s is not None else -math.inf
    sign = -1 if goal == "throughput" else 1
    return not row.fits, -(row.gain if row.gain is not None else rescued), sign * (row[GOALS[goal]] or 0)
