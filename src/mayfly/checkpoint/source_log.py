"""The sources of a pipeline in Spark's part of its checkpoint, and how their set changes.

Idea: Spark notes how far each source was read under the source's place in the plan, so its notes
fit no other set of sources. Ours are known by the names of their streams; which place each has is
a property of the manifest. A changed set gets a new folder: the notes on a stream that stays move
to its new place, and one that is new stands at its beginning, as Spark itself notes a source that
has given nothing yet. The commit that registers the streams names the folder, so a crash leaves
either the old one in force or the new one. Numbers of batches go on.
Invariant: a stream that stays is read on from where the last planned batch ended.
Cost: a copy of Spark's notes; no row is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mayfly.errors import InvalidSetting, StorageError
from mayfly.faults import reach
from mayfly.storage import Directory, Manifest

SOURCES, PART, ORIGINS = "sources", "spark_part", "origins"
FIRST_PART = "spark"
HEARTBEAT = "*"
"""Among sources: the one that only beats. No stream has this name."""
BEGINNING = "-"
_PARTS = re.compile(rf"^{FIRST_PART}(-\d+)?$")
_LOG = re.compile(r"^offsets/\d+$")
_NOTES = re.compile(r"^sources/(\d+)/(.+)$")
_FOLDER = re.compile(r"^\w+\('(.+)'\)$")
BY_PLACE, BY_NAME = "v1", "v2"


def part_of(manifest: Manifest) -> str:
    """The folder of a checkpoint in which Spark keeps its own."""
    return str(manifest.properties.get(PART, FIRST_PART))


def ordered(existing: Sequence[str], requested: Sequence[str]) -> list[str]:
    """The wanted streams, those that are known first and in the order they have."""
    return [
        *(name for name in existing if name in requested),
        *(name for name in requested if name not in existing),
    ]


def rearranged(log: str, before: Sequence[str], after: Sequence[str]) -> str:
    """What Spark noted of one batch over some sources, as if it had been over others.

    Where the session has Spark name its sources, its notes fit any set of them as they are.
    """
    version, about, *places = log.rstrip("\n").split("\n")
    if version == BY_NAME:
        return log
    if version != BY_PLACE:
        raise StorageError(
            f"Spark keeps its offsets in the format {version}, which Mayfly does not know",
            "streams cannot come to this checkpoint or leave it: use a new one",
        )
    if len(places) != len(before):
        raise InvalidSetting(
            f"Spark reads {len(places)} sources for {_listed(before)}: it does not say which "
            "belongs to which",
            "streams can come and go where the DataFrame of each has one source of its own: use a "
            "new checkpoint, or run what is new as a pipeline of its own",
        )
    noted = dict(zip(before, places, strict=True))
    return "\n".join([version, about, *(noted.get(source, BEGINNING) for source in after)])


def origin(format: str, folder: str | None) -> str:
    """A word for where rows come from: two folders are two sources."""
    return format if folder is None else f"{format}('{folder}')"


def folder_of(origin: str | None) -> str | None:
    """The folder that a source reads files from, if it does."""
    match = _FOLDER.match(origin or "")
    return match[1] if match else None


def _is_still(stored: str, now: str) -> bool:
    """Whether rows come from where they came; once only the format was noted."""
    return stored in (now, now.partition("(")[0])


def with_origins(
    directory: Directory, manifest: Manifest, left: Sequence[str], now: Mapping[str, str]
) -> list[str]:
    """The sources a checkpoint was left with; those of streams whose rows come from elsewhere
    ``now`` under names that no stream has, so that nothing is taken over of what was read there.
    """
    stored: Mapping[str, str] = manifest.properties.get(ORIGINS, {})
    common_names = [name for name in left if name in stored and name in now]
    others = {name: stored[name] for name in common_names if not _is_still(stored[name], now[name])}
    if not others:
        return list(left)
    name, word = next(iter(others.items()))
    part = part_of(manifest)
    if any(batch > manifest.properties["batch"] for batch in logged(directory, part)):
        raise InvalidSetting(
            f"the stream {name} comes from {now[name]} now, but a batch from {word} is not done",
            f"let the pipeline finish what it has read from {word}, stop it, and start it then",
        )
    log = last_log(directory, part)
    if log is not None and log.startswith(BY_NAME):
        raise InvalidSetting(
            f"the stream {name} comes from {now[name]} now, and Spark knows its source by name",
            "give the stream another name, or use a new checkpoint",
        )
    return [f"{source} from {others[source]}" if source in others else source for source in left]


def clocks_of(stored: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Stored clocks for these streams: one that is new has none, one that is gone leaves none."""
    return {
        **stored,
        "streams": {name: stored["streams"].get(name) for name in names},
        "largest": {name: stored["largest"].get(name) for name in names},
    }


