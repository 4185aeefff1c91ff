"""Errors say what was wrong and what to do, and survive the trip between processes."""

from __future__ import annotations

import copy

import pytest

import mayfly.errors
from mayfly.errors import MayflyError

ERRORS = [
    kind
    for kind in vars(mayfly.errors).values()
    if isinstance(kind, type) and issubclass(kind, MayflyError)
]


def test_a_message_with_a_hint_shows_both() -> None:
    error = MayflyError("the slack is negative", "use 0 or more")
    assert str(error) == "the slack is negative\n  → use 0 or more"
    assert str(MayflyError("no hint here")) == "no hint here"


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_is_documented_and_copies_whole(kind: type[MayflyError]) -> None:
    assert kind.__doc__
    twin = copy.copy(kind("what", "do this"))
    assert type(twin) is kind
    assert (twin.message, twin.hint, str(twin)) == ("what", "do this", "what\n  → do this")


def test_there_is_one_base_class() -> None:
    defined = [
        kind
        for kind in vars(mayfly.errors).values()
        if isinstance(kind, type) and kind.__module__ == "mayfly.errors"
    ]
    assert len(defined) > 5
    assert all(issubclass(kind, MayflyError) for kind in defined)
