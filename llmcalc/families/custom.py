"""Model types whose code ships with the checkpoint. It is never run: the readers say what that code builds.

These types are unknown to transformers, so no class defaults stand behind an absent key. Where the original configuration
class has one, the reader states it; where it has none, an absent key is an error.
"""

from __future__ import annotations

from dataclasses import replace

from llmcalc.architecture import FULL, Attention, Mlp, NormStyle, Span, Stack, Weight, decoder, linear, norm
from llmcalc.attention import gqa, recurrent
from llmcalc.config import MOST_LAYERS, Config
from llmcalc.errors import ConfigError, printable
from llmcalc.families import family, llama, reader
from llmcalc.mlp import dense, experts, moe


def must(c: Config, name: str, value: bool, default: bool) -> None:
    """A switch whose other position nobody has checked."""
    if c.flag(name, default=default) is not value:
        raise c.fail(name, not value, f"{str(value).lower()}: the other variant is not read")


def whole_width(c: Config, query: int, dim: int) -> None:
    """The output projection of the original code is square: heads × head_dim must be the hidden size."""
    if query * dim != c.hidden:
        raise c.fail("kv_channels", dim, f"hidden_size / num_attention_heads ({c.hidden} / {query})")


def borrowed(c: Config, model_type: str, unread: str = "") -> Stack:
    """The same keys, read as another type with that type's class defaults. `unread`: what stands beside and is not counted."""
    inner = c.seen_as(model_type)
    read = reader(model_type)
    assert read is not None
    stack = read(inner)
    return replace(stack, unread=unread)


# ---- dense


@family("chatglm")
def chatglm(c: Config) -> Stack:
    """ChatGLM 2 and 3, GLM-4-9B-chat, CodeGeeX 2 and 4: own names, KV heads by multi_query_group_num. The first: see below."""
    if c.maybe("pre_seq_len"):
        raise c.fail("pre_seq_len", c.get("pre_seq_len"), "null: a tuned prefix adds keys and parameters")
    bits = c.maybe("quantization_bit", least=0)
    notes = (f"quantization_bit {bits}: parameters are counted, not the layout of the quantised file",) if bits else ()
    if c.has("inner_hidden_size"):
        return chatglm_1(c, notes)
    layers = c.agreed("num_layers", "num_hidden_layers", most=MOST_LAYERS)
    query = c.count("num_attention_heads")
    dim = c.count("kv_channels")
    whole_width(c, query, dim)
    kv = c.count("multi_query_group_num") if c.flag("multi_query_attention") else query
    c.dismiss("multi_query_group_num")
    for name in ("num_key_value_heads", "head_dim"):  # written by later tools beside the family's own names
        if c.has(name) and c.raw[name] != (kv if name == "num_key_value_heads" else dim):
            raise c.fail(name, c.raw[name], "what multi_query_group_num and kv_channels say")
    c.dismiss("num_key_value_heads", "head_dim")
    gqa.check_groups(c, query, kv)
    bias = c.flag("add_bias_linear")
    mixer = gqa.build(c.hidden, query, kv, dim, biases="qkvo" if bias else "qkv" if c.flag("add_qkv_bias") else "")
    block = dense(c.hidden, c.count("ffn_hidden_size"), bias=bias)
    must(c, "tie_word_embeddings", False, False)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        layers=layers,
        vocab=c.agreed("padded_vocab_size", "vocab_size"),
        norm_style="rms" if c.flag("rmsnorm", default=True) else "layer",
        final_norm=c.flag("post_layer_norm", default=True),
        tied=False,
        notes=notes,
    )


def chatglm_1(c: Config, notes: tuple[str, ...]) -> Stack:
    """ChatGLM-6B: MHA, LayerNorms, biases everywhere, an MLP of two matrices; the head is tied where nothing is said."""
    c.dismiss("position_encoding_2d")  # two rotary positions per token: no parameters, the same keys
    query = c.count("num_attention_heads")
    mixer = gqa.build(c.hidden, query, query, gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query), biases="qkvo")
    block = dense(c.hidden, c.count("inner_hidden_size"), gated=False, bias=True)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        layers=c.agreed("num_layers", "num_hidden_layers", most=MOST_LAYERS),
        norm_style="layer",
        tied=c.flag("tie_word_embeddings", default=True),
        notes=notes,
    )


