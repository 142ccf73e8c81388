"""The operator-by-operator step, and what parallel layouts cost, against hand arithmetic and published measurements."""

from __future__ import annotations

from typing import Any

import pytest
from shapes import bundled, plan

from llmcalc import model
from llmcalc.estimate import cost, decode, layout, memory, roofline, step, talk, terms
from llmcalc.figures import Figure
from llmcalc.formulas import compute, time
from llmcalc.plan import Workload

LLAMA, SEVENTY, MOE, LATENT = (
    "meta-llama/Meta-Llama-3-8B",
    "meta-llama/Llama-3.1-70B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3",
)


def figures_of(name: str, ctx: int, batch: int, method: str = "napkin", **more: Any) -> dict[str, float]:
    found = bundled(name)
    timed = step.step(found, plan(found, **more), Workload(ctx, batch), method)
    return {"step": timed.mid_s, **{key: figure.value for key, figure in timed.terms.items()}}


@pytest.mark.parametrize(
    ("ctx", "batch", "napkin", "roofline"),
    [
        # The table of input embeddings, 1.05 GB, is looked up and not read: 0.31 ms less.
        (512, 1, 4.814, 4.502),
        (8192, 1, 5.115, 4.802),
        (8192, 32, 15.051, 14.782),
        # Activations of 256 sequences, 69,632 values per layer and token, take back more than that.
        (512, 256, 9.923, 9.969),
        # Past the critical batch both are arithmetic; at 989 instead of 989.4 TFLOP/s this one is 14.084.
        (512, 400, 14.081, 14.084),
    ],
)
def test_the_step_of_a_dense_model_both_ways(ctx: int, batch: int, napkin: float, roofline: float) -> None:
    assert figures_of(LLAMA, ctx, batch)["step"] * 1e3 == pytest.approx(napkin, abs=1.5e-3)
    assert figures_of(LLAMA, ctx, batch, "roofline")["step"] * 1e3 == pytest.approx(roofline, rel=3e-4)


@pytest.mark.parametrize(("batch", "weights_ms", "experts"), [(1, 1.81, 8), (8, 7.71, 52), (32, 15.84, 112), (128, 18.03, 128)])
def test_a_mixture_reads_the_experts_that_a_batch_touches(batch: int, weights_ms: float, experts: int) -> None:
    """Qwen3-30B-A3B on an H100, without its embedding table; 25 MB of router make 0.0075 ms."""
    assert time.distinct_experts(128, 8, batch) == pytest.approx(experts, abs=0.7)
    assert figures_of(MOE, 512, batch, "roofline")["weight_read_s"] * 1e3 == pytest.approx(weights_ms + 0.0075, abs=0.006)


@pytest.mark.parametrize(("tokens", "experts"), [(1, 8), (4, 29), (8, 52), (16, 82), (32, 112), (64, 126), (128, 128)])
def test_distinct_experts(tokens: int, experts: int) -> None:
    assert time.distinct_experts(128, 8, tokens) == pytest.approx(experts, abs=0.7)


@pytest.mark.parametrize(
    ("weights", "tokens"),
    [("bf16", 295), ("int8", 295), ("w8a16", 148), ("awq", 77), ("q4_k", 83), ("mxfp4", 78), ("nvfp4", 83), ("fp8", 295)],
)
def test_the_critical_batch_of_a_format(weights: str, tokens: float) -> None:
    """P·b/2W on an H100: formats without cores of their own are multiplied at the 16-bit rate."""
    found = bundled(LLAMA)
    assert terms.critical_batch(found, plan(found, weights=weights)).value == pytest.approx(tokens, abs=0.8)


@pytest.mark.parametrize(("name", "tokens"), [("mistralai/Mixtral-8x7B-v0.1", 1181), (MOE, 4723), (LATENT, 9446)])
def test_the_critical_batch_of_a_mixture(name: str, tokens: float) -> None:
    """E/k times that of its formats: 4, 16 and 32 times 295.2."""
    found = bundled(name)
    assert terms.critical_batch(found, plan(found, weights="bf16")).value == pytest.approx(tokens, rel=1e-3)


