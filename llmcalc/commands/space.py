"""What `compare`, `pareto` and `roofline` share: lists of devices and formats, limits, and progress."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from llmcalc import engines, units
from llmcalc.answers import Aside
from llmcalc.architecture import Model
from llmcalc.commands import options as o
from llmcalc.commands import parse, waiting
from llmcalc.commands.purse import Purse
from llmcalc.engines import Engine
from llmcalc.errors import UsageError, printable
from llmcalc.estimate import memory
from llmcalc.formats import Format
from llmcalc.hardware import Device

if TYPE_CHECKING:
    from llmcalc.search import Candidate, Space

SERVED = ("auto", "bf16", "fp8", "w8a8", "w8a16", "awq", "int4", "mxfp4", "nvfp4")
CACHES = ("auto", "fp8", "int4")
MOST_RANKS = 8  # of "all": beyond one node of eight the link model is not checked


class Racks(o.Group):
    """Devices, formats and numbers of ranks to choose from."""

    section = "Deployment"
    hardware = o.Placement.hardware.but(
        metavar="DEVICES", help="Ids or aliases between commas, '2x rtx-4090', all, or filters such as 'vendor=amd,class=datacenter'."
    )
    weights = o.Layout.weights.but(metavar="FORMATS", help=f"Formats between commas; all: {' '.join(SERVED)}.")
    kv_dtype = o.Layout.kv_dtype.but(metavar="FORMATS", help=f"Formats between commas; all: {' '.join(CACHES)}.")
    tp = o.option(
        None,
        "--tp",
        metavar="N,...",
        help="Tensor parallel ranks; all: to 8, where the heads divide evenly. [default: 1, or N of 'Nx device']",
    )
    pp = o.Layout.pp.but(hidden=True)
    ep = o.Layout.ep.but(hidden=True)

    def check(self, command: str) -> None:
        """Errors: bad-layout, for ranks that would change the result in a way that a search does not know."""
        for name, ranks in (("pp", self.pp), ("ep", self.ep)):
            if ranks > 1:
                message = f"{name} {ranks}: {command} lays a model over tensor-parallel ranks alone"
                raise UsageError("bad-layout", message, "`llmcalc layouts` compares every kind of parallelism")


def words(text: str) -> list[str]:
    """What stands between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def listed(text: str, name: str) -> list[str]:
    """What stands between commas, something at least. Errors: bad-value."""
    found = words(text)
    if not found:
        raise UsageError("bad-value", f"{name} {printable(text, 40)!r} names nothing", f"give one or several between commas: --{name} A,B")
    return found


# ---- devices --------------------------------------------------------------------------------------------------------

FILTERS: dict[str, Callable[[Device], str | None]] = {
    "vendor": lambda device: device.vendor,
    "kind": lambda device: device.kind,
    "class": lambda device: device.device_class,
    "memory": lambda device: device.memory_type,
    "confidence": lambda device: device.confidence,
}


def devices(text: str) -> list[tuple[int | None, Device]]:
    """(number or None, device) of a list: names, `Nx name`, `all`, and filters, which all must hold.

    Errors: no-device-matches, unknown-filter, and those of loading.
    """
    from llmcalc import hardware

    found: list[tuple[int | None, Device]] = []
    filters = [word for word in words(text) if "=" in word]
    for word in words(text):
        if word in filters:
            continue
        if word.lower() == "all":
            found += _every()
            continue
        count, name = hardware.parse_count(word)
        found.append((count if name != word else None, hardware.load(name)))
    if filters:
        found = [pair for pair in found or _every() if _holds(pair[1], filters)]
    if not found:
        raise UsageError("no-device-matches", f"no device matches {printable(text, 60)!r}", "`llmcalc hardware list` names all")
    unique = {(count, device.id, device.memory_bytes): (count, device) for count, device in found}
    return list(unique.values())


def _every() -> list[tuple[int | None, Device]]:
    """Every device; a broken profile of the user's is passed over with a warning."""
    from llmcalc import hardware

    found, skipped = hardware.everything()
    parse.beside.set((*parse.beside.get(), *skipped))
    return [(None, device) for device in found]


def _holds(device: Device, filters: list[str]) -> bool:
    for each in filters:
        key, _, wanted = (part.strip().lower() for part in each.partition("="))
        if key not in FILTERS:
            raise UsageError("unknown-filter", f"{printable(key, 40)!r} is not a filter", f"filters: {', '.join(FILTERS)}")
        if (FILTERS[key](device) or "").lower() != wanted:
            return False
    return True


