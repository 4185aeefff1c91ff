"""Up to where queries were answered is kept for the next server; two notice each other."""

from __future__ import annotations

from pathlib import Path

from mayfly.serving.periodic.answer_positions import AnswerPositions
from mayfly.storage.directory import Directory


def positions(folder: Path, notes: list[str]) -> AnswerPositions:
    return AnswerPositions(Directory.at(folder), "one", notes.append)


def test_two_servers_of_one_checkpoint_notice_each_other(tmp_path: Path) -> None:
    notes: list[str] = []
    first, second = positions(tmp_path, notes), positions(tmp_path, [])
    first.store({"q": 1}, {"s": {"read": 0.1, "second": 0.3, "workers": 1}})
    first.store({"q": 2})
    assert positions(tmp_path, [])["q"] == 2
    assert not notes
    second.store({"q": 1})
    first.store({"q": 3})
    second.store({"q": 2})
    first.store({"q": 4})
    assert len(notes) == 1
    assert "another server answers" in notes[0]


def test_positions_of_another_checkpoint_are_not_taken_over(tmp_path: Path) -> None:
    positions(tmp_path, []).store({"q": 5})
    other = AnswerPositions(Directory.at(tmp_path), "other", print)
    assert not other
