"""What people think of models, what formats cost in perplexity, licences and published files: the dated facts behind `rank`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date as Date
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from llmcalc import data

Task = Literal["text", "coding", "vision"]
TASKS: tuple[Task, ...] = ("text", "coding", "vision")
OLD_DAYS = 365
_UNTUNED = re.compile(
    r"-base$|-base-|-pt$|-pile$|-zero$|whisper|guard|docling|gpt2|/gpt-j|/gpt-neo|pythia|/opt-|bloom|/t5-|bart|rwkv|/mamba-|starcoder|fuyu|"
    r"distilgpt|/phi-[12]|mpt-7b|redpajama|codegen|aquila|math|/internlm-|/llama-\d+b$|/falcon-\d+b$|stablelm|/gpt-oss-safeguard",
    re.IGNORECASE,
)
"""Names of what continues text, or has another trade than to answer."""
_TUNED = re.compile(
    r"instruct|chat|-it\b|think|reasoning|-r1|gpt-oss|/hermes|vicuna|orca|zephyr|openhermes|dolphin|wizardlm|solar|openchat|codestral|"
    r"devstral|magistral|mistral-small|aya|command|kimi|glm|minimax|deepseek-v|nemotron|qwq|qwen3|smollm3|exaone|lfm2|seed-oss|ernie|hunyuan|"
    r"phi-4|muse|ling-|moonlight|/step-|jamba-.*mini|mimo-v2|llava|internvl|granite-4",
    re.IGNORECASE,
)
"""Names of what is tuned to answer; families that do not say so are named."""
_QUANTISED = re.compile(r"[-_](fp8-static-pertensor|fp8|nvfp4|fp4|awq|gptq|int4|[34]bit|bf16)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rating:
    """A model's score for a task, with its 95% interval where one is published, and when it was read off."""

    task: Task
    score: float
    low: float | None
    high: float | None
    named: str
    """As the source calls it."""
    date: str
    source: str

    def old(self, today: Date | None = None) -> bool:
        """Whether it is more than a year old."""
        return ((today or Date.today()) - Date.fromisoformat(self.date)).days > OLD_DAYS


@cache
def _facts() -> Mapping[str, Any]:
    path = data.bundled("measurements") / "quality.yaml"
    found: Mapping[str, Any] = data.parse_yaml(data.read_text(path, "rating file"), str(path), "rating file")
    return found


@cache
def _ratings() -> Mapping[str, Mapping[str, Any]]:
    return {row["model"]: row for row in _facts()["rows"]}


def rating(model: str, task: Task = "text") -> Rating | None:
    """The score of a model; None where nobody published one. Never a guess."""
    row = _ratings().get(model)
    if row is None or task not in row:
        return None
    text = task == "text"
    return Rating(
        task,
        row[task],
        row["low"] if text else None,
        row["high"] if text else None,
        row["named"],
        row["date"],
        _facts()["sources"]["arena"]["url"],
    )


def perplexity_ratio(model: str, fmt: str) -> float | None:
    """Measured perplexity in a format over that in 16 bits, or in q8_0 where no wider one was measured; None where none was."""
    measured = _facts()["perplexity"].get(model, {})
    plain = measured.get("fp16", measured.get("q8_0"))
    return measured[fmt] / plain if plain and fmt in measured else None


def licence(model: str) -> str | None:
    """The licence of a model's weights; None where it is not written down."""
    return next((name for pattern, name in _facts()["licences"] if fnmatchcase(model, pattern)), None)


def same_licence(known: str | None, asked: str) -> bool:
    """Whether a licence is the one that is asked for, however it is written: `llama` is every one of Llama's."""
    plain = [re.sub(r"[^a-z0-9]", "", each.lower()) for each in (known or "", asked)]
    return bool(plain[1]) and plain[0].startswith(plain[1])


def gguf(model: str) -> str | None:
    """A repository of a model's GGUF files."""
    found: str | None = _facts()["gguf"].get(model)
    return found


def answers(ids: list[str]) -> list[str]:
    """Those of the ids that are tuned to answer, in 16 bits or as their makers ship them; copies in other formats are left out."""
    known = {each.lower() for each in ids}

    def tuned(name: str) -> bool:
        low = name.lower()
        if _UNTUNED.search(low) or not _TUNED.search(low):
            return False
        quantised = _QUANTISED.search(low)
        if quantised:
            return quantised[1] == "bf16" and low.removesuffix("-bf16") not in known
        return "instruct" in low or not any(f"{low}-{end}" in known for end in ("instruct", "it", "chat", "chat-hf"))

    return [each for each in ids if tuned(each)]


def copies(model: str, ids: list[str]) -> list[str]:
    """Copies of a model in other formats, by whomever."""
    plain = _QUANTISED.sub("", model.rpartition("/")[2].lower())
    return [
        each for each in ids if each != model and _QUANTISED.search(each) and _QUANTISED.sub("", each.rpartition("/")[2].lower()) == plain
    ]
