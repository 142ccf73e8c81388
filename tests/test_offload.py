"""Layers and experts in the host's memory: what lies where, which flags say so, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from llmcalc import api
from llmcalc.cli import main
from llmcalc.estimate import capacity, layout, offload, step, verdict, ways
from llmcalc.plan import Offload, Workload

MIXTURE = "Qwen/Qwen3-30B-A3B"  # 48 layers of 128 experts, 3 x 2048 x 768 each: 604 M parameters a layer


def test_experts_of_the_first_layers_lie_on_the_host() -> None:
    model = api.load_model(MIXTURE)
    plan = replace(api.deploy(model, "rtx-4090"), offload=Offload(host_expert_layers=12))
    found = offload.hosted(model, plan)
    assert found.weight_bytes == found.expert_bytes == 12 * 128 * 3 * 2048 * 768 * 2
    assert (found.expert_share, found.cache_share, found.crossings) == (0.25, 0, 12)
    whole = layout.held_weight_bytes(model, api.deploy(model, "rtx-4090")).value
    assert layout.held_weight_bytes(model, plan).value == whole - found.weight_bytes


def test_layers_that_leave_the_card_take_their_caches_along() -> None:
    model = api.load_model("Qwen/Qwen3-8B")  # 36 layers
    plan = api.deploy(model, "rtx-4090", engine="llama.cpp")
    away = replace(plan, offload=Offload(gpu_layers=27))
    held = offload.hosted(model, away)
    assert held.cache_share == 0.25
    # a quarter of 36 layers of 192.9 M parameters, and the head of 151,936 x 4,096
    assert held.weight_bytes == pytest.approx(9 * 192_946_432 * 2 + 151_936 * 4096 * 2, rel=1e-4)
    assert capacity.ledger(model, away, 8192)["kv_bytes_per_sequence"].value == pytest.approx(0.75 * 8192 * 147_456, rel=0.01)
    assert offload.hosted(model, replace(plan, offload=Offload(gpu_layers=37))).weight_bytes == 0


@pytest.mark.parametrize(
    ("model", "device", "weights", "ctx"),
    [
        ("google/gemma-3-27b-it", "rtx-3060-12", "q4_k_m", 8192),
        ("openai/gpt-oss-120b", "rtx-4090", "auto", 8192),
        ("Qwen/Qwen3.6-35B-A3B", "rtx-4060-ti-16", "q4_k_m", 16_384),
    ],
)
def test_what_does_not_fit_whole_is_laid_over_card_and_host(model: str, device: str, weights: str, ctx: int) -> None:
    loaded, work = api.load_model(model), Workload(ctx, 1)
    plan = api.deploy(loaded, device, weights=weights, engine="llama.cpp")
    assert verdict.holds(loaded, plan, work).fits is False
    own = ways.over_host(loaded, plan, work)
    assert own is not None
    assert verdict.holds(loaded, replace(plan, offload=own), work).fits
    # one step more on the card does not fit
    more = (
        replace(own, host_expert_layers=own.host_expert_layers - 1)
        if own.gpu_layers is None
        else replace(own, gpu_layers=own.gpu_layers + 1)
    )
    assert verdict.holds(loaded, replace(plan, offload=more), work).fits is False


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("-ngl", "60"), "bad-offload"),
        (("--n-cpu-moe", "50"), "bad-offload"),
        (("--n-cpu-moe", "-2"), "bad-value"),
        (("--cpu-offload-gb", "much"), "bad-quantity"),
    ],
)
def test_an_offload_of_more_than_there_is_is_refused(given: tuple[str, ...], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-m", MIXTURE, "-d", "rtx-4090", *given, "--json"]) in (1, 2)
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_experts_of_a_model_without_any_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--n-cpu-moe", "4", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "bad-offload"


# ikawrakow/ik_llama.cpp#258 and #357 [tokens/s]; the host's bandwidth as the posts give it
@pytest.mark.parametrize(
    ("model", "device", "weights", "experts", "host", "ctx", "measured"),
    [
        ("Qwen/Qwen3-30B-A3B", "rtx-4080", "iq4_xs", 14, 83.2e9, 8192, 63.75),
        ("Qwen/Qwen3-235B-A22B", "rtx-3090ti", "iq3_k", 82, 83.2e9, 8192, 8.74),
        ("deepseek-ai/DeepSeek-V3-0324", "rtx-5090", "iq2_k_r4", 61, 358e9, 8192, 13.49),
    ],
)
def test_experts_on_the_host_cost_what_was_measured(
    model: str, device: str, weights: str, experts: int, host: float, ctx: int, measured: float
) -> None:
    loaded = api.load_model(model)
    own = Offload(host_expert_layers=experts, host_bytes_per_s=host)
    plan = api.deploy(loaded, device, weights=weights, engine="llama.cpp", offload=own)
    timed = step.step(loaded, plan, Workload(ctx, 1), "expected")
    assert 1 / timed.mid_s == pytest.approx(measured, rel=0.3)
    assert timed.low_s < 1 / measured < timed.high_s


def test_each_part_is_read_over_its_own_memory() -> None:
    model = api.load_model("Qwen/Qwen3-8B")
    plan = api.deploy(model, "rtx-4090", offload=Offload(gpu_layers=18, host_bytes_per_s=80e9))
    half = 18 * 192_946_432 * 2 / 80e9 + 151_936 * 4096 * 2 / 80e9  # half of the layers, and the head
    assert step.step(model, plan, Workload(1, 1), "napkin").terms["weight_read_s"].value == pytest.approx(
        half + (18 * 192_946_432 * 2 + 151_936 * 4096 * 2) / 1008e9, rel=0.02
    )


@pytest.mark.parametrize("command", [["fit"], ["decode"], ["prefill"], ["fit", "--available-kv", "1e3"]])
def test_no_layer_on_the_card(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """`-ngl 0`, a common way to run on the processor: the caches are the host's, and the answer says so."""
    assert main([*command, "-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--engine", "llama.cpp", "--gpu-layers", "0", "--json"]) == 0
    answered = json.loads(capsys.readouterr().out)
    if command[0] == "fit":
        assert answered["results"]["kv_bytes_per_sequence"] == 0
        assert any("host's memory, which alone limits" in line for line in answered["warnings"])


def test_a_thousand_drafts_are_one_more_length(capsys: pytest.CaptureFixture[str]) -> None:
    """The given number is tried beside the usual ones, not all up to it."""
    assert main(["spec", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "--preset", "eagle", "--draft-tokens", "1000", "-f", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 11
