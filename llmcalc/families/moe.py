"""Decoders with GQA whose MLPs are mixtures of experts: Qwen-MoE, Mixtral, gpt-oss, Llama 4, GLM-4.5, MiniMax and kin.

Biases that only balance the router are buffers in most of these classes and no parameters; a family counts them where
its class does. Experts are kept as one matrix per projection with `copies`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from llmcalc.architecture import (
    FULL,
    Attention,
    Entry,
    Mlp,
    MlpAt,
    Span,
    Stack,
    Weight,
    always,
    decoder,
    every,
    layer_types,
    linear,
    norm,
    spans,
)
from llmcalc.attention import gqa, recurrent
from llmcalc.config import Config
from llmcalc.families import family
from llmcalc.families.llama import biased
from llmcalc.formulas.memory import index_bytes_per_token
from llmcalc.mlp import EXPERT_COUNTS, EXPERTS_USED, dense, experts, moe

# ---- which layers are mixtures


def alternate(c: Config, sparse: Sequence[bool], mixture: Callable[[], Mlp], plain: Callable[[], Mlp]) -> MlpAt:
    """A mixture on the layers where `sparse`, a dense block on the others; a kind that no layer uses is not read."""
    made = {kind: (mixture if kind else plain)() for kind in set(sparse)}
    if False not in made:
        c.dismiss("intermediate_size")
    if True not in made:
        c.dismiss("moe_intermediate_size", *EXPERT_COUNTS, *EXPERTS_USED)
    return lambda layer: made[sparse[layer]]


def after_first(c: Config) -> list[bool]:
    """DeepSeek's way: dense until first_k_dense_replace."""
    if c.maybe("moe_layer_freq") not in (None, 1):
        raise c.fail("moe_layer_freq", c.get("moe_layer_freq"), "1: the class does not read it")
    first = c.count("first_k_dense_replace", least=0)
    return [layer >= first for layer in range(c.layers)]


def by_types(c: Config, rule: Callable[[int], str], key: str = "mlp_layer_types") -> list[bool]:
    """The file's list of "dense" and "sparse", or the class's rule."""
    found = c.per_layer(c.words(key), key, c.layers, rule)
    for name in found:
        if name not in ("dense", "sparse"):
            raise c.fail(key, name, 'a list of "dense" and "sparse"')
    return [name == "sparse" for name in found]


def by_flags(c: Config, key: str) -> list[bool] | None:
    """A list of 0 and 1 (or false and true) per layer, or None where the file has none."""
    found = c.items(key)
    if found is None:
        return None
    if any(value not in (0, 1) for value in found):
        raise c.fail(key, found, "a list of 0 and 1")
    return [bool(value) for value in c.per_layer(found, key, c.layers, lambda _: 0)]


def qwen_sparse(c: Config, dense_layers: Sequence[int] = ()) -> list[bool]:
    """Every decoder_sparse_step-th layer, except those in mlp_only_layers (`dense_layers`: the class's own)."""
    listed = c.counts("mlp_only_layers")
    only = set(dense_layers if listed is None else listed)
    step = c.count("decoder_sparse_step")
    number = c.count("num_experts", "num_local_experts", least=0)
    return [number > 0 and layer not in only and (layer + 1) % step == 0 for layer in range(c.layers)]


# ---- blocks


def mixture(c: Config, width: str = "moe_intermediate_size", **options: Any) -> Callable[[], Mlp]:
    """Experts by the usual keys, of the width that the key `width` gives."""
    return lambda: moe(c.hidden, *experts(c), c.count(width), **options)


def plain(c: Config, width: str = "intermediate_size", bias: bool = False) -> Callable[[], Mlp]:
    """The dense block of the layers without experts."""
    return lambda: dense(c.hidden, c.count(width), bias=bias)


def shared_width(c: Config, *keys: str, least: int = 0) -> int:
    """Shared experts are one block: their number times the width of an expert. Absent and null are none."""
    number = c.maybe(*keys, least=least)
    return number * c.count("moe_intermediate_size") if number else 0


def predictor(c: Config, number: int, mixer: Attention, block: Mlp, tables: int = 0) -> tuple[Weight, ...]:
    """Multi-token prediction: per module a layer, a projection of [embedding, hidden], three norms, and `tables`.

    One table is the head, two are embedding and head. The balancing bias of its router counts, since files store it.
    """
    hidden = c.hidden
    one = mixer.weights + block.weights + norm("input_layernorm", hidden)
    one += norm("post_attention_layernorm", hidden)
    one += (Weight("mlp.gate.e_score_correction_bias", "mtp", block.experts),) if block.experts else ()
    one += linear("eh_proj", "mtp", hidden, 2 * hidden)
    one += norm("enorm", hidden) + norm("hnorm", hidden) + norm("shared_head.norm", hidden)
    vocab = c.count("vocab_size")
    one += tuple(Weight(name, "mtp", vocab, hidden) for name in ("embed_tokens", "shared_head.head")[2 - tables :])
    return tuple(w._replace(name=f"mtp.{index}.{w.name}", part="mtp") for index in range(number) for w in one)


# ---- Qwen


@family("qwen2_moe")
def qwen2_moe(c: Config) -> Stack:
    """Biases on q, k and v, a shared expert behind a gate. With use_sliding_window, even layers up to a limit slide."""
    sliding = c.flag("use_sliding_window")
    last = c.count("max_window_layers", least=0)
    types = layer_types(c, c.layers, lambda i: "sliding_attention" if sliding and i % 2 == 0 and i < last else "full_attention")
    if not sliding:
        if "sliding_attention" in types:
            raise c.fail("use_sliding_window", False, "true where layer_types has sliding layers")
        c.dismiss("sliding_window")
    mixed = mixture(c, shared=c.count("shared_expert_intermediate_size", least=0), shared_gate=True)
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c, "qkv", "qkv_bias"), spans=spans(c, types)),
        alternate(c, qwen_sparse(c), mixed, plain(c)),
    )


