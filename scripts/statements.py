"""Counts what the source says: statements without docstrings, and the share of docstrings.

A statement is a node of the syntax tree that is one (an ``if`` counts one, and so does each line of
its body); a docstring is none. The share is that of docstrings among modules, classes and
functions.

    python scripts/statements.py [FOLDER …]      default: src
    git archive COMMIT src | tar -x -C /tmp/then && python scripts/statements.py /tmp/then/src
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Count:
    """Of one file or of many."""

    files: int = 0
    statements: int = 0
    documented: int = 0
    docstrings: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.files + other.files,
            self.statements + other.statements,
            self.documented + other.documented,
            self.docstrings + other.docstrings,
        )

    @staticmethod
    def of(text: str) -> Count:
        """
        >>> Count.of("'''Doc.'''\\nif x:\\n    y = 1\\n")
        Count(files=1, statements=2, documented=1, docstrings=1)
        """
        nodes = list(ast.walk(ast.parse(text)))
        named = [one for one in nodes if isinstance(one, DOCUMENTED)]
        told = sum(ast.get_docstring(one) is not None for one in named)
        statements = sum(isinstance(one, ast.stmt) for one in nodes)
        return Count(1, statements - told, len(named), told)


def count(folder: Path) -> Count:
    """All Python files below a folder."""
    files = sorted(folder.rglob("*.py"))
    return sum((Count.of(file.read_text(encoding="utf-8")) for file in files), Count())


def main(folders: list[str]) -> None:
    for folder in folders or ["src"]:
        found = count(Path(folder))
        share = found.docstrings / found.documented if found.documented else 0.0
        print(
            f"{folder}: {found.files} files, {found.statements:,} statements, "
            f"docstrings at {found.docstrings:,} of {found.documented:,} "
            f"modules, classes and functions ({share:.1%})"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
