"""GGUF metadata and tensor shapes -> a config in the Hub's key names, which the readers of families/ take.

One function per group of architectures, by what llama.cpp's converters write (conversion/*.py, gguf-py constants). Where a
key says less than the tensors do (biases, ties, which layers attend, widths), the tensors decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llmcalc.config import MOST_LAYERS
from llmcalc.errors import ConfigError, close_matches, printable
from llmcalc.files import Files
from llmcalc.gguf import MIXES, Skipped

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


_ENCODERS = """bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding llama-embed
    t5encoder""".split()
WITHOUT_CACHE = {
    **dict.fromkeys(_ENCODERS, "an encoder: it generates no tokens"),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), "a diffusion model: it refines all positions at once"),
}
BESIDE = {
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), "a draft model, of no use alone"),
    "wavtokenizer-dec": "a vocoder",
}


def config(files: Files) -> dict[str, Any]:
    """The config that a GGUF checkpoint describes. Errors: not-a-model, unknown-architecture, bad-config."""
    arch = files.metadata.get("general.architecture")
    kind = files.metadata.get("general.type", "model")
    if not isinstance(arch, str) or not arch:
        raise ConfigError("not-a-model", "this GGUF file names no general.architecture", "give the file that holds the language model")
    if arch == "clip" or kind != "model":
        said = "a vision or audio projector" if arch == "clip" or kind == "mmproj" else f"of type {printable(str(kind), 40)}"
        raise ConfigError("not-a-model", f"this GGUF file is {said}, not a language model", "give the file that holds the language model")
    if arch in WITHOUT_CACHE:
        message = f"the GGUF architecture {arch} is {WITHOUT_CACHE[arch]} and keeps no KV cache"
        raise ConfigError("no-kv-cache", message, "llmcalc sizes models that generate text token by token")
    if arch in BESIDE:
        raise ConfigError("not-a-model", f"the GGUF architecture {arch} is {BESIDE[arch]}", "give the file that holds the language model")
    builder = BUILDERS.get(arch)
    if builder is None:
        near = close_matches(arch, BUILDERS)
        hint = f"close ones that are read: {', '.join(near)}" if near else "give the id of the model it was made from, or its config.json"
        raise ConfigError("unknown-architecture", f"the GGUF architecture {printable(arch, 60)} is not read", hint)
    if not files.tensors:
        raise ConfigError("not-a-model", "this GGUF file holds no tensors (a vocabulary alone)", "give the file that holds the weights")
    source = Source(files, arch)
    given = builder(source)
    sizes: dict[str, list[int]] = {}
    for tensor in files.tensors:
        kind = part(tensor.name, source.depth, arch)
        held = sizes.setdefault(kind, [0, 0])
        held[0] += tensor.bytes
        held[1] += 0 if scales(tensor.name, arch) else tensor.elements
    given["quantization_config"] = {"quant_method": "gguf", "format": mix(files), "parts": sizes}
    return given


_PARTS = (
    (r"(per_layer_)?token_embd\.", "embedding"),
    (r"enc\.", "encoder"),
    (r"blk\.0\.time_mix_v[012]\.", "stand-ins"),
    (r"position_embd\.", "positions"),
    (r"output\.", "head"),
    (r"rope_(freqs|factors_\w+)\.", "rope factors"),
    (r"\w*_?norm\w*\.", "norms"),
    (r"(v|vision)\.", "vision"),
    (r"a\.", "audio"),
    (r"mm\.|resampler\.", "projector"),
    (r"blk\.\d+\.nextn\.", "mtp"),
    (r"blk\.\d+\.(exp_probs_b|exp_probs_b\.\w+)$", "balancing bias"),
    (r"blk\.\d+\.layer_output_scale(\.|$)", "layer scale"),
    (r"blk\.\d+\.indexer\.(proj|k_norm)", "indexer"),
    (r"blk\.\d+\.((\w+_)?norm(_\w+)?|time_mix_ln)\.", "norms"),
    (r"blk\.\d+\.ffn_gate_tid2eid", "routing tables"),
    (r"(blk\.\d+\.|output_)?hc_", "norms"),
    (r"blk\.\d+\.ffn_gate_inp", "router"),
    (r"blk\.\d+\.ffn_(gate|up|down|gate_up)(_exps|\.\d+)|blk\.\d+\.ffn_latent_", "experts"),
    (r"blk\.\d+\.ffn_\w+_shexp\.", "shared experts"),
    (r"blk\.\d+\.(ssm_(in|out|x|ba|alpha|beta|f_\w|g_\w)|shortconv\.(in|out)_proj)\.", "attention"),
    (r"blk\.\d+\.ssm_dt\.weight", "attention"),
    (r"blk\.\d+\.time_mix_((decay_)?[wavg][12]|key|value|receptance|gate|output)\.", "attention"),
    (r"blk\.\d+\.(ssm_|shortconv\.|time_mix_|channel_mix_lerp_)", "state"),
    (r"blk\.\d+\.(attn_|cross_attn_|indexer\.)", "attention"),
)
_KNOWN_PARTS = re.compile("|".join(f"(?P<p{number}>{pattern})" for number, (pattern, _) in enumerate(_PARTS)))


def part(name: str, depth: int, arch: str = "") -> str:
    """The part of the model that a tensor belongs to, in the words of the readers; what is no parameter has words of its own."""
    if arch == "gemma4" and name.endswith(".ffn_down_exps.scale"):
        return "router"  # its weight per expert, not a quantiser's scale
    name = name.removeprefix("dec.")
    layer = re.match(r"blk\.(\d{1,6})\.", name)
    if layer and int(layer[1]) >= depth:
        return "mtp"
    found = _KNOWN_PARTS.match(name)
    return _PARTS[int(found.lastgroup[1:])][1] if found and found.lastgroup else "mlp"


def scales(name: str, arch: str) -> bool:
    """Whether a tensor is the scale of a quantised matrix: bytes of its part, and no parameter. Gemma 4 has scales of its own."""
    return name.endswith((".scale", ".input_scale")) and arch != "gemma4"


NO_PARAMETERS = {
    "rope factors": "factors of the rotary embedding, computed from the config elsewhere",
    "balancing bias": "the router's balancing bias, a buffer and no parameter",
    "routing tables": "tables that route by token, buffers and no parameters",
    "layer scale": "one scale per layer, a buffer and no parameter",
    "stand-ins": "copies in the first layer, which nothing reads",
}


def mix(files: Files) -> str:
    """What the quantiser was asked for, else the type that most bytes have."""
    named = MIXES.get(files.metadata.get("general.file_type", -1))
    if named:
        return named
    sizes: dict[str, int] = {}
    for tensor in files.tensors:
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.bytes
    most = max(sizes, key=lambda name: sizes[name]).lower() if sizes else "none"
    return {"f16": "fp16", "f32": "fp32"}.get(most, most)


# ---- what most architectures share --------------------------------------------------------------------------------


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


# ---- dense decoders -----------------------------------------------------------------------------------------------


@architecture("llama", "mistral3", "internlm2", "baichuan", "xverse", "minicpm", "granite", "maincoder", "pangu-embedded", "refact")
def llama(s: Source) -> Given:
    """Llama and whatever was converted into its form; with experts Mixtral, with a window Mistral."""
    if s.any("attn_q_norm.weight"):
        raise s.fail("attention.key_length", "of a model without norms on q and k in this architecture")
    if s.maybe("expert_count"):
        return {**decoder(s, "mixtral"), **as_mixtral(s), "sliding_window": None}
    if window(s):
        return decoder(s, "mistral", sliding_window=window(s))
    return decoder(s, "llama", attention_bias=biased(s), mlp_bias=s.any("ffn_up.bias"))


@architecture("arcee", "jais2")
def two_matrices(s: Source) -> Given:
    """Llama with an MLP of two matrices."""
    return decoder(s, s.arch, attention_bias=biased(s), mlp_bias=s.any("ffn_up.bias"))


@architecture("qwen2", "qwen2vl", "qwen")
def qwen2(s: Source) -> Given:
    """Biases on q, k and v."""
    return decoder(s, "qwen2", use_sliding_window=False)


@architecture("qwen3", "qwen3vl")
def qwen3(s: Source) -> Given:
    """Norms on heads."""
    return decoder(s, "qwen3", use_sliding_window=False, attention_bias=biased(s))


@architecture("smollm3", "apertus", "olmo", "hunyuan-dense", "hunyuan_vl", "nemotron", "bitnet", "chameleon")
def switched(s: Source) -> Given:
    """Families whose own type has one switch for biases."""
    names = {"hunyuan-dense": "hunyuan_v1_dense", "hunyuan_vl": "hunyuan_v1_dense"}
    more = {"mlp_bias": s.any("ffn_up.bias")} if s.arch != "olmo" else {}
    return decoder(s, names.get(s.arch, s.arch), attention_bias=biased(s), **more)


@architecture("seed_oss")
def seed_oss(s: Source) -> Given:
    """A switch of its own for the output's bias."""
    return decoder(s, "seed_oss", attention_bias=biased(s), attention_out_bias=s.any("attn_output.bias"))