@family("qwen")
def qwen(c: Config) -> Stack:
    """The first Qwen: MHA with biases on q, k, v; intermediate_size is the width of both halves of the MLP together."""
    hidden = c.count("hidden_size", "n_embd")
    query = c.count("num_attention_heads", "n_head")
    dim = c.count("kv_channels")
    if query * dim != hidden:
        raise c.fail("kv_channels", dim, f"hidden_size / num_attention_heads ({hidden} / {query})")
    width = c.count("intermediate_size", "ffn_hidden_size")
    if width % 2:
        raise c.fail("intermediate_size", width, "an even number: it is the width of both halves of the MLP")
    bias = not c.flag("no_bias", default=True)
    mixer = gqa.build(hidden, query, query, dim, biases="qkvo" if bias else "qkv")
    block = dense(hidden, width // 2, bias=bias)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        hidden=hidden,
        layers=c.count("num_hidden_layers", "n_layer", most=MOST_LAYERS),
    )


@family("internlm", "PanguEmbedded")
def internlm(c: Config) -> Stack:
    """InternLM 1 and openPangu: Llama with a bias on every attention projection, unless `bias` is false."""
    return decoder(c, gqa.uniform(c, biases="qkvo" if c.flag("bias", default=True) else ""), llama.gated(c, bias=False))


@family("internlm2")
def internlm2(c: Config) -> Stack:
    """Llama with a fused wqkv; `bias` is on the attention projections (true where it is absent)."""
    return decoder(c, gqa.uniform(c, biases="qkvo" if c.flag("bias", default=True) else ""), llama.gated(c, bias=False))


@family("baichuan")
def baichuan(c: Config) -> Stack:
    """Llama with a fused W_pack and MHA; the 13B uses ALiBi, Baichuan 2 normalises its head: neither has parameters."""
    return decoder(c, gqa.uniform(c), llama.gated(c, bias=False))


@family("mimo")
def mimo(c: Config) -> Stack:
    """Qwen2 and modules that predict further tokens."""
    mixer, block = gqa.uniform(c, biases="qkv", spans=llama.window_from_layer(c)), llama.gated(c, bias=False)
    c.dismiss("attention_bias")  # in the file; the class always has the biases
    norms = ("input_layernorm", "post_attention_layernorm", "token_layernorm", "hidden_layernorm", "final_layernorm")
    module = mixer(0).weights + block(0).weights + tuple(w for name in norms for w in norm(name, c.hidden))
    module += linear("input_proj", "mtp", c.hidden, 2 * c.hidden)
    mtp = tuple(weight._replace(part="mtp") for weight in module) * (c.maybe("num_nextn_predict_layers", least=0, most=64) or 0)
    return decoder(c, mixer, block, mtp=mtp)


@family("minicpm")
def minicpm(c: Config) -> Stack:
    """Llama with scaled residuals, its head tied where nothing is said; MiniCPM-MoE has experts of the dense width."""
    for key in ("mixer_types", "sparse_config"):  # lightning layers; compressed keys beside the cache
        if c.has(key):
            raise c.fail(key, c.get(key), "absent: that attention is not read")
    if c.maybe("num_experts", least=0):
        total, used = experts(c)
        block: Mlp = moe(c.hidden, total, used, c.count("intermediate_size"))
    else:
        c.dismiss("num_experts", "num_experts_per_tok")
        block = dense(c.hidden, c.count("intermediate_size"))
    return decoder(
        c,
        gqa.uniform(c, biases=llama.biased(c)),
        lambda _: block,
        tied=c.flag("tie_word_embeddings", default=True),
    )


