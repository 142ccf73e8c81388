"""`llmcalc quiz`: interview practice; asks at a terminal or takes one answer a line, or prints questions with worked answers."""

from __future__ import annotations

import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import typer

from llmcalc import quiz
from llmcalc.answers import Answer, answer, field
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse, spoken, waiting
from llmcalc.commands import options as o
from llmcalc.errors import UsageError, close_matches, printable
from llmcalc.figures import derivation
from llmcalc.present import Report, columns, facts
from llmcalc.quiz import answers
from llmcalc.quiz.draw import localised
from llmcalc.quiz.question import LANGUAGES, LETTERS, LEVELS, Question
from llmcalc.quiz.session import Session, answer_text

EXAMPLES = """
Examples:

  llmcalc quiz --topic napkin,cost --level 2 --count 10 --timed

  llmcalc quiz --seed 7 --count 20 -f markdown > worksheet.md

  printf '14.2 ms\\n0.67 GB\\n' | llmcalc quiz --topic napkin -n 2 --seed 7

Topics: kv, heads, weights, batch, ceiling, decode, critical, crossover, quantise, cost, tpot, prefill, prefix, speculation,
sampling, paging, batching, parallel, moe, sizing, napkin (a course's five problems), levers.
"""
MAX_LINE = 64 * 1024
FLAT = {"tolerances", "slips", "worked"}
"""Keys with parts, which a sheet has no cell for."""


@answer("quiz")
class Bank(Answer):
    """How much is asked, and of how much."""

    questions: int = field("questions")
    templates: int = field("kinds of question in the bank")
    topics: tuple[str, ...] = field("topics in the bank")


@answer()
class Tolerances(Answer):
    """Factors within which an answer counts."""

    exact: float = field()
    close: float = field()
    factor: float = field()


@answer()
class Slip(Answer):
    """A wrong answer that is often given, and what went wrong."""

    value: float = field()
    text: str = field()


@answer()
class Worked(Answer):
    """How the answer comes about."""

    steps: tuple[str, ...] = field()
    explanation: tuple[str, ...] = field()
    derivation: Mapping[str, Any] | None = field()


@answer("quiz", rows=True)
class Asked(Answer):
    """One question with its answer."""

    number: int = field()
    key: str = field()
    topic: str = field()
    level: int = field()
    kind: Literal["number", "choice", "points"] = field()
    question: str = field()
    choices: Sequence[str] = field()
    unit: str = field()
    answer: float | str = field()
    answer_text: str = field()
    tolerances: Tolerances | None = field()
    slips: tuple[Slip, ...] = field()
    worked: Worked = field()
    command: str | None = field()
    result: str | None = field()


@answer("quiz progress")
class Progress(Answer):
    """What is recorded of earlier sittings."""

    sittings: int = field("sittings")
    kinds_met: int = field("kinds of question met")
    kinds_to_repeat: int = field("to repeat now")


@answer("quiz progress", rows=True)
class Topic(Answer):
    """The same of one topic."""

    topic: str = field("topic")
    kinds: int = field("kinds")
    met: int = field("met")
    sittings: int = field("answered")
    missed: int = field("missed")
    repeat: int = field("to repeat")


class Asking(o.Group):
    """Which questions, and how they are asked."""

    topic = o.option(None, "--topic", autocompletion=completion.topics, metavar="TOPIC", help="One topic or several, with commas.")
    level = o.option(
        None,
        "--level",
        autocompletion=completion.of(*map(str, LEVELS)),
        metavar="1-3",
        read=parse.counting(most=max(LEVELS)),
        help="1: one step; 2: a few; 3: judgement.",
    )
    count = o.option("5", "--count", "-n", metavar="N", read=parse.counting(most=10_000), help="Number of questions.")
    seed = o.option(
        None,
        "--seed",
        metavar="N",
        read=parse.counting(least=0, most=2**63),
        help="The same one asks the same. [default: by chance]",
    )
    timer = o.option(None, "--timer", metavar="TIME", read=parse.quantity("s"), help="For each answer: 90s; late ones count half.")
    timed = o.switch("--timed", help="1 to 3 minutes by level, solutions at the end.")
    progress = o.switch("--progress", help="Of earlier sittings: topics, misses, what to do.")
    review = o.switch("--review", help="Begin with what was missed before.")
    lang = o.option("en", "--lang", autocompletion=completion.of(*LANGUAGES), metavar="LANGUAGE", help="en or ru.")


