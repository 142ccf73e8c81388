"""Lists of module names as quantisers write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from time import process_time
from typing import Any

from llmcalc.architecture import Weight
from llmcalc.checkpoint.names import PREFIXES
from llmcalc.checkpoint.schemes import Rule, Scheme, is_linear
from llmcalc.errors import ConfigError, printable

# What may stand before `layers.N` of the language model; a tower's or a prediction module's path is not shortened.
_TO_LAYER = re.compile(
    r"^(?:(?:model|language_model|text_model|thinker|llm|decoder|transformer|backbone|gpt_neox)\.)*(?:layers|blocks|h)\.(?=[\d*])"
)


class Matcher:
    """A list of module names as quantisers write them: whole names, parts of names, globs, and `re:` expressions."""

    __slots__ = ("_exact", "_glob", "_parts", "_regex", "_spent_s")

    def __init__(self, patterns: Iterable[Any]) -> None:
        self._exact: set[str] = set()
        self._parts: list[str] = []
        self._regex: list[re.Pattern[str]] = []
        self._spent_s = 0.0
        globs = []
        seen = set()
        for pattern in patterns:
            if not isinstance(pattern, str) or not pattern or len(pattern) > 500:
                raise ConfigError(
                    "bad-quantization", f"{printable(repr(pattern), 60)} in a quantiser's list is no module name", "check the list"
                )
            if pattern in seen:
                continue
            seen.add(pattern)
            if pattern.startswith("re:"):
                self._regex.append(expression(pattern[3:]))
                continue
            name = _TO_LAYER.sub("layers.", pattern)
            if "*" in name:
                globs += [translate(name), translate(name + ".*")]
            elif name.startswith("layers."):
                self._exact.add(name)
            else:
                self._parts.append("." + name.removeprefix("model.").removeprefix("language_model.").removeprefix("transformer.") + ".")
        self._glob = re.compile("|".join(globs)) if globs else None

    def __call__(self, spellings: Iterable[str]) -> bool:
        """Whether one of the spellings of a module, or a module around it, is in the list."""
        start = process_time()
        found = any(self._one(name) for name in spellings)
        self._spent_s += process_time() - start
        if self._spent_s > MOST_MATCHING_S:
            raise ConfigError("bad-quantization", "a quantiser's list takes too long to match with the names of modules", "check the list")
        return found

    def _one(self, name: str) -> bool:
        if self._exact and any(around in self._exact for around in _around(name)):
            return True
        dotted = f".{name}."
        if any(part in dotted for part in self._parts):
            return True
        if self._glob and self._glob.match(name):
            return True
        return any(one.match(prefix + name) for one in self._regex for prefix in PREFIXES)


def _around(name: str) -> Iterator[str]:
    """The name and every module that holds it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


_ONE_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


_REPEATED = re.compile(r"[*+]|\{\d*,\d*\}")


MOST_REPEATS = 4


MOST_MATCHING_S = 2.0
"""Of processor time for one list. The slowest of the bundled checkpoints takes 0.1 s."""


def expression(text: str) -> re.Pattern[str]:
    """Compiled. Refused are repeated groups and many repeats, whose time grows beyond bounds with the length of a name."""
    plain = _ONE_SIGN.sub("x", text)
    if re.search(r"\)[*+{]", plain) or len(_REPEATED.findall(plain)) > MOST_REPEATS:
        raise ConfigError(
            "bad-quantization",
            f"{printable(text, 60)!r} in a quantiser's list repeats groups, or over {MOST_REPEATS} parts, and could match without end",
            "check the list",
        )
    try:
        return re.compile(text)
    except re.error:
        raise ConfigError(
            "bad-quantization", f"{printable(text, 60)!r} in a quantiser's list is no regular expression", "check the list"
        ) from None


def all_but(scheme: Scheme, skip: Iterable[Any], also: Callable[[Weight], bool] = is_linear) -> Rule:
    """One scheme for every matrix that is not in the list."""
    listed = Matcher(skip)
    return lambda weight, spellings: scheme if also(weight) and not listed(spellings) else None
