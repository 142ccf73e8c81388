"""Multi-head latent attention: one compressed latent and one rotary key per token, shared by every head.

With a sparse-attention indexer (DeepSeek-V3.2, GLM-5) one more key per token is kept, and only the best tokens are read.
"""

from __future__ import annotations

from typing import NamedTuple

from llmcalc.architecture import Attention, Entry, Weight, linear, norm
from llmcalc.config import Config
from llmcalc.formulas.memory import index_bytes_per_token, latent_bytes_per_token, split_kv_bytes_per_token


class Dims(NamedTuple):
    """The widths of an MLA block."""

    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int
    expanded: bool = False
    """Whether every head's key and value is cached instead of the latent, as llama.cpp does of old GGUF files."""


class Index(NamedTuple):
    """The indexer: heads, width, tokens kept, and whether this layer has its own (else it reuses an earlier layer's choice)."""

    heads: int
    dim: int
    top_k: int
    own: bool = True


def dims(c: Config, value_dim: int | None = None) -> Dims:
    """By the keys of DeepSeek-V2 and after. Head counts and head_dim for plain attention mean nothing here.

    `value_dim`: what the class takes where v_head_dim is absent.
    """
    c.dismiss("num_key_value_heads", "head_dim")
    found = Dims(
        heads=c.count("num_attention_heads"),
        q_rank=c.maybe("q_lora_rank"),
        kv_rank=c.count("kv_lora_rank"),
        nope=c.count("qk_nope_head_dim", least=0),
        rope=c.count("qk_rope_head_dim", least=0),
        value=c.count("v_head_dim", default=value_dim),
        expanded=c.flag("expanded_cache"),
    )
    if c.has("qk_head_dim") and c.count("qk_head_dim") != found.nope + found.rope:
        raise c.fail("qk_head_dim", c.get("qk_head_dim"), f"qk_nope_head_dim + qk_rope_head_dim ({found.nope + found.rope})")
    return found


def build(
    hidden: int,
    d: Dims,
    *,
    bias: bool = False,
    index: Index | None = None,
    window: int | None = None,
    extra: tuple[Weight, ...] = (),
) -> Attention:
    """One MLA layer. `bias` is on the down-projections and the output (attention_bias of the config)."""
    key = d.nope + d.rope
    if d.q_rank is None:
        weights = linear("q_proj", "attention", d.heads * key, hidden)
    else:
        weights = linear("q_a_proj", "attention", d.q_rank, hidden, bias) + norm("q_a_layernorm", d.q_rank)
        weights += linear("q_b_proj", "attention", d.heads * key, d.q_rank)
    weights += linear("kv_a_proj_with_mqa", "attention", d.kv_rank + d.rope, hidden, bias) + norm("kv_a_layernorm", d.kv_rank)
    weights += linear("kv_b_proj", "attention", d.heads * (d.nope + d.value), d.kv_rank)
    weights += linear("o_proj", "attention", hidden, d.heads * d.value, bias)
    if d.expanded:
        whole = Entry(
            split_kv_bytes_per_token,
            (("kv_heads", d.heads), ("key_dim", key), ("value_dim", d.value)),
            window=window,
            flops=2 * d.heads * (key + d.value),
        )
        return Attention("mla", weights + extra, (whole,), query_heads=d.heads, kv_heads=d.heads)
    # Absorbed decode: scores over latent + rotary key, mixing over the latent alone.
    entries: tuple[Entry, ...] = (
        Entry(
            latent_bytes_per_token,
            (("kv_lora_rank", d.kv_rank), ("qk_rope_head_dim", d.rope)),
            window=window,
            reads=index.top_k if index else None,
            flops=2 * d.heads * (2 * d.kv_rank + d.rope),
            prefill_flops=2 * d.heads * (key + d.value),
        ),
    )
    if index and index.own:
        weights += linear("indexer.wq_b", "attention", index.heads * index.dim, d.q_rank or hidden)
        weights += linear("indexer.wk", "attention", index.dim, hidden) + norm("indexer.k_norm", index.dim, "layer")
        weights += linear("indexer.weights_proj", "indexer", index.heads, hidden)
        entries += (Entry(index_bytes_per_token, (("index_head_dim", index.dim),), flops=2 * index.heads * index.dim),)
    return Attention("mla-sparse" if index else "mla", weights + extra, entries, query_heads=d.heads, kv_heads=1)
