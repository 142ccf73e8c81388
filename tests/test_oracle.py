"""The reference implementation itself: a small model of each family is built with transformers and generates a few tokens,
and both its parameters and every tensor of its cache must be what llmcalc says.

Needs the extra `oracle`. What transformers keeps differently from an ideal engine stands in DIFFERENCES, with the reason.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from llmcalc import model as reader
from llmcalc.architecture import Model
from llmcalc.estimate import memory

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
torch = pytest.importorskip("torch", reason="the extra `oracle` (torch) is not installed")
transformers = pytest.importorskip("transformers", reason="the extra `oracle` (transformers) is not installed")
VERSION = "5.24.0"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(
        transformers.__version__ != VERSION,
        reason=f"the oracle is transformers {VERSION}, not {transformers.__version__}: cache classes differ between releases",
    ),
]

WINDOW = 8
PROMPT = {7: 3, 21: 17}
"""Context in the end: tokens of the prompt. One lies inside the window, the other beyond; the rest is generated."""

DIFFERENCES = {
    "window": "a sliding layer of transformers drops the oldest token before it adds the next: W - 1 tokens are left, an engine keeps W",
    "conv": "a convolution needs its last K - 1 inputs; transformers keeps K columns",
    "compressor": "DeepSeek-V4's buffers of an unfinished group and the overlap of two groups are not counted by llmcalc",
    "position": "counters of the tokens seen are bookkeeping, no cache",
    "encoder output": "decoders that cross-attend keep the source's keys and values; llmcalc counts a source of full length",
}

SMALL: dict[str, Any] = {
    "vocab_size": 160,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
MLA = {
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 20,
    "num_key_value_heads": 4,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
DELTA = {
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 12,
    "linear_conv_kernel_dim": 4,
}
INDEX = {"index_head_dim": 16, "index_n_heads": 2, "index_topk": 4}


def config(model_type: str, *without: str, **keys: Any) -> dict[str, Any]:
    return {"model_type": model_type, **{k: v for k, v in SMALL.items() if k not in without}, **keys}


CASES: dict[str, dict[str, Any]] = {
    "llama": config("llama"),
    "llama, one KV head, biases, tied": config(
        "llama", num_key_value_heads=1, attention_bias=True, mlp_bias=True, tie_word_embeddings=True
    ),
    "llama, head_dim from hidden_size": config("llama", "head_dim"),
    "qwen2": config("qwen2", "head_dim"),
    "qwen2, window on the upper layers": config(
        "qwen2", "head_dim", use_sliding_window=True, sliding_window=WINDOW, max_window_layers=2
    ),
    "qwen3": config("qwen3"),
    "qwen3_moe": config("qwen3_moe", **EXPERTS, decoder_sparse_step=2, mlp_only_layers=[1]),
    "mistral, windowed": config("mistral", sliding_window=WINDOW),
    "mistral, window null": config("mistral", sliding_window=None),
    "mixtral": config("mixtral", num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW),
    "gemma": config("gemma", num_key_value_heads=1),
    "gemma2": config("gemma2", sliding_window=WINDOW),
    "gemma3_text": config("gemma3_text", num_hidden_layers=7, sliding_window=WINDOW),
    "gemma3n_text": config(
        "gemma3n_text",
        num_hidden_layers=10,
        num_kv_shared_layers=4,
        sliding_window=WINDOW,
        hidden_size_per_layer_input=16,
        vocab_size_per_layer_input=160,
        laurel_rank=8,
        intermediate_size=[96] * 10,
        activation_sparsity_pattern=[0.0] * 10,
    ),
    "gemma4_text, shared KV and a wider MLP": config(
        "gemma4_text",
        num_hidden_layers=12,
        num_kv_shared_layers=6,
        sliding_window=WINDOW,
        global_head_dim=24,
        hidden_size_per_layer_input=16,
        vocab_size_per_layer_input=160,
        use_double_wide_mlp=True,
    ),
    "gemma4_text, experts and K = V": config(
        "gemma4_text",
        num_hidden_layers=6,
        num_kv_shared_layers=0,
        sliding_window=WINDOW,
        global_head_dim=24,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        hidden_size_per_layer_input=0,
        enable_moe_block=True,
        num_experts=6,
        top_k_experts=2,
        moe_intermediate_size=40,
    ),
    "gpt_oss": config("gpt_oss", num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW),
    "llama4_text, chunked": config(
        "llama4_text",
        num_local_experts=4,
        num_experts_per_tok=1,
        intermediate_size_mlp=128,
        interleave_moe_layer_step=2,
        attention_chunk_size=WINDOW,
    ),
    "phi3, windowed": config("phi3", "head_dim", sliding_window=WINDOW, pad_token_id=0),
    "phimoe": config("phimoe", "head_dim", num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW, attention_bias=True),
    "olmo2": config("olmo2", "head_dim"),
    "olmo3": config("olmo3", "head_dim", sliding_window=WINDOW),
    "cohere2": config("cohere2", sliding_window=WINDOW),
    "exaone4": config("exaone4", sliding_window=WINDOW),
    "glm4_moe": config(
        "glm4_moe",
        n_routed_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        n_shared_experts=1,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
        use_qk_norm=True,
        attention_bias=True,
    ),
    "deepseek_v2": config("deepseek_v2", "head_dim", **MLA),
    "deepseek_v2, no query rank": config("deepseek_v2", "head_dim", **(MLA | {"q_lora_rank": None})),
    "deepseek_v3": config("deepseek_v3", "head_dim", **MLA),
    "deepseek_v32": config("deepseek_v32", "head_dim", **MLA, **INDEX),
    "glm_moe_dsa": config("glm_moe_dsa", "head_dim", **MLA, **INDEX),
    "glm_moe_dsa, shared indexers": config(
        "glm_moe_dsa", "head_dim", **MLA, **INDEX, indexer_types=["full", "shared", "full", "shared"]
    ),
    "glm4_moe_lite": config("glm4_moe_lite", "head_dim", **MLA),
    "longcat_flash": config(
        "longcat_flash",
        "head_dim",
        "num_hidden_layers",
        "intermediate_size",
        num_layers=2,
        ffn_hidden_size=96,
        expert_ffn_hidden_size=40,
        moe_topk=2,
        n_routed_experts=4,
        zero_expert_num=2,
        **{k: MLA[k] for k in ("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")},
    ),
    "deepseek_v4": config(
        "deepseek_v4",
        "intermediate_size",
        num_hidden_layers=5,
        num_key_value_heads=1,
        moe_intermediate_size=40,
        n_routed_experts=4,
        num_experts_per_tok=2,
        q_lora_rank=24,
        o_groups=2,
        o_lora_rank=12,
        index_n_heads=2,
        index_head_dim=8,
        index_topk=2,
        sliding_window=WINDOW,
        hc_mult=2,
        num_hash_layers=2,
        qk_rope_head_dim=8,
        compress_ratios=[0, 128, 4, 128, 4, 0],
    ),
    "minimax": config("minimax", num_local_experts=4, num_experts_per_tok=2, block_size=16),
    "minimax_m2": config("minimax_m2", num_local_experts=4, num_experts_per_tok=2, rotary_dim=8),
    "qwen3_next": config("qwen3_next", **EXPERTS, **DELTA, shared_expert_intermediate_size=48),
    "qwen3_5_text": config("qwen3_5_text", **DELTA),
    "qwen3_5_moe_text": config("qwen3_5_moe_text", "intermediate_size", **EXPERTS, **DELTA, shared_expert_intermediate_size=48),
    "olmo_hybrid": config("olmo_hybrid", "head_dim", **DELTA, pad_token_id=0),
    "kimi_linear": config(
        "kimi_linear",
        "head_dim",
        **{k: v for k, v in MLA.items() if k not in ("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "n_group", "topk_group")},
        num_experts=8,
        num_experts_per_token=2,
        num_shared_experts=1,
        num_expert_group=1,
        topk_group=1,
        pad_token_id=0,
        linear_attn_config={
            "full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4,
        },
    ),
    "mamba": {"model_type": "mamba", "vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "expand": 2},
    "falcon_mamba": {
        "model_type": "falcon_mamba", "vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "expand": 2,
    },
    "mamba2": {
        "model_type": "mamba2", "vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "expand": 2,
        "head_dim": 16, "num_heads": 8, "n_groups": 2, "chunk_size": 4,
    },
    "jamba": config(
        "jamba",
        "head_dim",
        num_hidden_layers=4,
        attn_layer_period=4,
        attn_layer_offset=2,
        expert_layer_period=2,
        expert_layer_offset=1,
        num_experts=4,
        num_experts_per_tok=2,
        mamba_d_state=8,
        mamba_expand=2,
        use_mamba_kernels=False,
    ),
    "bamba": config(
        "bamba", "head_dim", attn_layer_indices=[2], mamba_n_heads=8, mamba_d_head="auto", mamba_n_groups=2, mamba_d_state=8,
        mamba_expand=2, mamba_chunk_size=4,
    ),
    "falcon_h1": config(
        "falcon_h1", mamba_d_ssm=64, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=4,
        num_hidden_layers=2,
    ),
    "granitemoehybrid": config(
        "granitemoehybrid",
        "head_dim",
        layer_types=["mamba", "mamba", "attention", "mamba"],
        num_local_experts=4,
        num_experts_per_tok=2,
        shared_intermediate_size=48,
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=2,
        mamba_d_state=8,
        mamba_expand=2,
        mamba_chunk_size=4,
    ),
    "nemotron_h": config(
        "nemotron_h",
        "num_hidden_layers",
        hybrid_override_pattern="M*-ME",
        mamba_num_heads=8,
        mamba_head_dim=16,
        n_groups=2,
        ssm_state_size=8,
        conv_kernel=4,
        chunk_size=4,
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        moe_shared_expert_intermediate_size=48,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
    ),
    "zamba2": config(
        "zamba2",
        "head_dim",
        num_hidden_layers=4,
        layers_block_type=["mamba", "hybrid", "mamba", "hybrid"],
        num_key_value_heads=4,
        mamba_d_state=8,
        mamba_ngroups=2,
        n_mamba_heads=8,
        mamba_expand=2,
        num_mem_blocks=1,
        chunk_size=4,
        adapter_rank=8,
        use_mem_rope=False,
    ),
    "recurrent_gemma": config(
        "recurrent_gemma",
        "head_dim",
        num_hidden_layers=3,
        num_key_value_heads=1,
        lru_width=64,
        attention_window_size=WINDOW,
        conv1d_width=4,
        block_types=["recurrent", "recurrent", "attention"],
    ),
    "lfm2": config("lfm2", "head_dim", full_attn_idxs=[2], block_auto_adjust_ff_dim=False, conv_L_cache=3),
    "zaya": config("zaya", "intermediate_size"),
    "gpt2": {"model_type": "gpt2", "vocab_size": 160, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neox": config("gpt_neox", "head_dim", "num_key_value_heads"),
    "falcon, multi-query": {
        "model_type": "falcon", "vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False,
    },
    "opt": {
        "model_type": "opt", "vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 96,
        "word_embed_proj_dim": 32, "max_position_embeddings": 64,
    },
    "mllama_text_model": config(
        "mllama_text_model", "head_dim", num_hidden_layers=4, cross_attention_layers=[1], pad_token_id=0,
    ),
    "t5": {
        "model_type": "t5", "vocab_size": 160, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4,
        "num_decoder_layers": 3, "decoder_start_token_id": 0,
    },
    "whisper": {
        "model_type": "whisper", "vocab_size": 160, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96,
        "max_source_positions": 16, "max_target_positions": 64, "num_mel_bins": 8, "decoder_start_token_id": 1, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2, "suppress_tokens": None, "begin_suppress_tokens": None,
    },
}
