"""What people hand to an archive: names in any case, rows in every form, arguments of any kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive import SCAM, Archive, Need, advise
from mayfly.archive.layouts.printed_plan import plan_table
from mayfly.errors import InvalidSetting, MayflyError

DDL = "K STRING, Ts TIMESTAMP, price INT"
COUNTED: dict[str, Any] = {"key": "k", "max_lifetime": "3 days"}
OWN: dict[str, Any] = {**COUNTED, "lifetime": "1 day"}
DAY_ONE = datetime(2026, 3, 1, 12)


def archive_of_days(root: Path, **settings: Any) -> Archive:
    usual: dict[str, Any] = {"key": "k", "time": "TS", "window": 3}
    archive = mayfly.archive.create(root / "a", DDL, **(usual | settings))
    archive.update([{"k": "ann", "TS": DAY_ONE, "Price": 1}, {"K": "bob", "ts": DAY_ONE}])
    return archive


def test_names_are_compared_without_regard_to_case(tmp_path: Path) -> None:
    archive = archive_of_days(tmp_path)
    assert (archive.settings.key, archive.settings.time) == (("K",), "Ts")
    assert archive.scan(columns=["PRICE"]).to_pydict() == {"price": [1, None]}
    assert archive.probe("ann", columns=["PRICE", "k"]).to_pylist() == [{"price": 1, "K": "ann"}]
    assert archive.probe_range("a", "b", columns=["Price"])["price"].to_pylist() == [1]
    assert archive.scan(window={"tS": "1 day"}).num_rows == 2
    with pytest.raises(InvalidSetting, match="a column occurs twice"):
        archive.scan(window={"tS": "1 day", "ts": "1 day"})
    with pytest.raises(InvalidSetting, match="no column 'v'"):
        archive.scan(columns=["v"])


def test_names_of_lifetimes_too(tmp_path: Path) -> None:
    ddl = "k STRING, ts BIGINT, Until BIGINT, Class STRING, Pos BIGINT"
    usual: dict[str, Any] = {"key": "k", "max_lifetime": "3 us", "refresh": "1 us"}
    cases: list[tuple[dict[str, Any], tuple[str]]] = [
        ({"exp": "UNTIL"}, ("Until",)),
        ({"lifetime": "until"}, ("Until",)),
        ({"lifetime": {"CLASS": {"a": "1 us"}}}, ("Class",)),
        ({"counts": {"POS": 3}}, ("Pos",)),
    ]
    for number, (given, named) in enumerate(cases):
        archive = mayfly.archive.create(tmp_path / str(number), ddl, **usual, **given)
        lifetimes = archive.settings.lifetimes
        assert lifetimes is not None
        assert lifetimes.told_by == named


def counted(root: Path) -> Archive:
    archive = mayfly.archive.create(
        root / "c", "k STRING, ts BIGINT, pos BIGINT", key="k", max_lifetime="3 us",
        refresh="1 us", origin=0, counts={"pos": 2},
    )  # fmt: skip
    archive.update({"k": ["a", "b"], "ts": [1, 1], "pos": [1, 2]})
    return archive


@pytest.mark.parametrize(
    "positions", [{"pos": at} for at in (2**70, 2**63 - 1, "7", None, 1.5, -5, True)] + [5, "pos"]
)
def test_positions_that_are_none_are_refused(tmp_path: Path, positions: Any) -> None:
    archive = counted(tmp_path)
    with pytest.raises(InvalidSetting, match="position"):
        archive.update(None, positions=positions)
    assert archive.scan().num_rows == 2
    archive.update(None, positions={"POS": 3})
    assert archive.scan()["k"].to_pylist() == ["b"]


@pytest.mark.parametrize("window", [10**20, 10**12, 60_000_000, "99999999 days"])
def test_a_window_longer_than_time_is_refused(tmp_path: Path, window: Any) -> None:
    with pytest.raises(InvalidSetting, match="a window of"):
        mayfly.archive.create(tmp_path / "a", DDL, key="k", window=window)
    longest = timedelta(days=60_000_000)
    with pytest.raises(InvalidSetting, match="a window of"):
        mayfly.archive.create(tmp_path / "a", DDL, key="k", max_lifetime=longest, lifetime="1 day")
    often: dict[str, Any] = {"key": "k", "refresh": "1 us", "lifetime": "1 s"}
    with pytest.raises(InvalidSetting, match="a window of 10,000,000 updates"):
        mayfly.archive.create(tmp_path / "a", DDL, **often, max_lifetime="10 s")
    assert not (tmp_path / "a").exists()


def test_a_long_window_costs_no_more_than_a_short_one(tmp_path: Path) -> None:
    usual: dict[str, Any] = {"key": "k", "refresh": "1 us", "time": "ts", "window": 10**12}
    with pytest.raises(InvalidSetting, match="1,000,000,000 constituents"):
        mayfly.archive.create(tmp_path / "a", DDL, **usual, constituents=10**9)
    archive = mayfly.archive.create(tmp_path / "a", DDL, **usual)
    archive.update([{"k": "a", "ts": DAY_ONE, "price": 1}])
    archive.update([{"k": "a", "ts": DAY_ONE + timedelta(microseconds=1), "price": 2}])
    assert sorted(archive.scan()["price"].to_pylist()) == [1, 2]
    assert archive.inspect.status().window == 10**12


def test_unknown_and_surplus_arguments_are_ours_to_refuse(tmp_path: Path) -> None:
    archive: Any = archive_of_days(tmp_path)
    create: Any = mayfly.archive.create
    uses: tuple[Callable[[], object], ...] = (
        lambda: archive.read.scan_tables(bogus=1),
        lambda: archive.maintain.verify(x=1),
        lambda: archive.maintain.verify(1),
        lambda: archive.inspect.status(1),
        lambda: archive.advise(probess=3),
        lambda: archive.advise(probes="many"),
        lambda: archive.advise(5),
        lambda: archive.advise(need=5),
        lambda: archive.inspect.plan("x"),
        lambda: archive.inspect.plan(10**9),
        lambda: archive.maintain.add_column("x", 5),
        lambda: archive.probe("ann", report=5),
        lambda: archive.probe("ann", soft="no"),
        lambda: archive.scan(generated_between=(1, 2, 3)),
        lambda: archive.scan(columns=[]),
        lambda: archive.invalidate(["ann"], ended="x"),
        lambda: archive.migrate(constituents="x"),
        lambda: archive.update(),
        lambda: archive.update(None, 3),
        lambda: archive.update(None, batch=None),
        lambda: archive.update(None, properties=5),
        lambda: archive.update(None, properties={5: 1}),
        lambda: archive.update(None, properties={"archive": 1}),
        lambda: archive.update(None, batch_id=5),
        lambda: archive.scan(columns="price"),
        lambda: archive.scan(columns=5),
        lambda: archive.scan(columns=[5]),
        lambda: archive.maintain.rollback(),
        lambda: archive.maintain.rollback(-1),
        lambda: archive.maintain.vacuum(keep_versions=-1),
        lambda: mayfly.archive.open(5),  # type: ignore[arg-type]
        lambda: mayfly.archive.open(b"a"),  # type: ignore[arg-type]
        lambda: create(tmp_path / "b"),
        lambda: create(tmp_path / "b", DDL, key="k"),
        lambda: create(tmp_path / "b", DDL, key="k", window=3, parts=10**9),
        lambda: create(tmp_path / "b", DDL, **OWN, layout="auto", expect=5),
        lambda: create(tmp_path / "b", DDL, **OWN, contract=f"SOFT({10**20})"),
        lambda: create(tmp_path / "b", f"{DDL}, p BIGINT", **COUNTED, counts={"p": 2**70}),
    )
    for use in uses:
        with pytest.raises(InvalidSetting):
            use()
    assert archive.version().state.update == 1


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"k": ["a"], "ts": [DAY_ONE], "v": [1.5]}),
        [{"k": "a", "ts": DAY_ONE, "v": 1.5}],
        {"k": ["a"], "ts": [DAY_ONE], "v": [1.5]},
        pa.table({"k": ["a"], "ts": pa.array([DAY_ONE], pa.timestamp("us", "UTC")), "v": [1.5]}),
    ],
)
def test_columns_may_come_from_rows(tmp_path: Path, rows: Any) -> None:
    archive = mayfly.archive.create(tmp_path / "a", rows, key="k", window="3 days")
    assert archive.settings.columns == {"k": "string", "ts": "timestamp", "v": "double"}
    archive.update(rows)
    assert archive.scan()["v"].to_pylist() == [1.5]


def test_rows_without_values_are_no_rows(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k STRING, ts TIMESTAMP, a ARRAY<STRING>", key="k", window=3, origin=0
    )
    archive.update(pd.DataFrame())
    archive.update(pd.DataFrame({"k": [], "ts": [], "a": []}))
    archive.update([], at="1970-01-03T12:00:00")
    assert archive.version().state.update == 3
    archive.update(pd.DataFrame({"k": ["a"], "ts": [date(1970, 1, 5)], "a": [[]]}))
    assert archive.scan()["a"].to_pylist() == [[]]


def test_a_value_is_stored_whole_or_refused(tmp_path: Path) -> None:
    archive = archive_of_days(tmp_path)
    for row in ({"price": 1.9}, {"ts": 1.9}):
        with pytest.raises(MayflyError, match="would lose a part of its value"):
            archive.update([{"k": "ann", "ts": date(2026, 3, 2), "price": 1} | row])
    archive.update([{"k": "ann", "ts": date(2026, 3, 3), "price": 2}])
    assert sorted(archive.probe("ann")["price"].to_pylist()) == [1, 2]


def test_what_would_be_followed_day_by_day_for_ever_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="advice for a window of 99,999,999,999 days"):
        advise(SCAM, Need(99_999_999_999))
    with pytest.raises(InvalidSetting, match="a plan up to day"):
        plan_table("WATA", 10**14, 4, range(10**14, 10**14 + 2))
    with pytest.raises(InvalidSetting, match="a plan up to day"):
        plan_table("RATA", 10, 4, range(10, 10**8))
