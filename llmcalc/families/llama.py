"""Dense decoders with GQA: Llama and everything built like it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from llmcalc.architecture import FULL, Mlp, NormStyle, Span, Stack, Weight, always, decoder, every, layer_types, linear, spans
from llmcalc.attention import gqa
from llmcalc.config import MOST_LAYERS, Config
from llmcalc.families import family
from llmcalc.mlp import dense


def biased(c: Config, which: str = "qkvo", *keys: str) -> str:
    """Projections with a bias, where a key switches them on."""
    return which if c.flag(*(keys or ("attention_bias",))) else ""


def gated(c: Config, *, bias: bool | None = None, gate: bool = True) -> Callable[[int], Mlp]:
    """The same dense MLP on every layer; its bias is `mlp_bias` unless the family fixes it."""
    c.dismiss("mlp_bias")
    return always(dense(c.hidden, c.count("intermediate_size"), gated=gate, bias=c.flag("mlp_bias") if bias is None else bias))


def window_everywhere(c: Config) -> list[Span] | None:
    """Mistral, Phi-3, StarCoder2: every layer slides where sliding_window is not null. `layer_types` may say otherwise."""
    if c.has("layer_types"):
        return spans(c, layer_types(c, c.layers, lambda _: "full_attention"))
    window = c.maybe("sliding_window_size") if c.has("sliding_window_size") and not c.has("sliding_window") else c.maybe("sliding_window")
    return [Span("window", window) if window else FULL] * c.layers


def window_by_type(c: Config, period: int, key: str = "sliding_window_pattern", offset: int = 0) -> list[Span]:
    """layer_types, or full attention on every `period`-th layer; the whole context everywhere where the window is null."""
    step = c.maybe(key) or period
    types = layer_types(c, c.layers, every(step, offset))
    return spans(c, types if c.maybe("sliding_window") else ["full_attention"] * c.layers)


def window_from_layer(c: Config) -> list[Span]:
    """Qwen2 and 3: where use_sliding_window, layers from max_window_layers on slide."""
    window = c.maybe("sliding_window") if c.flag("use_sliding_window") else None
    first = c.maybe("max_window_layers", least=0) or 0
    if c.has("layer_types") and window:
        return spans(c, layer_types(c, c.layers, lambda _: "full_attention"))
    c.dismiss("layer_types", "sliding_window", "max_window_layers")
    return [Span("window", window) if window and layer >= first else FULL for layer in range(c.layers)]


def window_without_positions(c: Config) -> list[Span]:
    """SmolLM3: where use_sliding_window, the layers slide that have no rotary positions."""
    step = c.count("no_rope_layer_interval")
    rotary = c.per_layer(c.counts("no_rope_layers", most=1), "no_rope_layers", c.layers, lambda layer: int((layer + 1) % step != 0))
    slides = c.flag("use_sliding_window") and c.maybe("sliding_window")
    types = layer_types(c, c.layers, lambda layer: "sliding_attention" if slides and not rotary[layer] else "full_attention")
    c.dismiss("sliding_window", "max_window_layers")
    return spans(c, types if slides else ["full_attention"] * c.layers)


@family(
    "llama", "smollm3", "helium", "granite", "internlm3", "cwm", "granite_swa", "iquestcoder",
    "emu3_text_model", "granite4_vision_text", "granite_docling_text",
)  # fmt: skip
def llama(c: Config) -> Stack:
    """RMSNorm, rotary GQA, SwiGLU."""
    windows = {
        # These classes make the first of every four full, not the last.
        "cwm": lambda: window_by_type(c, 4, offset=3),
        "granite_swa": lambda: spans(c, layer_types(c, c.layers, every(4, 3))),
        "smollm3": lambda: window_without_positions(c),
    }.get(c.model_type, lambda: None)()
    c.dismiss("no_rope_layers", "no_rope_layer_interval")  # positions only
    which = {"cwm": "", "helium": "qkv"}.get(c.model_type, "qkvo")
    return decoder(c, gqa.uniform(c, biases=biased(c, which), spans=windows, sinks=c.model_type == "granite_swa"), gated(c))


@family("mistral", "ministral", "ministral3", "voxtral_realtime_text")
def mistral(c: Config) -> Stack:
    """Llama with a window on every layer, where there is one; Voxtral Realtime scales the MLP's input by the delay."""
    delay: tuple[Weight, ...] = ()
    if c.model_type == "voxtral_realtime_text":
        delay = linear("ada_rms_norm.linear1", "mlp", 32, c.hidden) + linear("ada_rms_norm.linear2", "mlp", c.hidden, 32)
    return decoder(c, gqa.uniform(c, spans=window_everywhere(c)), gated(c, bias=False), per_layer=lambda _: delay)


