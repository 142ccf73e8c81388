"""Fit llmcalc/rates.json, llmcalc/calibration.json and measurements/unseen.json to the bundled measurements.

    python scripts/calibrate.py            write the files, print how far off rows are whose model or source the fit had not seen
    python scripts/calibrate.py --check    only print
    python scripts/calibrate.py --kind serving    fit one kind of engine, keep the other's

The formulas are the estimator's own (llmcalc/formulas/expected.py), run on arrays. Constants are fitted as logarithms: each is
what all deployments share, near a prior from kernel tables, times factors of device generation, format and engine that are pulled
towards 1. A pseudo-Huber loss keeps single rows from mattering, and alike rows count as the root of their number. Ranges are
quantiles of measured over predicted among rows whose model, or else whose source, was left out.

Needs scipy, which llmcalc itself does not.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from priors import KNOWN, SERVING, SHAPES, SPECS, USERS
from scipy.sparse import csr_matrix

from llmcalc import accuracy, measured
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import counts, rates, step
from llmcalc.formulas import expected as f
from llmcalc.formulas import serving

ROOT = Path(__file__).resolve().parent.parent
DATE = "2026-11-30"
SCALE = 0.12
"""Errors below this count as their square, above it as themselves."""
MOST_ALIKE, FOLDS = 12, 8
"""Rows of one model, device, engine, format, layout and source that a fit takes (it is judged on all); groups of models left out."""
FEW = 16
"""Sources with fewer rows are left out together."""
TAIL = 0.09
ENDS = 0.05
NAMES: set[str] = set()
"""The names of all terms that a row has."""


class Case:
    """One row: its terms as numbers, what its constants depend on, and what it belongs to."""

    def __init__(self, row: dict[str, Any], seen: dict[Any, Any]) -> None:
        self.row, model = row, measured.model_of(row["model"])
        asked = self.asked = measured.ask(row, model)
        plan, work = asked.plan, asked.work
        self.kind, self.moe, self.quantity = rates.kind(plan), rates.mixture(model), asked.quantity
        if self.quantity == "load" and self.kind == "desktop":
            raise LlmcalcError("bad-row", "a full load of a desktop engine", "")
        desktop = self.kind == "desktop"
        place = (model.id, plan.device.id, plan.weights.name, plan.weights.bits, plan.tp, plan.pp, plan.ep, self.kind)
        if place not in seen:
            seen[place] = counts.count(model, plan, desktop)
        found = seen[place]
        self.keys = rates.keys(plan, found)
        self.measured, self.rate = asked.value, 1.0
        prompt, output = work.prompt or 0, work.output or 0
        if self.quantity == "load":
            self.rate = step.loaded(model, plan, prompt, output)
            work = type(work)(work.ctx, self.rate, prompt, output)
            self.measured = self.rate / asked.value
        turns = 1.0
        if self.quantity == "request":
            at_once = min(work.batch, step.running(model, plan, prompt, output))
            turns, work = work.batch / at_once, type(work)(work.ctx, at_once, prompt, output)
        if self.quantity == "ttft":
            output = output or step.TYPICAL_OUTPUT
            work = type(work)(prompt + output / 2, work.batch, prompt, output, work.cached)
        # What a closed loop holds is found with the constants of the last fit, and then stays.
        sent, at_once, state = work.batch, float(work.batch), None
        if self.kind == "serving" and prompt and output and sent > 1 and self.quantity in ("step", "ttft", "load"):
            at_once = min(sent, step.held(model, plan, prompt, output))
            alone = step.step(model, plan, type(work)(work.ctx, at_once), "expected").mid_s
            single = step.reading(model, plan, prompt, work.cached).value
            state = step.loop(model, plan, type(work)(work.ctx, at_once, prompt, output, work.cached), alone, single, bool(asked.burst))
            work = type(work)(work.ctx, at_once if self.quantity == "ttft" else state.decoding, prompt, output, work.cached)
        first = state is not None and plan.engine.prompts_first
        together = 1.0
        if state and (first or self.quantity != "ttft"):
            together = float(state.group if self.quantity == "ttft" else state.together)
        n: dict[str, float] = {}
        if self.quantity != "prompt":
            n |= {f"s_{k}": float(v) for k, v in counts.step_numbers(model, plan, work, found).items()}
        if prompt:
            chunk = (place, plan.kv.name, prompt, work.cached, together, plan.batched_tokens, plan.engine.name)
            made = seen.get(chunk)
            if made is None:
                made = seen[chunk] = counts.prompt_numbers(model, plan, prompt, work.cached, found, desktop, together)
            n |= {f"p_{k}": float(v) for k, v in made.items()}
        others = max(0.0, at_once / plan.dp - 1)
        if state is not None:
            others = others + together - 1 if self.quantity == "ttft" else float(state.others)
        n |= {
            "prompt": float(bool(prompt)), "output": float(output or 1), "others": others, "burst": float(asked.burst), "turns": turns,
            "first": float(first), "sent": sent / at_once, "at_once": work.batch / plan.dp, "pp": plan.pp, "new": prompt - work.cached,
            "spread": float(plan.dp > 1),
            "measured": self.measured, "rated_w": (plan.device.power_w or 0.0) * plan.ranks, "batch": work.batch,
        }  # fmt: skip
        self.numbers = n
        NAMES.update(n)

    @property
    def shape(self) -> str:
        """Models of one shape are left out together."""
        name = str(self.row["model"]).lower().split("/")[-1]
        return next((shape for words, shape in SHAPES if any(word in name for word in words.split())), name)

    @property
    def source(self) -> str:
        """Whole sources are left out; several pages of one campaign are one."""
        name = str(self.row.get("source_id") or self.row.get("source"))
        for word in ("aiconfigurator", "aic-silicon", "llmfit", "strix-halo-testing", "kyuz0/amd-strix", "kyuz0-strix"):
            if word in name:
                return {"aic-silicon": "aiconfigurator", "kyuz0/amd-strix": "kyuz0-strix"}.get(word, word)
        return name

    @property
    def alike(self) -> tuple[Any, ...]:
        return (self.row["model"], self.row["device"], self.keys["engine"], self.row.get("weights"), self.quantity)

    @property
    def band(self) -> str:
        if self.quantity == "step":
            return step.step_classes(self.asked.plan, self.asked.work)[self.asked.work.batch > 1]
        return "prompt" if self.quantity == "ttft" and self.kind == "desktop" else self.quantity

    @property
    def sort(self) -> str:
        return "mixtures" if self.moe else "dense models"


def cases() -> list[Case]:
    """Every bundled row that can be predicted."""
    seen: dict[Any, Any] = {}
    found = []
    for row in accuracy.bundled():
        try:
            found.append(Case(row, seen))
        except LlmcalcError as problem:
            print("not predicted:", row.get("id"), problem)
    return found


def arrays(rows: list[Case]) -> dict[str, Any]:
    found: dict[str, Any] = {name: np.array([case.numbers.get(name, 0.0) for case in rows]) for name in NAMES}
    found["quantity"] = np.array([case.quantity for case in rows])
    return found


def _product(d: dict[str, Any], p: dict[str, Any], read: Any, arithmetic: Any, read_share: str, compute_share: str) -> Any:
    return f.product_s(read, arithmetic, p[read_share], p[compute_share], p[rates.APART.get(read_share, "apart_share")])


def step_s(d: dict[str, Any], p: dict[str, Any]) -> tuple[Any, Any]:
    """step._engine_step on arrays, and of it what kernels take."""
    n = {name[2:]: value for name, value in d.items() if name.startswith("s_")}
    imbalance = np.where(d["spread"] > 0, p["imbalance_factor"], 1.0)
    experts = np.maximum(n["experts"], 1)
    routed = f.experts_read_s(n["all_experts_read_s"], experts, n["top_k"], n["together"], p["routing_share"], imbalance)
    kernels = (
        _product(d, p, n["dense_read_s"], n["dense_compute_s"], "dense_share", "compute_share"),
        _product(d, p, n["plain_read_s"], n["plain_compute_s"], "plain_share", "compute_share"),
        _product(d, p, n["head_read_s"], n["head_compute_s"], "plain_share", "compute_share"),
        _product(d, p, routed, n["expert_compute_s"], "expert_share", "expert_compute_share"),
        _product(d, p, n["cache_read_s"], n["score_s"], "cache_share", "score_share"),
    )
    made = f.expected_step_s(
        *kernels,
        n["states_s"],
        p["cache_share"],
        n["talk_s"],
        p["talk_factor"],
        f.layers_s(**{name: (n | p)[name] for name in f.layers_s.parameters}),
        f.host_s(**{name: (n | p)[name] for name in f.host_s.parameters}),
    )
    return made, sum(kernels)


def reading_s(d: dict[str, Any], p: dict[str, Any]) -> Any:
    """step.reading on arrays; 0 without a prompt."""
    n = {name[2:]: value for name, value in d.items() if name.startswith("p_")}
    costs = n | {name: p[f"prompt_{name}"] for name in ("layer_s", "mixture_s", "recurrent_s")}
    busy = f.expected_reading_s(
        _product(d, p, n["dense_read_s"], n["dense_compute_s"], "dense_share", "prompt_share"),
        _product(d, p, n["plain_read_s"], n["plain_compute_s"], "plain_share", "prompt_share"),
        _product(d, p, n["expert_read_s"], n["expert_compute_s"], "expert_share", "prompt_expert_share"),
        n["talk_s"],
        p["talk_factor"],
        f.layers_s(**{name: costs[name] for name in f.layers_s.parameters}),
        n["activation_s"],
        p["activation_factor"],
        n["chunks"],
        n["scores_s"],
        p["prompt_score_share"],
        n["prefix_s"],
        p["cache_share"],
        n["head_read_s"],
        p["plain_share"],
    )
    piped = np.where(d["pp"] > 1, serving.pipelined_s(busy / d["pp"], d["pp"], np.maximum(1, n["chunks"])), busy)
    return np.where(d["prompt"] > 0, piped, 0.0)


def predict(d: dict[str, Any], p: dict[str, Any]) -> Any:
    """Seconds of every row: the functions of step.py on arrays; `p`: constants, one value per row."""
    busy, what = reading_s(d, p), d["quantity"]
    running, kernels = step_s(d, p)
    share = np.where(d["first"] > 0, 1.0, p["interruption_share"])
    steps = np.where(d["prompt"] > 0, f.interrupted_step_s(running, busy, d["others"], d["output"], share), running)
    waiting = f.prompts_in_reading(d["others"], busy, d["output"], np.maximum(running, 1e-9))
    once = (d["burst"] > 0) | (d["first"] > 0)
    turn = f.turn_wait_s(d["sent"], 1, busy + d["output"] * running)
    first = f.expected_ttft_s(
        busy, waiting, np.where(once, 0.0, p["queue_share"]), d["others"], np.where(once, 0.5, p["burst_share"]),
        d["others"] > 0, running, p["steps_waited"], d["new"], p["token_s"], p["request_s"], turn,
    )  # fmt: skip
    request = f.batch_request_s(d["turns"], d["at_once"], busy, p["interruption_share"], d["output"], running, p["request_s"])
    drawn = f.power_share(p["idle_share"], p["busy_share"], kernels, np.maximum(running, 1e-9))
    joules = f.expected_joules_per_token(d["rated_w"], 1, drawn, running, np.maximum(d["batch"], 1))
    chosen = [what == name for name in ("step", "request", "ttft", "prompt", "load", "energy")]
    return np.select(chosen, [steps, request, first, busy, steps * p["load_factor"], joules])


class Fit:
    """Constants of one kind of engine: logarithms of what all share, and of factors by dependence and key."""

    def __init__(self, kind: str, rows: list[Case], start: dict[Any, float] | None = None) -> None:
        self.kind, self.spec = kind, SPECS[kind]
        self.places: dict[tuple[str, str, str], int] = {}
        mean, width = [], []
        for name, (prior, sd, levels, *_) in self.spec.items():
            self.places[name, "", ""] = len(mean)
            mean.append(np.log(prior))
            width.append(sd)
            for by, spread in levels:
                told = {key for (of, level, key) in KNOWN[kind] if (of, level) == (name, by)}
                for key in sorted({case.keys[by] for case in rows} | told):
                    self.places[name, by, key] = len(mean)
                    mean.append(0.0)
                    width.append(spread)
        for place, (factor, spread) in KNOWN[kind].items():
            if place in self.places:
                mean[self.places[place]], width[self.places[place]] = float(np.log(factor)), spread
        for source in sorted({case.source for case in rows} & set(USERS)):
            self.places["users_factor", "source", source] = len(mean)
            mean.append(0.0)
            width.append(USERS[source])
        self.mean, self.width = np.array(mean), np.array(width)
        self.x = self.mean.copy()
        for key, value in (start or {}).items():
            if key in self.places:
                self.x[self.places[key]] = value

    def design(self, rows: list[Case]) -> dict[str, Any]:
        made = {}
        for name, (_, _, levels, *_) in self.spec.items():
            columns = [[self.places[name, "", ""]] * len(rows)]
            columns += [[self.places.get((name, by, case.keys[by]), -1) for case in rows] for by, _ in levels]
            made[name] = np.array(columns).T
        return made

    def users(self, rows: list[Case]) -> Any:
        """The place of each row's factor of its source; the last, which is 1, where it has none."""
        return np.array([[self.places.get(("users_factor", "source", case.source), len(self.x))] for case in rows])

    def constants(self, design: dict[str, Any], x: Any) -> dict[str, Any]:
        padded = np.append(x, 0.0)
        made = {name: np.exp(padded[places].sum(1)) for name, places in design.items()}
        return {name: np.minimum(value, rates.most(name)) for name, value in made.items()}

    def fit(self, rows: list[Case], rounds: int) -> Fit:
        """Levenberg and Marquardt's steps on the reweighted squares."""
        rows = thinned([case for case in rows if not case.row.get("rate")])  # how many were in flight at a rate is itself estimated
        d, design, n = arrays(rows), self.design(rows), len(rows)
        same = Counter(case.alike for case in rows)
        weight = np.array([same[case.alike] ** -0.5 for case in rows])
        target, users = np.log(d["measured"]), self.users(rows)

        def cost(x: Any) -> tuple[Any, float]:
            off = (np.log(predict(d, self.constants(design, x))) + np.append(x, 0.0)[users[:, 0]] - target) / SCALE
            return off, float((weight * 2 * (np.sqrt(1 + off * off) - 1)).sum() + (((x - self.mean) / self.width) ** 2).sum())

        x, damping = self.x, 1e-2
        columns, where = np.concatenate([*design.values(), users], 1) % (len(x) + 1), np.arange(n)
        off, best = cost(x)
        for _ in range(rounds):
            p = self.constants(design, x)
            base = np.log(predict(d, p))
            parts = []
            for name, places in design.items():
                g = (np.log(predict(d, p | {name: p[name] * np.exp(1e-4)})) - base) / 1e-4 / SCALE
                parts.append(np.repeat(g[:, None], places.shape[1], 1))
            parts.append(np.full((n, 1), 1 / SCALE))
            slopes = csr_matrix((np.concatenate(parts, 1).ravel(), (where.repeat(columns.shape[1]), columns.ravel())), (n, len(x) + 1))
            slopes = slopes[:, :-1]
            each = weight / np.sqrt(1 + off * off)
            curve = (slopes.multiply(each[:, None]).T @ slopes).toarray() + np.diag(self.width**-2)
            slope = slopes.T @ (each * off) + (x - self.mean) / self.width**2
            for _ in range(8):
                move = np.clip(np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -slope), -1, 1)
                after, value = cost(x + move)
                if value < best:
                    break
                damping *= 4
            else:
                break
            done = best - value < 1e-4 * best
            x, off, best, damping = x + move, after, value, max(damping / 5, 1e-6)
            if done:
                break
        self.x = x
        return self

    def predict(self, rows: list[Case]) -> Any:
        return predict(arrays(rows), self.constants(self.design(rows), self.x))

    @property
    def values(self) -> dict[Any, float]:
        return {key: float(self.x[place]) for key, place in self.places.items()}

    def as_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, (_, _, levels, meaning, source) in self.spec.items():
            _, _, _, other, prior = SERVING[name]
            value = float(np.exp(self.x[self.places[name, "", ""]]))
            by = {}
            for dependence, _ in levels:
                factors = {key: float(np.exp(self.x[place])) for (n, d, key), place in self.places.items() if (n, d) == (name, dependence)}
                by[dependence] = {key: float(f"{factor:.3g}") for key, factor in factors.items() if abs(factor - 1) > 0.02}
            unit = "s" if name.endswith("_s") else "1"
            made[name] = {"unit": unit, "meaning": meaning or other, "prior": source or prior, "value": float(f"{value:.3g}")}
            made[name]["by"] = {dependence: factors for dependence, factors in by.items() if factors}
        return made


