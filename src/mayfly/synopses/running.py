"""The running synopsis: totals since the beginning, of which two are subtracted (thesis 2.3.4).

Idea: C[v] is f over the panes 1 to v; the youngest j panes are C[u] − C[u−j].
Invariant: C[u−b] … C[u] are kept, b + 1 values. Cost: one merge a slide, two reads an answer, q + 1
for q lengths together. Only for contents that can be subtracted exactly and stay small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mayfly.synopses.synopsis import Algebra, Entry, Synopsis, Value


class Running(Synopsis[Value]):
    """
    >>> from mayfly.synopses.number_algebra import SUM
    >>> synopsis = Running(SUM, panes=3)
    >>> for value in (5, 1, 7, 2): synopsis.slide(value)
    >>> synopsis.answer(3), synopsis.stored, synopsis.read
    (10, 4, 2)
    """

    kind = "running"

    def __init__(self, algebra: Algebra[Value], panes: int) -> None:
        super().__init__(algebra, panes)
        self._totals = {0: algebra.merge([])}

    @property
    def stored(self) -> int:
        return len(self._totals)

    def entries(self) -> list[Entry[Value]]:
        return [Entry(1, pane, value) for pane, value in self._totals.items()]

    def expires(self, entry: Entry[Value]) -> int:
        return entry.last + self.panes + 1

    def _append(self, value: Value) -> None:
        self._totals[self.update] = self.algebra.merge([self._totals[self.update - 1], value])
        self.merges += 1

    def _drop(self) -> None:
        for pane in [pane for pane in self._totals if pane < self.oldest - 1]:
            del self._totals[pane]

    def _answers(self, lengths: Sequence[int]) -> Mapping[int, Value]:
        self.read += len(lengths) + 1
        total = self._totals[self.update]
        return {
            panes: self.algebra.subtract(total, self._totals[self.update - panes])
            for panes in lengths
        }

    def _load(self, entries: Iterable[Entry[Value]]) -> None:
        self._totals = {entry.last: entry.value for entry in entries}
