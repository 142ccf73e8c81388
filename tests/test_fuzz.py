"""Whatever is read, the outcome is a result or an LlmcalcError: soon, in little memory, in one printable line.

Each check runs some fifty examples here and 20,000 under `-m nightly`. The time is the process's own, the least of three
where it is long, and the memory that by which one example raises the peak: both are asked of the whole example.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
import math
import os
import re
import shlex
import shutil
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hub_server import FakeHub, Trouble
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from llmcalc import api, checkpoint, data, engines, formats, gguf, hardware, hardware_profile, model, safetensors, sources, traffic, units
from llmcalc.cli import main
from llmcalc.commands import COMMANDS, parse
from llmcalc.config import SHAPING
from llmcalc.errors import LlmcalcError, printable
from llmcalc.estimate import decode, memory, verdict, weight_files
from llmcalc.files import Blob
from llmcalc.plan import Workload
from llmcalc.quiz import answers, review
from llmcalc.sources.client import hub_client
from llmcalc.sources.content import config_of
from llmcalc.sources.files import gguf_source, on_disk

resource = pytest.importorskip("resource", reason="measures memory")
ROOT = Path(__file__).resolve().parent.parent
MOST_CPU_S = 1.0
SLOW = {"command lines": 60.0, "machines": 5.0, "hub answers": 5.0}  # some search or simulate; chunks of one token take longest
MOST_GROWTH_KIB = 256 * 1024


def settle(read: Callable[[], Any]) -> Any:
    """What `read` returns, or the error in which it ends; anything else it raises fails the test."""
    try:
        return read()
    except LlmcalcError as problem:
        assert re.fullmatch(r"[a-z0-9-]+", problem.code)
        assert problem.exit_code in (1, 2)
        for line in (problem.message, problem.hint or "none"):
            assert line.strip() and len(printable(line, 5000)) < 5000
        return problem


def bounded(check: Callable[[Any], None], most_s: float) -> Callable[[Any], None]:
    """The check, held to its time and memory."""

    def held(example: Any) -> None:
        before, spent = reset_peak(), math.inf
        for _ in range(3):  # a busy machine is slow now and then, a bad example always
            start = time.process_time()
            check(copy.deepcopy(example))
            spent = min(spent, time.process_time() - start)
            if spent < most_s:
                break
        assert spent < most_s, f"too slow: {spent:.1f} s"
        grown = peak_kib() - before
        assert grown < MOST_GROWTH_KIB, f"too much memory: {grown} KiB"

    return held


def peak_kib() -> int:
    """The most memory that this process has held."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) // (1 if sys.platform == "linux" else 1024)


