"""The metadata and tensors of one GGUF file, the builders by architecture, and what most of these share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from llmcalc.config import MOST_LAYERS
from llmcalc.errors import ConfigError, printable
from llmcalc.files import Files
from llmcalc.gguf import Skipped

Given = dict[str, Any]


class Source:
    """The metadata of one file by its architecture's keys, and its tensors by name."""

    __slots__ = ("arch", "metadata", "tensors")

    def __init__(self, files: Files, arch: str) -> None:
        self.arch = arch
        self.metadata = files.metadata
        self.tensors = {tensor.name: tensor for tensor in files.tensors}

    def fail(self, key: str, must: str) -> ConfigError:
        """The one error of a key: names it, its value, and what it must be."""
        value = self.metadata.get(f"{self.arch}.{key}")
        shown = "missing" if value is None else printable(repr(value), 60)
        message = f"{printable(self.arch, 40)}.{key} is {shown} in this GGUF file; it must be {must}"
        return ConfigError("bad-config", message, "convert the model again, or give its config.json")

    def raw(self, key: str) -> Any:
        """The value as it stands, or None."""
        return self.metadata.get(f"{self.arch}.{key}")

    def maybe(self, key: str, least: int = 0, most: int = 10**9) -> int | None:
        """A whole number, or None. An array of one value throughout counts as that value; zeros mean layers without."""
        value = self.raw(key)
        if isinstance(value, list):
            distinct = set(value) - {0}
            if len(distinct) != 1:
                raise self.fail(key, "one number, or the same on every layer that has it")
            value = distinct.pop()
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.fail(key, f"a whole number from {least} to {most:,}")
        return value

    def need(self, key: str, least: int = 1, most: int = 10**9) -> int:
        """A whole number that the file must hold."""
        value = self.maybe(key, least, most)
        if value is None:
            raise self.fail(key, f"a whole number from {least} to {most:,}")
        return value

    def flags(self, key: str, layers: int) -> list[bool] | None:
        """One flag per layer, or None where the key is absent or a number."""
        value = self.raw(key)
        if not isinstance(value, list):
            return None
        if len(value) < layers or any(item not in (0, 1) for item in value):
            raise self.fail(key, f"a list of {layers} flags")
        return [bool(item) for item in value[:layers]]

    def numbers(self, key: str, layers: int) -> list[int] | None:
        """One number per layer, or None where the key is absent or a number."""
        value = self.raw(key)
        if isinstance(value, Skipped):
            raise self.fail(key, f"a list of {layers} numbers")
        if not isinstance(value, list):
            return None
        if len(value) < layers or any(isinstance(item, bool) or not isinstance(item, int) or not 0 <= item <= 10**9 for item in value):
            raise self.fail(key, f"a list of {layers} whole numbers")
        return value[:layers]

    def has(self, *names: str) -> bool:
        """Whether one of the tensors is there."""
        return any(name in self.tensors for name in names)

    def rows(self, *names: str, axis: int = -2) -> int | None:
        """Height of the first of the tensors that is there: its outputs; with `axis` another of its dimensions."""
        for name in names:
            shape = self.tensors[name].shape if name in self.tensors else ()
            if len(shape) >= -axis:
                return shape[axis]
        return None

    def layer(self, index: int, *names: str) -> bool:
        """Whether a layer has one of the tensors."""
        return any(f"blk.{index}.{name}" in self.tensors for name in names)

    def first(self, *names: str, axis: int = -2) -> int | None:
        """Height of a tensor on the first layer that has it."""
        for index in range(self.depth):
            for name in names:
                found = self.rows(f"blk.{index}.{name}", axis=axis)
                if found is not None:
                    return found
        return None

    def any(self, *names: str) -> bool:
        """Whether some layer has one of the tensors."""
        return any(self.layer(index, *names) for index in range(self.depth))

    @property
    def ahead(self) -> int:
        """Multi-token-prediction layers, which block_count includes."""
        return self.maybe("nextn_predict_layers", most=64) or 0

    @property
    def depth(self) -> int:
        """Layers of the model itself."""
        blocks = self.need("block_count", most=MOST_LAYERS)
        if self.ahead >= blocks:
            raise self.fail("nextn_predict_layers", f"less than block_count ({blocks})")
        return blocks - self.ahead


