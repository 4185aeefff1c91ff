"""Columns that follow from others, and the time of a row: a column, a number of a unit, or any
expression of the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token

from mayfly.cql.free_conditions import bind_scalar, bind_tokens
from mayfly.cql.messages import TextSpan
from mayfly.cql.tokens import Cursor
from mayfly.plan.catalog import TIME_TYPES, ColumnDefinition
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.types import DataType

EVENT_TIME = "event_time"
"""The column that a time which is no column of its own becomes."""
UNITS = {
    "SECONDS": "timestamp_seconds({})",
    "MILLISECONDS": "timestamp_millis({})",
    "MICROSECONDS": "{}",
    "NANOSECONDS": "timestamp_micros({} div 1000)",
}
"""What a whole number counts since 1970, and the time that it is."""
_CLAUSES = ("FROM", "SEQUENCE", "SLACK", "IDLE", "DEAD", "MAX", "TIME", "PUNCTUATION")


@dataclass(frozen=True)
class Time:
    """The column of a stream's time, and the one that is added for it."""

    column: str
    added: tuple[ColumnDefinition, ...] = ()
    unit_given: bool = False


def computed_column(
    cursor: Cursor, name: str, stream: str, before: Sequence[ColumnDefinition]
) -> ColumnDefinition:
    """``c AS (expression)`` over the columns before it that rows bring."""
    bound = bracketed(cursor, name, "write c AS (expression)", stream, before)
    return ColumnDefinition(name, bound.type, bound.nullable, bound)


def bracketed(
    cursor: Cursor, what: str, form: str, stream: str, columns: Sequence[ColumnDefinition]
) -> Expression:
    """``(expression)`` over the columns that rows bring."""
    place = cursor.place
    cursor.expect("(", form)
    start, depth = cursor.position, 1
    while cursor.current and depth:
        depth += {"(": 1, ")": -1}.get(cursor.current.text, 0)
        cursor.position += 1
    if depth:
        raise cursor.error(f"the expression of {what} has no end", "close it with )", place)
    return _bound(cursor, cursor.tokens[start : cursor.position - 1], stream, columns)


def read_time(cursor: Cursor, stream: str, columns: Sequence[ColumnDefinition]) -> Time:
    """``BY column``, ``BY column MILLISECONDS`` or ``BY expression``."""
    cursor.expect("BY", "write TIMESTAMP BY ts")
    start, depth = cursor.position, 0
    names = {column.name.casefold() for column in columns}
    while cursor.current and (depth or cursor.position == start or cursor.word() not in _CLAUSES):
        before = cursor.tokens[cursor.position - 1].text.casefold()
        if cursor.position == start + 1 and before in names and _is_stranger(cursor.word()):
            break  # it stands behind a whole column: no expression, but an unknown clause
        depth += {"(": 1, ")": -1}.get(cursor.current.text, 0)
        cursor.position += 1
    tokens = cursor.tokens[start : cursor.position]
    unit = tokens[-1].text.upper() if len(tokens) > 1 else ""
    if unit in UNITS:
        return _of_unit(cursor, unit, tokens[:-1], stream, columns)
    spellings = {
        column.name.casefold(): column.name for column in columns if column.computed is not None
    }
    if len(tokens) == 1 and tokens[0].text.casefold() in spellings:
        return Time(spellings[tokens[0].text.casefold()])
    bound = _bound(cursor, tokens, stream, columns)
    named = _named(bound, columns)
    return Time(named.name) if named else Time(EVENT_TIME, (_added(cursor, bound, tokens),))


def _is_stranger(word: str) -> bool:
    """Whether a word neither joins expressions nor is a unit."""
    joining = {"AND", "OR", "IS", "IN", "NOT", "LIKE", "BETWEEN", "DIV", "AT", "COLLATE"}
    return word.isalpha() and word not in joining and word not in UNITS


def _of_unit(
    cursor: Cursor,
    unit: str,
    tokens: list[Token],
    stream: str,
    columns: Sequence[ColumnDefinition],
) -> Time:
    bound = _bound(cursor, tokens, stream, columns)
    named = _named(bound, columns)
    if not bound.type.is_integral:
        problem = f"a time of type {bound.type} counts nothing, so it has no unit"
        raise cursor.error(problem, f"leave {unit} out, or use a BIGINT", _span(tokens))
    if unit == "MICROSECONDS" and named is not None and named.type.name == "bigint":
        return Time(named.name, unit_given=True)
    form = "timestamp_micros({})" if unit == "MICROSECONDS" else UNITS[unit]
    text = cursor.source.text[tokens[0].start : tokens[-1].end + 1]
    time = bind_scalar(form.format(f"({text})"), _types(stream, columns))
    return Time(EVENT_TIME, (ColumnDefinition(EVENT_TIME, time.type, False, time),), True)


def _added(cursor: Cursor, bound: Expression, tokens: list[Token]) -> ColumnDefinition:
    if bound.type.name not in TIME_TYPES:
        raise cursor.error(
            f"the time of a row cannot be of type {bound.type}",
            "use a TIMESTAMP, such as timestamp_millis(ms), or BIGINT microseconds",
            _span(tokens),
        )
    return ColumnDefinition(EVENT_TIME, bound.type, False, bound)


def _bound(
    cursor: Cursor, tokens: list[Token], stream: str, columns: Sequence[ColumnDefinition]
) -> Expression:
    if not tokens:
        raise cursor.error("an expression is missing", "write one like timestamp_millis(ms)")
    return bind_tokens(cursor.source, tokens, _types(stream, columns))


def _types(stream: str, columns: Sequence[ColumnDefinition]) -> dict[str, dict[str, DataType]]:
    """Computed columns are not among them: each is computed from what rows bring."""
    return {stream: {column.name: column.type for column in columns if column.computed is None}}


def _named(bound: Expression, columns: Sequence[ColumnDefinition]) -> ColumnDefinition | None:
    """The column, if the expression is nothing else."""
    if not isinstance(bound, Column):
        return None
    return next(column for column in columns if column.name == bound.name)


def _span(tokens: list[Token]) -> TextSpan:
    return TextSpan(tokens[0].start, tokens[-1].end + 1)
