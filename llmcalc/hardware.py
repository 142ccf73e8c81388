"""Devices: what they hold, how fast they read and compute, what they cost, and who says so.

A name is matched exactly, as an id, an alias or the driver's own name, and never by a part of it: "H200" is inside
"GH200", "L4" inside "L40". Case, spaces and punctuation do not count, nor does the vendor in front. The user's own
devices are YAML files; of the bundled ones `hardware/index.json` has the names and `hardware/devices.json` the values, both
written from their YAML by scripts/hardware_index.py.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from llmcalc import data, links
from llmcalc.errors import DeviceError, LlmcalcError, ProfileError, UsageError, close_matches, printable
from llmcalc.units import decimal_size, quantity, usd

if TYPE_CHECKING:
    from llmcalc.detect import Found
    from llmcalc.hardware_profile import MeasuredBandwidth, MeasuredMatmul, Profile

MAX_PROFILE_BYTES = 128 * 2**10  # the largest bundled one has 6 kB
MAX_REFERENCE = 1000  # characters: a long path fits
PRICE_DAYS = 180
"""A price older than this is flagged."""
PRICE_ORDER = ("on-demand", "long-rental", "spot", "ownership")
_WHAT = "hardware profile"


class Source(NamedTuple):
    """A citation and its date: of publication, else `read …`, else empty."""

    cite: str
    date: str


class Fact(NamedTuple):
    """One value with its provenance, as `hardware show` prints it."""

    label: str
    value: float
    unit: str
    source: str
    date: str
    remark: str = ""
    """`derived`, `unverified`, or what else qualifies the value."""


@dataclass(frozen=True, slots=True)
class Price:
    """One price of one device-hour."""

    usd_per_hour: float
    type: str
    """on-demand, spot, long-rental or ownership."""
    provider: str
    date: str | None
    """None: the source does not say when."""
    source: Source


class PriceChoice(NamedTuple):
    """The price that stands for a device, or None, and in words where it comes from or why there is none."""

    usd_per_hour: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """How one device reaches another: the kind of link and the bytes/s that one device can send; None if unknown."""

    type: str
    bytes_per_s: float | None
    bridge: str | None = None
    bridge_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """How a device reaches other nodes: the kind of network and the bytes/s that one device can send."""

    type: str
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A public benchmark: the rate reached [bytes/s or FLOP/s], its fraction of the peak, and what was run."""

    value: float
    fraction: float | None
    what: str
    """The kernel, or the number format of a matmul."""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One device in SI base units. Rates are dense peaks, directions of a link are one-way."""

    id: str
    name: str
    vendor: str
    kind: str
    """gpu, accelerator, unified, apple or cpu."""
    device_class: str
    """datacenter, workstation, consumer, unified, embedded, apple or cpu: which measured efficiencies apply."""
    bandwidth_bytes_per_s: float
    memory_bytes: float | None = None
    """Nominal, decimal: 80 GB = 80e9. None where the buyer chooses it (CPUs)."""
    memory_reported_bytes: float | None = None
    """The driver's total; None if no listing was found."""
    memory_physical_bytes: float | None = None
    """The vendor's GB read as GiB, given where no driver's figure is known."""
    memory_gpu_limit_bytes: float | None = None
    """What the GPU may use of a unified memory by default."""
    memory_options_bytes: tuple[float, ...] = ()
    memory_type: str | None = None
    compute: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Format (fp32, tf32, bf16, fp16, fp8, int8, fp4, int4) to dense FLOP/s; absent = unsupported or unknown."""
    accumulate: str = "unknown"
    """The type in which the products are summed at those rates."""
    fp16_accumulate_fp16: float | None = None
    """FLOP/s of fp16 summed in fp16, where it differs."""
    link: Link | None = None
    devices_per_node: int = 1
    """Devices that the link joins."""
    devices_per_host: int | None = None
    """Devices of one operating system, where the link joins several of those."""
    network: Network | None = None
    """Between nodes; None: not known."""
    rented: int = 1
    """Devices that are paid together: those of a host, where only whole ones are rented."""
    power_w: float | None = None
    """Rated maximum [W]."""
    power_all_in_w: float | None = None
    """Facility power provisioned per device [W]."""
    power_caps: tuple[tuple[float, float, float], ...] = ()
    """Limits of power [W], and the shares of full speed at which memory is read and products are computed under them."""
    power_cap_w: float | None = None
    """The limit that is set; None: the rated maximum."""
    reading_share: float = 1.0
    """Of full speed under that limit, in the bandwidth above already."""
    computing_share: float = 1.0
    """The same of arithmetic."""
    release_year: int | None = None
    msrp_usd: float | None = None
    prices: tuple[Price, ...] = ()
    measured_bandwidth: Measured | None = None
    measured_matmul: Measured | None = None
    notes: tuple[str, ...] = ()
    """What a reader should know; first, if a bare name was given, which variant was assumed."""
    confidence: str = "low"
    sources: Mapping[str, tuple[Source, ...]] = field(default_factory=dict, hash=False)
    """Block (memory, compute, link, power, release) to its citations."""
    marks: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Field to `derived` or `unverified`."""
    origin: str = "bundled"
    """`bundled`, or the path of the file."""

    @property
    def power_most_w(self) -> float | None:
        """What it may draw: rated, or the limit that is set. [W]"""
        return self.power_cap_w if self.power_w is None else min(self.power_w, self.power_cap_w or self.power_w)

    @property
    def memory_usable_bytes(self) -> float | None:
        """The best figure of what a program can hold: GPU limit, else driver's, else GiB, else nominal. [bytes]"""
        known = self.memory_gpu_limit_bytes or self.memory_reported_bytes
        return known or self.memory_physical_bytes or self.memory_bytes

    def price(self, kind: str | None = None) -> PriceChoice:
        """The median of the recorded prices of one kind [USD per device-hour], undated ones included, and who asks it.

        Without a kind: on-demand, else long rental, else spot, else the amortised cost of ownership; the text says so.
        """
        from statistics import median  # 10 ms that only a cost pays

        offers = self.offers(kind)
        if not offers:
            return PriceChoice(None, f"no {kind + ' ' if kind else ''}price is recorded for {self.id}")
        middle = median(price.usd_per_hour for price in offers)
        words = [f"{usd(p.usd_per_hour)} {p.provider} ({p.date or 'undated'})" for p in offers]
        if len(offers) == 1:
            return PriceChoice(middle, f"{offers[0].type} price: {words[0]}")
        range_ = f"from {words[0]} to {words[-1]}"
        return PriceChoice(middle, f"median of {len(offers)} {offers[0].type} prices, {range_}")

    def of_kind(self, kind: str | None) -> Device:
        """The device with its prices of one kind alone; None: with all that it has."""
        return self if kind is None else replace(self, prices=tuple(price for price in self.prices if price.type == kind))

    def in_whole_nodes(self) -> Device:
        """The device as it is rented where nobody rents a part of a host."""
        return replace(self, rented=self.devices_per_host or max(1, self.devices_per_node))

    def old_prices(self, kind: str | None = None) -> str:
        """How many of the prices behind `price(kind)` are older than PRICE_DAYS; empty if none is."""
        offers = self.offers(kind)
        old = sum(bool(p.date and data.age_days(p.date) > PRICE_DAYS) for p in offers)
        return f"{old} of {len(offers)} prices of {self.id} are older than {PRICE_DAYS} days" if old else ""

    def offers(self, kind: str | None) -> list[Price]:
        """The prices of that kind, else of the first kind that has any; cheapest first."""
        ranked = ([price for price in self.prices if price.type == each] for each in ((kind,) if kind else PRICE_ORDER))
        return sorted(next(filter(None, ranked), []), key=lambda price: price.usd_per_hour)


