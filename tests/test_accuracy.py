"""The measurements, what is predicted for them, the bounds that the estimates were built to meet, and the README's table."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from llmcalc import accuracy, hardware, sources
from llmcalc.cli import main

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def points() -> list[accuracy.Point]:
    return accuracy.points(accuracy.bundled())


# ---- the files ----------------------------------------------------------------------------------------------------


def test_every_published_row_is_here_or_named_with_a_reason() -> None:
    """961 decode and 407 prefill rows were collected, and five of ExLlamaV3 (e...) on other models than those."""
    rows, others = accuracy.bundled(), accuracy.unpredicted()
    ids = [row["id"] for row in (*rows, *others)]
    assert len(ids) == len(set(ids)) == 961 + 407 + 5
    assert all(row["reason"] for row in others)


def test_a_row_names_bundled_ids_and_a_source() -> None:
    models, devices = set(sources.bundled_ids()), set(hardware.ids())
    for row in accuracy.bundled():
        assert row["model"] in models and row["device"] in devices, row["id"]
        assert len(row["source"]) > 20, row["id"]
        assert row["value"] > 0 and row["metric"] in (*accuracy.STEPS, *accuracy.PROMPTS, *accuracy.LOADS), row["id"]


# Copied by hand from the sources: llama.cpp's DGX Spark page, TensorRT-LLM's overview, the silicon samples, XiongjieDai's table.
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("d0145", {"model": "openai/gpt-oss-20b", "device": "dgx-spark", "value": 86.58, "batch": 1}),
        ("d0001", {"model": "meta-llama/Meta-Llama-3-8B", "device": "rtx-3070", "weights": "q4_k_m", "value": 70.94}),
        ("d0616", {"model": "meta-llama/Llama-3.1-8B-Instruct", "device": "h100-sxm", "weights": "fp8", "value": 15220, "prompt": 1000}),
        ("d0773", {"model": "deepseek-ai/DeepSeek-R1", "device": "h200-sxm", "tp": 8, "batch": 4, "value": 0.010292}),
        ("p0001", {"model": "meta-llama/Meta-Llama-3-8B", "prompt": 1024, "value": 2283.62}),
    ],
)
def test_a_row_is_what_the_source_says(row: str, expected: dict[str, Any]) -> None:
    found = next(each for each in accuracy.bundled() if each["id"] == row)
    assert {key: found[key] for key in expected} == expected


# ---- arithmetic ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "measured"),
    [
        ({"metric": "stream_tokens_per_s", "value": 100}, 0.01),
        ({"metric": "batch_tokens_per_s", "value": 80, "batch": 8}, 0.1),
        ({"metric": "tpot", "value": 0.02, "batch": 8}, 0.02),
        ({"metric": "request_s", "value": 40, "output": 2000}, 0.02),
        ({"metric": "prompt_tokens_per_s", "value": 2048, "prompt": 512}, 0.25),
        ({"metric": "max_load_tokens_per_s", "value": 9000}, 9000),
        ({"metric": "max_load_tokens_per_s_per_device", "value": 1000}, 4000),
    ],
)
def test_what_a_row_measured(row: dict[str, Any], measured: float) -> None:
    made = accuracy.deployment({"device": "h100-sxm", "tp": 4}, accuracy.model_of("Qwen/Qwen3-8B"))
    assert accuracy.measured(row, made) == pytest.approx(measured)


def test_quantiles_by_hand() -> None:
    assert accuracy.quantile([4, 1, 2, 3], 0.5) == 2.5
    assert accuracy.quantile([1, 2, 3, 4, 5], 0.9) == pytest.approx(4.6)
    assert accuracy.median_error([0.5, 0.9, 1.0, 1.2, 2.0]) == pytest.approx(0.2)


# ---- how far off, for models that the fit had not seen ------------------------------------------------------------

BOUNDS = {
    "one sequence, dense, at least 3 GB read": 0.12,
    "one sequence, mixtures": 0.20,
    "time per token of a server": 0.20,
    "first token of a server, few sequences": 0.35,
    "one prompt on one device": 0.25,
    "full load, dense, NVLink or Infinity Fabric": 0.14,
    "full load, dense, PCIe": 0.25,
    "full load, mixtures": 0.25,
}


def test_the_errors_are_within_their_bounds(points: list[accuracy.Point]) -> None:
    groups = dict(accuracy.targets(points))
    assert set(groups) == set(BOUNDS)
    for name, bound in BOUNDS.items():
        found = accuracy.summary(groups[name])
        assert found["median_error"] <= bound, name
        assert found["median_error"] < found["one_efficiency_median_error"], name
        assert found["median_error"] < found["napkin_median_error"], name


def test_the_shipped_calibration_is_no_worse_on_the_rows_that_made_it() -> None:
    """A change of the estimator that the calibration has not followed shows here."""
    for name, chosen in accuracy.targets(accuracy.points(accuracy.bundled(), fresh=True)):
        assert accuracy.summary(chosen)["median_error"] <= BOUNDS[name], name


def test_a_server_is_rarely_far_off(points: list[accuracy.Point]) -> None:
    """At least 85% within a factor of 1.6 of measured times per token; every row is answered."""
    served = dict(accuracy.targets(points))["time per token of a server"]
    near = [each for each in served if 1 / 1.6 <= each.ratio <= 1.6]
    assert len(near) >= 0.85 * len(served)


def test_single_streams_are_within_thirty_percent(points: list[accuracy.Point]) -> None:
    """Nine of ten rows."""
    streams = dict(accuracy.targets(points))["one sequence, dense, at least 3 GB read"]
    assert sum(abs(each.ratio - 1) <= 0.3 for each in streams) >= 0.9 * len(streams)


def test_the_ranges_cover_what_they_say(points: list[accuracy.Point]) -> None:
    """75% to 90% of the rows of each class with 20 or more; a class with fewer has a wide range, which may cover all."""
    classes: dict[tuple[str, ...], list[accuracy.Point]] = {}
    for each in points:
        metric = (
            "batch" if each.kind == "serving" and each.quantity == "step" else each.quantity if each.quantity != "step" else each.metric
        )
        classes.setdefault((metric, each.kind, each.group, str(each.mixture)), []).append(each)
    checked = 0
    for name, chosen in classes.items():
        if len(chosen) >= 20:
            assert 0.75 <= sum(each.covered for each in chosen) / len(chosen) <= 0.9, name
            checked += 1
    assert checked >= 15
    # Ranges made without a row's model cover four of five as well, though not in every class.
    blind = [each.covered_unseen for each in points]
    assert None not in blind and 0.75 <= sum(map(bool, blind)) / len(blind) <= 0.9


# ---- the command --------------------------------------------------------------------------------------------------


def test_the_readme_shows_the_table_of_today(points: list[accuracy.Point], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "points", lambda _: points)
    spec = importlib.util.spec_from_file_location("accuracy_table", ROOT / "scripts" / "accuracy_table.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert script.written(text) == text, "run scripts/accuracy_table.py"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["accuracy", *arguments, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found: dict[str, Any] = json.loads(printed.out)
    return found


def test_nearby_rows_of_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "--hardware", "4080")
    assert [(row["id"], row["hardware"]) for row in found["rows"]] == [
        (row["id"], "rtx-4080") for row in accuracy.bundled() if row["device"] == "rtx-4080"
    ]
    assert {"measured", "predicted", "low", "high", "ratio", "source"} <= set(found["rows"][0])
    assert len(found["results"]["worst"]) == 3


def test_own_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "rows:\n  - {id: mine, model: Qwen/Qwen3-8B, weights: q4_k_m, device: dgx-spark, engine: llama.cpp, prompt: 0, output: 128, metric: stream_tokens_per_s, value: 40}\n"
    )
    found = answer(capsys, "--rows", str(file))
    assert found["rows"][0]["measured"] == pytest.approx(0.025)
    assert found["results"]["rows"] == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--model", "nobody/nothing"], "no-measurements"),
        (["--hardware", "tpu-v6e"], "no-measurements"),
        (["--worst", "x"], "bad-value"),
        (["--rows", "no-such-file.yaml"], "file-unreadable"),
    ],
)
def test_mistakes(arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["accuracy", *arguments, "--json"]) in (1, 2)
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_a_row_without_a_metric_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("rows:\n  - {id: mine, model: Qwen/Qwen3-8B, device: dgx-spark, value: 40}\n")
    assert main(["accuracy", "--rows", str(file)]) == 2
    assert "row mine has no metric" in capsys.readouterr().err


def test_a_plot_is_drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["accuracy", "-d", "rtx-4080", "--plot"]) == 0
    printed = capsys.readouterr().out
    assert "expected tokens/s" in printed and "measured tokens/s" in printed
    assert all(len(line) <= 80 for line in printed.splitlines() if "http" not in line)
