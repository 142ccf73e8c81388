"""One device as a YAML file: the strict schema, apart from `hardware` because only reading a file needs pydantic.

The unit stands in the value (`bandwidth: 3.35 TB/s`), the source beside it: each block lists keys of the `sources`
table at the end of the file. Compute rates are dense, never the 2:4-sparse figures that vendors print.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import core_schema

from llmcalc.errors import LlmcalcError
from llmcalc.units import quantity

FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4")
"""The keys of `compute`, widest first."""

_EXAMPLES = {
    "bytes": "80 GB",
    "bytes/s": "3.35 TB/s",
    "flop/s": "989.4 TFLOP/s",
    "w": "700 W",
    "usd/h": "$2.95/h",
    "usd": "$1,600",
}


@dataclass(frozen=True)
class _Amount:
    """A positive quantity, written with its unit and read into SI base units."""

    kind: str

    def read(self, value: object) -> float:
        example = _EXAMPLES[self.kind]
        # A bare number is refused even where units.quantity would take one: 3.35 of what?
        if not isinstance(value, str) or not re.search(r"[A-Za-z$]\s*$|^\s*\$", value):
            raise ValueError(f"needs a unit, as in {example!r}")
        try:
            number = quantity(value, self.kind)
        except LlmcalcError as problem:
            raise ValueError(f"{problem.message}; write it like {example!r}") from None
        if not 1e-6 <= number < 1e21:  # what is smaller underflows in arithmetic
            raise ValueError(f"must be above zero, as in {example!r}")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "examples": [_EXAMPLES[self.kind]]}


Bytes = Annotated[float, _Amount("bytes")]
BytesPerSecond = Annotated[float, _Amount("bytes/s")]
FlopPerSecond = Annotated[float, _Amount("flop/s")]
Watts = Annotated[float, _Amount("w")]
UsdPerHour = Annotated[float, _Amount("usd/h")]
Usd = Annotated[float, _Amount("usd")]


def _word(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value  # `4090` is a name, too


def _printable(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("must be one line of printable text")
    return text


def _day(value: object) -> object:
    if isinstance(value, datetime.date):
        value = value.isoformat()
    value = _word(value)
    if isinstance(value, str) and not re.fullmatch(r"\d{4}(-\d\d(-\d\d)?)?", value):
        raise ValueError("must be a date like 2026-09-10, 2026-09 or 2026")
    return value


def _share(value: object) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not 0 < value <= 2:
        raise ValueError("must be a fraction above 0 and at most 2, such as 0.85")
    return value


Text = Annotated[str, BeforeValidator(_word), Field(max_length=400), AfterValidator(_printable)]
Name = Annotated[str, BeforeValidator(_word), Field(max_length=80), AfterValidator(_printable)]
Names = Annotated[list[Name], Field(max_length=64)]
Day = Annotated[str, BeforeValidator(_day)]
Share = Annotated[float, BeforeValidator(_share)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


class _Block(_Strict):
    source: Names = []
    """Keys of `sources` that attest the values of this block."""


class Cited(_Strict):
    """Where values come from."""

    cite: Text
    """A document, a URL, or a repository path with its commit."""
    date: Day | None = None
    """When it was published, as far as it says."""
    read: Day | None = None
    """When it was read; given where no date of publication is known."""


class Memory(_Block):
    """How much the device holds. The bandwidth is attested by the same sources."""

    nominal: Bytes | None = None
    """The vendor's size taken as decimal: 80 GB is 80e9 bytes. Absent where the buyer chooses it (CPUs)."""
    reported: Bytes | None = None
    """The total that the driver reports, e.g. 81559 MiB."""
    physical: Bytes | None = None
    """The vendor's "GB" in GiB, where that is what they are and no driver's figure is known."""
    gpu_limit: Bytes | None = None
    """What the GPU may use of a unified memory by default."""
    options: Annotated[list[Bytes], Field(max_length=32)] = []
    """The sizes sold under this name, if there are several."""
    type: Name | None = None
    """HBM3, GDDR6X, LPDDR5X unified, …"""


class Compute(_Block):
    """Dense rates by number format; a format is absent where it is unsupported or unknown."""

    fp32: FlopPerSecond | None = None
    """32-bit float, the better of the vector and matrix rates."""
    tf32: FlopPerSecond | None = None
    """19-bit TF32."""
    bf16: FlopPerSecond | None = None
    """bfloat16."""
    fp16: FlopPerSecond | None = None
    """IEEE half."""
    fp8: FlopPerSecond | None = None
    """8-bit float."""
    int8: FlopPerSecond | None = None
    """8-bit integer, in TOP/s."""
    fp4: FlopPerSecond | None = None
    """4-bit float."""
    int4: FlopPerSecond | None = None
    """4-bit integer, in TOP/s."""
    accumulate: Literal["fp32", "fp16", "unknown"] = "unknown"
    """The type in which bf16, fp16 and fp8 products are summed at these rates; integers sum in int32."""
    fp16_accumulate_fp16: FlopPerSecond | None = None
    """fp16 summed in fp16: twice the rate on consumer cards, not used by inference engines."""


