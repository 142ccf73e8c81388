"""Which of very many deployments: a whole space through the one estimator, its Pareto front, and the cheapest within limits.

Devices that an estimate treats alike form a rack: one Device whose rates are columns, beside a row of batches. One call of
`estimate.step` then times the whole table, through the formulas that time a single step. What is kept is estimated
once more by itself, with plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from llmcalc.answers import ABSENT, words
from llmcalc.architecture import Model
from llmcalc.engines import ENGINES, Engine
from llmcalc.estimate import capacity, cost, counts, layout, memory, rates, step, talk, terms, ways
from llmcalc.figures import Figure
from llmcalc.formats import Format
from llmcalc.formulas import money, time
from llmcalc.hardware import PRICE_ORDER, Device
from llmcalc.plan import Deployment, Workload
from llmcalc.points import Compared, Point
from llmcalc.units import seconds, size, usd

Array = Any  # numpy arrays; the estimates take them where they take numbers
EVERY_BATCH_TO = 256  # beyond it the batches of a sweep grow by 2%; those that a limit allows are found exactly
STEPS_PER_DOUBLING = 32
MOST_BATCH = 10**9


# ---- what is searched -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that may be used, in these numbers; `exact` where the user named the number, and a node does not bound it."""

    device: Device
    counts: tuple[int, ...] = (1,)
    exact: bool = False
    usd_per_hour: float | None = None
    price: str = ""
    price_kind: str | None = None
    price_date: str | None = None


@dataclass(frozen=True, slots=True)
class Space:
    """Every combination of candidate, number of it, weight format and KV format, at one context."""

    model: Model
    candidates: tuple[Candidate, ...]
    weights: tuple[Format, ...]
    kvs: tuple[Format, ...]
    ctx: int
    prompt: int
    method: str = "napkin"
    engine: Engine = field(default_factory=lambda: ENGINES["napkin"])
    reserve_bytes: float = 0
    utilization: float | None = None


class Axis(NamedTuple):
    """A quantity to trade against another, and whether less of it is better."""

    key: str
    less: bool


