"""NVIDIA's ModelOpt: one algorithm, or one for each module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.compressed_tensors import by_compressed_tensors
from llmcalc.checkpoint.matching import Matcher, all_but
from llmcalc.checkpoint.schemes import FLOAT8, MXFP4, MXFP8, NVFP4, Rule, Scheme, list_of, unknown_scheme, whole_number
from llmcalc.errors import printable


def _algorithm(name: str, group: int | None) -> Scheme:
    """ModelOpt's name of a scheme."""
    algo = name.upper()
    wide = group or 128
    known = {
        "FP8": Scheme("fp8", 8, matrix_bytes=8, compute="fp8"),  # a weight and an activation scale in fp32
        "FP8_PB_WO": FLOAT8._replace(compute="bf16"),
        "FP8_PER_CHANNEL_PER_TOKEN": Scheme("fp8", 8, (1, 0), 4, compute="fp8"),
        "NVFP4": NVFP4,
        "NVFP4_AWQ": NVFP4,
        "NVFP4_SVDQUANT": NVFP4,
        "W4A16_NVFP4": NVFP4._replace(matrix_bytes=4, compute="bf16"),
        "W4A8_NVFP4_FP8": NVFP4._replace(compute="fp8"),
        "MXFP4": MXFP4,
        "W4A8_MXFP4_FP8": MXFP4._replace(compute="fp8"),
        "MXFP8": MXFP8,
        "W4A16_AWQ": Scheme("awq", 4, (1, wide), 2),
        "INT4_AWQ": Scheme("awq", 4, (1, wide), 2),
        "W4A16": Scheme("w4a16", 4, (1, wide), 2),
        "W4A8_AWQ": Scheme("awq", 4, (1, wide), 2, compute="fp8"),
        "W8A16": Scheme("w8a16", 8, (1, 0), 2),
        "W8A8_SQ_PER_CHANNEL": Scheme("w8a8", 8, (1, 0), 4, compute="int8"),
        "INT8_SQ": Scheme("w8a8", 8, (1, 0), 4, compute="int8"),
    }
    if algo not in known:
        raise unknown_scheme(f"quant_algo {printable(name, 40)}")
    return known[algo]


def listed_layers(q: Mapping[str, Any]) -> Rule | None:
    """ModelOpt's MIXED_PRECISION: a scheme for each module by name."""
    layers = q.get("quantized_layers")
    if not isinstance(layers, Mapping):
        return None
    by_scheme: dict[Scheme, list[str]] = {}
    for name, value in layers.items():
        if isinstance(value, Mapping) and value.get("quant_algo"):
            group = whole_number(value, "group_size", 128)
            by_scheme.setdefault(_algorithm(str(value["quant_algo"]), group), []).append(name)
    rules = [(scheme, Matcher(listed)) for scheme, listed in by_scheme.items()]

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if weight.columns == 1:
            return None
        return next((scheme for scheme, listed in rules if listed(spellings)), None)

    return rule


def by_modelopt(q: Mapping[str, Any], model: Model) -> Rule:
    """One algorithm, its exceptions, or a list of layers."""
    inner = q.get("quantization")
    block = {**inner, **{key: value for key, value in q.items() if value is not None}} if isinstance(inner, Mapping) else q
    algo = block.get("quant_algo")
    layers = listed_layers(block)
    if layers:
        return layers
    if algo is None and isinstance(block.get("config_groups"), Mapping):
        return by_compressed_tensors(block, model)
    if not isinstance(algo, str):
        raise unknown_scheme("ModelOpt without quant_algo")
    group = block.get("group_size")
    return all_but(_algorithm(algo, group if isinstance(group, int) else None), list_of(block, "exclude_modules", "ignore"))
