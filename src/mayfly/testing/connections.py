"""TCP connection logs of two links, in the shape of the traces sliding-window papers use."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.keywords import known_settings
from mayfly.lifetime import Duration
from mayfly.testing.columns import ranks
from mayfly.testing.seeded_streams import StreamSpec, generate

PROTOCOLS = ("http", "smtp", "ftp", "telnet", "dns", "ssh")
_SHARES = (0.55, 0.15, 0.08, 0.02, 0.15, 0.05)


def tcp_connections(
    rows: int,
    *,
    seed: int = 0,
    rate: float = 1_000.0,
    sources: int = 1_000,
    destinations: int = 5_000,
    zipf: float = 1.1,
    start: int = 0,
    slack: Duration = 0,
    disorder: float = 0.0,
) -> pa.Table:
    """One link's log: ``ts, src, dst, protocol, bytes``; sources and destinations follow Zipf.

    Links with different seeds share their addresses, so that they join on ``src``.
    """
    arrivals = generate(
        StreamSpec(
            rows, rate, keys=(), payload=(), start=start, slack=slack, disorder=disorder, seed=seed
        )
    )
    rng = np.random.default_rng((seed, 1))
    sizes = np.minimum(rng.lognormal(7.0, 1.8, rows), 1e9).astype(np.int64) + 40
    protocols = pa.array(PROTOCOLS).take(pa.array(rng.choice(len(PROTOCOLS), rows, p=_SHARES)))
    return pa.table(
        {
            "ts": arrivals["ts"],
            "src": _addresses(sources, "10.0", zipf, rows, rng),
            "dst": _addresses(destinations, "192.168", zipf, rows, rng),
            "protocol": protocols,
            "bytes": pa.array(sizes),
        }
    )


def _addresses(
    distinct: int, prefix: str, zipf: float, rows: int, rng: np.random.Generator
) -> pa.Array:
    names = pa.array([f"{prefix}.{i // 256}.{i % 256}" for i in range(distinct)])
    return names.take(pa.array(ranks(distinct, zipf, rows, rng)))


class LinkOptions(TypedDict, total=False):
    """What ``tcp_connections`` may be given by name, besides its seed."""

    rate: float
    sources: int
    destinations: int
    zipf: float
    start: int
    slack: Duration
    disorder: float


@known_settings(LinkOptions)
def tcp_links(
    rows: int, *, seed: int = 0, **settings: Unpack[LinkOptions]
) -> tuple[pa.Table, pa.Table]:
    """The logs of two links with ``rows`` connections each; settings as in tcp_connections."""
    return (
        tcp_connections(rows, seed=2 * seed, **settings),
        tcp_connections(rows, seed=2 * seed + 1, **settings),
    )


@known_settings(LinkOptions)
def record_links(
    rows: int,
    *,
    seed: int = 0,
    files: int = 4,
    folder: str | None = None,
    **settings: Unpack[LinkOptions],
) -> Path:
    """Parquet files of two links, ``link1`` and ``link2``, below a new folder; its path.

    A file stream reads them in the order of their modification times, which are set apart.
    """
    root = Path(folder or tempfile.mkdtemp(prefix="mayfly-links-"))
    for name, table in zip(("link1", "link2"), tcp_links(rows, seed=seed, **settings), strict=True):
        (root / name).mkdir(parents=True)
        size = -(-table.num_rows // files)
        for number in range(files):
            path = root / name / f"{number:04d}.parquet"
            pq.write_table(table.slice(number * size, size), path)
            os.utime(path, (number, number))
    return root
