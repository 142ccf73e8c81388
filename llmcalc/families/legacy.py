"""Decoders of the first generations: GPT-2 and its kin, OPT, BLOOM, MPT, Falcon, and what was built on them."""

from __future__ import annotations

from collections.abc import Callable

from llmcalc.architecture import FULL, Attention, Mlp, NormStyle, Span, Stack, Weight, always, decoder, linear, norm
from llmcalc.attention import gqa
from llmcalc.config import MOST_LAYERS, Config
from llmcalc.families import family, llama
from llmcalc.mlp import dense


def agree(c: Config, name: str, value: int) -> None:
    """A number that follows from others: the file may repeat it, but not contradict it."""
    if c.raw.get(name) is not None and c.maybe(name, least=0) != value:
        raise c.fail(name, c.raw[name], f"{value:,}, which the other keys give")
    c.dismiss(name)


def depth(c: Config, *names: str) -> int:
    """The number of layers."""
    return c.agreed(*names, "num_hidden_layers", most=MOST_LAYERS)


def head_dim(c: Config, hidden: int, query: int, *, name: str = "num_attention_heads") -> int:
    """Width of a head: these classes take no other than hidden / heads."""
    if hidden % query:
        raise c.fail(name, query, f"a divisor of the hidden size ({hidden:,})")
    return hidden // query


def mha(
    c: Config,
    hidden: int,
    query: int,
    *,
    kv: int | None = None,
    biases: str = "",
    span: Span = FULL,
    extra: tuple[Weight, ...] = (),
) -> Attention:
    """One layer of plain attention; `kv` heads where they are fewer than the query heads."""
    dim = head_dim(c, hidden, query)
    heads = query if kv is None else kv
    gqa.check_groups(c, query, heads)
    agree(c, "head_dim", dim)
    agree(c, "num_key_value_heads", heads)
    return gqa.build(hidden, query, heads, dim, span=span, biases=biases, extra=extra)


def plain(hidden: int, inner: int, bias: bool = True) -> Callable[[int], Mlp]:
    """The same MLP of two matrices on every layer."""
    return always(dense(hidden, inner, gated=False, bias=bias))


def gpt_shape(c: Config) -> tuple[int, int, int, int]:
    """(layers, hidden size, heads, MLP width) by the names of GPT-2; no n_inner means four times the hidden size."""
    hidden = c.agreed("n_embd", "hidden_size")
    c.dismiss("n_ctx")  # says again what n_positions says; no class reads it
    return depth(c, "n_layer"), hidden, c.agreed("n_head", "num_attention_heads"), c.maybe("n_inner") or 4 * hidden


def gpt(c: Config, *, kv: int | None = None, inner: int | None = None, table: bool = True, **around: bool) -> Stack:
    """Learned positions (or, without `table`, sines), biases everywhere, LayerNorms. `inner`: a fixed width of the MLP."""
    layers, hidden, query, wide = gpt_shape(c)
    positions = c.agreed("n_positions", "max_position_embeddings")
    return decoder(
        c,
        always(mha(c, hidden, query, kv=kv, biases="qkvo")),
        plain(hidden, inner or wide),
        norm_style="layer",
        layers=layers,
        hidden=hidden,
        positions=positions if table else 0,
        max_context=positions,
        final_norm=around.get("final_norm", True),
        head_bias=around.get("head_bias", False),
    )


@family("gpt2", "gpt-sw3")
def gpt2(c: Config) -> Stack:
    """GPT-2, and what was trained in its form."""
    return gpt(c)


@family("openai-gpt")
def openai_gpt(c: Config) -> Stack:
    """The first GPT: norms after the blocks, none at the end, an MLP of fixed width."""
    return gpt(c, inner=4 * c.agreed("n_embd", "hidden_size"), final_norm=False)


@family("ctrl")
def ctrl(c: Config) -> Stack:
    """Sine positions, and a bias on the tied head."""
    return gpt(c, inner=c.count("dff"), table=False, head_bias=True)


@family("gpt_bigcode")
def gpt_bigcode(c: Config) -> Stack:
    """SantaCoder and StarCoder 1: GPT-2 whose query heads share one KV head, unless multi_query is false."""
    return gpt(c, kv=1 if c.flag("multi_query") else None)


