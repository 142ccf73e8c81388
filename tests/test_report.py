"""One page for a decision: its parts are the answers of the commands that they come from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from llmcalc import __version__, data
from llmcalc.cli import main

MODEL = ["-m", "Qwen/Qwen3-8B"]
TRAFFIC = ["--rate", "1", "--prompt", "200", "--output-tokens", "20"]
LIMITS = ["-d", "l40s", "--tp", "1", "--max-tpot", "50ms"]


def ask(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*args, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_its_parts_are_what_the_commands_answer(capsys: pytest.CaptureFixture[str]) -> None:
    page = ask(capsys, "report", *MODEL, *TRAFFIC, *LIMITS)
    plan = ask(capsys, "plan", *MODEL, *TRAFFIC, *LIMITS)
    parts = {part["command"]: part for part in page["parts"]}
    assert list(parts) == ["plan", "fit", "pareto", "accuracy"]
    assert (parts["plan"]["results"], parts["plan"]["rows"]) == (plan["results"], plan["rows"])
    batch = str(max(round(plan["results"]["mean_batch"]), 1))
    fit = ask(capsys, "fit", *MODEL, "-d", "l40s", "-c", "220", "-b", batch)
    front = ask(capsys, "pareto", *MODEL, "-d", "l40s", "--tp", "1", "-c", "220", "--prompt", "200", "--max-tpot", "50ms")
    assert (parts["fit"]["results"], parts["fit"]["rows"]) == (fit["results"], fit["rows"])
    assert parts["pareto"]["results"] == front["results"] and all(row in front["rows"] for row in parts["pareto"]["rows"])
    near = ask(capsys, "accuracy", "-d", "l40s")["results"]
    said = page["results"]
    assert (said["measured_rows"], said["median_error"]) == (near["rows"], near["median_error"])
    assert (said["usd_per_month"], said["max_batch"]) == (plan["results"]["usd_per_month"], fit["results"]["max_batch"])
    prices = ask(capsys, "hardware", "show", "l40s")["rows"]
    dated = {(row["value"], row["date"]) for row in prices if "price" in row["label"]}
    assert {(row["usd_per_hour"], row["date"]) for row in page["rows"]} <= dated


def test_a_page_says_when_and_how_it_was_made_and_what_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.html"
    assert main(["report", *MODEL, *TRAFFIC, *LIMITS, "-o", str(path)]) == 0
    page = path.read_text(encoding="utf-8")
    first = page[: page.index("<hr>")]
    assert f"llmcalc {__version__} · {data.today().isoformat()} · llmcalc report -m Qwen/Qwen3-8B" in first
    assert all(word in first for word in ("l40s", "a month", "on-demand", "Nebius"))
    assert page.count("<hr>") == 4 and page.count("<svg") == 3 and not re.search(r"<script|https?://(?!www\.w3\.org)", page)
    assert "tr class=marked" in page


def test_where_nothing_meets_the_limits_the_page_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    page = ask(capsys, "report", *MODEL, *TRAFFIC, "-d", "l40s", "--tp", "1", "--max-tpot", "1ms")
    assert page["results"]["devices"] is None and page["parts"][0]["command"] == "plan" and page["warnings"]
