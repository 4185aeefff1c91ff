"""Operator state as stored runs, whatever the operator.

A state is a frozen dataclass of numbers, tables and collections of runs. Its runs and tables become
segments, its numbers go into the manifest; runs that were loaded and are still the same keep their
file. Nothing but data is stored, so the format does not depend on the code that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import UnsupportedFormat
from mayfly.kernels.delta import with_numbers
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, numbers
from mayfly.kernels.resident import RESIDENTS, place_of
from mayfly.kernels.upkeep import next_due
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Segment, check_content, open_segment, write_segment

OWN_EXP = "own_exp"
_OWN = {"own_ts": TS, OWN_EXP: EXP}
"""A table is kept as long as its operator needs it: its segment lives for ever, and its own times
have other names."""
Numbers = Mapping[str, int | bool | None]


@dataclass(frozen=True)
class Stored:
    """Where a state is: the segments of each collection, in order, and its numbers."""

    runs: Mapping[str, tuple[str, ...]]
    numbers: Numbers

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": {name: list(paths) for name, paths in self.runs.items()},
            "numbers": dict(self.numbers),
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Stored:
        runs = {name: tuple(paths) for name, paths in stored["runs"].items()}
        return Stored(runs, stored["numbers"])


def stored_paths(states: Mapping[str, Any]) -> set[str]:
    """The segments in which states are, given as ``Stored.to_json`` by name."""
    return {path for state in states.values() for paths in state["runs"].values() for path in paths}


def parts_of(state: Any) -> dict[str, Any]:
    """The named parts of a state; one that is a collection itself has a single part."""
    if isinstance(state, KeptRows) or not is_dataclass(state):
        return {"kept": state}
    return {field.name: getattr(state, field.name) for field in fields(state)}


def load_state(
    blank: Any, stored: Stored | None, segments: Mapping[str, Segment], directory: Directory
) -> Any:
    """The state as it was stored; ``blank`` is the operator's first state."""
    if stored is None:
        return blank
    loaded: dict[str, Any] = {}
    parts = parts_of(blank)
    unclaimed = sorted(name for name in (*stored.runs, *stored.numbers) if name not in parts)
    if unclaimed:
        raise UnsupportedFormat(
            f"a state in {directory.address} has parts that {type(blank).__name__} of this version "
            f"of Mayfly does not know: {', '.join(unclaimed)}",
            "use the version that wrote it, or a new checkpoint",
        )
    for name, part in parts.items():
        listed = [segments[path] for path in stored.runs.get(name, ())]
        if isinstance(part, KeptRows):
            loaded[name] = replace(
                part, runs=tuple(stored_run(directory, segment) for segment in listed)
            )
        elif isinstance(part, tuple):
            loaded[name] = tuple(stored_run(directory, segment) for segment in listed)
        elif name in stored.numbers:
            loaded[name] = stored.numbers[name]
        elif listed:
            loaded[name] = _table(directory, listed[0])
    if isinstance(blank, KeptRows):
        return loaded["kept"]
    return replace(blank, **loaded)


def _table(directory: Directory, segment: Segment) -> pa.Table:
    table = open_segment(directory, segment).drop_columns([TS, EXP])
    return table.rename_columns([_OWN.get(name, name) for name in table.schema.names])


def store_state(
    state: Any, group: str, directory: Directory
) -> tuple[Stored, list[Segment], list[str]]:
    """The state written down: its description, new segments, and the paths still in use."""
    runs: dict[str, tuple[str, ...]] = {}
    counts: dict[str, int | bool | None] = {}
    added: list[Segment] = []
    for name, part in parts_of(state).items():
        if isinstance(part, KeptRows | tuple):
            held: tuple[RowRun, ...] = part.runs if isinstance(part, KeptRows) else part
            listed = [piece for run in held for piece in _without_removed(run)]
            stored = [_store(run, f"{group}/{name}", directory) for run in listed]
            added += [segment for segment, fresh in stored if fresh]
            runs[name] = tuple(segment.path for segment, _ in stored)
            if isinstance(part, KeptRows):
                RESIDENTS.move(place_of(part), runs[name])
        elif isinstance(part, pa.Table):
            segment = _store_table(part, f"{group}/{name}", directory)
            if segment is not None:
                added.append(segment)
                runs[name] = (segment.path,)
        elif part is None or isinstance(part, int):
            counts[name] = part
    in_use = [path for paths in runs.values() for path in paths]
    return Stored(runs, counts), added, in_use


def _without_removed(run: RowRun) -> list[RowRun]:
    """The run without rows that were taken out of it; their lifetimes say so."""
    if run.segment is not None or run.exp.low != MIN_TIME:
        return [run]
    table = run.load()
    rest = chosen(table, numbers(table, EXP) != MIN_TIME).combine_chunks()
    return [RowRun.of(rest, level=run.level, cell=run.cell)] if rest.num_rows else []


def _store(run: RowRun, group: str, directory: Directory) -> tuple[Segment, bool]:
    if run.segment is not None:
        return run.segment, False
    tags = {} if run.cell is None else {"cell": run.cell}
    table = run.load()
    key = CODE if CODE in table.schema.names else None
    segment = write_segment(directory, group, table, key=key, level=run.level, tags=tags)
    assert segment is not None, "a run is never empty"
    return segment, True


def _store_table(table: pa.Table, group: str, directory: Directory) -> Segment | None:
    stored = {own: name for name, own in _OWN.items()}
    table = table.rename_columns([stored.get(name, name) for name in table.schema.names])
    kept = {TS: np.zeros(table.num_rows, np.int64), EXP: np.full(table.num_rows, NEVER)}
    return write_segment(directory, group, with_numbers(table, **kept))


def check_copied(segments: Iterable[Segment], clock: int, directory: Directory) -> None:
    """Compare files again that leave a state before all their rows are dead: others hold these now.

    To be called before those others are committed; dead files are dropped unread.
    """
    for segment in segments:
        if not segment.dead_at(clock):
            check_content(directory, segment)


def stored_run(directory: Directory, segment: Segment) -> RowRun:
    """A stored segment as a run that is opened when it is first needed."""
    loaded: list[pa.Table] = []

    def load() -> pa.Table:
        if not loaded:
            loaded.append(open_segment(directory, segment))
        return loaded[0]

    return RowRun(
        load=load,
        rows=segment.rows,
        ts=segment.ts,
        exp=segment.exp,
        level=segment.level,
        cell=segment.tags.get("cell"),
        segment=segment,
    )


def next_event(states: Sequence[Any], clock: int) -> int | None:
    """An instant before which nothing of these states falls due; None if nothing ever does."""
    instants: list[int] = []
    for state in states:
        announced = getattr(state, "next_refresh", None)
        instants += [] if announced is None else [max(announced, clock)]
        for part in parts_of(state).values():
            if isinstance(part, KeptRows):
                instants += [max(run.exp.low, clock) for run in part.runs if run.exp.low < NEVER]
            elif isinstance(part, tuple):
                instants += [instant for instant in [next_due(part, clock)] if instant is not None]
    return min(instants, default=None)
