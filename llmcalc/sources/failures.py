"""Failures of the Hub, explained. Messages are built from kinds of failure, never from the client's own text: that may hold an
address with a password or a header with a token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from llmcalc.errors import SourceError, printable
from llmcalc.sources.bundled import GGUF_NAME, base_model, did_you_mean
from llmcalc.sources.client import host_of, page_of
from llmcalc.sources.source import CONFIG


def explain(hub: ModuleType, problem: BaseException, repo_id: str, revision: str | None) -> SourceError:
    """The client's exception as one of ours. Kinds are told by class name: the client has changed its HTTP library
    twice (requests, httpx, httpx2). `LocalEntryNotFoundError` is only a wrapper, so the whole chain is looked at."""
    chain = list(_causes(problem))
    answered = next((link for link in chain if getattr(link, "response", None) is not None), None)
    if answered is not None:
        return _refusal(hub, answered, repo_id, revision)
    names = {cls.__name__ for link in chain for cls in type(link).__mro__}
    host = host_of(hub)
    if any("Timeout" in name for name in names):
        return SourceError("timeout", f"{host} did not answer in time", "try again, or raise HF_HUB_ETAG_TIMEOUT")
    if names & {"UnicodeEncodeError", "LocalProtocolError"}:
        return _bad_token(host)
    if "FileMetadataError" in names:
        return network(hub, "it does not answer as a Hub does")
    if names & {"UnsupportedProtocol", "InvalidURL", "MissingSchema", "InvalidSchema"}:
        return network(hub, "HF_ENDPOINT is not a web address")
    if "EntryNotFoundError" in names and "LocalEntryNotFoundError" not in names:
        return no_config(repo_id)
    return network(hub, _reason(chain))


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
    host = host_of(hub)
    if "GatedRepoError" in names:  # first: it is a kind of RepositoryNotFoundError
        terms = f"accept them at {page_of(hub, repo_id)}"
        if hub.get_token():
            told = f"{repo_id} is gated, and the token that is set may not read it: its account has not accepted the terms"
            return SourceError("gated", told, f"{terms} as that account, or let the token read gated models; or give a {CONFIG} file")
        told = f"{repo_id} is gated: its terms must be accepted first"
        return SourceError("gated", told, f"{terms}, then `hf auth login` or set HF_TOKEN; or give a {CONFIG} file")
    if "RevisionNotFoundError" in names:
        return SourceError(
            "revision-not-found",
            f"{repo_id} has no revision {printable(revision or 'main')}",
            f"see {page_of(hub, repo_id)}/tree/main for its branches and tags",
        )
    if "EntryNotFoundError" in names:
        return no_config(repo_id)
    if "invalid credentials" in str(response.headers.get("X-Error-Message", "")).lower():
        return _bad_token(host)
    if "RepositoryNotFoundError" in names or status in (401, 404):
        unseen = "or the token that is set may not see it" if hub.get_token() else "or is private"
        return SourceError("model-not-found", f"{repo_id} was not found on {host}, {unseen}", did_you_mean(repo_id))
    if status == 429:
        wait = re.search(r"^\s*(\d{1,6})\s*$|;\s*t\s*=\s*(\d{1,6})", _wait_header(response.headers))
        hint = f"try again in {wait.group(1) or wait.group(2)} s" if wait else "try again later"
        return SourceError("rate-limited", f"{host} asks for fewer requests", f"{hint}; `hf auth login` raises the limit")
    if status == 408:
        return SourceError("timeout", f"{host} did not answer in time", "try again")
    if status >= 500:
        return SourceError("server-error", f"{host} has a problem of its own (HTTP {status})", "try again later")
    if status == 403 and hub.get_token():
        told = f"the token that is set is not allowed to read {repo_id} on {host} (HTTP 403)"
        return SourceError("refused", told, "give the token that right, or set HF_TOKEN to another")
    return SourceError("refused", f"{host} refuses {repo_id} (HTTP {status})", "check what your token may read")


def _wait_header(headers: Any) -> str:
    """`Retry-After: 55`, or the Hub's own `RateLimit: "api";r=0;t=55`."""
    return str(headers.get("Retry-After") or headers.get("RateLimit") or "")


def no_config(repo_id: str) -> SourceError:
    """A repository without a config.json; one of GGUF files has hints of its own."""
    base = base_model(repo_id) if GGUF_NAME.search(repo_id) else None
    named = f"it holds GGUF files: name one, as in {repo_id}:Q4_K_M, or try `model={base}`"
    hint = named if base else "give the model that it was made from"
    return SourceError("no-config", f"{repo_id} has no {CONFIG}", hint)


def _bad_token(host: str) -> SourceError:
    return SourceError("bad-token", f"{host} was sent a token that it cannot take", "renew HF_TOKEN, or `hf auth login`")


def network(hub: ModuleType, reason: str) -> SourceError:
    """The Hub cannot be reached."""
    hint = f"check the connection, proxy and HF_ENDPOINT, or give the path of a {CONFIG}"
    return SourceError("network", f"cannot reach {host_of(hub)}: {reason}", hint)


def _reason(chain: list[BaseException]) -> str:
    """The operating system's word for it; it knows no address and no token."""
    import socket

    for link in reversed(chain):
        if isinstance(link, socket.gaierror):
            return "the name does not resolve"
        if isinstance(link, OSError) and link.strerror:
            return printable(link.strerror.lower())
    return f"the connection failed ({type(chain[-1]).__name__})"
