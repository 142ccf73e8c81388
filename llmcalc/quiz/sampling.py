"""Speculative decoding, and how tokens are drawn."""

# ruff: noqa: D103 - what a template asks stands in the catalogue, under its name

from __future__ import annotations

from typing import Any

from llmcalc.estimate import speculation as proofs
from llmcalc.figures import Figure, total
from llmcalc.formulas import memory as f
from llmcalc.formulas import sampling, speculation
from llmcalc.quiz.draw import Draw
from llmcalc.quiz.question import Question
from llmcalc.quiz.template import template


def _drafts(draw: Draw) -> tuple[tuple[float, ...], tuple[float, ...]]:
    pairs = (
        ((0.6, 0.4), (0.9, 0.1)),
        ((0.5, 0.3, 0.2), (0.7, 0.2, 0.1)),
        ((0.7, 0.2, 0.1), (0.5, 0.3, 0.2)),
        ((0.4, 0.4, 0.2), (0.6, 0.1, 0.3)),
        ((0.8, 0.15, 0.05), (0.6, 0.3, 0.1)),
        ((0.5, 0.25, 0.25), (0.2, 0.4, 0.4)),
        ((0.9, 0.1), (0.6, 0.4)),
        ((0.3, 0.7), (0.5, 0.5)),
    )
    return draw.choose(pairs)


def _listed(values: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{each:g}" for each in values) + ")"


def _proved(p: tuple[float, ...], q: tuple[float, ...], result: str) -> dict[str, Any]:
    """What `spec --p --q` works out in fractions."""
    texts = [[f"{each:g}" for each in values] for values in (p, q)]
    proof = proofs.exactness(proofs.distribution(texts[0], "p"), proofs.distribution(texts[1], "q"))
    command = ("spec", "--p", ",".join(texts[0]), "--q", ",".join(texts[1]))
    return {"answer": float(proof[result]), "unit": "share", "command": command, "result": result, "p": _listed(p), "q": _listed(q)}


@template("speculation", 2)
def spec_acceptance(draw: Draw) -> Question:
    p, q = _drafts(draw)
    parts = tuple(sampling.accepted_share.of(as_name=f"token {name}", target=a, draft=b) for name, a, b in zip("ABC", p, q, strict=False))
    figure = total("acceptance", "", parts)
    product = sum(a * b for a, b in zip(p, q, strict=True))
    return draw.number(**_proved(p, q, "acceptance"), figure=figure, slips={"slip.rejected": 1 - figure.value, "slip.product": product})


@template("speculation", 2)
def spec_rejected(draw: Draw) -> Question:
    p, q = _drafts(draw)
    accepted = sum(sampling.accepted_share(a, b) for a, b in zip(p, q, strict=True))
    figure = Figure("rejected", 1 - accepted, "", "1 - acceptance", None, (Figure("acceptance", accepted, "", "sum of min(p, q)"),))
    return draw.number(**_proved(p, q, "rejection"), figure=figure, slips={"slip.accepted": accepted})


def _spec(alpha: float, gamma: int, price: float) -> tuple[str, ...]:
    """The answer does not depend on the model and the device; the command wants some."""
    return (
        "spec",
        "-m",
        "Qwen/Qwen3-8B",
        "-d",
        "h100-sxm",
        "--acceptance",
        f"{alpha:g}",
        "--draft-tokens",
        str(gamma),
        "--draft-cost",
        f"{price:g}",
    )


def _speculated(draw: Draw) -> tuple[float, int, Figure]:
    alpha, gamma = draw.choose((0.5, 0.6, 0.7, 0.8, 0.9)), draw.choose((1, 2, 3, 4, 5, 7))
    return alpha, gamma, speculation.expected_tokens_per_step.of(acceptance=alpha, draft_tokens=gamma)


@template("speculation", 2)
def spec_expected(draw: Draw) -> Question:
    alpha, gamma, figure = _speculated(draw)
    return draw.number(
        figure.value,
        "tokens",
        figure=figure,
        alpha=alpha,
        gamma=gamma,
        slips={"slip.bonus": figure.value - 1, "slip.all_or_nothing": alpha * gamma},
        command=_spec(alpha, gamma, 0.05),
        result="expected_tokens_per_step",
    )


@template("speculation", 3)
def spec_speedup(draw: Draw) -> Question:
    alpha, gamma, expected = _speculated(draw)
    price = draw.choose((0.02, 0.05, 0.1, 0.2))
    figure = speculation.ideal_speedup.of(expected_tokens_per_step=expected, draft_tokens=gamma, draft_cost=price)
    return draw.number(
        figure.value,
        "ratio",
        figure=figure,
        alpha=alpha,
        gamma=gamma,
        price=price,
        expected=f"{expected.value:.3g}",
        slips={"slip.draft_free": expected.value, "slip.bonus": (expected.value - 1) / (gamma * price + 1)},
        command=_spec(alpha, gamma, price),
        result="ideal_speedup",
    )


LOGITS = (2.0, 1.0, 0.1)


CHANCES = tuple(zip("ABC", LOGITS, strict=True))


def _probability(temperature: float, index: int = 0) -> Figure:
    parts = tuple(
        sampling.boltzmann_weight.of(
            as_name=f"weight of {name}",
            logit=Figure("logit", logit, "", "given"),
            temperature=Figure("temperature", temperature, "", "given"),
        )
        for name, logit in CHANCES
    )
    return f.share.of(as_name="probability", part=parts[index], whole=total("all", "", parts))


@template("sampling", 2)
def sampling_temperature(draw: Draw) -> Question:
    temperature = draw.choose((0.5, 0.6, 0.7, 1.0, 1.5, 2.0))
    index = draw.choose((0, 0, 1, 2))
    figure = _probability(temperature, index)
    slips = {
        "slip.no_softmax": LOGITS[index] / sum(LOGITS),
        "slip.times_temperature": sampling.softmax(LOGITS, 1 / temperature)[index],
        "slip.t1": sampling.softmax(LOGITS)[index],
    }
    return draw.number(figure.value, "share", figure=figure, temperature=temperature, token="ABC"[index], slips=slips)


@template("sampling", 2)
def sampling_top_k(draw: Draw) -> Question:
    temperature = draw.choose((0.5, 0.7, 1.0, 1.5, 2.0))
    index = draw.choose((0, 1))
    before = sampling.softmax(LOGITS, temperature)
    kept = tuple(_probability(temperature, each) for each in (0, 1))
    figure = f.share.of(as_name="probability", part=kept[index], whole=total("kept", "", kept))
    return draw.number(
        figure.value,
        "share",
        figure=figure,
        temperature=temperature,
        token="ABC"[index],
        before=_listed(tuple(round(each, 3) for each in before)),
        slips={"slip.renormalise": before[index]},
    )


@template("sampling", 2)
def sampling_top_p(draw: Draw) -> Question:
    temperature, p = draw.choose((0.5, 0.7, 1.0, 1.5, 2.0)), draw.choose((0.5, 0.8, 0.9, 0.95))
    before = sampling.softmax(LOGITS, temperature)
    kept = sum(each > 0 for each in sampling.top_p(before, p))
    figure = total("mass", "", tuple(_probability(temperature, each) for each in range(kept)))
    return draw.number(
        kept,
        "tokens",
        figure=figure,
        temperature=temperature,
        p=p,
        before=_listed(tuple(round(each, 3) for each in before)),
        mass=f"{figure.value:.3g}",
        slips={"slip.below_p": max(1, kept - 1)},
    )
