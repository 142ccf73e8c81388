"""Cases that people met with tools of this kind: what went wrong there, and the right answer here.

Each test carries the case's number and the address of the report. Values are written out, so that a change of the code
cannot change them too. Nothing outside the repository is needed.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from llmcalc import cli, data, units
from llmcalc import model as reader
from llmcalc.architecture import Model
from llmcalc.commands.common import load
from llmcalc.errors import ConfigError
from llmcalc.estimate import memory
from llmcalc.sources import read_bundled

MiB, GiB = 2**20, 2**30


def kv(model: Model | str, ctx: int, *, batch: int = 1, dtype: str = "bf16") -> dict[str, Any]:
    """Results of `kv`, with its rows by kind."""
    found = memory.kv(load(model, offline=True) if isinstance(model, str) else model, ctx, batch, dtype)
    return {**found.results, **{row["kind"]: row for row in found.rows}}


def changed(id: str, **keys: Any) -> Model:
    """A bundled model with some keys of its config replaced."""
    return reader.read({**read_bundled(id).config, **keys}, id=id)


GEMMA_4_12B = {
    "model_type": "gemma4_text",
    "num_hidden_layers": 48,
    "layer_types": ["sliding_attention" if (layer + 1) % 6 else "full_attention" for layer in range(48)],
    "hidden_size": 3840,
    "intermediate_size": 15360,
    "vocab_size": 262144,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "sliding_window": 1024,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "max_position_embeddings": 262144,
}
QWEN_27B = {
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 64,
    "full_attention_interval": 4,
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "vocab_size": 248320,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "max_position_embeddings": 262144,
}
"""Qwen3.6-27B and Qwen3.8-27B."""


def nemotron_nas(attending: int, layers: int, group: int, hidden: int) -> dict[str, Any]:
    """A pruned Llama: `attending` of its layers have attention, with `group` query heads per KV head."""
    full = {"attention": {"n_heads_in_group": group, "no_op": False}, "ffn": {"ffn_mult": 1.0, "no_op": False}}
    none = {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 1.0, "no_op": False}}
    return {
        "model_type": "nemotron-nas",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": hidden // 128,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "block_configs": [full] * attending + [none] * (layers - attending),
        "intermediate_size": None,
        "num_key_value_heads": None,
    }


# ---- bytes per token


PER_TOKEN = [
    # head_dim is a key of its own; hidden_size / heads would be 80 and give 92,160
    pytest.param("Qwen/Qwen3-4B", 147_456, id="github.com/LMCache/LMCache/issues/688"),
    # KV heads, not query heads
    pytest.param("meta-llama/Llama-3.1-8B", 131_072, id="github.com/jranaraki/vllm-fit/issues/2"),
    # one latent and one rotary key, and no factor of two
    pytest.param("deepseek-ai/DeepSeek-V3", 70_272, id="github.com/LMCache/LMCache/pull/694"),
    # the indexer's keys are cache as well: 61 × (512 + 64 + 128) × 2 B
    pytest.param("deepseek-ai/DeepSeek-V3.2-Exp", 85_888, id="github.com/sgl-project/sglang/pull/11309"),
    # ten of forty layers attend
    pytest.param("Qwen/Qwen3.6-35B-A3B", 20_480, id="github.com/manjunathshiva/turboquant-mlx/pull/52"),
    # blocks without attention hold nothing
    pytest.param("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 200_704, id="github.com/turboderp-org/exllamav2/pull/726"),
    # and 62 layers of eight heads
    pytest.param("Qwen/Qwen3-Coder-480B-A35B-Instruct", 253_952, id="github.com/vllm-project/recipes/pull/12"),
]


@pytest.mark.parametrize(("model", "expected"), PER_TOKEN)
def test_bytes_per_token(model: str, expected: int) -> None:
    assert kv(model, 1024)["kv_bytes_per_token"] == expected


def test_uc042_half_of_the_layers_of_a_253b_attend() -> None:
    """https://github.com/ggml-org/llama.cpp/pull/12843"""
    model = reader.read(nemotron_nas(attending=64, layers=162, group=16, hidden=16384))
    assert kv(model, 1024)["kv_bytes_per_token"] == 262_144


# ---- bytes per sequence


