"""DeepSeek-V4 in vLLM's pool: pages of a few sizes, in tuples that all its caches share.

A block of the pool is a tuple (one page of every size) for each of the layers that go together. Compressed entries hold the
context; windows and compressors are charged a step's tokens. [vllm-project/vllm v1/core/kv_cache_utils.py, 0.22]
"""

from __future__ import annotations

from dataclasses import dataclass

from llmcalc.architecture import Attention, Entry, Model
from llmcalc.estimate import layout, memory
from llmcalc.figures import Figure, total
from llmcalc.formulas import engines as f
from llmcalc.formulas import memory as m
from llmcalc.plan import Deployment

FULL, WINDOW, OVERLAPPED, PLAIN = 256, 64, 4, 8
"""Tokens of a block: compressed entries, the window, a compressor whose groups overlap, and one whose groups do not."""
ALIGNMENT, ROTARY, SCALED = 576, 64, 64


@dataclass(frozen=True, slots=True)
class Cache:
    """Alike caches of some layers on one rank: those of a block length share a block table."""

    block_tokens: int
    layers: int
    page: Figure
    window: int = 0


def _key(name: str, value: float, unit: str = "") -> Figure:
    return Figure(name, value, unit, "vLLM's layout of DeepSeek-V4")


def _page(entries: float, entry: Figure) -> Figure:
    return f.aligned_page_bytes.of(
        entries=_key("entries", entries), entry_bytes=entry, alignment_bytes=_key("alignment_bytes", ALIGNMENT, "B")
    )


def _caches(mixer: Attention, layers: int) -> list[Cache]:
    found = []
    indexed = any(entry.formula is m.index_bytes_per_token for entry in mixer.entries)
    for entry in mixer.entries:
        width = Figure("head_dim", entry.args[0][1], "", memory.CONFIG)
        packed = _packed(entry, width)
        if entry.window is not None:
            found.append(Cache(WINDOW, layers, _page(WINDOW, packed), entry.window))
            continue
        overlap, block = (2, OVERLAPPED) if indexed else (1, PLAIN)
        state = f.compressor_entry_bytes.of(head_dim=width, overlap=_key("overlap", overlap))
        found.append(Cache(FULL, layers, _page(FULL / entry.ratio, packed)))
        found.append(Cache(block, layers, _page(block, state), overlap * entry.ratio))
    return found


def _packed(entry: Entry, width: Figure) -> Figure:
    if entry.formula is m.index_bytes_per_token:
        one = {"layers": _key("layers", 1), "element_bytes": _key("element_bytes", 1, "B"), "scale_bytes": _key("scale_bytes", 4, "B")}
        return f.packed_index_bytes.of(one, index_head_dim=width)
    return f.packed_entry_bytes.of(head_dim=width, rope_dim=_key("rope_dim", ROTARY), scaled_elements=_key("scaled_elements", SCALED))


def depth(heights: list[int]) -> int:
    """Layers of a block: what pads the groups least from the first one's height on; the larger of two that tie."""
    return min(range(heights[0], max(heights) + 1), key=lambda size: (sum(-height % size for height in heights), -size))


@dataclass(frozen=True, slots=True)
class Tuples:
    """How a rank's pool is cut."""

    caches: tuple[Cache, ...]
    depth: int
    """Tuples of a block."""
    sizes: tuple[float, ...]
    """Pages of a tuple, in rising size."""
    full_bytes: Figure
    """A block of every layer with compressed entries."""

    @classmethod
    def of(cls, model: Model, plan: Deployment) -> Tuples | None:
        """None for models without compressed entries."""
        mixers = layout.pooled_mixers(model, plan)
        if not plan.engine.grouped or not any(mixer.kind.startswith("compressed") for mixer, _ in mixers):
            return None
        caches = [cache for mixer, layers in mixers for cache in _caches(mixer, -(-layers // plan.pp))]
        sizes = tuple(sorted({cache.page.value for cache in caches if cache.block_tokens == FULL}))

        def height(block: int) -> int:
            stacked: dict[float, int] = {}
            for cache in caches:
                if cache.block_tokens == block:
                    size = _fitting(cache, sizes)
                    stacked[size] = stacked.get(size, 0) + cache.layers
            return max(stacked.values())

        blocks = dict.fromkeys((FULL, *(cache.block_tokens for cache in caches)))
        full = total(
            "full_block_bytes", "B", tuple(_held(cache, _key("blocks", 1), sizes) for cache in caches if cache.block_tokens == FULL)
        )
        return cls(tuple(caches), depth([height(block) for block in blocks]), sizes, full)

    def sequence_bytes(self, plan: Deployment, ctx: Figure) -> Figure:
        """Bytes of a sequence over the ranks, none of which shares its cache with another."""
        held = total("held_bytes", "B", tuple(_held(cache, self.blocks(cache, plan, ctx), self.sizes) for cache in self.caches))
        return f.grouped_bytes.of(
            as_name="kv_bytes_per_sequence",
            blocks=f.shared_blocks.of(held_bytes=held, block_bytes=self.full_bytes),
            groups=_key("groups", 1),
            layers_per_group=_key("layers_per_group", self.depth),
            page_bytes=_key("page_bytes", sum(self.sizes), "B"),
            ranks=Figure("ranks", plan.tp // plan.dcp * plan.pp, "", layout.LAYOUT),
        )

    def words(self, plan: Deployment, ctx: Figure) -> str:
        """Blocks of a sequence by the tokens of a block."""
        found = {cache.block_tokens: self.blocks(cache, plan, ctx).value for cache in self.caches}
        return ", ".join(f"{number:,} blocks of {tokens}" for tokens, number in found.items())

    def blocks(self, cache: Cache, plan: Deployment, ctx: Figure) -> Figure:
        """Blocks that a sequence takes in a cache."""
        block = _key("block_tokens", cache.block_tokens, "tokens")
        if cache.block_tokens == FULL:
            return f.full_blocks.of(as_name="blocks", ctx_tokens=ctx, block_tokens=block)
        step = Figure("batched_tokens", plan.step_tokens(ctx.value), "tokens", "`max_num_batched_tokens`, or the engine's default")
        window = _key("window_tokens", cache.window, "tokens")
        return f.window_blocks.of(as_name="blocks", ctx_tokens=ctx, window_tokens=window, batched_tokens=step, block_tokens=block)


def _fitting(cache: Cache, sizes: tuple[float, ...]) -> float:
    """The next of the sizes that compressed entries have. [B]"""
    return min(size for size in sizes if size >= cache.page.value)


def _held(cache: Cache, blocks: Figure, sizes: tuple[float, ...]) -> Figure:
    """Bytes of so many blocks, in pages that fit."""
    size = _fitting(cache, sizes)
    page = cache.page if size == cache.page.value else _key("page_bytes", size, "B")
    one = {"groups": _key("groups", 1), "ranks": _key("ranks", 1)}
    return f.grouped_bytes.of(
        one, as_name="block_bytes", blocks=blocks, layers_per_group=_key("layers_per_group", cache.layers), page_bytes=page
    )
