"""Queues: the steady state of continuous batching, waiting times, and replicas.

Formulas that need a sum (Erlang's, harmonic numbers) are plain functions below the registered ones.
"""

from __future__ import annotations

from collections.abc import Iterable

from llmcalc.figures import formula


@formula(unit="ratio", ref="Kleinrock 1975")
def load(rate, service_s):
    """Share of the time that one server is busy. [1]

    >>> load(4, 0.2)
    0.8
    """
    return rate * service_s


@formula(unit="sequences", ref="Little 1961")
def in_flight(rate, stay_s):
    """Mean number of those that come at a rate and stay for a time. [sequences]

    >>> in_flight(4, 2.5)
    10
    """
    return rate * stay_s


@formula(unit="sequences", ref="Little's law on jax-ml/scaling-book inference.md, theoretical step time")
def steady_batch(rate, output_tokens, fixed_s, per_sequence_s, prefill_load):
    """Mean number of decoding sequences: each adds its own reads to a step that all of them wait for. Valid while prefill_load + rate ×
    output_tokens × per_sequence_s < 1. [sequences]

    >>> steady_batch(2, 300, 0.01, 0.0005, 0.2)
    12
    """
    return rate * output_tokens * fixed_s / (1 - prefill_load - rate * output_tokens * per_sequence_s)


@formula(unit="s", ref="definition")
def steady_tpot_s(fixed_s, per_sequence_s, batch, prefill_load):
    """Time per token where prefills take a share of the time away. Valid for 0 ≤ prefill_load < 1. [s]

    >>> steady_tpot_s(0.01, 0.0005, 12, 0.2)
    0.02
    """
    return (fixed_s + per_sequence_s * batch) / (1 - prefill_load)


@formula(unit="requests/s", ref="Kleinrock 1975")
def max_rate(prefill_s, output_tokens, token_s):
    """Rate at which one replica is busy all the time; token_s is a token's share of a step at the batch limit. [requests/s]

    >>> max_rate(0.05, 300, 0.0005)
    5
    """
    return 1 / (prefill_s + output_tokens * token_s)


@formula(unit="tokens", ref="definition")
def mean_context(prompt_output_tokens, output_squared_tokens, output_tokens):
    """Context of the average decode step: long answers have more steps, and longer ones. Means over requests. [tokens]

    >>> mean_context(200000, 40000, 200)
    1100
    """
    return (prompt_output_tokens + output_squared_tokens / 2) / output_tokens


@formula(unit="s", ref="Pollaczek and Khinchine; DistServe, arXiv:2401.09670")
def mean_wait_s(rate, mean_square_s2, load):
    """Mean wait for one server with random arrivals, first come first served. Valid for load < 1. [s]

    >>> mean_wait_s(4, 0.06, 0.8)
    0.6
    """
    return rate * mean_square_s2 / (2 * (1 - load))


@formula(unit="s", ref="arXiv:2401.09670, eq. 1")
def uniform_ttft_s(rate, service_s):
    """TTFT when all prompts are alike: the prefill and the wait for it. Valid for rate × service_s < 1. [s]

    >>> uniform_ttft_s(4, 0.2)
    0.6
    """
    return service_s + rate * service_s * service_s / (2 * (1 - rate * service_s))


@formula(unit="s", ref="arXiv:2401.09670, eq. 2")
def pipelined_ttft_s(rate, service_s):
    """TTFT of alike prompts through two pipeline stages: as long as alone, but twice as many per second. Valid for rate × service_s < 2:
    two stages. [s]

    >>> pipelined_ttft_s(4, 0.2)
    0.23333333333333334
    """
    return service_s + rate * service_s * service_s / (4 * (2 - rate * service_s))


@formula(unit="s", ref="arXiv:2401.09670, eq. 3")
def parallel_ttft_s(rate, service_s, speedup):
    """TTFT of alike prompts on two tensor-parallel devices that are `speedup` times faster together. Valid for rate × service_s < speedup.
    [s]

    >>> parallel_ttft_s(4, 0.2, 1.6)
    0.1875
    """
    return service_s / speedup + rate * service_s * service_s / (2 * speedup * (speedup - rate * service_s))


@formula(unit="s", ref="Kingman 1962")
def tail_ttft_s(service_s, log_load_over_share, load, cv2):
    """Quantile of the time in the system under an exponential tail; cv2 is the squared variation of the service time. Valid for load < 1,
    best near it: the tail is exponential in heavy traffic. [s]

    >>> tail_ttft_s(0.2, 3, 0.8, 0.5)
    2.45
    """
    return service_s + log_load_over_share * (1 + cv2) * service_s / (2 * (1 - load))


@formula(unit="s", ref="Erlang 1917")
def shared_queue_wait_s(wait_probability, servers, offered, service_s):
    """Mean wait where c servers share one queue. Valid for offered < servers. [s]

    >>> shared_queue_wait_s(0.5, 4, 3, 0.2)
    0.1
    """
    return wait_probability * service_s / (servers - offered)


@formula(unit="s", ref="Allen and Cunneen 1978")
def general_wait_s(exponential_wait_s, arrival_cv2, service_cv2):
    """The wait of the exponential case, scaled to other variations. Valid where the exponential wait is: load < 1. [s]

    >>> general_wait_s(0.4, 0.5, 1)
    0.3
    """
    return exponential_wait_s * (arrival_cv2 + service_cv2) / 2


@formula(unit="ratio", ref="OSDI'22 Orca")
def static_utilization(mean_output, expected_longest):
    """Share of a static batch's slots at work: the batch ends with its longest answer. [1]

    >>> static_utilization(200, 800)
    0.25
    """
    return mean_output / expected_longest


def erlang_c(servers: int, offered: float) -> float:
    """Probability that a request waits, c servers, `offered` of them busy on average (< c). [1] Ref: Erlang 1917."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


def harmonic(n: int) -> float:
    """1 + 1/2 + … + 1/n: the longest of n exponential answers, in means. [1]"""
    return sum(1 / k for k in range(1, n + 1))


def expected_longest(outputs: Iterable[int], batch: int) -> float:
    """Mean of the longest of `batch` answers drawn from a sample. [tokens]"""
    ordered = sorted(outputs)
    n = len(ordered)
    return sum(value * (((i + 1) / n) ** batch - (i / n) ** batch) for i, value in enumerate(ordered))
