"""What people type, in whatever unit, and how near it is.

A text has one reading, or several where writing is ambiguous ("160k" bytes, "7,812", a bare "14.2" for milliseconds): the
charitable one counts. Nothing that can be typed raises anything but Unreadable.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

MAX_ANSWER = 200  # characters
EXACT, CLOSE, ROUGH = 0.01, 0.10, 2.0
CREDIT = {"exact": 1.0, "close": 0.9, "rough": 0.5, "wrong": 0.0, "skipped": 0.0, "unreadable": 0.0}
SLIP_CREDIT = 0.25  # the way was right but for one factor


class Unreadable(Exception):
    """Not a number in a unit of the right kind; the text says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """grade: exact (1%, or rounded right), close (10%), rough (2×), wrong, skipped, unreadable. credit: 0 to 1."""

    grade: str
    credit: float
    slip: str = ""
    value: float | None = None


_DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15, "e": 1e18}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40, "pi": 2.0**50}
_WORDS = {
    "тыс": "k", "тысяч": "k", "млн": "m", "млрд": "bn", "трлн": "t", "thousand": "k", "million": "m", "mln": "m", "billion": "bn",
    "trillion": "t", "байт": "b", "байта": "b", "байтов": "b", "бит": "bit", "бита": "bit", "битов": "bit", "сек": "s", "секунд": "s",
    "секунды": "s", "мкс": "us", "мс": "ms", "нс": "ns", "мин": "min", "ч": "h", "с": "s", "токенов": "tok", "токена": "tok",
    "токен": "tok", "ток": "tok", "раз": "x", "раза": "x", "долл": "usd", "доллар": "usd", "доллара": "usd", "долларов": "usd",
    "цент": "cent", "цента": "cent", "центов": "cent", "дж": "j", "фл": "flop", "флоп": "flop", "процентов": "%", "процент": "%",
}  # fmt: skip
_LETTERS = str.maketrans({"к": "k", "м": "m", "г": "g", "т": "t", "п": "p", "б": "b", "и": "i"})


@cache
def _scales(unit: str) -> dict[str, tuple[float, ...]]:
    """Every accepted spelling of a unit's family, in lower case, with its factor or factors to the base unit."""
    table: dict[str, tuple[float, ...]] = {}

    def add(words: Iterable[str], *factors: float) -> None:
        for word in words:
            table[word] = factors

    if unit in ("B", "B/token"):
        for prefix, factor in {**_DECIMAL, **_BINARY}.items():
            add((f"{prefix}{word}" for word in ("b", "byte", "bytes")), factor)
            add((f"{prefix}{word}" for word in ("bit", "bits")), factor / 8)
            add((prefix,), factor)
        for letter, binary in (("k", 2.0**10), ("m", 2.0**20), ("g", 2.0**30), ("t", 2.0**40)):
            add((letter,), _DECIMAL[letter], binary)  # a bare letter: whichever of the two is meant
    elif unit == "s":
        for words, factor in (
            ("ns", 1e-9),
            ("us µs μs", 1e-6),
            ("ms msec", 1e-3),
            ("s sec secs", 1.0),
            ("m min mins", 60.0),
            ("h hr hour hours", 3600.0),
        ):
            add(words.split(), factor)
        add(("second", "seconds"), 1.0)
        add(("millisecond", "milliseconds"), 1e-3)
        add(("microsecond", "microseconds"), 1e-6)
        add(("minute", "minutes"), 60.0)
    elif unit == "tokens/s":
        for prefix in ("", "k", "m"):
            for word in ("tok", "toks", "token", "tokens", "t", ""):
                for per in ("/s", "/sec", "/second", "ps", ""):
                    add((f"{prefix}{word}{per}",), _DECIMAL[prefix])
                add((f"{prefix}{word}/min", f"{prefix}{word}/minute"), _DECIMAL[prefix] / 60)
                add((f"{prefix}{word}/h", f"{prefix}{word}/hour"), _DECIMAL[prefix] / 3600)
    elif unit == "usd":
        add(("", "$", "usd", "dollar", "dollars", "bucks"), 1.0)
        add(("c", "¢", "ct", "cent", "cents"), 0.01)
        add(("k",), 1e3)
    elif unit in ("FLOP", "FLOP/B"):
        for prefix, factor in _DECIMAL.items():
            add((f"{prefix}{word}" for word in ("", "flop", "flops", "op", "ops")), factor)
    elif unit == "J":
        for prefix, factor in {**_DECIMAL, "m": 1e-3}.items():
            add((f"{prefix}j", f"{prefix}joule", f"{prefix}joules"), factor)
        add(("", "ws"), 1.0)
        add(("wh",), 3600.0)
        add(("kwh",), 3.6e6)
    else:  # a count, a ratio, a share
        add(("", "x", "×", "fold", "times"), 1.0)
        add(("%", "percent", "pct"), 0.01)
        for letter, factor in (("k", 2.0**10), ("m", 2.0**20)):
            add((letter,), _DECIMAL[letter], *((factor,) if unit == "tokens" else ()))
        add(("b", "bn", "g"), 1e9)
        if unit == "bits":
            add(("bit", "bits"), 1.0)
        add(("t",), 1e12)
    return table


