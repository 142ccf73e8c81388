"""`llmcalc plan`: how many of which device for a rate of requests and its limits, and what that costs a month."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import typer

from llmcalc import hardware, loadgen, units
from llmcalc import traffic as arrivals
from llmcalc.answers import Answer, Aside, Words, words
from llmcalc.architecture import Model
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.commands import parse
from llmcalc.commands.purse import purse
from llmcalc.commands.space import listed
from llmcalc.errors import LlmcalcError, UsageError
from llmcalc.estimate import loadtest, planned, pools
from llmcalc.estimate import planning as estimator
from llmcalc.estimate.service import Service, candidate, keeping
from llmcalc.plan import Deployment
from llmcalc.present import Column, Fact, Picture, Report, columns, facts

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

    image = o.Work.image


class Devices(o.Layout, o.Wires):
    """The devices to choose from."""

    hardware = o.Placement.hardware.but(default=None, metavar="DEVICE,…", help=f"Devices to choose from. [default: {DEFAULT_DEVICES}]")
    weights = o.Layout.weights.but(metavar="FORMAT,…", help="Formats to choose from: auto (as the checkpoint ships), fp8, ...")


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

    section = "Workload"
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
    measured = o.option(
        None, "--measured", metavar="FILE", help="A load test to compare with: JSON of vllm bench serve, GuideLLM or AIPerf, or CSV."
    )
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
        if (prices[0] is None) != (prices[1] is None):
            raise UsageError(
                "bad-value", "an API has a price for its input and one for its output", "give both --api-input-price and --api-output-price"
            )
        return None if prices[0] is None or prices[1] is None else (prices[0], prices[1])


class Paid(o.Running, o.Money):
    """What runs it, and for how much."""


COST = Picture(
    "usd_per_month", "USD per month", "usd", (("hardware", ""), ("weights", ""), ("tp", "tp "), ("devices", "devices ")), "chosen"
)


def method_of(steps: o.Steps) -> tuple[Literal["expected", "napkin"], float, float]:
    """(Method, shares of the compute rate and of the bandwidth): own shares mean the napkin's method. Errors: unknown-method."""
    name = steps.method or ("napkin" if steps.gave("mfu", "mbu") else "expected")
    if name == "expected":
        return "expected", 1.0, 1.0
    if name == "napkin":
        return "napkin", 0.5 if steps.mfu is None else steps.mfu, 0.8 if steps.mbu is None else steps.mbu
    known = "a stream of requests is not timed operator by operator" if name == "roofline" else f"{name[:40]!r} is not a method"
    raise UsageError("unknown-method", f"method: {known}", "use --method expected or --method napkin")


def asked_traffic(model: Model, coming: Coming, users: int | None = None) -> arrivals.Traffic:
    """The traffic that the options describe, or what `users` ask in turn. Errors: no-traffic, bad-value, and those of reading files."""
    rate, trace, mix, prompt, answer = coming.rate, coming.trace, coming.traffic, coming.prompt, coming.output_tokens
    if sum(each is not None for each in (trace, mix, prompt)) > 1:
        raise UsageError("bad-value", "--trace, --traffic and --prompt are three ways to say what arrives", "give one of them")
    if users and (trace or mix):
        raise UsageError("bad-value", "--concurrency needs requests of one kind", "give --prompt and --output-tokens")
    if trace is not None:
        if rate is not None:
            raise UsageError("bad-value", "--trace has a rate of its own", "leave --rate out")
        return arrivals.of_trace(trace)
    if mix is not None:
        return arrivals.of_yaml(mix, rate)
    if users and rate is not None:
        raise UsageError("bad-value", "--concurrency and --rate are two ways to say when requests come", "give one of them")
    at = users or rate
    if at is None or prompt is None or answer is None:
        missing = [name for name, value in (("--rate", at), ("--prompt", prompt), ("--output-tokens", answer)) if value is None]
        raise UsageError(
            "no-traffic",
            f"{' and '.join(missing)} missing: nothing says what arrives",
            "give --rate 12 --prompt 3000 --output-tokens 400, --trace FILE or --traffic FILE",
        )
    looked = c.seen(model, coming.image)
    prompt += looked.tokens if looked else 0
    kinds = estimator.kinds(
        prompt, answer, parse.within(coming.cached, prompt), coming.reasoning_tokens, coming.prompt_cv, coming.output_cv
    )
    return arrivals.Traffic(at, kinds, 1 if users else coming.arrival_cv, users=users)


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
    c.say(reported(c.chosen(which), place, coming, limits, steps, further, running)[0], out)


