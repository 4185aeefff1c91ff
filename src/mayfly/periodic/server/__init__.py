"""A server in this process: periodic queries by deadline, isolated from updates."""

from mayfly.errors import StaleAnswer
from mayfly.periodic.server.outbox import Outbox
from mayfly.periodic.server.periodic_server import PeriodicServer
from mayfly.periodic.server.served_answer import (
    EvaluationWay,
    PendingAnswer,
    ServedAnswer,
    ServeOptions,
)
from mayfly.periodic.server.workers import Workers

__all__ = [
    "EvaluationWay",
    "Outbox",
    "PendingAnswer",
    "PeriodicServer",
    "ServeOptions",
    "ServedAnswer",
    "StaleAnswer",
    "Workers",
]
