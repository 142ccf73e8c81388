"""How long a decode step takes, and the ceiling of one sequence."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from llmcalc.estimate import memory, step
from llmcalc.figures import Figure
from llmcalc.formulas import time
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import ONE, SEVERAL, decode_results, decoded, read_alone
from llmcalc.quiz.template import template


@template("ceiling", 1)
def ceiling_one(draw: Draw) -> Question:
    scene = draw.scene(devices=d.SLOW, batches=ONE, contexts=(1024,))
    value = decode_results(scene)["single_stream_ceiling_tokens_per_s"]
    figure = read_alone(scene)
    return decoded(
        draw,
        scene,
        "single_stream_ceiling_tokens_per_s",
        "tokens/s",
        figure=figure,
        slips={"slip.byte_rate": value * 2, "slip.bits_rate": value / 8},
    )


@template("ceiling", 2)
def ceiling_4bit(draw: Draw) -> Question:
    scene = draw.scene(devices=d.SLOW, batches=ONE, contexts=(1024,), weights="q4_k")
    value = decode_results(scene)["single_stream_ceiling_tokens_per_s"]
    figure = read_alone(scene)
    return decoded(
        draw,
        scene,
        "single_stream_ceiling_tokens_per_s",
        "tokens/s",
        figure=figure,
        slips={"slip.bf16_rate": value * 4.5 / 16, "slip.scales_rate": value * 4.5 / 4},
    )


@template("ceiling", 3)
def ceiling_any_batch(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(4096, 8192, 16384, 32768))
    r = decode_results(scene)
    return decoded(draw, scene, "ceiling_tokens_per_s", "tokens/s", slips={"slip.weights_rate": r["single_stream_ceiling_tokens_per_s"]})


@template("decode", 2)
def decode_step(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    r = decode_results(scene)
    slips = {
        "slip.weights_only": r["weight_read_s"],
        "slip.one_cache": r["weight_read_s"] + r["kv_read_s"] / scene.batch,
        "slip.flops_only": r["compute_s"],
        "slip.kv_only": r["kv_read_s"],
    }
    return decoded(draw, scene, "step_time_s", "s", slips=slips)


@template("decode", 3)
def decode_rate(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    r = decode_results(scene)
    return decoded(
        draw,
        scene,
        "tokens_per_s",
        "tokens/s",
        slips={"slip.per_user": r["tokens_per_s_per_user"], "slip.free_caches": scene.batch / r["weight_read_s"]},
    )


@template("decode", 2)
def decode_user(draw: Draw) -> Question:
    scene = draw.scene(devices=d.SLOW, batches=SEVERAL)
    r = decode_results(scene)
    figure = time.tokens_per_s.of(
        as_name="tokens_per_s_per_user",
        batch=Figure("batch", 1, "", "one sequence"),
        step_time_s=step.step(scene.model, scene.plan, scene.work, "napkin").mid,
    )
    return decoded(
        draw,
        scene,
        "tokens_per_s_per_user",
        "tokens/s",
        figure=figure,
        slips={"slip.whole_batch": r["tokens_per_s"], "slip.free_caches": 1 / r["weight_read_s"]},
    )


@template("decode", 1)
def decode_weights(draw: Draw) -> Question:
    scene = draw.scene(devices=d.SLOW, batches=SEVERAL)
    value = decode_results(scene)["weight_read_s"]
    return decoded(draw, scene, "weight_read_s", "s", slips={"slip.per_batch": value * scene.batch, "slip.byte": value / 2})


@template("decode", 2)
def decode_caches(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    value = decode_results(scene)["kv_read_s"]
    return decoded(draw, scene, "kv_read_s", "s", slips={"slip.one_cache": value / scene.batch, "slip.two": value / 2})


@template("decode", 2)
def decode_math(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    value = decode_results(scene)["compute_s"]
    active = f"{memory.active_params(scene.model) / 1e9:.3g}"
    return decoded(draw, scene, "compute_s", "s", active=active, slips={"slip.flop": value / 2, "slip.one": value / scene.batch})