def thinned(rows: list[Case]) -> list[Case]:
    """At most MOST_ALIKE of alike rows, drawn by a fixed seed."""
    seen: Counter[Any] = Counter()
    found = []
    for place in np.random.default_rng(1).permutation(len(rows)):
        case = rows[place]
        key = (*case.alike, case.row.get("tp"), case.source)
        seen[key] += 1
        if seen[key] <= MOST_ALIKE:
            found.append(case)
    return found


def left_out(kind: str, rows: list[Case], whole: Fit, groups: list[Any]) -> Any:
    """Each row's prediction by a fit that has not seen its group."""
    made = np.zeros(len(rows))
    for name in sorted(set(groups), key=str):
        rest = [case for case, group in zip(rows, groups, strict=True) if group != name]
        places = [place for place, group in enumerate(groups) if group == name]
        fit = Fit(kind, rest, whole.values).fit(rest, 8)
        made[places] = fit.predict([rows[place] for place in places])
    return made


def blind(kind: str, rows: list[Case], whole: Fit) -> tuple[Any, Any]:
    """(with the model left out, with the source left out; where a class has one source, the former again)."""
    models = left_out(kind, rows, whole, [crc32(case.shape.encode()) % FOLDS for case in rows])
    many = Counter(case.source for case in rows)
    found = left_out(kind, rows, whole, [case.source if many[case.source] >= FEW else "small ones" for case in rows])
    sources: dict[Any, set[str]] = {}
    for case in rows:
        sources.setdefault((case.band, case.keys["generation"], case.keys["engine"], case.moe), set()).add(case.source)
    alone = np.array([len(sources[case.band, case.keys["generation"], case.keys["engine"], case.moe]) < 2 for case in rows])
    return models, np.where(alone, models, found)


