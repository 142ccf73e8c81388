"""Money and energy."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="usd/h")
def deployment_usd_per_hour(usd_per_device_hour, devices):
    """All devices of a deployment. [usd/h]"""
    return usd_per_device_hour * devices


@formula(unit="usd")
def usd_per_million_tokens(usd_per_hour, tokens_per_s, utilization):
    """Price of a million tokens at a rate that is reached for a share of the time. [usd]"""
    return usd_per_hour / (3600 * tokens_per_s * utilization) * 1e6


@formula(unit="usd")
def usd_per_million_from_time(usd_per_hour, seconds_per_token, utilization):
    """Price of a million tokens that take this much of the deployment's time each. [usd]"""
    return usd_per_hour / 3600 * seconds_per_token / utilization * 1e6


@formula(unit="usd")
def blended_usd_per_million(input_usd, output_usd, prompt_tokens, output_tokens):
    """Price of a million tokens of which prompt_tokens : output_tokens are read and written. [usd]"""
    return (prompt_tokens * input_usd + output_tokens * output_usd) / (prompt_tokens + output_tokens)


@formula(unit="J")
def joules_per_token(power_w, devices, tokens_per_s):
    """Energy of one token at rated power. [J]"""
    return power_w * devices / tokens_per_s


@formula(unit="usd/h")
def power_usd_per_hour(power_w, pue, usd_per_kwh):
    """What drawing that power costs, the facility's overhead included. [usd/h]"""
    return power_w / 1000 * pue * usd_per_kwh


@formula(unit="usd/h")
def owned_usd_per_hour(purchase_usd, years, power_w, usd_per_kwh, pue):
    """A device that is bought, written off in a straight line over 8,760 h a year, and powered. [usd/h]"""
    return purchase_usd / (years * 8760) + power_w / 1000 * pue * usd_per_kwh


@formula(unit="usd")
def usd_per_successful_task(usd_per_task, success_share):
    """Failed attempts are paid too. [usd]"""
    return usd_per_task / success_share


@formula(unit="usd")
def api_usd_per_request(input_usd, output_usd, prompt_tokens, output_tokens):
    """A request at an API's prices per million tokens. [usd]"""
    return (input_usd * prompt_tokens + output_usd * output_tokens) / 1e6


@formula(unit="requests")
def break_even_requests(month_usd, api_usd_per_request):
    """Requests a month from which a deployment costs less than an API. [requests]"""
    return month_usd / api_usd_per_request
