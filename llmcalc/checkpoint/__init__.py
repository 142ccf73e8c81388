"""A checkpoint as it ships: which scheme its quantization_config gives every weight, and what that takes in bytes.

A quantiser replaces matrices, and its lists say which it leaves alone, by module name. The names here follow the Hub's
files; where files of different code bases spell a module differently, a list is matched against every spelling.
"""

from llmcalc.checkpoint.names import names
from llmcalc.checkpoint.recipes import PLAIN, RECIPES, made
from llmcalc.checkpoint.schemes import Checkpoint, Kept, Scheme, size
from llmcalc.checkpoint.whole import BALANCED, METHODS, method, on_desktops, read

__all__ = [
    "BALANCED",
    "METHODS",
    "PLAIN",
    "RECIPES",
    "Checkpoint",
    "Kept",
    "Scheme",
    "made",
    "method",
    "names",
    "on_desktops",
    "read",
    "size",
]
