"""Everything that can go wrong and be explained in one line.

LlmcalcError            a known run-time failure: exit 1
├── UsageError          a bad option or value: exit 2
├── ConfigError         a model's config that cannot be read
├── SourceError         a model that cannot be found or fetched
└── ProfileError        a hardware profile that cannot be read; a name that is no device's is a DeviceError, exit 2
"""

from __future__ import annotations

from collections.abc import Iterable


class LlmcalcError(Exception):
    """A failure that the user can act on: `code` for scripts, one line for people, one hint."""

    exit_code = 1

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class UsageError(LlmcalcError):
    """A bad option or value."""

    exit_code = 2


class ConfigError(LlmcalcError):
    """A config.json that is not one, or that holds something the reader cannot take."""


class SourceError(LlmcalcError):
    """A model reference that leads nowhere, or a Hub that does not answer."""


class ProfileError(LlmcalcError):
    """A hardware profile that does not satisfy the schema."""


class DeviceError(ProfileError, UsageError):
    """A name that no device has, or that several have: a bad value of an option."""


def close_matches(word: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names nearest to a mistyped one, best first; case is ignored."""
    from difflib import get_close_matches  # 3 ms that only an error pays

    by_lower = {name.lower(): name for name in known}
    return [by_lower[hit] for hit in get_close_matches(word.lower(), list(by_lower), n=limit, cutoff=0.6)]


_SPACES = "\u00a0\u202f"  # that do not break: Russian groups digits with them


def printable(text: str, limit: int = 120) -> str:
    """A foreign text as one line: control characters and lone surrogates escaped, cut at `limit` characters."""
    shown = "".join(c if c.isprintable() else " " if c in _SPACES else c.encode("unicode_escape").decode() for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


_ASCII = str.maketrans({
    "×": "x", "·": "-", "–": "-", "—": "-", "−": "-", "…": "...", "≤": "<=", "≥": ">=", "µ": "u", "²": "^2", "→": "->", "≈": "~",
    "Σ": "sum ", "±": "+-", "\u00a0": " ", "\u202f": " ",
})  # fmt: skip


def encodable(text: str, encoding: str | None) -> str:
    """The text as far as the encoding of a stream holds it; signs that it lacks are written in ASCII."""
    known = encoding or "utf-8"
    try:
        text.encode(known)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(known, "replace").decode(known)
    except LookupError:
        text = text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
    return text
