"""The three families of archives: one file for each, saying all that is particular to it."""

from mayfly.archive.families.cells import Cells
from mayfly.archive.families.counts import Counts
from mayfly.archive.families.waves import Waves

__all__ = ["Cells", "Counts", "Waves"]
