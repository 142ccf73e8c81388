"""The models that are shipped with llmcalc."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from llmcalc import data
from llmcalc.errors import SourceError, close_matches, printable
from llmcalc.sources.content import config_of, json_object, quant_beside, read_bytes
from llmcalc.sources.references import REPO_ID
from llmcalc.sources.source import Source

GGUF_NAME = re.compile(r"[-_.]gguf$", re.IGNORECASE)


GGUF_FILE = re.compile(r"(-\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE)


GGUF_TYPE = re.compile(r"[-_.](UD-)?(I?Q\d\w*|TQ\d_0|BF16|F16|F32|MXFP4\w*)$", re.IGNORECASE)


def base_model(name: str) -> str | None:
    """The model that a GGUF repository or file was made from, as far as its name tells."""
    plain = GGUF_NAME.sub("", GGUF_TYPE.sub("", GGUF_FILE.sub("", name)))
    word = plain.rpartition("/")[2].lower()
    for known in bundled_ids():
        # bartowski/Qwen_Qwen3-8B-GGUF writes org_name
        if known.rpartition("/")[2].lower() == word or known.replace("/", "_").lower() == word:
            return known
    return plain if "/" in plain and REPO_ID.fullmatch(plain) and not name.lower().endswith(".gguf") else None


def bundled_ids() -> list[str]:
    """The ids of the models that are shipped with llmcalc, sorted."""
    folder = str(data.bundled("models"))
    try:
        return list(_ids(folder, os.stat(folder).st_mtime_ns))
    except OSError:
        return []


@lru_cache(maxsize=2)
def _ids(folder: str, _changed: int) -> tuple[str, ...]:
    names = os.listdir(folder)
    stems = (name[: -len(".json")] for name in names if name.endswith(".json") and not name.startswith("."))
    return tuple(sorted(stem.replace("--", "/") for stem in stems if not stem.endswith(".quant")))


def read_bundled(id: str) -> Source:
    """A shipped model by its exact id. Errors: model-not-found."""
    if id not in bundled_ids():
        raise SourceError("model-not-found", f"{printable(id)} is not a bundled model", did_you_mean(id))
    path = data.bundled("models") / (id.replace("/", "--") + ".json")
    config, facts = config_of(read_bytes(path), path.name)
    quant_path = quant_beside(path)
    quant = json_object(read_bytes(quant_path), quant_path.name) if quant_path else None
    recorded = facts.get("revision") or facts.get("date")
    return Source(id, "bundled", None if recorded is None else str(recorded), config, quant, (), facts)


def has_word(id: str, word: str) -> bool:
    """Whether a word begins at a word of the id: `qwen` in Qwen2.5-7B, and `7b` as a size of its own, not in 27B or 2.7B."""
    if word[:1].isdigit():
        return re.search(rf"(?<![a-z0-9.]){re.escape(word)}(?![a-z0-9])(?!\.\d)", id, re.IGNORECASE) is not None or (
            not word[-1:].isalpha() and re.search(rf"(?<![\d.]){re.escape(word)}(?!\d)", id, re.IGNORECASE) is not None
        )
    return re.search(rf"(?<![a-z]){re.escape(word)}", id, re.IGNORECASE) is not None


def bundled_at(repo_id: str, revision: str | None) -> Source | None:
    """The shipped copy where it is what was asked for: any case of the id, and no other revision than its own."""
    known = bundled_ids()
    canonical = repo_id if repo_id in known else {name.lower(): name for name in known}.get(repo_id.lower())
    if canonical is None and "/" not in repo_id:  # without its owner, where one bundled model alone has the name
        same = [name for name in known if name.rpartition("/")[2].lower() == repo_id.lower()]
        canonical = same[0] if len(same) == 1 else None
    if canonical is None:
        return None
    source = read_bundled(canonical)
    return source if revision is None or revision == source.facts.get("revision") else None


def did_you_mean(repo_id: str) -> str:
    """A hint that names bundled models of a similar name."""
    near = close_matches(repo_id, bundled_ids())
    return f"did you mean {' or '.join(near)}?" if near else "check the name, or give the path of a config.json"
