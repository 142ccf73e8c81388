"""One decode step: how long, what binds it, and from which batch arithmetic takes over.

Two ideal readings of it. `napkin` treats the model as one matrix (the course notes); `roofline` sums its operators, each at its
own intensity. They share every byte count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmcalc.architecture import Entry, Model
from llmcalc.checkpoint import Checkpoint
from llmcalc.errors import UsageError
from llmcalc.estimate import Estimate, capacity, expected, layout, memory
from llmcalc.figures import Figure, larger, total
from llmcalc.formats import Format
from llmcalc.formulas import compute, time
from llmcalc.formulas import memory as f
from llmcalc.hardware import Device
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment, Workload
from llmcalc.units import rate as speed
from llmcalc.units import seconds

METHODS = ("napkin", "roofline")
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


def link_rate(device: Device) -> tuple[Figure, Figure]:
    """(bytes/s one way, latency of a collective). Errors: no-link."""
    link = device.link
    rate = link.bytes_per_s if link else None
    if link is None or rate is None:
        raise UsageError(
            "no-link",
            f"{device.id} has no known link, so what its ranks say to each other cannot be timed",
            "use --tp 1, or a profile with a link",
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

    tp: an all-reduce of the hidden state behind each mixer and each MLP. Experts dealt over several groups: instead of the
    latter, two all-to-alls, each rank sending its share of the tokens top_k times. pp: one hand-over per boundary.
    """
    if plan.ranks == 1:
        return Figure("communication_s", 0, "s", "one device talks to nobody")
    rate, latency = link_rate(plan.device)
    message = compute.message_bytes.of(
        tokens=Figure("tokens", tokens, "tokens", "of a step, in one group"),
        hidden=Figure("hidden", model.stack.hidden, "", memory.CONFIG),
        bytes_per_value=Figure("bytes_per_value", layout.ACTIVATION_BYTES, "B", "16-bit activations"),
    )
    ways = {"latency_s": latency, "message_bytes": message, "link_bytes_per_s": rate}
    tp = Figure("devices", plan.tp, "", layout.LAYOUT)
    mixtures = [layer.mlp for layer in model.stack.layers if layer.mlp and layer.mlp.experts] if plan.dp > 1 else []
    parts = []
    if plan.tp > 1:
        each = time.all_reduce_s.of(ways, devices=tp)
        blocks = sum(bool(layer.mixers) + bool(layer.mlp) for layer in model.stack.layers) - len(mixtures)
        parts.append(time.repeated_s.of(as_name="all_reduces_s", times=Figure("all_reduces", blocks, "", memory.CONFIG), each_s=each))
    if mixtures:
        most = Figure("top_k", max(mlp.top_k for mlp in mixtures), "", memory.CONFIG)
        sent = compute.dispatched_bytes.of(message_bytes=message, tensor_parallel=tp, top_k=most)
        ranks = Figure("devices", plan.tp * plan.dp, "", layout.LAYOUT)
        each = time.all_to_all_s.of(ways | {"message_bytes": sent}, devices=ranks)
        count = Figure("all_to_alls", 2 * len(mixtures), "", memory.CONFIG)
        parts.append(time.repeated_s.of(as_name="all_to_alls_s", times=count, each_s=each))
    if plan.pp > 1:
        hop = time.hand_over_s.of(ways)
        parts.append(time.repeated_s.of(as_name="hand_overs_s", times=Figure("boundaries", plan.pp - 1, "", layout.LAYOUT), each_s=hop))
    return parts[0] if len(parts) == 1 else total("communication_s", "s", tuple(parts))


# ---- the step -----------------------------------------------------------------------------------------------------


def step(model: Model, plan: Deployment, work: Workload, method: str = "napkin") -> dict[str, Figure]:
    """Every term of one decode step, as Figures; `work.batch` and `work.ctx` may be arrays.

    A pipeline of pp stages works on pp micro-batches at once, so each waits for all weights and for its own caches, read by
    one tp group at a time. `weight_read_bytes` and `kv_read_bytes` are of one micro-batch and one sequence.
    """
    if method not in METHODS:
        raise UsageError("unknown-method", f"{method!r} is not a method", f"use one of {', '.join(METHODS)}")
    ctx = Figure("ctx_tokens", work.ctx, "tokens", "--ctx")
    w = bandwidth(plan.device)
    p = compute_rate(plan.device, plan.weights)
    tp = Figure("devices", plan.tp, "", layout.LAYOUT)
    local = larger(1, work.batch / (plan.dp * plan.pp)) if plan.dp * plan.pp > 1 else work.batch
    batch = Figure("batch", local, "", "--batch" if plan.dp * plan.pp == 1 else "--batch, dealt over groups and stages")
    kv_bytes = replace(layout.sequence_bytes(model, plan, ctx, reads=True), name="kv_read_bytes")
    found = {
        "kv_read_bytes": kv_bytes,
        "kv_read_s": time.kv_read_s.of(batch=batch, kv_read_bytes=kv_bytes, bandwidth_bytes_per_s=w, devices=tp),
        "attention_compute_s": _attention_compute(model, plan, ctx, batch, tp),
        "bandwidth": w,
        "flops_per_s": p,
        "communication_s": communication(model, plan, local),
    }
    if method == "napkin":
        found.update(_napkin(model, plan, work, batch, w, p, tp))
    else:
        found.update(_roofline(model, plan, work, batch, ctx, w, p))
    return found


