"""What `plan` answers: the deployment, what a request costs, separate pools, a load test; and the rows of each."""

from __future__ import annotations

from llmcalc.answers import ABSENT, Absent, Answer, answer, field
from llmcalc.estimate.service import HOURS_PER_MONTH, Binding


@answer("plan")
class Plan(Answer):
    """The cheapest deployment that meets the limits; all of it null where none does."""

    hardware: str | None = field("device", detail=True, default=None)
    devices: int | None = field("devices", detail=True, default=None)
    nodes: int | None = field("nodes", meaning="that hold them", default=None)
    paid_devices: int | Absent = field("devices paid for", note="whole nodes", default=ABSENT)
    replicas: int | None = field("  replicas", detail=True, default=None)
    tp: int | None = field("  tp of each", detail=True, default=None)
    pp: int | None = field("pp of each", meaning="stages", default=None)
    dp: int | None = field("dp of each", meaning="groups that share experts", default=None)
    weights: str | None = field("  weights", detail=True, default=None)
    usd_per_month: float | None = field("cost per month", "usd", f"{HOURS_PER_MONTH} hours", default=None)
    usd_per_hour: float | None = field("  per hour", "usd/h", detail=True, default=None)
    usd_per_million_output_tokens: float | None = field("1M output tokens", "usd", "everything charged to the output", default=None)
    utilization: float | None = field("load", "percent", "of the highest rate a replica sustains", default=None)
    max_rate_per_replica: float | None = field("requests/s of a replica", note="the most, at saturation", default=None)
    max_rate_per_replica_low: float | None = field("low", shown=False, default=None)
    max_rate_per_replica_high: float | None = field("high", shown=False, default=None)
    expected_max_rate_per_replica: float | None = field("  expected in an engine", shown=False, default=None)
    expected_max_rate_per_replica_low: float | None = field("low", shown=False, default=None)
    expected_max_rate_per_replica_high: float | None = field("high", shown=False, default=None)
    batch_limit: int | None = field("batch limit", note="sequences of a replica", detail=True, default=None)
    mean_batch: float | None = field("  mean batch", detail=True, default=None)
    ttft_p50_s: float | None = field("TTFT p50", "s", detail=True, default=None)
    ttft_p95_s: float | None = field("TTFT p95", "s", default=None)
    ttft_p99_s: float | None = field("TTFT p99", "s", detail=True, default=None)
    tpot_p50_s: float | None = field("TPOT p50", "s", detail=True, default=None)
    tpot_p95_s: float | None = field("TPOT p95", "s", default=None)
    tpot_p99_s: float | None = field("TPOT p99", "s", detail=True, default=None)
    expected_tpot_s: float | None = field("expected TPOT", "s", "at the mean batch", detail=True, default=None)
    expected_ttft_s: float | None = field("expected TTFT", "s", detail=True, default=None)
    network_tpot_s: float | Absent = field("the network's part of TPOT", "s", "between the nodes of a replica", default=ABSENT)
    network_ttft_s: float | Absent = field("the network's part of TTFT", "s", default=ABSENT)
    expected_tpot_low_s: float | None = field("", "s", shown=False, default=None)
    expected_tpot_high_s: float | None = field("", "s", shown=False, default=None)
    expected_ttft_low_s: float | None = field("", "s", shown=False, default=None)
    expected_ttft_high_s: float | None = field("", "s", shown=False, default=None)
    e2e_p95_s: float | None = field("whole request p95", "s", detail=True, default=None)
    preemptions: int | None = field("preemptions", default=None)
    holds_at_high: bool | None = field("limits at the slow end", note="where all takes as long as the range says at most", default=None)
    binding: Binding | None = field("binding", default=None)
    next_lever: str | None = field("next lever", default=None)
    next_lever_gain: float | None = field("gain of the next lever", shown=False, default=None)
    hours_per_month: int = field("hours per month", shown=False, default=HOURS_PER_MONTH)


