"""One's own measured rows: everything that can be answered is, by the command that it describes; nothing stops at one bad row."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from llmcalc import accuracy, measured, own
from llmcalc.cli import main
from llmcalc.errors import LlmcalcError

ROW = {"id": "a", "model": "meta-llama/Llama-3.1-8B-Instruct", "device": "h100-sxm", "engine": "vllm", "weights": "bf16"}


def run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*args, "--json"]) == 0, capsys.readouterr().out
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def results(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    found: dict[str, Any] = run(capsys, *args)["results"]
    return found


PLACED = ("-m", ROW["model"], "-d", "h100-sxm", "--engine", "vllm", "--weights", "bf16")
SHAPE = ("--prompt", "1000", "--output-tokens", "200")


@pytest.mark.parametrize(
    ("more", "command", "key"),
    [
        ({"metric": "stream_tokens_per_s", "ctx": 2000, "value": 150}, ("decode", "-c", "2000"), "expected_step_time_s"),
        (
            {"metric": "tpot_mean", "concurrency": 16, "prompt": 1000, "output": 200, "value": 0.01},
            ("decode", "-c", "1100", "-b", "16", *SHAPE),
            "expected_step_time_s",
        ),
        ({"metric": "ttft_p95", "rate": 2, "prompt": 1000, "output": 200, "value": 0.1}, ("simulate", "--rate", "2", *SHAPE), "ttft_p95_s"),
        ({"metric": "tpot_p50", "rate": 2, "prompt": 1000, "output": 200, "value": 0.1}, ("simulate", "--rate", "2", *SHAPE), "tpot_p50_s"),
        (
            {"metric": "e2e_p99", "concurrency": 8, "prompt": 1000, "output": 200, "value": 2},
            ("simulate", "--concurrency", "8", *SHAPE),
            "e2e_p99_s",
        ),
        (
            {"metric": "output_tokens_per_s", "concurrency": 8, "prompt": 1000, "output": 200, "value": 900},
            ("simulate", "--concurrency", "8", *SHAPE),
            "tokens_per_s",
        ),
    ],
    ids=lambda each: each.get("metric") if isinstance(each, dict) else None,
)
def test_the_number_of_the_command(more: dict[str, Any], command: tuple[str, ...], key: str, capsys: pytest.CaptureFixture[str]) -> None:
    (point,) = own.answered([{**ROW, **more}]).points
    args = (*command, *PLACED)
    if command[0] == "simulate":
        args = (*args, "--requests", str(own.SIMULATED))
    assert point.predicted == pytest.approx(results(capsys, *args)[key], rel=1e-9)


def test_bundled_rows_say_what_decode_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of one stream and of static batches, of every class, through the command line."""
    rows = [
        row
        for row in accuracy.bundled()
        if measured.plain(row["metric"]) in ("stream_tokens_per_s", "batch_tokens_per_s", "tpot", "itl")
        and not any(row.get(key) for key in ("backend", "burst", "steady", "dp", "rate", "host"))
        and row.get("engine") not in ("exllamav3", *measured.LIKE)
    ]
    for row in random.Random(3).sample(rows, 25):
        asked = measured.ask(row, measured.model_of(row["model"]))
        work, plan = asked.work, asked.plan
        if plan.engine.release or work.ctx != int(work.ctx):
            continue
        args = ["-c", str(int(work.ctx)), "-b", str(int(work.batch)), "--weights", row.get("weights") or "auto"]
        args += ["--kv-dtype", plan.kv.name, "--engine", plan.engine.name]
        args += ["--tp", str(plan.tp), "--pp", str(plan.pp), "--ep", str(plan.ep)]
        if work.prompt and work.output:
            args += ["--prompt", str(work.prompt), "--output-tokens", str(work.output)]
        said = results(capsys, "decode", "-m", row["model"], "-d", row["device"], *args)["expected_step_time_s"]
        assert measured.estimate(asked).mid_s == pytest.approx(said, rel=1e-9), row["id"]


