"""`llmcalc plan`: how many of which device for a rate of requests and its limits, and what that costs a month."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import typer

from llmcalc import traffic as arrivals
from llmcalc import units
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.commands.space import listed
from llmcalc.errors import LlmcalcError, UsageError
from llmcalc.estimate import planning as estimator
from llmcalc.plan import Deployment
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc plan -m meta-llama/Llama-3.1-70B-Instruct -d h100-sxm,h200-sxm --rate 12 --prompt 3000 --output-tokens 400 --max-tpot 40ms

  llmcalc plan -m Qwen/Qwen3-8B -d l40s --trace requests.csv --max-ttft 2s --percentile 99

  llmcalc plan -m Qwen/Qwen3-32B -d h100-sxm --rate 5 --prompt 8k --output-tokens 500 --disaggregate --max-tpot 20ms

  llmcalc plan -m Qwen/Qwen3-8B -d h100-sxm --rate 20 --prompt 2k --output-tokens 300 --load-test
"""
DEFAULT_DEVICES = "h100-sxm,h200-sxm,a100-80-sxm,l40s"


class Coming(o.Request, o.Arrivals):
    """The requests of a service."""


class Devices(o.Layout):
    """The devices to choose from."""

    hardware = o.Placement.hardware.but(default=None, metavar="DEVICE,…", help=f"Devices to choose from. [default: {DEFAULT_DEVICES}]")


class Promises(o.Limits):
    """What the service promises, and how much of it a replica may carry."""

    max_utilization = o.option(
        "0.8",
        "--max-utilization",
        metavar="SHARE",
        read=parse.fraction,
        help="Most load of a replica, as a share of its highest rate.",
    )


class Further(o.Group):
    """What else is asked."""

    disaggregate = o.switch("--disaggregate", help="Also size separate pools for prefill and decode.")
    transfer = o.option(
        "50GB/s",
        "--transfer-bandwidth",
        metavar="RATE",
        read=parse.quantity("bytes/s"),
        help="Link between the pools, per replica.",
    )
    success_rate = o.option(None, "--success-rate", metavar="SHARE", read=parse.fraction, help="Share of requests that solve their task.")
    api_input = o.option(None, "--api-input-price", metavar="USD", read=parse.quantity("usd"), help="An API's price per 1M input tokens.")
    api_output = o.option(
        None, "--api-output-price", metavar="USD", read=parse.quantity("usd"), help="An API's price per 1M output tokens."
    )
    load_test = o.switch("--load-test", help="Print what to measure and what to expect, instead of the alternatives.")
    measured = o.option(None, "--measured", metavar="FILE", help="CSV of a load test (rate, ttft_p95_s, …) to compare with.")
    replicas = o.option(
        None,
        "--replicas",
        metavar="N",
        read=parse.whole_number,
        help="With --load-test or --measured: replicas that were there.",
    )

    def api(self) -> tuple[float, float] | None:
        """USD per 1M tokens in and out of an API, where one is named."""
        prices = self.api_input, self.api_output
        return None if prices == (None, None) else (prices[0] or 0.0, prices[1] or 0.0)


class Paid(o.Running, o.Money):
    """What runs it, and for how much."""


def asked_traffic(coming: Coming) -> arrivals.Traffic:
    """The traffic that the options describe. Errors: no-traffic, bad-value, and those of reading files."""
    rate, trace, mix, prompt, answer = coming.rate, coming.trace, coming.traffic, coming.prompt, coming.output_tokens
    if sum(each is not None for each in (trace, mix, prompt)) > 1:
        raise UsageError("bad-value", "--trace, --traffic and --prompt are three ways to say what arrives", "give one of them")
    if trace is not None:
        if rate is not None:
            raise UsageError("bad-value", "--trace has a rate of its own", "leave --rate out")
        return arrivals.of_trace(trace)
    if mix is not None:
        return arrivals.of_yaml(mix, rate)
    if rate is None or prompt is None or answer is None:
        missing = [name for name, value in (("--rate", rate), ("--prompt", prompt), ("--output-tokens", answer)) if value is None]
        raise UsageError(
            "no-traffic",
            f"{' and '.join(missing)} missing: nothing says what arrives",
            "give --rate 12 --prompt 3000 --output-tokens 400, --trace FILE or --traffic FILE",
        )
    kinds = estimator.kinds(
        prompt, answer, parse.within(coming.cached, prompt), coming.reasoning_tokens, coming.prompt_cv, coming.output_cv
    )
    return arrivals.Traffic(rate, kinds, coming.arrival_cv)