PER_SEQUENCE = [
    # the formula for MHA gave 2.08 GiB
    pytest.param("deepseek-ai/DeepSeek-V3.1", 163_840, "fp16", 1, 11_513_364_480, id="github.com/unslothai/unsloth/pull/4757"),
    # below the window every layer counts
    pytest.param("openai/gpt-oss-120b", 1, "bf16", 1, 73_728, id="github.com/alvarobartt/hf-mem/issues/60"),
    # a window that is switched off is none
    pytest.param("Qwen/Qwen2-72B-Instruct", 131_072, "bf16", 1, 40 * GiB, id="github.com/QwenLM/Qwen3/issues/716"),
    # 23 layers hold 4,096 tokens and 23 all 8,192; the window does not end the context
    pytest.param("google/gemma-2-27b-it", 8192, "bf16", 1, 2_315_255_808, id="github.com/vllm-project/vllm/issues/6220"),
    # eight KV heads
    pytest.param("meta-llama/Llama-3.1-405B-Instruct", 128_000, "fp16", 1, 66_060_288_000, id="github.com/huggingface/blog/issues/2345"),
    # q8_0 is 8.5 bits, and 8 bits would be 5,376 MiB
    pytest.param("mistralai/Mistral-Small-Instruct-2409", 49_152, "q8_0", 1, 5712 * MiB, id="github.com/ollama/ollama/issues/6160"),
    pytest.param("mistralai/Mistral-Small-Instruct-2409", 49_152, "int8", 1, 5376 * MiB, id="8 bits"),
    # fp8 weights do not make the cache fp8
    pytest.param("MiniMaxAI/MiniMax-M2", 196_608, "auto", 1, 49_928_994_816, id="github.com/alvarobartt/hf-mem/pull/54"),
    # one request at the full context
    pytest.param("Qwen/Qwen3-Coder-480B-A35B-Instruct", 262_144, "bf16", 1, 62 * GiB, id="github.com/vllm-project/recipes/pull/12"),
    # ten slots are ten caches
    pytest.param("Qwen/Qwen2.5-32B-Instruct", 8192, "fp16", 10, 20 * GiB, id="github.com/ollama/ollama/issues/10911"),
    # not 2.7 and not 5 GiB
    pytest.param("meta-llama/Llama-3.1-70B", 2048, "bf16", 1, 640 * MiB, id="peakinfer.com what-changes-when-100-users"),
    pytest.param("meta-llama/Llama-3.1-70B", 2048, "bf16", 100, 64_000 * MiB, id="of a hundred users"),
]


@pytest.mark.parametrize(("model", "ctx", "dtype", "batch", "expected"), PER_SEQUENCE)
def test_bytes_of_all_sequences(model: str, ctx: int, dtype: str, batch: int, expected: int) -> None:
    assert kv(model, ctx, dtype=dtype, batch=batch)["kv_bytes_total"] == expected


def test_uc044_twice_the_kv_heads_are_twice_the_cache() -> None:
    """Another revision of the same repository has 16 KV heads: 123.05 GiB. https://github.com/huggingface/blog/issues/2345"""
    doubled = changed("meta-llama/Llama-3.1-405B-Instruct", num_key_value_heads=16)
    assert kv(doubled, 128_000)["kv_bytes_per_sequence"] == 132_120_576_000


def test_uc027_the_switch_and_not_the_value_makes_a_window() -> None:
    """With it on, the layers from max_window_layers have the window. https://github.com/QwenLM/Qwen3/issues/716"""
    on = changed("Qwen/Qwen2-72B-Instruct", use_sliding_window=True, sliding_window=4096, max_window_layers=40)
    assert kv(on, 131_072)["kv_bytes_per_sequence"] == 20 * GiB + 40 * 4096 * 4096


def test_uc013_full_and_windowed_layers_apart() -> None:
    """3.0 GiB and 3 MiB, not 6.0 GiB. https://github.com/gpustack/gguf-parser-go/issues/32"""
    found = kv("openai/gpt-oss-20b", 131_072, dtype="fp16")
    assert found["full"]["bytes_per_sequence"] == 3 * GiB
    assert found["window"]["bytes_per_sequence"] == 3 * MiB
    assert found["window"]["window_tokens"] == 128
    assert found["kv_bytes_per_sequence_full_attention"] == 6 * GiB


def test_uc017_two_shapes_of_layers() -> None:
    """50 layers of 16 KiB and 10 of 8 KiB; without windows 220 GiB. https://github.com/vllm-project/vllm-metal/issues/505"""
    found = kv("google/gemma-4-31B", 262_144)
    assert found["kv_bytes_per_token"] == 901_120
    assert found["kv_bytes_per_token_beyond_window"] == 81_920
    assert found["kv_bytes_per_sequence_full_attention"] == 220 * GiB
    assert 20.13 * GiB / found["kv_bytes_per_token"] == pytest.approx(23_984, rel=1e-3)
    assert found["kv_bytes_per_sequence"] == 10 * 8192 * 262_144 + 50 * 16_384 * 1024


