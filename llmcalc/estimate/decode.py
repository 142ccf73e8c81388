"""One decode step: how long, what binds it, and from which batch arithmetic takes over.

Two ideal readings of it. `napkin` treats the model as one matrix (the course notes); `roofline` sums its operators, each at its
own intensity. They share every byte count.
"""

from __future__ import annotations

from typing import Any

from llmcalc.architecture import Model, Weight
from llmcalc.errors import UsageError
from llmcalc.estimate import Estimate, capacity, layout, memory
from llmcalc.figures import Figure, larger, total
from llmcalc.formats import Format
from llmcalc.formulas import compute, time
from llmcalc.formulas import memory as f
from llmcalc.hardware import Device
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment, Workload

METHODS = ("napkin", "roofline")
ACTIVATION_BYTES = 2  # bf16 activations, in every engine's decode
# Latency of one collective inside a node, CUDA graphs on: vLLM's custom all-reduce on H100 takes 4.2, 4.6 and 4.7-5.3 us
# at 2, 4 and 8 ranks (aiconfigurator's tables); over PCIe about 10 us (its p2p_latency).
LATENCY_S = {"nvlink": 5e-6, "pcie": 10e-6}
LATENCY_ELSEWHERE_S = 15e-6
FUSED = ("k_proj", "v_proj", "up_proj")  # run in one kernel with q_proj or gate_proj, which reads the input once


# ---- rates --------------------------------------------------------------------------------------------------------


def bandwidth(device: Device) -> Figure:
    """Memory bandwidth of one device."""
    return Figure("bandwidth_bytes_per_s", device.bandwidth_bytes_per_s, "B/s", f"{device.id}, nominal")


def compute_key(device: Device, fmt: Format) -> tuple[str | None, bool]:
    """(the rate this device multiplies that format at, whether natively). Weight-only formats are dequantised to 16 bits."""
    if fmt.compute in device.compute:
        return fmt.compute, fmt.compute not in ("bf16", "fp16") or fmt.bits == 16
    for key in ("bf16", "fp16", "fp32"):
        if key in device.compute:
            return key, False
    return None, False


def compute_rate(device: Device, fmt: Format) -> Figure:
    """Dense FLOP/s for weights in that format; value None where the profile has no rate."""
    key, native = compute_key(device, fmt)
    if key is None:
        return Figure("flops_per_s", None, "FLOP/s", f"{device.id} has no known compute rate")
    how = "native" if native else f"{fmt.name} weights are dequantised"
    return Figure("flops_per_s", device.compute[key], "FLOP/s", f"{device.id}, dense {key} ({how})")


def link_rate(device: Device) -> tuple[Figure, Figure]:
    """(bytes/s one way, latency of a collective). Errors: no-link."""
    link = device.link
    rate = link.bytes_per_s if link else None
    if link is None or not rate:
        raise UsageError(
            "no-link", f"{device.id} has no known link, so what its ranks say to each other cannot be timed", "use --tp 1, or a profile with a link"
        )
    kind = link.type.lower()
    latency = next((value for word, value in LATENCY_S.items() if word in kind), LATENCY_ELSEWHERE_S)
    return (
        Figure("link_bytes_per_s", rate, "B/s", f"{device.id}, {link.type}, one way"),
        Figure("latency_s", latency, "s", f"one collective over {link.type}"),
    )


# ---- communication ------------------------------------------------------------------------------------------------


