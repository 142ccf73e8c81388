"""How many tokens an image is in a prompt: the rule of each family's own processor, and the patches that its encoder reads.

A rule is chosen by the wrapper's model_type; sizes come from the config, limits that only the processor's file holds from its
published defaults. A family without a rule is refused by name, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from llmcalc.errors import UsageError

MOST_PIXELS = 2**16
"""Longest side of an image that anybody sends. [pixels]"""


class Seen(NamedTuple):
    """One image in a prompt."""

    tokens: int
    """Of the prompt."""
    patches: int
    """That the encoder reads."""
    views: int
    """Tiles or crops that the encoder reads one by one: a patch attends to its own view."""


class Shape(NamedTuple):
    """What of a config the rules ask for. [pixels]"""

    image: int
    """Side of what the encoder takes."""
    patch: int
    """Side of a patch."""
    merge: int
    """Patches side by side that become one token, each way."""
    tokens: int
    """Tokens of an image where the config fixes them; 0 elsewhere."""


_WHOLE = {name: [7, 15, 23, 31] for name in ("qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker")}
"""Layers that attend to the whole image, where the class has windows in the others and the file does not say which."""
MERGES = ("spatial_merge_size", "merge_kernel_size", "pooling_kernel_size", "scale_factor")
"""What configs call the patches side by side that become one token."""
Rule = Callable[[int, int, Shape], Seen]


@dataclass(frozen=True, slots=True)
class Images:
    """How a model sees images: its family's rule and its own sizes."""

    family: str
    shape: Shape
    layers: int = 0
    """Of the encoder, in which a patch attends to its whole view; 0 where the config does not say."""
    width: int = 0

    def seen(self, width: int, height: int) -> Seen:
        """One image of that many pixels. Errors: bad-image."""
        if not 0 < min(width, height) <= max(width, height) <= MOST_PIXELS:
            raise UsageError(
                "bad-image", f"an image of {width} x {height} is not of 1 to {MOST_PIXELS:,} pixels a side", "write it like 1024x1024"
            )
        return RULES[self.family](height, width, self.shape)


def of(outer: Mapping[str, Any], model_type: str) -> Images | None:
    """How the model of a config sees images; None without a known rule."""
    if model_type not in RULES:
        return None
    vision = outer.get("vision_config")
    vision = vision if isinstance(vision, Mapping) else {}

    def number(*places: tuple[Mapping[str, Any], str], default: int) -> int:
        for block, key in places:
            value = block.get(key)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST_PIXELS:
                return value
        return default

    usual = DEFAULTS[model_type]
    whole = vision.get("fullatt_block_indexes", _WHOLE.get(model_type))
    layers = len(whole) if isinstance(whole, list) else number(*((vision, key) for key in ("num_hidden_layers", "depth")), default=0)
    return Images(
        model_type,
        Shape(
            number((vision, "image_size"), (outer, "force_image_size"), default=usual.image),
            number((vision, "patch_size"), (outer, "patch_size"), default=usual.patch),
            number(*((where, key) for where in (vision, outer) for key in MERGES), default=usual.merge),
            number((outer, "mm_tokens_per_image"), (outer, "vision_soft_tokens_per_image"), default=usual.tokens or 1)
            if usual.tokens
            else 0,
        ),
        layers,
        number(*((vision, key) for key in ("hidden_size", "embed_dim")), default=0),
    )


# ---- rules --------------------------------------------------------------------------------------------------------


