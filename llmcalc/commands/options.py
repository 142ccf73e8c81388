"""Options: each is one field of a group, with its words and aliases, and what its word is read as. A command takes groups.

To add an option, add a field to its group and read it where the group is used: every command that takes the group has the option.
A group remembers which of its options were read; an option that was given and never read had no effect, and the answer says so.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import EllipsisType
from typing import Annotated, Any, Generic, Self, TypeVar, overload

import typer

from llmcalc import present, units
from llmcalc.commands import completion, parse, waiting
from llmcalc.errors import UsageError

T = TypeVar("T")
S = TypeVar("S")
SECTIONS = ("Options", "Model", "Deployment", "Workload", "Limits", "Money", "Output")
"""The headings of --help, in order."""


class Option(Generic[T]):
    """One option: a default as it would be typed (`...`: must be given), the flags, and how its word is read."""

    def __init__(self, kind: Any, default: Any, flags: tuple[str, ...], read: Callable[[str, str], Any], shown: dict[str, Any]) -> None:
        self.kind, self.default, self.flags, self.read, self.shown = kind, default, flags, read, shown
        self.name = self.section = ""

    def __set_name__(self, group: type[Group], name: str) -> None:
        self.name, self.section = name, self.section or group.section  # where it was first; a copy stays there

    @overload
    def __get__(self, group: None, owner: type[Group]) -> Option[T]: ...
    @overload
    def __get__(self, group: Group, owner: type[Group]) -> T: ...
    def __get__(self, group: Group | None, owner: type[Group]) -> Any:
        if group is None:
            return self
        group.read.add(self.name)
        text = group.words[self.name]
        return self.read(text, self.title) if isinstance(text, str) else text

    def __set__(self, group: Group, value: Any) -> None:
        raise AttributeError(f"{self.name} is given once")

    @property
    def title(self) -> str:
        """What messages call it: its first flag."""
        return next(flag for flag in self.flags if flag.startswith("--"))[2:]

    def given(self, value: Any) -> bool:
        """Whether a value is worth a word where it has no effect: one of a count is what everybody has."""
        return value not in (None, False, (), [], self.default) and not (value == "1" and self.shown.get("metavar") == "N")

    @overload
    def but(self, *, default: None, **shown: Any) -> Option[T | None]: ...
    @overload
    def but(self, *, default: str = ..., **shown: Any) -> Option[T]: ...
    def but(self, **shown: Any) -> Any:
        """The same option with another default or other words, for a group that means it a little differently."""
        made = copy.copy(self)
        made.default = shown.pop("default", self.default)
        made.flags = shown.pop("flags", self.flags)
        made.read = shown.pop("read", self.read)
        made.shown = self.shown | shown
        return made

    def parameter(self, *, hidden: bool) -> inspect.Parameter:
        """As a keyword of a function that typer reads."""
        default: Any = inspect.Parameter.empty if self.default is ... else self.default
        if hidden and self.default is ...:
            default = None
        kind = self.kind | None if self.kind is not bool and default is None else self.kind
        info = typer.Option(*self.flags, **({"hidden": True} if hidden else {}) | {"rich_help_panel": self.section} | self.shown)
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


@overload
def option(default: None, *flags: str, read: Callable[[str, str], S], **shown: Any) -> Option[S | None]: ...
@overload
def option(default: None, *flags: str, **shown: Any) -> Option[str | None]: ...
@overload
def option(default: str | EllipsisType, *flags: str, read: Callable[[str, str], S], **shown: Any) -> Option[S]: ...
@overload
def option(default: str | EllipsisType, *flags: str, **shown: Any) -> Option[str]: ...
def option(default: Any, *flags: str, read: Any = parse.word, **shown: Any) -> Any:
    """An option that takes a word."""
    return Option(str, default, flags, read, shown)


def switch(*flags: str, **shown: Any) -> Option[bool]:
    """An option that takes none."""
    return Option(bool, False, flags, parse.word, shown)


def repeated(*flags: str, **shown: Any) -> Option[list[str] | None]:
    """An option that may be given several times."""
    return Option(list[str], None, flags, parse.word, shown)


class Group:
    """Options that belong together. Made of words as they were typed; an option that is not named has its default."""

    needs = ""
    """The option without which others of the command have no use."""
    section = "Options"
    """The heading of its options in --help: one of SECTIONS."""

    def __init__(self, **words: Any) -> None:
        known = self.options()
        if unknown := words.keys() - known:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.words = {name: words.get(name, None if one.default is ... else one.default) for name, one in known.items()}
        self.read: set[str] = set()

    @classmethod
    def options(cls) -> dict[str, Option[Any]]:
        """The options by name, its own before those of its bases."""
        found: dict[str, Option[Any]] = {}
        for base in cls.__mro__:
            found = found | {name: one for name, one in vars(base).items() if isinstance(one, Option) and name not in found}
        return found

    def gave(self, *names: str) -> bool:
        """Whether one of these has another value than its default; asking is no use of it."""
        return any(self.words[name] not in (None, self.options()[name].default) for name in names)

    def without(self, *names: str) -> Self:
        """The same with the defaults of these, for a room that has no use for them; the rest counts as read."""
        self.read |= self.options().keys() - set(names)
        return type(self)(**{name: word for name, word in self.words.items() if name not in names})

    def idle(self) -> list[str]:
        """What was given and never read."""
        return [one.title for name, one in self.options().items() if name not in self.read and one.given(self.words[name])]


class Whence(Group):
    """Where a model's config comes from."""

    section = "Model"
    revision = option(None, "--revision", metavar="REV", help="Branch, tag or commit on the Hub.")
    offline = switch("--offline", help="Never touch the network.")
    refresh = switch("--refresh", help="Ask the Hub even if bundled or cached.")