def communication(model: Model, plan: Deployment, tokens: Any) -> Figure:
    """What the ranks say to each other in one step of `tokens` tokens per group.

    tp: two all-reduces of the hidden state per layer. ep: two all-to-alls per mixture layer, of the tokens times top_k.
    pp: one hand-over per boundary.
    """
    if plan.ranks == 1:
        return Figure("communication_s", 0, "s", "one device talks to nobody")
    rate, latency = link_rate(plan.device)
    width = Figure("message_bytes", tokens * model.stack.hidden * ACTIVATION_BYTES, "B", "tokens × hidden size × 2 B")
    parts = []
    if plan.tp > 1:
        each = time.all_reduce_s.of(
            latency_s=latency, devices=Figure("devices", plan.tp, "", layout.LAYOUT), message_bytes=width, link_bytes_per_s=rate
        )
        blocks = sum(bool(layer.mixers) + bool(layer.mlp) for layer in model.stack.layers)
        parts.append(time.repeated_s.of(as_name="all_reduces_s", times=Figure("all_reduces", blocks, "", memory.CONFIG), each_s=each))
    mixtures = [group for group in model.groups if group.layer.mlp and group.layer.mlp.experts]
    if plan.ep > 1 and mixtures:
        sent = Figure(
            "message_bytes",
            tokens * model.stack.hidden * ACTIVATION_BYTES * max(group.layer.mlp.top_k for group in mixtures if group.layer.mlp),
            "B",
            "tokens × top_k × hidden size × 2 B",
        )
        each = time.all_to_all_s.of(
            latency_s=latency, devices=Figure("devices", plan.tp * plan.dp, "", layout.LAYOUT), message_bytes=sent, link_bytes_per_s=rate
        )
        count = 2 * sum(group.count for group in mixtures)
        parts.append(time.repeated_s.of(as_name="all_to_alls_s", times=Figure("all_to_alls", count, "", memory.CONFIG), each_s=each))
    if plan.pp > 1:
        hop = time.all_to_all_s.of(
            as_name="hand_over_s", latency_s=latency, devices=Figure("devices", 2, "", layout.LAYOUT), message_bytes=width, link_bytes_per_s=rate
        )
        parts.append(time.repeated_s.of(as_name="hand_overs_s", times=Figure("boundaries", plan.pp - 1, "", layout.LAYOUT), each_s=hop))
    return parts[0] if len(parts) == 1 else total("communication_s", "s", tuple(parts))


# ---- the step -----------------------------------------------------------------------------------------------------


def step(model: Model, plan: Deployment, work: Workload, method: str = "napkin") -> dict[str, Figure]:
    """Every term of one decode step, as Figures; `work.batch` and `work.ctx` may be arrays.

    A pipeline of pp stages works on pp micro-batches at once: each step reads all weights through one tp group at a time.
    """
    if method not in METHODS:
        raise UsageError("unknown-method", f"{method!r} is not a method", f"use one of {', '.join(METHODS)}")
    ctx = Figure("ctx_tokens", work.ctx, "tokens", "--ctx")
    w = bandwidth(plan.device)
    p = compute_rate(plan.device, plan.weights)
    tp = Figure("devices", plan.tp, "", layout.LAYOUT)
    local = larger(1, work.batch / (plan.dp * plan.pp)) if plan.dp * plan.pp > 1 else work.batch
    batch = Figure("batch", local, "", "--batch" if plan.dp * plan.pp == 1 else "--batch, dealt over groups and stages")
    kv_bytes = layout.sequence_bytes(model, plan, ctx, reads=True)
    kv_bytes = Figure("kv_read_bytes", kv_bytes.value, "B", kv_bytes.origin, kv_bytes.formula, kv_bytes.inputs)
    found = {
        "kv_read_bytes": kv_bytes,
        "kv_read_s": time.kv_read_s.of(batch=batch, kv_read_bytes=kv_bytes, bandwidth_bytes_per_s=w, devices=tp),
        "bandwidth": w,
        "flops_per_s": p,
        "communication_s": communication(model, plan, local),
    }
    if method == "napkin":
        found.update(_napkin(model, plan, work, batch, w, p, tp))
    else:
        found.update(_roofline(model, plan, work, batch, ctx, w, p, tp))
    return found


def together(plan: Deployment, work: Workload) -> Any:
    """Tokens that meet in one mixture layer: those of all groups, but of one micro-batch of a pipeline."""
    return larger(1, work.batch / plan.pp) if plan.pp > 1 else work.batch


