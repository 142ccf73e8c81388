"""Configs in files, folders, GGUF headers and on stdin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

from llmcalc import data
from llmcalc.errors import ConfigError, SourceError, UsageError, printable
from llmcalc.files import Blob, Files
from llmcalc.sources.bundled import base_model
from llmcalc.sources.content import config_of, json_object, quant_beside, read_bytes
from llmcalc.sources.references import hub_address
from llmcalc.sources.source import CONFIG, PARAMS, Source


def gguf_source(id: str, kind: str, revision: str | None, files: Files) -> Source:
    """A source made from the header of a GGUF file; what makes no model can still be counted."""
    from llmcalc import gguf_config

    try:
        return Source(id, kind, revision, gguf_config.config(files), None, files.notes, {}, files)
    except ConfigError as problem:
        if not files.tensors:
            raise
        problem.hint = f"{problem.hint}; the command weights counts its bytes and parameters with `from_files`"
        return Source(id, kind, revision, {}, None, files.notes, {}, files, problem)


def _gguf_from_path(typed: str, path: Path) -> Source:
    from llmcalc import gguf

    folder = path.parent
    try:
        beside = sorted(os.listdir(folder))[:10_000]
    except OSError:
        beside = []
    extras = [(name, size_of(folder / name), why) for name in beside if name.lower().endswith(".gguf") and (why := gguf.not_model(name))]
    try:
        files = gguf.model_files(path.name, lambda name: on_disk(folder / name), [row for row in extras if row[0] != path.name])
    except SourceError as problem:
        base = base_model(path.name)
        if problem.code == "file-unreadable" and base:
            problem.hint = f"check the path, or try `model={base}`"
        raise
    return gguf_source(typed, "file", None, files)


def listed(folder: Path) -> list[str]:
    """What lies in a folder. Errors: file-unreadable."""
    try:
        return os.listdir(folder)
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise SourceError("file-unreadable", f"cannot list {printable(str(folder))}: {reason}", "give the path of a file in it") from None


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where it cannot be asked."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def on_disk(path: Path) -> Blob:
    """A regular file. Errors: file-unreadable."""
    shown = printable(str(path))

    def failed(reason: str) -> SourceError:
        return SourceError("file-unreadable", f"cannot read {shown}: {reason}", "give the path of a weight file")

    def read(offset: int, count: int) -> bytes:
        try:
            with path.open("rb", buffering=0) as stream:
                stream.seek(offset)
                return stream.read(count) or b""
        except OSError as problem:
            raise failed((problem.strerror or type(problem).__name__).lower()) from None

    try:
        if not path.exists():
            raise failed("no such file or directory")
        if not path.is_file():
            raise failed("it is a directory" if path.is_dir() else "it is no regular file")
        return Blob(path.name, path.stat().st_size, read)
    except OSError as problem:
        raise failed((problem.strerror or type(problem).__name__).lower()) from None


def is_path(reference: str) -> bool:
    """A path wins over a Hub id only where it can be nothing else, or where it is a file."""
    if hub_address(reference) is not None or "://" in reference:
        return False
    if reference.startswith((".", "/", "~")) or os.path.isabs(reference) or os.path.isfile(reference):
        return True
    if reference.lower().endswith((".json", ".gguf", ".safetensors")):
        return True
    return reference.count("/") > 1 and "@" not in reference and os.path.isdir(reference)


def folder_like(repo_id: str) -> str | None:
    """A folder of the same name as an id, as one would have to write it."""
    return f"./{repo_id}" if os.path.isdir(repo_id) else None


def from_path(typed: str) -> Source:
    """A config.json, its folder, a GGUF file, or the config beside a safetensors file."""
    path = Path(os.path.expanduser(typed))
    if typed.lower().endswith(".gguf"):
        return _gguf_from_path(typed, path)
    if typed.lower().endswith(".safetensors"):
        path = path.with_name(CONFIG)
    if os.path.isdir(path):  # unlike Path.is_dir, not upset by a name that is too long
        if not (path / CONFIG).is_file():
            alone = _only_gguf(path)
            if alone:
                return _gguf_from_path(typed, path / alone)
            if (path / PARAMS).is_file():  # the makers' own format, beside consolidated weights
                config, facts = config_of(read_bytes(path / PARAMS), printable(str(path / PARAMS)))
                return Source(typed, "file", None, config, None, (), facts)
            raise SourceError("no-config", f"{printable(typed)} has no {CONFIG}", f"give a folder that holds a {CONFIG}")
        path = path / CONFIG
    config, facts = config_of(read_bytes(path), printable(str(path)))
    quant_path = quant_beside(path)
    quant = json_object(read_bytes(quant_path), printable(str(quant_path))) if quant_path else None
    return Source(typed, "file", None, config, quant, (), facts)


def _only_gguf(folder: Path) -> str | None:
    """The first file of the one GGUF model in a folder."""
    from llmcalc import gguf

    names = [name for name in listed(folder) if name.lower().endswith(".gguf") and not gguf.not_model(name)]
    first = {(gguf.shards(name) or [name])[0] for name in names}
    return first.pop() if len(first) == 1 else None


def from_stdin(stream: TextIO | None) -> Source:
    """A config that was piped in."""
    if stream is None:
        raise UsageError("bad-reference", "there is no stdin to read a config from", f"give the path of a {CONFIG}")
    limit = data.MAX_CONFIG_BYTES + 1
    raw = getattr(stream, "buffer", None)
    content: bytes = raw.read(limit) if raw is not None else stream.read(limit).encode("utf-8", "surrogatepass")
    if not content.strip():
        raise SourceError("not-json", "stdin is empty", f"pipe a {CONFIG} in")
    config, facts = config_of(content, "stdin")
    return Source("stdin", "stdin", None, config, None, (), facts)
