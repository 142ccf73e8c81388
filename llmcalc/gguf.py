"""GGUF headers: metadata and tensor table, never a weight. Layout: ggml docs/gguf.md, versions 2 and 3, little-endian.

A file is hostile until read: every count and length is held against the file's size and a fixed bound before anything is
allocated, long texts and arrays are stepped over, and at most one read-ahead block beyond the header is touched.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from llmcalc.errors import SourceError, printable
from llmcalc.files import MOST_TENSORS, Blob, Files, Tensor

MAGIC = b"GGUF"
MAX_HEADER = 64 * 2**20  # the largest real ones (a tokenizer of 260,000 tokens and its merges) have some 16 MiB
MAX_PAIRS = 4096
MAX_KEY = 1024
MAX_NAME = 128
KEPT_TEXT = 4096
KEPT_ITEMS = 16_384


class Block(NamedTuple):
    """A ggml type: its elements come in blocks of `elements` that take `bytes`."""

    name: str
    elements: int
    bytes: int


# ggml.h and ggml-common.h; the numbers are the file format's own. 4, 5, 31-33 and 36-38 are types that no longer exist.
TYPES: dict[int, Block] = {
    0: Block("F32", 1, 4),
    1: Block("F16", 1, 2),
    2: Block("Q4_0", 32, 18),
    3: Block("Q4_1", 32, 20),
    6: Block("Q5_0", 32, 22),
    7: Block("Q5_1", 32, 24),
    8: Block("Q8_0", 32, 34),
    9: Block("Q8_1", 32, 36),
    10: Block("Q2_K", 256, 84),
    11: Block("Q3_K", 256, 110),
    12: Block("Q4_K", 256, 144),
    13: Block("Q5_K", 256, 176),
    14: Block("Q6_K", 256, 210),
    15: Block("Q8_K", 256, 292),
    16: Block("IQ2_XXS", 256, 66),
    17: Block("IQ2_XS", 256, 74),
    18: Block("IQ3_XXS", 256, 98),
    19: Block("IQ1_S", 256, 50),
    20: Block("IQ4_NL", 32, 18),
    21: Block("IQ3_S", 256, 110),
    22: Block("IQ2_S", 256, 82),
    23: Block("IQ4_XS", 256, 136),
    24: Block("I8", 1, 1),
    25: Block("I16", 1, 2),
    26: Block("I32", 1, 4),
    27: Block("I64", 1, 8),
    28: Block("F64", 1, 8),
    29: Block("IQ1_M", 256, 56),
    30: Block("BF16", 1, 2),
    34: Block("TQ1_0", 256, 54),
    35: Block("TQ2_0", 256, 66),
    39: Block("MXFP4", 32, 17),
    40: Block("NVFP4", 64, 36),
    41: Block("Q1_0", 128, 18),
}
# general.file_type: what the quantiser was asked for; a mix whose tensors have several types.
MIXES: dict[int, str] = {
    0: "fp32", 1: "fp16", 2: "q4_0", 3: "q4_1", 7: "q8_0", 8: "q5_0", 9: "q5_1", 10: "q2_k", 11: "q3_k_s", 12: "q3_k_m", 13: "q3_k_l",
    14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m", 18: "q6_k", 19: "iq2_xxs", 20: "iq2_xs", 21: "q2_k_s", 22: "iq3_xs",
    23: "iq3_xxs", 24: "iq1_s", 25: "iq4_nl", 26: "iq3_s", 27: "iq3_m", 28: "iq2_s", 29: "iq2_m", 30: "iq4_xs", 31: "iq1_m", 32: "bf16",
    36: "tq1_0", 37: "tq2_0", 38: "mxfp4", 39: "nvfp4", 40: "q1_0",
}  # fmt: skip

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_STRING, _ARRAY = 8, 9
_NUMBERS = {
    number: struct.Struct(f"<{code}")
    for number, code in {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}.items()
}
_LEAST_PAIR = 8 + 4 + 1  # an empty key, a type, one byte
_LEAST_TENSOR = 8 + 4 + 8 + 4 + 8  # an empty name, one dimension, a type, an offset


class Skipped(NamedTuple):
    """A long text or array that was stepped over."""

    length: int


@dataclass(frozen=True, slots=True)
class Header:
    """The head of one file. `whole` is the size that the tensor table asks for."""

    version: int
    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]
    whole: int


class _Cursor:
    """Reads a blob from the front through a window of one step, within MAX_HEADER."""

    __slots__ = ("_blob", "_limit", "_start", "_window", "at")

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._limit = min(blob.size, MAX_HEADER)
        self._start = 0
        self._window = b""
        self.at = 0

    def fail(self, what: str) -> SourceError:
        """The one error of a file that is not a whole GGUF header."""
        name = printable(self._blob.name)
        return SourceError("bad-gguf", f"{name} is not a GGUF file that can be read: {what}", "download it again, or give another file")

    def room(self, count: int, what: str) -> None:
        """The header goes on for `count` bytes. Errors: bad-gguf."""
        if count > self._limit - self.at:
            over = self._blob.size > MAX_HEADER and count > MAX_HEADER - self.at
            raise self.fail(f"{what} reaches beyond the {f'{MAX_HEADER:,} bytes that a header may have' if over else 'end of the file'}")

    def take(self, count: int, what: str) -> bytes:
        """The next bytes."""
        self.room(count, what)
        if not self._start <= self.at <= self._start + len(self._window) - count:
            self._load(count)
        first = self.at - self._start
        found = self._window[first : first + count]
        if len(found) < count:
            raise self.fail(f"{what} reaches beyond the end of the file")
        self.at += count
        return found

    def skip(self, count: int, what: str) -> None:
        """Step over bytes without reading them."""
        self.room(count, what)
        self.at += count

    def _load(self, count: int) -> None:
        self._window = self._blob.read(self.at, min(max(count, self._blob.step), self._limit - self.at))
        self._start = self.at

    def number(self, code: struct.Struct, what: str) -> Any:
        """One scalar."""
        return code.unpack(self.take(code.size, what))[0]

    def count(self, what: str, most: int, least_bytes: int = 0) -> int:
        """A 64-bit count that the rest of the file can hold."""
        value: int = self.number(_U64, what)
        if value > most:
            raise self.fail(f"{what} is {value:,}; at most {most:,} are read")
        self.room(value * least_bytes, f"{what} of {value:,}")
        return value

    def text(self, what: str, most: int) -> str:
        """A short string."""
        length = self.count(f"the length of {what}", most, 1)
        return self.take(length, what).decode("utf-8", "replace")

    def skip_strings(self, count: int, what: str) -> None:
        """Step over an array of strings: 260,000 tokens take some 50 ms."""
        unpack = _U64.unpack_from
        while count:
            if not self._start <= self.at <= self._start + len(self._window) - 8:
                self.room(8, what)
                self._load(8)
                if len(self._window) < 8:
                    raise self.fail(f"{what} reaches beyond the end of the file")
            window, at = self._window, self.at - self._start
            end = len(window) - 8
            while count and at <= end:
                at += 8 + unpack(window, at)[0]
                count -= 1
            self.skip(self._start + at - self.at, what)


def header(blob: Blob) -> Header:
    """Metadata and tensors of one file. Errors: bad-gguf, gguf-version."""
    cursor = _Cursor(blob)
    magic = cursor.take(4, "the magic number")
    if magic != MAGIC:
        raise cursor.fail("it starts with " + printable(repr(magic)) + " and not with GGUF")
    version = cursor.number(_U32, "the version")
    if version not in (2, 3):
        swapped = version and version & 0xFFFF == 0
        said = "it is big-endian" if swapped else f"its version is {version}"
        message = f"{printable(blob.name)}: {said}; little-endian files of version 2 and 3 are read"
        raise SourceError("gguf-version", message, "convert it again")
    tensors = cursor.count("the number of tensors", MOST_TENSORS)
    pairs = cursor.count("the number of metadata pairs", MAX_PAIRS, _LEAST_PAIR)
    metadata: dict[str, Any] = {}
    for _ in range(pairs):
        key = cursor.text("a metadata key", MAX_KEY)
        if key in metadata:
            raise cursor.fail(f"it holds {printable(key)} twice")
        metadata[key] = _value(cursor, cursor.number(_U32, f"the type of {printable(key)}"), printable(key))
    cursor.room(tensors * _LEAST_TENSOR, f"the number of tensors of {tensors:,}")
    table, end = _tensors(cursor, tensors)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 2**20 or alignment & (alignment - 1):
        raise cursor.fail(f"general.alignment is {printable(str(alignment))}, not a power of two")
    data = -(-cursor.at // alignment) * alignment
    return Header(version, metadata, table, data + end if table else cursor.at)


def _value(cursor: _Cursor, kind: int, key: str) -> Any:
    if kind == _STRING:
        length = cursor.count(f"the length of {key}", MAX_HEADER, 1)
        if length > KEPT_TEXT:
            cursor.skip(length, key)
            return Skipped(length)
        return cursor.take(length, key).decode("utf-8", "replace")
    if kind == _ARRAY:
        inner = cursor.number(_U32, f"the element type of {key}")
        if inner == _STRING:
            count = cursor.count(f"the length of {key}", MAX_HEADER, 8)
            cursor.skip_strings(count, key)
            return Skipped(count)
        code = _NUMBERS.get(inner)
        if code is None:
            raise cursor.fail(f"{key} is an array of the unknown type {inner}")
        count = cursor.count(f"the length of {key}", MAX_HEADER, code.size)
        if count > KEPT_ITEMS:
            cursor.skip(count * code.size, key)
            return Skipped(count)
        return list(struct.unpack(f"<{count}{code.format[1:]}", cursor.take(count * code.size, key)))
    code = _NUMBERS.get(kind)
    if code is None:
        raise cursor.fail(f"{key} has the unknown type {kind}")
    return cursor.number(code, key)


def _tensors(cursor: _Cursor, count: int) -> tuple[tuple[Tensor, ...], int]:
    """The tensor table, and the end of the last tensor's data after the header."""
    found: dict[str, Tensor] = {}
    end = 0
    for _ in range(count):
        name = cursor.text("a tensor's name", MAX_NAME)
        shown = printable(name)
        if name in found:
            raise cursor.fail(f"it holds the tensor {shown} twice")
        dimensions = cursor.number(_U32, f"the shape of {shown}")
        if not 1 <= dimensions <= 4:
            raise cursor.fail(f"tensor {shown} has {dimensions:,} dimensions")
        sizes = struct.unpack(f"<{dimensions}Q", cursor.take(8 * dimensions, f"the shape of {shown}"))
        elements = prod(sizes)
        if elements >= 2**62:
            raise cursor.fail(f"tensor {shown} has {' × '.join(f'{size:,}' for size in sizes)} elements")
        kind = cursor.number(_U32, f"the type of {shown}")
        block = TYPES.get(kind)
        if block is None:
            raise cursor.fail(f"tensor {shown} has the unknown type {kind}")
        if sizes[0] % block.elements:
            raise cursor.fail(f"tensor {shown} has rows of {sizes[0]:,}, no multiple of {block.name}'s {block.elements}")
        size = elements // block.elements * block.bytes
        end = max(end, cursor.number(_U64, f"the offset of {shown}") + size)
        found[name] = Tensor(name, block.name, tuple(reversed(sizes)), size)
    return tuple(found.values()), end


