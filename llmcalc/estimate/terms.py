"""What a step of decoded sequences, or of a prompt, reads, computes and says: every term at the ideal rates of the device.

Two granularities of one decode step. The napkin's treats the model as one matrix (the course notes); the roofline's has its
operators, each at its own intensity. They share every byte count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

from llmcalc import checkpoint
from llmcalc.answers import Aside
from llmcalc.architecture import Entry, Model, Weight
from llmcalc.checkpoint import Checkpoint
from llmcalc.errors import UsageError
from llmcalc.estimate import adapters, collectives, files, hosting, layout, memory, talk
from llmcalc.figures import Figure, larger, total
from llmcalc.formats import FORMATS, Format
from llmcalc.formulas import compute, time
from llmcalc.formulas import memory as f
from llmcalc.hardware import Device
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment, Workload
from llmcalc.units import rate as speed
from llmcalc.units import seconds

Bound = Literal["memory-weights", "memory-kv", "compute", "communication"]
METHODS = ("napkin", "roofline")
FUSED = ("k_proj", "v_proj", "up_proj")  # run in one kernel with q_proj or gate_proj, which reads the input once


# ---- rates --------------------------------------------------------------------------------------------------------


def bandwidth(device: Device) -> Figure:
    """Memory bandwidth of one device."""
    return Figure("bandwidth_bytes_per_s", device.bandwidth_bytes_per_s, "B/s", f"{device.id}, nominal")


def compute_key(device: Device, fmt: Format) -> tuple[str | None, bool]:
    """(the rate this device multiplies that format at, whether natively). Weight-only formats are dequantised to 16 bits."""
    if fmt.compute in device.compute:
        return fmt.compute, fmt.compute not in ("bf16", "fp16") or fmt.bits >= 16
    for key in ("bf16", "fp16", "fp32"):
        if key in device.compute:
            return key, False
    return None, False


def compute_rate(device: Device, fmt: Format) -> Figure:
    """Dense FLOP/s for weights in that format; value None where the profile has no rate."""
    key, native = compute_key(device, fmt)
    if key is None:
        return Figure("flops_per_s", None, "FLOP/s", f"{device.id} has no known compute rate")
    how = "" if native else f", {fmt.name} has no rate of its own" if fmt.bits >= 16 else f", {fmt.name} weights are dequantised"
    return Figure("flops_per_s", device.compute[key], "FLOP/s", f"{device.id}, dense {key}{how}")


def of_ranks(rate: Figure, ranks: int) -> Figure:
    """The rate of several ranks."""
    return rate if ranks == 1 else replace(rate, value=rate.value * ranks, origin=f"{ranks} × {rate.origin}")


# ---- a decode step ------------------------------------------------------------------------------------------------


def step_terms(model: Model, plan: Deployment, work: Workload, method: str = "napkin") -> dict[str, Figure]:
    """Every term of one decode step, as Figures; `work.batch` and `work.ctx` may be arrays.

    A pipeline of pp stages works on pp micro-batches at once, so each waits for all weights and for its own caches, read by
    one tp group at a time. `weight_read_bytes` and `kv_read_bytes` are of one micro-batch and one sequence.
    """
    if method not in METHODS:
        raise UsageError("unknown-method", f"{method!r} is not a method", f"use one of {', '.join(METHODS)}")
    ctx = Figure("ctx_tokens", work.ctx, "tokens", "`ctx`")
    w = bandwidth(plan.device)
    p = compute_rate(plan.device, plan.weights)
    tp, holders = (Figure("devices", count, "", layout.LAYOUT) for count in (plan.tp, plan.holders))
    batch = tokens = dealt(plan, work.batch)
    if work.queries > 1:
        tokens = replace(dealt(plan, work.batch * work.queries), origin=f"{batch.origin}, {work.queries} tokens of each sequence")
    kv_bytes = replace(layout.sequence_bytes(model, plan, ctx, reads=True), name="kv_read_bytes")
    found = {
        "kv_read_bytes": kv_bytes,
        "kv_read_s": time.kv_read_s.of(batch=batch, kv_read_bytes=kv_bytes, bandwidth_bytes_per_s=w, devices=holders),
        "attention_compute_s": _attention_compute(model, plan, ctx, tokens, holders),
        "bandwidth": w,
        "flops_per_s": p,
        "communication_s": talk.shared_step(model, plan, tokens.value, talk.communication(model, plan, tokens.value)),
    }
    if method == "napkin":
        found.update(_napkin(model, plan, work, tokens, w, p, tp))
    else:
        found.update(_roofline(model, plan, work, batch, tokens, ctx, w))
    return found


def dealt(plan: Deployment, batch: Any) -> Figure:
    """Of that many, those of one data-parallel group and one micro-batch of a pipeline; one at least."""
    parts = plan.dp * plan.pp
    if parts == 1:
        return Figure("batch", batch, "", "`batch`")
    return Figure("batch", larger(1, batch / parts), "", "`batch`, dealt over groups and stages")


def together(plan: Deployment, work: Workload) -> Any:
    """Tokens that meet in one mixture layer: those of all groups, but of one micro-batch of a pipeline."""
    tokens = work.batch * work.queries
    return larger(1, tokens / plan.pp) if plan.pp > 1 else tokens


def step_params(model: Model) -> Figure:
    """Parameters that a token of a decode step is multiplied with."""
    active = memory.multiplied_params(model) - layout.encoder_params(model)
    return Figure("params", active, "params", "active per token, without the embedding table, with the head")


def _attention_compute(model: Model, plan: Deployment, ctx: Figure, batch: Figure, tp: Figure) -> Figure:
    """Scores and mixing of one micro-batch at the 16-bit rate."""
    rate = compute_rate(plan.device, memory.compute_format(model)[0])
    scores = total("attention_flops", "FLOP", tuple(
        _entry_flops(entry, layers, ctx, batch) for mixer, layers in memory.mixers(model) for entry in mixer.entries
    ))  # fmt: skip
    if rate.value is None:
        return Figure("attention_compute_s", None, "s", rate.origin)
    return time.work_s.of(as_name="attention_compute_s", work_flops=scores, flops_per_s=rate, devices=tp)


def _entry_flops(entry: Entry, layers: int, ctx: Figure, batch: Figure) -> Figure:
    return compute.decode_attention_flops.of(
        layers=Figure("layers", layers, "", memory.CONFIG),
        flops_per_entry=Figure("flops_per_entry", entry.flops, "FLOP", memory.CONFIG),
        entries=layout.entries_read(entry, ctx),
        batch=batch,
    )


def _napkin(model: Model, plan: Deployment, work: Workload, batch: Figure, w: Figure, p: Figure, tp: Figure) -> dict[str, Figure]:
    dense, experts = layout.read_weight_bytes(model, plan, together(plan, work))
    read = time.read_s.of(as_name="weight_read_s", bytes_read=dense, bandwidth_bytes_per_s=w, devices=tp)
    if experts is not None:
        ranks = Figure("devices", plan.spread, "", layout.LAYOUT)
        routed = time.read_s.of(as_name="expert_read_s", bytes_read=experts, bandwidth_bytes_per_s=w, devices=ranks)
        read = total("weight_read_s", "s", (replace(read, name="dense_read_s"), busiest(plan, routed)))
    read = _from_host(model, plan, read, work)
    if p.value is None:
        math = Figure("compute_s", None, "s", p.origin)
    else:
        math = time.compute_s.of(params=step_params(model), batch=batch, flops_per_s=p, devices=tp)
    return {"weight_read_bytes": read_bytes(plan, dense, experts), "weight_read_s": read, "compute_s": math}


def busiest(plan: Deployment, mean: Figure) -> Figure:
    """What the busiest rank takes of what is dealt over all of them, where the imbalance is stated."""
    if plan.imbalance is None:
        return mean
    factor = Figure("imbalance_factor", plan.imbalance, "", "`expert_imbalance`")
    return Figure(mean.name, mean.value * plan.imbalance, mean.unit, "on the busiest rank", None, (mean, factor))


def _from_host(model: Model, plan: Deployment, read: Figure, work: Workload) -> Figure:
    """The textbook's read of weights of which a part lies on the host: each part over its own memory's bandwidth."""
    share = hosting.read_share(model, plan, together(plan, work))
    if share is None:
        return read
    here = Figure("card_read_s", read.value * (1 - share.value), "s", "what stays on the card", None, (read, share))
    return total("weight_read_s", "s", (here, hosting.nominal_time(model, plan, together(plan, work))))


def read_bytes(plan: Deployment, dense: Figure, experts: Figure | None) -> Figure:
    """What all groups read together: each its own dense weights, all of them the experts once."""
    if plan.dp * plan.cp > 1:
        copies = Figure("copies", plan.dp * plan.cp, "", layout.LAYOUT)
        dense = f.replicated_bytes.of(as_name=dense.name, held_bytes=dense, copies=copies)
    return dense if experts is None else total("weight_read_bytes", "B", (dense, experts))


class Operator(NamedTuple):
    """One weight's GEMM in every layer that has it, its arithmetic alone (None: a norm multiplies nothing), and the bytes of one."""

    each: Figure
    times: Figure
    product: Figure | None
    stored: Figure
    routed: bool


