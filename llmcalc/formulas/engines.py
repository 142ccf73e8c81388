"""What serving engines hold beside weights, and how they cut the rest into blocks.

`blocks` are whole; a ceiling is written as -(-a // b), so that arrays pass through.
"""

from __future__ import annotations

from llmcalc.figures import formula, larger, smaller


@formula(unit="B", ref="nvidia-smi totals beside torch.cuda.mem_get_info in published logs, 14 cards from 15 to 180 GiB")
def visible_bytes(reported_bytes, driver_bytes, driver_share):
    """What a CUDA process sees of a device: the driver keeps a fixed part and one that grows with the memory. [B]

    >>> visible_bytes(80000000000.0, 500000000.0, 0.01)
    78700000000.0
    """
    return reported_bytes * (1 - driver_share) - driver_bytes


@formula(unit="B", ref="vllm-project/vllm v1/worker/gpu_worker.py @001cabc")
def usable_beside_buffers(memory_bytes, utilization, overhead_bytes, reserve_bytes):
    """Memory that weights and cache may take: the engine's share of the memory, less what it holds beside them. [B]

    >>> usable_beside_buffers(80000000000.0, 0.9, 2000000000.0, 1000000000.0)
    69000000000.0
    """
    return memory_bytes * utilization - overhead_bytes - reserve_bytes


@formula(unit="B", ref="sgl-project/sglang srt/mem_cache/kv_cache_configurator.py @0.5.23: pre_model_load_memory")
def usable_after_setup(memory_bytes, utilization, overhead_bytes, reserve_bytes, copied_bytes):
    """Weights and cache under a share of what contexts and communication leave of the memory. [B]

    >>> usable_after_setup(80000000000.0, 0.9, 2000000000.0, 1000000000.0, 200000000.0)
    69000000000.0
    """
    return (memory_bytes - overhead_bytes) * utilization - reserve_bytes - copied_bytes


@formula(unit="B", ref="NVIDIA/TensorRT-LLM llmapi/llm_args.py @fcd3f31: free_gpu_memory_fraction")
def free_share_bytes(memory_bytes, utilization, overhead_bytes, reserve_bytes, weight_bytes):
    """Weights, and the engine's share of what they and its buffers leave free. [B]

    >>> free_share_bytes(80000000000.0, 0.9, 2000000000.0, 1000000000.0, 16000000000.0)
    70900000000.0
    """
    return weight_bytes + utilization * (memory_bytes - overhead_bytes - reserve_bytes - weight_bytes)


@formula(unit="ratio", ref="sgl-project/sglang srt/server_args.py @469c63e")
def static_share(total_bytes, base_bytes, chunk_bytes, chunk_tokens, graph_bytes, graph_batch, rank_bytes, ranks, least_bytes):
    """Share of the memory for weights and cache, once activations, graphs and the ranks' buffers are set aside. [1]

    >>> static_share(81920, 512, 1.5, 8192, 2, 256, 128, 2, 10240)
    0.834375
    """
    return 1 - larger(base_bytes + chunk_bytes * chunk_tokens + graph_bytes * graph_batch + rank_bytes * ranks, least_bytes) / total_bytes


@formula(unit="B", ref="vLLM memory profiles printed at start-up; fits 12 models within 5%")
def sampler_bytes(sequences, vocab, bytes_per_logit):
    """Logits of every sequence, and the copies that sampling makes of them. [B]

    >>> sampler_bytes(256, 128256, 14)
    459669504
    """
    return sequences * vocab * bytes_per_logit


@formula(unit="B", ref="vllm-project/vllm issue 10517: 2.07 and 2.99 GiB at 20,000 and 29,000 tokens")
def forward_bytes(tokens, widths, bytes_per_element):
    """The outputs that a layer's products hold at once, for all tokens of a step. [B]

    >>> forward_bytes(20000, 55000, 2)
    2200000000.0
    """
    return tokens * widths * bytes_per_element


@formula(unit="B", ref="vllm-project/vllm model_executor/layers/fused_moe: workspace shapes")
def expert_workspace_bytes(tokens, top_k, hidden, inner, second, bytes_per_element):
    """Buffers of fused experts, every token once per chosen expert: the first product's, and what is `second`. [B]

    >>> expert_workspace_bytes(8192, 8, 2048, 768, 2048, 2)
    536870912
    """
    return tokens * top_k * (larger(hidden, 2 * inner) + second) * bytes_per_element


