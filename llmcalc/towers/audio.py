"""Audio encoders, one function per class of transformers: its config in, its weights and width out."""

from __future__ import annotations

from llmcalc.config import MOST_LAYERS, Config
from llmcalc.towers.parts import (
    Encoder,
    Weights,
    attention,
    either,
    heads,
    lin,
    ln,
    mlp,
    repeat,
    rms,
    table,
    vec,
    within,
)


def _width(c: Config) -> int:
    width = either(c, "d_model", "hidden_size")
    heads(c, width, "encoder_attention_heads", "num_attention_heads")
    c.dismiss("head_dim", "num_key_value_heads")  # in Voxtral's files, not in the class
    return width


def _inner(c: Config) -> int:
    return either(c, "encoder_ffn_dim", "intermediate_size")


def _depth(c: Config) -> int:
    return either(c, "encoder_layers", "num_hidden_layers", most=MOST_LAYERS)


def _layers(c: Config, width: int, biases: str = "qvo") -> Weights:
    block = attention(width, biases=biases) + mlp(width, _inner(c))
    return repeat(_depth(c), block + ln("self_attn_layer_norm", "final_layer_norm", width=width))


def _convolutions(c: Config, width: int) -> Weights:
    """Two of width 3 over the mel spectrum."""
    return lin("conv1", width, 3 * c.count("num_mel_bins")) + lin("conv2", width, 3 * width)


def whisper(c: Config) -> Encoder:
    """Whisper's encoder: no bias on k, a stored position table."""
    width = _width(c)
    weights = (
        _convolutions(c, width)
        + table("embed_positions", c.count("max_source_positions"), width)
        + _layers(c, width)
        + ln("layer_norm", width=width)
    )
    return Encoder(within("audio", weights), width)


def qwen2_5_omni(c: Config) -> Encoder:
    """Whisper with computed positions and a projection of its own."""
    width, out = _width(c), c.count("output_dim")
    c.dismiss("max_source_positions")
    weights = (
        _convolutions(c, width)
        + table("audio_bos_eos_token", 2, out)
        + _layers(c, width)
        + ln("ln_post", width=width)
        + lin("proj", out, width)
    )
    return Encoder(within("audio", weights), out)


def qwen3_audio(c: Config) -> Encoder:
    """Three strided convolutions over the spectrum as an image, biases everywhere."""
    width, inner = _width(c), c.count("downsample_hidden_size")
    c.dismiss("max_source_positions")
    mels = c.count("num_mel_bins")
    for _ in range(3):
        mels = (mels + 1) // 2
    weights = (
        lin("conv2d1", inner, 9)
        + repeat(2, lin("conv2d", inner, 9 * inner))
        + lin("conv_out", width, inner * mels, bias=False)
        + _layers(c, width, "qkvo")
        + ln("ln_post", width=width)
    )
    return Encoder(within("audio", weights), width)


def glm_asr(c: Config) -> Encoder:
    """Whisper with rotary positions."""
    width = c.hidden
    dim = c.maybe("head_dim") or heads(c, width, "num_attention_heads")
    query = c.count("num_attention_heads") * dim
    kv = (c.maybe("num_key_value_heads") or c.count("num_attention_heads")) * dim
    block = attention(width, query=query, kv=kv, biases="qvo", out="o_proj") + mlp(width, c.count("intermediate_size"))
    norms = ln("input_layernorm", "post_attention_layernorm", width=width)
    weights = _convolutions(c, width) + repeat(c.layers, block + norms) + ln("norm", width=width)
    c.dismiss("max_source_positions")
    return Encoder(within("audio", weights), width)


def gemma4(c: Config) -> Encoder:
    """A conformer: two MLPs around attention and a depthwise convolution, behind two strided convolutions."""
    width = c.hidden
    dim = heads(c, width, "num_attention_heads")
    c.dismiss("attention_chunk_size")  # which frames see which
    stages = c.counts("subsampling_conv_channels", least=1) or []
    if len(stages) != 2:
        raise c.fail("subsampling_conv_channels", stages, "a list of two")
    first, second = stages
    feed = lin("ffw_layer_1", 4 * width, width, False) + lin("ffw_layer_2", width, 4 * width, False)
    feed += rms("pre_layer_norm", "post_layer_norm", width=width)
    attend = attention(width, biases="", out="post") + lin("relative_k_proj", width, width, False)
    convolve = (
        lin("lconv1d.linear_start", 2 * width, width, False)
        + lin("lconv1d.linear_end", width, width, False)
        + table("lconv1d.depthwise_conv1d", width, c.count("conv_kernel_size"))
        + rms("lconv1d.pre_layer_norm", "lconv1d.conv_norm", width=width)
    )
    norms = rms("norm_pre_attn", "norm_post_attn", "norm_out", width=width)
    block = repeat(2, feed) + attend + vec("per_dim_scale", dim) + convolve + norms
    out = c.count("output_proj_dims")
    weights = (
        lin("subsample.conv0", first, 9, False)
        + vec("subsample.norm0", first)
        + lin("subsample.conv1", second, 9 * first, False)
        + vec("subsample.norm1", second)
        + lin("subsample.input_proj_linear", width, first // 4 * second, False)
        + repeat(c.layers, block)
        + lin("output_proj", out, width)
    )
    return Encoder(within("audio", weights), out)
