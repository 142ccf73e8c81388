"""Worked numbers of books, papers and engine logs, within the tolerance that their printing leaves.

Each row: the id in the collection of vectors, where the number is printed, the number, a relative tolerance, our answer. The
sources' own roundings of inputs are kept, because the printed result rests on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from shapes import bundled, llama, plan

from llmcalc import model
from llmcalc.estimate import decode, memory, talk
from llmcalc.formulas import compute, money, time
from llmcalc.formulas import memory as f
from llmcalc.plan import Workload

GIB = 2**30
BOOK, VLLM, POPE = "scaling book", "arXiv:2309.06180", "arXiv:2211.05102"
KIPPLY, V5E = "kipply, transformer inference arithmetic", 0.82e12
LLAMA_2_13B = "meta-llama/Llama-2-13b-hf"


def params(name: str, *parts: str) -> float:
    """Parameters of a bundled model, of some of its parts or all."""
    rows = memory.weights(bundled(name)).rows
    return float(sum(row["params"] for row in rows if not parts or row["part"] in parts))


def kv(name: str, ctx: int = 1, dtype: str = "bf16", batch: int = 1) -> float:
    value: float = memory.kv(bundled(name), ctx, batch, dtype).results["kv_bytes_total"]
    return value


def per_token(layers: int, kv_heads: int, head_dim: int, width: float = 2) -> float:
    value: float = f.kv_bytes_per_token(layers, kv_heads, head_dim, width)
    return value


def step_ms(batch: int, cache: float, weights: float, bandwidth: float, devices: int, compute_s: float = 0) -> float:
    read, held = time.read_s(weights, bandwidth, devices), time.kv_read_s(batch, cache, bandwidth, devices)
    value: float = time.napkin_step_s(held, read, compute_s, 0) * 1e3
    return value


def rate(batch: int, step: float) -> float:
    value: float = time.tokens_per_s(batch, step / 1e3)
    return value


def held(memory_bytes: float, weights: float, sequence: float) -> float:
    value: float = f.max_batch_exact(f.kv_budget_bytes(memory_bytes, weights), sequence)
    return value


def gpt_oss(name: str) -> float:
    """Experts in mxfp4 with their scales, everything else in bf16."""
    experts = params(name, "experts", "router")
    value: float = f.weight_bytes(experts, 4.25) + f.weight_bytes(params(name) - experts, 16)
    return value


def ran(name: str, ctx: int, batch: int, device: str = "h100-sxm", **more: Any) -> dict[str, Any]:
    return decode.decode(bundled(name), plan(bundled(name), device, **more), Workload(ctx, batch)).results


def book_question(experts: int = 0) -> Any:
    """The book's worked question: 64 layers, D 4096, F 16384, 32 query and 8 KV heads of 256, one table of 32,128."""
    mixture = {"model_type": "mixtral", "num_local_experts": experts, "num_experts_per_tok": 2} if experts else {}
    return model.read({**llama(64, 4096, 16384, 32, 8, 256, 32128, tied=True), **mixture}, id="question")


def pope(batch: int, heads: int, head_dim: int, chips: int) -> float:
    """Context for which 30% of the memory of so many chips of 32 GiB holds the cache of 118 layers."""
    value: float = f.max_batch_exact(0.3 * chips * 32 * GIB, f.batch_bytes(per_token(118, heads, head_dim), batch))
    return value


def deepseek_ep(bandwidth: float, width: int = 7000) -> float:
    """Dispatch in fp8 and combine in bf16 of 32 tokens to 9 experts each, among very many ranks."""
    value: float = time.all_to_all_s(0, 10**12, 32 * 9 * width * (1 + 2), bandwidth)
    return value


MHA = {1: (4.98, 200.61), 8: (12.13, 659.30), 16: (20.30, 787.99), 32: (36.65, 873.21), 64: (69.33, 923.13), 240: (249.09, 963.53)}
GQA = {1: (4.17, 239.94), 8: (5.60, 1429.19), 16: (7.23, 2212.48), 32: (10.50, 3047.62), 64: (17.04, 3756.62), 240: (52.99, 4529.34)}
KERNELS = {1: 6.087, 8: 8.697, 16: 12.772, 32: 17.517, 48: 22.266}

