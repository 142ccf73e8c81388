"""Syntax trees of our own files, parsed once in each test process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, from its module on."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
