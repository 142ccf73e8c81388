"""Tokens of an image, held against what the families' own processors make of it."""

from __future__ import annotations

import pytest

from llmcalc import api, images
from llmcalc.errors import UsageError

SIZES = ((336, 336), (512, 512), (768, 768), (1024, 1024), (1920, 1080), (2048, 2048))


# Run with the Hugging Face processors, 2026-11; the last Qwen row also as llama-server counts (nibor1896/Crow#142, less 2).
@pytest.mark.parametrize(
    ("family", "tokens"),
    [
        ("qwen2_5_vl", (144, 324, 729, 1369, 2691, 5329)),
        ("qwen3_vl", (100, 256, 576, 1024, 2040, 4096)),
        ("llava", (576,) * 6),
        ("llava_next", (1176, 2928, 2928, 2928, 1948, 2928)),
        ("llava_onevision", (1485, 3699, 3699, 7371, 7269, 7371)),
        ("internvl", (256, 256, 1280, 2560, 2304, 2560)),
        ("pixtral", (462, 1056, 2352, 4160, 2340, 4160)),
        ("mistral3", (156, 380, 812, 1406, 1736, 3080)),
        ("gemma3", (256,) * 6),
    ],
)
def test_an_image_is_as_many_tokens_as_the_processor_makes_of_it(family: str, tokens: tuple[int, ...]) -> None:
    how = images.Images(family, images.DEFAULTS[family])
    assert tuple(how.seen(*size).tokens for size in SIZES) == tokens


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        ("Qwen/Qwen3.8-27B", (1366, 980), 1333),
        ("Qwen/Qwen3.8-27B", (2560, 1361), 3440),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", (1024, 1024), 2448),  # 17 views of 144
        ("google/gemma-4-31B-it", (1024, 1024), 256),  # 16 x 16 of 48 pixels: the most of 280 that keep the proportions
        ("mistralai/Mistral-Small-3.1-24B-Instruct-2503", (2048, 2048), 3080),
        ("google/gemma-3-27b-it", (640, 480), 256),
    ],
)
def test_bundled_models_see_with_their_own_sizes(model: str, size: tuple[int, int], tokens: int) -> None:
    how = api.load_model(model).images
    assert how is not None
    assert how.seen(*size).tokens == tokens


def test_a_model_without_eyes_has_no_rule() -> None:
    assert api.load_model("Qwen/Qwen3-8B").images is None


@pytest.mark.parametrize("size", [(0, 10), (10, -1), (10**6, 10), (5000, 4)])
def test_no_image_of_nothing_and_no_line(size: tuple[int, int]) -> None:
    with pytest.raises(UsageError) as caught:
        images.Images("qwen3_vl", images.DEFAULTS["qwen3_vl"]).seen(*size)
    assert caught.value.code == "bad-image"
