"""GGUF metadata and tensor shapes -> a config in the Hub's key names, which the readers of families/ take.

One function per group of architectures, by what llama.cpp's converters write (conversion/*.py, gguf-py constants). Where a
key says less than the tensors do (biases, ties, which layers attend, widths), the tensors decide.
"""

from __future__ import annotations

from typing import Any

from llmcalc.errors import ConfigError, close_matches, printable
from llmcalc.files import Files
from llmcalc.gguf_config import dense, gemma, hybrid, latent, legacy, moe  # noqa: F401  (they register)
from llmcalc.gguf_config.parts import NO_PARAMETERS, mix, part, scales
from llmcalc.gguf_config.source import BUILDERS, Source

__all__ = ["BUILDERS", "NO_PARAMETERS", "config", "mix", "part", "scales"]

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
