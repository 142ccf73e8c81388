"""What runs on a machine and which of it is best: memory is `fit`'s, speed is `decode`'s, ratings are published or absent."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import pytest

from llmcalc import quality, rank, sources
from llmcalc.architecture import Model
from llmcalc.cli import main

ASKED = rank.Asked(ctx=16384, strict=True)


@pytest.fixture(scope="module")
def models() -> list[Model]:
    return list(rank.candidates(ASKED))


def run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*args, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_large_in_four_bits_before_small_in_sixteen(models: list[Model]) -> None:
    rows = rank.ranked("rtx-4090", ASKED, models).rows
    large = [place for place, row in enumerate(rows) if 27e9 <= row.params <= 33e9 and row.group == "rated"]
    small = [place for place, row in enumerate(rows) if 7e9 <= row.params <= 9e9]
    assert large and small and large[0] < small[0]
    rated = [row for row in rows if row.group == "rated"]
    assert [row.quality for row in rated] == sorted((row.quality for row in rated), reverse=True)  # type: ignore[type-var]
    assert rows[: len(rated)] == tuple(rated)
    assert all(row.tokens_per_s >= ASKED.least_tokens_per_s for row in rated)


def test_no_14b_on_8_gb(models: list[Model]) -> None:
    """14e9 parameters at 4.9 bits are 8.6e9 B, more than the card has; in 4 bits flat, 7e9 B and no room for 16k tokens and the driver."""
    rows = rank.ranked("rtx-4060", ASKED, models).rows
    assert rows and not [row.model for row in rows if row.params > 13.5e9]


@pytest.mark.parametrize("device", ["dgx-spark", "apple-m4-max"])
def test_unified_memory_runs_mixtures_first(device: str, models: list[Model]) -> None:
    first = rank.ranked(device, ASKED, models).rows[0]
    assert first.active_params < first.params / 5


@pytest.mark.parametrize("device", ["rtx-4090", "apple-m4-pro", "h100-sxm", "2x rtx-3090"])
def test_memory_is_that_of_fit_and_speed_that_of_decode(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = run(capsys, "rank", "-d", device, "-c", "8k", "-b", "2", "--family", "qwen3-", "--min-speed", "1")["rows"]
    for row in rows[:: max(1, len(rows) // 3)]:
        placed = ("-m", row["model"], "-d", device, "-c", "8k", "-b", "2", "--weights", row["weights"], "--engine", row["engine"])
        fit, decode = run(capsys, "fit", *placed)["results"], run(capsys, "decode", *placed)["results"]
        assert (row["needed_bytes"], row["usable_bytes"], row["engine_bytes"]) == tuple(
            fit[key] for key in ("needed_bytes", "usable_bytes", "engine_bytes")
        )
        assert row["max_ctx_tokens"] == min(
            fit["max_ctx_tokens"], run(capsys, "models", "show", row["model"])["results"]["max_context_tokens"]
        )
        assert fit["fits"]
        assert row["tokens_per_s"] == pytest.approx(1 / decode["expected_step_time_s"], rel=1e-12)
        assert row["tokens_per_s_low"] == pytest.approx(1 / decode["expected_step_time_high_s"], rel=1e-12)
        ttft = run(capsys, "prefill", *placed[:4], *placed[8:], "--prompt", "2k")["results"]["expected_ttft_s"]
        assert row["ttft_s"] == pytest.approx(ttft, rel=1e-12)


def test_ratings_are_published_dated_or_absent() -> None:
    ids = sources.bundled_ids()
    rated = [name for name in ids if quality.rating(name)]
    assert len(rated) >= 90 and set(rated) <= set(quality.answers(ids))
    gemma = quality.rating("google/gemma-3-27b-it", "vision")
    assert gemma is not None and gemma.low is None  # no interval is published for images
    text = quality.rating("google/gemma-3-27b-it")
    assert text is not None and (text.score, text.low, text.high, text.date) == (1364.8, 1361.1, 1368.4, "2025-12-17")
    read = date.fromisoformat(text.date)
    assert not text.old(read + timedelta(days=365)) and text.old(read + timedelta(days=366))
    assert quality.rating("Qwen/Qwen3-8B") is None and quality.rating("Qwen/Qwen3-8B-AWQ") is None


def test_copies_and_what_does_not_answer_are_no_candidates() -> None:
    found = quality.answers(sources.bundled_ids())
    assert {"Qwen/Qwen3-8B", "openai/gpt-oss-20b", "google/gemma-3-27b-it", "meta-llama/Llama-3.1-8B-Instruct"} <= set(found)
    for name in ("Qwen/Qwen3-8B-AWQ", "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-pt", "EleutherAI/pythia-70m", "openai/whisper-base"):
        assert name not in found
    assert set(quality.copies("Qwen/Qwen3-32B", sources.bundled_ids())) == {
        "Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B-FP8-Static-PerTensor", "nvidia/Qwen3-32B-NVFP4",
    }  # fmt: skip


def test_an_upgrade(capsys: pytest.CaptureFixture[str]) -> None:
    common = ("-c", "16k", "--family", "qwen", "--min-speed", "5")
    before, after = (run(capsys, "rank", "-d", device, *common)["rows"] for device in ("rtx-3060-12", "rtx-3090"))
    both = run(capsys, "rank", "-d", "rtx-3060-12,rtx-3090", *common)
    had = {row["quality_named"] or row["model"]: row["tokens_per_s"] for row in before if row["group"] != "slow"}
    assert [row["model"] for row in both["rows"] if not row["runs_on_first"]]
    assert {row["model"] for row in both["rows"]} == {row["model"] for row in after}
    for row in both["rows"]:
        was = had.get(row["quality_named"] or row["model"])
        assert row["runs_on_first"] == (was is not None)
        assert row["speed_ratio"] == (None if was is None else pytest.approx(row["tokens_per_s"] / was))


@pytest.mark.parametrize(
    "args", [["--task", "poems"], ["--sort", "size"], ["--family", "nobody"], ["--min-speed", "0"], ["--engine", "vlm"], ["-c", "0"]]
)
def test_usage(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rank", "-d", "rtx-4090", *args]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ") and error.count("\n") == 2 and "Hint: " in error


def test_the_first_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["rank", "-d", "rtx-4090", "-c", "16k"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("best that fits: ") and lines[2].startswith("next: llama-server -hf ")
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
