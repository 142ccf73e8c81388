"""From a request rate to sequences and devices."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="tokens/s", ref="definition")
def output_demand(requests_per_s, output_tokens):
    """Tokens that have to be written per second. [tokens/s]

    >>> output_demand(12, 300)
    3600
    """
    return requests_per_s * output_tokens


@formula(unit="sequences", ref="Little, A proof for the queuing formula L = λW, 1961")
def concurrent_sequences(requests_per_s, output_tokens, tpot_s):
    """Sequences that decode at once: arrivals times the time each stays. [sequences]

    >>> concurrent_sequences(12, 300, 0.02)
    72
    """
    return requests_per_s * output_tokens * tpot_s


@formula(unit="devices", ref="definition")
def devices_exact(tokens_per_s_needed, tokens_per_s_each, utilization):
    """Devices for a demand when each is kept at a share of its rate, before rounding up. [devices]

    >>> devices_exact(3600, 1000, 0.8)
    4.5
    """
    return tokens_per_s_needed / (tokens_per_s_each * utilization)
