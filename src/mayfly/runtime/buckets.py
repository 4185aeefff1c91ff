"""How many key buckets there may be."""

from __future__ import annotations

from numbers import Integral

from mayfly.errors import InvalidSetting

MOST_BUCKETS = 4096
"""Every batch runs a task per bucket and operator, and every commit lists the buckets' files."""


def checked_buckets(asked: object) -> int:
    """A requested number of buckets.

    >>> checked_buckets(16)
    16
    """
    hint = f"use 1 to {MOST_BUCKETS:,}; a few per core are enough (default: number of cores)"
    if isinstance(asked, bool) or not isinstance(asked, Integral):
        raise InvalidSetting(f"buckets = {asked!r} is not a whole number", hint)
    count = int(asked)
    if count < 1:
        raise InvalidSetting(f"{count} buckets", hint)
    if count > MOST_BUCKETS:
        raise InvalidSetting(
            f"{count:,} buckets: every batch runs a task for each, and Spark would be busy with "
            "nothing else",
            hint,
        )
    return count
