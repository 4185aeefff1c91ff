"""What comparing checksums costs: the first probe of a process, later ones, and an update.

Two archives of 100,000 rows a day are made. Children of this process, which have read nothing
before, use them in turns with and without the comparison, and time it in seconds of CPU: that is
what it takes, and a busy machine blurs it least. Answers must be the same in both.

    python -m benchmarks.checksums --record checksums
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import mayfly.archive
from benchmarks.measure import median, record
from mayfly.archive import Archive
from mayfly.archive.read import key_places, stored_files
from mayfly.archive.write.local_jobs import InProcess
from mayfly.storage import checksum, segment

DAY = 86_400_000_000
DAYS = 8
FIRSTS, LATER = 9, 200
"""A first probe takes a few milliseconds, in which much else happens: there are more of them."""
KINDS: dict[str, dict[str, Any]] = {
    "Parquet (WATA, window 7, 3 constituents)": {"window": 7, "constituents": 3},
    "young Arrow (lifetimes up to 30 days)": {"max_lifetime": "30 days", "lifetime": "30 days",
                                              "young": 2},
}  # fmt: skip


def rows(day: int, count: int) -> pa.Table:
    chance = np.random.default_rng(day)
    times = (day - 1) * DAY + 1 + np.sort(chance.integers(0, DAY - 2, count))
    return pa.table(
        {
            "k": pa.array([f"customer {at}" for at in chance.integers(0, count // 10, count)]),
            "v": pa.array(chance.integers(0, 1 << 60, count)),
            "note": pa.array([f"note {at}" for at in chance.integers(0, 1 << 40, count)]),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def leave_out_comparisons() -> None:
    def nothing(*_: Any, **__: Any) -> None:
        return None

    checksum.Piece.check = nothing  # type: ignore[method-assign]
    for module in (segment, stored_files, key_places):
        for name in ("check_file", "check_file_once"):
            if hasattr(module, name):
                setattr(module, name, nothing)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def opened(root: Path) -> Archive:
    return Archive.open(root, InProcess(), sync=False)


def first_probe(root: Path) -> dict[str, Any]:
    archive = opened(root)
    seconds, answer = cpu(lambda: archive.probe("customer 7"))
    return {"first probe": seconds, "answer": answer.num_rows}


def later_probes(root: Path) -> dict[str, Any]:
    archive = opened(root)
    for _ in range(4):  # hashes of keys are made when a file is met a second time
        answer = archive.probe("customer 7", "customer 8")
    seconds, _ = cpu(lambda: [archive.probe("customer 7") for _ in range(LATER)])
    return {"later probe": seconds / LATER, "answer": answer.num_rows}


def update(root: Path, count: int) -> dict[str, Any]:
    target = root.with_name("copy")
    shutil.copytree(root, target, copy_function=os.link)
    try:
        archive = opened(target)
        batch = rows(DAYS + 1, count)
        seconds, _ = cpu(lambda: archive.update(batch))
        return {"update": seconds, "answer": archive.scan().num_rows}
    finally:
        shutil.rmtree(target)


def in_child(work: Callable[[], dict[str, Any]], compared: bool) -> dict[str, Any]:
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        if not compared:
            leave_out_comparisons()
        with os.fdopen(writer, "w") as pipe:
            pipe.write(json.dumps(work()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(said)
    return found


def measure(root: Path, count: int, repetitions: int) -> dict[str, Any]:
    found: dict[str, dict[bool, list[float]]] = {}
    for number in range(repetitions):
        order = (True, False) if number % 2 else (False, True)
        firsts: list[Callable[[], dict[str, Any]]] = [lambda: first_probe(root)] * FIRSTS
        for work in (*firsts, lambda: later_probes(root), lambda: update(root, count)):
            answers = set()
            for compared in order:
                figures = in_child(work, compared)
                answers.add(figures.pop("answer"))
                for name, seconds in figures.items():
                    found.setdefault(name, {}).setdefault(compared, []).append(seconds)
            assert len(answers) == 1, answers
    return {
        name: {
            "compared_ms": [1000 * one for one in times[True]],
            "not_compared_ms": [1000 * one for one in times[False]],
            "ratio": median(times[True]) / median(times[False]),
            "ratio_of_fastest": min(times[True]) / min(times[False]),
        }
        for name, times in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--record")
    options = parser.parse_args()
    results = {}
    for kind, settings in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="mayfly-checksums-") as folder:
            root = Path(folder) / "archive"
            mayfly.archive.create(root, rows(1, 100).schema, key="k", parts=4, origin=0, **settings)
            archive = opened(root)
            for day in range(1, DAYS + 1):
                archive.update(rows(day, options.rows))
            size = archive.version().manifest.stored_bytes
            figures = measure(root, options.rows, options.repetitions)
            results[kind] = {"stored_bytes": size, **figures}
        for name, one in figures.items():
            print(
                f"{kind}: {name} {one['ratio']:.3f} of the time without comparison, "
                f"{one['ratio_of_fastest']:.3f} by the fastest"
            )
    if options.record:
        record(options.record, {"rows_a_day": options.rows, "days": DAYS}, results)


if __name__ == "__main__":
    main()
