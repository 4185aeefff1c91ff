"""Random joins of three or four windows on a common key, with their SQL."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

from mayfly.cql import bind_query
from mayfly.kernels.evaluation import Algorithm, Evaluation
from mayfly.kernels.multiway import MultiwayJoin
from mayfly.optimizer.optimize import optimize
from mayfly.physical import compiler, whole_joins
from mayfly.physical.whole_joins import CheapestOrder
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Joining, Strategy
from mayfly.plan.window_kinds import Now, PartitionRows, Range, RowsWindow, Slide, Unbounded, Window
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.random_queries import SECOND, STREAMS, GeneratedQuery, WindowTable
from tests.property.continuous_cases import Case, Row, catalog
from tests.property.continuous_cases import _cut as batches_of

KEYS = {"number": {"s1": "v", "s2": "v", "s3": "w"}, "wide": {"s1": "k", "s2": "k", "s3": "k"}}
KEYS["text"] = {"s1": "g", "s2": "g", "s3": "h"}


def random_join(rng: Random) -> GeneratedQuery:
    """Every input equated with an earlier one, in a chain or a star, and more conditions."""
    slide = Slide(period=5 * SECOND) if rng.random() < 0.3 else None
    streams = [rng.choice(("s1", "s2", "s3")) for _ in range(rng.choice((3, 3, 4)))]
    tables = tuple(
        WindowTable(f"t{number}", stream, _window(rng, KEYS["text"][stream], slide))
        for number, stream in enumerate(streams)
    )
    kind = rng.choice(("number", "number", "text", "wide"))
    keys = [f"{table.name}.{KEYS[kind][table.stream]}" for table in tables]
    where = [f"{keys[number]} = {keys[rng.randrange(number)]}" for number in range(1, len(keys))]
    where += [one for one in _conditions(rng, tables) if rng.random() < 0.25]
    rng.shuffle(where)
    outputs = [f"{t.name}.{KEYS['number'][t.stream]} AS c{n}" for n, t in enumerate(tables)]
    listed = f"SELECT {', '.join(outputs)}, {keys[0]} AS common"
    sources = ", ".join(f"{table.stream} {table.window.cql()} {table.name}" for table in tables)
    names, condition = ", ".join(table.name for table in tables), " AND ".join(where)
    return GeneratedQuery(
        f"{listed} FROM {sources} WHERE {condition}",
        f"{listed} FROM {names} WHERE {condition}",
        tables,
        "multiway",
    )


def _conditions(rng: Random, tables: Sequence[WindowTable]) -> list[str]:
    """An order, a band, another equality, and one over three inputs."""
    numbers = [f"{table.name}.{KEYS['number'][table.stream]}" for table in tables]
    texts = [f"{table.name}.{KEYS['text'][table.stream]}" for table in tables]
    (a, b, c), (d, e, _) = rng.sample(numbers, 3), rng.sample(texts, 3)
    return [f"{a} < {b}", f"{a} <= {c} + 1 AND {a} >= {c} - 1", f"{d} = {e}", f"{a} + {b} <> {c}"]


def _window(rng: Random, partition: str, slide: Slide | None) -> Window:
    seconds = rng.choice((1, 5, 10, 10, 60)) * SECOND
    forms: list[Window] = [
        *[Range(duration=seconds, slide=slide)] * 6,
        *[RowsWindow(count=rng.randint(1, 6), slide=slide)] * 2,
        PartitionRows(partition_by=(partition,), count=rng.randint(1, 3), slide=slide),
        PartitionRows(partition_by=(partition,), count=2, duration=seconds, slide=slide),
        Unbounded(slide=slide),
        Now(slide=slide),
    ]
    return rng.choice(forms)


def random_join_case(seed: int) -> Case:
    """Few values and few silences, so that most joins have results."""
    rng = Random(seed)
    query = random_join(rng)
    slack = rng.choice((0, 0, 3 * SECOND))
    names = sorted({table.stream for table in query.tables})
    rows = {name: _rows(rng, name, rng.randint(0, 9)) for name in names}
    if rng.random() < 0.2:
        _burst(rng, rows)
    batches = batches_of(rng, rows, slack)
    beats: list[dict[str, int]] = [{} for _ in batches]
    if rng.random() < 0.3:
        batches, beats = [*batches, {}], [*beats, dict.fromkeys(names, 200 * SECOND)]
    return Case(seed, query, slack, batches, beats)


def _burst(rng: Random, rows: dict[str, list[Row]]) -> None:
    """Many rows of one stream at one instant, where it has some."""
    name = rng.choice(sorted(rows))
    if mine := rows[name]:
        at = rng.randrange(len(mine))
        rows[name] = [*mine[:at], *(dict(mine[at]) for _ in range(12)), *mine[at + 1 :]]
        for seq, row in enumerate(rows[name]):
            row["seq"] = seq


def _rows(rng: Random, stream: str, count: int) -> list[Row]:
    at, rows = rng.randint(0, 2) * SECOND, []
    values: dict[str, tuple[Any, ...]] = {
        "number": (0, 1, 1, 2, None),
        "text": ("a", "a", "b", None),
        "real": (0.5, None),
    }
    for seq in range(count):
        at += rng.choice((0, 0, 1, 2, 5)) * SECOND + rng.choice((0, 0, 0, 3))
        columns = {name: rng.choice(values[kind]) for name, kind in STREAMS[stream].items()}
        rows.append({"ts": at, "seq": seq, **columns})
    return rows


def random_evaluation(rng: Random, cuts: bool) -> Evaluation:
    allowed = [one for one in Algorithm if not cuts or one is not Algorithm.LAZY_EXPIRATION]
    algorithm, every = rng.choice(allowed), rng.choice((None, SECOND, 7 * SECOND))
    if algorithm is Algorithm.AT_ONCE:
        return Evaluation()
    return Evaluation(algorithm, rng.choice((None, 1, 2, 5)), every)


def started(
    case: Case,
    joins: Joining | Evaluation,
    strategy: Strategy = Strategy.UPA,
    buckets: int = 1,
    ordering: Any = None,
) -> ContinuousRun:
    known = catalog(case.slack)
    joining = joins if isinstance(joins, Joining) else Joining.MULTIWAY
    bound = bind_query(case.query.cql, known)
    plan = optimize(bound, strategy=strategy, joining=joining).plan
    assert isinstance(plan, Output)
    with patch.object(whole_joins, "CheapestOrder", ordering or CheapestOrder):
        program = compiler.compile_plan(plan, known, strategy, joins=joins)
    return ContinuousRun(program, known, bucket_count=buckets)


def joins_of(run: ContinuousRun) -> list[Any]:
    """The states of the joins that are run whole."""
    return [
        state
        for task, states in run.states.items()
        if isinstance(task.operator, MultiwayJoin)
        for state in states
    ]


def any_order(rng: Random) -> Any:
    """In place of the cheapest order: another one at every step."""

    def choose(measured: Sequence[Any]) -> tuple[int, ...]:
        return tuple(rng.sample(range(len(measured)), len(measured)))

    return lambda _: choose
