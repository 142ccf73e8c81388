"""What a slow service could do, each effect worked by hand; and the layouts of a model over devices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from shapes import bundled, plan

from llmcalc.cli import main
from llmcalc.estimate import layout, levers, parallel
from llmcalc.figures import Figure
from llmcalc.plan import Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"
W, READ = 3.35e12, 8030261248 * 2


def state(**more: Any) -> levers.State:
    model = bundled(LLAMA)
    return levers.State(model, plan(model), 4096, 300, **({"batch": 32} | more))


def row(name: str, goal: str = "e2e", **more: Any) -> dict[str, Any]:
    return next(each for each in levers.diagnose(state(**more), goal).rows if each["lever"].startswith(name))


def test_the_split() -> None:
    """62 ms to the first token; then 299 steps over 16.06 GB and 32 caches of 4,096 + 150 tokens."""
    r = levers.diagnose(state()).results
    assert r["tpot_s"] == pytest.approx((READ + 32 * 4246 * 131072) / W)
    assert r["e2e_s"] == pytest.approx(r["ttft_s"] + 299 * r["tpot_s"])
    assert r["phase"] == "tpot"
    assert r["max_batch"] == int((80e9 - READ) / 131072 / 4396)
    assert levers.diagnose(levers.State(bundled(LLAMA), plan(bundled(LLAMA)), 8000, 2)).results["phase"] == "ttft"


def test_quantised_weights_and_caches() -> None:
    assert row("fp8 weights")["tpot_s"] == pytest.approx((READ / 2 + 32 * 4246 * 131072) / W)
    assert row("fp8 KV")["tpot_s"] == pytest.approx((READ + 32 * 4246 * 65536) / W)
    assert row("awq")["tpot_s"] == pytest.approx((READ * 4.15625 / 16 + 32 * 4246 * 131072) / W)


def test_prefix_cache_and_shorter_prompts() -> None:
    base = levers.diagnose(state()).results
    kept = row("prefix cache")
    assert kept["tpot_s"] == base["tpot_s"]  # a shared cache is still read by everybody
    assert kept["ttft_s"] < base["ttft_s"]
    assert row("prompt half")["tpot_s"] == pytest.approx((READ + 32 * (2048 + 150) * 131072) / W)


def test_batch_and_device() -> None:
    assert row("half the batch")["tpot_s"] == pytest.approx((READ + 16 * 4246 * 131072) / W)
    assert row("twice the batch", "throughput")["gain"] == pytest.approx(2 * (READ + 32 * 4246 * 131072) / (READ + 64 * 4246 * 131072))
    assert row("device h200-sxm")["tpot_s"] == pytest.approx((READ + 32 * 4246 * 131072) / 4.8e12, rel=0.01)


def test_best_first_and_what_fits_before_what_does_not() -> None:
    for goal in levers.GOALS:
        rows = levers.diagnose(state(), goal).rows
        gains = [each["gain"] for each in rows if each["fits"]]
        assert gains == sorted(gains, reverse=True)
        assert all(each["check"] for each in rows)
    # 80 GB hold 110 caches of 4,396 tokens beside the weights: 80 sequences, and not 160, whatever the rate would be.
    rows = levers.diagnose(state(batch=80), "throughput").rows
    last = next(each for each in rows if each["lever"] == "twice the batch")
    assert [each["fits"] for each in rows] == [True] * (len(rows) - 1) + [False] and last is rows[-1]
    assert last["gain"] == pytest.approx(2 * (READ + 80 * 4246 * 131072) / (READ + 160 * 4246 * 131072)) and last["gain"] > rows[-2]["gain"]


def test_a_replica_that_does_not_keep_up() -> None:
    """3 requests/s of 3,000 + 400 tokens are too many for an L40S: what would keep up comes first, without a factor."""
    model = bundled(LLAMA)
    found = levers.diagnose(levers.State(model, plan(model, "l40s"), 3000, 400, rate=3.0))
    assert found.results["tpot_s"] is None
    assert "ttft_s" in found.warnings[0]
    assert found.rows[0]["tpot_s"] is not None
    calm = levers.diagnose(levers.State(model, plan(model, "l40s"), 3000, 400, rate=0.5)).results
    # One prefill of 0.12 s each 2 s: the wait is that of an M/D/1 queue.
    assert calm["queue_s"] == pytest.approx(0.5 * calm["prefill_s"] ** 2 / (2 * (1 - 0.5 * calm["prefill_s"])))


def test_old_attention() -> None:
    """Llama-2-7B has as many KV heads as query heads: a grouped model would read a quarter."""
    model = bundled("meta-llama/Llama-2-7b-hf")
    rows = {each["lever"]: each for each in levers.diagnose(levers.State(model, plan(model), 2048, 200, batch=8)).rows}
    weights, cache = 6738415616 * 2, 8 * (2048 + 100) * 2 * 32 * 32 * 128 * 2
    assert rows["a model with GQA"]["tpot_s"] == pytest.approx((weights + cache / 4) / W)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["levers", "-m", LLAMA, "-d", "h100-sxm", "--prompt", "4k", "--output-tokens", "300", "-b", "32", "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert err == ""
    assert answer["results"]["best_lever"] == answer["rows"][0]["lever"]


@pytest.mark.parametrize("args", [["--goal", "fame"], ["-b", "2", "--rate", "3"], ["--output-tokens", "0"], ["--cached", "9k"]])
def test_usage(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["levers", "-m", LLAMA, "-d", "h100-sxm", "--prompt", "4k", *args]) == 2
    assert capsys.readouterr().err.startswith("Error: ")


# ---- layouts ------------------------------------------------------------------------------------------------------


def test_a_pipeline_against_tensor_parallelism() -> None:
    """Theory: 70B, 64 sequences of 8k on four H100: 54.9 ms in four stages, 23.4 ms (and the talk) in four ranks."""
    model = bundled("meta-llama/Llama-3.1-70B-Instruct")
    rows = {(each["tp"], each["pp"]): each for each in parallel.compare(model, plan(model), 4, Workload(8192, 64)).rows}
    assert (rows[1, 4]["step_time_s"] - rows[1, 4]["communication_s"]) * 1e3 == pytest.approx(54.9, abs=0.1)
    assert (rows[4, 1]["step_time_s"] - rows[4, 1]["communication_s"]) * 1e3 == pytest.approx(23.4, abs=0.1)
    assert rows[1, 4]["pipeline_bubble"] == 3 / 4
    assert rows[4, 1]["weight_bytes_per_device"] == pytest.approx(70553706496 * 2 / 4, rel=1e-3)


@pytest.mark.parametrize("tp", [1, 8, 16])
def test_a_latent_is_held_by_every_rank(tp: int) -> None:
    """576 numbers per token and layer on each rank, whatever the tensor parallelism; memory and time agree."""
    model = bundled("deepseek-ai/DeepSeek-V3")
    deployed = plan(model, "h200-sxm", tp=tp)
    ctx = Figure("ctx_tokens", 1000)
    each = 61 * 576 * 2 * 1000
    assert layout.sequence_bytes(model, deployed, ctx).value == tp * each
    assert layout.sequence_bytes(model, deployed, ctx, reads=True).value == tp * each
    assert parallel.replication(model, deployed) == pytest.approx(tp)


def test_the_pool_is_cut_once() -> None:
    """Qwen3-32B at tp 4: 3,258 blocks of 256 tokens, 834,048 tokens, where uncut heads gave 814 blocks."""
    model = bundled("Qwen/Qwen3-32B")
    deployed = plan(model, tp=4)
    per_rank = layout.sequence_bytes(model, deployed, Figure("ctx_tokens", 256)).value / 4
    whole = 64 * 2 * 8 * 128 * 2 * 256
    assert per_rank == whole / 4
    pool = 834048 / 256 * per_rank
    assert pool // per_rank * 256 == 834048
    assert pool // whole == 814


def test_heads_that_must_be_copied() -> None:
    """70B at 16 ranks: 8 KV heads, so each is held twice; at 8 and below once."""
    model = bundled("meta-llama/Llama-3.1-70B-Instruct")
    assert parallel.replication(model, plan(model, tp=16)) == 2
    assert parallel.replication(model, plan(model, tp=8)) == 1
    row = next(each for each in parallel.compare(model, plan(model), 16, Workload(4096, 16)).rows if each["tp"] == 16)
    assert row["why"] == "holds each cache 2 times"


def test_experts_over_all_devices() -> None:
    model = bundled("deepseek-ai/DeepSeek-V3")
    found = parallel.compare(model, plan(model, "h200-sxm", "fp8"), 16, Workload(8192, 256))
    one = next(each for each in found.rows if each["ep"] == 16 and each["tp"] == 1)
    assert one["kv_copies"] == 1
    assert found.results["experts"] == 256
    uneven = [
        each["why"]
        for each in parallel.compare(bundled("Qwen/Qwen3-14B"), plan(bundled("Qwen/Qwen3-14B")), 16, Workload(4096, 1)).rows
        if each["tp"] == 16
    ]
    assert uneven == ["40 query heads are not divisible by 16"]


def test_the_layouts_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layouts", "-m", "meta-llama/Llama-3.1-70B-Instruct", "-d", "8x h100-sxm", "-b", "64", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["valid_tp"] == [1, 2, 4, 8]
    assert answer["hardware"]["count"] == 8
    assert main(["layouts", "-m", "meta-llama/Llama-3.1-70B-Instruct", "-d", "l4", "--check"]) == 3
