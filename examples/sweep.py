"""A sweep: the formulas take numpy arrays, so a curve over the batch is one call. From which batch on do caches cost more than weights?"""

import numpy as np

import llmcalc

batch = 2 ** np.arange(9)
cache = llmcalc.kv_bytes_per_token(layers=32, kv_heads=8, head_dim=128, bytes_per_element=2) * 8192  # Llama-3-8B at 8k
weights = llmcalc.weight_bytes(params=8_030_261_248, bits_per_weight=16)
read_s = (weights + batch * cache) / 3.35e12  # an H100 reads 3.35 TB/s

for size, seconds in zip(batch, read_s, strict=True):
    share = size * cache / (weights + size * cache)
    print(f"batch {size:>3}  {seconds * 1e3:6.2f} ms  {size / seconds:8.1f} tokens/s  {share:4.0%} of it caches")
print(f"equal from batch {weights / cache:.2f}")