def reported(
    found: Model, place: Devices, coming: Coming, limits: Promises, steps: o.Steps, further: Further, running: Paid
) -> tuple[Report, estimator.Planned]:
    """The answer, and what it was made of."""
    traffic = asked_traffic(found, coming)
    names = listed(DEFAULT_DEVICES if place.hardware is None else place.hardware, "hardware")
    formats = listed(place.weights, "weights")
    owned = purse(running, (hardware.load(hardware.parse_count(name)[1]) for name in names))
    every = (c.laid_out(found, name, place, running, running, weights, owned) for name in names for weights in formats)
    layouts = list({(layout.device.id, layout.weights.name): layout for layout in every}.values())
    fixed = place.tp is not None or any(layout.ranks > 1 for layout in layouts)
    method, mfu, mbu = method_of(steps)
    service = Service(
        traffic,
        limits.max_ttft,
        limits.max_tpot,
        limits.percentile,
        limits.max_utilization,
        mfu,
        mbu,
        steps.chunk,
        steps.max_batch,
        seed=coming.seed,
        method=method,
        images=c.seen(found, coming.image),
    )
    success, api, link, reasoning = further.success_rate, further.api(), further.transfer, coming.reasoning_tokens
    tested = loadgen.read(further.measured) if further.measured else []
    made = estimator.plan(found, layouts, service, fixed=fixed)
    estimate, chosen = made.answer, made.deployment
    r = estimate.results
    met = r.devices is not None
    service = keeping(found, chosen, service)
    more: list[Answer] = [estimator.per_request(estimate, service, success, api, reasoning)] if met else []
    if further.disaggregate:
        more.append(pools.pools(found, chosen, service, service.traffic.sample(), link))
    rows: tuple[Answer, ...] = estimate.rows
    shape = columns(planned.Alternative, **{key: any(row[key] not in (1, None) for row in rows) for key in ("pp", "dp", "nodes")})
    testing = further.load_test or bool(tested)
    if testing:
        number = further.replicas or r.replicas or 1
        rows, shape = _load_test(found, chosen, service, number, tested)
        more.append(planned.Tested(load_test_replicas=number))
    report = Report(
        command="plan",
        title=f"{found.id}: {_chosen(r, limited=service.max_ttft_s is not None or service.max_tpot_s is not None)}",
        model=c.model_header(found),
        hardware={"id": r.hardware, "count": r.devices} if met else None,
        inputs={
            **estimate.inputs,
            **c.image_inputs(found, coming.image),
            **_inputs(service, chosen),
            "reasoning_tokens": reasoning,
            "devices": [layout.device.id for layout in layouts],
            "weights": chosen.weights.name,
            "kv_dtype": chosen.kv.name,
        },
        header=(c.model_line(found), _traffic_line(estimate.inputs)),
        facts=(*_facts(r), *(fact for extra in more for fact in facts(extra, **{key: False for key in extra if extra[key] is None}))),
        columns=shape,
        picture=None if testing else COST,
        rows=rows,
        assumptions=(
            *((f"devices {DEFAULT_DEVICES}: not given",) if place.hardware is None else ()),
            *c.variants(layout.device for layout in layouts),
            *dict.fromkeys(map(_priced, layouts)),
            Aside(f"weights in {chosen.weights.name}, KV in {chosen.kv.name}"),
            *_once(estimate.assumptions),
        ),
        warnings=estimate.warnings,
        figures=estimate.figures,
        verdict=met,
        remarks=_as_cheap(r, estimate.rows) if met and not testing else (),
        absent=_absent(r),
    )
    return report, made


def _load_test(
    model: Model, chosen: Deployment, service: Service, replicas: int, tested: list[loadgen.Run]
) -> tuple[tuple[Answer, ...], tuple[Column, ...]]:
    """The rows of a load test of so many replicas and their columns; beside what was measured, where that is given."""
    one = candidate(model, chosen, service, service.traffic.sample())
    if not one.batch_limit:
        raise LlmcalcError(
            "does-not-fit",
            f"{model.id} does not serve these requests on {chosen.ranks} × {chosen.device.id}",
            "choose another device or a larger --tp",
        )
    if service.traffic.trace is not None:
        raise UsageError(
            "bad-value", "a load test is planned for random arrivals, not for a trace", "give --rate, --prompt and --output-tokens"
        )
    loads = tested or [loadgen.Run(one.max_rate * replicas * share, {}) for share in (0.1, 0.25, 0.5, 0.7, 0.8, 0.9)]
    predicted = loadtest.load_test(one, service, replicas, loads)
    if not tested:
        return predicted, columns(planned.Loaded)
    told = {key for load in tested for key in load.times}
    untold = {
        key: False
        for name in arrivals.MEASURED
        if name not in told
        for key in (name, f"measured_{name}", f"{name.removesuffix('_s')}_error")
    }
    return loadtest.compared(predicted, tested), columns(planned.Compared, **untold)


def _facts(r: planned.Plan) -> tuple[Fact, ...]:
    """The plan; where none meets the limits, only what binds is shown."""
    met = r.devices is not None
    said: dict[str, Words | str | bool] = {}
    if met:
        said |= {key: c.between(r, key.removesuffix("_s"), "s") for key in ("expected_tpot_s", "expected_ttft_s")}
    if r.max_rate_per_replica_low is not None:
        said["max_rate_per_replica"] = c.between(r, "max_rate_per_replica", "")
    elif r.expected_max_rate_per_replica is not None:
        said["expected_max_rate_per_replica"] = Words(note=c.between(r, "expected_max_rate_per_replica", ""))
    if r.next_lever_gain is not None:
        said["next_lever"] = f"{r.next_lever_gain:.2f} times the requests per device"
    if r.binding is not None:
        said["binding"] = _BINDING[r.binding]
    said |= {key: False for key, what in words(type(r)).items() if what.shown and not met and key != "binding"}
    said |= {key: False for key in ("preemptions", "binding") if not r[key]}
    said |= {key: False for key in ("nodes", "pp", "dp") if r[key] in (1, None)}
    if r.holds_at_high is None:
        said["holds_at_high"] = False
    return facts(r, **said)


