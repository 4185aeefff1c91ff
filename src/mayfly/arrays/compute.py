"""``pyarrow.compute``, imported with the first use of a function of it.

It builds hundreds of functions when it is imported, and making a plan calls none of them.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute

    function = getattr(pyarrow.compute, name)
    globals()[name] = function
    return function
