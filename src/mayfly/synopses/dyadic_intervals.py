"""The interval synopsis: values of aligned dyadic intervals, of which few make a window.

Idea: S(level, i) is f over the panes (i−1)·2^level + 1 to i·2^level (thesis 2.3.4, Fig. 2.5). The
*closed* form keeps full intervals, each merged from its halves once; the *open* one starts an
interval with its first pane and merges each further pane into it, so an answer may end with it.
Invariant: an interval is kept as long as none of its panes has expired; at most 2b − 1 values.
Cost: less than one merge a slide (open: log2 b); at most ``worst_reads(j)`` reads (bit_length(j)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mayfly.synopses.pieces import power_of_two
from mayfly.synopses.synopsis import Algebra, Entry, Synopsis, Value

Place = tuple[int, int]
"""Level and number of an interval."""


def place(first: int, last: int) -> Place:
    """The interval of these panes."""
    level = (last - first).bit_length()
    return level, last >> level


class DyadicIntervals(Synopsis[Value]):
    """The number of panes is rounded up to a power of two.

    >>> from mayfly.synopses.number_algebra import MAX
    >>> synopsis = DyadicIntervals(MAX, panes=7)
    >>> for value in range(1, 17): synopsis.slide(value)
    >>> [(entry.first, entry.last) for entry in synopsis.pieces(7)]
    [(10, 10), (11, 12), (13, 16)]
    """

    kind = "interval"

    def __init__(self, algebra: Algebra[Value], panes: int, *, is_open: bool = False) -> None:
        super().__init__(algebra, panes)
        self.is_open = is_open
        self._values: dict[Place, Value] = {}

    def resize(self, panes: int) -> None:
        super().resize(panes)
        self.panes = power_of_two(panes)

    @property
    def stored(self) -> int:
        return len(self._values)

    def entries(self) -> list[Entry[Value]]:
        return [self._entry(place) for place in self._values]

    def pieces(self, panes: int) -> list[Entry[Value]]:
        """The intervals that make up the youngest panes, oldest first."""
        pieces, first = [], self.update - panes + 1
        while first <= self.update:
            level = 0
            while (first - 1) % (2 << level) == 0 and self._reaches(first, level + 1):
                level += 1
            pieces.append(self._entry((level, ((first - 1) >> level) + 1)))
            first += 1 << level
        return pieces

    def _reaches(self, first: int, level: int) -> bool:
        """Whether the interval of this level from a pane on is kept and of use."""
        # An open interval of the level below that reaches the last pane says all there is.
        reaches_further = first + (1 << (level - 1)) <= self.update
        return reaches_further and (level, ((first - 1) >> level) + 1) in self._values

    def _entry(self, place: Place) -> Entry[Value]:
        level, number = place
        return Entry(((number - 1) << level) + 1, number << level, self._values[place])

    def _append(self, value: Value) -> None:
        self._values[0, self.update] = value
        if self.is_open:
            self._extend(value)
            return
        level, number = 1, self.update
        while 1 << level <= self.panes and number % 2 == 0:
            halves = (level - 1, number - 1), (level - 1, number)
            if halves[0] not in self._values:
                return  # the older half has expired, or its level is younger than it
            number //= 2
            self._values[level, number] = self._merge([self._values[half] for half in halves])
            level += 1

    def _extend(self, value: Value) -> None:
        level = 1
        while 1 << level <= self.panes:
            place = level, ((self.update - 1) >> level) + 1
            if (self.update - 1) % (1 << level) == 0:
                self._values[place] = value
            elif place in self._values:
                self._values[place] = self._merge([self._values[place], value])
            level += 1

    def _merge(self, parts: Sequence[Value]) -> Value:
        self.merges += 1
        return self.algebra.merge(parts)

    def _drop(self) -> None:
        highest = self.panes.bit_length() - 1
        for level, number in list(self._values):
            if level > highest or (number - 1) << level < self.oldest - 1:
                del self._values[level, number]

    def _answers(self, lengths: Sequence[int]) -> Mapping[int, Value]:
        answers = {}
        for panes in lengths:
            pieces = self.pieces(panes)
            self.read += len(pieces)
            answers[panes] = self.algebra.merge([piece.value for piece in pieces])
        return answers

    def _load(self, entries: Iterable[Entry[Value]]) -> None:
        self._values = {place(entry.first, entry.last): entry.value for entry in entries}
