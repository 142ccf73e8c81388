"""A checkpoint as it ships: which scheme its quantization_config gives every weight, and what that takes in bytes.

A quantiser replaces matrices, and its lists say which it leaves alone, by module name. The names here follow the Hub's
files; where files of different code bases spell a module differently, a list is matched against every spelling.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from time import process_time
from typing import Any, NamedTuple

from llmcalc import formats
from llmcalc.architecture import Model, Weight
from llmcalc.errors import ConfigError, printable
from llmcalc.formats import Format
from llmcalc.formulas import memory as f
from llmcalc.model import weights as model_weights


class Scheme(NamedTuple):
    """How one matrix is stored: `bits` per element; `block_bytes` of scales and zeros for each block of `block` elements.

    A block side of 0 is the whole side. `row_bytes` and `column_bytes` are per output and input, `matrix_bytes` once.
    `compute` is the rate that a device multiplies at, as in a Format.
    """

    name: str
    bits: float
    block: tuple[int, int] = (0, 0)
    block_bytes: float = 0
    matrix_bytes: int = 0
    column_bytes: int = 0
    compute: str = "bf16"

    def inputs(self, rows: int, columns: int) -> dict[str, float]:
        """The arguments of the formula `stored_bytes` for one matrix, without the number of matrices."""
        high, wide = self.block
        return {
            "rows": rows,
            "columns": columns,
            "bits": self.bits,
            "block_rows": high or rows or 1,
            "block_columns": wide or columns or 1,
            "block_bytes": self.block_bytes,
            "matrix_bytes": self.matrix_bytes + self.column_bytes * columns,
        }


class Kept(NamedTuple):
    """`matrices` matrices of one weight that are stored alike."""

    scheme: Scheme
    matrices: int


@dataclass(frozen=True, slots=True)
class Checkpoint(Format):
    """The format of a whole checkpoint: effective bits, and the schemes of every weight in the order of `model.weights`."""

    language: tuple[tuple[Kept, ...], ...] = ()
    towers: tuple[tuple[Kept, ...], ...] = ()
    mtp: tuple[tuple[Kept, ...], ...] = ()
    buffers: tuple[tuple[str, int, int], ...] = ()  # (name, elements, bytes each): in the file, and no parameters

    def of(self, index: int) -> Format:
        """The format of one weight, by its place in `model.weights`; where layers differ, that of most of them."""
        kept = self.language[index]
        most = max(kept, key=lambda part: part.matrices).scheme
        return Format(most.name, most.bits, most.compute)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of routing tables and balancing biases."""
        return sum(elements * each for _, elements, each in self.buffers)


def size(weight: Weight, kept: Iterable[Kept]) -> float:
    """Bytes of one weight of one group of alike layers."""
    return float(sum(f.stored_bytes(matrices=k.matrices, **k.scheme.inputs(weight.rows, weight.columns)) for k in kept))


# ---- module names -------------------------------------------------------------------------------------------------

_ATTENTION = ("self_attn", "attn", "attention", "mixer")
_MLP = ("mlp", "ffn", "feed_forward", "block_sparse_moe", "mixer")
_SPELLINGS = {
    "q_proj": ("qkv_proj", "query_key_value", "c_attn", "att_proj", "W_pack", "wq"),
    "k_proj": ("qkv_proj", "query_key_value", "c_attn", "att_proj", "W_pack", "wk"),
    "v_proj": ("qkv_proj", "query_key_value", "c_attn", "att_proj", "W_pack", "wv"),
    "o_proj": ("dense", "c_proj", "out_proj", "wo", "attn_out"),
    "gate_proj": ("gate_up_proj", "w1", "gate_and_up_proj"),
    "up_proj": ("gate_up_proj", "w3", "fc1", "c_fc", "dense_h_to_4h"),
    "down_proj": ("w2", "fc2", "c_proj", "dense_4h_to_h"),
    "q_a_proj": ("wq_a",),
    "q_b_proj": ("wq_b",),
    "o_a_proj": ("wo_a",),
    "o_b_proj": ("wo_b",),
}
_ROUTERS = ("mlp.gate", "mlp.router", "router.proj", "router", "feed_forward.router", "feed_forward.gate", "block_sparse_moe.gate")
_OUTSIDE = {
    "embed_tokens": ("embed_tokens", "embeddings", "embed", "wte", "word_embeddings"),
    "lm_head": ("lm_head", "head", "output", "embed_out"),
}
_TOWERS = {
    "vision": ("vision_tower", "vision_model", "visual", "vision_backbone", "vision_encoder"),
    "audio": ("audio_tower", "audio_model", "audio_encoder"),
    "projector": ("multi_modal_projector", "mm_projector", "embed_vision", "mlp1", "merger", "patch_merge_mlp", "embed_audio"),
}
_PREFIXES = ("", "model.", "model.language_model.", "language_model.model.", "language_model.", "backbone.", "transformer.")


