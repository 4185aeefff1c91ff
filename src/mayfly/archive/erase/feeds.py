"""Bytes of archived rows outside the archive's own data: what streams and queries keep of them.

Rows come in through staged files, ends of results wait in ``void/``, and the checkpoint of a query
that feeds the archive holds its state, its change log and its last changes. A promise about bytes
speaks of all of them, so a check looks into all of these files, once they are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.archive.write.staged_rows import STAGED, brought, staged_repositories
from mayfly.checkpoint.operator_state import OWN_EXP
from mayfly.checkpoint.state_erasure import COVERS
from mayfly.errors import CorruptFile, StorageError
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.runtime.clock import Clocks
from mayfly.storage import EXP, Repository, Segment, open_segment
from mayfly.storage.checksum import RESTORE
from mayfly.storage.directory import Directory
from mayfly.storage.sealed_files import unseal_table
from mayfly.storage.store.problems import explained
from mayfly.storage.vacuum import left_behind, named_files

WAITING = "void"
"""The folder of an archive in which ends of results wait for their update."""
ROWS = ".rows"
"""The ending of such a file: a sealed table. Those of earlier versions are plain Parquet files."""
ENDED = "cut"
QUERIES = "queries"
WAITING_ROWS = "waiting"
"""Of a window: rows whose instant is not closed yet."""


@dataclass(frozen=True)
class KeptFile:
    """A file beside the archive's own data that holds rows of it."""

    name: str
    earliest: int = MIN_TIME
    """The earliest expiration in it."""
    clock: int = NEVER
    """By which rows are removed from it: that of the query, or none (NEVER)."""
    unread: str | None = None
    """Why it is not looked into: it has no checksum, or another one than was written."""


LEFT = "was left behind, and may hold rows that should be gone"


@dataclass(frozen=True)
class Feeder:
    """The checkpoint of the query whose results come in through a sink."""

    repository: Repository

    @property
    def clock(self) -> int:
        """The instant up to which every query of the checkpoint has come."""
        return Clocks.from_json(self.repository.current().properties["clocks"]).query

    def files(self, longest: int) -> Iterator[KeptFile]:
        """Its data files."""
        directory, clock = self.repository.directory, self.clock
        for name, segment in named_files(self.repository).items():
            place = directory.address_of(name)
            try:
                earliest = _earliest_in(directory, segment, longest)
            except CorruptFile as damage:
                if name in named_files(self.repository):  # else a batch has let it go meanwhile
                    yield KeptFile(place, unread=damage.message)
                continue
            yield KeptFile(place, earliest, clock)
        for name in left_behind(self.repository):
            yield KeptFile(directory.address_of(name), unread=LEFT)


def feeders(root: str) -> list[Feeder]:
    """The checkpoints of queries that feed the archive, as far as they are where they were."""
    sources = []
    for staged in staged_repositories(root).values():
        place = brought(staged.current()).place
        if place is not None and Repository.exists(place):
            repository = Repository.open(place)
            if repository.current().properties.get("kind") == QUERIES:
                sources.append(Feeder(repository))
    return sources


def kept_elsewhere(root: str, longest: int) -> Iterator[KeptFile]:
    """Every file beside the archive's own data that holds rows of it.

    What no version names is of a batch under way, or left behind: neither is looked into.
    """
    for sink, repository in staged_repositories(root).items():
        for name, segment in named_files(repository).items():
            yield KeptFile(f"{STAGED}/{sink}/{name}", segment.exp.low)
        for name in left_behind(repository):
            yield KeptFile(f"{STAGED}/{sink}/{name}", unread=LEFT)
    own = Directory.at(root)
    for name in own.names(WAITING):
        yield from _waiting(own, name)
    for feeder in feeders(root):
        yield from feeder.files(longest)


def _waiting(directory: Directory, name: str) -> Iterator[KeptFile]:
    """Ends of results, if the file holds such."""
    if not name.endswith(ROWS):
        yield KeptFile(name, unread="has no checksum, and may hold rows that should be gone")
        return
    try:
        rows = waiting_rows(directory, name)
    except StorageError as problem:
        if directory.exists(name):  # else they were applied meanwhile
            yield KeptFile(name, unread=problem.message)
        return
    if ENDED in rows.column_names:
        yield KeptFile(name, _earliest(rows[ENDED]))


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


def _earliest_in(directory: Directory, segment: Segment, longest: int) -> int:
    """The earliest expiration in a file of a checkpoint."""
    kind = segment.group.rpartition("/")[2]
    if kind == WAITING_ROWS:
        return int(segment.ts.low) + longest
    if kind == COVERS:
        return NEVER
    rows = open_segment(directory, segment, again=True)
    return _earliest(rows[OWN_EXP if OWN_EXP in rows.column_names else EXP])


def _earliest(times: pa.ChunkedArray) -> int:
    """The earliest of some times; MIN_TIME marks rows that were removed in place."""
    times = times.cast(pa.int64())
    earliest: int | None = pc.min(times.filter(pc.not_equal(times, MIN_TIME))).as_py()
    return NEVER if earliest is None else earliest
