"""Vision and audio towers with their projectors: parameters only, they cache nothing.

One function per wrapper (the outermost model_type): which towers it holds and what joins them to the text. The encoders
are in vision.py and audio.py. A tower that is not read is None with a note, never a guess. To add a wrapper: a function
with @wrapper, the keys it asks for in TOWER_KEYS, and scripts/class_defaults.py run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmcalc.config import FOREIGN, MOST_LAYERS, PARTS, TEXTS, Config, class_defaults
from llmcalc.errors import ConfigError, printable
from llmcalc.families import MODULES
from llmcalc.towers import audio, vision
from llmcalc.towers.parts import (
    TOWER_KEYS,
    Encoder,
    Unread,
    Weights,
    all_read,
    area,
    either,
    glu,
    lin,
    ln,
    needed,
    nested,
    repeat,
    rms,
    table,
    vec,
    within,
)

__all__ = ["TOWER_KEYS", "WRAPPERS", "read"]

Wrapper = Callable[[Config, int], Weights]
WRAPPERS: dict[str, Wrapper] = {}


def read(outer: Config, hidden: int) -> tuple[Weights | None, tuple[str, ...]]:
    """(weights of the towers, notes) of a config whose text is `hidden` wide; None with a note where one is not read.

    Errors (ConfigError): bad-config.
    """
    outer.dismiss(*PARTS)
    wrapped = any(isinstance(outer.raw.get(key), Mapping) for key in (*TEXTS, *PARTS))
    build = WRAPPERS.get(outer.model_type)
    if build is not None and outer.model_type == "step3p7" and not wrapped:
        return None, (_note(outer, "flattened to its text model"),)
    if build is not None:
        if any(isinstance(outer.raw.get(key), Mapping) for key in TEXTS):
            outer.dismiss(*outer.raw)  # keys of the text beside its own block: these classes ignore them
        try:
            weights = build(outer, hidden)
        except Unread as reason:
            return None, (_note(outer, str(reason)),)
        except ConfigError as error:
            if error.code != "missing-field":
                raise
            return None, (_note(outer, error.message),)
        return weights, ()
    made = class_defaults().get(outer.model_type, {}).get("parts", {})
    if made and any(isinstance(outer.raw.get(key), Mapping) for key in TEXTS):
        outer.dismiss(*outer.raw)  # of the towers and their projector
    for key in FOREIGN if outer.model_type in MODULES else (*FOREIGN, *made):  # of a known text, the other parts are its own
        if key not in TEXTS and (outer.raw.get(key) or key in made):
            return None, (_note(outer, key),)
    if any(isinstance(outer.raw.get(key), Mapping) for key in TEXTS) and outer.model_type not in MODULES:
        return None, (_note(outer, f"whatever a {outer.model_type} holds beside its text model"),)
    return (), ()


def _note(outer: Config, what: str) -> str:
    return f"not counted: the towers of this {printable(outer.model_type, 40)} model ({printable(what, 120)})"


def wrapper(*model_types: str) -> Callable[[Wrapper], Wrapper]:
    """Register a function for these model types."""

    def wrap(build: Wrapper) -> Wrapper:
        for name in model_types:
            WRAPPERS[name] = build
        return build

    return wrap


def sees(outer: Config, build: Callable[[Config], Encoder] = vision.any_encoder, kind: str | None = None) -> tuple[Encoder, Config]:
    """The vision encoder and its config; every shaping key of it must have been read."""
    c = needed(outer, "vision_config", kind, auto=build is vision.any_encoder)
    return build(c), c


def projector(*weights: Weights) -> Weights:
    """What joins a tower to the text."""
    return within("projector", (weight for group in weights for weight in group))


def features(outer: Config) -> int:
    """How many layers of the encoder the projector reads side by side: one, or as many as are listed."""
    layer = outer.get("vision_feature_layer")
    if layer is None or isinstance(layer, int):
        return 1
    if not isinstance(layer, list) or not 0 < len(layer) <= MOST_LAYERS:
        raise outer.fail("vision_feature_layer", layer, "a number or a list of numbers")
    return len(layer)


def _two(into: int, hidden: int, bias: bool = True) -> Weights:
    return lin("linear_1", hidden, into, bias) + lin("linear_2", hidden, hidden, bias)


@wrapper("llava")
def llava(outer: Config, hidden: int) -> Weights:
    """Any encoder, two matrices."""
    encoder, c = sees(outer)
    all_read(c)
    return encoder.weights + projector(_two(encoder.width * features(outer), hidden, outer.flag("multimodal_projector_bias")))


@wrapper("llava_next", "llava_onevision", "llava_next_video")
def llava_next(outer: Config, hidden: int) -> Weights:
    """LLaVA, and a vector for the end of a row of patches."""
    pool = outer.text("spatial_pool_mode", default="average")
    if outer.model_type == "llava_next_video" and pool not in ("average", "max"):
        raise Unread(f"spatial_pool_mode {pool}")
    return llava(outer, hidden) + projector(vec("image_newline", hidden))


@wrapper("vipllava")
def vipllava(outer: Config, hidden: int) -> Weights:
    """Several layers of the encoder side by side, behind a norm."""
    encoder, c = sees(outer)
    all_read(c)
    into = encoder.width * features(outer)
    return encoder.weights + projector(ln("projector_layernorm", width=into), _two(into, hidden))


@wrapper("video_llava")
def video_llava(outer: Config, hidden: int) -> Weights:
    """Two encoders of the same shape: images and video."""
    encoder, c = sees(outer)
    all_read(c)
    bias = outer.flag("multimodal_projector_bias")
    return repeat(2, encoder.weights) + projector(_two(encoder.width * features(outer), hidden, bias))


@wrapper("deepseek_vl", "video_llama_3")
def aligned(outer: Config, hidden: int) -> Weights:
    """Two matrices with biases."""
    encoder, c = sees(outer)
    all_read(c)
    return encoder.weights + projector(_two(encoder.width, hidden))


@wrapper("mistral3", "lighton_ocr", "mistral_large4")
def mistral3(outer: Config, hidden: int) -> Weights:
    """A norm, neighbouring patches merged, two matrices."""
    encoder, c = sees(outer)
    all_read(c)
    width, plain = encoder.width, outer.model_type == "lighton_ocr"
    return encoder.weights + projector(
        rms("norm", width=width),
        lin("patch_merger.merging_layer", width, width * outer.count("spatial_merge_size") ** 2, bias=False),
        _two(
            width * (1 if plain else features(outer)),
            hidden,
            False if plain else outer.flag("multimodal_projector_bias"),
        ),
    )


@wrapper("gemma3", "shieldgemma2")
def gemma3(outer: Config, hidden: int) -> Weights:
    """Pooled patches through a norm and one matrix."""
    encoder, c = sees(outer)
    all_read(c)
    matrix = lin("mm_input_projection_weight", hidden, encoder.width, bias=False)
    return encoder.weights + projector(matrix, rms("mm_soft_emb_norm", width=encoder.width))


@wrapper("t5gemma2")
def t5gemma2(outer: Config, hidden: int) -> Weights:
    """Gemma 3's, inside the encoder."""
    return gemma3(needed(outer, "encoder"), hidden)


