"""From a request rate to sequences and devices."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="tokens/s")
def output_demand(requests_per_s, output_tokens):
    """Tokens that have to be written per second. [tokens/s]"""
    return requests_per_s * output_tokens


@formula(unit="sequences", ref="Little, A proof for the queuing formula L = λW, 1961")
def concurrent_sequences(requests_per_s, output_tokens, tpot_s):
    """Sequences that decode at once: arrivals times the time each stays. [sequences]"""
    return requests_per_s * output_tokens * tpot_s


@formula(unit="devices")
def devices_exact(tokens_per_s_needed, tokens_per_s_each, utilization):
    """Devices for a demand when each is kept at a share of its rate, before rounding up. [devices]"""
    return tokens_per_s_needed / (tokens_per_s_each * utilization)
