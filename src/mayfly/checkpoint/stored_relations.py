"""The relations that queries read, stored beside their states: rows with their lifetimes.

Idea: a relation changes rarely and fits the driver, so its versions are written whole whenever it
has changed, by the commit of the batch that read the change. Other processes then see the table
that the queries saw. Invariant: ``stored_relations`` says how many changes the segments hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    Directory,
    DropSegments,
    Edit,
    Manifest,
    SetProperties,
    open_segment,
    write_segment,
)
from mayfly.storage.commit import reading_version

RELATION = "relation"
STORED_RELATIONS = "stored_relations"
"""Property: per relation, how many of its changes are stored."""


def relation_group(name: str) -> str:
    return f"{RELATION}/{name.casefold()}"


def store_relations(
    directory: Directory,
    base: Manifest,
    effective: Mapping[str, Sequence[int]],
    versions: Callable[[str, Sequence[int]], pa.Table],
    horizon: int,
) -> list[Edit]:
    """Write the relations that have changed, or hold rows that are dead at the horizon.

    ``effective`` says, per relation, at which instants its changes took effect; ``versions`` gives
    their rows with lifetimes.
    """
    stored: Mapping[str, int] = base.properties.get(STORED_RELATIONS, {})
    edits: list[Edit] = []
    for name, instants in effective.items():
        segments = list(base.in_group(relation_group(name)))
        dead = any(segment.exp.low <= horizon for segment in segments)
        if stored.get(name) == len(instants) and not dead:
            continue
        rows = versions(name, instants)
        alive = rows.filter(pc.greater(rows.column(EXP), horizon)).combine_chunks()
        segment = write_segment(directory, relation_group(name), alive)
        edits.append(DropSegments(tuple(old.path for old in segments)))
        edits.append(AddSegments(() if segment is None else (segment,)))
    groups = {relation_group(name) for name in effective}
    gone = [old.path for old in base.in_group(RELATION) if old.group not in groups]
    counts: dict[str, Any] = {name: len(instants) for name, instants in effective.items()}
    if gone:
        edits.append(DropSegments(tuple(gone)))
    if counts != stored:
        edits.append(SetProperties({STORED_RELATIONS: counts}))
    return edits


def relation_at(
    directory: Directory, manifest: Manifest, name: str, columns: Sequence[str], instant: int
) -> pa.Table | None:
    """The columns of a relation's rows at an instant; None where it has never had one."""
    parts = []
    with reading_version(directory, manifest.version):
        for segment in manifest.in_group(relation_group(name)):
            rows = open_segment(directory, segment, [*columns, TS, EXP])
            ts, exp = rows.column(TS), rows.column(EXP)
            alive = pc.and_(pc.less_equal(ts, instant), pc.greater(exp, instant))
            parts.append(rows.filter(alive).select(list(columns)))
    return pa.concat_tables(parts) if parts else None
