"""Time: what reading, multiplying and talking cost. Ideal rates; efficiencies come on top, elsewhere.

W is memory bandwidth, P the dense compute rate of the format, both of one device.
"""

from __future__ import annotations

from llmcalc.figures import formula, larger, smaller


@formula(unit="s", ref="jax-ml/scaling-book inference.md")
def read_s(bytes_read, bandwidth_bytes_per_s, devices):
    """Time to stream bytes that are spread over devices. [s]

    >>> read_s(16000000000.0, 2000000000000.0, 4)
    0.002
    """
    return bytes_read / (bandwidth_bytes_per_s * devices)


@formula(unit="s", ref="jax-ml/scaling-book inference.md")
def kv_read_s(batch, kv_read_bytes, bandwidth_bytes_per_s, devices):
    """Time to stream the caches of a batch; a cache is nobody else's, so it is not shared by the batch. [s]

    >>> kv_read_s(8, 1500000000.0, 2000000000000.0, 4)
    0.0015
    """
    return batch * kv_read_bytes / (bandwidth_bytes_per_s * devices)


@formula(unit="s", ref="jax-ml/scaling-book roofline.md")
def compute_s(params, batch, flops_per_s, devices):
    """Time of the multiplications: 2 FLOP per parameter and token. [s]

    >>> compute_s(8000000000.0, 32, 1000000000000000.0, 4)
    0.000128
    """
    return 2 * params * batch / (flops_per_s * devices)


@formula(unit="s", ref="jax-ml/scaling-book roofline.md")
def work_s(work_flops, flops_per_s, devices):
    """Time of an amount of arithmetic. [s]

    >>> work_s(8000000000000.0, 1000000000000000.0, 4)
    0.002
    """
    return work_flops / (flops_per_s * devices)


@formula(unit="s", ref="jax-ml/scaling-book inference.md, theoretical step time")
def napkin_step_s(kv_read_s, weight_read_s, compute_s, communication_s):
    """One decode step: caches are read; weights are read and multiplied with at once; ranks talk. [s]

    >>> napkin_step_s(0.006, 0.01, 0.004, 0.001)
    0.017
    """
    return kv_read_s + larger(weight_read_s, compute_s) + communication_s


@formula(unit="s", ref="Williams et al., Roofline, CACM 2009")
def operator_s(bytes_moved, work_flops, bandwidth_bytes_per_s, flops_per_s):
    """One kernel: the longer of its memory and its arithmetic. [s]

    >>> operator_s(1000000000.0, 1000000000000.0, 2000000000000.0, 1000000000000000.0)
    0.001
    """
    return larger(bytes_moved / bandwidth_bytes_per_s, work_flops / flops_per_s)


@formula(unit="tokens/s", ref="jax-ml/scaling-book inference.md")
def tokens_per_s(batch, step_time_s):
    """Tokens of the whole batch per second: each step gives one to every sequence. [tokens/s]

    >>> tokens_per_s(32, 0.016)
    2000
    """
    return batch / step_time_s


@formula(unit="tokens/s", ref="jax-ml/scaling-book inference.md")
def ceiling_tokens_per_s(bandwidth_bytes_per_s, devices, bytes_per_token):
    """The most tokens per second when each needs these bytes to be read. [tokens/s]

    >>> ceiling_tokens_per_s(2000000000000.0, 4, 16000000000.0)
    500
    """
    return bandwidth_bytes_per_s * devices / bytes_per_token


@formula(unit="tokens", ref="jax-ml/scaling-book roofline.md")
def critical_batch(flops_per_s, bytes_per_weight, bandwidth_bytes_per_s, experts_per_active_expert):
    """Tokens per step from which arithmetic binds: a weight is read once and multiplied with by each. [tokens]

    >>> critical_batch(1000000000000000.0, 2, 2000000000000.0, 8)
    4000
    """
    return flops_per_s * bytes_per_weight / (2 * bandwidth_bytes_per_s) * experts_per_active_expert


@formula(unit="sequences", ref="jax-ml/scaling-book inference.md")
def kv_crossover_batch(weight_read_bytes, kv_read_bytes):
    """Sequences whose caches together are as much to read as the weights. [sequences]

    >>> kv_crossover_batch(16000000000.0, 500000000.0)
    32
    """
    return weight_read_bytes / kv_read_bytes


