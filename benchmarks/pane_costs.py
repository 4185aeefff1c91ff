"""What a value of panes costs in CPU time: the figures by which EXPLAIN SHARING estimates.

Sums and maxima by address over one stream, by one window and by thirty, together and each alone;
kernels only, in this process. The share that does not grow with the queries is that of panes made
and looked at once, the rest that of the values that refreshes read. CPU time, so that a loaded
machine does little harm; the smallest of several turns.

    python -m benchmarks.pane_costs
    python -m benchmarks.pane_costs --record pane-costs
"""

from __future__ import annotations

import argparse
import time
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import record
from mayfly.cql import catalog_after, parse
from mayfly.cql.binder import bind_query
from mayfly.kernels.delta import Delta
from mayfly.kernels.interval import Interval
from mayfly.lifetime import MIN_TIME
from mayfly.physical.explain.sharing import sharing_of
from mayfly.physical.joint_readers import joint
from mayfly.physical.plan_programs import programs_of_plans
from mayfly.physical.program import Task
from mayfly.physical.shared_program import SharedProgram, shared

SECOND = 1_000_000
DECLARED = "CREATE STREAM s (ts TIMESTAMP, src BIGINT, bytes BIGINT) TIMESTAMP BY ts"
GROUPS, ROWS, BATCHES, WARM_UP, SPAN = 2_000, 100_000, 9, 5, 20
CALLS = {"sums": "SUM(bytes)", "maxima": "MAX(bytes)"}


def queries_of(count: int, call: str, seed: int) -> dict[str, str]:
    chance, texts = Random(seed), {}
    for number in range(count):
        window = chance.randint(20, 100)
        slide = chance.randint(1, window // 2)
        texts[f"q{number}"] = (
            f"SELECT src, {call} AS x FROM s [RANGE {window} s SLIDE {slide} s] GROUP BY src"
        )
    return texts


def steps_of(program: SharedProgram) -> list[Task]:
    return joint(program).program.tasks()


def batch_of(number: int) -> pa.Table:
    random = np.random.default_rng(number)
    low = number * SPAN * SECOND
    ts = np.sort(random.integers(low, low + SPAN * SECOND, ROWS))
    columns = {"s.src": random.integers(0, GROUPS, ROWS), "s.bytes": random.integers(0, 1500, ROWS)}
    return pa.table({**columns, "_ts": ts})


def seconds_a_batch(texts: dict[str, str], without: tuple[str, ...]) -> tuple[float, Any]:
    """CPU time, and what the model says of these queries."""
    catalog = catalog_after(parse(DECLARED))
    plans = {name: bind_query(cql, catalog) for name, cql in texts.items()}
    programs = programs_of_plans(plans, catalog, without=without)
    tasks = steps_of(shared(programs, {}))
    states = {task: task.operator.state() for task in tasks}
    clock, spent = MIN_TIME, []
    for number in range(BATCHES):
        rows, after = batch_of(number), (number + 1) * SPAN * SECOND
        began, results = time.process_time(), dict[Task, Any]()
        for task in tasks:
            if task.operator.intake:
                fed = rows
                for operator in task.operator.intake:
                    fed = operator.prepared(fed)
                inputs = [Delta(fed, fed.slice(0, 0))]
            else:
                inputs = [results[source] for source in task.inputs if isinstance(source, Task)]
            step = task.operator.step(states[task], inputs, Interval(clock, after, 0))
            states[task], results[task] = step
        spent.append(time.process_time() - began)
        clock = after
    return min(spent[WARM_UP:]), sharing_of(programs)


def measure(turns: int) -> dict[str, Any]:
    runs: dict[str, Any] = {}
    for _ in range(turns):
        for name, call in CALLS.items():
            for count in (1, 30):
                for way, without in (("together", ()), ("alone", ("SS1", "CS1", "CS2"))):
                    spent, explained = seconds_a_batch(queries_of(count, call, 7), without)
                    key = f"{count} {name} {way}"
                    runs[key] = min(spent, runs.get(key, (spent,))[0]), explained
    results = {"nanoseconds": figures(runs), "seconds": {key: runs[key][0] for key in runs}}
    print(results, flush=True)
    return results


def figures(runs: dict[str, Any]) -> dict[str, float]:
    """Nanoseconds of a pane that is made, of a result, and of a value that is read for one."""
    span, equations = SPAN / 3600 * GROUPS, []
    for key, (spent, explained) in runs.items():
        if key.endswith("together"):
            made = sum(some.made for some in explained.panes)
            read = sum(some.shared.touched - some.made for some in explained.panes)
            results = sum(some.results for some in explained.panes)
            equations.append([made * span, results * span, read * span, spent * 1e9])
    known = np.array(equations)
    made, result, read = np.linalg.lstsq(known[:, :3], known[:, 3], rcond=None)[0]
    return {"made": float(made), "result": float(result), "read": float(read)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    options = parser.parse_args()
    results = measure(options.turns)
    if options.record:
        configuration = {"groups": GROUPS, "rows": ROWS, "seconds": SPAN, "turns": options.turns}
        print(record(options.record, configuration, results))


if __name__ == "__main__":
    main()
