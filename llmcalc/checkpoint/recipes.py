"""What makers and tools do when they quantise a model: the blocks that their files would have, by the name of the format.

Embedding, head, norms and routers stay in 16 bits; of mixtures in MXFP4 everything but the experts does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmcalc.architecture import Model
from llmcalc.checkpoint.schemes import Checkpoint
from llmcalc.checkpoint.whole import read, with_tables
from llmcalc.formats import Format

PLAIN = frozenset({"fp8", "int8", "int4"})
"""Names that the textbook takes for every parameter alike; the others are a recipe everywhere."""
KEPT = ["lm_head", "visual", "vision_tower", "in_proj_a", "in_proj_b", "in_proj_ba", "conv1d", "mtp.fc", "re:.*mlp.gate$", "re:.*router.*"]
"""Modules that the makers' lists leave alone. [quantization_config of Qwen3.5-27B-FP8, RedHatAI's and NVIDIA's files]"""


def _compressed(bits: int, kind: str, *, strategy: str = "channel", group: int | None = None, math: bool = False) -> dict[str, Any]:
    """A block of compressed-tensors for every linear layer."""
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True} | ({"group_size": group} if group else {})
    activations = {"num_bits": bits, "type": kind, "dynamic": True} if math else None
    groups = {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": KEPT}


RECIPES: dict[str, dict[str, Any]] = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "modules_to_not_convert": KEPT},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "modules_to_not_convert": KEPT},
    "fp8": _compressed(8, "float", math=True),
    "int8": _compressed(8, "int", math=True),
    "w8a8": _compressed(8, "int", math=True),
    "w8a16": _compressed(8, "int"),
    "int4": _compressed(4, "int", strategy="group", group=128),
    "w4a16": _compressed(4, "int", strategy="group", group=128),
    "nvfp4": _compressed(4, "float", strategy="tensor_group", group=16, math=True),
    "mxfp4": _compressed(4, "float", strategy="group", group=32, math=True),
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": KEPT},
}


def made(model: Model, fmt: Format, plain: Format) -> Checkpoint | None:
    """A file of that format as its tools would write it, or None where the name is no recipe."""
    block = RECIPES.get(fmt.name)
    if any(fmt.table_bits):
        return with_tables(model, fmt, plain)
    if block is None:
        return None
    if fmt.name == "mxfp4" and any(group.layer.mlp and group.layer.mlp.experts for group in model.groups):
        block = {"quant_method": "mxfp4"}
    found = read(replace(model, quantization=block), plain, alike=True)
    return found and replace(found, name=fmt.name, compute=fmt.compute, recipe=True)