@family("gpt_neo")
def gpt_neo(c: Config) -> Stack:
    """Global and local layers by turns; a local layer looks back window_size tokens."""
    layers, hidden = depth(c, "num_layers"), c.hidden
    query = c.agreed("num_heads", "num_attention_heads")
    types = _neo_types(c, layers)
    window = Span("window", c.count("window_size"))
    made = {
        "global": mha(c, hidden, query, biases="o"),
        "local": mha(c, hidden, query, biases="o", span=window),
    }
    return decoder(
        c,
        lambda layer: made[types[layer]],
        plain(hidden, c.maybe("intermediate_size") or 4 * hidden),
        norm_style="layer",
        layers=layers,
        positions=c.count("max_position_embeddings"),
    )


def _neo_types(c: Config, layers: int) -> list[str]:
    """The kind of every layer: attention_types as [[kinds, times], ...], or attention_layers, or by turns 24 times."""
    expected = "pairs of a list of global and local and a number of times, one kind for each of the layers"
    pairs = c.items("attention_types")
    given = c.words("attention_layers")
    if pairs is None and given is None:
        pairs = [[["global", "local"], 12]]
    found: list[str] = []
    for pair in pairs or ():
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], list) or len(pair[0]) > MOST_LAYERS:
            raise c.fail("attention_types", pairs, expected)
        kinds, times = pair
        if isinstance(times, bool) or not isinstance(times, int) or not 0 <= times <= MOST_LAYERS:
            raise c.fail("attention_types", pairs, expected)
        found += kinds * times
        if len(found) > layers:
            raise c.fail("attention_types", pairs, f"{expected} ({layers})")
    types = found if pairs is not None else given or []
    name = "attention_types" if pairs is not None else "attention_layers"
    if len(types) != layers or any(kind not in ("global", "local") for kind in types):
        raise c.fail(name, pairs if pairs is not None else given, f"global or local for each of the {layers} layers")
    if given is not None and given != types:
        raise c.fail("attention_layers", given, "the same as attention_types")
    return types


@family("gpt_neox")
def gpt_neox(c: Config) -> Stack:
    """Pythia and its kin: LayerNorms, biases in the MLP, in attention by attention_bias."""
    c.dismiss("use_parallel_residual")  # an order of additions; both norms exist either way
    query = c.count("num_attention_heads")
    return decoder(
        c,
        always(mha(c, c.hidden, query, biases="qkvo" if c.flag("attention_bias") else "")),
        plain(c.hidden, c.count("intermediate_size")),
        norm_style="layer",
    )


@family("gpt_neox_japanese")
def gpt_neox_japanese(c: Config) -> Stack:
    """GPT-NeoX without biases but for one, on the output of the last layer's attention."""
    hidden, layers, query = c.hidden, c.layers, c.count("num_attention_heads")
    block = mha(c, hidden, query)
    last = mha(c, hidden, query, extra=(Weight("dense_bias", "attention", hidden),))
    return decoder(
        c,
        lambda layer: last if layer == layers - 1 else block,
        plain(hidden, hidden * c.count("intermediate_multiple_size"), bias=False),
        norm_style="layer",
    )


@family("gptj", "codegen")
def gptj(c: Config) -> Stack:
    """Attention without biases and MLP in parallel behind one norm; a bias on the head, also where it is tied."""
    layers, hidden, query, inner = gpt_shape(c)
    return decoder(
        c,
        always(mha(c, hidden, query)),
        plain(hidden, inner),
        norm_style="layer",
        norms=1,
        layers=layers,
        hidden=hidden,
        head_bias=True,
        max_context=c.agreed("n_positions", "max_position_embeddings"),
    )


@family("opt")
def opt(c: Config) -> Stack:
    """Position table with two spare rows; OPT-350M embeds in a narrower space and has no norm at the end."""
    hidden = c.hidden
    bias = c.flag("enable_bias")
    table = c.maybe("word_embed_proj_dim") or hidden
    narrow: tuple[Weight, ...] = ()
    if table != hidden:
        narrow = linear("project_in", "mlp", hidden, table) + linear("project_out", "mlp", table, hidden)
    context = c.count("max_position_embeddings")
    last = c.flag("do_layer_norm_before")
    removed = c.flag("_remove_final_layer_norm")
    return decoder(
        c,
        always(mha(c, hidden, c.count("num_attention_heads"), biases="qkvo" if bias else "")),
        plain(hidden, c.count("ffn_dim"), bias),
        norm_style="layer" if c.flag("layer_norm_elementwise_affine") else "none",
        final_norm=last and not removed,
        embedding_width=table,
        positions=context + 2,
        outside=narrow,
        max_context=context,
    )


