"""The bytes of the files beside the computed ones, and what makes the difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmcalc import checkpoint, gguf_config, safetensors
from llmcalc.answers import Answer, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import printable
from llmcalc.estimate import Answered, memory
from llmcalc.files import Files
from llmcalc.model import weights as model_weights


@dataclass(slots=True)
class Held:
    """What the files hold of one part of the model. `params` None: packed in a way that nothing explains."""

    params: int | None = 0
    bytes: int = 0
    dtypes: dict[str, int] | None = None

    def add(self, params: int | None, size: int, dtype: str) -> None:
        """One tensor."""
        self.params = None if params is None or self.params is None else self.params + params
        self.bytes += size
        self.dtypes = {**(self.dtypes or {}), dtype: (self.dtypes or {}).get(dtype, 0) + size}


@answer("weights", rows=True)
class PartInFiles(Answer):
    """One part of a model, computed and in its files."""

    part: str = field("part")
    params: int = field("computed", "params")
    active_params: int = field("active per token", "params", shown=False)
    bytes: float | None = field("bytes", "B")
    file_params: int | None = field("in the files", "params", rank=2)
    file_bytes: int = field("bytes there", "B")
    file_dtypes: str = field("stored as", rank=3)


@answer()
class Difference(Answer):
    """Why the files hold other bytes than the computed ones."""

    reason: str = field("")
    bytes: int = field("", "B")


@answer()
class Extra(Answer):
    """A file that is not counted."""

    name: str = field("")
    bytes: int = field("", "B")
    why: str = field("")


@answer("weights")
class InFiles(Answer):
    """What the files hold, and what makes the difference to the computed bytes."""

    file_bytes: int = field("weight files", "B")
    file_tensor_bytes: int = field("  tensors in them", "B")
    file_params: int | None = field("  parameters in them", "params")
    file_bits_per_weight: float | None = field("  bits per weight")
    file_count: int = field("files", shown=False)
    file_bytes_by_dtype: dict[str, int] = field("bytes by dtype", shown=False)
    file_difference_bytes: int | None = field("tensors less computed", "B")
    file_differences: tuple[Difference, ...] = field("differences", shown=False)
    extra_files: tuple[Extra, ...] = field("other files", shown=False)


def no_parameters(files: Files) -> dict[str, str]:
    """Kinds of tensors that are no parameters, in words."""
    return gguf_config.NO_PARAMETERS if files.kind == "gguf" else safetensors.NO_PARAMETERS


def by_part(files: Files, model: Model) -> dict[str, Held]:
    """The tensors by the parts that the readers use, and by kinds of what is no parameter."""
    depth = len(model.stack.layers)
    names = {tensor.name for tensor in files.tensors}
    bits = packed_bits(model.quantization)
    arch = str(files.metadata.get("general.architecture", ""))

    def kind(name: str) -> str:
        return gguf_config.part(name, depth, arch) if files.kind == "gguf" else safetensors.part(name, depth)

    counted = counts_balancing(model)
    found: dict[str, Held] = {}
    for tensor in files.tensors:
        part = kind(tensor.name)
        loose = part in no_parameters(files)
        if part == "balancing bias" and counted is not None:
            part, loose = "router", not counted
        params: int | None
        if files.kind == "gguf":
            params = 0 if gguf_config.scales(tensor.name, arch) else tensor.elements
        else:
            params = safetensors.parameters(tensor, names, bits)
        found.setdefault(part, Held()).add(0 if loose else params, tensor.bytes, tensor.dtype)
    return found


def counts_balancing(model: Model) -> bool | None:
    """Whether the router's balancing bias is a parameter to the reader of this model; None where it does not know of one."""
    if any(weight.name.endswith("e_score_correction_bias") for _, weight in model_weights(model)):
        return True
    return False if model.model_type in checkpoint.BALANCED else None


def packed_bits(quantization: Any) -> int | None:
    """Bits of a value in packed words, as the checkpoint's quantisation says; the first number found wins."""
    blocks = [quantization]
    while blocks:
        block = blocks.pop(0)
        if isinstance(block, dict):
            for key in ("bits", "num_bits", "w_bit"):
                value = block.get(key)
                if isinstance(value, int) and not isinstance(value, bool) and value in (1, 2, 3, 4, 5, 6, 8):
                    return value
            blocks += [
                value for key, value in block.items() if key in ("quantization", "config_groups", "weights") or key.startswith("group_")
            ]
    return None


def language_params(files: Files, model: Model) -> int | None:
    """Parameters of the language model in the files, prediction modules and towers apart."""
    apart = {*no_parameters(files), "mtp", "vision", "audio", "projector"}
    sizes = [held.params for part, held in by_part(files, model).items() if part not in apart]
    # Apertus: the two numbers of every activation stand in the metadata.
    metadata = 2 * len(model.stack.layers) if "xielu.alpha_p" in files.metadata else 0
    return None if None in sizes else metadata + sum(size for size in sizes if size is not None)


def check(files: Files, model: Model) -> tuple[str, ...]:
    """A warning where the tensors of a GGUF file hold other parameters than the reader counts."""
    found = language_params(files, model)
    computed = memory.language_params(model)
    if found is None or found == computed:
        return ()
    copy = memory.head_params(model)
    why = " (a stored copy of the tied head)" if found - computed == copy and model.stack.tied else ""
    return (f"the file's tensors hold {found:,} parameters of the language model and its metadata describes {computed:,}{why}",)


