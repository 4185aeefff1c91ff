"""A synopsis as an Arrow table, and back: what a restart needs, ready to be written as a segment.

Each stored summary is its rows with the panes they are about; ``_ts`` is the last of them and
``_exp`` the update at which no window needs the row any more, so a segment of old ones is dropped
unread. What has no rows (the size, the last update, summaries of nothing) is in the metadata.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import CorruptFile
from mayfly.kernels.lifetime_rows import numbers
from mayfly.storage.segment import EXP, TS
from mayfly.synopses.basic_interval import BasicInterval
from mayfly.synopses.contents import TableAlgebra
from mayfly.synopses.dyadic_intervals import Interval
from mayfly.synopses.running import Running
from mayfly.synopses.synopsis import Entry, Synopsis

FIRST, HEAD = "_first", b"mayfly.synopsis"
KINDS: dict[str, type[Synopsis[Any]]] = {
    kind.kind: kind for kind in (Running, Interval, BasicInterval)
}


def stored_table(synopsis: Synopsis[pa.Table]) -> pa.Table:
    """Everything that a synopsis of summaries keeps."""
    entries = synopsis.entries()
    parts = [_placed(entry, synopsis.expires(entry)) for entry in entries]
    nothing = _placed(Entry(0, 0, synopsis.algebra.merge([]).slice(0, 0)), 0)
    table = pa.concat_tables([nothing, *parts])
    head = {
        "kind": synopsis.kind,
        "panes": synopsis.panes,
        "update": synopsis.update,
        "oldest": synopsis.oldest,
        "places": [[entry.first, entry.last] for entry in entries],
        "open": getattr(synopsis, "is_open", False),
    }
    return table.replace_schema_metadata({HEAD: json.dumps(head).encode()})


def _placed(entry: Entry[pa.Table], expires: int) -> pa.Table:
    rows = entry.value.num_rows
    places = {FIRST: entry.first, TS: entry.last, EXP: expires}
    table = entry.value.replace_schema_metadata(None)
    for name, pane in places.items():
        table = table.append_column(name, pa.array(np.full(rows, pane, np.int64)))
    return table


def restored_synopsis(table: pa.Table, algebra: TableAlgebra) -> Synopsis[pa.Table]:
    """The synopsis that was stored in a table."""
    metadata = table.schema.metadata or {}
    if HEAD not in metadata:
        raise CorruptFile(
            "this table holds no synopsis: its metadata is missing", "restore it from a copy"
        )
    head = json.loads(metadata[HEAD])
    options = {"is_open": head["open"]} if head["kind"] == Interval.kind else {}
    synopsis = KINDS[head["kind"]](algebra, head["panes"], **options)
    first, last = numbers(table, FIRST), numbers(table, TS)
    content = table.drop_columns([FIRST, TS, EXP]).replace_schema_metadata(None)
    entries = []
    for place in head["places"]:
        rows = np.flatnonzero((first == place[0]) & (last == place[1]))
        entries.append(Entry(place[0], place[1], content.take(pa.array(rows))))
    synopsis.restore(head["update"], head["oldest"], entries)
    return synopsis
