"""What the cache of a model and its weights hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llmcalc import checkpoint, formats
from llmcalc.answers import ABSENT, Absent, Answer, answer, field
from llmcalc.architecture import Attention, Entry, Model, Weight
from llmcalc.checkpoint import Checkpoint
from llmcalc.engines import Engine
from llmcalc.errors import ConfigError, UsageError, printable
from llmcalc.estimate import Answered
from llmcalc.figures import Figure, total
from llmcalc.formats import Format
from llmcalc.formulas import memory as f
from llmcalc.model import weights as model_weights
from llmcalc.units import whole

CONFIG = "config.json"


# ---- formats ------------------------------------------------------------------------------------------------------


def compute_format(model: Model) -> tuple[Format, str | None]:
    """The format that the checkpoint computes in, and an assumption where the config states none."""
    found = formats.of_dtype(model.dtype) if model.dtype else None
    if found is not None and found.bits >= 16:
        return found, None
    stated = f"dtype {model.dtype} is none that an engine computes in" if model.dtype else "the config states no dtype"
    return formats.FORMATS["bf16"], f"bf16 arithmetic: {stated}"


def kv_format(model: Model, name: str) -> tuple[Format, str]:
    """The cache's format of that name, and where it comes from. fp8 weights do not imply an fp8 cache."""
    if name.lower() != "auto":
        found = formats.find(name, kv=True)
        return found, "asked for" + (
            ", without the scales of its heads, as the textbook" if found.head_bytes and found.bits % 8 == 0 else ""
        )
    scheme = kv_scheme(model.quantization)
    if scheme:
        try:
            return formats.find(scheme, kv=True), "the checkpoint's KV scheme"
        except UsageError:
            message = f"the checkpoint's KV scheme {printable(scheme, 40)!r} is none that llmcalc knows"
            raise ConfigError("unknown-kv-scheme", message, "name one with `kv_dtype`, such as `kv_dtype=fp8`") from None
    found, assumed = compute_format(model)
    return found, assumed or f"the checkpoint's dtype ({model.dtype})"


def kv_scheme(quantization: Mapping[str, Any] | None) -> str | None:
    """The KV format that a quantised checkpoint states, or None. What its weights are says nothing about it.

    compressed-tensors and newer ModelOpt: kv_cache_scheme; ModelOpt, also in hf_quant_config.json: kv_cache_quant_algo;
    Quark: a kv_cache_group, whose one format is fp8.
    """
    if not quantization:
        return None
    for block in (quantization, quantization.get("quantization")):
        if not isinstance(block, Mapping):
            continue
        algo, scheme, export = (block.get(key) for key in ("kv_cache_quant_algo", "kv_cache_scheme", "export"))
        if isinstance(algo, str) and algo.lower() not in ("", "none"):
            return algo.lower().removesuffix("_affine")
        if isinstance(scheme, Mapping) and scheme.get("num_bits") is not None:
            return f"{'fp' if scheme.get('type') == 'float' else 'int'}{scheme['num_bits']}"
        if isinstance(scheme, str) and scheme.lower() not in ("", "none"):
            return scheme.lower()
        if isinstance(export, Mapping) and export.get("kv_cache_group"):
            return "fp8"
    return None


# ---- the cache ----------------------------------------------------------------------------------------------------


def mixers(model: Model) -> list[tuple[Attention, int]]:
    """Distinct token mixers with the number of layers that have them, in order of appearance."""
    found: dict[Attention, int] = {}
    for group in model.groups:
        for mixer in group.layer.mixers:
            found[mixer] = found.get(mixer, 0) + group.count
    return list(found.items())


def element_bytes(entry: Entry, fmt: Format, *, scales: bool) -> float:
    """Bytes per element of an entry, with what its heads have beside them. `scales`: of int8, too, as engines do and the textbook not."""

    def wide(one: Format, width: int) -> float:
        kept = one.head_bytes if scales or one.bits % 8 else 0
        return one.bits // 1 / 8 + kept / width if kept else one.bytes

    args = dict(entry.args)
    keys, values = fmt.keys or fmt, fmt.values or fmt
    if entry.formula not in (f.kv_bytes_per_token, f.split_kv_bytes_per_token):
        return keys.bytes  # one vector serves as both
    key, value = args.get("head_dim") or args["key_dim"], args.get("head_dim") or args["value_dim"]
    if keys is values and not keys.head_bytes:
        return keys.bytes
    return (key * wide(keys, key) + value * wide(values, value)) / (key + value)


