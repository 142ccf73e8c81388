"""How a matrix is stored, what a checkpoint stores, and what every quantiser shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from llmcalc.architecture import Weight
from llmcalc.errors import ConfigError, printable
from llmcalc.formats import Format
from llmcalc.formulas import memory as f


class Scheme(NamedTuple):
    """How one matrix is stored: `bits` per element; `block_bytes` of scales and zeros for each block of `block` elements.

    A block side of 0 is the whole side. `row_bytes` and `column_bytes` are per output and input, `matrix_bytes` once.
    `compute` is the rate that a device multiplies at, as in a Format.
    """

    name: str
    bits: float
    block: tuple[int, int] = (0, 0)
    block_bytes: float = 0
    matrix_bytes: int = 0
    column_bytes: int = 0
    compute: str = "bf16"

    def inputs(self, rows: int, columns: int) -> dict[str, float]:
        """The arguments of the formula `stored_bytes` for one matrix, without the number of matrices."""
        high, wide = self.block
        return {
            "rows": rows,
            "columns": columns,
            "bits": self.bits,
            "block_rows": high or rows or 1,
            "block_columns": wide or columns or 1,
            "block_bytes": self.block_bytes,
            "matrix_bytes": self.matrix_bytes + self.column_bytes * columns,
        }


class Kept(NamedTuple):
    """`matrices` matrices of one weight that are stored alike."""

    scheme: Scheme
    matrices: int


@dataclass(frozen=True, slots=True)
class Checkpoint(Format):
    """The format of a whole checkpoint: effective bits, and the schemes of every weight in the order of `model.weights`."""

    language: tuple[tuple[Kept, ...], ...] = ()
    towers: tuple[tuple[Kept, ...], ...] = ()
    mtp: tuple[tuple[Kept, ...], ...] = ()
    recipe: bool = False
    """As its tools would write it; else as it ships."""
    buffers: tuple[tuple[str, int, int], ...] = ()  # (name, elements, bytes each): in the file, and no parameters

    def of(self, index: int) -> Format:
        """The format of one weight, by its place in `model.weights`; where layers differ, that of most of them."""
        most = self._most(index)
        return Format(most.name, most.bits, most.compute)

    def in_blocks(self, index: int) -> bool:
        """Whether a scale belongs to a block of several rows and columns, which products must apply while they add up."""
        return min(self._most(index).block) > 1

    def _most(self, index: int) -> Scheme:
        return max(self.language[index], key=lambda part: part.matrices).scheme

    @property
    def buffer_bytes(self) -> int:
        """Bytes of routing tables and balancing biases."""
        return sum(elements * each for _, elements, each in self.buffers)


def size(weight: Weight, kept: Iterable[Kept]) -> float:
    """Bytes of one weight of one group of alike layers."""
    return float(sum(f.stored_bytes(matrices=k.matrices, **k.scheme.inputs(weight.rows, weight.columns)) for k in kept))


FLOAT8 = Scheme("fp8", 8, (128, 128), 4, compute="fp8")


NVFP4 = Scheme("nvfp4", 4, (1, 16), 1, matrix_bytes=8, compute="fp4")


MXFP4 = Scheme("mxfp4", 4, (1, 32), 1, compute="fp4")


MXFP8 = Scheme("mxfp8", 8, (1, 32), 1, compute="fp8")


Rule = Callable[[Weight, "tuple[str, ...]"], "Scheme | None"]


# What a quantiser replaces unless its lists say otherwise: the matrices that every token multiplies with in a layer.
_LINEAR = frozenset({"attention", "mlp", "experts", "shared experts", "encoder", "mtp"})


# A prediction module's copies of embedding and head, and what it has beside a layer.
TABLES = frozenset({"embed_tokens", "shared_head.head"})


AHEAD = frozenset({"eh_proj", "e_proj", "h_proj", "fc", "enorm", "hnorm", "shared_head.norm", *TABLES})


# In every checkpoint whose code is known: projections that its quantiser does not see, or that are no linear layers.
NEVER = re.compile(
    r"(^|\.)(compressor|conv1d|indexer\.(kv_proj|gate_proj|weights_proj)|\w*res_proj|position_bias|gate|\w+_hc\.\w+|hc_head\.\w+)$"
    r"|compressor\.|(markov|confidence)_head"
)


def is_linear(weight: Weight) -> bool:
    """Whether it is a matrix inside of a layer that quantisers replace."""
    inside = weight.part in _LINEAR or weight.name == "indexer.q_b_proj"
    return inside and weight.columns > 1 and weight.name not in (*TABLES, "eh_proj") and not NEVER.search(weight.name)


def whole_number(q: Mapping[str, Any], key: str, default: int | None = None, least: int = 1, most: int = 65_536) -> int:
    """A whole number of a quantiser's block. Errors: bad-quantization."""
    value = q.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(
            "bad-quantization",
            f"quantization_config.{key} is {printable(repr(value), 40)}; it must be a whole number from {least} to {most:,}",
            "name a format with `weights`, such as `weights=int4`",
        )
    return value


def list_of(q: Mapping[str, Any], *keys: str) -> list[Any]:
    """The first of the keys that holds a list."""
    for key in keys:
        value = q.get(key)
        if isinstance(value, list):
            return value
    return []


def pair_of(value: Any) -> tuple[Any, Any]:
    """Two numbers. Errors: bad-quantization."""
    if not isinstance(value, list) or len(value) != 2:
        raise ConfigError(
            "bad-quantization", f"weight_block_size is {printable(repr(value), 40)}; it must be two numbers", "check the config.json"
        )
    return value[0], value[1]


def unknown_scheme(what: str) -> ConfigError:
    """The error of a scheme that nobody here reads."""
    return ConfigError(
        "unknown-quantization", f"{what} is no scheme that llmcalc reads", "name a format with `weights`, such as `weights=int4`"
    )
