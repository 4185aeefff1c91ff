"""Statements: what a file of the language asks for, bound and ready to be carried out."""

from __future__ import annotations

from dataclasses import dataclass, field

from mayfly.plan.catalog import Catalog, Definition
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import Output, Position


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement and where it begins."""

    position: Position = field(compare=False)


@dataclass(frozen=True, kw_only=True)
class Create(Statement):
    """CREATE STREAM, RELATION, NRR, VIEW, QUERY, ARCHIVE or AGGREGATE."""

    definition: Definition


@dataclass(frozen=True, kw_only=True)
class Drop(Statement):
    """DROP …; ``name`` is spelt as declared. Without IF EXISTS the entry does exist."""

    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Insert(Statement):
    """INSERT INTO a relation or NRR; each row has one constant per column of the table."""

    relation: str
    rows: tuple[tuple[Expression, ...], ...]
    instant: int | None = None
    """The instant from which the change holds; None means the clock when it is carried out."""


@dataclass(frozen=True, kw_only=True)
class Update(Statement):
    """UPDATE a relation or NRR: new values by column, for the rows that satisfy the condition."""

    relation: str
    assignments: tuple[tuple[str, Expression], ...]
    condition: Expression | None = None
    instant: int | None = None


@dataclass(frozen=True, kw_only=True)
class Delete(Statement):
    """DELETE FROM a relation or NRR."""

    relation: str
    condition: Expression | None = None
    instant: int | None = None


@dataclass(frozen=True, kw_only=True)
class Show(Statement):
    """SHOW STREAMS, RELATIONS, NRRS, VIEWS, QUERIES, ARCHIVES or AGGREGATES."""

    kind: str


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN a query; ``compare`` asks for the candidate plans side by side."""

    plan: Output
    compare: bool = False
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class ExplainSharing(Statement):
    """EXPLAIN SHARING: what the queries that are declared so far have in common, as ``form``."""

    form: str = "TEXT"


@dataclass(frozen=True, kw_only=True)
class OneTimeQuery(Statement):
    """A SELECT on its own: answered once."""

    plan: Output
    text: str = field(compare=False)


def apply(catalog: Catalog, statement: Statement) -> Catalog:
    """What exists after a statement."""
    if isinstance(statement, Create):
        return catalog.declare(statement.definition)
    if isinstance(statement, Drop):
        return catalog.drop(statement.name)
    return catalog
