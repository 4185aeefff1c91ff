"""What large groups leave behind for the next step: a cache that is rebuilt where it is missing.

Idea: a step over a large group lays out its counts by rank, or its exact sums, from all rows that
were alive before. What it ends with is what the next step would lay out, so it stays in memory and
is found by the runs of rows that it was made from (their files, where they are stored).
Invariants: an entry is taken out while it is used, so a step that fails or is repeated finds none
and reads the rows; no answer depends on it. At most ``limit`` bytes are held, the latest used ones,
and none of rows that are in no run any more: an entry goes with the runs in memory that it is of.
Cost: a step into a group of N rows and M values reads no row and copies M counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any
from weakref import finalize

from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import RowRun

LEAST_ROWS = 4096
"""Smaller groups are laid out as quickly as they are looked up."""
LIMIT = 1 << 27
Part = tuple[Any, ...]
"""Arrays of NumPy or Arrow."""
Parts = Mapping[Hashable, Part]
"""The counts and sums of one group, by what they are of."""
Place = tuple[Hashable, ...]


def place_of(kept: KeptRows) -> Place:
    """What tells these rows from all others."""
    return tuple(id(run) if run.segment is None else run.segment.path for run in kept.runs)


@dataclass(frozen=True)
class _Entry:
    groups: Mapping[int, Parts]
    bytes: int


class Residents:
    """Entries of one process, by whose rows they are and the place of these."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.bytes = limit, 0
        self.reused, self.rebuilt = 0, 0
        """How many entries steps have found, and how many have been made from rows instead."""
        self._entries: OrderedDict[tuple[Hashable, Place], _Entry] = OrderedDict()
        self._watched: set[int] = set()
        """The identities of runs in memory whose end is awaited."""
        self._lock = RLock()  # a run may end while this thread has it

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, owner: Hashable, rows: KeptRows) -> Mapping[int, Parts]:
        """What is known of large groups by their code, for this operator only."""
        with self._lock:
            groups = self._remove((owner, place_of(rows)))
            self.reused += bool(groups)
            return groups

    def put(
        self, owner: Hashable, rows: KeptRows, groups: Mapping[int, Parts], *, is_new: bool = True
    ) -> None:
        """Remember large groups by their code; ``is_new`` if that was made from rows alone."""
        if not groups:
            return
        self.rebuilt += is_new
        size = sum(
            array.nbytes for parts in groups.values() for part in parts.values() for array in part
        )
        with self._lock:
            self._remove((owner, place_of(rows)))
            if size > self.limit:
                return
            self._entries[owner, place_of(rows)] = _Entry(groups, size)
            self.bytes += size
            for run in rows.runs:
                self._watch(run)
            while self.bytes > self.limit:
                self._remove(next(iter(self._entries)))

    def move(self, old: Place, new: Place) -> None:
        """Keep the rows under another place: they are the same."""
        with self._lock:
            for owner, place in [key for key in self._entries if key[1] == old]:
                self._entries[owner, new] = self._entries.pop((owner, place))

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self.bytes = 0

    def _watch(self, run: RowRun) -> None:
        """Forget what is of a run when it ends: another one may get its identity."""
        identity = id(run)
        if run.segment is None and identity not in self._watched:
            self._watched.add(identity)
            finalize(run, self._forget, identity).atexit = False

    def _forget(self, identity: int) -> None:
        with self._lock:
            self._watched.discard(identity)
            for key in [key for key in self._entries if identity in key[1]]:
                self._remove(key)

    def _remove(self, key: tuple[Hashable, Place]) -> Mapping[int, Parts]:
        entry = self._entries.pop(key, None)
        if entry is None:
            return {}
        self.bytes -= entry.bytes
        return entry.groups


RESIDENTS = Residents()
