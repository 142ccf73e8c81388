"""What people type. Expected values are arithmetic on the definitions of the units, and the course notes' own roundings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcalc.quiz.answers import DISPLAY, Unreadable, grade, judge_choice, judge_number, judge_points, readings


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("160 KiB", "B/token", 163840),
        ("160kib/token", "B/token", 163840),
        ("128 KiB a token", "B/token", 131072),
        ("163,840 B/token", "B/token", 163840),
        ("163 840 байт", "B/token", 163840),
        ("160 КиБ", "B/token", 163840),
        ("0.16 MB", "B", 160e3),
        ("1.6e5", "B", 160e3),
        ("1.6E+05 bytes", "B", 160e3),
        ("1.6*10^5", "B", 160e3),
        ("1.6 × 10⁵ B", "B", 160e3),
        ("1,280 kbit", "B", 160e3),
        ("0,67 ГБ", "B", 0.67e9),
        ("≈0.67GB", "B", 0.67e9),
        ("5.37 Gbit", "B", 671.25e6),
        ("2^30", "B", 2**30),
        ("7.8ms", "s", 7.8e-3),
        ("7800 us", "s", 7.8e-3),
        ("7.8 мс", "s", 7.8e-3),
        ("0.13 min", "s", 7.8),
        ("26/3.35 ms", "s", 26e-3 / 3.35),
        ("$0.39", "usd", 0.39),
        ("0.39 $", "usd", 0.39),
        ("39 cents", "usd", 0.39),
        ("39¢", "usd", 0.39),
        ("$0.39 per 1M tokens", "usd", 0.39),
        ("~130 tok/s", "tokens/s", 130),
        ("130 tokens per second", "tokens/s", 130),
        ("7.8k tokens/min", "tokens/s", 130),
        ("2 260 ток/с", "tokens/s", 2260),
        ("about 71 sequences", "sequences", 71),
        ("71", "sequences", 71),
        ("71 tokens", "tokens", 71),
        ("2k users", "sequences", 2000),
        ("8.19B", "params", 8.19e9),
        ("8.19 млрд", "params", 8.19e9),
        ("70%", "share", 0.7),
        ("2/3", "share", 2 / 3),
        ("0.7", "share", 0.7),
        ("4x", "ratio", 4),
        ("4×", "ratio", 4),
        ("в", "ratio", None),
        ("133 TFLOP", "FLOP", 133e12),
        ("0.133 PFLOPs", "FLOP", 133e12),
        ("295 FLOP/B", "FLOP/B", 295),
        ("3.58 J", "J", 3.58),
        ("−3 ms", "s", -3e-3),
        ("٣٢", "sequences", None),
        ("nan", "s", None),
        ("inf ms", "s", None),
        ("1e999", "s", None),
        ("9^9999", "sequences", None),
        ("1/0", "share", None),
        ("", "s", None),
        ("ms", "s", None),
        ("5 GB", "s", None),
        ("5 ms", "B", None),
        ("12 34", "sequences", None),
        ("1,2,3", "s", None),
        ("5 ms; rm -rf /", "s", None),
        ("0x10", "sequences", None),
        ("9" * 201, "sequences", None),
    ],
)
def test_readings(text: str, unit: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(Unreadable):
            readings(text, unit)
    else:
        assert readings(text, unit)[0] == pytest.approx(value, rel=1e-12)


def test_a_bare_letter_and_a_missing_unit_are_read_kindly() -> None:
    assert set(readings("160k", "B")) == {160e3, 163840}
    assert set(readings("7,812", "sequences")) == {7812, 7.812}
    assert 0.0142 in [pytest.approx(value) for value in readings("14.2", "s")]
    assert judge_number("14.2", 0.01417, "s").grade == "exact"
    assert judge_number("160k", 163840, "B/token").grade == "exact"


@pytest.mark.parametrize(
    ("text", "truth", "unit", "expected"),
    [  # the notes' printed roundings against the exact values beside them in hand arithmetic
        ("0.67 GB", 671088640, "B", "exact"),
        ("7.8 ms", 26e9 / 3.35e12, "s", "exact"),
        ("129 tok/s", 3.35e12 / 26e9, "tokens/s", "exact"),
        ("14.2 ms", 14.17159e-3, "s", "exact"),
        ("14 ms", 14.17159e-3, "s", "exact"),  # rounded right to two digits
        ("2260", 2258.04, "tokens/s", "exact"),
        ("15 ms", 14.17159e-3, "s", "close"),
        ("10 ms", 14.17159e-3, "s", "rough"),
        ("20 ms", 14.17159e-3, "s", "rough"),
        ("1.4 ms", 14.17159e-3, "s", "wrong"),
        ("28.34 ms", 14.17159e-3, "s", "wrong"),  # twice is a slip, not a rounding
        ("7.09 ms", 14.17159e-3, "s", "wrong"),
        ("-14.2 ms", 14.17159e-3, "s", "wrong"),
        ("0", 14.17159e-3, "s", "wrong"),
        ("71", 71, "sequences", "exact"),
        ("75", 71, "sequences", "close"),
        ("banana", 71, "sequences", "unreadable"),
    ],
)
def test_grades(text: str, truth: float, unit: str, expected: str) -> None:
    assert judge_number(text, truth, unit).grade == expected


def test_credit_and_slips() -> None:
    slips = ((819200, "the 40 query heads"), (81920, "two tensors"))
    assert judge_number("160 KiB", 163840, "B/token", slips).credit == 1
    assert judge_number("150 KiB", 163840, "B/token", slips).credit == 0.9
    assert judge_number("110 KiB", 163840, "B/token", slips).credit == 0.5
    mha = judge_number("800 KiB", 163840, "B/token", slips)
    assert (mha.grade, mha.credit, mha.slip) == ("wrong", 0.25, "the 40 query heads")
    assert judge_number("80 KiB", 163840, "B/token", slips).slip == "two tensors"
    assert judge_number("9 KiB", 163840, "B/token", slips).credit == 0


def test_a_right_answer_is_no_slip() -> None:
    assert judge_number("160 KiB", 163840, "B/token", ((163840, "never said"),)).slip == ""


@pytest.mark.parametrize("text", ["a", "A", "a)", "(a)", " a. ", "1", "а", "the weights", "THE W"])
def test_choices(text: str) -> None:
    assert judge_choice(text, "a", ("the weights", "the caches", "arithmetic")).grade == "exact"


@pytest.mark.parametrize(
    ("text", "grade_"),
    [("b", "wrong"), ("2", "wrong"), ("в", "wrong"), ("d", "unreadable"), ("9", "unreadable"), ("the", "unreadable"), ("", "unreadable")],
)
def test_other_choices(text: str, grade_: str) -> None:
    assert judge_choice(text, "a", ("the weights", "the caches", "arithmetic")).grade == grade_


def test_points() -> None:
    patterns = ("ttft", "cache|кэш", "quality|качеств")
    verdict, hits = judge_points("Split TTFT; the cache caps it", patterns)
    assert hits == (True, True, False) and verdict.credit == pytest.approx(2 / 3)
    assert judge_points("3", patterns)[0].credit == 1
    assert judge_points("99", patterns)[0].credit == 1
    assert judge_points("", patterns)[0].credit == 0


UNITS = [
    "B",
    "B/token",
    "s",
    "tokens/s",
    "usd",
    "FLOP",
    "FLOP/B",
    "J",
    "share",
    "ratio",
    "params",
    "sequences",
    "tokens",
    "experts",
    "bits",
]
WORDS = ("GiB", "ms", "tok/s", "$", "10^", "⁹", "²", "∞", "k", "млн", "КиБ", "\x00", "\ud800", "１", "½", "٣", "·", "per", "B")
PIECES = st.sampled_from([*"0123456789.,eE+-^/*×% \t_'", *WORDS])


@settings(max_examples=80, deadline=None)
@given(
    st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=25).map("".join)),
    st.sampled_from(UNITS),
    st.sampled_from([1e-9, 0.5, 71, 163840, 1e15]),
)
def test_nothing_that_can_be_typed_breaks_it(text: str, unit: str, truth: float) -> None:
    verdict = judge_number(text, truth, unit, ((truth / 2, "half"),))
    assert verdict.grade in ("exact", "close", "rough", "wrong", "unreadable")
    assert 0 <= verdict.credit <= 1
    assert judge_choice(text, "a", ("one", "two")).grade in ("exact", "wrong", "unreadable")
    assert 0 <= judge_points(text, ("one", "two"))[0].credit <= 1


@given(st.floats(min_value=1e-12, max_value=1e18), st.sampled_from(UNITS))
def test_a_number_written_out_in_full_is_exact(value: float, unit: str) -> None:
    assert judge_number(f"{value!r}", value, unit).grade == "exact"


@given(st.floats(min_value=1e-6, max_value=1e12), st.floats(min_value=1e-3, max_value=1e3))
def test_grades_are_symmetric_in_size(truth: float, factor: float) -> None:
    """Nearer is never worse."""
    order = ("exact", "close", "rough", "wrong")
    nearer = factor**0.5
    assert order.index(grade(truth * nearer, truth)) <= order.index(grade(truth * factor, truth)) or grade(truth * factor, truth) == "exact"


def test_what_a_bare_number_may_mean_is_what_people_leave_out() -> None:
    assert DISPLAY["s"] == (1.0, 1e-3)
