"""Windows in memory: tuples a second into every index and ring, beside peers and bare loops.

Two windows of 100 basic windows each: 100,000 tuples, as the report has it, and 1,000,000. Values
are uniform over 100, 10,000 or 1,000,000 of them. The window is filled, then every runner takes the
same tuples, turn by turn, so that a disturbance of the machine meets all of them; seconds are those
of the processor. Before anything is timed, the answers of every window are compared with NumPy's.

``hash count`` is a bare compiled loop that counts arrivals and forgets nothing, ``search`` NumPy's
binary search in the sorted values, ``sort`` NumPy's sort of each basic window. ``sortedcontainers``
adds and removes every tuple, ``river`` keeps one rolling median, ``duckdb`` recounts the window
after each slide.

    python -m benchmarks.windows --record windows        # some minutes
    python -m benchmarks.windows --small
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import duckdb
import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.measure import median, record
from mayfly.windows import Rows, SlidingWindow

Int64s = npt.NDArray[np.int64]
Step = Callable[[Int64s], object]
GROUPS = 50
BUCKETS = 100
"""Of G; of H and UH as the report has them."""


@dataclass(frozen=True)
class Load:
    """Possible values, tuples in the window, basic windows, tuples a turn, turns, the seed."""

    values: int
    window: int
    slots: int = 100
    tuples: int = 200_000
    turns: int = 5
    seed: int = 2003
    most_visits: int = 6_000
    """Structures that read more nodes a tuple are left out: they would take minutes."""

    @property
    def basic(self) -> int:
        return self.window // self.slots

    def batches(self, turn: int, tuples: int) -> Iterator[Int64s]:
        """The tuples of a turn in batches of ten basic windows; turn 0 fills the window."""
        random = np.random.default_rng([self.seed, self.values, turn])
        rows = random.integers(0, self.values, tuples)
        yield from np.array_split(rows, max(1, tuples // (10 * self.basic)))


LOADS = {
    "100 values": Load(100, 100_000),
    "10,000 values": Load(10_000, 100_000),
    "100 values, long": Load(100, 1_000_000, most_visits=60),
    "10,000 values, long": Load(10_000, 1_000_000, most_visits=60),
    "1,000,000 values, long": Load(1_000_000, 1_000_000, most_visits=60),
}


@dataclass(frozen=True)
class Structure:
    """An index, the storage of basic windows, a ring; as the arguments of a window."""

    index: str
    storage: str = "LIST"
    ring: str | None = None
    buckets: int | None = None

    @property
    def name(self) -> str:
        index = self.index if self.buckets is None else f"{self.index}/{self.buckets}"
        return f"{index} {self.storage}" + (f" {self.ring} ring" if self.ring else "")

    def start(self, load: Load) -> SlidingWindow:
        edges = np.linspace(0, load.values, GROUPS + 1, dtype=np.int64)[1:-1].tolist()
        return SlidingWindow(
            by=Rows(load.basic),
            slots=load.slots,
            index=self.index,
            storage=self.storage,
            ring=self.ring,
            buckets=self.buckets,
            groups=edges if self.index == "G" else None,
        )

    def visits(self, load: Load) -> float:
        """About how many nodes a tuple makes the structure read."""
        basic = min(load.values, load.basic)
        storage = {"AGGR": basic / 2, "HASH": basic / 10}.get(self.storage, 1)
        nodes = min(load.values, load.window)
        reads = {"L": nodes / 2, "UH": nodes / BUCKETS}.get(self.index, 1)
        if self.buckets:
            reads = nodes / BUCKETS
        ring = load.window / nodes if self.ring in ("plain", "AUX", "BW") else 1
        return storage + reads * basic / load.basic + ring


STRUCTURES = (
    *(Structure(index, storage) for index in ("T", "H") for storage in ("LIST", "AGGR", "HASH")),
    *(Structure("AVL", storage) for storage in ("LIST", "AGGR", "HASH")),
    *(Structure("H", storage, buckets=BUCKETS) for storage in ("LIST", "AGGR", "HASH")),
    *(Structure("UH", storage) for storage in ("LIST", "AGGR", "HASH")),
    *(Structure("L", storage) for storage in ("LIST", "AGGR", "HASH")),
    *(Structure("G", storage) for storage in ("GROUP", "LIST")),
    *(
        Structure(index, ring=ring)
        for index in ("H", "T")
        for ring in ("numbered", "DB", "BW", "AUX", "plain")
    ),
)


# ── results first ─────────────────────────────────────────────────────────────────────────


def check(structure: Structure, load: Load) -> None:
    """Compare the answers of a window after every batch with NumPy's; stop at a difference."""
    window, rows = structure.start(load), np.empty(0, np.int64)
    for turn in range(3):
        for batch in load.batches(turn, load.window):
            window.append(batch)
            rows = np.append(rows, batch)
            alive = rows[: window.slides * load.basic][-load.window :]
            if differences := differs(window, structure, load, alive):
                sys.exit(f"{structure.name} is wrong for {load}: {differences}")


def differs(window: SlidingWindow, structure: Structure, load: Load, alive: Int64s) -> str | None:
    values, counts = np.unique(alive, return_counts=True)
    if structure.index == "G":
        edges = np.linspace(0, load.values, GROUPS + 1, dtype=np.int64)
        expected = np.histogram(alive, np.append(edges[:-1], load.values))[0]
        answer = [one.count for one in window.histogram()]
        return None if answer == expected[expected > 0].tolist() else "groups"
    if window.histogram() != list(zip(values.tolist(), counts.tolist(), strict=True)):
        return "histogram"
    if window.quantile(0.3) != np.sort(alive)[max(1, int(np.ceil(0.3 * len(alive) - 1e-9))) - 1]:
        return "quantile"
    if structure.ring and not np.array_equal(window.sorted_by()["value"], np.sort(alive)):
        return "order by value"
    return None


