"""Fit llmcalc/calibration.json and measurements/unseen.json to the bundled measurements.

    python scripts/calibrate.py            write both files, print how far off unseen models are
    python scripts/calibrate.py --check    only print

The formulas are the estimator's own (llmcalc/formulas/expected.py), run on arrays. Parameters are fitted as logarithms: a class
of devices differs from all, and an engine from its kind, by a factor that is pulled towards 1; what no row determines stays at a
physical prior. A pseudo-Huber loss keeps single rows from mattering, and rows of the same model, device, format and engine count
as the root of their number. Bands are quantiles of measured over predicted for models left out of the fit.

Needs scipy, which llmcalc itself does not.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from llmcalc import accuracy
from llmcalc.estimate import rates, step, terms
from llmcalc.formulas import expected as f
from llmcalc.formulas import serving
from llmcalc.plan import Workload

ROOT = Path(__file__).resolve().parent.parent
DATE = "2026-11-29"
TAIL = 0.075
"""Beyond each end of a range: 15% of the rows that made it are outside, and 20% of a model's of which it has seen nothing."""
WIDE_TAIL = 0.05
SHARES = {"weight_share", "cache_share", "compute_share", "prompt_share", "attention_share", "mixture_share"}

# (prior, its standard deviation as a logarithm). Shares: matrix products reach 0.6-0.8 of a peak, streams 0.75-0.9; a layer of
# an engine with CUDA graphs costs some 20-40 us beyond its ideal, one without (or on the desktop) some 50 us.
PRIORS: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("step", "serving"): {
        "weight_share": (0.8, 0.15),
        "cache_share": (0.8, 0.25),
        "compute_share": (0.6, 0.25),
        "communication_factor": (1.0, 0.5),
        "layer_s": (20e-6, 0.7),
        "split_layer_s": (10e-6, 0.8),
        "mixture_s": (30e-6, 0.7),
        "sequence_s": (4e-6, 1.0),
        "step_s": (300e-6, 1.0),
        "interruption_share": (1.0, 0.3),
    },
    ("step", "desktop"): {
        "weight_share": (0.85, 0.15),
        "cache_share": (0.7, 0.3),
        "compute_share": (0.3, 0.6),
        "dequantise_factor": (2.0, 0.6),
        "layer_s": (40e-6, 0.7),
        "mixture_s": (40e-6, 0.7),
        "sequence_s": (1e-3, 1.0),
        "step_s": (300e-6, 0.7),
    },
    ("prompt", "serving"): {
        "prompt_share": (0.7, 0.12),
        "mixture_share": (0.4, 0.4),
        "attention_share": (0.4, 0.3),
        "communication_factor": (1.0, 0.3),
        "waiting_share": (0.03, 0.5),
        "layer_s": (6e-4, 0.5),
        "token_s": (6e-6, 0.5),
        "request_s": (1e-2, 0.7),
    },
    ("prompt", "desktop"): {
        "prompt_share": (0.4, 0.6),
        "mixture_share": (0.5, 0.4),
        "attention_share": (0.6, 0.6),
        "activation_factor": (10.0, 1.0),
        "layer_s": (5e-5, 1.0),
    },
}
FIXED: dict[tuple[str, str], dict[str, float]] = {
    ("step", "serving"): {"dequantise_factor": 0.0},
    ("step", "desktop"): {"communication_factor": 1.0, "split_layer_s": 0.0, "interruption_share": 0.0},
    ("prompt", "serving"): {"weight_share": 0.8, "activation_factor": 0.0},
    ("prompt", "desktop"): {"weight_share": 0.8, "communication_factor": 1.0, "waiting_share": 0.0, "token_s": 0.0, "request_s": 0.0},
}
# What may differ between classes of devices and between engines, and by how much (standard deviation as a logarithm).
BY_GROUP: dict[tuple[str, str], dict[str, float]] = {
    ("step", "serving"): {
        "weight_share": 0.15,
        "cache_share": 0.15,
        "compute_share": 0.15,
        "communication_factor": 0.15,
        "sequence_s": 0.15,
        "layer_s": 0.15,
    },
    ("step", "desktop"): {"weight_share": 0.15, "cache_share": 0.3, "dequantise_factor": 0.3, "layer_s": 0.3, "sequence_s": 0.5},
    ("prompt", "serving"): {},
    ("prompt", "desktop"): {"prompt_share": 0.4, "mixture_share": 0.2, "attention_share": 0.3, "activation_factor": 0.3, "layer_s": 0.3},
}
BY_ENGINE: dict[tuple[str, str], dict[str, float]] = {
    ("step", "serving"): {},
    ("step", "desktop"): {"weight_share": 0.1, "layer_s": 0.4},
    ("prompt", "serving"): {"layer_s": 0.4},
    ("prompt", "desktop"): {},
}
SCALE = {("step", "serving"): 0.1, ("step", "desktop"): 0.1, ("prompt", "serving"): 0.2, ("prompt", "desktop"): 0.15}
APART: dict[tuple[str, str], dict[str, dict[str, float]]] = {
    ("prompt", "serving"): {"geforce": {"prompt_share": 0.5, "communication_factor": 0.5, "layer_s": 0.5}},
    ("step", "desktop"): {"exllamav3": {"weight_share": 0.7, "layer_s": 1.0}},
    ("prompt", "desktop"): {"exllamav3": {"prompt_share": 0.5}},
}
"""Classes that do not inform their parent, and what is their own: PCIe between consumer cards is nothing like a server's link,
and ExLlamaV3 decodes its trellis by arithmetic."""


