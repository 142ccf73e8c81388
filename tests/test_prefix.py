"""Prefix cache, paging and offload: the course's example, published wastes, and an LRU cache counted request by request."""

from __future__ import annotations

import json
import math
import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from shapes import bundled, plan

from llmcalc import traffic
from llmcalc.cli import main
from llmcalc.estimate import prefix, service
from llmcalc.formulas import serving as f
from llmcalc.formulas.engines import padded_tokens

LLAMA = "meta-llama/Meta-Llama-3-8B"


def sharing(**more: Any) -> dict[str, Any]:
    model = bundled(LLAMA)
    given = {"sequences": 1, "prefix": 8192, "prompt": 8192} | more
    return prefix.sharing(model, plan(model), prefix.Sharing(**given)).results


def test_twenty_dialogues() -> None:
    """The course: 20 x 1,000 common tokens: 20,000 -> 1,000 prefilled and 2.6 GB -> 131 MB if every token is shared.

    In blocks of 16, 62 x 16 = 992 are; each dialogue computes 8 of its own in a block of its own: 1,152 and 1,312 slots, 172 MB.
    """
    r = sharing(sequences=20, prefix=1000, prompt=1000)
    assert (r["prefilled_tokens_without"], r["prefilled_tokens_ideal"], r["prefilled_tokens"]) == (20000, 1000, 1152)
    assert (r["kv_bytes_without"], r["kv_bytes_ideal"]) == (20000 * 131072, 1000 * 131072)
    assert r["kv_bytes"] == (992 + 20 * 16) * 131072
    assert r["kv_bytes"] / 1e6 == pytest.approx(172, abs=0.5)


def test_whole_blocks_lose_nothing() -> None:
    r = sharing(sequences=20, prefix=1008, prompt=1008)
    assert r["prefilled_tokens"] == r["prefilled_tokens_ideal"] == 1008
    assert sharing(sequences=3, prefix=1000, prompt=1000, block=1)["prefilled_tokens"] == 1000


def test_own_tokens_behind_the_prefix() -> None:
    """5 sequences of 1,100 tokens behind 1,000: 992 once, 108 each in 7 blocks."""
    r = sharing(sequences=5, prefix=1000, prompt=1100)
    assert r["prefilled_tokens"] == 992 + 5 * 108
    assert r["kv_bytes"] == (992 + 5 * 7 * 16) * 131072


def test_a_hit_is_faster_but_attends_to_all() -> None:
    r = sharing(prefix=8000, prompt=8192)
    assert r["ttft_cold_s"] == pytest.approx(0.13336, rel=1e-3)  # tests/test_prefill.py works it by hand
    # 192 new tokens: all weights are read, and the triangle and the 8,000 before it are attended to.
    pairs = 192**2 / 2 + 192 * 8000
    assert r["ttft_warm_s"] == pytest.approx(8030261248 * 2 / 3.35e12 + 4 * 32 * 4096 * pairs / 989.4e12)


