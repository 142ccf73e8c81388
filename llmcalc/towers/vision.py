"""Vision encoders, one function per class of transformers: its config in, its weights and width out."""

from __future__ import annotations

from collections.abc import Callable

from llmcalc.config import MOST_LAYERS, Config
from llmcalc.towers.parts import (
    Encoder,
    Unread,
    Weights,
    area,
    attention,
    channels,
    either,
    fused,
    glu,
    heads,
    lin,
    ln,
    mlp,
    patches,
    repeat,
    rms,
    table,
    vec,
    within,
)


def _layers(c: Config, *names: str) -> int:
    return either(c, *(names or ("num_hidden_layers",)), most=MOST_LAYERS)


def _plain(c: Config) -> tuple[int, Weights]:
    """The width, and the pre-norm layers with biases everywhere that CLIP, SigLIP and their kin share."""
    width = c.hidden
    heads(c, width, "num_attention_heads")
    block = attention(width) + mlp(width, c.count("intermediate_size")) + ln("layer_norm1", "layer_norm2", width=width)
    return width, repeat(_layers(c), block)


def clip(c: Config) -> Encoder:
    """A class token, norms before and after, no bias on the patches."""
    width, layers = _plain(c)
    front = (
        vec("class_embedding", width)
        + lin("patch_embedding", width, c.count("num_channels") * area(c, "patch_size"), bias=False)
        + table("position_embedding", patches(c) + 1, width)
    )
    return Encoder(front + layers + ln("pre_layrnorm", "post_layernorm", width=width), width)


def _pooling_head(c: Config, width: int) -> Weights:
    """SigLIP's attention pooling: a probe that attends once."""
    return within(
        "vision",
        vec("head.probe", width)
        + lin("head.in_proj", 3 * width, width)
        + lin("head.out_proj", width, width)
        + mlp(width, c.count("intermediate_size"))
        + ln("head.layernorm", width=width),
    )


def siglip(c: Config, *, head: bool | None = None) -> Encoder:
    """No class token; a pooling head unless vision_use_head is off (most wrappers never call it, and still hold it)."""
    width, layers = _plain(c)
    c.dismiss("num_patches")  # PaliGemma's files have it; the class divides
    front = lin("patch_embedding", width, c.count("num_channels") * area(c, "patch_size")) + table("position_embedding", patches(c), width)
    pooled = _pooling_head(c, width) if (c.flag("vision_use_head") if head is None else head) else ()
    return Encoder(front + layers + ln("post_layernorm", width=width) + pooled, width)


def idefics(c: Config) -> Encoder:
    """Idefics 2 and 3, SmolVLM: SigLIP without a pooling head."""
    return siglip(c, head=False)


def siglip2(c: Config) -> Encoder:
    """Any aspect ratio: the position table has num_patches rows, whatever the image."""
    width, layers = _plain(c)
    c.dismiss("image_size")
    front = lin("patch_embedding", width, c.count("num_channels") * area(c, "patch_size")) + table(
        "position_embedding", c.count("num_patches"), width
    )
    pooled = _pooling_head(c, width) if c.flag("vision_use_head") else ()
    return Encoder(front + layers + ln("post_layernorm", width=width) + pooled, width)


def video_llama3(c: Config) -> Encoder:
    """SigLIP with rotary positions."""
    width, layers = _plain(c)
    c.dismiss("image_size")
    front = lin("patch_embedding", width, c.count("num_channels") * area(c, "patch_size"))
    return Encoder(front + layers + ln("post_layernorm", width=width), width)


def pixtral(c: Config) -> Encoder:
    """A Llama without biases over patches; rotary positions."""
    width = c.hidden
    heads(c, width, "num_attention_heads")
    c.dismiss("image_size", "head_dim")  # head_dim is derived by the class
    block = (
        attention(width, biases="", out="o_proj")
        + glu(width, c.count("intermediate_size"))
        + rms("attention_norm", "ffn_norm", width=width)
    )
    front = lin("patch_conv", width, c.count("num_channels") * area(c, "patch_size"), bias=False)
    return Encoder(front + rms("ln_pre", width=width) + repeat(_layers(c), block), width)


def deepseek_v41(c: Config) -> Encoder:
    """Norms of one vector, biases in the attention alone, a gated MLP; rotary positions."""
    width = c.hidden
    heads(c, width, "num_attention_heads")
    block = attention(width) + glu(width, c.count("intermediate_size")) + rms("norm1", "norm2", width=width)
    front = lin("patch_embed", width, 3 * area(c, "patch_size")) + rms("norm", width=width)
    return Encoder(front + repeat(_layers(c), block), width)


