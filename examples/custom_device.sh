#!/usr/bin/env bash
# A device that llmcalc does not know: check the file that describes it, then use its path wherever a device is asked for.
set -euo pipefail
cd "$(dirname "$0")"

llmcalc hardware check my-gpu.yaml
llmcalc decode -m meta-llama/Meta-Llama-3-8B -d my-gpu.yaml -c 8k -b 32
llmcalc compare -m meta-llama/Meta-Llama-3-8B -d my-gpu.yaml,h100-sxm -c 8k -b 32
