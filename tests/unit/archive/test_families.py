"""Nobody asks which family an archive belongs to: the family answers."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from mayfly.archive.families import Cells, Counts, Waves
from mayfly.archive.model.declaration import WindowRequest
from mayfly.archive.model.family import Family
from mayfly.archive.model.lifetime_declaration import LifetimeRequest
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.errors import InvalidSetting

SOURCE = Path(__file__).parents[3] / "src" / "mayfly"
ROOMS = ("archive/", "spark/archive/", "spark/api/session.py", "cli/archive")
KINDS = {"WaveLayout", "PartitionedLayout", "Waves", "Cells", "Counts", "CellAdvice"}
TELLING = {"lifetimes", "counts", "positions"}
"""What archives of one family have and those of another lack."""

JUSTIFIED = {
    "archive/model/family.py::family_of": (2, "chooses the family"),
    "archive/model/settings.py::wave": (1, "the layout with its type, or a clear error"),
    "archive/model/settings.py::cells": (1, "the layout with its type, or a clear error"),
    "archive/model/settings.py::_stored_layout": (1, "reads the stored declaration"),
    "archive/model/state.py::to_json": (1, "manifests leave out what is empty"),
    "archive/model/lifetimes.py::to_json": (1, "manifests leave out what is empty"),
    "archive/model/lifetimes.py::__post_init__": (1, "checks a declaration"),
    "archive/model/lifetimes.py::declared_lifetimes": (1, "reads a declaration"),
    "cli/archive_updates.py::create": (2, "reads options"),
    "cli/archive_updates.py::_counts": (1, "reads options"),
}


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _conditions(node: ast.AST) -> Iterator[ast.AST]:
    """Expressions that are taken for true or false."""
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        yield node.test
    elif isinstance(node, ast.comprehension):
        yield from node.ifs
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Call) and _name(node.func) == "bool":
        yield from node.args


def _asks(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and _name(node.func) == "isinstance":
        return bool({_name(part) for part in ast.walk(node.args[1])} & KINDS)
    if isinstance(node, ast.Match):
        return _name(node.subject) in {"layout", "family", *TELLING}
    if isinstance(node, ast.Compare):
        if isinstance(node.left, ast.Constant):
            return node.left.value in TELLING and isinstance(node.ops[0], ast.In)
        return _name(node.left) in TELLING and isinstance(node.ops[0], ast.Is | ast.IsNot)
    return False


def sites(source: str) -> Iterator[tuple[str, int]]:
    """(function, line) of every place that asks for the family."""
    seen: set[ast.AST] = set()

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        tested = [one for one in _conditions(node) if _name(one) in TELLING]
        for asking in [*tested, *([node] if _asks(node) else [])]:
            if asking not in seen:
                seen.add(asking)
                yield function, asking.lineno  # type: ignore[attr-defined]
        for inner in ast.iter_child_nodes(node):
            yield from visit(inner, function)

    yield from visit(ast.parse(source), "")


def test_the_sites_that_ask_are_those_with_a_reason() -> None:
    places: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(ROOMS):
            text = path.read_text(encoding="utf-8")
            places.update(f"{name}::{function}" for function, _ in sites(text))
    assert places == {place: number for place, (number, _) in JUSTIFIED.items()}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("def f(s):\n    return 1 if s.lifetimes is None else 2", 1),
        ("def f(s):\n    return isinstance(s.layout, WaveLayout | PartitionedLayout)", 1),
        ("def f(s):\n    if s.lifetimes and s.lifetimes.counts:\n        pass", 1),
        ("def f(s):\n    if not s.counts:\n        pass", 1),
        ("def f(s):\n    match s.layout:\n        case _:\n            pass", 1),
        ("def f(s):\n    return s.family.horizon(1)", 0),
    ],
)
def test_a_planted_site_is_noticed(text: str, number: int) -> None:
    assert len(list(sites(dedent(text)))) >= number
    assert bool(list(sites(dedent(text)))) == bool(number)


ROWS = "k STRING, ts TIMESTAMP, exp TIMESTAMP, n BIGINT"
WAVES = WindowRequest(ROWS, key="k", window=7).declaration().settings
CELLS = LifetimeRequest(ROWS, key="k", max_lifetime="7 days").declaration().settings
COUNTS = (
    LifetimeRequest(ROWS, key="k", max_lifetime="7 days", counts={"n": 100}).declaration().settings
)


@pytest.mark.parametrize(("settings", "family"), [(WAVES, Waves), (CELLS, Cells), (COUNTS, Counts)])
def test_settings_choose_their_family_once(settings: ArchiveSettings, family: type[Family]) -> None:
    assert type(settings.family) is family
    assert settings.family is settings.family
    again = ArchiveSettings.from_json(settings.to_json())
    assert again == settings
    assert type(again.family) is family


def test_a_layout_of_another_family_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="not for rows that live equally long"):
        _ = CELLS.wave
    with pytest.raises(InvalidSetting, match="not for rows with their own lifetimes"):
        _ = WAVES.cells


def test_every_family_answers_every_question() -> None:
    questions = {name for name in vars(Family) if not name.startswith("_")}
    for family in (Waves, Cells, Counts):
        assert questions - set(dir(family)) == set()
