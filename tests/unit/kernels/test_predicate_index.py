"""An index over selections finds what each selection alone would."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.cql import bind_query, catalog_after, parse
from mayfly.kernels.predicate_index import PredicateIndex
from mayfly.kernels.stateless import satisfying
from mayfly.plan.logical_operators import Select

CATALOG = catalog_after(
    parse("CREATE STREAM s (ts BIGINT, k INT, v BIGINT, x DOUBLE, g STRING) TIMESTAMP BY ts;")
)


def predicate(text: str) -> object:
    plan = bind_query(f"SELECT k FROM s [RANGE 1 s] WHERE {text}", CATALOG)
    return next(node.predicate for node in plan.walk() if isinstance(node, Select))


def rows(rng: Random, count: int) -> pa.Table:
    numbers = (-2, -1, 0, 1, 2, 3, None)
    reals = (-1.5, -0.0, 0.0, 1.0, 2.5, float("nan"), float("inf"), None)
    return pa.table(
        {
            "s.k": pa.array([rng.choice(numbers) for _ in range(count)], pa.int32()),
            "s.v": pa.array([rng.choice(numbers) for _ in range(count)], pa.int64()),
            "s.x": pa.array([rng.choice(reals) for _ in range(count)], pa.float64()),
            "s.g": pa.array([rng.choice(("a", "b", "", None)) for _ in range(count)]),
        }
    )


def condition(rng: Random) -> str:
    column, values = rng.choice((("k", "-1 0 2 9"), ("v", "-3 1 2"), ("x", "0.0 1.0 -1.5e0")))
    op = rng.choice(("=", "<", "<=", ">", ">=", "<>"))
    value = rng.choice(values.split())
    return rng.choice((
        f"{column} {op} {value}", f"{value} {op} {column}", f"g = '{rng.choice('abz')}'",
        "g > 'a'", "k = v", f"NOT (k {op} 1)", "x IS NULL",
    ))  # fmt: skip


@given(st.integers(0, 2**48))
def test_every_row_is_among_the_candidates(seed: int) -> None:
    rng = Random(seed)
    texts = [" AND ".join(condition(rng) for _ in range(rng.randint(1, 3))) for _ in range(6)]
    predicates = [predicate(text) for text in texts]
    table = rows(rng, rng.randint(0, 30))
    index = PredicateIndex.of(predicates)  # type: ignore[arg-type]
    found = index.candidates(lambda name: table.column(f"s.{name}"), table.num_rows)
    for text, one, positions in zip(texts, predicates, found, strict=True):
        wanted = np.flatnonzero(satisfying(one, table)).tolist()  # type: ignore[arg-type]
        if positions is None:
            continue
        assert positions.tolist() == sorted(set(positions.tolist()))
        near = table.take(pa.array(positions))
        kept = positions[satisfying(one, near)]  # type: ignore[arg-type]
        assert kept.tolist() == wanted, text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("v = 50", 1),
        ("v > 89", 10),
        ("v >= 20 AND v < 30 AND x > 0", 10),
        ("v > 5 AND g = 'n7'", 10),
        ("7 > v", 7),
        ("g = 'nowhere'", 0),
        ("v <> 3", None),
        ("v > 3", None),
    ],
)
def test_few_rows_are_looked_at(text: str, size: int | None) -> None:
    table = pa.table(
        {
            "v": np.arange(100)[::-1].copy(),
            "x": np.ones(100),
            "g": [f"n{number % 10}" for number in range(100)],
        }
    )
    (found,) = PredicateIndex.of([predicate(text)]).candidates(table.column, 100)  # type: ignore[list-item]
    assert (None if found is None else len(found)) == size
