"""GGUF against the config it was converted from: tensors of the real classes, named by gguf's own map, under the keys that
llama.cpp's converters write (conversion/*.py), must give the same model as the config.json does.

Needs the extra `oracle` and the package `gguf`. Nothing is downloaded: classes are built on the meta device.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmcalc import gguf_config, sources
from llmcalc import model as reader
from llmcalc.commands import common
from llmcalc.estimate import memory, weight_files

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
torch = pytest.importorskip("torch", reason="the extra `oracle` (torch) is not installed")
transformers = pytest.importorskip("transformers", reason="the extra `oracle` (transformers) is not installed")
writer = pytest.importorskip("gguf", reason="the package gguf is not installed")
np = pytest.importorskip("numpy")

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
Keys = dict[str, Any]

MODELS = """
llama meta-llama/Meta-Llama-3-8B | llama mistralai/Mixtral-8x7B-v0.1 | llama mistralai/Mistral-Nemo-Instruct-2407
llama tiiuae/Falcon3-7B-Instruct | granite ibm-granite/granite-3.3-2b-instruct | arcee class:arcee
qwen2 Qwen/Qwen2-7B-Instruct | qwen2 Qwen/Qwen2.5-3B-Instruct | qwen3 Qwen/Qwen3-8B | qwen3 Qwen/Qwen3-0.6B
qwen3moe Qwen/Qwen3-30B-A3B | qwen2moe Qwen/Qwen1.5-MoE-A2.7B | qwen3next Qwen/Qwen3-Next-80B-A3B-Instruct
qwen35 Qwen/Qwen3.5-27B | qwen35moe Qwen/Qwen3.5-35B-A3B | gemma google/gemma-2b | gemma2 google/gemma-2-9b-it
gemma3 google/gemma-3-12b-it | gemma3 google/gemma-3-1b-it | gemma3n class:gemma3n_text | gemma4 google/gemma-4-31B
gemma4 google/gemma-4-26B-A4B | gemma4 google/gemma-4-E2B | llama4 meta-llama/Llama-4-Scout-17B-16E-Instruct
deepseek2 deepseek-ai/DeepSeek-V2-Lite | deepseek2 deepseek-ai/DeepSeek-V3 | deepseek2 zai-org/GLM-4.7-Flash
starcoder2 bigcode/starcoder2-3b | phi2 microsoft/phi-2 | phi3 microsoft/phi-4 | phi3 microsoft/Phi-3.5-mini-instruct
phimoe microsoft/Phi-3.5-MoE-instruct | command-r CohereLabs/aya-23-8B | command-r CohereLabs/c4ai-command-r-plus
cohere2 CohereLabs/c4ai-command-r7b-12-2024 | olmo allenai/OLMo-7B-hf | olmo2 allenai/OLMo-2-1124-7B
olmo2 allenai/Olmo-3-1025-7B | olmoe allenai/OLMoE-1B-7B-0924 | smollm3 HuggingFaceTB/SmolLM3-3B
exaone4 LGAI-EXAONE/EXAONE-4.0-32B | exaone4 LGAI-EXAONE/EXAONE-4.0-1.2B | seed_oss ByteDance-Seed/Seed-OSS-36B-Instruct
granitemoe ibm-granite/granite-3.1-1b-a400m-instruct | granitehybrid ibm-granite/granite-4.0-h-tiny
granitehybrid ibm-granite/granite-4.0-h-small | gpt-oss openai/gpt-oss-20b | gpt-oss openai/gpt-oss-120b
glm4 zai-org/GLM-4-9B-0414 | chatglm zai-org/glm-4-9b-chat-hf | glm4moe zai-org/GLM-4.5-Air | minimax-m2 MiniMaxAI/MiniMax-M2.5
ernie4_5 baidu/ERNIE-4.5-0.3B-PT | ernie4_5-moe baidu/ERNIE-4.5-21B-A3B-PT | stablelm stabilityai/stablelm-2-1_6b
falcon tiiuae/falcon-7b | falcon tiiuae/falcon-11B | falcon tiiuae/falcon-180B-chat | falcon-h1 tiiuae/Falcon-H1-0.5B-Instruct
mamba state-spaces/mamba-2.8b-hf | mamba tiiuae/falcon-mamba-7b-instruct | mamba2 mistralai/Mamba-Codestral-7B-v0.1
jamba ai21labs/Jamba-v0.1 | nemotron_h nvidia/Nemotron-H-56B-Base-8K | nemotron_h_moe nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16
lfm2 LiquidAI/LFM2-1.2B | gpt2 gpt2 | gptj EleutherAI/gpt-j-6b | gptneox EleutherAI/gpt-neox-20b | starcoder bigcode/starcoder
dbrx databricks/dbrx-instruct
minicpm3 class:minicpm3 | glm-dsa zai-org/GLM-5 | bloom class:bloom
afmoe class:afmoe | mimo2 class:mimo_v2_flash
jais2 class:jais2
bitnet class:bitnet | mpt mosaicml/mpt-7b | t5 google-t5/t5-small | t5 class:umt5
mellum class:mellum | hy_v3 class:hy_v3 | laguna class:laguna | cohere2moe class:cohere2_moe
"""
"""Architecture and bundled model; `class:` takes the defaults of a configuration class, where no bundled model has it."""
CASES = [tuple(case.split()) for case in MODELS.replace("\n", "|").split("|") if case.strip()]


def text_config(raw: Keys) -> Any:
    """The language model's configuration by its own class, so that defaults are what they are for the converter."""
    inner = raw
    for block in ("text_config", "llm_config"):
        if isinstance(raw.get(block), dict):
            inner = {**raw[block]}
            inner.setdefault("model_type", f"{raw['model_type']}_text")
    if raw.get("tie_word_embeddings") is not None:
        inner = {**inner, "tie_word_embeddings": raw["tie_word_embeddings"]}
    drop = ("quantization_config", "auto_map", "torch_dtype", "dtype", "_name_or_path", "rope_scaling", "rope_parameters")
    return transformers.AutoConfig.for_model(**{key: value for key, value in inner.items() if key not in drop})


