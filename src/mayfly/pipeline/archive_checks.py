"""What of CREATE ARCHIVE is right as it stands.

Idea: settings of an archive follow from its statement and the program of its query; to make them
loads kernels, Arrow and all of the archive. A declaration made of what is listed here can be made
into settings whatever the program is, so that neither is needed to call it right.
Invariant: what is plain is accepted by ``archive_settings.check_declaration``. What is not listed
goes there. Cost: one pass over the plan.
"""

from __future__ import annotations

from mayfly.optimizer.optimize import Optimized
from mayfly.patterns import Kind
from mayfly.physical.concerns import answer_label, foreseen_warnings
from mayfly.plan.catalog import ArchiveDefinition, Catalog
from mayfly.plan.logical_operators import Output, OutputKind, RelationScan, StreamScan
from mayfly.plan.window_kinds import Range

CELLS = ("AUTO", "ROUND_ROBIN", "CHRONOLOGICAL")
WAVES = ("DEL", "REINDEX", "REINDEX+", "REINDEX++", "WATA", "RATA")
MOST_UPDATES, MOST_GROUPS, LATEST = 50_000, 100, 10_000
CENTURY = 100 * 366 * 86_400_000_000
"""Sizes that are small enough in any layout, and lives that are short enough in any calendar."""


def is_plain(definition: ArchiveDefinition, optimized: Optimized, catalog: Catalog) -> bool:
    """Whether an archive of the query's results can be made, as far as the statement tells."""
    plan = optimized.plan
    assert isinstance(plan, Output)
    if plan.kind is not OutputKind.VIEW or foreseen_warnings(optimized, catalog) is None:
        return False
    longest = definition.max_lifetime or _longest(plan)
    if longest is None or not 0 < definition.refresh <= longest <= CENTURY:
        return False
    if longest // definition.refresh >= MOST_UPDATES:
        return False
    layout = definition.layout
    fits = _fits_cells if layout.name in CELLS else _fits_wave if layout.name in WAVES else None
    return (
        fits is not None
        and _are_plain_columns(definition, plan)
        and definition.soft <= LATEST
        and fits(definition, optimized, longest)
    )


def _longest(plan: Output) -> int | None:
    """How long results live at most, if they live only by windows of a duration."""
    windows = [node.window for node in plan.walk() if isinstance(node, StreamScan)]
    if any(isinstance(node, RelationScan) for node in plan.walk()):
        return None
    if not all(isinstance(w, Range) and w.lifetime and w.slide is None for w in windows):
        return None
    return max((window.lifetime or 0 for window in windows), default=None)


def _are_plain_columns(definition: ArchiveDefinition, plan: Output) -> bool:
    names = [column.name for column in plan.schema]
    types = {column.name: column.type for column in plan.schema}
    return (
        len({name.lower() for name in names}) == len(names)
        and all(name.isidentifier() and not name.startswith("_") for name in names)
        and all(kind.is_stored and kind.name != "void" for kind in types.values())
        and len(set(definition.key)) == len(definition.key) > 0
        and all(name in types and not types[name].is_nested for name in definition.key)
    )


def _fits_cells(definition: ArchiveDefinition, optimized: Optimized, longest: int) -> bool:
    layout, within = definition.layout, definition.physical_within
    return (
        layout.technique in (None, "REBUILD", "NO REBUILD")
        and len(layout.sizes) in ((0,) if layout.name == "AUTO" else (0, 2))
        and all(1 <= size <= MOST_GROUPS for size in layout.sizes)
        and (within is None or within >= definition.refresh)
    )


def _fits_wave(definition: ArchiveDefinition, optimized: Optimized, longest: int) -> bool:
    """Rows live equally long, and a whole number of updates."""
    layout, updates = definition.layout, longest // definition.refresh
    return (
        answer_label(optimized).pattern.kind is Kind.WKS
        and definition.physical_within is None
        and longest % definition.refresh == 0
        and layout.technique in (None, "IN PLACE", "SIMPLE SHADOW", "PACKED SHADOW")
        and updates >= 4
        and (layout.sizes == () or (len(layout.sizes) == 1 and 2 <= layout.sizes[0] <= updates))
        and all(size <= MOST_GROUPS for size in layout.sizes)
    )
