"""Change every formula in turn, in a copy of the repository, and see that a test of its value fails.

    python scripts/mutate_formulas.py [--each 2] [--tests napkin,papers] [name ...]

A mutant that all tests let through is printed as SURVIVED, and the exit code is 1: a known value is missing for it. Tests that
compare text (documentation, README) are left out, as they fail for any change; so are those of files, networks and terminals.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = set(
    """test_accuracy test_api test_calibration
    test_cli test_completion test_contract test_detect test_docs test_doctor test_examples test_figures test_floors
    test_fuzz test_gguf test_gguf_oracle test_hardware test_hostile test_install test_oracle test_pictures test_present test_quiz_answers
    test_readme test_safetensors test_sources test_terminals test_units""".split()
)
SWAPS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip


def formulas(path: Path) -> Iterator[tuple[str, ast.Return]]:
    """Every function with @formula in a file, and its one return."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and any("formula" in ast.unparse(mark) for mark in node.decorator_list):
            yield node.name, next(part for part in node.body if isinstance(part, ast.Return))


def mutants(found: ast.Return) -> list[str]:
    """The return with one operator, constant or choice changed; each once."""
    made = []
    for index, node in enumerate(ast.walk(found)):
        tree = ast.parse(ast.unparse(found)).body[0]
        twin = list(ast.walk(tree))[index] if len(list(ast.walk(tree))) > index else None
        if isinstance(twin, ast.BinOp) and type(twin.op) in SWAPS:
            twin.op = SWAPS[type(twin.op)]()
        elif isinstance(twin, ast.Constant) and isinstance(twin.value, int | float) and twin.value:
            twin.value = twin.value * 2
        elif isinstance(twin, ast.Call) and isinstance(twin.func, ast.Name) and twin.func.id in ("larger", "smaller"):
            twin.func.id = "smaller" if twin.func.id == "larger" else "larger"
        elif isinstance(node, ast.Name) and isinstance(twin, ast.Name) and not made and len(list(ast.walk(found))) <= 3:
            made.append(f"return {twin.id} * 2")
            continue
        else:
            continue
        made.append(ast.unparse(tree))
    return list(dict.fromkeys(made))


def spread(items: list[str], count: int) -> list[str]:
    """So many of them, from the first to the last."""
    if len(items) <= count:
        return items
    return [items[round(index * (len(items) - 1) / max(count - 1, 1))] for index in range(count)]


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="formulas, or files of formulas/; default: all")
    parser.add_argument("--tests", default="", help="names of test files between commas; default: all that compute")
    parser.add_argument("--each", type=int, default=2, help="mutants of each formula")
    given = parser.parse_args()
    survived = total = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "repository"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".*_cache", "__pycache__", "dist", ".venv*", ".hypothesis"))
        tests = sorted(path for path in (copy / "tests").glob("test_*.py") if path.stem not in LEFT_OUT)
        tests = [path for path in tests if not given.tests or path.stem.removeprefix("test_") in given.tests.split(",")]
        if run(copy, tests):
            print("the tests fail before anything is changed")
            return 2
        for path in sorted((copy / "llmcalc" / "formulas").glob("*.py")):
            text = path.read_text(encoding="utf-8")
            for name, found in formulas(path):
                if given.names and name not in given.names and path.stem not in given.names:
                    continue
                near = [test for test in tests if re.search(rf"\b{name}\b", test.read_text(encoding="utf-8"))]
                near.sort(key=lambda test: test.stem != "test_known_values")
                far = [test for test in tests if test not in near]
                lines = text.split("\n")
                assert found.end_lineno is not None
                for mutant in spread(mutants(found), given.each):
                    changed = [*lines[: found.lineno - 1], "    " + mutant, *lines[found.end_lineno :]]
                    path.write_text("\n".join(changed), encoding="utf-8")
                    killer = (near and run(copy, near, workers="0")) or (far and run(copy, far))
                    total += 1
                    survived += not killer
                    print(f"{path.stem}.{name}: {mutant}  ->  {killer or 'SURVIVED'}", flush=True)
            path.write_text(text, encoding="utf-8")
    print(f"{total} mutants, {survived} survived")
    return 1 if survived else 0


def bounded() -> None:
    """A wrong formula may make a search endless: 8 GiB and ten minutes are enough for any test file."""
    resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (600, 600))


def run(copy: Path, tests: list[Path], workers: str = "auto") -> str:
    """The first test that fails, or nothing."""
    options = ["-x", "-q", "-n", workers, "--no-header", "-p", "no:cacheprovider", "-W", "ignore"]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "pytest", *options, *map(str, tests)]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, env=environment, preexec_fn=bounded)
    if not done.returncode:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return failed[1].partition("/")[2] if failed else f"exit {done.returncode}: {done.stdout[-200:]}"


if __name__ == "__main__":
    sys.exit(main())
