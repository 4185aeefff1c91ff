"""OVER over rows that come and go: at every instant the values over the frames of the rows alive.

Idea: a partition changes when a row of it comes or goes; frame_versions.py tells which rows may
have another value then, and over which neighbours. What differs from the value before ends, and the
row goes on with the new one.
Invariant: each living row is in the answer once, with the value over its frame at that instant.
Cost: per event the rows whose frames hold what came or went; state: the rows and their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.delta import END, ID, LIFE, Delta, concatenated, mixed_ids, taken, with_numbers
from mayfly.kernels.dominance import WITHOUT_CUTS
from mayfly.kernels.frame_layout import Distances, Layout, peers_of
from mayfly.kernels.frame_rows import FrameTerms, OfPartitions, check_parts
from mayfly.kernels.frame_values import FrameInput
from mayfly.kernels.frame_versions import FrameSpan, FrameVersions
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers, whole
from mayfly.kernels.number_limits import may_be_first
from mayfly.kernels.operator import Holding, StateKey, Working
from mayfly.kernels.room import touch
from mayfly.kernels.shown_rows import SINCE, ShownRows, shown_identities
from mayfly.kernels.upkeep import unthinned
from mayfly.kernels.view_rows import VISIBLE, ChangingRows, Evaluated, places_of
from mayfly.lifetime import MIN_TIME
from mayfly.plan.over_frames import NumberLimit
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True)
class OverView(OfPartitions):
    """The rows alive with the values of ``terms`` behind them."""

    name: str
    columns: pa.Schema
    terms: FrameTerms
    results: pa.Schema
    shape: Shape
    because: str = ""
    limit: NumberLimit | None = None

    def state(self) -> ShownRows:
        return ShownRows(KeptRows(self.shape), KeptRows(Shape(Structure.GROUPS)))

    def state_key(self) -> StateKey:
        return StateKey(
            "OverView",
            (
                ("columns", self.columns),
                *self.terms.state_parts,
                ("shape", self.shape),
                *((("limit", self.limit),) if self.limit else ()),
            ),
        )

    @property
    def title(self) -> str:
        return "Over"

    @property
    def detail(self) -> str:
        return f"{self.terms.text}; a view: {self.because}"

    def holdings(self) -> tuple[Holding, ...]:
        words, shape = self.key_words(), self.shape
        return (
            Holding("members", shape.form, "", 0, words, "", shape.ranges, note=self._note),
            Holding("shown", Structure.GROUPS, "answer", None, words),
        )

    def workings(self) -> tuple[Working, ...]:
        structure = "the rows of a partition in the order of OVER"
        reason = "a row that comes or goes touches the rows whose frames may hold it"
        return (Working("frames", structure, reason),)

    def identities(self, state: ShownRows) -> Int64s:
        return shown_identities(state.shown)

    # ── a step ────────────────────────────────────────────────────────────────────────────

    def step(
        self, state: ShownRows, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[ShownRows, Delta]:
        """The rows that come, go or get another value, at each instant of the step."""
        began, clock = interval.began, interval.clock
        members = state.members.cut(self._coded(inputs[0].cut))
        fresh, due = self._coded(inputs[0].born), members.due(began, clock)
        lasting = chosen(fresh, numbers(fresh, EXP) >= clock)
        later = members.after(lasting, clock - 1, self._thinned if self.prunes else unthinned)
        if not fresh.num_rows and not due:
            return ShownRows(later, state.shown), Delta.empty(self.results)
        codes = np.unique(np.concatenate([numbers(table, CODE) for table in (fresh, *due)]))
        before = rows_with(members.of_codes(codes), fresh.slice(0, 0))
        before = chosen(before, numbers(before, EXP) >= began)
        rows = self._in_order(concatenated([before, fresh]))
        shown = rows_with(state.shown.of_codes(codes), self._no_shown)
        if self.prunes:
            shown = chosen(shown, np.isin(_births(shown), _births(rows)))
        changing = ChangingRows(
            self.columns.names, self.results, rows, shown, places_of(rows, shown), clock
        )
        delta, staying = changing.replaced(self._evaluated(rows, interval))
        kept = state.shown.without(codes).after(clustered(staying), MIN_TIME)
        return ShownRows(later, kept), delta

    def _coded(self, rows: pa.Table) -> pa.Table:
        names = [*self.columns.names, *LIFE, *([END] if END in rows.schema.names else [])]
        table = rows.select(names).combine_chunks()
        for name, part in zip(self.terms.part_names, self.terms.parts(rows), strict=True):
            table = table.append_column(name, part)
        table = with_numbers(table, **{CODE: self.terms.codes(rows)})
        return clustered(table) if table.num_rows else table

    @cached_property
    def _no_shown(self) -> pa.Table:
        parts = zip(self.terms.part_names, self.terms.partition, strict=True)
        fields = [pa.field(name, arrow_type(key.type)) for name, key in parts]
        fields += list(self.results)[len(self.columns) :]
        fields += [pa.field(name, pa.int64()) for name in (*LIFE, CODE, SINCE, VISIBLE)]
        return pa.schema(fields).empty_table()

    def _in_order(self, rows: pa.Table) -> pa.Table:
        terms, code = self.terms, numbers(rows, CODE)
        columns = [*terms.key_columns(terms.keys(rows)), *terms.tie_columns(rows)]
        order = stable_order(code, *columns, numbers(rows, TS), numbers(rows, ID))
        rows = taken(rows, order)
        names = terms.part_names
        check_parts(numbers(rows, CODE), [whole(rows.column(name)) for name in names])
        return rows

    def _evaluated(self, rows: pa.Table, interval: Interval) -> Evaluated:
        """The values of rows that may have another one, by row and instant."""
        terms, span = self.terms, FrameSpan.of(self.terms.calls)
        keys, code = terms.keys(rows), numbers(rows, CODE)
        peer = peers_of(code, terms.key_columns(keys))
        distances = Distances.of(keys[0], terms.order[0]) if terms.is_measured else None
        starts = np.append(np.flatnonzero(np.append(True, code[1:] != code[:-1])), len(code))
        versions = FrameVersions.of(
            starts, numbers(rows, TS), numbers(rows, EXP), peer, distances, span,
            interval.began, interval.clock,
        )  # fmt: skip
        place = versions.place
        touch(len(place))
        layout = Layout(
            versions.version,
            peers_of(versions.version, [peer[place]]),
            distances.taken(place) if distances is not None else None,
        )
        targets = np.flatnonzero(versions.counts)
        asked = place[targets]
        arguments = terms.arguments(rows, range(len(terms.calls)))
        at_places = {
            number: arguments[f"_arg{number}"].take(pa.array(place))
            for number in range(len(terms.calls))
            if f"_arg{number}" in arguments
        }
        defaults = {
            number: values.take(pa.array(asked)) for number, values in terms.defaults(rows).items()
        }
        instants = versions.instant[versions.version[targets]]
        frames = FrameInput(layout, targets, at_places, defaults, instants)
        values = [frames.values(number, call) for number, call in enumerate(terms.calls)]
        visible = np.ones(len(asked), bool)
        if self.limit is not None:
            number = values[self._limiting].to_numpy(zero_copy_only=False)
            visible = number <= self.limit.most
        return Evaluated(asked, instants, values, visible)

    # ── numbers up to a limit ─────────────────────────────────────────────────────────────

    @property
    def prunes(self) -> bool:
        """Whether rows go early that enough better ones of their partition outlive."""
        return self.limit is not None and self.shape.structure in WITHOUT_CUTS

    @property
    def _note(self) -> str:
        if self.limit is None:
            return ""
        if self.prunes:
            return f"rows go that {self.limit.most:,} better ones of their partition outlive"
        return "no early pruning: negative tuples may delete what outlives a row"

    @property
    def _limiting(self) -> int:
        assert self.limit is not None
        return [call.name for call in self.terms.calls].index(self.limit.call)

    def _thinned(self, rows: pa.Table) -> pa.Table:
        """Without rows that will never be among the first of their partition again."""
        assert self.limit is not None
        if rows.num_rows <= self.limit.most:
            return rows
        terms, code = self.terms, numbers(rows, CODE)
        keys = terms.key_columns(terms.keys(rows))
        ties = [*terms.tie_columns(rows), numbers(rows, TS), numbers(rows, ID)]
        order = stable_order(code, *keys, *ties)
        function = terms.calls[self._limiting].function
        ranked = np.arange(len(order))
        if function != "row_number":
            ranked = peers_of(code[order], [key[order] for key in keys])
        position = np.empty(len(order), np.int64)
        position[order] = ranked
        exp, most = numbers(rows, EXP), self.limit.most
        stays = may_be_first(code, position, exp, most, distinct=function == "dense_rank")
        return chosen(rows, stays)


def _births(rows: pa.Table) -> Int64s:
    return mixed_ids(numbers(rows, ID), numbers(rows, TS))