def llama4(c: Config) -> Encoder:
    """CLIP-like, with an adapter of two matrices behind the pixel shuffle."""
    width, inner = c.hidden, c.count("intermediate_size")
    heads(c, width, "num_attention_heads")
    c.dismiss("multi_modal_projector_bias")  # the class has it, the model does not read it
    block = attention(width, out="o_proj") + mlp(width, inner) + ln("input_layernorm", "post_attention_layernorm", width=width)
    out = c.count("projector_output_dim")
    return Encoder(
        lin("patch_embedding", width, c.count("num_channels") * area(c, "patch_size"), bias=False)
        + vec("class_embedding", width)
        + table("positional_embedding_vlm", patches(c) + 1, width)
        + ln("layernorm_pre", "layernorm_post", width=width)
        + repeat(_layers(c), block)
        + lin("vision_adapter.fc1", c.count("projector_input_dim"), inner, bias=False)
        + lin("vision_adapter.fc2", out, out, bias=False),
        c.count("vision_output_dim"),
    )


def mllama(c: Config) -> Encoder:
    """Tiles: position tables per aspect ratio, and further gated layers across tiles."""
    width, tiles, places = c.hidden, c.count("max_num_tiles"), patches(c) + 1
    heads(c, width, "attention_heads", "num_attention_heads")
    ratios = c.items("supported_aspect_ratios")
    shapes = (8 if ratios is None else len(ratios)) + 1  # the class's own list has 8
    block = (
        attention(width, biases="", out="o_proj")
        + mlp(width, c.count("intermediate_size"))
        + ln("input_layernorm", "post_attention_layernorm", width=width)
    )
    gates = vec("gate_attn", 1) + vec("gate_ffn", 1)
    tile = vec("tile_positional_embedding.gate", 1) + table("tile_positional_embedding", shapes, tiles * width)
    return Encoder(
        lin("patch_embedding", width, c.count("num_channels") * area(c, "patch_size"), bias=False)
        + vec("class_embedding", width)
        + vec("gated_positional_embedding.gate", 1)
        + table("gated_positional_embedding", places, width)
        + table("gated_positional_embedding.tile_embedding", shapes, tiles * places * width)
        + repeat(2, tile)
        + ln("layernorm_pre", "layernorm_post", width=width)
        + repeat(_layers(c), block)
        + repeat(c.count("num_global_layers", least=0, most=MOST_LAYERS), block + gates),
        c.count("vision_output_dim"),
    )


def internvl(c: Config) -> Encoder:
    """Layer scales; optional biases, norms on q and k, mask token, position table and final norm."""
    width = c.hidden
    heads(c, width, "num_attention_heads")
    style = {"layer_norm": ln, "rms_norm": rms}.get(c.text("norm_type"))
    if style is None:
        raise c.fail("norm_type", c.get("norm_type"), "layer_norm or rms_norm")
    block = (
        attention(width, biases="qkvo" if c.flag("attention_bias") else "o", out="projection_layer")
        + (rms("q_norm", "k_norm", width=width) if c.flag("use_qk_norm") else ())
        + mlp(width, c.count("intermediate_size"))
        + style("layernorm_before", "layernorm_after", width=width)
        + vec("lambda_1", width)
        + vec("lambda_2", width)
    )
    front = vec("cls_token", width) + lin("patch_embeddings", width, c.count("num_channels") * area(c, "patch_size"))
    if c.flag("use_mask_token"):
        front += vec("mask_token", width)
    places = patches(c) + 1
    if c.flag("use_absolute_position_embeddings"):
        front += table("position_embeddings", places, width)
    last = () if c.flag("use_mean_pooling") else ln("layernorm", width=width)
    return Encoder(front + repeat(_layers(c), block) + last, width)


def moonvit(c: Config) -> Encoder:
    """Kimi-K2.5. The published files write vt_ before the keys that transformers' class names without."""
    kind = c.text("mm_projector_type", default="patchmerger")
    if kind != "patchmerger":
        raise Unread(f"{c.path} has the projector {kind}")
    width = either(c, "vt_hidden_size", "hidden_size")
    heads(c, width, "vt_num_attention_heads", "num_attention_heads")
    block = (
        attention(width, out="proj")
        + mlp(width, either(c, "vt_intermediate_size", "intermediate_size"))
        + ln("norm1", "norm2", width=width)
    )
    rows = either(c, "init_pos_emb_height", "pos_emb_height") * either(c, "init_pos_emb_width", "pos_emb_width")
    return Encoder(
        lin("patch_embed.proj", width, 3 * area(c, "patch_size"))
        + table("patch_embed.pos_emb", rows, width)
        + repeat(_layers(c, "vt_num_hidden_layers", "num_hidden_layers"), block)
        + ln("final_layernorm", width=width),
        width,
    )