class ModelChoice(Whence):
    """Which model."""

    model = option(
        ...,
        "--model",
        "-m",
        "--model-id",
        "--model-path",
        metavar="MODEL",
        autocompletion=completion.models,
        help="org/name[@rev], URL, folder, .gguf or - (stdin).",
    )


class Layout(Group):
    """In which formats, and laid out how."""

    section = "Deployment"
    weights = option(
        "auto",
        "--weights",
        "--quantization",
        "-q",
        metavar="FORMAT",
        autocompletion=completion.weights,
        help="auto (as it ships) or a format.",
    )
    kv_dtype = option(
        "auto",
        "--kv-dtype",
        "--kv-cache-dtype",
        "--cache-type-k",
        "-ctk",
        metavar="FORMAT",
        autocompletion=completion.caches,
        help="auto (as it ships) or a format.",
    )
    tp = option(
        None,
        "--tp",
        "--tensor-parallel-size",
        "-tp",
        "--tp-size",
        metavar="N",
        read=parse.counting(most=8192),
        help="Tensor parallel. [default: N of 'Nx device']",
    )
    pp = option(
        "1", "--pp", "--pipeline-parallel-size", "-pp", "--pp-size", metavar="N", read=parse.counting(most=1024), help="Pipeline stages."
    )
    ep = option(
        "1",
        "--ep",
        "--expert-parallel-size",
        "--ep-size",
        "--moe-ep-size",
        metavar="N",
        read=parse.counting(most=8192),
        help="Expert parallel ranks.",
    )
    dp = option(
        "1",
        "--dp",
        "--data-parallel-size",
        "-dp",
        "--dp-size",
        metavar="N",
        read=parse.counting(most=8192),
        help="Data parallel groups of ranks.",
    )
    cp = option(
        "1",
        "--cp",
        "--prefill-context-parallel-size",
        "-pcp",
        metavar="N",
        read=parse.counting(most=1024),
        help="Context parallel groups of ranks that share each prompt and its cache.",
    )
    dcp = option(
        "1",
        "--dcp",
        "--decode-context-parallel-size",
        "-dcp",
        "--dcp-size",
        metavar="N",
        read=parse.counting(most=1024),
        help="Tensor parallel ranks that share a cache by its tokens.",
    )
    redundant_experts = option(
        "0",
        "--redundant-experts",
        "--num-redundant-experts",
        "--ep-num-redundant-experts",
        metavar="N",
        read=parse.counting(least=0, most=65_536),
        help="Further copies of experts in each mixture, over the expert parallel ranks.",
    )


class Wires(Group):
    """What connects the devices, how evenly they are busy, and how much power they may draw."""

    section = "Deployment"
    link = option(None, "--link", metavar="LINK", help="Inside a node: pcie4-host, nvlink-bridge, tb5.")
    network = option(None, "--network", metavar="RATE", help="Between nodes, of each device: 400Gb/s, ndr.")
    expert_imbalance = option(
        None,
        "--expert-imbalance",
        metavar="FACTOR",
        read=parse.imbalance,
        help="Busiest expert parallel rank over their mean: 1.3. [default: 1; in an engine as measured]",
    )
    power_cap = option(
        None, "--power-cap", metavar="WATTS", read=parse.watts, help="Limit of each device, where its speeds are known: 250W."
    )


