"""What an engine holds on a device beside weights and cache: activations, graphs, padding, buffers."""

from __future__ import annotations

from typing import Any

from llmcalc.architecture import Layer, Model
from llmcalc.checkpoint import Checkpoint
from llmcalc.engines import GIB
from llmcalc.errors import UsageError
from llmcalc.estimate import layout, memory
from llmcalc.figures import Figure, total
from llmcalc.formats import FORMATS
from llmcalc.formulas import engines as f
from llmcalc.model import weights as model_weights
from llmcalc.plan import Deployment

DRIVER_BYTES, DRIVER_SHARE = 0.36 * GIB, 0.0022
"""What NVIDIA's driver keeps of the size that nvidia-smi prints: 79.18 GiB of 79.65 (H100), 23.58 of 24 (3090), 94.97 of 95.59."""

COPIED = "copies of small weights"
"""The row of what tensor parallelism does not cut."""


def device_bytes(plan: Deployment) -> float:
    """Memory of one device, as the engine counts it: nominal, or the driver's. Errors: no-memory-size."""
    device = plan.device
    each = device.memory_bytes if plan.engine.nominal else device.memory_usable_bytes
    if each is None:
        raise UsageError("no-memory-size", f"{device.id} comes with any amount of memory", f"name it with one, such as '{device.id} 256GB'")
    return each


def visible_bytes(plan: Deployment) -> Figure:
    """Memory of one device as a program sees it. Errors: no-memory-size, wrong-engine."""
    device = plan.device
    if plan.engine.family == "mlx" and device.vendor != "Apple":
        raise UsageError("wrong-engine", f"mlx runs on Apple's devices, not on {device.id}", "try `engine=llama.cpp`")
    each = device_bytes(plan)
    reported = Figure("reported_bytes", each, "B", f"{device.id}, as the driver reports it")
    if device.vendor != "NVIDIA" or device.kind != "gpu":
        return Figure("visible_bytes", each, "B", reported.origin)
    return f.visible_bytes.of(
        reported_bytes=reported,
        driver_bytes=Figure("driver_bytes", DRIVER_BYTES, "B", "NVIDIA's driver"),
        driver_share=Figure("driver_share", DRIVER_SHARE, "", "NVIDIA's driver"),
    )


def graph_count(sequences: int) -> int:
    """Batch sizes that vLLM captures for mixed steps (up to twice the sequences and 512) and again for decode steps."""
    sizes = [1, 2, 4, *range(8, 257, 8), *range(272, 513, 16)]
    return sum(1 for each in sizes if each <= min(2 * sequences, 512)) + sum(1 for each in sizes if each <= sequences)


def hopper(plan: Deployment) -> bool:
    """Whether the attention kernels read a cache in fp8 without FlashInfer."""
    device = plan.device
    return (device.memory_type or "").startswith("HBM") and "fp8" in device.compute and "fp4" not in device.compute


def light(model: Model, plan: Deployment) -> bool:
    """Whether vLLM's second model runner is the default: for dense decoders of text, 16 bits wide. [config/vllm.py: use_v2_model_runner]"""
    plain = plan.engine.light_runner and plan.weights.bits >= 16 and not model.quantization and not model.towers
    kinds = all(mixer.kind == "full" for mixer, _ in memory.mixers(model))
    return plain and kinds and not any(mixture(group.layer) for group in model.groups)


def layer_widths(layer: Layer, hidden: int, tp: int) -> float:
    """Elements per token that the products of a layer's mixer or MLP hold at once: every output and the widest input."""
    found = 0.0
    parts: dict[str, list[tuple[int, int]]] = {}
    for weight in layer.all_weights:
        if weight.columns > 1 and not layout.routed(weight) and weight.part in ("attention", "mlp", "shared experts"):
            parts.setdefault(weight.part, []).append((weight.rows, weight.columns))
    for shapes in parts.values():
        cut = [width if width == hidden else width / tp for width in (*(rows for rows, _ in shapes), max(columns for _, columns in shapes))]
        found = max(found, sum(cut))
    return found


def mixture(layer: Layer) -> bool:
    """Whether a layer's MLP chooses experts token by token."""
    return any(layout.routed(weight) for weight in layer.all_weights)


