"""Running queries in figures, as committed manifests tell them: any process can ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from mayfly.display import LONGEST_LINE, html_table, shortened
from mayfly.lifetime import MIN_TIME, format_micros, instant_text
from mayfly.runtime.clock import Clocks
from mayfly.serving.pipeline_status import state_and_results
from mayfly.spark.stream.status_figures import OperatorState
from mayfly.storage import Manifest, Segment


@dataclass(frozen=True)
class Status:
    """A running query in figures, as of its last commit."""

    version: int
    batch: int
    clock: int | None
    """Instants before it are closed; None while some stream has sent nothing."""
    gap: int
    """How far the leading stream's clock is ahead of the last one's, µs."""
    rows: dict[str, int]
    late: dict[str, int]
    timeless: dict[str, int]
    null_keys: dict[str, int]
    shed: dict[str, int]
    """Rows left out on purpose, by load shedding."""
    beyond: dict[str, int]
    """Rows later than MAX GAP allows: dead letters, or lost where none are kept."""
    changes: int
    last_changes: int
    state_rows: int
    state_bytes: int
    waiting_rows: int
    segments: int
    log_rows: int
    log_bytes: int
    bucket_rows: list[int]
    """New rows per bucket in the last batch."""
    io: dict[str, int]
    warming_until: int | None = None
    """Answers before this instant lack rows from before the query came; None if none does."""

    refreshes: tuple[int, int] = (0, 0)
    """Refreshes of a query with SLIDE that were answered, and that were skipped on purpose."""

    lag: int | None = None
    """How far the clock is behind the wall clock, µs; None while there is no clock."""

    rate: float = 0.0
    """Rows a second, over the last batches."""

    catch_up: float | None = None
    """Seconds until the clock has caught up with time, as the last batches went; None if it does
    not move much faster than time."""

    batch_seconds: tuple[float, ...] = ()
    """How long the last batches took, the newest last."""

    operators: tuple[OperatorState, ...] = ()
    """What each operator keeps."""

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={fact}" for name, fact in self.facts().items())
        return f"Status({shortened(facts, LONGEST_LINE - len('Status()'))})"

    def _repr_html_(self) -> str:
        return html_table("Status", self.facts())

    def facts(self) -> dict[str, object]:
        """What there is to tell, times and spans in words."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = {n: v for n, v in values.items() if v and n != "operators" and v != (0, 0)}
        for name in ("clock", "warming_until"):
            shown |= {name: instant_text(shown[name])} if name in shown else {}
        for name in ("gap", "lag"):
            shown |= {name: format_micros(shown[name])} if name in shown else {}
        return shown

    @property
    def stretch(self) -> float:
        """How many times its declared slide a query was really refreshed after, on average."""
        answered, passed = self.refreshes
        return (answered + passed) / answered if answered else 1.0

    @property
    def skew(self) -> float:
        """The fullest bucket's share of new rows, relative to an even spread (1.0 = even)."""
        total = sum(self.bucket_rows)
        return max(self.bucket_rows) * len(self.bucket_rows) / total if total else 1.0


def status_of(manifest: Manifest) -> Status:
    properties = manifest.properties
    clocks = Clocks.from_json(properties["clocks"])
    state, log = state_and_results(manifest)
    totals, last = properties["totals"], properties["last"]
    return Status(
        version=manifest.version,
        batch=properties["batch"],
        clock=None if clocks.query == MIN_TIME else clocks.query,
        gap=clocks.gap,
        rows=totals["rows"],
        late=totals["late"],
        timeless=totals["timeless"],
        null_keys=totals["null_keys"],
        shed=totals.get("shed", {}),
        beyond=totals.get("beyond", {}),
        changes=totals["changes"],
        last_changes=last["changes"],
        state_rows=sum(segment.rows for segment in state),
        state_bytes=sum(segment.bytes for segment in state),
        waiting_rows=waiting_rows(state),
        segments=len(state),
        log_rows=sum(segment.rows for segment in log),
        log_bytes=sum(segment.bytes for segment in log),
        bucket_rows=last["bucket_rows"],
        io=last["io"],
    )


def waiting_rows(state: Iterable[Segment]) -> int:
    """Rows whose instants are not closed yet."""
    return sum(segment.rows for segment in state if segment.group.endswith("/waiting"))
