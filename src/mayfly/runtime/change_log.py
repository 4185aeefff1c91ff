"""The change log of a run in this process: what was born, what was cut, what was sent.

Idea: besides the whole log, the part that is still alive is kept on its own. An answer as of now
reads that part alone, and thins it out where it has doubled. With a ``history`` the log is thinned
out alike, and forgets what ended before. Invariant: rows that end after that are all there.
Cost: O(1) amortized per row; an answer as of now O(rows alive).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import END, ID, Delta, concatenated, with_numbers
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.lifetime import MIN_TIME
from mayfly.storage.segment import EXP, TS

FEWEST = 1_024
"""Rows that are never worth thinning out."""


@dataclass(slots=True)
class _Part:
    """Changes of results of which none that ends after ``since`` is missing."""

    born: list[pa.Table]
    cut: list[pa.Table]
    since: int = MIN_TIME
    rows: int = 0
    thinned: int = 0

    def append(self, answer: Delta) -> None:
        self.born.append(answer.born)
        self.cut.append(answer.cut)
        self.rows += answer.born.num_rows + answer.cut.num_rows

    def delta(self) -> Delta:
        return Delta(concatenated(self.born), concatenated(self.cut))

    def lifetimes(self) -> pa.Table:
        """The rows with their final ends."""
        changes = self.delta()
        return with_numbers(changes.born, **{EXP: _ends(changes)})

    def shrink(self, instant: int) -> None:
        """Forget what ends by an instant, if that is worth it."""
        if self.rows < max(FEWEST, 2 * self.thinned) or instant <= self.since:
            return
        changes = self.delta()
        staying = _ends(changes) > instant
        born = chosen(changes.born, staying)
        cut = chosen(changes.cut, np.isin(numbers(changes.cut, ID), numbers(born, ID)))
        self.born, self.cut, self.since = [born], [cut], instant
        self.rows = self.thinned = born.num_rows + cut.num_rows


@dataclass(slots=True)
class ChangeLog:
    """What a run has told, and its answer; ``history`` bounds how far back, in microseconds."""

    nothing: Delta
    history: int | None = None
    end: str = TS
    """The last instant of what was sent: its own, or of a run of refreshes EXP."""
    sent: list[pa.Table] = field(default_factory=list)
    whole: _Part = field(init=False)
    alive: _Part = field(init=False)
    _rows: int = 0
    _thinned: int = 0

    def __post_init__(self) -> None:
        self.clear()

    def append(self, answer: Delta, clock: int) -> None:
        """The changes of a view up to a clock."""
        self.whole.append(answer)
        self.alive.append(answer)
        if self.history is not None:
            self.whole.shrink(max(clock - 1 - self.history, MIN_TIME))
            self.alive.shrink(clock - 1)

    def append_sent(self, rows: pa.Table, clock: int) -> None:
        """What a stream operator has sent up to a clock."""
        self.sent.append(rows)
        self._rows += rows.num_rows
        if self.history is None or self._rows < max(FEWEST, 2 * self._thinned):
            return
        horizon, whole = max(clock - 1 - self.history, MIN_TIME), concatenated(self.sent)
        self.sent = [chosen(whole, numbers(whole, self.end) > horizon)]
        self._rows = self._thinned = self.sent[0].num_rows

    def lifetimes_after(self, instant: int, clock: int) -> pa.Table:
        """Results with their final ends, of those that end after an instant at least."""
        if instant >= clock - 1:
            self.alive.shrink(clock - 1)
        return (self.alive if instant >= self.alive.since else self.whole).lifetimes()

    def clear(self) -> None:
        """Forget everything."""
        self.sent, self._rows, self._thinned = [], 0, 0
        self.whole, self.alive = (_Part([self.nothing.born], [self.nothing.cut]) for _ in range(2))

    @property
    def since(self) -> int:
        """Results that ended by then may be forgotten."""
        return self.whole.since


def _ends(changes: Delta) -> Int64s:
    """The final end of every row that was born."""
    exp = numbers(changes.born, EXP).copy()
    order = np.argsort(numbers(changes.cut, ID), kind="stable")
    ids, ends = numbers(changes.cut, ID)[order], numbers(changes.cut, END)[order]
    if len(ids):
        place = np.minimum(np.searchsorted(ids, numbers(changes.born, ID)), len(ids) - 1)
        hit = ids[place] == numbers(changes.born, ID)
        exp[hit] = ends[place[hit]]
    return exp
