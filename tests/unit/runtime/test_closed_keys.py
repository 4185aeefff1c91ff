"""PUNCTUATION: what is forgotten of closed keys, what is said of it, and where it is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.cql import CqlError, parse
from mayfly.errors import BadInput, InvalidSetting
from mayfly.plan.catalog import StreamDefinition
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.closed_keys import check_erasable

COLUMNS = "(ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts"
KEYS = 200
GROUPS = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM o GROUP BY k"
JOIN = "SELECT o.k, o.v, p.v AS w FROM o, p WHERE o.k = p.k"
TEXTS = (
    GROUPS,
    JOIN,
    "SELECT o.k, COUNT(*) AS n FROM o, p WHERE o.k = p.k GROUP BY o.k",
    "SELECT DISTINCT k, v FROM o",
    "SELECT k, v FROM o EXCEPT ALL SELECT k, v FROM p",
    "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM o",
    "SELECT o.v, p.v AS w, x.v AS u FROM o, p, o x WHERE o.k = p.k AND p.k = x.k AND o.v = x.v",
)


def session_with(closing: str = "PUNCTUATION (k) WHEN (v = 0)") -> LocalSession:
    session = LocalSession()
    session.execute(f"CREATE STREAM o {COLUMNS} {closing}; CREATE STREAM p {COLUMNS} {closing}")
    return session


def rows_kept(session: LocalSession, query: str) -> int:
    """What operators keep after many keys that came and were closed."""
    run = session.query(query)
    for key in range(KEYS):
        rows = [{"ts": 10 * key + t, "k": key, "v": 9 - t} for t in range(10)]
        run.feed(dict.fromkeys(run.clocks.streams, rows))
    return sum(r.state_rows for r in run.reports() if not r.name.startswith("closed keys"))


@pytest.mark.parametrize("query", TEXTS)
def test_state_of_closed_keys_goes(query: str) -> None:
    assert rows_kept(session_with(), query) < 400
    assert rows_kept(session_with(""), query) >= (KEYS if "OVER" in query else 9 * KEYS)


def test_left_rows_go_when_nothing_can_cover_them_any_more() -> None:
    """What stays of a key is whether it is covered."""
    query = "SELECT v FROM o WHERE NOT EXISTS (SELECT * FROM p WHERE p.k = o.k)"
    assert rows_kept(session_with(), query) < 4 * KEYS
    assert rows_kept(session_with(""), query) > 9 * KEYS


def test_rows_of_the_closed_stream_stay_for_partners_to_come() -> None:
    run = session_with().query(JOIN)
    run.feed({"o": [{"ts": 1, "k": 1, "v": 5}, {"ts": 2, "k": 1, "v": 0}]})
    run.feed({"p": [{"ts": 9, "k": 1, "v": 7}]}, heartbeats={"o": 20})
    run.feed(heartbeats={"o": 30, "p": 30})
    assert sorted(run.snapshot().to_pylist(), key=str) == [
        {"k": 1, "v": 0, "w": 7},
        {"k": 1, "v": 5, "w": 7},
    ]


def test_a_batch_that_fails_closes_nothing() -> None:
    run = session_with().query(GROUPS)
    run.feed({"o": [{"ts": 1, "k": 1, "v": 5}]})
    with pytest.raises(BadInput):
        run.feed({"o": [{"ts": 2, "k": 1, "v": 0}, {"ts": None, "k": 1, "v": 0}]})
    run.feed({"o": [{"ts": 3, "k": 1, "v": 6}]})
    run.finish()
    assert run.late == {"o": 0}
    assert run.snapshot().to_pylist() == [{"k": 1, "n": 2, "s": 11}]


def test_a_row_that_is_late_twice_is_counted_once() -> None:
    run = session_with().query(GROUPS)
    run.feed({"o": [{"ts": 1, "k": 1, "v": 0}, {"ts": 8, "k": 2, "v": 1}]})
    run.feed({"o": [{"ts": 3, "k": 1, "v": 6}, {"ts": 9, "k": 1, "v": 6}]})
    run.finish()
    assert run.late == {"o": 2}


def test_explain_says_what_goes_and_what_stays() -> None:
    text = str(session_with().explain(GROUPS))
    assert "GROUP BY at line 1 keeps the rows of a key until PUNCTUATION of o closes it" in text
    assert "o closes k where o.v = 0: a note stays of each closed k" in text
    assert "grows without bound" not in text
    joined = str(session_with().explain(JOIN))
    assert "the join at line 1 keeps the rows of a key until PUNCTUATION of" in joined
    other = str(session_with().explain("SELECT v, COUNT(*) AS n FROM o GROUP BY v"))
    assert "the state of GROUP BY at line 1 grows without bound" in other


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT DISTINCT k, v FROM o", "DISTINCT at line 1 keeps the rows of a key until"),
        (
            "SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM o",
            "OVER at line 1 keeps the rows of a key until",
        ),
        (
            "SELECT v FROM o WHERE NOT EXISTS (SELECT * FROM p WHERE p.k = o.k)",
            "NOT EXISTS at line 1 keeps covered keys of closed keys: they are few numbers",
        ),
        (
            "SELECT v FROM o ORDER BY v LIMIT 3",
            "LIMIT at line 1 keeps rows, answer of closed keys: of its state no part has a key",
        ),
        (
            "SELECT v, COUNT(*) AS n FROM o GROUP BY v",
            "GROUP BY at line 1 keeps rows, groups of closed keys: not every input has closed them",
        ),
        (f"{JOIN} AND o.v = p.v", "on Spark the join at line 1 keeps rows of closed keys"),
    ],
)
def test_explain_says_why_state_stays(query: str, told: str) -> None:
    assert told in str(session_with().explain(query))


def test_a_join_that_one_stream_closes_still_grows() -> None:
    session = session_with()
    session.execute(f"CREATE STREAM q {COLUMNS}")
    text = str(session.explain("SELECT o.k, q.v FROM o, q WHERE o.k = q.k"))
    assert "the state of the join at line 1 grows without bound" in text


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("PUNCTUATION (k)", "WHEN"),
        ("PUNCTUATION (j) WHEN (v = 0)", "there is no column j"),
        ("PUNCTUATION (k) WHEN v = 0", "PUNCTUATION (k) WHEN (condition)"),
        ("PUNCTUATION (k) WHEN (v)", "WHEN is followed by a value of type BIGINT"),
        ("PUNCTUATION (k) WHEN (v = 0", "has no end"),
        ("PUNCTUATION (k) WHEN (w = 0)", "w"),
        ("PUNCTUATION (k) WHEN (v = 0) PUNCTUATION (k) WHEN (v = 1)", "given twice"),
    ],
)
def test_wrong_declarations_are_refused(clause: str, message: str) -> None:
    with pytest.raises(CqlError, match=re.escape(message)):
        parse(f"CREATE STREAM o {COLUMNS} {clause}")


def test_keys_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(CqlError, match="only columns that can be compared"):
        parse(
            "CREATE STREAM o (ts BIGINT, k MAP<STRING, INT>, v INT) TIMESTAMP BY ts"
            " PUNCTUATION (k) WHEN (v = 0)"
        )


def test_a_key_of_two_columns_closes_no_other_with_one_of_them() -> None:
    session = LocalSession()
    session.execute(
        "CREATE STREAM o (ts BIGINT, k STRING, x DOUBLE, v BIGINT) TIMESTAMP BY ts"
        " PUNCTUATION (k, x) WHEN (v = 0)"
    )
    by_both = session.query("SELECT x, k, COUNT(*) AS n FROM o GROUP BY x, k")
    by_one = session.query("SELECT k, COUNT(*) AS n FROM o GROUP BY k")
    rows = [("a", 0.0, 0), ("a", 1.0, 5), ("a", -0.0, 5), ("b", 0.0, 5), ("a", 1.0, 5)]
    for run in (by_both, by_one):
        for ts, (k, x, v) in enumerate(rows):
            run.feed({"o": [{"ts": ts, "k": k, "x": x, "v": v}]})
        run.finish()
        assert run.late == {"o": 1}
    counts = {(row["k"], abs(row["x"])): row["n"] for row in by_both.snapshot().to_pylist()}
    assert counts == {("a", 0.0): 1, ("a", 1.0): 2, ("b", 0.0): 1}
    assert {row["k"]: row["n"] for row in by_one.snapshot().to_pylist()} == {"a": 3, "b": 1}


def test_notes_of_keys_are_refused_beside_promises_to_erase() -> None:
    closing = session_with().catalog.lookup("o")
    assert isinstance(closing, StreamDefinition)
    plain = Stream("p", pa.schema([("ts", pa.int64())]))
    check_erasable([plain])
    with pytest.raises(InvalidSetting, match="PUNCTUATION of o closes, but an archive"):
        check_erasable([plain, replace(plain, name="o", punctuation=closing.punctuation)])
