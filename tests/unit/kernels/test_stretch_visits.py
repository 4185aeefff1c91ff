"""Values of stretches that are played along one path, against those of each stretch alone."""

from __future__ import annotations

from random import Random
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

from mayfly.kernels.pane_partials import GROUP
from mayfly.kernels.pane_stretches import SortedPanes, Stretches
from mayfly.kernels.room import Touched
from mayfly.kernels.stretch_visits import StretchValues
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import BIGINT, DOUBLE
from mayfly.storage.segment import TS

VALUES, COUNTS = Column("", "v", BIGINT), Column("", "n", BIGINT)
MEDIAN = AggregateCall("m", "median", VALUES, DOUBLE)
DISTINCT = AggregateCall("d", "count", VALUES, BIGINT, distinct=True)


def windows_of(rows: SortedPanes, lengths: list[int], rng: Random) -> Stretches:
    """What windows of these lengths hold at some instants, by window, group and time."""
    stretches = []
    for window, length in enumerate(lengths):
        for group, (head, stop) in enumerate(zip(rows.heads, rows.heads[1:], strict=False)):
            times = rows.times[head:stop]
            for time in sorted(rng.sample(range(1, 90), 12)):
                ends = head + np.searchsorted(times, [time - length, time], side="right")
                if ends[0] < ends[1]:
                    stretches.append((window, group, time, *ends))
    return Stretches(rows, *(np.array(part, np.int64) for part in zip(*stretches, strict=True)))


@pytest.mark.parametrize("call", [MEDIAN, DISTINCT])
@pytest.mark.parametrize("lengths", [[20], [5, 60], [30, 10, 50, 12], [2, 2, 90]])
def test_a_path_has_the_values_of_every_stretch(call: AggregateCall, lengths: list[int]) -> None:
    rng = Random(len(lengths))
    size = 200
    columns = {
        GROUP: [rng.choice((-4, 1, 8)) for _ in range(size)],
        TS: [rng.randrange(1, 80) for _ in range(size)],
        ".v": [rng.choice((None, *range(9))) for _ in range(size)],
    }
    table = pa.table({name: pa.array(part, pa.int64()) for name, part in columns.items()})
    ones = pa.array(np.ones(size, np.int64))
    rows = SortedPanes.of(table.append_column(".n", ones), (".v", ".n"), ())
    stretches = windows_of(rows, lengths, rng)
    before = Touched.rows
    made = StretchValues(stretches, np.array(lengths, np.int64), (".v", ".n")).of(call, COUNTS)
    values = rows.values(".v").to_pylist()
    expected: list[float | None] = []
    for low, high in zip(stretches.low, stretches.high, strict=True):
        inside = [value for value in values[low:high] if value is not None]
        if call is DISTINCT:
            expected.append(len(set(inside)))
        else:
            expected.append(median(inside) if inside else None)
    assert made.to_pylist() == expected
    assert Touched.rows - before < (stretches.high - stretches.low).sum(), "less than each alone"
