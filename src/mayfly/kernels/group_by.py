"""GROUP BY and aggregation over rows with lifetimes; without aggregates it is strict δ.

Idea: a group changes when a row arrives, expires or is cut. The events of a step, sorted by group
and instant, give versions: one per group and instant at which something happened. COUNT, and SUM
and AVG of whole numbers, are running totals over the events; other aggregates play the events over
what the groups held before (aggregates.py). What becomes of versions is in group_results.py. Where
rows leave only by expiration, MIN and MAX drop those that cannot matter any more (dominance.py).
Invariants: one row per group and instant; the value of a version depends only on the rows alive.
Cost: O(events · log); other aggregates also lay out the rows that touched groups held before.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, places_in, stable_order
from mayfly.kernels.aggregate_steps import (
    Aggregator,
    Known,
    Totals,
    aggregator,
    without_repeats,
)
from mayfly.kernels.alive_before import Before
from mayfly.kernels.codes import group_codes
from mayfly.kernels.delta import (
    ID,
    SHOWN,
    Delta,
    column_name,
    taken,
    with_numbers,
)
from mayfly.kernels.dominance import EXTREMES, Pruning, obstacle
from mayfly.kernels.group_events import Events, Wide
from mayfly.kernels.group_members import GroupMembers
from mayfly.kernels.group_results import COUNT, GroupResults
from mayfly.kernels.holistic import Versions
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, chosen, numbers, whole
from mayfly.kernels.operator import (
    NO_IDS,
    Alone,
    Copy,
    Forgetting,
    Holding,
    Key,
    StateKey,
    Working,
    plain_key,
)
from mayfly.kernels.refreshes import Refreshes, listed
from mayfly.kernels.resident import RESIDENTS, Parts, place_of
from mayfly.kernels.room import touch
from mayfly.kernels.stateless import satisfying
from mayfly.kernels.upkeep import unthinned
from mayfly.kernels.value_spans import every_row_words
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.plan_text import aggregate_text, expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.window_kinds import Slide
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class GroupState:
    """The rows a group is made of, and one row per group: its totals and its last result."""

    members: KeptRows
    groups: KeptRows
    begun: bool = False
    first: int | None = None
    """The instant of the first row, from which on INTERNAL windows answer every refresh."""

    @property
    def rows(self) -> int:
        return self.members.rows + self.groups.rows

    @property
    def bytes(self) -> int:
        return self.members.bytes + self.groups.bytes


@dataclass(frozen=True)
class GroupRows(Alone):
    """One result per group: its keys, then its aggregates, filtered by ``having``.

    ``append_only`` is for INTERNAL windows: every version is a result that stays, with ``slide``
    one per refresh.
    """

    name: str
    keys: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...]
    columns: pa.Schema
    having: Expression | None
    shape: Shape
    append_only: bool = False
    slide: Slide | None = None
    dual: bool = False
    early_pruning: bool = field(default=True, compare=False, kw_only=True)
    """Whether dominated rows may go early. The answers are the same, and a state goes on."""
    rows_because: str = field(default="", compare=False, kw_only=True)
    """Why rows are kept and not panes, where there is a SLIDE or a SESSION."""
    every_row_because: str = field(default="", compare=False, kw_only=True)
    """Why all rows are read, and not the first and last of each value and pane."""
    reads_spans: bool = field(default=False, compare=False, kw_only=True)
    """Whether only these are read: then of equal rows it keeps the last to go."""
    _aggregators: tuple[Aggregator, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_aggregators", tuple(map(aggregator, self.calls)))

    @property
    def is_global(self) -> bool:
        return not self.keys and bool(self.calls)

    @cached_property
    def members(self) -> GroupMembers:
        """What is kept of rows."""
        keys = pa.schema(list(self.columns)[: len(self.keys)])
        return GroupMembers(self.keys, keys, self._arguments, self.dual)

    def state(self) -> GroupState:
        return GroupState(KeptRows(self.shape), KeptRows(Shape(self._results)))

    @property
    def _results(self) -> Structure:
        return Structure.GROUPS if self.calls else Structure.COUNTS

    def state_key(self) -> StateKey:
        return StateKey(
            "GroupRows",
            (
                ("keys", self.keys),
                ("calls", self.calls),
                ("columns", self.columns),
                ("having", self.having),
                ("shape", self.shape),
                ("append_only", self.append_only),
                ("slide", self.slide),
                ("dual", self.dual),
                ("_aggregators", tuple(aggregate.state_key() for aggregate in self._aggregators)),
            ),
        )

    @property
    def title(self) -> str:
        return "Aggregate" if self.calls else "strict δ"

    @property
    def detail(self) -> str:
        return aggregate_text(self.keys, self.calls, self.having) if self.calls else ""

    @property
    def reason(self) -> str:
        if not self.calls:
            return "equal rows meet in one bucket"
        return "a group lies in one bucket" if self.keys else "one value over all rows"

    def holdings(self) -> tuple[Holding, ...]:
        words, shape = self.key_words(), self.shape
        return (
            Holding(
                "members", shape.form, "", 0, words, "", shape.ranges, note=self._note,
                per_value=2 if self._keeps_values else None, keys=self._value_keys,
            ),
            Holding("groups", self._results, "groups" if self.calls else "values", None, words),
        )  # fmt: skip

    @property
    def _value_keys(self) -> tuple[Expression, ...]:
        """What tells rows apart that are not equal."""
        return (*self.keys, *(argument for _, argument in self._arguments))

    def workings(self) -> tuple[Working, ...]:
        return tuple(
            Working(
                aggregate_text((), [aggregate.call], None),
                aggregate.way.structure,
                aggregate.way.why,
            )
            for aggregate in self._aggregators
        )

    @property
    def keyed(self) -> bool:
        return bool(self.keys)

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self.keys, [key.type for key in self.keys])

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self.keys))

    def own_key(self) -> tuple[str, ...]:
        return tuple(self.members.key_names)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        if kept[0] is None:
            return Spread.by(self.own_key())
        return kept[0].renamed(zip(self.key_of(), self.own_key(), strict=True))

    def copy(self, side: int) -> Copy | None:
        if self._is_prunable:  # perhaps by an earlier run, if not by this one
            return None
        return Copy("members", (*zip(self.own_key(), self.keys, strict=True), *self._arguments))

    @cached_property
    def _arguments(self) -> tuple[tuple[str, Expression], ...]:
        """What is kept of members beside their keys."""
        return tuple(
            (f"_argument{number}", call.argument)
            for number, call in enumerate(self.calls)
            if call.argument is not None
        )

    def forgets(self) -> tuple[Forgetting, ...]:
        if self.append_only or self.dual:
            return ()
        kept = zip(self.keys, self.own_key(), strict=True)
        columns = [(column_name(key), own) for key, own in kept if isinstance(key, Column)]
        return (Forgetting(("members", "groups"), {0: tuple(columns)}),)

    def identities(self, state: GroupState) -> Int64s:
        return np.concatenate([NO_IDS, *state.groups.column(ID)])

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return group_codes([whole(rows.column(name)) for name in self.own_key()], rows.num_rows)

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        if not self.keys:
            return None
        return group_codes(self.members.key_arrays(rows), rows.num_rows)

    def step(
        self, state: GroupState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[GroupState, Delta]:
        """New versions of the groups that something happened to, and what they replace."""
        delta, members = inputs[0], state.members
        if delta.cut.num_rows:
            members = members.cut(self.members.of(delta.cut))
        fresh = self.members.of(delta.born) if delta.born.num_rows else self.members.none
        due = rows_with(members.due(interval.began, interval.clock), self.members.none)
        first = state.first
        if first is None and fresh.num_rows:
            first = int(numbers(fresh, TS).min())
        if not fresh.num_rows and not due.num_rows and self._is_idle(state, interval):
            kept = members.aged(interval.clock - 1)
            RESIDENTS.move(place_of(state.members), place_of(kept))
            return replace(state, members=kept, first=first), self._output.nothing
        lasting = chosen(fresh, numbers(fresh, EXP) >= interval.clock)
        pruning = Pruning(self.calls, interval.clock, EXTREMES if self.early_pruning else ())
        kept = members.after(lasting, interval.clock - 1, pruning if self.prunes else unthinned)
        if self._keeps_values:
            kept = kept.compacted(interval.clock - 1, pruning)
        events = self.members.events(fresh, [due, *pruning.dropped], interval)
        if self.is_global and not state.begun and not interval.is_empty:
            # Before the first row there is a result too: COUNT 0, the others NULL.
            events = events.with_versions(pa.table({CODE: [0]}), np.array([MIN_TIME]))
        instants = self._answered(interval)
        if self.append_only and self.slide is not None:
            touched = len(events.codes) + state.groups.rows
            refreshes = Refreshes.of(self.slide, first, interval)
            instants = listed(refreshes, self.name, max(1, touched))
        if len(instants):
            events = self.members.refreshed(state.groups, events, instants)
        if not len(events.code):
            return GroupState(kept, state.groups, state.begun, first), self._output.nothing
        resident_parts = RESIDENTS.take(self._owner, state.members) if self._residue else {}
        state = replace(state, members=members)
        groups, delta, before = self._replaced(state, events, interval, resident_parts)
        if self._residue and before is not None:
            left = before.passed_on(resident_parts, events.codes)
            RESIDENTS.put(self._owner, kept, left, is_new=not resident_parts)
        return GroupState(kept, groups, True, first), delta

    # ── rows that may go before they expire ───────────────────────────────────────────────

    @cached_property
    def _obstacle(self) -> str:
        internal = self.append_only or self.dual
        if not self.calls and not self.reads_spans:
            return "no MIN, MAX"
        calls = () if self.reads_spans else self.calls
        return obstacle(calls, self.shape.structure, internal)

    @property
    def _is_prunable(self) -> bool:
        return not self._obstacle

    @property
    def prunes(self) -> bool:
        """Whether dominated rows are dropped."""
        return self._keeps_values or (self.early_pruning and self._is_prunable)

    @property
    def _keeps_values(self) -> bool:
        """Whether it keeps a row or two of each value."""
        return self.reads_spans and self._is_prunable

    @property
    def _note(self) -> str:
        rows = f"rows and no panes: {self.rows_because}" if self.rows_because else ""
        every = every_row_words(self.every_row_because)
        return "; ".join(filter(None, (self._pruning_note, rows, every)))

    @property
    def _pruning_note(self) -> str:
        if self._keeps_values:
            return "of equal rows the last to go is kept"
        if not any(call.function in EXTREMES for call in self.calls):
            return ""
        if self.prunes:
            return "early pruning: rows go that live no longer and are no better than another"
        return f"no early pruning: {self._obstacle or 'the rule is switched off'}"

    # ── what stays in memory between steps ────────────────────────────────────────────────

    @property
    def _owner(self) -> tuple[Hashable, ...]:
        # Another class under the name of a user's aggregate finds nothing of the former one.
        codes = tuple(call.user.digest for call in self.calls if call.user is not None)
        return self.keys, self.calls, codes

    @cached_property
    def _residue(self) -> frozenset[Hashable]:
        """What large groups leave for the next step, if that spares it to read their rows."""
        names = [
            aggregate.way.name(aggregate.call)
            for aggregate in self._aggregators
            if aggregate.way.play
        ]
        return frozenset() if None in names else frozenset(names)

    def _is_idle(self, state: GroupState, interval: Interval) -> bool:
        """Whether a step in which no row comes or goes changes nothing."""
        answered = state.begun or not self.is_global
        return answered and not (self.append_only and self.slide is not None)

    def _answered(self, interval: Interval) -> Int64s:
        """Instants at which every group has a version, whatever comes and goes."""
        return np.empty(0, np.int64)

    def full_from(self, interval: Interval) -> int:
        """The instant from which on the window reaches back to no time before the first row."""
        return MIN_TIME

    # ── results ───────────────────────────────────────────────────────────────────────────

    def _replaced(
        self,
        state: GroupState,
        events: Events,
        interval: Interval,
        resident: Mapping[int, Parts],
    ) -> tuple[KeptRows, Delta, Before | None]:
        """Versions against the last results: what is born, what is cut, what is kept."""
        codes = events.codes
        last_results = rows_with(state.groups.of_codes(codes), self._no_groups)
        last_results = taken(last_results, stable_order(numbers(last_results, CODE)))
        events.check(last_results)
        versions, totals = self._versions(events, last_results, state.members, interval, resident)
        table = self._version_rows(events, versions, totals)
        groups = state.groups
        if self.append_only:
            kept, delta = self._output.append(groups, table, versions.group, codes)
        else:
            kept, delta = self._output.replace(groups, last_results, table, versions.group, codes)
        return kept, delta, versions.before

    @cached_property
    def _output(self) -> GroupResults:
        return GroupResults(self.columns, len(self.keys), self.is_global, self.dual)

    # ── values of versions ────────────────────────────────────────────────────────────────

    def presence(self, events: Events) -> Int64s:
        """How many members each event is about."""
        return np.ones_like(events.sign)

    def _versions(
        self,
        events: Events,
        last_results: pa.Table,
        members: KeptRows,
        interval: Interval,
        resident: Mapping[int, Parts],
    ) -> tuple[Versions, list[Totals]]:
        last = events.last_of_instant
        group = events.group_of_instant
        time = events.time[last]
        place = places_in(events.codes, numbers(last_results, CODE))
        former = Wide.of(numbers(last_results, COUNT))
        counts = events.running(self.presence(events), place, former).low
        full = time >= self.full_from(interval)
        versions = Versions(group, time, counts, events.codes[group], full)
        if any(aggregate.way.play for aggregate in self._aggregators):
            before = Before.of(members, events.codes, interval.began, resident)
            touch(before.rows + len(events.code))
            large = versions.large if self._residue else events.codes[:0]
            versions = replace(versions, before=replace(before, large=large))
        names = self.columns.names[len(self.keys) :]
        totals = [
            aggregate.totals(
                events,
                place,
                Known(last_results, name, f"_total{number}"),
                f"_argument{number}",
                versions,
            )
            for number, (aggregate, name) in enumerate(zip(self._aggregators, names, strict=True))
        ]
        return (versions, totals) if self.append_only else without_repeats(versions, totals)

    def _version_rows(self, events: Events, versions: Versions, totals: list[Totals]) -> pa.Table:
        first = events.first_of_group[versions.group]
        table = self._group_rows(events, first, totals, versions)
        shown = (versions.count > 0) | self.is_global
        if self.having is not None and table.num_rows:
            shown &= satisfying(self.having, table)
        return with_numbers(table, **{SHOWN: shown.astype(np.int64)})

    def _group_rows(
        self,
        events: Events,
        first: Int64s,
        totals: list[Totals],
        versions: Versions,
    ) -> pa.Table:
        keys = events.keys(first) if self.keys else None
        arrays = {} if keys is None else dict(zip(self.own_key(), keys.columns, strict=True))
        for name, kind, total in zip(
            self.columns.names[len(self.keys) :],
            self.columns.types[len(self.keys) :],
            totals,
            strict=True,
        ):
            arrays[name] = total.plain(kind)
        size = len(first)
        numbers_of = {
            TS: versions.time,
            EXP: np.full(size, NEVER),
            ID: versions.code,
            CODE: versions.code,
            COUNT: versions.count,
            SHOWN: np.zeros(size, np.int64),
        }
        for number, total in enumerate(totals):
            for extra, values in total.kept.items():
                numbers_of[f"_total{number}{extra}"] = values
        table = pa.table(arrays) if arrays else None
        if table is None:
            table = pa.table({TS: pa.array(numbers_of[TS])})
        return with_numbers(table, **numbers_of)

    @cached_property
    def _no_groups(self) -> pa.Table:
        """The columns of ``_group_rows``, made once: steps of few rows would notice."""
        totals = [
            f"_total{number}{extra}"
            for number, aggregate in enumerate(self._aggregators)
            for extra in aggregate.kept
        ]
        names = (TS, EXP, ID, CODE, COUNT, SHOWN, *totals)
        fields = [*self.columns, *(pa.field(name, pa.int64()) for name in names)]
        return pa.schema(fields).empty_table()
