"""The reference implementation itself: a small model of each family is built with transformers and generates a few tokens,
and both its parameters and every tensor of its cache must be what llmcalc says.

Needs the extra `oracle`. What transformers keeps differently from an ideal engine stands in DIFFERENCES, with the reason.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from llmcalc import model as reader
from llmcalc.architecture import Model, grouped
from llmcalc.errors import ConfigError
from llmcalc.estimate import memory

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
torch = pytest.importorskip("torch", reason="the extra `oracle` (torch) is not installed")
transformers = pytest.importorskip("transformers", reason="the extra `oracle` (transformers) is not installed")
VERSION = "5.24.0"

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        transformers.__version__ != VERSION,
        reason=f"the oracle is transformers {VERSION}, not {transformers.__version__}: cache classes differ between releases",
    ),
]

WINDOW = 8
PROMPT = {7: 3, 21: 17}
"""Context in the end: tokens of the prompt. One lies inside the window, the other beyond; the rest is generated."""

DIFFERENCES = {
    "window": "a sliding or chunked layer drops the oldest token before it adds the next: W - 1 are left, an engine keeps W",
    "conv": "a convolution needs its last K - 1 inputs; K columns are kept (by all but the types in LAST_INPUTS_ONLY)",
    "twice": "DeepSeek-V4 has one vector for key and value, and on layers without compression it is kept as both",
    "unfinished": "DeepSeek-V4 keeps the tokens of the unfinished group and the overlap of the last two; llmcalc counts neither",
    "broadcast": "Falcon's grouped attention repeats keys and values for every query head before it caches them",
    "local": "GPT-Neo's local layers keep the whole context, as no key tells the cache of their window",
    "source": "T5 and BART read a source of any length, which no key bounds: its keys and values are not counted by llmcalc",
    "rounded": "xLSTM computes its state in fp32 (inference_state_dtype) and it is stored in the dtype of the model",
    "counter": "numbers of tokens seen, for positions, and the ids of the last tokens: no cache",
    "pooled": "indexers that score blocks of tokens keep the keys of all tokens; one per whole block is needed",
    "promoted": "Dots' norm returns its index keys in fp32 and they stay so; they carry no more than the model's dtype",
    "skipping": "Qwen4's n-gram convolution skips tokens; of it exactly the columns are kept that it needs",
}
"""What transformers holds differently from an engine that keeps exactly what is needed; `engine_bytes` applies each."""
NO_SOURCE_LENGTH = {"t5", "bart"}
LAST_INPUTS_ONLY = {"recurrent_gemma", "zaya"}
IN_FP32 = {"inkling2_text"}  # its class mixes dtypes otherwise
COUNTERS = {"_sliding_window_tensor", "cumulative_length", "cumulative_length_int", "indexer_position_ids"}

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
PLAIN_MLP = (
    "n_routed_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "n_shared_experts",
    "first_k_dense_replace",
    "n_group",
    "topk_group",
)
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
    "qwen2, window on the upper layers": config("qwen2", "head_dim", use_sliding_window=True, sliding_window=WINDOW, max_window_layers=2),
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
    "glm_moe_dsa, shared indexers": config("glm_moe_dsa", "head_dim", **MLA, **INDEX, indexer_types=["full", "shared", "full", "shared"]),
    "glm4_moe_lite": config("glm4_moe_lite", "head_dim", **MLA),
    "longcat_flash": config(
        "longcat_flash",
        "head_dim",
        "num_hidden_layers",
        "intermediate_size",
        "num_key_value_heads",
        num_layers=2,
        ffn_hidden_size=96,
        expert_ffn_hidden_size=40,
        moe_topk=2,
        n_routed_experts=4,
        zero_expert_num=2,
        head_dim=8,
        num_key_value_heads=4,
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
        **{
            k: v
            for k, v in MLA.items()
            if k not in ("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "n_group", "topk_group")
        },
        num_experts=8,
        num_experts_per_token=2,
        num_shared_experts=1,
        num_expert_group=1,
        topk_group=1,
        pad_token_id=0,
        linear_attn_config={
            "full_attn_layers": [4],
            "kda_layers": [1, 2, 3],
            "num_heads": 4,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
        },
    ),
    "mamba": {"model_type": "mamba", "vocab_size": 160, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8, "expand": 2},
    "falcon_mamba": {
        "model_type": "falcon_mamba",
        "vocab_size": 160,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "state_size": 8,
        "expand": 2,
    },
    "mamba2": {
        "model_type": "mamba2",
        "vocab_size": 160,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "state_size": 8,
        "expand": 2,
        "head_dim": 16,
        "num_heads": 8,
        "n_groups": 2,
        "chunk_size": 4,
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
        "bamba",
        "head_dim",
        attn_layer_indices=[2],
        mamba_n_heads=8,
        mamba_d_head="auto",
        mamba_n_groups=2,
        mamba_d_state=8,
        mamba_expand=2,
        mamba_chunk_size=4,
    ),
    "falcon_h1": config(
        "falcon_h1",
        mamba_d_ssm=64,
        mamba_n_heads=8,
        mamba_d_head=8,
        mamba_n_groups=2,
        mamba_d_state=8,
        mamba_chunk_size=4,
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
    "zaya": config("zaya", "intermediate_size", num_experts=4, moe_intermediate_size=40, router_hidden_size=24),
    "gpt2": {"model_type": "gpt2", "vocab_size": 160, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neox": config("gpt_neox", "head_dim", "num_key_value_heads"),
    "falcon, multi-query": {
        "model_type": "falcon",
        "vocab_size": 160,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "multi_query": True,
        "parallel_attn": True,
        "new_decoder_architecture": False,
    },
    "opt": {
        "model_type": "opt",
        "vocab_size": 160,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "ffn_dim": 96,
        "word_embed_proj_dim": 32,
        "max_position_embeddings": 64,
    },
    "falcon, grouped": {
        "model_type": "falcon",
        "vocab_size": 160,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "new_decoder_architecture": True,
        "num_kv_heads": 2,
    },
    "gpt_neo": {
        "model_type": "gpt_neo",
        "vocab_size": 160,
        "hidden_size": 64,
        "num_layers": 4,
        "num_heads": 4,
        "window_size": WINDOW,
        "attention_types": [[["global", "local"], 2]],
        "max_position_embeddings": 64,
    },
    "bloom": {"model_type": "bloom", "vocab_size": 160, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    "jetmoe": config(
        "jetmoe",
        "head_dim",
        "num_attention_heads",
        "num_key_value_heads",
        kv_channels=16,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
    ),
    "minimax_m3_vl_text": config(
        "minimax_m3_vl_text",
        num_local_experts=4,
        num_experts_per_tok=2,
        dense_intermediate_size=96,
        shared_intermediate_size=48,
        n_shared_experts=1,
        index_n_heads=2,
        index_head_dim=16,
        index_block_size=4,
        index_topk_blocks=2,
        index_local_blocks=1,
        rotary_dim=8,
        layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "minimax_m3_sparse"],
        mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
    ),
    "mimo_v2_flash": config(
        "mimo_v2_flash",
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        n_group=1,
        topk_group=1,
        v_head_dim=12,
        sliding_window=WINDOW,
        layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
    ),
    "bailing_hybrid": config(
        "bailing_hybrid",
        **{
            k: v
            for k, v in MLA.items()
            if k not in ("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "n_group", "topk_group")
        },
        num_experts=8,
        num_experts_per_token=2,
        num_shared_experts=1,
        num_expert_group=1,
        topk_group=1,
        layer_group_size=4,
        pad_token_id=0,
        short_conv_kernel_size=4,
    ),
    "rwkv": {
        "model_type": "rwkv",
        "vocab_size": 160,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "attention_hidden_size": 64,
        "intermediate_size": 96,
        "context_length": 64,
    },
    "xlstm": {
        "model_type": "xlstm",
        "vocab_size": 160,
        "hidden_size": 128,
        "num_blocks": 2,
        "num_hidden_layers": 2,
        "num_heads": 2,
        "chunk_size": 4,
    },
    "granitemoe": config("granitemoe", "head_dim", num_local_experts=4, num_experts_per_tok=2),
    "olmoe": config("olmoe", "head_dim", num_experts=4, num_experts_per_tok=2, num_key_value_heads=4),
    "dbrx": {
        "model_type": "dbrx",
        "vocab_size": 160,
        "d_model": 64,
        "n_heads": 4,
        "n_layers": 2,
        "max_seq_len": 64,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000},
        "ffn_config": {"ffn_hidden_size": 40, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "glm4": config("glm4", attention_bias=True, pad_token_id=0),
    "starcoder2, windowed": config("starcoder2", "head_dim", sliding_window=WINDOW, use_bias=True),
    "vaultgemma": config("vaultgemma", sliding_window=WINDOW),
    "afmoe": config(
        "afmoe",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        num_shared_experts=1,
        num_dense_layers=1,
        sliding_window=WINDOW,
        global_attn_every_n_layers=4,
        n_group=1,
        topk_group=1,
    ),
    # Plain decoders: what differs is where biases, norms and gates are.
    **{
        name: config(name, "head_dim", pad_token_id=0, bos_token_id=1, eos_token_id=2)
        for name in """arcee apertus bitnet cohere diffllama doge ernie4_5 granite
        internlm3 jais2 nanochat nemotron olmo phi seed_oss smollm3 stablelm iquestcoder""".split()
    },
    **{
        name: config(name, "head_dim", rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]})
        for name in ("qwen2_vl_text", "qwen2_5_vl_text")
    },
    "qwen3_vl_text": config("qwen3_vl_text"),
    "qwen3_vl_moe_text": config("qwen3_vl_moe_text", **EXPERTS),
    "glm4v_text": config(
        "glm4v_text",
        "head_dim",
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2], "partial_rotary_factor": 0.5},
    ),
    **{name: config(name, "head_dim", "num_key_value_heads", pad_token_id=0) for name in ("persimmon",)},
    "gptj": {"model_type": "gptj", "vocab_size": 160, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 8},
    "ministral": config("ministral", sliding_window=WINDOW),
    "hunyuan_v1_dense": config("hunyuan_v1_dense", pad_token_id=0),
    "qwen2_moe": config("qwen2_moe", "head_dim", **EXPERTS, shared_expert_intermediate_size=48, pad_token_id=0),
    **{name: config(name, pad_token_id=0) for name in ("cwm", "glm", "helium")},
    "stablelm, parallel": config("stablelm", "head_dim", use_parallel_residual=True, qk_layernorm=True, use_qkv_bias=True),
    "cohere, head norms": config("cohere", "head_dim", use_qk_norm=True, attention_bias=True),
    "gpt_bigcode": {"model_type": "gpt_bigcode", "vocab_size": 160, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "mpt": {"model_type": "mpt", "vocab_size": 160, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    "codegen": {"model_type": "codegen", "vocab_size": 160, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 8},
    "xglm": {
        "model_type": "xglm",
        "vocab_size": 160,
        "d_model": 64,
        "num_layers": 2,
        "attention_heads": 4,
        "ffn_dim": 96,
        "max_position_embeddings": 64,
    },
    "youtu": config("youtu", "head_dim", **{k: v for k, v in MLA.items() if k not in PLAIN_MLP}),
    "minicpm3": config("minicpm3", "head_dim", **{k: v for k, v in MLA.items() if k not in PLAIN_MLP}),
    **{
        name: config(
            name,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=40,
            n_shared_experts=1,
            n_group=1,
            topk_group=1,
            **({} if name == "solar_open" else {"first_k_dense_replace": 1}),
            rope_parameters={"rope_type": "default", "rope_theta": 1e4}
            | ({"mrope_section": [1, 1, 2]} if name == "glm4v_moe_text" else {}),
        )
        for name in ("dots1", "solar_open", "glm4v_moe_text")
    },
    "hy_v3": config("hy_v3", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=40, num_shared_experts=1, first_k_dense_replace=1),
    "ernie4_5_moe": config(
        "ernie4_5_moe",
        "head_dim",
        moe_num_experts=4,
        moe_k=2,
        moe_intermediate_size=40,
        moe_num_shared_experts=1,
        moe_layer_start_index=1,
    ),
    "lfm2_moe": config(
        "lfm2_moe",
        "head_dim",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        num_dense_layers=1,
        layer_types=["conv", "conv", "full_attention", "conv"],
    ),
    "hunyuan_v1_moe": config("hunyuan_v1_moe", num_experts=4, moe_topk=2, pad_token_id=0),
    "exaone_moe": config(
        "exaone_moe",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        num_shared_experts=1,
        sliding_window=WINDOW,
        first_k_dense_replace=1,
        n_group=1,
        topk_group=1,
    ),
    "flex_olmo": config("flex_olmo", "head_dim", num_experts=4, num_experts_per_tok=2, pad_token_id=0, eos_token_id=2),
    "granite_swa": config("granite_swa", "head_dim", sliding_window=WINDOW),
    "granitemoe_swa": config("granitemoe_swa", "head_dim", num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW),
    "granitemoeshared": config("granitemoeshared", "head_dim", num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=48),
    "cohere2_moe": config(
        "cohere2_moe",
        num_experts=4,
        num_experts_per_tok=2,
        num_shared_experts=1,
        sliding_window=WINDOW,
    ),
    "zamba": config(
        "zamba",
        "head_dim",
        num_key_value_heads=4,
        mamba_d_state=8,
        mamba_expand=2,
        n_mamba_heads=2,
        mamba_dt_rank=4,
        layers_block_type=["mamba", "mamba", "hybrid", "mamba", "mamba", "hybrid"],
        num_hidden_layers=6,
        use_mamba_kernels=False,
    ),
    "bart": {
        "model_type": "bart",
        "vocab_size": 160,
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 96,
        "decoder_ffn_dim": 96,
        "max_position_embeddings": 64,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    },
    "hyperclovax": config("hyperclovax"),
    "hyperclovax, no norms behind": config("hyperclovax", use_post_norm=False, attention_bias=True, mlp_bias=True),
    "muse_glimmer_text": config("muse_glimmer_text", sliding_window=WINDOW, num_hidden_layers=5),
    "molmo2_text": config("molmo2_text", additional_vocab_size=6),
    "molmo2_text, norms over all heads": config("molmo2_text", additional_vocab_size=6, qk_norm_type="olmo", attention_bias=True),
    "apertus1p5_text, fewer outputs": config("apertus1p5_text", "head_dim", output_vocab_size=100, pad_token_id=0),
    "cohere_compass_text": config(
        "cohere_compass_text",
        "head_dim",
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")},
    ),
    "cosmos3_edge_text": config(
        "cosmos3_edge_text", rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2]}
    ),
    "granite_docling_text": config("granite_docling_text", "head_dim", pad_token_id=0),
    "hunyuan_vl_text": config(
        "hunyuan_vl_text", pad_token_id=0, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    ),
    "glm_ocr_text": config("glm_ocr_text", rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}),
    "kolibri1": config("kolibri1", **EXPERTS, shared_expert_intermediate_size=48, sliding_window=WINDOW, num_hidden_layers=6),
    "flint": config("flint", **EXPERTS, shared_expert_intermediate_size=48, sliding_window=WINDOW, num_hidden_layers=6),
    "beam": config("beam", **EXPERTS, n_group=1, topk_group=1, sliding_window=WINDOW, num_hidden_layers=8),
    "lara_mini": config("lara_mini", "intermediate_size", **EXPERTS, **DELTA, shared_expert_intermediate_size=48, sliding_window=WINDOW),
    "muse_spark_text": config(
        "muse_spark_text",
        num_local_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        moe_hidden_size=24,
        sliding_window=WINDOW,
        mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
    ),
    "inkling_text": config(
        "inkling_text",
        num_hidden_layers=7,
        swa_num_attention_heads=4,
        swa_num_key_value_heads=4,
        swa_head_dim=12,
        sliding_window_size=WINDOW,
        d_rel=4,
        rel_extent=16,
        n_routed_experts=6,
        n_shared_experts=2,
        num_experts_per_tok=2,
        dense_mlp_idx=1,
        dense_intermediate_size=72,
        intermediate_size=40,
    ),
    "inkling2_text": config(
        "inkling2_text",
        "intermediate_size",
        num_hidden_layers=7,
        swa_num_attention_heads=4,
        swa_num_key_value_heads=4,
        swa_head_dim=12,
        sliding_window_size=WINDOW,
        d_rel=4,
        rel_extent=16,
        n_routed_experts=6,
        num_experts_per_tok=2,
        moe_intermediate_size=40,
        n_layers_per_attn_res_block=2,
        unpadded_vocab_size=150,
        eos_token_id=1,
    ),
    "dots3_note_text": config(
        "dots3_note_text",
        "head_dim",
        **(MLA | {"n_shared_experts": 2, "qk_rope_head_dim": 8}),
        **INDEX,
        num_hidden_layers=6,
        sliding_window=WINDOW,
        moe_shared_expert_intermediate_size=48,
        swa_num_attention_heads=2,
        swa_num_key_value_heads=2,
        swa_q_lora_rank=20,
        swa_kv_lora_rank=28,
        swa_head_dim=24,
        swa_qk_nope_head_dim=18,
        swa_v_head_dim=10,
        pad_token_id=0,
    ),
    "glm5_next_text": config(
        "glm5_next_text",
        "head_dim",
        **{k: v for k, v in MLA.items() if k not in ("first_k_dense_replace", "qk_rope_head_dim")},
        **INDEX,
        num_hidden_layers=9,
        qk_rope_head_dim=0,
        mlp_layer_types=["dense"] + ["sparse"] * 8,
        index_kpool=4,
        hc_mult=2,
        linear_attn_config={"num_heads": 3, "head_dim": 12, "short_conv_kernel_size": 3},
        pad_token_id=0,
    ),
    "mistral_large4_text": config(
        "mistral_large4_text",
        "head_dim",
        **{k: v for k, v in MLA.items() if k != "q_lora_rank"},
        **INDEX,
        num_hidden_layers=6,
        kv_source_layers=[0, 1, 1, 3, 1, 5],
        indexer_types=["full", "full", "shared", "full", "full", "shared"],
    ),
    "hy_v4_vl_text": config(
        "hy_v4_vl_text",
        "head_dim",
        **{k: v for k, v in MLA.items() if k != "first_k_dense_replace"},
        **INDEX,
        hc_mult=2,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
        pad_token_id=0,
    ),
    "qwen4_exp_text": config(
        "qwen4_exp_text",
        "intermediate_size",
        **EXPERTS,
        **DELTA,
        shared_expert_intermediate_size=48,
        eos_token_id=1,
        hc_count=2,
        hc_lowrank=6,
        ple_layer_ids=[1, 3],
        ple_embed_dim=32,
        ple_conv_kernel_size=3,
        heads_per_ngram=2,
        ngram_vocab_size_base=50,
        make_ngram_vocab_size_divisible_by=16,
        indexer_n_heads=2,
        indexer_kv_heads=1,
        indexer_head_dim=16,
        indexer_budget=8,
        indexer_compress_ratio=4,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
    ),
    "mllama_text_model": config(
        "mllama_text_model",
        "head_dim",
        num_hidden_layers=4,
        cross_attention_layers=[1],
        pad_token_id=0,
    ),
    "t5": {
        "model_type": "t5",
        "vocab_size": 160,
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 96,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    },
    "whisper": {
        "model_type": "whisper",
        "vocab_size": 160,
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 96,
        "decoder_ffn_dim": 96,
        "max_source_positions": 16,
        "max_target_positions": 64,
        "num_mel_bins": 8,
        "decoder_start_token_id": 1,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    },
}


# ---- the reference


@cache
def built(name: str) -> Any:
    """The real module, in bf16 (nearly always) with random weights."""
    raw = CASES[name]
    settings = transformers.CONFIG_MAPPING[raw["model_type"]].from_dict(copy.deepcopy(raw))
    settings._attn_implementation = "eager"
    module = class_of(type(settings))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return module(settings).to(torch.float32 if name in IN_FP32 else torch.bfloat16).eval()


def class_of(settings: type) -> Any:
    """The class with a language-model head, where there is one."""
    from transformers.models.auto import modeling_auto as auto

    if settings.__name__ == "MllamaTextConfig":
        return transformers.MllamaForCausalLM
    for mapping in (auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, auto.MODEL_FOR_CAUSAL_LM_MAPPING):
        if settings in mapping:
            return mapping[settings]
    return auto.MODEL_MAPPING[settings]  # a part of a multimodal model: it has no head of its own


@cache
def ours(name: str) -> Model:
    return reader.read(copy.deepcopy(CASES[name]), id=name)


SOURCE = 9  # tokens that an encoder reads here


def generated(name: str, ctx: int) -> Any:
    """The cache after a prompt and enough generated tokens to hold `ctx` of them."""
    model, kind, prompt = built(name), CASES[name]["model_type"], PROMPT[ctx]
    ids = torch.randint(3, 120, (1, prompt))
    given: dict[str, Any] = {"input_ids": ids}
    if kind in NO_SOURCE_LENGTH:
        given = {"input_ids": torch.randint(3, 120, (1, SOURCE)), "decoder_input_ids": ids}
        given["decoder_input_ids"][0, 0] = CASES[name]["decoder_start_token_id"]
    elif kind == "whisper":
        frames = torch.randn(1, CASES[name]["num_mel_bins"], 2 * CASES[name]["max_source_positions"], dtype=torch.bfloat16)
        given = {"input_features": frames, "decoder_input_ids": ids}
    new = ctx - prompt + 1  # the last one is never fed back
    if not model.can_generate():
        kept = None
        with torch.no_grad():
            for part in (ids, *torch.randint(3, 120, (ctx - prompt, 1, 1))):
                kept = model(part, past_key_values=kept, use_cache=True).past_key_values
        return kept
    said = model.generate(
        **given, max_new_tokens=new, min_new_tokens=new, do_sample=False, use_cache=True, return_dict_in_generate=True, pad_token_id=0
    )
    return said.cache


def tensors(holder: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every tensor that an object of transformers holds, with the name of the attribute."""
    if torch.is_tensor(holder):
        yield name, holder
    elif isinstance(holder, dict):
        for key, value in holder.items():
            yield from tensors(value, f"{name}.{key}".strip("."))
    elif isinstance(holder, list | tuple):
        for value in holder:
            yield from tensors(value, name)
    elif type(holder).__module__.startswith("transformers") and not isinstance(holder, transformers.PreTrainedConfig):
        for key, value in vars(holder).items():
            yield from tensors(value, f"{name}.{key}".strip("."))


