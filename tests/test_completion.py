"""Shell completion: commands, models, devices and formats; silent whatever happens; only the typed command loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llmcalc import sources
from llmcalc.commands import COMMANDS, completion

PROGRAM = Path(sys.executable).parent / "llmcalc"
ASK = "import sys; from llmcalc.cli import main; sys.exit(main([]))"


def complete(line: str, shell: str = "bash", code: str = ASK) -> subprocess.CompletedProcess[str]:
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)} if shell == "bash" else {"_TYPER_COMPLETE_ARGS": line}
    environment = {**os.environ, "_LLMCALC_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **asked}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("llmcalc pre", ["prefill", "prefix"]),
        ("llmcalc kv --model Qwen/Qwen3-32B-", ["Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B-FP8-Static-PerTensor"]),
        ("llmcalc decode -d h200", ["h200-nvl", "h200-sxm"]),
        ("llmcalc compare -d h100-sxm,mi35", ["h100-sxm,mi350x", "h100-sxm,mi355x"]),
        pytest.param(*("llmcalc fit -d aut", ["auto"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc fit --weights mx", ["mxfp8", "mxfp4"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc kv --kv-dtype nv", ["nvfp4"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc fit --engine s", ["sglang"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc decode --method r", ["roofline"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc kv -f m", ["markdown"]), marks=pytest.mark.nightly),
        ("llmcalc kv -m 405b-instruct-fp4", ["nvidia/Llama-3.1-405B-Instruct-FP4"]),
        ("llmcalc quiz --topic kv,crit", ["kv,critical"]),
        ("llmcalc fit --check Qwen/Qwen3-32B l40", ["l40", "l40s"]),
        pytest.param(*("llmcalc quiz --lang r", ["ru"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc spec --preset m", ["medusa", "mtp"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc rank --sort s", ["speed"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc levers --goal t", ["ttft", "tpot", "throughput"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc pareto --x t", ["tpot", "tokens_per_s_per_user"]), marks=pytest.mark.nightly),
        pytest.param(*("llmcalc cost --price-kind s", ["spot"]), marks=pytest.mark.nightly),
        ("llmcalc models show gpt", [name for name in sources.bundled_ids() if name.startswith("gpt")]),
        pytest.param(*("llmcalc hardware show l40", ["l40", "l40s"]), marks=pytest.mark.nightly),
    ],
)
def test_bash(line: str, expected: list[str]) -> None:
    done = complete(line)
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_every_command_is_offered() -> None:
    assert complete("llmcalc ").stdout.split() == list(COMMANDS)


def test_zsh_and_fish() -> None:
    """zsh takes the descriptions between quotes: none of their own ends those."""
    told = complete("llmcalc fit --", "zsh").stdout.strip().removeprefix("_arguments '*: :((").removesuffix("))'")
    assert "--hardware" in told and "’" in told and "'" not in told and told.count('"') % 2 == 0
    assert complete("llmcalc decode -d h200-s", "zsh").stdout.strip() == "_arguments '*: :((\"h200-sxm\"))'"
    assert complete("llmcalc decode -d h200-s", "fish").stdout.strip() == "h200-sxm"


def test_nothing_is_said_whatever_goes_wrong() -> None:
    broken = "from llmcalc import data, sources\nfrom llmcalc.commands import completion\n"
    broken += "data.bundled = sources.bundled_ids = None\n" + ASK
    done = complete("llmcalc decode -d h", code=broken)
    assert (done.stdout.strip(), done.stderr) == ("", "")
    done = complete("llmcalc no-such-command --x", "bash")
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_only_the_typed_command_is_loaded() -> None:
    spy = "import atexit, sys\natexit.register(lambda: print(*sorted(n for n in sys.modules if n.startswith('llmcalc.commands.'))))\n" + ASK
    loaded = complete("llmcalc kv --model Qwen/Qwen3-32B-A", code=spy).stdout.split()
    assert loaded == [
        "Qwen/Qwen3-32B-AWQ",
        "llmcalc.commands.common",
        "llmcalc.commands.completion",
        "llmcalc.commands.kv",
        "llmcalc.commands.options",
        "llmcalc.commands.parse",
        "llmcalc.commands.purse",
        "llmcalc.commands.spoken",
        "llmcalc.commands.waiting",
    ]


def test_a_word_that_nothing_begins_with_is_left_to_file_names() -> None:
    assert completion.models("./") == []
    assert completion.devices("my.ya") == []


@pytest.mark.skipif(shutil.which("bash") is None or not PROGRAM.exists(), reason="needs bash and the installed program")
def test_the_script_for_bash_works() -> None:
    script = (
        'eval "$(_LLMCALC_COMPLETE=source_bash llmcalc)"\n'
        "COMP_WORDS=(llmcalc hardware show l40); COMP_CWORD=3\n"
        '_llmcalc_completion llmcalc\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "--norc", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["l40", "l40s"], "")
