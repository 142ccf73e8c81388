"""Every option of every command: given, the answer is another one, or it says that the option had no effect."""

from __future__ import annotations

import inspect
import io
import json
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from llmcalc.cli import main
from llmcalc.commands import COMMANDS, options

MODEL = "-m meta-llama/Meta-Llama-3-8B"
MIXTURE = "-m Qwen/Qwen3-30B-A3B"
BASE = {
    "kv": f"{MODEL} -d h100-sxm",
    "weights": MODEL,
    "fit": f"{MODEL} -d h100-sxm",
    "decode": f"{MODEL} -d h100-sxm -b 8",
    "cost": f"{MODEL} -d h100-sxm -b 8",
    "quant": f"{MODEL} -d h100-sxm --weights bf16,fp8 --kv-dtype bf16",
    "prefill": f"{MODEL} -d h100-sxm --prompt 4k",
    "spec": f"{MODEL} -d h100-sxm --acceptance 0.7 --draft-cost 0.05",
    "plan": f"{MODEL} -d h100-sxm --rate 2 --prompt 1k --output-tokens 100 --tp 1",
    "simulate": f"{MODEL} -d h100-sxm --rate 2 --prompt 1k --output-tokens 100 -n 100",
    "prefix": f"{MODEL} -d h100-sxm --prompt 4k",
    "levers": f"{MODEL} -d h100-sxm --prompt 2k",
    "layouts": f"{MODEL} -d 2xh100-sxm",
    "compare": f"{MODEL} -d h100-sxm,l40s",
    "pareto": f"{MODEL} -d h100-sxm,l40s",
    "roofline": f"{MODEL} -d h100-sxm",
}
VALUES = {
    "hardware": "h200-sxm",
    "weights": "fp8",
    "kv_dtype": "fp8",
    "tp": "2",
    "pp": "2",
    "ep": "2",
    "cp": "2",
    "dcp": "2",
    "redundant_experts": "32",
    "expert_imbalance": "1.5",
    "link": "pcie4-host",
    "network": "100Gb/s",
    "power_cap": "250W",
    "engine": "vllm",
    "memory_utilization": "0.5",
    "reserve": "20GB",
    "max_num_batched_tokens": "512",
    "max_num_seqs": "4",
    "lora_rank": "64",
    "max_loras": "8",
    "lora_targets": "q_proj",
    "ctx": "1k",
    "batch": "3",
    "prompt": "512",
    "cached": "128",
    "output_tokens": "50",
    "chunk": "256",
    "rate": "5",
    "reasoning_tokens": "500",
    "arrival_cv": "3",
    "prompt_cv": "1",
    "output_cv": "1",
    "seed": "5",
    "max_ttft": "1ms",
    "max_tpot": "9ms",
    "percentile": "50",
    "mfu": "0.2",
    "mbu": "0.2",
    "max_batch": "1",
    "draft_tokens": "2",
    "draft": "meta-llama/Llama-3.2-1B-Instruct",
    "price": "77",
    "method": "roofline",
}
FULL = "-b 56 -c 8k"  # 56 x 8,192 x 131,072 B and 16 GB of weights: 76 of 80 GB, so that any further byte is too much
VLLM = "--engine vllm --memory-utilization 0.92"
WITH: dict[tuple[str, str], tuple[str, str]] = {
    ("kv", "max_num_batched_tokens"): ("-m google/gemma-3-27b-it --engine vllm -c 32k", "512"),
    ("fit", "draft_tokens"): ("-m deepseek-ai/DeepSeek-V3 -d 8xh200-sxm", "1"),
    ("fit", "block_size"): ("--engine vllm", "1024"),
    ("fit", "available_kv"): ("--engine vllm", "5"),
    ("decode", "prompt"): ("--output-tokens 100 --prompt 1k", "4k"),
    ("decode", "output_tokens"): ("--output-tokens 100 --prompt 1k", "400"),
    ("cost", "utilization"): ("", "0.5"),
    **{(command, "gpu_layers"): ("--engine llama.cpp", "20") for command in BASE},
    **{(command, "n_cpu_moe"): (f"{MIXTURE} --engine llama.cpp", "20") for command in BASE},
    **{(command, "cpu_offload_gb"): ("--engine vllm", "5") for command in BASE},
    **{(command, "host"): ("--engine llama.cpp -ngl 20", "epyc-9654") for command in BASE},
    **{(command, "host_bandwidth"): ("--engine llama.cpp -ngl 20", "9GB/s") for command in BASE if command != "prefix"},
    **{(command, "price_kind"): ("-d h100-sxm", "spot") for command in BASE},
    ("cost", "purchase"): ("--owned", "9999"),
    ("cost", "years"): ("-d rtx-4090 --owned", "2"),
    ("cost", "kwh"): ("-d rtx-4090 --owned", "0.4"),
    ("cost", "pue"): ("-d rtx-4090 --owned", "2"),
    ("quant", "kv_dtype"): ("", "fp8,int8"),
    ("prefill", "kv_dtype"): ("--cached 3k", "fp8"),
    ("prefill", "ctx"): ("-b 4", "1k"),
    ("prefill", "chunk"): ("-b 4", "256"),
    ("spec", "acceptance"): ("", "0.3"),
    ("spec", "draft_cost"): ("", "0.4"),
    ("spec", "draft_tokens"): ("", "9"),
    ("plan", "max_utilization"): ("--rate 30", "0.2"),
    ("plan", "percentile"): ("--rate 20 --arrival-cv 3 --max-ttft 150ms", "5"),
    ("plan", "transfer"): ("--disaggregate", "1GB/s"),
    ("plan", "success_rate"): ("", "0.5"),
    ("plan", "replicas"): ("--load-test", "5"),
    ("simulate", "percentile"): ("--rate 20 --arrival-cv 3 --max-ttft 150ms", "5"),
    ("simulate", "max_tpot"): ("", "1ms"),
    ("simulate", "requests"): ("", "200"),
    ("simulate", "reserve"): ("--rate 25", "63GB"),
    ("simulate", "engine"): ("--rate 25 --reserve 58GB", "vllm"),
    ("plan", "link"): ("-d 2xh100-sxm --tp 2", "pcie4-host"),
    ("prefix", "prefix"): ("", "1k"),
    ("prefix", "block"): ("--prefix 1000", "64"),
    ("prefix", "batch"): ("--prefix 1000", "5"),
    ("prefix", "users"): ("", "100"),
    ("prefix", "zipf"): ("--users 5000", "1"),
    ("prefix", "replicas"): ("--users 5000", "4"),
    ("prefix", "routing"): ("--users 5000 --replicas 4", "random"),
    ("prefix", "reserved"): ("", "32k"),
    ("prefix", "host_bandwidth"): ("", "10GB/s"),
    ("levers", "goal"): ("", "ttft"),
    ("compare", "sort"): ("-d h100-sxm,l40s,a100-80-sxm", "name"),
    ("pareto", "min_tokens_per_s"): ("", "99999"),
    ("pareto", "budget"): ("", "1"),
    ("pareto", "mark"): ("", "chat=50ms"),
    ("pareto", "point"): ("", "h100-sxm batch=4"),
    ("pareto", "x"): ("", "tokens_per_s_per_user"),
    **{(command, "link"): ("-d 2xh100-sxm", "pcie4-host") for command in BASE if command != "plan"},
    ("kv", "lora_rank"): ("-c 1k", "64"),
    **{(command, "power_cap"): ("-d rtx-3090 -m Qwen/Qwen3-8B --weights q4_k_m", "250W") for command in BASE},
    **{
        (command, "dcp"): ("-m deepseek-ai/DeepSeek-V3 -d 8xh200-sxm --tp 8" + " --cached 3k" * (command == "prefill"), "2")
        for command in BASE
    },
    **{
        (command, name): (f"{MIXTURE} -d 8xh100-sxm --ep 8 --tp 1", value)
        for command in BASE
        for name, value in (("redundant_experts", "32"), ("expert_imbalance", "1.5"))
    },
    **{(command, "dp"): (MIXTURE, "2") for command in BASE if command not in ("plan", "simulate")},
    **{(command, "image"): ("-m google/gemma-3-27b-it -d h200-sxm", "896x896,4") for command in BASE},
    **{(command, "max_loras"): ("--lora-rank 64 --max-loras 2", "16") for command in BASE},
    **{(command, "lora_targets"): ("-c 1k --lora-rank 64" if command == "kv" else "--lora-rank 64", "q_proj") for command in BASE},
    **{
        (command, name): (FULL, value)
        for command in ("decode", "cost", "spec")
        for name, value in (("engine", "vllm"), ("reserve", "20GB"))
    },
    **{(command, "memory_utilization"): (FULL, "0.5") for command in ("decode", "cost", "spec")},
    **{
        (command, name): (VLLM, "65536" if name == "max_num_batched_tokens" else "4096")
        for command in ("fit", "quant", "levers", "layouts", "prefix", "plan", "compare", "pareto")
        for name in ("max_num_batched_tokens", "max_num_seqs")
    },
}
"""(Command, option): what it needs beside it to have an effect, and another value than the usual one."""
ELSEWHERE = {
    "trace",
    "tier",
    "traffic",
    "measured",
    "owned",
    "from_files",
    "load_test",
    "disaggregate",
    "p",
    "q",
    "api_input",
    "api_output",
    "draft",
    "preset",
    "x",
    "y",
    "network",
    "whole_nodes",
    "enforce_eager",
    "no_graph_estimate",
    "language_model_only",
}
"""Files, switches, alternatives and what only a picture or several nodes show, each with tests of its own."""
VERDICT_ONLY = {
    (command, name) for command in ("decode", "cost", "spec", "simulate", "kv") for name in ("max_num_batched_tokens", "max_num_seqs")
}
"""What these change is a verdict that flips at a few MiB."""


