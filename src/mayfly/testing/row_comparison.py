"""Comparing results as multisets of rows, and saying how they differ.

Values are compared as SQL compares them: NULL matches NULL, NaN matches NaN, -0.0 matches 0.0,
and a timestamp equals its int64 count of microseconds. The order of rows and columns and the
width of a numeric type do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput
from mayfly.lifetime import instant

Rows: TypeAlias = pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]
Row: TypeAlias = tuple[Hashable, ...]


class _NaN:
    def __repr__(self) -> str:
        return "NaN"


_NAN = _NaN()


@dataclass(frozen=True)
class RowDifference:
    """How a result differs from the expected one; falsy if it does not."""

    columns: tuple[str, ...]
    counts: tuple[int, int]
    missing: Counter[Row]
    unexpected: Counter[Row]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)

    def __str__(self) -> str:
        actual, expected = self.counts
        lines = [
            f"{actual} rows found, {expected} expected: "
            f"{self.missing.total()} missing, {self.unexpected.total()} unexpected"
        ]
        for title, rows in (("missing", self.missing), ("unexpected", self.unexpected)):
            lines += self._listing(title, rows)
        return "\n".join(lines)

    def _listing(self, title: str, rows: Counter[Row], most: int = 5) -> list[str]:
        if not rows:
            return []
        ordered = sorted(rows.items(), key=lambda item: repr(item[0]))
        lines = [f"{title}, the first {min(most, len(rows))} of {len(rows)} distinct rows:"]
        for row, count in ordered[:most]:
            values = ", ".join(f"{c}={v!r}" for c, v in zip(self.columns, row, strict=True))
            lines.append(f"  {values}" + (f"   x{count}" if count > 1 else ""))
        return lines


def multiset(rows: Rows, columns: Sequence[str]) -> Counter[Row]:
    """The rows as a multiset of hashable tuples in the given column order."""
    table = _table(rows, columns)
    values = [
        [_comparable(value) for value in _widened(table.column(name)).to_pylist()]
        for name in columns
    ]
    return Counter(zip(*values, strict=True)) if columns else Counter({(): table.num_rows})


def row_difference(actual: Rows, expected: Rows) -> RowDifference:
    """What ``actual`` lacks and what it has too much; different column names are an error."""
    columns = _common_columns(actual, expected)
    left, right = _table(actual, columns), _table(expected, columns)
    counts = (left.num_rows, right.num_rows)
    if _equal_when_sorted(left, right):
        return RowDifference(columns, counts, Counter(), Counter())
    actual_rows, expected_rows = multiset(left, columns), multiset(right, columns)
    return RowDifference(columns, counts, expected_rows - actual_rows, actual_rows - expected_rows)


def assert_same_rows(actual: Rows, expected: Rows, context: str = "") -> None:
    """Fail with a readable difference unless both hold the same multiset of rows."""
    where = f"{context}: " if context else ""
    try:
        difference = row_difference(actual, expected)
    except BadInput as error:
        raise AssertionError(f"{where}{error}") from None
    if difference:
        raise AssertionError(f"{where}{difference}")


def _names(rows: Rows) -> tuple[str, ...] | None:
    """The column names; None for an empty list of dicts, which fits any columns."""
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return tuple(rows.schema.names)
    return tuple(rows[0]) if rows else None


def _common_columns(actual: Rows, expected: Rows) -> tuple[str, ...]:
    actual_names, expected_names = _names(actual), _names(expected)
    if actual_names is None or expected_names is None:
        return actual_names or expected_names or ()
    if sorted(actual_names) != sorted(expected_names):
        listed = f"found {', '.join(actual_names)}; expected {', '.join(expected_names)}"
        raise BadInput(
            f"columns differ: {listed}",
            "select or rename columns before comparing",
        )
    return expected_names


def _table(rows: Rows, columns: Sequence[str]) -> pa.Table:
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return rows.select(list(columns)) if columns else rows
    return pa.table({name: [row[name] for row in rows] for name in columns})


def _equal_when_sorted(left: pa.Table, right: pa.Table) -> bool:
    """A cheap proof of equality for large flat tables; False only means "not shown"."""
    if left.num_rows != right.num_rows or not left.num_columns:
        return False
    if any(pa.types.is_nested(kind) for kind in (*left.schema.types, *right.schema.types)):
        return False
    ordered = []
    for table in (left, right):
        parts = [part for column in table.columns for part in _sortable(_widened(column))]
        split = pa.table(parts, names=[str(i) for i in range(len(parts))])
        keys = [(name, "ascending") for name in split.schema.names]
        try:
            ordered.append(split.take(pc.sort_indices(split, sort_keys=keys)))
        except (pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return False
    return bool(ordered[0].equals(ordered[1]))


def _widened(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as int64 µs, which also covers years beyond Python's, and numbers at full width."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_duration(kind):
        return column.cast(pa.duration("us")).cast(pa.int64())
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return column.cast(pa.int64())
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    return column


def _sortable(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """Floats as (is NaN, value), with one zero, so that sorting puts equal values together."""
    if not pa.types.is_floating(column.type):
        return [column]
    nan = pc.is_nan(column)
    return [nan, pc.add(pc.if_else(nan, 0.0, column), 0.0)]


def _comparable(value: Any) -> Hashable:
    if isinstance(value, float) and value != value:
        return _NAN
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, Mapping):
        return tuple((name, _comparable(v)) for name, v in value.items())
    if isinstance(value, list | tuple):
        return tuple(_comparable(v) for v in value)
    if isinstance(value, Hashable):
        return value
    return repr(value)
