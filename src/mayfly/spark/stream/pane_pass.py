"""Partial values of panes made by Spark SQL: rows that only panes need never leave the JVM.

Idea: one aggregation of a batch serves all queries of its stream. Rows are grouped by the keys of
each query (GROUPING SETS where these differ) and by pane, cut at every edge that one of them uses;
equal numbers are computed once. Predicates are FILTER clauses. Where there are many, rows
are marked with those that they satisfy, a bit each, and grouped by these marks as well. What comes
to Python, a row for each key, pane and marks, is merged to the panes of each query and counted
(pane_split.py).
For queries that ask which values there are (value_spans.py) it is the first and last time of each.
Invariant: only what ``pushes`` (means the same in every session, cannot fail) is given to Spark.
For queries that need more, and those that need rows, these are read once more: the ones that such a
query may select cross, with the columns it reads. They are counted in the aggregation alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain

from pyspark.sql import DataFrame

from mayfly.kernels.count_min_sketch import CONFIDENCE, SEED, SHARE
from mayfly.kernels.delta import column_name
from mayfly.kernels.pane_edges import FAR, edges
from mayfly.kernels.pane_partials import PaneNumber
from mayfly.kernels.pane_sketches import SKETCHES
from mayfly.kernels.value_sketches import TEXT
from mayfly.kernels.value_spans import ValueSpans
from mayfly.lifetime import MIN_TIME
from mayfly.physical.stages import Feed
from mayfly.plan.expressions import Column, Expression, conjunction
from mayfly.plan.pane_functions import (
    COUNT,
    COUNT_MIN,
    HLL,
    ITEMS,
    KLL,
    MAX,
    MIN,
    MOMENTS,
    ROWS,
    SUM,
)
from mayfly.plan.stream_joins import Stream
from mayfly.plan.window_kinds import Range
from mayfly.runtime.max_gap import Limits
from mayfly.spark.stream.arrivals import left_out, promise, unwanted
from mayfly.spark.stream.pushdown import pushes
from mayfly.spark.stream.slots import STREAM
from mayfly.storage import TS

KIND, SET, NUMBER, LEAST, LARGEST = "_kind", "_set", "_rows", "_least", "_largest"
MANY_SETS, FEEDS_A_SET = 3, 2
"""From so many sets on rows cross, unless there are more feeds than so many a set."""
FILTERS = 8
"""More predicates than so many are marks, each computed once a row, and no clauses of numbers."""
WORD = 63
"""Predicates whose bits are in one column."""
_KEYS = ("date", "timestamp", "decimal")
"""Types of columns that may be keys and arguments beside those that ``pushes`` knows."""


@dataclass(frozen=True)
class Number:
    """A content of panes in columns of the aggregation: whole, or ``high`` times 2^32 beside it, or
    a count with the mean and variance of so many values (``spread``)."""

    low: str
    high: str | None = None
    spread: tuple[str, str] | None = None


@dataclass(frozen=True)
class PaneFeed:
    """What a feed takes from the aggregation."""

    number: int
    feed: Feed
    set: int
    keys: tuple[str, ...]
    """Columns of its keys and values."""
    numbers: tuple[Number, ...]
    rows: str
    """The column that says how many rows its predicate lets through."""
    mark: tuple[str, int] | None = None
    """The column and the bit of its predicate, if rows are marked."""

    @property
    def columns(self) -> list[str]:
        """What it reads of a group."""
        numbers = [
            name
            for number in self.numbers
            for name in (number.low, number.high, *(number.spread or ()))
            if name is not None
        ]
        return list(dict.fromkeys([*self.keys, *numbers, LARGEST]))


@dataclass(frozen=True)
class PanePass:
    """The aggregation of one stream's rows for all its feeds."""

    keys: tuple[str, ...]
    """Expressions over slots, named ``_k0``, ``_k1`` …"""
    panes: tuple[str, ...]
    """One for each set: ``_p0``, ``_p1`` …"""
    sets: tuple[tuple[int, ...], ...]
    """Of each set, which keys."""
    numbers: tuple[str, ...]
    """Aggregates, named ``_n0``, ``_n1`` …"""
    feeds: tuple[PaneFeed, ...]
    stream: int = 0
    """Which of the streams."""
    rest: tuple[int, ...] = ()
    """The numbers of the stream's other feeds, which need rows."""
    predicates: tuple[tuple[str, ...], ...] = ()
    """Of each set, those of its feeds."""
    marks_rows: bool = False
    """Whether rows are marked with the predicates that they satisfy."""

    @staticmethod
    def of(
        feeds: Sequence[Feed], streams: Sequence[Stream], slots: Sequence[Mapping[str, str]]
    ) -> tuple[PanePass, ...]:
        """Of every stream with feeds that take panes."""
        passes = []
        for index, stream in enumerate(streams):
            own = {n: feed for n, feed in enumerate(feeds) if feed.source.stream == stream.name}
            columns = {column: slot for slot, column in slots[index].items()}
            if own and stream.dead_letter is None:
                made = _Making(columns, stream.max_gap).result(own)
                if made is None or made.is_dear:
                    continue
                if len(set(chain(*made.predicates))) > FILTERS:
                    made = _Making(columns, stream.max_gap, marks_rows=True).result(own)
                passes += [] if made is None else [replace(made, stream=index)]
        return tuple(passes)

    @property
    def is_dear(self) -> bool:
        """Whether it costs less to let rows cross, once for all sets, and to merge them there.

        Spark multiplies the rows by the sets and looks each up in one large table: of 500,000 rows
        with six sets, 0.9 s of CPU time against 0.4 s (docs/decisions).
        """
        few = len(self.sets) < MANY_SETS or len(self.feeds) > FEEDS_A_SET * len(self.sets)
        return not few and not self.rest and all(map(_merges_fast, self.feeds))

    @property
    def tags(self) -> tuple[int, ...]:
        """Those of the stream's rows."""
        number = self.stream
        return number, left_out(number), promise(number), unwanted(number)

    def aggregated(self, rows: DataFrame, limits: Limits) -> DataFrame:
        """One row for each key, pane and kind of row."""
        # One text: Spark analyses a plan anew at each call that adds to it.
        view = f"mayfly_rows_of_{self.stream}"
        rows.createOrReplaceTempView(view)
        return rows.sparkSession.sql(self._query(view, limits))

    def _query(self, view: str, limits: Limits) -> str:
        # As numbers the limits would be compiled anew with every batch. An array is handed to what
        # was compiled before, as long as the place in it is not known ahead of the rows.
        late, beyond = max(limits.late, MIN_TIME + 1), limits.beyond
        place = f"pmod({STREAM}, 1)"
        late_now, beyond_now = (f"array({late}L, {beyond}L)[{place} + {n}]" for n in (0, 1))
        kind = (
            f"CASE WHEN {TS} IS NULL THEN 1 WHEN {TS} > {beyond_now} THEN 2"
            f" WHEN {TS} < {late_now} THEN 3 WHEN {STREAM} != {self.stream} THEN 4 ELSE 0 END"
        )
        named = [f"IF({KIND} = 0, {sql}, NULL) AS _k{n}" for n, sql in enumerate(self.keys)]
        # Rows that only count have panes, too: gaps between their times matter in a replay.
        named += [f"{sql} AS _p{n}" for n, sql in enumerate(self.panes)]
        named += [
            f"IF({KIND} = 0, {_bits(word)}, 0L) AS {mark_column(number, place)}"
            for number in range(len(self.sets))
            for place, word in enumerate(self._words(number))
        ]
        sets = [self._columns(number) for number in range(len(self.sets))]
        which = " ".join(f"WHEN grouping(_p{n}) = 0 THEN {n}" for n in range(len(sets)))
        outputs = [
            *dict.fromkeys(name for names in sets for name in names),
            f"{f'CASE {which} END' if len(sets) > 1 else 0} AS {SET}",
            *(f"count(*) AS {NUMBER}", f"min({TS}) AS {LEAST}", f"max({TS}) AS {LARGEST}"),
            *(f"{sql} AS _n{n}" for n, sql in enumerate(self.numbers)),
        ]
        grouped = ", ".join(f"({_listed(names)})" for names in sets)
        return (
            f"SELECT {_listed(outputs)} FROM (SELECT {_listed(['*', *named])} FROM"
            f" (SELECT *, {kind} AS {KIND} FROM {view})) GROUP BY "
            + (f"GROUPING SETS ({grouped})" if len(sets) > 1 else _listed(sets[0]))
        )

    def _columns(self, number: int) -> list[str]:
        return [
            *(STREAM, KIND, f"_p{number}"),
            *(f"_k{key}" for key in self.sets[number]),
            *(mark_column(number, place) for place, _ in enumerate(self._words(number))),
        ]

    def _words(self, number: int) -> list[tuple[str, ...]]:
        """The predicates of a set by the column of their bits."""
        own = self.predicates[number] if self.marks_rows else ()
        return [own[start : start + WORD] for start in range(0, len(own), WORD)]


