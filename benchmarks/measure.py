"""What every benchmark writes down: commit, machine, configuration and all repetitions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "duckdb")
LONGEST = 20.0
"""Seconds for which something is repeated."""


def machine() -> dict[str, Any]:
    """Where and in what state this runs; the load tells whether the machine was quiet."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "load_average": os.getloadavg(),
    }


def commit() -> str:
    """The commit that was measured, marked if the tree had changes."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "../src", ".", ":!results")
    return git("rev-parse", "HEAD") + ("+changes" if changed else "")


def record(name: str, configuration: dict[str, Any], results: Any) -> Path:
    """Write ``results/<name>.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    content = {
        "benchmark": name,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "machine": machine(),
        "configuration": configuration,
        "results": results,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def measured_before(name: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """What this record holds of the same configuration; every result names its commit."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    return dict(found["results"]) if found["configuration"] == configuration else {}


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def repeated(work: Sequence[Callable[[], object]]) -> list[float]:
    """The seconds of each, at least three; what is slow is not repeated for minutes."""
    found: list[float] = []
    for one in work:
        if len(found) >= 3 and sum(found) > LONGEST:
            break
        found.append(seconds(one))
    return found