X_AXES = {"tpot": Axis("tpot_s", True), "tokens_per_s_per_user": Axis("tokens_per_s_per_user", False)}
Y_AXES = {
    "usd": Axis("usd_per_million_output_tokens", True),
    "tokens_per_s_per_device": Axis("tokens_per_s_per_device", False),
    "energy": Axis("energy_joules_per_token", True),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a service must hold: seconds per token and to the first one, tokens/s in all, USD per hour. None: no limit."""

    tpot_s: float | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    usd_per_hour: float | None = None


def candidate(device: Device, counts: tuple[int, ...] = (1,), exact: bool = False, usd_per_hour: float | None = None) -> Candidate:
    """A device with the price that was given for it, else the one that stands for it, and that price's date."""
    whole = f"; whole nodes of {device.rented}" if device.rented > 1 else ""
    if usd_per_hour is not None:
        return Candidate(device, counts, exact, usd_per_hour, f"price {usd(usd_per_hour)} per device-hour, as given{whole}", "given")
    chosen = device.price()
    kind = next((kind for kind in PRICE_ORDER if any(price.type == kind for price in device.prices)), None)
    dates = sorted(price.date for price in device.prices if price.type == kind and price.date)
    date = dates[-1] if dates else "undated" if kind else None
    return Candidate(device, counts, exact, chosen.usd_per_hour, f"{device.id}: {chosen.text}{whole}", kind, date)


def tensor_parallel(model: Model, most: int) -> tuple[int, ...]:
    """The degrees up to `most` that deal the query heads of every layer evenly."""
    return tuple(n for n in range(1, most + 1) if heads(model) % n == 0)


def heads(model: Model) -> int:
    """The greatest common divisor of the layers' query heads; 0 where nothing attends, which any number divides."""
    return math.gcd(*(mixer.query_heads for mixer, _ in memory.mixers(model)))


# ---- racks: devices as columns ----------------------------------------------------------------------------------------


class Rack(NamedTuple):
    """Candidates that run one layout: the deployment of the stacked device, USD per device-hour and the largest batch of each."""

    plan: Deployment
    members: tuple[Candidate, ...]
    usd: Array
    most: Array


def obstacle(space: Space, one: Candidate, weights: Format, tp: int) -> str | None:
    """Why a candidate cannot run `tp` ranks at all, whatever it holds; None if it can."""
    device = one.device
    if capacity_unknown(space, device):
        return f"comes with any amount of memory: name one, such as '{device.id} 256GB'"
    cut = space.engine.layout(tp)[0]
    if cut > 1 and not (device.link and device.link.bytes_per_s):
        return "has no known link between devices"
    if tp > device.devices_per_node and not one.exact:
        return f"a node has {device.devices_per_node} devices, not {tp}"
    if heads(space.model) % cut:
        return f"{tp} ranks do not divide {heads(space.model)} heads"
    if space.engine.vendors and device.vendor not in space.engine.vendors:
        return f"{space.engine.name} does not run on {device.vendor}"
    if space.method != "napkin" and terms.compute_key(device, weights)[0] is None:
        return "has no known compute rate"
    return None


def capacity_unknown(space: Space, device: Device) -> bool:
    """Whether the buyer chooses the memory, so that nobody can say what fits."""
    return (device.memory_bytes if space.engine.nominal else device.memory_usable_bytes) is None


def _alike(device: Device, plan: Deployment, plain: Format, method: str, columns: bool) -> tuple[Any, ...]:
    """What of a device steers an estimate, beside its numbers; `columns`: constants are numbers, too."""
    latency = talk.link_rate(device)[1].value if plan.tp > 1 else None
    usual = device.device_class, device.rented, terms.compute_key(device, plan.weights), terms.compute_key(device, plain), latency
    if method != "expected":
        return usual
    kernels = rates.steers(plan)
    if columns:
        if plan.ranks == 1:
            return rates.kind(plan), *usual[1:], "fp32" in device.compute
        far = device.device_class if plan.ranks > device.devices_per_node else ""
        places = device.devices_per_node, device.devices_per_host, device.vendor == "Intel", kernels[2], far
        return rates.kind(plan), *usual[1:], "fp32" in device.compute, *places
    return *usual, rates.kind(plan), rates.class_of(plan), "fp32" in device.compute, kernels


def _stacked(devices: Sequence[Device], nominal: bool) -> Device:
    """One device whose numbers are columns, a row for each of these."""

    def column(read: Callable[[Device], float | None]) -> Array:
        return np.array([[math.nan if (value := read(device)) is None else value] for device in devices], dtype=float)

    first = devices[0]
    shared = set.intersection(*(set(device.compute) for device in devices))
    linked = all(device.link for device in devices)
    return replace(
        first,
        bandwidth_bytes_per_s=column(lambda d: d.bandwidth_bytes_per_s),
        memory_bytes=column(lambda d: d.memory_bytes if nominal else d.memory_usable_bytes),
        memory_reported_bytes=None,
        memory_physical_bytes=None,
        memory_gpu_limit_bytes=None,
        compute={key: column(lambda d, key=key: d.compute[key]) for key in first.compute if key in shared},  # type: ignore[misc]
        link=replace(first.link, bytes_per_s=column(lambda d: d.link.bytes_per_s if d.link else None)) if first.link and linked else None,
        power_w=column(lambda d: d.power_w),
    )


def racks(space: Space, columns: bool = False) -> Iterator[Rack]:
    """Every layout with the candidates that can run it, those that estimates treat alike together.

    `columns`: together also those that only the constants of expected times tell apart.
    """
    columns = columns and space.method == "expected"
    plain = memory.compute_format(space.model)[0]
    for tp in sorted({count for one in space.candidates for count in one.counts}):
        for weights in space.weights:
            alike: dict[tuple[Any, ...], list[Candidate]] = {}
            for one in space.candidates:
                if tp in one.counts and obstacle(space, one, weights, tp) is None:
                    key = _alike(one.device, deployment(space, one.device, weights, weights, tp), plain, space.method, columns)
                    alike.setdefault(key, []).append(one)
            for group in alike.values():
                device = _stacked([one.device for one in group], space.engine.nominal)
                usd = np.array([[math.nan if one.usd_per_hour is None else one.usd_per_hour] for one in group])
                members = tuple(group)
                for kv in sorted(space.kvs, key=lambda kv: kv.bits <= rates.SMALL_CACHE) if columns else space.kvs:
                    plan = deployment(space, device, weights, kv, tp)
                    most = np.clip(np.floor(_ledgers(space, plan, group)["max_batch_exact"]), 0, MOST_BATCH).astype(int)
                    yield Rack(plan, members, usd, most)


def _columns(space: Space, plan: Deployment, group: Sequence[Candidate]) -> step.Known:
    """Counts and constants of a rack's devices."""
    singles = [replace(plan, device=one.device) for one in group]
    found = counts.count(space.model, singles[0], rates.kind(singles[0]) == "desktop")
    each = [rates.plain_constants(single, found) for single in singles]
    return step.Known(found, {name: Figure(name, np.array([[row[name]] for row in each])) for name in each[0]})


def _ledgers(space: Space, plan: Deployment, group: Sequence[Candidate]) -> dict[str, Array]:
    """The ledger of each of a rack's devices, in columns. Engines but the napkin have rules by device: those count one by one."""
    if space.engine.nominal:
        found = capacity.ledger(space.model, plan, space.ctx)
        return {key: np.broadcast_to(figure.value, (len(group), 1))[:, 0] for key, figure in found.items()}
    singles = [capacity.ledger(space.model, replace(plan, device=one.device), space.ctx) for one in group]
    return {key: np.array([float(each[key].value) for each in singles]) for key in singles[0]}


def deployment(space: Space, device: Device, weights: Format, kv: Format, tp: int) -> Deployment:
    """One layout of the space, over that many devices."""
    ranks, stages = space.engine.layout(tp)
    return Deployment(
        device, weights, kv, tp=ranks, pp=stages, engine=space.engine, reserve_bytes=space.reserve_bytes, utilization=space.utilization,
        encoder_params=layout.tower_params(space.model),
    )  # fmt: skip


# ---- one operating point, or a table of them --------------------------------------------------------------------------


def point(space: Space, plan: Deployment, usd_per_device_hour: Any, batch: Any, known: step.Known | None = None) -> dict[str, Figure]:
    """Every quantity of an operating point; with a rack and a row of batches, of all of them at once."""
    return _point(plan, usd_per_device_hour, batch, _timed(space, plan, batch, known))


def _timed(space: Space, plan: Deployment, batch: Any, known: step.Known | None) -> step.Timed:
    """The step of an operating point, or of a table of them, whose constants are columns of `known`."""
    work = Workload(space.ctx, batch)
    if known is None:
        return step.step(space.model, plan, work, space.method)
    spent = step.undisturbed_s(space.model, plan, work, known)
    return step.Timed(Figure("expected_step_time_s", spent, "s"), spent, spent)


def _point(plan: Deployment, usd_per_device_hour: Any, batch: Any, timed: step.Timed) -> dict[str, Figure]:
    """Of a step that is timed already."""
    length = timed.mid
    sequences = Figure("batch", batch, "", "`batch`")
    devices = Figure("devices", plan.ranks, "", layout.LAYOUT)
    rate = time.tokens_per_s.of(batch=sequences, step_time_s=length)
    found = {
        "tpot_s": length,
        "tokens_per_s": rate,
        "tokens_per_s_per_user": time.tokens_per_s.of(as_name="tokens_per_s_per_user", batch=Figure("batch", 1), step_time_s=length),
        "tokens_per_s_per_device": Figure("tokens_per_s_per_device", rate.value / plan.ranks, "tokens/s", "an even share", None, (rate,)),
    }
    if usd_per_device_hour is not None:
        each = Figure("usd_per_device_hour", usd_per_device_hour, "usd/h", "`price`, or the profile")
        hour = money.deployment_usd_per_hour.of(as_name="usd_per_hour", usd_per_device_hour=each, devices=cost.paid(plan))
        found["usd_per_hour"] = hour
        found["usd_per_million_output_tokens"] = money.usd_per_million_tokens.of(
            as_name="usd_per_million_output_tokens", usd_per_hour=hour, tokens_per_s=rate, utilization=Figure("utilization", 1)
        )
        found["tokens_per_s_per_usd_hour"] = Figure(
            "tokens_per_s_per_usd_hour", _per(rate.value, hour.value), "tokens/s", "per USD per hour", None, (rate, hour)
        )
    if plan.device.power_w is not None:
        watts = Figure("power_w", plan.device.power_w, "W", f"{plan.device.id}, rated")
        found["energy_joules_per_token"] = money.joules_per_token.of(
            as_name="energy_joules_per_token", power_w=watts, devices=devices, tokens_per_s=rate
        )
    return found | {key: figure for key, figure in timed.terms.items() if key in TERMS}


def _per(rate: Any, price: Any) -> Any:
    """NaN where the price is 0."""
    return rate / np.where(price == 0, math.nan, price)


TERMS = ("weight_read_s", "kv_read_s", "compute_s", "attention_compute_s", "communication_s")


def readings(space: Space, plan: Deployment, usd_per_device_hour: Any, batch: Any) -> dict[str, Any]:
    """An operating point by the method in force, and beside it what the textbook says and what is expected, with the range."""
    found = step.readings(space.model, plan, Workload(space.ctx, batch), space.method)
    figures = _point(plan, usd_per_device_hour, batch, found.force)
    value = {key: figure.value for key, figure in figures.items()} | found.beside
    usd = value.get("usd_per_million_output_tokens")
    if usd is not None:
        value |= {
            f"{name}_usd_per_million_output_tokens": usd * value[f"{name}_tpot_s"] / value["tpot_s"] for name in ("napkin", "expected")
        }
    first = {
        method: step.ends(step.ttft(space.model, plan, space.prompt, method=method)) for method in {"napkin", "expected", space.method}
    }
    value |= {"ttft_s": first[space.method][0], "napkin_ttft_s": first["napkin"][0]}
    return value | {f"expected_ttft{end}_s": seconds for end, seconds in zip(step.ENDS, first["expected"], strict=True)}


def ttft(space: Space, plan: Deployment) -> Any:
    """Seconds to the first token of the prompt on an idle replica; None where the device has no known compute rate."""
    return step.ends(step.ttft(space.model, plan, space.prompt, method=space.method))[0]


def holds_at_high(space: Space, row: Mapping[str, Any], tpot_s: float | None, ttft_s: float | None = None) -> bool | None:
    """Whether the limits hold at the slow end of the range, too; None without a limit or, in another method, a range."""
    if space.method != "expected" or (tpot_s is None and ttft_s is None) or row["tpot_s"] is None:
        return None
    pairs = (row["expected_tpot_high_s"], tpot_s), (row["expected_ttft_high_s"], ttft_s)
    return all(limit is None or (value is not None and value <= limit) for value, limit in pairs)


def unmeasured(space: Space, candidates: Iterable[Candidate]) -> list[str]:
    """Of which devices too few rows are measured, so that a wider class's range stands in for theirs."""
    if space.method != "expected":
        return []
    plans = [deployment(space, one.device, space.weights[0], space.kvs[0], tp) for one in candidates for tp in one.counts]
    return sorted(
        {rates.band("alone" if rates.kind(plan) == "serving" else "batch", space.model, plan).unmeasured for plan in plans} - {""}
    )


def largest_within(time_of: Callable[[Array], Array], limits: Array, most: Array, between: tuple[Array, Array] | None = None) -> Array:
    """The largest batch of each row, up to `most`, whose step takes at most each limit; 0 where not even one does. [rows × limits]

    `between`: what is known to hold, and what is known not to. A step of more sequences is never shorter, so each round asks 32
    batches for every limit and keeps the gap in which it lies.
    """
    limits = np.asarray(limits, dtype=float)
    low, high = between or (np.zeros((most.size, limits.size), dtype=int), np.repeat(most[:, None] + 1, limits.size, axis=1))
    share = np.arange(1, 33)
    while ((gap := high - low) > 1).any():
        asked = low[..., None] + np.maximum(1, gap[..., None] * share // 33)
        asked = np.minimum(asked, high[..., None] - 1)
        times = time_of(np.maximum(asked, 1).astype(float).reshape(most.size, -1))
        inside = np.where(asked > 0, np.broadcast_to(times, (most.size, asked[0].size)).reshape(asked.shape) <= limits[:, None], True)
        reached = np.where(inside, asked, low[..., None]).max(axis=2)
        missed = np.where(inside, high[..., None], asked).min(axis=2)
        low, high = reached, np.maximum(missed, reached + 1)
    return low


def _between(grid: Array, times: Array, limits: Array, most: Array) -> tuple[Array, Array]:
    """The neighbours on a grid of batches between which each limit lies. [rows × limits]"""
    held = (times[:, None, :] <= limits[None, :, None]).sum(axis=2)
    fenced = np.concatenate([[0], grid, [MOST_BATCH + 1]]).astype(int)
    return np.minimum(fenced[held], most[:, None]), np.minimum(fenced[held + 1], most[:, None] + 1)


def batches(most: int) -> Array:
    """1, 2, 3, ... and beyond 256 steps of 2%."""
    if most <= EVERY_BATCH_TO:
        return np.arange(1, most + 1, dtype=float)
    steps = np.arange(1, math.ceil(math.log2(most / EVERY_BATCH_TO) * STEPS_PER_DOUBLING) + 1)
    return np.concatenate([np.arange(1.0, EVERY_BATCH_TO + 1), np.unique(np.floor(EVERY_BATCH_TO * 2 ** (steps / STEPS_PER_DOUBLING)))])


# ---- the front ----------------------------------------------------------------------------------------------------------


def _even(values: Array) -> Array:
    """Values to twelve digits: past the critical batch a token costs the same at any batch, but for the last bits of a sum."""
    return ((np.ascontiguousarray(values, dtype=float).view(np.int64) + 0x800) & ~0xFFF).view(float)


class Place(NamedTuple):
    """Where an operating point is: which rack, which of its members, which batch."""

    rack: int
    member: int
    batch: int


class Front:
    """Points that no other one beats or equals in both coordinates, less of either being better; of equals, the first."""

    def __init__(self) -> None:
        self.x = np.empty(0)
        self.y = np.empty(0)
        self.places = np.empty((0, 3), dtype=int)

    def add(self, x: Array, y: Array, places: Callable[[Array], Array]) -> None:
        """Points to consider; `places` gives the places of those that are still in the running."""
        x, y = _even(x), _even(y)
        before = np.searchsorted(self.x, x, side="right") - 1
        beaten = (before >= 0) & (self.y[before] <= y) if self.x.size else np.zeros(x.shape, dtype=bool)
        (alive,) = np.nonzero(~beaten)
        if not alive.size:
            return
        x, y = np.concatenate([self.x, x[alive]]), np.concatenate([self.y, y[alive]])
        found = np.concatenate([self.places, places(alive)])
        order = np.lexsort((y, x))
        x, y, found = x[order], y[order], found[order]
        lowest = np.minimum.accumulate(y)
        keep = np.concatenate([[True], y[1:] < lowest[:-1]])
        self.x, self.y, self.places = x[keep], y[keep], found[keep]


@dataclass(slots=True)
class Found:
    """What a sweep found. Places count from the best x on."""

    racks: list[Rack] = field(default_factory=list)
    front: Front = field(default_factory=Front)
    chosen: tuple[float, float, Place] | None = None
    marks: dict[str, tuple[float, float, Place]] = field(default_factory=dict)
    closest: tuple[float, Place] | None = None
    """The least excess over the limits (0.1: a tenth) among the points that miss them, and where."""
    evaluated: int = 0


def sweep(
    space: Space,
    x: Axis = X_AXES["tpot"],
    y: Axis = Y_AXES["usd"],
    limits: Limits | None = None,
    marks: dict[str, float] | None = None,
    tick: Callable[[int, int, int], None] | None = None,
) -> Found:
    """Every operating point that fits: the front of x against y, and the cheapest point within the limits and each mark's TPOT.

    The front holds the limits that are not on its axes. `tick` is told (racks done, racks in all, points) as it goes.
    """
    limits, marks = limits or Limits(), marks or {}
    columns = limits.ttft_s is None
    found = Found(racks=list(racks(space, columns)))
    speeds = [speed for speed in (limits.tpot_s, *marks.values()) if speed is not None]
    shared: tuple[Any, ...] = ()
    known: step.Known | None = None
    for number, rack in enumerate(found.racks):
        if columns and space.method == "expected":
            same = (id(rack.members), rack.plan.weights.name, rack.plan.tp, rack.plan.pp, rack.plan.kv.bits <= rates.SMALL_CACHE)
            if same != shared:
                shared, known = same, _columns(space, rack.plan, rack.members)
        _sweep_rack(space, found, number, rack, x, y, limits, marks, speeds, known)
        if tick:
            tick(number + 1, len(found.racks), found.evaluated)
    return found


def _sweep_rack(
    space: Space,
    found: Found,
    number: int,
    rack: Rack,
    x: Axis,
    y: Axis,
    limits: Limits,
    marks: dict[str, float],
    speeds: list[float],
    known: step.Known | None,
) -> None:
    top = int(rack.most.max())
    if top < 1:
        return
    grid, members = batches(top), len(rack.members)
    found.evaluated += int(np.minimum(np.searchsorted(grid, rack.most, side="right"), grid.size).sum())

    def table(batch: Array) -> dict[str, Array]:
        figures = point(space, rack.plan, rack.usd, batch, known)
        told = {key: figure.value for key, figure in figures.items() if key not in TERMS and figure.value is not None}
        return {key: np.broadcast_to(one, (members, batch.shape[1])) for key, one in told.items()} | {
            "batch": np.broadcast_to(batch, (members, batch.shape[1]))
        }

    value = table(grid[None, :])
    if top > EVERY_BATCH_TO:
        exact = np.maximum(rack.most, 1)[:, None]
        if speeds:
            between = _between(grid, value["tpot_s"], np.array(speeds), rack.most)
            inside = largest_within(lambda asked: _timed(space, rack.plan, asked, known).mid_s, speeds, rack.most, between)
            exact = np.concatenate([exact, np.maximum(inside, 1)], axis=1)
        more = table(exact.astype(float))
        value = {key: np.concatenate([one, more[key]], axis=1) for key, one in value.items()}
    columns = value.pop("batch")
    shape = columns.shape
    missing = np.full(shape, math.nan)
    across, up, usd = value[x.key], value.get(y.key, missing), value["usd_per_million_output_tokens"]
    holds = columns <= rack.most[:, None]
    excess = _excess(space, rack, value, limits, shape)
    beside = np.ones(shape, dtype=bool)
    for name, over in excess.items():
        if name != "tpot_s":
            beside &= over <= 0

    def places(where: Array) -> Array:
        member, column = np.unravel_index(where, shape)
        return np.stack([np.full(where.shape, number), member, columns[member, column].astype(int)], axis=1)

    (kept,) = np.nonzero((holds & beside & np.isfinite(up)).ravel())
    sign_x, sign_y = (1 if axis.less else -1 for axis in (x, y))
    found.front.add(sign_x * across.ravel()[kept], sign_y * up.ravel()[kept], lambda alive: places(kept[alive]))
    tpot = value["tpot_s"]
    cheap = (holds & beside & np.isfinite(usd)).ravel()
    found.chosen = _cheaper(found.chosen, usd, tpot, cheap, limits.tpot_s, places)
    for name, speed in marks.items():
        best = _cheaper(found.marks.get(name), usd, tpot, cheap, speed, places)
        if best is not None:
            found.marks[name] = best
    if excess and holds.any():
        worst = np.where(holds, np.maximum.reduce(list(excess.values())), math.inf).ravel()
        least = int(np.argmin(worst))
        if found.closest is None or worst[least] < found.closest[0]:
            found.closest = float(worst[least]), Place(*(int(each) for each in places(np.array([least]))[0]))


def _excess(space: Space, rack: Rack, value: dict[str, Array], limits: Limits, shape: tuple[int, int]) -> dict[str, Array]:
    """By how much each point misses each limit, as a share of it; an unknown value misses it infinitely."""
    over: dict[str, Array] = {}
    if limits.tpot_s is not None:
        over["tpot_s"] = value["tpot_s"] / limits.tpot_s - 1
    if limits.ttft_s is not None:
        read = ttft(space, rack.plan)
        over["ttft_s"] = np.full(shape, math.inf) if read is None else np.broadcast_to(read / limits.ttft_s - 1, shape)
    if limits.tokens_per_s is not None:
        over["tokens_per_s"] = limits.tokens_per_s / value["tokens_per_s"] - 1
    if limits.usd_per_hour is not None:
        over["usd_per_hour"] = np.nan_to_num(value["usd_per_hour"] / limits.usd_per_hour - 1, nan=math.inf)
    return over


Best = tuple[float, float, Place]


def _cheaper(
    best: Best | None, usd: Array, tpot: Array, allowed: Array, limit: float | None, places: Callable[[Array], Array]
) -> Best | None:
    """The cheaper of the best so far and this table's cheapest point within the limit; of equal prices, the faster."""
    fast = allowed if limit is None else allowed & (tpot.ravel() <= limit)
    (kept,) = np.nonzero(fast)
    if not kept.size:
        return best
    prices = _even(usd.ravel()[kept])
    (equal,) = np.nonzero(prices == prices.min())
    first = kept[equal[np.argmin(tpot.ravel()[kept[equal]])]]
    here = float(prices.min()), float(tpot.ravel()[first])
    if best is not None and best[:2] <= here:
        return best
    return (*here, Place(*(int(each) for each in places(np.array([first]))[0])))


# ---- rows -----------------------------------------------------------------------------------------------------------------


def trace(found: Found, place: Place) -> tuple[Deployment, Candidate, int]:
    """The deployment of a place, with its own device again."""
    rack = found.racks[place.rack]
    one = rack.members[place.member]
    return replace(rack.plan, device=one.device), one, place.batch


def row(space: Space, plan: Deployment, one: Candidate, batch: int) -> Point:
    """One operating point, estimated by itself."""
    return _row(space, plan, one, batch, readings(space, plan, one.usd_per_hour, batch))


def _row(space: Space, plan: Deployment, one: Candidate, batch: int, value: Mapping[str, Any]) -> Point:
    bound = terms.bound({key: Figure(key, value[key]) for key in TERMS}, space.method)
    place = {"hardware": plan.device.id, "count": plan.ranks, "tp": plan.tp, "weights": plan.weights.name, "kv_dtype": plan.kv.name}
    said = {"batch": batch, "bound": bound, "price_date": one.price_date, "holds_at_high": None, "marks": ABSENT}
    found: dict[str, Any] = {key: value.get(key) for key in words(Point)} | place | said
    return Point(**found)


def front_rows(space: Space, found: Found) -> list[Point]:
    """The front, fastest first. It has few deployments, and each is estimated at all its batches at once."""
    rows: dict[int, Point] = {}
    deployments: dict[tuple[int, int], list[int]] = {}
    for index, (rack, member, _) in enumerate(found.front.places):
        deployments.setdefault((int(rack), int(member)), []).append(index)
    for (rack, member), indices in deployments.items():
        batches = [int(found.front.places[index][2]) for index in indices]
        plan, one, _ = trace(found, Place(rack, member, batches[0]))
        value = readings(space, plan, one.usd_per_hour, np.array(batches, dtype=float))
        for at, (index, batch) in enumerate(zip(indices, batches, strict=True)):
            mine = {key: float(each[at]) if isinstance(each, np.ndarray) else each for key, each in value.items()}
            rows[index] = _row(space, plan, one, batch, mine)
    return [rows[index] for index in range(len(rows))]


def dominating(rows: Iterable[Point], named: Point, x: Axis, y: Axis) -> Point | None:
    """The best in y of the front's points that are at least as good as the named one in both, and better in one; None if none is."""

    def better(other: Point) -> bool:
        pairs = [(sign * other[axis.key], sign * named[axis.key]) for axis in (x, y) for sign in [1 if axis.less else -1]]
        return all(theirs <= own for theirs, own in pairs) and any(theirs < own for theirs, own in pairs)

    if named[x.key] is None or named[y.key] is None:
        return None
    beating = [other for other in rows if better(other)]
    return min(beating, key=lambda other: float(other[y.key]) * (1 if y.less else -1), default=None)


# ---- compare --------------------------------------------------------------------------------------------------------------


def compare(space: Space, batch: int | None, max_tpot_s: float | None) -> list[Compared]:
    """One row per candidate: at that batch, or at the largest within the limit, or the largest that fits.

    Of several counts, a candidate gets the first that holds it.
    """
    rows: dict[str, Compared] = {}
    names = [f"{index} {one.device.id}" for index, one in enumerate(space.candidates)]
    for tp in sorted({count for one in space.candidates for count in one.counts}):
        left = {id(one): name for name, one in zip(names, space.candidates, strict=True) if name not in rows or not rows[name].fits}
        alone = tuple(replace(one, counts=(tp,)) for one in space.candidates if id(one) in left and tp in one.counts)
        which = [left[id(one)] for one in space.candidates if id(one) in left and tp in one.counts]
        by_id = {id(one): name for name, one in zip(which, alone, strict=True)}
        for rack in racks(replace(space, candidates=alone)):
            for one, found in zip(rack.members, _compared(space, rack, batch, max_tpot_s), strict=True):
                name = by_id[id(one)]
                if found.fits or name not in rows:
                    rows[name] = found
    return [rows.get(name) or _impossible(space, one) for name, one in zip(names, space.candidates, strict=True)]


def _impossible(space: Space, one: Candidate) -> Compared:
    tp = one.counts[0] if one.counts else 1
    why = obstacle(space, one, space.weights[0], tp) or "no number of them can hold the model"
    unknown = capacity_unknown(space, one.device)
    return Compared(**_blank(space, one, tp) | {"fits": None if unknown else False, "why": why})


def _blank(space: Space, one: Candidate, tp: int) -> dict[str, Any]:
    """The fields of a row of which nothing is estimated yet."""
    empty: dict[str, Any] = dict.fromkeys(words(Compared))
    return empty | {
        "model": space.model.id,
        "hardware": one.device.id,
        "count": tp,
        "usd_per_hour": None if one.usd_per_hour is None else one.usd_per_hour * tp,
        "price_date": one.price_date,
        "ctx_tokens": space.ctx,
        "weights": space.weights[0].name,
        "kv_dtype": space.kvs[0].name,
    }


BOUNDS = {"memory-weights": "reading weights", "memory-kv": "reading caches", "compute": "arithmetic", "communication": "communication"}


def _enough(plan: Deployment) -> str:
    own = (plan.tp, plan.pp) == plan.engine.layout(plan.ranks)
    return f"{plan.ranks} × would do" + ("" if own else ways.words(plan))


def _compared(space: Space, rack: Rack, batch: int | None, limit: float | None) -> Iterator[Compared]:
    """The rows of one rack."""
    plan, most, number = rack.plan, rack.most, len(rack.members)

    def time_of(asked: Array) -> Array:
        return point(space, plan, None, asked)["tpot_s"].value

    if batch is not None:
        chosen = np.full(number, batch)
    elif limit is not None:
        chosen = largest_within(time_of, [limit], most)[:, 0]
    else:
        chosen = most
    told = readings(space, plan, rack.usd, np.maximum(chosen, 1)[:, None].astype(float))
    table = {key: _column(value, number) for key, value in told.items()}
    held = _ledgers(space, plan, rack.members) if (most < np.maximum(chosen, 1)).any() else {}
    for index, one in enumerate(rack.members):
        value = {key: column[index] for key, column in table.items()}
        mine, largest = int(chosen[index]), int(most[index])
        found = _blank(space, one, plan.ranks) | {"max_batch": largest, "batch": max(mine, 1), "fits": largest >= max(mine, 1)}
        bound = terms.bound({key: Figure(key, value[key]) for key in TERMS}, space.method)
        if not found["fits"]:
            single = replace(plan, device=one.device)
            need = float(held["weight_bytes"][index] + max(mine, 1) * held["kv_bytes_per_sequence"][index])
            lacks, more = need - float(held["usable_bytes"][index]), ways.smallest(space.model, single, Workload(space.ctx, max(mine, 1)))
            found |= {"lacks_bytes": round(lacks), "why": f"lacks {size(lacks)}" + (f"; {_enough(more)}" if more else "")}
            yield Compared(**found)
            continue
        found |= {key: value[key] for key in found if key in value}
        found |= {"bound": bound, "holds_at_high": holds_at_high(space, found, limit)}
        if batch is not None:
            missed = limit is not None and value["tpot_s"] > limit
            found["why"] = "over the TPOT limit" if missed else BOUNDS[bound]
        elif mine == 0:
            found |= {"why": f"{seconds(value['tpot_s'])} at batch 1: over the TPOT limit", "batch": 0}
            found |= dict.fromkeys(key for key in found if "usd_per_million" in key or key in ("tokens_per_s", "tokens_per_s_per_usd_hour"))
        else:
            found["why"] = "memory is full" if mine == largest else "the TPOT limit"
        yield Compared(**found)


def _column(value: Any, number: int) -> list[Any]:
    """A column of a table as Python numbers; NaN and None are None."""
    if value is None:
        return [None] * number
    column = np.broadcast_to(value, (number, 1))[:, 0].tolist()
    return [None if isinstance(each, float) and math.isnan(each) else each for each in column]
