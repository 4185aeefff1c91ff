"""Single bits flipped in every kind of stored file: who reads or copies it names the file.

    python -m tests.faults.flips FOLDER FLIPS SEED

A directory is made once per subject. For each flip a copy of it gets one other bit, and a child of
this process, which has read nothing before, uses it: a child that dies is seen as such. What may
come of it: an error of ours that names the file, or the very answers of the directory without flip.
Prints a line of JSON per subject and kind of file: how many flips ended how.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.erase.feeds import WAITING
from mayfly.archive.write.local_jobs import InProcess
from mayfly.archive.write.staged_row_writer import MergeFiles
from mayfly.archive.write.staged_rows import Staging, days_of
from mayfly.errors import MayflyError
from mayfly.faults import on_reach
from mayfly.pipeline.control_requests import Control
from mayfly.spark.archive.query_feeds import LONGEST, ArchivedAnswers
from mayfly.storage import Repository, segment_batches, vacuum, verify, write_segment
from mayfly.storage.commit import manifest_name
from mayfly.storage.intents import NOTICES
from mayfly.storage.sealed_files import seal_json, seal_table
from tests.golden.formats.archive_content import ARCHIVES
from tests.golden.formats.archive_content import table as golden_table
from tests.golden.formats.archive_write import stage
from tests.golden.formats.checkpoint_write import batches, golden_runner
from tests.property.shared_runs import results_of

DAY = 86_400_000_000
NAMED, HARMLESS, SILENT, UNNAMED, RAW, CRASH = (
    "named", "harmless", "silent", "unnamed", "raw", "crash",
)  # fmt: skip
GOOD = (NAMED, HARMLESS)


@dataclass(frozen=True)
class Use:
    """Something that is done with a directory, in a process of its own."""

    run: Callable[[Path], Any]
    reads: Callable[[Path], list[str]]
    """The files whose bits are flipped."""
    all_of_it: bool = True
    """Whether it reads these files whole, so that no flip may go unnoticed; an update drops files
    unread whose rows are dead."""


@dataclass(frozen=True)
class Subject:
    """A directory with files of some kinds, and what is done with it."""

    build: Callable[[Path], object]
    uses: Mapping[str, Use]


def _newest(root: Path, place: str = "") -> list[str]:
    """The manifest of the newest version and the files it names."""
    return _version(root, -1, place)


def _version(root: Path, number: int, place: str = "") -> list[str]:
    repository = Repository.open(root / place)
    manifest = repository.load(repository.versions()[number])
    named = [manifest_name(manifest.version), *manifest.segments]
    return [f"{place}{one}" for one in named]


def _files(*folders: str) -> Callable[[Path], list[str]]:
    """All files in these folders but those that are empty or without meaning."""

    def listed(root: Path) -> list[str]:
        paths = sorted(one for folder in folders for one in (root / folder).glob("*"))
        found = [one for one in paths if one.name != "vacuum.lock" and one.stat().st_size]
        return [str(one.relative_to(root)) for one in found]

    return listed


# -- archives ------------------------------------------------------------------------------------


def _rows(day: int, count: int = 300) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([f"key {(at * 7 + day) % 40:02}" for at in range(count)]),
            "v": pa.array([at * 1_000_003 + day for at in range(count)], pa.int64()),
            "ts": pa.array([(day - 1) * DAY + 1 + at for at in range(count)], _TIME),
        }
    )


_TIME = pa.timestamp("us", "UTC")
_UPDATES = 6
_LASTING = {"max_lifetime": "30 days", "lifetime": "30 days", "fan_in": 2}
_SETTINGS: dict[str, dict[str, Any]] = {
    "wata": {"window": 5, "constituents": 2},
    "rebuild": {**_LASTING, "layout": "round-robin 2", "rebuild": True, "row_group_bytes": 2_000},
    "no-rebuild": {**_LASTING, "layout": "chronological 2", "rebuild": False, "young": 2},
}


def _archive(kind: str) -> Callable[[Path], object]:
    def build(root: Path) -> None:
        archive = mayfly.archive.create(
            root, _rows(1).schema, key="k", parts=2, origin=0, keep_versions=2, **_SETTINGS[kind]
        )
        for day in range(1, _UPDATES + 1):
            archive.update(_rows(day))
            if kind != "wata" and day == 3:
                archive.invalidate(["key 05", "key 09"])
        archive.maintain.vacuum(grace=0)

    return build


def _opened(root: Path) -> Archive:
    return Archive.open(root, InProcess(), sync=False)


def _sorted(table: pa.Table) -> list[Any]:
    return sorted(map(repr, table.to_pylist()))


def _ask(root: Path) -> Any:
    archive = _opened(root)
    found = [_sorted(archive.probe(f"key {at:02}")) for at in (0, 5, 17, 39)]
    return [*found, _sorted(archive.probe_range("key 03", "key 11")), _sorted(archive.scan())]


def _ask_twice(root: Path) -> Any:
    archive = _opened(root)
    return [[_sorted(archive.probe(f"key {at:02}")) for at in range(40)] for _ in range(2)]


def _go_on(root: Path) -> Any:
    """Updates, a vacuum and a look at what has become of the rows."""
    archive = _opened(root)
    for day in range(_UPDATES + 1, _UPDATES + 4):
        archive.update(_rows(day))
    archive.maintain.vacuum(keep_versions=1, grace=0)
    return _sorted(archive.scan())


def _verify(root: Path) -> Any:
    report = _opened(root).maintain.verify()
    if not report.ok:
        raise MayflyError("; ".join(f"{one.path}: {one.what}" for one in report.problems), "-")
    return report.readable_rows


def _roll_back(root: Path) -> Any:
    archive = _opened(root)
    archive.maintain.rollback(archive.repository.versions()[0])
    return _sorted(archive.scan())


ARCHIVE_USES = {
    "ask": Use(_ask, _newest),
    "ask twice": Use(_ask_twice, _newest),
    "go on": Use(_go_on, _newest, all_of_it=False),
    "verify": Use(_verify, _files("manifest", "data")),
    "roll back": Use(_roll_back, lambda root: _version(root, 0)),
}

# -- what waits beside an archive ----------------------------------------------------------------


def _staged(root: Path) -> None:
    archive = mayfly.archive.create(
        root, golden_table("array", 1).schema, **ARCHIVES["array"].declared
    )
    archive.update(golden_table("array", 1))
    stage(archive, root)


def _merge_staged(root: Path) -> Any:
    staging = Staging.at(root, "stream", sync=False)
    directory = staging.repository.directory
    files = tuple(one for held in days_of(staging.current()).values() for one in held)
    merged = MergeFiles(str(directory.root), False, files).run(())
    written = [batch for one in merged.segments for batch in segment_batches(directory, one)]
    return _sorted(pa.Table.from_batches(written))


def _left(root: Path) -> None:
    """Crashes have left files that no version names where bytes are promised to be gone."""
    archive = mayfly.archive.create(
        root, _rows(1).schema, key="k", parts=1, origin=0, max_lifetime="3 days",
        lifetime="2 days", contract="PHYSICAL WITHIN 1 day",
    )  # fmt: skip
    for day in range(1, _UPDATES + 1):
        archive.update(_rows(day))
    rows = _rows(1)
    for name, end in (("_ts", 0), ("_exp", DAY)):
        times = [at + end for at in rows["ts"].cast(pa.int64()).to_pylist()]
        rows = rows.append_column(name, pa.array(times, pa.int64()))
    for directory in (archive.repository.directory, Staging.at(root, "s").repository.directory):
        for format in ("arrow", "parquet"):
            write_segment(directory, "day/1", rows, format=format)


def _left_files(root: Path) -> list[str]:
    places = ("", "staged/s/")
    named = {name for place in places for name in _newest(root, place)}
    found = [name for place in places for name in _files(f"{place}data")(root)]
    return [name for name in found if name not in named]


def _erase(root: Path) -> Any:
    """What was left long ago is told and goes, whatever is in it."""
    for name in _left_files(root):
        os.utime(root / name, (1, 1))
    archive = _opened(root)
    told = [problem.path for problem in archive.maintain.verify().problems]
    until = archive.inspect.status().erased_until
    archive.update(_rows(_UPDATES + 1))
    if problems := archive.maintain.verify().problems:
        raise AssertionError(problems)
    return [sorted(told), until, _sorted(archive.scan()), _left_files(root)]


def _ends(root: Path) -> None:
    """Results of a query that end early wait for the next update."""
    columns = "k STRING, v BIGINT, ts TIMESTAMP, exp TIMESTAMP"
    archive = mayfly.archive.create(
        root, columns, key="k", parts=1, origin=0, max_lifetime="30 days", exp="exp"
    )
    archive.update(_with_exp(_rows(1)))
    ended = _with_exp(_rows(1)).slice(0, 50)
    ended = ended.append_column("cut", pa.array([DAY - 1] * 50, _TIME))
    directory = archive.repository.directory
    directory.replace(f"{WAITING}/000000000001.rows", seal_table(ended))
    noted = pa.table({"since": pa.array([-(2**63)]), "longest": pa.array([30 * DAY])})
    directory.replace(f"{WAITING}/{LONGEST}", seal_table(noted))


def _with_exp(rows: pa.Table) -> pa.Table:
    ends = [at + 9 * DAY for at in rows["ts"].cast(pa.int64()).to_pylist()]
    return rows.append_column("exp", pa.array(ends, _TIME))


def _declare_void(root: Path) -> Any:
    archive: Any = _Located(_opened(root))
    sink: Any = SimpleNamespace(archive=archive)
    ArchivedAnswers(sink, "", "")._declare_void()
    return _sorted(archive.scan())


class _Located:
    """An archive that knows its origin, as those on Spark tell."""

    origin = SimpleNamespace(is_settled=True)

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._archive, name)


# -- checkpoints ---------------------------------------------------------------------------------


class _Stop(BaseException):
    """Leaves a batch after its clock was recorded."""


def _stop() -> None:
    raise _Stop


def _checkpoint(root: Path) -> None:
    runner = golden_runner(root, 2)
    for batch in batches()[:2]:
        runner.feed(batch, {})
    vacuum(runner.repository, grace=0)
    try:
        with on_reach("batch.clock-recorded", _stop):
            runner.feed(batches()[2], {})
    except _Stop:
        pass
    Control.of(root).stop()
    Control.of(root)._append("change", text="INSERT INTO r VALUES (1)")
    repository = Repository.open(root, sync=False)
    repository.pin()
    notice = seal_json({"files": ["data/gone.arrow"]})  # as a vacuum that was killed leaves it
    repository.directory.put_if_absent(repository.directory.fresh_name(NOTICES, ".json"), notice)


def _run_on(root: Path) -> Any:
    runner = golden_runner(root, 2)
    for batch in batches()[2:]:
        runner.feed(batch, {})
    return [_sorted(results_of(runner, name)) for name in sorted(runner.results)]


def _look(root: Path) -> Any:
    runner = golden_runner(root, 2)
    return [_sorted(results_of(runner, name)) for name in sorted(runner.results)]


def _commands(root: Path) -> Any:
    return [str(one) for one in Control.of(root).commands()]


def _vacuum(root: Path) -> Any:
    repository = Repository.open(root, sync=False)
    vacuum(repository, keep_versions=1, grace=0)
    return sorted(repository.pinned_versions().values())


def _verify_checkpoint(root: Path) -> Any:
    report = verify(Repository.open(root, sync=False))
    if not report.ok:
        raise MayflyError("; ".join(f"{one.path}: {one.what}" for one in report.problems), "-")
    return report.readable_rows


SUBJECTS = {
    **{name: Subject(_archive(name), ARCHIVE_USES) for name in _SETTINGS},
    "staged": Subject(
        _staged,
        {
            "merge": Use(_merge_staged, lambda root: _newest(root, "staged/stream/")),
            "verify": Use(_verify, lambda root: _newest(root, "staged/stream/")),
        },
    ),
    "left": Subject(_left, {"erase": Use(_erase, _left_files, all_of_it=False)}),
    "ends": Subject(
        _ends, {"declare void": Use(_declare_void, lambda r: [*_newest(r), *_files(WAITING)(r)])}
    ),
    "checkpoint": Subject(
        _checkpoint,
        {
            "run on": Use(_run_on, _newest, all_of_it=False),
            "record again": Use(_run_on, lambda root: _files("clock")(root)[-1:]),
            "look": Use(_look, lambda root: _newest(root)[:1]),
            "commands": Use(_commands, _files("control")),
            "vacuum": Use(_vacuum, lambda r: [*_newest(r)[:1], *_files("pins", NOTICES)(r)]),
            "verify": Use(_verify_checkpoint, _files("manifest", "data")),
        },
    ),
}


def kind_of(name: str) -> str:
    """What a file is, by its name within the subject's directory."""
    folder, _, last = name.rpartition("/")
    top = folder.rpartition("/")[2]
    kind = f"{top} {last.rpartition('.')[2]}" if top == "data" else top
    return f"staged {kind}" if name.startswith("staged/") else kind