def _napkin(model: Model, plan: Deployment, work: Workload, batch: Figure, w: Figure, p: Figure, tp: Figure) -> dict[str, Figure]:
    dense, experts = layout.read_weight_bytes(model, plan, together(plan, work))
    read = time.read_s.of(as_name="dense_read_s", bytes_read=dense, bandwidth_bytes_per_s=w, devices=tp)
    if experts is not None:
        ranks = Figure("devices", plan.tp * plan.dp, "", layout.LAYOUT)
        routed = time.read_s.of(as_name="expert_read_s", bytes_read=experts, bandwidth_bytes_per_s=w, devices=ranks)
        read = total("weight_read_s", "s", (read, routed))
    active = Figure("params", memory.active_params(model), "params", "active per token, without the embedding table, with the head")
    if p.value is None:
        math = Figure("compute_s", None, "s", p.origin)
    else:
        math = time.compute_s.of(params=active, batch=batch, flops_per_s=p, devices=tp)
    return {
        "weight_read_bytes": dense if experts is None else total("weight_read_bytes", "B", (dense, experts)),
        "weight_read_s": read,
        "compute_s": math,
    }


def _roofline(
    model: Model, plan: Deployment, work: Workload, batch: Figure, ctx: Figure, w: Figure, p: Figure, tp: Figure
) -> dict[str, Figure]:
    """The GEMMs one by one, the head, the attention of each kind; weights that quantisers leave alone stay at 16 bits."""
    plain = memory.compute_format(model)[0]
    p16 = compute_rate(plan.device, plain)
    if p.value is None or p16.value is None:
        raise UsageError("no-compute-rate", f"{plan.device.id} has no known compute rate", "use --method napkin")
    gemms: list[Figure] = []
    read = flops = 0.0
    for layers, weight in model_weights(model):
        if weight.part in ("embedding", "positions") and not (model.stack.tied and weight.part == "embedding"):
            continue
        kept_16 = weight.part in ("embedding", "head", "norms", "router") or weight.columns == 1
        fmt, rate = (plain, p16) if kept_16 and plan.weights.bits < 16 else (plan.weights, p)
        touched: Any = 1
        if weight.copies > 1:
            touched = time.distinct_experts(weight.copies, weight.active, together(plan, work)) if weight.active < weight.copies else weight.copies
        spread = plan.tp * plan.dp if weight.copies > 1 else plan.tp
        stored = weight.rows * weight.columns * touched * fmt.bits / 8
        inputs = 0 if weight.name.endswith(FUSED) else weight.columns
        moved = stored + batch.value * weight.active * (weight.rows + inputs) * ACTIVATION_BYTES
        work_flops = 2 * batch.value * (plan.dp if weight.copies > 1 else 1) * weight.rows * weight.columns * weight.active
        if weight.columns == 1:
            work_flops = 0 * work_flops
        each = time.operator_s.of(
            as_name=weight.name,
            bytes_moved=Figure("bytes_moved", moved, "B", f"weight [{weight.rows}, {weight.columns}] in {fmt.name} and its activations"),
            work_flops=Figure("work_flops", work_flops, "FLOP", "2 × batch × rows × columns"),
            bandwidth_bytes_per_s=Figure("bandwidth_bytes_per_s", w.value * spread, "B/s", w.origin),
            flops_per_s=Figure("flops_per_s", rate.value * spread, "FLOP/s", rate.origin),
        )
        gemms.append(time.repeated_s.of(as_name=f"{weight.name}_s", times=Figure("layers", layers, "", memory.CONFIG), each_s=each))
        read = read + layers * stored / spread
        flops = flops + layers * work_flops / spread
    attention = []
    for mixer, layers in memory.mixers(model):
        for entry in mixer.entries:
            kept = memory.cached(entry, ctx).value
            attended = kept if entry.reads is None else f.tokens_in_window(kept, entry.reads)
            attention.append(
                compute.decode_attention_flops.of(
                    layers=Figure("layers", layers, "", memory.CONFIG),
                    flops_per_entry=Figure("flops_per_entry", entry.flops, "FLOP", memory.CONFIG),
                    entries=Figure("entries", attended, "", "cached"),
                    batch=batch,
                )
            )
    scores = total("attention_flops", "FLOP", tuple(attention))
    return {
        "weight_read_bytes": Figure("weight_read_bytes", read * plan.tp, "B", "every weight that a step touches, once"),
        "weight_read_s": time.read_s.of(bytes_read=Figure("bytes_read", read, "B", "weights, per device"), bandwidth_bytes_per_s=w, devices=Figure("devices", 1)),
        "compute_s": time.work_s.of(as_name="compute_s", work_flops=Figure("work_flops", flops, "FLOP", "GEMMs, per device"), flops_per_s=p, devices=Figure("devices", 1)),
        "gemms_s": total("gemms_s", "s", tuple(gemms)),
        "attention_compute_s": time.work_s.of(as_name="attention_compute_s", work_flops=scores, flops_per_s=p16, devices=tp),
    }


