"""Every formula, run on quantities with dimensions: the result has the dimension that the formula declares.

Tokens, sequences, layers, experts, parameters and FLOP are counts. A bit stands for an eighth of a byte, and the hour in a
price for 3,600 seconds, so only dimensions are compared.
"""

from __future__ import annotations

import pkgutil
import re
import warnings
from importlib import import_module

import pint
import pytest

import llmcalc.formulas
from llmcalc.figures import FORMULAS

for module in pkgutil.iter_modules(llmcalc.formulas.__path__):
    import_module(f"llmcalc.formulas.{module.name}")

UNITS = pint.UnitRegistry()
UNITS.define("usd = [currency]")

# The last part of a parameter's name says its dimension; what is not here is a count.
BY_NAME = [
    (r"usd_per_kwh", "usd / kWh"),
    (r"usd_per_(\w+_)?hour", "usd / hour"),
    (r"usd_per_month", "usd / month"),
    (r"(\w+_)?usd(_per_\w+)?", "usd"),
    (r"(\w+_)?bytes_per_s|bandwidth\w*", "byte / second"),
    (r"(tokens|flops|requests)_per_s(_\w+)?|rate|\w+_rate|arrivals_per_s", "1 / second"),
    (r"(\w+_)?(bytes|bits|bytes_per_\w+|bits_per_\w+|part|whole)|bytes_\w+", "byte"),
    (r"seconds_per_\w+|(\w+_)?s|(\w+_)?s_per_\w+|\w+_seconds", "second"),
    (r"\w+_s2", "second ** 2"),
    (r"power(_cap)?_w", "watt"),
    (r"years", "year"),
    (r"hours\w*", "hour"),
]
# Counts whose names look like something else.
COUNTS = {"hit_rate", "acceptance_rate", "prefix_tokens_per_s"}
DECLARED = {"B": "byte", "s": "second", "J": "joule", "usd": "usd", "h": "hour", "bit": "byte", "W": "watt", "month": "month"}


def dimension_of(name: str) -> str:
    if name in COUNTS:
        return "dimensionless"
    return next((unit for pattern, unit in BY_NAME if re.fullmatch(pattern, name)), "dimensionless")


def declared(unit: str) -> pint.Unit:
    """'B/token' -> byte, 'tokens/s' -> 1/second: words that are not physics count things."""
    over, _, under = unit.partition("/")
    made = UNITS.Unit("dimensionless")
    for word, sign in ((over, 1), (under, -1)):
        if word in DECLARED:
            made = made * UNITS.Unit(DECLARED[word]) ** sign
    return made


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_the_dimension_of_a_formula(name: str) -> None:
    formula = FORMULAS[name]
    values = [UNITS.Quantity(1.5 + 0.25 * place, dimension_of(parameter)) for place, parameter in enumerate(formula.parameters)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pint.UnitStrippedWarning)
        result = UNITS.Quantity(formula(*values))
    assert result.dimensionality == declared(formula.unit).dimensionality, f"{name}: {result.units} instead of {formula.unit!r}"


def test_a_wrong_dimension_is_noticed() -> None:
    """The test itself: bytes over bytes per second, times seconds, is no time."""
    wrong = UNITS.Quantity(1, "byte") / UNITS.Quantity(1, "byte / second") * UNITS.Quantity(1, "second")
    assert wrong.dimensionality != declared("s").dimensionality
    assert declared("tokens/s").dimensionality == UNITS.Unit("1 / second").dimensionality
    assert declared("B/token").dimensionality == UNITS.Unit("byte").dimensionality
