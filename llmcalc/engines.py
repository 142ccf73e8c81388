"""The table of engine memory policies: what share of a device an engine uses, what it holds beside weights, how it rounds.

`napkin` is the course notes' policy: the nominal size in decimal bytes, all of it, nothing rounded. The others count the
driver's size. A release that changed the rules has a row of its own: `vllm@0.11` takes the newest row that is not younger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmcalc.errors import UsageError, close_matches, printable

MIB, GIB = 2**20, 2**30
DRIVER_BYTES, DRIVER_SHARE = 0.36 * GIB, 0.0022
"""What NVIDIA's driver keeps of the size that nvidia-smi prints: 79.18 GiB of 79.65 (H100), 23.58 of 24 (3090), 94.97 of 95.59."""
GRAPHS_BYTES, GRAPH_BYTES = 0.25 * GIB, 0.009 * GIB
"""CUDA graphs: of any number, and of each captured batch size. [vLLM's start-up logs from 0.21 on]"""
FLOAT32_STATES = {"qwen3_5", "qwen3_5_moe", "nemotron_h"}
"""Families whose configs state float32 (mamba_ssm_dtype, mamba_ssm_cache_dtype). [vLLM: model_executor/models/config.py]"""
LARGE_BYTES = 70 * GIB
"""From here on a device counts as large for vLLM's defaults; an A100 never does."""


START = {
    "vllm": "vllm serve {model} --max-model-len {ctx} --gpu-memory-utilization {share} --max-num-seqs {seqs}",
    "sglang": "python -m sglang.launch_server --model-path {model} --context-length {ctx} --mem-fraction-static {share}",
    "llama.cpp": "llama-server -hf {model} -ngl 99 -c {all} -np {seqs}",
    "trt-llm": "trtllm-serve {model} --max_seq_len {ctx} --kv_cache_free_gpu_memory_fraction {share}",
    "ollama": "OLLAMA_CONTEXT_LENGTH={ctx} OLLAMA_NUM_PARALLEL={seqs}",
    "mlx": "mlx_lm.server --model {model}",
}
"""The command that starts an engine; {all}: the context of all slots together."""
FLAGS = {
    "vllm": "--max-num-batched-tokens {step} --tensor-parallel-size {tp} --pipeline-parallel-size {pp} --data-parallel-size {dp} "
    "--enable-expert-parallel {ep} --kv-cache-dtype {kv}",
    "sglang": "--chunked-prefill-size {step} --max-running-requests {asked} --tp-size {tp} --pp-size {pp} --ep-size {ep} "
    "--kv-cache-dtype {kv}",
    "llama.cpp": "-ub {step} -ctk {kv} -ctv {kv}",
    "trt-llm": "--max_num_tokens {step} --max_batch_size {asked} --tp_size {tp} --pp_size {pp} --ep_size {ep}",
    "ollama": "OLLAMA_KV_CACHE_TYPE= {kv}",
    "mlx": "",
}
"""Pairs of a flag and what it takes, each given where that differs from the engine's default."""


