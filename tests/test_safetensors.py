"""safetensors: files written by the format's own package, read back; hostile files; what makes files and figures differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_server import FakeHub
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcalc import safetensors, sources
from llmcalc.commands import common
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import memory, weight_files
from llmcalc.files import Blob

package = pytest.importorskip("safetensors", reason="development dependency")
ROOT = Path(__file__).resolve().parent.parent
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "int32": 4, "uint8": 1, "float8_e4m3fn": 1, "int64": 8}
Shapes = dict[str, tuple[tuple[int, ...], str]]
HIDDEN, INNER, VOCAB, DEPTH = 64, 128, 100, 2
LLAMA: dict[str, Any] = {
    "model_type": "llama", "num_hidden_layers": DEPTH, "hidden_size": HIDDEN, "intermediate_size": INNER, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": VOCAB, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "max_position_embeddings": 512,
}  # fmt: skip
# Two tables, a norm; per layer q and o 64 x 64, k and v 32 x 64, 3 x 128 x 64, two norms.
PARAMS = 2 * 6400 + 64 + DEPTH * (2 * 4096 + 2 * 2048 + 3 * 8192 + 128)


ZEROS = np.zeros(2**20, np.uint8)


def spec(shape: tuple[int, ...], kind: str) -> Any:
    size = prod(shape) * WIDTHS[kind]
    assert size <= ZEROS.nbytes
    return package.TensorSpec(dtype=kind, shape=list(shape), data_ptr=ZEROS.ctypes.data, data_len=size)


def save(path: Path, shapes: Shapes) -> None:
    package.serialize_file({name: spec(*value) for name, value in shapes.items()}, path)


def linear(name: str, out: int, into: int, kind: str = "bfloat16") -> Shapes:
    return {f"{name}.weight": ((out, into), kind)}


def llama(kind: str = "bfloat16") -> Shapes:
    found = {
        **linear("model.embed_tokens", VOCAB, HIDDEN),
        **linear("lm_head", VOCAB, HIDDEN),
        "model.norm.weight": ((HIDDEN,), "bfloat16"),
    }
    for index in range(DEPTH):
        at = f"model.layers.{index}"
        for name, out, into in matrices():
            found |= linear(f"{at}.{name}", out, into, kind)
        found |= {f"{at}.{name}.weight": ((HIDDEN,), "bfloat16") for name in ("input_layernorm", "post_attention_layernorm")}
    return found


def matrices() -> list[tuple[str, int, int]]:
    found = [(f"self_attn.{name}_proj", out, HIDDEN) for name, out in (("q", 64), ("k", 32), ("v", 32), ("o", 64))]
    return [*found, ("mlp.gate_proj", INNER, HIDDEN), ("mlp.up_proj", INNER, HIDDEN), ("mlp.down_proj", HIDDEN, INNER)]


def folder(path: Path, config: dict[str, Any], shapes: Shapes, shards: int = 1) -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save(path / "model.safetensors", shapes)
        return path
    where = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        own = dict(list(shapes.items())[number::shards])
        save(path / name, own)
        where |= dict.fromkeys(own, name)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return path


def compare(path: Path, weights: str = "auto") -> dict[str, Any]:
    found = sources.find(str(path))
    model = common.of_source(found)
    computed = memory.weights(model, weights)
    files = sources.weight_files(found)
    estimate = weight_files.compare(files, model, computed)
    r = estimate.results
    if r["file_difference_bytes"] is not None:
        # What is listed is the whole of the difference, always.
        assert sum(one["bytes"] for one in r["file_differences"]) == r["file_difference_bytes"]
    by_reason = {one["reason"]: one["bytes"] for one in r["file_differences"]}
    return {
        **r,
        "reasons": by_reason,
        "rows": {row["part"]: row for row in estimate.rows},
        "warnings": estimate.warnings,
        "computed": computed.results,
    }


# Files that agree, and the reasons for those that do not ------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
def test_a_checkpoint_to_the_byte(tmp_path: Path, shards: int) -> None:
    r = compare(folder(tmp_path / "m", LLAMA, llama(), shards))
    assert (r["file_count"], r["file_params"], r["file_tensor_bytes"]) == (shards, PARAMS, 2 * PARAMS)
    assert (r["file_bytes_by_dtype"], r["file_bits_per_weight"]) == ({"BF16": 2 * PARAMS}, 16)
    assert (r["file_difference_bytes"], r["file_differences"], r["extra_files"], r["warnings"]) == (0, (), (), ())
    assert r["file_bytes"] == sum(path.stat().st_size for path in (tmp_path / "m").glob("*.safetensors"))
    assert all(row["params"] == row["file_params"] and row["bytes"] == row["file_bytes"] for row in r["rows"].values())


def test_only_the_shards_that_the_index_names(tmp_path: Path) -> None:
    """quip-sharp #46: a repository with two sets of shards; the old one doubled the size."""
    path = folder(tmp_path / "m", LLAMA, llama(), 2)
    for number in range(4):
        save(path / f"model-{number + 1:05}-of-00004.safetensors", dict(list(llama().items())[number::4]))
    save(path / "consolidated.safetensors", llama())
    r = compare(path)
    assert (r["file_count"], r["file_tensor_bytes"]) == (2, 2 * PARAMS)
    assert len(r["extra_files"]) == 5
    assert {one["why"] for one in r["extra_files"]} == {"not named by model.safetensors.index.json"}


