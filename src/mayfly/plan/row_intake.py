"""Rows as people bring them, made a table of declared columns: the one way into streams, relations
and archives.

Arrow, pandas, DuckDB, lists of dicts and dicts of lists are taken; names are compared without
regard to case, as in the language. A value is converted where its declared type holds it exactly;
a time without a zone is of the zone in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import inf
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from mayfly.errors import BadInput
from mayfly.keywords import text
from mayfly.lifetime import zone
from mayfly.plan.catalog import ColumnDefinition
from mayfly.plan.time_zones import instants_of
from mayfly.plan.types import (
    DATE,
    FLOAT,
    TIMESTAMP,
    DataType,
    arrow_type,
    from_arrow,
    is_widening,
    parse_type,
)
from mayfly.plan.zone_instants import PLAIN, instant_in_zone, is_naive

Columns: TypeAlias = "Mapping[str, str] | pa.Schema | pa.Table | Any"
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
    pairs = _columns(owner, rows)
    if not pairs and not len(rows):
        optional = kinds
    declared = {name.casefold(): name for name in kinds}
    columns = {declared[name.casefold()]: values for name, values in pairs if _in(name, declared)}
    problems = [f"missing: {name}" for name in kinds if name not in (*columns, *optional)]
    if strict:
        others = [name or "''" for name, _ in pairs if not _in(name, declared)]
        problems += [f"not in {owner}: {name}" for name in others]
    if len(columns) < sum(_in(name, declared) for name, _ in pairs):
        problems.append("a name occurs twice")
    for name, values in columns.items():
        if isinstance(values, pa.Array | pa.ChunkedArray):
            kind = from_arrow(_plain(values.type))
            if not _fits(kind, kinds[name]):
                problems.append(f"{name} is {kind}, not {kinds[name]}")
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


def columns_of(columns: Columns) -> tuple[ColumnDefinition, ...]:
    """Columns from types by name, from a schema, or from rows that have them."""
    if isinstance(columns, Mapping):
        kinds = {text("the name of a column", column): kind for column, kind in columns.items()}
        return tuple(
            ColumnDefinition(column, parse_type(text(column, kinds[column]))) for column in kinds
        )
    schema = columns if isinstance(columns, pa.Schema) else arrow_of("a stream", columns).schema
    return tuple(ColumnDefinition(field.name, from_arrow(field.type)) for field in schema)


def _in(name: str, declared: Mapping[str, str]) -> bool:
    return name.casefold() in declared


def _columns(owner: str, rows: Any) -> list[tuple[str, Any]]:
    """Names and values, in Arrow only where they came so: Python's own are converted later."""
    if isinstance(rows, Mapping):
        _require_texts(owner, rows)
        for name, values in rows.items():
            if not _are_values(values):
                raise BadInput(
                    f"the column {name} for {owner} is {values!r}", "give a list, a value per row"
                )
        return list(rows.items())
    if _are_dicts(rows):
        names = dict.fromkeys(name for row in rows for name in row)
        _require_texts(owner, names)
        if len({name.casefold() for name in names}) < len(names):
            rows, names = _with_one_spelling(owner, rows, names)
        return [(name, [row.get(name) for row in rows]) for name in names]
    if hasattr(rows, "iloc") and not len(rows):
        return [(str(name), []) for name in rows.columns]  # pandas calls nothing a DOUBLE
    table = arrow_of(owner, rows)
    return list(zip(table.column_names, table.columns, strict=True))


def are_rows(value: Any) -> bool:
    """Whether it is one of the forms that rows come in."""
    return (
        isinstance(value, pa.Table | pa.RecordBatch | Mapping)
        or hasattr(value, "to_arrow_table")
        or hasattr(value, "iloc")
        or (_are_dicts(value) and bool(value))
    )


def _are_dicts(rows: Any) -> bool:
    return (
        isinstance(rows, Sequence)
        and not isinstance(rows, str | bytes)
        and all(isinstance(row, Mapping) for row in rows)
    )


def _are_values(values: Any) -> bool:
    """Whether something holds a value per row: a list or an array, and not a text or a dict."""
    if isinstance(values, Sequence):
        return not isinstance(values, str | bytes | bytearray)
    return isinstance(values, pa.Array | pa.ChunkedArray) or getattr(values, "ndim", None) == 1


def _require_texts(owner: str, names: Collection[Any]) -> None:
    if others := [name for name in names if not isinstance(name, str)]:
        raise BadInput(f"a column of the rows for {owner} is called {others[0]!r}", "use a text")


def _with_one_spelling(
    owner: str, rows: Sequence[Mapping[str, Any]], names: Collection[str]
) -> tuple[list[dict[str, Any]], dict[str, None]]:
    """Rows that write one name in several ways, all as it was written first."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(name.casefold(), name)
    respelled = [{first[name.casefold()]: value for name, value in row.items()} for row in rows]
    for number, (row, same) in enumerate(zip(rows, respelled, strict=True)):
        if len(same) < len(row):
            raise BadInput(
                f"in row {number} for {owner} a name occurs twice: {', '.join(row)}",
                "names are compared without regard to case: leave one of them out",
            )
    return respelled, dict.fromkeys(first.values())


def arrow_of(owner: str, rows: Any) -> pa.Table:
    """Rows as an Arrow table, with the types they come with."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "to_arrow_table"):
        return rows.to_arrow_table()
    try:
        if hasattr(rows, "iloc"):
            return pa.Table.from_pandas(rows, preserve_index=False)
        if isinstance(rows, Mapping) or (_are_dicts(rows) and rows):
            return pa.table(dict(_columns(owner, rows)))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the rows for {owner} have no common types: {error}", _FORMS) from error
    if _are_dicts(rows):
        raise BadInput(
            f"the rows for {owner} are an empty list, which does not say what the columns are",
            'say which: columns={"id": "BIGINT", …} for a relation, types in an Arrow table '
            "elsewhere, or declare them in the language: CREATE …",
        )
    raise BadInput(f"rows for {owner} are a {type(rows).__name__}", _FORMS)


