"""Operators describe themselves: nobody outside asks for their class, or probes for members."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import mayfly.kernels
from mayfly.kernels.operator import Operator

SOURCE = Path(__file__).parents[2] / "src" / "mayfly"
MEMBERS = {name for name in vars(Operator) if not name.startswith("_")}


def kinds(kind: type[Operator]) -> Iterator[type[Operator]]:
    for operator in kind.__subclasses__():
        yield operator
        yield from kinds(operator)


for module in pkgutil.iter_modules(mayfly.kernels.__path__, "mayfly.kernels."):
    importlib.import_module(module.name)  # the compiler loads each with the first plan that has it
OPERATORS = {operator.__name__ for operator in kinds(Operator)}


def questions(text: str, operators: set[str], members: set[str]) -> list[int]:
    """The lines that ask for an operator's class or whether it has a member."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kind]):
                named = {name.id for name in ast.walk(kind) if isinstance(name, ast.Name)}
            case ast.Call(func=ast.Name(id="hasattr" | "getattr"), args=[_, member, *_]):
                probed = isinstance(member, ast.Constant) and member.value in members
                lines += [node.lineno] if probed else []
                continue
            case ast.MatchClass(cls=ast.Name(id=name)):
                named = {name}
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=[kind]):
                named = {name.id for name in ast.walk(kind) if isinstance(name, ast.Name)}
            case _:
                continue
        lines += [node.lineno] if named & operators else []
    return lines


def test_nobody_asks_for_the_class_of_an_operator() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in questions(path.read_text(encoding="utf-8"), OPERATORS, MEMBERS)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(task.operator, JoinRows)",
        "isinstance(operator, GroupRows | WindowRows)",
        "match operator:\n    case WindowRows(window=w): pass",
        "type(operator) is AntiJoinRows",
        "hasattr(operator, 'spread_by')",
        "getattr(operator, 'dual', False)",
    ],
)
def test_a_planted_question_is_noticed(text: str) -> None:
    assert len(questions(text, OPERATORS, MEMBERS)) == 1
    assert not questions(text, {"Other"}, set())


@pytest.mark.parametrize("kind", list(kinds(Operator)))
def test_operators_with_states_name_what_these_are_found_by(kind: type[Operator]) -> None:
    abstract = kind.__name__ in ("Alone", "OfClosest", "OfPartitions", "Passing")
    assert ("state_key" in vars(kind)) is not abstract
