"""What an engine charges for a sequence: blocks, windows, states, layouts; and how many tokens a pool of them holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from llmcalc.architecture import Attention, Entry, Model
from llmcalc.engines import Engine
from llmcalc.estimate import layout, memory
from llmcalc.estimate.tuples import Tuples
from llmcalc.figures import Figure, total
from llmcalc.formats import FORMATS
from llmcalc.formulas import engines as f
from llmcalc.formulas import memory as m
from llmcalc.plan import Deployment


def entry_bytes(engine: Engine, mixer: Attention, entry: Entry, layers: int, plan: Deployment) -> Figure:
    """Bytes per cache entry of alike layers in the engine's own layout."""
    args = {name: Figure(name, value, "", memory.CONFIG) for name, value in entry.args}
    if engine.packed and mixer.kind == "mla-sparse":
        args |= {"layers": Figure("layers", layers, "", memory.CONFIG)}
        args |= {name: engine.figure(name, value, "B") for name, value in (("element_bytes", 1), ("scale_bytes", 4))}
        if entry.formula is m.index_bytes_per_token:
            return f.packed_index_bytes.of(args)
        if plan.kv.name == "fp8":
            return f.packed_latent_bytes.of(args, rope_bytes=engine.figure("rope_bytes", 2, "B"))
    return memory.entry_bytes(entry, layers, plan.kv, scales=True)


def state_bytes(mixer: Attention, layers: int, model: Model, plan: Deployment) -> list[Figure]:
    """States of one sequence in the dtypes that the engine keeps them in; vLLM's convolutions also hold the drafted tokens' inputs."""
    if plan.engine.plain_states and mixer.kind in ("delta-net", "mamba1", "mamba2") and model.model_type not in plan.engine.float32_states:
        mixer = replace(mixer, states=tuple(state._replace(dtype="model") for state in mixer.states))
    plain = FORMATS["fp32"] if plan.engine.conv_fp32 else memory.state_format(model, plan.kv)
    if plan.engine.grouped and plan.draft_tokens:
        deeper = [tuple((key, value + plan.draft_tokens * (key == "kernel")) for key, value in state.args) for state in mixer.states]
        mixer = replace(mixer, states=tuple(state._replace(args=args) for state, args in zip(mixer.states, deeper, strict=True)))
    return memory.state_figures(mixer, layers, plain)


def sequence_bytes(model: Model, plan: Deployment, ctx: Figure) -> Figure:
    """What the engine charges for a sequence of `ctx` tokens, over all ranks that hold a part of it."""
    engine = plan.engine
    if engine.nominal:
        return layout.sequence_bytes(model, plan, ctx)
    if tuples := Tuples.of(model, plan):
        return tuples.sequence_bytes(plan, ctx)
    if engine.grouped and (groups := Groups.of(model, plan)):
        return groups.sequence_bytes(plan, ctx)
    caches: list[Figure] = []
    states: list[Figure] = []
    for mixer, layers in layout.pooled_mixers(model, plan):
        copies = layout.kv_replication(mixer, plan)
        for entry in mixer.entries:
            if entry.stored:
                held = m.cache_bytes.of(
                    as_name=f"{mixer.kind}_cache_bytes",
                    bytes_per_token=entry_bytes(engine, mixer, entry, layers, plan),
                    cached_tokens=kept_tokens(entry, plan, ctx),
                )
                split = engine.whole_layers or copies.value == 1
                caches.append(held if split else m.replicated_bytes.of(as_name=held.name, held_bytes=held, copies=copies))
        states += state_bytes(mixer, layers, model, plan)
    if engine.state_ratio and caches and states:
        return f.split_pool_bytes.of(
            cache_bytes=total("cache_bytes", "B", tuple(caches)),
            state_bytes=total("state_bytes", "B", tuple(states)),
            state_ratio=engine.figure("state_ratio", engine.state_ratio),
            slots=engine.figure("slots", engine.state_blocks),
        )
    return total("kv_bytes_per_sequence", "B", (*caches, *states))


