"""Heads that draft tokens for another model. They carry its model type, and only their class's name says what they are.

EAGLE-3: arXiv:2503.01840; DFlash: arXiv:2602.06036; shapes by the training code of SpecForge and the readers of vLLM and SGLang.
"""

from __future__ import annotations

import re
from dataclasses import replace

from llmcalc.architecture import Stack, Weight, decoder, linear, norm
from llmcalc.attention import gqa
from llmcalc.config import Config
from llmcalc.errors import ConfigError, printable
from llmcalc.families import Reader
from llmcalc.mlp import dense

_NAMES = re.compile(r"eagle|dflash|dflare|dspark|domino|medusa|hydra|draft|speculator|(^|[a-z])MTP([A-Z]|$)|NextN", re.IGNORECASE)
_AUX_LAYERS = 3
"""Layers of the target that EAGLE-3 reads where the file does not list them."""


def reader_of(architecture: str) -> Reader | None:
    """The reader of a draft's class, or None where the class is none. Errors: unknown-draft."""
    if not _NAMES.search(architecture):
        return None
    word = architecture.lower()
    if re.search(r"eagle_?3", word) and "peagle" not in word:
        return eagle3
    if word == "dflashdraftmodel":
        return dflash
    raise ConfigError(
        "unknown-draft",
        f"{printable(architecture, 60)} is a draft for another model, and what it has beside its layers is not known",
        "give the model that it drafts for; drafts of EAGLE-3 and DFlash are read",
    )


def eagle3(c: Config) -> Stack:
    """One layer that reads the embedding and a mix of the target's hidden states side by side; a vocabulary of its own."""
    if c.layers != 1:
        raise c.fail("num_hidden_layers", c.layers, "1 in an EAGLE-3 draft")
    query, kv, dim = gqa.heads(c)
    hidden, bias = c.hidden, c.flag("attention_bias")
    block = c.block("eagle_config", defaults_of="none")
    listed = block.items("eagle_aux_hidden_state_layer_ids") if block else None
    target = c.maybe("target_hidden_size") or hidden
    attention = gqa.build(hidden, query, kv, dim, biases="qkv" if bias else "")
    # Queries, keys and values read twice the width.
    wide = tuple(w._replace(columns=2 * hidden) if w.name in ("q_proj", "k_proj", "v_proj") else w for w in attention.weights)
    mixer = replace(attention, weights=wide)
    mixing = linear("fc", "mlp", hidden, (len(listed) if listed else _AUX_LAYERS) * target)
    words = c.maybe("draft_vocab_size") or c.count("vocab_size")
    stack = decoder(c, lambda _: mixer, lambda _: dense(hidden, c.count("intermediate_size")), norms=3, tied=False, outside=mixing)
    return replace(stack, head=linear("lm_head", "head", words, hidden), notes=("a draft head of EAGLE-3, of use only beside its target",))


def dflash(c: Config) -> Stack:
    """Layers of Qwen3 over a projection of the target's hidden states. Embedding and head are the target's and not in the file."""
    c.dismiss("layer_types", "sliding_window", "use_sliding_window", "max_window_layers")
    block = c.block("dflash_config", defaults_of="none")
    listed = block.items("target_layer_ids") if block else None
    if not listed:
        raise c.missing("dflash_config.target_layer_ids")
    if any(kind != "full_attention" for kind in c.words("layer_types") or ()):
        raise c.fail("layer_types", c.get("layer_types"), "full_attention throughout")
    mixer = gqa.uniform(c, biases="qkvo" if c.flag("attention_bias") else "", qk_norm="head")
    hidden = c.hidden
    mixing = linear("fc", "mlp", hidden, len(listed) * hidden) + norm("hidden_norm", hidden)
    stack = decoder(c, mixer, lambda _: dense(hidden, c.count("intermediate_size")), tied=False, head=False, outside=mixing)
    return replace(
        stack,
        embedding=(Weight("embed_tokens", "embedding", 0, hidden),),
        notes=("a DFlash draft, of use only beside its target, whose embedding and head it takes",),
    )


def without_head(stack: Stack, architecture: str, labels: int | None, *, inner: bool = False) -> Stack:
    """A sequence classifier has a matrix of its labels for a head, an embedder none. `inner`: behind another, both with biases."""
    if labels:
        note = f"{architecture}: a head of {labels} label{'s' * (labels != 1)} in place of the vocabulary's"
        head = linear("score.0", "head", stack.hidden, stack.hidden, True) if inner else ()
        return replace(stack, head=head + linear("score", "head", labels, stack.hidden, inner), tied=False, notes=(*stack.notes, note))
    if not stack.head:
        return stack
    return replace(stack, head=(), tied=False, notes=(*stack.notes, f"{architecture}: no head, it gives hidden states"))
