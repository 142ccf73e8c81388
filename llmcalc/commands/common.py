"""What the commands share: options, loading a model, and handing a report to the output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from llmcalc import data, present, units
from llmcalc.api import deploy, load_model, of_source
from llmcalc.architecture import Model
from llmcalc.commands import options, parse, spoken, waiting
from llmcalc.commands.options import File, Hosting, Layout, ModelChoice, Money, Pooled, Running, Stored, Whence, Wires, Work
from llmcalc.commands.purse import Purse, purse
from llmcalc.engines import ENGINES, find
from llmcalc.errors import ConfigError, LlmcalcError, UsageError, close_matches, encodable, printable

if TYPE_CHECKING:
    from llmcalc.estimate.vision import Looked
    from llmcalc.hardware import Device
    from llmcalc.plan import Adapters, Deployment, Offload

__all__ = ["of_source"]


def load(reference: str, **options: Any) -> Model:
    """The model of a reference; an error of the Hub names bundled ones that are called alike."""
    try:
        return _for_command(load_model(reference, **options))
    except LlmcalcError as problem:
        if problem.code not in ("network", "offline-not-cached", "model-not-found"):
            raise
        from llmcalc import sources

        by_tail = {name.rpartition("/")[2]: name for name in sources.bundled_ids()}
        near = [by_tail[tail] for tail in close_matches(reference.partition("@")[0].rpartition("/")[2], by_tail)]
        if not near or any(name in (problem.hint or "") for name in near):
            raise
        raise type(problem)(problem.code, problem.message, f"bundled: {', '.join(near)}; {problem.hint}") from None


def _for_command(model: Model) -> Model:
    """The model, if the running command has something to say about it. Errors: no-kv-cache."""
    if model.stack.generates or options.running() in ("", "prefill", "show", "check", "list_models"):
        return model
    raise ConfigError(
        "no-kv-cache",
        f"model type {printable(model.model_type)} is an encoder: it generates no tokens and keeps no KV cache",
        "the commands weights and prefill size it",
    )


def model_header(model: Model) -> dict[str, Any]:
    """The `model` block of the envelope."""
    return {"id": model.id, "source": model.source, "revision": model.revision, "architecture": model.model_type}


def model_line(model: Model) -> str:
    """Which file the figures come from."""
    words = {"hub": "from the Hub", "hub-cache": "from the Hub's cache", "file": "from a file", "stdin": "from stdin"}
    parts = [model.model_type, words.get(model.source, model.source)]
    if "reconstructed" in str(model.facts.get("source", "")):
        parts.append("reconstructed (--refresh reads the Hub's)")
    elif "quantisation assumed" in str(model.facts.get("source", "")):
        parts.append("its quantisation is assumed (--refresh reads the Hub's)")
    elif model.revision and model.revision == model.facts.get("date"):
        parts.append(f"as of {model.revision}")
    elif model.revision:
        parts.append(f"revision {model.revision[:12]}")
    return " · ".join(parts)


def counted(number: int, word: str) -> str:
    """A number of things in words."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def between(results: Mapping[str, Any], name: str, unit: str) -> str:
    """The range of an expected value: '5.4 ms to 7.0 ms in 8 of 10 cases'; nothing where it is not known."""
    suffix = "_s" if unit == "s" else ""
    low, high = results[f"{name}_low{suffix}"], results[f"{name}_high{suffix}"]
    return "" if low is None or high is None else f"{present.shown(low, unit)} to {present.shown(high, unit)} in 8 of 10 cases"


def placed(model: Model, place: Stored, run: Running | None = None, money: Money | None = None) -> Deployment:
    """The deployment that the options describe; what no group says has the default of its option."""
    return laid_out(model, place.hardware, place, run, money)


