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

import errno
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar
from urllib.parse import unquote, urlsplit

from llmcalc import data
from llmcalc.errors import LlmcalcError, SourceError, UsageError, close_matches, printable
from llmcalc.files import Blob, Files

if TYPE_CHECKING:
    import logging  # 12 ms; like socket and tempfile it is imported where the Hub is asked

T = TypeVar("T")

WHAT = "model config"
CONFIG = "config.json"
QUANT = "hf_quant_config.json"
FACTS = "_llmcalc"

_REPO_ID = re.compile(r"(\b[\w\-.]{1,96}\b/)?\b[\w\-.]{1,96}\b", re.ASCII)  # the Hub's own rule
_REVISION = re.compile(r"[A-Za-z0-9][\w.\-+/@]{0,254}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_WHOLE_REF = re.compile(r"refs/(?:pr/\d+|convert/[\w.\-]+)(?=/|$)", re.ASCII)
_NOT_MODELS = {"datasets": "dataset", "spaces": "space", "kernels": "kernel", "buckets": "bucket"}
_WITH_REVISION = {"tree", "blob", "resolve", "raw", "blame", "commit", "commits"}
_PAGES = _WITH_REVISION | {"discussions", "settings", "edit"}
_GGUF_PART = re.compile(r"[\w\-][\w.\-/+ ]{0,200}", re.ASCII)
_GGUF_NAME = re.compile(r"[-_.]gguf$", re.IGNORECASE)
_GGUF_FILE = re.compile(r"(-\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE)
_GGUF_TYPE = re.compile(r"[-_.](UD-)?(I?Q\d\w*|TQ\d_0|BF16|F16|F32|MXFP4\w*)$", re.IGNORECASE)
_CACHE_HELPS = {
    *("network", "timeout", "server-error", "rate-limited"),
    *("gated", "model-not-found", "bad-token", "refused"),  # what was fetched while it was allowed stays readable
}
_THREAD = "llmcalc-hub"
_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EEXIST}


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


class Reference(NamedTuple):
    """What a reference to the Hub names: a repository, a revision, and a GGUF file of it by name or type."""

    repo_id: str
    revision: str | None
    gguf: str | None = None


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
        raise _bad_reference("no model was given", "name one, for example Qwen/Qwen3-8B")
    if len(reference) > 4096:
        raise _bad_reference(f"{printable(reference)} is too long for a model reference", "give an id or a path")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 for c in reference):
        raise _bad_reference(f"{printable(reference)} holds control characters", "give an id such as Qwen/Qwen3-8B")
    if offline and refresh:
        raise UsageError("bad-option", "offline forbids the network and refresh asks for it", "choose one of them")

    from_file = reference == "-" or _is_path(reference)
    if from_file and revision is not None:
        raise UsageError("bad-option", "a file has no revision", "leave the revision out, or give a Hub id")
    if reference == "-":
        return _from_stdin(stdin if stdin is not None else sys.stdin)
    if from_file:
        return _from_path(reference)

    repo_id, named, gguf = _parse_reference(reference)
    if revision is not None and named is not None and revision != named:
        raise UsageError("bad-option", f"two revisions: {printable(named)} and {printable(revision)}", "give one of them")
    wanted = _valid_revision(revision) if revision is not None else named
    if gguf:
        return _gguf_from_hub(repo_id, wanted, gguf, offline=offline)
    folder = _folder_like(repo_id)
    try:
        source = None if refresh else _bundled_at(repo_id, wanted)
        if source is None:
            source = _from_hub(repo_id, wanted, offline=offline, refresh=refresh)
    except SourceError as problem:
        if folder:
            problem.hint = f"a folder of that name exists: write {folder} to read it"
        raise
    if folder:
        note = f"a folder {folder} exists too; {source.id} was taken as a model id"
        return replace(source, notes=(*source.notes, note))
    return source


# References ----------------------------------------------------------------------------------------------------------


def parse_hub_reference(reference: str) -> tuple[str, str | None]:
    """`org/name@revision`, hf:// or a Hub address, as (id, revision). Errors: bad-reference."""
    return _parse_reference(reference)[:2]


def _parse_reference(reference: str) -> Reference:
    if reference[:5].lower() == "hf://":
        return _parse_id(reference[5:].removeprefix("models/"), uri=True)
    address = _hub_address(reference)
    if address is not None:
        return _parse_address(address)
    if "://" in reference:
        host = reference.split("://", 1)[1].split("/", 1)[0].rpartition("@")[2]
        raise _bad_reference(f"{printable(host)} is not the Hub", "give org/name, or a folder, or a config.json")
    return _parse_id(reference, uri=False)


