"""How the first W days are divided over the constituents.

Idea: neighbouring days live together, so that a constituent ages as a whole.
Invariant: the clusters are consecutive runs that cover days 1..W, lengths differ by at most one
(WATA and RATA keep one more cluster of a single day, the one that grows next).
Cost: O(n), however many days a cluster has. wave-indices-1997, 3 (extended version for the
optimal WATA clusters).
"""

from __future__ import annotations

from itertools import accumulate


def even_clusters(window: int, constituents: int) -> tuple[range, ...]:
    """DEL and REINDEX: n runs of ⌈W/n⌉ days, the later ones one day shorter where needed."""
    return _consecutive(even_lengths(window, constituents))


def throw_away_clusters(window: int, constituents: int) -> tuple[range, ...]:
    """WATA and RATA: W − 1 days over n − 1 clusters, and one cluster that has just begun."""
    return _consecutive([*even_lengths(window - 1, constituents - 1), 1])


def most_stored_days(window: int, constituents: int) -> int:
    """The most days WATA ever stores: W + ⌈(W−1)/(n−1)⌉ − 1."""
    return window - (1 - window) // (constituents - 1) - 1


def even_lengths(days: int, parts: int) -> list[int]:
    """Lengths of ``parts`` runs of days that differ by at most one, the longer ones first."""
    length, longer = divmod(days, parts)
    return [length + 1] * longer + [length] * (parts - longer)


def _consecutive(lengths: list[int]) -> tuple[range, ...]:
    ends = accumulate(lengths)
    return tuple(
        range(end - length + 1, end + 1) for end, length in zip(ends, lengths, strict=True)
    )