def quiz_command(asking: Asking, out: o.File) -> None:
    """Napkin problems as in interviews, marked by order of magnitude, worked out."""
    if asking.progress:
        c.say(progress(asking.topic, asking.level), out)
        return
    lang = asking.lang.strip().lower()
    if lang not in LANGUAGES:
        near = close_matches(lang, LANGUAGES)
        raise UsageError(
            "bad-value", f"{printable(lang, 40)!r} is not a language of the quiz", f"did you mean {near[0]}?" if near else "use en or ru"
        )
    number, grade, limit, topic = asking.count, asking.level, asking.timer, asking.topic
    chosen_seed = _chance() if asking.seed is None else asking.seed
    if limit == 0:
        raise UsageError("bad-value", "timer 0 leaves no time for an answer", "write it like --timer 90s")
    first, warnings = _missed(topic, grade) if asking.review else ((), [])
    asked = quiz.questions(chosen_seed, number, topic=topic, level=grade, language=lang, first=first)
    chosen, output = out.chosen(), out.output
    inputs = {"seed": chosen_seed, "count": number, "topic": topic, "level": grade, "lang": lang}
    if chosen == "table":
        if output is not None:
            raise UsageError("bad-value", "a sitting cannot be written to a file", "end the file in .md for a worksheet, or in .json")
        quiz.chosen(topic, grade)  # a bad topic is said before anything is asked
        waiting.over()
        _sit(asked, inputs, limit, warnings, interview=asking.timed)
        return
    found = list(asked)
    if chosen == "markdown":
        text = worksheet(found, inputs)
        c.write(text) if output is None else c.save(text, output)
        return
    c.say(report(found, inputs, tuple(warnings), flat=chosen != "json"), out)


def _chance() -> int:
    import secrets

    return secrets.randbelow(10**6)


def _missed(topic: str | None, level: int | None) -> tuple[tuple[str, ...], list[str]]:
    from llmcalc.quiz import review

    state, warnings = review.load()
    return review.due([each.key for each in quiz.chosen(topic, level)], state), warnings


# ---- a sitting ----------------------------------------------------------------------------------------------------


def _sit(asked: Any, inputs: dict[str, Any], limit: float | None, warnings: list[str], *, interview: bool) -> None:
    from llmcalc.present import terminal
    from llmcalc.quiz import review

    at_terminal = bool(sys.stdin and sys.stdin.isatty())
    ways = (_listener(at_terminal), _tell, _outlined, time.monotonic)
    session = Session(inputs["lang"], *ways, patient=at_terminal, limit_s=limit, interview=interview)
    sys.stderr.write(terminal.warnings(tuple(warnings)))
    session.tell(session.say("seed", count=inputs["count"], seed=inputs["seed"]), "dim")
    session.run(asked, inputs["count"])
    options = [
        f"--{name} {shlex.quote(str(value))}" for name, value in inputs.items() if value is not None and (name, value) != ("lang", "en")
    ]
    session.summary(" ".join(options))
    troubles = review.record(session.credits())
    sys.stderr.write(terminal.warnings(tuple(trouble for trouble in troubles if trouble not in warnings)))
    if session.interrupted:
        raise typer.Exit(130)


def _listener(at_terminal: bool) -> Callable[[str], str | None]:
    """Reads one line, whatever bytes it has; of a line without end the first 64 KiB count."""

    def listen(prompt: str) -> str | None:
        if at_terminal:
            c.write(prompt)
        if sys.stdin is None:
            return None
        stream = getattr(sys.stdin, "buffer", sys.stdin)
        line = stream.readline(MAX_LINE)
        more = line
        while len(more) == MAX_LINE and more[-1:] not in ("\n", b"\n"):
            more = stream.readline(MAX_LINE)
        if not line:
            if at_terminal:
                c.write("\n")
            return None
        return line.decode("utf-8", "replace") if isinstance(line, bytes) else str(line)

    return listen


def _tell(text: str, style: str) -> None:
    """One paragraph: wrapped with its own indent at a terminal, one line in a pipe."""
    from rich.text import Text

    from llmcalc.present import terminal

    console = terminal.in_memory()
    width = min(console.width, 100) if console.is_terminal else 10**6
    pad = " " * (len(text) - len(text.lstrip()))
    hanging = pad + ("   " if text.lstrip()[1:3] == ") " else "")
    for line in textwrap.wrap(text, width=max(width, 20), subsequent_indent=hanging, break_on_hyphens=False) or [""]:
        console.print(Text(line, style=style), soft_wrap=True)
    c.write(console.file.getvalue())  # type: ignore[attr-defined]


DEEPEST = 4  # spaces of indent that a sitting shows of a derivation; the command's --explain shows the rest


def _outlined(question: Question) -> list[str]:
    """The upper levels of the derivation; a formula that is shown keeps the line with its numbers."""
    found, deepest = [], DEEPEST
    for line in _explained(question):
        indent = len(line) - len(line.lstrip())
        if indent <= deepest:
            found.append(line)
            # The numbers of a formula stand under it, one step deeper.
            deepest = indent + 2 if indent == DEEPEST and not line.lstrip().startswith("= ") else DEEPEST
        elif indent > DEEPEST:
            deepest = DEEPEST
    return found


