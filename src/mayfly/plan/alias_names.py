"""Plans and expressions under other aliases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from mayfly.plan.expressions import Column


def with_aliases(value: Any, names: Mapping[str, str]) -> Any:
    """A node, or whatever nodes are made of, with these aliases under new names."""
    if isinstance(value, Column):
        return replace(value, relation=names.get(value.relation, value.relation))
    if isinstance(value, tuple):
        return tuple(with_aliases(part, names) for part in value)
    if isinstance(value, Enum) or not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {}
    for field in fields(value):
        if not field.init:
            continue
        old = getattr(value, field.name)
        new = names.get(old, old) if field.name == "alias" else with_aliases(old, names)
        if new is not old:
            changed[field.name] = new
    return replace(value, **changed) if changed else value
