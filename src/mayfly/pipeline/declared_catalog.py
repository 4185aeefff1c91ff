"""What a pipeline declares, as its checkpoint stores it for commands that add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mayfly.cql import bind_query, catalog_after, parse
from mayfly.errors import InvalidSetting
from mayfly.keywords import text
from mayfly.plan.catalog import (
    Catalog,
    ColumnDefinition,
    Punctuation,
    RelationDefinition,
    StreamDefinition,
    ViewDefinition,
)
from mayfly.plan.expressions import quoted
from mayfly.plan.types import parse_type
from mayfly.plan.user_aggregates import AggregateDefinition


def declarations(catalog: Catalog) -> dict[str, Any]:
    """What others must know of the catalog to write a query."""

    def columns(definition: StreamDefinition | RelationDefinition) -> list[list[Any]]:
        return [[column.name, column.type.sql(), column.nullable] for column in definition.columns]

    return {
        "streams": {
            stream.name: {
                "columns": columns(stream), "time": stream.time, "sequence": list(stream.sequence),
                "slack": stream.slack, "max_gap": stream.max_gap,
                **({"punctuation": stream.punctuation.sql()} if stream.punctuation else {}),
            }
            for stream in catalog.of_kind(StreamDefinition)
        },
        "relations": {
            relation.name: {
                "columns": columns(relation),
                "key": list(relation.key),
                "retroactive": relation.retroactive,
            }
            for relation in catalog.of_kind(RelationDefinition)
        },
        **({"aggregates": aggregates} if (aggregates := _signatures(catalog)) else {}),
        **({"views": views} if (views := _texts(catalog)) else {}),
    }  # fmt: skip


def _texts(catalog: Catalog) -> dict[str, str]:
    return {view.name: view.text for view in catalog.of_kind(ViewDefinition)}


def _signatures(catalog: Catalog) -> dict[str, Any]:
    """The types of users' aggregates; their classes are in no checkpoint."""
    return {
        entry.name: {"takes": [kind.sql() for kind in entry.takes], "gives": entry.gives.sql()}
        for entry in catalog.of_kind(AggregateDefinition)
    }


def declared_catalog(declared: Mapping[str, Any]) -> Catalog:
    """The streams and relations that a checkpoint says it was started with."""
    catalog = Catalog()
    for name, stream in declared["streams"].items():
        definition = StreamDefinition(
            name,
            _columns(stream),
            stream["time"],
            tuple(stream["sequence"]),
            slack=stream["slack"],
            max_gap=stream.get("max_gap"),
        )
        punctuation = _punctuation(definition, stream.get("punctuation", ""))
        catalog = catalog.declare(replace(definition, punctuation=punctuation))
    for name, stream in declared["relations"].items():
        relation = RelationDefinition(
            name, _columns(stream), tuple(stream["key"]), stream["retroactive"]
        )
        catalog = catalog.declare(relation)
    for name, types in declared.get("aggregates", {}).items():
        takes = tuple(map(parse_type, types["takes"]))
        catalog = catalog.declare(AggregateDefinition(name, takes, parse_type(types["gives"])))
    for name, query in declared.get("views", {}).items():
        catalog = catalog.declare(ViewDefinition(name, bind_query(query, catalog), query))
    return catalog


def _punctuation(stream: StreamDefinition, stored: str) -> Punctuation | None:
    """From its clause of CREATE STREAM."""
    if not stored:
        return None
    columns = ", ".join(f"{quoted(column.name)} {column.type.sql()}" for column in stream.columns)
    statement = f"CREATE STREAM s ({columns}) TIMESTAMP BY {quoted(stream.time)} {stored}"
    again = catalog_after(parse(statement)).lookup("s")
    assert isinstance(again, StreamDefinition)
    return again.punctuation


def _columns(stored: Mapping[str, Any]) -> tuple[ColumnDefinition, ...]:
    return tuple(
        ColumnDefinition(name, parse_type(kind), nullable)
        for name, kind, nullable in stored["columns"]
    )


def check_name(name: str, kind: str) -> None:
    """Refuse what cannot name a stream, a relation or a query that is added."""
    if not text(f"the name of a {kind}", name).isidentifier() or name.startswith("_"):
        raise InvalidSetting(
            f"{name!r} cannot name a {kind}", "use letters, digits and _, beginning with a letter"
        )


def check_query_name(name: str) -> None:
    """Refuse what cannot name a query of a program: its name is part of paths."""
    if not text("the name of a query", name) or "/" in name:
        raise InvalidSetting(f"{name!r} cannot name a query", "leave out the slash")
