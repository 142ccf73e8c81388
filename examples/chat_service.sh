#!/usr/bin/env bash
# A chat service: 12 requests a second, 2,000 tokens in, 300 out, first token within 1 s and 25 tokens a second, for 95 of 100 requests.
set -euo pipefail

llmcalc plan -m Qwen/Qwen3-8B -d h100-sxm --rate 12 --prompt 2000 --output-tokens 300 --max-ttft 1s --max-tpot 40ms --percentile 95

# The same as one line for a chat or a spreadsheet. jq would do as well.
llmcalc plan -m Qwen/Qwen3-8B -d h100-sxm --rate 12 --prompt 2000 --output-tokens 300 --max-ttft 1s --max-tpot 40ms --json |
  python3 -c 'import json, sys; r = json.load(sys.stdin)["results"]; print(r["devices"], "GPUs,", round(r["usd_per_month"]), "USD a month, bound by", r["binding"])'