def kept_tokens(entry: Entry, plan: Deployment, ctx: Figure) -> Figure:
    """Cache entries that an engine without equal blocks keeps of a sequence."""
    engine = plan.engine
    block = engine.figure("block_tokens", engine.block_tokens, "tokens")
    if entry.tokens is not None or engine.windows == "full" or entry.window is None:
        kept = Figure("cached_tokens", entry.tokens, "tokens", memory.CONFIG) if entry.tokens is not None else ctx
        kept = f.padded_tokens.of(tokens=kept, block_tokens=block)
    elif engine.windows == "cells":
        kept = f.window_cells.of(
            ctx_tokens=ctx,
            window_tokens=Figure("window_tokens", entry.window, "tokens", memory.CONFIG),
            batched_tokens=engine.figure("batched_tokens", plan.step_tokens(ctx.value), "tokens"),
            block_tokens=block,
        )
    elif engine.windows == "share":
        kept = f.window_share_tokens.of(ctx_tokens=ctx, ratio=engine.figure("ratio", engine.window_share))
    else:
        kept = f.padded_tokens.of(tokens=memory.cached(entry, ctx), block_tokens=block)
    if entry.ratio > 1 and entry.window is None:
        kept = m.compressed_entries.of(ctx_tokens=kept, ratio=Figure("ratio", entry.ratio, "", memory.CONFIG))
    return kept


