"""Mixtures of experts with plain attention."""

from __future__ import annotations

from llmcalc.gguf_config.source import (
    Given,
    Source,
    architecture,
    around,
    as_mixtral,
    biased,
    decoder,
    experts,
    layer_types,
    number_of,
    width,
    window,
)


@architecture("qwen2moe")
def qwen2moe(s: Source) -> Given:
    """A shared expert behind a gate."""
    shared = s.first("ffn_up_shexp.weight") or 0
    more = {"shared_expert_intermediate_size": shared, "qkv_bias": biased(s), "use_sliding_window": False}
    return {**decoder(s, "qwen2_moe"), **experts(s), **more}


@architecture("qwen3moe", "qwen3vlmoe")
def qwen3moe(s: Source) -> Given:
    """Norms on heads, no shared expert."""
    return {**decoder(s, "qwen3_moe"), **experts(s), "use_sliding_window": False, "attention_bias": biased(s)}


@architecture("olmoe", "minimax-m2")
def plain_experts(s: Source) -> Given:
    """Experts on every layer."""
    return {**decoder(s, s.arch.replace("-", "_")), **as_mixtral(s)}


@architecture("granitemoe")
def granitemoe(s: Source) -> Given:
    """With a shared expert, or without."""
    shared = s.first("ffn_up_shexp.weight") or 0
    found = {**decoder(s, "granitemoeshared" if shared else "granitemoe"), **as_mixtral(s), "attention_bias": biased(s)}
    return {**found, "shared_intermediate_size": shared} if shared else found


@architecture("gpt-oss")
def gpt_oss(s: Source) -> Given:
    """A window on the even layers."""
    more = number_of([("sliding_window", window(s))])
    return {**decoder(s, "gpt_oss"), **as_mixtral(s), "attention_bias": biased(s), "layer_types": layer_types(s, 2), **more}


@architecture("mellum")
def mellum(s: Source) -> Given:
    """Qwen3-MoE with windows where the file's flags say so."""
    slides = s.flags("attention.sliding_window_pattern", s.depth)
    if window(s) and slides is None:
        raise s.fail("attention.sliding_window_pattern", f"a list of {s.depth} flags")
    return {
        **decoder(s, "mellum"),
        **experts(s),
        "attention_bias": biased(s),
        "layer_types": ["sliding_attention" if flag else "full_attention" for flag in slides or [False] * s.depth],
        **number_of([("sliding_window", window(s))]),
    }


@architecture("smallthinker")
def smallthinker(s: Source) -> Given:
    """Experts alone; with a window, three layers of four have it and the first has not (llama.cpp: no key holds that)."""
    found, routed = decoder(s, "smallthinker"), experts(s)
    found.pop("intermediate_size", None)
    slides = [kind == "sliding_attention" for kind in layer_types(s, 4, first_full=True)] if window(s) else [False] * s.depth
    return {
        **found,
        "moe_num_primary_experts": routed["num_experts"],
        "moe_num_active_primary_experts": routed["num_experts_per_tok"],
        "moe_ffn_hidden_size": routed["moe_intermediate_size"],
        "sliding_window_layout": [int(flag) for flag in slides],
        "sliding_window_size": window(s),
    }


@architecture("grok")
def grok(s: Source) -> Given:
    """Four norms a layer; Grok-2 has a dense MLP beside the experts."""
    found = {**decoder(s, "grok-1"), **experts(s), "residual_moe": s.any("ffn_up.weight")}
    found["num_local_experts"] = found.pop("num_experts")
    return found


@architecture("arctic")
def arctic(s: Source) -> Given:
    """A dense MLP beside the experts, as wide as the model, behind a norm of its own."""
    beside = s.any("ffn_norm_exps.weight")
    routed = [index for index in range(s.depth) if s.layer(index, "ffn_gate_inp.weight")]
    step = routed[0] + 1 if routed else 1
    if routed != list(range(step - 1, s.depth, step)):
        raise s.fail("expert_count", "of layers that come at one period")
    more = {"moe_layer_frequency": step, "parallel_attn_mlp_res": beside, "use_residual": beside, "sliding_window": None}
    return {**decoder(s, "arctic"), **as_mixtral(s), **more}


