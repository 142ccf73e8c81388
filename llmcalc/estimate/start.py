"""The command that starts an engine."""

from __future__ import annotations

import json
from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import memory
from llmcalc.estimate.charged import prefix_cached
from llmcalc.plan import Deployment


def start_command(model: Model, plan: Deployment, ctx: int, batch: int) -> str:
    """The command that starts the engine with these settings; flags at their defaults are left out. Empty where there is none."""
    engine, start = plan.engine.family, plan.engine.start
    if start is None:
        return ""
    seqs = min(plan.max_sequences or batch, plan.slots) if plan.engine.pool else plan.max_sequences or batch
    plain = memory.state_format(model, plan.kv).name
    kv = (
        ""
        if plan.kv.name in (plain, "fp32", "bf16", "fp16")
        else "fp8_e4m3"
        if (engine, plan.kv.name) == ("sglang", "fp8")
        else plan.kv.name
    )
    given: dict[str, Any] = {"step": plan.batched_tokens, "asked": plan.max_sequences, "kv": kv, "experts": plan.ep > 1}
    given |= {key: value if value > 1 else "" for key, value in (("tp", plan.tp), ("pp", plan.pp), ("dp", plan.dp), ("ep", plan.ep))}
    given |= {
        "prefix": prefix_cached(model, plan),
        "several": seqs > 1,
        "split": "tensor" if plan.tp > 1 else "",
        "spread": 1 if plan.pp > 1 else "",
        "drafts": "",
    }
    if plan.draft_tokens:
        who = {"model": plan.drafter.id} if plan.drafter else {"method": "mtp"}
        given["drafts"] = f"'{json.dumps(who | {'num_speculative_tokens': plan.draft_tokens})}'"
    words = [start.command.format(model=model.id, ctx=ctx, share=f"{plan.share:g}", seqs=seqs, all=ctx * seqs)]
    for flag, what in start.flags:
        value = given[what]
        if value:
            words.append(flag if value is True else f"{flag}{value}" if flag.endswith("=") else f"{flag} {value}")
    return " ".join([*words, start.tail] if start.tail else words)
