"""Hybrids and state space."""

from __future__ import annotations

from collections.abc import Sequence

from llmcalc.gguf_config.source import Given, Source, architecture, around, as_mixtral, biased, decoder, experts, heads, number_of, width


@architecture("qwen3next", "qwen35", "qwen35moe")
def qwen3next(s: Source) -> Given:
    """Delta nets with gated attention on every full_attention_interval-th layer; the ssm keys hold the delta net's widths."""
    values, inner = s.need("ssm.time_step_rank"), s.need("ssm.inner_size")
    if inner % values:
        raise s.fail("ssm.inner_size", f"a multiple of ssm.time_step_rank ({values})")
    attends = [s.layer(index, "attn_k.weight") for index in range(s.depth)]
    found = {
        **decoder(s, {"qwen3next": "qwen3_next", "qwen35": "qwen3_5_text", "qwen35moe": "qwen3_5_moe_text"}[s.arch]),
        "linear_conv_kernel_dim": s.need("ssm.conv_kernel"),
        "linear_key_head_dim": s.need("ssm.state_size"),
        "linear_num_key_heads": s.need("ssm.group_count"),
        "linear_num_value_heads": values,
        "linear_value_head_dim": inner // values,
        "layer_types": ["full_attention" if full else "linear_attention" for full in attends],
        "attention_bias": biased(s),
    }
    if s.arch != "qwen35":
        found |= {**experts(s), "shared_expert_intermediate_size": s.first("ffn_up_shexp.weight") or 0}
    if s.arch != "qwen3next" and s.ahead:
        found["mtp_num_hidden_layers"] = s.ahead
    return found


@architecture("mamba", "mamba2")
def mamba(s: Source) -> Given:
    """Mamba blocks alone."""
    inner, hidden = s.need("ssm.inner_size"), s.need("embedding_length")
    found = {
        **around(s, s.arch),
        "state_size": s.need("ssm.state_size"),
        "conv_kernel": s.need("ssm.conv_kernel"),
        "use_conv_bias": s.any("ssm_conv1d.bias"),
        "use_bias": s.any("ssm_in.bias"),
    }
    if s.arch == "mamba":
        kind = "falcon_mamba" if s.raw("ssm.dt_b_c_rms") is True else "mamba"
        return {**found, "model_type": kind, "intermediate_size": inner, "time_step_rank": s.need("ssm.time_step_rank")}
    number = s.need("ssm.time_step_rank")
    if inner % number:
        raise s.fail("ssm.inner_size", f"a multiple of ssm.time_step_rank ({number})")
    return {
        **found,
        "num_heads": number,
        "head_dim": inner // number,
        "expand": inner / hidden,
        "n_groups": s.maybe("ssm.group_count", least=1) or 1,
    }


def period(s: Source, chosen: Sequence[int], which: str) -> Given:
    """A period and an offset that choose exactly these layers."""
    step = chosen[1] - chosen[0] if len(chosen) > 1 else s.depth
    offset = chosen[0] if chosen else 0
    if not chosen or [index for index in range(s.depth) if index % step == offset] != list(chosen):
        raise s.fail("attention.head_count_kv", f"such that {which} layers come at one period")
    return {f"{which}_layer_period": step, f"{which}_layer_offset": offset}


@architecture("jamba")
def jamba(s: Source) -> Given:
    """Mamba 1 with attention and experts on layers of their own period."""
    inner, hidden = s.need("ssm.inner_size"), s.need("embedding_length")
    routed = [index for index in range(s.depth) if s.layer(index, "ffn_gate_inp.weight")]
    return {
        **decoder(s, "jamba"),
        **period(s, [index for index in range(s.depth) if s.layer(index, "attn_k.weight")], "attn"),
        **(period(s, routed, "expert") if routed else {}),
        "num_experts": s.maybe("expert_count") or 1,
        "num_experts_per_tok": s.maybe("expert_used_count") or 1,
        "mamba_expand": inner / hidden,
        "mamba_d_state": s.need("ssm.state_size"),
        "mamba_d_conv": s.need("ssm.conv_kernel"),
        "mamba_dt_rank": s.need("ssm.time_step_rank"),
        "mamba_conv_bias": s.any("ssm_conv1d.bias"),
        "mamba_proj_bias": s.any("ssm_in.bias"),
    }


