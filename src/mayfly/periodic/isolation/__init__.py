"""What periodic and one-time queries see while their window slides: isolation, and its checker."""

from collections.abc import Callable

from mayfly.errors import InvalidSetting
from mayfly.periodic.isolation.checker import (
    BrokenHistory,
    ScanVerdict,
    check_history,
    forget_checked,
    verdicts,
)
from mayfly.periodic.isolation.incremental import Incremental
from mayfly.periodic.isolation.isolation_policy import IsolationPolicy
from mayfly.periodic.isolation.latest_window import LatestWindow
from mayfly.periodic.isolation.level import IsolationLevel
from mayfly.periodic.isolation.materialized import MaterializedTransactions
from mayfly.periodic.isolation.pane_versions import PaneRing
from mayfly.periodic.isolation.pinned_snapshot import PinnedSnapshot
from mayfly.periodic.isolation.scan import ScanAnswer
from mayfly.periodic.isolation.scan_history import ScanHistory
from mayfly.periodic.isolation.serial import Serial
from mayfly.periodic.isolation.time_to_update import TimeToUpdate
from mayfly.periodic.isolation.transactions import PaneTransactions
from mayfly.periodic.isolation.undo_rescan import UndoRescan
from mayfly.periodic.isolation.window_serial import WindowSerial

ISOLATION_POLICIES: dict[str, Callable[[], IsolationPolicy]] = {
    "serial": Serial,
    "snapshot": PinnedSnapshot,
    "ws": WindowSerial,
    "lws": LatestWindow,
    "ttu": TimeToUpdate,
    "undo": UndoRescan,
    "incremental": Incremental,
}
"""By name."""
ISOLATION_WORDS = {
    "LATEST": "ttu",
    "LATEST UNDO": "undo",
    "WINDOW": "ws",
    "SNAPSHOT": "snapshot",
}
"""What users write, and the policy that it means."""


def isolation_named(name: str) -> IsolationPolicy:
    """A policy by its name, or by the word that users write."""
    policy = ISOLATION_POLICIES.get(ISOLATION_WORDS.get(name, name))
    if policy is None:
        raise InvalidSetting(
            f"there is no isolation {name!r}",
            f"use {', '.join([*ISOLATION_WORDS, *ISOLATION_POLICIES])}",
        )
    return policy()


__all__ = [
    "ISOLATION_POLICIES",
    "BrokenHistory",
    "IsolationLevel",
    "IsolationPolicy",
    "MaterializedTransactions",
    "PaneRing",
    "PaneTransactions",
    "ScanAnswer",
    "ScanHistory",
    "ScanVerdict",
    "check_history",
    "forget_checked",
    "isolation_named",
    "verdicts",
]
