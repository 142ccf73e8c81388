"""The corpus of real configs: every number of the shared oracle, and what happens to a config that is damaged.

The corpus lies beside the checkout (../shared/data) or where LLMCALC_CORPUS says; without it these tests are skipped.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from llmcalc import model as reader
from llmcalc.architecture import CONTEXT_KEYS, Model
from llmcalc.config import METADATA, SHAPING, Config, class_defaults
from llmcalc.errors import ConfigError
from llmcalc.estimate import memory

CORPUS = Path(os.environ.get("LLMCALC_CORPUS") or Path(__file__).resolve().parents[2] / "shared" / "data")
PRESENT = (CORPUS / "oracle.json").is_file()

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not PRESENT, reason=f"no corpus of configs at {CORPUS} (LLMCALC_CORPUS says where it is)"),
]


@cache
def oracle() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((CORPUS / "oracle.json").read_text("utf-8"))["configs"]
    return found


@cache
def config(stem: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CORPUS / "configs" / f"{stem}.json").read_text("utf-8"))
    return found


@cache
def small(stem: str) -> dict[str, Any]:
    """The config without its list of quantised layers, which can be 22,000 long and does not matter for what is damaged here."""
    return {key: value for key, value in config(stem).items() if key != "quantization_config"}


@cache
def ours(stem: str) -> Model:
    return reader.read(copy.deepcopy(config(stem)), id=stem)


STEMS = sorted(oracle()) if PRESENT else ["absent"]

REFUSED = {
    "fixie-ai--ultravox-v0_6-llama-3_1-8b": ("missing-field", "the config has no language model of its own, only another repository's id"),
    "transformers-defaults--pixtral": ("no-kv-cache", "a vision encoder: test_oracle proves that it takes pixels and keeps no cache"),
}

WRONG: dict[tuple[str, str], str] = {
    (
        "transformers-defaults--jetmoe",
        "active",
    ): "the attention is a mixture too, and its unused experts are counted there: test_oracle proves it",
    ("openbmb--MiniCPM-2B-sft-fp32", "params"): "counted there as tied, but the file says tie_word_embeddings: false",
    (
        "openbmb--MiniCPM-V-2",
        "params",
    ): "counted there as tied, but the file says false, and so does the checkpoint: see test_minicpm_v_is_not_tied",
    ("openbmb--MiniCPM-V-2-EmotioLocal", "params"): "as MiniCPM-V-2, of which it is a copy",
    ("transformers-defaults--gemma3n", "towers"): "built there as its text model alone; test_readers has the published total",
    ("moonshotai--Kimi-K3", "params"): "its total has the vision tower in it, without saying how much that is",
}


def expect(stem: str, what: str, right: bool, shown: str) -> None:
    """Agreement, except where the oracle is known to be wrong; such an exception must still be one."""
    if (stem, what) in WRONG:
        assert not right, f"no exception any more: {what} of {stem}"
    else:
        assert right, f"{what}: {shown}"


@pytest.mark.parametrize("stem", STEMS)
def test_oracle(stem: str) -> None:
    truth = oracle()[stem]
    if stem in REFUSED:
        with pytest.raises(ConfigError) as refused:
            ours(stem)
        assert refused.value.code == REFUSED[stem][0]
        return
    model = ours(stem)
    for ctx, wanted in (truth.get("kv_bytes") or {}).items():
        found = memory.kv(model, int(ctx), 1, "bf16").results
        assert found["kv_bytes_per_sequence"] == wanted, f"cache at {ctx}"
        full = (truth.get("kv_bytes_full") or {}).get(ctx)
        if full is not None:
            assert found["kv_bytes_per_sequence_full_attention"] == full, f"cache without windows at {ctx}"
    total = truth.get("total_params")
    if total:
        counted, wanted = memory.language_params(model), total - (truth.get("non_text_params") or 0)
        expect(stem, "params", counted == wanted, f"{counted:,}, the oracle has {wanted:,}")
        active = truth.get("active_params_excl_input_table_only")
        if active is not None:
            counted = memory.active_params(model)
            expect(stem, "active", counted == active, f"{counted:,}, the oracle has {active:,}")
        towers = truth.get("non_text_params")
        if towers is not None and model.towers is not None:
            counted = sum(weight.params for weight in model.towers)
            expect(stem, "towers", counted == towers, f"{counted:,}, the oracle has {towers:,}")


def test_nothing_is_refused_but_what_is_named() -> None:
    refused = []
    for stem in STEMS:
        try:
            ours(stem)
        except ConfigError:
            refused.append(stem)
    assert refused == sorted(REFUSED)


def test_minicpm_v_is_not_tied() -> None:
    """The published size, to the element, needs a head of its own.

    Tower: SigLIP-SO400M/14 at 384 pixels less its last block and its pooling; resampler: 64 queries of 2,304.
    Source: model.safetensors.index.json of HwwwwwwwH/MiniCPM-V-2, total_size 6,869,931,584 B in bf16.
    """
    h, inner, out = 1152, 4304, 2304
    block = 4 * h * h + 4 * h + 2 * 2 * h + 2 * h * inner + inner + h
    tower = 26 * block + (3 * 14 * 14 * h + h) + 27 * 27 * h + 2 * h
    attention = 4 * out * out + 4 * out
    resampler = 2 * 64 * out + h * out + attention + 3 * 2 * out + out * out
    language = memory.language_params(ours("openbmb--MiniCPM-V-2"))
    assert (language + tower + resampler) * 2 == 6_869_931_584


# ---- the list of keys that matter


class Reading:
    """What the reader of a language model asked of its config."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.inside = False
        self.language: Config | None = None


