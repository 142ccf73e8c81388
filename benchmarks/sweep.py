"""How fast the search is: one model on every device, 8 weight formats, 3 KV formats, 1 to 8 ranks, every batch that fits.

    python benchmarks/sweep.py [MODEL] [--ctx TOKENS]

Prints points, seconds beyond start-up, points/s and the peak memory for growing parts of the catalogue, and whether the front
of a sample is that of single estimates.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

from llmcalc import formats, hardware, model, search, sources, units
from llmcalc.estimate import cost
from llmcalc.plan import Workload

WEIGHTS = ("bf16", "fp8", "w8a8", "w8a16", "awq", "int4", "mxfp4", "nvfp4")
CACHES = ("bf16", "fp8", "int4")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("model", nargs="?", default="meta-llama/Meta-Llama-3-8B")
    options.add_argument("--ctx", default="8k")
    options.add_argument("--method", default="expected")
    given = options.parse_args()
    source = sources.read_bundled(given.model)
    found = model.read(source.config, id=source.id, source=source.kind, quant=source.quant)
    ctx = units.tokens(given.ctx)
    ranks = search.tensor_parallel(found, 8)
    devices = [search.candidate(hardware.load(each), ranks, usd_per_hour=2.0 + number / 100) for number, each in enumerate(hardware.ids())]

    def space(count: int) -> search.Space:
        kvs = tuple(formats.find(name, kv=True) for name in CACHES)
        return search.Space(found, tuple(devices[:count]), tuple(formats.FORMATS[name] for name in WEIGHTS), kvs, ctx, ctx, given.method)

    print(f"{found.id}, ctx {ctx:,}, {given.method}, tp {', '.join(map(str, ranks))}")
    for count in (len(devices) // 4, len(devices) // 2, len(devices)):
        start = time.process_time()
        swept = search.sweep(space(count), limits=search.Limits(tpot_s=0.05), marks={"agent": 0.01})
        rows = search.front_rows(space(count), swept)
        spent = time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rate = swept.evaluated / spent
        print(
            f"{count:4} devices: {swept.evaluated:>9,} points in {spent:.2f} s, {rate:>9,.0f}/s, {len(rows)} on the front, {peak:.0f} MiB"
        )
    wrong = 0
    for row, place in zip(rows, swept.front.places, strict=True):
        plan, one, batch = search.trace(swept, search.Place(*map(int, place)))
        single = cost.cost(found, replace(plan, usd_per_device_hour=one.usd_per_hour), Workload(ctx, batch), method=given.method).results
        wrong += abs(single["usd_per_million_output_tokens"] / row["usd_per_million_output_tokens"] - 1) > 1e-12
    print(f"{len(rows) - wrong} of {len(rows)} points of the front are what a single estimate says")


if __name__ == "__main__":
    main()