@family("qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text")
def qwen3_moe(c: Config) -> Stack:
    """Norms on the heads of q and k. With use_sliding_window every layer slides, whatever max_window_layers says."""
    if not c.flag("use_qk_norm", default=True):
        raise c.fail("use_qk_norm", False, "true")
    if c.model_type != "qwen3_moe":
        sliding = False
        if c.flag("use_sliding_window"):
            raise c.fail("use_sliding_window", True, "false: this class has no windows")
        if c.model_type == "qwen3_omni_moe_text" and c.maybe("sliding_window"):
            sliding = True
    else:
        sliding = c.flag("use_sliding_window")
    windows = [Span("window", c.count("sliding_window"))] * c.layers if sliding else None
    c.dismiss("sliding_window", "max_window_layers")
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), qk_norm="head", spans=windows, rounds=True),
        alternate(c, qwen_sparse(c), mixture(c), plain(c)),
    )


@family("mellum")
def mellum(c: Config) -> Stack:
    """Qwen3-MoE with windows by layer_types and dense layers by mlp_layer_types."""
    types = layer_types(c, c.layers, lambda _: "full_attention")
    if "sliding_attention" not in types:
        c.dismiss("sliding_window")
    attention = gqa.uniform(c, biases=biased(c), qk_norm="head", spans=spans(c, types))
    return decoder(c, attention, alternate(c, by_types(c, lambda _: "sparse"), mixture(c), plain(c)))


# ---- Mixtral and its like: the width of an expert is intermediate_size


@family("mixtral")
def mixtral(c: Config) -> Stack:
    """Llama with experts; every layer slides where sliding_window is not null."""
    return decoder(c, gqa.uniform(c, spans=everywhere(c)), always(mixture(c, "intermediate_size")()))


def everywhere(c: Config) -> list[Span] | None:
    """A window on every layer where there is one. These classes do not read layer_types: a file with it is refused."""
    window = c.maybe("sliding_window")
    return [Span("window", window)] * c.layers if window else None


@family("phimoe")
def phimoe(c: Config) -> Stack:
    """LayerNorms with a bias, and switches for biases on attention and head."""
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), spans=everywhere(c)),
        always(mixture(c, "intermediate_size")()),
        norm_style="layer",
        head_bias=c.flag("lm_head_bias"),
    )


@family("gpt_oss")
def gpt_oss(c: Config) -> Stack:
    """Biases on everything, sinks, a window on the even layers."""
    types = layer_types(c, c.layers, every(2))
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), spans=spans(c, types), sinks=True),
        always(mixture(c, "intermediate_size", bias=True, router_bias=True)()),
    )


@family("olmoe", "flex_olmo")
def olmoe(c: Config) -> Stack:
    """Norms over the whole width of q and k."""
    return decoder(c, gqa.uniform(c, biases=biased(c), qk_norm="full"), always(mixture(c, "intermediate_size")()))


@family("granitemoe", "granitemoeshared", "granitemoe_swa")
def granitemoe(c: Config) -> Stack:
    """Granite with experts; the later classes may have a shared one, the last sinks and windows on 3 layers of 4."""
    shared = 0 if c.model_type == "granitemoe" else c.count("shared_intermediate_size", least=0, default=0)
    swa = c.model_type == "granitemoe_swa"
    windows = spans(c, layer_types(c, c.layers, every(4, 3))) if swa else None
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), spans=windows, sinks=swa),
        always(mixture(c, "intermediate_size", shared=shared)()),
    )


@family("aria_text")
def aria(c: Config) -> Stack:
    """Experts of intermediate_size, and shared ones as one block."""
    shared = c.count("moe_num_shared_experts", least=0) * c.count("intermediate_size")
    block = mixture(c, "intermediate_size", shared=shared, shared_bias=c.flag("mlp_bias"))()
    return decoder(c, gqa.uniform(c, biases=biased(c)), always(block))


@family("dbrx")
def dbrx(c: Config) -> Stack:
    """Keys in two nested blocks, whose absent values are those of their own classes; LayerNorms without a bias."""
    attention, ffn = c.block("attn_config"), c.block("ffn_config")
    empty = Config({}, c.model_type)
    heads, hidden = c.count("num_attention_heads"), c.hidden
    kv = (attention or empty).count("kv_n_heads", default=1)
    gqa.check_groups(c, heads, kv)
    mixer = gqa.build(hidden, heads, kv, gqa.exact_division(c, "d_model", hidden, "n_heads", heads))
    ffn = ffn or empty
    number, used = ffn.count("moe_num_experts", default=4), ffn.count("moe_top_k", default=1)
    if used > number:
        raise ffn.fail("moe_top_k", used, f"at most moe_num_experts ({number})")
    block = moe(hidden, number, used, ffn.count("ffn_hidden_size", default=3584))
    if c.flag("tie_word_embeddings"):
        raise c.fail("tie_word_embeddings", True, "false: DBRX does not tie")
    return decoder(c, lambda _: mixer, always(block), norm_style="layer-nobias")


@family("jetmoe")
def jetmoe(c: Config) -> Stack:
    """A mixture in the attention too: each chosen expert has its queries and output; all share the keys and values."""
    number, used = experts(c)
    hidden, kv, dim = c.hidden, c.count("num_key_value_heads"), c.count("head_dim", "kv_channels")
    heads = c.maybe("num_attention_heads") or kv * used
    if heads != kv * used:
        raise c.fail("num_attention_heads", heads, f"num_key_value_heads × num_experts_per_tok ({kv * used})")
    mixer = gqa.build(hidden, heads, kv, dim)
    weights = linear("experts.input_linear", "attention", kv * dim, hidden, copies=number, active=used)
    weights += linear("kv_proj", "attention", 2 * kv * dim, hidden)
    weights += linear("experts.output_linear", "attention", hidden, kv * dim, copies=number, active=used)
    weights += (Weight("experts.bias", "attention", hidden), Weight("experts.router", "router", number, hidden))
    mixer = replace(mixer, weights=weights)
    block = moe(hidden, number, used, c.count("intermediate_size"), extra=(Weight("mlp.bias", "mlp", hidden),))
    return decoder(c, lambda _: mixer, always(block))


