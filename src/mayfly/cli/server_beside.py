"""``mayfly run --serve``: a server in a process of its own, as long as the pipeline runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from mayfly.errors import InvalidSetting
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.plan.catalog import QueryDefinition

LAST_WORDS = 15
"""Seconds that the server has to answer what is committed, and to write that down."""


class ServerBeside:
    """Started with the first checkpoint that there is, and ended with the block.

    Idea: the server reads its standard input, a pipe without a writer: its end says that the
    pipeline has ended, in order or by a kill, and the server ends when it has answered what is
    committed. It has a session of its own, so Ctrl-C reaches the pipeline alone.
    """

    def __init__(self, checkpoint: Path, port: int, declared: PipelineFile) -> None:
        served = [
            query
            for query in declared.queries.values()
            if isinstance(query, QueryDefinition) and query.plan.serve is not None
        ]
        if not served:
            raise InvalidSetting(
                f"--serve, and {declared.file.name} has no query with SERVE",
                "write CREATE QUERY name SERVE AS SELECT …, or leave --serve out",
            )
        self.checkpoint, self.port, self.file = checkpoint, port, declared.file
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ServerBeside:
        return self

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "mayfly", "serve", str(self.checkpoint), "--beside"]
            command += ["--port", str(self.port), "--sinks-of", str(self.file)]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def revive(self) -> bool:
        """Start it again if a signal has ended it; one that ended by itself said why, and would
        say it again."""
        if self.process is None or (self.process.poll() or 0) >= 0:
            return False
        self.start()
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(LAST_WORDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