@family("hyperclovax")
def hyperclovax(c: Config) -> Stack:
    """Llama, by a switch with norms behind its blocks too."""
    return decoder(c, gqa.uniform(c, biases=biased(c)), gated(c), norms=4 if c.flag("use_post_norm") else 2)


@family("muse_glimmer_text")
def muse_glimmer(c: Config) -> Stack:
    """A gate on the output, norms of q and k without parameters; full attention on every fourth layer, counted from the last."""
    query, _, dim = gqa.heads(c)
    gate = linear("gate_proj", "attention", query * dim, c.hidden)
    windows = spans(c, layer_types(c, c.layers, every(4, -c.layers)))
    return decoder(c, gqa.uniform(c, biases=biased(c), spans=windows, extra=gate), gated(c, bias=False), norms=4)


@family("molmo2_text")
def molmo2(c: Config) -> Stack:
    """Qwen3 with further rows of the table for image tokens, which the head lacks."""
    kinds: dict[str, Literal["head", "full"]] = {"qwen3": "head", "olmo": "full"}
    kind = c.text("qk_norm_type")
    if kind not in kinds:
        raise c.fail("qk_norm_type", kind, "qwen3 or olmo")
    c.dismiss("norm_after")  # moves the norms, adds none
    stack = decoder(c, gqa.uniform(c, biases=biased(c, "qkv"), qk_norm=kinds[kind]), gated(c, bias=False))
    rows = stack.vocab + c.count("additional_vocab_size", least=0)
    return replace(stack, embedding=(Weight("embed_tokens", "embedding", rows, stack.hidden),))


@family("chameleon")
def chameleon(c: Config) -> Stack:
    """Llama with LayerNorms on the heads of q and k, each head with vectors of its own. swin_norm moves the norms."""
    query, kv, dim = gqa.heads(c)
    c.dismiss("swin_norm")
    extra = tuple(
        Weight(f"{name}{half}", "norms", number, dim) for name, number in (("q_norm", query), ("k_norm", kv)) for half in ("", ".bias")
    )
    return decoder(c, gqa.uniform(c, biases=biased(c), extra=extra), gated(c))


@family("arcee", "jais2", "cosmos3_edge_text")
def arcee(c: Config) -> Stack:
    """Llama with a squared-ReLU MLP of two matrices; Jais 2 normalises with a bias."""
    style: NormStyle = "layer" if c.model_type == "jais2" else "rms"
    return decoder(c, gqa.uniform(c, biases=biased(c)), gated(c, gate=False), norm_style=style)


@family("qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text")
def qwen2(c: Config) -> Stack:
    """Biases on q, k and v."""
    return decoder(c, gqa.uniform(c, biases="qkv", spans=window_from_layer(c)), gated(c, bias=False))


@family("qwen3", "qwen3_vl_text", "qwen3_asr_text")
def qwen3(c: Config) -> Stack:
    """Norms on the heads of q and k."""
    return decoder(c, gqa.uniform(c, biases=biased(c), qk_norm="head", spans=window_from_layer(c)), gated(c, bias=False))


@family("seed_oss")
def seed_oss(c: Config) -> Stack:
    """The output projection has a switch of its own for the bias."""
    out = "o" if c.flag("attention_out_bias") else ""
    return decoder(c, gqa.uniform(c, biases=biased(c, "qkv") + out), gated(c))


@family("ernie4_5", "paddleocr_vl_text")
def ernie(c: Config) -> Stack:
    """One switch for every bias."""
    bias = c.flag("use_bias")
    return decoder(c, gqa.uniform(c, biases="qkvo" if bias else ""), gated(c, bias=bias))


@family("exaone")
def exaone(c: Config) -> Stack:
    """EXAONE 3: Llama under older names."""
    return decoder(c, gqa.uniform(c, biases=biased(c)), gated(c), layers=c.count("num_hidden_layers", "num_layers", most=MOST_LAYERS))


@family("exaone4", "exaone4_5_text")
def exaone4(c: Config) -> Stack:
    """Head norms, norms after each block, and windows by a pattern such as LLLG. No class builds EXAONE 4.5's prediction layer."""
    if c.model_type == "exaone4_5_text":
        c = c.seen_as("exaone4")
    ahead = c.maybe("num_nextn_predict_layers", least=0, most=64)
    pattern = c.get("sliding_window_pattern")
    if isinstance(pattern, str):
        if not pattern or set(pattern) - set("LG"):
            raise c.fail("sliding_window_pattern", pattern, "a text of L and G")
        types = layer_types(
            c, c.layers, lambda i: "sliding_attention" if pattern[i % len(pattern)] == "L" and i < c.layers - 1 else "full_attention"
        )
        windows = spans(c, types if c.maybe("sliding_window") else ["full_attention"] * c.layers)
    else:
        windows = window_by_type(c, 4)
    notes = ("the checkpoint's multi-token-prediction layer is not counted",) if ahead else ()
    return decoder(c, gqa.uniform(c, qk_norm="head", spans=windows), gated(c, bias=False), notes=notes)


