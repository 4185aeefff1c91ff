"""How much of the time there is served queries take, as measured, and what one more would do.

Idea: the cost of a schedule in reads per update is known before it runs (scheduling/schedule_cost);
what a read takes and how often updates come is measured. The boards of a server share its workers:
what others take is not there. Invariant: advice refuses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mayfly.lifetime import format_micros
from mayfly.periodic.isolation import isolation_named
from mayfly.periodic.scheduling import AdmissionAdvice, Policy, ScheduledQuery, advise
from mayfly.serving.periodic.served_window import PaneGrid, ServedWindow
from mayfly.serving.periodic.work_meter import MeasuredPace

VALUE = 8
"""Bytes of a value of a row, about."""
LEAST = Fraction(1, 100)
"""Of the time there is: what others are taken to leave at least."""


@dataclass(frozen=True)
class BoardLoad:
    """Of the queries whose panes are updated together: ``reads`` per update."""

    grid: PaneGrid
    reads: Fraction
    measured: MeasuredPace | None

    @property
    def share(self) -> Fraction | None:
        """Of the time there is; more than 1 is overload."""
        return None if self.measured is None else self.reads / self.measured.capacity

    def __str__(self) -> str:
        pane = format_micros(self.grid.length)
        begin = f"panes of {pane} of {self.grid.stream}: {float(self.reads):.2f} reads per update"
        if self.measured is None or self.share is None:
            return f"{begin}; what can be done is not measured yet"
        return (
            f"{begin} of {float(self.measured.capacity):.2f} that can be done, "
            f"{float(100 * self.share):.0f} % (measured: {1000 * self.measured.read:.2f} ms "
            f"a read, an update every {self.measured.update:.3g} s)"
        )

    def to_json(self) -> dict[str, Any]:
        measured = self.measured
        return {
            "stream": self.grid.stream,
            "pane_seconds": self.grid.length / 1e6,
            "reads_per_update": float(self.reads),
            "capacity": None if measured is None else float(measured.capacity),
            "share": None if self.share is None else float(self.share),
            "seconds_per_read": None if measured is None else measured.read,
            "seconds_per_update": None if measured is None else measured.update,
            "text": str(self),
        }


def measured_by_stream(loads: Sequence[BoardLoad]) -> dict[str, dict[str, float]]:
    """Seconds of a read, and for a second of event time, as files have them."""
    return {
        load.grid.stream: {
            "read": load.measured.read,
            "second": load.measured.update / load.grid.length * 1e6,
            "workers": load.measured.workers,
        }
        for load in loads
        if load.measured is not None
    }


def measured_from(value: Any, pane: int) -> MeasuredPace | None:
    """What a file says, for panes of a length."""
    try:
        update = float(value["second"]) * pane / 1e6
        measured = MeasuredPace(float(value["read"]), update, int(value["workers"]))
    except (KeyError, TypeError, ValueError):
        return None
    return measured if measured.read > 0 and update > 0 and measured.workers > 0 else None


def stretch_of(loads: Sequence[BoardLoad]) -> Fraction | None:
    """How many times longer periods become in the mean; None where nothing is measured."""
    shares = [load.share for load in loads if load.share is not None]
    return max(Fraction(1), sum(shares, Fraction(0))) if shares else None


def as_scheduled(query: ServedWindow) -> ScheduledQuery:
    """A query as schedulers see it, before a server has it."""
    panes, period = query.length // query.pane, query.period // query.pane
    scan, isolation = query.serve.scan, query.serve.isolation_words
    group = f"{query.synopsis} {isolation}"
    if scan.of_rows or scan.incremental or not isolation_named(isolation).joint:
        group = query.name
    cost = min(panes, 2 * period) if scan.incremental else panes
    return ScheduledQuery(query.name, group, period, cost)


def advice_for(
    query: ServedWindow,
    grid: PaneGrid,
    policy: Policy,
    present: Sequence[ServedWindow],
    loads: Sequence[BoardLoad],
) -> AdmissionAdvice | None:
    """What a query would do to those of its panes; None where nothing is measured yet."""
    measured = _measured_for(grid, loads)
    if measured is None:
        return None
    others = sum(
        (load.share for load in loads if load.grid != grid and load.share is not None), Fraction(0)
    )
    capacity = measured.capacity * max(LEAST, 1 - others)
    return advise(policy, [as_scheduled(q) for q in present], as_scheduled(query), capacity)


def _measured_for(grid: PaneGrid, loads: Sequence[BoardLoad]) -> MeasuredPace | None:
    """Of these panes, or of others whose updates come as the panes are longer."""
    same_stream = [load for load in loads if load.grid.stream == grid.stream]
    for load in [*(load for load in loads if load.grid == grid), *same_stream, *loads]:
        if load.measured is not None:
            update = load.measured.update * grid.length / load.grid.length
            return MeasuredPace(load.measured.read, update, load.measured.workers)
    return None
