"""A class name met in a message or a traceback says which class it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "mayfly"


def places_of_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Every class name with the places at which a class has it."""
    places = defaultdict(list)
    for file, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file}:{node.lineno}")
    return places


def repeated(sources: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: places for name, places in places_of_classes(sources).items() if len(places) > 1}


def test_class_names_are_unique() -> None:
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
    assert repeated(sources) == {}


def test_a_repeated_class_name_is_noticed() -> None:
    sources = {"one.py": "class Run: ...", "other.py": "def f():\n    class Run: ..."}
    assert repeated(sources) == {"Run": ["one.py:1", "other.py:2"]}
