"""Mixers whose memory does not grow with the context: Mamba 1 and 2, gated delta rules, RG-LRU, RWKV, convolutions.

The convolution keeps its last kernel - 1 inputs in the model's dtype; the recurrent state is fp32 unless the family says
otherwise. Matrices that a token multiplies with belong to the part "attention" (they are the token mixer, and are quantised
like attention); convolutions, decays, time steps and skips are "state".
"""

from __future__ import annotations

from llmcalc.architecture import Attention, Kind, State, StateDtype, Weight, linear, norm
from llmcalc.formulas.memory import conv_state_elements, ssm_state_elements, vector_state_elements


def conv(channels: int, kernel: int, name: str = "conv") -> State:
    """A causal convolution's memory."""
    return State(name, conv_state_elements, (("channels", channels), ("kernel", kernel)), "model")


def matrix(heads: int, head_dim: int, state_dim: int, dtype: StateDtype = "fp32", name: str = "recurrent") -> State:
    """One head_dim × state_dim matrix per head."""
    return State(name, ssm_state_elements, (("heads", heads), ("head_dim", head_dim), ("state_dim", state_dim)), dtype)


def vectors(number: int, width: int, dtype: StateDtype, name: str = "recurrent") -> State:
    """A few vectors per layer."""
    return State(name, vector_state_elements, (("vectors", number), ("width", width)), dtype)


def build(kind: Kind, weights: tuple[Weight, ...], *states: State) -> Attention:
    """A recurrent mixer."""
    return Attention(kind, weights, states=states)


def convolution(name: str, channels: int, kernel: int, bias: bool = False) -> tuple[Weight, ...]:
    """The weights of a depthwise convolution."""
    return linear(name, "state", channels, kernel, bias)


def mamba1(
    hidden: int,
    inner: int,
    state: int,
    rank: int,
    kernel: int,
    *,
    bias: bool,
    conv_bias: bool,
    heads: int = 1,
    norms: bool = False,
) -> Attention:
    """Mamba 1. `heads` independent selective scans (Zamba); `norms` on time step, B and C (Jamba)."""
    into = inner // heads
    weights = linear("mamba.in_proj", "attention", 2 * inner, hidden, bias)
    weights += convolution("mamba.conv1d", inner, kernel, conv_bias)
    weights += linear("mamba.x_proj", "attention", rank + 2 * state, into, copies=heads)
    weights += linear("mamba.dt_proj", "attention", into, rank, True, heads)
    weights += (Weight("mamba.A_log", "state", inner, state), Weight("mamba.D", "state", inner))
    if norms:
        weights += norm("mamba.dt_layernorm", rank) + norm("mamba.b_layernorm", state) + norm("mamba.c_layernorm", state)
    weights += linear("mamba.out_proj", "attention", hidden, inner, bias)
    return build("mamba1", weights, conv(inner, kernel), matrix(inner, 1, state, name="ssm"))


def mamba2(
    hidden: int,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    kernel: int,
    *,
    bias: bool,
    conv_bias: bool,
    out_bias: bool | None = None,
    gated_norm: bool = True,
) -> Attention:
    """Mamba 2. One input projection makes gate, convolved channels (x, B and C of every group) and time steps."""
    inner = heads * head_dim
    channels = inner + 2 * groups * state
    weights = linear("mamba.in_proj", "attention", inner + channels + heads, hidden, bias)
    weights += convolution("mamba.conv1d", channels, kernel, conv_bias)
    weights += tuple(Weight(f"mamba.{name}", "state", heads) for name in ("dt_bias", "A_log", "D"))
    weights += norm("mamba.norm", inner) if gated_norm else ()
    weights += linear("mamba.out_proj", "attention", hidden, inner, bias if out_bias is None else out_bias)
    return build("mamba2", weights, conv(channels, kernel), matrix(heads, head_dim, state, name="ssm"))