def reset_peak() -> int:
    """Linux forgets the peak when told so; elsewhere only what exceeds the earlier examples is seen."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as forget:
        forget.write("5")
    return peak_kib()


# ---- what to put where -----------------------------------------------------------------------------------------------

NESTED: Any = 0
for _ in range(60):
    NESTED = [NESTED]
STRINGS = [
    "", " ", "auto", "null", "0", "-1", "1e999", "32", "true", "x" * 30_000, "\x1b[31mred", "\x1b]0;t\x07", "[bold]x[/bold]", "a\nb", "a\r\nb",
    "\u202egnp.exe", "\ud800", "\0", "\ufeff", "=1+1", "|", "`", "<script>", "../../etc/passwd", "%s%n", "{0}", "１２", "٣", "½", "∞", "nan", "full_attention",
    "sliding_attention", "linear_attention", "mamba", "M*-E", "fp8", "gptq", "bfloat16", "torch.float16",
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 2, 3, 7, 8, 64, 128, 4096, 2**31 - 1, 2**31, 2**53, 2**63, 2**64, 10**9, 10**9 + 1, 10**30, 10**400, -(10**400), 0.0, -0.0, 0.5, 1.5,
    128.0, 1e-320, 1e308, math.nan, math.inf, -math.inf,
]  # fmt: skip
LISTS: list[Any] = [
    [], [0], [None], [-1], [1] * 5000, [[]], ["full_attention"], ["mamba"] * 40, [10**400], [True], {}, {"a": 1}, {"": {}}, {"model_type": "llama"}, NESTED,
]  # fmt: skip
HOSTILE: list[Any] = [None, True, False, *STRINGS, *NUMBERS, *LISTS]
values = st.one_of(st.sampled_from(HOSTILE), st.integers(-10, 10**6), st.floats(), st.text(max_size=6), st.sampled_from(STRINGS))
short = st.one_of(st.sampled_from(STRINGS), st.text(max_size=8))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything inside a JSON value; of long lists the ends."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*at, key)
            yield from places(inner, (*at, key))
    elif isinstance(value, list):
        for index in {*range(min(len(value), 4)), len(value) - 1} - {-1}:
            yield (*at, index)
            yield from places(value[index], (*at, index))


def holder(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path[:-1]:
        value = value[step]
    return value


@st.composite
def changed(draw: Callable[[SearchStrategy[Any]], Any], originals: list[Any], keys: tuple[str, ...] = ()) -> Any:
    """One of the originals after one to four changes: values, keys, parts of another original."""
    made = copy.deepcopy(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        spots = list(places(made))
        if not spots:
            break
        path = draw(st.sampled_from(spots))
        inside = holder(made, path)
        change = draw(st.sampled_from(["value", "value", "scale", "delete", "add", "splice"]))
        if change == "value":
            inside[path[-1]] = copy.deepcopy(draw(values))
        elif change == "scale" and isinstance(inside[path[-1]], int | float):
            with contextlib.suppress(OverflowError):
                inside[path[-1]] *= draw(st.sampled_from([-1, 0, 2, 3, 1000, 10**6, 0.5]))
        elif change == "scale" and isinstance(inside[path[-1]], list):
            inside[path[-1]] = (inside[path[-1]] * draw(st.sampled_from([0, 2, 100])))[:20_000]
        elif change == "delete":
            del inside[path[-1]]
        elif change == "add" and isinstance(inside, dict):
            inside[draw(st.sampled_from(keys) if keys else short)] = copy.deepcopy(draw(values))
        elif change == "splice" and isinstance(inside, dict):
            other = draw(st.sampled_from(originals))
            if isinstance(other, dict) and other:
                key = draw(st.sampled_from(list(other)))
                inside[key] = copy.deepcopy(other[key])
    return made


FIGURES = [
    b"0", b"1", b"2", b"3", b"7", b"64", b"100", b"4096", b"1000000", b"0.5", b"1.5", b"-1", b"1e3", b"1e-9", b"1e300", b"1e999", b"9" * 18, b"9" * 400, b"nan", b".inf", b"null",
    b"true", b"[]", b"{}", b"''", b'""', b"2k", b"1 GB", b"1_000", b"2026-01-01", b"-0.0", b"1e-320", b"1.0e-320", b"1.0e-9", b"1.0e+300",
]  # fmt: skip


@st.composite
def edited(draw: Callable[[SearchStrategy[Any]], Any], originals: list[bytes], words: list[bytes]) -> bytes:
    """One of the originals after one to four edits of its bytes."""
    content = bytearray(draw(st.sampled_from(originals)))
    tidy = draw(st.booleans())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        change = "number" if tidy else draw(st.sampled_from(["number", "byte", "word", "over", "over", "cut", "drop", "again"]))
        if change == "number":  # what parses still
            spots = [found.span() for found in islice(re.finditer(rb"(?<![\w.])\d+(\.\d+)?(?![\w.])", content), 500)]
            if spots:
                start, end = draw(st.sampled_from(spots))
                content[start:end] = draw(st.sampled_from(FIGURES))
        elif change == "byte":
            content[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif change in ("word", "over"):
            word = draw(st.one_of(st.sampled_from(words), st.binary(max_size=8)))
            content[at : at + (len(word) if change == "over" else 0)] = word
        elif change == "cut":
            del content[at:]
        elif change == "drop":
            del content[at : at + draw(st.integers(1, 40))]
        else:
            end = at + draw(st.integers(1, 60))
            content[at:at] = content[at:end] * draw(st.integers(1, 20))
    return bytes(content)


# ---- configs ---------------------------------------------------------------------------------------------------------


@cache
def configs() -> list[dict[str, Any]]:
    """Every bundled config, but for lists of modules in their thousands."""
    found = []
    for id in sources.bundled_ids():
        config = sources.read_bundled(id).config
        if len(json.dumps(config)) < 30_000:
            found.append(config)
    return found


@cache
def blocks() -> list[tuple[Any, dict[str, Any]]]:
    """(model, its quantiser's block) of every bundled checkpoint that is quantised."""
    found = []
    for id in sources.bundled_ids():
        read = api.of_source(sources.read_bundled(id))
        if read.quantization and len(json.dumps(read.quantization)) < 30_000:
            found.append((read, read.quantization))
    return found


def use(found: model.Model) -> None:
    """What the commands ask of a model."""
    memory.kv(found, 8192, 3)
    memory.weights(found)
    run = api.deploy(found, "8x h100-sxm")
    work = Workload(4096, 16)
    decode.decode(found, run, work)
    verdict.fit(found, run, work)


def config_check(raw: Any) -> None:
    read = settle(lambda: model.read(raw))
    if isinstance(read, model.Model):
        settle(lambda: use(read))


def file_check(content: bytes) -> None:
    """A config.json byte by byte, as it lies on a disk."""
    settle(lambda: model.read(config_of(content, "config.json")[0]))


def block_check(pair: tuple[int, Any]) -> None:
    found, _ = blocks()[pair[0] % len(blocks())]
    settle(lambda: checkpoint.read(replace(found, quantization=pair[1] or None), formats.FORMATS["bf16"]))


@cache
def config_texts() -> list[bytes]:
    return [json.dumps(config, indent=1).encode() for config in configs()[::10]]


# ---- YAML ------------------------------------------------------------------------------------------------------------


@cache
def profiles() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "hardware").glob("*.yaml"))]


YAML_WORDS = [
    b"!!python/object/apply:os.system ['true']", b"!!binary ", b"!!set ", b"!!timestamp ", b"!!int ", b"!!float ", b"!!omap ", b"!!pairs ", b"&a ", b"*a", b"<<: ",
    b"? ", b"- ", b": ", b"---\n", b"...\n", b"|\n", b">\n", b"{", b"}", b"[", b"]", b"#", b"'", b'"', b"%YAML 9.9\n", b"\t", b"\r", b"\xef\xbb\xbf", b"\xff", b"\0",
    b".inf", b".nan", b"1e999 GB", b"0x" + b"f" * 5000, b"190:20:30" + b":59" * 3000, b"2001-12-14t21:59:43.10-99:99", b"9999-99-99", b"0001-01-01 00:00:00+23:59",
    b"1" * 5000, b"id: ", b"=", b"~", b"{" * 300, b"\xe2\x80\xae", b"\xc2\x85", b"\x1b[31m",
]  # fmt: skip
TRAFFIC = [
    b"rate: 12\nkinds:\n  - {name: chat, share: 3, prompt: 2k, output_tokens: 300}\n  - {name: rag, prompt: 8k, output_tokens: 200, cached: 1k, prompt_cv: 1}\n",
    b"rate: 0.5\ncv: 2\nkinds: [{prompt: 100, output_tokens: 5}]\n",
]


def profile_check(content: bytes) -> None:
    text = settle(lambda: data.decode(content, "d.yaml", "hardware profile", 131_072))
    parsed = settle(lambda: data.parse_yaml(text, "d.yaml", "hardware profile")) if isinstance(text, str) else None
    if not isinstance(parsed, LlmcalcError):
        profile_object_check(parsed)


def profile_object_check(parsed: Any) -> None:
    profile, problems = hardware_profile.problems_of(parsed)
    assert (profile is None) == bool(problems)
    if profile is not None:
        device = hardware._device(profile, "d.yaml")
        hardware_profile.doubts(profile)
        hardware.facts(device)
        found = qwen()
        run = replace(api.deploy(found, "8x h100-sxm"), device=device)
        settle(lambda: decode.decode(found, run, Workload(4096, 16)))
        settle(lambda: verdict.fit(found, run, Workload(4096, 16)))


