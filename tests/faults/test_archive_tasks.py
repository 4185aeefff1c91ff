"""Tasks of an archive update that die and are tried again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.archive.archive import Archive
from mayfly.archive.write.local_jobs import InProcess
from tests.faults.archive_driver import UPDATES, WINDOW
from tests.faults.processes import Program
from tests.unit.archive.small_archive import said, values


@pytest.mark.slow
def test_second_attempts_leave_nothing_but_files_for_the_vacuum(tmp_path: Path) -> None:
    program = Program.start("tests.faults.archive_driver", str(tmp_path), log=tmp_path / "log")
    assert program.wait() == 0, program.said()
    assert len(list(tmp_path.glob("died *"))) == UPDATES
    archive = Archive.open(tmp_path / "archive", InProcess())
    assert values(archive.scan()) == said(range(UPDATES - WINDOW + 1, UPDATES + 1))
    assert archive.maintain.verify().ok
    data = archive.repository.directory
    named = {path for version in archive.inspect.history() for path in version.manifest.segments}
    assert set(data.all_names("data")) > named
    archive.maintain.vacuum(grace=0)
    assert set(data.all_names("data")) == named
