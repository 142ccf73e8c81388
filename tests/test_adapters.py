"""Low-rank adapters: their size against published ones, what engines reserve, and what a step reads of them."""

from __future__ import annotations

import json

import pytest

from llmcalc import api
from llmcalc.cli import main
from llmcalc.estimate import adapters, layout
from llmcalc.plan import Adapters


@pytest.mark.parametrize(
    ("model", "rank", "targets", "params"),
    [
        ("meta-llama/Llama-3.1-8B", 16, (), 41_943_040),  # PEFT prints 41,943,040 trainable parameters for all linear layers
        ("mistralai/Mistral-7B-v0.1", 8, ("q_proj", "v_proj"), 3_407_872),  # 13.6 MB in float32, the multi-LoRA post of Hugging Face
        ("meta-llama/Llama-2-7b-hf", 8, ("q_proj", "v_proj"), 4_194_304),  # PEFT's well-known 4,194,304
    ],
)
def test_an_adapter_has_the_published_number_of_parameters(model: str, rank: int, targets: tuple[str, ...], params: int) -> None:
    assert adapters.adapter_params(api.load_model(model), Adapters(rank, 1, targets)).value == params


def test_every_slot_is_reserved_and_one_factor_is_whole_on_each_rank() -> None:
    model = api.load_model("meta-llama/Llama-3.1-8B")
    one = api.deploy(model, "h100-sxm", adapters=Adapters(16, 4))
    two = api.deploy(model, "2x h100-sxm", adapters=Adapters(16, 4))
    held = adapters.held_bytes(model, one)
    split = adapters.held_bytes(model, two)
    assert held is not None and split is not None
    assert held.value == 4 * 83_886_080
    # whole on both ranks: the inputs of q, k, v, gate and up, the outputs of o and down: 16 x 7 x 4,096 in 32 layers
    assert split.value == held.value + 4 * 2 * 16 * 7 * 4096 * 32
    bare = api.deploy(model, "h100-sxm")
    assert layout.held_weight_bytes(model, one).value == layout.held_weight_bytes(model, bare).value + held.value


def test_a_step_reads_the_adapters_that_its_sequences_use() -> None:
    model = api.load_model("meta-llama/Llama-3.1-8B")
    plan = api.deploy(model, "h100-sxm", adapters=Adapters(16, 4))
    read = [adapters.read_bytes(model, plan, batch) for batch in (1, 2, 10_000)]
    assert [figure and figure.value / 83_886_080 for figure in read] == pytest.approx([1, 1.75, 4])  # 4 (1 - (3/4)^2)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (("--max-loras", "4"), "bad-value"),
        (("--lora-rank", "0"), "bad-value"),
        (("--lora-rank", "16", "--lora-targets", "q_porj"), "no-such-target"),
        (("--lora-rank", "16", "--lora-targets", ","), "bad-value"),
    ],
)
def test_what_is_no_adapter_is_refused(given: tuple[str, ...], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", *given, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code


def test_fit_names_the_adapters_apart_from_the_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-m", "Qwen/Qwen3-8B", "-d", "h100-sxm", "--max-loras", "4", "--lora-rank", "16", "--json"]) == 0
    ledger = {row["item"]: row["bytes"] for row in json.loads(capsys.readouterr().out)["rows"] if row["item"]}
    assert ledger["weights in bf16"] == -8_190_735_360 * 2  # the Hub's count of parameters
    assert ledger["adapters"] == -4 * 43_646_976 * 2  # PEFT's trainable parameters of rank 16 on all linear layers
