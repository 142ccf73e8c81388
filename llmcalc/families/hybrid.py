"""Decoders in which some layers attend and the others keep a state: delta nets, lightning attention, short convolutions.

Those built on Mamba or RWKV are in state_space.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmcalc.architecture import FULL, Attention, Entry, Mlp, Span, Stack, Weight, decoder, linear, norm
from llmcalc.attention import gqa, mla, recurrent
from llmcalc.config import MOST_LAYERS, Config
from llmcalc.families import deepseek, family
from llmcalc.families.llama import biased, gated
from llmcalc.formulas.memory import index_bytes_per_token
from llmcalc.mlp import dense, experts, moe

FULL_ATTENTION = {"full_attention": "full", "attention": "full"}
LINEAR = {"linear_attention": "linear", "mamba": "linear"}


def kinds(c: Config, rule: Callable[[int], str], known: Mapping[str, str], *keys: str, layers: int | None = None) -> list[str]:
    """The kind of every layer by the first of the lists `keys` that the file holds, else by the class's rule.

    `known` maps the spellings of transformers, old and new, to kinds. Rules return a spelling.
    """
    names = keys or ("layer_types",)
    found = c.per_layer(c.words(*names), names[0], c.layers if layers is None else layers, rule)
    for name in found:
        if name not in known:
            raise c.fail(names[0], name, f"one of {', '.join(known)}")
    return [known[name] for name in found]


def chosen(options: Mapping[str, Attention], types: list[str]) -> Callable[[int], Attention]:
    """The mixer of a layer by its kind."""
    return lambda layer: options[types[layer]]


def as_mtp(weights: Iterable[Weight]) -> tuple[Weight, ...]:
    """Weights of a multi-token-prediction module."""
    return tuple(weight._replace(name=f"mtp.{weight.name}", part="mtp") for weight in weights)


def predictor(hidden: int, mixer: Attention, mlp: Mlp, layers: int) -> tuple[Weight, ...]:
    """Qwen's module: hidden state and embedding, both normed, joined to one width; then ordinary layers and a norm."""
    layer = mixer.weights + mlp.weights + norm("input_layernorm", hidden) + norm("post_attention_layernorm", hidden)
    around = linear("fc", "mtp", hidden, 2 * hidden)
    around += norm("pre_fc_norm_hidden", hidden) + norm("pre_fc_norm_embedding", hidden) + norm("norm", hidden)
    return as_mtp(layer * layers + around)


def gated_attention(c: Config) -> Attention:
    """Qwen3-Next: norms on the heads of q and k, and an output gate from a query projection of twice the height."""
    query, kv, dim = gqa.heads(c)
    return gqa.build(c.hidden, query, kv, dim, biases=biased(c), qk_norm=(dim, dim), gate=query * dim)


def delta_dims(c: Config) -> tuple[int, int, int, int, int]:
    """(key heads, key width, value heads, value width, kernel) of a gated delta net."""
    keys, values = c.count("linear_num_key_heads"), c.count("linear_num_value_heads")
    if values % keys:
        raise c.fail("linear_num_value_heads", values, f"a multiple of linear_num_key_heads ({keys})")
    return keys, c.count("linear_key_head_dim"), values, c.count("linear_value_head_dim"), c.count("linear_conv_kernel_dim")


def qwen_types(c: Config) -> list[str]:
    """Attention on every fourth layer, or every full_attention_interval-th."""
    step = c.maybe("full_attention_interval") or 4
    rule: Callable[[int], str] = lambda i: "linear_attention" if (i + 1) % step else "full_attention"  # noqa: E731
    if not c.flag("use_sliding_window"):
        c.dismiss("sliding_window", "max_window_layers")
    return kinds(c, rule, {"linear_attention": "linear", "full_attention": "full"})


def shared_expert_moe(c: Config) -> Mlp:
    """Qwen's mixture: one shared expert behind a gate of its own."""
    number, used = experts(c)
    shared = c.count("shared_expert_intermediate_size", least=0)
    return moe(c.hidden, number, used, c.count("moe_intermediate_size"), shared=shared, shared_gate=True)


