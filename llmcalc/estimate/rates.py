"""Measured shares of a device's rates, fixed costs, and how far off an estimate made of them may be.

The constants stand in `rates.json`, the ranges in `calibration.json`; scripts/calibrate.py writes both from `measurements/`.
A range covers 80% of measured rows of models and sources that the fit had not seen.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from llmcalc import links
from llmcalc.architecture import Model
from llmcalc.engines import Engine
from llmcalc.estimate import layout, offload
from llmcalc.estimate.counts import Counts
from llmcalc.figures import Figure
from llmcalc.hardware import Device
from llmcalc.plan import Deployment

TABLE = Path(__file__).resolve().parent.parent / "calibration.json"
RATES = TABLE.with_name("rates.json")
LLAMA_ERAS = ("2024", "vulkan", "amdvlk")
READS = ("dense_share", "plain_share", "expert_share", "cache_share")
MOST_READ = 0.95
"""Streaming kernels reach 0.91 to 0.97 of nominal bandwidth. [hardware notes: read tests of nine devices]"""
MOST_SHARE = 1.05
"""Real clocks exceed rated ones by so much; nothing is faster. [hardware notes: matrix rates of GeForce cards]"""
LOOSE = ("queue_share", "burst_share", "interruption_share", "routing_share", "apart_share", "plain_apart_share", "expert_apart_share")
"""Shares of something else than a rate."""
APART = {"plain_share": "plain_apart_share", "expert_share": "expert_apart_share"}
"""What of the shorter of reading and arithmetic does not overlap, by whose reading it is; `apart_share` for the rest."""
BLOCK_KERNELS = ("hopper", "blackwell", "cdna3")
"""Generations with tuned products of fp8 in blocks of 128 (DeepGEMM, CUTLASS, AITER); others run Triton's. [vllm#23280, vllm#33328]"""
SMALL_CACHE = 9
"""Bits of a cache's element up to which its kernels are those of 8 bits."""
ENOUGH = 20
"""Rows of unseen models that a class needs for a band of its own."""
STRANGE = 1.5
"""How much further off, either way, a class may be of which nothing was measured."""
WIDEST = {"serving": "ttft/serving", "desktop": "prompt/desktop"}
"""The band of what was never timed."""
KIND = {"serving": "a serving engine", "desktop": "a desktop engine"}
GROUP = {
    "hopper": "Hopper", "blackwell": "Blackwell", "ampere": "data-centre Ampere", "ada": "data-centre Ada", "instinct": "Instinct",
    "workstation": "workstation cards", "geforce": "GeForce", "consumer": "consumer cards", "datacenter": "data-centre cards",
    "exllamav3": "cards (ExLlamaV3)", "apple": "Apple", "unified-nvidia": "DGX Spark", "unified-amd": "Strix Halo",
    "radeon": "Radeon cards", "gaudi": "Gaudi", "max": "Data Center GPU Max",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Band:
    """What measured rows of unseen models were, as a factor of the estimate: 80% lie between low and high."""

    low: float
    high: float
    rows: int
    models: int
    words: str
    unmeasured: str = ""
    """What the own class lacks, where a wider one's range stands for it."""


_HOSTED = "rows with weights in host memory: five models, four machines, ik_llama.cpp and ktransformers; 80% lay within"
HOSTED = {
    "step": Band(0.75, 1.3, 55, 5, f"55 {_HOSTED} ×0.75–1.30"),
    "prompt": Band(0.55, 1.8, 53, 5, f"53 {_HOSTED} ×0.55–1.80"),
}
"""Of what lies partly on the host (ikawrakow/ik_llama.cpp#258 and #357, kvcache-ai/ktransformers@95009ea): machines differ most."""


@cache
def constants_table() -> dict[str, Any]:
    """The bundled constants, by kind of engine."""
    found: dict[str, Any] = json.loads(RATES.read_text(encoding="utf-8"))
    return found


@cache
def table() -> dict[str, Any]:
    """The bundled calibration."""
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def kind(plan: Deployment) -> str:
    """serving or desktop: the engine's kind, or the usual one of the device. Ranks that share matrices need a serving engine."""
    if plan.engine.kind is not None:
        return "desktop" if plan.engine.kind == "desktop" else "serving"
    if plan.holders > 1 or plan.dp > 1:
        return "serving"
    return "serving" if plan.device.device_class == "datacenter" else "desktop"


def group(device: Device, of_kind: str) -> str | None:
    """The class of a device among those that were measured, or None."""
    if of_kind == "desktop":
        if device.device_class == "unified":
            return f"unified-{device.vendor.lower()}"
        return device.device_class if device.device_class in GROUP else None
    if device.device_class == "unified" and device.vendor in ("NVIDIA", "AMD"):
        return f"unified-{device.vendor.lower()}"
    if device.vendor == "AMD" and device.device_class in ("datacenter", "workstation", "consumer"):
        return "instinct" if device.device_class == "datacenter" else "radeon"
    if device.vendor == "Intel" and device.device_class == "datacenter":
        return "gaudi" if _architecture(device) == "gaudi" else "max"
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


def generation(device: Device, of_kind: str) -> str:
    """Devices whose kernels are alike: the architecture, and what of it a desktop engine uses."""
    key = _architecture(device)
    if of_kind == "serving":
        return key
    return f"{key} {device.device_class}" if key in ("ampere-gddr", "ada", "blackwell-gddr") and device.device_class != "consumer" else key


def _architecture(device: Device) -> str:
    if device.vendor == "NVIDIA":
        stacked = (device.memory_type or "").startswith("HBM")
        if device.device_class == "unified":
            return "gb10" if "fp4" in device.compute else "tegra"
        if stacked:
            names = (("fp4", "blackwell"), ("fp8", "hopper"), ("bf16", "ampere"))
        else:
            names = (("fp4", "blackwell-gddr"), ("fp8", "ada"), ("bf16", "ampere-gddr"))
        return next((name for key, name in names if key in device.compute), "turing")
    if device.vendor == "AMD":
        if device.device_class in ("unified", "cpu"):
            return "strix-halo" if device.device_class == "unified" else "cpu"
        return "rdna" if device.device_class != "datacenter" else "cdna3" if "fp8" in device.compute else "cdna2"
    if device.vendor == "Intel" and device.device_class == "datacenter" and "fp32" not in device.compute:
        return "gaudi"
    return {"Apple": "apple"}.get(device.vendor, f"{device.vendor.lower()} {device.device_class}")


def era(engine: Engine) -> str:
    """An engine and its age, where releases differ in their times."""
    release, family = engine.release, engine.family
    if family == "vllm":
        if release.startswith("deepspeed"):
            return release
        return "vllm@0" if engine.since < (0, 8) else "vllm@0.8" if engine.since < (0, 12) else "vllm"
    if family == "trt-llm" and release:
        return "trt-llm@0" if release.startswith("0.") else "trt-llm@1.0" if release.startswith("1.0") else "trt-llm"
    if family in ("ik_llama.cpp", "ktransformers"):
        return "llama.cpp"  # whose kernels they took over; what the host computes has rates of its own
    if family == "llama.cpp" and release:
        return f"llama.cpp@{release}" if release in LLAMA_ERAS else "llama.cpp"
    return family


def matrix_format(compute: str, bits: float, plan: Deployment, of_kind: str) -> str:
    """Formats whose matrices reach alike shares: by width, and whether the device multiplies them as they are."""
    if bits >= 16:
        return "16 bits"
    native = compute in plan.device.compute
    if of_kind == "desktop":
        if compute == "fp4":
            return "4-bit floats"
        if plan.weights.name.removeprefix("ud_").startswith("iq"):
            return "vector codes"
        edges = ((7, "8 bits"), (6, "6 bits"), (5.2, "5 bits"), (4.1, "4 bits"), (3.3, "3 bits"))
        return next((name for edge, name in edges if bits > edge), "2 bits")
    if bits > 7:
        return "8 bits" if native and compute != "bf16" else "8 bits, unpacked"
    return ("4-bit floats" if native else "4-bit floats, unpacked") if compute == "fp4" else "4 bits, unpacked"


def keys(plan: Deployment, found: Counts) -> dict[str, str]:
    """What the constants of a deployment depend on, by the name of the dependence in rates.json."""
    of_kind = kind(plan)
    made = generation(plan.device, of_kind)
    dense = matrix_format(found.dense.compute, found.dense.bits if found.dense.params else 16, plan, of_kind)
    if dense == "8 bits" and found.dense.in_blocks and made not in BLOCK_KERNELS:
        dense = "8 bits in blocks"
    first = found.experts[0] if found.experts else None
    routed = matrix_format(first.compute, first.bits, plan, of_kind) if first else "16 bits"
    cache = "8 bits" if plan.kv.bits <= SMALL_CACHE else "16 bits"
    engine = era(plan.engine)
    return {
        "generation": made,
        "device": plan.device.id,
        "format": dense,
        "generation, format": f"{made}, {dense}",
        "expert format": routed,
        "generation, expert format": f"{made}, {routed}",
        "cache format": cache,
        "generation, cache format": f"{made}, {cache}",
        "engine": engine,
        "generation, engine": f"{made}, {engine}",
        "link": wires(plan, of_kind),
    }


def steers(plan: Deployment) -> tuple[str, ...]:
    """What of a device chooses its constants and collectives: deployments that differ in it are not estimated together."""
    of_kind = kind(plan)
    own = {key for row in constants_table()[of_kind].values() for key in row.get("by", {}).get("device", {})}
    link = links.named(plan.device.link.type) if plan.device.link else None
    named = plan.device.id if plan.device.id in own else ""
    return generation(plan.device, of_kind), named, link.name if link else "", wires(plan, of_kind)


def wires(plan: Deployment, of_kind: str) -> str:
    """The kind of a device's link, as constants tell them apart."""
    link = plan.device.link.type.lower() if plan.device.link else "none"
    return "pcie" if "pcie" in link or link == "none" else generation(plan.device, of_kind)


def constants(plan: Deployment, found: Counts, shipped: dict[str, Any] | None = None) -> dict[str, Figure]:
    """The measured shares and costs of a deployment: each the value of all, times what is particular to its device, format and engine."""
    of_kind = kind(plan)
    own = keys(plan, found)
    made = numbers(shipped[of_kind], own) if shipped else _numbers(of_kind, tuple(own.items()))
    return {
        name: Figure(name, value, "s" if name.endswith("_s") else "", f"rates.json, {KIND[of_kind]} on {own['generation']}")
        for name, value in made.items()
    }


def plain_constants(plan: Deployment, found: Counts) -> dict[str, float]:
    """The same as plain numbers."""
    return _numbers(kind(plan), tuple(keys(plan, found).items()))


@lru_cache(maxsize=1024)
def _numbers(of_kind: str, own: tuple[tuple[str, str], ...]) -> dict[str, float]:
    return numbers(constants_table()[of_kind], dict(own))


def numbers(rows: dict[str, Any], own: dict[str, str]) -> dict[str, float]:
    """The constants of some keys as plain numbers; a share is at most 1."""
    made = {}
    for name, row in rows.items():
        value = row["value"]
        for by, factors in row.get("by", {}).items():
            value *= factors.get(own[by], 1.0)
        made[name] = min(value, most(name))
    return made


def most(name: str) -> float:
    """The largest value that a constant may have: a share of memory bandwidth or of a matrix rate that was ever reached."""
    if not name.endswith("_share") or name in LOOSE:
        return math.inf
    return MOST_READ if name in READS else MOST_SHARE


def band(of_what: str, model: Model, plan: Deployment, bands: dict[str, Any] | None = None) -> Band:
    """The band of the class; of a class with too few rows the wider one of its kind of engine. `bands`: others than the bundled ones."""
    if plan.offload is not None and offload.hosted(model, plan).weight_bytes:
        return HOSTED["prompt" if of_what == "prompt" else "step"]
    of_kind, sort = kind(plan), "mixtures" if mixture(model) else "dense models"
    chosen = class_of(plan)
    bands = bands or table()["bands"]
    own = bands.get(f"{of_what}/{of_kind}/{chosen}/{sort}")
    name = f"{sort} under {KIND[of_kind]}"
    if own and own["rows"] >= ENOUGH and chosen:
        models = f"{own['models']} model" + ("s" if own["models"] > 1 else "")
        said = f"{own['rows']} measured rows of {models}, {name} on {GROUP[chosen]}; 80% of those unseen lay within"
        return Band(own["low"], own["high"], own["rows"], own["models"], f"{said} ×{own['low']:.2f}–{own['high']:.2f}")
    near = bands.get(f"{of_what}/{of_kind}/{sort}") or bands.get(f"{of_what}/{of_kind}") or bands[WIDEST[of_kind]]
    where = GROUP[chosen] if chosen else plan.device.id
    if own:
        low, high = min(near["widest_low"], own["widest_low"]), max(near["widest_high"], own["widest_high"])
        why = f"only {own['rows']} row" + ("s" if own["rows"] > 1 else "")
    else:
        low, high, why = near["widest_low"] / STRANGE, near["widest_high"] * STRANGE, "no rows"
    width = "the" if own else "wider than the"
    lacks = f"{why} of {sort} measured on {where}"
    said = f"{lacks}, so the range is {width} wide one of all {near['rows']} rows of {name}"
    return Band(low, high, near["rows"], near["models"], f"{said}, ×{low:.2f}–{high:.2f}", lacks)


def nearby(model: Model, plan: Deployment) -> str:
    """How to see the measured rows of the model on the device, or else of the device; nothing where there are none."""
    rows, option = table()["measured"].get(plan.device.id, {}), f"-d {plan.device.id}"
    own = rows.get(model.id, 0)
    count, option = (own, f"-m {model.id} {option}") if own else (sum(rows.values()), option)
    return f"; llmcalc accuracy {option} lists {count} measured nearby" if count else ""
