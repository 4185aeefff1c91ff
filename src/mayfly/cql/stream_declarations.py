"""Reads CREATE STREAM, CREATE RELATION and CREATE NRR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mayfly.cql.computed_columns import Time, bracketed, computed_column, read_time
from mayfly.cql.messages import TextSpan, error_at, suggestion
from mayfly.cql.tokens import Cursor
from mayfly.errors import InvalidSetting
from mayfly.lifetime import NEVER
from mayfly.plan.catalog import (
    ColumnDefinition,
    Connector,
    Idle,
    Punctuation,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.types import BOOLEAN, DataType, parse_type

T = TypeVar("T")
FORMATS = (
    "parquet", "json", "csv", "orc", "avro", "text", "kafka", "rate", "socket", "delta", "python",
    "memory", "console",
)  # fmt: skip
"""Sources and sinks Spark reads and writes; any other word is taken for a typing mistake."""


def read_stream(cursor: Cursor) -> StreamDefinition:
    """``name (columns) FROM … TIMESTAMP BY … SEQUENCE … SLACK … IDLE … PUNCTUATION … KEEP …``"""
    start = cursor.place
    name = cursor.name("the name of the stream")
    columns = _columns(cursor, name)
    clauses: dict[str, Callable[[Cursor], Any]] = {
        "FROM": read_connector,
        "TIMESTAMP": lambda c: read_time(c, name, columns),
        "SEQUENCE": lambda c: _sequence(c, columns),
        "SLACK": lambda c: c.duration("the slack", "write SLACK 2 SECONDS", zero=True),
        "IDLE": _idle,
        "PUNCTUATION": lambda c: _punctuation(c, name, columns),
        "DEAD": read_dead_letters,
        "MAX GAP": read_gap,
        "TIME": _zone,
        "KEEP": lambda c: c.duration("the time that rows are kept", "write KEEP 1 HOUR"),
    }
    options = read_clauses(cursor, clauses, "CREATE STREAM")
    if "TIMESTAMP" not in options:
        hint = "every stream has a time column: TIMESTAMP BY ts"
        raise cursor.error(f"the stream {name} has no TIMESTAMP BY", hint, start)
    idle, delay = options.get("IDLE", (Idle.NONE, 0))
    time: Time = options["TIMESTAMP"]
    return placed(
        cursor,
        start,
        lambda: StreamDefinition(
            name,
            (*columns, *time.added),
            time.column,
            options.get("SEQUENCE", ()),
            options.get("SLACK", 0),
            idle,
            delay,
            options.get("FROM"),
            options.get("DEAD"),
            options.get("MAX GAP"),
            time.unit_given,
            options.get("TIME"),
            options.get("KEEP"),
            options.get("PUNCTUATION"),
        ),
    )


def read_relation(cursor: Cursor, retroactive: bool) -> RelationDefinition:
    """``name (columns) KEY a, b FROM …``"""
    start = cursor.place
    what = "relation" if retroactive else "NRR"
    name = cursor.name(f"the name of the {what}")
    columns = _columns(cursor)
    if any(column.computed is not None for column in columns):
        raise cursor.error(f"{name} is a {what}: its columns are stored, not computed", "type them")
    clauses: dict[str, Callable[[Cursor], Any]] = {
        "KEY": lambda c: _declared(c, columns, "a key column"),
        "FROM": read_connector,
    }
    options = read_clauses(cursor, clauses, f"CREATE {what.upper()}")
    key = options.get("KEY", ())
    required = tuple(
        ColumnDefinition(column.name, column.type, column.nullable and column.name not in key)
        for column in columns
    )
    return placed(
        cursor,
        start,
        lambda: RelationDefinition(name, required, key, retroactive, options.get("FROM")),
    )


def placed(cursor: Cursor, span: TextSpan, make: Callable[[], T]) -> T:
    """What ``make`` gives; its refusals point at the place."""
    try:
        return make()
    except InvalidSetting as error:
        raise error_at(cursor.source, span, error.message, error.hint) from None


def read_clauses(
    cursor: Cursor, clauses: dict[str, Callable[[Cursor], Any]], what: str
) -> dict[str, Any]:
    """Clauses in any order, each at most once, until the end or AS; their names have one word or
    more."""
    options: dict[str, Any] = {}
    while cursor.current and cursor.word() != "AS":
        place = cursor.place
        word = next((clause for clause in clauses if cursor.take(*clause.split())), None)
        if word is None:
            query = ["AS"] if what in ("CREATE QUERY", "CREATE ARCHIVE") else []
            cursor.finish(what, [*(clause for clause in clauses if clause not in options), *query])
            break
        if word in options:
            raise cursor.error(f"{word} is given twice", "keep one of them", place)
        options[word] = clauses[word](cursor)
    return options


# ── columns ───────────────────────────────────────────────────────────────────────────────


def _columns(cursor: Cursor, stream: str = "") -> tuple[ColumnDefinition, ...]:
    cursor.expect("(", "declare the columns: (ts TIMESTAMP, src STRING, bytes BIGINT)")
    columns = [_column(cursor, stream, ())]
    while cursor.take(","):
        columns.append(_column(cursor, stream, columns))
    if not cursor.take(")"):
        hint = "columns are separated by commas and end with )"
        raise cursor.error(f"expected , or ), found {cursor.shown}", hint)
    return tuple(columns)


def _column(cursor: Cursor, stream: str, before: Sequence[ColumnDefinition]) -> ColumnDefinition:
    name = cursor.name("a column")
    if cursor.take("AS"):
        return computed_column(cursor, name, stream, before)
    kind = read_type(cursor, name)
    required = cursor.take("NOT")
    if required:
        cursor.expect("NULL", "write NOT NULL")
    return ColumnDefinition(name, kind, not required)


def read_type(cursor: Cursor, column: str) -> DataType:
    """The tokens of a type: up to a comma, a closing parenthesis, NOT or FROM outside brackets."""
    start, depth = cursor.place.start, 0
    end = start
    while cursor.current:
        text = cursor.current.text
        if depth == 0 and (text in (",", ")") or cursor.word() in ("NOT", "FROM")):
            break
        depth += text.count("<") + text.count("(") - text.count(">") - text.count(")")
        end = cursor.place.end
        cursor.position += 1
    written = cursor.source.text[start:end]
    if not written:
        hint = "write its type after the name, like src STRING"
        raise cursor.error(f"the column {column} has no type", hint)
    return placed(cursor, TextSpan(start, end), lambda: parse_type(written))


def _declared(cursor: Cursor, columns: tuple[ColumnDefinition, ...], what: str) -> tuple[str, ...]:
    """A list of declared columns, with or without parentheses, as they are declared."""
    wrapped = cursor.take("(")
    names = [_one_declared(cursor, columns, what)]
    while cursor.take(","):
        names.append(_one_declared(cursor, columns, what))
    if wrapped:
        cursor.expect(")", "close the list")
    return tuple(names)


def _one_declared(cursor: Cursor, columns: tuple[ColumnDefinition, ...], what: str) -> str:
    place = cursor.place
    name = cursor.name(what)
    for column in columns:
        if column.name.casefold() == name.casefold():
            return column.name
    names = [column.name for column in columns]
    raise cursor.error(f"there is no column {name}", suggestion(name, names, "columns"), place)


# ── clauses of a stream ───────────────────────────────────────────────────────────────────


def _sequence(cursor: Cursor, columns: tuple[ColumnDefinition, ...]) -> tuple[str, ...]:
    cursor.take("BY")
    return _declared(cursor, columns, "a column that orders rows of one instant")


def _idle(cursor: Cursor) -> tuple[Idle, int]:
    forms = "write IDLE NONE, IDLE WALL CLOCK MINUS 5 SECONDS or IDLE PUNCTUATIONS"
    if cursor.take("NONE"):
        return Idle.NONE, 0
    if cursor.take("PUNCTUATIONS"):
        return Idle.PUNCTUATIONS, 0
    if cursor.take("WALL", "CLOCK"):
        cursor.expect("MINUS", forms)
        return Idle.WALL_CLOCK, cursor.duration("the delay", forms)
    raise cursor.error(f"expected what moves an idle stream, found {cursor.shown}", forms)


def _punctuation(cursor: Cursor, stream: str, columns: tuple[ColumnDefinition, ...]) -> Punctuation:
    """``(k) WHEN (condition)``"""
    form = "write PUNCTUATION (k) WHEN (condition)"
    keys = _declared(cursor, columns, "a column of the key")
    cursor.expect("WHEN", form)
    place = cursor.place
    condition = bracketed(cursor, "WHEN", form, stream, columns)
    if condition.type != BOOLEAN:
        problem = f"WHEN is followed by a value of type {condition.type}"
        raise cursor.error(problem, "write a condition, such as kind = 'end'", place)
    return Punctuation(tuple(dict.fromkeys(keys)), condition)


def _zone(cursor: Cursor) -> str:
    cursor.expect("ZONE", "write TIME ZONE 'Europe/Berlin'")
    return cursor.string("the name of a time zone")


def read_gap(cursor: Cursor) -> int:
    form = "write MAX GAP 1 DAY, or MAX GAP NONE"
    return NEVER if cursor.take("NONE") else cursor.duration("the gap", form)


def read_dead_letters(cursor: Cursor) -> Connector:
    hint = "write DEAD LETTERS TO parquet('late/')"
    if not cursor.take("LETTERS"):
        cursor.expect("LETTER", hint)
    cursor.expect("TO", hint)
    return read_connector(cursor)


def read_connector(cursor: Cursor) -> Connector:
    """``format('path', option => 'value', …)``; the parentheses may be missing."""
    place = cursor.place
    name = cursor.name("a format such as parquet('in/')").lower()
    if name not in FORMATS:
        problem = f"there is no format {name}"
        raise cursor.error(problem, suggestion(name, FORMATS, "formats"), place)
    path: str | None = None
    options: dict[str, str] = {}
    if cursor.take("("):
        while cursor.current and cursor.word() != ")":
            if _is_string(cursor) and path is None and not options:
                path = cursor.string("a path")
            else:
                _take_option(cursor, options)
            if not cursor.take(","):
                break
        cursor.expect(")", "write format('path', option => 'value')")
    if name == "python" and path is None:
        raise cursor.error("python needs a class", "write python('module:Class')", place)
    if name in ("parquet", "json", "csv", "orc", "avro", "text", "delta") and path is None:
        raise cursor.error(f"{name} needs a path", f"write {name}('folder/')", place)
    return Connector(name, path, tuple(options.items()))


def _is_string(cursor: Cursor) -> bool:
    token = cursor.current
    return token is not None and token.token_type.name == "STRING"


def _take_option(cursor: Cursor, options: dict[str, str]) -> None:
    place = cursor.place
    name = cursor.name("an option")
    if not (cursor.take("=>") or cursor.take("=")):
        raise cursor.error(f"the option {name} has no value", "write option => 'value'", place)
    if name in options:
        raise cursor.error(f"the option {name} is given twice", "keep one of them", place)
    options[name] = cursor.string("the option's value")
