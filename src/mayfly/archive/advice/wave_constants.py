"""Constants of the cost model from an archive's own updates and files.

Idea: the model prices a day as a sum of its constants, each times how often its operation runs, so
the constants follow from the times of past updates by least squares. Where the reports do not
tell two constants apart, or an operation never ran, the answer nearest to "writing a day takes
the same, whatever for" is taken. Marking a day as deleted writes nothing and counts as free.
Seek and transfer are measured on the archive's own files.
Invariant: constants are never negative. Cost: one small system of equations; a few file reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean, median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.archive.advice.cost_parameters import CostParameters
from mayfly.archive.advice.wave_cost import day_price
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import RUN, ArchiveVersion
from mayfly.display import Facts
from mayfly.errors import InvalidSetting
from mayfly.storage.directory import Directory
from mayfly.storage.segment import Segment, check_content

MEGABYTE = 1e6
FILES_MEASURED = 5
_TOWARDS_EQUAL = 0.01
"""Weight of the assumption that a day costs the same to write, beside one report."""
_OPERATIONS = ("build", "add", "measured_copy", "measured_packed_copy")
_NOTHING = CostParameters(
    "none", seek=0, transfer=1, packed_day=1, unpacked_day=1, build=0, add=0, delete=0, bucket=0,
    measured_copy=0, measured_packed_copy=0,
)  # fmt: skip
Report = Mapping[str, Any]


@dataclass(frozen=True)
class MeasuredUpdates:
    """What an update costs here: seconds per day written, and seconds that every update takes."""

    overhead: float
    seconds: Mapping[str, float]
    """Build, Add, CP and SMCP of one day."""
    reports: int

    def predict(self, settings: ArchiveSettings, update: int) -> tuple[float, float]:
        """Seconds of transition and pre-transition work that the model expects of an update."""
        constants = _priced(self.seconds)
        now, later = day_price(settings.wave, settings.technique, constants, update)
        return self.overhead + now, later


@dataclass(frozen=True, repr=False)
class Prediction(Facts):
    """What the model expected of an update, from the reports before it, and what it took."""

    update: int
    expected: float | None
    """Seconds; None while there are no earlier reports to go by."""
    took: float

    def facts(self) -> dict[str, object]:
        expected = "nothing" if self.expected is None else f"{self.expected:.3g} s"
        return {"update": self.update, "expected": expected, "took": f"{self.took:.3g} s"}

    @property
    def error(self) -> float | None:
        """How far off, relative to what it took."""
        return None if self.expected is None or not self.took else self.expected / self.took - 1


def measured_updates(
    settings: ArchiveSettings, reports: Sequence[Report]
) -> MeasuredUpdates | None:
    """Fit the model to these reports; None if none of them is about an ordinary update."""
    usable = _ordinary(reports)
    return _fitted(
        [_worked(settings, report) for report in usable], [_seconds(report) for report in usable]
    )


def predictions(
    settings: ArchiveSettings, reports: Sequence[Report], since: int = 0
) -> list[Prediction]:
    """For every kept report, what the ones before it would have led to expect; of those up to the
    update ``since`` nothing, because the archive was another then."""
    usable = {entry["update"] for entry in _ordinary(reports) if entry["update"] > since}
    worked: list[list[float]] = []
    took: list[float] = []
    forecasts = []
    for report in reports:
        earlier = _fitted(worked, took)
        expected = fsum(earlier.predict(settings, report["update"])) if earlier else None
        forecasts.append(Prediction(report["update"], expected, _seconds(report)))
        if report["update"] in usable:
            worked.append(_worked(settings, report))
            took.append(_seconds(report))
    return forecasts


def _worked(settings: ArchiveSettings, report: Report) -> list[float]:
    """How often each operation ran on a day, by the model."""
    layout, technique = settings.wave, settings.technique
    return [
        fsum(day_price(layout, technique, _priced({name: 1.0}), report["update"]))
        for name in _OPERATIONS
    ]


def _fitted(worked: Sequence[Sequence[float]], seconds: Sequence[float]) -> MeasuredUpdates | None:
    if not worked:
        return None
    counts, took = np.array(worked), np.array(seconds)
    equal = float(took.sum() / max(counts.sum(), 1.0))
    fitted = nearest_to(
        np.column_stack([np.ones(len(took)), counts]),
        took,
        np.array([0.0, *[equal] * len(_OPERATIONS)]),
    )
    constants = dict(zip(_OPERATIONS, fitted[1:].tolist(), strict=True))
    return MeasuredUpdates(float(fitted[0]), constants, len(took))


def measured_parameters(
    directory: Directory, version: ArchiveVersion, reports: Sequence[Report]
) -> tuple[CostParameters, float]:
    """The model's constants for this archive, and the seconds that every update takes anyway."""
    updates = measured_updates(version.settings, reports)
    segments = list(version.manifest.in_group(RUN))
    if updates is None or not segments:
        raise InvalidSetting(
            f"the archive {directory.address} has not stored any rows yet, so there is nothing to "
            "measure",
            "run some updates first, or give the constants (parameters=…)",
        )
    rows = fmean(report["stored"] for report in _ordinary(reports))
    per_row = sum(s.bytes for s in segments) / sum(s.rows for s in segments) * _copies(version)
    day = max(rows * per_row / MEGABYTE, 1e-9)
    seek, transfer, bucket = _measured_reads(directory, version, segments)
    constants = replace(
        _priced(updates.seconds),
        name=directory.name,
        seek=seek,
        transfer=transfer,
        packed_day=day,
        unpacked_day=day,
        bucket=bucket,
        seek_run=seek,
    )
    return constants, updates.overhead


