"""One validated commit path over a directory of manifests.

Version v is the file ``manifest/<v>.json``, created by put-if-absent: of two writers that start
from the same version exactly one succeeds. A crash leaves either the old or the new version, plus
data files nobody names, which vacuum removes. Readers pin the version they read.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType

from mayfly.errors import CommitConflict, CorruptFile, StorageError, VersionExpired
from mayfly.storage.edits import Draft, Edit
from mayfly.storage.files import Directory
from mayfly.storage.manifest import Manifest
from mayfly.storage.segment import Json, check_present

MANIFESTS, PINS = "manifest", "pins"
DEFAULT_LEASE = 3_600_000_000
_VERSION = re.compile(rf"^{MANIFESTS}/(\d{{20}})\.json$")


def manifest_name(version: int) -> str:
    return f"{MANIFESTS}/{version:020d}.json"


def wall_clock() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Pin:
    """A reader's claim on a version: vacuum keeps its files until it is released or runs out."""

    directory: Directory
    name: str
    manifest: Manifest

    def release(self) -> None:
        self.directory.remove(self.name)

    def __enter__(self) -> Manifest:
        return self.manifest

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Repository:
    """A directory under version control: manifests, the data files they name, and pins."""

    directory: Directory

    @staticmethod
    def create(
        root: str | os.PathLike[str], properties: Mapping[str, Json], *, sync: bool = True
    ) -> Repository:
        repository = Repository(Directory.at(root, sync=sync))
        first = Manifest(0, {}, dict(properties), wall_clock())
        if not repository.directory.put_if_absent(manifest_name(0), first.encode()):
            raise CommitConflict(
                f"{repository.directory.root} already holds a Mayfly directory",
                "open it, or choose another path",
            )
        return repository

    @staticmethod
    def open(root: str | os.PathLike[str], *, sync: bool = True) -> Repository:
        repository = Repository(Directory.at(root, sync=sync))
        if not repository.versions():
            raise StorageError(
                f"there is no Mayfly directory at {repository.directory.root}",
                "check the path, or create one there",
            )
        return repository

    @staticmethod
    def exists(root: str | os.PathLike[str]) -> bool:
        return bool(Repository(Directory.at(root)).versions())

    def versions(self) -> list[int]:
        found = (_VERSION.match(name) for name in self.directory.names(MANIFESTS))
        return [int(match[1]) for match in found if match]

    def load(self, version: int) -> Manifest:
        name = manifest_name(version)
        try:
            data = self.directory.read(name)
        except FileNotFoundError:
            kept = self.versions()
            span = f"{kept[0]} to {kept[-1]}" if kept else "none"
            raise VersionExpired(
                f"version {version} of {self.directory.root} is not retained (kept: {span})",
                "read a retained version",
            ) from None
        return Manifest.decode(data, f"{self.directory.root}/{name}")

    def current(self) -> Manifest:
        for _ in range(3):
            versions = self.versions()
            if not versions:
                raise CorruptFile(f"{self.directory.root} has lost all its manifests")
            try:
                return self.load(versions[-1])
            except VersionExpired:  # a vacuum ran between the listing and the read
                continue
        raise CorruptFile(f"the newest manifest of {self.directory.root} cannot be read")

    def commit(self, base: Manifest, edits: Iterable[Edit]) -> Manifest:
        """Apply ``edits`` to ``base`` and publish the next version, or change nothing."""
        draft = Draft.of(base)
        for edit in edits:
            edit.apply(draft)
        for segment in draft.added:
            check_present(self.directory, segment)
        following = Manifest(base.version + 1, draft.segments, draft.properties, wall_clock())
        if not self.directory.put_if_absent(manifest_name(following.version), following.encode()):
            raise CommitConflict(
                f"another writer committed version {following.version} of {self.directory.root}",
                "nothing of this commit was applied: read the current version and try again",
            )
        return following

    def pin(self, version: int | None = None, *, lease: int = DEFAULT_LEASE) -> Pin:
        """Keep a version (the current one by default) readable for at most ``lease`` µs.

        The pin is written before the manifest is looked up: a vacuum that misses the pin has
        removed the manifest by then, and the reader learns it here (see vacuum.py).
        """
        for _ in range(3):
            wanted = self.versions()[-1] if version is None else version
            name = f"{PINS}/{uuid.uuid4().hex}.json"
            claim = {"version": wanted, "until": wall_clock() + lease, "process": os.getpid()}
            self.directory.put_if_absent(name, json.dumps(claim).encode())
            try:
                return Pin(self.directory, name, self.load(wanted))
            except VersionExpired:
                self.directory.remove(name)
                if version is not None:
                    raise
        raise CorruptFile(f"the newest manifest of {self.directory.root} cannot be read")

    def pinned_versions(self, *, at: int | None = None) -> dict[str, int]:
        """Live pins: pin file → version."""
        now = wall_clock() if at is None else at
        live = {}
        for name in self.directory.names(PINS):
            try:
                claim = json.loads(self.directory.read(name))
            except FileNotFoundError:
                continue
            if claim["until"] > now:
                live[name] = claim["version"]
        return live
