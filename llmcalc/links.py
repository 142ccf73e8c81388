"""The table of links: what ranks say to each other over NVLink, PCIe, Thunderbolt and networks, as it was measured.

`rate` is what one device can send one way, nominally. What collectives reach of it, and what they cost before the first byte, was
fitted on public tables of timings. A link without timings of its own takes those of its nearest kin, and `kin` says so.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from llmcalc.errors import UsageError, close_matches, printable
from llmcalc.units import quantity

KERNELS = "aiconfigurator-core 0.12.0 on PyPI, all-reduce timings of engines and NCCL, 2 B elements, CUDA graphs; read 2026-11-29"
SPARKS = "NVIDIA/dgx-spark-playbooks#103: nccl-tests between two DGX Sparks; read 2026-11-30"
MACS = "guruswami-ai/mlx-benchmarks@2e44a7c: Qwen2.5-32B on one to four M3 Ultra, the step's excess per all-reduce; 2026-03"
DEEPEP = "aiconfigurator-core 0.12.0 on PyPI, DeepEP timings on H100 and H200, one to eight nodes; read 2026-11-29"
NAMES = "the rate is in the name"


class Collective(NamedTuple):
    """How long a collective over a link takes: a start, more for each rank beyond two, and bytes over a share of the rate."""

    start_s: float
    """Of two ranks. [s]"""
    rank_s: float
    """More for each further rank. [s]"""
    share: float
    """Of the nominal rate that the kernel reaches."""


class Link(NamedTuple):
    """One kind of link."""

    name: str
    rate: float
    """One way, one device. [B/s]"""
    ring: Collective
    """The library's ring, which large messages take."""
    direct: Collective | None
    """The engine's own kernel for small messages, every rank reading from every other; None where engines have none."""
    source: str
    kin: str = ""
    """Whose timings these are, where the link has none of its own."""
    falls: float = 0.0
    """With which power of the ranks the ring's rate falls: 0 behind a switch, near 2 where all bytes pass through the host."""
    expert: Collective | None = None
    """Tokens sent to experts and back over this network by DeepEP: the start is that of one node, `rank_s` is for each doubling of nodes."""


def _nvlink(name: str, rate: float, direct: Collective, ring: Collective, kin: str = "") -> Link:
    return Link(name, rate, ring, direct, KERNELS, kin)


_NV3, _NV4 = Collective(5.3e-6, 0.18e-6, 0.65), Collective(4.4e-6, 0.07e-6, 0.70)
_NV3_RING, _NV4_RING, _NV5_RING = Collective(13e-6, 2e-6, 0.57), Collective(7.5e-6, 1.75e-6, 0.645), Collective(10.8e-6, 2.75e-6, 0.56)
_PCIE = Collective(6.6e-6, 3.6e-6, 0.38)  # RTX PRO 6000 Server behind a switch, 2 to 8 ranks
_PCIE_HOST = Collective(9e-6, 6e-6, 0.62)  # L40S, 2 to 8 ranks through the host; the rate falls with the ranks
_NETWORK = Collective(19e-6, 7e-6, 0.94)  # two A100 over HDR, nccl-tests#150: 19 us; 46-48 of 50 GB/s over NDR, nccl-tests#290
_DEEPEP = Collective(11.3e-6, 6.8e-6, 1.0)
_TB5 = Collective(230e-6, 60e-6, 0.6)


def _pcie(name: str, rate: float) -> Link:
    return Link(name, rate, _PCIE, None, KERNELS, "" if rate == 64e9 else "PCIe 5.0 x16")


def _network(name: str, gigabits: float) -> Link:
    rate = gigabits / 8 * 1e9
    source = "NVIDIA/nccl-tests#150 and #290; DeepEP: " + DEEPEP
    return Link(name, rate, _NETWORK, None, source, "" if gigabits in (200, 400) else "InfiniBand HDR and NDR", expert=_DEEPEP)


