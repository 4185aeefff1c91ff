"""What changed in a query's answer between two closed instants, as one event.

Idea: the log holds every result with its lifetime, so the changes of [since, until) are the results
that begin or end in it; no version has to be kept for readers. Invariant: events that follow each
other, each since the end of the one before, have every change once, whichever versions they are
read from. Cost: the segments whose times meet the interval.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.display import plain
from mayfly.lifetime import MIN_TIME, instant_text
from mayfly.serving.tables import View

BEGIN, END = "+", "-"


@dataclass(frozen=True)
class ChangeEvent:
    """All changes of the instants from ``since`` on and before ``until``, in the order of time."""

    since: int
    until: int
    version: int
    """Of the checkpoint, from which they were read."""
    changes: tuple[dict[str, Any], ...] = ()
    """``op`` (+ begins, - ends), ``ts``, ``exp`` if there is one, and the ``row``."""

    def to_json(self) -> bytes:
        """On one line."""
        value = {
            "since": None if self.since == MIN_TIME else instant_text(self.since),
            "until": instant_text(self.until),
            "version": self.version,
            "changes": plain(self.changes),
        }
        return json.dumps(value, ensure_ascii=False).encode()


def next_event(view: View, since: int, most: int) -> ChangeEvent | None:
    """The changes from an instant to the clock, or to an earlier instant if they are more than
    ``most``; None if the clock has not moved."""
    clock = view.clock
    if clock <= since:
        return None
    view.check_changes(since)
    rows = view.turnover(since, clock)
    changes = _changes(view, rows, since, clock)
    until = clock
    if len(changes) > most:
        first, cut = changes[0][0], changes[most][0]
        until = cut if cut > first else first + 1
        changes = [change for change in changes if change[0] < until]
    listed = tuple(change for _, _, change in changes)
    return ChangeEvent(since, until, view.manifest.version, listed)


def _changes(
    view: View, rows: pa.Table, since: int, until: int
) -> list[tuple[int, bool, dict[str, Any]]]:
    """With their instants; what ends at an instant comes before what begins."""
    times = view.times
    ts = _micros(rows, times.ts, MIN_TIME)
    listed = rows.to_pylist()
    changes = [
        (int(instant), True, _change(BEGIN, view, listed[number]))
        for number, instant in enumerate(ts)
        if since <= instant
    ]
    if not view.sends:
        exp = _micros(rows, times.exp, until)
        changes += [
            (int(instant), False, _change(END, view, listed[number]))
            for number, instant in enumerate(exp)
            if since <= instant < until
        ]
    return sorted(changes, key=lambda change: change[:2])


def _change(op: str, view: View, row: dict[str, Any]) -> dict[str, Any]:
    own = {column.name: row[column.name] for column in view.columns}
    ends = {} if view.sends else {"exp": row[view.times.exp]}
    return {"op": op, "ts": row[view.times.ts], **ends, "row": own}


def _micros(rows: pa.Table, name: str, endless: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    values = rows[name].cast(pa.int64()).fill_null(endless)
    micros: np.ndarray[Any, np.dtype[np.int64]] = values.to_numpy()
    return micros
