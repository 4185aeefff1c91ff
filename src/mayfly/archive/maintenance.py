"""What keeps an archive in order over time: columns, versions, checks, vacuum."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from mayfly.archive.erase.erasure import Erasure
from mayfly.archive.model.ledger import Part
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.write.committer import Committer
from mayfly.archive.write.staged_rows import STAGED, require_nothing_staged, staged_repositories
from mayfly.archive.write.update_report import miscounted
from mayfly.errors import CorruptFile, InvalidSetting, VersionExpired
from mayfly.keywords import known_settings, whole
from mayfly.lifetime import Duration, duration
from mayfly.storage import (
    Problem,
    SetProperties,
    VacuumReport,
    VerifyReport,
    vacuum,
    verify,
)
from mayfly.storage.commit import manifest_name


class Maintenance(Part):
    """The part of an archive that neither takes in rows nor gives them out."""

    def __init__(self, committer: Committer, erasure: Erasure) -> None:
        super().__init__(committer.ledger)
        self._committer, self._erasure = committer, erasure

    @known_settings()
    def add_column(self, name: str, kind: str) -> None:
        """Add a column; rows stored before have NULL in it."""
        version = self.version()
        settings = version.settings.with_column(name, kind)
        self.repository.commit(version.manifest, [SetProperties({"archive": settings.to_json()})])

    @known_settings()
    def rollback(self, version: int) -> None:
        """Make a retained version the current one again, as a new version."""
        if whole("version", version) < 0:
            raise InvalidSetting(f"there is no version {version}", "history() lists the versions")
        if version < (clean := self._erasure.first_clean()):
            raise InvalidSetting(
                f"version {version} holds rows that were declared void and must be gone",
                f"roll back to version {clean} or a later one",
            )
        with contextlib.suppress(CorruptFile):  # how rows of a damaged one were staged is unknown
            now, target = self.version(), ArchiveVersion.of(self.repository.load(version))
            root = self.repository.directory.address
            require_nothing_staged(root, now.settings, target.settings)
        self.repository.rollback(version)

    @known_settings()
    def verify(self) -> VerifyReport:
        """Look into every file of every retained version and into what streams have staged, and
        compare the counts."""
        verification = verify(self.repository)
        try:
            version = ArchiveVersion.of(self.repository.load(verification.version))
        except (CorruptFile, VersionExpired):  # named already; or vacuumed since, when it was whole
            return verification
        name = manifest_name(verification.version)
        problems = [*verification.problems, *(Problem(name, what) for what in miscounted(version))]
        for sink, staged in staged_repositories(self.repository.directory.address).items():
            damage = verify(staged).problems
            problems += (
                Problem(f"{STAGED}/{sink}/{problem.path}", problem.what) for problem in damage
            )
        with contextlib.suppress(CorruptFile):  # a lost manifest is named already
            problems += self._erasure.overdue()
        return replace(verification, problems=tuple(problems))

    @known_settings()
    def vacuum(
        self,
        *,
        keep_versions: int | None = None,
        grace: Duration = "1 hour",
    ) -> VacuumReport:
        """Remove what the versions of the last ``keep_versions`` updates do not need.

        Files that no version names and that are younger than ``grace`` stay: a commit may be about
        to add them. One whose files are taken gets a CommitConflict; no version is ever harmed.
        """
        courtesy = duration(grace)
        kept = (
            self.version().settings.keep_versions
            if keep_versions is None
            else whole("keep_versions", keep_versions)
        )
        if kept < 1:
            raise InvalidSetting(f"keep_versions is {kept}", "keep those of 1 update or more")
        return vacuum(
            self.repository,
            keep_versions=self._committer.versions_of(kept),
            grace=courtesy,
        )
