"""What a layout does to weights and caches: who holds what, and how often."""

from __future__ import annotations

from typing import Any

from llmcalc.architecture import Attention, Model
from llmcalc.estimate import memory
from llmcalc.figures import Figure, total
from llmcalc.formulas import compute, time
from llmcalc.formulas import memory as f
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment

LAYOUT = "layout"


def kv_replication(mixer: Attention, plan: Deployment) -> Figure:
    """How many copies of a mixer's cache the ranks of one tensor-parallel group hold."""
    return compute.kv_replication.of(
        kv_heads=Figure("kv_heads", max(mixer.kv_heads, 1), "", memory.CONFIG), tensor_parallel=Figure("tensor_parallel", plan.tp, "", LAYOUT)
    )


def sequence_bytes(model: Model, plan: Deployment, ctx: Figure, *, reads: bool = False) -> Figure:
    """Cache and state of one sequence over all ranks that hold a part of it; with `reads`, what one decode step reads of it."""
    plain = memory.state_format(model, plan.kv)
    parts: list[Figure] = []
    for mixer, layers in memory.mixers(model):
        for entry in mixer.entries:
            if not entry.stored and not reads:
                continue
            kept = memory.cached(entry, ctx)
            if reads and entry.reads is not None:
                kept = f.tokens_in_window.of(as_name="read_tokens", ctx_tokens=kept, window_tokens=Figure("top_k", entry.reads, "tokens", memory.CONFIG))
            held = f.cache_bytes.of(
                as_name=f"{mixer.kind}_cache_bytes", bytes_per_token=memory.entry_bytes(entry, layers, plan.kv), cached_tokens=kept
            )
            if plan.tp > 1:
                copies = kv_replication(mixer, plan)
                if copies.value != 1:
                    held = f.replicated_bytes.of(as_name=held.name, held_bytes=held, copies=copies)
            parts.append(held)
        parts += memory.state_figures(mixer, layers, plain)
    return parts[0] if len(parts) == 1 else total("kv_read_bytes" if reads else "kv_bytes_per_sequence", "B", tuple(parts))


def weight_split(model: Model) -> tuple[int, int]:
    """(parameters every rank group needs, parameters of routed experts) of the language model."""
    experts = sum(layers * weight.params for layers, weight in model_weights(model) if weight.part == "experts" and weight.copies > 1)
    return memory.language_params(model) - experts, experts


def tower_params(model: Model) -> int:
    """Parameters of the towers; 0 where their shape is not read (the estimate says so)."""
    return sum(weight.params for weight in model.towers or ())


def held_weight_bytes(model: Model, plan: Deployment) -> Figure:
    """Weights over all ranks: experts once, the rest once per data-parallel group. Towers are held but never read by a decode step."""
    dense, experts = weight_split(model)
    bits = Figure("bits_per_weight", plan.weights.bits, "bit", plan.weights.name)
    rest = f.weight_bytes.of(as_name="dense_weight_bytes", params=Figure("params", dense + tower_params(model), "params", memory.CONFIG), bits_per_weight=bits)
    if plan.dp > 1:
        rest = f.replicated_bytes.of(as_name="dense_weight_bytes", held_bytes=rest, copies=Figure("copies", plan.dp, "", LAYOUT))
    if not experts:
        return Figure("weight_bytes", rest.value, rest.unit, rest.origin, rest.formula, rest.inputs)
    routed = f.weight_bytes.of(as_name="expert_weight_bytes", params=Figure("params", experts, "params", memory.CONFIG), bits_per_weight=bits)
    return total("weight_bytes", "B", (rest, routed))


def read_weight_bytes(model: Model, plan: Deployment, tokens: Any) -> tuple[Figure, Figure | None]:
    """(dense weights, expert weights) that a step of `tokens` tokens reads, each once.

    A mixture reads the experts that the tokens are expected to touch between them, not all and not only those of one token.
    """
    dense, _ = weight_split(model)
    bits = Figure("bits_per_weight", plan.weights.bits, "bit", plan.weights.name)
    rest = f.weight_bytes.of(as_name="dense_read_bytes", params=Figure("params", dense, "params", memory.CONFIG), bits_per_weight=bits)
    kinds: dict[tuple[int, int], int] = {}
    for group in model.groups:
        mlp = group.layer.mlp
        for weight in group.layer.all_weights:
            if weight.part == "experts" and weight.copies > 1:
                top_k = mlp.top_k if mlp else weight.active
                kinds[weight.copies, top_k] = kinds.get((weight.copies, top_k), 0) + group.count * weight.rows * weight.columns
    if not kinds:
        return rest, None
    parts = []
    for (experts, top_k), per_expert in kinds.items():
        touched = time.distinct_experts.of(
            experts=Figure("experts", experts, "", memory.CONFIG),
            top_k=Figure("top_k", top_k, "", memory.CONFIG),
            tokens=Figure("tokens", tokens, "tokens", "--batch"),
        )
        parts.append(
            f.expert_read_bytes.of(params_per_expert=Figure("params_per_expert", per_expert, "params", memory.CONFIG), distinct_experts=touched, bits_per_weight=bits)
        )
    return rest, parts[0] if len(parts) == 1 else total("expert_read_bytes", "B", tuple(parts))


