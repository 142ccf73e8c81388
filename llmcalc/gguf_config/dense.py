"""Dense decoders: Llama and its kin."""

from __future__ import annotations

from llmcalc.gguf_config.source import Given, Source, architecture, around, as_mixtral, biased, decoder, layer_types, number_of, window


@architecture("llama", "mistral3", "internlm2", "baichuan", "xverse", "minicpm", "granite", "maincoder", "pangu-embedded", "refact")
def llama(s: Source) -> Given:
    """Llama and whatever was converted into its form; with experts Mixtral, with a window Mistral."""
    if s.any("attn_q_norm.weight"):
        raise s.fail("attention.key_length", "of a model without norms on q and k in this architecture")
    if s.maybe("expert_count"):
        return {**decoder(s, "mixtral"), **as_mixtral(s), "sliding_window": None}
    if window(s):
        return decoder(s, "mistral", sliding_window=window(s))
    return decoder(s, "llama", attention_bias=biased(s), mlp_bias=s.any("ffn_up.bias"))


@architecture("arcee", "jais2")
def two_matrices(s: Source) -> Given:
    """Llama with an MLP of two matrices."""
    return decoder(s, s.arch, attention_bias=biased(s), mlp_bias=s.any("ffn_up.bias"))


@architecture("qwen2", "qwen2vl", "qwen")
def qwen2(s: Source) -> Given:
    """Biases on q, k and v."""
    return decoder(s, "qwen2", use_sliding_window=False)


@architecture("qwen3", "qwen3vl")
def qwen3(s: Source) -> Given:
    """Norms on heads."""
    return decoder(s, "qwen3", use_sliding_window=False, attention_bias=biased(s))


@architecture("smollm3", "apertus", "olmo", "hunyuan-dense", "hunyuan_vl", "nemotron", "bitnet", "chameleon")
def switched(s: Source) -> Given:
    """Families whose own type has one switch for biases."""
    names = {"hunyuan-dense": "hunyuan_v1_dense", "hunyuan_vl": "hunyuan_v1_dense"}
    more = {"mlp_bias": s.any("ffn_up.bias")} if s.arch != "olmo" else {}
    return decoder(s, names.get(s.arch, s.arch), attention_bias=biased(s), **more)


@architecture("seed_oss")
def seed_oss(s: Source) -> Given:
    """A switch of its own for the output's bias."""
    return decoder(s, "seed_oss", attention_bias=biased(s), attention_out_bias=s.any("attn_output.bias"))


@architecture("ernie4_5", "paddleocr")
def ernie(s: Source) -> Given:
    """One switch for every bias."""
    return decoder(s, "ernie4_5", use_bias=biased(s))


@architecture("exaone", "orion")
def plain(s: Source) -> Given:
    """Nothing but the common keys."""
    return decoder(s, s.arch)


@architecture("exaone4")
def exaone4(s: Source) -> Given:
    """Windows on three of four layers where there is one."""
    return decoder(s, "exaone4", sliding_window=window(s), **({"layer_types": layer_types(s, 4)} if window(s) else {}))


@architecture("olmo2")
def olmo2(s: Source) -> Given:
    """OLMo 2, and 3 with windows."""
    if not window(s):
        return decoder(s, "olmo2", attention_bias=biased(s))
    return decoder(s, "olmo3", attention_bias=biased(s), sliding_window=window(s), layer_types=layer_types(s, 4))


@architecture("command-r", "cohere2")
def cohere(s: Source) -> Given:
    """Cohere's two generations."""
    if s.arch == "cohere2":
        return decoder(s, "cohere2", attention_bias=biased(s), sliding_window=window(s), layer_types=layer_types(s, 4))
    return decoder(s, "cohere", attention_bias=biased(s), use_qk_norm=s.any("attn_q_norm.weight"))


@architecture("stablelm")
def stablelm(s: Source) -> Given:
    """Norms and biases by switches; parallel blocks have one norm."""
    return decoder(
        s,
        "stablelm",
        use_qkv_bias=biased(s),
        qk_layernorm=s.any("attn_q_norm.weight"),
        use_parallel_residual=not s.any("ffn_norm.weight"),
    )


@architecture("starcoder2")
def starcoder2(s: Source) -> Given:
    """Biases everywhere."""
    return decoder(s, "starcoder2", use_bias=biased(s), sliding_window=window(s))


@architecture("phi2")
def phi2(s: Source) -> Given:
    """Blocks in parallel, a bias on the head too."""
    return decoder(s, "phi", qk_layernorm=s.any("attn_q_norm.weight"))


@architecture("phi3", "phimoe")
def phi3(s: Source) -> Given:
    """Fused projections, or experts with LayerNorms."""
    if s.arch == "phimoe":
        more = {"attention_bias": biased(s), "lm_head_bias": s.has("output.bias"), "sliding_window": window(s)}
        return {**decoder(s, "phimoe"), **as_mixtral(s), **more}
    return decoder(s, "phi3", sliding_window=window(s))


@architecture("glm4", "chatglm")
def glm(s: Source) -> Given:
    """GLM-4-0414 has two norms more than GLM-4-9B and ChatGLM."""
    return decoder(s, "glm4" if s.arch == "glm4" else "glm", attention_bias=biased(s))


@architecture("plamo", "plamo3")
def plamo(s: Source) -> Given:
    """PLaMo's blocks in parallel, and PLaMo 3's windows, which come at a period."""
    if s.arch == "plamo":
        found = decoder(s, "plamo")
        kv = found["num_key_value_heads"]
        if found["num_attention_heads"] % kv:
            raise s.fail("attention.head_count_kv", "a divisor of attention.head_count")
        kept = {key: value for key, value in found.items() if key not in ("head_dim", "num_key_value_heads")}
        return {**kept, "n_shared_head": found["num_attention_heads"] // kv}
    full = [kind == "full_attention" for kind in layer_types(s, 8)] if window(s) else [True] * s.depth
    step = full.index(True) + 1 if True in full else s.depth + 1
    if full != [(index + 1) % step == 0 for index in range(s.depth)]:
        raise s.fail("attention.sliding_window_pattern", "such that full layers come at one period")
    return decoder(s, "plamo3", sliding_window=window(s) or 1, sliding_window_pattern=step)


@architecture("openelm")
def openelm(s: Source) -> Given:
    """Heads and MLP widths of their own for every layer. The widths are the rounded ones."""
    hidden = s.need("embedding_length")
    listed = {key: s.numbers(key, s.depth) for key in ("attention.head_count", "attention.head_count_kv", "feed_forward_length")}
    for key, found in listed.items():
        if found is None:
            raise s.fail(key, f"a list of {s.depth} numbers")
    query, kv, inner = (found or [] for found in listed.values())
    around_it = around(s, "openelm")
    return {
        "model_type": "openelm",
        "num_transformer_layers": s.depth,
        "model_dim": hidden,
        "head_dim": s.need("attention.key_length"),
        "num_query_heads": query,
        "num_kv_heads": kv,
        "ffn_multipliers": [width / hidden for width in inner],
        "ffn_dim_divisor": 1,
        "normalize_qk_projections": s.any("attn_q_norm.weight"),
        "share_input_output_layers": around_it["tie_word_embeddings"],
        "max_context_length": around_it.get("max_position_embeddings"),
        **number_of([("vocab_size", around_it.get("vocab_size")), ("dtype", "float16")]),
    }
