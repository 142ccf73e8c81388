"""What an engine is expected to take, with a range: the ideal terms, the shares of them that were measured, and fixed costs.

The shares come from `calibration.json`, which scripts/calibrate.py writes from `measurements/`: per class of device and kind of
engine. A range covers 80% of measured rows of models that the fit had not seen.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import layout
from llmcalc.figures import Figure, larger
from llmcalc.formulas import expected as f
from llmcalc.formulas import serving, time
from llmcalc.hardware import Device
from llmcalc.plan import Deployment, Workload

TABLE = Path(__file__).resolve().parent.parent / "calibration.json"
ENOUGH = 20
"""Rows of unseen models that a class needs for a band of its own."""
STRANGE = 1.5
"""How much further off, either way, a class may be of which nothing was measured."""
MICRO_BATCH = 512
"""Prompt tokens that a desktop engine takes at once."""
RUNNING = 2048
"""Sequences that a serving engine runs at most, on each rank group."""
KIND = {"serving": "a serving engine", "desktop": "a desktop engine"}
GROUP = {
    "hopper": "Hopper", "blackwell": "Blackwell", "ampere": "data-centre Ampere", "ada": "data-centre Ada", "instinct": "Instinct",
    "workstation": "workstation cards", "geforce": "GeForce", "consumer": "consumer cards", "datacenter": "data-centre cards",
    "exllamav3": "cards (ExLlamaV3)", "apple": "Apple", "unified-nvidia": "DGX Spark", "unified-amd": "Strix Halo",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Band:
    """What measured rows of unseen models were, as a factor of the estimate: 80% lie between low and high."""

    low: float
    high: float
    rows: int
    models: int
    words: str


@dataclass(frozen=True, slots=True)
class Expected:
    """A quantity with its range, and the class, the rows and the band behind it in words."""

    mid: Figure
    low: Any
    high: Any
    words: str

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


@cache
def table() -> dict[str, Any]:
    """The bundled calibration."""
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


# ---- classes ------------------------------------------------------------------------------------------------------


def kind(plan: Deployment) -> str:
    """serving or desktop: the engine's kind, or the usual one of the device. Ranks that share matrices need a serving engine."""
    if plan.engine.kind is not None:
        return "desktop" if plan.engine.kind == "desktop" else "serving"
    if plan.tp > 1 or plan.dp > 1:
        return "serving"
    return "serving" if plan.device.device_class == "datacenter" else "desktop"


def group(device: Device, of_kind: str) -> str | None:
    """The class of a device among those that were measured, or None."""
    if of_kind == "desktop":
        if device.device_class == "unified":
            return f"unified-{device.vendor.lower()}"
        return device.device_class if device.device_class in GROUP else None
    if device.vendor == "AMD" and device.device_class == "datacenter":
        return "instinct"
    if device.vendor != "NVIDIA" or device.device_class not in ("datacenter", "workstation", "consumer"):
        return None
    if device.device_class == "consumer":
        return "geforce"
    stacked = (device.memory_type or "").startswith("HBM")
    if device.device_class == "workstation" or ("fp4" in device.compute and not stacked):
        return "workstation"
    if "fp8" not in device.compute:
        return "ampere" if "bf16" in device.compute else None
    return ("blackwell" if "fp4" in device.compute else "hopper") if stacked else "ada"


def class_of(plan: Deployment) -> str | None:
    """The class of a deployment: its device's, or of its own for an engine that is unlike the others of its kind."""
    return plan.engine.family if plan.engine.family in GROUP else group(plan.device, kind(plan))


def mixture(model: Model) -> bool:
    """Whether a model routes its tokens to experts."""
    return layout.experts(model) > 0


def shares(of_what: str, plan: Deployment, shipped: dict[str, Any] | None = None) -> dict[str, Figure]:
    """The measured shares and costs of a step or a prompt: the class's, times what is particular to a named engine."""
    of_kind = kind(plan)
    found = (shipped or table())["shares"][of_what][of_kind]
    chosen = class_of(plan)
    values = found["groups"].get(chosen) or found["base"]
    factors = found["engines"].get(plan.engine.family, {})
    origin = f"measured, {KIND[of_kind]} on " + (GROUP[chosen] if chosen in found["groups"] and chosen else "any device")
    return {
        name: Figure(
            name,
            value * factors.get(name, 1.0) if not name.endswith("_share") else min(1.0, value * factors.get(name, 1.0)),
            "s" if name.endswith("_s") else "",
            origin,
        )
        for name, value in values.items()
    }


