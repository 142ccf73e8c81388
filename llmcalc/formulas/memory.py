"""Memory: what a cache, a state and a set of weights hold.

Each function takes plain numbers in SI base units (or numpy arrays) and returns one. `layers` counts alike layers.
"""

from __future__ import annotations

from llmcalc.figures import formula, smaller


@formula(unit="B/token", ref="arXiv:2305.13245")
def kv_bytes_per_token(layers, kv_heads, head_dim, bytes_per_element):
    """Keys and values of every caching layer, MHA, GQA and MQA alike. [B/token]

    >>> kv_bytes_per_token(32, 8, 128, 2)
    131072
    """
    return 2 * layers * kv_heads * head_dim * bytes_per_element


@formula(unit="B/token", ref="arXiv:2305.13245")
def split_kv_bytes_per_token(layers, kv_heads, key_dim, value_dim, bytes_per_element):
    """Keys and values of different width. [B/token]

    >>> split_kv_bytes_per_token(48, 4, 192, 128, 2)
    122880
    """
    return layers * kv_heads * (key_dim + value_dim) * bytes_per_element


@formula(unit="B/token", ref="arXiv:2405.04434")
def latent_bytes_per_token(layers, kv_lora_rank, qk_rope_head_dim, bytes_per_element):
    """MLA: one latent and one rotary key per layer, shared by every head. [B/token]

    >>> latent_bytes_per_token(61, 512, 64, 2)
    70272
    """
    return layers * (kv_lora_rank + qk_rope_head_dim) * bytes_per_element


@formula(unit="B/token", ref="arXiv:2512.02556")
def index_bytes_per_token(layers, index_head_dim, bytes_per_element):
    """The sparse-attention indexer's one key per token. [B/token]

    >>> index_bytes_per_token(61, 128, 2)
    15616
    """
    return layers * index_head_dim * bytes_per_element


@formula(unit="B/token", ref="huggingface/transformers models/deepseek_v4 @v5.24")
def single_head_bytes_per_token(layers, head_dim, bytes_per_element):
    """One vector that serves as key and as value. [B/token]

    >>> single_head_bytes_per_token(61, 512, 2)
    62464
    """
    return layers * head_dim * bytes_per_element


@formula(unit="tokens", ref="arXiv:2310.06825")
def tokens_in_window(ctx_tokens, window_tokens):
    """Tokens that a sliding or chunked layer keeps. [tokens]

    >>> tokens_in_window(131072, 4096)
    4096
    """
    return smaller(ctx_tokens, window_tokens)


@formula(unit="entries", ref="huggingface/transformers models/deepseek_v4 @v5.24")
def compressed_entries(ctx_tokens, ratio):
    """Finished groups of `ratio` tokens, one cache entry each. [entries]

    >>> compressed_entries(1003, 4)
    250
    """
    return ctx_tokens // ratio


@formula(unit="B", ref="definition")
def cache_bytes(bytes_per_token, cached_tokens):
    """Cache of one sequence in a group of alike layers. [B]

    >>> cache_bytes(131072, 8192)
    1073741824
    """
    return bytes_per_token * cached_tokens


@formula(unit="B", ref="arXiv:2312.00752")
def state_bytes(layers, elements, bytes_per_element):
    """Recurrent state of one sequence; it does not grow with the context. [B]

    >>> state_bytes(36, 524288, 4)
    75497472
    """
    return layers * elements * bytes_per_element


@formula(unit="elements", ref="arXiv:2312.00752")
def conv_state_elements(channels, kernel):
    """Past inputs that a causal convolution keeps per layer. [elements]

    >>> conv_state_elements(8192, 4)
    24576
    """
    return channels * (kernel - 1)


@formula(unit="elements", ref="arXiv:2312.00752")
def ssm_state_elements(heads, head_dim, state_dim):
    """A matrix of head_dim × state_dim per head and layer (Mamba 1: heads of width 1). [elements]

    >>> ssm_state_elements(32, 128, 64)
    262144
    """
    return heads * head_dim * state_dim


@formula(unit="elements", ref="arXiv:2305.13048")
def vector_state_elements(vectors, width):
    """State of `vectors` vectors per layer (token shift, RG-LRU, RWKV numerator and denominator). [elements]

    >>> vector_state_elements(2, 4096)
    8192
    """
    return vectors * width


@formula(unit="B", ref="definition")
def batch_bytes(bytes_per_sequence, batch):
    """Cache of all concurrent sequences of equal length. [B]

    >>> batch_bytes(1500000000.0, 8)
    12000000000.0
    """
    return bytes_per_sequence * batch


