"""What a measured row says: the model, how it was run, what was asked of it, and the value in the estimate's own unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from llmcalc import engines, hardware, sources
from llmcalc import model as model_reader
from llmcalc.architecture import Model
from llmcalc.engines import Engine
from llmcalc.errors import UsageError, printable
from llmcalc.estimate import layout, memory, offload, rates, step
from llmcalc.hardware import Device
from llmcalc.plan import Deployment, Offload, Workload

STEPS = ("tpot", "itl", "stream_tokens_per_s", "batch_tokens_per_s", "tokens_per_s_per_user")
LOADS = ("max_load_tokens_per_s", "max_load_tokens_per_s_per_device")
PROMPTS = ("prompt_tokens_per_s", "batch_prompt_tokens_per_s", "ttft")
ENERGY = "joules_per_output_token"
METRICS = (*STEPS, "request_s", *PROMPTS, *LOADS, ENERGY)
KINDS = ("_median", "_mean", "_p50")
"""Ends of a metric's name that an estimate of the usual case stands for."""
NODE_RANKS = 8
"""Ranks of one attention group at most: further ones in a row's tp are its experts' (aiconfigurator's sample writes tp × ep)."""
LIKE = {"deepspeed": "vllm", "deepspeed-mii": "vllm"}
"""Engines without a row of their own: Optimum Habana on Gaudi, DeepSpeed-MII."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A row as a question to the estimator. `quantity`: step, request, ttft, prompt, load or energy."""

    quantity: str
    model: Model
    plan: Deployment
    work: Workload
    value: float
    """Seconds; of a load, output tokens per second of the replica; of energy, joules per output token."""
    burst: bool = False
    """All requests come at once."""


@cache
def model_of(reference: str) -> Model:
    """A bundled model."""
    found = sources.find(reference, offline=True)
    return model_reader.read(found.config, id=found.id, source=found.kind, revision=found.revision, quant=found.quant, facts=found.facts)


def field(row: Mapping[str, Any], name: str, otherwise: Any = None) -> Any:
    """A field that a row must have, unless there is an otherwise. Errors: bad-row."""
    value = row.get(name, otherwise)
    if value is None:
        raise UsageError(
            "bad-row", f"row {printable(str(row.get('id')), 40)} has no {name}", "see measurements/decode.yaml for the fields of a row"
        )
    return value


def engine(row: Mapping[str, Any]) -> Engine:
    """The engine at its age, and what of its build matters to its times. Errors: unknown-engine."""
    name = str(row.get("engine", "napkin")).lower()
    if name in LIKE:
        return replace(engines.find(LIKE[name]), release=name)
    release = re.match(r"\d{1,4}\.\d{1,4}", str(row.get("version") or ""))
    found = engines.find(f"{name}@{release[0]}" if release else name)
    if found.family == "llama.cpp":
        backend = str(row.get("backend", ""))
        age = "amdvlk" if "amdvlk" in backend else "vulkan" if "vulkan" in backend else "2024" if "2024" in _dated(row) else ""
        found = replace(found, release=age)
    if found.prompts_first and any(float(row.get(name) or 0) % 1 for name in ("prompt", "output")):
        found = replace(found, prompts_first=False)  # a mean that is no whole number: lengths vary, and requests fall out of step
    return found


def _dated(row: Mapping[str, Any]) -> str:
    return f"{row.get('version', '')} {row.get('date', '')}"