# ---- Llama 4


@family("llama4_text")
def llama4(c: Config) -> Stack:
    """Rotary layers attend within chunks, layers without positions to everything; mixtures have one shared expert."""
    depth = c.layers
    interval = c.count("no_rope_layer_interval")
    # An empty list means the rule, as does null.
    rotary = by_flags(c, "no_rope_layers") if c.raw.get("no_rope_layers") else None
    c.dismiss("no_rope_layers")
    if rotary is None:
        rotary = [(layer + 1) % interval != 0 for layer in range(depth)]
    chunk = c.maybe("attention_chunk_size")
    local = [on and chunk is not None for on in rotary]
    types = layer_types(c, depth, lambda i: "chunked_attention" if local[i] else "full_attention")
    c.dismiss("use_qk_norm")  # an L2 norm without parameters
    step = c.count("interleave_moe_layer_step")
    chosen = c.counts("moe_layers")
    sparse = set(range(step - 1, depth, step) if chosen is None else chosen)
    width = c.count("intermediate_size")
    c.dismiss("intermediate_size_mlp")
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), spans=spans(c, types)),
        alternate(
            c,
            [layer in sparse for layer in range(depth)],
            mixture(c, "intermediate_size", shared=width),
            plain(c, "intermediate_size_mlp"),
        ),
    )


# ---- MiniMax


@family("minimax_m2")
def minimax_m2(c: Config) -> Stack:
    """Norms over the whole width of q and k, sigmoid routing."""
    whole_norms(c, "per_layer")
    if any(kind != 1 for kind in c.counts("attn_type_list") or ()):
        raise c.fail("attn_type_list", c.get("attn_type_list"), "1 on every layer: M2 has no linear attention")
    c.dismiss("num_mtp_modules", "mtp_transformer_layers")  # announced, and in no checkpoint
    return decoder(c, gqa.uniform(c, qk_norm="full"), always(mixture(c, "intermediate_size")()))


def whole_norms(c: Config, kind: str) -> None:
    """The class always has norms on q and k of this kind; a file that says otherwise is another model."""
    if not c.flag("use_qk_norm", default=True):
        raise c.fail("use_qk_norm", False, "true")
    if c.text("qk_norm_type", default=kind) != kind:
        raise c.fail("qk_norm_type", c.get("qk_norm_type"), f'"{kind}"')


@family("minimax_m3_vl_text", "minimax_m3")
def minimax_m3(c: Config) -> Stack:
    """Block-sparse attention: on the sparse layers an index key per token, and blocks of keys chosen per KV head."""
    c = defaults_of(c, "minimax_m3_vl_text")
    whole_norms(c, "per_head")
    depth, hidden = c.layers, c.hidden
    sparse_keys = c.block("sparse_attention_config")
    index = sparse_keys or Config({}, c.model_type)
    flags = by_flags_in(index, "sparse_attention_freq", depth)
    types = layer_types(c, depth, lambda layer: "minimax_m3_sparse" if flags is not None and flags[layer] else "full_attention")
    if not index.flag("use_sparse_attention", default=True):
        raise index.fail("use_sparse_attention", False, "true")
    off = by_flags_in(index, "sparse_disable_index_value", depth)
    index_heads = index.maybe("sparse_num_index_heads") or c.count("index_n_heads")
    index_dim = index.maybe("sparse_index_dim") or c.count("index_head_dim")
    c.dismiss("index_n_heads", "index_head_dim")
    blocks = index.maybe("sparse_topk_blocks") or c.count("index_topk_blocks")
    size = index.maybe("sparse_block_size") or c.count("index_block_size")
    heads, kv, dim = gqa.heads(c)
    indexer = linear("indexer.q_proj", "indexer", index_heads * index_dim, hidden)
    indexer += linear("indexer.k_proj", "indexer", index_dim, hidden)
    indexer += norm("indexer.q_norm", index_dim) + norm("indexer.k_norm", index_dim)
    keys = Entry(index_bytes_per_token, (("index_head_dim", index_dim),), flops=2 * index_heads * index_dim)
    made: dict[str, Attention] = {}
    for layer, name in enumerate(types):
        if name == "minimax_m3_sparse" and off is not None and not off[layer]:
            raise index.fail("sparse_disable_index_value", off, "1 on every sparse layer: index values are not read")
        if name == "full_attention":
            made.setdefault(name, gqa.build(hidden, heads, kv, dim, qk_norm=(dim, dim)))
        elif name == "minimax_m3_sparse":
            made.setdefault(
                name,
                gqa.build(
                    hidden, heads, kv, dim, qk_norm=(dim, dim), extra=indexer, extra_entries=(keys,),
                    reads=blocks * size, kind="sparse",
                ),
            )  # fmt: skip
        else:
            raise c.fail("layer_types", name, "full_attention or minimax_m3_sparse")
    flagged = by_flags(c, "moe_layer_freq")
    sparse = by_types(c, lambda layer: "sparse" if flagged is None or flagged[layer] else "dense")
    if flagged is not None or c.has("mlp_layer_types"):
        c.dismiss("first_k_dense_replace")  # says the same again
    c.dismiss("num_mtp_modules", "num_nextn_predict_layers")  # announced, and in no checkpoint
    c.dismiss("use_gemma_norm")  # another scale, the same vectors
    shared = c.count("shared_intermediate_size", least=0)
    if c.maybe("n_shared_experts", least=0) not in (None, 1):
        raise c.fail("n_shared_experts", c.get("n_shared_experts"), "1: its width is shared_intermediate_size")
    c.agreed("intermediate_size", "moe_intermediate_size")
    c.dismiss("dense_intermediate_size")
    return decoder(
        c,
        lambda layer: made[types[layer]],
        alternate(c, sparse, mixture(c, "intermediate_size", shared=shared), plain(c, "dense_intermediate_size")),
    )


