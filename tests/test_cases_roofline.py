"""Questions and faults that people reported about tools of this kind: decode, fit and cost give the right answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shapes import bundled, plan

from llmcalc.cli import main
from llmcalc.estimate import capacity, cost, decode, layout, memory, terms, verdict
from llmcalc.figures import Figure
from llmcalc.formulas import money, time
from llmcalc.plan import Workload

GIB = 2**30


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main([*words, "--offline", "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


# ---- throughput -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tp", [1, 8, 16, 32])
def test_uc012_a_latent_cache_is_not_cut_by_tensor_parallelism(tp: int) -> None:
    """github.com/inference-sim/inference-sim/issues/1712: each rank reads 576 elements per token and layer, in capacity and in time alike."""
    found = bundled("deepseek-ai/DeepSeek-V3")
    run = plan(found, tp=tp)
    per_rank = terms.step_terms(found, run, Workload(1000, 1))["kv_read_s"].value * 3.35e12
    assert per_rank == pytest.approx(61 * 576 * 2 * 1000, rel=1e-12)
    assert layout.sequence_bytes(found, run, Figure("ctx_tokens", 1000)).value / tp == pytest.approx(per_rank, rel=1e-12)


@pytest.mark.parametrize(("ctx", "gain"), [(2048, 1.8), (32768, 23.1)])
def test_uc082_an_8_bit_cache_gains_with_the_context(ctx: int, gain: float) -> None:
    """github.com/vllm-project/vllm/pull/49050, Qwen3-4B on an L4: (8.04 GB + ctx x 147,456) over (8.04 GB + ctx x 73,728)."""
    found = bundled("Qwen/Qwen3-4B")
    full, half = (decode.decode(found, plan(found, "l4", kv=kv), Workload(ctx, 1)).results["step_time_s"] for kv in ("bf16", "fp8"))
    assert (full / half - 1) * 100 == pytest.approx(gain, abs=0.1)


def test_uc084_a_ceiling_is_bandwidth_over_weights() -> None:
    """github.com/AlexsJones/llmfit/pull/137: Qwen3.5-27B in Q4_K_M on an RTX 4090 runs at 40 tokens/s, 60-70% of its ceiling."""
    found = bundled("Qwen/Qwen3.5-27B")
    ceiling = decode.decode(found, plan(found, "rtx-4090", "q4_k_m"), Workload(4096, 1)).results["single_stream_ceiling_tokens_per_s"]
    assert 55 <= ceiling <= 65
    assert 0.60 <= 40 / ceiling <= 0.75


def test_uc090_an_interview_answer() -> None:
    """70B in fp16 on two devices of 3 TB/s: 70 GB each, 23.3 ms a token."""
    assert time.read_s(140e9, 3e12, 2) == pytest.approx(23.3e-3, rel=0.02)


def test_uc102_fp8_on_an_a100_saves_bytes_not_arithmetic() -> None:
    """github.com/vllm-project/vllm/pull/5975: no fp8 cores, so weight-only kernels: the read halves, the peak stays bf16's."""
    found = bundled("meta-llama/Meta-Llama-3-8B")
    full, half = (decode.decode(found, plan(found, "a100-80-sxm", weights), Workload(8192, 4)) for weights in ("bf16", "fp8"))
    assert half.results["weight_read_s"] == pytest.approx(full.results["weight_read_s"] / 2, rel=1e-9)
    assert half.results["compute_s"] == full.results["compute_s"]
    assert half.results["critical_batch"] == pytest.approx(full.results["critical_batch"] / 2, rel=1e-9)
    assert any("a100-80-sxm multiplies fp8 weights at its bf16 rate: dequantised" in text for text in half.assumptions)


# ---- mixtures ---------------------------------------------------------------------------------------------------------


def test_uc088_a_rank_touches_its_share_of_the_distinct_experts() -> None:
    """github.com/vllm-project/vllm/pull/54228: 16 of 128 experts here, 16 tokens of 8: 16 (1 - (120/128)^16) = 10.3."""
    assert time.distinct_experts(128, 8, 16) / 8 == pytest.approx(10.3, rel=0.01)


def test_uc048_expert_parallelism_deals_the_experts_and_copies_the_rest() -> None:
    """github.com/ai-dynamo/aiconfigurator/pull/1390: an eighth of the experts per device, but all of the attention and embeddings."""
    found = bundled("moonshotai/Kimi-K2-Instruct")
    dense, experts = layout.weight_split(found)
    held = layout.held_weight_bytes(found, plan(found, weights="bf16", ep=8)).value / 8
    assert held == pytest.approx((dense + experts / 8) * 2, rel=1e-12)
    # 60 layers of 384 experts, each three matrices of 7168 x 2048.
    assert experts == 60 * 384 * 3 * 7168 * 2048


# ---- parallelism ------------------------------------------------------------------------------------------------------


