"""Bytes of archived rows outside the archive's own data: what streams and queries keep of them.

Rows come in through staged files, ends of results wait in ``void/``, and the checkpoint of a query
that feeds the archive holds its state, its change log and its last changes. A promise about bytes
speaks of all of them, so whoever checks it looks into all of these files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.archive.calendar import Int64Array
from mayfly.archive.staging import STAGED, brought
from mayfly.errors import CorruptFile, VersionExpired
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.erasing import COVERS
from mayfly.pipeline.storing import OWN_EXP
from mayfly.storage import Repository
from mayfly.storage.checksum import RESTORE, check_file_once
from mayfly.storage.files import explained
from mayfly.storage.sealed import unseal_table
from mayfly.storage.segment import ARROW_SUFFIX, DATA, EXP, TS, Segment

WAITING = "void"
"""The folder of an archive in which ends of results wait for their update."""
ROWS = ".rows"
"""The ending of such a file: a sealed table. Those of earlier versions are plain Parquet files."""
ENDED = "cut"
QUERIES = "queries"
WAITING_ROWS = "waiting"
"""Of a window: rows whose instant is not closed yet."""


@dataclass(frozen=True)
class Feeder:
    """The checkpoint of the query whose results come in through a sink."""

    checkpoint: Path
    repository: Repository

    @property
    def clock(self) -> int:
        """So far all queries of the checkpoint have come."""
        return Clocks.from_json(self.repository.current().properties["clocks"]).query

    def files(self, longest: int) -> Iterator[tuple[str, Int64Array]]:
        """Its data files, whether a version names them or not, with the expirations in them."""
        directory, named = self.repository.directory, named_files(self.repository)
        for name in directory.all_names(DATA):
            segment = named.get(name)
            kind = "" if segment is None else segment.group.rpartition("/")[2]
            if kind == WAITING_ROWS:
                yield name, _times(directory.path(name), TS, segment=segment) + longest
            elif kind != COVERS:
                yield name, _times(directory.path(name), OWN_EXP, EXP, segment=segment)


def named_files(repository: Repository) -> dict[str, Segment]:
    """The files that some version on disk names: these can be compared before they are read."""
    found: dict[str, Segment] = {}
    for number in repository.stored_versions():
        with contextlib.suppress(VersionExpired, CorruptFile):
            found |= repository.load(number).segments
    return found


def staged_repositories(root: str | os.PathLike[str]) -> list[Repository]:
    """Where streams into the archive have staged rows."""
    folder = Path(root) / STAGED
    places = sorted(folder.iterdir()) if folder.is_dir() else []
    return [Repository.open(place) for place in places if Repository.exists(place)]


def feeders(root: str | os.PathLike[str]) -> list[Feeder]:
    """The checkpoints of queries that feed the archive, as far as they are where they were."""
    found = []
    for staged in staged_repositories(root):
        place = brought(staged.current()).place
        if place is not None and Repository.exists(place):
            repository = Repository.open(place)
            if repository.current().properties.get("kind") == QUERIES:
                found.append(Feeder(Path(place), repository))
    return found


def kept_elsewhere(
    root: str | os.PathLike[str], longest: int
) -> Iterator[tuple[str, Int64Array, int]]:
    """Every file beside the archive's own data that holds rows of it, with their expirations.

    And the clock by which they are removed: that of the query, or none (NEVER).
    """
    base = Path(root)
    for repository in staged_repositories(root):
        directory, named = repository.directory, named_files(repository)
        for name in directory.all_names(DATA):
            path = directory.path(name)
            yield str(path.relative_to(base)), _times(path, EXP, segment=named.get(name)), NEVER
    for path in sorted((base / WAITING).glob("*")):
        yield str(path.relative_to(base)), _times(path, ENDED), NEVER
    for feeder in feeders(root):
        for name, found in feeder.files(longest):
            yield str(feeder.checkpoint / name), found, feeder.clock


def waiting_rows(path: Path) -> pa.Table:
    """The ends of results in a file, or the longest lives of results."""
    if path.suffix == ROWS:
        with explained("read", path):
            return unseal_table(path.read_bytes(), path, RESTORE)
    try:
        return pq.read_table(path)
    except (pa.ArrowException, ValueError) as error:
        raise CorruptFile(f"the data file {path} cannot be read: {error}", RESTORE) from error


def expirations(path: Path, segment: Segment | None) -> Int64Array:
    """The expiration times in a data file, by looking into it."""
    return _times(path, EXP, segment=segment)


def _times(path: Path, *columns: str, segment: Segment | None = None) -> Int64Array:
    """The first of these columns that the file has; without rows that were removed in place."""
    try:
        if segment is not None:
            check_file_once(str(path), segment.checksum)
        if path.name.endswith(ROWS):
            rows = waiting_rows(path)
        elif path.name.endswith(ARROW_SUFFIX):
            with pa.OSFile(str(path)) as file:
                rows = pa.ipc.open_file(file).read_all()
        else:
            names = pq.read_schema(path).names
            rows = pq.read_table(path, columns=[one for one in columns if one in names])
        column = next(one for one in columns if one in rows.column_names)
        found: Int64Array = pc.fill_null(rows[column].cast(pa.int64()), NEVER).to_numpy()
    except (pa.ArrowException, OSError, StopIteration, ValueError, CorruptFile):
        return np.empty(0, np.int64)  # no data file, or damaged: verify names it if it is needed
    lasting: Int64Array = found[found != MIN_TIME]
    return lasting
