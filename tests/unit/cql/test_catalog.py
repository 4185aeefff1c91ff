"""The catalog as a value: declaring, finding, dropping."""

from __future__ import annotations

import pytest

from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import (
    Catalog,
    ColumnDefinition,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
    columns_from,
)
from mayfly.plan.types import BIGINT, TIMESTAMP
from tests.golden.cql.cases import catalog

COLUMNS = columns_from([("ts", "timestamp"), ("n", "bigint"), ("tags", "array<string>")])


def test_columns_from_the_types_of_a_dataframe() -> None:
    assert COLUMNS[:2] == (ColumnDefinition("ts", TIMESTAMP), ColumnDefinition("n", BIGINT))


def test_declaring_leaves_the_old_catalog_as_it_was() -> None:
    old = Catalog()
    new = old.declare(StreamDefinition("S", COLUMNS, "ts"))
    assert (list(old), [entry.name for entry in new]) == ([], ["S"])
    assert new.lookup("s") is new.lookup("S")
    with pytest.raises(InvalidSetting, match="already a stream called S"):
        new.declare(RelationDefinition("s", COLUMNS))


def test_what_is_read_cannot_be_dropped() -> None:
    known = catalog()
    assert [user.name for user in known.users("LINK1")] == ["busy", "kept"]
    with pytest.raises(InvalidSetting, match="still read by busy, kept"):
        known.drop("link1")
    assert known.drop("busy").drop("kept").drop("link1").lookup("link1") is None
    assert [entry.name for entry in known.of_kind(QueryDefinition)] == ["busy"]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: StreamDefinition("s", (), "ts"), "has no columns"),
        (lambda: StreamDefinition("s", COLUMNS, "time"), "has no column time for TIMESTAMP BY"),
        (lambda: StreamDefinition("s", COLUMNS, "tags"), "has type array<string>"),
        (lambda: StreamDefinition("s", COLUMNS, "ts", ("tags",)), "has type array<string>"),
        (lambda: StreamDefinition("s", (*COLUMNS, *COLUMNS), "ts"), "two columns called ts"),
        (lambda: RelationDefinition("r", COLUMNS, ("x",)), "has no column x for KEY"),
        (lambda: RelationDefinition("r", COLUMNS, (), retroactive=False), "has no key"),
        (
            lambda: RelationDefinition("r", columns_from([("m", "interval month")])),
            "cannot be stored",
        ),
    ],
)
def test_definitions_are_checked(make: object, problem: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidSetting, match=problem):
        make()
