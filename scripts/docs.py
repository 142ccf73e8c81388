"""Write what documentation can be written from code: docs/, and the outputs shown in README.md and docs/*.md.

    python scripts/docs.py

A fenced `console` block is `$ llmcalc ...` and today's output. tests/test_docs.py fails until this has run after a change.
"""

from __future__ import annotations

import contextlib
import functools
import html
import io
import json
import os
import pkgutil
import re
import shlex
import types as python_types
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import llmcalc.formulas
from llmcalc import answers, data, engines, formats, hardware, sources
from llmcalc.answers import Absent, Answer
from llmcalc.cli import main
from llmcalc.commands import COMMANDS
from llmcalc.figures import FORMULAS
from llmcalc.present import SCHEMA, Report

for _command in COMMANDS:
    import_module(f"llmcalc.commands.{_command}")  # they name their answers as they load
ROOT = Path(__file__).resolve().parent.parent
WIDTH = 92
BLOCK = re.compile(r"(```console\n\$ (?:echo (.*?) \| )?llmcalc (.*?)\n)(.*?)(```\n)", re.DOTALL)
GENERATED = "<!-- Written by scripts/docs.py: change the code, not this page. -->\n"


# ---- running a command as a reader would -----------------------------------------------------------------------------


@contextlib.contextmanager
def terminal(**variables: str) -> Any:
    """The environment of every shown output: a width, no network, no colours but those asked for."""
    changed = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE")}
    with mock.patch.dict(os.environ, changed | {"COLUMNS": str(WIDTH), "HF_HUB_OFFLINE": "1"} | variables, clear=True):
        yield


def output(command: str, typed: str = "", **variables: str) -> str:
    """What `llmcalc COMMAND` prints on stdout with that on stdin."""
    out = io.StringIO()
    quiet = contextlib.redirect_stderr(io.StringIO())
    with terminal(**variables), contextlib.redirect_stdout(out), quiet, mock.patch("sys.stdin", io.StringIO(f"{typed}\n")):
        status = main(shlex.split(command))
    assert status == 0, f"llmcalc {command} ended with {status}"
    return out.getvalue()


def refreshed(text: str) -> str:
    """The page with today's output in each console block."""
    return BLOCK.sub(lambda found: found[1] + output(found[3], typed=found[2] or "") + found[5], text)


def picture() -> str:
    """A terminal picture of real output, drawn by rich."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for command in PICTURED:
        console.print(Text.assemble(("$ ", "green"), (f"llmcalc {command}", "bold")))
        console.print(Text.from_ansi(output(command, FORCE_COLOR="1", TERM="xterm-256color", COLORTERM="truecolor")), soft_wrap=True)
        console.print()
    from rich._export_format import CONSOLE_SVG_FORMAT

    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)  # fonts from afar would be asked for
    drawn = console.export_svg(
        title="llmcalc", unique_id="llmcalc", code_format=plain.replace("Fira Code", "ui-monospace, Menlo, Consolas")
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


PICTURED = (
    "kv -m openai/gpt-oss-120b -c 128k",
    "decode -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32",
)


def words(svg: str) -> str:
    """The text of a picture, for a comparison that another release of rich does not disturb."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", svg.split("</style>")[-1])).split())


# ---- pages -----------------------------------------------------------------------------------------------------------


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A Markdown table."""
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(["| " + " | ".join(row) + " |" for row in [list(head), ["---"] * len(head), *cells]]) + "\n"


UNITS = (
    (r"usd_per_kwh", "USD/kWh"),
    (r"usd_per_(\w+_)?hour", "USD/h"),
    (r"usd_per_month", "USD/month"),
    (r"(\w+_)?usd(_per_\w+)?", "USD"),
    (r"(\w+_)?bytes_per_s", "B/s"),
    (r"flops_per_s", "FLOP/s"),
    (r"hit_rate|acceptance_rate|success_rate|prefix_tokens_per_s", "1"),
    (r"(tokens|requests)_per_s(_\w+)?|rate|\w+_rate", "1/s"),
    (r"(\w+_)?bytes|bytes_\w+|part|whole", "B"),
    (r"(\w+_)?bytes_per_(\w+)", "B each"),
    (r"(\w+_)?bits(_per_\w+)?", "bit"),
    (r"\w+_s2", "s²"),
    (r"seconds_per_\w+|(\w+_)?s|(\w+_)?s_per_\w+", "s"),
    (r"power(_cap)?_w", "W"),
    (r"years", "year"),
    (r"(\w+_)?tokens", "tokens"),
    (r"(\w+_)?flops(_per_\w+)?", "FLOP"),
)
"""The last part of a parameter's name is its unit; what is not here is a plain number."""


