"""One known value for every formula and every side of a choice, worked out by hand from the numbers of known models and devices.

Where a value is printed somewhere, the remark says so; all others are the arithmetic that stands in the remark.
"""

from __future__ import annotations

import doctest
import pkgutil
import sys
from importlib import import_module

import pytest

import llmcalc.formulas
from llmcalc.figures import FORMULAS

for module in pkgutil.iter_modules(llmcalc.formulas.__path__):
    import_module(f"llmcalc.formulas.{module.name}")

KNOWN = [
    # arithmetic
    ("dense_flops", (8e9, 512), 8.192e12),  # 16e9 a token
    ("gemm_bytes", (33_554_432, 64, 8192, 2), 34_603_008),  # 32 MiB of weights, 1 MiB of activations
    ("message_bytes", (64, 8192, 2), 1_048_576),  # 64 x 16 KiB
    ("dispatched_bytes", (1_048_576, 8, 6), 786_432),  # 128 KiB to each of six
    ("step_bytes", (16e9, 32, 1.5e9), 64e9),  # 16 + 48
    ("decode_attention_flops", (32, 16_384, 1000, 8), 4_194_304_000),  # 32 x 16,384 = 524,288; x 8,000
    ("causal_pairs", (1000, 500), 1_000_000),  # half a square of 1,000, and 1,000 x 500
    ("prefill_attention_flops", (32, 16_384, 1e6), 524_288e6),
    ("kv_replication", (8, 16), 2),  # each head on two ranks
    ("kv_replication", (8, 6), 1.5),  # two heads on each of six: 12 of 8
    ("kv_replication", (8, 4), 1),
    # collectives
    ("ring_all_reduce_s", (7.5e-6, 1.75e-6, 8, 32 * 2**20, 290e9), 18e-6 + 1.75 * 33_554_432 / 290e9),  # 7.5 + 6 x 1.75
    ("gather_s", (7e-6, 1e-6, 4, 4e6, 250e9), 21e-6),  # 9 us; 3/4 of 4 MB at 250 GB/s is 12
    ("dispatch_s", (11e-6, 6e-6, 3, 4e5, 200e9, 3e6, 50e9), 91e-6),  # 29 + 2 + 60
    ("forwarded_dispatch_s", (27e-6, 33e-6, 1, 4e6, 200e9, 3e6, 50e9), 120e-6),  # 60, then the longer of 20 and 60
    ("shared_link_bytes_per_s", (20e9, 8, 2), 1.25e9),  # a quarter of the ranks, squared
    ("adapter_params", (16, 4096, 14_336), 294_912),  # 16 x 18,432
    ("host_part_s", (10e-3, 0.5, 5e-3, 0.2, 48, 50e-6), 27.4e-3),  # the longer of 20 and 25 ms, and 2.4
    ("host_chunk_s", (0.3, 0.75, 0.5, 0.5), 0.4),  # the quicker of 0.4 and 1
    # engines
    ("visible_bytes", (80e9, 0.5e9, 0.01), 78.7e9),  # 79.2 - 0.5
    ("usable_beside_buffers", (80e9, 0.9, 2e9, 1e9), 69e9),  # 72 - 3
    ("usable_after_setup", (80e9, 0.9, 2e9, 1e9, 0.2e9), 69e9),  # 70.2 - 1.2
    ("copied_bytes", (1e9, 8, 2), 437.5e6),  # seven eighths of half
    ("free_share_bytes", (80e9, 0.9, 2e9, 1e9, 16e9), 70.9e9),  # 16 + 0.9 x 61
    ("static_share", (81_920, 512, 1.5, 8192, 2, 256, 128, 2, 10_240), 0.834375),  # 512 + 12,288 + 512 + 256 = 13,568 of 81,920
    ("static_share", (81_920, 512, 1.5, 2048, 2, 8, 128, 2, 10_240), 0.875),  # 3,856 is less than an eighth
    ("sampler_bytes", (256, 128_256, 14), 459_669_504),  # 32,833,536 logits
    ("forward_bytes", (20_000, 55_000, 2), 2.2e9),
    ("expert_workspace_bytes", (8192, 8, 2048, 768, 2048, 2), 536_870_912),  # 65,536 rows x 4,096 x 2
    ("expert_workspace_bytes", (8192, 8, 2048, 1408, 2048, 2), 637_534_208),  # 65,536 rows x (2,816 + 2,048) x 2
    ("activation_bytes", (100, 20, 5, 3), 125),
    ("activation_bytes", (100, 20, 3, 7), 127),
    ("graph_bytes", (400e6, 86, 32, 2e5, 10, 8e5), 1638.4e6),  # 400 + 86 × (6.4 + 8)
    ("padded_tokens", (1000, 16), 1008),  # 62.5 blocks
    ("window_cells", (131_072, 1000, 512, 256), 1536),  # 1,512 is 5.9 blocks
    ("window_cells", (100, 1000, 512, 256), 256),
    ("window_share_tokens", (10_000, 0.8), 8000),
    ("full_blocks", (1000, 16), 63),
    ("window_blocks", (131_072, 1024, 2050, 16), 194),  # 3,073 is 192.06 blocks; one more
    ("window_blocks", (131_072, 1024, 2049, 16), 193),  # 3,072 is 192 blocks; one more
    ("window_blocks", (100, 1024, 2048, 16), 8),  # 6.25 blocks; one more
    ("chunk_blocks", (131_072, 8192, 2040, 16), 640),  # 10,232 is 639.5 blocks
    ("chunk_blocks", (100, 8192, 2040, 16), 7),
    ("grouped_bytes", (193, 6, 8, 65_536, 2), 1_214_251_008),  # 9,264 x 128 KiB
    ("split_pool_bytes", (100e6, 45e6, 0.9, 4), 380e6),  # states: 1.9 x 180/0.9
    ("split_pool_bytes", (100e6, 45e6, 0.9, 1), 190e6),  # caches: 1.9 x 100, over 50
    ("packed_latent_bytes", (61, 512, 64, 1, 4, 2), 61 * 656),  # FlashMLA prints 656 B a token and layer
    ("packed_index_bytes", (61, 128, 1, 4), 61 * 132),  # 128 and a scale of four bytes
    ("encoder_bytes", (4096, 1152, 4304, 2, 2), 98_828_288),  # 8,192 x (3,456 + 8,608)
    ("profile_bytes", (100, 20, 90), 110),
    ("profile_bytes", (200, 20, 90), 200),
    ("padding_bytes", (32, 2880, 2880, 3072, 2944, 4), 11_993_088),  # 9,043,968 - 8,294,400 = 749,568; x 32 / 2
    ("packed_entry_bytes", (512, 64, 64), 584),  # vLLM prints 584 for DeepSeek-V4
    ("compressor_entry_bytes", (512, 3), 12_288),  # 3,072 numbers of four bytes
    ("aligned_page_bytes", (64, 584, 576), 37_440),  # 37,376 is 64.9 x 576
    ("shared_blocks", (1_000_000, 37_440), 27),  # 26.7
    ("product_s", (0.008, 0.002, 0.8, 0.5, 0.25), 0.011),  # reading 10 ms, arithmetic 4, of which a quarter is apart
    ("experts_read_s", (0.016, 128, 8, 1, 0.5, 1.0), 0.001),  # one token: an eighth of 128 thirds
    ("experts_read_s", (0.016, 128, 8, 3, 0.5, 1.2), 0.002325),  # two independent ones: 1 - (15/16)^2 of 16 ms, and the fullest rank
    ("layers_s", (30, 1e-4, 4, 5e-5, 10, 2e-5), 0.0034),
    ("host_s", (3, 1e-3, 1e-4, 5, 5e-4, 2, 5e-4), 0.004),  # 0.5 + 2 + 0.5 + 1 ms
    ("expected_step_s", (0.01, 0.001, 0.002, 0.003, 0.004, 0.0005, 0.5, 0.001, 2, 0.0034, 0.004), 0.0314),
    ("expected_reading_s", (0.01, 0.001, 0.003, 0.001, 2, 0.002, 0.0005, 4, 2, 0.03, 0.5, 0.001, 0.5, 0.002, 0.8), 0.1045),
    ("prompts_in_reading", (4, 0.1, 100, 0.003), 1.0),  # each spends a quarter of its 400 ms reading
    ("turn_wait_s", (96, 64, 20), 10.0),  # half as many wait as are held
    ("expected_ttft_s", (0.1, 1, 0.3, 4, 0.05, 1, 0.01, 1.5, 1000, 2e-6, 0.02, 0), 0.187),  # 150 + 15 + 2 + 20 ms
    ("power_share", (0.35, 0.45, 0.008, 0.01), 0.71),
    ("power_share", (0.7, 0.6, 1, 1), 1),
    ("limited_share", (0.95, 175, 350), 0.5),
    ("limited_share", (0.4, 250, 350), 0.4),
    ("read_alongside", (8, 15, 5, 60, 0.05, 0.0125), 3.36),
    ("read_alongside", (8, 4, 3, 48, 0.05, 0.05), 0.6),
    ("expected_joules_per_token", (700, 8, 0.71, 0.02, 32), 2.485),
    ("power_usd_per_hour", (5600, 1.3, 0.1), 0.728),  # 7.28 kW at 10 cents
    ("batch_request_s", (2, 8, 0.05, 0.8, 100, 0.01, 0.02), 2.66),  # twice 0.32 + 1 s
    ("prompts_together", (2,), 2.3130352854993315),  # 2 / (1 - exp(-2))
    ("interrupted_step_s", (0.02, 0.1, 7, 200, 0.5), 0.02175),  # 20 ms + 0.7 s / 200 / 2
    # memory
    ("kv_bytes_per_token", (32, 8, 128, 2), 131_072),  # Llama-3-8B
    ("split_kv_bytes_per_token", (48, 4, 192, 128, 2), 122_880),  # 192 heads x 640 B
    ("latent_bytes_per_token", (61, 512, 64, 2), 70_272),  # DeepSeek-V3's own 70.272 KB
    ("index_bytes_per_token", (61, 128, 2), 15_616),
    ("single_head_bytes_per_token", (61, 512, 2), 62_464),
    ("tokens_in_window", (131_072, 4096), 4096),
    ("tokens_in_window", (100, 4096), 100),
    ("compressed_entries", (1003, 4), 250),
    ("cache_bytes", (131_072, 8192), 2**30),
    ("state_bytes", (36, 524_288, 4), 75_497_472),  # 36 x 2 MiB
    ("conv_state_elements", (8192, 4), 24_576),
    ("ssm_state_elements", (32, 128, 64), 262_144),
    ("vector_state_elements", (2, 4096), 8192),
    ("batch_bytes", (1.5e9, 8), 12e9),
    ("weight_bytes", (8e9, 4.5), 4.5e9),
    ("stored_bytes", (3, 300, 1000, 4, 128, 128, 4, 8), 450_312),  # 150,000 + 3 x 8 blocks of 4 + 8, three times
    ("effective_bits", (4.5e9, 8e9), 4.5),
    ("saved_bytes", (16e9, 4.5e9), 11.5e9),
    ("max_batch_exact", (54e9, 1.5e9), 36),
    ("share", (3, 12), 0.25),
    ("amortised", (584, 4), 146),
    ("matrix_params", (32, 3, 4096, 14_336), 5_637_144_576),  # the MLPs of Llama-3-8B
    ("vector_params", (65, 4096), 266_240),  # its norms
    ("replicated_bytes", (1e9, 8), 8e9),
    ("expert_read_bytes", (50e6, 64, 4.25), 1.7e9),  # 3.2e9 x 4.25 / 8
    ("usable_bytes", (80e9, 0.9, 6e9), 66e9),
    ("kv_budget_bytes", (66e9, 16e9), 50e9),
    # money
    ("deployment_usd_per_hour", (2.5, 8), 20),
    ("nodes_taken", (5, 3, 8), 3),  # two of three in a node, then one
    ("nodes_taken", (2, 16, 8), 4),  # two each
    ("usd_per_million_tokens", (3.6, 1000, 0.5), 2),  # $0.001 a second for 500 tokens
    ("usd_per_million_from_time", (3.6, 0.002, 0.5), 4),  # $0.001 a second; 2,000 s, 4,000 s at half load
    ("blended_usd_per_million", (2, 5, 3000, 1000), 2.75),  # $6 + $5 for four parts
    ("joules_per_token", (700, 8, 2800), 2),
    ("owned_usd_per_hour", (26_280, 3, 700, 0.2, 1.3), 1.182),  # 26,280 h, and 0.91 kW at $0.20
    ("usd_per_successful_task", (0.3, 0.75), 0.4),
    ("api_usd_per_request", (3, 15, 2000, 500), 0.0135),  # 0.6 and 0.75 cents
    ("break_even_requests", (2160, 0.0135), 160_000),
    # queues
    ("load", (4, 0.2), 0.8),
    ("in_flight", (4, 2.5), 10),
    ("steady_batch", (2, 300, 0.01, 0.0005, 0.2), 12),  # 6 / (1 - 0.2 - 0.3)
    ("steady_tpot_s", (0.01, 0.0005, 12, 0.2), 0.02),  # 16 ms / 0.8
    ("max_rate", (0.05, 300, 0.0005), 5),  # 50 + 150 ms
    ("mean_context", (200_000, 40_000, 200), 1100),  # 1,000 and half of 200
    ("mean_wait_s", (4, 0.06, 0.8), 0.6),  # 0.24 / 0.4
    ("uniform_ttft_s", (4, 0.2), 0.6),  # 0.2 + 0.16 / 0.4
    ("pipelined_ttft_s", (4, 0.2), 0.2 + 1 / 30),  # 0.16 / 4.8
    ("parallel_ttft_s", (4, 0.2, 1.6), 0.1875),  # 0.125 + 0.16 / 2.56
    ("tail_ttft_s", (0.2, 3, 0.8, 0.5), 2.45),  # 0.2 + 0.9 / 0.4
    ("shared_queue_wait_s", (0.5, 4, 3, 0.2), 0.1),
    ("shared_queue_wait_s", (0.5, 6, 3, 0.6), 0.1),  # three idle servers
    ("general_wait_s", (0.4, 0.5, 1), 0.3),
    ("static_utilization", (200, 800), 0.25),
    # sampling
    ("boltzmann_weight", (2, 0.5), 54.598150033144236),  # e to the fourth
    ("accepted_share", (0.6, 0.25), 0.25),
    ("accepted_share", (0.1, 0.25), 0.1),
    # serving
    ("prefill_s", (0.1, 0.02, 0.03, 0.01, 0.005), 0.135),
    ("prefill_s", (0.01, 0.02, 0.03, 0.04, 0.005), 0.065),
    ("pipeline_bubble", (4, 8), 3 / 11),  # GPipe: (K - 1) / (M + K - 1)
    ("pipelined_s", (1.6, 4, 8), 2.2),  # 0.2 s each, eleven times
    ("mixed_step_s", (0.006, 0.01, 0.004, 0.001, 0.002), 0.019),
    ("mixed_step_s", (0.006, 0.01, 0.02, 0.001, 0.002), 0.029),
    ("free_tokens", (300, 64), 236),
    ("free_tokens", (300, 400), 0),
    ("shared_tokens", (1000, 16), 992),
    ("prefilled_tokens", (50, 1200, 992), 11_392),  # 992 + 50 x 208
    ("paged_waste", (100, 16), 3 / 43),  # 7.5 of 107.5
    ("reserved_waste", (512, 2048), 0.75),
    ("routed_hit_rate", (0.8, 4), 0.2),
    ("transfer_s", (1e9, 25e9), 0.04),
    ("break_even_link", (1e9, 0.05), 20e9),
    ("transfer_rate", (10, 0.5e9), 5e9),
    ("pool_replicas", (12, 0.25, 0.75), 4),
    # sizing
    ("output_demand", (12, 300), 3600),
    ("concurrent_sequences", (12, 300, 0.02), 72),
    ("devices_exact", (3600, 1000, 0.8), 4.5),
    # speculation: 0.8 to the fifth is 0.32768
    ("expected_tokens_per_step", (0.8, 4), 3.3616),  # 0.67232 / 0.2
    ("all_accepted_tokens", (4,), 5),
    ("ideal_speedup", (3.3616, 4, 0.1), 3.3616 / 1.4),
    ("operations_factor", (0.8, 4, 0.1), 1.08 / 0.67232),  # 0.2 x 5.4
    ("speculative_step_s", (0.02, 4, 0.002), 0.028),
    ("speculative_tpot_s", (0.028, 3.5), 0.008),
    ("speedup", (0.02, 0.008), 2.5),
    # time: 2 TB/s and 1 PFLOP/s
    ("read_s", (16e9, 2e12, 4), 0.002),
    ("kv_read_s", (8, 1.5e9, 2e12, 4), 0.0015),
    ("compute_s", (8e9, 32, 1e15, 4), 1.28e-4),  # 512e9 / 4e15
    ("work_s", (8e12, 1e15, 4), 0.002),
    ("napkin_step_s", (0.006, 0.01, 0.004, 0.001), 0.017),
    ("napkin_step_s", (0.006, 0.01, 0.02, 0.001), 0.027),
    ("operator_s", (1e9, 1e12, 2e12, 1e15), 0.001),
    ("operator_s", (4e9, 1e12, 2e12, 1e15), 0.002),
    ("tokens_per_s", (32, 0.016), 2000),
    ("ceiling_tokens_per_s", (2e12, 4, 16e9), 500),
    ("critical_batch", (1e15, 2, 2e12, 8), 4000),  # 500, eight times
    ("kv_crossover_batch", (16e9, 0.5e9), 32),
    ("quantise_first_batch", (12e9, 0.25e9), 48),
    ("distinct_experts", (8, 2, 4), 5.46875),  # 8 x (1 - 81/256)
    ("intensity", (6e12, 2e10), 300),
    ("reached_flops_per_s", (8e12, 0.02), 4e14),
    ("roof_flops_per_s", (100, 2e12, 1e15), 2e14),
    ("roof_flops_per_s", (600, 2e12, 1e15), 1e15),
    ("ridge_point", (1e15, 2e12), 500),
    ("all_reduce_s", (1e-5, 8, 1e6, 1e11), 3.75e-5),  # two shots: 20 + 2 x 8.75 us; one: 10 + 70
    ("all_reduce_s", (1e-5, 8, 1e5, 1e11), 1.7e-5),  # one shot: 10 + 7 us; two: 20 + 1.75
    ("all_to_all_s", (1e-5, 8, 1e6, 1e11), 1.875e-5),
    ("hand_over_s", (1e-5, 1e6, 1e11), 2e-5),
    ("repeated_s", (32, 2e-4), 0.0064),
    ("batch_within_tpot", (0.05, 0.01, 0.0005), 80),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "value"), KNOWN, ids=[f"{name}-{place}" for place, (name, _, _) in enumerate(KNOWN)])
def test_a_formula_gives_its_known_value(name: str, given: tuple[float, ...], value: float) -> None:
    assert FORMULAS[name](*given) == pytest.approx(value, rel=1e-12)


def test_every_formula_has_one() -> None:
    assert {name for name, _, _ in KNOWN} == set(FORMULAS)


class Nearly(doctest.OutputChecker):
    """Numbers that agree to six digits."""

    def check_output(self, want: str, got: str, flags: int) -> bool:
        return float(got) == pytest.approx(float(want), rel=1e-6)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_has_a_reference_and_an_example_that_runs(name: str) -> None:
    formula = FORMULAS[name]
    assert formula.ref, "a paper, a source or, where it only says what a word means, `definition`"
    (example,) = doctest.DocTestFinder(recurse=False).find(
        formula.function, name, globs=dict(vars(sys.modules[formula.function.__module__]))
    )
    assert example.examples, "an example: >>> name(numbers), and the value below it"
    runner = doctest.DocTestRunner(Nearly(), verbose=False)
    runner.run(example)
    assert runner.failures == 0