@cache
def qwen() -> model.Model:
    return api.load_model("Qwen/Qwen3-0.6B", offline=True)


@cache
def profile_objects() -> list[Any]:
    return [data.parse_yaml(text.decode(), "p", "profile") for text in profiles()[::4]]


def in_a_file(content: bytes, read: Callable[[str], Any], name: str) -> None:
    path = SCRATCH / name
    path.write_bytes(content)
    settle(lambda: read(str(path)))


SCRATCH = Path()  # a fixture says where


def traffic_check(content: bytes) -> None:
    in_a_file(content, lambda path: [*islice(traffic.of_yaml(path).requests(), 20)], "mix.yaml")


# ---- tables ----------------------------------------------------------------------------------------------------------

TRACES = [
    b"arrival_s,prompt_tokens,output_tokens\n0,100,20\n0.5,200,10\n3,4096,1\n",
    b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
    b'{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, 2]}\n{"timestamp": 3000, "input_length": 7, "output_length": 5}\n',
    b"arrival_s\tprompt\toutput\tcached\n0\t10\t5\t2\n1\t10\t5\t9\n",
]
MEASURED = [b"rate,ttft_p95_s,tpot_p95_s\n1,0.2,0.01\n4,0.9,0.02\n", b"rate,ttft_p50_s\n2.5,0.1\n"]
CSV_WORDS = [
    b'"', b'""', b",", b"\n", b"\r\n", b"\r", b"\0", b"\t", b"nan", b"inf", b"-1", b"1e999", b"9" * 5000, b"{", b"[" * 2000, b"]", b"1_0", b"2023-13-45 99:99:99", b"\xef\xbb\xbf",
    b"\xff", b"\xe2\x80\xae", b"prompt_tokens", b":", b"-", b"0001-01-01 00:00:00", b"9999-12-31 23:59:59.999-23:59", b"1" + b"0" * 400, b"\xd9\xa3",
]  # fmt: skip


cells = st.one_of(
    st.sampled_from(["1", "20", "300", "4096", "5"]), st.integers(1, 9999).map(str), st.integers(1, 9999).map(str),
    st.sampled_from(["0", "0.5", "1e3", "1e8", "1e9", "", "-1", "nan", " 7 ", "1_0", "9" * 70, "2023-11-16 18:15:46.6805900", "null", "true"]), st.text(max_size=6),
)  # fmt: skip


@st.composite
def tables(draw: Callable[[SearchStrategy[Any]], Any], headers: list[bytes]) -> bytes:
    """A header that is known and rows of odd cells, or a good file with odd bytes."""
    original = draw(st.sampled_from(headers))
    if draw(st.booleans()):
        return bytes(draw(edited([original], CSV_WORDS)))
    names = original.decode().splitlines()[0]
    mark = "\t" if "\t" in names else ","
    odd, plain = (cells if draw(st.booleans()) else st.integers(1, 9999).map(str)), st.integers(1, 9999).map(str)
    first = "2023-11-16 18:15:4{}.5" if "TIMESTAMP" in names else "{}"
    rows = [[first.format(row), *(draw(plain) for _ in names.split(mark)[1:])] for row in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(0, 2))):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, len(row) - 1))] = draw(odd)
    rows = [mark.join(row) for row in rows]
    return "\n".join([names, *rows]).encode("utf-8", "surrogatepass")


def trace_check(content: bytes) -> None:
    in_a_file(content, traffic.of_trace, "trace.csv")
    in_a_file(content, lambda path: traffic.Reservoir(3, 0).fill(traffic.read_trace(path)), "trace.csv")


def measured_check(content: bytes) -> None:
    in_a_file(content, traffic.read_measured, "measured.csv")


# ---- weight files ----------------------------------------------------------------------------------------------------


def gguf_text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf_file(arch: str, keys: dict[str, int], rows: dict[str, tuple[list[int], int]]) -> bytes:
    """A header by the format's description: version 3, numbers as uint32."""
    pairs = gguf_text("general.architecture") + struct.pack("<I", 8) + gguf_text(arch)
    for key, value in keys.items():
        pairs += gguf_text(f"{arch}.{key}") + struct.pack("<II", 4, value)
    tensors = b"".join(gguf_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, 0) for name, (dims, kind) in rows.items())
    return b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(keys) + 1) + pairs + tensors + bytes(32)


SHAPE = {
    "block_count": 1, "context_length": 512, "embedding_length": 64, "feed_forward_length": 128, "attention.head_count": 4, "attention.head_count_kv": 2,
    "expert_count": 4, "expert_used_count": 2, "attention.sliding_window": 128, "attention.key_length": 16, "attention.value_length": 16,
}  # fmt: skip
ROWS = {
    "token_embd.weight": ([64, 100], 1), "output_norm.weight": ([64], 0), "blk.0.attn_q.weight": ([64, 64], 1), "blk.0.attn_k.weight": ([64, 32], 1),
    "blk.0.attn_v.weight": ([64, 32], 1), "blk.0.attn_output.weight": ([64, 64], 1), "blk.0.ffn_gate.weight": ([64, 128], 2), "blk.0.ffn_up.weight": ([64, 128], 8),
    "blk.0.ffn_down.weight": ([128, 64], 1), "blk.0.attn_norm.weight": ([64], 0), "blk.0.ffn_norm.weight": ([64], 0),
}  # fmt: skip
ARCHITECTURES = ["llama", "qwen3", "gemma3", "deepseek2", "gpt-oss", "phi3", "qwen3moe", "jamba", "mamba2", "qwen3next", "gemma4", "nonsense"]  # fmt: skip
COUNTS = [struct.pack("<Q", value) for value in (0, 1, 2, 255, 2**31, 2**32, 2**62, 2**63, 2**64 - 1)] + [struct.pack("<I", n) for n in (0, 3, 8, 9, 13, 2**32 - 1)]  # fmt: skip