def by_flags_in(block: Config, key: str, layers: int) -> list[bool] | None:
    """A list of 0 and 1 per layer from a nested block."""
    found = block.counts(key, most=1)
    return None if found is None else [bool(value) for value in block.per_layer(found, key, layers, lambda _: 0)]


def defaults_of(c: Config, model_type: str) -> Config:
    """The same config read with the class defaults of the nested text config, for files that flatten it."""
    if c.model_type == model_type:
        return c
    return c.seen_as(c.model_type, defaults_of=model_type)


# ---- GLM and those built on it


@family("glm4_moe", "glm4v_moe_text", "sarvam_moe")
def glm4_moe(c: Config) -> Stack:
    """Biases on q, k and v by a switch, norms on heads by another; the MTP layer stores its own embedding and head."""
    if c.model_type == "glm4v_moe_text":
        if c.flag("use_qk_norm"):
            raise c.fail("use_qk_norm", True, "false: this class has no norms on q and k")
        normed = False
    else:
        normed = c.flag("use_qk_norm")
    attention = gqa.uniform(c, biases=biased(c, "qkv"), qk_norm="head" if normed else None, rounds=True)
    mixed = mixture(c, shared=shared_width(c, "n_shared_experts", "num_shared_experts"))
    number = c.maybe("num_nextn_predict_layers", "num_mtp_layers", least=0, most=64) or 0
    mtp = predictor(c, number, attention(0), mixed(), tables=2) if number else ()
    return decoder(c, attention, alternate(c, after_first(c), mixed, plain(c)), mtp=mtp)


@family("solar_open")
def solar_open(c: Config) -> Stack:
    """Mixtures on every layer, no bias on the output projection."""
    c.dismiss("intermediate_size")  # of dense layers, which the class does not have
    block = mixture(c, shared=shared_width(c, "n_shared_experts"))()
    return decoder(c, gqa.uniform(c, biases=biased(c, "qkv")), always(block))


@family("dots1")
def dots1(c: Config) -> Stack:
    """Norms on heads; windows only from max_window_layers on, or by layer_types."""
    window, first = c.maybe("sliding_window"), c.maybe("max_window_layers", least=0)
    types = layer_types(
        c,
        c.layers,
        lambda i: "sliding_attention" if window and first is not None and i >= first else "full_attention",
    )
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), qk_norm="head", spans=spans(c, types)),
        alternate(c, after_first(c), mixture(c, shared=shared_width(c, "n_shared_experts")), plain(c)),
    )


@family("hy_v3")
def hy_v3(c: Config) -> Stack:
    """Norms on heads, biases of dense and shared blocks by mlp_bias; the first layer is dense."""
    first = c.maybe("first_k_dense_replace", least=0)
    sparse = by_types(c, lambda layer: "sparse" if layer >= (1 if first is None else first) else "dense")
    if not c.flag("qk_norm", "use_qk_norm", default=True):
        raise c.fail("qk_norm", False, "true")
    bias = c.flag("mlp_bias")
    width = c.agreed("moe_intermediate_size", "expert_hidden_dim")
    block = moe(c.hidden, *experts(c), width, shared=width * c.count("num_shared_experts"), shared_bias=bias)
    attention = gqa.uniform(c, biases=biased(c), qk_norm="head")
    number = c.maybe("num_nextn_predict_layers", least=0, most=64) or 0
    mtp = predictor(c, number, attention(0), block) if number else ()
    return decoder(c, attention, alternate(c, sparse, lambda: block, plain(c, bias=bias)), mtp=mtp)


@family("exaone_moe")
def exaone_moe(c: Config) -> Stack:
    """Norms on heads, windows by a pattern that is a number or a text such as LLLG; its MTP layer is dense."""
    pattern = c.get("sliding_window_pattern")
    if isinstance(pattern, str):
        if not pattern or set(pattern) - set("LG"):
            raise c.fail("sliding_window_pattern", pattern, "a text of L and G, or a number")
        # The last layer is full whatever the pattern says.
        local = [pattern[i % len(pattern)] == "L" and i < c.layers - 1 for i in range(c.layers)]
    else:
        period = c.maybe("sliding_window_pattern")
        local = [period is not None and (i + 1) % period != 0 for i in range(c.layers)]
    types = layer_types(c, c.layers, lambda i: "sliding_attention" if local[i] else "full_attention")
    windows = spans(c, types if c.maybe("sliding_window") else ["full_attention"] * c.layers)
    flagged = by_flags(c, "is_moe_layer")
    first = c.count("first_k_dense_replace", least=0)
    sparse = by_types(c, lambda i: "sparse" if (i >= first if flagged is None else flagged[i]) else "dense")
    attention = gqa.uniform(c, qk_norm="head", spans=windows)
    number = c.maybe("num_nextn_predict_layers", least=0, most=64) or 0
    mtp = predictor(c, number, attention(c.layers - 1), plain(c)()) if number else ()
    mixed = mixture(c, shared=shared_width(c, "num_shared_experts"))
    return decoder(c, attention, alternate(c, sparse, mixed, plain(c)), mtp=mtp)


# ---- others


@family("kolibri1")
def kolibri(c: Config) -> Stack:
    """Norms on heads and behind the blocks, a window on four layers of five, a shared expert."""
    c.dismiss("intermediate_size")  # no dense layers
    types = layer_types(c, c.layers, every(5))
    attention = gqa.uniform(c, qk_norm="head", spans=spans(c, types))
    shared = c.count("shared_expert_intermediate_size", least=0)
    return decoder(c, attention, always(mixture(c, shared=shared)()), norms=4)