def test_uc023_full_layers_have_one_wide_head() -> None:
    """https://github.com/tmac1973/llama-toolchest/pull/58"""
    model = reader.read(GEMMA_4_12B)
    assert kv(model, 131_072, dtype="q8_0")["full"]["bytes_per_sequence"] == 1_140_850_688  # 1.0625 GiB
    assert kv(model, 131_072, dtype="fp16")["window"]["bytes_per_sequence"] == 335_544_320  # 0.3125 GiB


def test_uc030_cache_and_state_of_a_hybrid() -> None:
    """16 GiB of cache; state of 144 MiB in fp32, and the convolution's. https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1862"""
    model = reader.read(QWEN_27B)
    found = kv(model, 262_144, dtype="fp16", batch=4)
    assert found["full"]["bytes_per_sequence"] == 16_384 * MiB
    assert found["state_bytes_per_sequence"] == (144 + 2.8125) * MiB  # the convolution in 16 bits
    assert kv(model, 262_144, dtype="fp32")["state_bytes_per_sequence"] * 4 == 598.5 * MiB  # the log's engine keeps it in 32
    assert found["kv_bytes_total"] == 4 * found["kv_bytes_per_sequence"]


@pytest.mark.parametrize(("ctx", "gib"), [(4096, 0.40), (40_223, 2.61), (262_144, 16.15)])
def test_uc032_a_fixed_part_and_a_slope(ctx: int, gib: float) -> None:
    """https://github.com/unslothai/unsloth/pull/9525"""
    assert kv(reader.read(QWEN_27B), ctx, dtype="fp16")["kv_bytes_per_sequence"] / GiB == pytest.approx(gib, abs=0.015)


def test_uc038_fixed_cost_and_slope_of_compressed_layers() -> None:
    """Dividing a total by its tokens says nothing. https://github.com/vllm-project/vllm/issues/51041"""
    short, long = (kv("deepseek-ai/DeepSeek-V4-Flash", ctx) for ctx in (51_200, 512_000))
    slope = short["kv_bytes_per_token_beyond_window"]
    assert long["kv_bytes_per_sequence"] - short["kv_bytes_per_sequence"] == slope * (512_000 - 51_200)
    assert short["kv_bytes_per_sequence"] / 51_200 > long["kv_bytes_per_sequence"] / 512_000
    assert short["kv_bytes_per_sequence"] - slope * 51_200 == 43 * 128 * 512 * 2  # the windows of 43 layers


def test_uc040_a_first_layer_without_attention() -> None:
    """Six of sixteen layers attend. https://github.com/gpustack/gguf-parser-go/issues/31"""
    found = kv("LiquidAI/LFM2-1.2B", 32_768, dtype="fp16")
    assert found["full"]["bytes_per_sequence"] == 384 * MiB
    assert found["full"]["layers"] == 6
    assert found["short-conv"]["state_bytes"] == 10 * 2048 * 2 * 2


@pytest.mark.parametrize("ctx", [1, 100, 1024, 5000, 100_000])
@pytest.mark.parametrize(
    "id",
    ["google/gemma-4-31B", "Qwen/Qwen3.6-35B-A3B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V4-Flash", "meta-llama/Llama-3.1-8B"],
)
def test_uc021_the_figures_of_one_report_agree(id: str, ctx: int) -> None:
    """The cost is fixed + linear, and the parts are given. https://github.com/redhat-performance/configiq/issues/112"""
    found = memory.kv(load(id, offline=True), ctx, 3, "bf16")
    results, rows = found.results, found.rows
    assert results["kv_bytes_total"] == 3 * results["kv_bytes_per_sequence"]
    assert sum(row["bytes_per_sequence"] for row in rows) == results["kv_bytes_per_sequence"]
    assert sum(row["bytes_per_token"] for row in rows) == pytest.approx(results["kv_bytes_per_token"], rel=1e-12)
    assert sum(row["state_bytes"] for row in rows) == results["state_bytes_per_sequence"]
    if "V4" not in id:  # whose layers hold a window and finished groups of tokens
        held = sum(row["bytes_per_token"] * min(ctx, row["window_tokens"] or ctx) for row in rows)
        assert held + results["state_bytes_per_sequence"] == results["kv_bytes_per_sequence"]


# ---- weights


