"""How many simulated requests per second the event simulation serves: 8k in, 256 out, batch 32, one core.

python benchmarks/simulation.py
"""

from __future__ import annotations

import time

from llmcalc import api
from llmcalc.estimate import serving, simulate
from llmcalc.traffic import Kind, Traffic


def main() -> None:
    """Print requests per second of wall time for a few loads."""
    model = api.load_model("meta-llama/Meta-Llama-3-8B", offline=True)
    rates = serving.rates(model, api.deploy(model, "h100-sxm"))
    kind = Kind(8192, 256)
    for load in (0.5, 0.8, 1.2):
        highest, _ = serving.highest(rates, serving.Profile.of([*Traffic(1.0, (kind,)).sample()]), 32, 2048)
        stream = Traffic(highest.value * load, (kind,)).requests(1)
        start = time.perf_counter()
        found = simulate.simulate(rates, stream, max_batch=32, chunk=2048, count=50_000)
        spent = time.perf_counter() - start
        print(f"load {load:.0%}: {found.requests / spent:,.0f} requests/s ({found.events:,} events for {found.steps:,} steps)")


if __name__ == "__main__":
    main()