def deployment(row: Mapping[str, Any], model: Model) -> Deployment:
    """How the row was run. Errors: those of the model's formats, of the device and of the engine."""
    sharded = row.get("n_devices") if row.get("engine") in LIKE else None  # these cut matrices over all devices
    tp, ep = int(row.get("tp") or sharded or 1), int(row.get("ep") or 1)
    if tp > NODE_RANKS and ep > 1 and tp % ep == 0:
        tp //= ep
    ep = max(ep, tp * int(row.get("dp") or 1)) if layout.experts(model) and int(row.get("dp") or 1) > 1 else ep
    return Deployment(
        device=hardware.load(field(row, "device")),
        weights=memory.weight_format(model, str(row.get("weights") or "auto"), engine(row))[0],
        kv=memory.kv_format(model, _cache(row))[0],
        tp=tp,
        pp=int(row.get("pp") or 1),
        ep=ep if layout.experts(model) else 1,
        engine=engine(row),
        offload=_offload(row, model),
        batched_tokens=_micro_batch(row),
        max_sequences=row.get("max_batch") if str(row.get("metric")) in LOADS else None,
    )


def _offload(row: Mapping[str, Any], model: Model) -> Offload | None:
    """What lies in the host's memory: layers' experts by number, by size or in words, or all but some layers. Errors: bad-row."""
    layers, mixtures = len(model.stack.layers), offload.mixtures(model)
    kept = row.get("gpu_layers", row.get("ngl"))
    experts = row.get("n_cpu_moe", row.get("host_experts_layers"))
    words = re.match(r"\s*(\d+)(?:\s*of\s*\d+)?\s*$", str(experts)) if experts is not None else None
    if experts is not None and words is None:
        raise UsageError("bad-row", f"{printable(str(experts), 40)!r} is no number of layers", "write it like 14, or 14 of 48")
    device, count = hardware.load(field(row, "device")), int(words[1]) if words else 0
    if not words and mixtures and device.kind != "cpu":
        away = _expert_bytes(row, model)
        if row.get("host_gib") and row.get("device_gib"):
            count = layers - mixtures + round(mixtures * min(1.0, float(row["host_gib"]) * 2**30 / away))
        elif _ON_HOST.search(str(row.get("note", ""))) or engine(row).hosts_experts:
            count = layers
        elif row.get("host") and kept is None and away > (device.memory_usable_bytes or away) * int(row.get("n_devices") or 1):
            count = layers  # a host is named, and the cards cannot hold them
    if not count and kept is None:
        return None
    who, rate = _host(str(row.get("host", "")))
    return Offload(None if kept is None else int(kept), count, 0.0, who, rate)


_ON_HOST = re.compile(r"(?<!many )\bexperts in host memory\b")
_CHANNELS = re.compile(r"(\d{1,2}) ?x DDR\d-(\d{4,5})( a socket)?")


def _expert_bytes(row: Mapping[str, Any], model: Model) -> float:
    fmt = memory.weight_format(model, str(row.get("weights") or "auto"), engine(row))[0]
    plan = Deployment(hardware.load(field(row, "device")), fmt, memory.kv_format(model, "auto")[0], engine=engine(row))
    return offload.hosted(model, replace(plan, offload=Offload(host_expert_layers=len(model.stack.layers)))).weight_bytes


def _host(text: str) -> tuple[Device | None, float | None]:
    """The processor that a row names, where it is known, and its memory's rate [B/s], where the row says it or its channels."""
    sockets = 2 if re.match(r"2 ?x ", text) and "one socket" not in text else 1
    name = re.sub(r"^2 ?x |\(.*?\)", "", text.split(",")[0]).strip()
    known = next((each for each in (f"cpu-{name}", name) if name and hardware.known(each)), None)
    given, channels = re.search(r"(\d+(?:\.\d+)?) ?GB/s", text), _CHANNELS.search(text)
    rate = float(given[1]) * 1e9 if given else None
    if rate is None and channels:
        rate = int(channels[1]) * int(channels[2]) * 8e6 * (sockets if channels[3] else 1)
    device = hardware.load(known) if known else None
    return device, rate


def _micro_batch(row: Mapping[str, Any]) -> int | None:
    """Tokens of a prompt at once, where a row says that they were not the engine's default."""
    found = re.search(r"-ub (\d+)", str(row.get("backend", "")))
    return int(found[1]) if found else None