def _parse_id(text: str, *, uri: bool) -> Reference:
    """[org/]name[:tag][@revision][/config.json]; the path needs a revision, or hf:// before it all."""
    text = re.split("[?#]", text, maxsplit=1)[0].rstrip("/")
    repo, at, rest = text.partition("@")
    if not at:
        parts = repo.split("/")
        # A path inside the repository belongs to the hf:// grammar alone; a/b/c without it is nobody's id.
        words = 2 if uri else len(parts)
        return _checked("/".join(parts[:words]), None, parts[words:])
    revision, inside = _split_revision(rest)
    return _checked(repo, unquote(revision), inside)


def _split_revision(text: str) -> tuple[str, list[str]]:
    """revision[/path]; of the revisions with a slash only refs/pr/N and refs/convert/name are known as a whole."""
    whole = _WHOLE_REF.match(text)
    revision = whole.group() if whole else text.partition("/")[0]
    return revision, [part for part in text[len(revision) :].split("/") if part]


def _parse_address(path: str) -> Reference:
    """The path of a page on the Hub: org/name[/tree|blob|resolve|.../revision[/file]]"""
    parts = [unquote(part) for part in path.split("/") if part]
    words = 1 if len(parts) == 1 or (len(parts) > 1 and parts[1] in _PAGES) else 2
    repo, rest = "/".join(parts[:words]), parts[words:]
    if len(rest) < 2 or rest[0] not in _WITH_REVISION:
        return _checked(repo, None, [])
    if "/" in rest[1] and not _WHOLE_REF.match(rest[1]):
        return _checked(repo, rest[1], rest[2:])  # it was written as %2F: one segment, one revision
    revision, inside = _split_revision("/".join(rest[1:]))
    return _checked(repo, revision, inside)


def _checked(repo_id: str, revision: str | None, inside: list[str]) -> Reference:
    # Not the text as typed: an address may hold a password or a signature.
    shown = printable("/".join([repo_id, *inside])) or "an empty name"
    kind = _NOT_MODELS.get(repo_id.split("/", 1)[0])
    if kind and "/" in repo_id:
        raise _bad_reference(f"{shown} is a {kind}, not a model", "give the id of a model")
    repo_id, tagged, gguf = repo_id.partition(":")
    if not tagged and inside and inside[-1].lower().endswith(".gguf"):
        gguf, inside = "/".join(inside), []
    if (tagged or gguf) and (not _GGUF_PART.fullmatch(gguf) or ".." in gguf):
        raise _bad_reference(f"{shown} names no GGUF file", "write it like org/name-GGUF:Q4_K_M")
    if repo_id.count("/") > 1:
        raise _bad_reference(f"{shown} is not a model id: it has more than one slash", "give org/name, or a path that starts with ./")
    if not _REPO_ID.fullmatch(repo_id) or "--" in repo_id or ".." in repo_id or repo_id.endswith(".git") or repo_id.startswith("models/"):
        raise _bad_reference(f"{shown} is not a model id", "give org/name, for example Qwen/Qwen3-8B")
    if len(inside) > 1:
        raise _bad_reference(
            f"{shown} points inside the repository; only the {CONFIG} at its top is read",
            "give org/name or org/name@revision, a slash inside a revision written as %2F",
        )
    return Reference(repo_id, _valid_revision(revision) if revision is not None else None, gguf or None)


def _valid_revision(revision: str) -> str:
    # The client joins it to a folder of its cache, so nothing that climbs out of there may pass.
    if not _REVISION.fullmatch(revision) or ".." in revision or "//" in revision or revision.endswith("/"):
        raise _bad_reference(f"{printable(revision) or 'an empty name'} is not a revision", "give a branch, a tag or a commit hash")
    return revision


def _bad_reference(message: str, hint: str) -> UsageError:
    return UsageError("bad-reference", message, hint)


def _hub_address(reference: str) -> str | None:
    """The path of a web address on the Hub (with or without https://), or None for anything else."""
    scheme, separator, rest = reference.partition("://")
    if separator and scheme.lower() not in ("http", "https"):
        return None
    try:
        typed = urlsplit("//" + (rest if separator else reference))
        own = urlsplit(os.environ.get("HF_ENDPOINT", ""))
        here = (typed.hostname, typed.port)
        own_host = (own.hostname, own.port)
    except ValueError:
        return None
    if typed.hostname in ("huggingface.co", "www.huggingface.co", "hf.co"):
        return typed.path
    # A mirror may live under a path of its host: http://host/hub/org/name.
    if own.hostname and here == own_host and f"{typed.path}/".startswith(own.path.rstrip("/") + "/"):
        return typed.path[len(own.path.rstrip("/")) :]
    return None


