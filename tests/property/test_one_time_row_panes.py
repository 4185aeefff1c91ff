"""One-time queries over the latest rows that panes of rows answer, against an independent engine.

DuckDB answers over the rows by their order; each answer says with which row its window ends. What
panes cannot answer must be refused, and some must be answered.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mayfly
from mayfly.cql import CqlError
from mayfly.optimizer.rules.share_panes import SHARING
from tests.property import test_one_time_panes, test_pane_sharing
from tests.property.test_one_time_panes import describe
from tests.property.test_panes import SLACK, Query, Row, admitted, database, many, random_batches
from tests.property.test_row_panes import (
    CATALOG,
    Batch,
    RowPipeline,
    RowQuery,
    numbered,
    random_rows_query,
    rows_at,
    table_of,
)

ENDS = re.compile(r"it ends at row ([\d,]+)")
TOTAL = Counter[str]()


@pytest.fixture(autouse=True)
def with_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_pane_sharing, "CATALOG", CATALOG)
    monkeypatch.setattr(test_one_time_panes, "CATALOG", CATALOG)


def asked(rng: Random, near: Query) -> tuple[str, Query]:
    """A one-time query near one that runs; its period is 1 if its window does not move by rows."""
    own = near.duration if rng.random() < 0.5 else rng.choice((1, 2, 5, 7, 10, 12, 20, 40))
    query = replace(near, duration=own)
    period = rng.choice((1, 1, near.period, 2 * near.period))
    query = replace(query, period=period)
    if query.keys and rng.random() < 0.3:
        query = replace(query, keys=query.keys[:-1])
    slide = f" SLIDE {period} ROWS" if period > 1 else ""
    return query.cql.replace(f" SLIDE {period} ROWS", slide), query


def check(pipeline: RowPipeline, rows: Batch, rng: Random, seen: Counter[str]) -> None:
    describe(pipeline)
    reader = mayfly.open(pipeline.folder)
    for _ in range(8):
        sql, query = asked(rng, rng.choice(list(pipeline.queries.values())))
        try:
            answer = reader.query(sql)
        except CqlError as error:
            seen["refused" if "not kept" in error.message else error.message] += 1
            continue
        came = sorted(
            (r for r in rows if r["ts"] <= answer.as_of), key=lambda r: (r["ts"], r["seq"])
        )
        last = len(came) // query.period * query.period
        if any("have all rows since" in words for words in answer.partial):
            seen["partial"] += 1  # a number that only a shorter window uses
            continue
        if answer.partial:
            ends = ENDS.search(" ".join(answer.partial))
            assert ends, answer.partial
            last = int(ends[1].replace(",", ""))
            assert last < len(came)
        seen["partial" if answer.partial else "answered"] += 1
        database().register("alive", table_of(came[max(0, last - query.duration) : last]))
        expected = map(query.answered, database().sql(query.sql).fetchall())
        shown = sorted((tuple(row.values()) for row in answer.rows.to_pylist()), key=str)
        assert shown == sorted((Row(row) for row in expected), key=str), (sql, last, len(came))


@many
@given(seed=st.integers(0, 2**48))
def test_answers_are_those_of_the_latest_rows(seed: int) -> None:
    rng = Random(seed)
    model = random_rows_query(rng)
    model = replace(model, period=max(2, model.period))
    made = [replace(random_rows_query(rng), keys=model.keys, where=model.where) for _ in range(2)]
    batches = numbered(rng, random_batches(rng, rng.randint(3, 7), (3, 8, 20)))
    with tempfile.TemporaryDirectory() as folder:
        pipeline = RowPipeline(folder, rng.randint(1, 3), SHARING)
        pipeline.begin({"first": model, **{f"q{n}": query for n, query in enumerate(made)}})
        for done, batch in enumerate(batches, start=1):
            pipeline.feed(batch)
            if done > 1 and rng.random() < 0.5:
                check(pipeline, admitted(batches[:done]), rng, TOTAL)
        check(pipeline, admitted(batches), rng, TOTAL)


def test_some_were_answered_and_some_refused() -> None:
    if not TOTAL:
        test_answers_are_those_of_the_latest_rows()
    assert set(TOTAL) <= {"answered", "partial", "refused"}, TOTAL
    assert TOTAL["answered"] > TOTAL.total() // 20, TOTAL
    assert TOTAL["partial"], TOTAL


def test_the_answer_says_what_it_read_and_with_which_row_it_ends() -> None:
    wide = RowQuery(("g",), ("COUNT(*)", "SUM(k)"), "", 60, 10, 0)
    with tempfile.TemporaryDirectory() as folder:
        pipeline = RowPipeline(folder, 2, SHARING)
        pipeline.begin({"wide": wide})
        pipeline.feed(rows_at(*range(1, 109 + SLACK)))
        describe(pipeline)
        reader = mayfly.open(folder)
        text = "SELECT SUM(k) AS s FROM s [ROWS {}]"
        exact = reader.query(text.format(47))
        assert (exact.rows.to_pylist(), exact.partial) == ([{"s": 47}], ())
        answer = reader.query(text.format(50))
        assert answer.rows.to_pylist() == [{"s": 50}]
        assert answer.partial == (
            "the 7 latest rows of s are not in it: no pane begins 50 rows before, so it ends at "
            "row 100",
        )
        moved = reader.query("SELECT g, COUNT(*) AS c FROM s [ROWS 20 SLIDE 10 ROWS] GROUP BY g")
        assert (moved.rows.to_pylist(), moved.partial) == ([{"g": "a", "c": 20}], ())
        words = "panes of rows that wide keeps ([ROWS 60 SLIDE 10 ROWS])"
        assert words in str(reader.explain(text.format(50)))
        for refused in ("[ROWS 70]", "[ROWS 25 SLIDE 10 ROWS]"):
            with pytest.raises(CqlError, match="there are panes of rows of wide"):
                reader.query(f"SELECT SUM(k) AS s FROM s {refused}")
        with pytest.raises(mayfly.MayflyError, match="which rows of s were the latest"):
            reader.query(text.format(50), as_of=answer.as_of - 1)
