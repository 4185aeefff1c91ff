"""What is stored comes back, for any values; merge plans keep what they are given."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    Bounds,
    Directory,
    Repository,
    SetProperties,
    open_segment,
    plan_merge,
    segment_batches,
    verify,
    write_segment,
)
from mayfly.storage.verify import SORTED_BY

TIMES = st.integers(-(2**62), 2**62)
KEYS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(),
    pa.time64("us"): st.times(),
    pa.decimal128(18, 4): st.decimals(-(10**9), 10**9, places=4),
}


@st.composite
def keyed_rows(draw: st.DrawFn) -> pa.Table:
    kind = draw(st.sampled_from(list(KEYS)))
    keys = draw(st.lists(st.none() | KEYS[kind], min_size=1, max_size=12))
    ts = [draw(TIMES) for _ in keys]
    lives = [draw(st.integers(1, 2**60)) for _ in keys]
    exp = [one + life for one, life in zip(ts, lives, strict=True)]
    columns = {"key": pa.array(keys, kind), TS: pa.array(ts, pa.int64()), EXP: pa.array(exp)}
    return pa.table(columns)


@given(keyed_rows(), st.sampled_from(["arrow", "parquet"]), st.integers(1, 5))
def test_a_committed_segment_reads_back(rows: pa.Table, format: str, batch: int) -> None:
    with TemporaryDirectory() as folder:
        repository = Repository.create(Path(folder) / "store", {}, sync=False)
        segment = write_segment(
            repository.directory, "g", rows.to_batches(batch), format=format, key="key"
        )
        assert segment is not None
        committed = repository.commit(repository.current(), [AddSegments((segment,))])
        found = repository.current()
        assert found == committed
        stored = found.segments[segment.path]
        back = open_segment(repository.directory, stored)
        assert back.schema == rows.schema
        assert repr(back.to_pydict()) == repr(rows.to_pydict()), "repr: NaN and -0.0 count too"
        parts = pa.Table.from_batches(segment_batches(repository.directory, stored))
        assert repr(parts.to_pydict()) == repr(rows.to_pydict())
        assert verify(repository).ok
        check_bounds(rows, stored.ts, stored.exp, stored.key)


def check_bounds(rows: pa.Table, ts: Bounds, exp: Bounds, key: Bounds | None) -> None:
    assert (ts.low, ts.high) == (min(rows[TS].to_pylist()), max(rows[TS].to_pylist()))
    assert (exp.low, exp.high) == (min(rows[EXP].to_pylist()), max(rows[EXP].to_pylist()))
    keys = rows["key"].to_pylist()
    unordered = any(one is None or one != one for one in keys)
    assert (key is None) == unordered
    if key is not None:
        assert all(key.meets(one, one) for one in keys)
        assert key.low in keys
        assert key.high in keys


@given(keyed_rows())
def test_verify_agrees_with_python_about_sortedness(rows: pa.Table) -> None:
    keys = rows["key"].to_pylist()
    if any(one is None or one != one for one in keys):
        return
    with TemporaryDirectory() as folder:
        repository = Repository.create(Path(folder) / "store", {}, sync=False)
        tags = {SORTED_BY: ["key", TS]}
        segment = write_segment(repository.directory, "g", rows, tags=tags)
        assert segment is not None
        repository.commit(repository.current(), [AddSegments((segment,))])
        pairs = list(zip(keys, rows[TS].to_pylist(), strict=True))
        assert verify(repository).ok == (pairs == sorted(pairs))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: "inf" not in repr(value))


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_properties_read_back(properties: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        repository = Repository.create(Path(folder) / "store", {}, sync=False)
        committed = repository.commit(repository.current(), [SetProperties(properties)])
        assert committed.properties == properties
        assert repository.current() == committed


@given(st.dictionaries(st.text("ab/", min_size=1, max_size=4), st.binary(max_size=9), max_size=5))
def test_files_are_listed_read_and_counted(files: dict[str, bytes]) -> None:
    with TemporaryDirectory() as folder:
        directory = Directory.at(folder, sync=False)
        names = {f"top/{name.replace('/', 'x')}": data for name, data in files.items()}
        for name, data in names.items():
            assert directory.put_if_absent(name, data)
        assert directory.names("top") == sorted(names)
        assert {name: directory.read(name) for name in names} == names
        total = sum(map(len, names.values()))
        assert (directory.io.bytes_written, directory.io.bytes_read) == (total, total)
        assert (directory.io.files_written, directory.io.files_read) == (len(names), len(names))


@dataclass(frozen=True, eq=False)
class Run:
    rows: int
    exp: Bounds
    level: int


@st.composite
def runs(draw: st.DrawFn) -> list[Run]:
    found = []
    for _ in range(draw(st.integers(0, 40))):
        low = draw(st.integers(0, 60))
        width = draw(st.integers(0, 10))
        found.append(
            Run(draw(st.integers(1, 50)), Bounds(low, low + width), draw(st.integers(0, 3)))
        )
    return sorted(found, key=lambda run: run.exp.low) if draw(st.booleans()) else found


@given(runs(), st.integers(0, 30), st.integers(2, 5), st.integers(1, 40))
def test_a_merge_plan_keeps_order_rows_and_the_limit(
    given_runs: list[Run], cap: int, fan_in: int, limit: int
) -> None:
    plan = plan_merge(given_runs, cap=cap, fan_in=fan_in, limit=limit)
    position = {id(run): at for at, run in enumerate(given_runs)}
    places = [[position[id(run)] for run in members] for _, members in plan]
    for place in places:
        assert len(place) > 1
        assert place == list(range(place[0], place[-1] + 1)), "members are neighbours, in order"
    for one, following in pairwise(places):
        assert one[-1] < following[0], "merges are disjoint and in order"
    after = len(given_runs) - sum(len(place) - 1 for place in places)
    assert after <= limit
    for level, members in plan:
        assert level >= max(run.level for run in members)


@given(runs(), st.integers(0, 30), st.integers(2, 5))
def test_without_a_limit_the_cap_holds_and_a_second_plan_is_empty(
    given_runs: list[Run], cap: int, fan_in: int
) -> None:
    plan = plan_merge(given_runs, cap=cap, fan_in=fan_in, limit=1_000)
    results = {}
    for level, members in plan:
        exp = members[0].exp
        for run in members[1:]:
            exp = exp.union(run.exp)
        assert exp.high - exp.low <= cap
        results[id(members[0])] = Run(sum(run.rows for run in members), exp, level)
    absorbed = {id(run) for _, members in plan for run in members[1:]}
    after = [results.get(id(run), run) for run in given_runs if id(run) not in absorbed]
    assert plan_merge(after, cap=cap, fan_in=fan_in, limit=1_000) == []