Row = tuple[str, str, float, float, Callable[[], float]]
VECTORS: list[Row] = [
    ("SB-01", BOOK, 6.7e9, 0.01, lambda: kv(LLAMA_2_13B, 8192)),
    ("SB-02", BOOK, 8.5e9, 0.01, lambda: params(LLAMA_2_13B, "mlp")),
    ("SB-03", BOOK, 0.3e9, 0.1, lambda: params(LLAMA_2_13B, "embedding", "head")),
    ("SB-04", BOOK, 4.2e9, 0.01, lambda: params(LLAMA_2_13B, "attention")),
    *((f"SB-05-B{b}", BOOK, ms, 0.002, lambda b=b: step_ms(b, 6.7e9, 26e9, V5E, 8)) for b, (ms, _) in MHA.items()),
    *((f"SB-06-B{b}", BOOK, tps, 0.002, lambda b=b: rate(b, step_ms(b, 6.7e9, 26e9, V5E, 8))) for b, (_, tps) in MHA.items()),
    *((f"SB-07-B{b}", BOOK, ms, 0.002, lambda b=b: step_ms(b, 1.34e9, 26e9, V5E, 8)) for b, (ms, _) in GQA.items()),
    *((f"SB-07-B{b}", BOOK, tps, 0.002, lambda b=b: rate(b, step_ms(b, 1.34e9, 26e9, V5E, 8))) for b, (_, tps) in GQA.items()),
    ("SB-08", BOOK, 2.5, 0.03, lambda: step_ms(4, 8192 * 100e3, 30e9, 8.1e11, 16)),
    ("SB-09", BOOK, 21, 0.01, lambda: step_ms(256, 8192 * 100e3, 30e9, 8.1e11, 16, time.compute_s(30e9, 256, 1.97e14, 16))),
    ("SB-10", BOOK, 240, 0.005, lambda: time.critical_batch(1.97e14, 2, 8.2e11, 1)),
    ("SB-11", BOOK, 120, 0.005, lambda: time.critical_batch(1.97e14, 1, 8.2e11, 1)),
    ("SB-12", BOOK, 243, 0.005, lambda: time.critical_batch(3.94e14, 1, 8.1e11, 1)),
    ("SB-13", BOOK, 298, 0.005, lambda: time.critical_batch(1e15, 2, 3.35e12, 1)),
    ("SB-14", BOOK, 160e3, 0.03, lambda: kv("meta-llama/Llama-3.1-70B-Instruct", dtype="int8")),
    ("SB-15", BOOK, 5.3e9, 0.01, lambda: f.cache_bytes(162e3, 32768)),
    ("SB-16", BOOK, 86, 0.01, lambda: f.share(70e9 + 1.3e12, 16e9)),
    ("SB-17", BOOK, 112e9, 0.01, lambda: 70e9 + f.batch_bytes(f.cache_bytes(160e3, 8192), 32)),
    ("SB-18", BOOK, 17, 0.02, lambda: time.read_s(112e9, 8.1e11, 8) * 1e3),
    ("SB-19", BOOK, 235, 0.005, lambda: rate(32, 17) / 8),
    ("SB-20", BOOK, 43, 0, lambda: held(16 * 16e9, 140e9, 324e3 * 8192) // 1),
    ("SB-23", BOOK, 19, 0.03, lambda: time.read_s(16e9, 8.2e11, 1) * 1e3),
    ("SB-24", BOOK, 4.42, 0.002, lambda: rate(43, 19) / 512),
    ("SB-26", BOOK, 0.91, 0.005, lambda: time.work_s(compute.dense_flops(70e9, 8192), 0.4 * 1.97e14, 16)),
    ("SB-31a", BOOK, 11, 0.2, lambda: time.read_s(2 * 64 * 8192, 9e10, 1) * 1e6),
    ("SB-31b", BOOK, 18, 0.2, lambda: time.read_s(2 * 8192 * 28672, 8.1e11, 32) * 1e6),
    ("SB-31c", BOOK, 4, 0.2, lambda: time.compute_s(8192 * 28672, 64, 1.97e14, 32) * 1e6),
    ("SB-32", BOOK, 18.4e9, 0.005, lambda: memory.language_params(book_question())),
    ("SB-33", BOOK, 262144, 0, lambda: memory.kv(book_question(), 1, 1, "int8").results["kv_bytes_per_token"]),
    ("SB-34", BOOK, 110.64, 0.001, lambda: held(16 * 16e9, 18.4e9, 262144 * 8192)),
    ("SB-35", BOOK, 1.4198, 0.001, lambda: time.read_s(18.4e9, 8.1e11, 16) * 1e3),
    ("SB-36a", BOOK, 212e9, 0.002, lambda: memory.language_params(book_question(16))),
    ("SB-36b", BOOK, 3.13e10, 0.005, lambda: memory.active_params(book_question(16))),
    ("SB-37a", BOOK, 960, 0.005, lambda: time.critical_batch(1.97e14, 1, 8.2e11, 8)),
    ("SB-37b", BOOK, 1920, 0.005, lambda: time.critical_batch(1.97e14, 2, 8.2e11, 8)),
    ("SB-41", BOOK, 524288, 0, lambda: per_token(64, 32, 128, 1)),
    ("SB-44a", BOOK, 75, 0.01, lambda: time.read_s(1024 * 16384 * 2, 450e9, 1) * 1e6),
    ("SB-44b", BOOK, 65, 0.01, lambda: time.all_to_all_s(0, 8, 1024 * 16384 * 2, 450e9) * 1e6),
    ("SB-45", BOOK, 1.04, 0.01, lambda: time.all_to_all_s(0, 8, 536.9e6, 450e9) * 1e3),
    ("SB-47", BOOK, 79200, 1e-9, lambda: time.critical_batch(990e12, 2, 400e9, 32)),
    ("PA-01", VLLM, 819200, 0, lambda: kv("facebook/opt-13b", dtype="fp16")),
    ("PA-02", VLLM, 1.6e9, 0.05, lambda: kv("facebook/opt-13b", 2048, "fp16")),
    ("PA-03", VLLM, 0.65, 0, lambda: f.share(f.weight_bytes(13e9, 16), 40e9)),
    ("PA-04", "blog.vllm.ai", 1.7e9, 0.02, lambda: kv(LLAMA_2_13B, 2048, "fp16")),
    ("NV-01", "NVIDIA, mastering LLM techniques", 14e9, 0, lambda: f.weight_bytes(7e9, 16)),
    ("NV-02", "NVIDIA, mastering LLM techniques", 2147483648, 0, lambda: kv("meta-llama/Llama-2-7b-hf", 4096)),
    ("KI-01", KIPPLY, 208, 0.001, lambda: time.critical_batch(312e12, 2, 1.5e12, 1)),
    ("KI-02", KIPPLY, 2097152, 0, lambda: per_token(64, 64, 128)),
    ("KI-03", KIPPLY, 17.3, 0.005, lambda: time.read_s(104e9, 1.5e12, 4) * 1e3),
    ("KI-04", KIPPLY, 51.54e9, 0.001, lambda: f.matrix_params(64, 12, 8192, 8192)),
    ("KI-05", KIPPLY, 0.66, 0.01, lambda: time.compute_s(51.54e9, 8, 312e12, 4) * 1e3),
    ("KI-06", KIPPLY, 169, 0.005, lambda: time.work_s(compute.dense_flops(51.54e9, 2048), 312e12, 4) * 1e3),
    ("KI-07", KIPPLY, 8.8e12, 0.005, lambda: compute.prefill_attention_flops(64, 4 * 8192, 2048**2)),
    ("KI-08", KIPPLY, 26703, 0.001, lambda: held(160e9, 104e9, 2097152)),
    ("KI-09", KIPPLY, 23.0, 0.01, lambda: step_ms(8, 2097152 * 2048, 104e9, 1.5e12, 4)),
    ("KI-10", KIPPLY, 1.0, 0.03, lambda: time.repeated_s(2 * 64, 8e-6) * 1e3),
    ("KI-11", KIPPLY, 5.24, 0.005, lambda: time.repeated_s(128, time.all_reduce_s(0, 4, 8.192e6, 300e9)) * 1e3),
    ("PO-01-b128", POPE, 1320, 0.02, lambda: pope(128, 64, 128, 64)),
    ("PO-01-b512", POPE, 330, 0.02, lambda: pope(512, 64, 128, 64)),
    ("PO-02-b128", POPE, 660, 0.02, lambda: pope(128, 1, 256, 1)),
    ("PO-02-b512", POPE, 165, 0.02, lambda: pope(512, 1, 256, 1)),
    ("PO-03-b128", POPE, 43000, 0.02, lambda: pope(128, 1, 256, 64)),
    ("PO-03-b512", POPE, 10700, 0.02, lambda: pope(512, 1, 256, 64)),
    ("PO-04", POPE, 3e12, 0.05, lambda: f.batch_bytes(f.cache_bytes(per_token(118, 48, 128), 2048), 512)),
    ("DS-01", "arXiv:2405.04434", 2.25, 0, lambda: f.latent_bytes_per_token(60, 4 * 128, 64, 2) / per_token(60, 1, 128)),
    ("DS-02", "arXiv:2405.04434", 0.933, 0.001, lambda: 1 - f.latent_bytes_per_token(60, 512, 64, 6 / 8) / per_token(95, 8, 128)),
    ("DS-03", "arXiv:2505.09343", 70272, 0, lambda: kv("deepseek-ai/DeepSeek-V3")),
    ("DS-04", "arXiv:2505.09343", 327680, 0, lambda: kv("Qwen/Qwen2.5-72B-Instruct")),
    ("DS-05", "arXiv:2505.09343", 516096, 0, lambda: kv("meta-llama/Llama-3.1-405B-Instruct")),
    ("DS-07", "arXiv:2505.09343", 120.96, 1e-6, lambda: deepseek_ep(50e9) * 1e6),
    ("DS-08", "arXiv:2505.09343", 14.76, 0.001, lambda: time.repeated_s(61 * 2, deepseek_ep(50e9)) * 1e3),
    ("DS-09a", "arXiv:2505.09343", 6.72, 0.02, lambda: deepseek_ep(900e9) * 1e6),
    ("DS-09b", "arXiv:2505.09343", 0.82, 0.02, lambda: time.repeated_s(61 * 2, deepseek_ep(900e9)) * 1e3),
    ("DS-09c", "arXiv:2505.09343", 1200, 0.02, lambda: time.tokens_per_s(1, time.repeated_s(61 * 2, deepseek_ep(900e9)))),
    ("DS-11", "deepseek-ai/open-infra-index, day 6", 87072, 1e-6, lambda: money.deployment_usd_per_hour(2, 226.75 * 8) * 24),
    ("DS-17", "deepseek-ai/open-infra-index, day 6", 0.3003, 0.001, lambda: money.usd_per_million_tokens(16, 14.8e3, 1)),
    ("LM-01", "lmsys.org, large-scale EP", 0.20, 0.01, lambda: money.usd_per_million_tokens(money.deployment_usd_per_hour(2, 8), 22.3e3, 1)),
    ("DB-01", "Databricks, LLM inference performance engineering", 0.5, 1e-12, lambda: time.read_s(14e9, 2e12, 1) / 14e-3),
    ("BT-01", "Baseten, transformer inference guide", 208.3, 0.001, lambda: time.ridge_point(125e12, 600e9)),
    ("BT-02", "Baseten, A10 and A10G", 116.6, 0.001, lambda: time.ridge_point(70e12, 600e9)),
    ("BT-03", "Baseten, transformer inference guide", 62, 0.01, lambda: time.intensity((4 * 128 + 3) * 4096**2, 8 * 4096**2 + 8 * 4096 * 128)),
    ("DI-01", "arXiv:2401.09670", 1.13 * GIB, 0.005, lambda: f.cache_bytes(per_token(64, 72, 128), 512)),
    ("LC-01", "llama.cpp log", 1024, 0, lambda: kv("meta-llama/Meta-Llama-3-8B", 8192, "fp16") / 2**20),
    ("LC-02", "llama.cpp log", 1024, 0, lambda: kv("meta-llama/Llama-2-7b-hf", 2048, "fp16") / 2**20),
    ("LC-03", "llama.cpp log", 576, 0, lambda: kv("Qwen/Qwen3-8B", 4096, "fp16") / 2**20),
    ("GO-01-120b", "arXiv:2508.10925", 114.71e9, 0.001, lambda: params("openai/gpt-oss-120b", "experts", "router")),
    ("GO-02-120b", "arXiv:2508.10925", 116.83e9, 0.001, lambda: params("openai/gpt-oss-120b")),
    ("GO-03-120b", "arXiv:2508.10925", 5.13e9, 0.01, lambda: memory.active_params(bundled("openai/gpt-oss-120b"))),
    ("GO-04-120b", "arXiv:2508.10925", 60.8 * GIB, 0.005, lambda: gpt_oss("openai/gpt-oss-120b")),
    ("GO-01-20b", "arXiv:2508.10925", 19.12e9, 0.001, lambda: params("openai/gpt-oss-20b", "experts", "router")),
    ("GO-02-20b", "arXiv:2508.10925", 20.91e9, 0.001, lambda: params("openai/gpt-oss-20b")),
    ("GO-03-20b", "arXiv:2508.10925", 3.61e9, 0.01, lambda: memory.active_params(bundled("openai/gpt-oss-20b"))),
    ("GO-04-20b", "arXiv:2508.10925", 12.8 * GIB, 0.005, lambda: gpt_oss("openai/gpt-oss-20b")),
    ("HF-01", "transformers, optimising LLMs for speed and memory", 7864320000, 0, lambda: f.cache_bytes(per_token(40, 48, 128, 1), 16000)),
    ("ST-01", "arXiv:2508.18572", 0.3e6, 0.05, lambda: f.max_batch_exact(40e9, kv("meta-llama/Meta-Llama-3-8B"))),
    ("AC-01", "aiconfigurator, user guide", 0.3125, 0, lambda: kv("Qwen/Qwen3-32B", 5120) / 4 / GIB),
    ("AC-02", "aiconfigurator, user guide", 10, 0, lambda: kv("Qwen/Qwen3-32B", 5120, batch=32) / 4 / GIB),
    ("AC-03", "aiconfigurator, user guide", 15.256, 0.005, lambda: f.weight_bytes(params("Qwen/Qwen3-32B"), 16) / 4 / GIB),
    ("AC-04", "aiconfigurator, user guide", 357, 0, lambda: held(141, 15.256 + 10 + 0.383 + 3.5, 0.3125) // 1),
    ("AC-05", "aiconfigurator, user guide", 5.572, 0.05, lambda: sum(ran("Qwen/Qwen3-32B", 4608, 32, "h200-sxm", tp=4)[k] for k in ("weight_read_s", "kv_read_s")) * 1e3),
    # Kernels of one decode step added up, vLLM 0.24 on H100: 10-29% above the ideal step, which the vector allows for.
    *((f"MS-01-B{b}", "aiconfigurator, silicon tables", ms, 0.3, lambda b=b: ran("meta-llama/Meta-Llama-3-8B", 8192, b)["step_time_s"] * 1e3) for b, ms in KERNELS.items()),
    ("MS-02", "aiconfigurator, silicon tables: a small all-reduce at 8 ranks, us", 4.7, 0.1, lambda: talk.LATENCY_S["nvlink"] * 1e6),
    ("FA-01", "flash-attention, FLOP counter", 549755813888, 0, lambda: compute.prefill_attention_flops(1, 4 * 32 * 128, compute.causal_pairs(8192, 0))),
]  # fmt: skip

# What no formula of caches, fit, decode and cost expresses, and whose subject it is.
ELSEWHERE = {
    "serving and disaggregation": "SB-27 SB-28 DI-02 OR-02 PA-05 DS-15 DS-16 DS-18",
    "queueing": "DI-03 DI-04",
    "speculation": "LV-01 LV-02 LV-04 DS-10",
    "engine policies": "VL-01 VL-02 VL-03 VL-04 VL-05 VL-06 VL-07 VL-08",
    "accuracy": "AC-06 MS-03 MS-04 BL-01",
    "revenue, training and sharding rules, of which no command speaks": "DS-12 DS-13 DS-14 SB-29 SB-30 SB-39 SB-42 SB-43",
}
# The collection has 162 vectors. Ten are marked as errata of their sources and four are claims without a calculation.
COMPUTABLE = 162 - 10 - 4


@pytest.mark.parametrize(
    ("source", "printed", "tolerance", "ours"), [row[1:] for row in VECTORS], ids=[f"{row[1]}: {row[2]:g}" for row in VECTORS]
)
def test_a_printed_number(source: str, printed: float, tolerance: float, ours: Callable[[], float]) -> None:
    assert ours() == pytest.approx(printed, rel=tolerance or 1e-12), source


def test_the_coverage() -> None:
    """At least 95% of what these commands can express holds; with the rest of the collection accounted for, id by id."""
    ids = {row[0].rstrip("abc") for row in VECTORS}
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()}
    assert not ids & elsewhere
    assert len(ids) + len(elsewhere) == COMPUTABLE
    good = {row[0] for row in VECTORS if row[4]() == pytest.approx(row[2], rel=row[3] or 1e-12)}
    assert len(good) >= 0.95 * len({row[0] for row in VECTORS})