def test_uc050_packed_words_are_not_parameters() -> None:
    """A 4-bit checkpoint of an 8B has 8B parameters, not 2B. https://github.com/huggingface/huggingface.js/pull/1770"""
    scheme = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
    model = changed("meta-llama/Llama-3.1-8B", quantization_config=scheme)
    assert memory.weights(model).results["language_params"] == 8_030_261_248


def test_uc056_gib_is_not_gb(capsys: pytest.CaptureFixture[str]) -> None:
    """131.4 GiB are 141.1 GB. https://github.com/llm-d/llm-d-benchmark/pull/381"""
    found = memory.weights(load("meta-llama/Llama-3.1-70B-Instruct", offline=True)).results
    assert found["language_params"] == 70_553_706_496
    assert found["weight_bytes"] == 141_107_412_992
    assert found["weight_bytes"] / GiB == pytest.approx(131.42, abs=0.005)
    assert cli.main(["weights", "-m", "meta-llama/Llama-3.1-70B-Instruct"]) == 0
    shown = capsys.readouterr().out
    assert "131.4 GiB" in shown and not re.search(r"131\.4\d* GB", shown)


def test_uc058_parts_of_a_35b() -> None:
    """34.66 of the language model, 0.845 to predict further tokens, 0.447 to see. https://github.com/0xBakeer/inference-atlas/pull/153"""
    found = memory.weights(load("Qwen/Qwen3.6-35B-A3B", offline=True)).results
    assert found["language_params"] / 1e9 == pytest.approx(34.661, abs=0.001)
    assert found["mtp_params"] / 1e9 == pytest.approx(0.845, abs=0.001)
    assert found["tower_params"] / 1e9 == pytest.approx(0.447, abs=0.001)
    everything = found["total_params"] + found["mtp_params"]
    assert everything / 1e9 == pytest.approx(35.952, abs=0.001)


def test_uc060_a_gguf_mix_is_not_its_nominal_bits() -> None:
    """https://github.com/ggml-org/llama.cpp/blob/master/tools/quantize/README.md"""
    found = memory.weights(load("meta-llama/Llama-3.1-8B", offline=True), "q4_k_m").results
    assert found["bits_per_weight"] == pytest.approx(4.8944, abs=1e-6)
    assert found["weight_bytes"] / GiB == pytest.approx(4.58, abs=0.01)


def test_uc048_expert_weights_stand_apart_from_the_rest() -> None:
    """Only they are divided by expert parallelism. https://github.com/ai-dynamo/aiconfigurator/pull/1390"""
    parts = {row["part"]: row for row in memory.weights(load("moonshotai/Kimi-K2-Instruct", offline=True), "bf16").rows}
    one = 3 * 7168 * 2048
    assert parts["experts"]["params"] == 60 * 384 * one
    assert parts["experts"]["active_params"] == 60 * 8 * one
    assert parts["shared experts"]["params"] == 60 * one


# ---- configs


def test_uc123_no_code_of_the_repository_is_run(tmp_path: Path) -> None:
    """Names of remote code are understood, the code is not touched. https://github.com/huggingface/transformers/issues/22692"""
    config = {
        **read_bundled("THUDM/chatglm3-6b").config,
        "auto_map": {"AutoConfig": "configuration_chatglm.ChatGLMConfig", "AutoModel": "modeling_chatglm.ChatGLMModel"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    for name in ("configuration_chatglm.py", "modeling_chatglm.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", "utf-8")
    assert kv(str(tmp_path), 1024)["kv_bytes_per_token"] == 28 * 2 * 2 * 128 * 2  # 2 groups of 128
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("field", ["num_layers", "hidden_size", "num_attention_heads"])
def test_uc123_a_missing_field_of_remote_code_is_named(field: str) -> None:
    config = dict(read_bundled("THUDM/chatglm3-6b").config)
    del config[field]
    with pytest.raises(ConfigError) as refused:
        reader.read(config)
    assert refused.value.code == "missing-field" and field in refused.value.message and field in (refused.value.hint or "")


def test_uc123_an_unknown_type_is_not_guessed() -> None:
    with pytest.raises(ConfigError) as refused:
        reader.read({"model_type": "llamma", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32})
    assert refused.value.code == "unknown-model-type" and "llama" in (refused.value.hint or "")


@pytest.mark.parametrize("field", ["num_layers", "hidden_size", "num_attention_heads", "padded_vocab_size"])
@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -1, 0, "many"])
def test_uc133_no_number_is_made_up(field: str, value: Any) -> None:
    """https://github.com/sammcj/gollama/issues/117"""
    with pytest.raises(ConfigError) as refused:
        reader.read({**read_bundled("THUDM/chatglm3-6b").config, field: value})
    assert field in refused.value.message


