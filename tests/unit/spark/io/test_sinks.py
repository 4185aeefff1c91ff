"""Sinks that are told things twice, or by others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mayfly.errors import InvalidSetting, NotClosed, StorageError
from mayfly.spark.io.sinks import Callback, Console, Delivery, Memory, ParquetFiles


def delivery(batch: int, source: str = "") -> Delivery:
    rows = pa.table({"n": [batch], "ts": [batch]})
    return Delivery(
        batch, 1, rows.schema, lambda: iter(rows.to_batches()), cast(Any, None), 9, source
    )


def test_a_batch_that_comes_again_is_kept_once(tmp_path: Path) -> None:
    memory, files = Memory(), ParquetFiles(str(tmp_path / "out"))
    with pytest.raises(NotClosed, match="no changes have come"):
        memory.table()
    for batch in (3, 2, 3):
        memory.deliver(delivery(batch))
        files.deliver(delivery(batch, "one"))
    assert memory.table().column("n").to_pylist() == [2, 3]
    assert pq.read_table(tmp_path / "out").column("n").to_pylist() == [2, 3]


def test_a_folder_belongs_to_one_checkpoint(tmp_path: Path) -> None:
    sink = ParquetFiles(str(tmp_path / "out"))
    sink.deliver(delivery(1, "one"))
    with pytest.raises(StorageError, match="another checkpoint has delivered"):
        sink.deliver(delivery(1, "other"))
    assert pq.read_table(tmp_path / "out").num_rows == 1
    early = ParquetFiles(str(tmp_path / "early"))
    early.deliver(delivery(1))
    early.deliver(delivery(2))
    with pytest.raises(StorageError, match="another checkpoint has delivered"):
        early.deliver(delivery(1, "new"))


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"):
        ParquetFiles(str(tmp_path / "file")).deliver(delivery(1))


def test_changes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    Console().deliver(delivery(4))
    assert capsys.readouterr().out == "[4] n=4, ts=4\n"


@pytest.mark.parametrize("wrong", [lambda: None, lambda changes: None, lambda a, b, c: None, 3])
def test_a_callback_that_cannot_be_called_is_refused_before_anything_starts(wrong: Any) -> None:
    with pytest.raises(InvalidSetting, match="cannot be called with changes") as refusal:
        Callback(wrong)
    assert "changes: DataFrame, batch_id: int" in refusal.value.hint


def test_callbacks_of_every_kind_are_taken() -> None:
    Callback(lambda changes, batch_id: None)
    Callback(lambda *arguments: print(*arguments))
    Callback(print)