# ── peers and bare loops ──────────────────────────────────────────────────────────────────


def peers(load: Load) -> dict[str, tuple[Step, float]]:
    """What each does with a batch, and what share of a turn's tuples it gets."""
    chosen: dict[str, tuple[Step, float]] = {
        "hash count": (hash_count(load), 1),
        "search": (search(load), 1),
        "sort": (sort(load), 1),
        "sortedcontainers": (sorted_containers(load), 0.1),
        "river": (river(load), 0.1),
        "duckdb": (recount(load), 10 * load.basic / load.tuples),
    }
    if load.window > 100_000:  # every tuple costs river time in proportion to the window
        del chosen["river"]
    return chosen


def hash_count(load: Load) -> Step:
    size = 1 << int(2 * load.values).bit_length()
    table, counts = np.full(size, -1), np.zeros(size, np.int64)
    return lambda batch: _count(batch, table, counts)


@numba.njit(cache=True)
def _count(keys: Int64s, table: Int64s, counts: Int64s) -> None:
    mask = np.uint64(len(table) - 1)
    for key in keys:
        at = ((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & mask
        while table[at] != key and table[at] >= 0:
            at = (at + np.uint64(1)) & mask
        table[at] = key
        counts[at] += 1


def search(load: Load) -> Step:
    values = np.arange(load.values)
    return lambda batch: [np.searchsorted(values, part) for part in _parts(load, batch)]


def sort(load: Load) -> Step:
    return lambda batch: [np.sort(part) for part in _parts(load, batch)]


def _parts(load: Load, batch: Int64s) -> list[Int64s]:
    return np.array_split(batch, max(1, len(batch) // load.basic))


def sorted_containers(load: Load) -> Step:
    """Every tuple in, every expired tuple out; positions can be asked at any time."""
    from collections import deque

    from sortedcontainers import SortedList

    alive: deque[int] = deque()
    values = SortedList()

    def step(batch: Int64s) -> None:
        new = batch.tolist()
        if not alive:
            values.update(new)
        else:
            for value in new:
                values.add(value)
        alive.extend(new)
        while len(alive) > load.window:
            values.remove(alive.popleft())

    return step


def river(load: Load) -> Step:
    from river.stats import RollingQuantile

    median_of_window = RollingQuantile(q=0.5, window_size=load.window)

    def step(batch: Int64s) -> None:
        for value in batch.tolist():
            median_of_window.update(value)

    return step


def recount(load: Load) -> Step:
    database = duckdb.connect(":memory:", config={"threads": 1})
    alive = [np.empty(0, np.int64)]

    def step(batch: Int64s) -> None:
        for part in _parts(load, batch):
            alive[0] = np.append(alive[0], part)[-load.window :]
            database.register("alive", pa.table({"value": alive[0]}))
            database.sql("SELECT value, COUNT(*) FROM alive GROUP BY value").fetchnumpy()

    return step


# ── timing ────────────────────────────────────────────────────────────────────────────────


def runners(load: Load) -> dict[str, tuple[Step, float]]:
    """Every structure and peer that can do the load, filled, with its share of the tuples."""
    chosen: dict[str, tuple[Step, float]] = {}
    for structure in STRUCTURES:
        visits = structure.visits(load)
        if visits <= load.most_visits:
            chosen[structure.name] = structure.start(load).append, 1.0 if visits < 100 else 0.02
    chosen |= peers(load)
    for name, (step, _) in chosen.items():
        for batch in [*load.batches(0, load.window)][-1 if name == "duckdb" else 0 :]:
            step(batch)
    return chosen


def measure(load: Load) -> dict[str, Any]:
    chosen = runners(load)
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    tuples = {
        name: max(load.basic, int(share * load.tuples) // load.basic * load.basic)
        for name, (_, share) in chosen.items()
    }
    for turn in range(1, load.turns + 1):
        names = list(chosen)
        for name in names[turn * 7 % len(names) :] + names[: turn * 7 % len(names)]:
            batches = list(load.batches(turn, tuples[name]))
            began = time.process_time()
            for batch in batches:
                chosen[name][0](batch)
            seconds[name].append(time.process_time() - began)
    return {
        name: {
            "tuples": tuples[name],
            "cpu_seconds": seconds[name],
            "tuples_per_second": tuples[name] / median(seconds[name]),
        }
        for name in chosen
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", action="append", choices=list(LOADS))
    parser.add_argument("--small", action="store_true", help="a tenth of the tuples, two turns")
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    for structure in STRUCTURES:
        check(structure, Load(50, 400, slots=8))
        check(structure, Load(1000, 400, slots=5))
    results: dict[str, Any] = {}
    for name in options.load or LOADS:
        load = LOADS[name]
        if options.small:
            load = replace(load, tuples=load.tuples // 10, turns=2)
        results[name] = measure(load)
        print(f"{name}:")
        for runner, one in results[name].items():
            print(f"  {runner:24} {one['tuples_per_second'] / 1e6:10.3f} M tuples/s", flush=True)
    if options.record:
        loads = {name: asdict(LOADS[name]) for name in results}
        record(options.record, {"loads": loads, "groups": GROUPS, "buckets": BUCKETS}, results)


if __name__ == "__main__":
    main()
