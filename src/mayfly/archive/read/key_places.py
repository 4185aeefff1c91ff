"""Which small files hold a key: asked of memory, not of hundreds of files.

Idea: layouts that never rebuild keep many small runs, and a key is in few of them. Of every small
file the hashes of its keys are kept, 32 bits a row; those of all files of a part lie in one array,
so that a probe compares once and opens only files that hold its key. Invariant: equal keys have
equal hashes, so no file is skipped that holds the key; one more may be opened in vain.
Cost: a comparison of 4 bytes per row of small files per probe, 8 bytes of memory per such row; the
hashes of a file are made once, when it is met a second time: files that are soon written anew are
often probed only once, and looking into one is cheaper than hashing all its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.archive.layouts.run_plan import Run
from mayfly.archive.model.key_order import order_key
from mayfly.kernels.codes import group_codes
from mayfly.kernels.lifetime_rows import whole
from mayfly.storage.checksum import check_file_once
from mayfly.storage.segment import ARROW_SUFFIX, Segment
from mayfly.storage.store import Store

SMALL, MANY = 50_000, 16
"""Files of at most so many rows are small; fewer than so many of them are looked at one by one."""
File = tuple[str, Run, Segment]
Hashes = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class KeyPlaces:
    """The files of a part, and of the small ones which hold which keys."""

    files: Sequence[File]
    others: npt.NDArray[np.intp]
    """The places in ``files`` of those that must be looked at."""
    small: npt.NDArray[np.intp]
    """The places of the small ones, whose hashes lie one after the other."""
    ends: npt.NDArray[np.intp]
    hashes: Hashes
    complete: bool
    """Whether no small file was met for the first time."""

    @staticmethod
    def of(files: Sequence[File], hashes_of: Callable[[Segment], Hashes | None]) -> KeyPlaces:
        """The places, given what is known of small files; None of one that is new."""
        small = [place for place, (_, _, segment) in enumerate(files) if segment.rows <= SMALL]
        if len(small) < MANY:
            small = []
        asked = {place: hashes_of(files[place][2]) for place in small}
        hashes_by_place = {place: hashes for place, hashes in asked.items() if hashes is not None}
        hash_arrays = list(hashes_by_place.values())
        places = np.array(list(hashes_by_place), np.intp)
        others = np.setdiff1d(np.arange(len(files)), places)
        ends = np.cumsum([len(array) for array in hash_arrays], dtype=np.intp)
        hashes = np.concatenate([np.empty(0, np.uint32), *hash_arrays])
        return KeyPlaces(files, others, places, ends, hashes, len(hashes_by_place) == len(small))

    def holding(self, hashes: Hashes) -> list[File]:
        """The files that may hold one of these keys, in their order."""
        rows = [np.flatnonzero(self.hashes == key_hash) for key_hash in hashes]
        owners = [self.small[np.searchsorted(self.ends, hits, side="right")] for hits in rows]
        return [self.files[place] for place in np.unique(np.concatenate([self.others, *owners]))]


def key_hashes(keys: pa.ChunkedArray) -> Hashes:
    """A hash of every value of the first key column."""
    ordered = order_key(keys)
    codes = group_codes([whole(ordered)], len(ordered)).view(np.uint64)
    mixed = codes * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(32)).astype(np.uint32)


_hashes: dict[str, Hashes | None] = {}
"""None of a file that was met once."""


def file_hashes(store: Store, name: str, checksum: str, key: str) -> Hashes | None:
    """The key hashes of a file that was met before, kept by its name, which is never used again."""
    path = f"{store.address}/{name}"
    if path not in _hashes:
        _hashes[path] = None
        return None
    hashes = _hashes.get(path)  # another thread may forget it at any time
    if hashes is None:
        check_file_once(store, name, checksum)
        with store.open(name, mapped=True) as source:
            if name.endswith(ARROW_SUFFIX):
                file = pa.ipc.open_file(source)
                batches = [file.get_batch(index) for index in range(file.num_record_batches)]
                keys = pa.chunked_array([batch.column(key) for batch in batches])
            else:
                keys = pq.ParquetFile(source).read(columns=[key], use_threads=False)[key]
            hashes = _hashes[path] = key_hashes(keys)
    return hashes


def forget_hashes(root: str, needed: Container[str]) -> None:
    """Keep nothing of files of an archive that its current version does not need."""
    beginning = f"{root}/"
    for path in list(_hashes):
        if path.startswith(beginning) and path.removeprefix(beginning) not in needed:
            _hashes.pop(path, None)
