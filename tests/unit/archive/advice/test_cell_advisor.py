"""Advice on rows with their own lifetimes: the papers' cases, limits, measured archives, auto."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive import Archive, CellAdvice, Need, Workload
from mayfly.archive.advice.cell_advice import LaidOutFor
from mayfly.archive.advice.cell_advisor import advise_cells, cell_name, declared, families
from mayfly.archive.advice.cell_constants import expected_moves, fitted_updates, lifetime_profile
from mayfly.archive.advice.cell_cost import CellConstants, CellLoad
from mayfly.archive.layouts.cell_run import uniform
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.model.lifetime_declaration import LifetimeRequest, default_layout
from mayfly.archive.write.job_plan import plan_cells
from mayfly.cli import main
from mayfly.errors import InvalidSetting

DAY = 86_400_000_000
DDL = "k BIGINT, ts TIMESTAMP, exp TIMESTAMP, v STRING"
DISK = CellConstants(
    "disk", overhead=0.02, file=0.002, write=0.01, read=0.005, reach=0.0007, decode=0.002,
    open=0.0005, scan=0.002,
)  # fmt: skip
NEED = Need(36, hard=False, most_constituents=100)


def advised(megabytes: float, probes: float = 0, scans: float = 0, **need: Any) -> CellAdvice:
    load = CellLoad(megabytes, uniform(36), probes, scans)
    return advise_cells(36, load, DISK, replace(NEED, **need))


@pytest.mark.parametrize(
    ("megabytes", "probes", "large", "many", "rule"),
    [
        (14, 0, False, False, "NoRebuild 4x4"),
        (14, 10_000, False, True, "Rebuild 2x2"),
        (140, 0, True, False, "NoRebuild 3x3"),
        (140, 10_000, True, True, "NoRebuild 2x2"),
    ],
)
def test_the_papers_rule_of_thumb_stands_beside_the_candidates(
    megabytes: float, probes: float, large: bool, many: bool, rule: str
) -> None:
    advice = advised(megabytes, probes)
    thumb = advice.rule_of_thumb
    assert (thumb.large, thumb.many_queries, cell_name(thumb.cost.layout)) == (large, many, rule)
    assert advice.best.total_work <= 1.05 * thumb.cost.total_work
    assert f"The papers' rule of thumb for {thumb}, {rule}, would take" in advice.explain()


def test_large_data_are_rebuilt_where_probes_are_crucial() -> None:
    thumb = advised(140, 10_000, slowest_probe=0.02).rule_of_thumb
    assert cell_name(thumb.cost.layout) == "Rebuild 2x2"


def test_many_probes_are_answered_from_rebuilt_sub_indices_and_few_are_not() -> None:
    few, many = advised(6, 1), advised(6, 20_000)
    assert not few.best.layout.rebuild
    assert many.best.layout.rebuild
    assert many.best.probe < few.best.probe
    assert many.best.transition > few.best.transition
    found = few.break_even()
    assert found is not None
    even, rebuilt = found
    assert rebuilt.layout.rebuild
    below, above = advised(6, 0.9 * even), advised(6, 1.2 * even)
    assert not below.best.layout.rebuild
    assert above.best.layout.rebuild


def test_candidates_are_ranked_and_limits_kept() -> None:
    advice = advised(6, 100, 1)
    works = [one.total_work for one in advice.candidates]
    assert works == sorted(works)
    assert len({cell_name(one.layout) for one in advice.candidates}) == len(works) >= 6
    assert all(one.dead <= 0.25 * advice.load.live for one in advice.candidates)
    hard = advised(6, 100, hard=True)
    assert all(one.layout.hard and not one.dead for one in hard.candidates)
    quick = advised(6, 100, slowest_probe=0.005)
    assert all(one.probe <= 0.005 for one in quick.candidates)
    small = advised(6, 100, most_space=150)
    assert all(one.largest_space <= 150 for one in small.candidates)
    with pytest.raises(InvalidSetting, match="no layout keeps lifetimes of 36 updates"):
        advised(6, most_space=1)


def test_the_layout_without_a_name_is_among_the_candidates_and_near_the_best() -> None:
    layouts = [layout for family in families(36, NEED) for layout in family]
    assert default_layout(36) in layouts
    advice = advised(6, 20)
    chosen = next(c for c in advice.candidates if c.layout.span > 1 and c.layout.fan_in == 4)
    assert chosen.total_work < 1.5 * advice.best.total_work


def test_every_candidate_can_be_declared_by_its_name() -> None:
    for layout in (layout for family in families(36, NEED) for layout in family):
        settings = LifetimeRequest(
            "k BIGINT, ts TIMESTAMP, exp TIMESTAMP", key="k", max_lifetime="36 days",
            **declared(layout),
        ).declaration().settings  # fmt: skip
        assert settings.layout == layout


def test_the_table_has_the_figures_of_every_candidate() -> None:
    advice = advised(6, 100)
    header, *lines = advice.table()
    assert header.split()[0] == "layout"
    assert [line[:34].strip() for line in lines] == [
        cell_name(one.layout) for one in advice.candidates
    ]
    text = advice.explain()
    assert f"take {cell_name(advice.best.layout)}: " in text
    assert "pays from" in text


# -- measured archives -----------------------------------------------------------------------


def batch(update: int, count: int, longest: int, chance: np.random.Generator) -> pa.Table:
    ts = chance.integers((update - 1) * DAY + 1, update * DAY + 1, count)
    stamp = pa.timestamp("us", "UTC")
    words = chance.integers(0, 1 << 62, (count, 8))
    return pa.table(
        {
            "k": chance.integers(0, 50, count),
            "ts": pa.array(ts, stamp),
            "exp": pa.array(ts + chance.integers(1, longest * DAY + 1, count), stamp),
            "v": ["".join(f"{word:016x}" for word in row) for row in words],
        }
    )


def filled(path: Path, updates: int, rows: int = 300, **declared: Any) -> Archive:
    archive = mayfly.archive.create(path, DDL, key="k", max_lifetime="8 days", origin=0, **declared)
    chance = np.random.default_rng(3)
    for update in range(1, updates + 1):
        archive.update(batch(update, rows, 8, chance))
    return archive


def test_lifetimes_are_found_from_what_coming_updates_remove(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k BIGINT, ts BIGINT, exp BIGINT", key="k", max_lifetime="4 us",
        refresh="1 us", origin=0,
    )  # fmt: skip
    wanted = (0.5, 0.0, 0.3, 0.2)
    for update in range(1, 9):
        lives = [1] * 5 + [3] * 3 + [4] * 2
        ts, exp = [update] * 10, [update + lived for lived in lives]
        archive.update(pa.table({"k": list(range(10)), "ts": ts, "exp": exp}))
        assert lifetime_profile(archive.version()) == pytest.approx(wanted), update
    empty = mayfly.archive.create(
        tmp_path / "b", "k BIGINT, ts BIGINT, exp BIGINT", key="k", max_lifetime="4 us",
        refresh="1 us", origin=0,
    )  # fmt: skip
    assert lifetime_profile(empty.version()) == uniform(4)


def test_constants_are_found_in_reports_that_tell_them_apart() -> None:
    chance = np.random.default_rng(2)
    reports = []
    for _ in range(40):
        files, written, read = chance.integers(1, 60), *chance.uniform(0, 30, 2)
        took = 0.1 + 0.004 * files + 0.02 * written + 0.01 * read
        reports.append(
            {
                "files_written": int(files),
                "bytes_written": written * 1e6,
                "bytes_read": read * 1e6,
                "transition_seconds": took,
                "pre_transition_seconds": 0.0,
            }
        )
    found = fitted_updates(reports)
    assert found is not None
    told = (found.overhead, found.file, found.write, found.read)
    assert told == pytest.approx((0.1, 0.004, 0.02, 0.01), rel=0.1)
    same = fitted_updates(reports[:1] * 5)
    assert same is not None
    assert min(same.overhead, same.file, same.write, same.read) >= 0
    assert fitted_updates([{**reports[0], "files_written": 0}]) is None


@pytest.mark.parametrize("layout", ["Rebuild 2x2", "NoRebuild 2x2", None])
def test_what_an_update_will_move_is_known_before_it(tmp_path: Path, layout: str | None) -> None:
    """Files exactly, bytes within a few percent, when lifetimes are as before."""
    archive = filled(tmp_path / "a", 14, rows=800, layout=layout)
    chance = np.random.default_rng(9)
    for update in range(15, 21):
        version = archive.version()
        of = version.settings.layout
        assert isinstance(of, PartitionedLayout)
        planned = plan_cells(version, of, update, has_batch=True)
        moved = expected_moves(version, planned, 800)
        report = archive.update(batch(update, 800, 8, chance))
        assert moved.files == report.files_written
        assert moved.written * 1e6 == pytest.approx(report.bytes_written, rel=0.1)
        assert moved.read * 1e6 == pytest.approx(report.bytes_read, rel=0.01)


def test_reports_say_what_was_expected_of_them(tmp_path: Path) -> None:
    archive = filled(tmp_path / "a", 6, layout="Rebuild 2x2")
    told = archive.inspect.predictions()
    assert [one.update for one in told] == list(range(1, 7))
    assert told[0].expected is None
    assert all(one.expected is not None and one.expected > 0 for one in told[1:])
    assert archive.inspect.reports()[-1]["expected_seconds"] == told[-1].expected
    for key in (1, 2, 3):
        archive.probe(key)
    archive.scan()
    archive.probe_range(1, 4)
    report = archive.update(batch(7, 10, 8, np.random.default_rng(1)))
    assert (report.probes, report.scans) == (4, 1)
    assert archive.update(None).probes == 0


def test_an_archive_advises_from_its_own_updates(tmp_path: Path) -> None:
    archive = filled(tmp_path / "a", 12, layout="Rebuild 2x2", parts=2)
    advice = archive.advise(Workload(probes=20))
    assert isinstance(advice, CellAdvice)
    assert advice.constants.name == "a"
    assert advice.constants.reach > 0
    assert advice.load.probes == 20
    assert advice.load.parts == 2
    assert advice.load.live == pytest.approx(archive.inspect.status().bytes / 1e6, rel=0.25)
    assert advice.load.profile == pytest.approx(uniform(8), abs=0.12)
    assert advice.current is not None
    assert advice.current.layout == archive.settings.layout
    assert advice.current.space == pytest.approx(archive.inspect.status().bytes / 1e6, rel=0.25)
    assert "the last updates took" in advice.explain()
    assert advice.need.hard is False
    bigger = archive.advise(megabytes=100.0)
    assert isinstance(bigger, CellAdvice)
    assert bigger.load.megabytes == 100.0
    with pytest.raises(InvalidSetting, match="rows with their own lifetimes"):
        archive.advise(Workload(probes=1, probed_updates=2))


def test_bytes_that_must_be_gone_allow_no_lingering_layout(tmp_path: Path) -> None:
    archive = filled(tmp_path / "a", 4, contract="HARD PHYSICAL WITHIN 1 day")
    advice = archive.advise()
    assert isinstance(advice, CellAdvice)
    assert advice.need.hard
    assert all(one.layout.hard for one in advice.candidates)


def test_keys_of_several_columns_and_of_arrays_are_measured(tmp_path: Path) -> None:
    for name, kind, key, value in (
        ("two", "k BIGINT, l STRING", ("k", "l"), {"k": [1, 2], "l": ["a", "b"]}),
        ("array", "k ARRAY<STRING>", "k", {"k": [["a", "b"], ["b"]]}),
    ):
        archive = mayfly.archive.create(
            tmp_path / name, f"{kind}, ts BIGINT, exp BIGINT", key=key, max_lifetime="4 us",
            refresh="1 us", origin=0,
        )  # fmt: skip
        for update in (1, 2, 3):
            archive.update(pa.table({**value, "ts": [update] * 2, "exp": [update + 4] * 2}))
        advice = archive.advise(probes=3)
        assert isinstance(advice, CellAdvice)
        assert advice.constants.reach > 0


def test_an_archive_without_rows_has_nothing_to_advise_from(tmp_path: Path) -> None:
    archive = mayfly.archive.create(tmp_path / "a", DDL, key="k", max_lifetime="8 days", origin=0)
    with pytest.raises(InvalidSetting, match="has not stored any rows yet"):
        archive.advise()


# -- layout="auto" ---------------------------------------------------------------------------


def test_auto_takes_the_layout_with_the_least_work(tmp_path: Path) -> None:
    def layout(name: str, **load: float) -> PartitionedLayout:
        archive = mayfly.archive.create(
            tmp_path / name, DDL, key="k", max_lifetime="36 days", origin=0, layout="auto",
            expect=Workload(**load),  # type: ignore[arg-type]
        )  # fmt: skip
        found = archive.settings.layout
        assert isinstance(found, PartitionedLayout)
        return found

    assert not layout("quiet", megabytes=200, probes=0).rebuild
    assert layout("asked", megabytes=1, probes=1_000_000).rebuild
    assert not list(tmp_path.glob(".mayfly-sample-*"))
    with pytest.raises(InvalidSetting, match='layout="auto" needs to know what to expect'):
        mayfly.archive.create(
            tmp_path / "x", DDL, key="k", max_lifetime="36 days", layout="auto", origin=0
        )


def test_a_changed_load_makes_an_update_propose_another_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mayfly.archive.advice.cell_advice.measured_constants", lambda *_: DISK)
    monkeypatch.setattr("mayfly.archive.advice.cell_advice.sampled_constants", lambda *_: DISK)
    archive = mayfly.archive.create(
        tmp_path / "a", DDL, key="k", max_lifetime="8 days", origin=0, layout="auto",
        expect=Workload(megabytes=0.15, probes=50_000),
    )  # fmt: skip
    chance = np.random.default_rng(3)
    assert archive.settings.layout.constituents == 1
    reports = [archive.update(batch(update, 1000, 8, chance)) for update in range(1, 4)]
    assert all(one.proposal is None for one in reports)
    known = LaidOutFor.of(archive.version().manifest.properties)
    assert known == LaidOutFor(0.15, 50_000)
    # Reads are seen where updates are made, from the fourth update on: there are far fewer.
    for update in range(4, 9):
        archive.probe(1)
        reports.append(archive.update(batch(update, 20_000, 8, chance)))
    proposed = [one.proposal for one in reports if one.proposal]
    assert len(proposed) >= 1
    assert "would save" in proposed[-1]
    assert "NoRebuild" in proposed[-1]
    pending = archive.inspect.status().proposal
    assert pending is not None
    assert pending["text"] == proposed[-1]
    assert pending["update"] == max(one.update for one in reports if one.proposal)
    for option in ([], ["--json"]):
        with pytest.raises(SystemExit):
            main(["archive", "status", str(tmp_path / "a"), *option])
        shown = capsys.readouterr().out
        if option:
            assert json.loads(shown)["proposal"]["text"] == proposed[-1]
        else:
            assert f"since update {pending['update']}: {proposed[-1]}" in shown
    found = LaidOutFor.of(archive.version().manifest.properties)
    assert found is not None
    assert found.measured
    assert found.probes < 2
    before = archive.scan().num_rows
    report = archive.migrate(layout="auto")
    assert "NoRebuild" in report.layout
    assert archive.inspect.status().proposal is None
    assert archive.scan().num_rows == before
    later = [archive.update(batch(update, 20_000, 8, chance)) for update in range(9, 12)]
    assert all(one.proposal is None for one in later)


def test_an_archive_with_a_named_layout_proposes_nothing(tmp_path: Path) -> None:
    archive = filled(tmp_path / "a", 9, layout="R-ins8")
    assert all(one["proposal"] is None for one in archive.inspect.reports())
    assert archive.migrate(layout="auto").rows == archive.scan().num_rows


def test_a_load_differs_when_something_doubles_or_halves() -> None:
    known = LaidOutFor(10, 100, 0)
    assert not known.differs(LaidOutFor(19, 190, 0.9))
    assert known.differs(LaidOutFor(20, 100, 0))
    assert known.differs(LaidOutFor(5, 100, 0))
    assert known.differs(LaidOutFor(10, 300, 0))
    assert known.differs(LaidOutFor(10, 100, 1))
