"""What an engine holds beside weights, and what it charges for a sequence: blocks, windows, states, layouts."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from llmcalc.architecture import Attention, Entry, Layer, Model
from llmcalc.checkpoint import Checkpoint
from llmcalc.engines import GIB, Engine
from llmcalc.errors import UsageError
from llmcalc.estimate import layout, memory
from llmcalc.estimate.tuples import Tuples
from llmcalc.figures import Figure, total
from llmcalc.formats import FORMATS
from llmcalc.formulas import engines as f
from llmcalc.formulas import memory as m
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment
from llmcalc.units import size, whole

DRIVER_BYTES, DRIVER_SHARE = 0.36 * GIB, 0.0022
"""What NVIDIA's driver keeps of the size that nvidia-smi prints: 79.18 GiB of 79.65 (H100), 23.58 of 24 (3090), 94.97 of 95.59."""


def of(engine: Engine, name: str, value: Any, unit: str = "") -> Figure:
    """A fact of an engine."""
    return Figure(name, value, unit, f"engine {engine.name}")


# ---- beside the weights -------------------------------------------------------------------------------------------


def device_bytes(plan: Deployment) -> float:
    """Memory of one device, as the engine counts it: nominal, or the driver's. Errors: no-memory-size."""
    device = plan.device
    each = device.memory_bytes if plan.engine.nominal else device.memory_usable_bytes
    if each is None:
        raise UsageError("no-memory-size", f"{device.id} comes with any amount of memory", f"name it with one, such as '{device.id} 256GB'")
    return each


def visible_bytes(plan: Deployment) -> Figure:
    """Memory of one device as a program sees it. Errors: no-memory-size, wrong-engine."""
    device = plan.device
    if plan.engine.family == "mlx" and device.vendor != "Apple":
        raise UsageError("wrong-engine", f"mlx runs on Apple's devices, not on {device.id}", "try --engine llama.cpp")
    each = device_bytes(plan)
    reported = Figure("reported_bytes", each, "B", f"{device.id}, as the driver reports it")
    if device.vendor != "NVIDIA" or device.kind != "gpu":
        return Figure("visible_bytes", each, "B", reported.origin)
    return f.visible_bytes.of(
        reported_bytes=reported,
        driver_bytes=Figure("driver_bytes", DRIVER_BYTES, "B", "NVIDIA's driver"),
        driver_share=Figure("driver_share", DRIVER_SHARE, "", "NVIDIA's driver"),
    )


def graph_count(sequences: int) -> int:
    """Batch sizes that vLLM captures for mixed steps (up to twice the sequences and 512) and again for decode steps."""
    sizes = [1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)]
    return sum(1 for each in sizes if each <= min(2 * sequences, 512)) + sum(1 for each in sizes if each <= sequences)


def layer_widths(layer: Layer, hidden: int, tp: int) -> float:
    """Elements per token that the products of a layer's mixer or MLP hold at once: every output and the widest input."""
    found = 0.0
    parts: dict[str, list[tuple[int, int]]] = {}
    for weight in layer.all_weights:
        if weight.columns > 1 and not layout.routed(weight) and weight.part in ("attention", "mlp", "shared experts"):
            parts.setdefault(weight.part, []).append((weight.rows, weight.columns))
    for shapes in parts.values():
        cut = [width if width == hidden else width / tp for width in (*(rows for rows, _ in shapes), max(columns for _, columns in shapes))]
        found = max(found, sum(cut))
    return found


def mixture(layer: Layer) -> bool:
    """Whether a layer's MLP chooses experts token by token."""
    return any(layout.routed(weight) for weight in layer.all_weights)


def expert_shape(model: Model) -> tuple[int, int, int] | None:
    """(experts per token, width in, width inside) of the widest mixture."""
    found = []
    for group in model.groups:
        mlp = group.layer.mlp
        down = [weight for weight in mlp.weights if layout.routed(weight) and weight.columns > 1] if mlp else []
        if mlp and down:
            found.append((mlp.top_k, down[-1].rows, down[-1].columns))
    return max(found, key=lambda shape: shape[0] * (shape[1] + shape[2]), default=None)


