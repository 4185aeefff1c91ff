"""Aggregates that users write in Python: their names and types, and the class behind them.

An instance of the class is what is known of some values: ``add`` takes a row's values into it,
``merge`` those of another instance, ``result`` is the answer over them, and ``subtract``, if there
is one, undoes an ``add``. Plans and stored states know the name and the types; the class is beside
them and is never stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from types import CodeType, FunctionType
from typing import Any

from mayfly.errors import InvalidSetting
from mayfly.plan.types import DataType

METHODS = ("add", "merge", "result")
"""What a class must have."""


@dataclass(frozen=True)
class AggregateDefinition:
    """An aggregate by name: what it takes and gives, where its class is from."""

    name: str
    takes: tuple[DataType, ...]
    gives: DataType
    origin: str = ""
    """``module:Class``, as a file of statements says it."""
    code: type | None = field(default=None, compare=False, repr=False)
    """The class; None where a pipeline is only looked at."""

    kind = "aggregate"

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise InvalidSetting(
                f"{self.name!r} cannot name an aggregate",
                "use letters, digits and _, beginning with a letter",
            )
        if not self.takes:
            raise InvalidSetting(
                f"the aggregate {self.name} takes no values", "name the types of its arguments"
            )
        for kind in self.takes:
            if kind.is_nested or not kind.is_comparable:
                raise InvalidSetting(
                    f"the aggregate {self.name} cannot take values of type {kind}",
                    "take its members as arguments of their own",
                )
        if self.code is not None:
            check_code(self.name, self.code)

    @property
    def form(self) -> str:
        """How it is called."""
        return f"{self.name}({', '.join(map(str, self.takes))})"

    @property
    def subtracts(self) -> bool:
        return callable(getattr(self.code, "subtract", None))

    @cached_property
    def digest(self) -> str:
        """What stands for the code of the class as far as it can be seen in it."""
        classes = self.code.__mro__[:-1] if self.code is not None else ()
        parts = [
            (name, _words(member.__code__))
            for owner in classes
            for name, member in sorted(vars(owner).items())
            if isinstance(member, FunctionType)
        ]
        return sha256(repr(parts).encode()).hexdigest()

    def with_code(self, code: type) -> AggregateDefinition:
        return replace(self, code=code)


def check_code(name: str, code: Any) -> None:
    """Refuse what is no class with the methods of an aggregate."""
    if not isinstance(code, type):
        raise InvalidSetting(
            f"the aggregate {name} is given {code!r}, which is not a class",
            "give a class with add, merge and result",
        )
    missing = [method for method in METHODS if not callable(getattr(code, method, None))]
    if missing:
        raise InvalidSetting(
            f"the class {code.__name__} of the aggregate {name} has no {' and no '.join(missing)}",
            "define add(self, value, …), merge(self, other) and result(self)",
        )
    try:
        code()
    except Exception as error:  # whatever the user's class raises
        raise InvalidSetting(
            f"{code.__name__}() of the aggregate {name} fails: {type(error).__name__}: {error}",
            "an instance is made without arguments and stands for no values",
        ) from error


def _words(code: CodeType) -> tuple[Any, ...]:
    """What a function does: its instructions, names and constants, also of functions in it."""
    constants = [_words(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, constants
