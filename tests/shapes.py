"""Models for the tests: bundled ones by name, textbook ones from a handful of numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

from llmcalc import formats, hardware, model, sources
from llmcalc.architecture import Model
from llmcalc.estimate import memory
from llmcalc.plan import Deployment


@cache
def bundled(name: str) -> Model:
    found = sources.find(name, offline=True)
    assert found.kind == "bundled"
    return model.read(found.config, id=found.id, source=found.kind, quant=found.quant, facts=found.facts)


def llama(
    layers: int, hidden: int, inner: int, heads: int, kv_heads: int, head_dim: int, vocab: int, *, tied: bool = False, **more: Any
) -> dict[str, Any]:
    """A config.json of the Llama kind."""
    return {
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 131072,
        **more,
    }


# The 13B of the course's problems: 40 layers, 8 KV heads of 128, 13.00e9 parameters and so 26.00 GB in bf16. The table
# is tied to the head, so that the arithmetic counts all 13e9 as the problems do.
THIRTEEN_B = llama(40, 5120, 16796, 40, 8, 128, 32000, tied=True)


def plan(model: Model, device: str = "h100-sxm", weights: str = "auto", kv: str = "auto", **more: Any) -> Deployment:
    """A deployment by names."""
    return Deployment(hardware.load(device), memory.weight_format(model, weights)[0], memory.kv_format(model, kv)[0], **more)


def bits(value: float, name: str = "asked-for") -> formats.Format:
    """A weight or cache format of so many bits, multiplied as bf16."""
    return formats.Format(name, value, kv=True)
