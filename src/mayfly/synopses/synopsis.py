"""What every synopsis of a stream offers: it slides pane by pane and answers about the youngest.

A synopsis knows nothing of what it summarizes: an *algebra* merges values, and subtracts them where
that makes sense. Values are whatever an algebra takes, mostly one Arrow table with a row per group
(contents/), so a synopsis holds a Python object per interval and none per tuple or group. Panes are
numbered 1, 2, … in the order in which they become complete; the last one is the *update* u.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from mayfly.display import counted, one_line
from mayfly.errors import InvalidSetting, NotClosed

Value = TypeVar("Value")


class Algebra(Protocol[Value]):
    """How values of neighbouring intervals become the value of all of them."""

    def merge(self, parts: Sequence[Value]) -> Value:
        """The value over all parts; that of nothing for none."""

    def subtract(self, whole: Value, part: Value) -> Value:
        """The value of what is in the whole and not in the part."""


@dataclass(frozen=True)
class Entry(Generic[Value]):
    """One stored value and the panes it is about, both included; in a synopsis of a join also the
    side and δ of a value V (see join.py), −1 for totals."""

    first: int
    last: int
    value: Value
    side: int = -1
    delta: int = 0


class Synopsis(ABC, Generic[Value]):
    """Partial values of intervals of the ``panes`` youngest panes.

    ``read`` counts the stored values that answers have read, ``merges`` those that slides have
    merged: claims about cost are claims about these.
    """

    kind: ClassVar[str]

    def __init__(self, algebra: Algebra[Value], panes: int) -> None:
        self.algebra = algebra
        self.update = 0
        self.oldest = 1
        self.read = self.merges = 0
        self.resize(panes)

    def __repr__(self) -> str:
        return one_line(self, f"of {counted(self.panes, 'pane')}", f"after update {self.update}")

    def resize(self, panes: int) -> None:
        """Cover so many panes from now on: a longer window fills as panes come, a shorter one is
        cut at the next slide."""
        if panes < 1:
            raise InvalidSetting(f"a synopsis of {panes} panes", "give at least one")
        self.panes = panes

    @property
    def covers(self) -> int:
        """How many of the youngest panes can be answered about now."""
        return self.update - self.oldest + 1

    def slide(self, value: Value) -> None:
        """The next pane is complete, and the oldest goes where there are more than ``panes``."""
        self.update += 1
        self._append(value)
        self.oldest = max(self.oldest, self.update - self.panes + 1)
        self._drop()

    def answer(self, panes: int) -> Value:
        """The value over so many of the youngest panes."""
        return self.answers([panes])[panes]

    def answers(self, lengths: Iterable[int]) -> Mapping[int, Value]:
        """The values over several numbers of the youngest panes, found together."""
        asked = sorted(set(lengths))
        if asked and not 0 <= asked[0] <= asked[-1] <= self.covers:
            raise NotClosed(
                f"the synopsis covers its {self.covers} youngest panes, not {asked[-1]}",
                "ask again when more panes are complete, or resize the synopsis first",
            )
        return self._answers(asked)

    @property
    @abstractmethod
    def stored(self) -> int:
        """How many values are kept."""

    @abstractmethod
    def entries(self) -> list[Entry[Value]]:
        """Everything that is kept, for a restart."""

    def expires(self, entry: Entry[Value]) -> int:
        """The update at which no window needs a value any more."""
        return entry.first + self.panes

    def restore(self, update: int, oldest: int, entries: Iterable[Entry[Value]]) -> None:
        """Go on where another synopsis of this kind and size stopped."""
        self.update, self.oldest = update, oldest
        self._load(entries)

    @abstractmethod
    def _append(self, value: Value) -> None:
        """Take in the value of the pane ``update``."""

    @abstractmethod
    def _drop(self) -> None:
        """Forget what no window from ``oldest`` on needs."""

    @abstractmethod
    def _answers(self, lengths: Sequence[int]) -> Mapping[int, Value]: ...

    @abstractmethod
    def _load(self, entries: Iterable[Entry[Value]]) -> None: ...
