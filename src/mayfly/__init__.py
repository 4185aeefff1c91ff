"""Mayfly: continuous queries and archives over data that expires."""

from mayfly.errors import MayflyError

__version__ = "0.1.0"
__all__ = ["MayflyError", "Session", "__version__"]


def __getattr__(name: str) -> object:
    """Import the session, and with it PySpark, only when it is asked for."""
    if name == "Session":
        from mayfly.session import Session

        return Session
    raise AttributeError(f"module 'mayfly' has no attribute {name!r}")