def taken() -> Iterator[tuple[str, str, options.Option[Any]]]:
    """(Command, name, option) of every option that a command shows, but for those of the source and of the output."""
    for command in BASE:
        function = getattr(import_module(f"llmcalc.commands.{command}"), command)
        for one in inspect.signature(function, eval_str=True).parameters.values():
            for name, option in one.annotation.options().items():
                if (
                    not option.shown.get("hidden")
                    and name not in {*options.Whence.options(), *options.Output.options(), "model", *ELSEWHERE}
                    and (command, name) not in VERDICT_ONLY
                ):
                    yield command, name, option


@cache
def answer(line: str) -> dict[str, Any]:
    """What a command says as JSON; without an option it is asked once for all of them."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        main([*shlex.split(line), "--json"])
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def cases() -> Iterator[Any]:
    """The options; those of commands that simulate, search or weigh ten changes are the nightly part's."""
    for command, name, option in taken():
        marks = [pytest.mark.nightly] if command in ("plan", "simulate", "pareto", "spec", "levers") else []
        yield pytest.param(command, name, option, marks=marks, id=f"{command} --{option.title}")


@pytest.mark.parametrize(("command", "name", "option"), list(cases()))
def test_an_option_changes_the_answer_or_is_said_not_to(command: str, name: str, option: options.Option[Any]) -> None:
    needs, value = WITH.get((command, name), ("", VALUES.get(name, "")))
    base = f"{command} {BASE[command]} {needs}"
    given = f"--{option.title} {shlex.quote(value)}"
    without, with_it = answer(base), answer(f"{base} {given}")
    assert "error" not in with_it, with_it
    told = [{key: each.get(key) for key in ("results", "rows", "error")} for each in (without, with_it)]
    said = any(text.startswith(f"{option.title}: ") for text in with_it["warnings"])
    assert said != (told[0] != told[1]), f"{given} {'is said to have no effect, and has one' if said else 'is ignored without a word'}"


def test_every_command_that_estimates_is_here() -> None:
    assert set(BASE) == set(COMMANDS) - {"models", "hardware", "quiz", "accuracy", "doctor", "rank", "report"}
