"""Join cases as JSON text, so that one that failed can be kept and run again.

A case is written as its settings, the types of each stream's columns, and per batch the rows of
each stream as lists of values. A failing property prints its case in this form: put it into
``tests/property/cases`` with a word on why it is kept.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from mayfly.plan.types import arrow_type, from_arrow, parse_type
from mayfly.testing import JoinCase, as_micros
from tests.property.join_runs import Chain

FOLDER = Path(__file__).parent / "cases"


def to_text(case: JoinCase, chain: Chain, why: str = "") -> str:
    """The case as JSON: times in microseconds, bytes in hex, other values as text where needed."""
    first = {name: as_micros(rows) for name, rows in case.batches[0].items()}
    written = {
        "why": why,
        "windows": case.windows,
        "slack": case.slack,
        "buckets": case.buckets,
        "heartbeats": case.heartbeats,
        "on": chain.on,
        "types": {
            name: {field.name: from_arrow(field.type).sql() for field in rows.schema}
            for name, rows in first.items()
        },
        "batches": [
            {name: _rows(rows) for name, rows in batch.items() if rows.num_rows}
            for batch in case.batches
        ],
    }
    return json.dumps(written, indent=1, ensure_ascii=False)


def _rows(rows: pa.Table) -> list[list[Any]]:
    columns = [_written(column) for column in as_micros(rows).columns]
    return [list(row) for row in zip(*columns, strict=True)]


def _written(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_binary(column.type):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    plain: list[Any] = (column if _is_plain(column.type) else column.cast(pa.string())).to_pylist()
    return plain


def _is_plain(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
    )


def from_text(text: str) -> tuple[JoinCase, Chain]:
    """The case and its chain, as they were written."""
    written = json.loads(text)
    schemas = {
        name: pa.schema([(column, arrow_type(parse_type(kind))) for column, kind in types.items()])
        for name, types in written["types"].items()
    }
    batches = [
        {name: _table(schema, batch.get(name, [])) for name, schema in schemas.items()}
        for batch in written["batches"]
    ]
    on = tuple(
        [item if isinstance(item, str) else (item[0], item[1]) for item in keys]
        for keys in written["on"]
    )
    case = JoinCase(
        batches,
        written["windows"],
        slack=written["slack"],
        heartbeats=written["heartbeats"],
        buckets=written["buckets"],
    )
    return case, Chain(on)


def _table(schema: pa.Schema, rows: list[list[Any]]) -> pa.Table:
    columns = []
    for i, field in enumerate(schema):
        values = [row[i] for row in rows]
        if pa.types.is_binary(field.type):
            values = [None if value is None else bytes.fromhex(value) for value in values]
            columns.append(pa.array(values, field.type))
        else:
            plain = field.type if _is_plain(field.type) else pa.string()
            columns.append(pa.array(values, plain).cast(field.type))
    return pa.table(columns, schema=schema)