def expert_shape(model: Model) -> tuple[int, int, int] | None:
    """(experts per token, width in, width inside) of the widest mixture."""
    found = []
    for group in model.groups:
        mlp = group.layer.mlp
        down = [weight for weight in mlp.weights if layout.routed(weight) and weight.columns > 1] if mlp else []
        if mlp and down:
            found.append((mlp.top_k, down[-1].rows, down[-1].columns))
    return max(found, key=lambda shape: shape[0] * (shape[1] + shape[2]), default=None)


def activation(model: Model, plan: Deployment, ctx: Any) -> Figure:
    """Peak of a step on one device: hidden states, workspaces, and the larger of a layer and the sampler."""
    engine = plan.engine
    hidden, vocab = model.stack.hidden, model.stack.vocab
    tokens = Figure(
        "tokens", plan.step_tokens(ctx), "tokens", "`max_num_batched_tokens`" if plan.batched_tokens else f"engine {engine.name}, default"
    )
    width = Figure("bytes_per_element", layout.ACTIVATION_BYTES, "B", "16-bit activations")
    rows = tokens.value if engine.whole_layers else plan.slots
    logits = f.sampler_bytes.of(
        sequences=Figure("sequences", rows, "", "`max_num_seqs`" if plan.max_sequences else f"engine {engine.name}, default"),
        vocab=Figure("vocab", vocab, "", memory.CONFIG),
        bytes_per_logit=engine.figure("bytes_per_logit", 4 if light(model, plan) else engine.logit_bytes, "B"),
    )

    def products(*, experts: bool) -> Figure:
        spans = [layer_widths(group.layer, hidden, plan.tp) for group in model.groups if mixture(group.layer) == experts]
        return f.forward_bytes.of(
            tokens=tokens, widths=Figure("widths", max(spans, default=0), "elements", memory.CONFIG), bytes_per_element=width
        )

    states = f.forward_bytes.of(
        as_name="hidden_bytes", tokens=tokens, widths=Figure("widths", 2 * hidden, "elements", memory.CONFIG), bytes_per_element=width
    )
    dense, mixed = products(experts=False), products(experts=True)
    workspace = Figure("workspace_bytes", 0, "B", "no mixture of experts")
    if shape := expert_shape(model):
        top_k, into, inner = shape
        workspace = f.expert_workspace_bytes.of(
            as_name="workspace_bytes",
            tokens=tokens,
            top_k=Figure("top_k", top_k, "", memory.CONFIG),
            hidden=Figure("hidden", into, "", memory.CONFIG),
            inner=Figure("inner", held := inner if plan.ep > 1 else inner / plan.tp, "", memory.CONFIG),
            second=engine.figure("second", max(into, held) if engine.wide_buffers else held + into),
            bytes_per_element=width,
        )
        if not engine.keeps_workspaces:
            mixed = total("forward_bytes", "B", (mixed, workspace))
            workspace = Figure("workspace_bytes", 0, "B", f"only while a layer runs in {engine.name}")
    forward = max(dense, mixed, key=lambda figure: figure.value)
    step = f.activation_bytes.of(hidden_bytes=states, workspace_bytes=workspace, forward_bytes=forward, sampler_bytes=logits)
    image = encoder(model, plan, tokens) if plan.encoder else None
    if image is None:
        return step
    if engine.whole_profile:
        beside = f.forward_bytes.of(
            as_name="step_bytes", tokens=tokens, widths=Figure("widths", 2 * hidden, "elements", memory.CONFIG), bytes_per_element=width
        )
        image = (total("encoder_bytes", "B", (image[0], image[1], beside, forward)), image[1])
    return f.profile_bytes.of(encoder_bytes=image[0], image_bytes=image[1], activation_bytes=step)


