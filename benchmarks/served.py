"""Served queries on this machine: schedules at 1.5 times its capacity, and isolation of long reads.

First the work of one update is measured: CPU seconds that No-S needs for what falls due, with no
limit of time. Then updates come so fast that No-S would need 1.5 times the time there is (3 times
at the high rate), by the CPU time of the process, without delays, and every policy runs as long;
executions per update and mean lateness say how they rank. The ratios of the thesis are those of the
cost clock (experiments/serving_figures). Last, windows so long that reads span updates are read
under each isolation: throughput, staleness, aborts.

    python -m benchmarks.served --record served              # a quarter of an hour
    python -m benchmarks.served low --record served          # a part; the others' figures stay
    python -m benchmarks.served --small
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import commit, measured_before, record
from mayfly.periodic import Aggregate, PeriodicQuery
from mayfly.periodic.scheduling import POLICIES, policy_named
from mayfly.periodic.server import PeriodicServer, ServedAnswer, ServeOptions

SECOND = 1_000_000
ROWS = pa.schema(
    {
        "ts": pa.int64(),
        "src": pa.int64(),
        "dst": pa.int64(),
        "port": pa.int64(),
        "bytes": pa.int64(),
    }
)
KEYS = (("src",), ("dst",), ("port",), ("src", "port"))
ISOLATIONS = ("serial", "lws", "ttu", "snapshot")


@dataclass(frozen=True)
class ServedLoad:
    """Queries in each of four groups, rows in a pane, updates of a run."""

    each: int = 20
    rows: int = 1000
    updates: int = 150
    longest: int = 60
    seed: int = 3


def queries_of(load: ServedLoad, *, always_due: bool = False) -> list[PeriodicQuery]:
    """``always_due``: with each update, so that groups run in turn (thesis 7.5: round robin)."""
    rng, queries = Random(load.seed), []
    for number, keys in enumerate(KEYS):
        for place in range(load.each):
            panes = rng.randint(load.longest // 5, load.longest)
            period = 1 if always_due else rng.randint(1, panes // 2)
            name = f"g{number}q{place}"
            call = Aggregate("SUM", "bytes")
            queries.append(PeriodicQuery(name, call, (panes * SECOND,), period * SECOND, keys=keys))
    return queries


def panes_of(load: ServedLoad) -> list[pa.Table]:
    rng = np.random.default_rng(load.seed)
    panes = []
    for number in range(load.updates + load.longest):
        columns = {
            "ts": rng.integers(number * SECOND + 1, (number + 1) * SECOND, load.rows),
            "src": rng.integers(0, 1000, load.rows),
            "dst": rng.integers(0, 1000, load.rows),
            "port": rng.integers(0, 100, load.rows),
            "bytes": rng.integers(1, 100, load.rows),
        }
        panes.append(pa.table(columns, schema=ROWS))
    return panes


def server_of(load: ServedLoad, policy: str, isolation: str = "LATEST") -> PeriodicServer:
    return PeriodicServer(
        ROWS, pane=SECOND, policy=policy_named(policy), isolation=isolation, record=5000
    )


def warmed(
    server: PeriodicServer,
    load: ServedLoad,
    panes: list[pa.Table],
    answer: Callable[[ServedAnswer], None],
    isolation: str | None = None,
) -> None:
    """Queries are there and their windows are full; under a named isolation they are always due."""
    for query in queries_of(load, always_due=isolation is not None):
        server.add(query, answer, ServeOptions(isolation=isolation or "LATEST"))
    for pane in panes[: load.longest]:
        server.update(pane)
    server.run()


def work_of_update(load: ServedLoad, panes: list[pa.Table]) -> tuple[float, float]:
    """CPU seconds of an update itself, and of what No-S answers after it."""
    server = server_of(load, "no-s")
    warmed(server, load, panes, lambda answer: None)
    updating = answering = 0.0
    measured = panes[load.longest :]
    for pane in measured:
        began = time.process_time()
        server.update(pane)
        between = time.process_time()
        server.run()
        updating += between - began
        answering += time.process_time() - between
    return updating / len(measured), answering / len(measured)


class WorkClock:
    """The CPU time of this process, and what it had nothing to do: on a quiet machine that is the
    wall clock, and others' work does not count."""

    def __init__(self) -> None:
        self._began, self._idle = time.process_time(), 0.0

    def now(self) -> float:
        return time.process_time() - self._began + self._idle

    def advance_to(self, instant: float) -> None:
        self._idle += max(0.0, instant - self.now())


