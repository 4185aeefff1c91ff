"""FREQUENT goes on from its stored summaries: restarts and deaths in the middle of a window."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.kernels.resident import RESIDENTS
from mayfly.runtime.in_process import ContinuousRun
from mayfly.spark.stream import batch_record, runner
from tests.property.continuous_cases import SECOND, _rows, catalog, table_of, told
from tests.property.shared_runs import program_of, results_of, runner_of

QUERIES = {
    "time": "SELECT g, FREQUENT(k, 2) AS f FROM s1 [RANGE 9 s SLIDE 3 s] GROUP BY g",
    "odd time": "SELECT FREQUENT(k, 2) AS f, COUNT(*) AS n FROM s1 [RANGE 8 s SLIDE 3 s]",
    "rows": "SELECT FREQUENT(k, 1, 0.3) AS f FROM s1 [ROWS 12 SLIDE 4 ROWS]",
    "odd rows": "SELECT FREQUENT(k, 1, 'NO FALSE NEGATIVES') AS f FROM s1 [ROWS 11 SLIDE 4 ROWS]",
    "sketch": "SELECT g, APPROX_FREQUENT(v, 2) AS f FROM s1 [RANGE 9 s SLIDE 3 s] GROUP BY g",
}  # fmt: skip
PLACES = ("batch.clock-recorded", "batch.receipts", "batch.committed")


class Killed(Exception):
    """Stands for the death of the driver."""


@pytest.mark.halved
@pytest.mark.parametrize("name", QUERIES)
def test_answers_after_restarts_are_those_of_one_run(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every batch ends in a restart without memory, or in a death at one place after the other."""
    known, cql, deadly = catalog(0), QUERIES[name], list[str]()

    def reach(place: str) -> None:
        if place in deadly:
            deadly.clear()
            raise Killed(place)

    for module in (runner, batch_record):
        monkeypatch.setattr(module, "reach", reach)
    rows, run = _rows(Random(7), "s1", 40), ContinuousRun(program_of(cql, known), known)
    for number, at in enumerate(range(0, 48, 6)):
        beats = {"s1": 10_000 * SECOND} if at >= 42 else {}
        batch = {"s1": table_of("s1", rows[at : at + 6])}
        run.feed(batch, beats)
        RESIDENTS.clear()
        here = runner_of(tmp_path, known, {"q": cql}, 3)
        deadly += PLACES[number % 4 : number % 4 + 1]
        if deadly:
            with pytest.raises(Killed):
                here.feed(batch, beats)
            here = runner_of(tmp_path, known, {"q": cql}, 3)
        if here.repository.current().properties["batch"] < number:
            here.feed(batch, beats)
    answers = told(results_of(runner_of(tmp_path, known, {"q": cql}, 3), "q"), True)
    assert len(answers) > 8
    assert answers == told(run.lifetimes(), True)
