"""A pipeline that runs for long: after it has filled its windows, nothing grows.

An hour scaled down: many small batches over windows that are short against the whole. Measured
whenever old versions were removed: all files of the checkpoint, state, manifest and what the
processes hold in memory.

Spark keeps its notes of the last 100 batches and those of its file sources for ten minutes, longer
than this test runs. It is told to keep fewer, so that both are full when the test begins to
compare; what is compared is whether old ones go, which does not depend on how many there are.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.queries import Queries
from mayfly.spark.api.session import Session
from mayfly.spark.stream.runner import VACUUM_EVERY
from mayfly.storage import Repository
from tests.faults.processes import descendants
from tests.integration.recorded import declare, record
from tests.integration.test_spark_queries import SCHEMA

BATCHES, ROWS = 181, 40
SETTLED = 60
"""So many batches fill windows, history, caches and pools."""
MEGABYTE = 1 << 20
RETAINED = {
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1",
}
"""How many of its own notes Spark keeps, in batches and in milliseconds."""
TEXTS = {
    "pairs": "SELECT l.k, l.v, r.v AS w FROM a [RANGE 60 us] l, b [RANGE 40 us] r WHERE l.k = r.k",
    "chained": "SELECT l.g, COUNT(*) AS n FROM a [RANGE 60 us] l, b [RANGE 40 us] r"
    " WHERE l.k = r.k GROUP BY l.g",
    "lonely": "SELECT k, v FROM a [RANGE 50 us] l WHERE NOT EXISTS"
    " (SELECT * FROM b [RANGE 5 us] r WHERE r.k = l.k)",
    "latest": "SELECT k, v FROM a [PARTITION BY k ROWS 3]",
    "refreshed": "SELECT Rstream(g, MAX(v) AS m) FROM a [RANGE 60 us SLIDE 30 us] GROUP BY g",
    "seen": "SELECT DISTINCT g FROM b [RANGE 40 us]",
    "named": "SELECT n.name, l.v FROM a [RANGE 30 us] l, names n WHERE l.k = n.id",
}


def steady(seed: int = 5) -> list[dict[str, pa.Table]]:
    """Batches of two streams that never change their character."""
    rng, made = Random(seed), []
    at, seq = {"a": 0, "b": 0}, 0
    for _ in range(BATCHES):
        batch = {}
        for name in at:
            listed = []
            for _ in range(ROWS):
                at[name] += rng.choice((0, 1, 1))
                seq += 1
                k, v = rng.randint(0, 20), rng.randint(0, 9)
                g = rng.choice("pqrs")
                listed.append({"ts": at[name], "seq": seq, "k": k, "g": g, "v": v, "x": 0.5})
            batch[name] = pa.Table.from_pylist(listed, schema=SCHEMA)
        at = dict.fromkeys(at, max(at.values()))
        made.append(batch)
    return made


@dataclass
class Meter:
    """A sink that looks at everything that could grow, after each clean-up."""

    spark: SparkSession
    root: Path
    wants_every_batch: bool = True
    found: list[dict[str, int]] = field(default_factory=list)

    def deliver(self, delivery: Any) -> None:
        manifest = Repository.open(self.root).current()
        if manifest.properties["batch"] % VACUUM_EVERY == 0:
            self.found.append(self._measured())

    def _measured(self) -> dict[str, int]:
        manifest = Repository.open(self.root).current()
        files = sizes(self.root)
        state = list(manifest.in_group("state"))
        gc.collect()
        return {
            "batch": manifest.properties["batch"],
            **Counter(f"files in {name.partition('/')[0]}" for name in files),
            "file bytes": sum(size for name, size in files.items() if not of_spark(name)),
            "state segments": len(state),
            "state rows": sum(one.rows for one in state),
            "manifest bytes": len(manifest.encode()),
            "driver bytes": resident(os.getpid()),
            "worker bytes": sum(map(resident, workers())),
            "heap bytes": self._heap(),
        }

    def _heap(self) -> int:
        jvm: Any = self.spark._jvm
        jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        return int(runtime.totalMemory() - runtime.freeMemory())


def sizes(root: Path) -> dict[str, int]:
    """Every file below a folder; Spark may remove some of its own meanwhile."""
    found = {}
    for one in root.rglob("*"):
        with suppress(FileNotFoundError):
            if one.is_file():
                found[str(one.relative_to(root))] = one.stat().st_size
    return found


def of_spark(name: str) -> bool:
    """Whether a file is one of Spark's notes. Those of a file source list all files that were ever
    read, so their number must not grow, but their bytes do."""
    return name.startswith("spark")


def resident(process: int) -> int:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def workers() -> list[int]:
    """The Python processes that Spark started from this one."""
    found = []
    for one in descendants(os.getpid()):
        try:
            command = Path(f"/proc/{one}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += [one] if b"pyspark" in command and b"java" not in command else []
    return found


@pytest.fixture
def retaining_little(spark: SparkSession) -> Iterator[SparkSession]:
    for name, value in RETAINED.items():
        spark.conf.set(name, value)
    yield spark
    for name in RETAINED:
        spark.conf.unset(name)


@pytest.mark.slow
def test_nothing_grows_once_windows_are_full(
    retaining_little: SparkSession, tmp_path: Path
) -> None:
    spark = retaining_little
    record(tmp_path / "in", steady())
    session = Session(spark)
    declare(session, tmp_path / "in", {"a": SCHEMA, "b": SCHEMA}, sequence=["seq"])
    names = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["one", "two"]})
    session.relation("names", names, key=["id"])
    queries = Queries(session, {name: session.query(cql) for name, cql in TEXTS.items()})
    meter = Meter(spark, tmp_path / "ck")
    runs = queries.start(
        tmp_path / "ck", sinks={"pairs": [meter]}, available_now=True, buckets=2, sync=False,
        history="100 us",
    )  # fmt: skip
    assert all(run.await_done(800) for run in runs.values())
    settled = [one for one in meter.found if one["batch"] >= SETTLED]
    assert len(settled) >= 5, meter.found
    early, late = settled[:3], settled[-3:]
    folders = {name for one in settled for name in one if name.startswith("files in ")}
    assert {"files in data", "files in spark"} < folders
    figures = ("file bytes", "state segments", "state rows", "manifest bytes")
    for name in (*sorted(folders), *figures):
        before, after = (max(one.get(name, 0) for one in part) for part in (early, late))
        assert after <= 1.3 * before, (name, meter.found)
        assert before > 0, name
    for name in ("driver bytes", "worker bytes", "heap bytes"):
        before, after = (min(one[name] for one in part) for part in (early, late))
        assert after - before < 48 * MEGABYTE, (name, meter.found)
    print(meter.found[-1])