@family("flint")
def flint(c: Config) -> Stack:
    """Norms on heads, sinks; everything is seen by the first two layers, every fourth and the last; two dense layers first."""
    last = c.layers - 1
    types = layer_types(c, c.layers, lambda i: "full_attention" if i < 2 or i % 4 == 1 or i == last else "sliding_attention")
    attention = gqa.uniform(c, biases=biased(c), qk_norm="head", spans=spans(c, types), sinks=True)
    mixed = mixture(c, shared=c.count("shared_expert_intermediate_size", least=0))
    return decoder(c, attention, alternate(c, qwen_sparse(c, (0, 1)), mixed, plain(c)))


@family("beam")
def beam(c: Config) -> Stack:
    """Norms on heads, an output gate with a bias per head, four norms; a window on five layers of six, the last one is full."""
    query, _, dim = gqa.heads(c)
    rule = every(6)
    types = layer_types(c, c.layers, lambda i: "full_attention" if i == c.layers - 1 else rule(i))
    gate = (*linear("gate_proj", "attention", query * dim, c.hidden), Weight("gate_bias", "attention", query))
    attention = gqa.uniform(c, biases=biased(c), qk_norm="head", spans=spans(c, types), extra=gate)
    sparse = by_types(c, lambda i: "dense" if i < 3 else "sparse")
    return decoder(c, attention, alternate(c, sparse, mixture(c), plain(c)), norms=4)


@family("muse_spark_text")
def muse_spark(c: Config) -> Stack:
    """Experts in a narrower width, an output gate, learned residual gates; full attention on every fourth layer from the last."""
    query, _, dim = gqa.heads(c)
    gate = linear("gate_proj", "attention", query * dim, c.hidden)
    windows = spans(c, layer_types(c, c.layers, every(4, -c.layers)))
    latent = c.count("moe_hidden_size")
    mixed = mixture(c, latent=latent, extra=norm("mlp.pre_expert_norm", latent) + norm("mlp.post_expert_norm", latent))
    residual = tuple(Weight(f"{name}_residual_gate", "norms", c.hidden) for name in ("post_attention", "post_feedforward"))
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), spans=windows, extra=gate),
        alternate(c, by_types(c, lambda _: "sparse"), mixed, plain(c)),
        norms=3,
        per_layer=lambda _: residual,
    )


@family("inkling_text")
def inkling(c: Config) -> Stack:
    """Relative positions from a projection, short convolutions on keys, values and both blocks; sliding layers have more KV heads.

    The convolutions run in fp32, and so is what they keep.
    """
    hidden, depth, kernel, rel = c.hidden, c.layers, c.count("conv_kernel_size"), c.count("d_rel")
    listed = c.counts("local_layer_ids")
    local = {i for i in range(depth) if (i + 1) % 6} if listed is None else set(listed)
    types = layer_types(c, depth, lambda i: "hybrid_sliding" if i in local else "hybrid")
    window = c.count("sliding_window_size")
    shapes = {
        "hybrid": (*gqa.heads(c), c.count("rel_extent"), FULL),
        "hybrid_sliding": (
            c.count("swa_num_attention_heads"),
            c.count("swa_num_key_value_heads"),
            c.count("swa_head_dim"),
            window,
            Span("window", window),
        ),
    }

    @cache
    def attention(name: str) -> Attention:
        if name not in shapes:
            raise c.fail("layer_types", name, "hybrid or hybrid_sliding")
        query, kv, dim, extent, span = shapes[name]
        gqa.check_groups(c, query, kv)
        extra = linear("r_proj", "attention", query * rel, hidden) + linear("rel_logits_proj", "attention", rel, extent)
        channels = {"k": kv * dim, "v": kv * dim, "attn": hidden, "mlp": hidden}
        for place, width in channels.items():
            extra += recurrent.convolution(f"{place}_sconv", width, kernel)
        states = tuple(recurrent.conv(width, kernel, f"{place}_sconv")._replace(dtype="fp32") for place, width in channels.items())
        return replace(gqa.build(hidden, query, kv, dim, span=span, qk_norm=(dim, dim), extra=extra), states=states)

    # A file with dense_intermediate_size says the experts' width in intermediate_size.
    both = c.has("dense_intermediate_size")
    wide = c.count("dense_intermediate_size" if both else "intermediate_size")
    inner = c.count("intermediate_size" if both else "moe_intermediate_size")
    first = c.maybe("dense_mlp_idx", least=0) or 0
    sparse = by_types(c, lambda i: "dense" if i < first else "sparse")
    scale = (Weight("mlp.global_scale", "router", 1),)
    shared = c.count("n_shared_experts", least=0)
    number, used = experts(c)
    block = dense(hidden, wide)
    mixed = moe(hidden, number, used, inner, shared=shared * inner, idle=shared, extra=scale)  # the router scores the shared ones too
    c.dismiss("sliding_window", "moe_intermediate_size", "intermediate_size")
    near = set(c.counts("mtp_local_layer_ids") or ())
    joined = norm("embed_norm", hidden) + norm("hidden_norm", hidden) + linear("input_proj", "mtp", hidden, 2 * hidden)
    joined += block.weights + scale + norm("attn_norm", hidden) + norm("mlp_norm", hidden)
    mtp: tuple[Weight, ...] = ()
    for index in range(c.maybe("num_mtp_layers", least=0, most=64) or 0):  # dense layers without a head or a norm before it (vLLM)
        mtp += attention("hybrid_sliding" if index in near else "hybrid").weights + joined
    return decoder(
        c,
        lambda layer: attention(types[layer]),
        lambda layer: mixed if sparse[layer] else replace(block, weights=block.weights + scale),
        tied=False,
        outside=norm("embed_norm", hidden),
        mtp=tuple(weight._replace(part="mtp") for weight in mtp),
    )