def activation(model: Model, plan: Deployment, ctx: Any) -> Figure:
    """Peak of a step on one device: hidden states, workspaces, and the larger of a layer and the sampler."""
    engine = plan.engine
    hidden, vocab = model.stack.hidden, model.stack.vocab
    tokens = Figure(
        "tokens", plan.step_tokens(ctx), "tokens", "--max-num-batched-tokens" if plan.batched_tokens else f"engine {engine.name}, default"
    )
    width = Figure("bytes_per_element", layout.ACTIVATION_BYTES, "B", "16-bit activations")
    rows = tokens.value if engine.whole_layers else plan.slots
    logits = f.sampler_bytes.of(
        sequences=Figure("sequences", rows, "", "--max-num-seqs" if plan.max_sequences else f"engine {engine.name}, default"),
        vocab=Figure("vocab", vocab, "", memory.CONFIG),
        bytes_per_logit=of(engine, "bytes_per_logit", engine.logit_bytes, "B"),
    )

    def products(*, experts: bool) -> Figure:
        spans = [layer_widths(group.layer, hidden, plan.tp) for group in model.groups if mixture(group.layer) == experts]
        return f.forward_bytes.of(
            tokens=tokens, widths=Figure("widths", max(spans, default=0), "elements", memory.CONFIG), bytes_per_element=width
        )

    states = f.forward_bytes.of(
        as_name="hidden_bytes", tokens=tokens, widths=Figure("widths", 2 * hidden, "elements", memory.CONFIG), bytes_per_element=width
    )
    dense, mixed = products(experts=False), products(experts=True)
    workspace = Figure("workspace_bytes", 0, "B", "no mixture of experts")
    if shape := expert_shape(model):
        top_k, into, inner = shape
        workspace = f.expert_workspace_bytes.of(
            as_name="workspace_bytes",
            tokens=tokens,
            top_k=Figure("top_k", top_k, "", memory.CONFIG),
            hidden=Figure("hidden", into, "", memory.CONFIG),
            inner=Figure("inner", held := inner if plan.ep > 1 else inner / plan.tp, "", memory.CONFIG),
            second=of(engine, "second", max(into, held) if engine.wide_buffers else held + into),
            bytes_per_element=width,
        )
        if not engine.keeps_workspaces:
            mixed = total("forward_bytes", "B", (mixed, workspace))
            workspace = Figure("workspace_bytes", 0, "B", f"only while a layer runs in {engine.name}")
    forward = max(dense, mixed, key=lambda figure: figure.value)
    step = f.activation_bytes.of(hidden_bytes=states, workspace_bytes=workspace, forward_bytes=forward, sampler_bytes=logits)
    image = encoder(model, plan, tokens)
    return f.profile_bytes.of(encoder_bytes=image[0], image_bytes=image[1], activation_bytes=step) if image else step


def encoder(model: Model, plan: Deployment, tokens: Figure) -> tuple[Figure, Figure] | None:
    """(peak of encoding the images that a profile takes, the encoded images), where a tower merges patches as Qwen's do."""
    tower = {weight.name: weight for weight in model.towers or ()}
    if not plan.engine.image_tokens or not tower.keys() >= {"patch_embed.proj", "merger.fc1", "merger.fc2"}:
        return None
    hidden, gate = tower["patch_embed.proj"].rows, tower.get("gate_proj")
    inner = gate or tower["fc1"]
    budget = max(plan.engine.image_tokens, tokens.value)
    merged = tower["merger.fc1"].columns // hidden
    width = Figure("bytes_per_element", layout.ACTIVATION_BYTES, "B", "16-bit activations")
    peak = f.encoder_bytes.of(
        patches=of(plan.engine, "patches", budget * merged),
        hidden=Figure("hidden", hidden, "", memory.CONFIG),
        inner=Figure("inner", inner.rows, "", memory.CONFIG),
        products=Figure("products", 3 if gate else 2, "", memory.CONFIG),
        bytes_per_element=width,
    )
    out = sum(weight.rows * weight.copies for name, weight in tower.items() if name in ("merger.fc2", "deepstack.fc2"))
    widths = Figure("widths", out, "elements", memory.CONFIG)
    encoded = f.forward_bytes.of(as_name="image_bytes", tokens=of(plan.engine, "tokens", budget), widths=widths, bytes_per_element=width)
    return peak, encoded