def entry_bytes(entry: Entry, layers: int, fmt: Format, *, scales: bool = False) -> Figure:
    """Bytes per cache entry of a group of alike layers."""
    return entry.formula.of(
        {"layers": Figure("layers", layers, "", CONFIG)} | {name: Figure(name, value, "", CONFIG) for name, value in entry.args},
        bytes_per_element=Figure(
            "bytes_per_element", (size := element_bytes(entry, fmt, scales=scales)), "B", f"{fmt.name}, {size * 8:g} bits"
        ),
    )


def cached(entry: Entry, ctx: Figure, *, windows: bool = True) -> Figure:
    """Entries that one sequence of `ctx` tokens keeps."""
    if entry.tokens is not None:
        return Figure("cached_tokens", entry.tokens, "tokens", CONFIG)
    kept = ctx
    if entry.window is not None and windows:
        kept = f.tokens_in_window.of(ctx_tokens=ctx, window_tokens=Figure("window_tokens", entry.window, "tokens", CONFIG))
    if entry.ratio > 1:
        kept = f.compressed_entries.of(ctx_tokens=kept, ratio=Figure("ratio", entry.ratio, "", CONFIG))
    return kept


def state_figures(mixer: Attention, layers: int, fmt: Format) -> list[Figure]:
    """State of one sequence in a group of alike layers, part by part."""
    found = []
    for state in mixer.states:
        elements = state.formula.of({name: Figure(name, value, "", CONFIG) for name, value in state.args})
        width = 4 if state.dtype == "fp32" else fmt.bytes
        found.append(
            f.state_bytes.of(
                as_name=f"{state.name}_state_bytes",
                layers=Figure("layers", layers, "", CONFIG),
                elements=elements,
                bytes_per_element=Figure("bytes_per_element", width, "B", "fp32" if state.dtype == "fp32" else fmt.name),
            )
        )
    return found


def state_format(model: Model, cache: Format) -> Format:
    """Convolution states have the dtype that the engine computes in: that of an unquantised cache, else the checkpoint's."""
    return cache if cache.name in ("fp32", "bf16", "fp16") else compute_format(model)[0]


@answer("kv", rows=True)
class KvLayers(Answer):
    """The cache of a group of alike layers, of one sequence."""

    layers: int = field("layers")
    kind: str = field("kind")
    bytes_per_token: float = field("per token", "B/token")
    bytes_per_token_beyond_window: float = field("beyond window", "B/token", shown=False)
    window_tokens: int | None = field("window", "tokens", rank=1)
    state_bytes: float = field("state", "B", rank=2)
    bytes_per_sequence: float = field("per sequence", "B")


@answer("kv")
class Kv(Answer):
    """Cache and state of sequences of one length; how an engine and a device hold them, where those are named."""

    kv_bytes_per_token: float = field("KV per token", "B/token", meaning="inside every window")
    kv_bytes_per_token_beyond_window: float = field("  once windows are full", "B/token")
    state_bytes_per_sequence: float = field("state per sequence", "B", meaning="recurrent and convolution state")
    kv_bytes_per_sequence: float = field("KV per sequence", "B", meaning="at the context, state included")
    kv_bytes_total: float = field("  of the batch", "B")
    engine_kv_bytes_per_sequence: float | Absent = field("one as the engine counts", "B", default=ABSENT)
    engine_kv_bytes_total: float | Absent = field("  of the batch as it counts", "B", default=ABSENT)
    kv_bytes_per_sequence_per_device: float | Absent = field("  on each device", "B", meaning="where several share a cache", default=ABSENT)
    hardware_share: float | Absent | None = field("share of the memory", "percent", meaning="that the batch takes", default=ABSENT)
    max_batch: int | Absent = field("sequences that fit", default=ABSENT)
    kv_bytes_per_sequence_full_attention: float = field("one without windows", "B", meaning="if no layer had a window")
    query_heads_per_kv_head: float | None = field("query heads per KV head")
    max_context_tokens: int | None = field("longest context", "tokens")
    native_context_tokens: int | None = field("  before it was stretched", "tokens")


