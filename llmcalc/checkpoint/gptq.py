"""AWQ, GPTQ and AutoRound, which share their packing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.matching import Matcher, all_but, expression
from llmcalc.checkpoint.names import PREFIXES
from llmcalc.checkpoint.schemes import Rule, Scheme, is_linear, list_of, whole_number

_PLAIN = re.compile(r"[\w.\-]+", re.ASCII)


def by_awq(q: Mapping[str, Any], model: Model) -> Rule:
    """Scales and packed zeros of every group."""
    bits, group = whole_number(q, "bits", whole_number(q, "w_bit", 4, most=16), most=16), whole_number(q, "group_size", 128, least=-1)
    zero = bits / 8 if q.get("zero_point", True) else 0
    scheme = Scheme("awq" if bits == 4 else f"int{bits}", bits, (1, max(group, 0)), 2 + zero)
    return all_but(scheme, list_of(q, "modules_to_not_convert"))


def by_gptq(q: Mapping[str, Any], model: Model) -> Rule:
    """Scales, packed zeros and one index per input, also where the order is the natural one."""

    def made(over: Mapping[str, Any]) -> Scheme:
        bits, group = whole_number(over, "bits", most=16), whole_number(over, "group_size", 128, least=-1)
        return Scheme("gptq" if bits == 4 else f"int{bits}", bits, (1, max(group, 0)), 2 + bits / 8, column_bytes=4)

    whole_model = made(q)
    dynamic = q.get("dynamic")
    rules = [
        (
            expression(str(text)[2:] if str(text)[:2] in ("-:", "+:") else str(text)),
            None if str(text).startswith("-:") else made({**q, **value} if isinstance(value, Mapping) else q),
        )
        for text, value in (dynamic.items() if isinstance(dynamic, Mapping) else ())
    ]
    skip = Matcher(list_of(q, "modules_to_not_convert"))
    extra = q.get("extra_config")  # AutoRound: {module or expression: {bits: 16}}
    own = [
        (Matcher([name if _PLAIN.fullmatch(name) else f"re:{name}"], whole=True), over)
        for name, over in (extra.items() if isinstance(extra, Mapping) else ())
        if isinstance(over, Mapping)
    ]
    rows = q.get("modules_in_block_to_quantize")  # [[module, ...], ...]: what is in none of them stays
    inside = [str(name) for row in rows if isinstance(row, list) for name in row] if isinstance(rows, list) else []
    head = bool(q.get("lm_head"))

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if not (is_linear(weight) or (head and weight.part == "head")) or skip(spellings):
            return None
        for matcher, over in own:
            if matcher(spellings):
                return None if whole_number(over, "bits", 16, most=64) >= 16 else made({**q, **over})
        if inside and not any(name.endswith(f".{module}") for name in spellings for module in inside):
            return None
        for pattern, scheme in rules:
            if any(pattern.match(prefix + name) for name in spellings for prefix in PREFIXES):
                return scheme
        return whole_model

    return rule


def by_autoround(q: Mapping[str, Any], model: Model) -> Rule:
    """What packs the file decides."""
    packing = str(q.get("packing_format", q.get("backend", "")))
    return by_awq(q, model) if "awq" in packing else by_gptq(q, model)
