"""Archives side by side: each runner in a process of its own, over the same recorded days."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.archive_rows import Truth, record_days
from benchmarks.measure import commit, measured_before, median, record, repeated, seconds

PROBES, SCANS = 300, 5
Results = dict[str, Any]


@dataclass(frozen=True)
class SideBySide:
    """A benchmark of archives: its rows, its runners in order, and what a runner's process does."""

    module: str
    rows: type[Any]
    day_rows: Callable[[Any, int], pa.Table]
    runners: tuple[str, ...]
    run: Callable[[str, Any, Path, Path], Results]
    shown: Callable[[Results], str]

    def main(self, description: str | None) -> None:
        options = self._options(description)
        if options.child:
            rows = self.rows(**json.loads(options.rows))
            print(json.dumps(self.run(options.child, rows, options.days, options.work)))
            return
        # Ended from outside, it must not leave a runner behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        rows = self.rows(live=options.live, measured=options.measured)
        results = self._compared(rows, options.runner or self.runners, options.days, options.record)
        if any("failed" in result for result in results.values()):
            sys.exit(1)

    def _options(self, description: str | None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--runner", action="append", help="mayfly:LAYOUT or a peer")
        parser.add_argument("--live", type=int, default=self.rows.live)
        parser.add_argument("--measured", type=int, default=self.rows.measured)
        parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
        parser.add_argument("--child")
        parser.add_argument("--days", type=Path)
        parser.add_argument("--work", type=Path)
        parser.add_argument("--rows")
        return parser.parse_args()

    def _compared(
        self, rows: Any, runners: tuple[str, ...], kept: Path | None, name_of_record: str | None
    ) -> Results:
        """Every runner's figures, recorded after each, so that those before a failure are kept."""
        root = Path(tempfile.mkdtemp(prefix="mayfly-archives-"))
        days = kept or root / "days"
        results = measured_before(name_of_record, asdict(rows)) if name_of_record else {}
        try:
            if not days.exists():
                record_days(rows.days, partial(self.day_rows, rows), days)
            for number, name in enumerate(runners):
                work = root / str(number)
                work.mkdir()
                began = time.perf_counter()
                results[name] = {"commit": commit(), **self._in_child(name, rows, days, work)}
                self._tell(name, results[name], time.perf_counter() - began)
                shutil.rmtree(work)
                if name_of_record:
                    record(name_of_record, asdict(rows), self._in_order(results))
        finally:
            shutil.rmtree(root, ignore_errors=True)
        return results

    def _in_child(self, name: str, rows: Any, days: Path, work: Path) -> Results:
        words = [sys.executable, "-m", self.module, "--child", name, "--days", str(days),
                 "--work", str(work), "--rows", json.dumps(asdict(rows))]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            told = (done.stderr or done.stdout).strip()
            return {"failed": told[-2000:] or f"ended with {done.returncode}"}
        result: Results = json.loads(done.stdout.splitlines()[-1])
        return result

    def _tell(self, name: str, result: Results, took: float) -> None:
        if "failed" in result:
            print(f"{name:34} FAILED: {result['failed'].splitlines()[-1]}", flush=True)
        else:
            print(f"{name:34} {self.shown(result)}  ({took:.0f} s)", flush=True)

    def _in_order(self, results: Results) -> Results:
        names = dict.fromkeys([*self.runners, *results])
        return {name: results[name] for name in names if name in results}


def sampled_keys(keys: int) -> list[int]:
    return random.Random(5).sample(range(keys), min(PROBES, keys))


def check(name: str, archive: Any, right: Truth) -> None:
    """End the process if the archive answers wrongly."""
    wrong = [key for key, want in right.probes.items() if not _same(archive.probe(key), want)]
    found = archive.scan()
    if wrong or found != (right.count, right.key_sum, right.payload_bytes):
        sys.exit(f"{name} gives wrong answers: probes {wrong}, scan {found}, {right}")


def _same(found: tuple[int, float], wanted: tuple[int, float]) -> bool:
    return found[0] == wanted[0] and abs(found[1] - wanted[1]) < 1e-6


def timed_updates(archive: Any, first: int, last: int) -> list[float]:
    return [seconds(partial(archive.update, day)) for day in range(first, last + 1)]


def timed_reads(archive: Any, keys: list[int], work: Path) -> Results:
    probes = repeated([partial(archive.probe, key) for key in keys])
    scans = repeated([archive.scan] * SCANS)
    return {
        "probe_seconds": probes,
        "probe_p50_ms": 1000 * quantile(probes, 0.5),
        "probe_p99_ms": 1000 * quantile(probes, 0.99),
        "scan_seconds": scans,
        "scan_median": median(scans),
        "disk_bytes": sum(f.stat().st_size for f in work.rglob("*") if f.is_file()),
    }


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
