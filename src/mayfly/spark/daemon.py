"""The process that Spark forks its Python workers from, with all that their tasks need loaded.

A worker that is forked bare spends two to three seconds on imports and compiled kernels, and a
pipeline has several workers. Only Spark starts this, by ``spark.python.daemon.module``: workers of
other kinds, such as those that plan data sources, are forked bare as ever.

After every task a worker collects garbage. What is loaded here is none, and is not looked through:
that would take a tenth of a second of each task, several times in a batch.
"""

from __future__ import annotations

import gc
import sys

import pyarrow as pa
from pyspark.daemon import manager

if __name__ == "__main__":
    if sys.argv[1:] == ["pyspark.worker"]:
        import mayfly.kernels.expression
        import mayfly.spark.archive.stream_sink
        import mayfly.spark.stream.stage_tasks  # noqa: F401
        from mayfly.arrays.compilation import load_compiled

        load_compiled()
        # Arrow loads pandas, where it is installed, at its first conversion to NumPy: half a
        # second, here once instead of in every worker.
        pa.nulls(1, pa.int64()).to_numpy(zero_copy_only=False)
        gc.collect()
        gc.freeze()
    manager()