@family("minicpmv", "minicpmo")
def minicpmv(c: Config) -> Stack:
    """MiniCPM-V and -o: the language model's keys stand at the top, and `version` says whose they are."""
    version = c.get("version")
    if version is None:
        inner = "minicpm" if c.has("scale_emb") else "llama"  # versions 1 and 2, or 2.5
    else:
        known = {"2.0": "minicpm", "2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
        inner = known.get(str(version), "")
        if not inner:
            raise c.fail("version", version, f"one of {', '.join(known)}")
    unseen = not isinstance(c.raw.get("vision_config"), dict) and not c.has("vision_encoder")
    return borrowed(c, inner, "the vision tower and the resampler" if unseen else "")


@family("phi-msft", "mixformer-sequential")
def phi_msft(c: Config) -> Stack:
    """Phi-1, 1.5 and 2 under GPT-2's names: blocks in parallel behind one norm, biases everywhere, also on the head."""
    shape = c.get("architecture")
    if isinstance(shape, dict) and shape.get("block_cls", "parallel") != "parallel":
        raise c.fail("architecture.block_cls", shape["block_cls"], "parallel")
    hidden, query = c.count("n_embd"), c.count("n_head")
    kv = c.maybe("n_head_kv") or query
    dim = gqa.exact_division(c, "n_embd", hidden, "n_head", query)
    if query % kv:
        raise c.fail("n_head_kv", kv, f"a divisor of n_head ({query})")
    mixer = gqa.build(hidden, query, kv, dim, biases="qkvo")
    block = dense(hidden, c.maybe("n_inner") or 4 * hidden, gated=False, bias=True)
    must(c, "tie_word_embeddings", False, False)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        hidden=hidden,
        layers=c.count("n_layer", most=MOST_LAYERS),
        norm_style="layer",
        norms=1,
        head_bias=True,
        tied=False,
    )


@family("phi3_v", "phi4-siglip")
def phi3_vision(c: Config) -> Stack:
    """Phi-3 and 4 with a vision tower that only the code beside the checkpoint knows."""
    c.dismiss("attention_bias", "mlp_bias")  # in the file, not in the class
    stack = decoder(c, gqa.uniform(c, spans=llama.window_everywhere(c)), llama.gated(c, bias=False))
    return replace(stack, unread="the vision tower of img_processor" if c.has("img_processor") else "")


