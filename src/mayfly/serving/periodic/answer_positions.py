"""Up to where each served query was answered, kept beside the checkpoint for the next server.

Not a part of any version: an answer may come twice after a kill, and never contradicts itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mayfly.errors import MayflyError
from mayfly.storage.directory import Directory

FILE = "served.json"
IDENTITY, AS_OF, MEASURED = "checkpoint", "as_of", "measured"


class AnswerPositions(dict[str, int]):
    """Instants by query; ``identity`` is that of the checkpoint they belong to."""

    def __init__(self, directory: Directory, identity: str, note: Callable[[str], None]) -> None:
        super().__init__(_stored(directory, identity))
        self.directory, self.identity, self.note = directory, identity, note
        self._written = dict(self)
        self._failed = self._shared = False
        self._value: dict[str, Any] | None = None
        """What was written last."""

    def advance(self, query: str, as_of: int) -> None:
        self[query] = max(as_of, self.get(query, as_of))

    def store(self, now: dict[str, int], measured: Mapping[str, Any] | None = None) -> None:
        """Write down these, if they are newer; where that cannot be, say so once. What was
        measured goes with them, for advice."""
        if now == self._written:
            return
        value = {IDENTITY: self.identity, AS_OF: now, MEASURED: measured or {}}
        data = json.dumps(value).encode()
        try:
            is_alone = self._value is not None and not self._shared
            if is_alone and _file(self.directory) != self._value:
                self._shared = True
                self.note(
                    "another server answers the queries of this checkpoint, too: each answers all, "
                    "and the next one goes on from where either was"
                )
            self.directory.replace(FILE, data)
            self._written, self._value = now, value
        except (OSError, MayflyError) as error:
            if not self._failed:
                self.note(f"a next server will not know what was answered: {error}")
            self._failed = True


def last_measured(directory: Directory) -> dict[str, Any]:
    """What the last server of a checkpoint measured, by stream; nothing if none has."""
    measured = _file(directory).get(MEASURED)
    return measured if isinstance(measured, dict) else {}


def _file(directory: Directory) -> dict[str, Any]:
    try:
        value = json.loads(directory.read(FILE)) if directory.exists(FILE) else {}
    except (OSError, ValueError, MayflyError):
        return {}
    return value if isinstance(value, dict) else {}


def _stored(directory: Directory, identity: str) -> dict[str, int]:
    value = _file(directory)
    if value.get(IDENTITY) != identity:
        return {}
    instants = value.get(AS_OF)
    if not isinstance(instants, dict):
        return {}
    return {str(name): as_of for name, as_of in instants.items() if type(as_of) is int}
