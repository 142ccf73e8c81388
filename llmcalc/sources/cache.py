"""What comes from the Hub, held to what it may be, and kept where huggingface_hub keeps it: blobs by hash, snapshots by commit.

A server chooses an ETag, a commit and names of files; none of them becomes a path before it is known to be a hash or a plain name.
"""

from __future__ import annotations

import os
import re
import zlib
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from llmcalc import data
from llmcalc.errors import SourceError, printable
from llmcalc.sources.client import host_of

COMMIT = re.compile(r"[0-9a-f]{40}")
_ETAG = re.compile(r"[0-9A-Fa-f]{16,128}(-\d{1,6})?")
_NAME = re.compile(r"(?!/)(?!.*(^|/)\.\.?(/|$))[^\0-\x1f\x7f\\:]{1,1000}")


def checked(hub: ModuleType, kind: str, value: object) -> str:
    """An ETag, commit or file name as it is, if it is one. Errors: bad-answer."""
    pattern, words = {"ETag": (_ETAG, "no hash"), "commit": (COMMIT, "no hash"), "file": (_NAME, "no name of a file in a folder")}[kind]
    if not isinstance(value, str) or not pattern.fullmatch(value):
        message = f"{host_of(hub)} answers with the {kind} {printable(repr(value), 100)}, which is {words}"
        raise SourceError("bad-answer", message, "nothing was written; is HF_ENDPOINT a Hub that you trust?")
    return value


def bounded(hub: ModuleType, answer: Any, most: int, what: str) -> bytes:
    """The body of an answer, unpacked, of at most `most` bytes. Errors: file-too-large, bad-answer."""
    coding = str(answer.headers.get("content-encoding") or "identity").lower()
    if coding not in ("identity", "gzip", "deflate"):
        raise SourceError("bad-answer", f"{host_of(hub)} answers in the encoding {printable(coding, 40)!r}", "it was asked for plain bytes")
    unpack = None if coding == "identity" else zlib.decompressobj(zlib.MAX_WBITS | 32)
    found = bytearray()
    try:
        for piece in answer.iter_raw(2**16):
            found += piece if unpack is None else unpack.decompress(piece, most + 1 - len(found))
            if len(found) > most or (unpack is not None and unpack.unconsumed_tail):
                raise SourceError("file-too-large", f"{what} is over {most:,} bytes", "nothing was kept of it")
    except zlib.error:
        raise SourceError("bad-answer", f"{what} of {host_of(hub)} cannot be unpacked", "try again, or give the path of a file") from None
    return bytes(found)


def whole(hub: ModuleType, url: str, timeout: float, most: int, what: str) -> bytes:
    """All of a file or answer on the Hub, if it is not more than that. Errors: file-too-large, bad-answer; the client's own."""
    headers = {**hub.utils.build_hf_headers(), "Accept-Encoding": "identity"}
    with hub.utils.get_session().stream("GET", url, headers=headers, timeout=timeout) as answer:
        refuse(hub, answer)
        return bounded(hub, answer, most, what)


def refuse(hub: ModuleType, answer: Any) -> None:
    """The client's error for a status of 400 or more. It words it from the headers: it would read a body of any length."""
    if answer.status_code >= 400:
        headers = {name: value for name, value in answer.headers.items() if name.lower().startswith(("x-error-", "www-auth", "retry-"))}
        hub.utils.hf_raise_for_status(type(answer)(answer.status_code, headers=headers, content=b"{}", request=answer.request))


def _folder(hub: ModuleType, repo_id: str) -> Path:
    return Path(hub.constants.HF_HUB_CACHE, str(hub.file_download.repo_folder_name(repo_id=repo_id, repo_type="model")))


def keep(hub: ModuleType, repo_id: str, name: str, revision: str | None, commit: str, etag: str, content: bytes) -> None:
    """A file into the cache, as the client would. Errors: OSError."""
    folder = _folder(hub, repo_id)
    blob, pointer = folder / "blobs" / etag, folder / "snapshots" / commit / name
    for parent in (blob.parent, pointer.parent):
        parent.mkdir(parents=True, exist_ok=True)
    name_commit(hub, repo_id, revision, commit)
    if blob.is_symlink():
        blob.unlink()  # what it leads to is not ours
    data.write_whole(blob, content)
    if pointer.is_symlink() or pointer.exists():
        pointer.unlink()
    try:
        pointer.symlink_to(os.path.relpath(blob, pointer.parent))
    except FileExistsError:
        pass  # another process was faster
    except OSError:  # no links here
        data.write_whole(pointer, content)


def keep_absence(hub: ModuleType, repo_id: str, name: str, commit: str) -> None:
    """That a commit has no such file, so that nobody asks again; a cache that cannot be written forgets it."""
    with suppress(OSError):
        mark = _folder(hub, repo_id) / ".no_exist" / commit / name
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def name_commit(hub: ModuleType, repo_id: str, revision: str | None, commit: str) -> None:
    """refs/<branch or tag> holds its commit. Errors: OSError."""
    name, refs = revision or "main", _folder(hub, repo_id) / "refs"
    ref = refs / name
    if name != commit and _NAME.fullmatch(name) and refs.resolve() in ref.resolve().parents:
        ref.parent.mkdir(parents=True, exist_ok=True)
        data.write_whole(ref, commit.encode())
