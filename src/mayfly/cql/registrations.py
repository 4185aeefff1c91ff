"""Reads CREATE QUERY, VIEW, ARCHIVE and AGGREGATE, and derived streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mayfly.cql.binder import bind_tokens, written_out
from mayfly.cql.messages import TextSpan, suggestion
from mayfly.cql.restrictions import kind_of
from mayfly.cql.serve_clause import read_serve_clause
from mayfly.cql.stream_declarations import (
    placed,
    read_clauses,
    read_connector,
    read_dead_letters,
    read_gap,
    read_type,
)
from mayfly.cql.tokens import Cursor
from mayfly.cql.users_calls import check_aggregate_name
from mayfly.errors import InvalidSetting
from mayfly.patterns import Kind
from mayfly.plan.catalog import (
    ArchiveDefinition,
    Catalog,
    LayoutChoice,
    QueryDefinition,
    ViewDefinition,
)
from mayfly.plan.logical_operators import Output, OutputKind
from mayfly.plan.serving_terms import ServeClause
from mayfly.plan.types import DataType
from mayfly.plan.user_aggregates import AggregateDefinition

LAYOUTS = {
    "AUTO": 0,
    **dict.fromkeys(("DEL", "REINDEX", "REINDEX+", "REINDEX++", "WATA", "RATA"), 1),
    **dict.fromkeys(("CHRONOLOGICAL", "ROUND_ROBIN", "LAZY", "COUNT", "RANDOM"), 2),
    **dict.fromkeys(("INSERTION", "EXPIRATION"), 1),
}
"""Every layout and how many sizes it takes: constituents, or G and E."""
TECHNIQUES = ("IN PLACE", "SIMPLE SHADOW", "PACKED SHADOW", "REBUILD", "NO REBUILD")


def read_query(cursor: Cursor, catalog: Catalog) -> QueryDefinition:
    """``name [TO format('path')] [SERVE …] AS SELECT …``"""
    name = cursor.name("the name of the query")
    clauses: dict[str, Callable[[Cursor], Any]] = {"TO": read_connector, "SERVE": read_serve_clause}
    options = read_clauses(cursor, clauses, "CREATE QUERY")
    serve = options.get("SERVE")
    plan, text = _select(cursor, catalog, "CREATE QUERY name AS SELECT …", serve)
    return QueryDefinition(name, plan, text, options.get("TO"))


def read_view(cursor: Cursor, catalog: Catalog) -> ViewDefinition:
    """``name AS SELECT …``"""
    place = cursor.place
    name = cursor.name("the name of the view")
    if cursor.word() == "(":
        raise cursor.error(
            "a view has no list of columns", "name them in its query: SELECT a AS x, b AS y"
        )
    plan, text = _select(cursor, catalog, "CREATE VIEW name AS SELECT …")
    try:
        return view_of(name, plan, text)
    except InvalidSetting as error:
        raise cursor.error(error.message, error.hint, place) from None


def derived_stream_of(name: str, plan: Output, text: str) -> ViewDefinition:
    """A derived stream of a bound query."""
    if plan.kind is OutputKind.VIEW:
        raise InvalidSetting(
            f"the stream {name} needs Istream, Dstream or Rstream: an answer is not a stream",
            f"write CREATE STREAM {name} AS SELECT Istream(…) FROM …, or CREATE VIEW {name} AS …",
        )
    return ViewDefinition(name, plan, text)


def read_derived_stream(cursor: Cursor, catalog: Catalog) -> ViewDefinition:
    """``name AS SELECT Istream(…) …``"""
    place = cursor.place
    name = cursor.name("the name of the stream")
    plan, text = _select(cursor, catalog, "CREATE STREAM name AS SELECT Istream(…) …")
    try:
        return derived_stream_of(name, plan, text)
    except InvalidSetting as error:
        raise cursor.error(error.message, error.hint, place) from None


def view_of(name: str, plan: Output, text: str) -> ViewDefinition:
    """A view of a bound query."""
    if plan.kind is not OutputKind.VIEW or plan.isolation:
        word = plan.kind.value if plan.kind is not OutputKind.VIEW else "ISOLATION"
        raise InvalidSetting(
            f"a view has no {word} of its own",
            "write CREATE QUERY name AS …: a view is a part of the queries that read it",
        )
    return ViewDefinition(name, plan, text)


def _select(
    cursor: Cursor, catalog: Catalog, form: str, serve: ServeClause | None = None
) -> tuple[Output, str]:
    cursor.expect("AS", f"write {form}")
    tokens = cursor.tokens[cursor.position :]
    if not tokens:
        raise cursor.error("expected SELECT, found the end", f"write {form}")
    plan = bind_tokens(cursor.source, tokens, catalog, one_time=False, serve=serve)
    text = cursor.source.text[tokens[0].start : tokens[-1].end + 1]
    cursor.position = len(cursor.tokens)
    text = written_out(text, plan, catalog)
    return plan, text if serve is None else f"{serve.cql()} AS {text}"


def read_archive(cursor: Cursor, catalog: Catalog) -> ArchiveDefinition:
    """``name KEY a REFRESH d [LAYOUT l] [HARD | SOFT(k)] [PHYSICAL WITHIN d] [MAX GAP d]
    [DEAD LETTERS TO parquet(…)] AS SELECT …``"""
    start = cursor.place
    name = cursor.name("the name of the archive")
    clauses: dict[str, Callable[[Cursor], Any]] = {
        "KEY": _key,
        "REFRESH": lambda c: c.duration("the time between updates", "write REFRESH 1 DAY"),
        "LAYOUT": _layout,
        "HARD": lambda c: 0,
        "SOFT": _soft,
        "PHYSICAL": _physical,
        "MAX LIFETIME": _max_lifetime,
        "MAX GAP": read_gap,
        "DEAD": read_dead_letters,
    }
    options = read_clauses(cursor, clauses, "CREATE ARCHIVE")
    for clause, form in (("KEY", "KEY customer"), ("REFRESH", "REFRESH 1 DAY")):
        if clause not in options:
            raise cursor.error(f"the archive {name} has no {clause}", f"write {form}", start)
    if "HARD" in options and "SOFT" in options:
        raise cursor.error(f"the archive {name} is HARD and SOFT", "keep one of them", start)
    plan, text = _select(cursor, catalog, "CREATE ARCHIVE name KEY … REFRESH … AS SELECT …")
    _check_rows(cursor, start, plan, options.get("MAX LIFETIME"))
    return ArchiveDefinition(
        name,
        plan,
        text,
        key=_output_columns(cursor, plan, options["KEY"]),
        refresh=options["REFRESH"],
        layout=options.get("LAYOUT", LayoutChoice("AUTO")),
        soft=options.get("SOFT", 0),
        physical_within=options.get("PHYSICAL"),
        max_lifetime=options.get("MAX LIFETIME"),
        max_gap=options.get("MAX GAP"),
        dead_letters=options.get("DEAD"),
    )


def _key(cursor: Cursor) -> list[tuple[str, TextSpan]]:
    wrapped = cursor.take("(")
    key_columns = [_key_column(cursor)]
    while cursor.take(","):
        key_columns.append(_key_column(cursor))
    if wrapped:
        cursor.expect(")", "close the list of key columns")
    return key_columns


def _key_column(cursor: Cursor) -> tuple[str, TextSpan]:
    place = cursor.place
    return cursor.name("a key column"), place


def _output_columns(
    cursor: Cursor, plan: Output, references: list[tuple[str, TextSpan]]
) -> tuple[str, ...]:
    names: list[str] = []
    for name, span in references:
        column = next((c for c in plan.schema if c.name.casefold() == name.casefold()), None)
        if column is None:
            hint = suggestion(name, [c.name for c in plan.schema], "output columns")
            raise cursor.error(f"the query has no output column {name}", hint, span)
        kind = column.type.fields[0][1] if column.type.name == "array" else column.type
        if not kind.is_comparable:
            problem = f"{name} has type {column.type}, which cannot be searched"
            raise cursor.error(problem, "use a comparable column, or an array of such", span)
        names.append(column.name)
    return tuple(names)


def _check_rows(cursor: Cursor, span: TextSpan, plan: Output, max_lifetime: int | None) -> None:
    if plan.kind is not OutputKind.VIEW:
        hint = "write the SELECT list without it: an archive keeps rows with their lifetimes"
        raise cursor.error(f"an archive cannot keep {plan.kind.value}", hint, span)
    if max_lifetime is None and kind_of(plan.child) is Kind.MON:
        hint = "put a window on the stream, or say MAX LIFETIME 90 DAYS"
        raise cursor.error("the rows of this archive would never expire", hint, span)


def _layout(cursor: Cursor) -> LayoutChoice:
    place = cursor.place
    name = cursor.name("a layout").upper()
    while cursor.word() == "+":
        cursor.position += 1
        name += "+"
    if name not in LAYOUTS:
        problem = f"there is no layout {name}"
        raise cursor.error(problem, suggestion(name, LAYOUTS, "layouts"), place)
    sizes = _sizes(cursor)
    if sizes and len(sizes) != LAYOUTS[name]:
        form = f"{name}({', '.join(['4'] * LAYOUTS[name])})" if LAYOUTS[name] else name
        raise cursor.error(f"{name} does not take {len(sizes)} sizes", f"write {form}", place)
    return LayoutChoice(name, sizes, _technique(cursor))


def _sizes(cursor: Cursor) -> tuple[int, ...]:
    if not cursor.take("("):
        return ()
    sizes = [cursor.count("a number of sub-indices")]
    while cursor.take(","):
        sizes.append(cursor.count("a number of sub-indices"))
    cursor.expect(")", "close the list of sizes")
    return tuple(sizes)


def _technique(cursor: Cursor) -> str | None:
    if not cursor.take("USING"):
        return None
    for technique in TECHNIQUES:
        if cursor.take(*technique.split()):
            return technique
    hint = f"allowed: {', '.join(TECHNIQUES)}"
    raise cursor.error(f"there is no update technique {cursor.shown}", hint)


def _soft(cursor: Cursor) -> int:
    cursor.expect("(", "write SOFT(k): dead rows may stay for k updates")
    updates = cursor.count("a number of updates")
    cursor.expect(")", "write SOFT(k)")
    return updates


def _physical(cursor: Cursor) -> int:
    cursor.expect("WITHIN", "write PHYSICAL WITHIN 1 DAY")
    return cursor.duration("the time until bytes are removed", "write PHYSICAL WITHIN 1 DAY")


def _max_lifetime(cursor: Cursor) -> int:
    return cursor.duration("the longest lifetime", "write MAX LIFETIME 90 DAYS")


# ── aggregates of users ───────────────────────────────────────────────────────────────────

_AGGREGATE = "write CREATE AGGREGATE name (x DOUBLE) RETURNS DOUBLE FROM python('module:Class')"


def read_aggregate(cursor: Cursor) -> AggregateDefinition:
    """``name (x DOUBLE, y DOUBLE) RETURNS DOUBLE FROM python('module:Class')``"""
    start = cursor.place
    name = cursor.name("the name of the aggregate")
    cursor.expect("(", _AGGREGATE)
    if cursor.word() == ")":
        raise cursor.error(f"the aggregate {name} takes no values", _AGGREGATE)
    takes = [_typed(cursor)]
    while cursor.take(","):
        takes.append(_typed(cursor))
    cursor.expect(")", _AGGREGATE)
    cursor.expect("RETURNS", _AGGREGATE)
    gives = read_type(cursor, name)
    cursor.expect("FROM", _AGGREGATE)
    place = cursor.place
    source = read_connector(cursor)
    if source.format != "python" or source.options:
        raise cursor.error("an aggregate is a class written in Python", _AGGREGATE, place)
    origin = str(source.path)
    placed(cursor, start, lambda: check_aggregate_name(name))
    return placed(cursor, start, lambda: AggregateDefinition(name, tuple(takes), gives, origin))


def _typed(cursor: Cursor) -> DataType:
    name = cursor.name("an argument")
    return read_type(cursor, name)