def unit_of(parameter: str) -> str:
    """The unit that a parameter's name says."""
    return next((unit for pattern, unit in UNITS if re.fullmatch(pattern, parameter)), "1")


NOTATION = {
    "W": ("memory bandwidth of a device", "bandwidth_bytes_per_s", "B/s"),
    "P": ("dense compute rate in the format of the arithmetic", "flops_per_s", "FLOP/s"),
    "B": ("sequences in a step", "batch", "1"),
    "C": ("tokens that a sequence holds", "ctx_tokens", "tokens"),
    "S": ("prompt tokens", "prompt_tokens, tokens", "tokens"),
    "w": ("bytes of weights that a step reads", "weight_read_bytes", "B"),
    "KV": ("cache of one sequence", "kv_bytes_per_sequence", "B"),
    "N": ("parameters; those multiplied per token leave an untied input embedding out", "params", "1"),
    "L": ("layers", "layers", "1"),
    "H, K": ("query heads, KV heads", "heads, kv_heads", "1"),
    "d": ("width of a head", "head_dim", "1"),
    "E, k": ("experts of a layer, experts that a token uses", "experts, top_k", "1"),
    "B*": ("critical batch: beyond it arithmetic binds", "critical_batch", "tokens"),
    "n": ("tensor-parallel ranks", "tensor_parallel, ranks", "1"),
    "α, γ": ("acceptance of a draft token, draft tokens per step", "acceptance, draft_tokens", "1"),
    "ρ": ("offered load over capacity", "load, utilization", "1"),
}


def formulas() -> str:
    """Every equation with its unit, its reference and the names it is made of."""
    for module in pkgutil.iter_modules(llmcalc.formulas.__path__):
        import_module(f"llmcalc.formulas.{module.name}")
    rooms: dict[str, list[str]] = {}
    for name, formula in sorted(FORMULAS.items(), key=lambda item: item[1].function.__code__.co_firstlineno):
        rooms.setdefault(formula.function.__module__, []).append(name)
    text = f"""# Formulas
{GENERATED}
{len(FORMULAS)} equations, each written once in `llmcalc/formulas/` as one expression. What is printed here is the source
of the `return` that runs, and `--explain` prints it with the values of your case. All of them take plain numbers or numpy arrays in SI
base units: bytes, FLOP (a multiply-add is 2), seconds, tokens, USD. `larger` and `smaller` are max and min, element by element.

They hold for ideal rates: no kernel launches, no host time, no imperfect overlap. `expected_…` figures put measured efficiencies on top.
Each section's first lines say what its equations assume.

## Notation

{table(("symbol", "is", "name in the code", "unit"), [(f"`{key}`", *value) for key, value in NOTATION.items()])}
"""
    for room in sorted(rooms):
        module = import_module(room)
        text += f"\n## {room.rpartition('.')[2]}\n\n{(module.__doc__ or '').strip()}\n"
        for name in rooms[room]:
            formula = FORMULAS[name]
            says = " ".join((formula.function.__doc__ or "").partition("\n\n")[0].split()).rsplit(" [", 1)[0]
            ref = f" Reference: {formula.ref}." if formula.ref else ""
            text += f"\n### {name}\n\n{says}{ref}\n\n    {name} [{formula.unit or '1'}] = {formula.expression}\n"
    used: dict[str, list[str]] = {}
    for name, formula in sorted(FORMULAS.items()):
        for parameter in formula.parameters:
            used.setdefault(parameter, []).append(name)
    rows = [(f"`{name}`", unit_of(name), ", ".join(used[name][:4]) + (" …" if len(used[name]) > 4 else "")) for name in sorted(used)]
    return f"{text}\n## Names\n\nThe last part of a name is its unit.\n\n{table(('name', 'unit', 'used by'), rows)}"


