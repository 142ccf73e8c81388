"""What a step or a prompt reads and multiplies on one rank, as plain numbers: what the expected times are made from.

Matrices in the weights' format, matrices that are left in 16 bits (the head, routers, attention of 4-bit mixtures) and routed
experts are kept apart, since each has a rate of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from llmcalc import formats
from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint import Checkpoint, size
from llmcalc.estimate import collectives, layout, memory, offload, terms
from llmcalc.figures import Figure, larger, smaller
from llmcalc.formats import Format
from llmcalc.formulas import compute, time
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment, Workload

PLAIN_BITS = 16
EIGHT_BITS = formats.find("q8_0")
FUSED = ("k_proj", "v_proj", "up_proj")
"""Matrices that run in one kernel with q_proj or gate_proj."""
FEW = 8
"""Tokens of a step up to which a mixture unpacks the weights of an expert once for each."""
LOGIT_BYTES = 4
TILE = 32
"""Tokens that desktop kernels multiply an expert with at a time. [ggml-metal mul_mm_id: 32; ggml-cuda mmq: 8 to 128]"""
MICRO_BATCH, CHUNK = 512, 8192
"""Prompt tokens that a desktop engine takes at once, where none is named, and a serving engine."""


@dataclass(slots=True)
class Matrices:
    """Matrices of one format: bytes of one rank, parameters that a token multiplies with there, and where they are multiplied."""

    bytes: float = 0.0
    params: float = 0.0
    compute: str = "bf16"
    bits: float = 16.0
    in_blocks: bool = False


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of one shape: bytes of all layers' copies of one expert on one rank, and the parameters of a token's choice."""

    experts: int
    top_k: int
    bytes_each: float
    params: float
    compute: str
    bits: float

    def touched(self, tokens: Any) -> Any:
        """Experts that a step of so many tokens is expected to touch."""
        return time.distinct_experts(self.experts, self.top_k, tokens)


@dataclass(frozen=True, slots=True)
class Counts:
    """One rank's share of a model. Bytes and parameters; `products`, `mixtures`, `attentions`, `recurrents`: kernels of a step."""

    dense: Matrices
    plain: Matrices
    head: Matrices
    experts: tuple[Experts, ...]
    layers: int
    mixtures: int
    products: int
    attentions: int
    recurrents: int
    hidden: int
    vocab: int

    def expert_bytes(self, tokens: Any) -> Any:
        """Expert weights that a step of so many tokens reads. [B]"""
        return sum((each.bytes_each * each.touched(tokens) for each in self.experts), 0.0)

    @property
    def expert_params(self) -> float:
        """Expert parameters that a token multiplies with, on one rank."""
        return sum(each.params for each in self.experts)


def _format(weight: Weight, index: int, plan: Deployment, plain: Format, sparse: bool, desktop: bool) -> tuple[Format, bool]:
    """What a weight is kept in, and whether a checkpoint says so: the asked format, with what quantisers leave alone."""
    shipped = isinstance(plan.weights, Checkpoint)
    fmt = plan.weights.of(index) if isinstance(plan.weights, Checkpoint) else plan.weights
    if desktop:
        # Published files of models trained in 4-bit floats keep all but the experts in q8_0.
        floats = plan.weights.compute == "fp4" or (shipped and "fp4" in plan.weights.name)
        other = sparse and floats and not layout.routed(weight) and weight.columns > 1
        # Files of mixtures called Q8_K_XL keep their experts in q8_0 (file sizes: 8.6 to 9.4 bits, 10.6 without experts).
        experts = layout.routed(weight) and plan.weights.name == "q8_k_xl"
        return (EIGHT_BITS, False) if other or experts else (fmt, shipped)
    if shipped or plan.weights.bits >= PLAIN_BITS:
        return fmt, shipped
    alone = weight.part in ("head", "embedding", "norms", "router", "state") or weight.columns == 1
    floats = plan.weights.compute == "fp4" and sparse and weight.part == "attention"
    return (plain if alone or floats else plan.weights), False


def _bytes(weight: Weight, layers: int, index: int, plan: Deployment, fmt: Format, shipped: bool) -> float:
    if shipped and isinstance(plan.weights, Checkpoint):
        return size(weight, plan.weights.language[index])
    return layers * weight.params * fmt.bits / 8


