"""Queries that differ by constants: the plan of a shape is that of every text of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mayfly
from mayfly.cql import CqlError
from mayfly.runtime.prepared_query import PreparedQuery
from mayfly.runtime.query_shapes import KEPT, PreparedQueries, ShapedText
from mayfly.serving.pipeline_reader import PipelineReader
from tests.unit.serving.stored_pipelines import fed

CONSTANTS = [
    ("5", "ann"), ("0", ""), ("7", "bob"), ("987000000", "eve"), ("987000001", "stand-in 000000"),
    ("12", "k = 5"), ("999999999", "O'Neill".replace("'", "''")), ("1234567890", "ann"),
    ("007", "x\\n"), ("5", "ä"), ("4.0", "p1"), ("5L", "p1"), ("-5", "p2"), ("3e0", "--"),
]  # fmt: skip
"""A number and a text, as they are written."""
BY_SHAPE = [
    "SELECT user, clicks FROM totals WHERE user = '{text}'",
    "SELECT user, clicks + 1 AS n FROM totals WHERE clicks = {number} AND user='{text}'",
    "SELECT * FROM recent r WHERE r.n = {number} AND r.page = '{text}' AND r.user > 'a' LIMIT 3",
    "SELECT user FROM (SELECT * FROM recent WHERE page = '{text}') t WHERE t.n = {number}",
    "SELECT user FROM totals WHERE clicks = {number} AND clicks = {number}",
]
ONE_BY_ONE = [
    "SELECT user, 1 = 1 AS yes FROM totals WHERE clicks = {number} ORDER BY user",
    "SELECT h FROM (SELECT user, n / 2 AS h FROM recent) t WHERE h = {number}",
    "SELECT clicks = {number} AS same FROM totals WHERE clicks = {number}",
    "SELECT user, '{text}' AS said FROM totals WHERE clicks >= {number}",
    "SELECT COUNT(*) AS n FROM recent WHERE n = {number}",
    "SELECT user FROM totals WHERE clicks = {number} OR user = '{text}'",
    "SELECT user FROM totals WHERE clicks = {number} + 1 AND n < 987000000",
    "SELECT user FROM totals WHERE CAST(clicks AS SMALLINT) = {number}",
    "SELECT user FROM totals WHERE user = {number} AND clicks = '{text}'",
    "SELECT user FROM totals ORDER BY clicks = {number}, user",
    "SELECT t.user FROM totals t, people p WHERE t.user = p.user AND p.town = '{text}'",
    "SELECT user FROM totals WHERE CAST(user AS DATE) = '{text}'",
    "SELECT user FROM totals WHERE user = 'a' '{text}' AND nothing = {number}",
    "SELECT user FROM totals WHERE user LIKE '= {number}' AND user = /* = '{text}' */ 'ann'",
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> PipelineReader:
    folder = tmp_path_factory.mktemp("shapes") / "ck"
    fed(folder)
    return mayfly.open(folder)


class Binding:
    """Binds, and counts."""

    def __init__(self, reader: PipelineReader) -> None:
        self.reader, self.count = reader, 0

    def __call__(self, text: str) -> PreparedQuery:
        self.count += 1
        return self.reader.sources.plan(text).query


def bound_or_refused(find: Callable[[str], PreparedQuery], text: str) -> PreparedQuery | str:
    try:
        return find(text)
    except CqlError as error:
        return str(error)


@pytest.mark.parametrize("form", [*BY_SHAPE, *ONE_BY_ONE])
def test_the_plan_is_that_of_the_text(reader: PipelineReader, form: str) -> None:
    bind, queries, bound = Binding(reader), PreparedQueries(), 0
    for number, letters in CONSTANTS * 2:
        text = form.format(number=number, text=letters)
        expected = bound_or_refused(bind, text)
        if isinstance(expected, str):
            assert bound_or_refused(lambda text: queries.find(text, bind), text) == expected
            continue
        before = bind.count
        query = queries.find(text, bind)
        bound += bind.count - before
        assert (query.text, query.bound, query.reads) == (text, expected.bound, expected.reads)
        assert query.row_read == expected.row_read
    if form in BY_SHAPE:
        assert bound <= 12, "others are bound once for all"


def test_answers_by_shape(reader: PipelineReader) -> None:
    for n in range(11):
        for user in ("ann", "bob", "eve"):
            sql = f"SELECT page, n FROM recent WHERE n = {n} AND user = '{user}' ORDER BY page"
            other = f"SELECT page, n FROM recent WHERE {n} = n AND '{user}' = user ORDER BY page"
            assert reader.query(sql).rows == reader.query(other).rows


def test_shapes_and_texts_are_bounded(reader: PipelineReader) -> None:
    bind, queries = Binding(reader), PreparedQueries()
    for name in range(2 * KEPT):
        queries.find(f"SELECT user AS c{name} FROM totals WHERE clicks = 1", bind)
    assert (len(queries.texts), len(queries.shapes)) == (KEPT, KEPT)


@pytest.mark.parametrize("text", ["SELECT `k = 5` FROM t", "SELECT k FROM t -- = 5", "k <=> 5"])
def test_texts_without_a_shape(text: str) -> None:
    assert ShapedText.of(text) is None
