"""Reading a directory runs nothing that was stored in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pyarrow as pa
import pytest

import mayfly.storage
from mayfly.storage import AddSegments, Repository, open_segment, segment_batches, verify
from mayfly.storage.segment import Format, write_segment
from tests.unit.storage.rows import table

FORBIDDEN = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "eval", "exec", "compile"}


def test_the_storage_core_knows_no_way_to_run_stored_code() -> None:
    sources = sorted(Path(mayfly.storage.__file__).parent.rglob("*.py"))
    assert len(sources) > 5
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = [node.func.id]
            found = FORBIDDEN & {name.split(".")[0] for name in names}
            assert not found, f"{source.name}:{getattr(node, 'lineno', 0)} uses {found}"


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_planted_extension_type_is_not_brought_to_life(
    repository: Repository, tmp_path: Path, format: Format
) -> None:
    """Old versions of Arrow for Python could store a type as a pickle and load it on reading."""
    proof = tmp_path / "executed"
    # The pickle, in its text form, of: os.system("touch <proof>")
    planted = f"cposix\nsystem\n(S'touch {proof}'\ntR.".encode()
    field = pa.field(
        "id",
        pa.int64(),
        metadata={
            b"ARROW:extension:name": b"arrow.py_extension_type",
            b"ARROW:extension:metadata": planted,
        },
    )
    rows = table([1, 2]).set_column(0, field, pa.array([1, 2]))
    segment = write_segment(repository.directory, "g", rows, format=format)
    assert segment is not None
    repository.commit(repository.current(), [AddSegments((segment,))])
    assert planted in (repository.directory.root / segment.path).read_bytes() or format == "parquet"
    assert open_segment(repository.directory, segment).num_rows == 2
    assert sum(batch.num_rows for batch in segment_batches(repository.directory, segment)) == 2
    assert verify(repository).ok
    assert not proof.exists()
