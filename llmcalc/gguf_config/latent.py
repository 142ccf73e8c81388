"""Latent attention, DeepSeek and its kin."""

from __future__ import annotations

from llmcalc.gguf_config.moe import leading_dense
from llmcalc.gguf_config.source import Given, Source, architecture, around, biased, decoder, width


def latent(s: Source) -> Given:
    """MLA: newer files keep the widths of the expanded heads in *_mla keys, older ones in the plain keys."""
    rope = s.need("rope.dimension_count")
    key = s.maybe("attention.key_length_mla", least=1) or s.need("attention.key_length")
    value = s.maybe("attention.value_length_mla", least=1) or s.need("attention.value_length")
    if key < rope:
        raise s.fail("attention.key_length", f"at least rope.dimension_count ({rope})")
    query = s.maybe("attention.q_lora_rank", least=1)
    return {
        "num_attention_heads": s.need("attention.head_count"),
        "kv_lora_rank": s.need("attention.kv_lora_rank"),
        "q_lora_rank": query,
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": key - rope,
        "v_head_dim": value,
        # llama.cpp runs MLA over its latent only where the file has both keys; else it expands and caches every head.
        **({} if s.raw("attention.key_length_mla") and s.raw("attention.value_length_mla") else {"expanded_cache": True}),
    }


@architecture("deepseek2", "deepseek2-ocr", "glm-dsa", "deepseek32", "mistral4")
def deepseek2(s: Source) -> Given:
    """DeepSeek-V2 and after; V3 and its kin have a balancing bias on the router. Without a latent it is plain MHA."""
    if not s.maybe("attention.kv_lora_rank"):
        return {**decoder(s, "deepseek"), **leading_dense(s), "attention_bias": biased(s)}
    found = {**around(s, "youtu"), **latent(s), **width(s)}
    if not s.maybe("expert_count"):
        return found
    found |= leading_dense(s)
    balanced = s.any("exp_probs_b.bias", "exp_probs_b.weight", "exp_probs_b")
    found["model_type"] = "deepseek_v3" if balanced else "deepseek_v2"
    if s.arch == "mistral4":
        found["model_type"] = "mistral4"
    elif s.raw("attention.indexer.head_count") is not None:
        found |= {
            "model_type": "glm_moe_dsa" if s.arch == "glm-dsa" else "deepseek_v32",
            "index_n_heads": s.need("attention.indexer.head_count"),
            "index_head_dim": s.need("attention.indexer.key_length"),
            "index_topk": s.need("attention.indexer.top_k"),
        }
        own = s.flags("attention.indexer.types", s.depth)
        if s.arch == "glm-dsa" and own:
            found["indexer_types"] = ["full" if flag else "shared" for flag in own]
    if balanced and s.ahead:
        found["num_nextn_predict_layers"] = s.ahead
    return found


@architecture("deepseek4")
def deepseek4(s: Source) -> Given:
    """DeepSeek-V4: a window and compressed entries, residual streams, tables that route in the first layers."""
    routed = leading_dense(s)
    routed.pop("first_k_dense_replace")
    return {
        **around(s, "deepseek_v4"),
        **routed,
        "num_attention_heads": s.need("attention.head_count"),
        "head_dim": s.need("attention.key_length"),
        "q_lora_rank": s.need("attention.q_lora_rank"),
        "o_groups": s.need("attention.output_group_count"),
        "o_lora_rank": s.need("attention.output_lora_rank"),
        "sliding_window": s.need("attention.sliding_window"),
        "compress_ratios": s.numbers("attention.compress_ratios", s.depth),
        "index_n_heads": s.need("attention.indexer.head_count"),
        "index_head_dim": s.need("attention.indexer.key_length"),
        "index_topk": s.need("attention.indexer.top_k"),
        "hc_mult": s.need("hyper_connection.count"),
        "num_hash_layers": s.maybe("hash_layer_count") or 0,
        "num_nextn_predict_layers": s.ahead,
    }


@architecture("minicpm3")
def minicpm3(s: Source) -> Given:
    """Dense layers under latent attention."""
    values = s.first("attn_kv_b.weight")
    found = {**around(s, "minicpm3"), **width(s)}
    rope, key, query = s.need("rope.dimension_count"), s.need("attention.key_length"), s.need("attention.head_count")
    return {
        **found,
        "num_attention_heads": query,
        "kv_lora_rank": s.need("attention.kv_lora_rank"),
        "q_lora_rank": s.maybe("attention.q_lora_rank", least=1),
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": key - rope,
        **({"v_head_dim": values // query - (key - rope)} if values else {}),
    }


@architecture("kimi-linear")
def kimi_linear(s: Source) -> Given:
    """Delta nets, and MLA on the layers that have a latent."""
    routed = leading_dense(s)
    full = [index + 1 for index in range(s.depth) if s.layer(index, "attn_kv_a_mqa.weight")]
    return {
        **around(s, "kimi_linear"),
        **width(s),
        **latent(s),
        "linear_attn_config": {
            "full_attn_layers": full,
            "kda_layers": [index + 1 for index in range(s.depth) if index + 1 not in full],
            "num_heads": s.need("attention.head_count"),
            "head_dim": s.need("kda.head_dim"),
            "short_conv_kernel_size": s.need("ssm.conv_kernel"),
        },
        "num_experts": routed["n_routed_experts"],
        "num_experts_per_token": routed["num_experts_per_tok"],
        "num_shared_experts": routed["n_shared_experts"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "first_k_dense_replace": routed["first_k_dense_replace"],
    }
