"""Encoder-decoders: the decoder's own cache grows with the context; cross-attention keeps each encoder token once.

The encoder's weights are counted (part "encoder"), its activations are gone when decoding starts. A config that does
not fix the length of the encoder's input leaves the size of the cross-attention cache open: it is then counted for 0
encoder tokens, and a note says what each of them adds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from llmcalc.architecture import Attention, NormStyle, Stack, Weight, decoder, every, layer_types, linear, norm, spans
from llmcalc.attention import gqa
from llmcalc.config import MOST_LAYERS, Config, leftovers
from llmcalc.errors import ConfigError, printable
from llmcalc.families import family
from llmcalc.families.legacy import agree, head_dim
from llmcalc.mlp import dense


def generates(c: Config) -> None:
    """Half of such a model is published too: an encoder alone keeps no cache, and a decoder alone is not read."""
    names = c.words("architectures") or []
    if any(name.endswith(("EncoderModel", "Encoder")) for name in names):
        raise ConfigError(
            "no-kv-cache",
            f"{printable(names[0])} is a {c.model_type} encoder alone: it generates no tokens and keeps no KV cache",
            "llmcalc sizes models that generate text",
        )
    if any(name.endswith("ForCausalLM") for name in names):
        raise c.fail("architectures", names, "an encoder with a decoder: a decoder alone is not read for this type")
    if not c.flag("is_encoder_decoder", default=True):
        raise c.fail("is_encoder_decoder", c.get("is_encoder_decoder"), "true")


def encoder(weights: Iterable[Weight], layers: int = 1) -> tuple[Weight, ...]:
    """These weights as the encoder's, `layers` times."""
    return tuple(w._replace(name=f"encoder.{w.name}", part="encoder", copies=layers, active=layers) for w in weights)


def norms(number: int, width: int, style: NormStyle) -> tuple[Weight, ...]:
    """So many norms."""
    return norm("norm", width, style) * number


def cross_note(layers: int, kv_heads: int, dim: int) -> str:
    """What is not counted because the config does not fix the encoder's length."""
    return (
        "cross-attention: the config does not fix the length of the encoder's input, so 0 encoder tokens are assumed; "
        f"each adds {2 * layers * kv_heads * dim:,} cached elements"
    )


# ---- T5


@family("t5", "mt5", "umt5", "longt5")
def t5(c: Config) -> Stack:
    """RMSNorms, no biases; a table of relative positions per stack, in umT5 per layer. The head is always tied."""
    generates(c)
    hidden, query = c.agreed("d_model", "hidden_size"), c.agreed("num_heads", "num_attention_heads")
    dim = c.agreed("d_kv", "head_dim")
    agree(c, "num_key_value_heads", query)
    layers = c.agreed("num_layers", "num_hidden_layers", most=MOST_LAYERS)
    deep = c.maybe("num_decoder_layers", most=MOST_LAYERS) or layers
    ffn = dense(hidden, c.count("d_ff"), gated=_t5_gate(c))
    table = (Weight("relative_attention_bias", "attention", c.count("relative_attention_num_buckets"), query),)
    each = c.model_type == "umt5"
    per_layer, once = _long_encoder(c, hidden, table) if c.model_type == "longt5" else ((), ())
    block = gqa.build(hidden, query, query, dim, extra=table if each else ())
    cross = gqa.build(hidden, query, query, dim, source_tokens=0)
    notes: tuple[str, ...] = (cross_note(deep, query, dim),)
    vocab = c.count("vocab_size")
    if c.has("tie_word_embeddings") and not c.flag("tie_word_embeddings"):
        notes += (
            "tie_word_embeddings is false in the file, but transformers ties the head of this type all the same; "
            f"a checkpoint that stores its own lm_head has {vocab * hidden:,} more parameters",
        )
    c.dismiss("n_positions")  # positions are relative; what the file says is the length of training
    return decoder(
        c,
        lambda layer: (block, cross),
        lambda layer: ffn,
        norms=3,
        layers=deep,
        hidden=hidden,
        tied=True,
        outside=encoder(block.weights + ffn.weights + norms(2, hidden, "rms") + per_layer, layers)
        + encoder((() if each else table) + once + norm("final_norm", hidden)),
        shared=() if each else table,
        notes=notes,
    )


