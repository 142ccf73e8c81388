"""Scripts rely on it: every command, option, key, unit and exit code that is promised, for many models and devices.

What is expected stands in the contract (names, types, units, order) or is one figure held against another command's.
"""

from __future__ import annotations

import functools
import io
import json
import random
import re
import shlex
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from llmcalc import answers, hardware, sources
from llmcalc.cli import main

LLAMA = "meta-llama/Meta-Llama-3-8B"
H100 = ("-d", "h100-sxm")
TRAFFIC = ("--rate", "1", "--prompt", "100", "--output-tokens", "10")
MODELS = (
    "Qwen/Qwen3-8B",  # dense
    "openai/gpt-oss-20b",  # a mixture with windows, shipped in mxfp4
    "deepseek-ai/DeepSeek-V3",  # latent attention
    "Qwen/Qwen3-Next-80B-A3B-Instruct",  # linear and full attention
    "google/gemma-3-27b-it",  # windows, a vision tower
    "google-t5/t5-base",  # encoder and decoder, no longest context
    "state-spaces/mamba-130m-hf",  # no attention, no longest context
)

# command: what it needs beside a model, keys of its results, keys of its rows
COMMANDS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "kv": (
        (),
        "kv_bytes_per_token kv_bytes_per_token_beyond_window state_bytes_per_sequence kv_bytes_per_sequence kv_bytes_total "
        "kv_bytes_per_sequence_full_attention query_heads_per_kv_head max_context_tokens native_context_tokens",
        "kind layers bytes_per_token window_tokens state_bytes bytes_per_sequence",
    ),
    "weights": (
        (),
        "language_params tower_params total_params active_params active_params_with_embedding embedding_params weight_bytes "
        "bits_per_weight mtp_params",
        "part params active_params bytes",
    ),
    "fit": (
        H100,
        "memory_bytes usable_bytes reserve_bytes weight_bytes kv_budget_bytes kv_capacity_tokens kv_bytes_per_sequence max_batch "
        "max_batch_exact max_ctx_tokens fits",
        "item bytes",
    ),
    "decode": (
        H100,
        "step_time_s tpot_s tokens_per_s_per_user tokens_per_s weight_read_s kv_read_s compute_s communication_s overhead_s bound "
        "critical_batch kv_crossover_batch ceiling_tokens_per_s single_stream_ceiling_tokens_per_s arithmetic_intensity_flops_per_byte "
        "ridge_point_flops_per_byte fits expected_step_time_s expected_step_time_low_s expected_step_time_high_s",
        "",
    ),
    "prefill": (
        H100,
        "ttft_s prefill_time_s prefill_flops attention_flops prompt_tokens_per_s bound expected_ttft_s expected_ttft_low_s "
        "expected_ttft_high_s",
        "",
    ),
    "cost": (
        H100,
        "usd_per_million_output_tokens usd_per_million_input_tokens usd_per_million_blended usd_per_million_output_floor "
        "fixed_usd_per_million marginal_usd_per_million usd_per_hour energy_joules_per_token",
        "",
    ),
    "quant": (
        H100,
        "",
        "weights kv_dtype bits_per_weight weight_bytes max_batch step_time_s tokens_per_s critical_batch usd_per_million_output_tokens "
        "native speedup",
    ),
    "compare": (
        H100,
        "",
        "hardware count fits max_batch batch tpot_s tokens_per_s_per_user tokens_per_s ttft_s usd_per_million_output_tokens "
        "tokens_per_s_per_usd_hour why",
    ),
    "pareto": (
        H100,
        "points_evaluated points_on_front chosen",
        "hardware count tp weights kv_dtype batch tpot_s tokens_per_s_per_user tokens_per_s_per_device usd_per_million_output_tokens",
    ),
    "plan": (
        (*H100, *TRAFFIC),
        "devices replicas tp batch_limit utilization max_rate_per_replica ttft_p50_s ttft_p95_s ttft_p99_s tpot_p50_s tpot_p95_s "
        "usd_per_month usd_per_million_output_tokens binding next_lever",
        "",
    ),
    "spec": (
        (*H100, "--acceptance", "0.8", "--draft-cost", "0.05"),
        "acceptance draft_tokens expected_tokens_per_step speedup best_draft_tokens step_time_s",
        "",
    ),
    "levers": (H100, "", ""),
}
ENVELOPE = [
    "schema",
    "command",
    "model",
    "hardware",
    "inputs",
    "results",
    "rows",
    "remarks",
    "assumptions",
    "warnings",
    "parts",
    "derivations",
]
BOUNDS = {"memory-weights", "memory-kv", "compute", "communication"}
SIGNED = {
    "kv_budget_bytes",
    "max_batch_exact",
    "usable_bytes",
    "bytes",
    "saved_by_kv_s",
}  # what is lacking; a ledger; a cache that gains nothing
WHOLE = re.compile(r"_bytes$|_params$|^max_batch$|max_ctx_tokens|kv_capacity_tokens|window_tokens|context_tokens|^layers$|^count$")
NEVER_ZERO = re.compile(r"step_time_s|tpot_s|ttft_s|prefill_time_s|tokens_per_s|weight_bytes|language_params|critical_batch")


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a run, whose stderr is empty."""
    capsys.readouterr()
    code = main([*args, "--json"])
    out, err = capsys.readouterr()
    assert err == "", (args, err)
    answer: dict[str, Any] = json.loads(out, parse_constant=lambda word: pytest.fail(f"{args}: {word}"))
    return code, answer


def ask(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    """The JSON of a run that succeeds."""
    code, answer = run(capsys, *args)
    assert code == 0, (args, answer.get("error"))
    return answer


def values(held: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(held, dict):
        for name, inner in held.items():
            yield from values(inner, name)
    elif isinstance(held, list):
        for inner in held:
            yield from values(inner, key)
    else:
        yield key, held


def promised_keys(answer: dict[str, Any], said: str) -> None:
    """The keys are those of the command's records, each and in order, and nothing else; what was not asked for may be absent."""
    kinds = answers.RESULTS.get(answer["command"])
    if kinds:
        given = set(answer["results"])
        asked = [kinds[0], *(kind for kind in kinds[1:] if given & set(answers.words(kind)))]
        expected = [key for kind in asked for key in answers.words(kind) if key in given or not optional(kind, key)]
        assert list(answer["results"]) == expected, said
    for row in answer.get("rows", []):
        rows = [[key for key in answers.words(kind) if key in row or not optional(kind, key)] for kind in answers.ROWS[answer["command"]]]
        assert list(row) in rows, said