def delta_net(hidden: int, key_heads: int, key_dim: int, value_heads: int, value_dim: int, kernel: int, projections: str) -> Attention:
    """Gated delta net. `projections`: "fused" (Qwen3-Next: qkvz, ba), "split" (Qwen3.5: qkv, z, b, a) or "single" (OLMo)."""
    keys, values = key_heads * key_dim, value_heads * value_dim
    channels = 2 * keys + values
    rows = {
        "fused": (("in_proj_qkvz", channels + values), ("in_proj_ba", 2 * value_heads)),
        "split": (
            ("in_proj_qkv", channels),
            ("in_proj_z", values),
            ("in_proj_b", value_heads),
            ("in_proj_a", value_heads),
        ),
        "single": (
            ("q_proj", keys),
            ("k_proj", keys),
            ("v_proj", values),
            ("a_proj", value_heads),
            ("b_proj", value_heads),
            ("g_proj", values),
        ),
    }[projections]
    weights: tuple[Weight, ...] = ()
    for name, out in rows:
        weights += linear(f"linear_attn.{name}", "attention", out, hidden)
    weights += convolution("linear_attn.conv1d", channels, kernel)
    weights += tuple(Weight(f"linear_attn.{name}", "state", value_heads) for name in ("dt_bias", "A_log"))
    weights += norm("linear_attn.norm", value_dim) + linear("linear_attn.out_proj", "attention", hidden, values)
    return build("delta-net", weights, conv(channels, kernel), matrix(value_heads, key_dim, value_dim))


def kimi_delta(hidden: int, heads: int, dim: int, kernel: int, *, low_rank_forget: bool, low_rank_gate: bool, decays: int) -> Attention:
    """Kimi delta attention: a decay per channel. Forget gate and output gate are full matrices or pass through one head's width."""
    width = heads * dim

    def gate(name: str, low_rank: bool) -> tuple[Weight, ...]:
        if not low_rank:
            return linear(f"self_attn.{name}_proj", "attention", width, hidden)
        down = linear(f"self_attn.{name}_a_proj", "attention", dim, hidden)
        return down + linear(f"self_attn.{name}_b_proj", "attention", width, dim)

    weights: tuple[Weight, ...] = ()
    for name in "qkv":
        weights += linear(f"self_attn.{name}_proj", "attention", width, hidden)
        weights += convolution(f"self_attn.{name}_conv1d", width, kernel)
    weights += (Weight("self_attn.A_log", "state", decays), Weight("self_attn.dt_bias", "state", width))
    weights += gate("f", low_rank_forget) + linear("self_attn.b_proj", "attention", heads, hidden) + gate("g", low_rank_gate)
    weights += norm("self_attn.o_norm", dim) + linear("self_attn.o_proj", "attention", hidden, width)
    return build("kimi-delta", weights, conv(3 * width, kernel), matrix(heads, dim, dim))


def lightning(hidden: int, heads: int, dim: int) -> Attention:
    """Lightning attention (MiniMax): linear attention with a fixed decay; the state is kept in the model's dtype."""
    width = heads * dim
    weights = linear("self_attn.qkv_proj", "attention", 3 * width, hidden)
    weights += linear("self_attn.output_gate", "attention", width, hidden)
    weights += linear("self_attn.out_proj", "attention", hidden, width) + norm("self_attn.norm", width)
    return build("lightning", weights, matrix(heads, dim, dim, "model"))


def short_conv(hidden: int, kernel: int, bias: bool) -> Attention:
    """LFM2: a gated convolution over a few tokens, without any other state."""
    weights = linear("conv.in_proj", "attention", 3 * hidden, hidden, bias)
    weights += convolution("conv.conv", hidden, kernel, bias)
    return build("short-conv", weights + linear("conv.out_proj", "attention", hidden, hidden, bias), conv(hidden, kernel))


def rg_lru(hidden: int, width: int, blocks: int, kernel: int) -> Attention:
    """Griffin's gated linear recurrence, with block-diagonal gates."""
    block = width // blocks
    weights = linear("temporal_block.linear_y", "attention", width, hidden, True)
    weights += linear("temporal_block.linear_x", "attention", width, hidden, True)
    weights += convolution("temporal_block.conv_1d", width, kernel, True)
    weights += (Weight("rg_lru.recurrent_param", "state", width),)
    for name in ("input_gate", "recurrent_gate"):
        weights += (Weight(f"rg_lru.{name}_weight", "state", block, block, blocks, blocks),)
        weights += (Weight(f"rg_lru.{name}_bias", "state", width),)
    weights += linear("temporal_block.linear_out", "attention", hidden, width, True)
    return build("rg-lru", weights, conv(width, kernel), vectors(1, width, "fp32"))
