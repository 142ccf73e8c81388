"""Feed-forward blocks: dense, and mixtures of experts."""

from __future__ import annotations

from llmcalc.architecture import Mlp, Part, Weight, linear
from llmcalc.config import Config


def dense(hidden: int, inner: int, *, gated: bool = True, bias: bool = False, part: Part = "mlp") -> Mlp:
    """Two matrices, or three when gated. A `part` other than "mlp" names shared experts and the like."""
    return Mlp(_matrices(part, hidden, inner, gated, bias))


def _matrices(
    part: Part, hidden: int, inner: int, gated: bool, bias: bool, copies: int = 1, active: int = 1, prefix: str = "mlp"
) -> tuple[Weight, ...]:
    weights = linear(f"{prefix}.gate_proj", part, inner, hidden, bias, copies, active) if gated else ()
    weights += linear(f"{prefix}.up_proj", part, inner, hidden, bias, copies, active)
    return weights + linear(f"{prefix}.down_proj", part, hidden, inner, bias, copies, active)


def moe(
    hidden: int,
    experts: int,
    top_k: int,
    inner: int,
    *,
    gated: bool = True,
    bias: bool = False,
    shared: int = 0,
    shared_gate: bool = False,
    shared_gated: bool | None = None,
    shared_bias: bool | None = None,
    router_bias: bool = False,
    correction_bias: bool = False,
    latent: int | None = None,
    idle: int = 0,
    extra: tuple[Weight, ...] = (),
) -> Mlp:
    """`experts` blocks of width `inner`, of which a token uses `top_k`, and one shared block of width `shared`.

    `correction_bias`: a per-expert balancing bias that is stored as a parameter. `latent`: experts work in that width.
    `idle`: further experts without weights that the router can pick.
    """
    width = latent or hidden
    weights = linear("mlp.gate", "router", experts + idle, hidden, router_bias)
    if correction_bias:
        weights += (Weight("mlp.gate.e_score_correction_bias", "router", experts),)
    weights += _matrices("experts", width, inner, gated, bias, experts, top_k, "mlp.experts")
    if shared:
        three = gated if shared_gated is None else shared_gated
        with_bias = bias if shared_bias is None else shared_bias
        weights += _matrices("shared experts", hidden, shared, three, with_bias, prefix="mlp.shared_experts")
    if shared_gate:
        weights += linear("mlp.shared_expert_gate", "router", 1, hidden)
    if latent:
        weights += linear("mlp.latent_in", "experts", latent, hidden) + linear("mlp.latent_out", "experts", hidden, latent)
    return Mlp(weights + extra, experts, top_k)


EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
EXPERTS_USED = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts")


def experts(c: Config) -> tuple[int, int]:
    """(experts, experts per token) by the usual keys."""
    number = c.agreed(*EXPERT_COUNTS)
    used = c.agreed(*EXPERTS_USED)
    if used > number:
        raise c.fail("num_experts_per_tok", used, f"at most the number of experts ({number})")
    return number, used
