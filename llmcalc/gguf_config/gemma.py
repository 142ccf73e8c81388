"""Gemma, by generation."""

from __future__ import annotations

from llmcalc.gguf_config.source import Given, Source, architecture, around, decoder, experts, heads, layer_types, number_of, width, window


@architecture("gemma", "gemma2", "gemma3")
def gemma(s: Source) -> Given:
    """Gemma 2 slides on every other layer, Gemma 3 on five of six."""
    if s.arch == "gemma":
        return decoder(s, "gemma")
    period = 2 if s.arch == "gemma2" else 6
    types = layer_types(s, period) if window(s) else ["full_attention"] * s.depth
    return decoder(s, "gemma2" if s.arch == "gemma2" else "gemma3_text", sliding_window=window(s), layer_types=types)


def per_layer_inputs(s: Source) -> Given:
    """Embeddings per layer."""
    return number_of(
        [
            ("hidden_size_per_layer_input", s.maybe("embedding_length_per_layer_input") or 0),
            ("vocab_size_per_layer_input", s.rows("per_layer_token_embd.weight")),
            ("num_kv_shared_layers", s.maybe("attention.shared_kv_layers") or 0),
        ]
    )


@architecture("gemma3n")
def gemma3n(s: Source) -> Given:
    """Late layers read the caches of earlier ones."""
    inner = s.numbers("feed_forward_length", s.depth)
    found = {**around(s, "gemma3n_text"), **heads(s), **({"intermediate_size": inner} if inner else width(s)), **per_layer_inputs(s)}
    more = [
        ("altup_num_inputs", s.maybe("altup.num_inputs", least=1)),
        ("laurel_rank", s.first("laurel_l.weight")),
        ("sliding_window", window(s)),
    ]
    return {**found, **number_of(more), "layer_types": layer_types(s, 5)}


@architecture("gemma4")
def gemma4(s: Source) -> Given:
    """KV heads and widths differ between full and sliding layers: an array of head counts, and two key lengths."""
    types = layer_types(s, 6)
    full = [index for index, kind in enumerate(types) if kind == "full_attention"]
    counts = s.numbers("attention.head_count_kv", s.depth) or [s.need("attention.head_count_kv")] * s.depth
    near = s.maybe("attention.key_length_swa", least=1) or s.need("attention.key_length")
    few = {counts[index] for index in range(s.depth) if index not in full}
    if len(few) > 1:
        raise s.fail("attention.head_count_kv", "the same on all layers with a window")
    inner = s.numbers("feed_forward_length", s.depth) or [s.need("feed_forward_length")] * s.depth
    found = {
        **around(s, "gemma4_text"),
        "num_attention_heads": s.need("attention.head_count"),
        "num_key_value_heads": few.pop() if few else counts[0],
        "head_dim": near,
        "intermediate_size": min(inner),
        "use_double_wide_mlp": max(inner) == 2 * min(inner),
        "layer_types": types,
        "per_layer_config": {
            str(index): {"head_dim": s.need("attention.key_length"), "num_key_value_heads": counts[index]} for index in full
        },
        # Values that are the keys again are stored once.
        "attention_k_eq_v": any(s.layer(index, "attn_k.weight") and not s.layer(index, "attn_v.weight") for index in full),
        **per_layer_inputs(s),
    }
    if window(s):
        found["sliding_window"] = window(s)
    if s.maybe("expert_count"):
        routed = experts(s)
        found |= {"enable_moe_block": True, "top_k_experts": routed.pop("num_experts_per_tok"), **routed}
    return found
