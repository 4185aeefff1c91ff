"""Synopses over the results of a window join: what results say of windows of any length.

Idea (thesis 2.3.4, 8.3.2): a result of panes (p1, p2) leaves a join of windows of n panes when its
*oldest* member does, so values are kept by that pane, min(p1, p2), and a new result may fall into
any of them. Windows of different lengths need more: V(side, o, δ) is the value of the results with
oldest pane o whose member of a side is younger than o + δ; kept from insertion on for δ below g, it
serves every pair of lengths that differ by at most g. (The thesis keeps V for the g oldest panes
only, which younger ones lack when they get there.)
Invariant: slots exist for the panes oldest … update. Cost: one merge per slot that a result is in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Generic

from mayfly.errors import InvalidSetting, NotClosed
from mayfly.synopses.dyadic_intervals import Place, place
from mayfly.synopses.pieces import power_of_two
from mayfly.synopses.synopsis import Algebra, Entry, Value

Panes = tuple[int, ...]
"""The pane of each member of a result."""
Lengths = tuple[int, int]
"""The windows of both inputs, in panes."""
Side = tuple[int, int, int]
"""Oldest pane of results, side, and δ."""


class JoinSynopsis(ABC, Generic[Value]):
    """Values of results of a join over the ``panes`` youngest panes of every input.

    ``spread`` is g, how far the lengths of two windows may differ; any number of inputs may be
    joined where it is 0. ``read`` counts stored values that answers have read.
    """

    kind: ClassVar[str]

    def __init__(self, algebra: Algebra[Value], panes: int, spread: int = 0) -> None:
        self.algebra, self.spread = algebra, spread
        self.update, self.oldest = 0, 1
        self.read = 0
        self._sides: dict[Side, Value] = {}
        self.resize(panes)

    def resize(self, panes: int) -> None:
        """Cover so many panes from now on; the join must keep its rows as long, too."""
        if panes < 1:
            raise InvalidSetting(f"a join synopsis of {panes} panes", "give at least one")
        self.panes = panes

    @property
    def covers(self) -> int:
        return self.update - self.oldest + 1

    @property
    def stored(self) -> int:
        return self._totals_stored() + len(self._sides)

    def slide(self, results: Mapping[Panes, Value]) -> None:
        """The next pane is complete; the values of the new results by the panes of their members.

        Their youngest member is of the new pane; results of panes that are gone say nothing.
        """
        self.update += 1
        for side, delta in ((s, d) for s in (0, 1) for d in range(self.spread)):
            self._sides[self.update, side, delta] = self.algebra.merge([])
        self._start()
        self.oldest = max(self.oldest, self.update - self.panes + 1)
        self._sides = {slot: v for slot, v in self._sides.items() if slot[0] >= self.oldest}
        self._drop()
        for panes, value in results.items():
            self._check(panes)
            if min(panes) >= self.oldest:
                self._insert(min(panes), value)
                self._insert_sides(panes, value)

    def entries(self) -> list[Entry[Value]]:
        """Everything that is kept, for a restart."""
        sides = [Entry(o, o, v, side, delta) for (o, side, delta), v in self._sides.items()]
        return self._total_entries() + sides

    def expires(self, entry: Entry[Value]) -> int:
        """The update at which no window needs a value any more."""
        return entry.first + self.panes

    def restore(self, update: int, oldest: int, entries: Iterable[Entry[Value]]) -> None:
        """Go on where another synopsis of this kind and size stopped."""
        self.update, self.oldest = update, oldest
        kept = list(entries)
        self._sides = {(e.first, e.side, e.delta): e.value for e in kept if e.side >= 0}
        self._load_totals([entry for entry in kept if entry.side < 0])

    def answer(self, *lengths: int) -> Value:
        """The value over windows of one length for all inputs, or of one for each of two."""
        both = (lengths[0], lengths[-1])
        return self.answers([both])[both]

    def answers(self, lengths: Iterable[Lengths]) -> Mapping[Lengths, Value]:
        """The values over several pairs of windows, found together."""
        asked = sorted(set(lengths))
        for pair in asked:
            if abs(pair[0] - pair[1]) > self.spread:
                raise InvalidSetting(
                    f"windows of {pair[0]} and {pair[1]} panes differ by more than {self.spread}",
                    "give the synopsis a larger spread",
                )
            if not 0 < min(pair) <= max(pair) <= self.covers:
                raise NotClosed(
                    f"the synopsis covers {self.covers} panes, not {max(pair)}",
                    "ask again when more panes are complete, or resize the synopsis first",
                )
        totals = self._totals_of(sorted({min(pair) for pair in asked}))
        return {
            pair: self.algebra.merge([totals[min(pair)], *self._younger(pair)]) for pair in asked
        }

    def _younger(self, pair: Lengths) -> list[Value]:
        """What results with an oldest pane outside the shorter window add: those whose member on
        the side of that window is inside it."""
        side, few, many = (0, *pair) if pair[0] <= pair[1] else (1, *reversed(pair))
        inside = self.update - few
        slots = [(o, side, inside - o) for o in range(self.update - many + 1, inside + 1)]
        self.read += len(slots)
        return [self._sides[slot] for slot in slots]

    def _check(self, panes: Panes) -> None:
        if max(panes) != self.update or (self.spread and len(panes) != 2):
            raise InvalidSetting(
                f"a result of the panes {panes} at update {self.update}",
                "hand in results with the pane of their youngest member, of two inputs if the "
                "windows may differ",
            )

    def _insert_sides(self, panes: Panes, value: Value) -> None:
        oldest = min(panes)
        for side in (0, 1) if self.spread else ():
            for delta in range(min(self.spread, panes[side] - oldest)):
                slot = oldest, side, delta
                self._sides[slot] = self.algebra.merge([self._sides[slot], value])

    @abstractmethod
    def _totals_stored(self) -> int: ...

    @abstractmethod
    def _total_entries(self) -> list[Entry[Value]]: ...

    @abstractmethod
    def _load_totals(self, entries: list[Entry[Value]]) -> None: ...

    @abstractmethod
    def _start(self) -> None:
        """Make the slots of the pane ``update``."""

    @abstractmethod
    def _drop(self) -> None: ...

    @abstractmethod
    def _insert(self, oldest: int, value: Value) -> None: ...

    @abstractmethod
    def _totals_of(self, lengths: list[int]) -> Mapping[int, Value]:
        """The values of results all of whose members are in so many youngest panes."""


class BasicIntervalJoin(JoinSynopsis[Value]):
    """BIJ: one value per pane of the oldest member; b(1 + 2g) stored, max(n1, n2) read."""

    kind = "basic interval join"

    def __init__(self, algebra: Algebra[Value], panes: int, spread: int = 0) -> None:
        super().__init__(algebra, panes, spread)
        self._totals: dict[int, Value] = {}

    def _totals_stored(self) -> int:
        return len(self._totals)

    def _total_entries(self) -> list[Entry[Value]]:
        return [Entry(oldest, oldest, value) for oldest, value in self._totals.items()]

    def _load_totals(self, entries: list[Entry[Value]]) -> None:
        self._totals = {entry.first: entry.value for entry in entries}

    def _start(self) -> None:
        self._totals[self.update] = self.algebra.merge([])

    def _drop(self) -> None:
        self._totals = {o: value for o, value in self._totals.items() if o >= self.oldest}

    def _insert(self, oldest: int, value: Value) -> None:
        self._totals[oldest] = self.algebra.merge([self._totals[oldest], value])

    def _totals_of(self, lengths: list[int]) -> Mapping[int, Value]:
        answers: dict[int, Value] = {}
        before: list[Value] = []
        depth = 0
        for panes in lengths:
            scanned = [self._totals[self.update - back] for back in range(depth, panes)]
            answers[panes] = self.algebra.merge([*before, *scanned])
            before, depth = [answers[panes]], panes
        self.read += depth
        return answers


class IntervalJoin(JoinSynopsis[Value]):
    """IJ: aligned dyadic intervals of such panes, open at the end; 2b − 1 values without the V,
    at most bit_length(n) read. The number of panes is rounded up to a power of two."""

    kind = "interval join"

    def __init__(self, algebra: Algebra[Value], panes: int, spread: int = 0) -> None:
        super().__init__(algebra, panes, spread)
        self._totals: dict[Place, Value] = {}

    def resize(self, panes: int) -> None:
        super().resize(panes)
        self.panes = power_of_two(panes)

    def _totals_stored(self) -> int:
        return len(self._totals)

    def _total_entries(self) -> list[Entry[Value]]:
        places = self._totals.items()
        return [Entry(((n - 1) << level) + 1, n << level, v) for (level, n), v in places]

    def _load_totals(self, entries: list[Entry[Value]]) -> None:
        self._totals = {place(entry.first, entry.last): entry.value for entry in entries}

    def _levels(self) -> range:
        return range(self.panes.bit_length())

    def _start(self) -> None:
        for level in self._levels():
            if (self.update - 1) % (1 << level) == 0:
                self._totals[level, self._number(self.update, level)] = self.algebra.merge([])

    def _drop(self) -> None:
        for level, number in list(self._totals):
            if level not in self._levels() or (number - 1) << level < self.oldest - 1:
                del self._totals[level, number]

    def _insert(self, oldest: int, value: Value) -> None:
        for level in self._levels():
            interval = level, self._number(oldest, level)
            if interval in self._totals:
                self._totals[interval] = self.algebra.merge([self._totals[interval], value])

    def _totals_of(self, lengths: list[int]) -> Mapping[int, Value]:
        answers = {}
        for panes in lengths:
            pieces = self._pieces(panes)
            self.read += len(pieces)
            answers[panes] = self.algebra.merge([self._totals[piece] for piece in pieces])
        return answers

    def _pieces(self, panes: int) -> list[Place]:
        pieces, first = [], self.update - panes + 1
        while first <= self.update:
            level = 0
            while (
                (first - 1) % (2 << level) == 0
                and first + (1 << level) <= self.update
                and (level + 1, self._number(first, level + 1)) in self._totals
            ):
                level += 1
            pieces.append((level, self._number(first, level)))
            first += 1 << level
        return pieces

    @staticmethod
    def _number(pane: int, level: int) -> int:
        return ((pane - 1) >> level) + 1


class RunningJoin(JoinSynopsis[Value]):
    """RJ: totals of all results so far up to a pane of the oldest member, of which two are
    subtracted; b + 1 values without the V. Only for contents that can be subtracted."""

    kind = "running join"

    def __init__(self, algebra: Algebra[Value], panes: int, spread: int = 0) -> None:
        super().__init__(algebra, panes, spread)
        self._totals = {0: algebra.merge([])}

    def _totals_stored(self) -> int:
        return len(self._totals)

    def _total_entries(self) -> list[Entry[Value]]:
        return [Entry(1, oldest, value) for oldest, value in self._totals.items()]

    def _load_totals(self, entries: list[Entry[Value]]) -> None:
        self._totals = {entry.last: entry.value for entry in entries}

    def expires(self, entry: Entry[Value]) -> int:
        # V values expire with their pane, totals one update after it.
        return entry.last + self.panes + (entry.side < 0)

    def _start(self) -> None:
        self._totals[self.update] = self._totals[self.update - 1]

    def _drop(self) -> None:
        self._totals = {o: value for o, value in self._totals.items() if o >= self.oldest - 1}

    def _insert(self, oldest: int, value: Value) -> None:
        for pane in range(oldest, self.update + 1):
            self._totals[pane] = self.algebra.merge([self._totals[pane], value])

    def _totals_of(self, lengths: list[int]) -> Mapping[int, Value]:
        self.read += len(lengths) + 1
        total = self._totals[self.update]
        return {
            panes: self.algebra.subtract(total, self._totals[self.update - panes])
            for panes in lengths
        }
