"""Checkpoints as they ship: bytes against published file sizes, tensor lists and hand arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from llmcalc import checkpoint, engines, formats, load_model, model, sources
from llmcalc.architecture import Model, Weight
from llmcalc.checkpoint import whole
from llmcalc.checkpoint.schemes import FLOAT8
from llmcalc.errors import ConfigError
from llmcalc.estimate import memory


def bundled(name: str) -> Model:
    found = sources.find(name, offline=True)
    return model.read(found.config, id=found.id, quant=found.quant)


def llama(quantization: dict[str, Any] | None = None, beside: dict[str, Any] | None = None, **over: Any) -> Model:
    """Two layers, hidden 256, inner 512, 4 heads of 64 and 2 of them cached, 1,000 words."""
    raw = {
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 1000, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
        **({"quantization_config": quantization} if quantization else {}), **over,
    }  # fmt: skip
    return model.read(raw, quant=beside)


# Of `llama` above. Linear layers: q and o 256×256, k and v 128×256, gate and up 512×256, down 256×512.
LINEAR = 2 * (2 * 256 * 256 + 2 * 128 * 256 + 3 * 512 * 256)
ROWS = 2 * (256 + 128 + 128 + 256 + 512 + 512 + 256)
MATRICES = 2 * 7
TABLES = 2 * 1000 * 256
NORMS = 5 * 256
REST = 2 * (TABLES + NORMS)


def size(found: Model, name: str = "auto") -> Any:
    return memory.weights(found, name).results["weight_bytes"]


# Safetensors index total_size, or the list of every tensor of a real download, of the repository in question.
PUBLISHED = {
    "openai/gpt-oss-20b": 13_761_264_768,
    "Qwen/Qwen3-30B-A3B-FP8": 31_170_895_872,
    "Qwen/Qwen3-32B-AWQ": 19_325_298_688,
    "TheBloke/Llama-2-7B-AWQ": 3_889_307_648,
    "mlx-community/Qwen3-14B-4bit": 8_307_783_680,
    "mlx-community/DeepSeek-R1-Distill-Qwen-14B-3bit": 6_463_203_328,
    "moonshotai/Kimi-K2.5": 595_148_192_736,
    "HuggingFaceTB/SmolLM3-3B": 6_150_197_248,
    "Qwen/Qwen2.5-VL-7B-Instruct": 16_584_333_312,
    # With their multi-token-prediction modules:
    "deepseek-ai/DeepSeek-R1": 688_574_839_360,
    "deepseek-ai/DeepSeek-V3.2": 689_468_986_496,
    "deepseek-ai/DeepSeek-V4-Flash": 159_538_875_034,
    "deepseek-ai/DeepSeek-V4-Pro": 864_532_267_442,
    "zai-org/GLM-5.1": 1_507_728_316_928,
    "zai-org/GLM-4.7-Flash": 62_442_983_168,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sizes_to_the_byte(name: str) -> None:
    results = memory.weights(bundled(name)).results
    assert results["weight_bytes"] + results["mtp_bytes"] == PUBLISHED[name]


def test_mtp_stands_apart() -> None:
    # 61 layers and both tables; the module of layer 61 with its own copies of them is not in it.
    results = memory.weights(bundled("deepseek-ai/DeepSeek-R1")).results
    assert results["weight_bytes"] == 673_150_611_808
    assert results["bits_per_weight"] == pytest.approx(673_150_611_808 * 8 / 671_026_404_352, rel=1e-12)


def test_parts_sum_to_the_whole() -> None:
    found = memory.weights(bundled("openai/gpt-oss-20b"))
    by_part = {row["part"]: row["bytes"] for row in found.rows}
    # 24 layers of 32 experts: gate_up [5760, 2880] and down [2880, 2880] at 17 bytes per 32 elements, biases in bf16.
    elements = 24 * 32 * (5760 * 2880 + 2880 * 2880)
    assert by_part["experts"] == elements * 17 // 32 + 2 * 24 * 32 * (5760 + 2880)
    assert sum(by_part.values()) == 13_761_264_768


# ---- each scheme by hand ------------------------------------------------------------------------------------------

CT_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
FP8_ACT = {"num_bits": 8, "type": "float", "dynamic": True}
CASES: dict[str, tuple[dict[str, Any], float]] = {
    # 8 bits and an fp32 scale per 128×128 block; k_proj and v_proj are one block high.
    "fp8-block": (
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        LINEAR + 4 * LINEAR / 16384,
    ),
    "fp8-tensor": ({"quant_method": "fp8", "weight_block_size": None, "activation_scheme": "static"}, LINEAR + MATRICES * 4),
    "fbgemm": ({"quant_method": "fbgemm_fp8"}, LINEAR + ROWS * 4),
    "ct-fp8-channel": (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": FP8_ACT,
         "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}, "format": "float-quantized", "ignore": ["lm_head"]},
        LINEAR + ROWS * 2,
    ),
    "ct-w8a8": (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
         "input_activations": {"num_bits": 8, "type": "int", "dynamic": True},
         "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}, "format": "int-quantized", "ignore": ["lm_head"]},
        LINEAR + ROWS * 2,
    ),
    # 4 bits, a bf16 scale per 128 and two int64 for the shape: torch.tensor(weight.shape) in compressed-tensors 0.20.
    "ct-w4a16": (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": CT_INT4}},
         "format": "pack-quantized", "ignore": ["lm_head"]},
        LINEAR / 2 + LINEAR / 128 * 2 + MATRICES * 16,
    ),
    "ct-nvfp4": (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "format": "nvfp4-pack-quantized",
         "input_activations": {"num_bits": 4, "type": "float", "group_size": 16},
         "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}}}, "ignore": ["lm_head"]},
        LINEAR / 2 + LINEAR / 16 + MATRICES * 8,
    ),
    "ct-mxfp4": (
        {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "format": "mxfp4-pack-quantized",
         "weights": {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}}}, "ignore": ["lm_head"]},
        LINEAR / 2 + LINEAR / 32,
    ),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, LINEAR / 2 + LINEAR / 128 * 2.5),
    # Scale, 4-bit zero, and an int32 index per input: 256 six times and 512 once a layer.
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, LINEAR / 2 + LINEAR / 128 * 2.5 + 2 * (6 * 256 + 512) * 4),
    "gptq-one-group-3-bit": (
        {"quant_method": "gptq", "bits": 3, "group_size": -1, "desc_act": True},
        LINEAR * 3 / 8 + ROWS * (2 + 3 / 8) + 2 * (6 * 256 + 512) * 4,
    ),
    "modelopt-fp8": ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, LINEAR + MATRICES * 8),
    "modelopt-nvfp4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, LINEAR / 2 + LINEAR / 16 + MATRICES * 8),
    # nf4: an fp32 absmax per 64, and per matrix 16 fp32 of code book and about 100 bytes of state.
    "nf4": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, LINEAR / 2 + LINEAR / 64 * 4 + MATRICES * 164),
    "bnb-int8": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, LINEAR + ROWS * 4 + MATRICES),
    "torchao-int4": (
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 64}}}},
        LINEAR / 2 + LINEAR / 64 * 4,
    ),
    "torchao-int8": ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, LINEAR + ROWS * 2),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_schemes_by_hand(name: str) -> None:
    block, linear = CASES[name]
    assert size(llama(block)) == linear + REST


def test_mlx_quantises_the_tables_too() -> None:
    # 4 bits, a 16-bit scale and bias per 64; norms stay.
    assert size(llama({"bits": 4, "group_size": 64})) == (LINEAR + TABLES) * (4.5 / 8) + 2 * NORMS
    own = {"bits": 4, "group_size": 64, "model.layers.1.mlp.down_proj": {"bits": 8, "group_size": 64}, "lm_head": False}
    assert size(llama(own)) == (LINEAR + TABLES / 2) * (4.5 / 8) + 256 * 512 * 0.5 + TABLES + 2 * NORMS


def test_scales_of_qwens_blocks_are_bf16() -> None:
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = llama(block, model_type="qwen3", head_dim=64)
    assert size(found) == LINEAR + 2 * LINEAR / 16384 + REST + 2 * 2 * 2 * 64  # and four vectors of query and key norms


def test_blocks_that_do_not_divide_are_whole() -> None:
    # [130, 200] has 2 × 2 blocks of 128 × 128.
    kept = [checkpoint.Kept(FLOAT8, 1)]
    assert checkpoint.size(Weight("w", "mlp", 130, 200), kept) == 130 * 200 + 4 * 4


# ---- lists --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        (["model.layers.0.mlp.down_proj"], 256 * 512),  # a single layer
        (["model.language_model.layers.0.mlp.down_proj"], 256 * 512),  # under another prefix
        (["re:.*self_attn.*"], 2 * (2 * 256 * 256 + 2 * 128 * 256)),
        (["re:.*mlp\\.(gate|up|gate_up|down)_proj.*"], 2 * 3 * 512 * 256),
        (["model.layers.1*"], LINEAR // 2),
        (["model.layers.0.self_attn"], 0),  # a module that is no matrix: compressed-tensors compares whole names
        (["gate"], 0),  # a router's name is no part of gate_proj
        (["mtp.layers.0*", "vision_tower.layers.0.mlp.down_proj"], 0),  # another module's layer 0
        (["k_proj"], 0),
        (["*.mlp.up_proj"], 2 * 512 * 256),
    ],
)  # fmt: skip
def test_lists_of_what_stays(listed: list[str], kept: int) -> None:
    groups = {"group_0": {"targets": ["Linear"], "weights": CT_INT4}}
    found = llama(
        {"quant_method": "compressed-tensors", "config_groups": groups, "format": "pack-quantized", "ignore": ["lm_head", *listed]}
    )
    parts = [part for weight in checkpoint.read(found, formats.FORMATS["bf16"]).language for part in weight]  # type: ignore[union-attr]
    packed = sum(part.matrices for part in parts if part.scheme.bits == 4)
    assert size(found) == (LINEAR - kept) * 4.125 / 8 + packed * 16 + 2 * kept + REST


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        (["model.layers.0.self_attn"], 2 * 256 * 256 + 2 * 128 * 256),  # everything inside of it
        (["k_proj"], 2 * 128 * 256),  # a part of a path
        (["language_model.model.layers.0.mlp.down_proj"], 256 * 512),
    ],
)
def test_lists_that_name_what_lies_inside(listed: list[str], kept: int) -> None:
    """transformers' own quantisers compare with the beginning and the end of a path (should_convert_module)."""
    found = llama({"quant_method": "fbgemm_fp8", "modules_to_not_convert": listed})
    parts = [part for weight in checkpoint.read(found, formats.FORMATS["bf16"]).language for part in weight]  # type: ignore[union-attr]
    whole = llama({"quant_method": "fbgemm_fp8"})
    assert sum(part.matrices for part in parts if part.scheme.bits == 8) > 0
    rows = 4 * {2 * 256 * 256 + 2 * 128 * 256: 2 * 256 + 2 * 128, 2 * 128 * 256: 2 * 128, 256 * 512: 256}[kept]  # an fp32 scale each
    assert size(found) - size(whole) == kept - rows