def sequence_bytes(model: Model, ctx: int, cache: Format, *, windows: bool = True) -> Figure:
    """Cache and state of one sequence, as a derivation."""
    return _cache(model, ctx, cache, windows=windows)[0]


def _cache(model: Model, ctx: int, cache: Format, *, windows: bool = True) -> tuple[Figure, list[KvLayers], list[Figure]]:
    ctx_figure = Figure("ctx_tokens", ctx, "tokens", "`ctx`")
    plain = state_format(model, cache)
    parts: list[Figure] = []
    rows: list[KvLayers] = []
    for mixer, layers in mixers(model):
        kept: list[Figure] = []
        per_token: list[Figure] = []
        for entry in mixer.entries:
            if not entry.stored:
                continue
            size = entry_bytes(entry, layers, cache)
            per_token.append(size)
            kept.append(
                f.cache_bytes.of(
                    as_name=f"{mixer.kind}_cache_bytes", bytes_per_token=size, cached_tokens=cached(entry, ctx_figure, windows=windows)
                )
            )
        states = state_figures(mixer, layers, plain)
        parts += kept + states
        stored = [entry for entry in mixer.entries if entry.stored]
        growing = [(e, f.amortised(s.value, e.ratio)) for e, s in zip(stored, per_token, strict=True) if e.tokens is None]
        windowed = [entry.window for entry in stored if entry.window is not None]
        rows.append(
            KvLayers(
                layers=layers,
                kind=mixer.kind,
                bytes_per_token=whole(sum(value for _, value in growing)),
                bytes_per_token_beyond_window=whole(sum(value for e, value in growing if e.window is None)),
                window_tokens=min(windowed) if windowed else None,
                state_bytes=whole(sum(state.value for state in states)),
                bytes_per_sequence=whole(sum(part.value for part in (*kept, *states))),
            )
        )
    return total("kv_bytes_per_sequence", "B", tuple(parts)), rows, [part for part in parts if part.name.endswith("_state_bytes")]


def kv(model: Model, ctx: int, batch: int = 1, kv_dtype: str = "auto") -> Answered[Kv, KvLayers]:
    """KV cache and state of `batch` sequences of `ctx` tokens."""
    cache, origin = kv_format(model, kv_dtype)
    sequence, rows, states = _cache(model, ctx, cache)
    full, _, _ = _cache(model, ctx, cache, windows=False)
    everything = f.batch_bytes.of(as_name="kv_bytes_total", bytes_per_sequence=sequence, batch=Figure("batch", batch, "", "`batch`"))
    per_token = _per_token(model, cache)
    beyond = whole(sum(row.bytes_per_token_beyond_window for row in rows))
    attending = [mixer for mixer, _ in mixers(model) if mixer.entries and mixer.query_heads]
    ratios = {mixer.query_heads / mixer.kv_heads for mixer in attending}
    results = Kv(
        kv_bytes_per_token=per_token.value,
        kv_bytes_per_token_beyond_window=beyond,
        state_bytes_per_sequence=whole(sum(row.state_bytes for row in rows)),
        kv_bytes_per_sequence=sequence.value,
        kv_bytes_total=everything.value,
        kv_bytes_per_sequence_full_attention=full.value,
        query_heads_per_kv_head=whole(max(ratios)) if ratios else None,
        max_context_tokens=model.max_context,
        native_context_tokens=model.native_context,
    )
    warnings = []
    if not ratios:
        warnings.append("query_heads_per_kv_head: no layer of this model attends")
    elif len(ratios) > 1:
        warnings.append(f"query_heads_per_kv_head differs by layer ({', '.join(f'{r:g}' for r in sorted(ratios))}): the largest is shown")
    if model.max_context is None:
        warnings.append("max_context_tokens: the config names no longest context")
    elif ctx > model.max_context:
        warnings.append(f"ctx {ctx:,} is beyond the model's own maximum of {model.max_context:,} tokens")
    return Answered(
        results=results,
        figures={"kv_bytes_per_token": per_token, "kv_bytes_per_sequence": sequence, "kv_bytes_total": everything},
        rows=tuple(rows),
        inputs={"ctx_tokens": ctx, "batch": batch, "kv_dtype": cache.name, "kv_bits_per_element": cache.bits},
        assumptions=(f"KV cache in {cache.name}: {origin}", *_state_note(states, plain=state_format(model, cache))),
        warnings=(*warnings, *model.notes),
    )


