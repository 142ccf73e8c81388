"""A service answers slowly: what each remedy would change, best first, and what to check for quality after it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llmcalc import formats, hardware
from llmcalc.architecture import Model
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import Estimate, capacity, layout, memory, serving, speculation, step, terms
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

    @property
    def ctx(self) -> int:
        """Context of the average step."""
        return self.prompt + self.output // 2


def evaluate(state: State) -> dict[str, Any]:
    """TTFT (queue and prefill), TPOT, the whole answer, and throughput. Saturated: times are None."""
    found = step.prompt_time(terms.prompt_terms(state.model, state.plan, state.prompt, state.cached))
    read = found.value or 0.0
    rates = serving.rates(state.model, state.plan)
    most = rates.capacity(state.prompt + state.output)
    wait: float | None = 0.0
    batch: float = state.batch
    stretched: float | None = None
    if state.rate is not None:
        # Prompts wait for each other as in an M/D/1 queue; the answers share the steps.
        profile = serving.Profile.of([Request(0, state.prompt, state.output, state.cached)])
        served = steady(rates, profile, state.rate, max(1, min(most, MOST_BATCH)), 2048)
        if served.batch is None or queueing.load(state.rate, read) >= 1:
            return {
                "ttft_s": None,
                "tpot_s": None,
                "e2e_s": None,
                "tokens_per_s": None,
                "batch": None,
                "max_batch": most,
                "queue_s": None,
                "prefill_s": read,
                "load": served.load,
            }
        batch, stretched = max(1.0, served.batch), served.tpot_s
        wait = queueing.mean_wait_s(state.rate, read * read, queueing.load(state.rate, read))
    work = Workload(state.ctx, max(1, round(batch)))
    if state.acceptance is not None:
        draft = speculation.preset_draft(state.model, speculation.PRESETS["eagle"])
        rate = Figure("acceptance", state.acceptance)
        drafts = speculation.best_length(state.model, state.plan, work, rate, draft, 8)
        tpot = speculation.at(state.model, state.plan, work, rate, drafts, draft)["tpot_s"].value if drafts else None
    else:
        tpot = None
    plain = step.step(state.model, state.plan, work, "napkin").mid_s
    tpot = plain if tpot is None else tpot
    if stretched is not None:  # by the prompts that arrive, as in the steady state
        tpot *= stretched / plain
    ttft = (wait or 0.0) + read
    return {
        "ttft_s": ttft,
        "tpot_s": tpot,
        "e2e_s": ttft + (state.output - 1) * tpot,
        "tokens_per_s": work.batch / tpot,
        "batch": work.batch,
        "max_batch": most,
        "queue_s": wait,
        "prefill_s": read,
        "load": None,
    }


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
    if (
        plan.device.link is not None
        and layout.tp_obstacle(state.model, plan.tp * 2) is None
        and plan.tp * 2 <= plan.device.devices_per_node
    ):
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


GOALS = {"e2e": "e2e_s", "ttft": "ttft_s", "tpot": "tpot_s", "throughput": "tokens_per_s"}


def diagnose(state: State, goal: str = "e2e") -> Estimate:
    """The service as it is, split into TTFT and TPOT, and every lever by its effect on the goal."""
    base = evaluate(state)
    key = GOALS[goal]
    rows = []
    warnings = [*state.model.notes, *capacity.cautions(state.model, state.plan, state.prompt + state.output)]
    for lever in levers(state):
        try:
            changed = lever.change(state)
            after = evaluate(changed)
        except LlmcalcError as problem:
            warnings.append(f"{lever.name}: {problem.message}")
            continue
        gain = None
        if base[key] and after[key]:
            gain = after[key] / base[key] if goal == "throughput" else base[key] / after[key]
        rows.append(
            {
                "lever": lever.name,
                "gain": gain,
                "ttft_s": after["ttft_s"],
                "tpot_s": after["tpot_s"],
                "e2e_s": after["e2e_s"],
                "tokens_per_s": after["tokens_per_s"],
                "max_batch": after["max_batch"],
                "fits": after["max_batch"] >= (after["batch"] or 1),
                "devices": changed.plan.ranks,
                "check": lever.check,
            }
        )
    sign = -1 if goal == "throughput" else 1

    def order(row: dict[str, Any]) -> tuple[bool, float, float]:
        # A service that did not keep up and now does has gained more than any factor.
        rescued = math.inf if row["ttft_s"] is not None else -math.inf
        return (not row["fits"], -(row["gain"] if row["gain"] is not None else rescued), sign * (row[key] or 0))

    rows.sort(key=order)
    writing = None if base["tpot_s"] is None else (state.output - 1) * base["tpot_s"]
    phase = None
    if writing is not None:
        phase = "tpot" if writing > base["ttft_s"] else "ttft"
    first = next((row for row in rows if row["fits"] and (row["gain"] is None or row["gain"] > 1)), None)
    if base["tpot_s"] is None:
        warnings.insert(
            0,
            "ttft_s, tpot_s, e2e_s, tokens_per_s, phase: more arrives than is served, so the queue grows without end; "
            "levers without figures do not change that (speculation is not counted there)",
        )
    if base["max_batch"] < (base["batch"] or 1):
        warnings.insert(
            0, f"does not fit: memory holds {base['max_batch']:,} of {state.batch:,} sequences of {state.prompt + state.output:,} tokens"
        )
    return Estimate(
        {
            "ttft_s": base["ttft_s"],
            "queue_s": base["queue_s"],
            "prefill_s": base["prefill_s"],
            "tpot_s": base["tpot_s"],
            "decode_s": writing,
            "e2e_s": base["e2e_s"],
            "tokens_per_s": base["tokens_per_s"],
            "batch": base["batch"],
            "max_batch": base["max_batch"],
            "phase": phase,
            "best_lever": first["lever"] if first else None,
        },
        {},
        rows=tuple(rows),
        assumptions=(
            *terms.assumptions(state.model, state.plan),
            "ideal rates: an engine is slower, the ratios hold better than the times",
            "an average sequence holds its prompt and half of its answer",
        ),
        warnings=tuple(warnings),
    )
