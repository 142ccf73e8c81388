"""Questions about why: choices, and the interview question that is answered in words."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from collections.abc import Callable

from llmcalc.estimate import decode, step
from llmcalc.figures import Figure
from llmcalc.quiz.draw import GROUPED, Draw, Scene
from llmcalc.quiz.notes import napkin_scene
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import SEVERAL
from llmcalc.quiz.template import template
from llmcalc.units import seconds

FIXED = {
    "kv_growth": ("kv", 1),
    "kv_shrinks": ("kv", 2),
    "gqa_why": ("heads", 1),
    "weights_mix": ("weights", 2),
    "batch_limit": ("batch", 1),
    "ceiling_levers": ("ceiling", 2),
    "phase_decode": ("decode", 1),
    "phase_prefill": ("prefill", 1),
    "above_critical": ("critical", 2),
    "crossover_context": ("crossover", 2),
    "first_at_one": ("quantise", 1),
    "why_cheaper": ("cost", 2),
    "tpot_tradeoff": ("tpot", 1),
    "long_prompts": ("prefill", 3),
    "prefix_routing": ("prefix", 2),
    "prefix_metric": ("prefix", 1),
    "spec_residual": ("speculation", 3),
    "spec_when": ("speculation", 2),
    "temperature_zero": ("sampling", 1),
    "temperature_up": ("sampling", 1),
    "paging_why": ("paging", 2),
    "continuous_why": ("batching", 2),
    "reduces_per_layer": ("parallel", 2),
    "moe_batching": ("moe", 2),
    "sizing_peak": ("sizing", 2),
    "lever_kv_quant": ("levers", 2),
    "lever_batch": ("levers", 1),
    "lever_speculation": ("levers", 2),
    "lever_chunked": ("levers", 3),
    "symptom_ttft": ("levers", 2),
}
"""Choices without numbers: key to topic and level. The texts key.a (right), key.b, … are in the catalogue."""


def _plain(draw: Draw) -> Question:
    return draw.choice()


def _register(key: str, topic: str, level: int) -> None:
    def make(draw: Draw) -> Question:
        return _plain(draw)

    make.__name__ = key
    template(topic, level)(make)


for _key, (_topic, _level) in FIXED.items():
    _register(_key, _topic, _level)


BOUNDS = {"memory-weights": "a", "memory-kv": "b", "compute": "c"}


def _bound(draw: Draw, scene: Scene, given: str, command: tuple[str, ...]) -> Question:
    r = decode.decode(scene.model, scene.plan, scene.work).results
    figure = step.step(scene.model, scene.plan, scene.work, "napkin").mid
    return draw.choice(
        BOUNDS[r["bound"]],
        given=given,
        figure=figure,
        command=command,
        result="bound" if command else "",
        fixed=True,
        ctx=f"{scene.ctx:,}",
        batch=scene.batch,
        weights_s=seconds(r["weight_read_s"]),
        caches_s=seconds(r["kv_read_s"]),
        math_s=seconds(r["compute_s"]),
    )


@template("decode", 3)
def decode_bound(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    return _bound(draw, scene, draw.given(scene), scene.argv("decode"))


def _first(draw: Draw, scene: Scene, given: str, at: Callable[[str, str], float]) -> Question:
    plain, weights, cache = at("bf16", "bf16"), at("int8", "bf16"), at("bf16", "int8")
    figure = Figure("step_time_s", min(weights, cache), "s", "the shorter of the two steps")
    return draw.choice(
        "a" if weights < cache else "b",
        given=given,
        figure=figure,
        fixed=True,
        ctx=f"{scene.ctx:,}",
        batch=scene.batch,
        plain_s=seconds(plain),
        weights_s=seconds(weights),
        caches_s=seconds(cache),
    )


@template("quantise", 3)
def quantise_first(draw: Draw) -> Question:
    from dataclasses import replace

    from llmcalc.estimate import memory

    scene = draw.scene(GROUPED, ("h100-sxm", "h200-sxm", "b200", "mi300x"), batches=SEVERAL)

    def at(weights: str, kv: str) -> float:
        plan = replace(scene.plan, weights=memory.weight_format(scene.model, weights)[0], kv=memory.kv_format(scene.model, kv)[0])
        length: float = step.step(scene.model, plan, scene.work, "napkin").mid_s
        return length

    return _first(draw, scene, draw.given(scene), at)


@template("napkin", 2)
def napkin_4_bound(draw: Draw) -> Question:
    return _bound(draw, napkin_scene(batch=32), draw.say("napkin.given"), ())


@template("napkin", 3)
def napkin_5_first(draw: Draw) -> Question:
    def at(weights: str, kv: str) -> float:
        scene = napkin_scene(batch=32, weights=weights, kv=kv)
        length: float = step.step(scene.model, scene.plan, scene.work, "napkin").mid_s
        return length

    return _first(draw, napkin_scene(batch=32), draw.say("napkin.given"), at)


@template("levers", 3)
def slow_service(draw: Draw) -> Question:
    return draw.points(
        (
            r"ttft.*tpot|tpot.*ttft|first token|time to first|первого токен|разделить|split",
            r"queue|prompt|prefix|prefill|очеред|промпт|префикс",
            r"quanti|int8|fp8|fp4|int4|4.?bit|8.?bit|gqa|fewer bytes|bandwidth|memory.bound|квант|меньше байт|упирается в память",
            r"batch|specul|draft|батч|пакет|спекул|чернов",
            r"paged|paging|kv.?cache|cache|evict|страниц|кэш|кеш",
            r"quality|eval|accura|regress|качеств|провер",
        )
    )


@template("levers", 3)
def explain_phases(draw: Draw) -> Question:
    return draw.points(
        (
            r"prefill",
            r"one (token|pass)|per (step|token)|each (step|token)|autoregress|один токен|за шаг|по одному|на каждом шаге",
            r"compute|flop|arithmetic|вычислен|арифмет|счет",
            r"memory|bandwidth|weights|read|памят|полос|веса|чита",
            r"batch|intensity|roofline|батч|интенсив",
        )
    )


@template("speculation", 3)
def spec_exact(draw: Draw) -> Question:
    return draw.points(
        (
            r"min\s*\(|min\b|p\s*/\s*q|миним",
            r"resid|max\s*\(|p\s*[-−–]\s*q|остат",
            r"normali|sum|нормир|сумм",
            r"accept|reject|прин|отказ|отклон",
        )
    )
