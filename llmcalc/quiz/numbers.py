"""Questions with a number for an answer. Every number is a command's, or a textbook formula's, never the quiz's own."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

from llmcalc.architecture import Layer as ModelLayer
from llmcalc.architecture import Model, Stack, Weight, grouped
from llmcalc.attention import gqa
from llmcalc.estimate import capacity, cost, decode, memory, prefill, step, talk, terms
from llmcalc.estimate import speculation as proofs
from llmcalc.figures import Figure, total
from llmcalc.formulas import compute, queueing, sampling, serving, sizing, speculation, time
from llmcalc.formulas import memory as f
from llmcalc.formulas.engines import padded_tokens
from llmcalc.plan import Deployment, Workload
from llmcalc.quiz import Question, template
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw, Scene
from llmcalc.units import decimal_size, seconds, size, usd


def heads_of(found: Model) -> tuple[int, int, int, int]:
    """(layers, query heads, KV heads, head_dim) of a model with one kind of attention."""
    kind, layers = d.mixer(found)
    return layers, kind.query_heads, kind.kv_heads, dict(kind.entries[0].args)["head_dim"]


def _ctx(draw: Draw, found: Model, among: tuple[int, ...] = d.CONTEXTS) -> int:
    longest = found.max_context or among[-1]
    return draw.choose([each for each in among if each <= longest])


# ---- the cache ----------------------------------------------------------------------------------------------------


@template("kv", 1)
def kv_token(draw: Draw) -> Question:
    found = draw.model(d.DENSE)
    _, query, kv, dim = heads_of(found)
    estimate = memory.kv(found, 1024, 1, "bf16")
    value = estimate.results["kv_bytes_per_token"]
    slips = {"slip.two": value / 2, "slip.mha": value * query / kv, "slip.head_dim": value * found.stack.hidden / query / dim}
    return draw.estimated(
        estimate,
        "kv_bytes_per_token",
        "B/token",
        given=draw.model_words(found),
        slips=slips,
        command=("kv", "-m", found.id, "-c", "1024", "--kv-dtype", "bf16"),
    )


@template("kv", 1)
def kv_sequence(draw: Draw) -> Question:
    found = draw.model(d.DENSE)
    ctx = _ctx(draw, found)
    _, query, kv, _ = heads_of(found)
    estimate = memory.kv(found, ctx, 1, "bf16")
    value = estimate.results["kv_bytes_per_sequence"]
    return draw.estimated(
        estimate,
        "kv_bytes_per_sequence",
        "B",
        given=draw.model_words(found),
        ctx=f"{ctx:,}",
        slips={"slip.two": value / 2, "slip.mha": value * query / kv},
        per_token=size(estimate.results["kv_bytes_per_token"]),
        command=("kv", "-m", found.id, "-c", str(ctx), "--kv-dtype", "bf16"),
    )


@template("kv", 2)
def kv_users(draw: Draw) -> Question:
    found = draw.model(d.DENSE)
    ctx, users = _ctx(draw, found), draw.choose((10, 20, 50, 100))
    _, query, kv, _ = heads_of(found)
    estimate = memory.kv(found, ctx, users, "bf16")
    value = estimate.results["kv_bytes_total"]
    return draw.estimated(
        estimate,
        "kv_bytes_total",
        "B",
        given=draw.model_words(found),
        ctx=f"{ctx:,}",
        users=users,
        slips={"slip.two": value / 2, "slip.mha": value * query / kv, "slip.one": value / users},
        each=size(estimate.results["kv_bytes_per_sequence"]),
        command=("kv", "-m", found.id, "-c", str(ctx), "-b", str(users), "--kv-dtype", "bf16"),
    )


@template("kv", 1)
def kv_8bit(draw: Draw) -> Question:
    found = draw.model(d.DENSE)
    ctx = _ctx(draw, found)
    _, query, kv, _ = heads_of(found)
    estimate = memory.kv(found, ctx, 1, "fp8")
    value = estimate.results["kv_bytes_per_sequence"]
    return draw.estimated(
        estimate,
        "kv_bytes_per_sequence",
        "B",
        given=draw.model_words(found),
        ctx=f"{ctx:,}",
        slips={"slip.bf16": value * 2, "slip.mha": value * query / kv},
        command=("kv", "-m", found.id, "-c", str(ctx), "--kv-dtype", "fp8"),
    )


@template("kv", 3)
def kv_window(draw: Draw) -> Question:
    found = draw.model(d.WINDOWED)
    windows = [kind.entries[0].window or 0 for kind, _ in memory.mixers(found)]
    ctx = _ctx(draw, found, tuple(each for each in d.CONTEXTS if each >= 2 * min(w for w in windows if w)) or (32768,))
    estimate = memory.kv(found, ctx, 1, "bf16")
    return draw.estimated(
        estimate,
        "kv_bytes_per_sequence",
        "B",
        given=draw.model_words(found),
        ctx=f"{ctx:,}",
        slips={
            "slip.window": estimate.results["kv_bytes_per_sequence_full_attention"],
            "slip.two": estimate.results["kv_bytes_per_sequence"] / 2,
        },
        command=("kv", "-m", found.id, "-c", str(ctx), "--kv-dtype", "bf16"),
    )


@template("kv", 2)
def kv_how_long(draw: Draw) -> Question:
    scene = draw.scene(devices=d.SLOW)
    estimate = capacity.fit(scene.model, scene.plan, scene.work)
    figure = f.share.of(
        as_name="kv_capacity_tokens",
        part=Figure("kv_budget_bytes", estimate.results["kv_budget_bytes"], "B", "fit"),
        whole=memory.kv(scene.model, scene.ctx, 1, "bf16").figures["kv_bytes_per_token"],
    )
    return draw.estimated(
        estimate,
        "kv_capacity_tokens",
        "tokens",
        figure=figure,
        given=draw.given(scene),
        command=scene.argv("fit"),
        slips={"slip.no_weights": estimate.results["usable_bytes"] / figure.inputs[1].value},
    )


# ---- heads --------------------------------------------------------------------------------------------------------


@template("heads", 1)
def gqa_ratio(draw: Draw) -> Question:
    found = draw.model(d.GROUPED)
    _, query, kv, _ = heads_of(found)
    estimate = memory.kv(found, 1024, 1, "bf16")
    return draw.estimated(
        estimate,
        "query_heads_per_kv_head",
        "ratio",
        given=draw.model_words(found),
        query=query,
        kv=kv,
        figure=f.share.of(
            as_name="query_heads_per_kv_head",
            part=Figure("query_heads", query, "", memory.CONFIG),
            whole=Figure("kv_heads", kv, "", memory.CONFIG),
        ),
        command=("kv", "-m", found.id, "-c", "1024", "--kv-dtype", "bf16"),
    )


@template("heads", 2)
def gqa_undone(draw: Draw) -> Question:
    found = draw.model(d.GROUPED)
    layers, query, kv, dim = heads_of(found)
    figure = f.kv_bytes_per_token.of(layers=layers, kv_heads=Figure("kv_heads", query), head_dim=dim, bytes_per_element=2)
    own = memory.kv(found, 1024, 1, "bf16").results["kv_bytes_per_token"]
    return draw.number(
        figure.value,
        "B/token",
        figure=figure,
        given=draw.model_words(found),
        query=query,
        kv=kv,
        own=size(own),
        slips={"slip.gqa": own, "slip.two": figure.value / 2},
    )


@template("heads", 2)
def mqa(draw: Draw) -> Question:
    found = draw.model(d.GROUPED)
    layers, query, kv, dim = heads_of(found)
    figure = f.kv_bytes_per_token.of(layers=layers, kv_heads=1, head_dim=dim, bytes_per_element=2)
    return draw.number(
        figure.value,
        "B/token",
        figure=figure,
        given=draw.model_words(found),
        kv=kv,
        slips={"slip.two": figure.value / 2, "slip.gqa": figure.value * kv, "slip.mha": figure.value * query},
    )


@template("heads", 2)
def mla_token(draw: Draw) -> Question:
    found = draw.model(d.LATENT)
    kind, layers = d.mixer(found)
    args = dict(kind.entries[0].args)
    estimate = memory.kv(found, 1024, 1, "bf16")
    value = estimate.results["kv_bytes_per_token"]
    as_mha = f.kv_bytes_per_token(layers, kind.query_heads, 128, 2)
    return draw.estimated(
        estimate,
        "kv_bytes_per_token",
        "B/token",
        given=draw.model_words(found),
        slips={"slip.mla_mha": as_mha, "slip.mla_two": value * 2},
        width=args["kv_lora_rank"] + args["qk_rope_head_dim"],
        command=("kv", "-m", found.id, "-c", "1024", "--kv-dtype", "bf16"),
    )


@template("heads", 2)
def mla_ratio(draw: Draw) -> Question:
    latent, other = draw.model(d.LATENT), draw.model(d.GROUPED)
    args = dict(d.mixer(latent)[0].entries[0].args)
    width = args["kv_lora_rank"] + args["qk_rope_head_dim"]
    _, query, kv, dim = heads_of(other)
    draw.heads = query
    figure = f.share.of(
        as_name="ratio", part=Figure("gqa_numbers", 2 * kv * dim, "", memory.CONFIG), whole=Figure("mla_numbers", width, "", memory.CONFIG)
    )
    return draw.number(
        figure.value,
        "ratio",
        figure=figure,
        gqa=other.id.rpartition("/")[2],
        mla=latent.id.rpartition("/")[2],
        kv=kv,
        dim=dim,
        rank=args["kv_lora_rank"],
        rope=args["qk_rope_head_dim"],
        numbers=2 * kv * dim,
        width=width,
        slips={"slip.two": figure.value / 2, "slip.mha": figure.value * query / kv, "slip.rope": 2 * kv * dim / args["kv_lora_rank"]},
    )


# ---- weights ------------------------------------------------------------------------------------------------------


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


# ---- what fits ----------------------------------------------------------------------------------------------------


def _fit(draw: Draw, scene: Scene, result: str, unit: str, **rest: Any) -> Question:
    estimate = capacity.fit(scene.model, scene.plan, scene.work)
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


CONTEXTS_FIT = (2048, 4096, 8192, 16384)


@template("batch", 2)
def batch_8bit(draw: Draw) -> Question:
    return _fit(draw, draw.scene(weights="int8", kv="int8", batches=(1,), contexts=CONTEXTS_FIT), "max_batch", "sequences")


@template("batch", 2)
def batch_two_devices(draw: Draw) -> Question:
    return _fit(draw, draw.scene(d.GROUPED, d.GPUS[:6], tp=2, batches=(1,), contexts=CONTEXTS_FIT), "max_batch", "sequences")


@template("batch", 3)
def batch_context(draw: Draw) -> Question:
    scene = draw.scene(d.GROUPED, batches=(4, 8, 16, 32), contexts=CONTEXTS_FIT)
    r = capacity.fit(scene.model, scene.plan, scene.work).results
    slips = {
        "slip.one": r["max_ctx_tokens"] * scene.batch,
        "slip.no_weights": r["usable_bytes"] / r["kv_bytes_per_sequence"] * scene.ctx / scene.batch,
    }
    per_token = memory.kv(scene.model, scene.ctx, 1, "bf16").figures["kv_bytes_per_token"]
    every = f.batch_bytes.of(bytes_per_sequence=per_token, batch=Figure("batch", scene.batch, "", "`batch`"))
    left = Figure("kv_budget_bytes", r["kv_budget_bytes"], "B", "memory less weights")
    figure = f.share.of(as_name="max_ctx_tokens", part=left, whole=every)
    return _fit(draw, scene, "max_ctx_tokens", "tokens", batch=scene.batch, slips=slips, figure=figure)


# ---- decode -------------------------------------------------------------------------------------------------------


def _decoded(draw: Draw, scene: Scene, result: str, unit: str, **rest: Any) -> Question:
    estimate = decode.decode(scene.model, scene.plan, scene.work)
    parts = terms.step_terms(scene.model, scene.plan, scene.work)
    weights, cache = parts["weight_read_bytes"].value, parts["kv_read_bytes"].value
    words = {
        "ctx": f"{scene.ctx:,}",
        "batch": scene.batch,
        "weights": decimal_size(weights),
        "each": decimal_size(cache),
        "caches": decimal_size(cache * scene.batch),
        "weights_s": seconds(estimate.results["weight_read_s"]),
        "caches_s": seconds(estimate.results["kv_read_s"]),
        "math_s": seconds(estimate.results["compute_s"] or 0),
        "step_s": seconds(estimate.results["step_time_s"]),
    }
    figure = rest.pop("figure", None) or parts.get(result)
    rest.setdefault("given", draw.given(scene))
    return draw.estimated(
        estimate,
        result,
        unit,
        figure=figure,
        command=scene.argv("decode"),
        rate=scene.plan.device.bandwidth_bytes_per_s,
        **{**words, **rest},
    )


def _results(scene: Scene) -> dict[str, Any]:
    return decode.decode(scene.model, scene.plan, scene.work).results


def _alone(scene: Scene) -> Figure:
    """Steps per second of one sequence if nothing but the weights were read."""
    read = terms.step_terms(scene.model, scene.plan, Workload(scene.ctx, 1))["weight_read_s"]
    return time.tokens_per_s.of(
        as_name="single_stream_ceiling_tokens_per_s", batch=Figure("batch", 1, "", "one sequence"), step_time_s=read
    )


ONE = (1,)
SEVERAL = (4, 8, 16, 32, 48, 64)


@template("ceiling", 1)
def ceiling_one(draw: Draw) -> Question:
    scene = draw.scene(devices=d.SLOW, batches=ONE, contexts=(1024,))
    value = _results(scene)["single_stream_ceiling_tokens_per_s"]
    figure = _alone(scene)
    return _decoded(
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
    value = _results(scene)["single_stream_ceiling_tokens_per_s"]
    figure = _alone(scene)
    return _decoded(
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
    r = _results(scene)
    return _decoded(draw, scene, "ceiling_tokens_per_s", "tokens/s", slips={"slip.weights_rate": r["single_stream_ceiling_tokens_per_s"]})


@template("decode", 2)
def decode_step(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    r = _results(scene)
    slips = {
        "slip.weights_only": r["weight_read_s"],
        "slip.one_cache": r["weight_read_s"] + r["kv_read_s"] / scene.batch,
        "slip.flops_only": r["compute_s"],
        "slip.kv_only": r["kv_read_s"],
    }
    return _decoded(draw, scene, "step_time_s", "s", slips=slips)


@template("decode", 3)
def decode_rate(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    r = _results(scene)
    return _decoded(
        draw,
        scene,
        "tokens_per_s",
        "tokens/s",
        slips={"slip.per_user": r["tokens_per_s_per_user"], "slip.free_caches": scene.batch / r["weight_read_s"]},
    )


@template("decode", 2)
def decode_user(draw: Draw) -> Question:
    scene = draw.scene(devices=d.SLOW, batches=SEVERAL)
    r = _results(scene)
    figure = time.tokens_per_s.of(
        as_name="tokens_per_s_per_user",
        batch=Figure("batch", 1, "", "one sequence"),
        step_time_s=step.step(scene.model, scene.plan, scene.work, "napkin").mid,
    )
    return _decoded(
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
    value = _results(scene)["weight_read_s"]
    return _decoded(draw, scene, "weight_read_s", "s", slips={"slip.per_batch": value * scene.batch, "slip.byte": value / 2})


@template("decode", 2)
def decode_caches(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    value = _results(scene)["kv_read_s"]
    return _decoded(draw, scene, "kv_read_s", "s", slips={"slip.one_cache": value / scene.batch, "slip.two": value / 2})


@template("decode", 2)
def decode_math(draw: Draw) -> Question:
    scene = draw.scene(batches=SEVERAL)
    value = _results(scene)["compute_s"]
    active = f"{memory.active_params(scene.model) / 1e9:.3g}"
    return _decoded(draw, scene, "compute_s", "s", active=active, slips={"slip.flop": value / 2, "slip.one": value / scene.batch})


# ---- intensity ----------------------------------------------------------------------------------------------------


@template("critical", 2)
def critical_bf16(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(1024,))
    value = _results(scene)["critical_batch"]
    return _decoded(
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
    value = _results(scene)["critical_batch"]
    return _decoded(
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
    value = _results(scene)["ridge_point_flops_per_byte"]
    parts = terms.step_terms(scene.model, scene.plan, scene.work)
    figure = time.ridge_point.of(flops_per_s=parts["flops_per_s"], bandwidth_bytes_per_s=parts["bandwidth"])
    return _decoded(
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
    return _decoded(
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
    value = _results(scene)["kv_crossover_batch"]
    _, query, kv, _ = heads_of(scene.model)
    return _decoded(draw, scene, "kv_crossover_batch", "sequences", slips={"slip.mha": value * kv / query, "slip.two": value * 2})


@template("crossover", 3)
def crossover_8bit(draw: Draw) -> Question:
    scene = draw.scene(batches=ONE, contexts=(4096, 8192, 16384, 32768), weights="int8")
    value = _results(scene)["kv_crossover_batch"]
    return _decoded(draw, scene, "kv_crossover_batch", "sequences", slips={"slip.bf16_weights": value * 2, "slip.both_8bit": value * 2})


@template("quantise", 2)
def quantised_weights(draw: Draw) -> Question:
    scene = draw.scene(d.GROUPED, ("h100-sxm", "h200-sxm", "b200", "mi300x", "l40s"), batches=SEVERAL, weights="int8")
    r = _results(scene)
    slips = {"slip.all_halved": r["weight_read_s"] + r["kv_read_s"] / 2, "slip.not_halved": 2 * r["weight_read_s"] + r["kv_read_s"]}
    return _decoded(draw, scene, "step_time_s", "s", slips=slips)


@template("quantise", 2)
def quantised_cache(draw: Draw) -> Question:
    scene = draw.scene(d.GROUPED, batches=SEVERAL, kv="int8")
    r = _results(scene)
    slips = {"slip.all_halved": r["weight_read_s"] / 2 + r["kv_read_s"], "slip.not_halved": r["weight_read_s"] + 2 * r["kv_read_s"]}
    return _decoded(draw, scene, "step_time_s", "s", slips=slips)


# ---- money --------------------------------------------------------------------------------------------------------


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
    return _decoded(
        draw,
        scene,
        "tpot_s",
        "s",
        figure=step.step(scene.model, scene.plan, scene.work, "napkin").mid,
        slips={"slip.divided": _results(scene)["tpot_s"] / scene.batch},
    )


# ---- prompts ------------------------------------------------------------------------------------------------------


def _read(
    draw: Draw, result: str, unit: str, cached: int = 0, slips: Any = None, prompts: tuple[int, ...] = (2048, 4096, 8192, 16384, 32768)
) -> Question:
    scene = draw.scene(d.GROUPED, contexts=prompts, batches=ONE)
    estimate = prefill.prefill(scene.model, scene.plan, scene.ctx, cached)
    found = terms.prompt_terms(scene.model, scene.plan, scene.ctx, cached)
    r = estimate.results
    extra = ("--cached", str(cached)) if cached else ()
    load = ("--weights", "bf16", "--kv-dtype", "bf16")
    layers, query, _, dim = heads_of(scene.model)
    return draw.estimated(
        estimate,
        result,
        unit,
        figure=estimate.figures.get(result) or found.get(result),
        given=draw.given(scene),
        prompt=f"{scene.ctx:,}",
        cached=f"{cached:,}",
        new=f"{scene.ctx - cached:,}",
        active=f"{memory.active_params(scene.model) / 1e9:.3g}",
        work=d.spoken(r["prefill_flops"], "FLOP"),
        attention=d.spoken(r["attention_flops"], "FLOP"),
        layers=layers,
        heads=query,
        dim=dim,
        slips=slips(r) if slips else {},
        command=("prefill", "-m", scene.model.id, "-d", scene.plan.device.id, "--prompt", str(scene.ctx), *extra, *load),
    )


@template("prefill", 2)
def prefill_work(draw: Draw) -> Question:
    return _read(
        draw,
        "prefill_flops",
        "FLOP",
        slips=lambda r: {"slip.flop": r["prefill_flops"] / 2, "slip.no_attention": r["prefill_flops"] - r["attention_flops"]},
    )


@template("prefill", 2)
def prefill_time(draw: Draw) -> Question:
    return _read(
        draw, "prefill_time_s", "s", slips=lambda r: {"slip.sparse_time": r["prefill_time_s"] / 2, "slip.decode_time": r["weight_read_s"]}
    )


@template("prefill", 3)
def prefill_attention(draw: Draw) -> Question:
    return _read(
        draw,
        "attention_flops",
        "FLOP",
        slips=lambda r: {"slip.not_causal": r["attention_flops"] * 2, "slip.flop": r["attention_flops"] / 2},
    )


@template("prefix", 3)
def prefix_time(draw: Draw) -> Question:
    return _read(
        draw,
        "prefill_time_s",
        "s",
        cached=draw.choose((1024, 1536, 1792)),
        prompts=(2048, 4096, 8192),
        slips=lambda r: {"slip.no_cache": r["prefill_time_s"] + r["saved_s"]},
    )


def _shared(draw: Draw) -> tuple[Model, int, int, Figure, dict[str, Any]]:
    found = draw.model(d.DENSE)
    users, prefix = draw.choose((10, 20, 50, 100)), draw.choose((512, 1024, 2048))
    figure = serving.prefilled_tokens.of(
        sequences=users,
        prompt_tokens=Figure("prompt_tokens", prefix, "tokens", "the common prefix alone"),
        shared_tokens=Figure("shared_tokens", prefix, "tokens", "computed once"),
    )
    return (
        found,
        users,
        prefix,
        figure,
        {"users": users, "prefix": f"{prefix:,}", "all": f"{users * prefix:,}", "given": draw.model_words(found)},
    )


@template("prefix", 1)
def prefix_tokens(draw: Draw) -> Question:
    found, users, prefix, _, words = _shared(draw)
    own = draw.choose((100, 200, 500))
    figure = serving.prefilled_tokens.of(sequences=users, prompt_tokens=prefix + own, shared_tokens=prefix)
    words["given"] = ""
    return draw.number(
        figure.value,
        "tokens",
        figure=figure,
        own=own,
        slips={"slip.no_cache": users * (prefix + own), "slip.own_forgotten": prefix},
        command=("prefix", "-m", found.id, "-d", "h200-sxm", "-b", str(users), "--prefix", str(prefix), "--prompt", str(prefix + own)),
        result="prefilled_tokens_ideal",
        **words,
    )


@template("prefix", 2)
def prefix_memory(draw: Draw) -> Question:
    found, users, prefix, _, words = _shared(draw)
    each = memory.kv(found, prefix, 1, "bf16").figures["kv_bytes_per_sequence"]
    figure = f.batch_bytes.of(as_name="saved_bytes", bytes_per_sequence=each, batch=Figure("copies_saved", users - 1, "", "all but one"))
    return draw.number(
        figure.value,
        "B",
        figure=figure,
        each=decimal_size(each.value),
        slips={"slip.one_kept": each.value, "slip.two": figure.value / 2},
        **words,
    )


# ---- speculation and sampling -------------------------------------------------------------------------------------


def _drafts(draw: Draw) -> tuple[tuple[float, ...], tuple[float, ...]]:
    pairs = (
        ((0.6, 0.4), (0.9, 0.1)),
        ((0.5, 0.3, 0.2), (0.7, 0.2, 0.1)),
        ((0.7, 0.2, 0.1), (0.5, 0.3, 0.2)),
        ((0.4, 0.4, 0.2), (0.6, 0.1, 0.3)),
        ((0.8, 0.15, 0.05), (0.6, 0.3, 0.1)),
        ((0.5, 0.25, 0.25), (0.2, 0.4, 0.4)),
        ((0.9, 0.1), (0.6, 0.4)),
        ((0.3, 0.7), (0.5, 0.5)),
    )
    return draw.choose(pairs)


def _listed(values: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{each:g}" for each in values) + ")"


def _proved(p: tuple[float, ...], q: tuple[float, ...], result: str) -> dict[str, Any]:
    """What `spec --p --q` works out in fractions."""
    texts = [[f"{each:g}" for each in values] for values in (p, q)]
    proof = proofs.exactness(proofs.distribution(texts[0], "p"), proofs.distribution(texts[1], "q"))
    command = ("spec", "--p", ",".join(texts[0]), "--q", ",".join(texts[1]))
    return {"answer": float(proof[result]), "unit": "share", "command": command, "result": result, "p": _listed(p), "q": _listed(q)}


@template("speculation", 2)
def spec_acceptance(draw: Draw) -> Question:
    p, q = _drafts(draw)
    parts = tuple(sampling.accepted_share.of(as_name=f"token {name}", target=a, draft=b) for name, a, b in zip("ABC", p, q, strict=False))
    figure = total("acceptance", "", parts)
    product = sum(a * b for a, b in zip(p, q, strict=True))
    return draw.number(**_proved(p, q, "acceptance"), figure=figure, slips={"slip.rejected": 1 - figure.value, "slip.product": product})


@template("speculation", 2)
def spec_rejected(draw: Draw) -> Question:
    p, q = _drafts(draw)
    accepted = sum(sampling.accepted_share(a, b) for a, b in zip(p, q, strict=True))
    figure = Figure("rejected", 1 - accepted, "", "1 - acceptance", None, (Figure("acceptance", accepted, "", "sum of min(p, q)"),))
    return draw.number(**_proved(p, q, "rejection"), figure=figure, slips={"slip.accepted": accepted})


def _spec(alpha: float, gamma: int, price: float) -> tuple[str, ...]:
    """The answer does not depend on the model and the device; the command wants some."""
    return (
        "spec",
        "-m",
        "Qwen/Qwen3-8B",
        "-d",
        "h100-sxm",
        "--acceptance",
        f"{alpha:g}",
        "--draft-tokens",
        str(gamma),
        "--draft-cost",
        f"{price:g}",
    )


def _speculated(draw: Draw) -> tuple[float, int, Figure]:
    alpha, gamma = draw.choose((0.5, 0.6, 0.7, 0.8, 0.9)), draw.choose((1, 2, 3, 4, 5, 7))
    return alpha, gamma, speculation.expected_tokens_per_step.of(acceptance=alpha, draft_tokens=gamma)


@template("speculation", 2)
def spec_expected(draw: Draw) -> Question:
    alpha, gamma, figure = _speculated(draw)
    return draw.number(
        figure.value,
        "tokens",
        figure=figure,
        alpha=alpha,
        gamma=gamma,
        slips={"slip.bonus": figure.value - 1, "slip.all_or_nothing": alpha * gamma},
        command=_spec(alpha, gamma, 0.05),
        result="expected_tokens_per_step",
    )


@template("speculation", 3)
def spec_speedup(draw: Draw) -> Question:
    alpha, gamma, expected = _speculated(draw)
    price = draw.choose((0.02, 0.05, 0.1, 0.2))
    figure = speculation.ideal_speedup.of(expected_tokens_per_step=expected, draft_tokens=gamma, draft_cost=price)
    return draw.number(
        figure.value,
        "ratio",
        figure=figure,
        alpha=alpha,
        gamma=gamma,
        price=price,
        expected=f"{expected.value:.3g}",
        slips={"slip.draft_free": expected.value, "slip.bonus": (expected.value - 1) / (gamma * price + 1)},
        command=_spec(alpha, gamma, price),
        result="ideal_speedup",
    )


LOGITS = (2.0, 1.0, 0.1)
CHANCES = tuple(zip("ABC", LOGITS, strict=True))


def _probability(temperature: float, index: int = 0) -> Figure:
    parts = tuple(
        sampling.boltzmann_weight.of(
            as_name=f"weight of {name}",
            logit=Figure("logit", logit, "", "given"),
            temperature=Figure("temperature", temperature, "", "given"),
        )
        for name, logit in CHANCES
    )
    return f.share.of(as_name="probability", part=parts[index], whole=total("all", "", parts))


@template("sampling", 2)
def sampling_temperature(draw: Draw) -> Question:
    temperature = draw.choose((0.5, 0.6, 0.7, 1.0, 1.5, 2.0))
    index = draw.choose((0, 0, 1, 2))
    figure = _probability(temperature, index)
    slips = {
        "slip.no_softmax": LOGITS[index] / sum(LOGITS),
        "slip.times_temperature": sampling.softmax(LOGITS, 1 / temperature)[index],
        "slip.t1": sampling.softmax(LOGITS)[index],
    }
    return draw.number(figure.value, "share", figure=figure, temperature=temperature, token="ABC"[index], slips=slips)


@template("sampling", 2)
def sampling_top_k(draw: Draw) -> Question:
    temperature = draw.choose((0.5, 0.7, 1.0, 1.5, 2.0))
    index = draw.choose((0, 1))
    before = sampling.softmax(LOGITS, temperature)
    kept = tuple(_probability(temperature, each) for each in (0, 1))
    figure = f.share.of(as_name="probability", part=kept[index], whole=total("kept", "", kept))
    return draw.number(
        figure.value,
        "share",
        figure=figure,
        temperature=temperature,
        token="ABC"[index],
        before=_listed(tuple(round(each, 3) for each in before)),
        slips={"slip.renormalise": before[index]},
    )


@template("sampling", 2)
def sampling_top_p(draw: Draw) -> Question:
    temperature, p = draw.choose((0.5, 0.7, 1.0, 1.5, 2.0)), draw.choose((0.5, 0.8, 0.9, 0.95))
    before = sampling.softmax(LOGITS, temperature)
    kept = sum(each > 0 for each in sampling.top_p(before, p))
    figure = total("mass", "", tuple(_probability(temperature, each) for each in range(kept)))
    return draw.number(
        kept,
        "tokens",
        figure=figure,
        temperature=temperature,
        p=p,
        before=_listed(tuple(round(each, 3) for each in before)),
        mass=f"{figure.value:.3g}",
        slips={"slip.below_p": max(1, kept - 1)},
    )


# ---- the server ---------------------------------------------------------------------------------------------------


@template("paging", 2)
def paging_waste(draw: Draw) -> Question:
    reserved, mean = draw.choose((2048, 4096, 8192, 16384)), draw.choose((300, 500, 800, 1200))
    figure = serving.reserved_waste.of(mean_tokens=mean, reserved_tokens=reserved)
    return draw.number(
        figure.value, "share", figure=figure, mean=f"{mean:,}", reserved=f"{reserved:,}", slips={"slip.used": mean / reserved}
    )


@template("paging", 1)
def paging_slots(draw: Draw) -> Question:
    tokens, block = draw.choose((100, 250, 1000, 1500, 2500, 5000)), draw.choose((16, 32, 64))
    figure = padded_tokens.of(tokens=tokens, block_tokens=block)
    return draw.number(
        figure.value, "tokens", figure=figure, tokens=f"{tokens:,}", block=block, slips={"slip.blocks": figure.value / block}
    )


@template("paging", 3)
def paging_gain(draw: Draw) -> Question:
    reserved, mean = draw.choose((4096, 8192, 16384)), draw.choose((512, 800, 1200))
    figure = f.share.of(
        as_name="gain",
        part=Figure("reserved_tokens", reserved, "tokens", "the longest allowed"),
        whole=Figure("mean_tokens", mean, "tokens", "what is really held"),
    )
    return draw.number(figure.value, "ratio", figure=figure, mean=f"{mean:,}", reserved=f"{reserved:,}")


def _lengths(draw: Draw) -> tuple[tuple[int, ...], Figure, Figure]:
    answers = draw.choose(
        ((50, 100, 150, 900), (20, 40, 60, 480), (100, 100, 200, 1600), (300, 400, 500, 800), (10, 30, 80, 1000, 80), (64, 128, 256, 512))
    )
    mean = Figure("mean_tokens", sum(answers) / len(answers), "tokens", "mean of the lengths")
    return answers, mean, Figure("longest_tokens", max(answers), "tokens", "the longest of the batch")


@template("batching", 2)
def batching_static(draw: Draw) -> Question:
    answers, mean, longest = _lengths(draw)
    figure = queueing.static_utilization.of(mean_output=mean, expected_longest=longest)
    return draw.number(
        figure.value,
        "share",
        figure=figure,
        lengths=", ".join(map(str, answers)),
        mean=f"{mean.value:g}",
        longest=longest.value,
        slips={"slip.idle": 1 - figure.value},
    )


@template("batching", 2)
def batching_gain(draw: Draw) -> Question:
    answers, mean, longest = _lengths(draw)
    figure = f.share.of(as_name="gain", part=longest, whole=mean)
    return draw.number(
        figure.value,
        "ratio",
        figure=figure,
        lengths=", ".join(map(str, answers)),
        mean=f"{mean.value:g}",
        longest=longest.value,
        slips={"slip.inverse": 1 / figure.value},
    )


@template("parallel", 3)
def parallel_replication(draw: Draw) -> Question:
    scene = draw.scene(
        ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-32B", "Qwen/Qwen2.5-7B-Instruct"),
        ("h100-sxm", "a100-80-sxm", "h200-sxm"),
        tp=16,
        batches=ONE,
        contexts=CONTEXTS_FIT,
    )
    estimate = capacity.fit(scene.model, scene.plan, scene.work)
    alone = memory.kv(scene.model, scene.ctx, 1, "bf16").results["kv_bytes_per_sequence"]
    kv = heads_of(scene.model)[2]
    return draw.estimated(
        estimate,
        "kv_bytes_per_sequence",
        "B",
        figure=estimate.figures["max_batch_exact"].inputs[1],
        given=draw.model_words(scene.model),
        ctx=f"{scene.ctx:,}",
        ranks=scene.plan.tp,
        kv=kv,
        copies=scene.plan.tp // kv,
        alone=decimal_size(alone),
        slips={"slip.replication": alone, "slip.everywhere": alone * scene.plan.tp},
        command=scene.argv("fit"),
    )


def _parallel(draw: Draw, result: str, slips: Any) -> Question:
    scene = draw.scene(
        ("meta-llama/Llama-3.1-70B-Instruct", "Qwen/Qwen3-32B", "Qwen/Qwen3-14B"),
        ("h100-sxm", "a100-80-sxm", "h200-sxm"),
        tp=draw.choose((2, 4, 8)),
        batches=SEVERAL,
    )
    rate, latency = talk.link_rate(scene.plan.device)
    return _decoded(
        draw,
        scene,
        result,
        "s",
        slips=slips(_results(scene), scene),
        layers=heads_of(scene.model)[0],
        link=f"{rate.value / 1e9:g} GB/s",
        latency=seconds(latency.value),
        hidden=f"{scene.model.stack.hidden:,}",
        ranks=scene.plan.tp,
        talk_s=seconds(_results(scene)["communication_s"]),
    )


@template("parallel", 3)
def parallel_talk(draw: Draw) -> Question:
    return _parallel(draw, "communication_s", lambda r, s: {"slip.one_reduce": r["communication_s"] / 2})


@template("parallel", 3)
def parallel_step(draw: Draw) -> Question:
    return _parallel(
        draw,
        "step_time_s",
        lambda r, s: {"slip.no_talk": r["step_time_s"] - r["communication_s"], "slip.not_split": r["step_time_s"] * s.plan.tp},
    )


def _experts(found: Model) -> tuple[int, int]:
    mlp = next(group.layer.mlp for group in found.groups if group.layer.mlp and group.layer.mlp.experts)
    return mlp.experts, mlp.top_k


@template("moe", 3)
def moe_distinct(draw: Draw) -> Question:
    found = draw.model(d.MIXTURES)
    experts, used = _experts(found)
    batch = draw.choose((2, 4, 8, 16, 32))
    figure = time.distinct_experts.of(
        experts=Figure("experts", experts, "", memory.CONFIG),
        top_k=Figure("top_k", used, "", memory.CONFIG),
        tokens=Figure("tokens", batch, "tokens", "`batch`"),
    )
    return draw.number(
        figure.value,
        "experts",
        figure=figure,
        given=draw.model_words(found),
        batch=batch,
        slips={"slip.all_experts": experts, "slip.no_overlap": min(experts, used * batch), "slip.one_token": used},
    )


@template("moe", 3)
def moe_read(draw: Draw) -> Question:
    scene = draw.scene(d.SMALL_MIXTURES, ("h200-sxm", "b200", "mi300x"), batches=(1, 2, 4, 8, 16), contexts=(1024, 2048, 4096))
    r = _results(scene)
    rate = scene.plan.device.bandwidth_bytes_per_s
    slips = {
        "slip.all_experts": memory.language_params(scene.model) * 2 / rate,
        "slip.active_only": memory.active_params(scene.model) * 2 / rate,
    }
    experts, used = _experts(scene.model)
    return _decoded(
        draw,
        scene,
        "weight_read_s",
        "s",
        slips=slips,
        experts=experts,
        used=used,
        touched=f"{time.distinct_experts(experts, used, scene.batch):.3g}",
        all_s=seconds(slips["slip.all_experts"]),
        read_s=seconds(r["weight_read_s"]),
    )


@template("moe", 3)
def moe_critical(draw: Draw) -> Question:
    scene = draw.scene(d.SMALL_MIXTURES, ("h200-sxm", "b200", "mi300x"), batches=ONE, contexts=(1024,))
    value = _results(scene)["critical_batch"]
    experts, used = _experts(scene.model)
    return _decoded(
        draw,
        scene,
        "critical_batch",
        "tokens",
        slips={"slip.dense_critical": value * used / experts},
        experts=experts,
        used=used,
        spread=f"{experts / used:g}",
    )


@template("moe", 2)
def moe_active(draw: Draw) -> Question:
    found = draw.model(d.MIXTURES)
    estimate = memory.weights(found, "bf16")
    experts, used = _experts(found)
    r = estimate.results
    counted = [row for row in estimate.rows if row["active_params"]]
    figure = total(
        "active_params", "params", tuple(Figure(row["part"], row["active_params"], "params", "used by one token") for row in counted)
    )
    routed = sum(row["params"] for row in estimate.rows if row["part"] == "experts")
    rest = r["language_params"] - routed - r["embedding_params"]
    text = draw.say(
        "moe.parts",
        name=found.id.rpartition("/")[2],
        total=f"{r['language_params'] / 1e9:.3g}",
        routed=f"{routed / 1e9:.3g}",
        experts=experts,
        used=used,
        rest=f"{rest / 1e9:.3g}",
    )
    return draw.estimated(
        estimate,
        "active_params",
        "params",
        figure=figure,
        given=text,
        command=("weights", "-m", found.id, "--weights", "bf16"),
        used=used,
        experts=experts,
        routed=f"{routed / 1e9:.3g}",
        rest=f"{rest / 1e9:.3g}",
        slips={"slip.all_experts": r["language_params"]},
    )


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


# ---- the five problems of the course notes ------------------------------------------------------------------------


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
    estimate = capacity.fit(scene.model, scene.plan, scene.work)
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
    figure = _alone(scene)
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