@pytest.mark.parametrize(
    ("ranks", "elements", "microseconds"),
    [
        (2, 8192, 4.2), (2, 65536, 4.8), (2, 262144, 6.3),
        (4, 8192, 4.6), (4, 65536, 5.8), (4, 1048576, 18.6),
        (8, 8192, 5.3), (8, 65536, 7.9), (8, 262144, 12.0), (8, 1048576, 19.4),
    ],
)  # fmt: skip
def test_all_reduces_as_measured(ranks: int, elements: int, microseconds: float) -> None:
    """vLLM's kernel on H100 (aiconfigurator's tables, 2 B per element), within a fifth of one latency and the link's rate."""
    assert time.all_reduce_s(5e-6, ranks, 2 * elements, 450e9) * 1e6 == pytest.approx(microseconds, rel=0.2)


@pytest.mark.parametrize(("batch", "step_ms", "talk_ms"), [(1, 5.37, 0.85), (32, 8.47, 1.92)])
def test_tensor_parallel_ranks_talk(batch: int, step_ms: float, talk_ms: float) -> None:
    """Llama-3-70B on eight H100 at 8k: 160 all-reduces, measured 5.3 µs each at batch 1 and 12.0 µs at 32."""
    found = figures_of(SEVENTY, 8192, batch, tp=8)
    assert (found["step"] - found["communication_s"]) * 1e3 == pytest.approx(step_ms, abs=0.005)
    assert found["communication_s"] * 1e3 == pytest.approx(talk_ms, rel=0.02)


def test_a_pipeline_reads_all_weights_for_each_micro_batch() -> None:
    """70B, 64 sequences of 8k on four H100: 54.9 ms as a pipeline, 23.4 ms (and 2 ms of talk) cut by tensor."""
    pipeline, tensor = figures_of(SEVENTY, 8192, 64, pp=4), figures_of(SEVENTY, 8192, 64, tp=4)
    assert (pipeline["step"] - pipeline["communication_s"]) * 1e3 == pytest.approx(54.9, abs=0.05)
    assert (tensor["step"] - tensor["communication_s"]) * 1e3 == pytest.approx(23.4, abs=0.06)
    assert tensor["communication_s"] * 1e3 == pytest.approx(2.1, rel=0.1)
    # One sequence passes through the stages one after another: nothing is gained over one device.
    alone = figures_of(SEVENTY, 8192, 1, pp=4)
    assert alone["step"] - alone["communication_s"] == pytest.approx(figures_of(SEVENTY, 8192, 1)["step"], rel=1e-12)


def test_ceilings_of_a_layout() -> None:
    """Four stages read the caches of four micro-batches at once, but one sequence's weights one stage at a time."""
    found = bundled(SEVENTY)
    answer = decode.decode(found, plan(found, pp=4), Workload(8192, 64)).results
    cache, weights = 8192 * 2 * 80 * 8 * 128 * 2, 70_553_706_496 * 2
    assert answer["ceiling_tokens_per_s"] == pytest.approx(4 * 3.35e12 / cache, rel=1e-9)
    assert answer["single_stream_ceiling_tokens_per_s"] == pytest.approx(3.35e12 / weights, rel=1e-9)
    assert answer["kv_crossover_batch"] == pytest.approx(4 * weights / cache, rel=1e-9)
    tensor = decode.decode(found, plan(found, tp=4), Workload(8192, 64)).results
    assert tensor["single_stream_ceiling_tokens_per_s"] == pytest.approx(4 * 3.35e12 / weights, rel=1e-9)
    assert tensor["kv_crossover_batch"] == pytest.approx(weights / cache, rel=1e-9)


def test_kv_heads_are_not_cut() -> None:
    """ceil(K/tp)·tp/K: 8 heads on 16 ranks are held twice, on 3 ranks one and an eighth times."""
    assert [compute.kv_replication(8, ranks) for ranks in (1, 2, 8, 16)] == [1, 1, 1, 2]
    assert compute.kv_replication(8, 3) == 9 / 8 and compute.kv_replication(1, 8) == 8
    sixteen, eight = figures_of(SEVENTY, 8192, 32, tp=16), figures_of(SEVENTY, 8192, 32, tp=8)
    assert sixteen["kv_read_s"] == pytest.approx(eight["kv_read_s"], rel=1e-12), "twice the ranks, twice the bytes"


