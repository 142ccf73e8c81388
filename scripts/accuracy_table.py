"""Write the table of the README's section on accuracy, between its markers.

python scripts/accuracy_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from llmcalc import accuracy

README = Path(__file__).resolve().parent.parent / "README.md"
HEAD = (
    "what",
    "rows",
    "models",
    "median error",
    "within ×1.25",
    "within ×1.5",
    "in the 80% range",
    "in one made without the source",
    "napkin",
    "70% of ideal",
)

WORDS = (
    "Errors are medians of |expected ÷ measured − 1|, each row predicted by a fit that had not seen its source or, where a class has\n"
    "one source, its model; the second range had not seen the source either. Napkin: the ideal terms alone; 70% of ideal: one\n"
    "efficiency for everything. `llmcalc accuracy` lists classes and rows, `scripts/calibrate.py` makes the fit."
)


def table() -> str:
    """The targets' groups as Markdown: errors are medians of |expected / measured - 1| for sources that the fit had not seen."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" + " ---: |" * (len(HEAD) - 1)]
    for name, chosen in accuracy.targets(accuracy.points(accuracy.bundled())):
        found = accuracy.summary(chosen)
        shares = [
            found[key]
            for key in """median_error within_1_25 within_1_5 coverage coverage_unseen
            napkin_median_error one_efficiency_median_error""".split()
        ]
        lines.append("| " + " | ".join([name, str(found["rows"]), str(found["models"]), *(f"{share:.0%}" for share in shares)]) + " |")
    return "\n".join([*lines, "", WORDS])


def written(text: str) -> str:
    """The README with the table of today."""
    return re.sub(r"(<!-- accuracy -->\n).*?(<!-- /accuracy -->)", lambda found: found[1] + table() + "\n" + found[2], text, flags=re.S)


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
