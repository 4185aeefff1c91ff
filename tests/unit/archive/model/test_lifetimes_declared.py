"""What an archive of rows with their own lifetimes may be asked to be, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive import Workload
from mayfly.archive.model.lifetime_declaration import LifetimeRequest, layout_named
from mayfly.cql import CqlError
from mayfly.errors import BadInput, InvalidSetting
from tests.unit.archive.rows_with_lifetimes import DDL, P, ids, made, rows_of, table


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("round-robin", "round-robin NoRebuild 4x4"),
        ("Rebuild3x3", "round-robin Rebuild 3x3"),
        ("NoRebuild 2x8", "round-robin NoRebuild 2x8"),
        ("LazyRebuild4x2", "lazy Rebuild 4x2"),
        ("lazy 3x2", "lazy NoRebuild 3x2"),
        ("chronological 2x3", "chronological NoRebuild 2x3"),
        ("CountNoRebuild2x2", "count NoRebuild 2x2"),
        ("R-ins16", "chronological Rebuild 16x1"),
        ("D-exp4", "chronological NoRebuild 1x4"),
        ("WATA5", "WATA5"),
    ],
)
def test_layouts_by_name(name: str, expected: str) -> None:
    assert str(layout_named(name, 36)) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"groups": 3, "lanes": 2}, "round-robin NoRebuild 3x2"),
        ({"rebuild": True}, "round-robin Rebuild 4x4"),
        ({"layout": "lazy", "groups": 3}, "lazy NoRebuild 3x4"),
        ({"layout": "R-exp", "lanes": 5}, "chronological Rebuild 1x5"),
        ({"layout": "Rebuild2x2", "rebuild": True}, "round-robin Rebuild 2x2"),
    ],
)
def test_sizes_beside_the_name(settings: dict[str, Any], expected: str) -> None:
    declared = LifetimeRequest(
        "k STRING, ts BIGINT, exp BIGINT", key="k", max_lifetime="36 days", **settings
    ).declaration()
    assert str(declared.settings.layout) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout": "lazy 4x4", "groups": 3}, "4x4 and groups=3"),
        ({"layout": "Rebuild 2x2", "lanes": 4}, "2x2 and lanes=4"),
        ({"layout": "Rebuild 2x2", "rebuild": False}, "rebuild=False"),
        ({"layout": "R-ins4", "rebuild": False}, "rebuild=False"),
        ({"layout": "WATA4", "rebuild": True}, "rebuild=True"),
        ({"layout": "R-ins4", "lanes": 4}, "by insertion alone"),
        ({"layout": "D-exp4", "groups": 4}, "by expiration alone"),
        ({"layout": "R-ins4x3"}, "4x3"),
        ({"layout": "round-robin", "groups": 0}, "1 or more"),
        ({"span": "many"}, "whole number"),
        ({"fan_in": 2.5}, "whole number"),
        ({"layout": "auto", "groups": 3, "expect": Workload(1)}, "groups"),
        ({"layout": "auto", "clustered": False, "expect": Workload(1)}, "clustered"),
        ({"layout": "Rebuild 2x2", "expect": Workload(1)}, 'layout="auto"'),
        ({"window": 3}, "window"),
        ({"scheme": "RATA", "technique": "in-place"}, "scheme, technique"),
    ],
)
def test_nothing_that_is_asked_for_is_ignored(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSetting, match=message):
        mayfly.archive.create(
            tmp_path / "a", "k STRING, ts BIGINT, exp BIGINT", key="k", max_lifetime="36 days",
            **settings,
        )  # fmt: skip
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("setting", ["contract", "layout", "exp", "lifetime", "counts", "span"])
def test_what_a_window_cannot_have_is_not_ignored(tmp_path: Path, setting: str) -> None:
    settings: dict[str, Any] = {"key": "k", "window": 3, setting: "x"}
    with pytest.raises(InvalidSetting, match=rf"{setting}[^→]*window(.|\n)*max_lifetime"):
        mayfly.archive.create(tmp_path / "a", "k STRING, ts BIGINT", **settings)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout": "diagonal"}, "no partitioned layout"),
        ({"layout": "?"}, "cannot read the layout"),
        ({"exp": "until"}, "no column 'until'"),
        ({"exp": "k"}, "use a TIMESTAMP"),
        ({"lifetime": "word"}, "INTERVAL DAY TO SECOND"),
        ({"lifetime": "ages"}, "cannot read the duration 'ages', and there is no such column"),
        ({"lifetime": "upper(word)"}, "is STRING, not a lifetime"),
        ({"exp": "INTERVAL 1 DAY + INTERVAL 1 HOUR"}, "not an instant"),
        ({"lifetime": "9 days"}, "up to max_lifetime"),
        ({"lifetime": {"word": {"x": "9 days"}}}, "up to max_lifetime"),
        ({"lifetime": "1 h", "exp": "exp"}, "only one of them"),
        ({"lifetime": {}}, "one column"),
        ({"lifetime": {"word": 5}}, "lifetimes by word"),
        ({"exp": 5}, "exp is 5"),
        ({"counts": 5}, "counts is 5"),
        ({"counts": {"ts": 2.5}}, "numbers of rows by column"),
        ({"counts": {"ts": True}}, "numbers of rows by column"),
        ({"max_lifetime": 0}, "longer than 0"),
        ({"late": "own day"}, "no rule 'own day'"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    columns = "k STRING, word STRING, ts TIMESTAMP, exp TIMESTAMP"
    with pytest.raises(InvalidSetting, match=message):
        LifetimeRequest(
            columns, **({"key": "k", "max_lifetime": "2 days"} | settings)
        ).declaration()


def test_an_expression_says_where_it_is_wrong() -> None:
    with pytest.raises(CqlError) as refused:
        LifetimeRequest(
            "k STRING, ts TIMESTAMP", key="k", max_lifetime="2 days",
            lifetime="CASE WHEN kind = 'gold' THEN INTERVAL 2 DAYS ELSE INTERVAL 1 DAY END",
        ).declaration()  # fmt: skip
    assert "line 1, column 11: there is no column kind" in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("settings", "lives"),
    [
        ({"lifetime": "CASE WHEN v > 2 THEN INTERVAL 3 MICROSECONDS ELSE INTERVAL 1 MICROSECOND "
                      "END"}, {1: 1, 2: 1, 3: 3, 4: 3}),
        ({"lifetime": "v * 2 - 1"}, {1: 1, 2: 3, 3: 5, 4: 7}),
        ({"lifetime": "2 * v - 1"}, {1: 1, 2: 3, 3: 5, 4: 7}),
        ({"exp": "ts + least(v, 3)"}, {1: 1, 2: 2, 3: 3, 4: 3}),
        ({"lifetime": "INTERVAL 2 MICROSECONDS + INTERVAL 1 MICROSECOND"},
         {1: 3, 2: 3, 3: 3, 4: 3}),
    ],
)  # fmt: skip
def test_lifetimes_by_expression(
    tmp_path: Path, settings: dict[str, Any], lives: dict[int, int]
) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k BIGINT, ts BIGINT, v BIGINT", key="k", max_lifetime="8 us",
        refresh="1 us", origin=0, **settings,
    )  # fmt: skip
    archive.update(pa.table({"k": [1] * 4, "ts": [1] * 4, "v": [1, 2, 3, 4]}))
    archive = mayfly.archive.open(tmp_path / "a")
    for lived in range(8):
        expected = [v for v, lives_for in lives.items() if lived < lives_for]
        assert sorted(archive.scan(as_of=1 + lived)["v"].to_pylist()) == expected


def test_an_expression_that_says_nothing_or_fails_refuses_the_batch(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k BIGINT, ts BIGINT, v BIGINT", key="k", max_lifetime="8 us",
        refresh="1 us", origin=0, lifetime="CAST(8 / v AS BIGINT)",
    )  # fmt: skip
    for value, message in ((None, "expiration time is NULL"), (0, "cannot evaluate")):
        with pytest.raises(BadInput, match=message):
            archive.update(pa.table({"k": [1], "ts": [1], "v": pa.array([value], pa.int64())}))
    assert archive.version().state.update == 0


@pytest.mark.parametrize(
    ("settings", "row", "said"),
    [
        ({}, {"exp": 91}, ("longer than the archive's longest lifetime, 80 us", "exp=91",
                           "migrate(max_lifetime=…)")),
        ({}, {"exp": 10}, ("expires at or before its generation time", "exp=10")),
        ({}, {"exp": None}, ("expiration time is NULL", "exp=None")),
        ({"lifetime": "exp * 2"}, {"exp": 41}, ("longer than", "_exp=92")),
        ({"lifetime": {"class": {"free": "5 us"}}}, {"class": "trial"},
         ("expiration time is NULL", "class='trial'", "every class")),
        ({"late": "refuse"}, {"ts": -3, "exp": 20}, ("earlier update", 'late="this update"')),
    ],
)  # fmt: skip
def test_a_refused_row_shows_why_and_what_can_be_done(
    tmp_path: Path, settings: dict[str, Any], row: dict[str, Any], said: tuple[str, ...]
) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k BIGINT, ts BIGINT, exp BIGINT, class STRING", key="k",
        max_lifetime="80 us", refresh="10 us", origin=0, **settings,
    )  # fmt: skip
    full = {"k": 1, "ts": 10, "exp": 20, "class": "free"} | row
    schema = pa.schema([(name, pa.int64()) for name in ("k", "ts", "exp")])
    schema = schema.append(pa.field("class", pa.string()))
    with pytest.raises(BadInput) as refused:
        archive.update(pa.Table.from_pylist([full], schema))
    assert all(one in str(refused.value) for one in said), refused.value


def test_the_default_has_about_as_many_ranges_as_each_spans() -> None:
    declared = LifetimeRequest(
        "k STRING, ts BIGINT, exp BIGINT", key="k", max_lifetime="36 days"
    ).declaration()
    layout = declared.settings.layout
    assert (layout.constituents, str(layout)) == (6, "round-robin NoRebuild 1x6")


@pytest.mark.parametrize("layout", [None, "NoRebuild 2x2", "D-ins2"])
def test_expirations_alone_read_no_data(tmp_path: Path, layout: str | None) -> None:
    archive = made(tmp_path / "a", layout)
    for update in range(1, P + 1):
        archive.update(table(rows_of(update)))
    removed = 0
    for _ in range(P):
        before = archive.repository.directory.io.bytes_read
        report = archive.update(None)
        assert (report.files_read, report.bytes_read, report.bytes_written) == (0, 0, 0)
        manifests = archive.repository.directory.io.bytes_read - before
        assert manifests < 1_000_000  # the archive's own counters saw nothing but manifests
        removed += report.removed
    assert removed > 0
    assert archive.scan().num_rows == 0


def test_a_probe_meets_a_bounded_number_of_runs(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 1x3", max_lifetime="360 us", span=12, fan_in=3)
    for update in range(1, 120):
        archive.update(table([(n, 10 * update, 10 * update + 30 * n + 1, n) for n in range(12)]))
        runs = archive.version().state.runs
        # Fewer than 3 runs on each of at most 4 levels (3^4 > 36), in at most 4 ranges.
        assert sum(map(len, runs.values())) <= 4 * 4 * 2


def test_windows_of_the_inputs_of_a_join(tmp_path: Path) -> None:
    """Each input's own time is stored on request; a smaller window is asked for each of them."""
    archive = mayfly.archive.create(
        tmp_path / "a", "k BIGINT, ts BIGINT, exp BIGINT, left_ts BIGINT, right_ts BIGINT",
        key="k", max_lifetime="100 us", refresh="10 us", origin=0,
    )  # fmt: skip
    pairs = [(1, 38), (12, 38), (25, 31), (38, 2)]
    archive.update(None, update=3)
    archive.update(
        pa.table(
            {
                "k": [1] * 4,
                "ts": [max(pair) for pair in pairs],
                "exp": [min(pair) + 100 for pair in pairs],
                "left_ts": [left for left, _ in pairs],
                "right_ts": [right for _, right in pairs],
            }
        )
    )
    for left in (5, 20, 30, 39, 100):
        for right in (5, 9, 39, 100):
            found = archive.probe(1, window={"left_ts": f"{left} us", "right_ts": f"{right} us"})
            wanted = [(a, b) for a, b in pairs if a + left > 40 and b + right > 40]
            shown = zip(found["left_ts"].to_pylist(), found["right_ts"].to_pylist(), strict=True)
            assert sorted(shown) == sorted(wanted)
    assert archive.probe(1, window={"left_ts": "30 us"}, columns=["k"]).num_rows == 3
    with pytest.raises(InvalidSetting, match="longer than 0"):
        archive.probe(1, window={"left_ts": 0})
    with pytest.raises(InvalidSetting, match="time column"):
        archive.probe(1, window={"middle": "3 us"})


