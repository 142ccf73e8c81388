"""The command line: registers the commands, and is the one error boundary."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any

import typer
import typer.core

from llmcalc import __version__
from llmcalc.commands import COMMANDS, GROUPS
from llmcalc.commands.parse import typed
from llmcalc.commands.spoken import flags
from llmcalc.errors import LlmcalcError, UsageError, close_matches, encodable, printable

ABOUT = "Back-of-envelope LLM capacity and cost: exact where exactness is possible, honest about its error where it is not."


COMPLETE = "_LLMCALC_COMPLETE"
"""Set by a shell that asks what a half-typed word may become."""


class AsGiven:
    """A word stays as it was typed: typer would import pydantic, a third of `kv`, to make sure of it."""

    def coerce(self, value: Any, **_: Any) -> Any:
        """The value."""
        return value


class _Plain:
    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, exempt from conversion. A typer that asks nothing of this name converts them."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in found:
            param.get_runtime_param = AsGiven
            if COMPLETE in os.environ and getattr(param, "help", None):
                param.help = _unquoted(param.help)
        return found

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence."""
        return _unquoted((self.help or "").strip().partition("\n")[0])  # type: ignore[attr-defined]


class Command(_Plain, typer.core.TyperCommand):
    """A command that takes words as they were typed, in short or as other tools spell them, and whose help has its options in groups."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words, in full."""
        if not ctx.resilient_parsing:  # of a shell that completes
            from llmcalc.commands import spelled

            args = spelled.in_full(self, ctx, args)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Options; a bare word is the model's or the device's name, whichever is missing."""
        found = super().shell_complete(ctx, incomplete)
        if found or incomplete.startswith("-"):
            return found
        params = {param.name: param for param in self.params}
        open_ = [params[name] for name in ("model", "hardware") if name in params and ctx.params.get(name) is None]
        return open_[len(ctx.args)].shell_complete(ctx, incomplete) if len(ctx.args) < len(open_) else []

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """What must be given, what may be, examples."""
        from llmcalc.commands import helped, options

        helped.page(self, options.SECTIONS, ctx, formatter)


class Group(_Plain, typer.core.TyperGroup):
    """Commands, likewise."""


def _unquoted(text: str) -> str:
    """A description as zsh takes it between its own quotes."""
    return text.replace("'", "’").replace('"', "”") if COMPLETE in os.environ else text


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"llmcalc {__version__}\n")
        raise typer.Exit


def build(command: str | None = None) -> typer.Typer:
    """The typer app with this command, the only one that is imported; without one, with what a list of them needs."""
    wide = shutil.get_terminal_size().columns - 1  # typer wraps help at 50 columns or more
    app = typer.Typer(
        name="llmcalc",
        cls=Group,
        help=ABOUT,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], **({"terminal_width": wide} if wide < 52 else {})},
    )

    @app.callback()
    def options(
        version: Annotated[bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")] = False,
    ) -> None:
        pass

    options.__doc__ = ABOUT
    if command is not None:
        import_module(f"llmcalc.commands.{command}").register(app)
        for group in app.registered_groups:
            group.cls = Group
        for one in (app, *(group.typer_instance for group in app.registered_groups)):
            for info in one.registered_commands if one else ():
                info.cls = Command
    else:
        for name in COMMANDS:
            app.command(name, help=_summary(name), cls=Command)(lambda: None)
    return app


def _summary(name: str) -> str:
    """What a command's first line says after its name, read without importing it (30 ms for all)."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "commands", f"{name}.py"), encoding="utf-8") as stream:
            text = stream.readline().strip().strip('"').partition(": ")[2]
    except OSError:  # an archive instead of a folder
        text = ""
    return text[:1].upper() + text[1:]


