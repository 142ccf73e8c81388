"""safetensors headers: which tensors a checkpoint's files hold, without reading a weight.

A file starts with the header's length (8 bytes, little-endian) and the header, a JSON object. Of a sharded checkpoint the
index says which files count: whatever else lies in the folder is not the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from llmcalc import data
from llmcalc.errors import SourceError, printable
from llmcalc.files import Blob, Files, Tensor

MAX_HEADER = 16 * 2**20  # a shard of the largest models has some 3 MB
MAX_TENSORS = 2**20
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

# Bits of an element. A dtype that is not here is taken at the size that its offsets give.
BITS: dict[str, int] = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
    "U64": 64,
}  # fmt: skip


def _fail(name: str, what: str) -> SourceError:
    return SourceError("bad-safetensors", f"{printable(name)} is not a safetensors file that can be read: {what}", "download it again")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it holds a name twice")
    return found


def header(blob: Blob) -> tuple[tuple[Tensor, ...], int]:
    """The tensors of one file, and the size that the header asks for. Errors: bad-safetensors."""
    if blob.size < 8:
        raise _fail(blob.name, f"it has {blob.size} bytes")
    start = blob.read(0, min(blob.size, max(8, blob.step)))
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER:
        raise _fail(blob.name, f"its header would have {length:,} bytes; at most {MAX_HEADER:,} are read")
    if length > blob.size - 8:
        raise _fail(blob.name, f"its header of {length:,} bytes reaches beyond the end of the file")
    text = start[8 : 8 + length]
    if len(text) < length:
        text += blob.read(8 + len(text), length - len(text))
    try:
        decoded = text.decode("utf-8")
        if data.overfull(decoded):
            raise _fail(blob.name, f"its header holds over {data.MAX_VALUES:,} values")
        parsed = json.loads(decoded, object_pairs_hook=_once)
    except RecursionError:
        raise _fail(blob.name, "its header is nested too deeply") from None
    except ValueError as problem:
        said = "its header is not UTF-8" if isinstance(problem, UnicodeDecodeError) else f"its header is not JSON ({str(problem)[:60]})"
        raise _fail(blob.name, said) from None
    if not isinstance(parsed, dict):
        raise _fail(blob.name, "its header is no JSON object")
    parsed.pop("__metadata__", None)
    found = tuple(_tensor(blob.name, name, value) for name, value in parsed.items())
    end = max((value["data_offsets"][1] for value in parsed.values()), default=0)
    return found, 8 + length + end


def _tensor(file: str, name: str, value: Any) -> Tensor:
    shown = printable(name)
    if not isinstance(value, dict):
        raise _fail(file, f"tensor {shown} has no description")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or not dtype or len(dtype) > 20:
        raise _fail(file, f"tensor {shown} has no dtype")
    if not isinstance(shape, list) or len(shape) > 8 or not all(_whole(size) for size in shape):
        raise _fail(file, f"tensor {shown} has no shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_whole(at) for at in offsets) or offsets[0] > offsets[1]:
        raise _fail(file, f"tensor {shown} has no data_offsets")
    size = offsets[1] - offsets[0]
    bits = BITS.get(dtype)
    if bits is not None and prod(shape) * bits != size * 8:
        raise _fail(file, f"tensor {shown} of {dtype} and shape {shape} takes {size:,} bytes")
    return Tensor(name, dtype, tuple(shape), size)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def indexed(text: str, name: str) -> list[str]:
    """The files that an index names. Errors: bad-safetensors."""
    if data.overfull(text):
        raise _fail(name, f"it holds over {data.MAX_VALUES:,} values")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise _fail(name, "it is not JSON") from None
    weights = parsed.get("weight_map") if isinstance(parsed, dict) else None
    if not isinstance(weights, dict) or not weights or not all(isinstance(file, str) for file in weights.values()):
        raise _fail(name, "it has no weight_map")
    files = sorted(set(weights.values()))
    for file in files:
        if not re.fullmatch(r"(?!.*\.\.)[\w.\-/+ ]{1,200}", file) or file.startswith("/"):
            raise _fail(name, f"it names the file {printable(file, 60)}")
    if len(files) > 4096:
        raise _fail(name, f"it names {len(files):,} files")
    return files


def choose(names: Iterable[str], index: Callable[[], str | None]) -> tuple[list[str], str]:
    """The files at the top of a folder that are the model, and why the others are not.

    `index` gives the text of the index, or None where there is none. Errors: no-weights, several-models, bad-safetensors.
    """
    here = sorted(name for name in names if name.endswith(".safetensors") and "/" not in name)
    text = index()
    if text is not None:
        return indexed(text, INDEX), f"not named by {INDEX}"
    if SINGLE in here:
        return [SINGLE], f"beside {SINGLE}"
    models = [name for name in here if not name.startswith(("adapter", "consolidated"))]
    sets: dict[str, list[str]] = {}
    for name in models:
        found = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.safetensors", name)
        sets.setdefault(f"{found[1]} of {found[3]}" if found else name, []).append(name)
    if not sets:
        models = [name for name in here if name.startswith("consolidated")]
        if not models:
            raise SourceError("no-weights", "there are no safetensors files", "give a folder or repository that holds the weights")
        return models, "not the consolidated files"
    if len(sets) > 1:
        shown = ", ".join(printable(name, 40) for name in list(sets)[:4])
        raise SourceError(
            "several-models", f"there are {len(sets)} sets of safetensors files and no {INDEX}: {shown}", "give one of the files"
        )
    return next(iter(sets.values())), "not a shard of the model"


def model_files(names: Sequence[str], open_: Callable[[str], Blob], extras: Sequence[tuple[str, int, str]] = ()) -> Files:
    """The tensors of all these files. Errors: bad-safetensors, and of open_."""
    tensors: list[Tensor] = []
    files: list[tuple[str, int]] = []
    notes: list[str] = []
    seen: set[str] = set()
    for name in names:
        blob = open_(name)
        found, asked = header(blob)
        for tensor in found:
            if tensor.name in seen:
                raise _fail(name, f"another file of the model holds {printable(tensor.name)} too")
            seen.add(tensor.name)
        tensors += found
        if len(tensors) > MAX_TENSORS:
            raise _fail(name, f"the model has over {MAX_TENSORS:,} tensors")
        files.append((name, blob.size))
        if blob.size < asked:
            notes.append(
                f"{printable(name)} has {blob.size:,} of the {asked:,} bytes that its header asks for: the download is not complete"
            )
    return Files("safetensors", tuple(files), tuple(tensors), {}, tuple(extras), tuple(notes))


# ---- which part of a model a tensor is, and how many parameters a packed one holds --------------------------------

_SCALES = re.compile(
    r"(^|[._])(qzeros|g_idx|absmax|quant_map|nested_absmax|nested_quant_map|SCB|weight_format|weight_shape|weight_zero_point)$"
    r"|(^|\.)(scales|biases)$|(^|[._])(weight_)?scale(_inv|_2|_inv_2)?$|_scales$"
    r"|(^|\.)((weight|input)_global|input|output|q|k|v)_scale$|quant_state\."
)
_BESIDE = (
    (r"(^|[._])(inv_freq|original_inv_freq|masked_bias|num_batches_tracked|position_ids|rotary_emb\.\w+)$", "buffers"),
    (r"(^|\.)(h|layers|transformer\.h)\.\d+\.(attn|attention|self_attn)\.(attention\.)?bias$", "buffers"),
    (r"(e_score_correction_bias|expert_bias|e_score_correction\.bias|moe_statics\.e_score_correction_bias)$", "balancing bias"),
    (r"(^|\.)layer_scalar$", "layer scale"),
)
_PARTS = (
    (r"(^|\.)(mtp|nextn)(\.|$)", "mtp"),
    (r"(^|\.)(visual|vision|vision_tower|vision_model|vision_encoder|vit|image_encoder|sam_model|vpm)(\.|$)", "vision"),
    (r"(^|\.)(audio|audio_tower|audio_model|audio_encoder|speech_encoder|apm)(\.|$)", "audio"),
    (r"(^|\.)(multi_modal_projector|mm_projector|projector|mlp1|resampler|embed_vision|embed_audio|merger|aligner)(\.|$)", "projector"),
    (r"(^|\.)(lm_head|embed_out)(\.|$)|^output\.weight", "head"),
    (r"(^|\.)(embed_positions|wpe|position_embeddings)(\.|$)", "positions"),
    (r"(^|\.)(embed_tokens(_per_layer)?|wte|word_embeddings|tok_embeddings|embeddings?)\.(?=weight|q|scales|biases)", "embedding"),
    (r"(norm|norm_\w+|ln_\w+|layernorm\w*|norm\d)(\.(weight|bias))?$|\.q_norm|\.k_norm|(^|\.)ln\w*\.", "norms"),
    (r"shared_expert_gate", "router"),
    (r"shared_experts?\b|shared_mlp", "shared experts"),
    (r"(^|\.)(mlp|block_sparse_moe|feed_forward|moe|mixer)\.(gate|router)(\.|$)|(^|\.)router(\.|$)", "router"),
    (r"(^|\.)experts(\.|_|$)", "experts"),
    (r"(^|\.)indexer\.(weights_proj)", "indexer"),
    (r"(A_log|dt_bias|conv1d|conv_1d|\.D$|conv\.conv|dt_proj\.bias|time_mix|time_decay|time_first)", "state"),
    (r"(attn|attention|mixer|mamba|linear_attn|temporal_block|\bconv\.(in|out)_proj)", "attention"),
)
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.")


def part(name: str, depth: int) -> str:
    """The part of the model that a tensor belongs to, by its name on the Hub; what is no parameter has words of its own."""
    kind = _first(name, _PARTS)
    if kind in ("vision", "audio", "projector"):
        return kind
    layer = _LAYER.search(name)
    if kind == "mtp" or (layer and int(layer[1]) >= depth):
        return "mtp"
    return _first(name, _BESIDE) or kind or "mlp"


def scales(name: str) -> bool:
    """Whether a tensor holds scales, zeros or the order of a quantised matrix: bytes of its part, and no parameters."""
    return bool(_SCALES.search(name))


def _first(name: str, kinds: Sequence[tuple[str, str]]) -> str | None:
    return next((kind for pattern, kind in kinds if re.search(pattern, name)), None)


def parameters(tensor: Tensor, names: frozenset[str] | set[str], bits: int | None) -> int | None:
    """Parameters in one tensor: of a packed one the values inside its words. `bits`: of a value, by the config.

    None where words are packed and nothing says how. `names` are all tensors of the model.
    """
    name = tensor.name
    if scales(name):
        return 0
    root = name.removesuffix(".weight").removesuffix(".qweight").removesuffix(".weight_packed")
    packed = name.endswith((".qweight", ".weight_packed", "_blocks", "_packed")) or (
        name.endswith(".weight")
        and bool(names & {f"{root}.weight_scale", f"{root}.scales", f"{root}.weight.absmax", f"{root}.absmax", f"{root}.scale"})
    )
    if not packed or tensor.dtype not in ("I32", "U32", "U8", "I16"):
        return tensor.elements
    wide = BITS[tensor.dtype]
    if tensor.dtype == "U8":
        return tensor.elements * 2  # two values of four bits
    return tensor.elements * wide // bits if bits else None


NO_PARAMETERS = {
    "buffers": "buffers (frequencies of the rotary embedding, masks)",
    "balancing bias": "the router's balancing bias, a buffer and no parameter",
    "layer scale": "one scale per layer, a buffer and no parameter",
}