# GGUF ----------------------------------------------------------------------------------------------------------------


def _base_model(name: str) -> str | None:
    """The model that a GGUF repository or file was made from, as far as its name tells."""
    plain = _GGUF_NAME.sub("", _GGUF_TYPE.sub("", _GGUF_FILE.sub("", name)))
    word = plain.rpartition("/")[2].lower()
    for known in bundled_ids():
        # bartowski/Qwen_Qwen3-8B-GGUF writes org_name
        if known.rpartition("/")[2].lower() == word or known.replace("/", "_").lower() == word:
            return known
    return plain if "/" in plain and _REPO_ID.fullmatch(plain) and not name.lower().endswith(".gguf") else None


def _gguf_source(id: str, kind: str, revision: str | None, files: Files) -> Source:
    from llmcalc import gguf_config

    return Source(id, kind, revision, gguf_config.config(files), None, files.notes, {}, files)


def _gguf_from_path(typed: str, path: Path) -> Source:
    from llmcalc import gguf

    folder = path.parent
    try:
        beside = sorted(os.listdir(folder))[:10_000]
    except OSError:
        beside = []
    extras = [(name, _size(folder / name), why) for name in beside if name.lower().endswith(".gguf") and (why := gguf.not_model(name))]
    try:
        files = gguf.model_files(path.name, lambda name: _on_disk(folder / name), [row for row in extras if row[0] != path.name])
    except SourceError as problem:
        base = _base_model(path.name)
        if problem.code == "file-unreadable" and base:
            problem.hint = f"check the path, or try `model={base}`"
        raise
    return _gguf_source(typed, "file", None, files)


def _gguf_from_hub(repo_id: str, revision: str | None, wanted: str, *, offline: bool) -> Source:
    """A GGUF file of a repository, by name or by the type that its name ends in; only its header is read."""
    from llmcalc import gguf

    base = _base_model(repo_id)
    try:
        commit, sizes, open_, kind = _repository(repo_id, revision, offline=offline)
    except SourceError as problem:
        if base:
            problem.hint = f"{problem.hint}; or take its shape from `model={base}`"
        raise
    by_name = wanted.lower().endswith(".gguf")
    found = [name for name in sizes if name == wanted] if by_name else gguf.with_tag(sorted(sizes), wanted)
    if len(found) != 1:
        several = f"{len(found)} models of type {printable(wanted, 40)}: {', '.join(printable(name, 60) for name in found[:3])}"
        what = several if found else f"no GGUF file {printable(wanted, 60)}"
        types = sorted({hit[0].lstrip("-_.") for name in sizes if (hit := _GGUF_TYPE.search(_GGUF_FILE.sub("", name)))})
        hint = f"it has {', '.join(types[:12])}" if types else f"try `model={base}`" if base else "see its files on the Hub"
        raise SourceError("no-such-file", f"{repo_id} has {what}", hint)
    extras = [(name, size, why) for name, size in sorted(sizes.items()) if name.lower().endswith(".gguf") and (why := gguf.not_model(name))]
    files = gguf.model_files(found[0], open_, extras)
    return _gguf_source(f"{repo_id}:{wanted}", kind, commit, files)


# Weight files --------------------------------------------------------------------------------------------------------


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
        sizes = {name: _size(folder / name) for name in _listed(folder) if name.endswith((".safetensors", ".json"))}
        open_: Callable[[str], Blob] = lambda name: _on_disk(folder / name)  # noqa: E731
        where = printable(str(folder))
    else:
        commit = found.facts.get("revision") if found.kind == "bundled" else found.revision
        _, sizes, open_, _ = _repository(found.id, commit, offline=offline)
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


def _listed(folder: Path) -> list[str]:
    """What lies in a folder. Errors: file-unreadable."""
    try:
        return os.listdir(folder)
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise SourceError("file-unreadable", f"cannot list {printable(str(folder))}: {reason}", "give the path of a file in it") from None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _on_disk(path: Path) -> Blob:
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


