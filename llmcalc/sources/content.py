"""Bytes of a config.json, checked and parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llmcalc import data
from llmcalc.errors import LlmcalcError, SourceError, printable
from llmcalc.sources.source import CONFIG, FACTS, QUANT, WHAT


def quant_beside(path: Path) -> Path | None:
    """What ModelOpt writes beside a config, where it is there."""
    beside = [path.with_name(f"{path.stem}.quant.json")]
    if path.name == CONFIG:
        beside.append(path.with_name(QUANT))
    return next((candidate for candidate in beside if candidate.is_file()), None)


def read_bytes(path: Path) -> bytes:
    """The beginning of a file, as much as a config may have. Errors: file-unreadable."""
    try:
        with path.open("rb") as stream:
            return stream.read(data.MAX_CONFIG_BYTES + 1)
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise SourceError(
            "file-unreadable",
            f"cannot read {printable(str(path))}: {reason}",
            f"give a Hub id, or the path of a {CONFIG} or of its folder",
        ) from None


def json_object(content: bytes, name: str) -> dict[str, Any]:
    """Bytes as a JSON object. Errors: file-too-large, file-not-text, not-json, not-a-config."""
    try:
        parsed = data.parse_json(data.decode(content, name, WHAT), name, WHAT)
    except LlmcalcError as problem:
        raise SourceError(problem.code, problem.message, problem.hint) from None
    if not isinstance(parsed, dict):
        kinds = {list: "a list", str: "a string", type(None): "null", bool: "true or false"}
        raise SourceError(
            "not-a-config",
            f"{name} is {kinds.get(type(parsed), 'a number')}, not an object",
            f"give a model's {CONFIG}",
        )
    return parsed


def config_of(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bytes as (config, our own facts about it)."""
    config = json_object(content, name)
    facts = config.pop(FACTS, None)
    if not _looks_like_config(config):
        base = config.get("base_model_name_or_path")
        hint = f"it belongs to an adapter of {printable(base)}: give that model" if isinstance(base, str) else None
        raise SourceError(
            "not-a-config",
            f"{name} is not a model's config: it has neither model_type, architectures nor a number of layers",
            hint or f"give a model's {CONFIG}",
        )
    return config, facts if isinstance(facts, dict) else {}


def _looks_like_config(config: dict[str, Any]) -> bool:
    if "peft_type" in config:
        return False
    if any(config.get(key) for key in ("model_type", "architectures")):
        return True
    if any(key in config for key in ("num_hidden_layers", "num_layers", "n_layer", "n_layers")):
        return True
    return any(
        key.endswith("_config") and key != "quantization_config" and isinstance(value, dict) and value for key, value in config.items()
    )
