"""What a shell offers for a half-typed word. Fast, and silent whatever goes wrong: no file but the lists is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def _offer(known: Callable[[], Iterable[str]], several: bool = False) -> Callable[[str], list[str]]:
    """Those of the known words that begin like the typed one; of a list with commas, its last word."""

    def offer(incomplete: str) -> list[str]:
        before, comma, typed = incomplete.rpartition(",") if several else ("", "", incomplete)
        try:
            return [f"{before}{comma}{word}" for word in known() if word.startswith(typed)]
        except Exception:  # a shell's prompt is no place for an error
            return []

    return offer


def _models() -> Iterable[str]:
    from llmcalc import sources

    return sources.bundled_ids()


def _devices() -> Iterable[str]:
    from llmcalc import hardware

    return ["auto", *hardware.ids()]


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


models = _offer(_models)
devices = _offer(_devices, several=True)
weights = _offer(_weights, several=True)
caches = _offer(_caches, several=True)
engines = _offer(_engines)
outputs = _offer(_outputs)
methods = _offer(lambda: ("expected", "napkin", "roofline"))