def test_as_people_write_them() -> None:
    row = {
        "Name": "mine", "model": "llama-3.1-8b-instruct", "GPU": "NVIDIA H100 80GB HBM3", "engine": "vLLM 0.9.1", "dtype": "BF16",
        "metric": "ttft_ms", "value": "41.5", "concurrency": "1", "input_len": "1,000", "osl": "200",
    }  # fmt: skip
    (point,) = own.answered([row]).points
    assert (point.measured, point.row["model"], point.row["device"]) == (0.0415, ROW["model"], "h100-sxm")
    assert (point.row["prompt"], point.row["output"], point.row["version"]) == (1000, 200, "0.9.1")


def test_two_devices_without_a_layout_are_two_ranks() -> None:
    served = {**ROW, "device": "2x h100-sxm", "metric": "stream_tokens_per_s", "ctx": 2000, "value": 200}
    (two,) = own.answered([served]).points
    (same,) = own.answered([{**served, "device": "h100-sxm", "tp": 2}]).points
    assert two.predicted == same.predicted
    with_layers = {**served, "engine": "llama.cpp", "weights": "q8_0"}
    assert own.laid_out(own.plain(with_layers))["pp"] == 2


BAD = [
    ({"metric": "smiles", "value": 1}, "smiles"),
    ({"metric": "tpot", "value": "fast"}, "fast"),
    ({"metric": "tpot", "value": -1}, "positive"),
    ({"metric": "tpot", "value": float("nan")}, "positive"),
    ({"metric": "tpot"}, "value"),
    ({"metric": "tpot", "value": 0.01, "device": "abacus"}, "abacus"),
    ({"metric": "tpot", "value": 0.01, "engine": "steam"}, "steam"),
    ({"metric": "tpot", "value": 0.01, "weights": "q99"}, "q99"),
    ({"metric": "tpot", "value": 0.01, "model": "nobody/nothing"}, "nobody/nothing"),
    ({"metric": "tpot", "value": 12, "unit": "fortnights"}, "fortnights"),
    ({"metric": "ttft_p95", "value": 1, "rate": 1}, "prompt"),
    ({"metric": "tpot", "value": 0.01, "tp": []}, "tp"),
    ({"metric": "slo_tokens_per_s", "value": 1}, "limits"),
]