@functools.cache
def optional(kind: type[answers.Answer], key: str) -> bool:
    return answers.Absent in get_args(get_type_hints(kind)[f"{key}_" if iskeyword(key) else key])


def sound(answer: dict[str, Any], said: str) -> None:
    """Keys, their order, types by unit, nothing negative or zero that cannot be, and a reason for every promised null."""
    assert list(answer) == [key for key in ENVELOPE if key in answer], said
    if answer["command"] in answers.RESULTS:
        promised_keys(answer, said)
    promised = COMMANDS.get(answer["command"], ((), "", ""))
    assert set(promised[1].split()) <= set(answer["results"]), said
    for row in answer.get("rows", []):
        assert set(promised[2].split()) <= set(row), said
    for key in promised[1].split():
        if answer["results"][key] is None:
            assert answer["warnings"], f"{said}: {key} is null without a word"
    for key, value in [*values(answer["results"]), *values(answer.get("rows", []))]:
        if value is None or isinstance(value, str | bool):
            assert key != "bound" or value is None or value in BOUNDS, said
            assert key != "fits" or not isinstance(value, str), said
            continue
        assert isinstance(value, int) or not WHOLE.search(key), f"{said}: {key} {value}"
        assert value >= 0 or key in SIGNED, f"{said}: {key} {value}"
        assert value != 0 or not NEVER_ZERO.fullmatch(key), f"{said}: {key} is 0"


# ---- options ------------------------------------------------------------------------------------------------------------

