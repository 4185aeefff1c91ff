"""Random queries of the language, each with the SQL an independent engine answers it by.

Idea: every piece is written twice at once, as CQL and as DuckDB SQL over tables that hold the
tuples alive in each window. The parser and the binder take no part, so they can be checked: the
answer of the query at τ is ``sql`` over ``alive_at(…, τ)`` (thesis, Definition 2.1).
Cost: a few microseconds per query; a seeded ``random.Random`` gives the same query always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mayfly.plan.window_kinds import (
    Landmark,
    Now,
    PartitionRows,
    Range,
    RowsWindow,
    Slide,
    Unbounded,
    Window,
    instant_literal,
)
from mayfly.testing.languages import Both, both, joined
from mayfly.testing.neighbour_queries import NEIGHBOURS, NeighbourQueries
from mayfly.testing.query_forms import FORMS, QueryForms, Scope
from mayfly.testing.random_aggregates import (
    further_call,
    grouping_sets,
    stream_order,
    usual_call,
)

SECOND = 1_000_000
DECLARATIONS = """
CREATE STREAM s1 (ts TIMESTAMP, seq BIGINT, k INT, g STRING, v BIGINT, x DOUBLE)
  TIMESTAMP BY ts SEQUENCE seq;
CREATE STREAM s2 (ts TIMESTAMP, seq BIGINT, k BIGINT, g STRING, v BIGINT, x DOUBLE)
  TIMESTAMP BY ts SEQUENCE seq;
CREATE STREAM s3 (ts TIMESTAMP, seq BIGINT, k BIGINT, h STRING, w BIGINT)
  TIMESTAMP BY ts SEQUENCE seq;