def band(of_what: str, model: Model, plan: Deployment, bands: dict[str, Any] | None = None) -> Band:
    """The band of the class; of a class with too few rows the wider one of its kind of engine. `bands`: others than the bundled ones."""
    of_kind, sort = kind(plan), "mixtures" if mixture(model) else "dense models"
    chosen = class_of(plan)
    bands = bands or table()["bands"]
    own = bands.get(f"{of_what}/{of_kind}/{chosen}/{sort}")
    name = f"{sort} under {KIND[of_kind]}"
    if own and own["rows"] >= ENOUGH and chosen:
        models = f"{own['models']} model" + ("s" if own["models"] > 1 else "")
        said = f"{own['rows']} measured rows of {models}, {name} on {GROUP[chosen]}; 80% of those unseen lay within"
        return Band(own["low"], own["high"], own["rows"], own["models"], f"{said} ×{own['low']:.2f}–{own['high']:.2f}")
    near = bands.get(f"{of_what}/{of_kind}/{sort}") or bands[f"{of_what}/{of_kind}"]
    where = GROUP[chosen] if chosen else plan.device.id
    if own:
        low, high = min(near["widest_low"], own["widest_low"]), max(near["widest_high"], own["widest_high"])
        why = f"only {own['rows']} row" + ("s" if own["rows"] > 1 else "")
    else:
        low, high, why = near["widest_low"] / STRANGE, near["widest_high"] * STRANGE, "no rows"
    width = "the" if own else "wider than the"
    said = f"{why} of {sort} measured on {where}, so the range is {width} wide one of all {near['rows']} rows of {name}"
    return Band(low, high, near["rows"], near["models"], f"{said}, ×{low:.2f}–{high:.2f}")


def nearby(model: Model, plan: Deployment) -> str:
    """How to see the measured rows of the model on the device, or else of the device; nothing where there are none."""
    rows, option = table()["measured"].get(plan.device.id, {}), f"-d {plan.device.id}"
    own = rows.get(model.id, 0)
    count, option = (own, f"-m {model.id} {option}") if own else (sum(rows.values()), option)
    return f"; llmcalc accuracy {option} lists {count} measured nearby" if count else ""


def ranged(of_what: str, mid: Figure, model: Model, plan: Deployment) -> Expected:
    """A time with its band."""
    found = band(of_what, model, plan)
    return Expected(mid, mid.value * found.low, mid.value * found.high, found.words + nearby(model, plan))


# ---- a decode step ------------------------------------------------------------------------------------------------


