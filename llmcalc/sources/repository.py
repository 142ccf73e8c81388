"""Files of a repository on the Hub: what there is, and the headers at their beginnings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

from llmcalc import data
from llmcalc.errors import LlmcalcError, SourceError, printable
from llmcalc.files import Blob
from llmcalc.sources.bundled import GGUF_FILE, GGUF_TYPE, base_model
from llmcalc.sources.cache import COMMIT, checked, refuse, whole
from llmcalc.sources.client import T, host_of, hub_client, within
from llmcalc.sources.content import json_object
from llmcalc.sources.failures import explain
from llmcalc.sources.files import gguf_source, on_disk, size_of
from llmcalc.sources.hub import not_cached
from llmcalc.sources.source import Source


def gguf_from_hub(repo_id: str, revision: str | None, wanted: str, *, offline: bool) -> Source:
    """A GGUF file of a repository, by name or by the type that its name ends in; only its header is read."""
    from llmcalc import gguf

    base = base_model(repo_id)
    try:
        commit, sizes, open_, kind = repository(repo_id, revision, offline=offline)
    except SourceError as problem:
        if base:
            problem.hint = f"{problem.hint}; or take its shape from `model={base}`"
        raise
    by_name = wanted.lower().endswith(".gguf")
    found = [name for name in sizes if name == wanted] if by_name else gguf.with_tag(sorted(sizes), wanted)
    if len(found) != 1:
        several = f"{len(found)} models of type {printable(wanted, 40)}: {', '.join(printable(name, 60) for name in found[:3])}"
        what = several if found else f"no GGUF file {printable(wanted, 60)}"
        types = sorted({hit[0].lstrip("-_.") for name in sizes if (hit := GGUF_TYPE.search(GGUF_FILE.sub("", name)))})
        hint = f"it has {', '.join(types[:12])}" if types else f"try `model={base}`" if base else "see its files on the Hub"
        raise SourceError("no-such-file", f"{repo_id} has {what}", hint)
    extras = [(name, size, why) for name, size in sorted(sizes.items()) if name.lower().endswith(".gguf") and (why := gguf.not_model(name))]
    files = gguf.model_files(found[0], open_, extras)
    return gguf_source(f"{repo_id}:{wanted}", kind, commit, files)


def repository(repo_id: str, revision: str | None, *, offline: bool) -> tuple[str, dict[str, int], Callable[[str], Blob], str]:
    """A repository's commit, its files with their sizes, how to open one, and whether that is the Hub or its cache."""
    hub = hub_client()
    if offline or hub.constants.HF_HUB_OFFLINE:
        folder = _snapshot(hub, repo_id, revision)
        if folder is None:
            raise not_cached(hub, repo_id, revision, offline=offline)
        names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        return folder.name, {name: size_of(folder / name) for name in names}, lambda name: on_disk(folder / name), "hub-cache"
    timeout = hub.constants.HF_HUB_DOWNLOAD_TIMEOUT

    def asked(seconds: float, call: Callable[[], T]) -> T:
        try:
            return within(seconds, call)
        except LlmcalcError:
            raise
        except Exception as problem:  # every failure of the client is one line for the user
            explained = explain(hub, problem, repo_id, revision)
            raise explained from (None if explained.code == "bad-token" or "@" in hub.constants.ENDPOINT else problem)

    commit, sizes = asked(timeout + 2, lambda: _listed(hub, repo_id, revision, timeout))

    def open_(name: str) -> Blob:
        if name not in sizes:
            raise SourceError("missing-shard", f"{repo_id} has no file {printable(name, 100)}", "the set of files is not complete")
        url = hub.hf_hub_url(repo_id, name, revision=commit)
        return Blob(name, sizes[name], lambda offset, count: asked(2 * timeout, lambda: ranged(hub, url, offset, count, timeout)), 2**20)

    return commit, sizes, open_, "hub"


def _listed(hub: ModuleType, repo_id: str, revision: str | None, timeout: float) -> tuple[str, dict[str, int]]:
    """A repository's commit and the sizes of its files. Errors: bad-answer, file-too-large; the client's own."""
    at = f"/revision/{quote(revision, safe='')}" if revision else ""
    what = f"the list of files of {repo_id}"
    url = f"{hub.constants.ENDPOINT}/api/models/{repo_id}{at}?blobs=true"
    told = json_object(whole(hub, url, timeout, data.MAX_CONFIG_BYTES, what), what)
    listed = told.get("siblings") or []
    sizes: dict[str, int] = {}
    for file in listed if isinstance(listed, list) else []:
        size = file.get("size") if isinstance(file, dict) else None
        name = checked(hub, "file", file.get("rfilename") if isinstance(file, dict) else file)
        sizes[name] = size if isinstance(size, int) and size >= 0 else 0
    return checked(hub, "commit", told.get("sha")), sizes


def ranged(hub: ModuleType, url: str, offset: int, count: int, timeout: float) -> bytes:
    """Bytes of a file on the Hub; a server that ignores the range is cut off after them."""
    headers = {**hub.utils.build_hf_headers(), "Range": f"bytes={offset}-{offset + count - 1}", "Accept-Encoding": "identity"}
    found = bytearray()
    with hub.utils.get_session().stream("GET", url, headers=headers, timeout=timeout) as answer:
        refuse(hub, answer)
        if answer.status_code != 206 and offset:
            raise SourceError("no-ranges", f"{host_of(hub)} does not serve parts of files", "download the file and give its path")
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
    return found if COMMIT.fullmatch(commit) and found.is_dir() else None
