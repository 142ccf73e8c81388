"""ExLlamaV3, served by TabbyAPI."""

from __future__ import annotations

from llmcalc.engines.row import GIB, MIB, Engine, Start

ROWS = (
    Engine(
        name="exllamav3", kind="desktop", split="pipeline", tensor=True, vendors=("NVIDIA",), kinds=("gpu", "unified"), files="exl3",
        start=Start(
            "python main.py --model-name {model} --max-seq-len {ctx} --cache-size {all} --max-batch-size {seqs}",
            (("--chunk-size", "step"), ("--cache-mode", "kv"), ("--tensor-parallel", "parallel")),
            caches=(("q8_0", "Q8"), ("q6_0", "Q6"), ("q4_0", "Q4")),
        ),
        block_tokens=256, windows="full", whole_layers=True, batched=(2048, 2048), sequences=(1, 1), large=None,
        slot_caches=True, free_bytes=96 * MIB, other_bytes=(0.5 * GIB,) * 3,
        source="theroyallab/tabbyAPI config_sample.yml: pages of 256 tokens, chunk_size 2,048, autosplit_reserve 96 MiB; a CUDA context",
    ),
)  # fmt: skip