@family("qwen3_next")
def qwen3_next(c: Config) -> Stack:
    """Three delta nets to one gated attention; a sparse MLP on nearly every layer; a prediction module that no key names."""
    full = gated_attention(c)
    options = {"full": full, "linear": recurrent.delta_net(c.hidden, *delta_dims(c), "fused")}
    step = c.maybe("decoder_sparse_step") or 1
    plain = set(c.counts("mlp_only_layers") or ())
    sparse = shared_expert_moe(c) if c.maybe("num_experts", least=0) else None
    block = dense(c.hidden, c.count("intermediate_size"))

    def mlp(layer: int) -> Mlp:
        return sparse if sparse and layer not in plain and (layer + 1) % step == 0 else block

    c.dismiss("moe_intermediate_size", "shared_expert_intermediate_size", "num_experts_per_tok")  # without experts
    return decoder(c, chosen(options, qwen_types(c)), mlp, mtp=predictor(c.hidden, full, sparse or block, 1))


@family("qwen3_5_text", "qwen3_5_moe_text")
def qwen3_5(c: Config) -> Stack:
    """Qwen3-Next with the delta net's projections apart, dense or sparse throughout, and a key for the prediction module."""
    if not c.flag("attn_output_gate", default=True):
        raise c.fail("attn_output_gate", False, "true: attention without an output gate is not read")
    if c.flag("mtp_use_dedicated_embeddings"):
        raise c.fail("mtp_use_dedicated_embeddings", True, "false: a prediction module with its own tables is not read")
    full = gated_attention(c)
    options = {"full": full, "linear": recurrent.delta_net(c.hidden, *delta_dims(c), "split")}
    if c.model_type == "qwen3_5_moe_text":
        block = shared_expert_moe(c)
        c.dismiss("intermediate_size")  # no dense layers in this class
    else:
        block = dense(c.hidden, c.count("intermediate_size"))
    c.dismiss("mlp_only_layers", "decoder_sparse_step")  # in the files, not in the classes
    ahead = c.maybe("mtp_num_hidden_layers", least=0, most=MOST_LAYERS) or 0
    mtp = predictor(c.hidden, full, block, ahead) if ahead else ()
    return decoder(c, chosen(options, qwen_types(c)), lambda _: block, mtp=mtp)


@family("lara_mini")
def lara_mini(c: Config) -> Stack:
    """Of five layers two delta nets, two with a window and one that sees everything; a shared expert without a gate."""
    query, kv, dim = gqa.heads(c)
    pattern = ("linear_attention", "sliding_attention", "linear_attention", "full_attention", "sliding_attention")
    known = {"linear_attention": "linear", "sliding_attention": "sliding", "full_attention": "full"}
    types = kinds(c, lambda i: pattern[i % 5], known)
    near = Span("window", c.count("sliding_window"))
    options = {
        kind: gqa.build(c.hidden, query, kv, dim, span=span, biases=biased(c), qk_norm=(dim, dim))
        for kind, span in (("full", FULL), ("sliding", near))
    }
    options["linear"] = recurrent.delta_net(c.hidden, *delta_dims(c), "split")
    number, used = experts(c)
    shared = c.count("shared_expert_intermediate_size", least=0)
    block = moe(c.hidden, number, used, c.count("moe_intermediate_size"), shared=shared)
    return decoder(c, chosen(options, types), lambda _: block)


def hyper(name: str, streams: int, hidden: int, rank: int, inject: bool = True) -> tuple[Weight, ...]:
    """Qwen4's gated residual: a low-rank mix of the streams, and (by `inject`) where the block's output goes."""
    wide = streams * hidden
    weights = norm(f"{name}.hc_norm", wide) + linear(f"{name}.input_mix_weight_down", "norms", rank, wide)
    weights += linear(f"{name}.input_mix_weight_up", "norms", wide, rank)
    return weights + (linear(f"{name}.block_inject_weight", "norms", streams, wide) if inject else ())


MOST_HEADS = 4096


def primes_from(start: int, number: int) -> list[int]:
    """The first primes that are not below `start` (3 or more)."""
    found: list[int] = []
    candidate = start | 1
    while len(found) < number:
        if all(candidate % factor for factor in range(3, math.isqrt(candidate) + 1, 2)):
            found.append(candidate)
        candidate += 2
    return found


