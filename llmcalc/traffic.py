"""What arrives: requests at random or from a trace file, read line by line.

A trace is hostile until each of its lines is checked: lengths of lines, numbers, order. It is read once; what is kept of it are
columns of numbers, up to a bound, beyond which it is read again each time.
"""

from __future__ import annotations

import csv
import json
import math
import random
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import IO, Any, NamedTuple

from llmcalc.errors import LlmcalcError, UsageError, close_matches, printable

MAX_LINE = 2**20  # characters; the longest line of a public trace (with block hashes) has some 40,000
MOST_TOKENS = 10**8
MOST_KEPT = 2**22
"""Requests and blocks of a trace that are kept, at some 28 bytes."""
# Names of the columns in public traces: our own, Vidur's, Azure's, Mooncake's, BurstGPT's.
COLUMNS: dict[str, tuple[str, ...]] = {
    "arrival": ("arrival_s", "arrived_at", "timestamp", "arrival_time", "arrival", "time", "arrival_ms", "timestamp_ms"),
    "prompt": ("prompt_tokens", "num_prefill_tokens", "contexttokens", "input_length", "request tokens", "input_tokens", "prompt"),
    "output": ("output_tokens", "num_decode_tokens", "generatedtokens", "output_length", "response tokens", "output"),
}
OPTIONAL = ("cached_tokens", "cached")
PLAIN = 2**16
"""Characters of a line in which every field is short enough for the csv module."""
HASHES = "hash_ids"
"""Mooncake's column: one id per block of the prompt, alike where all up to the block's end is alike."""
MOST_BLOCKS = 10**6
BLOCK_SIZES = (512, *(2**k for k in range(3, 17) if k != 9))
"""Tokens that a trace's block may have, the commonest first."""


Block = int | str


class Request(NamedTuple):
    """One request: when it arrives [s], tokens in, tokens out, and prompt tokens in the prefix cache."""

    arrival_s: float
    prompt: int
    output: int
    cached: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests alike: mean lengths and their coefficients of variation (0: all the same, else lognormal)."""

    prompt: int
    output: int
    cached: int = 0
    share: float = 1
    prompt_cv: float = 0
    output_cv: float = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Random arrivals of these kinds, a trace, or `users` that each ask again when their answer is there.

    `cv`: variation of the time between arrivals (1: Poisson, else gamma).
    """

    rate: float
    kinds: tuple[Kind, ...] = ()
    cv: float = 1
    trace: str | None = None
    notes: tuple[str, ...] = ()
    users: int | None = None
    block_tokens: int = 0
    """Of a trace that says which blocks its prompts are made of."""
    kept_blocks: int = 0
    """How many of those a replica keeps for later requests."""
    rows: Recorded | None = field(default=None, compare=False, repr=False)
    """What the trace says, where it is known already."""

    def requests(self, seed: int = 0, part: int = 1, *, in_step: bool = False) -> Iterator[Request]:
        """The requests that one of `part` replicas gets, without end unless they come from a trace; `in_step`: users begin together."""
        if self.trace is not None:
            return reused(self, part)
        if self.users:
            return _asked_again(self, 0 if in_step else self.users, seed)
        return _random(replace(self, rate=self.rate / part), seed)

    def sample(self, size: int = 1000) -> list[Request]:
        """Requests that stand for all: the kinds by their shares, spread evenly over their lengths, or an even draw of a trace."""
        if self.trace is not None:
            return Reservoir(size, 0).fill(reused(self))
        if len(self.kinds) == 1 and not (self.kinds[0].prompt_cv or self.kinds[0].output_cv):
            kind = self.kinds[0]
            return [Request(0, kind.prompt, kind.output, kind.cached)]
        from statistics import NormalDist

        normal = NormalDist()
        whole = sum(kind.share for kind in self.kinds)
        found = []
        for kind in self.kinds:
            count = max(1, round(size * kind.share / whole)) if kind.share else 0
            for i in range(count):
                # Evenly spaced in one length, a golden-ratio sequence in the other: even in both.
                at, other = (i + 0.5) / count, (i * 0.6180339887498949 + 0.5) % 1
                found.append(_request(0, kind, normal.inv_cdf(at), normal.inv_cdf(other)))
        return found