def _cache(row: Mapping[str, Any]) -> str:
    """The cache's format; where a row does not say, NVIDIA's own quantised checkpoints ask for an 8-bit one (kv_cache_quant_algo)."""
    weights, under = str(row.get("weights")), str(row.get("engine")).lower()
    quantised = weights == "nvfp4" or (weights == "fp8" and under in ("tensorrt-llm", "trt-llm"))
    return str(row.get("kv") or ("fp8" if quantised else "auto"))


def plain(metric: str) -> str:
    """A metric without the word for the kind of average."""
    return next((metric.removesuffix(end) for end in KINDS if metric.endswith(end)), metric)


def ask(row: Mapping[str, Any], model: Model) -> Asked:
    """The question that a row answers. Errors: bad-row, and those of `deployment`."""
    metric = plain(str(field(row, "metric")))
    if metric not in METRICS:
        raise UsageError("bad-row", f"{printable(metric, 40)!r} is not a metric that is predicted", f"use one of {', '.join(METRICS)}")
    plan, value = deployment(row, model), float(field(row, "value"))
    batch = float(row.get("batch") or row.get("concurrency") or 1)
    prompt, output = float(row.get("prompt") or 0), float(row.get("output") or 0)
    if row.get("rate") and metric not in LOADS:
        # An open loop in its steady state: as many sequences as arrive while one is answered.
        batch = step.in_flight(model, plan, float(row["rate"]), max(1, int(prompt)), max(1, int(output)))
    held = float(row.get("ctx") or prompt) + output / 2
    served = metric in ("tpot", "itl", "tokens_per_s_per_user") and prompt and output and batch > 1 and not row.get("steady")
    work = Workload(max(1.0, held), batch, int(prompt) if served else None, int(output) if served else None)
    if metric in STEPS:
        seconds = value if metric in ("tpot", "itl") else batch / value if metric == "batch_tokens_per_s" else 1 / value
        return Asked("step", model, plan, work, seconds, bool(row.get("burst")))
    if metric in PROMPTS:
        cached = float(row.get("cached") or 0)
        work = Workload(prompt + cached, batch, int(prompt + cached), int(output) or None, int(cached))
        seconds = value if metric == "ttft" else float(field(row, "prompt")) / value
        return Asked("ttft" if metric == "ttft" else "prompt", model, plan, work, seconds, bool(row.get("burst")))
    if metric == ENERGY:
        return Asked("energy", model, plan, work, value)
    work = Workload(held, batch, int(field(row, "prompt")), int(field(row, "output")))
    if metric == "request_s":
        return Asked("request", model, plan, work, value)
    return Asked("load", model, plan, work, value * plan.ranks if metric.endswith("per_device") else value)


def estimate(asked: Asked) -> step.Timed:
    """What is expected for a row, by the function behind the command that it describes. Errors: no-compute-rate, bad-row."""
    model, plan, work = asked.model, asked.plan, asked.work
    found: step.Timed | None
    if asked.quantity == "step":
        return step.step(model, plan, work, "expected", burst=asked.burst)
    if asked.quantity == "energy":
        found = step.energy(model, plan, work)
    elif asked.quantity == "request":
        found = step.batch_request(model, plan, work.batch, int(work.prompt or 0), int(work.output or 1))
    elif asked.quantity == "load":
        found = step.load(model, plan, int(work.prompt or 0), int(work.output or 1))
        if found is None:
            raise UsageError("bad-row", f"a full load of {plan.engine.name} is not predicted", "name a serving engine, such as vllm")
    else:
        others = work.batch - 1 if asked.quantity == "ttft" else 0
        answer, served = work.output or 0, asked.quantity == "ttft"
        found = step.ttft(model, plan, int(work.prompt or 0), work.cached, others, output=answer, burst=asked.burst, serve=served)
    if found is None:
        raise UsageError("no-compute-rate", f"{plan.device.id} has no known compute rate", "its prompts cannot be timed")
    return found


def kind(asked: Asked) -> str:
    """serving or desktop."""
    return rates.kind(asked.plan)
