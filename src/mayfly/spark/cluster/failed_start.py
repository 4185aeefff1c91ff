"""Why Spark did not start, in one sentence and with advice that fits.

A JVM that cannot start says so among much else on its stderr, a Spark context that cannot be made
in an exception; both with stack traces, and both about what the user gave: a master, settings, or
a Java.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from mayfly.errors import InvalidSetting, MayflyError
from mayfly.spark.cluster.causes import said

MASTER_PATIENCE = 5.0
"""Seconds that a standalone master may take to accept a connection; Spark itself tries a minute."""
_STANDALONE = "spark://"
_GATEWAY = "JAVA_GATEWAY_EXITED"
_NO_JAVA = re.compile(
    r"JAVA_HOME is not set|bin/java: |java: (?:command )?not found|UnsupportedClassVersionError"
)
_MASTER = re.compile(r"\bmasters?\b", re.IGNORECASE)
_THROWN = re.compile(r'^(?:Exception in thread "main"|Caused by:) [\w.$]+: (.+)')
_NOISE = ("WARNING:", "::", "\t", "Ivy ", "The jars for ", "Using Spark's ", "Setting default log")
JAVA_HINT = "check that Java 17 or newer is installed and that JAVA_HOME, if set, points to it"
MASTER_HINT = "start it, or check the address: spark://HOST:PORT, local[CORES], yarn or k8s://…"


def check_master(master: str | None, patience: float = MASTER_PATIENCE) -> None:
    """Refuse a standalone master that does not answer; of several, one must."""
    if master is None or not master.startswith(_STANDALONE):
        return
    problem = ""
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 0xFFFF:
            raise InvalidSetting(
                f"the Spark master {master} is not a host and a port", "write spark://HOST:PORT"
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), patience).close()
            return
        except OSError as error:
            problem = error.strerror or str(error)
    raise InvalidSetting(f"the Spark master {master} does not answer: {problem}", MASTER_HINT)


def failed_start(
    error: Exception, stderr: str, master: str | None, settings: Mapping[str, str]
) -> MayflyError:
    """What is reported of a Spark that did not start; ``stderr`` is what its JVM printed."""
    raised = str(error).split("\n\nJVM stacktrace")[0]
    exited = _GATEWAY in raised
    why = (_printed(stderr) if exited else said(error)).removeprefix("requirement failed: ")
    text = "\n".join(
        line for line in (stderr if exited else raised).splitlines() if line[:1] != "\t"
    )
    if _NO_JAVA.search(text):
        return MayflyError(f"Spark did not start: {why}", JAVA_HINT)
    if master is not None and (_MASTER.search(why) or not settings):
        return InvalidSetting(f"Spark did not start with the master {master}: {why}", MASTER_HINT)
    if settings:
        named = _blamed(text, settings) or list(settings)
        phrase = f"the setting{'s' * (len(named) > 1)} {', '.join(named)}"
        options = " ".join(f"--conf {name}" for name in named)
        return InvalidSetting(
            f"Spark did not start with {phrase}: {why}", f"fix or leave out {options}"
        )
    return MayflyError(
        f"Spark did not start: {why}", "mayfly doctor checks Java, memory, disk and permissions"
    )


def _printed(stderr: str) -> str:
    """The line that tells why a JVM ended: the last error thrown, or the first that is no noise."""
    lines = stderr.splitlines()
    if thrown := [match[1] for line in lines if (match := _THROWN.match(line))]:
        return str(thrown[-1])
    messages = (line.strip() for line in lines if line.strip() and not line.startswith(_NOISE))
    return next(messages, "its Java process ended without a message")


def _blamed(text: str, settings: Mapping[str, str]) -> list[str]:
    """Settings whose name, or else whose value, occurs in what Spark says."""
    by_name = [name for name in settings if name in text]
    return by_name or [name for name, value in settings.items() if _occurs(value, text)]


def _occurs(value: str, text: str) -> bool:
    """A short value occurs in many a word, so it must stand alone."""
    if len(value) > 3:
        return value in text
    return bool(value) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None
