"""EXPLAIN in every form over columns of any name: well formed, and of the shape of plain names.

The oracle is the same query over plain names of the same length: JSON has the same keys and lists,
the drawing the same elements, the text the same lines.
"""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

from hypothesis import assume, example, given
from hypothesis import strategies as st

from mayfly import LocalSession, MayflyError
from mayfly.physical.explain.explanation import Explanation

QUERIES = (
    "SELECT {a}, COUNT(*) AS {b} FROM s [RANGE 3 us] WHERE {a} > 0 GROUP BY {a}",
    "SELECT s.{a}, u.{b} FROM s [RANGE 3 us], u [RANGE 3 us] WHERE s.{a} = u.{a}",
    "SELECT {a} FROM s [PARTITION BY {b} ROWS 1] x"
    " WHERE NOT EXISTS (SELECT * FROM u [RANGE 2 us] y WHERE y.{a} = x.{b})",
)
ODD = "<>&\"'`\\{}$%;-/*[]().,# \t\x00\x1b\x7f\u200b\u202e\u2028\ufeff\ufffe\ud800🙂é"
names = st.text(st.one_of(st.sampled_from(ODD), st.characters()), min_size=1, max_size=12)


def explained(query: str, a: str, b: str) -> Explanation:
    session = LocalSession()
    for stream in "su":
        session.stream(stream, {"t": "BIGINT", a: "BIGINT", b: "BIGINT"}, time="t")
    named = {key: "`" + name.replace("`", "``") + "`" for key, name in (("a", a), ("b", b))}
    return session.explain(query.format(**named))


def shape(value: Any) -> Any:
    """JSON without its texts and figures."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value).__name__


@given(st.sampled_from(QUERIES), names, names)
@example(QUERIES[0], "</text><script>", "]]>")
@example(QUERIES[1], "a\nb", "\x1b[31m")
@example(QUERIES[1], "\ud800", '"')
@example(QUERIES[2], "a.b", "`")
def test_every_form_is_well_formed_whatever_columns_are_called(query: str, a: str, b: str) -> None:
    assume(len({one.casefold() for one in ("t", a, b)}) == 3)
    try:
        found = explained(query, a, b)
    except MayflyError as refused:
        str(refused).encode(errors="backslashreplace")
        return
    plain = explained(query, "p" * len(a), "q" * len(b))
    for text in (found.text(), found.json(), found.svg(), found.html()):
        text.encode()
    values, wanted = json.loads(found.json()), json.loads(plain.json())
    assert shape(values["plans"]) == shape(wanted["plans"])
    tags, expected = (
        sorted(one.tag for one in ElementTree.fromstring(each.svg()).iter())
        for each in (found, plain)
    )
    assert tags == expected, "a name is text, never markup"
    assert found.html().count("<") == plain.html().count("<")
    assert len(found.text().split("\n")) == len(plain.text().split("\n")), "a name is on one line"
