"""Lists of module names as quantisers write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from time import process_time
from typing import Any

from llmcalc.architecture import Weight
from llmcalc.checkpoint.names import PREFIXES
from llmcalc.checkpoint.regex import Expression, TooLong
from llmcalc.checkpoint.schemes import Rule, Scheme, is_linear
from llmcalc.errors import ConfigError, printable

# What may stand before a module of the language model; a tower's or a prediction module's path is not shortened.
_AROUND = r"^(?:(?:model|language_model|text_model|thinker|llm|decoder|transformer|backbone|gpt_neox)\.)*"
_TO_LAYER = re.compile(_AROUND + r"(?:layers|blocks|h)\.(?=[\d*])")
_TO_TABLE = re.compile(_AROUND + r"(?=[\w*]+$)")


class Matcher:
    """A list of module names as quantisers write them: names, globs, and `re:` expressions.

    `whole`: a name means this one module, as in compressed-tensors and MLX. Else it means whatever lies inside of it too, and
    a name outside of the layers may be any part of a path (ModelOpt, AutoAWQ, bitsandbytes, transformers' own quantisers).
    """

    __slots__ = ("_exact", "_glob", "_parts", "_regex", "_spent_s", "_whole")

    def __init__(self, patterns: Iterable[Any], *, whole: bool = False) -> None:
        self._exact: set[str] = set()
        self._parts: list[str] = []
        self._regex: list[Expression | re.Pattern[str]] = []
        self._spent_s = 0.0
        self._whole = whole
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
                globs += [translate(name), *([] if whole else [translate(name + ".*")])]
            elif name.startswith("layers.") or whole:
                self._exact.add(_TO_TABLE.sub("", name))
            else:
                self._parts.append("." + name.removeprefix("model.").removeprefix("language_model.").removeprefix("transformer.") + ".")
        self._glob = re.compile("|".join(globs)) if globs else None

    def __call__(self, spellings: Iterable[str]) -> bool:
        """Whether one of the spellings of a module, or a module around it, is in the list."""
        start = process_time()
        try:
            found = any(self._one(name) for name in spellings)
        except TooLong:
            raise _too_long() from None
        self._spent_s += process_time() - start
        if self._spent_s > MOST_MATCHING_S:
            raise _too_long()
        return found

    def _one(self, name: str) -> bool:
        if self._exact and any(around in self._exact for around in ((name,) if self._whole else _around(name))):
            return True
        dotted = f".{name}."
        if any(part in dotted for part in self._parts):
            return True
        if self._glob and self._glob.match(name):
            return True
        return any(one.match(prefix + name) for one in self._regex for prefix in PREFIXES)


def _too_long() -> ConfigError:
    return ConfigError("bad-quantization", "a quantiser's list takes too long to match with the names of modules", "check the list")


def _around(name: str) -> Iterator[str]:
    """The name and every module that holds it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


_ONE_SIGN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEATED = re.compile(r"[*+?]|\{\d*,\d*\}")
MOST_REPEATS = 3
"""More than that, or a repeated group, is not left to `re`: its time could grow without bounds with the length of a name."""
MOST_MATCHING_S = 2.0
"""Of processor time for one list. The slowest of the bundled checkpoints takes 0.1 s."""


def expression(text: str) -> Expression | re.Pattern[str]:
    """Compiled, by `re` where its time is small whatever the name. Errors: bad-quantization."""
    plain = _ONE_SIGN.sub("x", text).replace("(?:", "(")
    simple = not re.search(r"\)[*+?{]", plain) and len(_REPEATED.findall(plain)) <= MOST_REPEATS and "(?" not in plain
    try:
        return re.compile(text) if simple else Expression(text)
    except (re.error, ValueError, RecursionError):
        raise ConfigError(
            "bad-quantization", f"{printable(text, 60)!r} in a quantiser's list is no regular expression that is read", "check the list"
        ) from None


def all_but(scheme: Scheme, skip: Iterable[Any], also: Callable[[Weight], bool] = is_linear, *, whole: bool = False) -> Rule:
    """One scheme for every matrix that is not in the list."""
    listed = Matcher(skip, whole=whole)
    return lambda weight, spellings: scheme if also(weight) and not listed(spellings) else None
