"""The expected times: physical sense of the calibration, the classes, the formulas by hand, and measurements that were not used."""

from __future__ import annotations

from dataclasses import replace

import numpy
import pytest

from llmcalc import accuracy, engines, hardware
from llmcalc.commands import common, options
from llmcalc.estimate import prefill, rates, step
from llmcalc.formulas import expected as f
from llmcalc.plan import Deployment, Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"


def plan(device: str, model: str = LLAMA) -> Deployment:
    return common.placed(common.load(model), options.Placement(hardware=device))


def every_set() -> list[tuple[str, dict[str, float]]]:
    found = []
    for quantity, kinds in rates.table()["shares"].items():
        for kind, one in kinds.items():
            found += [(f"{quantity} {kind} {name}", values) for name, values in {"base": one["base"], **one["groups"]}.items()]
    return found


@pytest.mark.parametrize(("name", "values"), every_set())
def test_no_share_above_the_peak_and_no_negative_cost(name: str, values: dict[str, float]) -> None:
    for key, value in values.items():
        if key.endswith("_share") and key not in ("waiting_share", "interruption_share"):
            assert 0.1 <= value <= 1, (name, key)
        else:
            assert value >= 0, (name, key)
        if key.endswith("_s"):
            assert value < 0.02, (name, key)  # no engine spends 20 ms on a layer, a token, a sequence or a request


def test_every_class_is_named_and_its_band_has_two_ends() -> None:
    for kinds in rates.table()["shares"].values():
        for one in kinds.values():
            assert set(one["groups"]) <= set(rates.GROUP)
    for name, band in rates.table()["bands"].items():
        assert 0 < band["widest_low"] <= band["low"] <= band["high"] <= band["widest_high"], name


def test_the_calibration_is_of_the_bundled_rows() -> None:
    rows = accuracy.bundled()
    assert rates.table()["rows"] == len(rows)
    assert {str(row["id"]) for row in rows} == set(accuracy.unseen())


@pytest.mark.parametrize(
    ("device", "engine", "tp", "kind", "group"),
    [
        ("h100-sxm", "napkin", None, "serving", "hopper"),
        ("h200-nvl", "vllm", "2", "serving", "hopper"),
        ("b300", "trt-llm", "8", "serving", "blackwell"),
        ("a100-80-pcie", "sglang", None, "serving", "ampere"),
        ("l40s", "napkin", None, "serving", "ada"),
        ("mi300x", "vllm", "8", "serving", "instinct"),
        ("rtx-pro-6000-blackwell-server", "vllm", None, "serving", "workstation"),
        ("h100-pcie", "llama.cpp", None, "desktop", "datacenter"),
        ("rtx-4090", "napkin", None, "desktop", "consumer"),
        ("rtx-4090", "vllm", None, "serving", "geforce"),
        ("rtx-3090", "napkin", "4", "serving", "geforce"),  # ranks that share matrices need a serving engine
        ("a6000", "napkin", None, "desktop", "workstation"),
        ("dgx-spark", "napkin", None, "desktop", "unified-nvidia"),
        ("strix-halo", "llama.cpp", None, "desktop", "unified-amd"),
        ("apple-m2-ultra", "mlx", None, "desktop", "apple"),
        ("tpu-v6e", "napkin", None, "serving", None),
    ],
)
def test_the_class_of_a_deployment(device: str, engine: str, tp: str | None, kind: str, group: str | None) -> None:
    made = replace(plan(device, tp=tp), engine=engines.find(engine))
    assert (rates.kind(made), rates.class_of(made)) == (kind, group)


def test_a_step_by_hand() -> None:
    """8 ms of weights at 0.8, 2 ms of caches at half, 1 ms of talk twice, 30 layers at 100 us and 10 us more, 4 mixtures at 50 us, 2 others at
    1 ms, 0.5 ms per step: 10 + 3 x 0.5 + 4 + 2 + 3 + 0.3 + 0.2 + 2 + 0.5 = 23.5 ms."""
    found = f.expected_step_s(
        0.008, 0.001, 0.0005, 0.002, 0.0001, 0.001, 30, 30, 4, 3, 0.8, 0.5, 0.5, 3, 2, 1e-4, 1e-5, 5e-5, 1e-3, 5e-4
    )  # fmt: skip
    assert found == pytest.approx(0.0235)
    # 24 ms of arithmetic at 0.6 take longer than the weights: 40 instead of 10 ms.
    bound = f.expected_step_s(0.008, 0.024, 0, 0, 0, 0, 30, 0, 0, 1, 0.8, 0.5, 0.6, 0, 0, 0, 0, 0, 0, 0)
    assert bound == pytest.approx(0.04)