@family("molmo")
def molmo(c: Config) -> Stack:
    """An OLMo or Qwen2 decoder: a fused MLP width, 128 image tokens beside the table, optional norms on q and k."""
    width = c.count("intermediate_size")
    if width % 2:
        raise c.fail("intermediate_size", width, "an even number: it is the width of both halves of the MLP")
    table = c.maybe("embedding_size") or c.count("vocab_size")
    c.dismiss("vocab_size", "norm_after")  # norm_after moves the norms, it adds none
    kind = c.text("layer_norm_type", default="rms")
    if kind not in ("rms", "default"):
        raise c.fail("layer_norm_type", kind, "rms or default")
    style: NormStyle = "rms" if kind == "rms" else "layer"
    tied = c.flag("weight_tying")
    stack = decoder(
        c,
        gqa.uniform(c, biases=llama.biased(c, "qkv", "qkv_bias"), qk_norm="full" if c.flag("attention_layer_norm") else None),
        lambda _: dense(c.hidden, width // 2),
        vocab=table,
        norm_style=style,
        tied=tied,
        outside=(Weight("new_embedding", "embedding", MOLMO_IMAGE_TOKENS, c.hidden),),
    )
    return replace(stack, unread="the vision tower, whose shape is in the code beside the checkpoint")


MOLMO_IMAGE_TOKENS = 128


@family("xverse", "skywork", "aquila", "Yi")
def llama_alike(c: Config) -> Stack:
    """Llama under other names, without biases; XVERSE-MoE has experts of the dense width, and shared ones."""
    if c.model_type == "Yi" and not c.has("num_key_value_heads"):
        raise c.missing("num_key_value_heads")  # the class has a number of its own there
    if c.model_type == "xverse" and c.maybe("num_experts", least=0):
        total, used = c.count("num_experts"), c.count("moe_top_k")
        if used > total:
            raise c.fail("moe_top_k", used, f"at most num_experts ({total})")
        inner = c.count("intermediate_size")
        block = moe(c.hidden, total, used, inner, shared=inner * (c.maybe("num_shared_experts", least=0) or 0))
        return decoder(c, gqa.uniform(c), lambda _: block)
    return decoder(c, gqa.uniform(c), llama.gated(c, bias=False))


@family("telechat3", "nanbeige")
def llama_with_biases(c: Config) -> Stack:
    """Llama whose attention and MLP have biases by the usual switches."""
    for key in ("enable_double_loop_split", "loop_share_kv", "enable_depth_attention"):
        must(c, key, False, False)
    if (c.maybe("num_loops") or 1) > 1 or c.items("loop_loss_weights"):
        raise c.fail("num_loops", c.get("num_loops"), "1: layers that run more than once are not read")
    return decoder(c, gqa.uniform(c, biases=llama.biased(c)), llama.gated(c))


@family("plamo3")
def plamo3(c: Config) -> Stack:
    """PLaMo 3: every sliding_window_pattern-th layer sees everything; head norms; norms before and after each block."""
    step = c.count("sliding_window_pattern")
    window = Span("window", c.count("sliding_window", "window_size"))
    c.dismiss("window_size")
    kinds = [FULL if (layer + 1) % step == 0 else window for layer in range(c.layers)]
    tied = c.flag("tie_word_embeddings", default=True)
    return decoder(c, gqa.uniform(c, qk_norm="head", spans=kinds), llama.gated(c, bias=False), norms=4, tied=tied)


@family("orion")
def orion(c: Config) -> Stack:
    """Llama with LayerNorms."""
    return decoder(c, gqa.uniform(c), llama.gated(c, bias=False), norm_style="layer")


@family("stablelm_epoch")
def stablelm_epoch(c: Config) -> Stack:
    """StableLM before transformers knew it."""
    return borrowed(c, "stablelm")


@family("llava_llama", "llava_mistral", "llava_qwen", "Keye", "KeyeVL1_5")
def llava(c: Config) -> Stack:
    """The original LLaVA checkpoints and Keye: the language model's keys stand at the top, the vision tower is named by id."""
    inner = {"llava_llama": "llama", "llava_mistral": "mistral", "llava_qwen": "qwen2"}.get(c.model_type, "qwen3")
    return borrowed(c, inner)


@family("phi4mm")
def phi4mm(c: Config) -> Stack:
    """Phi-4-multimodal: Phi-4-mini with adapters for images and speech, which are not part of the language model."""
    must(c, "lm_head_bias", False, False)
    return borrowed(c, "phi3", "the towers and their LoRA adapters")


@family("telechat", "telechat2")
def telechat(c: Config) -> Stack:
    """GPT-2's names on a Llama; biases on the output of the attention and of the MLP alone; tied where nothing is said."""
    must(c, "embed_layernorm", False, False)
    query = c.agreed("n_head", "num_attention_heads")
    kv = c.maybe("num_key_value_heads") or query
    gqa.check_groups(c, query, kv)
    dim = gqa.exact_division(c, "hidden_size", c.hidden, "n_head", query)
    mixer = gqa.build(c.hidden, query, kv, dim, biases="o")
    block = dense(c.hidden, c.agreed("ffn_hidden_size", "intermediate_size"))
    block = Mlp((*block.weights, Weight("mlp.down_proj.bias", "mlp", c.hidden)))
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        layers=c.agreed("n_layer", "num_hidden_layers"),
        tied=c.flag("tie_word_embeddings", default=True),
    )


@family("plamo")
def plamo(c: Config) -> Stack:
    """PLaMo-13B: n_shared_head query heads share a KV head; blocks in parallel behind one norm."""
    query = c.count("num_attention_heads")
    kv = -(-query // c.count("n_shared_head"))
    dim = gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query)
    mixer = gqa.build(c.hidden, query, kv, dim)
    return decoder(c, lambda _: mixer, llama.gated(c, bias=False), norms=1)


@family("deci")
def deci(c: Config) -> Stack:
    """DeciLM: Llama with a number of KV heads for each layer."""
    inner = c.seen_as("llama")
    listed = inner.counts("num_key_value_heads_per_layer", least=1)
    if listed is None:
        raise c.missing("num_key_value_heads_per_layer")
    kv = inner.per_layer(listed, "num_key_value_heads_per_layer", inner.layers, lambda _: 0)
    query, _, dim = gqa.heads(inner)
    biases = llama.biased(inner)
    for heads in kv:
        if query % heads:
            raise c.fail("num_key_value_heads_per_layer", heads, f"divisors of num_attention_heads ({query})")
    return decoder(inner, lambda layer: gqa.build(inner.hidden, query, kv[layer], dim, biases=biases), llama.gated(inner))


