"""Every configuration class of the installed transformers: read, refused by name, or not a language model. Nothing may crash.

    sweep_classes.py            counts, and what is refused
    sweep_classes.py --all      a line for each class

Needs transformers (no torch); run with the repository on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from pathlib import Path
from typing import Any

from llmcalc import model
from llmcalc.errors import ConfigError

LISTS = frozenset(
    """MODEL_FOR_CAUSAL_LM_MAPPING_NAMES MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES""".split()
)


def generating() -> set[str]:
    """Model types whose classes generate text, by transformers' own lists. They are read as text: importing them takes torch."""
    import transformers

    source = Path(transformers.__file__).parent / "models" / "auto" / "modeling_auto.py"
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in LISTS:
            found |= {
                pair.elts[0].value
                for pair in ast.walk(node.value)
                if isinstance(pair, ast.Tuple) and isinstance(pair.elts[0], ast.Constant)
            }
    return found


def outcome(model_type: str, made: Any, generates: bool) -> tuple[str, str]:
    """(read, refused, no language model or crash; the message)."""
    try:
        raw = json.loads(made().to_json_string(use_diff=False))
    except Exception as problem:  # a class that its own defaults do not build
        return "no defaults", f"{type(problem).__name__}"
    if raw.get("model_type") != model_type:
        raw["model_type"] = model_type
    try:
        found = model.read(raw, bare=True)
    except ConfigError as refused:
        return ("refused" if generates else "no language model"), refused.message
    except Exception as problem:
        return "crash", f"{type(problem).__name__}: {problem}"
    return "read", f"{len(found.stack.layers)} layers"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="a line for each class")
    options = parser.parse_args()
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    talks = generating()
    rows = []
    for model_type in sorted(CONFIG_MAPPING):
        kind, said = outcome(model_type, CONFIG_MAPPING[model_type], model_type in talks)
        rows.append((kind, model_type, said))
    counts: dict[str, int] = {}
    for kind, model_type, said in rows:
        counts[kind] = counts.get(kind, 0) + 1
        if options.all or kind in ("refused", "crash"):
            print(f"{kind:18} {model_type:32} {said[:140]}")
    print(f"transformers {transformers.__version__}: " + ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())))
    return 1 if counts.get("crash") else 0


if __name__ == "__main__":
    sys.exit(main())
