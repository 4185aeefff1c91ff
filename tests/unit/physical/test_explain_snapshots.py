"""One file per explained plan. MAYFLY_UPDATE_GOLDEN=1 writes them anew: read the difference."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest

from mayfly.plan.strategy import Strategy
from tests.unit.physical.explain_cases import FOLDER, QUERIES, explanation


def as_text(name: str) -> str:
    return explanation(name).text()


SNAPSHOTS: dict[str, Callable[[], str]] = {
    **{f"{name}.txt": partial(as_text, name) for name in QUERIES},
    "joined_without-compare.txt": lambda: explanation("joined_without", compare=True).text(),
    "joined_without-NT.txt": lambda: explanation("joined_without", Strategy.NT).text(),
    "joined_without-DIRECT.txt": lambda: explanation("joined_without", Strategy.DIRECT).text(),
    "sources-strict.txt": lambda: explanation("sources", without=("weak-distinct",)).text(),
    "joined_without.json": lambda: explanation("joined_without").json(),
    "joined_without.svg": lambda: explanation("joined_without").svg(),
    "with_owner.svg": lambda: explanation("with_owner").svg(),
    "joined_without-compare.html": lambda: explanation("joined_without", compare=True).html(),
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_snapshot(name: str) -> None:
    text = SNAPSHOTS[name]()
    path = FOLDER / name
    if os.environ.get("MAYFLY_UPDATE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()


def test_no_snapshot_is_left_over() -> None:
    kept = {path.name for path in FOLDER.iterdir()} - {"queries.cql"}
    assert kept == set(SNAPSHOTS)
