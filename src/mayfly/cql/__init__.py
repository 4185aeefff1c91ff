"""The query language: from text to logical plans and statements."""

from mayfly.cql.binder import bind_query
from mayfly.cql.free_conditions import bind_condition, bind_scalar
from mayfly.cql.messages import CqlError
from mayfly.cql.script import catalog_after, parse
from mayfly.cql.statements import (
    Create,
    Delete,
    Drop,
    Explain,
    ExplainSharing,
    Insert,
    OneTimeQuery,
    Show,
    Statement,
    Update,
)

__all__ = [
    "CqlError",
    "Create",
    "Delete",
    "Drop",
    "Explain",
    "ExplainSharing",
    "Insert",
    "OneTimeQuery",
    "Show",
    "Statement",
    "Update",
    "bind_condition",
    "bind_query",
    "bind_scalar",
    "catalog_after",
    "parse",
]
