"""`llmcalc rank`: what runs on a machine, how fast, and which of it is best."""

from __future__ import annotations

from typing import Any

import typer

from llmcalc import engines, quality, rank, units
from llmcalc.answers import ABSENT
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
from llmcalc.commands.space import words
from llmcalc.errors import UsageError, printable
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc rank -d 'rtx 4070 ti super'

  llmcalc rank -d rtx-4090 -c 16k --min-speed 30 --task coding

  llmcalc rank -d rtx-3090,rtx-5090 -c 16k
"""
SCREEN = 10
"""Rows of the first screen."""


class Machines(o.Group):
    """On what."""

    hardware = o.Placement.hardware.but(metavar="DEVICES", help="'2x rtx-3090', auto; A,B: what B adds.")


class Wish(o.Group):
    """What it has to do."""

    section = "Workload"
    ctx = o.Work.ctx.but(help="Tokens to hold. [default: 8k or its most]")
    batch = o.Work.batch
    min_speed = o.option("10", "--min-speed", metavar="N", read=parse.positive, help="Least tokens/s of one sequence.")
    task = o.option("text", "--task", autocompletion=completion.of(*quality.TASKS), metavar="TASK", help="text, coding or vision.")
    family = o.option("", "--family", metavar="TEXT", help="Only models whose id contains this.")
    sort = o.option("quality", "--sort", autocompletion=completion.of(*rank.SORTS), metavar="KEY", help="quality, speed or memory.")


class Engine(o.Group):
    """What runs it."""

    section = "Deployment"
    engine = o.option(None, "--engine", autocompletion=completion.engines, metavar="NAME", help="[default: llama.cpp, on servers vllm]")


def rank_command(place: Machines, wish: Wish, run: Engine, out: o.File) -> None:
    """What runs on this machine, how fast, and which of it is best."""
    names = words(place.hardware)
    if not names:
        raise UsageError("bad-value", "no device is named", "give one with --hardware, or auto")
    asked = _asked(wish, run)
    machines = [rank.machine(name) for name in names]
    models = list(rank.candidates(asked))
    if not models:
        raise UsageError(
            "no-model-matches", f"no bundled model that answers has {printable(wish.family, 40)!r} in its id", "leave --family out"
        )
    found = [rank.ranked(name, asked, models) for name in names]
    several = len(found) > 1
    rows = tuple(row for other in found[1:] for row in rank.upgrades(found[0], other)) if several else found[0].rows
    result = rank.verdict(rows, found[0].candidates)
    kinds = sorted({asked.engine or rank.default_engine(device) for _, device in machines})
    title = " or ".join(f"{count} × {device.name}" if count > 1 else device.name for count, device in machines)
    report = Report(
        command="rank",
        title=f"What runs on {title}",
        hardware=None if several else {"id": machines[0][1].id, "count": machines[0][0], "name": machines[0][1].name},
        inputs={
            "hardware": [device.id for _, device in machines],
            "ctx_tokens": asked.ctx,
            "batch": asked.batch,
            "min_tokens_per_s": asked.least_tokens_per_s,
            "task": asked.task,
            "engine": kinds[0] if len(kinds) == 1 else None,
            "family": asked.family or None,
            "sort": asked.sort,
        },
        header=(_headline(rows, result, names), *_next(rows)),
        facts=facts(result),
        columns=columns(rank.Runs, hardware=len(found) > 2, speed_ratio=several),
        rows=rows,
        remarks=tuple(_remarks(rows, found, out.all)),
        assumptions=(
            f"{', '.join(kinds)}; {asked.ctx:,} tokens of context; at least {units.number(asked.least_tokens_per_s)} tok/s, expected",
            "each in its best published format that fits; its loss is not in the rating",
            f"ratings: Arena, {asked.task}, people's votes; differences within ± are none",
        ),
        warnings=tuple(dict.fromkeys((*c.variants(device for _, device in machines), *_warnings(found, rows)))),
        rows_first=True,
        brief=_brief(rows),
        absent=(
            (
                "quality quality_low quality_high quality_date quality_source quality_named",
                "null where nobody published a rating or an interval",
            ),
            ("best best_weights best_tokens_per_s", "no rated model is fast enough"),
            ("", "null where nothing is written down"),
        ),
    )
    c.say(report, out)


def _asked(wish: Wish, run: Engine) -> rank.Asked:
    return rank.Asked(
        ctx=wish.ctx or c.DEFAULT_CTX,
        strict=wish.ctx is not None,
        batch=wish.batch,
        least_tokens_per_s=wish.min_speed,
        task=_one_of(wish.task, quality.TASKS, "task"),
        engine=run.engine and engines.find(run.engine).name,
        family=wish.family,
        sort=_one_of(wish.sort, rank.SORTS, "sort"),
    )


def _one_of(word: str, known: tuple[Any, ...], name: str) -> Any:
    if word not in known:
        raise UsageError("bad-value", f"{name} {printable(word, 40)!r} is not one that llmcalc knows", f"use one of {', '.join(known)}")
    return word


def _headline(rows: tuple[rank.Runs, ...], result: rank.Ranking, names: list[str]) -> str:
    if result.gained is not ABSENT:
        ratio = "" if not isinstance(result.median_speed_ratio, float) else f"; the rest at {result.median_speed_ratio:.2f} × the speed"
        return f"beside {names[0]}: {result.gained} more models run fast enough{ratio}"
    top = next((row for row in rows if row.group == "rated"), None)
    if top is None:
        return "nothing that is rated fits and is fast enough"
    return f"best that fits: {top.model} in {top.weights} at {units.number(top.tokens_per_s)} tok/s"


def _next(rows: tuple[rank.Runs, ...]) -> tuple[str, ...]:
    top = next((row for row in rows if row.group == "rated"), None)
    return (f"next: {top.start}",) if top is not None and top.start else ()


def _brief(rows: tuple[rank.Runs, ...]) -> tuple[int, ...]:
    """The first ten."""
    return tuple(range(SCREEN)) if len(rows) > SCREEN else ()


def _remarks(rows: tuple[rank.Runs, ...], found: list[rank.Ranked], everything: bool) -> list[str]:
    said = []
    unrated = [row.name for row in rows if row.group == "unrated"]
    if unrated and not everything:
        said.append(f"{c.counted(len(unrated), 'model')} without a rating run, too; --all lists them")
    slow = [row for row in rows if row.group == "slow"]
    if slow and not everything:
        said.append(f"too slow: {', '.join(f'{row.name} ({row.tokens_per_s:.2g} tok/s)' for row in slow[:2])}")
    return said


def _warnings(found: list[rank.Ranked], rows: tuple[rank.Runs, ...]) -> list[str]:
    said = []
    old = sum(row.quality_old for row in rows)
    if old:
        said.append(f"{c.counted(old, 'rating')} older than a year: marked old")
    problems = {text for one in found for text in one.problems.values()}
    if problems:
        number = max(len(one.problems) for one in found)
        said.append(f"{c.counted(number, 'model')} left out: {'; '.join(sorted(problems)[:2])}")
    return said


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rank", epilog=EXAMPLES)(o.command(rank_command))