@family("openelm")
def openelm(c: Config) -> Stack:
    """OpenELM: heads and MLP widths of their own for every layer."""
    layers = c.count("num_transformer_layers", most=MOST_LAYERS)
    hidden, dim, step = c.count("model_dim"), c.count("head_dim"), c.count("ffn_dim_divisor")
    query = c.counts("num_query_heads", least=1)
    kv = c.counts("num_kv_heads", least=1)
    wide = c.items("ffn_multipliers")
    for name, found in (("num_query_heads", query), ("num_kv_heads", kv), ("ffn_multipliers", wide)):
        if found is None or len(found) != layers:
            raise c.fail(name, found, f"a list of {layers} entries")
    assert query and kv and wide
    norms = (dim, dim) if c.flag("normalize_qk_projections", default=True) else None
    gated = c.flag("ffn_with_glu", default=True)

    def mixer(layer: int) -> Attention:
        if query[layer] % kv[layer]:
            raise c.fail("num_kv_heads", kv[layer], f"divisors of num_query_heads ({query[layer]})")
        return gqa.build(hidden, query[layer], kv[layer], dim, qk_norm=norms)

    def block(layer: int) -> Mlp:
        factor = wide[layer]
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
            raise c.fail("ffn_multipliers", factor, "numbers > 0")
        width = max(step, int(factor * hidden + step / 2) // step * step)
        return dense(hidden, width + step if width < 0.9 * factor * hidden else width, gated=gated)

    tied = c.flag("share_input_output_layers", default=True)
    c.dismiss("qkv_multipliers", "num_gqa_groups", "tie_word_embeddings")  # the lists are made of them
    return decoder(c, mixer, block, layers=layers, hidden=hidden, tied=tied, max_context=c.maybe("max_context_length"))


@family("codeshell")
def codeshell(c: Config) -> Stack:
    """CodeShell: GPT-2's names, rotary GQA, biases everywhere, tied where nothing is said."""
    rows = 0
    if c.text("position_embedding_type", default="rope") != "rope":
        rows = c.count("n_positions")
    hidden, query = c.count("n_embd"), c.count("n_head")
    kv = c.count("num_query_groups") if c.flag("group_query_attention") else query
    c.dismiss("num_query_groups")
    if query % kv:
        raise c.fail("num_query_groups", kv, f"a divisor of n_head ({query})")
    mixer = gqa.build(hidden, query, kv, gqa.exact_division(c, "n_embd", hidden, "n_head", query), biases="qkvo")
    block = dense(hidden, c.maybe("n_inner") or 4 * hidden, gated=False, bias=True)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        hidden=hidden,
        layers=c.count("n_layer", most=MOST_LAYERS),
        norm_style="layer",
        positions=rows,
        tied=c.flag("tie_word_embeddings", default=True),
    )


@family("jais")
def jais(c: Config) -> Stack:
    """Jais: GPT-2 with ALiBi and a SwiGLU MLP, biases everywhere, tied where nothing is said."""
    where = c.text("position_embedding_type", default="learned")
    if where not in ("alibi", "learned"):
        raise c.fail("position_embedding_type", where, "alibi or learned")
    hidden, query = c.count("n_embd"), c.count("n_head")
    mixer = gqa.build(hidden, query, query, gqa.exact_division(c, "n_embd", hidden, "n_head", query), biases="qkvo")
    block = dense(hidden, c.maybe("n_inner") or 4 * hidden, gated=c.text("activation_function") == "swiglu", bias=True)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        hidden=hidden,
        layers=c.count("n_layer", most=MOST_LAYERS),
        norm_style="layer",
        positions=c.count("n_positions") if where == "learned" else 0,
        tied=c.flag("tie_word_embeddings", default=True),
    )


@family("phi3small")
def phi3small(c: Config) -> Stack:
    """Phi-3-small: LayerNorms, biases everywhere, a 100k vocabulary that is tied where nothing is said."""
    c.dismiss("attention_bias", "mlp_bias")  # in the file; the class always has them
    # Every second layer attends in sparse blocks, which differ by head: engines keep every key all the same.
    block = dense(c.hidden, c.count("ff_intermediate_size"), bias=True)
    return decoder(
        c,
        gqa.uniform(c, biases="qkvo"),
        lambda _: block,
        norm_style="layer",
        tied=c.flag("tie_word_embeddings", default=True),
        notes=("block-sparse layers are counted as full: engines keep every key",),
    )


