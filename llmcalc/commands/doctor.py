"""`llmcalc doctor`: versions, paths, the Hub's settings and the age of the data. It says no secret and asks no network."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from pathlib import Path

import typer

import llmcalc
from llmcalc import data
from llmcalc.answers import Answer, Words, answer, field
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import LlmcalcError
from llmcalc.present import Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc doctor

  llmcalc doctor --json
"""
PACKAGES = ("typer", "rich", "pydantic", "PyYAML", "huggingface-hub", "numpy", "plotille", "altair", "nvidia-ml-py")


@answer("doctor")
class Health(Answer):
    """What is installed, and how old the data is."""

    version: str = field("version", shown=False)
    python: str = field("Python", shown=False)
    platform: str = field("platform", shown=False)
    models: int = field("bundled models")
    devices: int = field("devices")
    prices: int = field("prices")
    old_prices: int = field("  too old", meaning="asked more than half a year ago")
    newest_model_date: str | None = field("newest model", shown=False)
    newest_price_date: str | None = field("newest price", shown=False)
    local_device: str | None = field("device of this machine")


@answer("doctor", rows=True)
class Finding(Answer):
    """One thing that was looked at."""

    about: str = field("about", rank=1)
    what: str = field("what")
    value: str = field("value")
    note: str = field("note", rank=2)


def doctor(out: o.File) -> None:
    """What is installed, where files are read and written, and how old the bundled data is."""
    versions = [_row("system", "Python", platform.python_version()), _row("system", "platform", platform.platform(terse=True))]
    rows = [*versions, *_packages(), *_paths(), *_hub(), *_terminal()]
    found, said, warnings = _health()
    report = Report(
        command="doctor",
        whole=True,
        title=f"llmcalc {llmcalc.__version__}",
        facts=facts(found, **said),
        columns=columns(Finding),
        rows=tuple(rows),
        warnings=tuple(warnings),
        absent=(("local_device", "no profile matches a device of this machine"), ("", "nothing of it is bundled")),
    )
    c.say(report, out)


def _row(about: str, what: str, value: str, note: str = "") -> Finding:
    return Finding(about=about, what=what, value=value, note=note)


def _packages() -> list[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    def installed(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    return [
        _row("package", name, installed(name), {"altair": "extra plots", "nvidia-ml-py": "extra detect"}.get(name, "")) for name in PACKAGES
    ]


def _paths() -> list[Finding]:
    places = [
        ("program", Path(llmcalc.__file__).parent, ""),
        *((name, data.bundled(name), "") for name in ("models", "hardware", "measurements")),
    ]
    own = [("your profiles", data.user_config() / "hardware"), ("state", data.user_state()), ("cache", data.user_cache())]
    return [_row("path", name, str(path), note or _state(path)) for name, path, note in [*places, *((*each, "") for each in own)]]


def _state(path: Path) -> str:
    """Whether a folder is there; of one that is not, whether it could be made."""
    try:
        if path.exists():
            return "" if os.access(path, os.R_OK | os.X_OK) else "cannot be read"
        parent = next(folder for folder in path.parents if folder.exists())
        return "not there yet" if os.access(parent, os.W_OK) else "not there, and cannot be made"
    except OSError as problem:
        return (problem.strerror or "cannot be read").lower()


def _hub() -> list[Finding]:
    from llmcalc import sources

    return [_row("Hub", name, value) for name, value in sources.settings().items()]


def _terminal() -> list[Finding]:
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    kind = f"{wide} columns" if wide else "a pipe or a file"
    names = ("TERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "SOURCE_DATE_EPOCH", "LLMCALC_DEBUG")
    given = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    return [
        _row("terminal", "stdout", kind, str(getattr(sys.stdout, "encoding", None) or "")),
        *(_row("terminal", "environment", each) for each in given),
    ]


def _health() -> tuple[Health, dict[str, Words | str | bool], list[str]]:
    """How much is bundled and how old it is, in notes; a price counts with the day it was asked, not with the day it was read."""
    from llmcalc import hardware, sources
    from llmcalc.estimate import summaries

    devices, warnings = [], []
    for name in hardware.ids():
        try:
            devices.append(hardware.load(name))
        except LlmcalcError as problem:
            warnings.append(problem.message)
    prices = [price.date for device in devices for price in device.prices]
    dated = sorted(date for date in prices if date)
    old = sum(data.age_days(date) > hardware.PRICE_DAYS for date in dated)
    cited = (date for device in devices for fact in hardware.facts(device) for date in re.findall(r"\d{4}-\d\d-\d\d", fact.date))
    read = sorted(cited)
    dates = sorted(date for name in sources.bundled_ids() if (date := summaries.of(name).date))
    device, note = _local()
    found = Health(
        version=llmcalc.__version__,
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        models=len(dates),
        devices=len(devices),
        prices=len(prices),
        old_prices=old,
        newest_model_date=dates[-1] if dates else None,
        newest_price_date=dated[-1] if dated else None,
        local_device=device,
    )
    said: dict[str, Words | str | bool] = {
        "models": f"as of {dates[0]} to {dates[-1]}" if dates else "",
        "devices": f"newest source {read[-1]}" if read else "",
        "prices": f"{dated[0]} to {dated[-1]}; {len(prices) - len(dated)} undated" if dated else "",
        "old_prices": Words(f"  older than {hardware.PRICE_DAYS} days"),
        "local_device": note,
    }
    return found, said, warnings


def _local() -> tuple[str | None, str]:
    """What `-d auto` means here."""
    from llmcalc import hardware

    try:
        return hardware.load("auto").id, "what `-d auto` means"
    except LlmcalcError as problem:
        return None, problem.message


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog=EXAMPLES)(o.command(doctor, ()))
