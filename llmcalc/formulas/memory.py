"""Memory: what a cache, a state and a set of weights hold.

Each function takes plain numbers in SI base units (or numpy arrays) and returns one. `layers` counts alike layers.
"""

from __future__ import annotations

from llmcalc.figures import formula, smaller


@formula(unit="B/token", ref="arXiv:2305.13245")
def kv_bytes_per_token(layers, kv_heads, head_dim, bytes_per_element):
    """Keys and values of every caching layer, MHA, GQA and MQA alike. [B/token]"""
    return 2 * layers * kv_heads * head_dim * bytes_per_element


@formula(unit="B/token", ref="arXiv:2305.13245")
def split_kv_bytes_per_token(layers, kv_heads, key_dim, value_dim, bytes_per_element):
    """Keys and values of different width. [B/token]"""
    return layers * kv_heads * (key_dim + value_dim) * bytes_per_element


@formula(unit="B/token", ref="arXiv:2405.04434")
def latent_bytes_per_token(layers, kv_lora_rank, qk_rope_head_dim, bytes_per_element):
    """MLA: one latent and one rotary key per layer, shared by every head. [B/token]"""
    return layers * (kv_lora_rank + qk_rope_head_dim) * bytes_per_element


@formula(unit="B/token", ref="arXiv:2512.02556")
def index_bytes_per_token(layers, index_head_dim, bytes_per_element):
    """The sparse-attention indexer's one key per token. [B/token]"""
    return layers * index_head_dim * bytes_per_element


@formula(unit="B/token", ref="huggingface/transformers models/deepseek_v4 @v5.24")
def single_head_bytes_per_token(layers, head_dim, bytes_per_element):
    """One vector that serves as key and as value. [B/token]"""
    return layers * head_dim * bytes_per_element


@formula(unit="tokens", ref="arXiv:2310.06825")
def tokens_in_window(ctx_tokens, window_tokens):
    """Tokens that a sliding or chunked layer keeps. [tokens]"""
    return smaller(ctx_tokens, window_tokens)


@formula(unit="entries", ref="huggingface/transformers models/deepseek_v4 @v5.24")
def compressed_entries(ctx_tokens, ratio):
    """Finished groups of `ratio` tokens, one cache entry each. [entries]"""
    return ctx_tokens // ratio


@formula(unit="B")
def cache_bytes(bytes_per_token, cached_tokens):
    """Cache of one sequence in a group of alike layers. [B]"""
    return bytes_per_token * cached_tokens


@formula(unit="B")
def state_bytes(layers, elements, bytes_per_element):
    """Recurrent state of one sequence; it does not grow with the context. [B]"""
    return layers * elements * bytes_per_element


@formula(unit="elements", ref="arXiv:2312.00752")
def conv_state_elements(channels, kernel):
    """Past inputs that a causal convolution keeps per layer. [elements]"""
    return channels * (kernel - 1)


@formula(unit="elements", ref="arXiv:2312.00752")
def ssm_state_elements(heads, head_dim, state_dim):
    """A matrix of head_dim × state_dim per head and layer (Mamba 1: heads of width 1). [elements]"""
    return heads * head_dim * state_dim


@formula(unit="elements")
def vector_state_elements(vectors, width):
    """State of `vectors` vectors per layer (token shift, RG-LRU, RWKV numerator and denominator). [elements]"""
    return vectors * width


@formula(unit="B")
def batch_bytes(bytes_per_sequence, batch):
    """Cache of all concurrent sequences of equal length. [B]"""
    return bytes_per_sequence * batch


@formula(unit="B")
def weight_bytes(params, bits_per_weight):
    """Parameters at the format's effective bits, scales included. [B]"""
    return params * bits_per_weight / 8


@formula(unit="B")
def stored_bytes(matrices, rows, columns, bits, block_rows, block_columns, block_bytes, matrix_bytes):
    """Matrices as a quantiser stores them: packed elements, scales and zeros of every block (whole or not), and the rest. [B]"""
    return matrices * (rows * columns * bits / 8 + -(-rows // block_rows) * -(-columns // block_columns) * block_bytes + matrix_bytes)


@formula(unit="bit")
def effective_bits(weight_bytes, params):
    """Bits that a parameter takes with everything that is stored for it. [bit]"""
    return weight_bytes * 8 / params


@formula(unit="B")
def saved_bytes(before_bytes, after_bytes):
    """What a smaller format spares. [B]"""
    return before_bytes - after_bytes


@formula(unit="sequences")
def max_batch_exact(kv_budget_bytes, kv_bytes_per_sequence):
    """Sequences whose cache the memory left after weights holds, before rounding down. [sequences]"""
    return kv_budget_bytes / kv_bytes_per_sequence


@formula(unit="ratio")
def share(part, whole):
    """Part of a whole. [1]"""
    return part / whole


@formula(unit="B/token", ref="huggingface/transformers models/deepseek_v4 @v5.24")
def amortised(bytes_per_entry, ratio):
    """An entry shared by `ratio` tokens. [B/token]"""
    return bytes_per_entry / ratio


@formula(unit="params")
def matrix_params(layers, copies, rows, columns):
    """Elements of `copies` matrices [rows, columns] in each of `layers` layers. [params]"""
    return layers * copies * rows * columns


@formula(unit="params")
def vector_params(layers, width):
    """Elements of one vector in each of `layers` layers. [params]"""
    return layers * width


@formula(unit="B")
def replicated_bytes(held_bytes, copies):
    """The same bytes on several ranks. [B]"""
    return held_bytes * copies


@formula(unit="B", ref="inference-sim roofline.go")
def expert_read_bytes(params_per_expert, distinct_experts, bits_per_weight):
    """Weights of the routed experts that a step touches, over all layers. [B]"""
    return params_per_expert * distinct_experts * bits_per_weight / 8


@formula(unit="B")
def usable_bytes(memory_bytes, utilization, reserve_bytes):
    """Memory that weights and cache may take. [B]"""
    return memory_bytes * utilization - reserve_bytes


@formula(unit="B")
def kv_budget_bytes(usable_bytes, weight_bytes):
    """Memory left for the cache. [B]"""
    return usable_bytes - weight_bytes


@formula(unit="params", ref="arXiv:2106.09685")
def adapter_params(rank, inputs, outputs):
    """A low-rank adapter of one matrix: down to the rank and up again. [params]"""
    return rank * (inputs + outputs)
