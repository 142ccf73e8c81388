"""What engines charge, by the cases that their users reported and the logs that they quoted."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from llmcalc import cli, engines, formats, hardware, load_model
from llmcalc import model as model_reader
from llmcalc.architecture import Entry
from llmcalc.errors import UsageError
from llmcalc.estimate import capacity, charged, layout, memory, overheads, verdict, ways, words
from llmcalc.estimate.tuples import Tuples
from llmcalc.figures import Figure
from llmcalc.formulas import engines as f
from llmcalc.formulas import memory as m
from llmcalc.plan import Deployment, Workload

MIB, GIB = 2**20, 2**30


def plan(device: str = "h100-sxm", engine: str = "vllm", kv: str = "bf16", **more: Any) -> Deployment:
    return Deployment(
        device=hardware.load(device), weights=formats.find("bf16"), kv=formats.find(kv, kv=True), engine=engines.find(engine), **more
    )


def charge(name: str, at: Deployment, ctx: int) -> float:
    found: float = charged.sequence_bytes(load_model(name, offline=True), at, Figure("ctx_tokens", ctx)).value
    return found


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main([*arguments, "--json", "--offline"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ("vllm", "vllm"),
        ("vLLM@0.24.0", "vllm@0.23"),
        ("vllm@0.28", "vllm"),
        ("vllm@0.5.5", "vllm@0.5.3"),
        ("vllm@0.5.2", "vllm@0.4"),
        ("vllm==0.11.2", "vllm@0.8"),
        ("vllm@0.19", "vllm@0.16"),
        ("vllm@0.20.2", "vllm@0.16"),
        ("vllm@0.21", "vllm@0.21"),
        ("vllm@v0.6.3", "vllm@0.6"),
        ("vllm@0.2.7", "vllm@0.4"),
        ("llamacpp", "llama.cpp"),
    ],
)
def test_an_engine_by_name_and_release(asked: str, row: str) -> None:
    found = engines.find(asked)
    assert found.since == engines.ENGINES[row].since
    assert found.name == asked.lower().replace("==", "@").replace("@v", "@").replace("llamacpp", "llama.cpp")  # as it was written


def test_the_largest_devices_read_more_at_once() -> None:
    """vLLM's get_batch_defaults: from 0.28 on 16,384 tokens where there are 160 GiB, and on an A100 2,048 as ever."""
    steps = {
        (engine, device): plan(device, engine).step_tokens(8192) for engine in ("vllm", "vllm@0.27") for device in ("b200", "h200-sxm")
    }
    assert list(steps.values()) == [16384, 8192, 8192, 8192]
    assert plan("a100-80-sxm").step_tokens(8192) == 2048


@pytest.mark.parametrize("name", ["vlm", "vllm@new", "napkin@1", ""])
def test_an_unknown_engine(name: str) -> None:
    with pytest.raises(UsageError) as problem:
        engines.find(name)
    assert problem.value.code == "unknown-engine"


def test_every_row_has_a_source() -> None:
    assert all(row.source for row in engines.ENGINES.values())
    assert {"vllm", "sglang", "llama.cpp", "trt-llm", "ollama", "mlx"} < set(engines.names())


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_sparse_mla_in_fp8_with_its_indexer(engine: str) -> None:
    """sgl-project/sglang pull 11309: 975,424 tokens in 43.67 GiB, 61 x (656 + 132) B a token; 54.52 without the indexer for 1,462,784."""
    at = plan(engine=engine, kv="fp8")
    assert charge("deepseek-ai/DeepSeek-V3.2-Exp", at, 975424) / GIB == pytest.approx(43.67, rel=2e-4)
    assert charge("deepseek-ai/DeepSeek-V3.2-Exp", at, 1462784) / GIB == pytest.approx(65.49, rel=2e-4)


def test_a_window_layer_is_charged_a_step_and_a_block() -> None:
    """Gemma-4-31B at 262,144 tokens and steps of 8,192: 27.043 GiB a request; redhat-performance/configiq issue 112."""
    assert charge("google/gemma-4-31B", plan(batched_tokens=8192), 262144) / GIB == pytest.approx(27.043, rel=1e-4)
    # Without savings: 880 KiB a token, 220 GiB; vllm-project/vllm-metal issue 505.
    assert charge("google/gemma-4-31B", plan(engine="trt-llm"), 262144) / GIB == 220


def test_llama_cpp_keeps_window_and_micro_batch() -> None:
    """pad256(min(131072, 1024 + 512)) = 1,536 cells; ikawrakow/ik_llama.cpp issue 1607. Gemma-4-12B-like: 25 x 1536 beside full layers."""
    found = load_model("google/gemma-3-27b-it", offline=True)
    at = plan(engine="llama.cpp")
    window = next(entry for mixer, _ in memory.mixers(found) for entry in mixer.entries if entry.window == 1024)
    assert charged.kept_tokens(window, at, Figure("ctx_tokens", 131072)).value == 1536
    assert charged.kept_tokens(window, at, Figure("ctx_tokens", 700)).value == 768


def test_llama_cpp_keeps_convolutions_in_fp32() -> None:
    """Qwen3.6-27B (as Qwen3.5-27B): 16,384 MiB of cache at 262,144 tokens and 149.625 MiB of states; lmstudio-bug-tracker issue 1862."""
    assert charge("Qwen/Qwen3.5-27B", plan(engine="llama.cpp"), 262144) / MIB == 16384 + 149.625


@pytest.mark.parametrize(
    ("name", "ctx", "mib"),
    # llama.cpp logs "KV self size": f16 caches.
    [("meta-llama/Meta-Llama-3-8B", 8192, 1024), ("meta-llama/Llama-2-7b-hf", 2048, 1024), ("Qwen/Qwen3-8B", 4096, 576)],
)
def test_llama_cpp_logs(name: str, ctx: int, mib: float) -> None:
    assert charge(name, plan(engine="llama.cpp", kv="fp16"), ctx) / MIB == mib


def test_ollama_slots_multiply_the_cache(capsys: pytest.CaptureFixture[str]) -> None:
    """Ten slots of 8,192 tokens at 64 layers, 8 KV heads of 128: 20.0 GiB; ollama/ollama issue 10911."""
    assert 10 * charge("Qwen/Qwen3-32B", plan(engine="ollama", kv="fp16"), 8192) / GIB == 20
    found = run(
        capsys,
        "fit",
        "-m",
        "Qwen/Qwen3-32B",
        "-d",
        "h100-sxm",
        "-c",
        "8k",
        "-b",
        "10",
        "--engine",
        "ollama",
        "--weights",
        "q4_k_m",
        "--parallel",
        "10",
    )
    assert found["results"]["start_command"] == "OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_NUM_PARALLEL=10 ollama serve"


def test_a_cache_is_cut_by_tp_once() -> None:
    """3,258 blocks of 256 tokens at TP4 hold 834,048 tokens; huggingface/transformers pull 48566."""
    each = charge("Qwen/Qwen3-32B", plan(tp=4), 256) / 4
    assert 834048 / 256 * each / GIB == pytest.approx(3258 * 2 * 64 * 8 / 4 * 128 * 2 * 256 / GIB)


def test_attention_under_data_parallelism_is_not_cut() -> None:
    """Qwen3-Coder-480B, dp 8: one request of 262,144 tokens takes 62 GiB of one device; 48.66 GiB hold 205,728 tokens. vllm-project/recipes pull 12."""
    found = load_model("Qwen/Qwen3-Coder-480B-A35B-Instruct", offline=True)
    at = plan("h20", tp=1, ep=8)
    assert charge("Qwen/Qwen3-Coder-480B-A35B-Instruct", at, 262144) / GIB == 62
    longest = capacity.longest_context(found, at, 1, 8 * 48.66 * GIB)
    assert longest == pytest.approx(205728, rel=0.001)


