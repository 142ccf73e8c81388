"""Expected times: every operator at a measured share of its rate, and what engines add per step, layer, sequence and request.

Shares are of nominal peaks. The constants stand in rates.json with their units and sources.
"""

from __future__ import annotations

from llmcalc.figures import formula, larger, smaller

FITTED = "rates.json, fitted by scripts/calibrate.py"


@formula(unit="s", ref="kernel tables of aiconfigurator-core 0.12: measured products lie above the larger of the two near the ridge")
def product_s(read_s, compute_s, read_share, compute_share, apart_share):
    """A matrix product or attention: the longer of reading and arithmetic, and a share of the shorter that does not overlap. [s]

    >>> product_s(0.008, 0.002, 0.8, 0.5, 0.25)
    0.011
    """
    return larger(read_s / read_share, compute_s / compute_share) + apart_share * smaller(read_s / read_share, compute_s / compute_share)


@formula(unit="s", ref="coupon collector; kernel tables of aiconfigurator-core 0.12 with power-law routing")
def experts_read_s(all_read_s, experts, top_k, tokens, routing_share, imbalance_factor):
    """Reading the experts that a step touches: tokens agree more than chance has it, and the fullest rank sets the time. [s]

    >>> experts_read_s(0.016, 128, 8, 1, 0.5, 1.0)
    0.001
    """
    return imbalance_factor * all_read_s * (1 - (1 - top_k / experts) ** (1 + (tokens - 1) * routing_share))


@formula(unit="s", ref=FITTED)
def layers_s(layers, layer_s, mixtures, mixture_s, recurrents, recurrent_s):
    """What every layer adds beside its products: norms, launches, routing, scans. [s]

    >>> layers_s(30, 0.0001, 4, 5e-05, 10, 2e-05)
    0.0034
    """
    return layers * layer_s + mixtures * mixture_s + recurrents * recurrent_s


@formula(unit="s", ref=FITTED)
def host_s(sequences, sequence_s, logits_s, sampling_factor, dequantise_s, dequantise_factor, step_s):
    """A step's fixed cost, the host's time for each further sequence, sampling over the logits, and unpacking of weights. [s]

    >>> host_s(3, 0.001, 0.0001, 5, 0.0005, 2, 0.0005)
    0.004
    """
    return step_s + (sequences - 1) * sequence_s + logits_s * sampling_factor + dequantise_s * dequantise_factor


@formula(unit="s", ref=FITTED)
def expected_step_s(dense_s, plain_s, head_s, experts_s, attention_s, states_s, cache_share, talk_s, talk_factor, layers_s, host_s):
    """One decode step in an engine: products, attention, states read and written, talk, layers and host. [s]

    >>> expected_step_s(0.01, 0.001, 0.002, 0.003, 0.004, 0.0005, 0.5, 0.001, 2, 0.0034, 0.004)
    0.0314
    """
    return dense_s + plain_s + head_s + experts_s + attention_s + 2 * states_s / cache_share + talk_s * talk_factor + layers_s + host_s


@formula(unit="s", ref=FITTED)
def expected_reading_s(
    dense_s,
    plain_s,
    experts_s,
    talk_s,
    talk_factor,
    layers_s,
    activation_s,
    activation_factor,
    chunks,
    scores_s,
    score_share,
    prefix_s,
    cache_share,
    head_read_s,
    plain_share,
):
    """What a prompt keeps the devices busy: its chunks' products, talk, layers and activations, the scores, the prefix, the head. [s]

    >>> expected_reading_s(0.01, 0.001, 0.003, 0.001, 2, 0.002, 0.0005, 4, 2, 0.03, 0.5, 0.001, 0.5, 0.002, 0.8)
    0.1045
    """
    return (
        chunks * (dense_s + plain_s + experts_s + talk_s * talk_factor + layers_s + activation_s * activation_factor)
        + scores_s / score_share
        + prefix_s / cache_share
        + head_read_s / plain_share
    )


@formula(unit="1", ref="Poisson: the mean of those that are not 0")
def prompts_together(prompts_per_step):
    """Prompts in a step that reads any, where so many come with a step on average (> 0). [1]

    >>> prompts_together(2)
    2.3130352854993315
    """
    return prompts_per_step / (1 - 2.718281828459045 ** (-prompts_per_step))