DISPLAY: dict[str, tuple[float, ...]] = {
    "s": (1.0, 1e-3),
    "B": (1.0, 1e9, 2.0**30, 1e6, 2.0**20),
    "B/token": (1.0, 1e3, 2.0**10),
    "FLOP": (1.0, 1e12, 1e15),
}
"""Units in which people leave the unit out: a bare 14.2 for 14.2 ms."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_LEAD = re.compile(
    r"^(?:(?:about|around|roughly|approx(?:imately)?\.?|circa|ca\.?|nearly|примерно|около|порядка|где-то|приблизительно)\b\s*|[~≈≃=≤≥<>$€:\s]+)+",
    re.I,
)
_DIGITS = r"(?:\d[\d_,.'’\s]*|[.,]\d+)"
_NUMBER = re.compile(rf"([+\-−–]?)\s*({_DIGITS})(?:e([+-]?\d{{1,4}}))?(?:\s*[x×*·]\s*10\s*\^?\s*([+-]?\d{{1,4}})(?![\d.,]))?", re.I | re.A)
_POWER = re.compile(r"(\d{1,4})\s*(?:\^|\*\*)\s*([+-]?\d{1,3})(?![\d.,])", re.A)


def readings(text: str, unit: str) -> list[float]:
    """Every number of base units that the text may mean, the plainest first. Errors: Unreadable."""
    if len(text) > MAX_ANSWER:
        raise Unreadable("too-long")
    plain = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+", lambda found: "^" + found[0].translate(_SUPERSCRIPTS), text)
    plain = _LEAD.sub("", unicodedata.normalize("NFKC", plain)).strip()
    power = _POWER.match(plain)
    if power:
        numbers, rest = [_power(float(power[1]), int(power[2]))], plain[power.end() :]
    else:
        numbers, rest = _number(plain)
        if re.match(r"\s*/\s*[\d.,]", rest):
            below, rest = _number(rest.strip()[1:].strip())
            numbers = [top / bottom for top in numbers for bottom in below if bottom]
    found: list[float] = []
    for factor in _factors(rest, unit):
        found += [number * factor for number in numbers]
    found = [value for value in dict.fromkeys(found) if math.isfinite(value)]
    if not found:
        raise Unreadable("out-of-range")
    return found


def _power(base: float, exponent: int) -> float:
    try:
        return base**exponent
    except (OverflowError, ZeroDivisionError):
        return math.inf


def _number(text: str) -> tuple[list[float], str]:
    found = _NUMBER.match(text)
    if found is None:
        raise Unreadable("not-a-number")
    digits = found[2]
    kept = digits.rstrip(" ,.'’_\t\n")
    rest = digits[len(kept) :] + text[found.end() :] if not (found[3] or found[4]) else text[found.end() :]
    sign = -1.0 if found[1] in ("-", "−", "–") else 1.0
    exponent = int(found[3] or 0) + int(found[4] or 0)
    scale = _power(10.0, exponent)
    return [sign * value * scale for value in _grouped(kept)], rest.lstrip(" ,.")


def _grouped(digits: str) -> list[float]:
    """'163,840', '2 260', '0,67', '1.234.567,8': thousands and decimal marks of either habit."""
    spaced = re.search(r"\d[\s'’]", digits)
    if spaced and not re.fullmatch(r"\d{1,3}(?:[\s'’]\d{3})+(?:[.,]\d+)?", digits):
        raise Unreadable("not-a-number")
    plain = re.sub(r"[\s'’_]", "", digits)
    commas, points = plain.count(","), plain.count(".")
    texts: list[str] = []
    if commas and points:
        last, other = (",", ".") if plain.rindex(",") > plain.rindex(".") else (".", ",")
        if plain.count(last) == 1:
            texts = [plain.replace(other, "").replace(last, ".")]
    elif commas and re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+", plain):
        texts = [plain.replace(",", "")] + ([plain.replace(",", ".")] if commas == 1 else [])
    elif points > 1 and re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+", plain):
        texts = [plain.replace(".", "")]
    elif commas + points <= 1:
        texts = [plain.replace(",", ".")]
    if not texts:
        raise Unreadable("not-a-number")
    return [float(each) for each in texts]


def _factors(rest: str, unit: str) -> tuple[float, ...]:
    """What the words after the number multiply it with."""
    plain = " ".join(rest.casefold().replace("ё", "е").split()).strip(" .,!?;:()[]")
    plain = re.sub(r"\s*\b(?:per|a|each|на|в)\b\s*", "/", plain)
    if unit != "tokens/s":
        plain = plain.partition("/")[0]  # per token, per 1M tokens: the question said so
    words = re.findall(r"[^\W\d_]+|[%$¢/×]", plain)
    if len(plain) > 60 or len(re.sub(r"\s", "", plain)) != sum(map(len, words)):
        raise Unreadable("unknown-unit")
    spelled = [_WORDS.get(word, word.translate(_LETTERS)) for word in words]
    joined = "".join(spelled)
    table = _scales(unit)
    if joined in table:
        return tuple(dict.fromkeys((*table[joined], *(() if joined else DISPLAY.get(unit, ())))))
    if joined == "" and unit in DISPLAY:
        return DISPLAY[unit]
    if (
        unit in COUNTS and len(spelled) == 2 and spelled[0] in ("k", "m", "b", "bn", "t") and _is_noun(spelled[1])
    ):  # "2k sequences", "30 млн токенов"
        return table[spelled[0]]
    if unit in COUNTS and _is_noun(joined):
        return (1.0,)
    raise Unreadable("unknown-unit")


COUNTS = frozenset(("sequences", "tokens", "experts", "devices", "params", "bits", "ratio", "share", ""))


def _is_noun(word: str) -> bool:
    """What is counted: any word that is not the unit of something else."""
    foreign = any(word in _scales(unit) for unit in ("B", "s", "J", "usd")) or word.endswith(("/s", "bytes", "flop", "flops"))
    return not foreign and 2 <= len(word) <= 30 and word.isalpha()


def grade(value: float, truth: float) -> str:
    """How near a value is."""
    if value == truth or (truth and abs(value / truth - 1) <= EXACT) or _rounds_to(value, truth):
        return "exact"
    if not truth or not value or value / truth <= 0:
        return "wrong"
    ratio = value / truth
    if abs(ratio - 1) <= CLOSE:
        return "close"
    # A factor of exactly two is the commonest slip of all: it is not "within".
    return "rough" if 1 / ROUGH * 1.02 < ratio < ROUGH / 1.02 else "wrong"


def _rounds_to(value: float, truth: float) -> bool:
    """The truth rounded to two or more digits as the value is: 14 for 14.17."""
    if not truth or not math.isfinite(truth):
        return False
    return any(math.isclose(value, float(f"{truth:.{digits}e}"), rel_tol=1e-9) for digits in (1, 2, 3))


_ORDER = ("exact", "close", "rough", "wrong")


def judge_number(text: str, truth: float, unit: str, slips: Iterable[tuple[float, str]] = ()) -> Verdict:
    """The verdict on a typed number; the best of its readings counts. Never raises."""
    try:
        values = readings(text, unit)
    except Unreadable as problem:
        return Verdict("unreadable", 0.0, str(problem))
    best = min(values, key=lambda value: (_ORDER.index(grade(value, truth)), values.index(value)))
    found = grade(best, truth)
    if found == "exact":
        return Verdict(found, 1.0, "", best)
    named = ""
    for value in values:
        named = next((why for wrong, why in slips if grade(value, wrong) == "exact"), named)
    credit = CREDIT[found]
    return Verdict(found, max(credit, SLIP_CREDIT) if named else credit, named, best)


_CYRILLIC_CHOICES = str.maketrans("абвгсд", "abcdce")


def judge_choice(text: str, letter: str, choices: tuple[str, ...]) -> Verdict:
    """A letter, a number, or the words of a choice. Never raises."""
    plain = unicodedata.normalize("NFKC", text[:MAX_ANSWER]).strip().strip(".)(: ").casefold()
    letters = "abcdefgh"[: len(choices)]
    if len(plain) == 1 and plain.translate(_CYRILLIC_CHOICES) in letters:
        chosen = plain.translate(_CYRILLIC_CHOICES)
    elif plain.isascii() and plain.isdigit() and len(plain) == 1 and 1 <= int(plain) <= len(choices):
        chosen = letters[int(plain) - 1]
    else:
        hits = [index for index, choice in enumerate(choices) if plain and choice.casefold().startswith(plain)]
        if len(hits) != 1:
            return Verdict("unreadable", 0.0, "not-a-choice")
        chosen = letters[hits[0]]
    return Verdict("exact", 1.0) if chosen == letter else Verdict("wrong", 0.0)


def judge_points(text: str, patterns: tuple[str, ...]) -> tuple[Verdict, tuple[bool, ...]]:
    """Which points of a rubric a free answer touches, by its words; or a number of points, if that is all it is. Never raises."""
    plain = text[:20_000].casefold().replace("ё", "е").strip()
    if plain.isascii() and plain.isdigit() and len(plain) <= 2:
        number = min(int(plain), len(patterns))
        return _points(number, len(patterns)), ()
    hit = tuple(re.search(pattern, plain) is not None for pattern in patterns)
    return _points(sum(hit), len(patterns)), hit


def _points(number: int, of: int) -> Verdict:
    share = number / of
    return Verdict("exact" if share == 1 else "close" if share >= 0.8 else "rough" if share >= 0.4 else "wrong", share)