def laid_out(
    model: Model,
    hardware: str,
    layout: Layout,
    run: Running | None = None,
    money: Money | None = None,
    weights: str | None = None,
    owned: Purse | None = None,
) -> Deployment:
    """The same on a device that is named otherwise, and with weights in another format."""
    run, money = run or Running(), money or Money()
    wires = layout if isinstance(layout, Wires) else Wires()
    made = deploy(
        model,
        hardware,
        weights=layout.weights if weights is None else weights,
        kv_dtype=layout.kv_dtype,
        tp=layout.tp,
        pp=layout.pp,
        ep=layout.ep,
        dp=layout.dp,
        cp=layout.cp,
        dcp=layout.dcp,
        redundant_experts=layout.redundant_experts,
        imbalance=wires.expert_imbalance,
        link=wires.link,
        network=wires.network,
        power_cap_w=wires.power_cap,
        engine=run.engine,
        reserve_bytes=run.reserve,
        utilization=run.memory_utilization,
        batched_tokens=run.max_num_batched_tokens,
        max_sequences=run.max_num_seqs,
        adapters=tuned(run),
        offload=offloaded(model, run),
        **_policy(model, run),
    )
    device, usd = (owned or purse(money, (made.device,))).of(made.device)
    return made if device is made.device and usd is None else replace(made, device=device, usd_per_device_hour=usd)


def _policy(model: Model, run: Running) -> dict[str, Any]:
    """What the options change of an engine's policy; a textbook has no blocks, graphs or pool. Errors: bad-value."""
    if not isinstance(run, Pooled):
        return {}
    found: dict[str, Any] = {"encoder": not (model.towers and run.language_model_only)}
    family = run.engine.strip().lower().partition("@")[0]
    if family != "napkin":
        found |= {"pool_bytes": run.available_kv}
    if family in ("vllm", "sglang", "trt-llm"):
        found |= {"block_tokens": run.block_size}
    if family == "vllm":
        found |= {"eager": run.enforce_eager, "graphs": not (run.enforce_eager or run.no_graph_estimate)}
    return found


def offloaded(model: Model, run: Running) -> Offload | None:
    """What the options leave in the host's memory. Errors: bad-value, bad-offload."""
    if not isinstance(run, Hosting):
        return None
    kept, experts, size, host, rate = run.gpu_layers, run.n_cpu_moe, run.cpu_offload_gb, run.host, run.host_bandwidth
    if kept is None and experts is None and not size:
        if not find(run.engine).hosts_experts:
            return None
        experts = parse.ALL_LAYERS
    from llmcalc import hardware
    from llmcalc.estimate.offload import mixtures
    from llmcalc.plan import Offload

    count = len(model.stack.layers)
    if experts == parse.ALL_LAYERS and not run.n_cpu_moe and not mixtures(model):
        return None  # an engine that is made for mixtures runs a model without experts on the card
    return Offload(
        count + 1 if kept == parse.ALL_LAYERS else kept,
        count if experts == parse.ALL_LAYERS else experts or 0,
        size or 0.0,
        None if host is None else hardware.load(host if host.startswith("cpu-") or hardware.known(host) else f"cpu-{host}"),
        rate,
    )


def offload_flags(model: Model, own: Offload) -> str:
    """An engine's own options for what lies on the host."""
    if own.host_bytes:
        return f"--cpu-offload-gb {own.host_bytes / 2**30:g}"
    words = [] if own.gpu_layers is None else [f"-ngl {own.gpu_layers}"]
    if own.host_expert_layers:
        words.append("--cpu-moe" if own.host_expert_layers >= len(model.stack.layers) else f"--n-cpu-moe {own.host_expert_layers}")
    return " ".join(words)


def tuned(run: Running) -> Adapters | None:
    """The adapters that the options describe. Errors: bad-value."""
    rank, slots, targets = run.lora_rank, run.max_loras, run.lora_targets
    if rank is None:
        if slots is not None or targets is not None:
            raise UsageError("bad-value", "--max-loras and --lora-targets are about adapters of a rank", "give --lora-rank 16, too")
        return None
    from llmcalc.plan import Adapters

    return Adapters(rank, slots or 1, targets or ())