class Link(_Block):
    """How one device reaches another."""

    type: Name
    """NVLink 4, PCIe 5.0 x16, Infinity Fabric, ICI, …"""
    one_direction: BytesPerSecond | None = None
    """Bytes a second that one device can send; vendors print both directions together."""
    bridge: Name | None = None
    """An optional bridge between pairs of cards."""
    bridge_one_direction: BytesPerSecond | None = None
    """What one card can send over the bridge."""


class Network(_Block):
    """How a device reaches devices of other nodes."""

    type: Name
    """InfiniBand NDR 400 Gbit/s, Ethernet RoCE 400 Gbit/s, …"""
    per_device: BytesPerSecond
    """Bytes a second that one device can send."""


class Cap(_Block):
    """How fast one device is while its power is limited, as a share of its speed at the rated maximum."""

    at: Watts
    """The limit."""
    reading: Annotated[float, Field(gt=0, le=1.2)]
    """What bounds on memory: answers of one stream."""
    computing: Annotated[float, Field(gt=0, le=1.2)]
    """What bounds on arithmetic: prompts."""


class Power(_Block):
    """A cap, not a typical draw."""

    tdp: Watts | None = None
    """The rated maximum of one device."""
    all_in: Watts | None = None
    """Facility power provisioned for one device with its share of host, network and cooling."""
    caps: list[Cap] = Field(default_factory=list)
    """Measured speeds under limits, in rising order."""


class Release(_Block):
    """When it came and what it cost."""

    year: Annotated[int, Field(ge=1990, le=2100)] | None = None
    """The year of release."""
    msrp: Usd | None = None
    """The launch price, approximate; of the whole system for unified-memory machines."""


class Offer(_Strict):
    """One price of one device for one hour. Offers are added, never overwritten."""

    rate: UsdPerHour
    """Dollars per device-hour."""
    type: Literal["on-demand", "spot", "long-rental", "ownership"]
    """`ownership` is an amortised cost per hour, not an offer."""
    provider: Name
    """Who asks this price, and for what instance."""
    date: Day | None = None
    """When the price was seen; null if the source does not say."""
    source: Name
    """A key of `sources`."""


class MeasuredBandwidth(_Block):
    """The best of a memory-streaming kernel."""

    value: BytesPerSecond
    """Bytes a second reached."""
    fraction: Share | None = None
    """Of the nominal bandwidth."""
    kernel: Name
    """What was run."""


class MeasuredMatmul(_Block):
    """The best of a scan over matrix shapes."""

    value: FlopPerSecond
    """Rate reached."""
    fraction: Share | None = None
    """Of the dense peak; above 1 where cards boost beyond their rated clock."""
    format: Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
    """Number format of the inputs."""


class Measured(_Strict):
    """What public benchmarks reached."""

    bandwidth: MeasuredBandwidth | None = None
    """Memory streaming."""
    matmul: MeasuredMatmul | None = None
    """Large matrix products."""


