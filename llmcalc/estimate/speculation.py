"""Speculative decoding at the real batch and context, and the proof that it changes nothing in the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from llmcalc.answers import Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Answered, capacity, layout, memory, step, terms, verdict
from llmcalc.figures import Figure
from llmcalc.formulas import speculation as f
from llmcalc.formulas import time
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment, Workload

LONGEST = 16  # draft tokens tried for the best length; engines stop at 5-10
FEW = 4
"""Sequences up to which a mixture's drafts were measured to cost more than they gain."""
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True, slots=True)
class Preset:
    """A way to draft. `layers`: decoder layers that one draft token runs through (with the LM head); None: no matrices at all."""

    name: str
    acceptance: float | None
    layers: int | None
    source: str
    longest: int = LONGEST
    at_once: bool = False


PRESETS: dict[str, Preset] = {
    "eagle": Preset("eagle", 0.8, 1, "arXiv:2401.15077: drafts of the next token are right about 0.8 of the time"),
    "eagle3": Preset("eagle3", 0.71, 1, "the median of four heads' lengths in vLLM's tests (MT-Bench, 2026-11): 0.63 to 0.77"),
    "medusa": Preset("medusa", 0.6, 0, "arXiv:2401.15077 gives Medusa's heads about 0.6; all heads draft in one go (arXiv:2401.10774)", 4),
    "mtp": Preset("mtp", 0.85, 1, "arXiv:2505.09343: 80-90% of second tokens; 14 published lengths of 2025 and 2026: 0.64 to 0.90", 4),
    "dflash": Preset(
        "dflash", 0.77, 5, "arXiv:2602.06036, Qwen3-8B on MT-Bench; code and sums 0.86. A block is drafted in one go", LONGEST, True
    ),
    "ngram": Preset("ngram", None, None, "looks the draft up in the prompt: no cost; the acceptance depends on how much is copied"),
}


def preset(name: str) -> Preset:
    """The preset of that name. Errors: unknown-preset."""
    row = PRESETS.get(name.strip().lower().replace("-", "").replace("_", ""))
    if row is None:
        raise UsageError("unknown-preset", f"{name[:40]!r} is no way to draft that llmcalc knows", f"known: {', '.join(PRESETS)}")
    return row


# ---- exactness ----------------------------------------------------------------------------------------------------


def distribution(words: Sequence[str], name: str) -> tuple[Fraction, ...]:
    """Probabilities, exactly as written: 0.6 is 3/5. Errors: bad-distribution."""
    found = []
    for word in words:
        try:
            value = Fraction(word.strip()) if len(word) <= 40 and "e" not in word.lower() else Fraction(-1)
        except (ValueError, ZeroDivisionError):
            value = Fraction(-1)
        if not 0 <= value <= 1:
            raise UsageError("bad-distribution", f"{name}: {word[:40]!r} is not a probability", f"write it like `{name}=0.6,0.4`")
        found.append(value)
    if not found or sum(found) != 1:
        raise UsageError("bad-distribution", f"{name} sums to {float(sum(found)):g}, not 1", f"write it like `{name}=0.6,0.4`")
    return tuple(found)


@answer()
class Exactness(Answer):
    """Rejection sampling in exact fractions."""

    acceptance: Fraction = field()
    rejection: Fraction = field()
    accept_if_drafted: list[Fraction | None] = field("  a drafted token is kept with")
    accepted: list[Fraction] = field("  drafted and kept")
    residual: list[Fraction] | None = field("  a rejected one is replaced from")
    output: list[Fraction] = field("  kept + rejected × replaced")
    exact: bool = field()

    @property
    def proof(self) -> Proof:
        """For people and for scripts."""
        return Proof(
            proof_acceptance=float(self.acceptance),
            rejection=float(self.rejection),
            accept_if_drafted_text=_shown(self.accept_if_drafted),
            accepted_text=_shown(self.accepted),
            residual_text=None if self.residual is None else _shown(self.residual),
            output_text=_shown(self.output),
            accept_if_drafted=[None if value is None else float(value) for value in self.accept_if_drafted],
            accepted=list(map(float, self.accepted)),
            residual=None if self.residual is None else list(map(float, self.residual)),
            output=list(map(float, self.output)),
            exact=self.exact,
        )


def _shown(values: Sequence[Fraction | None]) -> str:
    words = ("–" if value is None else str(value) if value.denominator <= 1000 else f"{float(value):.6g}" for value in values)
    return f"({', '.join(words)})"


