"""Rows as people bring them, made a table of declared columns: the one way into streams, relations
and archives.

Arrow, pandas, DuckDB, lists of dicts and dicts of lists are taken; names are compared without
regard to case, as in the language. A value is converted where its declared type holds it exactly;
a time without a zone is of the zone in use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import BadInput
from mayfly.lifetime import zone
from mayfly.plan.types import TIMESTAMP, DataType, arrow_type, from_arrow, is_widening
from mayfly.plan.zones import PLAIN, instants_of, is_naive

_FORMS = "give an Arrow table, a pandas DataFrame, a DuckDB relation, a list of dicts or a dict"


def as_table(
    owner: str,
    rows: Any,
    kinds: Mapping[str, DataType],
    optional: Collection[str] = (),
    *,
    strict: bool = False,
) -> pa.Table:
    """The declared columns of ``rows`` in their types; NULL where an ``optional`` one is missing.

    ``owner`` is what the rows are for, in messages; ``strict`` refuses columns not declared.
    """
    given = _columns(owner, rows)
    if isinstance(rows, Sequence) and not rows:
        optional = kinds
    declared = {name.casefold(): name for name in kinds}
    columns = {declared[name.casefold()]: values for name, values in given if _in(name, declared)}
    problems = [f"missing: {name}" for name in kinds if name not in (*columns, *optional)]
    if strict:
        problems += [f"not in {owner}: {name}" for name, _ in given if not _in(name, declared)]
    if len(columns) < sum(_in(name, declared) for name, _ in given):
        problems.append("a name occurs twice")
    for name, values in columns.items():
        if isinstance(values, pa.Array | pa.ChunkedArray) and not _fits(values.type, kinds[name]):
            problems.append(f"{name} is {from_arrow(_plain(values.type))}, not {kinds[name]}")
    if problems:
        raise BadInput(
            f"the batch does not have {owner}'s columns: {'; '.join(problems)}",
            f"the columns are {', '.join(f'{name} {kind}' for name, kind in kinds.items())}: "
            f"select and cast them{', or add_column() what is new' if strict else ''}",
        )
    size = next((len(values) for values in columns.values()), 0)
    nothing = pa.nulls(size)
    arrays = [_converted(name, columns.get(name, nothing), kind) for name, kind in kinds.items()]
    if any(len(array) != size for array in arrays):
        raise BadInput(f"the columns for {owner} differ in length", "give a value per row")
    return pa.table(arrays, names=list(kinds))


def _in(name: str, declared: Mapping[str, str]) -> bool:
    return name.casefold() in declared


def _columns(owner: str, rows: Any) -> list[tuple[str, Any]]:
    """Names and values, in Arrow only where they came so: Python's own are converted later."""
    if isinstance(rows, Mapping):
        return list(rows.items())
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        return [(name, [row.get(name) for row in rows]) for name in names]
    table = arrow_of(owner, rows)
    return list(zip(table.column_names, table.columns, strict=True))


def arrow_of(owner: str, rows: Any) -> pa.Table:
    """Rows as an Arrow table, with the types they come with."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "to_arrow_table"):
        return rows.to_arrow_table()
    if hasattr(rows, "iloc"):
        return pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, Mapping):
        return pa.table(dict(rows))
    if isinstance(rows, Sequence) and rows and all(isinstance(row, Mapping) for row in rows):
        return pa.Table.from_pylist(list(rows))
    raise BadInput(f"rows for {owner} are a {type(rows).__name__}", _FORMS)


def _converted(name: str, values: Any, kind: DataType) -> pa.Array | pa.ChunkedArray:
    wanted = arrow_type(kind)
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            values = values.cast(_plain(values.type))
            if pa.types.is_integer(values.type) and pa.types.is_decimal(wanted):
                # Arrow asks for room for the largest number of the type, whatever the values are.
                values = values.cast(pa.decimal128(38, wanted.scale))
            array = values.cast(wanted)
        else:
            array = pa.array(values, wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"values of {name} do not fit {kind}: {error}", "convert them") from error
    return _in_zone(array, values) if kind == TIMESTAMP else array


def _in_zone(times: pa.Array | pa.ChunkedArray, given: Any) -> pa.Array | pa.ChunkedArray:
    """Arrow reads times without a zone, and dates, as UTC; they are of the zone in use."""
    if zone() in PLAIN:
        return times
    if isinstance(given, pa.Array | pa.ChunkedArray):
        naive = np.array(getattr(given.type, "tz", None) is None)
    else:
        naive = np.array([isinstance(v, np.datetime64) or is_naive(v) for v in given], np.bool_)
    shown = times.fill_null(0).cast(pa.int64()).to_numpy()
    instants = np.where(naive, instants_of(shown), shown)
    missing = np.asarray(times.is_null())
    return pa.array(instants, times.type, mask=missing)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _fits(given: pa.DataType, kind: DataType) -> bool:
    """Whether values of a type may be taken for another; a cast then checks every one of them."""
    found = from_arrow(_plain(given))
    if found.is_integral and kind.is_numeric:
        return True
    if found.name == kind.name == "decimal" or is_widening(found, kind):
        return True
    return (found.name, kind.name) in _TIMES


_TIMES = {("timestamp_ntz", "timestamp"), ("date", "timestamp")}
