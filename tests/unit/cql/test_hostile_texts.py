"""Every text ends in a plan or in a Mayfly error, however long, deep or odd it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly import LocalSession, MayflyError
from mayfly.cql import parse
from mayfly.cql.from_clause import MOST_JOINED
from mayfly.cql.grammar import MOST_NESTED
from mayfly.cql.messages import CqlError, SourceText
from mayfly.plan.logical_operators import Position

FROM = "FROM s [RANGE 1 h]"
DIGITS = "1" * 5_000


def session() -> LocalSession:
    made = LocalSession()
    made.stream("s", {"ts": "BIGINT", "a": "BIGINT", "b": "BOOLEAN", "x": "STRING"})
    return made


CHAINS = {
    "and": f"SELECT a {FROM} WHERE " + " AND ".join(f"a <> {n}" for n in range(1_000)),
    "or": f"SELECT a {FROM} WHERE " + " OR ".join(f"a = {n}" for n in range(1_000)),
    "concat": f"SELECT {' || '.join(['x'] * 1_000)} AS z {FROM}",
    "union": " UNION ALL ".join([f"SELECT a {FROM}"] * 300),
    "columns": f"SELECT {', '.join(f'a + {n} AS c{n}' for n in range(500))} {FROM}",
    "in": f"SELECT a {FROM} WHERE a IN ({', '.join(map(str, range(1_000)))})",
    "sum": f"SELECT {' + '.join(['a'] * 110)} AS z {FROM}",
    "text": f"SELECT a {FROM} WHERE x = '{'q' * 200_000}'",
    "byte order mark": f"\ufeffSELECT a {FROM}",
    "control characters": f"SELECT a {FROM} WHERE x = '\x00\x01\x1b'",
}


@pytest.mark.parametrize("name", CHAINS)
def test_long_texts_have_a_plan(name: str) -> None:
    session().query(CHAINS[name])


HANG = 120
"""Seconds after which a text is called endless; all of these took 8 s on a loaded machine."""

ENDLESS = """
from mayfly import LocalSession
session = LocalSession()
session.stream("s", {"ts": "BIGINT", "x": "BIGINT"})
window = "s [RANGE 1 h]"
numbers = range(1_000)
for text in [
    f"SELECT {', '.join(f'SUM(x + {n}) AS a{n}' for n in numbers)} FROM {window}",
    f"SELECT COUNT(*) FROM {window} GROUP BY {', '.join(f'x + {n}' for n in numbers)}",
    " UNION ALL ".join([f"SELECT x FROM {window}"] * 1_000),
    f"SELECT CASE {' '.join(f'WHEN x = {n} THEN {n}' for n in numbers)} END AS c FROM {window}",
    f"SELECT t0.x FROM {', '.join(f'{window} t{n}' for n in range(64))} WHERE "
    + " AND ".join(f"t{n}.x = t{n + 1}.x" for n in range(63)),
    f"SELECT a.x FROM {window} a, {window} b WHERE "
    + " AND ".join(f"a.x + {n} = b.x + {n}" for n in range(500)),
]:
    session.explain(text)