@family("baichuan_m1")
def baichuan_m1(c: Config) -> Stack:
    """Baichuan-M1: some layers slide, with heads of their own; keys and values pass a short convolution."""
    windowed = set(c.counts("sliding_window_layers") or ())
    kernel = c.count("conv_window")
    made: dict[bool, Attention] = {}

    def mixer(layer: int) -> Attention:
        slides = layer in windowed
        if slides not in made:
            query, kv = c.count("num_attention_heads"), c.count("num_key_value_heads")
            if slides:
                query = c.maybe("num_swa_attention_heads") or query
                kv = c.maybe("num_swa_key_value_heads") or kv
            gqa.check_groups(c, query, kv)
            dim = gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query)
            conv = tuple(Weight(name, "state", kv, kernel) for name in ("conv_k", "conv_v"))
            span = Span("window", c.count("sliding_window")) if slides else FULL
            plain = gqa.build(c.hidden, query, kv, dim, span=span, extra=conv)
            made[slides] = replace(plain, states=(recurrent.conv(2 * kv * dim, kernel),))
        return made[slides]

    stack = decoder(c, mixer, llama.gated(c, bias=False))
    c.dismiss("sliding_window", "num_swa_attention_heads", "num_swa_key_value_heads")
    return stack


# ---- mixtures of experts


@family("bailing_moe", "bailing_moe_v2", "bailing_moe_linear")
def bailing(c: Config) -> Stack:
    """Ling and Ring: shared experts; version 2 has norms on q and k; Ming routes images and sound by gates of their own.

    The linear models attend in the last layer of each group (and in what is left over), and keep a state in the others.
    """
    total, used = experts(c)
    inner = c.count("moe_intermediate_size")
    each = c.maybe("moe_shared_expert_intermediate_size") or inner
    must(c, "moe_router_enable_shared_expert", True, True)
    must(c, "use_sliding_window", False, False)
    c.dismiss("sliding_window", "max_window_layers")
    shared = each * (c.maybe("num_shared_experts", least=0) or 0)
    several = c.flag("multi_gate") or c.text("router_type", default="topN") == "MultiRouter"
    gates = linear("mlp.other_gates", "router", total, c.hidden, copies=2, active=0) if several else ()
    c.dismiss("moe_router_enable_expert_bias")  # a buffer, like DeepSeek-V3's
    first = c.count("first_k_dense_replace", least=0, default=0)
    plain = dense(c.hidden, c.count("intermediate_size"))
    sparse = moe(c.hidden, total, used, inner, shared=shared, extra=gates)
    # use_bias is true where it is absent; it is on the output projection alone.
    biases = llama.biased(c, "qkv", "use_qkv_bias") + ("o" if c.flag("use_bias", default=True) else "")
    mixer = gqa.uniform(c, biases=biases, qk_norm="head" if c.flag("use_qk_norm") else None)
    extra = tuple(w for name in ("enorm", "hnorm", "final_layernorm") for w in norm(name, c.hidden))
    module = mixer(0).weights + sparse.weights + norm("norm", c.hidden) * 2 + extra
    module += linear("eh_proj", "mtp", c.hidden, 2 * c.hidden)
    mtp = tuple(weight._replace(part="mtp") for weight in module) * (c.maybe("num_nextn_predict_layers", least=0, most=64) or 0)
    if c.model_type == "bailing_moe_linear":
        if mtp:
            raise c.fail("num_nextn_predict_layers", c.get("num_nextn_predict_layers"), "0")
        group = c.count("layer_group_size")
        full_from = c.layers // group * group
        state = bailing_state(c, biases)
        at = lambda layer: mixer(layer) if (layer + 1) % group == 0 or layer >= full_from else state  # noqa: E731
        return decoder(c, at, lambda layer: sparse if layer >= first else plain)
    return decoder(c, mixer, lambda layer: sparse if layer >= first else plain, mtp=mtp)


def bailing_state(c: Config, biases: str) -> Attention:
    """Lightning attention of Ring-linear: as many keys as queries, an output gate with a norm, one square state per head."""
    c.dismiss("group_norm_size")  # how the norm averages, not how wide it is
    heads = c.count("num_attention_heads")
    dim = gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", heads)
    norms = (dim, dim) if c.flag("use_qk_norm") else None
    weights = gqa.build(c.hidden, heads, heads, dim, biases=biases, qk_norm=norms).weights
    weights += linear("g_proj", "attention", heads * dim, c.hidden) + norm("g_norm", heads * dim)
    return replace(recurrent.build("linear", weights, recurrent.matrix(heads, dim, dim)), query_heads=heads, kv_heads=heads)


