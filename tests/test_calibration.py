"""The expected times: physical sense of the calibration, the classes, the formulas by hand, and measurements that were not used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy
import pytest

from llmcalc import accuracy, engines, hardware, measured
from llmcalc.commands import common, options
from llmcalc.estimate import counts, memory, prefill, rates, step
from llmcalc.formulas import expected as f
from llmcalc.plan import Deployment, Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"


def plan(device: str, model: str = LLAMA) -> Deployment:
    return common.placed(common.load(model), options.Placement(hardware=device))


@pytest.mark.parametrize("kind", ["serving", "desktop"])
def test_constants_make_physical_sense(kind: str) -> None:
    """Every deployment of a generation, a format and an engine: shares below real clocks, no cost of 50 ms for a layer or a request."""
    rows = rates.constants_table()[kind]
    for by in ("generation", "engine"):
        for key in {key for row in rows.values() for key in row["by"].get(by, {})}:
            made = rates.numbers(
                rows, dict.fromkeys(("device", "format", "expert format", "cache format", "link"), "") | Anything({by: key})
            )
            for name, value in made.items():
                assert 0 < value <= rates.most(name), (key, name, value)
                assert not name.endswith("_s") or value < 0.2, (key, name, value)


class Anything(dict[str, str]):
    """Keys of a deployment of which one dependence is known."""

    def __missing__(self, key: str) -> str:
        return ""

    def __ror__(self, other: dict[str, str]) -> Anything:  # type: ignore[override]
        return Anything(other | dict(self))


@pytest.mark.parametrize(("device", "key"), [("h100-sxm", "8 bits"), ("dgx-spark", "8 bits in blocks"), ("l40s", "8 bits in blocks")])
def test_fp8_in_blocks_is_slower_where_no_kernel_is_tuned_for_it(device: str, key: str) -> None:
    """Qwen's own files have 128 x 128 blocks; vllm#33328: Triton multiplies them on sm_120. What was asked for is what the file holds."""
    made = common.placed(
        model := common.load("Qwen/Qwen3.8-27B-FP8"), options.Placement(hardware=device, weights="fp8"), options.Running(engine="vllm")
    )
    assert rates.keys(made, counts.count(model, made))["format"] == key
    assert memory.weight_format(model, "fp8", made.engine)[0] == memory.weight_format(model, "auto", made.engine)[0]


def test_every_constant_says_what_it_is() -> None:
    for kind in ("serving", "desktop"):
        for name, row in rates.constants_table()[kind].items():
            assert row["unit"] == ("s" if name.endswith("_s") else "1") and row["meaning"] and row["prior"], name


def test_every_band_has_two_ends() -> None:
    for name, band in rates.table()["bands"].items():
        assert 0 < band["widest_low"] <= band["low"] <= 1 <= band["high"] <= band["widest_high"], name


def test_the_calibration_is_of_the_bundled_rows() -> None:
    assert rates.table()["rows"] == len(accuracy.unseen())
    assert set(accuracy.unseen()) <= {str(row["id"]) for row in accuracy.bundled()}


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
    made = replace(plan(device), engine=engines.find(engine), tp=int(tp or 1))
    assert (rates.kind(made), rates.class_of(made)) == (kind, group)


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
    assert 0.9 * kernels_ms <= found.mid_s * 1e3 <= 1.35 * kernels_ms
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
    assert "measured rows" in many.words and "on Blackwell" in many.words
    assert none.high_s / none.low_s > 1.3 * many.high_s / many.low_s


def test_accuracy_and_decode_say_the_same() -> None:
    """A measured row is estimated by the very function behind the command."""
    row = {"model": LLAMA, "device": "h100-sxm", "engine": "vllm", "metric": "itl", "value": 1, "batch": 16, "prompt": 1024, "output": 512}
    asked = measured.ask({**row, "steady": 1}, common.load(LLAMA))
    made = replace(plan("h100-sxm"), engine=engines.find("vllm"))
    assert measured.estimate(asked).mid_s == step.step(common.load(LLAMA), made, Workload(1280, 16), "expected").mid_s


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


@pytest.mark.parametrize(
    ("device", "name", "batch", "formats", "low", "high"),
    [
        # Factors of one product over bf16 in aiconfigurator's tables (B200 at 16 tokens: nvfp4 1.9-2.0, fp8 1.2-1.4; A100 at 64: int4 1.45),
        # of which the rest of a step takes a part.
        ("b200", "meta-llama/Llama-3.3-70B-Instruct", 16, ("bf16", "nvfp4"), 1.6, 2.1),
        ("b200", "meta-llama/Llama-3.3-70B-Instruct", 16, ("bf16", "fp8"), 1.15, 1.55),
        ("a100-80-sxm", LLAMA, 64, ("bf16", "awq"), 0.9, 1.5),
    ],
)
def test_what_a_smaller_format_gains(device: str, name: str, batch: int, formats: tuple[str, str], low: float, high: float) -> None:
    model, made = common.load(name), replace(plan(device, name), engine=engines.find("vllm"))
    times = [
        step.step(model, replace(made, weights=memory.weight_format(model, each)[0]), Workload(2048, batch), "expected").mid_s
        for each in formats
    ]
    assert low <= times[0] / times[1] <= high


@pytest.mark.parametrize(
    ("row", "within"),
    [  # rows of aiconfigurator's silicon_sample.csv, 2026-03: an engine that reads prompts first keeps equal requests in step …
        ({"engine": "sglang", "model": "Qwen/Qwen3-32B", "tp": 2, "prompt": 1024, "output": 1024, "batch": 16, "value": 0.841}, 1.35),
        ({"engine": "sglang", "model": "Qwen/Qwen3-32B", "tp": 2, "prompt": 1024, "output": 1024, "batch": 64, "value": 2.366}, 1.35),
        ({"engine": "sglang", "model": "Qwen/Qwen3-32B", "tp": 2, "prompt": 1024, "output": 1024, "batch": 128, "value": 4.147}, 1.35),
        # … and whom the memory does not hold waits for a place (8 s without that)
        ({"engine": "tensorrt-llm", "model": "meta-llama/Llama-3.1-70B", "weights": "fp8", "prompt": 8192, "output": 1024, "batch": 128, "value": 127.81,
          "device": "h200-sxm"}, 1.75),
    ],
)  # fmt: skip
def test_the_first_token_waits_for_its_group_and_for_memory(row: dict[str, Any], within: float) -> None:
    given = {"id": "t", "device": "h100-sxm", "metric": "ttft", **row}
    asked = measured.ask(given, measured.model_of(row["model"]))
    assert 1 / within < measured.estimate(asked).mid_s / row["value"] < within


def test_lengths_that_vary_fall_out_of_step() -> None:
    """The same load with lengths drawn between nothing and twice the mean waits for no group."""
    row = {"id": "t", "device": "h100-sxm", "metric": "ttft", "engine": "sglang", "tp": 2, "batch": 64, "output": 1024, "value": 1}
    model = measured.model_of("Qwen/Qwen3-32B")
    equal, varied = (measured.estimate(measured.ask({**row, "prompt": prompt}, model)).mid_s for prompt in (1024, 1024.5))
    assert varied < equal / 2


def test_without_a_compute_rate_a_step_is_its_reading() -> None:
    """8.19 B parameters in 16 bits less the embedding, at 614.4 GB/s: no faster than 24.6 ms."""
    made = plan("cpu-xeon-6980p", "Qwen/Qwen3-8B")
    assert not made.device.compute
    assert 0.0246 < step.step(common.load("Qwen/Qwen3-8B"), made, Workload(1024, 1), "expected").mid_s < 0.035
