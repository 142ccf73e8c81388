"""One file per command, thin: parse -> estimate -> report. A new command is a file here and its name in COMMANDS."""

from __future__ import annotations

COMMANDS: tuple[str, ...] = (
    "kv",
    "weights",
    "fit",
    "decode",
    "cost",
    "quant",
    "prefill",
    "spec",
    "plan",
    "simulate",
    "prefix",
    "levers",
    "layouts",
    "rank",
    "compare",
    "pareto",
    "roofline",
    "models",
    "hardware",
    "quiz",
    "accuracy",
    "doctor",
)
