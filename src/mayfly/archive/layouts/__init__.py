"""Layouts: which rows of an archive live together, and what an update does to them."""

from mayfly.archive.layouts.clusters import most_stored_days
from mayfly.archive.layouts.operations import (
    AddIndex,
    AddLateRows,
    AddToIndex,
    BuildIndex,
    CopyIndex,
    CreateIndex,
    Days,
    DeleteFromIndex,
    DropIndex,
    Operation,
    RenameIndex,
    WaveState,
    format_days,
)
from mayfly.archive.layouts.printed_plan import plan_lines, plan_table
from mayfly.archive.layouts.run_plan import (
    Run,
    RunPlan,
    RunWrite,
    Source,
    UpdatePlan,
    UpdateTechnique,
    is_packed,
    plan_gap,
    plan_update,
)
from mayfly.archive.layouts.wave_layouts import Transition, WaveLayout, WaveScheme

__all__ = [
    "AddIndex",
    "AddLateRows",
    "AddToIndex",
    "BuildIndex",
    "CopyIndex",
    "CreateIndex",
    "Days",
    "DeleteFromIndex",
    "DropIndex",
    "Operation",
    "RenameIndex",
    "Run",
    "RunPlan",
    "RunWrite",
    "Source",
    "Transition",
    "UpdatePlan",
    "UpdateTechnique",
    "WaveLayout",
    "WaveScheme",
    "WaveState",
    "format_days",
    "is_packed",
    "most_stored_days",
    "plan_gap",
    "plan_lines",
    "plan_table",
    "plan_update",
]
