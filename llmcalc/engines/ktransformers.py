"""KTransformers: attention on the card, routed experts in the host's memory."""

from __future__ import annotations

from llmcalc.engines.row import GIB, Engine, Start

ROWS = (
    Engine(
        name="ktransformers", kind="desktop", split="pipeline", tensor=False, vendors=("NVIDIA",), kinds=("gpu",),
        start=Start("python -m ktransformers.local_chat --model_path {model} --gguf_path FOLDER-OF-GGUF-FILES", ()),
        block_tokens=256, windows="full", whole_layers=True, batched=(512, 512), sequences=(1, 1), large=None,
        slot_caches=True, aside=True, hosts_experts=True, other_bytes=(0.5 * GIB,) * 3,
        source="kvcache-ai/ktransformers @95009ea doc/en: experts on the host's cores, pages of 256 tokens",
    ),
)  # fmt: skip
