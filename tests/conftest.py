"""What every test process needs before its first import, and how many examples a property gets."""

import os
import shutil

for library in ("OPENBLAS", "OMP", "MKL", "VECLIB"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # as the command line does: pytest's own workers fill the cores

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # of two hundred child processes, one compiles

from collections.abc import Callable  # noqa: E402
from functools import cache  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """A property gets a few examples here, and many in the nightly part."""
    try:
        from hypothesis import settings
    except ImportError:  # the real implementations are tested without it
        return
    settings.register_profile("plain", max_examples=25, deadline=None)
    settings.register_profile("nightly", max_examples=500, deadline=None)
    settings.load_profile("plain" if "not nightly" in (config.getoption("markexpr") or "not nightly") else "nightly")


@pytest.fixture(scope="session", autouse=True)
def parsers() -> None:
    """The parser of a command is made once in each test process, as it is in a run: of thousands of runs that was a tenth."""
    from typer.main import get_command

    from llmcalc import cli

    make = cli.build

    @cache
    def made(command: str | None, wide: bool) -> Callable[..., Any]:
        return get_command(make(command))

    cli.build = lambda command=None: made(command, shutil.get_terminal_size().columns)  # type: ignore[assignment]
