"""Gemma: windows on most layers, and in the newer ones caches that later layers share and embeddings per layer."""

from __future__ import annotations

from collections.abc import Sequence

from llmcalc.architecture import (
    FULL,
    Attention,
    Mlp,
    Span,
    Stack,
    Weight,
    always,
    decoder,
    every,
    layer_types,
    linear,
    norm,
    spans,
)
from llmcalc.attention import gqa
from llmcalc.config import Config
from llmcalc.errors import ConfigError
from llmcalc.families import family
from llmcalc.mlp import dense, experts, moe


def windows(c: Config, period: int) -> list[Span]:
    """The file's layer_types, or full attention on every `period`-th layer; no windows where sliding_window is null."""
    types = layer_types(c, c.layers, every(period))
    if c.maybe("sliding_window") is None:
        return [FULL] * c.layers
    return spans(c, types)


def causal(c: Config) -> None:
    """EmbeddingGemma looks both ways at every token and so keeps no cache; "vision" does so within an image alone."""
    if c.get("use_bidirectional_attention") not in (None, False, "vision"):
        raise ConfigError(
            "no-kv-cache",
            f"this {c.model_type} config attends in both directions: it generates no tokens and keeps no KV cache",
            "llmcalc sizes models that generate text",
        )


@family("gemma", "gemma2", "gemma3_text", "vaultgemma")
def gemma(c: Config) -> Stack:
    """Gemma 2 alternates windows, Gemma 3 has five to one and head norms; VaultGemma has no norms behind the blocks."""
    period = 1
    if c.model_type in ("gemma2", "vaultgemma"):
        period = 2
        c.dismiss("sliding_window_size")  # says the same as sliding_window
    elif c.model_type == "gemma3_text":
        causal(c)
        period = c.maybe("sliding_window_pattern") or 6
    c.dismiss("use_bidirectional_attention")  # PaliGemma: over the prompt alone
    attention = gqa.uniform(
        c,
        biases="qkvo" if c.flag("attention_bias") else "",
        qk_norm="head" if c.model_type == "gemma3_text" else None,
        spans=windows(c, period) if period > 1 or c.has("layer_types") else None,
    )
    norms = 4 if c.model_type in ("gemma2", "gemma3_text") else 2
    return decoder(c, attention, always(dense(c.hidden, c.count("intermediate_size"))), norms=norms)


def sources(c: Config, types: Sequence[str]) -> list[int]:
    """The layer whose cache each layer reads: its own; for the last num_kv_shared_layers, the last own of its type."""
    if set(types) - {"full_attention", "sliding_attention"}:
        raise c.fail("layer_types", sorted(set(types)), "full_attention and sliding_attention")
    shared = c.maybe("num_kv_shared_layers", least=0) or 0
    first = len(types) - shared
    own = {kind: layer for layer, kind in enumerate(types[: max(first, 0)])}
    if any(kind not in own for kind in types):
        raise c.fail("num_kv_shared_layers", shared, "fewer, so that every type of layer has one with a cache of its own")
    return [layer if layer < first else own[kind] for layer, kind in enumerate(types)]


def table(c: Config, width: int) -> tuple[Weight, ...]:
    """The per-layer embeddings of all layers in one table, and the projection that gives their second half."""
    rows = c.layers * width
    return (
        Weight("embed_tokens_per_layer", "embedding", c.count("vocab_size_per_layer_input"), rows),
        *linear("per_layer_model_projection", "mlp", rows, c.hidden),
        *norm("per_layer_projection_norm", width),
    )


def gate(c: Config, width: int) -> tuple[Weight, ...]:
    """How a layer takes its own embedding in."""
    weights = linear("per_layer_input_gate", "mlp", width, c.hidden) + linear("per_layer_projection", "mlp", c.hidden, width)
    return weights + norm("post_per_layer_input_norm", c.hidden)


