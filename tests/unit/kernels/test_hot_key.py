"""One key with 25,000 rows on either side: all pairs come out, in bounded memory.

Memory is measured in a process of its own, as the growth of its largest resident size.
"""

from __future__ import annotations

import json
import subprocess
import sys
from textwrap import dedent
from typing import Any

COMMON = dedent("""
    import json, resource
    import numpy as np, pyarrow as pa

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def rows(count):
        return np.zeros(count, np.int64), np.sort(np.arange(count) % 997), np.full(count, 2000)
""")


def measured(program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", COMMON + dedent(program)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_every_pair_of_a_hot_key_is_found_in_bounded_memory() -> None:
    found = measured("""
        from mayfly.kernels.join_pairs import matching_pairs
        left, right = rows(25_000), rows(25_000)
        list(matching_pairs(rows(10), rows(10), 64))
        before, pairs = peak(), 0
        for one, other in matching_pairs(left, right, 65_536):
            pairs += len(one)
        print(json.dumps([pairs, peak() - before]))
    """)
    pairs, growth = found
    assert pairs == 25_000 * 25_000
    assert growth < 20, f"{growth:.0f} MB for pairs that take 10 GB at once"


def test_a_step_streams_the_results_of_a_hot_key() -> None:
    found = measured("""
        from mayfly.kernels.delta import Delta
        from mayfly.kernels.interval import Interval
        from mayfly.kernels.kept_rows import Shape
        from mayfly.kernels.window_join import Condition, JoinRows
        from mayfly.plan.expressions import Column
        from mayfly.plan.types import BIGINT
        kinds = {name: pa.schema([(f"{name}.k", pa.int64()), (f"{name}.v", pa.int64())])
                 for name in "lr"}
        keys = tuple((Column(name, "k", BIGINT),) for name in "lr")
        condition = Condition(keys, (BIGINT,), True)
        join = JoinRows("j", condition, tuple(kinds.values()), (Shape(), Shape()))
        def table(name, count):
            code, ts, exp = rows(count)
            born = pa.table({f"{name}.k": code, f"{name}.v": ts, "_ts": ts, "_exp": exp,
                             "_id": np.arange(count)})
            return Delta(born, Delta.empty(kinds[name]).cut)
        def run(count):
            delta = table("l", count), table("r", count)
            made = join.giving({"l.v", "r.v"})
            state, pieces = made.pieces(join.state(), delta, Interval(0, 1000))
            return sum(piece.rows for piece in pieces), state.rows
        run(1_000)
        before = peak()
        results, kept = run(6_000)
        print(json.dumps([results, kept, peak() - before]))
    """)
    results, kept, growth = found
    assert (results, kept) == (36_000_000, 12_000)
    assert growth < 150, f"{growth:.0f} MB for results that take 1,400 MB at once"
