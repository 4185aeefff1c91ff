"""Window joins in-process against the definition: DuckDB over the rows alive at each instant."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from mayfly.lifetime import MIN_TIME
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing import JoinCase, cut_at, together
from mayfly.testing.strategies import join_cases
from tests.property.busy_streams import busy_cases
from tests.property.join_runs import Chain, assert_matches_oracle, colliding_codes, examples, run
from tests.property.kept_cases import to_text
from tests.property.predicates import Written, fractions, predicates, whole_numbers

CASES = join_cases(most_keys=2, mixed_widths=True, late=True)
CHAINS_OF_THREE = busy_cases() | join_cases(
    ("a", "b", "c"), types=("int64", "string", "double"), late=True, max_rows=14
).map(lambda case: replace(case, buckets=min(case.buckets, 3)))
SECOND_KEYS: Sequence[Sequence[str | tuple[str, str]]] = (
    ["key"],
    [("b.value", "c.value")],
    [("c.key", "b.key")],
    [("a.value", "c.value"), ("b.key", "c.key")],
    [("a.ts", "c.ts"), ("b.value", "c.value")],
)


def check(case: JoinCase, chain: Chain, **options: Any) -> None:
    """Compare with the oracle; if they differ, print the case in the form in which it is kept."""
    try:
        assert_matches_oracle(run(case, chain, **options), case, chain)
    except Exception:
        note(to_text(case, chain))
        raise


@examples(2)
@given(CASES)
def test_two_streams(case: JoinCase) -> None:
    chain = Chain((case.keys,))
    clock, told = MIN_TIME, 0

    def only_instants_just_closed(running: ContinuousRun) -> None:
        nonlocal clock, told
        began, clock = clock, running.clocks.query
        changes = running.lifetimes()["ts"].to_pylist()
        assert all(began <= ts < clock for ts in changes[told:])
        told = len(changes)

    check(case, chain, after_each=only_instants_just_closed)


@examples(2)
@given(CHAINS_OF_THREE, st.sampled_from(SECOND_KEYS), st.booleans())
def test_three_streams(
    case: JoinCase, second: Sequence[str | tuple[str, str]], few_columns: bool
) -> None:
    select = {"x": "c.ts", "y": "a.value"} if few_columns else None
    chain = Chain((case.keys, second), select=select)
    check(case, chain)


@given(join_cases(types=("string", "double", "binary", "decimal"), most_keys=2, max_rows=15))
def test_keys_that_share_a_code(case: JoinCase) -> None:
    chain = Chain((case.keys,))
    check(case, chain, codes=colliding_codes)


Numbers = Callable[[dict[str, pa.Schema]], st.SearchStrategy[Written]]
RATIOS = (0.0, math.nan, math.inf, None, -0.0, 1.5, -math.inf)


def with_more_columns(rows: pa.Table) -> pa.Table:
    """Numbers of other types, NULLs and special values among them, for predicates to read."""
    mixed = [
        (ts, 3 * value + ts)
        for ts, value in zip(*(rows[n].to_pylist() for n in ("ts", "value")), strict=True)
    ]
    ratios = [RATIOS[at % len(RATIOS)] for _, at in mixed]
    small = [None if at % 5 == 0 else ts % 4 - 1 for ts, at in mixed]
    rows = rows.append_column("ratio", pa.array(ratios, pa.float64()))
    rows = rows.append_column("half", pa.array(ratios[::-1], pa.float32()))
    return rows.append_column("small", pa.array(small, pa.int16()))


@st.composite
def filtered_cases(
    draw: st.DrawFn, names: Sequence[str], numbers: Numbers
) -> tuple[JoinCase, Written]:
    """A case with many matches in few batches, and a predicate over all of its streams."""
    case = draw(busy_cases(names))
    joined = {
        name: with_more_columns(pa.concat_tables(batch[name] for batch in case.batches))
        for name in names
    }
    batches = together({name: cut_at(rows, [rows.num_rows // 2]) for name, rows in joined.items()})
    schemas = {name: rows.schema for name, rows in joined.items()}
    return replace(case, batches=batches), draw(predicates(numbers(schemas)))


def check_filtered(case: JoinCase, where: Written) -> None:
    check(case, Chain((case.keys,), where.tree, where.sql))


@examples(2)
@given(filtered_cases(("l", "r"), whole_numbers))
def test_residual_predicates_over_whole_numbers(drawn: tuple[JoinCase, Written]) -> None:
    check_filtered(*drawn)


@examples(2)
@given(filtered_cases(("l", "r"), fractions))
def test_residual_predicates_over_fractions(drawn: tuple[JoinCase, Written]) -> None:
    check_filtered(*drawn)


@given(filtered_cases(("a", "b", "c"), whole_numbers))
def test_a_residual_predicate_over_three_streams(drawn: tuple[JoinCase, Written]) -> None:
    case, where = drawn
    chain = Chain((case.keys, [("b.value", "c.value")]), where.tree, where.sql, {"s": "b.ts"})
    check(case, chain)
