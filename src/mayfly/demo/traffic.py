"""The links' traffic: made at once, written to files as time passes.

Connections come in waves, so that the number of results alive rises and falls. Every connection is
seen a little after it happened, within the declared slack; a few come much later, too late.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.demo.demo_settings import LINKS, SLACK, Places, Settings
from mayfly.lifetime import micros
from mayfly.testing.connections import tcp_links
from mayfly.testing.seeded_streams import as_timestamps, micros_of

WAVE = 13.0
"""Seconds from one ebb to the next, about; longer than the window, which evens out shorter ones."""
SWING = 0.85
DELAY = micros("500 ms")
STRAGGLERS = 0.002
STRAGGLER_DELAY = (micros("4 s"), micros("6 s"))
FILE_EVERY = micros("250 ms")
"""Delay and two files together stay within the slack: Spark may list a file before an older one."""
SOURCES, ZIPF = 20_000, 0.7

Micros = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Traffic:
    """Connections by link in order of arrival; times count from the beginning of the demo."""

    rows: dict[str, pa.Table]
    arrivals: dict[str, Micros]

    @property
    def row_count(self) -> int:
        return sum(table.num_rows for table in self.rows.values())

    def beginning_at(self, origin: int) -> dict[str, pa.Table]:
        """The connections with real times, ``origin`` being the beginning."""
        return {link: _moved(table, origin) for link, table in self.rows.items()}

    def stragglers(self, link: str) -> pa.Array:
        """The ids of connections that arrive after the slack: the only ones that may be late."""
        delays = self.arrivals[link] - micros_of(self.rows[link])
        return self.rows[link]["id"].filter(pa.array(delays > micros(SLACK))).combine_chunks()

    def files(self) -> Iterator[tuple[int, str, pa.Table]]:
        """(time at which it is complete, link, rows): what each link hands over and when."""
        last = max(int(arrivals[-1]) for arrivals in self.arrivals.values())
        for end in range(FILE_EVERY, last + FILE_EVERY + 1, FILE_EVERY):
            for link in LINKS:
                begin, until = np.searchsorted(self.arrivals[link], (end - FILE_EVERY, end))
                if until > begin:
                    yield end, link, self.rows[link].slice(begin, until - begin)


def make_traffic(settings: Settings, seed: int = 1) -> Traffic:
    """``seconds`` of traffic on both links; the same settings give the same connections."""
    count = max(10, round(settings.seconds * settings.rate))
    tables = tcp_links(count, seed=seed, rate=settings.rate, sources=SOURCES, zipf=ZIPF)
    rows, arrivals = {}, {}
    for number, (link, table) in enumerate(zip(LINKS, tables, strict=True)):
        ts = _in_waves(micros_of(table), settings.seconds)
        arrived = ts + _delays(len(ts), np.random.default_rng((seed, number)))
        # What would arrive after the end is not sent at all: the demo ends on time.
        order = np.argsort(arrived, kind="stable")
        order = order[arrived[order] <= micros(f"{settings.seconds} s")]
        numbered = table.set_column(0, "ts", pa.array(ts)).append_column(
            "id", pa.array(np.arange(count, dtype=np.int64))
        )
        rows[link], arrivals[link] = numbered.take(order), arrived[order]
    return Traffic(rows, arrivals)


def _in_waves(ts: Micros, seconds: float) -> Micros:
    """Even arrivals moved so that their rate follows 1 − swing · cos, from ebb to ebb."""
    waves = max(1, round(seconds / WAVE))
    share = np.linspace(0.0, 1.0, 200 * waves + 1)
    arrived = share - SWING / (2 * np.pi * waves) * np.sin(2 * np.pi * waves * share)
    moved = np.interp(ts / max(1, ts[-1]), arrived, share)
    waved: Micros = (moved * seconds * 1e6).astype(np.int64)
    return waved


def _delays(count: int, rng: np.random.Generator) -> Micros:
    delays = rng.integers(0, DELAY, count)
    stragglers = rng.random(count) < STRAGGLERS
    delays[stragglers] = rng.integers(*STRAGGLER_DELAY, int(stragglers.sum()))
    return delays


def _moved(table: pa.Table, origin: int) -> pa.Table:
    return as_timestamps(table.set_column(0, "ts", pa.array(micros_of(table) + origin)))


@dataclass
class TrafficFeeder:
    """A thread that writes each file when its time has come, whether or not it is read."""

    traffic: Traffic
    places: Places
    origin: int | None = field(default=None, init=False)
    """Wall clock at the beginning, µs; None before it."""
    error: OSError | None = field(default=None, init=False)
    rows_sent: int = field(default=0, init=False)
    _stopped: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        self.origin = time.time_ns() // 1000
        self._thread = threading.Thread(target=self._feed, args=(self.origin,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def join(self) -> None:
        """Wait until it has written everything, failed, or been stopped."""
        if self._thread is not None:
            self._thread.join()

    @property
    def done(self) -> bool:
        return self.rows_sent == self.traffic.row_count

    def _feed(self, origin: int) -> None:
        try:
            for number, (due, link, rows) in enumerate(self.traffic.files()):
                if self._stopped.wait(max(0.0, (origin + due) / 1e6 - time.time())):
                    return
                _write(self.places.arrivals(link) / f"{number:06d}.parquet", _moved(rows, origin))
                self.rows_sent += rows.num_rows
        except OSError as error:
            self.error = error


def _write(target: Path, rows: pa.Table) -> None:
    """Spark must never list a file that is not complete; it skips names that begin with a dot."""
    unfinished = target.with_name(f".{target.name}")
    pq.write_table(rows, unfinished)
    os.replace(unfinished, target)
