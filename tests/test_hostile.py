"""Files and names made to hurt: bombs, contradictions, foreign text in every output, and secrets that must stay secret."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import re
import shlex
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import test_fuzz
from hypothesis import given
from hypothesis import strategies as st
from trees import nodes

from llmcalc import checkpoint, data, formats, model, sources, traffic
from llmcalc.checkpoint import matching
from llmcalc.checkpoint.regex import Expression
from llmcalc.cli import main
from llmcalc.commands import COMMANDS
from llmcalc.errors import LlmcalcError, printable
from llmcalc.estimate import planning, serving

ROOT = Path(__file__).resolve().parent.parent
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 100, "max_position_embeddings": 512,
}  # fmt: skip
FORMATS = ["table", "json", "csv", "markdown", "html"]
BAD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("LLMCALC_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)


# ---- bombs -----------------------------------------------------------------------------------------------------------

MIB = 2**20
OPEN = json.dumps(LLAMA)[:-1] + ', "x": '
Bomb = tuple[Callable[[], bytes], str]  # made when it is asked for
JSON_BOMBS: dict[str, Bomb] = {
    "lists in lists": (lambda: b"[" * 10 * MIB, "not-json"),
    "empty lists": (lambda: OPEN.encode() + b"[" + b"[]," * 10 * MIB + b"0]}", "not-json"),
    "empty objects": (lambda: b"[" + b"{}," * 10 * MIB + b"0]", "not-json"),
    "a list within the bound": (lambda: OPEN.encode() + b"[" + b"[]," * 170_000 + b"0]}", "ok"),
    "keys": (lambda: b"{" + b",".join(b'"%d":0' % n for n in range(500_000)) + b"}", "not-a-config"),
    "a long number": (lambda: OPEN.encode() + b"1" * 5 * MIB + b"}", "not-json"),
    "a long text": (lambda: OPEN.encode() + b'"' + b"x" * 30 * MIB + b'"}', "ok"),
    "over the limit": (lambda: b" " * 33 * MIB, "file-too-large"),
    "escapes": (lambda: OPEN.encode() + b'"' + b"\\ud800" * 5 * MIB + b'"}', "ok"),
}
YAML_BOMBS: dict[str, Bomb] = {
    "aliases": (lambda: b"a: &a [x,x]\n" + b"".join(b"b%d: &b%d [*a,*a]\n" % (n, n) for n in range(1000)), "not-yaml"),
    "lists": (lambda: b"[" * 60_000, "not-yaml"),
    "keys": (lambda: b"".join(b"%d: 0\n" % n for n in range(14_000)), "hardware-invalid"),
    "long": (lambda: b"a: 0\n" * 30_000, "file-too-large"),
    "a number": (lambda: b"id: 0x" + b"f" * 100_000, "not-yaml"),
    "sexagesimal": (lambda: b"id: 1" + b":59" * 40_000, "not-yaml"),
    "empty lists": (lambda: b"id: [" + b"[]," * 40_000 + b"0]", "hardware-invalid"),
    "tabs": (lambda: b"\t" * 100_000, "not-yaml"),
    "quotes": (lambda: b'"' + b"\\x41" * 30_000, "not-yaml"),
}
TABLES: dict[str, Bomb] = {
    "one line": (lambda: b"arrival_s,prompt_tokens,output_tokens\n" + b"1," * 20 * MIB, "bad-trace"),
    "a row that never ends": (lambda: b'arrival_s,prompt_tokens,output_tokens\n0,1,"' + b'",1\n",1' * 4 * MIB, "bad-trace"),
    "json lists": (lambda: b'{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": ' + b"[" * 900_000 + b"\n", "bad-trace"),
    "columns": (lambda: b",".join(b"c%d" % n for n in range(100_000)) + b"\n", "bad-trace"),
}
HEADERS: dict[str, Bomb] = {
    "objects": (lambda: b"[" + b"{}," * 5 * MIB + b"0]", "bad-safetensors"),
    "keys": (lambda: b"{" + b",".join(b'"%d":0' % n for n in range(500_000)) + b"}", "bad-safetensors"),
    "lists": (lambda: b"[" * 15 * MIB, "bad-safetensors"),
}

BOUNDED = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from pathlib import Path
from llmcalc import data, hardware, hardware_profile, model, safetensors, sources, traffic
from llmcalc.sources.files import on_disk
from llmcalc.errors import LlmcalcError
kind, path = sys.argv[1:]
def read():
    if kind == "json":
        model.read(sources.find(path).config)
    elif kind == "yaml":
        hardware.load(path)
    elif kind == "table":
        traffic.of_trace(path)
    else:
        safetensors.header(on_disk(Path(path)))
def peak():
    # KiB; ru_maxrss may be that of the process which started this one
    try:
        return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1 if sys.platform == "linux" else 1024)
start = time.process_time()
try:
    read()
    code = "ok"
except LlmcalcError as problem:
    code = problem.code
    assert len(problem.message) < 2000, len(problem.message)
print(code, time.process_time() - start, peak())
"""
BOMBS = {
    f"{kind}: {name}": (kind, ending, *what)
    for kind, ending, found in (
        ("json", "json", JSON_BOMBS),
        ("yaml", "yaml", YAML_BOMBS),
        ("table", "csv", TABLES),
        ("safetensors", "safetensors", HEADERS),
    )
    for name, what in found.items()
}


