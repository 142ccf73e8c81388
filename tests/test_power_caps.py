"""Speeds under a limit of power, against club-3090's sweeps of May 2026 (docs/img of @4a29ab5: llama.cpp; the limit over none)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmcalc import api, hardware
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import step
from llmcalc.plan import Deployment, Workload

DENSE, MIXTURE = ("Qwen/Qwen3.6-27B", "ud_q3_k_xl"), ("Qwen/Qwen3.6-35B-A3B", "ud_q4_k_xl")


@pytest.mark.parametrize(
    ("what", "device", "watts", "prompt", "share"),
    [
        (DENSE, "rtx-3090", 250, 0, 25.17 / 34.67),
        (DENSE, "rtx-3090", 280, 0, 30.77 / 34.67),
        (DENSE, "rtx-3090", 240, 8192, 855.79 / 1050.13),
        (MIXTURE, "rtx-3090", 250, 0, 127.16 / 136.55),
        (MIXTURE, "rtx-3090", 200, 0, 104.09 / 136.55),
        (MIXTURE, "rtx-3090", 240, 8192, 2356.7 / 2801.4),
        (DENSE, "rtx-4090", 250, 0, 46.37 / 51.96),
        (DENSE, "rtx-4090", 320, 0, 50.76 / 51.96),
    ],
)
def test_a_limit_slows_as_measured(what: tuple[str, str], device: str, watts: float, prompt: int, share: float) -> None:
    """Between the points that the profiles hold, and for a mixture, whose own curve they do not hold."""
    model = api.load_model(what[0])
    free = api.deploy(model, device, weights=what[1], engine="llama.cpp")
    capped = replace(free, device=hardware.limited(free.device, watts))

    def seconds(plan: Deployment) -> float:
        if prompt:
            return float(step.reading(model, plan, prompt).value)
        return float(step.step(model, plan, Workload(2048, 1), "expected").mid_s)

    assert seconds(free) / seconds(capped) == pytest.approx(share, rel=0.12)


def test_no_more_is_drawn_than_the_limit() -> None:
    capped = hardware.limited(hardware.load("rtx-3090"), 250)
    assert capped.power_most_w == 250
    assert hardware.limited(hardware.load("rtx-3090"), 390).power_most_w == 350


@pytest.mark.parametrize(("device", "watts"), [("l4", 40), ("rtx-3090", 189), ("rtx-3090", 391)])
def test_a_limit_that_nobody_measured_is_refused(device: str, watts: float) -> None:
    with pytest.raises(LlmcalcError) as caught:
        hardware.limited(hardware.load(device), watts)
    assert caught.value.code == "bad-power-cap"
