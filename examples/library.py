"""The library: a model, a deployment, estimates, and where a figure comes from."""

import llmcalc

model = llmcalc.load_model("Qwen/Qwen3-8B")
cache = llmcalc.estimate_kv(model, ctx=32768).results["kv_bytes_per_sequence"]
print(f"cache of 32k tokens: {cache:,} B")

plan = llmcalc.deploy(model, "h100-sxm", kv_dtype="fp8", engine="vllm")
fit = llmcalc.estimate_fit(model, plan, ctx=32768)
print(f"sequences that fit: {fit.results['max_batch']}")

step = llmcalc.estimate_decode(model, plan, ctx=32768, batch=16)
print(f"step: {step.results['step_time_s'] * 1e3:.2f} ms, bound by {step.results['bound']}")
for line in step.assumptions:
    print("assumes", line)

try:
    llmcalc.load_hardware("h2000")
except llmcalc.LlmcalcError as problem:
    print(f"{problem.code}: {problem.message} ({problem.hint})")
