"""Compute: arithmetic of a forward pass. A multiply-add is 2 FLOP."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="FLOP", ref="arXiv:2001.08361")
def dense_flops(params, tokens):
    """Matrix products of `tokens` tokens with `params` parameters. [FLOP]

    >>> dense_flops(8000000000.0, 512)
    8192000000000.0
    """
    return 2 * params * tokens


@formula(unit="B", ref="jax-ml/scaling-book roofline.md")
def gemm_bytes(weight_bytes, tokens, values_in_and_out, bytes_per_value):
    """A matrix product reads its weights once, and the activations that each token brings and takes. [B]

    >>> gemm_bytes(33554432, 64, 8192, 2)
    34603008
    """
    return weight_bytes + tokens * values_in_and_out * bytes_per_value


@formula(unit="B", ref="definition")
def message_bytes(tokens, hidden, bytes_per_value):
    """The hidden states of all tokens of a step, as ranks exchange them. [B]

    >>> message_bytes(64, 8192, 2)
    1048576
    """
    return tokens * hidden * bytes_per_value


@formula(unit="B", ref="arXiv:2505.09343")
def dispatched_bytes(message_bytes, tensor_parallel, top_k):
    """What one rank sends to experts: its share of the tokens, once to each chosen expert. [B]

    >>> dispatched_bytes(1048576, 8, 6)
    786432
    """
    return message_bytes / tensor_parallel * top_k


@formula(unit="B", ref="jax-ml/scaling-book inference.md")
def step_bytes(weight_read_bytes, batch, kv_read_bytes):
    """What a decode step reads: weights once, and every sequence's own cache. [B]

    >>> step_bytes(16000000000.0, 32, 1500000000.0)
    64000000000.0
    """
    return weight_read_bytes + batch * kv_read_bytes


@formula(unit="FLOP", ref="arXiv:2205.14135")
def decode_attention_flops(layers, flops_per_entry, entries, batch):
    """Scores and mixing of one query token per sequence over its cache entries. [FLOP]

    >>> decode_attention_flops(32, 16384, 1000, 8)
    4194304000
    """
    return layers * flops_per_entry * entries * batch


@formula(unit="pairs", ref="Dao-AILab/flash-attention, causal FLOP counter")
def causal_pairs(tokens, cached_tokens):
    """Query-key pairs of a causal prefill behind a cached prefix. [pairs]

    >>> causal_pairs(1000, 500)
    1000000
    """
    return tokens * tokens / 2 + tokens * cached_tokens


@formula(unit="FLOP", ref="Dao-AILab/flash-attention, causal FLOP counter")
def prefill_attention_flops(layers, flops_per_pair, pairs):
    """Scores and mixing over all query-key pairs. [FLOP]

    >>> prefill_attention_flops(32, 16384, 1000000.0)
    524288000000.0
    """
    return layers * flops_per_pair * pairs


@formula(unit="copies", ref="vLLM: ceil(KV heads / tp) heads on each rank")
def kv_replication(kv_heads, tensor_parallel):
    """How many times a cache is held when KV heads are dealt to ranks: a head cannot be cut, a latent is one head. [1]

    >>> kv_replication(8, 16)
    2
    """
    return -(-kv_heads // tensor_parallel) * tensor_parallel / kv_heads
