"""Model types whose code ships with the checkpoint. It is never run: the readers say what that code builds.

These types are unknown to transformers, so no class defaults stand behind an absent key. Where the original configuration
class has one, the reader states it; where it has none, an absent key is an error.
"""

from __future__ import annotations

from llmcalc.architecture import FULL, Attention, Mlp, Span, Stack, Weight, decoder, linear, norm
from llmcalc.attention import gqa
from llmcalc.config import Config
from llmcalc.errors import ConfigError, printable
from llmcalc.families import family, llama, reader
from llmcalc.mlp import dense, experts, moe


def agreed(c: Config, *names: str, least: int = 1) -> int:
    """One number under several names, of which a file may hold more than one: they must not contradict each other."""
    value = c.count(*names, least=least)
    for name in names:
        if c.has(name) and c.raw[name] != value:
            raise c.fail(name, c.raw[name], f"equal to {names[0]} ({value})")
    c.dismiss(*names)
    return value


def must(c: Config, name: str, value: bool, default: bool) -> None:
    """A switch whose other position nobody has checked."""
    if c.flag(name, default=default) is not value:
        raise c.fail(name, not value, f"{str(value).lower()}: the other variant is not read")


def whole_width(c: Config, query: int, dim: int) -> None:
    """The output projection of the original code is square: heads × head_dim must be the hidden size."""
    if query * dim != c.hidden:
        raise c.fail("kv_channels", dim, f"hidden_size / num_attention_heads ({c.hidden} / {query})")


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
    layers = agreed(c, "num_layers", "num_hidden_layers")
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
        vocab=agreed(c, "padded_vocab_size", "vocab_size"),
        norm_style="rms" if c.flag("rmsnorm", default=True) else "layer",
        final_norm=c.flag("post_layer_norm", default=True),
        tied=False,
        notes=notes,
    )


def chatglm_1(c: Config, notes: tuple[str, ...]) -> Stack:
    """ChatGLM-6B: MHA, LayerNorms, biases everywhere, an MLP of two matrices; the head is tied where nothing is said."""
    c.dismiss("position_encoding_2d")  # two rotary positions per token: no parameters, the same keys
    query = c.count("num_attention_heads")
    mixer = gqa.build(
        c.hidden, query, query, gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query), biases="qkvo"
    )
    block = dense(c.hidden, c.count("inner_hidden_size"), gated=False, bias=True)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        layers=agreed(c, "num_layers", "num_hidden_layers"),
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
        layers=c.count("num_hidden_layers", "n_layer", most=4096),
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
    mtp = tuple(weight._replace(part="mtp") for weight in module) * (c.maybe("num_nextn_predict_layers", least=0) or 0)
    return decoder(c, mixer, block, mtp=mtp)


@family("minicpm", "minicpmv")
def minicpm(c: Config) -> Stack:
    """Llama with scaled residuals, its head tied where nothing is said; MiniCPM-MoE has experts of the dense width."""
    if c.has("mixer_types"):
        raise c.fail("mixer_types", c.get("mixer_types"), "absent: lightning attention layers are not read")
    number = c.maybe("num_experts", least=0) or 0
    if number:
        total, used = experts(c)
        block: Mlp = moe(c.hidden, total, used, c.count("intermediate_size"))
    else:
        c.dismiss("num_experts_per_tok")
        block = dense(c.hidden, c.count("intermediate_size"))
    return decoder(
        c,
        gqa.uniform(c, biases=llama.biased(c)),
        lambda _: block,
        tied=c.flag("tie_word_embeddings", default=True),
    )


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
        layers=c.count("n_layer", most=4096),
        norm_style="layer",
        norms=1,
        head_bias=True,
        tied=False,
    )


@family("phi3_v", "phi4-siglip")
def phi3_vision(c: Config) -> Stack:
    """Phi-3 and 4 with a vision tower that only the code beside the checkpoint knows."""
    c.dismiss("attention_bias", "mlp_bias")  # in the file, not in the class
    notes = ("img_processor: the vision tower is not counted",) if c.has("img_processor") else ()
    return decoder(c, gqa.uniform(c, spans=llama.window_everywhere(c)), llama.gated(c, bias=False), notes=notes)


