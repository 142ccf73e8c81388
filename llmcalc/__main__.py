"""python -m llmcalc"""

from llmcalc.cli import run

run()
