"""Change the program in many places, one at a time, in a copy of the repository, and see that a test of behaviour fails.

    python scripts/mutate_formulas.py                             every formula, twice
    python scripts/mutate_formulas.py [--each 2] latency money    formulas by name, or files of formulas/
    python scripts/mutate_formulas.py --rooms estimate,search,quiz --random 40 [--seed 1]     places drawn from these rooms

Rooms are folders and modules of llmcalc/, such as estimate, engines, families, present, commands, search. A mutant that all tests
let through is printed as SURVIVED, and the exit code is 1: a test is missing for it. Tests that compare text (documentation,
README) are left out, as they fail for any change; so are, for formulas, those of files, networks and terminals.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TEXTS = set("test_docs test_readme test_examples test_install test_architecture".split())
LEFT_OUT = TEXTS | set(
    """test_accuracy test_api test_calibration
    test_cli test_completion test_contract test_detect test_doctor test_figures test_floors
    test_fuzz test_gguf test_gguf_oracle test_hardware test_hostile test_oracle test_pictures test_present test_quiz_answers
    test_safetensors test_sources test_terminals test_units""".split()
)
SLOW = set("test_fuzz test_hostile test_oracle test_gguf_oracle test_simulation test_terminals".split())
"""Asked last."""
SWAPS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
}  # fmt: skip
BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
CHOICES = {"larger": "smaller", "smaller": "larger", "max": "min", "min": "max", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """One change: the file, the text before and after, where it stands, and the whole file with it."""

    path: Path
    line: int
    before: str
    after: str
    text: str


def changed(node: ast.AST) -> ast.AST | None:
    """The node with one operator, bound, constant or choice changed; None where there is nothing to change."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not text_of(node):
        return ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in BOUNDS:
        return ast.Compare(node.left, [BOUNDS[type(node.ops[0])]()], node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.IfExp):
        return ast.IfExp(node.test, node.orelse, node.body)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value:
        return ast.Constant(node.value * 2)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CHOICES:
        return ast.Call(ast.Name(CHOICES[node.func.id]), node.args, node.keywords)
    return None


def text_of(node: ast.BinOp) -> bool:
    """Whether texts are put together, which no swap survives."""
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str)) for part in ast.walk(node)
    )


def mutants(path: Path, body: ast.AST) -> Iterator[Mutant]:
    """Every change of a piece of a file, each once; texts and annotations are left alone."""
    text = path.read_text(encoding="utf-8")
    raw = text.encode()
    starts = [0]
    for line in raw.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    for node in walk(body):
        made = changed(node)
        if made is None or not isinstance(node, ast.expr) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        after = f"({ast.unparse(ast.fix_missing_locations(made))})"
        yield Mutant(path, node.lineno, raw[start:end].decode(), after, (raw[:start] + after.encode() + raw[end:]).decode())


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is inside of it, without f-strings, annotations and decorators."""
    yield node
    for name, held in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for inner in held if isinstance(held, list) else [held]:
            if isinstance(inner, ast.AST) and not isinstance(inner, ast.JoinedStr):
                yield from walk(inner)


def formulas(path: Path) -> Iterator[tuple[str, ast.Return]]:
    """Every function with @formula in a file, and its one return."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and any("formula" in ast.unparse(mark) for mark in node.decorator_list):
            yield node.name, next(part for part in node.body if isinstance(part, ast.Return))


def spread(items: list[Mutant], count: int) -> list[Mutant]:
    """So many of them, from the first to the last."""
    if len(items) <= count:
        return items
    return [items[round(index * (len(items) - 1) / max(count - 1, 1))] for index in range(count)]


def of_formulas(copy: Path, names: list[str], each: int) -> Iterator[tuple[str, Mutant]]:
    """The formulas' names, each with its mutants."""
    for path in sorted((copy / "llmcalc" / "formulas").glob("*.py")):
        for name, found in formulas(path):
            if not names or name in names or path.stem in names:
                yield from ((name, mutant) for mutant in spread(list(mutants(path, found)), each))


def of_rooms(copy: Path, rooms: list[str], count: int, seed: int) -> Iterator[tuple[str, Mutant]]:
    """Places drawn from the functions of these rooms, each line of code as likely as any other."""
    paths = [
        path for room in rooms for path in sorted((copy / "llmcalc").glob(f"{room}.py")) + sorted((copy / "llmcalc" / room).rglob("*.py"))
    ]
    if not paths:
        raise SystemExit(f"no such room: {', '.join(rooms)}")
    found = []
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found += [(node.name, mutant) for mutant in mutants(path, node)]
    yield from random.Random(seed).sample(found, min(count, len(found)))


def tests_for(copy: Path, path: Path, name: str, left_out: set[str]) -> tuple[list[Path], list[Path]]:
    """The test files that speak of a function or its module, nearest first; and all others."""
    tests = sorted(path for path in (copy / "tests").glob("test_*.py") if path.stem not in left_out)
    module = path.stem if path.stem != "__init__" else path.parent.name

    def nearness(test: Path) -> int:
        text = test.read_text(encoding="utf-8")
        return (
            3 * (test.stem in (f"test_{module}", "test_known_values"))
            + 2 * bool(re.search(rf"\b{name}\b", text))
            + bool(re.search(rf"\b{module}\b", text))
        )

    scores = {test: nearness(test) - 4 * (test.stem in SLOW) for test in tests}
    near = sorted((test for test in tests if scores[test] > 0), key=lambda test: -scores[test])
    return near, [test for test in tests if test not in near]


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="formulas, or files of formulas/; default: all")
    parser.add_argument("--tests", default="", help="names of test files between commas; default: all that compute")
    parser.add_argument("--each", type=int, default=2, help="mutants of each formula")
    parser.add_argument("--rooms", default="", help="rooms between commas, instead of formulas")
    parser.add_argument("--random", type=int, default=20, help="mutants of all rooms together")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    left_out = TEXTS if given.rooms else LEFT_OUT
    survived = total = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "repository"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".*_cache", "__pycache__", "dist", ".venv*", ".hypothesis"))
        found = (
            of_rooms(copy, given.rooms.split(","), given.random, given.seed) if given.rooms else of_formulas(copy, given.names, given.each)
        )
        for name, mutant in found:
            near, far = tests_for(copy, mutant.path, name, left_out)
            if given.tests:
                near, far = [test for test in near + far if test.stem.removeprefix("test_") in given.tests.split(",")], []
            original = mutant.path.read_text(encoding="utf-8")
            mutant.path.write_text(mutant.text, encoding="utf-8")
            killer = (near and run(copy, near, workers="0")) or (far and run(copy, far))
            mutant.path.write_text(original, encoding="utf-8")
            total += 1
            survived += not killer
            place = f"{mutant.path.relative_to(copy / 'llmcalc')}:{mutant.line} {name}"
            print(f"{place}: {mutant.before}  ->  {mutant.after}: {killer or 'SURVIVED'}", flush=True)
    print(f"{total} mutants, {survived} survived")
    return 1 if survived else 0


def bounded() -> None:
    """A wrong formula may make a search endless: 8 GiB and ten minutes are enough for any test file."""
    resource.setrlimit(resource.RLIMIT_DATA, (8 * 2**30, 8 * 2**30))  # not RLIMIT_AS: a browser reserves more than it uses
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