@family("gemma3n_text")
def gemma3n(c: Config) -> Stack:
    """Four residual streams (AltUp), a low-rank one (Laurel), per-layer embeddings, late layers without keys."""
    causal(c)
    hidden, depth, streams = c.hidden, c.layers, c.count("altup_num_inputs")
    rank, width = c.count("laurel_rank"), c.count("hidden_size_per_layer_input")
    query, kv, dim = gqa.heads(c)
    types = layer_types(c, depth, every(5))
    looks = spans(c, types)
    reads = sources(c, types)
    c.dismiss("activation_sparsity_pattern")  # zeroes activations; the matrices stay whole
    inner = c.get("intermediate_size")
    if isinstance(inner, list):
        widths = c.per_layer(c.counts("intermediate_size", least=1), "intermediate_size", depth, int)
    else:
        widths = [c.count("intermediate_size")] * depth

    def attention(layer: int) -> Attention:
        own = reads[layer] == layer
        return gqa.build(
            hidden,
            query,
            kv,
            dim,
            span=looks[layer],
            biases="qkvo" if c.flag("attention_bias") else "",
            qk_norm=(dim, dim if own else 0),
            project_kv=own,
            stored=own,
        )

    mixing = (
        Weight("altup.correct_output_scale", "mlp", hidden),
        Weight("altup.correction_coefs", "mlp", streams, streams),
        Weight("altup.prediction_coefs", "mlp", streams * streams, streams),
        Weight("altup.modality_router", "mlp", streams, hidden),
        *norm("altup.router_norm", hidden),
        *linear("laurel.linear_left", "mlp", rank, hidden),
        *linear("laurel.linear_right", "mlp", hidden, rank),
        *norm("laurel.post_laurel_norm", hidden),
        *gate(c, width),
    )
    around = table(c, width)
    for name in ("altup_projections", "altup_unembed_projections"):
        around += linear(name, "mlp", hidden, hidden, copies=streams - 1)
    return decoder(c, attention, lambda i: dense(hidden, widths[i]), norms=4, per_layer=lambda _: mixing, outside=around)


def shapes(c: Config, types: Sequence[str]) -> list[tuple[int, int]]:
    """(KV heads, head_dim) of every layer of Gemma 4: the full ones differ, by two keys or by a list of differences."""
    query, kv, dim = gqa.heads(c)
    listed = c.by_layer("per_layer_config", "head_dim", "num_key_value_heads")
    if listed is None:
        wide = c.count("global_head_dim", default=512)  # the class takes 512 where the file is silent
        few = c.maybe("num_global_key_value_heads") if c.flag("attention_k_eq_v") else None
        full = (few or kv, wide)
        gqa.check_groups(c, query, full[0])
        found = [full if kind == "full_attention" else (kv, dim) for kind in types]
    else:
        found = [(kv, dim)] * len(types)
        for layer, own in listed.items():
            heads = own.maybe("num_key_value_heads") or kv  # absent: the value of the whole model
            gqa.check_groups(own, query, heads)
            if layer < len(found):
                found[layer] = (heads, own.maybe("head_dim") or dim)
    c.dismiss("global_head_dim", "num_global_key_value_heads")
    return found


@family("gemma4_text", "gemma4_unified_text")
def gemma4(c: Config) -> Stack:
    """Wider heads on full layers; by switches shared caches, per-layer embeddings, experts beside the dense MLP."""
    causal(c)
    hidden, depth = c.hidden, c.layers
    types = layer_types(c, depth, every(6))
    types = [*types[:-1], "full_attention"]  # the class forces the last one
    looks, shape, reads = spans(c, types), shapes(c, types), sources(c, types)
    query = c.count("num_attention_heads")
    biases = "qkvo" if c.flag("attention_bias") else ""
    same_kv = c.flag("attention_k_eq_v")

    def attention(layer: int) -> Attention:
        own = reads[layer] == layer
        kv, dim = shape[layer]
        if not own and (kv, dim) != shape[reads[layer]]:
            raise c.fail("num_kv_shared_layers", c.get("num_kv_shared_layers"), "shared between layers of one shape")
        return gqa.build(
            hidden,
            query,
            kv,
            dim,
            span=looks[layer],
            biases=biases,
            qk_norm=(dim, dim if own else 0),
            project_kv=own,
            project_v=not (same_kv and types[layer] == "full_attention"),
            stored=own,
        )

    inner, doubled = c.count("intermediate_size"), c.flag("use_double_wide_mlp")
    blocks = {wide: dense(hidden, inner * (2 if wide else 1)) for wide in (False, True)}
    extra: tuple[Weight, ...] = ()
    norms = 4
    if c.flag("enable_moe_block"):
        number, used = experts(c)
        scales = (Weight("router.scale", "router", hidden), Weight("router.per_expert_scale", "router", number))
        mixture = moe(hidden, number, used, c.count("moe_intermediate_size"), extra=scales)
        blocks = {wide: Mlp(block.weights + mixture.weights, number, used) for wide, block in blocks.items()}
        norms = 7
    # Of no use without the block.
    c.dismiss("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
    around: tuple[Weight, ...] = ()
    width = c.maybe("hidden_size_per_layer_input", least=0) or 0
    if width:
        extra, around = gate(c, width), table(c, width)
    c.dismiss("vocab_size_per_layer_input")
    return decoder(
        c,
        attention,
        lambda layer: blocks[doubled and reads[layer] != layer],
        norms=norms,
        per_layer=lambda _: extra,
        outside=around,
    )
