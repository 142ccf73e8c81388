"""`llmcalc weights`: parameters and bytes by part."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from llmcalc.answers import Words
from llmcalc.commands import common as c
from llmcalc.estimate import memory, weight_files
from llmcalc.present import Fact, Report, columns, facts

EXAMPLES = """
Examples:

  llmcalc weights --model Qwen/Qwen3-30B-A3B

  llmcalc weights -m openai/gpt-oss-120b --weights mxfp4 --explain

  llmcalc weights -m ./Qwen3-8B-Q4_K_M.gguf --from-files
"""
FromFilesOption = Annotated[
    bool, typer.Option("--from-files", help="Read the weight files' headers too (safetensors, GGUF; no weights), and compare.")
]


def weights(
    model: c.ModelOption,
    weights: c.WeightsOption = "auto",
    from_files: FromFilesOption = False,
    revision: c.RevisionOption = None,
    offline: c.OfflineOption = False,
    refresh: c.RefreshOption = False,
    explain: c.ExplainOption = False,
    format: c.FormatOption = "table",
    json: c.JsonOption = False,
    output: c.OutputOption = None,
) -> None:
    """Parameters, active parameters and weight bytes, by part."""
    from llmcalc import sources

    source = sources.find(model, revision=revision, offline=offline, refresh=refresh)
    found = c.of_source(source)
    estimate = memory.weights(found, weights)
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
    if from_files:
        files = weight_files.compare(sources.weight_files(source, offline=offline), found, estimate)
        unlike = any(row.params != row.file_params for row in files.rows)  # else one column of bytes says it all
        report = replace(
            report,
            facts=(*report.facts, *file_facts(files.results)),
            columns=columns(weight_files.PartInFiles, params=unlike, file_params=unlike),
            rows=files.rows,
            warnings=(*report.warnings, *(text for text in files.warnings if text not in report.warnings)),
        )
    c.emit(report, format=format, json=json, output=output, explain=explain)


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
    app.command("weights", epilog=EXAMPLES)(c.estimating(weights))