def test_what_a_model_needs_and_what_the_engine_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """Two numbers, filed as bugs: 0.9 of a 24 GB card is about 21.6 GB whatever a 0.6B model needs; gpustack issue 2462."""
    r = run(capsys, "fit", "-m", "Qwen/Qwen3-0.6B", "-d", "rtx-4090", "-c", "4k", "--engine", "vllm@0.11")["results"]
    assert r["engine_bytes"] / 1e9 == pytest.approx(0.9 * 24564 * MIB / 1e9, rel=1e-6)
    assert r["needed_bytes"] / 1e9 == pytest.approx(1.8, abs=0.2)


def test_fit_says_what_vllm_would_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Blocks of 16 tokens at 128 KiB: pool // (16 x 131072) x 16 tokens, over 8,192 of them."""
    found = run(capsys, "fit", "-m", "meta-llama/Llama-3.1-8B", "-d", "h100-sxm", "-c", "8k", "--engine", "vllm")
    r = found["results"]
    tokens = r["kv_budget_bytes"] // (16 * 131072) * 16
    assert r["kv_capacity_tokens"] == tokens
    assert r["log"][1:] == [
        f"GPU KV cache size: {tokens:,} tokens",
        f"Maximum concurrency for 8,192 tokens per request: {tokens / 8192:.2f}x",
    ]
    assert r["start_command"].startswith("vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --gpu-memory-utilization 0.92")
    rows = {row["engine"]: row["max_batch"] for row in found["rows"] if row["engine"]}
    assert rows["napkin"] == 59  # 80 GB, no reserve: (80e9 - 16.06e9) / 2**30
    assert rows["vllm"] == r["max_batch"]
    assert set(rows) == {"napkin", "vllm", "sglang", "llama.cpp", "trt-llm", "ollama"}