def step_time(terms: dict[str, Figure], method: str) -> Figure:
    """The length of the step from its terms."""
    if method == "napkin":
        math = terms["compute_s"]
        return time.napkin_step_s.of(
            kv_read_s=terms["kv_read_s"],
            weight_read_s=terms["weight_read_s"],
            compute_s=math if math.value is not None else Figure("compute_s", 0, "s", math.origin),
            communication_s=terms["communication_s"],
        )
    attention = Figure("attention_s", larger(terms["kv_read_s"].value, terms["attention_compute_s"].value), "s", "the longer of reading and computing", None, (terms["kv_read_s"], terms["attention_compute_s"]))
    return total("step_time_s", "s", (terms["gemms_s"], attention, terms["communication_s"]))


def critical_batch(model: Model, plan: Deployment) -> Figure:
    """Tokens per step from which arithmetic binds the weights' GEMMs; in a mixture each expert sees top_k of experts tokens."""
    p = compute_rate(plan.device, plan.weights)
    if p.value is None:
        return Figure("critical_batch", None, "tokens", p.origin)
    mixtures = [group.layer.mlp for group in model.groups if group.layer.mlp and group.layer.mlp.experts]
    spread = max((mlp.experts / mlp.top_k for mlp in mixtures), default=1)
    return time.critical_batch.of(
        flops_per_s=p,
        bytes_per_weight=Figure("bytes_per_weight", plan.weights.bytes, "B", plan.weights.name),
        bandwidth_bytes_per_s=bandwidth(plan.device),
        experts_per_active_expert=Figure("experts_per_active_expert", spread, "", memory.CONFIG),
    )


def bound(terms: dict[str, Figure]) -> str:
    """What the step waits for most: the caches, the weights, arithmetic, or the link."""
    arithmetic = terms["compute_s"].value or 0
    shares = {
        "memory-kv": terms["kv_read_s"].value,
        "compute" if arithmetic > terms["weight_read_s"].value else "memory-weights": max(arithmetic, terms["weight_read_s"].value),
        "communication": terms["communication_s"].value,
    }
    return max(shares, key=lambda name: shares[name])


WORDS = {
    "memory-weights": "reading the weights takes longest: more sequences per step come almost free",
    "memory-kv": "reading the caches takes longest: shorter contexts, fewer KV bytes or a wider memory help, a bigger batch does not",
    "compute": "arithmetic takes longest: the batch is past the critical one, and only faster multiplication helps",
    "communication": "ranks wait for each other longest: fewer ranks or a faster link help",
}


