"""Prefill: the textbook's times, chunks beside a decoding batch, pipelines, windows, and the command.

H100: 3.35 TB/s, 989.4 TFLOP/s dense bf16. Llama-3-8B: 32 layers of 32 heads of 128, 8.030e9 parameters, of which the table and
the head have 128,256 x 4,096 each.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from shapes import bundled, plan

from llmcalc.cli import main
from llmcalc.estimate import prefill, step, terms
from llmcalc.figures import Figure
from llmcalc.formulas import serving, time
from llmcalc.plan import Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"
BODY = 8030261248 - 2 * 128256 * 4096  # parameters that every prompt token multiplies with


def ours(prompt: int, cached: int = 0, model: str = LLAMA, device: str = "h100-sxm", **more: Any) -> dict[str, Any]:
    found = bundled(model)
    return prefill.prefill(found, plan(found, device, **more), prompt, cached).results


@pytest.mark.parametrize(("prompt", "ms"), [(1024, 14.7), (8192, 133), (32768, 747), (131072, 6404)])
def test_ttft_of_an_8b_model(prompt: int, ms: float) -> None:
    """Of the notes on theory: 2·N_body·S + head + 4·L·H·dh·S²/2 over 989 TFLOP/s."""
    assert ours(prompt)["ttft_s"] * 1e3 == pytest.approx(ms, rel=3e-3)


def test_the_arithmetic_by_hand() -> None:
    r = ours(8192)
    attention = 4 * 32 * 32 * 128 * 8192**2 / 2
    assert r["attention_flops"] == attention
    assert r["prefill_flops"] == pytest.approx(2 * BODY * 8192 + 2 * 128256 * 4096 + attention, rel=1e-3)  # norms are counted as matrices
    assert r["bound"] == "compute"


def test_a_cached_prefix_is_still_attended() -> None:
    r = ours(8192, cached=8000)
    assert r["attention_flops"] == 4 * 32 * 32 * 128 * (192**2 / 2 + 192 * 8000)
    assert r["prefill_flops"] - r["attention_flops"] == pytest.approx(2 * BODY * 192 + 2 * 128256 * 4096, rel=1e-3)
    # 192 tokens take 2.7 ms of arithmetic; all the weights are read in 4.79 ms: the prompt no longer binds on compute.
    assert r["bound"] == "memory-weights"
    assert r["saved_s"] == pytest.approx(ours(8192)["prefill_time_s"] - r["prefill_time_s"])


def test_one_new_token_behind_a_long_prefix_is_a_decode_step() -> None:
    """All weights (16.06 GB) and the prefix's cache (131,071 x 131,072 B) are read."""
    r = ours(131072, cached=131071)
    assert r["kv_read_s"] == pytest.approx(131071 * 131072 / 3.35e12)
    assert r["prefill_time_s"] == pytest.approx((8030261248 * 2 + 131071 * 131072) / 3.35e12)


def test_where_arithmetic_begins_to_bind() -> None:
    """2·N_body·S/P (and the head once) against 2·N/W: S = N/N_body · P/W less the head = 340."""
    w_s = 8030261248 * 2 / 3.35e12
    expected = (w_s * 989.4e12 - 2 * 128256 * 4096) / (2 * BODY)
    assert ours(1024)["compute_bound_from_tokens"] == pytest.approx(expected, abs=1.1)


def test_where_attention_begins_to_lead() -> None:
    """4·L·H·dh·S²/2 = 2·N_body·S: S = N_body / (L·H·dh)."""
    assert ours(1024)["attention_bound_from_tokens"] == pytest.approx(BODY / (32 * 32 * 128), rel=1e-3)


@pytest.mark.parametrize(("chunk", "ms"), [(256, 15.05), (512, 18.5), (2048, 41.8), (8192, 135)])
def test_a_chunk_slows_the_batch(chunk: int, ms: float) -> None:
    """Notes on theory: 32 sequences of 8k decode beside a chunk of c tokens: max(w/W, 2N(32+c)/P) + 32 caches."""
    model = bundled(LLAMA)
    mixed = step.mixed_step(model, plan(model), Workload(8192, 32), chunk, 8192)
    attention = mixed.inputs[-1].value
    assert (mixed.value - attention) * 1e3 == pytest.approx(ms, rel=3e-3)
    # All of the prompt's attention, dealt over its chunks by their length.
    assert attention == pytest.approx(4 * 32 * 32 * 128 * 8192**2 / 2 / 989.4e12 * chunk / 8192)


