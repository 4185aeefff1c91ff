"""Advice for an archive that exists, from its own updates, and for one that is to be created.

Before the first update nothing is known about an archive but what its owner expects of it, so the
machine is measured instead: a sample is sorted, written, merged and read where the archive will be.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.archive.advice.cost_parameters import CostParameters
from mayfly.archive.advice.wave_advisor import Advice, Need, advise, figure, wave_figures
from mayfly.archive.advice.wave_constants import MEGABYTE, measured_parameters
from mayfly.archive.advice.wave_cost import WaveCost, wave_cost
from mayfly.archive.layouts import UpdateTechnique
from mayfly.archive.model.declaration import Declaration
from mayfly.archive.model.key_order import sorted_by_key
from mayfly.archive.model.reports import CHANGED_AT, reports_of
from mayfly.archive.model.settings import ROW_GROUP_BYTES
from mayfly.archive.model.state import ArchiveVersion
from mayfly.display import Facts
from mayfly.errors import InvalidSetting
from mayfly.storage.directory import Directory
from mayfly.storage.store import local_root

SAMPLE_ROWS, SAMPLE_ROW_BYTES = 8_000, 900


@dataclass(frozen=True)
class Workload:
    """What one refresh interval brings: megabytes of new rows, probes and scans."""

    megabytes: float | None = None
    """Stored megabytes of one update's rows; measured where the archive exists."""
    probes: float = 0
    scans: float = 0
    probed_updates: int | None = None
    """How many of the newest updates a probe asks for; None for the whole window."""
    scanned_updates: int | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value < inf):
                raise InvalidSetting(f"a workload with {name} = {value}", "use 0 or more")

    def asked_of(self, parameters: CostParameters) -> CostParameters:
        """The parameters with these queries."""
        return replace(
            parameters,
            probes=self.probes,
            scans=self.scans,
            probed_days=self.probed_updates,
            scanned_days=self.scanned_updates,
        )


@dataclass(frozen=True, repr=False)
class ArchiveAdvice(Facts):
    """What the advisor says about an archive: candidates, and what it is now."""

    advice: Advice
    current: WaveCost
    overhead: float
    """Seconds every update takes, whatever the layout; not part of the candidates' work."""

    header: ClassVar[tuple[str, ...]] = Advice.header

    def facts(self) -> dict[str, object]:
        return {**self.advice.facts(), "in words": self.explain()}

    def figures(self, most: int) -> list[list[str]]:
        """The first candidates and what the archive is now, under the ``header``."""
        return [*self.advice.figures(most), wave_figures(self.current, "now: ")]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            **self.advice.to_json(),
            "explanation": self.explain(),
            "now": self.current.to_json(),
            "overhead_seconds": self.overhead,
        }

    @property
    def best(self) -> WaveCost:
        return self.advice.best

    def explain(self) -> str:
        now, best = self.current, self.best
        layout = now.layout
        more = now.total_work / best.total_work - 1 if best.total_work else 0.0
        same = layout == best.layout and now.technique == best.technique
        verdict = (
            "That is what it is now."
            if same
            else f"It is now {layout.scheme} with {layout.constituents} ({now.technique}), "
            f"{figure(now.total_work)} s a day: {more:.0%} more. To change it: "
            f"migrate(scheme={best.layout.scheme.value!r}, "
            f"constituents={best.layout.constituents}, technique={best.technique.value!r})."
        )
        return (
            f"{self.advice.explain()} {verdict} Every update takes {figure(self.overhead)} s on "
            "top, whatever the layout."
        )


def advise_archive(
    directory: Directory, version: ArchiveVersion, workload: Workload, need: Need | None = None
) -> ArchiveAdvice:
    """Advice from the archive's own updates; the need is its own window unless given."""
    settings = version.settings
    measured, overhead = measured_parameters(
        directory, version, _of_this_layout(version.manifest.properties)
    )
    parameters = workload.asked_of(measured)
    if workload.megabytes is not None:
        parameters = workload.asked_of(measured.scaled(workload.megabytes / measured.packed_day))
    requirement = need or Need(settings.window, hard=settings.wave.scheme.hard)
    current = wave_cost(settings.wave, settings.technique, parameters)
    return ArchiveAdvice(advise(parameters, requirement), current, overhead)


def _of_this_layout(properties: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The reports since the archive was changed; all of them if there are none."""
    reports, since = reports_of(properties), properties.get(CHANGED_AT, 0)
    return [report for report in reports if report["update"] > since] or reports


def with_advised_layout(
    declared: Declaration,
    folder: Path,
    workload: Workload | None,
    *,
    hard: bool = True,
    techniques: tuple[UpdateTechnique, ...] = tuple(UpdateTechnique),
) -> tuple[Declaration, Advice]:
    """The declaration with the scheme, constituents and technique that do the least work."""
    if not isinstance(workload, Workload) or not workload.megabytes:
        raise InvalidSetting(
            'scheme="auto" needs to know what to expect',
            "give expect=mayfly.archive.Workload(megabytes=…, probes=…, scans=…), per update",
        )
    settings = declared.settings
    parameters = workload.asked_of(calibrated(folder, workload.megabytes))
    advice = advise(parameters, Need(settings.window, hard=hard, techniques=techniques))
    chosen = replace(settings, layout=advice.best.layout, technique=advice.best.technique)
    return replace(declared, settings=chosen), advice


def calibrated(folder: Path, megabytes: float) -> CostParameters:
    """Constants for so many megabytes a day, measured with a sample in this folder."""
    rng = np.random.default_rng(0)
    payload = rng.integers(0, 1 << 62, (SAMPLE_ROWS, SAMPLE_ROW_BYTES // 16))
    rows = pa.table(
        {
            "key": rng.integers(0, SAMPLE_ROWS // 10, SAMPLE_ROWS),
            "payload": ["".join(f"{word:016x}" for word in words) for words in payload],
        }
    )
    with _scratch(folder) as place:
        build = _timed(lambda: _write(sorted_by_key(rows, ("key",)), place / "0"))
        copy = _timed(lambda: _write(pq.read_table(place / "0"), place / "1"))
        seek = min(_timed(lambda: _read_first_group(place / "0")) for _ in range(3))
        scan = min(_timed(lambda: pq.read_table(place / "0")) for _ in range(3))
        stored = (place / "0").stat().st_size / MEGABYTE
    sample = CostParameters(
        "this machine", seek=seek, transfer=stored / scan, packed_day=stored,
        unpacked_day=stored, build=build, add=build, delete=0, bucket=stored / (SAMPLE_ROWS // 10),
        measured_copy=copy, measured_packed_copy=copy, seek_run=seek,
    )  # fmt: skip
    return replace(sample.scaled(megabytes / stored), name="this machine", bucket=sample.bucket)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    existing = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.is_dir())
    with tempfile.TemporaryDirectory(prefix=".mayfly-sample-", dir=existing) as place:
        yield local_root(place)


def _write(rows: pa.Table, path: Path) -> None:
    group = max(1, ROW_GROUP_BYTES // SAMPLE_ROW_BYTES)
    pq.write_table(rows, path, row_group_size=group, compression="zstd")


def _read_first_group(path: Path) -> None:
    with pq.ParquetFile(path) as file:
        file.read_row_group(0)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
