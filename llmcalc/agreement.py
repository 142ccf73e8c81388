"""Keys that nobody asked for, and whether what they say is what was read anyway.

A file may say a thing twice, under a name of another family or as a switch that changes nothing here. That is no reason to refuse:
each key is compared with the model as read. What contradicts it, or means something that no model shows, stays an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmcalc.architecture import Layer, Stack

# Other names of one number.
_NAMES: dict[str, str] = {
    "heads": "num_attention_heads num_heads n_heads n_head decoder_attention_heads num_query_heads num_attention_heads_per_layer",
    "kv_heads": """num_key_value_heads num_kv_heads n_kv_heads n_head_kv kv_n_heads num_query_groups multi_query_group_num
        num_attention_groups num_key_value_heads_per_layer""",
    "head_dim": "head_dim attention_head_dim kv_channels head_size hidden_size_per_head d_kv qk_head_dim qk_rope_head_dim",
    "value_dim": "v_head_dim",
    "hidden": "hidden_size n_embd n_embed d_model model_dim embedding_dim embedding_size word_embed_proj_dim",
    "layers": "num_hidden_layers n_layer n_layers num_layers num_transformer_layers decoder_layers num_decoder_layers",
    "vocab": "vocab_size padded_vocab_size decoder_vocab_size output_vocab_size unpadded_vocab_size",
    "width": "intermediate_size n_inner ffn_dim ffn_hidden_size inner_hidden_size d_ff dff ff_intermediate_size dense_intermediate_size",
    "experts": "num_experts n_routed_experts num_local_experts moe_num_experts",
    "top_k": "num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k top_k_experts",
    "expert_width": "moe_intermediate_size moe_ffn_hidden_size expert_ffn_hidden_size expert_intermediate_size",
    "shared_width": "shared_expert_intermediate_size shared_intermediate_size",
    "dense": "num_dense_layers",
}
NUMBERS = {name: fact for fact, names in _NAMES.items() for name in names.split()}
_WINDOWS = frozenset("use_sliding_window sliding_window sliding_window_size max_window_layers".split())
_PERIODS = frozenset("sliding_window_pattern sliding_window_layers sliding_window_period".split())
_TIES = frozenset("tie_word_embeddings tie_embedding weight_tying share_input_output_layers".split())
_SPARSE_ONLY = frozenset(
    """first_k_dense_replace decoder_sparse_step mlp_only_layers moe_layer_freq interleave_moe_layer_step moe_layer_interval
    shared_expert_intermediate_size""".split()
) | frozenset((*_NAMES["top_k"].split(), *_NAMES["expert_width"].split()))
_STEPS = frozenset("decoder_sparse_step moe_layer_freq interleave_moe_layer_step moe_layer_interval".split())
_ONCE = frozenset("num_loops cla_share_factor altup_num_inputs".split())
"""How often a thing is used, of which once is what every model does."""
_ALL_FULL = frozenset("full_attention_interval attn_layer_period".split())
_LAYERS = frozenset("layer_types block_types layers_block_type attn_type_list mixer_types".split())
_SPARSE = frozenset("mlp_layer_types is_moe_layer moe_layer_freq".split())
_KINDS = {"full": "full_attention", "window": "sliding_attention", "chunked": "chunked_attention"}
_WORDS = {"attention": "full_attention", "full": "full_attention", "global": "full_attention", "local_attention": "sliding_attention"}
_FLAGS: dict[Any, bool] = {"sparse": True, "moe": True, "dense": False, "mlp": False, 0: False, 1: True}
_SWITCHES: dict[str, tuple[str, ...]] = {
    "use_sliding_window": (*_WINDOWS, *_PERIODS),
    "use_sparse_attention": ("sparse_",),
    "use_mla": ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    "use_dsa": ("index_",),
    "use_cla": ("cla_",),
    "mamba_enabled": ("mamba_",),
}
"""What means nothing where the file itself switches it off, by how the keys begin."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the layers of a model show."""

    numbers: Mapping[str, frozenset[int]]
    biased: frozenset[str]
    """Of attention, mlp: those all of whose matrices have biases; of any, some."""
    normed: bool
    gated: bool
    centred: bool
    """Whether its norms take the mean away, else they are RMS norms."""
    placed: bool
    """Whether it has a table of positions."""
    windowed: bool
    sparse: tuple[bool, ...]
    kinds: tuple[str, ...]
    tied: bool
    max_context: int | None

    @property
    def dense(self) -> list[int]:
        """The layers without experts."""
        return [index for index, sparse in enumerate(self.sparse) if not sparse]


