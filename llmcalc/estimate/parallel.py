"""Every way to lay a model over a number of devices: what each costs in memory, talk, time and users."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from llmcalc.answers import Answer, Aside, answer, field
from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import Answered, capacity, layout, memory, step, talk
from llmcalc.figures import Figure
from llmcalc.formulas import serving as f
from llmcalc.plan import Deployment, Workload


@answer("layouts", rows=True)
class Layout(Answer):
    """One way to lay a model over the devices; no times where something forbids it."""

    tp: int = field("tp")
    pp: int = field("pp")
    ep: int = field("ep")
    dp: int = field("dp")
    step_time_s: float | None = field("TPOT", "s", default=None)
    communication_s: float | None = field("links", "s", rank=3, default=None)
    tokens_per_s: float | None = field("tokens/s", "tokens/s", rank=5, default=None)
    ttft_s: float | None = field("TTFT", "s", rank=4, default=None)
    max_batch: int = field("fit")
    weight_bytes_per_device: int = field("weights each", "B", rank=4)
    kv_copies: float = field("KV copies", rank=2)
    why: str = field("", rank=1, meaning="what forbids it, or what it wastes")
    valid: bool = field(shown=False)
    replicas: int = field(shown=False)
    kv_bytes_per_sequence: float = field(shown=False)
    pipeline_bubble: float | None = field(shown=False, default=None)

    @property
    def name(self) -> str:
        """'tp4 pp2'."""
        degrees = {"tp": self.tp, "pp": self.pp, "ep": self.ep, "dp": self.dp}
        return " ".join(f"{key}{degree}" for key, degree in degrees.items() if degree > 1) or "tp1"


@answer("layouts")
class Layouts(Answer):
    """The best of them, and what bounds them all."""

    fastest: str | None = field("fastest")
    step_time_s: float | None = field("  step time", "s")
    most_sequences: int = field("most sequences that fit")
    valid_tp: tuple[int, ...] = field("valid tp")
    kv_heads: int = field("KV heads", shown=False)
    experts: int = field("experts")
    devices: int = field("devices", shown=False)
    placement: tuple[str, ...] = field("placement", shown=False, meaning="of the fastest: the ranks of each node, in the order of engines")


def divisors(n: int) -> list[int]:
    """1 to n, where they divide it."""
    return [d for d in range(1, n + 1) if n % d == 0]


def replication(model: Model, plan: Deployment) -> float:
    """How many times the ranks of a group hold the average byte of a sequence's cache."""
    ctx = Figure("ctx_tokens", 8192)
    once = layout.sequence_bytes(model, replace(plan, tp=1, ep=1, dcp=1), ctx).value
    return float(layout.sequence_bytes(model, plan, ctx).value / once) if once else 1.0


def layouts(model: Model, plan: Deployment, devices: int) -> list[Deployment]:
    """Tensor, pipeline and data parallelism over exactly that many devices; of a mixture, experts over all of a stage too."""
    found = []
    for pp in divisors(devices):
        for tp in divisors(devices // pp):
            groups = devices // pp // tp  # data-parallel: replicas, or attention groups that share experts
            found.append(replace(plan, tp=tp, pp=pp, ep=1))
            if groups > 1 and layout.experts(model):
                found.append(replace(plan, tp=tp, pp=pp, ep=tp * groups))
    return found


def row(model: Model, plan: Deployment, devices: int, work: Workload, method: str = "napkin") -> Layout:
    """One layout; independent replicas fill the devices that it leaves."""
    replicas = devices // plan.ranks
    copies = replication(model, plan)
    why = layout.obstacle(model, plan)
    ledger = capacity.ledger(model, plan, work.ctx)
    held = ledger["weight_bytes"].value / plan.ranks
    batch = capacity.sequences(plan, ledger["max_batch_exact"].value) * replicas
    valid = why is None
    times: dict[str, Any] = {}
    if why is None and batch == 0:
        why = "does not fit"
    elif why is None:
        share = max(1, math.ceil(work.batch / replicas))
        timed = step.readings(model, plan, Workload(work.ctx, share), method).force
        times = {
            "step_time_s": timed.mid_s,
            "communication_s": timed.terms["communication_s"].value,
            "tokens_per_s": work.batch / timed.mid_s,
            "ttft_s": step.ends(step.ttft(model, plan, int(work.ctx), method=method))[0],
            "pipeline_bubble": f.pipeline_bubble(plan.pp, 1),
        }
        if copies > 1.001:
            why = f"holds each cache {copies:.3g} times"
    return Layout(
        tp=plan.tp,
        pp=plan.pp,
        ep=plan.ep,
        dp=plan.dp * replicas,
        max_batch=batch,
        weight_bytes_per_device=round(held),
        kv_copies=copies,
        why=why or "",
        valid=valid,
        replicas=replicas,
        kv_bytes_per_sequence=ledger["kv_bytes_per_sequence"].value,
        **times,
    )


def drawn(model: Model, plan: Deployment, devices: int, row: Layout) -> tuple[str, ...]:
    """Where the ranks of a layout lie, a line for each node."""
    shapes = (option for option in layouts(model, plan, devices) if (option.tp, option.pp, option.ep) == (row.tp, row.pp, row.ep))
    return talk.drawing(next(shapes), row.replicas)


def compare(model: Model, plan: Deployment, devices: int, work: Workload, method: str = "napkin") -> Answered[Layouts, Layout]:
    """All layouts over `devices` devices, the fastest for `work.batch` sequences first."""
    step.check(method)
    rows, warnings = [], []
    for option in layouts(model, plan, devices):
        try:
            rows.append(row(model, option, devices, work, method))
        except UsageError as problem:
            warnings.append(f"tp {option.tp}, pp {option.pp}: {problem.message}")
    rows.sort(key=lambda each: (not each.valid, each.max_batch < work.batch, each.step_time_s or math.inf))
    best = rows[0] if rows and rows[0].step_time_s and rows[0].max_batch >= work.batch else None
    users = max((each.max_batch for each in rows if each.valid), default=0)
    kv_heads = max((mixer.kv_heads for mixer, _ in memory.mixers(model)), default=0)
    if best is None:
        warnings.insert(0, f"fastest: no valid layout over {devices} devices holds {work.batch:,} sequences of {int(work.ctx):,} tokens")
    return Answered(
        Layouts(
            fastest=None if best is None else best.name,
            step_time_s=None if best is None else best.step_time_s,
            most_sequences=users,
            valid_tp=tuple(tp for tp in divisors(devices) if layout.tp_obstacle(model, tp) is None),
            kv_heads=kv_heads,
            experts=layout.experts(model),
            devices=devices,
            placement=() if best is None else drawn(model, plan, devices, best),
        ),
        {},
        rows=tuple(rows),
        assumptions=(
            f"weights in {plan.weights.name}, KV in {plan.kv.name}; all devices in reach of the same link",
            "data parallelism: the batch is dealt evenly over replicas or attention groups",
            "TTFT of a prompt as long as the context, on an idle replica; a single prompt passes a pipeline's stages one after another",
            Aside(f"method {method}: {step.METHODS[method]}"),
        ),
        warnings=tuple(warnings),
    )
