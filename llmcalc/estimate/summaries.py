"""What a list of bundled models says of each, from an index: counting the weights of 581 models takes ten times as long."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import NamedTuple

KINDS = ("moe", "dense", "hybrid")


class Summary(NamedTuple):
    """Sizes and kinds of one model."""

    architecture: str
    params: int
    active_params: int
    kv_bytes_per_token: float
    max_context: int | None
    date: str | None
    kinds: tuple[str, ...]


@cache
def bundled() -> dict[str, Summary]:
    """The index that scripts/models_index.py writes, by id."""
    with open(os.path.join(os.path.dirname(os.path.dirname(__file__)), "models.json"), encoding="utf-8") as stream:
        return {name: Summary._make((*row[:-1], tuple(row[-1]))) for name, row in json.load(stream).items()}


def of(name: str) -> Summary:
    """One bundled model: of the index, or counted where it is not there yet."""
    return bundled().get(name) or counted(name)


def counted(name: str) -> Summary:
    """The same from the model's own config."""
    from llmcalc import model, sources
    from llmcalc.estimate import memory

    source = sources.read_bundled(name)
    found = model.read(source.config, id=source.id, source=source.kind, revision=source.revision, quant=source.quant, facts=source.facts)
    moe = any(group.layer.mlp and group.layer.mlp.experts for group in found.groups)
    hybrid = any(mixer.states for group in found.groups for mixer in group.layer.mixers)
    return Summary(
        found.model_type,
        memory.language_params(found),
        memory.active_params(found),
        memory.kv(found, 1, 1, "auto").results.kv_bytes_per_token,
        found.max_context,
        str(source.facts["date"]) if source.facts.get("date") else None,
        ("moe" if moe else "dense", *(("hybrid",) if hybrid else ())),
    )