def test_uc046_the_pool_is_divided_by_tp_once() -> None:
    """github.com/huggingface/transformers/pull/48566, Qwen3-32B on four ranks: 3,258 blocks of 256 tokens, not 814."""
    found = bundled("Qwen/Qwen3-32B")
    ctx = Figure("ctx_tokens", 256)
    whole, cut = (layout.sequence_bytes(found, plan(found, tp=tp), ctx).value for tp in (1, 4))
    assert whole == cut == 256 * 2 * 64 * 8 * 128 * 2, "all ranks together hold it once"
    pool = 814 * whole  # of one rank, counted in blocks of all heads by the faulty tool
    assert 4 * pool / cut == pytest.approx(3258, rel=1e-3)


# ---- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gib", "longest"), [(48.66, 205728), (55.65, 235296)])
def test_uc068_a_cache_of_62_gib_does_not_fit(gib: float, longest: int) -> None:
    """github.com/vllm-project/recipes/pull/12: Qwen3-Coder-480B, attention data-parallel, so a device holds 253,952 B per token."""
    found = bundled("Qwen/Qwen3-Coder-480B-A35B-Instruct")
    run = plan(found, "h20", ep=8)
    assert layout.sequence_bytes(found, run, Figure("ctx_tokens", 262144)).value == 62 * GIB == 253952 * 262144
    # The log gives the memory of one of eight devices; a sequence lives on one.
    assert capacity.longest_context(found, run, 1, 8 * gib * GIB) == pytest.approx(longest, rel=1e-3)


def test_uc072_what_does_not_fit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """github.com/ai-dynamo/aiconfigurator/pull/509: 405B needs 756 GiB of weights; 11 x 80 GB would hold them and one cache."""
    asked = ("-m", "meta-llama/Llama-3.1-405B-Instruct", "-d", "h100-sxm", "-b", "128", "-c", "1k")
    for command in ("fit", "decode", "cost"):
        answer = told(capsys, command, *asked, "--check", code=3)
        assert answer["results"]["fits"] is False
        assert "does not fit" in answer["warnings"][0] and "756.0 GiB of weights in bf16" in answer["warnings"][0]
    answer = told(capsys, "fit", *asked[:-4], "-c", "1k", code=0)
    assert "16 × h100-sxm (tp 8, pp 2) would hold it" in answer["warnings"][0]  # 11 hold the bytes; 128 heads are not cut in 11
    assert answer["results"]["max_batch"] == answer["results"]["kv_capacity_tokens"] == answer["results"]["max_ctx_tokens"] == 0
    assert main(["decode", *asked, "--offline"]) == 0
    out, err = capsys.readouterr()
    assert "does not fit" in out.splitlines()[0] and "if there were memory for it" in out and err.startswith("Warning: does not fit")


def test_a_batch_that_does_not_fit_is_told_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "decode", "-m", "meta-llama/Meta-Llama-3-8B", "-d", "h100-sxm", "-c", "8k", "-b", "100", "--check", code=3)
    assert "59 sequences would fit" in answer["warnings"][0] and "2 × h100-sxm (tp 2) would hold it" in answer["warnings"][0]


def test_uc074_slots_multiply_the_cache() -> None:
    """github.com/ollama/ollama/issues/10911: ten slots of 8,192 tokens of a 64-layer model with 8 KV heads of 128 take 20 GiB."""
    assert memory.kv(bundled("Qwen/Qwen3-32B"), 8192, 10).results["kv_bytes_total"] == 20 * GIB


def test_uc076_the_context_assumed_is_visible(capsys: pytest.CaptureFixture[str]) -> None:
    """github.com/AlexsJones/llmfit/issues/302: nobody gave a context, so the answer says which one and what it costs."""
    for command in ("fit", "decode", "cost"):
        answer = told(capsys, command, "-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--weights", "q4_k_m")
        assert answer["inputs"]["ctx_tokens"] == 8192
        assert any("ctx 8,192 tokens: not given" in text for text in answer["assumptions"])
    ledger = told(capsys, "fit", "-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--weights", "q4_k_m")["rows"]
    assert [row["bytes"] for row in ledger if row["item"] == "KV of 1 × 8,192 tokens in bf16"] == [-147456 * 8192]


@pytest.mark.parametrize("name", ["google/gemma-3-12b-it", "Qwen/Qwen3-Next-80B-A3B-Instruct", "openai/gpt-oss-20b", "Qwen/Qwen3-8B"])
def test_uc021_the_numbers_of_one_answer_agree(name: str) -> None:
    """github.com/redhat-performance/configiq/issues/112: tokens, bytes and sequences on one screen follow from each other."""
    found = bundled(name)
    answer = verdict.fit(found, plan(found, "h200-sxm", tp=2), Workload(32768, 3))
    r = answer.results
    assert r["usable_bytes"] == r["weight_bytes"] + r["kv_budget_bytes"]
    assert r["kv_budget_bytes"] / r["kv_bytes_per_sequence"] == pytest.approx(r["max_batch_exact"], rel=1e-12)
    assert r["kv_capacity_tokens"] == int(r["max_batch_exact"] * 32768)
    ledger = [row.bytes for row in answer.rows if row.engine is None]
    assert ledger[-1] == pytest.approx(sum(ledger[:-1]), abs=1)


# ---- cost -------------------------------------------------------------------------------------------------------------