# ---- files of one model -------------------------------------------------------------------------------------------

_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE | re.DOTALL)
_NOT_MODEL = {"mmproj": "vision or audio projector", "mtp": "draft model", "draft": "draft model", "imatrix": "importance matrix"}
_NOT_MODEL_NAME = re.compile(rf"(?:^|[-_.])({'|'.join(_NOT_MODEL)})(?=[-_.])", re.IGNORECASE)


def not_model(name: str) -> str | None:
    """What a file is by its name where it is not the model itself: a projector, a draft, an importance matrix."""
    found = _NOT_MODEL_NAME.search(name.rpartition("/")[2])
    return _NOT_MODEL[found[1].lower()] if found else None


def shards(name: str) -> list[str] | None:
    """All file names of the set that `name` is a part of, or None for a file that is whole. Errors: bad-gguf."""
    found = _SHARD.fullmatch(name)
    if not found:
        return None
    number, total = int(found[2]), int(found[3])
    if not 1 <= number <= total <= 4096:
        raise SourceError("bad-gguf", f"{printable(name)} is no part of a set: {number} of {total}", "check the file's name")
    ending = name[-len(".gguf") :]
    return [f"{found[1]}-{index:05}-of-{total:05}{ending}" for index in range(1, total + 1)]


def stem(name: str) -> str:
    """A file's name without its folder, ending and shard numbers."""
    plain = name.rpartition("/")[2]
    found = _SHARD.fullmatch(plain)
    return found[1] if found else plain[: -len(".gguf")] if plain.lower().endswith(".gguf") else plain


