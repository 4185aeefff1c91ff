"""Keys that a stream has closed, in a run: rows of them go no further, and states forget them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.key_ends import ClosedKeys, CloseKeys
from mayfly.kernels.lifetime_rows import RowRun, chosen, whole
from mayfly.physical.closing_keys import Closing
from mayfly.plan.stream_joins import Stream

Closers = Mapping[str, CloseKeys]
"""By stream with punctuations: what closes its keys."""


def admit_all(
    closers: Closers,
    closed: Mapping[str, ClosedKeys],
    batch: Mapping[str, pa.Table],
    interval: Interval,
) -> tuple[dict[str, ClosedKeys], dict[str, pa.Table]]:
    """Each stream with punctuations by its closed keys; the others as they come."""
    after, admitted = dict(closed), dict(batch)
    for name, closer in closers.items():
        after[name], admitted[name], _ = closer.admit(closed[name], batch.get(name), interval)
    return after, admitted


def forget(
    parts: Sequence[str],
    closings: Sequence[Closing],
    states: Sequence[Any],
    closers: Closers,
    closed: Mapping[str, ClosedKeys],
) -> list[Any]:
    """States without rows of keys that all these streams have closed, in these parts."""

    def left(table: pa.Table) -> pa.Table:
        gone = np.ones(table.num_rows, bool)
        for closing in closings:
            columns = [whole(table.column(name)) for name in closing.columns]
            stream = closing.stream
            gone &= closers[stream].has(closed[stream], columns, table.num_rows)
        return chosen(table, ~gone).combine_chunks()

    def without(kept: KeptRows) -> KeptRows:
        tables = ((run, left(run.load())) for run in kept.runs)
        runs = [
            run  # what was laid out for it stays of use
            if table.num_rows == run.rows
            else RowRun.of(table, level=run.level, cell=run.cell)
            for run, table in tables
            if table.num_rows
        ]
        return replace(kept, runs=tuple(runs))

    return [
        without(state)
        if isinstance(state, KeptRows)
        else replace(state, **{part: without(getattr(state, part)) for part in parts})
        for state in states
    ]


def check_newcomer(query: str, stream: str, definition: Any) -> None:
    """Refuse a query that cannot know which keys were closed before it came."""
    if definition.punctuation is not None:
        raise InvalidSetting(
            f"PUNCTUATION of {stream} may have closed keys before the query {query} came: it would "
            "take later rows of these for rows in time",
            "run it with a checkpoint of its own, where the stream is read from its beginning on",
        )


def check_erasable(streams: Iterable[Stream]) -> None:
    """Refuse streams that close keys where bytes must go with their rows."""
    for stream in streams:
        if stream.punctuation is not None:
            raise InvalidSetting(
                f"a note stays of each key that PUNCTUATION of {stream.name} closes, but an "
                "archive that the query feeds promises PHYSICAL WITHIN: they would never go",
                "declare the stream without PUNCTUATION, or the archive without PHYSICAL",
            )
