"""Weights in the host's memory: read and multiplied there, or copied over the bus to where they are multiplied."""

from __future__ import annotations

from llmcalc.figures import formula, larger, smaller


@formula(unit="s", ref="ikawrakow/ik_llama.cpp#258 and #357, ktransformers' tables; constants in estimate/hosting.py")
def host_part_s(read_s, read_share, compute_s, compute_share, crossings, crossing_s):
    """What of a step is done on the host: reading or arithmetic, whichever is longer, and the ways there and back. [s]

    >>> host_part_s(0.01, 0.5, 0.005, 0.2, 48, 5e-05)
    0.0274
    """
    return larger(read_s / read_share, compute_s / compute_share) + crossings * crossing_s


@formula(unit="s", ref="llama.cpp copies from 32 tokens on; constants in estimate/hosting.py")
def host_chunk_s(copy_s, copy_share, compute_s, compute_share):
    """What a chunk of a prompt waits for the host's weights: copied over the bus, or multiplied there, whichever is quicker. [s]

    >>> host_chunk_s(0.3, 0.75, 0.5, 0.5)
    0.4
    """
    return smaller(copy_s / copy_share, compute_s / compute_share)
