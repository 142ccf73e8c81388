"""SGLang, whose share of the memory is what its own rule leaves after activations, graphs and the ranks' buffers."""

from __future__ import annotations

import math

from llmcalc.engines.row import GIB, MIB, Engine, Start
from llmcalc.engines.vllm import LARGE
from llmcalc.formulas.engines import static_share

CAPTURED = ((20, 8, 8), (35, 24, 80), (60, 32, 160), (160, 256, 512))
"""The largest captured batch: up to that many GiB, under four ranks, from four ranks on; 512 beyond. [server_args.py @469c63e]"""


PIECES = (*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64), *range(1280, 4097, 256))
"""Tokens of the graphs that prompts are read with, 8 MiB each; from there on every 512. [server_args.py @0.5.10]"""
PLAIN_ENCODER = 12 * 24 * 1024**2
"""Parameters of the encoder that takes 5% of the share; twice as many take a tenth more. [adjust_mem_fraction_for_vlm]"""


def memory_share(memory_bytes: float, tp: int, ranks: int, step_tokens: float, encoder_params: float) -> float:
    """mem-fraction-static by default."""
    graphs = next((batches[tp >= 4] for limit, *batches in CAPTURED if memory_bytes < limit * GIB), 512)
    least = 10240 * MIB if memory_bytes > 60 * GIB else 0
    chunk = max(step_tokens, 2048)
    pieces = 0 if encoder_params else sum(size <= chunk for size in PIECES) + max(0, int(chunk) - 4096) // 512
    found: float = static_share(memory_bytes, 512 * MIB + pieces * 8 * MIB, 1.5 * MIB, chunk, 2 * MIB, graphs, 128 * MIB, ranks, least)
    if encoder_params:
        found *= 0.95 * min(1.05, max(0.8, 1.1 - 0.1 * encoder_params / PLAIN_ENCODER))
    return max(0.0, round(found, 3))


ROWS = (
    Engine(
        name="sglang", kind="server", split="tensor", tensor=True, vendors=("NVIDIA", "AMD", "Huawei"),
        start=Start(
            "python -m sglang.launch_server --model-path {model} --context-length {ctx} --mem-fraction-static {share}",
            (
                ("--quantization", "made"), ("--dtype", "dtype"),
                ("--chunked-prefill-size", "step"), ("--max-running-requests", "asked"), ("--tp-size", "tp"), ("--pp-size", "pp"),
                ("--dcp-size", "dcp"), ("--ep-num-redundant-experts", "redundant"),
                ("--ep-size", "ep"), ("--kv-cache-dtype", "kv"), ("--enable-lora", "lora"),
                ("--max-lora-rank", "lora_rank"), ("--max-loras-per-batch", "loras"), ("--page-size", "block"),
                ("--language-model-only", "text_only"),
            ),
            caches=(("fp8", "fp8_e4m3"), ("nvfp4", "fp4_e2m1")),
            online=("fp8",),
        ),
        log=("KV Cache is allocated. #tokens: {tokens}", "max_total_num_tokens={tokens}, context_len={ctx}"),
        pool=True, share_rule=memory_share, utilization=0.88, block_tokens=1, windows="share", window_share=0.8, state_ratio=0.9,
        state_blocks=3, packed=True, prompts_first=True, batched=(2048, 8192), sequences=(2048, 2048), large=LARGE,
        tiers=((35 * GIB, 2048), (60 * GIB, 4096), (160 * GIB, 8192), (math.inf, 16384)),
        setup_first=True, other_bytes=(0.5 * GIB, 0.7 * GIB, 2.5 * GIB),
        source="sgl-project/sglang srt/server_args.py @469c63e: memory settings, swa_full_tokens_ratio, mamba_full_memory_ratio; "
        "model_runner.py: 2,048 to 4,096 requests at a time; pull 11716: of 139.81 GiB 137.29 are free before weights, on eight H200",
    ),
)  # fmt: skip