def names(weight: Weight, layer: int | None, *, beside: bool = False, expert: int = 0) -> tuple[str, ...]:
    """What files call the module of a weight, from `layers.N` on; `layer` None outside of the layers.

    `beside`: the experts stand beside a dense MLP in the same layer, not in its place.
    """
    plain = weight.name.removesuffix(".bias")
    if layer is None:
        return _OUTSIDE.get(plain, (plain,))
    first, _, rest = plain.partition(".")
    found: list[str] = []
    if weight.part == "mtp" and plain in _AHEAD:
        found += [plain]
    elif plain == "mlp.gate" or first == "router":
        found += _ROUTERS if rest == "gate" else (plain,)
    elif first == "mlp" and rest.startswith("experts."):
        spelled = _spelled(rest.removeprefix("experts."))
        roots = ("experts",) if beside else tuple(f"{root}.experts" for root in _MLP)
        found += [f"{root}.{expert}.{word}" for root in roots for word in spelled]
    elif first == "mlp" and rest.startswith("shared_experts."):
        spelled = _spelled(rest.removeprefix("shared_experts."))
        found += [f"{root}.{word}.{last}" for root in _MLP for word in ("shared_experts", "shared_expert") for last in spelled]
    elif first == "mlp":
        found += [f"{root}.{word}" for root in _MLP for word in _spelled(rest)]
    elif first == "mamba":
        found += [plain, f"mixer.{rest}"]
    elif first == "indexer":
        found += [f"{root}.{plain}" for root in _ATTENTION] + [f"self_attn.index_{rest}"]
    elif first in ("linear_attn", "self_attn", "attention"):
        found += [plain]
    else:
        found += [f"{root}.{word}" for root in _ATTENTION for word in _spelled(plain)]
    inside = [f"layers.{layer}.{name}" for name in found]
    return tuple(inside + ([f"mtp.{root}0.{name}" for root in ("layers.", "") for name in found] if weight.part == "mtp" else []))


def _spelled(name: str) -> tuple[str, ...]:
    return (name, *_SPELLINGS.get(name, ()))


# What may stand before `layers.N` of the language model; a tower's or a prediction module's path is not shortened.
_TO_LAYER = re.compile(
    r"^(?:(?:model|language_model|text_model|thinker|llm|decoder|transformer|backbone|gpt_neox)\.)*(?:layers|blocks|h)\.(?=[\d*])"
)


class Matcher:
    """A list of module names as quantisers write them: whole names, parts of names, globs, and `re:` expressions."""

    __slots__ = ("_exact", "_glob", "_parts", "_regex", "_spent_s")

    def __init__(self, patterns: Iterable[Any]) -> None:
        self._exact: set[str] = set()
        self._parts: list[str] = []
        self._regex: list[re.Pattern[str]] = []
        self._spent_s = 0.0
        globs = []
        seen = set()
        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern or len(pattern) > 500:
                raise ConfigError(
                    "bad-quantization", f"{printable(repr(pattern), 60)} in a quantiser's list is no module name", "check the list"
                )
            if pattern in seen:
                continue
            seen.add(pattern)
            if pattern.startswith("re:"):
                self._regex.append(_expression(pattern[3:]))
                continue
            name = _TO_LAYER.sub("layers.", pattern)
            if "*" in name:
                globs += [translate(name), translate(name + ".*")]
            elif name.startswith("layers."):
                self._exact.add(name)
            else:
                self._parts.append("." + name.removeprefix("model.").removeprefix("language_model.").removeprefix("transformer.") + ".")
        self._glob = re.compile("|".join(globs)) if globs else None

    def __call__(self, spellings: Iterable[str]) -> bool:
        """Whether one of the spellings of a module, or a module around it, is in the list."""
        start = process_time()
        found = any(self._one(name) for name in spellings)
        self._spent_s += process_time() - start
        if self._spent_s > MOST_MATCHING_S:
            raise ConfigError("bad-quantization", "a quantiser's list takes too long to match with the names of modules", "check the list")
        return found

    def _one(self, name: str) -> bool:
        if self._exact and any(around in self._exact for around in _around(name)):
            return True
        dotted = f".{name}."
        if any(part in dotted for part in self._parts):
            return True
        if self._glob and self._glob.match(name):
            return True
        return any(one.match(prefix + name) for one in self._regex for prefix in _PREFIXES)