"""
"""The streams of all generated queries; s1.k is narrower than the other keys on purpose."""

STREAMS: dict[str, dict[str, str]] = {
    "s1": {"k": "number", "g": "text", "v": "number", "x": "real"},
    "s2": {"k": "number", "g": "text", "v": "number", "x": "real"},
    "s3": {"k": "number", "h": "text", "w": "number"},
}
"""The columns queries use, beside ts and seq."""

SHAPES = (
    *("select", "join", "distinct", "group", "union", "except"),
    *("not_exists", "not_in", "subquery", "windowed_subquery"),
    *("top", "top_subquery", "exists", "in", "sets", "outer"),
    *FORMS,
)


@dataclass(frozen=True)
class WindowTable:
    """A table of the SQL: the rows of a stream that pass ``keep`` and are alive in ``window``."""

    name: str
    stream: str
    window: Window
    keep: Callable[[Mapping[str, Any]], bool] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class GeneratedQuery:
    """A query, its SQL over ``tables``, and the shape it has."""

    cql: str
    sql: str
    tables: tuple[WindowTable, ...]
    shape: str
    views: str = ""
    over_views: str = ""
    """Where it has WITH: the same as statements, and a query of that meaning over them."""


def random_query(rng: Random, shape: str | None = None) -> GeneratedQuery:
    """A valid query of a shape, or of any."""
    chosen = shape or rng.choice(SHAPES)
    maker = _Maker(rng)
    text = maker.query(chosen)
    views = maker.views, maker.over_views
    return GeneratedQuery(text.cql, text.sql, tuple(maker.tables), chosen, *views)


# ── alive tuples ──────────────────────────────────────────────────────────────────────────


def alive_at(
    table: WindowTable, rows: Sequence[Mapping[str, Any]], instant: int
) -> list[Mapping[str, Any]]:
    """The rows of a stream (``ts`` in µs, ``seq`` unique) that the window holds at an instant."""
    window, slide = table.window, table.window.slide
    kept = [row for row in rows if table.keep is None or table.keep(row)]
    if slide is not None and slide.period:
        instant -= (instant - slide.origin) % slide.period
    past = sorted((r for r in kept if r["ts"] <= instant), key=lambda row: (row["ts"], row["seq"]))
    if slide is not None and slide.rows:
        past = past[: len(past) // slide.rows * slide.rows]
        instant = past[-1]["ts"] if past else instant
    match window:
        case Landmark(start=start, until=until):
            return [r for r in past if start <= r["ts"] and (until is None or r["ts"] < until)]
        case RowsWindow(count=count):
            return past[-count:]
        case PartitionRows(partition_by=names, count=count, duration=duration):
            latest = [
                row
                for number, row in enumerate(past)
                if sum(_same(row, later, names) for later in past[number + 1 :]) < count
            ]
            return [r for r in latest if duration is None or instant < r["ts"] + duration]
        case Range() | Now():
            return [row for row in past if instant < row["ts"] + (window.lifetime or 0)]
    return past


def _same(left: Mapping[str, Any], right: Mapping[str, Any], names: Sequence[str]) -> bool:
    return all(left[name] == right[name] for name in names)


# ── the generator ─────────────────────────────────────────────────────────────────────────


class _Maker(QueryForms, NeighbourQueries):
    """Writes one query; aliases are table names of the SQL and differ in the whole query."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.tables: list[WindowTable] = []
        self.slide: Slide | None = None
        if rng.random() < 0.3:
            origin, period = rng.choice((0, 0, 2 * SECOND)), rng.choice((5, 10)) * SECOND
            self.slide = Slide(period=period, origin=origin)

    def query(self, shape: str) -> Both:
        if shape in ("union", "except", "sets"):
            return self._set_operation(shape)
        if shape == "top":
            return self._top()
        if shape in FORMS:
            return self.form(shape)
        if shape in NEIGHBOURS:
            return self.neighbours(shape)
        outputs, rest = self._block(shape)
        distinct = shape == "distinct"
        text = self._outermost(outputs, distinct)
        query = both("SELECT {} {}", text[0], rest)
        return both("{}{}", query, self._ordering(text[1], len(outputs)))

    def _outermost(self, outputs: list[Both], distinct: bool) -> tuple[Both, bool]:
        """The SELECT list, sometimes inside a stream operator; and whether it may be ordered."""
        listed = both("{}{}", "DISTINCT " if distinct else "", joined(", ", outputs))
        operator = self.rng.choice(("", "", "Istream", "Dstream", "Rstream"))
        if not operator:
            return listed, False
        return Both(f"{operator}({listed.cql})", listed.sql), operator == "Rstream"

    def _ordering(self, allowed: bool, columns: int) -> Both:
        if not allowed or self.rng.random() < 0.5:
            return Both("", "")
        places = [str(number) for number in range(1, columns + 1)]
        limit = self.rng.choice(("", " LIMIT 3"))
        cql = f" ORDER BY {', '.join(places)}{limit}"
        return Both(cql, f" ORDER BY {' NULLS FIRST, '.join(places)} NULLS FIRST{limit}")

    def _top(self) -> Both:
        """The first rows of some query, as a view or as its changes."""
        inner = self.rng.choice(("select", "join", "distinct", "group", "not_exists", "union"))
        if inner == "union":
            return both("{}{}", self._set_operation("union", 2), self._limit(2))
        outputs, rest = self._block(inner, real=False)
        word = "DISTINCT " if inner == "distinct" else ""
        selected = both("{}{}", word, joined(", ", outputs))
        if operator := self.rng.choice(("", "", "", "Istream", "Dstream")):
            selected = Both(f"{operator}({selected.cql})", selected.sql)
        return both("SELECT {} {}{}", selected, rest, self._limit(len(outputs)))

    def _limit(self, columns: int) -> Both:
        """ORDER BY and LIMIT; ties go by value, which SQL has to say."""
        cql, sql = [], []
        for number in self.rng.sample(range(columns), self.rng.randint(0, columns)):
            descending, first = self.rng.random() < 0.5, self.rng.choice((None, True, False))
            nulls = not descending if first is None else first
            word = self.rng.choice((" DESC", " desc") if descending else ("", " ASC"))
            written = "" if first is None else f" NULLS {'FIRST' if first else 'LAST'}"
            cql.append(self.rng.choice((f"c{number}", str(number + 1))) + word + written)
            sql.append(f"{number + 1}{word} NULLS {'FIRST' if nulls else 'LAST'}")
        sql += [f"{number + 1} NULLS FIRST" for number in range(columns)]
        limit = f" LIMIT {self.rng.choice((0, 1, 1, 2, 3, 5))}"
        limit += self.rng.choice(("", "", f" OFFSET {self.rng.randint(0, 3)}"))
        order = f" ORDER BY {', '.join(cql)}" if cql else ""
        return Both(f"{order}{limit}", f" ORDER BY {', '.join(sql)}{limit}")

    # ── FROM ──────────────────────────────────────────────────────────────────────────────

    def _source(self, stream: str | None = None) -> tuple[Both, tuple[str, dict[str, str]]]:
        stream = stream or self.rng.choice(list(STREAMS))
        return self._behind(stream, self._window(STREAMS[stream]))

    def _unbounded_source(
        self, stream: str | None = None
    ) -> tuple[Both, tuple[str, dict[str, str]]]:
        self.slide = None
        return self._behind(stream or self.rng.choice(list(STREAMS)), Unbounded())

    def _behind(self, stream: str, window: Window) -> tuple[Both, tuple[str, dict[str, str]]]:
        alias = f"t{len(self.tables) + 1}"
        self.tables.append(WindowTable(alias, stream, window))
        written = "" if window == Unbounded() else f" {_window_text(window, self.rng)}"
        cql = f"{stream}{written} {self.rng.choice(('', 'AS '))}{alias}"
        return Both(cql, alias), (alias, STREAMS[stream])

    def _window(self, columns: dict[str, str], single: bool = False) -> Window:
        seconds = self.rng.choice((1, 5, 10, 60, 3600)) * SECOND
        count = self.rng.randint(1, 6)
        names = tuple(self.rng.sample(sorted(columns), self.rng.randint(1, 2)))
        duration = self.rng.choice((None, seconds))
        start = self.rng.randint(0, 30) * SECOND
        forms: list[Window] = [
            *[Range(duration=seconds, slide=self.slide)] * 5,
            Unbounded(slide=self.slide),
            Now(slide=self.slide),
            *[RowsWindow(count=count, slide=self.slide)] * 2,
            PartitionRows(partition_by=names, count=count, duration=duration, slide=self.slide),
            Landmark(start=start, slide=self.slide),
            Landmark(start=start, until=start + seconds, slide=self.slide),
        ]
        return self.rng.choice(forms)

    def _join(self, count: int, outer: bool = False) -> tuple[Both, Scope, list[Both]]:
        """``count`` sources, and the conditions that join each with an earlier one."""
        sources = [self._source() for _ in range(count)]
        scope = [entry for _, entry in sources]
        conditions: list[Both] = []
        text = sources[0][0]
        for number, (source, entry) in enumerate(sources[1:], start=1):
            condition = self._equality(self.rng.choice(scope[:number]), entry)
            if outer and (number == 1 or self.rng.random() < 0.6):
                word = self.rng.choice(("LEFT", "LEFT OUTER", "RIGHT", "FULL"))
                if word != "FULL" and self.rng.random() < 0.4:
                    side = self.rng.choice([*scope[:number], entry])
                    condition = both("{} AND {}", condition, self._condition([side], 0))
                text = both("{} {} JOIN {} ON {}", text, word, source, condition)
            elif self.rng.random() < 0.5:
                text = both("{} JOIN {} ON {}", text, source, condition)
            else:
                text = both("{} CROSS JOIN {}", text, source)
                conditions.append(condition)
        return text, scope, conditions

    def _equality(
        self, left: tuple[str, dict[str, str]], right: tuple[str, dict[str, str]]
    ) -> Both:
        kind = self.rng.choice(("number", "number", "text"))
        sides = [self._column([entry], kind) for entry in (left, right)]
        self.rng.shuffle(sides)
        return both("{} = {}", *sides)

    # ── blocks ────────────────────────────────────────────────────────────────────────────

    def _block(self, shape: str, real: bool = True) -> tuple[list[Both], Both]:
        """The outputs of a block and everything from FROM on."""
        origin, scope, conditions = self._origin(shape)
        for _ in range(self.rng.randint(0, 2)):
            conditions.append(self._condition(scope))
        if shape in ("not_exists", "not_in", "exists", "in"):
            conditions.append(self._query_condition(shape, scope))
        self.rng.shuffle(conditions)
        where = both(" WHERE {}", joined(" AND ", conditions)) if conditions else Both("", "")
        rest = both("FROM {}{}", origin, where)
        if shape == "group" or (shape.endswith("subquery") and self.rng.random() < 0.3):
            return self._grouped(scope, rest, real)
        outputs = [self._value(scope) for _ in range(self.rng.randint(1, 3))]
        return [both("{} AS c{}", output, str(n)) for n, output in enumerate(outputs)], rest

    def _origin(self, shape: str) -> tuple[Both, Scope, list[Both]]:
        if shape in ("subquery", "top_subquery"):
            return self._derived(top=shape == "top_subquery")
        if shape == "windowed_subquery":
            return self._windowed_subquery()
        most = {"join": 4, "select": 1, "outer": 3}.get(shape, 2)
        least = 2 if shape in ("join", "outer") else 1
        return self._join(self.rng.randint(least, most), outer=shape == "outer")

    def _derived(self, top: bool = False) -> tuple[Both, Scope, list[Both]]:
        """A sub-query without a window of its own, sometimes joined with a stream."""
        inner = self.rng.choice(("select", "join", "distinct", "not_exists", "not_in", "exists"))
        kinds = [self.rng.choice(("number", "text")) for _ in range(2)]
        origin, scope, conditions = self._origin(inner)
        if inner.endswith(("exists", "in")) and inner != "join":
            conditions.append(self._query_condition(inner, scope))
        where = both(" WHERE {}", joined(" AND ", conditions)) if conditions else Both("", "")
        outputs = [both("{} AS c{}", self._value(scope, k), str(n)) for n, k in enumerate(kinds)]
        word = "SELECT DISTINCT" if inner == "distinct" else "SELECT"
        limit = self._limit(len(kinds)) if top else Both("", "")
        query = both("({} {} FROM {}{}{})", word, joined(", ", outputs), origin, where, limit)
        entry = ("q", {f"c{n}": kind for n, kind in enumerate(kinds)})
        text = both("{} q", query)
        if "number" not in kinds or self.rng.random() < 0.6:
            return text, [entry], []
        source, other = self._source()
        condition = both(
            "{} = {}", self._column([entry], "number"), self._column([other], "number")
        )
        return both("{}, {}", text, source), [entry, other], [condition]

    def _windowed_subquery(self) -> tuple[Both, Scope, list[Both]]:
        """A window over a selection of an unbounded stream."""
        stream = self.rng.choice(list(STREAMS))
        columns = STREAMS[stream]
        kept = self.rng.sample(sorted(columns), 3)
        number = next(name for name in sorted(columns) if columns[name] == "number")
        bound = self.rng.randint(0, 4)
        alias = f"t{len(self.tables) + 1}"
        window = self._window({name: columns[name] for name in kept})
        self.tables.append(
            WindowTable(
                alias,
                stream,
                window,
                lambda row: row[number] is not None and row[number] > bound,
            )
        )
        inner = f"(SELECT {', '.join(kept)} FROM {stream} WHERE {number} > {bound})"
        text = Both(f"{inner} {_window_text(window, self.rng)} {alias}", alias)
        return text, [(alias, {name: columns[name] for name in kept})], []

    def _query_condition(self, shape: str, scope: Scope) -> Both:
        """[NOT] EXISTS or [NOT] IN."""
        word = shape.replace("_", " ").upper()
        source, entry = self._source()
        conditions = [self._condition([entry])] if self.rng.random() < 0.5 else []
        if shape.endswith("in"):
            kind = self.rng.choice(("number", "text"))
            where = both(" WHERE {}", conditions[0]) if conditions else Both("", "")
            sides = self._column(scope, kind), self._column([entry], kind)
            return both("{} {} (SELECT {} FROM {}{})", sides[0], word, sides[1], source, where)
        conditions.append(self._equality(self.rng.choice(scope), entry))
        if self.rng.random() < 0.4:
            pair = self._column(scope, "number"), self._column([entry], "number")
            conditions.append(both("{} < {}", *pair))
        where = joined(" AND ", conditions)
        return both("{} (SELECT * FROM {} WHERE {})", word, source, where)

    def _grouped(self, scope: Scope, rest: Both, real: bool = True) -> tuple[list[Both], Both]:
        keys = [self._column(scope) for _ in range(self.rng.randint(0, 2))]
        calls = [self._aggregate(scope, real) for _ in range(self.rng.randint(1, 3))]
        group = both(" GROUP BY {}", joined(", ", keys)) if keys else Both("", "")
        if keys and self.rng.random() < 0.25:
            group = both(grouping_sets(self.rng, [key.cql for key in keys]))
            calls.append(both("GROUPING({})", keys[0]))
        having = Both("", "")
        if self.rng.random() < 0.4:
            having = both(" HAVING {} > {}", self._aggregate(scope, real=False), "1")
        outputs = [both("{} AS c{}", output, str(n)) for n, output in enumerate((*keys, *calls))]
        return outputs, both("{}{}{}", rest, group, having)

    def _set_operation(self, shape: str, columns: int | None = None) -> Both:
        word = {"union": "UNION ALL", "except": "EXCEPT ALL"}.get(shape) or self.rng.choice(
            ("UNION", "EXCEPT", "INTERSECT", "INTERSECT ALL")
        )
        columns = columns or self.rng.randint(1, 2)
        kinds = [self.rng.choice(("number", "text")) for _ in range(columns)]
        parts = []
        for _ in range(self.rng.randint(2, 3)):
            origin, scope, conditions = self._origin(self.rng.choice(("select", "join")))
            outputs = [self._value(scope, kind) for kind in kinds]
            named = [both("{} AS c{}", output, str(n)) for n, output in enumerate(outputs)]
            where = both(" WHERE {}", joined(" AND ", conditions)) if conditions else Both("", "")
            parts.append(both("SELECT {} FROM {}{}", joined(", ", named), origin, where))
        return joined(f" {word} ", parts)

    # ── expressions ───────────────────────────────────────────────────────────────────────

    def _column(self, scope: Scope, kind: str | None = None) -> Both:
        choices = [
            f"{alias}.{name}"
            for alias, columns in scope
            for name, own in columns.items()
            if kind in (None, own)
        ]
        written = self.rng.choice(choices) if choices else {"text": "'a'"}.get(kind or "", "1")
        return Both(written, written)

    def _value(self, scope: Scope, kind: str | None = None) -> Both:
        kind = kind or self.rng.choice(("number", "text"))
        return self._number(scope, 2) if kind == "number" else self._text(scope)

    def _number(self, scope: Scope, depth: int) -> Both:
        if depth == 0 or self.rng.random() < 0.4:
            constant = str(self.rng.randint(-3, 9))
            column = self._column(scope, "number")
            return self.rng.choice((column, column, Both(constant, constant)))
        inner, other = self._number(scope, depth - 1), self._number(scope, depth - 1)
        choices = (
            both("({} {} {})", inner, self.rng.choice("+-*"), other),
            both("abs({})", inner),
            both("coalesce({}, {})", inner, other),
            both("({} % 3)", inner),
            both("CASE WHEN {} THEN {} ELSE {} END", self._condition(scope, 0), inner, other),
            both("length({})", self._text(scope)),
        )
        return self.rng.choice(choices)

    def _text(self, scope: Scope) -> Both:
        column = self._column(scope, "text")
        choices = (column, column, both("upper({})", column), both("({} || 'z')", column))
        return self.rng.choice(choices)

    def _condition(self, scope: Scope, depth: int = 2) -> Both:
        if depth > 0 and self.rng.random() < 0.4:
            inner, other = self._condition(scope, depth - 1), self._condition(scope, depth - 1)
            word = self.rng.choice(("AND", "OR"))
            return self.rng.choice(
                (both("({} {} {})", inner, word, other), both("NOT ({})", inner))
            )
        number, text = self._number(scope, 0), self._column(scope, "text")
        op = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        no = self.rng.choice(("", "", "NOT "))
        choices = (
            both("{} {} {}", number, op, self._number(scope, min(depth, 1))),
            both("{} IS {}NULL", number, no),
            both("{} {}BETWEEN {} AND {}", number, no, "-1", "4"),
            both("{} {}IN (1, 2, {})", number, no, self._number(scope, 0)),
            both("{} {} 'b'", text, op),
            both("{} {}LIKE '%a%'", text, no),
        )
        return self.rng.choice(choices)

    def _aggregate(self, scope: Scope, real: bool = True) -> Both:
        number, text = self._column(scope, "number").cql, self._column(scope, "text").cql
        where = self._condition(scope, 1).pair if self.rng.random() < 0.25 else None
        if not real or self.rng.random() < 0.5:
            return Both(*usual_call(self.rng, number, text, where, real))
        streams = [table.name for table in self.tables if table.keep is None]
        order = stream_order([alias for alias, _ in scope if alias in streams])
        condition = self._condition(scope, 1).pair
        return Both(*further_call(self.rng, number, text, condition, where, order))