@dataclass(frozen=True)
class Move:
    """From the sources that a checkpoint was left with to those it goes on with."""

    directory: Directory
    part: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def needed(self) -> bool:
        return self.before != self.after

    def check(self) -> None:
        """Refuse what could not be done."""
        if self.needed and (log := last_log(self.directory, self.part)) is not None:
            rearranged(log, self.before, self.after)

    def write_anew(self, number: int) -> str:
        """Write the notes anew into a folder of this number; its name."""
        folder = f"{FIRST_PART}-{number}"
        self.directory.remove_folder(folder)
        for name in _notes(self.directory, self.part):
            target, data = self._placed(name), self.directory.read(f"{self.part}/{name}")
            if _LOG.match(name):
                data = rearranged(data.decode(), self.before, self.after).encode()
            if target is not None:
                self.directory.put_if_absent(f"{folder}/{target}", data)
        reach("sources.moved")
        return folder

    def remove_others(self, part: str) -> None:
        """Of Spark's folders, leave only the one in force."""
        for folder in self.directory.entries():
            if _PARTS.match(folder) and folder != part:
                self.directory.remove_folder(folder)

    def _placed(self, name: str) -> str | None:
        """Where a note belongs now; None for one on a source that is gone."""
        match = _NOTES.match(name)
        if match is None:
            return name
        place = int(match[1])
        source = self.before[place] if place < len(self.before) else None
        return f"sources/{self.after.index(source)}/{match[2]}" if source in self.after else None


def logged(directory: Directory, part: str) -> list[int]:
    """The batches that Spark has planned, as far as it still says so."""
    notes = _notes(directory, part)
    return sorted(int(name.rpartition("/")[2]) for name in notes if _LOG.match(name))


def last_log(directory: Directory, part: str) -> str | None:
    """How far Spark planned to read, as it noted that last."""
    batches = logged(directory, part)
    return directory.read(f"{part}/offsets/{batches[-1]}").decode() if batches else None


def sources_left(directory: Directory, manifest: Manifest, declared: Sequence[str]) -> list[str]:
    """The sources a checkpoint was left with, in the order of Spark's plan.

    One that does not say so was made in the order of the declarations.
    """
    stored = manifest.properties.get(SOURCES)
    if stored is not None:
        return list(stored)
    streams = manifest.properties["clocks"]["streams"]
    names = [stream for stream in declared if stream in streams]
    if len(names) < len(streams):
        gone = sorted(set(streams) - set(names))
        raise InvalidSetting(
            f"the checkpoint {directory.address} does not say which source belongs to which "
            f"stream, and {_listed(gone)} is missing",
            "start it once with all its streams with this version of Mayfly; then it can leave",
        )
    log = last_log(directory, part_of(manifest))
    beats = log is not None and len(log.rstrip("\n").split("\n")) == len(names) + 3
    return [*names, HEARTBEAT] if beats else names


def _notes(directory: Directory, part: str) -> list[str]:
    """The files of a part; hidden ones are checksums and drafts."""
    names = [name.removeprefix(f"{part}/") for name in directory.all_names(part)]
    return [
        name
        for name in names
        if not any(component.startswith(".") for component in name.split("/"))
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join("the heartbeat" if name == HEARTBEAT else name for name in names)
