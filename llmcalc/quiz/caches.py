"""How large a cache is, and what its heads have to do with it."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from llmcalc.estimate import memory, verdict
from llmcalc.figures import Figure
from llmcalc.formulas import memory as f
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import ctx_of, heads_of
from llmcalc.quiz.template import template
from llmcalc.units import size


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
    ctx = ctx_of(draw, found)
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
    ctx, users = ctx_of(draw, found), draw.choose((10, 20, 50, 100))
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
    ctx = ctx_of(draw, found)
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
    ctx = ctx_of(draw, found, tuple(each for each in d.CONTEXTS if each >= 2 * min(w for w in windows if w)) or (32768,))
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
    estimate = verdict.fit(scene.model, scene.plan, scene.work)
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
