"""Latent attention: DeepSeek-V2 and after, and everything that caches one latent per token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from llmcalc.architecture import Attention, Mlp, MlpAt, Stack, Weight, decoder, layer_types, linear, norm
from llmcalc.attention import compressed, gqa, mla, recurrent
from llmcalc.config import Config
from llmcalc.families import family
from llmcalc.mlp import dense, experts, moe


def sparse_layers(c: Config, first: int | None = None) -> list[bool]:
    """Which layers are mixtures: the file's list, or all from first_k_dense_replace on (each moe_layer_freq-th).

    `first` is what the class takes where the file is silent and the class has no such field.
    """
    if c.has("mlp_layer_types"):
        c.dismiss("first_k_dense_replace", "moe_layer_freq")
        kinds = layer_types(c, c.layers, lambda _: "sparse", "mlp_layer_types")
        for kind in kinds:
            if kind not in ("dense", "sparse"):
                raise c.fail("mlp_layer_types", kind, "dense or sparse")
        return [kind == "sparse" for kind in kinds]
    c.dismiss("mlp_layer_types")
    start = c.count("first_k_dense_replace", least=0, default=first)
    step = c.count("moe_layer_freq", default=1)
    return [layer >= start and layer % step == 0 for layer in range(c.layers)]


def blocks(c: Config, sparse: Sequence[bool], *, bias: bool = False, extra: tuple[Weight, ...] = ()) -> tuple[MlpAt, Mlp]:
    """The MLP of every layer, and the mixture. `bias` is on the dense and the shared matrices, not on the experts."""
    number, used = experts(c)
    if c.has("n_routed_experts") and c.count("n_routed_experts") != number:
        raise c.fail("n_routed_experts", c.get("n_routed_experts"), f"num_experts ({number}), which is given too")
    inner = c.count("moe_intermediate_size")
    shared = (c.maybe("n_shared_experts", "num_shared_experts", least=0) or 0) * inner
    if shared and bias:
        extra += dense(c.hidden, shared, bias=True, part="shared experts").weights
        shared = 0
    mixture = moe(c.hidden, number, used, inner, shared=shared, extra=extra)
    plain = None if all(sparse) else dense(c.hidden, c.count("intermediate_size"), bias=bias)
    c.dismiss("intermediate_size")
    return lambda layer: mixture if plain is None or sparse[layer] else plain, mixture


def predictors(c: Config) -> int:
    """Multi-token-prediction modules that the file names; where it names none there are none in the checkpoint."""
    keys = ("num_nextn_predict_layers", "num_mtp_layers")
    found = c.maybe(*keys, least=0, most=64) if c.has(*keys) else None
    c.dismiss(*keys)
    return found or 0


def predictor(c: Config, attention: Attention, mixture: Mlp, *, tables: int, number: int | None = None) -> tuple[Weight, ...]:
    """A layer behind a projection of two hidden states, with three norms, and `tables` copies of embedding and head.

    The router's balancing bias is a buffer in the layers and is counted only here, as the files do. `number`: of modules,
    where no key of the file says it.
    """
    hidden, number = c.hidden, predictors(c) if number is None else number
    weights = attention.weights + mixture.weights
    weights += (Weight("mlp.gate.e_score_correction_bias", "router", mixture.experts),) if mixture.experts else ()
    for name in ("input_layernorm", "post_attention_layernorm", "enorm", "hnorm", "shared_head.norm"):
        weights += norm(name, hidden)
    weights += linear("eh_proj", "mtp", hidden, 2 * hidden)
    for name in ("embed_tokens", "shared_head.head")[:tables]:
        weights += linear(name, "mtp", c.count("vocab_size"), hidden)
    return tuple(weight._replace(part="mtp") for weight in weights) * number


def indexer(c: Config, own: bool = True) -> mla.Index:
    """The sparse-attention indexer by the keys of DeepSeek-V3.2."""
    return mla.Index(c.count("index_n_heads"), c.count("index_head_dim"), c.count("index_topk"), own)


def all_indexed(c: Config) -> None:
    """Newer files say of every layer that it is sparse; nothing else is possible."""
    for kind in layer_types(c, c.layers, lambda _: "indexed_attention"):
        if kind not in ("indexed_attention", "deepseek_sparse_attention"):
            raise c.fail("layer_types", kind, "indexed_attention")


def full_indexers(c: Config) -> Callable[[int], bool]:
    """GLM-5.2: which layers choose tokens themselves; the others reuse the choice of the layer before."""
    letters = {"F": True, "S": False, "full": True, "shared": False}
    for key in ("indexer_types", "index_topk_pattern"):
        found = c.get(key)
        if found is not None:
            c.dismiss("index_topk_pattern", "index_topk_freq", "index_skip_topk_offset")
            if (
                not isinstance(found, str | list)
                or len(found) < c.layers
                or not all(isinstance(kind, str) and kind in letters for kind in found)
            ):
                raise c.fail(key, found, "full or shared for every layer")
            own = [letters[kind] for kind in found]
            own += [_scheduled(c, layer) for layer in range(len(own), c.layers + predictors(c))]
            return lambda layer: own[layer]
    return lambda layer: _scheduled(c, layer)


def _scheduled(c: Config, layer: int) -> bool:
    every = max(c.count("index_topk_freq", least=0, default=1), 1)
    return max(layer - c.count("index_skip_topk_offset", least=0, default=2) + 1, 0) % every == 0


def latent(c: Config, mlps: MlpAt, *, value_dim: int | None = None, mixture: Mlp | None = None, tables: int = 2) -> Stack:
    """The same MLA block on every layer. `mixture`: the MLP of its multi-token-prediction modules."""
    attention = mla.build(c.hidden, mla.dims(c, value_dim), bias=c.flag("attention_bias"))
    extra = predictor(c, attention, mixture, tables=tables) if mixture else ()
    return decoder(c, lambda _: attention, mlps, mtp=extra)


@family("deepseek", "deepseek_ocr2_text")
def deepseek(c: Config) -> Stack:
    """DeepSeek-MoE: MHA, shared experts, dense layers first."""
    biases = "qkvo" if c.flag("attention_bias") else ""
    routed = sparse_layers(c, first=0)
    plain = dense(c.hidden, c.count("intermediate_size"))
    sparse = plain
    if c.maybe("n_routed_experts", least=0):
        total, used = experts(c)
        inner = c.count("moe_intermediate_size")
        sparse = moe(c.hidden, total, used, inner, shared=inner * (c.maybe("n_shared_experts", least=0) or 0))
    return decoder(c, gqa.uniform(c, biases=biases), lambda layer: sparse if routed[layer] else plain)


@family("deepseek_v2", "deepseek_vl_v2")
def deepseek_v2(c: Config) -> Stack:
    """The first MLA; Lite has no low rank on the queries. DeepSeek-VL2-tiny and OCR carry these types without latents."""
    if not c.flag("use_mla", default=True):
        # The latent's widths are null or zero where there is none.
        c.dismiss("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return deepseek(c)
    mlps, _ = blocks(c, sparse_layers(c), bias=c.flag("mlp_bias"))
    return latent(c, mlps)


@family("deepseek_v3", "kimi_k2", "sarvam_mla")
def deepseek_v3(c: Config) -> Stack:
    """Prediction modules store embedding and head once more; Moonlight has no low rank on the queries."""
    mlps, mixture = blocks(c, sparse_layers(c))
    return latent(c, mlps, mixture=mixture)


@family("glm4_moe_lite")
def glm4_moe_lite(c: Config) -> Stack:
    """GLM-4.7-Flash: DeepSeek-V3 with one dense layer."""
    mlps, mixture = blocks(c, sparse_layers(c, first=1))
    return latent(c, mlps, mixture=mixture)


@family("mistral4")
def mistral4(c: Config) -> Stack:
    """Mistral Small 4."""
    c.dismiss("sliding_window", "mlp_bias")  # in the file, not in the class
    mlps, _ = blocks(c, sparse_layers(c))
    return latent(c, mlps)


@family("youtu", "minicpm3")
def dense_latent(c: Config) -> Stack:
    """Dense layers; MiniCPM3 derives the width of the values."""
    bias = c.flag("mlp_bias") if c.model_type == "minicpm3" else False
    block = dense(c.hidden, c.count("intermediate_size"), bias=bias)
    width = c.hidden // c.count("num_attention_heads") if c.model_type == "minicpm3" else None
    return latent(c, lambda _: block, value_dim=width)


@family("axk1")
def axk1(c: Config) -> Stack:
    """A.X K1: DeepSeek-V3 with one more norm behind every mixture."""
    mlps, _ = blocks(c, sparse_layers(c, first=1), extra=norm("mlp.post_mlp_layernorm", c.hidden))
    return latent(c, mlps)


@family("deepseek_v32", "glm_moe_dsa")
def sparse_latent(c: Config) -> Stack:
    """MLA that reads only what an indexer picks; in GLM-5.2 some layers reuse a pick and keep no index keys."""
    c.dismiss("mlp_bias")  # in the class, which does not use it
    all_indexed(c)
    glm = c.model_type == "glm_moe_dsa"
    own = full_indexers(c) if glm else lambda _: True
    mlps, mixture = blocks(c, sparse_layers(c))
    bias, d = c.flag("attention_bias"), mla.dims(c)
    made = {full: mla.build(c.hidden, d, bias=bias, index=indexer(c, full)) for full in (True, False)}
    extra = predictor(c, made[own(c.layers)], mixture, tables=0 if glm else 2) if predictors(c) else ()
    return decoder(c, lambda layer: made[own(layer)], mlps, mtp=extra)


@family("hy_v4", "hy_v4_vl_text")
def hy_v4(c: Config) -> Stack:
    """Hunyuan 4: sparse MLA with an output gate and sinks, and residual streams; three in four layers reuse a pick."""
    all_indexed(c)
    hidden, streams, d = c.hidden, c.count("hc_mult"), mla.dims(c)
    kinds = layer_types(c, c.layers, lambda i: "full" if i == 0 or i % 4 == 1 else "shared", "indexer_types")
    for kind in kinds:
        if kind not in ("full", "shared"):
            raise c.fail("indexer_types", kind, "full or shared")
    gate = (*linear("gate_proj", "attention", d.heads * d.value, hidden), Weight("sinks", "attention", d.heads))
    made = {
        kind: mla.build(hidden, d, bias=c.flag("attention_bias"), index=indexer(c, kind == "full"), extra=gate)
        for kind in ("full", "shared")
    }
    mlps, _ = blocks(c, sparse_layers(c, first=1))
    width = streams * hidden
    mix = tuple(weight for name in ("attn_hc", "mlp_hc") for weight in _streams(name, 2 * streams, width, 2))
    head = _streams("hc_head", streams, width, 1)
    return decoder(c, lambda layer: made[kinds[layer]], mlps, per_layer=lambda _: mix, outside=head)


@family("dots3_note_text")
def dots3_note(c: Config) -> Stack:
    """Sparse MLA, and MLA of other widths within a window; a norm on the rotary key, a gate per head on the output."""
    hidden = c.hidden
    sparse = c.flag("use_dsa", default=True)
    slides = c.flag("use_sliding_window", default=True)
    rule = lambda i: "full_attention" if not slides or i < 2 or i % 4 == 1 else "sliding_attention"  # noqa: E731
    types = layer_types(c, c.layers, rule)
    d = mla.dims(c)
    per_layer = c.by_layer("per_layer_config", *_DOTS_KEYS)
    near = _dots_window(c) if per_layer is None else _dots_listed(c, per_layer, d, types)
    made: dict[str, Attention] = {}
    for kind in set(types):
        if kind not in ("full_attention", "indexed_attention", "sliding_attention"):
            raise c.fail("layer_types", kind, "full_attention, indexed_attention or sliding_attention")
        local = kind == "sliding_attention"
        width = near if local else d
        extra = norm("k_rope_only_layernorm", width.rope) + linear("g_proj", "attention", width.heads, hidden)
        index = indexer(c) if not local and (sparse or kind == "indexed_attention") else None
        window = c.maybe("sliding_window", "sliding_window_size") or 512 if local else None
        made[kind] = mla.build(hidden, width, bias=c.flag("attention_bias"), index=index, extra=extra, window=window)
    c.dismiss("sliding_window", "sliding_window_size", "index_n_heads", "index_head_dim", "index_topk", "mlp_bias")
    routed = sparse_layers(c, first=1)
    number, used = experts(c)
    shared = c.count("n_shared_experts") * c.count("moe_shared_expert_intermediate_size", "shared_experts_intermediate_size")
    mixture = moe(hidden, number, used, c.count("moe_intermediate_size"), shared=shared)
    block = dense(hidden, c.count("intermediate_size"))
    return decoder(c, lambda layer: made[types[layer]], lambda layer: mixture if routed[layer] else block)


def _dots_window(c: Config) -> mla.Dims:
    """The widths of the sliding layers by the published file's own keys; the class has these values."""
    heads, key = c.count("swa_num_attention_heads", default=64), c.count("swa_head_dim", default=256)
    nope = c.count("swa_qk_nope_head_dim", default=192)
    rope = c.maybe("swa_qk_rope_head_dim") or key - nope
    if nope + rope != key:
        raise c.fail("swa_head_dim", key, f"swa_qk_nope_head_dim + swa_qk_rope_head_dim ({nope + rope})")
    c.dismiss("swa_num_key_value_heads")
    return mla.Dims(
        heads,
        c.count("swa_q_lora_rank", default=1024),
        c.count("swa_kv_lora_rank", default=1024),
        nope,
        rope,
        c.count("swa_v_head_dim", default=128),
    )


