"""The only room with prefixes: text to SI base units, and SI base units to text.

Inside llmcalc every value is in bytes, FLOP, seconds, tokens or dollars. A bare "GB" is decimal (10^9) and a "GiB" binary
(2^30), always; context words are binary (32k = 32,768), as model cards use them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Real

from llmcalc.errors import UsageError

_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_TIME = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_TOKENS = {"": 1, "k": 2**10, "m": 2**20}
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_,]*(?:\.[\d,]*)?|\.\d+)(?:e[+-]?\d+)?)\s*(.*?)\s*", re.I | re.A)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?(?:e[+-]?\d+)?", re.I | re.A)
_DIGITS = re.compile(r"[+-]?[\d.,]+(?:e[+-]?\d+)?", re.I | re.A)

_EXAMPLE = {
    "bytes": "80 GB or 80 GiB",
    "bytes/s": "3.35 TB/s",
    "flop/s": "989 TFLOP/s",
    "w": "700 W",
    "usd/h": "$2.95/h",
    "usd": "$3",
    "s": "50ms",
}


def _scales(kind: str) -> Mapping[str, float]:
    """Every accepted unit of a kind, in lower case, with its factor to the SI base unit."""
    if kind == "bytes":
        return {p + "b": f for p, f in (_DECIMAL | _BINARY).items()} | {"": 1}
    if kind == "bytes/s":
        return {p + "b/s": f for p, f in (_DECIMAL | _BINARY).items()}
    if kind == "flop/s":
        words = ("flop/s", "flops", "op/s", "ops")
        return {p + word: f for p, f in _DECIMAL.items() for word in words}
    if kind == "w":
        return {"w": 1, "kw": 1000}
    if kind == "usd/h":
        return {"": 1, "/h": 1, "/hr": 1, "/hour": 1, "usd/h": 1}
    if kind == "usd":
        return {"": 1, "usd": 1, "k": 1000}
    if kind == "s":
        return dict(_TIME)
    raise KeyError(kind)


def quantity(text: str | float, kind: str) -> float:
    """`3.35 TB/s` as a number of SI base units. `kind`: bytes, bytes/s, flop/s, w, usd/h, usd, s.

    A bare number is taken only where the base unit is what people mean (dollars, seconds, bytes).
    Errors: bad-quantity, for anything that is not one finite number >= 0 and one known unit.
    """
    shown = str(text)
    hint = f"write it like {_EXAMPLE[kind]}"
    body = shown.strip().removeprefix("$") if kind.startswith("usd") else shown
    found = _NUMBER.fullmatch(body) if len(body) <= 64 else None
    if found is None or isinstance(text, bool):
        raise UsageError("bad-quantity", f"{_cut(shown)!r} is not a quantity", hint)
    value, scale = _number(found[1]), _scales(kind).get(found[2].lower())
    if scale is None:
        unit = found[2]
        message = f"{_cut(shown)!r} has no unit" if not unit else f"{_cut(shown)!r} has the unknown unit {_cut(unit)!r}"
        raise UsageError("bad-quantity", message, hint)
    if not 0 <= value * scale < 1e21 or (kind.startswith("usd") and 0 < value * scale < 1e-12):
        raise UsageError("bad-quantity", f"{_cut(shown)!r} is out of range", hint)
    return value * scale


def ungrouped(text: str, name: str = "", code: str = "bad-quantity") -> str:
    """A number without its separators. Errors: `code`, for a comma that separates no thousands (1,234), with its two readings."""
    plain = text.strip().replace("_", "")
    if "," not in plain or not _DIGITS.fullmatch(plain):
        return plain
    joined = plain.replace(",", "")
    if _THOUSANDS.fullmatch(plain):
        return joined
    joined = joined.lstrip("0") or "0"
    single = plain.count(",") == 1
    other = plain.replace(".", "").replace(",", ".") if single else f"the list {plain.replace(',', ', ')}"
    hint = f"write {other} or {joined}" if single else f"write {joined}, or one of them"
    raise UsageError(code, f"{name} {_cut(text)!r} may be {other} or {joined}: its comma separates no thousands".strip(), hint)


def _number(digits: str, name: str = "", code: str = "bad-quantity") -> float:
    plain = ungrouped(digits, name, code)
    value = float(plain)
    return int(plain) if plain.isdigit() else value


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def tokens(text: str | int, name: str = "ctx") -> int:
    """Context words: `32768`, `131_072`, `32k`, `128K`, `1M`; k = 1024, M = 1024². Errors: bad-tokens."""
    shown = str(text)
    found = _NUMBER.fullmatch(shown) if len(shown) <= 64 else None
    scale = _TOKENS.get(found[2].lower()) if found else None
    value = _number(found[1], name, "bad-tokens") * scale if found and scale else math.nan
    if not (1 <= value <= 10**12 and value == int(value)):
        raise UsageError("bad-tokens", f"{name} {_cut(shown)!r} is not a number of tokens", "write it like 32768, 32k (= 32,768) or 1M")
    return int(value)


# ---- to text ------------------------------------------------------------------------------------------------------


def _scaled(value: float, base: float, words: tuple[str, ...]) -> str:
    step = 0
    while abs(value) >= base and step < len(words) - 1:
        value, step = value / base, step + 1
    return f"{_digits(value)} {words[step]}"


def _digits(value: float) -> str:
    """Three significant digits below a thousand, whole numbers without a point."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:,.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def size(value: float) -> str:
    """Memory for people, in binary units: 4831838208 -> '4.50 GiB'."""
    return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def decimal_size(value: float) -> str:
    """Nominal device memory and files on disk, in decimal units: '80 GB'."""
    return _scaled(value, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))


def rate(value: float) -> str:
    """Bandwidth, decimal: '3.35 TB/s'."""
    return _scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"))


def flops(value: float) -> str:
    """Compute rate, decimal: '989.4 TFLOP/s'."""
    return _scaled(value, 1000, ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"))


def work(value: float) -> str:
    """An amount of arithmetic: '133.0 TFLOP'."""
    return _scaled(value, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"))


def parameters(value: float) -> str:
    """A parameter count: '8.19 B' (10^9), '596 M'."""
    if value < 1000:
        return f"{int(value)}"
    return _scaled(value, 1000, ("", "k", "M", "B", "T", "Q"))


def seconds(value: float) -> str:
    """A time: '5.1 ms'."""
    for limit, factor, word in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if abs(value) < limit:
            return f"{_digits(value * factor)} {word}"
    if value >= 7200:
        return f"{_digits(value / 3600)} h"
    return f"{_digits(value)} s"


def usd(value: float) -> str:
    """Money: '$0.39', '$1,460'; below ten cents three significant digits."""
    if value and abs(value) < 0.0995:
        return f"${value:.3g}"
    return f"${value:,.2f}" if abs(value) < 1000 else f"${value:,.0f}"


def number(value: float) -> str:
    """A count or ratio: '147,456', '14.9'."""
    return _digits(value)


NUMBERS = (float, int, Real)
"""The builtin ones first: asking an abstract class takes ten times as long."""


def whole(value: float) -> int | float:
    """A float that is an integer becomes one, so that 147456.0 bytes are printed as 147456.

    Sums of bytes by average bits miss their integer by the last digits of a float; above a million they are taken for it.
    """
    if not isinstance(value, NUMBERS) or not math.isfinite(value):
        return value
    nearest = round(value)
    return nearest if value == nearest or (abs(value) > 2**20 and abs(value - nearest) < 1e-6) else value
