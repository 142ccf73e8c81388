"""Formats as people name them, with bits from the files' own block sizes and published sizes."""

from __future__ import annotations

import pytest

from llmcalc import api, engines, formats
from llmcalc.errors import UsageError
from llmcalc.estimate import memory


@pytest.mark.parametrize(
    ("word", "bits"),
    [
        ("mlx-4bit", 4.5),  # groups of 64 with a 16-bit scale and bias
        ("MLX_8bit", 8.5),
        ("mlx-4bit-g32", 5.0),
        ("4bit", 4.5),
        ("exl3_4.0bpw", 4.0),
        ("4.25bpw", 4.25),
        ("hqq_4bit_g64", 4.5),
        ("autoround", 4.125),
        ("autoround-4bit-g128", 4.125),
        ("iq4_k", 4.5),
        ("iq2_k_r4", 2.375),
    ],
)
def test_names_hold_their_bits(word: str, bits: float) -> None:
    assert formats.find(word).bits == bits


@pytest.mark.parametrize(
    ("model", "word", "gigabytes"),
    [
        ("Qwen/Qwen3.5-27B", "UD-Q4_K_XL", 17.6),  # lmstudio-ai/lmstudio-bug-tracker#1594
        ("Qwen/Qwen3.5-27B", "q8_k_xl", 35.5),
        ("Qwen/Qwen3.6-35B-A3B", "UD-Q4_K_XL", 22.85),  # 21.28 GiB, joryirving/home-ops#9398
    ],
)
def test_recipes_come_near_published_files(model: str, word: str, gigabytes: float) -> None:
    loaded = api.load_model(model)
    found = formats.find(word).bits * memory.language_params(loaded) / 8e9
    assert found == pytest.approx(gigabytes, rel=0.05)


@pytest.mark.parametrize("engine", ["napkin", "exllamav3"])
def test_exllama_keeps_tables_wider(engine: str) -> None:
    """The embedding in 16 bits, the head in 6 or as the name says: "~300 MB" between 6 and 8 bits of Gemma-2-27B's (mo137's exl2 files)."""

    def held(model: str, word: str) -> float:
        loaded = api.load_model(model)
        found = memory.weight_format(loaded, word, engines.find(engine))[0]
        return memory.weight_bytes(loaded, found, "weight_bytes", lambda _: True).value

    assert held("google/gemma-2-27b", "exl2_5.8bpw_h8") - held("google/gemma-2-27b", "exl2_5.8bpw") == pytest.approx(0.3e9, rel=0.05)
    table, matrices = 128256 * 4096, 32 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336)  # Llama-3.1-8B
    assert held("meta-llama/Llama-3.1-8B", "exl3_4.0bpw") == pytest.approx(2 * table + table * 6 / 8 + matrices / 2, rel=0.001)


def test_four_bits_of_mlx_have_its_scales() -> None:
    """DeepSeek-V3 in 4 bits: 383.2 GB at their peak with 4,096 tokens; ml-explore/mlx-lm pull 839. Groups of 64 with scale and bias."""
    loaded = api.load_model("deepseek-ai/DeepSeek-V3", offline=True)
    found = memory.weight_format(loaded, "int4", engines.find("mlx"))[0]
    assert found.name == "mlx_4bit" and memory.weight_format(loaded, "int4")[0].bits == 4.125
    assert memory.weight_bytes(loaded, found, "weight_bytes", lambda _: True).value / 1e9 == pytest.approx(383.2, rel=0.03)


@pytest.mark.parametrize("word", ["mlx-9bit", "mlx-4bit-g7", "9bpw", "0.1bpw", "q4_k_xxl", "bpw"])
def test_other_names_get_the_nearest(word: str) -> None:
    with pytest.raises(UsageError) as caught:
        formats.find(word)
    assert caught.value.code == "unknown-format"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("model", "word", "gigabytes"),
    [  # bartowski/Meta-Llama-3.1-70B-Instruct-GGUF and his and unsloth's files of the others; Llama-3.1-8B's averages were up to 6% and 24% off
        ("meta-llama/Llama-3.1-70B-Instruct", "q8_0", 74.98),
        ("meta-llama/Llama-3.1-70B-Instruct", "q6_k", 57.89),
        ("meta-llama/Llama-3.1-70B-Instruct", "q5_k_m", 49.95),
        ("meta-llama/Llama-3.1-70B-Instruct", "q5_k_s", 48.66),
        ("meta-llama/Llama-3.1-70B-Instruct", "q4_k_m", 42.52),
        ("meta-llama/Llama-3.1-70B-Instruct", "q4_k_s", 40.35),
        ("meta-llama/Llama-3.1-70B-Instruct", "q4_0", 40.12),
        ("meta-llama/Llama-3.1-70B-Instruct", "iq4_xs", 37.90),
        ("meta-llama/Llama-3.1-70B-Instruct", "q3_k_l", 37.14),
        ("meta-llama/Llama-3.1-70B-Instruct", "q3_k_m", 34.27),
        ("meta-llama/Llama-3.1-70B-Instruct", "iq3_m", 31.94),
        ("meta-llama/Llama-3.1-70B-Instruct", "q3_k_s", 30.91),
        ("Qwen/Qwen3-0.6B", "q4_k_m", 0.397),
        ("google/gemma-3-1b-it", "q4_k_m", 0.806),  # rows of 1,152, which k-quants cannot fill
    ],
)
def test_gguf_files_by_their_tables(model: str, word: str, gigabytes: float) -> None:
    loaded = api.load_model(model, offline=True)
    for engine in ("llama.cpp", "napkin"):
        found = memory.weight_format(loaded, word, engines.find(engine))[0]
        assert memory.weight_bytes(loaded, found, "weight_bytes", lambda _: True).value / 1e9 == pytest.approx(gigabytes, rel=0.035)