def test_shards_without_an_index(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", LLAMA, llama(), 2)
    (path / "model.safetensors.index.json").unlink()
    assert compare(path)["file_tensor_bytes"] == 2 * PARAMS
    save(path / "model-00001-of-00003.safetensors", llama())
    with pytest.raises(LlmcalcError) as caught:
        compare(path)
    assert caught.value.code == "several-models" and "2 sets of safetensors files" in caught.value.message


def test_a_missing_shard(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", LLAMA, llama(), 3)
    (path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(LlmcalcError) as caught:
        compare(path)
    assert caught.value.code == "missing-shard" and "first model-00002-of-00003.safetensors" in caught.value.message


def test_a_stored_copy_of_the_tied_head(tmp_path: Path) -> None:
    r = compare(folder(tmp_path / "m", {**LLAMA, "tie_word_embeddings": True}, llama()))
    assert r["reasons"] == {"a stored copy of the tied head": VOCAB * HIDDEN * 2}


def test_frequencies_of_the_rotary_embedding(tmp_path: Path) -> None:
    shapes = llama() | {f"model.layers.{index}.self_attn.rotary_emb.inv_freq": ((8,), "float32") for index in range(DEPTH)}
    r = compare(folder(tmp_path / "m", LLAMA, shapes))
    assert r["reasons"] == {safetensors.NO_PARAMETERS["buffers"]: DEPTH * 8 * 4}
    assert r["file_params"] == PARAMS


def test_a_part_in_another_dtype(tmp_path: Path) -> None:
    shapes = {name: (shape, "float32" if "norm" in name else kind) for name, (shape, kind) in llama().items()}
    r = compare(folder(tmp_path / "m", LLAMA, shapes))
    assert r["reasons"] == {"norms: stored as F32": (2 * DEPTH + 1) * HIDDEN * 2}
    assert r["rows"]["norms"]["file_dtypes"] == "F32"
    named = compare(tmp_path / "m", "fp8")
    assert named["reasons"]["mlp: stored as BF16"] == DEPTH * 3 * INNER * HIDDEN


def test_a_matrix_that_the_config_does_not_describe(tmp_path: Path) -> None:
    r = compare(folder(tmp_path / "m", LLAMA, llama() | linear("model.layers.0.mlp.extra_proj", 10, 10)))
    assert r["reasons"] == {"mlp: 100 parameters more than computed": 200}
    fewer = llama()
    fewer.pop("model.layers.1.mlp.up_proj.weight")
    r = compare(folder(tmp_path / "n", LLAMA, fewer))
    assert r["reasons"] == {"mlp: 8,192 parameters fewer than computed": -16_384}


MOE: dict[str, Any] = {
    **{key: value for key, value in LLAMA.items() if key != "intermediate_size"}, "model_type": "glm4_moe", "intermediate_size": INNER,
    "moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "head_dim": 16, "attention_bias": False, "use_qk_norm": False, "num_nextn_predict_layers": 1,
}  # fmt: skip


def glm(mtp: bool) -> Shapes:
    found = llama()
    for index in (1, 2) if mtp else (1,):
        at = f"model.layers.{index}"
        for name in ("gate", "up", "down"):
            found.pop(f"{at}.mlp.{name}_proj.weight", None)
            for expert in (*(f"experts.{number}" for number in range(4)), "shared_experts"):
                out, into = (64, 32) if name == "down" else (32, 64)
                found |= linear(f"{at}.mlp.{expert}.{name}_proj", out, into)
        found |= {f"{at}.mlp.gate.weight": ((4, HIDDEN), "float32"), f"{at}.mlp.gate.e_score_correction_bias": ((4,), "float32")}
    if mtp:
        found |= linear("model.layers.2.eh_proj", HIDDEN, 2 * HIDDEN)
    return found


def test_prediction_layers_routers_and_balancing_biases(tmp_path: Path) -> None:
    without = compare(folder(tmp_path / "n", MOE, glm(False)))
    assert any("no multi-token-prediction layers" in text for text in without["warnings"])
    # The router of one sparse layer is in fp32. Its four balancing biases are no parameters, and both figures have them.
    assert without["reasons"] == {"router: stored as F32": 4 * HIDDEN * 2}
    r = compare(folder(tmp_path / "m", MOE, glm(True)))
    more = 2 * (3 * 5 * 32 * 64 + HIDDEN * 2 * HIDDEN) + 4 * (4 * HIDDEN + 4)
    assert r["reasons"] == {**without["reasons"], "multi-token prediction, not in the total": more}
    assert r["file_params"] - without["file_params"] == 3 * 5 * 32 * 64 + HIDDEN * 2 * HIDDEN + 4 * HIDDEN + 4


# Packed checkpoints --------------------------------------------------------------------------------------------------


def packed(style: str) -> Shapes:
    """Every matrix of a layer in groups of 32, as each quantiser names and packs it."""
    found = {name: value for name, value in llama().items() if "_proj" not in name}
    for index in range(DEPTH):
        for name, out, into in matrices():
            at, groups = f"model.layers.{index}.{name}", into // 32
            if style == "gptq":
                found |= {f"{at}.qweight": ((into // 8, out), "int32"), f"{at}.qzeros": ((groups, out // 8), "int32")}
                found |= {f"{at}.scales": ((groups, out), "float16"), f"{at}.g_idx": ((into,), "int32")}
            elif style == "awq":
                found |= {f"{at}.qweight": ((into, out // 8), "int32"), f"{at}.qzeros": ((groups, out // 8), "int32")}
                found |= {f"{at}.scales": ((groups, out), "float16")}
            elif style == "w4a16":
                found |= {f"{at}.weight_packed": ((out, into // 8), "int32"), f"{at}.weight_shape": ((2,), "int64")}
                found |= {f"{at}.weight_scale": ((out, groups), "bfloat16")}
            elif style == "nvfp4":
                found |= {f"{at}.weight": ((out, into // 2), "uint8"), f"{at}.weight_scale": ((out, into // 16), "float8_e4m3fn")}
                found |= {f"{at}.weight_scale_2": ((), "float32"), f"{at}.input_scale": ((), "float32")}
            elif style == "bnb":
                found |= {f"{at}.weight": ((out * into // 2, 1), "uint8"), f"{at}.weight.absmax": ((out * into // 64,), "float32")}
                found |= {f"{at}.weight.quant_map": ((16,), "float32"), f"{at}.weight.quant_state.bitsandbytes__nf4": ((100,), "uint8")}
            elif style == "fp8":
                found |= {f"{at}.weight": ((out, into), "float8_e4m3fn"), f"{at}.weight_scale_inv": ((1, 1), "float32")}
    return found


QUANT: dict[str, dict[str, Any]] = {
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"},
    "w4a16": {
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 32, "strategy": "group", "symmetric": True, "type": "int"}}},
    },
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
    "bnb": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": False},
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip


@pytest.mark.parametrize("style", list(QUANT))
def test_words_that_hold_several_values(tmp_path: Path, style: str) -> None:
    """huggingface.js #1770: an int4 checkpoint of 8.0 B was shown as 2.0 B; scales, zeros and orders are no parameters."""
    r = compare(folder(tmp_path / "m", {**LLAMA, "quantization_config": QUANT[style]}, packed(style)))
    assert r["file_params"] == PARAMS
    assert r["file_tensor_bytes"] == sum(prod(shape) * WIDTHS[kind] for shape, kind in packed(style).values())
    assert r["file_difference_bytes"] == 0


def test_packed_words_that_nothing_explains(tmp_path: Path) -> None:
    r = compare(folder(tmp_path / "m", LLAMA, packed("gptq")))
    assert r["file_params"] is None
    assert any("file_params: packed words" in text for text in r["warnings"])


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.embed_tokens.weight", "embedding"),
        ("transformer.wte.weight", "embedding"),
        ("transformer.wpe.weight", "positions"),
        ("lm_head.weight", "head"),
        ("model.layers.3.self_attn.q_proj.weight", "attention"),
        ("model.layers.3.self_attn.q_norm.weight", "norms"),
        ("model.layers.3.self_attn.k_scale", "attention"),
        ("model.layers.3.self_attn.sinks", "attention"),
        ("model.layers.3.linear_attn.conv1d.weight", "state"),
        ("model.layers.3.linear_attn.in_proj_qkvz.weight", "attention"),
        ("model.layers.3.linear_attn.A_log", "state"),
        ("model.layers.3.mlp.gate_proj.weight", "mlp"),
        ("model.layers.3.mlp.gate.weight", "router"),
        ("model.layers.3.mlp.gate.e_score_correction_bias", "balancing bias"),
        ("model.layers.3.mlp.experts.7.down_proj.weight", "experts"),
        ("model.layers.3.mlp.experts.gate_up_proj_blocks", "experts"),
        ("model.layers.3.mlp.experts.gate_up_proj_scales", "experts"),
        ("model.layers.3.mlp.shared_expert.up_proj.weight", "shared experts"),
        ("model.layers.3.mlp.shared_expert_gate.weight", "router"),
        ("model.layers.3.block_sparse_moe.gate.weight", "router"),
        ("model.layers.3.input_layernorm.weight", "norms"),
        ("model.layers.3.post_feedforward_layernorm_1.weight", "norms"),
        ("model.layers.61.self_attn.q_proj.weight", "mtp"),
        ("mtp.fc.weight", "mtp"),
        ("h.0.attn.bias", "buffers"),
        ("h.0.ln_1.weight", "norms"),
        ("model.visual.blocks.30.attn.qkv.weight", "vision"),
        ("vision_tower.vision_model.encoder.layers.70.self_attn.q_proj.weight", "vision"),
        ("audio_tower.layers.0.fc1.weight", "audio"),
        ("multi_modal_projector.linear_1.weight", "projector"),
        ("backbone.layers.3.mixer.D", "state"),
        ("model.layers.3.mlp.down_proj.g_idx", "mlp"),
    ],
)
def test_part_of_a_name(name: str, part: str) -> None:
    assert safetensors.part(name, 61) == part


# Hostile files -------------------------------------------------------------------------------------------------------


def raw(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it has 0 bytes"),
        (b"1234567", "it has 7 bytes"),
        ((2**63).to_bytes(8, "little") + bytes(24), "its header would have 9,223,372,036,854,775,808 bytes"),
        ((1000).to_bytes(8, "little") + bytes(24), "its header of 1,000 bytes reaches beyond the end"),
        (raw(b"{"), "its header is not JSON"),
        (raw(b"\xff\xfe"), "its header is not UTF-8"),
        (raw(b"[" * 100_000), "its header is"),
        (raw([1]), "its header is no JSON object"),
        (raw(b'{"t": {}, "t": {}}'), "it holds a name twice"),
        (raw({"t": 1}), "tensor t has no description"),
        (raw({"t": entry(dtype=None)}), "tensor t has no dtype"),
        (raw({"t": entry(shape=[2**70])}), "tensor t has no shape"),
        (raw({"t": entry(shape=[-1])}), "tensor t has no shape"),
        (raw({"t": entry(shape="x")}), "tensor t has no shape"),
        (raw(b'{"t": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 8]}}'), "tensor t has no shape"),
        (raw({"t": entry(offsets=[8, 0])}), "tensor t has no data_offsets"),
        (raw({"t": entry(offsets=[0])}), "tensor t has no data_offsets"),
        (raw({"t": entry(shape=[3])}), "tensor t of F32 and shape [3] takes 8 bytes"),
        (raw({"\x1b[2J": 1}), r"tensor \x1b[2J has no description"),
        (b"GGUF" + bytes(100), "its header would have"),
    ],
)
def test_hostile(tmp_path: Path, content: bytes, says: str) -> None:
    path = folder(tmp_path / "m", LLAMA, llama())
    (path / "model.safetensors").write_bytes(content)
    with pytest.raises(LlmcalcError) as caught:
        compare(path)
    problem = caught.value
    assert (problem.code, problem.exit_code) == ("bad-safetensors", 1)
    assert says in problem.message and problem.message.isprintable() and problem.hint


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("{", "it is not JSON"),
        ("[]", "it has no weight_map"),
        ('{"weight_map": {}}', "it has no weight_map"),
        ('{"weight_map": {"a": 1}}', "it has no weight_map"),
        ('{"weight_map": {"a": "../../etc/passwd"}}', "it names the file ../../etc/passwd"),
        ('{"weight_map": {"a": "/etc/passwd"}}', "it names the file /etc/passwd"),
    ],
)
def test_hostile_index(tmp_path: Path, index: str, says: str) -> None:
    path = folder(tmp_path / "m", LLAMA, llama())
    (path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(LlmcalcError) as caught:
        compare(path)
    assert caught.value.code == "bad-safetensors" and says in caught.value.message


def test_an_incomplete_download_is_said(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", LLAMA, llama())
    file = path / "model.safetensors"
    os.truncate(file, file.stat().st_size - 1000)
    r = compare(path)
    assert r["file_tensor_bytes"] == 2 * PARAMS
    assert any("is not complete" in text for text in r["warnings"])


def test_no_weights_beside_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    with pytest.raises(LlmcalcError) as caught:
        compare(tmp_path)
    assert caught.value.code == "no-weights"


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_fuzz(data: st.DataObject) -> None:
    content = bytearray(package.serialize({"a": spec((2, 2), "float32")}))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    kept = bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        safetensors.header(Blob("f", len(kept), lambda at, count: kept[at : at + count], 16))
    except LlmcalcError as problem:
        assert problem.message.isprintable()


def test_only_the_header_is_read(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", LLAMA, llama()) / "model.safetensors"
    last = 0

    def read(offset: int, count: int) -> bytes:
        nonlocal last
        last = max(last, offset + count)
        return path.read_bytes()[offset : offset + count]

    _, asked = safetensors.header(Blob("f", path.stat().st_size, read, 64))
    assert asked == path.stat().st_size
    assert last == asked - 2 * PARAMS


# The Hub -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub() -> Iterator[FakeHub]:
    server = FakeHub()
    yield server
    server.close()


def test_from_files_on_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    path = folder(tmp_path / "m", LLAMA, llama(), 3)
    save(path / "model-00001-of-00002.safetensors", llama())  # a stale set
    files = {file.name: file.read_bytes() for file in path.iterdir()}
    files["model-00003-of-00003.safetensors"] += bytes(4 * 2**20)
    commit = hub.add("org/Tiny", files)
    env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    env |= {"PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path), "HOME": str(tmp_path), "NO_PROXY": "*", "HF_ENDPOINT": hub.url}
    arguments = [sys.executable, "-m", "llmcalc", "weights", "--model", "org/Tiny", "--from-files", "--json"]
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["model"]["revision"] == commit
    r = found["results"]
    assert (r["file_count"], r["file_params"], r["file_tensor_bytes"], r["file_difference_bytes"]) == (3, PARAMS, 2 * PARAMS, 0)
    assert [one["name"] for one in r["extra_files"]] == ["model-00001-of-00002.safetensors"]
    assert hub.served < 2 * 2**20  # of over 4 MiB
    weights = {path.rpartition("/")[2] for path in hub.paths() if path.endswith(".safetensors")}
    assert weights == {f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)}
