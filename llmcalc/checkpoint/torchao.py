"""torchao."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.matching import Matcher, all_but
from llmcalc.checkpoint.schemes import Rule, Scheme, is_linear, list_of, unknown_scheme, whole_number
from llmcalc.errors import printable


def by_torchao(q: Mapping[str, Any], model: Model) -> Rule:
    """By the name of the configuration class or of the old type; newer files have one for each module by its full name."""
    kind: Any = q.get("quant_type")
    options: Any = q.get("quant_type_kwargs") or {}
    if isinstance(kind, Mapping):
        kind = kind.get("default", kind)
        options = kind.get("_data", {}) if isinstance(kind, Mapping) else {}
        kind = kind.get("_type", "") if isinstance(kind, Mapping) else ""
    skip = Matcher(list_of(q, "modules_to_not_convert"))
    named = next((options[key] for key in ("fqn_to_config", "module_fqn_to_config") if isinstance(options.get(key), Mapping)), None)
    if named is None:
        return all_but(_scheme(str(kind), options), list_of(q, "modules_to_not_convert"))
    own = [(Matcher([name], whole=True), _entry(value)) for name, value in named.items() if name != "_default"]
    rest = _entry(named.get("_default"))

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if skip(spellings):
            return None
        found = next((scheme for matcher, scheme in own if matcher(spellings)), rest if is_linear(weight) else None)
        return found if weight.columns > 1 else None

    return rule


def _entry(value: Any) -> Scheme | None:
    """The scheme of one module, or None: it stays."""
    return _scheme(str(value.get("_type", "")), value.get("_data") or {}) if isinstance(value, Mapping) else None


def _scheme(kind: str, options: Mapping[str, Any]) -> Scheme:
    word = kind.lower().replace("_", "")
    act = "dynamicactivation" in word and "weightonly" not in word
    if "float8" in word or "fp8" in word:
        return Scheme("fp8", 8, (1, 0), 4, compute="fp8" if act else "bf16")
    if "int8dynamicactivationint4" in word:
        return Scheme("int4", 4, (1, whole_number(options, "group_size", 32)), 4)
    if "int4" in word:
        return Scheme("int4", 4, (1, whole_number(options, "group_size", 128)), 4)  # a scale and a zero in bf16
    if "int8" in word:
        return Scheme("int8", 8, (1, 0), 2, compute="int8" if act else "bf16")
    raise unknown_scheme(f"torchao's {printable(kind, 60)}")
