"""The answer of `prefill`: reading a prompt, attention over it, and the time until the first token."""

from __future__ import annotations

import math

from llmcalc.answers import ABSENT, Absent, Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.estimate import Answered, capacity, step, terms, vision
from llmcalc.estimate.terms import Bound
from llmcalc.estimate.turning import turning_point
from llmcalc.figures import Figure, total
from llmcalc.formulas import serving, time
from llmcalc.plan import Deployment, Workload

CHUNKS = (256, 512, 1024, 2048, 4096, 8192)


@answer("prefill")
class Prefill(Answer):
    """Reading one prompt, by the method in force and by the two others."""

    ttft_s: float | None = field("TTFT", "s")
    expected_ttft_s: float | None = field("expected in an engine", "s")
    floor_ttft_s: float | None = field("floor", "s", "no engine beats it: only bytes and arithmetic that are needed, at nominal rates")
    napkin_ttft_s: float | None = field("textbook", "s", "whole-model, at nominal rates")
    prefill_time_s: float | None = field("prefill alone", "s")
    gemm_s: float | None = field("  matrices", "s")
    attention_s: float | None = field("  attention", "s")
    weight_read_s: float = field("  reading weights", "s", "overlaps with the matrices")
    kv_read_s: float = field("  reading the prefix", "s", "overlaps with attention")
    communication_s: float = field("  communication", "s")
    pipeline_bubble: float = field("  pipeline bubble", "percent")
    encoder_s: float | Absent | None = field("  image encoder", "s", "one pass before the prompt is read", default=ABSENT)
    image_tokens: int | Absent = field("  of images", "tokens", "by the rule of the model's own processor", default=ABSENT)
    saved_s: float | Absent | None = field("saved by the prefix cache", "s", default=ABSENT)
    prefill_flops: float = field("arithmetic", "FLOP")
    attention_flops: float = field("  of it attention", "FLOP")
    attention_share: float = field("attention share", shown=False)
    prompt_tokens_per_s: float | None = field("prompt tokens/s", "tokens/s")
    bound: Bound = field("bound")
    compute_bound_from_tokens: int | None = field("arithmetic binds from", "tokens", "shorter prompts wait for the weights")
    attention_bound_from_tokens: int | None = field("attention leads from", "tokens", "longer prompts cost quadratically")
    free_tokens: float | Absent | None = field(
        "free tokens per step", "tokens", "a chunk of this size costs the batch nothing but its attention", default=ABSENT
    )
    expected_ttft_low_s: float | None = field("expected, low end", "s", shown=False)
    expected_ttft_high_s: float | None = field("expected, high end", "s", shown=False)


@answer("prefill", rows=True)
class Chunk(Answer):
    """One size of chunk, beside a decoding batch."""

    chunk_tokens: int = field("chunk", "tokens")
    steps: int = field("steps", rank=2)
    step_time_s: float = field("TPOT meanwhile", "s")
    tpot_factor: float = field("× TPOT", rank=1)
    ttft_s: float = field("TTFT", "s")
    step_time_without_attention_s: float = field("without attention", "s", rank=3)


def chunk_rows(model: Model, plan: Deployment, work: Workload, prompt: int, cached: int, sizes: tuple[int, ...]) -> list[Chunk]:
    """What each chunk size does to the TPOT of a decoding batch and to the prompt's own TTFT, by the textbook."""
    plain = step.step(model, plan, work, "napkin").mid_s
    rows: list[Chunk] = []
    for size in (*sizes, 0):
        carried = min(size, prompt - cached) if size else prompt - cached
        if rows and rows[-1].chunk_tokens == carried:
            break
        mixed = step.mixed_step(model, plan, work, carried, prompt, cached)
        steps = math.ceil((prompt - cached) / carried)
        rows.append(
            Chunk(
                chunk_tokens=carried,
                steps=steps,
                step_time_s=mixed.value,
                step_time_without_attention_s=mixed.value - mixed.inputs[-1].value,
                tpot_factor=mixed.value / plain,
                ttft_s=mixed.value * steps,
            )
        )
        if size and carried < size:
            break
    return rows


def attention_equals_gemms(model: Model, plan: Deployment) -> int | None:
    """The prompt from which attention takes longer than all matrices together, or None below 2^30 tokens."""

    def longer(tokens: int) -> bool:
        found = terms.prompt_terms(model, plan, tokens)
        return (found["attention_s"].value or 0) > (found["gemm_s"].value or 0)

    return turning_point(longer, 1, 2**30)


def arithmetic_binds(model: Model, plan: Deployment) -> int | None:
    """Prompt tokens from which arithmetic takes longer than reading the weights, or None below 2^20 tokens."""

    def busy(tokens: int) -> bool:
        found = terms.prompt_terms(model, plan, tokens)
        return bool((found["gemm_s"].value or 0) >= found["weight_read_s"].value)

    return turning_point(busy, 0, 2**20)


