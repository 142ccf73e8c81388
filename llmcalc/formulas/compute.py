"""Compute: arithmetic of a forward pass. A multiply-add is 2 FLOP."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="FLOP", ref="arXiv:2001.08361")
def dense_flops(params, tokens):  # type: ignore[no-untyped-def]
    """Matrix products of `tokens` tokens with `params` parameters. [FLOP]"""
    return 2 * params * tokens


@formula(unit="B", ref="jax-ml/scaling-book roofline.md")
def gemm_bytes(weight_bytes, tokens, values_in_and_out, bytes_per_value):  # type: ignore[no-untyped-def]
    """A matrix product reads its weights once, and the activations that each token brings and takes. [B]"""
    return weight_bytes + tokens * values_in_and_out * bytes_per_value


@formula(unit="FLOP", ref="arXiv:2205.14135")
def decode_attention_flops(layers, flops_per_entry, entries, batch):  # type: ignore[no-untyped-def]
    """Scores and mixing of one query token per sequence over its cache entries. [FLOP]"""
    return layers * flops_per_entry * entries * batch


@formula(unit="pairs", ref="Dao-AILab/flash-attention, causal FLOP counter")
def causal_pairs(tokens, cached_tokens):  # type: ignore[no-untyped-def]
    """Query-key pairs of a causal prefill behind a cached prefix. [pairs]"""
    return tokens * tokens / 2 + tokens * cached_tokens


@formula(unit="FLOP", ref="Dao-AILab/flash-attention, causal FLOP counter")
def prefill_attention_flops(layers, flops_per_pair, pairs):  # type: ignore[no-untyped-def]
    """Scores and mixing over all query-key pairs. [FLOP]"""
    return layers * flops_per_pair * pairs


@formula(unit="copies", ref="vLLM: ceil(KV heads / tp) heads on each rank")
def kv_replication(kv_heads, tensor_parallel):  # type: ignore[no-untyped-def]
    """How many times a cache is held when KV heads are dealt to ranks: a head cannot be cut, a latent is one head. [1]"""
    return -(-kv_heads // tensor_parallel) * tensor_parallel / kv_heads
