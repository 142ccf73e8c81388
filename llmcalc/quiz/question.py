"""What a question is, and its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from llmcalc.quiz.answers import Verdict, judge_choice, judge_number, judge_points

if TYPE_CHECKING:
    from llmcalc.figures import Figure

LANGUAGES = ("en", "ru")
LEVELS = (1, 2, 3)  # one multiplication, a few steps, judgement
LETTERS = "abcdefgh"


@dataclass(frozen=True, slots=True)
class Question:
    """kind "number" (answer in SI base units of `unit`), "choice" (answer is a letter) or "points" (a rubric: `choices` are its points).

    `command` is what llmcalc is to be called with to print the answer, under `result` of its JSON; empty where no command does.
    """

    key: str
    topic: str
    level: int
    kind: Literal["number", "choice", "points"]
    text: str
    answer: Any
    unit: str = ""
    choices: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    slips: tuple[tuple[float, str], ...] = ()
    steps: tuple[str, ...] = ()
    figure: Figure | None = None
    command: tuple[str, ...] = ()
    result: str = ""

    def judge(self, text: str) -> Verdict:
        """The verdict on what was typed. Never raises."""
        if text.strip().casefold() in SKIP:
            return Verdict("skipped", 0.0)
        if self.kind == "number":
            return judge_number(text, self.answer, self.unit, self.slips)
        if self.kind == "choice":
            return judge_choice(text, self.answer, self.choices)
        return judge_points(text, self.patterns)[0]


SKIP = frozenset(("", "?", "skip", "pass", "idk", "don't know", "не знаю", "пропуск", "s"))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of question."""

    key: str
    topic: str
    level: int
