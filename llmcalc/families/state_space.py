"""Decoders built on Mamba 1, Mamba 2, RWKV or xLSTM, alone or with attention between, beside or shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmcalc.architecture import Attention, Kind, Mlp, NormStyle, Stack, Weight, decoder, linear, norm
from llmcalc.attention import gqa, recurrent
from llmcalc.config import Config
from llmcalc.families import family
from llmcalc.families.hybrid import FULL_ATTENTION, LINEAR, as_mtp, chosen, kinds
from llmcalc.families.llama import biased, gated
from llmcalc.mlp import dense, experts, moe


def step_rank(c: Config, key: str) -> int:
    """Width of the time-step projection; "auto" is a sixteenth of the hidden width, rounded up."""
    return -(-c.hidden // 16) if c.get(key) == "auto" else c.count(key)


def expanded(c: Config, key: str) -> int:
    """Inner width of a Mamba block."""
    return int(c.number(key) * c.hidden)


def plain_attention(c: Config, biases: str = "") -> Attention:
    """GQA over the whole context by the usual keys."""
    return gqa.build(c.hidden, *gqa.heads(c), biases=biases)


def mamba2_mixer(c: Config, inner: int | None = None, *, gated_norm: bool = True, out_bias: bool | None = None) -> Attention:
    """Mamba 2 by the keys that Bamba, Granite and Falcon-H1 share. Head width "auto": the inner width over the heads."""
    width, heads = inner or expanded(c, "mamba_expand"), c.count("mamba_n_heads")
    dim = width // heads if c.get("mamba_d_head") == "auto" else c.count("mamba_d_head")
    if dim * heads != width:
        raise c.fail("mamba_d_head", c.get("mamba_d_head"), f"{width} / mamba_n_heads ({heads})")
    return recurrent.mamba2(
        c.hidden,
        heads,
        dim,
        c.count("mamba_n_groups"),
        c.count("mamba_d_state"),
        c.count("mamba_d_conv"),
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
        gated_norm=gated_norm,
        out_bias=out_bias,
    )


def no_mlp(layer: int) -> None:
    """Blocks that are mixers alone."""


@family("mamba", "falcon_mamba")
def mamba(c: Config) -> Stack:
    """Mamba 1 blocks alone. Falcon Mamba norms time step, B and C without weights."""
    block = recurrent.mamba1(
        c.hidden,
        c.maybe("intermediate_size") or expanded(c, "expand"),
        c.count("state_size"),
        step_rank(c, "time_step_rank"),
        c.count("conv_kernel"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
    )
    c.dismiss("expand", "d_model", "d_inner", "n_layer")  # the first is in the inner width, the others repeat it in old names
    return decoder(c, lambda _: block, no_mlp, norms=1)


@family("mamba2")
def mamba2(c: Config) -> Stack:
    """Mamba 2 blocks alone."""
    heads, dim, inner = c.count("num_heads"), c.count("head_dim"), expanded(c, "expand")
    if heads * dim != inner:
        raise c.fail("num_heads", heads, f"expand x hidden_size ({inner}) / head_dim ({dim})")
    block = recurrent.mamba2(
        c.hidden,
        heads,
        dim,
        c.count("n_groups"),
        c.count("state_size"),
        c.count("conv_kernel"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias"),
    )
    c.dismiss("time_step_rank")  # Mamba 1's
    return decoder(c, lambda _: block, no_mlp, norms=1)


def periodic(c: Config, which: str, layers: int) -> list[bool]:
    """Layers that <which>_layer_period and <which>_layer_offset choose."""
    period, offset = c.count(f"{which}_layer_period"), c.count(f"{which}_layer_offset", least=0)
    if offset >= period:
        raise c.fail(f"{which}_layer_offset", offset, f"less than {which}_layer_period ({period})")
    return [layer % period == offset for layer in range(layers)]


@family("jamba")
def jamba(c: Config) -> Stack:
    """Mamba 1 with norms inside; attention and experts each on layers of their own period."""
    if not c.flag("mamba_inner_layernorms", default=True):
        raise c.fail("mamba_inner_layernorms", False, "true: Mamba blocks without inner norms are not read")
    scan = recurrent.mamba1(
        c.hidden,
        expanded(c, "mamba_expand"),
        c.count("mamba_d_state"),
        step_rank(c, "mamba_dt_rank"),
        c.count("mamba_d_conv"),
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
        norms=True,
    )
    attention = plain_attention(c)
    attends = periodic(c, "attn", c.layers)
    routed = periodic(c, "expert", c.layers)
    inner = c.count("intermediate_size")
    number, used = experts(c)
    block = dense(c.hidden, inner)
    sparse = moe(c.hidden, number, used, inner) if number > 1 else block
    c.dismiss("n_ctx", "layer_types", "layers_block_type")  # context again; the lists repeat the periods
    return decoder(c, lambda i: attention if attends[i] else scan, lambda i: sparse if routed[i] else block)


@family("bamba")
def bamba(c: Config) -> Stack:
    """Mamba 2, and attention on a few listed layers."""
    options = {"full": plain_attention(c, biased(c)), "linear": mamba2_mixer(c)}
    attends = c.counts("attn_layer_indices")
    if attends is None:
        types = kinds(c, lambda _: "linear_attention", {**FULL_ATTENTION, **LINEAR})
    else:
        types = ["full" if layer in attends else "linear" for layer in range(c.layers)]
        c.dismiss("layer_types", "layers_block_type")  # repeat the indices
    return decoder(c, chosen(options, types), gated(c))


@family("falcon_h1")
def falcon_h1(c: Config) -> Stack:
    """Attention and Mamba 2 side by side in every layer, under one norm."""
    if not c.flag("mamba_use_mlp", default=True):
        raise c.fail("mamba_use_mlp", False, "true: layers without an MLP are not read")
    inner = c.maybe("mamba_d_ssm")
    c.dismiss("mamba_expand", "layer_types", "layers_block_type")  # every layer is both
    scan = mamba2_mixer(c, inner, gated_norm=c.flag("mamba_rms_norm"), out_bias=c.flag("projectors_bias"))
    both = (scan, plain_attention(c, biased(c)))
    return decoder(c, lambda _: both, gated(c))


def shared_types(c: Config, rule: list[str]) -> list[str]:
    """Zamba: Mamba layers, of which some also run a shared transformer block."""
    known = {"mamba": "linear", "linear_attention": "linear", "hybrid": "hybrid"}
    depth = c.layers
    return kinds(c, lambda i: rule[i] if i < len(rule) else "", known, "layers_block_type", "layer_types", layers=depth)


def taking_turns(block: tuple[Weight, ...], blocks: int, types: list[str]) -> tuple[Weight, ...]:
    """So many shared blocks, each with the number of layers that use it."""
    layers = types.count("hybrid")
    return tuple(weight._replace(uses=len(range(first, layers, blocks))) for first in range(min(blocks, layers)) for weight in block)


@family("zamba")
def zamba(c: Config) -> Stack:
    """Mamba 1 of several heads; one transformer block, stored once, that also sees the embeddings, on every sixth layer."""
    hidden, depth, heads = c.hidden, c.layers, c.count("n_mamba_heads")
    inner = expanded(c, "mamba_expand")
    gqa.exact_division(c, "mamba_expand", inner, "n_mamba_heads", heads)
    scan = recurrent.mamba1(
        hidden,
        inner,
        c.count("mamba_d_state"),
        step_rank(c, "mamba_dt_rank"),
        c.count("mamba_d_conv"),
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias"),
        heads=heads,
    )
    wide = c.maybe("attention_hidden_size") or 2 * hidden
    query, kv = c.count("num_attention_heads"), c.count("num_key_value_heads")
    gqa.check_groups(c, query, kv)
    attention = gqa.build(wide, query, kv, c.maybe("head_dim") or 2 * hidden // query, out=hidden, kind="shared-weights")
    shared = attention.weights + dense(hidden, c.count("intermediate_size")).weights
    shared += norm("input_layernorm", wide) + norm("pre_ff_layernorm", hidden)
    period, offset = c.count("attn_layer_period"), c.count("attn_layer_offset", least=0)
    tail = ["hybrid" if i % period == offset else "mamba" for i in range(max(0, depth - 3))]
    types = shared_types(c, ["mamba", "mamba", "hybrid", *tail])
    joined = replace(attention, weights=linear("linear", "attention", hidden, hidden))
    return decoder(c, lambda i: (joined, scan) if types[i] == "hybrid" else scan, no_mlp, norms=1, shared=taking_turns(shared, 1, types))


@family("zamba2")
def zamba2(c: Config) -> Stack:
    """Mamba 2; shared transformer blocks take turns, and each of their uses has low-rank adapters of its own."""
    hidden, heads = c.hidden, c.count("n_mamba_heads")
    inner, bias = expanded(c, "mamba_expand"), c.flag("add_bias_linear")
    dim = gqa.exact_division(c, "mamba_expand", inner, "n_mamba_heads", heads)
    scan = recurrent.mamba2(
        hidden,
        heads,
        dim,
        c.count("mamba_ngroups"),
        c.count("mamba_d_state"),
        c.count("mamba_d_conv"),
        bias=bias,
        conv_bias=True,  # whatever use_conv_bias says
    )
    query = c.count("num_attention_heads")
    kv = c.maybe("num_key_value_heads") or query
    gqa.check_groups(c, query, kv)
    wide, width = 2 * hidden, c.maybe("intermediate_size") or 4 * hidden
    attention = gqa.build(wide, query, kv, wide // query, out=hidden, kind="shared-weights")
    block = attention.weights + dense(hidden, width, bias=bias).weights
    block += norm("input_layernorm", wide) + norm("pre_ff_layernorm", hidden)
    known = 6 * ["mamba"] + ["hybrid"] + 6 * (5 * ["mamba"] + ["hybrid"]) + 4 * ["mamba"] + ["hybrid"]
    own = [*known, *3 * ["mamba"], "hybrid", "mamba", "mamba"]
    if c.layers != len(own) and not c.has("layers_block_type", "layer_types"):
        raise c.missing("layers_block_type")
    types = shared_types(c, own)
    rank = c.count("adapter_rank")
    adapters = linear("gate_up_proj_adapter.0", "mlp", rank, hidden) + linear("gate_up_proj_adapter.1", "mlp", 2 * width, rank)
    if c.flag("use_shared_attention_adapter"):
        for name in "qkv":
            adapters += linear(f"linear_{name}_adapter.0", "attention", rank, wide)
            adapters += linear(f"linear_{name}_adapter.1", "attention", wide, rank)
    joined = replace(attention, weights=linear("linear", "attention", hidden, hidden) + adapters)
    # Repeated under other names, of older releases too; they must agree.
    for key, value in (("mamba_headdim", dim), ("state_size", c.count("mamba_d_state")), ("ffn_hidden_size", width)):
        if c.maybe(key) not in (None, value):
            raise c.fail(key, c.get(key), f"{value}, as the other keys say")
    c.dismiss("use_conv_bias", "attention_head_dim", "head_dim", "attention_hidden_size", "kv_channels", "num_query_groups")
    c.dismiss("hybrid_layer_ids")
    longest = 16_384 if c.raw.get("use_long_context") else None  # the class sets it
    return decoder(
        c,
        lambda i: (joined, scan) if types[i] == "hybrid" else scan,
        no_mlp,
        norms=1,
        shared=taking_turns(block, c.count("num_mem_blocks"), types),
        max_context=longest,
    )


@family("granitemoehybrid")
def granite_hybrid(c: Config) -> Stack:
    """Granite 4: Mamba 2 and attention by layer_types; a shared MLP on every layer, experts beside it where there are any."""
    options = {"full": plain_attention(c, biased(c)), "linear": mamba2_mixer(c)}
    types = kinds(c, lambda _: "linear_attention", {**FULL_ATTENTION, **LINEAR})
    shared = c.count("shared_intermediate_size")
    if c.maybe("num_local_experts", least=0):
        number, used = experts(c)
        block = moe(c.hidden, number, used, c.count("intermediate_size"), shared=shared)
    else:
        block = dense(c.hidden, shared)
        c.dismiss("intermediate_size", "num_experts_per_tok")  # of the experts
    return decoder(c, chosen(options, types), lambda _: block)


NEMOTRON = {**FULL_ATTENTION, **LINEAR, "moe": "moe", "mlp": "mlp"}
NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}


def lettered(c: Config, key: str) -> list[str] | None:
    """A pattern such as M-M*ME, spelled out, or None where the file has none."""
    if not c.has(key):
        return None
    pattern = c.text(key)
    if not pattern or set(pattern) - set(NEMOTRON_LETTERS):
        raise c.fail(key, pattern, f"a text of the letters {' '.join(NEMOTRON_LETTERS)}")
    return [NEMOTRON_LETTERS[letter] for letter in pattern]


@family("nemotron_h")
def nemotron_h(c: Config) -> Stack:
    """Each layer is one thing: Mamba 2, attention, an MLP or experts (which may work in a narrower, latent width)."""
    hidden = c.hidden
    names = c.words("layers_block_type", "layer_types")
    if names is None:
        names = lettered(c, "hybrid_override_pattern")
    c.dismiss("hybrid_override_pattern", "layer_types", "layers_block_type")
    if names is None:
        if c.has("num_hidden_layers"):
            raise c.missing("hybrid_override_pattern")
        names = ["mamba", "moe", "attention", "mlp"]  # the class's own
    c.dismiss("num_hidden_layers")  # the list decides
    types = listed(c, "layers_block_type", names)
    ahead = c.maybe("num_nextn_predict_layers", least=0, most=64) or 0
    given = c.words("mtp_layers_block_type") if c.has("mtp_layers_block_type") else None
    mtp_names = given or lettered(c, "mtp_hybrid_override_pattern") or ["attention", "moe"]
    c.dismiss("mtp_layers_block_type", "mtp_hybrid_override_pattern")
    mtp_types = listed(c, "mtp_layers_block_type", mtp_names) if ahead else []
    for key in ("attention_bias", "mamba_proj_bias"):  # what transformers and the engines do with them differs
        if c.flag(key):
            raise c.fail(key, True, "false")
    query, kv, dim = c.count("num_attention_heads"), c.count("num_key_value_heads"), c.count("head_dim", "attention_head_dim")
    gqa.check_groups(c, query, kv)
    c.dismiss("attention_head_dim", "head_dim", "expand", "mamba_expand", "time_step_rank")  # inner width is heads x head width
    mixers = {
        "full": gqa.build(hidden, query, kv, dim),
        "linear": recurrent.mamba2(
            hidden,
            c.count("mamba_num_heads"),
            c.count("mamba_head_dim"),
            c.count("mamba_n_groups", "n_groups"),
            c.count("ssm_state_size"),
            c.count("mamba_d_conv", "conv_kernel"),
            bias=c.flag("use_bias"),
            conv_bias=c.flag("mamba_conv_bias", "use_conv_bias"),
        ),
    }
    mlp_bias = c.flag("mlp_bias")
    blocks: dict[str, Mlp] = {}
    if "mlp" in (*types, *mtp_types):
        blocks["mlp"] = dense(hidden, c.count("intermediate_size"), gated=False, bias=mlp_bias)
    if "moe" in (*types, *mtp_types):
        blocks["moe"] = nemotron_experts(c)
    # Files of any kind of model hold the keys of all kinds.
    c.dismiss("intermediate_size", "n_routed_experts", "num_local_experts", "num_experts_per_tok", "n_shared_experts")
    c.dismiss("moe_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size")
    mtp: tuple[Weight, ...] = ()
    if ahead:
        for kind in mtp_types:
            part = mixers[kind].weights if kind in mixers else blocks[kind].weights
            mtp += part + norm("norm", hidden)
        mtp += norm("enorm", hidden) + norm("hnorm", hidden) + linear("eh_proj", "mtp", hidden, 2 * hidden)
        mtp = as_mtp((mtp + norm("final_layernorm", hidden)) * ahead)
    return decoder(c, lambda i: mixers.get(types[i]), lambda i: blocks.get(types[i]), norms=1, layers=len(types), mtp=mtp)


def listed(c: Config, key: str, names: list[str]) -> list[str]:
    """Kinds of NemotronH layers from their names."""
    if not names or set(names) - set(NEMOTRON):
        raise c.fail(key, names, f"a list of {', '.join(NEMOTRON)}")
    return [NEMOTRON[name] for name in names]


def nemotron_experts(c: Config) -> Mlp:
    """Experts of two matrices; the shared expert works in the full width and states its width itself."""
    if c.flag("mlp_bias"):
        raise c.fail("mlp_bias", True, "false where there are experts")
    if c.count("n_shared_experts", least=0) != 1:
        raise c.fail("n_shared_experts", c.get("n_shared_experts"), "1")
    number, used = experts(c)
    return moe(
        c.hidden,
        number,
        used,
        c.count("moe_intermediate_size"),
        gated=False,
        shared=c.count("moe_shared_expert_intermediate_size"),
        latent=c.maybe("moe_latent_size"),
    )


def time_mix(hidden: int, width: int, decay: int, gate: bool) -> tuple[Weight, ...]:
    """RWKV's attention: projections of a mix of this token and the one before."""
    projections = ("receptance", "key", "value", *(("gate",) if gate else ()))
    weights: tuple[Weight, ...] = ()
    for name in projections:
        weights += linear(f"attention.{name}", "attention", width, hidden)
        weights += (Weight(f"attention.time_mix_{name}", "state", hidden),)
    weights += tuple(Weight(f"attention.{name}", "state", decay) for name in ("time_decay", "time_first"))
    return weights + linear("attention.output", "attention", hidden, width)