def test_the_waste_of_pages_and_reservations() -> None:
    """half a block of a conversation's mean 1,366 tokens is 0.55%; reservations of 4,096 and 8,192 waste 67% and 83%."""
    assert f.paged_waste(1366, 16) == pytest.approx(0.0055, abs=1e-4)
    assert [f.reserved_waste(1366, most) for most in (4096, 8192)] == pytest.approx([0.67, 0.83], abs=5e-3)
    assert [padded_tokens(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]


def test_batches_of_pages_and_reservations() -> None:
    """(80e9 - 16.06e9) / 131,072 = 487,827 tokens: 14 reservations of 32k, 57 pages of an average of 8,442 tokens."""
    r = sharing(output=500, reserved=32768)
    assert r["reserved_batch"] == 487827 // 32768 == 14
    assert r["paged_batch"] == int(487827 / (8442 + 7.5)) == 57


# ---- histories ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.2])
def test_an_lru_cache_counted(exponent: float) -> None:
    """400 users, 100 places: Che's approximation against a cache that is filled and emptied."""
    chance = random.Random(4)
    weights = [rank**-exponent for rank in range(1, 401)]
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    drawn = chance.choices(range(400), weights, k=60000)
    for count, user in enumerate(drawn):
        hit = user in cache
        cache[user] = None
        cache.move_to_end(user)
        if len(cache) > 100:
            cache.popitem(last=False)
        hits += hit and count >= 10000
    found = prefix.lru_hit_rate(prefix.popularity(400, exponent), 100)
    assert found == pytest.approx(hits / 50000, abs=0.012)


def test_even_users_hit_by_the_share_that_fits() -> None:
    assert prefix.lru_hit_rate(prefix.popularity(1000, 0), 250) == pytest.approx(0.25, rel=1e-6)
    assert prefix.lru_hit_rate(prefix.popularity(1000, 0), 5000) == 1
    assert prefix.lru_hit_rate(prefix.popularity(1000, 1), 0) == 0
    assert sum(share * count for share, count in prefix.popularity(10**6, 1)) == pytest.approx(1)


def test_uneven_users_hit_more_often() -> None:
    """Two users in three do not fit: of users who come back evenly a third hits, of a Zipf law's the popular ones do."""
    one = sharing(users=1)
    users = 3 * one["pool_bytes"] // one["working_set_bytes"]
    even, uneven = (sharing(users=users, zipf=zipf)["hit_rate"] for zipf in (0, 1.2))
    assert even == pytest.approx(1 / 3, abs=0.02)
    assert uneven == pytest.approx(prefix.lru_hit_rate(prefix.popularity(users, 1.2), users / 3), abs=0.01)
    assert uneven > 0.6


def test_routing() -> None:
    """A pool of 59.5 histories of 8k per replica: 4 replicas keep all of 200 users if each stays, a quarter of the hits if not."""
    kept = sharing(users=200, replicas=4)
    lost = sharing(users=200, replicas=4, affine=False)
    assert kept["working_set_bytes"] == 200 * 8192 * 131072
    assert kept["hit_rate"] == 1
    assert lost["hit_rate"] == pytest.approx((80e9 - 16.060522496e9) / (8192 * 131072) / 200 / 4, rel=1e-3)
    assert kept["prefill_time_mean_s"] < lost["prefill_time_mean_s"]


# ---- offload ------------------------------------------------------------------------------------------------------


def test_fetching_against_computing() -> None:
    """Theory: 2.6 us a token at 50 GB/s against 28 us at half the compute rate: about 11 times, from 4.6 GB/s on."""
    r = sharing(prefix=1000, prompt=1000, mfu=0.5)
    assert r["fetch_s"] / 1000 == pytest.approx(2.6e-6, rel=0.01)
    assert r["fetch_faster"] == pytest.approx(11, rel=0.02)
    assert r["break_even_bytes_per_s"] == pytest.approx(131072 * 1000 / r["recompute_s"])
    assert sharing(prefix=1000, prompt=1000, mfu=0.5, host_bytes_per_s=r["break_even_bytes_per_s"])["fetch_faster"] == pytest.approx(1)
    assert sharing(prefix=65536, prompt=65536, mfu=0.5)["fetch_faster"] > r["fetch_faster"]  # attention grows with the square


def test_mla_caches_are_small() -> None:
    """576 numbers per token and layer against 2,048 of GQA with 8 heads of 128."""
    model = bundled("deepseek-ai/DeepSeek-V3")
    r = prefix.sharing(model, plan(model, "h200-sxm", "fp8", tp=1, ep=16), prefix.Sharing(1, 1000, 1000)).results
    assert r["kv_bytes_without"] == 1000 * 61 * 576 * 2


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prefix", "-m", LLAMA, "-d", "h100-sxm", "--sequences", "20", "--prefix", "1000", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out)["results"]["prefilled_tokens"] == 1152


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--prefix", "2000", "--prompt", "1000"],
        ["--prompt", "1k", "--routing", "magic"],
        ["--prompt", "1k", "--host-bandwidth", "0GB/s"],
        ["--prompt", "1k", "--block", "0"],
        ["--prompt", "1k", "--method", "magic"],
        ["--prompt", "1k", "--tier", "hbm:30GB"],
        ["--trace", "x", "--tier", "hbm:30GB,host:512GB"],
        ["--trace", "x", "--tier", "hbm:30GB,hbm:1TB@1GB/s"],
        ["--trace", "x", "--tier", "30GB"],
        ["--trace", "x", "--tier", "hbm:0GB"],
        ["--trace", "x", "--tier", "hbm:30GB@"],
        ["--trace", "x", "--tier", "hbm:30GB,"],
    ],
)
def test_usage(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prefix", "-m", LLAMA, "-d", "h100-sxm", *args]) == 2
    assert capsys.readouterr().err.startswith("Error: ")


# ---- reuse in traces ----------------------------------------------------------------------------------------------

MOONCAKE = Path(__file__).resolve().parents[1].parent / "shared/data/traces"
PLACES = (math.inf, 100_000, 50_000, 30_000, 10_000, 3_000, 1_000)


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("conversation", (37.4, 37.1, 36.2, 33.2, 21.5, 6.6, 4.5)),
        ("synthetic", (65.1, 65.1, 65.1, 63.6, 43.1, 19.1, 8.4)),
    ],
)
def test_shares_of_mooncakes_traces(name: str, shares: tuple[float, ...]) -> None:
    """Counted once apart from this program: blocks of 512 tokens, the last used kept, share of all prompt tokens."""
    path = MOONCAKE / f"mooncake_{name}.jsonl"
    if not path.exists():
        pytest.skip("the trace is not here")
    caches, hits, tokens = [traffic.BlockCache(places) for places in PLACES], [0] * len(PLACES), 0
    for request, blocks in traffic.read_blocks(str(path)):
        tokens += request.prompt
        hits = [hit + traffic.hit_tokens(request.prompt, cache.found(blocks), 512) for hit, cache in zip(hits, caches, strict=True)]
    assert [100 * hit / tokens for hit in hits] == pytest.approx(shares, abs=0.06)


