"""A synopsis as an Arrow table, and back: what a restart needs, ready to be written as a segment.

Each stored summary is its rows with the panes they are about; ``_ts`` is the last of them and
``_exp`` the update at which no window needs the row any more, so a segment of old ones is dropped
unread. What has no rows (the size, the last update, summaries of nothing) is in the metadata.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import CorruptFile
from mayfly.kernels.lifetime_rows import numbers
from mayfly.storage.segment import EXP, TS
from mayfly.synopses.basic_interval import BasicInterval
from mayfly.synopses.contents import TableAlgebra
from mayfly.synopses.dyadic_intervals import DyadicIntervals
from mayfly.synopses.join import BasicIntervalJoin, IntervalJoin, JoinSynopsis, RunningJoin
from mayfly.synopses.running import Running
from mayfly.synopses.synopsis import Entry, Synopsis

PLACE, HEAD = "_place", b"mayfly.synopsis"
KINDS: dict[str, type[Synopsis[Any]]] = {
    kind.kind: kind for kind in (Running, DyadicIntervals, BasicInterval)
}
JOIN_KINDS: dict[str, type[JoinSynopsis[Any]]] = {
    kind.kind: kind for kind in (RunningJoin, IntervalJoin, BasicIntervalJoin)
}
AnySynopsis = Synopsis[pa.Table] | JoinSynopsis[pa.Table]


def stored_table(synopsis: AnySynopsis) -> pa.Table:
    """Everything that a synopsis of summaries keeps."""
    entries = synopsis.entries()
    nothing = Entry(0, 0, synopsis.algebra.merge([]).slice(0, 0))
    parts = [_placed(0, nothing, 0)]
    parts += [_placed(n, entry, synopsis.expires(entry)) for n, entry in enumerate(entries)]
    head = {
        "kind": synopsis.kind,
        "panes": synopsis.panes,
        "update": synopsis.update,
        "oldest": synopsis.oldest,
        "places": [[entry.first, entry.last, entry.side, entry.delta] for entry in entries],
        "options": _options(synopsis),
    }
    return pa.concat_tables(parts).replace_schema_metadata({HEAD: json.dumps(head).encode()})


def _options(synopsis: AnySynopsis) -> dict[str, Any]:
    if isinstance(synopsis, JoinSynopsis):
        return {"spread": synopsis.spread}
    return {"is_open": synopsis.is_open} if isinstance(synopsis, DyadicIntervals) else {}


def _placed(number: int, entry: Entry[pa.Table], expires: int) -> pa.Table:
    rows = entry.value.num_rows
    table = entry.value.replace_schema_metadata(None)
    for name, value in {PLACE: number, TS: entry.last, EXP: expires}.items():
        table = table.append_column(name, pa.array(np.full(rows, value, np.int64)))
    return table


def restored_synopsis(table: pa.Table, algebra: TableAlgebra) -> Synopsis[pa.Table]:
    """The synopsis of a stream that was stored in a table."""
    head = _head(table, KINDS)
    synopsis = KINDS[head["kind"]](algebra, head["panes"], **head["options"])
    synopsis.restore(head["update"], head["oldest"], _entries(table, head))
    return synopsis


def restored_join(table: pa.Table, algebra: TableAlgebra) -> JoinSynopsis[pa.Table]:
    """The synopsis of a join that was stored in a table."""
    head = _head(table, JOIN_KINDS)
    synopsis = JOIN_KINDS[head["kind"]](algebra, head["panes"], **head["options"])
    synopsis.restore(head["update"], head["oldest"], _entries(table, head))
    return synopsis


def _head(table: pa.Table, kinds: Collection[str]) -> dict[str, Any]:
    metadata = table.schema.metadata or {}
    head: dict[str, Any] = json.loads(metadata.get(HEAD, b"{}"))
    if head.get("kind") not in kinds:
        raise CorruptFile(
            f"this table holds no synopsis of a kind of {', '.join(kinds)}",
            "hand in the table that was stored, with its metadata",
        )
    return head


def _entries(table: pa.Table, head: dict[str, Any]) -> list[Entry[pa.Table]]:
    number = numbers(table, PLACE)
    content = table.drop_columns([PLACE, TS, EXP]).replace_schema_metadata(None)
    return [
        Entry(first, last, content.take(pa.array(np.flatnonzero(number == place))), side, delta)
        for place, (first, last, side, delta) in enumerate(head["places"])
    ]