# -- the campaign --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flip:
    file: str
    bit: int


def copied(root: Path, target: Path, flip: Flip | None) -> None:
    """The directory with one bit flipped; files never change, so the others are linked."""
    shutil.copytree(root, target, copy_function=os.link)
    if flip is not None:
        path = target / flip.file
        data = bytearray(path.read_bytes())
        data[flip.bit // 8] ^= 1 << flip.bit % 8
        path.unlink()
        path.write_bytes(data)


def outcome(use: Callable[[Path], Any], root: Path, flip: Flip | None) -> tuple[str, str]:
    """How a use of a directory ends in a child of this process: how, and what it said."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os._exit(_tell(writer, use, root, flip))
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or os.WEXITSTATUS(status):
        return CRASH, f"status {status}"
    how, _, what = said.partition("\n")
    return how, what


def _tell(writer: int, use: Callable[[Path], Any], root: Path, flip: Flip | None) -> int:
    try:
        how, what = HARMLESS, json.dumps(use(root))
    except MayflyError as error:
        name = "" if flip is None else flip.file.rpartition("/")[2]
        how, what = NAMED if name in error.message and error.hint else UNNAMED, repr(error)
    except Exception as error:
        how, what = RAW, repr(error)
    with os.fdopen(writer, "w") as pipe:
        pipe.write(f"{how}\n{what}")
    return 0


def flips_of(files: list[str], root: Path, count: int, seed: str) -> Iterator[Flip]:
    """Bits of these files, spread evenly over them."""
    chosen = random.Random(seed)
    for number in range(count):
        file = files[number % len(files)]
        yield Flip(file, chosen.randrange(8 * (root / file).stat().st_size))


def campaign(
    folder: Path, flips: int, seed: int, subjects: Mapping[str, Subject] = SUBJECTS
) -> Iterator[dict[str, Any]]:
    """So many flips for every subject, use and kind of file."""
    for name, subject in subjects.items():
        root = folder / name
        subject.build(root)
        for use, wanted in subject.uses.items():
            kinds: dict[str, list[str]] = {}
            for file in wanted.reads(root):
                kinds.setdefault(kind_of(file), []).append(file)
            for kind, files in kinds.items():
                chosen = list(flips_of(files, root, flips, f"{seed} {name} {use} {kind}"))
                ends = list(endings(root, wanted, chosen))
                yield {
                    "subject": name,
                    "use": use,
                    "kind": kind,
                    "ends": Counter(how for how, _ in ends),
                    "bad": [
                        [flip.file, flip.bit, how, what[:300]]
                        for flip, (how, what) in zip(chosen, ends, strict=True)
                        if how not in GOOD or (how == HARMLESS and wanted.all_of_it)
                    ],
                }


def endings(root: Path, use: Use, flips: list[Flip]) -> Iterator[tuple[str, str]]:
    """How the use ends after each flip, and what it said."""
    whole, answer = _tried(root, use, None)
    assert whole == HARMLESS, answer
    for flip in flips:
        how, what = _tried(root, use, flip)
        yield (SILENT, what) if how == HARMLESS and what != answer else (how, what)


def _tried(root: Path, use: Use, flip: Flip | None) -> tuple[str, str]:
    target = root.with_name("copy")
    copied(root, target, flip)
    try:
        return outcome(use.run, target, flip)
    finally:
        shutil.rmtree(target)


if __name__ == "__main__":
    for line in campaign(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps(line), flush=True)