FEW = ("json: keys", "yaml: aliases", "table: columns", "safetensors: keys")


@pytest.mark.parametrize("name", [name if name in FEW else pytest.param(name, marks=pytest.mark.nightly) for name in BOMBS])
def test_a_bomb_is_refused_soon_and_in_little_memory(name: str, tmp_path: Path) -> None:
    """256 MiB of the whole process; about a second of its own time (three here, since machines differ)."""
    kind, ending, made, code = BOMBS[name]
    content = made()
    if kind == "safetensors":
        content = struct.pack("<Q", len(content)) + content
    path = tmp_path / f"bomb.{ending}"
    path.write_bytes(content)
    done = subprocess.run([sys.executable, "-c", BOUNDED, kind, str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    found, seconds, kib = done.stdout.split()
    assert found == code
    assert float(seconds) < 3
    assert int(kib) < 256 * 1024


# ---- what a JSON text may say ----------------------------------------------------------------------------------------


def parse(text: str) -> object:
    return data.parse_json(text, "config.json", "model config")


def test_a_key_that_stands_twice_must_say_the_same() -> None:
    """json takes the last, other readers the first: the figures would depend on who reads."""
    assert parse('{"a": 1, "b": [2], "a": 1, "b": [2]}') == {"a": 1, "b": [2]}
    for text in ('{"a": 1, "a": 2}', '{"x": [{"a": 1, "a": null}]}', '{"a": {"b": 1}, "a": {}}', '{"a": NaN, "a": NaN}'):
        with pytest.raises(LlmcalcError, match=r"config\.json gives a twice, with different values"):
            parse(text)


@pytest.mark.parametrize(
    "value",
    ["1" + "0" * 400, "-1" + "0" * 400, "1e400", "NaN", "Infinity", "-Infinity", "1e-400", '"\\ud800"', "[[[[[[[[]]]]]]]]", "1.5", '"8"'],
)
@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "num_key_value_heads"])
def test_numbers_that_are_none(key: str, value: str) -> None:
    text = json.dumps({**LLAMA, key: "VALUE"}).replace('"VALUE"', value)
    with pytest.raises(LlmcalcError, match=f"{key} is") as caught:
        model.read(parse(text))
    assert caught.value.code == "bad-config" and printable(caught.value.message, 500) == caught.value.message