def moonvit_3(c: Config) -> Encoder:
    """Kimi-K3: RMSNorms, no biases unless a switch says so, attention of a width of its own."""
    must = {"mm_projector_type": "patchmergerv2", "norm_type": "rmsnorm", "mlp_type": "mlp2"}
    for key, value in must.items():
        if c.text(key, default=value) != value:
            raise Unread(f"{c.path} has the {key} {c.get(key)}")
    width, query = c.count("vt_hidden_size"), c.count("qkv_hidden_size")
    heads(c, query, "vt_num_attention_heads")
    bias = c.flag("linear_bias")
    block = (
        attention(width, query=query, biases="qkvo" if c.flag("attn_bias") else "", out="proj")
        + mlp(width, c.count("vt_intermediate_size"), bias)
        + rms("norm1", "norm2", width=width)
    )
    return Encoder(
        lin("patch_embed.proj", width, 3 * area(c, "patch_size"), c.flag("patch_embed_proj_bias"))
        + table("patch_embed.pos_emb", c.count("init_pos_emb_height") * c.count("init_pos_emb_width"), width)
        + repeat(_layers(c, "vt_num_hidden_layers"), block)
        + rms("final_layernorm", width=width),
        width,
    )


def _volume(c: Config) -> int:
    """Numbers in one patch of video: frames by pixels by colours."""
    frames = c.count("temporal_patch_size")
    return frames * area(c, "patch_size") * channels(c)


def _merger(c: Config, width: int, out: int, style: Callable[..., Weights]) -> Weights:
    """Qwen-VL: neighbouring patches side by side, then two matrices to the width of the text."""
    inner = width * c.count("spatial_merge_size") ** 2
    merged = style("merger.ln_q", width=width) + lin("merger.fc1", inner, inner) + lin("merger.fc2", out, inner)
    return within("projector", merged)


def qwen2_vl(c: Config) -> Encoder:
    """Its own width is embed_dim; hidden_size is the text's."""
    width, out = c.count("embed_dim"), c.hidden
    heads(c, width, "num_heads", "num_attention_heads")
    block = fused(width) + mlp(width, int(width * c.number("mlp_ratio"))) + ln("norm1", "norm2", width=width)
    front = lin("patch_embed.proj", width, _volume(c), bias=False)
    depth = _layers(c, "depth", "num_hidden_layers")
    return Encoder(front + repeat(depth, block) + _merger(c, width, out, ln), out)


def qwen2_5_vl(c: Config) -> Encoder:
    """RMSNorm and SwiGLU with biases; EXAONE 4.5 has fewer heads of k and v."""
    width, out = c.hidden, c.count("out_hidden_size")
    head = heads(c, width, "num_heads", "num_attention_heads")
    kv = c.count("num_key_value_heads") * head if c.model_type == "exaone4_5_vision" else None
    block = fused(width, kv=kv) + glu(width, c.count("intermediate_size"), True) + rms("norm1", "norm2", width=width)
    front = lin("patch_embed.proj", width, _volume(c), bias=False)
    depth = _layers(c, "depth", "num_hidden_layers")
    return Encoder(front + repeat(depth, block) + _merger(c, width, out, rms), out)


def qwen3_vl(c: Config) -> Encoder:
    """A position table, and one more merger per layer that deepstack taps (Qwen3.5: none, whatever its file says)."""
    width, out = c.hidden, c.count("out_hidden_size")
    heads(c, width, "num_heads", "num_attention_heads")
    block = fused(width) + mlp(width, c.count("intermediate_size")) + ln("norm1", "norm2", width=width)
    taps = len(c.counts("deepstack_visual_indexes") or ())
    if c.model_type in ("qwen3_5_vision", "qwen3_5_moe_vision"):
        taps = 0
    inner = width * c.count("spatial_merge_size") ** 2
    tap = ln("deepstack.norm", width=inner) + lin("deepstack.fc1", inner, inner) + lin("deepstack.fc2", out, inner)
    return Encoder(
        lin("patch_embed.proj", width, _volume(c))
        + table("pos_embed", c.count("num_position_embeddings"), width)
        + repeat(_layers(c, "depth", "num_hidden_layers"), block)
        + _merger(c, width, out, ln)
        + within("projector", repeat(taps, tap)),
        out,
    )


def glm4v(c: Config) -> Encoder:
    """The MLP's width is out_hidden_size; intermediate_size is the merger's."""
    width, out = c.hidden, c.count("out_hidden_size")
    heads(c, width, "num_heads", "num_attention_heads")
    block = fused(width, bias=c.flag("attention_bias"), out_bias=False) + glu(width, out) + rms("norm1", "norm2", width=width)
    merger = (
        lin("downsample", out, width * c.count("spatial_merge_size") ** 2)
        + lin("merger.proj", out, out, bias=False)
        + ln("merger.post_projection_norm", width=out)
        + glu(out, c.count("intermediate_size"))
    )
    return Encoder(
        lin("patch_embed.proj", width, _volume(c))
        + table("position_embedding", patches(c), width)
        + rms("post_conv_layernorm", "post_layernorm", width=width)
        + repeat(_layers(c, "depth", "num_hidden_layers"), block)
        + within("projector", merger),
        out,
    )


