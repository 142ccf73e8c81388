"""One report in every output format. A new format fails here until its expected text is written."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from llmcalc import __version__, present
from llmcalc.cli import main
from llmcalc.errors import UsageError
from llmcalc.figures import Figure
from llmcalc.formulas import memory
from llmcalc.present import (
    FORMATS,
    PICTURES,
    Axis,
    Chart,
    Column,
    Fact,
    Format,
    Picture,
    Report,
    Series,
    carries,
    drawn,
    exact,
    format_of,
    render,
    shown,
)
from llmcalc.present.explain import lines
from llmcalc.present.layout import content, lay_out

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
    remarks=("a remark",),
    figures={"kv_bytes_per_token": FIGURE},
)

EXPECTED = {
    "table": """\
KV cache of [bold]o/n
ctx 1,024 tokens
a remark

    KV per token         144 KiB  147,456 B/token  each
      what nobody knows        –

    layers  kind       bytes
        36  full|x  1.50 KiB

  assumes bf16
""",
    "csv": """\
layers,kind,bytes
36,full|x,1536
""",
    "markdown": """\
### KV cache of \\[bold\\]o/n

ctx 1,024 tokens

a remark

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
        "remarks": ["a remark"],
        "assumptions": ["bf16"],
        "warnings": ["a warning"],
    },
    "html": [
        "<h1>KV cache of [bold]o/n</h1>",
        '<tr><td>KV per token</td><td class="n"><b>144 KiB</b></td><td class="n d">147,456 B/token</td>',
        "<td class=n>1.50 KiB</td>",
        "<p>a remark</p>",
        '<p class="d">assumes bf16</p>',
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


CHART = Chart("c", Axis("x", "x-axis"), Axis("y", "y-axis"), (Series("one", ({"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0})),))


@pytest.mark.parametrize("name", FORMATS | PICTURES)
def test_a_format_carries_what_it_says(name: Format) -> None:
    """And nothing more: what it does not carry is told elsewhere (warnings) or not made (charts)."""
    carried = carries(name)
    assert all(format_of("", f"x{ending}") == name for ending in carried.endings) and carried.endings
    said = replace(REPORT, facts=(Fact("key", "label", 12345, note="anote"),), columns=(), rows=(), warnings=("awarning",))
    rows = replace(REPORT, facts=(), columns=(Column("c", "column"),), rows=({"c": 54321},), warnings=("awarning",))
    drawn = replace(rows, chart=CHART)
    if name == "png":
        with pytest.raises(UsageError):
            render(said, name)
        assert not (carried.facts or carried.rows or carried.warnings) and carried.chart
        return
    assert ("12345" in str(render(said, name)).replace(",", "")) == carried.facts
    assert ("54321" in str(render(rows, name)).replace(",", "")) == carried.rows
    assert ("awarning" in str(render(said, name))) == ("awarning" in str(render(rows, name))) == carried.warnings
    if name not in ("html", "svg"):  # those two draw with an extra: tests/test_pictures.py
        assert ("x-axis" in str(render(drawn, name))) == carried.chart
        assert ("awarning" in str(render(drawn, name))) == carried.warnings


def test_every_module_of_a_format_is_in_the_list() -> None:
    modules = {path.stem for path in Path(present.__file__).parent.glob("as_*.py")} | {"terminal"}
    assert set((FORMATS | PICTURES).values()) == modules, "add the module to FORMATS or PICTURES in present/__init__.py, and to Format"
    assert set(get_args(Format)) == set(FORMATS | PICTURES)


def test_a_format_without_warnings_sends_them_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    for name in FORMATS:
        assert main(["kv", "-m", "Qwen/Qwen3-8B", "-c", "999k", "-f", name]) == 0
        out, err = capsys.readouterr()
        assert ("own maximum" in err) == (not carries(name).warnings) and ("own maximum" in out) == carries(name).warnings, name


def test_a_page_says_when_and_by_what_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")  # 2023-11-14
    assert f"llmcalc {__version__} · 2023-11-14 · llmcalc kv -m &lt;x&gt;</p>" in str(
        render(replace(REPORT, typed="llmcalc kv -m <x>"), "html")
    )


@pytest.mark.parametrize(("whole", "left", "widths"), [(10.0, 3.0, [239.2, 179.4, 179.4]), (5.0, -2.0, [341.7, 256.3])])
def test_a_ledger_is_drawn_to_scale(whole: float, left: float, widths: list[float]) -> None:
    """598 pixels for the whole or, where more is taken, for what is taken: 4 of 10, 3 of 10; 4 of 7, 3 of 7."""
    rows = tuple({"what": what, "size": size} for what, size in (("all", whole), ("a", -4.0), ("b", -3.0), ("left", left)))
    drawing = drawn.picture(Report(command="x", title="t", rows=rows, picture=Picture("size", "s", "", (("what", ""),), stacked=True)))
    assert [float(wide) for wide in re.findall(r'width="([\d.]+)" height="34"', drawing)] == pytest.approx(widths, abs=0.1)
    assert ("<line" in drawing) == (left < 0)


def test_bars_are_drawn_to_scale_and_the_chosen_one_is_named() -> None:
    rows = ({"what": "a", "size": 2.0, "yes": True}, {"what": "<b>", "size": 4.0}, {"what": "none", "size": None})
    drawing = drawn.picture(Report(command="x", title="t", rows=rows, picture=Picture("size", "s", "", (("what", ""),), "yes")))
    one, two = (float(wide) for wide in re.findall(r'width="([\d.]+)" height="17"', drawing))
    assert two == pytest.approx(2 * one, rel=1e-3) and "a ✓" in drawing and "<b>" not in drawing and "none" not in drawing


def test_a_foreign_text_cannot_break_out_of_a_page() -> None:
    hostile = Report(command="x", title="<script>alert(1)</script>", facts=(Fact("k", "<b>", "</td><script>", ""),))
    page = render(hostile, "html")
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "<script>" not in render(hostile, "markdown")


def test_a_cell_that_a_spreadsheet_would_run_is_quoted() -> None:
    report = Report(
        command="x",
        title="t",
        columns=(Column("a", "a"),),
        rows=({"a": "=HYPERLINK(1)"}, {"a": "-2+3"}, {"a": "+1"}, {"a": "@x"}, {"a": -5}),
    )
    assert render(report, "csv") == "a\n'=HYPERLINK(1)\n'-2+3\n'+1\n'@x\n-5\n"


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


def test_a_count_of_parameters_says_so_when_it_is_worked() -> None:
    total = Figure("params", 8_190_735_360, "params", inputs=(Figure("a", 8_190_735_360, "params", "config.json"),))
    worked = lines(replace(REPORT, figures={"params": total}))
    assert worked[0] == "params = a = 8,190,735,360 params = 8.19 B"


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


def test_text_columns_share_what_is_free_and_take_no_more() -> None:
    """Two texts of 30 in a line that leaves 20 over: the first takes them, the second stays at its least, and the line is full."""
    columns = [Column("a", "a", rank=1), Column("b", "b", rank=1)]
    told = content(columns, [{"a": "x" * 30, "b": "y" * 30}])
    laid = lay_out(told, width=2 + 18 + 2 + 18 + 2 + 8)
    assert laid.widths == {"a": 26, "b": 18} and laid.free == 0


@pytest.mark.parametrize(
    "width, kept, gap",
    [
        (29, ["name", "why", "time", "rate"], 2),
        (28, ["name", "why", "time"], 2),
        (22, ["name", "why"], 2),
        (16, ["name", "time"], 2),  # `why` went after it and left room
        (9, ["name"], 2),
        (8, ["name"], 1),
    ],
)
def test_columns_go_by_rank_until_the_rest_has_room(width: int, kept: list[str], gap: int) -> None:
    """name 5 and why 6 as they are, time 4, rate 4; two spaces behind each and two before the table."""
    columns = [Column("name", "name"), Column("why", "why", rank=1), Column("time", "time", rank=2), Column("rate", "rate", rank=3)]
    laid = lay_out(content(columns, [{"name": "first", "why": "reason", "time": 7, "rate": 9}]), width)
    assert [column.key for column in laid.columns] == kept and laid.gap == gap
    assert 2 + sum(laid.gap + each for each in laid.widths.values()) + laid.free == width


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
