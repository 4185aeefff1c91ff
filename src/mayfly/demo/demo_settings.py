"""What the demo computes, how long, and where its files are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LINKS = ("link1", "link2")
KEY = "src"
WINDOW = "5 s"
SLACK = "1 s"
HISTORY = "30 s"
"""How long dead results stay in the change log."""
BATCH_EVERY = "1 second"
CORES = 2
RESULT = {
    "src": "link1.src",
    "link1_id": "link1.id",
    "link1_dst": "link1.dst",
    "link2_id": "link2.id",
    "link2_dst": "link2.dst",
}


@dataclass(frozen=True)
class Settings:
    """The command line's options."""

    seconds: float = 40.0
    """For how long connections arrive."""
    rate: int = 1_000
    """Connections a second on each link, on average."""
    keep: bool = False
    kill: bool = True


@dataclass(frozen=True, slots=True)
class Places:
    """The demo's directories, all below one root."""

    root: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    def arrivals(self, link: str) -> Path:
        return self.root / "arrivals" / link

    def late(self, link: str) -> Path:
        return self.root / "late" / link

    @property
    def written_by_driver(self) -> tuple[Path, ...]:
        return self.checkpoint, self.results, *map(self.late, LINKS)

    def log(self, start: int) -> Path:
        return self.root / f"driver-{start}.log"

    def create(self) -> None:
        for folder in (self.results, self.scratch, *map(self.arrivals, LINKS)):
            folder.mkdir(parents=True)
