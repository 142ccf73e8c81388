"""What weight files hold: tensors with dtype, shape and bytes, read from headers alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

MOST_TENSORS = 65_536
"""In one GGUF model; safetensors of large mixtures, each expert and scale apart, are allowed more."""


class Tensor(NamedTuple):
    """One stored array: its name, number format, shape (outermost dimension first) and size."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        """Stored elements; a packed format holds several values in one."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Blob:
    """A file that is read piece by piece: `read(offset, count)` returns at most `count` bytes."""

    name: str
    size: int
    read: Callable[[int, int], bytes]
    step: int = 2**18
    """Bytes that are worth asking for at once."""


@dataclass(frozen=True, slots=True)
class Files:
    """All weight files of one model."""

    kind: str
    """gguf or safetensors."""
    files: tuple[tuple[str, int], ...]
    """(name, bytes) of every file that was counted."""
    tensors: tuple[Tensor, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    extras: tuple[tuple[str, int, str], ...] = ()
    """(name, bytes, why it is not counted) of the other weight files beside them."""
    notes: tuple[str, ...] = ()

    @property
    def file_bytes(self) -> int:
        """The files on disk, headers and padding included."""
        return sum(size for _, size in self.files)

    @property
    def tensor_bytes(self) -> int:
        """The tensors alone: what an engine loads."""
        return sum(tensor.bytes for tensor in self.tensors)