@formula(unit="sequences", ref="definition")
def quantise_first_batch(weight_bytes_saved, kv_bytes_saved):
    """Sequences at which smaller caches save a step as many bytes as smaller weights; below, the weights save more. [sequences]

    >>> quantise_first_batch(12000000000.0, 250000000.0)
    48
    """
    return weight_bytes_saved / kv_bytes_saved


@formula(unit="experts", ref="inference-sim roofline.go; coupon collector with uniform routing")
def distinct_experts(experts, top_k, tokens):
    """Experts that a step of independent tokens is expected to touch. Valid for 1 ≤ top_k ≤ experts; experts are chosen evenly and
    independently. [experts]

    >>> distinct_experts(8, 2, 4)
    5.46875
    """
    return experts * (1 - (1 - top_k / experts) ** tokens)


@formula(unit="FLOP/B", ref="Williams et al., Roofline, CACM 2009")
def intensity(work_flops, bytes_moved):
    """Arithmetic per byte. [FLOP/B]

    >>> intensity(6000000000000.0, 20000000000.0)
    300
    """
    return work_flops / bytes_moved


@formula(unit="FLOP/s", ref="doi:10.1145/1498765.1498785")
def reached_flops_per_s(work_flops, spent_s):
    """Arithmetic that was done per second. [FLOP/s]

    >>> reached_flops_per_s(8000000000000.0, 0.02)
    400000000000000.0
    """
    return work_flops / spent_s


@formula(unit="FLOP/s", ref="Williams et al., Roofline, CACM 2009")
def roof_flops_per_s(intensity, bandwidth_bytes_per_s, flops_per_s):
    """The most arithmetic per second at an intensity: what memory feeds, up to the peak. [FLOP/s]

    >>> roof_flops_per_s(100, 2000000000000.0, 1000000000000000.0)
    200000000000000.0
    """
    return smaller(intensity * bandwidth_bytes_per_s, flops_per_s)


@formula(unit="FLOP/B", ref="Williams et al., Roofline, CACM 2009")
def ridge_point(flops_per_s, bandwidth_bytes_per_s):
    """The intensity from which a device is bound by its arithmetic. [FLOP/B]

    >>> ridge_point(1000000000000000.0, 2000000000000.0)
    500
    """
    return flops_per_s / bandwidth_bytes_per_s


@formula(unit="s", ref="Thakur et al., Optimization of collective communication, 2005")
def all_reduce_s(latency_s, devices, message_bytes, link_bytes_per_s):
    """The faster of one shot (everybody reads n-1 whole messages) and two (reduce-scatter, then gather: 2(n-1)/n of one). [s]

    >>> all_reduce_s(1e-05, 8, 1000000.0, 100000000000.0)
    3.75e-05
    """
    return smaller(
        latency_s + (devices - 1) * message_bytes / link_bytes_per_s,
        2 * latency_s + 2 * (devices - 1) / devices * message_bytes / link_bytes_per_s,
    )


@formula(unit="s", ref="arXiv:2505.09343")
def all_to_all_s(latency_s, devices, message_bytes, link_bytes_per_s):
    """An all-to-all: a latency, and (n-1)/n of the message over the link. [s]

    >>> all_to_all_s(1e-05, 8, 1000000.0, 100000000000.0)
    1.875e-05
    """
    return latency_s + (devices - 1) / devices * message_bytes / link_bytes_per_s


@formula(unit="s", ref="arXiv:1811.06965")
def hand_over_s(latency_s, message_bytes, link_bytes_per_s):
    """One pipeline stage gives its output to the next: a latency, and the whole message over the link. [s]

    >>> hand_over_s(1e-05, 1000000.0, 100000000000.0)
    2e-05
    """
    return latency_s + message_bytes / link_bytes_per_s


@formula(unit="s", ref="definition")
def repeated_s(times, each_s):
    """The same thing several times, one after another. [s]

    >>> repeated_s(32, 0.0002)
    0.0064
    """
    return times * each_s


@formula(unit="sequences", ref="jax-ml/scaling-book inference.md")
def batch_within_tpot(tpot_s, weight_read_s, kv_read_s_per_sequence):
    """Sequences that a step of this length has time for, below the critical batch. [sequences]

    >>> batch_within_tpot(0.05, 0.01, 0.0005)
    80
    """
    return (tpot_s - weight_read_s) / kv_read_s_per_sequence
