#!/usr/bin/env bash
# Many models from stdin, one a line: the cache of each at its longest context. A model that cannot be read is named and skipped.
set -euo pipefail

while read -r model; do
  llmcalc kv -m "$model" --offline --json |
    python3 -c 'import json, sys
answer = json.load(sys.stdin)
if "error" in answer:
    print(sys.argv[1], answer["error"]["code"], sep="\t")
else:
    print(answer["model"]["id"], answer["inputs"]["ctx_tokens"], answer["results"]["kv_bytes_per_sequence"], sep="\t")' "$model" || true
done