@pytest.mark.parametrize("engine", ["napkin", "vllm", "sglang", "llama.cpp", "trt-llm", "ollama"])
def test_what_is_reserved_is_not_the_caches(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """4 GB on each of two devices leave 8 GB less for the caches; TensorRT-LLM takes 90% of what is free, and so 7.2 GB less."""
    pools = []
    for reserve in ("0", "4GB"):
        found = run(capsys, "fit", "-m", "Qwen/Qwen3-8B", "-d", "2x h100-sxm", "-c", "8k", "--engine", engine, "--reserve", reserve)
        pools.append(found["results"]["kv_budget_bytes"])
    assert pools[0] - pools[1] == pytest.approx(7.2e9 if engine == "trt-llm" else 8e9, rel=1e-9)


def test_a_ledger_adds_up() -> None:
    for engine in engines.names():
        device = "apple-m2-ultra" if engine == "mlx" else "h100-sxm"
        estimate = verdict.fit(load_model("Qwen/Qwen3-8B", offline=True), plan(device, engine), Workload(8192, 2))
        *parts, left = (row for row in estimate.rows if row.engine is None)
        assert sum(row.bytes for row in parts) == pytest.approx(left.bytes, abs=8)


def test_kv_shows_ideal_and_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """Gemma-3-27B at 32k: 10 full layers whole, 52 of 1,024 tokens; vLLM charges 6 groups of 577 blocks and 2,048 full ones."""
    r = run(capsys, "kv", "-m", "google/gemma-3-27b-it", "-c", "32k", "--engine", "vllm")["results"]
    page = 16 * 2 * 16 * 128 * 2
    assert r["engine_kv_bytes_per_sequence"] == (6 * 577 + 2048) * 10 * page
    assert r["kv_bytes_per_sequence"] == (10 * 32768 + 52 * 1024) * page // 16


def test_a_device_in_kv(capsys: pytest.CaptureFixture[str]) -> None:
    r = run(capsys, "kv", "-m", "Qwen/Qwen3-8B", "-c", "8k", "-b", "4", "-d", "h100-sxm")["results"]
    assert r["hardware_share"] == pytest.approx(4 * 8192 * 147456 / 80e9)
    assert r["max_batch"] == 52  # (80e9 - 16.38e9) / 1.208e9 = 52.67


def test_states_limit_the_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM refuses 1,024 sequences where it has fewer state blocks, of 51,380,224 B each on Qwen3.8-27B (Qwen3.5's layers); kaito issue 2319."""
    groups = charged.Groups.of(load_model("Qwen/Qwen3.5-27B", offline=True), plan())
    assert groups is not None
    assert groups.page_bytes * groups.size == 51380224
    on = ("fit", "-m", "Qwen/Qwen3.5-27B", "-d", "h100-sxm", "--weights", "fp8", "--engine", "vllm")
    found = run(capsys, *on, "--max-num-seqs", "1024")
    blocks = found["results"]["kv_budget_bytes"] // 51380224
    assert any(f"the pool holds {blocks:,} states, vllm wants 1,024" in line for line in found["warnings"])
    assert not found["results"]["fits"] and found["results"]["start_command"] is None
    # Whoever names no number gets one that starts; without CUDA graphs nothing is refused.
    assert f"--max-num-seqs {blocks * 5 // 6} " in run(capsys, *on)["results"]["start_command"] + " "
    assert run(capsys, *on, "--max-num-seqs", "1024", "--enforce-eager")["results"]["fits"]


@pytest.mark.parametrize(
    ("device", "weights", "share", "real"),
    # States at vLLM's default of 1,024 sequences, which abort: vllm-project/recipes pulls 551 and 831.
    [("h100-sxm", "fp8", "0.95", 856), ("rtx-pro-6000-maxq", "fp8", "0.92", 939), ("rtx-pro-6000-maxq", "bf16", "0.95", 556)],
)
def test_sequences_that_aborted_do_not_fit(device: str, weights: str, share: str, real: int, capsys: pytest.CaptureFixture[str]) -> None:
    on = ("fit", "-m", "Qwen/Qwen3.5-27B", "-d", device, "--weights", weights, "--engine", "vllm", "--memory-utilization", share)
    assert not run(capsys, *on, "--max-num-seqs", "1024")["results"]["fits"]
    started = re.search(r"--max-num-seqs (\d+)", run(capsys, *on)["results"]["start_command"])
    assert started is not None and int(started[1]) <= real * 1.07


@pytest.mark.parametrize("engine", ["napkin", "vllm", "sglang", "llama.cpp", "trt-llm"])
@pytest.mark.parametrize(
    ("name", "device"), [("Qwen/Qwen3-32B", "rtx-4090"), ("deepseek-ai/DeepSeek-V3", "h100-sxm"), ("Qwen/Qwen3.5-27B", "rtx-4090")]
)
def test_the_count_that_would_hold_it_does(engine: str, name: str, device: str) -> None:
    """In a layout that engines take: so many hold it, and no layout of one less does, or of a node less."""
    found, work = load_model(name, offline=True), Workload(8192, 4)
    option = ways.smallest(found, plan(device, engine), work)
    assert option is not None and layout.obstacle(found, option) is None
    assert verdict.fit(found, option, work).results.fits
    for fewer in ways.layouts(option, option.ranks - (8 if option.ranks > option.device.devices_per_node else 1)):
        assert not verdict.fit(found, fewer, work).results.fits


@pytest.mark.parametrize(
    ("model", "device", "engine", "more"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "l40s", "vllm", ("--weights", "fp8")),
        ("Qwen/Qwen2.5-VL-72B-Instruct", "4x a100-40-sxm", "vllm@0.7", ("--memory-utilization", "0.95", "-c", "32768")),
        ("Qwen/Qwen3-235B-A22B", "rtx-4090", "sglang", ()),
        ("Qwen/Qwen3.5-27B", "3x rtx-4090", "napkin", ()),
    ],
)
def test_a_hint_can_be_followed(model: str, device: str, engine: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """vllm-project/vllm issues 16570, 49064: "5 x a100-40-sxm" was refused as tp 5."""
    on = ("-m", model, "--engine", engine, *more)
    said = run(capsys, "fit", *on, "-d", device)["warnings"]
    hint = re.search(r"(\d+) × (\S+?)(?: \(([^)]*)\))? would hold it", " ".join(said))
    assert hint is not None
    options = [word for pair in (hint[3] or "").split(", ") if pair for word in (f"--{pair.split()[0]}", pair.split()[1])]
    options = ["--tp", "1", *options] if options and "--tp" not in options else options
    found = run(capsys, "fit", *on, "-d", f"{hint[1]}x {hint[2]}", *options, "--check")
    assert found["results"]["fits"] and "refused" not in found["results"]


def test_cheaper_ways_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama-3.1-8B, one sequence of 131,072 tokens on 24 GB: 16 GB of weights and 16 of cache; 8 in fp8 do not fit either."""
    said = run(capsys, "fit", "-m", "meta-llama/Llama-3.1-8B", "-d", "rtx-4090", "-c", "128k")["warnings"][0]
    order = ["tokens of context would fit", "a 4-bit checkpoint would fit", "would hold it"]
    assert [said.index(way) for way in order] == sorted(said.index(way) for way in order)
    assert "a cache in q8_0" not in said


def test_a_refused_layout_is_no_yes(capsys: pytest.CaptureFixture[str]) -> None:
    for engine in ("napkin", "vllm"):
        assert cli.main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "3x h100-sxm", "-c", "4k", "--engine", engine, "--check", "--offline"]) == 3
        assert "engines refuse tp 3" in capsys.readouterr().out.splitlines()[0]


def test_what_no_engine_holds_is_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    """42.7 GB of Q4_K_M beside 40.2 GB that macOS leaves the GPU of 48."""
    on = ["fit", "-m", "meta-llama/Llama-3.3-70B-Instruct", "-d", "m4 pro 48gb", "--weights", "q4_k_m", "-c", "8k", "--offline"]
    assert cli.main([*on, "--check"]) == 3
    assert "fits by arithmetic; in none of the engines" in " ".join(capsys.readouterr().out.split())
    found = run(capsys, *on)
    assert found["results"]["fits"] and found["results"]["engines_that_hold"] == ["napkin"]
    assert [(row["engine"], row["holds"]) for row in found["rows"] if row["engine"]][1:] == [
        ("llama.cpp", False), ("ollama", False), ("mlx", False)
    ]  # fmt: skip


def test_mla_under_tensor_parallelism_is_copied(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3 on eight ranks: eight copies of 576 x 2 B a token and layer; in eight groups every rank holds its own sequences."""
    on = ("fit", "-m", "deepseek-ai/DeepSeek-V3", "-d", "8x h200-sxm", "-c", "8k", "--engine", "vllm")
    said = next(line for line in run(capsys, *on)["warnings"] if "holds each cache 8 times" in line)
    grouped = run(capsys, *on, "--tp", "1", "--ep", "8")["results"]["max_batch"]
    assert f"attention in 8 groups (tp 1, ep 8) would hold {grouped:,} sequences" in said


def test_slots_hold_their_contexts_from_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    """llama.cpp: 4 slots of 131,072 tokens of gpt-oss-20b take 12.07 GiB beside the 11.28 GiB of ggml-org's file (12.11 GB); -b is the slots' least."""
    on = ("fit", "-m", "openai/gpt-oss-20b", "-c", "131072", "--engine", "llama.cpp")
    r = run(capsys, *on, "-d", "rtx-5090", "--parallel", "4")["results"]
    assert r["engine_bytes"] / GIB == pytest.approx(23.8, abs=0.1) and "-c 524288 -np 4" in r["start_command"]
    assert not run(capsys, *on, "-d", "rtx-4090", "--parallel", "4")["results"]["fits"]
    assert "-np 2" in run(capsys, *on, "-d", "rtx-5090", "-b", "2")["results"]["start_command"]


def test_what_is_kept_free_is_not_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """Qwen3.8-27B in Q3_K_M with 65,536 tokens of q4_0 ran wholly on 16 GB in 14,445 MiB; sudoingX/qwen38-mtp pull 62."""
    on = ("fit", "-m", "Qwen/Qwen3.5-27B", "-d", "rtx-5080", "--weights", "q3_k_m", "--kv-dtype", "q4_0", "-c", "65536", "--parallel", "1")
    r = run(capsys, *on, "--engine", "llama.cpp")["results"]
    assert r["fits"] and r["engine_bytes"] / MIB == pytest.approx(14445, rel=0.05)


def test_a_share_of_the_free_memory() -> None:
    """TensorRT-LLM's free_gpu_memory_fraction: of 80 GB less 16 of weights and 2 of buffers, 0.9 are the cache's."""
    assert f.free_share_bytes(80e9, 0.9, 2e9, 0, 16e9) - 16e9 == pytest.approx(0.9 * 62e9)


@pytest.mark.parametrize(
    ("model", "device", "share", "step"),
    [  # sgl-project/sglang server_args.py @0.5.10 by hand; H100 with Qwen3-32B: 0.828 in issue 29092
        ("Qwen/Qwen3-32B", "h100-sxm", 0.828, 8192),
        ("Qwen/Qwen3-8B", "rtx-4090", 0.833, 2048),  # 512 + 3,072 + 48 + 128 + 42 x 8 of 24,564 MiB
        ("Qwen/Qwen3-32B", "l40s", 0.843, 4096),  # 512 + 6,144 + 64 + 128 + 50 x 8 of 46,068 MiB
        ("Qwen/Qwen3-32B", "b200", 0.854, 16384),  # 512 + 24,576 + 1,024 + 128 + 74 x 8 of 183,359 MiB
        ("Qwen/Qwen3.5-9B", "rtx-3090", 0.771, 2048),  # 0.847 x 0.95 x (1 - 0.042): 27 layers of 1,152
    ],
)
def test_sglangs_share(model: str, device: str, share: float, step: int, capsys: pytest.CaptureFixture[str]) -> None:
    r = run(capsys, "fit", "-m", model, "-d", device, "-c", "8k", "--engine", "sglang", "--weights", "int4")["results"]
    told = re.search(r"--mem-fraction-static (\S+)", r["start_command"])
    assert told is not None and float(told[1]) == pytest.approx(share, abs=0.006)
    assert r["batched_tokens"] == step


def test_captured_graphs() -> None:
    """vLLM's default 256 sequences: 51 sizes up to 512 for mixed steps and 35 up to 256 for decode steps."""
    assert overheads.graph_count(256) == 51 + 35


@pytest.mark.parametrize(
    ("id", "engine", "given", "gib"),
    [  # "Estimated CUDA graph memory" of start-up logs in public repositories
        ("Qwen/Qwen3.5-9B", "vllm@0.22", {}, 0.78),  # L40S, 51 + 35 graphs
        ("Qwen/Qwen2.5-7B-Instruct", "vllm@0.22", {"max_sequences": 128}, 0.37),  # 35 + 19
        ("Qwen/Qwen3.5-27B", "vllm", {"max_sequences": 8, "kv": "fp8"}, 0.61),  # GB10, 5 + 4, FlashInfer
        ("Qwen/Qwen3-8B", "vllm", {}, 0),  # the second runner estimates none
    ],
)
def test_estimated_graphs(id: str, engine: str, given: dict[str, Any], gib: float) -> None:
    kv = formats.find(given.pop("kv", "bf16"), kv=True)
    at = replace(plan("l40s", engine, **given), kv=kv)
    found = overheads.overheads(load_model(id, offline=True), at, 8192).get("CUDA graphs")
    assert (found.value / GIB if found else 0) == pytest.approx(gib, abs=0.15)


@pytest.mark.parametrize(
    ("model", "ctx", "gib"),
    # 4,320.00 MiB, 37.5 and 7.38 GiB in the logs of ollama/ollama issues 7548 and 13789; with the keys, the latent alone.
    [("deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct", 16384, 4320 / 1024), ("deepseek-ai/DeepSeek-V2.5", 8192, 37.5),
     ("zai-org/GLM-4.7-Flash", 8192, 7.38)],
)  # fmt: skip
def test_old_files_cache_every_head(model: str, ctx: int, gib: float) -> None:
    at = plan("rtx-4090", "ollama")
    found = load_model(model, offline=True)
    assert words.old_latent_bytes(found, at, Figure("ctx_tokens", ctx)) / GIB == pytest.approx(gib, rel=0.01)
    assert any("every head" in said for said in words.words(found, at, ctx))
    assert sum("every head" in said for said in verdict.holds(found, at, Workload(ctx, 1)).warnings) == 1  # fit and decode say it, too


@pytest.mark.parametrize(
    ("model", "kv", "engine", "per_token"),
    [
        ("openai/gpt-oss-20b", "int4", "napkin", 13_824),  # InternLM/lmdeploy issue 3949: 0.844 MiB for 64 tokens
        ("openai/gpt-oss-20b", "int8", "sglang", 26_112),  # 24,576 and 4 B for each of 24 x 2 x 8 heads
        ("openai/gpt-oss-20b", "int8", "napkin", 24_576),  # the textbook's half
        (
            "Qwen/Qwen3-8B",
            "q8_0/q4_0",
            "napkin",
            36 * 8 * 128 * (34 + 18) // 32,
        ),  # blocks of 32: 34 and 18 B, ggml-org/llama.cpp pull 27362
        ("Qwen/Qwen3-8B", "q8_0/q8_0", "napkin", 36 * 8 * 128 * 2 * 34 // 32),
    ],
)
def test_scales_and_pairs_of_formats(model: str, kv: str, engine: str, per_token: int) -> None:
    found = load_model(model, offline=True)
    at = plan(engine=engine, kv=kv)
    held = sum(
        layout.entry_bytes(mixer, entry, layers, at, Figure("kept", 1)).value
        for mixer, layers in memory.mixers(found)
        for entry in mixer.entries
    )
    assert held == per_token


def test_a_pair_of_formats_starts_under_llama_cpp_alone(capsys: pytest.CaptureFixture[str]) -> None:
    on = ("fit", "-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "-c", "4k", "--kv-dtype", "q8_0/q4_0", "--engine")
    assert run(capsys, *on, "llama.cpp")["results"]["start_command"].endswith("-ctk q8_0 -ctv q4_0")
    assert run(capsys, *on, "ollama")["results"]["start_command"] is None


def test_options_of_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """vLLM's own flags. Qwen3-8B on an RTX 4090 holds 40,464 tokens at a step of 2,048, 36,720 at 8,192: vllm-project/vllm pull 48322."""
    on = ("fit", "-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "-c", "8k", "--engine", "vllm", "--memory-utilization", "0.9")
    for step, tokens in ((2048, 40464), (8192, 36720)):
        assert run(capsys, *on, "--max-num-batched-tokens", str(step))["results"]["kv_capacity_tokens"] == pytest.approx(tokens, rel=0.03)
    # The log's own pool of an fp8 cache: issue 25350.
    r = run(
        capsys,
        "fit",
        "-m",
        "Qwen/Qwen3-30B-A3B",
        "-d",
        "h100-sxm",
        "-c",
        "100000",
        "--kv-dtype",
        "fp8",
        "--engine",
        "vllm",
        "--available-kv",
        "10.55GiB",
    )["results"]
    assert (r["kv_capacity_tokens"], round(r["max_batch_exact"], 2)) == (pytest.approx(230528, rel=0.001), 2.3)
    assert (
        "--block-size 32 --kv-cache-memory-bytes 5368709120"
        in (run(capsys, *on, "--available-kv", "5", "--block-size", "32")["results"]["start_command"])
    )


def test_switches_of_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    on = ("fit", "-m", "Qwen/Qwen3.5-27B", "-d", "h100-sxm", "-c", "8k", "--engine", "vllm")
    graphs, eager, blind, text = (
        run(capsys, *on, *flag) for flag in ((), ("--enforce-eager",), ("--no-graph-estimate",), ("--language-model-only",))
    )
    taken = next(-row["bytes"] for row in graphs["rows"] if row["item"] == "CUDA graphs, vllm")
    for other in (eager, blind):
        assert other["results"]["kv_budget_bytes"] - graphs["results"]["kv_budget_bytes"] == pytest.approx(taken, abs=1)
    assert "--enforce-eager" in eager["results"]["start_command"]
    assert blind["results"]["start_command"].startswith("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 vllm serve")
    towers = sum(weight.params for weight in load_model("Qwen/Qwen3.5-27B", offline=True).towers or ())
    assert graphs["results"]["weight_bytes"] - text["results"]["weight_bytes"] == 2 * towers


@pytest.mark.parametrize(("share", "starts"), [("0.8", False), ("0.85", True)])
def test_two_sparks(share: str, starts: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """22.5 GiB where 23.25 are needed, and 28.74: eugr/spark-vllm-docker issue 396. The host's part of the memory rests on this report."""
    cli.main(
        [
            "fit",
            "-m",
            "MiniMaxAI/MiniMax-M2.7",
            "--weights",
            "awq",
            "-d",
            "2x dgx-spark",
            "-c",
            "196608",
            "--engine",
            "vllm",
            "--memory-utilization",
            share,
            "--json",
            "--offline",
        ]
    )
    r = json.loads(capsys.readouterr().out)["results"]
    assert (r["fits"], r["start_command"] is not None) == (starts, starts)


def test_workspaces_of_fused_experts() -> None:
    """Shapes in vLLM's fused_moe: tokens × top_k × max(2 × inner, hidden), and again max(inner, hidden); Qwen3-30B-A3B, 8,192 tokens."""
    assert f.expert_workspace_bytes(8192, 8, 2048, 768, 2048, 2) == 8192 * 8 * (2048 + 2048) * 2
    assert f.expert_workspace_bytes(8192, 8, 1024, 768, 1024, 2) == 8192 * 8 * (1024 + 1536) * 2


def test_experts_had_three_buffers_in_v0() -> None:
    """vLLM 0.6's fused_experts: a cache for each of the products of w1 and w2 and one between them, 2 x 1408, 1408 and 2048 wide."""
    found = load_model("deepseek-ai/DeepSeek-V2-Lite", offline=True)

    def workspace(engine: str) -> float:
        peak = overheads.activation(found, plan(engine=engine, batched_tokens=8192), 8192)
        forward = next(part for part in peak.inputs if part.name == "forward_bytes")
        return float(next((part.value for part in forward.inputs if part.name == "workspace_bytes"), 0))

    assert workspace("vllm@0.6") == 8192 * 6 * (2816 + 1408 + 2048) * 2
    assert workspace("vllm@0.8") == 8192 * 6 * (2816 + 2048) * 2


def test_a_dense_layer_has_no_workspace_of_experts() -> None:
    """DeepSeek-V2-Lite on two L40S: 4.02 GiB logged for 163,840 tokens, whose dense layer and experts do not run at once."""
    found = load_model("deepseek-ai/DeepSeek-V2-Lite", offline=True)
    peak = overheads.activation(found, plan("l40s", "vllm@0.7", batched_tokens=32768), 32768)
    dense, mixed = (
        max(overheads.layer_widths(group.layer, 2048, 1) for group in found.groups if overheads.mixture(group.layer) == experts)
        for experts in (False, True)
    )
    forward = next(part.value for part in peak.inputs if part.name == "forward_bytes")
    assert forward == 32768 * 2 * max(dense, mixed + 6 * (2816 + 1408 + 2048))


def test_v0_reads_up_to_32768_tokens_whole() -> None:
    """vLLM 0.6's EngineArgs: chunked prefill, of 2,048 tokens a step, is on by default only above 32K; before 0.5.3 any prompt was one step."""
    asked = {
        name: [plan(engine=name).step_tokens(ctx) for ctx in (8192, 32768, 32769, 131072)]
        for name in ("vllm@0.5.2", "vllm@0.5.3", "vllm@0.7")
    }
    assert asked == {
        "vllm@0.5.2": [8192, 32768, 32769, 131072],
        "vllm@0.5.3": [8192, 32768, 512, 512],
        "vllm@0.7": [8192, 32768, 2048, 2048],
    }


def test_recurrent_states_in_the_activations_dtype() -> None:
    """vLLM's mamba_ssm_cache_dtype is auto, the model's, where a config does not say float32: Qwen3-Next does not, Qwen3.5 does."""
    for name, wide in (("Qwen/Qwen3-Next-80B-A3B-Instruct", 2), ("Qwen/Qwen3.5-27B", 4)):
        found = load_model(name, offline=True)
        mixer = next(mixer for mixer, _ in memory.mixers(found) if mixer.states)
        state = next(figure for figure in charged.state_bytes(mixer, 1, found, plan()) if figure.name == "recurrent_state_bytes")
        dims = dict(next(state for state in mixer.states if state.name == "recurrent").args)
        assert state.value == dims["heads"] * dims["head_dim"] * dims["state_dim"] * wide


def test_states_have_a_block_more_with_prefix_caching(capsys: pytest.CaptureFixture[str]) -> None:
    """Such models cache prefixes only when asked (vLLM's engine/arg_utils.py), which takes a second block of states (mamba_cache_mode)."""
    found = run(capsys, "fit", "-m", "Qwen/Qwen3.5-9B", "-d", "h100-sxm", "-c", "8k", "--engine", "vllm")["results"]
    assert found["start_command"].endswith(" --enable-prefix-caching")
    plain = run(capsys, "fit", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "8k", "--engine", "vllm")["results"]
    assert "prefix" not in plain["start_command"]


# ---- drafts -------------------------------------------------------------------------------------------------------


def test_a_prediction_layer_drafts_from_the_pool() -> None:
    """Qwen3.5-27B has 16 full layers of 64 and a prediction layer alike; states keep one block per drafted token more."""
    found = load_model("Qwen/Qwen3.5-27B", offline=True)
    at, drafts = plan("rtx-5090", kv="fp8"), plan("rtx-5090", kv="fp8", draft_tokens=3)
    for each, full, blocks in ((at, 16, 2), (drafts, 17, 5)):
        groups = charged.Groups.of(found, each)
        assert groups is not None
        counted = {group.kind: (group.layers, groups.blocks(each, group, 784, Figure("ctx_tokens", 784)).value) for group in groups.groups}
        assert counted["full"][0] == full and counted["state"] == (48, blocks)
    # The convolution also keeps the inputs of the drafted tokens: (4 - 1 + 3) of 10,240 channels.
    mixer = next(mixer for mixer, _ in memory.mixers(found) if mixer.states)
    conv = [next(part.value for part in charged.state_bytes(mixer, 1, found, each) if "conv" in part.name) for each in (at, drafts)]
    assert conv == [3 * 10240 * 2, 6 * 10240 * 2]


def test_a_model_without_prediction_layers_needs_a_drafter() -> None:
    found = load_model("Qwen/Qwen3-8B", offline=True)
    with pytest.raises(UsageError) as problem:
        charged.sequence_bytes(found, plan(draft_tokens=3), Figure("ctx_tokens", 8192))
    assert problem.value.code == "no-prediction-layers"
    draft = load_model("Qwen/Qwen3-0.6B", offline=True)
    with_draft = charged.sequence_bytes(found, plan(draft_tokens=3, drafter=draft), Figure("ctx_tokens", 8192)).value
    # 36 layers and 28, all of 8 KV heads of 128: 4,096 B a token and layer.
    assert with_draft == 8192 * (36 + 28) * 4096


def test_a_drafters_weights_are_held() -> None:
    """Qwen3-0.6B has 596,049,920 parameters, its one table among them."""
    found, draft = load_model("Qwen/Qwen3-8B", offline=True), load_model("Qwen/Qwen3-0.6B", offline=True)
    plain, more = (layout.held_weight_bytes(found, at).value for at in (plan(), plan(draft_tokens=3, drafter=draft)))
    assert more - plain == 596_049_920 * 2


# ---- tuples -------------------------------------------------------------------------------------------------------


def test_deepseek_v4_packs_layers_in_tuples() -> None:
    """Two logs of vLLM: 40,471 blocks in 42,566,892,135 B; 9.76 requests of 256,000 tokens in 37.93 GiB, with steps of 8,192."""
    found = load_model("deepseek-ai/DeepSeek-V4-Flash", offline=True)
    at = plan("h20", kv="fp8", tp=8, batched_tokens=8192)
    tuples = Tuples.of(found, at)
    assert tuples is not None
    block = tuples.depth * sum(tuples.sizes)
    assert 42_566_892_135 // block == 40471
    held = tuples.sequence_bytes(at, Figure("ctx_tokens", 256000)).value / at.ranks
    assert 37.93 * GIB / held == pytest.approx(9.76, abs=0.006)
    assert Tuples.of(load_model("deepseek-ai/DeepSeek-V3", offline=True), at) is None


# ---- beside the weights -------------------------------------------------------------------------------------------


def test_an_image_in_the_encoder() -> None:
    """Qwen3.6-27B (as Qwen3.5-27B) on two cards, steps of 8,192: peaks of 1.59 GiB less 0.13 and 1.66 less 0.20 of what is not torch's."""
    found = load_model("Qwen/Qwen3.5-27B", offline=True)
    at = plan("rtx-5090", "vllm@0.20", tp=2, batched_tokens=8192)
    assert overheads.activation(found, at, 8192).value / GIB == pytest.approx(1.46, rel=0.02)
    # 1,024 sequences sample beside 16,384 encoded tokens, and two hidden states of the step: more than the encoder took.
    many = plan("rtx-5090", "vllm@0.20", tp=2, batched_tokens=8192, max_sequences=1024)
    assert overheads.activation(found, many, 8192).value == 16384 * 5120 * 2 + 2 * 8192 * 5120 * 2 + 1024 * 248320 * 14


@pytest.mark.parametrize(("name", "gib"), [("openai/gpt-oss-20b", 13.72), ("openai/gpt-oss-120b", 65.97)])
def test_kernels_pad_mxfp4_experts(name: str, gib: float) -> None:
    """gpt-oss's 2,880 columns and rows become 3,072 and 2,944 in vLLM: "Model loading took 13.72 GiB", "65.97 GiB"."""
    found = load_model(name, offline=True)
    at = Deployment(
        device=hardware.load("h100-sxm"), weights=memory.weight_format(found, "auto")[0], kv=formats.find("bf16", kv=True),
        engine=engines.find("vllm"),
    )  # fmt: skip
    padded = overheads.overheads(found, at, 8192)["padding of experts"].value
    assert (layout.held_weight_bytes(found, at).value + padded) / GIB == pytest.approx(gib, rel=0.005)


def test_an_unfinished_group_is_no_entry() -> None:
    """DeepSeek-V4 keeps one entry of 4 tokens: 131 tokens are 32 groups, and three that wait."""
    assert m.compressed_entries(131, 4) == 32 and m.compressed_entries(3, 4) == 0


def test_mlx_is_apples(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--engine", "mlx", "--offline"]) == 2
    assert "mlx runs on Apple's devices" in capsys.readouterr().err


def test_what_drafts_takes_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """DeepSeek-V3's one prediction layer keeps 576 x 2 B per token on each of 8 ranks; Qwen3-0.6B 28 layers x 2 x 8 x 128 x 2 B."""
    on = ("-m", "deepseek-ai/DeepSeek-V3", "-d", "8x h200-sxm", "-c", "32k")
    plain, drafts = (run(capsys, "fit", *on, *more)["results"] for more in ((), ("--draft-tokens", "1")))
    assert drafts["kv_bytes_per_sequence"] - plain["kv_bytes_per_sequence"] == 8 * 576 * 2 * 32768
    on = ("-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "8k", "--engine", "vllm")
    plain, drafts = (run(capsys, "fit", *on, *more)["results"] for more in ((), ("--draft-tokens", "2", "--draft", "Qwen/Qwen3-0.6B")))
    assert drafts["kv_bytes_per_sequence"] - plain["kv_bytes_per_sequence"] == 28 * 2 * 8 * 128 * 2 * 8192
    assert drafts["weight_bytes"] - plain["weight_bytes"] == 2 * 596_049_920
    asked = ("spec", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "8k", "--draft", "Qwen/Qwen3-0.6B", "-a", "0.7")
    assert run(capsys, *asked)["results"]["draft_memory_bytes"] == 2 * 596_049_920 + 28 * 2 * 8 * 128 * 2 * 8192
    assert '--speculative-config \'{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 2}\'' in drafts["start_command"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--draft-tokens", "2"), "no-prediction-layers"),
        (("--draft", "Qwen/Qwen3-0.6B"), "bad-value"),
        (("--draft-tokens", "x"), "bad-value"),
    ],
)
def test_drafts_that_cannot_be(more: tuple[str, ...], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "8k", *more, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


@pytest.mark.parametrize(
    ("name", "engine", "said"),
    [
        # A window of 128 and a micro-batch of 512 in cells of 256; groups of 4 and of 128 tokens in 131,072.
        ("deepseek-ai/DeepSeek-V4-Flash", "llama.cpp", "compressed layers 768 tokens and 1,024 entries of 128 tokens"),
        (
            "deepseek-ai/DeepSeek-V4-Flash",
            "llama.cpp",
            "compressed-sparse layers 768 tokens, 32,768 entries of 4 tokens and as many of its indexer",
        ),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "llama.cpp", "mla-sparse layers 131,072 tokens and as many of its indexer"),
        # int(131072 x 0.8) of SGLang's swa_full_tokens_ratio.
        ("google/gemma-3-27b-it", "sglang", "window layers 104,857 tokens"),
    ],
)
def test_words_name_every_stored_entry(name: str, engine: str, said: str) -> None:
    found = load_model(name, offline=True)
    assert f"{engine} charges {said}" in words.words(found, plan(engine=engine), 131072)


# ---- rows of the table --------------------------------------------------------------------------------------------


def test_a_row_leaves_nothing_out() -> None:
    """What no field can be without: kind, split, defaults and start line stand in each row, and a release in its own."""
    required = {each.name for each in fields(engines.Engine) if each.default is MISSING}
    assert {"kind", "split", "start", "batched", "sequences", "large", "windows", "block_tokens", "vendors", "source"} <= required
    for row in engines.ENGINES.values():
        assert (row.windows == "share") == (row.window_share > 0), row.name
        assert row.start is not None or row.nominal, row.name
        rows = [other for other in engines.ENGINES.values() if other.family == row.family]
        assert [other.since for other in rows] == sorted((other.since for other in rows), reverse=True)


def test_each_engine_compares_its_own_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    old = replace(engines.ENGINES["sglang"], name="sglang@0.4", since=(0, 4))
    monkeypatch.setattr(engines, "ENGINES", engines.ENGINES | {"sglang": replace(engines.ENGINES["sglang"], since=(0, 5)), old.name: old})
    assert [engines.find(f"sglang@{release}").since for release in ("0.5.3", "0.4.9", "0.3")] == [(0, 5), (0, 4), (0, 4)]


def test_sglang_keeps_a_share_of_the_tokens_in_windows() -> None:
    """MiMo-V2-Flash: full_layer_tokens=375360, swa_layer_tokens=300288; sgl-project/sglang pull 18039."""
    window = Entry(m.kv_bytes_per_token, (("kv_heads", 8), ("head_dim", 192)), window=128)
    assert charged.kept_tokens(window, plan(engine="sglang"), Figure("ctx_tokens", 375360)).value == 300288


def test_an_a100_is_never_large() -> None:
    """vLLM's engine/arg_utils.py: 8,192 tokens and 1,024 sequences from 70 GiB on, but on no A100 of 80 GB, and 2,048 and 256."""
    asked = {device: (plan(device).step_tokens(8192), plan(device).slots) for device in ("a100-80-sxm", "h100-sxm", "l40s")}
    assert asked == {"a100-80-sxm": (2048, 256), "h100-sxm": (8192, 1024), "l40s": (2048, 256)}


def test_groups_of_half_more_layers_are_cut() -> None:
    """vLLM's kv_cache_utils: up to, and not at, half as many layers more the larger kind sets the group's size."""

    def groups(full: int, window: int) -> tuple[int, int]:
        types = ["full_attention"] * full + ["sliding_attention"] * window
        raw = {
            "model_type": "gemma3_text", "hidden_size": 1024, "num_hidden_layers": full + window, "num_attention_heads": 8,
            "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 4096, "vocab_size": 32000, "sliding_window": 512,
            "layer_types": types,
        }  # fmt: skip
        found = charged.Groups.of(model_reader.read(raw, id="x"), plan())
        assert found is not None
        return found.number, found.size

    assert groups(8, 11) == (2, 11)
    assert groups(8, 12) == (3, 8)


def test_a_long_step_encodes_as_many_image_tokens() -> None:
    """vLLM's encoder budget is the larger of the largest image and a step: 32,768 encoded tokens of 5,120 in 16 bits."""
    found = load_model("Qwen/Qwen3.5-27B", offline=True)

    def encoded(step: int) -> float:
        parts = overheads.encoder(found, plan("rtx-5090", batched_tokens=step), Figure("tokens", step))
        assert parts is not None
        return float(parts[1].value)

    assert [encoded(step) for step in (8192, 32768)] == [16384 * 5120 * 2, 32768 * 5120 * 2]


def test_llama_cpp_gives_each_slot_a_context(capsys: pytest.CaptureFixture[str]) -> None:
    """-c is the context of all slots, which share it (--kv-unified) unless told not to; tools/server/README.md."""
    on = ("-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "-c", "4k", "--engine", "llama.cpp", "--parallel")
    one, four = (run(capsys, "fit", *on, n)["results"]["start_command"] for n in ("1", "4"))
    assert "-c 4096 -np 1" in one and "--no-kv-unified" not in one
    assert "-c 16384 -np 4" in four and four.endswith("--no-kv-unified")


def test_towers_that_are_not_read_are_not_counted() -> None:
    bare = replace(load_model("Qwen/Qwen3-8B", offline=True), towers=None)
    assert "the towers are not counted: their shape is not read" in verdict.fit(bare, plan(), Workload(4096, 1)).warnings


def test_replicas_share_the_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """Four replicas on four devices decode 8 of 32 sequences each."""
    on = ("-m", "meta-llama/Llama-3.1-8B", "-c", "4k")
    found = run(capsys, "layouts", *on, "-d", "4x h100-sxm", "-b", "32")
    row = next(row for row in found["rows"] if row["replicas"] == 4)
    assert row["step_time_s"] == pytest.approx(run(capsys, "decode", *on, "-d", "h100-sxm", "-b", "8")["results"]["step_time_s"], rel=1e-9)


@pytest.mark.parametrize(
    ("engine", "device", "ctx", "mib"),
    [
        # mlx-lm models/cache.py: a cache of Llama-3.1-8B grows by 256 tokens of 128 KiB; pull 1081 of mlx-examples kept 33,080.
        ("mlx", "apple-m2-ultra", 33080, 33280 / 8),
        # ollama's runner pads to 256 cells.
        ("ollama", "rtx-4090", 8000, 8192 / 8),
        # TensorRT-LLM's tokens_per_block is 32.
        ("trt-llm", "h100-sxm", 8000, 8000 / 8),
        ("trt-llm", "h100-sxm", 8001, 8032 / 8),
    ],
)
def test_caches_grow_by_blocks(engine: str, device: str, ctx: int, mib: float) -> None:
    assert charge("meta-llama/Llama-3.1-8B", plan(device, engine), ctx) / MIB == mib


def test_what_small_engines_hold_beside_the_cache() -> None:
    """Ollama keeps 457 MiB of a card free (minimum="457.0 MiB", issue 14510); logits of 4 B: a micro-batch of 512, or one row."""
    found = load_model("meta-llama/Llama-3.1-8B", offline=True)
    for engine, device, rows in (("ollama", "rtx-4090", 512), ("mlx", "apple-m2-ultra", 1)):
        sampler = next(part for part in overheads.activation(found, plan(device, engine), 8192).inputs if part.name == "sampler_bytes")
        assert sampler.value == rows * 128256 * 4, engine
    assert engines.find("ollama").free_bytes == 457 * MIB


# ---- several devices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "asked", "layout_", "flag"),
    [
        ("llama.cpp", (), (1, 2), ""),
        ("llama.cpp", ("--tp", "2"), (2, 1), "-sm tensor"),
        ("ollama", (), (1, 2), "OLLAMA_SCHED_SPREAD=1"),
        ("vllm", (), (2, 1), "--tensor-parallel-size 2"),
        ("vllm", ("--pp", "2"), (1, 2), "--pipeline-parallel-size 2"),
        ("napkin", (), (2, 1), ""),
    ],
)
def test_the_engine_lays_a_model_over_devices(
    engine: str, asked: tuple[str, ...], layout_: tuple[int, int], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(capsys, "fit", "-m", "Qwen/Qwen3-8B", "-d", "2x rtx-4090", "-c", "4k", "--engine", engine, *asked)
    assert (found["inputs"]["tp"], found["inputs"]["pp"]) == layout_
    assert flag in found["results"].get("start_command", "")
    assert "-sm" not in found["results"].get("start_command", "") or flag == "-sm tensor"


@pytest.mark.parametrize(
    ("model", "device", "more", "measured_s"),
    [
        # sudoingX/qwen38-mtp pulls 24, 32; stew675/llama-cpp-rdna-boosts issue 27: by layers, and with -sm tensor 37.1-38.3 tok/s.
        ("Qwen/Qwen3.5-27B", "2x rtx-5060ti-16", ("--kv-dtype", "q4_0"), 1 / 22.1),
        ("Qwen/Qwen3.5-27B", "2x rtx-5060ti-16", ("--kv-dtype", "q4_0", "--tp", "2"), 1 / 37.7),
        ("Qwen/Qwen3-32B", "2x rtx-5060ti-16", (), 1 / 16.5),
    ],
)
def test_cards_by_layers_take_their_turns(
    model: str, device: str, more: tuple[str, ...], measured_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(capsys, "decode", "-m", model, "-d", device, "--weights", "q4_k_m", "-c", "2k", "--engine", "llama.cpp", *more)
    assert found["results"]["expected_step_time_s"] == pytest.approx(measured_s, rel=0.12)


def test_layers_are_dealt_to_any_number_of_cards(capsys: pytest.CaptureFixture[str]) -> None:
    """Three cards hold a Q8_0 27B and 204,800 tokens; 5p00kyy/club-5060ti issue 5. Ollama cuts no matrix at all."""
    on = ("-m", "Qwen/Qwen3.5-27B", "--weights", "q8_0", "--engine", "ollama")
    found = run(capsys, "fit", *on, "-d", "3x rtx-5060ti-16", "-c", "204800")
    assert found["results"]["fits"] and not any("refuse" in line for line in found["warnings"])
    assert any("deals whole layers" in line for line in run(capsys, "fit", *on, "-d", "2x a6000", "--tp", "2", "-c", "4k")["warnings"])


# ---- start lines --------------------------------------------------------------------------------------------------

DOCUMENTED = {
    "vllm": "--max-model-len --gpu-memory-utilization --max-num-seqs --max-num-batched-tokens --tensor-parallel-size --pipeline-parallel-size "
    "--data-parallel-size --enable-expert-parallel --kv-cache-dtype --enable-prefix-caching --speculative-config --quantization --dtype "
    "--enable-lora --max-lora-rank --max-loras --cpu-offload-gb --block-size --enforce-eager --language-model-only --kv-cache-memory-bytes "
    "--prefill-context-parallel-size --decode-context-parallel-size",  # docs.vllm.ai: vllm serve; engine/arg_utils.py @0.33.0
    "sglang": "--model-path --context-length --mem-fraction-static --chunked-prefill-size --max-running-requests --tp-size --pp-size "
    "--ep-size --kv-cache-dtype --quantization --dtype --enable-lora --max-lora-rank --max-loras-per-batch --page-size "
    "--dcp-size --ep-num-redundant-experts --language-model-only",  # docs.sglang.ai: server arguments; srt/arg_groups/fields @0.5.23
    "llama.cpp": "-hf -m -ngl -c -np -ub -ctk -ctv -sm --no-kv-unified --cpu-moe --n-cpu-moe --lora --no-mmproj",  # tools/server/README.md
    "trt-llm": "--max_seq_len --kv_cache_free_gpu_memory_fraction --max_num_tokens --max_batch_size --tp_size --pp_size --ep_size "
    "--kv_cache_dtype",  # trtllm-serve
    "ik_llama.cpp": "-hf -m -ngl -c -np -ub -ctk -ctv --cpu-moe --n-cpu-moe --lora",  # its README and examples/server
    "mlx": "--model",
    "ktransformers": "--model_path --gguf_path",  # doc/en: local_chat
    "ollama": "",
    "exllamav3": "--model-name --max-seq-len --cache-size --max-batch-size --chunk-size --cache-mode --tensor-parallel",  # TabbyAPI
}


@pytest.mark.parametrize(
    ("engine", "on", "holds"),
    [
        ("vllm", ("-m", "Qwen/Qwen3-32B", "-d", "2x rtx-4090", "--weights", "awq"), "vllm serve Qwen/Qwen3-32B-AWQ --"),
        ("vllm", ("-m", "mistralai/Mistral-7B-Instruct-v0.3", "-d", "h100-sxm", "--weights", "fp8"), "--quantization fp8"),
        ("vllm", ("-m", "mistralai/Mistral-7B-Instruct-v0.3", "-d", "h100-sxm", "--weights", "gptq"), "vllm serve MODEL-GPTQ --"),
        (
            "vllm",
            ("-m", "Qwen/Qwen3-8B", "-d", "t4", "--weights", "fp16", "--kv-dtype", "fp16", "-c", "512", "--tp", "2"),
            "--dtype float16",
        ),
        ("sglang", ("-m", "meta-llama/Llama-3.1-70B-Instruct", "-d", "2x h100-sxm", "--weights", "fp8", "--kv-dtype", "fp8"), "fp8_e4m3"),
        ("llama.cpp", ("-m", "Qwen/Qwen3-32B", "-d", "2x rtx-4090", "--weights", "q4_k_m", "--kv-dtype", "q8_0"), "Qwen3-32B-GGUF:Q4_K_M"),
        ("llama.cpp", ("-m", "Qwen/Qwen3-8B", "-d", "rtx-4090"), "-m MODEL-BF16.gguf"),
        ("trt-llm", ("-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "--kv-dtype", "fp8"), "--kv_cache_dtype fp8"),
        ("llama.cpp", ("-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--weights", "ud-q4_k_xl"), "Qwen3-8B-GGUF:UD-Q4_K_XL"),
        ("llama.cpp", ("-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--weights", "mxfp4"), "-m MODEL-MXFP4.gguf"),
        ("llama.cpp", ("-m", "openai/gpt-oss-20b", "-d", "rtx-4090"), "-hf unsloth/gpt-oss-20b-GGUF -ngl"),
        ("mlx", ("-m", "Qwen/Qwen3-8B", "-d", "apple-m4-max", "--weights", "mlx-4bit"), "--model MODEL-MLX-4BIT"),
        ("ollama", ("-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "--kv-dtype", "q8_0"), "OLLAMA_KV_CACHE_TYPE=q8_0"),
        ("exllamav3", ("-m", "Qwen/Qwen3-32B", "-d", "2x rtx-3090", "--weights", "exl3_4.0bpw", "--kv-dtype", "q8_0"), "--cache-mode Q8"),
        ("vllm", ("-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "--lora-rank", "16", "--max-loras", "4"), "--enable-lora --max-lora-rank 16"),
        ("llama.cpp", ("-m", "Qwen/Qwen3-30B-A3B", "-d", "rtx-4090", "--weights", "q4_k_m", "--n-cpu-moe", "12"), "--n-cpu-moe 12"),
    ],
)
def test_a_start_line_loads_what_was_computed(engine: str, on: tuple[str, ...], holds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for a shell, of options that the engine documents."""
    context = () if "-c" in on else ("-c", "4k")
    line = run(capsys, "fit", *on, *context, "--engine", engine)["results"]["start_command"]
    assert holds in line
    flags = [word for word in shlex.split(line) if (re.fullmatch(r"--?[a-zA-Z][\w-]*", word) and word != "-m") or word in ("-hf", "-m")]
    known = DOCUMENTED[engine].split() + (["-m"] if engine == "sglang" else [])
    assert set(flags) <= set(known), set(flags) - set(known)


@pytest.mark.parametrize("engine", [name for name in engines.names() if name != "napkin"])
def test_every_option_of_a_start_line_is_documented(engine: str) -> None:
    start = engines.find(engine).start
    assert start is not None
    named = re.findall(r"(?<!\S)--?[a-zA-Z][\w-]*", " ".join([start.command, *(flag for flag, _ in start.flags)]))
    assert {flag for flag in named if flag != "-m"} <= set(DOCUMENTED[engine].split())


@pytest.mark.parametrize(
    ("on", "why"),
    [
        (("-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "128k", "--engine", "vllm"), "beyond the model's own 40,960"),
        (("-m", "Qwen/Qwen3-32B", "-d", "rtx-4090", "-c", "4k", "--engine", "sglang"), "it does not fit"),
        (("-m", "Qwen/Qwen3-8B", "-d", "3x h100-sxm", "-c", "4k", "--engine", "vllm"), "engines refuse this layout"),
        (("-m", "Qwen/Qwen3-8B", "-d", "rtx-4090", "-c", "4k", "--engine", "llama.cpp", "--kv-dtype", "fp8"), "keeps no cache in fp8"),
        (("-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "4k", "--engine", "trt-llm", "--lora-rank", "16"), "adapters"),
    ],
)
def test_where_nothing_starts_no_line_is_printed(on: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "fit", *on)
    assert found["results"]["start_command"] is None
    assert any(line.startswith("start_command: ") and why in line for line in found["warnings"])


def test_a_start_line_is_one_line_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert (
        cli.main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "-c", "8k", "--engine", "vllm", "--max-num-seqs", "64", "--offline"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("start: vllm serve") and line.endswith("--max-num-seqs 64") for line in lines)


def test_kv_counts_as_the_engine_does_for_all_and_for_each_device(capsys: pytest.CaptureFixture[str]) -> None:
    """Gemma-3-27B: the engine's figure times 4; DeepSeek-V3's latent is whole on each of 8 ranks, Llama-3-70B's heads are dealt."""
    r = run(capsys, "kv", "-m", "google/gemma-3-27b-it", "-c", "32k", "--engine", "vllm", "-b", "4")["results"]
    assert r["engine_kv_bytes_total"] == 4 * r["engine_kv_bytes_per_sequence"] > r["kv_bytes_total"]
    for name, share in (("deepseek-ai/DeepSeek-V3", 1), ("meta-llama/Llama-3.3-70B-Instruct", 8)):
        r = run(capsys, "kv", "-m", name, "-c", "32k", "--tp", "8")["results"]
        assert r["kv_bytes_per_sequence_per_device"] == r["kv_bytes_per_sequence"] / share


def test_tensorrt_llms_decoder_is_as_large_as_its_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """Llama-3.1-8B FP8 on an RTX 5090: 263,008 tokens of an fp8 cache beside buffers for max_batch_size 2048 (a public bench log)."""
    on = ("-m", "meta-llama/Llama-3.1-8B-Instruct", "-d", "rtx-5090", "--weights", "fp8", "--kv-dtype", "fp8", "-c", "2048")
    assert run(capsys, "fit", *on, "--engine", "trt-llm")["results"]["kv_capacity_tokens"] == pytest.approx(263008, rel=0.08)


@pytest.mark.parametrize(("release", "tokens"), [("0.11", 672), ("0.13", 1312)])
def test_nemotrons_states_were_sixteen_bits_before_012(release: str, tokens: int) -> None:
    """Attention block of 672 tokens; vllm-project/vllm issue 24280 of September 2025."""
    groups = charged.Groups.of(load_model("nvidia/NVIDIA-Nemotron-Nano-9B-v2", offline=True), plan(engine=f"vllm@{release}"))
    assert groups is not None and max(groups.block_tokens) == tokens
