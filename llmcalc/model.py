"""config.json -> Model. Reads nested configs, finds the family, and refuses what nobody can account for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llmcalc.architecture import Model, Stack, Weight, context_length, grouped
from llmcalc.config import FOREIGN, TEXTS, Config, class_defaults, leftovers
from llmcalc.errors import ConfigError, close_matches, printable
from llmcalc.families import MODULES, reader

if TYPE_CHECKING:
    from llmcalc.images import Images

# Architectures whose config may lack model_type.
_BY_ARCHITECTURE = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral", "GPT2LMHeadModel": "gpt2"}
# Encoder-only types: they generate nothing, so there is no cache to size.
NO_CACHE = frozenset(
    """bert roberta xlm-roberta deberta deberta-v2 distilbert electra albert camembert modernbert mpnet nomic_bert clip siglip
    siglip2 vit dinov2 pixtral clip_vision_model siglip_vision_model wav2vec2 hubert xlm ernie layoutlm layoutlmv3 esm
    eurobert jina_bert new xlm-roberta-xl mobilebert squeezebert funnel longformer big_bird roformer rembert""".split()
)


def read(
    raw: Any,
    *,
    id: str = "config.json",
    source: str = "file",
    revision: str | None = None,
    quant: Mapping[str, Any] | None = None,
    notes: tuple[str, ...] = (),
    facts: dict[str, Any] | None = None,
) -> Model:
    """The Model that a parsed config.json describes.

    Errors (ConfigError): not-a-config, unknown-model-type, no-kv-cache, missing-field, bad-config, unread-key.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError("not-a-config", f"{printable(id)} holds {_kind(raw)}, not a JSON object", "give a model's config.json")
    model_type = _model_type(raw, id)
    outer = Config(raw, model_type)
    text, text_type = _text_block(outer)
    read_stack = reader(text_type)
    if read_stack is None:
        raise _refusal(text_type)
    if text is not outer:
        _inherit_tie(outer, text)
    stack = read_stack(text)
    tower, tower_notes, sight = _towers(outer, text, stack.hidden)
    repeated = [key for key in outer.raw if key in text.raw and outer.raw[key] == text.raw[key]]  # the same at both levels
    unread = [*(leftovers(outer, repeated) if text is not outer else ()), *leftovers(text)]
    if unread:
        key = unread[0]
        raise ConfigError(
            "unread-key",
            f"{key} = {printable(repr(text.raw.get(key, outer.raw.get(key))), 60)} changes what a model holds, "
            f"and the reader of model type {printable(text_type)} does not know it",
            "the figures would be wrong; please report the model",
        )
    dtype = _dtype(outer, text)
    return Model(
        id=id,
        source=source,
        revision=revision,
        model_type=model_type,
        dtype=dtype,
        stack=stack,
        groups=grouped(stack.layers),
        towers=tower,
        max_context=stack.max_context or context_length(outer),
        native_context=_native_context(text, stack),
        quantization=_quantization(raw, text.raw, quant),
        notes=(*notes, *stack.notes, *tower_notes),
        facts=facts or {},
        images=sight,
    )


def _towers(outer: Config, text: Config, hidden: int) -> tuple[tuple[Weight, ...] | None, tuple[str, ...], Images | None]:
    """Towers beside the language model; a plain text model has none and does not load their readers."""
    wrapped = text is not outer or "parts" in class_defaults().get(outer.model_type, {})
    if not wrapped and not any(key in outer.raw for key in FOREIGN):
        return (), (), None
    from llmcalc import images, towers

    return *towers.read(outer, hidden), images.of(outer.raw, outer.model_type)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}
    return names.get(type(value), "something else")


def _model_type(raw: Mapping[str, Any], id: str) -> str:
    given = raw.get("model_type")
    if given is None:
        names = raw.get("architectures")
        first = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
        given = _BY_ARCHITECTURE.get(first or "")
        if given is None and any(isinstance(raw.get(block), Mapping) for block in TEXTS):
            given = "multimodal"
    if given is None:
        raise ConfigError(
            "not-a-config",
            f"{printable(id)} has no model_type, so nothing says which architecture it is",
            'add "model_type" (such as "llama") to the config.json',
        )
    if not isinstance(given, str) or not given:
        raise Config(raw, "?").fail("model_type", given, "a text")
    return given


