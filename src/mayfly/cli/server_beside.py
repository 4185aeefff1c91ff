"""``mayfly run --serve``: a server in a process of its own, as long as the pipeline runs."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from mayfly.errors import InvalidSetting
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.plan.catalog import QueryDefinition

LAST_WORDS = 15
"""Seconds that the server has to answer what is committed, and to write that down."""
OWN = ("--port", "--sinks-of", "--beside", "--check")
"""Options that the run itself gives to the server."""
PLAIN = {"TYPER_USE_RICH": "0"}
"""So that a wrong call is refused in words without a frame."""


class ServerBeside:
    """Started with the first checkpoint that there is, and ended with the block.

    Idea: the server reads its standard input, a pipe without a writer: its end says that the
    pipeline has ended, in order or by a kill, and the server ends when it has answered what is
    committed. It has a session of its own, so Ctrl-C reaches the pipeline alone.
    """

    def __init__(
        self, checkpoint: Path, port: int, declared: PipelineFile, options: str = ""
    ) -> None:
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
        self.options = _checked(options)
        _check_port(port)
        self.checkpoint, self.port, self.file = checkpoint, port, declared.file
        if self.options:
            self._check_values(options)
        self.process: subprocess.Popen[bytes] | None = None
        self._announced = False

    def __enter__(self) -> ServerBeside:
        return self

    def start(self) -> None:
        """Start it, unless it runs."""
        if self.process is None or self.process.poll() is not None:
            self._end_input()
            command = [*self._command, "--beside"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    @property
    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "mayfly", "serve", str(self.checkpoint)]
        return [*command, "--port", str(self.port), "--sinks-of", str(self.file), *self.options]

    def _check_values(self, options: str) -> None:
        """Let the server look at its options: it would refuse them only when Spark has started."""
        command = [*self._command, "--check"]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | PLAIN)
        if done.returncode:
            refusal = done.stderr.rpartition("Error: ")[2].strip().removeprefix("mayfly: ")
            message, _, hint = refusal.partition("\n  → ")
            hint = hint or "mayfly serve --help lists the options"
            raise InvalidSetting(f"--serve-options {options!r}: {message}", hint)

    def look_after(self) -> str | None:
        """Start it again if a signal has ended it; one that ended by itself said why, and would
        say it again. What is to be said of that, once."""
        if self.process is None or self.process.poll() in (None, 0):
            return None
        if self.process.returncode < 0:
            self.start()
            return "the server was killed: another one takes over"
        if self._announced:
            return None
        self._announced = True
        return (
            "the server has ended, and the pipeline goes on without it: "
            f"mayfly serve {self.file} starts another one"
        )

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, with an error."""
        return self.process is not None and bool(self.process.poll())

    def _end_input(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is None:
            return
        self._end_input()
        try:
            self.process.wait(LAST_WORDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _checked(options: str) -> list[str]:
    """Options of ``mayfly serve``, as one text."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise InvalidSetting(f"--serve-options {options!r}: {error}", "close the quotes") from None
    for word in words:
        if word.partition("=")[0] in OWN:
            raise InvalidSetting(
                f"--serve-options {options!r} has {word}, which the run gives itself",
                "leave it out; the port is given by --serve-port",
            )
    return words


def _check_port(port: int) -> None:
    """Refuse a port that is in use before anything is started."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        raise InvalidSetting(
            f"--serve-port {port}: {error}", "choose another --serve-port, 0 for a free one"
        ) from None
