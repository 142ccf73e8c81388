"""Reading a prompt: arithmetic, attention over it, and the time until the first token."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from llmcalc.architecture import Entry, Model
from llmcalc.estimate import Estimate, capacity, decode, expected, layout, memory
from llmcalc.figures import Figure, total
from llmcalc.formulas import compute, serving, time
from llmcalc.plan import Deployment, Workload

CHUNKS = (256, 512, 1024, 2048, 4096, 8192)


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
    scores = [
        compute.prefill_attention_flops.of(
            layers=Figure("layers", layers, "", memory.CONFIG),
            flops_per_pair=Figure("flops_per_pair", entry.prefill_flops or entry.flops, "FLOP", memory.CONFIG),
            pairs=attention_pairs(entry, prompt, cached),
        )
        for mixer, layers in memory.mixers(model)
        for entry in mixer.entries
    ]
    return total("attention_flops", "FLOP", tuple(scores))


def head_params(model: Model) -> int:
    """Parameters of the LM head, which only the last token of a prompt needs."""
    return model.stack.vocab * model.stack.embedding[0].columns


def terms(model: Model, plan: Deployment, prompt_tokens: int, cached_tokens: int = 0) -> dict[str, Figure]:
    """FLOPs and times of a prefill of `prompt_tokens`, of which the first `cached_tokens` are in the prefix cache.

    Times are those in which all ranks of a replica are busy, each data-parallel group with such a prompt of its own: the groups
    read the experts once between them. Attention multiplies at 16 bits whatever the weights have.
    """
    new = Figure("tokens", prompt_tokens - cached_tokens, "tokens", "--prompt less --cached")
    cached = Figure("cached_tokens", cached_tokens, "tokens", "--cached")
    head = head_params(model)
    body = Figure("params", memory.multiplied_params(model) - head, "params", "active per token, without tables")
    gemms = compute.dense_flops.of(as_name="body_flops", params=body, tokens=new)
    last = compute.dense_flops.of(
        as_name="head_flops", params=Figure("params", head, "params", "LM head"), tokens=Figure("tokens", 1, "tokens", "the last one")
    )
    matrices = total("gemm_flops", "FLOP", (gemms, last))
    attention = attention_flops(model, new, cached)
    everything = total("prefill_flops", "FLOP", (gemms, last, attention))
    p = decode.compute_rate(plan.device, plan.weights)
    p16 = decode.compute_rate(plan.device, memory.compute_format(model)[0])
    ranks = Figure("devices", plan.tp * plan.pp, "", layout.LAYOUT)
    dense, experts = layout.read_weight_bytes(model, plan, new.value * plan.dp)
    w = decode.bandwidth(plan.device)
    read = time.read_s.of(as_name="weight_read_s", bytes_read=dense, bandwidth_bytes_per_s=w, devices=ranks)
    if experts is not None:
        spread = Figure("devices", plan.ranks, "", layout.LAYOUT)
        routed = time.read_s.of(as_name="expert_read_s", bytes_read=experts, bandwidth_bytes_per_s=w, devices=spread)
        read = total("weight_read_s", "s", (replace(read, name="dense_read_s"), routed))
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
        "communication_s": decode.communication(model, plan, new.value),
    }


def length(found: dict[str, Figure]) -> Figure:
    """The time of a prefill that keeps all ranks busy. None without a compute rate."""
    if found["gemm_s"].value is None:
        return Figure("prefill_time_s", None, "s", found["gemm_s"].origin)
    parts = ("gemm_s", "weight_read_s", "attention_s", "kv_read_s", "communication_s")
    return serving.prefill_s.of({key: found[key] for key in parts}, as_name="prefill_time_s")


def first_token(busy: Figure, plan: Deployment, microbatches: int) -> Figure:
    """TTFT of one prompt on an idle replica: a pipeline works on it chunk by chunk, and fills and drains."""
    if plan.pp == 1 or busy.value is None:
        return Figure("ttft_s", busy.value, busy.unit, busy.origin, busy.formula, busy.inputs)
    return serving.pipelined_s.of(
        as_name="ttft_s",
        busy_s=busy,
        stages=Figure("stages", plan.pp, "", layout.LAYOUT),
        microbatches=Figure("microbatches", microbatches, "", "chunks of the prompt"),
    )


def bound(found: dict[str, Figure]) -> str:
    """What a prefill waits for most."""
    value = {key: figure.value or 0 for key, figure in found.items()}
    shares = {
        "compute": max(value["gemm_s"] * (value["gemm_s"] >= value["weight_read_s"]), 0)
        + value["attention_s"] * (value["attention_s"] >= value["kv_read_s"]),
        "memory-weights": value["weight_read_s"] * (value["gemm_s"] < value["weight_read_s"]),
        "memory-kv": value["kv_read_s"] * (value["attention_s"] < value["kv_read_s"]),
        "communication": value["communication_s"],
    }
    return max(shares, key=lambda name: shares[name])


def workload_prompt(work: Workload) -> int:
    """The prompt of a workload; without one, the context that the sequences hold."""
    return work.prompt if work.prompt is not None else int(work.ctx)


def mixed_step(model: Model, plan: Deployment, work: Workload, chunk: int, prompt: int, cached: int = 0) -> Figure:
    """A step that decodes `work.batch` sequences of `work.ctx` tokens and reads `chunk` tokens of a prompt.

    Every token of the step counts as one of its batch, the head included; attention is the mean over the prompt's chunks.
    """
    decoding = decode.step(model, plan, work)
    carrying = decode.step(model, plan, Workload(work.ctx, work.batch + chunk))
    new = prompt - cached
    scores = terms(model, plan, prompt, cached)["attention_s"]
    share = Figure(
        "attention_s", (scores.value or 0) * min(chunk, new) / new, "s", "the chunk's share of the prompt's attention", None, (scores,)
    )
    return serving.mixed_step_s.of(
        kv_read_s=decoding["kv_read_s"],
        weight_read_s=carrying["weight_read_s"],
        compute_s=carrying["compute_s"],
        communication_s=carrying["communication_s"],
        attention_s=share,
    )


def chunk_rows(model: Model, plan: Deployment, work: Workload, prompt: int, cached: int, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """What each chunk size does to the TPOT of a decoding batch and to the prompt's own TTFT."""
    plain = decode.step_time(decode.step(model, plan, work), "napkin").value
    rows = []
    for size in (*sizes, 0):
        carried = min(size, prompt - cached) if size else prompt - cached
        step = mixed_step(model, plan, work, carried, prompt, cached)
        attention = step.inputs[-1].value
        steps = math.ceil((prompt - cached) / carried)
        rows.append(
            {
                "chunk_tokens": carried,
                "steps": steps,
                "step_time_s": step.value,
                "step_time_without_attention_s": step.value - attention,
                "tpot_factor": step.value / plain,
                "ttft_s": step.value * steps,
            }
        )
        if size and carried < size:
            break
    if len(rows) > 1 and rows[-1]["chunk_tokens"] == rows[-2]["chunk_tokens"]:
        rows.pop()
    return rows


