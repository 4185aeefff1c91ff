"""A word that names a module or a public class is explained in the glossary."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import mayfly

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mayfly"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
PACKAGES = ("periodic", "synopses", "windows", "archive")
SENTENCES = {SOURCE / "optimizer" / "rules", SOURCE / "periodic" / "sharing"}
"""Rules are named by what they do, and each explains itself by an example."""
PLAIN = """
access added api app application approximate arithmetic array cast cause cli client compilation
compiler completeness computed connection context covariance date demo display distinct element
erase error exact execution explainer failed field figure filter free guarded http intersection io
jar json keyword literal loop
main manual mayfly media migrate move mutation nested note observation openapi optimize option page
pair parameter parser path picture pool posix printed problem prompt random recent regex register
requested restart runtime search seeded serve server shell signal smaller split stateless story
subquery sum svg testing throw top traffic type view warning xxhash zone
"""
"""Plain English, SQL and computing: words that mean here what they mean everywhere."""


def singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def words(name: str) -> set[str]:
    """The words of a name such as ``sub_index``, ``SlidingWindow`` or ``xxhash64``, in singular."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name.replace("synopses", "synopsis"))
    return {singular(word.lower()) for word in parts}


def unexplained(names: Iterable[str], glossary: str) -> dict[str, str]:
    """Each word that neither the glossary has nor everybody knows, with a name that has it."""
    explained = words(glossary) | set(PLAIN.split())
    return {word: name for name in names for word in sorted(words(name) - explained)}


def module_names() -> set[str]:
    files = (path for path in SOURCE.rglob("*.py") if path.parent not in SENTENCES)
    return {path.parent.name if path.stem == "__init__" else path.stem for path in files}


def public_names() -> set[str]:
    classes = {
        name
        for package in PACKAGES
        for name, _ in inspect.getmembers(import_module(f"mayfly.{package}"), inspect.isclass)
    }
    return classes | set(dir(mayfly))


def test_every_word_of_a_name_is_in_the_glossary() -> None:
    assert unexplained(sorted(module_names() | public_names()), GLOSSARY) == {}


def test_plain_words_are_in_use() -> None:
    used = set().union(*map(words, module_names() | public_names()))
    assert sorted(set(PLAIN.split()) - used) == []


def test_a_word_that_is_missing_is_noticed() -> None:
    assert unexplained(["wave_gizmos", "PaneGizmo"], "wave, pane") == {"gizmo": "PaneGizmo"}
    assert unexplained(["panes"], GLOSSARY.replace("pane", "piece")) == {"pane": "panes"}