@answer("spec proof")
class Alone(Answer):
    """A proof without a model."""

    acceptance: float = field("acceptance", shown=False)


def exactness(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> Exactness:
    """Rejection sampling of the target p with drafts of q: what is accepted, what replaces a rejected draft, and the sum of both.

    Exact arithmetic: `output` equals p or the method would be wrong. Errors: bad-distribution.
    """
    if len(p) != len(q):
        raise UsageError("bad-distribution", f"p has {len(p)} tokens and q has {len(q)}", "give both over the same tokens")
    accepted = [min(a, b) for a, b in zip(p, q, strict=True)]
    acceptance = sum(accepted, Fraction(0))
    rest = [a - b for a, b in zip(p, accepted, strict=True)]
    residual = [value / (1 - acceptance) for value in rest] if acceptance < 1 else None
    output = [a + (1 - acceptance) * r for a, r in zip(accepted, residual or [Fraction(0)] * len(p), strict=True)]
    return Exactness(
        acceptance=acceptance,
        rejection=1 - acceptance,
        accept_if_drafted=[min(Fraction(1), a / b) if b else None for a, b in zip(p, q, strict=True)],
        accepted=accepted,
        residual=residual,
        output=output,
        exact=output == list(p),
    )


# ---- time ---------------------------------------------------------------------------------------------------------


def expected(acceptance: Figure, drafts: Any) -> Figure:
    """Tokens per verification, the target's own one included."""
    number = Figure("draft_tokens", drafts, "tokens", "`draft_tokens`")
    if acceptance.value == 1:
        return f.all_accepted_tokens.of(as_name="expected_tokens_per_step", draft_tokens=number)
    return f.expected_tokens_per_step.of(acceptance=acceptance, draft_tokens=number)


def chance(share: float, drafts: int) -> float:
    """The chance of each position that makes so large a share of all drafted tokens accepted, as logs count it. [1]

    A position is reached only if all before it were accepted: share × drafts = a + a² + … (arXiv:2211.17192, equation 1).
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**place for place in range(1, drafts + 1)) < share * drafts else (low, middle)
    return high


def verify(model: Model, plan: Deployment, work: Workload, queries: int, method: str = "napkin") -> Figure:
    """A step of `queries` tokens per sequence: each cache is read once for all of them, every token is multiplied."""
    return replace(step.step(model, plan, replace(work, queries=queries), method).mid, name="verify_s")


def layer_share(model: Model, layers: int) -> float:
    """Share of the weights read per step that `layers` decoder layers and the head are."""
    depth = len(model.stack.layers)
    head = memory.head_params(model)
    body = memory.multiplied_params(model) - head
    return (body / depth * layers + head) / (body + head)


@dataclass(frozen=True, slots=True)
class Draft:
    """What proposes tokens: a model of its own, or a cost per draft as a share of one pass over the target's weights.

    `at_once`: all drafts of a step together take that share (Medusa's heads), not each.
    """

    cost: float = 0
    model: Model | None = None
    plan: Deployment | None = None
    at_once: bool = False
    words: str = ""


def draft_time(model: Model, plan: Deployment, work: Workload, draft: Draft, method: str = "napkin") -> Figure:
    """One draft token for the whole batch."""
    if draft.model is not None and draft.plan is not None:
        whole = step.step(draft.model, draft.plan, work, method).mid
        return Figure("draft_s", whole.value, "s", f"one step of {draft.model.id}", None, (whole,))
    share = Figure("draft_cost", draft.cost, "", draft.words or "`draft_cost`")
    if method == "napkin":
        parts = terms.step_terms(model, plan, work)
        read, math = parts["weight_read_s"], parts["compute_s"]
        longer = read if math.value is None or read.value >= math.value else math
    else:  # one pass over the weights with all that belongs to it, but without caches
        longer = step.step(model, plan, Workload(0, work.batch), method).mid
    return time.repeated_s.of(as_name="draft_s", times=share, each_s=longer)


def alone(model: Model, plan: Deployment, work: Workload, draft: Draft, method: str) -> tuple[Figure, Figure]:
    """A step without drafts, and one draft: of any number of them the same."""
    plain = step.step(model, plan, work, method).mid
    plain = Figure("plain_s", plain.value, plain.unit, plain.origin, plain.formula, plain.inputs)
    return plain, draft_time(model, plan, work, draft, method)


def at(
    model: Model,
    plan: Deployment,
    work: Workload,
    acceptance: Figure,
    drafts: int,
    draft: Draft,
    method: str = "napkin",
    apart: tuple[Figure, Figure] | None = None,
) -> dict[str, Figure]:
    """Every figure of one operating point; `apart`: what `alone` found."""
    plain, drafting = apart or alone(model, plan, work, draft, method)
    tokens = expected(acceptance, drafts)
    drafted = f.speculative_step_s.of(
        as_name="step_time_s",
        verify_s=verify(model, plan, work, drafts + 1, method),
        draft_tokens=Figure(
            "draft_tokens", 1 if draft.at_once else drafts, "tokens", "all heads at once" if draft.at_once else "one after another"
        ),
        draft_s=drafting,
    )
    tpot = f.speculative_tpot_s.of(step_time_s=drafted, expected_tokens_per_step=tokens)
    gain = f.speedup.of(plain_s=plain, speculative_tpot_s=tpot)
    return {"plain_s": plain, "expected_tokens_per_step": tokens, "step_time_s": drafted, "tpot_s": tpot, "speedup": gain}


def beside(model: Model, plan: Deployment, work: Workload, acceptance: Figure, drafts: int, draft: Draft) -> dict[str, Any]:
    """The point by the textbook and as an engine is expected to take, whose range is a plain step's."""
    textbook, likely = (at(model, plan, work, acceptance, drafts, draft, name)["tpot_s"].value for name in ("napkin", "expected"))
    mid, low, high = step.ends(step.step(model, plan, work, "expected"))
    ranged = {f"expected_tpot{end}_s": likely * value / mid for end, value in zip(step.ENDS, (mid, low, high), strict=True)}
    return {"napkin_tpot_s": textbook, **ranged}


def best_length(
    model: Model, plan: Deployment, work: Workload, acceptance: Figure, draft: Draft, tried: Sequence[int], method: str = "napkin"
) -> int:
    """Of these draft lengths the one with the highest speed; 0: do not speculate."""
    apart = alone(model, plan, work, draft, method)
    gains = {drafts: at(model, plan, work, acceptance, drafts, draft, method, apart)["speedup"].value for drafts in tried}
    best = max(gains, key=lambda drafts: gains[drafts])
    return best if gains[best] > 1 else 0


@answer("spec", rows=True)
class AtBatch(Answer):
    """What drafts gain at one batch."""

    batch: int = field("batch")
    speedup: float = field("speed-up")
    tpot_s: float = field("TPOT", "s")
    plain_tpot_s: float = field("without", "s", rank=2)
    best_draft_tokens: int = field("best drafts", rank=1)
    best_speedup: float = field("with those", rank=1)
    fits: bool | None = field("fits", rank=3)
    napkin_tpot_s: float = field("textbook", "s", shown=False)
    expected_tpot_s: float = field("expected", "s", shown=False)
    expected_tpot_low_s: float = field("expected, low", "s", shown=False)
    expected_tpot_high_s: float = field("expected, high", "s", shown=False)


@answer("spec")
class Speculation(Answer):
    """Speculative decoding at one operating point."""

    speedup: float = field("speed-up")
    tpot_s: float = field("TPOT", "s")
    plain_tpot_s: float = field("TPOT without", "s")
    acceptance: float = field("acceptance")
    draft_tokens: int = field("draft tokens", detail=True)
    best_draft_tokens: int = field("best draft tokens", note="0 means: do not speculate")
    expected_tokens_per_step: float = field("tokens per step", note="the target's own token counted")
    step_time_s: float = field("step with drafts", "s", detail=True)
    draft_s: float = field("  one draft", "s", detail=True)
    draft_cost: float = field("cost of a draft", note="of a step", detail=True)
    ideal_speedup: float = field("textbook speed-up", note="if verifying were as fast as one plain step")
    operations_factor: float | None = field("arithmetic per token", note="times that of plain decoding", detail=True)
    slower_from_batch: int | None = field("slower from batch")
    tokens_per_s: float = field("tokens/s of the batch", "tokens/s")
    napkin_tpot_s: float = field("textbook TPOT", "s", shown=False, detail=True)
    expected_tpot_s: float = field("expected TPOT", "s", shown=False)
    expected_tpot_low_s: float = field("expected, low", "s", shown=False)
    expected_tpot_high_s: float = field("expected, high", "s", shown=False)
    draft_memory_bytes: float | None = field("memory of the draft", "B")
    fits: bool | None = field("fits", detail=True)


@answer("spec", "spec proof")
class Proof(Answer):
    """That rejection sampling with these two distributions changes nothing."""

    proof_acceptance: float = field("accepted: Σ min(p, q)")
    rejection: float = field("rejected")
    accept_if_drafted_text: str = field("  a drafted token is kept with")
    accepted_text: str = field("  drafted and kept")
    residual_text: str | None = field("  a rejected one is replaced from")
    output_text: str = field("  kept + rejected × replaced")
    accept_if_drafted: list[float | None] = field(shown=False)
    accepted: list[float] = field(shown=False)
    residual: list[float] | None = field(shown=False)
    output: list[float] = field(shown=False)
    exact: bool = field("the output is exactly p")


def _held(model: Model, plan: Deployment, work: Workload, drafts: int, draft: Draft) -> bool | None:
    """Whether target, draft and the slots of unverified tokens fit together; None where the memory is unknown."""
    extra, _ = draft_memory(model, plan, work, draft)
    if extra is None:
        return verdict.holds(model, plan, Workload(work.ctx + drafts, work.batch)).fits
    return fits_with(model, plan, work, drafts, extra)


def _at_batch(
    model: Model, plan: Deployment, work: Workload, rate: Figure, drafts: int, draft: Draft, tried: Sequence[int], method: str
) -> AtBatch:
    """What drafts gain at one batch, so many and the best number."""
    here = at(model, plan, work, rate, drafts, draft, method)
    own = best_length(model, plan, work, rate, draft, tried, method)
    return AtBatch(
        batch=int(work.batch),
        speedup=here["speedup"].value,
        tpot_s=here["tpot_s"].value,
        plain_tpot_s=here["plain_s"].value,
        best_draft_tokens=own,
        **beside(model, plan, work, rate, drafts, draft),
        best_speedup=at(model, plan, work, rate, own, draft, method)["speedup"].value if own else 1.0,
        fits=_held(model, plan, work, drafts, draft),
    )


def speculation(
    model: Model,
    plan: Deployment,
    work: Workload,
    acceptance: float,
    draft: Draft,
    drafts: int | None = None,
    longest: int = LONGEST,
    method: str = "napkin",
) -> Answered[Speculation, AtBatch]:
    """Speculative decoding at `work`, at the given or the best draft length, and where its gain ends."""
    rate = Figure("acceptance", acceptance, "", "`acceptance`")
    tried = sorted({*range(1, longest + 1), drafts or 1})
    best = best_length(model, plan, work, rate, draft, tried, method)
    chosen = drafts if drafts is not None else best or 1
    found = at(model, plan, work, rate, chosen, draft, method)

    rows = [
        _at_batch(model, plan, Workload(work.ctx, batch), rate, chosen, draft, tried, method) for batch in sorted({*BATCHES, work.batch})
    ]
    slower = [row.batch for row in rows if row.speedup < 1]
    cost = draft.cost if draft.model is None else found["step_time_s"].inputs[-1].value / found["plain_s"].value
    extra, memory_words = draft_memory(model, plan, work, draft)
    warnings = [*model.notes, *capacity.cautions(model, plan, work.ctx), *_overstated(model, plan, chosen + 1)]
    if layout.experts(model) and work.batch <= FEW:
        warnings.append(
            "speedup: a mixture may lose at few sequences, as drafts touch further experts and engines verify them without graphs: "
            "Qwen3.6-35B-A3B under vLLM on two RTX 3090 fell from 187 to 91 tokens/s with an MTP head (club-3090, 2026)"
        )
    if best == 0:
        warnings.append("best_draft_tokens: speculation does not pay at this batch and context")
    results = Speculation(
        speedup=found["speedup"].value,
        tpot_s=found["tpot_s"].value,
        plain_tpot_s=found["plain_s"].value,
        acceptance=acceptance,
        draft_tokens=chosen,
        best_draft_tokens=best,
        expected_tokens_per_step=found["expected_tokens_per_step"].value,
        step_time_s=found["step_time_s"].value,
        draft_s=found["step_time_s"].inputs[-1].value,
        draft_cost=cost,
        ideal_speedup=f.ideal_speedup(found["expected_tokens_per_step"].value, 1 if draft.at_once else chosen, cost),
        operations_factor=None if acceptance == 1 else f.operations_factor(acceptance, chosen, cost),
        slower_from_batch=min(slower) if slower else None,
        tokens_per_s=work.batch / found["tpot_s"].value,
        **beside(model, plan, work, rate, chosen, draft),
        draft_memory_bytes=extra,
        fits=_held(model, plan, work, chosen, draft),
    )
    if results.operations_factor is None:
        warnings.append("operations_factor: every draft is accepted")
    return Answered(
        results,
        {"speedup": found["speedup"]},
        rows=tuple(rows),
        assumptions=(
            *terms.assumptions(model, plan),
            draft.words or f"a draft token costs {cost:g} of one pass over the target's weights (`draft_cost`)",
            "acceptance is the same and independent at every position; the target's own token after the drafts is counted",
            "the verification reads each cache once for all its tokens",
            memory_words,
            *(() if slower else (f"at {work.ctx:,} tokens of context {chosen} drafts are faster at every batch up to {rows[-1].batch}",)),
            Aside(f"method {method}: {step.METHODS[method]}"),
        ),
        warnings=tuple(warnings),
    )


def verify_intensity(model: Model, plan: Deployment, queries: int) -> tuple[float, float | None]:
    """(FLOP per byte of the verification's attention over full-context caches, the device's ridge or None)."""
    found: float = 0
    for mixer, _ in memory.mixers(model):
        for entry in mixer.entries:
            size = memory.entry_bytes(entry, 1, plan.kv).value
            found = max(found, entry.flops * queries / size if size else 0)
    rate = terms.compute_rate(plan.device, memory.compute_format(model)[0]).value
    return found, None if rate is None else rate / plan.device.bandwidth_bytes_per_s


def _overstated(model: Model, plan: Deployment, queries: int) -> tuple[str, ...]:
    """That arithmetic would bind the attention of the verification, where it would."""
    intensity, ridge = verify_intensity(model, plan, queries)
    if ridge is None or intensity <= ridge:
        return ()
    return (
        f"step_time_s: {queries} queries per cache make attention need {intensity:.0f} FLOP per byte, over the device's {ridge:.0f}: "
        "arithmetic would bind there, so the gain is overstated",
    )


def draft_memory(model: Model, plan: Deployment, work: Workload, draft: Draft) -> tuple[float | None, str]:
    """Weights and caches of the draft [B], or None where it has no model of its own, and in words."""
    if draft.model is None or draft.plan is None:
        return None, "the memory of the draft's own layers is not counted"
    weights = layout.held_weight_bytes(draft.model, draft.plan).value
    caches = layout.sequence_bytes(draft.model, draft.plan, Figure("ctx_tokens", work.ctx)).value * work.batch
    return weights + caches, f"the draft holds its own weights and caches on the same {plan.ranks} devices"


def fits_with(model: Model, plan: Deployment, work: Workload, drafts: int, extra: float) -> bool | None:
    """Whether target, draft and the slots of unverified tokens fit together; None where the memory is unknown."""
    try:
        found = capacity.ledger(model, plan, work.ctx + drafts)
    except UsageError:
        return None
    return bool(found["kv_budget_bytes"].value - extra >= found["kv_bytes_per_sequence"].value * work.batch)


def preset_draft(model: Model, chosen: Preset) -> Draft:
    """The cost of a preset's draft on this model. Errors: no-mtp-head."""
    if chosen.layers is None:
        return Draft(0, words=f"{chosen.name}: {chosen.source}")
    if chosen.name == "medusa":
        # Each head is one residual block of hidden × hidden and an LM head of its own.
        head = memory.head_params(model)
        per_head = head + model.stack.hidden**2
        share = per_head * chosen.longest / sum(layers * weight.active_params for layers, weight in model_weights(model))
        return Draft(
            share, at_once=True, words=f"medusa: {chosen.longest} heads read {share:.2f} of the target's weights in one go; {chosen.source}"
        )
    if chosen.name == "mtp" and not model.stack.mtp:
        raise UsageError(
            "no-mtp-head", f"{model.id} has no layers that predict further tokens", "name another way to draft, or a model that drafts"
        )
    share = layer_share(model, chosen.layers)
    layers = f"{chosen.layers} layer{'s' * (chosen.layers > 1)}"
    words = f"{chosen.name}: a draft runs through {layers} and the head, {share:.3f} of the target; {chosen.source}"
    return Draft(share, at_once=chosen.at_once, words=words)
