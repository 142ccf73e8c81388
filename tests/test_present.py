"""One report in every output format. A new format fails here until its expected text is written."""

from __future__ import annotations

import json

import pytest

from llmcalc.figures import Figure
from llmcalc.formulas import memory
from llmcalc.present import FORMATS, Column, Fact, Report, exact, render, shown

FIGURE = memory.kv_bytes_per_token.of(
    layers=Figure("layers", 36, "", "config.json"),
    kv_heads=Figure("kv_heads", 8, "", "config.json"),
    head_dim=Figure("head_dim", 128, "", "config.json"),
    bytes_per_element=Figure("bytes_per_element", 2, "B", "bf16"),
)
REPORT = Report(
    command="kv",
    title="KV cache of [bold]o/n",
    model={"id": "[bold]o/n"},
    inputs={"ctx_tokens": 1024},
    header=("ctx 1,024 tokens",),
    facts=(
        Fact("kv_bytes_per_token", "KV per token", 147456, "B/token", note="each"),
        Fact("unknown", "  what nobody knows", None, "B"),
        Fact("hidden", "hidden", 1, shown=False),
    ),
    columns=(Column("layers", "layers"), Column("kind", "kind"), Column("bytes", "bytes", "B")),
    rows=({"layers": 36, "kind": "full|x", "bytes": 1536},),
    assumptions=("bf16",),
    warnings=("a warning",),
    figures={"kv_bytes_per_token": FIGURE},
)

EXPECTED = {
    "table": """\
KV cache of [bold]o/n
ctx 1,024 tokens

    KV per token         144 KiB  147,456 B/token  each
      what nobody knows        –

    layers  kind       bytes
        36  full|x  1.50 KiB

  assumes bf16
""",
    "csv": """\
model,ctx_tokens,kv_bytes_per_token,unknown,hidden
[bold]o/n,1024,147456,,1
""",
    "markdown": """\
### KV cache of \\[bold\\]o/n

ctx 1,024 tokens

| | | exact | |
| :-- | --: | --: | :-- |
| KV per token | 144 KiB | 147,456 B/token | each |
| &emsp;what nobody knows | – |  |  |

| layers | kind | bytes |
| --: | :-- | --: |
| 36 | full\\|x | 1.50 KiB |

- assumes bf16
- warning: a warning
""",
    "json": {
        "schema": 1,
        "command": "kv",
        "model": {"id": "[bold]o/n"},
        "inputs": {"ctx_tokens": 1024},
        "results": {"kv_bytes_per_token": 147456, "unknown": None, "hidden": 1},
        "rows": [{"layers": 36, "kind": "full|x", "bytes": 1536}],
        "assumptions": ["bf16"],
        "warnings": ["a warning"],
    },
    "html": [
        "<h1>KV cache of [bold]o/n</h1>",
        '<tr><td>KV per token</td><td class="n"><b>144 KiB</b></td><td class="n d">147,456 B/token</td>',
        "<td class=n>1.50 KiB</td>",
        "<p>warning: a warning</p>",
    ],
}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format(name: str) -> None:
    text = render(REPORT, name)
    expected = EXPECTED[name]
    if isinstance(expected, dict):
        assert json.loads(text) == expected
        assert list(json.loads(text)) == list(expected), "the order of keys is stable"
    elif isinstance(expected, list):
        assert all(part in text for part in expected)
    elif name == "markdown":
        assert [line.rstrip() for line in text.splitlines()] == [line.rstrip() for line in expected.splitlines()]
    else:
        assert text == expected


def test_a_foreign_text_cannot_break_out_of_a_page() -> None:
    hostile = Report(command="x", title="<script>alert(1)</script>", facts=(Fact("k", "<b>", "</td><script>", ""),))
    page = render(hostile, "html")
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "<script>" not in render(hostile, "markdown")


def test_a_cell_that_a_spreadsheet_would_run_is_quoted() -> None:
    report = Report(command="x", title="t", columns=(Column("a", "a"),), rows=({"a": "=HYPERLINK(1)"}, {"a": -5}))
    assert render(report, "csv") == "a\n'=HYPERLINK(1)\n-5\n"


def test_not_a_number_is_null_with_a_warning() -> None:
    answer = json.loads(
        render(Report(command="x", title="t", facts=(Fact("bad", "bad", float("nan")), Fact("inf", "inf", float("inf")))), "json")
    )
    assert answer["results"] == {"bad": None, "inf": None}
    assert answer["warnings"] == ["bad: not a finite number", "inf: not a finite number"]


def test_cells() -> None:
    assert shown(True) == "yes" and shown(None) == "–" and shown("x") == "x"
    assert shown(0.0051, "s") == "5.10 ms" and shown(0.394, "usd") == "$0.39" and shown(8190735360, "params") == "8.19 B"
    assert shown(0.125, "percent") == "12.5%"
    assert exact(4831838208, "B") == "4,831,838,208 B" and exact(2, "B") == "" and exact(3.5, "B") == ""


def test_a_null_has_its_reason_for_those_who_read_keys() -> None:
    report = Report(
        command="x",
        title="t",
        facts=(Fact("a", "a", None), Fact("b", "b", None), Fact("said", "said", None), Fact("e", "e", 1)),
        columns=(Column("c", "c"), Column("d", "d")),
        rows=({"c": 1, "d": None}, {"c": None, "d": None}),
        warnings=("said: not known",),
        absent=(("b c", "nobody measured it"), ("e", "never"), ("", "it does not fit")),
    )
    assert json.loads(render(report, "json"))["warnings"] == ["said: not known", "b, c: nobody measured it", "a, d: it does not fit"]


WIDE = Report(
    command="x",
    title="t",
    columns=(Column("name", "name"), Column("why", "why", rank=2), Column("time", "time", "s", rank=3), Column("rate", "rate", rank=4)),
    rows=({"name": "first", "why": "because of this and that and of much else", "time": 0.0123, "rate": 123},),
)


def test_a_narrow_table_says_what_it_lacks_and_uses_the_room_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 26 columns `why` goes; `time` and `rate`, which went before it, come back. At 30 its text is short, and that is said."""
    monkeypatch.setenv("COLUMNS", "26")
    printed = render(WIDE, "table")
    assert [line.split() for line in printed.splitlines()[2:4]] == [["name", "time", "rate"], ["first", "12.30", "ms", "123"]]
    assert "not shown at this width: why" in " ".join(printed.split()) and "cut short" not in printed
    monkeypatch.setenv("COLUMNS", "30")
    printed = render(WIDE, "table")
    assert "because of this an…" in printed and "12.30" not in printed
    assert "not shown at this width: time, rate; cut short: why" in " ".join(printed.split())
    monkeypatch.setenv("COLUMNS", "80")
    assert "not shown" not in render(WIDE, "table") and "cut short" not in render(WIDE, "table")


def test_a_long_text_among_numbers_cuts_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands beside them, or is short itself."""
    facts = (
        Fact("usd", "cost per month", 34456, "usd", note="730 hours"),
        Fact("lever", "next lever", "prefix cache for half of the prompt"),
    )
    report = Report(command="x", title="t", facts=facts)
    printed = render(report, "table").splitlines()[2:]
    assert [" ".join(line.split()) for line in printed] == [
        "cost per month $34,456 730 hours",
        "next lever prefix cache for half of the prompt",
    ]
    monkeypatch.setenv("COLUMNS", "40")
    assert [" ".join(line.split()) for line in render(report, "table").splitlines()[2:]] == [
        "cost per month $34,456",
        "next lever prefix cache for ha…",
    ]
