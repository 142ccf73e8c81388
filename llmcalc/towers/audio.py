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


def _conformer(width: int, dim: int, kernel: int) -> Weights:
    """Gemma's layer: two MLPs around attention and a depthwise convolution."""
    feed = lin("ffw_layer_1", 4 * width, width, False) + lin("ffw_layer_2", width, 4 * width, False)
    feed += rms("pre_layer_norm", "post_layer_norm", width=width)
    attend = attention(width, biases="", out="post") + lin("relative_k_proj", width, width, False)
    convolve = (
        lin("lconv1d.linear_start", 2 * width, width, False)
        + lin("lconv1d.linear_end", width, width, False)
        + table("lconv1d.depthwise_conv1d", width, kernel)
        + rms("lconv1d.pre_layer_norm", "lconv1d.conv_norm", width=width)
    )
    norms = rms("norm_pre_attn", "norm_post_attn", "norm_out", width=width)
    return repeat(2, feed) + attend + vec("per_dim_scale", dim) + convolve + norms


def _subsampling(c: Config, key: str, width: int, area: tuple[int, int], bands: int) -> Weights:
    """Two convolutions over the spectrum, of which `bands` are left, and a matrix."""
    stages = c.counts(key, least=1) or []
    if len(stages) != 2:
        raise c.fail(key, stages, "a list of two")
    first, second = stages
    return (
        lin("subsample.conv0", first, area[0], False)
        + vec("subsample.norm0", first)
        + lin("subsample.conv1", second, area[1] * first, False)
        + vec("subsample.norm1", second)
        + lin("subsample.input_proj_linear", width, bands * second, False)
    )


def gemma4(c: Config) -> Encoder:
    """A conformer behind two strided convolutions."""
    width = c.hidden
    dim = heads(c, width, "num_attention_heads")
    c.dismiss("attention_chunk_size")  # which frames see which
    bands = (c.counts("subsampling_conv_channels", least=1) or [0])[0] // 4
    weights = _subsampling(c, "subsampling_conv_channels", width, (9, 9), bands)
    weights += repeat(c.layers, _conformer(width, dim, c.count("conv_kernel_size")))
    out = c.count("output_proj_dims")
    return Encoder(within("audio", weights + lin("output_proj", out, width)), out)


def gemma3n(c: Config) -> Encoder:
    """The same conformer, without a projection behind it."""
    width = c.hidden
    dim = heads(c, width, "conf_num_attention_heads")
    kernels, strides = (_squares(c, f"sscp_conv_{word}_size") for word in ("kernel", "stride"))
    bands = c.count("input_feat_size")
    for (_, high), (_, step) in zip(kernels, strides, strict=True):
        bands = max(1, (bands + 2 - high) // step + 1)  # one band is padded on either side
    weights = _subsampling(c, "sscp_conv_channel_size", width, (kernels[0][0] * kernels[0][1], kernels[1][0] * kernels[1][1]), bands)
    weights += repeat(c.count("conf_num_hidden_layers", most=MOST_LAYERS), _conformer(width, dim, c.count("conf_conv_kernel_size")))
    return Encoder(within("audio", weights), width)


def _squares(c: Config, key: str) -> list[tuple[int, int]]:
    """Two pairs of numbers: (time, frequency) of either convolution."""
    found = c.items(key) or []
    if len(found) != 2 or not all(
        isinstance(one, list) and len(one) == 2 and all(type(n) is int and 0 < n < 100 for n in one) for one in found
    ):
        raise c.fail(key, found, "two pairs of small numbers")
    return [(one[0], one[1]) for one in found]