def test_absorbed_latent_attention_comes_near_the_ridge() -> None:
    """2·128·(576+512) FLOP per 576·2 B: 241.8, below an H100's 295; a one-byte cache doubles it beyond."""
    found = bundled(LATENT)
    for kv, intensity, binds in (("bf16", 241.8, False), ("fp8", 483.6, True)):
        run = plan(found, kv=kv, tp=8)
        figures = terms.step_terms(found, run, Workload(8192, 64), "roofline")
        work = figures["attention_compute_s"].value * 989.4e12 * 8
        read = 64 * 8192 * 61 * 576 * run.kv.bytes
        assert work / read == pytest.approx(intensity, abs=0.05)
        # Every rank reads the whole latent and computes an eighth of the heads, so eight ranks are far from the ridge.
        assert figures["attention_s"].value == pytest.approx(figures["kv_read_s"].value, rel=1e-12)
        alone = terms.step_terms(found, plan(found, kv=kv), Workload(8192, 64), "roofline")
        assert (alone["attention_compute_s"].value > alone["kv_read_s"].value) is binds
        assert alone["attention_s"].value == max(alone["attention_compute_s"].value, alone["kv_read_s"].value)


def test_the_napkin_says_where_attention_is_more_than_reading() -> None:
    found = bundled(LATENT)
    quiet, loud = (decode.decode(found, plan(found, kv=kv), Workload(8192, 64)).warnings for kv in ("bf16", "fp8"))
    assert not any("computing attention" in text for text in quiet)
    assert any("computing attention takes longer than reading the caches" in text for text in loud)


def test_experts_dealt_over_groups() -> None:
    """DeepSeek-V3 on eight ranks, attention data-parallel: each reads the dense weights, an eighth of the experts touched, and sends its tokens."""
    found = bundled(LATENT)
    dense, experts = layout.read_weight_bytes(found, plan(found), 64)
    assert experts is not None
    row = figures_of(LATENT, 4096, 64, ep=8)
    assert row["weight_read_s"] == pytest.approx((dense.value + experts.value / 8) / 3.35e12, rel=1e-12)
    assert row["kv_read_s"] == pytest.approx(8 * 4096 * 70272 / 3.35e12, rel=1e-12), "8 of the 64 sequences"
    # 58 mixture layers, there and back, 8 tokens to 8 experts each, 7,168 values of 2 B, 7/8 of it to other ranks.
    each = 5e-6 + 7 / 8 * 8 * 8 * 7168 * 2 / 450e9
    assert row["communication_s"] == pytest.approx(2 * 58 * each, rel=1e-12)


def test_experts_within_a_tensor_group_need_no_exchange_of_their_own() -> None:
    """Every rank of a tensor group has every token already: the all-reduce behind the experts adds up their outputs."""
    assert figures_of(MOE, 4096, 64, tp=4, ep=4)["communication_s"] == figures_of(MOE, 4096, 64, tp=4)["communication_s"]