def _state_note(states: list[Figure], plain: Format) -> tuple[str, ...]:
    return (f"recurrent state in fp32, convolution state in {plain.name}",) if states else ()


def _per_token(model: Model, cache: Format) -> Figure:
    """Each new token, while it is inside every window."""
    parts = []
    for mixer, layers in mixers(model):
        for entry in mixer.entries:
            if entry.stored and entry.tokens is None:
                size = entry_bytes(entry, layers, cache)
                if entry.ratio > 1:
                    size = f.amortised.of(as_name=size.name, bytes_per_entry=size, ratio=Figure("ratio", entry.ratio, "", CONFIG))
                parts.append(size)
    return parts[0] if len(parts) == 1 else total("kv_bytes_per_token", "B/token", tuple(parts))


# ---- the weights --------------------------------------------------------------------------------------------------

PARTS = (
    "embedding", "positions", "encoder", "attention", "indexer", "state", "mlp", "experts", "shared experts", "router", "norms", "head",
    "vision", "audio", "projector", "mtp",
)  # fmt: skip


def _weight_figure(weight: Weight, layers: int) -> Figure:
    def read(name: str, value: int) -> Figure:
        return Figure(name, value, "", CONFIG)

    if weight.copies == 1 and weight.columns == 1:
        return f.vector_params.of(as_name=weight.name, layers=read("layers", layers), width=read("width", weight.rows))
    return f.matrix_params.of(
        as_name=weight.name,
        layers=read("layers", layers),
        copies=read("copies", weight.copies),
        rows=read("rows", weight.rows),
        columns=read("columns", weight.columns),
    )


def language_params(model: Model) -> int:
    """Parameters of the language model: embedding, layers, head."""
    return sum(layers * weight.params for layers, weight in model_weights(model))


def published_counts(model: Model) -> set[int]:
    """What a repository may publish as the parameter count: the language model, with or without towers and prediction modules."""
    language, towers, ahead = (
        language_params(model), sum(weight.params for weight in model.towers or ()), sum(weight.params for weight in model.stack.mtp)
    )  # fmt: skip
    return {language + tower + module for tower in (0, towers) for module in (0, ahead)}


def head_params(model: Model) -> int:
    """Parameters of the LM head, tied or not; of a prompt only the last token needs it."""
    return model.stack.vocab * model.stack.embedding[0].columns if model.stack.generates else 0


def active_params(model: Model, *, embedding: bool = False) -> int:
    """Parameters that one token multiplies with: no embedding table, the LM head (also a tied one), top_k experts.

    `embedding` adds the table where it is not the head itself.
    """
    stack = model.stack
    active = sum(layers * weight.active_params for layers, weight in model_weights(model) if weight.part != "embedding")
    tables = sum(weight.params for weight in stack.embedding)
    if stack.tied:
        active += head_params(model)
        tables -= head_params(model)
    return active + (tables if embedding else 0)


def multiplied_params(model: Model) -> int:
    """The same, counting a block that several layers share as often as a token passes it."""
    again = sum(layers * weight.active_params * (weight.uses - 1) for layers, weight in model_weights(model))
    return active_params(model) + again


def weight_format(model: Model, name: str, engine: Engine | None = None) -> tuple[Format, str]:
    """The format of that name and where it comes from.

    Of a server's engine, the checkpoint itself where it ships in that format, else the file that its tools would write. Without an
    engine fp8, int8 and int4 mean every parameter, as the textbook's do, and under a desktop engine every name does. Errors
    (ConfigError): unknown-quantization, bad-quantization.
    """
    plain, assumed = compute_format(model)
    if name.lower() != "auto":
        named = formats.find(name)
        named = formats.find(dict(engine.meant).get(named.name, named.name)) if engine else named
        alike = engine.kind == "desktop" if engine and engine.kind else named.name in checkpoint.PLAIN
        alike = alike and not any(named.table_bits)
        recipe = None if alike else checkpoint.made(model, named, plain)
        shipped = _shipped(model, plain) if recipe else None
        if shipped is not None and shipped.name == named.name:
            return shipped, f"asked for, and as the checkpoint ships: {shipped.note or 'in that format'}; the rest in {plain.name}"
        if recipe is not None:
            return recipe, f"asked for, as its files are made: {recipe.note}; the rest in {plain.name}"
        mix = f"; {named.note}" if named.note.startswith("GGUF mix") else ""
        return named, f"asked for; it applies to every parameter{mix}"
    shipped = checkpoint.read(model, plain)
    if shipped is None:
        return plain, assumed or f"the checkpoint's dtype ({model.dtype})"
    if model.quantization and model.quantization.get("quant_method") == "gguf":
        return shipped, "counted from the tensors in the GGUF file"
    if engine and engine.kind == "desktop" and model.quantization and model.quantization.get("quant_method") == "mxfp4":
        filed = checkpoint.on_desktops(model, shipped, plain)
        return filed, f"as published for {engine.name}: experts in mxfp4, other matrices in 8 bits"
    if model.quantization:
        return shipped, f"as the checkpoint ships: {shipped.note or 'no parameter is quantised'}; the rest in {plain.name}"
    if shipped.name != plain.name:
        return shipped, f"the config states no dtype, and files of model type {model.model_type} hold fp32"
    return shipped, assumed or f"the checkpoint's dtype ({model.dtype})"


