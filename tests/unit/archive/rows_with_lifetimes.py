"""Archives of rows that each have a lifetime, small enough to be looked at."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import mayfly.archive
from mayfly.archive import Archive
from mayfly.storage import EXP

DDL = "k BIGINT, ts BIGINT, exp BIGINT, id BIGINT"
P = 8
LAYOUTS = [None, "Rebuild 2x2", "NoRebuild 2x2", "lazy 3x2", "WATA3", "D-exp2"]


def made(path: Path, layout: str | None = None, contract: str = "HARD", **more: Any) -> Archive:
    usual: dict[str, Any] = {"key": "k", "max_lifetime": f"{P * 10} us", "refresh": "10 us"}
    settings = {**usual, "origin": 0, "layout": layout, "contract": contract, **more}
    return mayfly.archive.create(path, DDL, **settings)


def rows_of(update: int, count: int = 6) -> list[tuple[int, int, int, int]]:
    chance = Random(update)
    found = []
    for number in range(count):
        ts = chance.randint(10 * update - 9, 10 * update)
        lived = chance.randint(1, P * 10)
        found.append((chance.randint(0, 4), ts, ts + lived, update * 100 + number))
    return found


def table(rows: list[tuple[int, int, int, int]]) -> pa.Table:
    names = ("k", "ts", "exp", "id")
    return pa.table({n: pa.array([r[at] for r in rows], pa.int64()) for at, n in enumerate(names)})


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


def stored_exps(root: Path) -> list[int]:
    """Every expiration time in every data file, whoever names it."""
    found = []
    for file in sorted(root.glob("data/*")):
        if file.suffix == ".arrow":
            rows = pa.ipc.open_file(file.read_bytes()).read_all()
        else:
            rows = pq.read_table(file)
        found += rows[EXP].to_pylist()
    return found
