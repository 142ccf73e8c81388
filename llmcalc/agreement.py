"""Keys that nobody asked for, and whether what they say is what was read anyway.

A file may say a thing twice, under a name of another family or as a switch that changes nothing here. That is no reason to refuse:
each key is compared with the model as read. What contradicts it, or means something that no model shows, stays an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmcalc.architecture import Layer, Stack

# Other names of one number.
_NAMES: dict[str, str] = {
    "heads": "num_attention_heads num_heads n_heads n_head decoder_attention_heads num_query_heads",
    "kv_heads": "num_key_value_heads num_kv_heads n_kv_heads n_head_kv kv_n_heads num_query_groups multi_query_group_num",
    "head_dim": "head_dim attention_head_dim kv_channels head_size hidden_size_per_head d_kv",
    "hidden": "hidden_size n_embd n_embed d_model model_dim embedding_dim embedding_size word_embed_proj_dim",
    "layers": "num_hidden_layers n_layer n_layers num_layers num_transformer_layers decoder_layers",
    "vocab": "vocab_size padded_vocab_size decoder_vocab_size output_vocab_size",
    "width": "intermediate_size n_inner ffn_dim ffn_hidden_size inner_hidden_size d_ff dff ff_intermediate_size",
    "experts": "num_experts n_routed_experts num_local_experts moe_num_experts",
    "top_k": "num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k top_k_experts",
    "expert_width": "moe_intermediate_size moe_ffn_hidden_size expert_ffn_hidden_size expert_intermediate_size",
}
NUMBERS = {name: fact for fact, names in _NAMES.items() for name in names.split()}
_WINDOWS = frozenset("use_sliding_window sliding_window max_window_layers".split())
_PERIODS = frozenset("sliding_window_pattern sliding_window_layers".split())
_TIES = frozenset("tie_word_embeddings tie_embedding weight_tying share_input_output_layers".split())
_SPARSE_ONLY = frozenset(
    """moe_intermediate_size num_experts_per_tok num_experts_per_token moe_topk moe_k moe_top_k top_k_experts first_k_dense_replace
    decoder_sparse_step mlp_only_layers moe_layer_freq moe_ffn_hidden_size expert_ffn_hidden_size interleave_moe_layer_step
    shared_expert_intermediate_size moe_layer_interval""".split()
)
_STEPS = frozenset("decoder_sparse_step moe_layer_freq interleave_moe_layer_step moe_layer_interval".split())
_KINDS = {"full": "full_attention", "window": "sliding_attention", "chunked": "chunked_attention"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the layers of a model show."""

    numbers: Mapping[str, frozenset[int]]
    biased: frozenset[str]
    """Of attention, mlp: those all of whose matrices have biases; of any, some."""
    normed: bool
    windowed: bool
    sparse: tuple[bool, ...]
    kinds: tuple[str, ...]
    tied: bool


def facts(stack: Stack) -> Facts:
    """Read off the weights and entries of every distinct layer."""
    distinct = list(dict.fromkeys(stack.layers))
    mixers = [mixer for layer in distinct for mixer in layer.mixers if mixer.entries]
    weights = [weight for layer in distinct for weight in layer.all_weights]
    names = {weight.name for weight in weights}
    dims = [dict(entry.args) for mixer in mixers for entry in mixer.entries[:1]]
    ups = [weight for weight in weights if weight.name.endswith("up_proj")]
    found = {
        "heads": (mixer.query_heads for mixer in mixers),
        "kv_heads": (mixer.kv_heads for mixer in mixers),
        "head_dim": (args.get("head_dim") or args.get("key_dim") or 0 for args in dims),
        "hidden": (stack.hidden,),
        "layers": (len(stack.layers),),
        "vocab": (stack.vocab,),
        "width": (weight.rows for weight in ups if weight.part == "mlp"),
        "expert_width": (weight.rows for weight in ups if weight.part == "experts"),
        "experts": (layer.mlp.experts for layer in distinct if layer.mlp and layer.mlp.experts),
        "top_k": (layer.mlp.top_k for layer in distinct if layer.mlp and layer.mlp.experts),
    }
    return Facts(
        numbers={fact: frozenset(values) for fact, values in found.items()},
        biased=frozenset(_biased(names)),
        normed="q_norm" in names,
        windowed=any(entry.window for mixer in mixers for entry in mixer.entries),
        sparse=tuple(bool(layer.mlp and layer.mlp.experts) for layer in stack.layers),
        kinds=tuple(_kind(layer) for layer in stack.layers),
        tied=stack.tied,
    )