class Recorded:
    """A trace as columns, and the blocks of each prompt up to its end."""

    __slots__ = ("arrivals", "blocks", "cached", "ends", "outputs", "prompts")

    def __init__(self) -> None:
        self.arrivals = array("d")
        self.prompts, self.outputs, self.cached = array("i"), array("i"), array("i")
        self.blocks, self.ends = array("q"), array("q")

    def add(self, request: Request, blocks: Sequence[Block]) -> bool:
        """Keep one more; False: it cannot be kept, or is one too many."""
        arrival, prompt, output, cached = request
        self.arrivals.append(arrival)
        self.prompts.append(prompt)
        self.outputs.append(output)
        self.cached.append(cached)
        if blocks:
            try:
                self.blocks.extend(blocks)  # type: ignore[arg-type]  # strings are refused
            except (TypeError, OverflowError):
                return False
        self.ends.append(len(self.blocks))
        return len(self.arrivals) + len(self.blocks) < MOST_KEPT

    def requests(self, part: int) -> Iterator[Request]:
        """Every `part`th of them."""
        return map(Request, *(column[::part] for column in (self.arrivals, self.prompts, self.outputs, self.cached)))

    def __iter__(self) -> Iterator[tuple[Request, Sequence[Block]]]:
        start = 0
        for request, end in zip(self.requests(1), self.ends, strict=True):
            yield request, self.blocks[start:end]
            start = end


class Reservoir:
    """An even sample of a stream whose length is not known."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.random = size, random.Random(seed)  # noqa: S311 - a sample

    def fill(self, stream: Iterator[Request]) -> list[Request]:
        """Read the stream to its end."""
        kept: list[Request] = []
        for index, request in enumerate(stream):
            if index < self.size:
                kept.append(request)
            elif (place := self.random.randrange(index + 1)) < self.size:
                kept[place] = request
        return kept


def _random(traffic: Traffic, seed: int) -> Iterator[Request]:
    chance = random.Random(seed)  # noqa: S311 - a simulation
    shape = 1 / traffic.cv**2 if traffic.cv > 1e-6 else 0  # so little is even, and its square is nothing
    mean = 1 / traffic.rate
    ends: list[float] = []
    for kind in traffic.kinds:
        ends.append((ends[-1] if ends else 0) + kind.share)
    now, draw, log, kind = 0.0, chance.random, math.log, traffic.kinds[0]
    if len(ends) == 1 and shape == 1 and not (kind.prompt_cv or kind.output_cv):
        rest = kind.prompt, kind.output, kind.cached
        while True:  # `expovariate`, written out
            now -= log(1.0 - draw()) / traffic.rate
            yield Request(now, *rest)
    while True:
        gap = mean if not shape else chance.expovariate(traffic.rate) if shape == 1 else chance.gammavariate(shape, mean / shape)
        now += gap
        kind = traffic.kinds[0]
        if len(ends) > 1:
            drawn = chance.random() * ends[-1]
            kind = traffic.kinds[next((i for i, end in enumerate(ends) if drawn < end), len(ends) - 1)]
        if kind.prompt_cv or kind.output_cv:
            yield _request(now, kind, chance.gauss(0, 1), chance.gauss(0, 1))
        else:
            yield Request(now, kind.prompt, kind.output, kind.cached)


def _asked_again(traffic: Traffic, apart: int, seed: int) -> Iterator[Request]:
    """What the users ask; the first answers of so many are as long as what is left of one at a moment taken at random, so that they
    do not end together."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    for number, request in enumerate(_random(replace(traffic, rate=1.0), seed)):
        left = request.output if number >= apart else max(1, math.ceil(chance.random() * request.output))
        yield request._replace(arrival_s=0.0, output=left)


def _request(now: float, kind: Kind, prompt_z: float, output_z: float) -> Request:
    """A request of a kind from two standard normal numbers."""
    prompt = _lognormal(kind.prompt, kind.prompt_cv, prompt_z)
    cached = min(prompt - 1, round(prompt * kind.cached / kind.prompt))
    return Request(now, prompt, _lognormal(kind.output, kind.output_cv, output_z), cached)


def _lognormal(mean: int, cv: float, z: float) -> int:
    if not cv:
        return mean
    variance = math.log(1 + cv * cv)
    return max(1, round(mean * math.exp(math.sqrt(variance) * z - variance / 2)))


