"""How long it takes to parse, bind and optimize: ten-way joins and a negation over joins.

Each plan is checked before it is timed (all inputs present, the expected pattern at the root). The
first repetitions are warm-up and are written down apart.

    python -m benchmarks.planning
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measure import median, record
from mayfly.cql import bind_query
from mayfly.optimizer import optimize
from mayfly.physical.explain.explainer import plan_physically
from mayfly.plan.catalog import Catalog, StreamDefinition, columns_from
from mayfly.plan.logical_operators import StreamScan

WAYS = 10
AIM_MILLISECONDS = 200.0


def catalog() -> Catalog:
    columns = columns_from([("ts", "timestamp"), ("k", "bigint"), ("j", "bigint"), ("v", "string")])
    found = Catalog()
    for number in range(WAYS + 2):
        found = found.declare(StreamDefinition(f"s{number}", columns, time="ts"))
    return found


def joined(on: Callable[[int], str], extra: str = "") -> str:
    """A ten-way join whose neighbours are equated on the named column."""
    windows = ", ".join(f"s{number} [RANGE {number + 1} MIN]" for number in range(WAYS))
    conditions = (f"s{n}.{on(n)} = s{n + 1}.{on(n)}" for n in range(WAYS - 1))
    return f"SELECT s0.v, s9.k FROM {windows} WHERE {' AND '.join(conditions)}{extra}"


QUERIES = {
    "one common attribute": (joined(lambda n: "k"), WAYS, "WK"),
    "a chain of two attributes": (joined(lambda n: "kj"[n % 2]), WAYS, "WK"),
    "two negations above": (
        joined(
            lambda n: "k",
            " AND NOT EXISTS (SELECT * FROM s10 [RANGE 1 MIN] WHERE s10.k = s0.k)"
            " AND NOT EXISTS (SELECT * FROM s11 [RANGE 1 MIN] WHERE s11.j = s5.j)",
        ),
        WAYS + 2,
        "STR",
    ),
}


def measure(query: str, known: Catalog) -> dict[str, float]:
    """One repetition, in milliseconds."""
    start = time.perf_counter()
    plan = bind_query(query, known)
    bound = time.perf_counter()
    optimized = optimize(plan)
    finished = time.perf_counter()
    plan_physically(optimized, known)
    physical = time.perf_counter()
    return {
        "parse_and_bind": 1000 * (bound - start),
        "optimize": 1000 * (finished - bound),
        "total": 1000 * (finished - start),
        "physical": 1000 * (physical - finished),
    }


def check(name: str, query: str, streams: int, pattern: str, known: Catalog) -> int:
    """The number of candidate plans; a wrong plan is not worth timing."""
    optimized = optimize(bind_query(query, known))
    physical = plan_physically(optimized, known)
    scans = sum(isinstance(node, StreamScan) for node in optimized.plan.walk())
    found = physical.answer.label.pattern.name
    if (scans, found) != (streams, pattern):
        sys.exit(f"{name}: {scans} streams and {found}, expected {streams} and {pattern}")
    return len(optimized.candidates)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repetitions", type=int, default=50)
    options.add_argument("--warm-up", type=int, default=5)
    chosen = options.parse_args()
    known = catalog()
    results: list[dict[str, Any]] = []
    for name, (query, streams, pattern) in QUERIES.items():
        candidates = check(name, query, streams, pattern, known)
        runs = [measure(query, known) for _ in range(chosen.warm_up + chosen.repetitions)]
        timed = runs[chosen.warm_up :]
        results.append(
            {
                "query": name,
                "text": query,
                "candidates": candidates,
                "median_ms": {part: median([run[part] for run in timed]) for part in timed[0]},
                "slowest_ms": max(run["total"] for run in timed),
                "within_aim": median([run["total"] for run in timed]) < AIM_MILLISECONDS,
                "warm_up_ms": runs[: chosen.warm_up],
                "repetitions_ms": timed,
            }
        )
        print(f"{name}: {json.dumps(results[-1]['median_ms'])}")
    configuration = {**vars(chosen), "ways": WAYS, "aim_ms": AIM_MILLISECONDS}
    print(record("planning", configuration, results))


if __name__ == "__main__":
    main()
