"""One validated commit path over a directory of manifests.

Version v is the file ``manifest/<v>.json``, created by put-if-absent: of two writers that start
from the same version exactly one succeeds. A crash leaves either the old or the new version, plus
data files without a name in any manifest, which vacuum removes. Readers pin the version they read.

The largest ``manifest/<v>.oldest`` names the oldest retained version: it only ever grows. Vacuum
raises it before it removes anything, so that a number whose manifest is gone cannot be committed a
second time, and a reader whose pin came too late to be seen by vacuum sees the raised number
instead (see vacuum). Which files a commit may add beside a vacuum: see intents.
``manifest/head-<v>`` is an empty file beside the newest manifest: without it the loss of that one
would look like the time before its commit. From version 1 on there always is one, of the newest
version or, after a crash, of the one before; where all are gone the newest manifest may be, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mayfly.errors import (
    CommitConflict,
    CorruptFile,
    InvalidSetting,
    StorageError,
    VersionExpired,
)
from mayfly.faults import reach
from mayfly.storage.directory import Directory
from mayfly.storage.edits import Draft, Edit, as_stored
from mayfly.storage.intents import intent
from mayfly.storage.manifest import Manifest
from mayfly.storage.pins import Claim, Pin
from mayfly.storage.segment import DATA, Json, Segment, check_content
from mayfly.storage.store.problems import is_denied

MANIFESTS, PINS = "manifest", "pins"
OLDEST = f"{MANIFESTS}/oldest"
"""Where directories of earlier versions of Mayfly have the number of the oldest version."""
DEFAULT_LEASE = 3_600_000_000
ATTEMPTS = 100
"""How often a reader of the newest version lets others overtake it: each time they committed and
vacuumed between its look at the list and its look at the manifest."""
LOST_AT_MOST = 1000
"""So many of the newest versions may be lost where no mark tells their last number."""
_NUMBERED = re.compile(rf"^{MANIFESTS}/(\d{{20}})\.(json|oldest)$")
_HEAD = re.compile(rf"^{MANIFESTS}/head-(\d{{20}})$")


def manifest_name(version: int) -> str:
    return f"{MANIFESTS}/{version:020d}.json"


def head_name(version: int) -> str:
    return f"{MANIFESTS}/head-{version:020d}"


def oldest_name(version: int) -> str:
    return f"{MANIFESTS}/{version:020d}.oldest"


def wall_clock() -> int:
    return time.time_ns() // 1000


@contextlib.contextmanager
def reading_version(directory: Directory, version: int) -> Iterator[None]:
    """What a reader misses was damaged if its version is still there, else taken away with it."""
    try:
        yield
    except CorruptFile as missing:
        if directory.exists(manifest_name(version)):
            raise
        raise VersionExpired(
            f"version {version} of {directory.address} is gone: rows in it had expired, or no pin "
            "held it",
            "read the current version; a contract to erase bytes wins over readers",
        ) from missing


class VersionListing(NamedTuple):
    """The folder of manifests: versions on disk in order, the oldest retained one, the last one
    that was committed, and whether a version is marked as the newest."""

    stored: list[int]
    oldest: int
    last: int
    marked: bool


def check_place(directory: Directory) -> None:
    """Refuse a folder that holds other things: files that no version names would be removed."""
    # A creation that was cut short leaves the folder of manifests, and volumes have lost+found.
    exceptions = (MANIFESTS, "lost+found")
    others = [entry for entry in directory.entries() if entry not in exceptions and entry[0] != "."]
    if others and not Repository(directory).versions():
        raise InvalidSetting(
            f"{directory.address} was not made by Mayfly, and has other things in it, "
            f"such as {others[0]}",
            "name a folder that is empty or not there yet",
        )


@dataclass(frozen=True, slots=True)
class Repository:
    """A directory under version control: manifests, the data files they name, and pins."""

    directory: Directory

    @staticmethod
    def create(
        root: str | os.PathLike[str], properties: Mapping[str, Json], *, sync: bool = True
    ) -> Repository:
        repository = Repository(Directory.at(root, sync=sync))
        check_place(repository.directory)
        first = Manifest(-1).followed_by(
            properties=as_stored(properties, "a property"), written_at=wall_clock()
        )
        if (
            repository.last() >= 0
            or repository.oldest()
            or not repository.directory.put_if_absent(manifest_name(0), first.encode())
        ):
            raise CommitConflict(
                f"{repository.directory.address} already holds a Mayfly directory",
                "open it, or choose another path",
            )
        repository.mark_head(0)
        return repository

    @staticmethod
    def open(root: str | os.PathLike[str], *, sync: bool = True) -> Repository:
        repository = Repository(Directory.at(root, sync=sync))
        if not repository.versions():
            if repository.last() >= 0:
                raise repository._lost_all()
            raise StorageError(
                f"there is no Mayfly directory at {repository.directory.address}",
                "check the path: mayfly run makes a checkpoint, mayfly archive create an archive",
            )
        return repository

    @staticmethod
    def exists(root: str | os.PathLike[str]) -> bool:
        return bool(Repository(Directory.at(root)).versions())

    def oldest(self) -> int:
        """The oldest retained version; manifests below it are kept only for pins."""
        return self._listed().oldest

    def stored_versions(self) -> list[int]:
        """Every version whose manifest is on disk, retained or not."""
        return self._listed().stored

    def versions(self) -> list[int]:
        """The retained versions, oldest first."""
        listed = self._listed()
        return [version for version in listed.stored if version >= listed.oldest]

    def last(self) -> int:
        """The last version that was committed, whether its manifest is there or not; or -1."""
        return self._listed().last

    def _listed(self) -> VersionListing:
        """What one look at the folder of manifests shows."""
        stored, oldest, last = [], 0, -1
        for name in self.directory.names(MANIFESTS):
            if match := _NUMBERED.match(name):
                if match[2] == "json":
                    stored.append(int(match[1]))
                else:
                    oldest = max(oldest, int(match[1]))
            elif match := _HEAD.match(name):
                last = max(last, int(match[1]))
            elif name == OLDEST:
                oldest = max(oldest, self._oldest_of_old())
        return VersionListing(stored, oldest, max([last, *stored[-1:]]), last >= 0)

    def _oldest_of_old(self) -> int:
        try:
            return int(self.directory.read(OLDEST))
        except FileNotFoundError:  # a vacuum has just put a later number beside it
            return 0
        except ValueError:
            raise CorruptFile(
                f"{self.directory.address}/{OLDEST} is damaged",
                "write the number of the oldest version you want to keep into it",
            ) from None

    def raise_oldest(self, version: int) -> None:
        """Retain only this version and later ones, for ever; marks of earlier ones, of which a
        crash may leave some, go."""
        self.directory.put_if_absent(oldest_name(version), b"")
        names = self.directory.names(MANIFESTS)
        newest_mark = max(filter(_HEAD.match, names), default=None)
        for name in names:
            match = _HEAD.match(name) or _NUMBERED.match(name)
            lower = match and match[0] != manifest_name(int(match[1])) and int(match[1]) < version
            if (lower and name != newest_mark) or (
                name == OLDEST and self._oldest_of_old() <= version
            ):
                self.directory.remove(name)

    def newest(self) -> int:
        return self._newest().last

    def _newest(self) -> VersionListing:
        for _ in range(ATTEMPTS):
            listed = self._listed()
            stored, oldest, last, _ = listed
            if not stored or stored[-1] < oldest:
                raise self._lost_all()
            if last == stored[-1] or self.directory.exists(manifest_name(last)):
                return listed
            if max(self.stored_versions()) < last:  # else others went on while this one looked
                raise self._lost_newest(last)
        raise self._too_busy()

    def _lost_all(self) -> CorruptFile:
        return CorruptFile(
            f"{self.directory.address} has lost all its manifests",
            f"restore {MANIFESTS}/ from a copy",
        )

    def _lost_newest(self, last: int) -> CorruptFile:
        return CorruptFile(
            f"version {last} of {self.directory.address} was committed, but its manifest "
            f"{manifest_name(last)} is gone",
            f"restore it from a copy, or roll back to version {max(self.versions())} to go on "
            "without it",
        )

    def lost_mark(self, listed: VersionListing, newest: Manifest) -> CorruptFile | None:
        """What to say where no version is marked as the newest any more.

        A look that falls between two marks of commits shows none: the next one does.
        """
        if listed.marked or not newest.marked or self._listed().marked:
            return None
        return CorruptFile(
            f"version {newest.version} is the newest there is of {self.directory.address}, but "
            f"the mark of the newest ({MANIFESTS}/head-…) is gone, and later versions may be too",
            f"restore {MANIFESTS}/ from a copy, or roll back to version {newest.version} to go on "
            "from it",
        )

    def load(self, version: int) -> Manifest:
        """One version, compared with its checksum."""
        name = manifest_name(version)
        try:
            data = self.directory.read(name)
        except FileNotFoundError:
            raise self._expired(version) from None
        place = f"{self.directory.address}/{name}"
        manifest = Manifest.decode(data, place)
        if manifest.version != version:
            raise CorruptFile(
                f"{place} holds version {manifest.version}",
                "restore it from a copy, or roll back to an older version",
            )
        return manifest

    def current(self) -> Manifest:
        """The newest committed version."""
        for _ in range(ATTEMPTS):
            listed = self._newest()
            try:
                manifest = self.load(listed.last)
            except VersionExpired:  # commits and a vacuum ran between the listing and the read
                continue
            if lost := self.lost_mark(listed, manifest):
                raise lost
            return manifest
        raise self._too_busy()

    def commit(self, base: Manifest, edits: Iterable[Edit]) -> Manifest:
        """Apply ``edits`` to ``base`` and publish the next version, or change nothing."""
        draft = Draft.of(base)
        for edit in edits:
            edit.apply(draft)
        self._require_newest(base)
        following = base.followed_by(
            segments=draft.segments,
            properties=draft.properties,
            written_at=max(wall_clock(), base.written_at),
        )
        added = [segment for segment in draft.added if segment.path in draft.segments]
        with intent(self.directory, following.version, added):
            if added:
                self.directory.store.persist(DATA)
            return self._publish(following)

    def rollback(self, version: int) -> Manifest:
        """Publish a new version with the content of a retained one; what came since stays readable.

        A version that is not whole is refused. The newest manifest itself is not read: a damaged
        or lost one is no obstacle. No number that a lost version may have had is used again: who
        has seen it would take this one for it.
        """
        with self.pin(version) as manifest:
            for segment in manifest.segments.values():
                self._require_whole(version, segment)
            last, before = self._last_used()
            unread = Manifest(last, manifest.segments, manifest.properties)
            after = None if before == last else before
            following = unread.followed_by(written_at=wall_clock(), after=after)
            with intent(self.directory, following.version, list(manifest.segments.values())):
                return self._publish(following)

    def _last_used(self) -> tuple[int, int]:
        """The last number that any version may have had, and that of the last one on disk."""
        listed = self._listed()
        if not listed.marked:  # or it was moved meanwhile
            listed = self._listed()
        return listed.last + (0 if listed.marked else LOST_AT_MOST), listed.stored[-1]

    def _require_whole(self, version: int, segment: Segment) -> None:
        try:
            check_content(self.directory, segment)
        except CorruptFile as damage:
            raise CorruptFile(
                f"version {version} of {self.directory.address} is not whole: {damage.message}",
                "roll back to another version (verify names what is damaged), or restore the file",
            ) from damage

    @contextlib.contextmanager
    def writing_from(self, base: Manifest) -> Iterator[None]:
        """A writer that misses files of its base has lost to writers that went on and vacuumed."""
        try:
            yield
        except (CorruptFile, VersionExpired, FileNotFoundError) as missing:
            if self.newest() == base.version:
                raise
            raise self._conflict(base.version + 1) from missing

    def _require_newest(self, base: Manifest) -> None:
        """Find a stale base before anything is written; ``_publish`` is what decides."""
        following = base.version + 1
        # In this order: a base that vacuum removed has raised the oldest version by then.
        exists = self.directory.exists(manifest_name(base.version))
        listed = self._listed()
        if max(listed.stored, default=-1) > base.version or listed.oldest > base.version:
            raise self._conflict(following)
        if lost := self.lost_mark(listed, base):
            raise lost
        if not exists:
            raise StorageError(
                f"there is no version {base.version} in {self.directory.address}",
                "start from the current version of the directory you commit to",
            )
        if listed.last > base.version:
            if max(self.stored_versions()) > base.version:
                raise self._conflict(following)
            raise self._lost_newest(listed.last)

    def _publish(self, following: Manifest) -> Manifest:
        reach("commit.checked")
        name = manifest_name(following.version)
        if not self.directory.put_if_absent(name, following.encode()):
            raise self._conflict(following.version)
        reach("commit.published")
        self.mark_head(following.version)
        if self.oldest() > following.version:
            self._require_ancestor(following)
        return following

    def mark_head(self, version: int) -> None:
        """Note outside of its manifest that a version is there; it is, whatever fails here."""
        with contextlib.suppress(StorageError):
            self.directory.touch(head_name(version))
            if version:
                self.directory.remove(head_name(version - 1))

    def _require_ancestor(self, published: Manifest) -> None:
        """Others committed and vacuumed meanwhile: did they before us, or on top of us?"""
        commit_id = self.current().commit_id(published.version)
        if commit_id is None:
            raise StorageError(
                f"other writers moved {self.directory.address} far past version "
                f"{published.version} while it was being committed",
                "read the current version to see whether this commit is part of it",
            )
        if commit_id != published.lineage[0]:
            raise self._conflict(published.version)

    def _conflict(self, version: int) -> CommitConflict:
        return CommitConflict(
            f"another writer committed version {version} of {self.directory.address}",
            "nothing of this commit was applied: read the current version and try again",
        )

    def _expired(self, version: int) -> VersionExpired:
        kept = self.versions()
        span = f"{kept[0]} to {kept[-1]}" if kept else "none"
        return VersionExpired(
            f"version {version} of {self.directory.address} is not retained (kept: {span})",
            "read a retained version",
        )

    def _too_busy(self) -> StorageError:
        return StorageError(
            f"versions of {self.directory.address} vanish faster than they can be read",
            "let vacuum keep more versions",
        )

    def pin(self, version: int | None = None, *, lease: int = DEFAULT_LEASE) -> Pin:
        """Keep a version (the current one by default) readable for at most ``lease`` µs."""
        for _ in range(ATTEMPTS):
            number = self.current().version if version is None else version
            pin = self._claim(number, lease)
            if pin is not None:
                return pin
            if version is not None:
                raise self._expired(version)
        raise self._too_busy()

    def _claim(self, version: int, lease: int) -> Pin | None:
        """Write the pin first, then look whether vacuum had been there before."""
        pins = self.directory.without_sync()
        name: str | None = pins.fresh_name(PINS, ".json")
        assert name is not None
        try:
            pins.put_if_absent(name, Claim(version, wall_clock() + lease).encode())
        except StorageError as error:
            if not is_denied(error):
                raise
            name = None
        pin: Pin | None = None
        try:
            reach("pin.written")
            if version >= self.oldest():
                pin = Pin(pins, name, self.load(version))
        except VersionExpired:
            pass
        finally:
            if pin is None and name is not None:
                pins.remove(name)
        return pin

    def pins(self) -> dict[str, Claim]:
        """Every pin file and what it claims, expired ones too."""
        claims = {}
        for name in self.directory.names(PINS):
            try:
                claims[name] = Claim.decode(self.directory.read(name), name)
            except FileNotFoundError:  # released meanwhile
                continue
        return claims

    def pinned_versions(self, *, instant: int | None = None) -> dict[str, int]:
        """Live pins: pin file → version."""
        now = wall_clock() if instant is None else instant
        return {name: claim.version for name, claim in self.pins().items() if claim.until > now}