def _around(name: str) -> Iterator[str]:
    """The name and every module that holds it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


_ONE_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEATED = re.compile(r"[*+]|\{\d*,\d*\}")
MOST_REPEATS = 4
MOST_MATCHING_S = 2.0
"""Of processor time for one list. The slowest of the bundled checkpoints takes 0.1 s."""


def _expression(text: str) -> re.Pattern[str]:
    """Compiled. Refused are repeated groups and many repeats, whose time grows beyond bounds with the length of a name."""
    plain = _ONE_SIGN.sub("x", text)
    if re.search(r"\)[*+{]", plain) or len(_REPEATED.findall(plain)) > MOST_REPEATS:
        raise ConfigError(
            "bad-quantization",
            f"{printable(text, 60)!r} in a quantiser's list repeats groups, or over {MOST_REPEATS} parts, and could match without end",
            "check the list",
        )
    try:
        return re.compile(text)
    except re.error:
        raise ConfigError(
            "bad-quantization", f"{printable(text, 60)!r} in a quantiser's list is no regular expression", "check the list"
        ) from None


# ---- schemes ------------------------------------------------------------------------------------------------------

FLOAT8 = Scheme("fp8", 8, (128, 128), 4, compute="fp8")
NVFP4 = Scheme("nvfp4", 4, (1, 16), 1, matrix_bytes=8, compute="fp4")
MXFP4 = Scheme("mxfp4", 4, (1, 32), 1, compute="fp4")
MXFP8 = Scheme("mxfp8", 8, (1, 32), 1, compute="fp8")
Rule = Callable[[Weight, "tuple[str, ...]"], "Scheme | None"]

# What a quantiser replaces unless its lists say otherwise: the matrices that every token multiplies with in a layer.
_LINEAR = frozenset({"attention", "mlp", "experts", "shared experts", "encoder", "mtp"})
# A prediction module's copies of embedding and head, and what it has beside a layer.
_TABLES = frozenset({"embed_tokens", "shared_head.head"})
_AHEAD = frozenset({"eh_proj", "e_proj", "h_proj", "fc", "enorm", "hnorm", "shared_head.norm", *_TABLES})
# In every checkpoint whose code is known: projections that its quantiser does not see, or that are no linear layers.
_NEVER = re.compile(
    r"(^|\.)(compressor|conv1d|indexer\.(kv_proj|gate_proj|weights_proj)|\w*res_proj|position_bias|gate|\w+_hc\.\w+|hc_head\.\w+)$|compressor\."
)


def _linear(weight: Weight) -> bool:
    """Whether it is a matrix inside of a layer that quantisers replace."""
    inside = weight.part in _LINEAR or weight.name == "indexer.q_b_proj"
    return inside and weight.columns > 1 and weight.name not in (*_TABLES, "eh_proj") and not _NEVER.search(weight.name)


def _number(q: Mapping[str, Any], key: str, default: int | None = None, least: int = 1, most: int = 65_536) -> int:
    value = q.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(
            "bad-quantization",
            f"quantization_config.{key} is {printable(repr(value), 40)}; it must be a whole number from {least} to {most:,}",
            "name a format with `weights`, such as `weights=int4`",
        )
    return value


def _list(q: Mapping[str, Any], *keys: str) -> list[Any]:
    for key in keys:
        value = q.get(key)
        if isinstance(value, list):
            return value
    return []


def _except(scheme: Scheme, skip: Iterable[Any], also: Callable[[Weight], bool] = _linear) -> Rule:
    """One scheme for every matrix that is not in the list."""
    listed = Matcher(skip)
    return lambda weight, spellings: scheme if also(weight) and not listed(spellings) else None


def _fp8(q: Mapping[str, Any], model: Model) -> Rule:
    """Scales per block: fp32, but bf16 in Qwen's files and one byte in DeepSeek-V4's; `scale_fmt` says nothing about that."""
    blocks = q.get("weight_block_size")
    if blocks is None:
        base = Scheme("fp8", 8, matrix_bytes=4, compute="fp8")  # a weight and an activation scale in bf16
    else:
        high, wide = (_number({"weight_block_size": side}, "weight_block_size") for side in _pair(blocks))
        v4 = model.model_type in ("deepseek_v4", "deepseek_ref")
        base = FLOAT8._replace(block=(high, wide), block_bytes=1 if v4 else 2 if model.model_type.startswith("qwen") else 4)
    plain = _except(base, _list(q, "modules_to_not_convert", "ignored_layers"))
    layers = _listed_layers(q)
    experts = MXFP4 if q.get("expert_dtype") == "fp4" else None

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if layers and (named := layers(weight, spellings)):
            return named
        if experts and weight.part in ("experts", "mtp") and weight.copies > 1 and weight.columns > 1:
            return experts
        return plain(weight, spellings)

    return rule


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError(
            "bad-quantization", f"weight_block_size is {printable(repr(value), 40)}; it must be two numbers", "check the config.json"
        )
    return value[0], value[1]


def _awq(q: Mapping[str, Any], model: Model) -> Rule:
    bits, group = _number(q, "bits", _number(q, "w_bit", 4, most=16), most=16), _number(q, "group_size", 128, least=-1)
    zero = bits / 8 if q.get("zero_point", True) else 0
    scheme = Scheme("awq" if bits == 4 else f"int{bits}", bits, (1, max(group, 0)), 2 + zero)
    return _except(scheme, _list(q, "modules_to_not_convert"))


def _gptq(q: Mapping[str, Any], model: Model) -> Rule:
    """Scales, packed zeros and one index per input, also where the order is the natural one."""

    def made(over: Mapping[str, Any]) -> Scheme:
        bits, group = _number(over, "bits", most=16), _number(over, "group_size", 128, least=-1)
        return Scheme("gptq" if bits == 4 else f"int{bits}", bits, (1, max(group, 0)), 2 + bits / 8, column_bytes=4)

    whole_model = made(q)
    dynamic = q.get("dynamic")
    rules = [
        (
            _expression(str(text)[2:] if str(text)[:2] in ("-:", "+:") else str(text)),
            None if str(text).startswith("-:") else made({**q, **(value or {})}),
        )
        for text, value in (dynamic.items() if isinstance(dynamic, Mapping) else ())
    ]
    skip = Matcher(_list(q, "modules_to_not_convert"))
    extra = q.get("extra_config")  # AutoRound: {module: {bits: 16}}
    kept = Matcher(
        name
        for name, over in (extra.items() if isinstance(extra, Mapping) else ())
        if isinstance(over, Mapping) and over.get("bits", 0) >= 16
    )
    head = bool(q.get("lm_head"))

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if not (_linear(weight) or (head and weight.part == "head")) or skip(spellings) or kept(spellings):
            return None
        for pattern, scheme in rules:
            if any(pattern.match(prefix + name) for name in spellings for prefix in _PREFIXES):
                return scheme
        return whole_model

    return rule


def _autoround(q: Mapping[str, Any], model: Model) -> Rule:
    packing = str(q.get("packing_format", q.get("backend", "")))
    return _awq(q, model) if "awq" in packing else _gptq(q, model)


def _bitsandbytes(q: Mapping[str, Any], model: Model) -> Rule:
    """nf4 and fp4: one absmax per 64 elements, with double quantisation itself in 8 bits; int8: one fp32 per row.

    Every linear layer of the file, towers included, but not the head.
    """
    if q.get("load_in_8bit") or q.get("_load_in_8bit"):
        scheme = Scheme("int8", 8, (1, 0), 4, matrix_bytes=1, compute="int8")
    else:
        double = bool(q.get("bnb_4bit_use_double_quant"))
        # Per block a byte and 1/256 of an fp32, or an fp32; per matrix the code books (16 and 256 fp32) and about 100 B of state.
        scheme = Scheme("nf4", 4, (1, 64), 1 + 4 / 256, matrix_bytes=1188) if double else Scheme("nf4", 4, (1, 64), 4, matrix_bytes=164)
    return _except(
        scheme, _list(q, "llm_int8_skip_modules"), lambda weight: _linear(weight) or (weight.part in _TOWERS and weight.columns > 1)
    )


def _compressed_tensors(q: Mapping[str, Any], model: Model) -> Rule:
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
        targets = [text for text in _list(group, "targets") or ["Linear"] if isinstance(text, str)]
        if any(text in ("Linear", "LinearBase", "FusedMoE", "Embedding") for text in targets):
            everywhere.append(scheme)
        rest = [text for text in targets if "." in text or text.startswith("re:")]
        if rest:
            named.append((Matcher(rest), scheme))
    skip = Matcher(_list(q, "ignore"))

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        matrix = weight.columns > 1 and weight.part not in ("norms", "state", "positions", "embedding")
        if not matrix or skip(spellings):
            return None
        for matcher, scheme in named:
            if matcher(spellings):
                return scheme
        return everywhere[0] if everywhere and _linear(weight) else None

    return rule


def _tensor_scheme(w: Mapping[str, Any], activations: Any, packing: str, shape_bytes: int) -> Scheme:
    """The scheme of one `weights` block of compressed-tensors, or of ModelOpt's copy of it."""
    bits, kind = _number(w, "num_bits", most=16), str(w.get("type", "int"))
    strategy = str(w.get("strategy") or ("group" if w.get("group_size") else "tensor"))
    static = 2 if isinstance(activations, Mapping) and not activations.get("dynamic") else 0
    math = isinstance(activations, Mapping)  # without quantised activations the weights are expanded first
    if kind == "float" and bits == 4:
        if _number(w, "group_size", 16) == 32 or packing.startswith("mxfp4"):
            return MXFP4 if math else MXFP4._replace(compute="bf16")
        return NVFP4 if math else NVFP4._replace(compute="bf16")
    if strategy == "block":
        high, wide = (_number({"block_structure": side}, "block_structure") for side in _pair(w.get("block_structure")))
        block, each = (high, wide), 2.0
    elif strategy in ("group", "tensor_group"):
        block, each = (1, _number(w, "group_size", 128)), 2 + (0 if w.get("symmetric", True) else bits / 8)
    else:
        block, each = ((1, 0) if strategy == "channel" else (0, 0)), 2.0
    packed = shape_bytes if packing == "pack-quantized" or (kind == "int" and not math) else 0  # weight_shape
    compute = ("fp8" if kind == "float" else "int8" if bits == 8 else "bf16") if math else "bf16"
    name = "fp8" if kind == "float" else ("w8a8" if bits == 8 else f"w{bits}a8") if math else f"w{bits}a16"
    ordered = 4 if w.get("actorder") in ("group", "dynamic", True) else 0
    return Scheme(name, bits, block, each, matrix_bytes=packed + static, column_bytes=ordered, compute=compute)


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
        raise _unknown(f"quant_algo {printable(name, 40)}")
    return known[algo]


