"""The packages: what the sdist and the wheel hold, and the wheel in an empty environment, run from another folder.

Slow and in need of a package index: `pytest -m install`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
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
    assert "USD per 1M output tokens against time per output token" in (tmp_path / "front.md").read_text(encoding="utf-8")
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


def lowest() -> list[str]:
    """The lowest version of each dependency that this Python may have."""
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]]
    return [f"{one.name}=={str(one.specifier).removeprefix('>=')}" for one in wanted if one.marker is None or one.marker.evaluate()]


def test_every_dependency_has_a_lower_bound_on_every_python() -> None:
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]]
    for version in ("3.11", "3.12", "3.13", "3.14", "3.15"):
        held = [one for one in wanted if one.marker is None or one.marker.evaluate({"python_version": version})]
        assert sorted(one.name for one in held) == sorted({one.name for one in wanted}), version
        assert all(re.fullmatch(r">=[\d.]+", str(one.specifier)) for one in held)


@pytest.mark.nightly
@pytest.mark.parametrize("versions", ["lowest", "newest"])
def test_the_oldest_and_newest_that_are_allowed_say_the_same(versions: str, dist: Path, tmp_path: Path) -> None:
    """As they install today; the tables, where rich below 14.3 cut numbers, as in this environment."""
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    (wheel,) = dist.glob("*.whl")
    run(tmp_path / "venv" / "bin" / "pip", "install", "-q", wheel, *(lowest() if versions == "lowest" else ["--upgrade"]), cwd=tmp_path)
    environment = {"COLUMNS": "60", "HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for line in (
        "compare -m Qwen/Qwen3-8B -d h100-sxm,l40s", "decode -m Qwen/Qwen3-8B -d h100-sxm --explain", "models list llama-3",
        "pareto -m Qwen/Qwen3-8B -d h100-sxm,l40s --price 2", "hardware check hardware/h100-sxm.yaml", "kv --help", "kv -m no/such",
    ):  # fmt: skip
        texts = []
        for python in (tmp_path / "venv" / "bin" / "python", Path(sys.executable)):
            found = environment | ({"PYTHONPATH": str(ROOT)} if python == Path(sys.executable) else {})
            done = subprocess.run(
                [python, "-m", "llmcalc", *line.split()], cwd=ROOT / "docs" / "..", env=found, capture_output=True, text=True
            )
            texts.append((done.returncode, done.stdout, done.stderr))
        assert texts[0] == texts[1], line