@family("biogpt")
def biogpt(c: Config) -> Stack:
    """Position table with two spare rows, biases everywhere."""
    context = c.count("max_position_embeddings")
    return decoder(
        c,
        always(mha(c, c.hidden, c.count("num_attention_heads"), biases="qkvo")),
        plain(c.hidden, c.count("intermediate_size")),
        norm_style="layer",
        positions=context + 2,
        max_context=context,
    )


@family("xglm")
def xglm(c: Config) -> Stack:
    """Sine positions, which are not stored; biases everywhere."""
    hidden = c.agreed("d_model", "hidden_size")
    return decoder(
        c,
        always(mha(c, hidden, c.agreed("attention_heads", "num_attention_heads"), biases="qkvo")),
        plain(hidden, c.count("ffn_dim")),
        norm_style="layer",
        layers=depth(c, "num_layers"),
        hidden=hidden,
    )


@family("bloom")
def bloom(c: Config) -> Stack:
    """ALiBi, biases everywhere, a norm on the embedding."""
    hidden = c.agreed("hidden_size", "n_embed")
    return decoder(
        c,
        always(mha(c, hidden, c.agreed("n_head", "num_attention_heads"), biases="qkvo")),
        plain(hidden, 4 * hidden),
        norm_style="layer",
        layers=depth(c, "n_layer"),
        hidden=hidden,
        outside=norm("word_embeddings_layernorm", hidden, "layer"),
    )


@family("mpt")
def mpt(c: Config) -> Stack:
    """MPT as MosaicML's own code builds it; transformers' class knows only its plainest form, which this equals.

    There, no_bias takes every bias away, those of the norms too.
    """
    hidden, query = c.agreed("d_model", "hidden_size"), c.agreed("n_heads", "num_attention_heads")
    dim = head_dim(c, hidden, query)
    bias = not c.flag("no_bias")
    kind = c.text("norm_type").lower()
    kinds = ("layernorm", "low_precision_layernorm", "rmsnorm", "low_precision_rmsnorm")
    if kind not in kinds:
        raise c.fail("norm_type", kind, f"one of {', '.join(kinds)}")
    style: NormStyle = "rms" if "rms" in kind else "layer" if bias else "layer-nobias"
    attn = c.block("attn_config", "mpt") or Config({}, "mpt", "attn_config")
    kv = _mpt_kv_heads(attn, query)
    gqa.check_groups(c, query, kv)
    for name, absent in (("sliding_window_size", -1), ("kv_dim", None), ("qk_gn", False), ("reuse_kv_layer_idx", None)):
        if attn.raw.get(name, absent) not in (absent, None):
            raise attn.fail(name, attn.raw[name], "absent: that variant is not read")
    inner: tuple[Weight, ...] = ()
    if attn.flag("qk_ln"):
        inner = norm("q_ln", hidden, style) + norm("k_ln", kv * dim, style)
    # ALiBi and rotary positions leave no table, whatever learned_pos_emb says. Absent, the class has ALiBi.
    table = c.flag("learned_pos_emb") and not attn.flag("alibi", default=True) and not attn.flag("rope")
    context = c.count("max_seq_len")
    gate, wide = _mpt_mlp(c, hidden)
    block = dense(hidden, wide, gated=gate, bias=bias)
    agree(c, "head_dim", dim)
    agree(c, "num_key_value_heads", kv)
    return decoder(
        c,
        always(gqa.build(hidden, query, kv, dim, biases="qkvo" if bias else "", extra=inner)),
        lambda layer: block,
        norm_style=style,
        layers=depth(c, "n_layers"),
        hidden=hidden,
        positions=context if table else 0,
        max_context=context,
    )


