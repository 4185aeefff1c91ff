"""Every error Mayfly raises on purpose: what was wrong, where, and what to do next."""

from __future__ import annotations


class MayflyError(Exception):
    """Base of all Mayfly errors.

    ``message`` says what is wrong and where; ``hint`` says what to do next.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\n  → {hint}" if hint else message)

    def __reduce__(self) -> tuple[type[MayflyError], tuple[str, str]]:
        return type(self), (self.message, self.hint)


class InvalidSetting(MayflyError):
    """A parameter, option or declared property does not make sense."""


class BadInput(MayflyError):
    """Rows that cannot be accepted: NULL or impossible times, wrong types."""


class StorageError(MayflyError):
    """Something about files on disk."""


class CorruptFile(StorageError):
    """A stored file is missing, truncated, or differs from its checksum."""


class UnsupportedFormat(StorageError):
    """The directory was written in a format this version cannot read."""


class UnsupportedStore(StorageError):
    """The path lies on a store that offers no atomic put-if-absent."""


class CommitConflict(StorageError):
    """Another writer committed first; nothing of this commit was applied."""


class InvalidEdit(StorageError):
    """A commit whose edits contradict the manifest they are applied to."""


class VersionExpired(StorageError):
    """The requested version or instant is no longer retained."""


class NotClosed(MayflyError):
    """An answer was asked for an instant that is not closed yet."""


class StaleAnswer(MayflyError):
    """The answer that could be had is older than its reader allows."""


class LimitExceeded(MayflyError):
    """A declared limit (state size, gap between streams) was reached."""


class ProtocolError(MayflyError):
    """A batch broke the commit protocol: a receipt is missing or contradicts another."""