def _shipped(model: Model, plain: Format) -> Checkpoint | None:
    """The checkpoint's own format, or None where it has none that is known."""
    try:
        return checkpoint.read(model, plain) if model.quantization else None
    except ConfigError:
        return None


def weight_bytes(model: Model, fmt: Format, name: str, chosen: Callable[[Weight], bool], *, towers: bool = False) -> Figure:
    """Bytes of the chosen weights of the language model, and of the towers: in one format, or each as the checkpoint stores it."""
    pairs = model_weights(model)
    if isinstance(fmt, Checkpoint):
        held = sum(checkpoint.size(weight, kept) for (_, weight), kept in zip(pairs, fmt.language, strict=True) if chosen(weight))
        if towers:
            held += (
                sum(checkpoint.size(weight, kept) for weight, kept in zip(model.towers or (), fmt.towers, strict=True)) + fmt.buffer_bytes
            )
        return Figure(name, whole(held), "B", f"as the checkpoint stores them ({fmt.name})")
    params = sum(layers * weight.params for layers, weight in pairs if chosen(weight))
    params += sum(weight.params for weight in model.towers or ()) if towers else 0
    bits = Figure("bits_per_weight", fmt.bits, "bit", fmt.name)
    return f.weight_bytes.of(as_name=name, params=Figure("params", params, "params", CONFIG), bits_per_weight=bits)


def stored_figure(weight: Weight, kept: tuple[checkpoint.Kept, ...]) -> Figure:
    """Bytes of one weight as the checkpoint stores it, scheme by scheme."""
    parts = [
        f.stored_bytes.of(
            {"matrices": Figure("matrices", part.matrices, "", CONFIG)}
            | {key: Figure(key, value, "", part.scheme.name) for key, value in part.scheme.inputs(weight.rows, weight.columns).items()},
            as_name=f"{weight.name}_bytes",
        )
        for part in kept
    ]
    return parts[0] if len(parts) == 1 else total(f"{weight.name}_bytes", "B", tuple(parts))


@answer("weights", rows=True)
class Part(Answer):
    """One part of a model."""

    part: str = field("part")
    params: int = field("parameters", "params")
    active_params: int = field("active per token", "params", rank=1)
    bytes: float | None = field("bytes", "B")


@answer("weights")
class Weights(Answer):
    """What a model has in parameters, and their bytes in one format."""

    language_params: int = field("language model", "params")
    tower_params: int | None = field("vision and audio towers", "params")
    total_params: int | None = field("all parameters", "params")
    active_params: int = field("active per token", "params", "without the embedding table, with the head")
    active_params_with_embedding: int = field("  with the embedding", "params")
    embedding_params: int = field("embedding table", "params", shown=False)
    weight_bytes: int | None = field("weights", "B")
    bits_per_weight: float | None = field("bits per weight")
    mtp_params: int = field("multi-token prediction", "params", "apart, not in the total")
    mtp_bytes: float | None = field("  in bytes", "B")


def _mtp_bytes(model: Model, fmt: Format) -> int | float:
    """Of the layers that predict further tokens."""
    if isinstance(fmt, Checkpoint):
        return whole(sum(checkpoint.size(weight, kept) for weight, kept in zip(model.stack.mtp, fmt.mtp, strict=True)))
    return whole(f.weight_bytes(sum(weight.params for weight in model.stack.mtp), fmt.bits))


