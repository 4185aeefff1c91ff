"""``mayfly explain``: what a file of queries means and costs, before anything runs."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.file_queries import File, Query, queries_of, statements_of
from mayfly.cli.output import refusals
from mayfly.cql import CqlError, Create, ExplainSharing, Statement, catalog_after, parse
from mayfly.cql.script_files import text_of
from mayfly.display import encodable
from mayfly.optimizer.optimize import check_rule_names
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.explanation import Explanation
from mayfly.plan.catalog import ArchiveDefinition, Catalog, QueryDefinition
from mayfly.plan.strategy import Strategy

if TYPE_CHECKING:
    from mayfly.physical.explain.shared_parts import Together


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
    sharing: Annotated[
        bool, typer.Option("--sharing", help="Show which queries answer from the same panes.")
    ] = False,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            help="With --sharing: a query that is not in the file, as CREATE QUERY …, and what it "
            "would cost; may be repeated.",
        ),
    ] = None,
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="With --sharing: print a drawing for Mermaid.")
    ] = False,
) -> None:
    """Show the plan of every query in a file: update patterns, state, cost, warnings."""
    if sharing:
        with refusals():
            check_rule_names(without or ())
            text = _sharing_text(file, add or [], strategy, without or [], json, mermaid)
        typer.echo(encodable(text))
        return
    with refusals():
        if add or mermaid:
            raise CqlError("--add and --mermaid say more about sharing", "use them with --sharing")
        check_rule_names(without or ())
        statements = statements_of(file)
        queries = _chosen(queries_of(statements, file), query or [], file)
        catalog = catalog_after(statements)
        shown = [
            (each, _explained(each, catalog, strategy, without or [], compare or each.compare))
            for each in queries
        ]
        running = [each for each in queries if each.registered]
        shared = _shared(statements, running, strategy, without)
        asked = _sharing_asked(statements, strategy, without or [])
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
        for text in asked:
            typer.echo(encodable(f"== sharing\n{text}"))


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
    from mayfly.physical.explain.shared_parts import together
    from mayfly.physical.plan_programs import programs_of_plans

    plans = {each.name: each.plan for each in queries}
    return together(programs_of_plans(plans, catalog_after(statements), strategy, without or []))


def _registered(statements: list[Statement]) -> list[Query]:
    return [
        Query(definition.name, "", definition.plan, registered=True)
        for statement in statements
        if isinstance(statement, Create)
        and isinstance(definition := statement.definition, QueryDefinition | ArchiveDefinition)
    ]


def _sharing_asked(
    statements: list[Statement], strategy: Strategy, without: list[str]
) -> list[str]:
    """The answers to EXPLAIN SHARING in a file, each over the queries that are declared before."""
    from mayfly.periodic.sharing.pane_covers import sharing_with_covers

    texts = []
    for index, statement in enumerate(statements):
        if isinstance(statement, ExplainSharing):
            before = statements[:index]
            plans = {each.name: each.plan for each in _registered(before)}
            explained = sharing_with_covers(plans, catalog_after(before), strategy, without)
            texts.append(explained.shown(statement.form))
    return texts


def _sharing_text(
    file: Path, added: list[str], strategy: Strategy, without: list[str], json: bool, mermaid: bool
) -> str:
    """EXPLAIN SHARING of the queries of a file, and of some that are not in it yet."""
    from mayfly.periodic.sharing.pane_covers import sharing_with_covers

    text = text_of(file).rstrip().removesuffix(";")
    statements = parse("\n;\n".join([text, *added]), name=str(file))
    every = _registered(statements)
    names = {each.name for each in _registered(statements_of(file))}
    plans = {each.name: each.plan for each in every}
    explained = sharing_with_covers(plans, catalog_after(statements), strategy, without)
    if mermaid:
        return explained.mermaid()
    newcomers = [each.name for each in every if each.name not in names]
    if json:
        values = explained.values() | {"added": {n: explained.added_cost(n) for n in newcomers}}
        return json_text.dumps(values, indent=2, ensure_ascii=False)
    lines = [f"added {name}: {explained.added_cost(name)['words']}" for name in newcomers]
    return "\n".join([explained.text(), *lines])


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