@formula(unit="B", ref="ggml-org/llama.cpp tools/quantize/README.md, bits per weight")
def weight_bytes(params, bits_per_weight):
    """Parameters at the format's effective bits, scales included. [B]

    >>> weight_bytes(8000000000.0, 4.5)
    4500000000.0
    """
    return params * bits_per_weight / 8


@formula(unit="B", ref="arXiv:2210.17323")
def stored_bytes(matrices, rows, columns, bits, block_rows, block_columns, block_bytes, matrix_bytes):
    """Matrices as a quantiser stores them: packed elements, scales and zeros of every block (whole or not), and the rest. [B]

    >>> stored_bytes(3, 300, 1000, 4, 128, 128, 4, 8)
    450312
    """
    return matrices * (rows * columns * bits / 8 + -(-rows // block_rows) * -(-columns // block_columns) * block_bytes + matrix_bytes)


@formula(unit="bit", ref="ggml-org/llama.cpp tools/quantize/README.md, bits per weight")
def effective_bits(weight_bytes, params):
    """Bits that a parameter takes with everything that is stored for it. [bit]

    >>> effective_bits(4500000000.0, 8000000000.0)
    4.5
    """
    return weight_bytes * 8 / params


@formula(unit="B", ref="definition")
def saved_bytes(before_bytes, after_bytes):
    """What a smaller format spares. [B]

    >>> saved_bytes(16000000000.0, 4500000000.0)
    11500000000.0
    """
    return before_bytes - after_bytes


@formula(unit="sequences", ref="arXiv:2309.06180")
def max_batch_exact(kv_budget_bytes, kv_bytes_per_sequence):
    """Sequences whose cache the memory left after weights holds, before rounding down. [sequences]

    >>> max_batch_exact(54000000000.0, 1500000000.0)
    36
    """
    return kv_budget_bytes / kv_bytes_per_sequence


@formula(unit="ratio", ref="definition")
def share(part, whole):
    """Part of a whole. [1]

    >>> share(3, 12)
    0.25
    """
    return part / whole


@formula(unit="B/token", ref="huggingface/transformers models/deepseek_v4 @v5.24")
def amortised(bytes_per_entry, ratio):
    """An entry shared by `ratio` tokens. [B/token]

    >>> amortised(584, 4)
    146
    """
    return bytes_per_entry / ratio


@formula(unit="params", ref="definition")
def matrix_params(layers, copies, rows, columns):
    """Elements of `copies` matrices [rows, columns] in each of `layers` layers. [params]

    >>> matrix_params(32, 3, 4096, 14336)
    5637144576
    """
    return layers * copies * rows * columns


@formula(unit="params", ref="definition")
def vector_params(layers, width):
    """Elements of one vector in each of `layers` layers. [params]

    >>> vector_params(65, 4096)
    266240
    """
    return layers * width


@formula(unit="B", ref="arXiv:1909.08053")
def replicated_bytes(held_bytes, copies):
    """The same bytes on several ranks. [B]

    >>> replicated_bytes(1000000000.0, 8)
    8000000000.0
    """
    return held_bytes * copies


@formula(unit="B", ref="vllm-project/vllm model_executor/models/deepseek_v2.py: ReplicatedLinear; 79.41 GiB logged of DeepSeek-R1 at TP8")
def copied_bytes(held_bytes, tensor_parallel, stages):
    """What a rank holds of matrices that are not cut, beyond its part of them. [B]

    >>> copied_bytes(1000000000.0, 8, 1)
    875000000.0
    """
    return held_bytes * (1 - 1 / tensor_parallel) / stages


@formula(unit="B", ref="inference-sim roofline.go")
def expert_read_bytes(params_per_expert, distinct_experts, bits_per_weight):
    """Weights of the routed experts that a step touches, over all layers. [B]

    >>> expert_read_bytes(50000000.0, 64, 4.25)
    1700000000.0
    """
    return params_per_expert * distinct_experts * bits_per_weight / 8


@formula(unit="B", ref="arXiv:2309.06180")
def usable_bytes(memory_bytes, utilization, reserve_bytes):
    """Memory that weights and cache may take. [B]

    >>> usable_bytes(80000000000.0, 0.9, 6000000000.0)
    66000000000.0
    """
    return memory_bytes * utilization - reserve_bytes


@formula(unit="B", ref="arXiv:2309.06180")
def kv_budget_bytes(usable_bytes, weight_bytes):
    """Memory left for the cache. [B]

    >>> kv_budget_bytes(66000000000.0, 16000000000.0)
    50000000000.0
    """
    return usable_bytes - weight_bytes


@formula(unit="params", ref="arXiv:2106.09685")
def adapter_params(rank, inputs, outputs):
    """A low-rank adapter of one matrix: down to the rank and up again. [params]

    >>> adapter_params(16, 4096, 14336)
    294912
    """
    return rank * (inputs + outputs)