class Case:
    """One row: its ideal terms as numbers, and what it belongs to."""

    def __init__(self, row: dict[str, Any], alone: bool = False) -> None:
        """`alone`: as if nobody had said what others ask for, so that their prompts are part of what the estimate lacks."""
        self.row = row
        self.model = accuracy.model_of(row["model"])
        plan = self.plan = accuracy.deployment(row, self.model)
        self.kind, self.moe = rates.kind(plan), rates.mixture(self.model)
        self.group = rates.class_of(plan) or "other"
        self.engine = plan.engine.family
        self.measured = accuracy.measured(row, plan)
        metric = row["metric"]
        self.quantity = "step" if metric in accuracy.STEPS else "prompt" if metric in accuracy.PROMPTS else "load"
        self.rate = 1.0
        prompt, cached = int(row.get("prompt", 0)), int(row.get("cached", 0))
        self.numbers: dict[str, float] = {}
        if self.quantity == "prompt":
            self._prompt(prompt + cached, cached)
            self.numbers["others"] = row.get("batch", 1) - 1 if metric == "ttft" else 0
            return
        work = self.work = accuracy.workload(row)
        if alone:
            work = self.work = Workload(work.ctx, work.batch)
        if self.quantity == "load":
            batch = step.running(self.model, plan, prompt, row["output"])
            work = Workload(work.ctx, batch, prompt, row["output"])
            self.rate = batch
            self.measured = batch / self.measured
        found = step.step_inputs(self.model, plan, work, terms.step_terms(self.model, plan, work))
        self.numbers |= {name: float(figure.value) for name, figure in found.items()}
        self.reading = bool(work.output and work.prompt and self.kind == "serving")
        if self.reading:
            self._prompt(prompt, 0)
            self.numbers["output_tokens"] = work.output

    def _prompt(self, prompt: int, cached: int) -> None:
        found = terms.prompt_terms(self.model, self.plan, prompt, cached)
        gemm, attention = step._desktop_times(self.plan, found) if self.kind == "desktop" else (found["gemm_s"], found["attention_s"])
        tokens = prompt - cached
        self.numbers |= {
            "gemm_s": gemm.value,
            "reading_weight_s": found["weight_read_s"].value,
            "attention_s": attention.value,
            "reading_talk_s": found["communication_s"].value,
            "activation_s": step._activations(self.model, self.plan, tokens).value,
            "tokens": tokens,
            "chunks": max(1, tokens / step.MICRO_BATCH) if self.kind == "desktop" else 1,
            "pipeline": serving.pipelined_s(1.0, self.plan.pp, max(1, tokens / step.MICRO_BATCH)),
            "layers": len(self.model.stack.layers),
        }

    @property
    def left_out_with(self) -> str:
        """Models of one shape are left out together."""
        name = self.row["model"].lower().split("/")[1]
        for words, shape in (
            ("llama-3-8b llama-3.1-8b", "llama-8b"),
            ("llama-3-70b llama-3.1-70b llama-3.3-70b", "llama-70b"),
            ("405b", "llama-405b"),
            ("mixtral-8x7b", "mixtral-8x7b"),
            ("deepseek kimi", "deepseek"),
            ("qwen3-235b", "qwen3-235b"),
            ("qwen3-30b qwen3-coder-30b", "qwen3-30b"),
            ("qwen3.5-35b qwen3.6-35b", "qwen3.5-35b"),
        ):
            if any(word in name for word in words.split()):
                return shape
        return name


def arrays(cases: list[Case]) -> dict[str, Any]:
    names = {name for case in cases for name in case.numbers}
    found: dict[str, Any] = {name: np.array([float(case.numbers.get(name) or 0) for case in cases]) for name in names}
    found["moe"] = np.array([case.moe for case in cases])
    found["measured"] = np.array([case.measured for case in cases])
    return found