def ngram_tables(c: Config, places: Sequence[int]) -> dict[int, tuple[Weight, ...]]:
    """By layer: a table of hashed n-grams, whose heads have as many rows as successive primes, and what brings it in."""
    if not places:
        c.dismiss("ple_embed_dim", "ple_conv_kernel_size", "ngram_size", "heads_per_ngram", "ngram_vocab_size_base")
        c.dismiss("make_ngram_vocab_size_divisible_by")
        return {}
    hidden, wide = c.hidden, c.hidden * c.count("hc_count")
    width = c.maybe("ple_embed_dim") or hidden
    heads = (c.count("ngram_size", least=2, most=64) - 1) * c.count("heads_per_ngram", most=MOST_HEADS)
    gqa.exact_division(c, "ple_embed_dim", width, "heads_per_ngram", heads)
    if heads * len(places) > MOST_HEADS:
        raise c.fail("heads_per_ngram", c.get("heads_per_ngram"), f"such that all tables have at most {MOST_HEADS:,} heads")
    rows = primes_from(c.count("ngram_vocab_size_base", least=3, most=10**8), heads * len(places))
    step = c.count("make_ngram_vocab_size_divisible_by")
    found: dict[int, tuple[Weight, ...]] = {}
    for index, layer in enumerate(places):
        total = -(-sum(rows[index * heads : (index + 1) * heads]) // step) * step
        weights: tuple[Weight, ...] = (Weight("ple.ngram_embedding", "embedding", total, width // heads),)
        weights += linear("ple.key_proj", "mlp", wide, width) + linear("ple.value_proj", "mlp", hidden, width)
        for name in ("norm_key", "norm_query", "norm_conv"):
            weights += norm(f"ple.{name}", wide)
        found[layer] = weights + recurrent.convolution("ple.conv1d", wide, c.count("ple_conv_kernel_size"))
    return found


@family("qwen4_exp_text")
def qwen4_exp(c: Config) -> Stack:
    """Delta nets, and gated attention that reads blocks of tokens picked by an indexer; several residual streams; n-gram tables.

    One index key is kept for each block of indexer_compress_ratio tokens.
    """
    hidden, streams = c.hidden, c.count("hc_count", least=2)
    full = gated_attention(c)
    number, dim, ratio = c.count("indexer_n_heads"), c.count("indexer_head_dim"), c.count("indexer_compress_ratio")
    if c.count("indexer_kv_heads") != 1:
        raise c.fail("indexer_kv_heads", c.get("indexer_kv_heads"), "1")
    picks = linear("indexer.index_qk_proj", "indexer", (number + 1) * dim, hidden)
    picks += norm("indexer.q_layernorm", dim) + norm("indexer.k_layernorm", dim)
    index = Entry(index_bytes_per_token, (("index_head_dim", dim),), ratio=ratio, flops=2 * number * dim)
    kept = full.entries[0]._replace(reads=c.count("indexer_budget"))
    full = replace(full, kind="sparse", weights=full.weights + picks, entries=(kept, index))
    options = {"full": full, "linear": recurrent.delta_net(hidden, *delta_dims(c), "split")}
    step = c.maybe("full_attention_interval") or 4
    rule: Callable[[int], str] = lambda i: "linear_attention" if (i + 1) % step else "full_attention"  # noqa: E731
    known = {"linear_attention": "linear", "full_attention": "full", "indexed_attention": "full"}
    types = kinds(c, rule, known)
    places = sorted({layer - 1 for layer in c.counts("ple_layer_ids", least=1, most=c.layers) or ()})
    tables = ngram_tables(c, places)
    rank = c.count("hc_lowrank")
    mix = hyper("attn_hyper_connection", streams, hidden, rank) + hyper("mlp_hyper_connection", streams, hidden, rank)
    mixers = chosen(options, types)

    def mixer(layer: int) -> Attention:
        if layer not in tables:
            return mixers(layer)
        if types[layer] != "linear":
            raise c.fail("ple_layer_ids", layer + 1, "a layer of linear attention")
        window = (c.count("ple_conv_kernel_size") - 1) * c.count("ngram_size")  # the convolution skips ngram_size tokens at a time
        found = mixers(layer)
        return replace(found, states=(*found.states, recurrent.conv(streams * hidden, window + 1, "ple")))

    ahead = ("the checkpoint's multi-token-prediction layer is not counted",) if c.maybe("mtp_num_hidden_layers", least=0) else ()
    block = shared_expert_moe(c)
    return decoder(
        c,
        mixer,
        lambda _: block,
        norms=0,
        final_norm=False,
        per_layer=lambda layer: mix + tables.get(layer, ()),
        outside=hyper("hyper_connection_mixer", streams, hidden, rank, inject=False),
        notes=ahead,
    )


@family("olmo_hybrid")
def olmo_hybrid(c: Config) -> Stack:
    """OLMo 2 attention, with norms over all heads, on every fourth layer; delta nets, one matrix per projection, elsewhere."""
    depth, hidden = c.layers, c.hidden
    query, kv, dim = gqa.heads(c)
    key_heads = c.maybe("linear_num_key_heads") or query
    value_heads = c.maybe("linear_num_value_heads") or query
    key_dim = c.maybe("linear_key_head_dim") or 3 * hidden // (4 * key_heads)
    value_dim = c.maybe("linear_value_head_dim") or 2 * key_dim
    kernel = c.count("linear_conv_kernel_dim")
    options = {
        "full": gqa.build(hidden, query, kv, dim, biases=biased(c), qk_norm=(query * dim, kv * dim)),
        "linear": recurrent.delta_net(hidden, key_heads, key_dim, value_heads, value_dim, kernel, "single"),
    }
    last = depth - 1 if depth < 4 else -1  # a very shallow model ends in attention
    rule: Callable[[int], str] = lambda i: "full_attention" if i % 4 == 3 or i == last else "linear_attention"  # noqa: E731
    types = kinds(c, rule, {"linear_attention": "linear", "full_attention": "full"})
    return decoder(c, chosen(options, types), gated(c, bias=False))


def mlp_kinds(c: Config, first_dense: int) -> list[str]:
    """mlp_layer_types, or dense layers first."""
    rule: Callable[[int], str] = lambda i: "dense" if i < first_dense else "sparse"  # noqa: E731
    return kinds(c, rule, {"dense": "dense", "sparse": "sparse"}, "mlp_layer_types")


def kimi_types(c: Config, block: Mapping[str, Any]) -> list[str]:
    """From the two lists in linear_attn_config, which count layers from 1; else layer_types; else every fourth from the fifth."""
    full, linear_layers = block.get("full_attn_layers"), block.get("kda_layers")
    known = {"linear_attention": "linear", "full_attention": "full"}
    if c.has("layer_types") or full is None or linear_layers is None:
        return kinds(c, lambda i: "full_attention" if i and i % 4 == 0 else "linear_attention", known)
    depth = c.layers
    lists = Config({"full_attn_layers": full, "kda_layers": linear_layers}, c.model_type, "linear_attn_config")
    numbers = {"full": lists.counts("full_attn_layers") or [], "linear": lists.counts("kda_layers") or []}
    by_layer = {layer: kind for kind, layers in numbers.items() for layer in layers}
    if sorted(numbers["full"] + numbers["linear"]) != list(range(1, depth + 1)):
        raise lists.fail("full_attn_layers", full, f"with kda_layers, each layer from 1 to {depth} once")
    return [by_layer[layer] for layer in range(1, depth + 1)]


@family("kimi_linear", "kimi_k3")
def kimi(c: Config) -> Stack:
    """Three delta nets with a decay per channel to one MLA. Kimi K3 adds gates, latent experts and attention over depth."""
    hidden = c.hidden
    holder = c.block("linear_attn_config")
    block = holder.raw if holder else {}
    part = Config(block, c.model_type, "linear_attn_config")
    heads = part.maybe("num_heads") or c.count("linear_num_heads")
    dim = part.maybe("head_dim") or c.count("linear_head_dim")
    kernel = part.maybe("short_conv_kernel_size") or c.count("linear_conv_kernel_dim")
    c.dismiss("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    d = mla.dims(c)
    gate = linear("g_proj", "attention", d.heads * d.value, hidden) if c.flag("mla_use_output_gate") else ()
    third = c.has("routed_expert_hidden_size") or c.has("attn_res_block_size")
    options = {
        "full": mla.build(hidden, d, bias=c.flag("attention_bias"), extra=gate),
        "linear": recurrent.kimi_delta(
            hidden,
            heads,
            dim,
            kernel,
            low_rank_forget=True,
            low_rank_gate=not part.flag("use_full_rank_gate"),
            decays=dim if third else heads,  # K3's files hold 128 decays for 96 heads of width 128
        ),
    }
    if c.count("moe_layer_freq", default=1) != 1:
        raise c.fail("moe_layer_freq", c.get("moe_layer_freq"), "1")
    types = kimi_types(c, block)
    first = c.maybe("first_k_dense_replace", least=0)
    mlps = mlp_kinds(c, 1 if first is None else first)
    c.dismiss("first_k_dense_replace")
    number, used = experts(c)
    inner, latent = c.count("moe_intermediate_size"), c.maybe("routed_expert_hidden_size")
    normed = norm("mlp.routed_expert_norm", latent) if latent and c.flag("latent_moe_use_norm") else ()
    blocks = {
        "dense": dense(hidden, c.count("intermediate_size")),
        "sparse": moe(
            hidden,
            number,
            used,
            inner,
            shared=inner * c.count("n_shared_experts", "num_shared_experts", least=0),
            correction_bias=third,  # transformers holds Kimi Linear's as a buffer
            latent=latent,
            extra=normed,
        ),
    }
    residual: tuple[Weight, ...] = ()
    outside: tuple[Weight, ...] = ()
    if c.maybe("attn_res_block_size"):  # attention over the outputs of earlier blocks of layers, in place of the residual sum
        for name in ("self_attention_res", "mlp_res"):
            residual += norm(f"{name}_norm", hidden) + linear(f"{name}_proj", "attention", 1, hidden)
        outside = norm("output_attn_res_norm", hidden) + linear("output_attn_res_proj", "attention", 1, hidden)
    return decoder(c, chosen(options, types), lambda layer: blocks[mlps[layer]], per_layer=lambda _: residual, outside=outside)


@family("bailing_hybrid")
def bailing_hybrid(c: Config) -> Stack:
    """Ling 3: Kimi's delta attention with full-rank gates, and MLA with one gate per head on the last layer of every group."""
    delta = c.has("short_conv_kernel_size") or c.has("linear_conv_kernel_dim") or c.has("no_kda_lora")
    if c.has("group_norm_size") and not delta:
        raise c.fail("group_norm_size", c.get("group_norm_size"), "absent: lightning attention (Ling 2.5) is not read")
    if not c.flag("no_kda_lora", default=True):
        raise c.fail("no_kda_lora", False, "true: low-rank gates are not read")
    if c.text("gated_attention_proj_granularity_type", default="head_wise") != "head_wise":
        raise c.fail("gated_attention_proj_granularity_type", c.get("gated_attention_proj_granularity_type"), '"head_wise"')
    c.dismiss("group_norm_size", "use_qk_norm")  # of Ling 2.5; q and k are normed without parameters
    hidden, heads = c.hidden, c.count("num_attention_heads")
    # Files that transformers wrote hold the rotary width as head_dim, and the delta layers' own dimensions beside it.
    dim, delta_heads = c.count("linear_head_dim", "head_dim"), c.maybe("linear_num_heads") or heads
    kernel, group = c.count("linear_conv_kernel_dim", "short_conv_kernel_size"), c.count("layer_group_size")
    gate = linear("g_proj", "attention", heads, hidden)
    options = {
        "full": mla.build(hidden, mla.dims(c), bias=c.flag("attention_bias"), extra=gate),
        "linear": recurrent.kimi_delta(hidden, delta_heads, dim, kernel, low_rank_forget=False, low_rank_gate=False, decays=delta_heads),
    }
    rule: Callable[[int], str] = lambda i: "linear_attention" if (i + 1) % group else "full_attention"  # noqa: E731
    types = kinds(c, rule, {"linear_attention": "linear", "full_attention": "full"})
    mlps = mlp_kinds(c, c.count("first_k_dense_replace", least=0))
    number, used = experts(c)
    inner = c.count("moe_intermediate_size")
    shared = inner * c.count("n_shared_experts", "num_shared_experts", least=0)
    if c.maybe("moe_shared_expert_intermediate_size", least=0) not in (None, inner, shared):
        raise c.fail("moe_shared_expert_intermediate_size", c.get("moe_shared_expert_intermediate_size"), f"{inner}, as in other experts")
    blocks = {
        "dense": dense(hidden, c.count("intermediate_size")),
        "sparse": moe(hidden, number, used, inner, shared=shared),
    }
    c.dismiss("head_dim", "short_conv_kernel_size")
    mtp = deepseek.predictor(c, options["full"], blocks["sparse"], tables=0)  # vLLM, bailing_moe_v3_mtp
    return decoder(c, chosen(options, types), lambda layer: blocks[mlps[layer]], mtp=mtp)


@family("minimax", "minimax_m1", "minimax_text_01")
def minimax(c: Config) -> Stack:
    """Lightning attention with softmax attention between, by layer_types or attn_type_list (1: softmax); sparse throughout."""
    query, kv, dim = gqa.heads(c)
    window = c.maybe("sliding_window")
    options = {
        "full": gqa.build(c.hidden, query, kv, dim, span=Span("window", window) if window else FULL),
        "linear": recurrent.lightning(c.hidden, query, dim),
    }
    codes = c.counts("attn_type_list", most=1)
    if codes is not None:
        types = ["full" if code else "linear" for code in c.per_layer(codes, "attn_type_list", c.layers, lambda _: 0)]
        c.dismiss("layer_types")
    elif c.model_type == "minimax" or c.has("layer_types"):
        known = {"linear_attention": "linear", "full_attention": "full"}
        types = kinds(c, lambda i: "linear_attention" if i % 2 else "full_attention", known)
    else:
        raise c.missing("attn_type_list")
    number, used = experts(c)
    block = moe(c.hidden, number, used, c.count("intermediate_size"))
    if c.get("shared_intermediate_size") not in (None, 0, [0]):
        raise c.fail("shared_intermediate_size", c.get("shared_intermediate_size"), "0: a shared expert is not read")
    return decoder(c, chosen(options, types), lambda _: block)


@family("nemotron-nas")
def nemotron_nas(c: Config) -> Stack:
    """Puzzle models: each layer's attention and MLP have their own size, may be one matrix, or may be missing."""
    hidden, query = c.hidden, c.count("num_attention_heads")
    dim = c.maybe("head_dim") or gqa.exact_division(c, "hidden_size", hidden, "num_attention_heads", query)
    c.dismiss("num_key_value_heads", "intermediate_size")  # per layer
    attention_bias, mlp_bias = biased(c), c.flag("mlp_bias")
    rows = c.items("block_configs", most=MOST_LAYERS)
    if rows is None:
        raise c.missing("block_configs")
    depth = c.layers
    if len(rows) != depth or not all(isinstance(row, Mapping) for row in rows):
        raise c.fail("block_configs", rows, f"a list of {depth} JSON objects")
    mixers: list[Attention | None] = []
    mlps: list[Mlp | None] = []
    for index, row in enumerate(rows):
        block = Config(row, c.model_type, f"block_configs[{index}]")
        attention, ffn = block.block("attention"), block.block("ffn")
        if attention is None or ffn is None:
            raise block.missing("ffn" if attention else "attention")
        for part in (attention, ffn):
            for key in ("sparsify", "window_length", "num_sink_tokens", "unshifted_sink", "mamba", "llama4", "moe"):
                if part.get(key):
                    raise part.fail(key, part.get(key), "null: this variant is not read")
        if attention.flag("no_op"):
            mixers.append(None)
        elif attention.flag("replace_with_linear"):
            mixers.append(Attention("linear-layer", linear("linear_attn", "attention", hidden, hidden, bool(attention_bias))))
        else:
            group = attention.count("n_heads_in_group", most=query)
            if query % group:
                raise attention.fail("n_heads_in_group", group, f"a divisor of num_attention_heads ({query})")
            mixers.append(gqa.build(hidden, query, query // group, dim, biases=attention_bias))
        if ffn.flag("no_op"):
            mlps.append(None)
        elif ffn.flag("replace_with_linear"):
            mlps.append(Mlp(linear("mlp.linear_mlp", "mlp", hidden, hidden, mlp_bias)))
        else:
            inner = -(-int(2 * ffn.number("ffn_mult") * hidden / 3) // 256) * 256
            if not inner:
                raise ffn.fail("ffn_mult", ffn.get("ffn_mult"), "a number > 0")
            mlps.append(dense(hidden, inner, bias=mlp_bias))
    present = [(mixer is not None) + (mlp is not None) for mixer, mlp in zip(mixers, mlps, strict=True)]
    return decoder(c, lambda i: mixers[i], lambda i: mlps[i], norms=lambda i: present[i])


@family("recurrent_gemma")
def recurrent_gemma(c: Config) -> Stack:
    """Griffin: two gated linear recurrences to one attention with a window; intermediate_size is both halves of the MLP."""
    hidden = c.hidden
    query, kv, dim = gqa.heads(c)
    width = c.maybe("lru_width") or hidden
    gqa.exact_division(c, "lru_width", width, "num_attention_heads", query)
    options = {
        "local": gqa.build(hidden, query, kv, dim, span=Span("window", c.count("attention_window_size")), biases=biased(c, "qkv") + "o"),
        "linear": recurrent.rg_lru(hidden, width, query, c.count("conv1d_width")),
    }
    given = c.words("block_types", "_block_types")
    pattern = ["recurrent", "recurrent", "attention"] if given is None else given
    known = {"recurrent": "linear", "attention": "local"}
    if not pattern or set(pattern) - set(known):
        raise c.fail("block_types", pattern, f"a list of {' and '.join(known)}")
    types = [known[pattern[layer % len(pattern)]] for layer in range(c.layers)]
    c.dismiss("_block_types", "layer_types", "layers_block_type", "sliding_window")  # derived from the above
    block = dense(hidden, c.count("intermediate_size") // 2, bias=True)
    return decoder(c, chosen(options, types), lambda _: block)


@family("lfm2", "lfm2_moe")
def lfm2(c: Config) -> Stack:
    """Short convolutions with GQA between; older files name their dense width block_ff_dim and their ties tie_embedding."""
    hidden = c.hidden
    query, kv, dim = gqa.heads(c)
    options = {
        "full": gqa.build(hidden, query, kv, dim, qk_norm=(dim, dim)),
        "linear": recurrent.short_conv(hidden, c.count("conv_L_cache"), c.flag("conv_bias")),
    }
    listed = c.counts("full_attn_idxs")
    if c.model_type == "lfm2_moe" and listed is None and not c.has("layer_types"):
        raise c.missing("layer_types")
    attending = set(range(c.layers) if listed is None else listed)
    known = {"conv": "linear", "full_attention": "full"}
    types = kinds(c, lambda i: "full_attention" if i in attending else "conv", known)
    c.dismiss("num_heads")  # num_attention_heads again
    tied = c.flag("tie_embedding") if c.has("tie_embedding") else c.flag("tie_word_embeddings")
    if c.model_type == "lfm2":
        block = dense(hidden, lfm2_width(c))
        return decoder(c, chosen(options, types), lambda _: block, tied=tied)
    number, used = experts(c)
    first = c.count("num_dense_layers", least=0)
    plain = dense(hidden, c.count("intermediate_size"))
    sparse = moe(hidden, number, used, c.count("moe_intermediate_size"))
    # The dense layers of this class have the width that the file states.
    c.dismiss("block_ff_dim", "block_multiple_of", "block_ffn_dim_multiplier", "block_auto_adjust_ff_dim")
    return decoder(c, chosen(options, types), lambda layer: plain if layer < first else sparse, tied=tied)


def lfm2_width(c: Config) -> int:
    """Two thirds of the stated width, scaled, and rounded up, unless the file says not to adjust it."""
    width = c.maybe("block_ff_dim") or c.count("intermediate_size")
    c.dismiss("intermediate_size")
    multiple, scaled = c.count("block_multiple_of"), c.get("block_ffn_dim_multiplier") is not None
    factor = c.number("block_ffn_dim_multiplier") if scaled else 1.0
    if not c.flag("block_auto_adjust_ff_dim"):
        return width
    width = 2 * width // 3
    return -(-int(factor * width) // multiple) * multiple if scaled else width


@family("lfm3")
def lfm3(c: Config) -> Stack:
    """Longer short convolutions; attention over a window or everything, each head with a gate; norms also after the blocks."""
    hidden = c.hidden
    query, kv, dim = gqa.heads(c)
    gate = linear("g_proj", "attention", query, hidden) if c.flag("use_attention_gate") else ()

    def attention(span: Span) -> Attention:
        return gqa.build(hidden, query, kv, dim, span=span, biases=biased(c), qk_norm=(dim, dim), extra=gate)

    def rule(layer: int) -> str:
        if layer % 4 == 2:
            return "full_attention"
        return "sliding_attention" if layer and layer % 4 == 0 else "conv"

    types = kinds(c, rule, {"conv": "linear", "full_attention": "full", "sliding_attention": "sliding"})
    options = {"full": attention(FULL), "linear": recurrent.short_conv(hidden, c.count("conv_L_cache"), c.flag("conv_bias"))}
    window = c.maybe("sliding_window")
    options["sliding"] = attention(Span("window", window)) if window else options["full"]
    return decoder(c, chosen(options, types), gated(c, bias=False), norms=4 if c.flag("use_sandwich_norm") else 2)


@family("zaya")
def zaya(c: Config) -> Stack:
    """Compressed convolutional attention: q and k pass two convolutions, half of v is one token late; the router is an MLP."""
    hidden, depth = c.hidden, c.layers
    query, kv, dim = gqa.heads(c)
    channels, half = (query + kv) * dim, kv * dim // 2
    bias = c.flag("attention_bias")
    first, second = c.count("cca_time0"), c.count("cca_time1")
    extra = linear("k_proj", "attention", kv * dim, hidden, bias)
    for name in ("v_proj_current", "v_proj_delayed"):
        extra += linear(name, "attention", half, hidden, bias)
    extra += recurrent.convolution("conv_qk_depthwise", channels, first, True)
    extra += (*linear("conv_qk_grouped", "state", channels, dim * second, True), Weight("qk_norm.temp", "norms", kv))
    states = (recurrent.conv(channels, first + second - 1), recurrent.vectors(1, half, "model", "delayed_v"))

    def attention(span: Span) -> Attention:
        built = gqa.build(hidden, query, kv, dim, span=span, biases="qo" if bias else "", project_kv=False, extra=extra, kind="cca")
        return replace(built, states=states)

    types = kinds(c, lambda _: "hybrid", {"hybrid": "full", "hybrid_sliding": "sliding"})
    options = {"full": attention(FULL)}
    if "sliding" in types:
        options["sliding"] = attention(Span("window", c.count("sliding_window")))
    c.dismiss("sliding_window")
    number, used = experts(c)
    wide, inner = c.count("router_hidden_size"), c.count("moe_intermediate_size")
    router = linear("mlp.gate.down_proj", "router", wide, hidden, True) + norm("mlp.gate.router_mlp.norm", wide)
    for name in ("fc1", "fc2"):
        router += linear(f"mlp.gate.router_mlp.{name}", "router", wide, wide, True)
    router += linear("mlp.gate.router_mlp.out_proj", "router", number + 1, wide)  # one class more: skip the MLP
    matrices = moe(hidden, number, used, inner).weights[1:]
    later = (Weight("mlp.gate.router_states_scale", "router", wide),)
    blocks = (Mlp(router + matrices, number, used), Mlp(router + later + matrices, number, used))
    scales = tuple(
        Weight(f"{place}_residual_scale.{name}", "norms", hidden)
        for place in ("post_attention", "post_mlp")
        for name in ("hidden_states_scale", "hidden_states_bias", "residual_scale", "residual_bias")
    )
    outside = tuple(Weight(f"input_hidden_states_{name}", "norms", hidden) for name in ("scale", "bias"))
    return decoder(
        c,
        chosen(options, types),
        lambda layer: blocks[bool(layer)],
        layers=depth,
        per_layer=lambda _: scales,
        outside=outside,
        head_bias=c.flag("lm_head_bias"),
    )
