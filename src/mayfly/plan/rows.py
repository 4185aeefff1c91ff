"""Rows as people bring them, made a table of declared columns: the one way into streams, relations
and archives.

Arrow, pandas, DuckDB, lists of dicts and dicts of lists are taken; names are compared without
regard to case, as in the language. A value is converted where its declared type holds it exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mayfly.errors import BadInput, InvalidSetting
from mayfly.plan.types import DataType, arrow_type, from_arrow, is_widening

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
    if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
        given = list(dict.fromkeys(name for row in rows for name in row))
        spelt = _spelt(owner, given, kinds, optional if rows else kinds)
        values = {name: [row.get(spelt[name]) for row in rows] for name in spelt}
    elif isinstance(rows, Mapping):
        given = list(rows)
        spelt = _spelt(owner, given, kinds, optional)
        values = {name: rows[spelt[name]] for name in spelt}
    else:
        table = arrow_of(owner, rows)
        given = table.column_names
        spelt = _spelt(owner, given, kinds, optional)
        values = {name: table.column(spelt[name]) for name in spelt}
    if strict and (unknown := set(given) - set(spelt.values())):
        raise BadInput(
            f"{owner} has no column {', '.join(sorted(unknown))}",
            f"its columns are {', '.join(kinds)}: select them, or add_column() what is new",
        )
    count = next((len(column) for column in values.values()), 0)
    columns = [
        _converted(f"{owner}.{name}", values[name], kind)
        if name in values
        else pa.nulls(count, arrow_type(kind))
        for name, kind in kinds.items()
    ]
    if len({len(column) for column in columns}) > 1:
        raise BadInput(f"the columns for {owner} differ in length", "give a value per row")
    return pa.table(columns, names=list(kinds))


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


def _spelt(
    owner: str, given: Sequence[str], kinds: Mapping[str, DataType], optional: Collection[str]
) -> dict[str, str]:
    """Per declared column the name that the rows have for it."""
    folded: dict[str, str] = {}
    for name in given:
        if name.casefold() in folded and name.casefold() in map(str.casefold, kinds):
            raise BadInput(f"rows for {owner} have the column {name} twice", "rename one of them")
        folded[name.casefold()] = name
    missing = [n for n in kinds if n.casefold() not in folded and n not in optional]
    if missing:
        raise BadInput(
            f"rows for {owner} have no column {', '.join(missing)}",
            f"it was declared with {', '.join(kinds)}",
        )
    return {name: folded[name.casefold()] for name in kinds if name.casefold() in folded}


def _converted(place: str, values: Any, kind: DataType) -> pa.Array | pa.ChunkedArray:
    wanted = arrow_type(kind)
    try:
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            return pa.array(values, wanted)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if values.type == wanted:
            return values
        if not _fits(from_arrow(values.type), kind):
            raise BadInput(
                f"{place} was declared as {kind}, but the rows bring {from_arrow(values.type)}",
                "cast the column, or declare it with its type",
            )
        if pa.types.is_integer(values.type) and pa.types.is_decimal(wanted):
            values = values.cast(pa.decimal128(38, wanted.scale))
        return values.cast(wanted)
    except (pa.ArrowException, InvalidSetting, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{place} does not fit {kind}: {error}", "convert it") from error


def _fits(given: DataType, kind: DataType) -> bool:
    """Whether values of a type may be taken for another; a cast then checks every one of them."""
    if given.is_integral and kind.is_numeric:
        return True
    if given.name == kind.name == "decimal" or is_widening(given, kind):
        return True
    return given == kind or given.name == "void" or (given.name, kind.name) in _TIMES


_TIMES = {("timestamp_ntz", "timestamp"), ("date", "timestamp")}
