"""How long a step takes: the textbook's time, the roofline's, or what an engine is expected to take, with its range."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from llmcalc.architecture import Model
from llmcalc.errors import UsageError, printable
from llmcalc.estimate import layout, memory, rates, terms
from llmcalc.figures import Figure, larger, total
from llmcalc.formulas import expected as f
from llmcalc.formulas import serving, time
from llmcalc.plan import Deployment, Workload

MICRO_BATCH = 512
"""Prompt tokens that a desktop engine takes at once."""
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


def step(model: Model, plan: Deployment, work: Workload, method: str, parts: dict[str, Figure] | None = None) -> Timed:
    """One decode step of `work.batch` sequences of `work.ctx` tokens, either of which may be an array.

    `method`: napkin, roofline, or expected, which with `work.prompt` and `work.output` is the mean step while others' prompts are read.
    `parts`: the step's terms, where they are known already. Errors: unknown-method.
    """
    check(method)
    if parts is None:
        parts = terms.step_terms(model, plan, work, "roofline" if method == "roofline" else "napkin")
    if method == "expected":
        return _expected(model, plan, work, parts)
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


def step_inputs(model: Model, plan: Deployment, work: Workload, parts: dict[str, Figure]) -> dict[str, Figure]:
    """The ideal terms of a napkin step that the formula needs, and what is counted."""
    layers = len(model.stack.layers)
    routed = sum(each.count for each in model.groups if each.layer.mlp and each.layer.mlp.experts)
    spread = plan.tp * plan.dp
    arithmetic = {
        name: parts[name] if parts[name].value is not None else Figure(name, 0.0, "s", "no known compute rate")
        for name in ("compute_s", "attention_compute_s")
    }
    return {
        "weight_read_s": parts["weight_read_s"],
        "kv_read_s": parts["kv_read_s"],
        "communication_s": parts["communication_s"],
        **arithmetic,
        "dequantise_s": dequantising(plan, parts["weight_read_s"]),
        "layers": Figure("layers", layers, "", "config.json"),
        "split_layers": Figure("split_layers", layers if spread > 1 else 0, "", "layers whose ranks wait for each other"),
        "mixtures": Figure("mixtures", routed, "", "layers that route to experts"),
        "batch": Figure("batch", larger(1, work.batch / plan.dp) if plan.dp > 1 else work.batch, "", "`batch`"),
    }


def dequantising(plan: Deployment, read: Figure) -> Figure:
    """Turning every weight that a step reads into a 16-bit number: 2 FLOP each at the vector rate, which is about the fp32 one."""
    rate = plan.device.compute.get("fp32")
    if plan.weights.bits >= 16 or rate is None:
        return Figure("dequantise_s", 0.0, "s", "weights of 16 bits" if plan.weights.bits >= 16 else "no known vector rate")
    weights = read.value * plan.device.bandwidth_bytes_per_s * 8 / plan.weights.bits
    return time.compute_s.of(
        as_name="dequantise_s",
        params=Figure("params", weights, "params", "weights read on each device"),
        batch=Figure("batch", 1, "", "once per step"),
        flops_per_s=Figure("flops_per_s", rate, "FLOP/s", f"{plan.device.id}, fp32"),
        devices=Figure("devices", 1, "", layout.LAYOUT),
    )


def _expected(model: Model, plan: Deployment, work: Workload, parts: dict[str, Figure]) -> Timed:
    """The step in an engine, from a napkin step's terms."""
    found = step_inputs(model, plan, work, parts)
    given = rates.constants("step", plan)
    rate = given.pop("interruption_share")
    mid = f.expected_step_s.of(found | given, as_name="expected_step_time_s")
    if work.output and work.prompt and rates.kind(plan) == "serving":
        mid = f.interrupted_step_s.of(
            as_name="expected_step_time_s",
            step_time_s=mid,
            reading_s=reading(model, plan, work.prompt, work.cached),
            others=Figure("others", larger(0, found["batch"].value - 1), "", "sequences beside one's own"),
            output_tokens=Figure("output_tokens", work.output, "tokens", "`output_tokens`"),
            interruption_share=rate,
        )
    one, many = (rates.band(name, model, plan) for name in step_classes(plan, work))
    single = work.batch == 1  # of an array, each
    low, high = many.low + (one.low - many.low) * single, many.high + (one.high - many.high) * single
    words, unmeasured = one.words, one.unmeasured
    if hasattr(single, "__array__") or not single:
        unmeasured = many.unmeasured
        words = many.words + ("" if shaped(plan, work) else ", others' prompts between the steps included: their shape is not given")
    return Timed(mid, mid.value * low, mid.value * high, words + rates.nearby(model, plan), parts, unmeasured)


