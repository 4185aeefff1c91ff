"""Texts as users of Flink, RisingWave, Materialize, Feldera, Esper and Spark write them.

Each runs as it is, or is refused by name with what to write instead. They are from the documents of
these systems as we know them, most of them without windows; that their answers are right is shown
form by form in tests/property.
"""

from __future__ import annotations

import pytest

from mayfly import LocalSession
from mayfly.errors import MayflyError
from tests.golden.cql.cases import HERE, UPDATING, Case, cases, rewrite

RUNS = "runs"
DECLARED = (HERE / "foreign" / "catalog.cql").read_text(encoding="utf-8")
CASES = cases("foreign")
LEAST = 103
"""So many of the texts run."""
VAGUE = ("docs/language.md", "the order is SELECT")
"""Hints that do not say what to write."""


def answer(text: str) -> str:
    session = LocalSession()
    session.execute(DECLARED)
    try:
        session.query(text)
    except MayflyError as error:
        return f"{error.message.splitlines()[0]}\n→ {error.hint}"
    return RUNS


if UPDATING:
    for file in {case.file for case in CASES}:
        rewrite(file, answer)
    CASES = cases("foreign")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_runs_or_is_refused_with_a_remedy(case: Case) -> None:
    assert answer(case.text) == case.answer


def test_most_run_and_refusals_say_what_to_write() -> None:
    assert sum(case.answer == RUNS for case in CASES) >= LEAST
    vague = [case.text for case in CASES if any(hint in case.answer for hint in VAGUE)]
    assert not vague
