"""`llmcalc compare`: the contract's keys, what limits a row, and what does not fit."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from llmcalc.cli import main

LLAMA = "meta-llama/Meta-Llama-3-8B"
KEYS = {
    "hardware", "count", "fits", "max_batch", "batch", "tpot_s", "tokens_per_s_per_user", "tokens_per_s", "ttft_s",
    "usd_per_million_output_tokens", "tokens_per_s_per_usd_hour", "why",
}  # fmt: skip

NAPKIN = ("--method", "napkin")
"""The numbers here are the textbook's."""


def run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    code = main(["compare", *args, *(() if "--method" in args else NAPKIN), "--json"])
    out, err = capsys.readouterr()
    assert err == ""
    answer: dict[str, Any] = json.loads(out)
    answer["exit"] = code
    return answer


def by_device(answer: dict[str, Any]) -> dict[str, Any]:
    return {row["hardware"]: row for row in answer["rows"]}


def test_rows_have_every_key_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(capsys, "-m", LLAMA, "-d", "h100-sxm,rtx-3060-12", "-c", "8k")
    assert answer["exit"] == 0 and answer["model"]["id"] == LLAMA
    assert all(set(row) >= KEYS for row in answer["rows"])
    assert "batch 1: not given" in " ".join(answer["assumptions"])


def test_the_largest_batch_within_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """The notes: 10 ms allow (10 - 4.794) / 0.3205 = 16.24 sequences on an H100 at $3/h, $0.52 per million."""
    answer = run(capsys, "-m", LLAMA, "-d", "h100-sxm,rtx-4090", "-c", "8k", "--price", "3", "--max-tpot", "10ms")
    row = by_device(answer)["h100-sxm"]
    assert (row["batch"], row["max_batch"], row["why"], row["bound"]) == (16, 59, "the TPOT limit", "memory-kv")
    assert row["tpot_s"] == pytest.approx(9.92e-3, abs=5e-6)
    assert row["usd_per_million_output_tokens"] == pytest.approx(0.52, abs=0.005)
    assert row["tokens_per_s_per_usd_hour"] == pytest.approx(16 / 9.9225e-3 / 3, rel=1e-4)
    # 16.06e9 B / 1.008e12 B/s = 15.9 ms for the weights alone
    slow = by_device(answer)["rtx-4090"]
    assert slow["batch"] == 0 and slow["fits"] is True and "over the TPOT limit" in slow["why"]
    assert slow["tpot_s"] == pytest.approx((16.0605e9 + 1.0737e9) / 1.008e12, rel=1e-3)


def test_the_largest_batch_that_fits_and_a_fixed_one(capsys: pytest.CaptureFixture[str]) -> None:
    full = by_device(run(capsys, "-m", LLAMA, "-d", "h100-sxm", "-c", "8k", "-b", "max"))["h100-sxm"]
    assert (full["batch"], full["why"]) == (59, "memory is full")
    assert full["tpot_s"] == pytest.approx(4.794e-3 + 59 * 0.32051e-3, rel=1e-4)
    fixed = by_device(run(capsys, "-m", LLAMA, "-d", "h100-sxm", "-c", "8k", "-b", "8"))["h100-sxm"]
    assert (fixed["batch"], fixed["why"]) == (8, "reading weights")


def test_what_does_not_fit_says_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    """2 x 8,030,261,248 B of weights and 131,072 x 8,192 B of one cache, less 12e9 B: 5,134,264,320 B = 4.78 GiB."""
    answer = run(capsys, "-m", LLAMA, "-d", "rtx-3060-12,h100-sxm", "-c", "8k")
    row = by_device(answer)["rtx-3060-12"]
    assert answer["rows"][-1] == row, "what does not fit comes last"
    assert row["fits"] is False and row["tpot_s"] is None
    assert row["lacks_bytes"] == 5_134_264_320
    assert row["why"] == "lacks 4.78 GiB; 2 × would do"


def test_the_fewest_that_hold_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    """70.55e9 x 2 B = 141.1 GB and 2.7 GB of cache: two 80 GB devices, one of 192 GB, eight of 24 GB."""
    answer = run(capsys, "-m", "meta-llama/Llama-3.1-70B-Instruct", "-d", "h100-sxm,mi300x,rtx-4090", "-c", "8k", "--tp", "all")
    assert {id: row["count"] for id, row in by_device(answer).items()} == {"h100-sxm": 2, "mi300x": 1, "rtx-4090": 8}
    assert all(row["fits"] for row in answer["rows"])


def test_lists_filters_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(capsys, "-m", LLAMA, "-d", "vendor=amd,class=datacenter", "-c", "1k")
    assert {"mi300x", "mi325x", "mi355x"} <= set(by_device(answer))
    assert not {"h100-sxm", "rx-7900-xtx"} & set(by_device(answer))
    pair = run(capsys, "-m", LLAMA, "-d", "2x rtx-4090,h100-sxm", "-c", "8k")
    assert {id: row["count"] for id, row in by_device(pair).items()} == {"rtx-4090": 2, "h100-sxm": 1}
    everything = run(capsys, "-m", LLAMA, "-d", "all", "-c", "1k")
    assert len(everything["rows"]) >= 140
    unsized = by_device(everything)["cpu-epyc-9005"]
    assert unsized["fits"] is None and "any amount of memory" in unsized["why"]