def _mpt_kv_heads(attn: Config, query: int) -> int:
    """By attn_type."""
    kind = attn.text("attn_type", default="multihead_attention")
    given = attn.maybe("kv_n_heads")
    if kind == "grouped_query_attention":
        return attn.count("kv_n_heads")
    known = {"multihead_attention": query, "multiquery_attention": 1}
    if kind not in known:
        raise attn.fail("attn_type", kind, "multihead_attention, multiquery_attention or grouped_query_attention")
    if given is not None and given != known[kind]:
        raise attn.fail("kv_n_heads", given, f"{known[kind]}, as attn_type {kind} has it")
    return known[kind]


def _mpt_mlp(c: Config, hidden: int) -> tuple[bool, int]:
    """(gated, width): expansion_ratio times the hidden size, unless ffn_config gives a width."""
    wide = int(hidden * c.number("expansion_ratio"))
    if not wide:
        raise c.fail("expansion_ratio", c.get("expansion_ratio"), "a number that gives the MLP a width")
    ffn = c.block("ffn_config", "mpt")
    if ffn is None:
        return False, wide
    kind = ffn.text("ffn_type", default="mptmlp")
    if kind not in ("mptmlp", "mptglu"):
        raise ffn.fail("ffn_type", kind, "mptmlp or mptglu")
    return kind == "mptglu", ffn.maybe("ffn_hidden_size") or wide


@family("falcon")
def falcon(c: Config) -> Stack:
    """One KV head where multi_query, num_kv_heads in the newer layout, else one per query head. Each is cached once."""
    hidden, layers = c.agreed("hidden_size", "n_embed"), depth(c, "n_layer")
    query = c.agreed("n_head", "num_attention_heads")
    new = c.flag("new_decoder_architecture")
    given = c.maybe("num_kv_heads", "n_head_kv")
    parallel = c.flag("parallel_attn")
    norms = c.maybe("num_ln_in_parallel_attn")
    if new:
        kv = query if given is None else given
    elif c.flag("multi_query"):
        kv = 1  # whatever num_kv_heads says
    else:
        kv = query
        if given not in (None, query):
            raise c.fail("num_kv_heads", given, f"the number of query heads ({query}), as multi_query is false")
    c.dismiss("multi_query")
    two = not parallel or norms == 2 or (norms is None and new)
    return _falcon(c, layers, hidden, query, kv, 2 if two else 1, c.flag("bias"), c.flag("tie_word_embeddings"))


def _falcon(c: Config, layers: int, hidden: int, query: int, kv: int, norms: int, bias: bool, tied: bool) -> Stack:
    return decoder(
        c,
        always(mha(c, hidden, query, kv=kv, biases="qkvo" if bias else "")),
        plain(hidden, c.maybe("ffn_hidden_size") or 4 * hidden, bias),
        norm_style="layer",
        norms=norms,
        layers=layers,
        hidden=hidden,
        tied=tied,
    )


@family("RefinedWeb")
def refined_web(c: Config) -> Stack:
    """Falcon 40B as first published: always the newer layout, two norms."""
    hidden, query = c.agreed("hidden_size", "n_embed"), c.agreed("n_head", "num_attention_heads")
    c.dismiss("parallel_attn", "new_decoder_architecture", "multi_query")  # the code has no other layout
    kv = c.count("n_head_kv", "num_kv_heads")
    tied = c.flag("tie_word_embeddings", default=True)
    return _falcon(c, depth(c, "n_layer"), hidden, query, kv, 2, _said(c, "bias"), tied)


@family("RefinedWebModel")
def refined_web_model(c: Config) -> Stack:
    """Falcon 7B and 1B as first published: one KV head or one per head. The switches must be in the file."""
    hidden, query = c.agreed("hidden_size", "n_embed"), c.agreed("n_head", "num_attention_heads")
    kv = 1 if _said(c, "multi_query") else query
    norms = 1 if _said(c, "parallel_attn") else 2
    agree(c, "n_head_kv", kv)
    tied = c.flag("tie_word_embeddings", default=True)
    return _falcon(c, depth(c, "n_layer"), hidden, query, kv, norms, _said(c, "bias"), tied)


def _said(c: Config, name: str) -> bool:
    """A switch without a default: the file must hold it."""
    if c.raw.get(name) is None:
        raise c.missing(name)
    return c.flag(name)


@family("fuyu")
def fuyu(c: Config) -> Stack:
    """Older files: Persimmon's keys at the top, beside those of the image patches."""
    return llama.persimmon(c.seen_as("persimmon"))
