"""Serving: pipelines, prefix caches, paging, offload and separate pools."""

from __future__ import annotations

from llmcalc.figures import formula, larger


@formula(unit="s", ref="Williams et al., Roofline, CACM 2009")
def prefill_s(gemm_s, weight_read_s, attention_s, kv_read_s, communication_s):
    """Reading a prompt: weights are read while they multiply, a cached prefix is read while it is attended, ranks talk. [s]

    >>> prefill_s(0.1, 0.02, 0.03, 0.01, 0.005)
    0.135
    """
    return larger(gemm_s, weight_read_s) + larger(attention_s, kv_read_s) + communication_s


@formula(unit="ratio", ref="arXiv:1811.06965")
def pipeline_bubble(stages, microbatches):
    """Share of the time that a pipeline's stages wait while it fills and drains. [1]

    >>> pipeline_bubble(4, 8)
    0.2727272727272727
    """
    return (stages - 1) / (microbatches + stages - 1)


@formula(unit="s", ref="arXiv:1811.06965")
def pipelined_s(busy_s, stages, microbatches):
    """Length of work that keeps every stage busy for busy_s, with the pipeline's filling and draining. [s]

    >>> pipelined_s(1.6, 4, 8)
    2.2
    """
    return busy_s * (microbatches + stages - 1) / microbatches


@formula(unit="s", ref="arXiv:2403.02310")
def mixed_step_s(kv_read_s, weight_read_s, compute_s, communication_s, attention_s):
    """A decode step that carries a chunk of somebody's prompt: the chunk shares the weights and adds its own attention. [s]

    >>> mixed_step_s(0.006, 0.01, 0.004, 0.001, 0.002)
    0.019
    """
    return kv_read_s + larger(weight_read_s, compute_s) + communication_s + attention_s


@formula(unit="tokens", ref="arXiv:2403.02310")
def free_tokens(critical_batch, batch):
    """Prompt tokens that a decode step carries before arithmetic binds. [tokens]

    >>> free_tokens(300, 64)
    236
    """
    return larger(0, critical_batch - batch)


@formula(unit="tokens", ref="vllm-project/vllm docs, automatic prefix caching")
def shared_tokens(prefix_tokens, block_tokens):
    """Tokens of a common prefix that fill whole blocks: only those are shared. [tokens]

    >>> shared_tokens(1000, 16)
    992
    """
    return prefix_tokens // block_tokens * block_tokens


@formula(unit="tokens", ref="arXiv:2312.07104")
def prefilled_tokens(sequences, prompt_tokens, shared_tokens):
    """Tokens that are computed when the shared ones are computed once. [tokens]

    >>> prefilled_tokens(50, 1200, 992)
    11392
    """
    return shared_tokens + sequences * (prompt_tokens - shared_tokens)


@formula(unit="ratio", ref="arXiv:2309.06180")
def paged_waste(mean_tokens, block_tokens):
    """Share of the slots that stay empty: half a block per sequence on average. [1]

    >>> paged_waste(100, 16)
    0.06976744186046512
    """
    return (block_tokens - 1) / 2 / (mean_tokens + (block_tokens - 1) / 2)


@formula(unit="ratio", ref="arXiv:2309.06180")
def reserved_waste(mean_tokens, reserved_tokens):
    """Share of the slots that stay empty when every sequence reserves the longest. [1]

    >>> reserved_waste(512, 2048)
    0.75
    """
    return 1 - mean_tokens / reserved_tokens


@formula(unit="ratio", ref="definition")
def routed_hit_rate(hit_rate, replicas):
    """Hits when a conversation's next turn lands on any replica alike. [1]

    >>> routed_hit_rate(0.8, 4)
    0.2
    """
    return hit_rate / replicas


@formula(unit="s", ref="arXiv:2407.00079")
def transfer_s(moved_bytes, link_bytes_per_s):
    """Moving bytes over a link. [s]

    >>> transfer_s(1000000000.0, 25000000000.0)
    0.04
    """
    return moved_bytes / link_bytes_per_s


@formula(unit="B/s", ref="arXiv:2407.00079")
def break_even_link(moved_bytes, recompute_s):
    """The link from which fetching a cache is faster than computing it again. [B/s]

    >>> break_even_link(1000000000.0, 0.05)
    20000000000.0
    """
    return moved_bytes / recompute_s


@formula(unit="B/s", ref="arXiv:2401.09670")
def transfer_rate(rate, moved_bytes):
    """What prefill devices send to decode devices. [B/s]

    >>> transfer_rate(10, 500000000.0)
    5000000000.0
    """
    return rate * moved_bytes


@formula(unit="replicas", ref="ai-dynamo/aiconfigurator picking.py")
def pool_replicas(rate, seconds_per_request, derate):
    """Replicas of a pool that spends this long on each request and is kept below full load. [replicas]

    >>> pool_replicas(12, 0.25, 0.75)
    4
    """
    return rate * seconds_per_request / derate
