"""The files that CONTRIBUTING.md sends people to are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TASKS = [
    line
    for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| .*`src/mayfly/.*\|.*`tests/", line)
]
MOST_FILES = 4
TOPICS = (
    "an aggregate", "a scalar function", "a window kind", "an operator", "an optimizer rule",
    "a sink", "a source", "an archive layout", "the manifest format", "a command",
    "a figure in status", "a synopsis", "a scheduler",
)  # fmt: skip
"""What people come to change."""


def paths(task: str) -> list[str]:
    return re.findall(r"`((?:src|tests|docs)/[^`]*)`", task)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_has_a_row(topic: str) -> None:
    assert [task for task in TASKS if re.match(rf"\| {topic}\b", task)]


@pytest.mark.parametrize("task", TASKS)
def test_the_files_of_a_task_are_there(task: str) -> None:
    assert [name for name in paths(task) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_few_files(task: str) -> None:
    assert len([name for name in paths(task) if name.startswith("src/")]) <= MOST_FILES
