"""Whether compiled functions can be kept on disk: not where no folder is writable."""

from __future__ import annotations

import numba


def _can_keep() -> bool:
    try:
        numba.njit(cache=True)(_can_keep)
    except RuntimeError:  # numba found no folder to keep it in
        return False
    return True


CACHED = _can_keep()
"""Without it functions are compiled anew in each process, which takes seconds."""
