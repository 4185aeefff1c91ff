"""The forms of the survey: right at every instant, by DuckDB over the rows alive."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from mayfly.testing.instant_oracle import TwoTexts
from mayfly.testing.resample_forms import resampled
from mayfly.testing.survey_aggregates import survey_aggregates
from mayfly.testing.survey_forms import band, derived, marks, partners, top, unnested
from mayfly.testing.users_forms import users_aggregates
from tests.property.survey_streams import check_forms

FORMS: dict[str, Callable[[Random, str], TwoTexts]] = {
    "aggregates": survey_aggregates,
    "unnest": unnested,
    "derived": derived,
    "band": band,
    "top": top,
    "partners": partners,
    "marks": marks,
    "users": users_aggregates,
    "resample": resampled,
}
STREAMS, QUERIES = 20, 5
"""So many streams, with so many queries each, in every run of the tests."""
COSTLY = {"marks": 1, "resample": 3}
"""Fewer of what has the largest plans and oracles."""


@pytest.mark.parametrize("form", FORMS)
def test_the_answer_is_that_of_the_rows_alive(form: str) -> None:
    for seed in range(STREAMS):
        check_forms(Random(seed), FORMS[form], COSTLY.get(form, QUERIES))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_so_it_is_in_many_cases(form: str) -> None:
    for seed in range(10_000, 10_000 + 30 * STREAMS):
        check_forms(Random(seed), FORMS[form], QUERIES)