def candidates(model: Model, found: list[tuple[int | None, Device]], tp: str | None, purse: Purse) -> tuple[Candidate, ...]:
    """The devices in the numbers that may be used. Errors: bad-layout where a single model cannot be cut so."""
    from llmcalc import search

    if tp is None:
        asked: tuple[int, ...] = (1,)
    elif tp.strip().lower() == "all":
        asked = search.tensor_parallel(model, MOST_RANKS)
    else:
        asked = tuple(sorted({parse.whole_number(word, "tp", most=8192) for word in listed(tp, "tp")}))
    made = []
    for count, device in found:
        if count is not None and tp is not None and count not in asked:
            raise UsageError("bad-layout", f"{count} × {device.id} is not tp {tp}", "give the number once")
        counted, usd = purse.of(device)
        made.append(search.candidate(counted, asked if count is None else (count,), count is not None, usd))
    return tuple(made)


def check_ranks(model: Model, chosen: tuple[Candidate, ...]) -> None:
    """Errors: bad-layout, for a number of ranks that does not divide the heads."""
    from llmcalc import search

    heads = search.heads(model)
    for count in sorted({count for one in chosen for count in one.counts}):
        if heads % count:
            near = ", ".join(str(n) for n in search.tensor_parallel(model, 2 * count))
            raise UsageError("bad-layout", f"tp {count} does not divide the {heads} query heads of {model.id}", f"use one of {near}")


# ---- formats --------------------------------------------------------------------------------------------------------


def weight_formats(model: Model, text: str, engine: Engine) -> tuple[Format, ...]:
    """The weight formats of a list, each once."""
    named = SERVED if text.strip().lower() == "all" else listed(text, "weights")
    return tuple({each.name: each for each in (memory.weight_format(model, name, engine)[0] for name in named)}.values())


def kv_formats(model: Model, text: str) -> tuple[Format, ...]:
    """The KV formats of a list, each once."""
    named = CACHES if text.strip().lower() == "all" else listed(text, "kv-dtype")
    return tuple({each.name: each for each in (memory.kv_format(model, name)[0] for name in named)}.values())


def space(
    model: Model,
    chosen: tuple[Candidate, ...],
    ctx: int,
    racks: Racks,
    prompt: int | None,
    method: str,
    run: o.Running,
) -> Space:
    """The space that the options describe."""
    from llmcalc.search import Space

    engine = engines.find(run.engine)
    return Space(
        model,
        chosen,
        weight_formats(model, racks.weights, engine),
        kv_formats(model, racks.kv_dtype),
        ctx,
        ctx if prompt is None else prompt,
        method,
        engine,
        run.reserve,
        run.memory_utilization,
    )


def beyond(model: Model, ctx: int) -> tuple[str, ...]:
    """A warning where the context is longer than the model's own maximum."""
    if model.max_context and ctx > model.max_context:
        return (f"ctx {ctx:,} is beyond the maximum of {model.id}, {model.max_context:,} tokens",)
    return ()


# ---- methods --------------------------------------------------------------------------------------------------------


def repeated(method: str) -> dict[str, bool]:
    """Which of the columns are hidden, because they repeat the method in force or are a range that is not its own."""
    hidden = {"expected": ("expected_tpot_s",), "napkin": ("napkin_tpot_s", "expected_tpot_high_s")}
    return dict.fromkeys(hidden.get(method, ()), False)


def method_words(method: str) -> str:
    """How times were estimated."""
    from llmcalc.estimate import step

    return Aside(f"method {method}: {step.METHODS[method]}; always busy")


def unmeasured(lacking: Iterable[str]) -> Iterator[str]:
    """One remark on the devices whose range is a wider class's."""
    few = list(lacking)
    if few:
        yield "wider ranges: " + "; ".join(few[:3]) + (f"; and {len(few) - 3} more" if len(few) > 3 else "")


# ---- limits ---------------------------------------------------------------------------------------------------------


def most(unit: str = "s") -> Callable[[str, str], float]:
    """Reads a limit above 0. Errors of what it returns: bad-quantity, bad-value."""

    def read(text: str, name: str) -> float:
        value = float(units.quantity(text, unit))
        if not value > 0 or not math.isfinite(value):
            raise UsageError("bad-value", f"{name} {printable(text, 40)!r} is not above 0", f"write it like --{name} 50ms")
        if unit == "s":
            parse.bare_seconds(text, name, value)
        return value

    return read


# ---- progress -------------------------------------------------------------------------------------------------------


class Progress:
    """A bar on stderr, for people only, once a run takes over a second."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()
        self.shown = False

    def __call__(self, done: int, everything: int, points: int) -> None:
        """So much of it is done."""
        now = time.monotonic()
        if now - self.start < 1 or now - self.last < 0.1 or not sys.stderr.isatty():
            return
        if not self.shown:
            waiting.over()
        self.last, self.shown = now, True
        filled = round(20 * done / everything)
        sys.stderr.write(f"\r[{'#' * filled:<20}] {points:,} points, {points / (now - self.start):,.0f}/s ")
        sys.stderr.flush()

    def close(self) -> None:
        """Wipe the bar."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
