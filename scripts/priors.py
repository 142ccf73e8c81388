"""What the constants of expected times are believed to be before any whole model was timed, and how far they may differ.

name: (value, its standard deviation as a logarithm, what it depends on and how much, meaning, source). Desktop engines share meanings.
"""

from __future__ import annotations

KERNELS = "aiconfigurator-core 0.12 kernel tables, 2026-09"

Level = tuple[str, float]
NEAR = 0.04
"""How far a device's share of its rated arithmetic may lie from what large products measured there, as a logarithm."""
# name: (prior, its standard deviation as a logarithm, what it depends on and how much, meaning, source of the prior)
SERVING: dict[str, tuple[float, float, tuple[Level, ...], str, str]] = {
    "dense_share": (0.82, 0.06, (("generation", 0.12), ("format", 0.06), ("generation, format", 0.1), ("engine", 0.12)),
                    "of memory bandwidth, when matrices in the weights' format are read", KERNELS),
    "plain_share": (0.82, 0.05, (("generation", 0.1), ("engine", 0.1), ("device", NEAR)), "the same of matrices left in 16 bits", KERNELS),
    "expert_share": (0.7, 0.1, (("generation", 0.15), ("expert format", 0.15), ("generation, expert format", 0.12), ("engine", 0.2)),
                     "the same of routed experts", KERNELS),
    "cache_share": (0.8, 0.05, (("generation", 0.2), ("cache format", 0.05), ("generation, cache format", 0.15), ("engine", 0.3)),
                    "of memory bandwidth, when attention reads caches", KERNELS),
    "score_share": (0.5, 0.3, (("generation", 0.2),), "of the 16-bit rate, in a step's attention", KERNELS),
    "compute_share": (0.62, 0.1, (("generation", 0.15), ("format", 0.15), ("generation, format", 0.1),
                      ("engine", 0.15), ("generation, engine", 0.15), ("device", NEAR)),
                      "of the format's rate, in a step's products", KERNELS),
    "expert_compute_share": (0.35, 0.3, (("generation", 0.2), ("expert format", 0.2), ("engine", 0.2)), "the same of experts", KERNELS),
    "apart_share": (0.25, 0.3, (), "of the shorter of reading and arithmetic, what does not overlap", KERNELS),
    "plain_apart_share": (0.25, 0.3, (), "the same of matrices left in 16 bits", KERNELS),
    "expert_apart_share": (0.25, 0.3, (), "the same of routed experts", KERNELS),
    "routing_share": (0.8, 0.2, (), "of independent tokens, those that choose experts of their own", KERNELS),
    "imbalance_factor": (1.2, 0.2, (), "the fullest rank's experts over the mean, where groups share experts", "arXiv:2505.09343"),
    "talk_factor": (1.0, 0.15, (("link", 0.3), ("engine", 0.25)), "of the collectives' measured time", "kernel timings: links.py"),
    "layer_s": (25e-6, 0.25, (("generation", 0.3), ("engine", 0.9), ("generation, engine", 0.3)), "per layer of a step", KERNELS),
    "mixture_s": (30e-6, 0.3, (("generation", 0.2), ("engine", 0.6)), "per mixture of a step", KERNELS),
    "recurrent_s": (20e-6, 0.4, (), "per recurrent layer of a step", KERNELS),
    "sequence_s": (15e-6, 0.5, (("generation", 0.3), ("engine", 0.9)), "the host's time per sequence of a step", "rows"),
    "sampling_factor": (5.0, 0.7, (), "times that a step's logits pass through memory", "rows"),
    "dequantise_factor": (1e-3, 0.1, (), "vector operations per unpacked weight beyond two", "kernels unpack while they read"),
    "step_s": (400e-6, 0.5, (("engine", 0.9),), "per step", "rows"),
    "interruption_share": (0.8, 0.15, (("engine", 0.2),), "of a prompt's time, what the running sequences wait", "rows"),
    "prompt_share": (0.6, 0.1, (("generation", 0.15), ("format", 0.15), ("generation, format", 0.1),
                      ("engine", 0.25), ("device", NEAR)),
                     "of the format's rate, in a prompt's products", KERNELS),
    "prompt_expert_share": (0.3, 0.3, (("generation", 0.2), ("expert format", 0.2), ("generation, expert format", 0.1), ("engine", 0.25)),
                            "the same of experts", KERNELS),
    "prompt_score_share": (0.4, 0.3, (("generation", 0.2),), "of the 16-bit rate, in a prompt's attention", KERNELS),
    "prompt_layer_s": (200e-6, 0.6, (("engine", 0.9), ("generation, engine", 0.4)), "per layer and chunk of a prompt", "rows"),
    "prompt_mixture_s": (100e-6, 0.8, (("engine", 0.6),), "per mixture and chunk of a prompt", "rows"),
    "prompt_recurrent_s": (200e-6, 0.8, (("engine", 0.5),), "per recurrent layer and chunk of a prompt", "rows"),
    "activation_factor": (4.0, 0.6, (), "times that a prompt's hidden states pass through memory per layer", "rows"),
    "queue_share": (0.3, 0.6, (("engine", 0.3),), "of the prompts that are being read on arrival, those that go first", "rows"),
    "burst_share": (0.05, 0.6, (("engine", 0.4),), "of others, those whose prompts came together with one's own", "rows"),
    "steps_waited": (1.5, 0.4, (), "steps of the running batch before a prompt is begun and after it", "rows"),
    "request_s": (20e-3, 0.6, (("engine", 0.7),), "per request, of server and client", "rows"),
    "token_s": (2e-6, 0.7, (), "per prompt token, of server and client", "rows"),
    "idle_share": (0.35, 0.3, (("generation", 0.3),), "of rated power, drawn while the host is waited for", "rows"),
    "busy_share": (0.45, 0.2, (("generation", 0.3),), "of rated power, what running kernels add", "rows"),
    "load_factor": (1.08, 0.06, (("engine", 0.08),), "a full load's time over its steps': filling, draining, scheduling", "rows"),
}  # fmt: skip
DESKTOP: dict[str, tuple[float, float, tuple[Level, ...], str, str]] = {
    "dense_share": (0.9, 0.05, (("generation", 0.1), ("device", 0.08), ("format", 0.07), ("generation, format", 0.07), ("engine", 0.1)),
                    "", "read tests and matrix-vector kernels: hardware notes, 2026-11"),
    "plain_share": (0.92, 0.05, (("generation", 0.12), ("device", 0.08), ("engine", 0.15)), "", ""),
    # As wide as a matrix an expert is read as fast; what small ones lose is a mixture's fixed cost.
    "expert_share": (0.8, 0.1, (("generation", 0.12), ("device", 0.08), ("expert format", 0.12), ("generation, expert format", 0.1),
                                ("engine", 0.1)), "", ""),
    "cache_share": (0.75, 0.2, (("generation", 0.3), ("cache format", 0.2), ("engine", 0.2)), "", ""),
    "score_share": (0.3, 0.5, (("generation", 0.3),), "", ""),
    "compute_share": (0.4, 0.5, (("generation", 0.3),), "", ""),
    "expert_compute_share": (0.3, 0.5, (("generation", 0.3),), "", ""),
    "apart_share": (0.3, 0.5, (), "", ""),
    "plain_apart_share": (0.3, 0.5, (), "", ""),
    "expert_apart_share": (0.3, 0.5, (), "", ""),
    "routing_share": (0.7, 0.3, (), "", ""),
    "imbalance_factor": (1.0, 0.01, (), "", ""),
    "talk_factor": (1.0, 0.15, (("link", 0.3), ("engine", 1.0)), "", ""),
    "layer_s": (30e-6, 0.25, (("generation", 0.6), ("device", 0.15), ("engine", 0.3), ("generation, engine", 0.25)),
                "per layer of a step: some 15 kernels of 2 us each", "launches in a CUDA graph"),
    "mixture_s": (60e-6, 0.5, (("generation", 0.3), ("engine", 0.2)), "", ""),
    "recurrent_s": (30e-6, 0.5, (("generation", 0.3),), "", ""),
    "sequence_s": (0.5e-3, 1.0, (("generation", 0.4),), "", ""),
    "sampling_factor": (5.0, 0.5, (), "", ""),
    "dequantise_factor": (0.5, 0.5, (("generation", 0.4), ("format", 0.15)), "vector operations per unpacked weight, in pairs", "rows"),
    "step_s": (100e-6, 0.3, (("generation", 0.3),), "", ""),
    "interruption_share": (1.0, 0.05, (), "", ""),
    "prompt_share": (0.45, 0.5, (("generation", 0.4), ("device", 0.15), ("format", 0.15), ("engine", 0.2)), "", ""),
    "prompt_expert_share": (0.3, 0.5, (("generation", 0.4), ("device", 0.1), ("expert format", 0.15), ("engine", 0.2)), "", ""),
    "prompt_score_share": (0.2, 0.6, (("generation", 0.5), ("engine", 0.3)), "", ""),
    "prompt_layer_s": (60e-6, 0.7, (("generation", 0.4),), "", ""),
    "prompt_mixture_s": (60e-6, 0.7, (), "", ""),
    "prompt_recurrent_s": (60e-6, 0.7, (), "", ""),
    "activation_factor": (10.0, 0.8, (("generation", 0.3),), "", ""),
    "queue_share": (0.5, 0.1, (), "", ""),
    "burst_share": (0.05, 0.1, (), "", ""),
    "steps_waited": (1.0, 0.1, (), "", ""),
    "request_s": (5e-3, 0.7, (), "", ""),
    "token_s": (1e-7, 0.1, (), "", ""),
    "idle_share": (0.35, 0.3, (("generation", 0.3),), "", ""),
    "busy_share": (0.5, 0.2, (("generation", 0.3), ("device", 0.1)), "", ""),
    "load_factor": (1.0, 0.05, (), "", ""),
}  # fmt: skip
KNOWN: dict[str, dict[tuple[str, str, str], tuple[float, float]]] = {
    "serving": {
        # Products of 16 tokens and more than 4 MB of weights, the fixed cost apart: TB/s over the rated ones, over the value above.
        ("dense_share", "generation", "hopper"): (1.04, 0.05),  # 2.8-2.9 of 3.35, 4.1 of 4.8
        ("dense_share", "generation", "blackwell"): (0.95, 0.05),  # 5.8-6.6 of 8
        ("dense_share", "generation", "ampere"): (0.92, 0.05),  # 1.50-1.59 of 2.04
        ("dense_share", "generation", "ada"): (0.97, 0.05),  # 0.67-0.83 of 0.86
        ("dense_share", "generation", "blackwell-gddr"): (1.11, 0.05),  # 1.44-1.50 of 1.6
        ("dense_share", "generation, format", "hopper, 8 bits"): (0.94, 0.04),
        ("dense_share", "generation, format", "hopper, 8 bits in blocks"): (0.96, 0.04),
        ("dense_share", "generation, format", "blackwell, 8 bits"): (0.90, 0.04),
        ("dense_share", "generation, format", "blackwell, 8 bits in blocks"): (1.0, 0.05),
        ("dense_share", "generation, format", "blackwell, 4-bit floats"): (0.87, 0.06),
        ("dense_share", "generation, format", "blackwell-gddr, 8 bits"): (0.95, 0.06),
        ("dense_share", "generation, format", "blackwell-gddr, 4-bit floats"): (0.77, 0.06),
        ("dense_share", "generation, format", "ada, 8 bits"): (0.88, 0.05),
        **{
            ("plain_share", "generation", name): (share, 0.05)
            for name, share in {"hopper": 1.04, "blackwell": 0.95, "ampere": 0.92, "ada": 0.97, "blackwell-gddr": 1.11}.items()
        },
        # llama.cpp reads matrices of 16 bits at 0.89 and 0.81 of the rated rate there, at 0.76 on an L40S, whose memory corrects errors.
        ("plain_share", "device", "rtx-4090"): (1.12, NEAR),
        ("plain_share", "device", "rtx-6000-ada"): (1.07, NEAR),
        # Attention of one token over caches of more than 60 MB, the median of engines, batches and lengths.
        ("cache_share", "generation", "hopper"): (1.0, 0.05),  # 2.4-3.0 of 3.35, 3.0-4.0 of 4.8
        ("cache_share", "generation", "blackwell"): (0.95, 0.05),  # 5.0-6.7 of 8
        ("cache_share", "generation", "ampere"): (0.84, 0.1),  # 0.8-1.5 of 2.04; TensorRT-LLM's stay in the L2
        ("cache_share", "generation", "ada"): (1.0, 0.05),  # 0.65-0.72 of 0.86
        ("cache_share", "generation", "blackwell-gddr"): (1.16, 0.05),  # 1.5 of 1.6
        ("cache_share", "generation, cache format", "hopper, 8 bits"): (0.75, 0.06),  # vLLM 0.5-0.67 of the rated rate, SGLang 0.44-0.56
        ("cache_share", "generation, cache format", "blackwell, 8 bits"): (0.87, 0.06),
        ("cache_share", "generation, cache format", "ada, 8 bits"): (0.97, 0.05),
        ("cache_share", "generation, cache format", "blackwell-gddr, 8 bits"): (0.98, 0.05),
        # Triton's products on an H100: 400 of 1,979 TFLOP/s where those in 16 bits reach 670 of 989. [vllm#23280]
        ("compute_share", "format", "8 bits in blocks"): (0.4, 0.2),
        ("prompt_share", "format", "8 bits in blocks"): (0.4, 0.2),
    },
    "desktop": {
        # Matrix-vector kernels of 2024 against those of 2026 on one M2 Ultra and one 3090 (scoreboards of llama.cpp), launches taken out.
        ("dense_share", "engine", "llama.cpp@2024"): (0.95, 0.06),
        ("layer_s", "engine", "llama.cpp@2024"): (1.7, 0.3),  # launches one by one: CUDA graphs came in May 2024, fused operators later
        ("mixture_s", "engine", "llama.cpp@2024"): (4.0, 0.3),  # the host read which experts were chosen before it launched their products
    },
}
"""Factors that kernels or the same device under two releases tell: (factor, its standard deviation as a logarithm)."""
USUAL = 0.8
MATRICES = {
    "a100-80-sxm": 0.87, "a100-40-sxm": 0.87, "a100-80-pcie": 0.81, "gh200-96": 0.84, "gh200-144": 0.84, "h20": 0.96, "b200": 0.78,
    "b300": 0.79, "gb200": 0.73, "mi300x": 0.51, "mi325x": 0.60, "mi355x": 0.62, "gaudi2": 0.97, "gaudi3": 0.74, "l40s": 0.74,
    "rtx-pro-6000-blackwell": 0.78, "rtx-pro-6000-blackwell-server": 0.78, "rtx-3090": 1.08, "rtx-4090": 1.01, "rtx-5090": 1.11,
}  # fmt: skip
"""Large products in 16 bits over the rated speed, where it is not the USUAL 80% of an H100: caps on power, real clocks above rated ones.
[stas00/ml-engineering mamf-finder; torch.matmul up to 10240^3; hardware notes, 2026-11]"""
KNOWN["serving"] |= {
    (name, "device", device): (share / USUAL, NEAR) for name in ("compute_share", "prompt_share") for device, share in MATRICES.items()
}
USERS = {"sgl-cookbook": 0.4}
"""Sources that ran servers as they come: a factor of all their times, which no estimate has, and how far it may be from 1."""
SPECS = {"serving": SERVING, "desktop": DESKTOP}
SHAPES = (
    ("llama-3-8b llama-3.1-8b llama-8b", "llama-8b"),
    ("llama-3-70b llama-3.1-70b llama-3.3-70b", "llama-70b"),
    ("405b", "llama-405b"),
    ("mixtral-8x7b", "mixtral-8x7b"),
    ("deepseek-v3 deepseek-r1 kimi-k2", "deepseek"),
    ("qwen3-235b qwen3-vl-235b", "qwen3-235b"),
    ("qwen3-30b qwen3-coder-30b qwen3-vl-30b qwen3-omni-30b", "qwen3-30b"),
    ("qwen3.5-35b qwen3.6-35b", "qwen3.5-35b"),
    ("qwen3.5-27b qwen3.6-27b qwen3.8-27b", "qwen3.5-27b"),
    ("qwen2.5-7b qwen2.5-coder-7b qwen2-7b", "qwen2-7b"),
    ("qwen3-8b qwen3-vl-8b", "qwen3-8b"),
    ("qwen3-32b qwen3-vl-32b", "qwen3-32b"),
    ("gemma-4-26b", "gemma-4-26b"),
)
"""Models of one shape are left out together."""
