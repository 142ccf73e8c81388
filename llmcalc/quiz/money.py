"""What tokens cost, and what a limit on TPOT allows."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from llmcalc.estimate import cost, step, terms
from llmcalc.figures import Figure
from llmcalc.formulas import time
from llmcalc.plan import Workload
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import ONE, SEVERAL, decode_results, decoded
from llmcalc.quiz.template import template
from llmcalc.units import seconds, usd


def _priced(
    draw: Draw,
    result: str,
    unit: str,
    slips: Any = None,
    batches: tuple[int, ...] = SEVERAL,
    busy: float = 1.0,
    devices: tuple[str, ...] = d.GPUS,
    **rest: Any,
) -> Question:
    scene = draw.scene(devices=devices, batches=batches)
    price = draw.choose((1, 2, 3, 4))
    plan = replace(scene.plan, usd_per_device_hour=price)
    estimate = cost.cost(scene.model, plan, scene.work, utilization=busy)
    r = estimate.results
    wrong = slips(r, scene) if slips else {}
    extra = ("--price", str(price), *(("--utilization", str(busy)) if busy < 1 else ()))
    figure = estimate.figures.get(result) or estimate.figures["marginal_usd_per_million"]
    return draw.estimated(
        estimate,
        result,
        unit,
        figure=figure,
        given=draw.given(scene),
        ctx=f"{scene.ctx:,}",
        batch=scene.batch,
        price=usd(price),
        busy=f"{busy:.0%}",
        rate_words=d.spoken(r["tokens_per_s"], "tokens/s"),
        step_s=seconds(r["tpot_s"]),
        power=f"{scene.plan.device.power_w or 0:g} W",
        slips=wrong,
        command=scene.argv("cost", *extra),
        rate=scene.plan.device.bandwidth_bytes_per_s,
        **rest,
    )


@template("cost", 2)
def cost_output(draw: Draw) -> Question:
    return _priced(
        draw,
        "usd_per_million_output_tokens",
        "usd",
        lambda r, s: {"slip.one_user": r["usd_per_million_output_tokens"] * s.batch, "slip.floor": r["usd_per_million_output_floor"]},
    )


@template("cost", 1)
def cost_single(draw: Draw) -> Question:
    return _priced(draw, "usd_per_million_output_tokens", "usd", batches=ONE)


@template("cost", 3)
def cost_floor(draw: Draw) -> Question:
    return _priced(
        draw,
        "usd_per_million_output_floor",
        "usd",
        lambda r, s: {"slip.average": r["usd_per_million_output_tokens"], "slip.fixed": r["fixed_usd_per_million"]},
    )


@template("cost", 3)
def cost_fixed(draw: Draw) -> Question:
    return _priced(
        draw,
        "fixed_usd_per_million",
        "usd",
        lambda r, s: {"slip.average": r["usd_per_million_output_tokens"], "slip.not_shared": r["fixed_usd_per_million"] * s.batch},
    )


@template("cost", 2)
def cost_idle(draw: Draw) -> Question:
    busy = draw.choose((0.5, 0.25, 0.2, 0.4))
    return _priced(
        draw,
        "usd_per_million_output_tokens",
        "usd",
        lambda r, s: {"slip.always_busy": r["usd_per_million_output_tokens"] * busy},
        busy=busy,
    )


@template("cost", 2)
def cost_energy(draw: Draw) -> Question:
    return _priced(draw, "energy_joules_per_token", "J", lambda r, s: {"slip.one_user_energy": r["energy_joules_per_token"] * s.batch})


@template("tpot", 3)
def tpot_batch(draw: Draw) -> Question:
    scene = draw.scene(batches=(16, 32, 48, 64), contexts=(8192, 16384, 32768))
    parts = terms.step_terms(scene.model, scene.plan, Workload(scene.ctx, 1))
    limit = round((parts["weight_read_s"].value + parts["kv_read_s"].value * (scene.batch + 0.5)) * 1000, 1) / 1000
    figure = time.batch_within_tpot.of(
        tpot_s=Figure("tpot_s", limit, "s", "the limit"), weight_read_s=parts["weight_read_s"], kv_read_s_per_sequence=parts["kv_read_s"]
    )
    answer = math.floor(figure.value)
    return draw.number(
        answer,
        "sequences",
        figure=figure,
        given=draw.given(scene),
        ctx=f"{scene.ctx:,}",
        limit=seconds(limit),
        weights_s=seconds(parts["weight_read_s"].value),
        each_s=seconds(parts["kv_read_s"].value),
        slips={"slip.no_weights_time": math.floor(limit / parts["kv_read_s"].value)},
        rate=scene.plan.device.bandwidth_bytes_per_s,
    )


@template("tpot", 1)
def tpot_step(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    return decoded(
        draw,
        scene,
        "tpot_s",
        "s",
        figure=step.step(scene.model, scene.plan, scene.work, "napkin").mid,
        slips={"slip.divided": decode_results(scene)["tpot_s"] / scene.batch},
    )