def weight_bits(model: Model, plan: Deployment, index: int, weight: Weight, head: bool) -> Format:
    """The format that a weight is read in: a checkpoint's own; of a named format, 16 bits where quantisers leave weights alone.

    A GGUF file's bits are an average over its head, too.
    """
    if isinstance(plan.weights, Checkpoint):
        return plan.weights.of(index)
    plain = memory.compute_format(model)[0]
    kept_16 = head or weight.part in ("head", "norms", "router") or weight.columns == 1
    return plain if kept_16 and plan.weights.bits < plain.bits and not plan.weights.whole_file else plan.weights


def stored_bits(plan: Deployment, index: int, layers: int, weight: Weight, fmt: Format) -> float:
    """Bits that a parameter takes as it is stored: of a checkpoint with its scales, which are read, too."""
    if not isinstance(plan.weights, Checkpoint) or not weight.params:
        return fmt.bits
    return checkpoint.size(weight, plan.weights.language[index]) * 8 / (layers * weight.params)


def operators(
    model: Model, plan: Deployment, batch: Figure, met: Any, *, stages: int = 1, ends: int | None = None, shares: int = 1
) -> list[Operator]:
    """The GEMMs of `batch` tokens in one group, of which `met` meet in a mixture, dealt over `stages` × tp ranks.

    `ends`: tokens that need the head; None: all of them. `shares`: groups with other tokens of the same prompt. Errors: no-compute-rate.
    """
    w, plain = bandwidth(plan.device), memory.compute_format(model)[0]
    if compute_rate(plan.device, plan.weights).value is None or compute_rate(plan.device, plain).value is None:
        raise UsageError("no-compute-rate", f"{plan.device.id} has no known compute rate", "use `method=napkin`")
    width = Figure("bytes_per_value", layout.ACTIVATION_BYTES, "B", "16-bit activations")
    found = []
    for index, (layers, weight) in enumerate(model_weights(model)):
        head = model.stack.tied and weight in model.stack.embedding[:1]
        if weight.part in ("embedding", "positions", "encoder") and not head:
            continue  # a row is looked up; an encoder has run before
        fmt = weight_bits(model, plan, index, weight, head)
        rate = compute_rate(plan.device, fmt)
        chosen = layout.routed(weight)
        spread = stages * (plan.spread if chosen else plan.tp)
        ranks = Figure("devices", spread, "", layout.LAYOUT)
        bits = Figure("bits_per_weight", stored_bits(plan, index, layers, weight, fmt), "bit", fmt.name)
        params = Figure("params", weight.rows * weight.columns, "params", f"{weight.rows} × {weight.columns}")
        if chosen:
            touched = time.distinct_experts.of(
                experts=Figure("experts", weight.copies + plan.redundant_experts, "", memory.CONFIG),
                top_k=Figure("top_k", weight.active, "", memory.CONFIG),
                tokens=Figure("tokens", met, "tokens", batch.origin),
            )
            stored = f.expert_read_bytes.of(params_per_expert=params, distinct_experts=touched, bits_per_weight=bits)
        else:
            every = params if weight.copies == 1 else Figure("params", weight.params, "params", f"{weight.copies} × {params.origin}")
            stored = f.weight_bytes.of(params=every, bits_per_weight=bits)
        times = Figure("layers", layers * weight.uses, "", memory.CONFIG)
        if weight.columns == 1:  # a norm or a bias is applied while its neighbour's output passes by: no traffic of its own
            each, product = time.read_s.of(bytes_read=stored, bandwidth_bytes_per_s=w, devices=ranks), None
        else:
            origin = f"{batch.origin} × top_k" if chosen else batch.origin
            number = batch.value if ends is None or not (head or weight.part == "head") else ends
            tokens = Figure("tokens", number * weight.active * (plan.dp * shares if chosen else 1), "tokens", origin)
            values = Figure("values_in_and_out", weight.rows + (0 if weight.name.endswith(FUSED) else weight.columns), "", params.origin)
            flops = compute.dense_flops.of(params=params, tokens=tokens)
            each = time.operator_s.of(
                bytes_moved=compute.gemm_bytes.of(weight_bytes=stored, tokens=tokens, values_in_and_out=values, bytes_per_value=width),
                work_flops=flops,
                bandwidth_bytes_per_s=of_ranks(w, spread),
                flops_per_s=of_ranks(rate, spread),
            )
            alone = time.work_s.of(work_flops=flops, flops_per_s=rate, devices=ranks)
            product = time.repeated_s.of(as_name=f"{weight.name}_s", times=times, each_s=alone)
        found.append(Operator(time.repeated_s.of(as_name=f"{weight.name}_s", times=times, each_s=each), times, product, stored, chosen))
    return found


