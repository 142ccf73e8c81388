"""Tokens of an image, held against what the families' own processors make of it."""

from __future__ import annotations

import json

import pytest

from llmcalc import api, images
from llmcalc.cli import main
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


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_images_are_part_of_the_prompt_and_cost_a_pass_of_the_encoder(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("prefill", "-m", "Qwen/Qwen2.5-VL-7B-Instruct", "-d", "h100-sxm", "--prompt", "631")
    _, bare = answered(capsys, *asked)
    _, with_two = answered(capsys, *asked, "--image", "1024x1024,2")
    _, as_text = answered(capsys, "prefill", "-m", "Qwen/Qwen2.5-VL-7B-Instruct", "-d", "h100-sxm", "--prompt", str(631 + 2 * 1369))
    assert with_two["results"]["image_tokens"] == 2738
    assert with_two["inputs"]["prompt_tokens"] == 631 + 2738
    # 2 x 5,476 patches through 669 M parameters at 989.4 TFLOP/s: 14.8 ms of matrices, and attention in the four whole layers
    assert 14.0e-3 < with_two["results"]["encoder_s"] < 17e-3
    assert with_two["results"]["ttft_s"] == pytest.approx(as_text["results"]["ttft_s"] + with_two["results"]["encoder_s"])
    assert "encoder_s" not in bare["results"]


@pytest.mark.parametrize("command", ["decode", "fit", "kv"])
def test_a_sequence_holds_the_tokens_of_its_images(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = () if command == "kv" else ("-d", "h100-sxm")
    _, seen = answered(capsys, command, "-m", "Qwen/Qwen3-VL-8B-Instruct", *place, "-c", "4096", "--image", "1024x1024,3")
    assert (seen["inputs"]["ctx_tokens"], seen["inputs"]["image_tokens"]) == (4096 + 3 * 1024, 3 * 1024)


@pytest.mark.parametrize(
    ("model", "image", "code"),
    [
        ("Qwen/Qwen3-8B", "1024x1024", "no-image"),
        ("Qwen/Qwen3-VL-8B-Instruct", "1024", "bad-image"),
        ("Qwen/Qwen3-VL-8B-Instruct", "0x5", "bad-image"),
        ("Qwen/Qwen3-VL-8B-Instruct", "99999x99999", "bad-image"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "512x512", "no-image"),
    ],
)
def test_what_cannot_be_seen_is_refused(model: str, image: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = answered(capsys, "prefill", "-m", model, "-d", "h100-sxm", "--image", image)
    assert (status, said["error"]["code"]) == (2, code)
    assert said["error"]["hint"]


def test_an_image_is_within_a_maximum_that_was_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """gemma-3-4b-it ends at 131,072 tokens: its config's max_position_embeddings."""
    assert main(["kv", "-m", "google/gemma-3-4b-it", "--image", "500x900", "--json", "--offline"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"]["ctx_tokens"] == 131_072
    assert [text for text in found["warnings"] if "131,072" in text] == [
        "image: its 256 tokens are counted within the 131,072 that the model has at most"
    ]


def test_an_idle_replica_waits_for_the_encoder_as_prefill_says(capsys: pytest.CaptureFixture[str]) -> None:
    """676 M parameters see four pictures of 5,476 patches before the first token, in the simulation, too."""
    on = ("-m", "Qwen/Qwen2.5-VL-7B-Instruct", "-d", "h100-sxm", "--prompt", "100", "--image", "1024x1024,4")
    times = {}
    for name, line in (
        ("prefill", ["prefill", *on]),
        ("simulate", ["simulate", *on, "--rate", "0.05", "--output-tokens", "9", "-n", "20"]),
    ):
        method = () if name == "prefill" else ("--method", "napkin", "--mfu", "1", "--mbu", "1")
        assert main([*line, *method, "--json"]) == 0
        times[name] = json.loads(capsys.readouterr().out)["results"]
    assert times["simulate"]["ttft_p50_s"] == pytest.approx(times["prefill"]["napkin_ttft_s"], rel=0.01)
    assert times["prefill"]["encoder_s"] > 0.25 * times["prefill"]["napkin_ttft_s"]
