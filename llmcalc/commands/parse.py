"""What options are read as: counts, shares, rates, times and sizes, each with one way to say that a word is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

from llmcalc import units
from llmcalc.errors import UsageError, printable

typed: ContextVar[str] = ContextVar("typed", default="")
"""The command as it was typed."""
beside: ContextVar[tuple[str, ...]] = ContextVar("beside", default=())
"""Warnings about the options themselves."""


def word(text: str, name: str) -> str:
    """As it was typed."""
    return text


def whole_number(text: str, name: str, least: int = 1, most: int = 10**9) -> int:
    """A counting option. Errors: bad-value."""
    plain = units.ungrouped(text, name, "bad-value").lower()
    value = int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 20 else -1
    if re.fullmatch(r"\d{1,15}(\.\d{1,15})?e\+?\d{1,2}", plain, re.ASCII) and float(plain).is_integer():
        value = int(float(plain))  # 1e6
    if not least <= value <= most:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not a whole number from {least} to {most:,}", f"write it like --{name} 8")
    return value


def fraction(text: str, name: str) -> float:
    """A share above 0 and at most 1; also as a percentage. Errors: bad-value."""
    plain = units.ungrouped(text.strip().removesuffix("%"), name, "bad-value") + "%" * text.strip().endswith("%")
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not a share above 0 and at most 1", f"write it like --{name} 0.9")
    return value


def count_or_zero(text: str, name: str) -> int:
    """A number of tokens, or 0. Errors: bad-tokens."""
    return 0 if text.strip() == "0" else units.tokens(text, name)


_PER = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "month": 730 * 3600,
}


def per_second(text: str, name: str) -> float:
    """A rate of requests: `12`, `12/s`, `700/min`, `1e6/day`. Errors: bad-value."""
    number, _, unit = text.strip().lower().replace("rps", "").partition("/")
    try:
        value = float(units.ungrouped(number, name, "bad-value")) / _PER[unit.strip() or "s"]
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value < 1e9:
        raise UsageError(
            "bad-value", f"{name} {text[:40]!r} is not a rate above 0", f"write it like --{name} 12 (per second) or --{name} 700/min"
        )
    return value


def percentile(text: str, name: str = "percentile") -> float:
    """`95`, `p95` or `0.95` as a share. Errors: bad-value."""
    try:
        value = float(units.ungrouped(text.strip().lower().removeprefix("p").removesuffix("%"), name, "bad-value"))
    except ValueError:
        value = 0.0
    value = value if 0 < value < 1 else value / 100
    if not 0 < value < 1:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not between 0 and 100", f"write it like --{name} 95")
    return value


def limit(text: str, name: str) -> float:
    """A limit such as `50ms` or `1s`, above 0. Errors: bad-quantity, bad-value."""
    value = units.quantity(text, "s")
    if value <= 0:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not above 0", f"write it like --{name} 50ms")
    bare_seconds(text, name, value)
    return value


def bare_seconds(text: str, name: str, value: float) -> None:
    """Warn where a time of a second or more has no unit, as milliseconds may have been meant."""
    if value >= 1:
        bare(text, f"{name} {text[:40]}: no unit, so it is {units.seconds(value)}; write {text[:40]}ms for milliseconds")


def bare(text: str, warning: str) -> None:
    """Warn where a quantity is a plain number, and the unit that it is taken in may not be the one that was meant."""
    if text.strip().replace(".", "").replace("_", "").isdigit() and warning not in beside.get():
        beside.set((*beside.get(), warning))


def reserve_bytes(text: str, name: str = "reserve") -> float:
    """Memory kept free on each device. Errors: bad-quantity."""
    value = units.quantity(text, "bytes")
    if 0 < value < 2**20:
        bare(text, f"{name} {text[:40]}: no unit, so it is bytes; write {text[:40]}GB for gigabytes")
    return value


def within(cached: int, prompt: int) -> int:
    """Tokens of the prompt that the prefix cache has; the last token is always computed. Errors: bad-value."""
    if cached >= prompt:
        raise UsageError(
            "bad-value", f"cached {cached:,} is not less than the prompt of {prompt:,}", "at least one token of a prompt is read"
        )
    return cached


def variation(text: str, name: str) -> float:
    """A coefficient of variation from 0 to 10. Errors: bad-value."""
    value = 0.0 if text.strip() in ("0", "0.0") else positive(text, name)
    if value > 10:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not from 0 to 10", f"write it like --{name} 1")
    return value


def imbalance(text: str, name: str) -> float:
    """A largest load over the mean: 1 or more. Errors: bad-value."""
    value = positive(text, name)
    if not 1 <= value <= 1000:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is less than the mean, or no factor", f"write it like --{name} 1.3")
    return value


def watts(text: str, name: str) -> float:
    """A power: 250W, 0.25 kW, 250. Errors: bad-value."""
    try:
        value = units.quantity(text if text.strip()[-1:].isalpha() else f"{text} W", "w")
    except UsageError:
        value = 0.0
    if not value:
        raise UsageError("bad-value", f"{name} {printable(repr(text), 40)} is no power", f"write it like --{name} 250W")
    return value


def positive(text: str, name: str) -> float:
    """A number above 0. Errors: bad-value."""
    try:
        value = float(units.ungrouped(text, name, "bad-value"))
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not a number above 0", f"write it like --{name} 1.3")
    return value


def params(text: str, name: str) -> int:
    """A number of parameters: 20B, 1.5T, 7000000000. Errors: bad-value."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmbt]?)", text.strip().lower())
    if not found:
        raise UsageError("bad-value", f"{name} is {printable(text, 40)!r}, not a number of parameters", "write it like 20B")
    return round(float(found[1]) * {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}[found[2]])


