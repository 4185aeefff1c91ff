"""The operators of a one-time query: every table is fed to them once, at one instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mayfly.lifetime import zone
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.program import Program
from mayfly.plan.added_columns import free_name
from mayfly.plan.catalog import Catalog, ColumnDefinition, RelationDefinition, StreamDefinition
from mayfly.plan.logical_operators import Output
from mayfly.plan.types import BIGINT
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.table_use import TableUse


@dataclass(frozen=True)
class OneTimeProgram:
    """A compiled one-time query."""

    plan: Output
    """The one that the optimizer chose."""
    program: Program
    catalog: Catalog
    """The tables as streams, all of whose rows have one time; streams as they come."""
    tables: Mapping[str, RelationDefinition]
    """By their names in lower case."""
    uses: Mapping[str, TableUse]
    """By their names in lower case."""

    @staticmethod
    def of(
        plan: Output, catalog: Catalog, reads: Sequence[str], feeds: Sequence[str]
    ) -> OneTimeProgram:
        chosen = optimize(plan).chosen
        assert isinstance(chosen.plan, Output)
        tables = {name: definition_of(catalog, name) for name in reads}
        uses = {name: TableUse.of(table, chosen.plan) for name, table in tables.items()}
        run = run_catalog(chosen.plan, catalog, reads, feeds)
        program = compile_plan(chosen.plan, run, strict=chosen.strict)
        return OneTimeProgram(chosen.plan, program, run, tables, uses)

    def answer(
        self, rows: Mapping[str, pa.Table], streams: Mapping[str, pa.Table], time: int
    ) -> pa.Table:
        """Of the rows of tables, by their names in lower case, and of streams."""
        batch = {
            self.tables[name].name: _timed(table, self.tables[name], time)
            for name, table in rows.items()
        }
        run = ContinuousRun(self.program, self.catalog, zone=zone())
        run.feed({**batch, **streams}, heartbeats=dict.fromkeys(run.clocks.streams, time + 1))
        return run.snapshot(time)


def run_catalog(
    plan: Output, catalog: Catalog, reads: Sequence[str], feeds: Sequence[str]
) -> Catalog:
    """What a plan is compiled against: all that is read is a stream."""
    listed = Catalog()
    for name in reads:
        table = definition_of(catalog, name)
        used = TableUse.of(table, plan).columns
        columns = tuple(column for column in table.columns if column.name in used)
        time = ColumnDefinition(_time_of(table), BIGINT, nullable=False)
        listed = listed.declare(StreamDefinition(table.name, (*columns, time), time.name))
    for name in feeds:
        stream = catalog.lookup(name)
        assert isinstance(stream, StreamDefinition)
        listed = listed.declare(replace(stream, slack=0, max_gap=None))
    return listed


def definition_of(catalog: Catalog, name: str) -> RelationDefinition:
    """Of a table that is read."""
    table = catalog.lookup(name)
    assert isinstance(table, RelationDefinition)
    return table


def _timed(rows: pa.Table, table: RelationDefinition, time: int) -> pa.Table:
    times = np.full(rows.num_rows, time, np.int64)
    return rows.append_column(_time_of(table), pa.array(times))


def _time_of(table: RelationDefinition) -> str:
    return free_name("_instant", (column.name for column in table.columns))
