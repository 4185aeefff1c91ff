"""Mayfly: continuous queries and archives over data that expires."""

from importlib import import_module
from typing import TYPE_CHECKING

from mayfly.errors import MayflyError

if TYPE_CHECKING:
    from mayfly.runtime.local_session import LocalSession
    from mayfly.serving.pipeline_places import open
    from mayfly.spark.api.session import Session
    from mayfly.spark.archive.data_source import register

__version__ = "0.1.0"
__all__ = ["LocalSession", "MayflyError", "Session", "__version__", "open", "register"]
_PLACES = {
    "LocalSession": "mayfly.runtime.local_session",
    "Session": "mayfly.spark.api.session",
    "open": "mayfly.serving.pipeline_places",
    "register": "mayfly.spark.archive.data_source",
}
"""What needs PySpark, or time, is imported only when it is asked for."""
_MODULES = ("archive", "client", "errors", "lifetime", "periodic", "synopses", "testing", "windows")


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    if name in _MODULES:
        return import_module(f"mayfly.{name}")
    raise AttributeError(f"module 'mayfly' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
