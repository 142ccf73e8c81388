"""What a reference leads to: a config, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmcalc.errors import ConfigError
from llmcalc.files import Files

WHAT = "model config"


CONFIG = "config.json"


QUANT = "hf_quant_config.json"
PARAMS = "params.json"


FACTS = "_llmcalc"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model's config came from, and the config itself."""

    id: str
    """The Hub id, the file's path as typed, or `stdin`."""
    kind: str
    """bundled, hub, hub-cache, file or stdin."""
    revision: str | None
    """The commit; of a bundled file the recorded one, or its date."""
    config: dict[str, Any]
    quant: dict[str, Any] | None
    """hf_quant_config.json, where there is one beside the config."""
    notes: tuple[str, ...]
    """What the reader of the result should know about its origin."""
    facts: dict[str, Any]
    """The `_llmcalc` block of a bundled file: source, date, published parameter count."""
    files: Files | None = None
    """The weight files, where the config was read from one (GGUF)."""
    refused: ConfigError | None = None
    """Why such files make no config: they are there, and can be counted, all the same."""