def plan(
    which: o.ModelChoice,
    place: Devices,
    coming: Coming,
    limits: Promises,
    steps: o.Steps,
    further: Further,
    running: Paid,
    out: o.Output,
) -> None:
    """The cheapest deployment for a rate of requests and limits on TTFT and TPOT, checked by simulation."""
    found = c.chosen(which)
    traffic = asked_traffic(coming)
    names = listed(DEFAULT_DEVICES if place.hardware is None else place.hardware, "hardware")
    layouts = [c.laid_out(found, name, place, running, running) for name in names]
    fixed = place.tp is not None or any(layout.ranks > 1 for layout in layouts)
    service = estimator.Service(
        traffic,
        limits.max_ttft,
        limits.max_tpot,
        limits.percentile,
        limits.max_utilization,
        steps.mfu,
        steps.mbu,
        steps.chunk,
        steps.max_batch,
        seed=coming.seed,
    )
    # What an optional answer needs is read before the minutes are spent.
    success, api, link, reasoning = further.success_rate, further.api(), further.transfer, coming.reasoning_tokens
    tested = arrivals.read_measured(further.measured) if further.measured else []
    estimate = estimator.plan(found, layouts, service, fixed=fixed)
    r = estimate.results
    met = r["devices"] is not None
    extra: dict[str, Any] = estimator.per_request(estimate, service, success, api, reasoning) if met else {}
    rows, columns = estimate.rows, _ALTERNATIVES
    chosen = next((layout for layout in layouts if layout.device.id == r["hardware"]), layouts[0])
    if r["tp"] is not None:
        chosen = replace(chosen, tp=r["tp"])
    if further.disaggregate:
        extra |= {f"disaggregated_{key}": value for key, value in estimator.pools(found, chosen, service, traffic.sample(), link).items()}
    if further.load_test or tested:
        number = further.replicas or r["replicas"] or 1
        rows, columns = _load_test(found, chosen, service, number, tested)
        extra |= {"load_test_replicas": number}
    mean = {word: units.number(estimate.inputs[f"mean_{key}_tokens"]) for word, key in (("in", "prompt"), ("out", "output"))}
    report = Report(
        command="plan",
        title=f"{found.id}: {_chosen(r, limited=service.max_ttft_s is not None or service.max_tpot_s is not None)}",
        model=c.model_header(found),
        hardware={"id": r["hardware"], "count": r["devices"]} if met else None,
        inputs={
            **estimate.inputs,
            "max_ttft_s": service.max_ttft_s,
            "max_tpot_s": service.max_tpot_s,
            "percentile": service.percentile,
            "max_utilization": service.max_utilization,
            "mfu": service.mfu,
            "mbu": service.mbu,
            "chunk_tokens": service.chunk,
            "seed": service.seed,
            "reasoning_tokens": reasoning,
            "devices": [layout.device.id for layout in layouts],
            "weights": chosen.weights.name,
            "kv_dtype": chosen.kv.name,
        },
        header=(c.model_line(found), f"{units.number(traffic.rate)} requests/s · {mean['in']} tokens in · {mean['out']} out"),
        facts=_facts(r, extra),
        columns=columns,
        rows=rows,
        assumptions=(
            *((f"devices {DEFAULT_DEVICES}: not given",) if place.hardware is None else ()),
            *c.variants(layout.device for layout in layouts),
            f"weights in {chosen.weights.name}, KV in {chosen.kv.name}",
            *_once(estimate.assumptions),
        ),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=met,
        remarks=_as_cheap(r, rows) if met and columns is _ALTERNATIVES else (),
        absent=(
            *(((_TPOT_KEYS, "every answer is a single token"),) if r["tpot_p50_s"] is None else ()),
            *(((_MONEY_KEYS, "not every device has a price"),) if r["usd_per_month"] is None else ()),
            ("next_lever_gain", "no lever was found"),
            ("", "null where `why` says what forbids it"),
        )
        if met
        else (("", "no layout that was tried meets the limits"),),
    )
    c.say(report, out)


def _load_test(
    found: Model, chosen: Deployment, service: estimator.Service, replicas: int, tested: list[dict[str, float]]
) -> tuple[tuple[dict[str, Any], ...], tuple[Column, ...]]:
    """(Rows, columns) of what to measure at which rate and what to expect, beside what was measured. Errors: does-not-fit, bad-value."""
    one = estimator.replica(found, chosen, service, service.traffic.sample())
    if not one.batch_limit:
        raise LlmcalcError(
            "does-not-fit",
            f"{found.id} does not serve these requests on {chosen.ranks} × {chosen.device.id}",
            "choose another device or a larger --tp",
        )
    if service.traffic.trace is not None:
        raise UsageError(
            "bad-value", "a load test is planned for random arrivals, not for a trace", "give --rate, --prompt and --output-tokens"
        )
    rates = [row["rate"] for row in tested] or [one.max_rate * replicas * share for share in (0.1, 0.25, 0.5, 0.7, 0.8, 0.9)]
    rows = tuple(estimator.compared(estimator.load_test(one, service, replicas, rates), tested))
    told = {key for row in tested for key in row}
    shown = tuple(replace(each, shown=each.key not in arrivals.MEASURED or each.key in told) for each in _COMPARED)
    return rows, shown if tested else _LOAD_TEST


