"""Functions are compiled with their first call, together with those they call."""

from __future__ import annotations

import subprocess
import sys
import types

import numpy as np
import pytest

from mayfly.arrays.compilation import READ, Compiled, compiled

SOURCE = f"""
from mayfly.arrays.compilation import compiled

@compiled("int64(int64)")
def doubled(number):
    return 2 * number

@compiled({f"int64({READ})"!r})
def total(numbers):
    result = 0
    for number in numbers:
        result += doubled(number)
    return result
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> types.ModuleType:
    created = types.ModuleType("module_with_compiled_functions")
    file = f"{tmp_path}/module_with_compiled_functions.py"
    with open(file, "w", encoding="utf-8") as target:
        target.write(SOURCE)
    created.__file__ = file
    monkeypatch.setitem(sys.modules, created.__name__, created)
    exec(compile(SOURCE, file, "exec"), created.__dict__)
    return created


def test_nothing_is_compiled_before_the_first_call(module: types.ModuleType) -> None:
    assert isinstance(module.total, Compiled)
    assert isinstance(module.doubled, Compiled)


def test_a_call_puts_machine_code_in_place_of_a_function_and_of_those_it_calls(
    module: types.ModuleType,
) -> None:
    importing = types.ModuleType("importing_module")
    importing.__dict__["total"] = early = module.total
    sys.modules[importing.__name__] = importing
    try:
        assert module.total(np.array([1, 2, 3])) == 12
        assert importing.total is module.total is not early
    finally:
        del sys.modules[importing.__name__]
    assert not isinstance(module.doubled, Compiled)
    assert early(np.array([4])) == 8, "who imported it under another name may still call it"


def test_a_compiled_function_keeps_its_name_and_words() -> None:
    @compiled()
    def described(number: int) -> int:
        """What it does."""
        return number

    assert described.__name__ == "described"
    assert described.__doc__ == "What it does."


def test_workers_load_declared_functions_before_they_fork() -> None:
    program = (
        "import mayfly.kernels.join_pairs as module\n"
        "from mayfly.arrays.compilation import Compiled, load_compiled\n"
        "before = isinstance(module.first_at_least, Compiled)\n"
        "load_compiled()\n"
        "print(before, isinstance(module.first_at_least, Compiled))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.split() == ["True", "False"], run.stderr
