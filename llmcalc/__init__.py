"""Back-of-envelope LLM capacity and cost, exact where exactness is possible."""

from __future__ import annotations

__version__ = "0.1.0"
