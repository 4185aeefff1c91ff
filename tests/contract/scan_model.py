"""Sub-windows whose value is the set of their versions: an answer shows what it was made of."""

from __future__ import annotations

from collections.abc import Sequence

Versions = frozenset[int]


class VersionSets:
    """Sets that must be disjoint, and contained where they are subtracted."""

    def merge(self, parts: Sequence[Versions]) -> Versions:
        union: Versions = frozenset().union(*parts)
        assert len(union) == sum(len(part) for part in parts), "read twice"
        return union

    def subtract(self, whole: Versions, part: Versions) -> Versions:
        assert part <= whole, "subtracted what was not there"
        return whole - part


VERSIONS = VersionSets()
