"""A complete window-join test case: inputs, windows, slack, batch cuts, heartbeats, buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from mayfly.testing.batch_cuts import Batch
from mayfly.testing.lateness import Outcome, judge_lateness
from mayfly.testing.oracle import Windowed, WindowJoinOracle
from mayfly.testing.seeded_streams import as_micros


@dataclass(frozen=True)
class JoinCase:
    """Everything a runner needs, and what the semantics say about it."""

    batches: list[Batch]
    windows: dict[str, int]
    keys: tuple[str, ...] = ("key",)
    slack: int = 0
    heartbeats: list[dict[str, int]] | None = None
    buckets: int = 1

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """Accepted and late rows and the clock, batch by batch."""
        return judge_lateness(self.batches, f"{self.slack} us", self.heartbeats)

    @property
    def accepted(self) -> dict[str, pa.Table]:
        """All rows of each stream that are not late: what the answer is defined over."""
        return {
            name: pa.concat_tables([outcome.accepted[name] for outcome in self.outcomes])
            for name in self.windows
        }

    @property
    def late(self) -> dict[str, pa.Table]:
        """All late rows of each stream."""
        return {
            name: pa.concat_tables([outcome.late[name] for outcome in self.outcomes])
            for name in self.windows
        }

    @property
    def clock(self) -> int | None:
        """The query's clock after the last batch."""
        return self.outcomes[-1].clock

    def oracle(
        self, residual: str = "", select: Mapping[str, str] | None = None
    ) -> WindowJoinOracle:
        """The oracle over the accepted rows."""
        streams = {
            name: Windowed(rows, f"{self.windows[name]} us") for name, rows in self.accepted.items()
        }
        return WindowJoinOracle(streams, self.keys, residual, select)

    def __repr__(self) -> str:
        """Rows as plain tuples, so that a failing case can be read."""
        lines = [
            f"JoinCase windows={self.windows} keys={self.keys} slack={self.slack} "
            f"buckets={self.buckets}"
        ]
        for i, batch in enumerate(self.batches):
            promised = self.heartbeats[i] if self.heartbeats else {}
            lines.append(f"  batch {i}" + (f", heartbeats {promised}" if promised else ""))
            for name, rows in batch.items():
                listed = [tuple(row.values()) for row in as_micros(rows).to_pylist()]
                lines.append(f"    {name} {tuple(rows.column_names)}: {listed}")
        return "\n".join(lines)