FIRST = "--ctx 4k --batch 2 --weights fp8 --kv-dtype fp8 --tp 2 --pp 1 --ep 1 --price 2.50 --reserve 1GB --engine vllm"
SPELLINGS = (
    f"--model {LLAMA} --hardware h100-sxm {FIRST} --memory-utilization 0.9 --offline --explain --check --format json",
    f"-m {LLAMA} -d h100-sxm -c 4K -b 2 --weights FP8 --kv-cache-dtype FP8 --gpu-memory-utilization 90% -f json",
    f"-m {LLAMA} --gpu h100-sxm --context 4_096 --price $2 --json",
    f"-m {LLAMA} --device h100-sxm --max-model-len 4096 --json",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_estimating_command_takes_the_shared_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    needs = [word for word in COMMANDS[command][0] if word not in H100]
    for words in SPELLINGS[:1] if command == "plan" else SPELLINGS:  # a plan simulates
        answer = ask(capsys, command, *words.split(), *needs)
        sound(answer, f"{command} {words}")
        if "explain" in words and command != "levers":
            assert answer["derivations"], command
        if command not in ("plan", "levers", "weights"):
            assert answer["inputs"]["ctx_tokens"] == 4096
        if "fp8" in words.lower() and command != "weights":
            assert answer["inputs"]["kv_dtype"] in ("fp8", ["fp8"])


def test_an_option_without_effect_is_said_to_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "decode", "-m", LLAMA, *H100, "--price", "2")["warnings"]
    assert "price: decode makes no use of it" in said
    assert not any("makes no use" in text for text in ask(capsys, "cost", "-m", LLAMA, *H100, "--price", "2", "--pp", "1")["warnings"])
    code, answer = run(capsys, "compare", "-m", LLAMA, *H100, "--pp", "2")  # no effect here would be a wrong answer
    assert code == 2 and answer["error"]["code"] == "bad-layout"


