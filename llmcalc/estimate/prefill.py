"""The answer of `prefill`: reading a prompt, attention over it, and the time until the first token."""

from __future__ import annotations

import math
from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import Estimate, capacity, step, terms
from llmcalc.figures import Figure
from llmcalc.formulas import serving, time
from llmcalc.plan import Deployment, Workload

CHUNKS = (256, 512, 1024, 2048, 4096, 8192)


def chunk_rows(model: Model, plan: Deployment, work: Workload, prompt: int, cached: int, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """What each chunk size does to the TPOT of a decoding batch and to the prompt's own TTFT."""
    plain = step.step(model, plan, work, "napkin").mid_s
    rows = []
    for size in (*sizes, 0):
        carried = min(size, prompt - cached) if size else prompt - cached
        mixed = step.mixed_step(model, plan, work, carried, prompt, cached)
        attention = mixed.inputs[-1].value
        steps = math.ceil((prompt - cached) / carried)
        rows.append(
            {
                "chunk_tokens": carried,
                "steps": steps,
                "step_time_s": mixed.value,
                "step_time_without_attention_s": mixed.value - attention,
                "tpot_factor": mixed.value / plain,
                "ttft_s": mixed.value * steps,
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
        found = terms.prompt_terms(model, plan, tokens)
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
        found = terms.prompt_terms(model, plan, tokens)
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
    found = terms.prompt_terms(model, plan, prompt, cached)
    busy = step.prompt_time(found)
    new = prompt - cached
    pieces = math.ceil(new / chunk) if chunk else 1
    first = step.first_token(busy, plan, pieces)
    likely = step.ttft(model, plan, prompt, cached, int(work.batch) if work is not None else 0, found)
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
    assumptions = [*terms.assumptions(model, plan), "an idle server: no queue, no network; ideal rates, so an engine takes longer"]
    if work is not None and busy.value is not None:
        sizes = tuple(sorted({*CHUNKS, *((chunk,) if chunk else ())}))
        rows = chunk_rows(model, plan, work, prompt, cached, sizes)
        if chunk:
            # Beside a batch the prompt goes at the pace of the mixed steps.
            beside = step.mixed_step(model, plan, work, min(chunk, new), prompt, cached)
            first = time.repeated_s.of(as_name="ttft_s", times=Figure("steps", pieces, "", "chunks of the prompt"), each_s=beside)
        assumptions.append(
            f"the rows: {work.batch:,} sequences of {work.ctx:,} tokens decode meanwhile; every token of a step counts as one of its batch"
        )
    bubble = serving.pipeline_bubble(plan.pp, pieces)
    critical = terms.critical_batch(model, plan).value
    results = {
        "ttft_s": first.value,
        "prefill_time_s": busy.value,
        "prefill_flops": found["prefill_flops"].value,
        "attention_flops": found["attention_flops"].value,
        "prompt_tokens_per_s": None if busy.value is None else plan.dp * prompt / busy.value,
        "bound": terms.prompt_bound(found),
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
        "saved_s": None
        if busy.value is None or not cached
        else step.prompt_time(terms.prompt_terms(model, plan, prompt)).value - busy.value,
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
