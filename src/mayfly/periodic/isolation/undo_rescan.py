"""Undo and rescan: TTU, but what left the window is taken out of the total again (thesis 7.4).

For contents that can be subtracted. Invariant: as TTU's, without aborts. Cost: n_k reads, and two
more for each update that replaces what was read.
"""

from __future__ import annotations

from mayfly.periodic.isolation.time_to_update import TimeToUpdate


class UndoRescan(TimeToUpdate):
    name = "undo"
    joint = False
    undoes = True