def chosen(which: ModelChoice) -> Model:
    """The model that the options name."""
    return load(which.model, revision=which.revision, offline=which.offline, refresh=which.refresh)


def beside(which: Whence, reference: str) -> Model:
    """A second model, from where the first one may come."""
    return load(reference, offline=which.offline, refresh=which.refresh)


def hardware_header(plan: Deployment) -> dict[str, Any]:
    """The `hardware` block of the envelope."""
    return {"id": plan.device.id, "count": plan.ranks, "name": plan.device.name}


def variant(plan: Deployment) -> tuple[str, ...]:
    """Which variant of a device was assumed for a bare name."""
    return variants([plan.device])


def variants(devices: Iterable[Device]) -> tuple[str, ...]:
    """The same of several devices."""
    devices = list(devices)
    taken = [note for device in devices for note in device.notes[:1] if " is taken as " in note]
    return tuple(dict.fromkeys([*taken, *(_under_limit(device) for device in devices if device.power_cap_w)]))


def _under_limit(device: Device) -> str:
    text = f"{device.id} at {device.power_cap_w:g} W of {device.power_w or 0:g}: memory is read at {device.reading_share:.0%} of full speed"
    return f"{text}, products run at {device.computing_share:.0%}, as measured under such limits"


def hardware_line(plan: Deployment) -> str:
    """The devices and the layout in words."""
    degrees = (("tp", plan.tp), ("pp", plan.pp), ("ep", plan.ep), ("cp", plan.cp), ("dcp", plan.dcp))
    layout = [f"{name} {value}" for name, value in degrees if value > 1]
    return " · ".join([f"{plan.ranks} × {plan.device.name}", *layout, f"weights {plan.weights.name}", f"KV {plan.kv.name}"])


def release(asked: str, plan: Deployment) -> tuple[str, ...]:
    """Which row of policies stands for the release of an engine that was asked for."""
    name, policy = asked.strip().lower(), plan.engine
    return () if "@" not in name or name in ENGINES else (f"{printable(name, 40)} counts as {policy.source.partition(':')[0]}",)


def plan_inputs(plan: Deployment) -> dict[str, Any]:
    """The deployment's part of the envelope's inputs."""
    return {
        "weights": plan.weights.name,
        "kv_dtype": plan.kv.name,
        "tp": plan.tp,
        "pp": plan.pp,
        "ep": plan.ep,
        "engine": plan.engine.name,
        "memory_utilization": plan.share,
        "reserve_bytes": plan.reserve_bytes,
    } | _further(plan)


def _further(plan: Deployment) -> dict[str, Any]:
    """What few deployments have, echoed where it was given."""
    tuned = plan.adapters
    found: dict[str, Any] = {name: value for name, value in (("cp", plan.cp), ("dcp", plan.dcp)) if value > 1}
    if plan.device.power_cap_w is not None:
        found["power_cap_w"] = plan.device.power_cap_w
    if plan.redundant_experts or plan.imbalance is not None:
        found |= {"redundant_experts": plan.redundant_experts, "expert_imbalance": plan.imbalance}
    if plan.offload is not None:
        own = plan.offload
        found |= {"gpu_layers": own.gpu_layers, "n_cpu_moe": own.host_expert_layers, "cpu_offload_bytes": own.host_bytes}
        found |= {"host": own.host.id if own.host else None, "host_bytes_per_s": own.host_bytes_per_s}
    if tuned is not None:
        found |= {"lora_rank": tuned.rank, "max_loras": tuned.slots, "lora_targets": list(tuned.targets) or None}
    return found


DEFAULT_CTX = 8192


def context(model: Model, given: int | str | None, *, at_most: int | None = None) -> tuple[int, tuple[str, ...]]:
    """Tokens held per sequence and what was assumed: the model's own maximum, capped at `at_most` outside of `kv`."""
    if given is not None:
        return units.tokens(given), ()
    longest = model.max_context
    if longest is None:
        most = at_most or DEFAULT_CTX
        return most, (f"ctx {most:,} tokens: not given, and the config names no maximum",)
    if at_most is not None and longest > at_most:
        return at_most, (f"ctx {at_most:,} tokens: not given",)
    return longest, (f"ctx {longest:,} tokens: not given; the model's own maximum",)


