"""By which columns rows are spread over buckets: what is there already need not move again.

Idea: a key sends each row to the bucket of its values, and equal values have one code, whichever
operator asks for it. Columns that are equal in all rows (those that a join compares) are one part
of the key. A key of several columns is an order of such parts. Invariant: every row lies where the
values of each listed key send it, NULLs included.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Part = frozenset[str]
"""Columns that have the same value in every row."""


@dataclass(frozen=True)
class Spread:
    """The keys by each of which rows are where they are; none: they may be anywhere."""

    keys: frozenset[tuple[Part, ...]] = frozenset()

    @staticmethod
    def by(*sides: Sequence[str | None]) -> Spread:
        """By a key that some sides have in columns of their own; None is no column as it is."""
        parts = [frozenset(name for name in part if name) for part in zip(*sides, strict=True)]
        return Spread(frozenset([tuple(parts)] if parts and all(parts) else []))

    def __or__(self, other: Spread) -> Spread:
        return Spread(self.keys | other.keys)

    def has(self, key: Sequence[str | None]) -> bool:
        """Whether rows are where this key would send them."""
        return bool(key) and any(
            len(columns) == len(key)
            and all(name in part for name, part in zip(key, columns, strict=True))
            for columns in self.keys
        )

    def within(self, names: Iterable[str | None]) -> tuple[str, ...]:
        """A key of these columns only, the longest there is: rows that are equal in all of them
        are in one bucket. Nothing if there is none."""
        spread = self.only(names)
        keys = (tuple(min(part) for part in key) for key in spread.keys)
        return min(keys, key=lambda key: (-len(key), key), default=())

    def only(self, names: Iterable[str | None]) -> Spread:
        """What other columns than these say left out."""
        return self.renamed((name, name) for name in names if name)

    def renamed(self, names: Iterable[tuple[str | None, str]]) -> Spread:
        """The same rows with columns, first of each pair, under the names that are second; those
        that no pair names are gone."""
        pairs = tuple(names)
        keys = (
            tuple(frozenset(new for old, new in pairs if old in part) for part in key)
            for key in self.keys
        )
        return Spread(frozenset(key for key in keys if all(key)))

    def common(self, other: Spread) -> Spread:
        """What holds for the rows of both."""
        met = (
            tuple(part & two for part, two in zip(mine, theirs, strict=True))
            for mine in self.keys
            for theirs in other.keys
            if len(mine) == len(theirs)
        )
        return Spread(frozenset(key for key in met if all(key)))