def with_tag(names: Sequence[str], tag: str) -> list[str]:
    """The files of a repository that `:tag` names: first of every set whose name (or folder) ends in it; no projectors."""
    wanted = tag.lower()
    models = [name for name in names if name.lower().endswith(".gguf") and not not_model(name)]
    first = [name for name in models if (shards(name) or [name])[0] == name]
    for matches in (_exactly, _at_end):
        found = [name for name in first if matches(name, wanted)]
        if found:
            return found
    return [name for name in first if name.lower().rpartition("/")[0].rpartition("/")[2] == wanted]


def _exactly(name: str, wanted: str) -> bool:
    """Q4_K_XL is not UD-Q4_K_XL."""
    plain = stem(name).lower()
    dynamic = plain.endswith(("-ud-" + wanted, ".ud-" + wanted))
    return plain == wanted or (plain.endswith(("-" + wanted, "." + wanted)) and not dynamic)


def _at_end(name: str, wanted: str) -> bool:
    plain = stem(name).lower()
    return plain.endswith(("-" + wanted, "_" + wanted, "." + wanted))


def model_files(name: str, open_: Callable[[str], Blob], extras: Sequence[tuple[str, int, str]] = ()) -> Files:
    """The model of which `name` is a file: all shards. `open_` opens a file of the same place. Errors: bad-gguf, and of open_."""
    names = shards(name) or [name]
    files: list[tuple[str, int]] = []
    tensors: list[Tensor] = []
    notes: list[str] = []
    metadata: dict[str, Any] = {}
    seen: set[str] = set()
    for number, part in enumerate(names):
        blob = open_(part)
        read = header(blob)
        if number == 0:
            metadata = read.metadata
        total = read.metadata.get("split.count", 1)
        if total not in (0, 1, len(names)):
            raise SourceError(
                "bad-gguf",
                f"{printable(part)} says that it is one of {total} files, and its name of {len(names)}",
                "give the file the name that it was published under",
            )
        for tensor in read.tensors:
            if tensor.name in seen:
                twice = f"two files of {printable(name)} hold {printable(tensor.name)}"
                raise SourceError("bad-gguf", twice, "the shards are not of one set")
            seen.add(tensor.name)
        tensors += read.tensors
        if len(tensors) > MOST_TENSORS:
            raise SourceError("bad-gguf", f"{printable(name)} has over {MOST_TENSORS:,} tensors", "that is no language model")
        files.append((part, blob.size))
        if blob.size < read.whole:
            notes.append(
                f"{printable(part)} has {blob.size:,} of the {read.whole:,} bytes that its header asks for: the download is not complete"
            )
    claimed = metadata.get("split.tensors.count")
    if len(names) > 1 and isinstance(claimed, int) and claimed != len(tensors):
        notes.append(f"the first file announces {claimed:,} tensors and the {len(names)} files hold {len(tensors):,}")
    return Files("gguf", tuple(files), tuple(tensors), metadata, tuple(extras), tuple(notes))
