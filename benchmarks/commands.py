"""Processor time and peak memory of whole commands, as multiples of the floor of llmcalc's own stack in the same run.

    python benchmarks/commands.py [rounds] [word of a name]

The floor is startup.py's: a typer command with one pydantic model, one YAML file and one rich table. Rounds are interleaved
and the least of each is taken, so that a busy machine is busy for all. `goal` is in seconds on the machine on which the floor
takes 0.185 s of processor time; beside it stands what was measured, scaled to that machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from startup import ENVIRONMENT, STACK

FLOOR_S = 0.185  # of which `kv` may take 0.65: 120 ms
LLAMA = ["-m", "meta-llama/Llama-3.1-8B"]
PLAN = ["plan", *LLAMA, "--output-tokens", "400"]
SIMULATE = ["simulate", *LLAMA, "-d", "h100", "--rate", "2", "--prompt", "2k", "--output-tokens", "200"]
ROWS = 1_000_000
COMMANDS: dict[str, tuple[float, list[str]]] = {
    "kv": (0.65 * FLOOR_S, ["kv", *LLAMA]),
    "models list": (0.35, ["models", "list"]),
    "hardware list": (0.2, ["hardware", "list"]),
    "doctor": (0.25, ["doctor"]),
    "accuracy": (0.6, ["accuracy"]),
    "plan, default devices": (1.5, [*PLAN, "--rate", "12", "--prompt", "3000"]),
    "plan, 128k prompts": (3, [*PLAN, "--rate", "1", "--prompt", "128k"]),
    "plan, 1M prompts": (
        5,
        ["plan", "-m", "meta-llama/Llama-4-Scout-17B-16E", "--output-tokens", "400", "--rate", "0.1", "--prompt", "1M"],
    ),
    "plan, 5 devices": (3, [*PLAN, "--rate", "12", "--prompt", "3000", "-d", "h100,h200,a100,l40s,b200"]),
    "simulate --chunk 1": (2, [*SIMULATE, "--chunk", "1"]),
    "simulate, a million requests": (6, [*SIMULATE, "-n", "1000000"]),
    "simulate, a trace of a million rows": (15, ["simulate", *LLAMA, "-d", "h100", "--trace", "TRACE"]),
    "plan, a trace of a million rows": (30, ["plan", *LLAMA, "--trace", "TRACE"]),
    "compare, all models": (10, ["compare", "-m", "all", "-d", "h100"]),
    "compare, all of both": (30, ["compare", "-m", "all", "-d", "all"]),
}


def spent(command: list[str]) -> tuple[float, float, int]:
    """(processor seconds, peak MiB, exit status) of one run."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(child.pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as folder:
        stack, data, trace = (Path(folder) / name for name in ("stack.py", "row.yaml", "trace.csv"))
        stack.write_text(STACK, encoding="utf-8")
        data.write_text("name: a\nvalue: 1\n", encoding="utf-8")
        chosen = {name: told for name, told in COMMANDS.items() if word in name}
        if any("TRACE" in command for _, command in chosen.values()):
            rows = (f"{number / 5},{1000 + number % 1500},{100 + number % 200}\n" for number in range(ROWS))
            trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "".join(rows), encoding="utf-8")
        floor = [sys.executable, str(stack), "first", str(data)]
        programs = {
            name: [sys.executable, "-m", "llmcalc", *(str(trace) if part == "TRACE" else part for part in command)]
            for name, (_, command) in chosen.items()
        }
        spent(floor)
        least, peaks, failed = {"": spent(floor)[0]}, dict.fromkeys(programs, 0.0), set()
        for _ in range(rounds):
            least[""] = min(least[""], spent(floor)[0])
            for name, command in programs.items():
                seconds, peak, status = spent(command)
                least[name] = min(least.get(name, seconds), seconds)
                peaks[name] = max(peaks[name], peak)
                if status not in (0, 3):
                    failed.add(name)
    print(f"floor: {least['']:.3f} s of processor time; {rounds} interleaved rounds")
    for name, (goal, _) in chosen.items():
        scaled = least[name] / least[""] * FLOOR_S
        verdict = "failed" if name in failed else "" if scaled <= goal else "OVER"
        measured = f"{least[name]:8.2f} s {least[name] / least['']:8.2f} × floor"
        print(f"{name:36} {measured} {scaled:8.2f} of {goal:5.2f} {peaks[name]:6.0f} MiB {verdict}")


if __name__ == "__main__":
    main()
