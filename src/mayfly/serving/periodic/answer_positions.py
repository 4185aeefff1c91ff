"""Up to where each served query was answered, kept beside the checkpoint for the next server.

Not a part of any version: an answer may come twice after a kill, and never contradicts itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from mayfly.errors import MayflyError
from mayfly.storage.directory import Directory

FILE = "served.json"
IDENTITY, AS_OF = "checkpoint", "as_of"


class AnswerPositions(dict[str, int]):
    """Instants by query; ``identity`` is that of the checkpoint they belong to."""

    def __init__(self, directory: Directory, identity: str, note: Callable[[str], None]) -> None:
        super().__init__(_stored(directory, identity))
        self.directory, self.identity, self.note = directory, identity, note
        self._written = dict(self)
        self._failed = False

    def advance(self, query: str, as_of: int) -> None:
        self[query] = max(as_of, self.get(query, as_of))

    def store(self, now: dict[str, int]) -> None:
        """Write down these, if they are newer; where that cannot be, say so once."""
        if now == self._written:
            return
        data = json.dumps({IDENTITY: self.identity, AS_OF: now}).encode()
        try:
            self.directory.replace(FILE, data)
            self._written = now
        except (OSError, MayflyError) as error:
            if not self._failed:
                self.note(f"a next server will not know what was answered: {error}")
            self._failed = True


def _stored(directory: Directory, identity: str) -> dict[str, int]:
    try:
        value = json.loads(directory.read(FILE)) if directory.exists(FILE) else {}
    except (OSError, ValueError, MayflyError):
        return {}
    if not isinstance(value, dict) or value.get(IDENTITY) != identity:
        return {}
    instants = value.get(AS_OF)
    if not isinstance(instants, dict):
        return {}
    return {str(name): as_of for name, as_of in instants.items() if type(as_of) is int}
