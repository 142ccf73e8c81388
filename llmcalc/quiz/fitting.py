"""Weights, and how many sequences or tokens fit beside them."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

import math
from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import capacity, memory, verdict
from llmcalc.figures import Figure
from llmcalc.formulas import memory as f
from llmcalc.plan import Deployment
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw, Scene
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import CONTEXTS_FIT
from llmcalc.quiz.template import template
from llmcalc.units import decimal_size


def _weights(draw: Draw, found: Model, asked: str, **rest: Any) -> Question:
    estimate = memory.weights(found, asked)
    return draw.estimated(estimate, "weight_bytes", "B", command=("weights", "-m", found.id, "--weights", asked), **rest)


@template("weights", 1)
def weights_bf16(draw: Draw) -> Question:
    found = draw.model(d.DENSE)
    params = memory.language_params(found)
    return _weights(draw, found, "bf16", given=draw.model_words(found), slips={"slip.byte": params, "slip.fp32": params * 4})


@template("weights", 2)
def weights_quantised(draw: Draw) -> Question:
    found = draw.model(d.DENSE)
    fmt = draw.choose(("q4_k", "q8_0", "awq", "mxfp4", "nvfp4", "q5_k"))
    bits = memory.weight_format(found, fmt)[0].bits
    params = memory.language_params(found)
    return _weights(
        draw,
        found,
        fmt,
        given=draw.model_words(found),
        fmt=fmt,
        bits=f"{bits:g}",
        slips={"slip.bf16_weights": params * 2, "slip.scales": params * math.floor(bits) / 8},
    )


@template("weights", 2)
def weights_moe(draw: Draw) -> Question:
    found = draw.model(d.MIXTURES)
    active = memory.active_params(found)
    return _weights(
        draw,
        found,
        "fp8",
        given=draw.model_words(found),
        slips={"slip.active": active, "slip.bf16_weights": memory.language_params(found) * 2},
    )


@template("weights", 3)
def weights_fit(draw: Draw) -> Question:
    found, card = draw.model(d.DENSE), d.device(draw.choose(d.GPUS))
    plan = Deployment(card, *(memory.weight_format(found, "bf16")[0],) * 2)
    bits = f.share.of(
        as_name="bits_per_weight",
        part=Figure("memory_bits", capacity.memory_figure(plan).value * 8, "bit", f"{card.id}, nominal"),
        whole=Figure("params", memory.language_params(found), "params", memory.CONFIG),
    )
    return draw.number(
        bits.value, "bits", figure=bits, given=f"{draw.model_words(found)} {draw.device_words(plan)}", slips={"slip.bytes": bits.value / 8}
    )


def _fit(draw: Draw, scene: Scene, result: str, unit: str, **rest: Any) -> Question:
    estimate = verdict.fit(scene.model, scene.plan, scene.work)
    r = estimate.results
    figure = rest.pop("figure", estimate.figures["max_batch_exact"])
    each = r["kv_bytes_per_sequence"]
    words = {
        "weights": decimal_size(r["weight_bytes"]),
        "left": decimal_size(r["kv_budget_bytes"]),
        "each": decimal_size(each),
        "memory": decimal_size(r["memory_bytes"]),
    }
    if result == "max_batch":
        query_per_kv = memory.kv(scene.model, 1024, 1).results["query_heads_per_kv_head"] or 1
        rest.setdefault(
            "slips",
            {
                "slip.no_weights": r["usable_bytes"] // each,
                "slip.mha": r["max_batch_exact"] / query_per_kv,
                "slip.two": r["max_batch_exact"] * 2,
                "slip.no_reserve": (r["kv_budget_bytes"] + r["reserve_bytes"]) // each,
            },
        )
    return draw.estimated(
        estimate, result, unit, figure=figure, given=draw.given(scene), ctx=f"{scene.ctx:,}", command=scene.argv("fit"), **words, **rest
    )


@template("batch", 2)
def batch_largest(draw: Draw) -> Question:
    return _fit(draw, draw.scene(reserve="6GB", batches=(1,), contexts=CONTEXTS_FIT), "max_batch", "sequences", reserve="6 GB")


@template("batch", 2)
def batch_8bit(draw: Draw) -> Question:
    return _fit(draw, draw.scene(weights="int8", kv="int8", batches=(1,), contexts=CONTEXTS_FIT), "max_batch", "sequences")


@template("batch", 2)
def batch_two_devices(draw: Draw) -> Question:
    return _fit(draw, draw.scene(d.GROUPED, d.GPUS[:6], tp=2, batches=(1,), contexts=CONTEXTS_FIT), "max_batch", "sequences")


@template("batch", 3)
def batch_context(draw: Draw) -> Question:
    scene = draw.scene(d.GROUPED, batches=(4, 8, 16, 32), contexts=CONTEXTS_FIT)
    r = verdict.fit(scene.model, scene.plan, scene.work).results
    slips = {
        "slip.one": r["max_ctx_tokens"] * scene.batch,
        "slip.no_weights": r["usable_bytes"] / r["kv_bytes_per_sequence"] * scene.ctx / scene.batch,
    }
    per_token = memory.kv(scene.model, scene.ctx, 1, "bf16").figures["kv_bytes_per_token"]
    every = f.batch_bytes.of(bytes_per_sequence=per_token, batch=Figure("batch", scene.batch, "", "`batch`"))
    left = Figure("kv_budget_bytes", r["kv_budget_bytes"], "B", "memory less weights")
    figure = f.share.of(as_name="max_ctx_tokens", part=left, whole=every)
    return _fit(draw, scene, "max_ctx_tokens", "tokens", batch=scene.batch, slips=slips, figure=figure)
