"""TensorRT-LLM."""

from __future__ import annotations

from llmcalc.engines.row import GIB, Engine, Start

ROWS = (
    Engine(
        name="trt-llm", kind="server", split="tensor", tensor=True, vendors=("NVIDIA",),
        start=Start(
            "trtllm-serve {model} --max_seq_len {ctx} --kv_cache_free_gpu_memory_fraction {share}",
            (
                ("--max_num_tokens", "step"), ("--max_batch_size", "asked"), ("--tp_size", "tp"), ("--pp_size", "pp"),
                ("--ep_size", "ep"), ("--kv_cache_dtype", "kv"),
            ),
            caches=(("fp8", "fp8"), ("nvfp4", "nvfp4")),
        ),
        pool=True, utilization=0.9, of_free=True, block_tokens=32, windows="full", batched=(8192, 8192), sequences=(2048, 2048),
        large=None, logit_bytes=22, other_bytes=(0.6 * GIB, 1.6 * GIB, 1.6 * GIB),
        source="NVIDIA/TensorRT-LLM llmapi/llm_args.py @fcd3f31: free_gpu_memory_fraction, max_num_tokens; 22 B a logit by two logs",
    ),
)  # fmt: skip
