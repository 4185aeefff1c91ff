"""Functions that numba compiles when they are first called.

Idea: numba and the machine code of all kernels take seconds to load, and a plan is made without
them; so a decorated function is only a stand-in until its first call. Invariant: what numba
compiles calls compiled functions only, and no module keeps a stand-in whose function is compiled.
Cost: none after the first call. Machine code is kept on disk where a folder is writable.

A process that answers once may have its first elements gone through by the functions as they are
written (``interpret_first``): for some thousands of them that takes less than to load numba.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import cache, update_wrapper
from threading import RLock
from typing import Any, Generic, Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Inline = Literal["never", "always"]

READ = "Array(int64, 1, 'C', readonly=True)"
"""An array that a function only reads, in a signature."""
WRITE = "Array(int64, 1, 'C')"
"""An array that a function fills or returns."""
_LOCK = RLock()
_pending: list[Compiled[..., Any]] = []


@cache
def can_keep() -> bool:
    """Whether machine code can be kept on disk; if not, each process compiles for seconds."""
    import numba

    try:
        numba.njit(cache=True)(can_keep.__wrapped__)
    except RuntimeError:  # numba found no folder to keep it in
        return False
    return True


class _Interpreter(threading.local):
    """Runs functions as they are written, as long as there are few elements."""

    def __init__(self) -> None:
        self.left = 0
        """Elements of arrays that may still be gone through."""
        self.depth = 0
        """Calls that are being run so: what they call is run so, too."""

    def takes(self, arguments: tuple[object, ...]) -> bool:
        if self.depth:
            return True
        if self.left <= 0:
            return False
        self.left -= 1 + sum(len(each) for each in arguments if hasattr(each, "__len__"))
        return self.left >= 0

    def run(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        import numpy as np

        self.depth += 1
        try:
            with np.errstate(over="ignore"):  # codes wrap around
                return function(*arguments, **named)
        finally:
            self.depth -= 1


_interpreter = _Interpreter()


def interpret_first(elements: int) -> None:
    """In this thread, do not load numba before so many elements were gone through."""
    _interpreter.left = elements


class Compiled(Generic[P, R]):
    """Stands for a function in its module, and in those that import it, until its first call."""

    def __init__(
        self, function: Callable[P, R], signature: str | None, inline: Inline, plain: bool
    ) -> None:
        update_wrapper(self, function)
        self.function, self.signature, self.inline = function, signature, inline
        self.plain = plain
        self._machine_code: Callable[P, R] | None = None
        _pending.append(self)

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        if self.plain and _interpreter.takes(arguments):
            return _interpreter.run(self.function, *arguments, **named)
        return self.load()(*arguments, **named)

    def load(self) -> Callable[P, R]:
        """The compiled function, which takes the place of this one everywhere."""
        if self._machine_code is None:
            with _LOCK:
                if self._machine_code is None:
                    self._machine_code = self._compile()
                    self._replace(self._machine_code)
        return self._machine_code

    def _compile(self) -> Callable[P, R]:
        import numba

        names = self.function.__globals__
        for name in self.function.__code__.co_names:
            if isinstance(callee := names.get(name), Compiled):
                names[name] = callee.load()
        decorate = numba.njit(self.signature, cache=can_keep(), nogil=True, inline=self.inline)
        machine_code: Callable[P, R] = decorate(self.function)
        return machine_code

    def _replace(self, machine_code: Callable[P, R]) -> None:
        _pending.remove(self)
        name = self.function.__name__
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get(name) is self:
                setattr(module, name, machine_code)


def compiled(
    signature: str | None = None, *, inline: Inline = "never", plain: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a function compiled, for the types of a signature in numba's words or of each call.

    One that is ``plain`` computes the same by NumPy's rules as by numba's, as do those it calls: no
    arithmetic with truth values, none that mixes signed and unsigned numbers.
    """

    def stand_in(function: Callable[P, R]) -> Callable[P, R]:
        return Compiled(function, signature, inline, plain)

    return stand_in


def load_compiled() -> None:
    """Load all functions whose types are declared in modules imported so far."""
    for function in [each for each in _pending if each.signature is not None]:
        function.load()