def _steps(row: engines.Engine) -> tuple[int, ...]:
    """Tokens of a step, from small devices to large ones."""
    tiers = tuple(tokens for _, tokens in row.tiers)
    return tiers if all(tiers) and tiers else (*row.batched, *filter(None, tiers))


def policies() -> str:
    """What each engine's memory policy assumes."""
    rows = [
        (
            f"`{row.name}`",
            f"{row.utilization:g}" + (" of what is free" if row.of_free else " by its own rule" if row.share_rule else ""),
            "nominal, decimal" if row.nominal else "the driver's",
            row.block_tokens,
            row.windows,
            " / ".join(f"{each:,}" if each else "a context" for each in _steps(row)),
            " / ".join(f"{each:,}" for each in row.sequences),
            " / ".join(f"{each / engines.GIB:.2f}" for each in row.other_bytes),
            row.source,
        )
        for row in engines.ENGINES.values()
    ]
    head = (
        "engine",
        "share of memory",
        "size counted",
        "block",
        "windows",
        "tokens of a step",
        "sequences",
        "other buffers [GiB]",
        "source",
    )
    kinds = [
        (f"`{row.name}`", f"{row.bits:g}", row.compute, "yes" if row.kv else "", row.note)
        for row in (*formats.FORMATS.values(), *(formats.find(name, kv=True) for name in ("int4", "iq4_nl")))
    ]
    return f"""# Engines and number formats
{GENERATED}
## Memory policies

`--engine NAME` decides which share of a device is used, what is held beside weights, and how a cache is rounded. `name@release` takes the
newest row that is not younger. `napkin` rounds nothing and reserves nothing: the bound that no engine reaches.

{table(head, rows)}
`windows`: `ideal` the window; `step` window - 1 + the tokens of a step; `cells` window + micro-batch; `share` of all tokens;
`full` the whole context. Tokens of a step and sequences: of a small and of a large device; other buffers: one device, several, over NVLink.

`measurements/kv_capacity.yaml` has what engines logged at start-up, and a test holds these rows against it: a token's cache within 0.2%,
concurrency within 0.3% and the log's own rounding, the pool beside weights within 5% for half of the logs and 10% for nine in ten.

What the rows of vLLM also count:

- layers that keep unlike amounts go in groups of equal size whose blocks have equal bytes; DeepSeek-V4's compressed entries, windows and
  compressors go in tuples of pages of a few sizes, in fp8 whatever `--kv-dtype` says;
- recurrent states in the dtype of the activations, unless the family's configs ask for float32 (Qwen3.5, Nemotron-H), and from 0.16 on a
  second block of them, which prefix caching takes; such models cache prefixes only with `--enable-prefix-caching`;
- 0.8 to 0.11 sample without FlashInfer: where it is installed, 256 sequences of 152,064 logits take 0.4 GiB instead of 1.4;
- MXFP4 experts padded to 128 columns inside and 256 of a token, which is 5 GiB of gpt-oss-120b;
- in the peak, the image of 16,384 tokens that a profile encodes, where the tower merges patches as Qwen's do;
- with `fit --draft-tokens N` (and `--draft MODEL`, else the target's own prediction layers), the drafting layers' part of the pool and of
  the weights, a state block more per drafted token, and the drafted inputs of a convolution.

## Number formats

Bits count the scales and zero points of groups. `multiplies in`: the rate of a device that is used; weight-only formats are dequantised.

{table(("format", "bits", "multiplies in", "cache", "note"), kinds)}"""


