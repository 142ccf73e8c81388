"""Vision and audio towers with their projectors: parameters only, they cache nothing."""

from __future__ import annotations

from llmcalc.architecture import Weight
from llmcalc.config import Config


def read(outer: Config, hidden: int) -> tuple[tuple[Weight, ...] | None, tuple[str, ...]]:
    """(weights of the towers, notes); None with a note where there is a tower whose shape is not read."""
    blocks = [key for key in ("vision_config", "audio_config", "visual", "vision_tower") if isinstance(outer.raw.get(key), dict)]
    if not blocks:
        return (), ()
    return None, (f"{blocks[0]}: not counted",)
