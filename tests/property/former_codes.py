"""Codes and buckets as they were in state formats 1 to 4: pandas' hashes, mixed in two ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pandas.util import hash_array

from mayfly.arrays.order import Int64s
from mayfly.checkpoint.code_upgrade import former_buckets
from mayfly.kernels import (
    codes,
    difference,
    distinct,
    group_by,
    group_members,
    outputs,
    window_assignment,
    window_join,
)
from mayfly.kernels.difference import ExceptAllRows
from mayfly.kernels.distinct import WeakDistinct
from mayfly.kernels.group_by import GroupRows
from mayfly.physical import stages

_today = codes.group_codes
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def place_codes(columns: Sequence[pa.Array], rows: int) -> Int64s:
    """Where rows went, and the codes of joins."""
    if len(columns) == 1:
        return group_codes(columns, rows)
    mixed = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        mixed = mixed * _GOLDEN + _hashes(column)
    return mixed.view(np.int64)


def group_codes(columns: Sequence[pa.Array], rows: int) -> Int64s:
    """The codes of groups, partitions and values."""
    if not columns or not rows:
        return np.zeros(rows, np.int64)
    if len(columns) == 1 and codes.are_exact([columns[0].type]):
        return _today(columns, rows)
    mixed = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _GOLDEN + _hashes(column)
    return mixed.view(np.int64)


def _hashes(key: pa.Array) -> npt.NDArray[np.uint64]:
    if pa.types.is_floating(key.type):
        values = key.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        values[np.isnan(values)] = np.nan
    elif codes.are_exact([key.type]):
        values = _today([key], len(key))
    else:
        values = np.array([str(value) for value in key.to_pylist()], dtype=object)
    missing = pc.is_null(key).to_numpy(zero_copy_only=False)
    return np.where(missing, codes.NULL_CODE.view(np.uint64), hash_array(values))


def restore(monkeypatch: pytest.MonkeyPatch, *, one_place: bool) -> None:
    """Everything is coded and placed as it was; ``one_place`` from format 3 on, when rows of groups
    went where joins sent them."""
    for module in (codes, window_join, stages):
        monkeypatch.setattr(module, "group_codes", place_codes)
    monkeypatch.setattr(stages, "buckets", former_buckets)
    for module in (group_by, group_members, distinct, difference, window_assignment, outputs):
        monkeypatch.setattr(module, "group_codes", group_codes)
    own = {GroupRows: group_by, WeakDistinct: distinct, ExceptAllRows: difference}
    for kind, module in own.items():
        if one_place:
            monkeypatch.setattr(kind, "spread_by", _by_place(kind, module))


def _by_place(kind: type[Any], module: ModuleType) -> Callable[[Any, pa.Table, int], Int64s | None]:
    spread_by = kind.spread_by

    def placed(self: Any, rows: pa.Table, side: int) -> Int64s | None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "group_codes", place_codes)
            found: Int64s | None = spread_by(self, rows, side)
            return found

    return placed
