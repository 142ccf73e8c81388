"""Pictures: the terminal's, files, and the interactive page in a real browser."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from test_terminals import told

from llmcalc.cli import main
from llmcalc.present import Axis, Chart, Mark, Series, plots, vega

LLAMA = "meta-llama/Meta-Llama-3-8B"
FRONT = [
    "pareto",
    "-m",
    LLAMA,
    "-d",
    "h100-sxm,h200-sxm,mi300x",
    "-c",
    "8k",
    "--weights",
    "auto,fp8",
    "--max-tpot",
    "10ms",
    "--mark",
    "chat=20ms",
]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SVG = "{http://www.w3.org/2000/svg}"


# ---- the terminal -----------------------------------------------------------------------------------------------------


def test_a_front_fits_its_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = (40, 80, 120)
    found = told(
        shlex.join(FRONT), monkeypatch, *({"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb", "LINES": "100"} for width in widths)
    )
    for width, (text, _) in zip(widths, found, strict=True):
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        assert all(name in text for name in ("A h100-sxm", "B h200-sxm", "C mi300x", "1 chosen", "2 chat", "time per output token"))
        canvas = [line for line in lines if re.match(r"\s*[$.\d]*[┤│]", line)]
        assert len(canvas) == (11 if width < 60 else 16)
        assert sum("⠀" < mark <= "⣿" for line in canvas for mark in line) > 20, "braille dots"
        assert all(sum(letter in line for line in canvas) >= 1 for letter in "ABC12")


def test_an_encoding_without_braille_gets_ascii(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    chart = Chart(
        "t",
        Axis("x", "across", "s"),
        Axis("y", "up", "usd"),
        (Series("one", ({"x": 0.001, "y": 1.0}, {"x": 0.1, "y": 0.1})), Series("two", ({"x": 0.01, "y": 10.0},))),
        (Mark("here", 0.1, 0.1),),
    )
    lines = list(plots.lines(chart, 40, False, False))
    assert "\n".join(lines).isascii()
    body = [line.split("|")[-1].split("+")[-1] for line in lines if "|" in line or "+" in line]
    placed = {mark: (row, line.index(mark)) for row, line in enumerate(body) for mark in "AB1" if mark in line}
    # x doubles in decades from A over B to 1, and B is the highest
    assert placed["A"][1] < placed["B"][1] < placed["1"][1]
    assert placed["B"][0] < placed["A"][0] < placed["1"][0]
    assert any("10 ms" in line for line in lines) and any("$1" in line for line in lines)


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    chart = Chart("t", Axis("x", "x"), Axis("y", "y"), (Series("one", ({"x": 1.0, "y": 1.0},)), Series("two", ({"x": 2.0, "y": 3.0},))))
    assert "\x1b[" in "".join(plots.lines(chart, 60, True, True))
    assert "\x1b" not in "".join(plots.lines(chart, 60, False, True))


@pytest.mark.parametrize(("low", "high"), [(-3, -2.9), (-3, 3), (0, 0.3), (1.99, 2.01)])
def test_ticks_are_round_and_few(low: float, high: float) -> None:
    found = plots.ticks(low, high, 5)
    assert len(found) <= 5
    assert all(10**low <= value * 1.0001 and value <= 10**high * 1.0001 for value in found)


def test_the_roofline(capsys: pytest.CaptureFixture[str]) -> None:
    """H100: 989.4e12 / 3.35e12 = 295 FLOP/B. One sequence: 2 x 7.505e9 FLOP over 17.134e9 B = 0.876; 133 ms for a prompt of 8k."""
    assert main(["roofline", "-m", LLAMA, "-d", "h100-sxm", "-c", "8k", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["ridge_point_flops_per_byte"] == pytest.approx(295, abs=0.5)
    rows = {(row["phase"], row["batch"], row["tokens"]): row for row in answer["rows"]}
    one = rows["decode", 1, 8192]
    assert one["intensity_flops_per_byte"] == pytest.approx(0.876, abs=5e-4)
    assert one["flops_per_s"] == pytest.approx(one["intensity_flops_per_byte"] * 3.35e12, rel=1e-12), "on the slope"
    assert rows["decode", 59, 8192]["bound"] == "memory-kv"
    prompt = rows["prefill", 1, 8192]
    assert prompt["time_s"] == pytest.approx(0.133, abs=0.0005) and prompt["share_of_peak"] == pytest.approx(1, abs=0.01)
    assert all(row["flops_per_s"] <= row["roof_flops_per_s"] * (1 + 1e-9) for row in answer["rows"])


def test_the_roofline_of_two(capsys: pytest.CaptureFixture[str]) -> None:
    """Twice the roof and twice the slope: the ridge stays."""
    assert main(["roofline", "-m", LLAMA, "-d", "2x h100-sxm", "-b", "1,64", "--prompt", "2k", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["results"]["peak_flops_per_s"] == 2 * 989.4e12 and answer["results"]["bandwidth_bytes_per_s"] == 6.7e12
    assert answer["results"]["ridge_point_flops_per_byte"] == pytest.approx(295, abs=0.5)
    assert [(row["phase"], row["batch"], row["tokens"]) for row in answer["rows"]] == [
        ("decode", 1, 8192),
        ("decode", 64, 8192),
        ("prefill", 1, 2048),
    ]


def test_the_roofline_needs_a_compute_rate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["roofline", "-m", LLAMA, "-d", "cpu-xeon-6980p 768GB"]) == 2
    assert "no known compute rate" in capsys.readouterr().err


# ---- files --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def extra() -> None:
    pytest.importorskip("altair", reason="the extra `plots` is not installed")
    pytest.importorskip("vl_convert", reason="the extra `plots` is not installed")


@pytest.mark.usefixtures("extra")
@pytest.mark.parametrize("command", [FRONT, ["roofline", "-m", LLAMA, "-d", "h100-sxm"]])
def test_svg_and_png(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]) -> None:
    svg, png = tmp_path / "front.svg", tmp_path / "front.png"
    assert main([*command, "-o", str(svg)]) == 0 and (command is not FRONT or main([*command, "-o", str(png)]) == 0)
    out, _ = capsys.readouterr()
    assert out == ""
    root = ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    said = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    wanted = (
        ("h100-sxm", "mi300x", "chosen", "chat", "USD per 1M output tokens", "[ms]")
        if command is FRONT
        else ("decode", "prefill", "TFLOP/s", "ridge")
    )
    assert all(word in said for word in wanted), said
    head = png.read_bytes()[:24] if command is FRONT else b""
    assert not head or (head[:8] == b"\x89PNG\r\n\x1a\n" and min(struct.unpack(">II", head[16:24])) > 700)


def test_without_the_extra_there_is_a_hint(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vega, "find_spec", lambda name: None)
    assert main([*FRONT, "-o", str(tmp_path / "front.svg")]) == 1
    err = capsys.readouterr().err
    assert "pictures in files need altair and vl-convert-python" in err and "llmcalc[plots]" in err
    assert not list(tmp_path.iterdir())


def test_a_page_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vega, "find_spec", lambda name: None)
    assert main([*FRONT, "-o", str(tmp_path / "front.html")]) == 0
    text = (tmp_path / "front.html").read_text(encoding="utf-8")
    assert '<svg class="drawn"' in text and text.count("<circle") > 5 and "<script" not in text


def test_what_has_no_picture_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["kv", "-m", LLAMA, "-o", str(tmp_path / "kv.png")]) == 2
    assert "kv has nothing to draw" in capsys.readouterr().err
    assert main(["pareto", "-m", LLAMA, "-d", "rtx-3060-12", "-o", str(tmp_path / "front.png")]) == 2
    assert "pareto has nothing to draw" in capsys.readouterr().err


# ---- the page, in a browser -----------------------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path: Path, extra: None) -> Iterator[tuple[Any, list[str], list[str]]]:
    """The front's page from file://, with what the browser complained about and asked for."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, so the page is not opened in a browser")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed, so the page is not opened in a browser")
    path = tmp_path / "front.html"
    assert main([*FRONT, "-o", str(path)]) == 0
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 1000})
        complaints: list[str] = []
        requests: list[str] = []
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda problem: complaints.append(str(problem)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(path.as_uri())
        tab.wait_for_function("window.view !== undefined")
        yield tab, complaints, requests
        browser.close()


def test_the_page_in_a_browser(page: tuple[Any, list[str], list[str]]) -> None:
    tab, complaints, requests = page
    points = tab.locator("#chart .mark-symbol.role-mark path")
    everything = points.count()
    # The configuration under the pointer.
    points.nth(3).hover()
    tip = tab.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    told = tip.inner_text()
    assert "h100-sxm" in told and "batch" in told and "fp8" in told and "$" in told and " ms" in told
    # The legend filters.
    tab.locator("#chart .role-legend-label text", has_text="mi300x").click()
    tab.wait_for_function(f"document.querySelectorAll('#chart .mark-symbol.role-mark path').length < {everything}")
    assert 2 < points.count() < everything
    # The table sorts, numbers as numbers.
    batches = "Array.from(document.querySelectorAll('#rows tbody tr')).map(r => Number(r.cells[{}].dataset.v))"
    heads = [text.strip() for text in tab.locator("#rows thead th").all_inner_texts()]
    column = heads.index("batch")
    tab.locator("#rows thead th button", has_text="batch").click()
    values = tab.evaluate(batches.format(column))
    assert values == sorted(values) and max(values) > 100
    tab.locator("#rows thead th button", has_text="batch").click()
    assert tab.evaluate(batches.format(column)) == sorted(values, reverse=True)
    assert tab.locator("#rows thead th[aria-sort=descending]").count() == 1
    # Everything is in the file.
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == [] and len(requests) == 1


@pytest.mark.usefixtures("extra")
def test_a_page_is_one_file_and_cannot_be_broken_out_of(tmp_path: Path) -> None:
    from llmcalc.present import Column, Report, page

    hostile = "</script><script>alert(1)</script>"
    chart = Chart(hostile, Axis("x", "x"), Axis("y", "y"), (Series(hostile, ({"x": 1, "y": 2, "n": hostile},)),), (Mark(hostile, 1, 2),))
    report = Report(
        command="x", title=hostile, columns=(Column("n", "n"),), rows=({"n": hostile},), warnings=(f"awarning {hostile}",), chart=chart
    )
    text = page.render(report)
    assert "<p>warning: awarning &lt;/script" in text
    assert "<script>alert" not in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
