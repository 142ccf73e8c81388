"""The table of engines, one file each: what share of a device an engine uses, what it holds beside weights, how it rounds.

`napkin` is the course notes' policy: the nominal size in decimal bytes, all of it, nothing rounded. The others count the
driver's size. A release that changed the rules has a row of its own: `vllm@0.11` takes the newest row that is not younger.
"""

from __future__ import annotations

from dataclasses import replace

from llmcalc.engines import exllama, ktransformers, llama_cpp, mlx, napkin, ollama, sglang, trt_llm, vllm
from llmcalc.engines.row import GIB, MIB, Engine
from llmcalc.errors import UsageError, close_matches, printable

__all__ = ["ENGINES", "GIB", "MIB", "Engine", "find", "names"]

ENGINES: dict[str, Engine] = {
    row.name: row for each in (napkin, vllm, sglang, llama_cpp, trt_llm, ollama, mlx, exllama, ktransformers) for row in each.ROWS
}
_OTHER_NAMES = {
    "llamacpp": "llama.cpp", "llama-cpp": "llama.cpp", "llama-server": "llama.cpp", "trtllm": "trt-llm", "tensorrt-llm": "trt-llm",
    "mlx-lm": "mlx", "exllama": "exllamav3", "exl3": "exllamav3", "tabbyapi": "exllamav3",
    "ik-llama.cpp": "ik_llama.cpp", "ik_llama": "ik_llama.cpp", "ik-llama": "ik_llama.cpp", "kt": "ktransformers",
}  # fmt: skip


def names() -> list[str]:
    """The engines, without the rows of older releases."""
    return [name for name in ENGINES if "@" not in name]


def find(name: str) -> Engine:
    """The policy of that name, or `name@release`. Errors: unknown-engine."""
    plain, at, release = name.strip().lower().replace("==", "@").partition("@")
    plain = _OTHER_NAMES.get(plain, plain)
    row = ENGINES.get(plain)
    if row is None or (at and plain == "napkin"):
        near = close_matches(plain, names())
        raise UsageError(
            "unknown-engine",
            f"{printable(name, 40)!r} is not an engine that llmcalc knows",
            f"did you mean {near[0]}?" if near and row is None else f"known: {', '.join(names())}",
        )
    asked = release.removeprefix("v")
    return replace(_release(row, release), name=f"{plain}@{asked}", release=asked) if at else row


def _release(newest: Engine, text: str) -> Engine:
    parts = text.removeprefix("v").split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts[:2]):
        raise UsageError(
            "unknown-engine", f"{printable(text, 20)!r} is not a release of {newest.name}", f"write it like {newest.name}@0.11"
        )
    patch = int(parts[2]) if len(parts) > 2 and parts[2].isascii() and parts[2].isdigit() else 99
    asked = (*(int(part) for part in (*parts, "0")[:2]), patch)  # a release without one is its last
    rows = [row for row in ENGINES.values() if row.family == newest.name]
    return next((row for row in rows if row.since <= asked), rows[-1])
