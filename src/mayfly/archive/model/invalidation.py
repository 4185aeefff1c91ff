"""Rows that were declared void before their time, until an update removes them.

Idea: a premature deletion does not rewrite a sub-index that is not due. What it hides is written to
a small file, and the runs that hold hidden rows are noted with their counts; reads of those runs
leave the rows out, and whatever update rewrites or drops such a run takes it off the list.
Invariant: an entry hides only rows inserted by updates up to its own; it lasts as long as some run
holds rows it hides. Cost: reads of other runs pay nothing. results-index-2005, 3.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.layouts.run_plan import IndexRuns
from mayfly.archive.model.key_order import order_key
from mayfly.archive.model.settings import INSERTED, NTH, ArchiveSettings, with_added_columns
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Segment, open_segment

INVALID = "invalid"
KEYS, ROWS = "keys", "rows"


@dataclass(frozen=True)
class Invalidation:
    """One call of ``invalidate``: what it hides, and the rows it hides in each run, by label."""

    id: str
    update: int
    kind: str
    pending: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    @property
    def group(self) -> str:
        return f"{INVALID}/{self.id}"

    def without_runs(self, kept: set[str]) -> Invalidation:
        left = {run: rows for run, rows in self.pending.items() if run in kept}
        return replace(self, pending=left)

    def rows_hidden(self, after: int, run: str | None = None) -> int:
        """Rows of labels beyond ``after`` that are stored but not returned, in all runs or one."""
        held = self.pending.values() if run is None else [self.pending.get(run, {})]
        return sum(n for rows in held for label, n in rows.items() if label > after)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "update": self.update,
            "kind": self.kind,
            "pending": {
                r: {str(j): n for j, n in rows.items()} for r, rows in self.pending.items()
            },
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Invalidation:
        pending = {
            run: {int(j): n for j, n in rows.items()} for run, rows in stored["pending"].items()
        }
        return Invalidation(stored["id"], stored["update"], stored["kind"], pending)


def still_pending(entries: Iterable[Invalidation], runs: IndexRuns) -> tuple[Invalidation, ...]:
    """The entries that still hide something in one of these runs."""
    kept = {run.id for held in runs.values() for run in held}
    left = (entry.without_runs(kept) for entry in entries)
    return tuple(entry for entry in left if entry.pending)


@dataclass(frozen=True)
class Hiding:
    """An invalidation with the content of its file: tells which rows it hides."""

    entry: Invalidation
    listed: pa.Table
    settings: ArchiveSettings

    @property
    def columns(self) -> tuple[str, ...]:
        """What has to be read to tell."""
        own = self.settings.all_columns if self.entry.kind == ROWS else self.settings.key
        return (*own, *self.settings.family.columns)

    def mask(self, rows: pa.Table) -> np.ndarray:
        """Which rows are hidden."""
        hidden: np.ndarray = np.ones(rows.num_rows, dtype=bool)
        if INSERTED in rows.column_names:  # of a wave, runs tell: later rows are in none of these
            hidden = rows[INSERTED].to_numpy() <= self.entry.update
        if not hidden.any():
            return hidden
        hidden &= self._may_match(rows)
        names = tuple(self.settings.all_columns) if self.entry.kind == ROWS else self.settings.key
        if self.settings.array_key and self.entry.kind == KEYS:
            return hidden
        if len(names) > 1 or self.entry.kind == ROWS:
            places = np.flatnonzero(hidden)
            targets = set(_identities(self.listed, names))
            identities = _identities(rows.take(pa.array(places)), names)
            hidden[places] = [identity in targets for identity in identities]
        return hidden

    def _may_match(self, rows: pa.Table) -> np.ndarray:
        """By the first key column, or by any value of an array key."""
        first = self.settings.key[0]
        if self.settings.array_key and self.entry.kind == ROWS:
            return np.ones(rows.num_rows, dtype=bool)
        if self.settings.array_key:
            arrays = rows[first].combine_chunks()
            values = pa.chunked_array([pc.list_flatten(arrays)])
            hits = _is_in(values, self.listed[first])
            owners = pc.list_parent_indices(arrays).to_numpy()[hits]
            marks = np.zeros(rows.num_rows, dtype=bool)
            marks[owners] = True
            return marks
        return _is_in(rows[first], self.listed[first])


def hidings(
    directory: Directory,
    entries: Iterable[Invalidation],
    segments: Mapping[str, Segment],
    settings: ArchiveSettings,
) -> tuple[Hiding, ...]:
    """The invalidations with what their files list; ``segments`` are these, by group."""
    return tuple(
        Hiding(entry, _in_columns(directory, segments[entry.group], entry.kind, settings), settings)
        for entry in entries
    )


def _in_columns(
    directory: Directory, segment: Segment, kind: str, settings: ArchiveSettings
) -> pa.Table:
    """What a file lists; whole rows with the columns that the archive has by now."""
    listed = _listed(directory.address, segment)
    if kind == KEYS:
        return listed
    own = pa.schema([settings.stored.field(name) for name in settings.all_columns])
    return with_added_columns(listed, own)


@lru_cache(maxsize=256)
def _listed(root: str, segment: Segment) -> pa.Table:
    return open_segment(Directory.at(root), segment)


def visible(rows: pa.Table, run: str, hiding: Sequence[Hiding]) -> pa.Table:
    """The rows of a run without those that are hidden in it."""
    for hider in hiding:
        if run in hider.entry.pending and rows.num_rows:
            rows = rows.filter(pa.array(~hider.mask(rows)))
    return rows


def hidden_rows(rows: pa.Table, hider: Hiding) -> Counter[int]:
    """How many rows an invalidation hides here, by label; copies under an array key count once."""
    matches = rows.filter(pa.array(hider.mask(rows)))
    if NTH in matches.column_names:
        matches = matches.filter(pc.equal(matches[NTH], 0))
    labels, counts = np.unique(hider.settings.family.labels_of(matches), return_counts=True)
    return Counter(dict(zip(labels.tolist(), counts.tolist(), strict=True)))


def listing(values: pa.Table, latest: int) -> pa.Table:
    """The values as the rows of a file, which lasts until ``latest``."""
    count = values.num_rows
    times = {TS: pa.array(np.full(count, latest - 1)), EXP: pa.array(np.full(count, latest))}
    for name, column in times.items():
        values = values.append_column(name, column)
    return values


def _is_in(column: pa.ChunkedArray, targets: pa.ChunkedArray) -> np.ndarray:
    values = order_key(targets.cast(column.type)).combine_chunks()
    membership: np.ndarray = pc.is_in(order_key(column), value_set=values).to_numpy(
        zero_copy_only=False
    )
    return membership.astype(bool)


def _identities(rows: pa.Table, names: Sequence[str]) -> Iterator[Hashable]:
    columns = [[_plain(value) for value in rows[name].to_pylist()] for name in names]
    return zip(*columns, strict=True)


def _plain(value: Any) -> Hashable:
    """A value as SQL tells values apart: NaN is NaN, and there is one zero."""
    if isinstance(value, list | tuple):
        return tuple(_plain(element) for element in value)
    if isinstance(value, dict):
        return tuple((name, _plain(member)) for name, member in value.items())
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    scalar: Hashable = value
    return scalar
