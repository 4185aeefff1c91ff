"""Messages, docstrings and documents are plain English: phrases that stopped readers stay out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
STRANGE = re.compile(
    r"\b(1 (rows|files|queries|statements)|gave up|gives up|heed|(is|are|was|were|be) told"
    r"|(is|are|was|were|be) passed over|wants|nobody|anybody|somebody|whoever"
    r"|one of whom|stands for itself|by turns|those who|cannot stand)\b",
    re.IGNORECASE,
)
ELLIPTIC = re.compile(r"(Likewise|The same( (of|from|some|after|for|inside|before)\b|,))")
"""How a docstring begins that makes its reader look for the one before."""
NAMES = re.compile(r"``?[^`]*``?|'nobody'|[\d.]\d*1 rows|k \+ 1 rows")
"""Code in a text, and numbers that only end like a wrong plural."""


def literals(source: str) -> Iterator[tuple[int, str]]:
    """The texts of a source file that people may read, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def phrases(text: str) -> list[str]:
    begins = ELLIPTIC.match(text)
    strange = [match[0] for match in STRANGE.finditer(NAMES.sub("", text))]
    return [begins[0], *strange] if begins else strange


def test_texts_in_the_source_are_plain() -> None:
    strange = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for line, text in literals(path.read_text(encoding="utf-8"))
        for phrase in phrases(text)
    ]
    assert not strange, "\n".join(strange)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documents_are_plain(page: Path) -> None:
    assert phrases(page.read_text(encoding="utf-8")) == []


def test_a_strange_phrase_is_noticed() -> None:
    assert phrases("There is 1 rows, and nobody was told.") == ["1 rows", "nobody", "was told"]
    assert phrases("101 rows, k + 1 rows, ``nobody``") == []
    assert phrases("The same of keys.") == ["The same of"]
