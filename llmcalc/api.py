"""The public functions on nouns: what the commands do, without a command line. Rooms load when they are needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

from llmcalc import model as model_reader
from llmcalc.architecture import Model
from llmcalc.errors import UsageError

if TYPE_CHECKING:
    from llmcalc.estimate import Answered
    from llmcalc.estimate.cost import Cost
    from llmcalc.estimate.decode import Decode
    from llmcalc.estimate.memory import Kv, KvLayers, Part, Weights
    from llmcalc.estimate.verdict import Fit, FitRow
    from llmcalc.plan import Adapters, Deployment, Offload
    from llmcalc.sources import Source


def load_model(reference: str, *, revision: str | None = None, offline: bool = False, refresh: bool = False) -> Model:
    """The model of an id, a path or a Hub address. Errors: SourceError, ConfigError."""
    from llmcalc import sources

    return of_source(sources.find(reference, revision=revision, offline=offline, refresh=refresh))


def of_source(found: Source) -> Model:
    """The model that a source's config describes; of a GGUF file with a warning where its tensors hold something else."""
    if found.refused is not None:
        raise found.refused
    model = model_reader.read(
        found.config,
        id=found.id,
        source=found.kind,
        revision=found.revision,
        quant=found.quant,
        notes=found.notes,
        facts=found.facts,
    )
    if found.files is None:
        return model
    from llmcalc.estimate import weight_files

    return replace(model, notes=(*model.notes, *weight_files.check(found.files, model)))


def deploy(
    model: Model,
    device: str,
    *,
    weights: str = "auto",
    kv_dtype: str = "auto",
    tp: int | None = None,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    cp: int = 1,
    dcp: int = 1,
    redundant_experts: int = 0,
    imbalance: float | None = None,
    link: str | None = None,
    network: str | None = None,
    power_cap_w: float | None = None,
    engine: str = "napkin",
    reserve_bytes: float = 0,
    utilization: float | None = None,
    usd_per_device_hour: float | None = None,
    batched_tokens: int | None = None,
    max_sequences: int | None = None,
    adapters: Adapters | None = None,
    offload: Offload | None = None,
    block_tokens: int | None = None,
    **further: Any,
) -> Deployment:
    """One replica of a model on a device. `Nx device` means N ranks, as the engine lays a model over them: a server cuts matrices,
    a desktop engine deals layers. With tp or pp, that many, and the rest of N tensor-parallel within each stage. With dp, so many
    groups of tp ranks, each with sequences of its own, and the experts dealt over all of them. With cp, so many groups of tp ranks
    that share prompts and caches; with dcp, so many of the tp ranks share a cache by its tokens. `further`: fields of Deployment.

    Errors: UsageError (formats, layout, engine), ProfileError (device), ConfigError (a checkpoint's quantiser).
    """
    from llmcalc import engines, hardware
    from llmcalc.estimate import layout as layouts
    from llmcalc.estimate import memory
    from llmcalc.plan import Deployment

    count, name = hardware.parse_count(device)
    row = engines.find(engine)
    if block_tokens is not None:
        row = replace(row, block_tokens=block_tokens)
    if tp is None:
        tp, pp = (count // (pp * dp * cp), pp) if pp > 1 or ep > 1 or dp > 1 or cp > 1 or dcp > 1 else row.layout(count)
    if dp > 1:
        ep = _dealt(model, max(1, tp), dp, ep)
    if (redundant_experts or imbalance is not None) and ep == 1:
        raise UsageError(
            "bad-layout", "redundant experts and their imbalance are of experts that are dealt over ranks", "give `ep` or `dp`, too"
        )
    plan = Deployment(
        device=hardware.limited(hardware.joined(hardware.load(name), link, network), power_cap_w),
        weights=memory.weight_format(model, weights, row)[0],
        kv=memory.kv_format(model, kv_dtype)[0],
        tp=max(1, tp),
        pp=pp,
        ep=ep,
        cp=cp,
        dcp=dcp,
        redundant_experts=redundant_experts,
        imbalance=imbalance,
        engine=row,
        reserve_bytes=reserve_bytes,
        utilization=utilization,
        usd_per_device_hour=usd_per_device_hour,
        batched_tokens=batched_tokens,
        max_sequences=max_sequences,
        adapters=adapters,
        offload=offload,
        encoder_params=layouts.tower_params(model),
        **further,
    )
    if count not in (1, plan.ranks):
        layout = f"tp {plan.tp} × pp {plan.pp} × {plan.dp} groups" + (f" × cp {cp}" if cp > 1 else "") + f" = {plan.ranks} ranks"
        raise UsageError("bad-layout", f"{count} devices cannot be {layout}", "leave the tensor-parallel degree out, or make it fit")
    return plan


def _dealt(model: Model, tp: int, dp: int, ep: int) -> int:
    """Expert parallel ranks of dp groups of tp. Errors: bad-layout."""
    from llmcalc.estimate import layout

    if not layout.experts(model):
        raise UsageError(
            "bad-layout",
            f"dp {dp}: {model.id} has no experts that its groups could share, so each is a replica of its own",
            "leave `dp` out and take one replica with its share of the requests",
        )
    if ep not in (1, tp * dp):
        raise UsageError("bad-layout", f"dp {dp} with tp {tp} deals experts over {tp * dp} ranks, not over {ep}", "leave `ep` out")
    return tp * dp


def estimate_kv(model: Model, *, ctx: int, batch: int = 1, kv_dtype: str = "auto") -> Answered[Kv, KvLayers]:
    """What `llmcalc kv` prints."""
    from llmcalc.estimate import memory

    return memory.kv(model, ctx, batch, kv_dtype)


def estimate_weights(model: Model, *, weights: str = "auto") -> Answered[Weights, Part]:
    """What `llmcalc weights` prints."""
    from llmcalc.estimate import memory

    return memory.weights(model, weights)


def estimate_fit(model: Model, plan: Deployment, *, ctx: int, batch: int = 1) -> Answered[Fit, FitRow]:
    """What `llmcalc fit` prints."""
    from llmcalc.estimate import verdict
    from llmcalc.plan import Workload

    return verdict.fit(model, plan, Workload(ctx, batch))


def estimate_decode(model: Model, plan: Deployment, *, ctx: int, batch: int = 1, method: str = "napkin") -> Answered[Decode, Never]:
    """What `llmcalc decode` prints."""
    from llmcalc.estimate import decode
    from llmcalc.plan import Workload

    return decode.decode(model, plan, Workload(ctx, batch), method)


def estimate_cost(
    model: Model, plan: Deployment, *, ctx: int, batch: int = 1, prompt: int | None = None, output: int | None = None, **options: Any
) -> Answered[Cost, Never]:
    """What `llmcalc cost` prints; `options`: method (expected), utilization, owned."""
    from llmcalc.estimate import cost
    from llmcalc.plan import Workload

    return cost.cost(model, plan, Workload(ctx, batch, prompt, output), **{"method": "expected"} | options)
