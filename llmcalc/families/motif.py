"""Motif-3: grouped differential attention over latents, several residual streams, activations with learned coefficients.

Shapes by the published tensor list (Motif-Technologies/Motif-3 @ccceb1a); what is cached by llama.cpp (models/motif3.cpp).
"""

from __future__ import annotations

from llmcalc.architecture import Attention, Entry, Mlp, Stack, Weight, decoder, linear, norm
from llmcalc.config import Config
from llmcalc.families import family
from llmcalc.formulas.memory import latent_bytes_per_token, split_kv_bytes_per_token
from llmcalc.mlp import dense, moe


def differential(c: Config) -> tuple[Attention, Attention | None]:
    """A layer that sees everything and keeps latents, and one with a window, which keeps keys and values of few heads.

    The last head of each group is noise, which is taken from the others: the output has the signal heads alone.
    """
    hidden, heads, kv, noise = c.hidden, c.count("num_attention_heads"), c.count("num_key_value_heads"), c.count("num_noise_heads")
    if heads % noise or kv != noise:
        raise c.fail("num_noise_heads", noise, f"num_key_value_heads ({kv}), and a divisor of num_attention_heads ({heads})")
    key, rope = c.count("head_dim"), c.count("qk_rope_head_dim")
    value, rank, q_rank = c.count("v_head_dim"), c.count("kv_lora_rank"), c.count("q_lora_rank")
    if rope > key:
        raise c.fail("qk_rope_head_dim", rope, f"at most head_dim ({key})")
    signal = heads - noise
    weights = linear("q_a_proj", "attention", q_rank, hidden) + norm("q_a_layernorm", q_rank)
    weights += linear("q_b_proj", "attention", heads * key, q_rank)
    if c.flag("elementwise_attn_output_gate"):
        weights += linear("q_b_gate", "attention", signal * value, q_rank)
    weights += linear("kv_a_proj_with_mqa", "attention", rank + rope, hidden) + norm("kv_a_layernorm", rank)
    weights += linear("kv_b_proj", "attention", kv * (key - rope + value), rank)
    weights += linear("lambda_proj", "attention", signal, hidden) + linear("o_proj", "attention", hidden, signal * value)
    whole = 2 * heads * (key + value)
    latent = Entry(
        latent_bytes_per_token,
        (("kv_lora_rank", rank), ("qk_rope_head_dim", rope)),
        flops=2 * heads * (2 * rank + rope),
        prefill_flops=whole,
    )
    full = Attention("mla", weights, (latent,), query_heads=heads, kv_heads=1)
    if not c.flag("use_sliding_window"):
        c.dismiss("sliding_window", "sliding_window_pattern", "sliding_window_period")
        return full, None
    # The class lets a query see sliding_window tokens before it.
    near = Entry(
        split_kv_bytes_per_token,
        (("kv_heads", kv), ("key_dim", key), ("value_dim", value)),
        window=c.count("sliding_window") + 1,
        flops=whole,
    )
    return full, Attention("window", weights, (near,), query_heads=heads, kv_heads=kv)


def streams(c: Config) -> tuple[Weight, ...]:
    """What mixes the residual streams around a layer's attention and its MLP."""
    if not c.flag("mhc_enabled"):
        c.dismiss("mhc_expansion_rate")
        return ()
    number = c.count("mhc_expansion_rate", most=64)
    each: tuple[Weight, ...] = ()
    for name, out in (("pre", number), ("post", number), ("res", number * number)):
        each += (Weight(f"mhc.proj_{name}", "norms", out, number * c.hidden), Weight(f"mhc.bias_{name}", "norms", out))
        each += (Weight(f"mhc.alpha_{name}", "norms", 1),)
    return (each + norm("mhc.rms_norm", number * c.hidden)) * 2


COEFFICIENTS = 4
"""Of an activation: of three powers, and a bias."""


@family("Motif")
def motif(c: Config) -> Stack:
    """Full attention on the first layer and every period-th after it; dense layers first, then mixtures."""
    if c.text("attention_cls") != "gdla":
        raise c.fail("attention_cls", c.get("attention_cls"), "gdla: of the Motif models only Motif-3 is read")
    c.dismiss("max_window_layers")  # in the class, which does not use it
    hidden = c.hidden
    full, near = differential(c)
    pattern, period = c.text("sliding_window_pattern", default="interleave"), c.count("sliding_window_period", default=2)
    if pattern not in ("interleave", "all"):
        raise c.fail("sliding_window_pattern", pattern, "interleave or all")
    plain = dense(hidden, c.count("intermediate_size"))
    plain = Mlp((*plain.weights, Weight("mlp.act_fn", "mlp", COEFFICIENTS)))
    number, step = c.maybe("num_experts", least=0) or 0, c.maybe("interleave_moe_layer_step", least=0) or 0
    first, sparse = c.maybe("n_dense_first_layers", least=0) or 0, plain
    if number and step:
        used, inner = c.count("experts_top_k", most=number), c.count("moe_intermediate_size")
        shared = inner * (c.maybe("num_shared_experts", least=0) or 0)
        each: tuple[Weight, ...] = (Weight("mlp.experts.act_fn", "experts", COEFFICIENTS, 1, number, used),)
        each += (Weight("mlp.shared_experts.act_fn", "shared experts", COEFFICIENTS),) if shared else ()
        sparse = moe(hidden, number, used, inner, shared=shared, correction_bias=True, extra=each)
    c.dismiss("experts_top_k", "moe_intermediate_size", "num_shared_experts")
    ahead = full.weights + plain.weights + linear("input_proj", "mtp", hidden, 2 * hidden)
    for name in ("embed_norm", "final_layernorm", "input_layernorm", "post_attention_layernorm"):
        ahead += norm(name, hidden)
    mix = streams(c)
    return decoder(
        c,
        lambda layer: near if near and (pattern == "all" or layer % period) else full,
        lambda layer: sparse if step and layer >= first and (layer + 1) % step == 0 else plain,
        per_layer=lambda _: mix,
        mtp=tuple(weight._replace(part="mtp") for weight in ahead) * (c.maybe("num_nextn_predict_layers", least=0, most=64) or 0),
    )
