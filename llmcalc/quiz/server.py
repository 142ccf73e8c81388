"""Pages, batching, parallelism and experts."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import memory, talk, verdict
from llmcalc.figures import Figure, total
from llmcalc.formulas import memory as f
from llmcalc.formulas import queueing, serving, time
from llmcalc.formulas.engines import padded_tokens
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.scenes import CONTEXTS_FIT, ONE, SEVERAL, decode_results, decoded, heads_of
from llmcalc.quiz.template import template
from llmcalc.units import decimal_size, seconds


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
    estimate = verdict.fit(scene.model, scene.plan, scene.work)
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
    return decoded(
        draw,
        scene,
        result,
        "s",
        slips=slips(decode_results(scene), scene),
        layers=heads_of(scene.model)[0],
        link=f"{rate.value / 1e9:g} GB/s",
        latency=seconds(latency.value),
        hidden=f"{scene.model.stack.hidden:,}",
        ranks=scene.plan.tp,
        talk_s=seconds(decode_results(scene)["communication_s"]),
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
    r = decode_results(scene)
    rate = scene.plan.device.bandwidth_bytes_per_s
    slips = {
        "slip.all_experts": memory.language_params(scene.model) * 2 / rate,
        "slip.active_only": memory.active_params(scene.model) * 2 / rate,
    }
    experts, used = _experts(scene.model)
    return decoded(
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
    value = decode_results(scene)["critical_batch"]
    experts, used = _experts(scene.model)
    return decoded(
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
