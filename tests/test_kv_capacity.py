"""Caches and pools as engines logged them: measurements/kv_capacity.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import pytest
import yaml

from llmcalc import engines, formats, hardware, load_model
from llmcalc.architecture import Model
from llmcalc.estimate import policy
from llmcalc.figures import Figure
from llmcalc.plan import Deployment

GIB = 2**30
ROWS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "measurements" / "kv_capacity.yaml").read_text())


def rows(*kinds: str, has: str) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in ROWS if row["kind"] in kinds and has in row]


@cache
def model(name: str) -> Model:
    return load_model(name, offline=True)


def plan(row: dict[str, Any]) -> Deployment:
    return Deployment(
        device=hardware.load(row.get("device", "h100-sxm")),
        weights=formats.find("bf16"),
        kv=formats.find(row.get("kv", "bf16"), kv=True),
        tp=row.get("tp", 1),
        engine=engines.find(row["engine"]),
        utilization=row.get("share"),
        batched_tokens=row.get("step"),
        max_sequences=row.get("seqs"),
    )


def sequence(row: dict[str, Any]) -> float:
    found: float = policy.sequence_bytes(model(row["model"]), plan(row), Figure("ctx_tokens", row["ctx"])).value
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
    """Before 0.22 the blocks over the groups; since then the concurrency times the context."""
    budget = row["pool_gib"] * GIB * row.get("tp", 1)
    exact = row["pool_gib"] * GIB / sequence(row)
    assert policy.capacity_tokens(model(row["model"]), plan(row), row["ctx"], budget, exact) == pytest.approx(row["tokens"], rel=0.005)


def test_sglang_splits_its_pool_between_states_and_caches() -> None:
    """Qwen3.5-9B at TP2: 4.48 GiB of states in 186 slots and one spare, 5.00 GiB of caches; 9 to 10 by mamba_full_memory_ratio."""
    row = next(row for row in ROWS if row["id"] == "qwen3.5-9b-tp2")
    states = sum(
        f.value
        for mixer, layers in policy.memory.mixers(model(row["model"]))
        for f in policy.state_bytes(mixer, layers, model(row["model"]), plan(row))
    )
    assert (row["states"] + 1) * states / 2 / GIB == pytest.approx(4.48, rel=0.002)
    ratio = plan(row).engine.state_ratio
    assert row["pool_gib"] * ratio / (1 + ratio) == pytest.approx(4.48, rel=0.005)
    # Long sequences are limited by caches: 16 KiB per token and rank in 10/19 of the pool.
    long = row | {"ctx": 262144}
    assert row["pool_gib"] * GIB / sequence(long) * long["ctx"] == pytest.approx(row["tokens"], rel=0.005)


@pytest.mark.parametrize("row", rows("pool", has="activation_gib"))
def test_activation_peak(row: dict[str, Any]) -> None:
    assert policy.activation(model(row["model"]), plan(row), row["ctx"]).value / GIB == pytest.approx(row["activation_gib"], rel=0.1)


def pool_error(row: dict[str, Any]) -> float:
    at = plan(row)
    seen = row.get("total_gib", policy.visible_bytes(at).value / GIB)
    beside = sum(figure.value for figure in policy.overheads(model(row["model"]), at, row["ctx"]).values()) / GIB
    return float(abs((seen * at.share - row["weights_gib"] - beside) / row["pool_gib"] - 1))


def test_the_pool_of_a_known_device() -> None:
    """Share x memory - weights - what the engine holds beside them: 5% in the median, 10% for nine in ten."""
    errors = [pool_error(row) for row in ROWS if "share" in row and "device" in row and "weights_gib" in row]
    assert len(errors) >= 9
    assert median(errors) < 0.05
    assert quantiles(errors, n=10)[-1] < 0.10


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
    assert policy.visible_bytes(at).value / GIB == pytest.approx(seen_gib, rel=0.005)