def common_kind(devices: Iterable[Device]) -> str:
    """The kind of price by which devices are compared: the first that all of them have, else on-demand."""
    held = [{price.type for price in device.prices} for device in devices]
    return next((kind for kind in PRICE_ORDER if held and all(kind in kinds for kinds in held)), PRICE_ORDER[0])


def joined(device: Device, link: str | None, network: str | None) -> Device:
    """The device over another link or network than its profile's, each a name of `links` or a rate. Errors: bad-link."""
    if link is not None:
        given = links.asked(link, "link")
        device = replace(device, link=Link(given.name, given.rate), devices_per_node=max(2, device.devices_per_node))
    if network is not None:
        given = links.asked(network, "network")
        device = replace(device, network=Network(given.name, given.rate))
    return device


def limited(device: Device, watts: float | None) -> Device:
    """The device under a limit of power, as fast as was measured there; between two limits on the line that joins them.

    Errors: bad-power-cap (nobody measured that device under limits, or none so low or so high).
    """
    if watts is None:
        return device
    caps = device.power_caps
    if not caps:
        known = [ident for ident in ids() if load(ident).power_caps]
        raise UsageError("bad-power-cap", f"how fast {device.id} is under a limit of power is not known", "known: " + ", ".join(known))
    if not caps[0][0] <= watts <= caps[-1][0]:
        raise UsageError(
            "bad-power-cap",
            f"{device.id} was measured at {caps[0][0]:g} to {caps[-1][0]:g} W, not at {watts:g}",
            "give a limit between them",
        )
    above = next(cap for cap in caps if cap[0] >= watts)
    below = next((cap for cap in reversed(caps) if cap[0] <= watts), above)
    part = (watts - below[0]) / (above[0] - below[0]) if above[0] > below[0] else 0.0
    reading, computing = (low + part * (high - low) for low, high in zip(below[1:], above[1:], strict=True))
    return replace(
        device,
        bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * reading,
        compute={name: rate * computing for name, rate in device.compute.items()},
        power_cap_w=watts,
        reading_share=reading,
        computing_share=computing,
    )


