"""`llmcalc plan`: how many of which device for a rate of requests and its limits, and what that costs a month."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from llmcalc import traffic as arrivals
from llmcalc import units
from llmcalc.commands import common as c
from llmcalc.commands.space import listed
from llmcalc.errors import LlmcalcError, UsageError
from llmcalc.estimate import planning as estimator
from llmcalc.present import Column, Fact, Report

EXAMPLES = """
Examples:

  llmcalc plan -m meta-llama/Llama-3.1-70B-Instruct -d h100-sxm,h200-sxm --rate 12 --prompt 3000 --output-tokens 400 --max-tpot 40ms

  llmcalc plan -m Qwen/Qwen3-8B -d l40s --trace requests.csv --max-ttft 2s --percentile 99

  llmcalc plan -m Qwen/Qwen3-32B -d h100-sxm --rate 5 --prompt 8k --output-tokens 500 --disaggregate --max-tpot 20ms

  llmcalc plan -m Qwen/Qwen3-8B -d h100-sxm --rate 20 --prompt 2k --output-tokens 300 --load-test
"""
DEFAULT_DEVICES = "h100-sxm,h200-sxm,a100-80-sxm,l40s"

RateOption = Annotated[str | None, typer.Option("--rate", metavar="RATE", help="Requests: 12 (per second), 700/min, 1e6/day.")]
TraceOption = Annotated[str | None, typer.Option("--trace", metavar="FILE", help="CSV or JSONL: arrival_s, prompt_tokens, output_tokens.")]
TrafficOption = Annotated[
    str | None, typer.Option("--traffic", metavar="FILE", help="YAML with a mix: rate, cv, kinds: [{share, prompt, output_tokens}].")
]
MaxTtftOption = Annotated[str | None, typer.Option("--max-ttft", metavar="TIME", help="Limit on the time to the first token, such as 1s.")]
MaxTpotOption = Annotated[str | None, typer.Option("--max-tpot", metavar="TIME", help="Limit on the time per token, such as 40ms.")]
PercentileOption = Annotated[str, typer.Option("--percentile", metavar="P", help="At which percentile of requests the limits hold.")]
ArrivalCvOption = Annotated[
    str, typer.Option("--arrival-cv", metavar="CV", help="Variation between arrivals: 1 random, above 1 in bursts, 0 even.")
]
PromptCvOption = Annotated[str, typer.Option("--prompt-cv", metavar="CV", help="Variation of prompt lengths (lognormal); 0: all alike.")]
OutputCvOption = Annotated[str, typer.Option("--output-cv", metavar="CV", help="Variation of output lengths (lognormal); 0: all alike.")]
ReasoningOption = Annotated[
    str, typer.Option("--reasoning-tokens", metavar="TOKENS", help="Tokens thought before each answer; paid, not shown.")
]
MfuOption = Annotated[str, typer.Option("--mfu", metavar="SHARE", help="Share of the compute rate that the engine reaches.")]
MbuOption = Annotated[str, typer.Option("--mbu", metavar="SHARE", help="Share of the bandwidth that the engine reaches.")]
MaxBatchOption = Annotated[str, typer.Option("--max-batch", metavar="N", help="Most sequences of a replica at once (max_num_seqs).")]
SeedOption = Annotated[str, typer.Option("--seed", metavar="N", help="Seed of the random arrivals and lengths.")]


def variation(text: str, name: str) -> float:
    """A coefficient of variation from 0 to 10. Errors: bad-value."""
    value = 0.0 if text.strip() in ("0", "0.0") else c.positive(text, name)
    if value > 10:
        raise UsageError("bad-value", f"{name} {text[:40]!r} is not from 0 to 10", f"write it like --{name} 1")
    return value


def asked_traffic(
    rate: str | None,
    trace: str | None,
    mix: str | None,
    prompt: str | None,
    output_tokens: str | None,
    cached: str,
    reasoning: str,
    arrival_cv: str,
    prompt_cv: str,
    output_cv: str,
) -> arrivals.Traffic:
    """The traffic that the options describe. Errors: no-traffic, bad-value, and those of reading files."""
    if sum(option is not None for option in (trace, mix, prompt)) > 1:
        raise UsageError("bad-value", "--trace, --traffic and --prompt are three ways to say what arrives", "give one of them")
    if trace is not None:
        if rate is not None:
            raise UsageError("bad-value", "--trace has a rate of its own", "leave --rate out")
        return arrivals.of_trace(trace)
    if mix is not None:
        return arrivals.of_yaml(mix, None if rate is None else c.per_second(rate, "rate"))
    if rate is None or prompt is None or output_tokens is None:
        missing = [name for name, value in (("--rate", rate), ("--prompt", prompt), ("--output-tokens", output_tokens)) if value is None]
        raise UsageError(
            "no-traffic",
            f"{' and '.join(missing)} missing: nothing says what arrives",
            "give --rate 12 --prompt 3000 --output-tokens 400, --trace FILE or --traffic FILE",
        )
    read = units.tokens(prompt, "prompt")
    kinds = estimator.kinds(
        read,
        units.tokens(output_tokens, "output-tokens"),
        c.cached_tokens(cached, read),
        c.count_or_zero(reasoning, "reasoning-tokens"),
        variation(prompt_cv, "prompt-cv"),
        variation(output_cv, "output-cv"),
    )
    return arrivals.Traffic(c.per_second(rate, "rate"), kinds, variation(arrival_cv, "arrival-cv"))


def plan(
    model: c.ModelOption,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware",
            "-d",
            "--gpu",
            "--device",
            metavar="DEVICE,…",
            autocompletion=c.completion.devices,
            help=f"Devices to choose from. [default: {DEFAULT_DEVICES}]",
        ),
    ] = None,
    rate: RateOption = None,
    prompt: c.PromptOption = None,
    output_tokens: c.OutputTokensOption = None,
    trace: TraceOption = None,
    traffic: TrafficOption = None,
    cached: c.CachedOption = "0",
    reasoning_tokens: ReasoningOption = "0",
    max_ttft: MaxTtftOption = None,
    max_tpot: MaxTpotOption = None,
    percentile: PercentileOption = "95",
    max_utilization: Annotated[
        str, typer.Option("--max-utilization", metavar="SHARE", help="Most load of a replica, as a share of its highest rate.")
    ] = "0.8",
    arrival_cv: ArrivalCvOption = "1",
    prompt_cv: PromptCvOption = "0",
    output_cv: OutputCvOption = "0",
    mfu: MfuOption = "0.5",
    mbu: MbuOption = "0.8",
    chunk: c.ChunkOption = "2048",
    max_batch: MaxBatchOption = "1024",
    disaggregate: Annotated[bool, typer.Option("--disaggregate", help="Also size separate pools for prefill and decode.")] = False,
    transfer: Annotated[str, typer.Option("--transfer-bandwidth", metavar="RATE", help="Link between the pools, per replica.")] = "50GB/s",
    success_rate: Annotated[
        str | None, typer.Option("--success-rate", metavar="SHARE", help="Share of requests that solve their task.")
    ] = None,
    api_input: Annotated[str | None, typer.Option("--api-input-price", metavar="USD", help="An API's price per 1M input tokens.")] = None,
    api_output: Annotated[
        str | None, typer.Option("--api-output-price", metavar="USD", help="An API's price per 1M output tokens.")
    ] = None,
    load_test: Annotated[
        bool, typer.Option("--load-test", help="Print what to measure and what to expect, instead of the alternatives.")
    ] = False,
    measured: Annotated[
        str | None, typer.Option("--measured", metavar="FILE", help="CSV of a load test (rate, ttft_p95_s, …) to compare with.")
    ] = None,
    replicas: Annotated[
        str | None, typer.Option("--replicas", metavar="N", help="With --load-test or --measured: replicas that were there.")
    ] = None,
    weights: c.WeightsOption = "auto",
    kv_dtype: c.KvOption = "auto",
    tp: c.TpOption = None,
    pp: c.PpOption = "1",
    ep: c.EpOption = "1",
    price: c.PriceOption = None,
    reserve: c.ReserveOption = "0",
    engine: c.EngineOption = "napkin",
    memory_utilization: c.UtilizationOption = None,
    seed: SeedOption = "0",
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    explain: c.ExplainOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
    check: c.CheckOption = False,
) -> None:
    """The cheapest deployment for a rate of requests and limits on TTFT and TPOT, checked by simulation."""
    found = c.load(model, revision=revision, offline=offline, refresh=refresh)
    coming = asked_traffic(rate, trace, traffic, prompt, output_tokens, cached, reasoning_tokens, arrival_cv, prompt_cv, output_cv)
    names = listed(DEFAULT_DEVICES if hardware is None else hardware, "hardware")
    options: dict[str, Any] = {
        "weights": weights,
        "kv_dtype": kv_dtype,
        "tp": tp,
        "pp": pp,
        "ep": ep,
        "price": price,
        "reserve": reserve,
        "engine": engine,
        "memory_utilization": memory_utilization,
    }
    layouts = [c.deployment(found, name, **options) for name in names]
    fixed = tp is not None or any(layout.ranks > 1 for layout in layouts)
    service = estimator.Service(
        coming,
        c.duration(max_ttft, "max-ttft"),
        c.duration(max_tpot, "max-tpot"),
        c.percentile(percentile),
        c.fraction(max_utilization, "max-utilization"),
        c.fraction(mfu, "mfu"),
        c.fraction(mbu, "mbu"),
        c.count_or_zero(chunk, "chunk"),
        c.whole_number(max_batch, "max-batch", most=100_000),
        seed=c.whole_number(seed, "seed", least=0),
    )
    # What an optional answer needs is read before the minutes are spent.
    success = None if success_rate is None else c.fraction(success_rate, "success-rate")
    api = (
        None
        if api_input is None and api_output is None
        else (units.quantity(api_input or "0", "usd"), units.quantity(api_output or "0", "usd"))
    )
    link = units.quantity(transfer, "bytes/s")
    tested = arrivals.read_measured(measured) if measured else []
    estimate = estimator.plan(found, layouts, service, fixed=fixed)
    r = estimate.results
    extra: dict[str, Any] = {}
    if r["devices"]:
        extra = estimator.per_request(estimate, service, success, api, c.count_or_zero(reasoning_tokens, "reasoning-tokens"))
    warnings = [*estimate.warnings]
    rows, columns = estimate.rows, _ALTERNATIVES
    chosen = next((layout for layout in layouts if layout.device.id == r["hardware"]), layouts[0])
    if r["tp"] is not None:
        chosen = replace(chosen, tp=r["tp"])
    if disaggregate:
        extra |= {f"disaggregated_{key}": value for key, value in estimator.pools(found, chosen, service, coming.sample(), link).items()}
    if load_test or tested:
        number = c.whole_number(replicas, "replicas") if replicas is not None else r["replicas"] or 1
        one = estimator.replica(found, chosen, service, coming.sample())
        if not one.batch_limit:
            raise LlmcalcError(
                "does-not-fit",
                f"{found.id} does not serve these requests on {chosen.ranks} × {chosen.device.id}",
                "choose another device or a larger --tp",
            )
        if coming.trace is not None:
            raise UsageError(
                "bad-value", "a load test is planned for random arrivals, not for a trace", "give --rate, --prompt and --output-tokens"
            )
        rates = [row["rate"] for row in tested] or [one.max_rate * number * share for share in (0.1, 0.25, 0.5, 0.7, 0.8, 0.9)]
        rows = tuple(estimator.compared(estimator.load_test(one, service, number, rates), tested))
        told = {key for row in tested for key in row}
        columns = (
            _LOAD_TEST
            if not tested
            else tuple(replace(each, shown=each.key not in arrivals.MEASURED or each.key in told) for each in _COMPARED)
        )
        extra |= {"load_test_replicas": number}
    met = r["devices"] is not None
    mean = {word: units.number(estimate.inputs[f"mean_{key}_tokens"]) for word, key in (("in", "prompt"), ("out", "output"))}
    facts = (
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
            "reasoning_tokens": c.count_or_zero(reasoning_tokens, "reasoning-tokens"),
            "devices": [layout.device.id for layout in layouts],
            "weights": chosen.weights.name,
            "kv_dtype": chosen.kv.name,
        },
        header=(c.model_line(found), f"{units.number(coming.rate)} requests/s · {mean['in']} tokens in · {mean['out']} out"),
        facts=facts,
        columns=columns,
        rows=rows,
        assumptions=(
            *((f"devices {DEFAULT_DEVICES}: not given",) if hardware is None else ()),
            *c.variants(layout.device for layout in layouts),
            f"weights in {chosen.weights.name}, KV in {chosen.kv.name}",
            *_once(estimate.assumptions),
        ),
        warnings=tuple(warnings),
        figures=estimate.figures,
        verdict=met,
        remarks=_as_cheap(r, rows) if met and not load_test and not tested else (),
        absent=(
            *(((_TPOT_KEYS, "every answer is a single token"),) if r["tpot_p50_s"] is None else ()),
            *(((_MONEY_KEYS, "not every device has a price"),) if r["usd_per_month"] is None else ()),
            ("next_lever_gain", "no lever was found"),
            ("", "null where `why` says what forbids it"),
        )
        if met
        else (("", "no layout that was tried meets the limits"),),
    )
    c.emit(report, format=format, json=json, output=output, explain=explain, check=check)


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
    app.command("plan", epilog=EXAMPLES)(c.estimating(plan))
