"""State that is merged into other files is compared again, though this process has read it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.errors import CorruptFile
from mayfly.storage import EXP, Segment, open_segment
from tests.golden.formats.checkpoint_write import batches, golden_runner
from tests.property.shared_runs import HereRunner


def state_files(runner: HereRunner) -> list[Segment]:
    """The files of all operators' states."""
    return list(runner.repository.current().in_group("state/task"))


def alter_first_expiration(path: Path) -> None:
    """Flip a bit in a value; the file stays one that Arrow reads."""
    with pa.OSFile(str(path)) as file:
        column = pa.ipc.open_file(file).read_all()[EXP].chunk(0)
    data = bytearray(path.read_bytes())
    data[data.index(column.buffers()[1].to_pybytes()[: 8 * len(column)])] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("again", [False, True])
def test_damaged_state_is_neither_used_nor_merged(tmp_path: Path, again: bool) -> None:
    runner = golden_runner(tmp_path / "c", 2)
    for batch in batches()[:2]:
        runner.feed(batch, {})
    for segment in state_files(runner):
        if again:  # what a later step reads was compared by this process before
            open_segment(runner.repository.directory, segment)
        alter_first_expiration(tmp_path / "c" / segment.path)
    before = runner.repository.current()
    with pytest.raises(CorruptFile, match="differs from its checksum"):
        runner.feed(batches()[2], {})
    assert runner.repository.current() == before