def mamba2_keys(s: Source) -> Given:
    """Mamba 2 by the keys of Bamba and Granite. What llama.cpp calls the time-step rank is the number of heads."""
    number, inner = s.need("ssm.time_step_rank"), s.need("ssm.inner_size")
    if inner % number:
        raise s.fail("ssm.inner_size", f"a multiple of ssm.time_step_rank ({number})")
    return {
        "mamba_n_heads": number,
        "mamba_d_head": inner // number,
        "mamba_n_groups": s.maybe("ssm.group_count", least=1) or 1,
        "mamba_d_state": s.need("ssm.state_size"),
        "mamba_d_conv": s.need("ssm.conv_kernel"),
        "mamba_conv_bias": s.any("ssm_conv1d.bias"),
        "mamba_proj_bias": s.any("ssm_in.bias"),
    }


@architecture("granitehybrid")
def granitehybrid(s: Source) -> Given:
    """Granite 4 and Bamba: the layers with KV heads attend."""
    found = {
        **decoder(s, "granitemoehybrid"),
        **mamba2_keys(s),
        "mamba_expand": s.need("ssm.inner_size") / s.need("embedding_length"),
        "layer_types": ["attention" if s.layer(index, "attn_k.weight") else "mamba" for index in range(s.depth)],
        "attention_bias": biased(s),
        "shared_intermediate_size": s.first("ffn_up_shexp.weight", "ffn_up.weight"),
        "num_local_experts": s.maybe("expert_count") or 0,
    }
    return {**found, **as_mixtral(s)} if found["num_local_experts"] else found


@architecture("falcon-h1")
def falcon_h1(s: Source) -> Given:
    """Attention and Mamba 2 side by side."""
    return {
        **decoder(s, "falcon_h1"),
        **mamba2_keys(s),
        "mamba_d_ssm": s.need("ssm.inner_size"),
        "attention_bias": biased(s),
        "mamba_rms_norm": s.any("ssm_norm.weight"),
        "mlp_bias": s.any("ffn_up.bias"),
        "projectors_bias": s.any("ssm_out.bias"),
    }


@architecture("nemotron_h", "nemotron_h_moe")
def nemotron_h(s: Source) -> Given:
    """Each layer is one thing; its tensors say which."""
    kinds = {"ssm_in.weight": "mamba", "attn_k.weight": "attention", "ffn_up_exps.weight": "moe", "ffn_up.weight": "mlp"}
    listed = []
    for index in range(s.depth):
        kind = next((kind for name, kind in kinds.items() if s.layer(index, name)), None)
        if kind is None:
            raise s.fail("block_count", f"a number of layers that each have tensors (layer {index} has none)")
        listed.append(kind)
    number, inner = s.need("ssm.time_step_rank"), s.need("ssm.inner_size")
    found = {
        **around(s, "nemotron_h"),
        **heads(s),
        "layers_block_type": listed,
        "mamba_num_heads": number,
        "mamba_head_dim": inner // number,
        "n_groups": s.maybe("ssm.group_count", least=1) or 1,
        "ssm_state_size": s.need("ssm.state_size"),
        "conv_kernel": s.need("ssm.conv_kernel"),
        "use_bias": s.any("ssm_in.bias"),
        "use_conv_bias": s.any("ssm_conv1d.bias"),
        "mlp_bias": s.any("ffn_up.bias"),
        "num_nextn_predict_layers": s.ahead,
        **number_of([("intermediate_size", s.first("ffn_up.weight"))]),
    }
    if "moe" in listed:
        routed = experts(s)
        found |= number_of(
            [
                ("n_routed_experts", routed["num_experts"]),
                ("num_experts_per_tok", routed["num_experts_per_tok"]),
                ("moe_intermediate_size", routed["moe_intermediate_size"]),
                ("moe_shared_expert_intermediate_size", s.first("ffn_up_shexp.weight")),
                ("moe_latent_size", s.maybe("moe_latent_size", least=1)),
                ("n_shared_experts", 1),
            ]
        )
    return found


