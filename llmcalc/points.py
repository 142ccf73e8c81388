"""What a search answers: operating points, a front of them, and devices side by side."""

from __future__ import annotations

from collections.abc import Mapping

from llmcalc.answers import ABSENT, Absent, Answer, answer, field
from llmcalc.estimate.terms import Bound


@answer(part=True)
class Beside(Answer):
    """What stands beside the method in force."""

    expected_tpot_s: float | None = field("expected", "s", rank=3)
    expected_tpot_low_s: float | None = field("expected, low", "s", shown=False)
    expected_tpot_high_s: float | None = field("slow end", "s", rank=3)
    expected_usd_per_million_output_tokens: float | None = field("$/1M expected", "usd", shown=False)
    napkin_tpot_s: float | None = field("textbook", "s", rank=8)
    napkin_usd_per_million_output_tokens: float | None = field("$/1M textbook", "usd", shown=False)
    napkin_ttft_s: float | None = field("textbook TTFT", "s", shown=False)
    expected_ttft_s: float | None = field("expected TTFT", "s", shown=False)
    expected_ttft_low_s: float | None = field("expected TTFT, low", "s", shown=False)
    expected_ttft_high_s: float | None = field("expected TTFT, high", "s", shown=False)
    holds_at_high: bool | None = field("holds at the slow end", shown=False)


@answer(part=True)
class Laid(Answer):
    """Which deployment, at which batch, and its step."""

    hardware: str = field("device")
    count: int = field("count", rank=2)
    tp: int = field("tp", shown=False)
    weights: str = field("weights", rank=3)
    kv_dtype: str = field("KV", rank=4)
    batch: int = field("batch")
    tpot_s: float = field("TPOT", "s")


@answer(part=True)
class Rates(Answer):
    """What comes of the step."""

    tokens_per_s_per_user: float = field("tok/s/user", "tokens/s", rank=6)
    tokens_per_s_per_device: float = field("tok/s/device", "tokens/s", rank=7)
    usd_per_million_output_tokens: float | None = field("$/1M out", "usd", bar=True)
    tokens_per_s: float = field("tok/s", "tokens/s", rank=9)
    usd_per_hour: float | None = field("$/h", "usd/h", rank=8)
    energy_joules_per_token: float | None = field("J/token", "J", rank=10)
    ttft_s: float | None = field("TTFT", "s", rank=11)
    bound: Bound = field("bound", rank=12)
    price_date: str | None = field("priced", rank=13)


@answer()
class Point(Beside, Rates, Laid):
    """One operating point."""

    marks: str | Absent = field("", rank=1, meaning="names given to it, between commas", default=ABSENT)


@answer()
class Named(Point):
    """A point that the user named, and what the front has against it."""

    fits: bool = field("fits")
    on_front: bool = field("on the front")
    dominated_by: Point | None = field("dominated by")
    why: str = field("why")


@answer("pareto", rows=True)
class FrontPoint(Rates, Beside, Laid):
    """One point of the front."""

    marks: str = field("", rank=1, meaning="names given to it, between commas")


@answer("pareto")
class Front(Answer):
    """What a sweep found."""

    points_evaluated: int = field("points", shown=False)
    points_on_front: int = field("on the front", shown=False)
    chosen: Point | None = field("chosen", shown=False)
    marks: Mapping[str, Point | None] = field("marks", shown=False)
    named: tuple[Named, ...] = field("named", shown=False)


@answer(part=True)
class Tried(Answer):
    """Which model on how many of which device, and whether it fits."""

    model: str | Absent = field("model", meaning="of several models", default=ABSENT)
    hardware: str = field("device")
    count: int = field("count", rank=2)
    fits: bool | None = field("fits", shown=False)
    max_batch: int | None = field("max batch", "tokens", rank=6)
    batch: int | None = field("batch", "tokens", rank=1)
    tpot_s: float | None = field("TPOT", "s")


@answer("compare", rows=True)
class Compared(Beside, Tried):
    """One model on one device."""

    tokens_per_s_per_user: float | None = field("tok/s/user", "tokens/s", rank=7)
    tokens_per_s: float | None = field("tok/s", "tokens/s", rank=4, bar=True)
    ttft_s: float | None = field("TTFT", "s", rank=9)
    usd_per_million_output_tokens: float | None = field("$/1M out", "usd")
    tokens_per_s_per_usd_hour: float | None = field("tok/s per $/h", "tokens/s", rank=8, bar=True)
    bound: Bound | None = field("bound", shown=False)
    usd_per_hour: float | None = field("$/h", "usd/h", rank=5)
    price_date: str | None = field("priced", rank=5)
    why: str = field("limited by", rank=3)
    lacks_bytes: int | None = field("lacks", "B", shown=False)
    ctx_tokens: int = field("ctx", shown=False)
    weights: str = field("weights", shown=False)
    kv_dtype: str = field("KV", shown=False)


@answer("compare")
class Comparison(Answer):
    """How many there are."""

    compared: int = field("compared", shown=False)
    fitting: int = field("fitting", shown=False)