@family("inkling2_text")
def inkling_2(c: Config) -> Stack:
    """Inkling with an output gate and sinks; full layers mix keys and values by learned kernels; attention over earlier blocks."""
    hidden, depth, kernel, rel = c.hidden, c.layers, c.count("conv_kernel_size"), c.count("d_rel")
    types = layer_types(c, depth, lambda i: "hybrid_sliding" if (i + 1) % 6 else "hybrid")
    window = c.count("sliding_window_size")
    near = c.count("swa_num_attention_heads"), c.count("swa_num_key_value_heads"), c.count("swa_head_dim")
    shapes = {"hybrid": (*gqa.heads(c), c.count("rel_extent"), FULL), "hybrid_sliding": (*near, window, Span("window", window))}
    made: dict[str, Attention] = {}
    for name in set(types):
        if name not in shapes:
            raise c.fail("layer_types", name, "hybrid or hybrid_sliding")
        query, kv, dim, extent, span = shapes[name]
        gqa.check_groups(c, query, kv)
        full = name == "hybrid"
        extra = linear("gate_proj", "attention", query * dim, hidden) + linear("sink_proj", "attention", query, hidden)
        extra += linear("relative.linear", "attention", query * rel, hidden) + linear("relative.proj", "attention", rel, extent)
        extra += (Weight("q_norm.scale", "norms", query, dim), Weight("relative.norm.scale", "norms", query, rel))
        for place in "kv":
            extra += recurrent.convolution(f"{place}_sconv", kv * dim, kernel)
            extra += linear(f"{place}_sconv.weight_proj", "state", kv * kernel, hidden) if full else ()
        for place in ("attention", "mlp"):
            extra += recurrent.convolution(f"{place}_sconv", hidden, kernel)
        # The residual stream is a mix of the earlier blocks of layers, by one query (three before full attention, and norms).
        extra += norm("query_attention_input", hidden) * (3 if full else 1) + norm("query_mlp_input", hidden)
        extra += norm("input_layernorm", hidden) * (3 if full else 1) + norm("post_attention_layernorm", hidden)
        widths = (kv * dim, kv * dim, hidden, hidden)
        states = tuple(recurrent.conv(width, kernel)._replace(dtype="fp32") for width in widths)
        made[name] = replace(gqa.build(hidden, query, kv, dim, span=span, extra=extra), states=states)
    first = made[types[0]]  # nothing lies before the first layer
    dropped = tuple(weight for weight in first.weights if weight.name != "query_attention_input")
    block = mixture(c)()
    c.dismiss("sliding_window", "num_mtp_layers", "intermediate_size")
    stack = decoder(
        c,
        lambda layer: made[types[layer]] if layer else replace(first, weights=dropped),
        always(block),
        norms=0,
        tied=False,
        outside=norm("embed_norm", hidden) + norm("final_input", hidden),
    )
    rows = c.maybe("unpadded_vocab_size") or stack.vocab
    return replace(stack, head=linear("lm_head", "head", rows, hidden))


@family("ernie4_5_moe", "ernie4_5_vl_moe_text")
def ernie4_5_moe(c: Config) -> Stack:
    """The router's balancing bias is a parameter. The vision class has a second set of experts for image tokens."""
    bias = c.flag("use_bias")  # on everything but the experts
    hidden, (number, used) = c.hidden, experts(c)
    vision = c.model_type == "ernie4_5_vl_moe_text"
    if vision:
        widths = c.counts("moe_intermediate_size", least=1) or [1536, 512]  # null in the class, which then takes these
        if len(widths) < 2:
            raise c.fail("moe_intermediate_size", widths, "two widths: of the text and of the image experts")
        sparse = by_types(c, lambda layer: "sparse" if layer else "dense")
    else:
        widths = [c.count("moe_intermediate_size")]
        start, step = c.count("moe_layer_start_index", least=0), c.count("moe_layer_interval")
        end = c.maybe("moe_layer_end_index", least=-1)
        end = c.layers - 1 if end in (None, -1) else end
        assert end is not None
        sparse = [start <= layer <= end and (layer + 1) % step == 0 for layer in range(c.layers)]
    shared = c.count("moe_num_shared_experts", least=0) * widths[0]

    def mixed() -> Mlp:
        block = moe(hidden, number, used, widths[0], shared=shared, shared_bias=bias, correction_bias=True)
        if not vision:
            return block
        # A text token uses none of the image experts.
        images = moe(hidden, number, used, widths[1], correction_bias=True).weights
        unused = tuple(w._replace(name=f"vision.{w.name}", active=0) for w in images)
        return replace(block, weights=block.weights + unused)

    attention = gqa.uniform(c, biases="qkvo" if bias else "")
    block = plain(c, bias=bias)
    mtp_layers = c.maybe("num_nextn_predict_layers", least=0, most=64) or 0
    # A dense layer, two norms and a projection; no norm before the head, which is the model's own.
    modules = predictor(c, mtp_layers, attention(0), block()) if mtp_layers else ()
    mtp = tuple(weight for weight in modules if "shared_head" not in weight.name)
    head_bias = bias and not vision
    return decoder(c, attention, alternate(c, sparse, mixed, block), mtp=mtp, head_bias=head_bias)


@family("afmoe")
def afmoe(c: Config) -> Stack:
    """A gate of its own on the attention output, four norms per layer, a router bias that is a parameter."""
    query, _, dim = gqa.heads(c)
    types = layer_types(c, c.layers, every(c.count("global_attn_every_n_layers")))
    c.dismiss("global_attn_every_n_layers")
    gate = linear("gate_proj", "attention", query * dim, c.hidden)
    attention = gqa.uniform(c, biases=biased(c), qk_norm="head", spans=spans(c, types), extra=gate)
    first = c.count("num_dense_layers", least=0)
    mixed = mixture(c, shared=shared_width(c, "num_shared_experts"), correction_bias=True)
    sparse = [layer >= first for layer in range(c.layers)]
    return decoder(c, attention, alternate(c, sparse, mixed, plain(c)), norms=4)


