"""Low-rank adapters served beside the weights: what an engine reserves for them, and what a step reads."""

from __future__ import annotations

from typing import Any

from llmcalc.architecture import Model, Part, Weight
from llmcalc.errors import UsageError, close_matches, printable
from llmcalc.figures import Figure
from llmcalc.formulas import memory as f
from llmcalc.formulas import time
from llmcalc.model import weights as model_weights
from llmcalc.plan import Adapters, Deployment
from llmcalc.units import size

BYTES = 2
"""Adapters are held in 16 bits."""
LINEAR: tuple[Part, ...] = ("attention", "indexer", "state", "mlp", "experts", "shared experts")
ROW_PARALLEL = ("o_proj", "down_proj", "out_proj", "dense_4h_to_h", "w2")
"""Matrices that tensor parallelism cuts along their inputs, so that the second factor of an adapter is whole on each rank."""


def matrices(model: Model) -> list[tuple[int, Weight]]:
    """(layers, matrix) of everything that an adapter may be for."""
    return [(n, w) for n, w in model_weights(model) if w.part in LINEAR and w.rows > 1 and w.columns > 1]


def chosen(model: Model, adapters: Adapters) -> list[tuple[int, Weight]]:
    """The matrices that these adapters are for. Errors: no-such-target."""
    found = matrices(model)
    if not adapters.targets:
        return found
    tails = {weight.name.rpartition(".")[2] for _, weight in found}
    for name in adapters.targets:
        if name not in tails:
            near = close_matches(name, tails)
            raise UsageError(
                "no-such-target",
                f"{model.id} has no matrix called {printable(name, 40)!r}",
                f"did you mean {near[0]}?" if near else f"its matrices: {', '.join(sorted(tails))}",
            )
    return [(n, w) for n, w in found if w.name.rpartition(".")[2] in adapters.targets]


def adapter_params(model: Model, adapters: Adapters) -> Figure:
    """Parameters of one adapter."""
    count = sum(n * w.copies * f.adapter_params(adapters.rank, w.columns, w.rows) for n, w in chosen(model, adapters))
    return Figure("adapter_params", count, "params", f"rank {adapters.rank}, {len(chosen(model, adapters))} kinds of matrices")


def words(model: Model, own: Adapters) -> str:
    """What is reserved."""
    each = size(adapter_params(model, own).value * BYTES)
    return f"{own.slots} adapter{'s' if own.slots > 1 else ''} of rank {own.rank}, {each} each, reserved whether loaded or not"


def held_bytes(model: Model, plan: Deployment) -> Figure | None:
    """What the slots for adapters take over all ranks, whatever is loaded; None without any."""
    if plan.adapters is None:
        return None
    own, per_slot = plan.adapters, 0
    for layers, weight in chosen(model, own):
        inside, outside = own.rank * weight.columns, own.rank * weight.rows
        row = weight.name.endswith(ROW_PARALLEL)
        whole, cut = (outside, inside) if row else (inside, outside)
        per_slot += layers * weight.copies * (whole * plan.tp + cut) * BYTES
    return f.replicated_bytes.of(
        as_name="adapter_bytes",
        held_bytes=Figure("slot_bytes", per_slot, "B", f"one slot of rank {own.rank} over {plan.tp} ranks, 16 bits"),
        copies=Figure("slots", own.slots * plan.dp * plan.cp, "", "as many adapters as are in use at once"),
    )


def read_bytes(model: Model, plan: Deployment, sequences: Any) -> Figure | None:
    """What a step reads of them: each adapter that one of its sequences uses, drawn evenly; None without any."""
    if plan.adapters is None:
        return None
    each = adapter_params(model, plan.adapters)
    used = time.distinct_experts.of(
        as_name="distinct_adapters",
        experts=Figure("experts", plan.adapters.slots, "", "adapters in use"),
        top_k=Figure("top_k", 1, "", "one for each sequence"),
        tokens=Figure("tokens", sequences, "tokens", "`batch`"),
    )
    size = Figure("held_bytes", each.value * BYTES, "B", "one adapter", None, (each,))
    return f.replicated_bytes.of(as_name="adapter_read_bytes", held_bytes=size, copies=used)
