"""Which layers a quantiser's block cannot tell apart, so that one of them speaks for all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LAYER = re.compile(r"(?<!\w)(layers|blocks|h)\.(\d+)(?=\.|$)")
_PATTERN = re.compile(r"[^\w./ -]")  # a sign that a plain name has not
_GLOB_OF_ONE = re.compile(r"(?:[A-Za-z_]+\.){0,3}(?:layers|blocks|h)\.\d+\.[A-Za-z_.]*\*")
_BEGINS = re.compile(r"(?:[A-Za-z_]+\.){0,3}(?:layers|blocks|h)\.(\d+\*)")  # every number with these digits first
_CHOICE = re.compile(r"\([\w|]*\)")
_OPEN = re.compile(r"(?:re:)?[A-Za-z_.*\\$-]*")  # a pattern that names no number, and no class of signs


def numbered(q: Mapping[str, Any]) -> Mapping[str, tuple[object, ...]] | None:
    """What the block says of single layers, by the layer's number; those of which it says the same are stored alike.

    None where a pattern in it may mean some numbers and not others in a way that only matching tells.
    """
    if q.get("dynamic") or q.get("extra_config"):  # GPTQ's and AutoRound's: names in them are expressions
        return None
    said: dict[str, list[object]] = {}
    for path, text, value in _strings(q):
        begins = _BEGINS.fullmatch(text)
        if begins:
            said.setdefault(begins[1], []).append((path, value))
            continue
        if _PATTERN.search(text) and not _GLOB_OF_ONE.fullmatch(text):
            if _may_choose(text):
                return None
            continue
        for found in _LAYER.finditer(text):
            said.setdefault(found[2], []).append((path, f"{text[: found.start()]}{found[1]}.#{text[found.end() :]}", value))
        if re.match(r"(?:[A-Za-z_]+\.){0,3}\d+(?:\.|$)", _LAYER.sub("#", text)) and "experts." not in text:
            return None  # a number in the place of a layer's, whatever it is called
    return {number: tuple(each) for number, each in said.items()}


def classes(said: Mapping[str, tuple[object, ...]] | None, layers: Sequence[int]) -> list[list[int]]:
    """The layers in groups of which the block says the same."""
    if said is None:
        return [[layer] for layer in layers]
    found: dict[tuple[object, ...], list[int]] = {}
    for layer in layers:
        digits = str(layer)
        names = (digits, *(f"{digits[:count]}*" for count in range(1, len(digits) + 1)))
        found.setdefault(tuple(said[name] for name in names if name in said), []).append(layer)
    return list(found.values())


def _may_choose(text: str) -> bool:
    """Whether a glob or an expression can tell one number from another: by a digit, by a class, or by how many signs it has."""
    text = _CHOICE.sub("x", text)
    if not _OPEN.fullmatch(text) or re.search(r"\\[^.]", text):
        return True
    plain = text.removeprefix("re:").replace(r"\.", "\0").replace(".*", "*").replace("\0", ".")
    return text != plain and ".." in plain


def _strings(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[object, ...], str, object]]:
    """(where, text, what stands beside it) of every key and text; where includes a mapping's order, for the first that matches counts."""
    if isinstance(value, str):
        yield path, value, None
    elif isinstance(value, Mapping):
        general = 0
        for key, inner in value.items():
            word = str(key)
            if _LAYER.search(word) or _BEGINS.fullmatch(word):
                yield (*path, general), word, repr(inner)
                continue
            general += 1
            yield path, word, None
            yield from _strings(inner, (*path, word))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner, path)