# ---- traces -------------------------------------------------------------------------------------------------------


def read_trace(path: str) -> Iterator[Request]:
    """The requests of a CSV or JSONL trace, in order; times start at 0.

    Errors name the line and the column: bad-trace, file-unreadable.
    """
    return (request for request, _ in read_blocks(path))


def read_blocks(path: str) -> Iterator[tuple[Request, Sequence[Block]]]:
    """The same, each with the blocks of its prompt where the trace names them. Errors: those of `read_trace`."""
    first: float | None = None
    last = -math.inf
    line = 0
    for line, row, names in _rows(path):
        at = _time(row, names["arrival"], path, line)
        if first is None:
            first = at
        if at < last:
            raise _bad(
                path, line, names["arrival"], f"{at - first:g} s is before the line above ({last - first:g} s)", "sort the trace by time"
            )
        last = at
        prompt = _tokens(row, names["prompt"], path, line)
        output = _tokens(row, names["output"], path, line)
        cached = _tokens(row, names["cached"], path, line, least=0) if "cached" in names else 0
        if cached >= prompt:
            raise _bad(
                path, line, names["cached"], f"{cached} is not less than the prompt of {prompt}", "at least one token of a prompt is read"
            )
        yield Request(at - first, prompt, output, cached), _blocks(row, path, line)
    if first is None:
        raise LlmcalcError(
            "bad-trace", f"{printable(path)} has no requests", "one line per request: arrival_s, prompt_tokens, output_tokens"
        )


def _blocks(row: Any, path: str, line: int) -> Sequence[Block]:
    """What a JSON row says of its blocks; nothing where it says nothing."""
    found = row.get(HASHES) if isinstance(row, dict) else None
    if found is None:
        return ()
    if not isinstance(found, list):
        raise _bad(path, line, HASHES, f"{str(found)[:40]!r} is not a list", "one id for each block of the prompt")
    for one in found:
        if type(one) is not int and not (isinstance(one, str) and len(one) <= 128):
            raise _bad(path, line, HASHES, f"{str(one)[:40]!r} is not an id", "ids are whole numbers or short strings")
    return found


class BlockCache:
    """Blocks of which the last used are kept: what a prefix finds there is as long as no block is missing."""

    __slots__ = ("kept", "places")

    def __init__(self, places: float) -> None:
        self.places = places
        self.kept: OrderedDict[Block, None] = OrderedDict()

    def found(self, blocks: Sequence[Block]) -> int:
        """How many of the first blocks are there; all of them are afterwards, as far as there is room."""
        kept = self.kept
        hits = next((index for index, block in enumerate(blocks) if block not in kept), len(blocks))
        for block in blocks:
            if block in kept:
                kept.move_to_end(block)
            else:
                kept[block] = None
                if len(kept) > self.places:
                    kept.popitem(last=False)
        return hits


def hit_tokens(prompt: int, hits: int, block_tokens: int) -> int:
    """Tokens of a prompt that so many blocks answer: at least one is always read."""
    return min(hits * block_tokens, prompt - 1)


def reused(traffic: Traffic, part: int = 1) -> Iterator[Request]:
    """The requests of a trace that come to one of `part` replicas, with what that replica still has of their prompts."""
    if traffic.rows is not None and not traffic.kept_blocks:
        return traffic.rows.requests(part)
    return _with_hits(traffic, part)


def _with_hits(traffic: Traffic, part: int) -> Iterator[Request]:
    cache = BlockCache(traffic.kept_blocks)
    for request, blocks in islice(traffic.rows or read_blocks(traffic.trace or ""), 0, None, part):
        if traffic.kept_blocks and traffic.block_tokens:
            hit = hit_tokens(request.prompt, cache.found(blocks), traffic.block_tokens)
            request = request._replace(cached=max(request.cached, hit))
        yield request


class Totals(NamedTuple):
    """A trace at a glance: requests, seconds from the first to the last, tokens in and out, tokens of a block (None: no one size fits)."""

    requests: int
    seconds: float
    prompt_tokens: int
    output_tokens: int
    block_tokens: int | None = 0


def totals(path: str) -> Totals:
    """A trace at a glance. Errors: those of reading it."""
    return _read_once(path)[0]


