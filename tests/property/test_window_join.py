"""Window joins in-process against the definition: DuckDB over the rows alive at each instant."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mayfly.lifetime import MIN_TIME
from mayfly.pipeline import InProcessRun
from mayfly.testing import JoinCase
from mayfly.testing.strategies import join_cases
from tests.property.join_runs import Chain, assert_matches_oracle, colliding_codes, examples, run
from tests.property.predicates import Written, predicates

CASES = join_cases(most_keys=2, mixed_widths=True, late=True)
CHAINS_OF_THREE = join_cases(
    ("a", "b", "c"), types=("int64", "string", "double"), late=True, max_rows=14
)
SECOND_KEYS: Sequence[Sequence[str | tuple[str, str]]] = (
    ["key"],
    [("b.value", "c.value")],
    [("c.key", "b.key")],
    [("a.value", "c.value"), ("b.key", "c.key")],
    [("a.seq", "c.value"), ("b.seq", "c.seq")],
)


@examples(3)
@given(CASES)
def test_two_streams(case: JoinCase) -> None:
    chain = Chain((case.keys,))
    clock, told = MIN_TIME, 0

    def only_instants_just_closed(running: InProcessRun) -> None:
        nonlocal clock, told
        began, clock = clock, running.clocks.query
        changes = running.changes()["ts"].to_pylist()
        assert all(began <= ts < clock for ts in changes[told:])
        told = len(changes)

    assert_matches_oracle(run(case, chain, after_each=only_instants_just_closed), case, chain)


@examples(2)
@given(CHAINS_OF_THREE, st.sampled_from(SECOND_KEYS), st.booleans())
def test_three_streams(
    case: JoinCase, second: Sequence[str | tuple[str, str]], few_columns: bool
) -> None:
    select = {"x": "c.seq", "y": "a.value"} if few_columns else None
    chain = Chain((case.keys, second), select=select)
    assert_matches_oracle(run(case, chain), case, chain)


@given(join_cases(types=("string", "double", "binary", "decimal"), most_keys=2, max_rows=15))
def test_keys_that_share_a_code(case: JoinCase) -> None:
    chain = Chain((case.keys,))
    assert_matches_oracle(run(case, chain, codes=colliding_codes), case, chain)


@st.composite
def filtered_cases(draw: st.DrawFn, names: Sequence[str]) -> tuple[JoinCase, Written]:
    """A case and a predicate over all of its streams."""
    case = draw(join_cases(names, types=("int32", "float", "double", "int8"), max_rows=12))
    schemas = {name: rows.schema for name, rows in case.batches[0].items()}
    return case, draw(predicates(schemas))


@examples(2)
@given(filtered_cases(("l", "r")))
def test_residual_predicates(drawn: tuple[JoinCase, Written]) -> None:
    case, where = drawn
    chain = Chain((case.keys,), where.tree, where.sql)
    assert_matches_oracle(run(case, chain), case, chain)


@given(filtered_cases(("a", "b", "c")))
def test_a_residual_predicate_over_three_streams(drawn: tuple[JoinCase, Written]) -> None:
    case, where = drawn
    chain = Chain((case.keys, [("b.value", "c.value")]), where.tree, where.sql, {"s": "b.seq"})
    assert_matches_oracle(run(case, chain), case, chain)
