#!/usr/bin/env bash
# A gate for CI: the deployment in the repository must hold its model. --check turns the verdict into exit code 3.
set -euo pipefail

llmcalc fit -m Qwen/Qwen3-32B -d h100-sxm -c 8k -b 1 --engine vllm --check >/dev/null && echo "8k on one H100: fits"

status=0
llmcalc fit -m Qwen/Qwen3-32B -d h100-sxm -c 32k -b 4 --engine vllm --check >/dev/null 2>&1 || status=$?
case $status in
  0) echo "4 x 32k on one H100: fits" ;;
  3) echo "4 x 32k on one H100: does not fit, the pipeline stops here" ;;
  *) echo "llmcalc failed" && exit "$status" ;;
esac
