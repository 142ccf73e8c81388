"""`llmcalc models`: what is bundled, one model's facts, and whether a config can be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from llmcalc import quality, sources
from llmcalc.answers import ABSENT, Absent, Answer, answer, field
from llmcalc.architecture import Model, runs
from llmcalc.commands import common as c
from llmcalc.commands import completion, parse
from llmcalc.commands import options as o
from llmcalc.errors import LlmcalcError, UsageError, printable
from llmcalc.estimate import memory, summaries
from llmcalc.present import Report, columns, facts


@answer("models list", rows=True)
class Bundled(Answer):
    """One bundled model."""

    model: str = field("model")
    architecture: str = field("architecture", rank=4)
    params: int = field("parameters", "params", rank=1)
    active_params: int = field("active", "params", rank=3)
    kv_bytes_per_token: float = field("KV/token", "B/token")
    max_context_tokens: int | None = field("context", "tokens", rank=2)


@answer("models show")
class Shown(Answer):
    """What one model is."""

    layers: int = field("layers")
    pattern: str = field("pattern", shown=False)
    hidden_size: int = field("hidden size")
    vocab_size: int = field("vocabulary")
    tied_embeddings: bool = field("head shares the embedding")
    dtype: str | None = field("dtype")
    language_params: int = field("language model", "params")
    max_context_tokens: int | None = field("longest context", "tokens")
    source: str | None = field("config from", shown=False)
    date: str | None = field("as of", shown=False)
    licence: str | None = field("licence")
    rating: float | Absent | None = field("rating", note="Arena, text", default=ABSENT)
    rating_low: float | Absent | None = field("95% interval, low", shown=False, default=ABSENT)
    rating_high: float | Absent | None = field("95% interval, high", shown=False, default=ABSENT)
    rating_date: str | Absent = field("rated on", shown=False, default=ABSENT)
    rating_source: str | Absent = field("rated by", shown=False, default=ABSENT)


@answer("models show", rows=True)
class Group(Answer):
    """A group of alike layers."""

    layers: int = field("layers")
    first: int = field("first", shown=False)
    mixers: str = field("mixer")
    query_heads: int | None = field("heads", rank=1)
    kv_heads: int | None = field("KV heads")
    experts: int | None = field("experts", rank=2)
    experts_per_token: int | None = field("used", rank=3)
    params: int = field("params each", "params")


@answer("models check", rows=True)
class Checked(Answer):
    """Whether one config can be read, and what does not agree with it."""

    model: str = field("model")
    ok: bool = field("ok", default=True)
    architecture: str | None = field("architecture", rank=3, default=None)
    params: int | None = field("language model", "params", rank=1, default=None)
    hub: str | None = field("the Hub's", rank=1, default=None)
    problem: str = field("problem", shown=False, default="")


Filter = Annotated[
    list[str] | None, typer.Argument(metavar="[WORD]...", help="Only ids with all of these words: `qwen 7b` finds no 27B and no 57B.")
]
Reference = Annotated[str, typer.Argument(metavar="MODEL", autocompletion=completion.models, help="A bundled id, a Hub id, a file or -.")]


class Offline(o.Group):
    """Whether the Hub may be asked."""

    section = "Model"
    offline = o.Whence.offline


class Chosen(o.Group):
    """Which of the bundled models."""

    section = "Model"
    least = o.option(None, "--min", metavar="PARAMS", read=parse.params, help="With at least so many parameters: 20B.")
    most = o.option(None, "--max", metavar="PARAMS", read=parse.params, help="With at most so many.")
    kind = o.option(
        None,
        "--kind",
        autocompletion=completion.of(*summaries.KINDS),
        metavar="KIND",
        help="moe, dense or hybrid (with layers that keep a state).",
    )
    license = o.option(None, "--license", "--licence", metavar="NAME", help="Under a licence, where it is written down: apache-2.0, mit.")


def list_models(
    chosen: Chosen,
    out: o.File,
    text: Filter = None,
) -> None:
    """Every bundled model with its size, its cache per token and its longest context."""
    kind = chosen.kind.lower() if chosen.kind else None
    if kind and kind not in summaries.KINDS:
        raise UsageError("bad-value", f"{printable(kind, 40)} is no kind of model", f"give one of {', '.join(summaries.KINDS)}")
    words = " ".join(text or ()).lower().split()
    rows = []
    unlicensed = 0
    for name in sources.bundled_ids():
        if not all(sources.has_word(name, word) for word in words):
            continue
        found = summaries.of(name)
        if found.params < (chosen.least or 0) or (chosen.most and found.params > chosen.most) or (kind and kind not in found.kinds):
            continue
        if chosen.license:
            under = quality.licence(name)
            unlicensed += under is None
            if not quality.same_licence(under, chosen.license):
                continue
        rows.append(
            Bundled(
                model=name,
                architecture=found.architecture,
                params=found.params,
                active_params=found.active_params,
                kv_bytes_per_token=found.kv_bytes_per_token,
                max_context_tokens=found.max_context,
            )
        )
    report = Report(
        command="models",
        whole=True,
        title=c.counted(len(rows), "bundled model") + (f" with {' '.join(words)!r} in the name" if words else ""),
        columns=columns(Bundled),
        rows=tuple(rows),
        inputs={"filter": " ".join(text) if text else None, "min": chosen.least, "max": chosen.most, "kind": kind}
        | ({"license": chosen.license} if chosen.license else {}),
        warnings=(f"license: of {c.counted(unlicensed, 'model')} more it is not written down",) if unlicensed else (),
    )
    c.say(report, out)


def show(
    model: Reference,
    whence: o.Whence,
    out: o.File,
) -> None:
    """The architecture of one model, group by group, with the source of its config."""
    found = c.load(model, revision=whence.revision, offline=whence.offline, refresh=whence.refresh)
    stack = found.stack
    kinds = runs("+".join(m.kind for m in layer.mixers) or "none" for layer in stack.layers)
    pattern = " ".join(f"{count}×{kind}" for kind, count in kinds[:40]) + (" …" if len(kinds) > 40 else "")
    rows = [
        Group(
            layers=group.count,
            first=group.first,
            mixers=" + ".join(m.kind for m in group.layer.mixers) or "none",
            query_heads=max((m.query_heads for m in group.layer.mixers), default=0) or None,
            kv_heads=max((m.kv_heads for m in group.layer.mixers), default=0) or None,
            experts=group.layer.mlp.experts if group.layer.mlp else None,
            experts_per_token=group.layer.mlp.top_k if group.layer.mlp else None,
            params=sum(weight.params for weight in group.layer.all_weights),
        )
        for group in found.groups
    ]
    rated = quality.rating(found.id)
    shown = Shown(
        layers=len(stack.layers),
        pattern=pattern,
        hidden_size=stack.hidden,
        vocab_size=stack.vocab,
        tied_embeddings=stack.tied,
        dtype=found.dtype,
        language_params=memory.language_params(found),
        max_context_tokens=found.max_context,
        source=found.facts.get("source", found.source),
        date=found.facts.get("date"),
        licence=quality.licence(found.id),
        **({} if rated is None else _rating(rated)),
    )
    report = Report(
        command="models",
        title=found.id,
        model=c.model_header(found),
        header=(
            c.model_line(found),
            f"layers: {pattern}",
            *((f"config: {found.facts['source']}",) if found.facts.get("source") else ()),
        ),
        facts=facts(shown, licence=shown.licence is not None, **(_words(rated) if rated else {})),
        columns=columns(Group),
        rows=tuple(rows),
        warnings=found.notes,
    )
    c.say(report, out)


def _rating(rated: quality.Rating) -> dict[str, Any]:
    return {
        "rating": rated.score,
        "rating_low": rated.low,
        "rating_high": rated.high,
        "rating_date": rated.date,
        "rating_source": rated.source,
    }


def _words(rated: quality.Rating) -> dict[str, str]:
    between = "" if rated.low is None else f", {rated.low:,g} to {rated.high:,g}"
    return {"rating": f"Arena, {rated.task}{between}; {rated.date}{', older than a year' if rated.old() else ''}"}


def check(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", autocompletion=completion.models, help="config.json files, folders or ids.")
    ],
    whence: Offline,
    out: o.File,
) -> None:
    """Whether configs can be read and agree with a published parameter count, and bundled ones with the Hub's of today.

    Exit 3 where one does not.
    """
    rows = []
    asks = not whence.offline
    for name in files:
        row = Checked(model=name)
        try:
            found = c.load(name, offline=whence.offline)
            row = replace(row, architecture=found.model_type, params=memory.language_params(found))
            published = found.facts.get("published_params")
            counts = memory.published_counts(found)
            if isinstance(published, int) and published not in counts:
                counted = " or ".join(f"{count:,}" for count in sorted(counts))
                row = replace(row, ok=False, problem=f"published: {published:,} parameters, counted: {counted}")
            elif found.source == "bundled":
                changed, hub = _hub_now(found) if asks else ("", NO_NETWORK)
                row = replace(row, ok=not changed, problem=changed, hub=hub)
                asks = not hub.startswith(NO_NETWORK)  # it is not there for the next one either
        except LlmcalcError as problem:
            row = replace(row, ok=False, problem=f"{problem.code}: {problem.message}")
        rows.append(row)
    report = Report(
        command="models",
        title=f"{sum(row.ok for row in rows)} of {len(rows)} can be read",
        remarks=tuple(f"{row.model}: {row.problem}" for row in rows if row.problem),
        absent=(("", "null where nothing was counted or compared"),),
        columns=columns(Checked),
        rows=tuple(rows),
        verdict=all(row.ok for row in rows),
    )
    c.say(report, out, check=True)


NO_NETWORK = "not asked"


def _hub_now(bundled: Model) -> tuple[str, str]:
    """What the Hub's current config says otherwise, and the state of the comparison."""
    try:
        there = sources.find(bundled.id, refresh=True)
    except LlmcalcError as problem:
        away = problem.code in ("network", "timeout", "bad-option", "hub-client")
        return "", f"{NO_NETWORK if away else 'not readable'}: {problem.message}"
    now = c.of_source(there)
    alike = replace(now, id=bundled.id, source=bundled.source, revision=bundled.revision, notes=bundled.notes, facts=bundled.facts)
    commit = f"commit {str(there.revision)[:12]}"
    if alike == bundled:
        return "", f"the same, {commit}"
    here = sources.read_bundled(bundled.id).config
    keys = [key for key in here if not key.startswith("_") and there.config.get(key) != here[key]]
    return f"the Hub's config differs: {', '.join(keys[:6]) or 'keys that the bundled one lacks'}", f"changed, {commit}"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Bundled models: list, show, check.", rich_markup_mode=None)
    group.command("list")(o.command(list_models, ()))
    group.command("show")(o.command(show, ()))
    group.command("check")(o.command(check, ()))
    app.add_typer(group, name="models")
