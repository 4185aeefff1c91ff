from __future__ import annotations

from collections import Counter

import pyarrow as pa

from mayfly.testing import tcp_connections, tcp_links


def test_a_log_has_the_columns_of_a_connection_trace() -> None:
    log = tcp_connections(500)
    assert log.schema == pa.schema(
        {
            "ts": pa.timestamp("us", "UTC"),
            "src": pa.string(),
            "dst": pa.string(),
            "protocol": pa.string(),
            "bytes": pa.int64(),
        }
    )
    assert min(log["bytes"].to_pylist()) >= 40


def test_two_links_differ_but_share_their_busiest_sources() -> None:
    first, second = tcp_links(20_000, seed=3, sources=500)
    assert not first.equals(second)
    busiest = [
        [src for src, _ in Counter(log["src"].to_pylist()).most_common(3)]
        for log in (first, second)
    ]
    assert busiest[0] == busiest[1] == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]


def test_sources_are_skewed_and_protocols_all_occur() -> None:
    log = tcp_connections(20_000, sources=500, zipf=1.2)
    counts = [count for _, count in Counter(log["src"].to_pylist()).most_common()]
    assert counts[0] > 20 * counts[100]
    assert set(log["protocol"].to_pylist()) == {"http", "smtp", "ftp", "telnet", "dns", "ssh"}


def test_a_log_is_reproducible() -> None:
    assert tcp_links(100, seed=5)[1].equals(tcp_links(100, seed=5)[1])
    assert not tcp_links(100, seed=5)[0].equals(tcp_links(100, seed=6)[0])
