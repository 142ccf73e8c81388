"""The search against brute force over single estimates, and its parts against their definitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcalc import engines, formats, hardware, model, search, sources
from llmcalc.estimate import cost, decode, step, terms, verdict
from llmcalc.plan import Deployment, Workload
from llmcalc.search import X_AXES, Y_AXES, Limits, Space

LLAMA = "meta-llama--Meta-Llama-3-8B"
F = formats.FORMATS


def load(name: str) -> Any:
    found = sources.read_bundled(name.replace("--", "/"))
    return model.read(found.config, id=found.id, source=found.kind, quant=found.quant)


def space_of(
    name: str,
    devices: dict[str, float | None],
    weights: str = "bf16",
    kvs: str = "bf16",
    tps: tuple[int, ...] = (1,),
    ctx: int = 8192,
    **more: Any,
) -> Space:
    candidates = tuple(replace(search.candidate(hardware.load(id), tps), usd_per_hour=usd) for id, usd in devices.items())
    return Space(
        load(name),
        candidates,
        tuple(F[each] for each in weights.split()),
        tuple(formats.find(each, kv=True) for each in kvs.split()),
        ctx,
        ctx,
        **more,
    )


# ---- the exercise of the course notes -------------------------------------------------------------------------------


def test_the_exercise_of_the_notes() -> None:
    """Llama-3-8B, one H100 at $3/h, 8k: (10 ms - 4.79 ms) / 0.3205 ms = 16.24 sequences within 10 ms, at $0.52; B = 48 is the chat point."""
    space = space_of(LLAMA, {"h100-sxm": 3.0})
    found = search.sweep(space, limits=Limits(tpot_s=0.010), marks={"chat": 0.0202})
    assert found.evaluated == 59  # (80e9 - 16.06e9) / 1.0737e9 = 59.5 sequences of 8k
    assert found.front.x.size == 59, "every batch is a choice: more of it is cheaper and slower"
    assert found.chosen is not None
    usd, tpot, place = found.chosen
    assert place.batch == 16 and usd == pytest.approx(0.52, abs=0.005) and tpot == pytest.approx(9.92e-3, abs=5e-6)
    usd, tpot, place = found.marks["chat"]
    assert place.batch == 48 and usd == pytest.approx(0.35, abs=0.005) and tpot == pytest.approx(20.2e-3, abs=5e-5)


# ---- brute force ------------------------------------------------------------------------------------------------------

SPACES = {
    "dense": space_of(
        LLAMA,
        {
            "h100-sxm": 2.95,
            "h200-sxm": 4.04,
            "mi300x": 1.55,
            "dgx-spark": 0.3,
            "apple-m4-max-40c": None,
        },
        "fp8 awq",
        "bf16 fp8",
        (1, 2),
        ctx=262144,
    ),
    # Of these the cheap one holds three sequences: at seven it would be cheaper still.
    "small": space_of(LLAMA, {"h100-sxm": 1.0, "h200-sxm": 4.04}, ctx=131072),
    "mixture": space_of(
        "Qwen--Qwen3-30B-A3B", {"h100-sxm": 2.95, "mi300x": 1.55, "l40s": 0.9, "tpu-v5e": 0.6}, "bf16 w8a8", "bf16", (1, 4), ctx=131072
    ),
    "latent": space_of(
        "deepseek-ai--DeepSeek-V3", {"b200": 5.0, "h200-sxm": 4.0, "mi355x": 2.1}, "fp8 nvfp4", "bf16 fp8", (4, 8), ctx=400_000
    ),
    "windows": space_of("google--gemma-3-12b-it", {"l4": 0.7, "rtx-5090": 0.6, "a10g": 1.0}, "bf16 int4", "bf16", (1, 2), ctx=32768),
    "operators": space_of(LLAMA, {"h100-sxm": 2.95, "l4": 0.7}, "fp8", "bf16", (1, 2), ctx=131072, method="roofline"),
}


def singles(space: Space) -> list[dict[str, Any]]:
    """Every point through `estimate.cost` and `estimate.capacity`, one by one."""
    found = []
    tps = space.candidates[0].counts
    for tp, weights, one, kv in product(tps, space.weights, space.candidates, space.kvs):
        if tp > one.device.devices_per_node or (tp > 1 and not (one.device.link and one.device.link.bytes_per_s)):
            continue
        plan = Deployment(one.device, weights, kv, tp=tp, usd_per_device_hour=one.usd_per_hour)
        most = verdict.fit(space.model, plan, Workload(space.ctx, 1)).results["max_batch"]
        for batch in range(1, most + 1):
            if one.usd_per_hour is None:
                r = decode.decode(space.model, plan, Workload(space.ctx, batch), space.method).results
                r = {**r, "usd_per_million_output_tokens": None, "energy_joules_per_token": None}
            else:
                r = cost.cost(space.model, plan, Workload(space.ctx, batch), method=space.method).results
            found.append({"key": (one.device.id, tp, weights.name, kv.name, batch), **r})
    return found


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["hardware"], row["count"], row["weights"], row["kv_dtype"], row["batch"]


@pytest.mark.parametrize("name", SPACES)
def test_the_front_is_that_of_brute_force(name: str) -> None:
    space = SPACES[name]
    points = singles(space)
    assert max(point["key"][-1] for point in points) <= search.EVERY_BATCH_TO, "the space is to be searched batch by batch"
    found = search.sweep(space, limits=Limits(tpot_s=0.05))
    assert found.evaluated == len(points)
    priced = [(p["tpot_s"], p["usd_per_million_output_tokens"], p["key"]) for p in points if p["usd_per_million_output_tokens"] is not None]
    front = [one for one in priced if not any(x <= one[0] and y <= one[1] and (x, y) != one[:2] for x, y, _ in priced)]
    expected = {(x, y) for x, y, _ in front}
    rows = search.front_rows(space, found)
    assert len(rows) == len(expected)
    got = np.array([(row["tpot_s"], row["usd_per_million_output_tokens"]) for row in rows])
    assert got == pytest.approx(np.array(sorted(expected)), rel=1e-12)
    at = {place: coordinates for *coordinates, place in front}
    assert all(key(row) in at for row in rows)
    within = min((y, x) for x, y, _ in priced if x <= 0.05)
    assert found.chosen is not None and found.chosen[:2] == pytest.approx(within, rel=1e-12)


@pytest.mark.parametrize(
    ("engine", "turn", "every"),
    [("napkin", 0, 12), ("vllm", 3, 12), *(pytest.param(e, 0, 1, marks=pytest.mark.nightly) for e in ("napkin", "vllm"))],
)
def test_every_device_in_a_rack_is_estimated_as_by_itself(engine: str, turn: int, every: int) -> None:
    """All devices at once: the columns of the racks are the figures that `decode` gives for each; here for every twelfth of a rack."""
    devices = dict.fromkeys(hardware.ids())
    space = space_of(LLAMA, devices, "fp8", "bf16", (1, 2), ctx=4096, engine=engines.find(engine))
    seen = set()
    for rack in search.racks(space):
        figures = search.point(space, rack.plan, None, np.array([[1.0, 7.0]]))
        read = np.broadcast_to(np.nan if (t := search.ttft(space, rack.plan)) is None else t, (len(rack.members), 1))
        for index, one in enumerate(rack.members):
            plan = replace(rack.plan, device=one.device)
            seen.add(one.device.id)
            if index % every != turn % min(every, len(rack.members)):
                continue
            single = decode.decode(space.model, plan, Workload(4096, 7))
            assert figures["tpot_s"].value[index][1] == pytest.approx(single.results["tpot_s"], rel=1e-12), one.device.id
            assert int(rack.most[index]) == max(0, verdict.fit(space.model, plan, Workload(4096, 1)).results["max_batch"])
            alone = step.prompt_time(terms.prompt_terms(space.model, plan, 4096)).value
            assert (alone is None and np.isnan(read[index][0])) or read[index][0] == pytest.approx(alone, rel=1e-12)
    unsized = {id for id in devices if hardware.load(id).memory_bytes is None}
    strangers = {id for id in devices if engine == "vllm" and hardware.load(id).vendor not in space.engine.vendors}
    assert seen == set(devices) - unsized - strangers


@pytest.mark.parametrize("axes", list(product(X_AXES, Y_AXES)))
def test_other_axes(axes: tuple[str, str]) -> None:
    """More speed per user and more per device are better, fewer joules are."""
    space = replace(SPACES["windows"], ctx=16384)
    x, y = X_AXES[axes[0]], Y_AXES[axes[1]]
    rows = search.front_rows(space, search.sweep(space, x, y))
    speeds = [row["tpot_s"] for row in rows]
    goods = [row[y.key] if y.less else -row[y.key] for row in rows]
    assert speeds == sorted(speeds), "fastest first"
    assert all(later < earlier for earlier, later in pairwise(goods)), "who is slower is better in the other"


def test_limits_beside_the_axes_hold_on_the_front() -> None:
    space = space_of(LLAMA, {"h100-sxm": 2.95, "h200-sxm": 4.04}, "bf16 fp8", "bf16 fp8", (1, 2, 4))
    limits = Limits(ttft_s=0.1, tokens_per_s=3000, usd_per_hour=8.5)
    rows = search.front_rows(space, search.sweep(space, limits=limits))
    assert rows
    assert all(row["ttft_s"] <= 0.1 and row["tokens_per_s"] >= 3000 and row["usd_per_hour"] <= 8.5 for row in rows)
    # 133 ms at bf16 on one H100 (2 x 7.5e9 x 8192 / 989e12): too slow, so none is left; two halve it.
    assert not any(row["weights"] == "bf16" and row["count"] == 1 for row in rows)


def test_beyond_256_the_batch_that_a_limit_allows_is_exact() -> None:
    """512-token contexts: a step takes 4.794 ms and 20.03 µs per sequence, so 10.2 ms allow 269.9 of the 952 that fit."""
    space = space_of(LLAMA, {"h100-sxm": 3.0}, ctx=512)
    found = search.sweep(space, limits=Limits(tpot_s=0.0102))
    assert found.chosen is not None
    assert found.chosen[2].batch == 269
    assert 269 not in search.batches(952)
    assert found.racks[0].most.tolist() == [952]  # (80e9 - 16.06e9) / (131,072 x 512 B) = 952.8


def test_a_number_that_was_asked_for_may_exceed_a_node() -> None:
    h100 = hardware.load("h100-sxm")
    space = space_of(LLAMA, {"h100-sxm": 3.0})
    assert search.obstacle(space, search.candidate(h100, (16,)), F["bf16"], 16) == "a node has 8 devices, not 16"
    assert search.obstacle(space, search.candidate(h100, (16,), exact=True), F["bf16"], 16) is None


def test_of_equal_prices_the_faster_whichever_comes_first() -> None:
    """Within 10 ms one H100 has one sequence of 128k, two have two in less time: at the same price per token they are the better choice."""
    alone, limits = space_of(LLAMA, {"h100-sxm": 1.0}, ctx=131072), Limits(tpot_s=0.010)
    each = [replace(alone, candidates=(replace(alone.candidates[0], counts=(tp,)),)) for tp in (1, 2)]
    one, two = (search.sweep(space, limits=limits).chosen for space in each)
    assert one is not None and two is not None and two[1] < one[1]
    even = replace(alone.candidates[0], counts=(2,), usd_per_hour=one[0] / two[0])
    found = search.sweep(replace(alone, candidates=(alone.candidates[0], even)), limits=limits)
    assert [rack.plan.tp for rack in found.racks] == [1, 2] and found.chosen is not None
    assert found.chosen[0] == pytest.approx(one[0], rel=1e-12) and found.chosen[1] == two[1]


def test_a_prompt_of_unknown_time_misses_every_limit() -> None:
    space = space_of(LLAMA, {"h100-sxm": 3.0})
    blind = replace(space.candidates[0], device=replace(space.candidates[0].device, compute={}))
    found = search.sweep(replace(space, candidates=(blind,)), limits=Limits(ttft_s=60.0))
    assert found.evaluated == 59 and found.chosen is None
    assert found.front.x.size == 0


def test_of_counts_that_all_fail_the_first_is_told() -> None:
    """141 GB of weights: neither one nor two cards of 24 GB hold them."""
    (row,) = search.compare(space_of("meta-llama--Llama-3.1-70B-Instruct", {"rtx-4090": 0.4}, tps=(1, 2)), 1, None)
    assert row["fits"] is False and row["count"] == 1


def test_past_the_critical_batch_the_front_ends() -> None:
    """2 x 7.505e9 x B / 989.4e12 passes 4.794 ms at 316.01 sequences: from 317 on a token costs the same and only takes longer."""
    found = search.sweep(space_of(LLAMA, {"h100-sxm": 3.0}, ctx=512))
    assert int(found.front.places[:, 2].max()) == 317
    assert found.chosen is not None and found.chosen[2].batch == 317, "of equal costs, the fastest"


# ---- parts --------------------------------------------------------------------------------------------------------------

COORDINATES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=60)


@given(st.lists(COORDINATES, max_size=4))
def test_a_front_is_what_nothing_beats(batches: list[list[tuple[int, int]]]) -> None:
    front = search.Front()
    number = 0
    for batch in batches:
        start = number
        x, y = (np.array([point[side] for point in batch], dtype=float) for side in (0, 1))
        front.add(x, y, lambda alive, start=start: np.stack([alive + start, alive * 0, alive * 0], axis=1))
        number += len(batch)
    everything = [point for batch in batches for point in batch]
    best = sorted({p for p in everything if not any(o[0] <= p[0] and o[1] <= p[1] and o != p for o in everything)})
    assert list(zip(front.x, front.y, strict=True)) == best
    assert [everything[index] for index in front.places[:, 0]] == best
    assert all(everything.index(everything[index]) == index for index in front.places[:, 0]), "of equals, the first"


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_largest_within_finds_the_last_that_holds(most: int, edge: int) -> None:
    found = search.largest_within(lambda asked: asked, [float(edge)], np.array([most, 1]))[:, 0]
    assert found.tolist() == [min(edge, most), min(edge, 1)]


def test_batches_are_all_to_256_and_dense_beyond() -> None:
    assert search.batches(5).tolist() == [1, 2, 3, 4, 5]
    many = search.batches(100_000)
    assert many[:256].tolist() == list(range(1, 257))
    assert (many[256:] / many[255:-1]).max() < 1.03 and (np.diff(many) > 0).all()


def test_degrees_divide_the_heads() -> None:
    assert search.tensor_parallel(load(LLAMA), 8) == (1, 2, 4, 8)  # 32 heads
    assert search.tensor_parallel(load("Qwen--Qwen2.5-7B-Instruct"), 8) == (1, 2, 4, 7)  # 28 heads


def test_a_named_point_and_what_dominates_it() -> None:
    space = space_of(LLAMA, {"h100-sxm": 3.0, "h200-sxm": 3.0})
    rows = search.front_rows(space, search.sweep(space))
    h100 = space.candidates[0]
    named = search.row(space, search.deployment(space, h100.device, F["bf16"], F["bf16"], 1), h100, 16)
    winner = search.dominating(rows, named, X_AXES["tpot"], Y_AXES["usd"])
    assert winner is not None and winner["hardware"] == "h200-sxm"  # the same price, 4.8 instead of 3.35 TB/s
    assert winner["tpot_s"] <= named["tpot_s"] and winner["usd_per_million_output_tokens"] < named["usd_per_million_output_tokens"]
    assert search.dominating(rows, winner, X_AXES["tpot"], Y_AXES["usd"]) is None


def test_a_point_that_misses_a_limit_is_told_by_how_much() -> None:
    space = space_of(LLAMA, {"h100-sxm": 3.0})
    found = search.sweep(space, limits=Limits(tpot_s=0.001))
    assert found.chosen is None and found.closest is not None
    excess, place = found.closest
    assert place.batch == 1 and excess == pytest.approx(5.115 - 1, abs=0.001)  # 4.794 + 0.3205 ms against 1 ms


def test_expected_times_of_a_table_are_those_of_single_estimates() -> None:
    """Devices of several makers and generations in one table: every point of the front is what one step says."""
    source = sources.read_bundled("Qwen/Qwen3-30B-A3B")
    found = model.read(source.config, id=source.id, source=source.kind, quant=source.quant)
    names = ("h100-sxm", "b200", "mi300x", "l40s", "rtx-4090", "apple-m4-max-40c", "gaudi3")
    racked = tuple(search.candidate(hardware.load(name), (1, 2), usd_per_hour=1.0 + 2 * place) for place, name in enumerate(names))
    weights, caches = (formats.FORMATS["fp8"], formats.FORMATS["awq"]), (formats.find("bf16", kv=True), formats.find("fp8", kv=True))
    space = Space(found, racked, weights, caches, 4096, 4096, "expected")
    swept = search.sweep(space, limits=search.Limits(tpot_s=0.03), marks={"fast": 0.01})
    rows = search.front_rows(space, swept)
    assert len({row["hardware"] for row in rows}) > 1
    for x, row in zip(swept.front.x, rows, strict=True):
        plan = search.deployment(
            space,
            hardware.load(row["hardware"]),
            *(formats.find(row[key], kv=key[0] == "k") for key in ("weights", "kv_dtype")),
            row["count"],
        )
        single = step.step(found, plan, Workload(4096, row["batch"]), "expected").mid_s
        assert x == pytest.approx(single, rel=1e-9) and row["tpot_s"] == pytest.approx(single, rel=1e-12)