def compare(files: Files, model: Model, computed: Answered[memory.Weights, memory.Part]) -> Answered[InFiles, PartInFiles]:
    """By part: parameters and bytes in the files beside the computed ones; the differences sum to the whole difference."""
    held = by_part(files, model)
    rows = {row.part: row for row in computed.rows}
    loose = no_parameters(files)
    differences: list[Difference] = []

    def differ(reason: str, size: float) -> None:
        if abs(size) >= 0.5:  # averages of bits leave a millionth of a byte
            differences.append(Difference(reason=reason, bytes=round(size)))

    unlike: list[str] = []
    for part in [*rows, *(name for name in held if name not in rows)]:
        row, own = rows.get(part), held.get(part, Held())
        if part in loose:
            differ(loose[part], own.bytes)
        elif part == "mtp":
            differ("multi-token prediction, not in the total", own.bytes)
        elif part == "head" and row is None and model.stack.tied:
            differ("a stored copy of the tied head", own.bytes)
        elif row is None or row.bytes is None or own.params != row.params:
            unlike.append(part)
        else:
            differ(f"{part}: stored as {formats(own)}", own.bytes - row.bytes)
    params = sum((held[part].params or 0 if part in held else 0) - (rows[part].params if part in rows else 0) for part in unlike)
    packed = any(held[part].params is None for part in unlike if part in held)
    size = sum((held[part].bytes if part in held else 0) - ((rows[part].bytes or 0) if part in rows else 0) for part in unlike)
    if unlike and params == 0 and not packed:
        differ(f"{', '.join(unlike)}: the same parameters, divided otherwise", size)
    else:
        for part in unlike:
            differ(*_other(part, held.get(part), rows.get(part)))
    mtp = sum(weight.params for weight in model.stack.mtp)
    table = [_row(part, rows.get(part), held.get(part), loose) for part in [*rows, *(name for name in held if name not in rows)]]
    total, warnings = _total(held, loose, files)
    if mtp and "mtp" not in held:
        warnings.append("the files hold no multi-token-prediction layers, though the config names some")
    weight_bytes = computed.results.weight_bytes
    results = replace(
        _in_files(held, files, total),
        file_difference_bytes=None if weight_bytes is None else round(files.tensor_bytes - weight_bytes),
        file_differences=tuple(sorted(differences, key=lambda one: -abs(one.bytes))),
    )
    return Answered(results, {}, rows=tuple(table), warnings=tuple(warnings))


def alone(files: Files, quantization: Any) -> Answered[InFiles, PartInFiles]:
    """What the files hold by their headers, where no architecture is known: bytes and parameters by dtype, and no parts."""
    names = {tensor.name for tensor in files.tensors}
    bits, arch = packed_bits(quantization), str(files.metadata.get("general.architecture", ""))
    held = Held()
    for tensor in files.tensors:
        if files.kind == "gguf":
            loose = gguf_config.part(tensor.name, 10**6, arch) in gguf_config.NO_PARAMETERS or gguf_config.scales(tensor.name, arch)
        else:
            loose = safetensors.part(tensor.name, 10**6) in safetensors.NO_PARAMETERS
        params = tensor.elements if files.kind == "gguf" else safetensors.parameters(tensor, names, bits)
        held.add(0 if loose else params, tensor.bytes, tensor.dtype)
    total, warnings = _total({"whole": held}, (), files)
    return Answered(_in_files({"whole": held}, files, total), {}, warnings=tuple(warnings))


def _total(held: Mapping[str, Held], loose: Iterable[str], files: Files) -> tuple[int | None, list[str]]:
    """Parameters of all parts, and what there is to say about them."""
    counted = [own.params for part, own in held.items() if part not in loose]
    total = None if None in counted else sum(number for number in counted if number is not None)
    packed = [] if total is not None else ["file_params: packed words, and nothing says how many values are in one"]
    return total, [*files.notes, *packed]


def _in_files(held: Mapping[str, Held], files: Files, total: int | None) -> InFiles:
    dtypes: dict[str, int] = {}
    for own in held.values():
        for dtype, number in (own.dtypes or {}).items():
            dtypes[dtype] = dtypes.get(dtype, 0) + number
    return InFiles(
        file_bytes=files.file_bytes,
        file_tensor_bytes=files.tensor_bytes,
        file_params=total,
        file_bits_per_weight=files.tensor_bytes * 8 / total if total else None,
        file_count=len(files.files),
        file_bytes_by_dtype=dict(sorted(dtypes.items(), key=lambda pair: -pair[1])),
        file_difference_bytes=None,
        file_differences=(),
        extra_files=tuple(Extra(name=name, bytes=number, why=why) for name, number, why in files.extras),
    )


def _other(part: str, own: Held | None, row: memory.Part | None) -> tuple[str, float]:
    """A part whose parameters differ, in words and bytes."""
    size = (own.bytes if own else 0) - ((row.bytes or 0) if row else 0)
    if own is None:
        return f"{part}: not in the files", size
    if row is None:
        return f"{part}: not in the config", size
    if own.params is None:
        return f"{part}: packed words", size
    more = own.params - row.params
    if not more:
        return f"{part}: stored as {formats(own)}", size
    return f"{part}: {abs(more):,} parameters {'more' if more > 0 else 'fewer'} than computed", size


def formats(own: Held) -> str:
    """The dtypes of a part, most bytes first."""
    ordered = sorted((own.dtypes or {}).items(), key=lambda pair: -pair[1])
    return ", ".join(printable(name, 20) for name, _ in ordered[:6]) + (" …" if len(ordered) > 6 else "")


def _row(part: str, row: memory.Part | None, own: Held | None, loose: Iterable[str]) -> PartInFiles:
    return PartInFiles(
        part=part,
        params=row.params if row else 0,
        active_params=row.active_params if row else 0,
        bytes=row.bytes if row else 0,
        file_params=0 if own is None or part in loose else own.params,
        file_bytes=own.bytes if own else 0,
        file_dtypes=formats(own) if own else "",
    )
