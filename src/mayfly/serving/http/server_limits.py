"""What one request may take, and how much may go on at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mayfly.errors import InvalidSetting

MIB = 1 << 20


@dataclass(frozen=True)
class ServerLimits:
    """Beyond them a request is refused; others do not notice."""

    seconds: float = 30.0
    """In which an answer is made; its worker process is ended then."""
    rows: int = 100_000
    """Of an answer."""
    answer_bytes: int = 64 * MIB
    memory: int = 1024 * MIB
    """That a worker process may take beside what it has at its start."""
    body_bytes: int = 1 * MIB
    """Of a request."""
    workers: int = 2
    """Processes that answer: as many requests are worked on at once."""
    waiting: int = 32
    """Requests that may wait for a worker."""
    patience: float = 10.0
    """Seconds for which they may."""
    connections: int = 500
    followers: int = 200
    """Connections that follow changes."""
    receipt: float = 10.0
    """Seconds in which a request must have arrived."""
    stall: float = 30.0
    """Seconds for which a client may leave an answer unread."""
    event_rows: int = 10_000
    """Of one event of changes, unless one instant has more."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < float("inf"):
                raise InvalidSetting(f"the limit of {name} is {value}", "give more than 0")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
