"""``mayfly explain`` and ``mayfly check``: what a file of queries means, before anything runs."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.options import AllowPython, Conf, spark_settings
from mayfly.cql import CqlError, Create, Explain, OneTimeQuery, Statement, catalog_after, parse
from mayfly.cql.messages import SourceText
from mayfly.cql.script_files import text_of
from mayfly.display import counted
from mayfly.errors import MayflyError
from mayfly.optimizer.optimize import check_rule_names, optimize
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.explanation import Explanation
from mayfly.physical.explain.words import encodable
from mayfly.plan.catalog import ArchiveDefinition, Catalog, QueryDefinition
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Strategy

if TYPE_CHECKING:
    from mayfly.physical.explain.shared_parts import Together

REFUSED = 2
"""The exit code when the file or an option is wrong."""

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


def explain_command(
    file: File,
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", help="Only this query; may be repeated.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Show the candidate plans side by side.")
    ] = False,
    strategy: Annotated[
        Strategy, typer.Option("--strategy", help="How expirations travel.", case_sensitive=False)
    ] = Strategy.UPA,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="Leave out a rule; may be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with drawings.", metavar="OUT.html")
    ] = None,
    timings: Annotated[
        bool, typer.Option("--timings", help="Show how long each rule took.")
    ] = False,
) -> None:
    """Show the plan of every query in a file: update patterns, state, cost, warnings."""
    with _refusals():
        check_rule_names(without or ())
        queries = _chosen(_queries(file), query or [], file)
        catalog = catalog_after(_statements(file))
        shown = [
            (each, _explained(each, catalog, strategy, without or [], compare or each.compare))
            for each in queries
        ]
        running = [each for each in queries if each.registered]
        shared = _shared(_statements(file), running, strategy, without)
        if html is not None:
            from mayfly.physical.explain.page import page_of

            html.write_text(page_of([explanation for _, explanation in shown]), encoding="utf-8")
    if json:
        from mayfly.physical.explain.json_tree import as_values

        values = [
            {"name": each.name, **as_values(explanation, timings), **_shares(shared, each.name)}
            for each, explanation in shown
        ]
        typer.echo(encodable(json_text.dumps(values, indent=2, ensure_ascii=False)))
    elif html is not None:
        typer.echo(f"wrote {html}")
    else:
        _print(shown, timings)
        if shared is not None:
            typer.echo(f"== together\n{shared.text()}")


def check_command(
    file: File,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    conf: Conf = None,
    allow_python: AllowPython = False,
) -> None:
    """Check a file: its statements, names, types, sources and sinks, and whether it can run."""
    from mayfly.pipeline.pipeline_file import PipelineFile

    with _refusals():
        settings = spark_settings(conf)
        declared = PipelineFile.before_spark(file, settings, allow_python=allow_python)
        statements = list(declared.statements)
        catalog = catalog_after(statements)
        shown = [
            (each, _explained(each, catalog, Strategy.UPA, [], False))
            for each in _queries_of(statements, file)
        ]
    if json:
        values = {
            "file": str(file),
            "statements": len(statements),
            "queries": [_checked(each, explanation) for each, explanation in shown],
        }
        typer.echo(encodable(json_text.dumps(values, indent=2, ensure_ascii=False)))
        return
    for each, explanation in shown:
        label = explanation.chosen.physical.answer.label
        typer.echo(f"{each.name}: {label}")
        for warning in explanation.chosen.physical.warnings:
            typer.echo(f"  warning: {warning.message}\n    → {warning.hint}")
    typer.echo(
        f"{file}: {counted(len(statements), 'statement')}, "
        f"{counted(len(shown), 'query', 'queries')}, no errors"
    )


def _checked(each: Query, explanation: Explanation) -> dict[str, object]:
    physical = explanation.chosen.physical
    label = physical.answer.label
    return {
        "name": each.name,
        "pattern": label.pattern.name,
        "reason": label.reason,
        "warnings": [{"message": w.message, "hint": w.hint} for w in physical.warnings],
    }


@contextmanager
def _refusals() -> Iterator[None]:
    """What is wrong with the input is reported in a message, with exit code 2."""
    try:
        yield
    except (MayflyError, OSError) as error:
        typer.echo(f"mayfly: {error}", err=True)
        raise typer.Exit(REFUSED) from None


def _statements(file: Path) -> list[Statement]:
    return parse(text_of(file), name=str(file))


def _queries(file: Path) -> list[Query]:
    return _queries_of(_statements(file), file)


def _queries_of(statements: list[Statement], file: Path) -> list[Query]:
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


def _chosen(queries: list[Query], names: list[str], file: Path) -> list[Query]:
    query_names = ", ".join(each.name for each in queries) or "none"
    for name in names:
        if name not in [each.name for each in queries]:
            raise CqlError(f"{file} has no query {name}", f"its queries: {query_names}")
    if not queries:
        raise CqlError(f"{file} has no query to explain", "add CREATE QUERY name AS SELECT …")
    return [each for each in queries if not names or each.name in names]


def _explained(
    each: Query, catalog: Catalog, strategy: Strategy, without: list[str], compare: bool
) -> Explanation:
    return explain(each.plan, catalog, each.text, None, strategy, without, compare)


def _shared(
    statements: list[Statement],
    queries: list[Query],
    strategy: Strategy,
    without: list[str] | None,
) -> Together | None:
    """What the queries of a pipeline have in common, if there is more than one."""
    if len(queries) < 2:
        return None
    from mayfly.physical.compiler import compile_plan
    from mayfly.physical.explain.shared_parts import together
    from mayfly.physical.shared_program import canonical

    catalog, programs = catalog_after(statements), {}
    for each in queries:
        plan = optimize(each.plan, strategy=strategy, without=without or ()).plan
        assert isinstance(plan, Output)
        programs[each.name] = compile_plan(canonical(plan), catalog, strategy)
    return together(programs)


def _shares(shared: Together | None, name: str) -> dict[str, object]:
    parts = () if shared is None else shared.parts
    return {
        "shared": [
            {"part": part.part, "over": part.over, "queries": part.queries}
            for part in parts
            if name in part.queries
        ]
    }


def _print(shown: list[tuple[Query, Explanation]], timings: bool) -> None:
    from rich.console import Console

    console = Console()
    for each, explanation in shown:
        if console.is_terminal:
            console.rule(each.name, align="left")
            console.print(explanation, soft_wrap=True)
        else:
            typer.echo(f"== {each.name}\n{explanation.text(timings)}")
