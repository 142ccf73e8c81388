"""The table of links: what ranks say to each other over NVLink, PCIe, Thunderbolt and networks, as it was measured.

`rate` is what one device can send one way, nominally. What collectives reach of it, and what they cost before the first byte, was
fitted on public tables of timings. A link without timings of its own takes those of its nearest kin, and `kin` says so.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from llmcalc.errors import LlmcalcError, UsageError, close_matches, printable
from llmcalc.units import quantity

KERNELS = "aiconfigurator-core 0.12.0 on PyPI, all-reduce timings of engines and NCCL, 2 B elements, CUDA graphs; read 2026-11-29"
SPARKS = "NVIDIA/dgx-spark-playbooks#103: nccl-tests between two DGX Sparks; read 2026-11-30"
MACS = "guruswami-ai/mlx-benchmarks@2e44a7c: Qwen2.5-32B on one to four M3 Ultra, the step's excess per all-reduce; 2026-03"
DEEPEP = "aiconfigurator-core 0.12.0 on PyPI, DeepEP timings (SGLang 0.5.6, 0.5.12), H100 and H200 on one to eight nodes; read 2026-11-29"


class Collective(NamedTuple):
    """How long a collective over a link takes: a start, more for each rank beyond two, and bytes over a share of the rate."""

    start_s: float
    """Of two ranks. [s]"""
    rank_s: float
    """More for each further rank. [s]"""
    share: float
    """Of the nominal rate that the kernel reaches."""


class Exchange(NamedTuple):
    """Tokens on the way to their experts, or back: DeepEP's kernels inside a node and over its 400 Gbit/s a device."""

    start_s: float
    """Inside one node. [s]"""
    doubling_s: float
    """More for each doubling of the nodes. [s]"""
    near_share: float
    """Of the link's rate that is reached."""
    far_share: float
    """Of the network's."""


class Exchanges(NamedTuple):
    """DeepEP's kernels: few tokens go straight to every expert's rank, many cross once per node and are forwarded."""

    dispatch: Exchange
    combine: Exchange
    dispatch_many: Exchange
    combine_many: Exchange


class Timings(NamedTuple):
    """What the collectives over one kind of link were seen to take."""

    ring: Collective
    """The library's all-reduce, which large messages take."""
    gather: Collective
    """Its all-gather and reduce-scatter."""
    swap: Collective
    """Its all-to-all."""
    direct: Collective | None = None
    """The engines' own all-reduce for small messages, every rank reading from every other; None where they have none."""
    direct_trt: Collective | None = None
    """TensorRT-LLM's."""
    exchange: Exchanges | None = None
    """How tokens reach experts, where DeepEP was timed over this link; None: as an all-to-all of the library."""
    falls: float = 0.0
    """With which power of the ranks the rate falls: 0 behind a switch, near 2 where all bytes pass through the host."""


class Link(NamedTuple):
    """One kind of link."""

    name: str
    rate: float
    """One way, one device. [B/s]"""
    times: Timings
    source: str
    kin: str = ""
    """Whose timings these are, where the link has none of its own."""


_HOPPER = Exchanges(  # DEEPEP
    Exchange(11.5e-6, 6.3e-6, 0.557, 1.0),
    Exchange(11.0e-6, 7.3e-6, 0.485, 1.0),
    Exchange(27e-6, 33e-6, 0.557, 0.675),
    Exchange(40e-6, 37e-6, 0.587, 0.547),
)
_BLACKWELL = Exchanges(  # timed inside one node alone: what crosses costs as on Hopper
    Exchange(20.5e-6, 6.3e-6, 0.523, 1.0),
    Exchange(19.4e-6, 7.3e-6, 0.659, 1.0),
    Exchange(37e-6, 33e-6, 0.266, 0.675),
    Exchange(49e-6, 37e-6, 0.325, 0.547),
)
_NVLINK3 = Timings(
    ring=Collective(13e-6, 2e-6, 0.57),
    gather=Collective(12e-6, 0.93e-6, 0.48),
    swap=Collective(13.5e-6, 0.2e-6, 0.52),
    direct=Collective(5.3e-6, 0.18e-6, 0.65),
    direct_trt=Collective(4.3e-6, 0.32e-6, 0.37),
)
_NVLINK4 = Timings(
    ring=Collective(7.5e-6, 1.75e-6, 0.645),
    gather=Collective(6.7e-6, 0.96e-6, 0.545),
    swap=Collective(9e-6, 0.36e-6, 0.585),
    direct=Collective(4.4e-6, 0.07e-6, 0.70),
    direct_trt=Collective(3.0e-6, 0.1e-6, 0.50),
    exchange=_HOPPER,
)
_NVLINK5 = Timings(
    ring=Collective(10.8e-6, 2.75e-6, 0.56),
    gather=Collective(9.7e-6, 1.35e-6, 0.47),
    swap=Collective(12.5e-6, 0.05e-6, 0.42),
    direct=Collective(6.8e-6, 0.07e-6, 0.26),
    direct_trt=Collective(4.75e-6, 0.11e-6, 0.57),
    exchange=_BLACKWELL,
)
_PCIE = Timings(  # RTX PRO 6000 Server behind a switch, 2 to 8 ranks
    Collective(6.6e-6, 3.6e-6, 0.38), Collective(6.1e-6, 1.9e-6, 0.36), Collective(7.4e-6, 1.4e-6, 0.33)
)
_HOST = Timings(  # L40S, 2 to 8 ranks that talk through the host's memory
    Collective(9e-6, 6e-6, 0.62), Collective(6e-6, 3.5e-6, 0.62), Collective(7e-6, 4e-6, 0.62), falls=1.75
)
_ONECCL = Timings(Collective(18.3e-6, 3.3e-6, 0.66), Collective(14e-6, 1.8e-6, 0.5), Collective(15e-6, 1.8e-6, 0.5))
_THUNDERBOLT = Timings(*3 * (Collective(230e-6, 60e-6, 0.6),))
_SPARK = Timings(*3 * (Collective(31e-6, 7e-6, 0.9),), exchange=None)
_NETWORK = Timings(*3 * (Collective(19e-6, 7e-6, 0.94),))  # two A100 over HDR, nccl-tests#150: 19 us; 46-48 of 50 GB/s, nccl-tests#290

