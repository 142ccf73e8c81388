"""Results of load generators, in the shapes that they are written in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmcalc import loadgen
from llmcalc.cli import main
from llmcalc.errors import LlmcalcError

VLLM = {
    "date": "20261120-101112", "backend": "openai-chat", "model_id": "meta-llama/Meta-Llama-3-8B", "num_prompts": 200, "request_rate": "inf",
    "burstiness": 1.0, "max_concurrency": 32, "duration": 50.0, "completed": 200, "total_input_tokens": 200_000, "total_output_tokens": 40_000,
    "request_throughput": 4.0, "output_throughput": 800.0, "mean_ttft_ms": 180.0, "median_ttft_ms": 150.0, "p99_ttft_ms": 900.0,
    "mean_tpot_ms": 31.0, "median_tpot_ms": 30.0, "p95_tpot_ms": 36.0, "median_itl_ms": 24.0, "median_e2el_ms": 6200.0,
}  # fmt: skip
SPREAD = {"mean": 110.0, "median": 100.0, "std_dev": 5.0, "percentiles": {"p50": 100.0, "p90": 140.0, "p95": 150.0, "p99": 190.0}}
GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 1},
    "args": {"model": "meta-llama/Meta-Llama-3-8B"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 10}},
            "metrics": {
                "requests_per_second": {"successful": {"mean": 2.5}, "total": {"mean": 2.6}},
                "time_to_first_token_ms": {"successful": SPREAD},
                "time_per_output_token_ms": {"successful": {"mean": 99.0}},
                "inter_token_latency_ms": {"successful": {**SPREAD, "mean": 12.0, "median": 11.0}},
                "request_latency": {"successful": {"mean": 4.0, "median": 3.9, "percentiles": {"p95": 5.0}}},
                "prompt_token_count": {"successful": {"mean": 512.0}},
                "output_token_count": {"successful": {"mean": 256.0}},
            },
        },
        {
            "config": {"strategy": {"type_": "constant", "rate": 7.0}},
            "metrics": {"requests_per_second": {"successful": {"mean": 6.9}}, "time_to_first_token_ms": {"successful": SPREAD}},
        },
    ],
}
AIPERF = {
    "schema_version": "1.3",
    "request_throughput": {"unit": "requests/sec", "avg": 0.8},
    "request_latency": {"unit": "ms", "avg": 2413.5, "p50": 2431.75, "p95": 2438.5, "p99": 2439.45},
    "time_to_first_token": {"unit": "ms", "avg": 195.84, "p50": 175.05, "p99": 253.45},
    "inter_token_latency": {"unit": "sec", "avg": 0.0352, "p50": 0.03473},
    "input_sequence_length": {"unit": "tokens", "avg": 256.0},
    "output_sequence_length": {"unit": "tokens", "avg": 64.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 52.69},
    "input_config": {"endpoint": {"model_names": ["org/name"]}, "loadgen": {"concurrency": 2, "request_rate": None}},
}


def written(tmp_path: Path, content: Any, name: str = "result.json") -> str:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_vllm(tmp_path: Path) -> None:
    (run,) = loadgen.read(written(tmp_path, VLLM))
    assert (run.concurrency, run.rate, run.prompt, run.output, run.model) == (32, 4.0, 1000, 200, "meta-llama/Meta-Llama-3-8B")
    assert run.times == pytest.approx(
        {"ttft_mean_s": 0.18, "ttft_p50_s": 0.15, "ttft_p99_s": 0.9, "tpot_mean_s": 0.031, "tpot_p50_s": 0.03, "tpot_p95_s": 0.036,
         "itl_p50_s": 0.024, "e2e_p50_s": 6.2}
    )  # fmt: skip
    # Appended results, at a rate: what came, not what was served.
    open_loop = {**VLLM, "request_rate": 5.0, "max_concurrency": None}
    both = loadgen.read(written(tmp_path, json.dumps(VLLM) + "\n" + json.dumps(open_loop) + "\n", "appended.jsonl"))
    assert [(each.rate, each.concurrency) for each in both] == [(4.0, 32), (5.0, None)]


def test_guidellm(tmp_path: Path) -> None:
    closed, constant = loadgen.read(written(tmp_path, GUIDELLM, "benchmarks"))  # whatever the file is called
    assert (closed.concurrency, closed.rate, closed.prompt, closed.output) == (10, 2.5, 512, 256)
    assert (closed.times["ttft_p50_s"], closed.times["tpot_p50_s"], closed.times["e2e_p95_s"]) == pytest.approx((0.1, 0.011, 5.0))
    assert (constant.concurrency, constant.rate) == (None, 7.0)


def test_aiperf(tmp_path: Path) -> None:
    (run,) = loadgen.read(written(tmp_path, AIPERF))
    assert (run.concurrency, run.rate, run.model) == (2, 0.8, "org/name")
    assert (run.times["tpot_p50_s"], run.times["ttft_p99_s"], run.times["e2e_mean_s"]) == pytest.approx((0.03473, 0.25345, 2.4135))


def test_rows_of_a_measurement_file(tmp_path: Path) -> None:
    rows = loadgen.rows(written(tmp_path, VLLM), loadgen.Told(device="h100-sxm"))
    named = {row["metric"]: row for row in rows}
    assert named["tpot_p50"]["value"] == pytest.approx(0.03)
    assert named["batch_tokens_per_s"]["value"] == 800.0
    assert {(row["model"], row["device"], row["concurrency"], row["prompt"], row["output"]) for row in rows} == {
        ("meta-llama/Meta-Llama-3-8B", "h100-sxm", 32, 1000, 200)
    }


def without(document: dict[str, Any], *path: Any) -> Any:
    copied: Any = json.loads(json.dumps(document))
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return copied


BAD = {
    "nothing": ({}, "no load generator that is known"),
    "empty": ("", "has no load"),
    "no JSON": ('{"completed": ', "is not JSON"),
    "deep": ("[" * 100_000, "is not JSON"),
    "a number": ("[3]", "is not an object"),
    "vllm without throughput": (without(VLLM, "request_throughput"), "request_throughput is missing"),
    "vllm without times": ({key: VLLM[key] for key in ("completed", "request_throughput")}, "median_ttft_ms is missing"),
    "nobody was served": ({**VLLM, "completed": 0}, "completed is 0"),
    "a word for a time": ({**VLLM, "median_tpot_ms": "fast"}, "median_tpot_ms 'fast' is not a number"),
    "a negative time": ({**VLLM, "median_tpot_ms": -1}, "median_tpot_ms -1"),
    "half a user": ({**VLLM, "max_concurrency": 1.5}, "max_concurrency 1.5 is not a whole number"),
    "not a number": (json.dumps({**VLLM, "mean_ttft_ms": float("nan")}), "mean_ttft_ms nan"),
    "guidellm without metrics": (without(GUIDELLM, "benchmarks", 0, "metrics"), "benchmarks[0].metrics is missing"),
    "guidellm without rates": (without(GUIDELLM, "benchmarks", 1, "metrics", "requests_per_second"), "benchmarks[1].metrics.requests_per"),
    "guidellm's list": ({"benchmarks": 3}, "benchmarks is not a list"),
    "aiperf without throughput": (without(AIPERF, "request_throughput"), "request_throughput is missing"),
    "aiperf without a unit": (without(AIPERF, "time_to_first_token", "unit"), "time_to_first_token.unit is missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_result_names_the_field(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = BAD[name]
    path = written(tmp_path, content)
    with pytest.raises(LlmcalcError) as caught:
        loadgen.read(path)
    assert said in caught.value.message
    asked = [
        "plan",
        "-m",
        "meta-llama/Meta-Llama-3-8B",
        "-d",
        "h100-sxm",
        "--tp",
        "1",
        "--rate",
        "1",
        "--prompt",
        "1k",
        "--output-tokens",
        "9",
    ]
    assert main([*asked, "--measured", path]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 2 and "Hint: " in error and len(error) < 600


def test_plan_compares_a_closed_loop_with_a_closed_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "plan",
        "-m",
        "meta-llama/Meta-Llama-3-8B",
        "-d",
        "h100-sxm",
        "--tp",
        "1",
        "--rate",
        "2",
        "--prompt",
        "1000",
        "--engine",
        "vllm",
    ]
    assert main([*asked, "--output-tokens", "200", "--replicas", "1", "--measured", written(tmp_path, VLLM), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["measured_tpot_p50_s"] == pytest.approx(0.03)
    assert row["tpot_p50_error"] == pytest.approx(row["tpot_p50_s"] / 0.03 - 1)
    assert (
        main(["simulate", *asked[1:5], "--engine", "vllm", "--concurrency", "32", "--prompt", "1000", "--output-tokens", "200", "--json"])
        == 0
    )
    alone = json.loads(capsys.readouterr().out)["results"]
    assert row["tpot_p50_s"] == pytest.approx(alone["tpot_p50_s"], rel=0.1)