@wrapper("gemma4", "gemma4_unified")
def gemma4(outer: Config, hidden: int) -> Weights:
    """Vision and audio where the file has them; one matrix each behind a norm without parameters."""
    unified = outer.model_type == "gemma4_unified"
    found: Weights = ()
    c = nested(outer, "vision_config", f"{outer.model_type}_vision")
    if c is not None:
        encoder = (vision.gemma4_unified if unified else vision.gemma4)(c)
        all_read(c)
        found += encoder.weights + projector(lin("embed_vision.embedding_projection", hidden, encoder.width, bias=False))
    c = nested(outer, "audio_config", f"{outer.model_type}_audio")
    if c is not None:
        encoder = Encoder((), either(c, "output_proj_dims", "audio_embed_dim")) if unified else audio.gemma4(c)
        all_read(c)
        found += encoder.weights + projector(lin("embed_audio.embedding_projection", hidden, encoder.width, bias=False))
    return found


MOBILENET_V5 = 294_126_912
"""Parameters of mobilenetv5_300m_enc, by timm 1.0.31 on the meta device: the encoder has no variants."""


@wrapper("gemma3n")
def gemma3n(outer: Config, hidden: int) -> Weights:
    """MobileNetV5, and a conformer over sound; each has a small vocabulary of its own, norms and one matrix."""
    seen, heard = needed(outer, "vision_config"), needed(outer, "audio_config")
    kind = seen.text("architecture", default="mobilenetv5_300m_enc")
    if kind != "mobilenetv5_300m_enc":
        raise Unread(f"{seen.path}.architecture {kind}")
    encoder = audio.gemma3n(heard)
    found = vec(kind, MOBILENET_V5) + encoder.weights
    for name, c, width in (("vision", seen, seen.hidden), ("audio", heard, encoder.width)):
        found += projector(
            table(f"embed_{name}.embedding", c.count("vocab_size"), width),
            rms(f"embed_{name}.hard_embedding_norm", f"embed_{name}.soft_embedding_norm", width=width),
            lin(f"embed_{name}.embedding_projection", hidden, width, bias=False),
        )
        all_read(c)
    return found