def minimax_m3(c: Config) -> Encoder:
    """CLIP's layers over patches of video, rotary positions."""
    width, layers = _plain(c)
    c.dismiss("image_size")
    volume = m3_merge(c, "temporal_patch_size") * area(c, "patch_size") * c.count("num_channels")
    front = lin("patch_embedding", width, volume, bias=False)
    return Encoder(front + ln("pre_layrnorm", width=width) + layers, width)


def m3_merge(c: Config, key: str) -> int:
    """The published file writes these in a block of their own; the class does not look there, so the two must agree."""
    number = c.count(key)
    block = c.block("img_token_compression_config")
    other = block.maybe(key) if block else None
    if other is not None and other != number:
        raise Unread(f"{c.path}.img_token_compression_config.{key} is {other}")
    return number


def ernie(c: Config) -> Encoder:
    """Qwen2-VL without the merger: frames and patches are joined by the resampler."""
    width = c.hidden
    heads(c, width, "num_heads", "num_attention_heads")
    block = fused(width) + mlp(width, c.count("intermediate_size")) + ln("norm1", "norm2", width=width)
    front = lin("patch_embed.proj", width, channels(c) * area(c, "patch_size"), bias=False)
    depth = _layers(c, "depth", "num_hidden_layers")
    return Encoder(front + repeat(depth, block) + ln("ln", width=width), width)


def step3(c: Config) -> Encoder:
    """Layer scales, and two strided convolutions that double the width."""
    width = either(c, "width", "hidden_size")
    heads(c, width, "heads", "num_attention_heads")
    c.dismiss("intermediate_size")  # overwritten by the class
    block = (
        attention(width)
        + mlp(width, int(width * c.number("mlp_ratio")))
        + ln("layernorm_before", "layernorm_after", width=width)
        + vec("lambda_1", width)
        + vec("lambda_2", width)
    )
    return Encoder(
        lin("patch_embedding", width, c.count("num_channels") * area(c, "patch_size"), bias=False)
        + table("position_embedding", patches(c), width)
        + ln("pre_layernorm", width=width)
        + repeat(_layers(c, "layers", "num_hidden_layers"), block)
        + lin("downsampler1", 2 * width, 9 * width)
        + lin("downsampler2", 4 * width, 9 * 2 * width),
        4 * width,
    )


def gemma4(c: Config) -> Encoder:
    """Gemma's own block with norms on q and k; one position table per axis."""
    width, dim = c.hidden, c.count("head_dim")
    query, kv = c.count("num_attention_heads") * dim, c.count("num_key_value_heads") * dim
    c.dismiss("attention_bias", "global_head_dim")  # the class has no bias; every layer has head_dim
    c.dismiss("pooling_kernel_size")  # averages
    norms = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    block = (
        attention(width, query=query, kv=kv, biases="", out="o_proj")
        + rms("q_norm", "k_norm", width=dim)
        + glu(width, c.count("intermediate_size"))
        + rms(*norms, width=width)
    )
    side = c.count("patch_size")
    return Encoder(
        lin("patch_embedder.input_proj", width, 3 * side * side, bias=False)
        + table("patch_embedder.position_embedding_table", 2 * c.count("position_embedding_size"), width)
        + repeat(_layers(c), block),
        width,
    )


def gemma4_unified(c: Config) -> Encoder:
    """No encoder: patches go through one matrix and three norms."""
    inner = (c.count("patch_size") * c.count("pooling_kernel_size")) ** 2 * 3
    width = c.count("mm_embed_dim")
    return Encoder(
        ln("patch_ln1", width=inner)
        + lin("patch_dense", width, inner)
        + ln("patch_ln2", "pos_norm", width=width)
        + table("pos_embedding", 2 * c.count("mm_posemb_size"), width),
        c.count("output_proj_dims"),
    )


# Of the wrappers that take any encoder: by the model_type of vision_config.
ENCODERS: dict[str, Callable[[Config], Encoder]] = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "siglip2_vision_model": siglip2,
    "pixtral": pixtral,
    "internvl_vision": internvl,
    "idefics3_vision": idefics,
    "glm4v_vision": glm4v,
    "glm4v_moe_vision": glm4v,
    "video_llama_3_vision": video_llama3,
}


def any_encoder(c: Config) -> Encoder:
    """Whichever encoder the config names."""
    build = ENCODERS.get(c.model_type)
    if build is None:
        raise Unread(f"{c.path} is a {c.model_type or 'tower without a model_type'}")
    return build(c)
