"""Update patterns: the algebra and how operators propagate them."""

from mayfly.patterns.lattice import MON, STR, WK, Kind, Pattern, join_all, merge_all, wks
from mayfly.patterns.propagation import Label, PatternError

__all__ = [
    "MON",
    "STR",
    "WK",
    "Kind",
    "Label",
    "Pattern",
    "PatternError",
    "join_all",
    "merge_all",
    "wks",
]