@architecture("ernie4_5", "paddleocr")
def ernie(s: Source) -> Given:
    """One switch for every bias."""
    return decoder(s, "ernie4_5", use_bias=biased(s))


@architecture("exaone", "orion")
def plain(s: Source) -> Given:
    """Nothing but the common keys."""
    return decoder(s, s.arch)


@architecture("exaone4")
def exaone4(s: Source) -> Given:
    """Windows on three of four layers where there is one."""
    return decoder(s, "exaone4", sliding_window=window(s), **({"layer_types": layer_types(s, 4)} if window(s) else {}))


@architecture("olmo2")
def olmo2(s: Source) -> Given:
    """OLMo 2, and 3 with windows."""
    if not window(s):
        return decoder(s, "olmo2", attention_bias=biased(s))
    return decoder(s, "olmo3", attention_bias=biased(s), sliding_window=window(s), layer_types=layer_types(s, 4))


@architecture("command-r", "cohere2")
def cohere(s: Source) -> Given:
    """Cohere's two generations."""
    if s.arch == "cohere2":
        return decoder(s, "cohere2", attention_bias=biased(s), sliding_window=window(s), layer_types=layer_types(s, 4))
    return decoder(s, "cohere", attention_bias=biased(s), use_qk_norm=s.any("attn_q_norm.weight"))


@architecture("stablelm")
def stablelm(s: Source) -> Given:
    """Norms and biases by switches; parallel blocks have one norm."""
    return decoder(
        s,
        "stablelm",
        use_qkv_bias=biased(s),
        qk_layernorm=s.any("attn_q_norm.weight"),
        use_parallel_residual=not s.any("ffn_norm.weight"),
    )


@architecture("starcoder2")
def starcoder2(s: Source) -> Given:
    """Biases everywhere."""
    return decoder(s, "starcoder2", use_bias=biased(s), sliding_window=window(s))


@architecture("phi2")
def phi2(s: Source) -> Given:
    """Blocks in parallel, a bias on the head too."""
    return decoder(s, "phi", qk_layernorm=s.any("attn_q_norm.weight"))


@architecture("phi3", "phimoe")
def phi3(s: Source) -> Given:
    """Fused projections, or experts with LayerNorms."""
    if s.arch == "phimoe":
        more = {"attention_bias": biased(s), "lm_head_bias": s.has("output.bias"), "sliding_window": window(s)}
        return {**decoder(s, "phimoe"), **as_mixtral(s), **more}
    return decoder(s, "phi3", sliding_window=window(s))


@architecture("glm4", "chatglm")
def glm(s: Source) -> Given:
    """GLM-4-0414 has two norms more than GLM-4-9B and ChatGLM."""
    return decoder(s, "glm4" if s.arch == "glm4" else "glm", attention_bias=biased(s))


