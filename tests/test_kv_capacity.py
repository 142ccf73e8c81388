"""Caches and pools as engines logged them: measurements/kv_capacity.yaml."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest
import yaml

from llmcalc import cli, engines, formats, hardware
from llmcalc import model as models
from llmcalc.architecture import Model
from llmcalc.estimate import capacity, charged, layout, memory, overheads
from llmcalc.figures import Figure
from llmcalc.plan import Deployment

GIB = 2**30
ROOT = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = yaml.safe_load((ROOT / "measurements" / "kv_capacity.yaml").read_text())


def rows(*kinds: str, has: str) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in ROWS if row["kind"] in kinds and has in row]


@cache
def read(text: str) -> Model:
    row = json.loads(text)
    raw = json.loads((ROOT / "models" / f"{row['model'].replace('/', '--')}.json").read_text())
    inner = raw.get("text_config", raw)
    inner |= row.get("config", {})
    if "layer_types" in row.get("config", {}):
        inner["layer_types"] *= inner["num_hidden_layers"] // len(inner["layer_types"])
    return models.read(raw | ({"quantization_config": row["quant"]} if "quant" in row else {}), id=row["model"])


def model(row: dict[str, Any]) -> Model:
    return read(json.dumps({key: row[key] for key in ("model", "config", "quant") if key in row}))


def drafter(shape: dict[str, int] | None) -> Model | None:
    """A draft of that shape behind Qwen's tables."""
    if shape is None:
        return None
    layers, window = shape["layers"], shape.get("window")
    kind = "sliding_attention" if window else "full_attention"
    return models.read(
        {
            "model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": layers, "num_attention_heads": 32, "vocab_size": 248320,
            "num_key_value_heads": shape["kv_heads"], "head_dim": shape["head_dim"], "intermediate_size": 17408,
            "use_sliding_window": bool(window), "sliding_window": window, "layer_types": [kind] * layers, "tie_word_embeddings": False,
        }
    )  # fmt: skip


def plan(row: dict[str, Any]) -> Deployment:
    engine = engines.find(row["engine"])
    return Deployment(
        device=hardware.load(row.get("device", "h100-sxm")),
        weights=memory.weight_format(model(row), row.get("weights", "bf16"))[0],
        kv=formats.find(row.get("kv", "bf16"), kv=True),
        tp=row.get("tp", 1),
        engine=replace(engine, **{key: row[key] for key in ("logit_bytes", "state_blocks") if key in row}),
        utilization=row.get("share"),
        batched_tokens=row.get("step"),
        max_sequences=row.get("seqs"),
        draft_tokens=row.get("drafts", 0),
        drafter=drafter(row.get("draft")),
    )


def sequence(row: dict[str, Any]) -> float:
    found: float = charged.sequence_bytes(model(row), plan(row), Figure("ctx_tokens", row["ctx"])).value
    return found / row.get("tp", 1)


@pytest.mark.parametrize("row", rows("plain", has="tokens"))
def test_bytes_per_token_of_a_plain_cache(row: dict[str, Any]) -> None:
    """The pool over the tokens that it holds: what a token takes on one device."""
    padded = sequence(row) / row["ctx"]
    assert row["pool_gib"] * GIB / row["tokens"] == pytest.approx(padded, rel=0.002)


@pytest.mark.parametrize("row", rows("mixed", "plain", has="concurrency"))
def test_concurrency(row: dict[str, Any]) -> None:
    """Printed to two decimals, of a pool printed to two decimals."""
    rounding = 0.005 / row["concurrency"] + 0.005 / row["pool_gib"]
    assert row["pool_gib"] * GIB / sequence(row) == pytest.approx(row["concurrency"], rel=0.003 + rounding)


@pytest.mark.parametrize("row", [row for row in rows("mixed", has="tokens") if "states" not in row.values[0]])
def test_logged_tokens_of_a_mixed_cache(row: dict[str, Any]) -> None:
    """Before 0.21 the blocks over the groups; since then the concurrency times the context."""
    budget = row["pool_gib"] * GIB * row.get("tp", 1)
    exact = row["pool_gib"] * GIB / sequence(row)
    assert charged.capacity_tokens(model(row), plan(row), row["ctx"], budget, exact) == pytest.approx(row["tokens"], rel=0.005)


def test_sglang_splits_its_pool_between_states_and_caches() -> None:
    """Qwen3.5-9B at TP2: 4.48 GiB of states in 186 slots and one spare, 5.00 GiB of caches; 9 to 10 by mamba_full_memory_ratio."""
    row = next(row for row in ROWS if row["id"] == "qwen3.5-9b-tp2")
    states = sum(f.value for mixer, layers in memory.mixers(model(row)) for f in charged.state_bytes(mixer, layers, model(row), plan(row)))
    assert (row["states"] + 1) * states / 2 / GIB == pytest.approx(4.48, rel=0.002)
    ratio = plan(row).engine.state_ratio
    assert row["pool_gib"] * ratio / (1 + ratio) == pytest.approx(4.48, rel=0.005)
    # Long sequences are limited by caches: 16 KiB per token and rank in 10/19 of the pool.
    long = row | {"ctx": 262144}
    assert row["pool_gib"] * GIB / sequence(long) * long["ctx"] == pytest.approx(row["tokens"], rel=0.005)


