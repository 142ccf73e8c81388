"""What of a model that does not fit whole stays on the card, and what goes to the host's memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmcalc.architecture import Model
from llmcalc.estimate import offload, verdict
from llmcalc.estimate.offload import Hosted
from llmcalc.plan import Deployment, Offload, Workload


@dataclass(frozen=True, slots=True)
class Partial:
    """A way to run it over card and host."""

    offload: Offload
    hosted: Hosted


def suggest(model: Model, plan: Deployment, work: Workload) -> Partial | None:
    """The way that keeps most on the card and fits; experts go first, as a step reads few of them. None: none fits, or none is needed."""
    layers = len(model.stack.layers)
    base = plan.offload or Offload()
    if plan.engine.kind == "server":
        return _over_the_bus(model, plan, work, base)
    ways = [replace(base, host_expert_layers=count) for count in range(1, layers + 1)] if offload.mixtures(model) else []
    experts = layers if ways else 0
    ways += [replace(base, gpu_layers=kept, host_expert_layers=experts) for kept in range(layers - 1, -1, -1)]
    low, high = -1, len(ways)  # each way leaves less on the card than the one before
    while high - low > 1:
        middle = (low + high) // 2
        held = verdict.holds(model, replace(plan, offload=ways[middle]), work).fits
        low, high = (low, middle) if held else (middle, high)
    return _made(model, plan, ways[high]) if high < len(ways) else None


def _over_the_bus(model: Model, plan: Deployment, work: Workload, base: Offload) -> Partial | None:
    """Whole gibibytes of each device's weights that vLLM leaves on the host."""
    if plan.engine.family != "vllm":
        return None
    for size in range(1, 1025):
        own = replace(base, host_bytes=size * 2**30)
        if offload.hosted(model, replace(plan, offload=own)).weight_bytes > offload.whole_bytes(model, plan):
            return None
        if verdict.holds(model, replace(plan, offload=own), work).fits:
            return _made(model, plan, own)
    return None


def _made(model: Model, plan: Deployment, own: Offload) -> Partial:
    return Partial(own, offload.hosted(model, replace(plan, offload=own)))