def facts(stack: Stack) -> Facts:
    """Read off the weights and entries of every distinct layer."""
    distinct = list(dict.fromkeys(stack.layers))
    mixers = [mixer for layer in distinct for mixer in layer.mixers if mixer.entries]
    weights = [weight for layer in distinct for weight in layer.all_weights]
    names = {weight.name for weight in weights}
    dims = [dict(entry.args) for mixer in mixers for entry in mixer.entries[:1]]
    ups = [weight for weight in weights if weight.name.endswith("up_proj")]
    sparse = tuple(bool(layer.mlp and layer.mlp.experts) for layer in stack.layers)
    found = {
        "heads": (mixer.query_heads for mixer in mixers),
        "kv_heads": (mixer.kv_heads for mixer in mixers),
        "head_dim": (args.get("head_dim") or args.get("key_dim") or 0 for args in dims),
        "value_dim": (args.get("value_dim") or args.get("head_dim") or 0 for args in dims),
        "hidden": (stack.hidden,),
        "layers": (len(stack.layers),),
        "vocab": (stack.vocab,),
        "width": (weight.rows for weight in ups if weight.part == "mlp"),
        "expert_width": (weight.rows for weight in ups if weight.part == "experts"),
        "shared_width": (weight.rows for weight in ups if weight.part == "shared experts"),
        "experts": (layer.mlp.experts for layer in distinct if layer.mlp and layer.mlp.experts),
        "top_k": (layer.mlp.top_k for layer in distinct if layer.mlp and layer.mlp.experts),
        "dense": (len(sparse) - sum(sparse),),
    }
    return Facts(
        numbers={fact: frozenset(values) for fact, values in found.items()},
        biased=frozenset(_biased(names)),
        normed="q_norm" in names,
        gated=any(name.endswith("gate_proj") for name in names),
        centred="norm.bias" in names,
        placed=any(weight.part == "positions" for weight in stack.outside),
        windowed=any(entry.window for mixer in mixers for entry in mixer.entries),
        sparse=sparse,
        kinds=tuple(_kind(layer) for layer in stack.layers),
        tied=stack.tied,
        max_context=stack.max_context,
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
    """What a switch would have to say; None: the key is no switch that a model shows."""
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
    if key in ("is_gated_act", "ffn_with_glu"):
        return known.gated
    if key in ("rmsnorm", "use_gemma_norm"):
        return not known.centred
    if key in ("group_query_attention", "multi_query_attention"):
        return known.numbers["kv_heads"] != known.numbers["heads"]
    if key == "multi_query":
        return known.numbers["kv_heads"] == {1}
    if key == "use_mla":
        return all(kind.startswith("mla") for kind in known.kinds)
    return known.tied if key in _TIES else None


def _words(key: str, known: Facts) -> tuple[str, ...]:
    """What a key that is a word may say."""
    if key in ("norm_type", "layer_norm_type"):
        return ("layernorm", "layer_norm", "layer") if known.centred else ("rmsnorm", "rms_norm", "rms")
    if key == "position_embedding_type":
        return ("absolute", "learned", "learned_absolute") if known.placed else ("rope", "rotary", "alibi", "nope")
    return ()


def _by_layer(key: str, value: list[Any], known: Facts) -> bool:
    """Whether a list of one thing for each layer says what the layers are."""
    if key == "mlp_only_layers":
        return any(known.sparse) and sorted(map(str, value)) == sorted(map(str, known.dense))
    mine = value[: len(known.kinds)]
    if len(mine) < len(known.kinds) or any(isinstance(each, list | dict) for each in mine):
        return False
    if key in _LAYERS:
        return [_WORDS.get(each, each) for each in mine] == list(known.kinds)
    if key in _SPARSE:
        return [_FLAGS.get(each) for each in mine] == list(known.sparse)
    return frozenset(mine) == known.numbers.get(NUMBERS.get(key, ""))


def _counts(key: str, config: Mapping[str, Any], known: Facts) -> frozenset[int]:
    """The numbers that say nothing but what was read."""
    once = frozenset({1})
    leading = len(known.dense) if known.dense == list(range(len(known.dense))) else -1
    if key in _ONCE or (key in _ALL_FULL and set(known.kinds) == {"full_attention"}) or (key in _PERIODS and not known.windowed):
        return once
    if any(known.sparse):
        if key == "first_k_dense_replace":
            return frozenset({leading})
        if key in _STEPS:
            return once if leading >= 0 else frozenset()
    elif key in _STEPS or NUMBERS.get(key) in ("experts", "top_k"):
        return once  # one expert of one is a plain MLP
    if key == "qk_nope_head_dim":
        whole, rope = config.get("qk_head_dim") or config.get("head_dim"), config.get("qk_rope_head_dim")
        return frozenset({whole - rope}) if type(whole) is type(rope) is int else frozenset()
    return known.numbers.get(NUMBERS.get(key, ""), frozenset())


def _without(key: str, value: Any, config: Mapping[str, Any], known: Facts) -> bool:
    """Whether the file itself says that what the key is about is not there."""
    for switch, stems in _SWITCHES.items():
        if config.get(switch) is False and key.startswith(stems):
            return True
    if key in (*_WINDOWS, *_PERIODS) and not known.windowed:
        given = config.get("sliding_window", 1)
        if given in (None, -1, 0) or (key in _WINDOWS and value in (-1, 0)):
            return True
        # A window as long as the longest context is none.
        return bool(type(given) is int and known.max_context and given >= known.max_context)
    if key in _SPARSE_ONLY and not any(known.sparse):
        counts = [config[name] for name in _NAMES["experts"].split() if name in config]
        return bool(counts) and all(count in (None, 0, 1) for count in counts)
    return False


def agrees(key: str, value: Any, config: Mapping[str, Any], known: Facts) -> bool:
    """Whether a key that nobody read says nothing but what was read."""
    if _without(key, value, config, known):
        return True
    if isinstance(value, bool):
        return value is _switch(key, known)
    if isinstance(value, str):
        return value.lower() in _words(key, known)
    if isinstance(value, list):
        return _by_layer(key, value, known)
    counts = _counts(key, config, known)
    return isinstance(value, int | float) and len(counts) == 1 and value in counts


def fine(key: str, value: Any, config: Mapping[str, Any], known: Facts) -> str:
    """The value that would have been fine, in words."""
    switch = _switch(key, known)
    if switch is not None or isinstance(value, bool):
        return str(bool(switch)).lower()
    words = _words(key, known)
    if words:
        return words[0]
    if key == "mlp_only_layers":
        return str(known.dense if any(known.sparse) else [])
    if isinstance(value, list) and (key in _LAYERS or key in _SPARSE):
        each = known.kinds if key in _LAYERS else ["sparse" if sparse else "dense" for sparse in known.sparse]
        return f"{each[0]} throughout" if len(set(each)) == 1 else f"{', '.join(each[:6])}, …"
    counts = sorted(_counts(key, config, known))
    return " and ".join(f"{count:,}" for count in counts if count >= 0) or "null"
