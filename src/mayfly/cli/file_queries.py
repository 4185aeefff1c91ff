"""The queries of a file of statements, with their texts and plans."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cql import Create, Explain, OneTimeQuery, Statement, parse
from mayfly.cql.messages import SourceText
from mayfly.cql.script_files import text_of
from mayfly.plan.catalog import ArchiveDefinition, QueryDefinition
from mayfly.plan.logical_operators import Output

File = Annotated[Path, typer.Argument(help="A file of statements.", metavar="FILE.cql")]


@dataclass(frozen=True)
class Query:
    """A query found in a file: its name, its text, its plan, and whether to compare plans."""

    name: str
    text: str
    plan: Output
    compare: bool = False
    registered: bool = False
    """Whether it is one of the queries that run."""


def statements_of(file: Path) -> list[Statement]:
    return parse(text_of(file), name=str(file))


def queries_of(statements: list[Statement], file: Path) -> list[Query]:
    """What a file registers, asks or has explained, in its order."""
    source = SourceText(text_of(file))
    starts = [source.offset(statement.position) for statement in statements]
    ends = [*starts, len(source.text)][1:]
    queries = []
    for statement, start, end in zip(statements, starts, ends, strict=True):
        text = source.text[start:end].strip().removesuffix(";")
        line = f"line {statement.position.line}"
        match statement:
            case Create(definition=QueryDefinition() | ArchiveDefinition() as definition):
                queries.append(Query(definition.name, text, definition.plan, registered=True))
            case Explain(plan=plan, compare=compare, name=name):
                queries.append(Query(name or line, text, plan, compare))
            case OneTimeQuery(plan=plan):
                queries.append(Query(line, text, plan))
    return queries