def layers_of(kept: Any, model: Any) -> list[list[Any]]:
    """What is kept, by layer of the cache."""
    if type(model).__name__ == "RecurrentGemmaForCausalLM":  # its states lie in the modules
        blocks = [layer.temporal_block for layer in model.model.layers]
        states = [
            {"conv_states": block.conv1d_state, "recurrent_states": block.rg_lru.recurrent_states} if hasattr(block, "rg_lru") else {}
            for block in blocks
        ]
        return [[layer, state] for layer, state in zip(kept.layers, states, strict=True)]
    if isinstance(kept, transformers.EncoderDecoderCache):
        pairs = zip(kept.self_attention_cache.layers, kept.cross_attention_cache.layers, strict=True)
        return [list(pair) for pair in pairs]
    if hasattr(kept, "linear_cache"):
        linear = kept.linear_cache + [[]] * (len(kept.layers) - len(kept.linear_cache))
        attending = list(kept.layers) + [[]] * (len(linear) - len(kept.layers))
        return [[layer, {"linear_cache": state}] for layer, state in zip(attending, linear, strict=True)]
    if hasattr(kept, "rnn_state"):
        return [[{"rnn_state": kept.rnn_state[layer]}] for layer in sorted(kept.rnn_state)]
    if isinstance(kept, list):  # RWKV: five tensors, the layers in their last dimension
        return [[{"state": [tensor[..., layer] for tensor in kept]}] for layer in range(kept[0].shape[-1])]
    return [[layer] for layer in kept.layers]


