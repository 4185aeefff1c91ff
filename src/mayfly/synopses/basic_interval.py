"""The basic interval synopsis: the value of each pane, read from the youngest back (thesis 2.3.4).

Invariant: the b youngest pane values are kept. Cost: no merge a slide; a window of j panes reads j
values, and all windows together read as many as the longest: shorter ones are answered on the way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from mayfly.synopses.synopsis import Algebra, Entry, Synopsis, Value


class BasicInterval(Synopsis[Value]):
    """
    >>> from mayfly.synopses.number_algebra import MAX
    >>> synopsis = BasicInterval(MAX, panes=3)
    >>> for value in (9, 1, 7, 2): synopsis.slide(value)
    >>> dict(synopsis.answers([1, 3])), synopsis.stored, synopsis.read
    ({1: 2, 3: 7}, 3, 3)
    """

    kind = "basic interval"

    def __init__(self, algebra: Algebra[Value], panes: int) -> None:
        super().__init__(algebra, panes)
        self._values: deque[Value] = deque()
        """From the pane ``oldest`` on."""

    @property
    def stored(self) -> int:
        return len(self._values)

    def entries(self) -> list[Entry[Value]]:
        numbered = enumerate(self._values, self.oldest)
        return [Entry(pane, pane, value) for pane, value in numbered]

    def _append(self, value: Value) -> None:
        self._values.append(value)

    def _drop(self) -> None:
        while len(self._values) > self.covers:
            self._values.popleft()

    def _answers(self, lengths: Sequence[int]) -> Mapping[int, Value]:
        answers: dict[int, Value] = {}
        youngest = list(reversed(self._values))
        before: list[Value] = []
        depth = 0
        for panes in lengths:
            answers[panes] = self.algebra.merge([*before, *youngest[depth:panes]])
            before, depth = [answers[panes]], panes
        self.read += depth
        return answers

    def _load(self, entries: Iterable[Entry[Value]]) -> None:
        ordered = sorted(entries, key=lambda entry: entry.first)
        self._values = deque(entry.value for entry in ordered)
