"""Which part of a model a tensor of a GGUF file belongs to, and what the quantiser was asked for."""

from __future__ import annotations

import re

from llmcalc.files import Files
from llmcalc.gguf import MIXES

_PARTS = (
    (r"(per_layer_)?token_embd\.", "embedding"),
    (r"enc\.", "encoder"),
    (r"blk\.0\.time_mix_v[012]\.", "stand-ins"),
    (r"position_embd\.", "positions"),
    (r"output\.", "head"),
    (r"rope_(freqs|factors_\w+)\.", "rope factors"),
    (r"\w*_?norm\w*\.", "norms"),
    (r"(v|vision)\.", "vision"),
    (r"a\.", "audio"),
    (r"mm\.|resampler\.", "projector"),
    (r"blk\.\d+\.nextn\.", "mtp"),
    (r"blk\.\d+\.(exp_probs_b|exp_probs_b\.\w+)$", "balancing bias"),
    (r"blk\.\d+\.layer_output_scale(\.|$)", "layer scale"),
    (r"blk\.\d+\.indexer\.(proj|k_norm)", "indexer"),
    (r"blk\.\d+\.((\w+_)?norm(_\w+)?|time_mix_ln)\.", "norms"),
    (r"blk\.\d+\.ffn_gate_tid2eid", "routing tables"),
    (r"(blk\.\d+\.|output_)?hc_", "norms"),
    (r"blk\.\d+\.ffn_gate_inp", "router"),
    (r"blk\.\d+\.ffn_(gate|up|down|gate_up)(_exps|\.\d+)|blk\.\d+\.ffn_latent_", "experts"),
    (r"blk\.\d+\.ffn_\w+_shexp\.", "shared experts"),
    (r"blk\.\d+\.(ssm_(in|out|x|ba|alpha|beta|f_\w|g_\w)|shortconv\.(in|out)_proj)\.", "attention"),
    (r"blk\.\d+\.ssm_dt\.weight", "attention"),
    (r"blk\.\d+\.time_mix_((decay_)?[wavg][12]|key|value|receptance|gate|output)\.", "attention"),
    (r"blk\.\d+\.(ssm_|shortconv\.|time_mix_|channel_mix_lerp_)", "state"),
    (r"blk\.\d+\.(attn_|cross_attn_|indexer\.)", "attention"),
)
_KNOWN_PARTS = re.compile("|".join(f"(?P<p{number}>{pattern})" for number, (pattern, _) in enumerate(_PARTS)))


def part(name: str, depth: int, arch: str = "") -> str:
    """The part of the model that a tensor belongs to, in the words of the readers; what is no parameter has words of its own."""
    if arch == "gemma4" and name.endswith(".ffn_down_exps.scale"):
        return "router"  # its weight per expert, not a quantiser's scale
    name = name.removeprefix("dec.")
    layer = re.match(r"blk\.(\d{1,6})\.", name)
    if layer and int(layer[1]) >= depth:
        return "mtp"
    found = _KNOWN_PARTS.match(name)
    return _PARTS[int(found.lastgroup[1:])][1] if found and found.lastgroup else "mlp"


def scales(name: str, arch: str) -> bool:
    """Whether a tensor is the scale of a quantised matrix: bytes of its part, and no parameter. Gemma 4 has scales of its own."""
    return name.endswith((".scale", ".input_scale")) and arch != "gemma4"


NO_PARAMETERS = {
    "rope factors": "factors of the rotary embedding, computed from the config elsewhere",
    "balancing bias": "the router's balancing bias, a buffer and no parameter",
    "routing tables": "tables that route by token, buffers and no parameters",
    "layer scale": "one scale per layer, a buffer and no parameter",
    "stand-ins": "copies in the first layer, which nothing reads",
}


def mix(files: Files) -> str:
    """What the quantiser was asked for, else the type that most bytes have."""
    named = MIXES.get(files.metadata.get("general.file_type", -1))
    if named:
        return named
    sizes: dict[str, int] = {}
    for tensor in files.tensors:
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.bytes
    most = max(sizes, key=lambda name: sizes[name]).lower() if sizes else "none"
    return {"f16": "fp16", "f32": "fp32"}.get(most, most)