def _repository(repo_id: str, revision: str | None, *, offline: bool) -> tuple[str, dict[str, int], Callable[[str], Blob], str]:
    """A repository's commit, its files with their sizes, how to open one, and whether that is the Hub or its cache."""
    hub = _client()
    if offline or hub.constants.HF_HUB_OFFLINE:
        folder = _snapshot(hub, repo_id, revision)
        if folder is None:
            raise _not_cached(hub, repo_id, revision)
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        return folder.name, {name: _size(folder / name) for name in names}, lambda name: _on_disk(folder / name), "hub-cache"
    timeout = hub.constants.HF_HUB_DOWNLOAD_TIMEOUT

    def asked(seconds: float, call: Callable[[], T]) -> T:
        try:
            return _within(seconds, call)
        except LlmcalcError:
            raise
        except Exception as problem:  # every failure of the client is one line for the user
            explained = _explained(hub, problem, repo_id, revision)
            raise explained from (None if explained.code == "bad-token" or "@" in hub.constants.ENDPOINT else problem)

    info = asked(timeout + 2, lambda: hub.HfApi().model_info(repo_id, revision=revision, files_metadata=True, timeout=timeout))
    commit = str(info.sha)
    sizes = {str(file.rfilename): int(file.size or 0) for file in info.siblings or ()}

    def open_(name: str) -> Blob:
        if name not in sizes:
            raise SourceError("missing-shard", f"{repo_id} has no file {printable(name, 100)}", "the set of files is not complete")
        url = hub.hf_hub_url(repo_id, name, revision=commit)
        return Blob(name, sizes[name], lambda offset, count: asked(2 * timeout, lambda: _ranged(hub, url, offset, count, timeout)), 2**20)

    return commit, sizes, open_, "hub"


def _ranged(hub: ModuleType, url: str, offset: int, count: int, timeout: float) -> bytes:
    """Bytes of a file on the Hub; a server that ignores the range is cut off after them."""
    headers = {**hub.utils.build_hf_headers(), "Range": f"bytes={offset}-{offset + count - 1}", "Accept-Encoding": "identity"}
    found = bytearray()
    with hub.utils.get_session().stream("GET", url, headers=headers, timeout=timeout) as answer:
        hub.utils.hf_raise_for_status(answer)
        if answer.status_code != 206 and offset:
            raise SourceError("no-ranges", f"{_host(hub)} does not serve parts of files", "download the file and give its path")
        for piece in answer.iter_bytes(2**16):
            found += piece
            if len(found) >= count:
                break
    return bytes(found[:count])


def _snapshot(hub: ModuleType, repo_id: str, revision: str | None) -> Path | None:
    """The cached files of a repository at a branch, tag or commit."""
    folder = Path(hub.constants.HF_HUB_CACHE) / hub.file_download.repo_folder_name(repo_id=repo_id, repo_type="model")
    commit = revision or "main"
    with suppress(OSError):
        commit = (folder / "refs" / commit).read_text(encoding="utf-8").strip()
    found = folder / "snapshots" / commit
    return found if _COMMIT.fullmatch(commit) and found.is_dir() else None


# Files ---------------------------------------------------------------------------------------------------------------


def _is_path(reference: str) -> bool:
    """A path wins over a Hub id only where it can be nothing else, or where it is a file."""
    if _hub_address(reference) is not None or "://" in reference:
        return False
    if reference.startswith((".", "/", "~")) or os.path.isabs(reference) or os.path.isfile(reference):
        return True
    if reference.lower().endswith((".json", ".gguf", ".safetensors")):
        return True
    return reference.count("/") > 1 and "@" not in reference and os.path.isdir(reference)


def _folder_like(repo_id: str) -> str | None:
    return f"./{repo_id}" if os.path.isdir(repo_id) else None


def _from_path(typed: str) -> Source:
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
            raise SourceError("no-config", f"{printable(typed)} has no {CONFIG}", f"give a folder that holds a {CONFIG}")
        path = path / CONFIG
    config, facts = _config_of(_read_bytes(path), printable(str(path)))
    quant_path = _quant_beside(path)
    quant = _object(_read_bytes(quant_path), printable(str(quant_path))) if quant_path else None
    return Source(typed, "file", None, config, quant, (), facts)


def _only_gguf(folder: Path) -> str | None:
    """The first file of the one GGUF model in a folder."""
    from llmcalc import gguf

    names = [name for name in _listed(folder) if name.lower().endswith(".gguf") and not gguf.not_model(name)]
    first = {(gguf.shards(name) or [name])[0] for name in names}
    return first.pop() if len(first) == 1 else None


