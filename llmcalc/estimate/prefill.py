"""Reading a prompt: arithmetic, attention over it, and the time until the first token."""

from __future__ import annotations

from llmcalc.architecture import Entry, Model
from llmcalc.estimate import decode, layout, memory
from llmcalc.figures import Figure, larger, total
from llmcalc.formulas import compute, time
from llmcalc.plan import Deployment, Workload


def attention_pairs(entry: Entry, prompt: Figure, cached: Figure) -> Figure:
    """Query-key pairs of one layer: the causal triangle behind the cached prefix; a window or a choice of tokens bounds each query."""
    if entry.tokens is not None:
        return Figure("pairs", prompt.value * entry.tokens, "pairs", "prompt × encoder tokens")
    limits = [limit for limit in (entry.window, entry.reads) if limit is not None]
    reach = min(limits) if limits else None
    end = cached.value + prompt.value
    if reach is None or end <= reach:
        whole = compute.causal_pairs.of(tokens=prompt, cached_tokens=cached)
    else:
        # Queries within the first `reach` tokens see a triangle, all later ones see `reach` tokens each.
        inside = max(0, reach - cached.value)
        seen = compute.causal_pairs(inside, cached.value) + (prompt.value - inside) * reach
        whole = Figure("pairs", seen, "pairs", f"each query sees at most {reach:,} tokens")
    return whole if entry.ratio == 1 else Figure("pairs", whole.value / entry.ratio, "pairs", f"one entry per {entry.ratio} tokens", None, (whole,))


def terms(model: Model, plan: Deployment, prompt_tokens: int, cached_tokens: int = 0) -> dict[str, Figure]:
    """FLOPs and times of a prefill of `prompt_tokens`, of which the first `cached_tokens` are in the prefix cache."""
    new = Figure("tokens", prompt_tokens - cached_tokens, "tokens", "--prompt less --cached")
    cached = Figure("cached_tokens", cached_tokens, "tokens", "--cached")
    head = model.stack.vocab * model.stack.embedding[0].columns
    body = Figure("params", memory.active_params(model) - head, "params", "active per token, without tables")
    gemms = compute.dense_flops.of(as_name="body_flops", params=body, tokens=new)
    last = compute.dense_flops.of(as_name="head_flops", params=Figure("params", head, "params", "LM head"), tokens=Figure("tokens", 1, "tokens", "the last one"))
    scores = []
    for mixer, layers in memory.mixers(model):
        for entry in mixer.entries:
            scores.append(
                compute.prefill_attention_flops.of(
                    layers=Figure("layers", layers, "", memory.CONFIG),
                    flops_per_pair=Figure("flops_per_pair", entry.prefill_flops or entry.flops, "FLOP", memory.CONFIG),
                    pairs=attention_pairs(entry, new, cached),
                )
            )
    attention = total("attention_flops", "FLOP", tuple(scores))
    everything = total("prefill_flops", "FLOP", (gemms, last, attention))
    p = decode.compute_rate(plan.device, plan.weights)
    ranks = Figure("devices", plan.tp * plan.pp, "", layout.LAYOUT)
    dense, experts = layout.read_weight_bytes(model, plan, new.value)
    weights = dense if experts is None else total("weight_read_bytes", "B", (dense, experts))
    w = decode.bandwidth(plan.device)
    return {
        "prefill_flops": everything,
        "attention_flops": attention,
        "compute_s": Figure("compute_s", None, "s", p.origin) if p.value is None else time.work_s.of(as_name="compute_s", work_flops=everything, flops_per_s=p, devices=ranks),
        "weight_read_s": time.read_s.of(as_name="weight_read_s", bytes_read=weights, bandwidth_bytes_per_s=w, devices=ranks),
        "communication_s": decode.communication(model, plan, new.value),
    }


def length(found: dict[str, Figure]) -> Figure:
    """The time of a prefill: arithmetic and one pass over the weights overlap, communication comes on top. None without a rate."""
    math, read, talk = found["compute_s"], found["weight_read_s"], found["communication_s"]
    if math.value is None:
        return Figure("prefill_time_s", None, "s", math.origin)
    return Figure("prefill_time_s", larger(math.value, read.value) + talk.value, "s", "the longer of arithmetic and weights, and communication", None, (math, read, talk))


def workload_prompt(work: Workload) -> int:
    """The prompt of a workload; without one, the context that the sequences hold."""
    return work.prompt if work.prompt is not None else int(work.ctx)
