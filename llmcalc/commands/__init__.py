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
    "report",
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

GROUPS: dict[str, tuple[tuple[str, str], ...]] = {
    "memory": (
        ("kv", "KV cache by kind of layer"),
        ("weights", "parameters and bytes"),
        ("fit", "does it fit, how often"),
    ),
    "speed": (
        ("decode", "time per token"),
        ("prefill", "time to the first token"),
        ("quant", "what number formats buy"),
        ("spec", "gain of drafted tokens"),
        ("layouts", "tp, pp, ep, dp compared"),
        ("roofline", "under a device's roof"),
    ),
    "money": (
        ("cost", "USD per million tokens"),
        ("compare", "devices side by side"),
        ("pareto", "speed against cost"),
        ("rank", "models for a device"),
    ),
    "service": (
        ("plan", "devices for a rate"),
        ("report", "one page of it all"),
        ("simulate", "percentiles of a replica"),
        ("prefix", "gain of a prefix cache"),
        ("levers", "what makes it faster"),
    ),
    "practice": (("quiz", "interview questions"), ("accuracy", "how far off it is")),
    "data": (("models", "what is bundled"), ("hardware", "devices and prices"), ("doctor", "what is installed")),
}
"""The commands by what they are for, in a few words each."""
