"""What every test process needs before its first import."""

import os

for library in ("OPENBLAS", "OMP", "MKL", "VECLIB"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # as the command line does: pytest's own workers fill the cores