def mark_column(number: int, place: int) -> str:
    """The column with a word of the marks of a set."""
    return f"_m{number}_{place}"


def _bits(predicates: Sequence[str]) -> str:
    return " | ".join(f"IF({sql}, {1 << bit}L, 0L)" for bit, sql in enumerate(predicates))


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts)


@dataclass
class _Making:
    """Collects what the feeds of a stream need, each thing once."""

    slots: Mapping[str, str]
    max_gap: int | None
    keys: dict[str, int] = field(default_factory=dict)
    sets: dict[tuple[int, ...], list[Range]] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    marks_rows: bool = False
    marks: dict[int, dict[str, int]] = field(default_factory=dict)
    """Of each set the predicates and their bits."""

    def result(self, feeds: Mapping[int, Feed]) -> PanePass | None:
        taken = [self._feed(number, feed) for number, feed in feeds.items()]
        listed = [pane_feed for pane_feed in taken if pane_feed is not None]
        families = [edges(windows) for windows in self.sets.values()]
        shortest = min((period for period, _ in families[0]), default=0) if families else 0
        # In a replay, gaps between rows are seen between panes only.
        unseen = self.max_gap is not None and self.max_gap < shortest
        if not listed or unseen:
            return None
        taken_numbers = {pane_feed.number for pane_feed in listed}
        return PanePass(
            tuple(self.keys), tuple(map(pane_sql, families)), tuple(self.sets),
            tuple(self.numbers), tuple(listed),
            rest=tuple(number for number in feeds if number not in taken_numbers),
            predicates=tuple(tuple(self.marks.get(number, ())) for number in range(len(self.sets))),
            marks_rows=self.marks_rows,
        )  # fmt: skip

    def _feed(self, number: int, feed: Feed) -> PaneFeed | None:
        panes, path = feed.panes, _Path.of(feed)
        if path is None:
            return None
        if feed.spans is not None:
            return self._span_feed(number, feed, feed.spans, path)
        if panes is None:
            return None
        parts = [path.over(part) for part in (*panes.keys, *panes.values)]
        arguments = [content.argument and path.over(content.argument) for content in panes.contents]
        used = [*parts, *(argument for argument in arguments if argument is not None)]
        if not all(map(_crosses, used)) or not all(map(pushes, path.conditions)):
            return None
        if any(content.function == ITEMS for content in panes.contents):
            return None  # what Spark keeps of frequent items has a format of its own
        where, keys, own, mark = self._placed(path, parts, panes.windows)
        numbers = tuple(
            self._number(content, argument, where)
            for content, argument in zip(panes.contents, arguments, strict=True)
        )
        return PaneFeed(number, feed, own, keys, numbers, self._column("count(*)", where), mark)

    def _span_feed(
        self, number: int, feed: Feed, spans: ValueSpans, path: _Path
    ) -> PaneFeed | None:
        """The first and last time of each value and pane."""
        parts = [path.over(column) for column in spans.columns]
        if not all(map(_crosses, parts)) or not all(map(pushes, path.conditions)):
            return None
        where, keys, own, mark = self._placed(path, parts, (spans.panes_of,))
        ends = ("max",) if spans.is_slid else ("min", "max")
        numbers = tuple(Number(self._column(f"{end}({TS})", where)) for end in ends)
        return PaneFeed(number, feed, own, keys, numbers, self._column("count(*)", where), mark)

    def _placed(
        self, path: _Path, parts: Sequence[Expression], windows: Sequence[Range]
    ) -> tuple[str, tuple[str, ...], int, tuple[str, int] | None]:
        """The predicate of a feed's numbers, the columns of its keys, the number of their set, and
        the feed's mark there."""
        keys = [self.keys.setdefault(self._sql(part), len(self.keys)) for part in parts]
        own = tuple(sorted(set(keys)))
        self.sets.setdefault(own, []).extend(windows)
        columns, place = tuple(f"_k{key}" for key in keys), list(self.sets).index(own)
        if not path.conditions:
            return "", columns, place, None
        where, marks = self._sql(conjunction(path.conditions)), self.marks.setdefault(place, {})
        word, bit = divmod(marks.setdefault(where, len(marks)), WORD)
        if self.marks_rows:
            return "", columns, place, (mark_column(place, word), bit)
        return where, columns, place, None

    def _number(self, content: PaneNumber, argument: Expression | None, where: str) -> Number:
        if argument is None or content.function == ROWS:
            return Number(self._column("count(*)", where))
        sql, kind = self._sql(argument), content.column.type
        if content.function == HLL:
            hashed = f"concat('{TEXT}', {sql})" if argument.type.name == "string" else sql
            hashed = hashed if argument.type.name in ("string", "bigint") else f"bigint({sql})"
            return Number(self._column(f"hll_sketch_agg({hashed}, {SKETCHES[HLL].size})", where))
        if content.function == KLL:
            floats = f"CAST({sql} AS DOUBLE)"
            size = SKETCHES[KLL].size
            return Number(self._column(f"kll_sketch_agg_double({floats}, {size})", where))
        if content.function == COUNT_MIN:
            whole = f"bigint({sql})" if argument.type.is_integral else sql
            hashed = f"IF({sql} IS NULL, NULL, xxhash64({whole}))"
            drawn = f"{SHARE}D, {CONFIDENCE}D, {SEED}"
            return Number(self._column(f"count_min_sketch({hashed}, {drawn})", where))
        if content.function == MOMENTS:
            floats = f"CAST({sql} AS DOUBLE)"
            mean, variance = (self._column(f"{f}({floats})", where) for f in ("avg", "var_pop"))
            return Number(self._column(f"count({sql})", where), spread=(mean, variance))
        if content.function != SUM:
            return Number(self._column(f"{content.function}({sql})", where))
        if argument.type.name == "bigint":
            low = self._column(f"sum({sql} & 4294967295L)", where)
            return Number(low, self._column(f"sum(shiftright({sql}, 32))", where))
        return Number(self._column(f"sum(CAST({sql} AS {kind.sql()}))", where))

    def _column(self, sql: str, where: str) -> str:
        text = f"{sql} FILTER (WHERE {where})" if where else sql
        return self.numbers.setdefault(text, f"_n{len(self.numbers)}")

    def _sql(self, expression: Expression | None) -> str:
        assert expression is not None
        return expression.sql(lambda column: self.slots[column.name])