def is_language(config: Config) -> bool:
    return all(part in reader.TEXTS for part in config.path.split(".") if part)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    """Watches a Config being read."""
    record = Reading()
    given, has, stack_of = Config._given, Config.has, reader.reader

    def watched_given(self: Config, names: Any) -> Any:
        if record.inside and is_language(self):
            record.asked.update(names)
        return given(self, names)

    def watched_has(self: Config, *names: str) -> bool:
        if record.inside and is_language(self):
            record.asked.update(names)
        return has(self, *names)

    def watched_reader(model_type: str) -> Any:
        read_stack = stack_of(model_type)

        def read(c: Config) -> Any:
            assert read_stack is not None
            record.language, record.inside = c, True
            try:
                return read_stack(c)
            finally:
                record.inside = False

        return read if read_stack else None

    monkeypatch.setattr(Config, "_given", watched_given)
    monkeypatch.setattr(Config, "has", watched_has)
    monkeypatch.setattr(reader, "reader", watched_reader)
    yield record


def test_every_key_that_a_reader_asks_for_is_known_to_matter(reading: Reading) -> None:
    """A key that only some family reads must be an error in the others, so it has to stand in SHAPING."""
    missing: dict[str, str] = {}
    for stem in STEMS:
        reading.asked.clear()
        try:
            reader.read(copy.deepcopy(config(stem)))
        except ConfigError:
            continue
        for key in reading.asked - SHAPING - METADATA.keys() - set(CONTEXT_KEYS):
            missing.setdefault(key, stem)
    assert not missing


# ---- damaged configs


def block_of(raw: dict[str, Any], path: str) -> dict[str, Any]:
    for part in path.split("."):
        raw = raw[part] if part else raw
    return raw


def distinct() -> list[str]:
    """One config for each type of language model: the first that can be read."""
    found: dict[str, str] = {}
    for stem in STEMS:
        raw = config(stem) if PRESENT else {}
        inner: Any = raw
        while True:
            deeper = next((inner[name] for name in reader.TEXTS if isinstance(inner.get(name), dict)), None)
            if deeper is None:
                break
            inner = deeper
        if stem not in REFUSED:
            found.setdefault(f"{raw.get('model_type')}/{inner.get('model_type')}", stem)
    return sorted(found.values())


DISTINCT = distinct()
STRUCTURE = {*reader.TEXTS, "vision_config", "audio_config", "decoder", "encoder"}
# Where the file switches windows off, how they would lie says nothing.
WINDOWS = {"max_window_layers", "sliding_window_pattern", "sliding_window_layers", "use_sliding_window"}
EACH = 4


@pytest.mark.parametrize("stem", STEMS)
def test_a_key_that_nobody_reads_is_an_error(stem: str, reading: Reading) -> None:
    """Some keys known to change a model, of those that this reader did not ask for: each is refused by name."""
    if stem in REFUSED:
        return
    reader.read(copy.deepcopy(small(stem)))
    language = reading.language
    assert language is not None
    old = {new for new, name in language._old.items()} | set(language._old.values())
    candidates = sorted(SHAPING - language.used - reading.asked - set(language.raw) - set(config(stem)) - old - STRUCTURE - WINDOWS)
    start = STEMS.index(stem) * EACH
    for offset in range(EACH):
        key = candidates[(start + offset) % len(candidates)]
        damaged = copy.deepcopy(small(stem))
        block_of(damaged, language.path)[key] = 7
        with pytest.raises(ConfigError) as refused:
            reader.read(damaged)
        assert refused.value.code == "unread-key", (key, refused.value.message)
        assert key in refused.value.message and language.model_type in refused.value.message