# The keys, by what each converter writes ------------------------------------------------------------------------------


def base(c: Keys, **more: Any) -> Keys:
    def first(*names: str) -> Any:
        return next((c[name] for name in names if c.get(name) is not None), None)

    found = {
        "block_count": first("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
        "context_length": first("max_position_embeddings", "n_positions", "max_seq_len", "model_max_length") or 2048,
        "embedding_length": first("hidden_size", "n_embd", "d_model"),
        "feed_forward_length": first("intermediate_size", "n_inner"),
        "attention.head_count": first("num_attention_heads", "n_head", "n_heads"),
        "attention.head_count_kv": first("num_key_value_heads"),
        "attention.key_length": first("head_dim"),
        "attention.value_length": first("head_dim"),
        "expert_count": first("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
        "expert_used_count": first("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_topk"),
        "expert_feed_forward_length": c["moe_intermediate_size"] if isinstance(c.get("moe_intermediate_size"), int) else None,
        "leading_dense_block_count": first("first_k_dense_replace"),
    }
    return {**found, **more}


def ssm(inner: int, state: int, kernel: int, rank: int, groups: int | None = None) -> Keys:
    return {
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.conv_kernel": kernel,
        "ssm.time_step_rank": rank,
        "ssm.group_count": groups,
    }


def windows(c: Keys, *, flags: bool = False) -> Keys:
    found = {"attention.sliding_window": c.get("sliding_window")}
    if flags and c.get("sliding_window"):
        found["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in c["layer_types"]]
    return found


def only(number: int, flags: list[bool]) -> list[int]:
    return [number if flag else 0 for flag in flags]


def latent(c: Keys) -> Keys:
    return {
        "attention.head_count_kv": 1, "attention.q_lora_rank": c.get("q_lora_rank"), "attention.kv_lora_rank": c["kv_lora_rank"],
        "attention.key_length": c["kv_lora_rank"] + c["qk_rope_head_dim"], "attention.value_length": c["kv_lora_rank"],
        "attention.key_length_mla": c["qk_nope_head_dim"] + c["qk_rope_head_dim"], "attention.value_length_mla": c["v_head_dim"],
        "rope.dimension_count": c["qk_rope_head_dim"],
    }  # fmt: skip


def gemma4(c: Keys) -> Keys:
    slides = [kind == "sliding_attention" for kind in c["layer_types"]]
    shared, few = c.get("num_kv_shared_layers") or 0, c.get("num_global_key_value_heads")
    found = base(
        c,
        **windows(c, flags=True),
        **{
            "attention.key_length": c["global_head_dim"],
            "attention.value_length": c["global_head_dim"],
            "attention.shared_kv_layers": shared,
        },
        **{"attention.key_length_swa": c["head_dim"], "attention.value_length_swa": c["head_dim"]},
        embedding_length_per_layer_input=c.get("hidden_size_per_layer_input") or 0,
    )
    if few:
        found["attention.head_count_kv"] = [c["num_key_value_heads"] if flag else few for flag in slides]
    if c.get("use_double_wide_mlp"):
        own = found["block_count"] - shared
        found["feed_forward_length"] = [c["intermediate_size"] * (1 if index < own else 2) for index in range(found["block_count"])]
    if not c.get("enable_moe_block"):
        found["expert_count"] = found["expert_used_count"] = None
    return found


def delta(c: Keys) -> Keys:
    values = c["linear_num_value_heads"]
    widths = ssm(
        c["linear_value_head_dim"] * values, c["linear_key_head_dim"], c["linear_conv_kernel_dim"], values, c["linear_num_key_heads"]
    )
    return base(c, **widths, full_attention_interval=4, expert_shared_feed_forward_length=c.get("shared_expert_intermediate_size"))


def granite_hybrid(c: Keys) -> Keys:
    widths = ssm(c["mamba_expand"] * c["hidden_size"], c["mamba_d_state"], c["mamba_d_conv"], c["mamba_n_heads"], c["mamba_n_groups"])
    attends = [kind in ("attention", "full_attention") for kind in c["layer_types"]]
    return base(c, **widths, **{"attention.head_count_kv": only(c["num_key_value_heads"], attends)})


def nemotron(c: Keys, moe: bool) -> Keys:
    kinds = c["layers_block_type"]
    widths = ssm(c["mamba_num_heads"] * c["mamba_head_dim"], c["ssm_state_size"], c["conv_kernel"], c["mamba_num_heads"], c["n_groups"])
    inner = c["moe_intermediate_size"] if moe else c["intermediate_size"]
    found = base(
        c,
        **widths,
        **{"attention.head_count_kv": only(c["num_key_value_heads"], ["attention" in kind and "linear" not in kind for kind in kinds])},
    )
    found |= {"block_count": len(kinds), "feed_forward_length": only(inner, [kind in ("moe", "mlp") for kind in kinds])}
    return found if moe else {**found, "expert_count": None, "expert_used_count": None}


def lfm2(c: Keys) -> Keys:
    width = c.get("block_ff_dim") or c["intermediate_size"]
    if c["block_auto_adjust_ff_dim"]:
        multiple = c["block_multiple_of"]
        width = multiple * -(-int(c["block_ffn_dim_multiplier"] * int(2 * width / 3)) // multiple)
    kv = only(c["num_key_value_heads"], [kind != "conv" for kind in c["layer_types"]])
    return base(c, feed_forward_length=width, **{"attention.head_count_kv": kv, "shortconv.l_cache": c["conv_L_cache"]})


def jamba(c: Keys) -> Keys:
    attends = [index % c["attn_layer_period"] == c["attn_layer_offset"] for index in range(c["num_hidden_layers"])]
    widths = ssm(c["mamba_expand"] * c["hidden_size"], c["mamba_d_state"], c["mamba_d_conv"], c["mamba_dt_rank"])
    return base(c, **widths, **{"attention.head_count_kv": only(c["num_key_value_heads"], attends)})


def mamba(c: Keys) -> Keys:
    two = c["model_type"] == "mamba2"
    rank = 2 * c["hidden_size"] // c["head_dim"] if two else c["time_step_rank"]
    falcon = {"ssm.dt_b_c_rms": c["model_type"] == "falcon_mamba"}
    return {
        "block_count": c["num_hidden_layers"], "context_length": 2**20, "embedding_length": c["hidden_size"], "feed_forward_length": 0,
        "attention.head_count": 0, **ssm(2 * c["hidden_size"], c["state_size"], c["conv_kernel"], rank, c["n_groups"] if two else None),
        **({} if two else falcon),
    }  # fmt: skip


def falcon(c: Keys) -> Keys:
    return base(c, feed_forward_length=4 * c["hidden_size"], **{"attention.head_count_kv": c.get("num_kv_heads") or 1})


def indexed(c: Keys) -> Keys:
    words = {"head_count": "index_n_heads", "key_length": "index_head_dim", "top_k": "index_topk"}
    return base(c, **latent(c), **{f"attention.indexer.{key}": c[name] for key, name in words.items()})


ALIKE = {"mellum": "qwen3moe", "hy_v3": "dots1", "laguna": "afmoe", "cohere2moe": "dots1"}
"""Architectures that are newer than the package's map, by one whose tensors are called the same."""


WRITES: dict[str, Callable[[Keys], Keys]] = {
    "gemma2": lambda c: base(c, **windows(c)),
    "gemma3": lambda c: base(c, **windows(c)),
    "gemma3n": lambda c: base(
        c, **windows(c, flags=True), embedding_length_per_layer_input=c["hidden_size_per_layer_input"],
        **{"attention.shared_kv_layers": c["num_kv_shared_layers"], "altup.num_inputs": c["altup_num_inputs"]},
    ),
    "gemma4": gemma4,
    "phi3": lambda c: base(c, **windows(c)),
    "phimoe": lambda c: base(c, **windows(c)),
    "cohere2": lambda c: base(c, **windows(c)),
    "exaone4": lambda c: base(c, **windows(c, flags=True)),
    "olmo2": lambda c: base(c, **windows(c, flags=True)),
    "gpt-oss": lambda c: base(c, **windows(c), expert_feed_forward_length=c["intermediate_size"]),
    "llama4": lambda c: base(
        c, interleave_moe_layer_step=c["interleave_moe_layer_step"], feed_forward_length=c["intermediate_size_mlp"],
        expert_feed_forward_length=c["intermediate_size"],
    ),
    "deepseek2": lambda c: base(c, **latent(c)),
    "glm-dsa": indexed,
    "qwen3next": delta, "qwen35": delta, "qwen35moe": delta,
    "granitehybrid": granite_hybrid,
    "falcon-h1": lambda c: base(c, **ssm(
        c["mamba_d_ssm"] or c["mamba_expand"] * c["hidden_size"], c["mamba_d_state"], c["mamba_d_conv"], c["mamba_n_heads"], c["mamba_n_groups"]
    )),
    "nemotron_h": lambda c: nemotron(c, False), "nemotron_h_moe": lambda c: nemotron(c, True),
    "lfm2": lfm2, "jamba": jamba, "mamba": mamba, "mamba2": mamba, "falcon": falcon,
    "mpt": lambda c: base(c, feed_forward_length=4 * c["d_model"]),
    "t5": lambda c: base(
        c, block_count=c["num_layers"], feed_forward_length=c["d_ff"], decoder_block_count=c["num_decoder_layers"],
        **{"attention.head_count": c["num_heads"], "attention.key_length": c["d_kv"], "attention.value_length": c["d_kv"]},
        **{"attention.relative_buckets_count": c["relative_attention_num_buckets"]},
    ),
    "mellum": lambda c: base(c, **windows(c, flags=True)),
    "laguna": lambda c: base(c, **windows(c), **{"attention.head_count": c["num_attention_heads_per_layer"]},
        leading_dense_block_count=1, expert_shared_feed_forward_length=c["shared_expert_intermediate_size"]),
    "cohere2moe": lambda c: base(c, **windows(c, flags=True), expert_feed_forward_length=c["intermediate_size"]),
    "minicpm3": lambda c: base(c, **{
        "attention.q_lora_rank": c["q_lora_rank"], "attention.kv_lora_rank": c["kv_lora_rank"], "attention.value_length": None,
        "attention.key_length": c["qk_nope_head_dim"] + c["qk_rope_head_dim"], "rope.dimension_count": c["qk_rope_head_dim"],
    }),
    "ernie4_5-moe": lambda c: base(
        c, leading_dense_block_count=c["moe_layer_start_index"], interleave_moe_layer_step=c["moe_layer_interval"]
    ),
    "afmoe": lambda c: base(
        c, **windows(c), leading_dense_block_count=c["num_dense_layers"]
    ),
    "mimo2": lambda c: base(c, **windows(c, flags=True), **{"attention.value_length": c["v_head_dim"], "attention.head_count_kv": [
        c["num_key_value_heads"] * (2 if kind == "sliding_attention" else 1) for kind in c["layer_types"]
    ]}),
    "bloom": lambda c: base(c, feed_forward_length=4 * c["hidden_size"]),
    "gpt2": lambda c: base(c, feed_forward_length=4 * c["n_embd"]),
    "gptj": lambda c: base(c, feed_forward_length=4 * c["n_embd"]),
    "starcoder": lambda c: base(c, **{"attention.head_count_kv": 1 if c["multi_query"] else None}, feed_forward_length=4 * c["n_embd"]),
    "dbrx": lambda c: base(
        c, expert_count=c["ffn_config"]["moe_num_experts"], expert_used_count=c["ffn_config"]["moe_top_k"],
        feed_forward_length=c["ffn_config"]["ffn_hidden_size"], **{"attention.head_count_kv": c["attn_config"]["kv_n_heads"]},
    ),
}  # fmt: skip


# The tensors ----------------------------------------------------------------------------------------------------------


def tensors(arch: str, config: Any, depth: int) -> dict[str, tuple[int, ...]]:
    """Names by gguf's map; what the converters split, merge or rename before they look a name up is done here."""
    with torch.device("meta"):
        kind = transformers.AutoModelForSeq2SeqLM if arch == "t5" else transformers.AutoModelForCausalLM
        model = kind.from_config(config)
    number = next(key for key, name in writer.MODEL_ARCH_NAMES.items() if name == ALIKE.get(arch, arch))
    names = writer.get_tensor_name_map(number, depth)
    tied = getattr(config, "tie_word_embeddings", False)
    found: dict[str, tuple[int, ...]] = {}
    for name, value in model.state_dict().items():
        if re.match(r"(en|de)coder\.embed_tokens", name):
            continue  # T5's shared table
        if (tied and name in ("lm_head.weight", "embed_out.weight")) or "inv_freq" in name:
            continue
        for own, shape in split(arch, name, tuple(value.shape), config):
            mapped = own if own.startswith("blk.") else mapping(names, own)
            assert mapped not in found, (mapped, own)
            found[mapped] = shape or (1,)
    return found


def mapping(names: Any, own: str) -> str:
    found = names.get_name(own, try_suffixes=(".weight", ".bias"))
    layer = re.search(r"(?:layers|h|blocks)\.(\d+)\.", own)
    if found is None and layer:
        matrix = re.search(r"experts\.(gate|up|down)_proj\.(weight|bias)$", own)
        if matrix:
            return f"blk.{layer[1]}.ffn_{matrix[1]}_{'shexp' if 'shared' in own else 'exps'}.{matrix[2]}"
        if own.endswith(("router.per_expert_scale", "router.scale")):  # Gemma 4
            return f"blk.{layer[1]}.{'ffn_down_exps' if 'per_expert' in own else 'ffn_gate_inp'}.scale"
        if own.endswith(("e_score_correction_bias", "e_score_correction.bias")):
            return f"blk.{layer[1]}.exp_probs_b.bias"
        if "_sub_norm" in own:  # BitNet
            return f"blk.{layer[1]}.{'attn' if 'attn_sub' in own else 'ffn'}_sub_norm.weight"
        if re.search(r"(router|gate)\.(weight|bias)$", own):
            return f"blk.{layer[1]}.ffn_gate_inp.{own.rpartition('.')[2]}"
    assert found is not None, f"{own} has no name"
    return str(found)


def split(arch: str, name: str, shape: tuple[int, ...], config: Any) -> list[tuple[str, tuple[int, ...]]]:
    """One tensor of the class as the tensors that the converter makes of it."""
    layer = re.search(r"\.(\d+)\.", name)
    at = f"blk.{layer[1]}" if layer else ""
    turned = arch in ("gpt-oss", "llama4")  # experts stored [in, out]
    if arch == "bloom":
        name = name.removeprefix("transformer.")
    if arch.startswith("nemotron_h"):
        name = re.sub(r"^model\.(layers|embeddings|norm_f)", r"backbone.\1", name)
    joined = re.fullmatch(r"(.*experts)\.gate_up_proj(_bias)?", name)
    if joined:
        half = (
            (*shape[:-1], shape[-1] // 2)
            if joined[2]
            else (shape[0], shape[2] // 2, shape[1])
            if turned
            else (shape[0], shape[1] // 2, shape[2])
        )
        return [(f"{joined[1]}.{word}_proj.{'bias' if joined[2] else 'weight'}", half) for word in ("gate", "up")]
    if re.search(r"experts\.down_proj$", name):
        return [(f"{name}.weight", (shape[0], shape[2], shape[1]) if turned else shape)]
    if re.search(r"experts\.up_proj$", name):
        return [(f"{name}.weight", shape)]
    if re.search(r"experts\.down_proj_bias$", name):
        return [(name.replace("_bias", ".bias"), shape)]
    whole = re.search(r"ffn\.experts\.mlp\.(w1|v1|w2)$", name)
    if whole:  # DBRX: every expert in one matrix, the last one transposed
        number, width = config.ffn_config.moe_num_experts, config.ffn_config.ffn_hidden_size
        word = {"w1": "gate", "v1": "up", "w2": "down"}[whole[1]]
        return [(f"{at}.ffn_{word}_exps.weight", (number, shape[1], width) if word == "down" else (number, width, shape[1]))]
    if name.endswith("shared_mlp.input_linear.weight"):
        kind = "_shexp" if config.num_local_experts else ""
        return [(f"{at}.ffn_{word}{kind}.weight", (shape[0] // 2, shape[1])) for word in ("gate", "up")]
    if name.endswith("shared_mlp.output_linear.weight"):
        return [(f"{at}.ffn_down{'_shexp' if config.num_local_experts else ''}.weight", shape)]
    if name.endswith("in_proj_qkvz.weight"):
        gates = config.linear_num_value_heads * config.linear_value_head_dim
        return [(f"{at}.attn_qkv.weight", (shape[0] - gates, shape[1])), (f"{at}.attn_gate.weight", (gates, shape[1]))]
    if name.endswith(".dt_bias"):
        return [(name.replace(".dt_bias", ".dt.bias" if arch == "nemotron_h_moe" else ".dt_proj.bias"), shape)]
    if name.endswith(("altup_projections.0.weight", "altup_unembed_projections.0.weight")):
        return [(name.replace(".0.weight", ".weight"), (3, *shape))]
    if re.search(r"altup_(unembed_)?projections\.[12]\.weight$", name):
        return []
    if name.endswith(("sinks", "correct_output_scale")):
        return [(f"{name}.weight", shape)]
    if "conv1d" in name or "conv.conv" in name:
        return [(name, tuple(size for size in shape if size != 1))]
    return [(name, shape)]


def write(path: Path, arch: str, keys: Keys, shapes: dict[str, tuple[int, ...]]) -> None:
    made = writer.GGUFWriter(None, arch)
    for key, value in keys.items():
        if value is not None:
            kinds = {bool: made.add_bool, list: made.add_array}
            kinds.get(type(value), made.add_uint32)(f"{arch}.{key}", value)
    total = 0
    for name, shape in shapes.items():
        kind = np.dtype(np.float32 if "exp_probs_b" in name else np.float16)
        size = kind.itemsize * int(np.prod(shape))
        made.add_tensor_info(name, shape, kind, size)
        total += -(-size // 32) * 32
    made.write_header_to_file(path)
    made.write_kv_data_to_file()
    made.write_ti_data_to_file()
    made.close()
    os.truncate(path, -(-path.stat().st_size // 32) * 32 + total)


@pytest.mark.parametrize(("arch", "id"), CASES, ids=[f"{arch}-{name}" for arch, name in CASES])
def test_same_model_from_gguf_and_config(tmp_path: Path, arch: str, id: str) -> None:
    raw = {"model_type": id[6:]} if id.startswith("class:") else sources.read_bundled(id).config
    raw.pop("quantization_config", None)
    if arch == "laguna":  # XS.2's pattern, which its converter leaves to llama.cpp
        raw |= {"num_hidden_layers": 8, "layer_types": 2 * ["full_attention", *3 * ["sliding_attention"]]}
        raw |= {"num_attention_heads_per_layer": 2 * [48, 64, 64, 64], "mlp_layer_types": ["dense", *7 * ["sparse"]]}
    if arch == "bitnet":
        raw["tie_word_embeddings"] = True  # as every release; the package's map has no head
    config = text_config(raw)
    if arch == "starcoder2":
        raw["sliding_window"] = None  # the converter does not write it, and llama.cpp keeps the whole context
    known = config.to_dict()
    if arch == "gemma4":
        known |= raw.get("text_config", raw)
    if id.startswith("class:"):  # a file that names nothing of its shape is refused
        raw |= {key: known[key] for key in ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size") if key in known}
    keys = WRITES.get(arch, base)(known)
    shapes = tensors(arch, config, keys["block_count"])
    write(tmp_path / "model.gguf", arch, keys, shapes)

    found = sources.find(str(tmp_path / "model.gguf"))
    model, wanted = common.of_source(found), reader.read(raw)
    assert found.files is not None
    assert memory.language_params(model) == memory.language_params(wanted)
    assert memory.active_params(model) == memory.active_params(wanted)
    assert weight_files.language_params(found.files, model) == memory.language_params(wanted)
    assert model.notes == wanted.stack.notes
    for ctx in (500, 9_000, 131_072):
        ours, theirs = (memory.kv(one, ctx, 1, "fp16").results for one in (model, wanted))
        for key in ("kv_bytes_per_token", "kv_bytes_per_token_beyond_window", "state_bytes_per_sequence", "kv_bytes_per_sequence"):
            assert ours[key] == theirs[key], key
    compared = weight_files.compare(found.files, model, memory.weights(model)).results
    assert sum(one["bytes"] for one in compared["file_differences"]) == compared["file_difference_bytes"]
    explained = {*gguf_config.NO_PARAMETERS.values()}
    for one in compared["file_differences"]:
        assert one["reason"] in explained or "divided otherwise" in one["reason"], one
