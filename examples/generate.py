"""Data for the example pipelines: ``python examples/generate.py [name …]``.

Writes ``in/<stream>/<number>.json`` beside each pipeline, the same rows every time.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
FILES = 4
Row = dict[str, Any]
HERE = Path(__file__).parent


def at(seconds: float) -> str:
    return (START + timedelta(seconds=round(seconds, 3))).isoformat().replace("+00:00", "Z")


def network(chance: Random) -> dict[str, list[Row]]:
    links: dict[str, list[Row]] = {"link1": [], "link2": [], "link3": []}
    for second in range(120):
        for rows in links.values():
            rows += [
                {
                    "ts": at(second + chance.random()),
                    "src": f"10.0.0.{chance.randint(1, 25)}",
                    "dst": f"192.168.0.{chance.randint(1, 9)}",
                    "protocol": chance.choice(("ftp", "telnet", "telnet", "http")),
                    "bytes": chance.randint(40, 1500),
                }
                for _ in range(chance.randint(0, 3))
            ]
    return links


def fraud(chance: Random) -> dict[str, list[Row]]:
    payments, approvals = [], []
    for second in range(0, 2400, 8):
        payments.append(
            {
                "ts": at(second),
                "card": f"c{chance.randint(1, 40)}",
                "shop": f"shop {chance.randint(1, 12)}",
                "country": chance.choice(("DE", "DE", "DE", "DE", "FR", "PL")),
                "amount": chance.randint(1, 1000),
            }
        )
        if chance.random() < 0.2:
            approvals.append({"ts": at(second), "card": f"c{chance.randint(1, 40)}"})
    payments.append({**payments[0], "shop": "forgotten"})
    return {"payments": payments, "approvals": approvals}


def sensors(chance: Random) -> dict[str, list[Row]]:
    readings = [
        {
            "ts": at(second + chance.randint(0, 20) - 20),
            "seq": second,
            "station": f"s{number}",
            "celsius": round(chance.uniform(15, 26), 1),
        }
        for second in range(20, 1200, 10)
        for number in (1, 2, 3)
        if not (number == 2 and 500 < second < 700)
    ]
    readings.append({"ts": at(3), "seq": 9999, "station": "s1", "celsius": 99.9})
    return {"readings": readings}


def auctions(chance: Random) -> dict[str, list[Row]]:
    opened, bids = [], []
    for second in range(300):
        if second % 20 == 0:
            number = second // 20
            opened.append(
                {
                    "ts": at(second),
                    "auction": number,
                    "seller": chance.choice(("ann", "bob")),
                    "category": chance.choice(("books", "art", "toys")),
                    "reserve": chance.randint(300, 800),
                }
            )
        bids += [
            {
                "ts": at(second + 0.1 * one),
                "auction": max(0, second // 20 - chance.randint(0, 3)),
                "bidder": chance.choice(("ann", "bob", "eve", "zoe")),
                "price": chance.randint(1, 1000),
            }
            for one in range(chance.randint(0, 3))
        ]
    return {"auctions": opened, "bids": bids}


def features(chance: Random) -> dict[str, list[Row]]:
    """Forty days of payments; a few customers pay in bursts."""
    payments, second = [], 0.0
    while second < 40 * 86_400:
        customer = chance.randint(1, 12)
        for _ in range(chance.choice((1, 1, 1, 6))):
            payments.append(
                {
                    "ts": at(second),
                    "customer": f"c{customer}",
                    "shop": f"shop {chance.randint(1, 20)}",
                    "country": chance.choice(("DE", "DE", "DE", "FR", "PL")),
                    "cents": chance.randint(99, 90_000),
                }
            )
            second += chance.randint(1, 40)
        second += chance.expovariate(1 / 14_400)
    return {"payments": payments}


EXAMPLES: dict[str, Callable[[Random], dict[str, list[Row]]]] = {
    "network": network,
    "fraud": fraud,
    "sensors": sensors,
    "auctions": auctions,
    "features": features,
}


def write(name: str, folder: Path) -> None:
    """The rows of an example as files, oldest first: Spark goes by modification time."""
    for stream, rows in EXAMPLES[name](Random(name)).items():
        target = folder / "in" / stream
        target.mkdir(parents=True, exist_ok=True)
        size = -(-len(rows) // FILES)
        for number in range(FILES):
            lines = [json.dumps(row) for row in rows[number * size : (number + 1) * size]]
            file = target / f"{number}.json"
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            os.utime(file, (1_000_000_000 + number, 1_000_000_000 + number))


if __name__ == "__main__":
    for chosen in sys.argv[1:] or EXAMPLES:
        write(chosen, HERE / chosen)
        print(f"wrote {HERE / chosen / 'in'}")
