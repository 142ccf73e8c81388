"""`llmcalc hardware`: the devices that are known, one device with its sources, and whether a profile is well formed."""

from __future__ import annotations

from typing import Annotated

import typer

from llmcalc.answers import Answer, answer, field
from llmcalc.commands import common as c
from llmcalc.commands import completion
from llmcalc.commands import options as o
from llmcalc.present import Report, columns, facts


@answer("hardware list", rows=True)
class Listed(Answer):
    """One known device."""

    hardware: str = field("device")
    vendor: str = field("vendor", rank=5)
    memory_bytes: float | None = field("memory", "GB")
    bandwidth_bytes_per_s: float = field("bandwidth", "B/s")
    bf16_flops_per_s: float | None = field("16-bit", "FLOP/s", rank=1, meaning="dense")
    fp8_flops_per_s: float | None = field("fp8", "FLOP/s", rank=3, meaning="dense")
    power_w: float | None = field("power", "W", rank=4)
    usd_per_hour: float | None = field("$/h", "usd", rank=2)


@answer("hardware show")
class Profile(Answer):
    """What one device is."""

    id: str = field("id")
    name: str = field("name", shown=False)
    vendor: str = field("vendor")
    class_: str = field("class")
    price_usd_per_hour: float | None = field("price per hour", "usd/h")
    accumulate: str | None = field("sums in", meaning="the format of the sums of 8-bit products")
    confidence: str = field("confidence")
    origin: str = field("profile")


@answer("hardware show", rows=True)
class Sourced(Answer):
    """One value with where it comes from."""

    label: str = field("value of")
    value: float = field("value", shown=False)
    unit: str = field("unit", shown=False)
    shown: str = field("value", meaning="the value as people read it")
    remark: str = field("remark", rank=2)
    date: str = field("date", rank=1)
    source: str = field("source", rank=1)


@answer("hardware check", rows=True)
class Checked(Answer):
    """Whether one profile is well formed."""

    file: str = field("file")
    ok: bool = field("ok")
    problem: str = field("problem", shown=False)


Filter = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only devices whose id, name or vendor contains this text.")]


def list_devices(
    out: o.File,
    text: Filter = None,
) -> None:
    """Every known device: memory, bandwidth, dense compute, power and price."""
    from llmcalc import hardware as devices

    rows = []
    known, skipped = devices.everything()
    for device in known:
        if text and text.lower() not in f"{device.id} {device.name} {device.vendor}".lower():
            continue
        rows.append(
            Listed(
                hardware=device.id,
                vendor=device.vendor,
                memory_bytes=device.memory_bytes,
                bandwidth_bytes_per_s=device.bandwidth_bytes_per_s,
                bf16_flops_per_s=device.compute.get("bf16", device.compute.get("fp16")),
                fp8_flops_per_s=device.compute.get("fp8"),
                power_w=device.power_w,
                usd_per_hour=device.price().usd_per_hour,
            )
        )
    report = Report(
        command="hardware",
        whole=True,
        title=c.counted(len(rows), "device") + (f" with {text!r} in the name" if text else ""),
        columns=columns(Listed),
        rows=tuple(rows),
        inputs={"filter": text},
        assumptions=("compute is dense (no sparsity); prices are medians of what is recorded: hardware show ID names providers and dates",),
        absent=(("", "null where no source gives it"),),
        warnings=skipped,
    )
    c.say(report, out)


def show(
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", autocompletion=completion.devices, help="Id, alias, driver's name or YAML file.")
    ],
    out: o.File,
) -> None:
    """One device: every value with its source and date."""
    from llmcalc import hardware as devices

    found = devices.load(device)
    price = found.price()
    rows = [
        Sourced(
            label=fact.label,
            value=fact.value,
            unit=fact.unit,
            shown=_in_words(fact.label, fact.value, fact.unit),
            remark=fact.remark,
            date=fact.date,
            source=fact.source,
        )
        for fact in devices.facts(found)
    ]
    profile = Profile(
        id=found.id,
        name=found.name,
        vendor=found.vendor,
        class_=found.device_class,
        price_usd_per_hour=price.usd_per_hour,
        accumulate=found.accumulate,
        confidence=found.confidence,
        origin=found.origin,
    )
    report = Report(
        command="hardware",
        title=found.name,
        hardware={"id": found.id, "count": 1, "name": found.name},
        facts=facts(profile, price_usd_per_hour=price.text),
        columns=columns(Sourced),
        rows=tuple(rows),
        remarks=found.notes,
        warnings=tuple(filter(None, (found.old_prices(),))),
        rows_first=True,
        absent=(("", "no source gives it"),),
    )
    c.say(report, out)


def _in_words(label: str, value: float, unit: str) -> str:
    """A vendor's size is decimal, a driver's binary; years and fractions are plain."""
    from llmcalc.present import shown

    if unit == "year":
        return f"{value:.0f}"
    units = {"USD": "usd", "USD/h": "usd/h", "of peak": "percent"}
    return shown(value, "GB" if label == "memory.nominal" else units.get(unit, unit)) + (" / h" if unit == "USD/h" else "")


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML profiles.")],
    out: o.File,
) -> None:
    """Whether profiles satisfy the schema and make sense. Exit 3 where one does not."""
    from llmcalc import hardware as devices

    rows = []
    for name in files:
        problems = devices.check(name)
        rows.append(Checked(file=name, ok=not problems, problem="; ".join(problems)))
    report = Report(
        command="hardware",
        title=f"{sum(row.ok for row in rows)} of {len(rows)} are well formed",
        remarks=tuple(f"{row.file}: {row.problem}" for row in rows if row.problem),
        columns=columns(Checked),
        rows=tuple(rows),
        verdict=all(row.ok for row in rows),
    )
    c.say(report, out, check=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Device profiles: list, show, check.", rich_markup_mode=None)
    group.command("list")(o.command(list_devices, ()))
    group.command("show")(o.command(show, ()))
    group.command("check")(o.command(check, ()))
    app.add_typer(group, name="hardware")