def channel_mix(hidden: int, inner: int) -> Mlp:
    """RWKV's MLP: squared ReLU behind a gate over the hidden width."""
    weights = linear("feed_forward.key", "mlp", inner, hidden) + linear("feed_forward.receptance", "mlp", hidden, hidden)
    weights += linear("feed_forward.value", "mlp", hidden, inner)
    return Mlp(weights + tuple(Weight(f"feed_forward.time_mix_{name}", "state", hidden) for name in ("key", "receptance")))


@family("rwkv")
def rwkv(c: Config) -> Stack:
    """RWKV 4: two shifted tokens in the model's dtype; numerator, denominator and maximum in fp32."""
    hidden = c.hidden
    width = c.maybe("attention_hidden_size") or hidden
    mixer = recurrent.build(
        "rwkv4",
        time_mix(hidden, width, width, gate=False),
        recurrent.vectors(2, hidden, "model", "shift"),
        recurrent.vectors(3, width, "fp32", "wkv"),
    )
    block = channel_mix(hidden, c.maybe("intermediate_size") or 4 * hidden)
    before = norm("pre_ln", hidden, "layer")
    return decoder(c, lambda _: mixer, lambda _: block, norm_style="layer", outside=before)


@family("rwkv5")
def rwkv5(c: Config) -> Stack:
    """RWKV 5.2 (Eagle): a matrix per head in place of three vectors, a gate, and a norm per head."""
    version = c.raw.get("model_version")
    if version not in (None, "5_2"):
        raise c.fail("model_version", version, '"5_2"')
    hidden, head = c.hidden, c.count("head_size")
    width = c.maybe("attention_hidden_size") or hidden
    heads = gqa.exact_division(c, "attention_hidden_size", width, "head_size", head)
    mixer = recurrent.build(
        "rwkv5",
        time_mix(hidden, width, width, gate=True) + norm("attention.ln_x", width, "layer"),
        recurrent.vectors(2, hidden, "model", "shift"),
        recurrent.matrix(heads, head, head, name="wkv"),
    )
    # Absent width of the MLP: 3.5 times the hidden width in steps of 32, as in the release's own code.
    block = channel_mix(hidden, c.maybe("intermediate_size") or hidden * 7 // 2 // 32 * 32)
    before = norm("pre_ln", hidden, "layer")
    return decoder(c, lambda _: mixer, lambda _: block, norm_style="layer", outside=before)


def low_rank(name: str, rank: int, into: int, out: int, *, times: int = 1, vector: bool = False) -> tuple[Weight, ...]:
    """A projection through `rank`, `times` of them side by side, and maybe a vector that is added."""
    weights = linear(f"attention.{name}1", "attention", times * rank, into) + linear(
        f"attention.{name}2", "attention", out, rank, copies=times
    )
    return weights + ((Weight(f"attention.{name}0", "state", out),) if vector else ())


def time_mix6(hidden: int, kv: int, mix: int, decay: int, *, first: bool = True, bias: bool = False) -> tuple[Weight, ...]:
    """RWKV 6: what is mixed of two tokens depends on them, and so does the decay. `kv`: keys and values may be of fewer heads."""
    rows = {"receptance": hidden, "key": kv, "value": kv}
    weights = low_rank("time_maa_w", mix, hidden, hidden, times=5) + low_rank("time_decay_w", decay, hidden, hidden, vector=True)
    weights += (Weight("attention.time_maa", "state", 6, hidden),)
    weights += (Weight("attention.time_faaaa", "state", hidden),) if first else ()
    for name, out in rows.items():
        weights += linear(f"attention.{name}", "attention", out, hidden, bias)
    return weights + linear("attention.gate", "attention", hidden, hidden) + linear("attention.output", "attention", hidden, hidden)


def time_mix7(hidden: int, ranks: Sequence[int], *, first: bool) -> tuple[Weight, ...]:
    """RWKV 7: a decay, a learning rate, values of the first layer and a gate, each through a rank; the first layer has no third."""
    weights: tuple[Weight, ...] = (Weight("attention.x", "state", 6 if ranks[3] else 5, hidden),)
    for name, rank in zip("wavg", ranks, strict=True):
        if rank and not (first and name == "v"):
            weights += low_rank(name, rank, hidden, hidden, vector=name != "g")
    weights += tuple(Weight(f"attention.{name}", "state", hidden) for name in ("k_k", "k_a", "r_k"))
    for name in ("receptance", "key", "value", "output"):
        weights += linear(f"attention.{name}", "attention", hidden, hidden)
    return weights


def wkv(kind: Kind, weights: tuple[Weight, ...], hidden: int, head: int, shifts: int) -> Attention:
    """A matrix per head, and the tokens before that are mixed in."""
    return recurrent.build(
        kind, weights, recurrent.vectors(shifts, hidden, "model", "shift"), recurrent.matrix(hidden // head, head, head, name="wkv")
    )


def head_size(c: Config, *names: str) -> int:
    """Width of a head, which divides the hidden width."""
    head = c.count(*names)
    gqa.exact_division(c, "hidden_size", c.hidden, names[0], head)
    return head


@family("rwkv6")
def rwkv6(c: Config) -> Stack:
    """RWKV 6 (Finch, arXiv:2404.05892): 13 D² + 464 D parameters per layer with the usual ranks."""
    hidden, head = c.hidden, head_size(c, "head_size")
    if c.maybe("attention_hidden_size") not in (None, hidden):
        raise c.fail("attention_hidden_size", c.get("attention_hidden_size"), f"hidden_size ({hidden})")
    c.dismiss("num_attention_heads")  # files repeat the width of a head there
    wide = hidden == 4096  # the release's own code
    mix, decay = c.maybe("time_mix_extra_dim") or (64 if wide else 32), c.maybe("time_decay_extra_dim") or (128 if wide else 64)
    weights = time_mix6(hidden, hidden, mix, decay) + norm("attention.ln_x", hidden, "layer")
    mixer = wkv("rwkv6", weights, hidden, head, 2)
    block = channel_mix(hidden, c.maybe("intermediate_size") or hidden * 7 // 2 // 32 * 32)
    return decoder(c, lambda _: mixer, lambda _: block, norm_style="layer", outside=norm("pre_ln", hidden, "layer"))


@family("rwkv7")
def rwkv7(c: Config) -> Stack:
    """RWKV 7 (Goose, arXiv:2503.14456): 12 D² + 2 D (ranks) + 19 D parameters per layer; an MLP without a gate."""
    for key, want in (("attn", None), ("norm_bias", True), ("norm_first", True)):
        if c.raw.get(key, want) != want:
            raise c.fail(key, c.raw[key], str(want).lower())
    hidden, head = c.hidden, head_size(c, "head_dim", "head_size")
    c.dismiss("num_heads")
    ranks = [c.count(f"{name}_low_rank_dim") for name in ("decay", "a", "v", "gate")]
    after = norm("attention.ln_x", hidden, "layer")
    mixers = [wkv("rwkv7", time_mix7(hidden, ranks, first=first) + after, hidden, head, 2) for first in (False, True)]
    inner = c.maybe("intermediate_size") or 4 * hidden
    block = Mlp(
        linear("feed_forward.key", "mlp", inner, hidden)
        + linear("feed_forward.value", "mlp", hidden, inner)
        + (Weight("feed_forward.x_k", "state", hidden),)
    )
    before = norm("pre_ln", hidden, "layer")
    return decoder(c, lambda layer: mixers[layer == 0], lambda _: block, norm_style="layer", outside=before)


@family("rwkv6qwen2", "arwkv7")
def rwkv_in_qwen(c: Config) -> Stack:
    """RWKV's mixers in Qwen's layers, by the keys of a GGUF file: one shifted token, as the MLP is Qwen's."""
    hidden, head = c.hidden, head_size(c, "head_size")
    if c.model_type == "rwkv6qwen2":
        kv = c.count("num_key_value_heads") * head
        mix, decay = c.count("time_mix_extra_dim"), c.count("time_decay_extra_dim")
        weights = time_mix6(hidden, kv, mix, decay, first=c.flag("use_time_first"), bias=c.flag("attention_bias"))
        mixers = [wkv("rwkv6", weights, hidden, head, 1)] * 2
    else:
        ranks = [c.count(f"{name}_low_rank_dim", least=0) for name in ("decay", "a", "v", "gate")]
        after = norm("attention.ln_x", hidden, "layer") if c.flag("use_group_norm") else ()
        mixers = [wkv("rwkv7", time_mix7(hidden, ranks, first=first) + after, hidden, head, 1) for first in (False, True)]
    return decoder(c, lambda layer: mixers[layer == 0], gated(c, bias=False))


@family("plamo2")
def plamo2(c: Config) -> Stack:
    """PLaMo 2: Mamba 2 with Mamba 1's projections behind the convolution and norms on them; attention on every mamba_step-th layer."""
    hidden, heads, dim = c.hidden, c.count("mamba_num_heads"), c.count("hidden_size_per_head")
    if not c.flag("mamba_enabled", default=True):
        raise c.fail("mamba_enabled", False, "true")
    inner, state, kernel, rank = heads * dim, c.count("mamba_d_state"), c.count("mamba_d_conv"), max(64, hidden // 16)
    weights = linear("mamba.in_proj", "attention", 2 * inner, hidden) + recurrent.convolution("mamba.conv1d", inner, kernel)
    weights += linear("mamba.bcdt_proj", "attention", rank + 2 * state, inner) + linear("mamba.dt_proj", "attention", heads, rank)
    weights += tuple(Weight(f"mamba.{name}", "state", heads) for name in ("dt_bias", "A_log", "D"))
    weights += norm("mamba.dt_norm", rank) + norm("mamba.B_norm", state) + norm("mamba.C_norm", state)
    weights += linear("mamba.out_proj", "attention", hidden, inner)
    scan = recurrent.build("mamba2", weights, recurrent.conv(inner, kernel), recurrent.matrix(heads, dim, state, name="ssm"))
    query, kv = c.count("num_attention_heads"), c.count("num_key_value_heads")
    gqa.check_groups(c, query, kv)
    own = (Weight("q_norm", "norms", query, dim), Weight("k_norm", "norms", kv, dim))
    attention = gqa.build(hidden, query, kv, dim, extra=own)
    step = c.count("mamba_step")
    last = c.layers - 1
    attends = [i == last if c.layers <= step // 2 else i % step == step // 2 for i in range(c.layers)]
    return decoder(c, lambda i: attention if attends[i] else scan, gated(c, bias=False), norms=4)


@family("xlstm")
def xlstm(c: Config) -> Stack:
    """xLSTM: mLSTM blocks with a matrix, a vector and a number per head, all fp32; a gated MLP of a stated factor."""
    state = c.text("inference_state_dtype", default="float32")
    if state != "float32":
        raise c.fail("inference_state_dtype", state, '"float32"')
    if not c.flag("add_out_norm", default=True):
        raise c.fail("add_out_norm", False, "true")
    hidden = c.count("hidden_size") if c.has("hidden_size") or not c.has("embedding_dim") else c.count("embedding_dim")
    if c.has("embedding_dim") and c.count("embedding_dim") != hidden:
        raise c.fail("embedding_dim", c.get("embedding_dim"), f"hidden_size ({hidden})")
    depth = c.maybe("num_blocks", most=4096) or c.layers
    c.dismiss("num_hidden_layers", "head_dim")  # num_blocks decides; head widths follow from the factors
    heads, bias = c.count("num_heads"), c.flag("use_bias")
    keys, values = int(hidden * c.number("qk_dim_factor")), int(hidden * c.number("v_dim_factor"))
    for key, width in (("qk_dim_factor", keys), ("v_dim_factor", values)):
        if width % heads or not width:
            raise c.fail(key, c.get(key), f"such that the width ({width}) is a multiple of num_heads ({heads})")
    weights: tuple[Weight, ...] = ()
    for name, out in (("q", keys), ("k", keys), ("v", values), ("ogate_preact", values)):
        weights += linear(f"mlstm_layer.{name}", "attention", out, hidden, bias)
    for name in ("igate_preact", "fgate_preact"):
        weights += linear(f"mlstm_layer.{name}", "attention", heads, hidden, True)
    style: NormStyle = "layer" if bias else "rms"
    weights += norm("mlstm_layer.multihead_norm", values, style)
    weights += linear("mlstm_layer.out_proj", "attention", hidden, values, bias)
    mixer = recurrent.build(
        "mlstm",
        weights,
        recurrent.matrix(heads, keys // heads, values // heads),
        recurrent.vectors(heads, keys // heads, "fp32", "normaliser"),
        recurrent.vectors(heads, 1, "fp32", "maximum"),
    )
    step = c.count("ffn_round_up_to_multiple_of")
    block = dense(hidden, -(-int(hidden * c.number("ffn_proj_factor")) // step) * step, bias=bias)
    return decoder(
        c,
        lambda _: mixer,
        lambda _: block,
        norm_style=style,
        layers=depth,
        hidden=hidden,
        final_norm=False,
        outside=norm("out_norm", hidden),
    )
