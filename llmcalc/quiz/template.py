"""The templates that make questions, and where they register."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Kind, Question


@dataclass(frozen=True, slots=True)
class Template(Kind):
    """A kind of question, and what makes one."""

    make: Callable[[Draw], Question]


TEMPLATES: dict[str, Template] = {}


def template(topic: str, level: int) -> Callable[[Callable[[Draw], Question]], Callable[[Draw], Question]]:
    """Register a template; its key is the function's name."""

    def wrap(make: Callable[[Draw], Question]) -> Callable[[Draw], Question]:
        TEMPLATES[make.__name__] = Template(make.__name__, topic, level, make)
        return make

    return wrap
