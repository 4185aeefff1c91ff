"""Sinks: where committed changes go.

A sink sees committed files only, and gets the batch id. It may get one batch twice
(after a crash): our own sinks replace what they wrote for that id; callbacks must do the same.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from mayfly.checkpoint.result_folders import check_owner, take_possession
from mayfly.errors import InvalidSetting, NotClosed
from mayfly.faults import reach
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.storage.store import TEMPORARY, local_root
from mayfly.storage.store.problems import explained


@dataclass(frozen=True, slots=True)
class Delivery:
    """The changes of one committed batch: results generated in the instants it closed."""

    batch_id: int
    rows: int
    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    frame: Callable[[], DataFrame]
    clock: int
    """All results generated before it are delivered with this batch."""
    source: str = ""
    """The checkpoint whose batches the numbers count, if it says who it is."""
    times: LifetimeColumns = field(default_factory=LifetimeColumns)
    """What the times of results are called, beside the columns of the query."""
    stopping: Callable[[], bool] = lambda: False
    """Whether the query is to stop: a sink with much to do may raise ``Unfinished`` then."""

    def table(self) -> pa.Table:
        """All changes at once; use ``batches`` if they may not fit memory."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)


class Unfinished(Exception):
    """A sink stopped before it had taken all of a batch, which is delivered again at the next
    start: the sink goes on from there."""


class Sink(Protocol):
    """A sink with a true ``wants_every_batch`` gets batches without changes too."""

    def deliver(self, delivery: Delivery) -> None:
        """Take over one batch; called again with the same batch id after a crash."""


_CALLBACK_FORM = "give a function of two arguments: def take(changes: DataFrame, batch_id: int)"


@dataclass(frozen=True, slots=True)
class Callback:
    """Calls ``function(changes: DataFrame, batch_id: int)``; at least once per batch."""

    function: Callable[[DataFrame, int], object]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidSetting(f"{self.function!r} cannot be called with changes", _CALLBACK_FORM)
        with suppress(ValueError):  # some functions do not tell what they take
            try:
                inspect.signature(self.function).bind(None, 0)
            except TypeError as error:
                name = getattr(self.function, "__name__", repr(self.function))
                raise InvalidSetting(
                    f"the callback {name} cannot be called with changes and a batch id: {error}",
                    _CALLBACK_FORM,
                ) from None

    def deliver(self, delivery: Delivery) -> None:
        self.function(delivery.frame(), delivery.batch_id)


@dataclass(frozen=True, slots=True)
class Console:
    """Prints changes, a line each."""

    def deliver(self, delivery: Delivery) -> None:
        for row in delivery.table().sort_by(delivery.times.ts).to_pylist():
            values = ", ".join(f"{name}={value}" for name, value in row.items())
            print(f"[{delivery.batch_id}] {values}")


@dataclass(frozen=True, slots=True)
class Memory:
    """Keeps changes in this process, for tests and notebooks; a batch delivered again replaces
    itself."""

    batches: dict[int, pa.Table] = field(default_factory=dict)

    def deliver(self, delivery: Delivery) -> None:
        self.batches[delivery.batch_id] = delivery.table()

    def table(self) -> pa.Table:
        """All changes so far, batch by batch; refused before the first."""
        if not self.batches:
            raise NotClosed("no changes have come yet", "wait for a batch that brings some")
        return pa.concat_tables(self.batches[number] for number in sorted(self.batches))


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """One Parquet file per batch in a directory; a batch delivered again replaces its file.

    The directory belongs to one checkpoint: batches of another one have the same numbers.
    """

    path: str

    def deliver(self, delivery: Delivery) -> None:
        folder = local_root(self.path)
        if delivery.source:
            check_owner(folder, delivery.source)
            take_possession(folder, delivery.source)
        name = f"changes-{delivery.batch_id:012d}.parquet"
        write_parquet(folder / name, delivery.schema, delivery.batches())
        reach("sink.delivered")


def write_parquet(target: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """Write a Parquet file whole or not at all, replacing an older one of that name."""
    temporary = target.with_name(f"{TEMPORARY}{target.name}")
    with explained("write", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        reach("sink.written")
        os.replace(temporary, target)
