"""Critical batches, ridges, crossovers, and what quantising buys."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from llmcalc.estimate import memory, terms
from llmcalc.figures import Figure, total
from llmcalc.formulas import compute, time
from llmcalc.formulas import memory as f
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import ONE, SEVERAL, decode_results, decoded, heads_of
from llmcalc.quiz.template import template


@template("critical", 2)
def critical_bf16(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(1024,))
    value = decode_results(scene)["critical_batch"]
    return decoded(
        draw,
        scene,
        "critical_batch",
        "tokens",
        given=draw.device_words(scene.plan),
        slips={"slip.sparse": value * 2, "slip.no_bytes": value / 2},
    )


@template("critical", 3)
def critical_8bit(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(1024,), weights="w8a16")
    value = decode_results(scene)["critical_batch"]
    return decoded(
        draw,
        scene,
        "critical_batch",
        "tokens",
        given=draw.device_words(scene.plan),
        slips={"slip.bf16_critical": value * 2, "slip.no_bytes": value / 2},
    )


@template("critical", 1)
def ridge(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(1024,))
    value = decode_results(scene)["ridge_point_flops_per_byte"]
    parts = terms.step_terms(scene.model, scene.plan, scene.work)
    figure = time.ridge_point.of(flops_per_s=parts["flops_per_s"], bandwidth_bytes_per_s=parts["bandwidth"])
    return decoded(
        draw,
        scene,
        "ridge_point_flops_per_byte",
        "FLOP/B",
        given=draw.device_words(scene.plan),
        figure=figure,
        slips={"slip.sparse": value * 2},
    )


@template("critical", 3)
def intensity(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    parts = terms.step_terms(scene.model, scene.plan, scene.work)
    work = compute.dense_flops.of(
        params=Figure("params", memory.active_params(scene.model), "params", memory.CONFIG),
        tokens=Figure("tokens", scene.batch, "tokens", "`batch`"),
    )
    caches = f.batch_bytes.of(
        as_name="kv_bytes", bytes_per_sequence=parts["kv_read_bytes"], batch=Figure("batch", scene.batch, "", "`batch`")
    )
    read = total("bytes_moved", "B", (parts["weight_read_bytes"], caches))
    figure = time.intensity.of(work_flops=work, bytes_moved=read)
    return decoded(
        draw,
        scene,
        "arithmetic_intensity_flops_per_byte",
        "FLOP/B",
        figure=figure,
        slips={"slip.flop": figure.value / 2, "slip.only_weights": work.value / parts["weight_read_bytes"].value},
    )


@template("crossover", 2)
def crossover(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(4096, 8192, 16384, 32768))
    value = decode_results(scene)["kv_crossover_batch"]
    _, query, kv, _ = heads_of(scene.model)
    return decoded(draw, scene, "kv_crossover_batch", "sequences", slips={"slip.mha": value * kv / query, "slip.two": value * 2})


@template("crossover", 3)
def crossover_8bit(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(4096, 8192, 16384, 32768), weights="int8")
    value = decode_results(scene)["kv_crossover_batch"]
    return decoded(draw, scene, "kv_crossover_batch", "sequences", slips={"slip.bf16_weights": value * 2, "slip.both_8bit": value * 2})


@template("quantise", 2)
def quantised_weights(draw: Draw) -> Question:
    scene = draw.scene(d.GROUPED, ("h100-sxm", "h200-sxm", "b200", "mi300x", "l40s"), batches=SEVERAL, weights="int8")
    r = decode_results(scene)
    slips = {"slip.all_halved": r["weight_read_s"] + r["kv_read_s"] / 2, "slip.not_halved": 2 * r["weight_read_s"] + r["kv_read_s"]}
    return decoded(draw, scene, "step_time_s", "s", slips=slips)


@template("quantise", 2)
def quantised_cache(draw: Draw) -> Question:
    scene = draw.scene(d.GROUPED, batches=SEVERAL, kv="int8")
    r = decode_results(scene)
    slips = {"slip.all_halved": r["weight_read_s"] / 2 + r["kv_read_s"], "slip.not_halved": r["weight_read_s"] + 2 * r["kv_read_s"]}
    return decoded(draw, scene, "step_time_s", "s", slips=slips)
