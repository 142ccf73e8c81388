"""How a model is run (Deployment) and how it is used (Workload)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmcalc.engines import ENGINES, Engine
from llmcalc.errors import UsageError
from llmcalc.formats import Format
from llmcalc.hardware import Device


@dataclass(frozen=True, slots=True)
class Deployment:
    """One replica of a model: `ranks` devices, in pp stages of tp ranks, dp such groups where experts need more.

    tp cuts every matrix; ep deals experts over tp × dp ranks, and where ep exceeds tp, attention runs data-parallel in
    dp = ep / tp groups that each hold the dense weights once.
    """

    device: Device
    weights: Format
    kv: Format
    tp: int = 1
    pp: int = 1
    ep: int = 1
    engine: Engine = field(default_factory=lambda: ENGINES["napkin"])
    reserve_bytes: float = 0
    utilization: float | None = None
    usd_per_device_hour: float | None = None
    price_text: str = ""

    def __post_init__(self) -> None:
        if self.ep > 1 and max(self.ep, self.tp) % min(self.ep, self.tp):
            raise UsageError("bad-layout", f"ep {self.ep} and tp {self.tp} do not divide each other", "make one a multiple of the other")

    @property
    def dp(self) -> int:
        """Data-parallel attention groups."""
        return max(1, self.ep // self.tp)

    @property
    def ranks(self) -> int:
        """Devices of one replica."""
        return self.tp * self.dp * self.pp

    @property
    def share(self) -> float:
        """Share of the memory that the engine may use."""
        return self.engine.utilization if self.utilization is None else self.utilization


@dataclass(frozen=True, slots=True)
class Workload:
    """Sequences of `ctx` tokens, `batch` at a time. Either may be a numpy array: a sweep is one estimate."""

    ctx: Any
    batch: Any = 1
    prompt: int | None = None
    output: int | None = None
    cached: int = 0