def _long_encoder(c: Config, hidden: int, table: tuple[Weight, ...]) -> tuple[tuple[Weight, ...], tuple[Weight, ...]]:
    """LongT5's encoder attends locally; with tokens for whole blocks it has (a norm per layer, one more table)."""
    kind = c.text("encoder_attention_type")
    if kind not in ("local", "transient-global"):
        raise c.fail("encoder_attention_type", kind, "local or transient-global")
    if kind == "local":
        return (), ()
    return norm("global_input_layer_norm", hidden), (table[0]._replace(name="global_relative_attention_bias"),)


def _t5_gate(c: Config) -> bool:
    """feed_forward_proj is "gated-<activation>" or "<activation>"; is_gated_act repeats it."""
    name = c.text("feed_forward_proj")
    words = name.split("-")
    if not name or len(words) > 2 or (len(words) == 2 and words[0] != "gated"):
        raise c.fail("feed_forward_proj", name, 'an activation, or "gated-" and an activation')
    gate = len(words) == 2
    if c.has("is_gated_act") and c.flag("is_gated_act") != gate:
        raise c.fail("is_gated_act", c.get("is_gated_act"), f"{str(gate).lower()}, as feed_forward_proj is {name}")
    c.dismiss("is_gated_act")
    return gate


def all_known(name: str, *halves: Config) -> None:
    """Refuse a half with a key that changes what a model holds and that nobody has read."""
    for half in halves:
        for key in leftovers(half):
            raise half.fail(key, half.raw[key], f"absent: it changes what a model holds, and {name} does not know it")


@family("t5gemma")
def t5gemma(c: Config) -> Stack:
    """Two Gemma-2 stacks with an embedding each; the decoder's self-attention slides on every second layer."""
    generates(c)
    c.dismiss("vocab_size")  # those of the two halves count
    front, back = _half(c, "encoder"), _half(c, "decoder")
    wide = front.hidden
    query, kv, dim = gqa.heads(front)
    fore = gqa.build(wide, query, kv, dim, biases="qkvo" if front.flag("attention_bias") else "")
    front_mlp = dense(wide, front.count("intermediate_size"))
    front.dismiss("layer_types", "sliding_window", "tie_word_embeddings")  # the encoder keeps no cache
    first = Weight("encoder.embed_tokens", "embedding", front.count("vocab_size"), wide)
    around = encoder(fore.weights + front_mlp.weights + norms(4, wide, "rms"), front.layers)
    around += (*encoder(norm("final_norm", wide)), first)

    hidden, layers = back.hidden, back.layers
    query, kv, dim = gqa.heads(back)
    biases = "qkvo" if back.flag("attention_bias") else ""
    rule = lambda layer: "full_attention" if layer % 2 else "sliding_attention"  # noqa: E731
    windows = spans(back, layer_types(back, layers, rule))
    back.dismiss("sliding_window")
    own = gqa.uniform(back, biases=biases, spans=windows)
    cross = gqa.build(hidden, query, kv, dim, biases=biases, source_width=wide, source_tokens=0)
    ffn = dense(hidden, back.count("intermediate_size"))
    stack = decoder(
        back,
        lambda layer: (own(layer), cross),
        lambda layer: ffn,
        norms=6,
        tied=c.flag("tie_word_embeddings"),
        outside=around,
        notes=(cross_note(layers, kv, dim),),
    )
    all_known(c.model_type, front, back)
    return stack


