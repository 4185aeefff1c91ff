"""Which status an error has, wherever in the server it is raised."""

from __future__ import annotations

from mayfly.errors import InvalidSetting

STATUS = {
    "NotThere": 404,
    "CqlError": 400,
    "InvalidSetting": 400,
    "BadInput": 400,
    "NotClosed": 409,
    "StaleAnswer": 409,
    "VersionExpired": 410,
    "LimitExceeded": 422,
    "MayflyError": 503,
}
"""By name, since only workers load the language; what is no refusal of ours is a fault."""


class NotThere(InvalidSetting):
    """A query that the pipeline does not have."""


def status_of(error: Exception) -> int:
    """That of its class, or of the nearest one it is made from."""
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((STATUS[name] for name in names if name in STATUS), 500)


def kind_of(error: Exception) -> str:
    """What clients get: the error that they would get from a reader in their own process."""
    return "InvalidSetting" if isinstance(error, NotThere) else type(error).__name__
