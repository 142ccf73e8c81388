"""What --help says: options under the headings of their groups, a line for each; what else they are called; examples."""

from __future__ import annotations

import re
import shutil
import textwrap
from inspect import cleandoc
from typing import Any

LABEL = 25
"""Characters of an option's name that stand before its words."""


def page(command: Any, sections: tuple[str, ...], ctx: Any, formatter: Any) -> None:
    """A command's help into typer's formatter."""
    params = command.get_params(ctx)
    must = [f"{_names(param)[0]} {param.metavar}" for param in params if param.required and param.param_type_name == "option"]
    formatter.write_usage(ctx.command_path, " ".join([*must, *command.collect_usage_pieces(ctx)]))
    formatter.indent()
    formatter.write_text(cleandoc(command.help or ""))
    formatter.dedent()
    _options(params, sections, ctx, formatter)
    for text in (command.epilog or "").strip("\n").split("\n\n"):
        formatter.write("\n".join(_to_copy(text) if "llmcalc " in text else textwrap.wrap(text, formatter.width)) + "\n")


def _to_copy(text: str) -> list[str]:
    """An example as a shell takes it: a long one goes on behind a backslash, never broken at a hyphen or inside of quotes."""
    width = max(min(shutil.get_terminal_size().columns, 80) - 4, 20)
    whole = re.sub("'[^']*'", lambda quoted: quoted[0].replace(" ", "\0"), text.strip())
    whole = re.sub(r"( --?\w[-\w]*) (?=[^-|>])", "\\1\0", whole)  # an option and its value
    lines = textwrap.wrap(whole, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [f"  {line}" for line in " \\\n".join(lines).replace("\0", " ").split("\n")]


def _options(params: list[Any], sections: tuple[str, ...], ctx: Any, formatter: Any) -> None:
    """All that are not hidden."""
    found: dict[str, list[tuple[str, str]]] = {}
    others: list[str] = []
    for param in params:
        record = param.get_help_record(ctx)
        if record is None:
            continue
        words = re.sub(r"\s*\[required\]$", "", record[1].replace("  [", " ["))
        section, name = getattr(param, "rich_help_panel", None) or sections[0], record[0].partition(" <")[0]
        if param.param_type_name == "option":
            section = "Output" if param.name == "help" else section
            name = ", ".join(_names(param)) + ("" if param.is_flag else f" {param.metavar}")
            others += [each for each in param.opts if each not in _names(param)]
        found.setdefault(section, []).append((name, words))
    room = LABEL if formatter.width > 60 else 12
    for section in sorted(found, key=sections.index):
        formatter.write_heading(section)
        formatter.indent()
        formatter.write_dl([(f"{name:<{room}}", words) for name, words in found[section]], col_max=room)
        formatter.dedent()
    if others:
        told = "Also understood: " + " ".join(others)
        lines = textwrap.wrap(told, formatter.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        formatter.write("".join(f"{line}\n" for line in lines))


def _names(param: Any) -> list[str]:
    """Its names on its line: one letter, if it has one, and one word."""
    return [name for pattern in (r"-\w", "--.+") for name in [each for each in param.opts if re.fullmatch(pattern, each)][:1]]