def counting(least: int = 1, most: int = 10**9) -> Callable[[str, str], int]:
    """Reads a count between these."""
    return partial(whole_number, least=least, most=most)


def quantity(unit: str) -> Callable[[str, str], float]:
    """Reads a quantity of this unit, prefixes and all."""
    return lambda text, name: units.quantity(text, unit)


def names(text: str, name: str) -> tuple[str, ...]:
    """Words between commas. Errors: bad-value."""
    found = tuple(word.strip() for word in text.split(","))
    if not all(found):
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not a list of names", f"write it like --{name} q_proj,v_proj")
    return found


def tiers(text: str, name: str) -> tuple[tuple[str, float, float | None], ...]:
    """`hbm:30GB,host:512GB@50GB/s` as (name, bytes, bytes a second) of each, the nearest first; only the first may have no rate.

    Errors: bad-value, and those of quantities.
    """

    def bad(what: str, hint: str = "") -> UsageError:
        return UsageError("bad-value", f"{name}: {what}", hint or f"write it like --{name} hbm:30GB,host:512GB@50GB/s,ssd:4TB@6GB/s")

    found: list[tuple[str, float, float | None]] = []
    for part in text.split(","):
        called, colon, rest = part.strip().partition(":")
        size, at, link = rest.partition("@")
        if not (colon and re.fullmatch(r"[A-Za-z][\w.-]{0,19}", called) and size.strip() and (link.strip() or not at)):
            raise bad(f"{part.strip()[:40]!r} is not a name with a size")
        if called in {each[0] for each in found}:
            raise bad(f"{called} is there twice", "give every tier a name of its own")
        if found and not at:
            raise bad(f"{called} has no rate", f"say how fast it is read, such as {called}:{size.strip()[:20]}@50GB/s")
        read = units.quantity(size, "bytes"), units.quantity(link, "bytes/s") if at else None
        if not read[0] or read[1] == 0:
            raise bad(f"{called} has no size" if not read[0] else f"{called} has a rate of 0")
        found.append((called, *read))
    return tuple(found)


def image(text: str, name: str) -> tuple[int, int, int]:
    """`1024x1024` or `1024x768,3` as (width, height, how many). Errors: bad-image."""
    found = re.fullmatch(r"\s*(\d{1,5})\s*[x×]\s*(\d{1,5})\s*(?:,\s*(\d{1,4})\s*)?", text, re.IGNORECASE | re.ASCII)
    width, height, count = (int(each or 1) for each in found.groups()) if found else (0, 0, 0)
    if not (width and height and count):
        raise UsageError(
            "bad-image", f"{name} {text[:40]!r} is not a width and a height", f"write it like --{name} 1024x1024 or 1024x768,3"
        )
    return width, height, count


ALL_LAYERS = 10**6
"""What people write for all layers (99, 999, -1, all) is read as this many."""


def layers(text: str, name: str) -> int:
    """A number of layers; 99, 999, -1 and `all` mean every one. Errors: bad-value."""
    plain = text.strip().lower()
    return (
        ALL_LAYERS
        if plain in ("all", "-1") or (plain.isdigit() and set(plain) == {"9"} and plain != "9")
        else whole_number(plain, name, 0, 10_000)
    )


def gibibytes(text: str, name: str) -> float:
    """A size; a plain number is of GiB, as vLLM's option means it. Errors: bad-quantity."""
    plain = text.strip()
    return units.quantity(f"{plain} GiB" if plain.replace(".", "", 1).isdigit() else plain, "bytes")


def choice(*known: str) -> Callable[[str, str], str]:
    """One of these words. Errors: bad-value."""

    def read(text: str, name: str) -> str:
        word = text.strip().lower().replace("_", "-").replace(" ", "-")
        if word not in known:
            raise UsageError("bad-value", f"{name} {text[:40]!r} is none of {', '.join(known)}", f"write it like --{name} {known[0]}")
        return word

    return read


def prices(text: str, name: str) -> float | dict[str, float]:
    """A price for all, or `device=price` between commas. Errors: bad-quantity, bad-value."""
    if "=" not in text:
        return quantity("usd/h")(text, name)
    found = {}
    for part in text.split(","):
        device, _, usd = part.partition("=")
        if not device.strip() or not usd.strip():
            raise UsageError(
                "bad-value", f"{name} {part[:40]!r} is not a device and its price", f"write it like --{name} h100-sxm=2.2,mi300x=1.9"
            )
        found[device.strip()] = quantity("usd/h")(usd.strip(), name)
    return found
