"""The public names load lazily and do what the commands do."""

from __future__ import annotations

import subprocess
import sys

import llmcalc


def test_every_public_name_resolves() -> None:
    for name in llmcalc.__all__:
        assert getattr(llmcalc, name) is not None
    assert set(llmcalc.__all__) <= set(dir(llmcalc))


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, llmcalc; print(sorted(m for m in sys.modules if m.startswith(('llmcalc.', 'typer', 'rich', 'pydantic'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_plain_numbers() -> None:
    assert llmcalc.kv_bytes_per_token(layers=36, kv_heads=8, head_dim=128, bytes_per_element=2) == 147456
    assert llmcalc.weight_bytes(params=8190735360, bits_per_weight=16) == 16381470720
    assert llmcalc.cost_per_million(usd_per_hour=2.5, tokens_per_s=700, utilization=1) == 2.5 / (700 * 3600) * 1e6


def test_nouns() -> None:
    model = llmcalc.load_model("meta-llama/Meta-Llama-3-8B")
    plan = llmcalc.deploy(model, "h100-sxm")
    assert llmcalc.estimate_fit(model, plan, ctx=8192).results["max_batch"] == 59  # the course notes
    step = llmcalc.estimate_decode(model, plan, ctx=8192, batch=32).results["step_time_s"]
    assert abs(step - 15.05e-3) < 0.05e-3
    assert llmcalc.deploy(model, "2x rtx-4090").tp == 2