@formula(unit="1", ref="simulations of closed loops of equal requests: those read together end together and gather others")
def read_alongside(prompts_in_step, others, spread_steps, output_tokens, reading_s, step_time_s):
    """Of equal requests in a closed loop, others whose prompts are read in the step of one's own, so that they do not interrupt it. [1]

    As their ways spread over the gaps between requests, six of ten that a step has room for, where prompts fill its time.

    >>> read_alongside(8, 15, 5, 60, 0.05, 0.0125)
    3.36
    """
    return (
        0.6
        * smaller(larger(0, prompts_in_step - 1), others)
        * smaller(1, spread_steps * others / output_tokens) ** 0.5
        * (reading_s / (reading_s + step_time_s))
    )


@formula(unit="1", ref="Little's law for the prompts of others in a closed loop")
def prompts_in_reading(others, reading_s, output_tokens, step_time_s):
    """Prompts of others that are being read when one arrives in a closed loop. [1]

    >>> prompts_in_reading(4, 0.1, 100, 0.003)
    1.0
    """
    return others * reading_s / (reading_s + output_tokens * step_time_s)


@formula(unit="s", ref="Little's law for a closed loop: those that the memory holds are answered, the others wait for a place")
def turn_wait_s(requests, held, request_s):
    """How long a request waits for memory, where more (>= held) are sent at once than are held and each takes `request_s`. [s]

    >>> turn_wait_s(96, 64, 20)
    10.0
    """
    return (requests / held - 1) * request_s


@formula(unit="s", ref=FITTED)
def expected_ttft_s(
    reading_s, prompts_in_reading, queue_share, others, burst_share, busy, step_time_s, steps_waited, tokens, token_s, request_s, turn_s
):
    """The first token: its turn, reading, what of others' reading comes before it, the running step, costs per token and request. [s]

    >>> expected_ttft_s(0.1, 1, 0.3, 4, 0.05, 1, 0.01, 1.5, 1000, 2e-06, 0.02, 0)
    0.187
    """
    return (
        turn_s
        + reading_s * (1 + queue_share * prompts_in_reading + burst_share * others)
        + busy * steps_waited * step_time_s
        + tokens * token_s
        + request_s
    )


@formula(unit="s", ref="continuous batching in its steady state")
def interrupted_step_s(step_time_s, reading_s, others, output_tokens, interruption_share):
    """The mean step of a busy server: while a sequence writes its answer, each other one is replaced once, and its prompt read. [s]

    >>> interrupted_step_s(0.02, 0.1, 7, 200, 0.5)
    0.02175
    """
    return step_time_s + interruption_share * reading_s * others / output_tokens


@formula(unit="s", ref="static batching: prompts, then steps; what does not fit waits for its turn")
def batch_request_s(turns, sequences, reading_s, interruption_share, output_tokens, step_time_s, request_s):
    """A whole static batch: all its prompts and answers, `sequences` at a time. [s]

    >>> batch_request_s(2, 8, 0.05, 0.8, 100, 0.01, 0.02)
    2.66
    """
    return turns * (reading_s * sequences * interruption_share + output_tokens * step_time_s) + request_s


@formula(unit="1", ref="watts of ML.ENERGY and Argonne runs, fitted by scripts/calibrate.py")
def power_share(idle_share, busy_share, kernels_s, step_time_s):
    """Of rated power: what a device draws while it waits for the host, and what its kernels add while they run. [1]

    >>> power_share(0.35, 0.45, 0.008, 0.01)
    0.71
    """
    return smaller(1, idle_share + busy_share * kernels_s / step_time_s)


@formula(unit="1", ref="a driver's limit of power, e.g. nvidia-smi --power-limit")
def limited_share(power_share, power_cap_w, power_w):
    """Of rated power, drawn under a limit: what would be drawn without, at most the limit. [1]

    >>> limited_share(0.95, 175, 350)
    0.5
    """
    return smaller(power_share, power_cap_w / power_w)


@formula(unit="J", ref="arXiv:2310.03003")
def expected_joules_per_token(power_w, devices, power_share, step_time_s, batch):
    """Energy of one token at the share of rated power that is drawn. [J]

    >>> expected_joules_per_token(700, 8, 0.71, 0.02, 32)
    2.485
    """
    return power_w * devices * power_share * step_time_s / batch
