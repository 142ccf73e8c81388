"""Reading prompts, and what a prefix cache saves."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import memory, prefill, terms
from llmcalc.figures import Figure
from llmcalc.formulas import memory as f
from llmcalc.formulas import serving
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import ONE, heads_of
from llmcalc.quiz.template import template
from llmcalc.units import decimal_size


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
def prefix_tier(draw: Draw) -> Question:
    found, prompt = draw.model(d.DENSE), draw.choose((2048, 4096, 8192))
    link = draw.choose((6e9, 12e9, 25e9, 50e9))
    each = memory.kv(found, prompt, 1, "bf16").figures["kv_bytes_per_sequence"]
    figure = serving.transfer_s.of(moved_bytes=each, link_bytes_per_s=Figure("link_bytes_per_s", link, "B/s", "the tier's link"))
    return draw.number(
        figure.value,
        "s",
        figure=figure,
        model=found.id,
        prompt=prompt,
        link=f"{link / 1e9:g} GB/s",
        each=decimal_size(each.value),
        slips={"slip.bits_rate": figure.value * 8},
        command=("prefix", "-m", found.id, "-d", "h200-sxm", "--prompt", str(prompt), "--host-bandwidth", f"{link / 1e9:g}GB/s"),
        result="fetch_s",
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
