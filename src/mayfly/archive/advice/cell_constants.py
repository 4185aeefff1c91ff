"""Constants of the cost model of rows with their own lifetimes, from an archive's own doings.

Idea: a report says how many files and bytes an update moved and how long it took, so the seconds
per file and per megabyte follow by least squares; where the reports do not tell two of them apart,
they stay in the proportions of a small sample. Lifetimes follow from how many rows each coming
update will remove. Reads are timed: a few probes, and scans of some of the runs.
Invariant: constants are never negative. Cost: one small system of equations; a few reads.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.archive.advice.cell_cost import CellConstants, CellLoad, Moved
from mayfly.archive.advice.wave_constants import MEGABYTE, nearest_to
from mayfly.archive.layouts.cell_run import uniform
from mayfly.archive.layouts.run_plan import Run
from mayfly.archive.model.key_order import sorted_by_key
from mayfly.archive.model.state import DAYS, ArchiveVersion
from mayfly.archive.read.questions import selection
from mayfly.archive.read.selection import ReadReport, Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.archive.write.job_plan import PlannedCommit
from mayfly.errors import InvalidSetting
from mayfly.storage.directory import Directory

Report = Mapping[str, Any]
TYPICAL = CellConstants(
    "typical", overhead=0.02, file=0.003, write=0.01, read=0.005, reach=0.0005, decode=0.003,
    open=0.001, scan=0.003,
)  # fmt: skip
"""Only proportions between these count, and only where nothing was measured that tells."""
PROBES_TIMED = 12
SCANNED_BYTES = 32 * 2**20
SAMPLE_ROWS, SAMPLE_ROW_BYTES = 8_000, 900
_REPORTS_AVERAGED = 12
_TRUST = 5.0
"""How much a report weighs against the usual proportions."""


def measured_constants(
    directory: Directory, version: ArchiveVersion, reports: Sequence[Report]
) -> CellConstants:
    """The constants of an archive that has rows."""
    fitted = fitted_updates(reports)
    if fitted is None or not version.state.used_runs():
        raise InvalidSetting(
            f"the archive {directory.address} has not stored any rows yet, so there is nothing to "
            "measure",
            "run some updates first",
        )
    opened, scanned = _scan_speed(directory, version)
    reach = _reach(directory, version, scanned)
    return replace(
        fitted, name=directory.name, reach=reach, decode=scanned, open=opened, scan=scanned
    )


def fitted_updates(reports: Sequence[Report]) -> CellConstants | None:
    """Seconds per update, file and megabyte, nearest to the reports; None without any."""
    usable = [report for report in reports if report["files_written"] and seconds_of(report) > 0]
    if not usable:
        return None
    names = ("overhead", "file", "write", "read")
    typical = np.array([getattr(TYPICAL, name) for name in names])
    moved = np.array([_counted(report) for report in usable])
    took = np.array([seconds_of(report) for report in usable])
    usual = moved * typical
    scale = took.mean() / usual.sum(axis=1).mean()
    weight = _TRUST / took.mean()
    factors = nearest_to(weight * scale * usual, weight * took, np.ones(len(names)))
    estimates = (factors * typical * scale).tolist()
    return replace(TYPICAL, **dict(zip(names, estimates, strict=True)))


def _counted(report: Report) -> tuple[float, ...]:
    written, read = report["bytes_written"] / MEGABYTE, report["bytes_read"] / MEGABYTE
    return 1.0, report["files_written"], written, read


def seconds_of(report: Report) -> float:
    return float(report["transition_seconds"] + report["pre_transition_seconds"])


def measured_load(
    version: ArchiveVersion, reports: Sequence[Report], *, probes: float = 0, scans: float = 0
) -> CellLoad:
    """What comes with an update of this archive, from its last reports and what is stored."""
    settings = version.settings
    last = [report for report in reports if report["stored"]][-_REPORTS_AVERAGED:]
    rows = fmean(report["stored"] for report in last)
    per_row = _bytes_per_row(version)
    return CellLoad(
        megabytes=max(rows * per_row / MEGABYTE, 1e-9),
        profile=lifetime_profile(version),
        probes=probes,
        scans=scans,
        parts=settings.parts,
        row_group=settings.row_group_bytes / MEGABYTE,
        patience=settings.contract.late,
    )


def lifetime_profile(version: ArchiveVersion) -> tuple[float, ...]:
    """Which share of an update's rows is removed 1, 2, …, p updates later, at a steady rate.

    The rows that update u + d will remove came with the last u updates, so from the longest
    lifetime down each share is what the longer ones leave unexplained.
    """
    longest, update = version.settings.cells.rollover, version.state.update
    shares = np.zeros(longest + 2)
    for d in range(longest, 0, -1):
        longer = shares[d + 1 : min(longest, d + update - 1) + 1].sum()
        shares[d] = max(0.0, version.state.day_rows.get(update + d, 0) - longer)
    profile = shares[1 : longest + 1]
    return tuple((profile / profile.sum()).tolist()) if profile.any() else uniform(longest)


def expected_moves(version: ArchiveVersion, planned: PlannedCommit, rows: float) -> Moved:
    """What the plan of an update that brings so many rows is going to read and write."""
    shares = lifetime_profile(version)
    per_row = dict[int, float]()
    files, written, read = 0, 0.0, 0.0
    for write in (write for plan in planned.plans for write in plan.write):
        kept = 0.0
        for source in write.sources:
            for segment in version.segments_of(source.run):
                read += segment.bytes
                kept += sum(count for label, count in segment.tags[DAYS] if label in source.days)
        longer = (label - planned.update for label in write.batch_days)
        kept += rows * sum(shares[d - 1] for d in longer if 1 <= d <= len(shares))
        files += kept >= 0.5
        if write.level not in per_row:
            per_row[write.level] = _bytes_per_row(version, write.level)
        written += kept * per_row[write.level]
    return Moved(files * version.settings.parts, written / MEGABYTE, read / MEGABYTE)


def expected_seconds(
    version: ArchiveVersion, planned: PlannedCommit, reports: Sequence[Report], rows: int | None
) -> float | None:
    """How long an update should take, by the reports of earlier ones; None without any."""
    fitted = fitted_updates(reports)
    if fitted is None or not version.state.used_runs():
        return None
    if rows is None:
        last = [report["stored"] for report in reports[-_REPORTS_AVERAGED:]]
        rows = round(fmean(last))
    return fitted.update(expected_moves(version, planned, rows))


def _bytes_per_row(version: ArchiveVersion, level: int | None = None) -> float:
    """Stored bytes of a row, in runs of one level if there are some: not all need be alike."""
    segments = [s for run in version.state.used_runs() for s in version.segments_of(run)]
    chosen = [s for s in segments if s.level == level] or segments
    return sum(s.bytes for s in chosen) / max(1, sum(s.rows for s in chosen))


def _some_runs(version: ArchiveVersion, *, largest: bool) -> ArchiveVersion:
    """The version with a few of its runs, either end of their sizes."""
    sizes = {
        run: sum(segment.bytes for segment in version.segments_of(run.id))
        for held in version.state.runs.values()
        for run in held
    }
    chosen, room = set[str](), SCANNED_BYTES
    for run in sorted(sizes, key=lambda candidate: sizes[candidate], reverse=largest)[:16]:
        if chosen and sizes[run] > room:
            break
        chosen.add(run.id)
        room -= sizes[run]
    runs = {name: _among(held, chosen) for name, held in version.state.runs.items()}
    return replace(version, state=replace(version.state, runs=runs))


def _among(held: Sequence[Run], chosen: set[str]) -> tuple[Run, ...]:
    return tuple(run for run in held if run.id in chosen)


def _scan_speed(directory: Directory, version: ArchiveVersion) -> tuple[float, float]:
    """Seconds per file and per megabyte of a scan."""
    counted, took = [], []
    for largest in (True, False):
        some = _some_runs(version, largest=largest)
        segments = [s for run in some.state.used_runs() for s in some.segments_of(run)]
        reader = Reader(directory, some)
        criteria = selection(some.settings, some.time)
        counted.append([len(segments), sum(s.bytes for s in segments) / MEGABYTE])
        took.append(min(_timed(partial(reader.scan, criteria)) for _ in range(2)))
    usual = np.array(counted) * [TYPICAL.open, TYPICAL.scan]
    seconds = np.array(took)
    scale = seconds.mean() / usual.sum(axis=1).mean()
    factors = nearest_to(usual * scale / seconds.mean(), seconds / seconds.mean(), np.ones(2))
    opened, scanned = (factors * [TYPICAL.open, TYPICAL.scan] * scale).tolist()
    return opened, scanned


def _reach(directory: Directory, version: ArchiveVersion, decode: float) -> float:
    """Seconds to look into one run, by probes of keys that are stored."""
    report = ReadReport()
    reader = Reader(directory, version, report=report)
    criteria = selection(version.settings, version.time, soft=True)
    took = []
    for key in _stored_keys(Reader(directory, _some_runs(version, largest=True)), criteria):
        reader.probe([key], criteria)
        before = report.bytes
        seconds = _timed(partial(reader.probe, [key], criteria))
        took.append(max(0.0, seconds - (report.bytes - before) / MEGABYTE * decode))
    return median(took or [0.0]) / len(version.state.used_runs())


def _stored_keys(reader: Reader, criteria: Selection) -> list[Any]:
    """Some keys that rows are found under."""
    settings = reader.settings
    names = list(settings.key)
    rows = pa.concat_tables(table.select(names) for table in reader.scan_tables(criteria, names))
    places = np.linspace(0, rows.num_rows - 1, PROBES_TIMED).astype(int)
    keys = [tuple(row.values()) for row in rows.take(pa.array(places)).to_pylist()]
    if settings.array_key is not None:
        return [value for (values,) in keys for value in values[:1]]
    return [key if len(names) > 1 else key[0] for key in keys]


def sampled_constants(folder: Path) -> CellConstants:
    """Constants of this machine, by a sample that is written and read in this folder."""
    rng = np.random.default_rng(0)
    payload = rng.integers(0, 1 << 62, (SAMPLE_ROWS, SAMPLE_ROW_BYTES // 16))
    rows = pa.table(
        {
            "key": rng.integers(0, SAMPLE_ROWS // 10, SAMPLE_ROWS),
            "payload": ["".join(f"{word:016x}" for word in words) for words in payload],
        }
    )
    small = rows.slice(0, 8)
    with tempfile.TemporaryDirectory(prefix=".mayfly-sample-", dir=folder) as place:
        large_file, small_file = Path(place) / "0", Path(place) / "1"
        file = _least(lambda: _write(sorted_by_key(small, ("key",)), small_file))
        write = _timed(lambda: _write(sorted_by_key(rows, ("key",)), large_file))
        scan = _least(lambda: pq.read_table(large_file, use_threads=False))
        opened = _least(lambda: pq.read_table(small_file, use_threads=False))
        stored = large_file.stat().st_size / MEGABYTE
    per_megabyte = max(scan - opened, 0.0) / stored
    return CellConstants(
        "this machine", overhead=10 * file, file=file, write=max(write - file, 0.0) / stored,
        read=per_megabyte, reach=opened, decode=per_megabyte, open=opened, scan=per_megabyte,
    )  # fmt: skip


def _write(rows: pa.Table, path: Path) -> None:
    pq.write_table(rows, path, row_group_size=128, compression="lz4")
    with path.open("rb+") as file:
        os.fsync(file)


def _least(work: Callable[[], object]) -> float:
    return min(_timed(work) for _ in range(3))


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
