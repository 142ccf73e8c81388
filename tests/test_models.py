"""Every bundled model: readable, sourced, and in agreement with what was published about it."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from llmcalc import data, model, sources
from llmcalc.architecture import Model
from llmcalc.estimate import summaries

ROOT = Path(__file__).parent.parent
FOLDER = data.bundled("models")
IDS = sources.bundled_ids()
# What a reader may say about a model that is not a fault of its file.
NOTES = (
    "not counted: ",
    "the name says ",
    "Qwen3Model: no head",
    "not in the file, but ",
    "cross-attention",
    "no image counted: ",
    "a prompt is counted through ",
    "DeepSeek's code keeps ",
)


def read(id: str) -> Model:
    found = sources.read_bundled(id)
    return model.read(found.config, id=found.id, source=found.kind, revision=found.revision, facts=found.facts)


def totals(found: Model) -> dict[str, int]:
    language = sum(layers * weight.params for layers, weight in model.weights(found))
    towers = sum(weight.params for weight in found.towers or ())
    mtp = sum(weight.params for weight in found.stack.mtp)
    return {
        "language": language,
        "with towers": language + towers,
        "with prediction modules": language + mtp,
        "with everything": language + towers + mtp,
    }


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("bundle_models", ROOT / "scripts" / "bundle_models.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("id", IDS)
def test_file(id: str) -> None:
    path = FOLDER / (id.replace("/", "--") + ".json")
    facts = json.loads(path.read_text(encoding="utf-8"))["_llmcalc"]
    assert facts["id"] == id
    assert len(facts["source"]) > 10
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", facts["date"])
    assert facts["revision"] is None or re.fullmatch(r"[0-9a-f]{40}", facts["revision"])
    assert (facts["published_params"] is None) == (facts["published_source"] is None)
    assert "/work/" not in path.read_text(encoding="utf-8")
    found = read(id)
    assert found.stack.layers
    assert found.facts == facts
    for note in found.notes:
        assert note.startswith(NOTES), note


@pytest.mark.parametrize("id", [id for id in IDS if sources.read_bundled(id).facts["published_params"]])
def test_parameters_equal_the_published_count(id: str) -> None:
    found = read(id)
    assert found.facts["published_params"] in totals(found).values(), totals(found)


@pytest.mark.parametrize("id", [id for id in IDS if sources.read_bundled(id).facts.get("published_size")])
def test_parameters_round_to_the_model_card(id: str) -> None:
    found = read(id)
    digits, suffix = re.fullmatch(r"([\d.]+)([MBT])", found.facts["published_size"]).groups()  # type: ignore[union-attr]
    scale = {"M": 10**6, "B": 10**9, "T": 10**12}[suffix]
    step = scale / 10 ** len(digits.partition(".")[2])
    assert any(abs(count - float(digits) * scale) < step for count in totals(found).values()), totals(found)


def test_the_collection() -> None:
    assert len(IDS) >= 400
    assert len({read(id).model_type for id in IDS}) >= 90
    exact = [id for id in IDS if sources.read_bundled(id).facts["published_params"]]
    assert len(exact) >= 300
    sizes = [path.stat().st_size for path in FOLDER.glob("*.json")]
    assert sum(sizes) < 2 * 2**20
    assert max(sizes) < 64 * 2**10


def test_files_are_trimmed(script: Any) -> None:
    for id in IDS:
        config = sources.read_bundled(id).config
        assert script.trim(config) == config, id


def test_figures_that_are_easy_to_get_wrong() -> None:
    """Keys whose absence, null or switch means something; and one public count that includes the router's buffers."""
    qwen = read("Qwen/Qwen3-8B")
    (mixer,) = {m for group in qwen.groups for m in group.layer.mixers}
    assert (mixer.query_heads, mixer.kv_heads) == (32, 8)
    biases = 58 * 256  # router score-correction values, buffers in transformers; the public figure counts them
    assert totals(read("deepseek-ai/DeepSeek-V3"))["language"] + biases == 671_026_419_200
    assert read("mistralai/Mistral-7B-Instruct-v0.3").groups[0].layer.mixers[0].entries[0].window is None
    assert read("mistralai/Mistral-7B-v0.1").groups[0].layer.mixers[0].entries[0].window == 4096
    assert read("Qwen/QwQ-32B").groups[0].layer.mixers[0].entries[0].window is None
    assert read("meta-llama/Llama-3.1-8B").native_context == 8192
    assert read("meta-llama/Llama-3.1-8B").max_context == 131_072


def test_bundling_checks_the_published_count(script: Any, tmp_path: Path) -> None:
    config = sources.read_bundled("gpt2").config
    given = {"id": "some/model", "source": "a test of the script", "date": "2026-11-29", "folder": tmp_path}
    path = script.bundle(config | {"initializer_range": 0.02}, published_params=124_439_808, **given)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert "initializer_range" not in written
    assert written["n_embd"] == 768
    with pytest.raises(ValueError, match="124,439,807"):
        script.bundle(config, published_params=124_439_807, **given)
    with pytest.raises(ValueError, match="130M"):
        script.bundle(config, published_size="130M", **given)


def test_bundling_keeps_what_byte_counting_needs(script: Any) -> None:
    config = sources.read_bundled("Qwen/Qwen3-8B").config
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.norm"]}}
    assert script._beside(beside) == {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}
    rope = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "original_max_position_embeddings": 8192}
    assert script.trim(config | {"rope_scaling": rope})["rope_scaling"] == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    assert "rope_scaling" not in script.trim(config | {"rope_scaling": {"rope_type": "default"}})


def test_the_index_says_what_the_configs_do() -> None:
    """Else: python scripts/models_index.py."""
    assert list(summaries.bundled()) == sources.bundled_ids()
    for name in sources.bundled_ids()[::20]:
        assert summaries.of(name) == summaries.counted(name), name
