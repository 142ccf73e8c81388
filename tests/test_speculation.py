"""Speculative decoding: the published formulas, the theory's table at real batches and contexts, and exact output."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import bundled, plan

from llmcalc.cli import main
from llmcalc.errors import UsageError
from llmcalc.estimate import speculation as s
from llmcalc.figures import Figure
from llmcalc.formulas import speculation as f
from llmcalc.plan import Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"


def test_leviathan() -> None:
    """3.689 tokens at 0.8 and five drafts; T5-XXL at seven drafts, 0.75 and a cost of 0.02: 3.157 (measured 3.4)."""
    assert f.expected_tokens_per_step(0.8, 5) == pytest.approx(3.68928)
    assert f.ideal_speedup(f.expected_tokens_per_step(0.75, 7), 7, 0.02) == pytest.approx(3.1574985)
    assert f.ideal_speedup(f.expected_tokens_per_step(0.65, 5), 5, 0) == pytest.approx(2.6416603)  # 3.1 was measured
    assert f.operations_factor(0.8, 5, 0) == pytest.approx((1 - 0.8) * 6 / (1 - 0.8**6))
    assert f.operations_factor(0.8, 5, 0) == pytest.approx(1.626, rel=1e-3)


def test_the_bonus_token_counts() -> None:
    """a published exercise leaves the target's own token out and gets 1.687; with it, it is 2.401."""
    assert (f.expected_tokens_per_step(0.8, 4) - 1) / (1 + 4 * 0.1) == pytest.approx(1.687, rel=1e-3)
    assert f.ideal_speedup(f.expected_tokens_per_step(0.8, 4), 4, 0.1) == pytest.approx(2.401, rel=1e-3)


def test_multi_token_prediction() -> None:
    """80-90% acceptance of one further token gives 1.8 to 1.9 tokens per step."""
    assert [f.expected_tokens_per_step(a, 1) for a in (0.8, 0.9)] == pytest.approx([1.8, 1.9])


@pytest.mark.parametrize(
    ("acceptance", "cost", "drafts", "gain"),
    [(0.8, 0.02, 11, 3.82), (0.8, 0.05, 8, 3.09), (0.8, 0.1, 6, 2.47), (0.8, 0.2, 4, 1.87), (0.6, 0.05, 4, 1.92), (0.9, 0.05, 13, 4.67)],
)
def test_the_best_length_of_the_textbook(acceptance: float, cost: float, drafts: int, gain: float) -> None:
    gains = [f.ideal_speedup(f.expected_tokens_per_step(acceptance, number), number, cost) for number in range(200)]
    assert gains.index(max(gains)) == drafts
    assert f.ideal_speedup(f.expected_tokens_per_step(acceptance, drafts), drafts, cost) == pytest.approx(gain, abs=0.005)


@pytest.mark.parametrize(
    ("ctx", "batch", "gain"),
    [
        (512, 1, 2.80),
        (512, 64, 2.88),
        (512, 128, 1.87),
        (512, 256, 1.31),
        (8192, 1, 2.83),
        (8192, 64, 3.23),
        (8192, 128, 2.98),
        (8192, 256, 2.85),
    ],
)
def test_the_gain_at_a_real_batch_and_context(ctx: int, batch: int, gain: float) -> None:
    """Notes on theory: acceptance 0.8, four drafts of 0.05. At 512 tokens the gain fades with the batch; at 8k it stays."""
    model = bundled(LLAMA)
    found = s.at(model, plan(model), Workload(ctx, batch), Figure("acceptance", 0.8), 4, s.Draft(0.05))
    assert found["speedup"].value == pytest.approx(gain, abs=0.006)


def test_the_verification_by_hand() -> None:
    """Batch 256, 512 tokens, five queries each: caches are read once, 1,280 tokens are multiplied with N = 7.505e9."""
    model = bundled(LLAMA)
    step = s.verify(model, plan(model), Workload(512, 256), 5)
    flops = 8030261248 - 128256 * 4096  # all but the embedding table
    assert step.value == pytest.approx(256 * 512 * 131072 / 3.35e12 + 2 * flops * 1280 / 989.4e12)


