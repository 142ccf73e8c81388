#!/usr/bin/env bash
# Where a number comes from: the formula, the values put in, and the origin of each; and the same tree as JSON.
set -euo pipefail

llmcalc decode -m meta-llama/Meta-Llama-3-8B -d h100-sxm -c 8k -b 32 --explain
llmcalc kv -m Qwen/Qwen3-8B -c 32k --explain --json |
  python3 -c 'import json, sys; d = json.load(sys.stdin)["derivations"]["kv_bytes_per_token"]; print(d["formula"], "=", d["substituted"], "=", d["value"], d["unit"])'
