"""`llmcalc report`: one page for a decision: what to rent, its memory, its alternatives, and how far the figures are to be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import typer

from llmcalc import hardware, units
from llmcalc.answers import Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.commands import accuracy, fit, pareto
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import plan as planning
from llmcalc.commands.purse import purse
from llmcalc.commands.space import Racks, listed
from llmcalc.errors import UsageError
from llmcalc.estimate.planning import Planned
from llmcalc.hardware import Device
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc report -m Qwen/Qwen3-8B --rate 12 --prompt 2k --output-tokens 300 -o report.html

  llmcalc report -m Qwen/Qwen3-32B -d h100-sxm,mi300x --rate 3 --prompt 8k --output-tokens 500 --max-tpot 40ms -o report.md
"""


@answer("report")
class Brief(Answer):
    """What is decided, and how good the figures are."""

    hardware: str | None = field("device", detail=True)
    devices: int | None = field("devices", detail=True)
    replicas: int | None = field("replicas", detail=True)
    tp: int | None = field("tp of each", detail=True)
    weights: str | None = field("weights", detail=True)
    usd_per_month: float | None = field("cost per month", "usd", "730 hours")
    usd_per_million_output_tokens: float | None = field("1M output tokens", "usd", "everything charged to the output")
    utilization: float | None = field("load", "percent", "of the highest rate a replica sustains")
    ttft_p95_s: float | None = field("TTFT p95", "s")
    tpot_p95_s: float | None = field("TPOT p95", "s")
    max_batch: int | None = field("sequences in memory at once", meaning="of the traffic's mean length, in one replica")
    measured_rows: int = field("measured rows of the device")
    median_error: float | None = field("  median error", "percent", "of expected times that had not seen those rows")
    coverage: float | None = field("  in the stated range", "percent", "80% were to be")


@answer("report", rows=True)
class Offer(Answer):
    """One recorded price of a device that was tried."""

    hardware: str = field("device")
    usd_per_hour: float = field("$/h", "usd/h")
    kind: str = field("kind", meaning="on-demand, long-rental, spot, ownership, or given")
    provider: str = field("who asks it")
    date: str = field("date")


def report(
    which: o.ModelChoice,
    place: planning.Devices,
    coming: planning.Coming,
    limits: planning.Promises,
    steps: o.Steps,
    running: planning.Paid,
    out: o.File,
) -> None:
    """One page for a decision: plan, memory, speed against cost, and the measurements near it."""
    found = c.chosen(which)
    planned, made = planning.reported(found, place, coming, limits, steps, planning.Further(), running)
    names = listed(planning.DEFAULT_DEVICES if place.hardware is None else place.hardware, "hardware")
    devices = [hardware.load(hardware.parse_count(name)[1]) for name in names]
    held = _memory(found, which, made, running, dict(zip((device.id for device in devices), names, strict=True)), place)
    swept = pareto.reported(
        found,
        Racks(hardware=",".join(names), weights=place.weights, kv_dtype=place.kv_dtype, tp=place.words["tp"] or "all"),
        pareto.Searches(ctx=str(_mean(made)), prompt=str(round(made.answer.inputs["mean_prompt_tokens"]))),
        pareto.Limited(max_ttft=limits.words["max_ttft"], max_tpot=limits.words["max_tpot"]),
        running,
        o.Deciding(method=steps.words["method"] or "expected"),
        running,
        pareto.Shown(),
    )
    near = _near(made.deployment.device)
    measured = {fact.key: fact.value for fact in near.facts}
    memory = {fact.key: fact.value for fact in held.facts}
    r = made.answer.results
    parts = [planned, held, replace(swept, rows=tuple(swept.rows[index] for index in swept.brief) or swept.rows, brief=()), near]
    offers = tuple(_offers(devices, running))
    report = Report(
        command="report",
        title=planned.title + (f": {units.usd(r.usd_per_month)} a month" if r.usd_per_month is not None else ""),
        model=planned.model,
        hardware=planned.hardware,
        inputs=planned.inputs,
        header=planned.header,
        facts=facts(
            Brief(
                **{key: r[key] for key in (*_CHOICE, *_FIGURES)},
                max_batch=memory["max_batch"],
                measured_rows=measured["rows"] if near.inputs["hardware"] else 0,
                median_error=measured["median_error"] if near.inputs["hardware"] else None,
                coverage=measured["coverage"] if near.inputs["hardware"] else None,
            ),
            **{key: False for key in (*_CHOICE, *_FIGURES) if r.devices is None},
        ),
        columns=columns(Offer),
        rows=offers,
        parts=tuple(replace(part, warnings=()) for part in parts),
        assumptions=tuple(text for text in planned.assumptions if not isinstance(text, Aside)),
        warnings=tuple(dict.fromkeys(text for part in parts for text in part.warnings)),
        verdict=planned.verdict,
        remarks=planned.remarks,
        absent=(("", "no layout that was tried meets the limits, or nothing of it is recorded"),),
    )
    c.say(report, out)


_CHOICE = ("hardware", "devices", "replicas", "tp", "weights")
_FIGURES = ("usd_per_month", "usd_per_million_output_tokens", "utilization", "ttft_p95_s", "tpot_p95_s")


def _mean(made: Planned) -> int:
    """Tokens that a sequence of the traffic ends with, at the mean."""
    asked: Mapping[str, float] = made.answer.inputs
    return round(asked["mean_prompt_tokens"] + asked["mean_output_tokens"])


def _memory(found: Model, which: o.Whence, made: Planned, running: planning.Paid, names: dict[str, str], place: planning.Devices) -> Report:
    """What the memory of one replica of the choice holds."""
    plan, batch = made.deployment, made.answer.results.mean_batch
    given = {name: word for name, word in running.words.items() if name in o.Pooled.options()}
    stored = o.Stored(
        hardware=hardware.parse_count(names[plan.device.id])[1],
        weights=plan.weights.name if place.weights != "auto" else "auto",
        kv_dtype=place.kv_dtype,
        tp=str(plan.tp),
        pp=str(plan.pp),
        ep=str(plan.ep),
        dp=str(plan.dp),
    )
    work = o.Work(ctx=str(_mean(made)), batch=str(max(round(batch or 1), 1)))
    return fit.reported(found, which, stored, work, o.Pooled(**given), o.Drafts())


def _near(device: Device) -> Report:
    """Measurements of the device by class; of all devices, where it has none."""
    try:
        return accuracy.reported(accuracy.About(hardware=device.id, worst="0"), drawn=False, listed=False)
    except UsageError:
        return accuracy.reported(accuracy.About(worst="0"), drawn=False)


def _offers(devices: Sequence[Device], running: planning.Paid) -> Iterator[Offer]:
    """The prices that count, of each device."""
    owned = purse(running, devices)
    for device, given in (owned.of(device) for device in dict.fromkeys(devices)):
        if given is not None:
            yield Offer(hardware=device.id, usd_per_hour=given, kind="given", provider="", date="")
            continue
        for price in device.offers(None):
            yield Offer(
                hardware=device.id, usd_per_hour=price.usd_per_hour, kind=price.type, provider=price.provider, date=price.date or "undated"
            )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", epilog=EXAMPLES)(o.command(report))