@architecture("lfm2", "lfm2moe")
def lfm2(s: Source) -> Given:
    """Short convolutions; head_count_kv is 0 on their layers."""
    found = {
        **decoder(s, "lfm2" if s.arch == "lfm2" else "lfm2_moe"),
        "layer_types": ["conv" if s.layer(index, "shortconv.conv.weight") else "full_attention" for index in range(s.depth)],
        "conv_L_cache": s.need("shortconv.l_cache"),
        "conv_bias": s.any("shortconv.conv.bias"),
        "block_auto_adjust_ff_dim": False,  # feed_forward_length is the adjusted width
    }
    if s.arch == "lfm2moe":
        found |= {**experts(s), "num_dense_layers": s.maybe("leading_dense_block_count") or 0}
    return found


@architecture("rwkv6", "rwkv6qwen2")
def rwkv6(s: Source) -> Given:
    """RWKV 6, alone or in Qwen's layers."""
    found = {
        **around(s, s.arch),
        **width(s),
        "head_size": s.need("wkv.head_size"),
        "time_mix_extra_dim": s.need("time_mix_extra_dim"),
        "time_decay_extra_dim": s.need("time_decay_extra_dim"),
    }
    if s.arch == "rwkv6":
        return found
    return {
        **found,
        "num_key_value_heads": s.maybe("attention.head_count_kv", least=1) or found["hidden_size"] // found["head_size"],
        "attention_bias": s.any("time_mix_key.bias"),
        "use_time_first": s.any("time_mix_first.weight"),
    }


@architecture("rwkv7", "arwkv7")
def rwkv7(s: Source) -> Given:
    """RWKV 7, alone or in Qwen's layers, where gate and group norm may be absent."""
    ranks = {"decay": "decay", "a": "iclr", "v": "value_residual_mix", "gate": "gate"}
    return {
        **around(s, s.arch),
        **width(s),
        "head_dim" if s.arch == "rwkv7" else "head_size": s.need("wkv.head_size"),
        **{f"{name}_low_rank_dim": s.need(f"attention.{word}_lora_rank", least=int(name != "gate")) for name, word in ranks.items()},
        **({} if s.arch == "rwkv7" else {"use_group_norm": s.any("time_mix_ln.weight")}),
    }


@architecture("plamo2")
def plamo2(s: Source) -> Given:
    """Mamba 2, with attention where there are heads."""
    attends = [index for index in range(s.depth) if s.layer(index, "attn_qkv.weight")]
    inner, number, dim = s.need("ssm.inner_size"), s.need("ssm.time_step_rank"), s.need("attention.key_length")
    if inner != number * dim:
        raise s.fail("ssm.inner_size", f"ssm.time_step_rank x attention.key_length ({number * dim})")
    step = 2 * attends[0] + (1 if len(attends) > 1 and (attends[1] - attends[0]) % 2 else 0) if attends else 0
    if not step or attends != [index for index in range(s.depth) if index % step == step // 2]:
        raise s.fail("attention.head_count_kv", "such that layers that attend come at one period")
    return {
        **around(s, "plamo2"),
        **width(s),
        "num_attention_heads": s.need("attention.head_count"),
        "num_key_value_heads": s.need("attention.head_count_kv"),
        "hidden_size_per_head": dim,
        "mamba_num_heads": number,
        "mamba_d_state": s.need("ssm.state_size"),
        "mamba_d_conv": s.need("ssm.conv_kernel"),
        "mamba_step": step,
    }