_DOTS_KEYS = (
    "num_attention_heads", "num_key_value_heads", "q_lora_rank", "kv_lora_rank", "head_dim",
    "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
)  # fmt: skip


def _dots_listed(c: Config, per_layer: dict[int, Config], d: mla.Dims, types: Sequence[str]) -> mla.Dims:
    """The same by layer number, where it differs, as transformers writes it: one shape on every sliding layer."""
    sliding = {layer for layer, kind in enumerate(types) if kind == "sliding_attention"}
    blocks = list(per_layer.values())
    if not blocks:
        return d
    if set(per_layer) != sliding or any(block.raw != blocks[0].raw for block in blocks):
        raise c.fail("per_layer_config", c.get("per_layer_config"), "of one shape, on the sliding layers alone")
    own = blocks[0]
    return mla.Dims(
        own.count("num_attention_heads", default=d.heads),
        own.maybe("q_lora_rank") or d.q_rank,
        own.count("kv_lora_rank", default=d.kv_rank),
        own.count("qk_nope_head_dim", default=d.nope),
        own.count("qk_rope_head_dim", default=d.rope),
        own.count("v_head_dim", default=d.value),
    )


@family("glm5_next_text")
def glm5_next(c: Config) -> Stack:
    """GLM-5.3: Kimi's delta attention with MLA between, whose indexer keeps one key for each index_kpool tokens; residual streams."""
    hidden, d = c.hidden, mla.dims(c)
    if d.rope:
        raise c.fail("qk_rope_head_dim", d.rope, "0")
    holder = c.block("linear_attn_config", defaults_of="none") or Config({}, c.model_type, defaults_of="none")
    delta = recurrent.kimi_delta(
        hidden,
        heads := holder.maybe("num_heads") or c.count("linear_num_heads"),
        holder.maybe("head_dim") or c.count("linear_head_dim"),
        holder.maybe("short_conv_kernel_size") or c.count("linear_conv_kernel_dim"),
        low_rank_forget=True,
        low_rank_gate=True,
        decays=heads,
    )
    c.dismiss("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
    types = layer_types(c, c.layers, lambda i: "indexed_attention" if i % 4 == 3 else "linear_attention")
    own, pool = full_indexers(c), c.count("index_kpool")
    index = indexer(c)
    pooling = (Weight("indexer.ape", "indexer", pool, index.dim), *linear("indexer.gate", "indexer", index.dim, hidden))
    bias = c.flag("attention_bias")
    made: dict[bool, Attention] = {}
    for full in (True, False):
        plain = mla.build(hidden, d, bias=bias, index=index._replace(own=full), extra=pooling if full else ())
        made[full] = replace(plain, entries=(plain.entries[0], *(entry._replace(ratio=pool) for entry in plain.entries[1:])))
    for kind in types:
        if kind not in ("linear_attention", "indexed_attention", "full_attention", "deepseek_sparse_attention"):
            raise c.fail("layer_types", kind, "linear_attention or indexed_attention")
    mlps, mixture = blocks(c, sparse_layers(c, first=3))
    streams = c.count("hc_mult")
    mix = mixing(hidden, streams)
    mtp = predictor(c, made[True], mixture, tables=0)  # without residual streams (vLLM, models/glm5_next)
    return decoder(
        c, lambda layer: delta if types[layer] == "linear_attention" else made[own(layer)], mlps, per_layer=lambda _: mix, mtp=mtp
    )


@family("mistral_large4_text")
def mistral_large4(c: Config) -> Stack:
    """Sparse MLA without a query rank; every fourth layer has no rotary part; layers may read an earlier layer's latents."""
    all_indexed(c)
    hidden, depth, given = c.hidden, c.layers, mla.dims(c)._replace(q_rank=None)
    c.dismiss("q_lora_rank", "mlp_bias")  # the class has neither
    step = c.count("no_rope_layer_interval", default=4)
    rotary = c.per_layer(c.counts("no_rope_layers", most=1), "no_rope_layers", depth, lambda i: int((i + 1) % step != 0))
    read = c.per_layer(c.counts("kv_source_layers", most=depth), "kv_source_layers", depth, lambda i: i)
    own = full_indexers(c)
    made: dict[tuple[int, bool, bool], Attention] = {}
    kinds = []
    for layer in range(depth):
        if read[layer] > layer or read[read[layer]] != read[layer]:
            raise c.fail("kv_source_layers", read[layer], "this layer or an earlier one that keeps its own latents")
        kinds.append((rotary[layer], read[layer] == layer, own(layer)))

    def scale(name: str, heads: int) -> tuple[Weight, ...]:
        return tuple(Weight(f"{name}.{half}", "attention", heads) for half in ("scale", "bias"))

    index = indexer(c)
    for kind in set(kinds):
        turns, keeps, full = kind
        d = given if turns else given._replace(nope=given.nope + given.rope, rope=0)
        extra = scale("softmax_scaling", d.heads)
        if full:
            extra += norm("indexer.q_input_norm", hidden, "layer") + scale("indexer.softmax_scaling", index.heads)
        plain = mla.build(hidden, d, bias=c.flag("attention_bias"), index=index._replace(own=full), extra=extra)
        if not keeps:
            dropped = ("kv_a_proj_with_mqa", "kv_a_proj_with_mqa.bias", "kv_a_layernorm")
            plain = replace(
                plain,
                weights=tuple(weight for weight in plain.weights if weight.name not in dropped),
                entries=(plain.entries[0]._replace(stored=False), *plain.entries[1:]),
            )
        made[kind] = plain
    mlps, _ = blocks(c, sparse_layers(c))
    alpha = (Weight("rotary_emb.alpha", "norms", given.rope // 2),)
    return decoder(c, lambda layer: made[kinds[layer]], mlps, outside=alpha if given.rope else ())


@family("axk2")
def axk2(c: Config) -> Stack:
    """A.X K2: an indexer on every layer, an output gate beside the queries, and norms with a small gate."""
    all_indexed(c)
    sparse = sparse_layers(c, first=1)
    mlps, _ = blocks(c, sparse)
    d, hidden, rank = mla.dims(c), c.hidden, c.count("gated_norm_rank")
    if d.q_rank is None:
        raise c.fail("q_lora_rank", None, "a whole number")
    query = Weight("q_gate_proj", "attention", d.heads * (d.nope + d.rope + d.value), 2 * d.q_rank)
    plain = mla.build(hidden, d, bias=c.flag("attention_bias"), index=indexer(c))
    weights = tuple(query if weight.name == "q_b_proj" else weight for weight in plain.weights)
    attention = Attention(plain.kind, weights, plain.entries, query_heads=plain.query_heads, kv_heads=plain.kv_heads)
    gate = linear("norm.mlp.fc1", "norms", rank, hidden) + linear("norm.mlp.fc2", "norms", hidden, rank)
    return decoder(c, lambda _: attention, mlps, per_layer=lambda layer: gate * (2 if sparse[layer] else 1))


@family("longcat_flash")
def longcat_flash(c: Config) -> Stack:
    """Two attentions and two dense MLPs per layer beside one mixture, some of whose experts are the identity.

    The prediction module is dense and has a table of its own (vLLM, longcat_flash_mtp); files seldom name it.
    """
    hidden = c.hidden
    attention = mla.build(hidden, mla.dims(c), bias=c.flag("attention_bias"))
    plain = dense(hidden, c.count("ffn_hidden_size", "intermediate_size"))
    beside = plain.weights
    named = c.has("num_nextn_predict_layers", "num_mtp_layers")
    mtp = predictor(c, attention, plain, tables=1, number=None if named else 1)
    number, used = c.count("n_routed_experts"), c.count("moe_topk", "num_experts_per_tok")
    idle = c.maybe("zero_expert_num", least=0) or 0
    inner = c.count("expert_ffn_hidden_size", "moe_intermediate_size")
    mixture = moe(hidden, number, min(used, number), inner, idle=idle, router_bias=c.flag("router_bias"))
    block = Mlp(beside * 2 + mixture.weights, mixture.experts, mixture.top_k)
    if c.has("num_layers"):
        c.dismiss("num_hidden_layers")  # counts attentions in some files and layers in others
    notes = ("active parameters take every chosen expert for a real one; the identity experts have no weights",) if idle else ()
    return decoder(
        c,
        lambda _: (attention, attention),
        lambda _: block,
        layers=c.count("num_layers", most=2048),
        norms=4,
        notes=notes,
        mtp=mtp,
    )


MOST_RATIO = 65_536
SLIDING, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"


def v4_layers(c: Config) -> tuple[list[str], list[str], dict[str, int]]:
    """Kind of every layer, kinds of the prediction modules, and tokens per entry of each kind."""
    rates = {SLIDING: 0, SPARSE: 4, HEAVY: 128}
    given = c.block("compress_rates")
    if given:
        for kind in set(given.raw) - {SPARSE, HEAVY}:
            raise c.fail("compress_rates", kind, f"made of {SPARSE} and {HEAVY}")
        rates |= {kind: given.count(kind, most=MOST_RATIO) for kind in given.raw}
    rates[SPARSE] = c.count("compress_rate_csa", default=rates[SPARSE], most=MOST_RATIO)
    rates[HEAVY] = c.count("compress_rate_hca", default=rates[HEAVY], most=MOST_RATIO)
    by_ratio = {0: SLIDING, 4: SPARSE, 128: HEAVY}
    ratios = c.counts("compress_ratios")
    tail: list[str] = []
    found = c.words("layer_types")
    if ratios is not None:
        if len(ratios) < c.layers:
            raise c.fail("compress_ratios", ratios, f"a list of {c.layers} entries")
        for ratio in ratios:
            if ratio not in by_ratio:
                raise c.fail("compress_ratios", ratio, "0, 4 or 128")
        named = [by_ratio[ratio] for ratio in ratios]
        found, tail = found or named[: c.layers], named[c.layers :]
    kinds = c.per_layer(found, "layer_types", c.layers, _v4_rule)
    for kind in kinds:
        if kind not in rates:
            raise c.fail("layer_types", kind, f"one of {', '.join(rates)}")
    return kinds, tail, rates


def _v4_rule(layer: int) -> str:
    return HEAVY if layer < 2 or layer % 2 == 0 else SPARSE


def v4_dims(c: Config) -> compressed.Dims:
    """The widths of an attention block."""
    d = compressed.Dims(
        heads=c.count("num_attention_heads"),
        dim=c.count("head_dim"),
        q_rank=c.count("q_lora_rank"),
        groups=c.count("o_groups"),
        o_rank=c.count("o_lora_rank"),
        window=c.count("sliding_window"),
    )
    if d.heads * d.dim % d.groups:
        raise c.fail("o_groups", d.groups, f"a divisor of the attention width ({d.heads * d.dim})")
    return d


@family("deepseek_v4", "deepseek_ref")
def deepseek_v4(c: Config) -> Stack:
    """A window and compressed entries with K = V; `hc_mult` residual streams; the first layers route by a table."""
    hidden, streams = c.hidden, c.count("hc_mult")
    if c.maybe("num_key_value_heads") not in (None, 1):
        raise c.fail("num_key_value_heads", c.get("num_key_value_heads"), "1")
    c.dismiss("qk_rope_head_dim")  # a part of head_dim
    c.dismiss("attention_bias")  # in the class, which does not use it
    # The first layers route by int64 tables [vocab, top k] instead of a balancing bias; the gate is there all the same.
    hashed = min(c.maybe("num_hash_layers", least=0) or 0, c.layers)
    for kind in c.words("mlp_layer_types") or ():
        if kind not in ("hash_moe", "moe"):
            raise c.fail("mlp_layer_types", kind, "hash_moe or moe")
    d = v4_dims(c)
    kinds, tail, rates = v4_layers(c)
    index = indexer(c)
    made = {kind: compressed.build(hidden, d, ratio=rate, index=index if kind == SPARSE else None) for kind, rate in rates.items()}
    mlps, mixture = blocks(c, [True] * c.layers, bias=c.flag("mlp_bias"))
    mix = mixing(hidden, streams)
    head = _streams("hc_head", streams, streams * hidden, 1)
    number = predictors(c)
    ahead: tuple[Weight, ...] = ()
    for module in range(number):
        ahead += made[tail[module] if module < len(tail) else SLIDING].weights + mixture.weights + mix + head
        ahead += (Weight("mlp.gate.e_score_correction_bias", "router", mixture.experts),)
        ahead += linear("e_proj", "mtp", hidden, hidden) + linear("h_proj", "mtp", hidden, hidden)
        for name in ("input_layernorm", "post_attention_layernorm", "enorm", "hnorm", "norm"):
            ahead += norm(name, hidden)
    return decoder(
        c,
        lambda layer: made[kinds[layer]],
        mlps,
        per_layer=lambda _: mix,
        outside=head,
        mtp=tuple(weight._replace(part="mtp") for weight in ahead),
        buffers=(
            ("hash routing table", hashed * c.count("vocab_size") * mixture.top_k, 8),
            ("balancing bias", (c.layers - hashed) * mixture.experts, 4),
        ),
    )


def _streams(name: str, out: int, into: int, scales: int) -> tuple[Weight, ...]:
    """The weights that mix the residual streams."""
    return (
        Weight(f"{name}.fn", "norms", out, into),
        Weight(f"{name}.base", "norms", out),
        Weight(f"{name}.scale", "norms", scales),
    )


def mixing(hidden: int, streams: int) -> tuple[Weight, ...]:
    """What mixes the residual streams around a layer's attention and its MLP."""
    return tuple(weight for name in ("attn_hc", "ffn_hc") for weight in _streams(name, (2 + streams) * streams, streams * hidden, 3))


def v41_roles(c: Config) -> list[compressed.Role]:
    """What every layer does: by the lists of those that keep entries, of those that choose, and the one that narrows the choice."""
    depth = c.layers
    ratios = c.counts("compress_ratios", most=MOST_RATIO)
    ahead = predictors(c)
    if ratios is None or len(ratios) not in (depth, depth + ahead) or any(ratios[depth:]):
        raise c.fail("compress_ratios", ratios, f"a list of {depth} entries, and a 0 for each of {ahead} prediction layers")
    keeps, chooses = (set(c.counts(key, most=depth - 1) or ()) for key in ("kv_source_layer_ids", "index_source_layer_ids"))
    narrows = c.maybe("candidate_source_layer_id", least=0, most=depth - 1)
    candidates = c.count("candidate_topk_blocks") * c.count("candidate_block_size") if narrows is not None else None
    c.dismiss("candidate_topk_blocks", "candidate_block_size")
    roles = []
    kept = chosen = 0
    for layer, ratio in enumerate(ratios[:depth]):
        kept = ratio if layer in keeps else kept
        chosen += layer in chooses
        if layer in keeps | chooses and not ratio:
            raise c.fail("compress_ratios", ratios, f"at least 1 on layer {layer}, which keeps entries or chooses among them")
        if ratio and (ratio != kept or not chosen):
            must = f"such that layer {layer} finds entries of {ratio} tokens, and a choice among them, at or before it"
            raise c.fail("kv_source_layer_ids", sorted(keeps), must)
        narrowed = candidates if narrows is not None and layer > narrows else None
        roles.append(compressed.Role(ratio, layer in keeps, layer in chooses, narrowed))
    return roles


def engrams(c: Config) -> dict[int, tuple[Weight, ...]]:
    """By layer: a table of hashed n-grams of which a token looks up a row a head and length, and what brings them into the streams."""
    keys = "engram_num_embeddings engram_max_ngram_size engram_n_heads engram_head_dim".split()
    c.dismiss("engram_vocab_size", "engram_compressed_vocab_size", *keys)  # of the hashes, which have no weights
    places, rows = c.counts("engram_layer_ids", most=c.layers - 1) or [], c.counts("engram_num_embeddings", least=1) or []
    if not places:
        return {}
    if len(rows) != len(places):
        raise c.fail("engram_num_embeddings", rows, f"a number for each of {len(places)} layers")
    width = c.count("engram_head_dim")
    into = (c.count("engram_max_ngram_size", least=2, most=64) - 1) * c.count("engram_n_heads") * width
    hidden, streams = c.hidden, c.count("hc_mult")
    beside = linear("engram.wkv", "mlp", (streams + 1) * hidden, into)
    beside += (Weight("engram.q_weight", "norms", streams, hidden), Weight("engram.k_weight", "norms", streams, hidden))
    return {layer: (Weight("engram.embed", "embedding", number, width), *beside) for layer, number in zip(places, rows, strict=True)}


@family("deepseek_v41", "deepseek_v41_text")
def deepseek_v41(c: Config) -> Stack:
    """V4 whose compressed entries a few layers keep for all; two tables of n-grams; a draft of its own (DSpark).

    Shapes by vLLM (models/deepseek_v4_1 @ba3b026). The router has a second balancing bias where the file sees images.
    """
    hidden, streams = c.hidden, c.count("hc_mult")
    if c.maybe("num_key_value_heads") not in (None, 1):
        raise c.fail("num_key_value_heads", c.get("num_key_value_heads"), "1")
    c.dismiss("qk_rope_head_dim")  # a part of head_dim
    if c.flag("attention_bias"):
        raise c.fail("attention_bias", True, "false")
    d = v4_dims(c)
    index = indexer(c)
    roles = v41_roles(c)
    made = {role: compressed.shared(hidden, d, role, index) for role in dict.fromkeys(roles)}
    mlps, mixture = blocks(c, [True] * c.layers)
    mix = mixing(hidden, streams)
    tables = engrams(c)
    drafted = predictors(c)
    ahead: tuple[Weight, ...] = ()
    targets = c.counts("dspark_target_layer_ids", most=c.layers - 1) or []
    if drafted:
        number, used = c.count("dspark_n_routed_experts"), c.count("dspark_num_experts_per_tok")
        inner, words, rank = c.count("moe_intermediate_size"), c.count("vocab_size"), c.count("dspark_markov_rank")
        block = moe(hidden, number, min(used, number), inner, shared=c.count("n_shared_experts", least=0) * inner, correction_bias=True)
        one = compressed.build(hidden, d).weights + block.weights + mix + norm("attn_norm", hidden) + norm("ffn_norm", hidden)
        once = linear("main_proj", "mtp", hidden, len(targets) * hidden) + norm("main_norm", hidden) + norm("norm", hidden)
        once += linear("markov_head.embed", "mtp", words, rank) + linear("markov_head.head", "mtp", words, rank)
        ahead = one * drafted + once + linear("confidence_head", "mtp", 1, hidden + rank)
    c.dismiss("dspark_n_routed_experts", "dspark_num_experts_per_tok", "dspark_markov_rank")
    last = max((layer for layer, role in enumerate(roles) if role.keeps), default=c.layers)
    said = f"a prompt is counted through all layers; DeepSeek's code takes it through the first {last}, and its end through the others"
    return decoder(
        c,
        lambda layer: made[roles[layer]],
        mlps,
        per_layer=lambda layer: mix + tables.get(layer, ()),
        mtp=tuple(weight._replace(part="mtp") for weight in ahead),
        notes=(said, "DeepSeek's code keeps this model's entries in 4 bits: `kv_dtype=nvfp4`") if last < c.layers else (),
        buffers=(("balancing bias", c.layers * mixture.experts, 4),),
    )