_NCCL_TESTS = "NVIDIA/nccl-tests#150 (2023-06) and #290 (2025-03)"
_PER_GENERATION = ((3, 16e9), (4, 32e9), (5, 64e9), (6, 128e9))
LINKS = {
    link.name: link
    for link in (
        Link("nvlink2", 150e9, _NVLINK3, KERNELS, "NVLink 3"),
        Link("nvlink3", 300e9, _NVLINK3, KERNELS),
        Link("nvlink4", 450e9, _NVLINK4, KERNELS),
        Link("nvlink5", 900e9, _NVLINK5, KERNELS),
        Link("nvlink-bridge", 56.25e9, _NVLINK3, KERNELS, "NVLink 3"),
        *(
            Link(f"pcie{generation}{suffix}", rate / part, _PCIE, KERNELS, "" if generation == 5 and part == 1 else "PCIe 5.0 x16")
            for generation, rate in _PER_GENERATION
            for suffix, part in (("", 1), ("-x8", 2), ("-x4", 4))
        ),
        *(
            Link(f"pcie{generation}-host", rate, _HOST, KERNELS, "" if generation == 4 else "PCIe 4.0 x16")
            for generation, rate in _PER_GENERATION
        ),
        Link("infinity-fabric", 448e9, _NVLINK4._replace(exchange=None), KERNELS, "NVLink 4"),
        Link("xe-link", 32e9, _ONECCL, KERNELS),
        Link("tb5", 10e9, _THUNDERBOLT, MACS),
        Link("tb4", 5e9, _THUNDERBOLT, MACS, "Thunderbolt 5"),
        *(
            Link(f"{gigabits}gbe", gigabits / 8 * 1e9, _NETWORK, _NCCL_TESTS, "" if gigabits == 400 else "InfiniBand HDR and NDR")
            for gigabits in (10, 25, 40, 50, 100, 400, 800)
        ),
        Link("200gbe", 25e9, _SPARK, SPARKS),
        *(
            Link(name, gigabits / 8 * 1e9, _NETWORK, _NCCL_TESTS)
            for name, gigabits in (("hdr", 200), ("ndr", 400), ("xdr", 800), ("efa", 400))
        ),
    )
}
"""Every link by name."""
FREE = Link("a free network", float("inf"), Timings(*3 * (Collective(0.0, 0.0, 1.0),)), "")
"""What a network is held against to say what it costs."""
_PATTERNS = (
    (r"nvlink\D*([2-5])", "nvlink{}"),
    (r"pcie?\D*([3-6])[.0]*\D*x?(8|4)$", "pcie{}-x{}"),
    (r"pcie?\D*([3-6])", "pcie{}"),
    (r"infinity", "infinity-fabric"),
    (r"xe.?link", "xe-link"),
    (r"thunderbolt\D*([45])", "tb{}"),
    (r"\b(hdr|ndr|xdr|efa)\b", "{}"),
    (r"(\d+)\s*g(?:bit/s|bps|be|b/s)", "{}gbe"),
    (r"ethernet|roce", "400gbe"),  # of a profile, which has a rate of its own
)


def named(text: str) -> Link | None:
    """The link that a profile's word or an option means: `NVLink 4`, `PCIe 5.0 x16`, `pcie4-host`, `200 Gbit/s`. None: unknown."""
    word = text.strip().lower()
    if word in LINKS:
        return LINKS[word]
    for pattern, name in _PATTERNS:
        found = re.search(pattern, word)
        if found and name.format(*found.groups()) in LINKS:
            return LINKS[name.format(*found.groups())]
    return None


def asked(text: str, what: str) -> Link:
    """The link of an option: a name of the table, or a rate such as `400Gb/s` (bits) or `50 GB/s` (bytes). Errors: bad-link."""
    word = text.strip()
    bits = re.fullmatch(r"([\d.]+)\s*([kMGT])(?:b/s|bit/s|bps|bps/s)", word)
    try:
        if bits:
            rate = float(bits[1]) * {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[bits[2]] / 8
        elif re.search(r"B/s$", word):
            rate = quantity(word, "bytes/s")
        else:
            rate = 0.0
    except (LlmcalcError, ValueError):
        rate = 0.0
    if 1e6 <= rate <= 1e14:
        return Link(word, rate, _NETWORK, _NCCL_TESTS, "InfiniBand HDR and NDR")
    known = named(word) if re.search(r"\d|^(hdr|ndr|xdr|efa|nvlink-bridge|xe.?link|infinity.?fabric)$", word.lower()) else None
    if known is None or bits:
        near = () if re.search(r"\d\s*[kMGT]\w*/?s$", word) else close_matches(word.lower(), LINKS)  # a rate is no misspelt name
        some = ("100gbe", "200gbe", "hdr", "ndr") if what == "network" else ("nvlink4", "nvlink-bridge", "pcie4", "pcie4-host", "tb5")
        hint = f"did you mean {near[0]}?" if near else f"a name ({', '.join(some)}, …) or a rate such as 400Gb/s"
        raise UsageError("bad-link", f"{what} {printable(word, 40)!r} is no link with a known rate", hint)
    return known
