"""Running a join case in-process, and what the oracle says about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import settings

from mayfly.kernels import window_join
from mayfly.kernels.codes import key_codes
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.plan.catalog import Catalog, ColumnDefinition, StreamDefinition
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import Output
from mayfly.plan.stream_joins import JoinQuery, Stream
from mayfly.plan.types import DataType
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing import JoinCase, Windowed, WindowJoinOracle, assert_same_rows

Keys = Sequence[str | tuple[str, str]]


def examples(times: float) -> settings:
    """So many times the examples that the profile asks for; half of them in `make test`."""
    asked = settings().max_examples
    return settings(max_examples=round(times * (asked if asked > 40 else asked / 2)))


@dataclass(frozen=True)
class Chain:
    """How the streams of a case are joined one after the other, and the residuals on the way.

    ``on[i]`` are the keys by which stream i + 1 joins those before it.
    """

    on: tuple[Keys, ...]
    where: Expression | None = None
    sql: str = ""
    """The residual once more, as DuckDB text."""
    select: Mapping[str, str] | None = None

    def query(self, case: JoinCase) -> JoinQuery:
        first, *others = (
            Stream(name, rows.schema, slack=case.slack).window(case.windows[name])
            for name, rows in case.batches[0].items()
        )
        query = JoinQuery((first,))
        for keys, other in zip(self.on, others, strict=True):
            last = other is others[-1]
            query = query.join(
                other, list(keys), self.where if last else None, self.select if last else None
            )
        return query

    def oracle(self, case: JoinCase) -> WindowJoinOracle:
        names = list(case.windows)
        pairs = [
            (f"{names[0]}.{item}", f"{name}.{item}") if isinstance(item, str) else item
            for keys, name in zip(self.on, names[1:], strict=True)
            for item in keys
        ]
        streams = {
            name: Windowed(rows, f"{case.windows[name]} us") for name, rows in case.accepted.items()
        }
        return WindowJoinOracle(streams, pairs, self.sql, self.select)


def started(query: JoinQuery, buckets: int = 1) -> ContinuousRun:
    """A join that was built in Python, in this process."""
    catalog = Catalog()
    for one in query.streams():
        columns = tuple(ColumnDefinition(name, one.type_of(name)) for name in one.schema.names)
        catalog = catalog.declare(StreamDefinition(one.name, columns, one.time, slack=one.slack))
    plan = optimize(query.plan()).plan
    assert isinstance(plan, Output)
    return ContinuousRun(compile_plan(plan, catalog), catalog, bucket_count=buckets)


def run(
    case: JoinCase,
    chain: Chain,
    *,
    buckets: int | None = None,
    after_each: Callable[[ContinuousRun], None] | None = None,
    codes: Callable[..., pa.Array] = key_codes,
) -> ContinuousRun:
    """The case fed batch by batch to its end."""
    with patch.object(window_join, "key_codes", codes):
        return _run(case, chain, buckets or case.buckets, after_each)


def _run(
    case: JoinCase,
    chain: Chain,
    buckets: int,
    after_each: Callable[[ContinuousRun], None] | None,
) -> ContinuousRun:
    running = started(chain.query(case), buckets)
    for i, batch in enumerate(case.batches):
        running.feed(batch, case.heartbeats[i] if case.heartbeats else None)
        if after_each:
            after_each(running)
    running.finish()
    return running


def assert_matches_oracle(running: ContinuousRun, case: JoinCase, chain: Chain) -> None:
    """The change log with lifetimes, the answer at every boundary, and the late rows."""
    oracle, log = chain.oracle(case), running.lifetimes()
    assert_same_rows(log, oracle.lifetimes(), "change log")
    assert running.late == {name: rows.num_rows for name, rows in case.late.items()}

    instants = oracle.boundaries()
    answers = oracle.answer_at(instants)
    assert_same_rows(answers_from(log, instants), answers, "answers by instant")
    closed = [at for at in instants if at < running.clocks.query]
    for at in {closed[0], closed[len(closed) // 2], closed[-1]} if closed else ():
        expected = answers.filter(pa.compute.equal(answers["at"], at)).drop_columns(["at"])
        assert_same_rows(running.snapshot(at), expected, f"snapshot({at})")


def answers_from(log: pa.Table, instants: Sequence[int]) -> pa.Table:
    """What a change log says about each instant: the rows with ts ≤ at < exp."""
    at = np.array(instants, np.int64)
    ts, exp = log["ts"].to_numpy(), log["exp"].to_numpy()
    which, row = np.nonzero((ts[None, :] <= at[:, None]) & (at[:, None] < exp[None, :]))
    alive = log.drop_columns(["ts", "exp"]).take(pa.array(row))
    return alive.append_column("at", pa.array(at[which]))


def colliding_codes(columns: Sequence[pa.ChunkedArray], types: Sequence[DataType]) -> pa.Array:
    """Codes that nearly all keys share, so that only the comparison of keys tells them apart."""
    return pa.array(
        [None if c is None else c % 3 for c in key_codes(columns, types).to_pylist()], pa.int64()
    )
