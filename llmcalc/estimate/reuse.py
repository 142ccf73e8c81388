"""What a trace's prompts have in common: how much of it each tier of memory keeps, and whether reading it beats computing it again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from llmcalc.answers import Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Answered, capacity, layout, step
from llmcalc.figures import Figure, total
from llmcalc.formulas import serving as f
from llmcalc.plan import Deployment
from llmcalc.traffic import BlockCache, hit_tokens, read_blocks
from llmcalc.units import rate

ASKED = "`tier`"


@dataclass(frozen=True, slots=True)
class Tier:
    """A memory that keeps blocks; `bytes_per_s` None: the device's own, from which nothing has to be fetched."""

    name: str
    size: float
    bytes_per_s: float | None = None


@answer("prefix")
class Reused(Answer):
    """What the prompts of a trace have in common."""

    requests: int = field("requests")
    prompt_tokens: int = field("prompt tokens", "tokens")
    hit_share: float = field("answered by these tiers", "percent")
    hit_share_unbounded: float = field("  by a cache without end", "percent")
    block_tokens: int = field("tokens of a block", "tokens")
    block_bytes: float = field("a block", "B")
    distinct_blocks: int = field("distinct blocks")
    working_set_bytes: int = field("  all of them", "B")
    hit_requests_share: float = field("requests that find a prefix", "percent")
    mean_prompt_tokens: int = field("  their mean prompt", "tokens")
    mean_hit_tokens: int = field("  what a hit finds of it, on average", "tokens")
    ttft_cold_s: float | None = field("TTFT of such a prompt on a miss", "s")
    recompute_s: float | None = field("  what a hit need not compute", "s")
    break_even_bytes_per_s: float | None = field("  as quick to read from a link of", "B/s")


@answer("prefix", rows=True)
class Kept(Answer):
    """What one tier answers."""

    tier: str = field("tier")
    size_bytes: float = field("size", "B", rank=2)
    blocks: int = field("blocks", rank=3)
    hit_share: float = field("hit share", "percent")
    hit_share_so_far: float = field("with those above", "percent", rank=1)
    bytes_per_s: float | None = field("link", "B/s", rank=4)
    fetch_s: float = field("reading a hit", "s")
    ttft_s: float | None = field("TTFT on a hit", "s")
    reading_faster: float | None = field(
        "reading is faster by", meaning="computing the hit again takes as many times as long; null: nothing to read"
    )
    worth: bool | None = field("worth reading", meaning="whether reading a hit is quicker than computing it again")


def reused(model: Model, plan: Deployment, path: str, block_tokens: int, tiers: tuple[Tier, ...], method: str) -> Answered[Reused, Kept]:
    """Replay a trace over tiers, each of which keeps the last used blocks, those of the tiers above among them."""
    prompt_mean, requests = _means(path)
    held = layout.sequence_bytes(model, plan, Figure("ctx_tokens", prompt_mean, "tokens", "mean prompt of the trace"))
    if not held.value:
        raise UsageError("bad-value", f"{model.id} caches nothing that a later prompt could read", "choose a model with a KV cache")
    block_bytes = held.value / prompt_mean * block_tokens
    caches = [BlockCache(math.floor(tier.size / block_bytes)) for tier in tiers]
    endless = BlockCache(math.inf)
    tokens, hits, most, hitting, theirs = _replayed(path, block_tokens, caches, endless)
    # Long prompts find more: a hit is set against the prompts that have one.
    asked = max(2, round(theirs / hitting)) if hitting else prompt_mean
    hit = min(round(most / hitting), asked - 1) if hitting else 0
    figures: dict[str, Figure] = {}
    cold, warm = (step.ttft(model, plan, asked, cached, method=method) for cached in (0, hit))
    cold_s, warm_s = (None if one is None else float(one.mid.value) for one in (cold, warm))
    moved = layout.sequence_bytes(model, plan, Figure("ctx_tokens", hit, "tokens", "a hit's mean length"))
    moved = Figure("moved_bytes", moved.value if hit else 0, "B", moved.origin, moved.formula, moved.inputs)
    saved = None if cold_s is None or warm_s is None else cold_s - warm_s
    even = None
    if saved and hit:
        again = Figure("recompute_s", saved, "s", "TTFT without the hit less TTFT with it")
        figures["break_even_bytes_per_s"] = f.break_even_link.of(as_name="break_even_bytes_per_s", moved_bytes=moved, recompute_s=again)
        even = float(figures["break_even_bytes_per_s"].value)
    shares = [count / tokens for count in hits]
    rows = _kept(tiers, [int(cache.places) for cache in caches], shares, moved, saved, None if warm is None else warm.mid, figures)
    results = Reused(
        requests=requests,
        prompt_tokens=tokens,
        hit_share=max(0.0, *shares),
        hit_share_unbounded=most / tokens,
        block_tokens=block_tokens,
        block_bytes=block_bytes,
        distinct_blocks=len(endless.kept),
        working_set_bytes=round(len(endless.kept) * block_bytes),
        hit_requests_share=hitting / requests,
        mean_prompt_tokens=asked,
        mean_hit_tokens=hit,
        ttft_cold_s=cold_s,
        recompute_s=saved,
        break_even_bytes_per_s=even,
    )
    smaller = [low.name for high, low in pairwise(tiers) if low.size <= high.size]
    return Answered(
        results,
        figures,
        tuple(rows),
        assumptions=(
            Aside(f"method {method}: {step.METHODS[method]}"),
            "every tier keeps the last used blocks, those of the tiers above among them; a prefix ends at the first block that is missing",
            "one replica of the cache, to which all requests come, with the memory of all its ranks",
            f"a hit is {hit:,} of {asked:,} tokens, the means of requests that find one, read before the rest is computed",
            *(f"{tier.name} at {rate(tier.bytes_per_s)}" for tier in tiers if tier.bytes_per_s),
        ),
        warnings=(
            *model.notes,
            *(f"tier: {name} is no larger than the tier above, so it adds nothing" for name in smaller),
            *(() if saved is not None else ("ttft_s, recompute_s: the profile gives no compute rate for these weights",)),
        ),
    )