@cache
def written() -> list[bytes]:
    """Headers by ggml's own package: a dense model, two widths of heads, latents and experts, states."""
    import test_gguf

    small = {**test_gguf.head(256, 64), **test_gguf.layers(2, {**test_gguf.attention(256, 4, 2, 64), **test_gguf.mlp(256, 256)})}
    made = [
        test_gguf.qwen3_8b(SCRATCH / "a.gguf"), test_gguf.gemma4_12b(SCRATCH / "b.gguf"), test_gguf.deepseek_v3(SCRATCH / "c.gguf"),
        test_gguf.write(SCRATCH / "d.gguf", "qwen3", test_gguf.keys(2, 256, 256, 4, [2, 2], 64), small),
        test_gguf.write(SCRATCH / "e.gguf", "llama", {**test_gguf.keys(2, 256, 256, 4, 2), "rope.scaling.type": "yarn"}, small, sparse=False),
    ]  # fmt: skip
    found = []
    for path in made:
        size, read = path.stat().st_size, gguf.header(on_disk(path))
        data_bytes = sum(-(-tensor.bytes // 32) * 32 for tensor in read.tensors) if path.name != "e.gguf" else 0
        with path.open("rb") as stream:
            found.append(stream.read(size - data_bytes))
        path.unlink()
    return found


@st.composite
def rekeyed(draw: Callable[[SearchStrategy[Any]], Any]) -> bytes:
    """A written file in which numbers of the metadata are others: it parses, and says odd things."""
    content = bytearray(draw(st.sampled_from(written())))
    spots = [found.end() for found in re.finditer(rb"\w+\.[\w.]+\x04\0\0\0", content)]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(spots))
        value = draw(st.one_of(st.sampled_from([0, 1, 2, 3, 5, 64, 4096, 2**31, 2**32 - 1]), st.integers(0, 300)))
        content[at : at + 4] = struct.pack("<I", value)
    return bytes(content)


@st.composite
def gguf_files(draw: Callable[[SearchStrategy[Any]], Any]) -> bytes:
    """A well-formed header that says odd things, or a good one with odd bytes."""
    way = draw(st.sampled_from(["rekeyed", "rekeyed", "edited", "made"]))
    if way == "rekeyed":
        return bytes(draw(rekeyed()))
    if way == "edited":
        return bytes(draw(edited([gguf_file("llama", SHAPE, ROWS), *written()], COUNTS)))
    arch = draw(st.sampled_from(ARCHITECTURES))
    keys, rows = dict(SHAPE), dict(ROWS)
    for _ in range(draw(st.integers(0, 3))):
        name, row = draw(st.sampled_from(list(SHAPE))), draw(st.sampled_from(list(ROWS)))
        if draw(st.booleans()):
            keys[name] = draw(st.sampled_from([0, 1, 2, 3, 64, 4096, 2**31, 2**32 - 1]))
        else:
            rows[row.replace("blk.0", draw(st.sampled_from(["blk.0", "blk.1", "blk.99999", "mtp"])))] = (
                draw(st.lists(st.sampled_from([0, 1, 4, 64, 100, 2**31, 2**62]), min_size=1, max_size=4)),
                draw(st.sampled_from([0, 1, 2, 8, 12, 30, 39])),
            )
        if draw(st.booleans()):
            keys.pop(draw(st.sampled_from(list(SHAPE))), None)
            rows.pop(draw(st.sampled_from(list(ROWS))), None)
    return gguf_file(arch, keys, rows)


def blob(content: bytes) -> Callable[[str], Blob]:
    return lambda name: Blob(name, len(content), lambda at, count: content[at : at + count], 64)


def gguf_check(content: bytes) -> None:
    def read() -> None:
        found = api.of_source(gguf_source("f.gguf", "file", None, gguf.model_files("f.gguf", blob(content))))
        use(found)

    settle(read)


HEADER = {
    "__metadata__": {"format": "pt"},
    "model.embed_tokens.weight": {"dtype": "BF16", "shape": [100, 64], "data_offsets": [0, 12800]},
    "model.norm.weight": {"dtype": "F32", "shape": [64], "data_offsets": [12800, 13056]},
}


@cache
def headers() -> list[dict[str, Any]]:
    """A header of two tensors, and that of the first eight layers of Qwen3-0.6B."""
    found: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    matrices = {"self_attn.q_proj": [2048, 1024], "self_attn.k_proj": [1024, 1024], "self_attn.v_proj": [1024, 1024], "self_attn.o_proj": [1024, 2048], "mlp.gate_proj": [3072, 1024], "mlp.up_proj": [3072, 1024], "mlp.down_proj": [1024, 3072]}  # fmt: skip
    vectors = {"input_layernorm": [1024], "post_attention_layernorm": [1024], "self_attn.q_norm": [128], "self_attn.k_norm": [128]}
    names = {"model.embed_tokens": [151936, 1024], "model.norm": [1024]}
    names |= {f"model.layers.{index}.{name}": shape for index in range(8) for name, shape in (matrices | vectors).items()}
    for name, shape in names.items():
        found[f"{name}.weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at := at + 2 * math.prod(shape)]}
    return [HEADER, found]


@st.composite
def safetensors_files(draw: Callable[[SearchStrategy[Any]], Any]) -> bytes:
    if draw(st.booleans()):
        text = json.dumps(draw(changed(headers()))).encode()
    else:
        text = draw(edited([json.dumps(header).encode() for header in headers()], CSV_WORDS))
    length = draw(st.sampled_from([len(text)] * 12 + [0, max(len(text) - 1, 0), len(text) + 1, 2**31, 2**63]))
    return struct.pack("<Q", length) + text + bytes(draw(st.sampled_from([0, 13056])))


def safetensors_check(content: bytes) -> None:
    settle(lambda: safetensors.header(blob(content)("f.safetensors")))

    def whole() -> None:
        files = safetensors.model_files(["f.safetensors"], blob(content), [])
        weight_files.compare(files, qwen(), memory.weights(qwen()))

    settle(whole)


INDEX = {"metadata": {"total_size": 9}, "weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors", "lm_head.weight": "model-00002-of-00002.safetensors"}}  # fmt: skip


def index_check(index: Any) -> None:
    settle(lambda: safetensors.indexed(json.dumps(index), "index"))


# ---- words -----------------------------------------------------------------------------------------------------------

KINDS = ["bytes", "bytes/s", "flop/s", "w", "usd/h", "usd", "s"]
NUMERALS = ["0", "1", "-1", "+5", "1e9", "1e999", "1e-999", ".5", "5.", "1,000", "1_000", "1,,0", "_1", "0x10", "٣", "１", "½", "∞", "nan", "inf", "--", "", "9" * 70, "1" * 4301, "2^10"]  # fmt: skip
UNITS = ["", "k", "K", "M", "GB", "GiB", "gb", "TB/s", "TFLOP/s", "W", "kW", "$", "$/h", "/h", "ms", "µs", "μs", "h", "%", "/min", "/day", "p", "x", " ", "\t", "\u00a0", "\ud800", "K\u0307"]  # fmt: skip
written_numbers = st.one_of(st.integers(0, 10**7).map(str), st.floats(0, 1e6).map(str), st.integers(0, 10**7).map("{:,}".format), st.integers(0, 10**9).map("{:_}".format))  # fmt: skip
phrases = st.one_of(
    st.builds(lambda a, b, c: a + b + c, st.sampled_from(["", "", "", "$", " "]), written_numbers, st.sampled_from(UNITS)),
    st.builds(lambda a, b, c: a + b + c, st.sampled_from(["", "$", " ", "p"]), st.sampled_from(NUMERALS), st.sampled_from(UNITS)),
    st.sampled_from(sorted(formats.FORMATS) + sorted(engines.ENGINES)).map(str.upper),
    st.text(max_size=12),
    short,
)


def quantity_check(text: str) -> None:
    for kind in KINDS:
        value = settle(lambda kind=kind: units.quantity(text, kind))  # type: ignore[misc]
        assert isinstance(value, LlmcalcError) or 0 <= value < 1e21
    for read in (units.tokens, parse.count_or_zero):
        value = settle(lambda read=read: read(text, "ctx"))  # type: ignore[misc]
        assert isinstance(value, LlmcalcError | int)
    for read in (parse.whole_number, parse.fraction, parse.per_second, parse.positive, parse.limit):
        value = settle(lambda read=read: read(text, "n"))  # type: ignore[misc]
        assert isinstance(value, LlmcalcError) or math.isfinite(value)
    settle(lambda: parse.percentile(text))
    settle(lambda: formats.find(text))
    settle(lambda: formats.find(text, kv=True))
    settle(lambda: engines.find(text))


device_words = st.one_of(
    st.builds(
        lambda count, name, size: count + name + size,
        st.sampled_from(["", "", "2x ", "8 × ", "NVIDIA ", "AMD "]),
        st.sampled_from(sorted({name for id, row in hardware._table().items() for name in (id, row["name"], *row["aliases"], *row["product_names"])})),
        st.sampled_from(["", "", "", " 80GB", " 24 GiB", "!", " SXM"]),
    ),
    st.builds(
        lambda *parts: "".join(parts),
        st.sampled_from(["", "2x ", "0x", "-1x ", "8×", "99999999999999999999x ", "NVIDIA ", "nvidia/"]),
        st.one_of(st.sampled_from(["h100-sxm", "H100", "4090", "rtx-4090", "M4 Max", "7900 XTX", "mi300x", "a100", "tpu-v5e", "~root/x", "/x/y", ".yaml", "x.yaml"]), st.text(max_size=8)),
        st.sampled_from(["", " 80GB", " 80 GiB", " 1e9GB", " 0GB", "\0", "\n", " Laptop", "x2", ".yaml"]),
    ),
    short,
)  # fmt: skip


def device_check(text: str) -> None:
    settle(lambda: hardware.load(hardware.parse_count(text)[1]))


reference_words = st.one_of(
    st.builds(
        lambda before, name, behind: before + name + behind,
        st.sampled_from(["", "", "hf://", "https://huggingface.co/"]),
        st.sampled_from(sources.bundled_ids()),
        st.sampled_from(["", "", "/", "@main", "/tree/main", "/blob/main/config.json", ":Q4_K_M", "-x"]),
    ),
    st.builds(
        lambda *parts: "".join(parts),
        st.sampled_from(["", "hf://", "https://huggingface.co/", "http://user:pw@hf.co/", "./", "~", "/", "models/", "datasets/"]),
        st.one_of(st.sampled_from(["Qwen/Qwen3-8B", "Qwen3-8B", "a/b/c", "..", "x--y/z", "a:b", "Q" * 5000, "-", "Q.git"]), st.text(max_size=8)),
        st.sampled_from(["", "@main", "@refs/pr/3", "@", "@..", "/tree/main", "/blob/main/config.json", "?x=y#z", ":Q4_K_M", "/", ".gguf", ".json", ".safetensors", "\0", "\n", "%00", "%2e%2e"]),
    ),
    short,
)  # fmt: skip


def reference_check(text: str) -> None:
    settle(lambda: sources.find(text, offline=True, stdin=io.StringIO(text)))


ANSWER_UNITS = ["B", "B/token", "s", "tokens/s", "usd", "FLOP", "FLOP/B", "J", "tokens", "bits", "", "params"]
answer_words = st.one_of(
    st.text(max_size=30),
    st.builds(
        lambda *parts: "".join(parts),
        st.sampled_from(["", "about ", "~", "≈ ", "-", "−", "$", "примерно "]),
        st.sampled_from(["1.5", "1.5e9", "1500", "1.6", "0.75", *NUMERALS, "10⁹", "10^999", "0^-1", "2**10", "1/0", "3/4", "1.5 × 10^9", "1e9999", "1 2 3", "1'000", "1,5", "1.2.3"]),
        st.sampled_from([*UNITS, "bytes", " per token", "/token", "мс", "млрд", "тыс", "GB/s", "tok/s", "%%", " x" * 50]),
    ),
    short,
)  # fmt: skip


def answer_check(text: str) -> None:
    for unit in ANSWER_UNITS:
        for truth in (0.0, 1.5e9):
            verdict = answers.judge_number(text, truth, unit, [(truth / 2, "half")])
            assert verdict.grade in answers.CREDIT and 0 <= verdict.credit <= 1
    assert answers.judge_choice(text, "b", ("memory", "compute", "both")).grade in answers.CREDIT
    assert 0 <= answers.judge_points(text, ("memory", "cache|кэш"))[0].credit <= 1


STATE = [{"session": 3, "cards": {"kv-token": {"box": 1, "due": 4, "seen": 2, "missed": 1}}}]


def state_check(state: Any) -> None:
    review.path().parent.mkdir(parents=True, exist_ok=True)
    review.path().write_text(json.dumps(state), encoding="utf-8")
    found, warnings = review.load()
    assert isinstance(found["session"], int) and isinstance(found["cards"], dict)
    assert all(isinstance(text, str) for text in [*warnings, *review.record({"kv-token": 1.0, "x": 0.0})])
    for left in review.path().parent.iterdir():
        left.unlink()


# ---- command lines ---------------------------------------------------------------------------------------------------

LINES = [
    "rank -d rtx-4090 -c 4k --family llama",
    "kv -m Qwen/Qwen3-8B -c 8k", "kv -m google/gemma-3-27b-it -d h100-sxm --engine vllm", "weights -m openai/gpt-oss-20b", "fit -m Qwen/Qwen3-32B -d '2x rtx-4090' --weights awq --check",
    "decode -m Qwen/Qwen3-30B-A3B -d h100-sxm -b 8 --method roofline", "cost -m Qwen/Qwen3-8B -d rtx-4090 -b 8 --owned --kwh 0.3", "quant -m openai/gpt-oss-20b -d rtx-4090",
    "prefill -m Qwen/Qwen3-8B -d h100-sxm --prompt 8k --cached 1k -b 2", "spec -m Qwen/Qwen3-8B -d rtx-4090 --preset eagle", "spec --p 0.6,0.4 --q 0.9,0.1",
    "prefix -m Qwen/Qwen3-8B -d h100-sxm --sequences 50 --prefix 2k", "levers -m Qwen/Qwen3-8B -d l40s --prompt 3000 --output-tokens 400 -b 8",
    "layouts -m Qwen/Qwen3-32B -d '8x h100-sxm' -b 64", "compare -m Qwen/Qwen3-8B -d h100-sxm,a100-80-sxm --batch max", "pareto -m Qwen/Qwen3-8B -d h100-sxm --max-tpot 10ms --mark a=20ms",
    "roofline -m Qwen/Qwen3-8B -d h100-sxm -b 1,16", "models list qwen3", "models show Qwen/Qwen3-8B", "hardware list h100", "hardware show h100-sxm", "quiz --seed 7 --count 2 --topic kv",
    "simulate -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 1k --output-tokens 100 -n 100", "plan -m Qwen/Qwen3-8B -d l40s --tp 1 --rate 1 --prompt 1k --output-tokens 100", "doctor",
    "report -m Qwen/Qwen3-8B -d l40s --rate 1 --prompt 200 --output-tokens 20 --tp 1",
]  # fmt: skip
OPTION = re.compile(r"^  (?:-\w, )?(--[a-z-]+)(?:, (?:-\w|--[a-z-]+))*( [A-Z]\S*)?", re.M)


@cache
def options(command: str) -> tuple[tuple[str, bool], ...]:
    """(option, takes a value) of a command, read from its help; none that writes a file or asks the network."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main([command, "--help"])
    return tuple(
        (name, bool(value))
        for name, value in OPTION.findall(out.getvalue())
        if name not in ("--output", "--refresh", "--help", "--trace", "--traffic")
    )


words = st.one_of(
    st.sampled_from(["0", "1", "2", "3", "7", "64", "1k", "128k", "1M", "100000", "1000000000", "1e12", "0.001", "0.5", "1", "1e-9", "1e6", "99", "50ms", "1ns", "80GB", "1e-300", "1e300"]),
    st.sampled_from(["1", "2", "8", "1000", "0.1", "10s", "bf16", "fp8", "q4_k_m", "vllm", "h100-sxm", "rtx-4090", "Qwen/Qwen3-8B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"]),
    phrases, device_words, st.sampled_from(["all", "max", "auto", "napkin", "roofline", "vllm", "sglang", "json", "csv", "fp8", "int4", "nvfp4", "0.5", "1,2,4", "a=1ms", ",", "-", "1e8", "10**9"])
)  # fmt: skip


@st.composite
def command_lines(draw: Callable[[SearchStrategy[Any]], Any]) -> list[str]:
    args = shlex.split(draw(st.sampled_from(LINES)))
    for _ in range(draw(st.integers(0, 3))):
        known = options(args[0])
        at = draw(st.integers(1, max(len(args) - 1, 1)))
        change = draw(st.sampled_from(["value", "option", "option", "drop"]))
        if change == "value" and at < len(args) and not args[at].startswith("-"):
            args[at] = draw(words)
        elif change == "option" and known:
            name, takes = draw(st.sampled_from(known))
            args += [name, draw(words)] if takes else [name]
        elif change == "drop" and at < len(args):
            del args[at]
    if args[0] == "compare" and any(arg == "all" for arg in args):
        args[0] = "kv"  # every model on every device is no quick question
    return args


def line_check(args: list[str]) -> None:
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.StringIO("")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(args)
    finally:
        sys.stdin = before
    told = out.getvalue() + err.getvalue()
    assert code in (0, 1, 2, 3), args
    assert "internal" not in told.split("Hint")[0] and "Traceback" not in told and "failed inside" not in told, (args, told)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", told), (args, told)
    if "--json" in args and code in (0, 3) and out.getvalue().startswith("{"):
        json.loads(out.getvalue(), parse_constant=pytest.fail)


# ---- numbers with separators -----------------------------------------------------------------------------------------

numerals = st.from_regex(r"[0-9][0-9,._]{0,12}", fullmatch=True, alphabet="0123456789,._")


def separator_check(text: str) -> None:
    """A number that is accepted is what its digits say with thousands in their place; the oracle is written without units.py."""
    whole, point, rest = text.replace("_", "").partition(".")
    groups = whole.split(",")
    placed = len(groups) == 1 or (whole[0] != "0" and len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:]))
    for read in (
        lambda: units.quantity(text, "usd"),
        lambda: units.quantity(f"{text} GB", "bytes") / 1e9,
        lambda: parse.positive(text, "pue"),
    ):
        found = settle(read)
        if not isinstance(found, LlmcalcError):
            assert placed and "," not in rest and found == pytest.approx(float("".join(groups) + (f".{rest}" if rest else "")), rel=1e-12)
    found = settle(lambda: parse.whole_number(text, "batch"))
    if not isinstance(found, LlmcalcError):
        assert placed and not point and found == int("".join(groups))


# ---- what a Hub may answer -------------------------------------------------------------------------------------------

HASHES = [
    "0123456789abcdef0123456789abcdef01234567",
    "a" * 64,
    "../../../out",
    "/tmp/llmcalc-out",
    "",
    "main",
    "x" * 300,
    "..",
    "a/b",
    "C:\\x",
    "%2e%2e",
    "0" * 40,
]
BODIES = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b'{"model_type": "llama"}',
    b"<html>",
    b"\xff\xfe",
    b"{" * 5000,
    b" " * 70_000,
    gzip.compress(b" " * 10**7),
    gzip.compress(b"{}")[:9],
]
CODINGS = [None, "gzip", "deflate", "br", "identity", "gzip, gzip", "x" * 99]


@st.composite
def hub_answers(draw: Callable[[SearchStrategy[Any]], Any]) -> tuple[dict[str, str], bytes, bool]:
    config = json.dumps(draw(st.sampled_from(configs()))).encode()
    headers = {"ETag": f'"{draw(st.sampled_from(HASHES))}"', "X-Repo-Commit": draw(st.sampled_from(HASHES))}
    coding = draw(st.sampled_from(CODINGS))
    if draw(st.booleans()):
        headers = {"ETag": f'"{HASHES[0]}"', "X-Repo-Commit": HASHES[0]}
    if draw(st.booleans()):
        headers["X-Linked-Size"] = str(draw(st.sampled_from([0, 1, 100, 2**40])))
    return headers | ({"Content-Encoding": coding} if coding else {}), draw(st.sampled_from([*BODIES, config, config])), draw(st.booleans())


@cache
def evil() -> FakeHub:
    return FakeHub()


def hub_check(case: tuple[dict[str, str], bytes, bool]) -> None:
    """A model or an error, and nothing in the cache that is not a hash, a commit or a name of ours; no path of the server's choice."""
    headers, body, refresh = case
    evil().trouble["org/evil"] = Trouble(200, headers, body)
    constants, home = hub_client().constants, SCRATCH / "hub-home"
    kept = constants.ENDPOINT, constants.HF_HUB_OFFLINE, constants.HF_HUB_CACHE
    constants.ENDPOINT, constants.HF_HUB_OFFLINE, constants.HF_HUB_CACHE = evil().url, False, str(home)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                hub_client(), "hf_hub_url", lambda repo, name, revision=None: f"{evil().url}/{repo}/resolve/{revision or 'main'}/{name}"
            )
            settle(lambda: sources.find("org/evil", refresh=refresh))
    finally:
        constants.ENDPOINT, constants.HF_HUB_OFFLINE, constants.HF_HUB_CACHE = kept
    for path in home.rglob("*"):
        if path.is_file():
            plain = path.name in ("config.json", "hf_quant_config.json", "main") or re.fullmatch(r"[0-9a-f]{16,128}", path.name)
            assert plain and path.stat().st_size <= data.MAX_CONFIG_BYTES, path
    assert not Path("/tmp/llmcalc-out").exists() and not (SCRATCH / "out").exists()


