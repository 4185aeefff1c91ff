"""``mayfly init``: a first pipeline that runs as it is, with a little data to run it on."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from mayfly.cli.output import refusals
from mayfly.errors import InvalidSetting

FIRST = datetime(2026, 3, 1, 9, tzinfo=UTC)
FILES, SECONDS = 4, 150
CUSTOMERS, ARTICLES = ("ann", "bob", "eve", "zoe"), ("bread", "milk", "tea")
PIPELINE = """\
-- A first pipeline. Run it over the rows in in/, then stop:
--     mayfly run pipeline.cql --once
-- or let it wait for new files in in/orders and in/payments (Ctrl-C stops it, the same command
-- goes on where it stopped):
--     mayfly run pipeline.cql
-- See what the queries mean and cost, without running anything:
--     mayfly explain pipeline.cql

-- A stream: its columns, where rows come from, and which column is their time. Rows may come up to
-- SLACK out of order; later ones are counted, and set aside under late/.
CREATE STREAM orders (ts TIMESTAMP, customer STRING, article STRING, amount BIGINT)
  FROM json('in/orders', maxFilesPerTrigger => '1')
  TIMESTAMP BY ts
  SLACK 5 SECONDS
  DEAD LETTERS TO parquet('late/orders');

CREATE STREAM payments (ts TIMESTAMP, customer STRING, paid BIGINT)
  FROM json('in/payments', maxFilesPerTrigger => '1')
  TIMESTAMP BY ts
  SLACK 5 SECONDS;

-- A stored table to join with. A change of it would change the results, too.
CREATE RELATION customers (customer STRING, town STRING) KEY customer;
INSERT INTO customers VALUES ('ann', 'Kiel'), ('bob', 'Bonn'), ('eve', 'Kiel');

-- Every minute: what each town ordered in the last three minutes. Results go to Parquet files;
-- `exp` says until when each of them holds, `cut` that an earlier one ended sooner.
CREATE QUERY by_town TO parquet('out/by_town') AS
  SELECT c.town, COUNT(*) AS orders, SUM(o.amount) AS amount
  FROM orders [RANGE 3 MIN SLIDE 1 MIN] o, customers c
  WHERE o.customer = c.customer
  GROUP BY c.town;

-- At any time: orders of the last two minutes without a payment in the last minute.
CREATE QUERY unpaid TO parquet('out/unpaid') AS
  SELECT o.customer, o.article, o.amount FROM orders [RANGE 2 MIN] o
  WHERE NOT EXISTS (SELECT * FROM payments [RANGE 1 MIN] p WHERE p.customer = o.customer);

-- A message whenever the five latest orders of a customer come to more than 400.
CREATE QUERY large TO console() AS
  SELECT Istream(customer, SUM(amount) AS amount) FROM orders [PARTITION BY customer ROWS 5]
  GROUP BY customer HAVING SUM(amount) > 400;
"""


def init_command(
    folder: Annotated[Path, typer.Argument(help="Where to write it.", metavar="FOLDER")] = Path(),
) -> None:
    """Write a commented example pipeline with data; it runs as it is."""
    with refusals():
        file = folder / "pipeline.cql"
        taken = [path for path in (file, folder / "in") if path.exists()]
        if taken:
            raise InvalidSetting(
                f"{taken[0]} is there already", "name another folder: mayfly init my-pipeline"
            )
        for name, rows in example_rows().items():
            _write(folder / "in" / name, rows)
        file.write_text(PIPELINE, encoding="utf-8")
    typer.echo(f"wrote {file} and {folder / 'in'}\nnow run:  mayfly run {file} --once")


def example_rows() -> dict[str, list[dict[str, Any]]]:
    """A few minutes of orders and payments, the same every time."""
    chance = Random(7)
    orders, payments = [], []
    for second in range(0, FILES * SECONDS, 5):
        timestamp = (FIRST + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")
        customer = chance.choice(CUSTOMERS)
        amount = chance.randint(1, 150)
        orders.append(
            {
                "ts": timestamp,
                "customer": customer,
                "article": chance.choice(ARTICLES),
                "amount": amount,
            }
        )
        if second % 15 == 0:
            payments.append({"ts": timestamp, "customer": chance.choice(CUSTOMERS), "paid": amount})
    return {"orders": orders, "payments": payments}


def _write(folder: Path, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(parents=True)
    size = -(-len(rows) // FILES)
    for number in range(FILES):
        lines = [json.dumps(row) for row in rows[number * size : (number + 1) * size]]
        file = folder / f"{number}.json"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Spark takes files in the order of their modification times.
        written = file.stat().st_mtime - 60 * (FILES - number)
        os.utime(file, (written, written))
