"""llama.cpp."""

from __future__ import annotations

from dataclasses import replace

from llmcalc.engines.row import GIB, Engine, Start

_NEWEST = (
    Engine(
        name="llama.cpp", kind="desktop", split="pipeline", tensor=True, vendors=(), kinds=("gpu", "unified", "apple", "cpu"),
        start=Start(
            "llama-server {model} -ngl {ngl} -c {all} -np {seqs}",
            (("-sm", "split"), ("-ub", "step"), ("-ctk", "kv"), ("-ctv", "kv_values"), ("--no-kv-unified", "several"),
             ("--cpu-moe", "cpu_moe"), ("--n-cpu-moe", "n_cpu_moe"), ("--lora", "lora_file"), ("--no-mmproj", "text_only")),
            caches=(("q8_0", "q8_0"), ("q5_1", "q5_1"), ("q5_0", "q5_0"), ("q4_1", "q4_1"), ("q4_0", "q4_0"), ("iq4_nl", "iq4_nl")),
            gguf=True,
        ),
        block_tokens=256, windows="cells", whole_layers=True, conv_fp32=True, batched=(512, 512), sequences=(1, 1), large=None,
        logit_bytes=4, slot_caches=True, old_latents=True,
        other_bytes=(0.1 * GIB,) * 3,
        # llama_params_fit keeps 1,024 MiB free of what -c and -ngl leave open: the start line gives both.
        source="ggml-org/llama.cpp src/llama-kv-cache-iswa.cpp and src/llama.cpp: llama_params_fit; a micro-batch's logits by logs",
    ),
)  # fmt: skip
_FORK = Start(
    "llama-server {model} -ngl {ngl} -c {all} -np {seqs}",
    (
        ("-ub", "step"),
        ("-ctk", "kv"),
        ("-ctv", "kv_values"),
        ("--cpu-moe", "cpu_moe"),
        ("--n-cpu-moe", "n_cpu_moe"),
        ("--lora", "lora_file"),
    ),
    caches=(
        ("q8_0", "q8_0"),
        ("q6_0", "q6_0"),
        ("q5_1", "q5_1"),
        ("q5_0", "q5_0"),
        ("q4_1", "q4_1"),
        ("q4_0", "q4_0"),
        ("iq4_nl", "iq4_nl"),
    ),
    gguf=True,
)
ROWS = (
    *_NEWEST,
    replace(
        _NEWEST[0],
        name="ik_llama.cpp",
        aside=True,
        start=_FORK,
        source="ikawrakow/ik_llama.cpp: a fork of llama.cpp, whose memory it shares",
    ),
)
