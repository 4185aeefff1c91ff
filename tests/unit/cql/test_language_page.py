"""docs/language.md: its sql blocks are read and bound in order; what it calls refused is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mayfly.cql import CqlError, OneTimeQuery, bind_query, catalog_after, parse
from mayfly.cql.aggregate_functions import AGGREGATES
from mayfly.cql.functions import FUNCTIONS, SYNONYMS
from mayfly.cql.registrations import LAYOUTS, TECHNIQUES
from mayfly.plan.catalog import Catalog

PAGE = Path(__file__).parents[3] / "docs" / "language.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sql\n(?P<sql>.*?)^```\n(?:\n```text\n(?P<answer>.*?)^```\n)?", re.M | re.S)


def test_the_examples_are_bound_in_order() -> None:
    known, accepted, refused = Catalog(), 0, 0
    for block in BLOCK.finditer(TEXT):
        sql, line = block["sql"], TEXT.count("\n", 0, block.start()) + 2
        if sql.startswith("-- refused"):
            with pytest.raises(CqlError) as caught:
                parse(sql, known)
            assert str(caught.value).rstrip() == (block["answer"] or "").rstrip()
            refused += 1
            continue
        assert block["answer"] is None, f"line {line}: only refused examples show a message"
        try:
            statements = parse(sql, known, name=f"{PAGE.name} from line {line}")
            for statement in statements:
                if isinstance(statement, OneTimeQuery) and not sql.startswith("-- one-time"):
                    bind_query(statement.text, known)
                known = catalog_after([statement], known)
                accepted += 1
        except CqlError as error:
            pytest.fail(f"{PAGE.name}, block at line {line}: {error}")
    assert accepted >= 100
    assert refused >= 4


def test_every_function_is_listed_and_no_other() -> None:
    section = TEXT[TEXT.index("\nFunctions:") : TEXT.index("Functions of the wall clock")]
    listed = set(re.findall(r"`(\w+)`", section))
    assert listed == {*FUNCTIONS, *SYNONYMS, *AGGREGATES}


def test_every_layout_and_technique_is_named() -> None:
    prose = " ".join(TEXT.split())
    for word in (*LAYOUTS, *TECHNIQUES):
        assert word in prose