def test_groups_with_targets_of_their_own() -> None:
    groups = {
        "group_0": {"targets": ["re:.*mlp.*"], "weights": CT_INT4, "format": "pack-quantized"},
        "group_1": {
            "targets": ["re:.*self_attn.*"],
            "input_activations": FP8_ACT,
            "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"},
        },
    }
    found = llama({"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ["lm_head"]})
    mlp = 2 * 3 * 512 * 256
    assert size(found) == mlp * 4.125 / 8 + 6 * 16 + (LINEAR - mlp) + 8 * 2 + REST


def test_mixed_precision_names_every_module() -> None:
    layers = {
        f"model.layers.{n}.mlp.{name}_proj": {"quant_algo": "NVFP4", "group_size": 16} for n in range(2) for name in ("gate", "up", "down")
    }
    layers |= {"model.layers.0.self_attn.o_proj": {"quant_algo": "FP8"}, "lm_head": {"quant_algo": "MXFP8"}}
    beside = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "kv_cache_quant_algo": "FP8"}}
    found = llama(beside=beside)
    mlp, one, head = 2 * 3 * 512 * 256, 256 * 256, 1000 * 256
    rest = LINEAR + TABLES + NORMS - mlp - one - head
    assert size(found) == mlp * 4.5 / 8 + 6 * 8 + one + 8 + head * 8.25 / 8 + 2 * rest


