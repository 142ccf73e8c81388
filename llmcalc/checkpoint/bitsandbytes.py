"""bitsandbytes: nf4, fp4 and int8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcalc.architecture import Model
from llmcalc.checkpoint.matching import all_but
from llmcalc.checkpoint.names import TOWERS
from llmcalc.checkpoint.schemes import Rule, Scheme, is_linear, list_of


def by_bitsandbytes(q: Mapping[str, Any], model: Model) -> Rule:
    """nf4 and fp4: one absmax per 64 elements, with double quantisation itself in 8 bits; int8: one fp32 per row.

    Every linear layer of the file, towers included, but not the head.
    """
    if q.get("load_in_8bit") or q.get("_load_in_8bit"):
        scheme = Scheme("int8", 8, (1, 0), 4, matrix_bytes=1, compute="int8")
    else:
        double = bool(q.get("bnb_4bit_use_double_quant"))
        # Per block a byte and 1/256 of an fp32, or an fp32; per matrix the code books (16 and 256 fp32) and about 100 B of state.
        scheme = Scheme("nf4", 4, (1, 64), 1 + 4 / 256, matrix_bytes=1188) if double else Scheme("nf4", 4, (1, 64), 4, matrix_bytes=164)
    return all_but(
        scheme, list_of(q, "llm_int8_skip_modules"), lambda weight: is_linear(weight) or (weight.part in TOWERS and weight.columns > 1)
    )
