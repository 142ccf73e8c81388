"""llama.cpp."""

from __future__ import annotations

from llmcalc.engines.row import GIB, Engine, Start

ROWS = (
    Engine(
        name="llama.cpp", kind="desktop", split="pipeline", tensor=True, vendors=(),
        start=Start(
            "llama-server -hf {model} -ngl 99 -c {all} -np {seqs}",
            (("-sm", "split"), ("-ub", "step"), ("-ctk", "kv"), ("-ctv", "kv"), ("--no-kv-unified", "several")),
        ),
        block_tokens=256, windows="cells", whole_layers=True, conv_fp32=True, batched=(512, 512), sequences=(1, 1), large=None,
        logit_bytes=4, other_bytes=(1.1 * GIB,) * 3,
        source="ggml-org/llama.cpp src/llama-kv-cache-iswa.cpp; llama_params_fit keeps 1024 MiB free; a micro-batch's logits by logs",
    ),
)  # fmt: skip
