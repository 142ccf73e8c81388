"""What is true of an engine: its kind, its memory policy, its defaults, its start line. A field without a default cannot be forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from llmcalc.figures import Figure

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Large:
    """Which devices take the second of a pair of defaults."""

    bytes: float
    never: tuple[str, ...] = ()
    """Parts of the names of devices that never count as large."""

    def holds(self, memory_bytes: float, name: str) -> bool:
        """Whether a device of that memory and name counts as large."""
        return memory_bytes >= self.bytes and not any(part in name.lower() for part in self.never)


@dataclass(frozen=True, slots=True)
class Start:
    """The command that starts an engine, and pairs of a flag and what it takes, each given where that is not the engine's default."""

    command: str
    """With {model}, {ctx}, {share}, {seqs} (sequences at a time), {all} (the context of all of them together) and {ngl} (layers)."""
    flags: tuple[tuple[str, str], ...] = ()
    caches: tuple[tuple[str, str], ...] = ()
    """Formats of a cache that it knows beside 16 bits, and how it calls them."""
    online: tuple[str, ...] = ()
    """Formats of weights that it makes while loading."""
    gguf: bool = False
    """It loads GGUF files."""
    tail: str = ""
    """What follows the flags, where they are variables of the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One policy. Sizes are per device [B], `batched` and `sequences` are (small device, large device)."""

    name: str
    kind: Literal["server", "desktop"] | None
    """How its time is estimated; None: as the device's usual engine."""
    split: Literal["tensor", "pipeline"]
    """How it lays a model over several devices when nobody says."""
    tensor: bool
    """Whether it can cut matrices at all."""
    vendors: tuple[str, ...]
    """Whose devices it runs on; empty: anybody's."""
    start: Start | None
    source: str
    block_tokens: int
    windows: Literal["ideal", "step", "cells", "share", "full"]
    """What a window layer is charged: the window, window - 1 + a step, window + micro-batch, a share of all tokens, all of them."""
    batched: tuple[int, int]
    """Tokens of a step; 0: a whole context."""
    sequences: tuple[int, int]
    large: Large | None
    """Which devices take the second of these defaults; None: all take the first."""
    other_bytes: tuple[float, float, float]
    """Context, communication, margin: (one device, several, several over NVLink)."""

    log: tuple[str, ...] = ()
    """What it prints at start-up, with {gib} of a device's pool, {tokens}, {ctx} and {concurrency}."""
    since: tuple[int, ...] = (0, 0)
    """The first release that the row holds for."""
    one_host: bool = False
    """It knows no other hosts than its own."""
    nominal: bool = False
    """The decimal size instead of the driver's."""
    utilization: float = 1.0
    share_rule: Callable[[float, int, int, float, float], float] | None = None
    """The share by (memory, tp, ranks, tokens of a step, parameters of an encoder), where a rule sets aside what they take."""
    tiers: tuple[tuple[float, int], ...] = ()
    """Tokens of a step on devices with less than so much memory, where there are more than two kinds of devices; 0: as `batched`."""
    files: str = ""
    """How the formats are called that it alone loads, and nearly nothing else; empty: any."""
    aside: bool = False
    """Said of a device only where it is asked for by name."""
    meant: tuple[tuple[str, str], ...] = ()
    """Plain names of formats, and which of its own they mean to it."""
    kinds: tuple[str, ...] = ()
    """On which kinds of devices it runs; empty: all."""
    free_bytes: float = 0
    """What it leaves of each device, and does not take."""
    slot_caches: bool = False
    """The caches of all its slots are there from the start."""
    setup_first: bool = False
    """The share applies to what contexts and communication leave."""
    of_free: bool = False
    """The share applies to what weights and buffers leave free."""
    pool: bool = False
    """Takes its whole share at start-up, whatever the model needs."""
    window_share: float = 0
    """Of all tokens, where `windows` is share."""
    grouped: bool = False
    """Layers in groups of equal size whose blocks have equal bytes."""
    state_blocks: int = 1
    """State blocks that a sequence takes, of which one is in use; vLLM: two with prefix caching, else one."""
    state_ratio: float = 0
    """States get ratio / (1 + ratio) of the pool."""
    whole_layers: bool = False
    """Several devices share a model layer by layer, so that no cache is replicated."""
    longest_step: int = 0
    """The longest context that is read whole, in a step; longer ones come 2,048 tokens at a time. 0: any."""
    logit_bytes: float = 0
    """The sampler's peak per logit."""
    keeps_workspaces: bool = False
    wide_buffers: bool = False
    """Fused experts have two buffers as wide as a token; before, their three products had one each."""
    image_tokens: int = 0
    """Tokens of the largest image (Qwen's), which the engine encodes when it measures its peak."""
    expert_tiles: tuple[int, int] = (1, 1)
    """To what multiples the kernels pad MXFP4 experts: (width inside, width of a token)."""
    graphs: tuple[float, float, float] | None = None
    """CUDA graphs that are taken from the budget: bytes of a layer in a captured batch size, without and with a mixture of experts,
    and with one that is dealt over data-parallel groups."""
    graph_workspace_bytes: float = 0
    """What the attention kernels of an fp8 cache first take while graphs are captured, which is counted as theirs."""
    host_bytes: float = 0
    """Where several devices of unified memory share a model: what workers, pinned buffers and pages take of the same memory."""
    chunk: int = 2048
    """Tokens of a step where a context is longer than the longest that is read whole."""
    light_runner: bool = False
    """Unquantised dense decoders run under a second model runner: it estimates no graphs, and its profile keeps the logits alone."""
    whole_profile: bool = False
    """The profile's step runs while what the encoder took is still held."""
    hosts_experts: bool = False
    """Routed experts lie in the host's memory unless something else is asked for."""
    old_latents: bool = False
    """Of MLA it caches every head where a file is older than its keys for the latent."""
    packed: bool = False
    """Sparse MLA in fp8 is 656 B per token and layer; its indexer takes 132 B in any format."""
    conv_fp32: bool = False
    plain_states: bool = False
    """Recurrent states take the dtype of the activations, unless a family's configs ask for float32."""
    float32_states: frozenset[str] = frozenset()
    """Families whose configs do."""
    release: str = field(default="", compare=False)
    """The release that was asked for, by which its times are told apart; empty: the newest."""
    prompts_first: bool = False
    """Waiting prompts are read before anybody decodes on, so that equal requests of a closed loop stay in step."""
    log_groups: bool = False
    """The logged cache size divides the blocks by the groups instead of multiplying the concurrency."""

    @property
    def family(self) -> str:
        """The name without the release."""
        return self.name.partition("@")[0]

    def runs_on(self, vendor: str, kind: str) -> bool:
        """Whether it runs on a vendor's devices of that kind."""
        return (not self.vendors or vendor in self.vendors) and (not self.kinds or kind in self.kinds)

    def layout(self, devices: int) -> tuple[int, int]:
        """(tensor-parallel ranks, stages) over so many devices, as the engine lays a model over them by itself."""
        return (devices, 1) if self.split == "tensor" else (1, devices)

    def figure(self, name: str, value: Any, unit: str = "") -> Figure:
        """A fact of the engine."""
        return Figure(name, value, unit, f"engine {self.name}")