def test_many_models_on_one_device(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(capsys, "-m", f"{LLAMA},Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "8k", "--sort", "throughput", "-b", "max")
    assert [row["model"] for row in answer["rows"]] == [LLAMA, "Qwen/Qwen3-8B"]  # 128 against 144 KiB per token
    assert "model" not in answer


@pytest.mark.parametrize(
    ("word", "key", "sign"),
    [("cost", "usd_per_million_output_tokens", 1), ("tpot", "tpot_s", 1), ("value", "tokens_per_s_per_usd_hour", -1)],
)
def test_sorting(capsys: pytest.CaptureFixture[str], word: str, key: str, sign: int) -> None:
    answer = run(capsys, "-m", LLAMA, "-d", "all", "-c", "8k", "--sort", word, "-b", "max")
    values = [row[key] for row in answer["rows"] if row["fits"] and row[key] is not None]
    assert len(values) >= 20 and values == sorted(values, key=lambda value: sign * value)
    assert [row["fits"] is True for row in answer["rows"]] == sorted((row["fits"] is True for row in answer["rows"]), reverse=True)


def test_prices_carry_their_dates(capsys: pytest.CaptureFixture[str]) -> None:
    row = by_device(run(capsys, "-m", LLAMA, "-d", "mi300x,rtx-4090"))
    assert row["mi300x"]["usd_per_hour"] == 1.99 and row["mi300x"]["price_date"] == "2026-05-28"
    assert row["rtx-4090"]["usd_per_hour"] is None and row["rtx-4090"]["usd_per_million_output_tokens"] is None


@pytest.mark.parametrize(
    ("given", "h100", "mi300x"),
    [
        (("--price-kind", "long-rental"), 1.30, 1.55),  # SemiAnalysis, three years, 2026-04-03
        (("--price", "h100-sxm=2.2,mi300x=1.9"), 2.2, 1.9),
        (("--price", "mi300x=1.9"), 2.95, 1.9),  # the other keeps its recorded one
        (("--price-kind", "ownership"), 1.495, None),  # two of the H100's: $1.30 and $1.69
    ],
)
def test_prices_of_one_kind_or_as_given(
    given: tuple[str, ...], h100: float, mi300x: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    row = by_device(run(capsys, "-m", LLAMA, "-d", "h100-sxm,mi300x", *given))
    assert row["h100-sxm"]["usd_per_hour"] == pytest.approx(h100)
    if mi300x is not None:
        assert row["mi300x"]["usd_per_hour"] == pytest.approx(mi300x)


@pytest.mark.parametrize("given", [("--price-kind", "weekly"), ("--price", "h100-sxm="), ("--price", "h100-sxm=much"), ("--price", "=2")])
def test_what_is_no_price_is_refused(given: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "-m", LLAMA, "-d", "h100-sxm,mi300x", *given]) == 2
    assert "Hint: " in capsys.readouterr().err


def test_csv_has_every_column_unrounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "-m", LLAMA, "-d", "h100-sxm", "-c", "8k", "-b", "32", "-f", "csv", "--price", "3", *NAPKIN]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert set(row) >= KEYS
    assert float(row["tpot_s"]) == pytest.approx((2 * 8030261248 + 32 * 131072 * 8192) / 3.35e12, rel=1e-12)


def test_a_limit_that_nobody_meets(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(capsys, "-m", LLAMA, "-d", "h100-sxm,h200-sxm", "-c", "8k", "--max-tpot", "1ms", "--check")
    assert answer["exit"] == 3
    assert any("h200-sxm comes closest with 3.57 ms, 2.57 ms over" in text for text in answer["warnings"])  # 17.134e9 / 4.8e12


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["-d", "no-such-device"], 2, "no device is called"),
        (["-d", "vendor=nobody"], 2, "no device matches"),
        (["-d", "colour=red"], 2, "is not a filter"),
        (["-d", "h100-sxm", "--tp", "3"], 2, "does not divide the 32 query heads"),
        (["-d", "h100-sxm", "--sort", "beauty"], 2, "is not a column"),
        (["-d", "h100-sxm", "-b", "0"], 2, "batch '0'"),
        (["-d", "h100-sxm", "--weights", "bf16,fp8"], 2, "one weight format"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], args: list[str], code: int, says: str) -> None:
    assert main(["compare", "-m", LLAMA, *args]) == code
    out, err = capsys.readouterr()
    assert out == "" and says in err and len(err.splitlines()) == 2


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_row_is_wider_than_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["compare", "-m", LLAMA, "-d", "all", "-b", "max", *NAPKIN]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "h100-sxm" in out and "$0.33" in out


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "-m", "Qwen/Qwen3-8B", "-d", "h100,l40s"),
        ("pareto", "-m", "Qwen/Qwen3-8B", "-d", "h100,l40s"),
        ("plan", "-m", "Qwen/Qwen3-8B", "-d", "h100,l40s", "--rate", "1", "--prompt", "1k", "--output-tokens", "100"),
    ],
)
def test_what_a_bare_name_was_taken_for(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--json"]) == 0
    said = [text for text in json.loads(capsys.readouterr().out)["assumptions"] if "is taken as" in text]
    assert said == ["'h100' is taken as h100-sxm; others of that name: h100-nvl, h100-pcie"]