def _complete() -> None:
    """Answer the shell and leave. Only the command that is being typed loads, and nothing is said whatever goes wrong."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = f"{line}.".split()  # an empty last word counts; bash puts line feeds between them
    try:
        app = build(words[1] if len(words) > 2 and words[1] in COMMANDS else None)
        app([], prog_name="llmcalc", standalone_mode=False)
    except Exception:
        raise SystemExit(1) from None


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code. Only LLMCALC_DEBUG=1 shows a traceback."""
    args = sys.argv[1:] if arguments is None else arguments
    for library in ("OPENBLAS", "OMP", "MKL", "VECLIB"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # small matrices: threads waiting for each other took 20 times as long
    _sane_width()
    if COMPLETE in os.environ:
        _complete()
    args = _in_short(args[1:] if args[:1] == ["--"] else args)
    command = args[0] if args and args[0] in COMMANDS else None
    typed.set(shlex.join(["llmcalc", *args]))
    try:
        if args in ([], ["--help"], ["-h"]):
            sys.stdout.write(encodable(_front(), getattr(sys.stdout, "encoding", None)))
            sys.stdout.flush()
            return 0
        if args and command is None and not args[0].startswith("-"):
            near = close_matches(args[0], COMMANDS)
            hint = f"did you mean {near[0]}?" if near else "llmcalc --help shows the commands"
            raise UsageError("usage", f"no such command: {printable(args[0], 60)}", hint)
        code = build(command)(args, prog_name="llmcalc", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except LlmcalcError as problem:
        return _fail(args, command, problem.code, problem.message, problem.hint, problem.exit_code, problem)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except typer.Exit as leaving:
        return int(leaving.exit_code)
    except (BrokenPipeError, SystemExit):  # typer makes a closed pipe a SystemExit
        _no_stdout()
        return 0
    except MemoryError:
        pass  # told once the frames that hold the memory are gone
    except Exception as problem:
        if _interrupted(problem):
            return 130
        if hasattr(problem, "format_message"):  # typer's own usage errors, without importing its internals
            from llmcalc.commands import spelled

            said = problem.format_message()
            hint = spelled.hint(said) or (f"llmcalc help {command} shows the options" if command else "llmcalc --help shows the commands")
            return _fail(args, command, "usage", printable(spelled.told(said), 300), hint, 2, problem)
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
    hint = "ask for less at a time, or allow more memory (ulimit -v, cgroup)"
    return _fail(args, command, "out-of-memory", "there is not enough memory for this", hint, 1, MemoryError())


WIDEST = 1000


def _sane_width() -> None:
    """COLUMNS as a width that a terminal may have: a line of 1,000,000,000 spaces takes 9 GB."""
    given = os.environ.get("COLUMNS", "")
    if given:
        columns = int(given) if given.isascii() and given.isdigit() and len(given) < 6 else 0
        os.environ["COLUMNS"] = str(min(columns, WIDEST) or 80)


NEEDS = frozenset(
    {"kv", "weights", "fit", "decode", "prefill", "quant", "spec", "layouts", "roofline", "cost", "compare", "pareto"}
) | frozenset({"plan", "report", "rank", "simulate", "prefix", "levers", "models", "hardware"})
"""Commands that say nothing alone: bare, they show their help."""
LISTS = {"models": ("list", "show", "check"), "hardware": ("list", "show", "check")}
"""Commands of commands: a word that is none of theirs is looked for."""
NO_NETWORK = frozenset({"hardware", "quiz", "accuracy", "doctor"})
"""Commands that never ask the network: --offline holds without a word."""


def _in_short(args: list[str]) -> list[str]:
    """What people type in short, in full: `help kv`, a bare command."""
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"] if args[1:2] else ["--help"]
    if not args or args[0] not in COMMANDS:
        return args
    command, rest = args[0], args[1:]
    if command in NEEDS and not rest:
        return [command, "--help"]
    if command in LISTS and not rest[0].startswith("-") and not close_matches(rest[0], LISTS[command]):
        rest = ["list", *rest]
    if command in NO_NETWORK:
        rest = [word for word in rest if word != "--offline"]
    return [command, *rest]


def _front() -> str:
    """The first screen: what it is, three examples, the commands by what they are for."""
    lines = [
        "llmcalc: how much memory, how fast, how much money does a language model take?",
        "",
        "  llmcalc fit Qwen/Qwen3-8B rtx-4090            does it fit, and how often",
        "  llmcalc decode Qwen/Qwen3-32B 2xh100 -b 16    how fast does it write",
        "  llmcalc plan Qwen/Qwen3-8B --rate 12 --prompt 2k --output-tokens 300",
        "",
    ]
    for group, members in GROUPS.items():
        for number in range(0, len(members), 2):
            pair = "".join(
                f"{name:<9}{words:<27}" if number + 1 < len(members) else f"{name:<9}{words}"
                for name, words in members[number : number + 2]
            )
            lines.append(f"  {group if number == 0 else '':<9}{pair}".rstrip())
    return "\n".join([*lines, "", "  llmcalc help COMMAND explains one; --version says which release this is", ""])


def _interrupted(problem: BaseException | None) -> bool:
    """Whether an interrupt is behind an error: one that comes while a class is made is a RuntimeError to Python 3.11."""
    while problem is not None and not isinstance(problem, KeyboardInterrupt):
        problem = problem.__cause__ or problem.__context__
    return problem is not None


def _fail(args: list[str], command: str | None, code: str, message: str, hint: str | None, status: int, problem: Exception) -> int:
    if os.environ.get("LLMCALC_DEBUG") == "1":
        import traceback

        traceback.print_exception(problem)
    hint = hint and flags(hint)
    text = f"Error: {printable(message, 1000)}\n" + (f"Hint: {printable(hint, 1000)}\n" if hint else "")
    try:
        if _wants_json(args):
            from llmcalc.present import as_json

            sys.stdout.write(as_json.error(command, code, message, hint))
            sys.stdout.flush()
            return status
    except BrokenPipeError:
        text = ""
    except OSError:
        pass  # a full disk: say it where it can be said
    if code == "system" or not text:
        _no_stdout()
    with suppress(OSError):
        sys.stderr.write(_coloured(encodable(text, getattr(sys.stderr, "encoding", None))))
        sys.stderr.flush()
    return status


def _coloured(text: str) -> str:
    """An error's first word in red, where the terminal has colours and nobody minds (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else text.replace("Error:", "\x1b[31mError:\x1b[0m", 1)


def _no_stdout() -> None:
    """Nobody reads or holds what is left to write; Python would complain once more when it flushes at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _wants_json(args: list[str]) -> bool:
    if "--json" in args or "--format=json" in args or "-fjson" in args:
        return True
    return any(flag in ("-f", "--format") and value == "json" for flag, value in pairwise(args))
