"""The closing summary."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from mayfly.demo.check import DemoVerdict
from mayfly.demo.demo_settings import Settings
from mayfly.demo.figures import Figures, number, seconds
from mayfly.display import counted, size


@dataclass(frozen=True, slots=True)
class Kill:
    """The kill in the middle, and how it went on."""

    batch: int | None
    """The batch that was running, if one was."""
    version: int
    """The version in force when the driver was dead."""
    continued_after: float | None = None
    """Seconds from the kill to the next commit."""

    @property
    def where(self) -> str:
        return "between two batches" if self.batch is None else f"in batch {self.batch}"


@dataclass(frozen=True, slots=True)
class DiskUse:
    files: int
    bytes: int


def disk_use(folders: Iterable[Path]) -> DiskUse:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return DiskUse(len(files), sum(file.stat().st_size for file in files))


@dataclass(frozen=True, slots=True)
class DemoSummary:
    settings: Settings
    final: Figures
    peak: Figures
    """The figures at the commit with the largest state."""
    batch_seconds: tuple[float, ...]
    kill: Kill | None
    disk: DiskUse
    verdict: DemoVerdict

    def lines(self) -> list[tuple[str, str]]:
        """Label and text, in order."""
        final, peak, verdict = self.final, self.peak, self.verdict
        return [
            (
                "input",
                f"{counted(final.rows, 'row')} on two links in {seconds(self.settings.seconds)};"
                f" {number(final.late)} came late and were set aside",
            ),
            (
                "results",
                f"{number(final.results)}, each with its own lifetime;"
                f" {number(final.results - final.alive)} have expired",
            ),
            ("batches", self._batches()),
            ("kills", self._kills()),
            (
                "state",
                f"at most {counted(peak.state_rows, 'row')} and {size(peak.state_bytes)}"
                f" in {counted(peak.segments, 'segment')}",
            ),
            (
                "on disk",
                f"{counted(self.disk.files, 'file')}, {size(self.disk.bytes)}"
                " with checkpoint, results and late rows",
            ),
            ("check", self._check(verdict)),
        ]

    def _batches(self) -> str:
        times = self.batch_seconds
        said = number(self.final.batch + 1)
        if not times:
            return said
        middle, slowest = statistics.median(times), max(times)
        return f"{said}; half of them within {seconds(middle)}, the slowest in {seconds(slowest)}"

    def _kills(self) -> str:
        if self.kill is None:
            return "none (--no-kill)"
        after = self.kill.continued_after
        said = "nothing was left to do" if after is None else f"continued after {seconds(after)}"
        return f"1, {self.kill.where}; {said}, from version {self.kill.version}"

    def _check(self, verdict: DemoVerdict) -> str:
        if verdict.identical:
            return (
                f"identical to {verdict.judge}'s {number(verdict.results)} results:"
                " nothing lost, nothing twice"
            )
        return f"DIFFERENT from what {verdict.judge} computes:\n{verdict.complaint()}"

    def print(self, console: Console) -> None:
        console.print()
        for label, text in self.lines():
            style = ""
            if label == "check":
                style = "bold green" if self.verdict.identical else "bold red"
            console.print(Text(f"  {label:<9}", "dim").append(text, style), soft_wrap=True)
