"""What an update added, moved and left behind, counted from the results of its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from mayfly.archive.layouts.operations import NO_DAYS
from mayfly.archive.layouts.run_plan import IndexRuns, is_old
from mayfly.archive.model.admission import AdmissionSummary
from mayfly.archive.model.reports import report_facts
from mayfly.archive.model.state import DAYS, ArchiveVersion, run_group
from mayfly.archive.write.job_plan import PlannedCommit
from mayfly.archive.write.part_writer import PartResult
from mayfly.display import Facts
from mayfly.storage.segment import Segment

MOVED = ("files_read", "bytes_read", "files_written", "bytes_written")


@dataclass(frozen=True, repr=False)
class UpdateReport(Facts):
    """What one update did."""

    update: int
    rows_in: int = 0
    stored: int = 0
    late: int = 0
    dead_on_arrival: int = 0
    removed: int = 0
    dead_but_stored: int = 0
    indexes_touched: int = 0
    files_read: int = 0
    bytes_read: int = 0
    files_written: int = 0
    bytes_written: int = 0
    transition_seconds: float = 0.0
    pre_transition_seconds: float = 0.0
    hidden_until: int | None = None
    """Rows that expired up to this instant are no longer returned, µs."""
    erased_until: int | None = None
    """Of rows that expired up to this instant no version holds a byte, µs, where that is promised;
    otherwise ``status`` tells."""
    expected_seconds: float | None = None
    """What the cost model expected it to take, where rows have their own lifetimes."""
    probes: int = 0
    """Keys and ranges asked for since the update before, where the update was made."""
    scans: int = 0
    proposal: str | None = None
    """A better layout, if the archive was created with layout="auto" and its load has changed."""
    repeated: bool = False
    """The batch had been committed before: nothing was done."""

    def facts(self) -> dict[str, object]:
        return report_facts(asdict(self))


def account(
    version: ArchiveVersion,
    planned: PlannedCommit,
    summary: AdmissionSummary,
    results: Sequence[PartResult],
) -> UpdateReport:
    """The report of an update on ``version``."""
    settings, family = version.settings, version.settings.family
    counts = moved(results)
    lingering = dead_rows(family.horizon(planned.update), version, planned.runs, results)
    return UpdateReport(
        update=planned.update,
        rows_in=summary.rows,
        stored=summary.stored,
        late=summary.late,
        dead_on_arrival=summary.dead_on_arrival,
        removed=family.removed_rows(version, planned, summary, results),
        dead_but_stored=sum(lingering.values()),
        indexes_touched=len({plan.target for plan in planned.plans}),
        files_read=counts["files_read"],
        bytes_read=counts["bytes_read"],
        files_written=counts["files_written"],
        bytes_written=counts["bytes_written"],
        hidden_until=family.hidden_until(settings.calendar.time_of(planned.update)),
    )


def rows_past(version: ArchiveVersion, update: int) -> int:
    """Rows of the version that are dead after an update and were not before."""
    state, family = version.state, version.settings.family
    before, horizon = family.horizon(state.update), family.horizon(update)
    dying = sum(rows for label, rows in state.day_rows.items() if before < label <= horizon)
    return dying + state.hidden_rows(horizon) - state.hidden_rows(before)


def dead_rows(
    horizon: int, version: ArchiveVersion, runs: IndexRuns, results: Sequence[PartResult]
) -> Counter[int]:
    """Rows of labels up to ``horizon`` in these runs, of which some have just been written."""
    new: dict[str, list[Segment]] = {}
    for segment in (segment for result in results for segment in result.segments):
        new.setdefault(segment.group, []).append(segment)
    old_runs = {r.id for held in runs.values() for r in held if min(r.days) <= horizon}
    counts: Counter[int] = Counter()
    for run in old_runs:
        for segment in new.get(run_group(run)) or version.segments_of(run):
            counts.update({day: rows for day, rows in segment.tags[DAYS] if day <= horizon})
    return counts


def moved(results: Iterable[PartResult]) -> dict[str, int]:
    """Files and bytes read and written, over all parts."""
    counted = dict.fromkeys(MOVED, 0)
    for result in results:
        for name in MOVED:
            counted[name] += result.io.get(name, 0)
    return counted


def rows_with(
    version: ArchiveVersion, planned: PlannedCommit, results: Sequence[PartResult]
) -> Counter[int]:
    """The rows of every label before a commit, with those it brings and without void ones."""
    rows = Counter(version.state.day_rows)
    for result in results:
        rows.update(result.day_rows)
    rows.subtract(_made_void(version, planned))
    return rows


def lasting_rows(rows: Counter[int], planned: PlannedCommit) -> dict[int, int]:
    """Those of labels that are stored after the commit, in order."""
    kept = planned.after.stored_days | _days_in(planned.runs)
    return {label: count for label, count in sorted(rows.items()) if label in kept}


def rows_in_files(
    version: ArchiveVersion, runs: IndexRuns, results: Sequence[PartResult]
) -> Counter[int]:
    """The rows of every label as the files of these runs hold them."""
    everything = max((max(r.days) for held in runs.values() for r in held), default=0)
    return dead_rows(everything, version, runs, results)


def newly_hidden(version: ArchiveVersion, runs: IndexRuns) -> Counter[int]:
    """Rows of days that the runs of a former layout show no longer."""
    after = {run.id: run for held in runs.values() for run in held}
    gone: Counter[int] = Counter()
    for name in (name for name in version.state.runs if is_old(name)):
        for run in version.state.runs[name]:
            left = after[run.id].live_days if run.id in after else NO_DAYS
            hidden = run.live_days - left
            for segment in version.segments_of(run.id):
                gone.update({day: rows for day, rows in segment.tags[DAYS] if day in hidden})
    return gone


def _made_void(version: ArchiveVersion, planned: PlannedCommit) -> Counter[int]:
    """Void rows that the constituents no longer hold, by label; a temporary that takes the place
    of one may bring some back, hidden as before."""
    before = version.state
    after = replace(before, wave=planned.after, runs=planned.runs).shown_runs()
    gone: Counter[int] = Counter()
    for entry in before.invalid:
        for run, rows in entry.pending.items():
            if run in before.shown_runs():
                gone.update(rows)
            if run in after:
                gone.subtract(rows)
    return gone


def _days_in(runs: IndexRuns) -> frozenset[int]:
    return frozenset(day for held in runs.values() for run in held for day in run.days)


def miscounted(version: ArchiveVersion) -> Iterator[str]:
    """Days of which the files of the constituents show more or fewer rows than were stored."""
    state = version.state
    shown: Counter[int] = Counter()
    for run in (run for runs in state.constituent_runs().values() for run in runs):
        for segment in version.segments_of(run.id):
            shown.update({d: n for d, n in segment.tags[DAYS] if d not in run.deleted_days})
    for day in sorted(state.wave.stored_days | shown.keys()):
        stored = state.day_rows.get(day, 0) if day in state.wave.stored_days else 0
        if shown[day] != stored:
            yield f"its files show {shown[day]} rows of day {day}, {stored} were stored"