def _roofline(model: Model, plan: Deployment, work: Workload, batch: Figure, tokens: Figure, ctx: Figure, w: Figure) -> dict[str, Figure]:
    """The GEMMs one by one, the head, the attention of each kind; weights that quantisers leave alone stay at 16 bits."""
    found = operators(model, plan, tokens, together(plan, work))
    dense, routed = (sum((one.times.value * one.stored.value for one in found if one.routed is chosen), 0.0) for chosen in (False, True))
    experts = Figure("expert_read_bytes", routed, "B", "experts that the step touches, at their formats")
    once = Figure("dense_read_bytes", dense, "B", "every other weight that a step touches, at their formats")
    tp, ranks = (Figure("devices", count, "", layout.LAYOUT) for count in (plan.tp, plan.spread))
    read = time.read_s.of(as_name="dense_read_s", bytes_read=once, bandwidth_bytes_per_s=w, devices=tp)
    from_experts = time.read_s.of(as_name="expert_read_s", bytes_read=experts, bandwidth_bytes_per_s=w, devices=ranks)
    mixture = any(one.routed for one in found)
    return {
        "weight_read_bytes": read_bytes(plan, once, experts if mixture else None),
        "weight_read_s": total("weight_read_s", "s", (read, from_experts)) if mixture else replace(read, name="weight_read_s"),
        "compute_s": total("compute_s", "s", tuple(one.product for one in found if one.product is not None)),
        "gemms_s": total("gemms_s", "s", tuple(one.each for one in found)),
        "attention_s": _attention(model, plan, ctx, batch, tokens, w, compute_rate(plan.device, memory.compute_format(model)[0])),
    }


