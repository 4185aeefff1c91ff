"""The results that a checkpoint keeps of its queries, as users see them: read without Spark.

Idea: the log of a query holds its results with their lifetimes, so the answer at an instant is the
rows alive then. Invariant: what is read belongs to one committed version. Cost: the segments whose
times meet the extent that is read; others are not opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.checkpoint.result_log import LOG
from mayfly.errors import VersionExpired
from mayfly.kernels.delta import END, SHOWN
from mayfly.kernels.lifetime_rows import READER
from mayfly.kernels.refreshes import repeated
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.plan.window_kinds import Slide
from mayfly.storage import EXP, TS, Manifest, Segment, segment_batches
from mayfly.storage.commit import reading_version
from mayfly.storage.directory import Directory

TIMESTAMP = pa.timestamp("us", tz="UTC")
Extent = tuple[int, int, int | None]
"""Since, until, and an instant at which results must be alive."""
EVERYTHING: Extent = (MIN_TIME, NEVER, None)


@dataclass(frozen=True)
class StoredResults:
    """What one query gives: its columns, then times as far as it has them."""

    name: str
    schema: pa.Schema
    sources: tuple[str, ...]
    """What its columns are called in files."""
    view: bool
    """Whether results have lifetimes; those of a stream operator have instants."""
    slide: Slide | None = None
    """Of a query whose rows stand for runs of refreshes."""
    again: bool = True
    """Whether files are compared with their checksums even if this process has done so before."""
    share: tuple[str, int, str] | None = None
    """The log in which they lie among those of other queries, their number there, and the state
    with those that still hold."""

    @property
    def log(self) -> str:
        return self.name if self.share is None else self.share[0]

    def log_reader(
        self, directory: Directory, manifest: Manifest, extent: Extent = EVERYTHING
    ) -> SegmentReader:
        """The kept results of [since, until), alive at an instant if there is one."""
        return self.reader(directory, manifest, self._meeting(manifest, extent), extent)

    def reader(
        self,
        directory: Directory,
        manifest: Manifest,
        segments: Iterable[Segment],
        extent: Extent = EVERYTHING,
    ) -> SegmentReader:
        root, listed = directory.address, tuple(segments)
        return SegmentReader(
            root, manifest.version, listed, self.schema, self.sources, extent, self.slide,
            self.again, None if self.share is None else self.share[1],
        )  # fmt: skip

    def logged(self, manifest: Manifest) -> list[Segment]:
        parts = {f"{LOG}/{self.log}": "kept"}
        parts |= {} if self.share is None else {self.share[2]: "groups"}
        return [
            manifest.segments[path]
            for name, stored in manifest.properties["state"].items()
            if (part := parts.get(name.rpartition("/")[0])) is not None
            for path in stored["runs"].get(part, ())
        ]

    def _meeting(self, manifest: Manifest, extent: Extent) -> list[Segment]:
        since, until, alive = extent
        return [
            segment
            for segment in self.logged(manifest)
            if segment.ts.low < until
            and (segment.ts.high >= since or not self.view)
            and (alive is None or not segment.dead_at(alive))
        ]


@dataclass(frozen=True)
class SegmentReader:
    """Stored results as users see them, read here or by executors."""

    root: str
    version: int
    segments: tuple[Segment, ...]
    schema: pa.Schema
    sources: tuple[str, ...]
    extent: Extent = EVERYTHING
    slide: Slide | None = None
    again: bool = True
    number: int | None = None
    """Of the query among those that share files, if it does."""
    began: int | None = None
    """When the batch began whose changes these are, where they are read from the log, in which
    results lie once they are over, and from the state with those that still hold."""

    def batches(self, directory: Directory) -> Iterator[pa.RecordBatch]:
        with reading_version(directory, self.version):
            for segment in self.segments:
                for batch in segment_batches(directory, segment, again=self.again):
                    for part in self._repeated(batch):
                        yield self.shown(part)

    def table(self, directory: Directory) -> pa.Table:
        return pa.Table.from_batches(list(self.batches(directory)), schema=self.schema)

    def _repeated(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        since, until, _ = self.extent
        if self.slide is None:
            yield batch
            return
        for part in repeated(pa.Table.from_batches([batch]), self.slide, since, until):
            yield from part.to_batches()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.at(self.root)
        mine = [number for batch in batches for number in batch.column("id").to_pylist()]
        part = replace(self, segments=tuple(self.segments[number] for number in mine))
        return part.batches(directory)

    def shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows within the extent, under the names that users know."""
        since, until, alive = self.extent
        ts = batch.column(TS)
        inside = pc.and_(pc.greater_equal(ts, since), pc.less(ts, until))
        if alive is not None:
            inside = pc.and_(inside, pc.greater(batch.column(EXP), alive))
        if self.number is not None:
            inside = pc.and_(inside, pc.equal(batch.column(READER), self.number))
        if SHOWN in batch.schema.names:
            inside = pc.and_(inside, pc.equal(batch.column(SHOWN), 1))
        if self.began is not None and SHOWN in batch.schema.names:
            inside = pc.and_(inside, pc.greater_equal(ts, self.began))
        batch = batch.filter(inside)
        if self.began is not None and SHOWN not in batch.schema.names:
            batch = _with_cuts(batch, self.began)
        columns = [batch.column(name) for name in self.sources]
        for source in (TS, EXP, END)[: len(self.schema) - len(columns)]:
            if source in batch.schema.names:
                columns.append(instants(batch.column(source)))
            else:
                columns.append(pa.nulls(batch.num_rows, TIMESTAMP))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _with_cuts(over: pa.RecordBatch, began: int) -> pa.RecordBatch:
    """Results that are over as changes of a batch: those from before it were cut in it."""
    exp = over.column(EXP)
    older = pc.less(over.column(TS), began)
    lasting, nothing = pa.scalar(NEVER, pa.int64()), pa.scalar(None, pa.int64())
    place = over.schema.get_field_index(EXP)
    changed = over.set_column(place, EXP, pc.if_else(older, lasting, exp))
    return changed.append_column(END, pc.if_else(older, exp, nothing))


def check_kept(
    manifest: Manifest, query: str, instant: int, since: int | None, history: str, remedy: str
) -> None:
    """Refuse an instant of which the answer is not kept, or was never there: the query came
    ``since``. ``history`` and ``remedy`` say whose history it is, and how more of it is kept."""
    oldest = manifest.properties["kept_from"].get(query, MIN_TIME)
    if instant < oldest:
        raise VersionExpired(
            f"the instant {instant_text(instant)} is older than the kept history of {history}",
            f"ask for {instant_text(oldest)} or later, or {remedy}",
        )
    whole = manifest.properties["queries"].get(query, {}).get("whole_from")
    if since is not None and instant < since and (whole is None or instant < whole):
        raise VersionExpired(
            f"the query {query} was added at {instant_text(since)}; it knows nothing of "
            f"{instant_text(instant)}",
            "ask for a later instant",
        )


def instants(times: pa.Array) -> pa.Array:
    """As timestamps; "always" and "never", which no calendar has, are NULL."""
    endless = pc.or_(pc.equal(times, NEVER), pc.equal(times, MIN_TIME))
    return pc.if_else(endless, pa.scalar(None, pa.int64()), times).cast(TIMESTAMP)