def sources_page() -> str:
    """Where shipped values come from, and how old they are."""
    devices = [device for device in map(hardware.load, hardware.ids()) if device.origin == "bundled"]
    rows = []
    for device in devices:
        dates = sorted(price.date for price in device.prices if price.date)
        undated = sum(price.date is None for price in device.prices)
        asked = (f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else "".join(dates)) + (f" + {undated} undated" if undated else "")
        rows.append(
            (f"`{device.id}`", device.name, device.confidence, len({s.cite for c in device.sources.values() for s in c}), asked or "none")
        )
    cites = Counter(source for device in devices for cited in device.sources.values() for source in {*cited})
    told = [(source.cite, source.date, number) for source, number in sorted(cites.items(), key=lambda item: (-item[1], item[0].cite))]
    facts = [sources.read_bundled(name).facts for name in sources.bundled_ids()]
    places = Counter(_kind_of_source(str(fact.get("source", "unknown"))) for fact in facts)
    most = places.most_common(12)
    dates = sorted(str(fact["date"]) for fact in facts if fact.get("date"))
    counted = sum(isinstance(fact.get("published_params"), int) for fact in facts)
    measured = [
        (f"`measurements/{path.name}`", len(_rows(path)), _read_on(path)) for path in sorted(data.bundled("measurements").glob("*.[yc]*"))
    ]
    return f"""# Data: sources and dates
{GENERATED}
## Models

{len(facts)} configs in `models/`, in the Hub's own key names, as of {dates[0]} to {dates[-1]}. {counted} of them name a
published parameter count, which the reader must reproduce exactly. Each file's `_llmcalc` block says where it was read;
`llmcalc models check ID` compares it with the Hub's config of today.

{table(("read in", "files"), [*most, ("other public repositories", len(facts) - sum(number for _, number in most))])}
## Devices

{len(devices)} profiles in `hardware/`. `llmcalc hardware show ID` prints the source and date of every value. Prices keep the
date on which they were asked; those older than {hardware.PRICE_DAYS} days are flagged by `cost` and `plan`.

{table(("id", "name", "confidence", "sources", "prices asked"), rows)}
### What they cite

{table(("source", "date", "used for (blocks of profiles)"), told)}
## Measurements

What `llmcalc accuracy` holds the estimates against; each row names its source.

{table(("file", "rows", "read"), measured)}"""


def _kind_of_source(text: str) -> str:
    """`copy in org/repo:path` by the repository; what was derived from another bundled model together."""
    if text.startswith("architecture of"):
        return "the architecture of another model of this list"
    return re.sub(r"[:@].*| \(.*", "", text)


def _rows(path: Path) -> list[Any]:
    if path.suffix == ".csv":
        return path.read_text(encoding="utf-8").splitlines()[1:]
    content = data.parse_yaml(path.read_text(encoding="utf-8"), path.name, "measurement file")
    rows: list[Any] = content.get("rows", content.get("sources")) if isinstance(content, dict) else content
    return rows


def _read_on(path: Path) -> str:
    return ", ".join(sorted(set(re.findall(r"^#.*?[Rr]ead (\d{4}-\d\d-\d\d)", path.read_text(encoding="utf-8"), re.MULTILINE))))


# ---- JSON ------------------------------------------------------------------------------------------------------------

EXAMPLES = (
    "kv -m openai/gpt-oss-120b -d h100-sxm",
    "weights -m Qwen/Qwen3-30B-A3B",
    "fit -m Qwen/Qwen3-8B -d h100-sxm --engine vllm",
    "decode -m Qwen/Qwen3-8B -d h100-sxm",
    "prefill -m Qwen/Qwen3-8B -d h100-sxm",
    "cost -m Qwen/Qwen3-8B -d h100-sxm",
    "quant -m Qwen/Qwen3-8B -d h100-sxm",
    "spec -m Qwen/Qwen3-8B -d h100-sxm --preset eagle",
    "plan -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 500 --output-tokens 50 --tp 1",
    "report -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 500 --output-tokens 50 --tp 1",
    "simulate -m Qwen/Qwen3-8B -d h100-sxm --rate 2 --prompt 500 --output-tokens 50 --requests 200",
    "prefix -m Qwen/Qwen3-8B -d h100-sxm -b 8 --prefix 1k --prompt 2k",
    "levers -m Qwen/Qwen3-8B -d h100-sxm",
    "layouts -m Qwen/Qwen3-8B -d '2x h100-sxm'",
    "rank -d rtx-4090 --family qwen3-",
    "compare -m Qwen/Qwen3-8B -d h100-sxm,l40s",
    "pareto -m Qwen/Qwen3-8B -d h100-sxm --max-tpot 20ms",
    "roofline -m Qwen/Qwen3-8B -d h100-sxm",
    "accuracy",
    "models list Qwen3-8B",
    "models show Qwen/Qwen3-8B",
    "models check Qwen/Qwen3-8B --offline",
    "hardware list h100",
    "hardware show h100-sxm",
    "quiz --seed 1 --count 1",
    "quiz --progress",
    "doctor",
)