@family("molmo")
def molmo(c: Config) -> Stack:
    """An OLMo or Qwen2 decoder: a fused MLP width, 128 image tokens beside the table, optional norms on q and k."""
    query, kv, dim = gqa.heads(c)
    width = c.count("intermediate_size")
    if width % 2:
        raise c.fail("intermediate_size", width, "an even number: it is the width of both halves of the MLP")
    table = c.maybe("embedding_size") or c.count("vocab_size")
    c.dismiss("vocab_size", "norm_after")  # norm_after moves the norms, it adds none
    kind = c.text("layer_norm_type", default="rms")
    if kind not in ("rms", "default"):
        raise c.fail("layer_norm_type", kind, "rms or default")
    style = "rms" if kind == "rms" else "layer"
    tied = c.flag("weight_tying")
    return decoder(
        c,
        gqa.uniform(
            c, biases=llama.biased(c, "qkv", "qkv_bias"), qk_norm="full" if c.flag("attention_layer_norm") else None
        ),
        lambda _: dense(c.hidden, width // 2),
        vocab=table,
        norm_style=style,
        tied=tied,
        outside=(Weight("new_embedding", "embedding", MOLMO_IMAGE_TOKENS, c.hidden),),
    )


MOLMO_IMAGE_TOKENS = 128


# ---- mixtures of experts


@family("deepseek", "deepseek_vl_v2")
def deepseek(c: Config) -> Stack:
    """DeepSeek-MoE, and DeepSeek-V2 without MLA (VL2-tiny, OCR): MHA, shared experts, dense layers first."""
    if c.model_type != "deepseek":
        if c.flag("use_mla", default=True):
            latent = reader("deepseek_v2")
            assert latent is not None
            return latent(c)
        # The latent's widths are null or zero where there is none.
        c.dismiss("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    bias = llama.biased(c)
    first = c.count("first_k_dense_replace", least=0, default=0)
    step = c.count("moe_layer_freq", default=1)
    plain = dense(c.hidden, c.count("intermediate_size"))
    sparse = plain
    if c.has("n_routed_experts"):
        total, used = experts(c)
        inner = c.count("moe_intermediate_size")
        sparse = moe(c.hidden, total, used, inner, shared=inner * (c.maybe("n_shared_experts", least=0) or 0))
    return decoder(
        c, gqa.uniform(c, biases=bias), lambda layer: sparse if layer >= first and layer % step == 0 else plain
    )


@family("bailing_moe", "bailing_moe_v2")
def bailing(c: Config) -> Stack:
    """Ling and Ring: shared experts; version 2 has norms on q and k; Ming routes images and sound by gates of their own."""
    bias = c.flag("use_bias")
    total, used = experts(c)
    inner = c.count("moe_intermediate_size")
    each = c.maybe("moe_shared_expert_intermediate_size") or inner
    must(c, "moe_router_enable_shared_expert", True, True)
    shared = each * (c.maybe("num_shared_experts", least=0) or 0)
    gates = linear("mlp.other_gates", "router", total, c.hidden, copies=2, active=0) if c.flag("multi_gate") else ()
    c.dismiss("moe_router_enable_expert_bias")  # a buffer, like DeepSeek-V3's
    first = c.count("first_k_dense_replace", least=0, default=0)
    plain = dense(c.hidden, c.count("intermediate_size"), bias=bias)
    sparse = moe(c.hidden, total, used, inner, bias=bias, shared=shared, extra=gates)
    mixer = gqa.uniform(
        c,
        biases="qkvo" if bias else llama.biased(c, "qkv", "use_qkv_bias"),
        qk_norm="head" if c.flag("use_qk_norm") else None,
    )
    extra = tuple(w for name in ("enorm", "hnorm", "final_layernorm") for w in norm(name, c.hidden))
    module = mixer(0).weights + sparse.weights + norm("norm", c.hidden) * 2 + extra
    module += linear("eh_proj", "mtp", c.hidden, 2 * c.hidden)
    mtp = tuple(weight._replace(part="mtp") for weight in module) * (c.maybe("num_nextn_predict_layers", least=0) or 0)
    return decoder(c, mixer, lambda layer: sparse if layer >= first else plain, mtp=mtp)


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
    c.dismiss("dense_list", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    must(c, "add_classification_head", False, False)
    kind = c.text("norm_type", default="rms")
    if kind not in ("rms", "hf_rms", "fused"):
        raise c.fail("norm_type", kind, "rms, hf_rms or fused")
    query = c.count("num_attention_heads")
    kv = c.maybe("num_key_value_heads") or query
    dim = c.maybe("head_dim", "attention_head_dim") or gqa.exact_division(
        c, "hidden_size", c.hidden, "num_attention_heads", query
    )
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
