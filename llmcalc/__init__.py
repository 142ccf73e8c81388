"""Back-of-envelope LLM capacity and cost, exact where exactness is possible.

    import llmcalc
    model = llmcalc.load_model("Qwen/Qwen3-8B")
    llmcalc.estimate_kv(model, ctx=32768).results["kv_bytes_per_sequence"]

The names load on first use, so that `import llmcalc` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # importing it takes three milliseconds

__version__ = "0.1.0"

_API = {
    # on plain numbers, in SI base units
    "kv_bytes_per_token": ("llmcalc.formulas.memory", "kv_bytes_per_token"),
    "weight_bytes": ("llmcalc.formulas.memory", "weight_bytes"),
    "max_batch": ("llmcalc.formulas.memory", "max_batch_exact"),
    "decode_step_time": ("llmcalc.formulas.time", "napkin_step_s"),
    "critical_batch": ("llmcalc.formulas.time", "critical_batch"),
    "cost_per_million": ("llmcalc.formulas.money", "usd_per_million_tokens"),
    # on nouns
    "load_model": ("llmcalc.api", "load_model"),
    "load_hardware": ("llmcalc.hardware", "load"),
    "deploy": ("llmcalc.api", "deploy"),
    "estimate_kv": ("llmcalc.api", "estimate_kv"),
    "estimate_weights": ("llmcalc.api", "estimate_weights"),
    "estimate_fit": ("llmcalc.api", "estimate_fit"),
    "estimate_decode": ("llmcalc.api", "estimate_decode"),
    "estimate_cost": ("llmcalc.api", "estimate_cost"),
    "LlmcalcError": ("llmcalc.errors", "LlmcalcError"),
}
__all__ = ["__version__", *_API]


def __getattr__(name: str) -> Any:
    if name not in _API:
        raise AttributeError(f"module 'llmcalc' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _API[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
