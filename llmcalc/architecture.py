"""The nouns of a model: weights, cache entries, states, layers, and how they add up to a Model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

from llmcalc.config import Config
from llmcalc.figures import Formula

if TYPE_CHECKING:
    from llmcalc.images import Images

Part = Literal[
    "embedding", "positions", "attention", "indexer", "state", "mlp", "experts", "shared experts", "router", "norms", "head", "mtp",
    "encoder", "vision", "audio", "projector",
]  # fmt: skip
StateDtype = Literal["model", "fp32"]
NormStyle = Literal["rms", "layer", "layer-nobias", "none"]


class Weight(NamedTuple):
    """`copies` matrices of [rows, columns] (columns 1: a vector), of which a token uses `active`; `uses`: layers that share it."""

    name: str
    part: Part
    rows: int
    columns: int = 1
    copies: int = 1
    active: int = 1
    uses: int = 1

    @property
    def params(self) -> int:
        """Stored elements."""
        return self.rows * self.columns * self.copies

    @property
    def active_params(self) -> int:
        """Elements that one token multiplies with."""
        return self.rows * self.columns * self.active


def linear(
    name: str, part: Part, out: int, into: int, bias: bool = False, copies: int = 1, active: int | None = None
) -> tuple[Weight, ...]:
    """A weight matrix [out, into], and its bias."""
    used = copies if active is None else active
    matrix = Weight(name, part, out, into, copies, used)
    return (matrix, Weight(f"{name}.bias", part, out, 1, copies, used)) if bias else (matrix,)


_NORM_VECTORS: dict[NormStyle, int] = {"rms": 1, "layer-nobias": 1, "layer": 2, "none": 0}


def norm(name: str, width: int, style: NormStyle = "rms") -> tuple[Weight, ...]:
    """A normalisation: "rms" and "layer-nobias" have one vector, "layer" two, "none" none."""
    vectors = _NORM_VECTORS[style]
    return tuple(Weight(f"{name}{suffix}", "norms", width) for suffix in ("", ".bias")[:vectors])


Reach = Literal["full", "window", "chunked"]
Kind = (
    Reach
    | Literal["shared", "cross", "bidirectional", "sparse", "shared-weights", "cca", "mla", "mla-sparse"]
    | Literal["compressed", "compressed-sparse", "shared-compressed"]
    | Literal["delta-net", "kimi-delta", "lightning", "linear", "mamba1", "mamba2", "rg-lru", "short-conv", "linear-layer"]
    | Literal["rwkv4", "rwkv5", "rwkv6", "rwkv7", "mlstm"]
)
KINDS: frozenset[str] = frozenset(kind for group in get_args(Kind) for kind in get_args(group))
"""Every kind of token mixer. To add one: its builder in attention/, its word here; engines and estimates may ask for it by this word."""


class Span(NamedTuple):
    """How far a layer looks back: everything, a window, or the chunk it is in."""

    kind: Reach
    tokens: int | None = None


FULL = Span("full")


class Entry(NamedTuple):
    """What one layer keeps per token (or per `ratio` tokens), and how a decode step uses it.

    `formula(layers, bytes_per_element, **args)` gives bytes per entry. A layer that reads another layer's cache has
    `stored` False. `reads` caps the entries that a step reads (sparse attention); `flops` is per entry read and query token.
    """

    formula: Formula
    args: tuple[tuple[str, int], ...]
    window: int | None = None
    ratio: int = 1
    tokens: int | None = None
    stored: bool = True
    reads: int | None = None
    flops: int = 0
    prefill_flops: int = 0  # per query-key pair of a prompt, where it differs (MLA expands its latent)


class State(NamedTuple):
    """Recurrent state of one layer: `formula(**args)` elements, in "model" dtype or "fp32"."""

    name: str
    formula: Formula
    args: tuple[tuple[str, int], ...]
    dtype: StateDtype


@dataclass(frozen=True, slots=True)
class Attention:
    """The token mixer of one layer: attention, recurrence, or both."""

    kind: Kind
    weights: tuple[Weight, ...]
    entries: tuple[Entry, ...] = ()
    states: tuple[State, ...] = ()
    query_heads: int = 0
    kv_heads: int = 0


@dataclass(frozen=True, slots=True)
class Mlp:
    """A dense block, or a mixture of `experts` of which a token uses `top_k`."""

    weights: tuple[Weight, ...]
    experts: int = 0
    top_k: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer."""

    mixers: tuple[Attention, ...]
    mlp: Mlp | None
    weights: tuple[Weight, ...] = ()

    @property
    def all_weights(self) -> tuple[Weight, ...]:
        """Of the mixers, the MLP and the norms."""
        mixed = tuple(weight for mixer in self.mixers for weight in mixer.weights)
        return mixed + (self.mlp.weights if self.mlp else ()) + self.weights


@dataclass(frozen=True, slots=True)
class Group:
    """Alike layers (not necessarily neighbours)."""

    count: int
    layer: Layer
    first: int


@dataclass(frozen=True, slots=True)
class Stack:
    """The language model of a config: what a family's reader returns."""

    hidden: int
    layers: tuple[Layer, ...]
    vocab: int
    tied: bool
    embedding: tuple[Weight, ...]
    head: tuple[Weight, ...]
    outside: tuple[Weight, ...] = ()  # final norm, position tables, whatever belongs to no layer
    shared: tuple[Weight, ...] = ()  # weights that several layers use and the file stores once
    mtp: tuple[Weight, ...] = ()
    max_context: int | None = None
    notes: tuple[str, ...] = ()
    buffers: tuple[tuple[str, int, int], ...] = ()  # (name, elements, bytes each) in the file that are no parameters
    generates: bool = True  # an encoder does not: no cache, no steps
    unread: str = ""  # what stands beside the language model and is not counted


