"""A file that grows past 500 lines lacks a concept: find its name, and give it a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
MOST_LINES = 500


def too_long(sources: Mapping[str, str]) -> dict[str, int]:
    lines = {file: text.count("\n") for file, text in sources.items()}
    return {file: count for file, count in lines.items() if count > MOST_LINES}


def test_files_are_short() -> None:
    files = SOURCE.rglob("*.py")
    assert too_long({str(path.relative_to(SOURCE)): path.read_text() for path in files}) == {}


def test_a_long_file_is_noticed() -> None:
    sources = {"short.py": "pass\n" * MOST_LINES, "long.py": "pass\n" * (MOST_LINES + 1)}
    assert too_long(sources) == {"long.py": MOST_LINES + 1}
