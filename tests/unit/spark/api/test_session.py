"""What a session knows before anything runs on Spark."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.spark.api.session import Session

ROWS = pa.table({"id": [1, 2], "name": ["one", "two"]})


class Remote:
    """Looks like a session of Spark Connect."""

    __module__ = "pyspark.sql.connect.session"


def session() -> Session:
    return Session(cast(Any, object()))


def test_spark_connect_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="Spark Connect"):
        Session(cast(Any, Remote()))


def test_relations_are_declared_changed_and_forgotten() -> None:
    made = session()
    made.relation("names", ROWS, key=["id"])
    made.nrr("fixed", ROWS, key=["id"])
    made.change("UPDATE names SET name = upper(name) WHERE id = 2")
    assert made.relations["names"].rows.to_pylist()[-1] == {"id": 2, "name": "TWO"}
    assert [one.definition.retroactive for one in made.relations.values()] == [True, False]
    with pytest.raises(InvalidSetting, match="declared twice"):
        made.nrr("names", ROWS, key=["id"])
    made.forget("names")
    made.nrr("names", ROWS, key=["id"])
    assert not made.relations["names"].definition.retroactive
