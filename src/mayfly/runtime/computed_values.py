"""Computed columns of a stream, from the columns that its rows bring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from mayfly.kernels.stateless import values_of
from mayfly.lifetime import in_zone
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.types import arrow_type


def computed(
    definition: StreamDefinition, brought: Mapping[str, pa.ChunkedArray]
) -> list[pa.ChunkedArray]:
    """All columns of the stream, in the order in which they are declared."""
    table = pa.table({f"{definition.name}.{name}": values for name, values in brought.items()})
    return [
        brought[column.name]
        if column.computed is None
        else pa.chunked_array([values_of(column.computed, table, arrow_type(column.type))])
        for column in definition.columns
    ]


@dataclass(frozen=True)
class Computing:
    """Adds the computed columns of a stream in its own zone, where Spark works in another."""

    definition: StreamDefinition
    zone: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in self.definition.columns]
        for batch in batches:
            table = pa.Table.from_batches([batch])
            brought = dict(zip(table.schema.names, table.columns, strict=True))
            with in_zone(self.zone):
                columns = computed(self.definition, brought)
            yield from pa.table(columns, names=names).to_batches()
