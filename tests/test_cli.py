"""The command line as a whole: exit codes, streams, errors, output files, start-up."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmcalc import __version__
from llmcalc.cli import main
from llmcalc.commands import COMMANDS
from llmcalc.commands.options import SECTIONS

KV = ["kv", "--model", "Qwen/Qwen3-8B", "--ctx", "32768"]
QWEN3_8B_32K = 4831838208  # 36 layers x 2 x 8 x 128 x 2 B x 32,768


def run(*args: str, env: dict[str, str] | None = None, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmcalc", *args],
        capture_output=True,
        text=True,
        input=stdin,
        encoding="utf-8",
        env={**os.environ, "HF_HUB_OFFLINE": "1", **(env or {})},
        timeout=60,
    )


def test_json_is_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*KV, "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert err == ""
    assert list(answer) == ["schema", "command", "model", "inputs", "results", "rows", "assumptions", "warnings"]
    assert answer["schema"] == 1 and answer["command"] == "kv"
    assert (
        answer["model"]["id"] == "Qwen/Qwen3-8B" and answer["model"]["source"] == "bundled" and answer["model"]["architecture"] == "qwen3"
    )
    assert answer["inputs"]["ctx_tokens"] == 32768 and answer["inputs"]["kv_dtype"] == "bf16"
    assert answer["results"]["kv_bytes_per_token"] == 147456
    assert answer["results"]["kv_bytes_per_sequence"] == QWEN3_8B_32K
    assert answer["rows"] == [
        {
            "layers": 36,
            "kind": "full",
            "bytes_per_token": 147456,
            "bytes_per_token_beyond_window": 147456,
            "window_tokens": None,
            "state_bytes": 0,
            "bytes_per_sequence": QWEN3_8B_32K,
        }
    ]


def test_the_results_of_kv_have_every_key_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    main([*KV, "--json"])
    assert {
        "kv_bytes_per_token",
        "kv_bytes_per_token_beyond_window",
        "state_bytes_per_sequence",
        "kv_bytes_per_sequence",
        "kv_bytes_total",
        "kv_bytes_per_sequence_full_attention",
        "query_heads_per_kv_head",
        "max_context_tokens",
        "native_context_tokens",
    } <= set(json.loads(capsys.readouterr().out)["results"])


def test_the_results_of_weights_have_every_key_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    main(["weights", "-m", "Qwen/Qwen3-8B", "--json"])
    results = json.loads(capsys.readouterr().out)["results"]
    assert results["language_params"] == results["total_params"] == 8190735360  # the Hub's safetensors total
    assert results["tower_params"] == 0 and results["mtp_params"] == 0
    assert results["active_params"] == 8190735360 - 151936 * 4096
    assert results["active_params_with_embedding"] == 8190735360
    assert results["embedding_params"] == 151936 * 4096
    assert results["weight_bytes"] == 16381470720 and results["bits_per_weight"] == 16


def test_explain_derives_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    main([*KV, "--json", "--explain"])
    tree = json.loads(capsys.readouterr().out)["derivations"]["kv_bytes_per_token"]
    assert tree["formula"] == "2 * layers * kv_heads * head_dim * bytes_per_element"
    assert tree["substituted"] == "2 * 36 * 8 * 128 * 2"
    assert (tree["value"], tree["unit"]) == (147456, "B/token")
    main([*KV, "--explain"])
    assert "2 * 36 * 8 * 128 * 2 = 147,456 B/token = 144 KiB" in capsys.readouterr().out


def test_table_says_what_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kv", "-m", "Qwen/Qwen3-8B"]) == 0
    out, _ = capsys.readouterr()
    assert "bundled" in out
    assert "ctx 40,960 tokens" in out and "not given; the model's own maximum" in out
    assert "bf16: the checkpoint's dtype (bfloat16)" in out


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_tables_fit_their_terminal(columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    main([*KV])
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if not line.lstrip().startswith(("assumes", "qwen3", "ctx"))) <= columns
    assert any("4.50 GiB" in line for line in lines), "numbers stay whole"


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    main([*KV, "-f", "csv"])
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["kind"] == "full" and row["bytes_per_sequence"] == str(QWEN3_8B_32K)
    main([*KV, "--format", "markdown"])
    assert "| KV per sequence | 4.50 GiB | 4,831,838,208 B |" in capsys.readouterr().out
    main([*KV, "-f", "html"])
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>") and "4.50 GiB" in page and "http" not in page


@pytest.mark.parametrize(
    ("ending", "start"), [("json", "{"), ("csv", "layers,"), ("md", "### KV"), ("html", "<!doctype"), ("txt", "KV cache")]
)
def test_the_ending_of_the_output_picks_the_format(ending: str, start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / f"out.{ending}"
    assert main([*KV, "-o", str(target)]) == 0
    assert target.read_text(encoding="utf-8").startswith(start)
    said = capsys.readouterr()
    assert said.out == "" and said.err == ("" if ending == "json" else f"wrote {target} (1 row)\n")


def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*KV, "-o", str(tmp_path / "no" / "such" / "out.json")]) == 1
    assert capsys.readouterr().err.startswith("Error: cannot write ")


@pytest.mark.parametrize(
    ("args", "code", "status"),
    [
        (["kv", "--nonsense"], "usage", 2),
        (["nonsense"], "usage", 2),
        (["kv", "-m", "Qwen/Qwen3-8B", "-c", "32q"], "bad-tokens", 2),
        (["kv", "-m", "Qwen/Qwen3-8B", "-b", "-3"], "bad-value", 2),
        (["kv", "-m", "Qwen/Qwen3-8B", "--kv-dtype", "fp7"], "unknown-format", 2),
        (["kv", "-m", "Qwen/Qwen3-8B", "--kv-dtype", "awq"], "not-a-kv-format", 2),
        (["kv", "-m", "Qwen/Qwen3-8B", "-f", "yaml"], "unknown-output-format", 2),
        (["kv", "-m", "", "-c", "1k"], "bad-reference", 2),
        (["kv", "-m", "Qwen/Qwen3-8C", "--offline"], "offline-not-cached", 1),
        (["kv", "-m", "./no-such-folder/config.json"], "file-unreadable", 1),
    ],
)
def test_errors_have_a_code_a_hint_and_a_status(
    args: list[str], code: str, status: int, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    if args[:2] != ["kv", "-m"] or "-f" not in args:
        assert main([*args, "--json"]) == status
        answer = json.loads(capsys.readouterr().out)
        assert answer["schema"] == 1
        assert answer["error"]["code"] == code and answer["error"]["hint"]
    assert main(args) == status
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert len(lines) == 2 and lines[0].startswith("Error: ") and lines[1].startswith("Hint: ")


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "x/\x1b[31mred", "a\nb", "x/\u202ey"])
def test_hostile_names_are_printed_literally(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kv", "-m", name, "--offline"]) in (1, 2)
    err = capsys.readouterr().err
    assert "\x1b" not in err and "\u202e" not in err
    assert len(err.splitlines()) == 2
    if "[bold]" in name:
        assert "[bold]x[/bold]" in err


def test_hostile_text_in_a_config_is_printed_literally(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "[red]config.json"
    path.write_text(json.dumps({"model_type": "[bold]\x1b]0;title\x07\n"}), encoding="utf-8")
    assert main(["kv", "-m", str(path)]) == 1
    err = capsys.readouterr().err
    assert "[bold]\\x1b]0;title\\x07\\n" in err and len(err.splitlines()) == 2


CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}


@pytest.mark.parametrize(
    "field", ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim", "vocab_size"]
)
@pytest.mark.parametrize("value", [-1, 0, 10**30, "32", None, True, 1.5, [], {}, float("nan")])
def test_a_bad_dimension_names_its_field(field: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**CONFIG, field: value}), encoding="utf-8")
    for command in ("kv", "weights"):
        assert main([command, "-m", str(path)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.splitlines()[0].startswith(f"Error: {field} is ") and len(err.splitlines()) == 2


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"[1, 2]", "not-a-config"),
        (b'{"model_type": "llama", "hidden', "not-json"),
        (b"", "not-json"),
        (b"null", "not-a-config"),
        (b"{}", "not-a-config"),
        (b"\xff\xfe{}", "file-not-text"),
        (b"[" * 100_000, "not-json"),
        (b'{"model_type": "bert", "hidden_size": 768}', "no-kv-cache"),
        (b'{"model_type": "llamma"}', "unknown-model-type"),
    ],
)
def test_a_file_that_is_no_config(content: bytes, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    assert main(["kv", "-m", str(path), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"]["code"] == code


def test_a_huge_file_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as stream:
        stream.truncate(200 * 2**20)  # sparse: 200 MiB that take no disk
    assert main(["kv", "-m", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "file-too-large"


def test_byte_order_mark_and_line_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(CONFIG, indent=1).replace("\n", "\r\n").encode())
    assert main(["kv", "-m", str(path), "-c", "32k", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"]["kv_bytes_per_sequence"] == QWEN3_8B_32K


def test_a_config_on_stdin() -> None:
    done = run("kv", "-m", "-", "-c", "32k", "--json", stdin=json.dumps(CONFIG))
    answer = json.loads(done.stdout)
    assert answer["model"]["source"] == "stdin" and answer["results"]["kv_bytes_per_sequence"] == QWEN3_8B_32K
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize(("line", "reader"), [("models list qwen3", "head -1"), ("kv -m Qwen/Qwen3-8B -c 999k 2>&1", "true")])
def test_a_closed_pipe_ends_quietly(line: str, reader: str) -> None:
    """Also where warnings go into it."""
    command = f"{sys.executable} -m llmcalc {line} | {reader}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    assert len(done.stdout.splitlines()) == (reader == "head -1")


@pytest.mark.parametrize(
    ("columns", "most"), [("1000000000", 80), ("9" * 5000, 80), ("99999", 1000), ("0", 80), ("-7", 80), ("١٢", 80), ("60", 60)]
)
def test_no_width_takes_all_memory(columns: str, most: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["compare", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm,l4"]) == 0
    assert os.environ["COLUMNS"] == str(most)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= most


@pytest.mark.skipif(not hasattr(os, "fork"), reason="modes are POSIX's")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    file, link = tmp_path / "o.json", tmp_path / "link.json"
    file.write_text("old")
    file.chmod(mode)
    link.symlink_to(file)
    for path in (file, link):
        assert main([*KV, "-o", str(path)]) == 0
    assert file.stat().st_mode & 0o777 == mode and link.is_symlink() and json.loads(file.read_text())["command"] == "kv"
    os.link(file, tmp_path / "twin.json")  # another name of it sees the new content, too
    assert main([*KV, "-c", "1k", "-o", str(file)]) == 0
    assert json.loads((tmp_path / "twin.json").read_text())["inputs"]["ctx_tokens"] == 1024
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "o.json", "twin.json"]


def test_too_little_memory_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from llmcalc.estimate import memory

    monkeypatch.setattr(memory, "kv", lambda *_: bytearray(2**62))
    assert main([*KV, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "out-of-memory"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "gbk", "utf-8"])
def test_any_encoding_of_stdout(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "llmcalc", *KV], capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, timeout=60
    )
    text = done.stdout.decode(encoding)
    assert done.returncode == 0 and done.stderr == b""
    assert "4.50 GiB" in text and "?" not in text


def test_kv_of_a_bundled_model_imports_neither_the_hub_client_nor_numpy() -> None:
    code = (
        "import sys; from llmcalc.cli import main; status = main(sys.argv[1:]); "
        "print(status, [m for m in ('huggingface_hub', 'numpy', 'yaml', 'plotille', 'torch') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *KV], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == "0 []"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"llmcalc {__version__}\n"
    assert main([]) == 0 and main(["--help"]) == 0 and main(["help"]) == 0
    top, again, third = [f"llmcalc:{text}" for text in capsys.readouterr().out.split("llmcalc:")[1:]]
    assert top == again == third and len(top.splitlines()) <= 24 and max(map(len, top.splitlines())) <= 80 and "…" not in top
    for bare in ("models", "hardware", "kv"):
        assert main([bare]) == 0 and main(["help", bare]) == 0
        assert capsys.readouterr().out.count("Usage: llmcalc") == 2
    for name in COMMANDS:
        assert f" {name} " in top
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert "Usage: llmcalc" in text
        if name not in ("models", "hardware"):
            heads = [line[:-1] for line in text.splitlines() if line[:-1] in SECTIONS]
            options = sum(line.startswith("  -") for line in text.splitlines())
            assert heads == sorted(heads, key=SECTIONS.index) and heads[-1] == "Output"
            assert options > 13 or len(text.splitlines()) <= 24, f"{name} --help scrolls on a small terminal"


SHORT = "2xh100-sxm,h100-sxm:2,'2 h100-sxm',2 h100-sxm,x2 h100-sxm,h100-sxm '(2)',2-h100-sxm,2h100-sxm,h100-sxm x2 -b 1e3,-b 4 h100-sxm*2".split(
    ","
)


@pytest.mark.parametrize("short", [*(f"fit Qwen/Qwen3-8B {words}" for words in SHORT), "fit -b 4 2xh100-sxm Qwen/Qwen3-8B"])
def test_what_is_typed_in_short(short: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([*shlex.split(short), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["model"]["id"], found["hardware"]["id"], found["hardware"]["count"]) == ("Qwen/Qwen3-8B", "h100-sxm", 2)


def test_a_word_of_another_tool_is_understood_or_answered(capsys: pytest.CaptureFixture[str]) -> None:
    line = "decode -m Qwen/Qwen3-8B -d h100-sxm --max-model-len 4k --batch-size 4 --json"
    answers = []
    for words in ("--tensor-parallel-size 2 --quantization fp8", "-tp 2 --weights fp8"):
        assert main([*line.split(), *words.split()]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    for option, near in (
        ("--num-gpus", "-d '8x h100-sxm'"),
        ("--max_new_tokens", "--output-tokens"),
        ("--trust-remote-code", "leave it out"),
    ):
        assert main(["decode", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", option, "2"]) == 2
        told = capsys.readouterr().err
        assert near in told and "Possible" not in told
    for words in ("-ctk q8_0 -ctv q4_0", "--cache_type_v q4_0 --cache-type-k=q8_0", "--kv-dtype q8_0/q4_0"):
        assert main(["kv", "Qwen/Qwen3-8B", "--num_ctx", "8k", "--engine", "llama.cpp", "--json", *words.split()]) == 0
        answers.append(json.loads(capsys.readouterr().out)["results"])
    assert answers[2] == answers[3] == answers[4]


def test_a_bare_word_is_what_the_command_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    """A list takes words to look for, rank devices, accuracy either; without one, what is missing is named once."""
    for line, told in (
        ("hardware h100", "3 devices"), ("rank rtx-3090 rtx-5090", "RTX 3090 24GB or NVIDIA GeForce RTX 5090"),
        ("accuracy l40s", "measured rows"), ("kv -c 8k Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    ):  # fmt: skip
        assert main(line.split()) == 0 and told in capsys.readouterr().out.split("\n")[0]
    assert main(["fit", "Qwen/Qwen3-8B"]) == 2
    assert capsys.readouterr().err == "Error: Missing option '--hardware'\nHint: name one: -d h100-sxm\n"


def test_a_mistyped_command_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weigths"]) == 2
    assert "did you mean weights?" in capsys.readouterr().err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMCALC_DEBUG", "1")
    assert main(["kv", "-m", "Qwen/Qwen3-8B", "-c", "x"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["llama-3.1-8x", "gpt-oss-21b", "Qwen/Qwen3-9B"])
def test_a_name_that_is_almost_bundled_is_found(name: str) -> None:
    """Without its owner, too; and with the name in the hint the command works."""

    def kv(model: str) -> dict[str, Any]:
        done = subprocess.run([sys.executable, "-m", "llmcalc", "kv", "-m", model, "--offline", "--json"], capture_output=True, check=False)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    found = re.match(r"bundled: ([^,;]+)", kv(name)["error"]["hint"])
    assert found and found[1].rpartition("/")[2][:4].lower() == name.rpartition("/")[2][:4].lower()
    assert kv(found[1])["model"]["id"] == found[1]


def test_the_answers_in_the_help_of_the_quiz_are_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["quiz", "--help"]) == 0
    helped = " ".join(capsys.readouterr().out.replace("\\\n", " ").split())
    found = re.search(r"printf '([^']*)' \| llmcalc (quiz [-\w ]+? --seed \d+)", helped)
    assert found
    monkeypatch.setattr("sys.stdin", io.StringIO(found[1].replace("\\n", "\n")))
    assert main(found[2].split()) == 0
    assert "Score: 2 of 2 (100%)" in capsys.readouterr().out
