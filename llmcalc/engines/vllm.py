"""vLLM, newest release first."""

from __future__ import annotations

from dataclasses import replace

from llmcalc.engines.row import GIB, Engine, Large, Start

LARGE = Large(70 * GIB, never=("a100",))
"""usage_context's defaults: from 70 GiB on, but never on an A100. [vllm-project/vllm engine/arg_utils.py]"""
GRAPHS = (0.25 * GIB, 0.009 * GIB)
"""CUDA graphs: of any number, and of each captured batch size. [vLLM's start-up logs from 0.21 on]"""

_VLLM = Engine(
    name="vllm@0.8", since=(0, 8), kind="server", split="tensor", tensor=True, vendors=("NVIDIA", "AMD", "Intel", "Huawei", "Google"),
    start=Start(
        "vllm serve {model} --max-model-len {ctx} --gpu-memory-utilization {share}",
        (
            ("--max-num-seqs", "seqs"), ("--quantization", "made"), ("--dtype", "dtype"),
                ("--max-num-batched-tokens", "step"), ("--tensor-parallel-size", "tp"), ("--pipeline-parallel-size", "pp"),
            ("--data-parallel-size", "dp"), ("--enable-expert-parallel", "experts"), ("--kv-cache-dtype", "kv"),
            ("--enable-prefix-caching", "prefix"), ("--speculative-config", "drafts"),
            ("--enable-lora", "lora"), ("--max-lora-rank", "lora_rank"),
            ("--max-loras", "loras"), ("--cpu-offload-gb", "offload_gb"),
        ),
        caches=(("fp8", "fp8"), ("nvfp4", "nvfp4")),
        online=("fp8",),
    ),
    log=(
        "Available KV cache memory: {gib:.2f} GiB", "GPU KV cache size: {tokens:,} tokens",
        "Maximum concurrency for {ctx:,} tokens per request: {concurrency:.2f}x",
    ),
    pool=True, utilization=0.9, block_tokens=16, windows="step", grouped=True, packed=True, batched=(2048, 8192),
    sequences=(256, 1024), large=LARGE, logit_bytes=38, other_bytes=(0.13 * GIB, 0.45 * GIB, 0.75 * GIB), log_groups=True,
    wide_buffers=True, image_tokens=16384, expert_tiles=(128, 256), plain_states=True,
    # Configs that state mamba_ssm_dtype or mamba_ssm_cache_dtype. [model_executor/models/config.py]
    float32_states=frozenset({"qwen3_5", "qwen3_5_moe"}),
    source="vLLM 0.8 to 0.11 (V1): start-up logs and llm-d planner's empirical-vllm-memory-results.md",
)  # fmt: skip
_V0 = replace(
    _VLLM,
    name="vllm@0.6", since=(0, 6), batched=(0, 0), longest_step=32768, sequences=(256, 256), windows="full", grouped=False,
    wide_buffers=False, image_tokens=0, prompts_first=True, other_bytes=(0.2 * GIB, 0.3 * GIB, 0.3 * GIB),
    source="vLLM 0.6 and 0.7 (V0), which reads contexts up to 32,768 tokens whole: vllm-project/vllm issue 10517",
)  # fmt: skip
_STATED = replace(
    _VLLM,
    name="vllm@0.12", since=(0, 12), float32_states=_VLLM.float32_states | {"nemotron_h"},
    source="vLLM 0.12 to 0.15: as 0.11, but Nemotron-H's states in float32, which were 16-bit (blocks of 672 tokens) in issue 24280",
)  # fmt: skip
_RECENT = replace(_STATED, logit_bytes=14, keeps_workspaces=True, state_blocks=2)
ROWS = (
    replace(
        _RECENT,
        name="vllm", since=(0, 21), utilization=0.92, graphs=GRAPHS, log_groups=False, other_bytes=(0.27 * GIB, 0.70 * GIB, 0.95 * GIB),
        source="vLLM 0.21 and after: v1/core/kv_cache_utils.py and v1/kv_cache_interface.py @001cabc; share and graphs by start-up logs",
    ),
    replace(
        _RECENT,
        name="vllm@0.16", since=(0, 16), other_bytes=(0.27 * GIB, 0.45 * GIB, 2.10 * GIB),
        source="vLLM 0.16 to 0.20: llm-d planner's vllm_memory_constants.json, 49 runs of 0.19 on H100",
    ),
    _STATED,
    _VLLM,
    _V0,
    replace(
        _V0,
        name="vllm@0.4", since=(0, 4), longest_step=0, other_bytes=(0.55 * GIB, 0.85 * GIB, 0.85 * GIB),
        source="vLLM 0.2.5 to 0.5: any prompt whole; what the allocator keeps counts as used: worker/worker.py @v0.4.2 and its logs",
    ),
)  # fmt: skip