def test_a_draft_model_runs_step_by_step() -> None:
    target, small = bundled("meta-llama/Llama-3.1-70B-Instruct"), bundled("meta-llama/Llama-3.2-1B-Instruct")
    work = Workload(4096, 1)
    draft = s.Draft(model=small, plan=plan(small, tp=4))
    # 1.236e9 parameters (tied) and 16 layers x 2 x 8 x 64 x 2 B per token; 32 short all-reduces over NVLink.
    read = (1235814400 * 2 + 4096 * 32768) / (4 * 3.35e12)
    talk = 32 * (5e-6 + 3 * 2048 * 2 / 450e9)
    assert s.draft_time(target, plan(target, tp=4), work, draft).value == pytest.approx(read + talk, rel=1e-3)


def test_everything_accepted_and_nothing_gained() -> None:
    model = bundled(LLAMA)
    here = s.speculation(model, plan(model), Workload(2048, 1), 1.0, s.Draft(0.1), 4)
    assert here.results["expected_tokens_per_step"] == 5
    assert here.results["operations_factor"] is None
    poor = s.speculation(model, plan(model), Workload(512, 256), 0.05, s.Draft(0.5))
    assert poor.results["best_draft_tokens"] == 0
    assert poor.results["speedup"] < 1


def test_too_many_queries_for_attention() -> None:
    """MLA needs 242 FLOP per byte with one query (theory, table 0); with two it is over the ridge of 295."""
    model = bundled("deepseek-ai/DeepSeek-V3")
    intensity, ridge = s.verify_intensity(model, plan(model, "h100-sxm", tp=8), 1)
    assert intensity == pytest.approx(241.8, abs=0.1)
    assert ridge == pytest.approx(295, abs=0.5)
    here = s.speculation(model, plan(model, "h200-sxm", tp=8, weights="fp8"), Workload(4096, 8), 0.85, s.Draft(0.02), 1)
    assert any("over the device's" in text for text in here.warnings)


# ---- exactness ----------------------------------------------------------------------------------------------------


def test_the_course_example() -> None:
    """p = (0.6, 0.4), q = (0.9, 0.1): A is kept with 2/3, 30% are rejected and become B; the output is exactly (0.6, 0.4)."""
    found = s.exactness(s.distribution(["0.6", "0.4"], "p"), s.distribution(["0.9", "0.1"], "q"))
    assert found["acceptance"] == Fraction(7, 10)
    assert found["accept_if_drafted"][0] == Fraction(2, 3)
    assert found["rejection"] == Fraction(3, 10)
    assert found["residual"] == [0, 1]
    assert found["output"] == [Fraction(3, 5), Fraction(2, 5)]


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(*(st.lists(st.integers(0, 50), min_size=n, max_size=n).filter(any) for _ in "pq"))))
def test_the_output_is_always_the_targets(counts: tuple[list[int], list[int]]) -> None:
    p, q = (tuple(Fraction(count, sum(side)) for count in side) for side in counts)
    assert s.exactness(p, q)["output"] == list(p)


@pytest.mark.parametrize("words", [["0.6", "0.3"], ["1.2", "-0.2"], ["nan", "1"], ["", "1"], ["1e-1", "0.9"], ["1/0", "1"]])
def test_what_is_no_distribution(words: list[str]) -> None:
    with pytest.raises(UsageError):
        s.distribution(words, "p")


# ---- the command --------------------------------------------------------------------------------------------------

KEYS = {"acceptance", "draft_tokens", "expected_tokens_per_step", "speedup", "best_draft_tokens", "step_time_s"}


def answer(capsys: pytest.CaptureFixture[str], *args: str, method: str = "napkin") -> dict[str, object]:
    assert main(["spec", *args, "--method", method, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, object] = json.loads(out)
    return found


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "-m", LLAMA, "-d", "h100-sxm", "-c", "8k", "-b", "64", "-a", "0.8", "-g", "4", "--draft-cost", "0.05")
    results = found["results"]
    assert isinstance(results, dict)
    assert results.keys() >= KEYS
    assert results["speedup"] == pytest.approx(3.23, abs=0.006)


