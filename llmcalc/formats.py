"""The table of number formats: bits per element with their scales, and the compute rate they use.

One row per format. `bits` counts group scales and zero points; `compute` is the rate of a device that multiplies in this
format (weight-only formats are dequantised, so theirs is bf16). mxfp4 and nvfp4 mean 4-bit activations too where a device has
them. A GGUF name is the type of a file: most such files mix tensor types (embedding and head stay wider), and their bits are the
documented average over Llama-3.1-8B, below which larger models sit a little. q3_k, q4_k and q5_k name no file type of their own
and are the bare blocks; the blocks of every tensor type stand in `gguf.TYPES`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmcalc.errors import UsageError, close_matches, printable

_GGUF = "llama.cpp tools/quantize README, Llama-3.1-8B"


@dataclass(frozen=True, slots=True)
class Format:
    """A number format. bits: per element, scales included."""

    name: str
    bits: float
    compute: str = "bf16"
    kv: bool = False
    weights: bool = True
    note: str = ""
    head_bytes: float = 0
    """Of a cache: a scale and zero that every head of a token has beside its elements. `bits` is then that of heads of 128."""
    values: Format | None = None
    """Of a cache: the values' format where it is another than the keys', and `keys` theirs."""
    keys: Format | None = None
    whole_file: bool = False
    """Whether the bits are those of a file's average weight, its embedding and head among them, as a GGUF type's are."""
    table_bits: tuple[float, float] = (0, 0)
    """Of the embedding and the head, where a file of that name has others than the layers; 0: as the layers."""
    layer_bits: float = 0
    """Of the layers alone, where `bits` are of a whole file; 0: the same."""

    @property
    def bytes(self) -> float:
        """Bytes per element; a whole number stays one."""
        size = self.bits / 8
        return int(size) if size == int(size) else size


def _rows() -> list[Format]:
    plain = [
        Format("fp32", 32, "fp32", kv=True),
        Format("bf16", 16, "bf16", kv=True),
        Format("fp16", 16, "fp16", kv=True),
        Format("fp8", 8, "fp8", kv=True, note="scales per tensor, channel or 128×128 block: under 0.01 bit"),
        Format("int8", 8, "int8", kv=True, note="scales per channel: under 0.01 bit"),
        Format("w8a8", 8, "int8", note="int8 weights and activations, scales per channel; for 8-bit floats say fp8"),
        Format("mxfp8", 8.25, "fp8", note="blocks of 32 with an 8-bit scale"),
        Format("w8a16", 8, note="8-bit weights, 16-bit arithmetic; scales per channel"),
        Format("int4", 4.125, note="groups of 128 with a 16-bit scale"),
        Format("w4a16", 4.125, note="groups of 128 with a 16-bit scale"),
        Format("awq", 4.15625, note="groups of 128 with a 16-bit scale and a 4-bit zero"),
        Format("gptq", 4.15625, note="groups of 128 with a 16-bit scale and a 4-bit zero"),
        Format("nf4", 4.5, note="blocks of 64 with a 32-bit scale; 4.127 with double quantisation"),
        Format("mxfp4", 4.25, "fp4", note="blocks of 32 with an 8-bit scale"),
        Format("nvfp4", 4.5, "fp4", kv=True, note="blocks of 16 with an 8-bit scale"),
    ]
    blocks = {
        "q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0, "q8_0": 8.5, "q2_k": 3.1593, "q3_k": 3.4375, "q4_k": 4.5,
        "q5_k": 5.5, "q6_k": 6.5633, "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "iq2_xs": 2.5882, "iq2_s": 2.7403,
        "iq2_m": 2.9294, "iq3_xxs": 3.2548, "iq3_xs": 3.4977, "iq3_s": 3.6606, "iq3_m": 3.7628, "iq4_xs": 4.4597, "iq4_nl": 4.6818,
        "q2_k_s": 2.9697, "q3_k_s": 3.6429, "q3_k_m": 4.0, "q3_k_l": 4.2979, "q4_k_s": 4.6672, "q4_k_m": 4.8944, "q5_k_s": 5.5704,
        "q5_k_m": 5.7036, "tq1_0": 1.6875, "tq2_0": 2.0625,
    }  # fmt: skip
    pure = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q3_k", "q4_k", "q5_k", "tq1_0", "tq2_0"}
    origin = {"q3_k_m": "GGUF mix: 3.74 GiB of Llama-3-8B (llama.cpp tools/quantize/quantize.cpp); the README has no such row"}
    caches = {"q8_0", "q5_1", "q5_0", "q4_1", "q4_0"}
    gguf = [
        Format(
            name, bits, kv=name in caches, whole_file=True, table_bits=_tables(name), layer_bits=_of_layers(name, bits, name in pure),
            note="GGUF block" if name in pure else origin.get(name, f"GGUF mix, average bits ({_GGUF})"),
        )
        for name, bits in blocks.items()
    ]  # fmt: skip
    return plain + gguf + _recipes()


_LOW = frozenset({"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs"})
_BLOCKS = {
    "q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0, "q2_k": 2.625, "q3_k": 3.4375, "q4_k": 4.5, "q5_k": 5.5, "q6_k": 6.5625,
    "iq3_xs": 3.4375, "iq3_s": 3.4375, "iq3_m": 3.4375, "iq4_xs": 4.25, "iq4_nl": 4.5,
}  # fmt: skip
"""Bits of the type that a file's name gives to its tensors, by the beginning of the name."""


