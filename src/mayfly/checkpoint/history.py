"""History for newcomers: which rows a new query needs, and where they are kept already.

Idea: a query that joins a running pipeline may answer at once if the windows it needs are kept
(thesis, Definition 3.1). The rows of a time window lie in the log of a view that only selects and
projects, in a join or in a grouping, and those whose instant is open wait before the window. Each
of these is a *keeping*: all rows of a stream that satisfy some conditions, since some instant.
A newcomer's access takes the keeping that goes back furthest among those whose conditions it has,
too, and that hold its columns.
Invariant: from ``whole_from`` on, the answer is that of a query that was always there. An access
of length d that knows its rows since k is whole from k + d - 1 on, with SLIDE s from k + d + s - 1.
Cost: O(tasks of the program); no row is read here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mayfly.checkpoint.awaited_rows import AwaitedRow, RowCount
from mayfly.checkpoint.reader_history import Entrance, WindowReading
from mayfly.checkpoint.row_history import (
    PaneUse,
    first_pane,
    panes_known_since,
    rows_known_from,
    stream_of,
)
from mayfly.kernels.delta import column_name
from mayfly.kernels.operator import Copy
from mayfly.kernels.pane_edges import reach_of
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.physical.shared_program import ClockGroup, described
from mayfly.physical.stages import (
    Feed,
    StagedAnswer,
    StagedProgram,
    StagedTask,
    feeds_of,
    tasks_of,
)
from mayfly.plan.expressions import Cast, Column, Expression, conjuncts
from mayfly.plan.window_kinds import Landmark, Now, PartitionRows, Range, Unbounded, Window
from mayfly.runtime.clock import Clocks
from mayfly.storage.segment import TS

WAITING = "waiting"
Place = tuple[str, str]
"""A state and the part of it that holds rows."""


@dataclass(frozen=True)
class KeptHistory:
    """What a checkpoint says about the rows its queries keep."""

    clocks: Clocks
    late: Mapping[str, int]
    """Per stream: rows that were late for some query."""
    shed: Mapping[str, int]
    """Per stream: rows that were left out, perhaps by some joins only."""
    log_from: Mapping[str, int]
    """Per query: the instant from which its log is whole."""
    known_from: Mapping[str, int]
    """Per window of a query that came later: the instant from which it knows all rows."""
    times: Mapping[str, str]
    """Per stream: its column of time, which every kept row has."""
    numbered: Mapping[str, RowCount] = field(default_factory=dict)
    """Per state of panes of rows: how far it has counted."""


@dataclass(frozen=True)
class Keeping:
    """All rows of a stream since ``known_from`` that satisfy the conditions; where they lie."""

    stream: str
    readers: tuple[str, ...]
    """The streams of the queries that keep the rows: these say which rows were late."""
    conditions: frozenset[str]
    places: Mapping[Place, Mapping[str, str]]
    """Per place: column of the stream → name under which it is stored."""
    known_from: int
    clock: int
    """Rows before it have left those that wait, though some may still be stored with them."""

    def has(self, names: tuple[str, ...]) -> bool:
        return all(set(names) <= set(stored) for stored in self.places.values())


@dataclass(frozen=True)
class Access:
    """A window of a newcomer over a stream: the rows it needs."""

    feed: int
    task: str
    stream: str
    columns: tuple[str, ...]
    conditions: frozenset[str]
    reach: int | None
    """How long a row matters; None: for ever."""
    start: int = MIN_TIME
    """Rows before it never matter."""

    def needed_from(self, instant: int) -> int:
        """The earliest row that matters at an instant or later."""
        if self.reach is None:
            return self.start
        return max(instant - self.reach + 1, self.start)

    def whole_from(self, known_from: int) -> int:
        """The first instant at which all rows that matter are known."""
        if known_from <= self.start:
            return MIN_TIME
        return NEVER if self.reach is None else min(known_from + self.reach - 1, NEVER)


@dataclass(frozen=True)
class Filling:
    """Rows for a window of a newcomer: those of a keeping, from an instant on."""

    access: Access
    keeping: Keeping
    since: int


@dataclass(frozen=True)
class StoredHistory:
    """What the newcomers of a program get to know at once."""

    fillings: tuple[Filling, ...]
    began: Mapping[int, int]
    """Per group that is filled: the instant of its first step."""
    known_from: Mapping[str, int]
    """Per window: the instant from which it knows all rows."""
    whole_from: Mapping[str, int]
    """Per newcomer: the instant from which its answers are whole."""
    awaited: Mapping[str, tuple[AwaitedRow, ...]]
    """Per newcomer: the rows with which they are, where no instant is known."""
    entering: Mapping[str, Entrance]
    """Per task that is answered together: the newcomers among its readers."""


def history_of(
    stages: StagedProgram, newcomers: frozenset[str], kept: KeptHistory
) -> StoredHistory:
    """Where the rows come from that the newcomers need, and what that makes of their answers."""
    groups = {output.group for output in stages.answers if output.query in newcomers}
    keepings = list(_keepings(stages, kept))
    forgetful = {
        feed
        for answer in stages.answers
        if answer.query in newcomers and _meets_nrr(stages, answer)
        for feed in feeds_of(stages, answer)
    }
    fillings, beginnings = [], {}
    accesses: dict[int, Access] = {}
    for number, feed in enumerate(stages.feeds):
        group = stages.tasks[feed.task].group
        if group not in groups:
            continue
        access = accesses[number] = _access(stages, number, feed)
        streams = stages.groups[group].streams
        fitting = [] if number in forgetful else _fitting(keepings, access, streams, kept)
        best = min(fitting, key=lambda keeping: keeping.known_from, default=None)
        arrived = kept.clocks.largest.get(access.stream)
        beginnings[access.task] = MIN_TIME if arrived is None else arrived + 1
        if best is not None and best.known_from < beginnings[access.task]:
            since = stages.groups[group].since
            assert since is not None
            beginnings[access.task] = best.known_from
            earliest = since - 1 - max(_looks_back(output) for output in stages.answers)
            start = max(access.needed_from(earliest), best.known_from)
            fillings.append(Filling(access, best, start))
    began = _began(stages, fillings)
    newcomers_groups = {stages.groups[number] for number in groups}
    readings = WindowReading.all_of(stages)
    entering: dict[str, Entrance] = {}
    for reading in readings:
        if reading.group not in newcomers_groups:
            continue
        since = panes_known_from(reading, readings, newcomers_groups, kept)
        beginnings[reading.key] = max(since, beginnings.get(reading.key, MIN_TIME))
        clock = kept.clocks.of(reading.group.streams).query
        start = max(clock - reach_of(reading.window), beginnings[reading.key])
        if start < clock:
            number = stages.groups.index(reading.group)
            began[number] = min(began.get(number, NEVER), start)
            if reading.reader is not None:
                _enter(entering, reading, start)
    rows = _rows_found(stages, groups, kept, began, beginnings)
    whole, awaited = dict[str, int](), dict[str, tuple[AwaitedRow, ...]]()
    for answer in stages.answers:
        if answer.query in newcomers:
            whole[answer.query] = _whole_from(stages, answer, accesses, readings, beginnings)
            below = (task.name for task in tasks_of(stages, answer))
            waits = tuple(row for name in below if (row := rows.get(name)) is not None)
            awaited |= {answer.query: waits} if waits else {}
    return StoredHistory(tuple(fillings), began, beginnings, whole, awaited, entering)


def _rows_found(
    stages: StagedProgram,
    groups: Collection[int],
    kept: KeptHistory,
    began: dict[int, int],
    beginnings: dict[str, int],
) -> dict[str, AwaitedRow | None]:
    """What each newcomer that reads panes of rows waits for, if anything; what it finds is shown
    at the last instant that is closed."""
    beginnings |= {name: count.lacks_until for name, count in kept.numbered.items()}
    rows = dict[str, AwaitedRow | None]()
    for reader in stages.tasks:
        window = reader.operator.reads_rows
        if window is None or reader.group not in groups:
            continue
        (number,) = reader.local
        assert number is not None
        store = stages.tasks[number]
        count = kept.numbered[store.name]
        clock = kept.clocks.of(stages.groups[reader.group].streams).query
        known_from = rows_known_from(stages, reader, groups, kept.known_from, count, clock)
        first = first_pane(window, known_from)
        if first < NEVER:
            beginnings[reader.name] = first
        if first <= count.rows:
            began[reader.group] = min(began.get(reader.group, NEVER), clock - 1)
        assert window.slide is not None
        lengths, stream = (window.count, window.slide.rows or 1), stream_of(stages, store)
        rows[reader.name] = AwaitedRow.of(store.name, stream, lengths, known_from, count)
    return rows


def _enter(entering: dict[str, Entrance], reading: WindowReading, start: int) -> None:
    assert reading.reader is not None
    before = entering.get(reading.task.name, Entrance(start, frozenset()))
    readers = before.readers | {reading.reader}
    entering[reading.task.name] = Entrance(min(before.began, start), readers)


def panes_known_from(
    reading: WindowReading,
    readings: Sequence[WindowReading],
    newcomers: Collection[ClockGroup],
    kept: KeptHistory,
) -> int:
    """Since when a newcomer knows all rows of the panes that others have kept for themselves.

    Another reader of them says since when there are the edges and numbers that it uses, as far
    back as its own window reaches; what none of them uses there is only in rows that come now.
    """
    stores = [number for number in reading.task.local if number is not None]
    others = [other for other in readings if other.group not in newcomers]
    return max(_store_known_from(reading, store, others, kept) for store in stores)


def _store_known_from(
    reading: WindowReading, store: int, others: Sequence[WindowReading], kept: KeptHistory
) -> int:
    streams = reading.group.streams
    clock = kept.clocks.of(streams).query
    users = []
    for other in others:
        if store in other.task.local:
            begun = MIN_TIME if other.group.since is None else NEVER
            since = kept.known_from.get(other.key, begun)
            users.append(PaneUse(other.window, other.task.operator.numbers_read, since))
    # Rows up to the largest are in panes that are cut as they were.
    arrived = kept.clocks.largest.get(streams[0])
    fresh = MIN_TIME if arrived is None else arrived + 1
    asked = PaneUse(reading.window, reading.task.operator.numbers_read, MIN_TIME)
    return min(panes_known_since(asked, users, clock), fresh)


def _began(stages: StagedProgram, fillings: list[Filling]) -> dict[int, int]:
    began: dict[int, int] = {}
    for filling in fillings:
        group = stages.tasks[stages.feeds[filling.access.feed].task].group
        began[group] = min(began.get(group, NEVER), filling.since)
    return began


def _whole_from(
    stages: StagedProgram,
    answer: StagedAnswer,
    accesses: Mapping[int, Access],
    readings: Sequence[WindowReading],
    beginnings: Mapping[str, int],
) -> int:
    """The first instant of whole answers that is not older than the last one closed."""
    since = stages.groups[answer.group].since
    assert since is not None
    instants = [
        accesses[feed].whole_from(beginnings[accesses[feed].task])
        for feed in feeds_of(stages, answer)
        if feed in accesses
    ]
    tasks = {task.number for task in tasks_of(stages, answer)}
    for reading in readings:
        other = answer.share is not None and reading.reader != answer.share.reader
        known_since = beginnings.get(reading.key, MIN_TIME)
        if reading.task.number in tasks and not other and known_since > MIN_TIME:
            instants.append(min(known_since + reach_of(reading.window) - 1, NEVER))
    latest = max(instants, default=MIN_TIME)
    if MIN_TIME < latest < NEVER:
        latest = min(latest + _looks_back(answer), NEVER)
    return max(latest, since - 1)


def _looks_back(answer: StagedAnswer) -> int:
    """How far behind an instant the answers lie with which what is sent at it compares."""
    sent = answer.sent
    if sent is None or (sent.slide is not None and not sent.restore):
        return 0
    return 1 if sent.slide is None else sent.slide.period or 1


def _fitting(
    keepings: list[Keeping], access: Access, streams: tuple[str, ...], kept: KeptHistory
) -> list[Keeping]:
    return [
        keeping
        for keeping in keepings
        if keeping.stream == access.stream
        and keeping.conditions <= access.conditions
        and keeping.has(access.columns)
        # Queries over other streams have other clocks, and other rows were late for them.
        and (keeping.readers == streams or not kept.late.get(access.stream, 0))
    ]


def _meets_nrr(stages: StagedProgram, answer: StagedAnswer) -> bool:
    """Whether results depend on what an NRR was when their rows came."""
    return any(task.operator.momentary for task in tasks_of(stages, answer))


# ── what is needed ────────────────────────────────────────────────────────────────────────


def _access(stages: StagedProgram, number: int, feed: Feed) -> Access:
    task = stages.tasks[feed.task]
    conditions, columns, _ = _along(feed)
    users = [(reader, side) for reader in stages.tasks for side, source in enumerate(reader.local)
             if source == task.number]  # fmt: skip
    sent_on = [link.task for link in stages.links] + [answer.task for answer in stages.answers]
    if len(users) == 1 and task.number not in sent_on:
        user, side = users[0]
        copy = user.operator.copy(side)
        if copy is not None:
            conditions |= _present(copy, columns) or set()
    window = _window_of(task)
    # Answers may be those of a refresh before the instant.
    reach = _reach(window, task.operator.dual)
    lag = max(other.operator.lag for other in stages.tasks if other.group == task.group)
    reach = None if reach is None else min(reach + lag, NEVER)
    start = window.start if isinstance(window, Landmark) else MIN_TIME
    return Access(
        number, task.name, feed.source.stream, feed.source.columns, frozenset(conditions),
        reach, start,
    )  # fmt: skip


def _window_of(task: StagedTask) -> Window:
    window = task.operator.opens
    assert window is not None, "rows of a stream go to windows"
    return window


def _reach(window: Window, dual: bool) -> int | None:
    slide = window.slide
    if dual or (slide is not None and slide.rows):
        return None
    if not isinstance(window, Range | Now | PartitionRows):
        return None
    lasting = window.duration if isinstance(window, PartitionRows) else window.lifetime
    return None if lasting is None else lasting + (slide.period or 0 if slide else 0)


# ── what is kept ──────────────────────────────────────────────────────────────────────────


def _keepings(stages: StagedProgram, kept: KeptHistory) -> Iterator[Keeping]:
    for feed in stages.feeds:
        task = stages.tasks[feed.task]
        window, group = _window_of(task), stages.groups[task.group]
        conditions, columns, complete = _along(feed)
        beginning = kept.known_from.get(task.name, MIN_TIME if group.since is None else NEVER)
        if not complete or beginning == NEVER or not _keeps_times(window):
            continue
        lasting = window.lifetime
        clock = kept.clocks.of(group.streams).query
        time = {kept.times[feed.source.stream]: TS}
        stream = feed.source.stream
        for place, held, more, bound in _holders(stages, task, stream, columns, kept, clock):
            yield Keeping(
                stream,
                group.streams,
                frozenset(conditions | more),
                {(f"task/{task.name}", WAITING): {**_turned(columns), **time},
                 place: {**_turned(held), **time}},
                max(beginning, MIN_TIME if lasting is None else max(bound - lasting, MIN_TIME)),
                clock,
            )  # fmt: skip


def _keeps_times(window: Window) -> bool:
    """Whether rows behind the window have the times they came with, and none is displaced."""
    return isinstance(window, Range | Now | Unbounded) and window.slide is None


Held = tuple[Place, Mapping[str, str], set[str], int]
"""Where, stored name → column of the stream, conditions, and: rows that expire later are there."""


def _holders(
    stages: StagedProgram,
    task: StagedTask,
    stream: str,
    columns: Mapping[str, str],
    kept: KeptHistory,
    clock: int,
) -> Iterator[Held]:
    for answer in stages.answers:
        if answer.task == task.number and answer.sent is None and answer.query in kept.log_from:
            yield (f"log/{answer.query}", "kept"), columns, set(), kept.log_from[answer.query] + 1
    for user in stages.tasks:
        for side, source in enumerate(user.local):
            if source != task.number:
                continue
            copy = user.operator.copy(side)
            present = None if copy is None else _present(copy, columns)
            lacking = user.operator.combines and kept.shed.get(stream, 0)
            if copy is None or present is None or lacking:
                continue
            held = columns if copy.columns is None else _renamed(copy.columns, columns)
            yield (f"task/{user.name}", copy.part), held, present, clock + copy.behind


def _renamed(
    computed: Iterable[tuple[str, Expression]], columns: Mapping[str, str]
) -> dict[str, str]:
    """New name → column of the stream, of those that are columns of it as they are."""
    return {
        name: columns[source]
        for name, expression in computed
        if (source := _plain(expression)) in columns
    }


def _plain(expression: Expression) -> str:
    return column_name(expression) if isinstance(expression, Column) else ""


def _turned(stored: Mapping[str, str]) -> dict[str, str]:
    return {raw: name for name, raw in stored.items()}


def _along(feed: Feed) -> tuple[set[str], dict[str, str], bool]:
    """What a feed's path does: conditions on the stream, names of its columns behind the path,
    and whether rows that satisfy these conditions are all there."""
    alias, stream = feed.source.alias, feed.source.stream
    columns = {f"{alias}.{name}": name for name in feed.source.columns}
    conditions: set[str] = set()
    raw = complete = True
    for operator in feed.path:
        if operator.selects is not None:
            terms = conjuncts(operator.selects)
            complete = complete and raw
            conditions |= {described(term, {alias: stream}) for term in terms} if raw else set()
        elif operator.spans is not None:
            complete = False
        else:
            columns, raw = _renamed(operator.computes() or (), columns), False
    return conditions, columns, complete


def _present(copy: Copy, columns: Mapping[str, str]) -> set[str] | None:
    """The condition an operator puts on rows that it keeps: no key is NULL. None if that cannot be
    told."""
    # A cast to the keys' common type is NULL only where its column is.
    keys = [
        _plain(key.child if isinstance(key, Cast) and not key.safe else key)
        for key in copy.required
    ]
    if not all(key in columns for key in keys):
        return None
    return {f"{columns[key]} is there" for key in keys}
