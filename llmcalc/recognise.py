"""Which architecture a config describes where it does not say so: class names alone, and the params.json of three makers.

A params.json has the names of its maker's own code. Each is read by the full list of its keys: one that is not known here could
change the model, so it is refused and not passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llmcalc.config import Config
from llmcalc.errors import ConfigError, printable
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
_SUFFIX = re.compile(r"(ForCausalLM|LMHeadModel|ForConditionalGeneration|For\w*Classification|For\w*Reward\w*|RewardModel|Model)$")
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
_LATENT = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
_MISTRAL = frozenset(
    f"""{_SHARED} n_kv_heads head_dim hidden_dim sliding_window tied_embeddings moe max_position_embeddings model_parallel ragged_attention
    llama_4_scaling yarn rope_scaling vision_encoder quantization quantization_config activation causal""".split()
) | frozenset(_LATENT)
_DEEPSEEK = frozenset(
    f"""{_SHARED} inter_dim moe_inter_dim n_dense_layers n_routed_experts n_shared_experts n_activated_experts n_expert_groups
    n_limited_groups route_scale score_func q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim mscale scale_fmt
    original_seq_len rope_factor beta_fast beta_slow index_n_heads index_head_dim index_topk""".split()
)


_ENCODER = ("hidden_size", "num_channels", "image_size", "patch_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")


def params_json(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config.json that a params.json says the same as, or None for whatever is none. Errors: bad-config."""
    keys = {key for key, value in raw.items() if not key.startswith("_") and value is not None}
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
    known = _MISTRAL if "hidden_dim" in keys else _META if "multiple_of" in keys else _DEEPSEEK
    unknown = ", ".join(printable(key, 40) for key in sorted(keys - known)[:6]) or "the width of its MLP is missing"
    raise ConfigError(
        "unread-key",
        f"this params.json is of no kind that is read: {unknown}",
        "a key that is not known could change the model; give its config.json, if there is one",
    )


def speculator(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The config of a draft as the speculators library writes it, with its layer's block at the top; None for whatever is none."""
    layer = raw.get("transformer_layer_config")
    if not raw.get("speculators_model_type") or not isinstance(layer, Mapping):
        return None
    return {**layer, **{key: value for key, value in raw.items() if key not in ("transformer_layer_config", "model_type")}}


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
    """Mistral's own format, as vLLM reads it (transformers_utils/configs/mistral.py): hidden_dim is the MLP's width; `moe` makes it a
    Mixtral, and with latents a kin of DeepSeek-V3; windows may alternate; a vision encoder stands beside.
    """
    mixture, windows = c.block("moe", defaults_of="none"), c.get("sliding_window")
    latent = c.has("kv_lora_rank")
    found = _common(c, "mistral4" if latent else "mixtral" if mixture else "ministral" if isinstance(windows, list) else "mistral")
    found |= {"intermediate_size": c.count("hidden_dim"), "tie_word_embeddings": c.flag("tied_embeddings")}
    if latent:
        found |= {name: c.count(name) for name in _LATENT}
        found |= {"n_routed_experts": 1, "num_experts_per_tok": 1, "first_k_dense_replace": found["num_hidden_layers"]}
        found |= {"moe_intermediate_size": found["intermediate_size"], "n_shared_experts": 0}
    else:
        found |= {"head_dim": c.maybe("head_dim") or c.count("dim") // c.count("n_heads")}
        found |= _windows(c, windows, found["num_hidden_layers"])
    if mixture and latent:
        found |= {"n_routed_experts": mixture.count("num_experts"), "num_experts_per_tok": mixture.count("num_experts_per_tok")}
        found |= {"moe_intermediate_size": mixture.count("expert_hidden_dim")}
        found |= {"first_k_dense_replace": mixture.maybe("first_k_dense_replace", least=0) or 0}
        found |= {"n_shared_experts": mixture.maybe("num_shared_experts", least=0) or 0}
        if mixture.count("route_every_n", default=1) != 1:
            raise mixture.fail("route_every_n", mixture.get("route_every_n"), "1")
    elif mixture:
        found |= {"num_local_experts": mixture.count("num_experts"), "num_experts_per_tok": mixture.count("num_experts_per_tok")}
    yarn = c.get("yarn")
    if isinstance(yarn, Mapping) and yarn:
        found["rope_scaling"] = {"rope_type": "yarn", **{key: yarn.get(key) for key in ("factor", "original_max_position_embeddings")}}
    stored = _stored(c)
    seen = c.get("vision_encoder")
    if not isinstance(seen, Mapping) or not seen:
        return found | stored
    merged = seen.get("mm_projector_id") == "patch_merge"
    sizes = {key: seen[key] for key in _ENCODER if key in seen}
    around: dict[str, Any] = {"model_type": "mistral3" if merged else "llava", "text_config": found}
    around["vision_config"] = {"model_type": "pixtral", **sizes}
    around["multimodal_projector_bias"] = bool(seen.get("adapter_bias", not merged))
    return around | stored | ({"spatial_merge_size": seen.get("spatial_merge_size", 2)} if merged else {})


def _windows(c: Config, windows: Any, layers: int) -> dict[str, Any]:
    """One window throughout, or a list that repeats, with null for layers that see everything."""
    if not isinstance(windows, list):
        return {"sliding_window": c.maybe("sliding_window")}
    sizes = {each for each in windows if each is not None}
    if not windows or len(sizes) > 1 or layers % len(windows):
        raise c.fail("sliding_window", windows, f"a window, or a list of one window and nulls that goes into {layers} layers")
    kinds = ["full_attention" if each is None else "sliding_attention" for each in windows] * (layers // len(windows))
    return {"sliding_window": next(iter(sizes), None), "layer_types": kinds}


def _stored(c: Config) -> dict[str, Any]:
    """The quantiser's block: Mistral's own words for fp8, or that of compressed-tensors as it is."""
    own, block = c.get("quantization"), c.get("quantization_config")
    if isinstance(block, Mapping) and block:
        return {"quantization_config": dict(block)}
    if not own:
        return {}
    if isinstance(own, Mapping) and own.get("qformat_weight") == "fp8_e4m3":
        return {"quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}}
    if isinstance(own, Mapping) and str(own.get("quant_method")).lower().replace("_", "-") == "compressed-tensors":
        return {"quantization_config": dict(own) | {"quant_method": "compressed-tensors"}}
    raise c.fail("quantization", own, "fp8_e4m3 as qformat_weight, or a block of compressed-tensors")


def _meta(c: Config) -> dict[str, Any]:
    """Meta's: two thirds of four times the width, times a factor, up to the next multiple (llama's model.py)."""
    if c.get("vocab_size") == -1:
        raise c.fail("vocab_size", -1, "the tokenizer's number of tokens (of Llama 2: 32,000)")
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
