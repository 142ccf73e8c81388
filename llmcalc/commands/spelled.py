"""What people type in short or as other tools spell it: in full where it is clear, as a hint where it is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

FORMAT_OF_KEYS = ("-ctk", "--cache-type-k", "--kv-dtype", "--kv-cache-dtype")
FORMAT_OF_VALUES = ("-ctv", "--cache-type-v")


def in_full(command: Any, ctx: Any, args: Sequence[str]) -> list[str]:
    """The words of a command line: `max_model_len` with hyphens, one format of keys and one of values as one, bare words as options."""
    plain = [_hyphened(word) for word in args]
    return _with_options(command, ctx, _joined(plain))


def _hyphened(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value if re.fullmatch(r"--\w[-\w]*", name, re.ASCII) else word


def _joined(args: list[str]) -> list[str]:
    """llama.cpp's `-ctk q8_0 -ctv q4_0` as `--kv-dtype q8_0/q4_0`; keys that are not spoken of have 16 bits there."""
    values = _taken(args, FORMAT_OF_VALUES)
    if values is None:
        return args
    keys = _taken(args, FORMAT_OF_KEYS) or "fp16"
    return [*args, "--kv-dtype", f"{keys}/{values}"]


def _taken(args: list[str], names: Sequence[str]) -> str | None:
    """The value of an option, which leaves the words."""
    for index, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name in names and (equals or index + 1 < len(args)):
            value = value if equals else args[index + 1]
            del args[index : index + (1 if equals else 2)]
            return value
    return None


def _with_options(command: Any, ctx: Any, args: list[str]) -> list[str]:
    """`fit Qwen/Qwen3-8B h100-sxm`: the bare words are the model and the device, wherever they stand."""
    params = {param.name: param for param in command.get_params(ctx)}
    slots = [params[name] for name in ("model", "hardware") if name in params]
    if not slots or any(one.param_type_name == "argument" for one in params.values()):
        return args
    alone = any(not word.startswith("-") and not before.startswith("-") for before, word in pairwise(["", *args]))
    missing = any(one.required and not any(word.partition("=")[0] in one.opts for word in args) for one in slots)
    if not alone and not missing:
        return args  # what the parser would find, for less
    try:
        given, bare, _ = command.make_parser(ctx).parse_args(args=list(args))
    except Exception:
        return args  # typer says it in its own words
    if len(bare) > 1 and "/" in bare[-1] and _is_device(bare[0]):
        bare = [bare[-1], *bare[:-1]]
    found = []
    if bare and "model" in params and "model" not in given and not (_is_device(bare[0]) and not params["model"].required):
        found += ["--model", bare.pop(0)]
    if bare and "hardware" in params and "hardware" not in given:
        several = "S" in params["hardware"].metavar or "," in params["hardware"].metavar
        found += ["--hardware", ("," if several and all(map(_is_device, bare)) else " ").join(bare)]
        bare = []
    if bare:
        return args
    ctx.allow_extra_args = bool(found) or ctx.allow_extra_args
    return [*found, *args]


def _is_device(word: str) -> bool:
    from llmcalc import hardware

    return hardware.known(hardware.parse_count(word)[1])


_NONE = "leave it out: it changes no figure"
_MEANT = {
    "-d '8x h100-sxm'": "gpus num-gpus n-gpus num-devices gpu-count world-size",
    "-d with the size in the name: 'rtx-4090 24GB'": "vram memory gpu-memory vram-gb",
    "--weights": "dtype bits load-in-4bit load-in-8bit precision quant quantize quant-type wbits torch-dtype ftype format-weights",
    "--kv-dtype": "kv-quant cache-dtype kv-bits kv-cache-quant",
    "--rate": "qps rps request-rate requests-per-second rpm requests",
    "--batch": "max-concurrency concurrency users num-users concurrent-requests num-prompts n-parallel streams",
    "--max-ttft and --max-tpot": "slo sla goodput latency",
    "--max-tpot": "itl max-itl tpot",
    "--max-ttft": "ttft",
    "--output-tokens": "tokens max-tokens max-new-tokens n-predict num-predict output-length gen-len random-output-len",
    "--prompt": "prompt-len prompt-tokens input-tokens input-length random-input-len n-prompt",
    "--ctx": "seq-len sequence-length seqlen max-length ctx-len context-size context-window n-ctx max-position-embeddings",
    "--draft-tokens": "num-speculative-tokens speculative-num-draft-tokens draft-max",
    "--draft and --draft-tokens": "speculative-model speculative-config speculative-draft-model-path model-draft",
    "--ep N": "enable-expert-parallel expert-parallel moe-expert-parallel-size",
    "--dp N": "enable-dp-attention attention-dp-size attention-dp",
    "--price": "cost spot usd price-per-hour hourly",
    "--reserve": "headroom free-memory overhead",
    "--cpu-offload-gb or --n-gpu-layers": "offload cpu-offload swap-space",
    "--engine": "backend framework runtime server",
    _NONE: "trust-remote-code flash-attn enable-prefix-caching enable-chunked-prefill port host-ip served-model-name disable-log-requests",
}


def hint(message: str) -> str | None:
    """What is meant by an option that there is not; how to give what is missing."""
    missing = re.search(r"Missing option '--(\w+)'", message)
    if missing:
        return {"model": "name one: -m Qwen/Qwen3-8B, a folder, a .gguf file", "hardware": "name one: -d h100-sxm"}.get(missing[1])
    name = _unknown(message)
    return next((f"say it with {near}" if near != _NONE else near for near, words in _MEANT.items() if name in words.split()), None)


def told(message: str) -> str:
    """The message without names that are near in letters, where one is that is near in meaning; an option by one name."""
    if _unknown(message) and hint(message):
        return message.partition(" (Possible options")[0]
    return re.sub(r"(Missing option '--\w+').*", r"\1", message)


def _unknown(message: str) -> str:
    found = re.search(r"No such option: --?([-\w]+)", message)
    return found[1].lower() if found else ""