def test_a_prompt_by_hand() -> None:
    """30 ms of matrices at 0.6 and 10 ms of attention at 0.4 are 75 ms; beside 4 others at 5% each 90 ms; 32 layers at 1 ms, 1,000 tokens at 5 us
    and 8 ms per request make 135 ms."""
    reading = f.expected_reading_s(0.030, 0.004, 0.010, 0, 0, 0.6, 0.8, 0.4, 1, 0)
    assert reading == pytest.approx(0.075)
    assert f.expected_ttft_s(reading, 4, 0.05, 32, 1, 1e-3, 1000, 5e-6, 8e-3) == pytest.approx(0.135)


def test_prompts_that_interrupt_by_hand() -> None:
    """16 others read 50 ms each while 400 tokens are written: 2 ms on each step."""
    assert f.interrupted_step_s(0.010, 0.050, 16, 400, 1) == pytest.approx(0.012)


# aiconfigurator's measured kernels of vLLM 0.24.0 on H100, Llama-3-8B, 8,192 tokens; host time is not in them, and
# the notes' "an engine takes 1.2 to 2 times the estimate" is its upper end.
KERNELS_MS = {1: 6.09, 8: 8.70, 16: 12.77, 32: 17.52, 48: 22.27}


@pytest.mark.parametrize(("batch", "kernels_ms"), KERNELS_MS.items())
def test_the_expected_step_lies_above_the_measured_kernels(batch: int, kernels_ms: float) -> None:
    made = plan("h100-sxm")
    found = step.step(common.load(LLAMA), made, Workload(8192, batch), "expected")
    ideal = step.step(common.load(LLAMA), made, Workload(8192, batch), "napkin").mid_s
    assert 0.95 * kernels_ms <= found.mid_s * 1e3 <= 1.35 * kernels_ms
    assert 1.1 <= found.mid_s / ideal <= 2


def test_a_sweep_is_one_estimate() -> None:
    model, made = common.load("Qwen/Qwen3-30B-A3B"), plan("2x h100-sxm", "Qwen/Qwen3-30B-A3B")
    swept = step.step(model, made, Workload(4096, numpy.array([1, 16, 256])), "expected")
    single = [step.step(model, made, Workload(4096, batch), "expected").mid_s for batch in (1, 16, 256)]
    assert list(swept.mid_s) == pytest.approx(single, rel=1e-12)
    assert len(swept.low_s) == len(swept.high_s) == 3


def test_a_class_without_rows_has_a_wide_range_and_says_so() -> None:
    model = common.load("Qwen/Qwen3-8B")
    many = step.step(model, plan("b200", "Qwen/Qwen3-8B"), Workload(4096, 8), "expected")
    none = step.step(model, plan("tpu-v6e", "Qwen/Qwen3-8B"), Workload(4096, 8), "expected")
    assert "no rows of dense models measured on tpu-v6e" in none.words
    assert "96 measured rows" in many.words and "on Blackwell" in many.words
    assert none.high_s / none.low_s > 1.3 * many.high_s / many.low_s


def test_a_range_allows_for_prompts_of_which_nothing_is_said() -> None:
    """Times per token of busy servers, asked for by context and batch alone: four of five are in the range, as with the shape."""
    inside = []
    for row in accuracy.bundled():
        if row["metric"] in ("tpot", "itl") and row.get("batch", 1) > 1 and row.get("output"):
            model = accuracy.model_of(row["model"])
            made, work = accuracy.deployment(row, model), accuracy.workload(row)
            found = step.step(model, made, Workload(work.ctx, work.batch), "expected")
            assert "others' prompts" in found.words
            inside.append(found.low_s <= accuracy.measured(row, made) <= found.high_s)
    assert len(inside) > 250
    assert 0.8 <= sum(inside) / len(inside) <= 0.92


def test_no_compute_rate_no_prompt() -> None:
    device = replace(hardware.load("h100-sxm"), compute={})
    assert step.ttft(common.load(LLAMA), replace(plan("h100-sxm"), device=device), 1024) is None
    found = prefill.prefill(common.load(LLAMA), replace(plan("h100-sxm"), device=device), 1024)
    assert found.results["expected_ttft_s"] is None
    assert any(text.startswith("expected_ttft_s") for text in found.warnings)


def test_requests_slow_each_other_down_only_where_their_shape_is_given() -> None:
    model, made = common.load(LLAMA), plan("h100-sxm")
    plain = step.step(model, made, Workload(1536, 32), "expected").mid_s
    busy = step.step(model, made, Workload(1536, 32, 1024, 1024), "expected").mid_s
    alone = step.step(model, made, Workload(1536, 1, 1024, 1024), "expected").mid_s
    assert busy > plain
    assert alone == pytest.approx(step.step(model, made, Workload(1536, 1), "expected").mid_s)