class Profile(_Strict):
    """A device, as llmcalc reads it from one YAML file."""

    id: Annotated[str, BeforeValidator(_word), Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    """Lower-case id; the file's name without `.yaml`."""
    name: Name
    """Full name for people."""
    vendor: Name
    """Who makes it."""
    kind: Literal["gpu", "accelerator", "unified", "apple", "cpu"]
    """What sort of machine it is. `unified`: its memory is shared with the operating system."""
    device_class: Annotated[Literal["datacenter", "workstation", "consumer", "unified", "embedded", "apple", "cpu"], Field(alias="class")]
    """Which measured efficiencies apply."""
    family: Name | None = None
    """Devices that people call by one name: H100 for the SXM, PCIe and NVL parts."""
    aliases: Names = []
    """Other names of exactly this device."""
    systems: Annotated[dict[Name, Annotated[int, Field(ge=1, le=100_000)]], Field(max_length=64)] = {}
    """Machines that are sold with several of the device, by name, and how many: `HGX H100: 8`."""
    product_names: Names = []
    """The driver's exact names."""
    assumed_for: Names = []
    """Bare names that several devices share and that this commonest one answers to, saying so."""
    shared_names: Names = []
    """Bare names that are refused because several devices share them and none is the commonest."""
    bandwidth: BytesPerSecond
    """Peak memory bandwidth, decimal."""
    memory: Memory
    """Memory size and type."""
    compute: Compute = Compute()
    """Dense rates."""
    link: Link | None = None
    """Absent for a device that stands alone."""
    network: Network | None = None
    """Between nodes, in the maker's own reference machine. Absent where there is none."""
    devices_per_node: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Devices that share the link; for cards that only have PCIe a modelling default, not a specification."""
    devices_per_host: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Devices of one operating system, where the link joins several of those (4 of an NVL72's trays). Absent: as many as share the link."""
    power: Power = Power()
    """Rated and provisioned power."""
    release: Release = Release()
    """Year and launch price."""
    prices: Annotated[list[Offer], Field(max_length=256)] = []
    """Prices of a device-hour."""
    measured: Measured = Measured()
    """Public benchmarks."""
    confidence: Literal["high", "medium", "low"] = "low"
    """How well the sources agree."""
    derived: Names = []
    """Fields that were computed from others, such as compute.fp8."""
    unverified: Names = []
    """Fields that were seen in one place only, or not read again."""
    notes: Annotated[list[Text], Field(max_length=32)] = []
    """What a reader should know."""
    sources: Annotated[dict[Name, Cited], Field(max_length=64)] = {}
    """Citations by short key."""

    @model_validator(mode="after")
    def _cross_references(self) -> Profile:
        for where, key in self.cited():
            if key not in self.sources:
                raise ValueError(f"{where}.source names {key!r}, which is not a key of sources")
        for mark in ("derived", "unverified"):
            for field in getattr(self, mark):
                if field not in MARKABLE:
                    raise ValueError(f"{mark} names {field!r}, which is not a field")
        return self

    def cited(self) -> Iterator[tuple[str, str]]:
        """Every use of a source: (block, key)."""
        blocks: dict[str, _Block | None] = {
            "memory": self.memory,
            "compute": self.compute,
            "link": self.link,
            "network": self.network,
            "power": self.power,
            "release": self.release,
            "measured.bandwidth": self.measured.bandwidth,
            "measured.matmul": self.measured.matmul,
        }
        for where, block in blocks.items():
            for key in block.source if block else ():
                yield where, key
        for place, offer in enumerate(self.prices):
            yield f"prices.{place}", offer.source


MARKABLE = frozenset(
    [
        *(
            "bandwidth",
            "link",
            "link.bridge",
            "devices_per_node",
            "power.tdp",
            "release.year",
            "release.msrp",
            "compute",
        ),
        *(f"memory.{name}" for name in ("nominal", "reported", "physical", "gpu_limit", "type")),
        *(f"compute.{name}" for name in FORMATS),
    ]
)
"""What `derived` and `unverified` may name; `compute` stands for all its rates."""


def _short(value: object) -> str:
    """A value for a message. Not the repr of a list or mapping: YAML aliases can make that one endless."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    shown = repr(value[:80] if isinstance(value, str) else value)
    return shown if len(shown) <= 60 else shown[:59] + "…"


def problems_of(content: object) -> tuple[Profile | None, list[str]]:
    """The profile, or what is wrong with it: one line `field: what (value)` per problem."""
    from pydantic import ValidationError

    if not isinstance(content, dict):
        what = "nothing" if content is None else "no mapping"
        return None, [f"profile: the file holds {what}; write `field: value` lines"]
    try:
        return Profile.model_validate(content), []
    except ValidationError as problem:
        return None, [_line(error) for error in problem.errors(include_url=False)]


def _line(error: Any) -> str:
    field = ".".join(str(part) for part in error["loc"] if part != "[key]") or "profile"
    what = error["msg"].removeprefix("Value error, ")
    if error["type"] == "missing":
        return f"{field}: is required"
    if error["type"] == "extra_forbidden":
        return f"{field}: is not a field of a profile"
    if error["type"] == "value_error" and not error["loc"]:
        return str(what)
    return f"{field}: {what[0].lower() + what[1:]} (given {_short(error['input'])})"


def doubts(profile: Profile) -> list[str]:
    """What the schema allows and physics or habit does not: a sparse figure, a slipped unit, GiB taken for GB."""
    found = []
    rates = {name: getattr(profile.compute, name) for name in FORMATS if getattr(profile.compute, name)}
    for wide, narrow in (("tf32", "bf16"), ("bf16", "fp8"), ("fp8", "fp4"), ("int8", "int4")):
        if wide in rates and narrow in rates and rates[narrow] < rates[wide]:
            found.append(f"compute.{narrow}: is slower than {wide}; is one of them the sparse rate?")
    memory = profile.memory
    for field in ("reported", "physical"):
        size = getattr(memory, field)
        if memory.nominal and size and not 0.9 <= size / memory.nominal <= 1.08:
            found.append(f"memory.{field}: is {size / memory.nominal:.2f} times the nominal size; mind GB and GiB")
    if memory.nominal and memory.gpu_limit and memory.gpu_limit > 1.08 * memory.nominal:
        found.append("memory.gpu_limit: is more than the memory")
    if memory.nominal and not 1e-3 < memory.nominal / profile.bandwidth < 5:
        seconds = memory.nominal / profile.bandwidth
        found.append(f"bandwidth: reading the memory once would take {seconds:.3g} s; is the unit right?")
    fastest = max(rates.values(), default=0.0)
    if fastest and not 0.5 < fastest / profile.bandwidth < 20_000:
        found.append(f"compute: {fastest / profile.bandwidth:.3g} FLOP per byte of bandwidth; is the unit right?")
    return found