def padding(model: Model, plan: Deployment) -> Figure | None:
    """What the kernels add to MXFP4 experts on one device, or None."""
    shape, (inside, across) = expert_shape(model), plan.engine.expert_tiles
    if not shape or across == 1:
        return None
    parts = []
    _, into, inner = shape
    held = inner if plan.ep > 1 else inner / plan.tp
    wider, longer = -(-held // inside) * inside / held, -(-into // across) * across / into
    for index, (layers, weight) in enumerate(model_weights(model)):
        name = plan.weights.of(index).name if isinstance(plan.weights, Checkpoint) else plan.weights.name
        if name == "mxfp4" and layout.routed(weight) and weight.columns > 1 and wider * longer > 1:
            down = weight.columns == inner and weight.rows == into
            by_row, by_column = (longer, wider) if down else (wider, longer)
            parts.append(
                f.padding_bytes.of(
                    matrices=Figure("matrices", layers * weight.copies / plan.ranks, "", memory.CONFIG),
                    rows=Figure("rows", weight.rows, "", memory.CONFIG),
                    columns=Figure("columns", weight.columns, "", memory.CONFIG),
                    padded_rows=of(plan.engine, "padded_rows", weight.rows * by_row),
                    padded_columns=of(plan.engine, "padded_columns", weight.columns * by_column),
                    bits=Figure("bits", FORMATS["mxfp4"].bits, "bit", "mxfp4"),
                )
            )
    return total("padding_bytes", "B", tuple(parts)) if parts else None


def overheads(model: Model, plan: Deployment, ctx: Any) -> dict[str, Figure]:
    """What the engine holds on one device beside weights and cache."""
    engine = plan.engine
    found: dict[str, Figure] = {}
    if engine.share_rule is None:
        found["activations"] = activation(model, plan, ctx)
    if engine.graphs:
        found["CUDA graphs"] = f.graph_bytes.of(
            fixed_bytes=of(engine, "fixed_bytes", engine.graphs[0], "B"),
            graphs=Figure("graphs", graph_count(plan.slots), "", "captured batch sizes"),
            bytes_per_graph=of(engine, "bytes_per_graph", engine.graphs[1], "B"),
        )
    if padded := padding(model, plan):
        found["padding of experts"] = padded
    linked = plan.device.link is not None and "NVLink" in plan.device.link.type
    found["other buffers"] = of(engine, "other_bytes", engine.other_bytes[0 if plan.ranks == 1 else 1 + linked], "B")
    return found


# ---- one sequence -------------------------------------------------------------------------------------------------


def entry_bytes(engine: Engine, mixer: Attention, entry: Entry, layers: int, plan: Deployment) -> Figure:
    """Bytes per cache entry of alike layers in the engine's own layout."""
    args = {name: Figure(name, value, "", memory.CONFIG) for name, value in entry.args}
    if engine.packed and mixer.kind == "mla-sparse":
        args |= {"layers": Figure("layers", layers, "", memory.CONFIG)}
        args |= {name: of(engine, name, value, "B") for name, value in (("element_bytes", 1), ("scale_bytes", 4))}
        if entry.formula is m.index_bytes_per_token:
            return f.packed_index_bytes.of(args)
        if plan.kv.name == "fp8":
            return f.packed_latent_bytes.of(args, rope_bytes=of(engine, "rope_bytes", 2, "B"))
    return memory.entry_bytes(entry, layers, plan.kv)


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
                    cached_tokens=charged(entry, plan, ctx),
                )
                split = engine.whole_layers or copies.value == 1
                caches.append(held if split else m.replicated_bytes.of(as_name=held.name, held_bytes=held, copies=copies))
        states += state_bytes(mixer, layers, model, plan)
    if engine.state_ratio and caches and states:
        return f.split_pool_bytes.of(
            cache_bytes=total("cache_bytes", "B", tuple(caches)),
            state_bytes=total("state_bytes", "B", tuple(states)),
            state_ratio=of(engine, "state_ratio", engine.state_ratio),
            slots=of(engine, "slots", engine.state_blocks),
        )
    return total("kv_bytes_per_sequence", "B", (*caches, *states))


