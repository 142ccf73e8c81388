"""Softmax attention with cached keys and values: MHA, GQA, MQA; full, windowed, chunked, shared or cross."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from llmcalc.architecture import FULL, Attention, Entry, Kind, Span, Weight, linear
from llmcalc.config import Config
from llmcalc.formulas.memory import kv_bytes_per_token, split_kv_bytes_per_token


def build(
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    value_dim: int | None = None,
    span: Span = FULL,
    biases: str = "",
    qk_norm: tuple[int, int] | None = None,
    gate: int = 0,
    sinks: int = 0,
    project_kv: bool = True,
    project_v: bool = True,
    stored: bool = True,
    source_width: int | None = None,
    source_tokens: int | None = None,
    out: int | None = None,
    extra: tuple[Weight, ...] = (),
    extra_entries: tuple[Entry, ...] = (),
    reads: int | None = None,
    kind: Kind | None = None,
) -> Attention:
    """One layer of GQA.

    `biases`: which of the projections q, k, v, o have one. `qk_norm`: widths of the norms on queries and keys. `gate`:
    further rows of the query projection. `source_*`: cross-attention reads keys from a sequence of that width and length.
    `stored` False: the layer reads the cache of an earlier layer. `out`: width of the output where it is not `hidden`.
    """
    values = head_dim if value_dim is None else value_dim
    into = source_width or hidden
    weights = linear("q_proj", "attention", heads * head_dim + gate, hidden, "q" in biases)
    if project_kv:
        weights += linear("k_proj", "attention", kv_heads * head_dim, into, "k" in biases)
        if project_v:
            weights += linear("v_proj", "attention", kv_heads * values, into, "v" in biases)
    weights += linear("o_proj", "attention", out or hidden, heads * values, "o" in biases)
    if qk_norm:
        weights += tuple(Weight(name, "norms", width) for name, width in zip(("q_norm", "k_norm"), qk_norm, strict=True) if width)
    if sinks:
        weights += (Weight("sinks", "attention", sinks),)
    same = head_dim == values
    args = (("kv_heads", kv_heads),) + ((("head_dim", head_dim),) if same else (("key_dim", head_dim), ("value_dim", values)))
    entry = Entry(
        kv_bytes_per_token if same else split_kv_bytes_per_token,
        args,
        window=span.tokens,
        tokens=source_tokens,
        stored=stored,
        reads=reads,
        flops=2 * heads * (head_dim + values),
    )
    named = kind or ("cross" if source_tokens is not None else span.kind if stored else "shared")
    return Attention(named, weights + extra, (entry, *extra_entries), query_heads=heads, kv_heads=kv_heads)


def heads(c: Config, rounds: bool = False) -> tuple[int, int, int]:
    """(query heads, KV heads, head_dim) by the usual keys. head_dim is hidden / heads only where it is absent.

    `rounds`: a class whose default width does not divide evenly, and which rounds down.
    """
    query = c.count("num_attention_heads")
    kv = c.maybe("num_key_value_heads") or query
    dim = c.maybe("head_dim")
    if dim is None and rounds:
        dim = c.hidden // query
    if dim is None:
        dim = exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query)
    check_groups(c, query, kv)
    return query, kv, dim


def exact_division(c: Config, name: str, value: int, by_name: str, by: int) -> int:
    """value / by, which the architecture needs to be whole."""
    if value % by:
        raise c.fail(name, value, f"a multiple of {by_name} ({by}), or head_dim must be given")
    return value // by


def check_groups(c: Config, query: int, kv: int) -> None:
    """Query heads share KV heads evenly."""
    if query % kv:
        raise c.fail("num_key_value_heads", kv, f"a divisor of num_attention_heads ({query})")


def uniform(
    c: Config,
    *,
    biases: str = "",
    qk_norm: Literal["head", "full"] | None = None,
    spans: Sequence[Span] | None = None,
    gate: bool = False,
    sinks: bool = False,
    extra: tuple[Weight, ...] = (),
    rounds: bool = False,
) -> Callable[[int], Attention]:
    """The same GQA block on every layer, with the span of each. `qk_norm`: "head" (one vector per head_dim) or "full"."""
    query, kv, dim = heads(c, rounds)
    hidden = c.hidden
    widths = {None: None, "head": (dim, dim), "full": (query * dim, kv * dim)}[qk_norm]
    made: dict[Span, Attention] = {}

    def at(layer: int) -> Attention:
        span = spans[layer] if spans is not None else FULL
        if span not in made:
            made[span] = build(
                hidden,
                query,
                kv,
                dim,
                span=span,
                biases=biases,
                qk_norm=widths,
                gate=query * dim if gate else 0,
                sinks=query if sinks else 0,
                extra=extra,
            )
        return made[span]

    return at