@family("hunyuan_v1_dense", "hunyuan_vl_text")
def hunyuan(c: Config) -> Stack:
    """Head norms on q and k."""
    return decoder(c, gqa.uniform(c, biases=biased(c), qk_norm="head"), gated(c, bias=False))


@family("nanochat")
def nanochat(c: Config) -> Stack:
    """Norms without parameters, a squared-ReLU MLP."""
    return decoder(c, gqa.uniform(c, biases=biased(c)), gated(c, bias=False, gate=False), norm_style="none")


@family("apertus", "apertus1p5_text")
def apertus(c: Config) -> Stack:
    """xIELU: two learned numbers per MLP."""
    if not c.flag("qk_norm", default=True):
        raise c.fail("qk_norm", False, "true")
    numbers = (Weight("act_fn.alpha_p", "mlp", 1), Weight("act_fn.alpha_n", "mlp", 1))
    stack = decoder(c, gqa.uniform(c, biases=biased(c), qk_norm="head"), gated(c, gate=False, bias=False), per_layer=lambda _: numbers)
    rows = c.maybe("output_vocab_size") if c.model_type == "apertus1p5_text" else None
    return replace(stack, head=linear("lm_head", "head", rows, c.hidden)) if rows else stack  # without the image and audio codes


@family("diffllama")
def diffllama(c: Config) -> Stack:
    """Differential attention: four vectors of head_dim per layer."""
    dim = gqa.heads(c)[2]
    lambdas = tuple(Weight(f"lambda_{name}", "attention", dim) for name in ("q1", "k1", "q2", "k2"))
    return decoder(c, gqa.uniform(c, biases=biased(c), extra=lambdas), gated(c, bias=False))


@family("doge")
def doge(c: Config) -> Stack:
    """Dynamic mask attention: a decay per KV head, and learned residual weights."""
    if c.flag("is_moe"):
        raise c.fail("is_moe", True, "false: the mixture of cross-domain experts is not read")
    c.dismiss("num_experts", "num_experts_per_tok")
    _, kv, dim = gqa.heads(c)
    mask = (Weight("A", "attention", kv), *linear("dt_proj", "attention", kv, kv * dim, c.flag("attention_bias")))
    residuals = tuple(Weight(name, "norms", c.hidden) for name in ("input_residual", "post_attention_residual"))
    windows = window_everywhere(c)
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), qk_norm="head", extra=mask, spans=windows),
        gated(c),
        per_layer=lambda _: residuals,
    )


@family("olmo")
def olmo(c: Config) -> Stack:
    """Norms without parameters."""
    return decoder(c, gqa.uniform(c, biases=biased(c)), gated(c, bias=False), norm_style="none")


@family("olmo2", "olmo3")
def olmo2(c: Config) -> Stack:
    """Norms over the whole width of q and k, and after each block."""
    windows = window_by_type(c, 4) if c.model_type == "olmo3" else None
    return decoder(c, gqa.uniform(c, biases=biased(c), qk_norm="full", spans=windows), gated(c, bias=False))


@family("cohere", "cohere2", "cohere_compass_text")
def cohere(c: Config) -> Stack:
    """Attention and MLP in parallel behind one norm without a bias."""
    windows = window_by_type(c, 4) if c.model_type == "cohere2" else None
    if c.model_type == "cohere_compass_text":
        windows = window_by_type(c, 1)
    query, kv, dim = gqa.heads(c)
    extra: tuple[Weight, ...] = ()
    if c.model_type == "cohere" and c.flag("use_qk_norm"):
        extra = (Weight("q_norm", "norms", query, dim), Weight("k_norm", "norms", kv, dim))
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c), spans=windows, extra=extra),
        gated(c, bias=False),
        norm_style="layer-nobias",
        norms=1,
    )


@family("stablelm")
def stablelm(c: Config) -> Stack:
    """LayerNorms with a bias; one per layer where the blocks run in parallel; optional norms per head."""
    query, kv, dim = gqa.heads(c)
    extra: tuple[Weight, ...] = ()
    if c.flag("qk_layernorm"):
        extra = (Weight("q_layernorm", "norms", query, dim), Weight("k_layernorm", "norms", kv, dim))
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c, "qkv", "use_qkv_bias"), extra=extra),
        gated(c, bias=False),
        norm_style="layer",
        norms=(lambda _: 1) if c.flag("use_parallel_residual") else 2,
    )


