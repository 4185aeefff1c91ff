"""A session explains query texts over the streams it knows, with the DataFrames' types."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import mayfly
from mayfly.display import LONGEST_LINE
from mayfly.plan.catalog import RelationDefinition, StreamDefinition
from mayfly.spark.api.session import Session


@pytest.fixture
def session(spark: SparkSession) -> Session:
    made = Session(spark)
    rows = spark.readStream.format("rate").load()
    for name in ("link1", "link2"):
        made.stream(
            name, rows.selectExpr("timestamp AS ts", "value AS src", "CAST(value AS INT) AS size")
        )
    return made


def test_plans_are_labelled_and_drawn(session: Session) -> None:
    explained = session.explain(
        "SELECT l.src FROM link1 [RANGE 10 MIN] l, link2 [RANGE 10 MIN] r WHERE l.src = r.src"
    )
    assert "WKS(10 min)" in str(explained)
    assert re.search(r"─ WK ─ .*Join l.src = r.src", str(explained))
    assert "<svg" in explained._repr_html_()


def test_whatever_is_looked_at_is_shown_on_a_line(session: Session, tmp_path: Path) -> None:
    text = "SELECT src, COUNT(*) AS n FROM link1 [RANGE 10 MIN] GROUP BY src HAVING COUNT(*) > 1000"
    stream, query = session.stream("link3", session.frame_of("link1")), session.query(text)
    archive = session.create_archive(tmp_path / "a", "k STRING, ts TIMESTAMP", key="k", window=3)
    together = session.queries(**{f"query_with_a_long_name_{n}": text for n in range(9)})
    other = session.stream("link4", session.frame_of("link1"))
    joined = stream.window("1 min").join(other.window("1 min"), on="src")
    for value in (session, stream, stream.window("1 min"), joined, query, together, archive):
        assert len(repr(value)) <= LONGEST_LINE, value
        assert "\n" not in repr(value)
        assert " object at 0x" not in repr(value)
    for value in (session, stream, query, together, archive):
        assert value._repr_html_().startswith("<")


def test_types_come_from_the_dataframes(session: Session) -> None:
    with pytest.raises(mayfly.MayflyError, match="BIGINT"):
        session.explain("SELECT src FROM link1 [RANGE 1 MIN] WHERE src LIKE 'a%'")
    with pytest.raises(mayfly.MayflyError, match="did you mean size"):
        session.explain("SELECT siz FROM link1 [RANGE 1 MIN]")


def test_rivals_are_compared(session: Session) -> None:
    query = (
        "SELECT l.src FROM link1 [RANGE 10 MIN] l WHERE NOT EXISTS "
        "(SELECT * FROM link2 [RANGE 10 MIN] r WHERE r.src = l.src)"
    )
    explained = session.explain(query, compare=True, strategy="NT")
    assert "STR" in str(explained)
    assert "plan 1" in str(explained)


def test_columns_are_found_without_regard_to_case(spark: SparkSession) -> None:
    session = Session(spark)
    rows = spark.readStream.format("rate").load().selectExpr("timestamp AS Ts", "value AS No")
    session.stream("s", rows, time="tS", sequence="nO")
    session.stream("m", rows, time="NO", unit="milliseconds")
    session.relation("r", {"Id": [1]}, key="iD")
    session.nrr("n", {"Id": [1]}, key=["ID"])
    found = {one.name: one for one in session.catalog}
    assert isinstance(found["s"], StreamDefinition)
    assert (found["s"].time, found["s"].sequence) == ("Ts", ("No",))
    for name in "rn":
        relation = found[name]
        assert isinstance(relation, RelationDefinition)
        assert relation.key == ("Id",)
    assert "Ts" in session.query("SELECT ts FROM s [RANGE 1 MIN]").program.answer.columns.names[0]
    with pytest.raises(mayfly.MayflyError, match="no column 'when' to take its time from"):
        session.stream("q", rows, time="when")
