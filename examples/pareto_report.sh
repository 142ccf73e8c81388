#!/usr/bin/env bash
# A report on the trade between speed and cost: Markdown for the ticket, a page to click through, CSV for the spreadsheet.
set -euo pipefail
folder="${1:-$(mktemp -d)}"

for ending in md html csv; do
  llmcalc pareto -m Qwen/Qwen3-32B -d h100-sxm,h200-sxm --weights auto,fp8 --max-tpot 30ms --mark chat=50ms --mark agent=10ms -o "$folder/front.$ending"
done
head -5 "$folder/front.md"
ls "$folder"
