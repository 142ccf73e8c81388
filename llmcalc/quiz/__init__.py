"""Interview practice from the same engine: questions are drawn from estimates, and explained by the Figures behind them.

A template is a function from a Draw (seeded choices, wording) to a Question, registered under a topic and a level. Question
`n` of a seed is the same on every platform: only `random.Random.random` is asked, whose sequence Python promises to keep.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from llmcalc.errors import UsageError, close_matches, printable
from llmcalc.quiz.draw import Draw, Source
from llmcalc.quiz.question import Question
from llmcalc.quiz.template import TEMPLATES, Template

SUBJECTS = ("caches", "fitting", "decoding", "intensity", "money", "prompts", "sampling", "server", "sizing", "notes", "concepts")
"""The modules that register templates, in the order in which a seed counts them."""


def bank() -> dict[str, Template]:
    """Every template, by key."""
    for module in SUBJECTS:
        import_module(f"llmcalc.quiz.{module}")  # they register themselves
    return TEMPLATES


def topics() -> list[str]:
    """Every topic, in the order of the bank."""
    return list(dict.fromkeys(each.topic for each in bank().values()))


def chosen(topic: str | None = None, level: int | None = None) -> list[Template]:
    """The templates of a topic (several with commas) and a level. Errors: unknown-topic, no-questions."""
    wanted = None
    if topic is not None:
        wanted = {word.strip().lower() for word in topic.split(",") if word.strip()}
        for word in sorted(wanted - set(topics())) or ([] if wanted else [topic]):
            near = close_matches(word, topics())
            hint = f"did you mean {near[0]}?" if near else f"topics: {', '.join(topics())}"
            raise UsageError("unknown-topic", f"{printable(word, 40)!r} is not a topic of the quiz", hint)
    found = [each for each in bank().values() if (wanted is None or each.topic in wanted) and level in (None, each.level)]
    if not found:
        raise UsageError("no-questions", f"topic {topic} has no questions of level {level}", "leave the level out, or choose another topic")
    return found


def questions(
    seed: int, count: int, *, topic: str | None = None, level: int | None = None, language: str = "en", first: tuple[str, ...] = ()
) -> Iterator[Question]:
    """`count` questions of a seed; `first` names templates that come before the others. No two neighbours are alike."""
    source = Source(f"{seed}")
    pool = chosen(topic, level)
    known = {each.key: each for each in pool}
    bag: list[Template] = [known[key] for key in first if key in known]
    last: Question | None = None
    for number in range(count):
        if not bag:
            bag = source.shuffled(pool)
            if last is not None and len(bag) > 1 and bag[0].key == last.key:
                bag.append(bag.pop(0))
        each = bag.pop(0)
        for attempt in range(20):  # a template alone in its pool: other numbers, or the choices in another order
            question = each.make(Draw(Source(f"{seed}/{number}/{attempt}"), language, each))
            if last is None or (question.text, question.choices) != (last.text, last.choices):
                break
        last = question
        yield question