def together(plan: Deployment, work: Workload) -> Any:
    """Tokens that meet in one mixture layer: those of all groups, but of one micro-batch of a pipeline."""
    return larger(1, work.batch / plan.pp) if plan.pp > 1 else work.batch


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
        ranks = Figure("devices", plan.tp * plan.dp, "", layout.LAYOUT)
        routed = time.read_s.of(as_name="expert_read_s", bytes_read=experts, bandwidth_bytes_per_s=w, devices=ranks)
        read = total("weight_read_s", "s", (replace(read, name="dense_read_s"), routed))
    if p.value is None:
        math = Figure("compute_s", None, "s", p.origin)
    else:
        math = time.compute_s.of(params=step_params(model), batch=batch, flops_per_s=p, devices=tp)
    return {"weight_read_bytes": read_bytes(plan, dense, experts), "weight_read_s": read, "compute_s": math}


def read_bytes(plan: Deployment, dense: Figure, experts: Figure | None) -> Figure:
    """What all groups read together: each its own dense weights, all of them the experts once."""
    if plan.dp > 1:
        dense = f.replicated_bytes.of(as_name=dense.name, held_bytes=dense, copies=Figure("copies", plan.dp, "", layout.LAYOUT))
    return dense if experts is None else total("weight_read_bytes", "B", (dense, experts))


def _roofline(model: Model, plan: Deployment, work: Workload, batch: Figure, ctx: Figure, w: Figure, p: Figure) -> dict[str, Figure]:
    """The GEMMs one by one, the head, the attention of each kind; weights that quantisers leave alone stay at 16 bits."""
    plain = memory.compute_format(model)[0]
    p16 = compute_rate(plan.device, plain)
    if p.value is None or p16.value is None:
        raise UsageError("no-compute-rate", f"{plan.device.id} has no known compute rate", "use --method napkin")
    width = Figure("bytes_per_value", layout.ACTIVATION_BYTES, "B", "16-bit activations")
    gemms: list[Figure] = []
    products: list[Figure] = []
    dense = routed = 0.0
    for index, (layers, weight) in enumerate(model_weights(model)):
        head = model.stack.tied and weight in model.stack.embedding[:1]
        if weight.part in ("embedding", "positions", "encoder") and not head:
            continue  # a row is looked up; an encoder has run before
        kept_16 = head or weight.part in ("head", "norms", "router") or weight.columns == 1
        fmt, rate = (plain, p16) if kept_16 and plan.weights.bits < plain.bits else (plan.weights, p)
        if isinstance(plan.weights, Checkpoint):
            fmt = plan.weights.of(index)
            rate = compute_rate(plan.device, fmt)
        chosen = layout.routed(weight)
        spread = plan.tp * plan.dp if chosen else plan.tp
        ranks = Figure("devices", spread, "", layout.LAYOUT)
        bits = Figure("bits_per_weight", fmt.bits, "bit", fmt.name)
        params = Figure("params", weight.rows * weight.columns, "params", f"{weight.rows} × {weight.columns}")
        if chosen:
            touched = time.distinct_experts.of(
                experts=Figure("experts", weight.copies, "", memory.CONFIG),
                top_k=Figure("top_k", weight.active, "", memory.CONFIG),
                tokens=Figure("tokens", together(plan, work), "tokens", batch.origin),
            )
            stored = f.expert_read_bytes.of(params_per_expert=params, distinct_experts=touched, bits_per_weight=bits)
        else:
            every = params if weight.copies == 1 else Figure("params", weight.params, "params", f"{weight.copies} × {params.origin}")
            stored = f.weight_bytes.of(params=every, bits_per_weight=bits)
        times = Figure("layers", layers * weight.uses, "", memory.CONFIG)
        if weight.columns == 1:  # a norm or a bias is applied while its neighbour's output passes by: no traffic of its own
            each = time.read_s.of(bytes_read=stored, bandwidth_bytes_per_s=w, devices=ranks)
        else:
            origin = f"{batch.origin} × top_k" if chosen else batch.origin
            tokens = Figure("tokens", batch.value * weight.active * (plan.dp if chosen else 1), "tokens", origin)
            values = Figure("values_in_and_out", weight.rows + (0 if weight.name.endswith(FUSED) else weight.columns), "", params.origin)
            flops = compute.dense_flops.of(params=params, tokens=tokens)
            each = time.operator_s.of(
                bytes_moved=compute.gemm_bytes.of(weight_bytes=stored, tokens=tokens, values_in_and_out=values, bytes_per_value=width),
                work_flops=flops,
                bandwidth_bytes_per_s=of_ranks(w, spread),
                flops_per_s=of_ranks(rate, spread),
            )
            product = time.work_s.of(work_flops=flops, flops_per_s=rate, devices=ranks)
            products.append(time.repeated_s.of(as_name=f"{weight.name}_s", times=times, each_s=product))
        gemms.append(time.repeated_s.of(as_name=f"{weight.name}_s", times=times, each_s=each))
        if chosen:
            routed = routed + times.value * stored.value
        else:
            dense = dense + times.value * stored.value
    experts = Figure("expert_read_bytes", routed, "B", "experts that the step touches, at their formats")
    once = Figure("dense_read_bytes", dense, "B", "every other weight that a step touches, at their formats")
    tp, ranks = (Figure("devices", count, "", layout.LAYOUT) for count in (plan.tp, plan.tp * plan.dp))
    read = time.read_s.of(as_name="dense_read_s", bytes_read=once, bandwidth_bytes_per_s=w, devices=tp)
    from_experts = time.read_s.of(as_name="expert_read_s", bytes_read=experts, bandwidth_bytes_per_s=w, devices=ranks)
    mixture = any(layout.routed(weight) for _, weight in model_weights(model))
    return {
        "weight_read_bytes": read_bytes(plan, once, experts if mixture else None),
        "weight_read_s": total("weight_read_s", "s", (read, from_experts)) if mixture else replace(read, name="weight_read_s"),
        "compute_s": total("compute_s", "s", tuple(products)),
        "gemms_s": total("gemms_s", "s", tuple(gemms)),
        "attention_s": _attention(model, plan, ctx, batch, w, p16),
    }