def _attention(model: Model, plan: Deployment, ctx: Figure, batch: Figure, tokens: Figure, w: Figure, p16: Figure) -> Figure:
    """The attention kernels, each the longer of reading its cache and computing on it, and the reading of states."""
    plain = memory.state_format(model, plan.kv)
    parts = []
    for mixer, layers in memory.mixers(model):
        for entry in mixer.entries:
            held = layout.entry_bytes(mixer, entry, layers, plan, layout.entries_read(entry, ctx))
            parts.append(
                time.operator_s.of(
                    as_name=f"{mixer.kind}_attention_s",
                    bytes_moved=f.batch_bytes.of(bytes_per_sequence=held, batch=batch),
                    work_flops=_entry_flops(entry, layers, ctx, tokens),
                    bandwidth_bytes_per_s=of_ranks(w, plan.holders),
                    flops_per_s=of_ranks(p16, plan.holders),
                )
            )
        for state in memory.state_figures(mixer, layers, plain):
            everybody = f.batch_bytes.of(bytes_per_sequence=state, batch=batch)
            parts.append(
                time.read_s.of(
                    as_name=state.name.replace("bytes", "read_s"),
                    bytes_read=everybody,
                    bandwidth_bytes_per_s=w,
                    devices=Figure("devices", plan.tp, "", layout.LAYOUT),
                )
            )
    return total("attention_s", "s", tuple(parts))