@pytest.mark.parametrize("ending", ["yaml", "json", "csv"])
def test_one_bad_row_stops_nothing(ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = {**ROW, "id": "good", "metric": "stream_tokens_per_s", "ctx": 2000, "value": 150}
    rows = [good, *({**ROW, "id": f"bad{number}", **more} for number, (more, _) in enumerate(BAD) if "nan" not in str(more))]
    path = tmp_path / f"rows.{ending}"
    if ending == "csv":
        names = sorted({key for row in rows for key in row})
        path.write_text("\n".join([",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]))
    else:
        path.write_text(json.dumps({"rows": rows}))  # JSON is YAML
    answer = run(capsys, "accuracy", "--rows", str(path))
    assert [row["id"] for row in answer["rows"]] == ["good"]
    assert [row["id"] for row in answer["results"]["unpredicted_rows"]] == [row["id"] for row in rows[1:]]


@pytest.mark.parametrize(("more", "word"), BAD)
def test_the_reason_names_what_is_wrong(more: dict[str, Any], word: str) -> None:
    (other,) = own.answered([{**ROW, **more}]).unpredicted
    assert other.id == "a" and word in other.why


def test_a_load_generator_s_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.json"
    path.write_text(
        json.dumps(
            {
                "backend": "vllm", "model_id": ROW["model"], "num_prompts": 200, "request_rate": "inf", "max_concurrency": 16, "duration": 60.0,
                "completed": 200, "total_input_tokens": 200000, "total_output_tokens": 40000, "request_throughput": 3.3,
                "output_throughput": 660.0, "mean_ttft_ms": 90.0, "median_ttft_ms": 80.0, "p99_ttft_ms": 200.0, "mean_tpot_ms": 9.0,
                "median_tpot_ms": 8.9, "p99_tpot_ms": 12.0, "mean_itl_ms": 9.0, "median_itl_ms": 8.8, "p99_itl_ms": 20.0,
            }
        )
    )  # fmt: skip
    answer = run(capsys, "accuracy", "--rows", str(path), "-d", "h100-sxm")
    assert answer["results"]["rows"] >= 6 and {row["hardware"] for row in answer["rows"]} == {"h100-sxm"}
    assert answer["results"]["unpredicted_rows"] == []


def test_nothing_that_can_be_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.yaml"
    path.write_text(json.dumps({"rows": [{**ROW, "metric": "smiles", "value": 1}]}))
    assert main(["accuracy", "--rows", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ") and "smiles" in error and error.count("\n") == 2


@pytest.mark.parametrize(("name", "size"), [("openai/gpt-oss-20b", 12.1e9), ("openai/gpt-oss-120b", 63.4e9)])
def test_the_published_file_of_a_desktop_engine(name: str, size: float, capsys: pytest.CaptureFixture[str]) -> None:
    """ggml-org's files of gpt-oss are 12.1 and 63.4 GB on the Hub: experts in mxfp4, the rest in q8_0; no step is expected below the floor."""
    placed = ("-m", name, "-d", "dgx-spark", "-c", "8k")
    assert results(capsys, "fit", *placed, "--engine", "llama.cpp")["weight_bytes"] == pytest.approx(size, rel=0.005)
    assert results(capsys, "fit", *placed, "--engine", "vllm")["weight_bytes"] == results(capsys, "weights", "-m", name)["weight_bytes"]
    step = results(capsys, "decode", *placed, "--engine", "llama.cpp")
    assert step["floor_step_time_s"] < step["expected_step_time_s"]


# Rows of ik_llama.cpp's discussions 258 and 357 (2025-04) and of ktransformers' documents (@95009ea): how they say what lies on the host.
R1 = {"model": "deepseek-ai/DeepSeek-R1", "device": "rtx-5090", "engine": "ik_llama.cpp", "weights": "ud-q2_k_xl", "output": 128}
V3 = {
    "model": "deepseek-ai/DeepSeek-V3",
    "device": "rtx-4090",
    "engine": "ktransformers",
    "weights": "q4_k_m",
    "prompt": 969,
    "output": 300,
}
THREADRIPPER = "Threadripper PRO 7975WX, 8 x DDR5-5600 (358 GB/s), 32 threads"


@pytest.mark.parametrize(
    ("row", "layers", "host", "rate", "value"),
    [
        ({"model": "Qwen/Qwen3-30B-A3B", "device": "rtx-4080", "engine": "llama.cpp", "weights": "iq4_xs", "output": 128,
          "host_experts_layers": "14 of 48", "host": "Ryzen 9 7950X, 16 threads"}, 14, "cpu-ryzen-7950x", None, 68.68),
        (R1 | {"note": "all routed experts in host memory", "host": THREADRIPPER}, 61, "cpu-threadripper-7975wx", 358e9, 18.21),
        (V3 | {"host": "2 x Xeon Gold 6454S (32 cores each), 8 x DDR5-4800 a socket"}, 61, "cpu-xeon-6454s", 614.4e9, 13.5),
        (V3 | {"model": "MiniMaxAI/MiniMax-M2.1", "device": "rtx-5090", "weights": "fp8", "prompt": 2048, "output": 512,
               "host": "2 x EPYC 9355, PCIe 5.0"}, 62, "cpu-epyc-9005", None, 32.1),
    ],
)  # fmt: skip
def test_rows_say_what_lies_on_the_host(row: dict[str, Any], layers: int, host: str, rate: float | None, value: float) -> None:
    given = {"id": "h", "batch": 1, "metric": "stream_tokens_per_s", "value": value, **row}
    asked = measured.ask(given, measured.model_of(row["model"]))
    own = asked.plan.offload
    assert own is not None and own.host is not None
    assert (own.host_expert_layers, own.host.id, own.host_bytes_per_s) == (layers, host, rate)
    assert measured.estimate(asked).mid_s * value == pytest.approx(1, rel=0.3)


def test_a_row_with_no_number_of_layers_is_refused() -> None:
    row = {"id": "h", "metric": "stream_tokens_per_s", "value": 1, **R1, "host_experts_layers": "most"}
    with pytest.raises(LlmcalcError) as caught:
        measured.ask(row, measured.model_of(row["model"]))
    assert caught.value.code == "bad-row"
