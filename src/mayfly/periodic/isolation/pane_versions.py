"""Immutable sub-windows in a ring: an update replaces one, and nothing is ever changed in place.

Idea: version j of a sub-window is what update j wrote, at place j mod n; replacing it replaces a
reference, so a reader that holds the former one is not disturbed (thesis 7.2.3).
Invariant: the ring holds the youngest min(n, updates) versions. Cost: O(1) an update and a read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from mayfly.errors import InvalidSetting, NotClosed
from mayfly.synopses.synopsis import Value


class PaneRing(Generic[Value]):
    """The youngest versions, from ``oldest`` to ``top``; they are numbered from ``first`` on."""

    def __init__(self, size: int, *, first: int = 0) -> None:
        self._check(size)
        self.size, self.oldest, self.top = size, first, first - 1
        self._values: dict[int, Value] = {}

    def write(self, value: Value) -> int:
        """The next version, in the place of the oldest where the ring is full."""
        self.top += 1
        self._values[self.top] = value
        while self.top - self.oldest + 1 > self.size:
            self._values.pop(self.oldest, None)
            self.oldest += 1
        return self.top

    def resize(self, size: int) -> None:
        """Hold so many from now on: a longer ring fills with updates, a shorter one is cut by the
        next."""
        self._check(size)
        self.size = size

    def read(self, version: int) -> Value:
        if version not in self._values:
            raise NotClosed(
                f"the ring holds the versions {self.oldest} to {self.top}, not {version}",
                "read one of those",
            )
        return self._values[version]

    def replace(self, version: int, value: Value) -> None:
        """Another value for a version; who holds the former one keeps it."""
        self.read(version)
        self._values[version] = value

    def window(self, panes: int, update: int | None = None) -> range:
        """The versions of a window as of an update: fewer while there are not so many."""
        last = self.top if update is None else update
        return range(max(self.oldest, last - panes + 1), last + 1)

    def pinned(self, versions: range) -> Mapping[int, Value]:
        """Versions that stay readable, whatever is written."""
        return {version: self.read(version) for version in versions}

    @property
    def times_to_update(self) -> list[int]:
        """Of each place: how many updates until it is replaced.

        >>> ring = PaneRing[str](5)
        >>> for value in "abcdef": _ = ring.write(value)
        >>> ring.times_to_update
        [5, 1, 2, 3, 4]
        """
        at_place = {version % self.size: version for version in self.window(self.size)}
        return [at_place[place] + self.size - self.top for place in sorted(at_place)]

    @staticmethod
    def _check(size: int) -> None:
        if size < 1:
            raise InvalidSetting(f"a ring of {size} sub-windows", "give it at least one")
