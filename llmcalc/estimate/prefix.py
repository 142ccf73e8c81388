"""What sharing, paging and moving caches saves: prefix cache, blocks against reservations, offload against computing again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Never

from llmcalc.answers import ABSENT, Absent, Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.estimate import Answered, capacity, layout, serving, step
from llmcalc.figures import Figure
from llmcalc.formulas import memory as m
from llmcalc.formulas import serving as f
from llmcalc.formulas.engines import padded_tokens
from llmcalc.plan import Deployment
from llmcalc.units import rate


@dataclass(frozen=True, slots=True)
class Sharing:
    """Sequences of `prompt` tokens whose first `prefix` are common; answers of `output`; cached histories of `users` in turn.

    `zipf`: exponent of the users' popularity (0: all alike). `affine`: a user's turns go to the same replica.
    """

    sequences: int
    prefix: int
    prompt: int
    output: int = 0
    block: int = 16
    users: int = 0
    zipf: float = 0
    replicas: int = 1
    affine: bool = True
    reserved: int | None = None
    host_bytes_per_s: float = 50e9
    mfu: float = 1.0
    method: str = "napkin"


@answer("prefix")
class Prefix(Answer):
    """What sharing, paging and moving caches saves."""

    prefilled_tokens: int = field("tokens prefilled", "tokens")
    prefilled_tokens_ideal: int = field("  if every token were shared", "tokens", detail=True)
    prefilled_tokens_without: int = field("  without a prefix cache", "tokens")
    kv_bytes: int = field("their cache", "B")
    kv_bytes_ideal: int = field("  if every token were shared", "B", detail=True)
    kv_bytes_without: int = field("  without a prefix cache", "B")
    prefill_saved_share: float = field("prefill saved", "percent")
    ttft_warm_s: float | None = field("TTFT on a hit", "s")
    ttft_cold_s: float | None = field("  on a miss", "s")
    working_set_bytes: int | Absent = field("histories of the users", "B", default=ABSENT)
    pool_bytes: int | Absent = field("  pool of all replicas", "B", default=ABSENT)
    hit_rate: float | Absent = field("  hit rate", "percent", default=ABSENT)
    hit_rate_affine: float | Absent = field("  affine routing", "percent", default=ABSENT)
    hit_rate_random: float | Absent = field("  random routing", "percent", default=ABSENT)
    prefill_time_mean_s: float | Absent | None = field("  mean prefill", "s", default=ABSENT)
    paged_batch: int = field("sequences, paged")
    reserved_batch: int = field("  with reservations")
    paged_waste: float = field("waste, paged", "percent", shown=False)
    reserved_waste: float = field("waste, reserved", "percent", shown=False)
    fetch_s: float = field("cache of a prompt from host memory", "s")
    recompute_s: float | None = field("  computed again", "s")
    fetch_faster: float | None = field("  fetching is faster by", note="times")
    break_even_bytes_per_s: float | None = field("  break-even link", "B/s", detail=True)
    sequences: int = field(shown=False)
    prefix_tokens: int = field(shown=False)
    shared_tokens: int = field(shown=False)
    mean_tokens: float = field(shown=False)
    reserved_tokens: int = field(shown=False)
    offload_bytes: int = field(shown=False)


def popularity(users: int, exponent: float) -> list[tuple[float, int]]:
    """(share of the requests of each, users alike) of a Zipf law; ranks beyond 1,000 are put together by tens of percents."""
    groups: list[tuple[float, int]] = []
    rank = 1
    while rank <= users:
        count = 1 if rank < 1000 or not exponent else max(1, rank // 100)
        count = users if not exponent else min(count, users - rank + 1)
        groups.append(((rank + (count - 1) / 2) ** -exponent, count))
        rank += count
    whole = sum(weight * count for weight, count in groups)
    return [(weight / whole, count) for weight, count in groups]


def lru_hit_rate(groups: Sequence[tuple[float, int]], places: float) -> float:
    """Share of requests that an LRU cache of `places` entries answers. Ref: Che, Tung and Wang 2002; exact for even popularity.

    An entry is there if it was asked for within the time T in which `places` different ones are.
    """
    if places <= 0:
        return 0.0
    if places >= sum(count for _, count in groups):
        return 1.0

    def kept(age: float) -> float:
        return sum(count * -math.expm1(-share * age) for share, count in groups)

    low, high = 0.0, 1.0
    while kept(high) < places:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if kept(middle) >= places else (middle, high)
    return sum(share * count * -math.expm1(-share * high) for share, count in groups)


def figure(name: str, value: Any, origin: str = "", unit: str = "tokens") -> Figure:
    """A number that was asked for."""
    return Figure(name, value, unit, origin)


def sharing(model: Model, plan: Deployment, what: Sharing) -> Answered[Prefix, Never]:
    """Prefix cache, paging and offload of one deployment."""
    one = layout.sequence_bytes(model, plan, figure("ctx_tokens", what.prompt))
    shared = f.shared_tokens.of(
        prefix_tokens=figure("prefix_tokens", what.prefix, "`prefix`"), block_tokens=figure("block_tokens", what.block, "`block`")
    )
    computed = f.prefilled_tokens.of(
        sequences=figure("sequences", what.sequences, "`sequences`", ""),
        prompt_tokens=figure("prompt_tokens", what.prompt, "`prompt`"),
        shared_tokens=shared,
    )
    timed = serving.derated(plan, what.mfu, 1)
    step.check(what.method)
    cold = step.prompt_busy(model, timed, what.prompt, 0, what.method)
    warm = step.prompt_busy(model, timed, what.prompt, min(shared.value, what.prompt - 1), what.method)
    warnings = [*model.notes, *capacity.cautions(model, plan, what.prompt)]
    if cold.value is None:
        warnings.append(f"ttft_cold_s, ttft_warm_s, recompute_s: {cold.origin}")
    budget = capacity.ledger(model, plan, 1)["kv_budget_bytes"].value
    moved, offload_figures = _offload(one, cold, what)
    return Answered(
        Prefix(
            **_saved(one.value, shared.value, computed.value, cold.value, warm.value, what),
            **(_histories(model, plan, what, budget, cold.value, warm.value) if what.users else {}),
            **_paging(model, plan, what, budget),
            **moved,
        ),
        {"prefilled_tokens": computed, **offload_figures},
        assumptions=_assumptions(what),
        warnings=tuple(warnings),
    )


def _saved(sequence: float, shared: int, computed: int, cold_s: float | None, warm_s: float | None, what: Sharing) -> dict[str, Any]:
    """Tokens read and bytes held with and without a prefix cache; `sequence`: bytes of one cache."""
    per_token = sequence / what.prompt  # exact where every layer keeps every token; else the mean over the prompt
    ideal = f.prefilled_tokens(what.sequences, what.prompt, what.prefix)
    slots = shared + what.sequences * padded_tokens(what.prompt - shared, what.block)
    return {
        "sequences": what.sequences,
        "prefix_tokens": what.prefix,
        "shared_tokens": shared,
        "prefilled_tokens_without": what.sequences * what.prompt,
        "prefilled_tokens_ideal": ideal,
        "prefilled_tokens": computed,
        "kv_bytes_without": round(what.sequences * sequence),
        "kv_bytes_ideal": round(ideal * per_token),
        "kv_bytes": round(slots * per_token),
        "ttft_cold_s": cold_s,
        "ttft_warm_s": warm_s,
        "prefill_saved_share": 1 - computed / (what.sequences * what.prompt),
    }


def _histories(model: Model, plan: Deployment, what: Sharing, budget: float, cold_s: float | None, warm_s: float | None) -> dict[str, Any]:
    """The pool that is left for histories of many users, and how often it has the one that is asked for."""
    size = layout.sequence_bytes(model, plan, figure("ctx_tokens", padded_tokens(what.prompt, what.block))).value
    places = max(0.0, budget) / size
    # Affine routing makes one pool of all; random routing makes every replica see all users, and only one holds the last turn.
    groups = popularity(what.users, what.zipf)
    affine, random = lru_hit_rate(groups, places * what.replicas), f.routed_hit_rate(lru_hit_rate(groups, places), what.replicas)
    hit = affine if what.affine else random
    return {
        "working_set_bytes": round(what.users * size),
        "pool_bytes": round(max(0.0, budget) * what.replicas),
        "hit_rate": hit,
        "hit_rate_affine": affine,
        "hit_rate_random": random,
        "prefill_time_mean_s": None if cold_s is None or warm_s is None else hit * warm_s + (1 - hit) * cold_s,
    }


def _paging(model: Model, plan: Deployment, what: Sharing, budget: float) -> dict[str, Any]:
    """Sequences that fit in blocks, and where each reserves the longest."""
    mean = what.prompt + what.output / 2
    longest = what.reserved or what.prompt + what.output
    held = layout.sequence_bytes(model, plan, figure("ctx_tokens", mean)).value
    paged = m.max_batch_exact(budget, held / (1 - f.paged_waste(mean, what.block)))
    reserved = m.max_batch_exact(budget, layout.sequence_bytes(model, plan, figure("ctx_tokens", longest)).value)
    return {
        "mean_tokens": mean,
        "paged_waste": f.paged_waste(mean, what.block),
        "reserved_tokens": longest,
        "reserved_waste": f.reserved_waste(mean, longest),
        "paged_batch": max(0, math.floor(paged)),
        "reserved_batch": max(0, math.floor(reserved)),
    }


def _offload(one: Figure, cold: Figure, what: Sharing) -> tuple[dict[str, Any], dict[str, Figure]]:
    """A cache fetched from host memory against computing it again, and the derivations."""
    moved = Figure("moved_bytes", one.value, "B", one.origin, one.formula, one.inputs)
    fetch = f.transfer_s.of(
        as_name="fetch_s", moved_bytes=moved, link_bytes_per_s=figure("link_bytes_per_s", what.host_bytes_per_s, "`host_bandwidth`", "B/s")
    )
    results = {
        "offload_bytes": round(one.value),
        "fetch_s": fetch.value,
        "recompute_s": cold.value,
        "fetch_faster": None,
        "break_even_bytes_per_s": None,
    }
    if cold.value is None:
        return results, {"fetch_s": fetch}
    even = f.break_even_link.of(as_name="break_even_bytes_per_s", moved_bytes=moved, recompute_s=cold)
    results |= {"fetch_faster": cold.value / fetch.value, "break_even_bytes_per_s": even.value}
    return results, {"fetch_s": fetch, "break_even_bytes_per_s": even}


def _assumptions(what: Sharing) -> tuple[str, ...]:
    mean, longest = what.prompt + what.output / 2, what.reserved or what.prompt + what.output
    evenly = "evenly" if not what.zipf else f"by a Zipf law of exponent {what.zipf:g}"
    prefill = "" if what.method == "expected" else f"; prefill at {what.mfu:.0%} of the compute rate"
    return (
        f"blocks of {what.block} tokens: only whole blocks are shared, and a sequence's own tokens fill blocks of its own",
        "the shared prefix saves prefill and memory; each sequence still reads it at every step, so TPOT does not fall",
        *((f"{what.users:,} users come back {evenly}, their histories kept LRU",) if what.users else ()),
        f"the average sequence holds {mean:,.0f} tokens; the reservation is {longest:,}",
        f"host memory at {rate(what.host_bytes_per_s)} (`host_bandwidth`){prefill}",
        Aside(f"method {what.method}: {step.METHODS[what.method]}"),
    )