def _listed_layers(q: Mapping[str, Any]) -> Rule | None:
    """ModelOpt's MIXED_PRECISION: a scheme for each module by name."""
    layers = q.get("quantized_layers")
    if not isinstance(layers, Mapping):
        return None
    by_scheme: dict[Scheme, list[str]] = {}
    for name, value in layers.items():
        if isinstance(value, Mapping) and value.get("quant_algo"):
            group = _number(value, "group_size", 128)
            by_scheme.setdefault(_algorithm(str(value["quant_algo"]), group), []).append(name)
    rules = [(scheme, Matcher(listed)) for scheme, listed in by_scheme.items()]

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if weight.columns == 1:
            return None
        return next((scheme for scheme, listed in rules if listed(spellings)), None)

    return rule


def _modelopt(q: Mapping[str, Any], model: Model) -> Rule:
    inner = q.get("quantization")
    block = {**inner, **{key: value for key, value in q.items() if value is not None}} if isinstance(inner, Mapping) else q
    algo = block.get("quant_algo")
    layers = _listed_layers(block)
    if layers:
        return layers
    if algo is None and isinstance(block.get("config_groups"), Mapping):
        return _compressed_tensors(block, model)
    if not isinstance(algo, str):
        raise _unknown("ModelOpt without quant_algo")
    group = block.get("group_size")
    return _except(_algorithm(algo, group if isinstance(group, int) else None), _list(block, "exclude_modules", "ignore"))


