"""In words: how an engine counts a sequence, and what it would print at start-up."""

from __future__ import annotations

import math

from llmcalc.architecture import Attention, Model
from llmcalc.engines import GIB
from llmcalc.estimate import memory
from llmcalc.estimate.charged import Groups, kept_tokens, prefix_cached
from llmcalc.estimate.tuples import Tuples
from llmcalc.figures import Figure
from llmcalc.formulas.memory import index_bytes_per_token
from llmcalc.plan import Deployment
from llmcalc.units import size


def words(model: Model, plan: Deployment, ctx: int) -> tuple[str, ...]:
    """How the engine counts a sequence, kind by kind of layer."""
    engine = plan.engine
    found = []
    at = Figure("ctx_tokens", ctx, "tokens", "`ctx`")
    groups = Groups.of(model, plan) if engine.grouped else None
    if tuples := Tuples.of(model, plan):
        return (f"{engine.name} packs this cache in fp8 whatever its format, and charges a sequence {tuples.words(plan, at)}",)
    if groups:
        for group, block in zip(groups.groups, groups.block_tokens, strict=True):
            number = groups.blocks(plan, group, block, at).value
            each = f"{number:,} blocks of {block:,} tokens" if block else f"{number:,} blocks of {size(groups.page_bytes)} per layer"
            found.append(f"{engine.name} charges {group.kind} layers {each}")
        if prefix_cached(model, plan):
            found.append("one block of the states is prefix caching's, `enable_prefix_caching`")
        if groups.number > 1:
            padding = sum(-(-group.layers // groups.size) * groups.size - group.layers for group in groups.groups)
            found.append(f"layers go in {groups.number} groups of {groups.size}" + (f", {padding} of padding" if padding else ""))
        if any(group.kind in ("window", "chunked") for group in groups.groups):
            found.append(f"a step of {plan.step_tokens(ctx):,} tokens")
        return tuple(found)
    found += [f"{engine.name} charges {mixer.kind} layers {kept}" for mixer, _ in memory.mixers(model) if (kept := _kept(mixer, plan, at))]
    if old := of_old_files(model, plan, at):
        found.append(old)
    if engine.state_ratio and any(mixer.states for mixer, _ in memory.mixers(model)):
        share = engine.state_ratio / (1 + engine.state_ratio)
        found.append(f"{engine.name} keeps {share:.0%} of its pool for states, {engine.state_blocks} slots a sequence")
    return tuple(dict.fromkeys(found))


def of_old_files(model: Model, plan: Deployment, ctx: Figure) -> str | None:
    """What a sequence of a latent model takes of files that are older than the keys for it, or None where that cannot be."""
    old = old_latent_bytes(model, plan, ctx)
    now = memory.sequence_bytes(model, ctx.value, plan.kv).value if old else 0
    return f"of a GGUF file without *_mla keys {plan.engine.name} caches every head: {size(old)}, not {size(now)}" if old else None


def old_latent_bytes(model: Model, plan: Deployment, ctx: Figure) -> float:
    """What a sequence of a latent model takes where every head is cached; 0 where the engine has no such files, or the file is known."""
    if not plan.engine.old_latents or (model.quantization or {}).get("quant_method") == "gguf":
        return 0
    held: float = 0
    for mixer, layers in memory.mixers(model):
        rows = {weight.name: weight for weight in mixer.weights}
        if mixer.kind != "mla" or not {"kv_b_proj", "o_proj"} <= rows.keys():
            continue
        heads, values = mixer.query_heads, rows["o_proj"].columns
        keys = rows["kv_b_proj"].rows - values + heads * dict(mixer.entries[0].args)["qk_rope_head_dim"]
        held += layers * (keys + values) * kept_tokens(mixer.entries[0], plan, ctx).value * plan.kv.bytes
    return held


def _kept(mixer: Attention, plan: Deployment, ctx: Figure) -> str:
    """Every entry that a layer stores, in whole tokens."""
    found: list[str] = []
    amounts: list[int] = []
    for entry in mixer.entries:
        if entry.stored:
            amounts.append(math.floor(kept_tokens(entry, plan, ctx).value))
            said = f"{amounts[-1]:,} tokens" if entry.ratio == 1 else f"{amounts[-1]:,} entries of {entry.ratio} tokens"
            if entry.formula is index_bytes_per_token:
                said = "as many of its indexer" if amounts[-1:] == amounts[-2:-1] else f"{said} of its indexer"
            found.append(said)
    *first, last = dict.fromkeys(found) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def log_lines(plan: Deployment, ctx: int, tokens: int, concurrency: float, budget: float) -> tuple[str, ...]:
    """What the engine prints at start-up, per device."""
    given = {"gib": budget / plan.ranks / GIB, "tokens": tokens // plan.dp, "ctx": ctx, "concurrency": concurrency / plan.dp}
    return tuple(line.format(**given) for line in plan.engine.log)