@dataclass(frozen=True, slots=True)
class Model:
    """A model as estimates see it."""

    id: str
    source: str
    revision: str | None
    model_type: str
    dtype: str | None
    stack: Stack
    groups: tuple[Group, ...]
    towers: tuple[Weight, ...] | None  # None: there are towers, but their shape is not read
    native_context: int | None
    quantization: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    max_context: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    images: Images | None = None
    """How it sees images; None: it sees none, or its family's rule is not known."""


def grouped(layers: Iterable[Layer]) -> tuple[Group, ...]:
    """Alike layers together, in the order of their first appearance."""
    found: dict[Layer, list[int]] = {}
    for index, layer in enumerate(layers):
        found.setdefault(layer, []).append(index)
    return tuple(Group(len(indices), layer, indices[0]) for layer, indices in found.items())


MixerAt = Callable[[int], "Attention | tuple[Attention, ...] | None"]
MlpAt = Callable[[int], "Mlp | None"]
Block = TypeVar("Block", Attention, Mlp)


def always(block: Block) -> Callable[[int], Block]:
    """The same block on every layer."""
    return lambda _: block


def decoder(
    c: Config,
    attention: MixerAt,
    mlp: MlpAt,
    *,
    norm_style: NormStyle = "rms",
    norms: int | Callable[[int], int] = 2,
    layers: int | None = None,
    hidden: int | None = None,
    embedding_width: int | None = None,
    vocab: int | None = None,
    final_norm: bool = True,
    head_bias: bool = False,
    head: bool = True,
    tied: bool | None = None,
    positions: int = 0,
    outside: tuple[Weight, ...] = (),
    shared: tuple[Weight, ...] = (),
    per_layer: Callable[[int], tuple[Weight, ...]] | None = None,
    mtp: tuple[Weight, ...] = (),
    max_context: int | None = None,
    notes: tuple[str, ...] = (),
    buffers: tuple[tuple[str, int, int], ...] = (),
) -> Stack:
    """A decoder-only language model: embedding, layers of (mixer, mlp, norms), final norm, head.

    `positions` rows of a learned position table; `norms` per layer of the hidden width; `per_layer` further weights.
    """
    depth = c.layers if layers is None else layers
    width = c.hidden if hidden is None else hidden
    vocab = c.count("vocab_size") if vocab is None else vocab
    tie = c.flag("tie_word_embeddings") if tied is None else tied
    c.dismiss("tie_word_embeddings")
    built = []
    for index in range(depth):
        mixed = attention(index)
        mixers = () if mixed is None else mixed if isinstance(mixed, tuple) else (mixed,)
        number = norms(index) if callable(norms) else norms
        extra = tuple(weight for _ in range(number) for weight in norm("norm", width, norm_style))
        built.append(Layer(mixers, mlp(index), extra + (per_layer(index) if per_layer else ())))
    table = embedding_width or width
    around = outside
    if positions:
        around += (Weight("position_embeddings", "positions", positions, width),)
    if final_norm:
        around += norm("final_norm", width, norm_style)
    lm_head = () if tie or not head else linear("lm_head", "head", vocab, table)
    if head_bias:
        lm_head += (Weight("lm_head.bias", "head", vocab),)
    return Stack(
        hidden=width,
        layers=tuple(built),
        vocab=vocab,
        tied=tie,
        embedding=(Weight("embed_tokens", "embedding", vocab, table),),
        head=lm_head,
        outside=around,
        shared=shared,
        mtp=mtp,
        max_context=max_context if max_context is not None else context_length(c),
        notes=notes,
        buffers=buffers,
    )


CONTEXT_KEYS = (
    "max_position_embeddings",
    "model_max_length",
    "n_positions",
    "max_sequence_length",
    "max_seq_len",
    "seq_length",
    "n_ctx",
    "max_target_positions",
    "context_length",
)


def context_length(c: Config) -> int | None:
    """The longest context the config names, or None where it names none."""
    return c.maybe(*CONTEXT_KEYS, most=10**10)


def layer_types(c: Config, layers: int, rule: Callable[[int], str], key: str = "layer_types") -> list[str]:
    """The kind of every layer: the file's list, or the class's rule."""
    return c.per_layer(c.words(key), key, layers, rule)


def spans(c: Config, types: Iterable[str]) -> list[Span]:
    """The span of every attention layer from its type."""
    known: dict[str, Callable[[], Span]] = {
        "full_attention": lambda: FULL,
        "attention": lambda: FULL,
        "sliding_attention": lambda: Span("window", c.count("sliding_window")),
        "local_attention": lambda: Span("window", c.count("sliding_window")),
        "chunked_attention": lambda: Span("chunked", c.count("attention_chunk_size")),
    }
    made: dict[str, Span] = {}
    found = []
    for name in types:
        if name not in made:
            if name not in known:
                raise c.fail("layer_types", name, f"one of {', '.join(known)}")
            made[name] = known[name]()
        found.append(made[name])
    return found


def every(period: int, offset: int = 0) -> Callable[[int], str]:
    """A rule: full attention on every `period`-th layer, a window on the others."""
    return lambda layer: "full_attention" if (layer + 1 + offset) % period == 0 else "sliding_attention"


def runs(values: Iterable[Any]) -> list[tuple[Any, int]]:
    """Neighbouring equal values, counted."""
    return [(value, len(list(run))) for value, run in groupby(values)]
