"""What a layout does to weights and caches: who holds what, and how often."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import Any, Generic, TypeVar

from llmcalc import checkpoint
from llmcalc.architecture import Attention, Entry, Model, Weight
from llmcalc.checkpoint import Checkpoint
from llmcalc.errors import UsageError
from llmcalc.estimate import adapters, memory, offload
from llmcalc.figures import Figure, total
from llmcalc.formats import Format
from llmcalc.formulas import compute, time
from llmcalc.formulas import memory as f
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment

LAYOUT = "layout"
SHARED_TABLES = ("embed_tokens", "shared_head.head")
"""Copies in prediction layers of tables that engines keep once."""
ACTIVATION_BYTES = 2
"""Per element of activations: engines compute in 16 bits."""


def experts(model: Model) -> int:
    """Routed experts of the widest mixture; 0: dense."""
    return max((group.layer.mlp.experts for group in model.groups if group.layer.mlp), default=0)


def tp_obstacle(model: Model, tp: int) -> str | None:
    """Why a model cannot be cut into tp ranks, or None: query heads must divide, KV heads divide or be copied whole."""
    for mixer, _ in memory.mixers(model):
        if mixer.query_heads and mixer.query_heads % tp:
            return f"{mixer.query_heads} query heads are not divisible by {tp}"
        if mixer.kv_heads and mixer.kv_heads % tp and tp % mixer.kv_heads:
            return f"{mixer.kv_heads} KV heads are neither divisible by {tp} nor a divisor of it"
    return None


def obstacle(model: Model, plan: Deployment) -> str | None:
    """Why an engine refuses this layout, or None."""
    reason = tp_obstacle(model, plan.tp)
    held = min((mixer.kv_heads for mixer, _ in memory.mixers(model) if mixer.kv_heads), default=1)
    if reason is None and plan.dcp > 1 and plan.dcp * held > plan.tp:
        reason = f"dcp {plan.dcp} of tp {plan.tp}: no {plan.dcp} ranks hold the same of {held} KV heads"
    if plan.holders > 1 and not plan.engine.tensor:
        reason = f"{plan.engine.family} deals whole layers and cuts no matrix"
    if plan.engine.one_host and plan.ranks > (host := plan.device.devices_per_host or max(1, plan.device.devices_per_node)):
        reason = f"{plan.engine.family} stays on one host, and {plan.ranks} devices are on {-(-plan.ranks // host)}"
    if reason is None and plan.pp > len(model.stack.layers):
        reason = f"{len(model.stack.layers)} layers do not make {plan.pp} stages"
    many = experts(model)
    copies = many + plan.redundant_experts
    if reason is None and plan.ep > 1 and (not many or copies % plan.ep):
        reason = f"{copies} experts are not divisible by {plan.ep}" if many else "there are no experts to deal"
    return reason


def pooled_mixers(model: Model, plan: Deployment) -> list[tuple[Attention, int]]:
    """Distinct mixers with a part in the pool: the model's, and those of what drafts for it. Errors: no-prediction-layers."""
    own = memory.mixers(model)
    if not plan.draft_tokens:
        return own
    if plan.drafter is not None:
        return own + memory.mixers(plan.drafter)

    def shapes(weights: tuple[Weight, ...]) -> Counter[tuple[str, int, int]]:
        return Counter((weight.name.rpartition(".")[2], weight.rows, weight.columns) for weight in weights)

    held = shapes(model.stack.mtp)
    for mixer, _ in reversed(own):
        number = min((held[shape] // count for shape, count in shapes(mixer.weights).items()), default=0)
        if number and mixer.entries:
            return [*own, (mixer, number)]
    raise UsageError("no-prediction-layers", f"{model.id} has no layers that predict ahead", "name the model that drafts: `draft=MODEL`")


def kv_replication(mixer: Attention, plan: Deployment) -> Figure:
    """How many copies of a mixer's cache the ranks of one tensor-parallel group hold."""
    return compute.kv_replication.of(
        kv_heads=Figure("kv_heads", max(mixer.kv_heads, 1), "", memory.CONFIG),
        tensor_parallel=Figure("tensor_parallel", plan.tp // plan.dcp, "", LAYOUT),
    )


def entries_read(entry: Entry, ctx: Figure) -> Figure:
    """Cache entries that one query reads: all that are kept, or the best of them."""
    kept = memory.cached(entry, ctx)
    if entry.reads is None:
        return kept
    return f.tokens_in_window.of(
        as_name="read_tokens", ctx_tokens=kept, window_tokens=Figure("top_k", entry.reads, "tokens", memory.CONFIG)
    )


def entry_bytes(mixer: Attention, entry: Entry, layers: int, plan: Deployment, kept: Figure) -> Figure:
    """Bytes of `kept` entries over all ranks that hold a copy of them."""
    size = memory.entry_bytes(entry, layers, plan.kv, scales=not plan.engine.nominal)
    held = f.cache_bytes.of(as_name=f"{mixer.kind}_cache_bytes", bytes_per_token=size, cached_tokens=kept)
    copies = kv_replication(mixer, plan) if plan.tp > 1 else None
    if copies is None or copies.value == 1:
        return held
    return f.replicated_bytes.of(as_name=held.name, held_bytes=held, copies=copies)


def sequence_bytes(model: Model, plan: Deployment, ctx: Figure, *, reads: bool = False) -> Figure:
    """Cache and state of one sequence over all ranks that hold a part of it; with `reads`, what one decode step reads of it."""
    plain = memory.state_format(model, plan.kv)
    parts: list[Figure] = []
    for mixer, layers in memory.mixers(model) if reads else pooled_mixers(model, plan):
        for entry in mixer.entries:
            if entry.stored or reads:
                kept = entries_read(entry, ctx) if reads else memory.cached(entry, ctx)
                parts.append(entry_bytes(mixer, entry, layers, plan, kept))
        parts += [_on_each(state, plan) for state in memory.state_figures(mixer, layers, plain)]
    return parts[0] if len(parts) == 1 else total("kv_read_bytes" if reads else "kv_bytes_per_sequence", "B", tuple(parts))


def _on_each(state: Figure, plan: Deployment) -> Figure:
    """A state, which every group that shares a context holds."""
    if plan.cp == 1:
        return state
    return f.replicated_bytes.of(as_name=state.name, held_bytes=state, copies=Figure("copies", plan.cp, "", LAYOUT))


routed = offload.routed


def weight_split(model: Model) -> tuple[int, int]:
    """(parameters every rank group needs, parameters of routed experts) of the language model."""
    experts = sum(layers * weight.params for layers, weight in model_weights(model) if routed(weight))
    return memory.language_params(model) - experts, experts


def encoder_params(model: Model) -> int:
    """Parameters of an encoder: they read the input once, and no decode step touches them."""
    return sum(layers * weight.params for layers, weight in model_weights(model) if weight.part == "encoder")


def tower_params(model: Model) -> int:
    """Parameters in the layers of what reads images and sound, as far as its shape is known."""
    return sum(weight.params for weight in model.towers or () if weight.copies > 1)


def held_weight_bytes(model: Model, plan: Deployment) -> Figure:
    """Weights over all ranks: experts once, the rest once per data-parallel group, without what lies on the host.

    Towers are held but never read by a decode step.
    """
    return offload.resident(_held_anywhere(model, plan), offload.hosted(model, plan).weight_bytes, "weight_bytes")


def _held_anywhere(model: Model, plan: Deployment) -> Figure:
    _, routed_params = weight_split(model)
    ahead = [draft_weight_bytes(model, plan)] if plan.draft_tokens else []
    if tuned := adapters.held_bytes(model, plan):
        ahead.append(tuned)
    rest, dealt = _parts(Same(model), Same(plan.weights), plan.encoder)
    if plan.dp * plan.cp > 1:
        copies = Figure("copies", plan.dp * plan.cp, "", LAYOUT)
        rest = f.replicated_bytes.of(as_name="dense_weight_bytes", held_bytes=rest, copies=copies)
    if routed_params and plan.redundant_experts:
        more = Figure("copies", 1 + plan.redundant_experts / experts(model), "", f"{plan.redundant_experts} more of each mixture's")
        dealt = f.replicated_bytes.of(as_name="expert_weight_bytes", held_bytes=dealt, copies=more)
    if not routed_params and not ahead:
        return replace(rest, name="weight_bytes")
    return total("weight_bytes", "B", (rest, *((dealt,) if routed_params else ()), *ahead))


T = TypeVar("T")


class Same(Generic[T]):
    """A key that is the very object: comparing models field by field takes longer than what is kept by them."""

    __slots__ = ("it",)

    def __init__(self, it: T) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.it is other.it


@lru_cache(maxsize=64)
def _parts(model: Same[Model], fmt: Same[Format], towers: bool) -> tuple[Figure, Figure]:
    """Weights of which every group needs a copy, and routed experts: the same whatever holds them."""
    rest = memory.weight_bytes(model.it, fmt.it, "dense_weight_bytes", lambda weight: not routed(weight), towers=towers)
    return rest, memory.weight_bytes(model.it, fmt.it, "expert_weight_bytes", routed)


WHOLE = frozenset({"q_a_proj", "kv_a_proj_with_mqa", "indexer.wq_b", "indexer.wk", "indexer.q_b_proj", "indexer.k_proj"})
"""Projections to latents and of indexers, of which every tensor-parallel rank holds all. [vllm models/deepseek_v2.py: ReplicatedLinear]"""


@lru_cache(maxsize=64)
def _whole(model: Same[Model], fmt: Same[Format]) -> Figure:
    return memory.weight_bytes(model.it, fmt.it, "held_bytes", lambda weight: weight.name in WHOLE or weight.part in ("router", "indexer"))


def copied_weight_bytes(model: Model, plan: Deployment) -> Figure | None:
    """What a rank holds beyond its part of the weights, as some are not cut; None where nothing is."""
    held = _whole(Same(model), Same(plan.weights)) if plan.tp > 1 and plan.engine.kind == "server" else None
    if held is None or not held.value:
        return None
    tp, stages = Figure("tensor_parallel", plan.tp, "", LAYOUT), Figure("stages", plan.pp, "", LAYOUT)
    return f.copied_bytes.of(held_bytes=held, tensor_parallel=tp, stages=stages)


def draft_weight_bytes(model: Model, plan: Deployment) -> Figure:
    """Weights of what drafts: a model of its own, or the target's prediction layers, which share its tables."""
    if plan.drafter is not None:
        fmt, _ = memory.weight_format(plan.drafter, "auto")
        return memory.weight_bytes(plan.drafter, fmt, "draft_weight_bytes", lambda _: True)
    if isinstance(plan.weights, Checkpoint):
        kept = zip(model.stack.mtp, plan.weights.mtp, strict=True)
        held = sum(checkpoint.size(weight, parts) for weight, parts in kept if weight.name not in SHARED_TABLES)
        return Figure("draft_weight_bytes", held, "B", f"as the checkpoint stores them ({plan.weights.name})")
    params = sum(weight.params for weight in model.stack.mtp if weight.name not in SHARED_TABLES)
    return f.weight_bytes.of(
        as_name="draft_weight_bytes",
        params=Figure("params", params, "params", memory.CONFIG),
        bits_per_weight=Figure("bits_per_weight", plan.weights.bits, "bit", plan.weights.name),
    )


def expert_bits(model: Model, plan: Deployment, experts: int, params: int) -> Figure:
    """Bits per parameter of the mixtures with that many experts: the format's, or what the checkpoint takes for them."""
    if not isinstance(plan.weights, Checkpoint):
        return Figure("bits_per_weight", plan.weights.bits, "bit", plan.weights.name)

    def chosen(weight: Weight) -> bool:
        return routed(weight) and weight.copies == experts

    held = memory.weight_bytes(model, plan.weights, "expert_weight_bytes", chosen)
    return f.effective_bits.of(as_name="bits_per_weight", weight_bytes=held, params=Figure("params", params, "params", memory.CONFIG))


def _read_again(model: Model, plan: Deployment) -> list[Figure]:
    """What further layers read of blocks that they share with others."""

    def again(uses: int) -> Figure:
        held = memory.weight_bytes(model, plan.weights, "shared_bytes", lambda weight: weight.uses == uses)
        copies = Figure("uses", uses - 1, "", "further layers that use the shared block")
        return f.replicated_bytes.of(as_name="shared_read_bytes", held_bytes=held, copies=copies)

    return [again(uses) for uses in sorted({weight.uses for _, weight in model_weights(model)} - {1})]


def read_weight_bytes(model: Model, plan: Deployment, tokens: Any) -> tuple[Figure, Figure | None]:
    """(dense weights of one rank group, expert weights of all) that a step of `tokens` tokens reads, each once.

    A mixture reads the experts that the tokens are expected to touch between them, not all and not only those of one token. Of the
    tables beside the input embedding a token looks up one row.
    """

    def dense(weight: Weight) -> bool:
        looked_up = weight.part == "embedding" and weight not in model.stack.embedding
        return not routed(weight) and weight.part != "encoder" and not looked_up

    rest = memory.weight_bytes(model, plan.weights, "dense_read_bytes", dense)
    if again := _read_again(model, plan):
        rest = total("dense_read_bytes", "B", (rest, *again))
    if tuned := adapters.read_bytes(model, plan, tokens):
        rest = total("dense_read_bytes", "B", (rest, tuned))
    kinds: dict[tuple[int, int], int] = {}
    for group in model.groups:
        mlp = group.layer.mlp
        for weight in group.layer.all_weights:
            if routed(weight):
                top_k = mlp.top_k if mlp else weight.active
                kinds[weight.copies, top_k] = kinds.get((weight.copies, top_k), 0) + group.count * weight.rows * weight.columns
    if not kinds:
        return rest, None
    parts = []
    for (experts, top_k), per_expert in kinds.items():
        bits = expert_bits(model, plan, experts, per_expert * experts)
        touched = time.distinct_experts.of(
            experts=Figure("experts", experts + plan.redundant_experts, "", memory.CONFIG),
            top_k=Figure("top_k", top_k, "", memory.CONFIG),
            tokens=Figure("tokens", tokens, "tokens", "`batch`"),
        )
        parts.append(
            f.expert_read_bytes.of(
                params_per_expert=Figure("params_per_expert", per_expert, "params", memory.CONFIG),
                distinct_experts=touched,
                bits_per_weight=bits,
            )
        )
    return rest, parts[0] if len(parts) == 1 else total("expert_read_bytes", "B", tuple(parts))
