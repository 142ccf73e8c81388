"""Collectives as they are measured: a start, more for each rank, and the bytes that cross each link at the rate that kernels reach.

The textbook's forms stand in `time`: `all_reduce_s` with measured starts and rates is the engines' own kernel for small messages.
"""

from __future__ import annotations

from llmcalc.figures import formula, larger


@formula(unit="s", ref="Thakur et al., Optimization of collective communication, 2005; NCCL's ring")
def ring_all_reduce_s(start_s, rank_s, devices, message_bytes, link_bytes_per_s):
    """A ring: every rank passes 2(n-1)/n of the message on; two ranks or more, the start is that of two. [s]

    >>> ring_all_reduce_s(7.5e-06, 1.75e-06, 8, 33554432, 290000000000.0)
    0.00022048364137931034
    """
    return start_s + rank_s * (devices - 2) + 2 * (devices - 1) / devices * message_bytes / link_bytes_per_s


@formula(unit="s", ref="Thakur et al., Optimization of collective communication, 2005; NCCL's ring")
def gather_s(start_s, rank_s, devices, message_bytes, link_bytes_per_s):
    """An all-gather or a reduce-scatter: half of an all-reduce, `message_bytes` being the whole gathered message. [s]

    >>> gather_s(7e-06, 1e-06, 4, 4000000.0, 250000000000.0)
    2.1e-05
    """
    return start_s + rank_s * (devices - 2) + (devices - 1) / devices * message_bytes / link_bytes_per_s


@formula(unit="s", ref="DeepEP, low-latency kernels; H100 on one to eight nodes within 7%")
def dispatch_s(start_s, doubling_s, doublings, near_bytes, link_bytes_per_s, far_bytes, network_bytes_per_s):
    """Tokens to experts, or back: a start, more for each doubling of nodes, what stays inside the node, then what crosses. [s]

    >>> dispatch_s(1.1e-05, 6e-06, 3, 400000.0, 200000000000.0, 3000000.0, 50000000000.0)
    9.1e-05
    """
    return start_s + doubling_s * doublings + near_bytes / link_bytes_per_s + far_bytes / network_bytes_per_s


@formula(unit="s", ref="DeepEP, normal kernels, which forward inside a node what came over the network")
def forwarded_dispatch_s(start_s, doubling_s, doublings, near_bytes, link_bytes_per_s, far_bytes, network_bytes_per_s):
    """As `dispatch_s` for many tokens: a token crosses once per node and is forwarded meanwhile. [s]

    >>> forwarded_dispatch_s(2.7e-05, 3.3e-05, 1, 4000000.0, 200000000000.0, 3000000.0, 50000000000.0)
    0.00012
    """
    return start_s + doubling_s * doublings + larger(near_bytes / link_bytes_per_s, far_bytes / network_bytes_per_s)


@formula(unit="B/s", ref="aiconfigurator-core 0.12.0: L40S servers whose cards talk through the host")
def shared_link_bytes_per_s(link_bytes_per_s, devices, falls):
    """What a rank gets of a path that all share: the rate of two ranks, falling with a power of the ranks. [B/s]

    >>> shared_link_bytes_per_s(20000000000.0, 8, 2)
    1250000000.0
    """
    return link_bytes_per_s * (2 / devices) ** falls