@functools.cache
def said(command: str) -> Report:
    """What a command hands to the output."""
    caught: list[Report] = []
    with terminal(), mock.patch("llmcalc.commands.common.say", lambda report, *_, **__: caught.append(report)):
        status = main([*shlex.split(command), *(["--json"] if command.startswith("quiz") else [])])
    assert caught, f"llmcalc {command} ended with {status} and says nothing"
    return caught[0]


def keys() -> str:
    """The keys of `results` and `rows` of every command, with their labels and units."""
    units = {"percent": "share of 1", "GB": "B", "params": "", "usd": "USD", "usd/h": "USD/h", "usd/1M": "USD"}
    text = f"""# JSON
{GENERATED}
`--json` prints one object: the envelope of `envelope.schema.json` (schema {SCHEMA}). Values are SI base units with the unit in the
key. Keys are added, never renamed or dropped; a figure that is not known is null, and `warnings` says why. An error is the same
envelope with `error` instead of results, and the same exit code as without `--json`.

The tables list what each command puts into `results` and into each of `rows`.
"""
    for command in EXAMPLES:
        if command.split()[0] not in COMMANDS:
            continue
        name, longer = command.split()[0], " ".join(command.split()[:2]).replace("--", "")
        name = longer if longer in answers.RESULTS or longer in answers.ROWS else name
        text += f"\n## {name}\n"
        for head, kinds in (("results", answers.RESULTS.get(name)), ("rows", answers.ROWS.get(name))):
            if kinds:
                text += f"\n{table((head, 'is', 'unit'), [row for kind in kinds for row in described(kind, units)])}"
    return text


def described(kind: type[Answer], units: dict[str, str]) -> list[tuple[str, str, str]]:
    """Key, words and unit of every field of an answer."""
    found = []
    for key, said in answers.words(kind).items():
        label = said.label.strip()
        known = label if label != key else ""
        meaning = "; ".join(part for part in (known, said.meaning or said.note) if part) or key.replace("_", " ")
        found.append((f"`{key}`", meaning + (" (only where asked for)" if optional(kind, key) else ""), units.get(said.unit, said.unit)))
    return found


@functools.cache
def types(kind: type[Answer]) -> dict[str, Any]:
    """The types of an answer's fields."""
    return {name.rstrip("_"): hint for name, hint in typing.get_type_hints(kind).items()}


def optional(kind: type[Answer], key: str) -> bool:
    """Whether a run may leave the field out."""
    return Absent in typing.get_args(types(kind)[key])


