"""A name met in a message, a traceback or a listing says what it names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "mayfly"
GERUNDS = {
    "early_pruning": "a rewrite is named after what it does, as the thesis calls it",
    "late_pending": "the thesis's name for this policy",
    "late_sharing": "the thesis's name for this policy",
    "no_sharing": "the thesis's name for this policy",
    "running": "the thesis's name for this synopsis",
    "scheduling": "the thesis's name for these policies",
    "serving": "a package named after a stage that answers pass",
    "sharing": "the thesis's name for these rules",
    "testing": "where Python's users look for a test kit (numpy.testing)",
}
"""Modules that may be named after an activity, and why."""


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


def gerunds(modules: Iterable[str]) -> set[str]:
    return {name for name in modules if name.endswith("ing")}


def test_modules_are_nouns() -> None:
    files = SOURCE.rglob("*.py")
    modules = {path.parent.name if path.stem == "__init__" else path.stem for path in files}
    assert gerunds(modules) == set(GERUNDS)


def test_a_module_that_is_no_noun_is_noticed() -> None:
    assert gerunds(["staged_rows", "staging"]) == {"staging"}
