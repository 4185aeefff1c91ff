"""Which modules touch files themselves; all others ask a store.

What belongs to an archive or a checkpoint lies in a store (``mayfly.storage.store``), which need
not be a file system. The source text is looked through for calls that open, list, rename or remove
files: a module that makes one is listed here with the reason why its files are not in a store.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.test_imports import is_within, modules

SOURCE = Path(__file__).parents[2] / "src"

FUNCTIONS = re.compile(
    r"""open | gzip\.open | glob\.i?glob
    | os\.(access | chmod | fsync | link | listdir | lstat | makedirs | mkdir | open | remove
        | removedirs | rename | renames | replace | rmdir | scandir | stat | symlink | truncate
        | unlink | utime | walk)
    | os\.path\.(exists | getmtime | getsize | isdir | isfile | lexists | realpath | samefile)
    | shutil\.(copy | copy2 | copyfile | copytree | disk_usage | move | rmtree)
    | tempfile\.(NamedTemporaryFile | TemporaryDirectory | TemporaryFile | mkdtemp | mkstemp)
    | pa\.(OSFile | input_stream | memory_map | output_stream)""",
    re.VERBOSE,
)
OF_PATHS = re.compile(
    r"""glob | hardlink_to | is_dir | is_file | iterdir | mkdir | read_bytes | read_text | rename
    | rglob | rmdir | stat | symlink_to | unlink | write_bytes | write_text""",
    re.VERBOSE,
)
"""Methods that only paths have."""
OF_PATHS_WITHOUT_ARGUMENTS = {"exists", "touch"}
"""Methods that others have too, with arguments."""
PARQUET = re.compile(
    r"pq\.(ParquetFile|ParquetWriter|read_metadata|read_schema|read_table|write_table)"
)
"""These take paths and open files alike; an open file is called so."""
OPEN_FILES = {"source", "self._source", "target"}
MODULES = {"fcntl", "fsspec", "pyarrow.fs"}

USERS = "files and folders that users name, and other programs write or read"
ALLOWED = {
    "storage.store": "this is where files are touched",
    "cql.script_files": USERS,
    "pipeline.source_checks": USERS,
    "serving.pipeline_places": USERS,
    "checkpoint.result_folders": USERS,
    "pipeline.spark_jars": "jars and settings of the Spark on this machine",
    "serving.declared_files": USERS,
    "serving.periodic.answer_sinks": USERS,
    "serving.http.request_worker": "how large this process is (/proc)",
    "spark.io.sources": USERS,
    "spark.io.sinks": USERS,
    "cli": USERS,
    "demo": "writes what a user would, and reads what a user does",
    "testing.connections": "writes what a user would",
    "archive.write.spills": "scratch of the machine that sorts",
    "archive.advice.wave_advice": "samples that are timed on the file system below an archive",
    "archive.advice.cell_advice": "samples that are timed on the file system below an archive",
    "archive.advice.cell_constants": "samples that are timed on the file system below an archive",
    "spark.cluster.local_spark": "settings and logs of the Java process on this machine",
    "spark.cluster.class_archive": "a cache of the Java process on this machine",
    "faults": "tests stop a process by files in a folder of theirs",
}
"""A package or module → why its files lie in no store."""


def touches(text: str) -> Iterator[tuple[int, str]]:
    """(line, what) of every place at which a module touches files."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name) for one in node.names if one.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            names = {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
            yield from ((node.lineno, name) for name in sorted(names & MODULES, key=str) if name)
        elif isinstance(node, ast.Call) and (what := _touched(node)):
            yield node.lineno, what


def _touched(call: ast.Call) -> str | None:
    called = ast.unparse(call.func)
    if FUNCTIONS.fullmatch(called):
        return called
    if PARQUET.fullmatch(called) and not OPEN_FILES & {ast.unparse(one) for one in call.args}:
        return called
    if isinstance(call.func, ast.Attribute):
        name, bare = call.func.attr, not call.args and not call.keywords
        if OF_PATHS.fullmatch(name) or (bare and name in OF_PATHS_WITHOUT_ARGUMENTS):
            return f"….{name}"
    return None


def violations(source: Path) -> list[str]:
    """One line for each place that touches files and is not allowed to."""
    return [
        f"{path.relative_to(source)}:{line} calls {what}; ask a store (mayfly.storage.Directory), "
        "or say in ALLOWED why not"
        for name, path in modules(source)
        if not any(is_within(name, allowed) for allowed in ALLOWED)
        for line, what in touches(path.read_text(encoding="utf-8"))
    ]


def test_files_are_touched_by_stores_only() -> None:
    found = violations(SOURCE)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("allowed", ALLOWED)
def test_what_is_allowed_is_needed(allowed: str) -> None:
    texts = [path.read_text() for name, path in modules(SOURCE) if is_within(name, allowed)]
    assert any(list(touches(text)) for text in texts)


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "def f():\n    with open(path, 'rb') as file: pass",
        "import os\nos.replace(a, b)",
        "os.path.exists(path)",
        "shutil.rmtree(path)",
        "Path(root).iterdir()",
        "(folder / 'x').unlink(missing_ok=True)",
        "folder.exists()",
        "path.touch()",
        "pa.memory_map(path)",
        "pq.ParquetFile(path)",
        "pq.write_table(rows, path)",
        "pq.read_table(source=path)",
        "from pyarrow import fs",
        "import fcntl",
    ],
)
def test_a_planted_touch_is_noticed(tmp_path: Path, text: str) -> None:
    module = tmp_path / "mayfly" / "archive" / "reading.py"
    module.parent.mkdir(parents=True)
    module.write_text("directory.exists(name)\nstaging.touch(name)\npq.ParquetFile(source)\n")
    assert violations(tmp_path) == []
    module.write_text(text)
    assert len(violations(tmp_path)) == 1
    module.rename(module.parents[1] / "faults.py")
    assert violations(tmp_path) == []