def _facts(r: dict[str, Any], extra: Mapping[str, Any]) -> tuple[Fact, ...]:
    """The chosen deployment, and what else was asked of it."""
    met = r["devices"] is not None
    return (
        Fact("hardware", "device", r["hardware"], shown=met),
        Fact("devices", "devices", r["devices"], shown=met),
        Fact("replicas", "  replicas", r["replicas"], shown=met),
        Fact("tp", "  tp of each", r["tp"], shown=met),
        Fact("usd_per_month", "cost per month", r["usd_per_month"], "usd", met, note=f"{r['hours_per_month']} hours"),
        Fact("usd_per_hour", "  per hour", r["usd_per_hour"], "usd/h", met),
        Fact(
            "usd_per_million_output_tokens",
            "1M output tokens",
            r["usd_per_million_output_tokens"],
            "usd",
            met,
            note="everything charged to the output",
        ),
        Fact("utilization", "load", r["utilization"], "percent", met, note="of the highest rate a replica sustains"),
        Fact("max_rate_per_replica", "requests/s of a replica", r["max_rate_per_replica"], "", met, note="the most, at saturation"),
        Fact(
            "expected_max_rate_per_replica",
            "  expected in an engine",
            r["expected_max_rate_per_replica"],
            "",
            r["expected_max_rate_per_replica"] is not None,
            note=c.between(r, "expected_max_rate_per_replica", ""),
        ),
        *(
            Fact(f"expected_max_rate_per_replica_{end}", end, r[f"expected_max_rate_per_replica_{end}"], shown=False)
            for end in ("low", "high")
        ),
        Fact("batch_limit", "batch limit", r["batch_limit"], "", met, note="sequences of a replica"),
        Fact("mean_batch", "  mean batch", r["mean_batch"], "", met),
        *(Fact(f"{name}_p{p}_s", f"{name.upper()} p{p}", r[f"{name}_p{p}_s"], "s", met) for name in ("ttft", "tpot") for p in (50, 95, 99)),
        *(
            Fact(
                f"expected_{name}_s",
                f"expected {name.upper()}",
                r[f"expected_{name}_s"],
                "s",
                met,
                note=c.between(r, f"expected_{name}", "s"),
            )
            for name in ("tpot", "ttft")
        ),
        *(Fact(key, key, r[key], "s", shown=False) for key in r if key.startswith("expected_") and key.endswith(("_low_s", "_high_s"))),
        Fact("e2e_p95_s", "whole request p95", r["e2e_p95_s"], "s", met),
        Fact("preemptions", "preemptions", r["preemptions"], shown=bool(r["preemptions"])),
        Fact("binding", "binding", r["binding"], shown=r["binding"] is not None, note=_BINDING.get(r["binding"] or "", "")),
        Fact(
            "next_lever",
            "next lever",
            r["next_lever"],
            "",
            met,
            note=f"{r['next_lever_gain']:.2f} times the requests per device" if r["next_lever"] else "",
        ),
        Fact("next_lever_gain", "gain of the next lever", r["next_lever_gain"], shown=False),
        Fact("hours_per_month", "hours per month", r["hours_per_month"], shown=False),
        *(Fact(key, _LABELS[key][0], value, _LABELS[key][1], value is not None) for key, value in extra.items()),
    )


def _chosen(r: dict[str, Any], *, limited: bool) -> str:
    """The answer in a line."""
    if r["devices"] is None:
        return "NO DEPLOYMENT MEETS THE LIMITS" if limited else "NO DEPLOYMENT SERVES THIS"
    return f"{r['devices']} × {r['hardware']}" + (f" in {r['replicas']} replicas" if r["replicas"] > 1 else "")


def _once(texts: Iterable[str]) -> Iterator[str]:
    """The assumptions; the command that lists measured rows stands in the last of those that name it."""
    held = list(texts)
    for number, text in enumerate(held):
        head, command, rest = text.partition("; llmcalc accuracy ")
        yield head if command and any(later.endswith(command + rest) for later in held[number + 1 :]) else text