def test_uc106_price_over_tokens() -> None:
    """$2.50 an hour at 700 tokens/s: $0.992 a million, and ten times that at a tenth of the load."""
    assert money.usd_per_million_tokens(2.5, 700, 1.0) == pytest.approx(0.992, rel=0.002)
    assert money.usd_per_million_tokens(2.5, 700, 0.1) == pytest.approx(9.92, rel=0.002)


def test_uc110_a_price_says_who_asks_it_and_when(capsys: pytest.CaptureFixture[str]) -> None:
    """github.com/dstackai/dstack/issues/1044: class, provider and date; a price that was given wins and says so."""
    asked = ("cost", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm")
    recorded = " ".join(told(capsys, *asked)["assumptions"])
    assert "on-demand prices, from $2.29 Verda (undated) to $10.80 GCP (2025-02)" in recorded
    given = told(capsys, *asked, "--price", "$1.99")
    assert any("$1.99 per device-hour, as given" in text for text in given["assumptions"])
    assert given["results"]["usd_per_hour"] == 1.99


def test_owning_is_amortisation_and_power() -> None:
    """$30,000 over 3 years of 8,760 h is $1.1416/h; 700 W x 1.25 at $0.20/kWh is $0.175/h."""
    found = bundled("meta-llama/Meta-Llama-3-8B")
    row = cost.cost(found, plan(found), Workload(8192, 32), owned=cost.Ownership(30000, 3, 0.20, 1.25)).results
    assert row["usd_per_hour"] == pytest.approx(1.1416 + 0.175, abs=1e-4)


def test_a_blend_weighs_each_price_by_its_tokens() -> None:
    """3,000 tokens read at $0.10 and 1,000 written at $0.50: (0.30 + 0.50) / 4, not the other way round ($0.40)."""
    assert money.blended_usd_per_million(0.10, 0.50, 3000, 1000) == pytest.approx(0.20)
    found = bundled("meta-llama/Meta-Llama-3-8B")
    row = cost.cost(found, plan(found, usd_per_device_hour=3.0), Workload(8192, 32, 3000, 1000)).results
    read, written = row["usd_per_million_input_tokens"], row["usd_per_million_output_tokens"]
    assert row["usd_per_million_blended"] == pytest.approx(0.75 * read + 0.25 * written)


@pytest.mark.parametrize(("batch", "joules"), [(1, 3.58), (8, 0.64), (32, 0.33)])
def test_energy_of_a_token(batch: int, joules: float) -> None:
    """700 W over 195.5, 1,087 and 2,126 tokens/s; at $0.10/kWh the last is $0.009 a million, 2.3% of $0.39."""
    found = bundled("meta-llama/Meta-Llama-3-8B")
    row = cost.cost(found, plan(found, usd_per_device_hour=3.0), Workload(8192, batch)).results
    assert row["energy_joules_per_token"] == pytest.approx(joules, abs=0.005)
    if batch == 32:
        electricity = row["energy_joules_per_token"] * 1e6 / 3.6e6 * 0.10
        assert electricity / row["usd_per_million_output_tokens"] == pytest.approx(0.023, abs=0.001)


# ---- one estimator ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["napkin", "roofline"])
def test_uc086_commands_agree(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    """github.com/AlexsJones/llmfit/issues/805: one TPOT and one verdict, whichever command is asked."""
    asked = ("-m", "Qwen/Qwen3-30B-A3B", "-d", "rtx-3090", "-c", "32k", "--weights", "q4_k_m", "-b", "2")
    step = told(capsys, "decode", *asked, "--method", method)["results"]
    paid = told(capsys, "cost", *asked, "--method", method, "--price", "1")["results"]
    assert paid["tpot_s"] == step["tpot_s"] and paid["tokens_per_s"] == step["tokens_per_s"]
    assert paid["fits"] == step["fits"] == told(capsys, "fit", *asked)["results"]["fits"]


def test_uc135_an_estimate_carries_its_basis(capsys: pytest.CaptureFixture[str]) -> None:
    """github.com/AlexsJones/llmfit/issues/292: bytes read, bandwidth, context and format, each with where it was read."""
    tree = told(capsys, "decode", "-m", "meta-llama/Meta-Llama-3-8B", "-d", "h100-sxm", "-c", "8k", "-b", "32", "--explain")["derivations"][
        "step_time_s"
    ]
    assert tree["formula"] == "kv_read_s + larger(weight_read_s, compute_s) + communication_s" and tree["unit"] == "s"
    weights, caches = tree["inputs"]["weight_read_s"]["inputs"], tree["inputs"]["kv_read_s"]["inputs"]
    assert weights["bytes_read"]["value"] == 16060522496 and weights["bytes_read"]["inputs"]["bits_per_weight"]["origin"] == "bf16"
    assert weights["bandwidth_bytes_per_s"] == {"value": 3.35e12, "unit": "B/s", "origin": "h100-sxm, nominal"}
    assert caches["kv_read_bytes"]["inputs"]["cached_tokens"] == {"value": 8192, "unit": "tokens", "origin": "--ctx"}