def critical_batch(model: Model, plan: Deployment) -> Figure:
    """Tokens per step from which arithmetic binds the weights' GEMMs; in a mixture each expert sees top_k of experts tokens."""
    p = compute_rate(plan.device, plan.weights)
    if p.value is None:
        return Figure("critical_batch", None, "tokens", p.origin)
    mixtures = [group.layer.mlp for group in model.groups if group.layer.mlp and group.layer.mlp.experts]
    spread = max((mlp.experts / mlp.top_k for mlp in mixtures), default=1)
    # Of a file that a named format's tools write, the matrices' own bits: what they leave wider is no part of those GEMMs.
    recipe = isinstance(plan.weights, Checkpoint) and plan.weights.recipe
    own = FORMATS.get(plan.weights.name, plan.weights) if recipe else plan.weights
    return time.critical_batch.of(
        flops_per_s=p,
        bytes_per_weight=Figure("bytes_per_weight", own.bytes, "B", own.name),
        bandwidth_bytes_per_s=bandwidth(plan.device),
        experts_per_active_expert=Figure("experts_per_active_expert", spread, "", memory.CONFIG),
    )


def intensity(model: Model, plan: Deployment, work: Workload, terms: dict[str, Figure]) -> Any:
    """FLOP per byte of the tokens that pass through the weights together."""
    tokens = together(plan, work)
    read = compute.step_bytes(terms["weight_read_bytes"].value, tokens, terms["kv_read_bytes"].value)
    return time.intensity(compute.dense_flops(step_params(model).value, tokens), read)


def bound(terms: dict[str, Figure], method: str = "napkin") -> Bound:
    """What the step waits for most: the caches, the weights, arithmetic, or the link. The napkin knows no arithmetic of attention."""
    value = {name: figure.value or 0 for name, figure in terms.items()}
    attention = value["attention_compute_s"] if method == "roofline" else 0
    shares: dict[Bound, float] = {"memory-weights": 0.0, "memory-kv": 0.0, "compute": 0.0, "communication": value["communication_s"]}
    pairs: tuple[tuple[Bound, float, float], ...] = (
        ("memory-weights", value["weight_read_s"], value["compute_s"]),
        ("memory-kv", value["kv_read_s"], attention),
    )
    for memory_bound, read, math in pairs:
        shares["compute" if math > read else memory_bound] += max(math, read)
    return max(shares, key=lambda name: shares[name])


# ---- a prompt -----------------------------------------------------------------------------------------------------


def attention_pairs(entry: Entry, prompt: Figure, cached: Figure) -> Figure:
    """Query-key pairs of one layer: the causal triangle behind the cached prefix; a window or a choice of tokens bounds each query."""
    if entry.tokens is not None:
        return Figure("pairs", prompt.value * entry.tokens, "pairs", "prompt × encoder tokens")
    reach = entry_reach(entry)
    end = cached.value + prompt.value
    if reach is None or end <= reach:
        whole = compute.causal_pairs.of(tokens=prompt, cached_tokens=cached)
    else:
        # Queries within the first `reach` tokens see a triangle, all later ones see `reach` tokens each.
        inside = max(0, reach - cached.value)
        seen = compute.causal_pairs(inside, cached.value) + (prompt.value - inside) * reach
        whole = Figure("pairs", seen, "pairs", f"each query sees at most {reach:,} tokens")
    return (
        whole
        if entry.ratio == 1
        else Figure("pairs", whole.value / entry.ratio, "pairs", f"one entry per {entry.ratio} tokens", None, (whole,))
    )


def entry_reach(entry: Entry) -> int | None:
    """Tokens that one query attends to at most, or None where it sees all of them."""
    limits = [limit for limit in (entry.window, entry.reads) if limit is not None]
    return min(limits) if limits else None


