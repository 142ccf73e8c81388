"""What a shell offers for a half-typed word. Fast, and silent whatever goes wrong: no file but the lists is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class _Found(str):
    """A word that holds the typed one somewhere; typer drops those that do not begin with it."""

    __slots__ = ()

    def startswith(self, *_: object) -> bool:
        return True


def _offer(known: Callable[[], Iterable[str]], several: bool = False, inside: bool = False) -> Callable[[str], list[str]]:
    """Those of the known words that begin like the typed one, else that hold it; of a list with commas, its last word."""

    def offer(incomplete: str) -> list[str]:
        before, comma, typed = incomplete.rpartition(",") if several else ("", "", incomplete)
        try:
            words = list(known())
            begin = [f"{before}{comma}{word}" for word in words if word.startswith(typed)]
            return begin or [_Found(f"{before}{comma}{word}") for word in words if inside and typed.lower() in word.lower()]
        except Exception:  # a shell's prompt is no place for an error
            return []

    return offer


def of(*known: str, several: bool = False) -> Callable[[str], list[str]]:
    """These words."""
    return _offer(lambda: known, several)


def _models() -> Iterable[str]:
    from llmcalc import sources

    return sources.bundled_ids()


def _devices() -> Iterable[str]:
    from llmcalc import hardware

    return ["auto", *hardware.ids()]


def _hosts() -> Iterable[str]:
    return (name for name in _devices() if name.startswith("cpu-"))


def _topics() -> Iterable[str]:
    from llmcalc import quiz

    return quiz.topics()


def _presets() -> Iterable[str]:
    from llmcalc.estimate import speculation

    return speculation.PRESETS


def _weights() -> Iterable[str]:
    from llmcalc import formats

    return ["auto", *formats.FORMATS]


def _caches() -> Iterable[str]:
    from llmcalc import formats

    return ["auto", *formats.kv_names()]


def _engines() -> Iterable[str]:
    from llmcalc import engines

    return engines.names()


def _outputs() -> Iterable[str]:
    from llmcalc import present

    return present.FORMATS


models = _offer(_models, inside=True)
devices = _offer(_devices, several=True, inside=True)
hosts = _offer(_hosts, inside=True)
topics = _offer(_topics, several=True)
presets = _offer(_presets)
weights = _offer(_weights, several=True)
caches = _offer(_caches, several=True)
engines = _offer(_engines)
outputs = _offer(_outputs)
methods = _offer(lambda: ("expected", "napkin", "roofline"))