def of_type(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a Python type."""
    plain = {float: "number", int: "integer", str: "string", bool: "boolean", type(None): "null"}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in plain:
        return {"type": plain[hint]}
    if origin in (typing.Union, python_types.UnionType):
        parts = [of_type(one) for one in inner if one is not Absent]
        if all(set(part) == {"type"} for part in parts):
            names = [part["type"] for part in parts]
            return {"type": names[0] if len(names) == 1 else names}
        return parts[0] if len(parts) == 1 else {"anyOf": parts}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if isinstance(hint, type) and issubclass(hint, Answer):
        return of_answer([hint])
    if origin in (list, tuple, Sequence):
        return {"type": "array", "items": of_type(inner[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": of_type(inner[1])}
    assert hint is Any, f"no JSON Schema for {hint}"
    return {}


def of_answer(kinds: list[type[Answer]]) -> dict[str, Any]:
    """The JSON Schema of an answer: the first record always, others where they were asked for; no other key."""
    return {
        "type": "object",
        "required": [key for kind in kinds[:1] for key in types(kind) if not optional(kind, key)],
        "properties": {key: of_type(hint) for kind in kinds for key, hint in types(kind).items()},
        "additionalProperties": False,
    }


def of_commands() -> list[dict[str, Any]]:
    """What results and rows each command has."""
    found: dict[str, dict[str, list[Any]]] = {}
    for name in dict.fromkeys((*answers.RESULTS, *answers.ROWS)):
        held = found.setdefault(name.split()[0], {"results": [], "rows": []})
        held["results"].append(of_answer(answers.RESULTS.get(name, [])))
        held["rows"] += [of_answer([kind]) for kind in answers.ROWS.get(name, [])]

    def one(made: list[Any]) -> Any:
        return made[0] if len(made) == 1 else {"anyOf": made}

    return [
        {
            "if": {"properties": {"command": {"const": command}}, "required": ["results"]},
            "then": {
                "properties": {
                    "results": one(held["results"]),
                    **({"rows": {"type": "array", "items": one(held["rows"])}} if held["rows"] else {}),
                }
            },
        }
        for command, held in sorted(found.items())
    ]


def schema() -> str:
    """JSON Schema of the envelope."""
    text = {"type": "string"}
    texts = {"type": "array", "items": text}
    anything: dict[str, Any] = {"type": "object"}
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What llmcalc --json prints",
        "type": "object",
        "required": ["schema", "command"],
        "properties": {
            "schema": {"const": SCHEMA},
            "command": {"enum": [*COMMANDS, None]},
            "model": {
                "type": "object",
                "required": ["id", "source", "revision", "architecture"],
                "properties": {
                    "id": text,
                    "source": {"enum": ["bundled", "hub", "hub-cache", "file", "stdin"]},
                    "revision": {"type": ["string", "null"]},
                    "architecture": text,
                },
            },
            "hardware": {"type": "object", "required": ["id", "count"], "properties": {"id": text, "count": {"type": "integer"}}},
            "inputs": anything,
            "results": {"type": "object", "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"}},
            "rows": {"type": "array", "items": anything},
            "remarks": texts,
            "assumptions": texts,
            "warnings": texts,
            "parts": {"type": "array", "items": {"$ref": "#"}},
            "derivations": {"type": "object", "additionalProperties": {"$ref": "#/$defs/derivation"}},
            "error": {
                "type": "object",
                "required": ["code", "message", "hint"],
                "properties": {
                    "code": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
                    "message": text,
                    "hint": {"type": ["string", "null"]},
                },
            },
        },
        "oneOf": [{"required": ["error"]}, {"required": ["inputs", "results", "assumptions", "warnings"]}],
        "allOf": of_commands(),
        "$defs": {
            "derivation": {
                "description": "A formula with its inputs, or a leaf with its origin.",
                "type": "object",
                "required": ["value", "unit"],
                "properties": {
                    "formula": text,
                    "substituted": text,
                    "value": {"type": ["number", "string", "boolean", "null"]},
                    "unit": text,
                    "ref": text,
                    "origin": text,
                    "inputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/derivation"}},
                },
            }
        },
    }
    return json.dumps(made, indent=1) + "\n"


def texts() -> dict[str, str]:
    """Every generated or refreshed file by its path from the root."""
    made = {
        "docs/formulas.md": formulas(),
        "docs/engines.md": policies(),
        "docs/data.md": sources_page(),
        "docs/json.md": keys(),
        "docs/envelope.schema.json": schema(),
        "docs/llmcalc.svg": picture(),
    }
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        name = path.relative_to(ROOT).as_posix()
        if name not in made:
            made[name] = refreshed(path.read_text(encoding="utf-8"))
    return made


if __name__ == "__main__":
    for name, content in texts().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            print(f"wrote {name}")
