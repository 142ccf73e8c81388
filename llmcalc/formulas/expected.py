"""Expected times: ideal ones over the shares of a peak that were measured, and what engines add to each step, layer and request."""

from __future__ import annotations

from llmcalc.figures import formula, larger


@formula(unit="s", ref="measurements/, fitted by scripts/calibrate.py")
def expected_step_s(
    weight_read_s,
    compute_s,
    dequantise_s,
    kv_read_s,
    attention_compute_s,
    communication_s,
    layers,
    split_layers,
    mixtures,
    batch,
    weight_share,
    cache_share,
    compute_share,
    dequantise_factor,
    communication_factor,
    layer_s,
    split_layer_s,
    mixture_s,
    sequence_s,
    step_s,
):
    """One decode step in an engine: weights or arithmetic, caches, talk, and fixed costs per layer, sequence and step. [s]"""
    return (
        larger(weight_read_s / weight_share, compute_s / compute_share)
        + dequantise_factor * dequantise_s
        + larger(kv_read_s / cache_share, attention_compute_s / compute_share)
        + communication_factor * communication_s
        + layers * layer_s
        + split_layers * split_layer_s
        + mixtures * mixture_s
        + (batch - 1) * sequence_s
        + step_s
    )


@formula(unit="s", ref="measurements/, fitted by scripts/calibrate.py")
def expected_reading_s(
    gemm_s,
    weight_read_s,
    attention_s,
    communication_s,
    activation_s,
    prompt_share,
    weight_share,
    attention_share,
    communication_factor,
    activation_factor,
):
    """What reading a prompt keeps the devices busy: matrices or weights, attention, talk, and activations written and read. [s]"""
    return (
        larger(gemm_s / prompt_share, weight_read_s / weight_share)
        + attention_s / attention_share
        + communication_factor * communication_s
        + activation_factor * activation_s
    )


@formula(unit="s", ref="measurements/, fitted by scripts/calibrate.py")
def expected_ttft_s(reading_s, others, waiting_share, layers, chunks, layer_s, tokens, token_s, request_s):
    """The first token: reading, waiting for the others' reading, and fixed costs per layer, token and request. [s]"""
    return reading_s * (1 + waiting_share * others) + layers * chunks * layer_s + tokens * token_s + request_s


@formula(unit="s", ref="continuous batching in its steady state")
def interrupted_step_s(step_time_s, reading_s, others, output_tokens, interruption_share):
    """The mean step of a busy server: while a sequence writes its answer, each other one is replaced once, and its prompt read. [s]"""
    return step_time_s + interruption_share * reading_s * others / output_tokens