def shaped(plan: Deployment, work: Workload) -> bool:
    """Whether all is known that a step's estimate may hold: of a busy server that is what others ask for, too."""
    single = not hasattr(work.batch, "__array__") and work.batch == 1
    return single or rates.kind(plan) == "desktop" or bool(work.output and work.prompt)


def step_classes(plan: Deployment, work: Workload) -> tuple[str, str]:
    """Which rows the band of one sequence is of, and that of several: a desktop engine's batches are further off than its single
    sequences, and between the steps of a busy server others' prompts are read, which not every workload tells."""
    if rates.kind(plan) == "desktop":
        return "stream", "batch"
    return "step", "step" if work.output and work.prompt else "alone"


def reading(model: Model, plan: Deployment, prompt: int, cached: int = 0, parts: dict[str, Figure] | None = None) -> Figure:
    """How long reading a prompt keeps the devices busy. [s] value None without a compute rate. `parts`: its terms."""
    found = parts or terms.prompt_terms(model, plan, prompt, cached)
    if found["gemm_s"].value is None or found["attention_s"].value is None:
        return Figure("reading_s", None, "s", found["gemm_s"].origin)
    given = rates.constants("prompt", plan)
    tokens = prompt - cached
    share = given["prompt_share"]
    if rates.mixture(model):
        share = Figure("prompt_share", share.value * given["mixture_share"].value, "", f"{share.origin}, of mixtures")
    gemm, attention = found["gemm_s"], found["attention_s"]
    if rates.kind(plan) == "desktop":
        gemm, attention = _desktop_times(plan, found)
    busy = f.expected_reading_s.of(
        as_name="reading_s",
        gemm_s=gemm,
        weight_read_s=found["weight_read_s"],
        attention_s=attention,
        communication_s=found["communication_s"],
        activation_s=_activations(model, plan, tokens),
        prompt_share=share,
        **{name: given[name] for name in ("weight_share", "attention_share", "communication_factor", "activation_factor")},
    )
    if plan.pp == 1:
        return busy
    return serving.pipelined_s.of(
        as_name="reading_s",
        busy_s=busy,
        stages=Figure("stages", plan.pp, "", layout.LAYOUT),
        microbatches=Figure("microbatches", max(1, tokens / MICRO_BATCH), "", "micro-batches of the prompt"),
    )


def _desktop_times(plan: Deployment, found: dict[str, Figure]) -> tuple[Figure, Figure]:
    """(matrices at the 16-bit rate, attention at the fp32 rate): a desktop engine's kernels, whatever the weights are in."""
    rates = plan.device.compute
    plain = next((rates[key] for key in ("bf16", "fp16", "fp32") if key in rates), math.nan)
    ranks = Figure("devices", plan.tp * plan.pp, "", layout.LAYOUT)
    scores = found["attention_flops"]
    gemms = Figure("work_flops", found["prefill_flops"].value - scores.value, "FLOP", "matrix products")
    return (
        time.work_s.of(
            as_name="gemm_s",
            work_flops=gemms,
            flops_per_s=Figure("flops_per_s", plain, "FLOP/s", f"{plan.device.id}, 16 bits"),
            devices=ranks,
        ),
        time.work_s.of(
            as_name="attention_s",
            work_flops=scores,
            flops_per_s=Figure("flops_per_s", rates.get("fp32", plain), "FLOP/s", f"{plan.device.id}, fp32"),
            devices=ranks,
        ),
    )


def _activations(model: Model, plan: Deployment, tokens: int) -> Figure:
    """Writing a prompt's hidden states once per layer."""
    moved = Figure("bytes_read", tokens * model.stack.hidden * 2 * len(model.stack.layers), "B", "tokens × hidden size × layers × 2 B")
    bandwidth = Figure("bandwidth_bytes_per_s", plan.device.bandwidth_bytes_per_s, "B/s", plan.device.id)
    return time.read_s.of(
        as_name="activation_s",
        bytes_read=moved,
        bandwidth_bytes_per_s=bandwidth,
        devices=Figure("devices", plan.tp * plan.pp, "", layout.LAYOUT),
    )


