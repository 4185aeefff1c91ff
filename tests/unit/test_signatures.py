"""Signatures that a reader takes in at a glance, and that editors can complete.

A function has at most a dozen parameters; settings beyond these are named in a ``TypedDict``, which
type checkers, editors and ``inspect.signature`` show. Bare ``**settings`` would hide them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from inspect import Parameter, signature
from pathlib import Path

import mayfly
import mayfly.archive
from mayfly.archive.archive_options import (
    ArchiveOptions,
    CommonOptions,
    LifetimeOptions,
    WindowOptions,
)
from mayfly.archive.change.migration import Migration
from mayfly.archive.change.requested_changes import ChangeOptions, Changes
from mayfly.archive.model.declaration import WindowRequest
from mayfly.archive.model.lifetime_declaration import LifetimeRequest
from mayfly.storage.segment import SegmentOptions, SegmentWriter
from mayfly.testing.connections import LinkOptions, tcp_connections
from mayfly.windows.window import RangeOptions, SlidingWindow

SOURCE = Path(mayfly.__file__).parent
MOST_PARAMETERS = 12
COMMAND = "the options of a command are its parameters, and typer reads them off the function"
COMPILED = "compiled: numba takes arrays and numbers, no values"
MANY_PARAMETERS = {
    "cli/archive_command.py::probe": COMMAND,
    "cli/archive_lifetimes.py::migrate": COMMAND,
    "cli/archive_updates.py::create": COMMAND,
    "cli/query_command.py::query_command": COMMAND,
    "cli/run_command.py::run_command": COMMAND,
    "cli/serve_command.py::serve_command": COMMAND,
    "kernels/asof_view.py::_partners": COMPILED,
    "kernels/exact_variances.py::_play": COMPILED,
    "kernels/multiway_probe.py::_meet": COMPILED,
}
NAMES_ARE_DATA = "the names are the caller's: columns, members, queries, figures"
OPEN_KEYWORDS = {
    "archive/archive_options.py::chosen_options": NAMES_ARE_DATA,
    "cql/dialect.py::parse_set_operation": "a method of sqlglot, as it declares it",
    "demo/driver.py::send": NAMES_ARE_DATA,
    "kernels/delta.py::with_numbers": NAMES_ARE_DATA,
    "keywords.py::checked": "passes on what any function is given",
    "plan/types.py::struct": NAMES_ARE_DATA,
    "spark/api/session.py::queries": NAMES_ARE_DATA,
    "storage/manifest.py::followed_by": NAMES_ARE_DATA,
}


@cache
def functions() -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return list(_functions())


def _functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE).as_posix()}::{node.name}", node


def test_few_functions_have_more_parameters_than_a_dozen() -> None:
    many = set()
    for name, node in functions():
        listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if len({parameter.arg for parameter in listed} - {"self", "cls"}) > MOST_PARAMETERS:
            many.add(name)
    assert many == MANY_PARAMETERS.keys()


def test_settings_by_name_are_listed_somewhere() -> None:
    bare = set()
    for name, node in functions():
        keywords = node.args.kwarg
        hidden = node.name.startswith("_") and not node.name.startswith("__")
        if keywords is not None and not hidden:
            kind = "" if keywords.annotation is None else ast.unparse(keywords.annotation)
            if not kind.startswith("Unpack[") and kind != "P.kwargs":
                bare.add(name)
    assert bare == OPEN_KEYWORDS.keys()


def keyword_only(function: object) -> set[str]:
    parameters = signature(function).parameters.values()  # type: ignore[arg-type]
    return {each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY}


def test_what_is_listed_is_what_there_is() -> None:
    assert set(ChangeOptions.__annotations__) == {field.name for field in fields(Changes)}
    assert set(SegmentOptions.__annotations__) == keyword_only(SegmentWriter)
    assert set(RangeOptions.__annotations__) == keyword_only(SlidingWindow)
    assert {*LinkOptions.__annotations__, "seed"} == keyword_only(tcp_connections)
    own = {"key", "window", "refresh"}
    common, windows = set(CommonOptions.__annotations__), set(WindowOptions.__annotations__)
    assert (common - {"expect"}) | windows | own == keyword_only(WindowRequest)
    own, lifetimes = {"key", "max_lifetime", "refresh"}, set(LifetimeOptions.__annotations__)
    assert (common - {"expect"}) | lifetimes | own == keyword_only(LifetimeRequest)
    assert set(ArchiveOptions.__annotations__) == common | windows | lifetimes


def test_signatures_show_what_is_listed() -> None:
    assert set(ArchiveOptions.__annotations__) < keyword_only(mayfly.archive.create)
    assert set(ChangeOptions.__annotations__) < keyword_only(Migration.migrate)
    assert set(RangeOptions.__annotations__) == keyword_only(mayfly.windows.over_range)
