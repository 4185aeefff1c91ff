"""Archives of rows with their own lifetimes that are killed, in processes of their own.

The program updates, declares rows void, and migrates; what comes next follows from where the
archive stands, so that it can be taken up after a kill at any point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import mayfly.archive
from mayfly import faults
from mayfly.archive import Archive
from mayfly.storage import Repository
from tests.faults import storage_program, storage_starter

LAST, VOID_AFTER, MOVED_AFTER, VOID_KEY = 10, 4, 6, 1
LAYOUTS: dict[str, dict[str, Any]] = {
    "erasing": {"layout": "lazy 2x2", "contract": "PHYSICAL WITHIN 100 us"},
    "plain": {"layout": "NoRebuild 2x2", "fan_in": 2},
}
MOVED_TO = "Rebuild 2x2"


def rows_of(update: int) -> list[tuple[int, int, int, str]]:
    """(key, ts, exp, text) of the rows that come with an update; the fifth has none."""
    if update == 5:
        return []
    now = 100 * update
    return [(n % 3, now - n, now + 60 * (n + 1), f"{update}/{n}") for n in range(5 + update % 2)]


def batch_of(update: int) -> pa.Table | None:
    rows = rows_of(update)
    if not rows:
        return None
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("k", "ts", "exp", "v"), map(list, columns), strict=True)))


def expected(update: int, void: bool) -> Counter[str]:
    """What is alive after an update, with or without what was declared void after the fourth."""
    return Counter(
        text
        for came in range(1, update + 1)
        for key, _, exp, text in rows_of(came)
        if exp > 100 * update and not (void and key == VOID_KEY and came <= VOID_AFTER)
    )


def play(root: str, kind: str, tidy: bool = True) -> None:
    """To the end; ``tidy`` removes after every update what a killed process has left behind."""
    if Repository.exists(root):
        archive = mayfly.archive.open(root)
    else:
        archive = mayfly.archive.create(
            root, "k BIGINT, ts BIGINT, exp BIGINT, v STRING", key="k", max_lifetime="400 us",
            refresh="100 us", origin=0, parts=2, **LAYOUTS[kind],
        )  # fmt: skip
    while (update := archive.version().state.update) < LAST:
        if update == VOID_AFTER:
            archive.invalidate([VOID_KEY])
        if update == MOVED_AFTER and archive.inspect.status().technique != "rebuild":
            archive.migrate(layout=MOVED_TO)
        archive.update(batch_of(update + 1), batch_id=f"batch {update + 1}")
        if tidy:
            archive.maintain.vacuum(grace=0)


def check(archive: Archive) -> int:
    """The archive shows one of the contents that its last update allows; its number."""
    update = archive.version().state.update
    found = Counter(archive.scan()["v"].to_pylist())
    allowed = [expected(update, update > VOID_AFTER)]
    if update == VOID_AFTER:
        allowed.append(expected(update, True))
    assert found in allowed, (update, found)
    report = archive.maintain.verify()
    late = [one for one in report.problems if "should be gone" not in one.what]
    assert not late, late
    return update


def killed(root: str, kind: str, at: str, tidy: bool = True) -> None:
    faults.kill_at(at)
    play(root, kind, tidy)


def times_reached(root: str, kind: str, points: list[str]) -> str:
    return storage_program.times_reached(points, partial(play, root, kind))


PROGRAMS: dict[str, Callable[..., str | None]] = {
    f"lifetimes {one.__name__}": one for one in (killed, times_reached)
}


starter = partial(storage_starter.starter, "tests.faults.lifetimes_program")


def opened(root: Path) -> Archive:
    return mayfly.archive.open(root)


if __name__ == "__main__":
    storage_program.PROGRAMS.update(PROGRAMS)
    storage_program.serve()
