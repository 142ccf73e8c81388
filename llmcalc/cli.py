"""The command line: registers the commands, and is the one error boundary."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from llmcalc import __version__
from llmcalc.commands import COMMANDS
from llmcalc.errors import LlmcalcError, close_matches, printable

ABOUT = "Back-of-envelope LLM capacity and cost: exact where exactness is possible, honest about its error where it is not."


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"llmcalc {__version__}\n")
        raise typer.Exit


def build(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """The typer app with these commands. A run that names its command imports no other."""
    app = typer.Typer(
        name="llmcalc",
        help=ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        version: Annotated[bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")] = False,
    ) -> None:
        pass

    options.__doc__ = ABOUT
    for name in names:
        import_module(f"llmcalc.commands.{name.replace('-', '_')}").register(app)
    return app


COMPLETE = "_LLMCALC_COMPLETE"
"""Set by a shell that asks what a half-typed word may become."""


def _complete() -> None:
    """Answer the shell and leave. Only the command that is being typed loads, and nothing is said whatever goes wrong."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = f"{line}.".split()  # an empty last word counts; bash puts line feeds between them
    try:
        if len(words) > 2 and words[1] in COMMANDS:
            app = build((words[1],))
        else:
            app = build(())
            for name in COMMANDS:
                app.command(name)(lambda: None)
        app([], prog_name="llmcalc", standalone_mode=False)
    except Exception:
        raise SystemExit(1) from None


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code. Only LLMCALC_DEBUG=1 shows a traceback."""
    args = sys.argv[1:] if arguments is None else arguments
    if COMPLETE in os.environ:
        _complete()
    command = args[0] if args and args[0] in COMMANDS else None
    try:
        if args and command is None and not args[0].startswith("-"):
            near = close_matches(args[0], COMMANDS)
            raise LlmcalcUsage(args[0], near)
        code = build((command,) if command else COMMANDS)(args, prog_name="llmcalc", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except LlmcalcError as problem:
        return _fail(args, command, problem.code, problem.message, problem.hint, problem.exit_code, problem)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except BrokenPipeError:
        # The reader has gone. Python would complain once more when it flushes at exit: give it somewhere to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except Exception as problem:
        if hasattr(problem, "format_message"):  # typer's own usage errors, without importing its internals
            hint = f"llmcalc {command} --help shows the options" if command else "llmcalc --help shows the commands"
            return _fail(args, command, "usage", printable(problem.format_message(), 300), hint, 2, problem)
        if isinstance(problem, OSError):
            return _fail(args, command, "system", f"the system says: {problem.strerror or problem}", None, 1, problem)
        return _fail(
            args,
            command,
            "internal",
            f"llmcalc failed inside ({type(problem).__name__}: {printable(str(problem), 200)})",
            "LLMCALC_DEBUG=1 shows where; please report it",
            1,
            problem,
        )


class LlmcalcUsage(LlmcalcError):
    """A word that is no command."""

    exit_code = 2

    def __init__(self, word: str, near: list[str]) -> None:
        hint = f"did you mean {near[0]}?" if near else "llmcalc --help shows the commands"
        super().__init__("usage", f"no such command: {printable(word, 60)}", hint)


def _fail(args: list[str], command: str | None, code: str, message: str, hint: str | None, status: int, problem: Exception) -> int:
    if os.environ.get("LLMCALC_DEBUG") == "1":
        import traceback

        traceback.print_exception(problem)
    try:
        if _wants_json(args):
            from llmcalc.present import as_json

            sys.stdout.write(as_json.error(command, code, message, hint))
            sys.stdout.flush()
        else:
            text = f"Error: {printable(message, 1000)}\n" + (f"Hint: {printable(hint, 1000)}\n" if hint else "")
            encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
            sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
            sys.stderr.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status


def _wants_json(args: list[str]) -> bool:
    if "--json" in args or "--format=json" in args or "-fjson" in args:
        return True
    return any(flag in ("-f", "--format") and value == "json" for flag, value in zip(args, args[1:], strict=False))


def run() -> None:
    """The console script."""
    sys.exit(main())
