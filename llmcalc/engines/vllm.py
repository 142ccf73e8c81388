"""vLLM, newest release first."""

from __future__ import annotations

import math
from dataclasses import replace

from llmcalc.engines.row import GIB, MIB, Engine, Large, Start

LARGE = Large(70 * GIB, never=("a100",))
"""usage_context's defaults: from 70 GiB on, but never on an A100. [vllm-project/vllm engine/arg_utils.py]"""
GRAPHS = (0.24 * MIB, 0.8 * MIB, 10 * MIB)
"""CUDA graphs: of a layer in each captured batch size, dense, with experts, with experts over data-parallel groups. vLLM captures two
sizes of a mode and counts the second for all others. [v1/worker/gpu_model_runner.py: profile_cudagraph_memory; "Estimated CUDA graph
memory" in logs: Qwen3.5-4B 0.64 GiB of 86 graphs, Qwen2.5-7B 0.37 of 54, Qwen3.6-27B 0.22 of 15; the other two rest on one report each:
MiniMax-M2.7 at tp 2, eugr/spark-vllm-docker issue 396, and MiniMax-M2.5 at dp 2, vllm-project/vllm issue 45178]"""
UNIFIED_BYTES = 8 * GIB
"""On unified memory a profile takes the host's pages, compiler and workers for the device's. What is left of one report, two DGX Spark
with pools of 22.5 and 28.7 GiB at shares of 0.80 and 0.85; others name 6 to 30. [eugr/spark-vllm-docker issue 396 and pull 286]"""
FLASHINFER_BYTES = 394 * MIB
"""FlashInfer's workspace. [vllm envs.py: VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE]"""

_VLLM = Engine(
    name="vllm@0.8", since=(0, 8), kind="server", split="tensor", tensor=True, vendors=("NVIDIA", "AMD", "Intel", "Huawei", "Google"),
    start=Start(
        "vllm serve {model} --max-model-len {ctx} --gpu-memory-utilization {share}",
        (
            ("--max-num-seqs", "seqs"), ("--quantization", "made"), ("--dtype", "dtype"),
                ("--max-num-batched-tokens", "step"), ("--tensor-parallel-size", "tp"), ("--pipeline-parallel-size", "pp"),
                ("--prefill-context-parallel-size", "cp"), ("--decode-context-parallel-size", "dcp"),
            ("--data-parallel-size", "dp"), ("--enable-expert-parallel", "experts"), ("--kv-cache-dtype", "kv"),
            ("--enable-prefix-caching", "prefix"), ("--speculative-config", "drafts"),
            ("--enable-lora", "lora"), ("--max-lora-rank", "lora_rank"),
            ("--max-loras", "loras"), ("--cpu-offload-gb", "offload_gb"), ("--block-size", "block"), ("--enforce-eager", "eager"),
            ("--language-model-only", "text_only"), ("--kv-cache-memory-bytes", "pool"),
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
_COUNTED = replace(
    _RECENT,
    name="vllm@0.21", since=(0, 21), utilization=0.92, graphs=GRAPHS, graph_workspace_bytes=FLASHINFER_BYTES, host_bytes=UNIFIED_BYTES,
    log_groups=False,
    other_bytes=(0.27 * GIB, 0.70 * GIB, 0.95 * GIB),
    source="vLLM 0.21 and 0.22: as after, but one model runner for all; share and graphs by start-up logs",
)  # fmt: skip
_PROFILED = replace(
    _COUNTED,
    name="vllm@0.23", since=(0, 23), light_runner=True, whole_profile=True,
    source="vLLM 0.23 to 0.27: v1/core/kv_cache_utils.py and v1/kv_cache_interface.py @001cabc; share and graphs by start-up logs",
)  # fmt: skip
ROWS = (
    replace(
        _PROFILED,
        name="vllm", since=(0, 28), tiers=((160 * GIB, 0), (math.inf, 16384)),
        source="vLLM 0.28 and after: as before, but 16,384 tokens a step from 160 GiB on (engine/arg_utils.py: get_batch_defaults)",
    ),
    _PROFILED,
    _COUNTED,
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
        name="vllm@0.5.3", since=(0, 5, 3), chunk=512, other_bytes=(0.55 * GIB, 0.85 * GIB, 0.85 * GIB),
        source="vLLM 0.5.3 to 0.5.5: as before, but contexts beyond 32,768 tokens are read 512 at a time: vllm-project/vllm issue 6746",
    ),
    replace(
        _V0,
        name="vllm@0.4", since=(0, 4), longest_step=0, other_bytes=(0.55 * GIB, 0.85 * GIB, 0.85 * GIB),
        source="vLLM 0.2.5 to 0.5.2: any prompt whole; what the allocator keeps counts as used: worker/worker.py @v0.4.2 and its logs",
    ),
)  # fmt: skip