def test_formats_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    for name in "fp32 bf16 fp16 fp8 int8 int4 awq gptq nf4 mxfp4 nvfp4 w8a8 w4a16 w8a16 Q4-K-M q8_0 IQ2_XS q6_k".split():
        found = ask(capsys, "weights", "-m", LLAMA, "--weights", name)
        assert found["inputs"]["weights"] == name.lower().replace("-", "_")
    # 2 x 32 layers x 8 heads x 128 = 65,536 numbers a token; a GGUF block of 32 has 2 bytes of scale, and 2 of an offset in _1
    blocks = {"q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18, "iq4_nl": 18}
    expected = {"bf16": 131072, "fp16": 131072, "fp8": 65536, "int8": 65536} | {name: 2048 * size for name, size in blocks.items()}
    for name, size in expected.items():
        assert ask(capsys, "kv", "-m", LLAMA, "--kv-dtype", name.upper())["results"]["kv_bytes_per_token"] == size
    assert ask(capsys, "kv", "-m", LLAMA, "--kv-dtype", "nvfp4")["results"]["kv_bytes_per_token"] == 65536 * 4.5 / 8


def test_defaults_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for command, expected in (("kv", 40960), ("fit", 8192), ("decode", 8192), ("cost", 8192), ("quant", 8192), ("compare", 8192)):
        answer = ask(capsys, command, "-m", "Qwen/Qwen3-8B", *COMMANDS[command][0])
        assert answer["inputs"]["ctx_tokens"] == expected
        assert f"ctx {expected:,} tokens: not given" in " ".join(answer["assumptions"])
        assert command == "compare" or answer["inputs"]["batch"] == 1
    for command in ("kv", "decode"):  # a config without a longest context
        answer = ask(capsys, command, "-m", "state-spaces/mamba-130m-hf", *COMMANDS[command][0])
        assert "ctx 8,192 tokens: not given, and the config names no maximum" in answer["assumptions"]


def test_inputs_are_echoed(capsys: pytest.CaptureFixture[str]) -> None:
    layout = ("-c", "4k", "-b", "3", "--tp", "2", "--reserve", "6GB", "--weights", "fp8", "--kv-dtype", "int8")
    for command in ("kv", "fit", "decode", "cost"):
        echo = ask(capsys, command, "-m", LLAMA, *H100, *layout)["inputs"]
        expected = {"ctx_tokens": 4096, "batch": 3, "tp": 2, "reserve_bytes": 6_000_000_000, "weights": "fp8", "kv_dtype": "int8"}
        assert expected.items() <= echo.items()
    echo = ask(capsys, "cost", "-m", LLAMA, *H100, "--price", "3", "--prompt", "1k", "--output-tokens", "10")["inputs"]
    assert (echo["usd_per_device_hour"], echo["prompt_tokens"], echo["output_tokens"]) == (3, 1024, 10)


# ---- every model, every device --------------------------------------------------------------------------------------------


def test_a_sample_of_all_models(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = random.Random(7).sample(sources.bundled_ids(), 12)
    for model in chosen:
        for args in (["kv"], ["weights"], ["fit", *H100], ["decode", *H100, "-b", "16"], ["cost", *H100], ["prefill", *H100]):
            sound(ask(capsys, args[0], "-m", model, *args[1:]), f"{model} {args}")


def test_a_sample_of_all_devices(capsys: pytest.CaptureFixture[str]) -> None:
    known = {"no-link", "no-memory-size", "no-compute-rate"}  # what a profile does not say, and no estimate can do without
    chosen = random.Random(7).sample(hardware.ids(), 14)
    for number, device in enumerate(chosen):
        model = MODELS[number % len(MODELS)]
        for args in (["fit"], ["decode", "--method", "roofline"], ["cost", "--tp", "2"], ["quant", "-c", "1k"], ["prefill"]):
            code, answer = run(capsys, args[0], "-m", model, "-d", device, *args[1:])
            if code:
                assert code == 2 and answer["error"]["code"] in known, (model, device, answer)
            else:
                sound(answer, f"{model} {device} {args}")


@pytest.mark.parametrize("model", MODELS)
def test_every_command_on_every_kind_of_model(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command, (needs, _, _) in COMMANDS.items():
        if command != "plan" or model in MODELS[:2]:  # a plan simulates
            eight = ["8x h100-sxm" if word == "h100-sxm" and command == "decode" else word for word in needs]
            sound(ask(capsys, command, "-m", model, *eight), f"{command} {model}")


# ---- one estimator --------------------------------------------------------------------------------------------------------

CASES = (
    (0, "h100-sxm", 1, "auto", "auto", 1, "napkin", "napkin"),
    (0, "rtx-4090", 2, "awq", "int4", 37, "napkin", "vllm"),
    (1, "h200-sxm", 8, "auto", "fp8", 16, "roofline", "napkin"),
    (2, "h200-sxm", 8, "fp8", "auto", 64, "napkin", "napkin"),
    (3, "mi300x", 2, "auto", "auto", 5, "roofline", "sglang"),
    (4, "a100-80-sxm", 1, "int8", "int8", 3, "napkin", "napkin"),
    (5, "l40s", 1, "q4_k_m", "q8_0", 8, "napkin", "llama.cpp"),
    (6, "apple-m4-pro", 1, "auto", "auto", 4, "napkin", "napkin"),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{MODELS[case[0]].split('/')[1]}-{case[1]}")
def test_the_commands_agree(case: tuple[int, str, int, str, str, int, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    number, device, tp, weights, kv, batch, method, engine = case
    model = MODELS[number]
    on = ("-m", model, "-c", "4k", "-d", device, "--tp", str(tp), "--weights", weights, "--kv-dtype", kv, "--engine", engine)
    sized = (*on, "-b", str(batch), "--method", method)
    priced = (*sized, "--price", "2.5")
    cache = ask(capsys, "kv", *on, "-b", str(batch))["results"]
    stored = ask(capsys, "weights", "-m", model, "--weights", weights)["results"]
    fit = ask(capsys, "fit", *on, "-b", str(batch))["results"]
    decode = ask(capsys, "decode", *sized)["results"]
    cost = ask(capsys, "cost", *priced)["results"]
    (quant,) = ask(capsys, "quant", *priced)["rows"]
    (compare,) = ask(capsys, "compare", *priced)["rows"]
    point = f"{tp}x {device} batch={batch}"
    (named,) = ask(capsys, "pareto", *on, "--method", method, "--price", "2.5", "--point", point)["results"]["named"]
    read = ask(capsys, "prefill", *on, "--prompt", "4k", "--method", method)["results"]
    (steps,) = [
        row
        for row in ask(capsys, "roofline", *on[:-2], "-b", str(batch), "--prompt", "4k", "--method", method)["rows"]
        if row["phase"] == "decode"
    ]
    about = {"rel": 1e-9}
    if tp == 1 and engine == "napkin":
        assert fit["kv_bytes_per_sequence"] == cache["kv_bytes_per_sequence"]
    assert stored["weight_bytes"] == fit["weight_bytes"] == quant["weight_bytes"]
    assert stored["bits_per_weight"] == pytest.approx(quant["bits_per_weight"], **about)
    assert cache["max_batch"] == fit["max_batch"] == quant["max_batch"] == compare["max_batch"]
    assert decode["fits"] == fit["fits"] == cost["fits"] == compare["fits"] == named["fits"] == quant["fits"]
    assert decode["tpot_s"] == decode["step_time_s"] == cost["tpot_s"]
    assert decode["tpot_s"] == pytest.approx(quant["step_time_s"], **about)
    assert decode["tpot_s"] == pytest.approx(named["tpot_s"], **about)
    assert decode["tpot_s"] == pytest.approx(steps["time_s"], **about)
    assert decode["critical_batch"] == pytest.approx(quant["critical_batch"], **about)
    dollars = cost["usd_per_million_output_tokens"]
    assert dollars == pytest.approx(2.5 * tp / 3600 / decode["tokens_per_s"] * 1e6, **about)
    assert dollars == pytest.approx(cost["fixed_usd_per_million"] + cost["marginal_usd_per_million"], **about)
    assert dollars == pytest.approx(quant["usd_per_million_output_tokens"], **about)
    assert dollars == pytest.approx(named["usd_per_million_output_tokens"], **about)
    assert named["energy_joules_per_token"] is cost["energy_joules_per_token"] or named["energy_joules_per_token"] == pytest.approx(
        cost["energy_joules_per_token"], **about
    )
    if compare["fits"]:
        assert compare["tpot_s"] == pytest.approx(decode["tpot_s"], **about)
        assert compare["usd_per_million_output_tokens"] == pytest.approx(dollars, **about)
        assert compare["ttft_s"] == pytest.approx(read["ttft_s"], **about)
        assert compare["bound"] == decode["bound"]


def test_groups_hold_whole_sequences_in_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    on = ("-m", "deepseek-ai/DeepSeek-V3", "-d", "h200-sxm", "--ep", "16", "--weights", "fp8", "-c", "8k")
    found = ask(capsys, "fit", *on)["results"]
    assert found["max_batch"] == found["max_batch_exact"] // 16 * 16
    (row,) = ask(capsys, "quant", *on, "--kv-dtype", "bf16")["rows"]
    assert row["max_batch"] == found["max_batch"] == ask(capsys, "kv", *on)["results"]["max_batch"]


# ---- odd, but legal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "decode", "cost", "quant", "prefill", "compare", "pareto", "levers"])
def test_odd_sizes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    odd = (["-c", "1"], ["-c", "1M"], ["-b", "1000000"], ["-d", "8x h100"], ["-d", "H100 80GB"], ["--kv-dtype", "iq4_nl"])
    for words in odd:
        where = () if "-d" in words else H100
        sound(ask(capsys, command, "-m", LLAMA, *where, *words), f"{command} {words}")


def test_a_price_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    free = ("-m", LLAMA, *H100, "--price", "0")
    for command in ("cost", "quant", "plan"):
        answer = ask(capsys, command, *free, *(TRAFFIC if command == "plan" else ()))
        assert (answer["rows"][0] if command == "quant" else answer["results"])["usd_per_million_output_tokens"] == 0
    (row,) = (answer := ask(capsys, "compare", *free))["rows"]
    assert row["usd_per_million_output_tokens"] == 0 and row["tokens_per_s_per_usd_hour"] is None
    assert "tokens_per_s_per_usd_hour: the price is 0" in answer["warnings"]
    answer = ask(capsys, "pareto", *free, "--point", "h100-sxm batch=1")
    assert {row["usd_per_million_output_tokens"] for row in answer["rows"]} == {0}


def test_what_no_engine_runs_is_estimated_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("fit", "decode", "cost", "quant"):
        for words, warning in (
            (("--tp", "3"), "tp 3, pp 1, ep 1: 32 query heads are not divisible by 3, so engines refuse this layout"),
            (("--ep", "4"), "tp 1, pp 1, ep 4: there are no experts to deal, so engines refuse this layout"),
            (("--pp", "64"), "tp 1, pp 64, ep 1: 32 layers do not make 64 stages, so engines refuse this layout"),
            (("-c", "32k"), "ctx 32,768 is beyond the model's own maximum of 8,192 tokens"),
        ):
            assert warning in ask(capsys, command, "-m", LLAMA, *H100, *words)["warnings"], command
        assert "trt-llm does not run on AMD" in ask(capsys, command, "-m", LLAMA, "-d", "mi300x", "--engine", "trt-llm")["warnings"]
    held = ask(capsys, "fit", "-m", LLAMA, *H100, "--tp", "16")  # 8 KV heads on 16 ranks: each is held twice
    assert held["results"]["kv_bytes_per_sequence"] == 2 * 131072 * 8192
    assert not any("engines refuse" in text for text in held["warnings"])
    lacking = ask(capsys, "fit", "-m", LLAMA, *H100, "--reserve", "200GB")["warnings"][0]
    assert lacking.startswith("does not fit") and "0 B are there" in lacking


@pytest.mark.parametrize(
    "command", ["decode", "fit", "cost", "quant", "spec --preset eagle", "levers", "prefix --prompt 4k", "roofline", "prefill --prompt 4k"]
)
def test_a_layout_that_engines_refuse_is_said_everywhere(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    warning = "tp 3, pp 1, ep 1: 32 query heads are not divisible by 3, so engines refuse this layout"
    assert warning in ask(capsys, *command.split(), "-m", LLAMA, *H100, "--tp", "3")["warnings"]


@pytest.mark.parametrize("command", ["spec --preset eagle --ctx", "levers --output-tokens 1 --prompt", "prefix --prompt", "roofline --ctx"])
def test_a_context_beyond_the_models_is_said_everywhere(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    warnings = ask(capsys, *command.split(), "32k", "-m", LLAMA, *H100)["warnings"]
    assert any("is beyond the model's own maximum of 8,192 tokens" in text for text in warnings)


NULLS = """
kv -m meta-llama/Meta-Llama-3-8B
kv -m google/gemma-3-27b-it -d h100-sxm --engine vllm
kv -m state-spaces/mamba-2.8b-hf
weights -m google/gemma-3-27b-it
fit -m meta-llama/Meta-Llama-3-8B -d h100-sxm
fit -m state-spaces/mamba-2.8b-hf -d h100-sxm
decode -m state-spaces/mamba-2.8b-hf -d h100-sxm
prefill -m state-spaces/mamba-2.8b-hf -d h100-sxm
cost -m meta-llama/Meta-Llama-3-8B -d rtx-4090
quant -m deepseek-ai/DeepSeek-V3 -d h100-sxm
quant -m meta-llama/Meta-Llama-3-8B -d rtx-4090
spec -m meta-llama/Meta-Llama-3-8B -d h100-sxm --preset eagle
spec -m meta-llama/Meta-Llama-3-8B -d h100-sxm --draft-cost 0.05 -a 1
spec -m meta-llama/Meta-Llama-3-8B -d h100-sxm --draft-cost 0.9 -a 0.1
spec --p 0.5,0.5 --q 0.5,0.5
compare -m meta-llama/Meta-Llama-3-8B -d h100-sxm,rtx-4090,t4
compare -m meta-llama/Meta-Llama-3-8B -d h100-sxm --max-tpot 1ms
pareto -m deepseek-ai/DeepSeek-V3 -d h100-sxm
plan -m meta-llama/Meta-Llama-3-8B -d rtx-4090 --tp 1 --rate 1 --prompt 1k --output-tokens 100
plan -m meta-llama/Meta-Llama-3-8B -d h100-sxm --tp 1 --rate 1 --prompt 1k --output-tokens 1
plan -m meta-llama/Meta-Llama-3-8B -d h100-sxm,rtx-4090 --tp 1 --rate 1 --prompt 1k --output-tokens 100 --max-tpot 8ms
plan -m meta-llama/Meta-Llama-3-8B -d h100-sxm --rate 1 --prompt 1k --output-tokens 100 --max-tpot 1ms
simulate -m meta-llama/Meta-Llama-3-8B -d h100-sxm --rate 5 --prompt 1k --output-tokens 1 --requests 100
levers -m deepseek-ai/DeepSeek-V3 -d h100-sxm
levers -m meta-llama/Meta-Llama-3-8B -d l40s --rate 300
layouts -m deepseek-ai/DeepSeek-V3 -d '8x h200-sxm'
hardware list
hardware show apple-m4-pro
doctor
"""


@pytest.mark.parametrize("line", NULLS.strip().splitlines())
def test_every_null_has_its_reason(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In `warnings`, by the name of its key, or of its kind as in `every usd_…`."""
    answer = ask(capsys, *shlex.split(line))
    said = " ".join(answer["warnings"])
    kinds = re.findall(r"\b(\w+_)…", said)
    held = [answer["results"], *answer.get("rows", [])]
    nulls = {key for each in held for key, value in each.items() if value is None}
    assert [key for key in nulls if not re.search(rf"\b{key}\b", said) and not any(kind in key for kind in kinds)] == []


def test_options_without_effect_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--engine", "vllm", "--reserve", "2GB", "--memory-utilization", "0.5", "--check")
    warnings = ask(capsys, "weights", "-m", LLAMA, *given)["warnings"]
    assert sorted(warnings) == [f"{name}: weights makes no use of it" for name in ("check", "engine", "memory-utilization", "reserve")]
    assert "ctx: prefix makes no use of it" in ask(capsys, "prefix", "-m", LLAMA, *H100, "--prompt", "1k", "-c", "2k")["warnings"]
    assert "tp: layouts makes no use of it" in ask(capsys, "layouts", "-m", LLAMA, "-d", "2x h100-sxm", "--tp", "2")["warnings"]
    four = ask(capsys, "prefix", "-m", LLAMA, *H100, "--prompt", "1k", "--batch", "4")
    assert four["results"]["sequences"] == 4 and four == ask(capsys, "prefix", "-m", LLAMA, *H100, "--prompt", "1k", "--sequences", "4")


def test_a_quantity_without_a_unit_is_read_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    """40 may have meant milliseconds, and 6 gigabytes."""
    for command in ("compare", "pareto", "plan"):
        answer = ask(capsys, command, "-m", LLAMA, *H100, "--max-tpot", "40", *(TRAFFIC if command == "plan" else ()))
        assert "max-tpot 40: no unit, so it is 40 s; write 40ms for milliseconds" in answer["warnings"]
    assert (
        "reserve 6: no unit, so it is bytes; write 6GB for gigabytes"
        in ask(capsys, "fit", "-m", LLAMA, *H100, "--reserve", "6")["warnings"]
    )
    for plain in (("--reserve", "0"), ("--reserve", "6GB"), ("--reserve", "6000000000")):
        assert not any("no unit" in text for text in ask(capsys, "fit", "-m", LLAMA, *H100, *plain)["warnings"])
    assert not any("no unit" in text for text in ask(capsys, "compare", "-m", LLAMA, *H100, "--max-tpot", "0.04")["warnings"])


def test_too_many_sequences_for_a_device_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """(80e9 - 16.06e9) / (131,072 x 8,192) = 59.5."""
    code, answer = run(capsys, "kv", "-m", LLAMA, *H100, "-c", "8k", "-b", "60", "--check")
    assert code == 3 and answer["warnings"][0] == "does not fit: h100-sxm holds 59 of 60 sequences"
    assert run(capsys, "kv", "-m", LLAMA, *H100, "-c", "8k", "-b", "59", "--check")[0] == 0


def test_a_release_says_which_row_stands_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    for asked, counted in (("vllm@0.11", "vLLM 0.8 to 0.11 (V1)"), ("vllm@0.30", "vLLM 0.28 and after")):
        for command in ("fit", "kv"):
            assert f"{asked} counts as {counted}" in ask(capsys, command, "-m", LLAMA, *H100, "--engine", asked)["assumptions"]
    for plain in ("vllm", "vllm@0.8", "napkin"):
        assert not any("counts as" in text for text in ask(capsys, "fit", "-m", LLAMA, *H100, "--engine", plain)["assumptions"])


def test_tables_are_csv_files_of_their_rows(capsys: pytest.CaptureFixture[str]) -> None:
    for command, first in (("quant", "weights,kv_dtype"), ("levers", "lever,gain"), ("layouts", "tp,pp"), ("hardware show", "label,value")):
        model = () if command == "hardware show" else ("-m", LLAMA, "-d")
        assert main([*command.split(), *model, "h100-sxm", "-f", "csv"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(first) and len(lines) > 1


def test_half_of_the_time_busy_costs_twice(capsys: pytest.CaptureFixture[str]) -> None:
    always = ask(capsys, "cost", "-m", LLAMA, *H100)["results"]["usd_per_million_output_tokens"]
    rarely = ask(capsys, "cost", "-m", LLAMA, *H100, "--utilization", "5%")["results"]["usd_per_million_output_tokens"]
    assert rarely == pytest.approx(20 * always)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_config_on_stdin(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
        "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(config)))
    answer = ask(capsys, command, "-m", "-", *COMMANDS[command][0])
    assert (answer["model"]["source"], answer["model"]["architecture"]) == ("stdin", "llama")


def test_files_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = json.loads((Path(sources.__file__).parents[2] / "models" / "Qwen--Qwen3-8B.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    quantised = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"producer": {"name": "modelopt"}} | quantised), encoding="utf-8")
    for device in ("h100-sxm", "b200", "mi300x", "t4", "apple-m4-pro"):  # only one of these multiplies nvfp4
        for command in ("fit", "decode", "cost", "quant"):
            answer = ask(capsys, command, "-m", str(tmp_path), "-d", device)
            sound(answer, f"{command} {device}")
            assert answer["model"]["source"] == "file"
            assert command == "quant" or (answer["inputs"]["weights"], answer["inputs"]["kv_dtype"]) == ("nvfp4", "fp8")


# ---- how a run ends -------------------------------------------------------------------------------------------------------


def test_exit_3_is_a_negative_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    large = ("-m", "meta-llama/Llama-3.1-70B-Instruct", *H100)
    for command in ("kv", "fit", "decode", "cost", "compare", "pareto"):
        code, answer = run(capsys, command, *large, "--check")
        assert code == 3 and "error" not in answer, command
        assert run(capsys, command, *large)[0] == 0, command
        assert run(capsys, command, "-m", LLAMA, *H100, "--check")[0] == 0, command
    assert run(capsys, "quant", "-m", LLAMA, *H100, "-b", "100000", "--check")[0] == 3
    assert run(capsys, "plan", *large, "--tp", "1", *TRAFFIC, "--check")[0] == 3
    assert run(capsys, "compare", "-m", LLAMA, *H100, "--max-tpot", "1ms", "--check")[0] == 3


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "weights"])
def test_errors_in_json(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read from the environment once, when it is imported
    needs = COMMANDS[command][0]
    on_device = [word for word in needs if word not in H100]
    for code, kind, args in (
        (1, "offline-not-cached", ["-m", "nobody/nothing", *needs]),
        (2, "hardware-not-found", ["-m", LLAMA, "-d", "no-such-device", *on_device]),
        (2, "unknown-format", ["-m", LLAMA, *needs, "--kv-dtype", "fp7"]),
        (2, "usage", ["-m", LLAMA, *needs, "--no-such-option"]),
        (2, "bad-value" if command == "spec" else "usage", [*needs]),
    ):
        found, answer = run(capsys, command, *args)
        assert list(answer) == ["schema", "command", "error"] and list(answer["error"]) == ["code", "message", "hint"]
        assert (found, answer["command"], answer["error"]["code"]) == (code, command, kind), answer
        assert "\n" not in answer["error"]["message"] and answer["error"]["hint"]


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("llmcalc.commands.common.load", interrupted)
    assert main(["kv", "-m", LLAMA]) == 130


@pytest.mark.parametrize("command", ["kv", "weights", "fit", "decode", "prefill", "cost", "quant", "compare", "levers"])
def test_the_ending_of_a_file_picks_the_format(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    starts = {"json": "{", "csv": "", "md": "#", "html": "<!doctype html>", "svg": "<svg "}
    for ending, start in starts.items():
        path = tmp_path / f"out.{ending}"
        assert main([command, "-m", LLAMA, *COMMANDS[command][0], "-o", str(path)]) == 0, ending
        assert capsys.readouterr().out == ""
        text = path.read_text(encoding="utf-8")
        assert text.startswith(start) and (LLAMA in text or ending == "csv"), ending
        if ending == "json":
            assert json.loads(text)["command"] == command
