"""LIKE and regular expressions: the right matches, and never a search without end."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly import LocalSession, MayflyError
from mayfly.kernels.functions import java_regex
from mayfly.kernels.functions.java_regex import compiled, replaced
from mayfly.kernels.functions.like_patterns import like_pattern
from mayfly.kernels.functions.operands import Undefined

HANG = 60
"""Seconds after which a search is called endless; the slowest here takes a fraction of one."""


def naive_like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(naive_like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and naive_like(text[1:], pattern[1:])


@given(st.text("ab\n", max_size=8), st.text("ab%_", max_size=6))
@example("ab", "%_a%")
@example("a", "a%a")
def test_like_matches_as_defined(text: str, pattern: str) -> None:
    assert like_pattern(pattern, "\\").matches(text) == naive_like(text, pattern)


PIECES = ["a", "b", ".", "(a|b)", "(a|ab)", "[ab]", "\\s", "\\n", "^", "$", "é", "(?:a)", "\\b"]


@given(
    st.text("ab é\n\x0b\r", max_size=7),
    st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", "*", "+?", "?", "{1,2}"]))),
)
def test_the_linear_engine_finds_what_backtracking_finds(
    text: str, parts: list[tuple[str, str]]
) -> None:
    anchors = ("^", "$", "\\b")
    pattern = compiled("".join(piece + ("" if piece in anchors else how) for piece, how in parts))
    assert pattern.linear is not None
    expected = pattern.backtracking.search(text)
    engine, units = pattern._engine(text)
    match = engine.search(units)
    assert (match is None) == (expected is None)
    if match is not None and expected is not None and isinstance(units, bytes):
        spans = [expected.span(n) for n in range(pattern.groups + 1)]
        bytes_before = [len(text[:at].encode()) if at >= 0 else -1 for span in spans for at in span]
        assert [at for n in range(pattern.groups + 1) for at in match.span(n)] == bytes_before


@pytest.mark.parametrize(
    ("text", "pattern", "replacement", "expected"),
    [
        ("axb", "x*", "-", "-a--b-"),
        ("  éb", "\\b", "|", "  é|b|"),
        ("ééa", "", "-", "-é-é-a-"),
        ("ab\n", "b$", "-", "a-\n"),
        ("K\u212a", "(?i)k", "-", "-\u212a"),
        ("a\x0bb", "\\s", "-", "a-b"),
        ("aab", "(?<x>a+)", "[${x}]", "[aa]b"),
        ("abab", "(ab)\\1", "-", "-"),
        ("ab", "[a&&b]", "-", "ab"),
    ],
)
def test_replacing(text: str, pattern: str, replacement: str, expected: str) -> None:
    assert replaced(text, pattern, replacement) == expected


def test_patterns_that_only_backtracking_knows_are_bounded() -> None:
    assert compiled("(a+)+$").linear is not None
    for pattern in ("(a+)+(?=b)", "(a|a)*\\1(?!x)", "(?:a?a?)*(?<=c)b"):
        with pytest.raises(Undefined, match="may take too long"):
            compiled(pattern).search("a" * 40)
    with pytest.raises(Undefined, match="may take too long"):
        compiled("a*a*a*(?=b)").search("a" * 2_000)
    assert compiled("a*(?=b)").search("aaab") is not None


ENDLESS_BY_BACKTRACKING = """
from mayfly.kernels.functions.java_regex import compiled, replaced
from mayfly.kernels.functions.like_patterns import like_pattern
assert not like_pattern('%a%a%a%a%a%b', '!').matches('a' * 5000)
assert compiled('(a+)+$').search('a' * 5000 + 'b') is None
assert compiled('(.*)*(.*)*x').search('a' * 5000) is None
assert replaced('a' * 20000 + 'b', '(a|aa)+$', '-') == 'a' * 20000 + 'b'
"""


def test_no_search_is_endless() -> None:
    command = [sys.executable, "-c", ENDLESS_BY_BACKTRACKING]
    subprocess.run(command, check=True, timeout=HANG)


def answer(expression: str, value: str = "aa") -> object:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "STRING", "n": "BIGINT"})
    run = session.query(f"SELECT {expression} AS y FROM s [RANGE 1 DAY]")
    run.feed({"s": [{"ts": 1, "x": value, "n": 2_000_000_000}]})
    run.finish()
    return run.snapshot().to_pylist()[0]["y"]


@pytest.mark.parametrize(
    "expression",
    [
        "lpad(x, 2000000000, 'ab')",
        "rpad(x, 2000000000, 'ab')",
        "lpad(x, n, 'ab')",
        "replace(x, 'a', lpad('b', 16777216, 'b'))",
        "regexp_replace(x, 'a', lpad('b', 16777216, 'b'))",
        "regexp_extract(x, '(a+)+(?=b)', 1)",
    ],
)
def test_texts_that_would_fill_the_memory_are_refused(expression: str) -> None:
    with pytest.raises(MayflyError, match=r"characters"):
        answer(expression)


def test_what_is_short_enough_is_made() -> None:
    assert answer("lpad(x, 5, 'bc')") == "bcbaa"
    assert answer("regexp_extract(x, '(é)(.)', 2)", "xéy") == "y"
    assert re.fullmatch("b*", str(answer("replace(x, 'a', 'bb')")))
    assert java_regex.MOST_STEPS > 10**6