def encoder(model: Model, plan: Deployment, tokens: Figure) -> tuple[Figure, Figure] | None:
    """(peak of encoding the images that a profile takes, the encoded images), where a tower merges patches as Qwen's do."""
    tower = {weight.name: weight for weight in model.towers or ()}
    if not plan.engine.image_tokens or not tower.keys() >= {"patch_embed.proj", "merger.fc1", "merger.fc2"}:
        return None
    hidden, gate = tower["patch_embed.proj"].rows, tower.get("gate_proj")
    inner = gate or tower["fc1"]
    budget = max(plan.engine.image_tokens, tokens.value)
    merged = tower["merger.fc1"].columns // hidden
    width = Figure("bytes_per_element", layout.ACTIVATION_BYTES, "B", "16-bit activations")
    peak = f.encoder_bytes.of(
        patches=plan.engine.figure("patches", budget * merged),
        hidden=Figure("hidden", hidden, "", memory.CONFIG),
        inner=Figure("inner", inner.rows / (plan.tp if plan.engine.whole_profile else 1), "", memory.CONFIG),
        products=Figure("products", 3 if gate else 2, "", memory.CONFIG),
        bytes_per_element=width,
    )
    out = sum(weight.rows * weight.copies for name, weight in tower.items() if name in ("merger.fc2", "deepstack.fc2"))
    widths = Figure("widths", out, "elements", memory.CONFIG)
    encoded = f.forward_bytes.of(as_name="image_bytes", tokens=plan.engine.figure("tokens", budget), widths=widths, bytes_per_element=width)
    return peak, encoded


def padding(model: Model, plan: Deployment) -> Figure | None:
    """What the kernels add to MXFP4 experts on one device, or None."""
    shape, (inside, across) = expert_shape(model), plan.engine.expert_tiles
    if not shape or across == 1:
        return None
    parts = []
    _, into, inner = shape
    held = inner if plan.ep > 1 else inner / plan.tp
    wider, longer = -(-held // inside) * inside / held, -(-into // across) * across / into
    for index, (layers, weight) in enumerate(model_weights(model)):
        name = plan.weights.of(index).name if isinstance(plan.weights, Checkpoint) else plan.weights.name
        if name == "mxfp4" and layout.routed(weight) and weight.columns > 1 and wider * longer > 1:
            down = weight.columns == inner and weight.rows == into
            by_row, by_column = (longer, wider) if down else (wider, longer)
            parts.append(
                f.padding_bytes.of(
                    matrices=Figure("matrices", layers * weight.copies / plan.ranks, "", memory.CONFIG),
                    rows=Figure("rows", weight.rows, "", memory.CONFIG),
                    columns=Figure("columns", weight.columns, "", memory.CONFIG),
                    padded_rows=plan.engine.figure("padded_rows", weight.rows * by_row),
                    padded_columns=plan.engine.figure("padded_columns", weight.columns * by_column),
                    bits=Figure("bits", FORMATS["mxfp4"].bits, "bit", "mxfp4"),
                )
            )
    return total("padding_bytes", "B", tuple(parts)) if parts else None


def overheads(model: Model, plan: Deployment, ctx: Any) -> dict[str, Figure]:
    """What the engine holds on one device beside weights and cache."""
    engine = plan.engine
    found: dict[str, Figure] = {}
    if engine.share_rule is None:
        found["activations"] = activation(model, plan, ctx)
    if engine.graphs and plan.graphs and not light(model, plan):
        mixed = sum(group.count for group in model.groups if mixture(group.layer))
        wide = plan.kv.bits > 8 or hopper(plan)
        found["CUDA graphs"] = f.graph_bytes.of(
            workspace_bytes=engine.figure("workspace_bytes", 0 if wide else engine.graph_workspace_bytes, "B"),
            graphs=Figure("graphs", graph_count(plan.slots), "", "captured batch sizes"),
            layers=Figure("layers", (len(model.stack.layers) - mixed) / plan.pp, "", memory.CONFIG),
            bytes_per_layer=engine.figure("bytes_per_layer", engine.graphs[0], "B"),
            mixtures=Figure("mixtures", mixed / plan.pp, "", memory.CONFIG),
            bytes_per_mixture=engine.figure("bytes_per_mixture", engine.graphs[1 + (plan.dp > 1)], "B"),
        )
    if padded := padding(model, plan):
        found["padding of experts"] = padded
    if copied := layout.copied_weight_bytes(model, plan):
        found[COPIED] = copied
    linked = plan.device.link is not None and "NVLink" in plan.device.link.type
    other = engine.other_bytes[0 if plan.ranks == 1 else 1 + linked]
    found["other buffers"] = engine.figure("other_bytes", other, "B")
    if engine.host_bytes and plan.ranks > 1 and plan.device.device_class == "unified":
        found["host's side of several machines"] = engine.figure("host_bytes", engine.host_bytes, "B")
    return found
