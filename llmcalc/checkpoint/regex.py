"""Regular expressions in bounded time: sets of places in the text instead of backtracking.

`re` tries one way after the other, and a list of a hostile file can make that last for ever (`.?.?.?…@`). Here every part of an
expression maps the places where it may begin to those where it may end, so no way is tried twice, and each step is counted.
Read are the parts that lists of module names use; a back reference is none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

MOST_STEPS = 200_000
"""Of one expression over all names. The longest real list needs some thousands for each."""

Places = frozenset[int]
Part = Callable[["Search", Places], Places]
_CLASSES = {"d": str.isdecimal, "w": lambda sign: sign.isalnum() or sign == "_", "s": str.isspace}
_COUNTED = re.compile(r"\{(\d{0,4})(?:(,)(\d{0,4}))?\}")


class TooLong(Exception):
    """The search took more steps than it may."""


class Search:
    """One text, and the steps that are left."""

    __slots__ = ("steps", "text")

    def __init__(self, text: str, steps: int) -> None:
        self.text = text
        self.steps = steps

    def step(self, number: int) -> None:
        """Count. Errors: TooLong."""
        self.steps -= number + 1
        if self.steps < 0:
            raise TooLong


class Expression:
    """A compiled expression. Errors: ValueError where it is none."""

    def __init__(self, source: str) -> None:
        self._source, self._place = source, 0
        self._whole = self._either()
        if self._place < len(source):
            raise ValueError("an unopened bracket")
        self._steps = MOST_STEPS

    def match(self, text: str) -> bool:
        """Whether the text begins with it. Errors: TooLong."""
        search = Search(text, self._steps)
        found = self._whole(search, frozenset((0,)))
        self._steps = search.steps
        return bool(found)

    # ---- reading the source

    def _ahead(self, signs: str) -> bool:
        if self._source.startswith(signs, self._place):
            self._place += len(signs)
            return True
        return False

    def _next(self) -> str:
        if self._place >= len(self._source):
            raise ValueError("an end in the middle")
        self._place += 1
        return self._source[self._place - 1]

    def _either(self) -> Part:
        ways = [self._row()]
        while self._ahead("|"):
            ways.append(self._row())
        return ways[0] if len(ways) == 1 else _any_of(ways)

    def _row(self) -> Part:
        parts: list[Part] = []
        while self._place < len(self._source) and self._source[self._place] not in "|)":
            parts.append(self._repeated(self._one()))
        return _in_turn(parts)

    def _repeated(self, part: Part) -> Part:
        counted = _COUNTED.match(self._source, self._place)
        if self._ahead("*"):
            least, most = 0, -1
        elif self._ahead("+"):
            least, most = 1, -1
        elif self._ahead("?"):
            least, most = 0, 1
        elif counted and (counted[1] or counted[2]):
            self._place = counted.end()
            least = int(counted[1] or 0)
            most = (int(counted[3]) if counted[3] else -1) if counted[2] else least
        else:
            return part
        if not self._ahead("?"):  # lazy or not: the same places
            self._ahead("+")
        if self._place < len(self._source) and self._source[self._place] in "*+":
            raise ValueError("a repeat of a repeat")
        return _times(part, least, most)

    def _one(self) -> Part:
        sign = self._next()
        if sign == "(":
            return self._group()
        if sign == "[":
            return _sign(self._set())
        if sign == "\\":
            return self._escaped()
        if sign == ".":
            return _sign(lambda found: found != "\n")
        if sign == "^":
            return _where(lambda place, text: place == 0)
        if sign == "$":
            return _where(lambda place, text: place == len(text))
        if sign in "*+?":
            raise ValueError("a repeat of nothing")
        return _sign(sign.__eq__)

    def _group(self) -> Part:
        looks = next((mark for mark in ("?=", "?!", "?<=", "?<!") if self._source.startswith(mark, self._place)), None)
        if looks in ("?<=", "?<!"):
            raise ValueError("a look back")
        if looks:
            self._place += 2
        elif self._ahead("?P<"):
            while self._next() != ">":
                pass
        elif not self._ahead("?:") and self._ahead("?"):
            raise ValueError("a kind of group that lists of names do not use")
        inside = self._either()
        if not self._ahead(")"):
            raise ValueError("an unclosed bracket")
        if looks:
            return _looking(inside, looks == "?=")
        return inside

    def _escaped(self) -> Part:
        sign = self._next()
        if sign in "bB":
            edge = _CLASSES["w"]
            return _where(
                lambda place, text: (any(edge(c) for c in text[:place][-1:]) != any(edge(c) for c in text[place:][:1])) is (sign == "b")
            )
        if sign in "AZ":
            return _where(lambda place, text: place == (0 if sign == "A" else len(text)))
        return _sign(self._class(sign))

    def _class(self, sign: str) -> Callable[[str], bool]:
        known = _CLASSES.get(sign.lower())
        if known:
            return known if sign.islower() else lambda found: not known(found)
        if sign.isalnum():
            raise ValueError("an escape that lists of names do not use")
        return sign.__eq__

    def _set(self) -> Callable[[str], bool]:
        turned = self._ahead("^")
        tests: list[Callable[[str], bool]] = []
        while not tests or not self._ahead("]"):
            sign = self._next()
            if sign == "\\":
                tests.append(self._class(self._next()))
            elif self._source.startswith("-", self._place) and not self._source.startswith("-]", self._place):
                self._place += 1
                last = self._next()
                tests.append(lambda found, low=sign, high=last: low <= found <= high)  # type: ignore[misc]
            else:
                tests.append(sign.__eq__)
        return lambda found: any(test(found) for test in tests) is not turned


def _sign(accepts: Callable[[str], bool]) -> Part:
    """One sign that a test accepts."""

    def run(search: Search, at: Places) -> Places:
        search.step(len(at))
        text = search.text
        return frozenset(place + 1 for place in at if place < len(text) and accepts(text[place]))

    return run


def _any_of(ways: Iterable[Part]) -> Part:
    kept = tuple(ways)
    return lambda search, at: frozenset[int]().union(*(way(search, at) for way in kept))


def _in_turn(parts: list[Part]) -> Part:
    def run(search: Search, at: Places) -> Places:
        for part in parts:
            if not at:
                break
            at = part(search, at)
        return at

    return run


def _times(part: Part, least: int, most: int) -> Part:
    """Between `least` and `most` (-1: any number of) times; places that were reached already are not gone on from again."""

    def run(search: Search, at: Places) -> Places:
        for _ in range(least):
            at = part(search, at)
            if not at:
                return at
        reached, new, left = at, at, most - least
        while new and left != 0:
            new = part(search, new) - reached
            reached |= new
            left -= 1
        return reached

    return run


def _where(holds: Callable[[int, str], bool]) -> Part:
    def run(search: Search, at: Places) -> Places:
        search.step(len(at))
        return frozenset(place for place in at if holds(place, search.text))

    return run


def _looking(inside: Part, wanted: bool) -> Part:
    return lambda search, at: frozenset(place for place in at if bool(inside(search, frozenset((place,)))) is wanted)
