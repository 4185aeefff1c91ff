"""Mayfly: continuous queries and archives over data that expires."""

from typing import TYPE_CHECKING

from mayfly.errors import MayflyError

if TYPE_CHECKING:
    from mayfly.runtime.local_session import LocalSession
    from mayfly.spark.api.session import Session
    from mayfly.spark.io.data_source import register

__version__ = "0.1.0"
__all__ = ["LocalSession", "MayflyError", "Session", "__version__", "register"]


def __getattr__(name: str) -> object:
    """Import what needs PySpark, or time, only when it is asked for."""
    if name == "LocalSession":
        from mayfly.runtime.local_session import LocalSession

        return LocalSession
    if name == "Session":
        from mayfly.spark.api.session import Session

        return Session
    if name == "register":
        from mayfly.spark.io.data_source import register

        return register
    raise AttributeError(f"module 'mayfly' has no attribute {name!r}")
