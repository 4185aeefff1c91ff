"""Edits check themselves: a commit that contradicts its base changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mayfly.errors import InvalidEdit
from mayfly.storage import (
    AddSegments,
    Bounds,
    DropSegments,
    Edit,
    MoveSegments,
    Repository,
    SetProperties,
    TagSegment,
)
from tests.unit.storage.rows import segment


def test_a_segment_moves_gets_tags_and_goes(repository: Repository) -> None:
    one = segment(repository, [1])
    manifest = repository.commit(repository.current(), [AddSegments((one,))])
    manifest = repository.commit(manifest, [MoveSegments((one.path,), "elsewhere")])
    assert [s.group for s in manifest.segments.values()] == ["elsewhere"]
    manifest = repository.commit(manifest, [TagSegment(one.path, {"dead": [0, 2]})])
    assert manifest.segments[one.path].tags == {"dead": [0, 2]}
    assert manifest.segments[one.path].group == "elsewhere"
    manifest = repository.commit(manifest, [DropSegments.of([one])])
    assert manifest.segments == {}


def test_properties_are_merged(repository: Repository) -> None:
    manifest = repository.commit(repository.current(), [SetProperties({"a": 1, "b": 2})])
    manifest = repository.commit(manifest, [SetProperties({"b": 3})])
    assert manifest.properties == {"made": "here", "a": 1, "b": 3}


def test_what_a_commit_returns_is_what_a_reader_finds(repository: Repository) -> None:
    """Tuples and number keys change in a file; nobody may rely on them in memory."""
    one = segment(repository, [1], tags={"pair": (1, 2)})
    edits: list[Edit] = [AddSegments((one,)), SetProperties({"t": (1, (2,)), "d": {1: "x"}})]
    manifest = repository.commit(repository.current(), edits)
    assert manifest == repository.current()
    assert manifest.properties["t"] == [1, [2]]
    assert manifest.properties["d"] == {"1": "x"}


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1, 2}, object()], ids=["nan", "inf", "set", "object"]
)
def test_what_a_file_cannot_hold_is_refused(repository: Repository, value: Any) -> None:
    base = repository.current()
    with pytest.raises(InvalidEdit, match="a property cannot be stored"):
        repository.commit(base, [SetProperties({"bad": value})])
    one = segment(repository, [1], tags={"bad": value})
    with pytest.raises(InvalidEdit, match=f"a tag of {one.path} cannot be stored"):
        repository.commit(base, [AddSegments((one,))])
    assert repository.versions() == [0]


def test_contradictions_are_refused_and_change_nothing(repository: Repository) -> None:
    one = segment(repository, [1])
    base = repository.commit(repository.current(), [AddSegments((one,))])
    wrong: list[tuple[Edit, str]] = [
        (AddSegments((one,)), "already in the manifest"),
        (DropSegments(("data/none",)), "data/none is not in the manifest"),
        (DropSegments((one.path, one.path)), "is not in the manifest"),
        (MoveSegments(("data/none",), "g"), "is not in the manifest"),
        (TagSegment("data/none", {}), "is not in the manifest"),
        (AddSegments((replace(one, path="manifest/x.json"),)), "lies outside data/"),
        (AddSegments((replace(one, path="data/../x"),)), "lies outside data/"),
        (AddSegments((replace(one, path="data/./x"),)), "lies outside data/"),
        (AddSegments((replace(one, path="data/n", rows=0),)), "no row that could be alive"),
        (AddSegments((replace(one, path="data/n", exp=Bounds(0, 1)),)), "no row that could be"),
    ]
    for edit, message in wrong:
        with pytest.raises(InvalidEdit, match=message) as caught:
            repository.commit(base, [SetProperties({"x": 1}), edit])
        assert caught.value.hint
    assert repository.current() == base


def test_a_segment_added_and_dropped_at_once_needs_no_file(repository: Repository) -> None:
    one = segment(repository, [1])
    repository.directory.remove(one.path)
    manifest = repository.commit(
        repository.current(), [AddSegments((one,)), DropSegments.of([one])]
    )
    assert manifest.segments == {}
