"""What the readers of configs must not get wrong, beside the corpus: ties, absent parts, contradictions, lists over the layers.

Numbers of parameters are those of the classes of transformers 5.24.0, built on the meta device from the same config.
"""

from __future__ import annotations

from typing import Any

import pytest

from llmcalc import model as reader
from llmcalc.architecture import Model
from llmcalc.errors import ConfigError
from llmcalc.estimate import memory


def language(raw: dict[str, Any]) -> int:
    return int(memory.language_params(reader.read(raw, bare=True)))


def towers(model: Model) -> int | None:
    return None if model.towers is None else sum(weight.params for weight in model.towers)


def refused(raw: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        reader.read(raw, bare=True)
    return caught.value


@pytest.mark.parametrize(
    ("model_type", "whole"),
    {
        "mistral3": 23_340_272_640,
        "voxtral": 4_676_271_104,
        "paligemma": 2_910_390_528,
        "glmasr": 2_136_470_528,
        "qwen3_asr": 2_039_626_880,
        "lighton_ocr": 1_005_647_872,
        "mllama": 10_642_941_475,
        "shieldgemma2": 2_723_312_896,
        "qwen2_5_omni_thinker": 11_338_288_896,
        "mistral_large4": 1_051_822_421_536,
        "t5gemma": 5_596_853_760,
        "t5gemma2": 4_747_846_400,
    }.items(),
)
def test_a_wrapper_without_its_parts_is_what_its_class_makes_of_it(model_type: str, whole: int) -> None:
    model = reader.read({"model_type": model_type}, bare=True)
    seen = towers(model)
    assert seen is not None
    assert memory.language_params(model) + seen == whole


@pytest.mark.parametrize(
    ("raw", "real"),
    [
        ({"model_type": "voxtral_realtime"}, 3_434_118_144),
        ({"model_type": "muse_spark"}, 819_990_536_192),
        ({"model_type": "muse_glimmer"}, 27_854_780_928),
        ({"model_type": "inkling_mm_model"}, 975_340_270_146),
        ({"model_type": "dots3_note"}, 279_551_718_016),
        ({"model_type": "glm5_next"}, 313_326_816_766),
        ({"model_type": "hy_v4_vl"}, 769_907_389_085),
        ({"model_type": "glm_ocr"}, 373_359_616),
        ({"model_type": "paddleocr_vl"}, 360_748_032),
        ({"model_type": "granite_docling"}, 386_630_656),
        ({"model_type": "molmo2"}, 8_191_259_648),
        ({"model_type": "hyperclovax_vision_v2"}, 6_607_605_760),
        ({"model_type": "granite_speech", "window_size": 15, "text_config": {"model_type": "granite"}}, 6_607_343_616),
        ({"model_type": "ovis2", "hidden_size": 1536, "text_config": {"model_type": "qwen2"}}, 11_427_516_416),
        ({"model_type": "emu3", "text_config": {"model_type": "emu3_text_model", "num_hidden_layers": 3}}, 2_166_763_520),
        ({"model_type": "granite4_vision", "text_config": {"model_type": "granite4_vision_text", "num_hidden_layers": 3}}, 869_298_176),
        ({"model_type": "phi4_multimodal"}, 4_400_286_720),  # of Phi-4-mini with a head of its own
        ({"model_type": "chameleon", "num_hidden_layers": 2}, 941_674_496),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_towers_that_are_not_read_are_unknown_and_the_text_is_counted(raw: dict[str, Any], real: int) -> None:
    model = reader.read(raw, bare=True)
    assert memory.language_params(model) == real
    assert model.towers is None
    assert any("not counted: the towers" in note for note in model.notes)


def test_a_head_that_only_the_text_ties() -> None:
    """Files of LLaVA-OneVision say false outside and true in the text: its class ties the head (11,846,772,256 with the tower)."""
    raw = {"model_type": "llava_onevision", "tie_word_embeddings": False, "text_config": {"model_type": "qwen2"}}
    assert language(raw) == 12_049_846_272
    raw["text_config"]["tie_word_embeddings"] = True  # type: ignore[index]
    assert language(raw) == 11_427_516_416
    # Qwen3-VL's class counts the wrapper's word alone.
    other = {"model_type": "qwen3_vl", "tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}
    assert not reader.read(other, bare=True).stack.tied


def test_the_thinker_of_qwen_2_5_omni() -> None:
    """Its language model is Qwen2.5-7B: 7,615,616,512 parameters."""
    text = {
        "model_type": "qwen2_5_omni_text",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
    }
    raw = {"model_type": "qwen2_5_omni", "thinker_config": {"model_type": "qwen2_5_omni_thinker", "text_config": text}}
    assert language(raw) == 7_615_616_512


def test_the_tables_of_qwen_4() -> None:
    """Two layers with tables of hashed n-grams: 16 heads each, as many rows as the primes from 20,000,000 on."""
    raw = {
        "model_type": "qwen4_exp_text",
        "eos_token_id": 1,
        "ple_layer_ids": [2, 6],
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 128,
        "indexer_budget": 2048,
        "indexer_compress_ratio": 16,
    }
    assert language(raw) == 149_297_648_768
    assert "ple_layer_ids" in refused({**raw, "ple_layer_ids": [4]}).message  # a layer of attention
    assert "heads_per_ngram" in refused({**raw, "heads_per_ngram": 4000, "ple_embed_dim": 8000}).message


def test_layers_that_read_an_earlier_layers_latents_keep_none() -> None:
    """Per token: a latent of 512 and 64 rotary elements, none of the latter on every fourth layer; 128 of an index where it is full."""
    raw = {
        "model_type": "mistral_large4_text",
        "num_hidden_layers": 8,
        "kv_source_layers": [0, 1, 1, 3, 0, 1, 1, 3],
        "indexer_types": ["full", "shared", "full", "full", "shared", "full", "shared", "full"],
    }
    model = reader.read(raw, bare=True)
    assert memory.language_params(model) == 104_979_077_216 + 204_800 * 6_144  # the class that was built has no head
    found = memory.kv(model, 1000, 1, "bf16").results["kv_bytes_per_sequence"]
    assert found == 2 * 1000 * (2 * 576 + 512 + 5 * 128)
    assert "kv_source_layers" in refused({**raw, "kv_source_layers": [0, 0, 1, 3, 0, 1, 1, 3]}).message


def test_index_keys_of_blocks() -> None:
    """GLM-5.3: of 1,000 tokens 62 whole blocks of 16 have a key of 128; 11 layers keep a latent of 512, 34 a state.

    State: 64 heads of 128 x 128 in fp32, and 3 columns of 3 x 8,192 channels.
    """
    found = memory.kv(reader.read({"model_type": "glm5_next"}, bare=True), 1000, 1, "bf16").results
    state = 64 * 128 * 128 * 4 + 3 * 3 * 8192 * 2
    assert found["state_bytes_per_sequence"] == 34 * state
    assert found["kv_bytes_per_sequence"] == 2 * 11 * (1000 * 512 + 62 * 128) + 34 * state


def test_null_under_one_name_leaves_the_other() -> None:
    """A key may stand under two names: null in one of them is no word against the number in the other."""
    base = {"model_type": "glm4_moe", "num_hidden_layers": 2, "first_k_dense_replace": 0}
    one = language({**base, "n_shared_experts": 1})
    assert language({**base, "n_shared_experts": None, "num_shared_experts": 1}) == one
    # One shared expert of 3 x 4096 x 1408 on each of the two layers.
    assert one - language({**base, "n_shared_experts": 0}) == 2 * 3 * 4096 * 1408


def test_a_list_over_the_layers_has_one_entry_for_each() -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    raw = {"model_type": "gemma2", "num_hidden_layers": 4, "layer_types": kinds}
    assert len(reader.read(raw, bare=True).stack.layers) == 4
    for wrong in (kinds[:3], [*kinds, "full_attention"]):
        assert "layer_types" in refused({**raw, "layer_types": wrong}).message
    # Prediction modules that the file names may follow.
    step = {"model_type": "step3p5", "num_hidden_layers": 4, "sliding_window": 512, "layer_types": [*kinds, "full_attention"]}
    assert "layer_types" in refused(step).message
    assert len(reader.read({**step, "num_nextn_predict_layers": 1}, bare=True).stack.layers) == 4


def test_a_width_that_contradicts_its_parts_is_refused() -> None:
    raw = {"model_type": "deepseek_v3", "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}
    assert language({**raw, "qk_head_dim": 192}) == language(raw)
    assert "qk_head_dim is 256" in refused({**raw, "qk_head_dim": 256}).message


def test_a_shape_by_layer_number_with_leading_zeros() -> None:
    """transformers writes "02" where there are more than ten layers."""
    base = {"model_type": "step3p5", "num_hidden_layers": 12, "layer_types": ["full_attention"] * 12, "num_attention_heads": 64}
    plain = language(base)
    # 32 query heads of 128 fewer on one layer: q, o, and a gate of one row per head, of the hidden width 4096.
    fewer = plain - (2 * 32 * 128 * 4096 + 32 * 4096)
    for name in ("2", "02"):
        assert language({**base, "per_layer_config": {name: {"num_attention_heads": 32}}}) == fewer
    assert "per_layer_config" in refused({**base, "per_layer_config": {"two": {"num_attention_heads": 32}}}).message


def test_dots_by_its_own_keys_and_as_transformers_writes_it() -> None:
    """Sliding layers of 32 heads with a latent of 100 and 96 + 32 wide keys; 3,360,857,932 parameters in the class."""
    base = {"model_type": "dots3_note_text", "num_hidden_layers": 6, "n_routed_experts": 8, "n_shared_experts": 2}
    own = {
        "swa_num_attention_heads": 32,
        "swa_num_key_value_heads": 32,
        "swa_kv_lora_rank": 100,
        "swa_head_dim": 128,
        "swa_qk_nope_head_dim": 96,
        "moe_shared_expert_intermediate_size": 777,
    }
    assert language({**base, **own}) == 3_360_857_932
    layer = {"num_attention_heads": 32, "num_key_value_heads": 32, "kv_lora_rank": 100, "head_dim": 128}
    layer |= {"qk_nope_head_dim": 96, "qk_rope_head_dim": 32}
    listed = {"per_layer_config": {f"0{i}": layer for i in (2, 3, 4)}, "shared_experts_intermediate_size": 777}
    assert language({**base, **listed}) == 3_360_857_932


@pytest.mark.parametrize(
    ("raw", "sliding"),
    [
        # As transformers 5.24.0 lays its cache out for these configs.
        ({"model_type": "cwm", "num_hidden_layers": 7}, [1, 2, 3, 5, 6]),
        ({"model_type": "smollm3", "num_hidden_layers": 8, "use_sliding_window": True, "sliding_window": 100}, [3, 7]),
        ({"model_type": "smollm3", "num_hidden_layers": 8, "sliding_window": 100}, []),
        (
            {"model_type": "qwen3", "num_hidden_layers": 6, "use_sliding_window": True, "sliding_window": 100, "max_window_layers": 3},
            [3, 4, 5],
        ),
        ({"model_type": "exaone4", "num_hidden_layers": 8, "sliding_window": 99, "sliding_window_pattern": 3}, [0, 1, 3, 4, 6, 7]),
        ({"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window_pattern": 3}, [0, 1, 3, 4, 6]),
        ({"model_type": "muse_glimmer_text", "num_hidden_layers": 6}, [0, 2, 3, 4]),
        ({"model_type": "flint", "num_hidden_layers": 8}, [2, 3, 4, 6]),
    ],
)
def test_layers_with_a_window(raw: dict[str, Any], sliding: list[int]) -> None:
    layers = reader.read(raw, bare=True).stack.layers
    assert [i for i, layer in enumerate(layers) if any(entry.window for mixer in layer.mixers for entry in mixer.entries)] == sliding


def test_t5gemma_2_attends_to_the_source_by_the_same_projections() -> None:
    """Of 26 layers every sixth sees everything (4 of them), the others 512 tokens; 4 KV heads of 256; the source is not counted."""
    raw = {"model_type": "t5gemma2", "encoder": {"text_config": {"sliding_window": 512}}, "decoder": {"sliding_window": 512}}
    model = reader.read(raw, bare=True)
    found = memory.kv(model, 2000, 1, "bf16").results["kv_bytes_per_sequence"]
    assert found == 2 * 2 * 4 * 256 * (4 * 2000 + 22 * 512)
    assert any(f"each adds {26 * 2 * 4 * 256:,} cached elements" in note for note in model.notes)
    assert "hidden_size" in refused({**raw, "decoder": {"hidden_size": 1024}}).message


def test_gemma_3n_with_its_towers() -> None:
    """gemma-3n-E4B's 7,849,978,192 published parameters: the 15 layers that share a cache still store keys and values.

    Those are 2 matrices of 2 heads of 256 and one norm of 256 each, which nothing reads. The conformer: 681,348,640 by its class.
    """
    model = reader.read({"model_type": "gemma3n", "text_config": {}, "vision_config": {}, "audio_config": {}}, bare=True)
    assert model.towers is not None
    assert sum(weight.params for weight in model.towers if weight.part == "audio") == 681_348_640
    unused = 15 * (2 * 512 * 2048 + 256)
    assert memory.language_params(model) + (towers(model) or 0) + unused == 7_849_978_192
    other = reader.read(
        {"model_type": "gemma3n", "text_config": {}, "vision_config": {"architecture": "other"}, "audio_config": {}}, bare=True
    )
    assert other.towers is None and any("architecture other" in note for note in other.notes)


def test_longcat_flash_with_its_prediction_module() -> None:
    """LongCat-Flash-Chat's 561,862,880,256 published parameters: 28 routers have a balancing bias of 512 + 256, a buffer.

    Its module: a table 131072 x 6144, 2 x 6144^2, an MLP 3 x 6144 x 12288, MLA 90,570,752 with norms of 1536 and 512, five norms.
    """
    keys = {
        "hidden_size": 6144, "num_layers": 28, "num_attention_heads": 64, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048,
        "n_routed_experts": 512, "zero_expert_num": 256, "moe_topk": 12, "kv_lora_rank": 512, "q_lora_rank": 1536,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 131_072,
    }  # fmt: skip
    model = reader.read({"model_type": "longcat_flash", **keys}, bare=True)
    ahead = sum(weight.params for weight in model.stack.mtp)
    assert ahead == 805_306_368 + 75_497_472 + 226_492_416 + 90_570_752 + 2048 + 5 * 6144
    assert memory.language_params(model) + ahead + 28 * 768 == 561_862_880_256
    assert reader.read({"model_type": "longcat_flash", **keys, "num_nextn_predict_layers": 0}, bare=True).stack.mtp == ()


def test_prediction_modules_that_engines_load() -> None:
    """Ling 3: a latent-attention layer with experts, its balancing bias, five norms and a projection; GLM-5.3 without streams; Inkling."""
    ling = {
        "model_type": "bailing_hybrid", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16,
        "short_conv_kernel_size": 4, "layer_group_size": 4, "kv_lora_rank": 32, "q_lora_rank": 24, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16, "v_head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "num_shared_experts": 1, "first_k_dense_replace": 1, "intermediate_size": 96, "vocab_size": 160,
    }  # fmt: skip
    plain, ahead = reader.read(ling, bare=True), reader.read({**ling, "num_nextn_predict_layers": 2}, bare=True)
    assert plain.stack.mtp == () and ahead.notes == plain.notes == ()
    # q 24 x 64 + 24 + 4 heads x 24 x 24, kv 40 x 64 + 32 + 4 x 32 x 32, out 64 x 64, gate 4 x 64; 7 experts of 3 x 64 x 40, router 6 x 64
    layer = 1536 + 24 + 2304 + 2560 + 32 + 4096 + 4096 + 256 + 7 * 7680 + 384
    assert sum(weight.params for weight in ahead.stack.mtp) == 2 * (layer + 6 + 5 * 64 + 2 * 64 * 64)
    assert memory.language_params(ahead) == memory.language_params(plain)
    # Inkling: each module is a dense layer (so many as one more of them adds), a projection 2 x 64^2 and two norms.
    inkling = {
        "model_type": "inkling_text", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 12, "sliding_window_size": 8, "d_rel": 4,
        "rel_extent": 16, "n_routed_experts": 6, "n_shared_experts": 2, "num_experts_per_tok": 2, "dense_mlp_idx": 9, "vocab_size": 160,
        "dense_intermediate_size": 72, "intermediate_size": 40, "local_layer_ids": [0, 1, 2, 3, 4],
    }  # fmt: skip
    four, five = (memory.language_params(reader.read({**inkling, "num_hidden_layers": depth}, bare=True)) for depth in (4, 5))
    ahead = reader.read({**inkling, "num_hidden_layers": 4, "num_mtp_layers": 3, "mtp_local_layer_ids": [0, 1, 2]}, bare=True)
    assert sum(weight.params for weight in ahead.stack.mtp) == 3 * (five - four + 2 * 64 * 64 + 2 * 64)
    assert ahead.notes == ()