def _tables(name: str) -> tuple[float, float]:
    """Bits of a GGUF file's embedding and head; 0 where they are as the layers. [ggml-org/llama.cpp src/llama-quant.cpp]"""
    if name in _LOW:
        return 2.625, 5.5
    if name in ("iq2_s", "iq2_m", "iq3_xxs"):
        return 3.4375, 5.5
    own = next((bits for kind, bits in _BLOCKS.items() if name == kind or name.startswith(f"{kind}_")), 0)
    return (own, 6.5625) if own and name not in ("q3_k", "q4_k", "q5_k") else (0, 0)


def _of_layers(name: str, bits: float, pure: bool) -> float:
    """Bits of the layers of such a file: those of Llama-3.1-8B, whose average the name stands for, without its two tables."""
    params, table, norms, own = 8_030_261_248, 525_336_576, 266_240, sum(_tables(name))
    return 0 if not own else bits if pure else (bits * params - own * table - 16 * norms) / (params - 2 * table - norms)


def _recipes() -> list[Format]:
    """Files that are named for a recipe: Unsloth's dynamic GGUF types, by the published files of one model, and ik_llama.cpp's blocks."""
    dynamic = {
        "iq2_xxs": 8.57, "iq2_m": 10.2, "iq3_xxs": 11.5, "q2_k_xl": 11.2, "q3_k_xl": 14.4, "q4_k_xl": 17.6, "q5_k_xl": 20.2,
        "q6_k_xl": 25.7, "q8_k_xl": 35.5,
    }  # fmt: skip
    params = 26.896e9  # of Qwen3.5-27B, whose files these are [GB]
    source = "average of the published Qwen3.5-27B file (lmstudio-ai/lmstudio-bug-tracker#1594, 2026-03); other models differ by 10%"
    blocks = {"iq2_k": 2.375, "iq2_ks": 2.1875, "iq3_k": 3.4375, "iq4_ks": 4.25, "iq4_k": 4.5, "iq5_k": 5.5, "iq6_k": 6.625}
    return [
        *(Format(f"ud_{name}", round(size * 8e9 / params, 2), whole_file=True, note=source) for name, size in dynamic.items()),
        *(Format(name, bits, whole_file=True, note="ik_llama.cpp block") for name, bits in blocks.items()),
    ]