@answer("plan", rows=True)
class Alternative(Answer):
    """One layout: the fewest replicas of it that meet the limits, or why none do."""

    chosen: bool = field("chosen", rank=2)
    hardware: str = field("device")
    weights: str = field("weights", rank=3)
    tp: int = field("tp")
    pp: int = field("pp", default=1)
    dp: int = field("dp", default=1)
    replicas: int | None = field("replicas", rank=1, default=None)
    devices: int | None = field("devices", rank=2, default=None)
    paid_devices: int | Absent = field("devices paid for", shown=False, default=ABSENT)
    nodes: int | None = field("nodes", rank=3, default=None)
    usd_per_month: float | None = field("USD/month", "usd", default=None)
    utilization: float | None = field("load", "percent", rank=4, default=None)
    ttft_p95_s: float | None = field("TTFT p95", "s", rank=1, default=None)
    tpot_p95_s: float | None = field("TPOT p95", "s", rank=1, default=None)
    why: str = field("why", rank=3)
    holds_at_high: bool | None = field("holds at the slow end", shown=False, default=None)
    binding: Binding | None = field("binding", shown=False)
    batch_limit: int | None = field("batch limit", shown=False, default=None)
    devices_per_replica: int = field("devices per replica", shown=False)
    max_rate_per_replica: float | None = field("requests/s", shown=False, default=None)
    ttft_p50_s: float | None = field("ttft_p50", "s", shown=False, default=None)
    ttft_p99_s: float | None = field("ttft_p99", "s", shown=False, default=None)
    tpot_p50_s: float | None = field("tpot_p50", "s", shown=False, default=None)
    tpot_p99_s: float | None = field("tpot_p99", "s", shown=False, default=None)
    e2e_p95_s: float | None = field("e2e_p95", "s", shown=False, default=None)
    usd_per_million_output_tokens: float | None = field("1M output", "usd", shown=False, default=None)


@answer("plan")
class PerRequest(Answer):
    """What a request costs here, and on an API."""

    usd_per_request: float | None = field("one request", "usd", detail=True)
    usd_per_successful_task: float | Absent | None = field("one task that succeeds", "usd", default=ABSENT)
    answer_starts_p50_s: float | Absent | None = field("the answer starts, p50", "s", default=ABSENT)
    reasoning_usd_per_request: float | Absent | None = field("  of it thinking", "usd", default=ABSENT)
    api_usd_per_request: float | Absent = field("the API: one request", "usd", default=ABSENT)
    api_usd_per_month: float | Absent = field("  per month at this rate", "usd", default=ABSENT)
    break_even_requests_per_month: int | Absent = field("  break-even, requests a month", default=ABSENT)
    break_even_rate: float | Absent = field("  break-even, requests/s", default=ABSENT)
    cheaper: str | Absent = field("  cheaper", default=ABSENT)


@answer("plan")
class Pools(Answer):
    """Separate pools: how many of each, their ratio, and what they send each other; or why there are none."""

    disaggregated_why: str | Absent = field("  separate pools", default=ABSENT)
    disaggregated_prefill_replicas: int | Absent = field("separate pools: prefill", default=ABSENT)
    disaggregated_decode_replicas: int | Absent = field("  decode", default=ABSENT)
    disaggregated_prefill_devices: int | Absent = field("  devices of prefill", default=ABSENT)
    disaggregated_decode_devices: int | Absent = field("  devices of decode", default=ABSENT)
    disaggregated_prefill_per_decode: float | Absent | None = field("  prefill per decode, unrounded", default=ABSENT)
    disaggregated_transfer_bytes_per_request: float | Absent = field("  cache sent per request", "B", default=ABSENT)
    disaggregated_transfer_s: float | Absent = field("    sent in", "s", default=ABSENT)
    disaggregated_transfer_bytes_per_s: float | Absent = field("    of all requests", "B/s", default=ABSENT)
    disaggregated_ttft_s: float | Absent = field("  TTFT at the percentile, at most", "s", default=ABSENT)
    disaggregated_tpot_s: float | Absent = field("  TPOT at the percentile", "s", default=ABSENT)
    disaggregated_met: bool | Absent = field("  limits met", default=ABSENT)


