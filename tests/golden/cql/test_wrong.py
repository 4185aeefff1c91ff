"""Wrong texts and the messages they get: each points at its place and says what is allowed."""

from __future__ import annotations

import pytest

from mayfly.cql import CqlError, parse
from tests.golden.cql.cases import UPDATING, Case, cases, catalog, rewrite

CATALOG = catalog()
CASES = cases("wrong")


def message(text: str) -> str:
    try:
        parse(text, CATALOG, name="q.cql")
    except CqlError as error:
        return str(error)
    return "accepted"


if UPDATING:
    for file in {case.file for case in CASES}:
        rewrite(file, message)
    CASES = cases("wrong")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_message_is(case: Case) -> None:
    assert message(case.text) == case.answer


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_points_at_a_place_and_says_what_to_do(case: Case) -> None:
    with pytest.raises(CqlError) as caught:
        parse(case.text, CATALOG)
    error = caught.value
    assert error.hint
    assert error.position is not None
    lines = case.text.split("\n")
    assert 1 <= error.position.line <= len(lines)
    assert 1 <= error.position.column <= len(lines[error.position.line - 1]) + 1
    _, shown, carets = error.message.split("\n")[-3:]
    assert shown.startswith(f"  {error.position.line} | ")
    assert set(carets.split("|")[1].strip()) == {"^"}


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= 60
    assert len({case.text for case in CASES}) == len(CASES)