class Named(Group):
    """Which devices."""

    section = "Deployment"
    hardware = option(
        ...,
        "--hardware",
        "-d",
        "--gpu",
        "--device",
        metavar="DEVICE",
        autocompletion=completion.devices,
        help="Id, alias, YAML file, '2x rtx-4090'.",
    )


class Stored(Named, Layout):
    """In which formats on which devices: what memory alone asks for."""


class Placement(Stored, Wires):
    """The same, and what connects them."""


class Running(Group):
    """What runs it: the engine and its own options about memory and steps."""

    section = "Deployment"
    engine = option(
        "napkin",
        "--engine",
        metavar="NAME",
        autocompletion=completion.engines,
        help="vllm, vllm@0.11, llama.cpp, …",
    )
    memory_utilization = option(
        None,
        "--memory-utilization",
        "--gpu-memory-utilization",
        "--mem-fraction-static",
        "--kv-cache-free-gpu-memory-fraction",
        "--free-gpu-memory-fraction",
        metavar="SHARE",
        read=parse.fraction,
        help="Share of the memory for the engine.",
    )
    reserve = option("0", "--reserve", metavar="SIZE", read=parse.reserve_bytes, help="Kept free on each device: 6GB.")
    max_num_batched_tokens = option(
        None,
        "--max-num-batched-tokens",
        "--ubatch-size",
        "-ub",
        "--chunked-prefill-size",
        metavar="TOKENS",
        read=parse.counting(most=2**24),
        help="Tokens of a step. [default: the engine's]",
    )
    max_num_seqs = option(
        None,
        "--max-num-seqs",
        "--parallel",
        "-np",
        "--max-running-requests",
        "--max-batch-size",
        "--num-parallel",
        metavar="N",
        read=parse.counting(most=2**20),
        help="Sequences at a time. [default: the engine's]",
    )
    lora_rank = option(
        None, "--lora-rank", "--max-lora-rank", metavar="R", read=parse.counting(most=4096), help="Rank of the adapters served."
    )
    max_loras = option(None, "--max-loras", metavar="N", read=parse.counting(most=65_536), help="Adapters in use at once. [default: 1]")
    lora_targets = option(
        None, "--lora-targets", metavar="NAMES", read=parse.names, help="Of which matrices: q_proj,v_proj. [default: all]"
    )


class Hosting(Running):
    """What runs it, and what of it lies in the host's memory."""

    gpu_layers = option(
        None,
        "--n-gpu-layers",
        "-ngl",
        "--gpu-layers",
        metavar="N",
        read=parse.layers,
        help="Layers on the GPU (llama.cpp); 99: all.",
    )
    n_cpu_moe = option(None, "--n-cpu-moe", metavar="N", read=parse.layers, help="Layers with experts on the host; 99: all.")
    cpu_offload_gb = option(
        None, "--cpu-offload-gb", metavar="SIZE", read=parse.gibibytes, help="GiB of each GPU's weights on the host (vLLM)."
    )
    host = option(None, "--host", autocompletion=completion.hosts, metavar="CPU", help="The host: epyc-9654. [default: a common desktop]")
    host_bandwidth = option(
        None, "--host-bandwidth", metavar="RATE", read=parse.quantity("bytes/s"), help="Bandwidth of the host's memory: 80GB/s."
    )


class Pooled(Hosting):
    """The same, and what an engine's pool of caches depends on."""

    enforce_eager = switch("--enforce-eager", help="No CUDA graphs (vLLM).")
    no_graph_estimate = switch("--no-graph-estimate", help="CUDA graphs beside the pool (vLLM before 0.21).")
    language_model_only = switch("--language-model-only", help="Without the encoder of images and sound.")
    block_size = option(
        None,
        "--block-size",
        "--page-size",
        metavar="TOKENS",
        read=parse.counting(most=65_536),
        help="Of the cache. [default: the engine's]",
    )
    available_kv = option(
        None,
        "--available-kv",
        "--kv-cache-memory",
        "--kv-cache-memory-bytes",
        metavar="SIZE",
        read=parse.gibibytes,
        help="Each device's pool, as a log says it: 10.55GiB.",
    )


