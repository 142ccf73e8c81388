"""What a template draws from: seeded choices, bundled models and devices, and the wording of one language."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from llmcalc import hardware, sources, units
from llmcalc import model as model_reader
from llmcalc.architecture import Attention, Model
from llmcalc.errors import LlmcalcError
from llmcalc.estimate import Answered, memory, verdict
from llmcalc.figures import Figure
from llmcalc.plan import Deployment, Workload
from llmcalc.quiz.question import LANGUAGES, LETTERS, Kind, Question
from llmcalc.quiz.texts import TEXTS

T = TypeVar("T")

DENSE = (
    "Qwen/Qwen3-8B", "meta-llama/Meta-Llama-3-8B", "Qwen/Qwen3-4B", "Qwen/Qwen3-14B", "Qwen/Qwen3-32B", "Qwen/Qwen2.5-7B-Instruct",
    "meta-llama/Llama-3.1-70B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-Nemo-Instruct-2407",
    "microsoft/phi-4", "01-ai/Yi-34B", "meta-llama/Llama-2-13b-hf",
)  # fmt: skip
GROUPED = tuple(name for name in DENSE if "Llama-2" not in name)
WINDOWED = ("google/gemma-3-12b-it", "openai/gpt-oss-20b", "openai/gpt-oss-120b", "mistralai/Mistral-7B-v0.1", "google/gemma-2-9b-it")
LATENT = ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-R1", "moonshotai/Kimi-K2-Instruct")
MIXTURES = ("mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B", "zai-org/GLM-4.5-Air")
SMALL_MIXTURES = MIXTURES[:2]
GPUS = ("h100-sxm", "a100-80-sxm", "h200-sxm", "b200", "l40s", "rtx-4090", "rtx-5090", "mi300x")
SLOW = (*GPUS, "rtx-3090", "l4", "dgx-spark", "apple-m4-max-40c")
CONTEXTS = (1024, 2048, 4096, 8192, 16384, 32768)
BATCHES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)


class Source:
    """Seeded choices that come out alike on every platform and Python version."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a game, not a secret

    def choose(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[int(self._random.random() * len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All of them in another order (Fisher-Yates)."""
        mixed = list(items)
        for index in range(len(mixed) - 1, 0, -1):
            other = int(self._random.random() * (index + 1))
            mixed[index], mixed[other] = mixed[other], mixed[index]
        return mixed


@cache
def model(id: str) -> Model:
    """A bundled model. Errors: model-not-found."""
    found = sources.read_bundled(id)
    return model_reader.read(found.config, id=found.id, source=found.kind, revision=found.revision, quant=found.quant, facts=found.facts)


device = cache(hardware.load)


def spoken(value: Any, unit: str) -> str:
    """An answer as people write it; every one of these is read back by `answers`."""
    words: dict[str, Callable[[Any], str]] = {
        "B": units.size,
        "B/token": units.size,
        "s": units.seconds,
        "usd": lambda n: f"${n:.3g}" if n < 0.1 else units.usd(n),
        "FLOP": units.work,
        "FLOP/B": lambda n: f"{units.number(n)} FLOP/B",
        "J": lambda n: f"{units.number(n)} J",
        "tokens/s": lambda n: f"{units.number(n)} tok/s",
        "params": lambda n: f"{n / 1e9:.3g} B",
        "share": lambda n: f"{n * 100:.1f}%",
        "ratio": lambda n: f"{n:.3g}×",
    }
    if isinstance(value, str):
        return value
    return words[unit](value) if unit in words else f"{units.number(value)} {unit}".rstrip()


_RUSSIAN = dict(
    pair.split("=")
    for pair in (
        "KiB=КиБ MiB=МиБ GiB=ГиБ TiB=ТиБ kB=кБ MB=МБ GB=ГБ TB=ТБ MB/s=МБ/с GB/s=ГБ/с TB/s=ТБ/с tok/s=ток/с µs=мкс ms=мс s=с bits=бит "
        "sequences=последовательностей tokens=токенов devices=устройств experts=экспертов"
    ).split()
)
_AFTER_A_NUMBER = re.compile(rf"(?<=\d )({'|'.join(sorted(_RUSSIAN, key=len, reverse=True))})(?![\w/])")


def localised(text: str, language: str) -> str:
    """Numbers and units that were put into a Russian text, in Russian: 1,024 tokens would read as one and a bit."""
    if language == "en":
        return text
    return _AFTER_A_NUMBER.sub(lambda found: _RUSSIAN[found[1]], re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "\u00a0", text))


def mixer(found: Model) -> tuple[Attention, int]:
    """The commonest attention of a model and the number of layers that have it."""
    return max(memory.mixers(found), key=lambda each: each[1])


@dataclass(frozen=True, slots=True)
class Scene:
    """A model on a device with a load, and the same as options of a command."""

    model: Model
    plan: Deployment
    ctx: int
    batch: int
    options: tuple[str, ...]

    @property
    def work(self) -> Workload:
        """The load."""
        return Workload(self.ctx, self.batch)

    def argv(self, command: str, *extra: str, batch: bool = True) -> tuple[str, ...]:
        """What to call llmcalc with."""
        count = f"{self.plan.ranks}x " if self.plan.ranks > 1 else ""
        load = ("-b", str(self.batch)) if batch else ()
        method = ("--method", "napkin") if command in DECIDING else ()
        on = ("-m", self.model.id, "-d", count + self.plan.device.id, "-c", str(self.ctx))
        return (command, *on, *load, *self.options, *method, *extra)


DECIDING = {"cost", "quant"}
"""Commands whose times are the textbook's only where that is asked for."""


@dataclass(slots=True)
class Draw:
    """The choices of one question."""

    source: Source
    language: str
    template: Kind
    heads: int = 40  # query heads of the model at hand; the notes' 13B has room for 40 of 128

    def choose(self, items: Sequence[T]) -> T:
        """One of them."""
        return self.source.choose(items)

    def say(self, key: str, **values: Any) -> str:
        """A text of the catalogue in the language of the quiz."""
        return localised(TEXTS[key][LANGUAGES.index(self.language)].format(**values), self.language)

    # ---- what is given --------------------------------------------------------------------------------------------

    def model(self, ids: Sequence[str]) -> Model:
        """One of these bundled models."""
        return model(self.choose(ids))

    def scene(
        self,
        models: Sequence[str] = DENSE,
        devices: Sequence[str] = GPUS,
        *,
        contexts: Sequence[int] = CONTEXTS,
        batches: Sequence[int] = BATCHES,
        weights: str = "bf16",
        kv: str = "bf16",
        reserve: str = "",
        tp: int = 1,
    ) -> Scene:
        """A model, a device and a load that fits on it."""
        for _ in range(200):
            made = self._scene(self.model(models), self.choose(devices), self.choose(contexts), weights, kv, reserve, tp)
            if made.model.max_context and made.ctx > made.model.max_context:
                continue
            most = verdict.fit(made.model, made.plan, made.work).results["max_batch"]
            fitting = [each for each in batches if each <= most]
            if fitting:
                return replace(made, batch=self.choose(fitting))
        raise LlmcalcError(
            "no-scene", f"nothing that {self.template.key} asks about fits", "the bundled models or devices have been changed"
        )

    def _scene(self, found: Model, name: str, ctx: int, weights: str, kv: str, reserve: str, tp: int) -> Scene:
        plan = Deployment(
            device=device(name),
            weights=memory.weight_format(found, weights)[0],
            kv=memory.kv_format(found, kv)[0],
            tp=tp,
            reserve_bytes=units.quantity(reserve, "bytes") if reserve else 0,
        )
        options = ("--weights", weights, "--kv-dtype", kv, *(("--reserve", reserve) if reserve else ()))
        return Scene(found, plan, ctx, 1, options)

    def model_words(self, found: Model) -> str:
        """What has to be known of a model, in one sentence."""
        kind, layers = mixer(found)
        self.heads = kind.query_heads
        billions = f"{memory.language_params(found) / 1e9:.3g}"
        name = found.id.rpartition("/")[2]
        args = dict(kind.entries[0].args)
        if "kv_lora_rank" in args:
            return self.say(
                "model.mla",
                name=name,
                billions=billions,
                layers=layers,
                rank=args["kv_lora_rank"],
                rope=args["qk_rope_head_dim"],
                heads=kind.query_heads,
            )
        text = self.say(
            "model.gqa",
            name=name,
            billions=billions,
            layers=sum(count for _, count in memory.mixers(found)),
            heads=kind.query_heads,
            kv=kind.kv_heads,
            dim=args["head_dim"],
        )
        spans = [(sum(n for m, n in memory.mixers(found) if m.entries[0].window == window), window) for window in self._windows(found)]
        text += "".join(" " + self.say("model.window", layers=count, window=f"{window:,}") for count, window in spans if window)
        mlp = next((group.layer.mlp for group in found.groups if group.layer.mlp and group.layer.mlp.experts), None)
        if mlp:
            active = f"{memory.active_params(found) / 1e9:.3g}"
            text += " " + self.say("model.moe", experts=mlp.experts, used=mlp.top_k, active=active)
        return text

    @staticmethod
    def _windows(found: Model) -> list[int | None]:
        return list(dict.fromkeys(kind.entries[0].window for kind, _ in memory.mixers(found)))

    def device_words(self, plan: Deployment) -> str:
        """What has to be known of a device, in one sentence."""
        card = plan.device
        key = "bf16" if "bf16" in card.compute else "fp16"
        return self.say(
            "device.each" if plan.ranks > 1 else "device",
            count=f"{plan.ranks} × " if plan.ranks > 1 else "",
            name=card.name,
            memory=units.decimal_size(card.memory_bytes or 0),
            rate=units.rate(card.bandwidth_bytes_per_s),
            flops=units.flops(card.compute[key]),
        )

    def given(self, scene: Scene) -> str:
        """Model, device, formats."""
        formats = self.say("formats", weights=scene.plan.weights.name, kv=scene.plan.kv.name)
        return f"{self.model_words(scene.model)} {self.device_words(scene.plan)} {formats}"

    # ---- what is asked --------------------------------------------------------------------------------------------

    def number(
        self,
        answer: Any,
        unit: str,
        *,
        given: str = "",
        figure: Figure | None = None,
        slips: Mapping[str, Any] | None = None,
        command: tuple[str, ...] = (),
        result: str = "",
        rate: float | None = None,
        **words: Any,
    ) -> Question:
        """A question with a number for an answer. `slips`: text of the catalogue to the value that this slip leads to."""
        key = self.template.key
        wrong = {name: value for name, value in (slips or {}).items() if value}
        if unit in ("B", "B/token"):
            wrong["slip.bits"] = answer * 8
        if unit == "B" and answer >= 2**30:
            wrong |= {"slip.gib": answer / 2**30 * 1e9, "slip.gb": answer * 2**30 / 1e9}
        named = tuple((value, self.say(name, heads=self.heads)) for name, value in wrong.items() if abs(value / answer - 1) > 0.02)
        steps = [self.say(f"{key}.how", **words)]
        if rate and unit in ("s", "tokens/s", "usd"):
            steps.append(self.say("shortcut.rate", rate=units.rate(rate), per_ms=units.decimal_size(rate / 1000)))
        return Question(
            key,
            self.template.topic,
            self.template.level,
            "number",
            f"{given} {self.say(key, **words)}".strip(),
            answer,
            unit,
            slips=named,
            steps=tuple(steps),
            figure=figure,
            command=command,
            result=result,
        )

    def estimated(self, estimate: Answered[Any, Any], result: str, unit: str, **rest: Any) -> Question:
        """A question whose answer is what a command prints under `result`."""
        figure = rest.pop("figure", None) or estimate.figures.get(result)
        return self.number(estimate.results[result], unit, figure=figure, result=result, **rest)

    def choice(
        self,
        right: str = "a",
        *,
        given: str = "",
        figure: Figure | None = None,
        command: tuple[str, ...] = (),
        result: str = "",
        fixed: bool = False,
        **words: Any,
    ) -> Question:
        """A question with choices key.a, key.b, … of the catalogue, of which `right` is true; mixed, unless their order is `fixed`."""
        key = self.template.key
        names = [letter for letter in LETTERS if f"{key}.{letter}" in TEXTS]
        order = names if fixed else self.source.shuffled(names)
        return Question(
            key,
            self.template.topic,
            self.template.level,
            "choice",
            f"{given} {self.say(key, **words)}".strip(),
            LETTERS[order.index(right)],
            choices=tuple(self.say(f"{key}.{name}", **words) for name in order),
            steps=(self.say(f"{key}.how", **words),),
            figure=figure,
            command=command,
            result=result,
        )

    def points(self, patterns: Sequence[str], **words: Any) -> Question:
        """A question answered in words and held against the points key.1, key.2, … of the catalogue."""
        key = self.template.key
        said = tuple(self.say(f"{key}.{number}", **words) for number in range(1, len(patterns) + 1))
        return Question(
            key, self.template.topic, self.template.level, "points", self.say(key, **words), len(said),
            choices=said, patterns=tuple(patterns), steps=(self.say(f"{key}.how", **words),),
        )  # fmt: skip
