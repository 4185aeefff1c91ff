"""Names in the source are nouns of the domain: a pronoun makes its reader look up what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mayfly"
PRONOUNS = {"one", "at", "found", "known", "wanted", "given", "told"}
PUBLIC = {
    ("archive/updates.py", "at"),  # archive.update(batch, at=…)
    ("cli/archive_updates.py", "at"),  # mayfly archive update --at
}
"""Words that users write."""


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names that are given to variables, arguments, captures and functions, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) if name != "at":  # Directory.at(path) is no pronoun
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)):
                yield node.lineno, name


def test_names_are_nouns() -> None:
    pronouns = [
        f"{path.relative_to(SOURCE)}:{line}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, name in bound_names(ast.parse(path.read_text()))
        if name.strip("_") in PRONOUNS and (str(path.relative_to(SOURCE)), name) not in PUBLIC
    ]
    assert not pronouns, "name the thing:\n" + "\n".join(pronouns)


@pytest.mark.parametrize(
    "source",
    [
        "found = 1", "def f(at): ...", "def told(): ...", "[one for one in ()]", "x.known = 1",
        "match x:\n    case [one, *_]: ...", "try: ...\nexcept E as found: ...", "(known := 2)",
        "for wanted, _ in (): ...", "def _told(): ...", "def f(*, one=1): ...", "lambda given: 1",
    ],
)  # fmt: skip
def test_every_way_to_bind_a_name_is_seen(source: str) -> None:
    assert PRONOUNS & {name.strip("_") for _, name in bound_names(ast.parse(source))}