def _biased(names: set[str]) -> Iterable[str]:
    if {"q_proj.bias", "k_proj.bias", "v_proj.bias"} <= names:
        yield "qkv"
    if {"q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias"} <= names:
        yield "attention"
    if {"mlp.up_proj.bias", "mlp.down_proj.bias"} <= names:
        yield "mlp"
    if any(name.endswith("_proj.bias") for name in names):
        yield "any"


def _kind(layer: Layer) -> str:
    return _KINDS.get(layer.mixers[0].kind, layer.mixers[0].kind) if len(layer.mixers) == 1 else "several"


def _switch(key: str, known: Facts) -> bool | None:
    """What a switch would have to say."""
    if key in ("attention_bias", "qkv_bias", "use_qkv_bias", "add_qkv_bias", "qkv_proj_bias"):
        return "qkv" in known.biased  # the output's bias, where a class has one, is a key of its own or no key's matter
    if key == "mlp_bias":
        return "mlp" in known.biased
    if key in ("use_bias", "bias", "enable_bias", "add_bias_linear"):
        return {"attention", "mlp"} <= known.biased
    if key == "no_bias":
        return "any" not in known.biased
    if key in ("use_qk_norm", "qk_norm", "qk_layernorm", "normalize_qk_projections"):
        return known.normed
    return known.tied if key in _TIES else None


def _placement(key: str, value: Any, known: Facts) -> bool:
    """Whether a key of mixtures says which layers are sparse as the model has it."""
    dense = [index for index, sparse in enumerate(known.sparse) if not sparse]
    if key == "mlp_only_layers":
        return isinstance(value, list) and sorted(map(str, value)) == sorted(map(str, dense))
    if key == "first_k_dense_replace":
        return bool(value == len(dense) and dense == list(range(len(dense))))
    if key in _STEPS:
        if isinstance(value, list):
            return [bool(flag) for flag in value[: len(known.sparse)]] == list(known.sparse)
        return value == 1 and dense == list(range(len(dense)))
    return False


def agrees(key: str, value: Any, config: Mapping[str, Any], known: Facts) -> bool:
    """Whether a key that nobody read says nothing but what was read."""
    switch = _switch(key, known)
    if switch is not None and isinstance(value, bool):
        return value is switch
    values = known.numbers.get(NUMBERS.get(key, ""), frozenset())
    if values and not isinstance(value, bool):
        return values == {value}
    if key in (*_WINDOWS, *_PERIODS) and not known.windowed:
        off = config.get("use_sliding_window") is False or ("sliding_window" in config and config["sliding_window"] in (None, -1, 0))
        return off or (key in _WINDOWS and value in (-1, 0))
    if key in _SPARSE_ONLY:
        if any(known.sparse):
            return _placement(key, value, known)
        counts = [config[name] for name, fact in NUMBERS.items() if fact == "experts" and name in config]
        return (bool(counts) and all(count in (None, 0, 1) for count in counts)) or (key in _STEPS and value == 1)
    if key == "layer_types":
        return isinstance(value, list) and tuple(value[: len(known.kinds)]) == known.kinds
    return _sum(key, value, config)


def _sum(key: str, value: Any, config: Mapping[str, Any]) -> bool:
    """Widths that follow from one another: a head is its rotary part and the rest."""
    given: Callable[[str], Any] = lambda name: config.get(name)  # noqa: E731
    if key == "qk_nope_head_dim" and isinstance(value, int):
        whole, rope = given("qk_head_dim") or given("head_dim"), given("qk_rope_head_dim")
        return isinstance(whole, int) and isinstance(rope, int) and value == whole - rope
    return False


def fine(key: str, known: Facts) -> str | None:
    """The value that would have been fine, in words, where one is known."""
    switch = _switch(key, known)
    if switch is not None:
        return str(switch).lower()
    values = known.numbers.get(NUMBERS.get(key, ""), frozenset())
    return " and ".join(f"{value:,}" for value in sorted(values)) or None
