"""Aggregates over joins of windows with SLIDE: from values by expiration as from joined rows,
against an independent engine.

DuckDB joins the rows that each refresh shows; its SQL is written here, not made from ours.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.checkpoint.state_erasure import without_expired
from mayfly.cql import bind_query, catalog_after, parse
from mayfly.errors import BadInput, UnsupportedFormat
from mayfly.kernels.join_panes import JoinPaneStore, JoinWindows, leads
from mayfly.kernels.lifetime_rows import RowRun
from mayfly.kernels.pane_edges import edges, next_edges
from mayfly.kernels.pane_store import PaneState
from mayfly.kernels.window_join import JoinRows
from mayfly.optimizer.rules.share_panes import LATER_RULES, SHARING
from mayfly.periodic.sharing.pane_covers import sharing_with_covers
from mayfly.periodic.sharing.shared_joins import choose_joins
from mayfly.physical.explain.read_joins import values_kept
from mayfly.physical.program import Program
from mayfly.plan.window_kinds import Range, Slide
from mayfly.runtime.local_session import LocalSession
from mayfly.spark.stream.query_checkpoint import ENTRY, SINCE, WHOLE_FROM, RegisteredQueries
from mayfly.storage import verify
from mayfly.storage.segment import EXP, TS
from tests.property.shared_runs import HereRunner, program_of, results_of, runner_of
from tests.property.test_pane_sharing import Pipeline
from tests.property.test_panes import Row, database, shown

many = settings(
    max_examples=25 if settings().max_examples < 200 else settings().max_examples,
    phases=[Phase.generate],
)
SLACK = 4
STREAMS = ("a", "b", "c")
DECLARED = ";".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, k INT, g STRING, v BIGINT, f DOUBLE)"
    f" FROM parquet('x') TIMESTAMP BY ts SLACK {SLACK} us"
    for name in STREAMS
)
CATALOG = catalog_after(parse(DECLARED))
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "k": pa.int32(),
        "g": pa.string(),
        "v": pa.int64(),
        "f": pa.float64(),
    }
)
CALLS = (
    "COUNT(*)", "COUNT(r.v)", "SUM(r.v)", "SUM(l.k)", "AVG(l.v)", "MIN(r.v)", "MAX(l.g)",
    "MAX(l.v)", "COUNT(DISTINCT r.v)", "SUM(r.f)", "MEDIAN(r.k)", "SUM(l.v + r.v)",
    "COUNT(*) FILTER (WHERE r.v > 1)", "VAR_POP(r.f)", "STDDEV_POP(l.k + r.k)",
)  # fmt: skip
WHERES = ("", "l.v > 0", "r.v IS NOT NULL", "l.v > 0 AND r.k = 1", "l.v <= r.v", "l.g <> r.g")
KEYS = ((), ("l.g",), ("r.k",), ("l.k", "r.g"))
Batch = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class JoinQuery:
    """``inputs`` are streams with the lengths of their windows, called l, r, m."""

    inputs: tuple[tuple[str, int], ...]
    keys: tuple[str, ...]
    calls: tuple[str, ...]
    where: str
    period: int
    origin: int = 0

    @property
    def _select(self) -> str:
        keys = (f"{key} AS {key.replace('.', '_')}" for key in self.keys)
        calls = (f"{call} AS c{number}" for number, call in enumerate(self.calls))
        return f"SELECT {', '.join([*keys, *calls])}"

    @property
    def _where(self) -> str:
        equal = [f"l.k = {alias}.k" for alias in "rm"[: len(self.inputs) - 1]]
        return f" WHERE {' AND '.join([*equal, *([self.where] if self.where else [])])}"

    @property
    def _group(self) -> str:
        return f" GROUP BY {', '.join(self.keys)}" if self.keys else ""

    @property
    def cql(self) -> str:
        origin = f" ORIGIN '1970-01-01 00:00:00.{self.origin:06d}'" if self.origin else ""
        windows = ", ".join(
            f"{stream} [RANGE {duration} us SLIDE {self.period} us{origin}] {alias}"
            for (stream, duration), alias in zip(self.inputs, "lrm", strict=False)
        )
        return f"{self._select} FROM {windows}{self._where}{self._group}"

    @property
    def sql(self) -> str:
        alive = ", ".join(
            f"alive{number} {a}" for number, a in enumerate("lrm"[: len(self.inputs)])
        )
        return f"{self._select} FROM {alive}{self._where}{self._group}"

    @property
    def streams(self) -> tuple[str, ...]:
        return tuple(sorted({stream for stream, _ in self.inputs}))


def random_inputs(rng: Random) -> tuple[tuple[str, int], ...]:
    lengths = (1, 5, 6, 12, 20)
    if rng.random() < 0.2:
        length = rng.choice(lengths)
        return tuple((stream, length) for stream in STREAMS)
    streams = rng.choice((("a", "b"), ("a", "b"), ("b", "a"), ("a", "a")))
    first, second = rng.choice(lengths), rng.choice(lengths)
    return ((streams[0], first), (streams[1], first if rng.random() < 0.5 else second))


def random_join(rng: Random, inputs: tuple[tuple[str, int], ...] = ()) -> JoinQuery:
    period = rng.choice((1, 3, 4, 10))
    return JoinQuery(
        inputs or random_inputs(rng), rng.choice(KEYS),
        tuple(rng.sample(CALLS, rng.randint(1, 3))), rng.choice(WHERES), period,
        rng.randrange(period),
    )  # fmt: skip


def random_batches(rng: Random, streams: tuple[str, ...]) -> list[Batch]:
    """Ties, bursts, disorder, rows that are late, silence, batches without rows."""
    at, made = 0, list[Batch]()
    for _ in range(rng.randint(1, 6)):
        batch: Batch = {stream: [] for stream in streams}
        for _ in range(rng.choice((0, 1, 5, 12))):
            at += rng.choice((0, 0, 1, 2, 3, 25 if rng.random() < 0.1 else 1))
            batch[rng.choice(streams)].append(
                {
                    "ts": max(0, at - rng.choice((0, 0, 0, 2, 4, 9))),
                    "k": rng.choice((1, 1, 2, None)),
                    "g": rng.choice(("a", "b", None)),
                    "v": rng.choice((0, 1, 5, -2, None)),
                    "f": rng.choice((0.1, -0.0, 1e6, -3.7, None)),
                }
            )
        made.append(batch)
    return made


def admitted(batches: list[Batch], streams: tuple[str, ...]) -> Batch:
    """The rows that were not late when they came: the slowest stream has the clock."""
    kept: Batch = {stream: [] for stream in streams}
    largest: dict[str, int] = {}
    clock = None
    for batch in batches:
        for stream, rows in batch.items():
            kept[stream] += [row for row in rows if clock is None or row["ts"] >= clock]
            times = [row["ts"] for row in rows] + [largest.get(stream, -1)]
            if max(times) >= 0:
                largest[stream] = max(times)
        if len(largest) == len(streams):
            clock = max(min(largest.values()) - SLACK, clock or 0)
    return kept


def oracle(query: JoinQuery, rows: Batch, at: int) -> list[Row]:
    """What the refresh at or before an instant shows."""
    refresh = (at - query.origin) // query.period * query.period + query.origin
    for number, (stream, duration) in enumerate(query.inputs):
        alive = [row for row in rows[stream] if refresh - duration < row["ts"] <= refresh]
        database().register(f"alive{number}", pa.Table.from_pylist(alive, schema=SCHEMA))
    return sorted(map(Row, database().sql(query.sql).fetchall()), key=str)


def fed(batch: Batch) -> dict[str, pa.Table]:
    return {stream: pa.Table.from_pylist(rows, schema=SCHEMA) for stream, rows in batch.items()}


def outcome(
    query: JoinQuery, batches: list[Batch], without: tuple[str, ...], buckets: int
) -> pa.Table | str:
    session = LocalSession()
    for statement in DECLARED.split(";"):
        session.execute(statement)
    run = session.query(query.cql, without=without, buckets=buckets)
    try:
        for batch in batches:
            run.feed(fed(batch))
        run.finish()
    except BadInput as error:
        return str(error)
    return run.lifetimes()


def instants(rows: Batch, rng: Random) -> list[int]:
    last = max((row["ts"] for some in rows.values() for row in some), default=-1)
    return sorted(rng.sample(range(last + 1), min(9, last + 1)))


@many
@given(seed=st.integers(0, 2**48))
def test_values_by_expiration_answer_as_the_joined_rows_of_each_refresh(seed: int) -> None:
    rng = Random(seed)
    query = random_join(rng)
    batches = random_batches(rng, query.streams)
    rows = admitted(batches, query.streams)
    values = outcome(query, batches, (), rng.randint(1, 3))
    plain = outcome(query, batches, ("join-panes",), 1)
    assert not isinstance(values, str), values
    assert not isinstance(plain, str)
    for at in instants(rows, rng):
        expected = oracle(query, rows, at)
        assert shown(plain, at) == expected, (query.cql, at)
        assert shown(values, at) == expected, (query.cql, at)


@pytest.mark.parametrize("lengths", [(8, 20), (20, 8), (12, 12)])
def test_results_of_members_at_any_two_times_live_as_long_as_both(lengths: tuple[int, int]) -> None:
    """One result a group, of rows at each two of some times, with many steps between the two."""
    times, blank = range(0, 26, 2), {"v": 1, "f": None}
    pairs = [(one, other) for one in times for other in times]
    rows: Batch = {
        stream: [{"ts": pair[side], "k": n, "g": f"{n}", **blank} for n, pair in enumerate(pairs)]
        for side, stream in enumerate(("a", "b"))
    }
    rows["b"].append({"ts": 60, "k": -1, "g": "end", **blank})
    rows["a"].append({"ts": 60, "k": -2, "g": "end", **blank})
    batches = [
        {name: [row for row in some if at <= row["ts"] < at + 5] for name, some in rows.items()}
        for at in range(0, 65, 5)
    ]
    query = JoinQuery((("a", lengths[0]), ("b", lengths[1])), ("l.g",), ("SUM(r.v)",), "", 4)
    table = outcome(query, batches, (), 1)
    assert not isinstance(table, str)
    for at in range(0, 56, 4):
        assert shown(table, at) == oracle(query, rows, at), at


@many
@given(seed=st.integers(0, 2**48))
def test_they_go_on_after_a_restart_and_answer_the_same(seed: int) -> None:
    """The tasks, states and commits of Spark, started anew before every batch."""
    rng = Random(seed)
    query = random_join(rng)
    batches = random_batches(rng, query.streams)
    rows, buckets = admitted(batches, query.streams), rng.randint(1, 3)
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches:
            runner_of(folder, CATALOG, {"q": query.cql}, buckets).feed(fed(batch), {})
        runner = runner_of(folder, CATALOG, {"q": query.cql}, buckets)
        runner.close_input()
        table = results_of(runner, "q")
    for at in instants(rows, rng):
        assert shown(table, at) == oracle(query, rows, at), (query.cql, at)


def test_a_result_leaves_when_nothing_comes() -> None:
    """A batch without rows at the instant at which a result leaves keeps it for the next step."""
    query = JoinQuery((("a", 1), ("b", 20)), (), ("COUNT(DISTINCT r.v)",), "", 4)
    rows: Batch = {"a": [_row(24, 1)], "b": [_row(20, 1)]}
    nothing: Batch = {"a": [], "b": []}
    batches = [rows]
    for at in range(25, 40):
        batches += [{"a": [_row(at, 2)], "b": [_row(at, 3)]}, nothing]
    with tempfile.TemporaryDirectory() as folder:
        for batch in batches:
            runner_of(folder, CATALOG, {"q": query.cql}, 1).feed(fed(batch), {})
        runner = runner_of(folder, CATALOG, {"q": query.cql}, 1)
        runner.close_input()
        table = results_of(runner, "q")
    admitted_rows = admitted(batches, query.streams)
    assert shown(table, 24) == [(1,)]
    for at in range(20, 40):
        assert shown(table, at) == oracle(query, admitted_rows, at), at


def _row(ts: int, k: int) -> dict[str, Any]:
    return {"ts": ts, "k": k, "g": None, "v": 5, "f": None}


class JoinPipeline(Pipeline):
    """Remembers who shares a join as a checkpoint of Spark's does."""

    joins: dict[str, tuple[str, ...]]

    def runner(self) -> HereRunner:
        return runner_of(
            self.folder, CATALOG, {name: query.cql for name, query in self.queries.items()},
            self.buckets, {name: entry[SINCE] for name, entry in self.entries.items()}, ("a", "b"),
            {name: entry.get(ENTRY) for name, entry in self.entries.items()},
            sharing=self.sharing, programs=self.programs(),
        )  # fmt: skip

    def programs(self) -> dict[str, Program]:
        texts = {name: query.cql for name, query in self.queries.items()}
        joins = {n: t for n, t in getattr(self, "joins", {}).items() if n in self.queries}
        newcomers = [name for name in texts if name not in joins]
        plain = {n: (t, program_of(t, CATALOG, sharing=self.sharing)) for n, t in texts.items()}
        chosen = choose_joins(plain, newcomers) if "SS3" in self.sharing else {}
        self.joins = joins | {name: chosen.get(name, ()) for name in newcomers}
        return {
            name: program_of(text, CATALOG, sharing=self.sharing, peers=self.joins[name])
            for name, text in texts.items()
        }

    def feed(self, batch: Any) -> None:
        self.runner().feed(fed(batch), {})

    def kept_in(self, kind: type) -> int:
        """How many operators of a kind there are."""
        return sum(isinstance(t.operator, kind) for t in self.runner().dataflow.stages.tasks)

    def check_joins(self, rows: Batch, rng: Random) -> None:
        """Some of the answers since each query says that they are whole."""
        runner = self.runner()
        runner.close_input()
        queries: dict[str, Any] = dict(self.queries)
        for name, query in queries.items():
            table = results_of(runner, name)
            since = max(self.entries[name].get(WHOLE_FROM) or 0, self.entries[name][SINCE] or 0)
            for at in instants(rows, rng):
                if at >= since:
                    assert shown(table, at) == oracle(query, rows, at), (name, query.cql, at)
        assert verify(runner.repository).ok


