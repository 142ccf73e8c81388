"""From a rate to a deployment: what the plan promises, its own simulation keeps; money; separate pools; load tests; mixes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from shapes import bundled, plan

from llmcalc import accuracy, engines, measured, traffic
from llmcalc.cli import main
from llmcalc.estimate import layout, planning, pools, serving, simulate, step
from llmcalc.estimate import service as served
from llmcalc.estimate.service import Service
from llmcalc.formulas import money
from llmcalc.traffic import Kind, Traffic

LLAMA = "meta-llama/Meta-Llama-3-8B"
SERVICE = Service(Traffic(12.0, (Kind(3000, 400),)), 1.0, 0.040, method="napkin")
ASKED = [
    "plan",
    "-m",
    LLAMA,
    "-d",
    "h100-sxm",
    "--rate",
    "12",
    "--prompt",
    "3000",
    "--output-tokens",
    "400",
    "--max-ttft",
    "1s",
    "--max-tpot",
    "40ms",
]
KEYS = {
    "devices", "replicas", "tp", "batch_limit", "utilization", "max_rate_per_replica", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_p50_s",
    "tpot_p95_s", "usd_per_month", "usd_per_million_output_tokens", "binding", "next_lever",
}  # fmt: skip


def answer(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*args, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize(
    ("model", "device", "rate", "kind", "ttft", "tpot"),
    [
        pytest.param(LLAMA, "h100-sxm", 12.0, Kind(3000, 400), 1.0, 0.040, marks=pytest.mark.nightly),
        (LLAMA, "l40s", 6.0, Kind(1500, 300, output_cv=1), 2.0, 0.060),
        pytest.param("Qwen/Qwen3-30B-A3B", "h100-sxm", 20.0, Kind(2000, 250, prompt_cv=1), 0.5, 0.030, marks=pytest.mark.nightly),
        ("openai/gpt-oss-20b", "a100-80-sxm", 4.0, Kind(6000, 800), 3.0, None),
    ],
)
def test_a_plan_keeps_its_limits(model: str, device: str, rate: float, kind: Kind, ttft: float, tpot: float | None) -> None:
    """Simulated anew with other seeds, the deployment meets its limits; and it is never planned at saturation."""
    found = bundled(model)
    service = Service(Traffic(rate, (kind,)), ttft, tpot)
    answer = planning.plan(found, [plan(found, device)], service).answer.results
    assert answer.utilization is not None and answer.utilization <= service.max_utilization
    chosen = plan(found, device, tp=answer.tp or 0)
    one = served.candidate(found, chosen, service, service.traffic.sample())
    # The middle of three draws of the same traffic: a percentile of one has an error.
    outcomes = [served.run(one, service, answer.replicas or 0, seed=seed, count=2500) for seed in (5, 6, 7)]
    assert sorted(each.ttft.at(0.95) or math.inf for each in outcomes)[1] <= ttft * 1.02
    assert tpot is None or sorted(each.tpot.at(0.95) or math.inf for each in outcomes)[1] <= tpot * 1.02
    assert answer.devices == (answer.replicas or 0) * (answer.tp or 0)


def test_one_replica_less_is_too_few() -> None:
    model = bundled(LLAMA)
    chosen = plan(model)
    row = planning.size(model, chosen, SERVICE, SERVICE.traffic.sample())
    one = served.candidate(model, chosen, SERVICE, SERVICE.traffic.sample())
    fewer = (row.replicas or 0) - 1
    assert fewer >= 1
    over = 12.0 / fewer / one.max_rate > SERVICE.max_utilization
    assert over or served.violated(served.run(one, SERVICE, fewer), SERVICE) is not None


def test_a_full_load_is_of_no_more_sequences_than_the_engine_runs() -> None:
    model = bundled(LLAMA)
    assert step.running(model, plan(model), 1000, 100) > 100
    assert step.running(model, replace(plan(model), max_sequences=8), 1000, 100) == 8


def test_luck_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of replicas that one draw of the traffic lets pass and another does not is too few."""
    model = bundled(LLAMA)
    easy = planning.size(model, plan(model), SERVICE, SERVICE.traffic.sample())
    honest = planning.run

    def unlucky(found: served.Candidate, service: Service, replicas: int, seed: int = 0, **more: Any) -> simulate.Outcome:
        outcome = honest(found, service, replicas, seed=seed, **more)
        if seed == 1 and replicas == easy.replicas:
            outcome.ttft.add(10.0, 10**6)
        return outcome

    monkeypatch.setattr(planning, "run", unlucky)
    assert planning.size(model, plan(model), SERVICE, SERVICE.traffic.sample()).replicas == (easy.replicas or 0) + 1


