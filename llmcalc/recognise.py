"""Which architecture a config describes where it does not say so: class names alone, and the params.json of three makers.

A params.json has the names of its maker's own code. Each is read by the full list of its keys: one that is not known here could
change the model, so it is refused and not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llmcalc.config import Config
from llmcalc.families import MODULES

_CLASSES = {
    "GPT2LMHeadModel": "gpt2",
    "OpenAIGPTLMHeadModel": "openai-gpt",
    "RWForCausalLM": "RefinedWeb",
    "QWenLMHeadModel": "qwen",
    "BaiChuanForCausalLM": "baichuan",
    "MiniCPM4ForCausalLM": "minicpm",
    "T5ForConditionalGeneration": "t5",
    "ChatGLMModel": "chatglm",
    "ChatGLMForConditionalGeneration": "chatglm",
}
_SUFFIX = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration)$")
_PLAIN = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in MODULES}


def by_class(architecture: str) -> str | None:
    """The model type of a class of transformers, or of code beside a checkpoint, by its name."""
    if architecture in _CLASSES:
        return _CLASSES[architecture]
    if not _SUFFIX.search(architecture):
        return None
    return _PLAIN.get(_SUFFIX.sub("", architecture).lower())


_SHARED = "dim n_layers n_heads vocab_size norm_eps rope_theta max_seq_len max_batch_size dtype"
_META = frozenset(f"{_SHARED} n_kv_heads ffn_dim_multiplier multiple_of use_scaled_rope rope_scaling_factor".split())
_MISTRAL = frozenset(
    f"""{_SHARED} n_kv_heads head_dim hidden_dim sliding_window tied_embeddings moe max_position_embeddings model_parallel ragged_attention
    llama_4_scaling yarn rope_scaling""".split()
)
_DEEPSEEK = frozenset(
    f"""{_SHARED} inter_dim moe_inter_dim n_dense_layers n_routed_experts n_shared_experts n_activated_experts n_expert_groups
    n_limited_groups route_scale score_func q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim mscale scale_fmt
    original_seq_len rope_factor beta_fast beta_slow index_n_heads index_head_dim index_topk""".split()
)


def params_json(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config.json that a params.json says the same as, or None for whatever is none. Errors: bad-config."""
    keys = {key for key in raw if not key.startswith("_")}
    if raw.get("architectures") or not {"dim", "n_layers", "n_heads"} <= keys:
        return None
    if {"kv_lora_rank", "inter_dim"} <= keys and keys <= _DEEPSEEK:
        return _deepseek(Config(raw, "params.json"))
    if raw.get("model_type"):
        return None
    if "hidden_dim" in keys and keys <= _MISTRAL:
        return _mistral(Config(raw, "params.json"))
    if "multiple_of" in keys and keys <= _META:
        return _meta(Config(raw, "params.json"))
    return None


def _common(c: Config, model_type: str) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "hidden_size": c.count("dim"),
        "num_hidden_layers": c.count("n_layers"),
        "num_attention_heads": c.count("n_heads"),
        "num_key_value_heads": c.maybe("n_kv_heads") or c.count("n_heads"),
        "vocab_size": c.count("vocab_size"),
        "dtype": "bfloat16",
        **({"max_position_embeddings": longest} if (longest := c.maybe("max_position_embeddings", "max_seq_len")) else {}),
    }


def _mistral(c: Config) -> dict[str, Any]:
    """Mistral's own format: the MLP's width is hidden_dim; `moe` makes it a Mixtral."""
    mixture = c.block("moe", defaults_of="none")
    found = _common(c, "mixtral" if mixture else "mistral") | {
        "intermediate_size": c.count("hidden_dim"),
        "head_dim": c.maybe("head_dim") or c.count("dim") // c.count("n_heads"),
        "sliding_window": c.maybe("sliding_window"),
        "tie_word_embeddings": c.flag("tied_embeddings"),
    }
    if mixture:
        found |= {"num_local_experts": mixture.count("num_experts"), "num_experts_per_tok": mixture.count("num_experts_per_tok")}
    return found


def _meta(c: Config) -> dict[str, Any]:
    """Meta's: two thirds of four times the width, times a factor, up to the next multiple (llama's model.py)."""
    wide = int(2 * 4 * c.count("dim") / 3)
    factor = c.number("ffn_dim_multiplier", default=0)
    multiple = c.count("multiple_of")
    wide = int(factor * wide) if factor else wide
    return _common(c, "llama") | {"intermediate_size": multiple * -(-wide // multiple), "tie_word_embeddings": False}


def _deepseek(c: Config) -> dict[str, Any]:
    """DeepSeek's inference code; a dtype of fp8 has the blocks of its checkpoints."""
    index = {"index_n_heads", "index_head_dim", "index_topk"}
    found = _common(c, "deepseek_v32" if index & set(c.raw) else "deepseek_v3" if c.maybe("q_lora_rank", least=0) else "deepseek_v2")
    found |= {
        "intermediate_size": c.count("inter_dim"),
        "moe_intermediate_size": c.count("moe_inter_dim"),
        "first_k_dense_replace": c.count("n_dense_layers", least=0),
        "n_routed_experts": c.count("n_routed_experts"),
        "n_shared_experts": c.maybe("n_shared_experts", least=0),
        "num_experts_per_tok": c.count("n_activated_experts"),
        "q_lora_rank": c.maybe("q_lora_rank", least=0) or None,
        **{name: c.count(name) for name in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")},
        **{name: c.count(name) for name in sorted(index & set(c.raw))},
        "num_nextn_predict_layers": 0,
        "tie_word_embeddings": False,
    }
    if c.get("dtype") == "fp8":
        found["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    return found
