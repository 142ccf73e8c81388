"""What every test process needs before its first import, and how many examples a property gets."""

import os

for library in ("OPENBLAS", "OMP", "MKL", "VECLIB"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # as the command line does: pytest's own workers fill the cores

import pytest  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    """A property gets a few examples here, and many in the nightly part."""
    try:
        from hypothesis import settings
    except ImportError:  # the real implementations are tested without it
        return
    settings.register_profile("plain", max_examples=25, deadline=None)
    settings.register_profile("nightly", max_examples=500, deadline=None)
    settings.load_profile("plain" if "not nightly" in (config.getoption("markexpr") or "not nightly") else "nightly")
