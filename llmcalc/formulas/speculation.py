"""Speculative decoding: a cheap draft proposes, one pass of the target verifies, and the output is exactly the target's."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="tokens", ref="arXiv:2211.17192, theorem 3.8 and its eq. 1")
def expected_tokens_per_step(acceptance, draft_tokens):
    """Tokens that one verification yields, the target's own last one included; acceptance below 1. Valid for 0 ≤ acceptance < 1. [tokens]

    >>> expected_tokens_per_step(0.8, 4)
    3.3616
    """
    return (1 - acceptance ** (draft_tokens + 1)) / (1 - acceptance)


@formula(unit="tokens", ref="arXiv:2211.17192")
def all_accepted_tokens(draft_tokens):
    """Tokens of one verification when every draft is accepted. [tokens]

    >>> all_accepted_tokens(4)
    5
    """
    return draft_tokens + 1


@formula(unit="x", ref="arXiv:2211.17192, theorem 3.8")
def ideal_speedup(expected_tokens_per_step, draft_tokens, draft_cost):
    """Gain when verifying takes as long as one plain step, and a draft takes draft_cost of it. [1]

    >>> ideal_speedup(3.3616, 4, 0.1)
    2.4011428571428572
    """
    return expected_tokens_per_step / (draft_tokens * draft_cost + 1)


@formula(unit="x", ref="arXiv:2211.17192, theorem 3.11")
def operations_factor(acceptance, draft_tokens, draft_operations):
    """Arithmetic per token against plain decoding: rejected drafts are computed in vain. [1]

    >>> operations_factor(0.8, 4, 0.1)
    1.606377915278439
    """
    return (1 - acceptance) * (draft_tokens * draft_operations + draft_tokens + 1) / (1 - acceptance ** (draft_tokens + 1))


@formula(unit="s", ref="arXiv:2211.17192")
def speculative_step_s(verify_s, draft_tokens, draft_s):
    """Drafting one token after another, then verifying them together. [s]

    >>> speculative_step_s(0.02, 4, 0.002)
    0.028
    """
    return verify_s + draft_tokens * draft_s


@formula(unit="s", ref="arXiv:2211.17192")
def speculative_tpot_s(step_time_s, expected_tokens_per_step):
    """Time per token of a sequence. [s]

    >>> speculative_tpot_s(0.028, 3.5)
    0.008
    """
    return step_time_s / expected_tokens_per_step


@formula(unit="x", ref="arXiv:2211.17192")
def speedup(plain_s, speculative_tpot_s):
    """How many times faster than plain decoding. [1]

    >>> speedup(0.02, 0.008)
    2.5
    """
    return plain_s / speculative_tpot_s