def _explained(question: Question) -> list[str]:
    """The derivation of the answer, as --explain prints it."""
    if question.figure is None:
        return []
    from llmcalc.present.explain import lines

    return lines(Report(command="quiz", title="", figures={question.figure.name: spoken.figure(question.figure)}))


# ---- progress ----------------------------------------------------------------------------------------------------


def progress(topic: str | None, level: int | None) -> Report:
    """What is recorded of earlier sittings, by topic, the most missed first."""
    from llmcalc.quiz import review

    state, warnings = review.load()
    kinds = quiz.chosen(topic, level)
    again = set(review.due([each.key for each in kinds], state))
    topics: dict[str, list[tuple[int, int, bool]]] = {}
    for each in kinds:
        card = state["cards"].get(each.key, {"seen": 0, "missed": 0})
        topics.setdefault(each.topic, []).append((card["seen"], card["missed"], each.key in again))
    rows = [
        Topic(
            topic=topic,
            kinds=len(cards),
            met=sum(seen > 0 for seen, _, _ in cards),
            sittings=sum(seen for seen, _, _ in cards),
            missed=sum(missed for _, missed, _ in cards),
            repeat=sum(repeat for _, _, repeat in cards),
        )
        for topic, cards in topics.items()
    ]
    rows.sort(key=lambda row: (-row.repeat, -row.missed, -row.sittings))
    return Report(
        command="quiz",
        title=f"Quiz, {c.counted(state['session'], 'sitting')} so far",
        facts=facts(
            Progress(sittings=state["session"], kinds_met=sum(row.met for row in rows), kinds_to_repeat=len(again)),
            kinds_met=f"of {len(kinds)}",
            kinds_to_repeat="llmcalc quiz --review" if again else "",
        ),
        columns=columns(Topic),
        rows=tuple(rows),
        warnings=tuple(warnings),
    )


# ---- printed ------------------------------------------------------------------------------------------------------


def report(found: list[Question], inputs: dict[str, Any], warnings: tuple[str, ...] = (), *, flat: bool = False) -> Report:
    """The questions with tolerances, slips and worked answers; `flat` leaves out what has parts."""
    rows = [_row(number, question) for number, question in enumerate(found, 1)]
    if flat:
        rows = [replace(row, choices=" | ".join(row.choices)) for row in rows]
    return Report(
        command="quiz",
        title=f"Quiz, seed {inputs['seed']}",
        inputs=inputs,
        facts=() if flat else facts(Bank(questions=len(found), templates=len(quiz.bank()), topics=tuple(quiz.topics()))),
        columns=tuple(column for column in columns(Asked) if not flat or column.key not in FLAT),
        rows=tuple(rows),
        assumptions=("times are the textbook's, which --method napkin gives in every command",),
        warnings=warnings,
    )


def _row(number: int, question: Question) -> Asked:
    numeric = question.kind == "number"
    return Asked(
        number=number,
        key=question.key,
        topic=question.topic,
        level=question.level,
        kind=question.kind,
        question=question.text,
        choices=question.choices,
        unit=question.unit,
        answer=question.answer,
        answer_text=answer_text(question),
        tolerances=Tolerances(exact=answers.EXACT, close=answers.CLOSE, factor=answers.ROUGH) if numeric else None,
        slips=tuple(Slip(value=value, text=text) for value, text in question.slips),
        worked=Worked(
            steps=question.steps,
            explanation=tuple(_explained(question)),
            derivation=derivation(spoken.figure(question.figure)) if question.figure is not None else None,
        ),
        command=shlex.join(("llmcalc", *question.command)) if question.command else None,
        result=question.result or None,
    )


def worksheet(found: list[Question], inputs: dict[str, Any]) -> str:
    """Markdown: the questions, room to answer, and the answers at the end."""
    from llmcalc.present.as_markdown import plain_text

    session = Session(inputs["lang"], lambda _: None, lambda *_: None, _explained, time.monotonic)
    lines = [f"# {session.say('worksheet', count=len(found), seed=inputs['seed'])}", ""]
    for number, question in enumerate(found, 1):
        lines += [f"{number}. {plain_text(question.text)}", ""]
        if question.kind == "choice":
            lettered = zip(LETTERS, question.choices, strict=False)
            lines += [*(f"    {letter}) {plain_text(choice)}  " for letter, choice in lettered), ""]
    lines += [f"## {session.say('answers')}", ""]
    for number, question in enumerate(found, 1):
        lines += [
            f"{number}. **{plain_text(localised(answer_text(question), inputs['lang']))}**",
            "",
            *(f"    {plain_text(step)}  " for step in question.steps),
            "",
        ]
        explained = _explained(question)
        if explained:
            lines += ["    ```", *(f"    {line}" for line in explained), "    ```", ""]
        if question.command:
            lines += [f"    `{shlex.join(('llmcalc', *question.command))}`", ""]
    return "\n".join(lines).rstrip() + "\n"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("quiz", epilog=EXAMPLES)(o.command(quiz_command, ()))
