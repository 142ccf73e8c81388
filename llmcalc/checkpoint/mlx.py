"""MLX: every matrix of the language model, and exceptions by module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint.matching import Matcher
from llmcalc.checkpoint.names import TOWERS
from llmcalc.checkpoint.schemes import MXFP4, MXFP8, NEVER, NVFP4, Rule, Scheme, whole_number

_EXPERT = re.compile(r"\.experts\.(\d+\.)?")


def by_mlx(q: Mapping[str, Any], model: Model) -> Rule:
    """Every matrix of the language model, tables too, but no router; a module's own entry says otherwise."""

    def made(over: Mapping[str, Any]) -> Scheme:
        mode, bits, group = str(over.get("mode", "affine")), whole_number(over, "bits", 4, most=16), whole_number(over, "group_size", 64)
        ready = {"mxfp4": MXFP4, "nvfp4": NVFP4._replace(matrix_bytes=0), "mxfp8": MXFP8}
        if mode in ready:
            return ready[mode]._replace(compute="bf16")
        return Scheme(f"int{bits}", bits, (1, group), 4)  # a scale and a bias in 16 bits

    whole_model = made(q)
    modules = {name: value for name, value in q.items() if isinstance(value, Mapping) or value is False}
    own = [(Matcher([name], whole=True), None if value is False else made({**q, **value})) for name, value in modules.items()]

    def rule(weight: Weight, spellings: tuple[str, ...]) -> Scheme | None:
        if weight.columns == 1 or weight.part in ("norms", "state", "positions") or weight.part in TOWERS:
            return None
        # All experts of a layer are one module there, with a name of its own.
        experts = {_EXPERT.sub(rf".{word}.", f".{name}")[1:] for name in spellings for word in ("switch_mlp", "experts.switch_glu")}
        for matcher, scheme in own:
            if matcher(experts.union(spellings) if weight.part == "experts" else spellings):
                return scheme
        return None if weight.part == "router" or NEVER.search(weight.name) else whole_model

    return rule