def feed_paced(
    server: PeriodicServer,
    panes: list[pa.Table],
    interval: float,
    clock: WorkClock,
    note: Callable[[int], None] | None = None,
) -> float:
    """Feed panes by the clock, and work in between; the seconds that it took."""
    began = clock.now()
    for fed, pane in enumerate(panes):
        while clock.now() < began + fed * interval:
            if not server.step():
                clock.advance_to(began + fed * interval)
        server.update(pane)
        if note is not None:
            note(server.update_number)
    return clock.now() - began


def schedules(load: ServedLoad, panes: list[pa.Table], interval: float) -> list[dict[str, Any]]:
    points = []
    for name in POLICIES:
        server = server_of(load, name)
        warmed(server, load, panes, lambda answer: None)
        before = {q.query: (q.executions, q.total) for q in server.report().queries}
        feed_paced(server, panes[load.longest :], interval, WorkClock())
        runs = late = 0
        for query in server.report().queries:
            executions, total = before[query.query]
            runs, late = runs + query.executions - executions, late + query.total - total
        server.check()
        points.append(
            {
                "policy": name,
                "executions_per_update": runs / load.updates,
                "mean_lateness": late / max(1, runs),
            }
        )
        print(json.dumps(points[-1]), flush=True)
    return points


def isolations(load: ServedLoad, panes: list[pa.Table], interval: float) -> list[dict[str, Any]]:
    """Windows are read while updates come: several during the longest read. A query that is due
    with each update keeps deadlines out of it: an older answer would be due again sooner, and
    count as throughput."""
    points = []
    for name in ISOLATIONS:
        server = server_of(load, "late-pending", name)
        written: dict[int, float] = {}
        stale: list[float] = []
        attempts: list[int] = []
        clock = WorkClock()

        def note(
            answer: ServedAnswer,
            written: dict[int, float] = written,
            stale: list[float] = stale,
            attempts: list[int] = attempts,
            clock: WorkClock = clock,
        ) -> None:
            update = answer.as_of // SECOND
            if update in written:
                stale.append(clock.now() - written[update])
                attempts.append(answer.attempts)

        warmed(server, load, panes, note, name)

        def note_written(
            update: int, written: dict[int, float] = written, clock: WorkClock = clock
        ) -> None:
            written[update] = clock.now()

        seconds = feed_paced(server, panes[load.longest :], interval, clock, note_written)
        server.check()
        points.append(
            {
                "isolation": name,
                "answers_per_second": len(stale) / seconds,
                "mean_staleness": sum(stale) / max(1, len(stale)),
                "aborted_share": 1 - len(attempts) / max(1, sum(attempts)),
            }
        )
        print(json.dumps(points[-1]), flush=True)
    return points


PARTS = {"low": (schedules, 1.5), "high": (schedules, 3.0), "isolation": (isolations, 12.0)}
"""What is run, and how much work No-S would have for the time there is."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="All if there is none.")
    parser.add_argument("--small", action="store_true", help="A load that shows that it works.")
    parser.add_argument("--record", help="Write the figures to benchmarks/results under this name.")
    options = parser.parse_args()
    load = ServedLoad(each=4, rows=100, updates=20, longest=12) if options.small else ServedLoad()
    panes = panes_of(load)
    outcome: dict[str, Any] = measured_before(options.record, vars(load)) if options.record else {}
    update, work = work_of_update(load, panes[: load.longest + max(10, load.updates // 5)])
    print(f"an update takes {1000 * update:.1f} ms, No-S {1000 * work:.1f} ms after it", flush=True)
    for part in options.parts or PARTS:
        run, load_of_machine = PARTS[part]
        interval = update + work / load_of_machine
        about = {"update_seconds": update, "work_seconds": work, "interval_seconds": interval}
        outcome[part] = {"commit": commit(), **about, "points": run(load, panes, interval)}
        if options.record:
            record(options.record, vars(load), outcome)


if __name__ == "__main__":
    main()
