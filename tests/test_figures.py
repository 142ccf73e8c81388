"""Formulas are single expressions, and Figures remember them."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import textwrap
from importlib import import_module

import numpy
import pytest

import llmcalc.formulas
from llmcalc.figures import FORMULAS, Figure, derivation, larger, smaller, substituted, total
from llmcalc.formulas import memory

for module in pkgutil.iter_modules(llmcalc.formulas.__path__):
    import_module(f"llmcalc.formulas.{module.name}")


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_formula_is_a_docstring_and_one_return(name: str) -> None:
    formula = FORMULAS[name]
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(formula.function))).body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 2
    assert isinstance(function.body[1], ast.Return)
    text = ast.get_docstring(function)
    assert text and text.partition("\n\n")[0].rstrip().endswith("]"), "the first paragraph ends in the unit"


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_formula_uses_only_arithmetic(name: str) -> None:
    """So that numpy arrays pass through: no branch, no call but larger and smaller (and other formulas)."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(FORMULAS[name].function))).body
    for node in ast.walk(function):
        assert not isinstance(node, ast.IfExp | ast.BoolOp | ast.Compare | ast.Lambda), ast.dump(node)
        if isinstance(node, ast.Call) and node not in getattr(function, "decorator_list", []):
            assert isinstance(node.func, ast.Name) and node.func.id in {"larger", "smaller", "formula", *FORMULAS}


def test_of_remembers() -> None:
    figure = memory.kv_bytes_per_token.of(
        layers=Figure("layers", 36, "", "config.json"), kv_heads=8, head_dim=128, bytes_per_element=Figure("width", 2, "B", "bf16")
    )
    assert figure.value == 147456  # Qwen3-8B, 36 x 2 x 8 x 128 x 2 B
    assert figure.unit == "B/token"
    assert substituted(figure) == "2 * 36 * 8 * 128 * 2"
    tree = derivation(figure)
    assert tree["formula"] == "2 * layers * kv_heads * head_dim * bytes_per_element"
    assert tree["inputs"]["layers"] == {"value": 36, "unit": "", "origin": "config.json"}
    assert tree["inputs"]["bytes_per_element"]["origin"] == "bf16"


def test_total_keeps_its_parts_apart() -> None:
    parts = (Figure("a", 1), Figure("a", 2), Figure("b", 3))
    tree = derivation(total("sum", "B", parts))
    assert tree["value"] == 6
    assert tree["substituted"] == "1 + 2 + 3"
    assert list(tree["inputs"]) == ["a", "a (2)", "b"]


def test_formulas_take_arrays() -> None:
    ctx = numpy.array([1, 1024, 8192])
    assert (memory.tokens_in_window(ctx, 1024) == numpy.array([1, 1024, 1024])).all()
    assert (larger(ctx, 100) == numpy.array([100, 1024, 8192])).all()
    assert (smaller(100, ctx) == numpy.array([1, 100, 100])).all()
    assert larger(2, 3) == 3 and smaller(2, 3) == 2
