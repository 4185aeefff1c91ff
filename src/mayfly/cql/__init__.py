"""The query language: from text to logical plans and statements."""

from mayfly.cql.binding import bind_query
from mayfly.cql.messages import CqlError

__all__ = ["CqlError", "bind_query"]