def test_lone_surrogates_do_not_reach_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.json").write_text(json.dumps(LLAMA)[:-1] + ', "\\ud800": "\\udfff", "torch_dtype": "\\ud800"}')
    for format in ("table", "json", "csv", "markdown", "html"):
        assert main(["kv", "-m", "config.json", "-f", format]) in (0, 1)
        out, err = capsys.readouterr()
        (out + err).encode("utf-8")


# ---- files that are none ---------------------------------------------------------------------------------------------


def read_failure(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*shlex.split(line), "--json"]) == 1
    return str(json.loads(capsys.readouterr().out)["error"]["message"])


def test_loops_folders_devices_and_locked_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("loop.json", "loop.yaml", "loop.gguf", "loop.csv", "config.json"):
        Path(name).symlink_to(name)
    Path("folder.json").mkdir()
    Path("folder.yaml").mkdir()
    kv, decode, simulate = "kv -m ./{}", "decode -m Qwen/Qwen3-8B -d ./{}", "simulate -m Qwen/Qwen3-8B -d l4 --trace {}"
    for line, name in ((kv, "loop.json"), (decode, "loop.yaml"), (simulate, "loop.csv")):
        assert "too many levels of symbolic links" in read_failure(line.format(name), capsys), name
    for line, name in ((kv, "folder.json"), (decode, "folder.yaml"), (simulate, "folder.json")):
        assert re.search("is a directory|has no config.json", read_failure(line.format(name), capsys)), name
    Path("loop.gguf").unlink()
    assert "has no config.json" in read_failure(f"kv -m {tmp_path}", capsys), "a folder whose config.json is a loop"
    if os.path.exists("/dev/zero"):
        assert "over 33,554,432 bytes" in read_failure("kv -m /dev/zero", capsys)
        Path("zero.yaml").symlink_to("/dev/zero")
        assert "over 131,072 bytes" in read_failure(decode.format("zero.yaml"), capsys)
        assert "line 1 has over 1,048,576 bytes" in read_failure(simulate.format("/dev/zero"), capsys)
    if os.getuid():
        Path("locked.json").write_text("{}")
        Path("locked.json").chmod(0)
        assert "permission denied" in read_failure(kv.format("locked.json"), capsys)


def test_a_trace_ends_a_row_with_its_line() -> None:
    """A quoted line end would let one row take the memory of the whole file."""
    Path("t.csv").write_text('arrival_s,prompt_tokens,output_tokens\n0,1,"2\n",\n')
    with pytest.raises(LlmcalcError, match="line 2") as caught:
        traffic.of_trace("t.csv")
    assert caught.value.code == "bad-trace"


# ---- expressions and quantities that never end -----------------------------------------------------------------------


def quantised(*ignored: str) -> model.Model:
    block = {
        "quant_method": "compressed-tensors",
        "ignore": list(ignored),
        "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4}}},
    }
    return model.read({**LLAMA, "quantization_config": block})


@pytest.mark.parametrize(
    "text",
    [
        "(x+x+)+y",
        "(.*)*$",
        "([a-z_.]+)*!",
        "(a|a|b)+$",
        "(?:.{0,9}){0,99}!",
        ".*.*.*.*.*.*!",
        r"\w+\w+\w+\w+\w+!",
        ".?" * 180 + "@",
        "((((.*)*)*)*)*!",
    ],
)
def test_an_expression_that_backtracks_for_ever_ends(text: str) -> None:
    """For a name of thirty letters `re` takes longer than anybody waits; here each place is reached once, and the steps are counted."""
    start = time.process_time()
    with suppress(LlmcalcError):
        checkpoint.read(quantised(f"re:{text}"), formats.FORMATS["bf16"])
    assert time.process_time() - start < 3


