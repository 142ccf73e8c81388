"""Model reference -> config dict. The only room that touches the network.

    Qwen/Qwen3-8B   Qwen/Qwen3-8B@refs/pr/3   hf://Qwen/Qwen3-8B   a pasted Hub address     bundled, else the Hub
    ./folder        config.json                                                            a file
    ./model.gguf    org/name-GGUF:Q4_K_M                                                   a GGUF header
    -                                                                                      stdin

The Hub is asked through huggingface_hub, for `config.json`, `hf_quant_config.json` and, where weight files are read, for
the list of files and the headers at their beginnings; no weight is downloaded, and no code of a repository is fetched or
run. Messages are built from kinds of failure, never from the client's own text: that may hold an address with a password
or a header with a token.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from llmcalc import data
from llmcalc.errors import SourceError, UsageError, printable
from llmcalc.files import Blob, Files
from llmcalc.sources.bundled import bundled_at, bundled_ids, has_word, read_bundled
from llmcalc.sources.client import settings
from llmcalc.sources.files import folder_like, from_path, from_stdin, is_path, listed, on_disk, size_of
from llmcalc.sources.hub import from_hub
from llmcalc.sources.references import Reference, bad_reference, parse_hub_reference, parse_reference, valid_revision
from llmcalc.sources.repository import gguf_from_hub, repository
from llmcalc.sources.source import CONFIG, FACTS, QUANT, Source

__all__ = [
    "CONFIG",
    "FACTS",
    "QUANT",
    "Reference",
    "Source",
    "bundled_ids",
    "find",
    "has_word",
    "parse_hub_reference",
    "read_bundled",
    "settings",
    "weight_files",
]


def find(
    reference: str,
    *,
    revision: str | None = None,
    offline: bool = False,
    refresh: bool = False,
    stdin: TextIO | None = None,
) -> Source:
    """The config that a reference leads to.

    Errors: bad-reference and bad-option (usage); file-unreadable, file-too-large, file-not-text, no-config, not-json,
    not-a-config; of GGUF files bad-gguf,
    gguf-version, no-such-file, not-a-model, unknown-architecture, bad-config;
    from the Hub model-not-found, gated, revision-not-found, bad-token, refused, rate-limited, server-error, timeout,
    network, offline-not-cached, hub-client.
    """
    reference = reference.strip()
    if not reference:
        raise bad_reference("no model was given", "name one, for example Qwen/Qwen3-8B")
    if len(reference) > 4096:
        raise bad_reference(f"{printable(reference)} is too long for a model reference", "give an id or a path")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in reference):
        raise bad_reference(f"{printable(reference)} holds control characters", "give an id such as Qwen/Qwen3-8B")
    if offline and refresh:
        raise UsageError("bad-option", "offline forbids the network and refresh asks for it", "choose one of them")

    from_file = reference == "-" or is_path(reference)
    if from_file and revision is not None:
        raise UsageError("bad-option", "a file has no revision", "leave the revision out, or give a Hub id")
    if reference == "-":
        return from_stdin(stdin if stdin is not None else sys.stdin)
    if from_file:
        return from_path(reference)

    repo_id, named, gguf = parse_reference(reference)
    if revision is not None and named is not None and revision != named:
        raise UsageError("bad-option", f"two revisions: {printable(named)} and {printable(revision)}", "give one of them")
    wanted = valid_revision(revision) if revision is not None else named
    if gguf:
        return gguf_from_hub(repo_id, wanted, gguf, offline=offline)
    folder = folder_like(repo_id)
    try:
        source = None if refresh else bundled_at(repo_id, wanted)
        if source is None:
            source = from_hub(repo_id, wanted, offline=offline, refresh=refresh)
    except SourceError as problem:
        if folder:
            problem.hint = f"a folder of that name exists: write {folder} to read it"
        raise
    if folder:
        note = f"a folder {folder} exists too; {source.id} was taken as a model id"
        return replace(source, notes=(*source.notes, note))
    return source


def weight_files(found: Source, *, offline: bool = False) -> Files:
    """The weight files of a model, by their headers: the GGUF it was read from, the safetensors beside its config, or the Hub's.

    Errors: no-weights, several-models, missing-shard, bad-safetensors, file-unreadable; from the Hub as in `find`.
    """
    from llmcalc import safetensors

    if found.files is not None:
        return found.files
    if found.kind == "stdin":
        raise UsageError("no-weights", "a config on stdin has no weight files beside it", "give a folder, a GGUF file or a Hub id")
    if found.kind == "file":
        path = Path(os.path.expanduser(found.id))
        folder = path if os.path.isdir(path) else path.parent
        sizes = {name: size_of(folder / name) for name in listed(folder) if name.endswith((".safetensors", ".json"))}
        open_: Callable[[str], Blob] = lambda name: on_disk(folder / name)  # noqa: E731
        where = printable(str(folder))
    else:
        commit = found.facts.get("revision") if found.kind == "bundled" else found.revision
        _, sizes, open_, _ = repository(found.id, commit, offline=offline)
        where = found.id

    def index() -> str | None:
        if safetensors.INDEX not in sizes:
            return None
        blob = open_(safetensors.INDEX)
        return data.decode(blob.read(0, data.MAX_CONFIG_BYTES + 1), f"{safetensors.INDEX} of {where}", "shard index")

    try:
        names, why = safetensors.choose(sizes, index)
    except SourceError as problem:
        problem.message = f"{where}: {problem.message}"
        raise
    missing = [name for name in names if name not in sizes]
    if missing:
        shown = f"{where} lacks {len(missing)} of the {len(names)} files that its index names, first {printable(missing[0], 60)}"
        raise SourceError("missing-shard", shown, "download the rest")
    others = [(name, sizes[name], why) for name in sorted(sizes) if name.endswith(".safetensors") and name not in names and "/" not in name]
    return safetensors.model_files(names, open_, others)