def of_ranks(rate: Figure, ranks: int) -> Figure:
    """The rate of several ranks."""
    return rate if ranks == 1 else replace(rate, value=rate.value * ranks, origin=f"{ranks} × {rate.origin}")


def _attention(model: Model, plan: Deployment, ctx: Figure, batch: Figure, w: Figure, p16: Figure) -> Figure:
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
                    work_flops=_entry_flops(entry, layers, ctx, batch),
                    bandwidth_bytes_per_s=of_ranks(w, plan.tp),
                    flops_per_s=of_ranks(p16, plan.tp),
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


def step_time(terms: dict[str, Figure], method: str) -> Figure:
    """The length of the step from its terms."""
    if method == "napkin":
        math = terms["compute_s"]
        return time.napkin_step_s.of(
            as_name="step_time_s",
            kv_read_s=terms["kv_read_s"],
            weight_read_s=terms["weight_read_s"],
            compute_s=math if math.value is not None else Figure("compute_s", 0, "s", math.origin),
            communication_s=terms["communication_s"],
        )
    return total("step_time_s", "s", (terms["gemms_s"], terms["attention_s"], terms["communication_s"]))


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


def intensity(model: Model, plan: Deployment, work: Workload, terms: dict[str, Figure]) -> Any:
    """FLOP per byte of the tokens that pass through the weights together."""
    tokens = together(plan, work)
    read = compute.step_bytes(terms["weight_read_bytes"].value, tokens, terms["kv_read_bytes"].value)
    return time.intensity(compute.dense_flops(step_params(model).value, tokens), read)


