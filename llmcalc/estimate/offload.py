"""Weights in the host's memory: which layers or experts lie there, and what a step reads of them.

llama.cpp keeps the last `gpu_layers` layers on the card, with their caches, and the head from one more on; of the first
`host_expert_layers` it keeps the routed experts on the host. vLLM keeps `host_bytes` of weights there and reads them over the bus.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmcalc.architecture import Layer, Model, Weight
from llmcalc.errors import UsageError
from llmcalc.estimate import memory
from llmcalc.figures import Figure
from llmcalc.plan import Deployment, Offload

LAID = "by parameters of the layers that lie on the host"


def routed(weight: Weight) -> bool:
    """Whether a weight belongs to experts that are chosen token by token."""
    return weight.part == "experts" and weight.copies > 1


def _params(layer: Layer, experts: bool) -> int:
    return sum(weight.params for weight in layer.all_weights if routed(weight) == experts)


def mixtures(model: Model) -> int:
    """Layers that route to experts."""
    return sum(_params(layer, True) > 0 for layer in model.stack.layers)


def check(model: Model, own: Offload) -> None:
    """Errors: bad-offload, where more is asked for than there is."""
    layers = len(model.stack.layers)
    if own.gpu_layers is not None and own.gpu_layers > layers + 1:
        hint = f"{layers + 1} is all of it, the head included; and so is 99"
        raise UsageError("bad-offload", f"{own.gpu_layers} layers on the GPU: {model.id} has {layers} and a head", hint)
    if own.host_expert_layers and not mixtures(model):
        raise UsageError("bad-offload", f"{model.id} has no experts to keep on the host", "say how many layers stay on the GPU instead")
    if own.host_expert_layers > layers:
        raise UsageError("bad-offload", f"experts of {own.host_expert_layers} layers: {model.id} has {layers}", f"{layers} is all of them")


@dataclass(frozen=True, slots=True)
class Hosted:
    """What of a deployment's weights and caches lies in the host's memory."""

    dense_bytes: float
    """Read once a step."""
    expert_bytes: float
    expert_share: float
    """Of all routed experts."""
    bus_bytes: float
    """Weights that the card reads over the bus at every step."""
    cache_share: float
    """Of the layers that keep a cache."""
    layer_share: float
    """Of the parameters beside experts, tables and head."""
    head: bool
    """Whether the head lies there."""
    crossings: int
    """Times a step goes to the host and back."""

    @property
    def weight_bytes(self) -> float:
        """In the host's memory. [B]"""
        return self.dense_bytes + self.expert_bytes + self.bus_bytes


NOTHING = Hosted(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, False, 0)


def hosted(model: Model, plan: Deployment) -> Hosted:
    """What lies on the host. Errors: bad-offload."""
    own = plan.offload
    if own is None:
        return NOTHING
    check(model, own)
    layers = model.stack.layers
    kept = len(layers) if own.gpu_layers is None else min(own.gpu_layers, len(layers))
    away = len(layers) - kept  # the first ones
    experts_away = max(away, own.host_expert_layers)
    dense, experts = ([_params(layer, which) for layer in layers] for which in (False, True))
    body = memory.weight_bytes(
        model, plan.weights, "layer_bytes", lambda w: not routed(w) and w.part not in ("embedding", "positions", "head")
    )
    part = sum(dense[:away]) / max(1, sum(dense))
    held, head = body.value * part, own.gpu_layers is not None and own.gpu_layers <= len(layers)
    if head:
        held += memory.weight_bytes(model, plan.weights, "head_bytes", lambda w: w.part == "head").value
    share = sum(experts[:experts_away]) / max(1, sum(experts))
    routed_bytes = memory.weight_bytes(model, plan.weights, "expert_bytes", routed).value if share else 0.0
    caching = [any(mixer.entries or mixer.states for mixer in layer.mixers) for layer in layers]
    return Hosted(
        dense_bytes=held,
        expert_bytes=routed_bytes * share,
        expert_share=share,
        bus_bytes=own.host_bytes * plan.ranks,
        cache_share=sum(caching[:away]) / max(1, sum(caching)),
        layer_share=part,
        head=head,
        crossings=bool(away) + sum(count > 0 for count in experts[away:experts_away]),
    )


def resident(figure: Figure, away: float, name: str) -> Figure:
    """What is left of a figure on the card."""
    if not away:
        return figure
    return Figure(
        name, figure.value - away, figure.unit, "without what lies on the host", None, (figure, Figure("host_bytes", away, "B", LAID))
    )


def whole_bytes(model: Model, plan: Deployment) -> float:
    """All weights of the language model, wherever they lie. [B]"""
    return float(memory.weight_bytes(model, plan.weights, "weight_bytes", lambda _: True).value)