def _torchao(q: Mapping[str, Any], model: Model) -> Rule:
    kind: Any = q.get("quant_type")
    options: Any = q.get("quant_type_kwargs") or {}
    if isinstance(kind, Mapping):
        kind = kind.get("default", kind)
        options = kind.get("_data", {}) if isinstance(kind, Mapping) else {}
        kind = kind.get("_type", "") if isinstance(kind, Mapping) else ""
    word = str(kind).lower().replace("_", "")
    act = "dynamicactivation" in word and "weightonly" not in word
    if "float8" in word or "fp8" in word:
        scheme = Scheme("fp8", 8, (1, 0), 4, compute="fp8" if act else "bf16")
    elif "int8dynamicactivationint4" in word:
        scheme = Scheme("int4", 4, (1, _number(options, "group_size", 32)), 4)
    elif "int4" in word:
        scheme = Scheme("int4", 4, (1, _number(options, "group_size", 128)), 4)  # a scale and a zero in bf16
    elif "int8" in word:
        scheme = Scheme("int8", 8, (1, 0), 2, compute="int8" if act else "bf16")
    else:
        raise _unknown(f"torchao's {printable(str(kind), 60)}")
    return _except(scheme, _list(q, "modules_to_not_convert"))


def _mlx(q: Mapping[str, Any], model: Model) -> Rule:
    """Every matrix of the language model, tables too, but no router; a module's own entry says otherwise."""

    def made(over: Mapping[str, Any]) -> Scheme:
        mode, bits, group = str(over.get("mode", "affine")), _number(over, "bits", 4, most=16), _number(over, "group_size", 64)
        ready = {"mxfp4": MXFP4, "nvfp4": NVFP4._replace(matrix_bytes=0), "mxfp8": MXFP8}
        if mode in ready:
            return ready[mode]._replace(compute="bf16")
        return Scheme(f"int{bits}", bits, (1, group), 4)  # a scale and a bias in 16 bits

    whole_model = made(q)
    modules = {name: value for name, value in q.items() if isinstance(value, Mapping) or value is False}
    own = [(Matcher([name]), None if value is False else made({**q, **value})) for name, value in modules.items()]

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if weight.columns == 1 or weight.part in ("norms", "state", "positions") or weight.part in _TOWERS:
            return None
        for matcher, scheme in own:
            if matcher(spellings):
                return scheme
        return None if weight.part == "router" or _NEVER.search(weight.name) else whole_model

    return rule