@family("smallthinker")
def smallthinker(c: Config) -> Stack:
    """Experts on every layer, of names of their own; sliding_window_layout marks the layers with a window."""
    for key in ("moe_layer_layout", "moe_enable_secondary_experts"):
        given = c.raw.get(key)
        if (isinstance(given, list) and not all(given)) or given is True:
            raise c.fail(key, given, "experts of one kind on every layer")
    slides = by_flags(c, "sliding_window_layout") or [False] * c.layers
    near = Span("window", c.count("sliding_window_size")) if any(slides) else FULL
    c.dismiss("sliding_window_size")
    number, used = c.count("moe_num_primary_experts"), c.count("moe_num_active_primary_experts")
    if used > number:
        raise c.fail("moe_num_active_primary_experts", used, f"at most moe_num_primary_experts ({number})")
    attention = gqa.uniform(c, biases=biased(c), spans=[near if flag else FULL for flag in slides])
    return decoder(c, attention, always(moe(c.hidden, number, used, c.count("moe_ffn_hidden_size"))))


@family("cohere2_moe")
def cohere2_moe(c: Config) -> Stack:
    """Attention and experts in parallel behind one norm; dense first layers with a window pattern of their own."""
    first = c.maybe("first_k_dense_replace", least=0) or 0
    head, rest = every(c.count("prefix_dense_sliding_window_pattern")), every(c.count("sliding_window_pattern"))
    types = layer_types(c, c.layers, lambda i: head(i) if i < first else rest(i - first))
    if "sliding_attention" not in types:
        c.dismiss("sliding_window")
    sparse = by_types(c, lambda i: "dense" if i < first else "sparse")
    width = c.count("intermediate_size")
    mixed = mixture(c, "intermediate_size", shared=width * c.count("num_shared_experts", least=0))
    c.dismiss("prefix_dense_intermediate_size")
    wide = "prefix_dense_intermediate_size" if c.has("prefix_dense_intermediate_size") else "intermediate_size"
    attention = gqa.uniform(c, biases=biased(c), spans=spans(c, types))
    return decoder(c, attention, alternate(c, sparse, mixed, plain(c, wide)), norms=1, norm_style="layer-nobias")


@family("hunyuan_v1_moe")
def hunyuan_v1_moe(c: Config) -> Stack:
    """Norms on heads, one shared block on every layer; numbers and widths of experts may be lists over the layers."""
    depth, hidden = c.layers, c.hidden

    def over_layers(default: int | None, *keys: str) -> list[int]:
        found = c.get(*keys)
        if isinstance(found, list):
            return c.per_layer(c.counts(*keys, least=1), keys[0], depth, lambda _: 1)
        return [c.count(*keys, default=default)] * depth

    for key in ("use_cla", "mlp_bias"):
        if c.flag(key):
            raise c.fail(key, True, "false")
    c.dismiss("cla_share_factor")  # of use_cla
    if not c.flag("use_qk_norm", default=True):
        raise c.fail("use_qk_norm", False, "true")
    if not c.flag("use_mixed_mlp_moe", default=True):
        raise c.fail("use_mixed_mlp_moe", False, "true: the class always has a shared block")
    width = c.count("intermediate_size")
    inner = over_layers(width, "moe_intermediate_size")
    shared = over_layers(1, "num_shared_expert")
    number = over_layers(None, "num_experts", "num_local_experts")
    used = over_layers(None, "moe_topk", "num_experts_per_tok")
    if any(top > all_ for top, all_ in zip(used, number, strict=True)):
        raise c.fail("moe_topk", used[0], f"at most the number of experts ({number[0]})")
    query = c.count("num_attention_heads")
    kv = c.maybe("num_key_value_heads") or query
    dim = c.maybe("head_dim", "attention_head_dim")
    dim = dim or gqa.exact_division(c, "hidden_size", hidden, "num_attention_heads", query)
    gqa.check_groups(c, query, kv)
    mixer = gqa.build(hidden, query, kv, dim, biases=biased(c), qk_norm=(dim, dim))
    return decoder(
        c,
        lambda _: mixer,
        lambda i: moe(hidden, number[i], used[i], inner[i], shared=shared[i] * inner[i]),
    )


@family("mimo_v2_flash")
def mimo_v2_flash(c: Config) -> Stack:
    """Sliding layers have other head counts, and sinks; values are narrower than keys; W tokens before the query."""
    depth, hidden = c.layers, c.hidden
    flagged = by_flags(c, "hybrid_layer_pattern")
    types = layer_types(
        c,
        depth,
        lambda i: "sliding_attention" if (flagged[i] if flagged is not None else i > 0 and (i + 1) % 6 != 0) else "full_attention",
    )
    before = c.maybe("sliding_window_size")
    window = before + 1 if before else c.count("sliding_window")
    c.dismiss("sliding_window")
    c.dismiss("attention_chunk_size")  # the same number again; nothing is chunked
    heads, kv, dim = gqa.heads(c)
    values = c.count("v_head_dim")
    # The class has twice the KV heads on sliding layers and everything else alike.
    swa = (
        c.count("swa_num_attention_heads", default=heads),
        c.count("swa_num_key_value_heads", default=2 * kv),
        c.count("swa_head_dim", default=dim),
        c.count("swa_v_head_dim", default=values),
    )
    gqa.check_groups(c, swa[0], swa[1])
    biases = biased(c, "qkv")
    full = gqa.build(
        hidden, heads, kv, dim, value_dim=values, biases=biases,
        sinks=heads if c.flag("add_full_attention_sink_bias") else 0,
    )  # fmt: skip
    near = gqa.build(
        hidden, swa[0], swa[1], swa[2], value_dim=swa[3], biases=biases, span=Span("window", window),
        sinks=swa[0] if c.flag("add_swa_attention_sink_bias", default=True) else 0,
    )  # fmt: skip
    freq = by_flags(c, "moe_layer_freq")
    sparse = by_types(c, lambda i: "sparse" if (freq[i] if freq is not None else i > 0) else "dense")
    for name in types:
        if name not in ("full_attention", "sliding_attention"):
            raise c.fail("layer_types", name, "full_attention or sliding_attention")
    number = c.maybe("num_nextn_predict_layers", least=0, most=64) or 0
    mtp = predictor(c, number, near, plain(c)()) if number else ()
    return decoder(
        c,
        lambda layer: near if types[layer] == "sliding_attention" else full,
        alternate(c, sparse, mixture(c), plain(c)),
        mtp=mtp,
    )


