#!/usr/bin/env bash
# Interview practice: two questions, answered from stdin (116 and "skip" unless others are given). At a terminal `llmcalc quiz` asks you.
set -euo pipefail

printf '%s\n' "${@:-116}" '?' | llmcalc quiz --seed 7 --count 2 --topic ceiling