def _priced(plan: Deployment) -> Aside:
    """What a device costs, and who asks that since when."""
    usd = plan.usd_per_device_hour
    return Aside(f"{plan.device.id}: " + (plan.device.price().text if usd is None else f"{units.usd(usd)} per device-hour, as given"))


def _inputs(service: Service, plan: Deployment) -> dict[str, Any]:
    """What was asked, for the echo."""
    return {
        "max_ttft_s": service.max_ttft_s,
        "max_tpot_s": service.max_tpot_s,
        "percentile": service.percentile,
        "max_utilization": service.max_utilization,
        "method": service.method,
        "mfu": service.mfu if service.method == "napkin" else None,
        "mbu": service.mbu if service.method == "napkin" else None,
        "chunk_tokens": service.policy(plan).chunk,
        "seed": service.seed,
    }


def _traffic_line(inputs: Mapping[str, Any]) -> str:
    tokens_in, tokens_out = (units.number(inputs[f"mean_{name}_tokens"]) for name in ("prompt", "output"))
    return f"{units.number(inputs['rate'])} requests/s · {tokens_in} tokens in · {tokens_out} out"


def _absent(r: planned.Plan) -> tuple[tuple[str, str], ...]:
    """Why keys are null."""
    if r.devices is None:
        return (("", "no layout that was tried meets the limits"),)
    return (
        *(((_TPOT_KEYS, "every answer is a single token"),) if r.tpot_p50_s is None else ()),
        *(((_MONEY_KEYS, "not every device has a price"),) if r.usd_per_month is None else ()),
        ("next_lever_gain", "no lever was found"),
        ("max_rate_per_replica_low max_rate_per_replica_high", "the textbook has no range"),
        ("holds_at_high", "without a limit or a range there is nothing to hold"),
        ("", "null where `why` says what forbids it"),
    )


def _chosen(r: planned.Plan, *, limited: bool) -> str:
    """The answer in a line."""
    if r.devices is None:
        return "no deployment meets the limits" if limited else "no deployment serves this"
    many = r.replicas or 1
    ranks = " ".join(f"{name} {r[name]}" for name in ("tp", "pp", "dp") if (r.get(name) or 1) > 1)
    laid = [f"in {many} replicas" if many > 1 else "", f"{'of ' if many > 1 else ''}{ranks}" if ranks else ""]
    return " ".join(filter(None, [f"{r.devices} × {r.hardware}", *laid])) + f", weights {r.weights}"


def _once(texts: Iterable[str]) -> Iterator[str]:
    """The assumptions; the command that lists measured rows stands in the last of those that name it."""
    held = list(texts)
    for number, text in enumerate(held):
        head, command, rest = text.partition("; llmcalc accuracy ")
        yield type(text)(head) if command and any(later.endswith(command + rest) for later in held[number + 1 :]) else text


def _as_cheap(r: planned.Plan, rows: Iterable[planned.Alternative]) -> tuple[str, ...]:
    """Another layout of as many devices for the same money that answers faster, for a look before the choice."""
    chosen = (r.hardware, r.devices, r.usd_per_month)
    faster = [
        (row.tpot_p95_s, row.ttft_p95_s, row)
        for row in rows
        if (row.hardware, row.devices, row.usd_per_month) == chosen and row.tp != r.tp
        and row.tpot_p95_s and row.ttft_p95_s and row.tpot_p95_s < (r.tpot_p95_s or 0) and row.ttft_p95_s < (r.ttft_p95_s or 0)
    ]  # fmt: skip
    if not faster:
        return ()
    tpot, ttft, row = min(faster, key=lambda each: each[:2])
    many = (row.replicas or 0) > 1
    words = f"{row.replicas} replicas of tp {row.tp} cost the same and answer" if many else f"one of tp {row.tp} costs the same and answers"
    return (f"{words} faster: TTFT {units.seconds(ttft)}, TPOT {units.seconds(tpot)}",)


_TPOT_KEYS = "tpot_p50_s tpot_p95_s tpot_p99_s"
_MONEY_KEYS = "usd_per_hour usd_per_month usd_per_million_output_tokens usd_per_request"
_BINDING = {
    "memory": "the caches that fit hold the rate down",
    "tpot": "the limit on TPOT holds the batch down, or asks for more replicas",
    "ttft": "the limit on TTFT asks for more replicas",
    "saturation": "the device's own speed; replicas are kept below saturation",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan", epilog=EXAMPLES)(o.command(plan))
