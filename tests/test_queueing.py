"""Queues against their textbooks: published examples, and values that a long simulation gave others."""

from __future__ import annotations

import math
import random

import pytest

from llmcalc.formulas import queueing as q
from llmcalc.formulas import serving as f
from llmcalc.formulas import time


def test_distserve_equations() -> None:
    """D = 0.2 s. Eq. 1 at 3 requests/s; eq. 2 and 3 (K = 1.6) at 5 and 6."""
    assert q.uniform_ttft_s(3, 0.2) == pytest.approx(0.35)
    assert [q.pipelined_ttft_s(rate, 0.2) for rate in (5, 6)] == pytest.approx([0.25, 0.275])
    assert [q.parallel_ttft_s(rate, 0.2, 1.6) for rate in (5, 6)] == pytest.approx([0.22916667, 0.3125])
    # Pollaczek and Khinchine say the same of a constant service.
    assert 0.2 + q.mean_wait_s(3, 0.2**2, q.load(3, 0.2)) == pytest.approx(q.uniform_ttft_s(3, 0.2))


@pytest.mark.parametrize(("load", "p95"), [(0.5, 0.610), (0.7, 1.02), (0.8, 1.51), (0.9, 3.06)])
def test_the_quick_tail_of_uniform_prompts(load: float, p95: float) -> None:
    """The theory's simulated p95 at D = 0.2 s; the exponential tail is 1-8% above."""
    quick = q.tail_ttft_s(0.2, math.log(load / 0.05), load, 0)
    assert 1.0 <= quick / p95 <= 1.09


@pytest.mark.parametrize(("servers", "offered", "printed"), [(2, 1.5, 0.643), (4, 3, 0.509), (8, 6, 0.357), (10, 9, 0.669)])
def test_erlang_c(servers: int, offered: float, printed: float) -> None:
    assert q.erlang_c(servers, offered) == pytest.approx(printed, abs=6e-4)
    sums = sum(offered**k / math.factorial(k) for k in range(servers))
    tail = offered**servers / math.factorial(servers) * servers / (servers - offered)
    assert q.erlang_c(servers, offered) == pytest.approx(tail / (sums + tail))


def test_one_server_of_erlang_is_the_simple_queue() -> None:
    """M/M/1: a request waits with probability rho, rho/(1-rho) services on average; half of it when the service is constant."""
    wait = q.shared_queue_wait_s(q.erlang_c(1, 0.8), 1, 0.8, 0.2)
    assert wait == pytest.approx(0.8 / 0.2 * 0.2)
    assert q.general_wait_s(wait, 1, 0) == pytest.approx(q.mean_wait_s(4, 0.04, 0.8))


# The theory's example: Llama-3-8B on one H100, the Splitwise conversation trace, prefill at half the compute rate.
FIXED_S = 16.0605e9 / 3.35e12
CONTEXT = 1227  # of the average step
PER_SEQUENCE_S = 131072 * CONTEXT / 3.35e12
PREFILL_S, OUTPUT = 0.038, 211


@pytest.mark.parametrize(("rate", "batch", "ms"), [(5, 6.7, 6.3), (10, 19.5, 9.2), (15, 54.5, 17.2)])
def test_the_steady_state(rate: float, batch: float, ms: float) -> None:
    prefill = q.load(rate, PREFILL_S)
    found = q.steady_batch(rate, OUTPUT, FIXED_S, PER_SEQUENCE_S, prefill)
    assert found == pytest.approx(batch, rel=0.01)
    assert q.steady_tpot_s(FIXED_S, PER_SEQUENCE_S, found, prefill) * 1e3 == pytest.approx(ms, rel=0.01)
    # Little's law ties the two.
    assert found == pytest.approx(rate * OUTPUT * q.steady_tpot_s(FIXED_S, PER_SEQUENCE_S, found, prefill))


def test_the_highest_rate() -> None:
    assert q.max_rate(PREFILL_S, OUTPUT, PER_SEQUENCE_S) == pytest.approx(20.8, rel=0.005)


