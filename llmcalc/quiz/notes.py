"""The five problems of the course notes."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from llmcalc.architecture import Layer as ModelLayer
from llmcalc.architecture import Model, Stack, Weight, grouped
from llmcalc.attention import gqa
from llmcalc.estimate import decode, memory, terms, verdict
from llmcalc.figures import Figure
from llmcalc.plan import Deployment
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw, Scene
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import read_alone
from llmcalc.quiz.template import template


@cache
def thirteen() -> Model:
    """13e9 parameters, 40 layers, GQA with 8 KV heads of 128: the notes give no more of it, the rest is filled up."""
    attention = gqa.build(5120, 40, 8, 128)
    filled = 13_000_000_000 // 40 - sum(weight.params for weight in attention.weights)
    layer = ModelLayer((attention,), None, (Weight("everything_else", "mlp", filled // 2, 2),))
    stack = Stack(
        hidden=5120, layers=(layer,) * 40, vocab=0, tied=False, embedding=(Weight("embed_tokens", "embedding", 0, 5120),), head=()
    )
    return Model("the notes' 13B", "file", None, "llama", "bfloat16", stack, grouped(stack.layers), (), None)


def napkin_scene(ctx: int = 4096, batch: int = 1, weights: str = "bf16", kv: str = "bf16") -> Scene:
    found = thirteen()
    card = replace(d.device("h100-sxm"), compute={**d.device("h100-sxm").compute, "bf16": 989e12})
    plan = Deployment(card, memory.weight_format(found, weights)[0], memory.kv_format(found, kv)[0], reserve_bytes=6e9)
    return Scene(found, plan, ctx, batch, ())


def _noted(draw: Draw, scene: Scene, value: Any, unit: str, figure: Figure | None, slips: dict[str, Any] | None = None) -> Question:
    return draw.number(value, unit, given=draw.say("napkin.given"), figure=figure, slips=slips or {})


@template("napkin", 1)
def napkin_1_token(draw: Draw) -> Question:
    estimate = memory.kv(thirteen(), 4096)
    return _noted(
        draw,
        napkin_scene(),
        estimate.results["kv_bytes_per_token"],
        "B/token",
        estimate.figures["kv_bytes_per_token"],
        {"slip.two": 81920, "slip.mha": 819200},
    )


@template("napkin", 1)
def napkin_1_sequence(draw: Draw) -> Question:
    estimate = memory.kv(thirteen(), 4096)
    value = estimate.results["kv_bytes_per_sequence"]
    slips = {"slip.two": value / 2, "slip.mha": value * 5}
    return _noted(draw, napkin_scene(), value, "B", estimate.figures["kv_bytes_per_sequence"], slips)


@template("napkin", 2)
def napkin_2_batch(draw: Draw) -> Question:
    scene = napkin_scene()
    estimate = verdict.fit(scene.model, scene.plan, scene.work)
    each = estimate.results["kv_bytes_per_sequence"]
    return _noted(
        draw,
        scene,
        estimate.results["max_batch"],
        "sequences",
        estimate.figures["max_batch_exact"],
        {"slip.no_reserve": 54e9 // each, "slip.no_weights": 74e9 // each, "slip.mha": 48e9 / each / 5},
    )


@template("napkin", 1)
def napkin_3_ceiling(draw: Draw) -> Question:
    scene = napkin_scene()
    figure = read_alone(scene)
    return _noted(draw, scene, figure.value, "tokens/s", figure, {"slip.byte_rate": figure.value * 2})


def _napkin_step(draw: Draw, result: str, unit: str, weights: str = "bf16", kv: str = "bf16") -> Question:
    scene = napkin_scene(4096, 32, weights, kv)
    estimate = decode.decode(scene.model, scene.plan, scene.work)
    parts = terms.step_terms(scene.model, scene.plan, scene.work)
    r = estimate.results
    figure = estimate.figures.get(result) or parts.get(result)
    return _noted(
        draw,
        scene,
        r[result],
        unit,
        figure,
        {"slip.weights_only": r["weight_read_s"], "slip.flops_only": r["compute_s"]} if result == "step_time_s" else {},
    )


@template("napkin", 2)
def napkin_4_step(draw: Draw) -> Question:
    return _napkin_step(draw, "step_time_s", "s")


@template("napkin", 2)
def napkin_4_rate(draw: Draw) -> Question:
    return _napkin_step(draw, "tokens_per_s", "tokens/s")


@template("napkin", 2)
def napkin_4_math(draw: Draw) -> Question:
    return _napkin_step(draw, "compute_s", "s")


@template("napkin", 2)
def napkin_5_weights(draw: Draw) -> Question:
    return _napkin_step(draw, "step_time_s", "s", weights="int8")


@template("napkin", 2)
def napkin_5_cache(draw: Draw) -> Question:
    return _napkin_step(draw, "step_time_s", "s", kv="int8")


@template("napkin", 2)
def napkin_5_crossover(draw: Draw) -> Question:
    scene = napkin_scene()
    figure = decode.decode(scene.model, scene.plan, scene.work).figures["kv_crossover_batch"]
    return _noted(draw, scene, figure.value, "sequences", figure, {"slip.two": figure.value * 2})