def turns(path: Path, *asked: tuple[int, list[Any]]) -> str:
    rows = ({"timestamp": 1000 * at, "input_length": n, "output_length": 9, "hash_ids": ids} for at, (n, ids) in enumerate(asked))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_tiers_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Llama-3-8B keeps 131,072 B a token, 67.1 MB a block of 512: one fits in 100 MB, three in 210 MB.

    Of 5 x 1,024 tokens, the second prompt shares one block with the first and the third both (less one token, which is always read):
    512 + 1,023 where three blocks are kept, nothing where one is. A hit's mean is 768 tokens (767.5, to the even).
    """
    path = turns(tmp_path / "t", (1024, [1, 2]), (1024, [1, 3]), (1024, [1, 2]), (1024, [7, 8]), (1024, ["x", "y"]))
    args = ["prefix", "-m", LLAMA, "-d", "h100-sxm", "--trace", path, "--tier", "hbm:100MB,host:210MB@10GB/s", "--json"]
    assert main(args) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"]["block_tokens"] == 512 and found["results"]["distinct_blocks"] == 7
    near, far = found["rows"]
    assert (near["blocks"], far["blocks"]) == (1, 3)
    assert near["hit_share_so_far"] == 0 and far["hit_share_so_far"] == pytest.approx((512 + 1023) / 5120)
    assert found["results"]["hit_share_unbounded"] == pytest.approx((512 + 1023) / 5120)
    assert far["fetch_s"] == pytest.approx(768 * 131072 / 10e9)
    assert far["ttft_s"] == pytest.approx(near["ttft_s"] + far["fetch_s"])
    assert far["worth"] == (far["fetch_s"] < found["results"]["recompute_s"])


def test_a_replica_reuses_what_a_trace_repeats(tmp_path: Path) -> None:
    """The second prompt's first block is kept and read once; each of two replicas sees every other prompt; without room nothing is."""
    found = traffic.of_trace(turns(tmp_path / "t", (1024, [1, 2]), (1100, [1, 2, 3]), (1024, [1, 2])))
    assert found.block_tokens == 512
    kept = service.keeping(bundled(LLAMA), plan(bundled(LLAMA)), service.Service(found)).traffic
    assert [request.cached for request in kept.requests()] == [0, 1024, 1023]
    assert [request.cached for request in kept.requests(part=2)] == [0, 1023]
    assert [request.cached for request in found.requests()] == [0, 0, 0]


@pytest.mark.parametrize("ids", ["x", 3, [1.5], [None], [True], [{}], ["y" * 200]])
def test_blocks_that_are_none(ids: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prefix", "-m", LLAMA, "-d", "h100-sxm", "--trace", turns(tmp_path / "t", (100, ids))]) != 0
    assert "line 1, column hash_ids" in capsys.readouterr().err