def seen(model: Model, image: tuple[int, int, int] | None) -> Looked | None:
    """The images of each prompt, as the model sees them. Errors: no-image, bad-image."""
    if image is None:
        return None
    from llmcalc.estimate import vision

    return vision.looked(model, *image)


def held(model: Model, work: Work, *, at_most: int | None = None) -> tuple[int, tuple[str, ...]]:
    """Tokens held per sequence, those of its images among them, and what was assumed."""
    tokens, assumed = context(model, work.ctx, at_most=at_most)
    looked = seen(model, work.image)
    if looked is None:
        return tokens, assumed
    most = model.max_context
    if work.ctx is None and most and tokens <= most < tokens + looked.tokens:
        within = f"image: its {looked.tokens:,} tokens are counted within the {most:,} that the model has at most"
        parse.beside.set((*parse.beside.get(), within))
        return most, assumed
    return tokens + looked.tokens, (*assumed, f"images: {looked.tokens:,} tokens of each sequence, beside {tokens:,} of text")


def image_inputs(model: Model, image: tuple[int, int, int] | None) -> dict[str, Any]:
    """What of images the envelope's inputs echo; nothing without any."""
    looked = seen(model, image)
    return {} if looked is None or image is None else {"image": f"{image[0]}x{image[1]},{image[2]}", "image_tokens": looked.tokens}


def say(report: present.Report, out: File, *, check: bool = False) -> None:
    """Render and write as the options ask; warnings go to stderr unless the format carries them. Exit 3 on a negative verdict.

    --explain has a use where figures carry a derivation, --check where there is a verdict.
    """
    chosen, output = out.chosen(), None if out.output == "-" else out.output
    asked = bool(report.figures or chosen == "table") and getattr(out, "explain", False)
    explain = bool(report.figures) and asked
    check = check or (report.verdict is not None and getattr(out, "check", False))
    report = spoken.report(
        replace(
            report,
            warnings=(*report.warnings, *parse.beside.get(), *options.unused()),
            explain=explain,
            whole=report.whole or output is not None or asked or (chosen == "table" and out.all),
            ask=("--all", "--explain" if hasattr(out, "explain") else "--all"),
            typed=parse.typed.get(),
        )
    )
    if output is None and chosen in present.PICTURES:
        raise UsageError("bad-value", f"a picture ({chosen}) is written to a file", f"give one with --output front.{chosen}")
    made = present.render(report, chosen)
    waiting.over()
    if output is None:
        write(str(made))
    else:
        save(made, output)
        if chosen != "json":  # a successful run of --json leaves stderr empty
            rows = len(report.rows) or (1 if chosen == "csv" else 0)
            counted_rows = f" ({counted(rows, 'row')})" if present.carries(chosen).rows and rows else ""
            sys.stderr.write(encodable(f"wrote {printable(output, 300)}{counted_rows}\n", getattr(sys.stderr, "encoding", None)))
    if report.warnings and not present.carries(chosen).warnings:
        from llmcalc.present import terminal

        sys.stderr.write(encodable(terminal.warnings(report.warnings), getattr(sys.stderr, "encoding", None)))
    if check and report.verdict is False:
        raise typer.Exit(3)


def write(text: str) -> None:
    """To stdout, in whatever encoding it has; what it cannot hold becomes ASCII."""
    sys.stdout.write(encodable(text, getattr(sys.stdout, "encoding", None)))
    sys.stdout.flush()


def save(made: str | bytes, output: str) -> None:
    """To a file, whole or not at all. Errors: cannot-write."""
    try:
        data.write_whole(output, made if isinstance(made, bytes) else made.encode())
    except (OSError, ValueError) as problem:  # ValueError: a name with a NUL in it
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise LlmcalcError("cannot-write", f"cannot write {output}: {reason}", "give --output a path that can be written") from None