def attention_equals_gemms(model: Model, plan: Deployment) -> int | None:
    """The prompt from which attention takes longer than all matrices together, or None below 2^30 tokens."""

    def longer(tokens: int) -> bool:
        found = terms(model, plan, tokens)
        return (found["attention_s"].value or 0) > (found["gemm_s"].value or 0)

    low, high = 1, 2**30
    if not longer(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if longer(middle) else (middle, high)
    return high


def arithmetic_binds(model: Model, plan: Deployment) -> int | None:
    """Prompt tokens from which arithmetic takes longer than reading the weights, or None below 2^20 tokens."""

    def busy(tokens: int) -> bool:
        found = terms(model, plan, tokens)
        return bool((found["gemm_s"].value or 0) >= found["weight_read_s"].value)

    low, high = 0, 2**20
    if not busy(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if busy(middle) else (middle, high)
    return high


def prefill(
    model: Model, plan: Deployment, prompt: int, cached: int = 0, *, work: Workload | None = None, chunk: int | None = None
) -> Estimate:
    """Reading `prompt` tokens, the first `cached` of them from the prefix cache; with `work`, beside a decoding batch.

    `chunk`: prompt tokens per step. None: the whole prompt in one.
    """
    found = terms(model, plan, prompt, cached)
    busy = length(found)
    new = prompt - cached
    pieces = math.ceil(new / chunk) if chunk else 1
    first = first_token(busy, plan, pieces)
    likely = expected.ttft(model, plan, prompt, cached, int(work.batch) if work is not None else 0, found)
    warnings = capacity.cautions(model, plan, prompt)
    arithmetic = attention = None
    if busy.value is None:
        warnings.append(
            "prefill_time_s, ttft_s, prompt_tokens_per_s, gemm_s, attention_s, compute_bound_from_tokens and "
            f"attention_bound_from_tokens: {busy.origin}"
        )
    else:
        arithmetic, attention = arithmetic_binds(model, plan), attention_equals_gemms(model, plan)
        if arithmetic is None:
            warnings.append("compute_bound_from_tokens: no prompt below 2^20 tokens keeps the arithmetic busier than the memory")
        if attention is None:
            warnings.append("attention_bound_from_tokens: attention takes less than the matrices for every prompt below 2^30 tokens")
    rows: list[dict[str, Any]] = []
    assumptions = [*decode.assumptions(model, plan), "an idle server: no queue, no network; ideal rates, so an engine takes longer"]
    if work is not None and busy.value is not None:
        sizes = tuple(sorted({*CHUNKS, *((chunk,) if chunk else ())}))
        rows = chunk_rows(model, plan, work, prompt, cached, sizes)
        if chunk:
            # Beside a batch the prompt goes at the pace of the mixed steps.
            beside = mixed_step(model, plan, work, min(chunk, new), prompt, cached)
            first = time.repeated_s.of(as_name="ttft_s", times=Figure("steps", pieces, "", "chunks of the prompt"), each_s=beside)
        assumptions.append(
            f"the rows: {work.batch:,} sequences of {work.ctx:,} tokens decode meanwhile; every token of a step counts as one of its batch"
        )
    bubble = serving.pipeline_bubble(plan.pp, pieces)
    critical = decode.critical_batch(model, plan).value
    results = {
        "ttft_s": first.value,
        "prefill_time_s": busy.value,
        "prefill_flops": found["prefill_flops"].value,
        "attention_flops": found["attention_flops"].value,
        "prompt_tokens_per_s": None if busy.value is None else plan.dp * prompt / busy.value,
        "bound": bound(found),
        "gemm_s": found["gemm_s"].value,
        "attention_s": found["attention_s"].value,
        "weight_read_s": found["weight_read_s"].value,
        "kv_read_s": found["kv_read_s"].value,
        "communication_s": found["communication_s"].value,
        "attention_share": found["attention_flops"].value / found["prefill_flops"].value,
        "pipeline_bubble": bubble,
        "compute_bound_from_tokens": arithmetic,
        "attention_bound_from_tokens": attention,
        "free_tokens": None if critical is None or work is None else serving.free_tokens(critical, work.batch),
        "saved_s": None if busy.value is None or not cached else length(terms(model, plan, prompt)).value - busy.value,
        "expected_ttft_s": likely and likely.mid_s,
        "expected_ttft_low_s": likely and likely.low_s,
        "expected_ttft_high_s": likely and likely.high_s,
    }
    figures = {"prefill_time_s": busy, "ttft_s": first} if busy.value is not None else {"prefill_flops": found["prefill_flops"]}
    if likely is None:
        warnings.append(f"expected_ttft_s: {busy.origin}")
    else:
        figures["expected_ttft_s"] = likely.mid
        others = f" beside {work.batch:,} other sequences" if work is not None else ""
        assumptions.append(f"expected{others}: {likely.words}")
    return Estimate(
        results,
        figures,
        rows=tuple(rows),
        inputs={"prompt_tokens": prompt, "cached_tokens": cached, "chunk_tokens": chunk},
        assumptions=tuple(assumptions),
        warnings=tuple(warnings),
    )
