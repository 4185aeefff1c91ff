"""Archives: rows with lifetimes kept on disk, refreshed by updates, probed and scanned."""

from mayfly.archive.advice.cell_advisor import CellAdvice, advise_cells
from mayfly.archive.advice.cell_cost import CellConstants, CellCost, CellLoad, cell_cost
from mayfly.archive.advice.cost_parameters import BUILT_IN_CASES, SCAM, TPC_D, WSE, CostParameters
from mayfly.archive.advice.wave_advice import ArchiveAdvice, Workload
from mayfly.archive.advice.wave_advisor import Advice, Need, advise
from mayfly.archive.advice.wave_cost import WaveCost, wave_cost
from mayfly.archive.archive import Archive
from mayfly.archive.local_archives import create, open
from mayfly.archive.model.admission import (
    Admission,
    AdmissionRule,
    AdmissionSummary,
    LateRows,
    RefusedRow,
    Verdict,
    summarize,
    total,
)
from mayfly.archive.model.calendar import (
    CalendarDays,
    FixedIntervals,
    UpdateCalendar,
    calendar_from_settings,
    update_calendar,
)
from mayfly.archive.model.sequence import Turn, take_turn
from mayfly.archive.read.selection import ReadReport
from mayfly.archive.status import ArchiveStatus
from mayfly.archive.write.update_report import UpdateReport

__all__ = [
    "BUILT_IN_CASES",
    "SCAM",
    "TPC_D",
    "WSE",
    "Admission",
    "AdmissionRule",
    "AdmissionSummary",
    "Advice",
    "Archive",
    "ArchiveAdvice",
    "ArchiveStatus",
    "CalendarDays",
    "CellAdvice",
    "CellConstants",
    "CellCost",
    "CellLoad",
    "CostParameters",
    "FixedIntervals",
    "LateRows",
    "Need",
    "ReadReport",
    "RefusedRow",
    "Turn",
    "UpdateCalendar",
    "UpdateReport",
    "Verdict",
    "WaveCost",
    "Workload",
    "advise",
    "advise_cells",
    "calendar_from_settings",
    "cell_cost",
    "create",
    "open",
    "summarize",
    "take_turn",
    "total",
    "update_calendar",
    "wave_cost",
]
