#!/usr/bin/env bash
# Four GPUs for the same work: as many sequences as stay within 40 ms per token. A table to read, and a CSV file to keep.
set -euo pipefail
folder="${1:-$(mktemp -d)}"

llmcalc compare -m Qwen/Qwen3-8B -d h100-sxm,a100-80-sxm,l40s,rtx-4090 -c 8k --max-tpot 40ms
llmcalc compare -m Qwen/Qwen3-8B -d h100-sxm,a100-80-sxm,l40s,rtx-4090 -c 8k --max-tpot 40ms -o "$folder/gpus.csv"
head -1 "$folder/gpus.csv"
