"""Archives: rows with lifetimes kept on disk, refreshed by updates, probed and scanned."""

from mayfly.archive.accounting import UpdateReport
from mayfly.archive.admission import (
    Admission,
    AdmissionRule,
    AdmissionSummary,
    LateRows,
    RefusedRow,
    Verdict,
    summarize,
    total,
)
from mayfly.archive.advising import ArchiveAdvice, Workload
from mayfly.archive.advisor import Advice, Need, advise
from mayfly.archive.archive import Archive
from mayfly.archive.calendar import (
    CalendarDays,
    FixedIntervals,
    UpdateCalendar,
    calendar_from_settings,
    update_calendar,
)
from mayfly.archive.cell_advisor import CellAdvice, advise_cells
from mayfly.archive.cell_cost import CellConstants, CellCost, CellLoad, cell_cost
from mayfly.archive.cost import BUILT_IN_CASES, SCAM, TPC_D, WSE, CostParameters
from mayfly.archive.opening import create, open
from mayfly.archive.selecting import ReadReport
from mayfly.archive.sequence import Turn, take_turn
from mayfly.archive.status import ArchiveStatus
from mayfly.archive.wave_cost import WaveCost, wave_cost

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
