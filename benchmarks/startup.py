"""Whole-process time of llmcalc commands against toys in the same run, as ratios.

    python benchmarks/startup.py [rounds]

The toys: a bare interpreter, a typer + rich program with two commands that prints one table, and the floor of llmcalc's own
stack (a typer command with one pydantic model, one YAML file and one rich table). Rounds are interleaved, so that a
noisy machine is noisy for all: the ratios are the medians of each round's own ratio. Peak memory is the child's maximum
resident set. The sweep of a million operating points is run three times.
"""

from __future__ import annotations

import json
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
PARETO = ["pareto", "--model", "meta-llama/Meta-Llama-3-8B", "--hardware", "all", "--weights", "all", "--kv-dtype", "all", "--tp", "all"]
PARETO += ["--ctx", "16k", "--json"]  # above a million points
COMPLETES = "completion of a model"
COMPLETION = {"_LLMCALC_COMPLETE": "complete_bash", "COMP_WORDS": "llmcalc kv --model Qwen/Qwen3-8", "COMP_CWORD": "3"}


# As an installed program runs: with its bytecode cached.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(command: list[str], **environment: str) -> tuple[float, float]:
    """(seconds, peak MiB) of one run."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT | environment)
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
            COMPLETES: [llmcalc],
        }
        extra = {COMPLETES: COMPLETION}
        for name, command in programs.items():
            measure(command, **extra.get(name, {}))  # warm the file cache and the bytecode
        times: dict[str, list[float]] = {name: [] for name in programs}
        peaks = dict.fromkeys(programs, 0.0)
        for _ in range(rounds):
            for name, command in programs.items():
                seconds, peak = measure(command, **extra.get(name, {}))
                times[name].append(seconds)
                peaks[name] = max(peaks[name], peak)
        swept = [measure([llmcalc, *PARETO]) for _ in range(3)]
        points = json.loads(subprocess.run([llmcalc, *PARETO], env=ENVIRONMENT, capture_output=True, check=True).stdout)

    def against(name: str, floor: str) -> float:
        return statistics.median(mine / its for mine, its in zip(times[name], times[floor], strict=True))

    print(f"{'':28} {'median':>9} {'/ toy':>6} {'/ stack':>8} {'peak':>9}   ({rounds} interleaved rounds)")
    for name, values in times.items():
        print(
            f"{name:28} {statistics.median(values) * 1e3:6.0f} ms {against(name, 'toy: typer + rich'):6.2f}"
            f" {against(name, 'stack: + pydantic + YAML'):8.2f} {peaks[name]:5.0f} MiB"
        )
    print(f"--help against the toy's --help: {against('llmcalc --help', 'toy --help'):.2f}")
    seconds, peak = statistics.median(each[0] for each in swept), max(each[1] for each in swept)
    print(f"llmcalc pareto, {points['results']['points_evaluated']:,} points: {seconds:.2f} s, {peak:.0f} MiB")


if __name__ == "__main__":
    _ = resource  # wait4 is POSIX only, as is this module: fail at import elsewhere
    main()
