"""Speculative decoding: a cheap draft proposes, one pass of the target verifies, and the output is exactly the target's."""

from __future__ import annotations

from llmcalc.figures import formula


@formula(unit="tokens", ref="arXiv:2211.17192, theorem 3.8 and its eq. 1")
def expected_tokens_per_step(acceptance, draft_tokens):
    """Tokens that one verification yields, the target's own last one included; acceptance below 1. [tokens]"""
    return (1 - acceptance ** (draft_tokens + 1)) / (1 - acceptance)


@formula(unit="tokens", ref="arXiv:2211.17192")
def all_accepted_tokens(draft_tokens):
    """Tokens of one verification when every draft is accepted. [tokens]"""
    return draft_tokens + 1


@formula(unit="x", ref="arXiv:2211.17192, theorem 3.8")
def ideal_speedup(expected_tokens_per_step, draft_tokens, draft_cost):
    """Gain when verifying takes as long as one plain step, and a draft takes draft_cost of it. [1]"""
    return expected_tokens_per_step / (draft_tokens * draft_cost + 1)


@formula(unit="x", ref="arXiv:2211.17192, theorem 3.11")
def operations_factor(acceptance, draft_tokens, draft_operations):
    """Arithmetic per token against plain decoding: rejected drafts are computed in vain. [1]"""
    return (1 - acceptance) * (draft_tokens * draft_operations + draft_tokens + 1) / (1 - acceptance ** (draft_tokens + 1))


@formula(unit="s")
def speculative_step_s(verify_s, draft_tokens, draft_s):
    """Drafting one token after another, then verifying them together. [s]"""
    return verify_s + draft_tokens * draft_s


@formula(unit="s")
def speculative_tpot_s(step_time_s, expected_tokens_per_step):
    """Time per token of a sequence. [s]"""
    return step_time_s / expected_tokens_per_step


@formula(unit="x")
def speedup(plain_s, speculative_tpot_s):
    """How many times faster than plain decoding. [1]"""
    return plain_s / speculative_tpot_s