def reading_s(d: dict[str, Any], p: dict[str, Any]) -> Any:
    share = p["prompt_share"] * np.where(d["moe"], p["mixture_share"], 1.0)
    busy = f.expected_reading_s(
        d["gemm_s"],
        d["reading_weight_s"],
        d["attention_s"],
        d["reading_talk_s"],
        d["activation_s"],
        share,
        p["weight_share"],
        p["attention_share"],
        p["communication_factor"],
        p["activation_factor"],
    )
    return busy * np.maximum(1.0, d["pipeline"])


STEP_NAMES = f.expected_step_s.parameters


def predict(key: tuple[str, str], d: dict[str, Any], p: dict[str, Any]) -> Any:
    """The estimator's formulas on arrays; `p`: parameters, one value per row."""
    if key[0] == "prompt":
        return f.expected_ttft_s(
            reading_s(d, p),
            d["others"],
            p["waiting_share"],
            d["layers"],
            d["chunks"],
            p["layer_s"],
            d["tokens"],
            p["token_s"],
            p["request_s"],
        )
    step = f.expected_step_s(**{name: d[name] if name in d and name not in p else p[name] for name in STEP_NAMES})
    if "output_tokens" not in d:
        return step
    return np.where(
        d["output_tokens"] > 0,
        f.interrupted_step_s(
            step, d["reading_s"], np.maximum(0, d["batch"] - 1), np.maximum(1, d["output_tokens"]), p["interruption_share"]
        ),
        step,
    )


class Fit:
    """Parameters of all, and factors of classes and engines."""

    def __init__(
        self, key: tuple[str, str], base: dict[str, float], groups: dict[str, dict[str, float]], engines: dict[str, dict[str, float]]
    ) -> None:
        self.key, self.base, self.groups, self.engines = key, base, groups, engines

    def of(self, cases: list[Case]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in (self.base | FIXED[self.key]).items():
            column = np.array(
                [
                    self.groups.get(case.group, self.base).get(name, value) * self.engines.get(case.engine, {}).get(name, 1.0)
                    for case in cases
                ]
            )
            made[name] = np.minimum(column, 1.0) if name in SHARES else column
        return made

    def as_json(self) -> dict[str, Any]:
        def tidy(values: dict[str, float]) -> dict[str, float]:
            return {name: float(f"{min(value, 1.0) if name in SHARES else value:.3g}") for name, value in values.items()}

        whole = self.base | FIXED[self.key]
        return {
            "base": tidy(whole),
            "groups": {name: tidy(whole | values) for name, values in sorted(self.groups.items())},
            "engines": {
                name: {key: float(f"{value:.3g}") for key, value in values.items()} for name, values in sorted(self.engines.items())
            },
        }


def fit(key: tuple[str, str], cases: list[Case], prompts: Fit | None = None) -> Fit:
    """Fit one set. `prompts`: the fit of prompts, for those that interrupt a step."""
    apart = APART.get(key, {})
    found = _fit(key, [case for case in cases if case.group not in apart], PRIORS[key], prompts)
    for name, free in apart.items():
        own = [case for case in cases if case.group == name]
        if own:
            priors = {each: (found.base[each], free.get(each, 0.02)) for each in PRIORS[key]}
            found.groups[name] = _fit(key, own, priors, prompts, split=False).base
    return found


def _fit(key: tuple[str, str], cases: list[Case], priors: dict[str, tuple[float, float]], prompts: Fit | None, split: bool = True) -> Fit:
    d = arrays(cases)
    if prompts is not None:
        d["reading_s"] = reading_s(d, prompts.of(cases)) if "gemm_s" in d else np.zeros(len(cases))
    names = list(priors)
    levels: list[tuple[list[str], Any, list[int], Any]] = []
    if split:
        for owner, spread in (("group", BY_GROUP[key]), ("engine", BY_ENGINE[key])):
            values = sorted({getattr(case, owner) for case in cases} - {"other"})
            index = np.array([values.index(getattr(case, owner)) if getattr(case, owner) in values else -1 for case in cases])
            levels.append((values, index, [names.index(name) for name in spread], np.array(list(spread.values()))))
    same = Counter((case.row["model"], case.row["device"], case.engine, case.row.get("weights"), case.quantity) for case in cases)
    weight = np.array(
        [same[case.row["model"], case.row["device"], case.engine, case.row.get("weights"), case.quantity] ** -0.5 for case in cases]
    )
    start = np.log([priors[name][0] for name in names])
    width = np.array([priors[name][1] for name in names])

    def parameters(x: Any) -> dict[str, Any]:
        logs, at = np.repeat(x[: len(names)][None], len(cases), 0), len(names)
        for values, index, free, _ in levels:
            size = len(values) * len(free)
            own = np.vstack([x[at : at + size].reshape(len(values), len(free)), np.zeros((1, len(free)))])
            logs[:, free] += own[index]
            at += size
        made = {name: np.exp(logs[:, place]) for place, name in enumerate(names)}
        made = {name: np.minimum(value, 1.0) if name in SHARES else value for name, value in made.items()}
        return made | {name: np.full(len(cases), value) for name, value in FIXED[key].items()}

    def residuals(x: Any) -> Any:
        off = np.log(predict(key, d, parameters(x)) / d["measured"]) / SCALE[key]
        parts = [weight * np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off * off) - 1)), (x[: len(names)] - start) / width]
        at = len(names)
        for values, _, free, spread in levels:
            size = len(values) * len(free)
            parts.append((x[at : at + size].reshape(len(values), len(free)) / spread).ravel())
            at += size
        return np.concatenate(parts)

    x = least_squares(residuals, np.concatenate([start, np.zeros(sum(len(v) * len(fr) for v, _, fr, _ in levels))]), max_nfev=80).x
    base = dict(zip(names, map(float, np.exp(x[: len(names)])), strict=True))
    at, own = len(names), []
    for values, _, free, _ in levels:
        size = len(values) * len(free)
        factors = np.exp(x[at : at + size].reshape(len(values), len(free)))
        own.append(
            {
                value: {names[place]: float(factor) for place, factor in zip(free, row, strict=True)}
                for value, row in zip(values, factors, strict=True)
            }
        )
        at += size
    groups = {name: {each: base[each] * factor for each, factor in values.items()} for name, values in own[0].items()} if own else {}
    return Fit(key, base, groups, {name: values for name, values in own[1].items() if values} if own else {})


