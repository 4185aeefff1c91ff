"""How long each row lives: by its own expiration, or by its generation time and a lifetime.

A lifetime comes from a column (an interval, or a BIGINT of µs), is the same for all rows, follows
from the value of a column such as a retention class, or is an expression over the row's columns. It
is computed where rows are admitted, so that in one process and on Spark the same rows live equally
long.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.model.calendar import DAY, Int64Array
from mayfly.archive.model.column_names import by_column, spelled
from mayfly.cql import bind_scalar
from mayfly.errors import InvalidSetting
from mayfly.kernels.expression import evaluate
from mayfly.lifetime import NEVER, Duration, duration, micros
from mayfly.plan.expressions import Expression
from mayfly.plan.types import DataType, from_arrow


@dataclass(frozen=True)
class Lifetimes:
    """S, the longest lifetime in µs, and where the lifetime of a row comes from."""

    longest: int
    exp: str | None = None
    """The column that holds the expiration time."""
    column: str | None = None
    """The column that holds the lifetime, or the class it follows from."""
    classes: Mapping[str, int] = field(default_factory=dict, hash=False)
    """The lifetime in µs of each value of ``column``; without any it holds lifetimes itself."""
    constant: int | None = None
    expression: str | None = None
    """SQL over the row's columns: its lifetime, or the instant of its expiration."""
    instant: bool = False
    """Whether the expression is the instant."""
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Windows of a number of rows: the column of positions in each, and its size. Then ``longest``
    is only how long a row is expected to stay at most."""

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise InvalidSetting(
                f"the longest lifetime is {self.longest} µs", "use a duration longer than 0"
            )
        ways = (self.exp, self.column, self.constant, self.expression, self.counts or None)
        choices = [way for way in ways if way is not None]
        if len(choices) != 1:
            raise InvalidSetting(
                "it is not clear how long a row lives",
                'give either exp="column", lifetime=… or counts=…, and only one of them',
            )
        for size in self.counts.values():
            if not 0 < size < NEVER:
                raise InvalidSetting(f"a window of {size} rows", "use 1 or more, within 64 bits")
        fixed = [*self.classes.values(), *([] if self.constant is None else [self.constant])]
        if wrong := [lifetime for lifetime in fixed if not 0 < lifetime <= self.longest]:
            raise InvalidSetting(
                f"a lifetime of {wrong[0]} µs with max_lifetime = {self.longest} µs",
                "use lifetimes longer than 0 and up to max_lifetime",
            )

    def check(self, types: Mapping[str, DataType]) -> None:
        """Refuse columns that are missing or of a type that says nothing about time."""
        if self.expression is not None:
            self._check_expression(self.expression, types)
        for position in self.counts:
            if position not in types or types[position].name != "bigint":
                raise InvalidSetting(
                    f"{position!r} is not a column of positions",
                    "name a BIGINT column of the archive, which numbers the rows of the window",
                )
        name = self.exp or self.column
        if name is None:
            return
        if name not in types:
            raise InvalidSetting(
                f"the archive has no column {name!r}", f"its columns are {', '.join(types)}"
            )
        fit: tuple[str, ...] = ("timestamp", "bigint")
        expectation = "a TIMESTAMP, or a BIGINT of microseconds"
        if self.column and not self.classes:
            fit = ("interval day to second", "bigint")
            expectation = "an INTERVAL DAY TO SECOND, or a BIGINT of microseconds"
        elif self.classes:
            fit, expectation = ("string",), "a STRING"
        if types[name].name not in fit:
            raise InvalidSetting(f"the column {name} is {types[name]}", f"use {expectation}")

    def _check_expression(self, text: str, types: Mapping[str, DataType]) -> None:
        kind = _bound(text, tuple(types.items())).type
        expectation = "timestamp" if self.instant else "interval day to second"
        if kind.name not in (expectation, "bigint"):
            example = "ts + INTERVAL 7 DAYS" if self.instant else "INTERVAL 7 DAYS"
            raise InvalidSetting(
                f"{text} is {kind}, not {'an instant' if self.instant else 'a lifetime'}",
                f"write an expression of type {expectation.upper()} ({example}), or BIGINT of µs",
            )

    @property
    def told_by(self) -> tuple[str, ...]:
        """The columns that say how long a row lives, if they say it themselves."""
        return tuple(name for name in (self.exp, self.column, *self.counts) if name is not None)

    def expirations(self, rows: pa.Table, ts: Int64Array) -> pa.Array:
        """exp of every row in µs, NULL where nothing says how long it lives."""
        if self.exp is not None:
            return _micros(rows[self.exp])
        if self.expression is not None:
            lifetimes = _evaluated(self.expression, rows)
            if self.instant:
                return lifetimes
        elif self.constant is not None:
            lifetimes = pa.array(np.full(len(ts), self.constant))
        elif self.classes:
            names = pa.array(list(self.classes), pa.string())
            places = pc.index_in(rows[self.column].combine_chunks(), value_set=names)
            lifetimes = pa.array(list(self.classes.values()), pa.int64()).take(places)
        else:
            lifetimes = _micros(rows[self.column])
        # Whatever is far too long is refused; cut here, the sum cannot wrap around.
        far = 2 * self.longest + 2 * DAY
        positive = pc.max_element_wise(lifetimes, -1, skip_nulls=False)
        cut = pc.min_element_wise(positive, far, skip_nulls=False)
        return pc.add(cut, pa.array(ts, pa.int64()))

    def to_json(self) -> dict[str, Any]:
        return {
            "longest": self.longest,
            "exp": self.exp,
            "column": self.column,
            "classes": dict(self.classes),
            "constant": self.constant,
            **({"counts": dict(self.counts)} if self.counts else {}),
            **({"expression": self.expression, "instant": self.instant} if self.expression else {}),
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Lifetimes:
        return Lifetimes(**stored)


def declared_lifetimes(
    max_lifetime: Duration,
    exp: str | None,
    lifetime: str | timedelta | Mapping[str, Mapping[str, Duration]] | None,
    columns: Mapping[str, str],
    counts: Mapping[str, int] | None = None,
) -> Lifetimes:
    """Lifetimes in the words of a user: ``lifetime`` names a column, is a duration for all rows or
    an expression, or says ``{column: {value: duration, …}}``; ``exp`` names a column or is an
    expression."""
    longest = duration(max_lifetime)
    if not isinstance(exp, str | None):
        raise InvalidSetting(f"exp is {exp!r}", "name a column, or write an expression")
    if not isinstance(lifetime, str | Mapping | None):
        lifetime = timedelta(microseconds=duration(lifetime))
    if counts is not None and (counted := by_column(_counted(counts), columns)):
        return Lifetimes(longest, exp, constant=None if lifetime is None else 1, counts=counted)
    if exp is None and lifetime is None:
        exp = "exp"
    exp = None if exp is None else spelled(exp, columns)
    if lifetime is None:
        if exp in columns or exp is None or exp.isidentifier():
            return Lifetimes(longest, exp=exp)
        return Lifetimes(longest, expression=exp, instant=True)
    if isinstance(lifetime, Mapping):
        if len(lifetime) != 1:
            raise InvalidSetting(
                "lifetimes follow from the values of one column",
                'write lifetime={"class": {"free": "1 day", "paid": "90 days"}}',
            )
        ((column, classes),) = by_column(lifetime, columns).items()
        if not isinstance(classes, Mapping):
            raise InvalidSetting(
                f"the lifetimes by {column} are {classes!r}",
                'write lifetime={"class": {"free": "1 day", "paid": "90 days"}}',
            )
        of_class = {value: duration(life) for value, life in classes.items()}
        return Lifetimes(longest, exp, column, of_class)
    if isinstance(lifetime, str) and (column := spelled(lifetime, columns)) in columns:
        return Lifetimes(longest, exp, column)
    if isinstance(lifetime, str) and not _is_duration(lifetime):
        if lifetime.isidentifier():
            raise InvalidSetting(
                f"cannot read the duration {lifetime!r}, and there is no such column",
                f'write it like "30 days", or name one of {", ".join(columns)}',
            )
        return Lifetimes(longest, exp, expression=lifetime)
    return Lifetimes(longest, exp, constant=duration(lifetime))


def _counted(counts: object) -> Mapping[str, int]:
    """Sizes of windows by their columns of positions, as a user gives them."""
    whole = isinstance(counts, Mapping) and all(
        isinstance(size, int) and not isinstance(size, bool) for size in counts.values()
    )
    if not whole:
        raise InvalidSetting(
            f"counts is {counts!r}", 'give numbers of rows by column, like counts={"position": 100}'
        )
    return cast("Mapping[str, int]", counts)


def _is_duration(text: str) -> bool:
    """Not the beginning of an expression, like 2 * days."""
    with suppress(InvalidSetting):
        micros(text)
        return True
    return False


@lru_cache(maxsize=64)
def _bound(text: str, types: tuple[tuple[str, DataType], ...]) -> Expression:
    return bind_scalar(text, {"row": dict(types)})


def _evaluated(text: str, rows: pa.Table) -> pa.Array:
    types = tuple(
        (schema_field.name, from_arrow(schema_field.type)) for schema_field in rows.schema
    )
    values = evaluate(_bound(text, types), lambda column: rows[column.name])
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, rows.num_rows)
    return _micros(values)


def _micros(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz))
    elif pa.types.is_duration(array.type):
        array = array.cast(pa.duration("us"))
    return array.cast(pa.int64())