def _converted(name: str, values: Any, kind: DataType) -> pa.Array | pa.ChunkedArray:
    target = arrow_type(kind)
    in_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
    if in_arrow and kind.is_nested and _holds(kind, TIMESTAMP) and from_arrow(values.type) != kind:
        values = values.to_pylist()  # its times may have no zone
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            values = values.cast(_plain(values.type))
            if pa.types.is_integer(values.type) and pa.types.is_decimal(target):
                # Arrow asks for room for the largest number of the type, whatever the values are.
                values = values.cast(pa.decimal128(38, target.scale))
            array = values.cast(target)
        else:
            array = pa.array(_whole_values(values, kind), target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"values of {name} do not fit {kind}: {error}", "convert them") from error
    return _in_zone(array, values) if kind == TIMESTAMP else array


def _whole_values(values: Any, kind: DataType) -> Any:
    """Python's values, if Arrow takes them as they are; dates for times become midnights."""
    if not isinstance(values, list | tuple) and getattr(values, "dtype", None) != np.dtype(object):
        return values  # Arrow compares arrays of numbers itself
    if kind.name in _INSTANTS:
        values = [_midnight(value) for value in values]
    if kind.is_nested or kind.is_integral or kind.name in ("date", "float", *_INSTANTS):
        for value in values:
            if _is_cut(value, kind):
                raise ValueError(f"{value!r} would lose a part of its value")
    if kind.is_nested and _holds(kind, TIMESTAMP):
        return [_with_instants(value, kind) for value in values]
    return values


def _holds(kind: DataType, member: DataType) -> bool:
    return kind == member or any(_holds(field, member) for _, field in kind.fields)


def _with_instants(value: Any, kind: DataType) -> Any:
    """A nested value whose times without a zone, and dates, are of the zone in use."""
    if kind == TIMESTAMP:
        value = _midnight(value)
        return instant_in_zone(value) if is_naive(value) else value
    if value is None or not kind.is_nested:
        return value
    members = [member for _, member in kind.fields]
    if kind.name == "array":
        return [_with_instants(entry, members[0]) for entry in value]
    if kind.name == "map":
        pairs = value.items() if isinstance(value, Mapping) else value
        return [_all_with_instants(pair, members) for pair in pairs]
    if isinstance(value, Mapping):
        return {name: _with_instants(value.get(name), member) for name, member in kind.fields}
    return _all_with_instants(value, members)


def _all_with_instants(values: Any, kinds: Sequence[DataType]) -> tuple[Any, ...]:
    return tuple(_with_instants(entry, kind) for entry, kind in zip(values, kinds, strict=True))


def _midnight(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    return value


def _is_cut(value: Any, kind: DataType) -> bool:
    """Whether Arrow would leave out a part of a Python value in silence."""
    if isinstance(value, float | np.floating | Decimal):
        if kind.is_integral or kind.name in ("date", *_INSTANTS):
            return bool(value != int(value))
        return kind == FLOAT and _LARGEST_FLOAT < abs(float(value)) < inf
    if isinstance(value, datetime):
        return kind == DATE and value.time() != time()
    if isinstance(value, Mapping):
        if kind.name == "map":
            return _any_cut(value.keys(), kind, 0) or _any_cut(value.values(), kind, 1)
        return any(_is_cut(value.get(name), member) for name, member in kind.fields)
    if isinstance(value, list | tuple | np.ndarray) and kind.is_nested:
        if kind.name == "array":
            return _any_cut(value, kind, 0)
        pairs = value if kind.name == "map" else [value]
        members = [member for _, member in kind.fields]
        return any(
            _is_cut(part, of) for pair in pairs for part, of in zip(pair, members, strict=False)
        )
    return False


def _any_cut(values: Iterable[Any], kind: DataType, member: int) -> bool:
    return any(_is_cut(value, kind.fields[member][1]) for value in values)


def _in_zone(times: pa.Array | pa.ChunkedArray, values: Any) -> pa.Array | pa.ChunkedArray:
    """Arrow reads times without a zone, and dates, as UTC; they are of the zone in use."""
    if zone() in PLAIN:
        return times
    if isinstance(values, pa.Array | pa.ChunkedArray):
        naive = np.array(getattr(values.type, "tz", None) is None)
    else:
        naive = np.array([isinstance(v, np.datetime64) or is_naive(v) for v in values], np.bool_)
    shown = times.fill_null(0).cast(pa.int64()).to_numpy()
    instants = np.where(naive, instants_of(shown), shown)
    missing = np.asarray(times.is_null())
    return pa.array(instants, times.type, mask=missing)


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _fits(source: DataType, kind: DataType) -> bool:
    """Whether values of a type may be taken for another; a cast then checks every one of them."""
    if source.is_integral and kind.is_numeric:
        return True
    return source.name == kind.name == "decimal" or _is_exact(source, kind)


def _is_exact(source: DataType, kind: DataType) -> bool:
    """Whether each value of a type has an equal one of the other, if a zone is added to times."""
    if is_widening(source, kind) or (
        kind == TIMESTAMP and source.name in ("timestamp_ntz", "date")
    ):
        return True
    if not source.is_nested or source.name != kind.name or len(source.fields) != len(kind.fields):
        return False
    pairs = zip(source.fields, kind.fields, strict=True)
    return all(n == other and _is_exact(member, of) for (n, member), (other, of) in pairs)


_INSTANTS = ("timestamp", "timestamp_ntz")
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
