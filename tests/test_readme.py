"""The README is kept true: its commands exist, its examples run, its output is today's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from llmcalc.cli import main
from llmcalc.commands import COMMANDS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.S)
EXAMPLES = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines() if line.startswith("llmcalc ")]


def test_every_command_is_in_the_readme() -> None:
    missing = [name for name in COMMANDS if f"`llmcalc {name}`" not in README]
    assert not missing


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_examples_run(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


def test_the_shown_table_is_todays(capsys: pytest.CaptureFixture[str]) -> None:
    shown = next(text for kind, text in BLOCKS if kind == "" and text.startswith("KV cache of Qwen/Qwen3-8B"))
    main(["kv", "--model", "Qwen/Qwen3-8B", "--ctx", "32768"])
    assert capsys.readouterr().out == shown


def test_the_python_example_is_right() -> None:
    code = next(text for kind, text in BLOCKS if kind == "python")
    names: dict[str, object] = {}
    for statement in code.splitlines():
        expression, _, comment = statement.partition("  # ")
        if comment:
            assert str(eval(expression, names)) == comment  # noqa: S307 - our own README
        else:
            exec(expression, names)  # noqa: S102


def test_there_are_exactly_two_set_up_commands() -> None:
    assert README.count("python3 -m venv .venv") == 2