@pytest.mark.parametrize(
    ("given", "tokens"),
    [  # ai-dynamo/aisimulate pull 263 ("about 509k"); vllm-project/vllm issue 21348
        ({"model": "deepseek-ai/DeepSeek-R1", "device": "h200-sxm", "tp": 8, "share": 0.82, "weights": "auto"}, 509_000),
        ({"model": "Qwen/Qwen3-235B-A22B-FP8", "device": "h100-sxm", "tp": 4, "share": 0.93, "weights": "auto"}, 367_404),
    ],
)
def test_sglangs_pool(given: dict[str, Any], tokens: int) -> None:
    """A share of what is free before weights are loaded, less the weights."""
    at = plan(row := given | {"engine": "sglang"})
    found = capacity.ledger(model(row), at, 8192)
    assert found["max_batch_exact"].value * 8192 == pytest.approx(tokens, rel=0.025)


def test_what_every_rank_holds() -> None:
    """79.41 GiB are logged of DeepSeek-R1 at TP8, where an eighth of its files are 78.4: HabanaAI/vllm-fork issue 809."""
    row = {"model": "deepseek-ai/DeepSeek-R1", "engine": "vllm", "tp": 8, "weights": "auto"}
    at = plan(row)
    copied = layout.copied_weight_bytes(model(row), at)
    assert copied is not None
    assert layout.held_weight_bytes(model(row), at).value / 8 + copied.value == pytest.approx(79.41 * GIB, rel=0.003)


@pytest.mark.parametrize("row", rows("pool", "plain", "mixed", has="activation_gib"))
def test_activation_peak(row: dict[str, Any]) -> None:
    assert overheads.activation(model(row), plan(row), row["ctx"]).value / GIB == pytest.approx(row["activation_gib"], rel=0.1)


def pool_error(row: dict[str, Any]) -> float:
    """How far off the pool is; weights are the logged ones, which kernels have padded, or those of the checkpoint."""
    at = plan(row)
    seen = row.get("total_gib", overheads.visible_bytes(at).value / GIB)
    beside = {item: figure.value / GIB for item, figure in overheads.overheads(model(row), at, row["ctx"]).items()}
    padding = beside.pop("padding of experts", 0) + beside.pop(overheads.COPIED, 0)
    weights = row.get("weights_gib") or layout.held_weight_bytes(model(row), at).value / at.ranks / GIB + padding
    return float(abs((seen * at.share - weights - sum(beside.values())) / row["pool_gib"] - 1))


def test_the_pool_of_a_known_device() -> None:
    """Share x memory - weights - what the engine holds beside them: 2% in the median, 8% for nine in ten, of every row that has them."""
    errors = [pool_error(row) for row in ROWS if "share" in row and "device" in row and ("weights_gib" in row or "weights" in row)]
    assert len(errors) >= 37
    assert median(errors) < 0.02
    assert quantiles(errors, n=10)[-1] < 0.08


@pytest.mark.parametrize(
    ("device", "seen_gib"),
    # Totals that vLLM logs: "Free memory on device (78.66/79.19 GiB)" and the like.
    [
        ("h100-sxm", 79.19),
        ("a100-40-sxm", 39.49),
        ("rtx-3090", 23.58),
        ("t4", 14.56),
        ("h200-sxm", 139.81),
        ("rtx-pro-6000-blackwell", 94.97),
    ],
)
def test_what_a_program_sees_of_a_device(device: str, seen_gib: float) -> None:
    at = Deployment(
        device=hardware.load(device), weights=formats.find("bf16"), kv=formats.find("bf16", kv=True), engine=engines.find("vllm")
    )
    assert overheads.visible_bytes(at).value / GIB == pytest.approx(seen_gib, rel=0.005)


@pytest.mark.parametrize(
    ("on", "gib", "starts"),
    [  # pools of a device that vLLM logged, by the command alone
        # llm-d-incubation/llm-d-planner docs/empirical-vllm-memory-results.md
        ("meta-llama/Llama-3.1-8B-Instruct -d h100-sxm --engine vllm@0.11 --memory-utilization 0.9 -c 16000", 51.38, True),
        ("Qwen/Qwen3-32B -d 2xh100-sxm --engine vllm@0.11 --memory-utilization 0.9 -c 16000", 34.49, True),
        # vllm-project/vllm issues 27508, 10517, 10360; eugr/spark-vllm-docker issue 396
        (
            "openai/gpt-oss-120b -d h100-sxm --engine vllm@0.11 --memory-utilization 0.95 --max-num-batched-tokens 1024 -c 131072",
            1.71,
            False,
        ),
        ("meta-llama/Llama-3.1-8B-Instruct -d rtx-3090 --engine vllm@0.6 --memory-utilization 0.9 -c 29000", 2.89, False),
        ("Qwen/Qwen2.5-32B-Instruct-AWQ -d a6000 --engine vllm@0.6 -c 4096", 22.74, True),
        # mitchross/talos-argocd-proxmox pull 1995; start-up logs in public repositories
        ("Qwen/Qwen3.8-27B-FP8 -d 2xrtx-3090 --kv-dtype fp8 --engine vllm@0.22 --max-num-seqs 2 -c 131072", 4.99, True),
        ("openai/gpt-oss-20b -d a100-80-sxm --engine vllm@0.19 --memory-utilization 0.65 -c 131072", 36.56, True),
        ("google/gemma-3-27b-it -d mi300x --engine vllm@0.11 --memory-utilization 0.9 -c 4096", 109.86, True),
        ("nvidia/Gemma-4-31B-IT-NVFP4 -d jetson-thor-t5000 --engine vllm@0.19 --memory-utilization 0.8 -c 131072", 64.21, True),
    ],
)
def test_pools_of_whole_commands(on: str, gib: float, starts: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fit", "-m", *on.split(), "--json", "--offline"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"]["kv_budget_bytes"] / found["hardware"]["count"] / GIB == pytest.approx(gib, rel=0.08)
    assert found["results"]["fits"] is starts