@family("step3p5", "step3p7")
def step(c: Config) -> Stack:
    """Sliding layers have more query heads; a gate per head on the output; lists run on into the MTP layers."""
    c = defaults_of(c, "step3p5")
    depth, hidden = c.layers, c.hidden
    ahead = c.maybe("num_nextn_predict_layers", "num_mtp_layers", least=0, most=64) or 0
    heads, dim = c.count("num_attention_heads"), c.count("head_dim")
    kv = c.agreed("num_key_value_heads", "num_attention_groups")
    other = c.block("attention_other_setting") or Config({}, c.model_type)
    near = c.maybe("num_sliding_attention_heads") or other.count("num_attention_heads", default=heads)
    if other.maybe("num_attention_groups") not in (None, kv) or other.maybe("head_dim") not in (None, dim):
        raise c.fail("attention_other_setting", other.raw, "of the same KV heads and head_dim as the other layers")
    per_layer = c.by_layer("per_layer_config", "num_attention_heads")
    listed = c.words("layer_types") or ["full_attention"] * (depth + ahead)
    c.per_layer(listed, "layer_types", depth, lambda _: "")  # long enough
    if "sliding_attention" not in listed:
        c.dismiss("sliding_window")
    gating = c.get("gating")
    per_head = gating in (None, True, "per-head")  # the class's own value is true

    def mixer(span: Span, query: int) -> Attention:
        gqa.check_groups(c, query, kv)
        gate = linear("g_proj", "attention", query if per_head else query * dim, hidden)
        return gqa.build(hidden, query, kv, dim, span=span, biases=biased(c), qk_norm=(dim, dim), extra=gate)

    mixers = []
    for layer, span in enumerate(spans(c, listed)):
        query = near if span.tokens else heads
        if per_layer is not None and layer < depth:
            query = per_layer[layer].count("num_attention_heads", default=heads) if layer in per_layer else heads
        mixers.append(mixer(span, query))
    chosen = _step_experts(c)
    if not c.flag("use_head_wise_attn_gate", default=True):
        raise c.fail("use_head_wise_attn_gate", False, "true")
    if c.maybe("n_shared_experts", "num_shared_experts", least=0) not in (None, 1):
        raise c.fail("n_shared_experts", c.get("n_shared_experts"), "1: its width is share_expert_dim")
    sparse = by_types(c, lambda i: "sparse" if i in chosen else "dense")
    bias = c.flag("mlp_bias")
    number = c.agreed("n_routed_experts", *EXPERT_COUNTS)
    used = c.agreed("num_experts_per_tok", "moe_top_k")
    if used > number:
        raise c.fail("num_experts_per_tok", used, f"at most the number of experts ({number})")
    shared = c.agreed("share_expert_dim", "share_expert_dims", least=0)
    inner = c.count("moe_intermediate_size")
    c.dismiss("mtp_layer_types", "mtp_mlp_layer_types")  # of the MTP layers: sliding and dense in every checkpoint
    block = plain(c, bias=bias)
    mtp: tuple[Weight, ...] = ()
    for extra in range(ahead):
        last = mixers[depth + extra] if len(mixers) > depth + extra else mixers[-1]
        mtp += predictor(c, 1, last, block(), tables=1)
    return decoder(
        c,
        lambda layer: mixers[layer],
        alternate(c, sparse, lambda: moe(hidden, number, used, inner, shared=shared, shared_bias=bias), block),
        mtp=mtp,
    )


def _step_experts(c: Config) -> set[int]:
    """Layers of experts: those listed, or all from a first one on; the class starts at 3."""
    enum, first = c.get("moe_layers_enum"), c.maybe("first_k_dense_replace", least=0)
    if enum is None:
        return set(range(3 if first is None else first, c.layers))
    given = enum.split(",") if isinstance(enum, str) else enum if isinstance(enum, list) else ["?"]
    parts = [str(part).strip() for part in given]
    if not all(part.isdecimal() for part in parts if part):
        raise c.fail("moe_layers_enum", enum, "layer numbers with commas between them")
    return {int(part) for part in parts if part}


@family("laguna")
def laguna(c: Config) -> Stack:
    """Query heads per layer, a gate on the output per head or per element, a router bias that is a parameter."""
    depth, hidden = c.layers, c.hidden
    heads, kv, dim = gqa.heads(c)
    types = layer_types(c, depth, lambda _: "full_attention")
    if "sliding_attention" not in types:
        c.dismiss("sliding_window")
    name = "num_attention_heads_per_layer"
    queries = c.per_layer(c.counts(name, least=1), name, depth, lambda _: heads)
    per_head = c.get("gating") in (None, True, "per-head")  # the class's own value is true
    made: dict[tuple[Span, int], Attention] = {}
    mixers = []
    for key in zip(spans(c, types), queries, strict=True):
        if key not in made:
            gqa.check_groups(c, key[1], kv)
            gate = linear("g_proj", "attention", key[1] if per_head else key[1] * dim, hidden)
            made[key] = gqa.build(hidden, key[1], kv, dim, span=key[0], biases=biased(c), qk_norm=(dim, dim), extra=gate)
        mixers.append(made[key])
    mixed = mixture(c, shared=c.count("shared_expert_intermediate_size", least=0), correction_bias=True)
    sparse = by_types(c, lambda i: "sparse" if i else "dense")
    return decoder(c, lambda layer: mixers[layer], alternate(c, sparse, mixed, plain(c)))
