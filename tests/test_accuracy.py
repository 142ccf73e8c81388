"""The measurements, what is predicted for them, the bounds that the estimates were built to meet, and the README's table."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from llmcalc import accuracy, hardware, measured, sources
from llmcalc.cli import main
from llmcalc.estimate import step

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def points() -> list[accuracy.Point]:
    kept = accuracy.unseen()
    return accuracy.points([row for row in accuracy.bundled() if str(row["id"]) in kept])


# ---- the files ----------------------------------------------------------------------------------------------------


def test_every_published_row_is_here_or_named_with_a_reason() -> None:
    """961 decode and 407 prefill rows were collected, and five of ExLlamaV3 (e...) on other models than those; then 14,000 more."""
    rows, others = accuracy.bundled(), accuracy.unpredicted()
    ids = [row["id"] for row in (*rows, *others)]
    assert len(ids) == len(set(ids))
    assert len([id for id in ids if re.fullmatch(r"[dpe]\d+", id)]) == 961 + 407 + 5
    assert len(ids) > 14_000
    assert all(row["reason"] for row in others)


def test_a_row_names_bundled_ids_and_a_source() -> None:
    models, devices = set(sources.bundled_ids()), set(hardware.ids())
    for row in accuracy.bundled():
        assert row["model"] in models and row["device"] in devices, row["id"]
        assert len(row["source"]) > 20, row["id"]
        assert row["value"] > 0 and measured.plain(row["metric"]) in measured.METRICS, row["id"]


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
    ("row", "value"),
    [
        ({"metric": "stream_tokens_per_s", "value": 100}, 0.01),
        ({"metric": "batch_tokens_per_s", "value": 80, "batch": 8}, 0.1),
        ({"metric": "tpot", "value": 0.02, "batch": 8}, 0.02),
        ({"metric": "request_s", "value": 40, "output": 2000, "batch": 8}, 40),
        ({"metric": "tpot_median", "value": 0.02, "concurrency": 8}, 0.02),
        ({"metric": "tokens_per_s_per_user", "value": 50, "concurrency": 5}, 0.02),
        ({"metric": "prompt_tokens_per_s", "value": 2048, "prompt": 512}, 0.25),
        ({"metric": "max_load_tokens_per_s", "value": 9000}, 9000),
        ({"metric": "max_load_tokens_per_s_per_device", "value": 1000}, 4000),
    ],
)
def test_what_a_row_measured(row: dict[str, Any], value: float) -> None:
    given = {"id": "x", "device": "h100-sxm", "tp": 4, "engine": "vllm", "prompt": 512, "output": 128, **row}
    assert measured.ask(given, measured.model_of("Qwen/Qwen3-8B")).value == pytest.approx(value)


def test_quantiles_by_hand() -> None:
    assert accuracy.quantile([4, 1, 2, 3], 0.5) == 2.5
    assert accuracy.quantile([1, 2, 3, 4, 5], 0.9) == pytest.approx(4.6)
    assert accuracy.median_error([0.5, 0.9, 1.0, 1.2, 2.0]) == pytest.approx(0.2)


# ---- how far off, for models that the fit had not seen ------------------------------------------------------------

BOUNDS = {
    "one stream, GeForce and Radeon": 0.075,
    "one stream, Apple": 0.095,
    "one stream, Strix Halo": 0.12,
    "one stream, DGX Spark": 0.06,
    "one prompt, desktops": 0.145,
    "time per token of a server, Hopper": 0.14,
    "time per token of a server, Blackwell": 0.15,
    "time per token of a server, DGX Spark under a server": 0.15,
    "static batch of a server": 0.12,
    "first token of a server, up to 16 sequences": 0.30,
    "full load, data centre": 0.12,
    "full load, cards": 0.28,
    "joules per token": 0.15,
}
"""With the source left out, or where a class has one source, the model."""


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
    kept = accuracy.unseen()
    rows = [row for row in accuracy.bundled() if str(row["id"]) in kept][::23]
    for name, chosen in accuracy.targets(accuracy.points(rows, fresh=True)):
        if len(chosen) >= 20:
            assert accuracy.summary(chosen)["median_error"] <= 1.2 * BOUNDS[name], name  # some have no more than 20 rows


def test_the_ranges_cover_what_they_say(points: list[accuracy.Point]) -> None:
    """Four of five rows, with their model or their source left out; in every class of 40 and more 70% to 96%."""
    classes: dict[tuple[str, ...], list[accuracy.Point]] = {}
    for each in points:
        metric = "step" if each.kind == "serving" and each.quantity == "step" else each.metric
        classes.setdefault((metric, each.kind, each.group), []).append(each)
    for name, chosen in classes.items():
        if len(chosen) >= 40:
            assert 0.70 <= sum(each.covered for each in chosen) / len(chosen) <= 0.96, name
    assert 0.75 <= sum(each.covered for each in points) / len(points) <= 0.9
    # Ranges made without a row's source cover four of five as well, though not in every class.
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


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_single_stream_beats_the_floor(every: int) -> None:
    """Not one measured row may be faster than its floor by over 2%: one that is has a wrong format, layout or device."""
    alone = [row for row in accuracy.bundled() if str(row["metric"]).startswith(("stream_", "tpot", "itl")) and not row.get("rate")]
    alone = [row for row in alone if float(row.get("batch") or row.get("concurrency") or 1) == 1][::every]
    faster = []
    for row in alone:
        asked = measured.ask(row, measured.model_of(row["model"]))
        least = step.floor(asked.model, asked.plan, asked.work)
        if least is not None and asked.value < 0.98 * least.mid_s:
            faster.append(row["id"])
    assert len(alone) > 1800 / every
    assert faster == []


def asked_on_the_command_line(row: dict[str, Any], asked: measured.Asked) -> tuple[list[str], str] | None:
    """The command that asks what a row measured, and the key of its answer; None where a command has no word for how it was run."""
    plan, work, known = asked.plan, asked.work, asked.plan.engine
    spoken = known.release in known.name and known.family != "napkin" and work.batch == int(work.batch) and not asked.burst
    if not spoken or row.get("rate") or plan.batched_tokens or float(row.get("prompt") or 0) % 1 or float(row.get("output") or 0) % 1:
        return None
    line = ["-m", asked.model.id, "-d", f"{plan.ranks}x {plan.device.id}", "--engine", known.name, "--kv-dtype", plan.kv.name]
    line += ["--weights", str(row.get("weights") or "auto"), "--tp", str(plan.tp), "--pp", str(plan.pp), "--dp", str(plan.dp)]
    line += ["--ep", str(plan.ep), "--json"]
    if asked.quantity == "step":
        shape = ["--prompt", str(work.prompt), "--output-tokens", str(work.output)] if work.prompt else ["-c", str(work.ctx)]
        return None if work.ctx % 1 else (["decode", *line, "-b", str(int(work.batch)), *shape], "expected_step_time_s")
    if asked.quantity == "ttft" and work.batch == 1:  # prompt_tokens_per_s has no word for server and client
        return ["prefill", *line, "--prompt", str(work.prompt), "--cached", str(work.cached)], "expected_ttft_s"
    return None


@pytest.mark.parametrize("every", [107, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_row_and_a_command_say_the_same(every: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What `accuracy` vouches for is what `decode` and `prefill` print."""
    compared = 0
    for row in accuracy.bundled()[::every]:
        asked = measured.ask(row, measured.model_of(row["model"]))
        if found := asked_on_the_command_line(row, asked):
            command, key = found
            status = main(command)
            answer = json.loads(capsys.readouterr().out)
            assert status == 0, (row["id"], command, answer)
            assert answer["results"][key] == pytest.approx(measured.estimate(asked).mid_s, rel=1e-6), (row["id"], command)
            compared += 1
    assert compared > 3000 / every
