"""Where the data files are (bundled, the user's, cached), and how a file is read.

Every file is hostile until parsed: size, encoding and depth are bounded before a parser sees it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmcalc.errors import LlmcalcError, printable

if TYPE_CHECKING:
    import datetime

_PACKAGE = Path(__file__).resolve().parent
MAX_CONFIG_BYTES = 32 * 2**20  # the largest real config.json (22,422 quantised layers) has 3 MB
MAX_VALUES = 2**19  # that one has 67,000; each takes up to 200 bytes of memory


def bundled(folder: str) -> Path:
    """`hardware/`, `models/` or `measurements/`: beside the package in a checkout, inside it in a wheel."""
    inside = _PACKAGE / "_data" / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def _xdg(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    # The XDG specification: a relative value is to be ignored.
    base = Path(value) if os.path.isabs(value) else Path(os.path.expanduser("~")) / fallback
    return base / "llmcalc"


def user_config() -> Path:
    """The user's own profiles: $XDG_CONFIG_HOME/llmcalc, by default ~/.config/llmcalc."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def user_cache() -> Path:
    """What can be thrown away: $XDG_CACHE_HOME/llmcalc, by default ~/.cache/llmcalc."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def user_state() -> Path:
    """What a program remembers between runs: $XDG_STATE_HOME/llmcalc, by default ~/.local/state/llmcalc."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def today() -> datetime.date:
    """The day that ages are counted to; SOURCE_DATE_EPOCH fixes it, as for any reproducible output."""
    import datetime

    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdigit() and len(epoch) < 12:
        return datetime.datetime.fromtimestamp(int(epoch), datetime.UTC).date()
    return datetime.datetime.now(datetime.UTC).date()


def age_days(date: str) -> int:
    """Days since `2026-09-10`, `2026-09` or `2026`, counted from the last day that it may mean."""
    import calendar
    import datetime

    year, month, day = (*(int(part) for part in date.split("-")), 0, 0)[:3]
    month = month or 12
    return (today() - datetime.date(year, month, day or calendar.monthrange(year, month)[1])).days


def read_text(path: Path, what: str, limit: int = MAX_CONFIG_BYTES) -> str:
    """A UTF-8 file (BOM allowed) of at most `limit` bytes. Errors: file-unreadable, file-too-large, file-not-text."""
    try:
        if path.is_file() and path.stat().st_size > limit:
            raise LlmcalcError(
                "file-too-large",
                f"{path} is {path.stat().st_size:,} bytes; a {what} has at most {limit:,}",
                f"give the path of a {what}",
            )
        with path.open("rb") as stream:
            return decode(stream.read(limit + 1), str(path), what, limit)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise LlmcalcError("file-unreadable", f"cannot read {path}: {reason}", f"give the path of a readable {what}") from None


def decode(content: bytes, name: str, what: str, limit: int = MAX_CONFIG_BYTES) -> str:
    """Bytes to text under the same bounds as `read_text`; `name` is for the message."""
    if len(content) > limit:
        raise LlmcalcError("file-too-large", f"{name} is over {limit:,} bytes; a {what} has fewer", f"give a {what}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise LlmcalcError("file-not-text", f"{name} is not UTF-8 text (byte {problem.start})", f"a {what} is a UTF-8 text file") from None


def overfull(text: str) -> bool:
    """Whether a JSON text may hold more values than memory is kept for: a bomb of `[[],[],…` takes 25 times its size."""
    return text.count(",") + text.count("[") + text.count("{") > MAX_VALUES


def parse_json(text: str, name: str, what: str) -> Any:
    """JSON to Python. NaN and Infinity are kept as floats for the field checks to refuse. Errors: not-json.

    A key that stands twice in an object must say the same twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next((key for key, value in pairs if value != found[key]), None)
            if twice is not None:
                raise LlmcalcError("not-json", f"{name} gives {printable(twice, 40)} twice, with different values", "keep one of them")
        return found

    if overfull(text):
        raise LlmcalcError("not-json", f"{name} holds over {MAX_VALUES:,} values", f"a {what} has fewer")
    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError:
        raise LlmcalcError("not-json", f"{name} is nested too deeply", f"a {what} has a few levels") from None
    except ValueError as problem:
        where = (
            f"line {problem.lineno}, column {problem.colno}: {problem.msg}"
            if isinstance(problem, json.JSONDecodeError)
            else "a number of too many digits"
        )
        raise LlmcalcError("not-json", f"{name} is not JSON ({where})", f"give a {what}") from None


def parse_yaml(text: str, name: str, what: str) -> Any:
    """YAML to Python through the safe loader. Errors: not-yaml (also for duplicate keys, aliases and deep nesting)."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys: set[str] = set()
            for key, _ in node.value:
                if key.value in keys:
                    raise LlmcalcError("not-yaml", f"{name} gives {printable(key.value, 40)} twice", "keep one of them")
                keys |= {key.value} if isinstance(key.value, str) else set()
            return super().construct_mapping(node, deep)

        def construct_scalar(self, node: Any) -> Any:
            if node.tag.endswith(":int") and len(node.value) > 400:  # 0xfff… of any length is a number that nobody can print
                raise ValueError(f"a number of {len(node.value):,} digits")
            return super().construct_scalar(node)

    try:
        # An alias of an alias of an alias fills the memory; no profile needs one.
        if "*" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=base)):
            raise LlmcalcError("not-yaml", f"{name} uses a YAML alias", "write the value out")
        return yaml.load(text, Loader=Loader)  # noqa: S506 - a subclass of the safe loader
    except RecursionError:
        raise LlmcalcError("not-yaml", f"{name} is nested too deeply", f"a {what} has a few levels") from None
    except LlmcalcError:
        raise
    except Exception as problem:  # beside YAMLError, whatever a constructor does with a tag such as `!!timestamp x`
        mark = getattr(problem, "problem_mark", None)
        where = f"line {mark.line + 1}: {getattr(problem, 'problem', '')}" if mark else (str(problem) or "no text").splitlines()[0]
        raise LlmcalcError("not-yaml", f"{name} is not YAML ({where})", f"give a {what}") from None


def write_whole(path: str | Path, content: bytes) -> None:
    """A file, whole or not at all; one that is there keeps its mode and owner, a link stays one, a pipe or device is written to.

    Errors: OSError; ValueError, of a name with a NUL in it.
    """
    import stat
    import tempfile

    target = os.path.realpath(path)
    there = os.stat(path) if os.path.exists(path) else None
    if there is not None and (not stat.S_ISREG(there.st_mode) or not _ours(there)):
        with open(path, "wb") as stream:  # by its own name: what /dev/stdout leads to may have none
            stream.write(content)
        return
    new = ""
    try:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(target), delete=False) as made:
            new = made.name
            made.write(content)
        os.chmod(new, 0o666 & ~_umask() if there is None else stat.S_IMODE(there.st_mode))
        os.replace(new, target)
        new = ""
    finally:
        if new:
            with suppress(OSError):
                os.unlink(new)


def _ours(there: os.stat_result) -> bool:
    """Whether a new file would have the same owner and group, and no other name leads to the old one."""
    own = (os.geteuid(), os.getegid()) if hasattr(os, "geteuid") else (there.st_uid, there.st_gid)
    return (there.st_uid, there.st_gid) == own and there.st_nlink == 1


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
