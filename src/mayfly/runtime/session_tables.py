"""What one-time queries of a session read: its relations, and the answers of queries that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from mayfly.plan.catalog import ColumnDefinition
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.relation_log import Changing
from mayfly.runtime.table_sources import SCAN, Keys


@dataclass(frozen=True)
class DeclaredTable:
    """A relation of this session."""

    changing: Changing

    streams = ()

    @property
    def name(self) -> str:
        return self.changing.definition.name

    @property
    def kind(self) -> str:
        return self.changing.definition.kind

    @property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        return self.changing.definition.columns

    def latest(self) -> None:
        return None

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        return self.changing.rows.select(list(columns))

    def access(self, keys: Keys) -> str:
        return SCAN

    def missing(self, instant: int) -> Iterator[str]:
        return iter(())


@dataclass(frozen=True)
class RunningQuery:
    """A query that was started by its name."""

    name: str
    run: ContinuousRun

    kind = "query"

    @property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        schema = self.run.program.plan.schema
        return tuple(ColumnDefinition(part.name, part.type, part.nullable) for part in schema)

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(self.run.clocks.streams)

    def latest(self) -> int:
        return self.run.clocks.query - 1

    def access(self, keys: Keys) -> str:
        return SCAN

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        return self.run.snapshot(instant).select(list(columns))

    def missing(self, instant: int) -> Iterator[str]:
        return iter(())
