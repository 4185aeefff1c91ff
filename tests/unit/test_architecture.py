"""The files and names that ARCHITECTURE.md sends readers to are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mayfly"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
STEPS = [line for line in TEXT.splitlines() if re.match(r"\|.*\|.*`.*\.py`.*\|.*\|$", line)]


def place(name: str) -> Path | None:
    """What a path in the text leads to."""
    return next((top / name for top in (SOURCE, ROOT) if (top / name).exists()), None)


def undefined(step: str) -> list[str]:
    """The names of a step that no file of it defines."""
    files, names = (re.findall(r"`([^`]*)`", column) for column in step.split("|")[2:4])
    texts = [(place(file) or ROOT).read_text(encoding="utf-8") for file in files]
    return [
        name
        for name in names
        if not any(re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE) for text in texts)
    ]


def test_the_steps_are_found() -> None:
    assert len(STEPS) > 40


@pytest.mark.parametrize("name", sorted(set(re.findall(r"[\w/]+\.py\b|`[\w/]+/`", TEXT))))
def test_a_path_leads_somewhere(name: str) -> None:
    assert place(name.strip("`")), name


@pytest.mark.parametrize("step", STEPS)
def test_what_to_look_for_is_there(step: str) -> None:
    assert undefined(step) == []


def test_a_name_that_is_gone_is_noticed() -> None:
    assert undefined("| a probe | `archive/read/questions.py` | `probe`, `asked` |") == ["asked"]
