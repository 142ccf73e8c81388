"""How a model is run (Deployment) and how it is used (Workload)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llmcalc.architecture import Model
from llmcalc.engines import ENGINES, Engine
from llmcalc.errors import UsageError
from llmcalc.figures import larger
from llmcalc.formats import Format
from llmcalc.hardware import Device


@dataclass(frozen=True, slots=True)
class Adapters:
    """Low-rank adapters that an engine serves: their rank, how many at once, and for which matrices (none named: for all)."""

    rank: int
    slots: int = 1
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Offload:
    """What lies in the host's memory instead of the card's."""

    gpu_layers: int | None = None
    """Layers that stay on the card, the last ones; one more is the head. None: all."""
    host_expert_layers: int = 0
    """Layers, the first ones, whose routed experts lie on the host."""
    host_bytes: float = 0
    """Weights of each device that it reads over the bus. [B]"""
    host: Device | None = None
    """The processor whose memory that is; None: a common desktop."""
    host_bytes_per_s: float | None = None
    """Its memory's bandwidth, where it was given. [B/s]"""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One replica of a model: `ranks` devices, in pp stages of tp ranks, dp such groups where experts need more.

    tp cuts every matrix; ep deals experts over tp × dp ranks, and where ep exceeds tp, attention runs data-parallel in
    dp = ep / tp groups that each hold the dense weights once. cp × tp ranks share the tokens of a prompt and the cache of a
    sequence: each tp group holds the dense weights, all of them together the experts. dcp of the tp ranks share a cache by its
    tokens instead of holding it dcp times.
    """

    device: Device
    weights: Format
    kv: Format
    tp: int = 1
    pp: int = 1
    ep: int = 1
    cp: int = 1
    dcp: int = 1
    redundant_experts: int = 0
    """Further copies of routed experts, in each mixture."""
    imbalance: float | None = None
    """Load of the busiest rank over the mean of those that experts are dealt over; None: even in a textbook, as measured in an engine."""
    engine: Engine = field(default_factory=lambda: ENGINES["napkin"])
    reserve_bytes: float = 0
    utilization: float | None = None
    usd_per_device_hour: float | None = None
    price_text: str = ""
    batched_tokens: int | None = None
    """Tokens of a step (vLLM's max-num-batched-tokens, llama.cpp's micro-batch); None: the engine's default."""
    max_sequences: int | None = None
    """Sequences that the engine runs at a time; None: its default."""
    draft_tokens: int = 0
    """Tokens that are drafted per step, whose layers then take their part of the pool; 0: no speculation."""
    drafter: Model | None = None
    """The model that drafts; None: the target's own prediction layers."""
    adapters: Adapters | None = None
    """Low-rank adapters that are served beside the weights."""
    offload: Offload | None = None
    """What lies in the host's memory."""
    graphs: bool = True
    """Whether CUDA graphs are captured and taken from the budget."""
    eager: bool = False
    """Whether none are captured at all."""
    encoder: bool = True
    """Whether the encoder of images and sound is loaded."""
    encoder_params: float = 0
    """Its parameters, by which an engine lowers its own share."""
    pool_bytes: float | None = None
    """A device's pool as the engine logged it; None: what its policy leaves."""

    def __post_init__(self) -> None:
        if self.ep > 1 and max(self.ep, self.tp) % min(self.ep, self.tp):
            raise UsageError("bad-layout", f"ep {self.ep} and tp {self.tp} do not divide each other", "make one a multiple of the other")
        if self.tp % self.dcp:
            raise UsageError("bad-layout", f"dcp {self.dcp} does not divide tp {self.tp}", "give a `tp` that is a multiple of `dcp`")

    @property
    def dp(self) -> int:
        """Data-parallel attention groups."""
        return max(1, self.ep // self.tp)

    @property
    def ranks(self) -> int:
        """Devices of one replica."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def holders(self) -> int:
        """Ranks of a stage that hold a part of a sequence's cache."""
        return self.tp * self.cp

    @property
    def spread(self) -> int:
        """Ranks of a stage over which experts are dealt."""
        return self.tp * self.cp * self.dp

    @property
    def share(self) -> float:
        """Share of the memory that the engine may use."""
        if self.utilization is not None:
            return self.utilization
        memory, rule = self.device.memory_usable_bytes, self.engine.share_rule
        if rule is None or memory is None:
            return self.engine.utilization
        return rule(memory, self.tp, self.tp * self.pp, self.step_tokens(0), self.encoder_params * self.encoder)

    @property
    def large(self) -> bool:
        """Whether the engine's defaults take the device for a large one."""
        rule = self.engine.large
        return rule is not None and rule.holds(self.device.memory_usable_bytes or 0, self.device.name)

    def step_tokens(self, ctx: Any) -> Any:
        """Tokens of a step; an engine that reads whole prompts takes as many as a context has, up to the longest that it does."""
        if self.batched_tokens is not None:
            return self.batched_tokens
        memory = self.device.memory_usable_bytes or 0
        if tier := next((tokens for limit, tokens in self.engine.tiers if memory < limit), 0):
            return tier
        longest = self.engine.longest_step
        chunk = self.engine.chunk
        return self.engine.batched[self.large] or (
            larger(2048 * (ctx <= longest) + chunk * (ctx > longest), ctx * (ctx <= longest)) if longest else larger(2048, ctx)
        )

    @property
    def slots(self) -> int:
        """Sequences that the engine runs at a time."""
        return self.engine.sequences[self.large] if self.max_sequences is None else self.max_sequences


@dataclass(frozen=True, slots=True)
class Workload:
    """Sequences of `ctx` tokens, `batch` at a time. Either may be a numpy array: a sweep is one estimate."""

    ctx: Any
    batch: Any = 1
    prompt: int | None = None
    output: int | None = None
    cached: int = 0
    queries: int = 1
    """Tokens of each sequence in a step: its drafts and its own where the step verifies drafts."""

    @property
    def prompt_tokens(self) -> int:
        """The prompt; without one, the context that the sequences hold."""
        return self.prompt if self.prompt is not None else int(self.ctx)