def test_single_experts_can_differ() -> None:
    over: dict[str, Any] = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    named = {f"model.layers.0.block_sparse_moe.experts.{e}.w1": {"quant_algo": "MXFP8"} for e in (0, 2, 3)}
    found = llama(beside={"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": named}}, **over)
    saved = 3 * 512 * 256 * (16 - 8.25) / 8
    assert size(found) == memory.weights(found, "bf16").results["weight_bytes"] - saved


def test_a_prediction_module_named_in_the_list_stays() -> None:
    # nvidia/Qwen3.5-397B-A17B-NVFP4 lists mtp.layers.0*: the module's layer, and not layer 0 of the model, is in bf16.
    results = memory.weights(bundled("nvidia/Qwen3.5-397B-A17B-NVFP4")).results
    assert results["weight_bytes"] + results["mtp_bytes"] == 247_205_075_936 + 3_930_125_312
    assert results["mtp_bytes"] == 2 * results["mtp_params"]


# ---- what is not known --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        {"quant_method": "frobnicate"},
        {"quant_method": "modelopt", "quant_algo": "W3A5"},
        {"quant_method": "torchao", "quant_type": "uintx_weight_only"},
        {"quant_method": "awq", "bits": "four", "group_size": 128},
        {"quant_method": "fp8", "weight_block_size": 128},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": CT_INT4}}, "ignore": ["re:("]},
    ],
)
def test_unknown_quantisers_are_errors(block: dict[str, Any]) -> None:
    found = llama(block)
    with pytest.raises(ConfigError) as problem:
        memory.weight_format(found, "auto")
    assert problem.value.code in ("unknown-quantization", "bad-quantization")
    assert problem.value.hint
    results = memory.weights(found)
    assert results.results["weight_bytes"] is None
    assert any("weight_bytes" in text for text in results.warnings)
    assert size(found, "bf16") == 2 * (LINEAR + TABLES + NORMS)