@family("t5gemma2")
def t5gemma2(c: Config) -> Stack:
    """Two Gemma-3 stacks that share one table; the decoder attends to itself and to the source by the same projections."""
    generates(c)
    c.dismiss("vocab_size")
    outer = c.block("encoder", "t5gemma2_encoder") or Config({}, "t5gemma2_encoder", "encoder")
    front = outer.block("text_config", "t5gemma2_text") or Config({}, "t5gemma2_text", "encoder.text_config")
    outer.dismiss("vision_config", "tie_word_embeddings")
    back = c.block("decoder", "t5gemma2_decoder") or Config({}, "t5gemma2_decoder", "decoder")
    for key in ("hidden_size", "vocab_size"):
        if front.count(key) != back.count(key):
            raise back.fail(key, back.get(key), f"{front.count(key)}, as in the encoder, whose table it shares")
    wide = front.hidden
    query, kv, dim = gqa.heads(front)
    seen = gqa.build(wide, query, kv, dim, biases="qkvo" if front.flag("attention_bias") else "", qk_norm=(dim, dim))
    ffn = dense(wide, front.count("intermediate_size"))
    front.dismiss("layer_types", "sliding_window", "sliding_window_pattern", "tie_word_embeddings")  # the encoder keeps no cache
    around = encoder(seen.weights + ffn.weights + norms(4, wide, "rms"), front.layers)
    around += encoder(norm("final_norm", wide) + norm("eoi_embedding", wide))

    step = back.maybe("sliding_window_pattern") or 6
    windows = spans(back, layer_types(back, back.layers, every(step)))
    back.dismiss("sliding_window")
    own = gqa.uniform(back, biases="qkvo" if back.flag("attention_bias") else "", qk_norm="head", spans=windows)
    query, kv, dim = gqa.heads(back)
    cross = replace(gqa.build(wide, query, kv, dim, source_tokens=0), weights=())
    block = dense(wide, back.count("intermediate_size"))
    stack = decoder(
        back,
        lambda layer: (own(layer), cross),
        lambda layer: block,
        norms=4,
        tied=c.flag("tie_word_embeddings", default=True),
        outside=around,
        notes=(cross_note(back.layers, kv, dim),),
    )
    all_known(c.model_type, outer, front, back)
    return stack


def _half(c: Config, name: str) -> Config:
    """The encoder's or the decoder's own config; the class's own where the file has none."""
    return c.block(name, "t5_gemma_module") or Config({}, "t5_gemma_module", name)


# ---- BART and Whisper: a decoder of the original Transformer's kind


class Shape(NamedTuple):
    """Widths and depths of both halves."""

    hidden: int
    front_layers: int
    front_heads: int
    front_inner: int
    layers: int
    heads: int
    inner: int


def shape(c: Config) -> Shape:
    """Under the names of BART. num_hidden_layers and num_attention_heads are the encoder's."""
    hidden = c.agreed("d_model", "hidden_size")
    found = Shape(
        hidden,
        c.agreed("encoder_layers", "num_hidden_layers", most=MOST_LAYERS),
        c.agreed("encoder_attention_heads", "num_attention_heads"),
        c.count("encoder_ffn_dim"),
        c.count("decoder_layers", most=MOST_LAYERS),
        c.count("decoder_attention_heads"),
        c.count("decoder_ffn_dim"),
    )
    head_dim(c, hidden, found.front_heads, name="encoder_attention_heads")
    head_dim(c, hidden, found.heads, name="decoder_attention_heads")
    return found


