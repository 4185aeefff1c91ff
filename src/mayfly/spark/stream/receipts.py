"""Receipts: what a task wrote, sent to the driver as one row.

A task may run more than once, so nothing it writes counts until the driver has one receipt for
every due (stage, bucket) and commits the files they name. A receipt may also carry an error: bad
input ends a batch with a message instead of a stack trace and retries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from mayfly import errors
from mayfly.display import counted
from mayfly.errors import MayflyError, ProtocolError
from mayfly.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class Receipt:
    """One stage in one bucket: files added and dropped, rows counted."""

    stage: int
    bucket: int
    added: tuple[Segment, ...] = ()
    dropped: tuple[str, ...] = ()
    rows_in: Mapping[str, int] = field(default_factory=dict)
    null_keys: Mapping[str, int] = field(default_factory=dict)
    changes: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    next_due: int | None = None
    """The next instant for which a row waits."""
    seconds: float = 0.0
    io: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[str, Any] = field(default_factory=dict)
    """Where the state of each operator is."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Changes per query, where queries leave in this stage."""
    shed: Mapping[str, int] = field(default_factory=dict)
    """Rows of each stream that joins left out on purpose."""
    late: Mapping[str, int] = field(default_factory=dict)
    """Rows of each stream whose key was closed."""
    refreshes: Mapping[str, list[int]] = field(default_factory=dict)
    """Per query that is answered at refreshes: how many were, and how many were skipped."""
    error: tuple[str, str, str] | None = None

    def encode(self) -> str:
        maps = ("rows_in", "null_keys", "io", "stored", "answers", "shed", "late", "refreshes")
        stored: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if name not in ("added", *maps)
        }
        for name in maps:
            stored[name] = dict(getattr(self, name))
        stored["added"] = [segment.to_json() for segment in self.added]
        return json.dumps(stored)

    @staticmethod
    def decode(text: str) -> Receipt:
        stored = json.loads(text)
        stored["added"] = tuple(Segment.from_json(segment) for segment in stored["added"])
        stored["dropped"] = tuple(stored["dropped"])
        stored["error"] = tuple(stored["error"]) if stored["error"] else None
        return Receipt(**stored)

    @staticmethod
    def failure(stage: int, bucket: int, error: MayflyError) -> Receipt:
        return Receipt(stage, bucket, error=(type(error).__name__, error.message, error.hint))

    def raise_error(self) -> None:
        if self.error is None:
            return
        kind, message, hint = self.error
        error_class = getattr(errors, kind, MayflyError)
        raise error_class(message, hint)


def accept(receipts: Iterable[Receipt], due: Iterable[tuple[int, int]]) -> list[Receipt]:
    """Exactly one receipt per due (stage, bucket), or an error and nothing is committed.

    A stage that ran twice may hand in two receipts for one bucket. Both describe the same rows
    in different files; one is taken, the files of the other are left to vacuum.
    """
    chosen: dict[tuple[int, int], Receipt] = {}
    for receipt in receipts:
        receipt.raise_error()
        place = receipt.stage, receipt.bucket
        other = chosen.setdefault(place, receipt)
        if (other.changes, other.state_rows) != (receipt.changes, receipt.state_rows):
            raise ProtocolError(
                f"two runs of stage {receipt.stage}, bucket {receipt.bucket} disagree: "
                f"{other.changes} and {receipt.changes} changes",
                "nothing was committed; restart the query, and report this if it happens again",
            )
    missing = sorted(set(due) - set(chosen))
    surplus = sorted(set(chosen) - set(due))
    if missing or surplus:
        raise ProtocolError(
            f"receipts missing for (stage, bucket) {missing or 'none'}, "
            f"unexpected for {surplus or 'none'}",
            "nothing was committed; restart the query: the batch will be run again",
        )
    return [chosen[place] for place in sorted(chosen)]


def account_for(receipts: Iterable[Receipt], fed: Mapping[str, int]) -> None:
    """Refuse receipts that do not account for every row that was sent to a window."""
    stepped = Counter[str]()
    for receipt in receipts:
        stepped.update(receipt.rows_in)
    for stream, count in fed.items():
        if stepped[stream] != count:
            raise ProtocolError(
                f"tasks were sent {counted(count, 'row')} of stream {stream} in this batch, "
                f"and got {stepped[stream]}",
                "nothing was committed; if the stream's DataFrame gives other rows whenever it is "
                "read, make it repeatable; otherwise restart the query",
            )


def collect_receipts(frame: DataFrame, due: Sequence[Sequence[int]]) -> list[Receipt]:
    """Run the one action of a batch: receipts, one for each due bucket of each stage."""
    handed_in = [Receipt.decode(bytes(row[0]).decode()) for row in frame.collect()]
    places = [(stage, bucket) for stage, listed in enumerate(due) for bucket in listed]
    return accept(handed_in, places)
