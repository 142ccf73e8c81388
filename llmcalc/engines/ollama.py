"""Ollama."""

from __future__ import annotations

from llmcalc.engines.row import GIB, MIB, Engine, Start

ROWS = (
    Engine(
        name="ollama", kind="desktop", split="pipeline", tensor=False, one_host=True, vendors=(), kinds=("gpu", "unified", "apple", "cpu"),
        start=Start(
            "OLLAMA_CONTEXT_LENGTH={ctx} OLLAMA_NUM_PARALLEL={seqs}",
            (("OLLAMA_SCHED_SPREAD=", "spread"), ("OLLAMA_KV_CACHE_TYPE=", "kv")),
            caches=(("q8_0", "q8_0"), ("q4_0", "q4_0")),
            tail="ollama serve",
        ),
        block_tokens=256, windows="cells", whole_layers=True, conv_fp32=True, batched=(512, 512), sequences=(1, 1), large=None,
        logit_bytes=4, slot_caches=True, old_latents=True, free_bytes=457 * MIB, other_bytes=(0.1 * GIB,) * 3,
        source="ollama/ollama issues 10911 and 9246: every slot of OLLAMA_NUM_PARALLEL holds a whole context; 457 MiB kept free",
    ),
)  # fmt: skip
