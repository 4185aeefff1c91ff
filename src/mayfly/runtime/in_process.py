"""Running a continuous query in this process, batch by batch.

The same operators as on Spark, without Spark: for tests, notebooks and small data. A batch counts
as a whole: if it fails, the run is as it was before. Buckets are simulated, so that independence
of their number can be shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.display import counted, html_table, one_line
from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.codes import buckets
from mayfly.kernels.delta import END, ID, SEEN, SEEN_END, Delta, concatenated, united, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.key_ends import ClosedKeys, CloseKeys
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.kernels.operator import Moving
from mayfly.kernels.outputs import seen
from mayfly.kernels.refreshes import repeated, repetitions
from mayfly.kernels.room import Touched, default_state_bytes, limited
from mayfly.keywords import known_settings, text
from mayfly.lifetime import MIN_TIME, NEVER, in_zone, instant, instant_text, use_zone
from mayfly.physical.closing_keys import Forgetful, forgetful_states
from mayfly.physical.program import Program, RelationInput, StreamInput, Task
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.row_intake import as_table
from mayfly.plan.types import arrow_type
from mayfly.plan.zone_instants import instant_in_zone
from mayfly.runtime.buckets import checked_buckets
from mayfly.runtime.change_log import ChangeLog
from mayfly.runtime.clock import Clocks, closed_instant
from mayfly.runtime.closed_keys import admit_all, forget
from mayfly.runtime.computed_values import computed
from mayfly.runtime.max_gap import joined, last_promise, spans
from mayfly.runtime.relation_log import Changing
from mayfly.storage.segment import EXP, TS

MOST_EXPANDED = 1_000_000


@dataclass(frozen=True, slots=True)
class OperatorReport:
    """What an operator has done and holds."""

    name: str
    rows_in: int
    rows_out: int
    state_rows: int
    state_bytes: int
    seconds: float
    rows_touched: int = 0
    """Stored rows that were looked up or met, and events played by an aggregation."""


@dataclass(slots=True)
class _Worked:
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    touched: int = 0


@dataclass(slots=True)
class ContinuousRun:
    """A running query: feed it batches, ask it for changes, snapshots and the state it keeps."""

    program: Program
    catalog: Catalog
    relations: Mapping[str, Changing] = field(default_factory=dict)
    bucket_count: int = 1
    max_state_bytes: int = field(default_factory=default_state_bytes)
    zone: str = "UTC"
    history: int | None = None
    """How far back the change log reaches, in microseconds; None: to the beginning."""
    clocks: Clocks = field(init=False)
    _states: dict[Task, list[Any]] = field(init=False)
    _sending: Any = field(init=False)
    _delivered: dict[Task, tuple[int, ...]] = field(init=False)
    """The changes of relations that each reader has seen."""
    _log: ChangeLog = field(init=False)
    _worked: dict[Task, _Worked] = field(init=False)
    _tasks: list[Task] = field(init=False)
    _first: int | None = field(init=False, default=None)
    """The time of the first row that came in time."""
    _late: Counter[str] = field(init=False, default_factory=Counter)
    """By stream: rows that came too late for panes."""
    _closers: dict[str, CloseKeys] = field(init=False)
    """By stream with punctuations: what closes its keys."""
    _closed: dict[str, ClosedKeys] = field(init=False)
    """By stream with punctuations: the keys of which no further row comes."""
    _forgetful: list[Forgetful] = field(init=False)
    _left: dict[Task, int] = field(init=False, default_factory=dict)
    """The rows of states when they were last looked through for closed keys."""

    def __post_init__(self) -> None:
        checked_buckets(self.bucket_count)
        self._tasks = self.program.tasks()
        self._states = {
            task: [task.operator.state() for _ in range(self._buckets_of(task))]
            for task in self._tasks
        }
        sent = self.program.sent
        self._sending = sent.state() if sent else None
        self._delivered = dict.fromkeys(self._tasks, ())
        slide = sent.slide if sent else None
        end = EXP if slide is not None and slide.period else TS
        self._log = ChangeLog(Delta.empty(self.program.answer.columns), self.history, end)
        self._worked = {task: _Worked() for task in self._tasks}
        names = tuple(dict.fromkeys(source.stream for source in self._sources(StreamInput)))
        self.clocks = Clocks.unset(names)
        streams = map(self._stream, names)
        self._closers = {s.name: CloseKeys.of(s) for s in streams if s.punctuation is not None}
        self._closed = {name: closer.state() for name, closer in self._closers.items()}
        self._forgetful = forgetful_states(self._tasks) if self._closed else []

    def __repr__(self) -> str:
        clock = self.clocks.query
        when = "nothing closed" if clock == MIN_TIME else f"clock {instant_text(clock)}"
        return one_line(self, f"over {', '.join(self.clocks.streams)}", when)

    def _repr_html_(self) -> str:
        clocks = {name: self.clocks.of([name]).query for name in self.clocks.streams}
        facts = {
            n: "–" if clock == MIN_TIME else instant_text(clock) for n, clock in clocks.items()
        }
        return html_table("clocks of the streams", facts)

    # ── feeding ───────────────────────────────────────────────────────────────────────────

    @known_settings()
    def feed(
        self,
        batch: Mapping[str, Any] | None = None,
        heartbeats: Mapping[str, int | str | date] | None = None,
    ) -> pa.Table:
        """One micro-batch: rows by stream (see ``plan.rows``); the changes it closes.

        ``heartbeats`` promise per stream that no row before an instant follows. Times without a
        zone are of the stream's, or the session's.
        """
        rows_of = self._by_stream("a batch", "rows", batch)
        instants = self._by_stream("heartbeats", "'2026-01-31T12:00:00'", heartbeats)
        with in_zone(self.zone):
            promised = {name: instant_in_zone(moment) for name, moment in instants.items()}
            prepared = {name: self._prepared(name, rows) for name, rows in rows_of.items()}
        largest = {name: pc.max(rows[TS]).as_py() for name, rows in prepared.items()}
        slack = {name: self._stream(name).slack for name in self.clocks.streams}
        before, reached = self._reached(prepared, promised)
        for name, moment in reached.items():
            if name in promised and last_promise([(promised[name],) * 2], moment) is None:
                del promised[name]
        return self._close(prepared, before.advanced({**largest, **reached}, slack, promised))

    def _reached(
        self, prepared: Mapping[str, pa.Table], promised: Mapping[str, int]
    ) -> tuple[Clocks, dict[str, int | None]]:
        """How far rows and promises bring the streams that go on in steps of MAX GAP at most."""
        gaps = {name: self._stream(name).max_gap for name in (*prepared, *promised)}
        steps = {name: gap for name, gap in gaps.items() if gap is not None and gap != NEVER}
        came = {}
        for name, step in steps.items():
            times = spans(numbers(prepared[name], TS), step) if name in prepared else ()
            promises = [(promised[name], promised[name])] if name in promised else []
            came[name] = joined([*times, *promises], step)
        return self.clocks.reaching(came, steps)

    def _by_stream(self, what: str, value: str, entries: Any) -> dict[str, Any]:
        """What is given by stream; a stream has one place, however its name is written."""
        if entries is None:
            return {}
        if not isinstance(entries, Mapping):
            form = f"give it by stream: {{{next(iter(self.clocks.streams))!r}: {value}}}"
            raise BadInput(f"{what} is a {type(entries).__name__}", form)
        named = {self._read(name): entry for name, entry in entries.items()}
        if len(named) < len(entries):
            raise BadInput(
                f"{what} names one stream twice: {', '.join(entries)}",
                "names are compared without regard to case: put its rows together",
            )
        return named

    def _read(self, name: str) -> str:
        """A stream of the query as it was declared, named without regard to case."""
        for stream in self.clocks.streams:
            if stream.casefold() == text("the name of a stream", name).casefold():
                return stream
        names = ", ".join(self.clocks.streams)
        raise InvalidSetting(f"the query reads no stream {name}", f"it reads {names}")

    def finish(self) -> pa.Table:
        """End of input: close the last instant."""
        return self._close({}, self.clocks.closed())

    def _close(self, batch: Mapping[str, pa.Table], after: Clocks) -> pa.Table:
        interval = Interval(self.clocks.query, max(after.query, self.clocks.query))
        with in_zone(self.zone):
            closed, batch = admit_all(self._closers, self._closed, batch, interval)
        first = self._first_row(batch)
        interval = replace(interval, first=first)
        states, results = dict(self._states), dict[Task, Delta]()
        delivered, worked = dict(self._delivered), []
        for task in self._tasks:
            inputs = [
                results[source] if isinstance(source, Task)
                else self._entering(source, task, batch, interval, delivered)
                for source in task.inputs
            ]  # fmt: skip
            began, touched = perf_counter(), Touched.rows
            with in_zone(self.zone), limited(self.max_state_bytes):
                states[task], results[task] = self._stepped(task, states[task], inputs, interval)
            spent = perf_counter() - began
            worked.append((task, inputs, results[task], spent, Touched.rows - touched))
        left = self._forget(states, closed)
        answer = seen(results[self.program.answer])
        sending, sent = self._sending, None
        if self.program.sent is not None:
            with limited(self.max_state_bytes):
                sending, sent = self.program.sent.step(sending, answer, interval, first)
        self._states, self._delivered, self._sending = states, delivered, sending
        self.clocks, self._first = after, first
        self._closed, self._left = closed, left
        self._count_late(batch, interval.began)
        for task, inputs, result, spent, touched in worked:
            done = self._worked[task]
            done.rows_in += sum(delta.rows for delta in inputs)
            done.rows_out += result.rows
            done.seconds += spent
            done.touched += touched
        return self._logged(answer, sent)

    def _forget(
        self, states: dict[Task, list[Any]], closed: Mapping[str, ClosedKeys]
    ) -> dict[Task, int]:
        """Leave rows of closed keys out of states that have doubled."""
        left = dict(self._left)
        rows = {f.task: sum(s.rows for s in states[f.task]) for f in self._forgetful}
        doubled = {task for task, count in rows.items() if count >= 2 * left.get(task, 0)}
        for forgetful in self._forgetful:
            task = forgetful.task
            if task in doubled:
                parts, closings = forgetful.parts, forgetful.closings
                states[task] = forget(parts, closings, states[task], self._closers, closed)
                left[task] = sum(state.rows for state in states[task])
        return left

    def _count_late(self, batch: Mapping[str, pa.Table], began: int) -> None:
        preparing = [task for task in self._tasks if task.operator.intake]
        sources = [source for task in preparing for source in task.inputs]
        for stream in {source.stream for source in sources if isinstance(source, StreamInput)}:
            if stream in batch:
                self._late[stream] += int((numbers(batch[stream], TS) < began).sum())

    def _first_row(self, batch: Mapping[str, pa.Table]) -> int | None:
        times = [numbers(rows, TS) for rows in batch.values()]
        fresh = [ts[ts >= self.clocks.query] for ts in times]
        first = [int(ts.min()) for ts in fresh if len(ts)]
        return min([*first, *([] if self._first is None else [self._first])], default=None)

    def _stepped(
        self, task: Task, states: list[Any], inputs: list[Delta], interval: Interval
    ) -> tuple[list[Any], Delta]:
        if len(states) == 1:
            state, delta = task.operator.step(states[0], inputs, interval)
            return [state], delta
        parts = [self._spread(task, side, changes) for side, changes in enumerate(inputs)]
        done = [
            task.operator.step(state, list(mine), interval)
            for state, *mine in zip(states, *parts, strict=True)
        ]
        deltas = [delta for _, delta in done]
        gathered = task.operator.together(deltas)
        if gathered is None:
            gathered = united(deltas, deltas[0].map(lambda rows: rows.slice(0, 0)))
        return [state for state, _ in done], gathered

    def _buckets_of(self, task: Task) -> int:
        spread = task.operator.moving is Moving.KEYED and task.operator.keyed
        return self.bucket_count if spread else 1

    def _spread(self, task: Task, side: int, delta: Delta) -> list[Delta]:
        operator: Any = task.operator

        def parts(rows: pa.Table) -> list[pa.Table]:
            where = buckets(operator.spread_by(rows, side), self.bucket_count)
            return [chosen(rows, where == number) for number in range(self.bucket_count)]

        return [
            Delta(born, cut) for born, cut in zip(parts(delta.born), parts(delta.cut), strict=True)
        ]

    # ── sources ───────────────────────────────────────────────────────────────────────────

    def _sources(self, kind: type[Any]) -> list[Any]:
        return [
            source for task in self._tasks for source in task.inputs if isinstance(source, kind)
        ]

    def _stream(self, name: str) -> StreamDefinition:
        entry = self.catalog.lookup(name)
        assert isinstance(entry, StreamDefinition)
        return entry

    def _entering(
        self,
        source: StreamInput | RelationInput,
        task: Task,
        batch: Mapping[str, pa.Table],
        interval: Interval,
        delivered: dict[Task, tuple[int, ...]],
    ) -> Delta:
        if isinstance(source, RelationInput):
            changing = self.relations[source.relation.casefold()]
            delta, delivered[task] = changing.between(source, interval, delivered[task])
            return _with_sight(delta) if task.operator.dual else delta
        rows = batch.get(source.stream)
        if rows is None:
            definition = self._stream(source.stream)
            kinds = {column.name: arrow_type(column.type) for column in definition.columns}
            fields = [(f"{source.alias}.{name}", kinds[name]) for name in source.columns]
            rows = pa.schema([*fields, (TS, pa.int64())]).empty_table()
        else:
            own = [f"{source.stream}.{name}" for name in source.columns]
            names = [*(f"{source.alias}.{name}" for name in source.columns), TS]
            rows = pa.table([rows.column(name) for name in (*own, TS)], names=names)
        if task.operator.intake:
            # Rows that are late may not enter a pane that would still take them.
            rows = chosen(rows, numbers(rows, TS) >= interval.began)
            for operator in task.operator.intake:
                rows = operator.prepared(rows)
        return Delta(rows, rows.slice(0, 0))

    def _prepared(self, name: str, rows: Any) -> pa.Table:
        """The declared columns under ``stream.column``, and ``_ts`` in microseconds."""
        definition = self._stream(name)
        kinds = {column.name: column.type for column in definition.supplied_columns}
        use_zone(definition.zone or self.zone)
        brought = as_table(f"stream {name}", rows, kinds)
        columns = computed(definition, {column: brought.column(column) for column in kinds})
        names = [column.name for column in definition.columns]
        times = columns[names.index(definition.time)]
        if times.null_count:
            raise BadInput(
                f"{counted(times.null_count, 'row')} of stream {name} without {definition.time}",
                "every row needs a time: filter or repair them before they enter the stream",
            )
        own = [f"{name}.{column}" for column in names]
        return pa.table([*columns, times.cast(pa.int64())], names=[*own, TS]).combine_chunks()

    def reads(self, relation: str) -> bool:
        """Whether the query reads a relation or NRR."""
        names = [source.relation.casefold() for source in self._sources(RelationInput)]
        return text("the name of a relation", relation).casefold() in names

    # ── what came of it ───────────────────────────────────────────────────────────────────

    def _logged(self, answer: Delta, sent: pa.Table | None) -> pa.Table:
        if sent is not None:
            self._log.append_sent(sent, self.clocks.query)
            return self._expanded([sent], MIN_TIME, NEVER)
        self._log.append(answer, self.clocks.query)
        return self._change_rows(answer)

    @property
    def times(self) -> LifetimeColumns:
        """What the times of results are called, beside the columns of the query."""
        return LifetimeColumns.beside(column.name for column in self.program.plan.schema)

    def _change_rows(self, delta: Delta) -> pa.Table:
        born = delta.born.append_column(END, pa.nulls(delta.born.num_rows, pa.int64()))
        return self._named(pa.concat_tables([born, delta.cut.select(born.schema.names)]))

    def _named(self, rows: pa.Table, exp: str | None = None) -> pa.Table:
        """Under the names a user knows: without relation, with times."""
        rows = rows.drop_columns([name for name in (ID,) if name in rows.schema.names])
        own = {TS: self.times.ts, EXP: exp or self.times.exp, END: self.times.cut}
        names = [own.get(name) or name.partition(".")[2] or name for name in rows.schema.names]
        return rows.rename_columns(names)

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> pa.Table:
        """Everything sent so far, or in [since, until); for a view, what was born and what was cut.

        A view's rows have ``ts`` and ``exp``; a row with ``cut`` says that the one born with the
        same values, ts and exp ends at that instant instead. Rows that Rstream sent at a million
        refreshes and more stay what they are kept as, one for all refreshes from ``ts`` to
        ``until``: ask for less.
        A column of the query keeps such a name; see ``times``.
        """
        low = MIN_TIME if since is None else instant(since)
        high = NEVER if until is None else instant(until)
        if self.program.sent is not None:
            return self._expanded(self._log.sent, low, high)
        return self._change_rows(self._log.whole.delta())

    def _expanded(self, sent: Sequence[pa.Table], since: int, until: int) -> pa.Table:
        """What was sent, row by row, or as runs of refreshes where that would be too much."""
        assert self.program.sent is not None
        slide, columns = self.program.sent.slide, self.program.answer.columns
        none = {name: np.empty(0, np.int64) for name in (TS, EXP)}
        rows = concatenated([with_numbers(columns.empty_table(), **none), *sent])
        ts, exp = numbers(rows, TS), numbers(rows, EXP)
        rows = chosen(rows, (ts < until) & (exp > since))
        if slide is None or not slide.period:
            rows = chosen(rows, numbers(rows, TS) >= since)
        else:
            ends = np.minimum(numbers(rows, EXP), until)
            starts = np.maximum(numbers(rows, TS), slide.at_or_after(max(since, -NEVER)))
            rows = chosen(with_numbers(rows, **{TS: starts, EXP: ends}), starts < ends)
            if repetitions(rows, slide) > MOST_EXPANDED:
                runs = with_numbers(rows, **{EXP: numbers(rows, EXP) - 1})
                return self._named(runs, exp=self.times.until)
            rows = concatenated([rows.slice(0, 0), *repeated(rows, slide, since, until)])
        return self._named(rows.drop_columns([EXP]))

    def lifetimes(self) -> pa.Table:
        """Every result of a view with its final lifetime; empty ones are left out."""
        self._check_view()
        return self._named(self._log.whole.lifetimes())

    def _check_view(self) -> None:
        if self.program.sent is not None:
            raise InvalidSetting(
                f"the query sends {self.program.sent.name}, its rows have no lifetimes",
                "leave the stream operator out to keep a view",
            )

    def snapshot(self, as_of: int | str | None = None) -> pa.Table:
        """The answer at a closed instant (by default the last closed one)."""
        moment = closed_instant(as_of, self.clocks.query, source="feed")
        self._check_view()
        if moment < self._log.since:
            raise InvalidSetting(
                f"the answer as of {instant_text(moment)} is no longer kept",
                f"ask from {instant_text(self._log.since)} on, or give the query more history",
            )
        log = self._named(self._log.lifetimes_after(moment, self.clocks.query))
        ts, exp = log[self.times.ts], log[self.times.exp]
        alive = pc.and_(pc.less_equal(ts, moment), pc.greater(exp, moment))
        return log.filter(alive).drop_columns([self.times.ts, self.times.exp])

    @property
    def late(self) -> dict[str, int]:
        """Rows whose instant or key was already closed, by stream."""
        counts = {name: self._late[name] for name in self.clocks.streams}
        for task in self._tasks:
            # A window, which knows what came late, has one input; its buckets share the rows.
            late = sum(task.operator.late(state) for state in self._states[task])
            for source in task.inputs:
                if isinstance(source, StreamInput):
                    counts[source.stream] = max(counts[source.stream], late)
        for name, keys in self._closed.items():
            counts[name] += keys.late
        return counts

    @property
    def state_rows(self) -> int:
        return sum(report.state_rows for report in self.reports())

    def reports(self) -> list[OperatorReport]:
        """Rows, state and time of every operator, inputs first."""
        keys = [
            OperatorReport(f"closed keys of {name}", 0, 0, closed.rows, closed.bytes, 0.0)
            for name, closed in self._closed.items()
        ]
        return keys + [
            OperatorReport(
                task.operator.name,
                self._worked[task].rows_in,
                self._worked[task].rows_out,
                sum(state.rows for state in self._states[task]),
                sum(state.bytes for state in self._states[task]),
                self._worked[task].seconds,
                self._worked[task].touched,
            )
            for task in self._tasks
        ]

    @property
    def states(self) -> dict[Task, list[Any]]:
        """The state of every task and bucket, for inspection."""
        return self._states


def _with_sight(delta: Delta) -> Delta:
    born = with_numbers(delta.born, **{SEEN: numbers(delta.born, EXP)})
    ends = {SEEN: numbers(delta.cut, EXP), SEEN_END: numbers(delta.cut, END)}
    cut = with_numbers(delta.cut.drop_columns([END]), **{SEEN: ends[SEEN]})
    cut = with_numbers(cut, **{END: numbers(delta.cut, END), SEEN_END: ends[SEEN_END]})
    return Delta(born, cut)