def _window_text(window: Window, rng: Random) -> str:
    """A window as a person may write it; the units vary."""
    parts = [_extent_text(window, rng)]
    if window.slide is not None:
        parts.append(f"SLIDE {_duration_text(window.slide.period or 0, rng)}")
        if window.slide.origin:
            parts.append(f"ORIGIN '{instant_literal(window.slide.origin)}'")
    return f"[{' '.join(parts)}]"


def _extent_text(window: Window, rng: Random) -> str:
    match window:
        case Range(duration=duration):
            return f"RANGE {_duration_text(duration, rng)}"
        case RowsWindow(count=count):
            return f"ROWS {count}"
        case Now():
            return "NOW"
        case PartitionRows(partition_by=names, count=count, duration=duration):
            bound = f" RANGE {_duration_text(duration, rng)}" if duration else ""
            return f"PARTITION BY {', '.join(names)} ROWS {count}{bound}"
        case Landmark(start=start, until=until):
            end = f" UNTIL '{instant_literal(until)}'" if until else ""
            return f"LANDMARK '{instant_literal(start)}'{end}"
    return "UNBOUNDED"


def _duration_text(duration: int, rng: Random) -> str:
    units = {60 * SECOND: ("MIN", "minutes", "m"), SECOND: ("SECONDS", "sec", "s"), 1000: ("ms",)}
    fitting = [unit for unit in units if duration % unit == 0]
    unit = rng.choice(fitting)
    return f"{duration // unit} {rng.choice(units[unit])}"
