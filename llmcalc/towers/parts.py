"""What towers are built of: blocks of weights, and the nested config of a tower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from llmcalc.architecture import Part, Weight
from llmcalc.config import MOST, Config, class_defaults

Weights = tuple[Weight, ...]

# Every key that a tower or its projector asks for; scripts/class_defaults.py keeps their defaults.
TOWER_KEYS: frozenset[str] = frozenset(
    """
attn_bias linear_bias mlp_type patch_embed_proj_bias qkv_hidden_size
alignment_intermediate_size attention_bias attention_heads audio_embed_dim conf_conv_kernel_size
conf_num_attention_heads conf_num_hidden_layers conv_kernel_size d_model input_feat_size
deepstack_visual_indexes depth downsample_factor downsample_hidden_size downsample_ratio embed_dim
encoder_attention_heads encoder_ffn_dim encoder_layers head_dim heads hidden_size image_size
img_token_compression_config in_channels in_chans init_pos_emb_height init_pos_emb_width intermediate_size layers
max_num_tiles max_source_positions merge_kernel_size mlp_ratio mm_embed_dim mm_hidden_size mm_posemb_size
mm_projector_type multimodal_projector_bias norm_type num_attention_heads num_channels num_global_layers num_heads
num_hidden_layers num_key_value_heads num_mel_bins num_patches num_position_embeddings out_hidden_size output_dim
output_proj_dims patch_size perceiver_config pooling_kernel_size pos_emb_height pos_emb_width position_embedding_size
projection_dim projection_hidden_size projector_bias projector_hidden_size projector_input_dim projector_output_dim
projector_use_layernorm resampler_depth resampler_head_dim resampler_n_heads resampler_n_latents scale_factor
spatial_merge_size spatial_pool_mode sscp_conv_channel_size
sscp_conv_kernel_size sscp_conv_stride_size subsampling_conv_channels supported_aspect_ratios temporal_merge_size
temporal_patch_size text_hidden_size use_absolute_position_embeddings use_mask_token use_mean_pooling use_qk_norm
vision_feature_layer vision_output_dim vision_use_head vt_hidden_size vt_intermediate_size vt_num_attention_heads
vt_num_hidden_layers width
""".split()
)

# CLIP's contrastive head and which layers are handed on: in tower configs, without a meaning for the tower.
NOISE = frozenset(("projection_dim", "vision_feature_layer"))


class Unread(Exception):
    """A tower whose shape is not read; the message says which and why."""


class Encoder(NamedTuple):
    """An encoder's weights, and the width of what it hands to the projector."""

    weights: Weights
    width: int


def nested(outer: Config, key: str, kind: str | None = None, *, auto: bool = False) -> Config | None:
    """The config of a part; where the file has none, the one that the wrapper's class makes (None: it makes none).

    `auto`: the part's own model_type says what it is. Elsewhere the wrapper fixes it, whatever the file says.
    """
    facts = class_defaults().get(outer.model_type, {})
    kind = kind or facts.get("parts", {}).get(key)
    raw = outer.get(key)
    if raw is None:
        if key not in facts.get("parts", {}) or kind is None:
            return None
        raw = facts.get("absent", {}).get(key, {})
    if not isinstance(raw, Mapping):
        raise outer.fail(key, raw, "a JSON object")
    given = raw.get("model_type")
    if auto and given:
        if not isinstance(given, str):
            raise outer.fail(f"{key}.model_type", given, "a text")
        kind = given
    return Config(raw, kind or "", f"{outer.path}.{key}" if outer.path else key)


def needed(outer: Config, key: str, kind: str | None = None, *, auto: bool = False) -> Config:
    """`nested`, where the wrapper cannot be without that part."""
    block = nested(outer, key, kind, auto=auto)
    if block is None:
        raise Unread(f"{key} is missing")
    return block


def all_read(c: Config) -> None:
    """Raises Unread for a shaping key of a tower that nobody read."""
    neutral: tuple[object, ...] = (None, False, 0, "", [], {})
    for key, value in c.raw.items():
        if key in TOWER_KEYS - NOISE - c.used and not any(value is n or value == n for n in neutral):
            raise Unread(f"{c.path}.{key} is not understood")


