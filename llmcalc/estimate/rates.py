"""Measured shares of a device's rates, fixed costs, and how far off an estimate made of them may be.

They come from `calibration.json`, which scripts/calibrate.py writes from `measurements/`: per class of device and kind of
engine. A range covers 80% of measured rows of models that the fit had not seen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import layout
from llmcalc.figures import Figure
from llmcalc.hardware import Device
from llmcalc.plan import Deployment

TABLE = Path(__file__).resolve().parent.parent / "calibration.json"
ENOUGH = 20
"""Rows of unseen models that a class needs for a band of its own."""
STRANGE = 1.5
"""How much further off, either way, a class may be of which nothing was measured."""
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
    unmeasured: str = ""
    """What the own class lacks, where a wider one's range stands for it."""


@cache
def table() -> dict[str, Any]:
    """The bundled calibration."""
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


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


def constants(of_what: str, plan: Deployment, shipped: dict[str, Any] | None = None) -> dict[str, Figure]:
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
    lacks = f"{why} of {sort} measured on {where}"
    said = f"{lacks}, so the range is {width} wide one of all {near['rows']} rows of {name}"
    return Band(low, high, near["rows"], near["models"], f"{said}, ×{low:.2f}–{high:.2f}", lacks)


def nearby(model: Model, plan: Deployment) -> str:
    """How to see the measured rows of the model on the device, or else of the device; nothing where there are none."""
    rows, option = table()["measured"].get(plan.device.id, {}), f"-d {plan.device.id}"
    own = rows.get(model.id, 0)
    count, option = (own, f"-m {model.id} {option}") if own else (sum(rows.values()), option)
    return f"; llmcalc accuracy {option} lists {count} measured nearby" if count else ""
