"""Bytes of archived rows outside the archive's own data: what streams and queries keep of them.

Rows come in through staged files, ends of results wait in ``void/``, and the checkpoint of a query
that feeds the archive holds its state, its change log and its last changes. A promise about bytes
speaks of all of them, so whoever checks it looks into all of these files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.archive.model.calendar import Int64Array
from mayfly.archive.write.staging import STAGED, brought, staged_repositories
from mayfly.checkpoint.operator_state import OWN_EXP
from mayfly.checkpoint.state_erasure import COVERS
from mayfly.errors import CorruptFile, VersionExpired
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.runtime.clock import Clocks
from mayfly.storage import Repository
from mayfly.storage.checksum import RESTORE, check_file_once
from mayfly.storage.directory import Directory
from mayfly.storage.sealed_files import unseal_table
from mayfly.storage.segment import ARROW_SUFFIX, DATA, EXP, TS, Segment
from mayfly.storage.store.problems import explained

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
                yield name, _times(directory, name, TS, segment=segment) + longest
            elif kind != COVERS:
                yield name, _times(directory, name, OWN_EXP, EXP, segment=segment)


def named_files(repository: Repository) -> dict[str, Segment]:
    """The files that some version on disk names: these can be compared before they are read."""
    found: dict[str, Segment] = {}
    for number in repository.stored_versions():
        with contextlib.suppress(VersionExpired, CorruptFile):
            found |= repository.load(number).segments
    return found


def feeders(root: str) -> list[Feeder]:
    """The checkpoints of queries that feed the archive, as far as they are where they were."""
    found = []
    for staged in staged_repositories(root).values():
        place = brought(staged.current()).place
        if place is not None and Repository.exists(place):
            repository = Repository.open(place)
            if repository.current().properties.get("kind") == QUERIES:
                found.append(Feeder(repository))
    return found


def kept_elsewhere(root: str, longest: int) -> Iterator[tuple[str, Int64Array, int]]:
    """Every file beside the archive's own data that holds rows of it, with their expirations.

    And the clock by which they are removed: that of the query, or none (NEVER).
    """
    for sink, repository in staged_repositories(root).items():
        directory, named = repository.directory, named_files(repository)
        for name in directory.all_names(DATA):
            times = _times(directory, name, EXP, segment=named.get(name))
            yield f"{STAGED}/{sink}/{name}", times, NEVER
    own = Directory.at(root)
    for name in own.all_names(WAITING):
        yield name, _times(own, name, ENDED), NEVER
    for feeder in feeders(root):
        for name, times in feeder.files(longest):
            yield feeder.repository.directory.address_of(name), times, feeder.clock


def waiting_rows(directory: Directory, name: str) -> pa.Table:
    """The ends of results in a file, or the longest lives of results."""
    path = directory.address_of(name)
    with explained("read", path):
        if name.endswith(ROWS):
            return unseal_table(directory.read(name), path, RESTORE)
        try:
            with directory.open(name) as source:
                return pq.read_table(source)
        except (pa.ArrowException, ValueError) as error:
            raise CorruptFile(f"the data file {path} cannot be read: {error}", RESTORE) from error


def expirations(directory: Directory, name: str, segment: Segment | None) -> Int64Array:
    """The expiration times in a data file, by looking into it."""
    return _times(directory, name, EXP, segment=segment)


def _times(
    directory: Directory, name: str, *columns: str, segment: Segment | None = None
) -> Int64Array:
    """The first of these columns that the file has; without rows that were removed in place."""
    try:
        if segment is not None:
            check_file_once(directory.store, name, segment.checksum)
        if name.endswith(ROWS):
            rows = waiting_rows(directory, name)
        elif name.endswith(ARROW_SUFFIX):
            with directory.open(name) as source:
                rows = pa.ipc.open_file(source).read_all()
        else:
            with directory.open(name) as source, pq.ParquetFile(source) as file:
                names = file.schema_arrow.names
                rows = file.read(columns=[one for one in columns if one in names])
        column = next(one for one in columns if one in rows.column_names)
        found: Int64Array = pc.fill_null(rows[column].cast(pa.int64()), NEVER).to_numpy()
    except (pa.ArrowException, OSError, StopIteration, ValueError, CorruptFile):
        return np.empty(0, np.int64)  # no data file, or damaged: verify names it if it is needed
    lasting: Int64Array = found[found != MIN_TIME]
    return lasting
