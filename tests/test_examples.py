"""Each script in examples/ runs and says what its comment promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
# What must be in the output: figures worked out by hand or published, never copied from a run.
SAYS = {
    "batch_models.sh": [
        "Qwen/Qwen3-8B\t40960\t6039797760",  # 36 layers x 2 x 8 x 128 x 2 B = 147,456 B a token
        "deepseek-ai/DeepSeek-V3\t163840\t11513364480",  # 61 layers x 576 x 2 B = 70,272 B a token
        "no/such-model\toffline-not-cached",
    ],
    "chat_service.sh": [r"\d+ GPUs, \d+ USD a month, bound by (memory|tpot|ttft|saturation)"],
    "ci_gate.sh": ["8k on one H100: fits", "4 x 32k on one H100: does not fit"],  # 61 GiB of weights + 4 x 8 GiB
    "custom_device.sh": ["1 of 1 are well formed", r"step time +25\.21 ms"],  # (16.06 + 32 x 1.0737 GB) / 2 TB/s
    "explain.sh": ["reading caches", r"layers \* kv_heads \* head_dim \* bytes_per_element = 2 \* 36 \* 8 \* 128 \* 2 = 147456 B/token"],
    "four_gpus.sh": ["h100-sxm", "a100-80-sxm", "l40s", "rtx-4090", "^hardware,count,"],
    "interview.sh": ["116"],  # 936 GB/s over 2 x 4.02 GB
    "library.py": ["cache of 32k tokens: 4,831,838,208 B", "hardware-not-found: no device is called 'h2000'"],
    "pareto_report.sh": ["# Pareto front of Qwen/Qwen3-32B", "front.csv\nfront.html\nfront.md"],
    "sweep.py": [r"batch  32 +15\.05 ms", r"equal from batch 14\.96"],  # 16.06 / 1.0737
}
STDIN = {"batch_models.sh": "Qwen/Qwen3-8B\ndeepseek-ai/DeepSeek-V3\nno/such-model\n"}
SCRIPTS = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".sh", ".py"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which `llmcalc` and `python3` are those under test."""
    folder = tmp_path_factory.mktemp("bin")
    for name, command in {"llmcalc": f"{sys.executable} -m llmcalc", "python3": sys.executable}.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_there_are_enough_and_each_is_judged() -> None:
    assert sorted(SAYS) == SCRIPTS
    assert len(SCRIPTS) >= 8


SLOW = {"pareto_report.sh"}  # three searches, and a page with a chart; test_pictures makes one as well


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.nightly) if name in SLOW else name for name in SCRIPTS])
def test_the_example_runs(name: str, programs: str, tmp_path: Path) -> None:
    path = FOLDER / name
    runner = "bash" if name.endswith(".sh") else sys.executable
    arguments = [str(tmp_path / "out")] if "$1" in path.read_text() or "${1" in path.read_text() else []
    for folder in arguments:
        Path(folder).mkdir()
    environment = {**os.environ, "PATH": programs, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(FOLDER.parent)}
    done = subprocess.run(
        [runner, str(path), *arguments],
        input=STDIN.get(name, ""),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    for expected in SAYS[name]:
        assert re.search(expected, done.stdout, re.MULTILINE), done.stdout