LLAMA4_CHUNK = 8192  # llama.cpp src/models: no key holds it


@architecture("llama4")
def llama4(s: Source) -> Given:
    """Chunks on three of four layers; experts on every interleave-th, with one shared."""
    wide = s.maybe("feed_forward_length", least=1)
    found = {
        **decoder(s, "llama4_text"),
        **as_mixtral(s),
        "attention_chunk_size": LLAMA4_CHUNK,
        "interleave_moe_layer_step": s.need("interleave_moe_layer_step"),
        "attention_bias": biased(s),
    }
    return {**found, **number_of([("intermediate_size_mlp", wide)])}


def leading_dense(s: Source) -> Given:
    """DeepSeek's names: dense layers first, and shared experts as a multiple of the routed width."""
    routed = experts(s)
    inner = routed["moe_intermediate_size"]
    shared = s.first("ffn_up_shexp.weight") or 0
    if shared % inner:
        raise s.fail("expert_shared_feed_forward_length", f"a multiple of the width of an expert ({inner})")
    return {
        "n_routed_experts": routed["num_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "moe_intermediate_size": inner,
        "n_shared_experts": shared // inner,
        "first_k_dense_replace": next((index for index in range(s.depth) if s.layer(index, "ffn_gate_inp.weight")), 0)
        if s.raw("leading_dense_block_count") is None
        else s.maybe("leading_dense_block_count") or 0,
    }


@architecture("glm4moe", "dots1", "deepseek")
def glm4moe(s: Source) -> Given:
    """GQA with DeepSeek's mixtures."""
    found = {**decoder(s, {"glm4moe": "glm4_moe"}.get(s.arch, s.arch)), **leading_dense(s), "attention_bias": biased(s)}
    if s.arch == "glm4moe":
        found |= {"use_qk_norm": s.any("attn_q_norm.weight"), "num_nextn_predict_layers": s.ahead}
    elif s.arch == "dots1":
        found |= {"sliding_window": window(s)}
    return found


@architecture("bailingmoe", "bailingmoe2")
def bailing(s: Source) -> Given:
    """Ling and Ring."""
    moe = leading_dense(s)
    bias = {"use_qkv_bias": biased(s), "use_bias": s.any("attn_output.bias")}
    number = {"num_experts": moe.pop("n_routed_experts"), "num_shared_experts": moe.pop("n_shared_experts")}
    second = s.arch == "bailingmoe2"
    found = {**decoder(s, "bailing_moe_v2" if second else "bailing_moe"), **moe, **number, **bias}
    return {**found, "use_qk_norm": s.any("attn_q_norm.weight"), "num_nextn_predict_layers": s.ahead}


@architecture("ernie4_5-moe")
def ernie_moe(s: Source) -> Given:
    """Mixtures from a first layer on, each step-th."""
    routed = leading_dense(s)
    return {
        **decoder(s, "ernie4_5_moe"),
        "moe_num_experts": routed["n_routed_experts"],
        "moe_k": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "moe_num_shared_experts": routed["n_shared_experts"],
        "moe_layer_start_index": routed["first_k_dense_replace"],
        "moe_layer_interval": s.maybe("interleave_moe_layer_step", least=1) or 1,
        "use_bias": biased(s),
    }


@architecture("hunyuan-moe")
def hunyuan_moe(s: Source) -> Given:
    """A shared block on every layer."""
    routed = leading_dense(s)
    return {
        **decoder(s, "hunyuan_v1_moe"),
        "num_experts": routed["n_routed_experts"],
        "moe_topk": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "num_shared_expert": routed["n_shared_experts"],
        "attention_bias": biased(s),
    }


@architecture("afmoe", "exaone-moe")
def windowed_moe(s: Source) -> Given:
    """Dense layers first, shared experts, and windows on three of four layers."""
    routed = leading_dense(s)
    found = {
        **decoder(s, s.arch.replace("-", "_")),
        "num_experts": routed["n_routed_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "num_shared_experts": routed["n_shared_experts"],
        "layer_types": layer_types(s, 4) if window(s) else ["full_attention"] * s.depth,
        **number_of([("sliding_window", window(s))]),
    }
    if s.arch == "afmoe":
        return {**found, "num_dense_layers": routed["first_k_dense_replace"], "attention_bias": biased(s)}
    return {**found, "first_k_dense_replace": routed["first_k_dense_replace"], "num_nextn_predict_layers": s.ahead}


@architecture("mimo2")
def mimo2(s: Source) -> Given:
    """More KV heads and sinks on the sliding layers; values narrower than keys. Which layers are sparse, the tensors say."""
    slides = s.flags("attention.sliding_window_pattern", s.depth) or [False] * s.depth
    counts = s.numbers("attention.head_count_kv", s.depth) or [s.need("attention.head_count_kv")] * s.depth
    near = {count for count, flag in zip(counts, slides, strict=True) if flag}
    far = {count for count, flag in zip(counts, slides, strict=True) if not flag}
    if len(near) != 1 or len(far) != 1:
        raise s.fail("attention.head_count_kv", "one number on all layers with a window and one on the others")
    routed = experts(s)
    return {
        **around(s, "mimo_v2_flash"),
        **width(s),
        "num_attention_heads": s.need("attention.head_count"),
        "num_key_value_heads": far.pop(),
        "swa_num_key_value_heads": near.pop(),
        "head_dim": s.need("attention.key_length"),
        "v_head_dim": s.need("attention.value_length"),
        "hybrid_layer_pattern": [int(flag) for flag in slides],
        "sliding_window": s.need("attention.sliding_window"),
        "add_swa_attention_sink_bias": s.any("attn_sinks.weight"),
        "moe_layer_freq": [int(s.layer(index, "ffn_gate_inp.weight")) for index in range(s.depth)],
        "n_routed_experts": routed["num_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "num_nextn_predict_layers": s.ahead,
    }


@architecture("hy_v3", "cohere2moe")
def shared_moe(s: Source) -> Given:
    """Dense layers first, then experts with shared ones."""
    routed = leading_dense(s)
    more = {"num_shared_experts": routed["n_shared_experts"], "first_k_dense_replace": routed["first_k_dense_replace"]}
    if s.arch == "hy_v3":
        found = {**decoder(s, "hy_v3"), **experts(s), **more, "attention_bias": biased(s), "mlp_bias": s.any("ffn_up_shexp.bias")}
        return {**found, "num_nextn_predict_layers": s.ahead}
    dense = s.first("ffn_up.weight")
    return {
        **decoder(s, "cohere2_moe"),
        "num_experts": routed["n_routed_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "intermediate_size": routed["moe_intermediate_size"],
        **more,
        **number_of([("prefix_dense_intermediate_size", dense), ("sliding_window", window(s))]),
        "attention_bias": biased(s),
        "layer_types": layer_types(s, 4) if window(s) else ["full_attention"] * s.depth,
    }


@architecture("step35", "laguna")
def headwise(s: Source) -> Given:
    """Query heads per layer, and a gate on the attention's output: one number per head, or (Laguna) per element."""
    total = s.depth + s.ahead
    kinds = layer_types(s, 4, first_full=True) if window(s) else ["full_attention"] * s.depth
    queries = s.numbers("attention.head_count", s.depth) or [s.need("attention.head_count")] * s.depth
    far = {query for query, kind in zip(queries, kinds, strict=True) if kind == "full_attention"}
    dim, kv = s.need("attention.key_length"), s.need("attention.head_count_kv")
    found = {
        **around(s, "laguna" if s.arch == "laguna" else "step3p5"),
        **width(s),
        "num_attention_heads": max(far) if far else queries[0],
        "num_key_value_heads": kv,
        "head_dim": dim,
        "attention_bias": biased(s),
        "layer_types": kinds,
        "moe_intermediate_size": experts(s)["moe_intermediate_size"],
        "num_experts_per_tok": s.need("expert_used_count"),
        "mlp_layer_types": ["sparse" if s.layer(index, "ffn_gate_inp.weight") else "dense" for index in range(s.depth)],
        **number_of([("sliding_window", window(s))]),
    }
    shared = s.first("ffn_up_shexp.weight") or 0
    gate = s.rows(*(f"blk.{index}.attn_gate.weight" for index in range(s.depth)))
    found["gating"] = "per-head" if gate is None or gate in queries else "per-element"
    if s.arch == "laguna":
        more = {"num_experts": s.need("expert_count"), "shared_expert_intermediate_size": shared}
        return {**found, **more, "num_attention_heads_per_layer": queries}
    ahead = s.numbers("attention.head_count", total) if s.ahead else None
    slides = s.flags("attention.sliding_window_pattern", total) if s.ahead else None
    near = {query for query, kind in zip(queries, kinds, strict=True) if kind != "full_attention"}
    if (
        len(far) > 1
        or len(near) > 1
        or (ahead and slides and any(q not in (near if f else far) for q, f in zip(ahead, slides, strict=True)))
    ):
        raise s.fail("attention.head_count", "one number on all layers with a window and one on the others")
    if slides:
        found["layer_types"] = ["sliding_attention" if flag else "full_attention" for flag in slides]
    return {
        **found,
        "n_routed_experts": s.need("expert_count"),
        "share_expert_dim": shared,
        "num_nextn_predict_layers": s.ahead,
        "attention_other_setting": {"num_attention_heads": max(near or far), "num_attention_groups": kv, "head_dim": dim},
    }


@architecture("dbrx")
def dbrx(s: Source) -> Given:
    """Keys in two nested blocks."""
    found = around(s, "dbrx")
    routed = experts(s)
    return {
        **{key: value for key, value in found.items() if key not in ("num_hidden_layers", "hidden_size", "max_position_embeddings")},
        "n_layers": found["num_hidden_layers"],
        "d_model": found["hidden_size"],
        "max_seq_len": found.get("max_position_embeddings"),
        "n_heads": s.need("attention.head_count"),
        "attn_config": {"kv_n_heads": s.need("attention.head_count_kv")},
        "ffn_config": {
            "moe_num_experts": routed["num_experts"],
            "moe_top_k": routed["num_experts_per_tok"],
            "ffn_hidden_size": routed["moe_intermediate_size"],
        },
    }


@architecture("deci")
def deci(s: Source) -> Given:
    """Nemotron's Puzzle models: heads, KV heads and MLP width per layer. No KV heads under heads: a plain matrix; 0 heads: nothing."""
    query = s.numbers("attention.head_count", s.depth)
    kv = s.numbers("attention.head_count_kv", s.depth)
    inner = s.numbers("feed_forward_length", s.depth)
    if query is None or kv is None or inner is None:
        return decoder(s, "llama", attention_bias=biased(s), mlp_bias=s.any("ffn_up.bias"))
    hidden, most = s.need("embedding_length"), max(query)
    if not most or any(number not in (0, most) for number in query):
        raise s.fail("attention.head_count", "the same on all layers that attend")
    blocks = [
        {
            "attention": {"no_op": not q, "replace_with_linear": bool(q and not k), "n_heads_in_group": q // k if k else None},
            "ffn": {"no_op": not wide, "ffn_mult": 1.5 * wide / hidden},
        }
        for q, k, wide in zip(query, kv, inner, strict=True)
    ]
    return {**around(s, "nemotron-nas"), "num_attention_heads": most, "block_configs": blocks, "attention_bias": biased(s)}