def _text_block(outer: Config) -> tuple[Config, str]:
    """The language model's own config, which may be nested (twice for omni models), and its model type."""
    parts = class_defaults().get(outer.model_type, {}).get("parts", {})
    for name in TEXTS:
        if isinstance(outer.raw.get(name), Mapping):
            value = outer.raw[name]
            if outer.raw.get("text_model_id") and "hidden_size" not in value:
                continue  # the language model is another repository's, and nothing here is about it
            inner_type = value.get("model_type") or parts.get(name) or _language_type(value) or outer.model_type
            block = outer.block(name, inner_type)
            assert block is not None
            if any(isinstance(value.get(deeper), Mapping) for deeper in TEXTS):
                return _text_block(block)
            return block, inner_type
    default = parts.get("text_config")
    if default and outer.model_type not in MODULES:
        # Older files keep the language model's keys at the top, beside vision_config; the wrapper may set some of its own.
        absent = {} if "hidden_size" in outer.raw else class_defaults()[outer.model_type].get("absent", {}).get("text_config", {})
        return outer.seen_as(default, {**absent, **outer.raw}), default
    return outer, outer.model_type


def _language_type(value: Mapping[str, Any]) -> str | None:
    names = value.get("architectures")
    return _BY_ARCHITECTURE.get(names[0]) if isinstance(names, list) and names and isinstance(names[0], str) else None


# Wrappers whose class takes "true" from the text's block where its own is false: older files said it there.
_TIED_BY_TEXT = frozenset(
    """fast_vlm glm4v glm4v_moe glm_ocr hunyuan_vl llava llava_next_video llava_onevision minimax_m3_vl paddleocr_vl qwen2_vl
    qwen2_5_vl shieldgemma2 video_llama_3""".split()
)


def _inherit_tie(outer: Config, text: Config) -> None:
    """The outermost statement about tied embeddings counts; a class default of the wrapper counts before the text class's."""
    if outer.model_type in _TIED_BY_TEXT and not outer.get("tie_word_embeddings") and text.get("tie_word_embeddings"):
        return
    if outer.raw.get("tie_word_embeddings") is not None or (
        text.raw.get("tie_word_embeddings") is None and outer.get("tie_word_embeddings") is not None
    ):
        text.raw = {**text.raw, "tie_word_embeddings": outer.get("tie_word_embeddings")}


def _refusal(model_type: str) -> ConfigError:
    if model_type in NO_CACHE:
        return ConfigError(
            "no-kv-cache",
            f"model type {printable(model_type)} is an encoder: it generates no tokens and keeps no KV cache",
            "llmcalc sizes models that generate text",
        )
    near = close_matches(model_type, MODULES)
    return ConfigError(
        "unknown-model-type",
        f"model type {printable(model_type)} is not known, and a guess could be wrong many times over",
        f"close types that are known: {', '.join(near)}" if near else "llmcalc models list shows what is known; please report the model",
    )


def _dtype(outer: Config, text: Config) -> str | None:
    for config in (text, outer):
        for key in ("dtype", "torch_dtype"):
            value = config.raw.get(key)
            if isinstance(value, str) and value not in ("", "auto"):
                return value.removeprefix("torch.")
    return None


def _native_context(c: Config, stack: Stack) -> int | None:
    """What the model was trained at before its positions were stretched."""
    for key in ("rope_scaling", "rope_parameters"):
        scaling = c.raw.get(key)
        if isinstance(scaling, Mapping):
            blocks = [scaling, *(value for value in scaling.values() if isinstance(value, Mapping))]
            for block in blocks:
                value = block.get("original_max_position_embeddings")
                if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value < 1e10:
                    return int(value)
    value = c.raw.get("original_max_position_embeddings")
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else stack.max_context


def _quantization(raw: Mapping[str, Any], text: Mapping[str, Any], beside: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The quantiser's block of the config, over what hf_quant_config.json says beside it."""
    for holder in (raw, text):
        for key in ("quantization_config", "quantization"):
            value = holder.get(key)
            if isinstance(value, Mapping) and value:
                experts = {"expert_dtype": text["expert_dtype"]} if text.get("expert_dtype") else {}  # DeepSeek-V4 states it outside
                return {**(beside or {}), **experts, **value}
    return dict(beside) if beside else None


def weights(model: Model) -> list[tuple[int, Weight]]:
    """(layers, weight) of everything in the language model; embedding first, then by group, then head."""
    stack = model.stack
    found = [(1, weight) for weight in stack.embedding]
    for group in model.groups:
        found += [(group.count, weight) for weight in group.layer.all_weights]
    return found + [(1, weight) for weight in (*stack.shared, *stack.outside, *stack.head)]