def _resized(least: int, most: int, frames: int = 1) -> Rule:
    """Sides to the nearest multiple of a merged patch, shrunk or grown until the pixels lie between two limits (Qwen2-VL and after)."""

    def rule(height: int, width: int, shape: Shape) -> Seen:
        unit = shape.patch * shape.merge
        if max(height, width) > 200 * min(height, width):
            raise UsageError(
                "bad-image",
                f"an image of {width} x {height} is more than 200 times as long as wide",
                "give one with other proportions, such as 1024x1024",
            )
        tall, wide = max(unit, round(height / unit) * unit), max(unit, round(width / unit) * unit)
        if frames * tall * wide > most:
            by = math.sqrt(frames * height * width / most)
            tall, wide = (max(unit, math.floor(side / by / unit) * unit) for side in (height, width))
        elif frames * tall * wide < least:
            by = math.sqrt(least / (frames * height * width))
            tall, wide = (math.ceil(side * by / unit) * unit for side in (height, width))
        tokens = (tall // unit) * (wide // unit)
        return Seen(tokens, tokens * shape.merge**2, 1)

    return rule


def _whole(height: int, width: int, shape: Shape) -> Seen:
    """One square, whatever was sent (LLaVA-1.5)."""
    patches = (shape.image // shape.patch) ** 2
    return Seen(patches, patches, 1)


def _fixed(height: int, width: int, shape: Shape) -> Seen:
    """One square, pooled to as many tokens as the config says (Gemma 3)."""
    return Seen(shape.tokens, (shape.image // shape.patch) ** 2, 1)


def _rows(height: int, width: int, shape: Shape) -> Seen:
    """Shrunk to the longest side; a token for each merged patch, and one behind each row (Pixtral, Mistral Small 3.1)."""
    by = max(height / shape.image, width / shape.image)
    if by > 1:
        height, width = int(height // by), int(width // by)
    unit = shape.patch * shape.merge
    tall, wide = (max(0, side - 1) // unit + 1 for side in (height, width))
    return Seen(tall * wide + tall, tall * wide * shape.merge**2, 1)


def _best(height: int, width: int, pinpoints: list[tuple[int, int]]) -> tuple[int, int]:
    """The canvas that keeps most of an image's pixels, then wastes least of its own."""

    def kept(canvas: tuple[int, int]) -> tuple[int, int]:
        by = min(canvas[1] / width, canvas[0] / height)
        pixels = min(int(width * by) * int(height * by), width * height)
        return pixels, pixels - canvas[0] * canvas[1]

    return max(pinpoints, key=kept)


def _unpadded(height: int, width: int, tall: int, wide: int) -> tuple[int, int]:
    """Rows and columns of patches that show the image and not the padding around it."""
    if width / height > wide / tall:
        padding = (tall - int(round(height * (wide / width), 7))) // 2
        return tall - 2 * padding, wide
    padding = (wide - int(round(width * (tall / height), 7))) // 2
    return tall, wide - 2 * padding


def _anyres(pinpoints: Callable[[int], list[tuple[int, int]]], most: int | None) -> Rule:
    """A small view of the whole and tiles of a canvas, whose padding is cut away, with a token behind each row (LLaVA-NeXT, OneVision)."""

    def rule(height: int, width: int, shape: Shape) -> Seen:
        side = shape.image // shape.patch
        canvas = _best(height, width, pinpoints(shape.image))
        tiles = (canvas[0] // shape.image) * (canvas[1] // shape.image)
        tall, wide = _unpadded(height, width, canvas[0] // shape.image * side, canvas[1] // shape.image * side)
        if most and (over := math.sqrt(tall * wide / (most * side**2))) > 1.1:
            tall, wide = int(tall // over), int(wide // over)
        return Seen(tall * wide + tall + side**2, (tiles + 1) * side**2, tiles + 1)

    return rule


def _next(image: int) -> list[tuple[int, int]]:
    return [(image, 2 * image), (2 * image, image), (2 * image, 2 * image), (3 * image, image), (image, 3 * image)]


def _six(image: int) -> list[tuple[int, int]]:
    return [(tall * image, wide * image) for tall in range(1, 7) for wide in range(1, 7)]


def _tiles(most: int) -> Rule:
    """Square tiles in the arrangement nearest to the image's proportions, and a view of the whole beside several (InternVL)."""

    def rule(height: int, width: int, shape: Shape) -> Seen:
        grids = sorted({(x, y) for x in range(1, most + 1) for y in range(1, most // x + 1)}, key=lambda grid: grid[0] * grid[1])
        best, nearest = (1, 1), math.inf
        for x, y in grids:
            off = abs(width / height - x / y)
            if off < nearest or (off == nearest and width * height > 0.5 * shape.image**2 * x * y):
                best, nearest = (x, y), off
        count = best[0] * best[1]
        views = count + (count > 1)
        patches = (shape.image // shape.patch) ** 2
        return Seen(views * patches // shape.merge**2, views * patches, views)

    return rule


def _llama4(height: int, width: int, shape: Shape) -> Seen:
    """Up to 16 tiles on the canvas that enlarges the image least, or else shrinks it least, and a view of the whole beside several."""
    grids = [(tall, wide) for tall in range(1, 17) for wide in range(1, 16 // tall + 1)]
    scale = {grid: min(grid[0] * shape.image / height, grid[1] * shape.image / width) for grid in grids}
    larger = [by for by in scale.values() if by >= 1]
    chosen = min(larger) if larger else max(scale.values())
    tall, wide = min((grid for grid in grids if scale[grid] == chosen), key=lambda grid: grid[0] * grid[1])
    views = tall * wide + (tall * wide > 1)
    patches = (shape.image // shape.patch) ** 2
    return Seen(views * patches // shape.merge**2, views * patches, views)


def _split(height: int, width: int, shape: Shape) -> Seen:
    """The longest side to four tiles, tiles over the whole, and a view of it (Idefics 3, SmolVLM)."""
    longest = 4 * shape.image
    by = longest / max(height, width)
    tall, wide = (max(1, math.ceil(int(side * by) / shape.image)) for side in (height, width))
    views = tall * wide + 1
    patches = (shape.image // shape.patch) ** 2
    return Seen(views * patches // shape.merge**2, views * patches, views)


def _budget(height: int, width: int, shape: Shape) -> Seen:
    """Enlarged or shrunk to as many pooled patches as the model takes, proportions kept (Gemma 4)."""
    unit = shape.patch * shape.merge
    by = math.sqrt(shape.tokens * unit**2 / (height * width))
    tall, wide = (math.floor(side * by / unit) for side in (height, width))
    if not tall or not wide:  # a strip: one row or column of as many as its proportions ask for
        tall, wide = (1, min(width // height, shape.tokens)) if not tall else (min(height // width, shape.tokens), 1)
    return Seen(tall * wide, tall * wide * shape.merge**2, 1)


def _packed(height: int, width: int, shape: Shape) -> Seen:
    """Shrunk to 16,384 patches and 512 a side, padded to merged patches (Kimi K2.5)."""
    across = max(1, height // shape.patch) * max(1, width // shape.patch)
    by = min(1.0, math.sqrt(16_384 / across), 512 * shape.patch / height, 512 * shape.patch / width)
    unit = shape.patch * shape.merge
    tokens = math.prod(math.ceil(max(1, int(side * by)) / unit) for side in (height, width))
    return Seen(tokens, tokens * shape.merge**2, 1)


_QWEN2, _QWEN3 = _resized(3136, 12_845_056), _resized(65_536, 16_777_216)
_GLM = _resized(12_544, 9_633_792, frames=2)
RULES: dict[str, Rule] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker"), _QWEN2),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe", "qwen3_omni_moe_thinker"), _QWEN3),
    **dict.fromkeys(("glm4v", "glm4v_moe"), _GLM),
    **dict.fromkeys(("llava", "vipllava"), _whole),
    "llava_next": _anyres(_next, None),
    "llava_onevision": _anyres(_six, 9),
    **dict.fromkeys(("internvl", "internvl_chat"), _tiles(12)),
    "mistral3": _rows,
    "pixtral": _rows,
    **dict.fromkeys(("gemma3", "gemma3n"), _fixed),
    "gemma4": _budget,
    "kimi_k25": _packed,
    "llama4": _llama4,
    **dict.fromkeys(("idefics3", "smolvlm"), _split),
}
"""The rule of each wrapper's model_type."""
DEFAULTS: dict[str, Shape] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker", "glm4v", "glm4v_moe"), Shape(336, 14, 2, 0)),
    **dict.fromkeys(
        ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe", "qwen3_omni_moe_thinker"), Shape(768, 16, 2, 0)
    ),
    **dict.fromkeys(("llava", "vipllava", "llava_next"), Shape(336, 14, 1, 0)),
    "llava_onevision": Shape(384, 14, 1, 0),
    **dict.fromkeys(("internvl", "internvl_chat"), Shape(448, 14, 2, 0)),
    "mistral3": Shape(1540, 14, 2, 0),
    "pixtral": Shape(1024, 16, 1, 0),
    "gemma3": Shape(896, 14, 1, 256),
    "gemma3n": Shape(768, 16, 1, 256),
    "gemma4": Shape(768, 16, 3, 280),
    "kimi_k25": Shape(896, 14, 2, 0),
    "llama4": Shape(336, 14, 2, 0),
    "idefics3": Shape(364, 14, 2, 0),
    "smolvlm": Shape(512, 16, 4, 0),
}
"""What a file that leaves a size out means: the published processors' defaults, read 2026-11-29."""
