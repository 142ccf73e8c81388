#!/usr/bin/env bash
# Interview practice: two questions, answered from stdin. Without a pipe it asks at the terminal.
set -euo pipefail

printf '%s\n' "${@:-116}" '?' | llmcalc quiz --seed 7 --count 2
