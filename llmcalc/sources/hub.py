"""Configs from the Hub and its cache."""

from __future__ import annotations

import errno
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from llmcalc import data
from llmcalc.errors import LlmcalcError, SourceError, UsageError, close_matches, printable
from llmcalc.sources.bundled import bundled_ids
from llmcalc.sources.cache import COMMIT, checked, keep, keep_absence, name_commit, whole
from llmcalc.sources.client import hub_client, within
from llmcalc.sources.content import config_of, json_object, read_bytes
from llmcalc.sources.failures import explain, network
from llmcalc.sources.source import CONFIG, QUANT, WHAT, Source

_CACHE_HELPS = {
    *("network", "timeout", "server-error", "rate-limited"),
    *("gated", "model-not-found", "bad-token", "refused"),  # what was fetched while it was allowed stays readable
}


_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EEXIST}


def from_hub(repo_id: str, revision: str | None, *, offline: bool, refresh: bool) -> Source:
    """Through huggingface_hub: one HEAD says which commit is current; what is cached at that commit is not fetched."""
    hub = hub_client()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if offline or hub.constants.HF_HUB_OFFLINE:
            if refresh:
                raise UsageError("bad-option", "refresh asks the Hub, and HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE")
            source = _from_cache(hub, repo_id, revision)
            if source is None:
                raise not_cached(hub, repo_id, revision, offline=offline)
            return source
        if revision is not None and COMMIT.fullmatch(revision) and not refresh:
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


def _online(hub: ModuleType, repo_id: str, revision: str | None, refresh: bool) -> Source:
    """Ask the Hub. Errors: every way in which that fails, as a SourceError."""
    constants = hub.constants
    try:
        head = _asked(hub, repo_id, CONFIG, revision)
        commit = checked(hub, "commit", head.commit_hash)
        content, notes = _fetch(hub, repo_id, CONFIG, revision, head, refresh)
    except LlmcalcError:
        raise
    except Exception as problem:  # every failure of the client is one line for the user
        explained = explain(hub, problem, repo_id, revision)
        secret = explained.code == "bad-token" or "@" in constants.ENDPOINT  # a traceback would show it
        raise explained from (None if secret else problem)
    config, facts = _hub_config(content, repo_id)
    quant = None
    if _may_have_quant_file(config):
        try:
            quant_content = _quant_file(hub, repo_id, commit, refresh)
            quant = None if quant_content is None else json_object(quant_content, f"{QUANT} of {repo_id}")
        except LlmcalcError:
            raise
        except Exception as problem:  # whatever it was, the config is there
            explained = explain(hub, problem, repo_id, revision)
            if explained.code != "no-config":
                notes.append(f"could not look for {QUANT} of {repo_id} ({explained.message})")
    return Source(repo_id, "hub", commit, config, quant, tuple(notes), facts)


def _may_have_quant_file(config: dict[str, Any]) -> bool:
    """hf_quant_config.json is ModelOpt's; a config that names another method has none."""
    block = config.get("quantization_config")
    return not isinstance(block, dict) or "modelopt" in str(block.get("quant_method", "modelopt")).lower()


def _asked(hub: ModuleType, repo_id: str, name: str, revision: str | None) -> Any:
    """What a HEAD says of a file. Asked once, as the client would ask again for up to six minutes."""
    patience = hub.constants.HF_HUB_ETAG_TIMEOUT
    url = hub.hf_hub_url(repo_id, name, revision=revision)
    head = within(patience + 2, lambda: hub.get_hf_file_metadata(url, timeout=patience))
    if head.commit_hash is None or head.etag is None:
        raise network(hub, "it does not answer as a Hub does")
    if head.size is not None and head.size > data.MAX_CONFIG_BYTES:
        size = f"{name} of {repo_id} has {head.size:,} bytes; a {WHAT} has at most {data.MAX_CONFIG_BYTES:,}"
        raise SourceError("file-too-large", size, f"give a {WHAT}")
    return head


def _fetch(hub: ModuleType, repo_id: str, name: str, revision: str | None, head: Any, refresh: bool) -> tuple[bytes, list[str]]:
    """One file and notes; from the cache where that has it at the commit, else kept there once it is whole."""
    commit, etag = checked(hub, "commit", head.commit_hash), checked(hub, "ETag", head.etag)
    cached = None if refresh else _cached(hub, repo_id, name, commit)
    if isinstance(cached, str):
        with suppress(OSError):
            name_commit(hub, repo_id, revision, commit)
        return read_bytes(Path(cached)), []
    patience = hub.constants.HF_HUB_DOWNLOAD_TIMEOUT
    url = hub.hf_hub_url(repo_id, name, revision=commit)
    if urlsplit(head.location)[:2] == urlsplit(url)[:2]:
        url = head.location  # where the HEAD was sent on to; to another host the client goes without the token
    content = within(2 * patience, lambda: whole(hub, url, patience, data.MAX_CONFIG_BYTES, f"{name} of {repo_id}"))
    try:
        keep(hub, repo_id, name, revision, commit, etag, content)
    except OSError as problem:
        if problem.errno not in _UNWRITABLE:
            raise
        return content, [f"the Hub's cache cannot be written ({(problem.strerror or '').lower()}): nothing was kept"]
    return content, []


def _quant_file(hub: ModuleType, repo_id: str, commit: str, refresh: bool) -> bytes | None:
    """hf_quant_config.json of a commit, or None where it is known that there is none."""
    cached = None if refresh else _cached(hub, repo_id, QUANT, commit)
    if isinstance(cached, str):
        return read_bytes(Path(cached))
    if cached is not None:
        return None
    try:
        return _fetch(hub, repo_id, QUANT, commit, _asked(hub, repo_id, QUANT, commit), refresh)[0]
    except Exception as problem:
        if "EntryNotFoundError" in {kind.__name__ for kind in type(problem).__mro__}:
            keep_absence(hub, repo_id, QUANT, commit)
        raise


def _hub_config(content: bytes, repo_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        return config_of(content, f"{CONFIG} of {repo_id}")
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
    config, facts = _hub_config(read_bytes(Path(path)), repo_id)
    quant_path = _cached(hub, repo_id, QUANT, commit)
    quant = json_object(read_bytes(Path(quant_path)), f"{QUANT} of {repo_id}") if isinstance(quant_path, str) else None
    return Source(repo_id, "hub-cache", commit, config, quant, (), facts)


def not_cached(hub: ModuleType, repo_id: str, revision: str | None, *, offline: bool) -> SourceError:
    """The error of a model that is neither bundled nor cached while the network is off."""
    cached = _cached_revisions(hub, repo_id)
    if cached:
        at = printable(revision) if revision else "main"
        message = f"{repo_id} is not cached at revision {at}; cached: {', '.join(cached)}"
        return SourceError("offline-not-cached", message, "ask for one of these, or go online once")
    near = close_matches(repo_id, bundled_ids())
    hint = f"bundled: {', '.join(near)}" if near else f"go online once, or give the path of a {CONFIG}"
    off = "the network is off" if offline else "HF_HUB_OFFLINE is set"
    return SourceError("offline-not-cached", f"{repo_id} is neither bundled nor cached, and {off}", hint)


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