def either(c: Config, *names: str, least: int = 1, most: int = MOST) -> int:
    """One number under several names, which must agree where the file has more than one."""
    found = {name: c.maybe(name, least=least, most=most) for name in names if c.has(name)}
    value = c.count(*names, least=least, most=most)
    for name, other in found.items():
        if other != value:
            raise c.fail(name, other, f"{value}, as {names[0]} says")
    c.dismiss(*names)
    return value


def pair(c: Config, *names: str) -> tuple[int, int]:
    """A height and a width: one number for both, or a list of two."""
    value = c.get(*names)
    if isinstance(value, list):
        found = c.counts(*names, least=1) or []
        if len(found) != 2:
            raise c.fail(names[0], value, "a number or a list of two")
        return found[0], found[1]
    side = c.count(*names)
    return side, side


def area(c: Config, *names: str) -> int:
    """Pixels of a patch, patches merged into one token, and the like."""
    height, width = pair(c, *names)
    return height * width


def patches(c: Config) -> int:
    """Patches of an image of the largest size."""
    image, patch = pair(c, "image_size"), pair(c, "patch_size")
    return (image[0] // patch[0]) * (image[1] // patch[1])


def channels(c: Config, key: str = "in_channels") -> int:
    """Colours. Qwen's files spell it in_chans, which the class does not read: the two must agree."""
    number = c.count(key)
    other = c.maybe("in_chans")
    if other is not None and other != number:
        raise c.fail("in_chans", other, f"{number}, as {key}")
    return number


def lin(name: str, out: int, into: int, bias: bool = True, part: Part = "vision") -> Weights:
    """A matrix [out, into], by default with a bias."""
    matrix = Weight(name, part, out, into)
    return (matrix, Weight(f"{name}.bias", part, out)) if bias else (matrix,)


def vec(name: str, width: int, part: Part = "vision") -> Weights:
    """One vector."""
    return (Weight(name, part, width),)


def table(name: str, rows: int, width: int, part: Part = "vision") -> Weights:
    """Learned positions or queries."""
    return (Weight(name, part, rows, width),)


def rms(*names: str, width: int, part: Part = "vision") -> Weights:
    """Norms of one vector."""
    return tuple(Weight(name, part, width) for name in names)


def ln(*names: str, width: int, part: Part = "vision") -> Weights:
    """LayerNorms: a weight and a bias."""
    return tuple(Weight(f"{name}{half}", part, width) for name in names for half in ("", ".bias"))


def attention(width: int, *, query: int | None = None, kv: int | None = None, biases: str = "qkvo", out: str = "out_proj") -> Weights:
    """Projections of q, k, v and out; those in `biases` have one."""
    query = width if query is None else query
    kv = query if kv is None else kv
    return (
        lin("q_proj", query, width, "q" in biases)
        + lin("k_proj", kv, width, "k" in biases)
        + lin("v_proj", kv, width, "v" in biases)
        + lin(out, width, query, "o" in biases)
    )


def fused(width: int, *, kv: int | None = None, bias: bool = True, out_bias: bool = True) -> Weights:
    """q, k and v in one matrix."""
    return lin("qkv", width + 2 * (width if kv is None else kv), width, bias) + lin("proj", width, width, out_bias)


def mlp(width: int, inner: int, bias: bool = True) -> Weights:
    """Two matrices."""
    return lin("fc1", inner, width, bias) + lin("fc2", width, inner, bias)


def glu(width: int, inner: int, bias: bool = False, out: int | None = None, part: Part = "vision") -> Weights:
    """Three matrices."""
    return (
        lin("gate_proj", inner, width, bias, part)
        + lin("up_proj", inner, width, bias, part)
        + lin("down_proj", width if out is None else out, inner, bias, part)
    )


def repeat(count: int, weights: Iterable[Weight]) -> Weights:
    """The same block `count` times."""
    return tuple(w._replace(copies=w.copies * count, active=w.active * count) for w in weights) if count else ()


def within(part: Part, weights: Iterable[Weight]) -> Weights:
    """These weights as that part of the model."""
    return tuple(w._replace(part=part) for w in weights)


def heads(c: Config, width: int, *names: str) -> int:
    """Width of one head. Nowhere do heads that do not divide the width make a model."""
    number = either(c, *names)
    if width % number:
        raise Unread(f"{c.path}.{names[0]} {number} does not divide the width {width}")
    return width // number
