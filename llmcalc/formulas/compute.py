"""Compute: arithmetic of a forward pass. A multiply-add is 2 FLOP."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="FLOP", ref="arXiv:2001.08361")
def dense_flops(params, tokens):
    """Matrix products of `tokens` tokens with `params` parameters. [FLOP]"""
    return 2 * params * tokens


@formula(unit="B", ref="jax-ml/scaling-book roofline.md")
def gemm_bytes(weight_bytes, tokens, values_in_and_out, bytes_per_value):
    """A matrix product reads its weights once, and the activations that each token brings and takes. [B]"""
    return weight_bytes + tokens * values_in_and_out * bytes_per_value


@formula(unit="B")
def message_bytes(tokens, hidden, bytes_per_value):
    """The hidden states of all tokens of a step, as ranks exchange them. [B]"""
    return tokens * hidden * bytes_per_value


@formula(unit="B", ref="arXiv:2505.09343")
def dispatched_bytes(message_bytes, tensor_parallel, top_k):
    """What one rank sends to experts: its share of the tokens, once to each chosen expert. [B]"""
    return message_bytes / tensor_parallel * top_k


@formula(unit="B")
def step_bytes(weight_read_bytes, batch, kv_read_bytes):
    """What a decode step reads: weights once, and every sequence's own cache. [B]"""
    return weight_read_bytes + batch * kv_read_bytes


@formula(unit="FLOP", ref="arXiv:2205.14135")
def decode_attention_flops(layers, flops_per_entry, entries, batch):
    """Scores and mixing of one query token per sequence over its cache entries. [FLOP]"""
    return layers * flops_per_entry * entries * batch


@formula(unit="pairs", ref="Dao-AILab/flash-attention, causal FLOP counter")
def causal_pairs(tokens, cached_tokens):
    """Query-key pairs of a causal prefill behind a cached prefix. [pairs]"""
    return tokens * tokens / 2 + tokens * cached_tokens


@formula(unit="FLOP", ref="Dao-AILab/flash-attention, causal FLOP counter")
def prefill_attention_flops(layers, flops_per_pair, pairs):
    """Scores and mixing over all query-key pairs. [FLOP]"""
    return layers * flops_per_pair * pairs


@formula(unit="copies", ref="vLLM: ceil(KV heads / tp) heads on each rank")
def kv_replication(kv_heads, tensor_parallel):
    """How many times a cache is held when KV heads are dealt to ranks: a head cannot be cut, a latent is one head. [1]"""
    return -(-kv_heads // tensor_parallel) * tensor_parallel / kv_heads