def names_of(case: Case) -> tuple[str, ...]:
    """The bands that a row is part of, the narrowest first."""
    chosen = rates.class_of(case.asked.plan) or "other"
    return (f"{case.band}/{case.kind}/{chosen}/{case.sort}", f"{case.band}/{case.kind}/{case.sort}", f"{case.band}/{case.kind}")


def bands(rows: list[Case], offs: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """Quantiles of measured over predicted: of each class, and of all of a kind of engine. `offs`: model, then source left out."""
    grouped: dict[str, list[tuple[float, str, str]]] = {}
    for case, pair in zip(rows, offs, strict=True):
        names = list(names_of(case))
        if case.band == "step":
            names += [name.replace("step/", "alone/", 1) for name in names]
        for name in names:
            grouped.setdefault(name, []).extend((off, case.shape, case.source) for off in pair)
    made = {}
    for name, found in sorted(grouped.items()):
        weight = Counter((shape, source) for _, shape, source in found)
        values = np.array([off for off, _, _ in found])
        apart = values[1::2]  # with the source left out, row by row
        order = np.argsort(values)
        share = np.cumsum([weight[found[place][1:]] ** -0.5 for place in order])
        share /= share[-1]

        def at(q: float, values: Any = values, order: Any = order, share: Any = share) -> float:
            return float(f"{values[order][min(int(np.searchsorted(share, q)), len(order) - 1)]:.3g}")

        def ends(further: Any, q: float, at: Any = at, apart: Any = apart) -> float:
            """Between groups, and of the rows themselves, whichever lies further out."""
            return float(further(1.0, at(q), float(f"{np.quantile(apart, q):.3g}")))

        made[name] = {
            "low": ends(min, TAIL), "high": ends(max, 1 - TAIL), "widest_low": ends(min, ENDS), "widest_high": ends(max, 1 - ENDS),
            "rows": len(found) // 2, "models": len({shape for _, shape, _ in found}), "sources": len({source for *_, source in found}),
        }  # fmt: skip
    return made


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="write nothing")
    options.add_argument("--quick", action="store_true", help="fit only, leave nothing out")
    options.add_argument("--kind", choices=tuple(SPECS), help="fit this kind of engine alone; what the other's fit said stays")
    options.add_argument("--ranges", action="store_true", help="keep the constants and what blind fits said; make only ranges anew")
    asked = options.parse_args()
    every = [case for case in cases() if case.measured > 0]
    constants: dict[str, Any] = {} if asked.kind is None else {name: rates.constants_table()[name] for name in SPECS}
    order: list[Case] = []
    offs: list[tuple[float, float]] = []
    values: list[tuple[float, float]] = []
    for kind in SPECS:
        rows = [case for case in every if case.kind == kind]
        if asked.ranges or asked.kind not in (None, kind):
            pairs = [
                [float(case.rate / n if case.quantity == "load" else n) for n in accuracy.unseen()[str(case.row["id"])][6:8]]
                for case in rows
            ]
            order += rows
            values += [(model, source) for source, model in pairs]
            offs += [(case.measured / model, case.measured / source) for case, (source, model) in zip(rows, pairs, strict=True)]
            continue
        whole = Fit(kind, rows).fit(rows, 25)
        constants[kind] = whole.as_json()
        made = whole.predict(rows)
        models, sources = (made, made) if asked.quick else blind(kind, rows, whole)
        order += rows
        offs += [(case.measured / a, case.measured / b) for case, a, b in zip(rows, models, sources, strict=True)]
        values += list(zip(models, sources, strict=True))
    found = bands(order, offs)
    apart = ranges_unseen(order, offs) if not asked.quick else [rates.band(c.band, c.asked.model, c.asked.plan, found) for c in order]
    report(order, values, found, apart)
    if asked.check:
        return
    about = "Written by scripts/calibrate.py from measurements/; never by hand."
    words = " Shares are of nominal rates; each value is multiplied with the factors of its deployment."
    text = json.dumps({"about": about + words, "date": DATE} | constants, indent=1)
    if not asked.ranges:
        (ROOT / "llmcalc" / "rates.json").write_text(text + "\n", encoding="utf-8")
    if asked.quick:
        return
    pairs: dict[str, Counter[str]] = {}
    for case in order:
        pairs.setdefault(case.asked.plan.device.id, Counter())[case.asked.model.id] += 1
    table = {
        "about": about,
        "date": DATE,
        "rows": len(order),
        "bands": found,
        "measured": {d: dict(sorted(pairs[d].items())) for d in sorted(pairs)},
    }
    (ROOT / "llmcalc" / "calibration.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    write_unseen(order, values, found, apart)


def ranges_unseen(rows: list[Case], offs: list[tuple[float, float]]) -> list[rates.Band]:
    """Each row's range, from bands that have not seen its source."""
    made: dict[int, rates.Band] = {}
    for source in {case.source for case in rows}:
        rest = [place for place, case in enumerate(rows) if case.source != source]
        others = bands([rows[place] for place in rest], [offs[place] for place in rest])
        for place, case in enumerate(rows):
            if case.source == source:
                made[place] = rates.band(case.band, case.asked.model, case.asked.plan, others)
    return [made[place] for place in range(len(rows))]


def write_unseen(rows: list[Case], values: list[tuple[float, float]], found: dict[str, Any], apart: list[rates.Band]) -> None:
    """Every row with what fits without its model, and without its source, predict for it: times, of a load rates."""
    made = {}
    for case, pair, blind_band in zip(rows, values, apart, strict=True):
        band = rates.band(case.band, case.asked.model, case.asked.plan, found)
        model, source = (case.rate / value if case.quantity == "load" else value for value in pair)
        numbers = (case.asked.value, source, model, band.low, band.high, blind_band.low, blind_band.high, accuracy.ideal(case.asked))
        numbers += (case.asked.work.batch,)
        words = (case.quantity, accuracy.word(case.asked), case.kind, rates.class_of(case.asked.plan) or "other", int(case.moe))
        made[str(case.row["id"])] = [*words, *(float(f"{n:.4g}") for n in numbers)]
    text = {"about": accuracy.UNSEEN, "date": DATE, "predicted": made}
    (ROOT / "measurements" / "unseen.json").write_text(json.dumps(text).replace('], "', '],\n"') + "\n", encoding="utf-8")


def report(rows: list[Case], values: list[tuple[float, float]], found: dict[str, Any], apart: list[rates.Band]) -> None:
    """How far off, by class: with the model left out, with the source left out, and how many lie in the range."""
    grouped: dict[str, list[tuple[float, float, bool, bool, float]]] = {}
    for case, (model, source), other in zip(rows, values, apart, strict=True):
        band = rates.band(case.band, case.asked.model, case.asked.plan, found)
        inside, blindly = (each.low <= case.measured / source <= each.high for each in (band, other))
        few = " <=16" if case.quantity == "ttft" and case.asked.work.batch <= 16 else ""
        for name in (f"{case.band}{few}/{case.kind}/{case.keys['generation']}", f"{case.band}{few}/{case.kind}", f"all/{case.kind}"):
            grouped.setdefault(name, []).append((model / case.measured, source / case.measured, inside, blindly, band.high / band.low))
    for name, each in sorted(grouped.items()):
        by_model, by_source, inside, blindly, width = (np.array(column) for column in zip(*each, strict=True))
        said = f"{name:44} {len(each):5} rows  model out {np.median(abs(by_model - 1)):.3f}  source out {np.median(abs(by_source - 1)):.3f}"
        print(
            f"{said} (ratio {np.median(by_source):.2f})  in range {inside.mean():.0%} / {blindly.mean():.0%}  width {np.median(width):.2f}"
        )


if __name__ == "__main__":
    main()