def entry(c: Config, name: str, layer: int, default: int | None = None) -> int:
    """A number, or one per layer."""
    value = c.get(name)
    if isinstance(value, list):
        found = c.counts(name)
        assert found is not None
        if layer >= len(found):
            raise c.fail(name, value, f"a list of {c.layers} entries")
        return found[layer]
    return c.count(name, least=0, default=default)


@family("hunyuan")
def hunyuan(c: Config) -> Stack:
    """Hunyuan-Large and A13B: one number or one per layer; every cla_share_factor layers share the first one's cache."""
    must(c, "use_mla", False, False)
    # dense_list belongs to the classification head, the ranks to MLA; neither is there.
    c.dismiss("dense_list", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    must(c, "add_classification_head", False, False)
    kind = c.text("norm_type", default="rms")
    if kind not in ("rms", "hf_rms", "fused"):
        raise c.fail("norm_type", kind, "rms, hf_rms or fused")
    query = c.count("num_attention_heads")
    kv = c.maybe("num_key_value_heads") or query
    dim = c.maybe("head_dim", "attention_head_dim") or gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query)
    c.dismiss("head_dim", "attention_head_dim")
    gqa.check_groups(c, query, kv)
    bias = llama.biased(c)
    norms = (dim, dim) if c.flag("use_qk_norm") else None
    own = gqa.build(c.hidden, query, kv, dim, biases=bias, qk_norm=norms)
    reused = gqa.build(c.hidden, query, kv, dim, biases=bias, qk_norm=norms, project_kv=False, stored=False)
    group = c.count("cla_share_factor", default=1) if c.flag("use_cla") else 1
    c.dismiss("cla_share_factor")

    wide = c.flag("mlp_bias")
    skipped = c.count("moe_layer_num_skipped", least=0, default=0)
    mixed = c.flag("use_mixed_mlp_moe")
    given = "moe_intermediate_size" if c.has("moe_intermediate_size") else "intermediate_size"
    made: dict[tuple[int, ...], Mlp] = {}

    def block(layer: int) -> Mlp:
        number = entry(c, "num_experts", layer, 1)
        if number <= 1 or layer < skipped:
            shape: tuple[int, ...] = (entry(c, "intermediate_size", layer),)
            return made.setdefault(shape, dense(c.hidden, *shape, bias=wide))
        inner = entry(c, given, layer)
        used = entry(c, "moe_topk", layer)
        if not 1 <= used <= number:
            raise c.fail("moe_topk", used, f"from 1 to num_experts ({number})")
        shared = inner * entry(c, "num_shared_expert", layer) if mixed else 0
        shape = (number, used, inner, shared)
        if shape not in made:
            made[shape] = moe(c.hidden, number, used, inner, bias=wide, shared=shared)
        return made[shape]

    stack = decoder(c, lambda layer: own if layer % group == 0 else reused, block)
    c.dismiss("intermediate_size", "num_shared_expert", "moe_topk", "moe_intermediate_size", "num_experts")
    return stack


@family("PanguProMoE")
def pangu_pro(c: Config) -> Stack:
    """openPangu Pro MoE: biases in the attention, one expert of each group, a learned scale per expert, a shared expert."""
    for key in ("param_sink_number", "v_channels", "qk_rope_dim"):
        if c.has(key):
            raise c.fail(key, c.get(key), "absent: version 2 is not read")
    total, used = experts(c)
    scale = (Weight("mlp.router_scale", "router", total),)
    shared = c.maybe("shared_expert_intermediate_size", least=0) or 0
    sparse = moe(c.hidden, total, used, c.count("moe_intermediate_size"), shared=shared, extra=scale)
    flat = set(c.counts("mlp_only_layers") or ())
    plain = dense(c.hidden, c.count("intermediate_size")) if flat else sparse
    c.dismiss("intermediate_size")
    return decoder(c, gqa.uniform(c, biases="qkvo"), lambda layer: plain if layer in flat else sparse)


