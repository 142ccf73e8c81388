"""Write hardware/index.json (names of every bundled device), devices.json (their values) and schema.json. Run after changing a profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llmcalc import hardware

FOLDER = Path(__file__).resolve().parent.parent / "hardware"


def texts() -> dict[str, str]:
    """The content of the generated files by name."""
    profiles = [hardware.read(path) for path in sorted(FOLDER.glob("*.yaml"))]
    return {
        "index.json": _rows(hardware.index_of(profiles)),
        "devices.json": _rows(hardware.devices_of(profiles)),
        "schema.json": json.dumps(hardware.json_schema(), indent=1) + "\n",
    }


def _rows(table: dict[str, Any]) -> str:
    """One device per line, so that a change of one device is a change of one line."""
    lines = (f"{json.dumps(ident)}: {json.dumps(row, ensure_ascii=False)}" for ident, row in table.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote hardware/{name}")
