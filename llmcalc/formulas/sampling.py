"""Sampling: logits to probabilities, and what temperature, top-k and top-p leave of them."""

from __future__ import annotations

from collections.abc import Sequence

from llmcalc.figures import formula, smaller


@formula(unit="", ref="arXiv:1904.09751")
def boltzmann_weight(logit, temperature):
    """exp(logit / temperature), the share of a token before the sum over all of them divides it. [1]

    >>> boltzmann_weight(2, 0.5)
    54.598150033144236
    """
    return 2.718281828459045 ** (logit / temperature)


@formula(unit="", ref="arXiv:2211.17192")
def accepted_share(target, draft):
    """Probability that a token is drafted and accepted, q · min(1, p/q); its sum over the tokens is the acceptance. [1]

    >>> accepted_share(0.6, 0.25)
    0.25
    """
    return smaller(target, draft)


def softmax(logits: Sequence[float], temperature: float = 1.0) -> tuple[float, ...]:
    """Probabilities at a temperature above 0. [1]"""
    top = max(logits)
    weights = [boltzmann_weight(logit - top, temperature) for logit in logits]
    return tuple(weight / sum(weights) for weight in weights)


def top_k(probabilities: Sequence[float], k: int) -> tuple[float, ...]:
    """The k most probable tokens, renormalised; the others become 0. [1]"""
    return _kept(probabilities, k)


def top_p(probabilities: Sequence[float], p: float) -> tuple[float, ...]:
    """The fewest most probable tokens whose sum reaches p, renormalised; the others become 0. [1]"""
    reached = 0.0
    for count, probability in enumerate(sorted(probabilities, reverse=True), 1):
        reached += probability
        if reached >= p:
            return _kept(probabilities, count)
    return _kept(probabilities, len(probabilities))


def _kept(probabilities: Sequence[float], count: int) -> tuple[float, ...]:
    order = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])[: max(count, 1)]
    mass = sum(probabilities[index] for index in order)
    return tuple(probability / mass if index in order else 0.0 for index, probability in enumerate(probabilities))