@family("grok-1", "git")
def grok(c: Config) -> Stack:
    """Grok: four norms a layer; Grok-2 calls itself git and adds a dense MLP beside the experts."""
    if c.model_type == "git" and "Grok1ForCausalLM" not in (c.raw.get("architectures") or ()):
        raise c.fail("architectures", c.raw.get("architectures"), "Grok1ForCausalLM (the image captioner GIT is not read)")
    total, used = experts(c)
    wide = c.count("intermediate_size")
    inner = c.maybe("moe_intermediate_size") or wide
    block = moe(c.hidden, total, used, inner, shared=wide if c.flag("residual_moe") else 0)
    window = c.get("sliding_window_size")
    if window in (None, -1):
        c.dismiss("sliding_window_size")
    else:
        raise c.fail("sliding_window_size", window, "-1")
    tied = c.flag("tie_word_embeddings", default=c.model_type == "grok-1")
    return decoder(c, gqa.uniform(c), lambda _: block, norms=4, tied=tied)


@family("arctic")
def arctic(c: Config) -> Stack:
    """Snowflake Arctic: beside the experts runs a dense MLP as wide as the model."""
    total, used = experts(c)
    beside = c.flag("parallel_attn_mlp_res")
    if c.flag("use_residual") is not beside:
        raise c.fail("use_residual", not beside, f"{str(beside).lower()}, as parallel_attn_mlp_res is")
    step = c.count("moe_layer_frequency", default=2)
    window = c.maybe("sliding_window")
    spans = [Span("window", window) if window else FULL] * c.layers
    inner = c.count("intermediate_size")
    plain = dense(c.hidden, inner)
    sparse = moe(c.hidden, total, used, inner, shared=c.hidden if beside else 0)

    def has_experts(layer: int) -> bool:
        return (layer + 1) % step == 0

    return decoder(
        c,
        gqa.uniform(c, spans=spans),
        lambda layer: sparse if has_experts(layer) else plain,
        norms=lambda layer: 3 if beside and has_experts(layer) else 2,
    )


@family("step3_text")
def step3(c: Config) -> Stack:
    """Step-3: one KV head for all queries, which come out of a shared low-rank projection; shared experts."""
    query, dim = c.count("num_attention_heads"), c.count("head_dim")
    if c.count("num_attention_groups", default=1) != 1:
        raise c.fail("num_attention_groups", c.get("num_attention_groups"), "1")
    rank = c.maybe("share_q_dim") or dim
    plain = gqa.build(c.hidden, query, 1, dim)
    queries = linear("q_proj", "attention", rank, c.hidden) + norm("inter_norm", rank)
    queries += linear("wq", "attention", query * dim, rank)
    mixer = replace(plain, weights=queries + plain.weights[1:])
    listed = c.get("moe_layers_enum")
    if isinstance(listed, str) and all(part.strip().isdecimal() for part in listed.split(",")):
        sparse_layers = {int(part) for part in listed.split(",")}
    elif listed is None:
        sparse_layers = set(range(1, c.layers))
    else:
        raise c.fail("moe_layers_enum", listed, "layer numbers between commas")
    total, used = c.count("moe_num_experts"), c.count("moe_top_k")
    if used > total:
        raise c.fail("moe_top_k", used, f"at most moe_num_experts ({total})")
    sparse = moe(c.hidden, total, used, c.count("moe_intermediate_size"), shared=c.count("share_expert_dim"))
    block = dense(c.hidden, c.count("intermediate_size"))
    must(c, "tie_word_embeddings", False, False)
    longest = c.maybe("max_position_embedding", "max_position_embeddings")
    return decoder(c, lambda _: mixer, lambda layer: sparse if layer in sparse_layers else block, tied=False, max_context=longest)


# ---- wrappers that name their language model elsewhere


@family("internvl_chat", "locateanything", "bailingmm", "ultravox")
def wrapper(c: Config) -> Stack:
    """The language model stands in a nested config; where it does not, the file alone cannot say what the model is."""
    named = c.raw.get("text_model_id")
    if isinstance(named, str) and named:
        raise ConfigError(
            "missing-field",
            f"this {printable(c.model_type)} config has no sizes of its own: text_model_id names {printable(named)}",
            f"size the language model itself: {printable(named)}",
        )
    raise c.missing("text_config" if c.model_type in ("ultravox", "locateanything") else "llm_config")