# ---- the machine around it -------------------------------------------------------------------------------------------

VARIABLES = {
    "COLUMNS": ["", "0", "-1", "1", "9", "80", "1001", "99999", "1000000000", "9" * 400, "x", "٣", "8e1", " 80"],
    "TERM": ["", "dumb", "unknown", "xterm", "\x1b[31m"],
    "NO_COLOR": ["", "1"],
    "SOURCE_DATE_EPOCH": ["", "0", "-1", "9" * 11, "x", "1e9"],
    "XDG_CONFIG_HOME": ["", "relative", "/dev/null", "/nonexistent", "/proc/1"],
    "XDG_CACHE_HOME": ["", "/dev/full", "/nonexistent"],
    "HF_HOME": ["", "/dev/null", "/nonexistent"],
    "HOME": ["", "/nonexistent", "~"],
    "LANG": ["C", "tr_TR.UTF-8", "x"],
}
QUICK = [line for line in LINES if line.split()[0] in ("kv", "weights", "fit", "decode", "cost", "hardware", "models", "quant")]


@st.composite
def machines(draw: Callable[[SearchStrategy[Any]], Any]) -> tuple[dict[str, str], list[str]]:
    names = draw(st.sets(st.sampled_from(sorted(VARIABLES)), max_size=4))
    return {name: draw(st.sampled_from(VARIABLES[name])) for name in sorted(names)}, shlex.split(draw(st.sampled_from(QUICK)))


