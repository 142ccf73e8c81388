"""What devices cost: a price for all, one for each, or the recorded ones of one kind, so that like is compared with like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmcalc.commands.options import Money

if TYPE_CHECKING:
    from llmcalc.hardware import Device


@dataclass(frozen=True, slots=True)
class Purse:
    """Prices in USD per device-hour."""

    usd: float | None
    """Of every device, where it was given."""
    each: Mapping[str, float]
    """By id, where they were given."""
    kind: str | None
    """Of the recorded ones that count; None: whichever a device has."""
    whole_nodes: bool = False
    """Whether whole nodes are paid for."""

    @property
    def words(self) -> str:
        """What is paid for beside the devices in use."""
        return "; whole nodes are paid for" if self.whole_nodes else ""

    def of(self, device: Device) -> tuple[Device, float | None]:
        """(the device with the prices that count, the price that was given for it)."""
        counted = device.in_whole_nodes() if self.whole_nodes else device
        return counted.of_kind(self.kind), self.each.get(device.id, self.usd)


def purse(money: Money, devices: Iterable[Device]) -> Purse:
    """The prices that the options mean for these devices. Errors: hardware-not-found."""
    from llmcalc import hardware

    listed = list(devices)
    given, kind = money.price, money.price_kind
    several = len({device.id for device in listed}) > 1
    if kind is None and several:
        kind = hardware.common_kind(listed)
    if isinstance(given, Mapping):
        return Purse(None, {hardware.load(name).id: usd for name, usd in given.items()}, kind, money.whole_nodes)
    return Purse(given, {}, kind, money.whole_nodes)