@architecture("plamo", "plamo3")
def plamo(s: Source) -> Given:
    """PLaMo's blocks in parallel, and PLaMo 3's windows, which come at a period."""
    if s.arch == "plamo":
        found = decoder(s, "plamo")
        kv = found["num_key_value_heads"]
        if found["num_attention_heads"] % kv:
            raise s.fail("attention.head_count_kv", "a divisor of attention.head_count")
        kept = {key: value for key, value in found.items() if key not in ("head_dim", "num_key_value_heads")}
        return {**kept, "n_shared_head": found["num_attention_heads"] // kv}
    full = [kind == "full_attention" for kind in layer_types(s, 8)] if window(s) else [True] * s.depth
    step = full.index(True) + 1 if True in full else s.depth + 1
    if full != [(index + 1) % step == 0 for index in range(s.depth)]:
        raise s.fail("attention.sliding_window_pattern", "such that full layers come at one period")
    return decoder(s, "plamo3", sliding_window=window(s) or 1, sliding_window_pattern=step)


@architecture("openelm")
def openelm(s: Source) -> Given:
    """Heads and MLP widths of their own for every layer. The widths are the rounded ones."""
    hidden = s.need("embedding_length")
    listed = {key: s.numbers(key, s.depth) for key in ("attention.head_count", "attention.head_count_kv", "feed_forward_length")}
    for key, found in listed.items():
        if found is None:
            raise s.fail(key, f"a list of {s.depth} numbers")
    query, kv, inner = (found or [] for found in listed.values())
    around_it = around(s, "openelm")
    return {
        "model_type": "openelm",
        "num_transformer_layers": s.depth,
        "model_dim": hidden,
        "head_dim": s.need("attention.key_length"),
        "num_query_heads": query,
        "num_kv_heads": kv,
        "ffn_multipliers": [width / hidden for width in inner],
        "ffn_dim_divisor": 1,
        "normalize_qk_projections": s.any("attn_q_norm.weight"),
        "share_input_output_layers": around_it["tie_word_embeddings"],
        "max_context_length": around_it.get("max_position_embeddings"),
        **number_of([("vocab_size", around_it.get("vocab_size")), ("dtype", "float16")]),
    }


# ---- Gemma --------------------------------------------------------------------------------------------------------


@architecture("gemma", "gemma2", "gemma3")
def gemma(s: Source) -> Given:
    """Gemma 2 slides on every other layer, Gemma 3 on five of six."""
    if s.arch == "gemma":
        return decoder(s, "gemma")
    period = 2 if s.arch == "gemma2" else 6
    types = layer_types(s, period) if window(s) else ["full_attention"] * s.depth
    return decoder(s, "gemma2" if s.arch == "gemma2" else "gemma3_text", sliding_window=window(s), layer_types=types)


def per_layer_inputs(s: Source) -> Given:
    """Embeddings per layer."""
    return number_of(
        [
            ("hidden_size_per_layer_input", s.maybe("embedding_length_per_layer_input") or 0),
            ("vocab_size_per_layer_input", s.rows("per_layer_token_embd.weight")),
            ("num_kv_shared_layers", s.maybe("attention.shared_kv_layers") or 0),
        ]
    )


@architecture("gemma3n")
def gemma3n(s: Source) -> Given:
    """Late layers read the caches of earlier ones."""
    inner = s.numbers("feed_forward_length", s.depth)
    found = {**around(s, "gemma3n_text"), **heads(s), **({"intermediate_size": inner} if inner else width(s)), **per_layer_inputs(s)}
    more = [
        ("altup_num_inputs", s.maybe("altup.num_inputs", least=1)),
        ("laurel_rank", s.first("laurel_l.weight")),
        ("sliding_window", window(s)),
    ]
    return {**found, **number_of(more), "layer_types": layer_types(s, 5)}


@architecture("gemma4")
def gemma4(s: Source) -> Given:
    """KV heads and widths differ between full and sliding layers: an array of head counts, and two key lengths."""
    types = layer_types(s, 6)
    full = [index for index, kind in enumerate(types) if kind == "full_attention"]
    counts = s.numbers("attention.head_count_kv", s.depth) or [s.need("attention.head_count_kv")] * s.depth
    near = s.maybe("attention.key_length_swa", least=1) or s.need("attention.key_length")
    few = {counts[index] for index in range(s.depth) if index not in full}
    if len(few) > 1:
        raise s.fail("attention.head_count_kv", "the same on all layers with a window")
    inner = s.numbers("feed_forward_length", s.depth) or [s.need("feed_forward_length")] * s.depth
    found = {
        **around(s, "gemma4_text"),
        "num_attention_heads": s.need("attention.head_count"),
        "num_key_value_heads": few.pop() if few else counts[0],
        "head_dim": near,
        "intermediate_size": min(inner),
        "use_double_wide_mlp": max(inner) == 2 * min(inner),
        "layer_types": types,
        "per_layer_config": {
            str(index): {"head_dim": s.need("attention.key_length"), "num_key_value_heads": counts[index]} for index in full
        },
        # Values that are the keys again are stored once.
        "attention_k_eq_v": any(s.layer(index, "attn_k.weight") and not s.layer(index, "attn_v.weight") for index in full),
        **per_layer_inputs(s),
    }
    if window(s):
        found["sliding_window"] = window(s)
    if s.maybe("expert_count"):
        routed = experts(s)
        found |= {"enable_moe_block": True, "top_k_experts": routed.pop("num_experts_per_tok"), **routed}
    return found


# ---- mixtures of experts ------------------------------------------------------------------------------------------


@architecture("qwen2moe")
def qwen2moe(s: Source) -> Given:
    """A shared expert behind a gate."""
    shared = s.first("ffn_up_shexp.weight") or 0
    more = {"shared_expert_intermediate_size": shared, "qkv_bias": biased(s), "use_sliding_window": False}
    return {**decoder(s, "qwen2_moe"), **experts(s), **more}


@architecture("qwen3moe", "qwen3vlmoe")
def qwen3moe(s: Source) -> Given:
    """Norms on heads, no shared expert."""
    return {**decoder(s, "qwen3_moe"), **experts(s), "use_sliding_window": False, "attention_bias": biased(s)}


@architecture("olmoe", "minimax-m2")
def plain_experts(s: Source) -> Given:
    """Experts on every layer."""
    return {**decoder(s, s.arch.replace("-", "_")), **as_mixtral(s)}


@architecture("granitemoe")
def granitemoe(s: Source) -> Given:
    """With a shared expert, or without."""
    shared = s.first("ffn_up_shexp.weight") or 0
    found = {**decoder(s, "granitemoeshared" if shared else "granitemoe"), **as_mixtral(s), "attention_bias": biased(s)}
    return {**found, "shared_intermediate_size": shared} if shared else found


@architecture("gpt-oss")
def gpt_oss(s: Source) -> Given:
    """A window on the even layers."""
    more = number_of([("sliding_window", window(s))])
    return {**decoder(s, "gpt_oss"), **as_mixtral(s), "attention_bias": biased(s), "layer_types": layer_types(s, 2), **more}


@architecture("mellum")
def mellum(s: Source) -> Given:
    """Qwen3-MoE with windows where the file's flags say so."""
    slides = s.flags("attention.sliding_window_pattern", s.depth)
    if window(s) and slides is None:
        raise s.fail("attention.sliding_window_pattern", f"a list of {s.depth} flags")
    return {
        **decoder(s, "mellum"),
        **experts(s),
        "attention_bias": biased(s),
        "layer_types": ["sliding_attention" if flag else "full_attention" for flag in slides or [False] * s.depth],
        **number_of([("sliding_window", window(s))]),
    }


@architecture("smallthinker")
def smallthinker(s: Source) -> Given:
    """Experts alone; with a window, three layers of four have it and the first has not (llama.cpp: no key holds that)."""
    found, routed = decoder(s, "smallthinker"), experts(s)
    found.pop("intermediate_size", None)
    slides = [kind == "sliding_attention" for kind in layer_types(s, 4, first_full=True)] if window(s) else [False] * s.depth
    return {
        **found,
        "moe_num_primary_experts": routed["num_experts"],
        "moe_num_active_primary_experts": routed["num_experts_per_tok"],
        "moe_ffn_hidden_size": routed["moe_intermediate_size"],
        "sliding_window_layout": [int(flag) for flag in slides],
        "sliding_window_size": window(s),
    }


@architecture("grok")
def grok(s: Source) -> Given:
    """Four norms a layer; Grok-2 has a dense MLP beside the experts."""
    found = {**decoder(s, "grok-1"), **experts(s), "residual_moe": s.any("ffn_up.weight")}
    found["num_local_experts"] = found.pop("num_experts")
    return found


@architecture("arctic")
def arctic(s: Source) -> Given:
    """A dense MLP beside the experts, as wide as the model, behind a norm of its own."""
    beside = s.any("ffn_norm_exps.weight")
    routed = [index for index in range(s.depth) if s.layer(index, "ffn_gate_inp.weight")]
    step = routed[0] + 1 if routed else 1
    if routed != list(range(step - 1, s.depth, step)):
        raise s.fail("expert_count", "of layers that come at one period")
    more = {"moe_layer_frequency": step, "parallel_attn_mlp_res": beside, "use_residual": beside, "sliding_window": None}
    return {**decoder(s, "arctic"), **as_mixtral(s), **more}


LLAMA4_CHUNK = 8192  # llama.cpp src/models: no key holds it


@architecture("llama4")
def llama4(s: Source) -> Given:
    """Chunks on three of four layers; experts on every interleave-th, with one shared."""
    wide = s.maybe("feed_forward_length", least=1)
    found = {
        **decoder(s, "llama4_text"),
        **as_mixtral(s),
        "attention_chunk_size": LLAMA4_CHUNK,
        "interleave_moe_layer_step": s.need("interleave_moe_layer_step"),
        "attention_bias": biased(s),
    }
    return {**found, **number_of([("intermediate_size_mlp", wide)])}


def leading_dense(s: Source) -> Given:
    """DeepSeek's names: dense layers first, and shared experts as a multiple of the routed width."""
    routed = experts(s)
    inner = routed["moe_intermediate_size"]
    shared = s.first("ffn_up_shexp.weight") or 0
    if shared % inner:
        raise s.fail("expert_shared_feed_forward_length", f"a multiple of the width of an expert ({inner})")
    return {
        "n_routed_experts": routed["num_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "moe_intermediate_size": inner,
        "n_shared_experts": shared // inner,
        "first_k_dense_replace": next((index for index in range(s.depth) if s.layer(index, "ffn_gate_inp.weight")), 0)
        if s.raw("leading_dense_block_count") is None
        else s.maybe("leading_dense_block_count") or 0,
    }


@architecture("glm4moe", "dots1", "deepseek")
def glm4moe(s: Source) -> Given:
    """GQA with DeepSeek's mixtures."""
    found = {**decoder(s, {"glm4moe": "glm4_moe"}.get(s.arch, s.arch)), **leading_dense(s), "attention_bias": biased(s)}
    if s.arch == "glm4moe":
        found |= {"use_qk_norm": s.any("attn_q_norm.weight"), "num_nextn_predict_layers": s.ahead}
    elif s.arch == "dots1":
        found |= {"sliding_window": window(s)}
    return found


@architecture("bailingmoe", "bailingmoe2")
def bailing(s: Source) -> Given:
    """Ling and Ring."""
    moe = leading_dense(s)
    bias = {"use_qkv_bias": biased(s), "use_bias": s.any("attn_output.bias")}
    number = {"num_experts": moe.pop("n_routed_experts"), "num_shared_experts": moe.pop("n_shared_experts")}
    second = s.arch == "bailingmoe2"
    found = {**decoder(s, "bailing_moe_v2" if second else "bailing_moe"), **moe, **number, **bias}
    return {**found, "use_qk_norm": s.any("attn_q_norm.weight"), "num_nextn_predict_layers": s.ahead}


@architecture("ernie4_5-moe")
def ernie_moe(s: Source) -> Given:
    """Mixtures from a first layer on, each step-th."""
    routed = leading_dense(s)
    return {
        **decoder(s, "ernie4_5_moe"),
        "moe_num_experts": routed["n_routed_experts"],
        "moe_k": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "moe_num_shared_experts": routed["n_shared_experts"],
        "moe_layer_start_index": routed["first_k_dense_replace"],
        "moe_layer_interval": s.maybe("interleave_moe_layer_step", least=1) or 1,
        "use_bias": biased(s),
    }


@architecture("hunyuan-moe")
def hunyuan_moe(s: Source) -> Given:
    """A shared block on every layer."""
    routed = leading_dense(s)
    return {
        **decoder(s, "hunyuan_v1_moe"),
        "num_experts": routed["n_routed_experts"],
        "moe_topk": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "num_shared_expert": routed["n_shared_experts"],
        "attention_bias": biased(s),
    }


@architecture("afmoe", "exaone-moe")
def windowed_moe(s: Source) -> Given:
    """Dense layers first, shared experts, and windows on three of four layers."""
    routed = leading_dense(s)
    found = {
        **decoder(s, s.arch.replace("-", "_")),
        "num_experts": routed["n_routed_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "num_shared_experts": routed["n_shared_experts"],
        "layer_types": layer_types(s, 4) if window(s) else ["full_attention"] * s.depth,
        **number_of([("sliding_window", window(s))]),
    }
    if s.arch == "afmoe":
        return {**found, "num_dense_layers": routed["first_k_dense_replace"], "attention_bias": biased(s)}
    return {**found, "first_k_dense_replace": routed["first_k_dense_replace"], "num_nextn_predict_layers": s.ahead}


@architecture("mimo2")
def mimo2(s: Source) -> Given:
    """More KV heads and sinks on the sliding layers; values narrower than keys. Which layers are sparse, the tensors say."""
    slides = s.flags("attention.sliding_window_pattern", s.depth) or [False] * s.depth
    counts = s.numbers("attention.head_count_kv", s.depth) or [s.need("attention.head_count_kv")] * s.depth
    near = {count for count, flag in zip(counts, slides, strict=True) if flag}
    far = {count for count, flag in zip(counts, slides, strict=True) if not flag}
    if len(near) != 1 or len(far) != 1:
        raise s.fail("attention.head_count_kv", "one number on all layers with a window and one on the others")
    routed = experts(s)
    return {
        **around(s, "mimo_v2_flash"),
        **width(s),
        "num_attention_heads": s.need("attention.head_count"),
        "num_key_value_heads": far.pop(),
        "swa_num_key_value_heads": near.pop(),
        "head_dim": s.need("attention.key_length"),
        "v_head_dim": s.need("attention.value_length"),
        "hybrid_layer_pattern": [int(flag) for flag in slides],
        "sliding_window": s.need("attention.sliding_window"),
        "add_swa_attention_sink_bias": s.any("attn_sinks.weight"),
        "moe_layer_freq": [int(s.layer(index, "ffn_gate_inp.weight")) for index in range(s.depth)],
        "n_routed_experts": routed["num_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "num_nextn_predict_layers": s.ahead,
    }


@architecture("hy_v3", "cohere2moe")
def shared_moe(s: Source) -> Given:
    """Dense layers first, then experts with shared ones."""
    routed = leading_dense(s)
    more = {"num_shared_experts": routed["n_shared_experts"], "first_k_dense_replace": routed["first_k_dense_replace"]}
    if s.arch == "hy_v3":
        found = {**decoder(s, "hy_v3"), **experts(s), **more, "attention_bias": biased(s), "mlp_bias": s.any("ffn_up_shexp.bias")}
        return {**found, "num_nextn_predict_layers": s.ahead}
    dense = s.first("ffn_up.weight")
    return {
        **decoder(s, "cohere2_moe"),
        "num_experts": routed["n_routed_experts"],
        "num_experts_per_tok": routed["num_experts_per_tok"],
        "intermediate_size": routed["moe_intermediate_size"],
        **more,
        **number_of([("prefix_dense_intermediate_size", dense), ("sliding_window", window(s))]),
        "attention_bias": biased(s),
        "layer_types": layer_types(s, 4) if window(s) else ["full_attention"] * s.depth,
    }


@architecture("step35", "laguna")
def headwise(s: Source) -> Given:
    """Query heads per layer, and a gate on the attention's output: one number per head, or (Laguna) per element."""
    total = s.depth + s.ahead
    kinds = layer_types(s, 4, first_full=True) if window(s) else ["full_attention"] * s.depth
    queries = s.numbers("attention.head_count", s.depth) or [s.need("attention.head_count")] * s.depth
    far = {query for query, kind in zip(queries, kinds, strict=True) if kind == "full_attention"}
    dim, kv = s.need("attention.key_length"), s.need("attention.head_count_kv")
    found = {
        **around(s, "laguna" if s.arch == "laguna" else "step3p5"),
        **width(s),
        "num_attention_heads": max(far) if far else queries[0],
        "num_key_value_heads": kv,
        "head_dim": dim,
        "attention_bias": biased(s),
        "layer_types": kinds,
        "moe_intermediate_size": experts(s)["moe_intermediate_size"],
        "num_experts_per_tok": s.need("expert_used_count"),
        "mlp_layer_types": ["sparse" if s.layer(index, "ffn_gate_inp.weight") else "dense" for index in range(s.depth)],
        **number_of([("sliding_window", window(s))]),
    }
    shared = s.first("ffn_up_shexp.weight") or 0
    gate = s.rows(*(f"blk.{index}.attn_gate.weight" for index in range(s.depth)))
    found["gating"] = "per-head" if gate is None or gate in queries else "per-element"
    if s.arch == "laguna":
        more = {"num_experts": s.need("expert_count"), "shared_expert_intermediate_size": shared}
        return {**found, **more, "num_attention_heads_per_layer": queries}
    ahead = s.numbers("attention.head_count", total) if s.ahead else None
    slides = s.flags("attention.sliding_window_pattern", total) if s.ahead else None
    near = {query for query, kind in zip(queries, kinds, strict=True) if kind != "full_attention"}
    if (
        len(far) > 1
        or len(near) > 1
        or (ahead and slides and any(q not in (near if f else far) for q, f in zip(ahead, slides, strict=True)))
    ):
        raise s.fail("attention.head_count", "one number on all layers with a window and one on the others")
    if slides:
        found["layer_types"] = ["sliding_attention" if flag else "full_attention" for flag in slides]
    return {
        **found,
        "n_routed_experts": s.need("expert_count"),
        "share_expert_dim": shared,
        "num_nextn_predict_layers": s.ahead,
        "attention_other_setting": {"num_attention_heads": max(near or far), "num_attention_groups": kv, "head_dim": dim},
    }


@architecture("dbrx")
def dbrx(s: Source) -> Given:
    """Keys in two nested blocks."""
    found = around(s, "dbrx")
    routed = experts(s)
    return {
        **{key: value for key, value in found.items() if key not in ("num_hidden_layers", "hidden_size", "max_position_embeddings")},
        "n_layers": found["num_hidden_layers"],
        "d_model": found["hidden_size"],
        "max_seq_len": found.get("max_position_embeddings"),
        "n_heads": s.need("attention.head_count"),
        "attn_config": {"kv_n_heads": s.need("attention.head_count_kv")},
        "ffn_config": {
            "moe_num_experts": routed["num_experts"],
            "moe_top_k": routed["num_experts_per_tok"],
            "ffn_hidden_size": routed["moe_intermediate_size"],
        },
    }


@architecture("deci")
def deci(s: Source) -> Given:
    """Nemotron's Puzzle models: heads, KV heads and MLP width per layer. No KV heads under heads: a plain matrix; 0 heads: nothing."""
    query = s.numbers("attention.head_count", s.depth)
    kv = s.numbers("attention.head_count_kv", s.depth)
    inner = s.numbers("feed_forward_length", s.depth)
    if query is None or kv is None or inner is None:
        return decoder(s, "llama", attention_bias=biased(s), mlp_bias=s.any("ffn_up.bias"))
    hidden, most = s.need("embedding_length"), max(query)
    if not most or any(number not in (0, most) for number in query):
        raise s.fail("attention.head_count", "the same on all layers that attend")
    blocks = [
        {
            "attention": {"no_op": not q, "replace_with_linear": bool(q and not k), "n_heads_in_group": q // k if k else None},
            "ffn": {"no_op": not wide, "ffn_mult": 1.5 * wide / hidden},
        }
        for q, k, wide in zip(query, kv, inner, strict=True)
    ]
    return {**around(s, "nemotron-nas"), "num_attention_heads": most, "block_configs": blocks, "attention_bias": biased(s)}


# ---- latent attention ---------------------------------------------------------------------------------------------


def latent(s: Source) -> Given:
    """MLA: newer files keep the widths of the expanded heads in *_mla keys, older ones in the plain keys."""
    rope = s.need("rope.dimension_count")
    key = s.maybe("attention.key_length_mla", least=1) or s.need("attention.key_length")
    value = s.maybe("attention.value_length_mla", least=1) or s.need("attention.value_length")
    if key < rope:
        raise s.fail("attention.key_length", f"at least rope.dimension_count ({rope})")
    query = s.maybe("attention.q_lora_rank", least=1)
    return {
        "num_attention_heads": s.need("attention.head_count"),
        "kv_lora_rank": s.need("attention.kv_lora_rank"),
        "q_lora_rank": query,
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": key - rope,
        "v_head_dim": value,
    }


@architecture("deepseek2", "deepseek2-ocr", "glm-dsa", "deepseek32", "mistral4")
def deepseek2(s: Source) -> Given:
    """DeepSeek-V2 and after; V3 and its kin have a balancing bias on the router. Without a latent it is plain MHA."""
    if not s.maybe("attention.kv_lora_rank"):
        return {**decoder(s, "deepseek"), **leading_dense(s), "attention_bias": biased(s)}
    found = {**around(s, "youtu"), **latent(s), **width(s)}
    if not s.maybe("expert_count"):
        return found
    found |= leading_dense(s)
    balanced = s.any("exp_probs_b.bias", "exp_probs_b.weight", "exp_probs_b")
    found["model_type"] = "deepseek_v3" if balanced else "deepseek_v2"
    if s.arch == "mistral4":
        found["model_type"] = "mistral4"
    elif s.raw("attention.indexer.head_count") is not None:
        found |= {
            "model_type": "glm_moe_dsa" if s.arch == "glm-dsa" else "deepseek_v32",
            "index_n_heads": s.need("attention.indexer.head_count"),
            "index_head_dim": s.need("attention.indexer.key_length"),
            "index_topk": s.need("attention.indexer.top_k"),
        }
        own = s.flags("attention.indexer.types", s.depth)
        if s.arch == "glm-dsa" and own:
            found["indexer_types"] = ["full" if flag else "shared" for flag in own]
    if balanced and s.ahead:
        found["num_nextn_predict_layers"] = s.ahead
    return found


@architecture("deepseek4")
def deepseek4(s: Source) -> Given:
    """DeepSeek-V4: a window and compressed entries, residual streams, tables that route in the first layers."""
    routed = leading_dense(s)
    routed.pop("first_k_dense_replace")
    return {
        **around(s, "deepseek_v4"),
        **routed,
        "num_attention_heads": s.need("attention.head_count"),
        "head_dim": s.need("attention.key_length"),
        "q_lora_rank": s.need("attention.q_lora_rank"),
        "o_groups": s.need("attention.output_group_count"),
        "o_lora_rank": s.need("attention.output_lora_rank"),
        "sliding_window": s.need("attention.sliding_window"),
        "compress_ratios": s.numbers("attention.compress_ratios", s.depth),
        "index_n_heads": s.need("attention.indexer.head_count"),
        "index_head_dim": s.need("attention.indexer.key_length"),
        "index_topk": s.need("attention.indexer.top_k"),
        "hc_mult": s.need("hyper_connection.count"),
        "num_hash_layers": s.maybe("hash_layer_count") or 0,
        "num_nextn_predict_layers": s.ahead,
    }


@architecture("minicpm3")
def minicpm3(s: Source) -> Given:
    """Dense layers under latent attention."""
    values = s.first("attn_kv_b.weight")
    found = {**around(s, "minicpm3"), **width(s)}
    rope, key, query = s.need("rope.dimension_count"), s.need("attention.key_length"), s.need("attention.head_count")
    return {
        **found,
        "num_attention_heads": query,
        "kv_lora_rank": s.need("attention.kv_lora_rank"),
        "q_lora_rank": s.maybe("attention.q_lora_rank", least=1),
        "qk_rope_head_dim": rope,
        "qk_nope_head_dim": key - rope,
        **({"v_head_dim": values // query - (key - rope)} if values else {}),
    }


@architecture("kimi-linear")
def kimi_linear(s: Source) -> Given:
    """Delta nets, and MLA on the layers that have a latent."""
    routed = leading_dense(s)
    full = [index + 1 for index in range(s.depth) if s.layer(index, "attn_kv_a_mqa.weight")]
    return {
        **around(s, "kimi_linear"),
        **width(s),
        **latent(s),
        "linear_attn_config": {
            "full_attn_layers": full,
            "kda_layers": [index + 1 for index in range(s.depth) if index + 1 not in full],
            "num_heads": s.need("attention.head_count"),
            "head_dim": s.need("kda.head_dim"),
            "short_conv_kernel_size": s.need("ssm.conv_kernel"),
        },
        "num_experts": routed["n_routed_experts"],
        "num_experts_per_token": routed["num_experts_per_tok"],
        "num_shared_experts": routed["n_shared_experts"],
        "moe_intermediate_size": routed["moe_intermediate_size"],
        "first_k_dense_replace": routed["first_k_dense_replace"],
    }


# ---- hybrids and state space --------------------------------------------------------------------------------------


@architecture("qwen3next", "qwen35", "qwen35moe")
def qwen3next(s: Source) -> Given:
    """Delta nets with gated attention on every full_attention_interval-th layer; the ssm keys hold the delta net's widths."""
    values, inner = s.need("ssm.time_step_rank"), s.need("ssm.inner_size")
    if inner % values:
        raise s.fail("ssm.inner_size", f"a multiple of ssm.time_step_rank ({values})")
    attends = [s.layer(index, "attn_k.weight") for index in range(s.depth)]
    found = {
        **decoder(s, {"qwen3next": "qwen3_next", "qwen35": "qwen3_5_text", "qwen35moe": "qwen3_5_moe_text"}[s.arch]),
        "linear_conv_kernel_dim": s.need("ssm.conv_kernel"),
        "linear_key_head_dim": s.need("ssm.state_size"),
        "linear_num_key_heads": s.need("ssm.group_count"),
        "linear_num_value_heads": values,
        "linear_value_head_dim": inner // values,
        "layer_types": ["full_attention" if full else "linear_attention" for full in attends],
        "attention_bias": biased(s),
    }
    if s.arch != "qwen35":
        found |= {**experts(s), "shared_expert_intermediate_size": s.first("ffn_up_shexp.weight") or 0}
    if s.arch != "qwen3next" and s.ahead:
        found["mtp_num_hidden_layers"] = s.ahead
    return found


@architecture("mamba", "mamba2")
def mamba(s: Source) -> Given:
    """Mamba blocks alone."""
    inner, hidden = s.need("ssm.inner_size"), s.need("embedding_length")
    found = {
        **around(s, s.arch),
        "state_size": s.need("ssm.state_size"),
        "conv_kernel": s.need("ssm.conv_kernel"),
        "use_conv_bias": s.any("ssm_conv1d.bias"),
        "use_bias": s.any("ssm_in.bias"),
    }
    if s.arch == "mamba":
        kind = "falcon_mamba" if s.raw("ssm.dt_b_c_rms") is True else "mamba"
        return {**found, "model_type": kind, "intermediate_size": inner, "time_step_rank": s.need("ssm.time_step_rank")}
    number = s.need("ssm.time_step_rank")
    if inner % number:
        raise s.fail("ssm.inner_size", f"a multiple of ssm.time_step_rank ({number})")
    return {
        **found,
        "num_heads": number,
        "head_dim": inner // number,
        "expand": inner / hidden,
        "n_groups": s.maybe("ssm.group_count", least=1) or 1,
    }


def period(s: Source, chosen: Sequence[int], which: str) -> Given:
    """A period and an offset that choose exactly these layers."""
    step = chosen[1] - chosen[0] if len(chosen) > 1 else s.depth
    offset = chosen[0] if chosen else 0
    if not chosen or [index for index in range(s.depth) if index % step == offset] != list(chosen):
        raise s.fail("attention.head_count_kv", f"such that {which} layers come at one period")
    return {f"{which}_layer_period": step, f"{which}_layer_offset": offset}


@architecture("jamba")
def jamba(s: Source) -> Given:
    """Mamba 1 with attention and experts on layers of their own period."""
    inner, hidden = s.need("ssm.inner_size"), s.need("embedding_length")
    routed = [index for index in range(s.depth) if s.layer(index, "ffn_gate_inp.weight")]
    return {
        **decoder(s, "jamba"),
        **period(s, [index for index in range(s.depth) if s.layer(index, "attn_k.weight")], "attn"),
        **(period(s, routed, "expert") if routed else {}),
        "num_experts": s.maybe("expert_count") or 1,
        "num_experts_per_tok": s.maybe("expert_used_count") or 1,
        "mamba_expand": inner / hidden,
        "mamba_d_state": s.need("ssm.state_size"),
        "mamba_d_conv": s.need("ssm.conv_kernel"),
        "mamba_dt_rank": s.need("ssm.time_step_rank"),
        "mamba_conv_bias": s.any("ssm_conv1d.bias"),
        "mamba_proj_bias": s.any("ssm_in.bias"),
    }


def mamba2_keys(s: Source) -> Given:
    """Mamba 2 by the keys of Bamba and Granite. What llama.cpp calls the time-step rank is the number of heads."""
    number, inner = s.need("ssm.time_step_rank"), s.need("ssm.inner_size")
    if inner % number:
        raise s.fail("ssm.inner_size", f"a multiple of ssm.time_step_rank ({number})")
    return {
        "mamba_n_heads": number,
        "mamba_d_head": inner // number,
        "mamba_n_groups": s.maybe("ssm.group_count", least=1) or 1,
        "mamba_d_state": s.need("ssm.state_size"),
        "mamba_d_conv": s.need("ssm.conv_kernel"),
        "mamba_conv_bias": s.any("ssm_conv1d.bias"),
        "mamba_proj_bias": s.any("ssm_in.bias"),
    }


@architecture("granitehybrid")
def granitehybrid(s: Source) -> Given:
    """Granite 4 and Bamba: the layers with KV heads attend."""
    found = {
        **decoder(s, "granitemoehybrid"),
        **mamba2_keys(s),
        "mamba_expand": s.need("ssm.inner_size") / s.need("embedding_length"),
        "layer_types": ["attention" if s.layer(index, "attn_k.weight") else "mamba" for index in range(s.depth)],
        "attention_bias": biased(s),
        "shared_intermediate_size": s.first("ffn_up_shexp.weight", "ffn_up.weight"),
        "num_local_experts": s.maybe("expert_count") or 0,
    }
    return {**found, **as_mixtral(s)} if found["num_local_experts"] else found


@architecture("falcon-h1")
def falcon_h1(s: Source) -> Given:
    """Attention and Mamba 2 side by side."""
    return {
        **decoder(s, "falcon_h1"),
        **mamba2_keys(s),
        "mamba_d_ssm": s.need("ssm.inner_size"),
        "attention_bias": biased(s),
        "mamba_rms_norm": s.any("ssm_norm.weight"),
        "mlp_bias": s.any("ffn_up.bias"),
        "projectors_bias": s.any("ssm_out.bias"),
    }


@architecture("nemotron_h", "nemotron_h_moe")
def nemotron_h(s: Source) -> Given:
    """Each layer is one thing; its tensors say which."""
    kinds = {"ssm_in.weight": "mamba", "attn_k.weight": "attention", "ffn_up_exps.weight": "moe", "ffn_up.weight": "mlp"}
    listed = []
    for index in range(s.depth):
        kind = next((kind for name, kind in kinds.items() if s.layer(index, name)), None)
        if kind is None:
            raise s.fail("block_count", f"a number of layers that each have tensors (layer {index} has none)")
        listed.append(kind)
    number, inner = s.need("ssm.time_step_rank"), s.need("ssm.inner_size")
    found = {
        **around(s, "nemotron_h"),
        **heads(s),
        "layers_block_type": listed,
        "mamba_num_heads": number,
        "mamba_head_dim": inner // number,
        "n_groups": s.maybe("ssm.group_count", least=1) or 1,
        "ssm_state_size": s.need("ssm.state_size"),
        "conv_kernel": s.need("ssm.conv_kernel"),
        "use_bias": s.any("ssm_in.bias"),
        "use_conv_bias": s.any("ssm_conv1d.bias"),
        "mlp_bias": s.any("ffn_up.bias"),
        "num_nextn_predict_layers": s.ahead,
        **number_of([("intermediate_size", s.first("ffn_up.weight"))]),
    }
    if "moe" in listed:
        routed = experts(s)
        found |= number_of(
            [
                ("n_routed_experts", routed["num_experts"]),
                ("num_experts_per_tok", routed["num_experts_per_tok"]),
                ("moe_intermediate_size", routed["moe_intermediate_size"]),
                ("moe_shared_expert_intermediate_size", s.first("ffn_up_shexp.weight")),
                ("moe_latent_size", s.maybe("moe_latent_size", least=1)),
                ("n_shared_experts", 1),
            ]
        )
    return found


@architecture("lfm2", "lfm2moe")
def lfm2(s: Source) -> Given:
    """Short convolutions; head_count_kv is 0 on their layers."""
    found = {
        **decoder(s, "lfm2" if s.arch == "lfm2" else "lfm2_moe"),
        "layer_types": ["conv" if s.layer(index, "shortconv.conv.weight") else "full_attention" for index in range(s.depth)],
        "conv_L_cache": s.need("shortconv.l_cache"),
        "conv_bias": s.any("shortconv.conv.bias"),
        "block_auto_adjust_ff_dim": False,  # feed_forward_length is the adjusted width
    }
    if s.arch == "lfm2moe":
        found |= {**experts(s), "num_dense_layers": s.maybe("leading_dense_block_count") or 0}
    return found


@architecture("rwkv6", "rwkv6qwen2")
def rwkv6(s: Source) -> Given:
    """RWKV 6, alone or in Qwen's layers."""
    found = {
        **around(s, s.arch),
        **width(s),
        "head_size": s.need("wkv.head_size"),
        "time_mix_extra_dim": s.need("time_mix_extra_dim"),
        "time_decay_extra_dim": s.need("time_decay_extra_dim"),
    }
    if s.arch == "rwkv6":
        return found
    return {
        **found,
        "num_key_value_heads": s.maybe("attention.head_count_kv", least=1) or found["hidden_size"] // found["head_size"],
        "attention_bias": s.any("time_mix_key.bias"),
        "use_time_first": s.any("time_mix_first.weight"),
    }


@architecture("rwkv7", "arwkv7")
def rwkv7(s: Source) -> Given:
    """RWKV 7, alone or in Qwen's layers, where gate and group norm may be absent."""
    ranks = {"decay": "decay", "a": "iclr", "v": "value_residual_mix", "gate": "gate"}
    return {
        **around(s, s.arch),
        **width(s),
        "head_dim" if s.arch == "rwkv7" else "head_size": s.need("wkv.head_size"),
        **{f"{name}_low_rank_dim": s.need(f"attention.{word}_lora_rank", least=int(name != "gate")) for name, word in ranks.items()},
        **({} if s.arch == "rwkv7" else {"use_group_norm": s.any("time_mix_ln.weight")}),
    }


@architecture("plamo2")
def plamo2(s: Source) -> Given:
    """Mamba 2, with attention where there are heads."""
    attends = [index for index in range(s.depth) if s.layer(index, "attn_qkv.weight")]
    inner, number, dim = s.need("ssm.inner_size"), s.need("ssm.time_step_rank"), s.need("attention.key_length")
    if inner != number * dim:
        raise s.fail("ssm.inner_size", f"ssm.time_step_rank x attention.key_length ({number * dim})")
    step = 2 * attends[0] + (1 if len(attends) > 1 and (attends[1] - attends[0]) % 2 else 0) if attends else 0
    if not step or attends != [index for index in range(s.depth) if index % step == step // 2]:
        raise s.fail("attention.head_count_kv", "such that layers that attend come at one period")
    return {
        **around(s, "plamo2"),
        **width(s),
        "num_attention_heads": s.need("attention.head_count"),
        "num_key_value_heads": s.need("attention.head_count_kv"),
        "hidden_size_per_head": dim,
        "mamba_num_heads": number,
        "mamba_d_state": s.need("ssm.state_size"),
        "mamba_d_conv": s.need("ssm.conv_kernel"),
        "mamba_step": step,
    }


# ---- the first generations ----------------------------------------------------------------------------------------


@architecture("gpt2", "starcoder", "gptj")
def gpt2(s: Source) -> Given:
    """GPT-2's names. Converters store the head once more, tied or not."""
    kind = {"starcoder": "gpt_bigcode"}.get(s.arch, s.arch)
    found = around(s, kind)
    positions = s.rows("position_embd.weight") or found.pop("max_position_embeddings")
    found.pop("max_position_embeddings", None)
    query = s.need("attention.head_count")
    more = {"multi_query": (s.maybe("attention.head_count_kv", least=1) or query) == 1} if s.arch == "starcoder" else {}
    return {
        "model_type": kind,
        "vocab_size": found["vocab_size"],
        "n_layer": s.depth,
        "n_embd": s.need("embedding_length"),
        "n_head": query,
        "n_inner": s.need("feed_forward_length"),
        "n_positions": positions,
        "tie_word_embeddings": found["tie_word_embeddings"],
        "dtype": found["dtype"],
        **more,
    }


@architecture("codeshell", "jais")
def as_gpt2(s: Source) -> Given:
    """GPT-2's names with rotary positions and KV groups, or with ALiBi and three matrices."""
    found = gpt2(s)
    if s.arch == "jais":
        return {**found, "position_embedding_type": "alibi", "activation_function": "swiglu"}
    kv = s.maybe("attention.head_count_kv", least=1) or found["n_head"]
    return {**found, "group_query_attention": True, "num_query_groups": kv}


@architecture("mpt")
def mpt(s: Source) -> Given:
    """Positions by ALiBi or a table; norms on q and k; no biases at all, or everywhere."""
    found = around(s, "mpt")
    query = s.need("attention.head_count")
    kv = s.maybe("attention.head_count_kv", least=1) or query
    table = s.rows("position_embd.weight")
    inner = s.first("ffn_up.weight") or s.need("feed_forward_length")
    return {
        "model_type": "mpt",
        "vocab_size": found.get("vocab_size"),
        "d_model": found["hidden_size"],
        "n_layers": s.depth,
        "n_heads": query,
        "max_seq_len": table or found.get("max_position_embeddings"),
        "no_bias": not s.any("attn_norm.bias", "ffn_up.bias"),
        "learned_pos_emb": table is not None,
        "attn_config": {
            "attn_type": "grouped_query_attention",
            "kv_n_heads": kv,
            "qk_ln": s.any("attn_q_norm.weight"),
            "alibi": table is None,
        },
        "ffn_config": {"ffn_type": "mptglu" if s.any("ffn_gate.weight") else "mptmlp", "ffn_hidden_size": inner},
        "tie_word_embeddings": found["tie_word_embeddings"],
        "dtype": found["dtype"],
    }


@architecture("t5")
def t5(s: Source) -> Given:
    """An encoder and a decoder, whose tensors begin with enc. and dec.; umT5 has a table of positions on every layer."""
    found = around(s, "t5")
    biases = "dec.blk.{}.attn_rel_b.weight".format
    return {
        "model_type": "umt5" if s.has(biases(1)) else "t5",
        "vocab_size": found.get("vocab_size"),
        "d_model": found["hidden_size"],
        "d_ff": s.need("feed_forward_length"),
        "d_kv": s.need("attention.key_length"),
        "num_layers": s.depth,
        "num_decoder_layers": s.maybe("decoder_block_count", least=1, most=MOST_LAYERS) or s.depth,
        "num_heads": s.need("attention.head_count"),
        "relative_attention_num_buckets": s.need("attention.relative_buckets_count"),
        "feed_forward_proj": "gated-gelu" if s.has("dec.blk.0.ffn_gate.weight") else "relu",
        "tie_word_embeddings": found["tie_word_embeddings"],
        "dtype": found["dtype"],
    }


@architecture("gptneox", "bloom", "falcon")
def older(s: Source) -> Given:
    """LayerNorms; Falcon's KV heads by the newer layout's keys, which can say everything."""
    found = around(s, {"gptneox": "gpt_neox"}.get(s.arch, s.arch))
    query = s.need("attention.head_count")
    if s.arch == "gptneox":
        return {**found, "num_attention_heads": query, "intermediate_size": s.need("feed_forward_length"), "attention_bias": biased(s)}
    found["n_head"] = query
    found["n_layer"] = found.pop("num_hidden_layers")
    if s.arch == "falcon":
        dim = found["hidden_size"] // query  # the key repeats a field that means nothing where all heads share one
        rows = s.first("attn_qkv.weight")
        found |= {
            "num_kv_heads": (rows // max(dim, 1) - query) // 2 if rows else s.need("attention.head_count_kv"),
            "new_decoder_architecture": True,
            "num_ln_in_parallel_attn": 2 if s.any("attn_norm_2.weight") else 1,
            "bias": biased(s),
            "ffn_hidden_size": s.need("feed_forward_length"),
        }
    return found