def test_the_mean_context_weighs_tokens() -> None:
    """Two requests, 1,000 in 10 out and 10 in 1,000 out: (10,000 + 10,000 + (100 + 1,000,000)/2) / 1,010 tokens."""
    mean = q.mean_context((1000 * 10 + 10 * 1000) / 2, (10**2 + 1000**2) / 2, 505)
    steps = [1000 + step for step in range(10)] + [10 + step for step in range(1000)]
    assert mean == pytest.approx(sum(steps) / len(steps), abs=0.51)


@pytest.mark.parametrize(("batch", "share"), [(8, 0.368), (16, 0.296), (32, 0.246), (64, 0.211)])
def test_a_static_batch_waits_for_its_longest(batch: int, share: float) -> None:
    """exponential answers keep 1/H_B of the slots at work."""
    assert q.static_utilization(1, q.harmonic(batch)) == pytest.approx(share, abs=5e-4)
    chance = random.Random(1)
    outputs = [round(chance.expovariate(1 / 10000)) for _ in range(40000)]
    mean = sum(outputs) / len(outputs)
    assert q.static_utilization(mean, q.expected_longest(outputs, batch)) == pytest.approx(share, rel=0.02)


def test_the_longest_of_even_lengths() -> None:
    """Uniform lengths: the longest of B is B/(B+1) of the maximum; a static batch is about half at work."""
    outputs = range(1, 10001)
    assert q.expected_longest(outputs, 9) == pytest.approx(9 / 10 * 10000, rel=1e-3)
    assert q.expected_longest([7], 5) == 7


def test_separate_pools() -> None:
    """0.91 s of prefill against 512 steps of 19 ms shared by 32: 2.99 prefill servers per decode server."""
    assert f.pool_replicas(1, 0.91, 1) / f.pool_replicas(1, 0.019 * 512 / 32, 1) == pytest.approx(3, rel=0.01)


def test_what_the_pools_send_each_other() -> None:
    """10 requests/s of 1.13 GB: 90 Gbit/s. Theory: 8k of Llama-3-8B in 21.5 ms at 50 GB/s, 2.4 ms over NVLink."""
    assert f.transfer_rate(10, 1.13e9) * 8 / 1e9 == pytest.approx(90, rel=0.01)
    assert f.transfer_s(131072 * 8192, 50e9) == pytest.approx(21.5e-3, rel=2e-3)
    assert f.transfer_s(131072 * 8192, 450e9) == pytest.approx(2.4e-3, rel=0.01)


def test_a_disclosed_service() -> None:
    """open-infra-index, day 6: 608e9 tokens in (342e9 of them cached) and 168e9 out a day.

    A node reads 73.7k or writes 14.8k tokens/s: 96 + 131 nodes, of which 226.75 were in use. The average cache of 4,989 tokens
    is that of 4,383 tokens in and 1,211 out.
    """
    day = 86400
    prefill, decode = f.pool_replicas(608e9 / day, 1 / 73.7e3, 1), f.pool_replicas(168e9 / day, 1 / 14.8e3, 1)
    assert (prefill, decode) == pytest.approx((96, 131), rel=0.01)
    assert prefill + decode == pytest.approx(226.75, rel=2e-3)
    # With fixed lengths the average step holds the prompt and half of the answer.
    prompt = 4989 / (1 + 168 / 608 / 2)
    output = prompt * 168 / 608
    assert (prompt, output) == pytest.approx((4383, 1210), rel=2e-3)
    assert q.mean_context(prompt * output, output**2, output) == pytest.approx(4989)
    assert pytest.approx(32.2e3, rel=3e-3) == 73.7e3 * (1 - 342 / 608)


def test_the_notes_on_offload() -> None:
    """Fetching 131,072 B at 50 GB/s takes 2.6 us; prefill at half the compute rate takes 28 us a token: 11 times as long."""
    fetch = f.transfer_s(131072, 50e9)
    again = time.compute_s(6.98e9, 1, 989e12 * 0.5, 1)
    assert fetch == pytest.approx(2.6e-6, rel=0.01)
    assert again == pytest.approx(28e-6, rel=0.01)
    assert again / fetch == pytest.approx(11, rel=0.03)
    # Break-even: kv · MFU · P / (2N), 4.6 GB/s.
    assert f.break_even_link(131072, again) == pytest.approx(131072 * 0.5 * 989e12 / (2 * 6.98e9))
