"""Collectives against published timings, links by name, and where ranks lie on nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmcalc import api, hardware, links
from llmcalc.errors import UsageError
from llmcalc.estimate import capacity, collectives, layout, step, talk
from llmcalc.figures import Figure
from llmcalc.plan import Workload

KIB, MIB = 2**10, 2**20


def message(size: float) -> Figure:
    return Figure("message_bytes", size, "B")


# aiconfigurator-core 0.12.0, CUDA graphs, medians of vLLM and SGLang [us]
@pytest.mark.parametrize(
    ("device", "ranks", "size", "microseconds"),
    [
        ("h100-sxm", 2, 16 * KIB, 4.5),
        ("h100-sxm", 8, 16 * KIB, 5.3),
        ("h100-sxm", 8, 2 * MIB, 20.5),
        ("h200-sxm", 4, 8 * MIB, 52.0),
        ("h200-sxm", 8, 32 * MIB, 195.2),
        ("a100-80-sxm", 8, 512 * KIB, 19.9),
        ("a100-80-sxm", 4, 32 * MIB, 288.6),
        ("b200", 8, 16 * KIB, 7.8),
        ("b200", 4, 32 * MIB, 121.7),
        ("gb300", 16, 32 * KIB, 50.9),  # four trays
        ("rtx-pro-6000-blackwell-server", 8, 8 * MIB, 669.1),
        ("dgx-spark", 2, 16 * KIB, 31.2),  # NVIDIA/dgx-spark-playbooks#103
    ],
)
def test_all_reduces_take_what_was_measured(device: str, ranks: int, size: int, microseconds: float) -> None:
    found = collectives.all_reduce(hardware.load(device), message(size), ranks).value
    assert found * 1e6 == pytest.approx(microseconds, rel=0.15)


# DeepEP's low-latency kernels on H100, hidden 7168, top-8 of 256 experts: dispatch and combine [us]
@pytest.mark.parametrize(
    ("nodes", "tokens", "dispatch", "combine"),
    [
        (1, 64, 28, 41), (2, 64, 58, 102), (4, 64, 83, 152), (8, 64, 94, 160),
        (1, 128, 40, 72), (2, 128, 102, 186), (4, 128, 143, 263), (8, 128, 167, 305),
    ],
)  # fmt: skip
def test_experts_are_reached_in_the_time_that_deepep_takes(nodes: int, tokens: int, dispatch: float, combine: float) -> None:
    device, own = hardware.load("h100-sxm"), Figure("tokens", tokens, "tokens")
    there = collectives.exchange(device, own, 7168, 8, 8 * nodes, back=False).value
    back = collectives.exchange(device, own, 7168, 8, 8 * nodes, back=True).value
    assert (there * 1e6, back * 1e6) == (pytest.approx(dispatch, rel=0.2), pytest.approx(combine, rel=0.2))


def test_cards_that_talk_through_the_host_are_ten_times_slower() -> None:
    l40s = hardware.load("l40s")
    assert l40s.link is not None
    through_host = replace(l40s, link=replace(l40s.link, type="pcie4-host"))
    behind_switch = collectives.all_reduce(l40s, message(2 * MIB), 8).value
    assert behind_switch * 1e6 == pytest.approx(271, rel=0.25)  # one of the tables, SGLang 0.5.12
    assert collectives.all_reduce(through_host, message(2 * MIB), 8).value * 1e6 == pytest.approx(2080, rel=0.15)  # the others


def test_tensor_parallel_ranks_lie_side_by_side_and_stages_behind_them() -> None:
    model = api.load_model("deepseek-ai/DeepSeek-V3")
    inside = collectives.nodes(api.deploy(model, "16x h100-sxm", tp=8, pp=2))
    across = collectives.nodes(api.deploy(model, "16x h100-sxm", tp=16))
    wide = collectives.nodes(api.deploy(model, "32x h100-sxm", tp=1, ep=32))
    assert (inside.count, inside.tensor, inside.far_hops) == (2, 1, 1)
    assert (across.count, across.tensor, across.far_hops) == (2, 2, 0)
    assert (wide.count, wide.tensor, wide.expert) == (4, 1, 4)


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-405B-Instruct", "deepseek-ai/DeepSeek-V3"])
def test_sums_across_nodes_cost_more_than_a_hand_over(model: str) -> None:
    loaded = api.load_model(model)
    sixteen = collectives.communication(loaded, api.deploy(loaded, "16x h100-sxm", tp=16), 16)
    staged = collectives.communication(loaded, api.deploy(loaded, "16x h100-sxm", tp=8, pp=2), 16)
    assert sixteen.value > 3 * staged.value


@pytest.mark.parametrize(
    ("word", "name", "rate"),
    [
        ("NVLink 4, with C2C to the CPU", "nvlink4", 450e9),
        ("PCIe 5.0 x8", "pcie5-x8", 32e9),
        ("pcie4-host", "pcie4-host", 32e9),
        ("Thunderbolt 5", "tb5", 10e9),
        ("200GbE", "200gbe", 25e9),
        ("InfiniBand NDR 400 Gbit/s", "ndr", 50e9),
        ("400Gb/s", "400Gb/s", 50e9),
        ("50 GB/s", "50 GB/s", 50e9),
    ],
)
def test_links_are_known_by_name_and_by_rate(word: str, name: str, rate: float) -> None:
    found = links.asked(word, "link")
    assert (found.name, found.rate) == (name, rate)


@pytest.mark.parametrize("word", ["", "400", "fast", "-1Gb/s", "0 GB/s", "9e99 GB/s", "nvlink9", "ethernet", "RoCE", "infiniband"])
def test_a_link_without_a_rate_is_refused(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        links.asked(word, "network")
    assert caught.value.code == "bad-link"
    assert caught.value.hint


def test_a_rate_that_cannot_be_is_not_taken_for_a_misspelt_name() -> None:
    with pytest.raises(UsageError) as caught:
        links.asked("0Gb/s", "network")
    assert "did you mean" not in str(caught.value.hint)


@pytest.mark.parametrize("method", ["napkin", "roofline", "expected"])
@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-70B-Instruct", "deepseek-ai/DeepSeek-V3"])
def test_matrices_cut_over_two_nodes_are_no_faster_than_a_stage_on_each(model: str, batch: int, method: str) -> None:
    """LLMKube#1423: 192 network operations a step against 1; DeepEP and NCCL take tens of us for each of them."""
    loaded = api.load_model(model)
    cut, staged = (api.deploy(loaded, "16x h100-sxm", tp=16 // pp, pp=pp) for pp in (1, 2))
    work = Workload(8192, batch)
    assert step.step(loaded, cut, work, method).mid_s >= step.step(loaded, staged, work, method).mid_s


def test_ranks_are_drawn_node_by_node_as_engines_place_them() -> None:
    """vLLM's order: tensor-parallel ranks innermost, then those that share a context, stages, and data-parallel groups."""
    model = api.load_model("deepseek-ai/DeepSeek-V3")
    staged = api.deploy(model, "16x h100-sxm", tp=4, pp=4)
    assert talk.drawing(staged) == (
        "node 1: stage 1 tp 0-3 | stage 2 tp 0-3",
        "node 2: stage 3 tp 0-3 | stage 4 tp 0-3",
    )
    wide = talk.drawing(api.deploy(model, "128x h100-sxm", tp=8, dp=16))
    assert wide[0] == "node 1: group 1 tp 0-7" and wide[-2:] == ("8 nodes alike", "node 16: group 16 tp 0-7")
    odd = api.deploy(model, "24x h100-sxm", tp=6, pp=4)  # six on each of four nodes, not 8, 8 and 8 with groups across
    assert (talk.nodes(odd).count, talk.nodes(odd).tensor) == (4, 1)


def test_redundant_experts_take_memory_and_an_uneven_load_takes_time() -> None:
    """DeepSeek-V3 serves 256 experts with 32 redundant ones (arXiv:2412.19437): an eighth more of 58 x 256 x 3 x 7168 x 2048 bytes."""
    model = api.load_model("deepseek-ai/DeepSeek-V3")
    plain = api.deploy(model, "32x h100-sxm", tp=1, dp=32, weights="fp8")
    more = api.deploy(model, "32x h100-sxm", tp=1, dp=32, weights="fp8", redundant_experts=32)
    held = [layout.held_weight_bytes(model, plan).value for plan in (plain, more)]
    assert held[1] - held[0] == pytest.approx(58 * 32 * 3 * 7168 * 2048, rel=0.01)
    busy = replace(plain, imbalance=1.5)
    read = [step.step(model, plan, Workload(4096, 2048), "napkin").terms["weight_read_s"].value for plan in (plain, busy)]
    routed = 58 * 256 * 3 * 7168 * 2048 / 32 / 3.35e12
    assert read[1] - read[0] == pytest.approx(routed / 2, rel=0.01)
    with pytest.raises(UsageError, match="dealt over ranks"):
        api.deploy(model, "8x h200-sxm", redundant_experts=8)
    assert (
        layout.obstacle(model, api.deploy(model, "32x h100-sxm", tp=1, dp=32, redundant_experts=1)) == "257 experts are not divisible by 32"
    )


# ---- contexts that ranks share ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "seconds", "within"),
    [(1_000_000, 77.0, 0.1), (131_072, 3.8, 0.4)],  # arXiv:2411.01783: Llama 3 405B, fp8 products, 16 nodes of eight H100
)
def test_a_million_tokens_are_read_in_the_time_that_was_measured(prompt: int, seconds: float, within: float) -> None:
    model = api.load_model("meta-llama/Llama-3.1-405B-Instruct")
    plan = api.deploy(model, "128x h100-sxm", weights="fp8", tp=8, cp=16)
    assert step.reading(model, plan, prompt).value == pytest.approx(seconds, rel=within)
    ideal = step.ttft(model, plan, prompt, method="roofline")
    assert ideal is not None and ideal.mid_s < seconds


def test_ranks_that_share_a_cache_hold_it_once() -> None:
    """vLLM: dcp of the tp ranks keep a latent, or a KV head that they would hold alike, once between them."""
    model = api.load_model("deepseek-ai/DeepSeek-V3")
    for engine in ("napkin", "vllm"):
        each = [api.deploy(model, "8x h200-sxm", tp=8, dcp=dcp, engine=engine) for dcp in (1, 8)]
        once, shared = (capacity.ledger(model, plan, 2**17) for plan in each)
        assert once["kv_bytes_per_sequence"].value == 8 * shared["kv_bytes_per_sequence"].value
        assert once["weight_bytes"].value == shared["weight_bytes"].value
    latent = 61 * 2 * 576 * 2**17 / 4.8e12
    decoded = [step.step(model, plan, Workload(2**17, 1), "napkin").terms["kv_read_s"].value for plan in each]
    assert decoded == [pytest.approx(latent), pytest.approx(latent / 8)]


def test_groups_that_share_a_context_hold_the_dense_weights_each_and_the_experts_together() -> None:
    dense, sparse = api.load_model("meta-llama/Llama-3.1-70B-Instruct"), api.load_model("deepseek-ai/DeepSeek-V3")
    ctx = Figure("ctx_tokens", 2**20)
    for model, copies in ((dense, 4.0), (sparse, None)):
        one, four = (api.deploy(model, f"{8 * cp}x h200-sxm", tp=8, cp=cp) for cp in (1, 4))
        held = [layout.held_weight_bytes(model, plan).value for plan in (one, four)]
        assert held[1] == pytest.approx(copies * held[0]) if copies else held[1] < 1.1 * held[0]
        assert layout.sequence_bytes(model, one, ctx).value == layout.sequence_bytes(model, four, ctx).value
        assert four.ranks == 32


def test_a_layout_that_nothing_can_place_is_refused() -> None:
    model = api.load_model("meta-llama/Llama-3.1-70B-Instruct")
    with pytest.raises(UsageError, match="dcp 3 does not divide tp 8"):
        api.deploy(model, "8x h100-sxm", tp=8, dcp=3)
    with pytest.raises(UsageError, match=r"cp 3 = 24 ranks"):
        api.deploy(model, "16x h100-sxm", tp=8, cp=3)
    refused = layout.obstacle(model, api.deploy(model, "8x h100-sxm", tp=8, dcp=2))
    assert refused == "dcp 2 of tp 8: no 2 ranks hold the same of 8 KV heads"