def added(model: Model, plan: Deployment, tokens: int, start: int = 0) -> Figure:
    """What reading `tokens` of a prompt behind its first `start` adds to a step of decoding sequences, as an engine is expected to. [s]

    The term that the mean step of a busy server sums. value None without a compute rate.
    """
    busy = reading(model, plan, start + tokens, start)
    share = rates.constants("step", plan).get("interruption_share")
    if busy.value is None or share is None:
        return busy
    return Figure("added_s", busy.value * share.value, "s", f"{share.origin}: a share of reading alone", None, (busy, share))


def ttft(
    model: Model,
    plan: Deployment,
    prompt: int,
    cached: int = 0,
    others: int = 0,
    parts: dict[str, Figure] | None = None,
    method: str = "expected",
) -> Timed | None:
    """Time to the first token of a prompt; None without a compute rate. `parts`: its terms.

    napkin, roofline: on an idle replica. expected: beside `others` sequences, whose prompts are read, too.
    """
    check(method)
    if method == "roofline":
        if not timeable(model, plan):
            return None
        parts = terms.prompt_operators(model, plan, prompt, cached)
        mid = roofline_time(parts, "ttft_s")
        return Timed(mid, mid.value, mid.value, terms=parts)
    parts = parts or terms.prompt_terms(model, plan, prompt, cached)
    if method == "expected":
        return _expected_ttft(model, plan, prompt, cached, others, parts)
    mid = first_token(prompt_time(parts), plan, 1)
    return None if mid.value is None else Timed(mid, mid.value, mid.value, terms=parts)


def _expected_ttft(model: Model, plan: Deployment, prompt: int, cached: int, others: int, parts: dict[str, Figure]) -> Timed | None:
    busy = reading(model, plan, prompt, cached, parts)
    if busy.value is None:
        return None
    given = rates.constants("prompt", plan)
    tokens = prompt - cached
    chunks = max(1, tokens / MICRO_BATCH) if rates.kind(plan) == "desktop" else 1
    mid = f.expected_ttft_s.of(
        as_name="expected_ttft_s",
        reading_s=busy,
        others=Figure("others", others, "", "sequences beside one's own"),
        layers=Figure("layers", len(model.stack.layers), "", "config.json"),
        chunks=Figure("chunks", chunks, "", "micro-batches of the prompt" if chunks > 1 else "prompts are taken whole"),
        tokens=Figure("tokens", tokens, "tokens", "`prompt`"),
        **{name: given[name] for name in ("waiting_share", "layer_s", "token_s", "request_s")},
    )
    found = rates.band("prompt", model, plan)
    return Timed(mid, mid.value * found.low, mid.value * found.high, found.words + rates.nearby(model, plan), parts, found.unmeasured)


def running(model: Model, plan: Deployment, prompt: int, output: int) -> float:
    """Sequences that run at once under full load: what 90% of the memory hold at their mean length, up to what an engine runs."""
    each = plan.device.memory_usable_bytes or math.inf
    free = (plan.utilization or 0.9) * each * plan.ranks - layout.held_weight_bytes(model, plan).value
    sequence = layout.sequence_bytes(model, plan, Figure("ctx_tokens", prompt + output / 2, "tokens")).value
    return float(max(1.0, min(free / sequence if sequence else math.inf, plan.max_sequences or RUNNING * plan.dp)))


def load(model: Model, plan: Deployment, prompt: int, output: int) -> Timed | None:
    """Output tokens per second of one replica under full load, with its range; the step's `mid_s` is a rate here. [tokens/s]

    None for a desktop engine, of which no such load was measured.
    """
    if rates.kind(plan) == "desktop":
        return None
    batch = running(model, plan, prompt, output)
    found = step(model, plan, Workload(prompt + output / 2, batch, prompt, output), "expected")
    mid = time.tokens_per_s.of(
        as_name="expected_tokens_per_s", batch=Figure("batch", batch, "", "what the memory holds"), step_time_s=found.mid
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