def test_formats_are_chosen_among_and_the_cheapest_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "-m", "Qwen/Qwen3-32B", "-d", "h100-sxm,l40s", "--weights", "auto,fp8,bf16", "--engine", "vllm", "--rate", "9"]
    found = answer(capsys, *asked, "--prompt", "1k", "--output-tokens", "300", "--max-tpot", "60ms")
    rows, r = found["rows"], found["results"]
    assert [row["chosen"] for row in rows] == [True] + [False] * (len(rows) - 1)
    assert rows[0]["weights"] == r["weights"] == "fp8"
    months = [row["usd_per_month"] for row in rows if row["replicas"]]
    assert months == sorted(months) and all(row["replicas"] is None for row in rows[len(months) :])
    assert {row["weights"] for row in rows} == {"bf16", "fp8"}  # auto is bf16 here, and tried once
    assert r["max_rate_per_replica_low"] < r["max_rate_per_replica"] == r["expected_max_rate_per_replica"] < r["max_rate_per_replica_high"]
    # Where everything is as slow as the range says at most, the limit holds only with that much room.
    slow = rows[0]["tpot_p95_s"] * r["expected_tpot_high_s"] / r["expected_tpot_s"]
    assert r["holds_at_high"] is (slow <= 0.060)


def test_devices_are_the_ceiling_of_rate_over_highest_rate() -> None:
    """gpus = ceil(rate / highest rate within the limits) x devices of a replica; here kept at 80% of it."""
    model = bundled(LLAMA)
    row = planning.size(model, plan(model), replace(SERVICE, max_ttft_s=None, max_tpot_s=None), SERVICE.traffic.sample()).row(12.0)
    assert row["replicas"] == -(-12.0 // (row["max_rate_per_replica"] * 0.8))
    assert row["utilization"] == pytest.approx(12.0 / row["replicas"] / row["max_rate_per_replica"])


def test_the_highest_rate_is_the_closed_form() -> None:
    """At ideal rates: 1 / (prefill beside a full batch + 399 tokens' shares of a step of 399 / (3000/2048) = 272 > 140 sequences)."""
    model = bundled(LLAMA)
    ideal = replace(SERVICE, mfu=1.0, mbu=1.0, max_tpot_s=None)
    one = served.candidate(model, plan(model), ideal, ideal.traffic.sample())
    assert one.batch_limit == one.memory_batch == (80e9 - 8030261248 * 2) // (131072 * 3400)
    batch = one.batch_limit
    context = 3000 + 400 / 2
    body = 8030261248 - 2 * 128256 * 4096
    prompt = (2 * body * 3000 + 4 * 32 * 4096 * 3000**2 / 2) / 989.4e12
    # Two chunks; each lies beside the batch's own arithmetic and hides its reading of the weights.
    prompt += 2 * (2 * (body + 128256 * 4096) * batch / 989.4e12 - 8030261248 * 2 / 3.35e12)
    step = 8030261248 * 2 / 3.35e12 / batch + 131072 * context / 3.35e12
    assert one.max_rate == pytest.approx(1 / (prompt + 399 * step), rel=2e-3)


def test_a_limit_nobody_can_meet() -> None:
    model = bundled(LLAMA)
    tight = planning.plan(model, [plan(model)], replace(SERVICE, max_tpot_s=1e-4)).answer
    assert tight.results.devices is None
    assert tight.results.binding == "tpot"
    assert "null" in tight.warnings[0]
    # The closest is the fastest: 16.06 GB and a cache of 3,200 tokens over 8 x 3.35 TB/s x 0.8, and 64 all-reduces.
    assert "closest comes h100-sxm with tp 8" in tight.warnings[0]
    ratio = float(tight.warnings[0].rpartition(", ")[2].split()[0])
    alone = (8030261248 * 2 + 131072 * 3200) / (8 * 3.35e12 * 0.8)
    assert alone < ratio * 1e-4 < alone * 1.6
    slow = planning.plan(model, [plan(model)], replace(SERVICE, max_ttft_s=1e-3)).answer
    assert slow.results.binding == "ttft"
    large = bundled("meta-llama/Llama-3.1-405B-Instruct")
    big = planning.plan(large, [plan(large, "l4")], SERVICE).answer
    assert big.results.binding == "tpot"  # five nodes hold it
    big = planning.plan(large, [plan(large, "l4", engine=engines.find("ollama"))], SERVICE).answer
    assert big.results.binding == "memory"  # one host does not
    assert "short" in big.warnings[0]
    odd = planning.plan(model, [plan(model, tp=3)], SERVICE, fixed=True).answer
    assert odd.rows[0].why == "engines refuse it: 32 query heads are not divisible by 3; valid tp: 1, 2, 4, 8"


def test_a_tighter_ttft_asks_for_more_replicas() -> None:
    model = bundled(LLAMA)
    loose, tight = (
        planning.size(model, plan(model), replace(SERVICE, max_ttft_s=limit), SERVICE.traffic.sample()).row(12.0) for limit in (2.0, 0.15)
    )
    assert tight["replicas"] > loose["replicas"]
    assert tight["binding"] == "ttft"
    assert tight["ttft_p95_s"] <= 0.15


def test_tensor_parallelism_that_the_heads_allow() -> None:
    llama = bundled(LLAMA)  # 32 query heads, 8 KV heads
    assert [tp for tp in (1, 2, 3, 4, 8, 16, 32, 64) if layout.tp_obstacle(llama, tp) is None] == [1, 2, 4, 8, 16, 32]
    assert "40 query heads" in (layout.tp_obstacle(bundled("Qwen/Qwen3-14B"), 16) or "")
    assert [layout.tp for layout in served.layouts(llama, plan(llama))] == [1, 2, 4, 8]


# ---- money --------------------------------------------------------------------------------------------------------


def test_a_month(capsys: pytest.CaptureFixture[str]) -> None:
    """the month's length is said; $2/h for one device is $1,460 in 730 hours."""
    found = answer(capsys, *ASKED, "--price", "2", "--tp", "1")
    r = found["results"]
    assert r.keys() >= KEYS
    assert r["hours_per_month"] == 730
    assert r["usd_per_month"] == r["devices"] * 1460
    # All of it charged to 12 x 400 tokens/s.
    assert r["usd_per_million_output_tokens"] == pytest.approx(r["devices"] * 2 / 3600 / 4800 * 1e6)
    assert any("730 hours" in text for text in found["assumptions"])


def test_what_a_request_and_a_task_cost(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--success-rate", "0.8", "--api-input-price", "0.20", "--api-output-price", "0.60", "--price", "2", "--tp", "1"]
    r = answer(capsys, *ASKED, *more)["results"]
    each = r["devices"] * 2 / 3600 / 12
    assert r["usd_per_request"] == pytest.approx(each)
    assert r["usd_per_successful_task"] == pytest.approx(each / 0.8)
    assert r["api_usd_per_request"] == pytest.approx((3000 * 0.20 + 400 * 0.60) / 1e6)
    assert r["break_even_requests_per_month"] == pytest.approx(r["usd_per_month"] / 0.00084, abs=1)
    assert r["cheaper"] == "own devices"


def test_thinking_is_paid(capsys: pytest.CaptureFixture[str]) -> None:
    r = answer(capsys, *ASKED, "--reasoning-tokens", "1200", "--price", "2", "--tp", "1")["results"]
    assert r["answer_starts_p50_s"] == pytest.approx(r["ttft_p50_s"] + 1200 * r["tpot_p50_s"])
    assert r["reasoning_usd_per_request"] == pytest.approx(r["usd_per_request"] * 3 / 4)


def test_utilisation_is_a_factor_of_ten() -> None:
    """$2.50/h at 700 tokens/s is $0.992 per million, and $9.92 at a tenth of the load."""
    assert money.usd_per_million_tokens(2.5, 700, 1) == pytest.approx(0.992, rel=2e-3)
    assert money.usd_per_million_tokens(2.5, 700, 0.1) == pytest.approx(9.92, rel=2e-3)


# ---- pools --------------------------------------------------------------------------------------------------------


def test_separate_pools_by_hand() -> None:
    """Ideal rates, 8B on H100s, 10 requests/s of 1,155 + 211 tokens, prefill at half the compute rate: less than a device each."""
    model = bundled(LLAMA)
    service = Service(Traffic(10.0, (Kind(1155, 211),)), mfu=0.5, mbu=1.0, method="napkin")
    found = pools.pools(model, plan(model), service, service.traffic.sample(), 50e9)
    assert found["disaggregated_transfer_bytes_per_request"] == 1155 * 131072
    assert found["disaggregated_transfer_s"] == pytest.approx(1155 * 131072 / 50e9)
    assert found["disaggregated_transfer_bytes_per_s"] == pytest.approx(10 * 1155 * 131072)
    body = 8030261248 - 2 * 128256 * 4096
    reading = (2 * body * 1155 + 2 * 128256 * 4096 + 4 * 32 * 4096 * 1155**2 / 2) / (989.4e12 / 2)
    one = served.candidate(model, plan(model), service, service.traffic.sample())
    step = one.rates.fixed_s(one.batch_limit) + one.batch_limit * 131072 * (1155 + 211 / 2) / 3.35e12
    writing = 210 * step / one.batch_limit
    assert found["disaggregated_prefill_per_decode"] == pytest.approx(reading / 0.9 / (writing / 0.92), rel=5e-3)
    assert (found.disaggregated_prefill_replicas, found.disaggregated_decode_replicas) == (1, 1)


def test_pools_grow_until_the_limits_are_met(capsys: pytest.CaptureFixture[str]) -> None:
    r = answer(capsys, *ASKED, "--tp", "1", "--disaggregate", "--max-ttft", "400ms")["results"]
    assert r["disaggregated_met"] is True
    assert r["disaggregated_ttft_s"] <= 0.4


# ---- nodes ----


def test_a_model_too_large_for_a_node_is_planned_over_the_fewest_that_hold_it(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3 in fp8 takes 689 GB, a node of eight H100 has 640; 405B in bf16 takes 812 GB, 19 L40S of 45 GB, three nodes of eight."""
    few = ["--rate", "1", "--prompt", "1k", "--output-tokens", "100"]
    found = answer(capsys, "plan", "-m", "deepseek-ai/DeepSeek-V3", "-d", "h100-sxm", *few)
    r = found["results"]
    assert (r["devices"], r["nodes"], r["tp"], r["pp"] * r["dp"]) == (16, 2, 8, 2)
    assert 0 < r["network_tpot_s"] < 1e-3 and r["network_ttft_s"] > 0
    assert {(row["tp"], row["pp"], row["dp"]) for row in found["rows"] if row["devices"]} == {(8, 2, 1), (8, 1, 2)}
    over = answer(capsys, "plan", "-m", "meta-llama/Llama-3.1-405B-Instruct", "-d", "l40s", *few)["results"]
    assert (over["tp"], over["pp"], over["nodes"]) == (8, 3, 3 * over["replicas"])


def test_an_engine_gets_only_devices_and_hosts_that_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--rate", "0.1", "--prompt", "100", "--output-tokens", "10"]
    found = answer(capsys, "plan", "-m", LLAMA, "-d", "mi300x", "--engine", "trt-llm", *few)
    assert found["results"]["devices"] is None and {row["why"] for row in found["rows"]} == {"trt-llm does not run on AMD"}
    found = answer(capsys, "plan", "-m", LLAMA, "-d", "16x h100-sxm", "--engine", "ollama", *few)
    assert "ollama stays on one host, and 16 devices are on 2" in found["rows"][0]["why"]


@pytest.mark.parametrize(("device", "paid"), [("h100-sxm", 8), ("2x h100-sxm", 8), ("16x h100-sxm", 16), ("gb200", 4)])
def test_whole_nodes_are_paid_for(device: str, paid: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight H100 in an HGX board, four GB200 in a compute tray."""
    asked = ["cost", "-m", "meta-llama/Llama-3.1-70B-Instruct", "--weights", "fp8", "-d", device, "--price", "3"]
    r = answer(capsys, *asked, "--whole-nodes")["results"]
    assert (r["paid_devices"], r["usd_per_hour"]) == (paid, 3 * paid)
    assert answer(capsys, *asked)["results"].get("paid_devices") is None


def test_replicas_share_the_nodes_that_are_paid_for(capsys: pytest.CaptureFixture[str]) -> None:
    r = answer(capsys, *ASKED, "--tp", "1", "--price", "2", "--whole-nodes")["results"]
    assert r["replicas"] > 1 and r["paid_devices"] == 8 * -(-r["replicas"] // 8)
    assert r["usd_per_hour"] == 2 * r["paid_devices"]


# ---- mixes, load tests --------------------------------------------------------------------------------------------

MIX = """
rate: 5
kinds:
  - {name: chat, share: 3, prompt: 800, output_tokens: 300, output_cv: 0.8}
  - {name: documents, share: 1, prompt: 12k, output_tokens: 200, cached: 2000}
"""


def test_a_mix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mix.yaml"
    path.write_text(MIX)
    found = answer(capsys, "plan", "-m", LLAMA, "-d", "h100-sxm", "--traffic", str(path), "--max-ttft", "2s", "--tp", "1")
    assert found["inputs"]["mean_prompt_tokens"] == pytest.approx((3 * 800 + 12288) / 4)
    assert found["inputs"]["mean_output_tokens"] == pytest.approx((3 * 300 + 200) / 4, rel=0.01)
    assert found["results"]["ttft_p95_s"] <= 2
    assert traffic.of_yaml(str(path), rate=7).rate == 7


@pytest.mark.parametrize(
    "text",
    ["", "[]", "rate: 1", "rate: x\nkinds: [{prompt: 1, output_tokens: 1}]", "kinds: [{prompt: 1, output_tokens: 1}]", "rate: 1\nkinds: []",
     "rate: 1\nkinds: [3]", "rate: 1\nkinds: [{prompt: -5, output_tokens: 1}]", "rate: 1\nkinds: [{prompt: 5}]", "rate: .nan\nkinds: [{prompt: 5, output_tokens: 2}]",
     "rate: 1\nkinds: [{prompt: 5, output_tokens: 2, shape: 3}]", "rate: 1\nkinds: [{prompt: 5, output_tokens: 2, share: 0}]",
     "rate: 1\nkinds: [{prompt: 5, output_tokens: 2, cached: 5}]", "rate: 1\nspeed: 2\nkinds: [{prompt: 5, output_tokens: 2}]", "a: *b", "{"],
)  # fmt: skip
def test_a_bad_mix(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mix.yaml"
    path.write_text(text)
    assert main(["plan", "-m", LLAMA, "-d", "h100-sxm", "--traffic", str(path)]) in (1, 2)
    assert capsys.readouterr().err.startswith("Error: ")


def test_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{n / 8},{500 + n % 7 * 300},{50 + n % 5 * 40}\n" for n in range(1200))
    )
    found = answer(capsys, "plan", "-m", LLAMA, "-d", "h100-sxm", "--trace", str(path), "--max-ttft", "1s", "--tp", "1")
    assert found["inputs"]["rate"] == pytest.approx(1200 / (1199 / 8))
    assert found["results"]["devices"] >= 1
    assert any("1,200 requests" in text for text in found["assumptions"])


def test_a_load_test_and_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = answer(capsys, *ASKED, "--tp", "1", "--load-test")["rows"]
    assert [row["utilization"] for row in rows] == pytest.approx([0.1, 0.25, 0.5, 0.7, 0.8, 0.9])
    # Little's law: sequences at once = rate x 399 tokens x mean TPOT, which lies near the median.
    for row in rows:
        assert row["concurrency"] == pytest.approx(row["rate"] * 399 * row["tpot_p50_s"], rel=0.12)
    path = tmp_path / "measured.csv"
    path.write_text("rate,ttft_p95_s,tpot_p50_s\n4,0.5,0.02\n")
    (row,) = answer(capsys, *ASKED, "--tp", "1", "--replicas", "2", "--measured", str(path))["rows"]
    assert row["measured_tpot_p50_s"] == 0.02
    assert row["tpot_p50_error"] == pytest.approx(row["tpot_p50_s"] / 0.02 - 1)


@pytest.mark.parametrize(
    "text",
    ["", "rate\n", "rate,ttft_p95_s\n0,1\n", "rate,ttft_p95_s\n2,x\n", "rate,other\n2,3\n", "ttft_p95_s\n1\n", "rate,ttft_p95_s\n2,-1\n"],
)
def test_bad_measurements(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "measured.csv"
    path.write_text(text)
    assert main([*ASKED, "--measured", str(path)]) == 1
    assert "measured.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [["--rate", "0"], ["--rate", "nan"], ["--rate", "12/fortnight"], ["--percentile", "100"], ["--max-tpot", "0"], ["--max-ttft", "1"],
     ["--mfu", "1.1"], ["--arrival-cv", "-1"], ["--chunk", "x"], ["--success-rate", "0"], ["--seed", "-3"], ["--max-batch", "0"], ["--traffic", "x.yaml"],
     ["--method", "roofline"], ["--method", "guess"]],
)  # fmt: skip
def test_usage(change: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*ASKED, *change])
    assert code == (0 if change == ["--max-ttft", "1"] else 2)  # a bare number is seconds
    assert capsys.readouterr().err.startswith("Error: ") or code == 0


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--max-tpot", "100us", "--check"]) == 3
    assert "no deployment" in capsys.readouterr().out


def test_a_full_replica_is_one_that_the_simulation_fills() -> None:
    """At twice the highest rate, the simulated replica serves the highest rate."""
    model = bundled("Qwen/Qwen3-30B-A3B")
    service = Service(Traffic(1.0, (Kind(2000, 250),)))
    one = served.candidate(model, plan(model), service, service.traffic.sample())
    outcome = simulate.simulate(
        one.rates,
        Traffic(one.max_rate * 2, service.traffic.kinds).requests(),
        max_batch=one.batch_limit,
        chunk=2048,
        count=3000,
        warmup=500,
    )
    assert outcome.tokens_per_s / 250 == pytest.approx(one.max_rate, rel=0.05)
    assert serving.highest(one.rates, one.profile, one.batch_limit, 2048)[1] <= one.batch_limit


def test_a_layout_that_costs_the_same_and_is_faster_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--rate", "12", "--prompt", "2k", "--output-tokens", "300", "--json"]
    assert main(["plan", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", *asked]) == 0
    answer = json.loads(capsys.readouterr().out)
    alone, pair = answer["rows"][0], answer["rows"][1]
    assert (alone["devices"], alone["tp"], pair["devices"], pair["tp"]) == (2, 1, 2, 2) and pair["ttft_p95_s"] < alone["ttft_p95_s"]
    (remark,) = answer["remarks"]
    assert remark.startswith("one of tp 2 costs the same and answers faster: TTFT ")
    assert remark.endswith(f"TPOT {pair['tpot_p95_s'] * 1000:.2f} ms")


def test_without_a_limit_none_is_said_to_be_missed(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "--tp", "3", "--rate", "1", "--prompt", "1k", "--output-tokens", "10"]
    assert main(asked) == 0
    assert "no deployment serves this" in capsys.readouterr().out
    assert main([*asked, "--max-tpot", "1s"]) == 0
    assert "no deployment meets the limits" in capsys.readouterr().out


def test_the_expected_highest_rate_is_that_of_the_accuracy_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """TensorRT-LLM's overview has Llama-3.3-70B in fp8 on 2 H100 at 1,000 in and 1,000 out: plan says about what accuracy predicts for it."""
    row = next(
        row for row in accuracy.bundled()
        if row["metric"].startswith("max_load") and "Llama-3" in row["model"] and "70B" in row["model"] and row["device"] == "h100-sxm"
        and (row.get("tp"), row.get("weights"), row["prompt"], row["output"]) == (2, "fp8", 1000, 1000)
    )  # fmt: skip
    asked = measured.ask(row, measured.model_of(row["model"]))
    options = ["plan", "-m", row["model"], "-d", "2x h100-sxm", "--weights", "fp8", "--kv-dtype", asked.plan.kv.name, "--rate", "1"]
    assert main([*options, "--prompt", "1000", "--output-tokens", "1000", "--engine", "trt-llm", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    low, high = (1000 * found[f"expected_max_rate_per_replica_{end}"] for end in ("low", "high"))
    assert low <= row["value"] <= high
    told = measured.estimate(asked)
    assert (low, high) == pytest.approx((told.low_s, told.high_s), rel=0.15)
    assert 1000 * found["max_rate_per_replica"] == pytest.approx(told.mid_s, rel=0.15)


def test_nobody_measured_a_desktop_engine_at_full_load(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "-m", LLAMA, "-d", "rtx-4090", "--tp", "1", "--rate", "1", "--prompt", "1k", "--output-tokens", "100", "--json"]
    assert main([*asked, "--method", "napkin"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"]["expected_max_rate_per_replica"] is None
    assert any("full load of a desktop engine" in text for text in found["warnings"])
    assert main([*asked, "--engine", "vllm"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["expected_max_rate_per_replica"] is not None
