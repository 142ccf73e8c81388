"""AMD's Quark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.matching import Matcher
from llmcalc.checkpoint.schemes import MXFP4, Rule, Scheme, is_linear, list_of, unknown_scheme
from llmcalc.errors import printable


def by_quark(q: Mapping[str, Any], model: Model) -> Rule:
    """The global scheme, the layers that have one of their own (globs), and what is left alone (names, globs, expressions)."""
    plain = _scheme(q.get("global_quant_config"))
    layers = q.get("layer_quant_config")
    own = [(Matcher([name]), _scheme(block)) for name, block in layers.items()] if isinstance(layers, Mapping) else []
    skip = Matcher(list_of(q, "exclude"))

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if not is_linear(weight) or skip(spellings):
            return None
        return next((scheme for matcher, scheme in own if matcher(spellings)), plain)

    return rule


def _scheme(block: Any) -> Scheme | None:
    """What one block says of weights; None where it leaves them as they are."""
    weight = block.get("weight") if isinstance(block, Mapping) else None
    if weight is None and isinstance(block, Mapping):
        return None
    dtype = str(weight.get("dtype", "")) if isinstance(weight, Mapping) else ""
    per_row = isinstance(weight, Mapping) and weight.get("qscheme") == "per_channel"
    known = {
        "fp4": MXFP4,
        "fp8_e4m3": Scheme("fp8", 8, (1, 0) if per_row else (0, 0), 4, compute="fp8"),
        "int8": Scheme("w8a8", 8, (1, 0), 4, compute="int8"),
    }
    if dtype not in known:
        raise unknown_scheme(f"Quark's weight dtype {printable(dtype, 40)!r}")
    return known[dtype]