LINKS = {
    link.name: link
    for link in (
        _nvlink("nvlink2", 150e9, _NV3, _NV3_RING, "NVLink 3"),
        _nvlink("nvlink3", 300e9, _NV3, _NV3_RING),
        _nvlink("nvlink4", 450e9, _NV4, _NV4_RING),
        _nvlink("nvlink5", 900e9, Collective(6.8e-6, 0.07e-6, 0.26), _NV5_RING),
        _nvlink("nvlink-bridge", 56.25e9, _NV3, _NV3_RING, "NVLink 3"),
        *(
            _pcie(f"pcie{generation}{suffix}", rate / lanes)
            for generation, rate in ((3, 16e9), (4, 32e9), (5, 64e9), (6, 128e9))
            for suffix, lanes in (("", 1), ("-x8", 2), ("-x4", 4))
        ),
        *(
            Link(f"pcie{generation}-host", rate, _PCIE_HOST, None, KERNELS, "" if generation == 4 else "PCIe 4.0 x16", falls=1.75)
            for generation, rate in ((3, 16e9), (4, 32e9), (5, 64e9))
        ),
        Link("infinity-fabric", 448e9, _NV4_RING, _NV4, KERNELS, "NVLink 4"),
        Link("xe-link", 32e9, Collective(18.3e-6, 3.3e-6, 0.66), None, KERNELS, "oneCCL over PCIe 5.0 x8, Arc Pro B60"),
        Link("tb5", 10e9, _TB5, None, MACS),
        Link("tb4", 5e9, _TB5, None, MACS, "Thunderbolt 5"),
        *(_network(f"{gigabits}gbe", gigabits) for gigabits in (10, 25, 40, 50, 100, 400, 800)),
        Link("200gbe", 25e9, Collective(31e-6, 7e-6, 0.9), None, SPARKS, expert=_DEEPEP),
        *(_network(name, gigabits) for name, gigabits in (("hdr", 200), ("ndr", 400), ("xdr", 800), ("efa", 400))),
    )
}
"""Every link that `--link` and `--network` take by name."""
_PATTERNS = (
    (r"nvlink\D*([2-5])", "nvlink{}"),
    (r"pcie?\D*([3-6])[.0]*\D*x?(8|4)$", "pcie{}-x{}"),
    (r"pcie?\D*([3-6])", "pcie{}"),
    (r"infinity", "infinity-fabric"),
    (r"xe.?link", "xe-link"),
    (r"thunderbolt\D*([45])", "tb{}"),
    (r"(\d+)\s*g(?:bit/s|bps|be|b/s)", "{}gbe"),
    (r"ethernet|roce", "400gbe"),
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
    """The link of an option: a name of the table, or a rate such as `400Gb/s` or `50 GB/s`. Errors: bad-link."""
    known = named(text)
    if known is not None:
        return known
    bits = re.fullmatch(r"\s*([\d.]+)\s*([kmgt])(?:b/s|bit/s|bps)\s*", text, re.IGNORECASE)
    if bits and not re.search(r"B/s", text):
        rate = float(bits[1]) * {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[bits[2].lower()] / 8
    elif re.search(r"\dB?\s*[kmgtKMGT]?B/s|\d\s*[kKMGT]?B/s", text):
        rate = quantity(text, "bytes/s")
    else:
        near = close_matches(text.lower(), LINKS)
        hint = f"did you mean {near[0]}?" if near else f"a name ({', '.join(list(LINKS)[:6])}, …) or a rate such as 400Gb/s"
        raise UsageError("bad-link", f"{what} {printable(text, 40)!r} is no link with a known rate", hint)
    if not 1e6 <= rate <= 1e14:
        raise UsageError("bad-link", f"{what} {printable(text, 40)!r} is not between 1 MB/s and 100 TB/s", "write it like 400Gb/s")
    return Link(text.strip(), rate, _NETWORK, None, NAMES, "InfiniBand HDR and NDR", expert=_DEEPEP)
