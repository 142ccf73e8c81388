"""AMD's Quark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model
from llmcalc.checkpoint.matching import all_but
from llmcalc.checkpoint.schemes import MXFP4, Rule, Scheme, list_of, unknown_scheme
from llmcalc.errors import printable


def by_quark(q: Mapping[str, Any], model: Model) -> Rule:
    """The global scheme and its exceptions."""
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
        raise unknown_scheme(f"Quark's weight dtype {printable(dtype, 40)!r}")
    return all_but(known[dtype], list_of(q, "exclude"))