def test_quantised_weights_leave_the_head_at_16_bits() -> None:
    """Llama-3-8B in AWQ: 6.98e9 matrix elements at 4.15625 bits, the head of 0.525e9 and the norms at 16."""
    matrices = 32 * (4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    norms = 65 * 4096
    expected = matrices * 4.15625 / 8 + (128256 * 4096 + norms) * 2
    assert figures_of(LLAMA, 1, 1, "roofline", weights="awq")["weight_read_s"] == pytest.approx(expected / 3.35e12, rel=1e-9)


def test_quantised_weights_leave_routers_at_16_bits() -> None:
    """Qwen3-30B-A3B in fp8: 48 routers of 128 x 2,048 stay at 2 B, beside the head and the norms (llm-compressor ignores gates)."""
    found = bundled(MOE)
    fp8 = plan(found, weights="fp8")
    wide = {
        w.part for i, (_, w) in enumerate(model.weights(found)) if terms.weight_bits(found, fp8, i, w, False).bits == 16 and w.columns > 1
    }
    assert wide == {"router", "head"}


def test_a_drafting_layer_shares_the_tables_of_its_model() -> None:
    """DeepSeek-V3's card: 11.5B parameters of the prediction module are its own, beside 0.9B of embedding and 0.9B of head that it shares."""
    found = bundled(LATENT)
    own = layout.draft_weight_bytes(found, plan(found, weights="bf16")).value / 2
    assert own == pytest.approx(11.5e9, rel=0.01)


def test_a_prompt_on_several_groups_costs_each_its_share() -> None:
    """Eight data-parallel groups read eight prompts in the time of one: a token of them costs an eighth of the eight devices' time."""
    found = bundled(LATENT)
    dealt = plan(found, "h200-sxm", ep=8, usd_per_device_hour=2.0)
    r = cost.cost(found, dealt, Workload(4096, 8, 2048)).results
    read = step.prompt_time(terms.prompt_terms(found, dealt, 2048)).value
    assert dealt.dp == 8
    assert r["usd_per_million_input_tokens"] == pytest.approx(8 * 2.0 / 3600 * read / (8 * 2048) * 1e6, rel=1e-12)


def test_an_encoder_is_held_but_not_read() -> None:
    """whisper-base: 20.6e6 of its 72.6e6 parameters are the encoder's, which has run before the first token."""
    found = bundled("openai/whisper-base")
    held = layout.held_weight_bytes(found, plan(found)).value
    read, _ = layout.read_weight_bytes(found, plan(found), 1)
    assert (held - read.value) * 8 / plan(found).weights.bits == layout.encoder_params(found)
    assert layout.encoder_params(found) == pytest.approx(20.6e6, rel=0.01)


def test_block_diagonal_gates_are_read_whole() -> None:
    """RecurrentGemma-2B: 10 blocks of 256 × 256 in each of two gates on 18 layers; its head is tied, so a step reads every weight."""
    found = bundled("google/recurrentgemma-2b-it")
    gates = [(layers, weight) for layers, weight in model.weights(found) if weight.name.startswith("rg_lru.") and weight.columns > 1]
    assert sum(layers * weight.params for layers, weight in gates) == 18 * 2 * 10 * 256 * 256
    read = {method: terms.step_terms(found, plan(found), Workload(1, 1), method)["weight_read_bytes"].value for method in terms.METHODS}
    assert read["roofline"] == read["napkin"] == 2 * 2_682_862_080


def test_a_pipeline_hands_whole_hidden_states_over() -> None:
    """Llama-3.1-70B on two stages of H100: 32 of 64 sequences meet, 32 × 8,192 × 2 B over 450 GB/s, and 5 µs."""
    found = bundled(SEVENTY)
    assert talk.communication(found, plan(found, pp=2), 32).value == pytest.approx(5e-6 + 524288 / 450e9)


def test_experts_over_two_groups_replace_an_all_reduce_by_two_all_to_alls() -> None:
    """DeepSeek-V3 at tp 4, ep 8, 32 tokens a group: 61 attentions and 3 dense MLPs reduce 32 × 7,168 × 2 B over 4 ranks;
    58 mixtures send a quarter of them to 8 experts each, and take them back, over 8 ranks."""
    found = bundled(LATENT)
    message, link, latency = 32 * 7168 * 2, 450e9, 5e-6
    reduce = min(latency + 3 * message / link, 2 * latency + 2 * 3 / 4 * message / link)
    dispatch = latency + 7 / 8 * (message / 4 * 8) / link
    by_hand = 64 * reduce + 2 * 58 * dispatch
    assert talk.communication(found, plan(found, tp=4, ep=8), 32).value == pytest.approx(by_hand, rel=1e-9)


def test_the_intensity_of_a_pipeline_is_that_of_its_micro_batches() -> None:
    """Half of the sequences share each reading of the weights: 2·N·32 FLOP over w + 32 caches, in both commands."""
    found = bundled(SEVENTY)
    run = plan(found, "h200-sxm", pp=2)
    by_hand = 2 * 69.5e9 * 32 / (141.1e9 + 32 * 8192 * 327680)
    told = decode.decode(found, run, Workload(8192, 64)).results["arithmetic_intensity_flops_per_byte"]
    (row,) = roofline.roofline(found, run, 8192, (64,), ()).rows
    assert row["intensity_flops_per_byte"] == told == pytest.approx(by_hand, rel=1e-3)


def test_a_table_that_is_looked_up_is_not_a_matrix_product() -> None:
    """Gemma-4-E2B keeps 2.35e9 parameters in per-layer tables: a step reads rows of them, and the tied head of 262,144 × 1,536."""
    found = bundled("google/gemma-4-E2B")
    tables = sum(weight.params for weight in found.stack.outside if weight.part == "embedding")
    assert tables > 2e9
    read = terms.step_terms(found, plan(found), Workload(1, 1), "roofline")["weight_read_bytes"].value
    assert read == pytest.approx(2 * (layout.weight_split(found)[0] - tables), rel=1e-6)


def test_links_are_assumed_aloud() -> None:
    found = bundled(SEVENTY)
    eight = decode.decode(found, plan(found, tp=8), Workload(8192, 1)).assumptions
    assert any("NVLink 4, one way: 450 GB/s, 5 µs per collective" in text for text in eight)
    assert not any("nodes of" in text for text in eight)
    assert any("2 nodes of 8" in text for text in decode.decode(found, plan(found, tp=16), Workload(8192, 1)).assumptions)


def test_the_longest_of_the_terms_is_named() -> None:
    for ctx, batch, more, word in (
        (8192, 1, {}, "memory-weights"),
        (8192, 32, {}, "memory-kv"),
        (128, 1000, {}, "compute"),
        (128, 1, {"tp": 64}, "communication"),
    ):
        found = bundled(LLAMA)
        figures = terms.step_terms(found, plan(found, **more), Workload(ctx, batch))
        assert terms.bound(figures) == word
    assert layout.sequence_bytes(bundled(LLAMA), plan(bundled(LLAMA)), Figure("ctx_tokens", 1)).value == 131072


ZAMBA2 = {
    "model_type": "zamba2", "vocab_size": 160, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 4, "max_position_embeddings": 64, "mamba_d_state": 8, "mamba_ngroups": 2, "mamba_d_conv": 4, "n_mamba_heads": 8,
    "mamba_expand": 2, "adapter_rank": 8, "use_mem_rope": False, "chunk_size": 4,
}  # fmt: skip


@pytest.mark.parametrize(("blocks", "further"), [(1, 3), (2, 2), (4, 0)])
def test_a_shared_block_is_read_and_multiplied_at_every_use(blocks: int, further: int) -> None:
    """Four hybrid layers. A block: q, k, v of 128 x 128, o of 64 x 128, three 96 x 64 of the MLP, norms of 128 and 64: 75,968 parameters."""
    kinds = ["mamba", "hybrid", "hybrid", "mamba", "hybrid", "hybrid"]
    found = model.read(ZAMBA2 | {"layers_block_type": kinds, "num_mem_blocks": blocks}, id="zamba2")
    made, block = plan(found), 3 * 128 * 128 + 64 * 128 + 3 * 96 * 64 + 128 + 64
    assert block == 75_968
    assert terms.step_params(found).value - memory.active_params(found) == further * block
    read = {method: terms.step_terms(found, made, Workload(64, 1), method)["weight_read_bytes"].value for method in terms.METHODS}
    stored = memory.language_params(found)
    assert read["napkin"] == 2 * (stored + further * block)
    assert read["roofline"] == read["napkin"]  # the table is the head, too


def test_tables_beside_the_input_embedding_are_looked_up() -> None:
    """Gemma-4-E2B: 35 layers of 256 values for each of 262,144 tokens, 2.35 of its 4.63 billion parameters, are no traffic."""
    found = bundled("google/gemma-4-E2B")
    read = terms.step_terms(found, plan(found), Workload(4096, 1))["weight_read_bytes"].value
    assert read == 2 * (4_628_569_344 - 35 * 256 * 262_144)
