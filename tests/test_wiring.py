"""What parameter counts do not show: windows, reads, native contexts, notes, refusals, and the list of keys that shape."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trees import nodes

import llmcalc
from llmcalc import checkpoint, formats, model, sources
from llmcalc.architecture import CONTEXT_KEYS, KINDS, Entry
from llmcalc.config import METADATA, SHAPING
from llmcalc.errors import ConfigError, SourceError
from llmcalc.estimate import memory
from llmcalc.estimate.weight_files import packed_bits
from llmcalc.sources.repository import ranged

PACKAGE = Path(llmcalc.__file__).parent
ASKING = set("count maybe flag text items counts words number agreed get has block by_layer".split())
NESTED = set("attn ffn attention block part lists types shape known around".split())
"""Variables that hold a block inside of a language model's config (attn_config, block_configs, ...), or no Config."""


def asked(path: Path) -> dict[str, int]:
    """The keys that a reader asks of a language model's Config, by line."""
    found = {}
    for node in nodes(path):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in ASKING:
            continue
        holder = node.func.value
        if isinstance(holder, ast.Name) and holder.id not in NESTED:
            keys = node.args[:1] if node.func.attr == "block" else node.args  # what follows is a model type
            found |= {arg.value: node.lineno for arg in keys if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return found


def test_every_key_that_a_family_asks_for_is_known_to_shape() -> None:
    """Else a config of another family that holds it would be read past it without a word: add it to SHAPING, or to METADATA with a reason."""
    known = SHAPING | METADATA.keys() | set(CONTEXT_KEYS)
    files = [*(PACKAGE / "families").glob("*.py"), *(PACKAGE / "attention").glob("*.py"), PACKAGE / "mlp.py", PACKAGE / "architecture.py"]
    unknown = {f"{path.name}:{line}": key for path in files for key, line in asked(path).items() if key not in known}
    assert not unknown


def test_kinds_that_estimates_ask_for_exist() -> None:
    """mypy holds the builders to the list; a word that an engine or an estimate compares with has to be in it too."""
    compared = set()
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and ast.unparse(node.left) == "mixer.kind":
                for side in node.comparators:
                    compared |= set(ast.literal_eval(side)) if isinstance(side, ast.Tuple) else {ast.literal_eval(side)}
    assert compared and compared <= KINDS


def entries(raw: dict[str, Any]) -> list[tuple[Entry, ...]]:
    """What every layer keeps."""
    return [tuple(entry for mixer in layer.mixers for entry in mixer.entries) for layer in model.read(raw, bare=True).stack.layers]


def test_heads_that_do_not_share_evenly_are_refused() -> None:
    raw = sources.read_bundled("meta-llama/Llama-3.1-8B").config | {"num_key_value_heads": 5}
    with pytest.raises(ConfigError, match="divisor of num_attention_heads"):
        model.read(raw)


def test_mimo_counts_the_token_itself_beside_its_window() -> None:
    """transformers' mask lets a query see sliding_window_size tokens before it: 129 with its own."""
    raw = sources.read_bundled("XiaomiMiMo/MiMo-V2-Flash").config | {"sliding_window_size": 128}
    assert {entry.window for layer in entries(raw) for entry in layer} == {None, 129}


def test_the_last_layer_of_gemma_4_sees_everything() -> None:
    """Its class makes it so whatever the list says (configuration_gemma4.py)."""
    found = entries({"model_type": "gemma4_text", "num_hidden_layers": 8, "layer_types": ["sliding_attention"] * 8})
    assert [layer[0].window is None for layer in found] == [False] * 7 + [True]


def test_ring_linear_attends_in_what_is_left_of_its_groups() -> None:
    """modeling_bailing_moe_linear: the last of each group, and every layer behind the last whole group."""
    raw = {"model_type": "bailing_moe_linear", "num_hidden_layers": 10, "layer_group_size": 4, "hidden_size": 64, "num_attention_heads": 4}
    raw |= {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "moe_intermediate_size": 16, "num_experts": 4}
    raw |= {"num_experts_per_tok": 2, "vocab_size": 100, "max_position_embeddings": 100, "group_norm_size": 1}
    assert [index for index, layer in enumerate(entries(raw)) if layer] == [3, 7, 8, 9]


def test_qwen_4_reads_what_its_indexer_picks() -> None:
    raw = {
        "model_type": "qwen4_exp_text",
        "num_hidden_layers": 4,
        "indexer_n_heads": 4,
        "indexer_head_dim": 64,
        "indexer_compress_ratio": 4,
    }
    found = entries(raw | {"indexer_kv_heads": 1, "indexer_budget": 1536, "hc_count": 4, "hc_lowrank": 4})
    assert {layer[0].reads for layer in found if layer} == {1536}


def test_four_layers_of_deepseek_v4_1_keep_what_all_read() -> None:
    """The card of DeepSeek-V4.1-Flash: 552B beside 196B of n-grams, 16B active; vLLM's recipe: five parts of its files in GiB, 890 B of context per token.

    Those are 2.5 entries of 512 numbers in 4 bits with a byte for 16, and a key of 128 with one for 32.
    """
    found = model.read(sources.read_bundled("deepseek-ai/DeepSeek-V4.1-Flash").config)
    grams = sum(weight.params for _, weight in model.weights(found) if weight.name == "engram.embed")
    assert (round(grams / 1e9), round((memory.language_params(found) - grams) / 1e9)) == (197, 552)
    assert round(memory.active_params(found) / 1e9) == 16
    stored = checkpoint.read(found, formats.FORMATS["bf16"])
    assert stored is not None
    ours = model.weights(found), *([(1, weight) for weight in beside] for beside in (found.towers or (), found.stack.mtp))
    theirs = stored.language, stored.towers, stored.mtp
    held = sum(checkpoint.size(w, kept) for one, two in zip(ours, theirs, strict=True) for (_, w), kept in zip(one, two, strict=True))
    assert held / 2**30 == pytest.approx(259.5 + 183.1 + 6.9 + 3.9 + 21.9, abs=0.25)
    kept = [entry for layer in found.stack.layers for entry in layer.mixers[0].entries if entry.stored and entry.window is None]
    packed = {"head_dim": 512 / 2 + 512 / 16, "index_head_dim": 128 / 2 + 128 / 32}
    assert sum(packed[entry.args[0][0]] / entry.ratio for entry in kept) == 890
    assert sum(len(layer.mixers[0].entries) == 1 for layer in found.stack.layers) == 2


@pytest.mark.parametrize("change", [{"kv_source_layer_ids": [8, 14, 20]}, {"index_source_layer_ids": [8]}, {"compress_ratios": [2] * 40}])
def test_a_layer_of_deepseek_v4_1_finds_the_entries_that_it_reads(change: dict[str, Any]) -> None:
    raw = sources.read_bundled("deepseek-ai/DeepSeek-V4.1-Flash").config
    with pytest.raises(ConfigError, match=r"(kv_source_layer_ids|compress_ratios) is .* must be"):
        model.read(raw | {"text_config": raw["text_config"] | change})


def test_motif_keeps_latents_on_every_fourth_layer_alone() -> None:
    """A public plan for revision ccceb1a: 14 layers of 576 numbers per token, 39 of 129 tokens with 16 heads of 192 + 128."""
    found = model.read(sources.read_bundled("Motif-Technologies/Motif-3").config)
    assert memory.sequence_bytes(found, 262_144, formats.FORMATS["bf16"]).value == 14 * 262_144 * 576 * 2 + 39 * 129 * 16 * 320 * 2
    assert [index for index, layer in enumerate(found.stack.layers) if layer.mixers[0].kind == "mla"] == list(range(0, 53, 4))


def test_products_of_the_indexer_count_its_heads() -> None:
    """DeepSeek-V3.2: 64 heads of 128, two operations each."""
    assert entries(sources.read_bundled("deepseek-ai/DeepSeek-V3.2").config)[0][1].flops == 2 * 64 * 128


def test_a_shape_beside_the_language_model_is_not_passed_over() -> None:
    raw = sources.read_bundled("OpenGVLab/InternVL2-2B").config | {"sliding_window": 512}
    with pytest.raises(ConfigError, match="sliding_window = 512"):
        model.read(raw)


def test_the_context_before_it_was_stretched() -> None:
    """Phi-3 says it at the top, Llama 3.1 inside of rope_scaling."""
    assert model.read(sources.read_bundled("microsoft/Phi-3-mini-128k-instruct").config).native_context == 4096
    assert model.read(sources.read_bundled("meta-llama/Llama-3.1-8B").config).native_context == 8192


def test_the_cache_of_a_source_text_is_said() -> None:
    assert any("encoder" in note or "source" in note for note in model.read(sources.read_bundled("google-t5/t5-base").config).notes)


def test_awq_without_a_word_has_zero_points() -> None:
    """AutoAWQ's default; the size is the checkpoint's own index: 19,325,298,688 bytes."""
    raw = sources.read_bundled("Qwen/Qwen3-32B-AWQ").config
    raw = raw | {"quantization_config": {key: value for key, value in raw["quantization_config"].items() if key != "zero_point"}}
    found = model.read(raw)
    stored = checkpoint.read(found, formats.FORMATS["bf16"])
    assert stored is not None
    assert (
        sum(checkpoint.size(weight, kept) for (_, weight), kept in zip(model.weights(found), stored.language, strict=True))
        == 19_325_298_688
    )


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 8])
def test_words_of_every_width_are_unpacked(bits: int) -> None:
    assert packed_bits({"quantization": {"bits": bits}}) == bits


@pytest.mark.parametrize(("status", "offset", "content"), [(206, 64, b"middle"), (200, 0, b"middle"), (200, 64, None)])
def test_the_middle_of_a_file_needs_a_server_with_ranges(status: int, offset: int, content: bytes | None) -> None:
    """Its beginning may be cut off a whole answer; a later part may not be taken from there."""

    class Answer:
        status_code = status

        def iter_bytes(self, _: int) -> list[bytes]:
            return [b"middle and more"]

    session = SimpleNamespace(stream=lambda *_, **__: nullcontext(Answer()))
    utils = SimpleNamespace(build_hf_headers=dict, get_session=lambda: session, hf_raise_for_status=lambda _: None)
    hub = SimpleNamespace(utils=utils, constants=SimpleNamespace(ENDPOINT="https://example.org"))
    if content is None:
        with pytest.raises(SourceError, match=r"example\.org does not serve parts"):
            ranged(hub, "", offset, 6, 1.0)  # type: ignore[arg-type]
    else:
        assert ranged(hub, "", offset, 6, 1.0) == content  # type: ignore[arg-type]
