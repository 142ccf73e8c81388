"""A whole checkpoint: every weight, its scheme, and what lies beside."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from llmcalc import formats
from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.bitsandbytes import by_bitsandbytes
from llmcalc.checkpoint.compressed_tensors import by_compressed_tensors
from llmcalc.checkpoint.gptq import by_autoround, by_awq, by_gptq
from llmcalc.checkpoint.mlx import by_mlx
from llmcalc.checkpoint.modelopt import by_modelopt
from llmcalc.checkpoint.names import TOWERS, names
from llmcalc.checkpoint.plain import by_fbgemm, by_fp8, by_gguf, by_mxfp4
from llmcalc.checkpoint.quark import by_quark
from llmcalc.checkpoint.repeated import classes, numbered
from llmcalc.checkpoint.schemes import Checkpoint, Kept, Rule, Scheme, is_linear, list_of, size, unknown_scheme
from llmcalc.checkpoint.torchao import by_torchao
from llmcalc.errors import printable
from llmcalc.formats import Format
from llmcalc.formulas import memory as f
from llmcalc.model import weights as model_weights

METHODS: dict[str, Callable[[Mapping[str, Any], Model], Rule]] = {
    "fp8": by_fp8,
    "awq": by_awq,
    "gptq": by_gptq,
    "auto-round": by_autoround,
    "bitsandbytes": by_bitsandbytes,
    "compressed-tensors": by_compressed_tensors,
    "modelopt": by_modelopt,
    "modelopt_fp4": by_modelopt,
    "modelopt_mixed": by_modelopt,
    "mxfp4": by_mxfp4,
    "gguf": by_gguf,
    "torchao": by_torchao,
    "mlx": by_mlx,
    "fbgemm_fp8": by_fbgemm,
    "quark": by_quark,
}


def method(q: Mapping[str, Any]) -> str:
    """Which quantiser wrote the block. Errors: unknown-quantization."""
    stated = q.get("quant_method")
    inner = q.get("quantization")
    if stated is None and (q.get("quant_algo") or (isinstance(inner, Mapping) and inner.get("quant_algo"))):
        return "modelopt"
    if stated is None and "bits" in q and "group_size" in q:
        # MLX names no method; the others' own files (quantize_config.json, quant_config.json) have keys that it lacks.
        return "gptq" if "desc_act" in q else "awq" if "zero_point" in q else "mlx"
    if stated is None and (q.get("load_in_4bit") or q.get("load_in_8bit")):
        return "bitsandbytes"
    name = str(stated).lower().removeprefix("intel/")  # AutoRound's first spelling
    name = name if name in METHODS else name.replace("_", "-")
    if name not in METHODS:
        raise unknown_scheme(f"quant_method {printable(str(stated), 40)}")
    return name


# Model types whose router keeps one fp32 balancing bias per expert that is in the file and is no parameter.
BALANCED = frozenset(
    """bailing_hybrid deepseek_v3 deepseek_v32 exaone_moe glm4_moe glm4_moe_lite glm4v_moe glm_moe_dsa hy_v3 kimi_k2 kimi_k25
    kimi_linear minimax_m2 minimax_m3 minimax_m3_vl nemotron_h solar_open""".split()
)


# Types of the years before half precision: a config without a dtype stands beside an fp32 file.
FP32_TYPES = frozenset("gpt2 gpt_neo opt bart t5 mt5 whisper xglm biogpt codegen mamba".split())


def read(model: Model, plain: Format, *, alike: bool = False) -> Checkpoint | None:
    """The checkpoint's own storage, or None where every weight has the dtype `plain` and nothing is stored beside them.

    `alike`: the block's lists name no layer by its number, so that one layer tells of all that are built like it.

    Errors (ConfigError): unknown-quantization, bad-quantization.
    """
    q = model.quantization
    if model.dtype is None and model.model_type in FP32_TYPES:
        plain = formats.FORMATS["fp32"]
    rule: Rule = METHODS[method(q)](q, model) if q else lambda weight, spellings: None
    base = Scheme(plain.name, plain.bits, compute=plain.compute)
    single = q is not None and _names_single_experts(q, model)
    said = numbered(q) if q and not alike else None

    def kept(weight: Weight, layer: int | None, beside: bool) -> list[Kept]:
        if weight.name.endswith("e_score_correction_bias") or (weight.part == "mtp" and _FP32.match(weight.name)):
            return [Kept(Scheme("fp32", 32, compute="fp32"), weight.copies)]
        if not q:
            return [Kept(base, weight.copies)]
        experts = range(weight.copies) if single else range(1)
        each = [rule(weight, names(weight, layer, beside=beside, expert=index)) or base for index in experts]
        return [Kept(scheme, each.count(scheme) * weight.copies // len(each)) for scheme in dict.fromkeys(each)]

    stack = model.stack
    language: list[tuple[Kept, ...]] = [tuple(kept(weight, None, False)) for weight in stack.embedding]
    for group in model.groups:
        layers = [index for index, layer in enumerate(stack.layers) if layer == group.layer] if q and not alike else [group.first]
        told_apart = classes(said, layers)
        parts = {weight.part for weight in group.layer.all_weights}
        beside = {"mlp", "experts"} <= parts
        for weight in group.layer.all_weights:
            found: dict[Scheme, int] = {}
            for same in told_apart:
                for part in kept(weight, same[0], beside):
                    found[part.scheme] = found.get(part.scheme, 0) + part.matrices * len(same)
            times = 1 if q and not alike else group.count
            language.append(tuple(Kept(scheme, number * times) for scheme, number in found.items()))
    language += [tuple(kept(weight, None, False)) for weight in (*stack.shared, *stack.outside, *stack.head)]
    towers = [_tower(weight, rule, base) for weight in model.towers or ()]
    # A multi-token-prediction module is one more layer in the file, behind the last.
    ahead = [tuple(kept(weight._replace(name=_MTP.sub("", weight.name)), len(stack.layers), False)) for weight in stack.mtp]
    buffers = _buffers(model)
    if not q and not buffers and plain.name != "fp32":
        return None
    return _made(model, plain, language, towers, ahead, buffers)


def on_desktops(model: Model, shipped: Checkpoint, plain: Format) -> Checkpoint:
    """A model trained in 4-bit floats as its GGUF and MLX files hold it: experts as they are, all other matrices in 8 bits.

    [ggml-org/gpt-oss-20b-GGUF: q8_0; mlx-community/gpt-oss-20b-MXFP4-Q8: groups of 64 with a scale and a bias]
    """
    eight = Scheme("q8_0", 8, (1, 32), 2)

    def kept(weight: Weight, parts: tuple[Kept, ...]) -> tuple[Kept, ...]:
        alone = weight.columns == 1 or weight.part in ("router", "norms")
        return tuple(Kept(eight, part.matrices) if part.scheme.bits >= 16 and not alone else part for part in parts)

    language = [kept(weight, parts) for (_, weight), parts in zip(model_weights(model), shipped.language, strict=True)]
    return _made(model, plain, language, list(shipped.towers), list(shipped.mtp), shipped.buffers)


_UNEVEN = ((3.4375, 4.5), (4.5, 5.5), (5.5, 6.0), (6.5625, 8.5))
"""Rows that are no multiple of 256 take the next plainer type: of k-quants of so many bits, so many. [llama.cpp: tensor_type_fallback]"""


def with_tables(model: Model, fmt: Format, plain: Format) -> Checkpoint:
    """A file whose layers have a format's bits, and its embedding and head others; all that is no matrix stays as it is.

    One table that is both is quantised as a head: the embedding beside it stays on the host. [mo137/gemma-2-27b-it-exl2]
    """
    base, layers_bits, gguf = Scheme(plain.name, plain.bits), fmt.layer_bits or fmt.bits, bool(fmt.layer_bits)
    tables = dict(zip(("embedding", "head"), fmt.table_bits, strict=True))
    tables["embedding"] = tables["embedding" if model.stack.head else "head"]

    def kept(weight: Weight, layers: int) -> tuple[Kept, ...]:
        bits = tables.get(weight.part) or (layers_bits if is_linear(weight) else base.bits)
        if gguf and bits < base.bits and weight.columns % 256:
            bits = next((wide for narrow, wide in _UNEVEN if bits <= narrow + 0.4), 8.5)
        scheme = base if bits == base.bits else Scheme(fmt.name if bits == layers_bits else f"{bits:g} bits", bits)
        return (Kept(scheme, layers * weight.copies),)

    language = [kept(weight, layers) for layers, weight in model_weights(model)]
    other = Scheme(fmt.name, fmt.bits) if gguf else base
    towers: list[tuple[Kept, ...]] = [(Kept(other, weight.copies),) for weight in model.towers or ()]
    made = _made(model, plain, language, towers, [kept(weight, 1) for weight in model.stack.mtp], ())
    return replace(made, name=fmt.name, compute=fmt.compute, recipe=True)


_FP32 = re.compile(r"attn_hc\.|ffn_hc\.|hc_head\.|sinks$")  # DeepSeek-V4's prediction module


_EXPERT = re.compile(r"\bexperts\.\d+")


_MTP = re.compile(r"^mtp\.(\d+\.)?")


def _names_single_experts(q: Mapping[str, Any], model: Model) -> bool:
    """Whether a list treats the experts of one layer differently; else the first one speaks for all."""
    inner = q.get("quantization")
    blocks = [q, inner] if isinstance(inner, Mapping) else [q]
    counts = {group.layer.mlp.experts for group in model.groups if group.layer.mlp and group.layer.mlp.experts}
    for block in blocks:
        layers = block.get("quantized_layers")
        listed = [(name, "") for key in ("ignore", "exclude_modules", "modules_to_not_convert") for name in list_of(block, key)]
        listed += [(name, str(value)) for name, value in layers.items()] if isinstance(layers, Mapping) else []
        seen = Counter((_EXPERT.sub("experts.#", name), value) for name, value in listed if isinstance(name, str) and _EXPERT.search(name))
        if not set(seen.values()) <= counts:
            return True
    return False


def _tower(weight: Weight, rule: Rule, base: Scheme) -> tuple[Kept, ...]:
    """Towers stay as they are, but for a quantiser that asks for them by part."""
    scheme = rule(weight, TOWERS[weight.part]) if weight.part in TOWERS and not is_linear(weight) else None
    return (Kept(scheme or base, weight.copies),)


def _buffers(model: Model) -> tuple[tuple[str, int, int], ...]:
    found = [(name, elements, each) for name, elements, each in model.stack.buffers]
    if model.model_type in BALANCED:
        biased = sum(
            group.count * group.layer.mlp.experts
            for group in model.groups
            if group.layer.mlp and not any("e_score" in weight.name for weight in group.layer.mlp.weights)
        )
        found += [("balancing bias", biased, 4)] if biased else []
    return tuple(found)


def _made(
    model: Model,
    plain: Format,
    language: list[tuple[Kept, ...]],
    towers: list[tuple[Kept, ...]],
    ahead: list[tuple[Kept, ...]],
    buffers: tuple[tuple[str, int, int], ...],
) -> Checkpoint:
    owned = [
        *((weight, kept) for (_, weight), kept in zip(model_weights(model), language, strict=True)),
        *zip(model.towers or (), towers, strict=True),
    ]
    params: dict[Scheme, int] = {}
    for weight, parts in owned:
        for part in parts:
            params[part.scheme] = params.get(part.scheme, 0) + part.matrices * weight.rows * weight.columns
    held = sum(size(weight, parts) for weight, parts in owned) + sum(elements * each for _, elements, each in buffers)
    quantised = sorted((scheme for scheme in params if scheme.name not in ("fp32", plain.name)), key=lambda scheme: -params[scheme])
    elements = sum(params.values())
    main = quantised[0] if quantised else None
    return Checkpoint(
        name=main.name if main else plain.name,
        bits=f.effective_bits(held, elements),
        compute=main.compute if main else plain.compute,
        note=", ".join(f"{params[scheme] / elements:.1%} of the parameters in {_shape(scheme)}" for scheme in quantised),
        language=tuple(language),
        towers=tuple(towers),
        mtp=tuple(ahead),
        buffers=buffers,
    )


def _shape(scheme: Scheme) -> str:
    high, wide = scheme.block
    if not (scheme.block_bytes or scheme.matrix_bytes or scheme.column_bytes):
        return scheme.name
    if high and wide:
        return f"{scheme.name} with a scale per {wide}" if high == 1 else f"{scheme.name} with a scale per {high}×{wide}"
    return f"{scheme.name} with a scale per {'row' if high else 'matrix'}"