def count(model: Model, plan: Deployment, desktop: bool = False) -> Counts:
    """Count a model's matrices on one rank. `desktop`: an engine whose files keep every matrix in the format's average bits."""
    plain = memory.compute_format(model)[0]
    sparse = layout.experts(model) > 0
    dense, kept, head = Matrices(), Matrices(), Matrices()
    chosen: dict[tuple[int, int], list[Any]] = {}
    products = 0
    spread = plan.spread
    for index, (layers, weight) in enumerate(model_weights(model)):
        tied = model.stack.tied and weight in model.stack.embedding[:1]
        if weight.part in ("embedding", "positions", "encoder") and not tied:
            continue
        fmt, shipped = _format(weight, index, plan, plain, sparse, desktop)
        stored = _bytes(weight, layers, index, plan, fmt, shipped) * weight.uses
        if layout.routed(weight):
            found = chosen.setdefault((weight.copies, weight.active), [0.0, 0.0, fmt])
            found[0] += stored / weight.copies / spread
            found[1] += layers * weight.uses * weight.active_params / spread
            if weight.columns > 1:
                found[2] = fmt
            continue
        params = layers * weight.uses * weight.active_params / plan.tp if weight.columns > 1 else 0
        bucket = head if tied or weight.part == "head" else kept if fmt.bits >= PLAIN_BITS else dense
        bucket.bytes += stored / plan.tp
        bucket.params += params
        if weight.columns > 1:
            bucket.compute, bucket.bits = fmt.compute, fmt.bits
            bucket.in_blocks = shipped and isinstance(plan.weights, Checkpoint) and plan.weights.in_blocks(index)
            if not weight.name.endswith(FUSED) and bucket is not head:
                products += layers * weight.uses
    mixed = memory.mixers(model)
    where = offload.hosted(model, plan)
    if where.weight_bytes:
        _leave(where, plan, dense, kept, head, chosen)
    return Counts(
        dense=dense,
        plain=kept,
        head=head,
        experts=tuple(
            Experts(n + plan.redundant_experts, k, each, params, fmt.compute, fmt.bits) for (n, k), (each, params, fmt) in chosen.items()
        ),
        layers=len(model.stack.layers),
        mixtures=sum(group.count for group in model.groups if group.layer.mlp and group.layer.mlp.experts),
        products=products,
        attentions=sum(layers for mixer, layers in mixed if mixer.entries),
        recurrents=sum(layers for mixer, layers in mixed if mixer.states),
        hidden=model.stack.hidden,
        vocab=model.stack.vocab,
    )


def _leave(
    where: offload.Hosted, plan: Deployment, dense: Matrices, kept: Matrices, head: Matrices, chosen: dict[tuple[int, int], list[Any]]
) -> None:
    """Take what lies on the host out of what the card reads and multiplies."""
    stays = 1 - where.layer_share
    over_bus = where.bus_bytes / plan.ranks / max(1.0, dense.bytes)
    for bucket, share in ((dense, stays), (kept, stays), (head, float(not where.head))):
        bucket.bytes, bucket.params = bucket.bytes * share, bucket.params * share
    dense.bytes *= max(0.0, 1 - over_bus)
    for found in chosen.values():
        found[0], found[1] = found[0] * (1 - where.expert_share), found[1] * (1 - where.expert_share)


@dataclass(frozen=True, slots=True)
class Reads:
    """What one decode step does with one sequence's cache on one rank: bytes of caches, bytes of states, FLOP of scores and mixing."""

    cache_bytes: Any
    state_bytes: Any
    flops: Any


def reads(model: Model, plan: Deployment, ctx: Any) -> Reads:
    """Caches, states and arithmetic of one sequence of `ctx` tokens. [B, B, FLOP]"""
    at = Figure("ctx_tokens", ctx, "tokens", "`ctx`")
    plain = memory.state_format(model, plan.kv)
    caches: Any = 0.0
    states: Any = 0.0
    flops: Any = 0.0
    for mixer, layers in memory.mixers(model):
        for entry in mixer.entries:
            kept = layout.entries_read(entry, at)
            caches = caches + layout.entry_bytes(mixer, entry, layers, plan, kept).value
            flops = flops + compute.decode_attention_flops(layers, entry.flops, kept.value, 1)
        states += sum(figure.value for figure in memory.state_figures(mixer, layers, plain))
    return Reads(caches / plan.holders, states / plan.tp, flops / plan.holders)


def rate(plan: Deployment, key: str) -> Any:
    """Dense FLOP/s of one device at a format's rate, or at 16 bits where the device has none of its own.

    Where none is known arithmetic is not counted.
    """
    known = plan.device.compute
    return next((known[name] for name in (key, "bf16", "fp16", "fp32") if name in known), math.inf)