def prefill(
    model: Model,
    plan: Deployment,
    prompt: int,
    cached: int = 0,
    *,
    work: Workload | None = None,
    chunk: int | None = None,
    method: str = "napkin",
    seen: vision.Looked | None = None,
) -> Answered[Prefill, Chunk]:
    """Reading `prompt` tokens, the first `cached` of them from the prefix cache; with `work`, beside a decoding batch.

    `chunk`: prompt tokens per step. None: the whole prompt in one. `seen`: images whose tokens the prompt holds.
    """
    step.check(method)
    found = terms.prompt_terms(model, plan, prompt, cached)
    new = prompt - cached
    pieces = math.ceil(new / chunk) if chunk else 1
    alone = step.prompt_time(found)
    textbook = step.first_token(alone, plan, pieces)
    likely = step.ttft(model, plan, prompt, cached, int(work.batch) if work is not None else 0, found)
    floor = step.ttft(model, plan, prompt, cached, method="roofline")
    arithmetic, attention, unknown = _turns(model, plan, alone)
    warnings = [*capacity.cautions(model, plan, prompt), *unknown]
    rows: list[Chunk] = []
    way = Aside(f"method {method}: {step.METHODS[method]}")
    assumptions = [*terms.assumptions(model, plan), way, Aside("an idle server: no queue, no network")]
    if work is not None and alone.value is not None:
        rows = chunk_rows(model, plan, work, prompt, cached, tuple(sorted({*CHUNKS, *((chunk,) if chunk else ())})))
        if chunk:
            # Beside a batch the prompt goes at the pace of the mixed steps.
            beside = step.mixed_step(model, plan, work, min(chunk, new), prompt, cached)
            textbook = time.repeated_s.of(as_name="ttft_s", times=Figure("steps", pieces, "", "chunks of the prompt"), each_s=beside)
        assumptions.append(
            f"the rows: {work.batch:,} sequences of {work.ctx:,} tokens decode meanwhile; every token of a step counts as one of its batch"
            + ("" if method == "napkin" else "; textbook times")
        )
    busy, first = _in_force(method, model, plan, (alone, textbook), likely, floor, (prompt, cached), found)
    critical = terms.critical_batch(model, plan).value
    mid, low, high = step.ends(likely)
    bottom = step.ends(floor)[0]
    eyes = vision.encoder_time(model, plan, seen) if seen else None
    if eyes is not None and eyes.value is not None:
        first = total("ttft_s", "s", (first, eyes)) if first.value is not None else first
        textbook = total("ttft_s", "s", (textbook, eyes)) if textbook.value is not None else textbook
        mid, low, high = (None if each is None else each + eyes.value / vision.REACHED for each in (mid, low, high))
        bottom = bottom if bottom is None else bottom + eyes.value
        assumptions.append(f"the image encoder: one pass, expected at {vision.REACHED:.0%} of the 16-bit rate (an assumption)")
    results = Prefill(
        ttft_s=first.value,
        expected_ttft_s=mid,
        floor_ttft_s=bottom,
        napkin_ttft_s=textbook.value,
        prefill_time_s=busy.value,
        prefill_flops=found["prefill_flops"].value,
        attention_flops=found["attention_flops"].value,
        prompt_tokens_per_s=None if busy.value is None else plan.dp * prompt / busy.value,
        bound=terms.prompt_bound(found),
        **{key: found[key].value for key in ("gemm_s", "attention_s", "weight_read_s", "kv_read_s", "communication_s")},
        attention_share=found["attention_flops"].value / found["prefill_flops"].value,
        pipeline_bubble=serving.pipeline_bubble(plan.pp, pieces),
        compute_bound_from_tokens=arithmetic,
        attention_bound_from_tokens=attention,
        free_tokens=ABSENT if work is None else None if critical is None else serving.free_tokens(critical, work.batch),
        encoder_s=ABSENT if eyes is None else eyes.value,
        image_tokens=ABSENT if seen is None else seen.tokens,
        saved_s=ABSENT if not cached else _saved(model, plan, prompt, alone),
        expected_ttft_low_s=low,
        expected_ttft_high_s=high,
    )
    figures = {"prefill_time_s": busy, "ttft_s": first} if busy.value is not None else {"prefill_flops": found["prefill_flops"]}
    if likely is None:
        warnings.append(f"expected_ttft_s: {alone.origin}")
    else:
        figures["expected_ttft_s"] = likely.mid
        others = f" beside {work.batch:,} other sequences" if work is not None else ""
        assumptions.append(f"expected{others}: {likely.words}")
    inputs = {"prompt_tokens": prompt, "cached_tokens": cached, "chunk_tokens": chunk}
    return Answered(results, figures, tuple(rows), inputs, tuple(assumptions), tuple(warnings))


def _turns(model: Model, plan: Deployment, alone: Figure) -> tuple[int | None, int | None, list[str]]:
    """(Prompt from which arithmetic binds, from which attention leads, what is not known and why)."""
    if alone.value is None:
        keys = "prefill_time_s, ttft_s, napkin_ttft_s, floor_ttft_s, prompt_tokens_per_s, gemm_s, attention_s, compute_bound_from_tokens"
        return None, None, [f"{keys} and attention_bound_from_tokens: {alone.origin}"]
    arithmetic, attention = arithmetic_binds(model, plan), attention_equals_gemms(model, plan)
    never = []
    if arithmetic is None:
        never.append("compute_bound_from_tokens: no prompt below 2^20 tokens keeps the arithmetic busier than the memory")
    if attention is None:
        never.append("attention_bound_from_tokens: attention takes less than the matrices for every prompt below 2^30 tokens")
    return arithmetic, attention, never


def _saved(model: Model, plan: Deployment, prompt: int, alone: Figure) -> float | None:
    """What the cached prefix saves of the textbook's prefill. [s]"""
    if alone.value is None:
        return None
    return float(step.prompt_time(terms.prompt_terms(model, plan, prompt)).value - alone.value)


def _in_force(
    method: str,
    model: Model,
    plan: Deployment,
    textbook: tuple[Figure, Figure],
    likely: step.Timed | None,
    floor: step.Timed | None,
    prompt: tuple[int, int],
    parts: dict[str, Figure],
) -> tuple[Figure, Figure]:
    """(what the prompt keeps the ranks busy, TTFT) by the method."""
    if method == "napkin":
        return textbook
    if method == "roofline":
        first = textbook[1] if floor is None else floor.mid
        return first, first
    busy = step.reading(model, plan, *prompt, parts)
    return busy, busy if likely is None else likely.mid
