"""The cost model of rows with their own lifetimes: golden figures, and real archives beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.advice.cell_cost import CellConstants, CellLoad, cell_cost, sub_index_sizes
from mayfly.archive.layouts.cell_run import counted_updates, uniform
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout, PartitionRule, baseline
from mayfly.errors import InvalidSetting

ROUND_ROBIN, CHRONOLOGICAL = PartitionRule.ROUND_ROBIN, PartitionRule.CHRONOLOGICAL
ONLY_WRITING = CellConstants(
    "writing", overhead=0, file=0, write=1, read=0, reach=1, decode=0, open=0, scan=1
)


def packed(rule: PartitionRule, p: int, groups: int, lanes: int) -> PartitionedLayout:
    return PartitionedLayout(rule, p, groups, lanes, rebuild=True)


@pytest.mark.parametrize(("p", "side", "deviation"), [(8, 2, 12), (36, 4, 303.75), (40, 5, 384)])
def test_round_robin_sizes_deviate_as_the_theorem_says_at_every_moment(
    p: int, side: int, deviation: float
) -> None:
    found = sub_index_sizes(packed(ROUND_ROBIN, p, side, side), p)
    assert found == pytest.approx([p * p / 4 * (1 - 1 / side**2)] * p)
    assert found[0] == pytest.approx(deviation)


@pytest.mark.parametrize(("p", "side", "mean"), [(8, 2, 52), (36, 4, 13263.75), (40, 5, 15168)])
def test_chronological_sizes_deviate_more_over_a_roll_over(p: int, side: int, mean: float) -> None:
    assert fmean(sub_index_sizes(packed(CHRONOLOGICAL, p, side, side), p)) == pytest.approx(mean)


@pytest.mark.parametrize("side", [2, 3, 4, 6])
def test_rebuilding_reads_and_writes_its_share_of_sub_indices(side: int) -> None:
    """Equal sizes, G + E − 1 of n sub-indices touched: that share of the live data."""
    load = CellLoad(1.0, uniform(36))
    cost = cell_cost(packed(ROUND_ROBIN, 36, side, side), load, ONLY_WRITING)
    share = (2 * side - 1) / side**2
    assert load.live == pytest.approx(18.5)
    assert cost.moved.files == 2 * side - 1
    assert cost.moved.written == pytest.approx(share * load.live, rel=0.03)
    assert cost.moved.read == pytest.approx(cost.moved.written)
    assert cost.space == pytest.approx(load.live)
    assert cost.dead == 0
    assert cost.probe == cost.runs == side**2


def test_equal_groups_and_lanes_write_least_and_baselines_most() -> None:
    load = CellLoad(1.0, uniform(36))

    def written(layout: PartitionedLayout) -> float:
        return cell_cost(layout, load, ONLY_WRITING).transition

    square = written(packed(ROUND_ROBIN, 36, 4, 4))
    assert square < 0.8 * written(packed(ROUND_ROBIN, 36, 8, 2))
    assert written(packed(ROUND_ROBIN, 36, 8, 2)) == pytest.approx(
        written(packed(ROUND_ROBIN, 36, 2, 8)), rel=0.01
    )
    assert written(baseline("R-ins", 36, 16)) > 2 * square
    assert written(baseline("R-ins", 36, 16)) == pytest.approx(load.live)


def test_with_uniform_lifetimes_chronological_updates_move_what_round_robin_ones_do() -> None:
    """Not a sentence of the papers: sizes differ, the sum of the touched ones does not."""
    for p, side in ((36, 4), (40, 5)):
        moved = [
            [one.written for one in counted_updates(packed(rule, p, side, side), uniform(p), 2 * p,
                                                    first=p + 1)]
            for rule in (ROUND_ROBIN, CHRONOLOGICAL)
        ]  # fmt: skip
        assert moved[0] == pytest.approx(moved[1])


@pytest.mark.parametrize(("p", "groups", "share"), [(8, 2, 0.75), (8, 3, 0.375), (36, 4, 11 / 36)])
def test_lazy_groups_keep_as_many_dead_as_the_specification_allows(
    p: int, groups: int, share: float
) -> None:
    lazy = PartitionedLayout(PartitionRule.LAZY, p, groups, 2, rebuild=True)
    equal = (0.0,) * (p - 1) + (1.0,)
    dead = [one.dead for one in counted_updates(lazy, equal, 4 * p, first=2 * p)]
    assert max(dead) == pytest.approx(share * p)
    assert lazy.most_lingering == pytest.approx(share)


def real_updates(
    path: Path, p: int, layout: str, updates: int, **more: Any
) -> Iterator[tuple[PartitionedLayout, tuple[int, ...]]]:
    """An archive with a row for every lifetime in every update, as the model assumes."""
    archive = mayfly.archive.create(
        path, "k BIGINT, ts BIGINT, exp BIGINT", key="k", max_lifetime=f"{p} us",
        refresh="1 us", origin=0, layout=layout, **more,
    )  # fmt: skip
    for update in range(1, updates + 1):
        exp = [update + lived for lived in range(1, p + 1)]
        rows = pa.table({"k": list(range(p)), "ts": [update] * p, "exp": exp})
        report, status = archive.update(rows), archive.inspect.status()
        assert isinstance(archive.settings.layout, PartitionedLayout)
        runs = sum(one.runs for one in status.constituents)
        stored = status.rows + status.dead_rows
        yield archive.settings.layout, (report.files_written, runs, stored, status.dead_rows)


@pytest.mark.parametrize(
    ("p", "layout", "more"),
    [
        (8, "Rebuild 2x2", {}),
        (8, "Rebuild 2x2", {"contract": "SOFT(2)"}),
        (8, "NoRebuild 2x2", {}),
        (9, "NoRebuild 1x3", {"span": 3}),
        (9, "NoRebuild 2x2", {"span": 2, "fan_in": 2}),
        (20, "NoRebuild 1x5", {"span": 4, "fan_in": 2}),
        (17, "NoRebuild 2x3", {"fan_in": 2}),
        (33, "NoRebuild 1x5", {"span": 7, "fan_in": 4}),
        (7, "chronological 2x3", {}),
        (7, "LazyRebuild 3x2", {}),
        (7, "LazyNoRebuild 3x2", {}),
        (8, "random 2x3", {}),
        (8, "R-ins4", {}),
        (8, "D-exp4", {}),
        (8, "WATA4", {}),
    ],
)
def test_the_model_writes_and_keeps_what_an_archive_does(
    tmp_path: Path, p: int, layout: str, more: dict[str, Any]
) -> None:
    """Files written, runs, rows and dead rows, update by update, from the first one on."""
    found = list(real_updates(tmp_path / "a", p, layout, 2 * p + 3, **more))
    patience = 2 if "contract" in more else 0
    counted = counted_updates(found[0][0], uniform(p), len(found), patience=patience)
    for (_, real), model in zip(found, counted, strict=True):
        rows, dead = round(float(model.runs.sum()) * p), round(model.dead * p)
        assert (model.runs_written, len(model.runs), rows, dead) == real, model.update


def test_ranges_take_turns_in_merging() -> None:
    """Nine ranges of eight updates and merges of four runs would all fall on the same updates."""
    layout = PartitionedLayout(ROUND_ROBIN, 72, 1, 9, rebuild=False, span=8)
    written = [one.written for one in counted_updates(layout, uniform(72), 400, first=144)]
    assert max(written) < 1.5 * fmean(written)
    assert min(written) > 0.5 * fmean(written)


def test_runs_that_soon_expire_are_not_merged() -> None:
    layout = PartitionedLayout(ROUND_ROBIN, 72, 1, 9, rebuild=False, span=8)
    assert [layout.merges_pay(0, 1, update) for update in (0, 1, 7)] == [True, False, False]
    assert [layout.merges_pay(1, 0, update) for update in (13, 14, 15)] == [True, True, False]


def test_not_rebuilding_writes_less_and_probes_more_runs() -> None:
    load = CellLoad(1.0, uniform(36))
    kept = PartitionedLayout(ROUND_ROBIN, 36, 4, 4, rebuild=False)
    rebuilt = cell_cost(packed(ROUND_ROBIN, 36, 4, 4), load, ONLY_WRITING)
    cheap = cell_cost(kept, load, ONLY_WRITING)
    assert cheap.transition < 0.25 * rebuilt.transition
    assert cheap.probe > 10 * rebuilt.probe
    in_ranges = cell_cost(
        PartitionedLayout(ROUND_ROBIN, 36, 1, 6, rebuild=False, span=6), load, ONLY_WRITING
    )
    assert in_ranges.transition < 0.33 * rebuilt.transition
    assert in_ranges.probe < 2 * rebuilt.probe
    assert 0 < in_ranges.dead < 0.15 * load.live


def test_parts_and_probes_are_priced() -> None:
    constants = CellConstants(
        "c", overhead=1, file=0.5, write=0, read=0, reach=0.1, decode=2, open=0.25, scan=1
    )
    layout = packed(ROUND_ROBIN, 8, 2, 2)
    load = CellLoad(1.0, uniform(8), probes=10, scans=2, parts=3, row_group=0.01)
    cost = cell_cost(layout, load, constants)
    assert cost.transition == pytest.approx(1 + 0.5 * 3 * 3)
    assert cost.probe == pytest.approx(4 * 0.1 + 4 * 0.01 * 2)
    assert cost.scan == pytest.approx(4 * 3 * 0.25 + 4.5)
    assert cost.total_work == pytest.approx(cost.transition + 10 * cost.probe + 2 * cost.scan)
    unsorted = PartitionedLayout(ROUND_ROBIN, 8, 2, 2, clustered=False)
    assert (found := cell_cost(unsorted, load, constants)).probe == found.scan


def test_impossible_loads_and_constants_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="0 MB an update"):
        CellLoad(0, uniform(8))
    with pytest.raises(InvalidSetting, match="cost constant write of x is -1"):
        CellConstants("x", 0, 0, -1, 0, 0, 0, 0, 0)
