"""A Spark standalone cluster on 127.0.0.1, as processes of this machine, from the pip package.

    python scripts/local-cluster.py start FOLDER [--workers 2] [--cores 1] [--memory 1g]
    python scripts/local-cluster.py stop FOLDER

``start`` prints the master's URL, to be used as ``local_spark(master=URL)``. FOLDER gets the logs,
the work directories and ``cluster.json``: the URL and the process ids of master and workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

PATIENCE = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description="A Spark standalone cluster on 127.0.0.1.")
    parser.add_argument("action", choices=["start", "stop"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="per worker")
    parser.add_argument("--memory", default="1g", help="per worker")
    chosen = parser.parse_args()
    try:
        if chosen.action == "stop":
            stop(chosen.folder)
        else:
            print(start(chosen.folder, chosen.workers, chosen.cores, chosen.memory))
    except RuntimeError as error:
        print(f"local-cluster: {error}", file=sys.stderr)
        return 1
    return 0


def start(folder: Path, workers: int, cores: int, memory: str) -> str:
    """Start master and workers and wait until all have found each other; the master's URL."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "cluster.json").exists():
        raise RuntimeError(f"{folder} holds a running cluster: stop it first")
    processes: dict[str, int] = {}
    try:
        processes["master"] = spawn("master.Master", folder / "master.log")
        url = said(folder / "master.log", r"spark://127\.0\.0\.1:\d+")
        for number in range(1, workers + 1):
            name = f"worker{number}"
            size = ["--cores", str(cores), "--memory", memory]
            place = ["--work-dir", str(folder / name)]
            processes[name] = spawn("worker.Worker", folder / f"{name}.log", *size, *place, url)
        for number in range(1, workers + 1):
            said(folder / f"worker{number}.log", "Successfully registered with master")
    except BaseException:
        end(processes)
        raise
    (folder / "cluster.json").write_text(json.dumps({"url": url, "processes": processes}))
    return url


def spawn(role: str, log: Path, *arguments: str) -> int:
    """Start one daemon in a process group of its own; its executors are in that group too."""
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise RuntimeError("pyspark is not installed for this Python")
    home = Path(package.origin).parent
    daemon = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
    ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with open(log, "w") as output:
        process = subprocess.Popen(
            [*daemon, *ports, *arguments],
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return process.pid


def said(log: Path, pattern: str) -> str:
    """Wait for a line in a log."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[0]
        time.sleep(0.1)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
    raise RuntimeError(f"{log} does not say {pattern!r} within {PATIENCE:.0f} s:\n{tail}")


def stop(folder: Path) -> None:
    """End all processes of the cluster."""
    description = folder / "cluster.json"
    if description.exists():
        end(json.loads(description.read_text())["processes"])
        description.unlink()


def end(processes: dict[str, int]) -> None:
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        for process in processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, wanted)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(map(alive, processes.values())):
            time.sleep(0.1)


def alive(process: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
    try:
        os.killpg(process, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