@pytest.mark.parametrize("id", ["openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V4-Flash", "LiquidAI/LFM2-1.2B", "Qwen/Qwen3.6-35B-A3B"])
@pytest.mark.parametrize("command", ["kv", "weights"])
def test_uc133_json_holds_no_nan(command: str, id: str, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert cli.main([command, "-m", id, "--json", "--explain"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert all(value is None or math.isfinite(value) for value in found["results"].values())


# ---- the command line


def test_uc125_json_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where there is something to warn of. https://github.com/entrius/gittensor/issues/956"""
    assert cli.main(["kv", "-m", "Qwen/Qwen3-4B", "--ctx", "10M", "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    assert any("beyond the model's own maximum" in warning for warning in found["warnings"])
    assert found["inputs"]["ctx_tokens"] == 10 * MiB


def test_uc125_warnings_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kv", "-m", "Qwen/Qwen3-4B", "--ctx", "10M", "-f", "csv"]) == 0
    said = capsys.readouterr()
    assert "beyond the model's own maximum" in said.err and "beyond" not in said.out.replace("beyond_window", "")
    assert "warnings.warn" not in said.err and ".py:" not in said.err


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["kv", "-m", "no-such-folder/config.json"], None, 1),
        (["kv", "-m", "Qwen/Qwen3-4B", "--ctx", "many"], "bad-tokens", 2),
        (["kv", "-m", "Qwen/Qwen3-4B", "--kv-dtype", "fp3"], "unknown-format", 2),
        (["kv", "-m", "Qwen/Qwen3-4B", "--batch", "-3"], "bad-value", 2),
        (["kv", "--modell", "Qwen/Qwen3-4B"], "usage", 2),
        (["kv"], "usage", 2),
    ],
)
def test_uc125_errors_in_json_have_one_shape(
    arguments: list[str], code: str | None, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments, "--json"]) == status
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert said.err == "" and set(found) == {"schema", "command", "error"} and found["command"] == "kv"
    assert set(found["error"]) == {"code", "message", "hint"} and found["error"]["message"]
    assert code is None or found["error"]["code"] == code


@pytest.mark.parametrize("width", ["40", "60", "200"])
def test_uc129_a_narrow_terminal_keeps_numbers_whole(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """https://github.com/huggingface/huggingface_hub/blob/main/docs/source/en/guides/cli.md"""
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.main(["kv", "-m", "openai/gpt-oss-20b", "--ctx", "131072"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for figure in (" 48 KiB", " 24 KiB", " 3.00 GiB", " 6 GiB", " 131,072", " 4,096", "131,072 tokens"):
        assert any(figure in line for line in lines), figure


def test_uc131_a_context_word_is_echoed_as_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    """128k are 131,072 tokens and 16 GiB; 128,000 are 15.625. https://github.com/huggingface/blog/issues/2345"""
    for word, tokens, expected in (("128k", 131_072, 16.0), ("128000", 128_000, 15.625), ("131_072", 131_072, 16.0)):
        assert units.tokens(word) == tokens
        assert cli.main(["kv", "-m", "meta-llama/Llama-3.1-8B", "-c", word, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["inputs"]["ctx_tokens"] == tokens
        assert found["results"]["kv_bytes_per_sequence"] / GiB == expected
    assert cli.main(["kv", "-m", "meta-llama/Llama-3.1-8B", "-c", "128k"]) == 0
    assert "131,072 tokens" in capsys.readouterr().out


def test_uc076_an_assumed_context_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """https://github.com/AlexsJones/llmfit/issues/302"""
    assert cli.main(["kv", "-m", "meta-llama/Llama-3.1-8B", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"]["ctx_tokens"] == 131_072
    assert any("131,072" in text and "not given" in text for text in found["assumptions"])


def test_uc137_only_absolute_xdg_paths_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """https://github.com/Andyyyy64/whichllm/blob/main/CHANGELOG.md"""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/dir")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/somewhere/x")
    assert data.user_cache().is_absolute() and str(data.user_cache()).startswith(str(tmp_path))
    assert data.user_config() == Path("/somewhere/x/llmcalc")


def test_uc137_a_home_that_cannot_be_written_does_not_matter(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, "/proc/no-such-place")
    assert cli.main(["kv", "-m", "Qwen/Qwen3-4B", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["kv_bytes_per_token"] == 147_456
