"""The packages: what the sdist and the wheel hold, and the wheel in an empty environment, run from another folder.

Slow and in need of a package index: `pytest -m install`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from llmcalc import __version__

pytestmark = pytest.mark.install
ROOT = Path(__file__).parent.parent


def run(*command: str | Path, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Without anything that leads back to the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "COLUMNS")}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)
    assert options.get("fails") or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is built from it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def venv(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel; returns its bin/."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    (wheel,) = dist.glob("*.whl")
    run(folder / "bin" / "pip", "install", "-q", wheel, cwd=folder)
    return folder / "bin"


def data_files() -> set[str]:
    folders = ("hardware", "models", "measurements")
    return {f"{folder}/{path.name}" for folder in folders for path in (ROOT / folder).iterdir() if path.is_file()}


def test_the_wheel_holds_the_program_and_its_data(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {f"llmcalc/{path.relative_to(ROOT / 'llmcalc').as_posix()}" for path in (ROOT / "llmcalc").rglob("*.py")}
    assert modules - names == set()
    assert {f"llmcalc/_data/{name}" for name in data_files()} - names == set()
    assert {"llmcalc/py.typed", "llmcalc/families/defaults.json"} <= names
    top = {name.partition("/")[0] for name in names}
    assert top == {"llmcalc", f"llmcalc-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or ".mypy_cache" in name]


def test_the_sdist_can_be_tested(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "SKILL.md",
        "pyproject.toml",
        "tests/test_install.py",
        "scripts/docs.py",
        "docs/llmcalc.svg",
    }
    assert wanted - names == set()
    assert data_files() - names == set()


def test_the_wheel_runs_from_another_folder(venv: Path, tmp_path: Path) -> None:
    answer = json.loads(run(venv / "llmcalc", "kv", "-m", "Qwen/Qwen3-8B", "-c", "32768", "--json", cwd=tmp_path).stdout)
    assert answer["results"]["kv_bytes_per_sequence"] == 4831838208  # 36 x 2 x 8 x 128 x 2 B x 32,768
    assert run(venv / "hf-llmcalc", "--version", cwd=tmp_path).stdout == f"llmcalc {__version__}\n"
    assert run(venv / "python", "-m", "llmcalc", "--version", cwd=tmp_path).stdout == f"llmcalc {__version__}\n"
    doctor = json.loads(run(venv / "llmcalc", "doctor", "--json", cwd=tmp_path).stdout)
    assert doctor["results"]["models"] == len(
        [name for name in data_files() if name.startswith("models/") and not name.endswith(".quant.json")]
    )
    assert all("_data" in row["value"] for row in doctor["rows"] if row["what"] in ("models", "hardware", "measurements"))
    for command in (
        ["pareto", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm,l40s", "-o", "front.md"],
        ["hardware", "show", "h100-sxm"],
        ["quiz", "--seed", "1", "--count", "1", "--json"],
    ):
        run(venv / "llmcalc", *command, cwd=tmp_path)
    assert (tmp_path / "front.md").read_text(encoding="utf-8").startswith("### Pareto front")
    code = "import llmcalc; print(llmcalc.kv_bytes_per_token(layers=36, kv_heads=8, head_dim=128, bytes_per_element=2))"
    assert run(venv / "python", "-c", code, cwd=tmp_path).stdout == "147456\n"


def test_the_accuracy_data_is_in_the_wheel(venv: Path, tmp_path: Path) -> None:
    from llmcalc.commands import COMMANDS

    if "accuracy" not in COMMANDS:
        pytest.skip("no such command yet")
    assert json.loads(run(venv / "llmcalc", "accuracy", "--json", cwd=tmp_path).stdout)["rows"]


def test_the_detect_extra_installs_and_finds_no_driver_here(venv: Path, dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    run(venv / "pip", "install", "-q", f"{wheel}[detect]", cwd=tmp_path)
    done = run(venv / "python", "-c", "import pynvml; from llmcalc import detect; print(detect.nvidia())", cwd=tmp_path)
    assert done.stdout.startswith("[")