@formula(unit="B", ref="vllm-project/vllm v1/worker, memory profiling")
def activation_bytes(hidden_bytes, workspace_bytes, forward_bytes, sampler_bytes):
    """Peak of a step: hidden states and workspaces, and the larger of a layer and the sampler, which do not overlap. [B]

    >>> activation_bytes(100, 20, 5, 3)
    125
    """
    return hidden_bytes + workspace_bytes + larger(forward_bytes, sampler_bytes)


@formula(unit="B", ref="vllm-project/vllm v1/worker/gpu_model_runner.py: profile_run; peaks of 1.46 GiB logged at TP2")
def encoder_bytes(patches, hidden, inner, products, bytes_per_element):
    """Encoding the largest image: three times the stream, the first products of an MLP and their activation. [B]

    >>> encoder_bytes(4096, 1152, 4304, 2, 2)
    98828288
    """
    return patches * (3 * hidden + products * inner) * bytes_per_element


@formula(unit="B", ref="vllm-project/vllm v1/worker, memory profiling")
def profile_bytes(encoder_bytes, image_bytes, activation_bytes):
    """Peak of a profile: an image in the encoder, or a step beside the encoded image. [B]

    >>> profile_bytes(100, 20, 90)
    110
    """
    return larger(encoder_bytes, image_bytes + activation_bytes)


@formula(unit="B", ref="vllm-project/vllm quantization/mxfp4.py: gpt-oss-20b takes 13.72 GiB of 12.8, 120b 65.97 of 60.8")
def padding_bytes(matrices, rows, columns, padded_rows, padded_columns, bits):
    """What kernels add to matrices to fill their tiles. [B]

    >>> padding_bytes(32, 2880, 2880, 3072, 2944, 4)
    11993088
    """
    return matrices * (padded_rows * padded_columns - rows * columns) * bits / 8


@formula(unit="B", ref="vllm-project/vllm v1/worker/gpu_model_runner.py: profile_cudagraph_memory; logs from 0.20 on")
def graph_bytes(workspace_bytes, graphs, layers, bytes_per_layer, mixtures, bytes_per_mixture):
    """Captured CUDA graphs: what the first needs, and a part of every layer in each. [B]

    >>> graph_bytes(400000000.0, 86, 32, 200000.0, 10, 800000.0)
    1638400000.0
    """
    return workspace_bytes + graphs * (layers * bytes_per_layer + mixtures * bytes_per_mixture)


