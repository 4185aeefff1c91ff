"""Grouped SUM and the join of two streams: Mayfly beside Pathway and Bytewax.

All read the same recorded files through Arrow, batch by batch, on two cores. Mayfly commits every
batch to disk; the others keep nothing for a crash. Each answer is compared with DuckDB's before
any figure is kept: the peers' by count and checksums of a run of their own, since summing would
slow down the measured ones, whose results go nowhere.

Rates are those of a whole run after warm-up. For Mayfly the sum of the batch times Spark reports;
for a peer the time of a run less that of a run over the warm-up alone, so that neither starting nor
the end of the input counts. Peers read only the first files, because they take much longer.

Both can express both queries. How, and in what configuration, is said in peers/pathway_flows.py and
peers/bytewax_flows.py; Bytewax has no join by distance in time, so that one is written by hand.

    MAYFLY_DATAFLOWS_PYTHON=/path/to/python python -m benchmarks.dataflows --record dataflows

The other Python needs the packages of benchmarks/requirements-dataflows.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import pipelines, streaming
from benchmarks.measure import commit, measured_before, median, record

PEERS = {"Pathway": "pathway_flows.py", "Bytewax": "bytewax_flows.py"}
RUNNERS = ("mayfly", *PEERS)


@dataclass(frozen=True)
class Load:
    """Rows per batch over all streams, batches, those left out, and how much of it peers read."""

    rows: int = 500_000
    batches: int = 8
    warm_up: int = 3
    peer_batches: int = 3
    peer_warm_up: int = 1
    repetitions: int = 1

    def for_sum(self) -> pipelines.Load:
        return pipelines.Load(rows=self.rows, batches=self.batches, warm_up=self.warm_up)

    def for_join(self) -> streaming.Load:
        keys = max(10, streaming.Load.keys * self.rows // Load.rows)
        return streaming.Load(
            rows=self.rows // 2, keys=keys, batches=self.batches, warm_up=self.warm_up
        )


@dataclass(frozen=True)
class Query:
    """The streams, four sums over the result in DuckDB, and how rows are made and Mayfly run."""

    streams: tuple[str, ...]
    sums: str
    generate: Callable[[Load, Path], None]
    mayfly: Callable[[Load, Path, Path], dict[str, Any]]


def _sum_by_mayfly(load: Load, folder: Path, work: Path) -> dict[str, Any]:
    return pipelines.in_child("grouped SUM", "mayfly", load.for_sum(), folder, work)


def _join_by_mayfly(load: Load, folder: Path, work: Path) -> dict[str, Any]:
    wanted = streaming.expected(load.for_join(), folder)
    result = streaming.in_child("mayfly", load.for_join(), folder, work, True)
    must_agree("mayfly", list(result["found"].values()), list(wanted.values()))
    return result


QUERIES = {
    "grouped SUM": Query(
        ("s",),
        """SELECT count(*), sum(k), sum(x), sum(x * ends) FROM (
            SELECT k, sum(v) AS x, ends FROM (
                SELECT k, v, unnest(range(ts // 1000000 + 1, ts // 1000000 + 11)) AS ends FROM s)
            GROUP BY k, ends)""",
        lambda load, folder: pipelines.generate(
            pipelines.QUESTIONS["grouped SUM"], load.for_sum(), folder
        ),
        _sum_by_mayfly,
    ),
    "join": Query(
        ("left", "right"),
        """SELECT count(*), sum(l.k), sum(l.v * 3 + r.v), sum(l.v * (l.k + 1))
            FROM "left" l JOIN "right" r ON l.k = r.k AND abs(l.ts - r.ts) < 10000000""",
        lambda load, folder: streaming.generate(load.for_join(), folder),
        _join_by_mayfly,
    ),
}


def expected(name: str, folder: Path, batches: int) -> list[int]:
    """The count and checksums of the whole result over the first batches, by DuckDB."""
    query = QUERIES[name]
    tables = []
    for stream in query.streams:
        files = [str(folder / stream / f"{batch:05d}.parquet") for batch in range(batches)]
        rows = f"SELECT epoch_us(ts) AS ts, k, v FROM read_parquet({files})"
        tables.append(f'"{stream}" AS ({rows})')
    row = duckdb.execute(f"WITH {', '.join(tables)} {query.sums}").fetchall()[0]
    return [int(one or 0) for one in row]


def must_agree(runner: str, found: Sequence[int], wanted: Sequence[int]) -> None:
    """End the benchmark on a wrong answer, and on one that says nothing."""
    if not wanted or not wanted[0]:
        sys.exit(f"nothing to compare {runner} with: the query has no results over so few rows")
    if list(found) != list(wanted):
        sys.exit(f"{runner} is wrong: found {list(found)}, expected {list(wanted)}")


def run_peer(runner: str, name: str, load: Load, folder: Path, python: str) -> dict[str, Any]:
    script = Path(__file__).parent / "peers" / PEERS[runner]

    def run(batches: int, sums: bool = False) -> dict[str, Any]:
        work = {"query": name, "streams": QUERIES[name].streams, "folder": str(folder)}
        given = json.dumps({**work, "batches": batches, "sums": sums})
        done = subprocess.run([python, str(script), given], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{runner} failed at {name}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    checked = run(load.peer_batches, sums=True)
    must_agree(f"{runner} at {name}", checked["found"], expected(name, folder, load.peer_batches))
    repetitions = range(load.repetitions)
    short = [run(load.peer_warm_up)["seconds"] for _ in repetitions]
    whole = [run(load.peer_batches)["seconds"] for _ in repetitions]
    return {
        "version": checked["version"],
        "warm_up_seconds": short,
        "seconds": whole,
        "rows_per_second": rate_after_warm_up(load, short, whole),
    }


def rate_after_warm_up(load: Load, short: Sequence[float], whole: Sequence[float]) -> float:
    """Rows a second of the batches by which the whole run is longer than the short one."""
    later = median(whole) - median(short)
    if later <= 0:
        sys.exit("the whole run took no longer than its warm-up: give it more rows")
    return load.rows * (load.peer_batches - load.peer_warm_up) / later


def run_mayfly(name: str, load: Load, folder: Path, work: Path) -> dict[str, Any]:
    work.mkdir()
    result = QUERIES[name].mayfly(load, folder, work)
    steady = result["batch_seconds"][load.warm_up :]
    return {**result, "rows_per_second": load.rows * len(steady) / sum(steady)}


def compare(name: str, load: Load, runners: Sequence[str], python: str) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="mayfly-dataflows-"))
    results: dict[str, Any] = {}
    try:
        QUERIES[name].generate(load, root / "data")
        for runner in runners:
            if runner == "mayfly":
                found = run_mayfly(name, load, root / "data", root / "work")
            else:
                found = run_peer(runner, name, load, root / "data", python)
            results[runner] = {"commit": commit(), **found}
            print(f"{name:12} {runner:8} {found['rows_per_second']:>12,.0f} rows/s", flush=True)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", action="append", choices=list(QUERIES))
    parser.add_argument("--runner", action="append", choices=RUNNERS)
    for name, default in asdict(Load()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    options = parser.parse_args()
    runners = options.runner or RUNNERS
    python = os.environ.get("MAYFLY_DATAFLOWS_PYTHON", "")
    if not python and set(runners) != {"mayfly"}:
        sys.exit("set MAYFLY_DATAFLOWS_PYTHON to a Python with pathway and bytewax, see --help")
    load = Load(**{name: getattr(options, name) for name in asdict(Load())})
    if not 0 < load.peer_warm_up < load.peer_batches <= load.batches:
        sys.exit("wanted: 0 < --peer-warm-up < --peer-batches <= --batches")
    results = measured_before(options.record, asdict(load)) if options.record else {}
    for name in options.query or list(QUERIES):
        results[name] = {**results.get(name, {}), **compare(name, load, runners, python)}
        if options.record:
            ordered = {one: results[one] for one in QUERIES if one in results}
            record(options.record, asdict(load), ordered)


if __name__ == "__main__":
    main()
