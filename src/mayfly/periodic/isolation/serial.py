"""Serial: updates wait until no query runs, and queries that come meanwhile wait for the updates.

Latest-window-serializable in form only: an update that waits is not in the window yet.
"""

from __future__ import annotations

from mayfly.periodic.isolation.time_to_update import TimeToUpdate


class Serial(TimeToUpdate):
    name = "serial"
    waits = True
