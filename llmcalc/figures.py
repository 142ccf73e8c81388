"""Numbers that remember where they come from.

`@formula` wraps a textbook equation. Called with plain numbers (or numpy arrays) it is plain arithmetic; called through
`.of(...)` with Figures it returns a Figure that remembers the equation and its inputs. Nothing is parsed until somebody asks
for an explanation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llmcalc.units import whole


@dataclass(frozen=True, slots=True)
class Figure:
    """One number: what it is, its unit, and either an origin (where it was read) or a formula and its inputs."""

    name: str
    value: Any
    unit: str = ""
    origin: str = ""
    formula: Formula | None = None
    inputs: tuple[Figure, ...] = ()


class Formula:
    """A pure one-expression function with a unit and a reference."""

    __slots__ = ("function", "name", "ref", "unit")

    def __init__(self, function: Callable[..., Any], unit: str, ref: str) -> None:
        self.function = function
        self.name = function.__name__
        self.unit = unit
        self.ref = ref

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value, from plain numbers."""
        return self.function(*args, **kwargs)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments, in order."""
        code = self.function.__code__
        return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    def of(self, inputs: Mapping[str, Any] | None = None, /, *, as_name: str = "", **named: Any) -> Figure:
        """Apply to Figures (plain numbers become Figures without an origin) and keep the derivation."""
        values, parts = {}, []
        for key, one in (named if inputs is None else {**inputs, **named}).items():  # one loop: a plan comes here a million times
            if not isinstance(one, Figure):
                one = Figure(key, one)
            elif one.name != key:
                one = Figure(key, one.value, one.unit, one.origin, one.formula, one.inputs)
            values[key] = one.value
            parts.append(one)
        return Figure(as_name or self.name, whole(self.function(**values)), self.unit, "", self, tuple(parts))

    @property
    def expression(self) -> str:
        """The source text of the single `return`."""
        import ast
        import inspect
        import textwrap

        (function,) = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body
        assert isinstance(function, ast.FunctionDef)
        answer = function.body[-1]
        assert isinstance(answer, ast.Return) and answer.value is not None
        return ast.unparse(answer.value)


FORMULAS: dict[str, Formula] = {}


def formula(*, unit: str, ref: str = "") -> Callable[[Callable[..., Any]], Formula]:
    """Register a textbook equation. Its body is a docstring and one `return`; a test holds it to that."""

    def wrap(function: Callable[..., Any]) -> Formula:
        made = Formula(function, unit, ref)
        assert made.name not in FORMULAS, f"two formulas are called {made.name}"
        FORMULAS[made.name] = made
        return made

    return wrap


def total(name: str, unit: str, parts: tuple[Figure, ...]) -> Figure:
    """A sum of Figures, shown as the sum of its parts."""
    return Figure(name, whole(sum(part.value for part in parts)), unit, "sum", None, parts)


def larger(a: Any, b: Any) -> Any:
    """max(a, b), element by element when either is a numpy array."""
    if hasattr(a, "__array__") or hasattr(b, "__array__"):
        import numpy

        return numpy.maximum(a, b)
    return max(a, b)


def smaller(a: Any, b: Any) -> Any:
    """min(a, b), element by element when either is a numpy array."""
    if hasattr(a, "__array__") or hasattr(b, "__array__"):
        import numpy

        return numpy.minimum(a, b)
    return min(a, b)


def substituted(figure: Figure) -> str:
    """The formula with the values of its inputs put in: '2 * 36 * 8 * 128 * 2'."""
    if figure.formula is None:
        return " + ".join(plain(part.value) for part in figure.inputs)
    import re

    text = figure.formula.expression
    values = {part.name: plain(part.value) for part in figure.inputs}
    return re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0], word[0]), text)


def plain(value: Any) -> str:
    """A value as it is written in a derivation."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def walk(figure: Figure, depth: int = 0) -> Iterator[tuple[int, Figure]]:
    """The derivation tree, parents first."""
    yield depth, figure
    for part in figure.inputs:
        yield from walk(part, depth + 1)


def derivation(figure: Figure) -> dict[str, Any]:
    """The tree as JSON: {formula, substituted, value, unit, ref, inputs}, or {value, unit, origin} for a leaf."""
    if figure.formula is None and not figure.inputs:
        return {"value": figure.value, "unit": figure.unit, "origin": figure.origin}
    inputs: dict[str, Any] = {}
    for part in figure.inputs:
        key, copy = part.name, 2
        while key in inputs:
            key, copy = f"{part.name} ({copy})", copy + 1
        inputs[key] = derivation(part)
    return {
        "formula": figure.formula.expression if figure.formula else " + ".join(part.name for part in figure.inputs),
        "substituted": substituted(figure),
        "value": figure.value,
        "unit": figure.unit,
        "ref": figure.formula.ref if figure.formula else "",
        "inputs": inputs,
    }