def bound(terms: dict[str, Figure], method: str = "napkin") -> str:
    """What the step waits for most: the caches, the weights, arithmetic, or the link. The napkin knows no arithmetic of attention."""
    value = {name: figure.value or 0 for name, figure in terms.items()}
    attention = value["attention_compute_s"] if method == "roofline" else 0
    shares = {"memory-weights": 0.0, "memory-kv": 0.0, "compute": 0.0, "communication": value["communication_s"]}
    for memory_bound, read, math in (
        ("memory-weights", value["weight_read_s"], value["compute_s"]),
        ("memory-kv", value["kv_read_s"], attention),
    ):
        shares["compute" if math > read else memory_bound] += max(math, read)
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
    ranks = Figure("devices", plan.ranks, "", layout.LAYOUT)
    rate = time.tokens_per_s.of(batch=Figure("batch", work.batch, "", "--batch"), step_time_s=length)
    critical = critical_batch(model, plan)
    alone = step(model, plan, Workload(work.ctx, 1), method)["weight_read_s"]
    single = time.tokens_per_s.of(batch=Figure("batch", 1, "", "one sequence"), step_time_s=alone)
    crossover = kv_crossover(model, plan, work, method) if value["kv_read_bytes"] else None
    ceiling = (
        time.ceiling_tokens_per_s.of(bandwidth_bytes_per_s=w, devices=ranks, bytes_per_token=terms["kv_read_bytes"])
        if value["kv_read_bytes"]
        else None
    )
    likely = expected.step(model, plan, work, terms if method == "napkin" else None)
    fitted = fits(model, plan, work)
    warnings = [*fitted.warnings]
    if p.value is None:
        warnings.append(
            f"compute_s and critical_batch: {p.origin}, so arithmetic is not in the step time and ridge_point_flops_per_byte is unknown"
        )
    if crossover is None:
        warnings.append("kv_crossover_batch and ceiling_tokens_per_s: this model reads no cache")
    if method == "napkin" and (value["attention_compute_s"] or 0) > value["kv_read_s"]:
        warnings.append("computing attention takes longer than reading the caches here; --method roofline counts it, the napkin does not")
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
        "bound": bound(terms, method),
        "critical_batch": critical.value,
        "kv_crossover_batch": crossover.value if crossover else None,
        "ceiling_tokens_per_s": ceiling.value if ceiling else None,
        "single_stream_ceiling_tokens_per_s": single.value,
        "arithmetic_intensity_flops_per_byte": intensity(model, plan, work, terms),
        "ridge_point_flops_per_byte": None if p.value is None else time.ridge_point(p.value, w.value),
        "fits": fitted.results["fits"],
        "expected_step_time_s": likely.mid_s,
        "expected_step_time_low_s": likely.low_s,
        "expected_step_time_high_s": likely.high_s,
    }
    figures = {"step_time_s": length, "expected_step_time_s": likely.mid, "tokens_per_s": rate, "critical_batch": critical}
    if crossover and ceiling:
        figures |= {"kv_crossover_batch": crossover, "ceiling_tokens_per_s": ceiling}
    return Estimate(
        results=results,
        figures=figures,
        assumptions=(*assumptions(model, plan), f"method {method}: ideal rates, so an engine takes longer", f"expected: {likely.words}"),
        warnings=tuple(warnings),
    )


def kv_crossover(model: Model, plan: Deployment, work: Workload, method: str) -> Figure:
    """Sequences whose caches take as long to read as the weights, which in a mixture are more for a larger batch.

    The weights read grow ever more slowly with the batch, so repeating "weights over cache" closes in on the one solution.
    """
    batch = work.batch
    for _ in range(200):
        terms = step(model, plan, Workload(work.ctx, batch), method)
        weights = terms["weight_read_bytes"]
        if plan.pp > 1:
            weights = f.replicated_bytes.of(held_bytes=weights, copies=Figure("micro_batches", plan.pp, "", layout.LAYOUT))
        found = time.kv_crossover_batch.of(weight_read_bytes=weights, kv_read_bytes=terms["kv_read_bytes"])
        if abs(found.value - batch) <= 1e-9 * batch or not layout.experts(model):
            break
        batch = found.value
    return found


def fits(model: Model, plan: Deployment, work: Workload) -> Estimate:
    """The verdict of `fit`, without its remarks on the context; where the device's memory is not known, no verdict and a warning."""
    try:
        found = capacity.fit(model, plan, work)
        return replace(found, warnings=tuple(text for text in found.warnings if not text.startswith("max_ctx_tokens")))
    except UsageError as problem:
        said = (*capacity.cautions(model, plan, work.ctx), f"fits: {problem.message}: {problem.hint}")
        return Estimate({"fits": None, "max_batch": None}, {}, warnings=said)


def assumptions(model: Model, plan: Deployment) -> tuple[str, ...]:
    """The layout and formats in words."""
    shipped = " as the checkpoint ships" if isinstance(plan.weights, Checkpoint) else ""
    said = [f"weights in {plan.weights.name}{shipped}, KV in {plan.kv.name}"]
    key, native = compute_key(plan.device, plan.weights)
    if key and not native:
        how = "dequantised" if plan.weights.bits < 16 else f"{plan.weights.name} has no rate of its own"
        said.append(f"{plan.device.id} multiplies {plan.weights.name} weights at its {key} rate: {how}")
    if plan.ranks > 1:
        said.append(
            f"{plan.ranks} ranks: tp {plan.tp}, pp {plan.pp}, ep {plan.ep}" + (f", attention in {plan.dp} groups" if plan.dp > 1 else "")
        )
        rate, latency = link_rate(plan.device)
        said.append(f"{rate.origin}: {speed(rate.value)}, {seconds(latency.value)} per collective")
        if plan.ranks > plan.device.devices_per_node:
            node = plan.device.devices_per_node
            said.append(f"{plan.ranks} ranks talk at that rate, though a node has {node}: slower links between nodes are not modelled")
    if layout.experts(model):
        said.append("experts are drawn evenly and independently for each token")
    return tuple(said)