FORMATS: dict[str, Format] = {row.name: row for row in _rows()}
# A cache is not a mix, and its groups are heads: other bits than the weights of the same name.
_CACHES = {
    "int4": Format("int4", 4.25, kv=True, head_bytes=4, note="a 16-bit scale and zero per head"),
    "int8": Format("int8", 8, "int8", kv=True, head_bytes=4, note="a 16-bit scale and zero per head, which the textbook leaves out"),
    "iq4_nl": Format("iq4_nl", 4.5, kv=True, note="GGUF block"),
}
_DTYPES = {"float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float8_e4m3fn": "fp8"}
_OTHER_NAMES = _DTYPES | {
    "f32": "fp32", "f16": "fp16", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_dynamic": "fp8", "bnb_4bit": "nf4", "autoround": "int4",
    "w4a16_awq": "awq", "bnb_8bit": "int8", "fp4": "nvfp4", "hqq": "hqq_4bit", "4bit": "mlx_4bit", "8bit": "mlx_8bit",
}  # fmt: skip
_SIZED = (
    # (what people write, the kind, bits of an element, a group's own bits, its size where none is said, words)
    (re.compile(r"mlx_([2-8])_?bit(?:_(?:g|gs|group)?(\d+))?"), "mlx", 32, 64, "groups with a 16-bit scale and bias, MLX"),
    (re.compile(r"hqq_([2-8])_?bit(?:_(?:g|gs|group)?(\d+))?"), "hqq", 32, 64, "groups with a 16-bit scale and zero, HQQ"),
    (re.compile(r"autoround_([2-8])_?bit(?:_(?:g|gs|group)?(\d+))?"), "autoround", 16, 128, "groups with a 16-bit scale, AutoRound"),
)
_BPW = re.compile(r"(?:exl([23])_)?(\d(?:\.\d+)?)_?bpw(?:_(?:h|hb)(\d))?")


def _sized(plain: str) -> Format | None:
    """A format whose name holds its numbers: `mlx_4bit`, `mlx_6bit_g32`, `exl3_4.0bpw`, `hqq_4bit_g64`."""
    for pattern, kind, own, usual, note in _SIZED:
        if found := pattern.fullmatch(plain):
            group = int(found[2] or usual)
            if group in (16, 32, 64, 128, 256):
                name = f"{kind}_{found[1]}bit" + (f"_g{group}" if group != usual else "")
                return Format(name, int(found[1]) + own / group, whole_file=True, note=f"groups of {group}: {note}")
    if (found := _BPW.fullmatch(plain)) and 1 <= float(found[2]) <= 8:
        head = int(found[3] or 6)
        note = f"ExLlama: average bits of the layers; the head has {head}, the embedding 16"
        return Format(plain, float(found[2]), whole_file=True, note=note, table_bits=(16, head))
    return None


def find(name: str, *, kv: bool = False) -> Format:
    """The format of that name, any case, `-` and `_` alike; `kv` for a cache. Errors: unknown-format, not-a-kv-format."""
    plain = name.strip().lower().replace("-", "_")
    plain = _OTHER_NAMES.get(plain, plain)
    if kv and plain.count("/") == 1:
        keys, values = (find(part, kv=True) for part in plain.split("/"))
        if keys == values:
            return keys
        return Format(f"{keys.name}/{values.name}", (keys.bits + values.bits) / 2, kv=True, keys=keys, values=values, note="keys / values")
    if kv and plain in _CACHES:
        return _CACHES[plain]
    row = FORMATS.get(plain) or FORMATS.get(f"ud_{plain}") or FORMATS.get(plain.removesuffix("_r4")) or _sized(plain)
    if row is None:
        known = kv_names() if kv else list(FORMATS)
        near = close_matches(plain, known)
        raise UsageError(
            "unknown-format",
            f"{printable(name, 40)!r} is not a number format that llmcalc knows",
            f"close: {', '.join(near)}" if near else f"known: {', '.join(known)}",
        )
    if kv and not row.kv:
        raise UsageError("not-a-kv-format", f"no engine keeps a KV cache in {row.name}", f"KV formats: {', '.join(kv_names())}")
    return row


def kv_names() -> list[str]:
    """Formats that a cache can have."""
    return [row.name for row in FORMATS.values() if row.kv] + [name for name in _CACHES if name not in FORMATS or not FORMATS[name].kv]


def of_dtype(dtype: str) -> Format | None:
    """The format of a config's torch dtype, or None where it is none of the usual ones."""
    name = _DTYPES.get(dtype)
    return FORMATS[name] if name else None
