"""A small catalog, and random contents for its streams and relations."""

from __future__ import annotations

import random
from typing import Any

from mayfly.cql.binder import bind_query
from mayfly.plan.catalog import Catalog, RelationDefinition, StreamDefinition, columns_from
from mayfly.plan.logical_operators import Output

_STREAM = columns_from([("ts", "bigint"), ("a", "bigint"), ("b", "bigint"), ("c", "string")])
_TABLE = columns_from([("k", "bigint"), ("v", "bigint")])
STREAMS = ("s1", "s2", "s3", "s4")
INSTANTS = (2, 5, 9)


def _catalog() -> Catalog:
    catalog = Catalog()
    for name in STREAMS:
        catalog = catalog.declare(StreamDefinition(name, _STREAM, time="ts"))
    catalog = catalog.declare(RelationDefinition("r", _TABLE, key=("k",)))
    return catalog.declare(RelationDefinition("n", _TABLE, key=("k",), retroactive=False))


CATALOG = _catalog()


def bound(query: str) -> Output:
    return bind_query(query, CATALOG)


def random_tables(seed: int) -> dict[str, list[dict[str, Any]]]:
    """Rows for every stream and relation, few values and many NULLs; keys are unique."""
    chance = random.Random(seed)

    def number() -> int | None:
        return chance.choice([None, 0, 1, 1, 2, 2, 3])

    def row() -> dict[str, Any]:
        text = chance.choice(["x", "y", None])
        return {"ts": chance.randrange(10), "a": number(), "b": number(), "c": text}

    found = {name: [row() for _ in range(chance.randrange(9))] for name in STREAMS}
    for name in ("r", "n"):
        found[name] = [{"k": key, "v": number()} for key in range(4) if chance.random() < 0.7]
    return found