def step_numbers(model: Model, plan: Deployment, work: Workload, found: Counts) -> dict[str, Any]:
    """The terms of a decode step at nominal rates, on one rank: seconds, and numbers without a unit. `work` may hold arrays."""
    w = plan.device.bandwidth_bytes_per_s
    parts = plan.dp * plan.pp
    sequences = larger(1, work.batch / parts) if parts > 1 else work.batch
    together = work.batch * work.queries
    local = larger(1, together / parts) if parts > 1 else together
    held = reads(model, plan, work.ctx)
    plain = rate(plan, "bf16")
    first = found.experts[0] if found.experts else None
    small = smaller(local, FEW)
    unpacked = (found.dense.params if found.dense.bits < PLAIN_BITS else 0) + (
        found.expert_params * small if first and first.bits < PLAIN_BITS else 0
    )
    vectors = plan.device.compute.get("fp32", plain)
    return {
        "dense_read_s": found.dense.bytes / w,
        "dense_compute_s": 2 * found.dense.params * local / rate(plan, found.dense.compute),
        "plain_read_s": found.plain.bytes / w,
        "plain_compute_s": 2 * found.plain.params * local / plain,
        "head_read_s": found.head.bytes / w,
        "head_compute_s": 2 * found.head.params * local / plain,
        "all_experts_read_s": sum(each.bytes_each * each.experts for each in found.experts) / w,
        "experts": first.experts if first else 1,
        "top_k": min(first.top_k, 0.999 * first.experts) if first else 0,
        "together": larger(1, together / plan.pp) if plan.pp > 1 else together,
        "expert_compute_s": 2 * found.expert_params * plan.dp * local / rate(plan, first.compute) * (plan.imbalance or 1) if first else 0.0,
        "cache_read_s": held.cache_bytes * (1 - offload.hosted(model, plan).cache_share) * sequences / w,
        "score_s": held.flops * local / plain,
        "states_s": held.state_bytes * sequences / w,
        "logits_s": local * found.vocab * LOGIT_BYTES / w,
        "dequantise_s": 2 * unpacked / vectors,
        "sequences": larger(1, work.batch / plan.dp) if plan.dp > 1 else work.batch,
        "talk_s": talk_s(model, plan, local) + collectives.shared_step(model, plan, local),
        "layers": found.layers,
        "mixtures": found.mixtures,
        "recurrents": found.recurrents,
    }


def talk_s(model: Model, plan: Deployment, tokens: Any) -> Any:
    """Collectives of a step of so many tokens per group, as they were measured. [s] Errors: no-link."""
    return collectives.communication(model, plan, tokens).value


def micro_batch(plan: Deployment, new: float) -> Any:
    """Prompt tokens that a desktop engine takes at once: 512 of llama.cpp, 2,048 of MLX, or what was asked for."""
    return MICRO_BATCH if plan.engine.nominal and plan.batched_tokens is None else plan.step_tokens(new)


def padded(found: Counts, tokens: Any, desktop: bool) -> Any:
    """Tokens that a mixture multiplies with: a desktop engine's kernels fill half a tile more for each expert, on average."""
    if not desktop or not found.experts:
        return tokens
    first = found.experts[0]
    return tokens + first.touched(tokens) * TILE / 2 / first.top_k


def prompt_numbers(
    model: Model, plan: Deployment, prompt: float, cached: float, found: Counts, desktop: bool, together: Any = 1.0
) -> dict[str, Any]:
    """The terms of one chunk of a prompt at nominal rates, the number of chunks, and the whole prompt's scores.

    `together`: prompts that share a step (may be an array); a chunk is then of all of them, and a prompt has a share of it.
    """
    w, plain = plan.device.bandwidth_bytes_per_s, rate(plan, "bf16")
    new = max(1.0, prompt - cached)
    tokens = smaller(new * together, micro_batch(plan, new) if desktop else CHUNK * plan.cp)
    own = tokens / plan.cp  # of one rank
    first = found.experts[0] if found.experts else None
    multiplied = padded(found, tokens, desktop) * plan.dp
    pairs = sum(
        layers
        * ((entry.flops if desktop else entry.prefill_flops) or entry.flops)
        * terms.attention_pairs(entry, Figure("tokens", new), Figure("cached_tokens", cached)).value
        for mixer, layers in memory.mixers(model)
        for entry in mixer.entries
    )
    prefix = reads(model, plan, cached).cache_bytes / w if cached else 0.0
    return {
        "dense_read_s": found.dense.bytes / w,
        "dense_compute_s": 2 * found.dense.params * own / rate(plan, found.dense.compute),
        "plain_read_s": found.plain.bytes / w,
        "plain_compute_s": 2 * found.plain.params * own / plain,
        "expert_read_s": found.expert_bytes(tokens * plan.dp) / w * (plan.imbalance or 1),
        "expert_compute_s": 2 * found.expert_params * multiplied / rate(plan, first.compute) * (plan.imbalance or 1) if first else 0.0,
        "talk_s": talk_s(model, plan, own) + collectives.shared_prompt(model, plan, tokens, cached + new / 2),
        "activation_s": found.layers * own * found.hidden * layout.ACTIVATION_BYTES / w,
        "chunks": new / tokens,
        "scores_s": pairs / plan.holders / plain,
        "prefix_s": prefix,
        "head_read_s": found.head.bytes / w / together,
        "layers": found.layers,
        "mixtures": found.mixtures,
        "recurrents": found.recurrents,
        "new_tokens": new,
    }
