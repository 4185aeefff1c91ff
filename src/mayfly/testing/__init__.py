"""The public test kit: a manual clock, seeded streams, and an independent oracle.

Hypothesis strategies live in ``mayfly.testing.strategies``, which needs hypothesis.
"""

from mayfly.testing.batch_cuts import (
    Batch,
    cut_at,
    cut_at_random,
    cut_by_rows,
    cut_by_time,
    together,
)
from mayfly.testing.cases import JoinCase
from mayfly.testing.columns import KEY_TYPES, ColumnSpec, domain
from mayfly.testing.connections import record_links, tcp_connections, tcp_links
from mayfly.testing.lateness import Outcome, judge_lateness
from mayfly.testing.manual_clock import ManualClock
from mayfly.testing.memory_store import memory_store
from mayfly.testing.oracle import Windowed, WindowJoinOracle
from mayfly.testing.row_comparison import (
    RowDifference,
    assert_same_rows,
    multiset,
    row_difference,
)
from mayfly.testing.seeded_streams import (
    StreamSpec,
    as_micros,
    as_timestamps,
    generate,
    in_event_order,
    micros_of,
    shuffle_within_slack,
)

__all__ = [
    "KEY_TYPES",
    "Batch",
    "ColumnSpec",
    "JoinCase",
    "ManualClock",
    "Outcome",
    "RowDifference",
    "StreamSpec",
    "WindowJoinOracle",
    "Windowed",
    "as_micros",
    "as_timestamps",
    "assert_same_rows",
    "cut_at",
    "cut_at_random",
    "cut_by_rows",
    "cut_by_time",
    "domain",
    "generate",
    "in_event_order",
    "judge_lateness",
    "memory_store",
    "micros_of",
    "multiset",
    "record_links",
    "row_difference",
    "shuffle_within_slack",
    "tcp_connections",
    "tcp_links",
    "together",
]