def _mxfp4(q: Mapping[str, Any], model: Model) -> Rule:
    return _except(MXFP4, _list(q, "modules_to_not_convert"), lambda weight: weight.part == "experts" and weight.columns > 1)


def _fbgemm(q: Mapping[str, Any], model: Model) -> Rule:
    return _except(Scheme("fp8", 8, (1, 0), 4, compute="fp8"), _list(q, "modules_to_not_convert"))


def _quark(q: Mapping[str, Any], model: Model) -> Rule:
    block = q.get("global_quant_config")
    weight = block.get("weight") if isinstance(block, Mapping) else None
    dtype = str(weight.get("dtype", "")) if isinstance(weight, Mapping) else ""
    per_row = isinstance(weight, Mapping) and weight.get("qscheme") == "per_channel"
    known = {
        "fp4": MXFP4,
        "fp8_e4m3": Scheme("fp8", 8, (1, 0) if per_row else (0, 0), 4, compute="fp8"),
        "int8": Scheme("w8a8", 8, (1, 0), 4, compute="int8"),
    }
    if dtype not in known:
        raise _unknown(f"Quark's weight dtype {printable(dtype, 40)!r}")
    return _except(known[dtype], _list(q, "exclude"))


def _unknown(what: str) -> ConfigError:
    return ConfigError(
        "unknown-quantization", f"{what} is no scheme that llmcalc reads", "name a format with `weights`, such as `weights=int4`"
    )


def _gguf(q: Mapping[str, Any], model: Model) -> Rule:
    """A GGUF file's own tensors, counted from its header: the average of each part. K-quants are dequantised to 16 bits."""
    held: Any = q.get("parts") or {}
    schemes = {part: Scheme(str(q.get("format")), 8 * size / elements) for part, (size, elements) in held.items() if elements}
    return lambda weight, spellings: schemes.get(weight.part)


