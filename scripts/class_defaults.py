"""Write llmcalc/families/defaults.json: what an absent key means, per model type.

Needs transformers (the `oracle` extra). For every model type that a family reads: the class defaults of the keys that shape
the cache or the parameters, the old names of keys, and the model types of nested configs, with
what a wrapper sets in a nested config that the file lacks.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from transformers import CONFIG_MAPPING, __version__  # noqa: E402

from llmcalc.config import SHAPING  # noqa: E402
from llmcalc.families import MODULES  # noqa: E402
from llmcalc.towers import TOWER_KEYS, WRAPPERS  # noqa: E402

TOWERS = ("vision_config", "audio_config", "encoder", "decoder", "text_config", "perceiver_config", "projector_config")


# Rows of learned position tables in the older families; elsewhere the longest context.
POSITIONS = frozenset(("max_position_embeddings", "max_seq_len"))

# Wrappers: their nested defaults matter, not their own reader.
EXTRA = set(
    """aya_vision cohere2_vision gemma3 gemma3n gemma4 gemma4_unified glm4v glm4v_moe idefics2 idefics3 internvl kimi_k25 llama4
    llava llava_next llava_next_video llava_onevision minimax_m3_vl mistral3 mllama paligemma pixtral qwen2_5_vl qwen2_audio
    qwen2_vl qwen3_5 qwen3_5_moe qwen3_vl qwen3_vl_moe smolvlm step3p7 voxtral aria qwen2_5_omni_thinker qwen3_omni_moe_thinker
    vipllava video_llava glm46v ernie4_5_vl_moe lfm2_vl exaone4_5
    gemma4_vision gemma4_audio gemma4_unified_vision gemma4_unified_audio
    apertus1p5 cohere_compass cosmos3_edge deepseek_ocr2 dots3_note emu3 glm5_next glm_ocr granite4_vision granite_docling
    granite_speech granite_speech_plus hunyuan_vl hy_v4_vl hyperclovax_vision_v2 inkling_mm_model inkling2 molmo2 muse_glimmer muse_spark
    ovis2 paddleocr_vl phi4_multimodal qwen4_exp voxtral_realtime""".split()
)


def raw_defaults(cls: type) -> dict[str, Any]:
    """Field defaults as written in the class, before anything is derived from them."""
    found: dict[str, Any] = {}
    for item in dataclasses.fields(cls):
        if item.default is not dataclasses.MISSING:
            found[item.name] = item.default
        elif item.default_factory is not dataclasses.MISSING:
            found[item.name] = item.default_factory()
    return found


def keep(defaults: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    def plain(value: Any) -> bool:
        return isinstance(value, str | int | float | bool | list | dict) and value not in ({}, [])

    found = {k: list(v) if isinstance(v, tuple) else v for k, v in defaults.items()}
    return {k: v for k, v in found.items() if k in wanted and v is not None and plain(v)}


def facts(cls: type) -> dict[str, Any]:
    wanted = SHAPING | POSITIONS if cls.model_type in MODULES else SHAPING
    if cls.model_type not in MODULES or cls.model_type in WRAPPERS:
        wanted |= TOWER_KEYS
    entry: dict[str, Any] = {"keys": keep(raw_defaults(cls), wanted)}
    never_null = sorted(
        item.name
        for item in dataclasses.fields(cls)
        if isinstance(entry["keys"].get(item.name), int)
        and not isinstance(entry["keys"][item.name], bool)
        and "None" not in str(item.type)
        and "Optional" not in str(item.type)
    )
    if never_null:
        entry["never_null"] = never_null
    names = dict(getattr(cls, "attribute_map", {}) or {})
    if names:
        entry["names"] = names
    parts = {}
    absent = {}
    made = None
    for part in getattr(cls, "sub_configs", {}) or {}:
        if made is None:
            try:
                made = cls()
            except Exception:  # a class that cannot be made without arguments has no default parts
                break
        inner = getattr(made, part, None)
        if inner is not None and getattr(inner, "model_type", ""):
            parts[part] = inner.model_type
            if part in ("text_config", "vision_config", "audio_config", "perceiver_config"):
                own = raw_defaults(type(inner))
                given = {k: v for k in own if (v := vars(inner).get(k, own[k])) != own[k]}
                if part != "text_config":
                    absent[part] = keep(given, SHAPING | TOWER_KEYS)
                elif "hidden_size" in given:  # sizes of its own, and not what the text class derives from its own
                    absent[part] = {k: v for k, v in keep(given, SHAPING).items() if not isinstance(v, list)}
    if parts:
        entry["parts"] = parts
    if any(absent.values()):
        entry["absent"] = {part: keys for part, keys in absent.items() if keys}
    return entry


def main() -> None:
    wanted = set(MODULES) | EXTRA | set(WRAPPERS)
    out: dict[str, Any] = {}
    while wanted:
        model_type = wanted.pop()
        if model_type in out or model_type not in CONFIG_MAPPING:
            continue
        out[model_type] = facts(CONFIG_MAPPING[model_type])
        wanted |= set(out[model_type].get("parts", {}).values())
    target = ROOT / "llmcalc" / "families" / "defaults.json"
    lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(out[k], sort_keys=True)}" for k in sorted(out))
    target.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    print(f"{len(out)} model types from transformers {__version__}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
