"""What a config is where its model type does not say it: drafts, classifiers, params.json, class names, keys that say things twice."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from llmcalc import model, sources
from llmcalc.cli import main
from llmcalc.errors import ConfigError
from llmcalc.estimate import memory

EAGLE3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "draft_vocab_size": 32000,
}
DFLASH: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 5, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "intermediate_size": 12288, "dflash_config": {"target_layer_ids": [1, 9, 17, 25, 33]}, "max_window_layers": 5,
    "use_sliding_window": False, "layer_types": ["full_attention"] * 5,
}  # fmt: skip


def shape(hidden: int, heads: int, kv: int, inner: int, vocab: int, **more: Any) -> dict[str, Any]:
    found = {
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": inner,
        "vocab_size": vocab,
    }
    return found | {"tie_word_embeddings": False, "max_position_embeddings": 4096} | more


@pytest.mark.parametrize(
    ("raw", "params"),
    [
        # The tensors of the drafts that SpecForge trains, counted from its configs and code.
        (EAGLE3 | shape(4096, 32, 8, 14336, 128_256), 950_026_240),
        (EAGLE3 | shape(2880, 64, 8, 17280, 201_088, head_dim=64), 886_775_040),
        (EAGLE3 | shape(5120, 40, 10, 17920, 100_352, model_type="phi3"), 1_136_414_720),
        (DFLASH | shape(4096, 32, 8, 12288, 151_936), 1_048_626_432),
        (DFLASH | shape(6144, 32, 8, 12288, 131_072), 1_635_853_568),
    ],
)
def test_drafts_are_what_their_class_says(raw: dict[str, Any], params: int) -> None:
    found = model.read(raw)
    assert memory.language_params(found) == params
    assert "beside its target" in found.notes[0]


@pytest.mark.parametrize("name", ["MedusaModel", "DSparkDraftModel", "PEagleDraftModel", "LlamaMTPModel", "EagleLlamaForCausalLM"])
def test_other_drafts_are_refused_by_their_class(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as refused:
        model.read({"model_type": "llama", **shape(4096, 32, 8, 14336, 32000), "architectures": [name]})
    assert refused.value.code == "unknown-draft"


def test_heads_of_classifiers_and_embedders() -> None:
    raw = sources.read_bundled("Qwen/Qwen2-7B-Instruct").config
    whole = memory.language_params(model.read(raw))  # 7,615,616,512, of which the untied head has 152,064 x 3,584
    body = whole - 152_064 * 3584
    assert memory.language_params(model.read(raw | {"architectures": ["Qwen2Model"]})) == body
    for said, head in (
        ({"architectures": ["Qwen2ForSequenceClassification"], "num_labels": 5}, 5 * 3584),
        ({"architectures": ["Qwen2ForTokenClassification"], "model_type": None}, 2 * 3584),  # the class alone names the type
        ({"architectures": ["Qwen2ForProcessRewardModel"]}, 3584 * 3585 + 2 * 3585),  # vLLM's qwen2_rm: two layers with biases
        ({"architectures": ["InternLM2ForRewardModel"]}, 3584),
    ):
        assert memory.language_params(model.read(raw | said)) == body + head
    with pytest.raises(ConfigError, match="LlamaForRewardModelWithGating is a reward model"):
        model.read(raw | {"architectures": ["LlamaForRewardModelWithGating"]})


@pytest.mark.parametrize(
    ("raw", "params"),
    [
        # Devstral Small, Llama-3-8B and -70B, DeepSeek-V2-Lite: published counts.
        ({"dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 32768, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 131072}, 23_572_403_200),
        ({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 128256, "multiple_of": 1024, "ffn_dim_multiplier": 1.3}, 8_030_261_248),
        ({"dim": 8192, "n_layers": 80, "n_heads": 64, "n_kv_heads": 8, "vocab_size": 128256, "multiple_of": 4096, "ffn_dim_multiplier": 1.3}, 70_553_706_496),
        ({"vocab_size": 102400, "dim": 2048, "inter_dim": 10944, "moe_inter_dim": 1408, "n_layers": 27, "n_dense_layers": 1, "n_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2, "n_activated_experts": 6, "q_lora_rank": 0, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}, 15_706_484_224),
    ],
)  # fmt: skip
def test_params_json_of_three_makers(raw: dict[str, Any], params: int) -> None:
    found = model.read(raw)
    assert memory.language_params(found) == params
    assert found.max_context is None  # it does not say
    with pytest.raises(ConfigError):
        model.read(raw | {"qk_norm_before_rope": True})  # a key that nobody here knows


SEES: dict[str, Any] = {"hidden_size": 1024, "num_channels": 3, "image_size": 1540, "patch_size": 14, "intermediate_size": 4096}
SEES |= {"num_hidden_layers": 24, "num_attention_heads": 16, "adapter_bias": False, "mm_projector_id": "patch_merge"}
SEES |= {"spatial_merge_size": 2, "add_pre_mm_projector_layer_norm": True, "image_token_id": 10}
SMALL_3: dict[str, Any] = {"dim": 5120, "n_layers": 40, "head_dim": 128, "hidden_dim": 32768, "n_heads": 32, "n_kv_heads": 8}
SMALL_3 |= {"vocab_size": 131072, "vision_encoder": SEES, "q_lora_rank": None}
LARGE_3: dict[str, Any] = {"dim": 7168, "n_layers": 61, "head_dim": 192, "hidden_dim": 16384, "n_heads": 128, "n_kv_heads": 128}
LARGE_3 |= {
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 131072,
}
LARGE_3 |= {"moe": {"expert_hidden_dim": 4096, "first_k_dense_replace": 3, "num_experts": 128, "num_experts_per_tok": 4}}
LARGE_3["moe"] |= {"num_shared_experts": 1, "route_every_n": 1, "num_expert_groups": 1}
LARGE_3 |= {"llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 8192}, "max_position_embeddings": 294_912}


def test_mistrals_later_params_json() -> None:
    """Mistral Small 3.1: 24,011,361,280 in its safetensors with the vision tower; Mistral Large 3: 673B and a tower, by its card."""
    found = model.read(SMALL_3 | {"quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}})
    assert memory.language_params(found) + sum(weight.params for weight in found.towers or ()) == 24_011_361_280
    assert found.quantization == {"quant_method": "fp8", "activation_scheme": "static"}
    large = model.read(LARGE_3 | {"yarn": {"factor": 36, "original_max_position_embeddings": 8192, "beta": 32}})
    assert (round(memory.language_params(large) / 1e9), large.native_context, large.max_context) == (673, 8192, 294_912)
    windows = model.read({key: value for key, value in SMALL_3.items() if key != "vision_encoder"} | {"sliding_window": [4096, None]})
    assert [layer.mixers[0].entries[0].window for layer in windows.stack.layers] == [4096, None] * 20


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (SMALL_3 | {"moe_args": {"num_experts": 16}}, "params.json is of no kind that is read: moe_args"),
        (SMALL_3 | {"quantization": {"qformat_weight": "x"}}, "quantization is"),
        (SMALL_3 | {"sliding_window": [4096, 512]}, "a window, or a list of one window and nulls"),
        ({"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "vocab_size": -1}, "the tokenizer's number of tokens"),
    ],
)
def test_a_params_json_that_is_not_read_says_why(raw: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        model.read(raw)


def test_a_draft_of_the_speculators_library() -> None:
    """Its layer stands in a block of its own; the same head as any EAGLE-3 of Llama-3-8B."""
    layer = {"model_type": "llama", **shape(4096, 32, 8, 14336, 128256), "num_hidden_layers": 1}
    said = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 32000}
    assert memory.language_params(model.read({**said, "transformer_layer_config": layer})) == 950_026_240


@pytest.mark.parametrize(
    ("name", "model_type"),
    [
        ("Qwen3MoeForCausalLM", "qwen3_moe"),
        ("MiniCPM3ForCausalLM", "minicpm3"),
        ("GPTNeoXForCausalLM", "gpt_neox"),
        ("Phi3ForCausalLM", "phi3"),
    ],
)
def test_a_class_names_its_type(name: str, model_type: str) -> None:
    with pytest.raises(ConfigError) as refused:
        model.read({"architectures": [name], "num_hidden_layers": -1})
    assert model_type in refused.value.message


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("Qwen/Qwen2-7B-Instruct", {"attention_bias": True}),  # its queries, keys and values have one anyway
        ("Qwen/Qwen3-8B", {"num_heads": 32, "n_embd": 4096, "padded_vocab_size": 151_936, "sliding_window": -1, "decoder_sparse_step": 1}),
        ("Qwen/Qwen3-30B-A3B", {"n_routed_experts": 128, "first_k_dense_replace": 0, "moe_layer_freq": 1}),
        (
            "meta-llama/Llama-3.1-8B",
            {"use_sliding_window": False, "max_window_layers": 28, "qk_norm": False, "no_bias": True, "head_size": 128},
        ),
        ("Qwen/Qwen3-30B-A3B", {"mlp_layer_types": ["sparse"] * 48, "moe_layer_freq": [1] * 48, "shared_expert_intermediate_size": 0}),
        ("deepseek-ai/DeepSeek-V3", {"use_mla": True, "use_qk_norm": False, "num_experts": 256}),
        *(
            ("meta-llama/Llama-3.1-8B", said)
            for said in (
                {"num_local_experts": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 1024},  # one expert of one
                {
                    "v_head_dim": 128,
                    "qk_head_dim": 128,
                    "num_decoder_layers": 32,
                    "unpadded_vocab_size": 128_256,
                },  # names of other families
                {"multi_query_attention": True, "multi_query_group_num": 8, "num_attention_groups": 8, "group_query_attention": True},
                {"num_key_value_heads_per_layer": [8] * 32, "layers_block_type": ["attention"] * 32, "is_moe_layer": [0] * 32},
                {"sliding_window": 131_072},  # as long as the longest context
                {"sliding_window": 0, "sliding_window_pattern": 6, "full_attention_interval": 1, "num_loops": 1, "cla_share_factor": 1},
                {"use_sparse_attention": False, "sparse_block_size": 64, "use_mla": False, "kv_lora_rank": 512},  # what is switched off
                {"norm_type": "RMSNorm", "rmsnorm": True, "ffn_with_glu": True, "position_embedding_type": "rope", "gating": "none"},
                {"activation_sparsity_pattern": [0.0] * 32, "cross_attention_layers": [], "layer_types": None, "text_config": {}},
            )
        ),
    ],
)
def test_keys_that_say_what_was_read_are_no_reason_to_refuse(id: str, said: dict[str, Any]) -> None:
    raw = sources.read_bundled(id).config
    assert model.read(raw | said).stack == model.read(raw).stack


@pytest.mark.parametrize(
    ("id", "said", "good"),
    [
        ("meta-llama/Llama-3.1-8B", {"num_heads": 16}, "here it could only be 32"),
        ("meta-llama/Llama-3.1-8B", {"use_qk_norm": True}, "here it could only be false"),
        ("meta-llama/Llama-3.1-8B", {"sliding_window": 512}, "sliding_window = 512 .* here it could only be null"),
        ("meta-llama/Llama-3.1-8B", {"moe_intermediate_size": 7}, "moe_intermediate_size = 7 .* could only be null"),
        ("meta-llama/Llama-3.1-8B", {"v_head_dim": 64}, "could only be 128"),
        ("meta-llama/Llama-3.1-8B", {"num_loops": 2}, "could only be 1"),
        ("meta-llama/Llama-3.1-8B", {"norm_type": "layernorm"}, "could only be rmsnorm"),
        ("meta-llama/Llama-3.1-8B", {"attn_output_gate": True}, "could only be false"),
        ("meta-llama/Llama-3.1-8B", {"cross_attention_layers": [0]}, "could only be null"),  # the first layer, not nothing
        ("meta-llama/Llama-3.1-8B", {"num_attention_heads_per_layer": [32] * 31 + [16]}, "could only be 32"),
        ("meta-llama/Llama-3.1-8B", {"layer_types": ["sliding_attention"] * 32}, "could only be full_attention throughout"),
        ("Qwen/Qwen3-30B-A3B", {"first_k_dense_replace": 3}, "first_k_dense_replace = 3 .* could only be 0"),
        ("Qwen/Qwen3-30B-A3B", {"mlp_layer_types": ["dense"] + ["sparse"] * 47}, "could only be sparse throughout"),
    ],
)
def test_keys_that_say_something_else_are_refused_with_what_would_be_fine(id: str, said: dict[str, Any], good: str) -> None:
    with pytest.raises(ConfigError, match=good) as refused:
        model.read(sources.read_bundled(id).config | said)
    assert refused.value.code == "unread-key"


def test_a_config_that_says_nothing() -> None:
    with pytest.raises(ConfigError) as refused:
        model.read({"model_type": "llama"})
    assert refused.value.code == "no-shape"
    notes = model.read({"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32}).notes
    assert notes == ("not in the file, but llama's default: num_attention_heads 32, vocab_size 32,000",)


def test_towers_under_other_names_are_unknown() -> None:
    raw = sources.read_bundled("Qwen/Qwen-7B").config
    found = model.read(raw | {"audio": {"n_state": 1280, "n_layer": 32}})
    assert found.towers is None and "audio" in found.notes[-1]
    inner = {"model_type": "llama", **shape(2048, 16, 4, 6144, 59_264), "num_hidden_layers": 28}
    found = model.read({"model_type": "glmasr", "lm_config": inner, "whisper_config": {"d_model": 1280, "encoder_layers": 32}})
    assert found.towers is None and len(found.stack.layers) == 28


@pytest.mark.parametrize(
    ("word", "found", "not_found"),
    [
        ("7b", ["Qwen/Qwen2.5-7B", "org/a_7b"], ["Qwen/Qwen3.5-27B", "Qwen/Qwen2-57B-A14B", "Qwen/Qwen3.5-397B", "EleutherAI/gpt-neo-2.7B", "a/x-7Bit"]),
        ("qwen", ["Qwen/Qwen2.5-7B", "bartowski/Qwen_Qwen3"], ["org/myqwen"]),
        ("3.1", ["meta-llama/Llama-3.1-8B"], ["org/a-13.1", "org/a-3.12"]),
        ("gpt-oss", ["openai/gpt-oss-20b"], ["org/gpt-2"]),
    ],
)  # fmt: skip
def test_words_of_an_id(word: str, found: list[str], not_found: list[str]) -> None:
    assert [id for id in (*found, *not_found) if sources.has_word(id, word)] == found


def test_a_name_without_its_owner_finds_the_one_bundled_model() -> None:
    assert sources.find("gpt-oss-120b", offline=True).id == "openai/gpt-oss-120b"


def test_models_by_size_kind_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    """gpt-oss is under Apache 2.0, DeepSeek-R1 under MIT; a licence that is not written down is said to be missing, not guessed."""
    assert main("models list --min 20B --max 40B --kind moe --license apache-2.0 --json".split()) == 0
    answer = json.loads(capsys.readouterr().out)
    found = {row["model"] for row in answer["rows"]}
    assert {"openai/gpt-oss-20b", "Qwen/Qwen3-30B-A3B"} <= found and answer["inputs"]["license"] == "apache-2.0"
    assert all(20e9 <= row["params"] <= 40e9 for row in answer["rows"]) and "it is not written down" in answer["warnings"][0]
    assert main("models list deepseek-r1 --licence MIT --json".split()) == 0
    assert "deepseek-ai/DeepSeek-R1" in {row["model"] for row in json.loads(capsys.readouterr().out)["rows"]}


def test_a_slash_in_a_branch() -> None:
    assert sources.parse_hub_reference("org/name@feature/x") == ("org/name", "feature/x")
    assert sources.parse_hub_reference("org/name@main/config.json") == ("org/name", "main")


def test_files_of_an_unknown_architecture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "never_heard_of"}')
    header = json.dumps(
        {"a": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}, "b": {"dtype": "F32", "shape": [3], "data_offsets": [64, 76]}}
    )
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + bytes(76))
    assert main(["weights", "-m", str(tmp_path), "--from-files", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    results = found["results"]
    assert (results["file_tensor_bytes"], results["file_params"], results["file_bytes_by_dtype"]) == (76, 35, {"BF16": 64, "F32": 12})
    assert main(["weights", "-m", str(tmp_path), "--json"]) == 1


def test_a_name_that_speaks_of_a_quantisation(tmp_path: Path) -> None:
    """A folder as Mistral ships it, by the name of a quantisation that its file does not have."""
    folder = tmp_path / "Devstral-NVFP4"
    folder.mkdir()
    (folder / "params.json").write_text(
        json.dumps({"dim": 64, "n_layers": 2, "head_dim": 16, "hidden_dim": 128, "n_heads": 4, "n_kv_heads": 2, "vocab_size": 100})
    )
    found = sources.find(str(folder))
    notes = model.read(found.config, id=found.id).notes
    assert notes == ("the name says NVFP4, and the config has no quantization block: weights are counted in its dtype",)
    assert not model.read(found.config, id="org/Devstral-27B").notes


BERT: dict[str, Any] = {"model_type": "bert", "num_hidden_layers": 12, "max_position_embeddings": 512, "type_vocab_size": 2}
BERT |= {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522}
XLMR = BERT | {
    "model_type": "xlm-roberta",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
XLMR |= {"vocab_size": 250_002, "max_position_embeddings": 8194, "type_vocab_size": 1}


@pytest.mark.parametrize(
    ("raw", "params"),
    [
        # bert-base-uncased, roberta-base, bge-m3, bge-reranker-v2-m3, distilbert-base, ModernBERT-base: published counts.
        (BERT, 109_482_240),
        (BERT | {"model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}, 124_645_632),
        (XLMR, 567_754_752),
        (XLMR | {"architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}, 567_755_777),
        ({"model_type": "distilbert", "dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072, "vocab_size": 30522}, 66_362_880),
        (
            {"model_type": "modernbert", "hidden_size": 768, "num_hidden_layers": 22, "intermediate_size": 1152, "vocab_size": 50368},
            149_014_272,
        ),
    ],
)
def test_encoders_have_parameters_and_no_cache(raw: dict[str, Any], params: int) -> None:
    found = model.read(raw)
    assert memory.language_params(found) == params
    assert memory.kv(found, 512, 1, "auto").results.kv_bytes_per_sequence == 0


def test_an_encoder_reads_documents_and_writes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BERT))
    assert main(["prefill", "-m", str(tmp_path), "-d", "l4", "--prompt", "512", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)["results"]
    assert read["attention_flops"] == 12 * 4 * 768 * 512 * 512  # scores and mixing of every pair, not of half of them
    assert main(["decode", "-m", str(tmp_path), "-d", "l4", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "no-kv-cache"