@dataclass(frozen=True, slots=True)
class Group:
    """Alike layers on one rank: bytes per token, or per sequence for states, of one layer."""

    kind: str
    """full, window, chunked, fixed (another input's tokens) or state."""
    layers: int
    unit_bytes: float
    window: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """How vLLM cuts a rank's pool: every layer's block has equal bytes, and layers go in groups of equal size."""

    groups: tuple[Group, ...]
    page_bytes: float
    """Bytes of a block in one layer."""
    size: int
    """Layers of a group."""
    block_tokens: tuple[int, ...]
    """Tokens of a block, group by group; 0 for states."""

    @classmethod
    def of(cls, model: Model, plan: Deployment) -> Groups | None:
        """None where nothing is cached, or the layers go in tuples. [vllm-project/vllm v1/core/kv_cache_utils.py @001cabc]"""
        found = () if Tuples.of(model, plan) else tuple(_groups(model, plan))
        if not found:
            return None
        block = plan.engine.block_tokens * plan.cp * plan.dcp  # so many ranks hold a block of theirs each
        attention = [group for group in found if group.kind != "state"]
        if len({(group.kind, group.window) for group in found}) == 1 and attention:
            # One kind alone: layers of unlike width share a block.
            page = sum(group.layers * group.unit_bytes for group in found) * block
            merged = Group(found[0].kind, 1, page / block, found[0].window)
            return cls((merged,), page, 1, (block,))
        states = max((group.unit_bytes for group in found if group.kind == "state"), default=0)
        if states and attention:
            least = min(group.unit_bytes for group in attention)
            block = max(block, -(-math.ceil(states / least) // block) * block)
        page = max([states, *(group.unit_bytes * block for group in attention)])
        layers = [group.layers for group in found]
        size = max(layers) if max(layers) < 1.5 * min(layers) else min(layers)
        tokens = tuple(0 if group.kind == "state" else max(1, math.floor(page / group.unit_bytes)) for group in found)
        return cls(found, page, size, tokens)

    @property
    def number(self) -> int:
        """Groups, each with a block table of its own."""
        return sum(-(-group.layers // self.size) for group in self.groups)

    def blocks(self, plan: Deployment, group: Group, block_tokens: int, ctx: Figure) -> Figure:
        """Blocks that a sequence takes in one of the groups."""
        engine = plan.engine
        if group.kind == "state":
            return engine.figure("blocks", engine.state_blocks + plan.draft_tokens, "blocks")
        block = engine.figure("block_tokens", block_tokens, "tokens")
        if group.kind in ("window", "chunked"):
            chosen = f.window_blocks if group.kind == "window" else f.chunk_blocks
            return chosen.of(
                as_name="blocks",
                ctx_tokens=ctx,
                window_tokens=Figure("window_tokens", group.window, "tokens", memory.CONFIG),
                batched_tokens=Figure(
                    "batched_tokens", plan.step_tokens(ctx.value), "tokens", "`max_num_batched_tokens`, or the engine's default"
                ),
                block_tokens=block,
            )
        tokens = ctx if group.kind == "full" else Figure("ctx_tokens", group.window, "tokens", memory.CONFIG)
        return f.full_blocks.of(as_name="blocks", ctx_tokens=tokens, block_tokens=block)

    def sequence_bytes(self, plan: Deployment, ctx: Figure) -> Figure:
        """Bytes of a sequence over the ranks of one replica of the cache."""
        parts = [
            f.grouped_bytes.of(
                as_name=f"{group.kind}_block_bytes",
                blocks=self.blocks(plan, group, block, ctx),
                groups=Figure("groups", -(-group.layers // self.size), "", memory.CONFIG),
                layers_per_group=Figure("layers_per_group", self.size, "", memory.CONFIG),
                page_bytes=Figure("page_bytes", self.page_bytes, "B", memory.CONFIG),
                ranks=Figure("ranks", plan.holders * plan.pp, "", layout.LAYOUT),
            )
            for group, block in zip(self.groups, self.block_tokens, strict=True)
        ]
        return parts[0] if len(parts) == 1 else total("kv_bytes_per_sequence", "B", tuple(parts))


def _groups(model: Model, plan: Deployment) -> list[Group]:
    engine = plan.engine
    kinds: dict[tuple[str, int, float, Any], int] = {}
    for mixer, layers in layout.pooled_mixers(model, plan):
        held = -(-layers // plan.pp)
        copies = layout.kv_replication(mixer, plan).value
        shape = tuple(entry.args for entry in mixer.entries)
        per_kind: dict[tuple[str, int], float] = {}
        for entry in mixer.entries:
            if not entry.stored:
                continue
            kind = (
                "fixed"
                if entry.tokens is not None
                else "full"
                if entry.window is None
                else "chunked"
                if mixer.kind == "chunked"
                else "window"
            )
            each = entry_bytes(engine, mixer, entry, 1, plan).value * copies / plan.holders / entry.ratio
            key = (kind, entry.tokens or entry.window or 0)
            per_kind[key] = per_kind.get(key, 0) + each
        for (kind, span), each in per_kind.items():
            kinds[kind, span, each, shape] = kinds.get((kind, span, each, shape), 0) + held
        states = sum(figure.value for figure in state_bytes(mixer, 1, model, plan))
        if states:
            kinds["state", 0, states / plan.tp, ()] = kinds.get(("state", 0, states / plan.tp, ()), 0) + held
    return [Group(kind, layers, each, span) for (kind, span, each, _), layers in kinds.items()]


def capacity_tokens(model: Model, plan: Deployment, ctx: int, budget: float, exact: float) -> int:
    """Cached tokens as the engine counts them."""
    engine = plan.engine
    per_rank = budget / plan.ranks
    if engine.grouped and (groups := Groups.of(model, plan)):
        blocks = max(0, math.floor(per_rank / (groups.page_bytes * groups.size)))
        if len(groups.groups) == 1 and groups.block_tokens[0]:
            return blocks * groups.block_tokens[0] * plan.dp
        if engine.log_groups:
            return (
                blocks // groups.number * min(tokens for tokens in groups.block_tokens if tokens) * plan.dp
                if any(groups.block_tokens)
                else 0
            )
    return max(0, math.floor(exact * ctx))


def state_blocks(model: Model, plan: Deployment, budget: float) -> int | None:
    """Blocks that a rank's pool has for states, of which every running sequence needs one; None without states."""
    groups = Groups.of(model, plan) if plan.engine.grouped else None
    if groups is None or not any(group.kind == "state" for group in groups.groups):
        return None
    return max(0, math.floor(budget / plan.ranks / (groups.page_bytes * groups.size)))


def sure_states(model: Model, plan: Deployment, budget: float) -> int | None:
    """Of those, what a pool surely has: one that was logged is exact, an estimate was up to a sixth too large (vllm-project/recipes
    pull 831: 939 of 1,122). None without states."""
    found = state_blocks(model, plan, budget)
    return found if found is None or plan.pool_bytes is not None else found * 5 // 6


def prefix_cached(model: Model, plan: Deployment) -> bool:
    """Whether states are charged a second block, as vLLM does with prefix caching, which such models need a flag for."""
    return plan.engine.grouped and plan.engine.state_blocks > 1 and state_blocks(model, plan, 0) is not None