@family("starcoder2")
def starcoder2(c: Config) -> Stack:
    """LayerNorms, biases everywhere, an MLP of two matrices."""
    bias = c.flag("use_bias")
    if c.text("norm_type", default="layer_norm") != "layer_norm":
        raise c.fail("norm_type", c.get("norm_type"), '"layer_norm"')
    return decoder(
        c,
        gqa.uniform(c, biases="qkvo" if bias else "", spans=window_everywhere(c)),
        gated(c, bias=bias, gate=False),
        norm_style="layer",
    )


@family("phi")
def phi(c: Config) -> Stack:
    """Phi-1 and 2: blocks in parallel behind one norm, biases everywhere, also on the head."""
    _, _, dim = gqa.heads(c)
    extra: tuple[Weight, ...] = ()
    if c.flag("qk_layernorm"):
        extra = tuple(Weight(f"{name}.{half}", "norms", dim) for name in ("q_norm", "k_norm") for half in ("weight", "bias"))
    return decoder(
        c,
        gqa.uniform(c, biases="qkvo", extra=extra),
        gated(c, bias=True, gate=False),
        norm_style="layer",
        norms=1,
        head_bias=True,
    )


@family("phi3", "phi4_multimodal")
def phi3(c: Config) -> Stack:
    """Phi-3 and 4: Llama with fused projections."""
    c.dismiss("attention_bias", "mlp_bias")  # in the file, not in the class
    if c.maybe("full_attn_mod") not in (None, 1):
        raise c.fail("full_attn_mod", c.get("full_attn_mod"), "1: every layer attends alike")
    return decoder(c, gqa.uniform(c, spans=window_everywhere(c)), gated(c, bias=False))


@family("glm", "glm4", "glm4v_text", "glm_ocr_text")
def glm(c: Config) -> Stack:
    """Biases on q, k and v by attention_bias; GLM-4-0414 has two more norms."""
    fixed = {"glm4v_text": "qkv", "glm_ocr_text": ""}.get(c.model_type)  # these classes have no switch
    if fixed is not None:
        c.dismiss("attention_bias")
    return decoder(
        c,
        gqa.uniform(c, biases=biased(c, "qkv") if fixed is None else fixed),
        gated(c, bias=False),
        norms=2 if c.model_type == "glm" else 4,
    )


@family("persimmon")
def persimmon(c: Config) -> Stack:
    """LayerNorms, biases everywhere, norms with a bias on the heads of q and k."""
    c.dismiss("num_key_value_heads", "head_dim")  # its class is always MHA
    query = c.count("num_attention_heads")
    dim = gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query)
    extra: tuple[Weight, ...] = ()
    if c.flag("qk_layernorm"):
        extra = tuple(Weight(f"{name}.{half}", "norms", dim) for name in ("q_norm", "k_norm") for half in ("weight", "bias"))
    block = gqa.build(c.hidden, query, query, dim, biases="qkvo", extra=extra)
    return decoder(c, lambda _: block, gated(c, bias=True, gate=False), norm_style="layer")


@family("nemotron")
def nemotron(c: Config) -> Stack:
    """LayerNorm1p, a squared-ReLU MLP of two matrices."""
    return decoder(c, gqa.uniform(c, biases=biased(c)), gated(c, gate=False), norm_style="layer")


@family("bitnet")
def bitnet(c: Config) -> Stack:
    """Two more norms inside the blocks, of the widths of the attention output and the MLP."""
    query, _, dim = gqa.heads(c)
    inner = (Weight("attn_sub_norm", "norms", query * dim), Weight("ffn_sub_norm", "norms", c.count("intermediate_size")))
    return decoder(c, gqa.uniform(c, biases=biased(c)), gated(c, bias=False), per_layer=lambda _: inner)


@family("mllama_text_model")
def mllama(c: Config) -> Stack:
    """Llama 3.2 Vision: some layers attend to the image alone, with gates; their cache is per image, not per token."""
    query, kv, dim = gqa.heads(c)
    listed = c.counts("cross_attention_layers")
    cross = set(range(3, 39, 5) if listed is None else listed)
    plain = gqa.uniform(c)
    gates = (Weight("cross_attn_attn_gate", "attention", 1), Weight("cross_attn_mlp_gate", "mlp", 1))
    image = gqa.build(c.hidden, query, kv, dim, qk_norm=(dim, dim), source_tokens=0, extra=gates)
    per_tile = 2 * kv * dim * sum(layer < c.layers for layer in cross)
    stack = decoder(
        c,
        lambda layer: image if layer in cross else plain(layer),
        gated(c, bias=False),
        notes=(f"no image counted: each tile of 1,601 tokens adds {1601 * per_tile:,} elements to the cache of a sequence",),
    )
    # The table has 8 rows for images that the head has not.
    return replace(stack, embedding=(Weight("embed_tokens", "embedding", stack.vocab + 8, stack.hidden),))