@formula(unit="tokens", ref="arXiv:2309.06180")
def padded_tokens(tokens, block_tokens):
    """Slots of the whole blocks that hold these tokens. [tokens]

    >>> padded_tokens(1000, 16)
    1008
    """
    return -(-tokens // block_tokens) * block_tokens


@formula(unit="tokens", ref="ggml-org/llama.cpp src/llama-kv-cache-iswa.cpp")
def window_cells(ctx_tokens, window_tokens, batched_tokens, block_tokens):
    """A slot of llama.cpp's window cache: the window and one micro-batch, padded. [tokens]

    >>> window_cells(131072, 1000, 512, 256)
    1536
    """
    return -(-smaller(ctx_tokens, window_tokens + batched_tokens) // block_tokens) * block_tokens


@formula(unit="tokens", ref="sgl-project/sglang srt/server_args.py @469c63e: swa_full_tokens_ratio")
def window_share_tokens(ctx_tokens, ratio):
    """SGLang's window pool: a fixed share of the tokens that full attention keeps. [tokens]

    >>> window_share_tokens(10000, 0.8)
    8000
    """
    return ctx_tokens * ratio


@formula(unit="blocks", ref="vllm-project/vllm v1/kv_cache_interface.py @001cabc")
def full_blocks(ctx_tokens, block_tokens):
    """Blocks of a sequence in a layer that keeps everything. [blocks]

    >>> full_blocks(1000, 16)
    63
    """
    return -(-ctx_tokens // block_tokens)


@formula(unit="blocks", ref="vllm-project/vllm v1/kv_cache_interface.py @001cabc")
def window_blocks(ctx_tokens, window_tokens, batched_tokens, block_tokens):
    """Blocks in a window layer: window - 1 and one step's tokens, and a block more, as a window rarely begins with one. [blocks]

    >>> window_blocks(131072, 1024, 2050, 16)
    194
    """
    return -(-smaller(ctx_tokens, window_tokens - 1 + batched_tokens) // block_tokens) + 1


@formula(unit="blocks", ref="vllm-project/vllm v1/kv_cache_interface.py @001cabc")
def chunk_blocks(ctx_tokens, window_tokens, batched_tokens, block_tokens):
    """Blocks in a layer that looks back to the start of its chunk. [blocks]

    >>> chunk_blocks(131072, 8192, 2040, 16)
    640
    """
    return -(-smaller(ctx_tokens, window_tokens + batched_tokens) // block_tokens)


@formula(unit="B", ref="vllm-project/vllm v1/core/kv_cache_utils.py @001cabc")
def grouped_bytes(blocks, groups, layers_per_group, page_bytes, ranks):
    """A sequence's blocks in alike layers, which are cut into groups of equal size; short groups are padded. [B]

    >>> grouped_bytes(193, 6, 8, 65536, 2)
    1214251008
    """
    return blocks * groups * layers_per_group * page_bytes * ranks


@formula(unit="B", ref="sgl-project/sglang model_runner: mamba_full_memory_ratio")
def split_pool_bytes(cache_bytes, state_bytes, state_ratio, slots):
    """What a sequence takes of a pool that is split between caches and states: whichever part runs out first. [B]

    >>> split_pool_bytes(100000000.0, 45000000.0, 0.9, 4)
    380000000.0
    """
    return (1 + state_ratio) * larger(cache_bytes, state_bytes * slots / state_ratio)


@formula(unit="B/token", ref="vllm-project/vllm v1/attention/backends/mla: fp8_ds_mla; sgl-project/sglang pull 11309")
def packed_latent_bytes(layers, kv_lora_rank, qk_rope_head_dim, element_bytes, scale_bytes, rope_bytes):
    """fp8 latent of sparse MLA: one scale per 128 elements, and the rotary key in 16 bits. [B/token]

    >>> packed_latent_bytes(61, 512, 64, 1, 4, 2)
    40016
    """
    return layers * (kv_lora_rank * (element_bytes + scale_bytes / 128) + qk_rope_head_dim * rope_bytes)


@formula(unit="B/token", ref="sgl-project/sglang pull 11309")
def packed_index_bytes(layers, index_head_dim, element_bytes, scale_bytes):
    """The indexer's key in fp8 with one scale per 128 elements, whatever the cache's format. [B/token]

    >>> packed_index_bytes(61, 128, 1, 4)
    8052
    """
    return layers * index_head_dim * (element_bytes + scale_bytes / 128)


@formula(unit="B", ref="vllm-project/vllm v1/kv_cache_interface.py: the 584 B of DeepSeek-V4")
def packed_entry_bytes(head_dim, rope_dim, scaled_elements):
    """DeepSeek-V4's key in fp8: its rotary part takes 16 bits, and every 64 elements have a scale of one byte. [B]

    >>> packed_entry_bytes(512, 64, 64)
    584
    """
    return head_dim + rope_dim + head_dim / scaled_elements


@formula(unit="B", ref="vllm-project/vllm models/deepseek_v4/compressor.py")
def compressor_entry_bytes(head_dim, overlap):
    """What a compressor keeps of a token: a value and a gate in fp32, twice where its groups overlap. [B]

    >>> compressor_entry_bytes(512, 3)
    12288
    """
    return 2 * overlap * head_dim * 4


@formula(unit="B", ref="vllm-project/vllm v1/kv_cache_interface.py: alignment of 576 B")
def aligned_page_bytes(entries, entry_bytes, alignment_bytes):
    """A block's entries in one layer, padded. [B]

    >>> aligned_page_bytes(64, 584, 576)
    37440
    """
    return -(-(entries * entry_bytes) // alignment_bytes) * alignment_bytes


@formula(unit="blocks", ref="vllm-project/vllm v1/core/kv_cache_utils.py: get_max_concurrency_for_kv_cache_config")
def shared_blocks(held_bytes, block_bytes):
    """Blocks of a pool whose caches have pages of unlike sizes: all a sequence holds, over the first group's block. [blocks]

    >>> shared_blocks(1000000, 37440)
    27
    """
    return -(-held_bytes // block_bytes)