def engine_bytes(name: str, index: int, holders: list[Any], ctx: int) -> int:
    """What an engine would keep of one layer of the reference's cache: its tensors, less or plus the DIFFERENCES."""
    total = 0
    for position, holder in enumerate(holders):
        for attribute, tensor in tensors(holder):
            total += kept_bytes(name, index, holder, attribute.split(".")[0], tensor, ctx, crossing=position == 1)
    return total


def kept_bytes(name: str, index: int, holder: Any, attribute: str, tensor: Any, ctx: int, crossing: bool) -> int:
    raw, size = CASES[name], tensor.numel() * tensor.element_size()
    if not size or attribute in COUNTERS:
        return 0  # "counter"
    if attribute == "rnn_state":
        assert CASES[name].get("inference_state_dtype", "float32") == "float32" and tensor.dtype == torch.bfloat16
        return size * 2  # "rounded"
    pool = raw.get("index_kpool") or raw.get("indexer_compress_ratio")
    if attribute == "indexer_keys" and pool:
        width = raw.get("index_head_dim") or raw["indexer_head_dim"]
        assert tensor.shape[-2] == ctx and tensor.shape[-1] in (width, 2 * width + 1)  # GLM: with a weight per element and a mask
        return ctx // pool * width * tensor.element_size()  # "pooled"
    if raw["model_type"] == "dots3_note_text" and attribute == "indexer_keys":
        assert tensor.dtype == torch.float32
        return size // 2  # "promoted"
    if attribute in ("indexer_keys", "idx_keys", "recurrent_states", "linear_cache", "state", "compressed_kv"):
        return size
    if attribute in ("buffer_kv", "buffer_gate", "overlap_kv", "overlap_gate"):
        return 0  # "unfinished"
    if attribute == "conv_states":
        if raw["model_type"] == "qwen4_exp_text" and tensor.shape[1] == raw["hc_count"] * raw["hidden_size"]:
            assert tensor.shape[-1] == (raw["ple_conv_kernel_size"] - 1) * 3
            return size  # "skipping"
        if tensor.dtype == torch.int64:
            return 0  # "counter"
        columns = tensor.shape[-1]
        return size if raw["model_type"] in LAST_INPUTS_ONLY else size // columns * (columns - 1)  # "conv"
    assert attribute in ("keys", "values"), f"transformers keeps {attribute} too: is it cache?"
    held = tensor.shape[-2]
    if crossing:
        assert held == (SOURCE if raw["model_type"] in NO_SOURCE_LENGTH else raw["max_source_positions"])
        return 0 if raw["model_type"] in NO_SOURCE_LENGTH else size  # "source"
    if raw["model_type"] == "deepseek_v4" and attribute == "values":
        assert torch.equal(tensor, holder.keys), "one vector is key and value"
        return 0  # "twice"
    window = getattr(holder, "sliding_window", None)
    if window and ctx >= window:
        assert held == window - 1
        return size // held * window  # "window"
    assert held == ctx
    if raw["model_type"] == "gpt_neo" and index % 2 and ctx > raw["window_size"]:
        return size // ctx * raw["window_size"]  # "local"
    if raw.get("new_decoder_architecture"):
        copies = raw["num_attention_heads"] // raw["num_kv_heads"]
        groups = tensor.unflatten(1, (raw["num_kv_heads"], copies))
        assert torch.equal(groups, groups[:, :, :1].expand_as(groups)), "the heads of a group hold the same"
        return size // copies  # "broadcast"
    return size