"""


def test_explaining_long_texts_ends() -> None:
    subprocess.run([sys.executable, "-c", ENDLESS], check=True, timeout=HANG)


def test_a_from_has_a_limit() -> None:
    inputs = ", ".join(f"s [RANGE 1 h] t{n}" for n in range(MOST_JOINED + 1))
    with pytest.raises(CqlError, match="too many"):
        session().query(f"SELECT t0.a FROM {inputs}")


def test_a_long_sum_is_computed() -> None:
    run = session().query(CHAINS["sum"])
    run.feed({"s": [{"ts": 1, "a": 2, "b": True, "x": ""}]})
    run.finish()
    assert run.snapshot().to_pylist() == [{"z": 220}]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {' + '.join(['a'] * 500)} AS z {FROM}",
        f"SELECT {'(' * 1_000}a{')' * 1_000} AS z {FROM}",
        f"SELECT a {FROM} WHERE {'NOT ' * 1_000}b",
        f"SELECT {'- ' * 1_000}a AS z {FROM}",
        f"SELECT {'abs(' * 500}a{')' * 500} AS z {FROM}",
        f"SELECT a{'::BIGINT' * 2_000} AS z {FROM}",
        "SELECT a FROM (" * 200 + f"SELECT a {FROM}" + ")" * 200,
        f"SELECT {'CASE WHEN b THEN ' * 300}a{' END' * 300} AS z {FROM}",
        " EXCEPT ALL ".join([f"SELECT a {FROM}"] * 500),
    ],
)
def test_what_is_nested_too_deeply_is_refused_by_name(text: str) -> None:
    with pytest.raises(CqlError, match="nested too deeply"):
        session().query(text)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT a {FROM} WHERE a < {DIGITS}",
        f"SELECT a FROM s [RANGE {DIGITS} h]",
        f"SELECT a FROM s [ROWS {DIGITS}]",
        f"SELECT Rstream(a) FROM s [ROWS 1] LIMIT {DIGITS}",
        f"SELECT Rstream(a) FROM s [ROWS 1] ORDER BY {DIGITS}",
        f"SELECT a{'.a' * 5_000} AS z {FROM}",
    ],
)
def test_long_numbers_and_names_are_refused(text: str) -> None:
    with pytest.raises(CqlError):
        session().query(text)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        (f"SELECT a {FROM} WHERE " + " OR ".join(f"a={n}" for n in range(5_002)), "IN"),
        (f"SELECT a {FROM} WHERE " + " AND ".join(f"a<>{n}" for n in range(5_002)), "NOT IN"),
        (" UNION ALL ".join([f"SELECT a {FROM}"] * 1_002), "several queries"),
        (f"SELECT {', '.join(f'a+{n} AS z{n}' for n in range(2_001))} {FROM}", "of its own"),
        (" UNION ALL ".join([f"SELECT {', '.join(['a'] * 50)} {FROM}"] * 42), "of its own"),
        (f"SELECT a{'.a' * 1_010} AS z {FROM}", "struct"),
    ],
)
def test_too_many_in_a_row_are_refused_with_what_to_write(text: str, instead: str) -> None:
    with pytest.raises(
        CqlError, match=r"more than \d,000 (ORs|ANDs|UNIONs|DOTs|computed)"
    ) as refusal:
        session().query(text)
    assert instead in str(refusal.value)


def test_the_limit_of_nesting_leaves_room_for_callers() -> None:
    def below(frames: int) -> None:
        if frames:
            below(frames - 1)
        else:
            session().explain(f"SELECT {' + '.join(['a'] * (MOST_NESTED - 10))} AS z {FROM}")

    below(150)


def test_slack_may_be_nothing() -> None:
    for slack in ("0", "0 SECONDS"):
        declared = f"CREATE STREAM q (ts TIMESTAMP, a INT) TIMESTAMP BY ts SLACK {slack}"
        assert len(parse(declared)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT '\ud800' AS z {FROM}",
        f"SELECT a {FROM} WHERE x = 'a\udfffb'",
        f"SELECT a AS `\ud800` {FROM}",
        f"SELECT a {FROM} -- \udc00",
        "INSERT INTO r VALUES ('\ud800')",
    ],
)
def test_half_of_a_surrogate_pair_is_refused_where_it_stands(text: str) -> None:
    with pytest.raises(CqlError, match="half of a pair") as refused:
        session().execute(text)
    str(refused.value).encode()
    place = next(at for at, letter in enumerate(text) if "\ud800" <= letter <= "\udfff")
    assert refused.value.position is not None
    assert refused.value.position.column == place + 1


def test_letters_beyond_the_first_plane_and_escapes_are_no_half_pairs() -> None:
    text = rf"SELECT '\uD83D🙂' AS z, a AS `é🙂` {FROM}"
    session().query(text)


WORDS = st.sampled_from(
    [
        *("SELECT", "a", "b", "x", "s", "FROM", "[RANGE 1 h]", "WHERE", "(", ")", ",", "+", "AND"),
        *("GROUP BY", "COUNT(*)", "'", "`", "--", "/*", "*/", ";", "\x00", "\ud800", "\ufeff"),
        *("UNION ALL", "CASE", "WHEN", "END", "IN", "LIKE", "'%'", "[", "]", "::", ".", "AS"),
        *("CREATE STREAM", "DROP", "INSERT INTO", "INTERVAL", "9" * 50, "é", "\u2028", "-", "NOT"),
        *("Istream(", "1e999", "EXPLAIN"),
    ]
)


@given(st.lists(WORDS, max_size=25).map(" ".join))
@example("SELECT a FROM s [RANGE 1 h] WHERE x = '\ud800'")
@example("\ufeff")
@example("SELECT INTERVAL")
def test_any_words_end_in_a_plan_or_a_mayfly_error(text: str) -> None:
    with suppress(MayflyError):
        parse(text, session().catalog)


@given(st.text(max_size=60))
def test_any_text_ends_in_a_plan_or_a_mayfly_error(text: str) -> None:
    with suppress(MayflyError):
        session().explain(f"SELECT a {FROM} WHERE x = {text}")


def work(text: str) -> int:
    """Lines that explaining a text runs: no load of the machine changes them."""
    made, lines = session(), 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        str(made.explain(text))
    finally:
        sys.settrace(before)
    return lines


GROWING: dict[str, Callable[[int], str]] = {
    "union": lambda n: " UNION ALL ".join([f"SELECT a {FROM}"] * n),
    "columns": lambda n: f"SELECT {', '.join(f'a + {i} AS c{i}' for i in range(n))} {FROM}",
    "in": lambda n: f"SELECT a {FROM} WHERE a IN ({', '.join(map(str, range(n)))})",
    "lines": lambda n: "SELECT " + ",\n".join(f"a AS c{i}" for i in range(n)) + f" {FROM}",
    "aggregates": lambda n: f"SELECT {', '.join(f'SUM(a + {i}) AS c{i}' for i in range(n))} {FROM}",
}


@pytest.mark.parametrize("name", GROWING)
def test_work_grows_as_the_text_does(name: str) -> None:
    work(GROWING[name](1))
    one, two, three = (work(GROWING[name](n)) for n in (40, 80, 120))
    assert three - two < 1.01 * (two - one), "as much for the third part as for the second"


def test_places_in_a_text_of_lines() -> None:
    text = "SELECT a\n\n  FROM t\r\n WHERE"
    source = SourceText(text)
    for offset in range(len(text) + 3):
        before = text[: min(offset, len(text))]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        assert source.position(offset) == Position(line, column)
        assert source.offset(Position(line, column)) == min(offset, len(text))