def _kept(
    tiers: tuple[Tier, ...],
    places: list[int],
    shares: list[float],
    moved: Figure,
    saved: float | None,
    warm: Figure | None,
    figures: dict[str, Figure],
) -> list[Kept]:
    """A row of each tier, whose figures join the others."""
    rows, above = [], 0.0
    for tier, blocks, share in zip(tiers, places, shares, strict=True):
        reached = max(above, share)
        fetch_s, first = 0.0, None if warm is None else float(warm.value)
        if tier.bytes_per_s:
            link = Figure("link_bytes_per_s", tier.bytes_per_s, "B/s", ASKED)
            fetch = f.transfer_s.of(as_name="fetch_s", moved_bytes=moved, link_bytes_per_s=link)
            fetch_s = float(fetch.value)
            if warm is not None:
                figures[f"{tier.name}_ttft_s"] = total("ttft_s", "s", (fetch, warm))
                first = float(figures[f"{tier.name}_ttft_s"].value)
        rows.append(
            Kept(
                tier=tier.name,
                size_bytes=tier.size,
                blocks=blocks,
                hit_share=reached - above,
                hit_share_so_far=reached,
                bytes_per_s=tier.bytes_per_s,
                fetch_s=fetch_s,
                ttft_s=first,
                reading_faster=saved / fetch_s if saved is not None and fetch_s else None,
                worth=None if saved is None else saved > fetch_s,
            )
        )
        above = reached
    return rows


def _replayed(path: str, block_tokens: int, caches: list[BlockCache], endless: BlockCache) -> tuple[int, list[int], int, int, int]:
    """(Tokens of all prompts, those each cache finds, those an endless one finds, prompts with such a hit, and their tokens)."""
    tokens, hits, most, hitting, theirs = 0, [0] * len(caches), 0, 0, 0
    for request, blocks in read_blocks(path):
        tokens += request.prompt
        for index, cache in enumerate(caches):
            hits[index] += hit_tokens(request.prompt, cache.found(blocks), block_tokens)
        found = hit_tokens(request.prompt, endless.found(blocks), block_tokens)
        if found:
            most, hitting, theirs = most + found, hitting + 1, theirs + request.prompt
    return tokens, hits, most, hitting, theirs


def _means(path: str) -> tuple[int, int]:
    """(mean prompt, requests) of a trace."""
    tokens = number = 0
    for request, _ in read_blocks(path):
        tokens, number = tokens + request.prompt, number + 1
    return max(2, round(tokens / number)), number


def own_tier(model: Model, plan: Deployment) -> Tier:
    """What the devices have left for caches."""
    return Tier("device", max(0.0, capacity.ledger(model, plan, 1)["kv_budget_bytes"].value))
