"""The command that starts an engine with what was counted: one line for a shell, or why there is none."""

from __future__ import annotations

import json
import shlex
from typing import Any

from llmcalc import engines, quality
from llmcalc.architecture import Model
from llmcalc.estimate import capacity, files, memory
from llmcalc.estimate.charged import prefix_cached
from llmcalc.plan import Deployment

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def obstacle(model: Model, plan: Deployment, ctx: int, starts: bool) -> str | None:
    """Why nothing starts, or None."""
    engine = plan.engine
    start = engine.start
    if refused := capacity.refusal(model, plan):
        return refused
    if not starts:
        return "it does not fit"
    if engine.kind == "server" and model.max_context and ctx > model.max_context:
        return f"{engine.family} refuses a context beyond the model's own {model.max_context:,} tokens"
    if start is not None and _quantised_cache(model, plan) and not all(_cache_words(plan)):
        known = ", ".join(name for name, _ in start.caches) or "16 bits alone"
        return f"{engine.family} keeps no cache in {plan.kv.name}; it knows {known}"
    told = {what for _, what in start.flags} if start else set()
    if plan.adapters and not told & {"lora", "lora_file"}:
        return f"{engine.family} is told of adapters in a file, not by options"
    if plan.draft_tokens and "drafts" not in told:
        return f"what drafts is told to {engine.family} by options that llmcalc does not know"
    return None


def _cache_words(plan: Deployment) -> tuple[str, str]:
    """How the engine calls the formats of keys and of values; empty where it knows none, or one for both alone."""
    start, keys, values = plan.engine.start, plan.kv.keys or plan.kv, plan.kv.values or plan.kv
    apart = start is not None and any(what == "kv_values" for _, what in start.flags)
    known = dict(start.caches) if start else {}
    if keys is not values:
        known = known | {"bf16": "bf16", "fp16": "f16"} if apart else {}
    return known.get(keys.name, ""), known.get(values.name, "")


def _quantised_cache(model: Model, plan: Deployment) -> bool:
    return plan.kv.name not in (memory.state_format(model, plan.kv).name, *DTYPES)


PUBLISHED = frozenset("q2_k q3_k_s q3_k_m q4_0 q4_k_s q4_k_m q5_k_s q5_k_m q6_k q8_0 iq4_xs".split())
"""GGUF types that whoever publishes such files has of nearly every model; others are one publisher's own."""


def _published(repository: str, name: str) -> bool:
    own = name.startswith("ud_") or name in ("q4_1", "iq4_nl")
    return name in PUBLISHED or (own if repository.startswith("unsloth/") else name in ("q3_k_l", "iq2_m", "iq3_m"))


def _loads(model: Model, plan: Deployment) -> tuple[str, str]:
    """(what to load, a format that the engine makes of it while loading)."""
    start, fmt = plan.engine.start, plan.weights
    own = model.id if model.source != "stdin" else "MODEL"
    if start is not None and start.gguf:
        if own.lower().endswith(".gguf"):
            return f"-m {shlex.quote(own)}", ""
        if (model.quantization or {}).get("quant_method") == "gguf":
            return f"-hf {shlex.quote(own)}", ""
        repository, name = quality.gguf(model.id), fmt.name.upper().replace("UD_", "UD-")
        if repository and fmt.name == "mxfp4" and files.shipped(model, fmt):
            return f"-hf {repository}", ""
        if repository and _published(repository, fmt.name):
            return f"-hf {repository}:{name}", ""
        return f"-m MODEL-{name}.gguf", ""
    if files.shipped(model, fmt) or (model.quantization is None and fmt.name in DTYPES):
        return shlex.quote(own), ""
    if found := files.known(model, fmt):
        return shlex.quote(found), ""
    if start is not None and fmt.name in start.online and model.quantization is None:
        return shlex.quote(own), fmt.name
    return f"MODEL-{fmt.name.upper().replace('_', '-')}", ""


def command(model: Model, plan: Deployment, ctx: int, seqs: int | None) -> str:
    """The line; flags at their defaults are left out. `seqs`: sequences at a time, None: its default."""
    start = plan.engine.start
    if start is None:
        return ""
    loaded, made = _loads(model, plan)
    kv, kv_values = _cache_words(plan) if _quantised_cache(model, plan) else ("", "")
    dtype = DTYPES.get(plan.weights.name, "") if plan.weights.name != memory.compute_format(model)[0].name else ""
    slots, adapters, offload = seqs or 1, plan.adapters, plan.offload
    layers = len(model.stack.layers)
    experts = offload.host_expert_layers if offload else 0
    given: dict[str, Any] = {
        "step": plan.batched_tokens,
        "asked": plan.max_sequences,
        "seqs": seqs,
        "kv": kv,
        "kv_values": kv_values,
        "made": made,
        "dtype": dtype,
        "experts": plan.ep > 1,
        **{key: value if value > 1 else "" for key, value in (("tp", plan.tp), ("pp", plan.pp), ("dp", plan.dp), ("ep", plan.ep))},
        **{key: value if value > 1 else "" for key, value in (("cp", plan.cp), ("dcp", plan.dcp))},
        "redundant": plan.redundant_experts or "",
        "prefix": prefix_cached(model, plan),
        "several": slots > 1,
        "parallel": "True" if plan.tp > 1 else "",
        "split": "tensor" if plan.tp > 1 else "",
        "spread": 1 if plan.pp > 1 else "",
        "lora": adapters is not None,
        "lora_rank": adapters.rank if adapters else "",
        "loras": adapters.slots if adapters else "",
        "lora_file": "ADAPTER.gguf" if adapters else "",
        "cpu_moe": experts >= layers > 0,
        "n_cpu_moe": experts if experts < layers else "",
        "offload_gb": f"{offload.host_bytes / 2**30:g}" if offload and offload.host_bytes else "",
        "drafts": "",
        "block": plan.engine.block_tokens if plan.engine.block_tokens != engines.find(plan.engine.name).block_tokens else "",
        "eager": plan.eager,
        "text_only": not plan.encoder,
        "pool": round(plan.pool_bytes) if plan.pool_bytes else "",
    }
    if plan.draft_tokens:
        who = {"model": plan.drafter.id} if plan.drafter else {"method": "mtp"}
        given["drafts"] = f"'{json.dumps(who | {'num_speculative_tokens': plan.draft_tokens})}'"
    held = offload.gpu_layers if offload and offload.gpu_layers is not None else 99
    words = [start.command.format(model=loaded, ctx=ctx, share=f"{plan.share:g}", seqs=slots, all=ctx * slots, ngl=held)]
    for flag, what in start.flags:
        value = given[what]
        if value:
            words.append(flag if value is True else f"{flag}{value}" if flag.endswith("=") else f"{flag} {value}")
    if not plan.graphs and not plan.eager:
        words.insert(0, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0")
    return " ".join([*words, start.tail] if start.tail else words)