@dataclass(frozen=True, slots=True)
class Engine:
    """One policy. Sizes are per device [B], `batched` and `sequences` are (small device, large device)."""

    name: str
    nominal: bool = True
    """The decimal size instead of the driver's."""
    utilization: float = 1.0
    of_free: bool = False
    """The share applies to what weights and buffers leave free."""
    pool: bool = False
    """Takes its whole share at start-up, whatever the model needs."""
    static: bool = False
    """SGLang's rule makes the share."""
    block_tokens: int = 1
    windows: str = "ideal"
    """What a window layer is charged: ideal, step (window - 1 + a step), cells (window + micro-batch), share (of all tokens), full."""
    grouped: bool = False
    """Layers in groups of equal size whose blocks have equal bytes."""
    state_blocks: int = 1
    """State blocks that a sequence takes, of which one is in use; vLLM: two with prefix caching, else one."""
    state_ratio: float = 0
    """States get ratio / (1 + ratio) of the pool."""
    whole_layers: bool = False
    """Several devices share a model layer by layer, so that no cache is replicated."""
    batched: tuple[int, int] = (1, 1)
    """Tokens of a step; 0: a whole context."""
    longest_step: int = 0
    """The longest context that is read whole, in a step; longer ones come 2,048 tokens at a time. 0: any."""
    sequences: tuple[int, int] = (1, 1)
    logit_bytes: float = 0
    """The sampler's peak per logit."""
    keeps_workspaces: bool = False
    wide_buffers: bool = False
    """Fused experts have two buffers as wide as a token; before, their three products had one each."""
    image_tokens: int = 0
    """Tokens of the largest image (Qwen's), which the engine encodes when it measures its peak."""
    expert_tiles: tuple[int, int] = (1, 1)
    """To what multiples the kernels pad MXFP4 experts: (width inside, width of a token)."""
    graphs: bool = False
    """CUDA graphs are taken from the budget."""
    other_bytes: tuple[float, float, float] = (0, 0, 0)
    """Context, communication, margin: (one device, several, several over NVLink)."""
    packed: bool = False
    """Sparse MLA in fp8 is 656 B per token and layer; its indexer takes 132 B in any format."""
    conv_fp32: bool = False
    plain_states: bool = False
    """Recurrent states take the dtype of the activations, unless a family's configs ask for float32."""
    log_groups: bool = False
    """The logged cache size divides the blocks by the groups instead of multiplying the concurrency."""
    vendors: tuple[str, ...] = ()
    """Whose devices it runs on; empty: anybody's."""
    source: str = ""

    @property
    def family(self) -> str:
        """The name without the release."""
        return self.name.partition("@")[0]


