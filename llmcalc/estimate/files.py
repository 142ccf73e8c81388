"""Which file holds a model in a format: what is said of it, and what an engine is told to load."""

from __future__ import annotations

from llmcalc import checkpoint, sources
from llmcalc.architecture import Model
from llmcalc.checkpoint import Checkpoint
from llmcalc.estimate.memory import compute_format
from llmcalc.formats import Format

TAILS = {
    "awq": ("-awq",), "gptq": ("-gptq", "-gptq-int4"), "fp8": ("-fp8", "-fp8-dynamic"), "nvfp4": ("-nvfp4", "-fp4"),
    "int4": ("-int4", "-w4a16"), "w4a16": ("-w4a16",), "int8": ("-w8a8", "-int8"), "w8a8": ("-w8a8",), "mxfp4": ("-mxfp4",),
}  # fmt: skip
"""How the files of a format are called after the model's own name."""


def shipped(model: Model, fmt: Format) -> bool:
    """Whether that is what the model's own repository holds."""
    if isinstance(fmt, Checkpoint):
        return not fmt.recipe
    return model.quantization is None and fmt.name in (compute_format(model)[0].name, "bf16", "fp16")


def known(model: Model, fmt: Format) -> str | None:
    """A bundled checkpoint of the model in that format, the maker's own first."""
    maker, _, tail = model.id.rpartition("/")
    wanted = {f"{tail.lower()}{end}" for end in TAILS.get(fmt.name, ())}
    found = [name for name in sources.bundled_ids() if name.rpartition("/")[2].lower() in wanted] if wanted else []
    return min(found, key=lambda name: name.rpartition("/")[0] != maker, default=None)


def words(model: Model, fmt: Format) -> str:
    """What the weights are in."""
    if isinstance(fmt, Checkpoint) and fmt.recipe:
        own = known(model, fmt)
        said = f", such as {own}" if own else ""
        return f"weights in {fmt.name} as its files are made{said}: {fmt.note}; the rest in {compute_format(model)[0].name}"
    if isinstance(fmt, Checkpoint):
        return f"weights in {fmt.name} as the checkpoint ships"
    return f"weights in {fmt.name}" + (": every parameter alike" if fmt.name in checkpoint.PLAIN else "")