class Work(Group):
    """What is held at once."""

    section = "Workload"
    ctx = option(
        None,
        "--ctx",
        "-c",
        "--context",
        "--max-model-len",
        "--context-length",
        "--ctx-size",
        "--num-ctx",
        "--max-seq-len",
        metavar="TOKENS",
        read=units.tokens,
        help="Tokens of each sequence: 32768, 32k (k = 1024).",
    )
    batch = option("1", "--batch", "-b", "--batch-size", metavar="N", read=parse.whole_number, help="Concurrent sequences.")
    image = option(None, "--image", metavar="WxH[,N]", read=parse.image, help="Images in each prompt: 1024x768,3 for three.")


class Request(Group):
    """What one request asks."""

    section = "Workload"
    prompt = option(
        None, "--prompt", "--input-len", "--isl", metavar="TOKENS", read=units.tokens, help="Prompt tokens. [default: the context]"
    )
    cached = option("0", "--cached", metavar="TOKENS", read=parse.count_or_zero, help="Of the prompt, already in the prefix cache.")
    output_tokens = option(
        None, "--output-tokens", "--output-len", "--osl", metavar="TOKENS", read=units.tokens, help="Tokens written per request."
    )


class Arrivals(Group):
    """What arrives: at which rate, or which trace."""

    section = "Workload"
    rate = option(None, "--rate", metavar="RATE", help="Requests: 12 (per second), 700/min, 1e6/day.", read=parse.per_second)
    trace = option(None, "--trace", metavar="FILE", help="CSV or JSONL: arrival_s, prompt_tokens, output_tokens.")
    traffic = option(None, "--traffic", metavar="FILE", help="YAML with a mix: rate, cv, kinds: [{share, prompt, output_tokens}].")
    reasoning_tokens = option(
        "0",
        "--reasoning-tokens",
        metavar="TOKENS",
        read=parse.count_or_zero,
        help="Thought before each answer; paid, not shown.",
    )
    arrival_cv = option("1", "--arrival-cv", metavar="CV", read=parse.variation, help="Of arrivals: 1 random, above in bursts, 0 even.")
    prompt_cv = option("0", "--prompt-cv", metavar="CV", read=parse.variation, help="Of prompt lengths; 0: all alike.")
    output_cv = option("0", "--output-cv", metavar="CV", read=parse.variation, help="Of output lengths; 0: all alike.")
    seed = option("0", "--seed", metavar="N", read=parse.counting(least=0), help="Of the random arrivals and lengths.")


class Limits(Group):
    """What a service promises."""

    section = "Limits"
    max_ttft = option(None, "--max-ttft", metavar="TIME", read=parse.limit, help="Limit on the time to the first token: 1s.")
    max_tpot = option(None, "--max-tpot", metavar="TIME", read=parse.limit, help="Limit on the time per token: 40ms.")
    percentile = option("95", "--percentile", metavar="P", read=parse.percentile, help="Percentile of requests that hold the limits.")


class Steps(Group):
    """How an engine steps through a stream of requests."""

    section = "Deployment"
    method = option(
        None,
        "--method",
        metavar="NAME",
        autocompletion=completion.methods,
        help="expected (in an engine) or napkin (the textbook's, at --mfu and --mbu). [default: expected]",
    )
    chunk = option(
        None,
        "--chunk",
        metavar="TOKENS",
        read=parse.count_or_zero,
        help="Prompt tokens per step; 0: whole prompts. [default: the engine's, else 2048]",
    )
    mfu = option(None, "--mfu", metavar="SHARE", read=parse.fraction, help="Of the compute rate. [default: 0.5 with napkin]")
    mbu = option(None, "--mbu", metavar="SHARE", read=parse.fraction, help="Of the bandwidth. [default: 0.8 with napkin]")
    max_batch = option(
        None,
        "--max-batch",
        metavar="N",
        read=parse.counting(most=100_000),
        help="Most at once. [default: the engine's, else 1024]",
    )


class Drafts(Group):
    """What drafts tokens for the model to check."""

    section = "Deployment"
    draft_tokens = option(
        "0",
        "--draft-tokens",
        "-g",
        metavar="N",
        read=parse.counting(least=0, most=1000),
        help="Tokens drafted per step.",
    )
    draft = option(
        None,
        "--draft",
        "--draft-model",
        metavar="MODEL",
        autocompletion=completion.models,
        help="What drafts. [default: the target's own layers]",
    )


