"""compressed-tensors: schemes by groups of targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.matching import Matcher
from llmcalc.checkpoint.schemes import MXFP4, NVFP4, Rule, Scheme, is_linear, list_of, pair_of, whole_number
from llmcalc.errors import ConfigError


def by_compressed_tensors(q: Mapping[str, Any], model: Model) -> Rule:
    """The scheme of the group whose targets name a module."""
    groups = q.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise ConfigError(
            "bad-quantization", "quantization_config of compressed-tensors has no config_groups", "name a format with `weights`"
        )
    everywhere: list[Scheme] = []
    named: list[tuple[Matcher, Scheme]] = []
    shape = 8 if model.model_type.startswith("kimi") else 16  # two int64, but Moonshot's own writer takes int32
    for group in groups.values():
        if not isinstance(group, Mapping) or not isinstance(group.get("weights"), Mapping):
            continue  # activations or caches alone
        packing = str(group.get("format") or q.get("format") or "")
        scheme = _tensor_scheme(group["weights"], group.get("input_activations"), packing, shape)
        targets = [text for text in list_of(group, "targets") or ["Linear"] if isinstance(text, str)]
        if any(text in ("Linear", "LinearBase", "FusedMoE", "Embedding") for text in targets):
            everywhere.append(scheme)
        rest = [text for text in targets if "." in text or text.startswith("re:")]
        if rest:
            named.append((Matcher(rest, whole=True), scheme))
    skip = Matcher(list_of(q, "ignore"), whole=True)

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        matrix = weight.columns > 1 and weight.part not in ("norms", "state", "positions", "embedding")
        if not matrix or skip(spellings):
            return None
        for matcher, scheme in named:
            if matcher(spellings):
                return scheme
        return everywhere[0] if everywhere and is_linear(weight) else None

    return rule


def _tensor_scheme(w: Mapping[str, Any], activations: Any, packing: str, shape_bytes: int) -> Scheme:
    """The scheme of one `weights` block of compressed-tensors, or of ModelOpt's copy of it."""
    bits, kind = whole_number(w, "num_bits", most=16), str(w.get("type", "int"))
    strategy = str(w.get("strategy") or ("group" if w.get("group_size") else "tensor"))
    static = 2 if isinstance(activations, Mapping) and not activations.get("dynamic") else 0
    math = isinstance(activations, Mapping)  # without quantised activations the weights are expanded first
    if kind == "float" and bits == 4:
        if whole_number(w, "group_size", 16) == 32 or packing.startswith("mxfp4"):
            return MXFP4 if math else MXFP4._replace(compute="bf16")
        return NVFP4 if math else NVFP4._replace(compute="bf16")
    if strategy == "block":
        high, wide = (whole_number({"block_structure": side}, "block_structure") for side in pair_of(w.get("block_structure")))
        block, each = (high, wide), 2.0
    elif strategy in ("group", "tensor_group"):
        block, each = (1, whole_number(w, "group_size", 128)), 2 + (0 if w.get("symmetric", True) else bits / 8)
    else:
        block, each = ((1, 0) if strategy == "channel" else (0, 0)), 2.0
    packed = shape_bytes if packing == "pack-quantized" or (kind == "int" and not math) else 0  # weight_shape
    compute = ("fp8" if kind == "float" else "int8" if bits == 8 else "bf16") if math else "bf16"
    name = "fp8" if kind == "float" else ("w8a8" if bits == 8 else f"w{bits}a8") if math else f"w{bits}a16"
    ordered = 4 if w.get("actorder") in ("group", "dynamic", True) else 0
    return Scheme(name, bits, block, each, matrix_bytes=packed + static, column_bytes=ordered, compute=compute)
