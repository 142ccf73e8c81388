"""How many devices a load needs, and how long it waits."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

import math
from typing import Any

from llmcalc.estimate import decode
from llmcalc.figures import Figure
from llmcalc.formulas import queueing, sizing
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.template import template
from llmcalc.units import seconds


@template("sizing", 1)
def sizing_demand(draw: Draw) -> Question:
    rate, output = draw.choose((2, 5, 12, 20, 50)), draw.choose((150, 250, 400, 800))
    figure = sizing.output_demand.of(requests_per_s=rate, output_tokens=output)
    return draw.number(figure.value, "tokens/s", figure=figure, requests=rate, output=output)


@template("sizing", 2)
def sizing_concurrency(draw: Draw) -> Question:
    rate, output, tpot = draw.choose((2, 5, 12, 20, 50)), draw.choose((150, 250, 400, 800)), draw.choose((0.01, 0.02, 0.03, 0.04))
    figure = sizing.concurrent_sequences.of(requests_per_s=rate, output_tokens=output, tpot_s=Figure("tpot_s", tpot, "s", "given"))
    return draw.number(
        figure.value,
        "sequences",
        figure=figure,
        requests=rate,
        output=output,
        tpot=seconds(tpot),
        slips={"slip.per_token": rate * tpot, "slip.rate_only": rate * output},
    )


@template("sizing", 3)
def sizing_devices(draw: Draw) -> Question:
    scene = draw.scene(batches=(8, 16, 32))
    estimate = decode.decode(scene.model, scene.plan, scene.work)
    rate, output, busy = draw.choose((20, 50, 100, 200)), draw.choose((250, 400, 800)), draw.choose((0.6, 0.7, 0.8))
    needed = sizing.output_demand.of(requests_per_s=rate, output_tokens=output)
    figure = sizing.devices_exact.of(
        tokens_per_s_needed=needed, tokens_per_s_each=estimate.figures["tokens_per_s"], utilization=Figure("utilization", busy, "", "given")
    )
    answer = math.ceil(figure.value)
    return draw.number(
        answer,
        "devices",
        figure=figure,
        given=draw.given(scene),
        requests=rate,
        output=output,
        ctx=f"{scene.ctx:,}",
        batch=scene.batch,
        busy=f"{busy:.0%}",
        needed=d.spoken(needed.value, "tokens/s"),
        each=d.spoken(estimate.results["tokens_per_s"], "tokens/s"),
        slips={"slip.saturated": math.ceil(figure.value * busy), "slip.users_not_batch": math.ceil(figure.value * scene.batch)},
    )


def _arrivals(draw: Draw) -> tuple[float, int, dict[str, Any]]:
    """(service in seconds, arrivals per second, both and the load in words) of one server at half to nine tenths of its rate."""
    service, rate = draw.choose(((0.2, 3), (0.2, 4), (0.1, 5), (0.1, 8), (0.05, 12), (0.05, 18), (0.25, 2), (0.4, 2)))
    return service, rate, {"arrivals": str(rate), "service": seconds(service), "load": f"{queueing.load(rate, service):.2g}"}


@template("sizing", 2)
def queue_alone(draw: Draw) -> Question:
    service, rate, words = _arrivals(draw)
    figure = queueing.uniform_ttft_s.of(rate=rate, service_s=service)
    return draw.number(figure.value, "s", figure=figure, slips={"slip.no_wait": service, "slip.wait_only": figure.value - service}, **words)


@template("sizing", 3)
def queue_pipeline(draw: Draw) -> Question:
    service, rate, words = _arrivals(draw)
    figure = queueing.pipelined_ttft_s.of(rate=rate, service_s=service)
    slips = {"slip.no_wait": service, "slip.half": figure.value - service / 2}
    return draw.number(figure.value, "s", figure=figure, slips=slips, **words)


@template("sizing", 3)
def queue_split(draw: Draw) -> Question:
    service, rate, words = _arrivals(draw)
    speedup = draw.choose((1.5, 1.6, 1.8))
    figure = queueing.parallel_ttft_s.of(rate=rate, service_s=service, speedup=speedup)
    return draw.number(figure.value, "s", figure=figure, slips={"slip.no_wait": service / speedup}, speedup=speedup, **words)


@template("sizing", 3)
def queue_shared(draw: Draw) -> Question:
    service, each, words = _arrivals(draw)
    servers = draw.choose((2, 3, 4, 8))
    rate = each * servers
    offered = queueing.load(rate, service)
    chance = queueing.erlang_c(servers, offered)
    exponential = queueing.shared_queue_wait_s.of(
        wait_probability=Figure("wait_probability", chance, "", "Erlang's C"), servers=servers, offered=offered, service_s=service
    )
    figure = queueing.general_wait_s.of(exponential_wait_s=exponential, arrival_cv2=1, service_cv2=0)
    alone = queueing.mean_wait_s(each, service**2, queueing.load(each, service))
    words |= {"arrivals": str(rate), "servers": str(servers), "offered": f"{offered:.3g}", "chance": f"{chance:.0%}"}
    slips = {"slip.exponential": exponential.value, "slip.own_queues": alone}
    return draw.number(figure.value, "s", figure=figure, slips=slips, **words)


@template("sizing", 3)
def queue_tail(draw: Draw) -> Question:
    service, rate, words = _arrivals(draw)
    busy = queueing.load(rate, service)
    figure = queueing.tail_ttft_s.of(service_s=service, log_load_over_share=math.log(busy / 0.05), load=busy, cv2=0)
    return draw.number(figure.value, "s", figure=figure, slips={"slip.mean": queueing.uniform_ttft_s(rate, service)}, **words)
