"""What the questions share: a model's heads, what fits on a device, a decode step, and how their answers are worded.

Every number is a command's, or a textbook formula's, never the quiz's own.
"""

from __future__ import annotations

from typing import Any

from llmcalc.architecture import Model
from llmcalc.estimate import decode, terms
from llmcalc.figures import Figure
from llmcalc.formulas import time
from llmcalc.plan import Workload
from llmcalc.quiz import draw as d
from llmcalc.quiz.draw import Draw, Scene
from llmcalc.quiz.question import Question
from llmcalc.units import decimal_size, seconds


def heads_of(found: Model) -> tuple[int, int, int, int]:
    """(layers, query heads, KV heads, head_dim) of a model with one kind of attention."""
    kind, layers = d.mixer(found)
    return layers, kind.query_heads, kind.kv_heads, dict(kind.entries[0].args)["head_dim"]


def ctx_of(draw: Draw, found: Model, among: tuple[int, ...] = d.CONTEXTS) -> int:
    """A context that the model has [tokens]."""
    longest = found.max_context or among[-1]
    return draw.choose([each for each in among if each <= longest])


CONTEXTS_FIT = (2048, 4096, 8192, 16384)


def decoded(draw: Draw, scene: Scene, result: str, unit: str, **rest: Any) -> Question:
    """A question about one result of `decode`, with what its explanation may need in words."""
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


def decode_results(scene: Scene) -> decode.Decode:
    """What `decode` answers."""
    return decode.decode(scene.model, scene.plan, scene.work).results


def read_alone(scene: Scene) -> Figure:
    """Steps per second of one sequence if nothing but the weights were read."""
    read = terms.step_terms(scene.model, scene.plan, Workload(scene.ctx, 1))["weight_read_s"]
    return time.tokens_per_s.of(
        as_name="single_stream_ceiling_tokens_per_s", batch=Figure("batch", 1, "", "one sequence"), step_time_s=read
    )


ONE = (1,)


SEVERAL = (4, 8, 16, 32, 48, 64)
