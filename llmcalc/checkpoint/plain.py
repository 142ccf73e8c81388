"""fp8 by blocks or whole matrices, mxfp4, FBGEMM, and the tensors of a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.matching import all_but
from llmcalc.checkpoint.modelopt import listed_layers
from llmcalc.checkpoint.schemes import FLOAT8, MXFP4, MXFP8, Rule, Scheme, list_of, pair_of, whole_number


def by_fp8(q: Mapping[str, Any], model: Model) -> Rule:
    """Scales per block: fp32, but bf16 in Qwen's files and one byte in DeepSeek-V4's; `scale_fmt` says nothing about that."""
    blocks = q.get("weight_block_size")
    if blocks is None:
        base = Scheme("fp8", 8, matrix_bytes=4, compute="fp8")  # a weight and an activation scale in bf16
    else:
        high, wide = (whole_number({"weight_block_size": side}, "weight_block_size") for side in pair_of(blocks))
        v4 = model.model_type in ("deepseek_v4", "deepseek_v41", "deepseek_ref")
        base = FLOAT8._replace(block=(high, wide), block_bytes=1 if v4 else 2 if model.model_type.startswith("qwen") else 4)
    plain = all_but(base, list_of(q, "modules_to_not_convert", "ignored_layers"))
    layers = listed_layers(q)
    experts = MXFP4 if q.get("expert_dtype") == "fp4" else None

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if layers and (named := layers(weight, spellings)):
            return named
        if experts and weight.part in ("experts", "mtp") and weight.copies > 1 and weight.columns > 1:
            return experts
        return MXFP8 if weight.name == "engram.embed" else plain(weight, spellings)

    return rule


def by_mxfp4(q: Mapping[str, Any], model: Model) -> Rule:
    """Experts alone, a scale for each 32 elements."""
    return all_but(MXFP4, list_of(q, "modules_to_not_convert"), lambda weight: weight.part == "experts" and weight.columns > 1)


def by_fbgemm(q: Mapping[str, Any], model: Model) -> Rule:
    """A scale for each row."""
    return all_but(Scheme("fp8", 8, (1, 0), 4, compute="fp8"), list_of(q, "modules_to_not_convert"))


def by_gguf(q: Mapping[str, Any], model: Model) -> Rule:
    """A GGUF file's own tensors, counted from its header: the average of each part. K-quants are dequantised to 16 bits."""
    held: Any = q.get("parts") or {}
    schemes = {part: Scheme(str(q.get("format")), 8 * size / elements) for part, (size, elements) in held.items() if elements}
    return lambda weight, spellings: schemes.get(weight.part)