def attention_flops(model: Model, prompt: Figure, cached: Figure) -> Figure:
    """Scores and mixing of a prompt behind its cached prefix, over all layers."""
    scores = [_scores(entry, layers, prompt, cached) for mixer, layers in memory.mixers(model) for entry in mixer.entries]
    return total("attention_flops", "FLOP", tuple(scores))


def _scores(entry: Entry, layers: int, prompt: Figure, cached: Figure) -> Figure:
    return compute.prefill_attention_flops.of(
        layers=Figure("layers", layers, "", memory.CONFIG),
        flops_per_pair=Figure("flops_per_pair", entry.prefill_flops or entry.flops, "FLOP", memory.CONFIG),
        pairs=attention_pairs(entry, prompt, cached),
    )


def prompt_terms(model: Model, plan: Deployment, prompt_tokens: int, cached_tokens: int = 0) -> dict[str, Figure]:
    """FLOPs and times of a prefill of `prompt_tokens`, of which the first `cached_tokens` are in the prefix cache.

    Times are those in which all ranks of a replica are busy, each data-parallel group with such a prompt of its own: the groups
    read the experts once between them. Attention multiplies at 16 bits whatever the weights have.
    """
    new = Figure("tokens", prompt_tokens - cached_tokens, "tokens", "`prompt` less `cached`")
    cached = Figure("cached_tokens", cached_tokens, "tokens", "`cached`")
    head = memory.head_params(model)
    body = Figure("params", memory.multiplied_params(model) - head, "params", "active per token, without tables")
    gemms = compute.dense_flops.of(as_name="body_flops", params=body, tokens=new)
    last = compute.dense_flops.of(
        as_name="head_flops", params=Figure("params", head, "params", "LM head"), tokens=Figure("tokens", 1, "tokens", "the last one")
    )
    matrices = total("gemm_flops", "FLOP", (gemms, last))
    attention = attention_flops(model, new, cached)
    everything = total("prefill_flops", "FLOP", (gemms, last, attention))
    p = compute_rate(plan.device, plan.weights)
    p16 = compute_rate(plan.device, memory.compute_format(model)[0])
    ranks, whole = (Figure("devices", count * plan.pp, "", layout.LAYOUT) for count in (plan.holders, plan.tp))
    dense, experts = layout.read_weight_bytes(model, plan, new.value * plan.dp)
    w = bandwidth(plan.device)
    read = time.read_s.of(as_name="weight_read_s", bytes_read=dense, bandwidth_bytes_per_s=w, devices=whole)
    if experts is not None:
        spread = Figure("devices", plan.ranks, "", layout.LAYOUT)
        routed = time.read_s.of(as_name="expert_read_s", bytes_read=experts, bandwidth_bytes_per_s=w, devices=spread)
        read = total("weight_read_s", "s", (replace(read, name="dense_read_s"), busiest(plan, routed)))
    prefix = (
        layout.sequence_bytes(model, plan, cached, reads=True) if cached_tokens else Figure("kv_read_bytes", 0, "B", "no cached prefix")
    )

    def worked(name: str, flops: Figure, rate: Figure) -> Figure:
        if rate.value is None:
            return Figure(name, None, "s", rate.origin)
        return time.work_s.of(as_name=name, work_flops=flops, flops_per_s=rate, devices=ranks)

    return {
        "prefill_flops": everything,
        "attention_flops": attention,
        "gemm_s": worked("gemm_s", matrices, p),
        "attention_s": worked("attention_s", attention, p16),
        "weight_read_s": read,
        "kv_read_s": time.read_s.of(as_name="kv_read_s", bytes_read=prefix, bandwidth_bytes_per_s=w, devices=ranks),
        "communication_s": _prompt_talk(model, plan, new.value, cached_tokens),
    }