def _read_once(path: str) -> tuple[Totals, Recorded | None]:
    """A trace at a glance and its rows; None: there are too many to be kept."""
    number = prompt = output = 0
    last, named = 0.0, False
    sizes = BLOCK_SIZES
    rows: Recorded | None = Recorded()
    for request, blocks in read_blocks(path):
        if blocks and sizes:
            named, count, tokens = True, len(blocks), request[1]
            sizes = tuple(size for size in sizes if count in (tokens // size, -(-tokens // size)))
        number, prompt, output, last = number + 1, prompt + request[1], output + request[2], request[0]
        if rows is not None and not rows.add(request, blocks):
            rows = None
    return Totals(number, last, prompt, output, next(iter(sizes), None) if named else 0), rows


def of_trace(path: str) -> Traffic:
    """The traffic of a trace file. Errors: those of reading it, and bad-trace where all requests come at once."""
    found, rows = _read_once(path)
    if found.seconds < found.requests * 1e-9:
        message = f"{printable(path)}: all {found.requests} requests arrive at the same time, so there is no rate"
        raise LlmcalcError("bad-trace", message, "give a trace that lasts")
    tokens_in, tokens_out = found.prompt_tokens / found.requests, found.output_tokens / found.requests
    words = (
        f"trace of {found.requests:,} requests over {found.seconds:,.0f} s: {tokens_in:,.0f} tokens in, {tokens_out:,.0f} out on average"
    )
    unlike = (f"{HASHES}: no one size of blocks fits all prompts, so no reuse is counted",) if found.block_tokens is None else ()
    return Traffic(found.requests / found.seconds, trace=path, notes=(words, *unlike), block_tokens=found.block_tokens or 0, rows=rows)


def _bad(path: str, line: int, column: str, what: str, hint: str) -> LlmcalcError:
    return LlmcalcError("bad-trace", f"{printable(path)}, line {line}, column {printable(column, 40)}: {printable(what)}", hint)


def _lines(stream: IO[bytes], path: str) -> Iterator[str]:
    number = 0
    while True:
        raw = stream.readline(MAX_LINE + 1)
        if not raw:
            return
        number += 1
        if len(raw) > MAX_LINE:
            raise LlmcalcError("bad-trace", f"{printable(path)}, line {number} has over {MAX_LINE:,} bytes", "one line per request")
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise LlmcalcError(
                "bad-trace",
                f"{printable(path)}, line {number} is not UTF-8 text",
                "a trace is a text file, CSV or one JSON object per line",
            ) from None


def _opened(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except (OSError, ValueError) as problem:
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise LlmcalcError("file-unreadable", f"cannot read {printable(path)}: {reason}", "give the path of a CSV or JSONL file") from None


def _rows(path: str) -> Iterator[tuple[int, Any, dict[str, str]]]:
    """(line, fields by name, our names for the columns) of every request."""
    with _opened(path) as stream:
        try:
            lines = _lines(stream, path)
            at, first = next(((number, line) for number, line in enumerate(lines, 1) if line.strip()), (1, ""))
            if first.lstrip().startswith("{"):
                yield from _json_rows(first, lines, path, at)
            elif first:
                yield from _csv_rows(first, lines, path, at)
        except OSError as problem:
            raise LlmcalcError(
                "file-unreadable", f"cannot read {printable(path)}: {(problem.strerror or str(problem)).lower()}", "give a readable file"
            ) from None


def _json_rows(first: str, lines: Iterator[str], path: str, at: int) -> Iterator[tuple[int, Any, dict[str, str]]]:
    names: dict[str, str] = {}
    line = at - 1
    text: str | None = first
    while text is not None:
        line += 1
        if text.strip():
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as problem:
                deep = "nested too deeply" if isinstance(problem, RecursionError) else "a number of too many digits"
                where = f"column {problem.colno}: {problem.msg}" if isinstance(problem, json.JSONDecodeError) else deep
                raise LlmcalcError("bad-trace", f"{printable(path)}, line {line}, {where}", "one JSON object per line") from None
            if not isinstance(row, dict):
                raise LlmcalcError("bad-trace", f"{printable(path)}, line {line} is not a JSON object", "one JSON object per line")
            names = names or _names(list(row), path, line)
            yield line, row, names
        text = next(lines, None)


def _fields(lines: Iterator[str], path: str, delimiter: str = ",", at: int = 1) -> Iterator[tuple[int, list[str]]]:
    """(line, fields) of CSV in which a row ends with its line: a quoted line end could make one row of the whole file."""
    for number, line in enumerate(lines, at):
        text = line.rstrip("\r\n")
        if '"' not in text and "\r" not in text and len(text) <= PLAIN:  # as the module reads such a line, in a third of its time
            if text:
                yield number, text.split(delimiter)
            continue
        try:
            fields = next(csv.reader([line], strict=True, delimiter=delimiter), [])
        except csv.Error as problem:
            raise LlmcalcError("bad-trace", f"{printable(path)}, line {number} is not CSV ({problem})", "one line per row") from None
        if fields:
            yield number, fields


def _csv_rows(first: str, lines: Iterator[str], path: str, at: int) -> Iterator[tuple[int, Any, dict[str, str]]]:
    import itertools

    rows = _fields(itertools.chain([first], lines), path, "\t" if "\t" in first and "," not in first else ",", at)
    _, header = next(rows)
    names = _names(header, path, at)
    places = {name: header.index(name) for name in names.values()}
    for number, fields in rows:
        if len(fields) < len(header):
            what = f"the line has {len(fields)} fields, the header {len(header)}"
            raise _bad(path, number, header[len(fields)], what, "one field per column")
        yield number, {name: fields[place] for name, place in places.items()}, names


def _names(found: list[str], path: str, line: int) -> dict[str, str]:
    """Which of the file's columns are ours. Errors: bad-trace, for a column that is missing."""
    plain = {str(name).strip().lower().replace("-", "_"): name for name in found}
    names = {}
    for ours, known in COLUMNS.items():
        hit = next((plain[name] for name in known if name in plain), None)
        if hit is None:
            near = close_matches(known[0], list(plain))
            raise LlmcalcError(
                "bad-trace",
                f"{printable(path)}, line {line}: no column {known[0]} (found: {printable(', '.join(map(str, found[:12])), 200)})",
                f"rename {printable(str(plain[near[0]]), 40)} to {known[0]}"
                if near
                else f"needed: {', '.join(names[0] for names in COLUMNS.values())}",
            )
        names[ours] = hit
    cached = next((plain[name] for name in OPTIONAL if name in plain), None)
    return names | ({"cached": cached} if cached is not None else {})


def _number(value: Any, path: str, line: int, column: str) -> float:
    try:
        number = (
            math.nan
            if isinstance(value, bool) or value is None
            else float(value if not isinstance(value, str) or len(value) < 64 else "nan")
        )
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _bad(path, line, column, f"{printable(str(value)[:60])!r} is not a number", "every request has a time and two lengths")
    return number


def _time(row: Any, column: str, path: str, line: int) -> float:
    value = row.get(column)
    plain = column.strip().lower()
    if isinstance(value, str) and ":" in value and "-" in value.strip()[1:] and len(value) < 64:
        try:
            # Azure's traces write seven digits of a second; Python reads six.
            text = value.strip()
            head, point, rest = text.partition(".")
            digits = "".join(c for c in rest if c.isdigit()) if point and "+" not in rest else ""
            return datetime.fromisoformat(f"{head}.{digits[:6]}" if digits else text).timestamp()
        except (ValueError, OverflowError, OSError):
            pass
    number = _number(value, path, line, column)
    if number < 0:
        raise _bad(path, line, column, f"{number:g} is a negative time", "times are seconds from the start")
    # Mooncake's traces (timestamp with input_length) count milliseconds.
    thousandths = plain.endswith("_ms") or (plain == "timestamp" and "input_length" in row)
    return number / 1000 if thousandths else number


def _tokens(row: Any, column: str, path: str, line: int, least: int = 1) -> int:
    value = row.get(column)
    if type(value) is str and len(value) < 9 and value.isdigit() and value.isascii():
        number: float = int(value)
    else:
        number = _number(value, path, line, column)
    if not (least <= number <= MOST_TOKENS and number == int(number)):
        raise _bad(path, line, column, f"{number:g} is not a number of tokens from {least}", "leave out requests that failed")
    return int(number)


MEASURED = tuple(f"{name}_p{p}_s" for name in ("ttft", "tpot", "e2e") for p in (50, 95, 99))


def read_measured(path: str) -> list[dict[str, float]]:
    """A load test's results: `rate` and any of ttft_p50_s, ttft_p95_s, …, e2e_p99_s. Errors: bad-trace, naming line and column."""
    found = []
    for line, row in _csv_dicts(path):
        values = {name: _number(row[name], path, line, name) for name in ("rate", *MEASURED) if row.get(name) not in (None, "")}
        if not values.get("rate", 0) > 0:
            raise _bad(path, line, "rate", "a rate above 0 is needed", "one line per rate: rate,ttft_p95_s,tpot_p95_s")
        if len(values) == 1 or any(value < 0 for value in values.values()):
            raise _bad(path, line, next(iter(row)), "no figures, or negative ones", f"give some of {', '.join(MEASURED)}")
        found.append(values)
        if len(found) > 100:
            raise _bad(path, line, "rate", "over 100 rates", "one line per rate")
    if not found:
        raise LlmcalcError("bad-trace", f"{printable(path)} has no measurements", "one line per rate: rate,ttft_p95_s,tpot_p95_s")
    return found


def _csv_dicts(path: str) -> Iterator[tuple[int, dict[str, str]]]:
    with _opened(path) as stream:
        rows = _fields(_lines(stream, path), path)
        _, header = next(rows, (1, []))
        for number, fields in rows:
            yield number, dict(zip([name.strip().lower() for name in header], fields, strict=False))


# ---- mixes --------------------------------------------------------------------------------------------------------


def of_yaml(path: str, rate: float | None = None) -> Traffic:
    """A mix of kinds: `rate` (requests/s), `cv`, and `kinds`, each with share, prompt, output_tokens and more. Errors: bad-traffic."""
    from pathlib import Path

    from llmcalc import data, units

    what = "traffic file"
    raw = data.parse_yaml(data.read_text(Path(path), what, 2**17), path, what)

    def bad(field: str, value: Any, needs: str) -> LlmcalcError:
        return LlmcalcError(
            "bad-traffic",
            f"{printable(path)}: {field} {printable(repr(value), 60)} is not {needs}",
            "see docs: rate, cv, kinds: [{name, share, prompt, output_tokens}]",
        )

    def number(block: dict[str, Any], field: str, default: float | None, most: float = 1e9) -> float:
        value = block.get(field, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise bad(field, value, f"a number from 0 to {most:g}")
        return float(value)

    def tokens(block: dict[str, Any], field: str, default: int | None = None) -> int:
        value = block.get(field, default)
        if value == 0 and default == 0:
            return 0
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise bad(field, value, "a number of tokens")
        return units.tokens(value, field)

    if not isinstance(raw, dict):
        raise bad("the file", raw, "a mapping")
    unknown = set(raw) - {"rate", "cv", "kinds"}
    if unknown:
        raise bad("key", sorted(map(str, unknown))[0], "known")
    blocks = raw.get("kinds")
    if not isinstance(blocks, list) or not blocks or len(blocks) > 1000:
        raise bad("kinds", blocks, "a list of kinds of requests")
    kinds = []
    for block in blocks:
        if not isinstance(block, dict):
            raise bad("kind", block, "a mapping")
        strange = set(block) - {"name", "share", "prompt", "output_tokens", "cached", "prompt_cv", "output_cv"}
        if strange:
            raise bad("key", sorted(map(str, strange))[0], "known")
        kind = Kind(
            tokens(block, "prompt"), tokens(block, "output_tokens"), tokens(block, "cached", 0), number(block, "share", 1),
            number(block, "prompt_cv", 0, 10), number(block, "output_cv", 0, 10), str(block.get("name", "")),
        )  # fmt: skip
        if kind.cached >= kind.prompt:
            raise bad("cached", kind.cached, "less than the prompt")
        kinds.append(kind)
    if not sum(kind.share for kind in kinds):
        raise bad("share", 0, "above 0 for any kind")
    asked = rate if rate is not None else number(raw, "rate", 0)
    if not asked:
        raise UsageError("bad-traffic", f"{printable(path)} gives no rate", "add rate: requests per second, or give `rate`")
    return Traffic(asked, tuple(kinds), number(raw, "cv", 1, 10), notes=(f"traffic mix of {len(kinds)} kinds from {printable(path)}",))