def _quant_beside(path: Path) -> Path | None:
    beside = [path.with_name(f"{path.stem}.quant.json")]
    if path.name == CONFIG:
        beside.append(path.with_name(QUANT))
    return next((candidate for candidate in beside if candidate.is_file()), None)


def _from_stdin(stream: TextIO | None) -> Source:
    if stream is None:
        raise UsageError("bad-reference", "there is no stdin to read a config from", f"give the path of a {CONFIG}")
    limit = data.MAX_CONFIG_BYTES + 1
    raw = getattr(stream, "buffer", None)
    content: bytes = raw.read(limit) if raw is not None else stream.read(limit).encode("utf-8", "surrogatepass")
    if not content.strip():
        raise SourceError("not-json", "stdin is empty", f"pipe a {CONFIG} in")
    config, facts = _config_of(content, "stdin")
    return Source("stdin", "stdin", None, config, None, (), facts)


def _read_bytes(path: Path) -> bytes:
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


def _object(content: bytes, name: str) -> dict[str, Any]:
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


def _config_of(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Bytes as (config, our own facts about it)."""
    config = _object(content, name)
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


# Bundled -------------------------------------------------------------------------------------------------------------


def bundled_ids() -> list[str]:
    """The ids of the models that are shipped with llmcalc, sorted."""
    try:
        names = os.listdir(data.bundled("models"))
    except OSError:
        return []
    stems = (name[: -len(".json")] for name in names if name.endswith(".json") and not name.startswith("."))
    return sorted(stem.replace("--", "/") for stem in stems if not stem.endswith(".quant"))


def read_bundled(id: str) -> Source:
    """A shipped model by its exact id. Errors: model-not-found."""
    if id not in bundled_ids():
        raise SourceError("model-not-found", f"{printable(id)} is not a bundled model", _did_you_mean(id))
    path = data.bundled("models") / (id.replace("/", "--") + ".json")
    config, facts = _config_of(_read_bytes(path), path.name)
    quant_path = _quant_beside(path)
    quant = _object(_read_bytes(quant_path), quant_path.name) if quant_path else None
    recorded = facts.get("revision") or facts.get("date")
    return Source(id, "bundled", None if recorded is None else str(recorded), config, quant, (), facts)


def _bundled_at(repo_id: str, revision: str | None) -> Source | None:
    """The shipped copy where it is what was asked for: any case of the id, and no other revision than its own."""
    known = bundled_ids()
    canonical = repo_id if repo_id in known else {name.lower(): name for name in known}.get(repo_id.lower())
    if canonical is None:
        return None
    source = read_bundled(canonical)
    return source if revision is None or revision == source.facts.get("revision") else None


def _did_you_mean(repo_id: str) -> str:
    near = close_matches(repo_id, bundled_ids())
    return f"did you mean {' or '.join(near)}?" if near else "check the name, or give the path of a config.json"


# The Hub -------------------------------------------------------------------------------------------------------------


def _from_hub(repo_id: str, revision: str | None, *, offline: bool, refresh: bool) -> Source:
    """Through huggingface_hub: one HEAD says which commit is current; what is cached at that commit is not fetched."""
    hub = _client()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if offline or hub.constants.HF_HUB_OFFLINE:
            if refresh:
                raise UsageError("bad-option", "refresh asks the Hub, and HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE")
            source = _from_cache(hub, repo_id, revision)
            if source is None:
                raise _not_cached(hub, repo_id, revision)
            return source
        if revision is not None and _COMMIT.fullmatch(revision) and not refresh:
            source = _from_cache(hub, repo_id, revision)  # a commit never changes: nothing to ask
            if source is not None:
                return source
        try:
            return _online(hub, repo_id, revision, refresh)
        except SourceError as problem:
            worth_it = problem.code in _CACHE_HELPS and not refresh
            cached = _from_cache(hub, repo_id, revision) if worth_it else None
            if cached is None:
                raise
            note = f"{problem.message}; using the cached copy at commit {cached.revision}"
            return replace(cached, notes=(note, *cached.notes))


def _client() -> ModuleType:
    """huggingface_hub, imported when it is needed: it costs 150 ms, and it reads its settings on import."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # with it on, the client also asks for a list of agents
    import logging

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import huggingface_hub
            import huggingface_hub.constants
            import huggingface_hub.errors
            import huggingface_hub.file_download
    except (ImportError, ValueError) as problem:
        raise SourceError("hub-client", f"huggingface_hub does not start: {printable(str(problem))}", "check the HF_* variables") from None
    for handler in logging.getLogger("huggingface_hub").handlers:
        handler.addFilter(_not_ours)  # adding it twice adds it once
    return huggingface_hub


def settings() -> dict[str, str]:
    """What governs access to the Hub, for a diagnosis: no password and no token is in it. Asks no network."""
    try:
        hub = _client()
        token = "set" if hub.get_token() else "none"
    except Exception as problem:
        return {"client": str(problem)}
    constants = hub.constants
    there = "" if os.path.isdir(constants.HF_HUB_CACHE) else " (not there yet)"
    return {
        "endpoint": _host(hub),
        "offline": "yes" if constants.HF_HUB_OFFLINE else "no",
        "token": token,
        "cache": f"{constants.HF_HUB_CACHE}{there}",
    }


def _online(hub: ModuleType, repo_id: str, revision: str | None, refresh: bool) -> Source:
    """Ask the Hub. Errors: every way in which that fails, as a SourceError."""
    constants = hub.constants
    try:
        url = hub.hf_hub_url(repo_id, CONFIG, revision=revision)
        # Asked here and not left to hf_hub_download, which on a failure asks again for up to six minutes.
        head = _within(
            constants.HF_HUB_ETAG_TIMEOUT + 2,
            lambda: hub.get_hf_file_metadata(url, timeout=constants.HF_HUB_ETAG_TIMEOUT),
        )
        if head.commit_hash is None or head.etag is None:
            raise _network(hub, "it does not answer as a Hub does")
        if head.size is not None and head.size > data.MAX_CONFIG_BYTES:  # before it is on the disk
            size = f"{CONFIG} of {repo_id} has {head.size:,} bytes; a {WHAT} has at most {data.MAX_CONFIG_BYTES:,}"
            raise SourceError("file-too-large", size, f"give a {WHAT}")
        content, commit, notes = _fetch(hub, repo_id, CONFIG, revision, head.commit_hash, refresh)
    except LlmcalcError:
        raise
    except Exception as problem:  # every failure of the client is one line for the user
        explained = _explained(hub, problem, repo_id, revision)
        secret = explained.code == "bad-token" or "@" in constants.ENDPOINT  # a traceback would show it
        raise explained from (None if secret else problem)
    config, facts = _hub_config(content, repo_id)
    quant = None
    if _may_have_quant_file(config):
        try:
            quant_content, _, _ = _fetch(hub, repo_id, QUANT, commit, commit, refresh)
            quant = _object(quant_content, f"{QUANT} of {repo_id}")
        except LlmcalcError:
            raise
        except Exception as problem:  # whatever it was, the config is there
            explained = _explained(hub, problem, repo_id, revision)
            if explained.code != "no-config":
                notes.append(f"could not look for {QUANT} of {repo_id} ({explained.message})")
    return Source(repo_id, "hub", commit, config, quant, tuple(notes), facts)


def _may_have_quant_file(config: dict[str, Any]) -> bool:
    """hf_quant_config.json is ModelOpt's; a config that names another method has none."""
    block = config.get("quantization_config")
    return not isinstance(block, dict) or "modelopt" in str(block.get("quant_method", "modelopt")).lower()


def _fetch(hub: ModuleType, repo_id: str, name: str, revision: str | None, commit: str, refresh: bool) -> tuple[bytes, str, list[str]]:
    """One file, its commit, and notes; from the cache where that has it at `commit`."""
    if not refresh:
        cached = _cached(hub, repo_id, name, revision)
        if isinstance(cached, str) and Path(cached).parent.name == commit:
            return _read_bytes(Path(cached)), commit, []
        if cached is not None and not isinstance(cached, str) and revision == commit:
            raise hub.errors.EntryNotFoundError(name)  # known from an earlier visit to this commit

    def download(**where: Any) -> Path:
        return Path(
            _within(
                2 * hub.constants.HF_HUB_DOWNLOAD_TIMEOUT,
                lambda: hub.hf_hub_download(repo_id, name, revision=revision, force_download=refresh, **where),
            )
        )

    try:
        path = download()
        return _read_bytes(path), path.parent.name, []
    except OSError as problem:
        if problem.errno not in _UNWRITABLE:
            raise
        note = f"the Hub's cache cannot be written ({(problem.strerror or '').lower()}): nothing was kept"
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = download(cache_dir=folder)
        return _read_bytes(path), path.parent.name, [note]


def _hub_config(content: bytes, repo_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        return _config_of(content, f"{CONFIG} of {repo_id}")
    except SourceError as problem:
        if problem.code == "not-json":
            problem.hint = "if the Hub's page shows it whole, the cached copy is damaged: refresh it"
        raise


def _cached(hub: ModuleType, repo_id: str, name: str, revision: str | None) -> Any:
    """A path (str), None, or the client's mark for a file that is known not to exist."""
    try:
        return hub.try_to_load_from_cache(repo_id, name, revision=revision)
    except (OSError, ValueError):  # a cache that cannot be read is no cache
        return None


def _from_cache(hub: ModuleType, repo_id: str, revision: str | None) -> Source | None:
    """The cached copy; this opens no connection whatever the client's settings are."""
    path = _cached(hub, repo_id, CONFIG, revision)
    if not isinstance(path, str):
        return None
    commit = Path(path).parent.name
    config, facts = _hub_config(_read_bytes(Path(path)), repo_id)
    quant_path = _cached(hub, repo_id, QUANT, commit)
    quant = _object(_read_bytes(Path(quant_path)), f"{QUANT} of {repo_id}") if isinstance(quant_path, str) else None
    return Source(repo_id, "hub-cache", commit, config, quant, (), facts)


def _not_cached(hub: ModuleType, repo_id: str, revision: str | None) -> SourceError:
    cached = _cached_revisions(hub, repo_id)
    if cached:
        at = printable(revision) if revision else "main"
        message = f"{repo_id} is not cached at revision {at}; cached: {', '.join(cached)}"
        return SourceError("offline-not-cached", message, "ask for one of these, or go online once")
    near = close_matches(repo_id, bundled_ids())
    hint = f"bundled: {', '.join(near)}" if near else f"go online once, or give the path of a {CONFIG}"
    return SourceError("offline-not-cached", f"{repo_id} is neither bundled nor cached, and the network is off", hint)


def _cached_revisions(hub: ModuleType, repo_id: str) -> list[str]:
    """Branches and tags with their commits, then commits that have no name; only those with a config."""
    folder = Path(hub.constants.HF_HUB_CACHE) / hub.file_download.repo_folder_name(repo_id=repo_id, repo_type="model")
    commits = {path.parent.name for path in folder.glob(f"snapshots/*/{CONFIG}")}
    names: list[str] = []
    unnamed = set(commits)
    for ref in sorted(path for path in folder.glob("refs/**/*") if path.is_file()):
        commit = ""
        with suppress(OSError):
            commit = ref.read_text(encoding="utf-8", errors="replace").strip()
        if commit in commits:
            names.append(f"{printable(ref.relative_to(folder / 'refs').as_posix())} ({commit[:12]})")
            unnamed.discard(commit)
    return names + sorted(unnamed)


def _within(seconds: float, call: Callable[[], T]) -> T:
    """The call's result, or TimeoutError. The client sleeps through a Retry-After of any length, and name resolution
    knows no timeout, so the call is left behind in a thread of its own when patience ends."""
    results: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as problem:  # raised again below, in the caller's thread
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True, name=_THREAD)
    thread.start()
    thread.join(seconds)
    if problems:
        raise problems[0]
    if not results:
        raise TimeoutError
    return results[0]


def _not_ours(record: logging.LogRecord) -> bool:
    """A log filter that drops what the client says on our behalf, also from a call that was left behind."""
    return record.threadName != _THREAD


# Failures of the Hub, explained --------------------------------------------------------------------------------------


def _explained(hub: ModuleType, problem: BaseException, repo_id: str, revision: str | None) -> SourceError:
    """The client's exception as one of ours. Kinds are told by class name: the client has changed its HTTP library
    twice (requests, httpx, httpx2). `LocalEntryNotFoundError` is only a wrapper, so the whole chain is looked at."""
    chain = list(_causes(problem))
    answered = next((link for link in chain if getattr(link, "response", None) is not None), None)
    if answered is not None:
        return _refusal(hub, answered, repo_id, revision)
    names = {cls.__name__ for link in chain for cls in type(link).__mro__}
    host = _host(hub)
    if any("Timeout" in name for name in names):
        return SourceError("timeout", f"{host} did not answer in time", "try again, or raise HF_HUB_ETAG_TIMEOUT")
    if names & {"UnicodeEncodeError", "LocalProtocolError"}:
        return _bad_token(host)
    if "FileMetadataError" in names:
        return _network(hub, "it does not answer as a Hub does")
    if names & {"UnsupportedProtocol", "InvalidURL", "MissingSchema", "InvalidSchema"}:
        return _network(hub, "HF_ENDPOINT is not a web address")
    if "EntryNotFoundError" in names and "LocalEntryNotFoundError" not in names:
        return _no_config(repo_id)
    return _network(hub, _reason(chain))


def _causes(problem: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = problem
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__  # httpcore hides the socket's error with `from None`


def _refusal(hub: ModuleType, problem: BaseException, repo_id: str, revision: str | None) -> SourceError:
    """An HTTP answer that is not the file."""
    response: Any = getattr(problem, "response", None)
    status = int(response.status_code)
    names = {cls.__name__ for cls in type(problem).__mro__}
    host = _host(hub)
    if "GatedRepoError" in names:  # first: it is a kind of RepositoryNotFoundError
        return SourceError(
            "gated",
            f"{repo_id} is gated: its terms must be accepted first",
            f"accept them at {_page(hub, repo_id)}, then `hf auth login` or set HF_TOKEN; or give a {CONFIG} file",
        )
    if "RevisionNotFoundError" in names:
        return SourceError(
            "revision-not-found",
            f"{repo_id} has no revision {printable(revision or 'main')}",
            f"see {_page(hub, repo_id)}/tree/main for its branches and tags",
        )
    if "EntryNotFoundError" in names:
        return _no_config(repo_id)
    if "invalid credentials" in str(response.headers.get("X-Error-Message", "")).lower():
        return _bad_token(host)
    if "RepositoryNotFoundError" in names or status in (401, 404):
        return SourceError("model-not-found", f"{repo_id} was not found on {host}, or is private", _did_you_mean(repo_id))
    if status == 429:
        wait = re.search(r"^\s*(\d{1,6})\s*$|;\s*t\s*=\s*(\d{1,6})", _wait_header(response.headers))
        hint = f"try again in {wait.group(1) or wait.group(2)} s" if wait else "try again later"
        return SourceError("rate-limited", f"{host} asks for fewer requests", f"{hint}; `hf auth login` raises the limit")
    if status == 408:
        return SourceError("timeout", f"{host} did not answer in time", "try again")
    if status >= 500:
        return SourceError("server-error", f"{host} has a problem of its own (HTTP {status})", "try again later")
    return SourceError("refused", f"{host} refuses {repo_id} (HTTP {status})", "check what your token may read")


def _wait_header(headers: Any) -> str:
    """`Retry-After: 55`, or the Hub's own `RateLimit: "api";r=0;t=55`."""
    return str(headers.get("Retry-After") or headers.get("RateLimit") or "")


def _no_config(repo_id: str) -> SourceError:
    base = _base_model(repo_id) if _GGUF_NAME.search(repo_id) else None
    named = f"it holds GGUF files: name one, as in {repo_id}:Q4_K_M, or try `model={base}`"
    hint = named if base else "give the model that it was made from"
    return SourceError("no-config", f"{repo_id} has no {CONFIG}", hint)


def _bad_token(host: str) -> SourceError:
    return SourceError("bad-token", f"{host} was sent a token that it cannot take", "renew HF_TOKEN, or `hf auth login`")


def _network(hub: ModuleType, reason: str) -> SourceError:
    hint = f"check the connection, proxy and HF_ENDPOINT, or give the path of a {CONFIG}"
    return SourceError("network", f"cannot reach {_host(hub)}: {reason}", hint)


def _reason(chain: list[BaseException]) -> str:
    """The operating system's word for it; it knows no address and no token."""
    import socket

    for link in reversed(chain):
        if isinstance(link, socket.gaierror):
            return "the name does not resolve"
        if isinstance(link, OSError) and link.strerror:
            return printable(link.strerror.lower())
    return f"the connection failed ({type(chain[-1]).__name__})"


def _host(hub: ModuleType) -> str:
    """The endpoint's host and port: never its user name and password."""
    return printable(str(hub.constants.ENDPOINT).split("://")[-1].split("/")[0].rpartition("@")[2])


def _page(hub: ModuleType, repo_id: str) -> str:
    scheme, _, rest = str(hub.constants.ENDPOINT).rpartition("://")
    authority, slash, path = rest.partition("/")
    return printable(f"{scheme or 'https'}://{authority.rpartition('@')[2]}{slash}{path}/{repo_id}")
