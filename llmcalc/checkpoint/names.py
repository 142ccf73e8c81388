"""What files call the module of a weight."""

from __future__ import annotations

from llmcalc.architecture import Weight
from llmcalc.checkpoint.schemes import AHEAD

ATTENTION = ("self_attn", "attn", "attention", "mixer")


_MLP = ("mlp", "ffn", "feed_forward", "block_sparse_moe", "mixer")


_FUSED = ("fused_a", "fused_qkv_a_proj")  # TensorRT-LLM's and vLLM's one matrix of both first projections
_SPELLINGS = {
    "q_proj": ("qkv_proj", "query_key_value", "c_attn", "att_proj", "W_pack", "wq"),
    "k_proj": ("qkv_proj", "query_key_value", "c_attn", "att_proj", "W_pack", "wk"),
    "v_proj": ("qkv_proj", "query_key_value", "c_attn", "att_proj", "W_pack", "wv"),
    "o_proj": ("dense", "c_proj", "out_proj", "wo", "attn_out"),
    "gate_proj": ("gate_up_proj", "w1", "gate_and_up_proj"),
    "up_proj": ("gate_up_proj", "w3", "fc1", "c_fc", "dense_h_to_4h"),
    "down_proj": ("w2", "fc2", "c_proj", "dense_4h_to_h"),
    "q_a_proj": ("wq_a", *_FUSED, "fused_wqa_wkv"),
    "kv_a_proj_with_mqa": ("wkv_a", *_FUSED),
    "kv_b_proj": ("wkv_b",),
    "kv_proj": ("wkv", "fused_wqa_wkv"),
    "q_b_proj": ("wq_b",),
    "o_a_proj": ("wo_a",),
    "o_b_proj": ("wo_b",),
}


_ROUTERS = ("mlp.gate", "mlp.router", "router.proj", "router", "feed_forward.router", "feed_forward.gate", "block_sparse_moe.gate")


_OUTSIDE = {
    "embed_tokens": ("embed_tokens", "embeddings", "embed", "wte", "word_embeddings"),
    "lm_head": ("lm_head", "head", "output", "embed_out"),
}


TOWERS = {
    "vision": ("vision_tower", "vision_model", "visual", "vision_backbone", "vision_encoder"),
    "audio": ("audio_tower", "audio_model", "audio_encoder"),
    "projector": ("multi_modal_projector", "mm_projector", "embed_vision", "mlp1", "merger", "patch_merge_mlp", "embed_audio"),
}


PREFIXES = ("", "model.", "model.language_model.", "language_model.model.", "language_model.", "backbone.", "transformer.")


def names(weight: Weight, layer: int | None, *, beside: bool = False, expert: int = 0) -> tuple[str, ...]:
    """What files call the module of a weight, from `layers.N` on; `layer` None outside of the layers.

    `beside`: the experts stand beside a dense MLP in the same layer, not in its place.
    """
    plain = weight.name.removesuffix(".bias")
    if layer is None:
        return _OUTSIDE.get(plain, (plain,))
    first, _, rest = plain.partition(".")
    found: list[str] = []
    if weight.part == "mtp" and plain in AHEAD:
        found += [plain]
    elif plain == "mlp.gate" or first == "router":
        found += _ROUTERS if rest == "gate" else (plain,)
    elif first == "mlp" and rest.startswith("experts."):
        spelled = _spelled(rest.removeprefix("experts."))
        roots = ("experts",) if beside else tuple(f"{root}.experts" for root in _MLP)
        found += [f"{root}.{expert}.{word}" for root in roots for word in spelled]
        found += [f"{root}.{word}" for root in roots for word in spelled]  # all experts of a layer in one tensor
    elif first == "mlp" and rest.startswith("shared_experts."):
        spelled = _spelled(rest.removeprefix("shared_experts."))
        found += [f"{root}.{word}.{last}" for root in _MLP for word in ("shared_experts", "shared_expert") for last in spelled]
    elif first == "mlp":
        found += [f"{root}.{word}" for root in _MLP for word in _spelled(rest)]
    elif first == "mamba":
        found += [plain, f"mixer.{rest}"]
    elif first == "indexer":
        found += [f"{root}.{plain}" for root in ATTENTION] + [f"self_attn.index_{rest}"]
    elif first in ("linear_attn", "self_attn", "attention"):
        found += [plain]
    else:
        found += [f"{root}.{word}" for root in ATTENTION for word in _spelled(plain)]
    inside = [f"layers.{layer}.{name}" for name in found]
    return tuple(inside + ([f"mtp.{root}0.{name}" for root in ("layers.", "") for name in found] if weight.part == "mtp" else []))


def _spelled(name: str) -> tuple[str, ...]:
    return (name, *_SPELLINGS.get(name, ()))
