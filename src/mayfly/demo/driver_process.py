"""The driver process as seen from outside: start it, hear it, kill it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mayfly.demo.demo_settings import Places
from mayfly.errors import MayflyError

LAST_WORDS = 12


@dataclass
class DriverProcess:
    """One start of the driver; ``start`` counts them from 1."""

    places: Places
    start: int
    program: tuple[str, ...] = ("-m", "mayfly.demo.driver")
    _reports: queue.SimpleQueue[dict[str, Any]] = field(
        default_factory=queue.SimpleQueue, init=False
    )
    _process: subprocess.Popen[str] = field(init=False)
    _listener: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        with open(self.places.log(self.start), "wb") as log:
            # Its own group, so that the JVM dies with it and Ctrl-C reaches only the demo.
            self._process = subprocess.Popen(
                [sys.executable, *self.program, str(self.places.root)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env=_environment(self.places),
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def reports(self) -> Iterator[dict[str, Any]]:
        """What it reported since the last call; raises if it failed or is gone without a word."""
        code = self._process.poll()
        if code is not None:
            self._listener.join()
        while not self._reports.empty():
            report = self._reports.get()
            if report["kind"] == "failed":
                raise MayflyError(report["message"], report["hint"])
            yield report
        if code:
            raise MayflyError(
                f"the driver process ended by itself with code {code}{self._last_words()}",
                f"see {self.places.log(self.start)}",
            )

    def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("end\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL to Python and JVM: no clean-up, as if the machine had lost power."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._listener.join(timeout=5)
        if not self._listener.is_alive():  # a survivor may hold the other end
            self._process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._reports.put(json.loads(line))

    def _last_words(self) -> str:
        said = self.places.log(self.start).read_text(errors="replace").splitlines()
        return "".join(f"\n  {line}" for line in said[-LAST_WORDS:])


def _environment(places: Places) -> dict[str, str]:
    """Temporary files of Python, Spark and the JVM stay below the demo's directory."""
    scratch = str(places.scratch)
    return {
        **os.environ,
        "TMPDIR": scratch,
        "SPARK_LOCAL_DIRS": scratch,
        "JDK_JAVA_OPTIONS": f'"-Djava.io.tmpdir={scratch}" -XX:-UsePerfData',
    }