@many
@given(seed=st.integers(0, 2**48))
def test_queries_that_come_and_go_share_joins_and_answer_as_alone(seed: int) -> None:
    rng = Random(seed)
    sharing = frozenset(rule for rule in sorted(SHARING) if rng.random() < 0.85)
    batches = random_batches(rng, ("a", "b"))
    number = 0

    def some(count: int) -> dict[str, JoinQuery]:
        nonlocal number
        number += count
        lengths = [(rng.choice((1, 5, 12, 20)), rng.choice((1, 5, 12, 20))) for _ in range(count)]
        same = rng.random() < 0.6
        made = [
            random_join(rng, (("a", one), ("b", one if same else other))) for one, other in lengths
        ]
        return {f"q{number - count + n}": query for n, query in enumerate(made)}

    with tempfile.TemporaryDirectory() as folder:
        pipeline = JoinPipeline(folder, rng.randint(1, 3), sharing)
        pipeline.begin(some(rng.randint(1, 5)))  # type: ignore[arg-type]
        for batch in batches:
            if rng.random() < 0.2:
                pipeline.add(some(rng.randint(1, 2)))  # type: ignore[arg-type]
            if len(pipeline.queries) > 1 and rng.random() < 0.3:
                pipeline.drop(rng.choice(list(pipeline.queries)))
            pipeline.feed(batch)
        pipeline.check_joins(admitted(batches, ("a", "b")), rng)


