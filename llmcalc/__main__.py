"""The console script, and python -m llmcalc."""

from __future__ import annotations

import gc
import os
import signal
import sys


def run() -> None:
    """An interrupt while modules load, or after all is said, ends the process as it ends any other: without a traceback."""
    gc.set_threshold(100_000)  # what modules leave behind while they load is no garbage: looking for some took 4 ms
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from llmcalc.cli import main

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the shell closed it: <&-, >&-
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives
    code = main()
    if listens:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


if __name__ == "__main__":
    run()