def prompt_operators(model: Model, plan: Deployment, prompt_tokens: int, cached_tokens: int = 0) -> dict[str, Figure]:
    """The operators of a prompt: GEMMs one by one, the head for its last token, attention of each kind behind the cached prefix.

    Nothing waits: stages of a pipeline are all busy, and the prompt's own keys and values never leave the chip. Errors: no-compute-rate.
    """
    new = Figure("tokens", prompt_tokens - cached_tokens, "tokens", "`prompt` less `cached`")
    cached = Figure("cached_tokens", cached_tokens, "tokens", "`cached`")
    own = new if plan.cp == 1 else replace(new, value=new.value / plan.cp, origin=f"{new.origin}, a share of {plan.cp}")
    found = operators(model, plan, own, new.value * plan.dp, stages=plan.pp, ends=1, shares=plan.cp)
    ranks = plan.holders * plan.pp
    w, p16 = bandwidth(plan.device), compute_rate(plan.device, memory.compute_format(model)[0])
    kernels = tuple(
        time.operator_s.of(
            as_name=f"{mixer.kind}_attention_s",
            bytes_moved=layout.entry_bytes(mixer, entry, layers, plan, layout.entries_read(entry, cached)),
            work_flops=_scores(entry, layers, new, cached),
            bandwidth_bytes_per_s=of_ranks(w, ranks),
            flops_per_s=of_ranks(p16, ranks),
        )
        for mixer, layers in memory.mixers(model)
        for entry in mixer.entries
    )
    return {
        "gemms_s": total("gemms_s", "s", tuple(one.each for one in found)),
        "attention_s": total("attention_s", "s", kernels),
        "communication_s": _prompt_talk(model, plan, new.value, cached_tokens),
    }


def _prompt_talk(model: Model, plan: Deployment, tokens: int, cached: int) -> Figure:
    """What ranks say while they read a prompt, of which groups that share it have a part each."""
    return talk.shared_prompt(model, plan, tokens, cached, talk.communication(model, plan, tokens / plan.cp if plan.cp > 1 else tokens))


def prompt_bound(found: dict[str, Figure]) -> Bound:
    """What a prefill waits for most."""
    value = {key: figure.value or 0 for key, figure in found.items()}
    shares: dict[Bound, float] = {
        "compute": max(value["gemm_s"] * (value["gemm_s"] >= value["weight_read_s"]), 0)
        + value["attention_s"] * (value["attention_s"] >= value["kv_read_s"]),
        "memory-weights": value["weight_read_s"] * (value["gemm_s"] < value["weight_read_s"]),
        "memory-kv": value["kv_read_s"] * (value["attention_s"] < value["kv_read_s"]),
        "communication": value["communication_s"],
    }
    return max(shares, key=lambda name: shares[name])


# ---- in words -----------------------------------------------------------------------------------------------------


def assumptions(model: Model, plan: Deployment) -> tuple[str, ...]:
    """The layout and formats in words."""
    said: list[str] = [Aside(f"{files.words(model, plan.weights)}, KV in {plan.kv.name}")]
    key, native = compute_key(plan.device, plan.weights)
    if key and not native:
        how = "dequantised" if plan.weights.bits < 16 else f"{plan.weights.name} has no rate of its own"
        said.append(f"{plan.device.id} multiplies {plan.weights.name} weights at its {key} rate: {how}")
    if plan.ranks > 1:
        said.append(
            f"{plan.ranks} ranks: tp {plan.tp}, pp {plan.pp}, ep {plan.ep}" + (f", attention in {plan.dp} groups" if plan.dp > 1 else "")
        )
        if plan.cp > 1:
            said.append(f"{plan.cp} groups share prompts and caches by tokens: in a ring that nothing hides go keys and values, or queries")
        if plan.dcp > 1:
            said.append(f"{plan.dcp} ranks share a cache by tokens: queries are gathered, and outputs summed, in every layer")
        rate, latency = talk.link_rate(plan.device)
        said.append(f"{rate.origin}: {speed(rate.value)}, {seconds(latency.value)} per collective")
        said += collectives.said(plan)
    if plan.adapters is not None:
        said.append(adapters.words(model, plan.adapters))
    if layout.experts(model):
        said.append("experts are drawn evenly and independently for each token")
    if plan.imbalance is not None:
        said.append(f"the busiest rank has {plan.imbalance:g} times the mean load of experts")
    if plan.redundant_experts:
        said.append(f"{plan.redundant_experts} redundant experts in each mixture: what they do to the balance is stated, not counted")
    return tuple(said)
