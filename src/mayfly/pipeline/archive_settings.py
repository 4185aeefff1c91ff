"""The archives that a pipeline file declares: what CREATE ARCHIVE asks for, as settings.

All of it follows from the statement and from the program of its query, so what cannot be kept is
refused before Spark is started.
"""

from __future__ import annotations

from typing import Any

from mayfly.archive.layouts.wave_layouts import WaveScheme
from mayfly.archive.model.contract import Contract
from mayfly.archive.model.declaration import WindowRequest
from mayfly.archive.model.lifetime_declaration import LifetimeRequest
from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros, gap_text
from mayfly.physical.program import Program, Task
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.plan.catalog import ArchiveDefinition, LayoutChoice

_LIFETIME_LAYOUTS = "use AUTO, ROUND_ROBIN, CHRONOLOGICAL, LAZY or COUNT"


def settings_of(definition: ArchiveDefinition, program: Program) -> dict[str, Any]:
    """What the archive is created with, besides its columns."""
    if program.sent is not None:
        raise InvalidSetting(
            f"the query {definition.name} sends a stream; an archive keeps rows with lifetimes",
            "leave the stream operator out of the SELECT",
        )
    longest = definition.max_lifetime or longest_life(program.answer)
    if longest is None:
        raise InvalidSetting(
            f"nothing says how long rows of the archive {definition.name} live",
            "add MAX LIFETIME 90 DAYS, or put a RANGE window on every stream",
        )
    times = LifetimeColumns.beside(column.name for column in program.plan.schema)
    settings = {
        "key": definition.key, "refresh": format_micros(definition.refresh),
        "time": times.ts, "max_gap": gap_text(definition.max_gap),
    }  # fmt: skip
    if definition.layout.name in {scheme.value for scheme in WaveScheme}:
        _check_wave(definition, program.answer.strict)
        return {**settings, "window": format_micros(longest), **_wave(definition.layout)}
    contract = str(Contract(definition.soft, definition.physical_within))
    endless = program.answer.longest is None and not program.answer.strict
    life = {"lifetime": format_micros(longest)} if endless else {"exp": times.exp}
    return {
        **settings, "max_lifetime": format_micros(longest), "contract": contract, **life,
        **_cells(definition),
    }  # fmt: skip


def archived_columns(program: Program) -> dict[str, str]:
    """The columns of an archive of a query's results: its own, and when they live."""
    own = {column.name: column.type.sql() for column in program.plan.schema}
    times = LifetimeColumns.beside(own)
    return {**own, times.ts: "timestamp", times.exp: "timestamp"}


def check_declaration(definition: ArchiveDefinition, program: Program) -> None:
    """Refuse an archive that could not be made."""
    settings, columns = settings_of(definition, program), archived_columns(program)
    request = WindowRequest if "window" in settings else LifetimeRequest
    request(columns, **settings).declaration()


def _check_wave(definition: ArchiveDefinition, strict: bool) -> None:
    name = definition.layout.name
    if strict:
        raise InvalidSetting(
            f"{name} keeps every row equally long, but results of {definition.name} may end early",
            _LIFETIME_LAYOUTS,
        )
    if definition.physical_within is not None:
        raise InvalidSetting(
            f"{name} does not promise when bytes are gone, as PHYSICAL WITHIN of "
            f"{definition.name} asks",
            _LIFETIME_LAYOUTS,
        )


def _wave(layout: LayoutChoice) -> dict[str, Any]:
    settings: dict[str, Any] = {"scheme": layout.name}
    if layout.sizes:
        settings["constituents"] = layout.sizes[0]
    if layout.technique:
        technique = layout.technique.lower()
        settings["technique"] = "in-place" if technique == "in place" else technique
    return settings


def _cells(definition: ArchiveDefinition) -> dict[str, Any]:
    layout, settings = definition.layout, dict[str, Any]()
    if layout.technique not in (None, "REBUILD", "NO REBUILD"):
        raise InvalidSetting(
            f"{layout.name} of {definition.name} is not updated by {layout.technique}",
            "write USING REBUILD or USING NO REBUILD, or take a wave layout such as WATA(4)",
        )
    sizes = "x".join(map(str, layout.sizes))
    if layout.name in ("INSERTION", "EXPIRATION"):
        kind = "R" if layout.technique == "REBUILD" else "D"
        settings["layout"] = f"{kind}-{layout.name[:3].lower()}{sizes or 16}"
    elif layout.name != "AUTO":
        settings["layout"] = f"{layout.name.lower().replace('_', '-')} {sizes}".strip()
    if layout.technique is not None:
        settings["rebuild"] = layout.technique == "REBUILD"
    return settings


def longest_life(task: Task) -> int | None:
    """A bound on the lives of a task's results from its windows; None if one has none."""
    if task.longest is not None:
        return task.longest
    below = [longest_life(source) for source in task.inputs if isinstance(source, Task)]
    lives = [life for life in below if life is not None]
    return max(lives) if lives and len(lives) == len(below) else None