class Money(Group):
    """What a device costs."""

    section = "Money"
    price = option(
        None,
        "--price",
        metavar="USD",
        read=parse.prices,
        help="USD per device-hour: 2.5, or h100=2.2,mi300x=1.9.",
    )
    price_kind = option(
        None,
        "--price-kind",
        autocompletion=completion.of("on-demand", "long-rental", "spot", "ownership"),
        metavar="KIND",
        read=parse.choice("on-demand", "long-rental", "spot", "ownership"),
        help="on-demand, long-rental, spot or ownership. [default: one kind for all]",
    )
    whole_nodes = switch("--whole-nodes", help="Pay for whole nodes, as some providers rent nothing less.")


class Reading(Group):
    """By which method times are estimated."""

    section = "Deployment"
    method = option(
        "napkin",
        "--method",
        metavar="NAME",
        autocompletion=completion.methods,
        help="expected (in an engine), napkin (the textbook's) or roofline (a bound).",
    )


class Deciding(Reading):
    """The same where something is chosen or promised: as an engine is expected to take."""

    method = Reading.method.but(default="expected")


class File(Group):
    """Where a result goes, and in which format."""

    section = "Output"
    format = option(
        "table",
        "--format",
        "-f",
        metavar="FORMAT",
        autocompletion=completion.outputs,
        help=f"{', '.join(list(present.FORMATS)[1:-1])} or {list(present.FORMATS)[-1]}.",
    )
    json = switch("--json", help="Same as --format json.")
    all = switch("--all", help="On a terminal, every row and figure.")
    output = option(None, "--output", "-o", metavar="FILE", help="A file to write; its ending picks the format.")

    def chosen(self) -> present.Format:
        """The format. Errors: bad-value, unknown-output-format."""
        if self.json and self.format not in ("table", "json"):
            raise UsageError("bad-value", f"--json and --format {self.format} contradict each other", "give one of them")
        return present.format_of("json" if self.json else self.format, None if self.output == "-" else self.output)


class Output(File):
    """The same of an estimate: its derivation, and its verdict as an exit code."""

    explain = switch("--explain", help="Every figure's formula, values and origins.")
    check = switch("--check", help="Exit with 3 if the verdict is negative.")


ESTIMATING: tuple[type[Group], ...] = (Placement, Work, Money, Running, Output)
"""Every estimating command takes the options of these, so that one set of them serves all: hidden where it has no use for the group."""
_running: ContextVar[tuple[str, tuple[Group, ...], tuple[Group, ...]]] = ContextVar("_running", default=("", (), ()))


def running() -> str:
    """The name of the command that runs, or nothing outside of one."""
    return _running.get()[0]


def unused() -> tuple[str, ...]:
    """A sentence for every option that was given to the running command and that nothing has read so far."""
    command, taken, hidden = _running.get()
    without = next((f" without --{group.needs}" for group in taken if group.needs and group.words[group.needs] is None), "")
    said = [f"{name}: {command} makes no use of it{without}" for group in taken for name in group.idle()]
    return (*said, *(f"{name}: {command} makes no use of it" for group in hidden for name in group.idle()))


def command(function: Callable[..., None], also: tuple[type[Group], ...] = ESTIMATING) -> Callable[..., None]:
    """The function as typer takes it: the fields of its groups become options, and those of `also` that it lacks hidden ones."""
    own = inspect.signature(function, eval_str=True).parameters
    taken = {key: one.annotation for key, one in own.items() if inspect.isclass(one.annotation) and issubclass(one.annotation, Group)}
    parameters = {one.name: one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for key, one in own.items() if key not in taken}
    for group in taken.values():
        parameters |= {name: one.parameter(hidden=False) for name, one in group.options().items()}
    hidden: dict[type[Group], list[str]] = {}
    for group in also:
        hidden[group] = [name for name in group.options() if name not in parameters]
        parameters |= {name: group.options()[name].parameter(hidden=True) for name in hidden[group]}

    def run(**given: Any) -> None:
        groups = {key: group(**{name: given.pop(name) for name in group.options()}) for key, group in taken.items()}
        idle = tuple(group(**{name: given.pop(name) for name in names}) for group, names in hidden.items())
        running, beside = _running.set((function.__name__, tuple(groups.values()), idle)), parse.beside.set(())
        try:
            with waiting.shown():
                function(**groups, **given)
        finally:
            _running.reset(running)
            parse.beside.reset(beside)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__doc__ = function.__doc__
    return run