def _as_cheap(r: dict[str, Any], rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Another layout of as many devices for the same money that answers faster, for a look before the choice."""
    times = ("ttft_p95_s", "tpot_p95_s")
    alike = [
        row
        for row in rows
        if all(row.get(key) == r[key] for key in ("hardware", "devices", "usd_per_month")) and row["tp"] != r["tp"]
        and all(row[key] is not None and row[key] < r[key] for key in times)
    ]  # fmt: skip
    if not alike:
        return ()
    row = min(alike, key=lambda each: float(each["tpot_p95_s"]))
    ttft, tpot = (units.seconds(row[key]) for key in times)
    many = row["replicas"] > 1
    words = (
        f"{row['replicas']} replicas of tp {row['tp']} cost the same and answer"
        if many
        else f"one of tp {row['tp']} costs the same and answers"
    )
    return (f"{words} faster: TTFT p95 {ttft}, TPOT p95 {tpot}",)


_TPOT_KEYS = "tpot_p50_s tpot_p95_s tpot_p99_s"
_MONEY_KEYS = "usd_per_hour usd_per_month usd_per_million_output_tokens usd_per_request"
_BINDING = {
    "memory": "the caches that fit hold the rate down",
    "tpot": "the limit on TPOT holds the batch down, or asks for more replicas",
    "ttft": "the limit on TTFT asks for more replicas",
    "saturation": "the device's own speed; replicas are kept below saturation",
}
_ALTERNATIVES = (
    Column("hardware", "device"),
    Column("tp", "tp"),
    Column("replicas", "replicas", rank=1),
    Column("devices", "devices", rank=2),
    Column("usd_per_month", "USD/month", "usd"),
    Column("utilization", "load", "percent", rank=4),
    Column("ttft_p95_s", "TTFT p95", "s", rank=1),
    Column("tpot_p95_s", "TPOT p95", "s", rank=1),
    Column("why", "why", rank=3),
    Column("binding", "binding", shown=False),
    Column("batch_limit", "batch limit", shown=False),
    Column("devices_per_replica", "devices per replica", shown=False),
    Column("max_rate_per_replica", "requests/s", shown=False),
    *(Column(f"{name}_s", name, "s", shown=False) for name in ("ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "e2e_p95")),
    Column("usd_per_million_output_tokens", "1M output", "usd", shown=False),
)
_TIMES = tuple(
    Column(f"{name}_p{p}_s", f"{name.upper()} p{p}", "s", shown=p != 99 and name != "e2e", rank=1 if p == 95 else 2)
    for name in ("ttft", "tpot", "e2e")
    for p in (50, 95, 99)
)
_LOAD_TEST = (
    Column("rate", "requests/s"),
    Column("utilization", "load", "percent", rank=4),
    Column("concurrency", "at once", rank=3),
    Column("output_tokens_per_s", "tokens/s", rank=3),
    *_TIMES,
)
_COMPARED = (
    Column("rate", "requests/s"),
    Column("utilization", "load", "percent", rank=4),
    *(
        Column(f"{kind}{name}_p{p}_s", f"{name.upper()} p{p}{label}", "s")
        for name in ("ttft", "tpot", "e2e")
        for p in (50, 95, 99)
        for kind, label in (("", ""), ("measured_", " measured"))
    ),
    *(Column(f"{name}_p{p}_error", f"{name.upper()} p{p} off", "percent") for name in ("ttft", "tpot", "e2e") for p in (50, 95, 99)),
)
_LABELS: dict[str, tuple[str, str]] = {
    "usd_per_request": ("one request", "usd"),
    "usd_per_successful_task": ("one task that succeeds", "usd"),
    "answer_starts_p50_s": ("the answer starts, p50", "s"),
    "reasoning_usd_per_request": ("  of it thinking", "usd"),
    "api_usd_per_request": ("the API: one request", "usd"),
    "api_usd_per_month": ("  per month at this rate", "usd"),
    "break_even_requests_per_month": ("  break-even, requests a month", ""),
    "break_even_rate": ("  break-even, requests/s", ""),
    "cheaper": ("  cheaper", ""),
    "load_test_replicas": ("load test on replicas", ""),
    "disaggregated_prefill_replicas": ("separate pools: prefill", ""),
    "disaggregated_decode_replicas": ("  decode", ""),
    "disaggregated_prefill_devices": ("  devices of prefill", ""),
    "disaggregated_decode_devices": ("  devices of decode", ""),
    "disaggregated_prefill_per_decode": ("  prefill per decode, unrounded", ""),
    "disaggregated_transfer_bytes_per_request": ("  cache sent per request", "B"),
    "disaggregated_transfer_s": ("    sent in", "s"),
    "disaggregated_transfer_bytes_per_s": ("    of all requests", "B/s"),
    "disaggregated_ttft_s": ("  TTFT at the percentile, at most", "s"),
    "disaggregated_tpot_s": ("  TPOT at the percentile", "s"),
    "disaggregated_met": ("  limits met", ""),
    "disaggregated_why": ("  separate pools", ""),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", epilog=EXAMPLES)(o.command(plan))
