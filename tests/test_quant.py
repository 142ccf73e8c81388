"""`quant`: formats against the course notes and hand arithmetic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmcalc import cli, formats
from llmcalc.formulas import memory, time

W = 3.35e12  # B/s of an H100
LLAMA = 8_030_261_248
KV = 131_072 * 8192  # bytes of 8k tokens: 2 × 32 layers × 8 heads × 128 × 2 B a token


def run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert cli.main(["quant", *args, "--method", "napkin", "--json", "--offline"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    loaded: dict[str, Any] = json.loads(out)
    return loaded


@pytest.fixture
def rows(capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], dict[str, Any]]:
    found = run(capsys, "-m", "meta-llama/Meta-Llama-3-8B", "-d", "h100-sxm", "-c", "8k", "-b", "32", "--price", "3")
    return {(row["weights"], row["kv_dtype"]): row for row in found["rows"]}


def test_every_pair_has_its_row(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert set(rows) == {(w, k) for w in ("bf16", "fp8", "int8", "int4") for k in ("bf16", "fp8", "int8", "int4")}
    keys = {
        "weights", "kv_dtype", "bits_per_weight", "weight_bytes", "max_batch", "step_time_s", "tokens_per_s", "critical_batch",
        "usd_per_million_output_tokens", "native", "speedup",
    }  # fmt: skip
    assert all(keys <= set(row) for row in rows.values())


def test_the_notes_row(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    row = rows["bf16", "bf16"]
    step = (2 * LLAMA + 32 * KV) / W
    assert row["weight_bytes"] == 16_060_522_496
    assert row["max_batch"] == 59  # (80 GB - 16.06 GB) / 1.074 GB = 59.5
    assert row["step_time_s"] == pytest.approx(15.05e-3, abs=5e-6)
    assert row["step_time_s"] == pytest.approx(step)
    assert row["usd_per_million_output_tokens"] == pytest.approx(3 / 3600 / (32 / step) * 1e6)
    assert row["critical_batch"] == pytest.approx(295, abs=0.5)
    assert row["speedup"] == 1


def test_eight_bits_of_both(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    row = rows["fp8", "fp8"]
    assert row["max_batch"] == (80_000_000_000 - LLAMA) // (KV // 2) == 134
    assert row["speedup"] == pytest.approx(2)  # every byte halves
    full = (LLAMA + 134 * KV / 2) / W
    assert row["step_time_at_max_batch_s"] == pytest.approx(full)
    assert row["tokens_per_s_at_max_batch"] == pytest.approx(134 / full)


def test_weight_only_formats_bind_earlier(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    # 989.4 TFLOP/s of bf16: B* = P × bytes / 2W. With int4 in groups of 128 that is 989.4e12 × 4.125/8 / 6.7e12.
    assert rows["int4", "bf16"]["native"] is False
    assert rows["int4", "bf16"]["critical_batch"] == pytest.approx(76.1, abs=0.1)
    assert rows["fp8", "bf16"]["native"] is True
    assert rows["fp8", "bf16"]["critical_batch"] == pytest.approx(295, abs=0.5)


def test_an_a100_has_no_fp8(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "-m", "meta-llama/Meta-Llama-3-8B", "-d", "a100-80-sxm", "--weights", "fp8,int8", "--kv-dtype", "bf16")
    assert [(row["weights"], row["native"]) for row in found["rows"]] == [("fp8", False), ("int8", True)]


def test_problem_five_of_the_notes() -> None:
    # 13B: 26 GB of weights, 163,840 B a token, 4,096 tokens: both to 8 bits, weights win below 38.7 sequences.
    cache = 163_840 * 4096
    crossover = time.quantise_first_batch(memory.saved_bytes(26e9, 13e9), memory.saved_bytes(cache, cache / 2))
    assert crossover == pytest.approx(38.7, abs=0.05)


@pytest.mark.parametrize(("batch", "first"), [("8", "weights"), ("32", "kv")])
def test_which_to_quantise_first(capsys: pytest.CaptureFixture[str], batch: str, first: str) -> None:
    found = run(
        capsys, "-m", "meta-llama/Meta-Llama-3-8B", "-d", "h100-sxm", "-c", "8k", "-b", batch, "--weights", "fp8", "--kv-dtype", "fp8"
    )
    results = found["results"]
    assert results["quantise_first"] == first
    assert results["crossover_batch"] == pytest.approx(2 * LLAMA / KV)  # 14.96
    assert results["saved_by_weights_s"] == pytest.approx(LLAMA / W)
    assert results["saved_by_kv_s"] == pytest.approx(int(batch) * KV / 2 / W)


def test_the_crossover_of_a_mixture_reads_the_experts_of_that_batch(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "-m", "Qwen/Qwen3-30B-A3B", "-d", "h100-sxm", "-c", "8k", "--weights", "fp8", "--kv-dtype", "fp8")
    batch = found["results"]["crossover_batch"]
    # 48 layers of 128 experts of 3 × 768 × 2048, 8 chosen; the cache is 2 × 48 × 4 × 128 × 2 B × 8,192 tokens.
    expert = 48 * 3 * 768 * 2048
    dense = 30_532_122_624 - 128 * expert
    read = 2 * (dense + expert * 128 * (1 - (1 - 8 / 128) ** batch))
    assert read == pytest.approx(batch * 2 * 48 * 4 * 128 * 2 * 8192, rel=1e-6)


def test_a_checkpoint_is_counted_as_it_ships(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "-m", "openai/gpt-oss-20b", "-d", "h100-sxm", "--weights", "auto,mxfp4", "--kv-dtype", "auto")
    shipped, every = found["rows"]
    assert shipped["weight_bytes"] == 13_761_264_768
    assert every["weight_bytes"] == 13_761_264_768  # a recipe: what files in mxfp4 keep in 16 bits is kept
    assert any("as it ships" in text for text in found["assumptions"])


def test_the_fastest_is_one_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """550 sequences of 256 tokens, 18.5 GB of cache in 24: past the critical batch fp8 multiplies twice as fast, but has no room."""
    args = ("-m", "meta-llama/Meta-Llama-3-8B", "-d", "rtx-4090", "-c", "256", "-b", "550", "--weights", "fp8,int4", "--kv-dtype", "bf16")
    found = run(capsys, *args)
    fp8, int4 = found["rows"]
    assert (fp8["fits"], int4["fits"]) == (False, True) and fp8["tokens_per_s"] > int4["tokens_per_s"]
    assert found["results"]["fastest"] == "int4 · bf16 KV"
    assert fp8["tokens_per_s_at_max_batch"] > int4["tokens_per_s_at_max_batch"]
    assert found["results"]["most_tokens_per_s"] == "fp8 · bf16 KV"


def test_quality_is_said_not_to_be_modelled(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["quant", "-m", "meta-llama/Meta-Llama-3-8B", "-d", "h100-sxm", "--offline"]) == 0
    assert "quality is not modelled" in capsys.readouterr().out


def test_nothing_fits(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["quant", "-m", "meta-llama/Llama-3.1-70B-Instruct", "-d", "rtx-4090", "--offline", "--check"]
    assert cli.main(args) == 3
    assert "none of these formats fits" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--weights", ","], ["--weights", "bf17"], ["--kv-dtype", "awq"]])
def test_bad_lists(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    assert cli.main(["quant", "-m", "meta-llama/Meta-Llama-3-8B", "-d", "h100-sxm", "--offline", *args]) == 2
    assert "Hint:" in capsys.readouterr().err


def test_bits_of_the_table() -> None:
    # Element bits, and those of the scale and the zero of a group shared by its elements.
    expected = {
        "int4": 4 + 16 / 128,
        "awq": 4 + 16 / 128 + 4 / 128,
        "gptq": 4 + 16 / 128 + 4 / 128,
        "nf4": 4 + 32 / 64,
        "mxfp4": 4 + 8 / 32,
        "mxfp8": 8 + 8 / 32,
        "nvfp4": 4 + 8 / 16,
        "q4_0": 18 * 8 / 32,
        "q4_1": 20 * 8 / 32,
        "q5_0": 22 * 8 / 32,
        "q5_1": 24 * 8 / 32,
        "q8_0": 34 * 8 / 32,
        "q3_k": 110 * 8 / 256,
        "q4_k": 144 * 8 / 256,
        "q5_k": 176 * 8 / 256,
        "tq1_0": 54 * 8 / 256,
        "tq2_0": 66 * 8 / 256,
        # llama.cpp's table of whole files of Llama-3.1-8B
        "q2_k": 3.1593,
        "q4_k_m": 4.8944,
        "q6_k": 6.5633,
        "iq2_xs": 2.5882,
    }
    assert {name: formats.FORMATS[name].bits for name in expected} == expected
    weight_only = ("w8a16", "int4", "w4a16", "awq", "gptq", "nf4", "q4_k_m", "q8_0")
    assert {formats.FORMATS[name].compute for name in weight_only} == {"bf16"}


def test_q4_k_m_of_llama_is_the_published_file() -> None:
    # 4.58 GiB in llama.cpp's table.
    assert LLAMA * formats.find("q4_k_m").bits / 8 / 2**30 == pytest.approx(4.58, abs=0.005)


def test_what_lies_on_each_device(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama-3-8B over two ranks: half of 16.06 GB, and four of its eight KV heads. Alone, decode has no such figures."""
    row = run(capsys, "-m", "meta-llama/Meta-Llama-3-8B", "-d", "2x h100-sxm", "-c", "8k", "--weights", "bf16", "--kv-dtype", "bf16")[
        "rows"
    ][0]
    each = {"weight_bytes_per_device": 8_030_261_248, "kv_bytes_per_sequence_per_device": KV // 2}
    assert {key: row[key] for key in each} == each
    for device, told in (("2x h100-sxm", each), ("h100-sxm", {})):
        assert cli.main(["decode", "-m", "meta-llama/Meta-Llama-3-8B", "-d", device, "-c", "8k", "--json", "--offline"]) == 0
        results = json.loads(capsys.readouterr().out)["results"]
        assert {key: results[key] for key in each if key in results} == told
