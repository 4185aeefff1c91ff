"""A function with an effect is a verb in the imperative: ``erase_due``, not ``erased``.

Two signs of an effect can be seen in the source: a function that returns nothing exists for its
effect alone, and one that commits or writes files changes what is stored. What this cannot see:
functions that return a value and change objects on the way, and those that write through others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mayfly"
STORES = {"commit", "put_if_absent", "write_segment"}
"""What is called by functions that change what is stored."""
VERBS = """
abandon abort account act add admit advance advise append apply arrive ascend assert attach await
balance begin cancel carry catch chain change check choose claim clean clear close collect commit
connect count create declare deliver derive describe die discard drop end enlist enter erase
evaluate execute expect expire extend feed fill finish fit fix follow forget gather grow hand
hasten hear help hold insert interpret interrupt invalidate join keep kill lay leave let lift limit
link list listen load log look make mark match measure merge migrate move multiply name narrow need
note notify open order pack parse pass pause persist place plan play pool prepare print process
prune publish push put raise rank reach read rebuild receive recode record refresh refuse register
relabel release remove replace require reset resize restore resume retain rewrite rollback round
run save send serve set settle show shrink sink skip slide spill split spread start stay step stop
store subtract sum sync take talk tell touch try unchain undo unite update upgrade use vacuum wait
warm watch widen work write
"""
PUBLIC = {
    "every": "window.every(k, function): a watch, as users say it",
    "nrr": "session.nrr(…) declares one, as CREATE NRR does",
    "on_relabel": "says when the function that is handed over is called",
    "aggregate": "session.aggregate(…) declares one, as CREATE AGGREGATE does",
    "relation": "session.relation(…) declares one, as CREATE RELATION does",
    "stream": "session.stream(…) declares one, as CREATE STREAM does",
    "view": "session.view(…) declares one, as CREATE VIEW does",
    "main": "the name of an entry point",
    "demo": "the command mayfly demo",
    "_options": "the options of mayfly itself, as its help shows them",
    "_summarized": "stands for a command in the list of all, and is never run",
    **dict.fromkeys(
        ("connection_made", "data_received", "connection_lost", "timeout_keep_alive_handler"),
        "names of asyncio and uvicorn",
    ),
}
"""Names that users write or that others fix, and why."""
CONTEXTS = {"contextmanager", "property", "cached_property", "command", "callback"}
"""Decorators that make something else of a function: a context, a value, a command."""


def effects(source: str) -> Iterator[tuple[int, str]]:
    """Functions that show an effect, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        if CONTEXTS & set(map(_decorator, node.decorator_list)):
            continue
        if node.name.startswith(("__", "onQuery")):  # names of Python and Spark
            continue
        calls = {_called(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
        nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
        answers = isinstance(node.body[-1], ast.Return)  # None is the value of ``return None``
        if (nothing and not answers) or STORES & calls:
            yield node.lineno, node.name


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _decorator(node: ast.expr) -> str:
    return _called(node.func if isinstance(node, ast.Call) else node)


def is_imperative(name: str) -> bool:
    words = name.strip("_").split("_")
    return words[0] in VERBS.split() or words[-1] == "command" or name in PUBLIC


def test_effects_are_verbs() -> None:
    nouns = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in effects(path.read_text())
        if not is_imperative(name)
    ]
    assert not nouns, "name the effect, or add its verb to the list:\n" + "\n".join(nouns)


@pytest.mark.parametrize(
    "source",
    [
        "def erased(self) -> None: ...",
        "def migrated(self) -> Manifest:\n    return self.repository.commit(base, edits)",
        "def rest(directory):\n    return write_segment(directory)",
    ],
)
def test_an_effect_in_the_clothes_of_a_value_is_noticed(source: str) -> None:
    assert [name for _, name in effects(source) if not is_imperative(name)]


def test_a_value_may_be_a_noun() -> None:
    assert not list(effects("@property\ndef latest(self) -> None: ...\ndef size() -> int: ..."))
