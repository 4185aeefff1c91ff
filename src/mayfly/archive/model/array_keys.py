"""Rows found under every value of an array key, each stored once in a part, not once per value.

Idea: in each part that holds some of its values a row is stored whole under the first of them, its
home; under the others lies a reference: the value, the home, and what tells when the row leaves.
Invariant: a reference is a hint. Whether a row has a value, its own array says, so a reference left
behind by a row that is gone finds nothing. Older files, with a whole copy under each value, have no
home and are read as they are. Cost: linear in the values. wave-indices-1997, 2 (entries).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.model.key_hash import parts_of
from mayfly.archive.model.key_order import order_key
from mayfly.archive.model.settings import (
    HOME,
    KEY,
    NTH,
    REFERENCE,
    VALUES,
    ArchiveSettings,
)
from mayfly.storage.segment import EXP, TS


def by_part(rows: pa.Table, settings: ArchiveSettings) -> dict[int, pa.Table]:
    """The rows of each part, with the values that lie in it and the number of the first of them.

    Rows without a value are in part 0.
    """
    owners: dict[int, list[int]] = {}
    numbers: dict[int, list[int]] = {}
    values: dict[int, list[list[Any]]] = {}
    arrays = rows[settings.key[0]]
    parts = _parts(arrays, settings)
    for position, key in enumerate(arrays.to_pylist()):
        for part, (first, own) in _values_by_part(key or [None], parts).items():
            owners.setdefault(part, []).append(position)
            numbers.setdefault(part, []).append(first)
            values.setdefault(part, []).append(own)
    kind = pa.list_(settings.stored.field(KEY).type)
    return {
        part: rows.take(pa.array(taken))
        .append_column(NTH, pa.array(numbers[part], pa.int32()))
        .append_column(VALUES, pa.array(values[part], kind))
        for part, taken in owners.items()
    }


def _parts(arrays: pa.ChunkedArray, settings: ArchiveSettings) -> dict[Any, int]:
    """The part of every value in these arrays."""
    values = pc.unique(pc.list_flatten(arrays))
    listed = zip(values.to_pylist(), parts_of([values], settings.parts).tolist(), strict=True)
    return {None: 0, **{_distinct(value): part for value, part in listed}}


def _distinct(value: Any) -> Any:
    """As Spark tells values apart: all NaN are one."""
    return "NaN" if value != value else value


def _values_by_part(key: list[Any], parts: Mapping[Any, int]) -> dict[int, tuple[int, list[Any]]]:
    """The distinct values of a key by part, each with the number of the first of them."""
    distinct = {_distinct(value): value for value in key}
    groups: dict[int, tuple[int, list[Any]]] = {}
    for number, (name, value) in enumerate(distinct.items()):
        groups.setdefault(parts[name], (number, []))[1].append(value)
    return groups


def with_references(rows: pa.Table, settings: ArchiveSettings) -> pa.Table:
    """Rows of one part with their values → each row under its home, and references to it."""
    lists = rows[VALUES].combine_chunks()
    values, owners = pc.list_flatten(lists), pc.list_parent_indices(lists).to_numpy()
    at_home = np.diff(owners, prepend=-1) != 0
    homes = values.take(pa.array(np.flatnonzero(at_home)[np.cumsum(at_home) - 1]))
    numbers = np.where(at_home, rows[NTH].to_numpy()[owners], REFERENCE)
    everywhere, whole = pa.array(owners), pa.array(owners, mask=~at_home)
    lasting = {TS, EXP, *settings.family.columns, *settings.family.counts}
    columns: dict[str, Any] = {
        name: rows[name].take(everywhere if name in lasting else whole)
        for name in rows.column_names
        if name not in (NTH, VALUES)
    }
    return pa.table({**columns, KEY: values, NTH: pa.array(numbers, pa.int32()), HOME: homes})


def whole_rows(stored: pa.Table, settings: ArchiveSettings, part: int) -> pa.Table:
    """Stored rows of one part as they arrived: with their values in place of references."""
    rows = stored.filter(pc.greater(stored[NTH], REFERENCE))
    copies = rows[HOME].is_null().to_pylist()
    parts = _parts(rows[settings.key[0]], settings)
    values = [
        [under] if copy else _values_by_part(key, parts)[part][1]
        for copy, under, key in zip(
            copies, rows[KEY].to_pylist(), rows[settings.key[0]].to_pylist(), strict=True
        )
    ]
    kind = pa.list_(settings.stored.field(KEY).type)
    return rows.drop_columns([KEY, HOME]).append_column(VALUES, pa.array(values, kind))


def without_dangling(tables: Iterator[pa.Table], settings: ArchiveSettings) -> Iterator[pa.Table]:
    """The rows of a file without references to rows that are no longer among them."""
    rows = pa.concat_tables(list(tables))
    ordered = order_key(rows[KEY]).to_pylist()
    homes = order_key(rows[HOME]).to_pylist()
    arrays = rows[settings.key[0]].combine_chunks()
    flat = order_key(pa.chunked_array([pc.list_flatten(arrays)])).to_pylist()
    owners = pc.list_parent_indices(arrays).to_numpy()
    held = {(ordered[owner], value) for owner, value in zip(owners, flat, strict=True)}
    references = (rows[NTH].to_numpy() == REFERENCE).tolist()
    kept = [
        not reference or (home, value) in held
        for reference, home, value in zip(references, homes, ordered, strict=True)
    ]
    yield rows.filter(pa.array(kept, pa.bool_()))
