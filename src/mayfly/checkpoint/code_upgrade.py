"""States of formats 1 to 4 under the codes of format 5.

Idea: a hashed code is made anew from the columns of its row; identities stay what they were, so
that results in logs and in other states are still found. What a negation keeps of its right side
has the hash of a key and not the key: it is known where a left row has both. A key that no left
row has is unknown, and the checkpoint is refused. Cost: every row of a state is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.checkpoint.operator_state import parts_of
from mayfly.errors import UnsupportedFormat
from mayfly.kernels.delta import with_numbers
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, clustered, numbers
from mayfly.storage.segment import EXP

Change = Callable[[pa.Table], pa.Table]


class Coded(Protocol):
    """Who keeps rows under codes."""

    @property
    def name(self) -> str: ...

    @property
    def keyless_parts(self) -> tuple[str, ...]: ...

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None: ...


def former_buckets(codes: Int64s, count: int) -> Int64s:
    """Where the rows of a code lay before."""
    mixed = codes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(count)).astype(np.int64)


def without_copies(state: Any, bucket: int, count: int) -> Any:
    """The rows of a bucket that lay there by their code, without those of relations, of which
    every bucket had all."""

    def at_home(rows: pa.Table) -> pa.Table:
        return chosen(rows, former_buckets(numbers(rows, CODE), count) == bucket)

    return _changed(state, dict.fromkeys(parts_of(state), at_home))


def recoded(operator: Coded, state: Any, clock: int) -> Any:
    """The state of one bucket under today's codes; what ended before ``clock`` may be left out."""
    names = [name for name, part in parts_of(state).items() if _has_codes(part)]
    translated: dict[int, int] = {}

    def anew(part: str) -> Change:
        def change(rows: pa.Table) -> pa.Table:
            codes = operator.stored_codes(part, rows)
            if codes is None:
                return rows
            if operator.keyless_parts:
                former = numbers(rows, CODE).tolist()
                translated.update(zip(former, codes.tolist(), strict=True))
            return _under(rows, codes)

        return change

    def translate(rows: pa.Table) -> pa.Table:
        former = numbers(rows, CODE)
        marks = np.isin(former, np.array(list(translated), np.int64))
        if (~marks & (numbers(rows, EXP) >= clock)).any():
            raise _untold(operator.name)
        rows = chosen(rows, marks)
        codes = [translated[code] for code in numbers(rows, CODE).tolist()]
        return _under(rows, np.array(codes, np.int64))

    keyless = operator.keyless_parts
    state = _changed(state, {name: anew(name) for name in names if name not in keyless})
    return _changed(state, {name: translate for name in names if name in keyless})


def _under(rows: pa.Table, codes: Int64s) -> pa.Table:
    return clustered(with_numbers(rows, **{CODE: codes}))


def _has_codes(part: Any) -> bool:
    if isinstance(part, pa.Table):
        return CODE in part.schema.names
    return isinstance(part, KeptRows)


def _changed(state: Any, changes: dict[str, Change]) -> Any:
    """A state whose parts are changed row by row."""
    parts: dict[str, Any] = {}
    for name, change in changes.items():
        part = parts_of(state)[name]
        if isinstance(part, KeptRows):
            tables = [(run, change(run.load()).combine_chunks()) for run in part.runs]
            runs = [RowRun.of(rows, level=run.level, cell=run.cell) for run, rows in tables if rows]
            parts[name] = replace(part, runs=tuple(runs))
        elif isinstance(part, pa.Table):
            parts[name] = change(part).combine_chunks()
    if isinstance(state, KeptRows):
        return parts.get("kept", state)
    return replace(state, **parts) if parts else state


def _untold(name: str) -> UnsupportedFormat:
    return UnsupportedFormat(
        f"{name}: of what excludes its rows the checkpoint has hashes only, made by a function "
        "that this version does not have",
        "let the query begin anew (--replace), use a new checkpoint, or go on with the version of "
        "Mayfly that wrote it",
    )