@pytest.mark.parametrize("text", ["(", "[z-a]", "*", "(?<=a)b"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(LlmcalcError, match="in a quantiser's list") as caught:
        checkpoint.read(quantised(f"re:{text}"), formats.FORMATS["bf16"])
    assert caught.value.code == "bad-quantization"


@given(st.lists(st.tuples(st.sampled_from([*"ab.1^$", r"\.", "[ab]", "[^a]", r"\d", "(a|ab)", "(?!ab)", "(?=a)", r"\w"]), st.sampled_from(["", "*", "+", "?", "{1,2}"])), max_size=5), st.text("ab.1", max_size=7))  # fmt: skip
def test_expressions_match_as_the_standard_library_says(parts: list[tuple[str, str]], name: str) -> None:
    text = "".join(sign + times for sign, times in parts)
    with suppress(re.error, ValueError):
        assert Expression(text).match(name) is bool(re.match(text, name))


def test_expressions_that_quantisers_write_are_read() -> None:
    """Those of Kimi's and of the compressors' own examples; signs inside of classes and behind backslashes repeat nothing."""
    for text in (
        r".*mlp\.(gate|up|gate_up|down)_proj.*",
        r"model\.layers\.([0-9]|1[0-9])\.self_attn.*",
        r".*\.[*+)]?x\)\*",
        "^(?!.*mlp).*$",
        "lm_head",
    ):
        assert checkpoint.read(quantised(f"re:{text}"), formats.FORMATS["bf16"]) is not None


def test_one_pattern_many_times_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of 20,000 took 4 s; so would 20,000 that differ, which end in an error instead."""
    read = quantised(*["re:.*shared_experts.*", "model.layers.1.self_attn.indexer*"] * 10_000)
    monkeypatch.setattr(matching, "MOST_MATCHING_S", 0.2)
    assert checkpoint.read(read, formats.FORMATS["bf16"]) is not None
    monkeypatch.setattr(matching, "MOST_MATCHING_S", 0.01)
    with pytest.raises(LlmcalcError, match="takes too long"):
        checkpoint.read(quantised(*(f"re:.*x.*{n}.*y" for n in range(2000))), formats.FORMATS["bf16"])


@pytest.mark.parametrize(("field", "value"), [("nominal: 24 GB", "nominal: 1e-320 GB"), ("bandwidth: 1 TB/s", "bandwidth: 1e-300 TB/s"), ("bf16: 100 TFLOP/s", "bf16: 1e-200 TFLOP/s")])  # fmt: skip
def test_amounts_next_to_nothing(field: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Above zero, but what is divided by them is infinite."""
    text = "id: d\nname: D\nvendor: V\nkind: gpu\nclass: consumer\nbandwidth: 1 TB/s\nmemory: {nominal: 24 GB, type: GDDR7}\ncompute: {bf16: 100 TFLOP/s}\n"
    Path("d.yaml").write_text(text.replace(field, value), encoding="utf-8")
    assert "must be above zero" in read_failure("fit -m Qwen/Qwen3-8B -d ./d.yaml", capsys)


def test_a_prompt_that_no_memory_holds_is_not_read_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk, a hundred billion tokens took a minute."""
    monkeypatch.setattr(serving.Rates, "prompt_s", lambda *_: pytest.fail("it is read"))
    assert main(shlex.split("simulate -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 99999999999 --output-tokens 100")) == 1
    assert "do not fit on 1 × h100-sxm" in capsys.readouterr().err


@pytest.mark.parametrize("cv", ["1e-300", "1e-12"])
def test_a_variation_of_next_to_nothing_is_even(cv: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = "simulate -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 1k --output-tokens 100 -n 20 --json --arrival-cv"
    times = []
    for each in (cv, "0"):
        assert main([*line.split(), each]) == 0
        times.append(json.loads(capsys.readouterr().out)["results"]["ttft_p50_s"])
    assert times[0] == times[1]


@pytest.mark.parametrize("share", ["1e-9", pytest.param("1e-18", marks=pytest.mark.nightly)])
def test_a_queue_that_grows_for_ever_ends(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    """While one step takes weeks, two requests a second arrive: not all of them are kept."""
    assert (
        main(shlex.split(f"simulate -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 1k --output-tokens 100 -n 20 --mbu {share} --json")) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["results"]["requests"] == 20 and 2**18 <= told["results"]["peak_in_flight"] < 2**18 + 1000
    assert any(text.startswith("peak_in_flight: 262,144 requests wait at once") for text in told["warnings"])


# ---- every option of every command -----------------------------------------------------------------------------------

ODD = [
    "", "  ", ",", "=", "-1", "-0", "0", "nan", "inf", "1e300", "-1e300", "1e-300", "1e400", "1e-18", "10^18", "1000000000000000000", "9" * 400, "1" * 4400, "0x10", "½",
    "x" * 5000, "\x1b[31m", "\ud800", "{}", "a=b", "1,2", "@", "%", "../..", "-", "all", "auto", "max",
]  # fmt: skip
ODD_FILES = {
    "empty": b"", "binary": bytes(range(256)) * 40, "zeros": bytes(100), "mark": b"\xef\xbb\xbf", "wide": b"\xff\xfe{\0}\0", "lines": b"\r\n\r\n", "one": b"1", "list": b"[]",
    "object": b"{}", "text": b'"x"', "null": b"null", "open": b"{", "deep": b'{"a":' * 3000,
}  # fmt: skip
BASES = {line.split()[0]: line for line in reversed(test_fuzz.LINES)}
SKIPPED = {"--output", "--refresh"}  # what they do to files and networks is tested elsewhere


def outcome(args: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    start = time.process_time()
    code = main(args)
    assert time.process_time() - start < 10, args
    out, err = capsys.readouterr()
    assert code in (0, 1, 2, 3), args
    assert "failed inside" not in out + err and "Traceback" not in err, (args, err)
    assert not BAD.search(out + err), args
    if code in (1, 2):
        assert err.count("\n") <= 2 or "Warning" in err, (args, err)


@pytest.mark.parametrize("words", [1, pytest.param(len(ODD), marks=pytest.mark.nightly)])
@pytest.mark.parametrize("command", BASES)
def test_no_option_takes_a_word_amiss(
    command: str, words: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One word of the list for each option, another one for each; all of them in the nightly part."""
    base = shlex.split(BASES[command]) + (["-n", "20"] if command == "simulate" else [])
    honest = planning.run  # short runs: what is simulated is not what is asked here
    monkeypatch.setattr(planning, "run", lambda *args, **options: honest(*args, **options | {"count": 100}))
    turn = sorted(BASES).index(command)
    for name, takes in test_fuzz.options(command):
        if name not in SKIPPED:
            for _ in range(words if takes else 1):
                turn += 7  # 33 words: each comes up in turn
                outcome([*base, name, ODD[turn % len(ODD)]] if takes else [*base, name], capsys, monkeypatch)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("ending", ["json", "yaml", "csv", "jsonl", "gguf", "safetensors"])
def test_no_file_is_taken_amiss(ending: str, every: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth pair of a file and a command here, all of them in the nightly part."""
    for turn, (name, content) in enumerate(ODD_FILES.items()):
        path = Path(f"{name}.{ending}")
        path.write_bytes(content)
        lines = (
            "kv -m ./{}", "fit -m Qwen/Qwen3-8B -d ./{}", "hardware check ./{}", "hardware show ./{}", "models check ./{}", "models show ./{}",
            "simulate -m Qwen/Qwen3-8B -d l4 --trace ./{}", "simulate -m Qwen/Qwen3-8B -d l4 --traffic ./{}", "plan -m Qwen/Qwen3-8B -d l4 --trace ./{}",
            "plan -m Qwen/Qwen3-8B -d l4 --rate 1 --prompt 9 --output-tokens 9 --measured ./{}", "weights -m ./{} --from-files",
        )  # fmt: skip
        for line in lines[turn % every :: every]:
            outcome(shlex.split(line.format(path)), capsys, monkeypatch)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("pareto -m Qwen/Qwen3-8B -d l4 --weights ,", "weights ',' names nothing"),
        ("pareto -m Qwen/Qwen3-8B -d l4 --tp ,", "tp ',' names nothing"),
        ("compare -m Qwen/Qwen3-8B -d l4 --weights ''", "weights '' names nothing"),
        ("compare -m Qwen/Qwen3-8B -d l4 --kv-dtype ' '", "kv-dtype ' ' names nothing"),
        ("roofline -m Qwen/Qwen3-8B -d l4 -b ,", "batch ',' names nothing"),
        ("plan -m Qwen/Qwen3-8B -d , --rate 1 --prompt 9 --output-tokens 9", "hardware ',' names nothing"),
        ("plan -m Qwen/Qwen3-8B -d '' --rate 1 --prompt 9 --output-tokens 9", "hardware '' names nothing"),
    ],
)
def test_a_list_of_nothing_is_no_default(line: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("format", FORMATS)
def test_what_costs_nothing_has_no_place_on_a_logarithmic_axis(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pareto", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm,l40s", "--price", "0", "-f", format]) == 0
    assert "h100-sxm" in capsys.readouterr().out


# ---- names -----------------------------------------------------------------------------------------------------------

EVIL = "[bold]x[/] \x1b[31m|\u202e`<script>alert(1)</script>*_\u2066=1+1\x07"
SAFE_NAMES = ["[bold]x", "a|b", "`code`", "<script>x", "=1+1", "\u202egpj", "-x", "a\u200bb", "\u2028", "\ufeffx", "**b**", "&amp;"]


def harmless(text: str, format: str) -> None:
    """Nothing that a terminal, a browser or a page of markdown would act on."""
    assert not BAD.search(text), format
    if format in ("html", "markdown"):
        assert "<script>" not in text and "<img" not in text
    if format == "markdown":
        assert not re.search(r"(?<!\\)(\[bold\]|`code|\*\*b)", text)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", SAFE_NAMES)
def test_a_model_file_of_any_name(name: str, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(f"{name}.json").write_text(json.dumps({**LLAMA, "torch_dtype": "bfloat16"}), encoding="utf-8")
    for line in (
        ["kv", "-m", f"./{name}.json"],
        ["models", "check", f"./{name}.json"],
        ["decode", "-m", f"./{name}.json", "-d", "h100-sxm", "--explain"],
    ):
        code = main([*line, "-f", format])
        out, err = capsys.readouterr()
        assert code in (0, 2), err
        harmless(out, format)
        harmless(err, "errors")
        if format == "csv" and code == 0:
            for row in csv.reader(io.StringIO(out)):
                assert not any(cell.startswith(("=", "@", "\t")) for cell in row)


@pytest.mark.parametrize("format", FORMATS)
def test_a_profile_and_a_config_that_say_evil_things(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.yaml").write_text(
        'id: d\nname: "[bold]x[/] <script>x</script> | `code` =1"\nvendor: "=V"\nkind: gpu\nclass: consumer\nbandwidth: 1 TB/s\n'
        "memory: {nominal: 24 GB, type: GDDR7}\ncompute: {bf16: 100 TFLOP/s}\nnotes: ['[red]n[/] <img src=x> `code`']\n",
        encoding="utf-8",
    )
    for line in (
        "hardware show ./d.yaml",
        "decode -m Qwen/Qwen3-8B -d ./d.yaml",
        "cost -m Qwen/Qwen3-8B -d ./d.yaml",
        "compare -m Qwen/Qwen3-8B -d ./d.yaml,h100-sxm",
        "hardware check d.yaml",
    ):
        code = main([*shlex.split(line), "-f", format])
        out, err = capsys.readouterr()
        assert code == 0, err
        harmless(out, format)
        if format == "table" and ("show" in line or "decode" in line):
            assert "[bold]x[/] <script>" in re.sub(r"\s+", " ", out), "markup is text"


@pytest.mark.parametrize("command", ["kv -m {}", "decode -m Qwen/Qwen3-8B -d {}", "kv -m Qwen/Qwen3-8B -c {}", "kv -m Qwen/Qwen3-8B --kv-dtype {}", "{}", "kv {}", "models show {}", "hardware show {}", "quiz --topic {}", "kv -m Qwen/Qwen3-8B -o {}", "kv -m Qwen/Qwen3-8B -f {}", "models list {}", "pareto -m Qwen/Qwen3-8B -d l4 --mark {}", "simulate -m Qwen/Qwen3-8B -d l4 --trace {}", "spec --p {} --q 1", "compare -m Qwen/Qwen3-8B -d l4 --sort {}"])  # fmt: skip
@pytest.mark.parametrize("as_json", [False, True])
def test_an_evil_word_anywhere_is_shown_and_not_sent(command: str, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([part.replace("{}", EVIL) for part in command.split()] + (["--json"] if as_json else []))
    out, err = capsys.readouterr()
    assert code in (0, 1, 2)
    harmless(out, "table")
    harmless(err, "errors")
    if code:
        assert (json.loads(out)["error"]["hint"] if as_json else err.count("\n") == 2) and "internal" not in out[:200]


def test_evil_text_inside_a_config(capsys: pytest.CaptureFixture[str]) -> None:
    for number, changed in enumerate(
        (
            {"model_type": EVIL},
            {"torch_dtype": EVIL},
            {"quantization_config": {"quant_method": EVIL}},
            {"architectures": [EVIL], "model_type": None},
            {"num_hidden_layers": EVIL},
            {EVIL: EVIL, "layer_types": [EVIL]},
        )
    ):
        Path(f"{number}.json").write_text(json.dumps({**LLAMA, **changed}))
        for line in (["kv", "-c", "1k"], ["weights"]):
            for format in FORMATS:
                assert main([*line, "-m", f"./{number}.json", "-f", format]) in (0, 1)
                out, err = capsys.readouterr()
                harmless(out, format)
                harmless(err, "errors")


# ---- secrets, and what the package never does ------------------------------------------------------------------------

SECRET = "hf_thisIsTheSecretOfNobody"
ASKING = ["kv -m a/b", "weights -m a/b --from-files", "fit -m a/b -d l4", "decode -m a/b -d l4", "cost -m a/b -d l4", "quant -m a/b -d l4", "prefill -m a/b -d l4", "spec -m a/b -d l4", "plan -m a/b -d l4 --rate 1 --prompt 9 --output-tokens 9",
          "simulate -m a/b -d l4 --rate 1 --prompt 9 --output-tokens 9", "prefix -m a/b -d l4", "levers -m a/b -d l4 --prompt 9 --output-tokens 9", "layouts -m a/b -d l4", "compare -m a/b -d l4", "pareto -m a/b -d l4", "roofline -m a/b -d l4",
          "models show a/b", "models check a/b", "kv -m a/b-GGUF:Q4_K_M", "hardware show nothing", "quiz --topic nothing", "doctor", "doctor --json", "report -m a/b -d l4 --rate 1 --prompt 9 --output-tokens 9", "rank -d rtx-4090 -c 4k --family llama"]  # fmt: skip
IN_ONE_PROCESS = (
    "import sys, shlex\nfrom llmcalc.cli import main\nfor line in sys.stdin:\n    print(line, main(shlex.split(line)), flush=True)\n"
)


def test_no_command_shows_or_keeps_a_token(tmp_path: Path) -> None:
    """With tracebacks on, and a Hub whose address holds a password and which does not answer."""
    assert {line.split()[0] for line in ASKING} >= set(COMMANDS) - {"accuracy"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    env = {
        **os.environ,
        "HF_TOKEN": SECRET,
        "HUGGING_FACE_HUB_TOKEN": SECRET,
        "HF_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:{port}",
        "LLMCALC_DEBUG": "1",
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "*",
    }
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS],
        input="\n".join(ASKING) + "\n",
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.stdout.count("a/b") >= 18 and "cannot reach 127.0.0.1" in done.stderr
    assert SECRET not in done.stdout and SECRET not in done.stderr
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_nothing_is_evaluated_unpickled_or_given_to_a_shell() -> None:
    """By the syntax tree: no eval, exec or compile, no pickle or marshal, no shell, no YAML but through the safe loader."""
    for path in sorted((ROOT / "llmcalc").rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "compile", "__import__", "os.system", "os.popen"), (path, node.lineno)
                assert not any(word.arg == "shell" for word in node.keywords), (path, node.lineno)
                if called.startswith("yaml."):
                    assert called == "yaml.parse" or (called == "yaml.load" and ast.unparse(node.keywords[0]) == "Loader=Loader"), (
                        path,
                        node.lineno,
                    )
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "marshal", "shelve", "dill"} & {name.partition(".")[0] for name in names}, (path, node.lineno)
    source = (ROOT / "llmcalc" / "data.py").read_text(encoding="utf-8")
    assert 'getattr(yaml, "CSafeLoader", yaml.SafeLoader)' in source


def test_yaml_tags_make_no_objects() -> None:
    for text in ("!!python/object/apply:os.getcwd []", "!!python/name:os.system ''", "!!python/module:os ''", "a: !!python/tuple [1]"):
        with pytest.raises(LlmcalcError, match="is not YAML"):
            data.parse_yaml(text, "x.yaml", "profile")


def test_a_revision_or_a_shard_leads_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither out of the Hub's cache nor out of a model's folder."""
    for reference in ("a/b@../../etc", "a/b@refs/../x", "a/..", "../a/b@x", "a/b@/etc", "hf://a/b@%2e%2e/x"):
        with pytest.raises(LlmcalcError):
            sources.find(reference, offline=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_broken_profile_of_the_users_stops_only_who_asks_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "llmcalc" / "hardware"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("id: [")
    (folder / "other.yaml").write_text("id: not-other\n")
    os.mkfifo(folder / "pipe.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["hardware", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) >= 140
    assert [text.partition(" ")[0] for text in told["warnings"][:3]] == ["broken", "other", "pipe"]
    assert main(shlex.split("compare -m Qwen/Qwen3-8B -d class=consumer --json")) == 0
    assert "broken is left out" in capsys.readouterr().out
    assert main(shlex.split("fit -m Qwen/Qwen3-8B -d h100-sxm")) == 0
    capsys.readouterr()
    for name in ("broken", "other", "pipe"):
        assert main(["hardware", "show", name]) == 1
        assert f"{name}.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ending", "text", "line"),
    [
        ("json", '{"model_type": "llama", "hidden_size": ' + "1" * 5000 + "}", "kv -m ./{}"),
        ("jsonl", '{"arrival_s": ' + "1" * 5000 + "}", "simulate -m Qwen/Qwen3-8B -d l4 --trace ./{}"),
    ],
)
def test_a_number_of_many_digits_is_not_deep(ending: str, text: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(f"x.{ending}").write_text(text, encoding="utf-8")
    assert main(shlex.split(line.format(f"x.{ending}"))) == 1
    assert "a number of too many digits" in capsys.readouterr().err


@pytest.mark.parametrize("gap", ["5e-324", "1e-300", "1e-12"])
def test_a_trace_of_no_time_has_no_rate(gap: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n0,100,10\n{gap},100,10\n", encoding="utf-8")
    assert main(shlex.split("simulate -m Qwen/Qwen3-8B -d l4 --trace ./t.csv")) == 1
    assert "arrive at the same time" in capsys.readouterr().err


@pytest.mark.parametrize("price", ["1e-310", "5e-324", "1e-40"])
def test_a_price_of_next_to_nothing_is_out_of_range(price: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(f"compare -m Qwen/Qwen3-8B -d h100-sxm --price {price}")) == 2
    assert "out of range" in capsys.readouterr().err
