"""Which questions were missed, so that they come back sooner: a Leitner box per template in one JSON file.

The file is in the XDG state folder. It is read again and written whole under a lock, so two runs at once lose nothing; a file
that cannot be read is set aside and said. Nothing here stops a quiz: what fails is a warning.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmcalc import data
from llmcalc.errors import LlmcalcError

MAX_STATE_BYTES = 2**20
BOXES = 6  # a card in box n comes back after 2^n sessions
LOCK_WAIT_S, LOCK_STALE_S = 3.0, 30.0


def path() -> Path:
    """$XDG_STATE_HOME/llmcalc/quiz.json, by default ~/.local/state/llmcalc/quiz.json."""
    return data.user_state() / "quiz.json"


def load() -> tuple[dict[str, Any], list[str]]:
    """{"session": n, "cards": {key: {"box", "due", "seen", "missed"}}} and warnings. A corrupt file is moved aside."""
    file = path()
    empty: dict[str, Any] = {"session": 0, "cards": {}}
    try:
        if not file.exists():
            return empty, []
        found = data.parse_json(data.read_text(file, "quiz state", MAX_STATE_BYTES), str(file), "quiz state")
        return _checked(found), []
    except (LlmcalcError, ValueError, OSError) as problem:
        aside = file.with_name(f"quiz.json.bad-{os.getpid()}")
        try:
            os.replace(file, aside)
        except OSError:
            return empty, [f"the record of earlier answers cannot be read ({problem})"]
        return empty, [f"the record of earlier answers could not be read ({problem}); it is now {aside}, and a new one begins"]


def _checked(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or not _count(found.get("session")) or not isinstance(found.get("cards"), dict):
        raise ValueError("not a record of answers")
    for key, card in found["cards"].items():
        if (
            not isinstance(key, str)
            or not isinstance(card, dict)
            or not all(_count(card.get(name)) for name in ("box", "due", "seen", "missed"))
        ):
            raise ValueError("not a record of answers")
    return {"session": found["session"], "cards": found["cards"]}


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def due(keys: list[str], state: dict[str, Any]) -> tuple[str, ...]:
    """Templates to ask first: missed and due ones, the lowest box and the longest overdue first."""
    now = state["session"]
    cards = {key: state["cards"][key] for key in keys if key in state["cards"]}
    ripe = [key for key, card in cards.items() if card["due"] <= now and card["missed"]]
    return tuple(sorted(ripe, key=lambda key: (cards[key]["box"], cards[key]["due"], key)))


def record(credits: dict[str, float]) -> list[str]:
    """Put the answers of one session into the file: good ones move up a box, others go back to the first. Returns warnings."""
    if not credits:
        return []
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        with _lock(path().with_suffix(".lock")):
            state, warnings = load()
            now = state["session"] = state["session"] + 1
            for key, credit in credits.items():
                card = state["cards"].setdefault(key, {"box": 0, "due": 0, "seen": 0, "missed": 0})
                good = credit >= 0.9
                card["box"] = min(card["box"] + 1, BOXES - 1) if good else 0
                card["due"] = now + (2 ** card["box"] if good else 0)
                card["seen"] += 1
                card["missed"] += not good
            _write(path(), json.dumps(state, indent=1, sort_keys=True) + "\n")
            return warnings
    except (OSError, TimeoutError) as problem:
        return [
            f"the answers could not be recorded ({problem.strerror or problem})"
            if isinstance(problem, OSError)
            else f"the answers could not be recorded ({problem})"
        ]


def _write(file: Path, text: str) -> None:
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    new.write_text(text, encoding="utf-8", newline="\n")
    os.replace(new, file)


@contextlib.contextmanager
def _lock(file: Path) -> Iterator[None]:
    """A file that only one process can create. One that a dead process left behind is removed after a while."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > LOCK_STALE_S:
                    file.unlink()
                    continue
            if time.monotonic() > until:
                raise TimeoutError("another run holds the record") from None
            time.sleep(0.01)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
