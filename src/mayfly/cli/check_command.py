"""``mayfly check``: whether a file of queries is right and can run, before anything is started.

What it imports is what a plain file needs: to load kernels or Arrow takes longer than to check one.
"""

from __future__ import annotations

import json as json_text
from dataclasses import dataclass
from typing import Annotated

import typer

from mayfly.cli.file_queries import File, Query, queries_of
from mayfly.cli.options import AllowPython, Conf, spark_settings
from mayfly.cli.output import refusals
from mayfly.cql import catalog_after
from mayfly.display import counted, encodable
from mayfly.optimizer.optimize import optimize
from mayfly.optimizer.plan_warnings import Warned
from mayfly.patterns import Label
from mayfly.physical.concerns import answer_label, foreseen_warnings
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.plan.catalog import Catalog


def check_command(
    file: File,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    conf: Conf = None,
    allow_python: AllowPython = False,
) -> None:
    """Check a file: its statements, names, types, sources and sinks, and whether it can run."""
    with refusals():
        settings = spark_settings(conf)
        declared = PipelineFile.before_spark(file, settings, allow_python=allow_python)
        statements = list(declared.statements)
        catalog = catalog_after(statements)
        queries = queries_of(statements, file)
        checked = [_checked(query, catalog) for query in queries]
    if json:
        values = {
            "file": str(file),
            "statements": len(statements),
            "queries": [query.to_json() for query in checked],
        }
        typer.echo(encodable(json_text.dumps(values, indent=2, ensure_ascii=False)))
        return
    for query in checked:
        typer.echo(f"{query.name}: {query.label}")
        for warning in query.warnings:
            typer.echo(f"  warning: {warning.message}\n    → {warning.hint}")
    if any(query.plan.serve is not None for query in queries):
        from mayfly.cli.serving_advice import advice

        for line in advice(queries, file.with_suffix(".state")):
            typer.echo(encodable(line))
    typer.echo(
        f"{file}: {counted(len(statements), 'statement')}, "
        f"{counted(len(checked), 'query', 'queries')}, no errors"
    )


@dataclass(frozen=True)
class CheckedQuery:
    """What is said of a query that is right."""

    name: str
    label: Label
    warnings: tuple[Warned, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "pattern": self.label.pattern.name,
            "reason": self.label.reason,
            "warnings": [{"message": w.message, "hint": w.hint} for w in self.warnings],
        }


def _checked(query: Query, catalog: Catalog) -> CheckedQuery:
    """A plan is compiled, which loads the kernels, only where its warnings are not foreseen."""
    optimized = optimize(query.plan)
    if (warnings := foreseen_warnings(optimized, catalog)) is not None:
        return CheckedQuery(query.name, answer_label(optimized), warnings)
    from mayfly.physical.explain.explainer import plan_physically

    physical = plan_physically(optimized, catalog)
    return CheckedQuery(query.name, physical.answer.label, physical.warnings)