def fit_all(cases: list[Case]) -> dict[tuple[str, str], Fit]:
    """All four sets; steps are measured at full load, too."""
    found: dict[tuple[str, str], Fit] = {}
    for key in PRIORS:
        if key[0] == "prompt":
            found[key] = fit(key, [case for case in cases if (case.quantity, case.kind) == key])
    for key in PRIORS:
        if key[0] == "step":
            chosen = [case for case in cases if case.quantity in ("step", "load") and case.kind == key[1]]
            found[key] = fit(key, chosen, found["prompt", key[1]])
    return found


def predictions(fits: dict[tuple[str, str], Fit], cases: list[Case]) -> list[float]:
    """Seconds per step or prompt, or tokens per second under full load."""
    made = np.zeros(len(cases))
    for key, one in fits.items():
        places = [place for place, case in enumerate(cases) if ("step" if case.quantity == "load" else case.quantity, case.kind) == key]
        chosen = [cases[place] for place in places]
        if not chosen:
            continue
        d = arrays(chosen)
        if key[0] == "step" and "gemm_s" in d:
            d["reading_s"] = reading_s(d, fits["prompt", key[1]].of(chosen))
        made[places] = predict(key, d, one.of(chosen))
    return [float(case.rate / value if case.quantity == "load" else value) for case, value in zip(cases, made, strict=True)]


def left_out(cases: list[Case], fitted: list[Case]) -> list[float]:
    """Each row's prediction by a fit of `fitted` that has not seen its model."""
    made = [0.0] * len(cases)
    for shape in sorted({case.left_out_with for case in cases}):
        out = [place for place, case in enumerate(cases) if case.left_out_with == shape]
        fits = fit_all([case for case in fitted if case.left_out_with != shape])
        for place, value in zip(out, predictions(fits, [cases[place] for place in out]), strict=True):
            made[place] = value
    return made


def factors(cases: list[Case], unseen: list[float]) -> list[float]:
    """Measured over predicted times."""
    return [case.measured / (case.rate / value if case.quantity == "load" else value) for case, value in zip(cases, unseen, strict=True)]


def band_of(case: Case) -> str:
    """Which of the bands a row is of."""
    return step.step_classes(case.plan, case.work)[case.work.batch > 1] if case.quantity == "step" else case.quantity