def weights(model: Model, weights_format: str = "auto") -> Answered[Weights, Part]:
    """Parameters by part, and their bytes; bytes are None where nobody knows the checkpoint's quantiser."""
    warnings = list(model.notes)
    fmt: Format | None
    try:
        fmt, origin = weight_format(model, weights_format)
    except ConfigError as problem:
        fmt, origin = None, problem.message
        warnings.append(f"weight_bytes and bits_per_weight: {problem.message}; {problem.hint}")
    shipped = fmt if isinstance(fmt, Checkpoint) else None
    by_part: dict[str, list[Figure]] = {}
    sizes: dict[str, list[Figure]] = {}
    active: dict[str, int] = {}
    towers: dict[str, int] = {}

    def add(layers: int, weight: Weight, kept: tuple[checkpoint.Kept, ...] | None) -> None:
        params = _weight_figure(weight, layers)
        by_part.setdefault(weight.part, []).append(params)
        if kept is not None:
            sizes.setdefault(weight.part, []).append(stored_figure(weight, kept))
        elif fmt is not None:
            bits = Figure("bits_per_weight", fmt.bits, "bit", fmt.name)
            sizes.setdefault(weight.part, []).append(f.weight_bytes.of(as_name=f"{weight.name}_bytes", params=params, bits_per_weight=bits))

    for index, (layers, weight) in enumerate(model_weights(model)):
        add(layers, weight, shipped.language[index] if shipped else None)
        active[weight.part] = active.get(weight.part, 0) + layers * weight.active_params
    active.pop("embedding", None)
    for index, weight in enumerate(model.towers or ()):
        add(1, weight, shipped.towers[index] if shipped else None)
        towers[weight.part] = towers.get(weight.part, 0) + weight.params
    for name, elements, each in shipped.buffers if shipped else ():
        sizes.setdefault("router", []).append(Figure(f"{name} bytes", elements * each, "B", "in the file, and no parameter"))
    language = total(
        "language_params",
        "params",
        tuple(total(part, "params", tuple(found)) for part, found in by_part.items() if part not in towers),
    )
    tower_params = None if model.towers is None else sum(towers.values())
    total_params = None if tower_params is None else language.value + tower_params
    counted = Figure("params", language.value if total_params is None else total_params, "params", "sum", None, (language,))
    size: Figure | None = None
    bits: Figure | None = None
    if shipped:
        size = total("weight_bytes", "B", tuple(total(f"{part}_bytes", "B", tuple(found)) for part, found in sizes.items()))
        bits = f.effective_bits.of(as_name="bits_per_weight", weight_bytes=size, params=counted)
    elif fmt:
        bits = Figure("bits_per_weight", fmt.bits, "bit", fmt.name)
        size = f.weight_bytes.of(params=counted, bits_per_weight=bits)
    rows = [
        Part(
            part=part,
            params=sum(figure.value for figure in by_part[part]),
            active_params=active.get(part, 0) if part not in towers else 0,
            bytes=whole(sum(figure.value for figure in sizes[part])) if part in sizes else None,
        )
        for part in sorted(by_part, key=lambda part: PARTS.index(part) if part in PARTS else len(PARTS))
    ]
    if total_params is None:
        warnings.append("tower_params and total_params: the shape of the tower is not read; bytes are of the language model alone")
    results = Weights(
        language_params=language.value,
        tower_params=tower_params,
        total_params=total_params,
        active_params=active_params(model),
        active_params_with_embedding=active_params(model, embedding=True),
        embedding_params=sum(weight.params for weight in model.stack.embedding),
        weight_bytes=round(size.value) if size else None,
        bits_per_weight=bits.value if bits else None,
        mtp_params=sum(weight.params for weight in model.stack.mtp),
        mtp_bytes=None if fmt is None else _mtp_bytes(model, fmt),
    )
    return Answered(
        results=results,
        figures={"weight_bytes": size} if size else {"language_params": language},
        rows=tuple(rows),
        inputs={"weights": fmt.name if fmt else "auto", "bits_per_weight": bits.value if bits else None},
        assumptions=(f"weights in {fmt.name}: {origin}",) if fmt else (),
        warnings=tuple(warnings),
    )