def test_free_tokens() -> None:
    """Notes on theory: 295 - 32 = 263 prompt tokens ride along for nothing."""
    assert serving.free_tokens(295, 32) == 263
    assert serving.free_tokens(295, 400) == 0


def test_a_pipeline_fills_and_drains() -> None:
    """(p-1)/(m+p-1), and a prompt in one piece passes the stages one after another: as long as on one device."""
    assert serving.pipeline_bubble(4, 1) == 3 / 4
    assert serving.pipeline_bubble(4, 8) == pytest.approx(3 / 11)
    model = bundled(LLAMA)
    whole = prefill.prefill(model, plan(model, pp=4), 8192).results
    assert whole["ttft_s"] == pytest.approx(4 * whole["prefill_time_s"])
    assert whole["ttft_s"] - whole["communication_s"] * 4 == pytest.approx(ours(8192)["ttft_s"])
    chunked = prefill.prefill(model, plan(model, pp=4), 8192, chunk=1024).results
    assert chunked["ttft_s"] == pytest.approx(chunked["prefill_time_s"] * 11 / 8)


def test_tensor_parallelism_divides_the_work_and_talks() -> None:
    """Two all-reduces of S·D·2 B per layer, long enough for two phases: twice a latency, and 2(n-1)/n of it over 450 GB/s."""
    r = ours(8192, tp=4)
    message = 8192 * 4096 * 2
    talk = 64 * (2 * 5e-6 + 2 * 3 / 4 * message / 450e9)
    assert r["communication_s"] == pytest.approx(talk)
    assert r["prefill_time_s"] == pytest.approx(ours(8192)["prefill_time_s"] / 4 + talk)


def test_a_window_bounds_each_query() -> None:
    """gpt-oss: half of the layers see 128 tokens: S·w - w²/2 pairs instead of S²/2."""
    model = bundled("openai/gpt-oss-20b")
    full = Figure("tokens", 8192)
    pairs = {mixer.kind: terms.attention_pairs(mixer.entries[0], full, Figure("cached_tokens", 0)).value for mixer, _ in _mixers(model)}
    assert pairs["full"] == 8192**2 / 2
    assert pairs["window"] == 8192 * 128 - 128**2 / 2


def _mixers(model: Any) -> Any:
    from llmcalc.estimate import memory

    return memory.mixers(model)


def test_published_prefills() -> None:
    """Scaling book, applied inference: 70e9 parameters, 8,192 tokens, 16 chips of 197 TFLOP/s at 40%: 0.91 s. kipply: 169 ms."""
    assert time.work_s(2 * 70e9 * 8192, 1.97e14 * 0.4, 16) == pytest.approx(0.91, rel=5e-3)
    assert time.work_s(103.08e9 * 2048, 312e12, 4) == pytest.approx(0.169, rel=5e-3)


def test_mla_multiplies_expanded_keys_in_prefill() -> None:
    """DeepSeek-V3: 128 heads of 192-wide keys and 128-wide values: 2·128·(192+128) FLOP per pair and layer, not the latent's."""
    assert (
        ours(4096, model="deepseek-ai/DeepSeek-V3", weights="fp8", device="h200-sxm", tp=16)["attention_flops"]
        == 61 * 2 * 128 * 320 * 4096**2 / 2
    )


KEYS = {"ttft_s", "prefill_time_s", "prefill_flops", "attention_flops", "prompt_tokens_per_s", "bound", "expected_ttft_s", "expected_ttft_low_s", "expected_ttft_high_s"}  # fmt: skip


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prefill", "-m", LLAMA, "-d", "h100-sxm", "--prompt", "8k", "-b", "32", "--chunk", "2048", "--json", "--explain"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert err == ""
    assert answer["results"].keys() >= KEYS
    assert [row["chunk_tokens"] for row in answer["rows"]] == [256, 512, 1024, 2048, 4096, 8192]
    assert (
        answer["derivations"]["prefill_time_s"]["inputs"]["gemm_s"]["inputs"]["work_flops"]["value"] > answer["results"]["attention_flops"]
    )


@pytest.mark.parametrize("bad", [["--cached", "8k"], ["--cached", "-1"], ["--prompt", "0"], ["--chunk", "x"], ["-b", "1.5"]])
def test_bad_values(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prefill", "-m", LLAMA, "-d", "h100-sxm", "--prompt", "8k", *bad]) == 2
    assert capsys.readouterr().err.startswith("Error: ")