def machine_check(case: tuple[dict[str, str], list[str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in case[0].items():
            patch.setenv(name, value)
        line_check(case[1])


# ---- files that are written ------------------------------------------------------------------------------------------


@st.composite
def targets(draw: Callable[[SearchStrategy[Any]], Any]) -> tuple[str, str, int, str]:
    kind = draw(st.sampled_from(["absent", "file", "link", "dangling", "twin", "folder", "loop", "below a file", "long", "odd"]))
    return (
        kind,
        draw(st.sampled_from([".json", ".csv", ".md", ".html", ".txt", ".svg"])),
        draw(st.sampled_from([0o600, 0o640, 0o444, 0o666, 0o755])),
        draw(short),
    )


def target_check(case: tuple[str, str, int, str]) -> None:
    """Whole or untouched, of the same mode, with nothing left beside it."""
    kind, ending, mode, word = case
    folder = SCRATCH / "written"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path, there = folder / f"out{ending}", folder / "there"
    there.write_text("before")
    there.chmod(mode)
    if kind == "file":
        path.write_text("before")
        path.chmod(mode)
    elif kind in ("link", "dangling", "loop"):
        path.symlink_to({"link": there, "dangling": folder / "nowhere", "loop": path}[kind])
    elif kind == "twin":
        os.link(there, path)
    elif kind == "folder":
        path.mkdir()
    text = {"below a file": f"{there}/x{ending}", "long": str(folder / ("x" * 300 + ending)), "odd": f"{folder}/{word}{ending}"}.get(
        kind, str(path)
    )
    names, were = {each.name for each in folder.iterdir()}, [each for each in (there, path) if each.is_file()]
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main(["kv", "-m", "Qwen/Qwen3-0.6B", "-c", "1k", "-o", text])
    assert code in (0, 1, 2) and "failed inside" not in told.getvalue(), (case, told.getvalue())
    new = {each.name for each in folder.iterdir()} - names if folder.exists() else set()
    assert len(new) <= (code == 0) and not [name for name in new if name.startswith("tmp")], (case, new)
    for each in were:
        assert each.stat().st_mode & 0o777 == mode, case
        assert each.read_text() == "before" or (code == 0 and len(each.read_text()) > 50), case


# ---- the user's folder -----------------------------------------------------------------------------------------------


def folder_check(content: bytes) -> None:
    """Whatever lies there, the bundled devices are listed, and the file is theirs, left out, or a device."""
    folder = SCRATCH / "config" / "llmcalc" / "hardware"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.yaml").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(SCRATCH / "config"))
        found, skipped = hardware.everything()
    assert len(found) + len(skipped) == len(hardware.ids()) + 1 and len(found) >= 140
    assert all(printable(text, 10**4).isprintable() for text in skipped)


# ---- lists of patterns -----------------------------------------------------------------------------------------------

pieces = st.sampled_from(
    [
        ".*",
        ".?",
        "(a|b)*",
        "(.+)+",
        "[^x]*",
        "\\d+",
        "layers",
        r"\\.",
        "$",
        "^",
        "(?i)",
        "(?=x)",
        "x{0,99}",
        "mlp",
        "(",
        ")",
        "|",
        "\\1",
        "\0",
        "é",
    ]
)


def pattern_check(parts: list[list[str]]) -> None:
    """A list of modules to leave alone is matched or refused, soon."""
    names = ["re:" + "".join(part) for part in parts]
    block = {"quant_method": "compressed-tensors", "ignore": names, "format": "float-quantized"}
    block |= {"config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}}
    settle(lambda: checkpoint.read(replace(qwen(), quantization=block), formats.FORMATS["bf16"]))


CHECKS: dict[str, tuple[Callable[[Any], None], Callable[[], SearchStrategy[Any]], int]] = {
    "configs": (config_check, lambda: changed(configs(), tuple(sorted(SHAPING))), 50),
    "config files": (file_check, lambda: edited(config_texts(), [*CSV_WORDS, b'"model_type": ', b"NaN", b"Infinity", b"\\ud800", b"null", b"1" + b"0" * 400]), 50),
    "quantisers": (block_check, lambda: st.tuples(st.integers(0, 10**6), changed([block for _, block in blocks()])), 20),
    "profiles": (profile_check, lambda: edited(profiles(), YAML_WORDS), 50),
    "profile values": (profile_object_check, lambda: changed(profile_objects()), 50),
    "traffic files": (traffic_check, lambda: edited(TRAFFIC, YAML_WORDS), 50),
    "traces": (trace_check, lambda: tables(TRACES), 80),
    "load tests": (measured_check, lambda: tables(MEASURED), 50),
    "gguf": (gguf_check, gguf_files, 80),
    "safetensors": (safetensors_check, safetensors_files, 50),
    "safetensors index": (index_check, lambda: changed([INDEX]), 40),
    "quantities": (quantity_check, lambda: phrases, 80),
    "devices": (device_check, lambda: device_words, 50),
    "references": (reference_check, lambda: reference_words, 50),
    "answers": (answer_check, lambda: answer_words, 50),
    "separators": (separator_check, lambda: numerals, 80),
    "hub answers": (hub_check, hub_answers, 25),
    "machines": (machine_check, machines, 15),
    "targets": (target_check, targets, 25),
    "user's folder": (folder_check, lambda: edited(profiles(), YAML_WORDS), 10),
    "patterns": (pattern_check, lambda: st.lists(st.lists(pieces, min_size=1, max_size=30), min_size=1, max_size=4), 20),
    "quiz state": (state_check, lambda: changed(STATE), 40),
    "command lines": (line_check, command_lines, 15),
}  # fmt: skip


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No home, no network, a folder of its own."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[__name__], "SCRATCH", tmp_path)
    monkeypatch.setattr(hub_client().constants, "HF_HUB_OFFLINE", True)


def run(name: str, examples: int) -> None:
    check, strategy, _ = CHECKS[name]
    with contextlib.suppress(LlmcalcError):  # what is imported at first use is not the example's time
        use(qwen())
    with_settings = settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        database=None,
    )
    with_settings(given(strategy())(bounded(check, SLOW.get(name, MOST_CPU_S))))()


@pytest.mark.parametrize("name", CHECKS)
def test_any_outcome_is_a_result_or_an_error(name: str) -> None:
    run(name, CHECKS[name][2] // 2)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CHECKS)
def test_any_outcome_of_twenty_thousand(name: str) -> None:
    run(name, 20_000)


def test_every_command_is_fuzzed() -> None:
    assert {line.split()[0] for line in LINES} >= set(COMMANDS) - {"accuracy"}
    assert dict(options("kv"))["--ctx"] and not dict(options("kv"))["--offline"]
