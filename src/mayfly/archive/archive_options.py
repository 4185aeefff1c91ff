"""What an archive may be created with, by name, as editors and type checkers know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from mayfly.archive.advice.wave_advice import Workload
from mayfly.archive.change.requested_changes import LifetimeChanges, WindowChanges
from mayfly.archive.model.declaration import Origin
from mayfly.lifetime import Duration


class CommonOptions(TypedDict, total=False):
    """Options of every archive: ``WindowRequest`` and ``LifetimeRequest`` have their defaults."""

    time: str | None
    origin: Origin | None
    zone: str | None
    late: str | None
    parts: int | None
    keep_versions: int | None
    max_gap: Duration | None
    expect: Workload | None


class WindowOptions(WindowChanges, total=False):
    """Further ones of an archive of a window (``archive.model.declaration.WindowRequest``)."""

    spread: bool | None


class LifetimeOptions(LifetimeChanges, total=False):
    """Further ones where every row has its own lifetime
    (``archive.model.lifetime_declaration.LifetimeRequest``)."""

    counts: Mapping[str, int] | None
    clustered: bool | None
    row_group_bytes: int | None
    compression: str | None
    young: int | None


class ArchiveOptions(CommonOptions, WindowOptions, LifetimeOptions, total=False):
    """Options of either kind of archive."""


def chosen_options(options: ArchiveOptions, **own: Any) -> dict[str, Any]:
    """All that has a value; a window is not ``spread`` unless that is asked for."""
    chosen = {name: value for name, value in {**own, **options}.items() if value is not None}
    if chosen.get("spread") is False:
        del chosen["spread"]
    return chosen