@answer("plan")
class Tested(Answer):
    """What a load test is of."""

    load_test_replicas: int | Absent = field("load test on replicas", default=ABSENT)


@answer("plan", rows=True)
class Loaded(Answer):
    """What to expect at one rate of the whole deployment."""

    rate: float = field("requests/s")
    utilization: float = field("load", "percent", rank=4)
    concurrency: float = field("at once", rank=3)
    output_tokens_per_s: float = field("tokens/s", rank=3)
    ttft_p50_s: float | None = field("TTFT p50", "s", rank=2)
    ttft_p95_s: float | None = field("TTFT p95", "s", rank=1)
    ttft_p99_s: float | None = field("TTFT p99", "s", rank=2, shown=False)
    tpot_p50_s: float | None = field("TPOT p50", "s", rank=2)
    tpot_p95_s: float | None = field("TPOT p95", "s", rank=1)
    tpot_p99_s: float | None = field("TPOT p99", "s", rank=2, shown=False)
    e2e_p50_s: float | None = field("E2E p50", "s", rank=2, shown=False)
    e2e_p95_s: float | None = field("E2E p95", "s", rank=1, shown=False)
    e2e_p99_s: float | None = field("E2E p99", "s", rank=2, shown=False)


@answer("plan", rows=True)
class Compared(Answer):
    """The measured figures of one rate beside the predicted ones, and by what share the prediction is off."""

    rate: float = field("requests/s")
    utilization: float = field("load", "percent", rank=4)
    ttft_p50_s: float | None = field("TTFT p50", "s")
    measured_ttft_p50_s: float | None = field("TTFT p50 measured", "s", default=None)
    ttft_p95_s: float | None = field("TTFT p95", "s")
    measured_ttft_p95_s: float | None = field("TTFT p95 measured", "s", default=None)
    ttft_p99_s: float | None = field("TTFT p99", "s")
    measured_ttft_p99_s: float | None = field("TTFT p99 measured", "s", default=None)
    tpot_p50_s: float | None = field("TPOT p50", "s")
    measured_tpot_p50_s: float | None = field("TPOT p50 measured", "s", default=None)
    tpot_p95_s: float | None = field("TPOT p95", "s")
    measured_tpot_p95_s: float | None = field("TPOT p95 measured", "s", default=None)
    tpot_p99_s: float | None = field("TPOT p99", "s")
    measured_tpot_p99_s: float | None = field("TPOT p99 measured", "s", default=None)
    e2e_p50_s: float | None = field("E2E p50", "s")
    measured_e2e_p50_s: float | None = field("E2E p50 measured", "s", default=None)
    e2e_p95_s: float | None = field("E2E p95", "s")
    measured_e2e_p95_s: float | None = field("E2E p95 measured", "s", default=None)
    e2e_p99_s: float | None = field("E2E p99", "s")
    measured_e2e_p99_s: float | None = field("E2E p99 measured", "s", default=None)
    ttft_p50_error: float | None = field("TTFT p50 off", "percent", default=None)
    ttft_p95_error: float | None = field("TTFT p95 off", "percent", default=None)
    ttft_p99_error: float | None = field("TTFT p99 off", "percent", default=None)
    tpot_p50_error: float | None = field("TPOT p50 off", "percent", default=None)
    tpot_p95_error: float | None = field("TPOT p95 off", "percent", default=None)
    tpot_p99_error: float | None = field("TPOT p99 off", "percent", default=None)
    e2e_p50_error: float | None = field("E2E p50 off", "percent", default=None)
    e2e_p95_error: float | None = field("E2E p95 off", "percent", default=None)
    e2e_p99_error: float | None = field("E2E p99 off", "percent", default=None)
