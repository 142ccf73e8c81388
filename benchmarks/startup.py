"""Whole-process time of llmcalc commands against toys in the same run, as ratios of medians.

    python benchmarks/startup.py [rounds]

The toys: a bare interpreter, a typer + rich program with two commands that prints one table, and the floor of llmcalc's own
stack (a typer command with one pydantic model, one YAML file and one rich table). Rounds are interleaved, so that a
noisy machine is noisy for all. Peak memory is the child's maximum resident set.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOY = """
import typer
from rich.console import Console
from rich.table import Table
app = typer.Typer()
@app.command()
def first(x: int = 1) -> None:
    table = Table()
    table.add_column("a")
    table.add_row(str(x))
    Console().print(table)
@app.command()
def second() -> None:
    pass
app()
"""
STACK = """
import typer, yaml, pydantic
from rich.console import Console
from rich.table import Table
class Row(pydantic.BaseModel):
    name: str
    value: int
app = typer.Typer()
@app.command()
def first(path: str) -> None:
    row = Row(**yaml.load(open(path, encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    table = Table()
    table.add_column(row.name)
    table.add_row(str(row.value))
    Console().print(table)
@app.command()
def second() -> None:
    pass
app()
"""
KV = ["kv", "--model", "Qwen/Qwen3-8B", "--ctx", "32768"]
DECODE = ["decode", "--model", "Qwen/Qwen3-8B", "--hardware", "h100-sxm", "--ctx", "8192"]


# As an installed program runs: with its bytecode cached.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(command: list[str]) -> tuple[float, float]:
    """(seconds, peak MiB) of one run."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return seconds, usage.ru_maxrss / 1024


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        toy, stack, data = (Path(folder) / name for name in ("toy.py", "stack.py", "row.yaml"))
        toy.write_text(TOY, encoding="utf-8")
        stack.write_text(STACK, encoding="utf-8")
        data.write_text("name: a\nvalue: 1\n", encoding="utf-8")
        python = sys.executable
        llmcalc = str(Path(python).parent / "llmcalc")
        programs = {
            "python -c pass": [python, "-c", "pass"],
            "toy: typer + rich": [python, str(toy), "first"],
            "toy --help": [python, str(toy), "--help"],
            "stack: + pydantic + YAML": [python, str(stack), "first", str(data)],
            "llmcalc --help": [llmcalc, "--help"],
            "llmcalc kv": [llmcalc, *KV],
            "llmcalc kv --explain": [llmcalc, *KV, "--explain"],
            "llmcalc decode": [llmcalc, *DECODE],
        }
        for command in programs.values():
            measure(command)  # warm the file cache and the bytecode
        times: dict[str, list[float]] = {name: [] for name in programs}
        peaks = dict.fromkeys(programs, 0.0)
        for _ in range(rounds):
            for name, command in programs.items():
                seconds, peak = measure(command)
                times[name].append(seconds)
                peaks[name] = max(peaks[name], peak)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'':28} {'median':>9} {'/ toy':>6} {'/ stack':>8} {'peak':>9}   ({rounds} interleaved rounds)")
    for name, median in medians.items():
        print(
            f"{name:28} {median * 1e3:6.0f} ms {median / medians['toy: typer + rich']:6.2f}"
            f" {median / medians['stack: + pydantic + YAML']:8.2f} {peaks[name]:5.0f} MiB"
        )
    print(f"--help against the toy's --help: {medians['llmcalc --help'] / medians['toy --help']:.2f}")


if __name__ == "__main__":
    _ = resource  # wait4 is POSIX only, as is this module: fail at import elsewhere
    main()
