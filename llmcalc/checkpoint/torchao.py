"""torchao."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model
from llmcalc.checkpoint.matching import all_but
from llmcalc.checkpoint.schemes import Rule, Scheme, list_of, unknown_scheme, whole_number
from llmcalc.errors import printable


def by_torchao(q: Mapping[str, Any], model: Model) -> Rule:
    """By the name of the configuration class or of the old type."""
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
        scheme = Scheme("int4", 4, (1, whole_number(options, "group_size", 32)), 4)
    elif "int4" in word:
        scheme = Scheme("int4", 4, (1, whole_number(options, "group_size", 128)), 4)  # a scale and a zero in bf16
    elif "int8" in word:
        scheme = Scheme("int8", 8, (1, 0), 2, compute="int8" if act else "bf16")
    else:
        raise unknown_scheme(f"torchao's {printable(str(kind), 60)}")
    return all_but(scheme, list_of(q, "modules_to_not_convert"))