# ---- the cache of a quantised checkpoint --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "beside", "kv"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, None, "bf16"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, None, "bf16"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, None, "fp8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "int"}}, None, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": "FP8"}, None, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, {"quantization": {"kv_cache_quant_algo": "FP8"}}, "fp8"),
        (None, {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "NVFP4"}}, "nvfp4"),
        (None, {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}}, "bf16"),
        (None, {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "none"}}, "bf16"),
        ({"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj", "*v_proj"]}}, None, "fp8"),
    ],
)  # fmt: skip
def test_the_cache_has_the_scheme_that_is_stated(block: dict[str, Any] | None, beside: dict[str, Any] | None, kv: str) -> None:
    assert memory.kv_format(llama(block, beside), "auto")[0].name == kv


def test_fp8_weights_do_not_imply_an_fp8_cache() -> None:
    # MiniMax-M2: 62 layers of 8 KV heads of 128 at 196,608 tokens. A peer's page shows half of it.
    assert memory.kv(bundled("MiniMaxAI/MiniMax-M2"), 196_608).results["kv_bytes_total"] == 2 * 62 * 8 * 128 * 2 * 196_608 == 49_928_994_816


def test_an_unknown_cache_scheme_is_an_error() -> None:
    with pytest.raises(ConfigError, match="fp5"):
        memory.kv_format(llama({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP5"}), "auto")


def test_gpt2_without_a_dtype_is_fp32() -> None:
    # 124,439,808 parameters in the published file, four bytes each.
    raw = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
    assert size(model.read(raw)) == 124_439_808 * 4


# ---- named formats are files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fmt", "gib"),
    [
        # "Model loading took ..." of such files: vllm-project/vllm issues 10360, 13882, 11230, pull 12569; Qwen3.8-27B-FP8's 28.3.
        ("Qwen/Qwen2.5-32B-Instruct", "awq", 18.0),
        ("Qwen/Qwen2.5-7B-Instruct", "awq", 5.19),
        ("Qwen/Qwen2.5-72B-Instruct", "gptq", 38.53),
        ("meta-llama/Llama-3.3-70B-Instruct", "fp8", 67.7),
        ("meta-llama/Llama-3.1-70B-Instruct", "w8a8", 67.72),
        ("Qwen/Qwen3.5-27B", "fp8", 28.3),
        ("zai-org/GLM-4.7", "nvfp4", 4 * 47.11),
    ],
)
def test_a_named_format_keeps_what_its_files_keep(name: str, fmt: str, gib: float) -> None:
    found = load_model(name, offline=True)
    made, _ = memory.weight_format(found, fmt, engines.find("vllm"))
    assert memory.weight_bytes(found, made, "weight_bytes", lambda _: True, towers=True).value / 2**30 == pytest.approx(gib, rel=0.01)


def test_the_textbooks_names_mean_every_parameter() -> None:
    """int8, int4 and fp8 of the notes; what is named for a recipe is one everywhere; a desktop engine's files are its own."""
    found = load_model("meta-llama/Meta-Llama-3-8B", offline=True)
    for fmt, bits in (("int8", 8), ("fp8", 8), ("int4", 4.125)):
        assert memory.weight_format(found, fmt, engines.find("napkin"))[0].bits == bits
        assert memory.weight_format(found, fmt, engines.find("sglang"))[0].bits > bits * 1.1
    assert memory.weight_format(found, "awq")[0].bits > 5
    assert memory.weight_format(found, "mxfp4", engines.find("llama.cpp"))[0].bits == 4.25


@pytest.mark.parametrize(
    "listed",
    [
        [f"model.layers.{layer}.self_attn.o_proj" for layer in (0, 3, 10)],
        ["model.layers.1*", "model.layers.3.self_attn*", "model.layers.11.*"],
        ["re:.*layers..\\.mlp.*"],  # one sign: not layer 10
        ["re:model.layers...mlp.*", "re:.*layers\\.1.*"],
        ["re:.*mlp\\.(gate|up)_proj.*", "re:.*layers\\.\\d\\.self_attn.*"],
        ["layers.*.self_attn.o_proj", "*.1.mlp*", "model.layers.[13].*"],
        ["model.layers.7", "7.self_attn.q_proj", "model.layers.07.mlp"],
    ],
)
def test_layers_that_a_block_tells_apart(listed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer speaks for those of which the block says the same: as if every layer were asked."""
    blocks = (
        {"quant_method": "fp8", "modules_to_not_convert": listed},
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"], "weights": CT_INT4}}, "ignore": listed},
        {"quant_method": "gptq", "bits": 4, "dynamic": {f"-:{name.removeprefix('re:')}": {} for name in listed if name[:1] not in "*l"}},
        {"quant_method": "quark", "exclude": listed, "global_quant_config": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}}},
    )
    models = [llama(block, num_hidden_layers=12) for block in blocks]
    quick = [checkpoint.read(each, formats.FORMATS["bf16"]) for each in models]
    monkeypatch.setattr(whole, "numbered", lambda q: None)
    assert quick == [checkpoint.read(each, formats.FORMATS["bf16"]) for each in models]
