"""What holds for every model, device and load, whatever the numbers are."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shapes import bits, bundled, llama, plan

from llmcalc import hardware, model
from llmcalc.architecture import Model
from llmcalc.cli import main
from llmcalc.errors import LlmcalcError, UsageError
from llmcalc.estimate import cost, decode, layout, memory, step, terms, verdict
from llmcalc.figures import Figure
from llmcalc.plan import Deployment, Workload

settings.register_profile("short", max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("short")

TINY = model.read(llama(2, 256, 512, 4, 2, 64, 1000), id="tiny")
DENSE = [TINY, bundled("meta-llama/Meta-Llama-3-8B"), bundled("Qwen/Qwen3-8B")]
MODELS = [
    *DENSE,
    bundled("Qwen/Qwen3-30B-A3B"),  # mixture
    bundled("deepseek-ai/DeepSeek-V3"),  # latent cache, shared experts
    bundled("openai/gpt-oss-20b"),  # windows
    bundled("Qwen/Qwen3-Next-80B-A3B-Instruct"),  # states
]
DEVICES = ["h100-sxm", "h200-sxm", "a100-80-sxm", "rtx-4090", "l4", "dgx-spark", "mi300x", "tpu-v5e", "apple-m4-pro"]

models = st.sampled_from(MODELS)
devices = st.sampled_from(DEVICES)
batches = st.integers(1, 2000)
contexts = st.integers(1, 200_000)
methods = st.sampled_from(terms.METHODS)
widths = st.sampled_from([4.125, 4.5, 6.5, 8.0, 8.5, 16.0])


def length(found: Model, run: Deployment, ctx: Any, batch: Any, method: str = "napkin") -> Any:
    return step.step(found, run, Workload(ctx, batch), method).mid_s


@given(models, devices, batches, contexts, methods)
def test_a_step_is_never_below_a_bound(found: Model, device: str, batch: int, ctx: int, method: str) -> None:
    run = plan(found, device)
    timed = step.step(found, run, Workload(ctx, batch), method)
    parts, spent = timed.terms, timed.mid_s
    memory_s = parts["weight_read_s"].value + parts["kv_read_s"].value
    arithmetic = parts["compute_s"].value + (parts["attention_compute_s"].value if method == "roofline" else 0)
    assert spent >= memory_s * (1 - 1e-12)
    assert spent >= arithmetic * (1 - 1e-12)
    if method == "napkin":
        assert spent <= memory_s + parts["compute_s"].value, "and never above their sum: reading and multiplying overlap"


@given(models, devices, batches, contexts, st.integers(1, 5000), methods)
def test_more_context_is_never_faster(found: Model, device: str, batch: int, ctx: int, more: int, method: str) -> None:
    run = plan(found, device)
    assert length(found, run, ctx + more, batch, method) >= length(found, run, ctx, batch, method)


@given(models, devices, batches, contexts, st.integers(1, 500), methods)
def test_a_bigger_batch_is_never_faster(found: Model, device: str, batch: int, ctx: int, more: int, method: str) -> None:
    run = plan(found, device)
    assert length(found, run, ctx, batch + more, method) >= length(found, run, ctx, batch, method)


@given(models, batches, contexts, widths, widths, methods)
def test_more_bits_are_never_faster(found: Model, batch: int, ctx: int, one: float, other: float, method: str) -> None:
    """At one compute rate: fewer bits of weights or cache mean fewer bytes and nothing else."""
    few, many = sorted((one, other))
    run = plan(found)
    for field in ("weights", "kv"):
        light, heavy = (replace(run, **{field: bits(width)}) for width in (few, many))
        assert length(found, light, ctx, batch, method) <= length(found, heavy, ctx, batch, method)


@given(models, devices, batches, contexts, st.integers(1, 500))
def test_throughput_and_tpot_grow_with_the_batch(found: Model, device: str, batch: int, ctx: int, more: int) -> None:
    """Under the napkin: everybody waits longer, and all together get more."""
    run = plan(found, device)
    small, large = length(found, run, ctx, batch), length(found, run, ctx, batch + more)
    assert large >= small
    assert (batch + more) / large >= batch / small * (1 - 1e-12)


@given(st.sampled_from(DENSE), st.sampled_from([1, 2, 4]), contexts, batches)
def test_twice_the_ranks_read_half_the_weights_each(found: Model, tp: int, ctx: int, batch: int) -> None:
    one, two = (terms.step_terms(found, plan(found, tp=ranks), Workload(ctx, batch)) for ranks in (tp, 2 * tp))
    assert two["weight_read_s"].value == pytest.approx(one["weight_read_s"].value / 2, rel=1e-12)
    assert two["compute_s"].value == pytest.approx(one["compute_s"].value / 2, rel=1e-12)
    held = [layout.held_weight_bytes(found, plan(found, tp=ranks)).value / ranks for ranks in (tp, 2 * tp)]
    assert held[1] == pytest.approx(held[0] / 2, rel=1e-12)


@given(models, batches, st.integers(1, 100_000), st.floats(0.01, 50), st.floats(1.5, 40))
def test_cost_is_linear_in_the_price(found: Model, batch: int, ctx: int, price: float, factor: float) -> None:
    run, work = plan(found), Workload(ctx, batch)
    cheap, dear = (cost.cost(found, replace(run, usd_per_device_hour=usd), work).results for usd in (price, price * factor))
    for key, value in cheap.items():
        if "usd_per" in key:
            assert dear[key] == pytest.approx(value * factor, rel=1e-9), key
        else:
            assert dear[key] == value, key


@given(models, batches, st.integers(1, 100_000), st.floats(0.05, 1))
def test_parts_of_a_cost_add_up(found: Model, batch: int, ctx: int, busy: float) -> None:
    row = cost.cost(found, plan(found, usd_per_device_hour=2.0), Workload(ctx, batch), utilization=busy).results
    whole = row["usd_per_million_output_tokens"]
    assert row["fixed_usd_per_million"] + row["marginal_usd_per_million"] == pytest.approx(whole, rel=1e-9)
    assert row["usd_per_million_output_floor"] <= row["marginal_usd_per_million"] <= whole * (1 + 1e-9)
    assert whole == pytest.approx(2.0 / 3600 / row["tokens_per_s"] / busy * 1e6, rel=1e-9)


@given(st.sampled_from(DENSE), batches, contexts)
def test_a_cache_is_linear_in_batch_and_context(found: Model, batch: int, ctx: int) -> None:
    """For models without windows: twice the sequences or twice the tokens are twice the bytes."""
    one = memory.kv(found, ctx, batch).results["kv_bytes_total"]
    assert memory.kv(found, ctx, 2 * batch).results["kv_bytes_total"] == 2 * one
    assert memory.kv(found, 2 * ctx, batch).results["kv_bytes_total"] == 2 * one


@given(
    models,
    st.lists(batches, min_size=1, max_size=6),
    st.lists(contexts, min_size=1, max_size=4),
    methods,
    st.sampled_from([(1, 1), (8, 1), (1, 2), (2, 4)]),
)
@settings(max_examples=10)
def test_a_sweep_is_its_points(found: Model, batch: list[int], ctx: list[int], method: str, ranks: tuple[int, int]) -> None:
    """One estimator: arrays give, element by element, what numbers give."""
    run = plan(found, tp=ranks[0], pp=ranks[1])
    table = length(found, run, numpy.array(ctx)[:, None], numpy.array(batch)[None, :], method)
    assert table.shape == (len(ctx), len(batch))
    for row, tokens in enumerate(ctx):
        for column, sequences in enumerate(batch):
            assert table[row, column] == pytest.approx(length(found, run, tokens, sequences, method), rel=1e-12)


@given(models, st.sampled_from(["h100-sxm", "b200", "mi300x"]), st.integers(1, 400), st.integers(1, 100_000), st.sampled_from([1, 2, 8]))
def test_what_fits_is_what_fits(found: Model, device: str, batch: int, ctx: int, tp: int) -> None:
    """The largest batch fits, one more does not; the longest context fits, one token more does not."""
    run = plan(found, device, tp=tp)
    answer = verdict.fit(found, run, Workload(ctx, batch)).results
    most, longest = answer["max_batch"], answer["max_ctx_tokens"]
    assert answer["fits"] is (batch <= most and "refused" not in answer)
    if "refused" in answer:
        return
    if most:
        assert verdict.fit(found, run, Workload(ctx, most)).results["fits"]
        assert not verdict.fit(found, run, Workload(ctx, most + 1)).results["fits"]
    if longest:
        assert verdict.fit(found, run, Workload(longest, batch)).results["fits"]
        assert not verdict.fit(found, run, Workload(longest + 1, batch)).results["fits"]


@given(models, batches, contexts, methods)
def test_at_the_crossover_caches_take_as_long_as_weights(found: Model, batch: int, ctx: int, method: str) -> None:
    run = plan(found)
    where = decode.decode(found, run, Workload(ctx, batch), method).results["kv_crossover_batch"]
    parts = terms.step_terms(found, run, Workload(ctx, where), method)
    assert parts["kv_read_s"].value == pytest.approx(parts["weight_read_s"].value, rel=1e-6)


# ---- what a profile does not know -------------------------------------------------------------------------------------

BARE = """\
id: bare
name: Bare
vendor: Nobody
kind: gpu
class: consumer
bandwidth: 1 TB/s
memory: {nominal: 24 GB, type: GDDR7}
"""


def bare(tmp_path: Any, text: str = BARE) -> str:
    path = tmp_path / "bare.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def finite(value: Any) -> bool:
    """No NaN and no infinity anywhere."""
    if isinstance(value, dict | list | tuple):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def test_without_a_rate_arithmetic_is_unknown_not_free(tmp_path: Any) -> None:
    found = DENSE[1]
    run = plan(found, bare(tmp_path))
    answer = decode.decode(found, run, Workload(8192, 8))
    for key in ("compute_s", "critical_batch", "ridge_point_flops_per_byte"):
        assert answer.results[key] is None
    assert any("compute_s and critical_batch: bare has no known compute rate" in text for text in answer.warnings)
    assert answer.results["step_time_s"] == pytest.approx((16.0605e9 + 8 * 1.0737e9) / 1e12, rel=1e-4), "the bytes are still read"
    assert finite(answer.results)
    with pytest.raises(UsageError, match="bare has no known compute rate") as caught:
        terms.step_terms(found, run, Workload(8192, 8), "roofline")
    assert caught.value.code == "no-compute-rate"


def test_without_a_price_money_is_null_and_the_rest_is_told(tmp_path: Any) -> None:
    found = DENSE[1]
    answer = cost.cost(found, plan(found, bare(tmp_path)), Workload(8192, 8))
    for key, value in answer.results.items():
        assert (value is None) is ("usd_per" in key or "joules_per_token" in key or key == "expected_power_w"), key
    assert answer.results["tokens_per_s"] == pytest.approx(8 / ((16.0605e9 + 8 * 1.0737e9) / 1e12), rel=1e-4)
    assert any("no price is recorded for bare" in text for text in answer.warnings)
    assert any("no power is recorded for bare" in text for text in answer.warnings)


def test_without_a_link_ranks_are_refused(tmp_path: Any) -> None:
    found = DENSE[1]
    with pytest.raises(LlmcalcError, match="bare has no known link") as caught:
        decode.decode(found, plan(found, bare(tmp_path), tp=2), Workload(8192, 8))
    assert caught.value.code == "no-link"


def test_without_a_memory_size_there_is_no_verdict() -> None:
    found, run = DENSE[1], plan(DENSE[1], "cpu-epyc-9654")
    assert run.device.memory_bytes is None
    answer = decode.decode(found, run, Workload(8192, 1))
    assert answer.results["fits"] is None and answer.results["step_time_s"] == pytest.approx(
        17.134e9 / run.device.bandwidth_bytes_per_s, rel=1e-3
    )
    assert any(text.startswith("fits: cpu-epyc-9654") for text in answer.warnings)


@pytest.mark.parametrize("device", hardware.ids())
def test_every_device_answers_with_numbers_or_reasons(device: str) -> None:
    """Each key of decode and cost is a finite number, or null with a warning that names it (or all of its kind)."""
    found = DENSE[2]
    run = plan(found, device)
    for answer in (decode.decode(found, run, Workload(8192, 4)), cost.cost(found, run, Workload(8192, 4))):
        assert finite(answer.results)
        told = " ".join(answer.warnings)
        for key, value in answer.results.items():
            # Nothing is 0 for want of a number; where arithmetic binds, the batch shares nothing.
            assert value is False or value != 0 or key in ("communication_s", "overhead_s", "fixed_usd_per_million"), key
            if value is None:
                named = (
                    key in told or ("usd_…" in told and "usd" in key) or key.startswith("expected_") or key == "ridge_point_flops_per_byte"
                )
                assert named, (device, key)


def test_weight_only_formats_are_multiplied_at_16_bits() -> None:
    """A100 has no fp8 cores: fp8 weights halve the bytes, and the rate stays bf16's; on an H100 the rate doubles too."""
    found = DENSE[1]
    old, new = (terms.compute_rate(hardware.load(device), plan(found, weights="fp8").weights) for device in ("a100-80-sxm", "h100-sxm"))
    assert old.value == 312e12 and "dequantised" in old.origin
    assert new.value == 1979e12 and "dequantised" not in new.origin
    volta = terms.compute_rate(hardware.load("v100-32-sxm"), plan(found).weights)
    assert volta.value == 125e12 and "bf16 has no rate of its own" in volta.origin


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        terms.step_terms(TINY, plan(TINY), Workload(1), "guess")
    assert caught.value.code == "unknown-method" and "guess" in caught.value.message


def test_json_without_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "-m", "Qwen/Qwen3-8B", "-d", "dgx-spark", "--json", "--offline"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert err == "" and answer["results"]["usd_per_million_output_tokens"] is None
    assert any("no price is recorded for dgx-spark" in text for text in answer["warnings"])


def test_replication_is_a_figure_with_a_reason() -> None:
    """8 KV heads on 16 ranks: every head is held twice; a latent is held by every rank."""
    seventy, latent = bundled("meta-llama/Llama-3.1-70B-Instruct"), MODELS[4]
    ctx = Figure("ctx_tokens", 8192)
    for found, tp, copies in ((seventy, 8, 1), (seventy, 16, 2), (latent, 1, 1), (latent, 8, 8), (latent, 16, 16)):
        one = layout.sequence_bytes(found, plan(found), ctx).value
        assert layout.sequence_bytes(found, plan(found, tp=tp), ctx).value == copies * one