# ---- the tests


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_those_of_the_real_module(name: str) -> None:
    module = built(name)
    real = sum(parameter.numel() for parameter in module.parameters())
    if not module.can_generate():  # the whole model adds a head as large as the table of its text model
        real += CASES[name]["vocab_size"] * module.get_input_embeddings().weight.shape[1] * (not ours(name).stack.tied)
    assert memory.language_params(ours(name)) == real - weightless(name)


def weightless(name: str) -> int:
    """Rows that transformers allocates for experts that compute nothing: LongCat's "zero experts" return their input.

    The published checkpoints hold no weights for them, which is why the shared oracle's total for LongCat is too high.
    """
    raw = CASES[name]
    if raw["model_type"] != "longcat_flash":
        return 0
    shapes = {key: tuple(value.shape) for key, value in built(name).named_parameters() if key.endswith("experts.gate_up_proj")}
    inner = 2 * raw["expert_ffn_hidden_size"]
    everyone = raw["n_routed_experts"] + raw["zero_expert_num"]
    assert set(shapes.values()) == {(everyone, inner, raw["hidden_size"])}
    down = {tuple(v.shape) for k, v in built(name).named_parameters() if k.endswith("experts.down_proj")}
    assert down == {(raw["n_routed_experts"], raw["hidden_size"], raw["expert_ffn_hidden_size"])}, "the real ones only"
    return len(shapes) * raw["zero_expert_num"] * inner * raw["hidden_size"]


EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts")
USED_KEYS = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk")
MIXTURES = [name for name, raw in CASES.items() if any(key in raw for key in EXPERT_KEYS)]


@pytest.mark.parametrize("name", MIXTURES)
def test_active_parameters_are_those_that_a_token_meets(name: str) -> None:
    """Every expert tensor counts by the share of experts that is used; the input table counts only where it is the head.

    JetMoe chooses among experts in its attention as well, which the shared oracle does not know.
    """
    raw, model = CASES[name], built(name)
    experts = next(raw[key] for key in EXPERT_KEYS if key in raw)
    used = next((raw[key] for key in USED_KEYS if key in raw), 1)  # Zaya: one, by its class
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings()
    active = 0
    for key, parameter in model.named_parameters():
        if parameter is table and head is not None and head.weight is not table:
            continue
        if "ngram_embedding" in key:  # looked up, as the input table is
            continue
        if key.endswith(("experts.bias", "post_expert_norm.weight")) or "router" in key:  # of the output, not of an expert
            active += parameter.numel()
        elif re.search(r"(^|\.)(experts|input_linear|output_linear)(\.|$)", key) and "shared" not in key:
            if raw["model_type"] == "longcat_flash":
                active += parameter[0].numel() * used
            else:
                assert parameter.shape[0] == experts or re.search(r"experts\.\d+\.", key), key
                active += parameter.numel() * used // experts
        else:
            active += parameter.numel()
    assert memory.active_params(ours(name)) == active


