"""From when updates are counted: declared, or left to the first rows that come."""

from __future__ import annotations

from typing import Any, Protocol

from mayfly.archive.model.declaration import counted_from
from mayfly.archive.model.ledger import Ledger, Part
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.errors import BadInput
from mayfly.lifetime import instant_text, last_likely
from mayfly.storage import SetProperties
from mayfly.storage.commit import wall_clock

ORIGIN_IS_OPEN = "origin_is_open"


class _Looks(Protocol):
    def earliest(self, batch: Any, settings: ArchiveSettings) -> int | None: ...


class Origin(Part):
    """The part of an archive that settles from when its updates are counted."""

    def __init__(self, ledger: Ledger, executor: _Looks) -> None:
        super().__init__(ledger)
        self.executor = executor

    @property
    def is_settled(self) -> bool:
        """Whether it is settled from when updates are counted."""
        version = self.version()
        return bool(version.state.update) or not version.manifest.properties.get(ORIGIN_IS_OPEN)

    def settle(self, first: int) -> None:
        """Count updates from the interval that holds ``first``, for good."""
        self._count_from(first, {ORIGIN_IS_OPEN: False})

    def propose_origin(
        self, batch: Any | None, instant: int | None, *, checked: bool = False
    ) -> ArchiveVersion:
        """Decide an open origin by ``instant`` or the earliest row; the current version.

        It stays open until the update is committed: a batch that is refused decides nothing. A row
        too far ahead to be true decides nothing either, unless that was ``checked``.
        """
        if not self.is_settled:
            first = instant
            if first is None and batch is not None:
                first = self.executor.earliest(batch, self.version().settings)
                if first is not None and not checked:
                    self._check_likely(first)
            self._count_from(first, {})
        return self.version()

    def _check_likely(self, first: int) -> None:
        if first > last_likely(wall_clock(), self.version().settings.max_gap):
            raise BadInput(
                f"the earliest of the first rows of {self.repository.directory.address} is of "
                f"{instant_text(first)}, later than the wall clock plus max_gap: too far ahead to "
                "be true",
                "repair these rows, name their update (at=…), or create the archive with an origin "
                'or with max_gap="none"',
            )

    def _count_from(self, first: int | None, properties: dict[str, Any]) -> None:
        version = self.version()
        settings = counted_from(version.settings, first)
        if settings != version.settings or properties:
            edits = [SetProperties({"archive": settings.to_json(), **properties})]
            self.repository.commit(version.manifest, edits)
