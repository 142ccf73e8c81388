"""`llmcalc weights`: parameters and bytes by part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import typer

from llmcalc.answers import Words
from llmcalc.commands import common as c
from llmcalc.commands import options as o
from llmcalc.errors import ConfigError, printable
from llmcalc.estimate import memory, weight_files
from llmcalc.files import Files
from llmcalc.present import Fact, Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc weights --model Qwen/Qwen3-30B-A3B

  llmcalc weights -m openai/gpt-oss-120b --weights mxfp4 --explain

  llmcalc weights -m ./Qwen3-8B-Q4_K_M.gguf --from-files
"""


class Stored(o.Group):
    """In which format, and whether the files are looked at."""

    weights = o.Layout.weights
    from_files = o.switch("--from-files", help="Compare with the weight files' headers, too.")


def weights(which: o.ModelChoice, stored: Stored, out: o.Output) -> None:
    """Parameters, active parameters and weight bytes, by part."""
    from llmcalc import sources

    source = sources.find(which.model, revision=which.revision, offline=which.offline, refresh=which.refresh)
    try:
        found = c.of_source(source)
    except ConfigError as problem:
        if not stored.from_files:
            raise
        return c.say(_alone(sources.weight_files(source, offline=which.offline), source.id, source.config, problem), out)
    estimate = memory.weights(found, stored.weights)
    r = estimate.results
    report = Report(
        command="weights",
        title=f"Weights of {found.id}",
        model=c.model_header(found),
        inputs=estimate.inputs,
        header=(c.model_line(found), f"weights {estimate.inputs['weights']}"),
        facts=facts(
            r,
            tower_params=r.tower_params != 0,
            total_params=r.tower_params not in (0, None),
            active_params_with_embedding=r.active_params_with_embedding != r.language_params,
            mtp_params=r.mtp_params > 0,
            mtp_bytes=r.mtp_params > 0,
        ),
        columns=columns(memory.Part),
        rows=estimate.rows,
        assumptions=estimate.assumptions,
        warnings=estimate.warnings,
        figures=estimate.figures,
    )
    if stored.from_files:
        files = weight_files.compare(sources.weight_files(source, offline=which.offline), found, estimate)
        unlike = any(row.params != row.file_params for row in files.rows)  # else one column of bytes says it all
        report = replace(
            report,
            facts=(*report.facts, *file_facts(files.results)),
            columns=columns(weight_files.PartInFiles, params=unlike, file_params=unlike),
            rows=files.rows,
            warnings=(*report.warnings, *(text for text in files.warnings if text not in report.warnings)),
        )
    c.say(report, out)


def _alone(files: Files, id: str, config: Mapping[str, Any], problem: ConfigError) -> Report:
    """The files of a model whose architecture nobody reads: their headers say how many bytes and parameters there are."""
    held = weight_files.alone(files, config.get("quantization_config") or config.get("quantization"))
    return Report(
        command="weights",
        title=f"Weights of {printable(id)}",
        facts=file_facts(held.results),
        remarks=(f"by the shapes in the files alone, no part of a model is told from another: {problem.message}",),
        warnings=held.warnings,
    )


def file_facts(r: weight_files.InFiles) -> tuple[Fact, ...]:
    """What the files hold, what makes the difference to the computed bytes, and what lies beside them, line by line."""
    found = []
    for fact in facts(r, file_bytes=Words(f"{r.file_count:,} weight file{'s' if r.file_count > 1 else ''}")):
        found.append(fact)
        if fact.key == "file_bytes_by_dtype":
            found += [Fact("", f"    in {name}", size, "B") for name, size in r.file_bytes_by_dtype.items()]
        elif fact.key == "file_differences":
            found += [Fact("", f"  {one.reason}", one.bytes, "B") for one in r.file_differences]
        elif fact.key == "extra_files" and r.extra_files:
            found.append(Fact("", "beside them, not counted", sum(one.bytes for one in r.extra_files), "B"))
            found += [Fact("", f"  {one.name}", one.bytes, "B", note=one.why) for one in r.extra_files]
    return tuple(found)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("weights", epilog=EXAMPLES)(o.command(weights))