def charged(entry: Entry, plan: Deployment, ctx: Figure) -> Figure:
    """Cache entries that an engine without equal blocks keeps of a sequence."""
    engine = plan.engine
    block = of(engine, "block_tokens", engine.block_tokens, "tokens")
    if entry.tokens is not None or engine.windows == "full" or entry.window is None:
        kept = Figure("cached_tokens", entry.tokens, "tokens", memory.CONFIG) if entry.tokens is not None else ctx
        kept = f.padded_tokens.of(tokens=kept, block_tokens=block)
    elif engine.windows == "cells":
        kept = f.window_cells.of(
            ctx_tokens=ctx,
            window_tokens=Figure("window_tokens", entry.window, "tokens", memory.CONFIG),
            batched_tokens=of(engine, "batched_tokens", plan.step_tokens(ctx.value), "tokens"),
            block_tokens=block,
        )
    elif engine.windows == "share":
        kept = f.window_share_tokens.of(ctx_tokens=ctx, ratio=of(engine, "ratio", engine.window_share))
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
        block = plan.engine.block_tokens
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
            return of(engine, "blocks", engine.state_blocks + plan.draft_tokens, "blocks")
        block = of(engine, "block_tokens", block_tokens, "tokens")
        if group.kind in ("window", "chunked"):
            chosen = f.window_blocks if group.kind == "window" else f.chunk_blocks
            return chosen.of(
                as_name="blocks",
                ctx_tokens=ctx,
                window_tokens=Figure("window_tokens", group.window, "tokens", memory.CONFIG),
                batched_tokens=Figure(
                    "batched_tokens", plan.step_tokens(ctx.value), "tokens", "--max-num-batched-tokens, or the engine's default"
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
                ranks=Figure("ranks", plan.tp * plan.pp, "", layout.LAYOUT),
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
            each = entry_bytes(engine, mixer, entry, 1, plan).value * copies / plan.tp / entry.ratio
            key = (kind, entry.tokens or entry.window or 0)
            per_kind[key] = per_kind.get(key, 0) + each
        for (kind, span), each in per_kind.items():
            kinds[kind, span, each, shape] = kinds.get((kind, span, each, shape), 0) + held
        states = sum(figure.value for figure in state_bytes(mixer, 1, model, plan))
        if states:
            kinds["state", 0, states / plan.tp, ()] = kinds.get(("state", 0, states / plan.tp, ()), 0) + held
    return [Group(kind, layers, each, span) for (kind, span, each, _), layers in kinds.items()]


def words(model: Model, plan: Deployment, ctx: int) -> tuple[str, ...]:
    """How the engine counts a sequence, kind by kind of layer."""
    engine = plan.engine
    found = []
    at = Figure("ctx_tokens", ctx, "tokens", "--ctx")
    groups = Groups.of(model, plan) if engine.grouped else None
    if tuples := Tuples.of(model, plan):
        return (f"{engine.name} packs this cache in fp8 whatever its format, and charges a sequence {tuples.words(plan, at)}",)
    if groups:
        for group, block in zip(groups.groups, groups.block_tokens, strict=True):
            number = groups.blocks(plan, group, block, at).value
            each = f"{number:,} blocks of {block:,} tokens" if block else f"{number:,} blocks of {size(groups.page_bytes)} per layer"
            found.append(f"{engine.name} charges {group.kind} layers {each}")
        if prefix_cached(model, plan):
            found.append("one block of the states is prefix caching's, --enable-prefix-caching")
        if groups.number > 1:
            padding = sum(-(-group.layers // groups.size) * groups.size - group.layers for group in groups.groups)
            found.append(f"layers go in {groups.number} groups of {groups.size}" + (f", {padding} of padding" if padding else ""))
        if any(group.kind in ("window", "chunked") for group in groups.groups):
            found.append(f"a step of {plan.step_tokens(ctx):,} tokens")
        return tuple(found)
    for mixer, _ in memory.mixers(model):
        for entry in mixer.entries[:1]:
            if entry.stored:
                found.append(f"{engine.name} charges {mixer.kind} layers {whole(charged(entry, plan, at).value):,} tokens")
    if engine.state_ratio and any(mixer.states for mixer, _ in memory.mixers(model)):
        share = engine.state_ratio / (1 + engine.state_ratio)
        found.append(f"{engine.name} keeps {share:.0%} of its pool for states, {engine.state_blocks} slots a sequence")
    return tuple(dict.fromkeys(found))


# ---- what the engine would say ------------------------------------------------------------------------------------


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


def log_lines(plan: Deployment, ctx: int, tokens: int, concurrency: float, budget: float) -> tuple[str, ...]:
    """What the engine prints at start-up, per device."""
    each = budget / plan.ranks / GIB
    if plan.engine.family == "vllm":
        return (
            f"Available KV cache memory: {each:.2f} GiB",
            f"GPU KV cache size: {tokens // plan.dp:,} tokens",
            f"Maximum concurrency for {ctx:,} tokens per request: {concurrency / plan.dp:.2f}x",
        )
    if plan.engine.family == "sglang":
        return (f"KV Cache is allocated. #tokens: {tokens // plan.dp}", f"max_total_num_tokens={tokens // plan.dp}, context_len={ctx}")
    return ()


def prefix_cached(model: Model, plan: Deployment) -> bool:
    """Whether states are charged a second block, as vLLM does with prefix caching, which such models need a flag for."""
    return plan.engine.grouped and plan.engine.state_blocks > 1 and state_blocks(model, plan, 0) is not None


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
    given |= {"prefix": prefix_cached(model, plan), "several": seqs > 1, "drafts": ""}
    if plan.draft_tokens:
        who = {"model": plan.drafter.id} if plan.drafter else {"method": "mtp"}
        given["drafts"] = f"'{json.dumps(who | {'num_speculative_tokens': plan.draft_tokens})}'"
    words = [start.command.format(model=model.id, ctx=ctx, share=f"{plan.share:g}", seqs=seqs, all=ctx * seqs)]
    for flag, what in start.flags:
        value = given[what]
        if value:
            words.append(flag if value is True else f"{flag}{value}" if flag.endswith("=") else f"{flag} {value}")
    return " ".join([*words, start.tail] if start.tail else words)