_VLLM = Engine(
    "vllm@0.8",
    nominal=False, pool=True, utilization=0.9, block_tokens=16, windows="step", grouped=True, packed=True, batched=(2048, 8192),
    sequences=(256, 1024), logit_bytes=38, other_bytes=(0.13 * GIB, 0.45 * GIB, 0.75 * GIB), log_groups=True,
    wide_buffers=True, image_tokens=16384, expert_tiles=(128, 256), plain_states=True,
    vendors=("NVIDIA", "AMD", "Intel", "Huawei", "Google"),
    source="vLLM 0.8 to 0.15 (V1): start-up logs and llm-d planner's empirical-vllm-memory-results.md",
)  # fmt: skip
_V0 = replace(
    _VLLM,
    name="vllm@0.6", batched=(0, 0), longest_step=32768, sequences=(256, 256), windows="full", grouped=False, wide_buffers=False,
    image_tokens=0, other_bytes=(0.2 * GIB, 0.3 * GIB, 0.3 * GIB),
    source="vLLM 0.6 and 0.7 (V0), which reads contexts up to 32,768 tokens whole: vllm-project/vllm issue 10517",
)  # fmt: skip
_RECENT = replace(_VLLM, logit_bytes=14, keeps_workspaces=True, state_blocks=2)
_ROWS = (
    Engine("napkin", source="the nominal size, no reserve: an upper bound that no engine reaches"),
    replace(
        _RECENT,
        name="vllm", utilization=0.92, graphs=True, log_groups=False, other_bytes=(0.27 * GIB, 0.70 * GIB, 0.95 * GIB),
        source="vLLM 0.21 and after: v1/core/kv_cache_utils.py and v1/kv_cache_interface.py @001cabc; share and graphs by start-up logs",
    ),
    replace(
        _RECENT,
        name="vllm@0.16", other_bytes=(0.27 * GIB, 0.45 * GIB, 2.10 * GIB),
        source="vLLM 0.16 to 0.20: llm-d planner's vllm_memory_constants.json, 49 runs of 0.19 on H100",
    ),
    _VLLM,
    _V0,
    replace(
        _V0,
        name="vllm@0.4", longest_step=0, other_bytes=(0.55 * GIB, 0.85 * GIB, 0.85 * GIB),
        source="vLLM 0.2.5 to 0.5: any prompt whole; what the allocator keeps counts as used: worker/worker.py @v0.4.2 and its logs",
    ),
    Engine(
        "sglang",
        nominal=False, pool=True, static=True, utilization=0.88, windows="share", state_ratio=0.9, state_blocks=3, packed=True,
        batched=(2048, 8192), sequences=(24, 256), other_bytes=(0.5 * GIB,) * 3, vendors=("NVIDIA", "AMD", "Huawei"),
        source="sgl-project/sglang srt/server_args.py @469c63e: memory settings, swa_full_tokens_ratio, mamba_full_memory_ratio",
    ),
    Engine(
        "llama.cpp",
        nominal=False, block_tokens=256, windows="cells", whole_layers=True, conv_fp32=True, batched=(512, 512), logit_bytes=4,
        other_bytes=(1.1 * GIB,) * 3,
        source="ggml-org/llama.cpp src/llama-kv-cache-iswa.cpp; llama_params_fit keeps 1024 MiB free; a micro-batch's logits by logs",
    ),
    Engine(
        "trt-llm",
        nominal=False, pool=True, utilization=0.9, of_free=True, block_tokens=32, windows="full", batched=(8192, 8192),
        sequences=(2048, 2048), logit_bytes=4, other_bytes=(0.6 * GIB, 1.6 * GIB, 1.6 * GIB), vendors=("NVIDIA",),
        source="NVIDIA/TensorRT-LLM llmapi/llm_args.py @fcd3f31: free_gpu_memory_fraction, max_num_tokens; buffers estimated",
    ),
    Engine(
        "ollama",
        nominal=False, block_tokens=256, windows="cells", whole_layers=True, conv_fp32=True, batched=(512, 512), logit_bytes=4,
        other_bytes=(0.55 * GIB,) * 3,
        source="ollama/ollama issues 10911 and 9246: every slot of OLLAMA_NUM_PARALLEL holds a whole context; 457 MiB kept free",
    ),
    Engine(
        "mlx",
        nominal=False, block_tokens=256, batched=(2048, 2048), logit_bytes=4, other_bytes=(0.25 * GIB,) * 3, vendors=("Apple",),
        source="ml-explore/mlx-lm models/cache.py: caches grow by 256 tokens; Metal's default limit of the unified memory",
    ),
)  # fmt: skip
ENGINES: dict[str, Engine] = {row.name: row for row in _ROWS}
_OTHER_NAMES = {
    "llamacpp": "llama.cpp", "llama-cpp": "llama.cpp", "llama-server": "llama.cpp", "trtllm": "trt-llm", "tensorrt-llm": "trt-llm",
    "mlx-lm": "mlx",
}  # fmt: skip


def names() -> list[str]:
    """The engines, without the rows of older releases."""
    return [name for name in ENGINES if "@" not in name]


def find(name: str) -> Engine:
    """The policy of that name, or `name@release`. Errors: unknown-engine."""
    plain, at, release = name.strip().lower().replace("==", "@").partition("@")
    plain = _OTHER_NAMES.get(plain, plain)
    row = ENGINES.get(plain)
    if row is None or (at and plain == "napkin"):
        near = close_matches(plain, names())
        raise UsageError(
            "unknown-engine",
            f"{printable(name, 40)!r} is not an engine that llmcalc knows",
            f"did you mean {near[0]}?" if near and row is None else f"known: {', '.join(names())}",
        )
    return _release(row, release) if at else row


def _release(row: Engine, text: str) -> Engine:
    parts = text.removeprefix("v").split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts[:2]):
        raise UsageError("unknown-engine", f"{printable(text, 20)!r} is not a release of {row.name}", f"write it like {row.name}@0.11")
    asked = tuple(int(part) for part in (*parts, "0")[:2])
    older = [other for other in ENGINES.values() if other.family == row.name and "@" in other.name]
    if not older or asked >= (0, 21):
        return row
    return next((other for other in older if tuple(int(part) for part in other.name.partition("@")[2].split(".")) <= asked), older[-1])
