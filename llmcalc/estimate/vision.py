"""Images in a prompt: the tokens that they become, and the pass of the encoder that makes them."""

from __future__ import annotations

from dataclasses import dataclass

from llmcalc.architecture import Model
from llmcalc.errors import UsageError
from llmcalc.estimate import layout, memory, terms
from llmcalc.figures import Figure, total
from llmcalc.formulas import compute, time
from llmcalc.plan import Deployment

REACHED = 0.5
"""Share of the 16-bit rate that encoders reach: their matrices are small. An assumption, named where it is used."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Images of one size in one prompt."""

    tokens: int
    """Of the prompt, all images together."""
    patches: int
    """That the encoder reads, all together."""
    pairs: int
    """Of patches that attend to each other, in one layer."""


def looked(model: Model, width: int, height: int, count: int) -> Looked:
    """`count` images of that many pixels. Errors: no-image, bad-image."""
    if model.images is None:
        if model.towers == () or (model.towers is not None and not encoder_params(model)):
            raise UsageError(
                "no-image", f"{model.id} sees no images", "name a model with a vision tower, such as Qwen/Qwen2.5-VL-7B-Instruct"
            )
        hint = "count the image's tokens into the prompt"
        raise UsageError("no-image", f"how many tokens an image is to {model.model_type} is not known", hint)
    seen = model.images.seen(width, height)
    return Looked(count * seen.tokens, count * seen.patches, count * seen.patches**2 // seen.views)


def encoder_params(model: Model) -> int:
    """Parameters of the vision tower, without the projector."""
    return sum(weight.params for weight in model.towers or () if weight.part == "vision")


def encoder_flops(model: Model, seen: Looked) -> Figure:
    """Arithmetic of one pass: each patch through the tower, and through attention where its size is known."""
    matrices = compute.dense_flops.of(
        as_name="encoder_matrix_flops",
        params=Figure("params", encoder_params(model), "params", "vision tower"),
        tokens=Figure("tokens", seen.patches, "tokens", "patches"),
    )
    eyes = model.images
    if eyes is None or not eyes.layers:
        return matrices
    scores = compute.prefill_attention_flops.of(
        layers=Figure("layers", eyes.layers, "", memory.CONFIG),
        flops_per_pair=Figure("flops_per_pair", 4 * eyes.width, "FLOP", memory.CONFIG),
        pairs=Figure("pairs", seen.pairs, "pairs", "patches of a view, each with each"),
    )
    return total("encoder_flops", "FLOP", (matrices, scores))


def encoder_time(model: Model, plan: Deployment, seen: Looked) -> Figure:
    """One pass of the encoder at the nominal 16-bit rate of one tensor-parallel group. [s] value None without a rate."""
    rate = terms.compute_rate(plan.device, memory.compute_format(model)[0])
    if rate.value is None:
        return Figure("encoder_s", None, "s", rate.origin)
    return time.work_s.of(
        as_name="encoder_s",
        work_flops=encoder_flops(model, seen),
        flops_per_s=rate,
        devices=Figure("devices", plan.tp, "", layout.LAYOUT),
    )
