"""huggingface_hub, imported late and never waited for longer than its own timeouts."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from llmcalc.errors import SourceError, printable

if TYPE_CHECKING:
    import logging


T = TypeVar("T")


_THREAD = "llmcalc-hub"


def hub_client() -> ModuleType:
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
        import huggingface_hub  # without its requests, which take ten times as long to import
        import huggingface_hub.constants
    except Exception as problem:
        return {"client": f"huggingface_hub does not start: {printable(str(problem))}"}
    constants = huggingface_hub.constants
    named = any(os.environ.get(name, "").strip() for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"))
    token = "set" if named or _says_something(constants.HF_TOKEN_PATH) else "none"
    there = "" if os.path.isdir(constants.HF_HUB_CACHE) else " (not there yet)"
    return {
        "endpoint": host_of(huggingface_hub),
        "offline": "yes" if constants.HF_HUB_OFFLINE else "no",
        "token": token,
        "cache": f"{constants.HF_HUB_CACHE}{there}",
    }


def _says_something(path: str) -> bool:
    try:
        with open(path, encoding="utf-8") as stream:
            return bool(stream.read(1000).strip())
    except (OSError, ValueError):
        return False


def within(seconds: float, call: Callable[[], T]) -> T:
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


def host_of(hub: ModuleType) -> str:
    """The endpoint's host and port: never its user name and password."""
    return printable(str(hub.constants.ENDPOINT).split("://")[-1].split("/")[0].rpartition("@")[2])


def page_of(hub: ModuleType, repo_id: str) -> str:
    """The web page of a repository."""
    scheme, _, rest = str(hub.constants.ENDPOINT).rpartition("://")
    authority, slash, path = rest.partition("/")
    return printable(f"{scheme or 'https'}://{authority.rpartition('@')[2]}{slash}{path}/{repo_id}")