def front(s: Shape, biases: str) -> tuple[Weight, ...]:
    """The encoder's layers: attention and an MLP of two matrices, biases, two LayerNorms."""
    block = gqa.build(s.hidden, s.front_heads, s.front_heads, s.hidden // s.front_heads, biases=biases)
    ffn = dense(s.hidden, s.front_inner, gated=False, bias=True)
    return encoder(block.weights + ffn.weights + norms(2, s.hidden, "layer"), s.front_layers)


def mixers(s: Shape, biases: str, source_tokens: int) -> tuple[Attention, Attention]:
    """A decoder layer's self-attention and cross-attention."""
    dim = s.hidden // s.heads
    return (
        gqa.build(s.hidden, s.heads, s.heads, dim, biases=biases),
        gqa.build(s.hidden, s.heads, s.heads, dim, biases=biases, source_tokens=source_tokens),
    )


class Habits(NamedTuple):
    """What tells BART's kin apart: spare rows of the position tables (None: no tables), and the norms of each half."""

    spare: int | None
    embedding_norm: bool
    final_norm: bool


HABITS = {
    "bart": Habits(2, True, False),
    "plbart": Habits(2, True, False),
    "mbart": Habits(2, True, True),
    "pegasus": Habits(0, False, True),
    "m2m_100": Habits(None, False, True),
    "marian": Habits(0, False, False),
    "blenderbot": Habits(0, False, True),
    "blenderbot-small": Habits(0, True, False),
}


@family(*HABITS)
def bart(c: Config) -> Stack:
    """LayerNorms and biases everywhere; both halves and the head share one table where they are tied."""
    generates(c)
    s, habits = shape(c), HABITS[c.model_type]
    self_attention, cross = mixers(s, "qkvo", 0)
    ffn = dense(s.hidden, s.inner, gated=False, bias=True)
    rows = 0 if habits.spare is None else c.count("max_position_embeddings") + habits.spare
    around = front(s, "qkvo")
    if rows:
        around += encoder((Weight("position_embeddings", "encoder", rows, s.hidden),))
    if habits.embedding_norm:
        both = norm("layernorm_embedding", s.hidden, "layer")
        around += encoder(both) + both
    if habits.final_norm:
        around += encoder(norm("final_norm", s.hidden, "layer"))
    stack = decoder(
        c,
        lambda layer: (self_attention, cross),
        lambda layer: ffn,
        norm_style="layer",
        norms=3,
        layers=s.layers,
        hidden=s.hidden,
        final_norm=habits.final_norm,
        positions=rows,
        outside=around,
        notes=(cross_note(s.layers, s.heads, s.hidden // s.heads),),
    )
    return _tables(c, stack)


def _tables(c: Config, stack: Stack) -> Stack:
    """Embeddings beside the decoder's own: none where tied; three where not; Marian may keep two languages apart."""
    vocab, width = stack.vocab, stack.hidden
    own = (Weight("encoder.embed_tokens", "embedding", vocab, width),)
    if c.model_type == "marian":
        target = c.maybe("decoder_vocab_size", least=0) or vocab
        if not c.flag("share_encoder_decoder_embeddings"):
            return replace(
                stack,
                vocab=target,
                embedding=(Weight("embed_tokens", "embedding", target, width),),
                head=() if stack.tied else linear("lm_head", "head", target, width),
                outside=stack.outside + own,
            )
        if target != vocab:
            raise c.fail("decoder_vocab_size", target, f"vocab_size ({vocab}), as the embeddings are shared")
    if stack.tied:
        return stack
    return replace(stack, outside=(*stack.outside, *own, Weight("shared", "embedding", vocab, width)))


@family("whisper")
def whisper(c: Config) -> Stack:
    """Speech to text: two convolutions, and an encoder token per row of its position table. Keys have no bias."""
    generates(c)
    s = shape(c)
    agree(c, "num_key_value_heads", s.front_heads)
    heard = c.count("max_source_positions")
    self_attention, cross = mixers(s, "qvo", heard)
    ffn = dense(s.hidden, s.inner, gated=False, bias=True)
    ears = linear("conv1", "encoder", s.hidden, 3 * c.count("num_mel_bins"), True)
    ears += linear("conv2", "encoder", s.hidden, 3 * s.hidden, True)
    ears += (Weight("position_embeddings", "encoder", heard, s.hidden), *norm("final_norm", s.hidden, "layer"))
    context = c.count("max_target_positions")
    return decoder(
        c,
        lambda layer: (self_attention, cross),
        lambda layer: ffn,
        norm_style="layer",
        norms=3,
        layers=s.layers,
        hidden=s.hidden,
        positions=context,
        outside=front(s, "qvo") + encoder(ears),
        max_context=context,
        notes=(f"cross-attention keys and values are those of a full window of audio ({heard:,} encoder tokens)",),
    )
