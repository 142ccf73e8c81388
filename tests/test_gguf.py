"""GGUF: files written by ggml's own Python package, read back; hostile files; the architecture and the bytes that follow."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_server import FakeHub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmcalc import gguf, gguf_config, sources
from llmcalc.cli import main
from llmcalc.commands import common
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import memory, weight_files
from llmcalc.files import Blob, Files, Tensor
from llmcalc.sources.files import gguf_source, on_disk

writer = pytest.importorskip("gguf", reason="development dependency")
Q = writer.GGMLQuantizationType
ROOT = Path(__file__).resolve().parent.parent
Shapes = dict[str, tuple[tuple[int, ...], Any]]
NUMPY = {Q.F32: np.float32, Q.F16: np.float16, Q.I32: np.int32}


def write(path: Path, arch: str, keys: dict[str, Any], shapes: Shapes, *, sparse: bool = True) -> Path:
    """A header by the package's own writer; behind it, unless `sparse` is off, as many zero bytes as the tensors take."""
    made = writer.GGUFWriter(None, arch)
    for key, value in keys.items():
        name = key if key.partition(".")[0] in ("general", "tokenizer", "split") else f"{arch}.{key}"
        add = {bool: made.add_bool, str: made.add_string, list: made.add_array, float: made.add_float32}.get(type(value), made.add_uint32)
        add(name, value)
    total = 0
    for name, (shape, kind) in shapes.items():
        elements, size = writer.GGML_QUANT_SIZES[kind]
        dtype = np.dtype(NUMPY.get(kind, np.uint8))
        given_shape = shape if kind in NUMPY else (*shape[:-1], shape[-1] // elements * size)
        number = int(np.prod(shape)) // elements * size
        made.add_tensor_info(name, given_shape, dtype, number, raw_dtype=kind)
        total += -(-number // 32) * 32
    made.write_header_to_file(path)
    made.write_kv_data_to_file()
    made.write_ti_data_to_file()
    made.close()
    if sparse:
        os.truncate(path, -(-path.stat().st_size // 32) * 32 + total)
    return path


def layers(count: int, one: Shapes, start: int = 0) -> Shapes:
    return {f"blk.{index}.{name}": value for index in range(start, start + count) for name, value in one.items()}


def head(hidden: int, vocab: int, kind: Any = Q.F16, *, tied: bool = False) -> Shapes:
    found: Shapes = {"token_embd.weight": ((vocab, hidden), kind), "output_norm.weight": ((hidden,), Q.F32)}
    return found if tied else {**found, "output.weight": ((vocab, hidden), kind)}


def attention(hidden: int, query: int, kv: int, dim: int, kind: Any = Q.F16) -> Shapes:
    return {
        "attn_q.weight": ((query * dim, hidden), kind),
        "attn_k.weight": ((kv * dim, hidden), kind),
        "attn_v.weight": ((kv * dim, hidden), kind),
        "attn_output.weight": ((hidden, query * dim), kind),
        "attn_norm.weight": ((hidden,), Q.F32),
    }


def mlp(hidden: int, inner: int, kind: Any = Q.F16) -> Shapes:
    return {
        "ffn_gate.weight": ((inner, hidden), kind),
        "ffn_up.weight": ((inner, hidden), kind),
        "ffn_down.weight": ((hidden, inner), kind),
        "ffn_norm.weight": ((hidden,), Q.F32),
    }


def experts(hidden: int, inner: int, number: int, kind: Any = Q.F16) -> Shapes:
    return {
        "ffn_gate_inp.weight": ((number, hidden), Q.F32),
        "ffn_gate_exps.weight": ((number, inner, hidden), kind),
        "ffn_up_exps.weight": ((number, inner, hidden), kind),
        "ffn_down_exps.weight": ((number, hidden, inner), kind),
        "ffn_norm.weight": ((hidden,), Q.F32),
    }


def keys(depth: int, hidden: int, inner: Any, query: int, kv: Any, dim: int | None = None, context: int = 131_072) -> dict[str, Any]:
    found = {
        "block_count": depth,
        "context_length": context,
        "embedding_length": hidden,
        "feed_forward_length": inner,
        "attention.head_count": query,
        "attention.head_count_kv": kv,
    }
    return {**found, "attention.key_length": dim, "attention.value_length": dim} if dim else found


HEAD_NORMS: Shapes = {"attn_q_norm.weight": ((128,), Q.F32), "attn_k_norm.weight": ((128,), Q.F32)}


def qwen3_8b(path: Path, **more: Any) -> Path:
    """Qwen3-8B as Q4_K_M has it: values, down projections and the head at 6 bits (here on every layer), norms in fp32."""
    layer = {**attention(4096, 32, 8, 128, Q.Q4_K), **mlp(4096, 12288, Q.Q4_K), **HEAD_NORMS}
    layer["attn_v.weight"] = ((1024, 4096), Q.Q6_K)
    layer["ffn_down.weight"] = ((4096, 12288), Q.Q6_K)
    shapes = {**head(4096, 151936, Q.Q4_K), **layers(36, layer)}
    shapes["output.weight"] = ((151936, 4096), Q.Q6_K)
    tokens = {"tokenizer.ggml.tokens": [f"t{index}" for index in range(2000)], "general.file_type": 15}
    return write(path, "qwen3", {**keys(36, 4096, 12288, 32, 8, 128, 40_960), **tokens, **more}, shapes)


def load(path: Path) -> tuple[sources.Source, Any]:
    found = sources.find(str(path))
    return found, common.of_source(found)


def failure(path: Path) -> LlmcalcError:
    with pytest.raises(LlmcalcError) as caught:
        common.load(str(path))
    problem = caught.value
    assert "\n" not in problem.message and problem.message.isprintable() and problem.hint
    return problem


# The format ----------------------------------------------------------------------------------------------------------


def test_block_sizes_are_those_of_the_package() -> None:
    ours = {block.name: (block.elements, block.bytes) for block in gguf.TYPES.values()}
    assert {number: block.name for number, block in gguf.TYPES.items()} == {int(kind): kind.name for kind in Q}
    # The package still has Q8_1 with two fp32 scales; ggml-common.h has had two halves since 2024. No file holds that type.
    assert ours == {kind.name: size for kind, size in writer.GGML_QUANT_SIZES.items()} | {"Q8_1": (32, 36)}


@pytest.mark.parametrize(
    ("name", "bits"),
    [  # read in gguf-parser-go ggml.go
        ("Q4_0", 4.5), ("Q4_1", 5.0), ("Q5_0", 5.5), ("Q5_1", 6.0), ("Q8_0", 8.5), ("Q8_1", 9.0), ("Q2_K", 2.625), ("Q3_K", 3.4375),
        ("Q4_K", 4.5), ("Q5_K", 5.5), ("Q6_K", 6.5625), ("Q8_K", 9.125), ("IQ1_S", 1.5625), ("IQ1_M", 1.75), ("IQ2_XXS", 2.0625),
        ("IQ2_XS", 2.3125), ("IQ2_S", 2.5625), ("IQ3_XXS", 3.0625), ("IQ3_S", 3.4375), ("IQ4_XS", 4.25), ("IQ4_NL", 4.5),
        ("TQ1_0", 1.6875), ("TQ2_0", 2.0625), ("MXFP4", 4.25), ("BF16", 16), ("F32", 32),
    ],
)  # fmt: skip
def test_bits_of_a_type(name: str, bits: float) -> None:
    block = next(block for block in gguf.TYPES.values() if block.name == name)
    assert 8 * block.bytes / block.elements == bits


@pytest.mark.parametrize("kind", [kind for kind in Q if kind != Q.Q8_1])
def test_every_type_reads_back(tmp_path: Path, kind: Any) -> None:
    elements, size = writer.GGML_QUANT_SIZES[kind]
    path = tmp_path / "one.gguf"
    dtypes = {Q.F64: np.float64, Q.I8: np.int8, Q.I16: np.int16, Q.I32: np.int32, Q.I64: np.int64}
    made = writer.GGUFWriter(path, "llama")
    if kind in dtypes or kind in NUMPY:
        made.add_tensor("t", np.zeros((3, 5, 2 * elements), {**dtypes, **NUMPY}[kind]))
    else:
        made.add_tensor("t", np.zeros((3, 5, 2 * size), np.uint8), raw_dtype=kind)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()
    read = gguf.header(on_disk(path))
    assert [(t.name, t.dtype, t.shape, t.bytes) for t in read.tensors] == [("t", kind.name, (3, 5, 2 * elements), 15 * 2 * size)]
    assert read.whole <= path.stat().st_size < read.whole + 32


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_value(tmp_path: Path, version: int) -> None:
    path = tmp_path / "kinds.gguf"
    made = writer.GGUFWriter(path, "llama")
    given_: dict[str, Any] = {
        "uint8": 7, "int8": -7, "uint16": 700, "int16": -700, "uint32": 7 << 20, "int32": -(7 << 20), "uint64": 7 << 40,
        "int64": -(7 << 40), "float32": 0.5, "float64": 0.1, "bool": True, "string": "schön", "array": [3, 0, 3],
    }  # fmt: skip
    for kind, value in given_.items():
        getattr(made, f"add_{kind}")(f"x.{kind}", value)
    made.add_array("x.flags", [True, False])
    made.add_array("x.words", ["a", "bc"])
    made.add_string("x.long", "y" * 100_000)
    made.add_array("x.scores", [0.25] * 50_000)
    made.add_float32("x.nan", float("nan"))
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_ti_data_to_file()
    made.close()
    content = bytearray(path.read_bytes())
    content[4:8] = struct.pack("<I", version)
    path.write_bytes(content)
    read = gguf.header(on_disk(path))
    assert {kind: read.metadata[f"x.{kind}"] for kind in given_} == given_
    assert read.metadata["x.flags"] == [True, False]
    assert (read.metadata["x.words"], read.metadata["x.long"]) == (gguf.Skipped(2), gguf.Skipped(100_000))
    assert read.metadata["x.scores"] == gguf.Skipped(50_000)
    assert read.version == version and read.tensors == ()


def test_only_the_header_is_read(tmp_path: Path) -> None:
    path = qwen3_8b(tmp_path / "q.gguf")
    last = 0

    def read(offset: int, count: int) -> bytes:
        nonlocal last
        last = max(last, offset + count)
        return on_disk(path).read(offset, count)

    size = path.stat().st_size
    found = gguf.header(Blob("q.gguf", size, read, 4096))
    assert found.whole <= size < found.whole + 32
    assert last <= size - sum(tensor.bytes for tensor in found.tensors) + 4096


# Hostile files -------------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def raw(tensors: int, pairs: int, body: bytes = b"", *, magic: bytes = b"GGUF", version: int = 3) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, pairs) + body


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, dims: list[int], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


HUGE = 2**63
ARCH = pair("general.architecture", 8, text("llama"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the magic number reaches beyond the end of the file"),
        (b"GGU", "the magic number reaches beyond the end of the file"),
        (b"GGUF", "the version reaches beyond the end of the file"),
        (b"PK\x03\x04" + bytes(28), "it starts with b'PK\\x03\\x04' and not with GGUF"),
        (b"GGUF" + struct.pack(">IQQ", 3, 1, 1), "it is big-endian"),
        (raw(0, 0, version=1), "its version is 1"),
        (raw(0, 0, version=9), "its version is 9"),
        (bytes(32), "and not with GGUF"),
        (raw(1, 1, bytes(8)), "the number of metadata pairs of 1"),
        (raw(HUGE, 0), "the number of tensors is 9,223,372,036,854,775,808; at most 65,536"),
        (raw(0, HUGE), "the number of metadata pairs is 9,223,372,036,854,775,808; at most 4,096"),
        (raw(0, 4000), "the number of metadata pairs of 4,000 reaches beyond the end of the file"),
        (raw(60_000, 1, ARCH), "the number of tensors of 60,000 reaches beyond the end of the file"),
        (raw(0, 1, struct.pack("<Q", HUGE) + bytes(40)), "the length of a metadata key is 9,223,372,036,854,775,808"),
        (raw(0, 1, pair("k", 8, struct.pack("<Q", HUGE))), "the length of k is 9,223,372,036,854,775,808"),
        (raw(0, 1, pair("k", 8, struct.pack("<Q", 10_000))), "the length of k of 10,000 reaches beyond the end of the file"),
        (raw(0, 1, pair("k", 9, struct.pack("<IQ", 4, HUGE))), "the length of k is 9,223,372,036,854,775,808"),
        (raw(0, 1, pair("k", 9, struct.pack("<IQ", 4, 2**25))), "the length of k of 33,554,432 reaches beyond"),
        (raw(0, 1, pair("k", 9, struct.pack("<IQQ", 8, 1, HUGE))), "k reaches beyond the end of the file"),
        (raw(0, 1, pair("k", 9, struct.pack("<IQ", 8, 2**22))), "k"),
        (raw(0, 1, pair("k", 9, struct.pack("<IQ", 9, 1) + bytes(16))), "k is an array of the unknown type 9"),
        (raw(0, 1, pair("k", 13, bytes(8))), "k has the unknown type 13"),
        (raw(0, 2, ARCH + ARCH), "it holds general.architecture twice"),
        (raw(0, 1, pair("general.alignment", 4, struct.pack("<I", 0))), "general.alignment is 0, not a power of two"),
        (raw(0, 1, pair("general.alignment", 4, struct.pack("<I", 33))), "general.alignment is 33, not a power of two"),
        (raw(2, 0, tensor("t", [4]) + tensor("t", [4])), "it holds the tensor t twice"),
        (raw(1, 0, text("t") + struct.pack("<I", 5) + bytes(60)), "tensor t has 5 dimensions"),
        (raw(1, 0, text("t") + struct.pack("<I", 0) + bytes(60)), "tensor t has 0 dimensions"),
        (raw(1, 0, text("t") + struct.pack("<I", 2**32 - 1) + bytes(60)), "tensor t has 4,294,967,295 dimensions"),
        (raw(1, 0, tensor("t", [2**62, 2**62, 4])), "elements"),
        (raw(1, 0, tensor("t", [32], kind=99)), "tensor t has the unknown type 99"),
        (raw(1, 0, tensor("t", [100], kind=12)), "tensor t has rows of 100, no multiple of Q4_K's 256"),
        (raw(1, 0, text("n" * 200) + bytes(60)), "the length of a tensor's name is 200; at most 128"),
        (raw(1, 1, ARCH + tensor("\x1b[2Jt", [100], kind=12)), r"tensor \x1b[2Jt has rows"),
    ],
)  # fmt: skip
def test_hostile(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(content)
    problem = failure(path)
    assert problem.code in ("bad-gguf", "gguf-version") and problem.exit_code == 1
    assert says in problem.message
    assert "hostile.gguf" in problem.message


def test_a_directory_a_pipe_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder.gguf").mkdir()
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "locked.gguf").symlink_to(tmp_path / "nowhere")
    said = {name: failure(tmp_path / f"{name}.gguf") for name in ("folder", "pipe", "locked", "absent")}
    assert {problem.code for problem in said.values()} == {"file-unreadable"}
    assert said["folder"].message.endswith("it is a directory") and said["pipe"].message.endswith("it is no regular file")
    assert said["absent"].message.endswith("no such file or directory")


HUNGRY = """
import resource, sys
from llmcalc import api, gguf, gguf_config
from llmcalc.errors import LlmcalcError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    api.load_model(sys.argv[1])
    print("ok")
except LlmcalcError as problem:
    print(problem.code)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
@pytest.mark.parametrize(
    "body",
    [
        raw(65_536, 4096),  # zeros: empty keys, so the second is a duplicate
        raw(0, 1, pair("k", 9, struct.pack("<IQ", 8, 2**23 - 100))),  # eight million empty strings
        raw(0, 1, pair("k", 9, struct.pack("<IQ", 8, 2**26))),
        raw(0, 1, pair("k", 8, struct.pack("<Q", 2**26 - 100))),
        raw(65_536, 0, b"".join(tensor(f"{index:0128}", [1, 1, 1, 1]) for index in range(65_536))),
    ],
    ids=["pairs", "strings", "too-many", "text", "tensors"],
)
def test_huge_counts_take_little_memory(tmp_path: Path, body: bytes) -> None:
    """A sparse file of 1 TiB that promises the most of everything that its size allows: under 64 MiB, and an end."""
    path = tmp_path / "sparse.gguf"
    path.write_bytes(body)
    os.truncate(path, 2**40)
    done = subprocess.run([sys.executable, "-c", HUNGRY, str(path)], capture_output=True, text=True, cwd=ROOT, check=True, timeout=120)
    code, kib = done.stdout.split()
    assert code in ("bad-gguf", "not-a-model")
    assert int(kib) < 64 * 1024


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    shapes = {**head(64, 100), **layers(2, {**attention(64, 4, 2, 16), **mlp(64, 128)})}
    tokens = {"tokenizer.ggml.tokens": ["a", "b"], "general.name": "tiny", "rope.freq_base": 10000.0}
    path = write(tmp_path_factory.mktemp("valid") / "t.gguf", "llama", {**keys(2, 64, 128, 4, [2, 2]), **tokens}, shapes, sparse=False)
    return path.read_bytes()


def outcome(content: bytes) -> str:
    """ok or the code of the error; anything else that is raised fails the test."""
    try:
        files = gguf.model_files("f.gguf", lambda name: Blob(name, len(content), lambda at, count: content[at : at + count], 64))
        common.of_source(gguf_source("f.gguf", "file", None, files))
    except LlmcalcError as problem:
        assert problem.message.isprintable()
        return problem.code
    return "ok"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_fuzz(valid: bytes, data: st.DataObject) -> None:
    """Any change to a good file is read or refused in words."""
    content = bytearray(valid)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        change = data.draw(st.sampled_from(["byte", "word", "cut", "insert"]))
        if change == "byte":
            content[at] = data.draw(st.integers(0, 255))
        elif change == "word":
            content[at : at + 8] = struct.pack("<Q", data.draw(st.sampled_from([0, 1, 255, 2**31, 2**32, 2**62, 2**63, 2**64 - 1])))
        elif change == "cut":
            del content[at:]
        else:
            content[at:at] = data.draw(st.binary(max_size=12))
        if not content:
            break
    outcome(bytes(content))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=400))
def test_fuzz_of_anything(body: bytes) -> None:
    assert outcome(b"GGUF" + struct.pack("<I", 3) + body) in ("bad-gguf", "gguf-version", "not-a-model")


def test_the_valid_one_is_valid(valid: bytes) -> None:
    assert outcome(valid) == "ok"
    for cut in range(len(valid)):
        assert outcome(valid[:cut]) != "ok"


# Bytes ---------------------------------------------------------------------------------------------------------------


def test_qwen3_8b_by_types(tmp_path: Path) -> None:
    """The types are counted. Published: 8,190,735,360 parameters, of which 622,329,856 in each table."""
    source, model = load(qwen3_8b(tmp_path / "Qwen3-8B-Q4_K_M.gguf"))
    assert source.files is not None and source.notes == ()
    assert memory.language_params(model) == 8_190_735_360
    # 6 bits: the head, 36 x (1024 x 4096 + 4096 x 12288); fp32: norms of 36 x (2 x 4096 + 2 x 128) + 4096; 4 bits: the rest.
    six = 622_329_856 + 36 * (1024 * 4096 + 4096 * 12288)
    norms = 36 * (2 * 4096 + 2 * 128) + 4096
    four = 8_190_735_360 - six - norms
    size = six * 210 // 256 + four * 144 // 256 + norms * 4
    computed = memory.weights(model)
    assert computed.results["weight_bytes"] == size
    assert computed.inputs["weights"] == "q4_k_m"
    compared = weight_files.compare(source.files, model, computed)
    r = compared.results
    assert r["file_bytes_by_dtype"] == {"Q4_K": four * 144 // 256, "Q6_K": six * 210 // 256, "F32": norms * 4}
    assert (r["file_tensor_bytes"], r["file_params"], r["file_difference_bytes"]) == (size, 8_190_735_360, 0)
    assert r["file_differences"] == () and r["extra_files"] == ()
    assert r["file_bytes"] == (tmp_path / "Qwen3-8B-Q4_K_M.gguf").stat().st_size
    by_part = {row["part"]: row["file_dtypes"] for row in compared.rows}
    assert by_part == {"embedding": "Q4_K", "attention": "Q4_K, Q6_K", "mlp": "Q4_K, Q6_K", "norms": "F32", "head": "Q6_K"}


def test_a_named_mix_is_the_file_where_there_is_one(tmp_path: Path) -> None:
    """--weights q4_k_m on a file of that type: its own tensors, 5.15 bits; without a file, 5.03 GB as unsloth's and Qwen's own are."""
    _, model = load(qwen3_8b(tmp_path / "q.gguf"))
    from llmcalc import api, formats

    assert memory.weights(model, "q4_k_m").results["weight_bytes"] == pytest.approx(8_190_735_360 * 5.15 / 8, rel=0.001)
    named = memory.weights(api.load_model("Qwen/Qwen3-8B", offline=True), "q4_k_m")
    assert named.results["weight_bytes"] == pytest.approx(5.03e9, rel=0.005)
    (said,) = named.assumptions
    assert "as its files are made" in said and "6.5625 bits" in said
    assert "average" not in formats.find("q4_k").note


def test_an_incomplete_download_is_said(tmp_path: Path) -> None:
    path = qwen3_8b(tmp_path / "q.gguf")
    whole = path.stat().st_size
    os.truncate(path, whole - 10**9)
    source, model = load(path)
    assert memory.language_params(model) == 8_190_735_360
    (note,) = source.notes
    assert note.endswith("bytes that its header asks for: the download is not complete") and f"{whole - 10**9:,} of the" in note


def split(folder: Path, parts: int = 3) -> list[Path]:
    """A model in shards, as llama-gguf-split writes them: the first has the metadata."""
    shapes = {**head(64, 100), **layers(6, {**attention(64, 4, 2, 16), **mlp(64, 128)})}
    items = list(shapes.items())
    made = []
    for number in range(parts):
        own = dict(items[number::parts])
        counts = {"split.no": number, "split.count": parts, "split.tensors.count": len(items)}
        path = folder / f"tiny-{number + 1:05}-of-{parts:05}.gguf"
        made.append(write(path, "llama", {**(keys(6, 64, 128, 4, 2) if number == 0 else {}), **counts}, own))
    return made


def test_all_shards_count_whichever_is_named(tmp_path: Path) -> None:
    paths = split(tmp_path)
    # 2 x 100 x 64 tables, a norm; per layer q 64 x 64, k and v 32 x 64, o 64 x 64, 3 x 128 x 64, two norms
    params = 2 * 6400 + 64 + 6 * (4096 + 2 * 2048 + 4096 + 3 * 8192 + 128)
    for path in paths:
        source, model = load(path)
        assert source.files is not None
        assert len(source.files.files) == 3
        assert memory.language_params(model) == params == weight_files.language_params(source.files, model)
        assert source.files.file_bytes == sum(path.stat().st_size for path in paths)
    assert load(tmp_path)[1].stack == load(paths[0])[1].stack  # the folder holds one model
    paths[1].unlink()
    assert "tiny-00002-of-00003.gguf: no such file" in failure(paths[0]).message


def test_shards_of_different_sets(tmp_path: Path) -> None:
    paths = split(tmp_path)
    paths[1].write_bytes(paths[2].read_bytes())
    assert "two files of tiny" in failure(paths[0]).message
    other = tmp_path / "tiny-00001-of-00002.gguf"
    other.write_bytes(paths[0].read_bytes())
    assert "says that it is one of 3 files, and its name of 2" in failure(other).message
    assert "is no part of a set: 4 of 3" in failure(tmp_path / "tiny-00004-of-00003.gguf").message


def test_projector_and_draft_are_not_the_model(tmp_path: Path) -> None:
    """hf-mem #48: they were added to the total."""
    alone, _ = load(qwen3_8b(tmp_path / "Qwen3-8B-Q4_K_M.gguf"))
    write(tmp_path / "mmproj-F16.gguf", "clip", {"clip.has_vision_encoder": True}, {"v.patch_embd.weight": ((64, 32), Q.F16)})
    write(tmp_path / "mtp-Qwen3-8B.gguf", "qwen3", {}, {"blk.36.attn_q.weight": ((64, 64), Q.F16)})
    write(tmp_path / "other-Q4_K_M.gguf", "qwen3", {}, {})
    source, model = load(tmp_path / "Qwen3-8B-Q4_K_M.gguf")
    assert source.files is not None and alone.files is not None
    assert source.files.files == alone.files.files
    r = weight_files.compare(source.files, model, memory.weights(model)).results
    assert [(one["name"], one["why"]) for one in r["extra_files"]] == [
        ("mmproj-F16.gguf", "vision or audio projector"),
        ("mtp-Qwen3-8B.gguf", "draft model"),
    ]
    problem = failure(tmp_path / "mmproj-F16.gguf")
    assert (problem.code, problem.message) == ("not-a-model", "this GGUF file is a vision or audio projector, not a language model")


# Architectures -------------------------------------------------------------------------------------------------------


def kv(model: Any, ctx: int, dtype: str = "fp16") -> dict[str, Any]:
    found = memory.kv(model, ctx, 1, dtype)
    return {**found.results, "rows": found.rows}


def test_the_cache_is_f16_and_the_context_the_files(tmp_path: Path) -> None:
    _, model = load(qwen3_8b(tmp_path / "q.gguf", **{"rope.scaling.original_context_length": 32_768}))
    assert kv(model, 1)["kv_bytes_per_token"] == 147_456  # 2 x 36 x 8 x 128 x 2
    assert (model.max_context, model.native_context, model.source, model.model_type) == (40_960, 32_768, "file", "qwen3")
    assert memory.kv_format(model, "auto")[0].name == "fp16"


def gemma4_12b(path: Path) -> Path:
    """48 layers, every sixth full: one KV head of 512 there, whose values are the keys again; 8 of 256 elsewhere, window 1,024."""
    hidden, inner = 3840, 15360
    kinds = [(index + 1) % 6 != 0 for index in range(48)]
    shapes: Shapes = head(hidden, 262_144, tied=True)
    for index, slides in enumerate(kinds):
        kv_heads, dim = (8, 256) if slides else (1, 512)
        one = {**attention(hidden, 16, kv_heads, dim), **mlp(hidden, inner)}
        if not slides:
            one.pop("attn_v.weight")
        one |= {"attn_q_norm.weight": ((dim,), Q.F32), "attn_k_norm.weight": ((dim,), Q.F32), "layer_output_scale.weight": ((1,), Q.F32)}
        one |= dict.fromkeys(("post_attention_norm.weight", "post_ffw_norm.weight"), ((hidden,), Q.F32))
        shapes |= {f"blk.{index}.{name}": value for name, value in one.items()}
    shapes["rope_freqs.weight"] = ((256,), Q.F32)
    given_ = {
        **keys(48, hidden, inner, 16, [8 if slides else 1 for slides in kinds], 512),
        "attention.key_length_swa": 256,
        "attention.value_length_swa": 256,
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": kinds,
        "attention.shared_kv_layers": 0,
        "embedding_length_per_layer_input": 0,
    }
    return write(path, "gemma4", given_, shapes)


def test_kv_heads_per_layer_and_two_widths(tmp_path: Path) -> None:
    """Gemma-4-12B at 131,072 (llama-toolchest #58): 1.0625 GiB of q8_0 on the full layers, not 58 GB."""
    source, model = load(gemma4_12b(tmp_path / "gemma.gguf"))
    full, sliding = (
        next(row for row in kv(model, 131_072, dtype)["rows"] if row["kind"] == kind)
        for kind, dtype in (("full", "q8_0"), ("window", "fp16"))
    )
    assert (full["layers"], full["bytes_per_sequence"]) == (8, 1.0625 * 2**30)
    assert (sliding["layers"], sliding["window_tokens"], sliding["bytes_per_sequence"]) == (40, 1024, 0.3125 * 2**30)
    assert source.files is not None and model.notes == ()  # the tensors hold what the metadata describes
    loose = {
        one["reason"]: one["bytes"] for one in weight_files.compare(source.files, model, memory.weights(model)).results["file_differences"]
    }
    assert loose == {gguf_config.NO_PARAMETERS["layer scale"]: 48 * 4, gguf_config.NO_PARAMETERS["rope factors"]: 256 * 4}


def test_window_layers_of_gpt_oss(tmp_path: Path) -> None:
    """gpt-oss-20b at 131,072 (gguf-parser-go #32): 3.0 GiB on the 12 full layers and 3 MiB in the windows of 128, not 6.0 GiB."""
    hidden, inner = 2880, 2880
    one = {**attention(hidden, 64, 8, 64), **experts(hidden, inner, 32, Q.MXFP4), "attn_sinks.weight": ((64,), Q.F32)}
    one.pop("ffn_norm.weight")
    one["post_attention_norm.weight"] = ((hidden,), Q.F32)
    rows = {"attn_q": 4096, "attn_k": 512, "attn_v": 512, "attn_output": hidden}
    one |= {f"{name}.bias": ((size,), Q.F32) for name, size in rows.items()}
    one |= {"ffn_gate_inp.bias": ((32,), Q.F32), "ffn_down_exps.bias": ((32, hidden), Q.F32)}
    one |= {f"ffn_{name}_exps.bias": ((32, inner), Q.F32) for name in ("gate", "up")}
    given_ = {**keys(24, hidden, inner, 64, 8, 64), "attention.sliding_window": 128, "expert_count": 32, "expert_used_count": 4}
    source, model = load(write(tmp_path / "o.gguf", "gpt-oss", given_, {**head(hidden, 201_088), **layers(24, one)}))
    by_kind = {row["kind"]: row for row in kv(model, 131_072)["rows"]}
    assert by_kind["full"]["bytes_per_sequence"] == 3 * 2**30
    assert by_kind["window"]["bytes_per_sequence"] == 3 * 2**20
    assert memory.language_params(model) == 20_914_757_184  # the model card: 20.9 B
    assert model.notes == () and source.files is not None
    # 3 x 24 x 32 x 2880 x 2880 weights in blocks of 32 that take 17 bytes
    assert weight_files.by_part(source.files, model)["experts"].dtypes["MXFP4"] == 3 * 24 * 32 * 2880 * 2880 * 17 // 32  # type: ignore[index]


LFM2 = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]


def test_a_kv_array_that_starts_with_zero(tmp_path: Path) -> None:
    """LFM2-1.2B at 32,768 (gguf-parser-go #31): 384 MiB on six layers, not 0."""
    hidden, inner = 2048, 8192
    shapes: Shapes = head(hidden, 65_536, tied=True)
    shapes["token_embd_norm.weight"] = shapes.pop("output_norm.weight")
    for index, number in enumerate(LFM2):
        one = {**mlp(hidden, inner), "attn_norm.weight": ((hidden,), Q.F32)}
        if number:
            one |= attention(hidden, 32, 8, 64)
            one |= {"attn_q_norm.weight": ((64,), Q.F32), "attn_k_norm.weight": ((64,), Q.F32)}
        else:
            one |= {"shortconv.conv.weight": ((hidden, 3), Q.F32), "shortconv.in_proj.weight": ((3 * hidden, hidden), Q.F16)}
            one |= {"shortconv.out_proj.weight": ((hidden, hidden), Q.F16)}
        shapes |= {f"blk.{index}.{name}": value for name, value in one.items()}
    _, model = load(write(tmp_path / "l.gguf", "lfm2", {**keys(16, hidden, inner, 32, LFM2), "shortconv.l_cache": 3}, shapes))
    found = kv(model, 32_768)
    assert found["kv_bytes_per_sequence"] - found["state_bytes_per_sequence"] == 384 * 2**20
    assert found["state_bytes_per_sequence"] == 10 * 2048 * 2 * 2  # ten layers keep two past inputs of 2,048
    assert memory.language_params(model) == 1_170_340_608 and model.notes == ()  # published


def deepseek_v3(path: Path, *, old: bool = False, mtp: bool = False) -> Path:
    hidden, query, rank = 7168, 128, 512
    mla: Shapes = {
        "attn_q_a.weight": ((1536, hidden), Q.F16),
        "attn_q_a_norm.weight": ((1536,), Q.F32),
        "attn_q_b.weight": ((query * 192, 1536), Q.F16),
        "attn_kv_a_mqa.weight": ((rank + 64, hidden), Q.F16),
        "attn_kv_a_norm.weight": ((rank,), Q.F32),
        "attn_output.weight": ((hidden, query * 128), Q.F16),
        "attn_norm.weight": ((hidden,), Q.F32),
    }
    if old:
        mla["attn_kv_b.weight"] = ((query * 256, rank), Q.F16)
    else:
        mla |= {"attn_k_b.weight": ((query, rank, 128), Q.F16), "attn_v_b.weight": ((query, 128, rank), Q.F16)}
    sparse = {**experts(hidden, 2048, 256), "exp_probs_b.bias": ((256,), Q.F32)}
    sparse |= {f"ffn_{name}_shexp.weight": ((2048, hidden), Q.F16) for name in ("gate", "up")}
    sparse["ffn_down_shexp.weight"] = ((hidden, 2048), Q.F16)
    shapes = {**head(hidden, 129_280), **layers(3, {**mla, **mlp(hidden, 18_432)}), **layers(58, {**mla, **sparse}, 3)}
    given_ = keys(61 + mtp, hidden, 18_432, query, query if old else 1, context=163_840)
    given_ |= {"attention.key_length": 192, "attention.value_length": 128} if old else {
        "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
    }  # fmt: skip
    given_ |= {"attention.q_lora_rank": 1536, "attention.kv_lora_rank": rank, "rope.dimension_count": 64, "leading_dense_block_count": 3}
    given_ |= {"expert_count": 256, "expert_used_count": 8, "expert_shared_count": 1, "expert_feed_forward_length": 2048}
    if mtp:
        given_["nextn_predict_layers"] = 1
        shapes |= layers(1, {**mla, **sparse, "nextn.eh_proj.weight": ((hidden, 2 * hidden), Q.F16)}, 61)
    return write(path, "deepseek2", given_, shapes)


@pytest.mark.parametrize("old", [False, True])
def test_latent_attention_old_and_new(tmp_path: Path, old: bool) -> None:
    """671.03 B parameters by either generation of keys; 61 x 576 x 2 = 70,272 B per token, of an old file 61 x 128 x (192 + 128) x 2."""
    source, model = load(deepseek_v3(tmp_path / "d.gguf", old=old))
    assert kv(model, 1)["kv_bytes_per_token"] == (4_997_120 if old else 70_272)
    assert memory.language_params(model) == 671_026_404_352
    assert model.notes == () and source.files is not None and model.model_type == "deepseek_v3"
    loose = weight_files.compare(source.files, model, memory.weights(model)).results["file_differences"]
    assert (
        sum(one["bytes"] for one in loose)
        == weight_files.compare(source.files, model, memory.weights(model)).results["file_difference_bytes"]
    )


def test_prediction_layers_are_apart(tmp_path: Path) -> None:
    source, model = load(deepseek_v3(tmp_path / "d.gguf", mtp=True))
    assert source.files is not None
    assert len(model.stack.layers) == 61 and memory.language_params(model) == 671_026_404_352 and model.notes == ()
    reasons = [one["reason"] for one in weight_files.compare(source.files, model, memory.weights(model)).results["file_differences"]]
    assert "multi-token prediction, not in the total" in reasons


def test_delta_nets_of_qwen3_next(tmp_path: Path) -> None:
    """12 of 48 layers attend with 2 KV heads of 256: 24,576 B per token; 36 states of 32 x 128 x 128 in fp32."""
    hidden = 2048
    shapes: Shapes = head(hidden, 151_936)
    for index in range(48):
        one = {
            **experts(hidden, 512, 512, Q.Q8_0),
            "attn_norm.weight": ((hidden,), Q.F32),
            "post_attention_norm.weight": ((hidden,), Q.F32),
        }
        one.pop("ffn_norm.weight")
        one |= {f"ffn_{name}_shexp.weight": ((512, hidden), Q.F16) for name in ("gate", "up")}
        one |= {"ffn_down_shexp.weight": ((hidden, 512), Q.F16), "ffn_gate_inp_shexp.weight": ((hidden,), Q.F32)}
        if (index + 1) % 4 == 0:
            one |= attention(hidden, 32, 2, 256)  # queries and their gates: twice 16 heads
            one["attn_output.weight"] = ((hidden, 16 * 256), Q.F16)
            one |= {"attn_q_norm.weight": ((256,), Q.F32), "attn_k_norm.weight": ((256,), Q.F32)}
        else:
            one |= {
                "attn_qkv.weight": ((8192, hidden), Q.F16),
                "attn_gate.weight": ((4096, hidden), Q.F16),
                "ssm_ba.weight": ((64, hidden), Q.F16),
                "ssm_conv1d.weight": ((8192, 4), Q.F32),
                "ssm_dt.bias": ((32,), Q.F32),
                "ssm_a": ((32,), Q.F32),
                "ssm_norm.weight": ((128,), Q.F32),
                "ssm_out.weight": ((hidden, 4096), Q.F16),
            }
        shapes |= {f"blk.{index}.{name}": value for name, value in one.items()}
    given_ = {
        **keys(48, hidden, 5120, 16, 2, 256), "ssm.conv_kernel": 4, "ssm.state_size": 128, "ssm.group_count": 16, "ssm.time_step_rank": 32,
        "ssm.inner_size": 4096, "full_attention_interval": 4, "expert_count": 512, "expert_used_count": 10,
        "expert_feed_forward_length": 512, "expert_shared_feed_forward_length": 512,
    }  # fmt: skip
    _, model = load(write(tmp_path / "n.gguf", "qwen3next", given_, shapes))
    found = kv(model, 1)
    assert found["kv_bytes_per_token"] == 2 * 12 * 2 * 256 * 2
    assert found["state_bytes_per_sequence"] == 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)
    assert memory.language_params(model) == 79_674_391_296 and model.notes == ()  # published


def test_jamba_periods_from_its_tensors(tmp_path: Path) -> None:
    """Attention on layers 4, 12, ...; experts on every second: the periods of the published config, found again."""
    hidden, inner = 256, 512
    shapes: Shapes = head(hidden, 1000)
    for index in range(16):
        one = {"attn_norm.weight": ((hidden,), Q.F32), **(experts(hidden, inner, 4) if index % 2 else mlp(hidden, inner))}
        if index % 8 == 4:
            one |= attention(hidden, 4, 2, 64)
        else:
            one |= {
                "ssm_in.weight": ((1024, hidden), Q.F16), "ssm_conv1d.weight": ((512, 4), Q.F32), "ssm_conv1d.bias": ((512,), Q.F32),
                "ssm_x.weight": ((48, 512), Q.F16), "ssm_dt.weight": ((512, 16), Q.F16), "ssm_dt.bias": ((512,), Q.F32),
                "ssm_a": ((512, 16), Q.F32), "ssm_d": ((512,), Q.F32), "ssm_out.weight": ((hidden, 512), Q.F16),
                "ssm_dt_norm.weight": ((16,), Q.F32), "ssm_b_norm.weight": ((16,), Q.F32), "ssm_c_norm.weight": ((16,), Q.F32),
            }  # fmt: skip
        shapes |= {f"blk.{index}.{name}": value for name, value in one.items()}
    given_ = {
        **keys(16, hidden, inner, 4, [2 if index % 8 == 4 else 0 for index in range(16)]), "ssm.conv_kernel": 4, "ssm.state_size": 16,
        "ssm.time_step_rank": 16, "ssm.inner_size": 512, "expert_count": 4, "expert_used_count": 2,
    }  # fmt: skip
    source, model = load(write(tmp_path / "j.gguf", "jamba", given_, shapes))
    config = source.config
    assert [config[f"{kind}_layer_{word}"] for kind in ("attn", "expert") for word in ("period", "offset")] == [8, 4, 2, 1]
    found = kv(model, 1)
    assert found["kv_bytes_per_token"] == 2 * 2 * 2 * 64 * 2
    assert found["state_bytes_per_sequence"] == 14 * (512 * 16 * 4 + 512 * 3 * 2)
    assert model.notes == ()


# More architectures: tensors as llama.cpp's loader creates them, for every layer ------------------------------------


def vectors(width: int, *names: str) -> Shapes:
    return {f"{name}{'' if '.' in name else '.weight'}": ((width,), Q.F32) for name in names}


def matrices(**shapes: tuple[int, ...]) -> Shapes:
    return {f"{name}.weight": (shape, Q.F16) for name, shape in shapes.items()}


def layernorms(width: int, *names: str) -> Shapes:
    return vectors(width, *(f"{name}.{half}" for name in names for half in ("weight", "bias")))


def rwkv_7(hidden: int, depth: int, ranks: tuple[int, int, int, int], vocab: int = 65_536, *, qwen: int = 0) -> tuple[Any, Shapes]:
    """RWKV 7; `qwen`: the width of Qwen's MLP in place of its own, without a gate and a norm. The first layer's v0-v2 are copies."""
    decay, rate, mix, gate = ranks
    shapes = head(hidden, vocab)
    if not qwen:
        shapes |= layernorms(hidden, "token_embd_norm", "output_norm")
    for index in range(depth):
        low = {"w": decay, "a": rate, "v": mix if index else rate, **({} if qwen else {"g": gate})}
        one = {f"time_mix_{name}1.weight": ((rank, hidden), Q.F32) for name, rank in low.items()}
        one |= {f"time_mix_{name}2.weight": ((hidden, rank), Q.F32) for name, rank in low.items()}
        one |= vectors(hidden, *(f"time_mix_{name}" for name in ("w0", "a0", "v0", "k_k", "k_a", "r_k")))
        one |= {f"time_mix_{name}.weight": ((hidden, hidden), Q.F16) for name in ("key", "value", "receptance", "output")}
        one["time_mix_lerp_fused.weight"] = ((5 if qwen else 6, 1, 1, hidden), Q.F32)
        if qwen:
            one |= {**mlp(hidden, qwen), **vectors(hidden, "attn_norm")}
        else:
            one |= matrices(channel_mix_key=(4 * hidden, hidden), channel_mix_value=(hidden, 4 * hidden))
            one |= {**vectors(hidden, "channel_mix_lerp_k"), **layernorms(hidden, "attn_norm", "attn_norm_2", "time_mix_ln")}
        shapes |= layers(1, one, index)
    given_ = {
        "block_count": depth, "context_length": 2**20, "embedding_length": hidden, "feed_forward_length": qwen or 4 * hidden,
        "attention.head_count": 0, "wkv.head_size": 64, "attention.decay_lora_rank": decay, "attention.iclr_lora_rank": rate,
        "attention.value_residual_mix_lora_rank": mix, "attention.gate_lora_rank": 0 if qwen else gate,
    }  # fmt: skip
    return given_, shapes


def rwkv_6(hidden: int, depth: int, vocab: int, *, qwen: tuple[int, int] | None = None) -> tuple[Any, Shapes]:
    """RWKV 6; `qwen`: the width of Qwen's MLP, and its number of KV heads."""
    kv = qwen[1] * 64 if qwen else hidden
    one = matrices(
        time_mix_key=(kv, hidden), time_mix_value=(kv, hidden), time_mix_receptance=(hidden, hidden), time_mix_gate=(hidden, hidden),
        time_mix_output=(hidden, hidden), time_mix_w1=(160, hidden), time_mix_w2=(5, hidden, 32), time_mix_decay_w1=(64, hidden),
        time_mix_decay_w2=(hidden, 64),
    )  # fmt: skip
    one |= {**vectors(hidden, "time_mix_lerp_x", "time_mix_decay"), "time_mix_lerp_fused.weight": ((5, 1, 1, hidden), Q.F32)}
    shapes = head(hidden, vocab)
    if qwen:
        one |= {**mlp(hidden, qwen[0]), **vectors(hidden, "attn_norm", "time_mix_receptance.bias")}
        one |= vectors(kv, "time_mix_key.bias", "time_mix_value.bias")
    else:
        inner = hidden * 7 // 2
        one |= matrices(channel_mix_key=(inner, hidden), channel_mix_value=(hidden, inner), channel_mix_receptance=(hidden, hidden))
        one |= vectors(hidden, "channel_mix_lerp_k", "channel_mix_lerp_r")
        one |= {"time_mix_first.weight": ((hidden // 64, 64), Q.F32), **layernorms(hidden, "attn_norm", "attn_norm_2", "time_mix_ln")}
        shapes |= layernorms(hidden, "token_embd_norm", "output_norm")
    given_ = {
        "block_count": depth, "context_length": 2**20, "embedding_length": hidden, "attention.head_count": 0, "wkv.head_size": 64,
        "feed_forward_length": qwen[0] if qwen else hidden * 7 // 2, "time_mix_extra_dim": 32, "time_decay_extra_dim": 64,
        **({"attention.head_count_kv": qwen[1]} if qwen else {}),
    }  # fmt: skip
    return given_, {**shapes, **layers(depth, one)}


def plamo_2() -> tuple[Any, Shapes]:
    """plamo-2-1b: attention on the odd layers, a norm per head of its own, gate and up in one matrix."""
    hidden, shapes = 2048, head(2048, 100_000, tied=True)
    for index in range(16):
        one = vectors(hidden, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        one |= matrices(ffn_up=(2 * 8192, hidden), ffn_down=(hidden, 8192))
        if index % 2:
            one |= matrices(attn_qkv=(18 * 128, hidden), attn_output=(hidden, hidden), attn_q_norm=(16, 128), attn_k_norm=(1, 128))
        else:
            one |= matrices(ssm_in=(8192, hidden), ssm_conv1d=(4096, 4), ssm_x=(256, 4096), ssm_dt=(32, 128), ssm_out=(hidden, 4096))
            one |= {**vectors(32, "ssm_dt.bias", "ssm_d"), "ssm_a": ((32, 1), Q.F32), **vectors(64, "ssm_b_norm", "ssm_c_norm")}
            one |= vectors(128, "ssm_dt_norm")
        shapes |= layers(1, one, index)
    given_ = keys(16, hidden, 8192, [16 * (i % 2) for i in range(16)], [i % 2 for i in range(16)], 128)  # type: ignore[arg-type]
    ssm = {"ssm.state_size": 64, "ssm.conv_kernel": 4, "ssm.time_step_rank": 32, "ssm.inner_size": 4096, "ssm.group_count": 0}
    return {**given_, **ssm}, shapes


def plain(hidden: int = 64, inner: int = 96, query: int = 4, kv: int = 2, *, fused: bool = False) -> Shapes:
    """A layer of llama's tensors; `fused`: q, k and v in one matrix, heads of 16."""
    one = {**attention(hidden, query, kv, 16), **mlp(hidden, inner)}
    if fused:
        for name in "qkv":
            del one[f"attn_{name}.weight"]
        one["attn_qkv.weight"] = (((query + 2 * kv) * 16, hidden), Q.F16)
    return one


def routed(inner: int = 32, number: int = 6, shared: int = 0) -> Shapes:
    one = experts(64, inner, number)
    if shared:
        one |= matrices(ffn_gate_shexp=(shared, 64), ffn_up_shexp=(shared, 64), ffn_down_shexp=(64, shared))
    return one


def biases(one: Shapes) -> Shapes:
    """The same layer with a bias on everything."""
    return one | {name.replace(".weight", ".bias"): ((shape[0],), Q.F32) for name, (shape, _) in one.items()}


def without(one: Shapes, *names: str) -> Shapes:
    return {name: value for name, value in one.items() if name.removesuffix(".weight") not in names}


USED = {"expert_count": 6, "expert_used_count": 2}


def open_elm() -> tuple[Any, Shapes]:
    """Query heads, KV heads and widths that grow with the layer."""
    shapes = head(64, 100, tied=True)
    for index in range(3):
        query, kv, inner = 4 + 4 * index, 1 + index, 32 * (index + 1)
        one = {**plain(64, inner, query, kv, fused=True), **vectors(16, "attn_q_norm", "attn_k_norm")}
        shapes |= layers(1, one, index)
    return keys(3, 64, [32, 64, 96], [4, 8, 12], [1, 2, 3], 16), shapes  # type: ignore[arg-type]


def step_35() -> tuple[Any, Shapes]:
    """Eight query heads and a window of 512 on two of three layers, the first one dense, a prediction layer behind."""
    shapes = head(64, 100)
    for index in range(4):
        query = 8 if index % 3 else 4
        one = {**attention(64, query, 2, 16), "attn_gate.weight": ((query, 64), Q.F16), **vectors(16, "attn_q_norm", "attn_k_norm")}
        one |= routed(shared=48) | vectors(6, "exp_probs_b.bias") if index in (1, 2) else mlp(64, 96)
        if index == 3:
            one |= matrices(**{"nextn.eh_proj": (64, 128), "nextn.shared_head_head": (100, 64)})
            one |= vectors(64, "nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm")
        shapes |= layers(1, one, index)
    given_ = keys(4, 64, 96, [4, 8, 8, 4], [2, 2, 2, 2], 16)  # type: ignore[arg-type]
    more = {"attention.sliding_window": 512, "attention.sliding_window_pattern": [False, True, True, False], "nextn_predict_layers": 1}
    return {**given_, **USED, **more, "expert_feed_forward_length": 32, "leading_dense_block_count": 1}, shapes


def variants() -> dict[str, tuple[Any, Shapes]]:
    """Two layers of each, 64 wide, with 4 query and 2 KV heads of 16."""
    given_, top = keys(2, 64, 96, 4, 2, 16), head(64, 100)
    lean = {key: value for key, value in given_.items() if "length" not in key.partition("attention.")[2]}
    gpt = biases(without(plain(fused=True, query=4, kv=4), "ffn_gate"))
    tail = {"output_norm.bias": ((64,), Q.F32)}
    chameleon = {**plain(), "attn_q_norm.weight": ((4, 16), Q.F32), "attn_k_norm.weight": ((2, 16), Q.F32)}
    chameleon |= {"attn_q_norm.bias": ((4, 16), Q.F32), "attn_k_norm.bias": ((2, 16), Q.F32)}
    return {
        "refact": ({**lean, "attention.head_count_kv": 1}, top | layers(2, plain(kv=1))),
        "chameleon": (given_, top | layers(2, chameleon)),
        "hunyuan_vl": (given_, top | layers(2, {**plain(), **vectors(16, "attn_q_norm", "attn_k_norm")})),
        "paddleocr": (given_, top | layers(2, plain())),
        "plamo": (lean, top | layers(2, without(plain(), "ffn_norm"))),
        "plamo3": (
            {**given_, "attention.sliding_window": 8, "attention.sliding_window_pattern": [True, False]},
            top
            | layers(2, without(plain(fused=True), "ffn_gate", "ffn_up"))
            | layers(2, {**matrices(ffn_up=(192, 64)), **vectors(64, "post_attention_norm", "post_ffw_norm")})
            | layers(2, vectors(16, "attn_q_norm", "attn_k_norm")),
        ),
        "codeshell": (lean, top | tail | layers(2, biases(without(plain(fused=True), "ffn_gate")))),
        "jais": ({**lean, "attention.head_count_kv": 4}, top | tail | layers(2, gpt | biases(matrices(ffn_gate=(96, 64))))),
        "grok": (
            {**given_, **USED, "expert_feed_forward_length": 32},
            top | layers(2, {**plain(), **routed(), **vectors(64, "attn_output_norm", "post_ffw_norm")}),
        ),
        "arctic": (
            {**lean, **USED, "feed_forward_length": 32},
            top | layers(2, {**plain(inner=64), **routed(), **vectors(64, "ffn_norm_exps")}),
        ),
        "smallthinker": ({**given_, **USED, "attention.sliding_window": 8}, top | layers(2, {**attention(64, 4, 2, 16), **routed()})),
    }


@pytest.mark.parametrize(
    ("arch", "made", "params", "per_token", "beyond", "state"),
    [
        # Published counts of RWKV-7 World 0.1B and 1.5B; two shifted tokens of 2 B, a matrix of 64 x 64 x 4 B per head
        ("rwkv7", lambda: rwkv_7(768, 12, (64, 64, 32, 128)), 191_034_624, 0, 0, 12 * (2 * 768 * 2 + 12 * 64 * 64 * 4)),
        ("rwkv7", lambda: rwkv_7(2048, 24, (96, 96, 64, 256)), 1_527_404_544, 0, 0, 24 * (2 * 2048 * 2 + 32 * 64 * 64 * 4)),
        # arXiv:2404.05892: 13 D^2 L + 464 D L + 4 D + 2 D V
        ("rwkv6", lambda: rwkv_6(2048, 24, 65_536), 1_599_873_024, 0, 0, 24 * (2 * 2048 * 2 + 32 * 64 * 64 * 4)),
        # D = 128, V = 100, 2 layers: embedding and head 2 x 12,800, norm 128; per layer RWKV 6 with one of two heads for k and v
        # 3 D^2 + 2 x 64 D + biases 256 + low ranks (320 + 128) D + vectors 7 D, MLP 3 x 96 D, two norms
        ("rwkv6qwen2", lambda: rwkv_6(128, 2, 100, qwen=(96, 1)), 25_728 + 2 * (49_152 + 16_384 + 256 + 57_344 + 896 + 36_864 + 256),
         0, 0, 2 * (128 * 2 + 2 * 64 * 64 * 4)),
        # the same around RWKV 7: 4 D^2, vectors 5 + 2 + 3, ranks 16 + 16 twice; the second layer 8 twice and one vector more
        ("arwkv7", lambda: rwkv_7(128, 2, (16, 16, 8, 0), 100, qwen=96),
         25_728 + 2 * (65_536 + 1280 + 8192 + 36_864 + 256) + 2 * 8 * 128 + 128, 0, 0, 2 * (128 * 2 + 2 * 64 * 64 * 4)),
        # The published count; 8 layers of 1 KV head; 8 states of 32 x 128 x 64 in fp32 and 3 inputs of 4096
        ("plamo2", plamo_2, 1_291_441_920, 8 * 2 * 128 * 2, 8 * 2 * 128 * 2, 8 * (32 * 128 * 64 * 4 + 3 * 4096 * 2)),
        # 64 x 100 + 64; per layer (2 q + 2 kv) 16 x 64 and 3 x 64 x inner, two norms of 64 and of 16
        ("openelm", open_elm, 6464 + 1024 * (10 + 20 + 30) + 192 * (32 + 64 + 96) + 3 * 160, 6 * 2 * 16 * 2, 6 * 2 * 16 * 2, 0),
        # Full layers 0 (4 heads), sliding 1 and 2; 2 x 6400 + 64 + dense 18,432 + (6 experts of 32 and a shared one of 48) x 2
        ("step35", step_35,
         12_864 + 3 * (128 + 32) + (12_288 + 256 + 18_432) + 2 * (20_480 + 512 + 6 * 64 + 6 * 6144 + 9216), 3 * 2 * 2 * 16 * 2,
         2 * 2 * 16 * 2, 0),
    ],
)  # fmt: skip
def test_more_architectures(tmp_path: Path, arch: str, made: Any, params: int, per_token: int, beyond: int, state: int) -> None:
    source, model = load(write(tmp_path / "m.gguf", arch, *made()))
    assert (memory.language_params(model), model.notes) == (params, ())  # no note: as many as the tensors hold
    found = kv(model, 1)
    assert found["kv_bytes_per_token"] == per_token and found["state_bytes_per_sequence"] == state
    assert found["kv_bytes_per_token_beyond_window"] == beyond
    assert source.files is not None
    known = {*gguf_config.NO_PARAMETERS.values(), "multi-token prediction, not in the total"}
    for one in weight_files.compare(source.files, model, memory.weights(model)).results["file_differences"]:
        assert one["reason"] in known or "divided otherwise" in one["reason"], one


@pytest.mark.parametrize("arch", variants())
def test_variants_of_known_layers(tmp_path: Path, arch: str) -> None:
    """As many parameters as the tensors hold, and two layers of 2 KV heads of 16 (Refact 1, Jais 4): 256 B per token."""
    _, model = load(write(tmp_path / "v.gguf", arch, *variants()[arch]))
    assert [note for note in model.notes if "vq_config" not in note] == []  # Chameleon's image tokeniser is in no such file
    assert kv(model, 1)["kv_bytes_per_token"] == {"refact": 128, "jais": 512}.get(arch, 256)
    assert kv(model, 1)["kv_bytes_per_token_beyond_window"] == {"refact": 128, "jais": 512, "plamo3": 128, "smallthinker": 128}.get(
        arch, 256
    )


def test_deepseek_v4_flash(tmp_path: Path) -> None:
    """The model of the published config, from the tensors that llama.cpp's loader asks for; ratio 4 has overlaps and an indexer."""
    from llmcalc import model as reader

    raw = sources.read_bundled("deepseek-ai/DeepSeek-V4-Flash").config
    hidden, dim, ratios = raw["hidden_size"], raw["head_dim"], raw["compress_ratios"][: raw["num_hidden_layers"]]
    query, rank, index, width = raw["num_attention_heads"], raw["q_lora_rank"], raw["index_head_dim"], raw["moe_intermediate_size"]
    groups, low = raw["o_groups"], raw["o_lora_rank"]
    streams = raw["hc_mult"]
    mix = (2 + streams) * streams
    shapes = head(hidden, raw["vocab_size"]) | matrices(output_hc_fn=(streams, streams * hidden))
    shapes |= {**vectors(streams, "output_hc_base"), **vectors(1, "output_hc_scale")}
    for layer, ratio in enumerate(ratios):
        one = experts(hidden, width, raw["n_routed_experts"]) | vectors(hidden, "attn_norm") | vectors(query, "attn_sinks")
        one |= matrices(ffn_gate_shexp=(width, hidden), ffn_up_shexp=(width, hidden), ffn_down_shexp=(hidden, width))
        one |= matrices(attn_q_a=(rank, hidden), attn_q_b=(query * dim, rank), attn_kv=(dim, hidden))
        one |= matrices(attn_output_a=(groups * low, query * dim // groups), attn_output_b=(hidden, groups * low))
        one |= vectors(rank, "attn_q_a_norm") | vectors(dim, "attn_kv_a_norm")
        for place in ("attn", "ffn"):
            one |= matrices(**{f"hc_{place}_fn": (mix, streams * hidden)})
            one |= vectors(mix, f"hc_{place}_base") | vectors(3, f"hc_{place}_scale")
        for name, wide in (("attn", dim), ("indexer", index)) if ratio == 4 else (("attn", dim),) if ratio else ():
            rows = wide * (2 if ratio == 4 else 1)
            one |= matrices(**{f"{name}_compressor_kv": (rows, hidden), f"{name}_compressor_gate": (rows, hidden)})
            one |= matrices(**{f"{name}_compressor_ape": (ratio, rows)}) | vectors(wide, f"{name}_compressor_norm")
        if ratio == 4:
            one |= matrices(**{"indexer.proj": (raw["index_n_heads"], hidden), "indexer.attn_q_b": (raw["index_n_heads"] * index, rank)})
        if layer < raw["num_hash_layers"]:
            one["ffn_gate_tid2eid.weight"] = ((raw["vocab_size"], raw["num_experts_per_tok"]), Q.I32)
        else:
            one |= vectors(raw["n_routed_experts"], "exp_probs_b.bias")
        shapes |= layers(1, one, layer)
    given_ = {
        **keys(len(ratios), hidden, width, query, 1, dim, raw["max_position_embeddings"]),
        "attention.q_lora_rank": rank, "attention.sliding_window": raw["sliding_window"], "attention.output_group_count": groups,
        "attention.output_lora_rank": low, "attention.compress_ratios": ratios, "attention.indexer.head_count": raw["index_n_heads"],
        "attention.indexer.key_length": index, "attention.indexer.top_k": raw["index_topk"], "hyper_connection.count": streams,
        "hash_layer_count": raw["num_hash_layers"], "expert_count": raw["n_routed_experts"],
        "expert_used_count": raw["num_experts_per_tok"], "expert_feed_forward_length": width,
    }  # fmt: skip
    _, model = load(write(tmp_path / "v4.gguf", "deepseek4", given_, shapes))
    wanted = reader.read(raw)
    assert model.notes == () and memory.language_params(model) == memory.language_params(wanted)
    for ctx in (100, 9_000, 131_072):
        assert kv(model, ctx)["kv_bytes_per_sequence"] == memory.kv(wanted, ctx, 1, "fp16").results["kv_bytes_per_sequence"]


def test_kv_decode_and_fit_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from llmcalc import cli

    path = str(qwen3_8b(tmp_path / "Qwen3-8B-Q4_K_M.gguf"))
    for command in (["kv"], ["weights", "--from-files"], ["fit", "-d", "rtx-4090", "--ctx", "8k"], ["decode", "-d", "rtx-4090"]):
        assert cli.main([*command, "--model", path, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["model"] == {"id": path, "source": "file", "revision": None, "architecture": "qwen3"}
    assert "" not in found["results"]


@pytest.mark.parametrize(
    ("given_", "code", "says"),
    [
        ({"arch": "cogvlm"}, "unknown-architecture", "the GGUF architecture cogvlm is not read"),
        ({"arch": "bert"}, "no-kv-cache", "the GGUF architecture bert is an encoder: it generates no tokens and keeps no KV cache"),
        ({"arch": "llada"}, "no-kv-cache", "llada is a diffusion model: it refines all positions at once and keeps no KV cache"),
        ({"arch": "eagle3"}, "not-a-model", "the GGUF architecture eagle3 is a draft model, of no use alone"),
        ({"arch": "llama-99"}, "unknown-architecture", "the GGUF architecture llama-99 is not read"),
        ({"attention.head_count_kv": [2, 1]}, "bad-config", "llama.attention.head_count_kv is [2, 1]"),
        ({"embedding_length": 0}, "bad-config", "llama.embedding_length is 0"),
        ({"block_count": 2**31}, "bad-config", "llama.block_count is 2147483648"),
        ({"nextn_predict_layers": 2}, "bad-config", "llama.nextn_predict_layers is 2"),
        ({"attention.value_length": 8, "attention.key_length": 16}, "bad-config", "llama.attention.value_length is 8"),
        ({"attention.head_count": "four"}, "bad-config", "llama.attention.head_count is 'four'"),
        ({"attention.head_count": True}, "bad-config", "llama.attention.head_count is True"),
        ({"general.type": "adapter"}, "not-a-model", "of type adapter"),
    ],
)
def test_metadata_that_describes_no_model(tmp_path: Path, given_: dict[str, Any], code: str, says: str) -> None:
    arch = given_.pop("arch", "llama")
    shapes = {**head(64, 100), **layers(2, {**attention(64, 4, 2, 16), **mlp(64, 128)})}
    problem = failure(write(tmp_path / "x.gguf", arch, {**keys(2, 64, 128, 4, 2), **given_}, shapes))
    assert (problem.code, problem.exit_code) == (code, 1)
    assert says in problem.message


KEYS = """block_count context_length embedding_length feed_forward_length attention.head_count attention.head_count_kv
attention.key_length attention.value_length attention.key_length_mla attention.value_length_mla attention.key_length_swa
attention.sliding_window attention.sliding_window_pattern attention.shared_kv_layers attention.kv_lora_rank attention.q_lora_rank
attention.indexer.head_count attention.indexer.key_length attention.indexer.top_k attention.indexer.types rope.dimension_count
rope.scaling.original_context_length expert_count expert_used_count expert_feed_forward_length leading_dense_block_count
nextn_predict_layers interleave_moe_layer_step ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count
ssm.dt_b_c_rms kda.head_dim shortconv.l_cache embedding_length_per_layer_input altup.num_inputs moe_latent_size vocab_size""".split()
NAMES = """attn_q attn_k attn_v attn_qkv attn_output attn_q_norm attn_kv_b attn_kv_a_mqa attn_norm_2 attn_sinks ffn_gate ffn_up ffn_down
ffn_gate_inp ffn_up_exps ffn_down_exps ffn_up_shexp ffn_down.0 exp_probs_b ssm_in ssm_conv1d ssm_norm shortconv.conv laurel_l
post_attention_norm layer_output_scale""".split()
VALUES = st.one_of(
    st.integers(0, 9),
    st.sampled_from([16, 64, 128, 4096, 2**31, -1, 0.5, float("nan"), True, False, "x", gguf.Skipped(5)]),
    st.lists(st.integers(0, 4), max_size=5),
    st.lists(st.booleans(), max_size=5),
)


@pytest.mark.parametrize("examples", [2, pytest.param(50, marks=pytest.mark.nightly)])
def test_any_metadata_is_read_or_refused_in_words(examples: int) -> None:
    for arch in sorted(gguf_config.BUILDERS):
        drawn = settings(max_examples=examples, deadline=None, derandomize=True, database=None)
        drawn(given(st.just(arch), st.data())(read_or_refuse))()


def read_or_refuse(arch: str, data: st.DataObject) -> None:
    plain = {"block_count": 3, "context_length": 64, "embedding_length": 64, "feed_forward_length": 128, "attention.head_count": 4}
    drawn = data.draw(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=25))
    sizes = st.lists(st.sampled_from([1, 4, 16, 64, 128]), min_size=1, max_size=3)
    found = data.draw(st.dictionaries(st.sampled_from(NAMES), sizes, max_size=12))
    tensors = [
        Tensor(f"blk.{index}.{name}.{ending}", "F16", tuple(shape), 2)
        for name, shape in found.items()
        for index in data.draw(st.sets(st.integers(0, 2)))
        for ending in data.draw(st.sets(st.sampled_from(["weight", "bias"]), min_size=1))
    ]
    tensors.append(Tensor("token_embd.weight", "F16", (100, 64), 12_800))
    metadata = {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in {**plain, **drawn}.items()}}
    files = Files("gguf", (("f.gguf", 100),), tuple(tensors), metadata)
    try:
        model = common.of_source(gguf_source("f.gguf", "file", None, files))
        memory.kv(model, 64)
        weight_files.compare(files, model, memory.weights(model))
    except LlmcalcError as problem:
        assert problem.message.isprintable()


def test_a_vocabulary_alone_is_no_model(tmp_path: Path) -> None:
    assert failure(write(tmp_path / "v.gguf", "llama", keys(2, 64, 128, 4, 2), {})).code == "not-a-model"


def test_tensors_that_contradict_the_metadata_are_said(tmp_path: Path) -> None:
    """Three layers of tensors under metadata that describes two."""
    shapes = {**head(64, 100), **layers(2, {**attention(64, 4, 2, 16), **mlp(64, 128)}), "blk.0.extra.weight": ((64, 64), Q.F16)}
    _, model = load(write(tmp_path / "x.gguf", "llama", keys(2, 64, 128, 4, 2), shapes))
    (note,) = model.notes
    # 2 x 6400 + 64 + 2 x (4096 + 2 x 2048 + 4096 + 3 x 8192 + 128), and 4,096 more
    assert note == "the file's tensors hold 90,944 parameters of the language model and its metadata describes 86,848"


def test_an_unknown_architecture_is_counted_and_has_no_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2 x 64 x 100 + 64 and 2 x (64 x 64 + 16) elements in F16; of its cache, its layers and its parts nothing is known."""
    shapes = {
        **head(64, 100),
        "blk.0.odd.weight": ((64, 64), Q.F16),
        "blk.0.odd.scale": ((16,), Q.F32),
        "blk.1.odd.weight": ((64, 64), Q.F16),
    }
    path = write(tmp_path / "x.gguf", "never-heard-of", {}, shapes)
    assert main(["weights", "-m", str(path), "--from-files", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"]["file_params"] == 2 * 6400 + 64 + 2 * 4096
    assert sum(found["results"]["file_bytes_by_dtype"].values()) == found["results"]["file_tensor_bytes"]
    assert "never-heard-of is not read" in found["remarks"][0]
    for command in (["kv"], ["weights"], ["fit", "-d", "h100-sxm"]):
        assert main([*command, "-m", str(path)]) == 1
        err = capsys.readouterr().err
        assert "the GGUF architecture never-heard-of is not read" in err and "counts its bytes and parameters with --from-files" in err


# The Hub -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub() -> Iterator[FakeHub]:
    server = FakeHub()
    yield server
    server.close()


LINES = """
import io, json, sys
from contextlib import redirect_stdout
from llmcalc.cli import main
for line in sys.stdin:
    with redirect_stdout(io.StringIO()) as out:
        code = main([*json.loads(line), "--json"])
    print(json.dumps([code, json.loads(out.getvalue())]), flush=True)
"""
Runs = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def runs(hub: FakeHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Runs commands, those of one home in a process of their own: the client reads its settings when it is imported."""
    started: dict[Path, subprocess.Popen[str]] = {}
    shared = tmp_path_factory.mktemp("home")

    def run(*arguments: str, home: Path = shared) -> tuple[int, Any]:
        if home not in started:
            env = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            env |= {"PYTHONPATH": str(ROOT), "HF_HOME": str(home), "HOME": str(home), "NO_PROXY": "*", "HF_ENDPOINT": hub.url}
            started[home] = subprocess.Popen(
                [sys.executable, "-c", LINES],
                env=env,
                text=True,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        stdin, stdout = started[home].stdin, started[home].stdout
        assert stdin and stdout
        stdin.write(json.dumps(arguments) + "\n")
        stdin.flush()
        code, found = json.loads(stdout.readline())
        return code, found

    yield run
    for process in started.values():
        _, noise = process.communicate(timeout=60)
        assert noise == ""


def repository(folder: Path) -> dict[str, bytes]:
    """Two quantisations, one of them in shards in a folder, a projector, and a dynamic quantisation of the same type."""
    shapes = {**head(64, 100), **layers(6, {**attention(64, 4, 2, 16), **mlp(64, 128)})}
    whole = write(folder / "w.gguf", "llama", keys(6, 64, 128, 4, 2), shapes).read_bytes()
    parts = {f"Q8_0/{path.name.replace('tiny', 'Tiny-Q8_0')}": path.read_bytes() for path in split(folder)}
    mmproj = write(folder / "m.gguf", "clip", {}, {"v.patch_embd.weight": ((64, 32), Q.F16)}).read_bytes()
    big = whole + bytes(4 * 2**20)
    return {"Tiny-Q4_K_M.gguf": big, "Tiny-UD-Q4_K_M.gguf": whole, "mmproj-Tiny-Q4_K_M.gguf": mmproj, **parts, "README.md": b"x"}


def test_a_file_on_the_hub_by_its_type(hub: FakeHub, runs: Runs, tmp_path: Path) -> None:
    commit = hub.add("org/Tiny-GGUF", repository(tmp_path))
    hub.served = 0
    code, found = runs("weights", "--model", "org/Tiny-GGUF:Q4_K_M", "--from-files")
    assert code == 0
    assert found["model"] == {"id": "org/Tiny-GGUF:Q4_K_M", "source": "hub", "revision": commit, "architecture": "llama"}
    assert found["results"]["file_params"] == 2 * 6400 + 64 + 6 * (4096 + 2 * 2048 + 4096 + 3 * 8192 + 128)
    assert [one["name"] for one in found["results"]["extra_files"]] == ["mmproj-Tiny-Q4_K_M.gguf"]
    assert hub.served <= 2**20  # of a file of over 4 MiB
    asked = [path for path in hub.paths() if "resolve" in path]
    assert {path.rpartition("/")[2] for path in asked} == {"Tiny-Q4_K_M.gguf"}

    code, found = runs("kv", "--model", f"hf://org/Tiny-GGUF:q8_0@{commit}", "--ctx", "1k")
    assert (code, found["model"]["revision"], found["results"]["kv_bytes_per_token"]) == (0, commit, 2 * 6 * 2 * 16 * 2)


@pytest.mark.parametrize(
    ("reference", "code", "says", "hint"),
    [
        ("org/Tiny-GGUF:IQ9_X", "no-such-file", "no GGUF file IQ9_X", "it has Q4_K_M, Q8_0, UD-Q4_K_M"),
        ("org/Absent-GGUF:Q4_K_M", "model-not-found", "org/Absent-GGUF was not found", "check the name"),
        ("org/Tiny-GGUF:../../etc", "bad-reference", "names no GGUF file", "org/name-GGUF:Q4_K_M"),
        ("org/Bad-GGUF:Q4_K_M", "bad-gguf", "Bad-Q4_K_M.gguf is not a GGUF file", "another file"),
    ],
)
def test_hub_failures(hub: FakeHub, runs: Runs, tmp_path: Path, reference: str, code: str, says: str, hint: str) -> None:
    hub.add("org/Tiny-GGUF", repository(tmp_path))
    hub.add("org/Bad-GGUF", {"Bad-Q4_K_M.gguf": b"<html>" + bytes(100)})
    status, found = runs("kv", "--model", reference)
    assert status in (1, 2)
    assert found["error"]["code"] == code
    assert says in found["error"]["message"] and hint in found["error"]["hint"]


def test_shards_in_a_folder_and_a_file_by_its_address(hub: FakeHub, runs: Runs, tmp_path: Path) -> None:
    hub.add("org/Tiny-GGUF", repository(tmp_path))
    code, found = runs("weights", "--model", "org/Tiny-GGUF:Q8_0", "--from-files")
    assert (code, found["results"]["file_count"]) == (0, 3)
    address = f"{hub.url}/org/Tiny-GGUF/blob/main/Tiny-UD-Q4_K_M.gguf"
    code, found = runs("kv", "--model", address, "--ctx", "1k")
    assert (code, found["model"]["id"]) == (0, "org/Tiny-GGUF:Tiny-UD-Q4_K_M.gguf")


def test_a_server_without_ranges_is_cut_off(hub: FakeHub, runs: Runs, tmp_path: Path) -> None:
    hub.add("org/Tiny-GGUF", repository(tmp_path))
    hub.ranges = False
    try:
        code, found = runs("kv", "--model", "org/Tiny-GGUF:Q4_K_M", "--ctx", "1k")
    finally:
        hub.ranges = True
    assert (code, found["results"]["kv_bytes_per_token"]) == (0, 2 * 6 * 2 * 16 * 2)


def test_offline_reads_the_cache_or_says_so(hub: FakeHub, runs: Runs, tmp_path: Path) -> None:
    code, found = runs("kv", "--model", "org/Tiny-GGUF:Q4_K_M", "--offline", home=tmp_path / "empty")
    assert (code, found["error"]["code"]) == (1, "offline-not-cached")
    commit = "0123456789abcdef0123456789abcdef01234567"
    cache = tmp_path / "home" / "hub" / "models--org--Tiny-GGUF"
    (cache / "snapshots" / commit).mkdir(parents=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    for name, content in repository(tmp_path).items():
        path = cache / "snapshots" / commit / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    hub.paths()
    code, found = runs("kv", "--model", "org/Tiny-GGUF:Q8_0", "--offline", "--ctx", "1k", home=tmp_path / "home")
    assert (code, found["model"]["source"], found["model"]["revision"]) == (0, "hub-cache", commit)
    assert hub.paths() == []