def test_the_proof_alone(capsys: pytest.CaptureFixture[str]) -> None:
    results = answer(capsys, "--p", "0.6,0.4", "--q", "0.9,0.1")["results"]
    assert isinstance(results, dict)
    assert results["acceptance"] == 0.7
    assert results["output"] == [0.6, 0.4]
    assert results["exact"] is True


@pytest.mark.parametrize(("name", "model"), [("eagle", LLAMA), ("medusa", LLAMA), ("mtp", "Qwen/Qwen3.5-27B"), ("dflash", "Qwen/Qwen3-8B")])
def test_presets_say_what_they_assume(name: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "-m", model, "-d", "h100-sxm", "--preset", name)
    assert any("arXiv" in text for text in found["assumptions"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "args",
    [
        ["--p", "0.6,0.4"],
        ["--p", "0.6,0.4", "--q", "1"],
        ["-m", LLAMA, "-d", "h100-sxm", "-a", "0.8"],
        ["-m", LLAMA, "-d", "h100-sxm", "--preset", "ngram"],
        ["-m", LLAMA, "-d", "h100-sxm", "--preset", "magic"],
        ["-m", LLAMA, "-d", "h100-sxm", "--preset", "mtp"],
        ["-m", LLAMA, "-d", "h100-sxm", "--preset", "eagle", "--accepted-ratio", "0.5"],
        ["-m", LLAMA, "-d", "h100-sxm", "--preset", "eagle", "--draft-tokens", "3", "--accepted-ratio", "0.5", "-a", "0.7"],
        ["-m", LLAMA, "-d", "h100-sxm", "-a", "1.5", "--draft-cost", "0.1"],
        ["-m", LLAMA],
    ],
)
def test_usage(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", *args]) == 2
    assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.parametrize(
    ("device", "drafts", "gain"),
    [("rtx-5090", "4", 2.45), ("rtx-3090", "3", 1.69)],  # Qwen3.5-27B with its MTP head under llama.cpp, public tables of 2026
)
def test_an_mtp_head_gains_as_measured(device: str, drafts: str, gain: float, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["-m", "Qwen/Qwen3.5-27B", "-d", device, "--weights", "q4_k_m", "--engine", "llama.cpp", "-c", "2k", "--preset", "mtp"]
    found = answer(capsys, *args, "--draft-tokens", drafts, method="expected")["results"]
    assert isinstance(found, dict)
    assert found["speedup"] == pytest.approx(gain, rel=0.12)


@pytest.mark.parametrize(("positions", "length"), [([0.7296, 0.5208, 0.3545], 2.60), ([0.6541, 0.3993, 0.2020], 2.26)])
def test_accepted_of_drafted_is_turned_into_a_chance(positions: list[float], length: float) -> None:
    """Two EAGLE-3 heads in vLLM's test_acceptance_length.py: shares by position, and the mean length that goes with them."""
    chance = s.chance(sum(positions) / 3, 3)
    assert 1 + chance + chance**2 + chance**3 == pytest.approx(length, rel=0.01)


def test_the_best_length_is_no_worse_than_the_given_one(capsys: pytest.CaptureFixture[str]) -> None:
    """And batches beyond the memory say so: 24 GB hold 27B in 4 bits and few caches."""
    args = [
        "-m",
        "Qwen/Qwen3.5-27B",
        "-d",
        "rtx-3090",
        "--weights",
        "q4_k_m",
        "--engine",
        "llama.cpp",
        "--preset",
        "mtp",
        "--draft-tokens",
        "6",
    ]
    found = answer(capsys, *args)
    rows = found["rows"]
    assert isinstance(rows, list)
    assert all(row["best_speedup"] >= row["speedup"] - 1e-9 for row in rows)
    assert (rows[0]["fits"], rows[-1]["fits"]) == (True, False)
