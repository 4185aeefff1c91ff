"""Windows by partition, against the last rows of each partition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import BadInput, InvalidSetting
from mayfly.windows import Partition, PartitionedWindow, Refresh, Rows, Span

NAN = float("nan")
PARTS = st.none() | st.sampled_from([0.0, -0.0, 1.5, NAN])
ROWS = st.lists(st.tuples(PARTS, st.none() | st.integers(0, 3), st.integers(0, 20)), max_size=40)


def name_of(part: float | None) -> str:
    return repr(part + 0.0 if part is not None else part)


def histogram(window: Partition) -> dict[Any, int]:
    listed: Any = window.histogram()
    return dict(listed)


def table(rows: list[tuple[Any, Any, int]], timed: bool) -> pa.Table:
    columns = {
        "p": pa.array([p for p, _, _ in rows], pa.float64()),
        "value": pa.array([x for _, x, _ in rows], pa.int64()),
    }
    times = {"ts": pa.array([ts for _, _, ts in rows], pa.int64())}
    return pa.table(columns | times if timed else columns)


@given(rows=ROWS, size=st.integers(1, 3), slots=st.integers(1, 3), cut=st.integers(0, 40),
       index=st.sampled_from(["T", "H", None]), timed=st.booleans())  # fmt: skip
def test_each_partition_has_its_own_last_rows(
    rows: list[tuple[Any, Any, int]],
    size: int,
    slots: int,
    cut: int,
    index: str | None,
    timed: bool,
) -> None:
    window = PartitionedWindow(Rows(size), slots, "p", index=index)
    for part in (rows[:cut], rows[cut:]):
        window.append(table(part, timed))
    if timed:
        window.advance(15)
        rows = [row for row in sorted(rows, key=lambda row: row[2]) if row[2] < 15]
    came: dict[str, list[Any]] = {}
    for part, value, _ in rows:
        came.setdefault(name_of(part), []).append(value)
    assert {name_of(part) for part in window.partitions} == set(came)
    for part in window.partitions:
        values = came[name_of(part)]
        full = len(values) // size
        held = values[max(0, full - slots) * size : full * size]
        mine = window[part]
        assert Counter(histogram(mine)) == Counter(held)
        assert (mine.slides, mine.partial) == (full, full < slots)
        assert window[-0.0 if part == 0.0 else part] is mine
    assert window.rows == sum(window[part].rows for part in window.partitions)


def test_nan_is_one_partition_and_so_is_null() -> None:
    window = PartitionedWindow(Rows(1), 4, "p")
    for _ in range(2):
        window.append(table([(NAN, 1, 0), (None, 2, 0), (-0.0, 3, 0), (0.0, 3, 0)], False))
    assert list(map(name_of, window.partitions)) == ["nan", "None", "0.0"]
    assert [window[part].rows for part in (NAN, None, 0.0)] == [2, 2, 4]


def test_functions_run_when_a_partition_slides() -> None:
    window, runs = PartitionedWindow(Rows(2), 2, "p"), list[tuple[str, int]]()

    def look(own: Partition, refresh: Refresh) -> None:
        runs.append((own.partition, refresh.number))
        with pytest.raises(BadInput):
            window.append({"p": ["a"], "value": [1]})
        raise ValueError("whatever users do")

    window.on_refresh(look)
    with pytest.raises(ValueError, match="whatever"):
        window.append(pd.DataFrame({"p": list("aabab"), "value": np.arange(5)}))
    assert runs == [("a", 1), ("b", 1)]
    assert window["a"].rows == 2, "the batch was taken whole"


def test_a_batch_is_refused_whole() -> None:
    window = PartitionedWindow(Rows(1), 2, "p")
    window.append({"p": ["a", "b"], "value": [1, 2]})
    for batch in (
        {"p": ["c", "a"], "value": ["x", "y"]},
        {"p": [1, 2], "value": [1, 2]},
        {"value": [1]},
        {"p": ["a"]},
        [1, 2, 3],
    ):
        with pytest.raises(BadInput):
            window.append(batch)
    window.advance(100)
    with pytest.raises(BadInput, match="late"):
        window.append({"p": ["c", "a"], "value": [1, 2], "ts": [200, 3]})
    assert (window.partitions, window.rows) == (["a", "b"], 2)


def test_what_cannot_be_is_refused() -> None:
    make: Any = PartitionedWindow
    for arguments, settings in (
        ((Span("1 s"), 2, "p"), {}),
        ((Rows(1), 0, "p"), {}),
        ((Rows(1), 2, "value"), {}),
        ((Rows(1), 2, 7), {}),
        ((Rows(1), 2), {}),
        ((Rows(1), 2, "p"), {"index": "Z"}),
        ((Rows(1), 2, "p"), {"share": None}),
    ):
        with pytest.raises(InvalidSetting):
            make(*arguments, **settings)
    window = PartitionedWindow(Rows(1), 2, "p")
    window.append({"p": ["a"], "value": [1]})
    for missing in ("b", None, [1]):
        with pytest.raises(BadInput, match="partition"):
            window[missing]
    with pytest.raises(BadInput, match="window of all"):
        window["a"].append([1])
    with pytest.raises(BadInput, match="window of all"):
        window["a"].advance(1)


def test_rows_of_a_partition_are_found_by_value() -> None:
    window = PartitionedWindow(Rows(2), 2, "p", ring="numbered")
    window.append({"p": list("aababa"), "value": [5, 6, 5, 5, 7, 8], "n": [1, 2, 3, 4, 5, 6]})
    assert window["a"].lookup(5)["n"].to_pylist() == [1, 4]
    assert window["b"].sorted_by()["n"].to_pylist() == [3, 5]
