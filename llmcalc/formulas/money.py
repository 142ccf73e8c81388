"""Money and energy."""

from __future__ import annotations

from llmcalc.figures import formula, larger


@formula(unit="usd/h", ref="definition")
def deployment_usd_per_hour(usd_per_device_hour, devices):
    """All devices of a deployment. [usd/h]

    >>> deployment_usd_per_hour(2.5, 8)
    20
    """
    return usd_per_device_hour * devices


@formula(unit="nodes", ref="definition")
def nodes_taken(replicas, ranks, devices_per_node):
    """Nodes of so many replicas: as many in each as go in whole; a replica that is larger takes nodes of its own. [nodes]

    >>> nodes_taken(5, 3, 8)
    3
    """
    return -(-replicas // larger(1, devices_per_node // ranks)) * -(-ranks // devices_per_node)


@formula(unit="usd", ref="definition")
def usd_per_million_tokens(usd_per_hour, tokens_per_s, utilization):
    """Price of a million tokens at a rate that is reached for a share of the time. [usd]

    >>> usd_per_million_tokens(3.6, 1000, 0.5)
    2
    """
    return usd_per_hour / (3600 * tokens_per_s * utilization) * 1e6


@formula(unit="usd", ref="definition")
def usd_per_million_from_time(usd_per_hour, seconds_per_token, utilization):
    """Price of a million tokens that take this much of the deployment's time each. [usd]

    >>> usd_per_million_from_time(3.6, 0.002, 0.5)
    4
    """
    return usd_per_hour / 3600 * seconds_per_token / utilization * 1e6


@formula(unit="usd", ref="definition")
def blended_usd_per_million(input_usd, output_usd, prompt_tokens, output_tokens):
    """Price of a million tokens of which prompt_tokens : output_tokens are read and written. [usd]

    >>> blended_usd_per_million(2, 5, 3000, 1000)
    2.75
    """
    return (prompt_tokens * input_usd + output_tokens * output_usd) / (prompt_tokens + output_tokens)


@formula(unit="J", ref="arXiv:2310.03003")
def joules_per_token(power_w, devices, tokens_per_s):
    """Energy of one token at rated power. [J]

    >>> joules_per_token(700, 8, 2800)
    2
    """
    return power_w * devices / tokens_per_s


@formula(unit="usd/h", ref="PUE: ISO/IEC 30134-2")
def power_usd_per_hour(power_w, pue, usd_per_kwh):
    """What drawing that power costs, the facility's overhead included. [usd/h]

    >>> power_usd_per_hour(5600, 1.3, 0.1)
    0.728
    """
    return power_w / 1000 * pue * usd_per_kwh


@formula(unit="usd/h", ref="PUE: ISO/IEC 30134-2")
def owned_usd_per_hour(purchase_usd, years, power_w, usd_per_kwh, pue):
    """A device that is bought, written off in a straight line over 8,760 h a year, and powered. [usd/h]

    >>> owned_usd_per_hour(26280, 3, 700, 0.2, 1.3)
    1.182
    """
    return purchase_usd / (years * 8760) + power_w / 1000 * pue * usd_per_kwh


@formula(unit="usd", ref="definition")
def usd_per_successful_task(usd_per_task, success_share):
    """Failed attempts are paid too. [usd]

    >>> usd_per_successful_task(0.3, 0.75)
    0.4
    """
    return usd_per_task / success_share


@formula(unit="usd", ref="definition")
def api_usd_per_request(input_usd, output_usd, prompt_tokens, output_tokens):
    """A request at an API's prices per million tokens. [usd]

    >>> api_usd_per_request(3, 15, 2000, 500)
    0.0135
    """
    return (input_usd * prompt_tokens + output_usd * output_tokens) / 1e6


@formula(unit="requests", ref="definition")
def break_even_requests(month_usd, api_usd_per_request):
    """Requests a month from which a deployment costs less than an API. [requests]

    >>> break_even_requests(2160, 0.0135)
    160000
    """
    return month_usd / api_usd_per_request