# ---- names ----------------------------------------------------------------------------------------------------------

_BRANDS = {"nvidia", "geforce", "tesla", "amd", "instinct", "radeon", "intel", "apple", "google", "aws", "huawei"}
_MACS = {"mac", "macbook", "imac", "macmini", "macstudio"}
_COUNT = re.compile(r"\s*(\d{1,6})\s*[x×*]\s*(\S.*)", re.IGNORECASE | re.DOTALL)
_BEHIND = re.compile(r"(\S.*?)\s*(?:[x×*:]\s*|\(\s*x?\s*)(\d{1,4})\s*\)?\s*", re.IGNORECASE | re.DOTALL)
_BEFORE = re.compile(r"\s*x?(\d{1,4})\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_JOINED = re.compile(r"\s*(\d{1,3})-?([a-z].*)", re.IGNORECASE | re.DOTALL)
_VARIANT = re.compile(r"\s+(\([^)]*\)|\d+\s?GB)$")
_SIZED = re.compile(r"(.*\S)[\s,(_-]+([1-9]\d{0,5})\s*(GB|GiB|G)\)?(?:\s+(?:HBM|GDDR|LPDDR)\w*)?", re.IGNORECASE | re.DOTALL)


_BARE = re.compile(r"(.*[^\W_])[-_]([1-9]\d{0,3})", re.DOTALL)
"""A name that ends in a size without its unit: rtx-4060-8, m4-max-128."""


def _key(name: str, brands: bool = False) -> str:
    """What is compared of a name: its letters and digits in lower case, without the brands in front of it; of a Mac its chip."""
    words = re.findall(r"[^\W_]+", re.sub(r"\((?:r|tm)\)", " ", name.casefold()))
    if words and words[0] in _MACS and not brands:
        words = next((words[place:] for place, word in enumerate(words) if re.fullmatch(r"m\d+", word)), words)
    while not brands and len(words) > 1 and words[0] in _BRANDS:
        words = words[1:]
    return "".join(words)


class _Index(NamedTuple):
    exact: dict[str, str]
    """Key of an id, alias or product name to the id."""
    assumed: dict[str, str]
    """Key of a bare name to the id of the commonest variant."""
    shared: dict[str, list[str]]
    """Key of a name that is refused to the ids it may mean."""
    products: frozenset[str]
    """Keys, brand included, of the driver's names: no variant is assumed for these."""
    names: dict[str, str]
    """Every name as written, for close matches, to the id."""
    family: dict[str, list[str]]
    """Every id to the ids of its family."""
    systems: dict[str, int]
    """Key of a machine's name to how many devices it has."""


def index_of(profiles: Iterable[Profile]) -> dict[str, Any]:
    """What `hardware/index.json` holds: id to names. Errors (ProfileError): name-claimed-twice."""
    table: dict[str, Any] = {}
    owner: dict[str, str] = {}
    refused = set()
    for profile in sorted(profiles, key=lambda each: each.id):
        fields = ("aliases", "product_names", "assumed_for", "shared_names")
        table[profile.id] = {"name": profile.name, "family": profile.family}
        table[profile.id] |= {each: list(getattr(profile, each)) for each in fields}
        table[profile.id] |= {"systems": profile.systems} if profile.systems else {}
        refused |= {_key(name) for name in profile.shared_names}
        names = (profile.id, profile.name, *profile.aliases, *profile.product_names, *profile.assumed_for, *profile.systems)
        for key in {_key(name) for name in names}:
            if owner.setdefault(key, profile.id) != profile.id:
                raise ProfileError("name-claimed-twice", f"{profile.id} and {owner[key]} both claim the name {key!r}")
    for key in refused & set(owner):
        raise ProfileError("name-claimed-twice", f"{owner[key]} claims {key!r}, which another profile calls shared")
    return table


def devices_of(profiles: Iterable[Profile]) -> dict[str, Any]:
    """What `hardware/devices.json` holds: id to the device's fields."""
    rows = {profile.id: asdict(_device(profile, "bundled")) for profile in sorted(profiles, key=lambda each: each.id)}
    return {ident: {key: value for key, value in row.items() if key != "rented"} for ident, row in rows.items()}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(data.read_text(data.bundled("hardware") / "index.json", "hardware index"))
    return table


@cache
def _index() -> _Index:
    table = _table()
    index = _Index({}, {}, {}, frozenset(e for row in table.values() for e in _brand_keys(row)), {}, {}, {})
    families: dict[str, list[str]] = {}
    for ident, row in table.items():
        exact = (ident, row["name"], *row["aliases"], *row["product_names"], *row.get("systems", ()))
        index.systems.update((_key(name), count) for name, count in row.get("systems", {}).items())
        index.exact.update((_key(name), ident) for name in exact)
        index.assumed.update((_key(name), ident) for name in row["assumed_for"])
        index.names.update((name, ident) for name in (*exact, *row["assumed_for"]))
        for name in row["shared_names"]:
            index.shared.setdefault(_key(name), []).append(ident)
        index.family[ident] = families.setdefault(row["family"] or ident, [])
        index.family[ident].append(ident)
    return index


def _brand_keys(row: Mapping[str, Any]) -> Iterator[str]:
    return (_key(name, brands=True) for name in row["product_names"])


def _user_files() -> dict[str, Path]:
    """The user's own profiles by file name, which is their id."""
    try:
        return {path.stem: path for path in sorted(_user_folder().glob("*.yaml"))}
    except OSError:
        return {}


def _user_folder() -> Path:
    return data.user_config() / "hardware"


def known(name: str) -> bool:
    """Whether a bundled device has that name."""
    return _key(name) in _index().exact or _key(name) in _index().assumed


def ids() -> list[str]:
    """Every known id, the user's own included, in alphabetical order."""
    return sorted({*_user_files(), *_index().family})


def everything() -> tuple[list[Device], tuple[str, ...]]:
    """Every known device, and which of the user's own profiles were passed over, with the reason."""
    found, skipped = [], []
    try:
        os.listdir(_user_folder())
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as problem:
        skipped.append(f"{_user_folder()} is left out: {(problem.strerror or str(problem)).lower()}")
    for ident in ids():
        try:
            found.append(_of_id(ident))
        except LlmcalcError as problem:
            skipped.append(f"{printable(ident, 60)} is left out: {problem.message}")
    return found, tuple(skipped)


# ---- loading --------------------------------------------------------------------------------------------------------


def load(reference: str) -> Device:
    """The device of an id, an alias, the driver's name, or a YAML file. Any of these may end in a memory size.

    `auto` is the device of this machine. Errors (ProfileError): hardware-not-found, hardware-ambiguous, hardware-invalid,
    hardware-not-detected, and those of reading a file.
    """
    reference = reference.strip()
    if reference.casefold() == "auto":
        return _local()
    if len(reference) > MAX_REFERENCE or "\0" in reference:
        raise _unknown(reference)
    if _is_file_name(reference):
        return _from_file(reference)
    ident, note = _find(reference)
    if ident is not None:
        return _noted(_of_id(ident), note)
    sized = _SIZED.fullmatch(reference)
    ident, note = _find(sized[1]) if sized else (None, "")
    if sized and ident is not None:
        size = float(quantity(f"{sized[2]} {'GiB' if sized[3].lower() == 'gib' else 'GB'}", "bytes"))
        return _of_size(ident, note, size, reference)
    bare = _BARE.fullmatch(reference)
    ident, note = _find(bare[1]) if bare else (None, "")
    if bare and ident is not None and _sizes(_of_id(ident)):
        return _of_size(ident, note, float(bare[2]) * 1e9, reference)
    if "/" in reference or "\\" in reference:
        return _from_file(reference)
    raise _unknown(reference)


def _local() -> Device:
    """The device of this machine by the driver's exact name and its memory. Errors: hardware-not-detected."""
    from llmcalc import detect

    found = detect.local()
    for each in found:
        device = next(filter(None, (_as_reported(ident, each) for ident in _named_by_driver(each))), None)
        if device is not None:
            more = f"; {each.number} are here: '{each.number}x auto' takes all" if each.number > 1 else ""
            return _noted(device, f"'auto' is taken as {device.id}: {_reported(each)}{more}")
    here = " and ".join(_reported(each) for each in found) or "this machine names no device"
    hint = "name a device (`llmcalc hardware list`), or describe this one in a YAML file"
    if not any(each.kind != "cpu" for each in found) and find_spec("pynvml") is None:
        hint = f"NVIDIA GPUs are asked through NVML: pip install 'llmcalc[detect]'; else {hint}"
    raise ProfileError("hardware-not-detected", f"no profile matches: {here}", hint)


def _reported(found: Found) -> str:
    cores = f" and {found.cores} GPU cores" if found.cores else ""
    return f"the system reports {printable(found.name, 80)} with {found.memory_bytes / 2**30:.1f} GiB{cores}"


def _named_by_driver(found: Found) -> list[str]:
    """Ids of the devices that the driver calls so; a name that leaves the size or the cores open may be several."""
    key = _key(found.name, brands=True)
    rows = dict(_table())
    for stem, path in _user_files().items():
        with suppress(LlmcalcError):  # a broken file is reported where it is asked for
            mine = read(path) if path.is_file() else None
            if mine is None:
                continue
            rows[stem] = {"name": mine.name, "product_names": mine.product_names}
    names = {ident: {*row["product_names"], _VARIANT.sub("", row["name"])} for ident, row in rows.items()}
    cores = f"{found.cores}-core GPU"
    several = [ident for ident, all_ in names.items() if key in {_key(name, brands=True) for name in all_}]
    return [ident for ident in several if "-core GPU" not in rows[ident]["name"] or cores in rows[ident]["name"]]


def _as_reported(ident: str, found: Found) -> Device | None:
    """The device if its memory is the reported one; of a CPU and an Apple chip the buyer chose it."""
    device, total = _of_id(ident), float(found.memory_bytes)
    if found.kind == "cpu":
        return replace(device, memory_bytes=total, memory_reported_bytes=total)
    if found.kind == "apple":
        size = round(total / 2**30) * 1e9
        return _resized(device, size) if size in _sizes(device) else None
    if device.memory_reported_bytes is not None:
        return device if abs(total / device.memory_reported_bytes - 1) < 0.02 else None  # drivers differ by some MiB
    size = device.memory_bytes or 0
    return device if 0.93 * size < total < 1.074 * size else None  # "24 GB" is up to 24 GiB, less what ECC takes


def _is_file_name(reference: str) -> bool:
    return reference.lower().endswith((".yaml", ".yml"))


def _from_file(reference: str) -> Device:
    path = Path(os.path.expanduser(reference))  # Path's own raises for an unknown ~user
    return _device(read(path), str(path))


def _of_id(ident: str) -> Device:
    mine = _user_files().get(ident)
    if mine is None:
        return _bundled(ident)
    if not mine.is_file():  # a pipe would be waited for
        raise ProfileError("hardware-invalid", f"{mine} is not a regular file", "remove it, or write a profile there")
    profile = read(mine)
    if profile.id != ident:
        raise ProfileError("hardware-invalid", f"{mine}: id: is {profile.id!r}; it must be the file's name, {ident!r}")
    return _device(profile, str(mine))


@cache
def _lines() -> dict[str, str]:
    """The bundled devices by id, each a line of JSON: pydantic and YAML took 150 ms, half of a `decode`, to say the same."""
    text = data.read_text(data.bundled("hardware") / "devices.json", "device table")
    return {line[1 : line.index('"', 1)]: line[line.index(":") + 1 :].rstrip(",") for line in text.splitlines()[1:-1]}


def _bundled(ident: str) -> Device:
    row: dict[str, Any] = json.loads(_lines()[ident])
    stream, matmul, link, network = row["measured_bandwidth"], row["measured_matmul"], row["link"], row["network"]
    return Device(
        **row
        | {
            "memory_options_bytes": tuple(row["memory_options_bytes"]),
            "link": link and Link(**link),
            "network": network and Network(**network),
            "prices": tuple(Price(**each | {"source": Source(*each["source"])}) for each in row["prices"]),
            "measured_bandwidth": stream and Measured(**stream | {"sources": _cited(stream["sources"])}),
            "measured_matmul": matmul and Measured(**matmul | {"sources": _cited(matmul["sources"])}),
            "power_caps": tuple(map(tuple, row["power_caps"])),
            "notes": tuple(row["notes"]),
            "sources": {block: _cited(rows) for block, rows in row["sources"].items()},
        }
    )


def _cited(rows: Iterable[Iterable[str]]) -> tuple[Source, ...]:
    return tuple(Source(*row) for row in rows)


def _noted(device: Device, note: str) -> Device:
    return replace(device, notes=(note, *device.notes)) if note else device


def _of_size(ident: str, note: str, size: float, reference: str) -> Device:
    """The device that is sold with the memory the name ends in: the one meant, or its only sibling."""
    device = _of_id(ident)
    if not (sizes := _sizes(device)) or size in sizes:
        return _noted(_resized(device, size), note)
    # Only a bare name may move to a sibling: "M4 Max 36GB" is the 32-core one.
    siblings = [_of_id(each) for each in _index().family.get(ident, []) if note and each != ident]
    fitting = [each for each in siblings if size in _sizes(each)]
    if len(fitting) == 1:
        return _resized(fitting[0], size)
    sold = " or ".join(decimal_size(each) for each in sizes)
    raise DeviceError(
        "hardware-not-found",
        f"{reference!r}: {ident} has {sold}, not {decimal_size(size)}",
        "give the size that is sold, or describe the device in a YAML file",
    )


def _sizes(device: Device) -> list[float]:
    return sorted({*device.memory_options_bytes, *([device.memory_bytes] if device.memory_bytes else [])})


def _find(name: str) -> tuple[str | None, str]:
    """The id that answers to a name, and a note if a variant had to be assumed. Raises hardware-ambiguous."""
    mine, index, key = _user_files(), _index(), _key(name)
    own = {_key(stem): stem for stem in mine}
    tables = (own, index.exact, index.assumed, index.shared)
    if key[-1:] == "s" and key[-2:-1].isalpha() and not any(key in each for each in tables):  # 4070S is another card
        key = next((key[:-1] for each in tables if key[:-1] in each), key)
    if not key:
        return None, ""
    if key in own:
        return own[key], ""
    plain = name.casefold() in index.family or _key(name, brands=True) in index.products  # an id or the driver's name
    if key in index.exact and (plain or key not in index.assumed):
        return index.exact[key], ""
    if key in index.assumed:
        ident = index.assumed[key]
        others = [each for each in index.family.get(ident, []) if each != ident]
        rest = f"; others of that name: {', '.join(others)}" if others else "; other parts have that name, too"
        return ident, f"{name!r} is taken as {ident}{rest}"
    if key in index.shared:
        several = index.shared[key]
        raise DeviceError("hardware-ambiguous", f"{name!r} may be {', '.join(several[:-1])} or {several[-1]}", "give one of these ids")
    for stem, path in mine.items():  # the user's aliases are not indexed: read them only when all else failed
        try:
            profile = read(path)
        except ProfileError:
            continue  # a broken file is reported where it is asked for, not where another one is
        names = (profile.name, *profile.aliases, *profile.product_names, *profile.assumed_for)
        if key in {_key(each) for each in names}:
            return stem, ""
    return None, ""


def _unknown(reference: str) -> ProfileError:
    names = {**_index().names, **{stem: stem for stem in _user_files()}}
    near = list(dict.fromkeys(names[hit] for hit in close_matches(reference[:80], names, limit=6)))[:3]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    if re.search(r"laptop|mobile|max-?q", reference, re.IGNORECASE):
        hint = "a laptop part is not the desktop card of that number. "  # half the bandwidth and other memory
    if "+" in reference:
        hint = "unlike cards are not reckoned together: give those of one kind, such as '2x rtx-3090'. "
    shown = reference if len(reference) <= 60 else reference[:59] + "…"
    return DeviceError(
        "hardware-not-found",
        f"no device is called {shown!r}" if reference else "no device is named",
        f"{hint}`llmcalc hardware list` names all; a YAML file can describe another",
    )


METAL_SHARES = ((16, 2 / 3), (32, 0.74), (64, 0.78), (128, 0.81), (512, 0.84), (math.inf, 0.90625))
"""recommendedMaxWorkingSetSize of macOS 15 and 26 over the memory, below so many GB: logs of ggml_metal say 12,713 MB of 16 GB,
26,801 of 32, 30,151 of 36, 40,201 of 48, 55,663 of 64, 115,449 of 128 and 498,216 of 512; 8 GB as macOS 14 had it."""


def metal_limit_bytes(size_bytes: float) -> float:
    """What macOS lets the GPU use by default of a memory of that decimal size, which is binary in fact. [B]"""
    return size_bytes / 1e9 * 2**30 * next(share for below, share in METAL_SHARES if size_bytes < below * 1e9)


def _resized(device: Device, size: float) -> Device:
    """The device with the memory [bytes] that its name asks for."""
    if size == device.memory_bytes:
        return device
    limit = device.memory_gpu_limit_bytes
    if limit is not None and device.kind == "apple":
        limit = metal_limit_bytes(size)
    return replace(
        device,
        memory_bytes=size,
        memory_reported_bytes=None,
        memory_physical_bytes=None,
        memory_gpu_limit_bytes=limit,
        notes=(f"memory of {decimal_size(size)} as named", *device.notes),
    )


def read(path: Path) -> Profile:
    """A YAML file through the schema. Every error is a ProfileError that names the file and the field."""
    from llmcalc.hardware_profile import problems_of

    profile, problems = problems_of(_content(path))
    if profile is None:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        hint = f"`llmcalc hardware check {path}` lists every problem; hardware/schema.json is the schema"
        raise ProfileError("hardware-invalid", f"{path}: {problems[0]}{more}", hint)
    return profile


def _content(path: Path) -> Any:
    try:
        return data.parse_yaml(data.read_text(path, _WHAT, MAX_PROFILE_BYTES), str(path), _WHAT)
    except LlmcalcError as problem:
        raise ProfileError(problem.code, problem.message, problem.hint) from None


def _device(profile: Profile, origin: str) -> Device:
    from llmcalc.hardware_profile import FORMATS

    def cites(keys: Iterable[str]) -> tuple[Source, ...]:
        rows = (profile.sources[key] for key in keys)
        return tuple(Source(row.cite, row.date or (f"read {row.read}" if row.read else "")) for row in rows)

    def measured(block: MeasuredBandwidth | MeasuredMatmul, what: str) -> Measured:
        return Measured(block.value, block.fraction, what, cites(block.source))

    memory, compute, link, network = profile.memory, profile.compute, profile.link, profile.network
    stream, matmul = profile.measured.bandwidth, profile.measured.matmul
    blocks = {"memory": memory, "compute": compute, "link": link, "network": network, "power": profile.power, "release": profile.release}
    return Device(
        id=profile.id,
        name=profile.name,
        vendor=profile.vendor,
        kind=profile.kind,
        device_class=profile.device_class,
        bandwidth_bytes_per_s=profile.bandwidth,
        memory_bytes=memory.nominal,
        memory_reported_bytes=memory.reported,
        memory_physical_bytes=memory.physical,
        memory_gpu_limit_bytes=memory.gpu_limit,
        memory_options_bytes=tuple(memory.options),
        memory_type=memory.type,
        compute={name: rate for name in FORMATS if (rate := getattr(compute, name)) is not None},
        accumulate=compute.accumulate,
        fp16_accumulate_fp16=compute.fp16_accumulate_fp16,
        link=Link(link.type, link.one_direction, link.bridge, link.bridge_one_direction) if link else None,
        devices_per_node=profile.devices_per_node,
        devices_per_host=profile.devices_per_host,
        network=Network(network.type, network.per_device) if network else None,
        power_w=profile.power.tdp,
        power_all_in_w=profile.power.all_in,
        power_caps=tuple((cap.at, cap.reading, cap.computing) for cap in profile.power.caps),
        release_year=profile.release.year,
        msrp_usd=profile.release.msrp,
        prices=tuple(Price(o.rate, o.type, o.provider, o.date, cites([o.source])[0]) for o in profile.prices),
        measured_bandwidth=measured(stream, stream.kernel) if stream else None,
        measured_matmul=measured(matmul, matmul.format) if matmul else None,
        notes=tuple(profile.notes),
        confidence=profile.confidence,
        sources={name: cites(block.source) for name, block in blocks.items() if block},
        marks={each: _mark(profile, each) for each in (*profile.derived, *profile.unverified)},
        origin=origin,
    )


def _mark(profile: Profile, field: str) -> str:
    return ", ".join(mark for mark in ("derived", "unverified") if field in getattr(profile, mark))


def parse_count(text: str) -> tuple[int, str]:
    """`2x rtx-4090`, `8×h100-sxm`, `8 x h100`, `h100:8` to (count, name).

    A bare name counts 1, a machine's name its devices: `2x hgx-h100` is 16.

    Errors: bad-device-count.
    """
    found = _COUNT.fullmatch(text) or _loosely(text)
    # "7900 XTX" and "7950X" are names, not 7900 times "TX"; "2xh100.yaml" may be a file.
    if found is None or _key(text) in _index().exact or (_is_file_name(text) and Path(text).is_file()):
        return _index().systems.get(_key(text), 1), text.strip()
    if int(found[1]) < 1:
        raise UsageError("bad-device-count", f"{text!r} is no device at all", "write it like 2x rtx-4090")
    return int(found[1]) * _index().systems.get(_key(found[2]), 1), found[2].strip()


def _loosely(text: str) -> re.Match[str] | None:
    """`h100x8`, `h100:8`, `8 h100`, `8h100` and `h100 (8)` as `8x h100`, where the whole is no name and the rest is one."""
    if _find(text)[0] is not None:
        return None
    behind, before = _BEHIND.fullmatch(text), _BEFORE.fullmatch(text)
    for found, number, name in ((behind, 2, 1), (before, 1, 2)):
        if found and (_find(found[name])[0] is not None or _key(found[name]) in _index().systems or _key(found[name]) in _index().shared):
            return _COUNT.fullmatch(f"{found[number]}x {found[name]}")
    joined = _JOINED.fullmatch(text)
    return _COUNT.fullmatch(f"{joined[1]}x {joined[2]}") if joined and known(joined[2]) else None


def check(path: str | Path) -> list[str]:
    """What is wrong with a profile, one line per problem that names the field; empty if all is well.

    Beyond the schema this doubts what is physically odd: a narrower format slower than a wider one, a slipped unit.
    """
    from llmcalc.hardware_profile import doubts, problems_of

    try:
        content = _content(Path(os.path.expanduser(path)))
    except ProfileError as problem:
        return [problem.message]
    profile, problems = problems_of(content)
    return problems if profile is None else doubts(profile)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a profile; `hardware/schema.json` is a copy of it."""
    from llmcalc.hardware_profile import Profile

    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Profile.model_json_schema(by_alias=True)}


# ---- provenance -----------------------------------------------------------------------------------------------------


def facts(device: Device) -> list[Fact]:
    """Every value that the profile gives, in SI base units, with its source and date."""
    return list(_facts(device))


def _facts(device: Device) -> Iterator[Fact]:
    def fact(label: str, value: float | None, unit: str, block: str, mark: str = "") -> Iterator[Fact]:
        if value is not None:
            cites, remark = device.sources.get(block, ()), device.marks.get(mark or label, device.marks.get(block, ""))
            yield Fact(label, value, unit, *_joined(cites), remark)

    yield from fact("memory.nominal", device.memory_bytes, "B", "memory")
    yield from fact("memory.reported", device.memory_reported_bytes, "B", "memory")
    yield from fact("memory.physical", device.memory_physical_bytes, "B", "memory")
    yield from fact("memory.gpu_limit", device.memory_gpu_limit_bytes, "B", "memory")
    for size in device.memory_options_bytes:
        yield from fact("memory.options", size, "B", "memory")
    yield from fact("bandwidth", device.bandwidth_bytes_per_s, "B/s", "memory")
    for name, rate in device.compute.items():
        yield from fact(f"compute.{name}", rate, "FLOP/s", "compute")
    yield from fact("compute.fp16_accumulate_fp16", device.fp16_accumulate_fp16, "FLOP/s", "compute")
    if device.link:
        yield from fact("link.one_direction", device.link.bytes_per_s, "B/s", "link")
        yield from fact("link.bridge_one_direction", device.link.bridge_bytes_per_s, "B/s", "link", "link.bridge")
    if device.network:
        yield from fact("network.per_device", device.network.bytes_per_s, "B/s", "network")
    if device.link and not device.link.type.startswith("PCIe"):
        yield from fact("devices_per_node", device.devices_per_node, "devices", "link")
    else:
        yield Fact("devices_per_node", device.devices_per_node, "devices", "modelling default, not a specification", "")
    yield from fact("power.tdp", device.power_w, "W", "power")
    yield from fact("power.all_in", device.power_all_in_w, "W", "power")
    yield from fact("release.year", device.release_year, "year", "release")
    yield from fact("release.msrp", device.msrp_usd, "USD", "release")
    for price in device.prices:
        label = f"price.{price.type}"
        yield Fact(label, price.usd_per_hour, "USD/h", price.source.cite, price.date or "undated", price.provider)
    for label, measured, unit in (
        ("measured.bandwidth", device.measured_bandwidth, "B/s"),
        ("measured.matmul", device.measured_matmul, "FLOP/s"),
    ):
        if measured:
            yield Fact(label, measured.value, unit, *_joined(measured.sources), measured.what)
            if measured.fraction is not None:
                yield Fact(label + "_fraction", measured.fraction, "of peak", *_joined(measured.sources), measured.what)


def _joined(sources: Iterable[Source]) -> tuple[str, str]:
    rows = list(sources)
    if not rows:
        return "not given", ""
    return "; ".join(row.cite for row in rows), "; ".join(dict.fromkeys(row.date for row in rows if row.date))
