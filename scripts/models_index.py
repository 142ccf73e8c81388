"""Write llmcalc/models.json, the sizes and kinds that `models list` and `compare -m all` read. Run after changing a bundled model."""

from __future__ import annotations

import json
from pathlib import Path

from llmcalc import sources
from llmcalc.estimate import summaries

FILE = Path(__file__).resolve().parent.parent / "llmcalc" / "models.json"


def text() -> str:
    """One model per line, so that a change of one is a change of one line."""
    lines = (f"{json.dumps(name)}: {json.dumps(summaries.counted(name))}" for name in sources.bundled_ids())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
    print(f"wrote {FILE.name}")