@dataclass(frozen=True)
class _Path:
    """What the selections and projections of a feed compute, over columns of the stream."""

    columns: Mapping[str, Expression]
    conditions: tuple[Expression, ...] = ()

    @staticmethod
    def of(feed: Feed) -> _Path | None:
        """None if something else is done to rows on their way."""
        path: _Path | None = _Path({})
        for operator in feed.path[:-1]:
            path = path and path._after(operator.selects, operator.computes())
        return path

    def _after(
        self, selected: Expression | None, computed: Sequence[tuple[str, Expression]] | None
    ) -> _Path | None:
        if selected is not None:
            return replace(self, conditions=(*self.conditions, self.over(selected)))
        if computed is not None:
            return replace(self, columns={name: self.over(output) for name, output in computed})
        return None

    def over(self, expression: Expression) -> Expression:
        def computed(node: Expression) -> Expression:
            return self.columns.get(column_name(node), node) if isinstance(node, Column) else node

        return expression.transform(computed)


def _merges_fast(pane_feed: PaneFeed) -> bool:
    """Whether all that is kept are numbers that are merged by sorting."""
    panes = pane_feed.feed.panes
    return panes is not None and all(
        content.function in (ROWS, COUNT)
        or (content.function in (SUM, MIN, MAX) and content.column.type.is_integral)
        for content in panes.contents
    )


def _crosses(expression: Expression) -> bool:
    """Whether a value may be a key or an argument in Spark SQL."""
    plain = isinstance(expression, Column) and expression.type.name in _KEYS
    return plain or pushes(expression)


def pane_sql(families: Sequence[tuple[int, int]]) -> str:
    """The first edge that is not before a row."""
    listed = [f"{TS} + pmod({phase}L - {TS}, {period}L)" for period, phase in families]
    first = reduce(lambda earlier, edge: f"LEAST({earlier}, {edge})", listed)
    return f"IF({TS} BETWEEN -{FAR}L AND {FAR}L, {first}, {TS})"
