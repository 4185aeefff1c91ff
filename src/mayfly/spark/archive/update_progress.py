"""How far an update has come: parts written, told while the job runs.

Tasks count their part in a Spark accumulator when they are done with it; a thread of the driver
looks at it. Without a terminal and without a callback nothing is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PartsListener = Callable[[int, int], object]
"""Called with the parts written so far and all parts."""
LOOK_EVERY = 0.2


@contextmanager
def counted_parts(
    spark: SparkSession, label: str, parts: int, listener: PartsListener | None
) -> Iterator[Any]:
    """An accumulator for tasks to count parts in, or None if progress is not shown."""
    with _shown(label, parts, listener) as tell:
        if tell is None:
            yield None
            return
        counter = spark.sparkContext.accumulator(0)
        over = threading.Event()

        def look() -> None:
            while not over.wait(LOOK_EVERY):
                tell(min(counter.value, parts), parts)

        watcher = threading.Thread(target=look, name="mayfly-progress", daemon=True)
        watcher.start()
        try:
            yield counter
            tell(parts, parts)
        finally:
            over.set()
            watcher.join()


@contextmanager
def _shown(
    label: str, parts: int, listener: PartsListener | None
) -> Iterator[PartsListener | None]:
    console = Console(stderr=True)
    if listener is not None or not console.is_terminal:
        yield listener
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("parts"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=parts)
        yield lambda done, _: bar.update(task, completed=done)