def number_of(pairs: Iterable[tuple[str, Any]]) -> Given:
    """The pairs whose value is known."""
    return {key: value for key, value in pairs if value is not None}


Builder = Callable[[Source], Given]
BUILDERS: dict[str, Builder] = {}


def architecture(*names: str) -> Callable[[Builder], Builder]:
    """Register a builder for these values of general.architecture."""

    def wrap(builder: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(names, builder))
        return builder

    return wrap


def around(s: Source, model_type: str) -> Given:
    """Vocabulary, width, depth, context, tie. llama.cpp computes in 16 bits, and its cache is f16 by default."""
    tokens = s.metadata.get("tokenizer.ggml.tokens")
    listed = tokens.length if isinstance(tokens, Skipped) else s.maybe("vocab_size")
    return number_of(
        [
            ("model_type", model_type),
            ("num_hidden_layers", s.depth),
            ("hidden_size", s.need("embedding_length")),
            ("vocab_size", s.rows("token_embd.weight") or listed),
            ("max_position_embeddings", s.maybe("context_length", least=1, most=10**10)),
            ("tie_word_embeddings", not s.has("output.weight")),
            ("dtype", "float16"),
            ("rope_scaling", stretched(s)),
        ]
    )


def stretched(s: Source) -> Given | None:
    """The context before it was stretched."""
    native = s.maybe("rope.scaling.original_context_length", least=1)
    return {"original_max_position_embeddings": native} if native else None


def heads(s: Source) -> Given:
    """Query and KV heads and their width. Widths of keys and values that differ are for the builders that know them."""
    query = s.need("attention.head_count")
    kv = s.maybe("attention.head_count_kv", least=1) or query
    key, value = s.maybe("attention.key_length", least=1), s.maybe("attention.value_length", least=1)
    if key and value and key != value:
        raise s.fail("attention.value_length", f"{key}, as attention.key_length")
    if key is None:
        rows = s.first("attn_k.weight")
        key = rows // kv if rows and rows % kv == 0 else None
    return number_of([("num_attention_heads", query), ("num_key_value_heads", kv), ("head_dim", key)])


def width(s: Source) -> Given:
    """The dense MLP's width. Phi-3 and GLM-4 keep gate and up in one matrix, so the key counts before the shape."""
    inner = s.maybe("feed_forward_length", least=1) if s.raw("feed_forward_length") != 0 else None
    return number_of([("intermediate_size", inner or s.first("ffn_down.weight", axis=-1))])


def decoder(s: Source, model_type: str, **more: Any) -> Given:
    """A dense decoder with GQA."""
    return {**around(s, model_type), **heads(s), **width(s), **more}


def biased(s: Source) -> bool:
    """Whether the attention projections have biases."""
    return s.any("attn_q.bias", "attn_qkv.bias")


def experts(s: Source) -> Given:
    """Numbers of experts, and the width of one from the tensors (older files keep each expert apart)."""
    inner = s.first("ffn_down_exps.weight", "ffn_down.0.weight", axis=-1) or s.maybe("expert_feed_forward_length", least=1)
    if inner is None:
        raise s.fail("expert_feed_forward_length", "the width of an expert, as no tensor shows it")
    return {
        "num_experts": s.need("expert_count"),
        "num_experts_per_tok": s.need("expert_used_count"),
        "moe_intermediate_size": inner,
    }


def as_mixtral(s: Source) -> Given:
    """Experts whose width is intermediate_size."""
    found = experts(s)
    return {
        "num_local_experts": found["num_experts"],
        "num_experts_per_tok": found["num_experts_per_tok"],
        "intermediate_size": found["moe_intermediate_size"],
    }


def window(s: Source) -> int | None:
    """Tokens of the sliding window, or None."""
    return s.maybe("attention.sliding_window", least=0) or None


def layer_types(s: Source, period: int, first_full: bool = False) -> list[str]:
    """Kinds by the file's flags per layer, else by its period, else by the period that llama.cpp has built in."""
    flags = s.flags("attention.sliding_window_pattern", s.depth)
    if flags is None:
        every = s.maybe("attention.sliding_window_pattern", least=1) or period
        flags = [(index % every != 0) if first_full else (index + 1) % every != 0 for index in range(s.depth)]
    return ["sliding_attention" if flag else "full_attention" for flag in flags]
