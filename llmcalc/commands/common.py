"""What the commands share: options, loading a model, and handing a report to the output."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmcalc import present, units
from llmcalc.api import deploy, load_model, of_source
from llmcalc.architecture import Model
from llmcalc.commands import completion, options, parse, spoken
from llmcalc.commands.options import File, Layout, ModelChoice, Money, Placement, Running
from llmcalc.commands.parse import (
    bare_seconds,
    cached_tokens,
    count_or_zero,
    duration,
    fraction,
    per_second,
    percentile,
    positive,
    reserve_bytes,
    whole_number,
)
from llmcalc.errors import LlmcalcError, UsageError, close_matches, encodable, printable

if TYPE_CHECKING:
    from llmcalc.hardware import Device
    from llmcalc.plan import Adapters, Deployment

__all__ = [
    "bare_seconds",
    "cached_tokens",
    "completion",
    "count_or_zero",
    "duration",
    "fraction",
    "load",
    "of_source",
    "per_second",
    "percentile",
    "positive",
    "reserve_bytes",
    "units",
    "whole_number",
]

ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        metavar="MODEL",
        autocompletion=completion.models,
        help="org/name, org/name@revision, Hub URL, folder, config.json, .gguf file, org/name-GGUF:Q4_K_M, or - for stdin.",
    ),
]
CtxOption = Annotated[
    str | None,
    typer.Option(
        "--ctx", "-c", "--context", "--max-model-len", metavar="TOKENS", help="Tokens held per sequence: 32768, 32k, 1M (k = 1024)."
    ),
]
BatchOption = Annotated[str, typer.Option("--batch", "-b", metavar="N", help="Concurrent sequences.")]
WeightsOption = Annotated[
    str,
    typer.Option(
        "--weights", metavar="FORMAT", autocompletion=completion.weights, help="auto (as the checkpoint ships) or a number format."
    ),
]
KvOption = Annotated[
    str,
    typer.Option(
        "--kv-dtype",
        "--kv-cache-dtype",
        metavar="FORMAT",
        autocompletion=completion.caches,
        help="auto (the checkpoint's scheme, else its dtype) or a format.",
    ),
]
HardwareOption = Annotated[
    str,
    typer.Option(
        "--hardware",
        "-d",
        "--gpu",
        "--device",
        metavar="DEVICE",
        autocompletion=completion.devices,
        help="Id, alias, driver's name, YAML file; or '2x rtx-4090'.",
    ),
]
AnyHardwareOption = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        "-d",
        "--gpu",
        "--device",
        metavar="DEVICE",
        autocompletion=completion.devices,
        help="A device, to see which share of it the cache takes.",
    ),
]
TpOption = Annotated[str | None, typer.Option("--tp", metavar="N", help="Tensor parallel ranks. [default: 1, or N of 'Nx device']")]
PpOption = Annotated[str, typer.Option("--pp", metavar="N", help="Pipeline stages.")]
EpOption = Annotated[str, typer.Option("--ep", metavar="N", help="Expert parallel ranks.")]
PriceOption = Annotated[str | None, typer.Option("--price", metavar="USD", help="USD per device-hour; overrides the profile's.")]
ReserveOption = Annotated[str, typer.Option("--reserve", metavar="SIZE", help="Memory kept free on each device, such as 6GB.")]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        autocompletion=completion.engines,
        help="Memory policy: napkin, vllm (vllm@0.11), sglang, llama.cpp, ...",
    ),
]
UtilizationOption = Annotated[
    str | None,
    typer.Option("--memory-utilization", "--gpu-memory-utilization", metavar="SHARE", help="Share of device memory the engine may use."),
]
BatchedOption = Annotated[
    str | None,
    typer.Option("--max-num-batched-tokens", "--ubatch-size", metavar="TOKENS", help="Tokens of an engine's step. [default: the engine's]"),
]
SequencesOption = Annotated[
    str | None,
    typer.Option("--max-num-seqs", "--parallel", metavar="N", help="Sequences an engine runs at a time. [default: the engine's]"),
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        autocompletion=completion.methods,
        help="expected (in an engine), napkin (the textbook's) or roofline (a bound).",
    ),
]
PromptOption = Annotated[str | None, typer.Option("--prompt", metavar="TOKENS", help="Prompt tokens. [default: the context]")]
CachedOption = Annotated[str, typer.Option("--cached", metavar="TOKENS", help="Prompt tokens already in the prefix cache.")]
OutputTokensOption = Annotated[str | None, typer.Option("--output-tokens", metavar="TOKENS", help="Tokens written per request.")]
ChunkOption = Annotated[str, typer.Option("--chunk", metavar="TOKENS", help="Prompt tokens per step (chunked prefill); 0: whole prompts.")]
OfflineOption = Annotated[bool, typer.Option("--offline", help="Never touch the network.")]
RefreshOption = Annotated[bool, typer.Option("--refresh", help="Go to the Hub even if bundled or cached.")]
RevisionOption = Annotated[str | None, typer.Option("--revision", metavar="REV", help="Branch, tag or commit on the Hub.")]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Print every figure's formula, substituted values and origins.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        autocompletion=completion.outputs,
        help=f"{', '.join([*present.FORMATS][:-1])} or {[*present.FORMATS][-1]}.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Same as --format json.")]
OutputOption = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file; its ending picks the format.")]
CheckOption = Annotated[bool, typer.Option("--check", help="Exit with 3 if the verdict is negative.")]

SHARED: dict[str, tuple[tuple[str, ...], Any]] = {
    "hardware": (("--hardware", "-d", "--gpu", "--device"), str),
    "ctx": (("--ctx", "-c", "--context", "--max-model-len"), str),
    "batch": (("--batch", "-b"), str),
    "weights": (("--weights",), str),
    "kv_dtype": (("--kv-dtype", "--kv-cache-dtype"), str),
    "tp": (("--tp",), str),
    "pp": (("--pp",), str),
    "ep": (("--ep",), str),
    "price": (("--price",), str),
    "reserve": (("--reserve",), str),
    "engine": (("--engine",), str),
    "memory_utilization": (("--memory-utilization", "--gpu-memory-utilization"), str),
    "explain": (("--explain",), bool),
    "check": (("--check",), bool),
}
"""The options that every estimating command takes, so that one set of them serves all."""


def estimating(command: Callable[..., None], *, only_one: tuple[str, ...] = ()) -> Callable[..., None]:
    """The command with those of SHARED that it has no use for: hidden, and a warning says so where one is given.

    Of `only_one`, a number above 1 would change the result in a way that the command does not know: bad-layout.
    """
    own = inspect.signature(command, eval_str=True)
    missing = {name: given for name, given in SHARED.items() if name not in own.parameters}

    def run(**options: Any) -> None:
        idle = {name: options.pop(name) for name in missing}
        for name in only_one:
            if idle[name] not in (None, "1"):
                message = f"{name} {printable(idle[name], 20)}: {command.__name__} lays a model over tensor-parallel ranks alone"
                raise UsageError("bad-layout", message, "`llmcalc layouts` compares every kind of parallelism")
        given = [name.replace("_", "-") for name, value in idle.items() if value not in (None, False, "1")]
        before = parse.beside.set(tuple(f"{name}: {command.__name__} makes no use of it" for name in given))
        try:
            command(**options)
        finally:
            parse.beside.reset(before)

    hidden = (
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if kind is bool else None,
            annotation=Annotated[bool if kind is bool else str | None, typer.Option(*flags, hidden=True)],
        )
        for name, (flags, kind) in missing.items()
    )
    run.__signature__ = own.replace(parameters=[*own.parameters.values(), *hidden])  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    return run


def load(reference: str, **options: Any) -> Model:
    """The model of a reference; an error of the Hub names bundled ones that are called alike."""
    try:
        return load_model(reference, **options)
    except LlmcalcError as problem:
        if problem.code not in ("network", "offline-not-cached", "model-not-found"):
            raise
        from llmcalc import sources

        by_tail = {name.rpartition("/")[2]: name for name in sources.bundled_ids()}
        near = [by_tail[tail] for tail in close_matches(reference.partition("@")[0].rpartition("/")[2], by_tail)]
        if not near or any(name in (problem.hint or "") for name in near):
            raise
        raise type(problem)(problem.code, problem.message, f"bundled: {', '.join(near)}; {problem.hint}") from None


def model_header(model: Model) -> dict[str, Any]:
    """The `model` block of the envelope."""
    return {"id": model.id, "source": model.source, "revision": model.revision, "architecture": model.model_type}


def model_line(model: Model) -> str:
    """Which file the figures come from."""
    words = {"hub": "from the Hub", "hub-cache": "from the Hub's cache", "file": "from a file", "stdin": "from stdin"}
    parts = [model.model_type, words.get(model.source, model.source)]
    if str(model.facts.get("source", "")).startswith("reconstructed"):
        parts.append("reconstructed (--refresh reads the Hub's)")
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


def deployment(
    model: Model,
    hardware: str,
    *,
    weights: str = "auto",
    kv_dtype: str = "auto",
    tp: str | None = None,
    pp: str = "1",
    ep: str = "1",
    price: str | None = None,
    reserve: str = "0",
    engine: str = "napkin",
    memory_utilization: str | None = None,
    batched_tokens: str | None = None,
    max_sequences: str | None = None,
) -> Deployment:
    """The deployment that the options describe. `Nx device` means N tensor-parallel ranks."""
    return deploy(
        model,
        hardware,
        weights=weights,
        kv_dtype=kv_dtype,
        tp=None if tp is None else whole_number(tp, "tp", most=8192),
        pp=whole_number(pp, "pp", most=1024),
        ep=whole_number(ep, "ep", most=8192),
        engine=engine,
        reserve_bytes=reserve_bytes(reserve),
        utilization=None if memory_utilization is None else fraction(memory_utilization, "memory-utilization"),
        usd_per_device_hour=None if price is None else units.quantity(price, "usd/h"),
        batched_tokens=None if batched_tokens is None else whole_number(batched_tokens, "max-num-batched-tokens", most=2**24),
        max_sequences=None if max_sequences is None else whole_number(max_sequences, "max-num-seqs", most=2**20),
    )


def placed(model: Model, place: Placement, run: Running | None = None, money: Money | None = None) -> Deployment:
    """The deployment that the options describe; what no group says has the default of its option."""
    return laid_out(model, place.hardware, place, run, money)


def laid_out(model: Model, hardware: str, layout: Layout, run: Running | None = None, money: Money | None = None) -> Deployment:
    """The same on a device that is named otherwise."""
    run, money = run or Running(), money or Money()
    return deploy(
        model,
        hardware,
        weights=layout.weights,
        kv_dtype=layout.kv_dtype,
        tp=layout.tp,
        pp=layout.pp,
        ep=layout.ep,
        link=layout.link,
        network=layout.network,
        engine=run.engine,
        reserve_bytes=run.reserve,
        utilization=run.memory_utilization,
        usd_per_device_hour=money.price,
        batched_tokens=run.max_num_batched_tokens,
        max_sequences=run.max_num_seqs,
        adapters=tuned(run),
    )


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


def beside(which: ModelChoice, reference: str) -> Model:
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
    return tuple(dict.fromkeys(note for device in devices for note in device.notes[:1] if " is taken as " in note))


def hardware_line(plan: Deployment) -> str:
    """The devices and the layout in words."""
    layout = [f"{name} {value}" for name, value in (("tp", plan.tp), ("pp", plan.pp), ("ep", plan.ep)) if value > 1]
    return " · ".join([f"{plan.ranks} × {plan.device.name}", *layout, f"weights {plan.weights.name}", f"KV {plan.kv.name}"])


def release(asked: str, plan: Deployment) -> tuple[str, ...]:
    """Which row of policies stands for the release of an engine that was asked for."""
    name, policy = asked.strip().lower(), plan.engine
    return () if "@" not in name or name == policy.name else (f"{printable(name, 40)} counts as {policy.source.partition(':')[0]}",)


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
    found: dict[str, Any] = {}
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


def say(report: present.Report, out: File, *, check: bool = False) -> None:
    """Render and write as the options ask. --explain has a use where figures carry a derivation, --check where there is a verdict."""
    emit(
        report,
        format=out.format,
        json=out.json,
        output=out.output,
        explain=bool(report.figures) and getattr(out, "explain", False),
        check=check or (report.verdict is not None and getattr(out, "check", False)),
    )


def emit(report: present.Report, *, format: str, json: bool, output: str | None, explain: bool, check: bool = False) -> None:
    """Render and write; warnings go to stderr unless the format carries them. Exit 3 on a negative verdict with `check`."""
    if json and format not in ("table", "json"):
        raise UsageError("bad-value", f"--json and --format {format} contradict each other", "give one of them")
    chosen = present.format_of("json" if json else format, output)
    report = spoken.report(replace(report, warnings=(*report.warnings, *parse.beside.get(), *options.unused()), explain=explain))
    if output is None and chosen in present.PICTURES:
        raise UsageError("bad-value", f"a picture ({chosen}) is written to a file", f"give one with --output front.{chosen}")
    made = present.render(report, chosen)
    if output is None:
        write(str(made))
    else:
        save(made, output)
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
    """To a file, whole or not at all; a pipe or a device is written to and not replaced. Errors: cannot-write."""
    import os
    import tempfile

    content = made if isinstance(made, bytes) else made.encode()
    new = ""
    try:
        if os.path.exists(output) and not os.path.isfile(output):
            with open(output, "wb") as device:
                device.write(content)
            return
        target = os.path.realpath(output)  # a link stays one
        folder = os.path.dirname(target)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as stream:
            new = stream.name
            stream.write(content)
        os.chmod(new, 0o666 & ~_umask())
        os.replace(new, target)
        new = ""
    except (OSError, ValueError) as problem:  # ValueError: a name with a NUL in it
        reason = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise LlmcalcError("cannot-write", f"cannot write {output}: {reason}", "give --output a path that can be written") from None
    finally:
        if new:
            with suppress(OSError):
                os.unlink(new)


def _umask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask
