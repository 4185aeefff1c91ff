"""CPU time of small pieces of work on archives, segments and queries, with two versions of sources.

    git archive COMMIT src | tar -x -C FOLDER
    python -m benchmarks.before_after FOLDER/src src

One process for each version; they take turns, so that what else the machine does hits both alike.
Prints, for every piece of work, the median before and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

DAY = 86_400_000_000
KEYS, ROWS, KEPT = 300, 1_500, 10
WORK = ("update", "probe", "probe young", "scan", "write segments", "open segments", "join", "sums")
QUERIES = {
    "join": "SELECT s.v, t.v AS w FROM s [RANGE 10 s], t [RANGE 10 s] WHERE s.k = t.k",
    "sums": "SELECT k, SUM(v) AS v FROM s [RANGE 10 s] GROUP BY k",
}


def prepare(root: str) -> Mapping[str, Callable[[], Any]]:
    """The pieces of work, over archives and segments below a folder."""
    import pyarrow as pa

    import mayfly.archive
    from mayfly.storage import Directory, open_segment, write_segment

    chance = random.Random(1)

    def day_rows(day: int) -> pa.Table:
        times = pa.array([day * DAY] * ROWS, pa.timestamp("us", "UTC"))
        keys = [chance.randrange(KEYS) for _ in range(ROWS)]
        return pa.table({"k": keys, "ts": times, "v": list(range(ROWS))})

    def archive(name: str, **settings: Any) -> Any:
        made = mayfly.archive.create(
            f"{root}/{name}", "k BIGINT, ts TIMESTAMP, v BIGINT", key="k", origin=0, **settings
        )
        for day in range(1, KEPT + 1):
            made.update(day_rows(day))
        return made

    updated, waves = (archive(name, window=8, constituents=4) for name in ("u", "w"))
    young = archive(
        "y", max_lifetime="10 days", lifetime="10 days", layout="NoRebuild 1x1", young=2
    )
    directory = Directory.at(f"{root}/s", sync=False)
    table = pa.table({"_ts": list(range(100)), "_exp": list(range(1, 101))})
    segments = [write_segment(directory, "g", table) for _ in range(40)]

    def update() -> None:
        updated.update(day_rows(updated.version().state.update + 1))

    def run(query: str) -> Callable[[], None]:
        """A second of rows of each stream, in one step."""
        session = mayfly.LocalSession()
        for name in ("s", "t"):
            session.execute(f"CREATE STREAM {name} (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts")
        started, clock = session.query(query), iter(range(10**6))
        streams = [name for name in ("s", "t") if f"FROM {name}" in query or f", {name} [" in query]

        def step() -> None:
            second = 1_000_000 * next(clock)
            times = [second + 1_000_000 * row // ROWS for row in range(ROWS)]
            keys = [chance.randrange(5 * KEPT * KEYS) for _ in range(ROWS)]
            rows = pa.table({"ts": times, "k": keys, "v": list(range(ROWS))})
            started.feed(dict.fromkeys(streams, rows))

        return step

    return {
        "update": update,
        "probe": lambda: [waves.probe(key) for key in range(10)],
        "probe young": lambda: [young.probe(key) for key in range(10)],
        "scan": waves.scan,
        "write segments": lambda: [write_segment(directory, "g", table) for _ in range(20)],
        "open segments": lambda: [open_segment(directory, one) for one in segments if one],
        **{name: run(query) for name, query in QUERIES.items()},
    }


def serve() -> None:
    """Do the pieces of work that are asked for, and answer with their CPU times."""
    with tempfile.TemporaryDirectory() as root:
        work = prepare(root)
        for piece in [*work.values()] * 2:
            piece()
        print("ready", flush=True)
        for line in sys.stdin:
            began = time.process_time()
            work[line.strip()]()
            print(time.process_time() - began, flush=True)


def compare(before: str, after: str, rounds: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, __file__],
            env={**os.environ, "PYTHONPATH": os.path.abspath(sources)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for sources in (before, after)
    ]
    found: dict[tuple[str, int], list[float]] = {}
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for number in range(rounds):
        for name in WORK:
            for which in (0, 1) if number % 2 else (1, 0):
                process = processes[which]
                assert process.stdin is not None
                assert process.stdout is not None
                print(name, file=process.stdin, flush=True)
                found.setdefault((name, which), []).append(float(process.stdout.readline()))
    for name in WORK:
        first, second = (statistics.median(found[name, which]) for which in (0, 1))
        print(f"{name:16} {1000 * first:8.2f} ms   x {second / first:.2f}")
    for process in processes:
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("before", help="a folder with the package mayfly")
    parser.add_argument("after", help="another one")
    parser.add_argument("--rounds", type=int, default=60)
    asked = parser.parse_args()
    compare(asked.before, asked.after, asked.rounds)


if __name__ == "__main__":
    main() if len(sys.argv) > 1 else serve()
