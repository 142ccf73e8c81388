"""References to models: ids, revisions, hf:// and web addresses of the Hub. Nothing is read here."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from llmcalc.errors import UsageError, printable
from llmcalc.sources.source import CONFIG

REPO_ID = re.compile(r"(\b[\w\-.]{1,96}\b/)?\b[\w\-.]{1,96}\b", re.ASCII)  # the Hub's own rule


_REVISION = re.compile(r"[A-Za-z0-9][\w.\-+/@]{0,254}", re.ASCII)


_WHOLE_REF = re.compile(r"refs/(?:pr/\d+|convert/[\w.\-]+)(?=/|$)", re.ASCII)


_NOT_MODELS = {"datasets": "dataset", "spaces": "space", "kernels": "kernel", "buckets": "bucket"}


_WITH_REVISION = {"tree", "blob", "resolve", "raw", "blame", "commit", "commits"}


_PAGES = _WITH_REVISION | {"discussions", "settings", "edit"}


_GGUF_PART = re.compile(r"[\w\-][\w.\-/+ ]{0,200}", re.ASCII)


class Reference(NamedTuple):
    """What a reference to the Hub names: a repository, a revision, and a GGUF file of it by name or type."""

    repo_id: str
    revision: str | None
    gguf: str | None = None


def parse_hub_reference(reference: str) -> tuple[str, str | None]:
    """`org/name@revision`, hf:// or a Hub address, as (id, revision). Errors: bad-reference."""
    return parse_reference(reference)[:2]


def parse_reference(reference: str) -> Reference:
    """A reference to the Hub in any of its spellings. Errors: bad-reference."""
    if reference[:5].lower() == "hf://":
        return _parse_id(reference[5:].removeprefix("models/"), uri=True)
    address = hub_address(reference)
    if address is not None:
        return _parse_address(address)
    if "://" in reference:
        host = reference.split("://", 1)[1].split("/", 1)[0].rpartition("@")[2]
        raise bad_reference(f"{printable(host)} is not the Hub", "give org/name, or a folder, or a config.json")
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
    if uri or rest.lower().endswith((".json", ".gguf")):
        revision, inside = _split_revision(rest)
        return _checked(repo, unquote(revision), inside)
    return _checked(repo, unquote(rest), [])  # a branch may have a slash in its name


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
    # The page of the main branch is the model's own page: nobody who pastes it asks for a revision.
    return _checked(repo, None if revision == "main" and rest[0] in ("tree", "blob") else revision, inside)


def _checked(repo_id: str, revision: str | None, inside: list[str]) -> Reference:
    # Not the text as typed: an address may hold a password or a signature.
    shown = printable("/".join([repo_id, *inside])) or "an empty name"
    kind = _NOT_MODELS.get(repo_id.split("/", 1)[0])
    if kind and "/" in repo_id:
        raise bad_reference(f"{shown} is a {kind}, not a model", "give the id of a model")
    repo_id, tagged, gguf = repo_id.partition(":")
    if not tagged and inside and inside[-1].lower().endswith(".gguf"):
        gguf, inside = "/".join(inside), []
    if (tagged or gguf) and (not _GGUF_PART.fullmatch(gguf) or ".." in gguf):
        raise bad_reference(f"{shown} names no GGUF file", "write it like org/name-GGUF:Q4_K_M")
    if repo_id.count("/") > 1:
        raise bad_reference(f"{shown} is not a model id: it has more than one slash", "give org/name, or a path that starts with ./")
    if not REPO_ID.fullmatch(repo_id) or "--" in repo_id or ".." in repo_id or repo_id.endswith(".git") or repo_id.startswith("models/"):
        raise bad_reference(f"{shown} is not a model id", "give org/name, for example Qwen/Qwen3-8B")
    if len(inside) > 1:
        raise bad_reference(
            f"{shown} points inside the repository; only the {CONFIG} at its top is read",
            "give org/name or org/name@revision, a slash inside a revision written as %2F",
        )
    return Reference(repo_id, valid_revision(revision) if revision is not None else None, gguf or None)


def valid_revision(revision: str) -> str:
    """A revision that can be joined to a path. Errors: bad-reference."""
    # The client joins it to a folder of its cache, so nothing that climbs out of there may pass.
    if not _REVISION.fullmatch(revision) or ".." in revision or "//" in revision or revision.endswith("/"):
        raise bad_reference(f"{printable(revision) or 'an empty name'} is not a revision", "give a branch, a tag or a commit hash")
    return revision


def bad_reference(message: str, hint: str) -> UsageError:
    """The error of what is no reference."""
    return UsageError("bad-reference", message, hint)


def hub_address(reference: str) -> str | None:
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
