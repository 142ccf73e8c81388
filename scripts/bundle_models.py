"""Write models/<org>--<name>.json: what estimates need of one model's config.json, in the Hub's own key names.

    bundle_models.py config.json --id org/name --source "where it was read" --date 2026-11-29
    bundle_models.py org/name                      asks the Hub; id, source and revision are known then
    bundle_models.py --batch many.json             a list of {"config": path or object, "id": ..., "source": ..., ...}

A file is written only where the trimmed config reads as the whole one does: same stack, towers, dtype, contexts and notes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from datetime import date as calendar
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from llmcalc import model, sources  # noqa: E402
from llmcalc.architecture import CONTEXT_KEYS, Model  # noqa: E402
from llmcalc.config import FOREIGN, SHAPING  # noqa: E402
from llmcalc.estimate.memory import published_counts  # noqa: E402
from llmcalc.towers import TOWER_KEYS  # noqa: E402

KEPT = (
    SHAPING
    | TOWER_KEYS
    | frozenset(CONTEXT_KEYS)
    | frozenset(FOREIGN)
    | frozenset(
        """model_type architectures dtype torch_dtype expert_dtype mamba_ssm_dtype original_max_position_embeddings
        thinker_config llm_cfg text_model_id image_size img_token_compression_config use_clipped_linears standardize
        add_post_norm select_layer embd_layer img_processor""".split()
    )
)
# Blocks that describe a model of their own; of any other block every key counts.
MODELS = frozenset((*FOREIGN, "text_config", "llm_config", "language_config", "thinker_config", "llm_cfg", "perceiver_config"))
ROPE = ("rope_scaling", "rope_parameters")
ROPE_KEPT = ("rope_type", "type", "factor", "original_max_position_embeddings")
QUANT = ("quantization_config", "quantization", "compression_config")
QUANT_KEPT = frozenset(
    """quant_method quant_algo moe_quant_algo kv_cache_quant_algo kv_cache_scheme bits num_bits group_size mode desc_act sym
    zero_point version format fmt scale_fmt weight_block_size activation_scheme modules_to_not_convert ignore ignored_layers
    exclude_modules config_groups quantized_layers checkpoint_format lm_head load_in_4bit load_in_8bit bnb_4bit_quant_type
    expert_dtype bnb_4bit_use_double_quant bnb_4bit_compute_dtype bnb_4bit_quant_storage llm_int8_skip_modules""".split()
)
UNQUANTISED = ("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules")
_VECTOR = re.compile(r"(norm|bias|A_log|dt_bias)\d?$")  # no matrix, so no scheme quantises it: naming it says nothing
MOST_BYTES = 64 * 1024


def trim(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a config, or of a nested one, that shape the estimates."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if key in ROPE and isinstance(value, Mapping):
            short = _rope(value)
            if short:
                found[key] = short
        elif key in QUANT and isinstance(value, Mapping):
            found[key] = _quant(value)
        elif key in MODELS and isinstance(value, Mapping):
            found[key] = trim(value)
        elif key in KEPT:
            found[key] = value
    return found


def _rope(rope: Mapping[str, Any]) -> dict[str, Any]:
    """How far positions were stretched; nothing where they were not."""
    blocks = {key: _rope(value) for key, value in rope.items() if isinstance(value, Mapping)}
    short = {key: rope[key] for key in ROPE_KEPT if rope.get(key) is not None}
    stretched = any(key in short for key in ("factor", "original_max_position_embeddings"))
    return (short if stretched else {}) | {key: value for key, value in blocks.items() if value}


def _quant(block: Mapping[str, Any]) -> dict[str, Any]:
    """What says how many bytes each matrix has."""
    short = {key: value for key, value in block.items() if key in QUANT_KEPT and value is not None}
    for key in UNQUANTISED:
        if isinstance(short.get(key), list):
            short[key] = sorted({name for name in short[key] if not _VECTOR.search(name)})
    if isinstance(short.get("config_groups"), Mapping):
        short["config_groups"] = _without_observers(short["config_groups"])
    return short


def _without_observers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_observers(v) for k, v in value.items() if v is not None and not k.startswith("observer")}
    return value


def _beside(quant: Mapping[str, Any]) -> dict[str, Any]:
    """hf_quant_config.json in the form that newer repositories have inside config.json."""
    inner = quant.get("quantization", {})
    return {"quant_method": "modelopt", **_quant(inner)}


def same(a: Model, b: Model) -> list[str]:
    """The names of what differs."""
    return [name for name in ("model_type", "stack", "towers", "dtype", "native_context", "notes") if getattr(a, name) != getattr(b, name)]


def rounds_to(text: str, counts: set[int]) -> bool:
    """Whether a count is what a model card's rounded figure such as 30.5B says, rounded or cut off."""
    digits, suffix = re.fullmatch(r"([\d.]+)([MBT])", text).groups()  # type: ignore[union-attr]
    scale = {"M": 10**6, "B": 10**9, "T": 10**12}[suffix]
    step = scale / 10 ** len(digits.partition(".")[2])
    return any(abs(count - float(digits) * scale) < step for count in counts)