@pytest.mark.parametrize("ctx", PROMPT)
@pytest.mark.parametrize("name", CASES)
def test_the_cache_of_every_layer_is_that_of_the_real_module(name: str, ctx: int) -> None:
    model, dtype = ours(name), "fp32" if name in IN_FP32 else "bf16"
    kept = layers_of(generated(name, ctx), built(name))
    real = [0] * len(model.stack.layers)
    each = max(1, len(kept) // len(real))  # LongCat: two caches per layer
    for index, holders in enumerate(kept):
        real[index // each] += engine_bytes(name, index, holders, ctx)
    alone = [replace(model, groups=grouped((layer,))) for layer in model.stack.layers]
    assert [memory.kv(layer, ctx, 1, dtype).results["kv_bytes_per_sequence"] for layer in alone] == real
    assert memory.kv(model, ctx, 1, dtype).results["kv_bytes_per_sequence"] == sum(real)


def test_an_image_adds_what_the_note_of_llama_3_2_vision_says() -> None:
    """Its cross-attention layers keep nothing until there is an image, which a tile of 1,601 tokens is."""
    name, tokens = "mllama_text_model", 1601
    seen = torch.randn(1, tokens, SMALL["hidden_size"], dtype=torch.bfloat16)
    with torch.no_grad():
        kept = built(name)(torch.randint(3, 120, (1, 4)), cross_attention_states=seen, use_cache=True).past_key_values
    (crossing,) = CASES[name]["cross_attention_layers"]
    elements = sum(tensor.numel() for attribute, tensor in tensors(kept.layers[crossing]) if attribute in ("keys", "values"))
    assert elements == tokens * 2 * 2 * 16
    assert f"{elements:,} elements" in ours(name).notes[0]


def test_pixtral_is_an_encoder() -> None:
    """It sees pixels, keeps no cache, and is refused: what the shared oracle says of its cache means nothing."""
    takes = inspect.signature(transformers.PixtralVisionModel.forward).parameters
    assert "pixel_values" in takes and not {"past_key_values", "use_cache", "input_ids"} & set(takes)
    with pytest.raises(ConfigError) as refused:
        reader.read({"model_type": "pixtral", **SMALL})
    assert refused.value.code == "no-kv-cache"


@pytest.mark.parametrize("keys", [{}, {
    "hidden_size": 64, "conf_num_attention_heads": 4, "conf_num_hidden_layers": 3, "conf_conv_kernel_size": 7, "input_feat_size": 80,
    "sscp_conv_channel_size": (16, 8), "sscp_conv_kernel_size": ((3, 3), (3, 5)), "sscp_conv_stride_size": ((2, 2), (1, 3)),
}])  # fmt: skip
def test_the_ears_of_gemma_3n_are_those_of_the_real_module(keys: dict[str, Any]) -> None:
    from transformers.models.gemma3n import modeling_gemma3n as real

    from llmcalc.config import Config
    from llmcalc.towers import audio

    settings = transformers.Gemma3nAudioConfig(**keys)
    with torch.device("meta"):
        module = real.Gemma3nAudioEncoder(settings)
    ours = audio.gemma3n(Config(json.loads(settings.to_json_string()), "gemma3n_audio")).weights
    assert sum(weight.params for weight in ours) == sum(parameter.numel() for parameter in module.parameters())


def test_the_eyes_of_gemma_3n_are_those_of_timm() -> None:
    """No transformers class holds them; the wrapper asks timm for mobilenetv5_300m_enc."""
    from llmcalc.towers import MOBILENET_V5

    timm = pytest.importorskip("timm", reason="timm is not installed")
    with torch.device("meta"):
        module = timm.create_model("mobilenetv5_300m_enc")
    assert sum(parameter.numel() for parameter in module.parameters()) == MOBILENET_V5
