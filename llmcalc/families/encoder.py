"""Encoders of text: embedders, rerankers and classifiers. They read a whole text at once, both ways, and keep no cache.

Shapes by the classes of transformers (modeling_bert, modeling_roberta, modeling_distilbert, modeling_modernbert).
"""

from __future__ import annotations

from dataclasses import replace

from llmcalc.architecture import FULL, Attention, Span, Stack, Weight, always, decoder, linear, norm
from llmcalc.attention import gqa
from llmcalc.config import Config
from llmcalc.families import family
from llmcalc.mlp import dense


def both_ways(c: Config, query: int, span: Span = FULL, biases: str = "qkvo") -> Attention:
    """Every token sees those before and behind it: twice the pairs that a decoder has, and nothing to keep."""
    dim = gqa.exact_division(c, "hidden_size", c.hidden, "num_attention_heads", query)
    mixer = gqa.build(c.hidden, query, query, dim, span=span, biases=biases, stored=False, kind="bidirectional")
    return replace(mixer, entries=tuple(entry._replace(flops=2 * entry.flops) for entry in mixer.entries))


def labels(c: Config) -> int:
    """How many labels a classifier has: two where nothing is said."""
    named = c.get("id2label")
    return c.maybe("num_labels") or (len(named) if isinstance(named, dict) else 0) or 2


def heads(c: Config, *, pooled: bool) -> tuple[Weight, ...]:
    """What stands on the last layer, by the class: a pooler, a head for masked words (tied to the table), or one for labels."""
    name = (c.words("architectures") or [""])[0]
    hidden = c.hidden
    if name.endswith("ForMaskedLM"):
        around = linear("transform", "head", hidden, hidden, True) + norm("transform_norm", hidden, "layer")
        return (*around, Weight("decoder.bias", "head", c.count("vocab_size")))
    if name.endswith("Classification"):
        between = () if name.endswith("ForTokenClassification") else linear("pooler", "head", hidden, hidden, True)
        return between + linear("classifier", "head", labels(c), hidden, True)
    return linear("pooler", "head", hidden, hidden, True) if pooled else ()


def finished(stack: Stack, head: tuple[Weight, ...]) -> Stack:
    """A stack that generates nothing."""
    return replace(stack, head=head, tied=False, generates=False, notes=("an encoder: it generates no tokens and keeps no KV cache",))


@family("bert", "roberta", "xlm-roberta", "camembert")
def bert(c: Config) -> Stack:
    """Learned positions and types of segments, LayerNorms behind each block; XLM-R and CamemBERT are RoBERTa in shape."""
    if c.text("position_embedding_type", default="absolute") != "absolute":
        raise c.fail("position_embedding_type", c.get("position_embedding_type"), "absolute")
    if c.flag("is_decoder") or c.flag("add_cross_attention"):
        raise c.fail("is_decoder", True, "false: the decoder of this type is not read")
    mixer = both_ways(c, c.count("num_attention_heads"))
    block = dense(c.hidden, c.count("intermediate_size"), gated=False, bias=True)
    types = (Weight("token_type_embeddings", "positions", c.count("type_vocab_size"), c.hidden), *norm("embedding_norm", c.hidden, "layer"))
    stack = decoder(
        c,
        always(mixer),
        always(block),
        norm_style="layer",
        positions=c.count("max_position_embeddings"),
        outside=types,
        final_norm=False,
        tied=False,
        head=False,
    )
    return finished(stack, heads(c, pooled=True))


@family("distilbert")
def distilbert(c: Config) -> Stack:
    """Half of BERT's layers, no segments, no pooler."""
    query = c.agreed("n_heads", "num_attention_heads")
    hidden, depth = c.agreed("dim", "hidden_size"), c.agreed("n_layers", "num_hidden_layers")
    shaped = c.seen_as(c.model_type, {**c.raw, "hidden_size": hidden})
    mixer = both_ways(shaped, query)
    block = dense(hidden, c.agreed("hidden_dim", "intermediate_size"), gated=False, bias=True)
    stack = decoder(
        shaped,
        always(mixer),
        always(block),
        norm_style="layer",
        layers=depth,
        hidden=hidden,
        positions=c.count("max_position_embeddings"),
        outside=norm("embedding_norm", hidden, "layer"),
        final_norm=False,
        tied=False,
        head=False,
    )
    return finished(stack, heads(shaped, pooled=False))


@family("modernbert")
def modernbert(c: Config) -> Stack:
    """Rotary positions, a gate in the MLP, no biases; all but every global_attn_every_n_layers-th layer see local_attention tokens."""
    if any(c.flag(name) for name in ("attention_bias", "mlp_bias", "norm_bias")):
        raise c.fail("attention_bias", True, "false: the variant with biases is not read")
    query, step = c.count("num_attention_heads"), c.count("global_attn_every_n_layers", default=3)
    far = both_ways(c, query, biases="")
    near = both_ways(c, query, Span("window", c.count("local_attention")), biases="")
    listed = c.words("layer_types")
    full = [kind == "full_attention" for kind in listed] if listed else [layer % step == 0 for layer in range(c.layers)]
    if len(full) != c.layers:
        raise c.fail("layer_types", listed, f"a list of {c.layers} entries")
    block = dense(c.hidden, c.count("intermediate_size"))
    stack = decoder(
        c,
        lambda layer: far if full[layer] else near,
        always(block),
        norm_style="layer-nobias",
        norms=lambda layer: 2 if layer else 1,  # the first attends to what the embedding's norm gives
        outside=norm("embedding_norm", c.hidden, "layer-nobias"),
        tied=False,
        head=False,
    )
    return finished(stack, heads_of_modernbert(c))


def heads_of_modernbert(c: Config) -> tuple[Weight, ...]:
    """A dense layer with a norm before the tied table or the labels; the bare model has none."""
    name = (c.words("architectures") or [""])[0]
    if not name.endswith(("ForMaskedLM", "Classification")):
        return ()
    before = linear("head.dense", "head", c.hidden, c.hidden) + norm("head.norm", c.hidden, "layer-nobias")
    if name.endswith("ForMaskedLM"):
        return (*before, Weight("decoder.bias", "head", c.count("vocab_size")))
    return before + linear("classifier", "head", labels(c), c.hidden, True)
