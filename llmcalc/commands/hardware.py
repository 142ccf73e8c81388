"""`llmcalc hardware`: the devices that are known, one device with its sources, and whether a profile is well formed."""

from __future__ import annotations

from typing import Annotated

import typer

from llmcalc.commands import common as c
from llmcalc.present import Column, Fact, Report

LIST = (
    Column("hardware", "device"),
    Column("vendor", "vendor", rank=5),
    Column("memory_bytes", "memory", "GB"),
    Column("bandwidth_bytes_per_s", "bandwidth", "B/s"),
    Column("bf16_flops_per_s", "16-bit", "FLOP/s", rank=1),
    Column("fp8_flops_per_s", "fp8", "FLOP/s", rank=3),
    Column("power_w", "power", "W", rank=4),
    Column("usd_per_hour", "$/h", "usd", rank=2),
)
Filter = Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only devices whose id, name or vendor contains this text.")]


def list_devices(
    text: Filter = None,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
) -> None:
    """Every known device: memory, bandwidth, dense compute, power and price."""
    from llmcalc import hardware as devices

    rows = []
    for name in devices.ids():
        device = devices.load(name)
        if text and text.lower() not in f"{device.id} {device.name} {device.vendor}".lower():
            continue
        rows.append(
            {
                "hardware": device.id,
                "vendor": device.vendor,
                "memory_bytes": device.memory_bytes,
                "bandwidth_bytes_per_s": device.bandwidth_bytes_per_s,
                "bf16_flops_per_s": device.compute.get("bf16", device.compute.get("fp16")),
                "fp8_flops_per_s": device.compute.get("fp8"),
                "power_w": device.power_w,
                "usd_per_hour": device.price().usd_per_hour,
            }
        )
    report = Report(
        command="hardware",
        title=c.counted(len(rows), "device") + (f" with {text!r} in the name" if text else ""),
        columns=LIST,
        rows=tuple(rows),
        inputs={"filter": text},
        assumptions=("compute is dense (no sparsity); prices are medians of what is recorded: hardware show ID names providers and dates",),
        absent=(("", "null where no source gives it"),),
    )
    c.emit(report, format=format, json=json, output=output, explain=False)


def show(
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", autocompletion=c.completion.devices, help="Id, alias, driver's name or YAML file.")
    ],
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
) -> None:
    """One device: every value with its source and date."""
    from llmcalc import hardware as devices

    found = devices.load(device)
    price = found.price()
    rows = [
        {
            "label": fact.label,
            "value": fact.value,
            "unit": fact.unit,
            "shown": _in_words(fact.label, fact.value, fact.unit),
            "remark": fact.remark,
            "source": fact.source,
            "date": fact.date,
        }
        for fact in devices.facts(found)
    ]
    facts = (
        Fact("id", "id", found.id),
        Fact("name", "name", found.name, shown=False),
        Fact("vendor", "vendor", found.vendor),
        Fact("class", "class", found.device_class),
        Fact("price_usd_per_hour", "price per hour", price.usd_per_hour, "usd/h", note=price.text),
        Fact("accumulate", "sums in", found.accumulate),
        Fact("confidence", "confidence", found.confidence),
        Fact("origin", "profile", found.origin),
    )
    report = Report(
        command="hardware",
        title=found.name,
        hardware={"id": found.id, "count": 1, "name": found.name},
        facts=facts,
        columns=(
            Column("label", "value of"),
            Column("value", "value", shown=False),
            Column("unit", "unit", shown=False),
            Column("shown", "value"),
            Column("remark", "remark", rank=2),
            Column("date", "date", rank=1),
            Column("source", "source", rank=1),
        ),
        rows=tuple(rows),
        remarks=found.notes,
        warnings=tuple(filter(None, (found.old_prices(),))),
        rows_first=True,
        absent=(("", "no source gives it"),),
    )
    c.emit(report, format=format, json=json, output=output, explain=False)


def _in_words(label: str, value: float, unit: str) -> str:
    """A vendor's size is decimal, a driver's binary; years and fractions are plain."""
    from llmcalc.present import shown

    if unit == "year":
        return f"{value:.0f}"
    units = {"USD": "usd", "USD/h": "usd/h", "of peak": "percent"}
    return shown(value, "GB" if label == "memory.nominal" else units.get(unit, unit)) + (" / h" if unit == "USD/h" else "")


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML profiles.")],
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
) -> None:
    """Whether profiles satisfy the schema and make sense. Exit 3 where one does not."""
    from llmcalc import hardware as devices

    rows = []
    for name in files:
        problems = devices.check(name)
        rows.append({"file": name, "ok": not problems, "problem": "; ".join(problems)})
    report = Report(
        command="hardware",
        title=f"{sum(bool(row['ok']) for row in rows)} of {len(rows)} are well formed",
        remarks=tuple(f"{row['file']}: {row['problem']}" for row in rows if row["problem"]),
        columns=(Column("file", "file"), Column("ok", "ok"), Column("problem", "problem", shown=False)),
        rows=tuple(rows),
        verdict=all(bool(row["ok"]) for row in rows),
    )
    c.emit(report, format=format, json=json, output=output, explain=False, check=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Device profiles: list, show, check.", rich_markup_mode=None)
    group.command("list")(list_devices)
    group.command("show")(show)
    group.command("check")(check)
    app.add_typer(group, name="hardware")
