"""The README and the pages beside it are kept true: commands exist and are shown, examples run; test_docs holds what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from llmcalc import hardware, sources
from llmcalc.cli import main
from llmcalc.commands import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PEERS = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
PAGES = [README, *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("[cf]o*.md")))]  # commands, for-…
BLOCKS = [block for page in PAGES for block in re.findall(r"```(\w*)\n(.*?)```", page, re.S)]
EXAMPLES = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines() if line.startswith("llmcalc ")]


def test_every_command_is_in_the_readme() -> None:
    missing = [name for name in COMMANDS if f"`llmcalc {name}`" not in README]
    assert not missing


def test_every_command_is_shown_with_its_output() -> None:
    """All but accuracy, which has its own section, and doctor, which speaks of the machine."""
    shown = {word for kind, text in BLOCKS if kind == "console" for word in re.findall(r"^\$ .*?llmcalc (\w+)", text)}
    assert set(COMMANDS) - shown <= {"accuracy", "doctor"}


@pytest.mark.parametrize("line", EXAMPLES)
def test_the_examples_run(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)[1:]) == 0
    assert capsys.readouterr().out


def test_the_python_example_is_right() -> None:
    code = next(text for kind, text in BLOCKS if kind == "python")
    names: dict[str, object] = {}
    for statement in code.splitlines():
        expression, _, comment = statement.partition("  # ")
        if comment:
            assert str(eval(expression, names)) == comment
        else:
            exec(expression, names)


def test_there_are_exactly_two_set_up_commands() -> None:
    assert README.count("python3 -m venv .venv") == 2
    assert [name for name in ("use", "test") if len(re.findall(rf"<!-- {name} -->\n```sh\n.*\n```\n<!-- /{name} -->", README)) != 1] == []


def test_the_readme_can_be_read_at_once() -> None:
    assert len(README.splitlines()) <= 250
    assert all(f"$ llmcalc {name} " in README for name in ("kv", "fit", "decode", "plan"))


def test_the_counts_are_right() -> None:
    bundled = [name for name in hardware.ids() if hardware.load(name).origin == "bundled"]
    assert f"{len(sources.bundled_ids())} models are bundled" in README
    assert f"{len(bundled)} profiles live in `hardware/`" in README


def test_the_feature_table_has_a_word_in_every_cell() -> None:
    (table,) = re.findall(r"^\| \| llmcalc \|.*?(?=\n\n)", f"{PEERS}\n", re.S | re.M)
    head, _, *rows = (line.strip("| ").split(" | ") for line in table.splitlines())
    assert len(rows) > 15
    assert all(len(row) == len(head) + 1 and set(row[1:]) <= {"●", "◐", "–"} for row in rows)
    assert re.search(r"seen to do on \d{4}-\d\d-\d\d", PEERS)
