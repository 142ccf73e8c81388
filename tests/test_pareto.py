"""`llmcalc pareto`: the exercise of the notes from the command line, limits, marks, named points."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from llmcalc.cli import main

LLAMA = "meta-llama/Meta-Llama-3-8B"
H100 = ["-m", LLAMA, "-d", "h100-sxm", "-c", "8k", "--price", "3"]
KEYS = {
    "hardware", "count", "tp", "weights", "kv_dtype", "batch", "tpot_s", "tokens_per_s_per_user", "tokens_per_s_per_device",
    "usd_per_million_output_tokens",
}  # fmt: skip

NAPKIN = ("--method", "napkin")
"""The numbers here are the textbook's."""


def run(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict[str, Any]:
    assert main(["pareto", *args, *(() if "--method" in args else NAPKIN), "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_the_exercise_of_the_notes(capsys: pytest.CaptureFixture[str]) -> None:
    """TPOT within 10 ms picks B = 16 at $0.52; the chat point B = 48 is 20.2 ms at $0.35."""
    answer = run(capsys, *H100, "--max-tpot", "10ms", "--mark", "chat=20.2ms")
    chosen, chat = answer["results"]["chosen"], answer["results"]["marks"]["chat"]
    assert chosen["batch"] == 16 and chosen["usd_per_million_output_tokens"] == pytest.approx(0.52, abs=0.005)
    assert chat["batch"] == 48 and chat["tpot_s"] == pytest.approx(20.2e-3, abs=5e-5)
    assert chat["usd_per_million_output_tokens"] == pytest.approx(0.35, abs=0.005)
    assert answer["results"]["points_evaluated"] == answer["results"]["points_on_front"] == len(answer["rows"]) == 59
    assert set(answer["rows"][0]) >= KEYS
    marked = {row["batch"]: row["marks"] for row in answer["rows"] if row["marks"]}
    assert marked == {16: "chosen", 48: "chat"}


def test_rows_are_fastest_first_and_cheapest_last(capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["-m", LLAMA, "-d", "h100-sxm,h200-sxm,mi300x", "--tp", "all", "--weights", "all", "--kv-dtype", "all"]
    answer = run(capsys, *wide)
    rows = answer["rows"]
    assert [row["tpot_s"] for row in rows] == sorted(row["tpot_s"] for row in rows)
    costs = [row["usd_per_million_output_tokens"] for row in rows]
    assert costs == sorted(costs, reverse=True)
    assert {row["tp"] for row in rows} > {1} and len({row["weights"] for row in rows}) > 1
    assert len(answer["inputs"]["weights"]) == 8 and answer["inputs"]["tp"] == [1, 2, 4, 8]


def test_the_derivation_of_the_chosen_point(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(capsys, *H100, "--max-tpot", "10ms", "--explain")
    figure = answer["derivations"]["usd_per_million_output_tokens"]
    assert figure["formula"] == "usd_per_hour / (3600 * tokens_per_s * utilization) * 1000000.0"
    assert figure["value"] == answer["results"]["chosen"]["usd_per_million_output_tokens"]
    assert figure["inputs"]["tokens_per_s"]["inputs"]["batch"]["value"] == 16


def test_limits_that_nobody_meets(capsys: pytest.CaptureFixture[str]) -> None:
    """One sequence takes 17.134e9 / 3.35e12 = 5.11 ms: 4.11 ms over one millisecond."""
    answer = run(capsys, *H100, "--max-tpot", "1ms", "--check", code=3)
    assert answer["results"]["chosen"] is None and answer["results"]["points_on_front"] == 59
    assert any("no point has TPOT ≤ 1 ms" in text and "TPOT 5.11 ms, 4.11 ms over" in text for text in answer["warnings"])
    budget = run(capsys, *H100, "--budget", "2", "--min-tokens-per-s", "5000")
    assert budget["results"]["chosen"] is None and budget["rows"] == []
    assert any("USD per hour $3.00, $1.00 over" in text for text in budget["warnings"])


def test_ttft_limits(capsys: pytest.CaptureFixture[str]) -> None:
    """A prompt of 8,192 takes 133 ms on one H100 at full rate (course notes), half of it on two (and what they say to each other)."""
    answer = run(capsys, *H100, "--tp", "1,2", "--max-ttft", "100ms")
    assert {row["tp"] for row in answer["rows"]} == {2}
    one = run(capsys, *H100, "--max-ttft", "140ms")["results"]["chosen"]
    assert one["ttft_s"] == pytest.approx(0.133, abs=0.0005)


def test_a_named_point(capsys: pytest.CaptureFixture[str]) -> None:
    points = ["--point", "h100-sxm batch=16", "--point", "h200-sxm batch=16", "--point", "h200-sxm weights=fp8 batch=400"]
    answer = run(capsys, "-m", LLAMA, "-d", "h100-sxm,h200-sxm", "-c", "8k", "--price", "3", *points)
    beaten, on_front, too_big = answer["results"]["named"]
    assert beaten["dominated_by"]["hardware"] == "h200-sxm" and "hardware h200-sxm instead of h100-sxm" in beaten["why"]
    assert beaten["dominated_by"]["tpot_s"] <= beaten["tpot_s"]
    assert on_front["on_front"] is True and on_front["dominated_by"] is None
    assert too_big["fits"] is False and "lacks" in too_big["why"]
    assert any("is dominated by" in text for text in answer["remarks"])


def test_devices_that_hold_nothing_or_have_no_price(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run(capsys, "-m", LLAMA, "-d", "rtx-3060-12,rtx-4090", "-c", "8k")
    assert answer["rows"] == [] and answer["results"]["chosen"] is None
    said = " ".join(answer["warnings"])
    assert "rtx-3060-12 lacks 4.78 GiB" in said and "no price is recorded for rtx-4090" in said
    other = run(capsys, "-m", LLAMA, "-d", "rtx-4090", "-c", "8k", "--y", "tokens_per_s_per_device")
    assert len(other["rows"]) == 7  # (24e9 - 16.06e9) / 1.0737e9 = 7.4
    assert run(capsys, "-m", LLAMA, "-d", "rtx-4090", "-c", "8k", "--y", "energy")["rows"][-1]["batch"] == 7


def test_formats_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pareto", *H100, *NAPKIN, "-f", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 59 and set(rows[0]) >= KEYS
    assert float(rows[15]["tpot_s"]) == pytest.approx((2 * 8030261248 + 16 * 131072 * 8192) / 3.35e12, rel=1e-12)
    assert main(["pareto", *H100, *NAPKIN, "-f", "markdown"]) == 0
    assert capsys.readouterr().out.count("| h100-sxm |") == 59


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--tp", "3"], 2, "does not divide the 32 query heads"),
        (["--x", "beauty"], 2, "is not an axis"),
        (["--mark", "chat"], 2, "is not a name and a time"),
        (["--mark", "chat=fast"], 2, "'fast' is not a quantity"),
        (["--max-tpot", "0"], 2, "is not above 0"),
        (["--point", "batch=3"], 2, "no device"),
        (["--point", "h100-sxm colour=red"], 2, "unknown setting 'colour'"),
        (["--weights", "fp17"], 2, "is not a number format"),
        (["-f", "svg"], 2, "is written to a file"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], args: list[str], code: int, says: str) -> None:
    assert main(["pareto", *H100, *args]) == code
    out, err = capsys.readouterr()
    assert out == "" and says in err and len(err.splitlines()) == 2


def test_a_named_number_of_devices_contradicts_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pareto", "-m", LLAMA, "-d", "2x h100-sxm", "--tp", "4"]) == 2
    assert "2 × h100-sxm is not tp 4" in capsys.readouterr().err