@wrapper("paligemma")
def paligemma(outer: Config, hidden: int) -> Weights:
    """One matrix, of projection_dim (which is the text's width)."""
    encoder, c = sees(outer)
    all_read(c)
    return encoder.weights + projector(lin("linear", outer.count("projection_dim"), encoder.width))


@wrapper("idefics3", "smolvlm")
def idefics3(outer: Config, hidden: int) -> Weights:
    """Neighbouring patches side by side, one matrix."""
    encoder, c = sees(outer, vision.idefics)
    all_read(c)
    return encoder.weights + projector(lin("modality_projection", hidden, encoder.width * outer.count("scale_factor") ** 2, bias=False))


@wrapper("idefics2")
def idefics2(outer: Config, hidden: int) -> Weights:
    """A SwiGLU of the text's inner width, and a perceiver with learned queries."""
    encoder, c = sees(outer, vision.idefics)
    all_read(c)
    text = needed(outer, "text_config", auto=True)
    p = needed(outer, "perceiver_config")
    p.dismiss("hidden_size")  # the class takes the text's
    query = p.count("resampler_n_heads") * p.count("resampler_head_dim")
    kv = p.count("num_key_value_heads") * p.count("resampler_head_dim")
    block = (
        lin("q_proj", query, hidden, False)
        + lin("k_proj", kv, hidden, False)
        + lin("v_proj", kv, hidden, False)
        + lin("o_proj", hidden, query, False)
        + glu(hidden, 4 * hidden)
        + rms("input_latents_norm", "input_context_norm", "post_attention_layernorm", width=hidden)
    )
    depth, latents = p.count("resampler_depth"), p.count("resampler_n_latents")
    all_read(p)
    return encoder.weights + projector(
        glu(encoder.width, text.count("intermediate_size"), out=hidden),
        table("latents", latents, hidden),
        repeat(depth, block),
        rms("norm", width=hidden),
    )


