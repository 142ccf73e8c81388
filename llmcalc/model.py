"""config.json -> Model. Reads nested configs, finds the family, and refuses what nobody can account for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llmcalc import agreement
from llmcalc.architecture import Model, Stack, Weight, context_length, grouped
from llmcalc.config import FOREIGN, MOST, PARTS, SHAPE, SHAPING, TEXTS, Config, class_defaults, leftovers
from llmcalc.errors import ConfigError, close_matches, printable
from llmcalc.families import MODULES, drafts, reader
from llmcalc.recognise import by_class, params_json, speculator

if TYPE_CHECKING:
    from llmcalc.images import Images

# Encoder-only types: they generate nothing, so there is no cache to size.
NO_CACHE = frozenset(
    """deberta deberta-v2 electra albert mpnet nomic_bert clip siglip
    siglip2 clip_text_model siglip_text_model bert-generation data2vec-text megatron-bert
    roberta-prelayernorm roc_bert xmod vit dinov2 pixtral clip_vision_model siglip_vision_model
    wav2vec2 hubert xlm ernie layoutlm layoutlmv3 esm
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
    bare: bool = False,
) -> Model:
    """The Model that a parsed config.json describes. `bare`: one that names no shape at all is read by its class's defaults.

    Errors (ConfigError): not-a-config, unknown-model-type, no-kv-cache, missing-field, bad-config, unread-key, no-shape, unknown-draft.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError("not-a-config", f"{printable(id)} holds {_kind(raw)}, not a JSON object", "give a model's config.json")
    params = params_json(raw)
    raw = params or speculator(raw) or raw
    model_type = _model_type(raw, id)
    outer = Config(raw, model_type)
    text, text_type = _text_block(outer)
    architecture = _architecture(raw) or _architecture(text.raw) or ""
    read_stack = drafts.reader_of(architecture) or reader(text_type)
    if read_stack is None:
        raise _refusal(text_type)
    if text is not outer:
        _inherit_tie(outer, text)
    if text.raw.get("sliding_window") in (-1, 0):
        text.raw = {**text.raw, "sliding_window": None}  # off
    stack = _headed(read_stack(text), raw, architecture)
    if params and "max_position_embeddings" not in params:
        stack = replace(stack, max_context=None)  # such a file does not say, and the class's default is another model's
    tower, tower_notes, sight = _towers(outer, text, stack.hidden)
    if stack.unread and tower is not None:
        tower, tower_notes, sight = None, (f"not counted: {stack.unread}",), None
    _all_said(outer, text, stack)
    if not bare:
        _something_said(outer, text)
    dtype = _dtype(outer, text)
    quantization = _quantization(raw, text.raw, quant)
    return Model(
        id=id,
        source=source,
        revision=revision,
        model_type=model_type,
        dtype=dtype,
        stack=stack,
        groups=grouped(stack.layers),
        towers=tower,
        max_context=stack.max_context or (None if params else context_length(outer)),
        native_context=_native_context(text, stack),
        quantization=quantization,
        notes=(*notes, *stack.notes, *tower_notes, *_assumed(outer, text), *_unsaid(id, quantization)),
        facts=facts or {},
        images=sight,
    )


def _architecture(raw: Mapping[str, Any]) -> str | None:
    names = raw.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


_CLASSIFIER = re.compile(r"For(Sequence|Token)Classification$")
_REWARD = re.compile(r"Reward")
# Labels, and whether a matrix of the model's width stands before them: code beside the checkpoints, and vLLM (qwen2_rm, internlm2).
_REWARDS = {"Qwen2ForRewardModel": (1, True), "Qwen2ForProcessRewardModel": (2, True), "InternLM2ForRewardModel": (1, False)}
_BARE = re.compile(r"^(\w+?)(Text)?Model$")


def _headed(stack: Stack, raw: Mapping[str, Any], architecture: str) -> Stack:
    """The stack with the head that its class has: classifiers have one of their own, embedders none."""
    if not stack.generates:
        return stack  # its reader knows its heads
    if _CLASSIFIER.search(architecture):
        labels = raw.get("num_labels") or len(raw.get("id2label") or ()) or 2
        if isinstance(labels, bool) or not isinstance(labels, int) or not 0 < labels <= MOST:
            raise Config(raw, str(raw.get("model_type"))).fail("num_labels", labels, "a whole number")
        return drafts.without_head(stack, architecture, labels)
    if _REWARD.search(architecture):
        if architecture not in _REWARDS:
            raise ConfigError(
                "unknown-head",
                f"{printable(architecture, 60)} is a reward model, and what stands in place of its head is not known",
                "give the model that it was made from: only the head differs",
            )
        labels, inner = _REWARDS[architecture]
        return drafts.without_head(stack, architecture, labels, inner=inner)
    bare = _BARE.match(architecture)
    # Code beside a checkpoint names its models as it likes; transformers' own classes without a head end in Model.
    if bare and by_class(f"{bare[1]}ForCausalLM") in class_defaults():
        return drafts.without_head(stack, architecture, None)
    return stack


def _all_said(outer: Config, text: Config, stack: Stack) -> None:
    """Every key that is known to shape was read, or says what was read. Errors: unread-key, no-shape."""
    repeated = [key for key in outer.raw if key in text.raw and outer.raw[key] == text.raw[key]]  # the same at both levels
    blocks: tuple[tuple[Config, list[str]], ...] = ((outer, repeated), (text, [])) if text is not outer else ((text, []),)
    known = None
    for block, skip in blocks:
        for key in leftovers(block, skip):
            known = known or agreement.facts(stack)
            value = block.raw[key]
            if agreement.agrees(key, value, block.raw, known):
                continue
            where = f"{block.path}.{key}" if block.path else key
            good = agreement.fine(key, value, block.raw, known)
            message = f"{where} = {printable(repr(value), 60)} changes what a model holds, and the reader of model type "
            message += f"{printable(block.model_type)} does not know it; here it could only be {good}"
            raise ConfigError("unread-key", message, "the figures would be wrong; please report the model")


def _something_said(outer: Config, text: Config) -> None:
    """A config that names nothing of its shape could be any model of its type. Errors: no-shape."""
    if text.shape and not text.shape - text.assumed and not SHAPE & outer.raw.keys():
        raise ConfigError(
            "no-shape",
            f"this {printable(text.model_type)} config names no layers, width, heads or vocabulary: it could be any model of that type",
            "give the whole config.json",
        )


_QUANTISED = re.compile(
    r"(?<![a-z])(nvfp4|mxfp4|mxfp8|fp8|fp4|awq|gptq|int4|int8|w4a16|w8a8|w8a16|nf4|bnb|[2-8]-?bit)(?![a-z])", re.IGNORECASE
)


def _unsaid(id: str, quantization: Any) -> tuple[str, ...]:
    """A remark where the name speaks of a quantisation and the config does not."""
    parts = [part for part in re.split(r"[/\\]", id) if part and not part.endswith(".json")]
    named = _QUANTISED.search(parts[-1]) if parts and not quantization else None
    return (f"the name says {named[0]}, and the config has no quantization block: weights are counted in its dtype",) if named else ()


def _assumed(outer: Config, text: Config) -> tuple[str, ...]:
    """What of the shape is the class's default and not the file's word."""
    found = sorted(key for key in text.assumed & text.shape if key not in outer.raw)
    if not found:
        return ()
    listed = ", ".join(f"{key} {text.get(key):,}" if isinstance(text.get(key), int) else key for key in found)
    return (f"not in the file, but {printable(text.model_type, 40)}'s default: {listed}",)


_SHAPED = frozenset("hidden_size d_model n_state num_hidden_layers n_layer width embed_dim depth encoder_layers num_blocks".split())


def _strange(outer: Config, text: Config) -> str | None:
    """The first block of a name that nobody knows which has a width or a depth of its own: a tower."""
    for key, value in outer.raw.items():
        if key in SHAPING or key in outer.used or key in text.used or key in (*TEXTS, *FOREIGN) or not isinstance(value, Mapping):
            continue
        inner = [value, *(deeper for deeper in value.values() if isinstance(deeper, Mapping))]
        if any(_SHAPED & block.keys() for block in inner):
            return key
    return None


def _towers(outer: Config, text: Config, hidden: int) -> tuple[tuple[Weight, ...] | None, tuple[str, ...], Images | None]:
    """Towers beside the language model; a plain text model has none and does not load their readers."""
    strange = _strange(outer, text)
    own = (*PARTS, *(part for part in class_defaults().get(outer.model_type, {}).get("parts", {}) if part not in TEXTS))
    if strange and not any(isinstance(outer.raw.get(part), Mapping) for part in own):
        if text is not outer:
            outer.dismiss(*(outer.raw.keys() - SHAPE))
        return None, (f"not counted: what stands under {printable(strange, 40)}, whose shape is not read",), None
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
        name = _architecture(raw) or ""
        given = by_class(name)
        if given is None and drafts.reader_of(name):
            given = "llama"  # drafts of one shape, whatever they draft for
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
        value = outer.raw.get(name)
        if isinstance(value, Mapping) and value:
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
    return by_class(_architecture(value) or "")


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
