"""EXPLAIN SHARING: which queries answer from the same panes, and what that saves.

The program that runs is looked at (see ``shared_program``), so nothing is claimed that is not done.
Figures are of one group: rows that are kept, values that a refresh reads, values that are touched
in an hour of a stream that brings every group in every pane (spec/periodic 1, 5), and the CPU time
that takes, by what a value took where it was measured (``python -m benchmarks.pane_costs``). Alone
means: with the panes of the query's own window only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log2
from typing import Any

from mayfly.display import counted, number
from mayfly.kernels.dominance import EXTREMES
from mayfly.kernels.pane_aggregates import is_difference, is_merged
from mayfly.kernels.pane_edges import edges, period_of, reach_of
from mayfly.kernels.pane_groups import PaneGroups
from mayfly.kernels.pane_readers import leads
from mayfly.lifetime import NEVER, format_micros
from mayfly.physical.explain.read_joins import JoinReader, ReadJoin, read_joins
from mayfly.physical.explain.read_rows import ReadRows, RowReader, read_rows
from mayfly.physical.plan_programs import programs_of_plans
from mayfly.physical.program import Program, Task
from mayfly.physical.shared_program import described, shared
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Output
from mayfly.plan.plan_text import expression_text
from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import Range

HOUR = 3_600_000_000
MADE_NANOSECONDS, RESULT_NANOSECONDS, READ_NANOSECONDS = 600.0, 550.0, 5.0
"""CPU time of a pane that is made, kept and looked at; of a result; of a value read for it."""


@dataclass(frozen=True)
class PaneCost:
    """What a query costs, for each of its groups."""

    rows: float
    """Panes that are kept."""
    reads: float
    """Values that a refresh reads."""
    touched: float
    """Values that are written or read in an hour."""
    cpu: float
    """Microseconds of CPU time for these."""

    def __add__(self, other: PaneCost) -> PaneCost:
        return PaneCost(
            self.rows + other.rows, self.reads + other.reads, self.touched + other.touched,
            self.cpu + other.cpu,
        )  # fmt: skip

    def __sub__(self, other: PaneCost) -> PaneCost:
        return PaneCost(
            self.rows - other.rows, self.reads - other.reads, self.touched - other.touched,
            self.cpu - other.cpu,
        )  # fmt: skip


NOTHING = PaneCost(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class SharedReader:
    """A query that answers from panes: by which rule, and what it costs here and alone."""

    query: str
    rule: str
    window: str
    asks: str
    shared: PaneCost
    alone: PaneCost
    apart: str = ""
    """Why it reads panes by itself beside others, if it does."""

    def __str__(self) -> str:
        apart = f"; apart: {self.apart}" if self.apart else ""
        return (
            f"{self.query}  {self.rule}  {self.window} {self.asks}: reads "
            f"{_values(self.shared.reads)} a refresh, alone {number(self.alone.reads)}; keeps "
            f"{number(self.shared.rows)} more, alone {number(self.alone.rows)}; takes "
            f"{_time(self.shared.cpu)} of CPU an hour more, alone {_time(self.alone.cpu)}{apart}"
        )


@dataclass(frozen=True)
class SharedPanes:
    """One state of panes and who reads it."""

    name: str
    stream: str
    where: str
    keys: tuple[str, ...]
    contents: tuple[str, ...]
    edges: tuple[str, ...]
    readers: tuple[SharedReader, ...]
    shared: PaneCost
    alone: PaneCost
    made: float
    """Values that are written in an hour."""
    results: float
    """Results of all queries in an hour."""

    @property
    def head(self) -> str:
        where = f" WHERE {self.where}" if self.where else ""
        by = f" BY {', '.join(self.keys)}" if self.keys else ""
        return f"{self.name}: {', '.join(self.contents)} of {self.stream}{where}{by}"

    def lines(self) -> list[str]:
        queries = counted(len(self.readers), "query", "queries")
        return [
            self.head,
            f"  cut at {', '.join(self.edges)}",
            f"  made of rows once for {queries}; in each group "
            f"{_saved('rows kept', self.shared.rows, self.alone.rows)}, "
            f"{_saved('values touched in an hour', self.shared.touched, self.alone.touched)}, "
            f"about {_time(self.shared.cpu)} of CPU in place of {_time(self.alone.cpu)}",
            *(f"    {reader}" for reader in self.readers),
        ]


@dataclass(frozen=True)
class Sharing:
    """What the queries of a pipeline share of panes, and which of them keep none."""

    panes: tuple[SharedPanes, ...]
    others: Mapping[str, str]
    """Queries without panes, and why."""
    joins: tuple[ReadJoin, ...] = ()
    rows: tuple[ReadRows, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        lines = [line for some in self.panes for line in some.lines()]
        lines += [line for state in self.rows for line in state.lines()]
        lines += [line for join in self.joins for line in join.lines()]
        if self.others:
            lines += ["no panes", *(f"    {name}: {why}" for name, why in self.others.items())]
        readers = len({reader.query for some in self.panes for reader in some.readers})
        if readers:
            shared, alone = (
                sum((getattr(some, part) for some in self.panes), NOTHING)
                for part in ("shared", "alone")
            )
            lines.append(
                f"together: {counted(readers, 'query', 'queries')} from "
                f"{counted(len(self.panes), 'state')} of panes; in each group "
                f"{_saved('rows kept', shared.rows, alone.rows)}, "
                f"{_saved('values touched in an hour', shared.touched, alone.touched)}, "
                f"about {_time(shared.cpu)} of CPU in place of {_time(alone.cpu)}"
            )
        return "\n".join(lines) or "no query"

    def values(self) -> dict[str, Any]:
        joins = {"joins": [asdict(some) for some in self.joins]} if self.joins else {}
        rows = {"rows": [asdict(some) for some in self.rows]} if self.rows else {}
        panes = [asdict(some) for some in self.panes]
        return {"panes": panes, "others": dict(self.others), **joins, **rows}

    def json(self) -> str:
        return json.dumps(self.values(), indent=2, ensure_ascii=False)

    def mermaid(self) -> str:
        """A drawing: streams, panes, queries."""
        lines = ["graph LR"]
        for index, some in enumerate(self.panes):
            lines.append(f'  s_{_id(some.stream)}[("{_quoted(some.stream)}")] --> p{index}')
            lines.append(
                f'  p{index}["{_quoted(some.head)}<br/>{number(some.shared.rows)} rows a group"]'
            )
            lines += [
                f'  p{index} -- "{reader.rule}" --> q_{_id(reader.query)}'
                f'("{_quoted(reader.query)}<br/>{_quoted(reader.window)}")'
                for reader in some.readers
            ]
        for index, state in enumerate(self.rows):
            lines.append(f'  s_{_id(state.stream)}[("{_quoted(state.stream)}")] --> r{index}')
            head = f"{_quoted(state.head)}<br/>{number(state.rows)} rows a group"
            lines.append(f'  r{index}["{head}"]')
            lines += [
                f'  r{index} -- "{reader.rule}" --> q_{_id(reader.query)}'
                f'("{_quoted(reader.query)}<br/>{_quoted(reader.window)}")'
                for reader in state.readers
            ]
        for index, join in enumerate(self.joins):
            streams = dict.fromkeys(words.split(" ")[0] for words in join.inputs)
            lines += [f'  s_{_id(name)}[("{_quoted(name)}")] --> j{index}' for name in streams]
            head = f"{_quoted(join.lines()[0])}<br/>{number(join.values)} values a group"
            lines.append(f'  j{index}["{head}"]')
            lines += [
                f'  j{index} -- "{reader.rules}" --> q_{_id(reader.query)}'
                f'("{_quoted(reader.query)}<br/>{_quoted(reader.windows)}")'
                for reader in join.readers
            ]
        lines += [
            f'  q_{_id(name)}("{_quoted(name)}<br/>{_quoted(why)}")'
            for name, why in self.others.items()
        ]
        return "\n".join(lines)

    def shown(self, form: str) -> str:
        """As text, JSON, or a drawing for Mermaid."""
        return {"TEXT": self.text, "JSON": self.json, "MERMAID": self.mermaid}[form]()

    def added_cost(self, query: str) -> dict[str, Any]:
        """What a query that is not there yet would cost, for each group."""
        joined = [r for join in self.joins for r in join.readers if r.query == query]
        if joined:
            return _added_to_join(joined[0])
        over_rows = [r for some in self.rows for r in some.readers if r.query == query]
        if over_rows:
            return _added_to_rows(over_rows[0])
        readers = [r for some in self.panes for r in some.readers if r.query == query]
        if not readers:
            words = f"rows and no panes: {self.others.get(query, '')}"
            return {"words": words, "shared": None, "alone": None}
        # A covered query reads several states, and would have one.
        shared, alone = sum((r.shared for r in readers), NOTHING), readers[0].alone
        words = (
            f"{number(shared.rows)} rows more, alone {number(alone.rows)}; "
            f"{number(shared.touched)} values touched in an hour more, "
            f"alone {number(alone.touched)}; {_time(shared.cpu)} of CPU an hour more, "
            f"alone {_time(alone.cpu)}"
        )
        return {"words": words, "shared": asdict(shared), "alone": asdict(alone)}


def _added_to_join(reader: JoinReader) -> dict[str, Any]:
    words = (
        f"{number(reader.keeps)} values of a join more, alone {number(reader.keeps_alone)}; "
        f"{number(reader.looks)} looked at in a step more, alone {number(reader.looks_alone)}"
    )
    shared = {"keeps": reader.keeps, "looks": reader.looks}
    alone = {"keeps": reader.keeps_alone, "looks": reader.looks_alone}
    return {"words": words, "shared": shared, "alone": alone}


def _added_to_rows(reader: RowReader) -> dict[str, Any]:
    words = f"{number(reader.keeps)} rows more, alone {number(reader.keeps_alone)}"
    shared, alone = {"keeps": reader.keeps}, {"keeps": reader.keeps_alone}
    return {"words": words, "shared": shared, "alone": alone}


def sharing_of_plans(
    plans: Mapping[str, Output],
    catalog: Catalog,
    strategy: Strategy = Strategy.UPA,
    without: Sequence[str] = (),
) -> Sharing:
    """What queries share when they run together, by their logical plans."""
    return sharing_of(programs_of_plans(plans, catalog, strategy, without))


def sharing_of(programs: Mapping[str, Program]) -> Sharing:
    """What these queries share when they run together."""
    program = shared(programs, {})
    pooled = {member.name: member.program for member in program.members}
    joins, rows = read_joins(pooled), read_rows(pooled, rows_of)
    explained = {reader.query for join in joins for reader in join.readers}
    explained |= {reader.query for state in rows for reader in state.readers}
    reading: dict[Task, list[tuple[str, Any]]] = {}
    others: dict[str, str] = {}
    for member in program.members:
        readers = [t for t in member.program.tasks() if t.operator.reads]
        for task in readers:
            for store in task.inputs:
                assert isinstance(store, Task)
                reading.setdefault(store, []).append((member.name, task.operator))
        if not readers and member.name not in explained:
            others[member.name] = _reason(member.program)
    panes = [
        _panes(f"panes {index}", store.operator, readers)
        for index, (store, readers) in enumerate(reading.items(), 1)
    ]
    return Sharing(tuple(panes), others, joins, rows)


def _panes(name: str, store: Any, readers: Sequence[tuple[str, PaneGroups]]) -> SharedPanes:
    explained, before, questions = [], NOTHING, set[str]()
    for index, (query, operator) in enumerate(readers):
        window = _window(operator)
        so_far = [_window(other) for _, other in readers[: index + 1]]
        after = cost_of(so_far, [other for _, other in readers[: index + 1]])
        rules = ["first" if index == 0 else "SS1"]
        rules += ["CS1"] if window in so_far[:-1] and operator.finds_once else []
        question = _question(operator)
        rules += ["CS2"] if question in questions else []
        rules += ["CS8"] if _is_forwarded(operator, [other for _, other in readers]) else []
        questions |= {question} - {""}
        if operator.is_covered:
            beside = [_window(other) for _, other in readers if not other.is_covered]
            rules = ["SS4", "CS6"] if window in beside and operator.finds_once else ["SS4"]
            rules += ["CS7"] if _is_combined(operator, [other for _, other in readers]) else []
        rule = ", ".join(rules)
        asks = _plain(operator.detail.partition(" BY ")[0])
        reads = reads_of(operator, store.windows, [other for _, other in readers])
        own = cost_of([window], [operator])
        added = replace(after - before, reads=reads)
        apart = _plain(operator.apart_because) if len(readers) > 1 else ""
        explained.append(SharedReader(query, rule, window.cql(), asks, added, own, apart))
        before = after
    alone = sum((reader.alone for reader in explained), NOTHING)
    where = " AND ".join(map(expression_text, store.conditions))
    return SharedPanes(
        name, store.stream, where, tuple(map(expression_text, store.keys)),
        tuple(
            [content.words for content in store.contents]
            + [f"values of {expression_text(value)}" for value in store.values]
        ),
        tuple(_edge_words(*family) for family in edges(store.windows)),
        tuple(explained), before, alone, HOUR * density(store.windows),
        sum(HOUR / period_of(_window(operator)) for _, operator in readers),
    )  # fmt: skip


def cost_of(windows: Sequence[Range], readers: Sequence[PaneGroups]) -> PaneCost:
    """Of one state for these windows: panes are written as they come, and read by readers."""
    reads = [reads_of(reader, windows, readers) for reader in readers]
    made = HOUR * density(windows)
    refreshes = [HOUR / period_of(_window(reader)) for reader in readers]
    read = sum(values * often for values, often in zip(reads, refreshes, strict=True))
    cpu = made * MADE_NANOSECONDS + sum(refreshes) * RESULT_NANOSECONDS + read * READ_NANOSECONDS
    return PaneCost(rows_of(windows), sum(reads), made + read, cpu / 1000)


def density(windows: Sequence[Range]) -> float:
    """Edges in a microsecond."""
    return sum(1 / period for period, _ in edges(windows))


def rows_of(windows: Sequence[Range], length: int = NEVER) -> float:
    """Panes that are kept, up to an age: they are cut at the edges of windows that reach so far."""
    by_reach = sorted(windows, key=reach_of)
    rows, age = 0.0, 0
    for index, window in enumerate(by_reach):
        until = min(reach_of(window), length)
        rows += max(0, until - age) * density(by_reach[index:])
        age = until
    return rows


def reads_of(
    reader: PaneGroups, windows: Sequence[Range], readers: Sequence[PaneGroups] = ()
) -> float:
    """Values that a refresh reads: what came and what went, or all in the window where an aggregate
    cannot subtract."""
    window = _window(reader)
    if _in_one_pass(reader):
        return _reads_in_one_pass(reader, windows, readers)
    period = min(period_of(window), window.duration)
    old = [other for other in windows if reach_of(other) >= window.duration] or [window]
    changed = period * (density(windows) + density(old))
    if all(made.way.play is None for made in reader.aggregators):
        return changed
    size = rows_of(windows, window.duration)
    return changed + (min(size, blocks_of(size)) if _is_combined(reader, readers) else size)


def _is_combined(reader: PaneGroups, readers: Sequence[PaneGroups]) -> bool:
    """Whether its extremes are put together of what another one of these has scanned (CS7)."""
    if not reader.is_combined:
        return False
    return any(
        _in_one_pass(other)
        and _window(other).duration >= _window(reader).duration
        and set(reader.numbers_read) <= set(other.numbers_read)
        for other in readers
    )


def blocks_of(size: float) -> float:
    """How many blocks of 1, 2, 4, … rows so many rows are."""
    return 2 * log2(size + 1)


def _reads_in_one_pass(
    reader: PaneGroups, windows: Sequence[Range], readers: Sequence[PaneGroups]
) -> float:
    """With all of ``readers`` that ask the same: sums are differences of two running ones; extremes
    are those of blocks, which are made in the scan of the longest window, or shown by another
    reader (CS8); what can be taken out again goes on from the next shorter window."""
    own, question = _window(reader).duration, _question(reader)
    lengths = {_window(other).duration for other in readers if _question(other) == question}
    size = rows_of(windows, own)
    shorter = rows_of(windows, max((length for length in lengths if length < own), default=0))
    if all(made.way.play is None for made in reader.aggregators):
        return 2.0
    reads = [0.0 if _is_forwarded(reader, readers) else 2.0]
    for call in reader.calls:
        if call.function in EXTREMES and not _is_forwarded(reader, readers):
            is_longest = own == max(lengths, default=own)
            reads.append(size if is_longest else min(size, blocks_of(size)))
        elif is_merged(call):
            reads.append(size)
        elif not is_difference(call):
            reads.append(size - shorter)
    return max(reads)


def _is_forwarded(reader: PaneGroups, readers: Sequence[PaneGroups]) -> bool:
    """Whether what it shows is read for another of these (CS8)."""
    question = _question(reader)
    if not question or not reader.forwards:
        return False
    same = [other for other in readers if _question(other) == question and other.forwards]
    return any(leads(_window(other), _window(reader)) for other in same)


def _in_one_pass(reader: PaneGroups) -> bool:
    return reader.joint() is not None


def _question(reader: PaneGroups) -> str:
    """What is equal for queries that are answered in one pass."""
    operator = reader.joint()
    return "" if operator is None else described(operator.state_key())


def _window(operator: PaneGroups) -> Range:
    assert operator.window is not None
    return operator.window


def _reason(program: Program) -> str:
    operators = [task.operator for task in program.tasks()]
    reasons = [operator.no_panes_because for operator in operators]
    reasons += [getattr(operator, "rows_because", "") for operator in operators]
    return _plain(next(filter(None, reasons), "no aggregate over a SLIDE"))


def _plain(words: str) -> str:
    """With streams under their names: plans call them after what is done with them."""
    return re.sub(r"_[0-9a-f]{8}\.", ".", words)


def _edge_words(period: int, phase: int) -> str:
    """The panes of finished windows are cut at the last instants of windows.

    >>> _edge_words(60_000_000, 59_999_999), _edge_words(3_000_000, 1_000_000)
    ('every 1 min - 1 us', 'every 3 s + 1 s')
    """
    if 2 * phase > period:
        return f"every {format_micros(period)} - {format_micros(period - phase)}"
    return f"every {format_micros(period)}" + (f" + {format_micros(phase)}" if phase else "")


def _saved(what: str, shared: float, alone: float) -> str:
    share = f" ({100 * shared / alone:.0f} %)" if alone else ""
    return f"{number(shared)} {what} in place of {number(alone)}{share}"


def _time(microseconds: float) -> str:
    """CPU time of one group."""
    if microseconds < 1000:
        return f"{number(microseconds)} µs"
    return f"{number(microseconds / 1000)} ms"


def _values(count: float) -> str:
    return f"{number(count)} {'value' if round(count) == 1 else 'values'}"


def _id(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c)}_" for c in text)


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "#quot;").replace("<", "&lt;")