def dumps(value: Any, depth: int = 0) -> str:
    """JSON: a key a line, lists on one line, one space per level."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping) or not value or (depth > 0 and len(flat) < 100):
        return flat
    pad = " " * (depth + 1)
    rows = ",\n".join(f"{pad}{json.dumps(key)}: {dumps(inner, depth + 1)}" for key, inner in value.items())
    return "{\n" + rows + "\n" + " " * depth + "}"


def _ordered(value: Any) -> Any:
    return {key: _ordered(value[key]) for key in sorted(value)} if isinstance(value, Mapping) else value


def bundle(
    config: Mapping[str, Any],
    *,
    id: str,
    source: str,
    date: str,
    revision: str | None = None,
    published_params: int | None = None,
    published_source: str | None = None,
    published_size: str | None = None,
    quant: Mapping[str, Any] | None = None,
    folder: Path = ROOT / "models",
) -> Path:
    """Trim, check against the whole config and the published count, write. Errors: ValueError; ConfigError of the reader."""
    whole = {key: value for key, value in config.items() if key != sources.FACTS and not key.startswith("_source")}
    short = trim(whole)
    if quant and not any(isinstance(short.get(key), Mapping) for key in QUANT):
        short["quantization_config"] = _beside(quant)
    elif quant and isinstance(short.get("quantization_config"), Mapping):
        # What the file beside alone says of the cache: a reader of the repository takes both.
        beside = {key: value for key, value in _beside(quant).items() if key == "kv_cache_quant_algo"}
        short["quantization_config"] = beside | short["quantization_config"]
    differs = same(model.read(whole), model.read(short))
    if differs:
        raise ValueError(f"{id}: the trimmed config differs in {', '.join(differs)}")
    found = model.read(short)
    if published_params is not None and published_params not in published_counts(found):
        raise ValueError(f"{id}: published {published_params:,}, counted {sorted(published_counts(found))}")
    if published_size and not rounds_to(published_size, published_counts(found)):
        raise ValueError(f"{id}: published {published_size}, counted {sorted(published_counts(found))}")
    facts: dict[str, Any] = {
        "id": id,
        "source": source,
        "date": date,
        "revision": revision,
        "published_params": published_params,
        "published_source": published_source,
    }
    if published_size:
        facts["published_size"] = published_size
    text = dumps({sources.FACTS: facts, **_ordered(short)}) + "\n"
    if len(text.encode()) > MOST_BYTES:
        raise ValueError(f"{id}: {len(text.encode()):,} bytes are too many to bundle")
    path = folder / (id.replace("/", "--") + ".json")
    path.write_text(text, encoding="utf-8")
    return path


def _load(given: Any) -> Any:
    return json.loads(Path(given).read_text(encoding="utf-8")) if isinstance(given, str) else given


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", help="a config.json, or a Hub id")
    parser.add_argument("--batch", metavar="FILE", help="many at once")
    parser.add_argument("--id")
    parser.add_argument("--source")
    parser.add_argument("--date", default=calendar.today().isoformat())
    parser.add_argument("--revision")
    parser.add_argument("--published-params", type=int)
    parser.add_argument("--published-source")
    parser.add_argument("--published-size", help="rounded, as a model card says it: 671B")
    parser.add_argument("--folder", type=Path, default=ROOT / "models")
    options = parser.parse_args()
    if options.batch:
        jobs = _load(options.batch)
    else:
        if not options.config:
            parser.error("a config or --batch is needed")
        read = sources.find(options.config, refresh=not Path(options.config).exists())
        from_hub = read.kind.startswith("hub")
        job = {
            "config": read.config,
            "quant": read.quant,
            "id": options.id or (read.id if from_hub else None),
            "source": options.source or ("huggingface.co" if from_hub else None),
            "date": options.date,
            "revision": options.revision or (read.revision if from_hub else None),
            "published_params": options.published_params,
            "published_source": options.published_source,
            "published_size": options.published_size,
        }
        if not job["id"] or not job["source"]:
            parser.error("a file needs --id and --source")
        jobs = [job]
    failed = 0
    for job in jobs:
        arguments = {key: value for key, value in job.items() if key not in ("config", "quant")}
        try:
            bundle(_load(job["config"]), quant=_load(job.get("quant")), folder=options.folder, **arguments)
        except Exception as problem:  # the others still get written
            failed += 1
            print(f"{job['id']}: {getattr(problem, 'message', None) or problem}", file=sys.stderr)
    print(f"{len(jobs) - failed} of {len(jobs)} written to {options.folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
