"""Settings given by keyword: those that a function does not have, and values of another kind.

Python itself would raise a TypeError, which does not say what to give instead. An unknown setting
is refused with the nearest one that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, cast, is_typeddict

from mayfly.errors import InvalidSetting

F = TypeVar("F", bound=Callable[..., Any])


def known_settings(
    passed_on: Callable[..., object] | None = None, *, without: Iterable[str] = ()
) -> Callable[[F], F]:
    """Make a function refuse settings that it does not have, and the lack of those it needs.

    Where it passes settings on, ``passed_on`` says which: a ``TypedDict``, or the function that
    has them by keyword only, but those ``without`` which it gives itself. Its signature shows them.
    """

    def decorate(function: F) -> F:
        whole = signature(function)
        own = whole.parameters.values()
        arguments = [
            parameter for parameter in own if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
        ]
        names = [argument.name for argument in arguments]
        needed = [argument.name for argument in arguments if argument.default is Parameter.empty]
        any_number = any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in own)
        further = {} if passed_on is None else _settings(passed_on)
        left_out, settings = set(without), _settings(function)
        settings |= {n: p for n, p in further.items() if n not in left_out | settings.keys()}

        @wraps(function)
        def checked(*args: Any, **keywords: Any) -> Any:
            _check(settings, [name for name in keywords if name not in names])
            if len(args) > len(names) and not any_number:
                raise _too_many(function.__name__, args, names)
            if missing := [
                argument for argument in needed[len(args) :] if argument not in keywords
            ]:
                what = f"{function.__name__}: {', '.join(missing)} is missing"
                raise InvalidSetting(what, "give it")
            if twice := [argument for argument in names[: len(args)] if argument in keywords]:
                raise InvalidSetting(f"{', '.join(twice)} is given twice", "give it once")
            return function(*args, **keywords)

        if passed_on is not None:
            shown = [*arguments, *settings.values()]
            checked.__signature__ = whole.replace(parameters=shown)  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


def _too_many(function: str, args: tuple[Any, ...], names: list[str]) -> InvalidSetting:
    own = [name for name in names if name not in ("self", "cls")]
    return InvalidSetting(
        f"{function} was given {args[len(names)]!r} without a name",
        f"only {', '.join(own)} may be given without one; write the others as settings, name=…"
        if own
        else "leave it out",
    )


def check_settings(function: Callable[..., object], keywords: Mapping[str, object]) -> None:
    """Refuse settings that a function does not have, and the lack of those it needs."""
    _check(_settings(function), keywords)


def _settings(function: Callable[..., object]) -> dict[str, Parameter]:
    if is_typeddict(function):
        kinds = {
            name: annotation.__forward_arg__
            for name, annotation in function.__annotations__.items()
        }
        keyword = Parameter.KEYWORD_ONLY
        return {n: Parameter(n, keyword, default=..., annotation=k) for n, k in kinds.items()}
    parameters = signature(function).parameters
    return {
        n: parameter
        for n, parameter in parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


def _check(settings: Mapping[str, Parameter], keywords: Iterable[str]) -> None:
    names = list(keywords)
    for name in names:
        if name not in settings:
            hint = get_close_matches(name, settings, n=1)
            raise InvalidSetting(
                f"there is no setting {name}",
                f"did you mean {hint[0]}?" if hint else f"the settings are {', '.join(settings)}",
            )
    needed = [name for name, parameter in settings.items() if parameter.default is Parameter.empty]
    if missing := [name for name in needed if name not in names]:
        raise InvalidSetting(f"the setting {', '.join(missing)} is missing", "give it")


def whole(name: str, value: object) -> int:
    """A setting that must be a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSetting(f"{name} is {value!r}", "give a whole number")
    return value


def text(name: str, value: object) -> str:
    """A setting that must be a text."""
    if not isinstance(value, str):
        raise InvalidSetting(f"{name} is {value!r}", "give a text")
    if not value.isascii() and not _is_unicode(value):
        raise InvalidSetting(f"{name} is {value!a}: half of a pair is not Unicode", "leave it out")
    return value


def _is_unicode(value: str) -> bool:
    return value.encode(errors="ignore").decode() == value


def flag(name: str, value: object) -> bool:
    """A setting that is on or off."""
    if not isinstance(value, bool):
        raise InvalidSetting(f"{name} is {value!r}", "give True or False")
    return value


def names(name: str, value: object) -> tuple[str, ...]:
    """A setting that is one name or several."""
    listed = (value,) if isinstance(value, str) else value
    if not isinstance(listed, Iterable) or isinstance(listed, bytes | Mapping):
        raise InvalidSetting(f"{name} is {value!r}", "give a name, or a list of names")
    return tuple(text(name, entry) for entry in listed)
