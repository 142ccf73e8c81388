"""DeepSeek-V4: one vector per token is key and value, in a short window and, compressed, over the whole context.

Groups of `ratio` tokens become one entry each. At the small ratio an indexer with compressed keys of its own picks the
entries that a step reads; at the large one all of them are read; at ratio 0 there is the window alone. In V4.1 a few
layers keep the compressed entries of all, and a few choose for those behind them.
"""

from __future__ import annotations

from typing import NamedTuple

from llmcalc.architecture import Attention, Entry, Kind, Part, Weight, linear, norm
from llmcalc.attention.mla import Index
from llmcalc.formulas.memory import index_bytes_per_token, single_head_bytes_per_token


class Dims(NamedTuple):
    """Query heads of `dim` behind a low rank, an output in `groups` of a low rank each, and the window."""

    heads: int
    dim: int
    q_rank: int
    groups: int
    o_rank: int
    window: int


def compressor(hidden: int, dim: int, ratio: int, *, overlap: bool, part: Part, name: str) -> tuple[Weight, ...]:
    """Makes one entry of `ratio` tokens; where the groups overlap, every projection is twice as wide."""
    width = dim * (2 if overlap else 1)
    weights = linear(f"{name}.kv_proj", part, width, hidden) + linear(f"{name}.gate_proj", part, width, hidden)
    return (*weights, Weight(f"{name}.position_bias", part, ratio, width), *norm(f"{name}.kv_norm", dim))


def _window(hidden: int, d: Dims) -> tuple[Weight, ...]:
    """The weights of a layer with a window alone; those with compressed entries have them too."""
    weights = linear("q_a_proj", "attention", d.q_rank, hidden) + norm("q_a_norm", d.q_rank)
    weights += linear("q_b_proj", "attention", d.heads * d.dim, d.q_rank)
    weights += linear("kv_proj", "attention", d.dim, hidden) + norm("kv_norm", d.dim)
    # The grouped projection is `groups` blocks of [o_rank, heads * dim / groups], one under the other.
    weights += linear("o_a_proj", "attention", d.groups * d.o_rank, d.heads * d.dim // d.groups)
    weights += linear("o_b_proj", "attention", hidden, d.groups * d.o_rank)
    return (*weights, Weight("sinks", "attention", d.heads))


def build(hidden: int, d: Dims, *, ratio: int = 0, index: Index | None = None) -> Attention:
    """One layer. Buffers of unfinished groups (fewer than `ratio` tokens) are not counted."""
    weights = _window(hidden, d)
    flops = 4 * d.heads * d.dim  # scores and mixing
    args = (("head_dim", d.dim),)
    entries: tuple[Entry, ...] = (Entry(single_head_bytes_per_token, args, window=d.window, flops=flops),)
    if ratio:
        weights += compressor(hidden, d.dim, ratio, overlap=index is not None, part="attention", name="compressor")
        reads = index.top_k if index else None
        entries += (Entry(single_head_bytes_per_token, args, ratio=ratio, reads=reads, flops=flops),)
    if index:
        weights += compressor(hidden, index.dim, ratio, overlap=True, part="indexer", name="indexer")
        weights += linear("indexer.q_b_proj", "indexer", index.heads * index.dim, d.q_rank)
        weights += linear("indexer.weights_proj", "indexer", index.heads, hidden)
        entries += (Entry(index_bytes_per_token, (("index_head_dim", index.dim),), ratio=ratio, flops=2 * index.heads * index.dim),)
    kind: Kind = "compressed-sparse" if index else "compressed" if ratio else "window"
    return Attention(kind, weights, entries, query_heads=d.heads, kv_heads=1)


class Role(NamedTuple):
    """What a layer of DeepSeek-V4.1 does beside its own window."""

    ratio: int
    """Tokens of a compressed entry; 0: it reads none."""
    keeps: bool
    """Whether the entries it reads are its own, else those of the layer before it that keeps some."""
    chooses: bool
    """Whether it picks the entries that it reads, else as the layer before it that does."""
    candidates: int | None
    """Index keys that it scores, where an earlier layer has narrowed them down."""


def shared(hidden: int, d: Dims, role: Role, index: Index) -> Attention:
    """One layer of V4.1. The index keys are made of the compressed entries, and kept beside them."""
    weights = _window(hidden, d)
    flops = 4 * d.heads * d.dim
    args = (("head_dim", d.dim),)
    entries: tuple[Entry, ...] = (Entry(single_head_bytes_per_token, args, window=d.window, flops=flops),)
    if not role.ratio:
        return Attention("window", weights, entries, query_heads=d.heads, kv_heads=1)
    if role.keeps:
        weights += linear("compressor.kv_proj", "attention", d.dim, hidden) + norm("compressor.kv_norm", d.dim)
        if role.ratio > 1:
            weights += linear("compressor.gate_proj", "attention", d.dim, hidden)
        weights += linear("indexer.k_proj", "indexer", index.dim, d.dim) + norm("indexer.k_norm", index.dim)
    entries += (Entry(single_head_bytes_per_token, args, ratio=role.ratio, reads=index.top_k, flops=flops, stored=role.keeps),)
    if role.chooses:
        weights += linear("indexer.q_b_proj", "indexer", index.heads * index.dim, d.q_rank)
        weights += linear("indexer.weights_proj", "indexer", index.heads, hidden)
    if role.keeps or role.chooses:
        key, scored = (("index_head_dim", index.dim),), 2 * index.heads * index.dim if role.chooses else 0
        reads = role.candidates if role.chooses else None
        entries += (Entry(index_bytes_per_token, key, ratio=role.ratio, reads=reads, flops=scored, stored=role.keeps),)
    return Attention("shared-compressed", weights, entries, query_heads=d.heads, kv_heads=1)