@wrapper("aya_vision", "cohere2_vision")
def cohere_vision(outer: Config, hidden: int) -> Weights:
    """Neighbouring patches side by side through a gated MLP; Aya has a norm before it."""
    encoder, c = sees(outer)
    all_read(c)
    into = encoder.width * outer.count("downsample_factor") ** 2
    aya = outer.model_type == "aya_vision"
    inner = outer.count("alignment_intermediate_size", default=hidden if aya else None)
    return encoder.weights + projector(
        ln("layernorm", width=into) if aya else (),
        lin("linear_1", inner, into),
        lin("linear_2", hidden, inner // 2),
    )


@wrapper("internvl")
def internvl(outer: Config, hidden: int) -> Weights:
    """Neighbouring patches side by side, a norm, two matrices."""
    encoder, c = sees(outer)
    all_read(c)
    ratio = outer.number("downsample_ratio")
    if not 1 / 64 <= ratio <= 1:
        raise outer.fail("downsample_ratio", ratio, "a number from 1/64 to 1")
    into = encoder.width * int(1 / ratio) ** 2
    return encoder.weights + projector(ln("layer_norm", width=into), _two(into, hidden))


@wrapper("kimi_k25")
def kimi(outer: Config, hidden: int) -> Weights:
    """A norm, neighbouring patches side by side, two matrices."""
    encoder, c = sees(outer, vision.moonvit)
    width = c.maybe("mm_hidden_size") or outer.count("projection_hidden_size")
    into = encoder.width * area(c, "merge_kernel_size")
    out = c.maybe("text_hidden_size") or hidden
    if out != hidden:
        raise c.fail("text_hidden_size", out, f"the text's width {hidden}")
    if width != encoder.width:
        raise Unread(f"a projector norm of {width} behind an encoder of {encoder.width}")
    all_read(c)
    return encoder.weights + projector(ln("pre_norm", width=width), lin("in_proj", into, into), lin("out_proj", hidden, into))


@wrapper("kimi_k3")
def kimi_3(outer: Config, hidden: int) -> Weights:
    """Neighbouring patches side by side, two matrices without biases, a norm of the text's width.

    With the language model it gives the 2,779,931,837,184 parameters of the published tensor list.
    """
    encoder, c = sees(outer, vision.moonvit_3)
    into = encoder.width * area(c, "merge_kernel_size")
    for key, want in (("text_hidden_size", hidden), ("mm_hidden_size", encoder.width)):
        if c.count(key) != want:
            raise Unread(f"{c.path}.{key} is not {want}")
    all_read(c)
    return encoder.weights + projector(
        lin("linear_1", into, into, False), lin("linear_2", hidden, into, False), rms("post_norm", width=hidden)
    )


@wrapper("deepseek_v41")
def deepseek_v41(outer: Config, hidden: int) -> Weights:
    """Neighbouring patches side by side, two matrices, vectors for the start, the end and the rows of an image."""
    encoder, c = sees(outer, vision.deepseek_v41)
    into = encoder.width * c.count("downsample_ratio") ** 2
    all_read(c)
    marks = tuple(weight for name in ("image_start", "image_end", "image_newline") for weight in vec(name, hidden))
    return encoder.weights + projector(lin("aligner.w1", hidden, into), lin("aligner.w2", hidden, hidden), marks)


@wrapper("llama4", "mllama")
def llama(outer: Config, hidden: int) -> Weights:
    """One matrix behind the encoder's own adapter."""
    four = outer.model_type == "llama4"
    encoder, c = sees(outer, vision.llama4 if four else vision.mllama)
    c.dismiss("pixel_shuffle_ratio", "intermediate_layers_indices")
    all_read(c)
    return encoder.weights + projector(lin("multi_modal_projector", hidden, encoder.width, bias=not four))


def _merging(build: Callable[[Config], Encoder]) -> Wrapper:
    """The encoder ends in the text's width by itself."""

    def whole(outer: Config, hidden: int) -> Weights:
        encoder, c = sees(outer, build)
        all_read(c)
        return encoder.weights

    return whole


wrapper("qwen2_vl")(_merging(vision.qwen2_vl))
wrapper("qwen2_5_vl", "exaone4_5")(_merging(vision.qwen2_5_vl))
wrapper("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp", "cohere_compass")(_merging(vision.qwen3_vl))
wrapper("glm4v", "glm4v_moe")(_merging(vision.glm4v))
wrapper("glm46v")(_merging(vision.any_encoder))


@wrapper("minimax_m3_vl")
def minimax_m3(outer: Config, hidden: int) -> Weights:
    """Two matrices per patch, neighbouring patches side by side, two more."""
    encoder, c = sees(outer, vision.minimax_m3)
    merged = hidden * vision.m3_merge(c, "spatial_merge_size") ** 2
    all_read(c)
    if outer.raw.get("multimodal_projector_bias") is False:
        raise Unread("multimodal_projector_bias is false, and the class always has them")
    inner = outer.count("projector_hidden_size")
    return encoder.weights + projector(
        lin("linear_1", inner, encoder.width),
        lin("linear_2", hidden, inner),
        lin("merge_linear_1", inner, merged),
        lin("merge_linear_2", hidden, inner),
    )


@wrapper("ernie4_5_vl_moe")
def ernie(outer: Config, hidden: int) -> Weights:
    """A resampler joins neighbouring patches, then neighbouring frames."""
    encoder, c = sees(outer, vision.ernie)
    space = encoder.width * c.count("spatial_merge_size") ** 2
    time = space * c.count("temporal_merge_size")
    all_read(c)
    joins = tuple(
        weight
        for name, into in (("spatial", space), ("temporal", time))
        for weight in lin(f"{name}.fc1", space, into) + lin(f"{name}.fc2", space, space) + ln(f"{name}.ln", width=space)
    )
    return encoder.weights + projector(joins, lin("mlp", hidden, space), rms("after_norm", width=hidden))


@wrapper("lfm2_vl")
def lfm2_vl(outer: Config, hidden: int) -> Weights:
    """Neighbouring patches side by side, an optional norm, two matrices."""
    encoder, c = sees(outer)
    all_read(c)
    into, inner = encoder.width * outer.count("downsample_factor") ** 2, outer.count("projector_hidden_size")
    bias = outer.flag("projector_bias")
    return encoder.weights + projector(
        ln("layer_norm", width=into) if outer.flag("projector_use_layernorm") else (),
        lin("linear_1", inner, into, bias),
        lin("linear_2", hidden, inner, bias),
    )


@wrapper("step3p7")
def step3(outer: Config, hidden: int) -> Weights:
    """One matrix behind the encoder's convolutions."""
    encoder, c = sees(outer, vision.step3)
    all_read(c)
    return encoder.weights + projector(lin("multi_modal_projector", hidden, encoder.width, outer.flag("projector_bias")))


@wrapper("fuyu")
def fuyu(outer: Config, hidden: int) -> Weights:
    """No encoder: one matrix over the pixels of a patch."""
    outer.dismiss("image_size")
    side = outer.count("patch_size")
    return projector(lin("vision_embed_tokens", hidden, side * side * outer.count("num_channels")))


def _hears(outer: Config, build: Callable[[Config], Encoder]) -> tuple[Encoder, Config]:
    c = needed(outer, "audio_config")
    return build(c), c


@wrapper("voxtral", "qwen2_audio", "audioflamingo3", "musicflamingo")
def whispers(outer: Config, hidden: int) -> Weights:
    """Whisper's encoder; one matrix, or two (Voxtral's over four frames side by side, written as the inner width)."""
    encoder, c = _hears(outer, audio.whisper)
    if outer.model_type == "voxtral":
        joined = _two(either(c, "encoder_ffn_dim", "intermediate_size"), hidden, False)
    elif outer.model_type == "qwen2_audio":
        joined = lin("linear", hidden, encoder.width)
    else:
        joined = _two(encoder.width, hidden, outer.flag("projector_bias"))
    all_read(c)
    return encoder.weights + projector(joined)


@wrapper("glmasr")
def glm_asr(outer: Config, hidden: int) -> Weights:
    """Four frames side by side (written as the inner width), two matrices."""
    encoder, c = _hears(outer, audio.glm_asr)
    into = c.count("intermediate_size")
    all_read(c)
    return encoder.weights + projector(lin("linear_1", 2 * hidden, into), lin("linear_2", hidden, 2 * hidden))


@wrapper("qwen3_asr")
def qwen3_asr(outer: Config, hidden: int) -> Weights:
    """Two matrices."""
    encoder, c = _hears(outer, audio.qwen3_audio)
    width = encoder.width
    joined = lin("linear_1", width, width) + lin("linear_2", c.count("output_dim"), width)
    all_read(c)
    return encoder.weights + projector(joined)


@wrapper("qwen2_5_omni_thinker", "qwen3_omni_moe_thinker")
def omni(outer: Config, hidden: int) -> Weights:
    """Vision and audio."""
    older = outer.model_type == "qwen2_5_omni_thinker"
    encoder, c = sees(outer, vision.qwen2_5_vl if older else vision.qwen3_vl)
    all_read(c)
    heard, c = _hears(outer, audio.qwen2_5_omni if older else audio.qwen3_audio)
    joined: Weights = ()
    if not older:
        width = heard.width
        joined = projector(lin("proj1", width, width), lin("proj2", c.count("output_dim"), width))
    all_read(c)
    return encoder.weights + heard.weights + joined


@wrapper("qwen2_5_omni", "qwen3_omni_moe")
def talking(outer: Config, hidden: int) -> Weights:
    """The thinker's towers, where the file has no talker."""
    if outer.raw.get("enable_audio_output") is not False:
        raise Unread("the talker, a second language model with a vocoder")
    thinker = outer.block("thinker_config", class_defaults().get(outer.model_type, {}).get("parts", {}).get("thinker_config"))
    if thinker is None:
        raise Unread("thinker_config is missing")
    return omni(thinker, hidden)