def step_inputs(model: Model, plan: Deployment, work: Workload, terms: dict[str, Figure]) -> dict[str, Figure]:
    """The ideal terms of a napkin step that the formula needs, and what is counted."""
    layers = len(model.stack.layers)
    routed = sum(each.count for each in model.groups if each.layer.mlp and each.layer.mlp.experts)
    spread = plan.tp * plan.dp
    arithmetic = {
        name: terms[name] if terms[name].value is not None else Figure(name, 0.0, "s", "no known compute rate")
        for name in ("compute_s", "attention_compute_s")
    }
    return {
        "weight_read_s": terms["weight_read_s"],
        "kv_read_s": terms["kv_read_s"],
        "communication_s": terms["communication_s"],
        **arithmetic,
        "dequantise_s": dequantising(plan, terms["weight_read_s"]),
        "layers": Figure("layers", layers, "", "config.json"),
        "split_layers": Figure("split_layers", layers if spread > 1 else 0, "", "layers whose ranks wait for each other"),
        "mixtures": Figure("mixtures", routed, "", "layers that route to experts"),
        "batch": Figure("batch", larger(1, work.batch / plan.dp) if plan.dp > 1 else work.batch, "", "--batch"),
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


def step(model: Model, plan: Deployment, work: Workload, terms: dict[str, Figure] | None = None) -> Expected:
    """One decode step of `work.batch` sequences; with `work.prompt` and `work.output` the mean one while others' prompts are read.

    `terms`: of decode.step(..., "napkin"). `work.batch` and `work.ctx` may be arrays.
    """
    from llmcalc.estimate import decode

    found = step_inputs(model, plan, work, terms or decode.step(model, plan, work))
    given = shares("step", plan)
    rate = given.pop("interruption_share")
    mid = f.expected_step_s.of(found | given, as_name="expected_step_time_s")
    if work.output and work.prompt and kind(plan) == "serving":
        mid = f.interrupted_step_s.of(
            as_name="expected_step_time_s",
            step_time_s=mid,
            reading_s=reading(model, plan, work.prompt, work.cached),
            others=Figure("others", larger(0, found["batch"].value - 1), "", "sequences beside one's own"),
            output_tokens=Figure("output_tokens", work.output, "tokens", "--output-tokens"),
            interruption_share=rate,
        )
    one, many = (band(name, model, plan) for name in step_classes(plan, work))
    single = work.batch == 1  # of an array, each
    low, high = many.low + (one.low - many.low) * single, many.high + (one.high - many.high) * single
    words = one.words
    if hasattr(single, "__array__") or not single:
        words = many.words + ("" if shaped(plan, work) else ", others' prompts between the steps included: their shape is not given")
    return Expected(mid, mid.value * low, mid.value * high, words + nearby(model, plan))


def beside(
    model: Model, plan: Deployment, work: Workload, terms: dict[str, Figure] | None, tpot_s: float, usd: float | None
) -> dict[str, Any]:
    """The expected time per token with its range, and price, in the keys of a table's row; `tpot_s` and `usd`: the ideal ones."""
    found = step(model, plan, work, terms)
    return {
        "expected_tpot_s": found.mid_s,
        "expected_tpot_low_s": found.low_s,
        "expected_tpot_high_s": found.high_s,
        "expected_usd_per_million_output_tokens": None if usd is None else usd * found.mid_s / tpot_s,
    }


def shaped(plan: Deployment, work: Workload) -> bool:
    """Whether all is known that a step's estimate may hold: of a busy server that is what others ask for, too."""
    single = not hasattr(work.batch, "__array__") and work.batch == 1
    return single or kind(plan) == "desktop" or bool(work.output and work.prompt)


def step_classes(plan: Deployment, work: Workload) -> tuple[str, str]:
    """Which rows the band of one sequence is of, and that of several: a desktop engine's batches are further off than its single
    sequences, and between the steps of a busy server others' prompts are read, which not every workload tells."""
    if kind(plan) == "desktop":
        return "stream", "batch"
    return "step", "step" if work.output and work.prompt else "alone"


# ---- a prompt -----------------------------------------------------------------------------------------------------


def reading(model: Model, plan: Deployment, prompt: int, cached: int = 0, terms: dict[str, Figure] | None = None) -> Figure:
    """How long reading a prompt keeps the devices busy. [s] value None without a compute rate. `terms`: of prefill.terms."""
    from llmcalc.estimate import prefill

    found = terms or prefill.terms(model, plan, prompt, cached)
    if found["gemm_s"].value is None or found["attention_s"].value is None:
        return Figure("reading_s", None, "s", found["gemm_s"].origin)
    given = shares("prompt", plan)
    tokens = prompt - cached
    share = given["prompt_share"]
    if mixture(model):
        share = Figure("prompt_share", share.value * given["mixture_share"].value, "", f"{share.origin}, of mixtures")
    gemm, attention = found["gemm_s"], found["attention_s"]
    if kind(plan) == "desktop":
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


def ttft(
    model: Model, plan: Deployment, prompt: int, cached: int = 0, others: int = 0, terms: dict[str, Figure] | None = None
) -> Expected | None:
    """Time to the first token beside `others` sequences; None without a compute rate. `terms`: of prefill.terms."""
    busy = reading(model, plan, prompt, cached, terms)
    if busy.value is None:
        return None
    given = shares("prompt", plan)
    tokens = prompt - cached
    chunks = max(1, tokens / MICRO_BATCH) if kind(plan) == "desktop" else 1
    mid = f.expected_ttft_s.of(
        as_name="expected_ttft_s",
        reading_s=busy,
        others=Figure("others", others, "", "sequences beside one's own"),
        layers=Figure("layers", len(model.stack.layers), "", "config.json"),
        chunks=Figure("chunks", chunks, "", "micro-batches of the prompt" if chunks > 1 else "prompts are taken whole"),
        tokens=Figure("tokens", tokens, "tokens", "--prompt"),
        **{name: given[name] for name in ("waiting_share", "layer_s", "token_s", "request_s")},
    )
    return ranged("prompt", mid, model, plan)


# ---- full load ----------------------------------------------------------------------------------------------------


def running(model: Model, plan: Deployment, prompt: int, output: int) -> float:
    """Sequences that run at once under full load: what 90% of the memory hold at their mean length, up to what an engine runs."""
    each = plan.device.memory_usable_bytes or math.inf
    free = (plan.utilization or 0.9) * each * plan.ranks - layout.held_weight_bytes(model, plan).value
    sequence = layout.sequence_bytes(model, plan, Figure("ctx_tokens", prompt + output / 2, "tokens")).value
    return float(max(1.0, min(free / sequence if sequence else math.inf, plan.max_sequences or RUNNING * plan.dp)))


def load(model: Model, plan: Deployment, prompt: int, output: int) -> Expected | None:
    """Output tokens per second of one replica under full load, with its range; the step's `mid_s` is a rate here. [tokens/s]

    None for a desktop engine, of which no such load was measured.
    """
    if kind(plan) == "desktop":
        return None
    batch = running(model, plan, prompt, output)
    found = step(model, plan, Workload(prompt + output / 2, batch, prompt, output))
    mid = time.tokens_per_s.of(
        as_name="expected_tokens_per_s", batch=Figure("batch", batch, "", "what the memory holds"), step_time_s=found.mid
    )
    of_time = band("load", model, plan)
    return Expected(mid, mid.value / of_time.high, mid.value / of_time.low, of_time.words + nearby(model, plan))