def _priced(seconds: Mapping[str, float]) -> CostParameters:
    """Constants in which only these operations cost anything."""
    options: dict[str, Any] = dict(seconds)
    return replace(_NOTHING, **options)


def _ordinary(reports: Sequence[Report]) -> list[Report]:
    """Updates with rows that did not have to make up for missed ones."""
    ordinary_reports = []
    for position, report in enumerate(reports):
        follows = position > 0 and reports[position - 1]["update"] == report["update"] - 1
        if report["stored"] and (follows or report["update"] == 1):
            ordinary_reports.append(report)
    return ordinary_reports


def _seconds(report: Report) -> float:
    return float(report["transition_seconds"] + report["pre_transition_seconds"])


def nearest_to(
    counts: npt.NDArray[np.float64], took: npt.NDArray[np.float64], wish: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Least squares pulled towards ``wish``; what would become negative is set to 0."""
    free = np.ones(counts.shape[1], dtype=bool)
    solution = np.zeros(counts.shape[1])
    while free.any():
        own = counts[:, free]
        pull = _TOWARDS_EQUAL * np.eye(int(free.sum()))
        solution[:] = 0.0
        solution[free] = np.linalg.solve(own.T @ own + pull, own.T @ took + pull @ wish[free])
        if not (solution < 0).any():
            break
        free &= solution >= 0
    return solution


def _copies(version: ArchiveVersion) -> float:
    """How many times a row is stored under an array key, on average."""
    if version.settings.array_key is None:
        return 1.0
    runs = {run.id: run for held in version.state.runs.values() for run in held}
    stored = sum(s.rows for id in runs for s in version.segments_of(id))
    rows = sum(version.state.day_rows.get(d, 0) for run in runs.values() for d in run.days)
    return stored / rows if rows else 1.0


def _measured_reads(
    directory: Directory, version: ArchiveVersion, segments: Sequence[Segment]
) -> tuple[float, float, float]:
    """Seconds to reach a row group, megabytes a second, and megabytes of a key in a day."""
    largest = sorted(segments, key=lambda candidate: candidate.bytes)[-FILES_MEASURED:]
    key = version.settings.sort_columns[0]
    seeks, speeds, buckets = [], [], []
    for segment in largest:
        check_content(directory, segment, again=False)
        began = time.perf_counter()
        with directory.open(segment.path) as source, pq.ParquetFile(source) as file:
            opened = time.perf_counter() - began
            group = file.read_row_group(0)
            reached = time.perf_counter() - began
            file.read()
            whole = time.perf_counter() - began - reached
        share = segment.bytes * group.num_rows / segment.rows / MEGABYTE
        speeds.append(segment.bytes / MEGABYTE / max(whole, 1e-9))
        # To open the file is part of it, whatever came between when the rest was read.
        seeks.append(max(reached - share / speeds[-1], opened))
        keys = max(1, pc.count_distinct(group[key]).as_py())
        buckets.append(share / keys / max(1, _days_in(version, segment)))
    return median(seeks), median(speeds), median(buckets)


def _days_in(version: ArchiveVersion, segment: Segment) -> int:
    id = segment.group.partition("/")[2]
    return next(
        (len(run.days) for held in version.state.runs.values() for run in held if run.id == id), 1
    )
