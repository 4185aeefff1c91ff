"""Notices new versions of a checkpoint, for all who follow it: one look at its folder at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from mayfly.errors import StorageError
from mayfly.storage import Repository

OFTEN = 0.2
"""Seconds between two looks."""


@dataclass
class CommitWatch:
    """The newest version of a checkpoint; looked for while a follower waits."""

    repository: Repository
    stopping: Callable[[], bool]
    version: int = -1
    _waiting: int = 0
    _looked: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self) -> None:
        """Look until the server stops."""
        while not self.stopping():
            if self._waiting:
                await self._look()
            await asyncio.sleep(OFTEN)
        async with self._looked:
            self._looked.notify_all()

    async def other_than(self, version: int, timeout: float) -> bool:
        """Wait until a look shows another version, or the server stops; False after so long."""
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout), self._looked:
                while not self.stopping():
                    await self._looked.wait()
                    if self.version != version:
                        return True
            return True
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1

    async def _look(self) -> None:
        try:
            version = await asyncio.to_thread(self.repository.newest)
        except (StorageError, OSError):
            return  # being made anew, or moved: the next look shows it
        async with self._looked:
            self.version = version
            self._looked.notify_all()