METHODS: dict[str, Callable[[Mapping[str, Any], Model], Rule]] = {
    "fp8": _fp8,
    "awq": _awq,
    "gptq": _gptq,
    "auto-round": _autoround,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mixed": _modelopt,
    "mxfp4": _mxfp4,
    "gguf": _gguf,
    "torchao": _torchao,
    "mlx": _mlx,
    "fbgemm_fp8": _fbgemm,
    "quark": _quark,
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
    name = str(stated).lower().replace("_", "-") if str(stated).lower() not in METHODS else str(stated).lower()
    if name not in METHODS:
        raise _unknown(f"quant_method {printable(str(stated), 40)}")
    return name


# ---- a whole checkpoint -------------------------------------------------------------------------------------------

# Model types whose router keeps one fp32 balancing bias per expert that is in the file and is no parameter.
BALANCED = frozenset(
    """bailing_hybrid deepseek_v3 deepseek_v32 exaone_moe glm4_moe glm4_moe_lite glm4v_moe glm_moe_dsa hy_v3 kimi_k2 kimi_k25
    kimi_linear minimax_m2 minimax_m3 minimax_m3_vl nemotron_h solar_open""".split()
)
# Types of the years before half precision: a config without a dtype stands beside an fp32 file.
FP32_TYPES = frozenset("gpt2 gpt_neo opt bart t5 mt5 whisper xglm biogpt codegen mamba".split())


def read(model: Model, plain: Format) -> Checkpoint | None:
    """The checkpoint's own storage, or None where every weight has the dtype `plain` and nothing is stored beside them.

    Errors (ConfigError): unknown-quantization, bad-quantization.
    """
    q = model.quantization
    if model.dtype is None and model.model_type in FP32_TYPES:
        plain = formats.FORMATS["fp32"]
    rule: Rule = METHODS[method(q)](q, model) if q else lambda weight, spellings: None
    base = Scheme(plain.name, plain.bits, compute=plain.compute)
    single = q is not None and _names_single_experts(q, model)

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
        layers = [index for index, layer in enumerate(stack.layers) if layer == group.layer] if q else [group.first]
        parts = {weight.part for weight in group.layer.all_weights}
        beside = {"mlp", "experts"} <= parts
        for weight in group.layer.all_weights:
            found: dict[Scheme, int] = {}
            for layer in layers:
                for part in kept(weight, layer, beside):
                    found[part.scheme] = found.get(part.scheme, 0) + part.matrices
            times = 1 if q else group.count
            language.append(tuple(Kept(scheme, number * times) for scheme, number in found.items()))
    language += [tuple(kept(weight, None, False)) for weight in (*stack.shared, *stack.outside, *stack.head)]
    towers = [_tower(weight, rule, base) for weight in model.towers or ()]
    # A multi-token-prediction module is one more layer in the file, behind the last.
    ahead = [tuple(kept(weight._replace(name=_MTP.sub("", weight.name)), len(stack.layers), False)) for weight in stack.mtp]
    buffers = _buffers(model)
    if not q and not buffers and plain.name != "fp32":
        return None
    return _made(model, plain, language, towers, ahead, buffers)


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
        listed = [(name, "") for key in ("ignore", "exclude_modules", "modules_to_not_convert") for name in _list(block, key)]
        listed += [(name, str(value)) for name, value in layers.items()] if isinstance(layers, Mapping) else []
        seen = Counter((_EXPERT.sub("experts.#", name), value) for name, value in listed if isinstance(name, str) and _EXPERT.search(name))
        if not set(seen.values()) <= counts:
            return True
    return False


def _tower(weight: Weight, rule: Rule, base: Scheme) -> tuple[Kept, ...]:
    """Towers stay as they are, but for a quantiser that asks for them by part."""
    scheme = rule(weight, _TOWERS[weight.part]) if weight.part in _TOWERS and not _linear(weight) else None
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
    if high and wide:
        return f"{scheme.name} with a scale per {wide}" if high == 1 else f"{scheme.name} with a scale per {high}×{wide}"
    return f"{scheme.name} with a scale per {'row' if high else 'matrix'}"
