"""Every command at every width, in every encoding, into pipes, full disks and folders that cannot be written; and interrupted."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from rich.cells import cell_len

from llmcalc import cli
from llmcalc.cli import main
from llmcalc.commands import COMMANDS, common, waiting
from llmcalc.quiz import review

ROOT = Path(__file__).resolve().parent.parent
RUN = [sys.executable, "-m", "llmcalc"]
LINES = [
    "kv -m google/gemma-3-27b-it -c 32k -d h100-sxm --engine vllm",
    "kv -m Qwen/Qwen3-Next-80B-A3B-Instruct --explain",
    "weights -m openai/gpt-oss-120b",
    "fit -m Qwen/Qwen3-32B -d h100-sxm -b 64",
    "decode -m Qwen/Qwen3-30B-A3B -d h100-sxm -b 8 --explain",
    "cost -m Qwen/Qwen3-8B -d h100-sxm -b 8 --prompt 3000 --output-tokens 400",
    "quant -m openai/gpt-oss-20b -d h100-sxm -b 8",
    "prefill -m Qwen/Qwen3-32B -d '2x h100-sxm' --prompt 32k --cached 30k",
    "spec -m Qwen/Qwen3-8B -d rtx-4090 --preset eagle",
    "plan -m Qwen/Qwen3-8B -d h100-sxm --rate 5 --prompt 1k --output-tokens 100",
    "report -m Qwen/Qwen3-8B -d l40s --rate 1 --prompt 200 --output-tokens 20 --tp 1",
    "simulate -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 1k --output-tokens 50",
    "prefix -m Qwen/Qwen3-8B -d h100-sxm --sequences 50 --prefix 2k",
    "levers -m Qwen/Qwen3-8B -d h100-sxm --prompt 3000 --output-tokens 400 -b 16",
    "layouts -m deepseek-ai/DeepSeek-V3 -d '16x h200-sxm' -b 256",
    "compare -m Qwen/Qwen3-8B -d h100-sxm,h200-sxm,a100-80-sxm,'2x rtx-4090' --batch max",
    "pareto -m Qwen/Qwen3-8B -d h100-sxm,l40s --price 3 --max-tpot 20ms --mark chat=40ms",
    "roofline -m Qwen/Qwen3-8B -d dgx-spark",
    "models list qwen3-",
    "models show deepseek-ai/DeepSeek-V3",
    f"models check {ROOT / 'models' / 'Qwen--Qwen3-8B.json'}",
    "hardware list h100",
    "hardware show h100-sxm",
    f"hardware check {ROOT / 'hardware' / 'h100-sxm.yaml'}",
    "quiz --seed 7 --count 2",
    "doctor",
    *(["accuracy"] if "accuracy" in COMMANDS else []),
    "rank -d rtx-4090",
]
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
HALF_A_NUMBER = re.compile(r"(?<![\w.,/-])\d[\d.,]*…")
REFERENCE = re.compile(r"[\w.:/-]{24,}")  # addresses, paths and ids are not cut, and may stand out


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no descriptor")


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LLMCALC_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a background job, and so of what it starts
        signal.signal(signal.SIGINT, signal.default_int_handler)


def spawn(*args: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*RUN, *args], capture_output="stdout" not in options, timeout=60, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload, no-any-return]


class Encoded(io.TextIOWrapper):
    """A stream in some encoding, into memory."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")

    def getvalue(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


def told(line: str, monkeypatch: pytest.MonkeyPatch, *ways: dict[str, str], encodings: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """stdout and stderr of a command at a terminal with each of the environments, and on streams of each encoding.

    What it found is rendered anew for each. A command that hands over no report is run again.
    """
    shown: list[tuple[str, str]] = []
    say = common.say

    def once(environment: dict[str, str], tell: Callable[[], object], encoding: str = "") -> None:
        with monkeypatch.context() as patch:
            for name, value in {"LINES": "50", "TERM": "xterm-256color", **environment}.items():
                patch.setenv(name, value)
            out, err = (Encoded(encoding), Encoded(encoding)) if encoding else (Terminal(), Terminal())
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "stdin", io.StringIO(""))
            tell()
        shown.append((out.getvalue(), err.getvalue()))

    def each(tell: Callable[[], object]) -> None:
        for environment in ways:
            once(environment, tell)
        for encoding in encodings:
            once({"COLUMNS": "120"}, tell, encoding)

    def run() -> None:
        assert main(shlex.split(line)) == 0, line

    with monkeypatch.context() as patch:
        patch.setattr(common, "say", lambda *args, **options: each(lambda: say(*args, **options)))
        patch.setattr(sys, "stdin", io.StringIO(""))
        with redirect_stdout(io.StringIO()):
            run()
    if not shown:
        each(run)
    return shown


def shown(line: str, monkeypatch: pytest.MonkeyPatch, columns: int, **environment: str) -> tuple[str, str]:
    """stdout and stderr of a command at a terminal of that width."""
    ((out, err),) = told(line, monkeypatch, {"COLUMNS": str(columns), **environment})
    return out, err


def test_every_command_is_here() -> None:
    assert {line.split()[0] for line in LINES} == set(COMMANDS)


# ---- width and colour ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", LINES, ids=[" ".join(line.split()[:2]) for line in LINES])
def test_whatever_the_width_lines_fit_and_whatever_the_encoding_signs_are_known(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    widths, encodings = (40, 80, 200), ("ascii", "cp1252", "gbk", "utf-8")
    found = told(line, monkeypatch, *({"COLUMNS": str(columns)} for columns in widths), encodings=encodings)
    for columns, (out, err) in zip(widths, found, strict=False):
        for text in ESCAPES.sub("", out + err).splitlines():
            assert cell_len(text) <= columns or REFERENCE.search(text), (columns, text)
            assert text == text.rstrip(), (columns, text)
            if "explain" not in line:
                assert not HALF_A_NUMBER.search(text.partition("  assumes")[0]), (columns, text)
        assert "\x1b[" in out
    for encoding, (out, err) in zip(encodings, found[len(widths) :], strict=True):
        unknown = [text for text in (out + err).splitlines() if re.search(r"\?(?!\s|$|skips|;)", text)]
        assert out and not unknown, (encoding, unknown)


@pytest.mark.parametrize(
    "line",
    [
        "fit -m Qwen/Qwen3-8B -d rtx-4090", "fit -m Qwen/Qwen3-8B -d rtx-4090 --engine vllm", "cost -m Qwen/Qwen3-8B -d h100 -b 32", "quant -m Qwen/Qwen3-8B -d h100",
        "levers -m Qwen/Qwen3-8B -d h100 --prompt 4k", "spec -m Qwen/Qwen3-8B -d h100 --preset eagle", "layouts -m meta-llama/Llama-3.1-70B-Instruct -d 8xh100",
        "roofline -m Qwen/Qwen3-8B -d h100", "pareto -m Qwen/Qwen3-8B -d h100,l40s --max-tpot 20ms --mark chat=30ms", "plan -m Qwen/Qwen3-8B -d l40s,h100 --rate 1 --prompt 200 --output-tokens 9",
    ],
)  # fmt: skip
def test_an_answer_fits_a_small_screen(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """80 by 24 (VT100) with the next prompt: the verdict stays in sight; a taller screen and --all leave out less."""
    taken = []
    for rows, more in (("24", ""), ("60", ""), ("24", " --all"))[: 3 if line.startswith("layouts") else 1]:
        with monkeypatch.context() as patch:
            out, err = shown(line + more, patch, 80, LINES=rows)
        taken.append(sum(-(-cell_len(text) // 80) or 1 for text in ESCAPES.sub("", out + err).splitlines()))
    assert taken[0] <= 23 and (len(taken) == 1 or (taken[0] < taken[1] <= taken[2] and "--all" not in out)), taken


def test_colours_are_for_those_who_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """no-color.org: a NO_COLOR that is empty does not count. Bold and dim are no colours."""
    wanted: list[tuple[dict[str, str], bool]] = [
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({}, True),
    ]
    line = "pareto -m Qwen/Qwen3-8B -d h100-sxm,l40s --price 3"
    found = told(line, monkeypatch, *({"COLUMNS": "80", **environment} for environment, _ in wanted))
    for (environment, colour), (out, _) in zip(wanted, found, strict=True):
        codes = {int(code) for found in re.findall(r"\x1b\[([0-9;]*)m", out) for code in found.split(";") if code}
        assert any(code >= 30 for code in codes) is colour, environment
        assert codes or colour is False
        assert not codes or environment.get("TERM") != "dumb"


def test_a_pipe_gets_colour_only_when_forced() -> None:
    line = ["kv", "-m", "Qwen/Qwen3-8B"]
    assert b"\x1b[" not in spawn(*line, env={**os.environ, "TERM": "xterm-256color"}).stdout
    assert b"\x1b[" in spawn(*line, env={**os.environ, "TERM": "xterm-256color", "FORCE_COLOR": "1"}).stdout


def test_a_verdict_has_a_colour_beside_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for device, words, colour in (("h100-sxm", "fits", 32), ("rtx-4090", "does not fit", 31)):
        out, _ = shown(f"fit -m Qwen/Qwen3-32B -d {device}", monkeypatch, 80)
        assert f"\x1b[1;{colour}m{words}\x1b[0m" in out.splitlines()[0]


def test_a_long_run_says_that_it_works_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Terminal()
    monkeypatch.setattr(waiting, "QUIET", 0.01)
    monkeypatch.setattr(waiting, "_watched", lambda: True)
    monkeypatch.setattr(sys, "stderr", said)
    with waiting.shown():
        time.sleep(0.1)
        waiting.over()
        before = said.getvalue()
        time.sleep(0.05)
    assert re.fullmatch(r"(\rworking: \d+ s)+\r\x1b\[K", before) and said.getvalue() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_can_be_copied(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that go on behind a backslash are, to a shell, the line that the command's file holds."""
    told = {}
    for columns in (40, 80):
        with monkeypatch.context() as patch:
            out, _ = shown(f"{command} --help", patch, columns)
        assert columns == 40 or max(map(cell_len, out.splitlines())) <= columns
        joined = out.replace("\\\n", " ")
        told[columns] = [shlex.split(line) for line in joined.splitlines() if re.match(r"\s+(llmcalc|\S.*\|\s+llmcalc) ", line)]
    assert told[40] == told[80]
    source = (ROOT / "llmcalc" / "commands" / f"{command}.py").read_text(encoding="utf-8").partition('"""\n\n')[2]
    written = [shlex.split(line.replace("\\\\", "\\")) for line in re.findall(r"^  ((?:\S.*\| )?llmcalc .*)$", source, re.M)]
    assert told[80] == written


# ---- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "line"),
    [
        ("ascii", "kv -m Nobody/Qwen3-8×B --offline"),
        ("cp1252", "quiz --lang ru --seed 1 --count 1"),
        ("gbk", "hardware show 8×h100–sxm"),
        ("utf-8", "quiz --lang ru --topic x"),
    ],
)
def test_errors_and_other_languages_in_any_encoding(line: str, encoding: str) -> None:
    done = spawn(*shlex.split(line), env={**os.environ, "PYTHONIOENCODING": encoding})
    assert done.returncode in (0, 1, 2)
    assert b"Traceback" not in done.stderr and done.stdout.decode(encoding) + done.stderr.decode(encoding)


# ---- pipes, disks, folders -------------------------------------------------------------------------------------------


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    text = command.replace("llmcalc", shlex.join(RUN))
    return subprocess.run(["bash", "-c", text], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, cwd=ROOT)


@pytest.mark.parametrize(
    ("line", "reader"),
    [
        ("hardware list", "head -1"),
        ("quiz --json --count 50", "head -1"),
        ("kv -m Qwen/Qwen3-8B", "true"),
        ("kv --help", "true"),
        ("kv -m ./none --json", "true"),
    ],
)
def test_a_reader_that_leaves_is_no_error(line: str, reader: str) -> None:
    done = shell(f"llmcalc {line} | {reader}; exit ${{PIPESTATUS[0]}}")
    assert done.returncode in ((0, 1) if "none" in line else (0,)) and done.stderr == "", done.stderr


full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")


@full
@pytest.mark.parametrize(
    "line", ["kv -m Qwen/Qwen3-8B", "kv -m Qwen/Qwen3-8B --json", "--help", "--version", "kv -m ./none", "kv -m ./none --json"]
)
def test_a_full_disk_is_said(line: str) -> None:
    done = shell(f"llmcalc {line} > /dev/full")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) <= 2 and "Traceback" not in done.stderr and "Exception" not in done.stderr
    if "none" not in line:
        assert done.stderr == "Error: the system says: No space left on device\n"


def test_a_closed_stdout_stdin_or_stderr_is_no_traceback() -> None:
    for redirected, line, code in (
        (">&-", "kv -m Qwen/Qwen3-8B", 0), (">&-", "--help", 0), ("2>&-", "fit -m Qwen/Qwen3-32B -d l4 --check", 3), ("2>&-", "kv -m ./none.json", 1),
        ("<&-", "kv -m -", 1), ("<&-", "quiz --count 1", 0), ("<&- >&- 2>&-", "kv -m ./none.json --json", 1), ("<&- >&- 2>&-", "doctor", 0),
    ):  # fmt: skip
        done = shell(f"llmcalc {line} {redirected}")
        assert done.returncode == code, (line, redirected, done)
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr, (line, redirected, done.stderr)


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder.json").mkdir()
    for place, reason in (
        ("/dev/full/x.json", "not a directory"),
        (f"{tmp_path}/file/x.json", "not a directory"),
        (f"{tmp_path}/folder.json", "is a directory"),
    ):
        done = spawn("kv", "-m", "Qwen/Qwen3-8B", "-o", place)
        assert done.returncode == 1 and done.stdout == b""
        error, hint = done.stderr.decode().splitlines()
        assert error == f"Error: cannot write {place}: {reason}" and hint.startswith("Hint: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.json"], "nothing is left behind"
    if os.getuid():
        tmp_path.chmod(0o500)
        assert spawn("kv", "-m", "Qwen/Qwen3-8B", "-o", str(tmp_path / "x.json")).returncode == 1
        tmp_path.chmod(0o700)


@full
def test_a_pipe_or_a_device_is_written_to_and_a_link_followed(tmp_path: Path) -> None:
    """What is put in their place would be gone for everybody: of /dev/null, for root."""
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    assert spawn("kv", "-m", "Qwen/Qwen3-8B", "-f", "json", "-o", str(tmp_path / "pipe")).returncode == 0
    assert json.loads(reader.communicate(timeout=30)[0])["results"]["kv_bytes_per_token"] == 147_456
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "device").symlink_to("/dev/full")
    done = spawn("kv", "-m", "Qwen/Qwen3-8B", "-f", "json", "-o", str(tmp_path / "device"))
    assert done.returncode == 1 and b"no space left on device" in done.stdout
    (tmp_path / "kept.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("kept.json")
    assert spawn("kv", "-m", "Qwen/Qwen3-8B", "-o", str(tmp_path / "link.json")).returncode == 0
    assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "kept.json").read_text())["command"] == "kv"
    (tmp_path / "loop.json").symlink_to("loop.json")
    assert spawn("kv", "-m", "Qwen/Qwen3-8B", "-o", str(tmp_path / "loop.json")).returncode in (0, 1)
    done = shell("llmcalc kv -m Qwen/Qwen3-8B -f csv -o /dev/stdout | wc -l")
    assert int(done.stdout) >= 2 and done.stderr == "wrote /dev/stdout (1 row)\n"


@full
def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    """Root may write everywhere, so the folders lie in a file: the same errors."""
    (tmp_path / "file").write_text("")
    home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HF_HOME"), str(tmp_path / "file"))
    for line in ("kv -m Qwen/Qwen3-8B", "decode -m Qwen/Qwen3-8B -d h100-sxm", "hardware list h100", "doctor", "models list qwen3-8"):
        done = spawn(*line.split(), env={**os.environ, **home})
        assert done.returncode == 0, (line, done.stderr)
        assert b"Traceback" not in done.stderr
    quiz = subprocess.run(
        [*RUN, "quiz", "--count", "1", "--seed", "1"], input=b"1\n", capture_output=True, env={**os.environ, **home}, timeout=60
    )
    assert quiz.returncode == 0 and b"Warning: " in quiz.stderr and b"Traceback" not in quiz.stderr


def test_without_any_home_at_all() -> None:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")}
    assert spawn("decode", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "--json", env=kept).returncode == 0


# ---- interrupts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "simulate -m Qwen/Qwen3-8B -d h100-sxm --rate 8 --prompt 1k --output-tokens 400",
        "compare -m all -d all -f csv",
        "pareto -m Qwen/Qwen3-8B -d all --weights all --kv-dtype all --tp all",
        "plan -m Qwen/Qwen3-8B --rate 50 --prompt 1k --output-tokens 400 --max-tpot 20ms",
        "quiz",
        "kv -m -",
    ],
)
@pytest.mark.parametrize("delay", [0.2, 0.5, *(pytest.param(delay, marks=pytest.mark.nightly) for delay in (0.12, 0.3, 0.8))])
def test_ctrl_c_at_any_time(line: str, delay: float) -> None:
    """From the first line of our own code on: exit 130 and no traceback. Before it the interpreter itself starts (some 30 ms)."""
    process = subprocess.Popen(
        [*RUN, *line.split()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    if b"Traceback" in err and str(ROOT / "llmcalc").encode() not in err:
        return  # a busy machine: the interpreter was still starting
    assert process.returncode in (130, -signal.SIGINT, 0), err  # a shell shows the second as 130, too
    assert b"Traceback" not in err and b"KeyboardInterrupt" not in err and b"internal" not in err


def test_an_interrupt_that_became_another_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python 3.11 makes a RuntimeError of one that comes while a class is made: Error calling __set_name__ on …"""

    def interrupted(command: str | None) -> None:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr(cli, "build", interrupted)
    assert cli.main(["kv", "-m", "Qwen/Qwen3-8B"]) == 130
    assert capsys.readouterr() == ("", "")


def test_an_interrupted_output_leaves_no_half_file(tmp_path: Path) -> None:
    for delay in (0.2, 0.4, 0.7):
        process = subprocess.Popen([*RUN, "models", "list", "-o", str(tmp_path / "models.csv")], stderr=subprocess.PIPE)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        found = tmp_path / "models.csv"
        if found.exists():
            assert len(list(csv.DictReader(found.open(encoding="utf-8")))) > 400
            found.unlink()


# ---- two at once -----------------------------------------------------------------------------------------------------


def test_runs_at_once_share_what_they_remember(tmp_path: Path) -> None:
    """Three quizzes and three outputs to the same file: no answer is lost, and the file is one of the three."""
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    target = tmp_path / "out.json"
    quizzes = [
        subprocess.Popen(
            [*RUN, "quiz", "--seed", "1", "--count", "2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=state,
        )
        for _ in range(3)
    ]
    for one in quizzes:
        assert one.stdin is not None
        one.stdin.write(b"1\n2\n")
        one.stdin.close()
    outputs = [
        subprocess.Popen([*RUN, "kv", "-m", "Qwen/Qwen3-8B", "-b", str(batch), "-o", str(target)], env=state) for batch in range(1, 4)
    ]
    for process in (*quizzes, *outputs):
        assert process.wait(timeout=60) == 0
    for one in quizzes:
        assert one.stderr is not None and one.stderr.read() == b""
    record = json.loads((tmp_path / "llmcalc" / "quiz.json").read_text())
    assert record["session"] == 3 and all(card["seen"] == 3 for card in record["cards"].values())
    assert json.loads(target.read_text())["inputs"]["batch"] in range(1, 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llmcalc", "out.json"]


@pytest.fixture
def stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lock = review.path().with_suffix(".lock")
    lock.parent.mkdir(parents=True)
    lock.touch()
    yield lock


def test_a_lock_that_somebody_left_does_not_last(stale: Path) -> None:
    os.utime(stale, (1, 1))
    assert review.record({"kv-token": 1.0}) == [] and not stale.exists()


def test_no_is_an_answer_and_keeps_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    said, _ = shown("fit -m deepseek-ai/DeepSeek-V3 -d rtx-3090", monkeypatch, 80)
    said = ESCAPES.sub("", said)
    assert re.search(r"^ +engine +holds it", said, re.M)
    assert re.search(r"^ +vllm +no$", said, re.M)