def decode(model: Model, plan: Deployment, work: Workload, method: str = "napkin") -> Estimate:
    """One decode step of `work.batch` sequences that hold `work.ctx` tokens each."""
    terms = step(model, plan, work, method)
    length = step_time(terms, method)
    value = {key: figure.value for key, figure in terms.items()}
    w = terms["bandwidth"]
    p = terms["flops_per_s"]
    ranks = Figure("devices", plan.tp, "", layout.LAYOUT)
    rate = time.tokens_per_s.of(batch=Figure("batch", work.batch, "", "--batch"), step_time_s=length)
    critical = critical_batch(model, plan)
    bytes_read = value["weight_read_bytes"] + work.batch * value["kv_read_bytes"]
    flops = compute.dense_flops(memory.active_params(model), work.batch)
    single = read_all(model, plan)
    crossover = time.kv_crossover_batch.of(weight_read_bytes=terms["weight_read_bytes"], kv_read_bytes=terms["kv_read_bytes"]) if value["kv_read_bytes"] else None
    ceiling = (
        time.ceiling_tokens_per_s.of(bandwidth_bytes_per_s=w, devices=ranks, bytes_per_token=terms["kv_read_bytes"]) if value["kv_read_bytes"] else None
    )
    fitted = fits(model, plan, work)
    warnings = [*fitted.warnings]
    if p.value is None:
        warnings.append(f"compute_s and critical_batch: {p.origin}, so arithmetic is not in the step time")
    if crossover is None:
        warnings.append("kv_crossover_batch and ceiling_tokens_per_s: this model reads no cache")
    results = {
        "step_time_s": length.value,
        "tpot_s": length.value,
        "tokens_per_s_per_user": 1 / length.value,
        "tokens_per_s": rate.value,
        "weight_read_s": value["weight_read_s"],
        "kv_read_s": value["kv_read_s"],
        "compute_s": value["compute_s"],
        "communication_s": value["communication_s"],
        "overhead_s": 0,
        "bound": bound(terms),
        "critical_batch": critical.value,
        "kv_crossover_batch": crossover.value if crossover else None,
        "ceiling_tokens_per_s": ceiling.value if ceiling else None,
        "single_stream_ceiling_tokens_per_s": single.value,
        "arithmetic_intensity_flops_per_byte": time.intensity(flops, bytes_read),
        "ridge_point_flops_per_byte": None if p.value is None else time.ridge_point(p.value, w.value),
        "fits": fitted.results["fits"],
        "expected_step_time_s": None,
        "expected_step_time_low_s": None,
        "expected_step_time_high_s": None,
    }
    warnings.append("expected_step_time_s: no measured efficiencies are bundled yet; the step time is the ideal one")
    figures = {"step_time_s": length, "tokens_per_s": rate, "critical_batch": critical}
    if crossover and ceiling:
        figures |= {"kv_crossover_batch": crossover, "ceiling_tokens_per_s": ceiling}
    return Estimate(
        results=results,
        figures=figures,
        assumptions=(*assumptions(model, plan), f"method {method}: ideal rates, so an engine takes longer"),
        warnings=tuple(warnings),
    )


def read_all(model: Model, plan: Deployment) -> Figure:
    """Steps per second if nothing but the weights had to be read, for one sequence."""
    dense, experts = layout.read_weight_bytes(model, plan, 1)
    read = dense if experts is None else total("weight_read_bytes", "B", (dense, experts))
    return time.ceiling_tokens_per_s.of(
        bandwidth_bytes_per_s=bandwidth(plan.device), devices=Figure("devices", plan.tp, "", layout.LAYOUT), bytes_per_token=read
    )


def fits(model: Model, plan: Deployment, work: Workload) -> Estimate:
    """The verdict of `fit`; where the device's memory is not known, no verdict and a warning."""
    try:
        return capacity.fit(model, plan, work)
    except UsageError as problem:
        return Estimate({"fits": None, "max_batch": None}, {}, warnings=(f"fits: {problem.message}",))


def assumptions(model: Model, plan: Deployment) -> tuple[str, ...]:
    """The layout and formats in words."""
    said = [f"weights in {plan.weights.name}, KV in {plan.kv.name}"]
    key, native = compute_key(plan.device, plan.weights)
    if key and not native and plan.weights.bits < 16:
        said.append(f"{plan.device.id} multiplies {plan.weights.name} weights at its {key} rate, dequantised")
    if plan.ranks > 1:
        said.append(f"{plan.ranks} ranks: tp {plan.tp}, pp {plan.pp}, ep {plan.ep}" + (f", attention in {plan.dp} groups" if plan.dp > 1 else ""))
    if any(group.layer.mlp and group.layer.mlp.experts for group in model.groups):
        said.append("experts are drawn evenly and independently for each token")
    return tuple(said)


