"""Imports run downward only: a room imports from floors below its own."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from trees import nodes

import llmcalc

PACKAGE = Path(llmcalc.__file__).parent
FLOORS: list[set[str]] = [
    {"", "answers", "units", "errors", "data"},
    {"figures"},
    {"formulas"},
    {"config", "formats", "engines", "files", "images", "links"},
    {"architecture", "gguf", "safetensors"},
    {"attention", "mlp", "hardware_profile", "gguf_config", "detect"},
    {"families", "hardware", "sources", "traffic", "quality"},
    {"towers", "agreement", "recognise", "loadgen"},
    {"model"},
    {"checkpoint"},
    {"plan"},
    {"estimate"},
    {"api"},
    {"measured", "points"},
    {"search", "rank", "quiz", "accuracy"},
    {"own"},
    {"present"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
ALLOWED_SAME_FLOOR = {("data", "errors"), ("units", "errors"), ("architecture", "config"), ("formats", "config")}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def floor(name: str) -> int:
    for number, rooms in enumerate(FLOORS):
        if name in rooms:
            return number
    raise AssertionError(f"llmcalc.{name} has no floor: give it one in FLOORS")


def imports(path: Path) -> list[str]:
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            found += [f"{module}.{alias.name}" if module == "llmcalc" else module for alias in node.names]
    return [name for name in found if name.split(".")[0] == "llmcalc"]


def test_imports_run_downward() -> None:
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        own = "" if own == "__init__" else own
        if own == "":
            continue  # the lazy public API reaches up, at call time only; test_api holds it
        for name in imports(path):
            target = room(name)
            target = "" if target == "__version__" else target
            if target == own or (own, target) in ALLOWED_SAME_FLOOR:
                continue
            if floor(target) >= floor(own):
                wrong.append(f"{path.relative_to(PACKAGE)} imports llmcalc.{target}")
    assert not wrong


def test_every_room_has_a_floor() -> None:
    rooms = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in PACKAGE.rglob("*.py")} - {"__init__"}
    for name in rooms:
        floor(name)


def modules_of(folder: Path) -> dict[str, set[str]]:
    """The rooms of one folder, each with those of the same folder that it imports, inside functions too."""
    package = f"llmcalc.{'.'.join(folder.relative_to(PACKAGE).parts)}"
    rooms = {path.stem for path in folder.glob("*.py")}
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("*.py")):
        named: set[str] = set()
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module == package:
                named |= {alias.name if alias.name in rooms else "__init__" for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package + "."):
                named.add((node.module or "").removeprefix(package + ".").split(".")[0])
            elif isinstance(node, ast.Import):
                named |= {a.name.removeprefix(package + ".").split(".")[0] for a in node.names if a.name.startswith(package + ".")}
        found[path.stem] = named - {path.stem}
    return found


CIRCLES_LEFT = {"families"}
"""Folders whose circles are known and about to go."""


@pytest.mark.parametrize("folder", sorted({p.parent for p in PACKAGE.rglob("*.py")} - {PACKAGE}), ids=lambda path: path.name)
def test_no_circles_inside_a_folder(folder: Path) -> None:
    """Taking away rooms that import no other room must empty the folder; what is left over is a circle."""
    left = modules_of(folder)
    while free := {name for name, used in left.items() if not used & left.keys()}:
        left = {name: used for name, used in left.items() if name not in free}
    assert not left or folder.name in CIRCLES_LEFT, f"{folder.name}: rooms in a circle: {left}"


def test_only_the_command_line_knows_flags() -> None:
    """Below commands/ a quantity has a name (`kv_dtype`); engines' own start lines and the quiz's commands to type are words of theirs."""
    known = {flag for path in (PACKAGE / "commands").glob("*.py") for flag in re.findall(r'"(--[a-z][a-z-]+)"', path.read_text("utf-8"))}
    known -= {"--quantization"}  # vLLM's own, which start lines have; an alias of --weights
    assert len(known) > 60
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.relative_to(PACKAGE).parts[0]
        if own in ("commands", "cli.py", "__main__.py", "engines", "quiz", "detect.py"):
            continue
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                wrong += [f"{path.relative_to(PACKAGE)}: {flag}" for flag in re.findall(r"--[a-z][a-z-]+", node.value) if flag in known]
    assert not wrong, "say `name`; commands/spoken.py turns it into a flag"


def test_functions_stay_small() -> None:
    """None over 80 lines, at most ten over 60; a command takes groups of options, never more than eight."""
    long: dict[str, int] = {}
    wide = []
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{path.relative_to(PACKAGE)}:{node.name}"
                long[place] = (node.end_lineno or 0) - node.lineno + 1
                if "commands" in path.parts and len(node.args.args) + len(node.args.kwonlyargs) > 8:
                    wide.append(place)
    assert not {place: lines for place, lines in long.items() if lines > 80}
    assert sum(lines > 60 for lines in long.values()) <= 10, sorted(place for place, lines in long.items() if lines > 60)
    assert not wide
