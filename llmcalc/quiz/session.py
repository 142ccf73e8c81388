"""One sitting: ask, listen, judge kindly, explain, sum up. Input, output, clock and wording of derivations are handed in."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from llmcalc.quiz.answers import Verdict, judge_points
from llmcalc.quiz.draw import localised, spoken
from llmcalc.quiz.question import LANGUAGES, LETTERS, Question
from llmcalc.quiz.texts import TEXTS
from llmcalc.units import seconds

QUIT = frozenset(("q", "quit", "exit", ":q", "выход", "й"))
TRIES = 3  # at a terminal, before an unreadable answer counts
LATE_CREDIT = 0.5
HINTED_CREDIT = 0.75
HINT = frozenset(("h", "hint", "подсказка"))
INTERVIEW_S = {1: 60.0, 2: 120.0, 3: 180.0}
"""Time for an answer by level, where a sitting is timed as an interview is."""


@dataclass(frozen=True, slots=True)
class Result:
    """One answered question."""

    question: Question
    verdict: Verdict


@dataclass(slots=True)
class Session:
    """`listen(prompt)` gives a line or None at the end; `tell(text, style)` shows one paragraph; `explain` works a question out."""

    language: str
    listen: Callable[[str], str | None]
    tell: Callable[[str, str], None]
    explain: Callable[[Question], Iterable[str]]
    clock: Callable[[], float]
    patient: bool = False
    limit_s: float | None = None
    interview: bool = False
    """Each level has its time, and solutions come at the end."""
    results: list[Result] = field(default_factory=list)
    interrupted: bool = False
    later: list[tuple[int, Question, Verdict]] = field(default_factory=list)

    def say(self, key: str, **values: Any) -> str:
        """A text of the catalogue."""
        return TEXTS[f"ui.{key}"][LANGUAGES.index(self.language)].format(**values)

    def run(self, asked: Iterable[Question], count: int) -> None:
        """Ask until the questions, the input or the patience end."""
        try:
            for number, question in enumerate(asked, 1):
                if not self._ask(question, number, count):
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            self.tell("", "")
        for number, question, verdict in self.later:
            self.tell("", "")
            self.tell(self.say("question", number=number, count=count, topic=question.topic, level=question.level), "dim")
            self._answer(question, verdict)

    def _ask(self, question: Question, number: int, count: int) -> bool:
        self.tell("", "")
        self.tell(self.say("question", number=number, count=count, topic=question.topic, level=question.level), "dim")
        self.tell(question.text, "bold")
        if question.kind == "choice":
            for letter, choice in zip(LETTERS, question.choices, strict=False):
                self.tell(f"  {letter}) {choice}", "")
        limit = INTERVIEW_S[question.level] if self.interview and self.limit_s is None else self.limit_s
        if self.interview and limit is not None:
            self.tell(self.say("limit", limit=seconds(limit)), "dim")
        begun, hinted = self.clock(), False
        for left in reversed(range(TRIES if self.patient else 1)):
            line = self.listen("> ")
            while (
                line is not None
                and line.strip().casefold() in HINT
                and not (question.kind == "choice" and len(question.choices) == len(LETTERS))
            ):
                hinted = True
                self.tell(self.say("hint", hint=self._hint(question)), "yellow")
                line = self.listen("> ")
            if line is None or line.strip().casefold() in QUIT:
                return False
            verdict = question.judge(line)
            if verdict.grade != "unreadable" or not left:
                break
            self.tell(self._unreadable(question), "yellow")
        took = self.clock() - begun
        if question.kind == "points" and verdict.grade != "skipped":
            verdict = self._points(question, line or "", verdict)
        late = limit is not None and took > limit
        verdict = replace(verdict, credit=verdict.credit * (LATE_CREDIT if late else 1) * (HINTED_CREDIT if hinted else 1))
        self.results.append(Result(question, verdict))
        if late and limit is not None:
            self.tell(self.say("late", limit=seconds(limit)), "yellow")
        if self.interview:
            self.tell(self.say("took", time=seconds(round(took, 1))), "dim")
            self.later.append((number, question, verdict))
        else:
            self._answer(question, verdict)
        return True

    def _hint(self, question: Question) -> str:
        """Where to begin, without the figures: a formula, one choice less, or how the answer is counted."""
        if question.kind == "choice":
            wrong = next(letter for letter in LETTERS if letter != question.answer)
            return self.say("hint.choice", letter=wrong)
        if question.kind == "points":
            return self.say("hint.points", of=len(question.choices), first=" ".join(question.choices[0].split()[:3]))
        if question.figure is not None and question.figure.formula is not None:
            return f"{question.figure.name} = {question.figure.formula.expression}"
        return self.say("hint.unit", example=EXAMPLES.get(question.unit, "42"))

    def _unreadable(self, question: Question) -> str:
        example = "a" if question.kind == "choice" else EXAMPLES.get(question.unit, "42")
        return self.say("unreadable", kind=self.say(f"kind.{'choice' if question.kind == 'choice' else 'number'}"), example=example)

    def _points(self, question: Question, line: str, verdict: Verdict) -> Verdict:
        """Shows the rubric; at a terminal the answer's author may count for himself."""
        hits = judge_points(line, question.patterns)[1]
        hit = round(verdict.credit * len(question.patterns))
        if not hits:  # a number: who answers counts for himself, and no box can be ticked
            self.tell(self.say("counted", hit=hit, of=len(question.choices)), "green" if verdict.credit > 0.5 else "yellow")
            for point in question.choices:
                self.tell(f"  - {point}", "")
            return verdict
        self.tell(self.say("points", hit=hit, of=len(question.choices)), "green" if verdict.credit > 0.5 else "yellow")
        for index, point in enumerate(question.choices):
            self.tell(f"  [{'x' if hits[index] else ' '}] {point}", "")
        if self.patient:
            own = (self.listen(self.say("selfgrade", hit=hit)) or "").strip()
            if own.isascii() and own.isdigit() and len(own) < 3:
                return judge_points(own, question.patterns)[0]
        return verdict

    def _answer(self, question: Question, verdict: Verdict) -> None:
        if verdict.grade == "unreadable":
            self.tell(self._unreadable(question), "yellow")
        elif question.kind != "points" or verdict.grade == "skipped":
            name = "right" if question.kind == "choice" and verdict.grade == "exact" else verdict.grade
            self.tell(
                self.say(name),
                {"exact": "green", "close": "green", "rough": "yellow"}.get(verdict.grade, "red" if verdict.grade == "wrong" else "dim"),
            )
        if verdict.slip and verdict.grade != "unreadable":
            self.tell(self.say("slip", slip=verdict.slip), "yellow")
        if question.kind != "points":
            self.tell(self.say("answer", answer=localised(answer_text(question), self.language)), "bold")
        elif verdict.grade == "skipped":
            for point in question.choices:
                self.tell(f"  - {point}", "")
        for line in question.steps:
            self.tell(f"  {line}", "")
        for line in self.explain(question):
            self.tell(f"    {line}", "dim")
        if question.command:
            self.tell("  " + self.say("command", command=shlex.join(question.command)), "dim")

    def summary(self, again: str) -> None:
        """The score, by topic."""
        self.tell("", "")
        if not self.results:
            self.tell(self.say("none"), "")
        else:
            credit = sum(each.verdict.credit for each in self.results)
            self.tell(
                self.say("score", credit=f"{credit:g}", of=len(self.results), percent=round(100 * credit / len(self.results))), "bold"
            )
            topics: dict[str, list[float]] = {}
            for each in self.results:
                topics.setdefault(each.question.topic, []).append(each.verdict.credit)
            for topic, credits in topics.items():
                self.tell(self.say("topic", topic=topic, credit=f"{sum(credits):g}", of=len(credits)), "")
            weak = sorted(
                (topic for topic in topics if sum(topics[topic]) < 0.9 * len(topics[topic])),
                key=lambda topic: sum(topics[topic]) / len(topics[topic]),
            )
            if weak:
                self.tell(self.say("practise", topics=", ".join(weak[:3])), "")
        self.tell(self.say("again", options=again), "dim")

    def credits(self) -> dict[str, float]:
        """Template to its worst credit of this sitting."""
        found: dict[str, float] = {}
        for each in self.results:
            found[each.question.key] = min(found.get(each.question.key, 1.0), each.verdict.credit)
        return found


EXAMPLES = {
    "B": "160 KiB",
    "B/token": "160 KiB",
    "s": "7.8 ms",
    "usd": "$0.39",
    "tokens/s": "130 tok/s",
    "FLOP": "133 TFLOP",
    "share": "70%",
    "ratio": "3.5x",
    "params": "8.2 B",
    "J": "3.5 J",
}


def answer_text(question: Question) -> str:
    """The answer as people write it; of a choice its letter and words."""
    if question.kind == "choice":
        return f"{question.answer}) {question.choices[LETTERS.index(question.answer)]}"
    if question.kind == "points":
        return "; ".join(question.choices)
    both = f" = {question.answer / 1e9:.4g} GB" if question.unit == "B" and question.answer >= 1e8 else ""
    return spoken(question.answer, question.unit) + both