def test_smaller_windows(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    given = [row for update in range(1, 6) for row in rows_of(update)]
    for update in range(1, 6):
        archive.update(table(rows_of(update)))
    for size in (1, 30, 79, 80):
        shorter = 80 - size
        wanted = sorted(row[3] for row in given if row[2] - shorter > 50)
        assert ids(archive.scan(window=f"{size} us")) == wanted
    for wrong in (0, "81 us"):
        with pytest.raises(InvalidSetting, match="smaller window"):
            archive.scan(window=wrong)
    with pytest.raises(InvalidSetting, match="soft"):
        archive.scan(window="3 us", soft=True)
    wave = mayfly.archive.create(tmp_path / "w", DDL, key="k", window=3)
    with pytest.raises(InvalidSetting, match="4 updates was asked"):
        wave.scan(window=4)


@pytest.mark.parametrize(
    "change",
    [
        {"max_lifetime": 80},
        {"refresh": 10},
        {"refresh": 2.5},
        {"exp": None, "lifetime": 20},
        {"exp": None, "lifetime": 20, "counts": {"ts": 3}},
        {"exp": None, "lifetime": {"class": {"free": "1 us", "paid": 20}}},
    ],
)
def test_a_number_is_no_duration_of_an_archive(tmp_path: Path, change: dict[str, Any]) -> None:
    """Nobody can tell whether 3600 means seconds."""
    columns = "k BIGINT, ts BIGINT, exp BIGINT, class STRING"
    settings: dict[str, Any] = {"key": "k", "max_lifetime": "80 us", "refresh": "10 us"}
    settings |= {"origin": 0, "exp": "exp"}
    with pytest.raises(InvalidSetting, match="has no unit") as refusal:
        mayfly.archive.create(tmp_path / "a", columns, **(settings | change))
    assert '"1 hour"' in refusal.value.hint
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("change", [{"max_lifetime": 160}, {"refresh": 20}])
def test_a_number_is_no_duration_of_a_migration(tmp_path: Path, change: dict[str, Any]) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    with pytest.raises(InvalidSetting, match="has no unit"):
        archive.migrate(**change)


def test_a_smaller_window_is_a_duration_or_counts_updates(tmp_path: Path) -> None:
    """Rows with their own lifetimes have no number of updates that they stay."""
    archive = made(tmp_path / "a", "Rebuild 2x2")
    archive.update(table(rows_of(1)))
    for window in (30, {"ts": 30}):
        with pytest.raises(InvalidSetting, match="30 has no unit"):
            archive.scan(window=window)
    wave = mayfly.archive.create(tmp_path / "w", DDL, key="k", window=3, refresh="10 us", origin=0)
    wave.update(table(rows_of(1)))
    assert wave.scan(window=3) == wave.scan(window="30 us") == wave.scan()
    with pytest.raises(InvalidSetting, match="30 has no unit"):
        wave.scan(window={"ts": 30})


def test_rows_dead_by_position_are_not_stored_whatever_their_time(tmp_path: Path) -> None:
    """Also those with the very time of the update, which no earlier instant shows."""
    archive = mayfly.archive.create(
        tmp_path / "a", "k BIGINT, ts BIGINT, pos BIGINT", key="k", max_lifetime="60 us",
        refresh="10 us", origin=0, counts={"pos": 3},
    )  # fmt: skip
    times = [4, 9, 10, 10, 10, 10, 10]
    report = archive.update(pa.table({"k": range(7), "ts": times, "pos": range(1, 8)}))
    assert (report.dead_on_arrival, report.rows_in) == (4, 7)
    assert archive.scan(soft=True)["pos"].to_pylist() == [5, 6, 7]
    assert archive.version().manifest.rows == 3
