"""MLX."""

from __future__ import annotations

from llmcalc.engines.row import GIB, Engine, Start

ROWS = (
    Engine(
        name="mlx", kind="desktop", split="pipeline", tensor=True, vendors=("Apple",), start=Start("mlx_lm.server --model {model}"),
        block_tokens=256, windows="ideal", batched=(2048, 2048), sequences=(1, 1), large=None, logit_bytes=4,
        other_bytes=(0.25 * GIB,) * 3, meant=(("int4", "mlx_4bit"), ("int8", "mlx_8bit")),
        source="ml-explore/mlx-lm models/cache.py: caches grow by 256 tokens; Metal's default limit of the unified memory",
    ),
)  # fmt: skip
