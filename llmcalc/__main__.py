"""The console script, and python -m llmcalc."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enums, which take a millisecond in which an interrupt would print a traceback

LISTENS = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
if LISTENS:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import gc  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402


def run() -> None:
    """An interrupt while modules load, or after all is said, ends the process as it ends any other: without a traceback."""
    gc.set_threshold(100_000)  # what modules leave behind while they load is no garbage: looking for some took 4 ms
    from llmcalc.cli import main

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the shell closed it: <&-, >&-
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives
    try:
        if LISTENS:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        code = main()
        if LISTENS:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    except KeyboardInterrupt:
        code = 130
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # nobody reads it: Python would try again at exit, and end with 120
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


if __name__ == "__main__":
    run()