def bands(cases: list[Case], unseen: list[float]) -> dict[str, Any]:
    """Quantiles of measured over predicted times, by class and for all of a kind of engine."""
    grouped: dict[str, list[tuple[float, str]]] = {}
    for case, off in zip(cases, factors(cases, unseen), strict=True):
        sort, what = "mixtures" if case.moe else "dense models", band_of(case)
        for name in (f"{what}/{case.kind}/{case.group}/{sort}", f"{what}/{case.kind}/{sort}", f"{what}/{case.kind}"):
            if case.group in name or case.group not in APART.get((case.quantity, case.kind), {}):
                grouped.setdefault(name, []).append((off, case.left_out_with))
    made = {}
    for name, offs in sorted(grouped.items()):
        values = [off for off, _ in offs]
        low, high, widest_low, widest_high = (accuracy.quantile(values, share) for share in (TAIL, 1 - TAIL, WIDE_TAIL, 1 - WIDE_TAIL))
        made[name] = {
            "low": float(f"{low:.3g}"),
            "high": float(f"{high:.3g}"),
            "widest_low": float(f"{widest_low:.3g}"),
            "widest_high": float(f"{widest_high:.3g}"),
            "rows": len(values),
            "models": len({shape for _, shape in offs}),
        }
    return made


def ranges_unseen(cases: list[Case], unseen: list[float]) -> list[tuple[float, float]]:
    """Each row's range as factors of its prediction, from bands that have not seen its model either."""
    made = [(0.0, 0.0)] * len(cases)
    for shape in {case.left_out_with for case in cases}:
        rest = [place for place, case in enumerate(cases) if case.left_out_with != shape]
        others = bands([cases[place] for place in rest], [unseen[place] for place in rest])
        for place in set(range(len(cases))) - set(rest):
            found = rates.band(band_of(cases[place]), cases[place].model, cases[place].plan, others)
            made[place] = (found.low, found.high)
    return made


def measured_pairs(cases: list[Case]) -> dict[str, dict[str, int]]:
    """Rows of each device and model."""
    found: dict[str, Counter[str]] = {}
    for case in cases:
        found.setdefault(case.plan.device.id, Counter())[case.model.id] += 1
    return {device: dict(sorted(found[device].items())) for device in sorted(found)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="write nothing")
    write = not options.parse_args().check
    cases = [Case(row) for row in accuracy.bundled()]
    fits = fit_all(cases)
    # What a range must allow for where the shape of others' requests is not given: rows of busy servers, taken so.
    both = [*cases, *(Case(case.row, alone=True) for case in cases if band_of(case) == "step" and case.work.batch > 1)]
    every = left_out(both, cases)
    unseen = every[: len(cases)]
    names = {key[0]: {} for key in fits}
    for (quantity, kind), one in sorted(fits.items()):
        names[quantity][kind] = one.as_json()
    table = {
        "about": "Written by scripts/calibrate.py from measurements/; never by hand. Shares are of the nominal peak, costs in seconds.",
        "date": DATE,
        "rows": len(cases),
        "shares": names,
        "bands": bands(both, every),
        "measured": measured_pairs(cases),
    }
    ranges = ranges_unseen(both, every)[: len(cases)]
    if write:
        (ROOT / "llmcalc" / "calibration.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        predicted = {
            str(case.row["id"]): [float(f"{number:.5g}") for number in (value, *ends)]
            for case, value, ends in zip(cases, unseen, ranges, strict=True)
        }
        text = {
            "about": "What a calibration that had not seen a row's model predicts for it, and the ends of its range as factors of it, "
            "from bands that had not seen it either. Written by scripts/calibrate.py.",
            "date": DATE,
            "predicted": predicted,
        }
        (ROOT / "measurements" / "unseen.json").write_text(json.dumps(text).replace('], "', '],\n"') + "\n", encoding="utf-8")
    offs: dict[str, list[float]] = {}
    inside: dict[str, list[bool]] = {}
    for case, value, off, ends in zip(cases, unseen, factors(cases, unseen), ranges, strict=True):
        measured = case.rate / case.measured if case.quantity == "load" else case.measured
        name = f"{band_of(case)} {case.kind} {case.group} {'moe' if case.moe else 'dense'}"
        offs.setdefault(name, []).append(value / measured)
        inside.setdefault(name, []).append(ends[0] <= off <= ends[1])
    for name, ratios in sorted(offs.items()):
        low, high = accuracy.quantile(ratios, 0.1), accuracy.quantile(ratios, 0.9)
        said = f"{name:45} {len(ratios):4} rows  median error {accuracy.median_error(ratios):.3f}  p10 {low:.2f}  p90 {high:.2f}"
        print(f"{said}  in the range without the model {sum(inside[name]) / len(inside[name]):.0%}")
    covered = [each for found in inside.values() for each in found]
    print(f"in the range without the model, all: {sum(covered) / len(covered):.1%}")


if __name__ == "__main__":
    main()
