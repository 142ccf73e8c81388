"""That a command works: after a second, a line at the terminal counts on; it leaves before anything else is said."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

QUIET = 1.0
"""Seconds in which nobody wonders."""


class _Line:
    """The line, counted by a thread of its own."""

    def __init__(self) -> None:
        from threading import Event, Lock, Thread

        self.done, self.lock, self.seconds = Event(), Lock(), 0
        Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while not self.done.wait(QUIET):
            with self.lock:
                if not self.done.is_set():
                    self.seconds += 1
                    _say(f"\rworking: {self.seconds} s")

    def leave(self) -> None:
        """Gone, if it was there."""
        with self.lock:
            if self.seconds and not self.done.is_set():
                _say("\r\x1b[K")
            self.done.set()


_line: ContextVar[_Line | None] = ContextVar("_line", default=None)


def _say(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody is there to see it


def _watched() -> bool:
    try:
        return os.isatty(sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False


@contextmanager
def shown() -> Iterator[None]:
    """While a command runs that somebody sits before."""
    if not _watched():
        yield
        return
    token = _line.set(_Line())
    try:
        yield
    finally:
        over()
        _line.reset(token)


def over() -> None:
    """Something else is to be said now."""
    line = _line.get()
    if line is not None:
        line.leave()