def outcome(raw: dict[str, Any]) -> Model | ConfigError:
    """The model, or the error; anything else is a failure of the test."""
    try:
        return reader.read(raw)
    except ConfigError as problem:
        return problem


def numbers_of(model: Model) -> Any:
    """What an estimate can see of a model."""
    stack = model.stack
    return (model.groups, stack.embedding, stack.head, stack.outside, stack.shared, stack.mtp, stack.vocab, stack.tied, stack.max_context)


NEVER_ZERO = frozenset(
    """hidden_size num_hidden_layers num_attention_heads vocab_size intermediate_size moe_intermediate_size kv_lora_rank
    n_embd n_layer n_head d_model n_heads n_layers""".split()
)
NEGATIVE_MEANS_SOMETHING = frozenset({"moe_layer_end_index"})
RATIOS = frozenset({"expansion_ratio", "mamba_expand", "expand"})  # may be fractions: only their product with a width is whole
NULL_IS_NONE = frozenset({"num_nextn_predict_layers", "num_mtp_layers"})  # no modules, as in files that say null for what is not there


def damages(value: int) -> dict[str, Any]:
    return {
        "a negative number": -value or -1,
        "zero": 0,
        "a text": "many",
        "null": None,
        "a fraction": value + 0.5,
        "a list in a list": [[value]],
        "an object": {"value": value},
        "too many": 10**13,
        "not a number": float("nan"),
    }


@pytest.mark.parametrize("stem", DISTINCT)
def test_a_damaged_dimension_is_named(stem: str, reading: Reading) -> None:
    """Every whole number that the reader uses, made impossible: an error that names it, or, where it decides nothing, no change."""
    whole = numbers_of(reader.read(copy.deepcopy(small(stem))))
    language = reading.language
    assert language is not None
    path = language.path
    facts = class_defaults().get(language.model_type, {})
    defaults, never_null = facts.get("keys", {}), set(facts.get("never_null", []))
    used = sorted(k for k, v in language.raw.items() if k in language.used and isinstance(v, int) and not isinstance(v, bool))
    for key in used:
        if key not in block_of(config(stem), path):
            continue
        for what, value in damages(language.raw[key]).items():
            damaged = copy.deepcopy(small(stem))
            block_of(damaged, path)[key] = value
            found = outcome(damaged)
            if isinstance(found, ConfigError):
                assert key in found.message or what in ("zero", "null") or key in RATIOS, f"{key} as {what}: {found.message}"
                continue
            same = numbers_of(found) == whole
            if what == "zero":
                assert same or key not in NEVER_ZERO, f"{key} as zero changes the numbers"
            elif what == "null":
                assert same or key not in (NEVER_ZERO | never_null) - NULL_IS_NONE, f"{key} as null changes the numbers"
            elif not ((what == "a negative number" and key in NEGATIVE_MEANS_SOMETHING) or (what == "a fraction" and key in RATIOS)):
                assert same, f"{key} as {what} changes the numbers"
        damaged = copy.deepcopy(small(stem))
        del block_of(damaged, path)[key]
        found = outcome(damaged)
        others = {language._old.get(key)} | {name for name, old in language._old.items() if old == key}
        if isinstance(found, ConfigError) or key in NULL_IS_NONE or key in CONTEXT_KEYS or others & set(language.raw):
            continue  # another key says it too
        default = defaults.get(language._old.get(key, key), defaults.get(key))
        block_of(damaged, path)[key] = default
        stated = outcome(damaged)
        if default is not None:
            assert isinstance(stated, Model) and numbers_of(stated) == numbers_of(found), f"without {key}: not the class default"
        elif isinstance(stated, Model):
            assert numbers_of(stated) == numbers_of(found), f"without {key}: not as with null"


@pytest.mark.parametrize("stem", DISTINCT)
def test_a_million_layers_are_refused_and_not_built(stem: str, reading: Reading) -> None:
    reader.read(copy.deepcopy(small(stem)))
    language = reading.language
    assert language is not None
    for key, value in language.raw.items():
        if (
            key in language.used
            and isinstance(value, int)
            and key.endswith(("layers", "n_layer"))
            and key in block_of(config(stem), language.path)
        ):
            damaged = copy.deepcopy(small(stem))
            block_of(damaged, language.path)[key] = 10**6
            found = outcome(damaged)
            refused = isinstance(found, ConfigError) or len(found.stack.mtp) + len(found.stack.layers) < 10**5
            assert refused, f"{key} = a million"  # the models are large: compare nothing that pytest would print
