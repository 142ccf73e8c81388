"""docs/ is what scripts/docs.py writes today, its links lead somewhere, and the schema holds for every command."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from llmcalc import answers
from llmcalc.commands import COMMANDS
from llmcalc.figures import FORMULAS
from llmcalc.present import as_json

ROOT = Path(__file__).parent.parent


def script(name: str) -> ModuleType:
    """A file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = script("docs")
PAGES = ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").glob("*.md")))]
BLOCKS = [(page, found) for page in PAGES for found in docs.BLOCK.finditer((ROOT / page).read_text(encoding="utf-8"))]
ADVICE = "run `python scripts/docs.py`"


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{page}: {block[3]}" for page, block in BLOCKS])
def test_the_shown_output_is_todays(page: str, block: re.Match[str]) -> None:
    assert block[4] == docs.output(block[3], typed=block[2] or ""), ADVICE


@pytest.mark.parametrize(
    ("page", "write"),
    [
        ("formulas.md", docs.formulas),
        ("engines.md", docs.policies),
        ("data.md", docs.sources_page),
        ("json.md", docs.keys),
        ("envelope.schema.json", docs.schema),
    ],
)
def test_a_generated_page_is_fresh(page: str, write: Any) -> None:
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == write(), ADVICE


def test_the_picture_shows_todays_output() -> None:
    """By its words: another release of rich may draw them otherwise."""
    assert docs.words((ROOT / "docs" / "llmcalc.svg").read_text(encoding="utf-8")) == docs.words(docs.picture()), ADVICE


def test_the_picture_asks_nothing_from_afar() -> None:
    addresses = set(re.findall(r"https?://[^\"' )]+", (ROOT / "docs" / "llmcalc.svg").read_text(encoding="utf-8")))
    assert addresses <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}


def links(text: str) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target and not target.startswith("#"):
            yield target.partition("#")[0]


@pytest.mark.parametrize("page", [*PAGES, "SKILL.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    missing = [target for target in links(path.read_text(encoding="utf-8")) if not (path.parent / target).exists()]
    assert not missing


def test_every_formula_is_on_its_page() -> None:
    text = (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8")
    assert [name for name in FORMULAS if f"\n### {name}\n" not in text] == []


def test_names_have_the_units_that_the_physics_test_gives_them() -> None:
    """Two tables say what a name's unit is: this page's in words, the one of test_units_of_formulas as dimensions."""
    from test_units_of_formulas import UNITS, dimension_of

    plain = {
        "B": "byte",
        "B/s": "byte/s",
        "B each": "byte",
        "bit": "byte",
        "s": "s",
        "s²": "s**2",
        "W": "watt",
        "year": "year",
        "1/s": "1/s",
    }
    plain |= {"USD": "usd", "USD/h": "usd/hour", "USD/kWh": "usd/kWh", "USD/month": "usd/month", "FLOP/s": "1/s"}
    wrong = []
    for name in sorted({parameter for formula in FORMULAS.values() for parameter in formula.parameters}):
        said = UNITS.Unit(plain.get(docs.unit_of(name), "dimensionless")).dimensionality
        if said != UNITS.Unit(dimension_of(name)).dimensionality:
            wrong.append(f"{name}: {docs.unit_of(name)} and {dimension_of(name)}")
    assert not wrong


SCHEMA = json.loads(docs.schema())


@pytest.mark.parametrize("command", docs.EXAMPLES)
def test_the_schema_holds(command: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    if command.split()[0] not in COMMANDS:
        pytest.skip("not there yet")
    answer = json.loads(as_json.render(replace(docs.said(command), explain=True)))
    jsonschema.Draft202012Validator(SCHEMA).validate(answer)
    assert answer["command"] == command.split()[0]


def test_an_error_has_the_schema_too(capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from llmcalc.cli import main

    assert main(["kv", "-m", "no/such", "--offline", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(answer)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate({**answer, "inputs": {}, "results": {}, "assumptions": [], "warnings": []})


def test_every_command_has_an_example_in_the_json_page() -> None:
    assert set(COMMANDS) <= {command.split()[0] for command in docs.EXAMPLES}
    assert set(COMMANDS) == {name.split()[0] for name in (*answers.RESULTS, *answers.ROWS)}, "its answer is a record of answers.py"


def test_the_skill_names_no_key_that_is_not_there() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    skill = (ROOT / "SKILL.md").read_text(encoding="utf-8")
    keys = [key for line in skill.splitlines() if "→" in line for key in re.findall(r"`(?:results\.)?([a-z_]+)`", line.rpartition("→")[2])]
    assert len(keys) > 15
    assert [key for key in keys if key != "rows" and f"| `{key}` |" not in page] == []
