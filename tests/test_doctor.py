"""What the tool says about itself and the age of its data: doctor, old prices, bundled models against the Hub of today."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_server import FakeHub, closed_port

from llmcalc import __version__, data, hardware, sources
from llmcalc.cli import main

TOKEN = "hf_averysecrettoken"


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: the Hub's client reads its settings when it is imported."""
    return subprocess.run(
        [sys.executable, "-m", "llmcalc", *args], capture_output=True, text=True, timeout=60, env={**os.environ, "NO_PROXY": "*", **env}
    )


def test_doctor_says_what_is_there_and_no_secret(tmp_path: Path) -> None:
    done = run(
        "doctor",
        "--json",
        HF_TOKEN=TOKEN,
        HF_ENDPOINT="https://someone:secret@mirror.example/hub",
        HF_HOME=str(tmp_path),
        HOME=str(tmp_path),
    )
    assert done.returncode == 0 and done.stderr == ""
    assert TOKEN not in done.stdout and "secret" not in done.stdout
    answer = json.loads(done.stdout)
    assert answer["results"]["version"] == __version__
    assert answer["results"]["models"] == len(sources.bundled_ids())
    assert answer["results"]["devices"] == len(hardware.ids())
    said = {row["what"]: row["value"] for row in answer["rows"]}
    assert said["endpoint"] == "mirror.example"
    assert said["token"] == "set"
    assert said["models"] == str(data.bundled("models"))
    assert said["your profiles"].startswith(str(tmp_path))


def test_doctor_survives_a_broken_profile_and_settings(tmp_path: Path) -> None:
    folder = tmp_path / "llmcalc" / "hardware"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("id: [\n")
    done = run("doctor", XDG_CONFIG_HOME=str(tmp_path), HF_HUB_DOWNLOAD_TIMEOUT="soon")
    assert done.returncode == 0
    assert "broken.yaml" in done.stderr


@pytest.mark.parametrize(
    ("today", "date", "days"),
    [
        ("2026-11-29", "2026-11-29", 0),
        ("2026-11-29", "2026-06-02", 180),  # 28 + 31 + 31 + 30 + 31 + 29
        ("2026-11-29", "2026-05", 182),  # from 31 May
        ("2026-11-29", "2025", 333),  # from 31 December
        ("2026-11-29", "2026-12", -32),
    ],
)
def test_age_counts_from_the_last_day_that_a_date_may_mean(today: str, date: str, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at(today, monkeypatch)
    assert data.age_days(date) == days


def at(today: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import datetime

    noon = datetime.datetime.fromisoformat(f"{today}T12:00:00+00:00")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(noon.timestamp())))


PROFILE = """
id: mine
name: Mine
vendor: Mine
kind: gpu
class: datacenter
bandwidth: 1 TB/s
memory: {nominal: 80 GB, source: [me]}
compute: {bf16: 100 TFLOP/s, source: [me]}
prices:
  - {rate: $1/h, type: on-demand, provider: Old, date: 2026-01-15, source: me}
  - {rate: $3/h, type: on-demand, provider: New, date: 2026-09-01, source: me}
  - {rate: $9/h, type: spot, provider: Ancient, date: 2020, source: me}
confidence: low
sources: {me: {cite: a guess, date: 2026-09-01}}
"""


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(PROFILE)
    return str(path)


OLD = "1 of 2 prices of mine are older than 180 days; --price sets one"


def warnings_of(capsys: pytest.CaptureFixture[str], *args: str) -> list[str]:
    assert main([*args, "--json"]) == 0
    found: list[str] = json.loads(capsys.readouterr().out)["warnings"]
    return [line for line in found if "older than" in line]


COST = ("cost", "-m", "Qwen/Qwen3-8B", "-b", "8", "-d")
PLAN = ("plan", "-m", "Qwen/Qwen3-8B", "--rate", "1", "--prompt", "200", "--output-tokens", "20", "-d")


@pytest.mark.parametrize("command", [COST, PLAN])
def test_old_prices_are_flagged(
    command: tuple[str, ...], profile: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at("2026-07-14", monkeypatch)  # 16 + 28 + 31 + 30 + 31 + 30 + 14 = 180 days after the older one
    assert warnings_of(capsys, *command, profile) == []
    at("2026-07-15", monkeypatch)
    assert warnings_of(capsys, *command, profile) == [OLD]
    assert warnings_of(capsys, *command, profile, "--price", "2") == []


def test_the_age_is_no_matter_of_an_owned_device(profile: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    at("2026-11-29", monkeypatch)
    Path(profile).write_text(PROFILE + "power: {tdp: 100 W, source: [me]}\n")
    assert warnings_of(capsys, *COST, profile, "--owned", "--purchase", "1000") == []


# `models check` against the Hub --------------------------------------------------------------------------------------


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    server = FakeHub()
    yield server
    server.close()


def check(hub_url: str, home: Path, *models: str) -> dict[str, dict[str, Any]]:
    done = run("models", "check", *models, "--json", HF_ENDPOINT=hub_url, HF_HOME=str(home), HF_HUB_ETAG_TIMEOUT="1", HF_HUB_OFFLINE="0")
    answer = json.loads(done.stdout)
    assert done.returncode == (0 if all(row["ok"] for row in answer["rows"]) else 3)
    return {row["model"]: row for row in answer["rows"]}


def test_a_bundled_model_against_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    same = sources.read_bundled("Qwen/Qwen3-8B").config
    longer = sources.read_bundled("Qwen/Qwen3-4B").config | {"num_hidden_layers": 40}
    commit = hub.add("Qwen/Qwen3-8B", {"config.json": {**same, "transformers_version": "99", "use_cache": True}})
    hub.add("Qwen/Qwen3-4B", {"config.json": longer})
    rows = check(hub.url, tmp_path, "Qwen/Qwen3-8B", "Qwen/Qwen3-4B", "Qwen/Qwen3-32B")
    assert rows["Qwen/Qwen3-8B"]["ok"] and rows["Qwen/Qwen3-8B"]["hub"] == f"the same, commit {commit[:12]}"
    assert not rows["Qwen/Qwen3-4B"]["ok"]
    assert rows["Qwen/Qwen3-4B"]["problem"] == "the Hub's config differs: num_hidden_layers"
    assert rows["Qwen/Qwen3-32B"]["ok"] and rows["Qwen/Qwen3-32B"]["hub"].startswith("not readable: ")  # that Hub does not have it


def test_without_a_network_the_rest_is_checked(tmp_path: Path) -> None:
    rows = check(f"http://127.0.0.1:{closed_port()}", tmp_path, "Qwen/Qwen3-8B", "Qwen/Qwen3-4B")
    assert rows["Qwen/Qwen3-8B"]["ok"] and rows["Qwen/Qwen3-8B"]["hub"].startswith("not asked: cannot reach 127.0.0.1")
    assert rows["Qwen/Qwen3-4B"]["ok"] and rows["Qwen/Qwen3-4B"]["hub"] == "not asked"


def test_offline_asks_nobody(hub: FakeHub, tmp_path: Path) -> None:
    assert check(hub.url, tmp_path, "Qwen/Qwen3-8B", "--offline")["Qwen/Qwen3-8B"]["hub"] == "not asked"
    assert hub.paths() == []
