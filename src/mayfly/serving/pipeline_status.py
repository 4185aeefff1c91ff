"""A pipeline in figures, as the newest manifest of its checkpoint tells them.

Idea: every batch commits its counters with its effects, so a reader needs one file and no lock.
Invariant: all figures are those of one committed version. Cost: one manifest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mayfly.checkpoint.awaited_rows import warming_words
from mayfly.checkpoint.recent_batches import Progress
from mayfly.checkpoint.result_log import SHARES
from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME, instant_text
from mayfly.runtime.clock import Clocks
from mayfly.storage import Manifest, Repository, Segment

QUERIES, RESULTS, STATE = "queries", "state/log", "state"


@dataclass(frozen=True)
class StreamFigures:
    """What came of one stream since the beginning."""

    name: str
    clock: int | None
    """Instants before it are closed, µs; None while nothing came."""
    rows: int
    late: int
    timeless: int
    beyond: int
    """Rows later than MAX GAP allows."""
    shed: int


@dataclass(frozen=True)
class QueryFigures:
    """What one query has answered."""

    name: str
    text: str
    streams: tuple[str, ...]
    clock: int | None
    changes: int
    last_changes: int
    result_rows: int
    result_bytes: int
    warming: str
    """Until when answers lack earlier rows, in words; empty if they are whole."""


@dataclass(frozen=True)
class PipelineStatus:
    """The queries of a checkpoint, as of its last commit."""

    checkpoint: str
    version: int
    batch: int
    """The number of the last batch; -1 before the first one."""
    committed: int | None
    """The wall clock at the end of the last batch, µs."""
    ended: bool
    """Whether the input was closed."""
    lag: int | None
    """How far the slowest query's clock was behind the wall clock when that batch ended, µs."""
    rate: float
    """Rows a second, over the last batches."""
    catch_up: float | None
    """Seconds until the clock has caught up with time, as the last batches went."""
    batch_seconds: tuple[float, ...]
    buckets: int
    state_rows: int
    state_bytes: int
    result_rows: int
    result_bytes: int
    streams: tuple[StreamFigures, ...]
    queries: tuple[QueryFigures, ...]

    def to_json(self) -> dict[str, Any]:
        """With instants as texts in UTC."""
        document = asdict(self)
        document["committed"] = _text(self.committed)
        for listed in (*document["streams"], *document["queries"]):
            listed["clock"] = _text(listed["clock"])
        return document


def read_status(checkpoint: str | os.PathLike[str]) -> PipelineStatus:
    """The figures of the newest committed version."""
    repository = Repository.open(checkpoint)
    manifest = repository.current()
    check_pipeline(checkpoint, manifest)
    return status_of_pipeline(str(repository.directory.address), manifest)


def check_pipeline(checkpoint: str | os.PathLike[str], manifest: Manifest) -> None:
    """Refuse what is no checkpoint of a pipeline."""
    if QUERIES not in manifest.properties:
        raise InvalidSetting(
            f"{os.fspath(checkpoint)} holds no queries of a pipeline",
            "name the checkpoint that `mayfly run` was given; archives are asked by "
            "`mayfly sql`, and `mayfly archive status` tells their figures",
        )


def status_of_pipeline(checkpoint: str, manifest: Manifest) -> PipelineStatus:
    """The figures of a manifest that was read before."""
    properties = manifest.properties
    clocks = Clocks.from_json(properties["clocks"])
    progress = Progress.of(manifest, clocks.streams)
    state, results = state_and_results(manifest)
    ended = progress.batches[-1].ended if progress.batches else None
    behind = None if ended is None or clocks.query == MIN_TIME else ended - clocks.query
    return PipelineStatus(
        checkpoint=checkpoint,
        version=manifest.version,
        batch=properties["batch"],
        committed=ended,
        ended=clocks.ended,
        lag=behind,
        rate=progress.rate,
        catch_up=progress.catch_up,
        batch_seconds=tuple(batch.seconds for batch in progress.batches),
        buckets=properties["buckets"],
        state_rows=_rows(state),
        state_bytes=_bytes(state),
        result_rows=_rows(results),
        result_bytes=_bytes(results),
        streams=tuple(_stream(name, clocks, properties["totals"]) for name in clocks.streams),
        queries=tuple(_query(name, clocks, manifest) for name in properties[QUERIES]),
    )


def state_and_results(manifest: Manifest) -> tuple[list[Segment], list[Segment]]:
    """What operators keep, and the logged results of all queries."""
    results = list(manifest.in_group(RESULTS))
    logged = {segment.path for segment in results}
    return [segment for segment in manifest.in_group(STATE) if segment.path not in logged], results


def _stream(name: str, clocks: Clocks, totals: Mapping[str, Any]) -> StreamFigures:
    def total(figure: str) -> int:
        count: int = totals.get(figure, {}).get(name, 0)
        return count

    counted = (total(figure) for figure in ("rows", "late", "timeless", "beyond", "shed"))
    return StreamFigures(name, clocks.streams[name], *counted)


def _query(name: str, clocks: Clocks, manifest: Manifest) -> QueryFigures:
    properties = manifest.properties
    stored = properties[QUERIES][name]
    streams = tuple(stored.get("streams", clocks.streams))
    clock = clocks.of(streams).query
    log = properties.get(SHARES, {}).get(name, [name])[0]
    results = list(manifest.in_group(f"{RESULTS}/{log}"))
    return QueryFigures(
        name=name,
        text=stored.get("text", ""),
        streams=streams,
        clock=None if clock == MIN_TIME else clock,
        changes=properties["answers"].get(name, 0),
        last_changes=properties.get("last_answers", {}).get(name, 0),
        result_rows=_rows(results),
        result_bytes=_bytes(results),
        warming=warming_words(stored, clock - 1),
    )


def _rows(segments: list[Segment]) -> int:
    return sum(segment.rows for segment in segments)


def _bytes(segments: list[Segment]) -> int:
    return sum(segment.bytes for segment in segments)


def _text(instant: int | None) -> str | None:
    return None if instant is None else instant_text(instant)