def asked(lengths: tuple[int, int], where: str = "", call: str = "SUM(r.v)") -> JoinQuery:
    inputs = (("a", lengths[0]), ("b", lengths[1]))
    return JoinQuery(inputs, ("l.g",), (call,), where, 4)


@pytest.mark.parametrize(
    ("queries", "joins", "states"),
    [
        ((asked((20, 20)), asked((8, 8)), asked((12, 8))), 1, 1),
        ((asked((20, 20)), asked((8, 8), "l.v > 1")), 1, 2),
        ((asked((20, 20), "l.v > 1"), asked((8, 8), "l.v > 1", "MAX(l.v)")), 1, 1),
        # Together it would be every row of the longest window.
        ((asked((4, 4)), asked((20_000, 20_000), "l.v = 1")), 2, 2),
        ((asked((20, 20)), JoinQuery((("a", 8), ("a", 8)), ("l.g",), ("SUM(r.v)",), "", 4)), 2, 2),
    ],
)
def test_who_shares_a_join(queries: tuple[JoinQuery, ...], joins: int, states: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for sharing, expected in ((SHARING, joins), (SHARING - {"SS3"}, len(queries))):
            pipeline = JoinPipeline(f"{folder}/{expected}{len(sharing)}", 1, sharing)
            named: Any = {f"q{n}": query for n, query in enumerate(queries)}
            pipeline.begin(named)
            assert pipeline.kept_in(JoinRows) == expected
            if sharing is SHARING:
                assert pipeline.kept_in(JoinPaneStore) == states


def test_shared_joins_are_explained() -> None:
    queries = {"day": asked((20, 20)), "same": asked((20, 20), "", "MAX(l.v)"),
               "short": asked((8, 8)), "some": asked((8, 8), "l.v > 1")}  # fmt: skip
    plans = {name: bind_query(query.cql, CATALOG) for name, query in queries.items()}
    text = sharing_with_covers(plans, CATALOG).text()
    assert "join 1: a.k = b.k of a [RANGE 20 us], b [RANGE 20 us]" in text
    assert "joined once for 4 queries, whose results are 2 states of values" in text
    assert "keeps 40 us of rows in place of 112 us (36 %)" in text
    assert "in each group at most 9 values kept in place of 18 (50 %)" in text
    lines = [line.strip() for line in text.splitlines()[3:7]]
    assert [(line.split("  ")[1], line.partition(": ")[2]) for line in lines] == [
        ("first", "looks at 6 values, alone 6; keeps 6 more, alone 6"),
        ("SS3, CS4", "looks at 0 values, alone 6; keeps 0 more, alone 6"),
        ("SS3, CS5", "looks at 6 values, alone 3; keeps 0 more, alone 3"),
        ("SS3", "looks at 3 values, alone 3; keeps 3 more, alone 3"),
    ]
    sharing = sharing_with_covers(plans, CATALOG)
    (stored,) = json.loads(sharing.json())["joins"]
    assert [reader["rules"] for reader in stored["readers"]] == [
        "first", "SS3, CS4", "SS3, CS5", "SS3",
    ]  # fmt: skip
    assert [reader["keeps"] for reader in stored["readers"]] == [6, 0, 0, 3]
    drawn = sharing.mermaid().splitlines()
    assert 's_a[("a")] --> j0' in drawn[1]
    assert 's_b[("b")] --> j0' in drawn[2]
    assert (
        'j0["join 1: a.k = b.k of a [RANGE 20 us], b [RANGE 20 us]<br/>9 values a group"]'
        in (drawn[3])
    )
    assert 'j0 -- "SS3, CS4" --> q_same("same<br/>[RANGE 20 us SLIDE 4 us]")' in drawn[5]
    apart = sharing_with_covers(plans, CATALOG, without=["SS3"]).text()
    assert apart.count("joined once for 1 query") == 4
    session = LocalSession()
    for statement in DECLARED.split(";"):
        session.execute(statement)
    for call, words in (("SUM(r.v)", ""), ("VAR(l.v)", "moments by when they leave")):
        plan = str(session.explain(asked((20, 8), "", call).cql))
        assert "rows and no panes: " not in plan
        assert "generalized for windows that differ by up to 12 us" in plan
        assert words in plan


def test_moments_of_a_join_are_those_of_the_results_that_are_alive() -> None:
    """Many results of a group that leave in another order than they came, some at one instant."""
    rng = Random(7)
    batches = [
        {
            stream: [
                {**_row(12 * number + n, n % 2), "v": n, "f": rng.choice((1e6, -3.7, None))}
                for n in range(12)
            ]
            for stream in ("a", "b")
        }
        for number in range(6)
    ]
    for lengths in ((20, 20), (20, 6), (5, 30)):
        inputs = (("a", lengths[0]), ("b", lengths[1]))
        for keys in ((), ("l.g",)):
            query = JoinQuery(inputs, keys, ("VAR_POP(r.f)", "STDDEV_POP(l.v)"), "", 4, 1)
            table, rows = outcome(query, batches, (), 2), admitted(batches, ("a", "b"))
            for at in range(72):
                assert shown(table, at) == oracle(query, rows, at), (query.cql, at)


@pytest.mark.parametrize(
    "lengths", [((20, 20),), ((20, 20), (8, 8)), ((12, 8),), ((20, 12), (8, 20)), ((40, 7),)]
)
def test_no_more_values_stay_than_explain_tells(
    lengths: tuple[tuple[int, int], ...],
) -> None:
    """Of results for all pairs of instants, those that some window still needs."""
    slide, clock = Slide(period=4), 200
    pairs = [
        JoinWindows(Range(duration=one, slide=slide), Range(duration=other, slide=slide))
        for one, other in lengths
    ]
    families = [edges(pair.both[side] for pair in pairs) for side in (0, 1)]
    times = np.meshgrid(np.arange(clock), np.arange(clock))
    first, second = (next_edges(ts.ravel(), of) for ts, of in zip(times, families, strict=True))
    lives = [pair.lives((first, second)) for pair in pairs]
    needed = np.logical_or.reduce([(start < end) & (end >= clock) for start, end in lives])
    lead, other_lead = leads(pairs)
    older = np.minimum(first, second + other_lead), np.minimum(second, first + lead)
    stay = len(set(zip(*(part[needed].tolist() for part in older), strict=True)))
    assert stay <= values_kept(pairs)
    if all(one == other for one, other in lengths):
        assert stay == values_kept(pairs)


def test_a_checkpoint_with_joined_rows_goes_on_with_these_and_with_nothing_else() -> None:
    """Spark finds the rules that it was begun with (``LATER_RULES``)."""
    rng = Random(7)
    query, batches = asked((12, 12)), random_batches(rng, ("a", "b"))
    before = SHARING - {"join-panes"}
    assert ("join-panes",) in LATER_RULES
    with tempfile.TemporaryDirectory() as folder:
        runner_of(folder, CATALOG, {"q": query.cql}, 2, sharing=before).feed(fed(batches[0]), {})
        changed = runner_of(folder, CATALOG, {"q": query.cql}, 2)
        with pytest.raises(UnsupportedFormat, match="states that no operator"):
            RegisteredQueries(changed.repository, 2, {}).check_claimed(changed.dataflow.stages)
        for batch in batches[1:]:
            runner_of(folder, CATALOG, {"q": query.cql}, 2, sharing=before).feed(fed(batch), {})
        runner = runner_of(folder, CATALOG, {"q": query.cql}, 2, sharing=before)
        runner.close_input()
        table = results_of(runner, "q")
    rows = admitted(batches, ("a", "b"))
    for at in instants(rows, rng):
        assert shown(table, at) == oracle(query, rows, at)


def test_expired_values_are_erased_where_bytes_must_go() -> None:
    rows = pa.table({TS: [1, 5], EXP: [8, 12], "v": [1, 2]})
    state = PaneState((RowRun.of(rows),))
    (left,) = without_expired(state, 9).panes
    assert left.load().column("v").to_pylist() == [2]
    assert without_expired(state, 13).panes == ()
