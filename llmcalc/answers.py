"""What commands answer: frozen records whose fields carry their words and unit, from which JSON, its pages and its schema are made.

A record reads as a mapping from its JSON keys to its values, in the order of its fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from keyword import iskeyword
from typing import Any, TypeVar, dataclass_transform


class Absent(Enum):
    """The value of a field that this run has nothing to say about: JSON leaves its key out (null means: not known)."""

    ABSENT = 0


ABSENT = Absent.ABSENT


class Aside(str):
    """A sentence of how a number came about, where others are of what was assumed: a terminal shows it to those who ask."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Words:
    """How a field is called and shown."""

    label: str | None = None
    unit: str = ""
    note: str = ""
    """Beside its value, for people."""
    meaning: str = ""
    """For the pages alone, where the label does not say it."""
    shown: bool = True
    rank: int = 0
    """Of a row: a narrow table leaves out the highest first."""
    bar: bool = False
    detail: bool = False
    """For those who ask: a terminal shows it with the explanation alone."""


def field(
    label: str | None = None,
    unit: str = "",
    note: str = "",
    *,
    meaning: str = "",
    shown: bool = True,
    rank: int = 0,
    bar: bool = False,
    detail: bool = False,
    default: Any = dataclasses.MISSING,
) -> Any:
    """A field of an answer; without a label it is called by its key."""
    words = Words(label, unit, note, meaning, shown, rank, bar, detail)
    made: Any = dataclasses.field(default=default, metadata={"words": words})
    return made


class Answer(Mapping[str, Any]):
    """A record of fields; also a mapping, without the absent ones."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        value = getattr(self, _attribute(key)) if key in words(type(self)) else ABSENT
        if value is ABSENT:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[str]:
        return (key for key in words(type(self)) if getattr(self, _attribute(key)) is not ABSENT)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _attribute(key: str) -> str:
    return f"{key}_" if iskeyword(key) else key


_WORDS: dict[type[Answer], dict[str, Words]] = {}
RESULTS: dict[str, list[type[Answer]]] = {}
"""By command, what its results are made of: the first always, others where they were asked for. Filled as the rooms load."""
ROWS: dict[str, list[type[Answer]]] = {}
"""By command, the records that its rows can be."""
A = TypeVar("A", bound=Answer)


def words(kind: type[Answer]) -> dict[str, Words]:
    """The words of every JSON key, in order; a field that would be a word of Python ends in an underscore."""
    if kind not in _WORDS:
        named = {one.name.rstrip("_"): one.metadata["words"] for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
        _WORDS[kind] = {key: said if said.label is not None else dataclasses.replace(said, label=key) for key, said in named.items()}
    return _WORDS[kind]


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True, field_specifiers=(field,))
def answer(*commands: str, rows: bool = False, part: bool = False) -> Callable[[type[A]], type[A]]:
    """Make a class of `field`s the answer of commands, or what their rows are. 'models list' is a command, too.

    `part`: fields that several answers inherit, beside others; the last base's come first.
    """

    def wrap(kind: type[A]) -> type[A]:
        made = dataclasses.dataclass(frozen=True, slots=not part, kw_only=True)(kind)  # of two bases, one may have slots
        for command in commands:
            (ROWS if rows else RESULTS).setdefault(command, []).append(made)
        return made

    return wrap
